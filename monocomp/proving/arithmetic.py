"""Exact arithmetic: sympy's expressions with a memory and limits, and linear inequalities."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple, TypeAlias

Expr: TypeAlias = Any  # a sympy expression
Variable: TypeAlias = Any  # what is hashable; 1 is the number

_MOST_TERMS = 4000  # of an expanded expression
_MOST_ROWS = 400  # elimination may square the number of rows; beyond this, give up
_MOST_FACTORED, _HIGHEST_FACTORED = 16, 8  # terms and powers of what is worth factoring


class UnsupportedTermError(Exception):
    """The arithmetic cannot evaluate the term, so nothing is known about its value."""


class Algebra:
    """sympy's expansion with a memory, limits on size, and symbols of our own naming."""

    def __init__(self, tick: Callable[[], None] = lambda: None) -> None:
        import sympy

        self.sympy: Any = sympy
        self.tick = tick
        self._symbols: dict[tuple[str, bool], Expr] = {}
        self.ratio = cache(self._ratio)
        self.factors = cache(self._factors)
        self.terms = cache(self._terms)

    def symbol(self, name: str, nonnegative: bool = False) -> Expr:
        """Return the symbol for a name. No name reaches sympy: they are called x0, x1, ..."""
        known = {"nonnegative": True} if nonnegative else {"real": True}
        new = self.sympy.Symbol(f"x{len(self._symbols)}", **known)
        return self._symbols.setdefault((name, nonnegative), new)

    def number(self, x: Fraction) -> Expr:
        """Return an exact number."""
        return self.sympy.Rational(x.numerator, x.denominator)

    def bits(self, x: Expr) -> int:
        """Return the length of a number, which is 0 unless it is rational."""
        return int(x.p).bit_length() + int(x.q).bit_length() if x.is_Rational else 0

    def expand(self, x: Expr) -> Expr:
        """Multiply out, and split exponentials of sums."""
        self.tick()
        if self._size(x, {}) > _MOST_TERMS:
            raise UnsupportedTermError("an expression grows too large")
        return self.sympy.expand(x)

    def _size(self, x: Expr, memo: dict[Expr, float]) -> float:
        """Return about how many terms x has when multiplied out."""
        if not x.args:
            return 1
        if x not in memo:
            sizes = [self._size(a, memo) for a in x.args]
            if x.is_Mul:
                size = math.prod(sizes)
            elif x.is_Pow and x.exp.is_Integer:
                size = sizes[0] ** min(abs(int(x.exp)), 64)
            else:
                size = sum(sizes) if x.is_Add else max(sizes)
            memo[x] = min(size, 1e9)
        return memo[x]

    def _ratio(self, x: Expr) -> tuple[Expr, Expr]:
        """Return the numerator, multiplied out, and the denominator.

        The common denominator comes first: multiplying out fractions of different
        denominators makes a hundred times as many terms.
        """
        self.tick()
        numerator, denominator = x, self.sympy.Integer(1)
        if any(p.exp.is_negative for p in x.atoms(self.sympy.Pow)):
            numerator, denominator = self.sympy.fraction(self.sympy.together(x))
        return self.expand(numerator), denominator

    def _factors(self, x: Expr) -> tuple[Expr, ...]:
        """Return factors whose signs make the sign of x; the base of a square comes twice."""
        self.tick()
        product = x
        powers = (p.exp for p in x.atoms(self.sympy.Pow))
        low = all(p.is_Rational and abs(p) <= _HIGHEST_FACTORED for p in powers)
        if x.is_Add and len(x.args) <= _MOST_FACTORED and low:
            product = self.sympy.factor(x)
        factors: list[Expr] = []
        for factor in self.sympy.Mul.make_args(product):
            whole = factor.is_Pow and factor.exp.is_Integer
            factors += [factor.base] * (2 - int(factor.exp) % 2) if whole else [factor]
        return tuple(factors)

    def _terms(self, x: Expr) -> dict[Expr, Fraction]:
        """Return the monomials of a sum with their coefficients."""
        terms: dict[Expr, Fraction] = {}
        for monomial, c in self.expand(x).as_coefficients_dict().items():
            if c.is_Rational:
                terms[monomial] = Fraction(int(c.p), int(c.q))
            else:
                terms[monomial * c] = Fraction(1)
        return terms


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
