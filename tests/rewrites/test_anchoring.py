"""Powers about a mean as powers of distances from an element, which has no derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import monocomp as mc
from monocomp.rewrites.anchoring import anchoring
from monocomp.rewriting.driver import Rewriter
from monocomp.rewriting.rules import Rule
from tests.rewrites.rules import (
    check_does_not_fire,
    check_example,
    check_variant,
    equations,
    inputs_of,
    rule_of,
    values,
)

RULES = anchoring.choices


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_example(rule: Rule) -> None:
    check_example(rule)


W = "exp(S[i,k])"

SUM = "sum[j if j <= k](Y[j,e])"


def mean(u: str = "X[k,e]", weight: str = W, where: str = "") -> str:
    """A weighted mean, over an index of its own."""
    u, weight, where = (t.replace("k", "l") for t in (u, weight, where))
    return f"sum[l{where}]({weight} * {u}) / sum[l{where}]({weight})"


NEAR_MISSES = {
    "anchor_powers": [
        f"V[i,e] = sum[k]({W} * (X[k,e] - {mean('Y[k,e]')}) ** 2)",  # another mean
        f"V[i,e] = sum[k]({W} * (X[k,e] - {mean(weight='exp(R[i,k])')}) ** 2)",
        f"V[i,e] = sum[k]({W} * (X[k,e] - {mean(where=' if l < i')}) ** 2)",
        f"V[i,e] = sum[k]({W} * (X[k,e] - 2 * {mean()}) ** 2)",
        "V[e] = sum[k]((X[k,e] - sum[l](X[l,e]) / sum[l](1.0)) ** 2)",  # varies as elements do
        f"V[i,e] = sum[k]({W} * abs(X[k,e] - {mean()}))",  # no power
        f"V[i,e] = sum[k]({W} * (X[k,e] - {mean()}) ** 2 * (X[k,e] - {mean()} + 1))",
        f"V[i,e] = sum[k](R[i,k] * (X[k,e] - {mean(weight='R[i,k]')}) ** 2)",  # may be 0
        f"V[i,e] = sum[k]({W} * ({SUM} - {mean(SUM)}) ** 2)",  # not read at one position
        f"V[i,e] = sum[k]({W} * (X[k,e] - SE[l](exp(S[i,l]) * X[l,e], R[i,l]).v"
        " / SE[l](exp(S[i,l]), R[i,l]).v) ** 2)",  # the mean of other weights, in SE
    ],
    "anchor_total": [
        "A[e] = sum[k](W[k] * X[k,e])",  # nothing is known from an anchor
        "A[e] = sum[k](W[k] * X[k,e]) + sum[k](W[k] * (X[k,e] - X[0,e])) ** 2",  # no anchor
        "A[e] = sum[k](W[k] * X[k,e]) + sum[k](W[k] * (X[k,e] - stop(X[k,e]))) ** 2",
        "A[e] = sum[k](W[k] * X[k,e]) + sum[k](U[k] * (X[k,e] - stop(X[0,e]))) ** 2",
        "A[e] = sum[k](W[k] * X[k,e]) + sum[k if k < 3](W[k] * (X[k,e] - stop(X[0,e]))) ** 2",
        "A[e] = sum[k](W[k] * (X[k,e] - stop(X[0,e]))) ** 2",
        "A[e] = sum[k](W[k] * X[k,e]) + SE[k](W[k] * (X[k,e] - stop(X[0,e])), S[k]).v ** 2",
        "A[e] = sum[k](W[k] * X[k,e]) + sum[k](W[k] * (X[k,e] - stop(sum[l](W[l] * X[l,e])))) ** 2",
    ],
}


def test_every_rule_has_near_misses() -> None:
    assert list(NEAR_MISSES) == [rule.name for rule in RULES]


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in NEAR_MISSES.items() for text in texts]
)
def test_near_miss(name: str, text: str) -> None:
    check_does_not_fire(rule_of(anchoring, name), f"index e < 2\n{text}")


FAR = "(X[k,e] - stop(X[0,e]))"
VARIANTS = {
    "anchor_powers": [
        (  # filtered
            f"sum[k if k <= i]({W} * (X[k,e] - {mean(where=' if k <= i')}) ** 2)",
            f"sum[k if k <= i]({W} * {FAR} ** 2)"
            f" - sum[k if k <= i]({W} * {FAR}) ** 2 / sum[k if k <= i]({W})",
        ),
        (  # a third power
            f"sum[k]({W} * (X[k,e] - {mean()}) ** 3)",
            f"sum[k]({W} * {FAR} ** 3) + 2 * sum[k]({W} * {FAR}) ** 3 / sum[k]({W}) ** 2"
            f" - 3 * sum[k]({W} * {FAR}) * sum[k]({W} * {FAR} ** 2) / sum[k]({W})",
        ),
    ],
    "anchor_total": [
        (
            f"2 * sum[k]({W} * X[k,e]) + sum[k]({W} * {FAR}) ** 2",
            f"2 * sum[k]({W} * {FAR}) + 2 * stop(X[0,e]) * sum[k]({W}) + sum[k]({W} * {FAR}) ** 2",
        ),
        (  # a number beside the anchor
            f"sum[k]({W} * (X[k,e] + 1)) + sum[k]({W} * (X[k,e] + 1 - stop(X[0,e]))) ** 2",
            f"sum[k]({W} * (X[k,e] + 1 - stop(X[0,e]))) + stop(X[0,e]) * sum[k]({W})"
            f" + sum[k]({W} * (X[k,e] + 1 - stop(X[0,e]))) ** 2",
        ),
    ],
}


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [(name, *variant) for name, variants in VARIANTS.items() for variant in variants],
)
def test_variant(name: str, before: str, after: str) -> None:
    start = "index e < 2\nO[i,e] = "
    check_variant(rule_of(anchoring, name), start + before, start + after, rtol=1e-9)


def test_over_nothing() -> None:
    """The first row of a causal filter without its diagonal is empty: its sum is 0."""
    weights, where = W, " if k < i"
    centre = mean(where=where)
    text = f"index e < 2\nO[i,e] = sum[k{where}]({weights} * (X[k,e] - {centre}) ** 2)"
    rewriter = Rewriter(equations(text))
    rewriter.exhaust(anchoring)
    found = values(rewriter.program, inputs_of(rewriter.start))
    assert rewriter.steps and not np.asarray(found)[0].any() and np.isfinite(found).all()


MOMENTS = """
P[q,k]        = softmax[k](Q[q,d] * K[k,d] / sqrt(|d|))
Mean[q,e]     = P[q,k] * V[k,e]
Variance[q,e] = P[q,k] * (V[k,e] - Mean[q,e]) ** 2
return Mean, Variance
"""


def test_gradients_of_moments_are_products() -> None:
    """What the mean's part comes to, 0, is not computed, and nothing of three indices is."""
    found = mc.grad(MOMENTS)
    assert set(found.saved) == {"Mean", "Variance", "L"}
    kernel = mc.Kernel(found.equations)
    assert [k.names[-1] for k in kernel.plan({"q": 512, "k": 512, "d": 64, "e": 64}).planned] == [
        "dQ",
        "dV",
    ]
    for tiles in kernel.tile_programs({"q": 512, "k": 512, "d": 64, "e": 64}):
        assert "[e,k,q]" not in str(tiles) and "[k,q,e]" not in str(tiles)


