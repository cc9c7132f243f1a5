"""Values: terms without loops become expressions, each computed where it is first known."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache

from monocomp import terms as T
from monocomp.lowering.scopes import Scopes
from monocomp.terms import Number, Term
from monocomp.terms.algebra import LARGEST_INT, is_selection
from monocomp.terms.monomials import addends as _addends
from monocomp.terms.monomials import factors
from monocomp.tile import Expr, Let, apply, local, number
from monocomp.vocabulary import Kind

# A frame is a maximum, or minus a minimum.
EXTREMA = ("max", "min")


class Values(Scopes, ABC):
    """Builds expressions for terms; folds are left to a subclass."""

    @abstractmethod
    def _fold(self, t: Term) -> Expr:
        """The value of a fold."""

    @abstractmethod
    def _entry(self, t: Term) -> Expr:
        """The value of an entry of `top` or `argtop`."""

    @abstractmethod
    def _prepare(self, terms: list[Term]) -> None:
        """Emit the loops that the terms need in the current scope."""

    @abstractmethod
    def _refuse(self, t: Term) -> None:
        """Raise the error for a fold that no kernel is generated for."""

    # Divisors of the product being built that are 0 only where what they divide is.
    settled: frozenset[Term] = frozenset()
    # Weights of elements in a frame that is no less than their exponents.
    bounded: frozenset[Term] = frozenset()

    def _value(self, t: Term, guard: Term | None = None) -> Expr:
        if t in self.locals:
            return self.locals[t]
        found = self._lookup(t)
        if found is not None:
            return found
        leaf = self._leaf(t)
        if leaf is not None:
            return leaf
        value = self._build(t, guard)
        if value.op in ("local", "number", "param", "extent", "coordinate"):
            return value
        home = self._home_of(value, t)
        named = self._let(home, _base_name(value, _TERM_NAMES.get(t.op, "t")), value)
        if guard is None or not _reads_computed(t):
            home.memo[t] = named
        return named

    def _leaf(self, t: Term) -> Expr | None:
        match t.op:
            case "const":
                return number(_stored(t.attr, t.kind), t.kind)
            case "param":
                return Expr("param", (), t.attr, frozenset(), t.kind)
            case "extent":
                return Expr("extent", (), t.attr, frozenset(), "int")
            case "index":
                return Expr("coordinate", (), t.attr[0], self._tile_axes(t), "int")
        return None

    def _build(self, t: Term, guard: Term | None) -> Expr:
        match t.op:
            case "read" | "stored":
                return self._load(t, guard)
            case "add":
                return self._sum(t)
            case "mul":
                return self._masked_product(1.0, t)
            case "pow":
                return self._power(t)
            case "exp" | "fold" if T.is_over_nothing(t):
                return number(0.0)
            case "exp":
                return self._exponential(t)
            case "power":
                return self._general_power(*t.args)
            case "exactly":
                inert = T.as_it_stands(t)
                if t.attr[0] == "div" and T.is_bracket(t.args[1]):  # 0 / 0 is no number, either
                    return apply("div", *map(self._value, t.args))
                if inert.op == "mul":  # 0 * inf is no number, also where 0 is a truth value
                    return self._pinned_product(1.0, inert)
                return self._build(inert, guard)
            case "cast":
                return apply("cast", self._value(t.args[0]), attr=t.kind)
            case "fold":
                return self._fold(t)
            case "field" if t.args[0].op == "fold":
                self._prepare([t])
                found = self._lookup(t)
                if found is not None:
                    return found
            case "where":
                condition, a, b = t.args
                fails = T.negate(condition)
                a = a if a.op in _READS else _guarded(a, condition)
                b = b if b.op in _READS else _guarded(b, fails)
                return apply(
                    "where",
                    self._value(condition),
                    self._value(a, condition),
                    self._value(b, fails),
                )
            case "compare" | "floordiv" | "mod" | "and" | "or" | "not":
                operands = [self._value(a, g) for a, g in _in_order(t, guard)]
                if t.op == "compare":
                    return apply("compare", *operands, attr=t.attr)
                if t.op in ("floordiv", "mod") and all(map(T.is_nonnegative, t.args)):
                    return apply(t.op, *operands, attr="nonnegative")
                return _chain(t.op, operands)
        expansion = _EXPANSIONS.get(t.op)
        if expansion is not None:
            expanded = expansion(*t.args)
            leaf = self._leaf(expanded)  # of a number it is a number
            return self._build(expanded, guard) if leaf is None else leaf
        if is_selection(t):
            return self._entry(t)
        if t.op in ("fold_at", "field", "ref"):
            self._refuse(t if t.op == "fold_at" else t.args[0])
        return apply(t.op, *(self._value(a) for a in t.args))

    def _load(self, t: Term, guard: Term | None) -> Expr:
        name = t.attr.name if t.op == "stored" else t.attr
        subscripts = tuple(self._value(a) for a in t.args)
        axes = frozenset().union(*(s.axes for s in subscripts))
        condition = None if guard is None or not is_computed(t) else self._value(guard)
        if condition is None:
            return Expr("load", subscripts, name, axes, t.kind)
        return Expr(
            "load", (*subscripts, condition), name, axes | condition.axes, t.kind, guarded=True
        )

    def _sum(self, t: Term) -> Expr:
        """A sum. Where a part is missing, and -inf, so is the sum, whatever is added or taken away:
        -inf - -inf is -inf for a maximum over nothing. But an infinite element counts for more
        than an aggregate of nothing, also where it is taken away."""
        infinite = [a for a in t.args if not _is_missing_nowhere(a)]
        if len(infinite) == 2 and self._is_below_its_largest(*infinite):
            return self._signed_sum(map(_clamped, t.args), self._value)
        total = self._signed_sum(t.args, self._value)
        if not any(map(_may_be_infinite_by_itself, t.args)):
            return total
        if all(map(T.is_below_infinity, infinite)):  # nothing cancels
            return total
        if len(infinite) > 1:
            infinite = [a for a in infinite if not T.exceeds_minus_infinity(_unsigned(a))]
            added = [a for a in infinite if not _is_negative(a)]
            masks = [a for a in infinite if _is_mask(_unsigned(a))]
            of_nothing = [a for a in infinite if _may_be_infinite_by_itself(_unsigned(a))]
            for a in sorted(added, key=lambda a: a not in of_nothing):
                total = self._where_equal(self._value(a), -math.inf, -math.inf, total)
            if any(a in of_nothing for a in added if a not in masks):
                for a in infinite:
                    if a not in of_nothing:
                        total = self._where_infinite(a, total)
                for a in (a for a in added if a in masks):
                    total = self._where_equal(self._value(a), -math.inf, -math.inf, total)
        return total

    def _is_below_its_largest(self, x: Term, y: Term) -> bool:
        """Are these x and -max x? Then x is -inf where the maximum is, and stays it, whatever
        finite number is taken away instead."""
        if _is_negative(x):
            x, y = y, x
        known = {c for scope in self.scopes for c in scope.known()}
        return T.is_element(x, T.neg(y), known) and T.neg(y).attr.monoid == "max"

    def _where_equal(self, value: Expr, special: float, result: float, total: Expr) -> Expr:
        """The result where the value is a special one, else the total."""
        is_special = apply("compare", value, number(special), attr="==")
        return apply("where", is_special, number(result, total.kind), total)

    def _where_infinite(self, a: Term, total: Expr) -> Expr:
        """The addend where it is infinite, else the total."""
        value = self._value(_unsigned(a))
        signed = apply("neg", value) if _is_negative(a) else value
        is_infinite = apply("compare", apply("abs", value), number(math.inf), attr="==")
        return apply("where", is_infinite, signed, total)

    def _signed_sum(self, addends: Iterable[Term], value: Callable[[Term], Expr]) -> Expr:
        """The sum of value(a), what is known outside summed there first."""
        total: Expr | None = None
        groups = self._by_depth(addends)
        for place, group in enumerate(groups):
            for a in sorted(group, key=_is_negative):
                positive = T.neg(a) if _is_negative(a) else a
                total = _plus(total, value(positive), _is_negative(a))
            assert total is not None
            if place < len(groups) - 1 and total.op != "neg":
                total = self._hoisted(group, total)
        assert total is not None
        return total

    def _hoisted(self, group: list[Term], value: Expr) -> Expr:
        """Name a partial result in the scope where it is known."""
        if value.op in ("local", "number", "param", "extent", "coordinate"):
            return value
        homes = [self._home_of(value, t) for t in group]
        home = max(homes, key=lambda scope: scope.depth)
        for s in home.body:
            if isinstance(s, Let) and same(s.value, value):
                return local(s.name, value.axes, value.kind)
        return self._let(home, "scale", value)

    def _product(self, factor: float, t: Term) -> Expr:
        """factor * t, the factors that are known outside multiplied there first."""
        coefficient, rest = T.split_coefficient(t)
        kind = t.kind
        steps = 0  # a number that no dtype holds is multiplied with step by step, as 0 stays 0
        while isinstance(coefficient, Fraction) and kind == "float" and abs(coefficient) > 2**100:
            coefficient, steps = coefficient / 2**100, steps + 1
        scale = _stored(coefficient, kind)
        if kind == "float":
            scale *= factor
        factors = () if rest is None else rest.args if rest.op == "mul" else (rest,)
        negative = scale < 0 and scale != _LEAST_INT
        scale = abs(scale) if negative else scale
        total: Expr | None = None
        if scale != 1 or not factors:
            total = number(scale, kind)
        groups = self._by_depth(factors)
        for place, group in enumerate(groups):
            total = self._multiply(total, group)
            if place < len(groups) - 1:
                total = self._hoisted(group, total)
        assert total is not None
        for _ in range(steps):
            total = apply("mul", total, number(2.0**100))
        return apply("neg", total) if negative else total

    def _multiply(self, total: Expr | None, group: list[Term]) -> Expr:
        inverse = [f for f in group if f.op == "pow" and f.attr < 0]
        # A root is multiplied with its inverse, but for one over nothing, where that is infinite.
        under = [f for f in inverse if f.attr.denominator == 1 or T.may_be_empty(f.args[0])]
        over = [f for f in group if f not in inverse]
        over += [f for f in inverse if f not in under]
        for f in over:
            value = self._value(f)
            total = value if total is None else apply("mul", total, value)
        for f in under:
            divisor = self._value(T.power_of(f.args[0], -f.attr))
            total = _divide(total or number(1.0), divisor)
            if f in self.settled:  # whatever stands there: nobody need have looked at it
                total = self._where_equal(divisor, 0.0, 0.0, total)
        assert total is not None
        return total

    def _quotient(self, over: Expr, divisor: Expr, base: Term) -> Expr:
        """over / divisor, which is 0 / 0 = 0 for aggregates over nothing."""
        quotient = _divide(over, divisor)
        if not T.may_be_empty(base) or over.op == "number":
            return quotient
        empty = apply("compare", divisor, number(0.0), attr="==")
        none = apply("compare", over, number(0.0), attr="==")
        empty = apply("and", empty, none)
        return apply("where", empty, number(0.0), quotient)

    def _pinned_product(self, factor: float, t: Term, known: Term = T.TRUE) -> Expr:
        """A product that is 0 where a factor is that is no element's, whatever the others are.

        That is a sum over nothing; what is divided by a sum over nothing, if it is 0, too; a
        weight exp(-inf) beside what is infinite because of the same exponent; and what meets a
        maximum or logarithm of nothing. Facts tell where the others are finite anyway. Nobody looks
        where a condition that is known fails.
        """
        coefficient, rest = T.split_coefficient(t)
        if rest is None or t.kind != "float":
            return self._product(factor, t)
        holds = T.conjunction(known, *(c for scope in self.scopes for c in scope.known()))
        finite = [f for f in factors(rest) if not _is_infinite_bracket(f)]
        parts = _Parts(finite, holds, self.bounded)
        outer = self.settled
        self.settled |= parts.settled
        total = self._product(factor, _times(coefficient, parts.with_frames()))
        self.settled = outer
        if isinstance(coefficient, float):
            total = self._where_equal(self._value(rest), 0.0, 0.0, total)
        for zero in parts.zeros():
            total = self._where_equal(self._value(_times(1, zero)), 0.0, 0.0, total)
        for f in filter(_is_infinite_bracket, factors(rest)):
            (condition,) = f.args[0].args
            others = self._value(T.mul(T.const(coefficient, "float"), *parts.there(condition)))
            infinite = apply("mul", others, number(math.inf))
            infinite = self._where_equal(others, 0.0, 0.0, infinite)
            total = apply("where", self._value(condition), total, infinite)
        return total

    def _masked_product(self, factor: float, t: Term) -> Expr:
        """factor * t; a factor [condition] selects, so that 0 times NaN does not occur."""
        t = _in_no_frame(t)
        brackets = [f for f in factors(t) if T.is_bracket(f)]
        rest = [f for f in factors(t) if f not in brackets]
        if not brackets or not rest:
            return self._pinned_product(factor, t)
        condition = T.conjunction(*(f.args[0] for f in brackets))
        guarded = _times(1, [_guarded(f, condition) for f in rest])
        found = self.locals.get(guarded) or self._lookup(guarded)
        if found is not None and factor == 1:
            value = found
        elif guarded.op == "mul":
            value = self._pinned_product(factor, guarded, condition)
        else:
            value = self._value(guarded) if factor == 1 else self._product(factor, guarded)
        choices = value, number(0, t.kind)
        if condition.op == "not":
            (condition,), choices = condition.args, choices[::-1]
        return apply("where", self._value(condition), *choices)

    def _power(self, t: Term) -> Expr:
        base, power = t.args[0], t.attr
        if power == Fraction(1, 2):
            return apply("sqrt", self._value(base))
        if power == Fraction(-1, 2):
            return apply("rsqrt", self._value(base))
        if power < 0 and power.denominator == 1:
            return _divide(number(1.0), self._value(T.power_of(base, -power)))
        if power.denominator == 1:
            half = self._value(base if power < 4 else T.inert("pow", base, attr=power // 2))
            total = apply("mul", half, half)
            return total if power % 2 == 0 else apply("mul", total, self._value(base))
        if power.denominator == 2 and power > 0:
            root = self._value(T.power_of(base, Fraction(1, 2)))
            return apply("mul", self._value(T.power_of(base, power - Fraction(1, 2))), root)
        value = apply("log2", self._value(base))
        return apply("exp2", apply("mul", number(float(power)), value))

    def _general_power(self, base: Term, exponent: Term) -> Expr:
        """base ** exponent by logarithms, with the special values of C and IEEE 754: anything to
        the power 0 and 1 to any power are 1; a base less than 0, also -0.0, may be taken to whole
        powers, and -inf to any."""
        b, e = self._value(base), self._value(exponent)
        one, zero = number(1.0), number(0.0)

        def is_(x: Expr, sign: str, y: Expr) -> Expr:
            return apply("compare", x, y, attr=sign)

        size = apply("abs", b)
        if exponent.op == "const" and math.isfinite(exponent.attr) and exponent.attr % 1:
            has_power = is_(b, "==", number(-math.inf))
            logarithm = apply("log2", apply("where", has_power, size, b))
            return apply("exp2", apply("mul", e, logarithm))
        half = apply("floor", apply("mul", number(0.5), e))
        is_odd = is_(apply("mul", number(2.0), half), "!=", e)
        is_whole = is_(apply("floor", e), "==", e)
        is_below = is_(apply("where", is_(b, "==", zero), apply("div", one, b), b), "<", zero)
        has_power = apply("or", is_whole, is_(b, "==", number(-math.inf)))
        logarithm = apply("log2", apply("where", has_power, size, b))
        power = apply("exp2", apply("mul", e, logarithm))
        is_one = apply("and", is_(size, "==", one), is_whole)
        power = apply("where", is_one, one, power)
        is_turned = apply("and", apply("and", is_below, is_odd), is_whole)
        power = apply("where", is_turned, apply("neg", power), power)
        is_one = apply("or", is_(e, "==", zero), is_(b, "==", one))
        return apply("where", is_one, one, power)

    def _exponential(self, t: Term) -> Expr:
        """exp(x) = exp2(x log2(e)); log2(e) joins the factors that are known outside.

        Factors that all addends have are multiplied with their sum: that is exact where the addends
        nearly cancel, however large they are, and 0 where they do.
        """
        exponent = t.args[0]
        addends = list(exponent.args if exponent.op == "add" else (exponent,))
        log2_e = math.log2(math.e)
        scale, rest = _common_scale(addends)
        rest = [_clamped(a) if _may_cancel(a, rest) else a for a in rest]
        if scale is None:
            total = self._signed_sum(rest, lambda a: self._masked_product(log2_e, a))
            return apply("exp2", total)
        total = self._signed_sum(rest, self._value)
        divisors = [f for f in factors(scale) if _is_divisor(f)]
        over = T.mul(T.ONE, *(f for f in factors(scale) if f not in divisors))
        total = apply("mul", self._hoisted([over], self._product(log2_e, over)), total)
        for f in divisors:
            divisor = self._value(T.power_of(f.args[0], -f.attr))
            total = self._quotient(total, divisor, f.args[0])
        return apply("exp2", total)


_LEAST_INT = -LARGEST_INT - 1


def _stored(exact: Number, kind: Kind) -> float:
    """A number as a kernel has it: the nearest float, or the int modulo 2 ** 64."""
    if kind == "bool":
        return bool(exact)
    if kind == "int":
        return (int(exact) - _LEAST_INT) % 2**64 + _LEAST_INT
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _times(number_: Number, parts: list[Term]) -> Term:
    """A product as it stands: where it was written so that nothing cancels, nothing does."""
    if not parts:
        return T.const(number_, "float")
    numbers = [] if number_ == 1 else [T.const(number_, parts[0].kind)]
    if len(parts) + len(numbers) == 1 or parts[0].kind != "float":
        return T.mul(*numbers, *parts)
    return T.inert("mul", *numbers, *parts)


def _may_cancel(addend: Term, addends: list[Term]) -> bool:
    """May an addend be infinite beside one that is infinite, too, so that they cancel?"""
    return any(a is not addend and not T.is_finite(a) for a in addends)


def _clamped(addend: Term) -> Term:
    """An addend of an exponent, finite where it would be inf: a maximum or logarithm of nothing
    that is subtracted, a minimum that is added. So -inf - -inf never occurs: an element at -inf,
    and a sum over nothing, still contribute exp(-inf) = 0, and any other element is infinitely
    larger."""
    number_, rest = T.split_coefficient(addend)
    if rest is None or T.is_finite(rest):
        return addend
    is_greatest = _is_greatest(rest) or (rest.op == "log" and T.may_be_empty(rest.args[0]))
    if number_ < 0 and is_greatest and not T.exceeds_minus_infinity(rest):
        return T.mul(T.const(number_, "float"), clamp(rest, T.NEG_INF))
    if number_ > 0 and _is_least(rest) and not T.is_below_infinity(rest):
        return T.mul(T.const(number_, "float"), clamp(rest, T.INF))
    return addend


def _is_infinite_bracket(f: Term) -> bool:
    """1 / [condition]: infinite where the condition fails."""
    return f.op == "pow" and T.is_bracket(f.args[0])


def _is_divisor(f: Term) -> bool:
    return f.op == "pow" and f.attr < 0 and T.may_be_empty(f.args[0])


def _common_scale(addends: list[Term]) -> tuple[Term | None, list[Term]]:
    """(c, rest) with addends = c * rest: the factors that all addends have, or the number of two
    that are taken away from one another. None if there is none."""
    parts, numbers = [], []
    for a in addends:
        n, rest = T.split_coefficient(a)
        if rest is None or isinstance(n, float):
            return None, addends
        numbers.append(n)
        parts.append(list(factors(rest)))
    # A condition selects: it is no number to multiply with.
    common = [f for f in parts[0] if not T.is_bracket(f)]
    common = [f for f in common if all(f in p and len(p) > 1 for p in parts)]
    is_difference = len(addends) == 2 and sum(numbers) == 0
    if len(addends) < 2 or any(f.op == "exp" for f in common) or not (common or is_difference):
        return None, addends
    size = abs(numbers[0]) if len({abs(n) for n in numbers}) == 1 else Fraction(1)
    left = [
        T.mul(T.const(n / size, "float"), *(f for f in p if f not in common))
        for n, p in zip(numbers, parts, strict=True)
    ]
    return T.mul(T.const(size, "float"), *common), left


class _Parts:
    """The factors of a product, and which of them settle it where they are 0."""

    def __init__(self, parts: list[Term], known: Term, bounded: frozenset[Term]) -> None:
        self.parts = parts
        self.bounded = bounded
        over = [f for f in parts if f.op != "pow" or f.attr > 0]
        self.sums = [f for f in over if T.may_be_empty(f)]
        self.weights = [f for f in over if f.op == "exp"]
        self.product = T.Product([*self.sums, *self.weights], known=frozenset(T.conjuncts(known)))
        self.divisors = [f for f in parts if _is_divisor(f)]
        # Divisors that are 0 only where a sum or weight is: 0 over any number is 0, too.
        self.settled = frozenset(d for d in self.divisors if self._vanishes_with(d.args[0]))

    def _vanishes_with(self, z: Term) -> bool:
        """Is a sum or a weight 0 wherever z is?"""
        match z.op:
            case "add" if all(map(T.is_nonnegative, z.args)):
                return any(map(self._vanishes_with, z.args))
            case "mul":
                return all(T.is_positive(f) or self._vanishes_with(f) for f in factors(z))
            case "pow":
                return z.attr > 0 and self._vanishes_with(z.args[0])
        return z in self.weights or any(
            self.product.vanishes_with(f, z) for f in self.product.factors
        )

    def with_frames(self) -> list[Term]:
        """The factors, their scale 1 where the sum over nothing that has it divides them."""
        unsettled = [d.args[0] for d in self.divisors if d not in self.settled]
        if not unsettled:
            return self.parts
        divisors = T.Product(unsettled)
        found = []
        for f in self.parts:
            for a in _addends(f.args[0]) if f.op == "exp" else ():
                number_, m = T.split_coefficient(a)
                if m is not None and divisors.says(_is_there(m)):
                    there = T.mul(T.const(number_, "float"), _if_there(m))
                    f = T.exp(T.add(T.sub(f.args[0], a), there))
            found.append(f)
        return found

    def there(self, condition: Term) -> list[Term]:
        """The factors that are left where a condition fails: not the sum that it is about, which is
        0, nor divided by any, nor with an exponent that is infinite then."""
        left = []
        for f in self.parts:
            if f.op == "exp":
                sums = T.Product([*condition.args, *(d.args[0] for d in self.divisors)])
                exponent = f.args[0]
                for a in _addends(exponent):
                    m = _unscaled(a)
                    if any(m in T.subterms(side) for side in condition.args):
                        exponent = T.replace(exponent, m, T.ZERO)
                    elif sums.says(_is_there(m)):
                        exponent = T.replace(exponent, m, _if_there(m))
                left.append(T.exp(exponent))
            elif f not in self.divisors:
                base, power = T.base_and_power(f)
                if base not in condition.args or not T.may_be_empty(base):
                    left.append(f)
                elif power > 1:
                    left.append(T.power_of(base, power - 1))
        return left

    def zeros(self) -> Iterable[list[Term]]:
        """The factors whose product makes all of it 0 where it is 0."""
        unsettled = [d for d in self.divisors if d not in self.settled]
        if unsettled:
            # Where there is nothing, the scale that divides it is infinite, and 0 times that none.
            rest = [f for f in self.with_frames() if f not in self.divisors]
            yield rest or [T.ONE]
        elif any(map(_may_be_infinite_by_itself, self.parts)):
            infinite = [f for f in self.parts if _may_be_infinite_by_itself(f)]
            rest = [f for f in self.parts if f not in infinite and f not in self.divisors]
            if rest and not all(map(T.is_positive, rest)):
                yield rest
            if len(infinite) > 1:
                yield from ([f] for f in infinite)
        for f in self.sums:
            others = (g for g in self.parts if g is not f and g not in self.settled | self.bounded)
            if not unsettled and not all(_is_bounded(g) or T.empties_with(g, f) for g in others):
                # Not where another factor is 0: what is asked exactly may be divided by 0 then.
                empty = [g for g in factors(f) if T.is_bracket(g) or T.may_be_empty(g)]
                yield empty or [f]
        for f in self.weights:
            if infinite_with([g for g in self.parts if g is not f], f.args[0]):
                yield [f]
            without = set(T.left_out_of_frame(f))
            for g in self.parts:
                base, _ = T.base_and_power(g)
                if base in without or (base.op == "relu" and not _is_bounded(f)):
                    yield [g]


def _is_bounded(t: Term) -> bool:
    """Is t finite, whatever is finite or missing, such as exp(x - maximum(x, y))?"""
    if t.op != "exp":
        return T.is_finite(t)
    for a in _addends(t.args[0]):
        number_, m = T.split_coefficient(a)
        if m is not None and m.op == "maximum" and number_ < 0:
            rest = T.sub(t.args[0], a)
            if rest in (T.mul(T.const(-number_, "float"), x) for x in m.args):
                return True
    return False


def _in_no_frame(t: Term) -> Term:
    """A product in which the scale of what is compared, exp(m) * maximum(a * exp(-m), b), has gone
    back into it: nothing has cancelled it, and a may be 0 in the frame of b, which is less."""
    for f in factors(t):
        scale = [g for g in factors(t) if g.op == "exp" and _is_frame(g)] if _compares(f) else []
        if scale:
            operands = (*f.args, T.ZERO) if f.op == "relu" else f.args
            plain = [T.mul(a, *scale) for a in operands]
            name = "maximum" if f.op == "relu" else f.op
            total = T.add(*plain) if f.op == "add" else T.function(name, *plain)
            return T.mul(total, *(g for g in factors(t) if g is not f and g not in scale))
    return t


def _compares(t: Term) -> bool:
    """Is it the larger or smaller of two numbers, or a sum with one?"""
    if t.op == "add":
        return any(_compares(f) for a in t.args for f in factors(a))
    return t.op in ("maximum", "minimum", "relu") and t.kind == "float"


def _is_frame(weight: Term) -> bool:
    """Is it the exponential of an aggregate or a maximum, and not at most 1 by its form?"""
    (exponent,) = weight.args
    is_frame = exponent.folded or any(a.op == "maximum" for a in _addends(exponent))
    return is_frame and not (_is_bounded(weight) or T.is_nonnegative(T.neg(exponent)))


def _is_there(m: Term) -> Term:
    return T.compare("<", T.NEG_INF, m) if _is_greatest(m) else T.compare("<", m, T.INF)


def _if_there(m: Term) -> Term:
    """An exponent of a sum, 0 over nothing."""
    return T.where(_is_there(m), m, T.ZERO)


def infinite_with(parts: Sequence[Term], exponent: Term) -> list[Term]:
    """The factors that are infinite where an exponent is, alone or with others."""
    found = [f for f in parts if is_infinite_with(f, exponent)]
    for a in exponent.args if exponent.op == "add" else (exponent,):
        product = list(factors(_unscaled(a)))
        if len(product) > 1 and not _is_missing_nowhere(a) and all(f in parts for f in product):
            found += [f for f in product if f not in found]
    return found


def is_infinite_with(t: Term, exponent: Term) -> bool:
    """Is t infinite where an exponent is, because they have an addend in common?"""
    if t.op == "pow":
        return t.attr > 0 and is_infinite_with(t.args[0], exponent)
    addends = exponent.args if exponent.op == "add" else (exponent,)
    ours = t.args if t.op == "add" else (t,)
    varying = {_unscaled(a) for a in addends if not _is_missing_nowhere(a)}
    return any(_unscaled(a) in varying for a in ours)


def _is_missing_nowhere(t: Term) -> bool:
    """Is t finite or a product of such sums and numbers?"""
    return all(T.is_finite(f) or T.is_contraction(f) for f in factors(t))


def _unscaled(t: Term) -> Term:
    return T.split_coefficient(t)[1] or t


@lru_cache(maxsize=65536)
def _may_be_infinite_by_itself(t: Term) -> bool:
    """Is t infinite where it stands for nothing: a maximum, minimum or logarithm of that?"""
    match t.op:
        case "fold":
            return t.attr.monoid in EXTREMA and not T.is_finite(t)
        case "maximum" | "minimum" | "mul" | "abs":
            return any(map(_may_be_infinite_by_itself, t.args))
        case "add" | "where":
            return any(map(_may_be_infinite_by_itself, t.args[t.op == "where" :]))
        case "stored":
            return _may_be_infinite_by_itself(t.attr.body)
        case "log":
            return T.may_be_empty(t.args[0])
        case "pow":
            return t.attr > 0 and _may_be_infinite_by_itself(t.args[0])
        case "const":
            return t in (T.INF, T.NEG_INF)
        case "field" if t.args[0].op == "fold" and not t.args[0].attr.is_scaled:
            unit = t.args[0].attr.monoid.unit_of(t.attr)
            return unit in (T.INF, T.NEG_INF)
    return t.op == "fold_at"


_HALF = T.const(Fraction(1, 2))
_ROOT_HALF = T.power_of(_HALF, Fraction(1, 2))


def _sigmoid(x: Term) -> Term:
    return T.power_of(T.add(T.ONE, T.exp(T.neg(x))), -1)


def _log_one_plus(x: Term) -> Term:
    """log(1 + x) for x >= 0: what 1 + x has lost of a small x is a factor (Kahan)."""
    total = T.inert("add", x, T.ONE)
    scaled = T.inert(
        "mul",
        T.log(total),
        T.inert("pow", T.inert("add", total, T.const(-1, "float")), attr=Fraction(-1)),
        x,
    )
    return T.where(T.compare("==", total, T.ONE), x, scaled)


# Functions that backends need not know, in forms that neither overflow nor cancel.
_EXPANSIONS: dict[str, Callable[..., Term]] = {
    "sigmoid": _sigmoid,
    "relu": lambda x: T.function("maximum", x, T.const(0, x.kind)),
    "silu": lambda x: T.mul(x, _sigmoid(x)),
    "softplus": lambda x: T.add(
        T.function("maximum", x, T.ZERO), _log_one_plus(T.exp(T.neg(T.function("abs", x))))
    ),
    "gelu": lambda x: T.mul(_HALF, x, T.add(T.ONE, T.function("erf", T.mul(x, _ROOT_HALF)))),
    "elu": lambda x: T.where(
        T.compare("<", T.ZERO, x),
        x,
        T.sub(T.exp(T.function("minimum", x, T.ZERO)), T.ONE),
    ),
}
_LONG = 32  # operands of a condition that stand in one row
_TERM_NAMES = {"exp": "p", "fold": "s"}
_READS = ("read", "stored")


def is_computed(t: Term) -> bool:
    """Is this a read that may leave its tensor?"""
    return t.op in _READS and any(a.op != "index" for a in t.args)


def _reads_computed(t: Term) -> bool:
    """Is there such a read in t? What a fold reads is the fold's affair."""
    return is_computed(t) or (t.op not in ("fold", "field") and any(map(_reads_computed, t.args)))


