"""Kernels of single operations, for Triton's interpreter."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def elements(x_ptr, y_ptr, result_ptr, KIND: tl.constexpr):  # type: ignore[no-untyped-def]
    """An operation on two rows of 64."""
    at = tl.arange(0, 64)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    if KIND == "add":
        z = x + y
    elif KIND == "sub":
        z = x - y
    elif KIND == "mul":
        z = x * y
    elif KIND == "div":
        z = x / y
    elif KIND == "maximum":
        z = tl.maximum(x, y)
    elif KIND == "minimum":
        z = tl.minimum(x, y)
    else:
        z = x < y
    tl.store(result_ptr + at, z.to(tl.bfloat16))


@triton.jit
def convert(x_ptr, result_ptr, COUNT: tl.constexpr = 64):  # type: ignore[no-untyped-def]
    """A row in the dtype of another."""
    at = tl.arange(0, COUNT)
    tl.store(result_ptr + at, tl.load(x_ptr + at).to(result_ptr.dtype.element_ty))