def test_gradients_far_from_0() -> None:
    """A mean of 1e4 leaves gradients of the variance as many digits as two passes do."""
    rng = np.random.default_rng(0)
    q, k, d, e = 6, 40, 4, 3
    given = {
        "Q": rng.standard_normal((q, d)),
        "K": rng.standard_normal((k, d)),
        "V": rng.standard_normal((k, e)) + 1e4,
        "dMean": np.zeros((q, e)),
        "dVariance": rng.standard_normal((q, e)),
    }
    found = mc.grad(MOMENTS)
    exact, errors = two_passes(given, np.float64), []
    for dtype in (np.float64, np.float32):
        inputs = {n: x.astype(dtype) for n, x in given.items()}
        forward = mc.evaluate(found.forward.text(), {n: inputs[n] for n in "QKV"})
        names = [o.name for o in found.forward.declared.outputs]
        inputs |= {n: np.asarray(x, dtype) for n, x in zip(names, forward, strict=True)}
        kernel = mc.Kernel(found.equations, backend="torch")
        gradients = kernel(**{n: torch_of(inputs[n]) for n in kernel.declared.inputs})
        errors.append(max(map(distance, gradients, exact)))
    assert errors[0] < 1e-9
    allowed = max(map(distance, two_passes(given, np.float32), exact))
    assert errors[1] < 100 * allowed


def two_passes(given: dict[str, Any], dtype: Any) -> list[Any]:
    """Gradients of the moments by hand, the mean first."""
    cast = {n: x.astype(dtype) for n, x in given.items()}
    Q, K, V, dM, dVar = cast["Q"], cast["K"], cast["V"], cast["dMean"], cast["dVariance"]
    scale = dtype(Q.shape[1] ** -0.5)
    S = Q @ K.T * scale
    P = np.exp(S - S.max(1, keepdims=True))
    P /= P.sum(1, keepdims=True)
    distances = V[None] - (P @ V)[:, None]
    dP = np.einsum("qe,qke->qk", dVar, distances**2) + np.einsum("qe,qke->qk", dM, distances)
    dS = P * (dP - (P * dP).sum(1, keepdims=True)) * scale
    dV = np.einsum("qk,qe,qke->ke", P, dVar, 2 * distances) + P.T @ dM
    return [dS @ K, dS.T @ Q, dV]


def torch_of(x: Any) -> Any:
    torch = pytest.importorskip("torch")
    return torch.from_numpy(x.copy())


def distance(found: Any, exact: Any) -> float:
    return float(np.abs(np.asarray(found) - exact).max() / np.abs(exact).max())
