"""Kernels as operators of torch, for what traces calls: torch.compile, torch.export, torch.func.

    torch.ops.monocomp.causal_5d41402abc4b9a1c(Q, K, V)

An operator is registered once in a process, under the program's name and a digest of its text and
options, or when code asks for it that torch has kept from another process (`paths`). Gradients are
asked for in the dispatcher: there the operator calls another one, that of the program which also
returns what it saves. That one's backward pass is an operator in turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from monocomp.calls.autograd import wanted
from monocomp.calls.paths import find, operator_name
from monocomp.calls.recording import recorded
from monocomp.declarations.binding import extents_of
from monocomp.declarations.dtypes import dtypes_by_name, result_dtype
from monocomp.extents.intervals import evaluated

if TYPE_CHECKING:
    from monocomp.calls.calls import Calls

Names: TypeAlias = tuple[str, ...]
Results: TypeAlias = torch.Tensor | tuple[torch.Tensor, ...]
_LIBRARY = torch.library.Library("monocomp", "FRAGMENT")  # type: ignore[no-untyped-call]
_KINDS = {"float": "float", "int": "SymInt"}  # of parameters, in schemas
_OPERATORS: dict[tuple[str, Names], Operator] = {}
_DEFINED: set[str] = set()  # names that have been defined, or are about to be
_LOCK = threading.RLock()


class Operator:
    """A registered operator.

    Args:
        calls: what it calls.
        tensors: the parameters that it takes as tensors.

    Attributes:
        name: its own.
        names: of its arguments: inputs, then parameters, those that are tensors first.
    """

    def __init__(self, calls: Calls, tensors: Names) -> None:
        self.calls = calls
        name = self.name = operator_name(calls, tensors)
        declared = calls.declared
        others = (n for n in declared.params if n not in tensors)
        self.names = (*declared.inputs, *tensors, *others)
        self.kinds = calls.kinds
        arguments = [f"Tensor {n}_" for n in (*declared.inputs, *tensors)]
        for param in declared.params.values():
            if param.name not in tensors:
                kind = _KINDS[param.kind]
                is_required = param.default is None
                arguments.append(
                    f"{kind} {param.name}_" if is_required else f"{kind}? {param.name}_=None"
                )
        results = ", ".join(["Tensor"] * len(declared.outputs))
        _DEFINED.add(name)
        torch.library.define(
            f"monocomp::{name}",
            f"({', '.join(arguments)}) -> ({results})",
            lib=_LIBRARY,
            tags=(torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout),
        )
        for key, function in self._functions().items():
            _LIBRARY.impl(name, function, key)  # type: ignore[no-untyped-call]
        torch.library.register_fake(f"monocomp::{name}", self._outcome, lib=_LIBRARY)
        self.overload: torch._ops.OpOverload = getattr(torch.ops.monocomp, name).default

    def __call__(self, values: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        """Return the results for inputs and parameters by name."""
        results: Results = self.overload(*(values.get(n) for n in self.names))
        return results if isinstance(results, tuple) else (results,)

    def _functions(self) -> dict[str, Callable[..., Results]]:
        """Return the functions that run the operator, by dispatch key."""
        return {
            "CompositeExplicitAutograd": self._run,
            "Autograd": self._recorded,
            "FuncTorchDynamicLayerFrontMode": self._recorded,
        }

    def _values(self, args: Sequence[Any]) -> dict[str, Any]:
        return {n: a for n, a in zip(self.names, args, strict=False) if a is not None}

    def _run(self, *args: Any) -> Results:
        return _unpacked(self.calls.call(self._values(args)))

    def _recorded(self, *args: Any) -> Results:
        values = self._values(args)
        given = {n: v for n, v in values.items() if isinstance(v, torch.Tensor)}
        if wanted(self.kinds, given) is None:
            with torch._C._AutoDispatchBelowAutograd():
                results: Results = self.overload(*args)
                return results
        # What is asked for outside of what is traced here cannot be seen.
        wrt = tuple(n for n in given if self.kinds[n] == "float")
        forward = self.calls.forward(wrt, values)
        others = {n: v for n, v in values.items() if n not in given}
        return _unpacked(recorded(forward, given, others, may_be_transformed=True))

    def _outcome(self, *args: Any) -> Results:
        """Return tensors like the results."""
        values = self._values(args)
        declared, origin = self.calls.declared, self.calls.planner.equations.origin
        inputs = {n: values[n] for n in declared.inputs}
        params = {n: p.default for n, p in declared.params.items() if p.default is not None}
        params |= {n: values[n] for n in declared.params if n in values}
        shapes = {n: tuple(t.shape) for n, t in inputs.items()}
        extents = extents_of(declared, origin, shapes, params, evaluated)
        first = next(iter(inputs.values()))
        dtypes = dtypes_by_name(inputs)
        results = []
        for o, e in zip(declared.outputs, self.calls.planner.equations.outputs, strict=True):
            dtype = getattr(torch, result_dtype(declared, o, e.body.kind, dtypes))
            results.append(first.new_empty([extents[i.extent] for i in e.indices], dtype=dtype))
        return _unpacked(tuple(results))


def operator(calls: Calls, values: Mapping[str, Any]) -> Operator:
    """Return the operator for calls with these values: some parameters may be tensors."""
    params = calls.declared.params
    tensors = tuple(n for n in params if isinstance(values.get(n), torch.Tensor))
    with _LOCK:
        registered = _OPERATORS.get((calls.key, tensors))
        if registered is None:
            registered = _OPERATORS[calls.key, tensors] = Operator(calls, tensors)
    return registered


class _Operators(torch._ops._OpNamespace):
    """A namespace of operators: those that are registered, and those of kernels that exist."""

    __module__ = torch._ops._OpNamespace.__module__  # where operators say they are, if pickled

    def __getattr__(self, name: str) -> Any:
        with _LOCK:
            owner = None if name in _DEFINED else find(name)
            if owner is not None:
                calls, tensors = owner
                operator(calls, dict.fromkeys(tensors, torch.empty(0)))
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            raise AttributeError(
                f"there is no operator monocomp::{name}: code that torch has kept is of a kernel "
                "that is not there, or of another version of monocomp; "
                "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 has it compiled again"
            ) from error


setattr(torch.ops, "monocomp", _Operators("monocomp"))  # noqa: B010  # no attribute to mypy


def _unpacked(results: tuple[torch.Tensor, ...]) -> Results:
    return results[0] if len(results) == 1 else results
