"""Proof by cases: a statement is evaluated on symbols, along every way its branches can go.

A `Path` is one case. Where a comparison, a maximum or a `where` needs a sign that the case
does not settle, the case splits (`choose`), and `holds_in_all_cases` takes the parts in turn.
A part keeps its assumptions: x = y is substituted, x < y becomes a linear inequality, and
parts that contradict themselves are dropped. So no simplification of
Max or Piecewise is ever needed: on each path the two sides are sums, products, powers and
exponentials, and sympy's expansion decides whether they are equal. A counterexample is a case of
numbers (`Sample`).

Values are those of the extended reals R u {-inf, inf}, by the conventions of the oracle where it
gives a number: exp(-inf) = 0, log(0) = -inf, `where` and brackets evaluate only what they choose.
A result that is no number in the reals (0 / 0, but also 1 / 0, and inf - inf) is undefined, written
nan, and differs from everything.

Everything here errs on one side: a proof that ends is a proof; one that does not end
(OutOfTimeError, UnsupportedTermError) says nothing. sympy is imported by
the first proof, since most runs of the compiler need none.
"""

from __future__ import annotations

import math
import operator
import random
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from fractions import Fraction
from functools import cache
from itertools import chain
from typing import Any, TypeAlias

from monocomp import terms as T
from monocomp.proving.arithmetic import Algebra, Expr, Row, UnsupportedTermError, is_possible
from monocomp.proving.reading import meaning
from monocomp.terms import Term

# A finite number of sympy's, a truth value, or one of the floats inf, -inf and nan.
Value: TypeAlias = Any
Evaluator: TypeAlias = Callable[[Term], Value]

_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    **{"<": operator.lt, "<=": operator.le, "==": operator.eq}
}
# The values of functions at inf and -inf. The ints are numbers.
_LIMITS: dict[str, tuple[float | int, float | int]] = {
    "exp": (math.inf, 0),
    "log": (math.inf, math.nan),
    "sin": (math.nan, math.nan),
    "cos": (math.nan, math.nan),
    "erf": (1, -1),
    "floor": (math.inf, -math.inf),
}


class ContradictionError(Exception):
    """The assumptions of this case exclude each other: there is nothing to show."""


def is_finite(x: Value) -> bool:
    """True if x is a number of sympy's: those are never floats of Python's."""
    return not isinstance(x, float)


def is_undefined(x: Value) -> bool:
    """True if x is no number."""
    return isinstance(x, float) and math.isnan(x)


_LARGEST_NUMBER = 10**5  # bits
_LARGEST_EXPONENT = 10**4  # sympy would write a tower of exponentials out
_ALL_SIGNS = frozenset((-1, 0, 1))
_SIGNS: dict[str, Set[int]] = {"<": {-1}, "<=": {-1, 0}, "==": {0}}  # of which it holds


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


