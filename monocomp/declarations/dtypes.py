"""Dtypes by name: which backends load, and what `source` may be asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from monocomp.declarations.records import Declarations, Output
from monocomp.declarations.vocabulary import Kind
from monocomp.errors import UnsupportedDtypeError, did_you_mean, require_known

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "bool")
NARROW = ("float8_e4m3fn", "float8_e5m2")
FLOATS = ("float16", "bfloat16", "float32", "float64", *NARROW)
LOADED_BY_TRITON = ("float16", "bfloat16", "float32", *NARROW)
# The dtypes of floats as people call them.
_SPELLINGS = {
    **{name: name for name in FLOATS},
    **dict.fromkeys(("fp16", "f16", "half"), "float16"),
    "bf16": "bfloat16",
    **dict.fromkeys(("fp32", "f32", "float"), "float32"),
    **dict.fromkeys(("fp64", "f64", "double"), "float64"),
    **{"e4m3": NARROW[0], "e5m2": NARROW[1]},
}


def kind_of(dtype: str) -> Kind | None:
    """Return the kind of elements of a dtype, if inputs may have it."""
    if dtype not in (*INTEGERS, *FLOATS):
        return None
    return "float" if dtype in FLOATS else "bool" if dtype == "bool" else "int"


def dtypes_of(declared: Declarations[Any], dtype: str | Mapping[str, str]) -> dict[str, str]:
    """Return the dtypes of the inputs of floats, of one for all or some by name."""
    floats = [n for n, i in declared.inputs.items() if i.kind == "float"]
    if isinstance(dtype, str):
        return dict.fromkeys(floats, _loaded(dtype, narrow=False))
    for name in dtype:
        is_none = f"the program has no input of floats {name!r}"
        require_known(name, floats, is_none, "its inputs of floats")
    given = {n: _loaded(d, narrow=True) for n, d in dtype.items()}
    return {**dict.fromkeys(floats, "bfloat16"), **given}


def _loaded(name: str, *, narrow: bool) -> str:
    known = [d for d in LOADED_BY_TRITON if narrow or d not in NARROW]
    supported = "supported: bf16, fp16, fp32, and e4m3, e5m2 for inputs by name"
    return dtype_of(name, known, f"backend 'triton' has no dtype {name!r}", supported)


def dtype_of(name: str, known: Collection[str], message: str, accepted: str) -> str:
    """Return the dtype of a name; raise an error with this message and note if it is not known."""
    dtype = _SPELLINGS.get(name)
    if dtype is not None and dtype in known:
        return dtype
    names = [spelling for spelling, of in _SPELLINGS.items() if of in known]
    raise UnsupportedDtypeError(message, notes=(accepted,), help=did_you_mean(name, names))


def promoted(dtypes: Iterable[str]) -> str:
    """Return the dtype of what is computed from floats of these: floats of 8 bits have no say, and
    alone they give bfloat16."""
    given = set(dtypes)
    wide = given.difference(NARROW)
    if not wide:
        return "bfloat16" if given else "float32"
    return wide.pop() if len(wide) == 1 else "float64" if "float64" in wide else "float32"


def result_dtype(
    declared: Declarations[Any], output: Output, kind: Kind, dtypes: Mapping[str, str]
) -> str:
    """Return the dtype of a result of this kind, for inputs of these dtypes."""
    if output.dtype == "accumulated":
        products = promoted(dtypes[n] for n in declared.deciding)
        return "float64" if products == "float64" else "float32"
    if output.dtype is not None or kind != "float":
        return output.dtype or {"int": "int64", "bool": "bool"}[kind]
    return promoted(dtypes[n] for n in output.like or declared.deciding)


def widths(declared: Declarations[Any], dtypes: Mapping[str, str]) -> dict[str, int]:
    """Return the bytes of elements, by which schedules are chosen, for floats of these dtypes: side
    inputs, which decide nothing, count as if they had the dtype of products."""
    of_side = dict.fromkeys(declared.side, promoted(dtypes[n] for n in declared.deciding))
    return {n: itemsize(of_side.get(n, d)) for n, d in dtypes.items()}


def itemsize(dtype: str) -> int:
    """Return the bytes of a float."""
    return {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}.get(dtype, 1)


def dtypes_by_name(tensors: Mapping[str, Any]) -> dict[str, str]:
    """Return the dtypes of tensors."""
    return {n: str(t.dtype).removeprefix("torch.") for n, t in tensors.items()}


def is_narrow(tensor: Any) -> bool:
    """True if a tensor has floats of 8 bits."""
    return str(tensor.dtype).removeprefix("torch.") in NARROW
