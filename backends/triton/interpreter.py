"""Triton's interpreter, with a bfloat16 that is computed with as on a GPU.

The interpreter of Triton 3.6 and 3.7 keeps bfloat16 as its bits: products, sums, comparisons and
functions take these for whole numbers, conversions to bfloat16 cut off what they should round, and
conversions to and from other types than float32 convert the bits. Nothing says so. Here what takes
a bfloat16 takes it widened to float32, and a result that should be bfloat16 is rounded to the
nearest one. Loads, stores and what only moves elements are as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

_ELEMENTWISE = (
    *("create_fadd", "create_fsub", "create_fmul", "create_fdiv", "create_precise_divf"),
    *("create_frem", "create_fma", "create_clampf", "create_minimumf", "create_maximumf"),
    *("create_minnumf", "create_maxnumf", "create_cos", "create_sin", "create_exp", "create_exp2"),
    *("create_log", "create_log2", "create_sqrt", "create_precise_sqrt", "create_rsqrt"),
    *("create_erf", "create_floor", "create_ceil"),
)
_COMPARISONS = tuple(n for n in vars(InterpreterBuilder) if n.startswith("create_fcmp"))


@cache
def mend() -> None:
    """Let this process' interpreter compute with bfloat16; further calls do nothing."""
    for name in (*_ELEMENTWISE, *_COMPARISONS):
        if hasattr(InterpreterBuilder, name):
            function = getattr(InterpreterBuilder, name)
            rounds = name in _ELEMENTWISE
            setattr(InterpreterBuilder, name, _widened(function, rounds))
    for name in ("cast_impl", "create_fp_to_fp"):
        setattr(InterpreterBuilder, name, _converted(getattr(InterpreterBuilder, name)))
    InterpreterBuilder.create_dot = _product(InterpreterBuilder.create_dot)


def _is_bfloat16(x: object) -> bool:
    return isinstance(x, TensorHandle) and x.dtype.scalar == tl.bfloat16


def _wide(x: Any) -> Any:
    """Return a tensor in float32, if it is one of bfloat16."""
    if not _is_bfloat16(x):
        return x
    return TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32)


def _narrow(x: Any) -> Any:
    """Return a tensor of float32 rounded to bfloat16, to even halfway."""
    bits = np.ascontiguousarray(x.data, np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) >> 16
    rounded = np.where(np.isnan(x.data), 0x7FC0, rounded)
    return TensorHandle(rounded.astype(np.uint16), tl.bfloat16)


def _widened(function: Callable[..., Any], rounds: bool) -> Callable[..., Any]:
    @wraps(function)
    def widened(self: Any, *args: Any) -> Any:
        result = function(self, *map(_wide, args))
        return _narrow(result) if rounds and any(map(_is_bfloat16, args)) else result

    return widened


def _converted(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def converted(self: Any, src: Any, dst_type: Any, *more: Any) -> Any:
        if dst_type.scalar != tl.bfloat16:
            return function(self, _wide(src), dst_type, *more)
        if src.dtype.scalar.primitive_bitwidth == 8 and src.dtype.scalar.is_floating():
            return function(self, src, dst_type, *more)  # every one is a bfloat16
        if _is_bfloat16(src):
            return src
        return _narrow(TensorHandle(src.data.astype(np.float32), tl.float32))

    return converted


def _product(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def product(self: Any, a: Any, b: Any, d: Any, *more: Any) -> Any:
        result = function(self, _wide(a), _wide(b), _wide(d), *more)
        return _narrow(result) if _is_bfloat16(d) else result

    return product
