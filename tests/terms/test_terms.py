"""Terms: one object for equal terms, canonical arithmetic, and no value changed by it."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, note, settings
from hypothesis import strategies as st

from monocomp import terms as T
from monocomp.errors import InternalError
from monocomp.language.checker import check
from monocomp.reference.oracle import evaluate
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR
from monocomp.terms.printer import show
from monocomp.translation.translator import translate
from tests.elements import element

I, J = T.index("i", "n"), T.index("j", "n")  # noqa: E741
K, L = T.index("k", "m"), T.index("l", "m")
X, Y, Z = (T.param(name, "float") for name in "xyz")
A, B = (T.param(name, "int") for name in "ab")
HALF = Fraction(1, 2)


def row(name: str, *subscripts: Term) -> Term:
    """An element of a float tensor."""
    return T.read(T.Tensor(name, ("m",) * len(subscripts)), subscripts, "float")


def total(index: Term, body: Term, condition: Term = T.TRUE) -> Term:
    return T.fold("sum", (index,), condition, body)


def number(value: float | Fraction | int) -> Term:
    return T.const(value, "float")


# --- identity -------------------------------------------------------------------------


def test_equal_terms_are_one_object() -> None:
    def build() -> Term:
        return T.exp(T.add(T.mul(number(2), row("S", I, K)), T.neg(row("M", I))))

    assert build() is build()
    assert total(K, build()) is total(K, build())
    assert T.const(1) is not T.const(1, "float")
    assert T.const(True) is T.TRUE and T.const(1) is not T.TRUE


def test_alpha_equal_folds_are_one_object() -> None:
    assert total(K, row("S", I, K)) is total(L, row("S", I, L))
    nested = total(K, T.mul(row("S", I, K), total(L, row("R", K, L))))
    assert nested is total(L, T.mul(row("S", I, L), total(K, row("R", L, K))))
    assert total(K, row("S", I, K)) is not total(K, row("S", J, K))
    other = T.index("k", "n")
    assert total(K, row("S", I, K)) is not total(other, row("S", I, other))  # another extent


def test_user_monoids_are_one_object() -> None:
    again = T.UserMonoid(SE_PAIR.name, SE_PAIR.fields, SE_PAIR.unit, SE_PAIR.combine)
    assert again is SE_PAIR
    assert T.UserMonoid("S", SE_PAIR.fields, SE_PAIR.unit, SE_PAIR.combine) is not SE_PAIR


def test_a_pickled_term_is_itself() -> None:
    """And so are monoids: there is one of each."""
    (equation,) = translate(check("O[i] = softmax[k](X[i,k]) * sum[j](V[j] ** 2)")).equations
    assert pickle.loads(pickle.dumps(equation.body)) is equation.body
    assert pickle.loads(pickle.dumps(SE_PAIR)) is SE_PAIR


def test_what_a_term_knows() -> None:
    inner = total(K, T.mul(row("S", I, K), row("V", K, J)))
    assert inner.free == {"i", "j"}
    assert inner.folded == {"m"}
    outer = T.fold("max", (J,), T.compare("<=", J, I), inner)
    assert outer.free == {"i"}
    assert outer.folded == {"n", "m"}
    assert (row("S", I, K).height, inner.height, outer.height) == (0, 1, 2)


def test_the_order_is_that_of_the_structure() -> None:
    """Sums and products are sorted in the same way in every run."""
    t = T.add(row("B", I), row("A", I), X, T.exp(Y), T.const(3))
    assert list(t.args[:-1]) == sorted(t.args[:-1], key=lambda a: a.key)
    assert t.args[-1] is number(3)


# --- kinds ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "kind"),
    [
        (T.add(A, B), "int"),
        (T.add(A, X), "float"),
        (T.divide(A, B), "float"),
        (T.floordiv(A, B), "int"),
        (T.modulo(X, B), "float"),
        (T.power_of(A, 2), "int"),
        (T.power_of(A, -1), "float"),
        (T.power_of(A, HALF), "float"),
        (T.compare("<", A, X), "bool"),
        (T.add(T.compare("<", A, B), T.const(1)), "int"),
        (T.where(T.compare("<", A, B), A, X), "float"),
        (T.function("abs", A), "int"),
        (T.function("relu", A), "float"),
        (T.function("maximum", A, B), "int"),
        (T.fold("sum", (K,), T.TRUE, K), "int"),
        (T.fold("mean", (K,), T.TRUE, K), "float"),
        (T.fold("argmax", (K,), T.TRUE, row("X", K)), "int"),
        (T.fold("any", (K,), T.TRUE, T.compare("<", row("X", K), X)), "bool"),
        (T.fold("max", (K,), T.TRUE, T.compare("<", row("X", K), X)), "int"),
    ],
)
def test_kind(term: Term, kind: str) -> None:
    assert term.kind == kind


def test_a_subscript_is_an_integer() -> None:
    with pytest.raises(InternalError, match="not an integer"):
        row("S", X)
    assert element("S", (T.compare("<", A, B),), "float").args[0].kind == "int"


def test_large_index_values_are_subtracted_before_they_are_rounded() -> None:
    """1.0 * q - 1.0 * k is the float of q - k."""
    difference = T.sub(T.as_float(I), T.as_float(K))
    assert difference is T.as_float(T.sub(I, K))
    assert T.add(X, T.as_float(I), T.neg(T.as_float(K))) is T.add(X, T.as_float(T.sub(I, K)))
    assert T.sub(T.as_float(T.add(I, T.const(1))), T.as_float(I)) is T.ONE
    assert T.sub(T.as_float(T.add(I, K)), T.add(T.as_float(K), T.as_float(I))) is T.ZERO
    assert T.neg(T.as_float(T.sub(I, K))) is T.as_float(T.sub(K, I))
    assert T.as_float(T.mul(T.const(2), I)) is T.mul(number(2), T.as_float(I))
    scaled = T.mul(number(HALF), T.as_float(T.sub(I, K)))
    assert T.split_coefficient(scaled) == (HALF, T.as_float(T.sub(I, K)))


# --- the ring -------------------------------------------------------------------------


def test_sums() -> None:
    assert T.add(X, T.add(Y, Z)) is T.add(Z, X, Y)
    assert T.add(X, X) is T.mul(number(2), X)
    assert T.sub(X, X) is T.ZERO
    assert T.sub(A, A) is T.const(0)
    assert T.add(X, number(0)) is X
    assert T.add(T.const(2), T.const(3)) is T.const(5)
    assert T.add(T.mul(number(3), X), T.mul(number(-3), X), Y) is Y
    assert T.mul(number(2), T.add(X, Y)) is T.add(T.mul(number(2), X), T.mul(number(2), Y))


def test_products() -> None:
    assert T.mul(X, T.mul(Y, Z)) is T.mul(Z, X, Y)
    assert T.mul(X, X) is T.power_of(X, 2)
    assert T.divide(X, X) is T.ONE
    x = row("S", I)
    assert T.divide(x, x) is T.bracket(T.compare("!=", x, T.ZERO))
    assert T.mul(X, number(0)) is T.ZERO
    assert T.divide(X, number(4)) is T.mul(number(Fraction(1, 4)), X)
    assert T.divide(T.mul(X, x), T.mul(x, Z)) is T.mul(T.divide(X, Z), T.divide(x, x))
    assert T.mul(T.add(X, Y), Z).op == "mul"  # only numbers are multiplied out


def test_exponentials() -> None:
    assert T.mul(T.exp(X), T.exp(Y)) is T.exp(T.add(X, Y))
    assert T.mul(T.exp(X), T.exp(T.neg(X))) is T.ONE
    there = (T.compare("<", T.NEG_INF, X), T.compare("<", X, T.INF))
    assert T.divide(T.exp(X), T.exp(X)) is T.bracket(T.conjunction(*there))  # as it is written
    assert T.power_of(T.exp(X), 2) is T.exp(T.mul(number(2), X))
    infinite = T.divide(T.ONE, T.bracket(there[0]))  # where exp(X) is 0, a weight of nothing
    assert T.divide(T.ONE, T.exp(X)) is T.mul(T.exp(T.neg(X)), infinite)
    assert T.exp(number(0)) is T.ONE
    nothing = T.exp(T.NEG_INF)
    assert T.is_over_nothing(nothing) and T.exp(T.add(X, T.NEG_INF)) is nothing
    assert T.mul(X, nothing) is nothing and T.add(X, nothing) is X


def test_exponential_of_a_logarithm() -> None:
    weight = T.add(T.ONE, T.exp(X))
    assert T.exp(T.log(weight)) is weight
    assert T.exp(T.sub(Y, T.log(weight))) is T.divide(T.exp(Y), weight)
    assert T.exp(T.mul(number(HALF), T.log(weight))) is T.power_of(weight, HALF)
    assert T.exp(T.log(X)) is X  # 0 where X is, as exp(-inf) is
    assert T.exp(T.mul(Y, T.log(X))).op == "exp"  # no rational power
    assert T.function("exp2", number(3)) is number(8)


def test_masks_leave_the_exponent() -> None:
    c = T.compare("<=", K, I)
    assert T.exp(T.where(c, X, T.NEG_INF)) is T.mul(T.bracket(c), T.exp(X))
    assert T.exp(T.where(c, T.NEG_INF, X)) is T.mul(T.bracket(T.negate(c)), T.exp(X))
    assert T.exp(T.add(X, T.where(c, T.ZERO, T.NEG_INF))) is T.mul(T.bracket(c), T.exp(X))


def test_logarithms() -> None:
    assert T.log(T.exp(X)) is X
    assert T.log(T.ONE) is T.ZERO
    weight = T.function("abs", Y)
    assert T.log(T.mul(T.exp(X), weight)) is T.add(X, T.log(weight))
    assert T.log(T.mul(T.exp(X), Y)) is T.add(X, T.log(Y))  # -inf where X is, as the product is 0
    positive = total(K, T.exp(row("S", K)))
    assert T.log(T.divide(T.exp(X), positive)) is T.sub(X, T.log(positive))


def test_results_are_multiplied_out_in_an_exponent() -> None:
    """Else (S - max(S)) / sqrt(d) would not let go of its maximum."""
    s, m = row("S", I, K), T.fold("max", (K,), T.TRUE, row("S", I, K))
    factor = T.power_of(T.extent_of("d"), -HALF)
    product = T.mul(T.sub(s, m), factor)
    assert product.op == "mul"
    assert T.exp(product).args[0] is T.sub(T.mul(s, factor), T.mul(m, factor))


# --- directed: laws that look true and are not -----------------------------------------


def test_the_root_of_a_square_is_an_absolute_value() -> None:
    assert T.power_of(T.power_of(X, 2), HALF) is T.function("abs", X)
    assert T.power_of(T.mul(X, X), -HALF) is T.power_of(T.function("abs", X), -1)
    quarter = T.power_of(T.power_of(X, 2), Fraction(1, 4))
    assert quarter is T.power_of(T.function("abs", X), HALF)
    assert T.power_of(T.power_of(X, 4), HALF) is T.power_of(X, 2)
    assert T.power_of(T.power_of(X, 2), Fraction(3, 2)) is T.power_of(T.function("abs", X), 3)
    assert T.power_of(T.power_of(T.exp(X), 2), HALF) is T.exp(X)
    assert T.power_of(T.power_of(X, HALF), 2) is X


def test_roots_of_products_of_unknown_signs_stay() -> None:
    assert T.power_of(T.mul(X, Y), HALF).op == "pow"
    assert T.power_of(T.mul(number(4), Y), HALF) is T.mul(number(2), T.power_of(Y, HALF))
    assert T.power_of(T.mul(number(-4), Y), HALF).op == "pow"
    for weight in (T.exp(T.as_float(I)), T.exp(X), T.function("relu", X)):  # 0 times any root is 0
        root = T.mul(T.power_of(weight, HALF), T.power_of(Y, HALF))
        assert T.power_of(T.mul(weight, Y), HALF) is root
    both = T.mul(T.function("relu", X), T.function("abs", Y))
    assert T.power_of(both, HALF).op == "mul"
    assert T.power_of(T.mul(X, Y), 2) is T.mul(T.power_of(X, 2), T.power_of(Y, 2))


def test_logarithms_of_products_of_unknown_signs_stay() -> None:
    assert T.log(T.mul(X, Y)).op == "log"
    assert T.log(T.power_of(X, 3)).op == "log"
    assert T.log(T.power_of(T.exp(X), 2)) is T.mul(number(2), X)
    size = T.function("abs", X)
    assert T.log(T.power_of(X, -2)) is T.mul(number(-2), T.log(size))
    assert T.log(T.power_of(size, 3)) is T.mul(number(3), T.log(size))


def test_functions_of_numbers_that_choose_one() -> None:
    two, minus = number(2), number(-2)
    assert T.function("abs", minus) is two
    assert T.function("relu", minus) is T.ZERO
    assert T.function("maximum", two, minus) is two
    assert T.function("minimum", two, minus) is minus
    assert T.function("minimum", T.const(1), T.INF) is T.ONE


def test_brackets_are_idempotent() -> None:
    c, d = T.compare("<=", K, I), T.compare("<", I, K)
    assert T.mul(T.bracket(c), T.bracket(c), X) is T.mul(T.bracket(c), X)
    assert T.power_of(T.bracket(c), 2) is T.bracket(c)
    assert T.mul(T.bracket(c), T.bracket(d)) is T.bracket(T.conjunction(c, d))
    assert T.mul(T.as_int(c), T.as_int(c), A) is T.mul(T.as_int(c), A)
    assert T.mul(T.bracket(T.FALSE), X) is T.ZERO
    assert T.mul(T.bracket(T.TRUE), X) is X
    assert T.add(T.bracket(c), T.bracket(c)) is T.mul(number(2), T.bracket(c))


def test_what_a_bracket_divides_is_as_good_without() -> None:
    """Where the condition fails it is 0 / 0, or unspecified."""
    assert T.power_of(T.bracket(T.compare("<", X, Y)), -1) is T.ONE


def test_a_square_has_no_sign() -> None:
    size = T.function("abs", X)
    assert T.power_of(size, 2) is T.mul(size, size) is T.power_of(X, 2)
    assert T.power_of(size, -2) is T.power_of(X, -2)
    assert T.mul(X, X, size) is T.mul(size, size, size) is T.power_of(size, 3)
    assert T.mul(T.power_of(X, -2), size) is T.power_of(size, -1)
    assert T.mul(T.power_of(X, 3), size) is T.mul(X, T.power_of(size, 3))
    assert T.mul(T.power_of(X, -1), size) is T.divide(X, size)
    assert T.mul(T.power_of(X, -1), size, size) is X
    assert T.mul(Y, Y, size).op == "mul"


def test_what_may_be_empty_is_not_cancelled() -> None:
    """The weights over a filter may be none, and 0 / 0 is 0 there."""
    c = T.compare("<", K, I)
    weights = total(K, T.exp(row("S", I, K)), c)
    there = T.bracket(T.compare("<", T.ZERO, weights))
    assert T.divide(weights, weights) is there
    assert T.divide(T.mul(X, weights), weights) is T.mul(X, there)
    assert T.mul(weights, there) is weights
    assert T.divide(T.mul(weights, weights), weights) is weights
    assert T.divide(there, weights).op == "mul"  # 0 / 0 is 0 there, and 1 / 0 infinite
    count = T.as_float(total(K, T.const(1), c))
    assert T.divide(count, count).op == "cast"
    plain = total(K, row("S", I, K))  # no filter and no weights
    assert T.divide(plain, plain) is T.bracket(T.compare("!=", plain, T.ZERO))
    sink = T.add(weights, T.exp(T.as_float(I)))  # never empty
    assert T.divide(sink, sink) is T.ONE


def test_what_vanishes_with_a_sum_need_not_be_told_so() -> None:
    """sum(exp(s) * v) is 0 where sum(exp(s)) is, for then there is no element."""
    c, d = T.compare("<", K, I), T.compare("<", Y, row("S", I, K))
    s, v = row("S", I, K), row("V", K)

    def mantissa(condition: Term, value: Term, exponent: Term = s) -> Term:
        return T.field(T.fold(SE_PAIR, (K,), condition, value, exponent), "v")

    weights = total(K, T.exp(s), c)
    there = T.bracket(T.compare("<", T.ZERO, weights))
    for gone in (
        total(K, T.mul(T.exp(s), v), c),
        total(K, T.exp(s), T.conjunction(c, d)),
        total(K, T.exp(T.add(s, v)), c),
        total(K, T.exp(T.mul(number(2), s)), c),
    ):
        assert T.mul(gone, there) is gone
        assert T.mul(gone, T.power_of(there, -1)) is gone
        assert T.mul(T.power_of(gone, 2), there) is T.power_of(gone, 2)
        assert T.divide(there, gone).op == "mul"
    for kept in (
        total(K, v, c),
        total(K, T.exp(s)),
        total(K, T.exp(s), d),
        T.fold("prod", (K,), c, T.exp(s)),
        total(J, T.exp(row("S", I, J)), T.compare("<", J, I)),
    ):
        assert T.mul(kept, there) is not kept
    z = T.bracket(T.compare("<", T.ZERO, mantissa(c, T.ONE)))
    for gone in (mantissa(c, v), mantissa(c, v, T.add(s, v))):
        assert T.mul(gone, z) is gone
    for kept in (mantissa(T.TRUE, v), total(K, v, c)):
        assert T.mul(kept, z) is not kept
    signed = T.bracket(T.compare("!=", T.ZERO, total(K, T.mul(T.exp(s), v), c)))
    assert T.mul(weights, signed) is not weights
    twice = total(K, T.mul(weights, T.exp(v)))
    assert T.mul(total(K, weights), T.bracket(T.compare("<", T.ZERO, twice))).op == "mul"


def test_a_positive_factor_does_not_decide_a_sign() -> None:
    """exp(m) may underflow where the sum that it scales is not empty."""
    sums = total(K, T.exp(row("S", I, K)))
    scale = T.exp(T.fold("max", (K,), T.TRUE, row("S", I, K)))
    assert T.compare("<", T.ZERO, T.mul(scale, sums)) is T.compare("<", T.ZERO, sums)
    assert T.compare("<", T.mul(scale, sums), T.ZERO) is T.compare("<", sums, T.ZERO)
    assert T.compare("<", T.ZERO, T.mul(T.exp(X), Y)).args[1].op == "mul"  # 0 where X is -inf


def test_infinite_numbers() -> None:
    assert T.add(X, T.NEG_INF, T.INF) is T.add(X, T.NEG_INF)
    assert T.mul(T.INF, T.ZERO) is T.ZERO
    assert T.sub(T.mul(T.INF, X), T.mul(T.INF, X)).op == "const"
    assert T.is_over_nothing(T.exp(T.NEG_INF))


@pytest.mark.parametrize(
    ("base", "power", "result"),
    [
        (number(4), HALF, number(2)),
        (number(Fraction(9, 4)), -HALF, number(Fraction(2, 3))),
        (number(-2), 3, number(-8)),
        (T.const(3), 2, T.const(9)),
        (T.const(2), -1, number(HALF)),
        (number(0), 0, T.ONE),
        (T.ONE, Fraction(-1, 3), T.ONE),
    ],
)
def test_exact_powers(base: Term, power: Fraction, result: Term) -> None:
    assert T.power_of(base, power) is result


@pytest.mark.parametrize("base", [number(2), number(-4), number(0)])
def test_powers_that_are_no_number_stay(base: Term) -> None:
    assert T.power_of(base, -HALF).op == "pow"


def test_powers_of_zero() -> None:
    infinite = T.divide(T.ONE, T.ZERO)
    assert T.power_of(T.ZERO, -2) is T.power_of(infinite, 2) is infinite
    assert T.power_of(T.ZERO, 2) is T.ZERO and T.power_of(T.ZERO, HALF) is T.ZERO


# --- conditions -----------------------------------------------------------------------


def test_comparisons() -> None:
    assert T.compare(">", A, B) is T.compare("<", B, A)
    assert T.compare(">=", X, Y) is T.compare("<=", Y, X)
    assert T.compare("==", A, B) is T.compare("==", B, A)
    assert T.compare("<", T.const(1), T.const(2)) is T.TRUE
    assert T.compare("<=", A, A) is T.TRUE and T.compare("<", A, A) is T.FALSE
    assert T.compare("<=", X, X).op == "compare"  # false for NaN
    assert T.negate(T.compare("<", A, B)) is T.compare("<=", B, A)
    read = element("A", (), "float")
    assert T.negate(T.compare("<", read, Y)).op == "not"  # it may be NaN


def test_logic() -> None:
    c, d, e = T.compare("<", A, B), T.compare("<", X, Y), T.compare("==", A, I)
    assert T.conjunction(c, T.conjunction(d, e)) is T.conjunction(e, c, d)
    assert T.conjunction(c, c) is c
    assert T.conjunction(c, T.TRUE) is c and T.conjunction(c, T.FALSE) is T.FALSE
    assert T.disjunction(c, T.TRUE) is T.TRUE and T.disjunction() is T.FALSE
    assert T.negate(T.negate(d)) is d
    assert T.negate(T.conjunction(c, d)) is T.disjunction(T.negate(c), T.negate(d))
    assert T.conjuncts(T.conjunction(c, d)) == T.conjunction(c, d).args
    assert T.conjuncts(T.TRUE) == () and T.conjuncts(c) == (c,)


def test_what_guards_a_read_stands_before_it() -> None:
    """`and` and `or` are decided from left to right."""
    guard = T.compare("<", T.const(0), K)
    for extent in range(8):
        read = T.compare("<", number(extent), row("S", T.sub(K, T.const(1))))
        assert T.conjunction(read, guard).args == (guard, read)
        assert T.disjunction(read, guard).args == (guard, read)
    position = element("T", (K,), "int")
    valid, gathered = T.compare("<=", T.const(0), position), T.compare("<", X, row("S", position))
    deeper = T.compare("<", X, row("R", element("U", (position,), "int")))
    assert T.conjunction(deeper, gathered, valid).args == (valid, gathered, deeper)


def test_where() -> None:
    c = T.compare("<", A, B)
    assert T.where(T.TRUE, X, Y) is X and T.where(T.FALSE, X, Y) is Y
    assert T.where(c, X, X) is X
    assert T.where(c, number(1), number(0)) is T.bracket(c)
    assert T.where(c, T.TRUE, T.FALSE) is c
    assert T.where(c, A, X).args[1] is T.as_float(A)


@pytest.mark.parametrize(
    ("monoid", "unit"),
    [
        ("prod", T.ONE),
        ("max", T.NEG_INF),
        ("min", T.INF),
        ("mean", T.ZERO),
        ("logsumexp", T.NEG_INF),
    ],
)
def test_an_aggregate_over_nothing_is_the_unit(monoid: str, unit: Term) -> None:
    assert T.fold(monoid, (K,), T.FALSE, row("S", K)) is unit
    if monoid not in ("mean", "logsumexp"):
        assert T.fold(monoid, (K,), T.compare("<", K, I), unit) is unit


def test_a_sum_over_nothing_is_no_other_zero() -> None:
    """It is 0, but what it divides may be 0, too."""
    nothing = T.fold("sum", (K,), T.FALSE, row("S", K))
    assert T.is_over_nothing(nothing) and T.may_be_empty(nothing)
    assert T.add(X, nothing, Y) is T.add(X, Y) and T.add(nothing, nothing) is nothing
    assert T.mul(X, nothing) is nothing
    assert T.divide(X, nothing) is not T.divide(X, T.ZERO)
    assert T.fold("sum", (K,), T.FALSE, K) is T.const(0)
    assert T.fold("sum", (K,), T.compare("<", K, I), T.ZERO) is T.ZERO


# --- binders --------------------------------------------------------------------------


def test_opening_closes_again() -> None:
    t = total(K, T.mul(row("S", I, K), total(L, T.exp(row("R", K, L)))), T.compare("<=", K, I))
    opened, (condition, body) = T.open_fold(t)
    assert T.refold(t, condition, body, opened=opened) is t
    assert T.open_fold(t) == T.open_fold(t)
    opened, (condition, body) = T.open_as(t, ["k"])
    assert opened == (K,) and condition is T.compare("<=", K, I)
    assert T.refold(t, condition, body, opened=opened) is t


def test_opened_names_are_not_taken() -> None:
    """Nested folds that are opened one inside the other keep their indices apart."""
    t = total(K, T.mul(row("S", K), total(L, row("R", K, L))))
    (outer,), (_, body) = T.open_fold(t)
    (inner_fold,) = [f for f in body.args if f.op == "fold"]
    (inner,), (_, inner_body) = T.open_fold(inner_fold)
    assert inner is not outer
    assert inner_body is row("R", outer, inner)
    assert total(outer, T.mul(row("S", outer), total(inner, inner_body))) is t


def test_an_opened_name_may_be_free_already() -> None:
    """A rule builds new folds out of opened parts."""
    (opened,), _ = T.open_fold(total(K, row("S", I, K)))
    t = total(K, row("R", opened, K))
    (other,), (_, body) = T.open_fold(t)
    assert other is not opened
    assert body is row("R", opened, other)


def test_substitution_does_not_capture() -> None:
    inner = total(K, row("R", I, K))
    moved = T.substitute(inner, {"i": K})  # K is free here, and not the bound one
    assert moved is total(L, row("R", K, L))
    assert moved.free == {"k"}
    (opened,), _ = T.open_fold(inner)
    assert T.substitute(inner, {"i": opened}).free == opened.free  # nor an opened name
    swapped = T.substitute(row("S", I, J), {"i": J, "j": I})
    assert swapped is row("S", J, I)
    assert T.substitute(inner, {"k": I}) is inner


def test_substitution_computes() -> None:
    t = T.fold("sum", (K,), T.compare("<=", K, I), row("S", T.sub(I, K)))
    there = T.substitute(t, {"i": T.add(I, T.const(1))})
    shifted = row("S", T.add(I, T.const(1), T.neg(K)))
    assert there is T.fold("sum", (K,), T.compare("<=", K, T.add(I, T.const(1))), shifted)
    assert T.substitute(T.compare("<", I, K), {"i": K}) is T.FALSE


def test_an_aggregate_at_a_place_that_the_language_cannot_name() -> None:
    """At a computed position, or one that is free below: written by its definition."""
    kept = T.fold_at("softmax", I, J, T.TRUE, row("S", J))
    assert kept.op == "fold_at"
    moved = T.substitute(kept, {"i": T.floordiv(I, T.const(2))})
    weights = total(J, T.exp(row("S", J)))
    assert moved is T.divide(T.exp(row("S", T.floordiv(I, T.const(2)))), weights)
    diagonal = T.fold_at("sum", J, J, T.TRUE, row("S", I, J))
    at_i = T.substitute(diagonal, {"j": I})
    assert at_i is total(J, row("S", I, J), T.compare("<=", J, I))


def test_replace_goes_below_binders() -> None:
    t = total(K, T.mul(row("S", I, K), row("M", I)))
    assert T.replace(t, row("M", I), X) is total(K, T.mul(row("S", I, K), X))
    assert T.replace(t, Y, X) is t


def test_subterms_come_after_their_operands() -> None:
    t = T.exp(T.add(X, total(K, T.mul(row("S", I, K), X))))
    order = list(T.subterms(t))
    assert order[-1] is t and len(set(order)) == len(order)
    position = {s: n for n, s in enumerate(order)}
    assert all(position[c] < position[s] for s in order for c in T.children(s))


# --- facts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "positive", "nonnegative"),
    [
        (T.exp(T.as_float(I)), True, True),
        (T.exp(X), False, True),  # 0 for -inf
        (X, False, False),
        (T.power_of(X, 2), False, True),
        (T.function("abs", X), False, True),
        (T.function("relu", X), False, True),
        (T.add(T.exp(X), T.power_of(Y, 2)), False, True),
        (T.add(T.ONE, T.exp(X), T.power_of(Y, 2)), True, True),
        (T.sub(T.exp(X), T.exp(Y)), False, False),
        (T.extent_of("k"), True, True),
        (T.power_of(T.extent_of("k"), -HALF), True, True),
        (total(K, T.exp(row("S", K))), False, True),
        (total(K, T.exp(T.as_float(K))), True, True),
        (total(K, row("S", K)), False, False),
        (T.fold("max", (K,), T.TRUE, T.exp(row("S", K))), False, True),
        (T.fold("max", (K,), T.compare("<", K, I), T.exp(row("S", K))), False, False),  # of nothing
        (number(-1), False, False),
        (T.as_float(I), False, True),
        (T.mul(number(-1), T.exp(X)), False, False),
        (T.bracket(T.compare("<", A, B)), False, True),
    ],
)
def test_signs(term: Term, positive: bool, nonnegative: bool) -> None:
    assert (T.is_positive(term), T.is_nonnegative(term)) == (positive, nonnegative)


# --- values ---------------------------------------------------------------------------
# Random expressions, evaluated as they are drawn in plain NumPy, and as terms by the oracle.

Tree = tuple[Any, ...]
Array = np.ndarray[Any, np.dtype[Any]]

GRID = np.array([-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0])
FLOATS = dict(zip("uvw", (g.ravel() for g in np.meshgrid(GRID, GRID, GRID)), strict=True))
INTS = {"m": np.arange(GRID.size**3) % 7 - 3, "n": np.arange(GRID.size**3) // 7 % 5}

_UNARY: dict[str, tuple[Callable[[Array], Array], Callable[[Term], Term]]] = {
    name: (f, lambda t, name=name: T.function(name, t))  # type: ignore[misc]
    for name, f in {
        "exp": np.exp,
        "log": np.log,
        "sqrt": np.sqrt,
        "abs": np.abs,
        "tanh": np.tanh,
        "relu": lambda x: np.maximum(x, 0),
        "exp2": np.exp2,
        "log2": np.log2,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    }.items()
} | {"neg": (np.negative, T.neg)}
_BINARY: dict[str, tuple[Callable[[Array, Array], Array], Callable[[Term, Term], Term]]] = {
    "+": (np.add, T.add),
    "-": (np.subtract, T.sub),
    "*": (np.multiply, T.mul),
    "/": (np.divide, T.divide),
    "maximum": (np.maximum, lambda a, b: T.function("maximum", a, b)),
    "minimum": (np.minimum, lambda a, b: T.function("minimum", a, b)),
}
_THIRDS = [Fraction(1, 3), Fraction(2, 3)]
_POWERS = [2, 3, -1, -2, HALF, -HALF, Fraction(1, 4), Fraction(3, 2), *_THIRDS]
_SIGNS = {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal}


def test_a_power_of_a_positive_number_is_an_exponential() -> None:
    """But for whole exponents: 2 ** 3 is 8, and exp(3 * log(2)) nearly."""
    x, n = element("x", (I,), "float"), element("n", (I,), "int")
    assert T.general_power(T.const(2), x) is T.function("exp2", x)
    assert T.general_power(T.const(HALF), x) is T.exp(T.neg(T.mul(x, T.log(T.const(2)))))
    assert T.general_power(T.const(2), n).op == "power"
    for base in (T.ZERO, T.ONE, T.const(-2), T.INF, element("y", (I,), "float")):
        assert T.general_power(base, x).op == "power"


def trees() -> st.SearchStrategy[Tree]:
    leaf = st.one_of(
        st.tuples(st.just("read"), st.sampled_from([*FLOATS, *INTS])),
        st.tuples(st.just("number"), st.sampled_from([0, 1, 2, -1, HALF, Fraction(-3, 2), 4])),
    )

    def larger(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        sums = st.tuples(st.sampled_from(["+", "-", "*"]), leaf, leaf)
        side = st.one_of(leaf, sums, st.tuples(st.just("+"), sums, sums))
        condition = st.tuples(st.sampled_from(list(_SIGNS)), side, side)
        both = st.tuples(st.sampled_from(["and", "or"]), condition, condition)
        any_condition = st.one_of(condition, both, st.tuples(st.just("not"), condition))
        return st.one_of(
            st.tuples(st.sampled_from(list(_UNARY)), inner),
            st.tuples(st.sampled_from(list(_BINARY)), inner, inner),
            st.tuples(st.sampled_from(list(_BINARY)), inner, inner),
            st.tuples(st.just("pow"), inner, st.sampled_from(_POWERS)),
            st.tuples(st.just("where"), any_condition, inner, inner),
            st.tuples(st.just("bracket"), any_condition),
        )

    return st.recursive(leaf, larger, max_leaves=8)


def term_of(tree: Tree) -> Term:
    """A tree, built by the constructors."""
    op, *parts = tree
    if op == "read":
        kind: Any = "float" if parts[0] in FLOATS else "int"
        return T.read(T.Tensor(parts[0], ("i",)), (I,), kind)
    if op == "number":
        return T.const(parts[0])
    if op == "pow":
        return T.general_power(term_of(parts[0]), T.const(parts[1]))
    args = [term_of(p) for p in parts]
    if op in _UNARY:
        return _UNARY[op][1](*args)
    if op in _BINARY:
        return _BINARY[op][1](*args)
    if op in _SIGNS:
        return T.compare(op, *args)
    table: dict[str, Callable[..., Term]] = {
        "and": T.conjunction,
        "or": T.disjunction,
        "not": T.negate,
        "where": T.where,
        "bracket": T.bracket,
    }
    return table[op](*args)


def value_of(tree: Tree, finite: list[Array]) -> Array:
    """A tree's value at every position; `finite` collects where each part is finite."""
    op, *parts = tree
    if op == "read":
        value = (FLOATS | INTS)[parts[0]].astype(np.longdouble)
    elif op == "number":
        value = np.full(len(INTS["m"]), np.longdouble(parts[0].numerator) / parts[0].denominator)
    elif op == "pow":
        base = value_of(parts[0], finite)
        power = Fraction(parts[1])
        value = base ** (np.longdouble(power.numerator) / power.denominator)
    else:
        args = [value_of(p, finite) for p in parts]
        if op in _UNARY:
            value = _UNARY[op][0](*args)
        elif op in _BINARY:
            value = _BINARY[op][0](*args)
        elif op in _SIGNS:
            return np.asarray(_SIGNS[op](*args))
        elif op in ("and", "or", "not"):
            table = {"and": np.logical_and, "or": np.logical_or, "not": np.logical_not}
            return np.asarray(table[op](*args))
        else:
            value = np.where(args[0], *(args[1:] or (1.0, 0.0)))
    finite.append(np.isfinite(value) & (np.abs(value) < 1e200))
    return np.asarray(value)


