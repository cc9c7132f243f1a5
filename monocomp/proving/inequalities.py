"""Decide which signs are possible: linear arithmetic over the rationals, by elimination.

An inequality sum(c_i x_i) >= 0 (or > 0) is a row; one of the x_i may be the number 1. Two rows in
which x has opposite signs add up to one without x; when only numbers remain, the row is true or
false (Fourier and Motzkin). The variables may stand for anything, products included: a system
without a solution in them has none in what they stand for, so "impossible" is always right, and
"possible" only means that this arithmetic sees no contradiction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

Variable: TypeAlias = Any  # what is hashable; 1 is the number
_MOST_ROWS = 400  # elimination may square the number of rows; beyond this, give up


class Row(NamedTuple):
    """sum(terms[x] * x) > 0 if strict, else >= 0."""

    terms: Mapping[Variable, Fraction]
    strict: bool


def is_possible(rows: Iterable[Row]) -> bool:
    """True if all rows can hold at once, as far as linear arithmetic sees."""
    rows = list(rows)
    while len(rows) <= _MOST_ROWS:
        signs = Counter((x, c > 0) for r in rows for x, c in r.terms.items() if x != 1)
        for terms, strict in rows:
            constant = terms.get(1, 0)
            if len(terms) == (1 in terms) and (constant < 0 or (strict and constant == 0)):
                return False
        if not signs:
            return True
        rows = _without(min(signs, key=lambda s: signs[s[0], True] * signs[s[0], False])[0], rows)
    return True


def _without(x: Variable, rows: list[Row]) -> list[Row]:
    """Return the consequences of the rows in which x does not occur."""
    upper = [r for r in rows if r.terms.get(x, 0) < 0]
    lower = [r for r in rows if r.terms.get(x, 0) > 0]
    sums = []
    for a in lower:
        for b in upper:
            total = {y: c / a.terms[x] for y, c in a.terms.items()}
            for y, c in b.terms.items():
                total[y] = total.get(y, Fraction(0)) - c / b.terms[x]
            sums.append(Row({y: c for y, c in total.items() if c}, a.strict or b.strict))
    return [*(r for r in rows if x not in r.terms), *sums]
