"""Scalar terms evaluated over the extended reals R u {-inf, inf}, in any arithmetic.

One evaluator serves the proofs and the counterexamples: a proof runs it on sympy
expressions along every way that the comparisons can turn out (`case_analysis`), a
counterexample is a run on exact numbers. The conventions are those of the oracle where it
gives a number: exp(-inf) = 0, log(0) = -inf, `where` and brackets evaluate only what they
choose. What is no number in the reals (0 / 0, but also 1 / 0, and inf - inf) is undefined,
written nan, and differs from everything.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from monocomp import terms as T
from monocomp.terms import Term

# A finite number of the arithmetic at hand, or one of the floats inf, -inf and nan.
Value: TypeAlias = Any
Given: TypeAlias = Mapping[str, Value]


class UnsupportedTermError(Exception):
    """The arithmetic cannot evaluate the term, so nothing is known about its value."""


class ContradictionError(Exception):
    """The assumptions of this case exclude each other: there is nothing to show."""


def is_finite(x: Value) -> bool:
    """Finite numbers are never floats, in no arithmetic."""
    return not isinstance(x, float)


class ExtendedReals(ABC):
    """Extended arithmetic on top of finite numbers of some kind."""

    # What a kind of finite numbers brings. All arguments are finite.

    @abstractmethod
    def number(self, x: Fraction) -> Value:
        """A rational number."""

    @abstractmethod
    def finite_sum(self, xs: Sequence[Value]) -> Value:
        """The sum."""

    @abstractmethod
    def finite_product(self, xs: Sequence[Value]) -> Value:
        """The product."""

    @abstractmethod
    def finite_power(self, x: Value, power: Fraction) -> Value:
        """x ** power where that is defined, and x is not 0 unless the power is positive."""

    @abstractmethod
    def finite_function(self, name: str, x: Value) -> Value:
        """exp, log (of a positive number), sin, cos, erf or floor."""

    @abstractmethod
    def holds(self, x: Value, relation: str) -> bool:
        """x < 0, x <= 0 or x == 0."""

    def tick(self) -> None:  # noqa: B027 - nothing to do unless time is limited
        """Called at every step of an evaluation; may raise to end it."""

    # Numbers and operators.

    def add(self, *xs: Value) -> Value:
        """The sum; inf - inf is undefined."""
        infinite = [x for x in xs if not is_finite(x)]
        if not infinite:
            return self.finite_sum(xs)
        return infinite[0] if all(x == infinite[0] for x in infinite) else math.nan

    def mul(self, *xs: Value) -> Value:
        """The product; 0 * inf is undefined."""
        if all(map(is_finite, xs)):
            return self.finite_product(xs)
        result = 1.0
        for x in xs:
            if is_finite(x):
                sign = self.sign(x)
                result *= sign if sign else math.nan
            else:
                result *= x
        return result

    def sub(self, a: Value, b: Value) -> Value:
        """a - b."""
        return self.add(a, self.mul(self.number(Fraction(-1)), b))

    def sign(self, x: Value) -> int:
        """-1, 0 or 1, of a number that is not undefined."""
        if not is_finite(x):
            return 1 if x > 0 else -1
        if self.holds(x, "=="):
            return 0
        return -1 if self.holds(x, "<") else 1

    def power(self, x: Value, power: Fraction) -> Value:
        """x ** power for a rational power."""
        whole = power.denominator == 1
        if not is_finite(x):
            if math.isnan(x) or (x < 0 and not whole):
                return math.nan
            if power < 0:
                return self.number(Fraction(0))
            return x if power % 2 == 1 else math.inf
        if whole and power > 0:
            return self.finite_power(x, power)
        if self.holds(x, "=="):
            return self.number(Fraction(0)) if power > 0 else math.nan
        if not whole and self.holds(x, "<"):
            return math.nan
        return self.finite_power(x, power)

    def less(self, a: Value, b: Value, or_equal: bool = False) -> bool:
        """a < b, or a <= b. Nothing undefined compares."""
        if is_finite(a) and is_finite(b):
            return self.holds(self.sub(a, b), "<=" if or_equal else "<")
        a, b = (0.0 if is_finite(x) else x for x in (a, b))
        return bool(a <= b if or_equal else a < b)

    def equal(self, a: Value, b: Value) -> bool:
        """a == b."""
        if is_finite(a) and is_finite(b):
            return self.holds(self.sub(a, b), "==")
        return not is_finite(a) and not is_finite(b) and bool(a == b)

    def maximum(self, a: Value, b: Value) -> Value:
        """The larger; undefined if either is."""
        for x in (a, b):
            if not is_finite(x) and math.isnan(x):
                return math.nan
        return b if self.less(a, b, or_equal=True) else a

    # Terms.

    def evaluate(self, t: Term, given: Given, memo: dict[Term, Value] | None = None) -> Value:
        """The value of a term with the given parameters; of a condition its truth.

        Terms evaluated with one memo share the work on what they have in common.
        """
        known: dict[Term, Value] = {} if memo is None else memo

        def value(t: Term) -> Value:
            self.tick()
            if t not in known:
                known[t] = self._value(t, value, given)
            return known[t]

        return value(t)

    def _value(self, t: Term, value: Callable[[Term], Value], given: Given) -> Value:
        match t.op:
            case "const":
                is_number = t.kind != "bool" and not isinstance(t.attr, float)
                return self.number(t.attr) if is_number else t.attr
            case "param" if t.attr in given:
                return given[t.attr]
            case "cast":
                x = value(t.args[0])
                return self.number(Fraction(x)) if isinstance(x, bool) else x
            case "add":
                return self.add(*map(value, t.args))
            case "mul":
                return self._product(t, value)
            case "pow":
                return self.power(value(t.args[0]), t.attr)
            case "compare":
                return self._compare(t.attr, *map(value, t.args))
            case "and":
                return all(map(value, t.args))
            case "or":
                return any(map(value, t.args))
            case "not":
                return not value(t.args[0])
            case "where":
                return value(t.args[1] if value(t.args[0]) else t.args[2])
        function = _FUNCTIONS.get(t.op)
        if function is None:
            raise UnsupportedTermError(t.op)
        return function(self, *map(value, t.args))

    def _product(self, t: Term, value: Callable[[Term], Value]) -> Value:
        """A bracket that is 0 settles a product: [c] * x is `where(c, x, 0)`."""
        brackets = [a for a in t.args if T.is_bracket(a)]
        if not all(value(a.args[0]) for a in brackets):
            return self.number(Fraction(0))
        return self.mul(*(value(a) for a in t.args if not T.is_bracket(a)))

    def _compare(self, op: str, a: Value, b: Value) -> bool:
        if isinstance(a, bool):
            a, b = (self.number(Fraction(x)) for x in (a, b))
        if op in ("==", "!="):
            return self.equal(a, b) == (op == "==")
        return self.less(a, b, or_equal=op == "<=")

    def function(self, name: str, x: Value) -> Value:
        """A function that is smooth or floor, with its limits."""
        if not is_finite(x):
            limit = _LIMITS[name][0 if x > 0 else 1] if not math.isnan(x) else math.nan
            return limit if isinstance(limit, float) else self.number(Fraction(limit))
        if name == "log":
            sign = self.sign(x)
            if sign <= 0:
                return -math.inf if sign == 0 else math.nan
        return self.finite_function(name, x)


# At inf and -inf. The ints are numbers.
_LIMITS: dict[str, tuple[float | int, float | int]] = {
    "exp": (math.inf, 0),
    "log": (math.inf, math.nan),
    "sin": (math.nan, math.nan),
    "cos": (math.nan, math.nan),
    "erf": (1, -1),
    "floor": (math.inf, -math.inf),
}


def _tanh(r: ExtendedReals, x: Value) -> Value:
    # (1 - z) / (1 + z) with z = exp(-2 x), so that proofs see exponentials only.
    if not is_finite(x):
        return x if math.isnan(x) else r.number(Fraction(1 if x > 0 else -1))
    z = r.function("exp", r.mul(r.number(Fraction(-2)), x))
    one = r.number(Fraction(1))
    return r.mul(r.sub(one, z), r.power(r.add(one, z), Fraction(-1)))


def _sigmoid(r: ExtendedReals, x: Value) -> Value:
    z = r.function("exp", r.mul(r.number(Fraction(-1)), x))
    return r.power(r.add(r.number(Fraction(1)), z), Fraction(-1))


def _gelu(r: ExtendedReals, x: Value) -> Value:
    root = r.power(r.number(Fraction(2)), Fraction(-1, 2))
    cdf = r.add(r.number(Fraction(1)), r.function("erf", r.mul(x, root)))
    return r.mul(r.number(Fraction(1, 2)), x, cdf)


def _softplus(r: ExtendedReals, x: Value) -> Value:
    return r.function("log", r.add(r.number(Fraction(1)), r.function("exp", x)))


def _elu(r: ExtendedReals, x: Value) -> Value:
    zero, one = r.number(Fraction(0)), r.number(Fraction(1))
    return x if r.less(zero, x) else r.sub(r.function("exp", x), one)


def _sign(r: ExtendedReals, x: Value) -> Value:
    undefined = not is_finite(x) and math.isnan(x)
    return math.nan if undefined else r.number(Fraction(r.sign(x)))


def _minimum(r: ExtendedReals, a: Value, b: Value) -> Value:
    minus = r.number(Fraction(-1))
    return r.mul(minus, r.maximum(r.mul(minus, a), r.mul(minus, b)))


def _whole(r: ExtendedReals, x: Value) -> Value:
    if not is_finite(x):
        raise UnsupportedTermError("int")  # of what is no number
    zero, minus = r.number(Fraction(0)), r.number(Fraction(-1))
    if r.less(x, zero):
        return r.mul(minus, r.function("floor", r.mul(minus, x)))
    return r.function("floor", x)


def _floordiv(r: ExtendedReals, a: Value, b: Value) -> Value:
    return r.function("floor", r.mul(a, r.power(b, Fraction(-1))))


def _power(r: ExtendedReals, a: Value, b: Value) -> Value:
    if not (is_finite(a) and is_finite(b)) or r.less(a, r.number(Fraction(0)), or_equal=True):
        raise UnsupportedTermError("power")
    return r.function("exp", r.mul(b, r.function("log", a)))


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{
        name: (lambda r, x, name=name: r.function(name, x))
        for name in ("exp", "log", "sin", "cos", "erf", "floor")
    },
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "silu": lambda r, x: r.mul(x, _sigmoid(r, x)),
    "gelu": _gelu,
    "softplus": _softplus,
    "elu": _elu,
    "relu": lambda r, x: r.maximum(x, r.number(Fraction(0))),
    "abs": lambda r, x: r.mul(_sign(r, x), x) if is_finite(x) else abs(x),
    "sign": _sign,
    "int": _whole,
    "stop": lambda r, x: x,
    "maximum": lambda r, a, b: r.maximum(a, b),
    "minimum": _minimum,
    "floordiv": _floordiv,
    "mod": lambda r, a, b: r.sub(a, r.mul(b, _floordiv(r, a, b))),
    "power": _power,
}


class Cases(ExtendedReals):
    """Where a law's operands come from: arbitrary symbols, or numbers at random."""

    @abstractmethod
    def real(self, name: str, nonnegative: bool = False) -> Value:
        """An arbitrary real number."""

    @abstractmethod
    def choose(self, count: int) -> int:
        """Any of 0 ... count - 1: a proof takes all in turn."""

    def assume(self, truth: bool) -> None:
        """Only cases where this is true count."""
        if not truth:
            raise ContradictionError

    def extended(self, name: str, infinity: float | None, nonnegative: bool = False) -> Value:
        """A real number or, if one is given, that infinity."""
        if infinity is not None and self.choose(2):
            return infinity
        return self.real(name, nonnegative)

    @abstractmethod
    def same(self, a: Value, b: Value) -> bool:
        """Are the two sides of a law equal here? Undefined sides never are."""
