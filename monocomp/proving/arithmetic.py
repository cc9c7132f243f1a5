"""Scalar terms evaluated over the extended reals R u {-inf, inf}, with sympy's exact numbers.

One evaluator serves proofs and counterexamples. A proof runs it on symbols, along every way that
the comparisons can turn out (`case_analysis`). A counterexample is a run on numbers (`sampling`).
The conventions are those of the oracle where it gives a number: exp(-inf) = 0, log(0) = -inf,
`where` and brackets evaluate only what they choose. What is no number in the reals (0 / 0, but also
1 / 0, and inf - inf) is undefined, written nan, and differs from everything.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from monocomp import terms as T
from monocomp.proving.reading import meaning
from monocomp.proving.symbolic import Algebra, UnsupportedTermError
from monocomp.terms import Term

# A finite number of sympy's, a truth value, or one of the floats inf, -inf and nan.
Value: TypeAlias = Any
Operands: TypeAlias = Mapping[str, Value]  # the values of parameters
Memo: TypeAlias = dict[Term, Value]


class ContradictionError(Exception):
    """The assumptions of this case exclude each other: there is nothing to show."""


def is_finite(x: Value) -> bool:
    """True if x is a number of sympy's: those are never floats of Python's."""
    return not isinstance(x, float)


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
        """x ** power where that is defined, and x is not 0 unless the power is positive."""

    @abstractmethod
    def finite_function(self, name: str, x: Value) -> Value:
        """exp, log (of a positive number), sin, cos, erf or floor, of a finite x."""

    def assume(self, truth: bool) -> None:
        """End the case unless this is true."""
        if not truth:
            raise ContradictionError

    # Numbers and operators.

    def number(self, x: Fraction | int) -> Value:
        """Return an exact number."""
        return self.algebra.number(Fraction(x))

    def add(self, *xs: Value) -> Value:
        """The sum; inf - inf is undefined."""
        infinite = [x for x in xs if not is_finite(x)]
        if not infinite:
            return self.algebra.sympy.Add(*xs)
        return infinite[0] if all(x == infinite[0] for x in infinite) else math.nan

    def mul(self, *xs: Value) -> Value:
        """The product; 0 * inf is undefined."""
        if all(map(is_finite, xs)):
            return self.algebra.sympy.Mul(*xs)
        result = 1.0
        for x in xs:
            if is_finite(x):
                sign = self.sign(x)
                result *= sign if sign else math.nan
            else:
                result *= x
        return result

    def sub(self, a: Value, b: Value) -> Value:
        """a - b"""
        return self.add(a, self.mul(self.number(-1), b))

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
                return self.number(0)
            return x if power % 2 == 1 else math.inf
        if whole and power > 0:
            return self.finite_power(x, power)
        if self.holds(x, "=="):
            return self.number(0) if power > 0 else math.nan
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
        """a == b"""
        if is_finite(a) and is_finite(b):
            return self.holds(self.sub(a, b), "==")
        return not is_finite(a) and not is_finite(b) and bool(a == b)

    def maximum(self, a: Value, b: Value) -> Value:
        """The larger; undefined if either is."""
        if is_undefined(a) or is_undefined(b):
            return math.nan
        return b if self.less(a, b, or_equal=True) else a

    def function(self, name: str, x: Value) -> Value:
        """A function that is smooth or floor, with its limits."""
        if is_undefined(x):
            return math.nan
        if not is_finite(x):
            limit = _LIMITS[name][0 if x > 0 else 1]
            return limit if isinstance(limit, float) else self.number(limit)
        if name == "log":
            sign = self.sign(x)
            if sign <= 0:
                return -math.inf if sign == 0 else math.nan
        return self.finite_function(name, x)

    # Terms.

    def evaluate(self, t: Term, operands: Operands, memo: Memo | None = None) -> Value:
        """Return the value of a term with the given parameters; of a condition its truth.

        Terms evaluated with one memo share the work on what they have in common.
        """
        known: Memo = {} if memo is None else memo

        def value(t: Term) -> Value:
            self.algebra.tick()
            if t not in known:
                known[t] = self._value(t, value, operands)
            return known[t]

        return value(t)

    def _value(self, t: Term, value: Callable[[Term], Value], operands: Operands) -> Value:
        match t.op:
            case "const":
                is_number = t.kind != "bool" and not isinstance(t.attr, float)
                return self.number(t.attr) if is_number else t.attr
            case "param":
                return operands[t.attr]
            case "cast":
                x = value(t.args[0])
                return self.number(int(x)) if isinstance(x, bool) else x
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
        return self._apply(t.op, [value(a) for a in t.args])

    def _product(self, t: Term, value: Callable[[Term], Value]) -> Value:
        """A bracket that is 0 settles a product: [c] * x is `where(c, x, 0)`."""
        brackets = [a for a in t.args if T.is_bracket(a)]
        if not all(value(a.args[0]) for a in brackets):
            return self.number(0)
        return self.mul(*(value(a) for a in t.args if not T.is_bracket(a)))

    def _compare(self, op: str, a: Value, b: Value) -> bool:
        if isinstance(a, bool):
            a, b = (self.number(int(x)) for x in (a, b))
        if op in ("==", "!="):
            return self.equal(a, b) == (op == "==")
        return self.less(a, b, or_equal=op == "<=")

    def _apply(self, op: str, args: list[Value]) -> Value:
        if op == "add":
            return self.add(*args)
        if op == "maximum":
            return self.maximum(*args)
        if op in _LIMITS:
            return self.function(op, *args)
        says = meaning(op)
        if says is None:
            raise UnsupportedTermError(op)
        return self.evaluate(says, dict(zip("xy", args, strict=False)))


def is_undefined(x: Value) -> bool:
    """True if x is no number."""
    return isinstance(x, float) and math.isnan(x)


# The values of functions at inf and -inf. The ints are numbers.
_LIMITS: dict[str, tuple[float | int, float | int]] = {
    "exp": (math.inf, 0),
    "log": (math.inf, math.nan),
    "sin": (math.nan, math.nan),
    "cos": (math.nan, math.nan),
    "erf": (1, -1),
    "floor": (math.inf, -math.inf),
}
