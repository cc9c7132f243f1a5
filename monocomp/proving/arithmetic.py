"""Scalar terms evaluated over the extended reals R u {-inf, inf}, with sympy's exact numbers.

One evaluator serves proofs and counterexamples. A proof runs it on symbols, along every way that
the comparisons can turn out (`case_analysis`). A counterexample is a run on numbers (`Sample`).
The conventions are those of the oracle where it gives a number: exp(-inf) = 0, log(0) = -inf,
`where` and brackets evaluate only what they choose. A result that is no number in the reals (0 / 0,
but also 1 / 0, and inf - inf) is undefined, written nan, and differs from everything.
"""

from __future__ import annotations

import math
import operator
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

from monocomp import terms as T
from monocomp.proving.reading import meaning
from monocomp.terms import Term

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


class Arithmetic(ABC):
    """Extended arithmetic in one case: a case chooses operands, and the signs of what it meets."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra

    # A case.

    @abstractmethod
    def real(self, name: str, nonnegative: bool = False) -> Value:
        """Return an arbitrary real number."""

    @abstractmethod
    def choose(self, count: int) -> int:
        """Return any of 0 ... count - 1: a proof takes all in turn."""

    @abstractmethod
    def holds(self, x: Value, relation: str) -> bool:
        """Decide x < 0, x <= 0 or x == 0, for a finite x."""

    @abstractmethod
    def same(self, a: Value, b: Value) -> bool:
        """True if the two sides of a law are equal here. Undefined sides never are."""

    @abstractmethod
    def finite_power(self, x: Value, power: Fraction) -> Value:
        """Return x ** power where that is defined, and x is not 0 unless the power is positive."""

    @abstractmethod
    def finite_function(self, name: str, x: Value) -> Value:
        """Return exp, log (of a positive number), sin, cos, erf or floor of a finite x."""

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
            return self.finite_power(x, power)
        if self.holds(x, "=="):
            return self.number(0) if power > 0 else math.nan
        return math.nan if not whole and self.holds(x, "<") else self.finite_power(x, power)

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
        return self.finite_function(name, x)

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


_NUMBERS = (*map(Fraction, (1, 2, 3, 0, -1, 5, -2)), *(Fraction(n, 6) for n in (3, 2, -9, 42)))
_ALIKE = 12  # samples of as many numbers
_DIGITS = 200  # of numbers that are not rational
_EXACT_BITS = 4096  # exact numbers may grow to this size
_LARGEST_EXPONENT = 200  # of exp: e ** 200 has fewer digits than are computed


class Sample(Arithmetic):
    """Numbers at random, exact as long as no root or exponential makes them irrational.

    The first samples are of few simple numbers, and show best what is wrong. A comparison too close
    to call ends a sample (ContradictionError), so a case never rests on rounding.
    """

    def __init__(self, seed: int, algebra: Algebra) -> None:
        super().__init__(algebra)
        self._random = random.Random(seed)
        self._numbers = _NUMBERS[: 1 + seed // _ALIKE]
        self._resolution = algebra.sympy.Float(10, _DIGITS) ** (-_DIGITS // 2)

    def real(self, name: str, nonnegative: bool = False) -> Value:
        x = self._random.choice(self._numbers)
        return self.number(abs(x) if nonnegative else x)

    def choose(self, count: int) -> int:
        return self._random.randrange(count)

    def finite_power(self, x: Value, power: Fraction) -> Value:
        if self.algebra.bits(x) * abs(power) > _EXACT_BITS:
            raise UnsupportedTermError("a number grows too long")
        return self._rounded(x ** self.number(power))

    def finite_function(self, name: str, x: Value) -> Value:
        if name == "floor":
            self._require_apart(x - self.algebra.sympy.Integer(round(x)))
        elif name != "log" and abs(x) > _LARGEST_EXPONENT:
            raise UnsupportedTermError("a number grows too large")
        return self._rounded(getattr(self.algebra.sympy, name)(x))

    def holds(self, x: Value, relation: str) -> bool:
        self._require_apart(x)
        return bool((x < 0 and relation != "==") or (x == 0 and relation != "<"))

    def same(self, a: Value, b: Value) -> bool:
        if not (is_finite(a) and is_finite(b)) or isinstance(a, bool):
            return type(a) is type(b) and bool(a == b)
        difference = a - b
        if difference.is_Rational:
            return bool(difference == 0)
        return bool(abs(difference) <= max(abs(a), abs(b), 1) * self._resolution)

    def _rounded(self, x: Value) -> Value:
        return x if x.is_Rational else x.evalf(_DIGITS)

    def _require_apart(self, x: Value) -> None:
        """End the sample if digits do not tell a number from 0."""
        if not x.is_Rational and abs(x) < self._resolution:
            raise ContradictionError
