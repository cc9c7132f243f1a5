"""Proof by cases: a statement is evaluated on symbols, along every way its branches can go.

A `Path` is one case. Where a comparison, a maximum or a `where` needs a sign that the case
does not settle, the case splits (`choose`), and `for_all_cases` takes the parts in turn.
A part keeps its assumptions: x = y is substituted, x < y becomes a linear inequality, and
parts that contradict themselves are dropped (`inequalities`). So no simplification of
Max or Piecewise is ever needed: on each path the two sides are sums, products, powers and
exponentials, and sympy's expansion decides whether they are equal.

Everything here errs on one side: a proof that ends is a proof; one that does not end
(OutOfTimeError, UnsupportedTermError) says nothing. sympy is imported by
the first proof, since most runs of the compiler need none.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from monocomp.proving.arithmetic import (
    Algebra,
    Arithmetic,
    ContradictionError,
    Expr,
    UnsupportedTermError,
    Value,
    is_finite,
)

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


_LARGEST_NUMBER = 10**5  # bits
_LARGEST_EXPONENT = 10**4  # sympy would write a tower of exponentials out
_ALL_SIGNS = frozenset((-1, 0, 1))
# The signs for which a relation to 0 holds, and then those for which it fails. No inequality says
# "not 0", so that is two cases.
_CASES: dict[str, Sequence[Set[int]]] = {
    "<": ({-1}, {0, 1}),
    "<=": ({-1, 0}, {1}),
    "==": ({0}, {-1}, {1}),
    "sign": ({-1}, {0}, {1}),
}


class OutOfTimeError(Exception):
    """The time for a proof is over."""


def clock(seconds: float) -> Callable[[], None]:
    """Return a function that raises OutOfTimeError once this thread has computed for that much
    longer. A busy machine proves the same as an idle one."""
    end = time.thread_time() + seconds

    def tick() -> None:
        if time.thread_time() > end:
            raise OutOfTimeError

    return tick


def holds_in_all_cases(statement: Callable[[Path], bool], tick: Callable[[], None]) -> bool:
    """True if a statement holds on every path that does not contradict itself. One all of whose
    paths contradict themselves is a mistake, and does not hold."""
    algebra = Algebra(tick)
    trail: list[list[int]] = []
    cases = 0
    while True:
        with suppress(ContradictionError):
            if not statement(Path(algebra, trail)):
                return False
            cases += 1
        while trail and trail[-1][0] + 1 == trail[-1][1]:
            trail.pop()
        if not trail:
            return cases > 0
        trail[-1][0] += 1


class Path(Arithmetic):
    """One case: arbitrary operands, with what its choices assume about them."""

    def __init__(self, algebra: Algebra, trail: list[list[int]]) -> None:
        super().__init__(algebra)
        self._trail = trail  # of every choice which one and of how many, shared by all paths
        self._next = 0
        self._facts: list[tuple[Expr, Set[int]]] = []  # an expression and its signs
        self._solved: dict[Expr, Expr] = {}  # symbols that equal something

    # Cases.

    def real(self, name: str, nonnegative: bool = False) -> Value:
        return self.algebra.symbol(name, nonnegative)

    def choose(self, count: int) -> int:
        self.algebra.tick()
        if self._next == len(self._trail):
            self._trail.append([0, count])
        self._next += 1
        return self._trail[self._next - 1][0]

    def same(self, a: Value, b: Value) -> bool:
        if not (is_finite(a) and is_finite(b)):
            return not is_finite(a) and not is_finite(b) and bool(a == b)
        if a is b or isinstance(a, bool):
            return bool(a == b)
        numerator, _ = self.algebra.ratio(self._reduced(a - b))
        # Signs that contradict the case are impossible, so in a case that is impossible as a
        # whole every equation holds.
        if numerator == 0 or self._signs(numerator) <= {0}:
            return True
        if not numerator.has(self.algebra.sympy.log):
            return False
        # Equal if their exponentials are, from which logarithms leave as factors.
        quotient = self.algebra.sympy.exp(self._reduced(a - b))
        return bool(self.algebra.ratio(quotient - 1)[0] == 0)

    # Finite arithmetic.

    def finite_power(self, x: Value, power: Fraction) -> Value:
        algebra = self.algebra
        if algebra.bits(x) * abs(power) > _LARGEST_NUMBER:
            raise UnsupportedTermError("a number grows too long")
        if power.denominator == 1:
            return x ** int(power)
        root = algebra.expand(self._reduced(x)) ** algebra.number(power)
        sizes = root.atoms(algebra.sympy.Abs)  # sympy's sqrt(x ** 2)
        return root.xreplace({a: a.args[0] * self.sign(a.args[0]) for a in sizes})

    def finite_function(self, name: str, x: Value) -> Value:
        x = self.algebra.expand(self._reduced(x))
        if x.is_number and (x.has(self.algebra.sympy.exp) or abs(x) > _LARGEST_EXPONENT):
            raise UnsupportedTermError("a number grows too large")
        return getattr(self.algebra.sympy, name)(x)

    # Signs.

    def holds(self, x: Value, relation: str) -> bool:
        numerator, denominator = self.algebra.ratio(self._reduced(x))
        numerator = self._between_exponents(numerator)
        cases = _CASES[relation]
        signs = self._signs(numerator) if denominator == 1 else _ALL_SIGNS
        if sum(not signs.isdisjoint(case) for case in cases) > 1:
            sign, numerator = self._outer_sign(numerator, denominator)
            if numerator is None:
                return sign in cases[0]
            cases = [{sign * s for s in case} for case in cases]
            signs = self._signs(numerator)
        return self._split(numerator, signs, cases) <= cases[0]

    def _between_exponents(self, x: Expr) -> Expr:
        """Return c (u - v) for x = c (exp(u) - exp(v)), which has the same sign."""
        terms = self.algebra.terms(x)
        if len(terms) != 2 or sum(terms.values()) != 0:
            return x
        difference = self.algebra.number(Fraction(0))
        for monomial, c in terms.items():
            factors = [f for f in self.algebra.sympy.Mul.make_args(monomial) if f != 1]
            if not all(isinstance(f, self.algebra.sympy.exp) for f in factors):
                return x
            difference += self.algebra.number(c) * sum(f.args[0] for f in factors)
        return self.algebra.expand(difference)

    def _outer_sign(self, *quotient: Expr) -> tuple[int, Expr | None]:
        """Return the sign of all factors but one, and that one; None if no sign is open."""
        sign, open_factors = 1, list[Expr]()
        for factor in chain.from_iterable(map(self.algebra.factors, quotient)):
            signs = self._signs(factor)
            if len(signs) == 1:
                sign *= min(signs)
            elif factor not in open_factors:
                open_factors.append(factor)
            else:
                open_factors.remove(factor)  # a square, and no zero if below
                sign *= min(self._split(factor, signs)) ** 2
        while sign and len(open_factors) > 1:
            factor = open_factors.pop(0)
            sign *= min(self._split(factor, self._signs(factor)))
        return sign, open_factors[0] if sign and open_factors else None

    def _split(
        self, x: Expr, signs: Set[int], cases: Sequence[Set[int]] = _CASES["sign"]
    ) -> Set[int]:
        """Return the signs of x here, in one of the cases: as many paths as are possible."""
        possible = [case & signs for case in cases if case & signs]
        if not possible:
            raise ContradictionError
        if len(possible) == 1:
            return possible[0]
        chosen = possible[self.choose(len(possible))]
        self._facts.append((x, chosen))
        if chosen == {0}:
            self._solve(x)
        return chosen

    # Assumptions.

    def _reduced(self, x: Expr) -> Expr:
        return x.xreplace(self._solved) if self._solved else x

    def _signs(self, x: Expr) -> Set[int]:
        """Return the signs that x may have, as far as linear arithmetic sees."""
        if x.is_number:
            for sign, is_so in ((1, x.is_positive), (-1, x.is_negative), (0, x.is_zero)):
                if is_so:
                    return {sign}
        rows = list(chain.from_iterable(self._rows(*fact) for fact in self._facts))
        return {sign for sign in _ALL_SIGNS if self._is_possible([*rows, *self._rows(x, {sign})])}

    def _is_possible(self, rows: Sequence[Row]) -> bool:
        """True if rows can hold beside what monomials say of themselves: exponentials are
        positive, squares not less."""
        monomials = dict.fromkeys(m for row in rows for m in row.terms)
        evident = [
            Row({m: Fraction(1)}, strict=bool(m.is_positive)) for m in monomials if m.is_nonnegative
        ]
        return is_possible([*rows, *evident])

    def _rows(self, x: Expr, signs: Set[int]) -> Iterator[Row]:
        """Yield the inequalities that say that x has one of these signs."""
        terms = self.algebra.terms(self._reduced(x))
        for sign in {1, -1} if signs == {0} else signs - {0}:
            yield Row({m: c * sign for m, c in terms.items()}, strict=0 not in signs)

    def _solve(self, x: Expr) -> None:
        """Substitute what follows from x = 0, where that is simple."""
        terms = self.algebra.terms(self._reduced(x))
        if len({c > 0 for c in terms.values()}) == 1 and all(m.is_nonnegative for m in terms):
            for symbol, power in (m.as_base_exp() for m in terms):  # all addends are 0
                if symbol.is_Symbol and power.is_positive:
                    self._substitute(symbol, self.algebra.number(Fraction(0)))
            return
        for monomial, c in terms.items():
            value = monomial - self._reduced(x) / self.algebra.number(c)
            value = self.algebra.expand(value)
            if monomial.is_Symbol and monomial not in value.free_symbols:
                if monomial.is_nonnegative:
                    self._facts.append((value, {0, 1}))
                self._substitute(monomial, value)
                return

    def _substitute(self, symbol: Expr, value: Expr) -> None:
        new = {symbol: value}
        self._solved = {s: self.algebra.expand(v.xreplace(new)) for s, v in self._solved.items()}
        self._solved[symbol] = value
