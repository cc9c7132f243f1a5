"""What is 0 where a sum is 0, or where a maximum is -inf: sampled at special points."""

from __future__ import annotations

import math

import numpy as np
import pytest

from monocomp import terms as T
from monocomp.reference.oracle import evaluate
from monocomp.terms.nodes import intern
from tests.rewrites.rules import equations

INF = math.inf
WEIGHTS, LARGEST = "sum[k if k < i](exp(S[i,k]))", "max[k](S[i,k])"
# A product, and a sum or a maximum of nothing.
VANISHING = [
    ("sum[k if k < i](V[k] * exp(S[i,k]))", WEIGHTS),
    ("sum[k if k < i and V[k] > 0](exp(S[i,k] + V[k]))", WEIGHTS),
    ("sum[k if k < i](exp(2 * S[i,k] + V[k]))", WEIGHTS),
    ("sum[k if k < i](V[k])", "sum[k if k < i](1)"),
    ("sum[k if k < i](exp(S[i,k]))", "max[k if k < i](2 * S[i,k])"),
    ("sum[k](V[k] * exp(S[i,k] / 3))", LARGEST),
    ("exp(S[i,j] - V[j])", LARGEST),
    ("exp(S[i,j]) * V[j]", "sum[k](exp(S[i,k]))"),
    ("X[i] * relu(Y[i])", "relu(Y[i])"),
    ("sum[k](S[i,k] * V[k])", "sum[k](V[k] ** 2)"),
    ("sum[k](exp(S[i,k]))", "sum[k](exp(S[i,k]) + exp(2 * S[i,k]))"),
    ("sqrt(sum[k](exp(S[i,k])))", "sum[k](exp(S[i,k]))"),
]
STAYING = [
    ("sum[k](exp(S[i,k]))", WEIGHTS),
    ("sum[k if k < i](V[k])", WEIGHTS),
    ("exp(S[i,j])", WEIGHTS),
    ("sum[k](V[k] * S[i,k])", "sum[k](V[k])"),
    ("sum[k](exp(S[i,k]))", "min[k](S[i,k])"),
    ("exp(X[i])", "X[i] + Y[i]"),
    ("X[i]", "X[i] * Y[i]"),
]


def program_of(product: str, nothing: str) -> str:
    """A program of both."""
    indices = "i,j" if "j]" in product else "i"
    declared = "".join(f"index {i} < 3\n" for i in indices.split(","))
    return f"{declared}P[{indices}] = {product}\nZ[i] = 1.0 * ({nothing})"


def value_of_nothing(text: str) -> str:
    return "-inf" if text.startswith(("max", "min")) or "+ Y" in text else "0.0"


def vanishes(product: str, nothing: str) -> bool:
    """Ask the domain."""
    p, z = (e.body for e in equations(program_of(product, nothing)).equations)
    is_missing = value_of_nothing(nothing) == "-inf"
    sides = (T.NEG_INF, z) if is_missing else (T.const(0, z.kind), z)
    return T.vanishes((p,), intern("compare", sides, "<" if is_missing else "!=", "bool"))


def values_over_nothing(product: str, nothing: str) -> np.ndarray:
    """The values of a product, at many special points, where the other is nothing."""
    generator = np.random.default_rng(0)
    text, found = program_of(product, nothing), []
    for _ in range(60):
        inputs = {
            "S": generator.choice([-INF, -INF, -INF, 0.0, 1.0], (3, 3)),
            "V": generator.choice([-1.0, 0.0, 0.0, 2.0, -INF], 3),
            "X": generator.choice([-INF, 0.0, 1.0], 3),
            "Y": generator.choice([-INF, 0.0, -1.0, 2.0], 3),
        }
        p, z = evaluate(text, {n: a for n, a in inputs.items() if f"{n}[" in text})
        found.append(p[z == float(value_of_nothing(nothing))])
    return np.concatenate(found, axis=None)


@pytest.mark.parametrize(("product", "nothing"), VANISHING)
def test_what_vanishes(product: str, nothing: str) -> None:
    assert vanishes(product, nothing)
    values = values_over_nothing(product, nothing)
    assert values.size and not np.nan_to_num(values).any()


@pytest.mark.parametrize(("product", "nothing"), STAYING)
def test_what_need_not_vanish(product: str, nothing: str) -> None:
    assert not vanishes(product, nothing)
    assert np.nan_to_num(values_over_nothing(product, nothing)).any()
