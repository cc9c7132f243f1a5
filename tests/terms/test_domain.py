"""Each transfer function of the domain is sound: sampled at special points; facts and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pytest

import monocomp as mc
from monocomp import terms as T
from monocomp.checking.steps import Case
from monocomp.declarations.records import Output
from monocomp.language.checker import check
from monocomp.reference import algebra
from monocomp.reference.folds import fold
from monocomp.reference.oracle import evaluate
from monocomp.terms import facts
from monocomp.terms.algebra import SE_PAIR
from monocomp.terms.domain import Assumptions, domain
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.nodes import inert, intern
from monocomp.terms.printer import show_monoid
from monocomp.terms.transfer import ANYTHING, MASKED, REAL, TRANSFER, Dom
from monocomp.translation.translator import translate
from tests.elements import element
from tests.rewrites.rules import equations
from tests.terms.test_printer import PROGRAMS

INF, NAN = math.inf, math.nan
POINTS = (0.0, -INF, NAN, 1.0, -1.0, 0.5, -0.25, 3.0, 1e-3, 30.0, -30.0)
OPERANDS = (
    *(REAL, MASKED, ANYTHING, Dom(0), Dom(0, zero=False), Dom(hi=0, zero=False), Dom(0, 1)),
    *(Dom(1), Dom(hi=-1, masked=True, zero=False), Dom(-1, 0), Dom(zero=False, masked=True)),
)


def contains(values: Dom, x: float) -> bool:
    """True if a number is one of the values; NaN stands for what is unspecified."""
    if math.isnan(x):
        return values.unspecified
    is_possible = values.zero if x == 0 else values.masked if x == -INF else True
    slack = 1e-9 * max(1.0, abs(x)) if abs(x) < INF else 0
    return is_possible and values.lo - slack <= x <= values.hi + slack


POWERS = [Fraction(*p) for p in ((2, 1), (3, 1), (-1, 1), (-2, 1), (1, 2), (-1, 2), (3, 2))]


BINARY: dict[str, Callable[..., Any]] = {
    **{"add": algebra.add, "mul": algebra.multiply, "maximum": np.maximum, "minimum": np.minimum}
}
OF_OTHERS = {"index", "extent", "mod", "floordiv", "uniform", "power"}  # of ints, and of a constant
AGGREGATES = ("sum", "prod", "mean", "var", "max", "min", "logsumexp")


def by_oracle(function: Callable[..., Any]) -> Callable[..., float]:
    """A function of the oracle's on numbers; NaN stands for what is unspecified."""

    def value(*xs: object) -> float:
        with np.errstate(all="ignore"):
            found = float(function(*(np.asarray(x, np.longdouble) for x in xs)))
        return NAN if found == INF else found

    return value


def operand(name: str) -> T.Term:
    return T.param(name, "float")


def within(values: Dom) -> list[float]:
    return [x for x in POINTS if contains(values, x)]


def violations(t: T.Term, meaning: Callable[..., float]) -> Iterator[tuple[object, ...]]:
    """Yield operands of `x` and `y` for which a term has a value outside of its domain."""
    names = sorted({s.attr for s in T.subterms(t) if s.op == "param"})
    for operands in product(OPERANDS, repeat=len(names)):
        assumed = Assumptions(ANYTHING, names=tuple(zip(names, operands, strict=True)))
        values = domain(t, assumed)
        for xs in product(*map(within, operands)):
            if not contains(values, meaning(*xs)):
                yield t, operands, xs, meaning(*xs), values


def of_aggregate(monoid: str, condition: T.Term) -> Iterator[tuple[object, ...]]:
    """Yield elements, up to two of them, for which an aggregate is outside of its domain."""
    k = T.index("k", "k")
    read = element("X", (k,))
    for values in OPERANDS:
        t = T.fold(monoid, (k,), condition, read)
        found = domain(t, Assumptions(values))
        for number in range(condition is T.TRUE, 3):
            for xs in product(within(values), repeat=number):
                value = by_oracle(lambda x: fold(monoid, x, np.True_))(xs)
                if not contains(found, value):
                    yield t, values, xs, value, found


@pytest.mark.parametrize("op", sorted({*TRANSFER, "mul", "exp"} - OF_OTHERS))
def test_operators(op: str) -> None:
    t = inert(op, *map(operand, "xy" if op in BINARY else "x"))
    meaning = BINARY.get(op) or partial(algebra.apply, op)
    assert not list(violations(t, by_oracle(meaning)))[:3]


@pytest.mark.parametrize("n", POWERS)
def test_powers(n: Fraction) -> None:
    t = inert("pow", operand("x"), attr=n)
    power = by_oracle(lambda x: algebra.power(x, np.longdouble(n)))
    assert not list(violations(t, power))[:3]


@pytest.mark.parametrize("is_filtered", [False, True])
@pytest.mark.parametrize("monoid", AGGREGATES)
def test_aggregates(monoid: str, is_filtered: bool) -> None:
    k = T.index("k", "k")
    condition = T.compare("<", T.const(3), element("N", (k,), "int")) if is_filtered else T.TRUE
    assert not list(of_aggregate(monoid, condition))[:3]


@pytest.mark.parametrize(
    "condition, admits",
    [
        (T.compare("<", T.ZERO, operand("x")), lambda x: x > 0),
        (T.compare("<=", operand("x"), T.ZERO), lambda x: x <= 0),
        (T.compare("<", operand("x"), T.ONE), lambda x: x < 1),
        (T.compare("!=", T.ZERO, operand("x")), lambda x: x != 0),
        (T.compare("==", T.ONE, operand("x")), lambda x: x == 1),
        (T.compare("<", T.NEG_INF, operand("x")), lambda x: x > -INF),
        (T.compare("==", T.NEG_INF, operand("x")), lambda x: x == -INF),
    ],
)
def test_branches(condition: T.Term, admits: Callable[[float], bool]) -> None:
    """What is chosen has the domain that its condition leaves, either way."""
    x = operand("x")
    for c, holds in ((condition, admits), (T.negate(condition), lambda x: not admits(x))):
        t = T.where(c, x, T.const(7, "float"))
        assert not list(violations(t, lambda x, h=holds: x if math.isnan(x) or h(x) else 7.0))[:3]


def test_nothing_is_refined_where_conditions_exclude_each_other() -> None:
    """An extent is at least 1; what is computed where it is 0 is never looked at."""
    for text in (
        "O[i] = max[k](B[k] + where(not (|k| == i), X[i], minimum(B[k], 3 // |k|)))",
        "O = max[k](where(|k| == 0, 3 // |k|, A[k]))",
    ):
        assert mc.compile(text).plan().kernels


# --- what is 0 where a sum is 0, or where a maximum is -inf ------------------------------


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


# --- facts and bounds, which hold of values, also at special points ----------------------


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
