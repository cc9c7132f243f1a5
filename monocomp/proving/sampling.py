"""Terms evaluated on numbers at random: how laws are refuted, and proofs checked."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from monocomp import terms as T
from monocomp.proving.extended_reals import (
    Cases,
    ContradictionError,
    UnsupportedTermError,
    Value,
    is_finite,
)

_EXACT_BITS = 4096  # exact numbers may grow to this size
_LARGEST_EXPONENT = 10**4  # of exp; keeps a tower of exponentials from filling the memory


class Sample(Cases):
    """Numbers at random, exact as long as no root or exponential makes them irrational.

    Irrational numbers have `digits` digits. A comparison too close to call ends the sample
    (ContradictionError), so a case never rests on rounding.
    """

    NICE = tuple(map(Fraction, (1, 2, 3, 5)))
    PLAIN = (*NICE, *map(Fraction, (0, -1, -2, -3, 7)), *(Fraction(n, 6) for n in (3, 2, -9)))

    def __init__(
        self,
        seed: int,
        pool: Sequence[Fraction],
        digits: int = 40,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._random = random.Random(seed)
        self._pool = pool
        self._digits = digits
        self.tick = tick  # type: ignore[method-assign]

    @property
    def _context(self) -> Any:
        import mpmath  # type: ignore[import-untyped]

        context = _CONTEXTS.get(self._digits)
        if context is None:  # of its own: the precision of the user's mpmath stays as it is
            context = _CONTEXTS[self._digits] = mpmath.mp.clone()
            context.dps = self._digits
        return context

    @property
    def _resolution(self) -> Any:
        """Numbers closer than this are not told apart."""
        return self._context.mpf(10) ** (-self._digits // 2)

    def real(self, name: str, nonnegative: bool = False) -> Value:
        x = self._random.choice(self._pool)
        return abs(x) if nonnegative else x

    def choose(self, count: int) -> int:
        return self._random.randrange(count)

    def number(self, x: Fraction) -> Value:
        return Fraction(x)

    def _joined(self, xs: Sequence[Value]) -> Sequence[Value]:
        """The numbers in one representation."""
        if all(isinstance(x, Fraction) for x in xs):
            if any(_bits(x) > _EXACT_BITS for x in xs):
                raise UnsupportedTermError("a number grows too long")
            return xs
        return [self._rounded(x) for x in xs]

    def _rounded(self, x: Value) -> Value:
        if not isinstance(x, Fraction):
            return x
        return self._context.mpf(x.numerator) / self._context.mpf(x.denominator)

    def finite_sum(self, xs: Sequence[Value]) -> Value:
        return sum(self._joined(xs), start=Fraction(0) if _exact(xs) else 0)

    def finite_product(self, xs: Sequence[Value]) -> Value:
        return math.prod(self._joined(xs), start=Fraction(1) if _exact(xs) else 1)

    def finite_power(self, x: Value, power: Fraction) -> Value:
        if abs(power.numerator) > _EXACT_BITS:
            raise UnsupportedTermError("a power is too high")
        if isinstance(x, Fraction):
            if power.denominator == 1 and _bits(x) * abs(power) <= _EXACT_BITS:
                return x ** int(power)
            exact = T.power_of(T.const(x, "float"), power)
            if exact.op == "const":
                return exact.attr
        return self._rounded(x) ** self._rounded(power)

    def finite_function(self, name: str, x: Value) -> Value:
        if isinstance(x, Fraction):
            if name == "floor":
                return Fraction(math.floor(x))
            if x == 0 and name in ("exp", "cos"):
                return Fraction(1)
            if (name == "log" and x == 1) or (x == 0 and name in ("sin", "erf")):
                return Fraction(0)
        if name == "floor":
            if abs(x - self._context.nint(x)) < self._resolution:
                raise ContradictionError
            return Fraction(int(self._context.floor(x)))
        if name != "log" and abs(x) > _LARGEST_EXPONENT:
            raise UnsupportedTermError("a number grows too large")
        return getattr(self._context, name)(self._rounded(x))

    def holds(self, x: Value, relation: str) -> bool:
        if not isinstance(x, Fraction) and abs(x) < self._resolution:
            raise ContradictionError
        if relation == "==":
            return bool(x == 0)
        return bool(x < 0 or (relation == "<=" and x == 0))

    def same(self, a: Value, b: Value) -> bool:
        if not (is_finite(a) and is_finite(b)):
            return not is_finite(a) and not is_finite(b) and bool(a == b)
        if _exact((a, b)) or isinstance(a, bool):
            return bool(a == b)
        a, b = self._rounded(a), self._rounded(b)
        scale = max(abs(a), abs(b), 1)
        return bool(abs(a - b) <= scale * self._resolution)


_CONTEXTS: dict[int, Any] = {}


def _bits(x: Fraction) -> int:
    return x.numerator.bit_length() + x.denominator.bit_length()


def _exact(xs: Sequence[Value]) -> bool:
    return all(isinstance(x, Fraction) for x in xs)
