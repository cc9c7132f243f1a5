"""The plans of calls: what repeats a call, by its signature.

`Plans` keeps one for each: everything but the elements of tensors and the values of parameters that
only kernels read. A call that looks like an earlier one does what that did. Whether it looks like
the last one is tested at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from monocomp import terms as T
from monocomp.blocks import SMALL_INT
from monocomp.calls import autograd
from monocomp.calls.looks import ALIGNMENT, PLAIN, if_alike
from monocomp.declarations.given import cast, is_in_float32
from monocomp.declarations.records import Declarations
from monocomp.host.plan import Ran, Repeat

Signature: TypeAlias = tuple[Any, ...]
_PLANS = 256  # that a kernel keeps; the oldest go
_KINDS = {"int": int, "float": float}


@dataclass(frozen=True)
class Last:
    """The last call.

    Attributes:
        results: returns those of a call that looks like it, None for another one.
        ran: what it ran on.
    """

    results: Callable[..., tuple[Any, ...] | None]
    ran: Ran


class Plans:
    """A store of what repeats the calls of a kernel, by their signature.

    Args:
        declared: the program's inputs and parameters.

    Attributes:
        count: of inputs and parameters.
        names: of inputs, if these are all.
        is_recorded: would a call be recorded now, if a tensor required a gradient?
        last: the last call that is not recorded, and the last one that is, if there is one.
    """

    def __init__(self, declared: Declarations[T.Term]) -> None:
        self.inputs = len(declared.inputs)
        self.params = declared.params
        self.count = self.inputs + len(self.params)
        # None would pass for a parameter that is not given, but for no input.
        self.names = () if self.params else (*declared.inputs,)
        self.is_recorded: Callable[[], bool] = torch.is_grad_enabled
        of_extents = (t.attr for t in T.subterms(*declared.bounds.values()) if t.op == "param")
        self.fixed = {*of_extents}
        self._plans: dict[Signature | None, Repeat] = {}
        self.last: list[Last | None] = [None, None]  # not recorded, and recorded
        self._lock = threading.Lock()

    def of_call(self, values: Sequence[Any]) -> tuple[Sequence[Any], Repeat | None]:
        """Return the values of a call as autocast has them, and what repeats it, if it is known."""
        if autograd.is_watched():
            return values, None
        recorded, is_cast = autograd.is_grad_enabled(), autograd.is_cast()
        if is_cast:
            values = tuple(map(cast, values))
        repeat = self.find(values, recorded)
        if repeat is not None and not is_cast:
            self._remember(values, recorded, repeat)
        return values, repeat

    def _remember(self, values: Sequence[Any], recorded: bool, repeat: Repeat) -> None:
        """Let `last` be such a call, which nothing watches."""
        run, of_params, params = repeat.run, self._of_params, self._of_params(values)

        def with_params(*values: Any) -> tuple[Any, ...] | None:
            return run(*values) if of_params(values) == params else None

        how = (with_params, len(self.params)) if self.params else (run,)
        results = if_alike(values[: self.inputs], *how)
        if results is not None:
            self.last[recorded] = Last(results, repeat.ran)

    def find(self, values: Sequence[Any], recorded: bool = False) -> Repeat | None:
        """Return what repeats a call, if it has been kept for one that looks the same.

        Args:
            values: inputs, then parameters, each in their order, as they were given; None for a
                parameter that was not.
            recorded: is the call recorded, if a tensor requires a gradient?
        """
        return self._plans.get(self._signature(values, recorded))

    def keep(self, values: Sequence[Any], repeat: Repeat, recorded: bool = False) -> None:
        """Remember what repeats a call."""
        signature = self._signature(values, recorded)
        if signature is None:
            return
        with self._lock:
            while len(self._plans) >= _PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[signature] = repeat

    def varying(self, params: Mapping[str, object]) -> list[str]:
        """Return the parameters, of those that are given, whose values the plan for a call
        leaves open."""
        return [n for n, v in params.items() if self._varies(n, v)]

    def _signature(self, values: Sequence[Any], recorded: bool) -> Signature | None:
        """Return all that a plan depends on; None for a call that must be looked at closely.

        Of a tensor that is all that Triton compiles for; of an integer that only goes to
        kernels, what Triton distinguishes; of any other parameter, its value.
        """
        if len(values) != self.count:
            return None
        signature: list[Any] = []
        tensors = values[: self.inputs] if self.params else values
        try:
            for value in tensors:
                # The elements of a negative view are others than memory has.
                if type(value) not in PLAIN or value.is_neg():
                    return None
                signature += (
                    value.shape,
                    value.stride(),
                    value.dtype,
                    value.device,
                    value.data_ptr() % ALIGNMENT,
                    recorded and value.requires_grad,
                )
        except RuntimeError:  # a tensor without strides or storage
            return None
        params = self._of_params(values)
        return None if params is None else (*signature, *params)

    def _of_params(self, values: Sequence[Any]) -> Signature | None:
        """Return what a plan depends on of parameters; None if one is not a plain number."""
        signature: list[Any] = []
        if self.params:
            for name, value in zip(self.params, values[self.inputs :], strict=True):
                if value is None:
                    signature.append(None)
                elif type(value) in (int, float):
                    signature.append(self._signature_of(name, value))
                else:
                    return None
        return tuple(signature)

    def _varies(self, name: str, value: object) -> bool:
        return name not in self.fixed and type(value) is _KINDS[self.params[name].kind]

    def _signature_of(self, name: str, value: Any) -> Signature:
        if not self._varies(name, value):
            return type(value), value
        if type(value) is float:
            return (is_in_float32(value),)
        narrow, wide = -(1 << 31) <= value < 1 << 31, -(1 << 63) <= value < 1 << 63
        return value == 1, value % ALIGNMENT == 0, abs(value) < SMALL_INT, narrow, wide