def _guarded(t: Term, condition: Term) -> Term:
    """t where the condition holds: elsewhere its computed reads are not made. Those on a
    branch of `where` are guarded by its own condition when it is built."""
    if not _reads_computed(t):
        return t
    if is_computed(t):
        return T.where(condition, t, T.const(False) if t.kind == "bool" else T.const(0, t.kind))
    if t.op == "where":
        c, a, b = t.args
        for holds, one, other in ((c, a, b), (T.negate(c), b, a)):
            if not _reads_computed(other):  # it may as well stand where nobody looks
                return T.where(T.conjunction(condition, holds), one, other)
        holds, fails = (T.conjunction(condition, x) for x in (c, T.negate(c)))
        a = a if holds is c else _guarded(a, holds)
        b = b if fails is T.negate(c) else _guarded(b, fails)
        return T.where(_guarded(c, condition), a, b)
    return T.rebuild(t, tuple(_guarded(a, condition) for a in t.args))


def _in_order(t: Term, guard: Term | None) -> list[tuple[Term, Term | None]]:
    """Operands with what guards them; of `and` and `or` those that read computed places come
    last, and read where the others leave it open. A truth value that is read is guarded as
    it is: `_guarded` would write it as the same `and` or `or` again."""
    if t.op == "not":
        return [(t.args[0], guard)]
    first = [a for a in t.args if not _reads_computed(a)]
    if t.op not in ("and", "or") or not first:
        return [(a, None) for a in t.args]
    rest = [a for a in t.args if a not in first]
    holds = T.conjunction(*(a if t.op == "and" else T.negate(a) for a in first))
    guarded: list[tuple[Term, Term | None]] = [(a, None) for a in first]
    for a in rest:
        is_plain = is_computed(a) or (a.op == "not" and is_computed(a.args[0]))
        guarded.append((a, holds) if is_plain else (_guarded(a, holds), None))
    return guarded


