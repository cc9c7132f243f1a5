"""Bounds of terms hold of their values, whatever the operator."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

import monocomp as mc
from monocomp.checking.steps import Case
from monocomp.terms.domain import domain
from tests.terms.test_facts import EXAMPLES, subterms_of

ARGUMENTS = ("@", "abs(@)", "-abs(@)", "1 + abs(@)", "-1 - abs(@)", "sigmoid(@)", "-sigmoid(@)")
AGGREGATES = ("sum", "max", "min", "prod", "mean", "var", "logsumexp", "softmax", "log_softmax")


def defined(bodies: Iterable[str], left: str = "i") -> str:
    return "\n".join(f"O_{n}[{left}] = {body}" for n, body in enumerate(bodies))


def check_bounds(text: str) -> None:
    for program, t in subterms_of(text):
        values = domain(t)
        case = Case.of(program, {}, {}, 1, program.text())
        (value,) = case.outputs(case.inputs("float64"), program.text())
        numbers = value[~np.isnan(value)]
        assert ((values.lo <= numbers) & (numbers <= values.hi)).all(), (t, values, numbers)


@pytest.mark.parametrize("condition", ["", " if k < i"])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_aggregates_keep_their_bounds(aggregate: str, condition: str) -> None:
    terms = (a.replace("@", "X[i,k]") for a in ARGUMENTS)
    left = "i,k" if "softmax" in aggregate else "i"
    check_bounds(defined((f"{aggregate}[k{condition}]({a})" for a in terms), left))


@pytest.mark.parametrize("text", EXAMPLES)
def test_terms_keep_their_bounds(text: str) -> None:
    check_bounds(text)


@pytest.mark.parametrize(
    "text",
    [
        "T[k] = abs(W[k])\nO[b] = Welford[k](T[k], A[b,k], 0).mu\nreturn O",
        "T[k] = exp(W[k])\nU[k] = 2 * T[k]\nO[b] = Welford[k](U[k], A[b,k], 0).m2\nreturn O",
        "O[b] = Welford[k](softmax[k](S[b,k]), A[b,k], 0).m2",
        "T[b,k] = sigmoid(S[b,k])\nO[b] = Welford[k](1 - T[b,k], A[b,k], 0).m2\nreturn O",
        "T[b] = Welford[j](1, S[b,j], 0).m2\nO[b] = Welford[k](T[b], A[b,k], 0).m2\nreturn O",
        "O[b] = Welford[k](max[j if j <= k](B[b,j] ** 2), A[b,k], 0).mu",
    ],
)
def test_signs_are_seen_through_names_and_aggregates(text: str) -> None:
    """A weight of at least 0 is one by any name, and so is what is made of such numbers."""
    kernel = mc.compile(text, backend="numpy")
    generator = np.random.default_rng(0)
    given = {n: generator.normal(size=[3] * len(i.dims)) for n, i in kernel.declared.inputs.items()}
    np.testing.assert_allclose(kernel(**given), mc.evaluate(text, given), rtol=1e-9, atol=1e-12)


def test_a_name_makes_no_sign() -> None:
    with pytest.raises(mc.MonocompError, match="is not associative"):
        mc.compile("T[k] = W[k] - 1\nO[b] = Welford[k](T[k], A[b,k], 0).mu\nreturn O")
