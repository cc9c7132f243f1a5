"""Random inputs fit the program: sizes agree, and computed subscripts stay inside; and faults that
a rewrite could make are found, which `test_printer` looks for after every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from monocomp import terms as T
from monocomp.checking.random_inputs import random_inputs, to_bfloat16
from monocomp.checking.sizes import Sizes, complete_extents, fits
from monocomp.declarations.records import by_representative, free_extents
from monocomp.errors import MonocompError, UsageError
from monocomp.language.checker import check
from monocomp.reference.oracle import evaluate
from monocomp.terms.equations import Equations
from monocomp.translation.translator import translate
from tests.elements import element
from tests.printed import verify

PAGED = """
input K[p,s,d], table[b,n]: int
index k < |n| * |s|
O[b,q,d] = softmax[k](Q[b,q,e] * K[table[b, k // |s|], k % |s|, e]) * K[table[b, k // |s|], k % |s|, d]
"""  # noqa: E501
WINDOW = "param w: int = 3\nindex j < w, t < 7\nY[t] = sum[j if t - j >= 0](X[t - j] * W[j])"

PROGRAMS = {
    "lone": "O[i] = 2 * A[i]",
    "paged": PAGED,
    "window": WINDOW,
    "relative": "O[q,e] = softmax[k](Q[q,d] * K[k,d] + R[q - k + |k|]) * V[k,e]",
    "lengths": "input len[b]: int\nO[b,e] = sum[k if k < len[b]](V[b,k,e])",
    "grouped": "input K[g,d]\nO[h] = Q[h,d] * K[h // (|h| // |g|), d]",
    "named": "input K[g,d]\nG[h] = h // (|h| // |g|)\nO[h] = Q[h,d] * K[G[h], d]",
    "gather": "O[i] = A[T[i]] + B[2 * T[i] + 1]",
    "helper": "def half(i) = i // 2\nO[i] = A[half(i + 1)] * B[i]",
    "scalars": "input a, n: int\nO[i] = a * A[i] + n",
    "condition": "O[i] = where(m[i], A[i], 0)",
    "choice": "O[i] = A[where(i < 2, i, 2)] + A[minimum(i, 3)] + B[i]",
    "many": "O = A[a,b,c,d] * B[e,f,g] * C[h,i]",
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(3))
def test_programs_run_on_their_random_inputs(name: str, seed: int) -> None:
    program = translate(check(PROGRAMS[name]))
    inputs = random_inputs(program, {}, seed=seed)
    assert set(inputs) == set(program.declared.inputs)
    evaluate(program.origin.text, inputs)  # an index out of range or two sizes would be an error


def test_small_extents_are_distinct() -> None:
    program = translate(check("O[b,h,q,e] = softmax[k](Q[b,h,q,d] * K[b,h,k,d]) * V[b,h,k,e]"))
    extents = complete_extents(program, {})
    assert sorted(extents.values()) == [2, 3, 5, 7, 11, 13]


def test_given_and_declared_extents() -> None:
    program = translate(check(PAGED))
    extents = complete_extents(program, {"s": 4, "n": 6})
    assert extents["k"] == 24
    assert free_extents(program.declared) == ("p", "s", "d", "b", "n", "q")
    assert complete_extents(translate(check(WINDOW)), {}, {"w": 5})["j"] == 5


def test_extents_that_must_divide() -> None:
    program = translate(check(PROGRAMS["grouped"]))
    assert complete_extents(program, {"h": 12})["g"] in (2, 3, 4, 6)
    extents = complete_extents(program, {})
    assert extents["h"] % extents["g"] == 0
    assert fits(program, {"h": 6, "g": 3}, {})
    assert not fits(program, {"h": 7, "g": 3}, {})


def test_two_names_of_one_extent() -> None:
    program = translate(check("O[i,j] = A[i,d] * A[j,d]"))
    assert by_representative(program.declared, {"j": 4}) == {"i": 4}
    assert by_representative(program.declared, {"j": 4, "i": 4}) == {"i": 4}
    with pytest.raises(UsageError, match="indices 'i' and 'j' have one extent, and get two: 4 and"):
        by_representative(program.declared, {"i": 4, "j": 5})


def test_bfloat16_numbers_are_the_nearest() -> None:
    torch = pytest.importorskip("torch")
    numbers = np.random.default_rng(0).standard_normal((7, 300), dtype=np.float32)
    expected = torch.from_numpy(numbers).bfloat16().float().numpy()
    assert np.array_equal(to_bfloat16(numbers), expected)
    program = translate(check("O[i] = A[i]"))
    drawn = random_inputs(program, {"i": 100}, dtype="bfloat16")["A"]
    assert np.array_equal(to_bfloat16(drawn), drawn)


def test_special_points_are_frequent() -> None:
    """In one program after another, also those that are rare among elements."""
    text = "input n[q]: int\nO[q] = sum[k if F[q,k] and k < n[q]](exp(S[q,k]) * W[k])"
    program = translate(check(text))
    found = {"weight of 0 at the largest": 0, "ties": 0, "nothing": 0, "rows of -inf": 0}
    for seed in range(60):
        for points in ("finite", "any"):
            arrays = random_inputs(program, {}, seed=seed, points=points)
            s, admitted = arrays["S"], arrays["F"] & (np.arange(3) < arrays["n"][:, None])
            largest = np.argmax(np.where(np.isnan(s), -np.inf, s), axis=1)
            found["weight of 0 at the largest"] += (arrays["W"][largest] == 0).any()
            found["ties"] += any(len(set(row)) < len(row) for row in s.tolist())
            found["nothing"] += (~admitted).all(axis=1).any()
            found["rows of -inf"] += (s == -np.inf).all(axis=1).any()
    assert all(count > 6 for count in found.values()), found


@pytest.mark.parametrize("given", [{}, {"q": 7}, {"q": 2, "k": 9}])
def test_other_sizes_of_the_same_program(given: dict[str, int]) -> None:
    """As if the program had been read for them; the first ones stay as they are."""
    program = translate(check("O[q] = sum[k](X[q + k] * V[k]) * Y[q]"))
    first = Sizes(program, {"q": 3}, {})
    before = dict(first.extents)
    other = first.at(given)
    assert other.extents == complete_extents(program, given) and first.extents == before
    assert other.fit and fits(program, given, {})


# --- faults of rewrites ------------------------------------------------------------------


def with_body(change: Callable[[T.Term], T.Term]) -> Equations:
    program = translate(check("O[i] = sum[k](X[i,k] * Y[k])"))
    return program.map(change)


X = element("X", (T.index("i", "i"), T.index("l", "k")), "float")
FAULTS: dict[str, tuple[Callable[[T.Term], T.Term], str]] = {
    "a variable that nothing binds": (lambda body: T.open_fold(body)[1][1], "is printed as"),
    "an index that the equation lacks": (lambda body: T.add(body, X), "is printed as"),
    "a definition that is gone": (lambda body: T.mul(body, T.ref("D", (), "float")), "'D' is no"),
    "no input": (lambda body: T.mul(body, element("Z", (), "float")), "'Z' is no"),
    "another term's text": (lambda body: T.mul(body, T.inert("add", T.ZERO, T.ONE)), "is printed"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    change, message = FAULTS[fault]
    with pytest.raises(MonocompError, match=message):
        verify(with_body(change))


def test_an_equation_that_is_gone_is_found() -> None:
    program = with_body(lambda body: body)
    with pytest.raises(MonocompError, match="it defines nothing"):
        verify(replace(program, equations=()))
