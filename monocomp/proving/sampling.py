"""Terms evaluated on numbers at random: how laws are refuted, and proofs checked."""

from __future__ import annotations

import random
from fractions import Fraction

from monocomp.proving.arithmetic import Arithmetic, ContradictionError, Value, is_finite
from monocomp.proving.symbolic import Algebra, UnsupportedTermError

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