@settings(max_examples=250)
@given(trees())
def test_constructors_preserve_values(tree: Tree) -> None:
    """Wherever all parts of the source are finite, the term has the source's value."""
    term = term_of(tree)
    body = show(T.as_float(term))
    note(body)
    with np.errstate(all="ignore"):
        finite: list[Array] = []
        expected = value_of(tree, finite)
        sound = np.logical_and.reduce(finite)
    assume(sound.any())
    head = "input u[i], v[i], w[i], m[i]: int, n[i]: int"
    result = evaluate(f"{head}\nO[i] = {body} + 0 * i", {**FLOATS, **INTS})
    np.testing.assert_allclose(
        np.asarray(result)[sound], expected[sound].astype(np.float64), rtol=1e-9, atol=1e-12
    )


@settings(max_examples=150)
@given(trees())
@example(("rsqrt", ("exp", ("log", ("read", "u")))))
@example(("/", ("read", "u"), ("exp", ("/", ("number", 1), ("read", "u")))))
@example(("-", ("log", ("read", "u")), ("log", ("read", "u"))))
def test_a_printed_term_parses_to_itself(tree: Tree) -> None:
    term = T.as_float(term_of(tree))
    head = "input u[i], v[i], w[i], m[i]: int, n[i]: int"
    (equation,) = translate(check(f"{head}\nO[i] = {show(term)} + 0 * i")).equations
    names = {"i": T.index("i", equation.indices[0].attr[1])}
    assert equation.body is T.substitute(term, names)


