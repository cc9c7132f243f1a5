"""Words of the command line as values: sizes, parameters, dtypes, names."""

from __future__ import annotations

import keyword
import math
import re
from argparse import Namespace
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from monocomp.declarations.assignments import read_pairs, read_sizes
from monocomp.declarations.dtypes import FLOATS, NARROW, dtype_of
from monocomp.errors import UsageError, require_known, shorten

if TYPE_CHECKING:
    from monocomp.declarations.records import Declarations

_WIDE = tuple(dtype for dtype in FLOATS if dtype not in NARROW)


def extents(options: Namespace) -> dict[str, int]:
    """`--extent`: sizes by the name of an index."""
    return read_sizes(options.extent)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if math.isinf(number) and "inf" not in text.lower():
        raise ValueError(text)  # such as 1e400
    return number


def params(options: Namespace) -> dict[str, int | float]:
    """`--param`: numbers by name."""
    return read_pairs(options.param, "NAME=VALUE", _number, "a number")


def refuse_unknown_params(declared: Declarations[Any], params: Mapping[str, Any]) -> None:
    """Raises UsageError for a parameter that the program lacks."""
    for name in params:
        is_none = f"the program has no parameter '{name}'"
        require_known(name, declared.params, is_none, "parameters")


def dtypes(options: Namespace) -> tuple[str | None, dict[str, str]]:
    """Split `bf16,K=e4m3,V=e4m3` into the dtype of all inputs and those of single ones."""
    words = [] if options.dtype is None else options.dtype.split(",")
    of_all = [w for w in words if "=" not in w]
    if len(of_all) > 1:
        raise UsageError(f"'{shorten(of_all[0])}' and '{shorten(of_all[1])}' for all inputs")
    of_one = read_pairs([w for w in words if "=" in w], "NAME=TYPE", str, "a dtype")
    named = {name: _dtype(given, FLOATS) for name, given in of_one.items()}
    return _dtype(of_all[0], _WIDE) if of_all else None, named


def by_input(
    declared: Declarations[Any], dtype: str | None, named: Mapping[str, str]
) -> dict[str, str | None]:
    """Return the dtype of each input; None: as it comes."""
    for name in named:
        require_known(name, declared.inputs, f"the program has no input '{name}'", "inputs")
    return {name: named.get(name, dtype) for name in declared.inputs}


def _dtype(text: str, known: Collection[str]) -> str:
    accepted = "accepted: bf16, fp16, fp32, fp64, and NAME=e4m3 or NAME=e5m2 for one input"
    return dtype_of(text, known, f"'{shorten(text)}' is no dtype for inputs", accepted)


def kernel_name(options: Namespace) -> str | None:
    """`--name`, if it can be one."""
    given: str | None = options.name
    if given is None:
        return None
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", given) or keyword.iskeyword(given):
        raise UsageError(
            f"'{shorten(given)}' cannot be a kernel's name",
            help="letters, digits and _, at most 64, and no digit first",
        )
    return given