def _chain(op: str, operands: list[Expr]) -> Expr:
    if len(operands) == 1:
        return apply(op, operands[0])
    if len(operands) > _LONG:  # nobody recurses as deep as a condition may be long
        middle = len(operands) // 2
        halves = (_chain(op, part) for part in (operands[:middle], operands[middle:]))
        return apply(op, *halves)
    total = operands[0]
    for o in operands[1:]:
        total = apply(op, total, o)
    return total


def _is_negative(t: Term) -> bool:
    coefficient, _ = T.split_coefficient(t)
    return coefficient < 0 and coefficient != -math.inf


def _is_mask(t: Term) -> bool:
    return t.op == "where" and T.NEG_INF in t.args


def _unsigned(t: Term) -> Term:
    """t or -t, whichever has a positive coefficient."""
    return T.neg(t) if _is_negative(t) else t


def _is_greatest(t: Term) -> bool:
    if t.op == "stored":
        return _is_greatest(t.attr.body)
    return t.op == "maximum" or (t.op == "fold" and t.attr.monoid == "max")


def _is_least(t: Term) -> bool:
    if t.op == "stored":
        return _is_least(t.attr.body)
    return t.op == "minimum" or (t.op == "fold" and t.attr.monoid == "min")


# What stands for an infinite frame: exp of it is infinite in all dtypes, and no small multiple of
# it is.
_LARGE = T.const(Fraction(2**100), "float")


