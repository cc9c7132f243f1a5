"""Facts and bounds of terms hold of their values, also at special points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pytest

import monocomp as mc
from monocomp import terms as T
from monocomp.checking.steps import Case
from monocomp.declarations.records import Output
from monocomp.language.checker import check
from monocomp.terms import facts
from monocomp.terms.algebra import SE_PAIR
from monocomp.terms.domain import domain
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.printer import show_monoid
from monocomp.translation.translator import translate
from tests.terms.test_printer import PROGRAMS

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

# Conditions on the elements of a value; they hold of NaN, which is unspecified.
FACTS: dict[str, Callable[[Array], Array]] = {
    "is_finite_if_read": np.isfinite,
    "is_finite_if_there": np.isfinite,
    "is_unmasked": np.isfinite,
    "exceeds_minus_infinity": lambda x: ~(x == -np.inf),
    "is_positive": lambda x: ~(x <= 0),
    "is_nonnegative": lambda x: ~(x < 0),
}

OF_FINITE = ("is_unmasked", "exceeds_minus_infinity")

EXAMPLES = [
    "O[i] = sum[k](exp(S[i,k]) * V[k]) / sum[k](exp(S[i,k]))",
    "O[i] = max[k if k <= i](S[i,k]) + min[k](S[i,k])",
    "O[i] = max[k if k < i](abs(S[i,k])) + logsumexp[k](S[i,k])",
    "O[i] = SE[k](1, S[i,k]).v + SE[k if k < i](V[k], where(k < i, S[i,k], -inf)).v",
    "O[i] = SE[k](1 / (1 + exp(S[i,k])), tanh(S[i,k])).v * exp(max[k](tanh(S[i,k])))",
    "O[i] = log(1 + sum[k](exp(tanh(S[i,k])))) + sqrt(sum[k](S[i,k] ** 2) / |k| + 0.5)",
    "O[i] = 1 / (1 + X[i] ** 2) + sigmoid(X[i]) * softplus(X[i]) + relu(X[i]) ** 0.5",
    "O[i] = where(abs(X[i]) == inf, 0, X[i]) + maximum(X[i], 0) + minimum(X[i], 1)",
    "O[i] = prod[k](exp(S[i,k])) + mean[k](abs(S[i,k])) + var[k](S[i,k])",
    "O[i] = 1 / sum[k](exp(S[i,k])) + exp(-max[k](S[i,k])) + (X[i] < 1) * 2",
    "input N[i]: int\nO[i] = sum[k if k < N[i]](Y[k] ** 2) * exp(relu(X[i])) * uniform(3, i)",
]


def subterms_of(text: str) -> list[tuple[Equations, T.Term]]:
    """Return the float terms of a program that vary with its output's indices, and programs for
    them."""
    if "SE[" in text and "monoid" not in text:
        text = f"{show_monoid(SE_PAIR)}\n{text}"
    program = translate(check(text))
    found = []
    for equation in program.equations:
        names = {i.name for i in equation.indices}
        for t in T.subterms(equation.body):
            is_value = t.kind == "float" and t.op not in ("param", "const", "read")
            holds_refs = any(s.op == "ref" for s in T.subterms(t))
            if is_value and t.free <= names and not holds_refs and not is_pair(t):
                declared = replace(program.declared, outputs=(Output(equation.name),))
                only = (Equation(equation.name, equation.indices, t),)
                found.append((replace(program, declared=declared, equations=only), t))
    return found


def is_pair(t: T.Term) -> bool:
    return t.op in ("fold", "fold_at") and isinstance(t.attr.monoid, T.UserMonoid)


@pytest.mark.parametrize("text", [*EXAMPLES, *PROGRAMS.values()])
def test_facts_hold(text: str) -> None:
    for program, t in subterms_of(text):
        held = [name for name in FACTS if getattr(facts, name)(t)]
        folds = (s for s in T.subterms(t) if s.op == "fold")
        is_masked = any(map(T.is_bracket, T.subterms(t)))
        if is_masked or not all(map(facts.has_element, folds)):
            held = [name for name in held if name != "is_finite_if_there"]
        bounds = domain(t)
        params = {name: -0.7 for name, at in program.declared.params.items() if at.default is None}
        for case in Case.of(program, {}, params, 2, program.text()).everywhere():
            inputs = case.inputs("float64")
            (value,) = case.outputs(inputs, program.text())
            if case.points != "any":
                numbers = value[~np.isnan(value)]
                assert ((bounds.lo <= numbers) & (numbers <= bounds.hi)).all(), (t, bounds, value)
            for name in held:
                is_of_finite = name[:13] == "is_finite_if_" or name in OF_FINITE
                if is_of_finite and case.points == "any":
                    continue
                if name == "is_positive" and case.points == "any":
                    name = "is_nonnegative"  # a divisor may be infinite
                holds = FACTS[name](value)
                assert holds.all(), f"{name}({t!r}) is false at {case}: {value[~holds][:3]}"


def test_every_fact_is_tried() -> None:
    seen = {
        name: sum(getattr(facts, name)(t) for text in EXAMPLES for _, t in subterms_of(text))
        for name in FACTS
    }
    assert min(seen.values()) > 4, seen


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
