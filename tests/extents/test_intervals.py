"""Subscripts that are inside of their tensor, whatever their indices are; and sizes where none are
given: given ones win, features are short, the rest is long."""

from __future__ import annotations

import random

import pytest
import z3

from monocomp import terms as T
from monocomp.extents.intervals import is_inside
from monocomp.extents.nominal import LONG, SHORT, nominal_sizes
from monocomp.language.checker import check
from monocomp.terms import Term
from monocomp.translation.translator import translate
from tests.elements import element
from tests.extents.test_splits import Formulas

Q, K, R = (T.index(n, n) for n in "qkr")
SIZES = {n: T.extent_of(n) for n in "qkrm"}
ONE, TWO = T.const(1), T.const(2)


def less(a: Term, *rest: Term) -> Term:
    return T.sub(a, T.add(*rest))


RELATIVE = T.add(less(Q, K, ONE), SIZES["k"])  # q - k + |k| - 1
DISTANCES = less(T.add(SIZES["q"], SIZES["k"]), ONE)

INSIDE = {
    "distances": (RELATIVE, DISTANCES),
    "more of them": (RELATIVE, T.add(DISTANCES, T.const(3))),
    "the other way": (T.add(less(K, Q, ONE), SIZES["q"]), DISTANCES),
    "backwards": (less(SIZES["q"], Q, ONE), SIZES["q"]),
    "twice": (T.add(T.mul(TWO, Q), ONE), T.mul(TWO, SIZES["q"])),
    "a half": (T.floordiv(Q, TWO), T.add(T.floordiv(less(SIZES["q"], ONE), TWO), ONE)),
    "a remainder": (T.modulo(less(Q, K), TWO), TWO),
}
NOT = {
    "one too few": (RELATIVE, less(DISTANCES, ONE)),
    "one too low": (less(RELATIVE, ONE), DISTANCES),
    "of another extent": (Q, SIZES["k"]),
    "what may have no element": (Q, less(T.add(SIZES["q"], SIZES["m"]), ONE)),
    "after what may have none": (less(T.add(Q, SIZES["m"]), ONE), T.add(SIZES["q"], SIZES["m"])),
    "a number": (T.const(0), SIZES["m"]),
    "a remainder of what may be 0": (T.modulo(Q, SIZES["m"]), SIZES["q"]),
    "what is read": (element("X", (Q,), "int"), SIZES["q"]),
    "a causal distance": (less(Q, K), SIZES["q"]),
    "after a parameter": (T.add(Q, T.param("p", "int")), SIZES["q"]),
}


@pytest.mark.parametrize("name", INSIDE)
def test_inside(name: str) -> None:
    subscript, size = INSIDE[name]
    assert is_inside(subscript, "n", {"n": size})
    assert not leaves(subscript, size)


@pytest.mark.parametrize("name", NOT)
def test_what_may_leave(name: str) -> None:
    subscript, size = NOT[name]
    assert not is_inside(subscript, "n", {"n": size})


def leaves(subscript: Term, size: Term) -> bool:
    """True if a subscript leaves a dimension of a size, for some sizes and values of indices."""
    formulas, k = Formulas(), z3.Int("k")
    at, length = formulas.of(subscript, k), formulas.of(size, k)
    solver = z3.Solver()
    solver.add(*formulas.facts, *(z3.Int(f"|{n}|") >= 0 for n in SIZES))
    for n in subscript.free:
        solver.add(z3.Int(n) >= 0, z3.Int(n) < z3.Int(f"|{n}|"))
    return bool(solver.check(z3.Or(at < 0, length <= at)) != z3.unsat)


@pytest.mark.parametrize("seed", range(8))
def test_random_subscripts(seed: int) -> None:
    rng = random.Random(seed)

    def linear(parts: list[Term], least: int) -> Term:
        terms = (T.mul(T.const(rng.randint(least, 2)), p) for p in parts)
        return T.add(T.const(rng.randint(-2, 2)), *terms)

    found = 0
    for _ in range(2000):
        subscript = linear(rng.sample([Q, K, *SIZES.values()], 3), -1)
        if rng.random() < 0.3:
            subscript = rng.choice([T.floordiv, T.modulo])(subscript, T.const(rng.randint(1, 3)))
        size = linear(rng.sample([*SIZES.values()], 3), 0)
        if is_inside(subscript, "n", {"n": size}):
            found += 1
            assert not leaves(subscript, size), (subscript, size)
    assert found


# --- nominal sizes -----------------------------------------------------------------------


ATTENTION = "O[b,h,q,e] = softmax[k](Q[b,h,q,d] * K[b,h,k,d]) * V[b,h,k,e]"


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        (ATTENTION, "de", "bhqk"),
        ("O[i] = sum[k](X[i,k])", "k", "i"),
        ("O[i] = sum[k](X[i,k] * Y[k,i])", "", "ik"),  # each is also a first dimension
        ("s = sum[k](x[k])", "", "k"),  # a vector does not tell
        ("O[i] = sum[c](X[i,c] * g[c])", "c", "i"),
        ("O[i,c] = sum[j](A[i,j] * X[j,c])", "c", "ij"),
    ],
)
def test_features_are_short(text: str, short: str, long: str) -> None:
    sizes = nominal_sizes(translate(check(text)).declared)
    assert sizes == dict.fromkeys(short, SHORT) | dict.fromkeys(long, LONG)


def test_given_sizes_win() -> None:
    sizes = nominal_sizes(translate(check(ATTENTION)).declared, {"d": 512, "h": 8})
    assert (sizes["d"], sizes["h"], sizes["e"], sizes["k"]) == (512, 8, SHORT, LONG)


def test_a_declared_number_is_the_size() -> None:
    sizes = nominal_sizes(translate(check("index r < 2 * 4\nO[i] = sum[r](X[i, 3 * r])")).declared)
    assert sizes["r"] == 8
    text = "input X[n,s,c]\nindex k < |n| * |s|\nO[c] = sum[k](X[k // |s|, k % |s|, c])"
    sizes = nominal_sizes(translate(check(text)).declared)
    assert sizes["k"] == LONG


def test_a_part_of_a_short_extent_is_short() -> None:
    """Rotary halves: |d| // 2 follows |d|, given or not, and is one size of several declared."""
    text = "input Q[q,d]\nindex r < |p| // 2\nindex p < |d| // 2\n"
    declared = translate(check(f"{text}O[q,p,r] = Q[q,p] * Q[q, p + |p|] * Q[q,r]")).declared
    for given, wanted in (({}, (64, 32, 16)), ({"d": 128}, (128, 64, 32)), ({"p": 7}, (64, 7, 3))):
        sizes = nominal_sizes(declared, given)
        assert tuple(sizes[e] for e in "dpr") == wanted
    assert nominal_sizes(declared, {"d": 1})["r"] == 1  # nothing says that there are no elements
    declared = translate(check("input X[i,d]\nindex w < |i| // 2\nO[w] = sum[d](X[w,d])")).declared
    assert nominal_sizes(declared)["w"] == LONG // 2
