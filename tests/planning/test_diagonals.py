"""Sums along diagonals, of products of which one position moves along with the result's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from unittest.mock import patch

import pytest
import torch

import monocomp as mc
from benchmarks.variants import RELATIVE_BIAS
from monocomp.backends.triton.launch import load
from monocomp.derivation.rule_sets import derive
from monocomp.planning import diagonals
from monocomp.planning.differences import sorted_sums
from monocomp.planning.plan import Plan
from tests.backends import interpreted
from tests.backends.running import (
    BACKENDS,
    cut_for_long_extents,
    exact,
    largest_error,
    make_inputs,
    paying,
)
from tests.backends.tolerances import agree
from tests.gpu.comparing import all_in_nan

AFTER = RELATIVE_BIAS.replace("q - k + |k| - 1", "k - q + |q| - 1")
CAUSAL = AFTER.replace("index r < |q| + |k| - 1", "index r < |q|").replace(
    "k - q + |q| - 1", "q - k"
)
# The entry of a table follows from the distance, the same from several.
LOOKED_UP = AFTER.replace("index r < |q| + |k| - 1", "index r < 32").replace(
    "R[h,k - q + |q| - 1]", "R[h, where(q < k, 16, 0) + minimum(abs(q - k) // 2, 15)]"
)
TEXTS = {
    "bias": RELATIVE_BIAS,
    "bias of the distance after": AFTER,
    "bias of the causal distance": CAUSAL.replace("softmax[k]", "softmax[k if k <= q]"),
}
EVERY = {**TEXTS, "bias that is looked up by the distance": LOOKED_UP}


def gradient(name: str) -> str:
    return str(mc.grad(EVERY[name]))


def blocks(plan: Plan) -> list[tuple[str, ...]]:
    return [s.place for s in plan.decisions if s.rule == "sum_along_diagonals"]


@contextmanager
def small_blocks() -> Iterator[None]:
    with ExitStack() as stack:
        for name, value in (("ROWS", 4), ("KEYS", (2,))):
            stack.enter_context(patch.object(diagonals, name, value))
        stack.enter_context(patch.object(diagonals, "tensor_sizes", lambda *_: [1 << 20]))
        stack.enter_context(cut_for_long_extents())
        stack.enter_context(paying("sum_along_diagonals"))
        yield


@pytest.mark.parametrize("number", ["(q - k) // 2", "(k + q) // 2", "minimum(q - k, b)", "q * k"])
def test_what_is_looked_up_by_no_difference(number: str) -> None:
    """A sum is sorted by a difference of two of its indices alone."""
    text = f"""input A[b,q,d], B[b,k,d], R[n]
O = sum[b,q,k](R[{number}] * tanh(A[b,q,d] * B[b,k,d]))"""
    (e,) = (e for e in derive(mc.grad(text).equations).program.equations if e.name == "dR")
    assert bool([*sorted_sums(e)]) == (number == "(q - k) // 2")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "backend"), [*product(EVERY, ["numpy"]), *product(["bias"], BACKENDS[1:])]
)
def test_results(name: str, backend: str) -> None:
    text, n = gradient(name), {"b": 2, "h": 1, "q": 6, "k": 9, "d": 3, "e": 2}
    if "causal" in name:
        n["k"] = n["q"]
    n["r"] = 32 if name not in TEXTS else n["q"] if "causal" in name else n["q"] + n["k"] - 1
    shapes = {"Q": "bhqd", "K": "bhkd", "V": "bhke", "R": "hr", "dO": "bhqe"}
    torch.manual_seed(0)
    given = {t: torch.randn([n[i] for i in dims]).double() for t, dims in shapes.items()}
    forward = mc.grad(EVERY[name]).forward
    values = exact(forward.text(), {t: given[t] for t in forward.declared.inputs})
    given |= zip((o.name for o in forward.declared.outputs), values, strict=True)
    dtype = torch.float32 if backend == "triton" else torch.float64
    inputs = {t: given[t].to(dtype) for t in mc.compile(text).declared.inputs}
    with small_blocks():
        step = ("dR",) if name in TEXTS else ("D",)
        assert step in blocks(mc.compile(text).plan(n))  # of the keys and values, too
        agree(backend, text, inputs, 8, storing=True)


def results(inputs: Mapping[str, torch.Tensor], by_descriptor: bool) -> Sequence[torch.Tensor]:
    module = load(mc.compile(gradient("bias"), name="kernel").source(target="cuda:90"))
    found = sorted((k, v) for k, v in vars(module).items() if k.startswith("CONFIG"))
    configs = [config | {n: 64 for n in config if n.startswith("BLOCK")} for _, config in found]
    for config in configs:
        config.update({n: by_descriptor for n in config if n == "DESCRIPTORS"})
    assert sum("DESCRIPTORS" in config for config in configs) == 3
    given: Sequence[torch.Tensor] = module.kernel(*inputs.values(), configs=configs)
    return given


def test_descriptors_in_nan() -> None:
    """Blocks that stick out of tensors on both sides, where there is NaN."""
    n = {"b": 1, "h": 1, "q": 90, "k": 70, "d": 16, "e": 16}
    inputs = all_in_nan(make_inputs(gradient("bias"), n))
    plain, described = (interpreted.call(results, inputs, x) for x in (False, True))
    for got, wanted in zip(described, plain, strict=True):
        assert largest_error(got, wanted) < 2e-6
