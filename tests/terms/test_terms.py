"""Terms: one object for equal terms, canonical arithmetic, and no value changed by it."""

from __future__ import annotations

import pickle
from fractions import Fraction

import pytest

import monocomp as mc
from monocomp import terms as T
from monocomp.errors import InternalError
from monocomp.language.checker import check
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


# --- kinds ----------------------------------------------------------------------------


def test_a_subscript_is_an_integer() -> None:
    with pytest.raises(InternalError, match="not an integer"):
        row("S", X)
    assert element("S", (T.compare("<", A, B),), "float").args[0].kind == "int"


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
    assert T.exp(T.NEG_INF) is T.exp(T.add(X, T.NEG_INF)) is T.ZERO
    assert T.log(T.ZERO) is T.NEG_INF


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
    assert T.divide(T.ZERO, T.ZERO) is T.ZERO
    assert T.fold("sum", (K,), T.FALSE, K) is T.const(0)
    sink = T.add(weights, T.exp(T.as_float(I)))  # never empty
    assert T.divide(sink, sink) is T.ONE


def test_a_positive_factor_does_not_decide_a_sign() -> None:
    """exp(m) may underflow where the sum that it scales is not empty."""
    sums = total(K, T.exp(row("S", I, K)))
    scale = T.exp(T.fold("max", (K,), T.TRUE, row("S", I, K)))
    assert T.compare("<", T.ZERO, T.mul(scale, sums)) is T.compare("<", T.ZERO, sums)
    assert T.compare("<", T.mul(scale, sums), T.ZERO) is T.compare("<", sums, T.ZERO)
    assert T.compare("<", T.ZERO, T.mul(T.exp(X), Y)).args[1].op == "mul"  # 0 where X is -inf


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


# --- conditions -----------------------------------------------------------------------


def test_comparisons() -> None:
    assert T.compare(">", A, B) is T.compare("<", B, A)
    assert T.compare(">=", X, Y) is T.compare("<=", Y, X)
    assert T.compare("==", A, B) is T.compare("==", B, A)
    assert T.compare("<", T.const(1), T.const(2)) is T.TRUE
    assert T.compare("<=", A, A) is T.TRUE and T.compare("<", A, A) is T.FALSE
    assert T.compare("<=", X, X).op == "compare"  # false for NaN
    assert T.negate(T.compare("<", A, B)) is T.compare("<=", B, A)
    assert T.negate(T.compare("<", X, Y)) is T.compare("<=", Y, X)


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
        ("sum", T.ZERO),
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


# --- extents of 0 ------------------------------------------------------------------------


HEAD = """\
monoid M(v, m) = unit (0, 1), combine (v * m' + v', m * m')
input X[i], S[i,k], R[i,j]
"""


def body(text: str, sizes: dict[str, int] | None = None) -> Term:
    """Return the right-hand side of a program of one line, for known sizes."""
    (equation,) = translate(check(text), sizes).equations
    return equation.body


@pytest.mark.parametrize(
    ("whole", "left"),
    [
        ("X[i] * prod[k](S[i,k])", "X[i]"),
        ("minimum(X[i], min[k](S[i,k]))", "minimum(X[i], inf)"),
        (
            "X[i] + max[j](R[i,j] + sum[k](S[i,k]))",
            "X[i] + max[j](R[i,j] + sum[k if k < k](S[i,k]))",
        ),
        ("X[i] * M[j, k](S[i,k], R[i,j]).m", "X[i] * M[j, k if k < k](S[i,k], R[i,j]).m"),
        ("X[i] + |k|", "X[i]"),
    ],
)
def test_folds_admit_nothing(whole: str, left: str) -> None:
    wanted = body(f"{HEAD}A[i] = {left}")
    assert body(f"{HEAD}index k < 0\nA[i] = {whole}") is wanted
    assert body(f"{HEAD}A[i] = {whole}", {"k": 0}) is wanted
    assert body(f"{HEAD}A[i] = {whole}", {"k": 1}) is not wanted


def test_equations_without_a_text_admit_nothing() -> None:
    """The equations of a gradient come from no text: their folds are emptied as they stand."""
    gradient = mc.grad("A[i] = logsumexp[k](S[i,k])").equations.at({"k": 0})
    folds = [t for e in gradient.equations for t in T.subterms(e.body) if t.op == "fold"]
    assert all(t.args[0] is T.FALSE for t in folds if "k" in t.attr.extents)