class Path:
    """One case: arbitrary operands, with what its choices assume about them."""

    def __init__(self, algebra: Algebra, trail: list[list[int]]) -> None:
        self.algebra = algebra
        self._trail = trail  # of every choice which one and of how many, shared by all paths
        self._next = 0
        self._facts: list[tuple[Expr, Set[int]]] = []  # an expression and its signs
        self._solved: dict[Expr, Expr] = {}  # symbols that equal something

    # Cases.

    def real(self, name: str, nonnegative: bool = False) -> Value:
        """Return an arbitrary real number."""
        return self.algebra.symbol(name, nonnegative)

    def choose(self, count: int) -> int:
        """Return any of 0 ... count - 1: a proof takes all in turn."""
        self.algebra.tick()
        if self._next == len(self._trail):
            self._trail.append([0, count])
        self._next += 1
        return self._trail[self._next - 1][0]

    def same(self, a: Value, b: Value) -> bool:
        """True if the two sides of a law are equal here. Undefined sides never are."""
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

    # Numbers and operators.

    def number(self, x: Fraction | int) -> Value:
        """Return an exact number."""
        return self.algebra.number(Fraction(x))

    def add(self, *xs: Value) -> Value:
        """Return the sum; inf - inf is undefined."""
        infinite = [x for x in xs if not is_finite(x)]
        return sum(infinite) if infinite else self.algebra.sympy.Add(*xs)

    def mul(self, *xs: Value) -> Value:
        """Return the product; 0 * inf is undefined."""
        if all(map(is_finite, xs)):
            return self.algebra.sympy.Mul(*xs)
        return math.prod(float(self.sign(x)) if is_finite(x) else x for x in xs)

    def sign(self, x: Value) -> int:
        """Return the sign of a finite number."""
        if self.holds(x, "=="):
            return 0
        return -1 if self.holds(x, "<") else 1

    def power(self, x: Value, power: Fraction) -> Value:
        """Return x ** power for a rational power."""
        whole = power.denominator == 1
        if not is_finite(x):
            if math.isnan(x) or (x < 0 and not whole):
                return math.nan
            if power < 0:
                return self.number(0)
            return x if power % 2 == 1 else math.inf
        if whole and power > 0:
            return self._finite_power(x, power)
        if self.holds(x, "=="):
            return self.number(0) if power > 0 else math.nan
        return math.nan if not whole and self.holds(x, "<") else self._finite_power(x, power)

    def compare(self, relation: str, a: Value, b: Value) -> bool:
        """Decide a < b, a <= b or a == b. Nothing undefined compares."""
        if is_finite(a) and is_finite(b):
            return self.holds(self.add(a, self.mul(self.number(-1), b)), relation)
        return _RELATIONS[relation](*(0.0 if is_finite(x) else x for x in (a, b)))

    def maximum(self, a: Value, b: Value) -> Value:
        """Return the larger; undefined if either is."""
        if is_undefined(a) or is_undefined(b):
            return math.nan
        return b if self.compare("<=", a, b) else a

    def function(self, name: str, x: Value) -> Value:
        """Return a function that is smooth or floor, with its limits."""
        if not is_finite(x):
            limit = math.nan if math.isnan(x) else _LIMITS[name][x < 0]
            return limit if isinstance(limit, float) else self.number(limit)
        if name == "log" and self.holds(x, "<="):
            return -math.inf if self.holds(x, "==") else math.nan
        return self._finite_function(name, x)

    # Terms.

    def evaluator(self, operand: Evaluator) -> Evaluator:
        """Return a function from terms to their values, of conditions to their truth.

        Args:
            operand: the value of a parameter.
        """

        @cache
        def value(t: Term) -> Value:
            self.algebra.tick()
            return operand(t) if t.op == "param" else self._value(t, value)

        return value

    def _value(self, t: Term, value: Evaluator) -> Value:
        match t.op:
            case "const":
                is_number = t.kind != "bool" and not isinstance(t.attr, float)
                return self.number(t.attr) if is_number else t.attr
            case "mul":  # a bracket that is 0 settles a product: [c] * x is `where(c, x, 0)`
                if not all(value(a.args[0]) for a in t.args if T.is_bracket(a)):
                    return self.number(0)
                return self.mul(*(value(a) for a in t.args if not T.is_bracket(a)))
            case "compare":
                sides = (self._as_number(value(a)) for a in t.args)
                is_negated = t.attr == "!="
                return self.compare("==" if is_negated else t.attr, *sides) != is_negated
            case "and":
                return all(map(value, t.args))
            case "or":
                return any(map(value, t.args))
            case "not":
                return not value(t.args[0])
            case "where":
                return value(t.args[1] if value(t.args[0]) else t.args[2])
        args = list(map(value, t.args))
        match t.op:
            case "cast":
                return self._as_number(*args)
            case "pow":
                return self.power(args[0], t.attr)
            case "add":
                return self.add(*args)
            case "maximum":
                return self.maximum(*args)
        if t.op in _LIMITS:
            return self.function(t.op, *args)
        if (made_up := meaning(t.op)) is None:
            raise UnsupportedTermError(t.op)
        operands = dict(zip("xy", args, strict=False))
        return self.evaluator(lambda t: operands[t.attr])(made_up)

    def _as_number(self, x: Value) -> Value:
        """Return a number, 0 or 1 for a condition."""
        return self.number(int(x)) if isinstance(x, bool) else x

    # Finite arithmetic.

    def _finite_power(self, x: Value, power: Fraction) -> Value:
        """Return x ** power where that is defined, and x is not 0 unless the power is positive."""
        algebra = self.algebra
        if algebra.bits(x) * abs(power) > _LARGEST_NUMBER:
            raise UnsupportedTermError("a number grows too long")
        if power.denominator == 1:
            return x ** int(power)
        root = algebra.expand(self._reduced(x)) ** algebra.number(power)
        sizes = root.atoms(algebra.sympy.Abs)  # sympy's sqrt(x ** 2)
        return root.xreplace({a: a.args[0] * self.sign(a.args[0]) for a in sizes})

    def _finite_function(self, name: str, x: Value) -> Value:
        """Return exp, log (of a positive number), sin, cos, erf or floor of a finite x."""
        x = self.algebra.expand(self._reduced(x))
        if x.is_number and abs(x) > _LARGEST_EXPONENT:
            raise UnsupportedTermError("a number grows too large")
        return getattr(self.algebra.sympy, name)(x)

    # Signs.

    def holds(self, x: Value, relation: str) -> bool:
        """Decide x < 0, x <= 0 or x == 0, for a finite x."""
        numerator, denominator = self.algebra.ratio(self._reduced(x))
        numerator = self._between_exponents(numerator)
        signs = self._signs(numerator) if denominator == 1 else _ALL_SIGNS
        if not signs:
            raise ContradictionError
        if len({sign in _SIGNS[relation] for sign in signs}) == 1:
            return min(signs) in _SIGNS[relation]
        return self._product_sign(numerator, denominator) in _SIGNS[relation]

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

    def _product_sign(self, *quotient: Expr) -> int:
        """Return the sign of a product or quotient here, by those of its factors."""
        sign = 1
        for factor in chain.from_iterable(map(self.algebra.factors, quotient)):
            sign *= self._split(factor) if sign else 0
        return sign

    def _split(self, x: Expr) -> int:
        """Return the sign of x here, in one of the cases: as many paths as are possible."""
        signs = sorted(self._signs(x))
        if not signs:
            raise ContradictionError
        if len(signs) > 1:
            signs = [signs[self._choose_sign(len(signs))]]
            self._facts.append((x, {*signs}))
            if signs == [0]:
                self._solve(x)
        return signs[0]

    def _choose_sign(self, count: int) -> int:
        return self.choose(count)

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


_NUMBERS = (*map(Fraction, (1, 2, 3, 0, -1, 5, -2)), *(Fraction(n, 6) for n in (3, 2, -9, 42)))
_ALIKE = 12  # samples of as many numbers


class Sample(Path):
    """A case of numbers at random, which sympy keeps exact.

    The first samples are of few simple numbers, and show best what is wrong. A comparison that
    sympy does not decide ends a sample (ContradictionError), so a case never rests on rounding.
    """

    def __init__(self, seed: int, algebra: Algebra) -> None:
        super().__init__(algebra, [])
        self._random = random.Random(seed)
        self._numbers = _NUMBERS[: 1 + seed // _ALIKE]

    def real(self, name: str, nonnegative: bool = False) -> Value:
        x = self._random.choice(self._numbers)
        return self.number(abs(x) if nonnegative else x)

    def choose(self, count: int) -> int:
        return self._random.randrange(count)

    def same(self, a: Value, b: Value) -> bool:
        is_same = super().same(a, b)
        if not is_same and is_finite(a) and is_finite(b) and not isinstance(a, bool):
            self.sign(a - b)
        return is_same

    def _choose_sign(self, count: int) -> int:
        raise ContradictionError
