"""Kernels as operators of torch, for what traces calls: torch.compile, torch.export, torch.func.

    torch.ops.monocomp.causal_5d41402abc4b(Q, K, V)

An operator is registered once in a process, under the program's name and a digest of its text and
options. Gradients are asked for in the dispatcher: there the operator calls another one, that of
the program which also returns what it saves. That one's backward pass is an operator in turn.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch

from monocomp.arguments import cast
from monocomp.autograd import Transformed, recorded, wanted
from monocomp.backends.torch import promoted
from monocomp.binding import extents_of, signature
from monocomp.calls import Calls, of_key
from monocomp.dtypes import is_narrow
from monocomp.intervals import evaluated

Names: TypeAlias = tuple[str, ...]
Results: TypeAlias = torch.Tensor | tuple[torch.Tensor, ...]
_LIBRARY = torch.library.Library("monocomp", "FRAGMENT")
_OPERATORS: dict[tuple[str, Names], Operator] = {}
_LOCK = threading.RLock()
_TENSOR = torch.empty(0)
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_traced(values: Mapping[str, Any]) -> bool:
    """Is a call not to be run, or not on these tensors themselves?"""
    if torch._C._len_torch_dispatch_stack():
        return True
    tensors = (v for v in values.values() if isinstance(v, torch.Tensor))
    return any(type(t) not in _PLAIN for t in tensors)


def traced(key: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Results:
    """A call while Dynamo looks at it: that of an operator, with the same arguments."""
    tensors = [n for n, v in kwargs.items() if isinstance(v, torch.Tensor)]
    name = _name(key, len(args), ",".join(kwargs), ",".join(tensors))
    given = {f"{n}_": cast(v) for n, v in kwargs.items()}
    found: Results = getattr(torch.ops.monocomp, name)(*map(cast, args), **given)
    return found


@torch._dynamo.assume_constant_result  # type: ignore[misc, no-untyped-call]
def _name(key: str, args: int, kwargs: str, tensors: str) -> str:
    """The name of an operator, which is registered."""
    calls = of_key(key)
    # The errors of any call.
    names = [n for n in kwargs.split(",") if n]
    signature(calls.declared, [None] * args, dict.fromkeys(names))
    return operator(calls, dict.fromkeys(tensors.split(","), _TENSOR)).name


class Operator:
    """A registered operator.

    Args:
        calls: what it calls.
        tensors: the parameters that it takes as tensors.

    Attributes:
        name: its own.
        names: of its arguments: inputs, then parameters.
    """

    def __init__(self, calls: Calls, tensors: Names) -> None:
        self.calls = calls
        origin = calls.planner.equations.origin
        name = self.name = "_".join([origin.name or "kernel", calls.key, *tensors])
        declared = calls.declared
        self.names = (*declared.inputs, *declared.params)
        self.kinds = calls.kinds
        arguments = [f"Tensor {n}_" for n in declared.inputs]
        for param in declared.params.values():
            kind = {"float": "float", "int": "SymInt", "bool": "bool"}[param.kind]
            kind = "Tensor" if param.name in tensors else kind
            absent = "" if param.default is None or kind == "Tensor" else "? "
            arguments.append(
                f"{kind} {param.name}_" if not absent else f"{kind}? {param.name}_=None"
            )
        results = ", ".join("Tensor" for _ in declared.outputs)
        results = results if len(declared.outputs) == 1 else f"({results})"
        torch.library.define(
            f"monocomp::{name}",
            f"({', '.join(arguments)}) -> {results}",
            lib=_LIBRARY,
            tags=(torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout),
        )
        _LIBRARY.impl(name, self._run, "CompositeExplicitAutograd")
        for key in ("Autograd", "FuncTorchDynamicLayerFrontMode"):
            _LIBRARY.impl(name, self._recorded, key)
        torch.library.register_fake(f"monocomp::{name}", self._outcome, lib=_LIBRARY)
        self.overload = getattr(torch.ops.monocomp, name).default

    def __call__(self, values: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        """The results for inputs and parameters by name."""
        found: Results = self.overload(*(values.get(n) for n in self.names))
        return found if isinstance(found, tuple) else (found,)

    def _values(self, args: Sequence[Any]) -> dict[str, Any]:
        return {n: a for n, a in zip(self.names, args, strict=False) if a is not None}

    def _run(self, *args: Any) -> Results:
        return _unpacked(self.calls.call(self._values(args)))

    def _recorded(self, *args: Any) -> Results:
        values = self._values(args)
        given = {n: v for n, v in values.items() if isinstance(v, torch.Tensor)}
        if wanted(self.kinds, given) is None:
            with torch._C._AutoDispatchBelowAutograd():
                found: Results = self.overload(*args)
                return found
        # What is asked for outside of what is traced here cannot be seen.
        forward = self.calls.forward(tuple(n for n in given if self.kinds[n] == "float"))
        others = {n: v for n, v in values.items() if n not in given}
        return _unpacked(recorded(forward, given, others, Transformed))

    def _outcome(self, *args: Any) -> Results:
        """Tensors like the results."""
        values = self._values(args)
        declared, origin = self.calls.declared, self.calls.planner.equations.origin
        inputs = {n: values[n] for n in declared.inputs}
        params = {n: values.get(n, p.default) for n, p in declared.params.items()}
        shapes = {n: tuple(t.shape) for n, t in inputs.items()}
        extents = extents_of(declared, origin, shapes, params, evaluated)
        floats = [t for t in inputs.values() if t.is_floating_point()]
        wide = [t for t in floats if not is_narrow(t)]
        dtypes = {
            "float": promoted(wide, "float32" if len(wide) == len(floats) else "bfloat16"),
            "int": torch.int64,
            "bool": torch.bool,
            "accumulated": promoted([t for t in floats if t.dtype == torch.float64], "float32"),
        }
        first = next(iter(inputs.values()))
        results = []
        for o, e in zip(declared.outputs, self.calls.planner.equations.outputs, strict=True):
            dtype = dtypes.get(o.dtype or e.body.kind) or getattr(torch, str(o.dtype))
            results.append(first.new_empty([extents[i.attr[1]] for i in e.indices], dtype=dtype))
        return _unpacked(tuple(results))


def operator(calls: Calls, values: Mapping[str, Any]) -> Operator:
    """The operator for calls with these values: some parameters may be tensors."""
    params = calls.declared.params
    tensors = tuple(n for n in params if isinstance(values.get(n), torch.Tensor))
    with _LOCK:
        found = _OPERATORS.get((calls.key, tensors))
        if found is None:
            found = _OPERATORS[calls.key, tensors] = Operator(calls, tensors)
    return found


def _unpacked(results: tuple[torch.Tensor, ...]) -> Results:
    return results[0] if len(results) == 1 else results