def clamp(frame: Term, unit: Term) -> Term:
    """The frame, a large number where it is infinite as that of nothing is."""
    large = T.neg(_LARGE) if unit is T.NEG_INF else _LARGE
    return T.where(T.compare("==", unit, frame), large, frame)


def settle(frame: Term) -> Term:
    """`algebra.settled`; it is 0 for an infinite logit too, which then counts as infinite."""
    return T.where(T.compare("==", T.INF, T.function("abs", frame)), T.ZERO, frame)


def _divide(over: Expr, divisor: Expr) -> Expr:
    """A quotient; that of a number by 0 is done here, as compilers of kernels refuse it."""
    if divisor.op == over.op == "number" and divisor.attr == 0 and over.attr != 0:
        return number(math.copysign(math.inf, over.attr))
    return apply("div", over, divisor)


def _plus(total: Expr | None, value: Expr, negative: bool) -> Expr:
    """total + value or total - value."""
    if total is None:
        return apply("neg", value) if negative else value
    if total.op == "neg" and not negative:
        return apply("sub", value, total.args[0])
    return apply("sub" if negative else "add", total, value)


def same(a: Expr, b: Expr) -> bool:
    """Are the expressions equal, part by part?"""
    if a is b:
        return True
    return (
        a.op == b.op
        and a.attr == b.attr
        and a.kind == b.kind
        and len(a.args) == len(b.args)
        and all(map(same, a.args, b.args))
    )


def _base_name(value: Expr, default: str) -> str:
    if value.op == "load":
        return f"{value.attr}_tile"
    return default
