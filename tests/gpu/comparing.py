"""Runs kernels beside eager torch, and compares both with eager torch in float64.

In 16 bits the error of a kernel is at most that of eager torch in the same dtype, plus a floor
that is far below the dtype's own rounding. Inputs are views into tensors of NaN.

With TRITON_INTERPRET=1, and without a GPU, the same tests run in Triton's interpreter, slowly:
a way to try them (`-k "causal and float32"`). It does not multiply bfloat16, so that what is to
run in 16 bits runs in float16 there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import Tensor

import monocomp as mc
from monocomp.kernel import Kernel
from tests.backends.running import largest_error
from tests.backends.tolerances import Bound

Inputs: TypeAlias = Mapping[str, Tensor]
Results: TypeAlias = tuple[Tensor, ...]
ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
REPEATS = 50 if ON_GPU else 2
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
BITS16 = torch.bfloat16 if ON_GPU else torch.float16
# In 16 bits what counts is the rounding of the result, which either may do a little better; in
# float32 it is the order of sums: logits of 50 are rounded by 2e-6 and more.
BOUNDS = {
    torch.float16: Bound(1.0, 1e-5),
    torch.bfloat16: Bound(1.0, 1e-4),
    torch.float32: Bound(2.0, 1e-5),
}
PADDING = 16  # elements: a multiple of what vectors of loads align to, so that views do


def check(found: Results, wanted: Results, eager: Results, bound: Bound | None = None) -> None:
    """Assert that floats are no worse than eager torch's, and that others are equal."""
    for f, w, e in zip(found, wanted, eager, strict=True):
        if not f.is_floating_point():
            assert torch.equal(f.to(w.dtype), w)
            continue
        assert largest_error(e, w) < torch.inf, "eager torch cannot do this"
        (bound or BOUNDS[f.dtype]).check(f, w, e)


# --- inputs ---------------------------------------------------------------------------------


def in_nan(tensor: Tensor, padding: int = PADDING) -> Tensor:
    """The same values on the device, in a larger tensor of NaN.

    Strides and the offset are multiples of 16 where those of a contiguous tensor are, so that
    all these layouts have one compiled kernel.
    """
    if not tensor.dim():
        return tensor.to(DEVICE)
    shape = [*(n + 2 for n in tensor.shape[:-1]), tensor.shape[-1] + 2 * padding]
    around = tensor.new_empty(shape, device=DEVICE)
    around.fill_(_poison(tensor.dtype))
    inside = [slice(1, n + 1) for n in tensor.shape[:-1]]
    view = around[(*inside, slice(padding, padding + tensor.shape[-1]))]
    return view.copy_(tensor)


def _poison(dtype: torch.dtype) -> float | int | bool:
    """What must not be read."""
    if dtype.is_floating_point:
        return torch.nan
    return True if dtype == torch.bool else torch.iinfo(dtype).min


def all_in_nan(inputs: Inputs, padding: int = PADDING) -> dict[str, Tensor]:
    """Each input in NaN."""
    return {n: in_nan(t, padding) for n, t in inputs.items()}


def in_precision(inputs: Inputs, dtype: torch.dtype) -> dict[str, Tensor]:
    """Floats in a dtype, all on the device."""
    moved = {n: t.to(DEVICE) for n, t in inputs.items()}
    return {n: t.to(dtype) if t.is_floating_point() else t for n, t in moved.items()}


# --- results --------------------------------------------------------------------------------


@cache
def kernel(text: str, name: str) -> Kernel:
    """A kernel. Where no GPU says how many processors it has, it has those of an H200."""
    if ON_GPU:
        return mc.compile(text, name=name)
    return mc.compile(text, name=name, backend="triton", processors=132)


def run(text: str, name: str, inputs: Inputs, **params: Any) -> Results:
    """A kernel's results, always as a tuple."""
    found = kernel(text, name)(**inputs, **params)
    return found if isinstance(found, tuple) else (found,)


def both(
    formula: Callable[..., Tensor | tuple[Tensor, ...]], inputs: Inputs, dtype: torch.dtype
) -> tuple[Results, Results]:
    """What eager torch gives in float64 and in a dtype, for inputs of that dtype."""
    exact = formula(**in_precision(inputs, torch.float64))
    usual = formula(**in_precision(inputs, dtype))
    return _tuple(exact), _tuple(usual)


def _tuple(results: Tensor | Sequence[Tensor]) -> Results:
    return (results,) if isinstance(results, Tensor) else tuple(results)
