"""How far a backend may be from the oracle: one table, with reasons.

A bound is `ratio` times the error of eager torch on the same inputs in the same dtype, plus
`floor` times the largest result. Errors are the largest over all elements.

In 16 bits the ratio is 1 and there is next to no floor: kernels hold logits, weights and sums
in float32, where eager torch rounds each of them, so what is left is the rounding of the
result, and a correct kernel is never worse. This finds what an absolute tolerance of 1e-2
lets pass: a padding key scored 0, a key dropped or taken twice, rows of V swapped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.backends.running import Tensors, exact, largest_error, program_of, run, scale_of


@dataclass(frozen=True)
class Bound:
    """The largest error that is right; see the module."""

    ratio: float
    floor: float

    def holds(self, found: Tensor, wanted: Tensor, eager: Tensor | None = None) -> bool:
        """Is the result near enough to the oracle's?"""
        usual = largest_error(eager, wanted) if eager is not None else 0.0
        return largest_error(found, wanted) <= self.ratio * usual + self.floor * scale_of(wanted)

    def check(self, found: Tensor, wanted: Tensor, eager: Tensor | None = None) -> None:
        """Assert that it is."""
        usual = largest_error(eager, wanted) if eager is not None else 0.0
        error, scale = largest_error(found, wanted), scale_of(wanted)
        assert self.holds(found, wanted, eager), (
            f"error {error:.2e}, eager torch {usual:.2e}, largest result {scale:.2e}, {self}"
        )


# By dtype of the inputs, where eager torch is at hand.
BESIDE_EAGER = {
    torch.float16: Bound(1.0, 1e-7),  # the floor is for results that float16 has exactly
    torch.bfloat16: Bound(1.0, 1e-7),
    # Sums in another order, exp2 for exp: a few units in the last position either way.
    torch.float32: Bound(4.0, 3e-7),
    # The same in float64, whose eager error is often just that of the last rounding.
    torch.float64: Bound(4.0, 1e-14),
}
# By backend, where there is no eager torch: sums of some tens of elements of float32 inputs.
ALONE = {
    "numpy": Bound(0.0, 1e-12),  # float64
    "torch": Bound(0.0, 2e-6),
    "triton": Bound(0.0, 2e-6),
}


def near(
    backend: str,
    text: str,
    inputs: Tensors,
    found: Iterable[Tensor],
    times: float = 1,
    **params: Any,
) -> None:
    """Assert that results are the oracle's, but for `times` what a backend may lose."""
    bound = Bound(0.0, times * ALONE[backend].floor)
    for got, wanted in zip(found, exact(text, inputs, **params), strict=True):
        bound.check(got, wanted)


def agree(
    backend: str, text: str, inputs: Tensors, times: float = 1, **how: Any
) -> tuple[Tensor, ...]:
    """Run a program, assert that its results are near the oracle's, and return them."""
    found = run(backend, text, inputs, **how)
    params = {n: how[n] for n in program_of(text).params if n in how}
    near(backend, text, inputs, found, times, **params)
    return found
