"""Domains: every split is a disjoint cover, as a solver proves."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import z3

from monocomp import library
from monocomp import terms as T
from monocomp.extents.domain import LIMIT, Domain, Interval, split
from monocomp.language.checker import check
from monocomp.terms import Term
from monocomp.translation.translator import translate

K, Q = T.index("k", "k"), T.index("q", "q")
HEAD = """
param s: int = 4, w: int = 5, r: int = 2
input n[q]: int, m[k]: int, first[q]: int, last[q]: int, seen[q,k]: bool
"""


def condition(text: str) -> Term:
    """A filter over k, in the indices k and q."""
    program = translate(check(f"{HEAD}index q < 9, k < 9\nO[q,k] = {text}\nreturn O"))
    return program.outputs[0].body


def shown(domain: Domain) -> str:
    """[lower, upper) of each interval, * if it is masked, and the mask."""
    intervals = []
    for i in domain.intervals:
        low, high = (", ".join(map(repr, bounds)) for bounds in (i.lower, i.upper))
        intervals.append(f"[{low}; {high})" + "*" * i.masked)
    mask = "" if domain.mask is T.TRUE else f" where {domain.mask}"
    return " + ".join(intervals) + mask


# --- what the intervals are ---------------------------------------------------------------

SPLITS = {
    "k == k": "[; )",
    "k < k": "[; 0)",
    "k <= q": "[; q + 1)",
    "k <= q and q - k < w": "[q - w + 1; q + 1)",
    "k <= q and (k < s or q - k < w)": "[; q + 1, s, q - w + 1) + [q - w + 1; q + 1)",
    "k < n[q] or k <= q": "[; maximum(n[q], q + 1))",
    "first[q] <= k and k < last[q] and k <= q": "[first[q]; q + 1, last[q])",
    "k < q or k == q": "[; q + 1)",
    "k < 3 or k >= 3": "[; )",
    "k > q or k >= w": "[minimum(w, q + 1); )",
    "first[q] <= k and k < last[q] or k >= last[q]": "[minimum(first[q], last[q]); )",
    "k != q": "[; q) + [q + 1; )",
    "k != q and k <= q": "[; q)",
    "not (k == q or k == w)": None,
    "r * k == q": None,
    "abs(q - k) < w": "[q - w + 1; w + q)",
    "abs(q - k) > w": "[; q - w) + [w + q + 1, q - w; )",
    "2 * k <= q": "[; q // 2 + 1)",
    "3 * k > q + 1": "[-((-q - 2) // 3); )",
    "2 * k == q": "[-(-q // 2); q // 2 + 1)",
    "q - r * k >= 0": "[; where(0 < r, q // r + 1, |k|))",
    "k // 8 == q // 8": "[8 * (q // 8); 8 * (q // 8) + 8)",
    "k // 8 < q // 8 or k <= q": None,
    "k // r == q": None,
    "q < s and k == k": "[; where(q < s, |k|, 0))",
    "q < s or k <= q": "[; maximum(where(q < s, |k|, 0), q + 1))",
    "seen[q,k]": "[; )* where seen[q,k]",
    "k < s or seen[q,k]": "[; s) + [s; )* where seen[q,k] or k < s",
    "k <= q and k % 2 == 0": "[; q + 1)* where 0 == k % 2",
    "(q - k) % r == 0 and k <= q": "[; q + 1)* where 0 == (q - k) % r",
    "k * k < q": "[; )* where k ** 2 < q",
    "m[k] < q": "[; )* where m[k] < q",
    "r * k != q": None,
    "X[q,k] > 0": "[; )* where 0.0 < X[q,k]",
    "not (X[q,k] > 0 or k > q)": "[; q + 1)* where X[q,k] <= 0.0",
    "k != 1 and k != 4 and k != 7": "[; 1) + [2; 4) + [5; 7) + [8; )",
}


@pytest.mark.parametrize("text", [t for t, wanted in SPLITS.items() if wanted])
def test_split(text: str) -> None:
    assert shown(split(K, condition(text))) == SPLITS[text]


def test_too_many_intervals_are_one_with_a_mask() -> None:
    text = " and ".join(f"k != {n}" for n in range(1, 2 * LIMIT, 2))
    found = split(K, condition(f"({text}) and k <= q"))
    assert found.intervals == (Interval(upper=(T.add(Q, T.const(1)),), masked=True),) or any(
        i.masked for i in found.intervals
    )
    assert len(found.intervals) <= LIMIT


# --- by proof -----------------------------------------------------------------------------

ATOMS = (
    *("k <= q", "k < q - 1", "k == q", "k != q - 1", "k >= w", "k < s", "q - k < w", "q < s"),
    *("k < n[q]", "first[q] <= k", "k < last[q]", "2 * k <= q", "3 * k > q + w", "k - 2 * q < s"),
    *("q - r * k >= 0", "r * k + s > q", "k // 2 == q // 2", "k // 3 < w", "abs(q - k) < w"),
    *("k // (q // 3) == s // 2", "k // (q // 2) < w"),
    *("2 * abs(k - s) >= w", "seen[q,k]", "(q + k) % 2 == 0", "2 * k == q + w", "-2 * k != q - s"),
)


def random_formula(rng: random.Random, depth: int) -> str:
    """and, or, not of comparisons."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(ATOMS)
    if rng.random() < 0.2:
        return f"not ({random_formula(rng, depth - 1)})"
    parts = [random_formula(rng, depth - 1) for _ in range(rng.choice((2, 2, 2, 3)))]
    return "(" + rng.choice((" and ", " or ")).join(parts) + ")"


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


