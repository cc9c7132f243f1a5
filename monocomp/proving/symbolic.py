"""sympy's expansion with a memory and limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

Expr: TypeAlias = Any  # a sympy expression

_MOST_TERMS = 4000  # of an expanded expression
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
        self._ratios: dict[Expr, tuple[Expr, Expr]] = {}
        self._factors: dict[Expr, tuple[Expr, ...]] = {}
        self._terms: dict[Expr, dict[Expr, Fraction]] = {}

    def symbol(self, name: str, nonnegative: bool = False) -> Expr:
        """The symbol for a name. No name reaches sympy: they are called x0, x1, ..."""
        found = self._symbols.get((name, nonnegative))
        if found is None:
            known = {"nonnegative": True} if nonnegative else {"real": True}
            found = self.sympy.Symbol(f"x{len(self._symbols)}", **known)
            self._symbols[name, nonnegative] = found
        return found

    def number(self, x: Fraction) -> Expr:
        """An exact number."""
        return self.sympy.Rational(x.numerator, x.denominator)

    def bits(self, x: Expr) -> int:
        """Return the length of a number, which is 0 unless it is rational."""
        return int(x.p).bit_length() + int(x.q).bit_length() if x.is_Rational else 0

    def expand(self, x: Expr) -> Expr:
        """Multiplied out, exponentials of sums split."""
        self.tick()
        if self._size(x, {}) > _MOST_TERMS:
            raise UnsupportedTermError("an expression grows too large")
        return self.sympy.expand(x, trig=x.has(self.sympy.cos, self.sympy.sin))

    def _size(self, x: Expr, memo: dict[Expr, float]) -> float:
        """About how many terms x has when multiplied out."""
        if not x.args:
            return 1
        found = memo.get(x)
        if found is None:
            sizes = [self._size(a, memo) for a in x.args]
            if x.is_Mul:
                found = math.prod(sizes)
            elif x.is_Pow and x.exp.is_Integer:
                found = sizes[0] ** min(abs(int(x.exp)), 64)
            elif x.is_Add:
                found = sum(sizes)
            else:
                found = max(sizes)
            found = memo[x] = min(found, 1e9)
        return found

    def ratio(self, x: Expr) -> tuple[Expr, Expr]:
        """Numerator, multiplied out, and denominator.

        The common denominator comes first: multiplying out fractions of different
        denominators makes a hundred times as many terms.
        """
        found = self._ratios.get(x)
        if found is None:
            self.tick()
            numerator, denominator = x, self.sympy.Integer(1)
            if any(p.exp.is_negative for p in x.atoms(self.sympy.Pow)):
                numerator, denominator = self.sympy.fraction(self.sympy.together(x))
            found = self._ratios[x] = self.expand(numerator), denominator
        return found

    def factors(self, x: Expr) -> tuple[Expr, ...]:
        """Factors whose signs make the sign of x; the base of a square comes twice."""
        found = self._factors.get(x)
        if found is None:
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
            found = self._factors[x] = tuple(factors)
        return found

    def terms(self, x: Expr) -> dict[Expr, Fraction]:
        """The monomials of a sum with their coefficients."""
        found = self._terms.get(x)
        if found is None:
            found = {}
            for monomial, c in self.expand(x).as_coefficients_dict().items():
                if c.is_Rational:
                    found[monomial] = Fraction(int(c.p), int(c.q))
                else:
                    found[monomial * c] = Fraction(1)
            self._terms[x] = found
        return dict(found)
