"""Every library program on every backend, all its outputs, wherever the logits lie.

Logits are standard normal, shifted by -20 and 20, and near -1e4 and 1e4; lengths stick out of
the blocks. A result is as near to the oracle as eager torch's results are, in float32.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

import pytest
import torch
from torch import Tensor

from tests.backends.library_cases import CASES
from tests.backends.running import DISTINCT, exact, largest_error, run, scale_of
from tests.backends.tolerances import Bound
from tests.marks import slow_unless

Results: TypeAlias = tuple[Tensor, ...]
NAMES = tuple(n for n in CASES if CASES[n].same_kernel_as is None)
# About which logits lie, and how far. Huge ones are at most about 1e4 apart: a weight that is
# smaller than exp(-1e4) of the largest is 0 to the oracle, and its logarithm is not finite.
LOGITS = {
    "plain": (0.0, 1.0),
    "shifted down": (-20.0, 1.0),
    "shifted up": (20.0, 1.0),
    "huge": (5e3, 1.2e3),
    "huge and negative": (-5e3, 1.2e3),
}
USUAL = {"torch": Bound(4.0, 3e-7), "triton": Bound(4.0, 3e-7)}
# A logit of 1e4 is rounded by 5e-4 in float32, which is the relative error of its weight: of
# several weights of one size, and where logits are computed or stored twice, it does not cancel.
HUGE = {"torch": Bound(4.0, 2e-3), "triton": Bound(4.0, 2e-3)}


@cache
def inputs_at(name: str, kind: str) -> dict[str, Tensor]:
    """Random inputs for a row of `LOGITS`, of lengths that are no multiples of a block."""
    shift, scale = LOGITS[kind]
    return CASES[name].inputs(CASES[name].sizes(19, 37, 6, 5), shift=shift, scale=scale)


@cache
def wanted_at(name: str, kind: str) -> Results:
    """What the oracle gives; the same for all backends."""
    return exact(CASES[name].text, inputs_at(name, kind), **CASES[name].params)


def error(found: Results, name: str, kind: str) -> float:
    """The largest error of an output, in units of its largest element.

    A result that all but vanishes among huge logits, such as the entropy where there is one
    weight, is measured by its usual size.
    """
    errors = list(map(largest_error, found, wanted_at(name, kind)))
    sizes = list(map(scale_of, wanted_at(name, kind)))
    if kind.startswith("huge"):
        sizes = list(map(max, sizes, map(scale_of, wanted_at(name, "plain"))))
    return max(e / size if e else 0.0 for e, size in zip(errors, sizes, strict=True))


# Huge logits say how exponents are formed, which is the same for all backends: programs of
# each way to form them are run on every one.
HUGE_EVERYWHERE = (
    "causal",
    "softmax",
    "logsumexp",
    "log_softmax_statistics",
    "attention_statistics",
    "cross_entropy",
    "softmax_one",
    "learned_sink",
    "sigmoid_attention",
    "variance",
)


def is_usual(name: str, kind: str, backend: str) -> bool:
    """Is this a case of the usual tests?"""
    return not kind.startswith("huge") or backend == "torch" or name in HUGE_EVERYWHERE


@pytest.mark.one_in(17)
@pytest.mark.parametrize(
    ("name", "kind", "backend"), slow_unless(is_usual, NAMES, LOGITS, DISTINCT)
)
def test_all_outputs(name: str, kind: str, backend: str) -> None:
    case, inputs = CASES[name], inputs_at(name, kind)
    assert all(torch.isfinite(w).all() for w in wanted_at(name, kind)), "inputs make no sense"
    found = error(run(backend, case.text, inputs, name=name, **case.params), name, kind)
    eager = error(case.in_eager_torch(inputs), name, kind)
    assert eager < 0.1
    bound = (HUGE if kind.startswith("huge") else USUAL)[backend]
    allowed = bound.ratio * eager + bound.floor
    assert found <= allowed, f"error {found:.2e}, eager torch {eager:.2e}, allowed {allowed:.2e}"
