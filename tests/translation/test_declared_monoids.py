"""Monoids from Python, and those that programs may use without declaring them."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.language.checker import check
from monocomp.language.prelude import standard_monoids
from monocomp.proving import proofs, prover
from monocomp.reference.oracle import evaluate
from monocomp.translation.declared_monoids import Monoid
from monocomp.translation.translator import translate
from tests.agreement import as_list

AFFINE = "Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')"
X = torch.randn(37, generator=torch.Generator().manual_seed(0), dtype=torch.float64).numpy()
COMMUTATIVE = {"Welford", "SE", "ArgMax", "ArgMin", "LogAdd"}


def test_a_monoid_is_proved_and_prints() -> None:
    affine = mc.monoid(AFFINE)
    assert (affine.name, affine.fields) == ("Affine", ("a", "u"))
    assert str(affine) == affine.declaration == f"monoid {AFFINE}"
    obligations = [law.short for law in affine.laws if not law.is_fact]
    assert obligations == ["closed", "associative", "left unit", "right unit"]
    assert all(law.holds for law in affine.laws if not law.is_fact)
    assert not affine.is_commutative
    assert mc.monoid(str(affine)) == affine
    assert mc.monoid("M(x) = unit (0), combine (x + x')").is_commutative


def test_a_program_uses_given_monoids() -> None:
    last = mc.monoid("Sums(n, s) = unit (0, 0), combine (n + n', s + s')")
    kernel = mc.compile("M = Sums[k](1, X[k]).s / Sums[k](1, X[k]).n", monoids=[last])
    np.testing.assert_allclose(kernel(torch.from_numpy(X)), X.mean())
    np.testing.assert_allclose(mc.evaluate(kernel.equations.text(), {"X": X}), X.mean())


def test_what_is_declared_wins() -> None:
    """Over what is given, and that over the standard monoids."""
    text = "O = Affine[k](X[k])"
    given = mc.monoid("Affine(x) = unit (1), combine (x * x')")
    kernel = mc.compile(text, monoids=[given], backend="numpy")
    np.testing.assert_allclose(kernel(X), X.prod())
    declared = "monoid Affine(x) = unit (0), combine (x + x')\n" + text
    kernel = mc.compile(declared, monoids=[given], backend="numpy")
    np.testing.assert_allclose(kernel(X), X.sum())
    kernel = mc.compile("Affine[k] = X[k] * X[k]\nO[k] = Affine[k]", backend="numpy")
    np.testing.assert_allclose(kernel(X), X * X)


REFUSED = {
    "Mean(x) = unit (0), combine ((x + x') / 2)": "'Mean' is not associative (line 1, column 1)",
    "monoid M(x) = unit (0), combine (x + x')\nO = M[k](X[k])": "not the declaration of one monoid",
    "monoid": "expected '(' before the end of the program (line 1, column 14)",
    "sum(x) = unit (0), combine (x + x')": "'sum' is a built-in reduction",
    "M(x) = unit (0), combine (x + x' + y)": "a monoid is made of its fields, numbers and",
}


@pytest.mark.parametrize("declaration", REFUSED)
def test_refused(declaration: str) -> None:
    with pytest.raises(mc.MonocompError, match=re.escape(REFUSED[declaration])):
        mc.monoid(declaration)


# --- standard monoids ---------------------------------------------------------------------


def standard(name: str) -> Monoid:
    """A standard monoid, proved afresh."""
    statement = standard_monoids()[name]
    fields = statement.fields
    operands = ", ".join(f"X{n}[k]" for n in range(len(fields)))
    suffix = f".{fields[0]}" if len(fields) > 1 else ""
    (found,) = translate(check(f"O = {name}[k]({operands}){suffix}")).monoids
    laws = proofs.prove_monoid(found, found.fields)
    return Monoid(name, fields, "", laws, statement)


@pytest.mark.parametrize("name", standard_monoids())
def test_standard_monoids_are_proved(name: str) -> None:
    found = standard(name)
    assert prover.is_proved(found.laws)
    assert found.is_commutative == (name in COMMUTATIVE)
    restricted = [str(law.statement) for law in found.laws if ">= 0" in str(law.statement)]
    assert bool(restricted) == (name == "Welford")


def turned(x: np.ndarray) -> np.ndarray:
    """The product of the rotations by x."""
    total = np.eye(2)
    for angle in x:
        total = total @ [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return total


def recurrence(x: np.ndarray) -> float:
    """h = cos(x) h + x"""
    h = 0.0
    for element in x:
        h = np.cos(element) * h + element
    return float(h)


DIRECT = {
    "Welford[k](1, X[k], 0).n": len,
    "Welford[k](1, X[k], 0).mu": lambda x: x.mean() if len(x) else 0.0,
    "Welford[k](1, X[k], 0).m2": lambda x: x.var() * len(x) if len(x) else 0.0,
    "SE[k](1, X[k]).m": lambda x: x.max(initial=-np.inf),
    "SE[k](X[k], 1000 * X[k]).v": lambda x: (x * np.exp(1000 * (x - x.max(initial=-1e9)))).sum(),
    "Affine[k](cos(X[k]), X[k]).u": recurrence,
    "Affine[k](cos(X[k]), X[k]).a": lambda x: np.cos(x).prod(),
    "Matrix[k](cos(X[k]), sin(X[k]), -sin(X[k]), cos(X[k])).a": lambda x: turned(x)[0, 0],
    "Matrix[k](cos(X[k]), sin(X[k]), -sin(X[k]), cos(X[k])).b": lambda x: turned(x)[0, 1],
    "Matrix[k](cos(X[k]), sin(X[k]), -sin(X[k]), cos(X[k])).c": lambda x: turned(x)[1, 0],
    "Matrix[k](cos(X[k]), sin(X[k]), -sin(X[k]), cos(X[k])).d": lambda x: turned(x)[1, 1],
    "ArgMax[k](X[k], k).i": lambda x: x.argmax() if len(x) else np.inf,
    "ArgMax[k](X[k], k).x": lambda x: x.max(initial=-np.inf),
    "ArgMin[k](X[k], k).i": lambda x: x.argmin() if len(x) else np.inf,
    "ArgMin[k](X[k], k).x": lambda x: x.min(initial=np.inf),
    "LogAdd[k](X[k])": lambda x: np.logaddexp.reduce(x) if len(x) else -np.inf,
    "LogAdd[k](1e4 * X[k])": lambda x: np.logaddexp.reduce(1e4 * x) if len(x) else -np.inf,
}


@pytest.mark.parametrize("fold", DIRECT)
def test_standard_monoids_say_what_they_should(fold: str) -> None:
    text = f"O = {fold}"
    kernel = mc.compile(text, backend="numpy")
    for x in (X[:0], X[:1], X[:2], X):
        wanted = DIRECT[fold](x)
        np.testing.assert_allclose(evaluate(text, {"X": x}), wanted, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(kernel(x), wanted, rtol=1e-12, atol=1e-12)


def test_counts_must_be_seen_to_be_counts() -> None:
    """Where a law needs elements of one sign, the position that folds others is named."""
    with pytest.raises(mc.MonocompError) as caught:
        mc.compile("M[i] = Welford[t](n[t], y[i,t], 0).mu")
    text = caught.value.described()
    assert text.startswith("MonoidLawError: monoid 'Welford' is not associative (line 1, column 8)")
    assert text.endswith("help: the laws hold for n >= 0; make that visible where you fold: abs(n)")
    mc.compile("M[i] = Welford[t](abs(n[t]), y[i,t], 0).mu")


# A sum beside the suffix that it adds up, which changes in the same step; a kernel whose loops go
# along one axis both ways.
ORDERED = {
    "a suffix in a sum": "O[k] = sum[i, l](A[i,k] * Affine[m if l < m](A[i,m], Y[k]).a)",
    "both ways": """
        G[i,k] = Affine[l if k < l and l < 4](tanh(A[i,l]), X[i]).a * sum[k](Y[k] * A[i,k])
        Before[i,k] = Affine[l if l < k and l < 4](tanh(A[i,l]), X[i]).u
        O[i,k] = where(k < 4, (1 - tanh(A[i,k]) ** 2) * G[i,k] * Before[i,k], 0)
        P[i] = sum[k if k < 4](G[i,k])
        return O, P""",
}


@pytest.mark.parametrize("name", ORDERED)
def test_recurrences_that_keep_their_order(name: str) -> None:
    text = f"input A[i,k], X[i], Y[k]\nindex l < |k|, m < |k|\nmonoid {AFFINE}\n{ORDERED[name]}"
    rng = np.random.default_rng(0)
    inputs = {"A": rng.standard_normal((1, 5)), "X": rng.standard_normal(1), "Y": X[:5]}
    wanted, computed = evaluate(text, inputs), mc.compile(text, backend="numpy")(**inputs)
    for w, c in zip(as_list(wanted), as_list(computed), strict=True):
        np.testing.assert_allclose(c, w, rtol=1e-12)
