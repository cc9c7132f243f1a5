"""Kernels add up the sums of others from products that both have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import monocomp as mc
from monocomp import library
from monocomp.planning.joining import join_by_accumulation
from monocomp.planning.plan import Plan
from tests.backends.library_cases import CASES
from tests.backends.running import kernels_run

JOINED = ("attention", "causal", "sliding_window", "learned_sink", "dropout", "sigmoid_attention")
JOINED += ("pair_bias", "shaw_values", "rms_norm", "gqa")


def results(kernel: mc.Kernel, plan: Plan, name: str) -> dict[str, Any]:
    """Return what the kernels of a plan make of random inputs."""
    case, declared = CASES[name], kernel.declared
    sizes = case.sizes(20, 26, 8, 8)
    random = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    made = case.inputs(sizes)
    for n, i in declared.inputs.items():
        arrays[n] = made[n].double().numpy() if n in made else None
        if arrays[n] is None:
            arrays[n] = random.standard_normal([sizes[d] for d in i.dims])
    binding = kernel.calls.bind({n: x.shape for n, x in arrays.items()}, case.params)
    for _ in kernels_run(plan.kernels, arrays, plan.extents(binding.extents), binding.params):
        pass
    return {o.name: arrays[o.name] for o in declared.outputs}


@pytest.mark.parametrize("name", JOINED)
def test_results_stay(name: str) -> None:
    """The kernels of gradients compute the same, and multiply less."""
    kernel = mc.compile(mc.grad(library.load(name)), name=name)
    usual, adding = kernel.planner.plan(), kernel.planner.plan(adds=True)
    (joined,) = adding.program.joined
    kernels = zip(adding.planned, adding.kernels, strict=True)
    ((added, tiles),) = ((k, t) for k, t in kernels if joined.name in k.names)
    assert joined.beside in added.names and tiles.is_added_to(joined.name)
    products = [sum(len(k.products) for k in plan.kernels) for plan in (usual, adding)]
    assert products[1] < products[0]
    before, after = (results(kernel, plan, name) for plan in (usual, adding))
    for n, array in before.items():
        np.testing.assert_allclose(after[n], array, 1e-5, 1e-5, err_msg=n)


def test_a_sum_that_is_no_product_of_matrices_is_added() -> None:
    """With more values than heads, a kernel has rows of heads, and adds them up one by one."""
    kernel = mc.compile(mc.grad(library.load("talking_heads")), name="talking_heads")
    sizes = {"b": 1, "g": 8, "h": 8, "i": 512, "q": 2048, "k": 2048, "d": 64, "e": 64}
    usual, adding = kernel.planner.plan(), kernel.planner.plan(sizes, adds=True)
    assert adding.program.joined
    before, after = (results(kernel, plan, "talking_heads") for plan in (usual, adding))
    for n, array in before.items():
        np.testing.assert_allclose(after[n], array, 1e-5, 1e-5, err_msg=n)


GROUPED = """A[h,q,e] = sum[k](sigmoid(sum[d](Q[h,q,d] * K[h // 2,k,d])) * K[h // 2,k,e])
C[g,k,e] = sum[h if {}](sum[q](sigmoid(sum[d](Q[h,q,d] * K[g,k,d])) * Q[h,q,e]))
return A, C"""


@pytest.mark.parametrize(
    ("condition", "is_joined"),
    [("g == h // 2", True), ("g == h // 2 and h < 3", False), ("g <= h", False)],
)
def test_loops_in_loops(condition: str, is_joined: bool) -> None:
    """The filter of an outer loop gives each element of a sum to one instance, and leaves none
    out."""
    plan = mc.compile(GROUPED.format(condition)).planner.plan()
    steps = list(join_by_accumulation(plan.program, plan.sizes))
    joined = [j for step in steps for j in step.program.joined]
    assert [(j.beside, j.streamed) for j in joined] == [("C", ("h", "q"))] * is_joined


@pytest.mark.parametrize(
    "text",
    [
        # Other products, other elements, and sums of which one needs the other.
        "A[q,d] = X[q,k] * B[k,d]\nC[k,d] = X[q,k] * D[q,d]\nreturn A, C",
        "S[q,k] = exp(Q[q,d] * K[k,d])\nA[q,d] = sum[k if k < q](S[q,k] * K[k,d])\n"
        "C[k,d] = sum[q if k <= q](S[q,k] * Q[q,d])\nreturn A, C",
        "S[q,k] = exp(Q[q,d] * K[k,d])\nA[q,d] = S[q,k] * K[k,d]\n"
        "C[k,d] = sum[q](S[q,k] * A[q,d])\nreturn A, C",
    ],
)
def test_near_misses(text: str) -> None:
    """A loop must have the same products, the same elements, and need nothing of the other."""
    assert not mc.compile(text).planner.plan(adds=True).program.joined


def test_said() -> None:
    """The step says where a sum is added up, and what that saves."""
    kernel = mc.compile(mc.grad(library.load("causal")), name="causal")
    step = kernel.planner.plan(adds=True).decisions[-1]
    assert step.rule == "join_by_accumulation" and step.cost is not None
    assert "by the kernel of dK, which has the same products" in str(step.shown())
    assert step.cost.after < step.cost.before
