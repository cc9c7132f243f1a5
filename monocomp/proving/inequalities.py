"""Which signs are possible: linear arithmetic over the rationals, by elimination.

An inequality sum(c_i x_i) + c >= 0 (or > 0) is a row. Two rows in which x has opposite
signs add up to one without x; when no variable is left, what is left is true or false
(Fourier and Motzkin). The variables may stand for anything, products included: a system
without a solution in them has none in what they stand for, so "impossible" is always
right, and "possible" only means that this arithmetic sees no contradiction.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

_MOST_ROWS = 400  # elimination may square the number of rows; beyond this, give up


@dataclass(frozen=True)
class Row:
    """sum(coefficients[x] * x) + constant > 0 if strict, else >= 0."""

    coefficients: Mapping[Hashable, Fraction]
    constant: Fraction
    strict: bool

    def scaled(self, factor: Fraction) -> Row:
        """The row times a positive number, or, for the first row of an equation, any."""
        scaled = {x: c * factor for x, c in self.coefficients.items()}
        return Row(scaled, self.constant * factor, self.strict)

    def plus(self, other: Row) -> Row:
        """The sum of two rows holds where both do."""
        total = dict(self.coefficients)
        for x, c in other.coefficients.items():
            total[x] = total.get(x, Fraction(0)) + c
        nonzero = {x: c for x, c in total.items() if c}
        return Row(nonzero, self.constant + other.constant, self.strict or other.strict)

    @property
    def is_false(self) -> bool:
        """Without variables: does it fail?"""
        return self.constant < 0 or (self.strict and self.constant == 0)


def is_possible(rows: Iterable[Row]) -> bool:
    """Can all rows hold at once, as far as linear arithmetic sees?"""
    rows = list(rows)
    while True:
        if any(r.is_false for r in rows if not r.coefficients):
            return False
        rows = [r for r in rows if r.coefficients]
        counts: dict[Hashable, list[int]] = {}
        for row in rows:
            for x, c in row.coefficients.items():
                counts.setdefault(x, [0, 0])[c > 0] += 1
        if not counts:
            return True
        x = min(counts, key=lambda x: counts[x][0] * counts[x][1])
        rows = _without(x, rows)
        if len(rows) > _MOST_ROWS:
            return True


def _without(x: Hashable, rows: list[Row]) -> list[Row]:
    """The consequences of the rows in which x does not occur."""
    upper = [r for r in rows if r.coefficients.get(x, 0) < 0]
    lower = [r for r in rows if r.coefficients.get(x, 0) > 0]
    kept = [r for r in rows if x not in r.coefficients]
    for a in lower:
        for b in upper:
            kept.append(a.scaled(1 / a.coefficients[x]).plus(b.scaled(-1 / b.coefficients[x])))
    return kept
