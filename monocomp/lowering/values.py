"""Values: terms without loops become expressions, each computed where it is first known."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

from monocomp import terms as T
from monocomp.declarations.vocabulary import Kind
from monocomp.errors import InternalError
from monocomp.lowering.differences import differences, is_difference, unclamped
from monocomp.lowering.expressions import (
    chain,
    choose,
    divide,
    general_power,
    plus,
    where_equal,
    whole,
)
from monocomp.lowering.functions import EXPANSIONS
from monocomp.lowering.guards import guarded_by, in_order, reads_computed
from monocomp.lowering.naming import base_name
from monocomp.lowering.scopes import Scopes
from monocomp.lowering.special_values import (
    EXTREMA,
    Factors,
    clamped,
    has_logit,
    in_no_frame,
    is_divisor,
    is_missing_nowhere,
    is_negative,
    may_be_infinite_by_itself,
    may_be_masked,
    may_cancel,
    subtracted,
    times,
    unsigned,
)
from monocomp.terms import Number, Term
from monocomp.terms.algebra import LEAST_INT, is_selection
from monocomp.terms.monomials import addends as addends_of
from monocomp.terms.monomials import factors
from monocomp.tile import Expr, apply, number


class Values(Scopes):
    """Builds expressions for terms without folds, such as the combine of a monoid is."""

    def fold(self, t: Term) -> Expr:
        """The value of a fold."""
        raise InternalError(f"no loop for {t!r}")

    def field(self, t: Term) -> Expr:
        """The value of a field of an aggregate."""
        self.refuse(t.args[0])

    def entry(self, t: Term) -> Expr:
        """The value of an entry of `top` or `argtop`."""
        raise InternalError(f"no loop for {t!r}")

    def prepare(self, terms: Iterable[Term]) -> None:
        """Emit the loops that the terms need in the current scope."""

    def definition(self, t: Term) -> str | None:
        """What the program calls a term, if it does."""
        return None

    def inside(self, t: Term) -> frozenset[int]:
        """The dimensions along which a read leaves its tensor for no values of its indices."""
        return frozenset()

    def refuse(self, t: Term) -> NoReturn:
        """Raise the error for a fold that no kernel is generated for."""
        raise InternalError(f"no kernel is generated for {t!r}")

    # Divisors of the product being built that are 0 only where what they divide is.
    settled: frozenset[Term] = frozenset()
    # Weights of elements in a frame that is no less than their exponents.
    bounded: frozenset[Term] = frozenset()
    # The inputs that exponents add up.
    logits: frozenset[str] = frozenset()

    def value(self, t: Term, guard: Term | None = None, role: str | None = None) -> Expr:
        """The value of a term, with a name where it is first known. Where the guard fails nobody
        looks, and what it reads may not be there. What the program has no name for is called
        by its role."""
        if t in self.locals:
            return self.locals[t]
        found = self.lookup(t)
        if found is not None:
            return found
        leaf = self._leaf(t)
        if leaf is not None:
            return leaf
        with self.computing(t):
            value = self._build(t, guard)
            if value.op in _LEAVES:
                return value
            home = self.home_of(value, t)
            named = self.let(home, base_name(value, self.definition(t), role, self.named), value)
        if guard is None or not reads_computed(t):
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
                return Expr("coordinate", (), t.attr[0], self.tile_axes(t), "int")
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
                return general_power(*map(self.value, t.args))
            case "cast":
                return apply("cast", self.value(t.args[0]), attr=t.kind)
            case "int":
                return whole(self.value(t.args[0]))
            case "fold":
                return self.fold(t)
            case "where":
                condition, a, b = t.args
                fails = T.negate(condition)
                a = a if a.op in T.READS else guarded_by(a, condition)
                b = b if b.op in T.READS else guarded_by(b, fails)
                return apply(
                    "where",
                    self.value(condition),
                    self.value(a, condition),
                    self.value(b, fails),
                )
            case "compare" | "floordiv" | "mod" | "and" | "or" | "not":
                operands = [self.value(a, g) for a, g in in_order(t, guard)]
                if t.op == "compare":
                    return apply("compare", *operands, attr=t.attr)
                if t.op in ("floordiv", "mod") and all(map(T.is_nonnegative, t.args)):
                    return apply(t.op, *operands, attr="nonnegative")
                return chain(t.op, operands)
        expansion = EXPANSIONS.get(t.op)
        if expansion is not None:
            expanded = expansion(*t.args)
            leaf = self._leaf(expanded)  # of a number it is a number
            return self._build(expanded, guard) if leaf is None else leaf
        if is_selection(t):
            return self.entry(t)
        if t.op == "field":
            return self.field(t)
        if t.op in ("fold_at", "ref"):
            self.refuse(t)
        return apply(t.op, *(self.value(a) for a in t.args))

    def _load(self, t: Term, guard: Term | None) -> Expr:
        subscripts = [self.value(a) for a in t.args]
        for n, a, _ in T.computed(t.args, t.attr.extents):
            if a.op == "index":  # of another extent: what may lie outside is computed
                subscripts[n] = apply("add", subscripts[n], number(0, "int"))
        axes = frozenset().union(*(s.axes for s in subscripts))
        found = Expr("load", tuple(subscripts), T.name_of(t), axes, t.kind, inside=self.inside(t))
        if guard is None or not T.is_computed(t):
            return found
        condition = self.value(guard)
        args, axes = (*subscripts, condition), axes | condition.axes
        return replace(found, args=args, axes=axes, guarded=True)

    def _sum(self, t: Term) -> Expr:
        """A sum. Where a part is missing, and -inf, so is the sum, whatever is added or taken away:
        -inf - -inf is -inf for a maximum over nothing. But an infinite element counts for more
        than an aggregate of nothing, also where it is taken away."""
        given = self._given_logarithms(t)
        infinite = [a for a in t.args if not (a in given or is_missing_nowhere(a))]
        if len(infinite) == 2 and self._is_below_its_largest(*infinite):
            return self._signed_sum(map(clamped, t.args))
        total = self._signed_sum(given.get(a, a) for a in t.args)
        if not any(may_be_infinite_by_itself(a) for a in t.args if a not in given):
            # What is -inf of two logits is that: their logarithms of sums have left an exponent.
            logits = [a for a in infinite if has_logit(a, self.logits)]
            for a in logits if any(map(is_negative, logits)) else ():
                if not is_negative(a):
                    total = where_equal(self.value(a), -math.inf, -math.inf, total)
            return total
        if all(map(T.is_below_infinity, infinite)) and not any(map(T.may_be_no_number, t.args)):
            return total  # nothing cancels
        if len(infinite) > 1:
            infinite = [a for a in infinite if not _is_between_infinities(unsigned(a))]
            added = [a for a in infinite if not is_negative(a)]
            masks = [a for a in infinite if T.is_mask(unsigned(a)) or may_be_masked(a)]
            of_nothing = [a for a in infinite if may_be_infinite_by_itself(unsigned(a))]
            elements: list[Term] = []
            last: list[Term] = []
            if any(a in of_nothing for a in added if a not in masks):
                elements = [a for a in infinite if a not in of_nothing]
                last = [a for a in added if a in masks]
            for a in infinite:
                x = unsigned(a)
                if x is not a and a not in [*elements, *of_nothing] and _may_rise(x):
                    total = where_equal(self.value(x), math.inf, -math.inf, total)
            for a in sorted(added, key=lambda a: a not in of_nothing):
                if not (a in elements or a in last or T.exceeds_minus_infinity(a)):
                    total = where_equal(self.value(a), -math.inf, -math.inf, total)
            for a in sorted(elements, key=is_negative, reverse=True):  # -inf - -inf is -inf
                total = self._where_infinite(a, total)
            for a in last:
                total = where_equal(self.value(a), -math.inf, -math.inf, total)
        return total

    def _given_logarithms(self, exponent: Term) -> dict[Term, Term]:
        """Those of given sums, and what to subtract where they are -inf: only where the elements
        beside them are, of which some may be."""
        known = (c for scope in self.scopes for c in T.conjuncts(scope.condition))
        given = T.given_logarithms(exponent, known)
        if all(a in given or is_missing_nowhere(a) for a in addends_of(exponent)):
            return {a: a for a in given}
        return {a: subtracted(a) for a in given}

    def _is_below_its_largest(self, x: Term, y: Term) -> bool:
        """Are these x and -max x? Then x is -inf where the maximum is, and stays it, whatever
        finite number is taken away instead."""
        if is_negative(x):
            x, y = y, x
        known = {c for scope in self.scopes for c in scope.known()}
        return T.is_element(x, T.neg(y), known) and T.neg(y).attr.monoid == "max"

    def _where_infinite(self, a: Term, total: Expr) -> Expr:
        """The addend where it is infinite, else the total."""
        value = self.value(unsigned(a))
        signed = plus(None, value, is_negative(a))
        is_infinite = apply("compare", apply("abs", value), number(math.inf), attr="==")
        return choose(is_infinite, signed, total)

    def _signed_sum(self, addends: Iterable[Term], factor: float = 1.0) -> Expr:
        """The sum of factor * a, what is known outside summed there first, but for differences."""
        pairs, rest = differences(list(addends))
        total: Expr | None = None
        groups = self.by_depth(rest)
        for n, group in enumerate(groups, 1):
            for a in sorted(group, key=lambda a: (is_negative(a), _may_be_large(a))):
                a_, negative = unsigned(a), is_negative(a)
                value = self.value(a_) if factor == 1 else self._masked_product(factor, a_)
                total = plus(total, value, negative)
            assert total is not None
            if (pairs or n < len(groups)) and total.op != "neg":
                total = self._hoisted(group, total)
        for x, largest in pairs:
            number_, m = T.split_coefficient(largest)
            assert m is not None
            difference = apply("sub", self.value(x), self.value(m))
            if number_ * factor != -1:
                difference = apply("mul", number(-float(number_) * factor), difference)
            total = plus(total, difference, False)
        assert total is not None
        return total

    def _hoisted(self, group: list[Term], value: Expr) -> Expr:
        """Name a partial result in the scope where it is known."""
        if value.op in _LEAVES:
            return value
        home = max((self.home_of(value, t) for t in group), key=lambda scope: scope.depth)
        return self.let_once(home, "scale", value)

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
        negative = scale < 0 and scale != LEAST_INT
        scale = abs(scale) if negative else scale
        total: Expr | None = None
        if scale != 1 or not factors:
            total = number(scale, kind)
        groups = self.by_depth(factors)
        for n, group in enumerate(groups, 1):
            total = self._multiply(total, group)
            if n < len(groups):
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
        # A maximum comes last, as its elements do, which are multiplied with what is known before
        # them: so their products round alike.
        extrema = [f for f in over if f.op == "fold" and f.attr.monoid in EXTREMA]
        for f in over:
            if f not in extrema:
                total = self._times(total, f)
        for f in under:
            divisor = self.value(T.power_of(f.args[0], -f.attr))
            total = divide(total or number(1.0), divisor)
            if f in self.settled:  # whatever stands there: nobody need have looked at it
                total = where_equal(divisor, 0.0, 0.0, total)
        for f in extrema:
            total = self._times(total, f)
        assert total is not None
        return total

    def _times(self, total: Expr | None, f: Term) -> Expr:
        value = self.value(f)
        return value if total is None else apply("mul", total, value)

    def _quotient(self, over: Expr, divisor: Expr) -> Expr:
        """over / divisor, for an aggregate that may be of nothing: 0 / 0 = 0 then."""
        empty = apply("compare", divisor, number(0.0), attr="==")
        none = apply("compare", over, number(0.0), attr="==")
        return apply("where", apply("and", empty, none), number(0.0), divide(over, divisor))

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
        parts = Factors([*factors(rest)], holds, self.bounded, self.logits)
        outer = self.settled
        self.settled |= parts.settled
        total = self._product(factor, times(coefficient, parts.with_frames()))
        self.settled = outer
        if isinstance(coefficient, float):
            total = where_equal(self.value(rest), 0.0, 0.0, total)
        for zero in dict.fromkeys(map(tuple, parts.zeros())):
            total = where_equal(self.value(times(1, [*zero])), 0.0, 0.0, total)
        return total

    def _masked_product(self, factor: float, t: Term) -> Expr:
        """factor * t; a factor [condition] selects, so that 0 times NaN does not occur."""
        t = in_no_frame(t)
        brackets = [f for f in factors(t) if T.is_bracket(f)]
        rest = [f for f in factors(t) if f not in brackets]
        if not brackets or not rest:
            return self._pinned_product(factor, t)
        condition = T.conjunction(*(f.args[0] for f in brackets))
        guarded = times(1, [guarded_by(f, condition) for f in rest])
        found = self.locals.get(guarded) or self.lookup(guarded)
        if found is not None and factor == 1:
            value = found
        elif guarded.op == "mul":
            value = self._pinned_product(factor, guarded, condition)
        else:
            value = self.value(guarded) if factor == 1 else self._product(factor, guarded)
        choices = value, number(0, t.kind)
        if condition.op == "not":
            (condition,), choices = condition.args, choices[::-1]
        return apply("where", self.value(condition), *choices)

    def _power(self, t: Term) -> Expr:
        base, power = t.args[0], t.attr
        if power == Fraction(1, 2):
            return apply("sqrt", self.value(base))
        if power == Fraction(-1, 2):
            return apply("rsqrt", self.value(base))
        if power < 0 and power.denominator == 1:
            return divide(number(1.0), self.value(T.power_of(base, -power)))
        if power.denominator == 1:
            half = self.value(base if power < 4 else T.inert("pow", base, attr=power // 2))
            total = apply("mul", half, half)
            return total if power % 2 == 0 else apply("mul", total, self.value(base))
        if power.denominator == 2 and power > 0:
            root = self.value(T.power_of(base, Fraction(1, 2)))
            return apply("mul", self.value(T.power_of(base, power - Fraction(1, 2))), root)
        value = apply("log2", self.value(base))
        return apply("exp2", apply("mul", number(float(power)), value))

    def _exponential(self, t: Term) -> Expr:
        """exp(x) = exp2(x log2(e)); log2(e) joins the factors that are known outside.

        Factors that all addends have are multiplied with their sum: that is exact where the addends
        nearly cancel, however large they are, and 0 where they do. What is given was rounded.
        """
        exponent = t.args[0]
        addends = list(exponent.args if exponent.op == "add" else (exponent,))
        given = self._given_logarithms(exponent)
        addends = [given.get(a, a) for a in addends]
        log2_e = math.log2(math.e)
        scale, rest = (None, addends) if given else _common_scale(addends)
        settled = frozenset(given.values())
        rest = [clamped(a) if a not in settled and may_cancel(a, rest) else a for a in rest]
        if scale is None and is_difference(rest):
            scale = T.ONE
        if scale is None:
            total = self._signed_sum(rest, log2_e)
            return apply("exp2", total)
        total = self._signed_sum(rest)
        divisors = [f for f in factors(scale) if is_divisor(f)]
        over = T.mul(T.ONE, *(f for f in factors(scale) if f not in divisors))
        value = self._hoisted([over], self._product(log2_e, over))
        total = apply("mul", value, total)
        may_be_none = any(T.may_be_empty(f) or f.op == "exp" for f in factors(over))
        if may_be_none and not (T.is_positive(over) or all(map(T.is_finite, rest))):
            total = where_equal(value, 0.0, 0.0, total)
        for f in divisors:
            divisor = self.value(T.power_of(f.args[0], -f.attr))
            total = self._quotient(total, divisor)
        return apply("exp2", total)


def _may_be_large(t: Term) -> bool:
    """Is it an input's element, or chosen, as masks are? Beside them others lose digits."""
    return unclamped(t).op in ("where", "read")


def _is_between_infinities(t: Term) -> bool:
    return T.exceeds_minus_infinity(t) and not _may_rise(t)


def _may_rise(t: Term) -> bool:
    """May t be inf where all that is read is finite, as a quotient by 0 is?"""
    return not (T.is_below_infinity(t) or T.is_finite_if_there(t))


def _stored(exact: Number, kind: Kind) -> float:
    """A number as a kernel has it: the nearest float, or the int modulo 2 ** 64."""
    if kind == "bool":
        return bool(exact)
    if kind == "int":
        return (int(exact) - LEAST_INT) % 2**64 + LEAST_INT
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


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
    if len(addends) < 2 or not (common or is_difference):
        return None, addends
    size = abs(numbers[0]) if len({abs(n) for n in numbers}) == 1 else Fraction(1)
    left = [
        T.mul(T.const(n / size, "float"), *(f for f in p if f not in common))
        for n, p in zip(numbers, parts, strict=True)
    ]
    return T.mul(T.const(size, "float"), *common), left


_LEAVES = ("local", "number", "param", "extent", "coordinate")