class Formulas:
    """Terms as formulas of integer arithmetic. What no solver knows, a read or a function,
    is any value at all: one for each position that it is taken at."""

    def __init__(self) -> None:
        self.facts: list[Any] = []

    def of(self, t: Term, k: Any) -> Any:
        if t.op == "index":
            found = k if t is K or t.name == K.name else z3.Int(t.name)
            self.facts.append(found >= 0)
            return found
        if t.op == "extent":
            return z3.Int(f"|{t.attr}|")
        if t.op == "param" and t.kind == "int":
            return z3.Int(t.attr)
        if t.op == "const":
            return z3.BoolVal(t.attr) if t.kind == "bool" else z3.IntVal(int(t.attr))
        if (
            t.kind == "float"
            or t.op in ("read", "ref", "fold")
            or any(a.kind == "float" for a in t.args)
        ):
            sort = z3.BoolSort() if t.kind == "bool" else z3.IntSort()
            return z3.Function(repr(t), z3.IntSort(), sort)(k if K.name in t.free else 0)
        args = [self.of(a, k) for a in t.args]
        match t.op:
            case "floordiv" | "mod":
                return self.division(t.op, *args)
            case "where":
                return z3.If(*args)
            case "compare":
                return _COMPARE[t.attr](*args)
            case "maximum":
                return z3.If(args[0] >= args[1], *args)
            case "minimum":
                return z3.If(args[0] <= args[1], *args)
            case "abs":
                return z3.Abs(args[0])
            case "and":
                return z3.And(args)
            case "or":
                return z3.Or(args)
            case "not":
                return z3.Not(args[0])
            case "pow":
                return math.prod([args[0]] * int(t.attr))
        return {"add": sum, "mul": math.prod}[t.op](args)

    def division(self, op: str, a: Any, b: Any) -> Any:
        """a // b by what it means: b q <= a < b q + b, or the other way round for b < 0; 0 for
        b = 0."""
        q = z3.Function("floordiv", z3.IntSort(), z3.IntSort(), z3.IntSort())(a, b)
        self.facts += [
            z3.Implies(b > 0, z3.And(b * q <= a, a < b * q + b)),
            z3.Implies(b < 0, z3.And(b * q >= a, a > b * q + b)),
            z3.Implies(b == 0, q == 0),
        ]
        return q if op == "floordiv" else z3.If(b == 0, 0, a - b * q)

    def inside(self, i: Interval, k: Any) -> Any:
        return z3.And(*(k >= self.of(t, k) for t in i.lower), *(k < self.of(t, k) for t in i.upper))


def prove_cover(bound: Term, c: Term) -> None:
    """For all integers: the condition holds just for the members of one interval, and those
    of an earlier interval are smaller."""
    formulas = Formulas()
    k, later = z3.Ints("k later")
    domain = split(bound, c)
    assert len(domain.intervals) <= LIMIT
    mask = formulas.of(domain.mask, k)
    inside = [formulas.inside(i, k) for i in domain.intervals]
    members = [
        z3.And(x, mask) if i.masked else x for x, i in zip(inside, domain.intervals, strict=True)
    ]
    claims = [formulas.of(c, k) == z3.Or(members)]
    for n, m in itertools.combinations(range(len(inside)), 2):
        after = formulas.inside(domain.intervals[m], later)
        claims.append(z3.Implies(z3.And(inside[n], after), k < later))
    claims += [z3.Implies(z3.Or(members), mask)]
    extent = z3.Int(f"|{bound.extent}|")
    facts = [*formulas.facts, k >= 0, k < extent, later >= 0, later < extent]
    for claim in claims:
        solver = z3.Solver()
        solver.set("timeout", 20000)
        solver.add(*facts, z3.Not(claim))
        answer = solver.check()
        assert answer == z3.unsat, (answer, claim, shown(domain))


@pytest.mark.parametrize("text", [*SPLITS, *ATOMS])
def test_proved(text: str) -> None:
    prove_cover(K, condition(text))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(20))
def test_random_formulas(seed: int) -> None:
    rng = random.Random(1000 + seed)
    for depth in (1, 2, 2, 2, 2, 2, 2, 3):
        prove_cover(K, condition(random_formula(rng, depth)))


@pytest.mark.parametrize("name", library.names())
def test_library_proved(name: str) -> None:
    """The filter of every fold of every program that is shipped."""
    program = translate(check(library.load(name), name))
    folds = [
        t for e in program.equations for t in T.subterms(e.body) if t.op in ("fold", "fold_at")
    ]
    for t in folds:
        opened = T.open_as(t, [f"k{n}" for n in range(len(t.attr.indices))])
        for bound in opened[0]:
            renamed = T.substitute(opened[1][0], {bound.name: T.index("k", bound.extent)})
            prove_cover(T.index("k", bound.extent), renamed)
