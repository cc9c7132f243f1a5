"""Proof by cases: a statement is evaluated on symbols, along every way its branches can go.

A `Path` is one case. Where a comparison, a maximum or a `where` needs a sign that the case
does not settle, the case splits (`choose`), and `for_all_cases` takes the parts in turn.
What a part assumes is kept: x = y is substituted, x < y becomes a linear inequality, and
parts that contradict themselves are dropped (`inequalities`). So no simplification of
Max or Piecewise is ever needed: on each path the two sides are sums, products, powers and
exponentials, and sympy's expansion decides whether they are equal.

Everything here errs on one side: a proof that ends is a proof; one that does not end
(UnprovedError, OutOfTimeError, UnsupportedTermError) says nothing. sympy is imported by
the first proof, since most runs of the compiler need none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from fractions import Fraction

from monocomp.proving.arithmetic import Arithmetic, ContradictionError, Value, is_finite
from monocomp.proving.inequalities import Row, is_possible
from monocomp.proving.symbolic import Algebra, Expr, UnsupportedTermError

_ALL_SIGNS = frozenset((-1, 0, 1))
_LARGEST_NUMBER = 10**5  # bits
_LARGEST_EXPONENT = 10**4  # sympy would write a tower of exponentials out
_SIGNS = {"<": frozenset((-1,)), "<=": frozenset((-1, 0)), "==": frozenset((0,))}


class UnprovedError(Exception):
    """On some path the two sides are not seen to be equal."""


class OutOfTimeError(Exception):
    """The time for a proof is over."""


def clock(seconds: float) -> Callable[[], None]:
    """A function that raises OutOfTimeError once this thread has computed for that much longer. A
    busy machine proves the same as an idle one."""
    end = time.thread_time() + seconds

    def tick() -> None:
        if time.thread_time() > end:
            raise OutOfTimeError

    return tick


def for_all_cases(check: Callable[[Path], None], tick: Callable[[], None]) -> None:
    """Run `check` on every path. It returns when every path returns or contradicts itself.

    A statement all of whose paths contradict themselves is a mistake in the statement.
    """
    algebra = Algebra(tick)
    trail: list[list[int]] = []
    cases = 0
    while True:
        with suppress(ContradictionError):
            check(Path(algebra, trail))
            cases += 1
        while trail and trail[-1][0] + 1 == trail[-1][1]:
            trail.pop()
        if not trail:
            break
        trail[-1][0] += 1
    if cases == 0:
        raise UnprovedError


class Path(Arithmetic):
    """One case: arbitrary operands, with what its choices assume about them."""

    def __init__(self, algebra: Algebra, trail: list[list[int]]) -> None:
        super().__init__(algebra)
        self._trail = trail  # of every choice which one and of how many, shared by all paths
        self._next = 0
        self._facts: list[tuple[Expr, frozenset[int]]] = []  # an expression and its signs
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
        wanted = _SIGNS[relation]
        signs = self._signs(numerator) if denominator == 1 else _ALL_SIGNS
        if signs & wanted and signs - wanted:
            sign, numerator = self._outer_sign(numerator, denominator)
            if numerator is None:
                return sign in wanted
            wanted = frozenset(sign * s for s in wanted)
            signs = self._signs(numerator)
        return self._split(numerator, signs, wanted)

    def _between_exponents(self, x: Expr) -> Expr:
        """c (u - v) for x = c (exp(u) - exp(v)): exp is increasing, so the sign is the same."""
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

    def _outer_sign(self, numerator: Expr, denominator: Expr) -> tuple[int, Expr | None]:
        """The sign of all factors but one, and that one; None if no sign is open."""
        algebra = self.algebra
        open_factors = []
        sign = 1
        for factor in (*algebra.factors(numerator), *algebra.factors(denominator)):
            signs = self._signs(factor)
            if len(signs) == 1:
                sign *= next(iter(signs))
            elif factor not in open_factors:
                open_factors.append(factor)
            else:
                open_factors.remove(factor)  # a square, and no zero if below
                sign *= self._sign(factor) ** 2
        if sign == 0 or not open_factors:
            return sign, None
        *others, last = open_factors
        for factor in others:
            sign *= self._sign(factor)
        return (sign, None) if sign == 0 else (sign, last)

    def _sign(self, factor: Expr) -> int:
        """The sign of a factor, split into cases as far as needed."""
        signs = self._signs(factor)
        if not signs:
            raise ContradictionError
        chosen = sorted(signs)[self.choose(len(signs))] if len(signs) > 1 else min(signs)
        if len(signs) > 1:
            self._learn(factor, frozenset((chosen,)))
        return chosen

    def _split(self, x: Expr, signs: frozenset[int], wanted: frozenset[int]) -> bool:
        """Is the sign of x a wanted one? Splits into as few cases as answer that."""
        inside, outside = signs & wanted, signs - wanted
        if not signs:
            raise ContradictionError
        if not inside or not outside:
            return bool(inside)
        parts = [inside, outside]
        if outside == {-1, 1}:  # no inequality says "not 0"
            parts = [inside, frozenset((-1,)), frozenset((1,))]
        chosen = parts[self.choose(len(parts))]
        self._learn(x, chosen)
        return chosen is inside

    # What is known.

    def _reduced(self, x: Expr) -> Expr:
        return x.xreplace(self._solved) if self._solved else x

    def _signs(self, x: Expr) -> frozenset[int]:
        """The signs that x may have, as far as linear arithmetic sees."""
        if x.is_number:
            for sign, is_so in ((1, x.is_positive), (-1, x.is_negative), (0, x.is_zero)):
                if is_so:
                    return frozenset((sign,))
        rows = [row for fact, signs in self._facts for row in self._rows(fact, signs)]
        possible = []
        for sign in sorted(_ALL_SIGNS):
            wanted = [*rows, *self._rows(x, frozenset((sign,)))]
            if is_possible([*wanted, *self._evident(wanted)]):
                possible.append(sign)
        return frozenset(possible)

    def _rows(self, x: Expr, signs: frozenset[int]) -> Iterator[Row]:
        """The inequalities that say that x has one of these signs."""
        terms = dict(self.algebra.terms(self._reduced(x)))
        constant = terms.pop(self.algebra.sympy.Integer(1), Fraction(0))
        row = Row(terms, constant, strict=0 not in signs)
        if -1 not in signs:
            yield row
        if 1 not in signs:
            yield row.scaled(Fraction(-1))

    def _evident(self, rows: Iterable[Row]) -> Iterator[Row]:
        """What the monomials say of themselves: exponentials are positive, squares not less."""
        monomials: dict[Expr, None] = {m: None for row in rows for m in row.coefficients}
        for monomial in monomials:
            if monomial.is_positive:
                yield Row({monomial: Fraction(1)}, Fraction(0), strict=True)
            elif monomial.is_nonnegative:
                yield Row({monomial: Fraction(1)}, Fraction(0), strict=False)

    def _learn(self, x: Expr, signs: frozenset[int]) -> None:
        """From here on x has one of these signs."""
        self._facts.append((x, signs))
        if signs == {0}:
            self._solve(x)

    def _solve(self, x: Expr) -> None:
        """Draw conclusions from x == 0 by substitution, where that is simple."""
        terms = self.algebra.terms(self._reduced(x))
        if len({c > 0 for c in terms.values()}) == 1 and all(m.is_nonnegative for m in terms):
            for monomial in terms:  # a sum of what is not negative: every part is 0
                self._vanish(monomial)
            return
        for monomial, c in terms.items():
            others = (m.free_symbols for m in terms if m != monomial)
            if monomial.is_Symbol and not any(monomial in symbols for symbols in others):
                rest = self.algebra.expand(monomial - self._reduced(x) / self.algebra.number(c))
                if monomial.is_nonnegative:
                    self._facts.append((rest, frozenset((0, 1))))
                self._substitute(monomial, rest)
                return

    def _vanish(self, monomial: Expr) -> None:
        """A product is 0: one of its symbols is."""
        monomial = self._reduced(monomial)
        if monomial.is_positive:
            raise ContradictionError
        symbols = []
        for factor in self.algebra.sympy.Mul.make_args(monomial):
            base, power = factor.as_base_exp()
            if base.is_Symbol and power.is_positive:
                symbols.append(base)
            elif not factor.is_positive:
                return  # it might be this one
        if symbols:
            zero = self.algebra.number(Fraction(0))
            self._substitute(symbols[self.choose(len(symbols))], zero)

    def _substitute(self, symbol: Expr, value: Expr) -> None:
        new = {symbol: value}
        self._solved = {s: self.algebra.expand(v.xreplace(new)) for s, v in self._solved.items()}
        self._solved[symbol] = value
