"""Makes Triton's interpreter quicker, without a change to what it computes, and as strict as
compiled kernels are about the ends of loops.

It looks up the language's functions again at each call of a device function, builds a table
of dtypes for each tensor, and reduces and scans one element at a time where a function says
how two are combined. Here what is looked up is kept, and whole slices are combined, in the
same order. Only the process that interprets for the tests is changed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

ORIGINALS: dict[str, Any] = {}


def install() -> None:
    """Replace the slow parts, as far as this version of Triton has them."""
    for owner, name, made in (
        (interpreter, "_get_np_dtype", _kept_dtypes),
        (interpreter, "_patch_builtin", _kept_builtins),
        (interpreter.InterpretedFunction, "__call__", _unless_patched),
        (interpreter.ReduceOps, "generic_reduce", _reduced_by_slices),
        (interpreter.ScanOps, "generic_scan", _scanned_by_slices),
        (tl.core.tensor, "__init__", _kept_shapes),
        (tl.core.tuple, "__eq__", _equal_numbers),
    ):
        original = getattr(owner, name, None)
        if original is not None:
            ORIGINALS[name] = original
            setattr(owner, name, made(original))
    vars(interpreter)["range"] = _range_in_int32  # called for the language's loops, if not for all


def _range_in_int32(*ends: Any) -> range:
    """A loop's range, if what compiled kernels compute of its ends in int32 does not overflow."""
    positions = range(*ends)
    distance = positions.stop - positions.start
    if not -(1 << 31) <= distance < 1 << 31:
        raise OverflowError(f"a loop's ends differ by {distance}, more than int32 holds")
    return positions


def _kept_dtypes(original: Callable[[Any], np.dtype[Any]]) -> Callable[[Any], np.dtype[Any]]:
    known: dict[str, np.dtype[Any]] = {}

    def dtype_of(given: Any) -> np.dtype[Any]:
        if isinstance(given, tl.block_type):
            given = given.element_ty
        if isinstance(given, tl.pointer_type):
            return np.dtype(np.uint64)
        found = known.get(given.name)
        if found is None:
            found = known[given.name] = original(given)
        return found

    return dtype_of


def _kept_shapes(original: Callable[..., None]) -> Callable[..., None]:
    """A tensor's shape as constants of the language, once for all tensors of that shape."""
    known: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def init(tensor: Any, handle: Any, type: Any) -> None:
        shape = (*type.shape,) if type.is_block() else ()
        if shape in known:
            tensor.handle, tensor.type, tensor.dtype = handle, type, type.scalar
            tensor.numel, tensor.shape = known[shape]
        else:
            original(tensor, handle, type)
            known[shape] = tensor.numel, tensor.shape

    return init


def _equal_numbers(original: Callable[..., Any]) -> Callable[..., Any]:
    """Shapes are compared as they are where they hold nothing but numbers."""

    def equal(left: Any, right: Any) -> Any:
        if isinstance(right, tl.core.tuple) and all(type(n) is int for n in right.values):
            return tl.constexpr(left.values == right.values)
        return original(left, right)

    return equal


def _kept_builtins(original: Callable[..., None]) -> Callable[..., None]:
    names: dict[Any, list[str]] = {}

    def patch(package: Any, builder: Any, scope: Any) -> None:
        if package not in names:
            members = inspect.getmembers(package)
            names[package] = [n for n, m in members if tl.core.is_builtin(m)]
        for name in names[package]:
            member = getattr(package, name)
            if tl.core.is_builtin(member):
                interpreter._patch_attr(package, name, member, builder, scope)

    return patch


def _unless_patched(original: Callable[..., Any]) -> Callable[..., Any]:
    """Within a kernel's run, what a device function sees was replaced by that or an earlier one."""

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(function, "_sees"):
            seen = [m for m in function.fn.__globals__.values() if inspect.ismodule(m)]
            function._sees = [m for m in seen if m in (tl, tl.core)]
        sees = function._sees
        if not sees or any(
            tl.core.is_builtin(m.load) or tl.core.is_builtin(m.tensor.__add__) for m in sees
        ):
            return original(function, *args, **kwargs)
        try:
            return function.rewrite()(*args, **kwargs)
        except Exception as fault:
            raise interpreter.InterpreterError(repr(fault)) from fault

    return call


def _combined(function: Any, left: Iterable[Any], right: Iterable[Any]) -> Sequence[Any]:
    found = function.fn(*left, *right)
    return found if isinstance(found, tuple) else (found,)


def _data(value: Any) -> Any:
    if not isinstance(value, tl.core.tensor):
        return value
    data = value.handle.data
    return data if value.shape else data.item()


def _reduced_by_slices(original: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(self: Any, given: tuple[Any, ...]) -> Any:
        if self.axis is None:
            return original(self, given)
        dtypes = [x.dtype for x in given]
        parts = [np.moveaxis(x.handle.data, self.axis, 0) for x in given]
        results = [np.array(part[0]) for part in parts]
        for position in range(1, len(parts[0])):
            left = [self.to_tensor(r, d) for r, d in zip(results, dtypes, strict=True)]
            right = [self.to_tensor(p[position], d) for p, d in zip(parts, dtypes, strict=True)]
            found = _combined(self.combine_fn, left, right)
            for result, value in zip(results, found, strict=False):
                result[...] = _data(value)
        if self.keep_dims:
            results = [np.expand_dims(r, self.axis) for r in results]
        return [self.to_tensor(r, d) for r, d in zip(results, dtypes, strict=True)]

    return reduce


def _scanned_by_slices(original: Callable[..., Any]) -> Callable[..., Any]:
    def scan(self: Any, given: tuple[Any, ...]) -> Any:
        dtypes = [x.dtype for x in given]
        results = [x.handle.data.copy() for x in given]
        parts = [np.moveaxis(r, self.axis, 0) for r in results]
        for position in range(1, len(parts[0])):
            left = [self.to_tensor(p[position - 1], d) for p, d in zip(parts, dtypes, strict=True)]
            right = [self.to_tensor(p[position], d) for p, d in zip(parts, dtypes, strict=True)]
            found = _combined(self.combine_fn, left, right)
            for part, value in zip(parts, found, strict=False):
                part[position] = _data(value)
        return [self.to_tensor(r, d) for r, d in zip(results, dtypes, strict=True)]

    return scan