def test_numbers_are_exact() -> None:
    third = T.const(Fraction(1, 3))
    assert T.add(third, third, third) is T.ONE
    assert T.const(0.1).attr == Fraction(0.1) and not math.isinf(T.const(0.1).attr)


# --- comparisons of integers -----------------------------------------------------------


@pytest.mark.parametrize(
    "texts",
    [
        ("k <= q", "q - k >= 0", "not (k > q)", "k < q + 1", "2 * k <= 2 * q + 1", "0 <= q - k"),
        ("q - k < window", "q < k + window", "not (q - k >= window)", "k >= q - window + 1"),
        ("q == k + 1", "q - k == 1", "k == q - 1", "not (k + 1 != q)", "3 * q == 3 * k + 3"),
        ("0 < k", "k >= 1", "k > 0", "2 * k > 0", "not (k <= 0)"),
        ("q < q", "2 * k == 2 * q + 1", "k < 0", "q * k < 0", "not (0 <= k)"),
        ("q == q", "2 * k != 2 * q + 1", "k >= 0", "q % 3 + k >= 0"),
    ],
)
def test_equal_comparisons_are_one_object(texts: tuple[str, ...]) -> None:
    """Whichever way they are written; each is printed as the first, if that is not decided."""
    found = {condition(text) for text in texts}
    assert len(found) == 1
    (only,) = found
    assert only.op == "const" or show(only) == texts[0]


def condition(text: str) -> Term:
    head = "param window: int = 3\nindex q < 9, k < 9\nP[q,k] = X[q,k] * window\n"
    program = check(f"{head}O[q,k] = {text}\nreturn O, P")
    return translate(program).outputs[0].body
