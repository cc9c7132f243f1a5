"""Subscripts that are inside of their tensor, whatever their indices are."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import product

import pytest

from monocomp import terms as T
from monocomp.extents.intervals import evaluated, interval, is_inside
from monocomp.terms import Term
from tests.elements import element

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
    """Does a subscript leave a dimension of a size, for some sizes and values of its indices?"""
    for numbers in product(range(4), repeat=len(SIZES)):
        sizes = dict(zip(SIZES, numbers, strict=True))
        length = evaluated(size, sizes)
        assert length is not None
        indices = [i for i in (Q, K) if i.name in subscript.free]
        for values in product(*(range(sizes[i.extent]) for i in indices)):
            known = dict(zip(indices, values, strict=True))
            if not 0 <= value(subscript, sizes, known) < length:
                return True
    return False


def value(t: Term, sizes: Mapping[str, int], known: Mapping[Term, int]) -> int:
    def of_leaf(t: Term) -> tuple[int, int] | None:
        found = sizes[t.attr] if t.op == "extent" else known.get(t)
        return None if found is None else (found, found)

    found = interval(t, of_leaf)
    assert found is not None and found[0] == found[1]
    return found[0]


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
