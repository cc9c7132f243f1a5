"""Runs kernels beside eager torch, compares both with eager torch in float64, and counts.

In 16 bits the error of a kernel is at most that of eager torch in the same dtype, plus a floor
that is far below the dtype's own rounding. Inputs are views into tensors of NaN.

With TRITON_INTERPRET=1, and without a GPU, the same tests run in Triton's interpreter, slowly:
a way to try them (`-k "causal and float32"`). It does not multiply bfloat16, so that what is to
run in 16 bits runs in float16 there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import Tensor

import monocomp as mc
from monocomp.kernel import Kernel
from tests.backends.running import largest_error, scale_of

Inputs: TypeAlias = Mapping[str, Tensor]
Results: TypeAlias = tuple[Tensor, ...]
ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
REPEATS = 50 if ON_GPU else 2
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
BITS16 = torch.bfloat16 if ON_GPU else torch.float16
# How often eager torch's error a kernel's may be, and by how much it may exceed that, in units of
# the largest result. In 16 bits what counts is the rounding of the result, which either may do a
# little better; in float32 it is the order of sums: logits of 50 are rounded by 2e-6 and more.
RATIO = {torch.float16: 1.0, torch.bfloat16: 1.0, torch.float32: 2.0}
FLOOR = {torch.float16: 1e-5, torch.bfloat16: 1e-4, torch.float32: 1e-5}
PADDING = 16  # elements: a multiple of what vectors of loads align to, so that views do


@dataclass
class Tally:
    """What has been compared, and the worst that was found."""

    programs: set[str] = field(default_factory=set)
    dtypes: set[str] = field(default_factory=set)
    shapes: set[str] = field(default_factory=set)
    compilations: int = 0
    results: int = 0
    worst: float = 0.0
    where: str = ""

    def check(
        self,
        case: str,
        shape: object,
        found: Results,
        wanted: Results,
        eager: Results,
        floor: float | None = None,
    ) -> None:
        """Assert that results are no worse than eager torch's, and remember by how much.

        Integers are equal to the ones wanted. `floor` is an error that is right in any case.
        """
        floats = [f.dtype for f in found if f.is_floating_point()]
        self.programs.add(case)
        self.dtypes.update(str(d) for d in floats)
        self.shapes.add(str(shape))
        assert len(found) == len(wanted) == len(eager)
        for number, (f, w, e) in enumerate(zip(found, wanted, eager, strict=True)):
            where = f"{case}, output {number}, {str(f.dtype).removeprefix('torch.')}, {shape}"
            self.results += 1
            if not f.is_floating_point():
                assert torch.equal(f.to(w.dtype), w), where
                continue
            usual = largest_error(e, w)
            assert usual < torch.inf, f"{where}: eager torch cannot do this"
            allowed = RATIO[f.dtype] * usual + (
                FLOOR[f.dtype] if floor is None else floor
            ) * scale_of(w)
            error = largest_error(f, w)
            ratio = error / allowed if error else 0.0
            if ratio > self.worst:
                self.worst, self.where = ratio, where
            assert ratio <= 1, f"{where}: error {error:.2e}, eager torch {usual:.2e}"

    def add(self, other: Tally) -> None:
        """Count what another has counted too."""
        for mine, others in zip(self._sets(), other._sets(), strict=True):
            mine |= others
        self.compilations += other.compilations
        self.results += other.results
        if other.worst > self.worst:
            self.worst, self.where = other.worst, other.where

    def _sets(self) -> tuple[set[str], set[str], set[str]]:
        return self.programs, self.dtypes, self.shapes

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {n: sorted(v) if isinstance(v, set) else v for n, v in vars(self).items()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Tally:
        """From plain data."""
        return Tally(**{n: set(v) if isinstance(v, list) else v for n, v in data.items()})

    def __str__(self) -> str:
        return (
            f"{len(self.programs)} programs, {len(self.dtypes)} dtypes, {len(self.shapes)} shapes, "
            f"{self.results} results compared, {self.compilations} compilations; the worst error "
            f"is {self.worst:.2f} of what eager torch's allows ({self.where})"
        )


@contextmanager
def counted_compilations(tally: Tally) -> Iterator[None]:
    """Count kernels that are compiled, or found in Triton's cache."""
    import triton

    def count(**_: object) -> None:
        tally.compilations += 1

    knobs = triton.knobs.compilation
    before, knobs.listener = knobs.listener, count
    try:
        yield
    finally:
        knobs.listener = before


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
