"""Values: terms without loops become expressions, each computed where it is first known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import NoReturn

from monocomp import terms as T
from monocomp.declarations.vocabulary import Kind
from monocomp.errors import InternalError
from monocomp.lowering.differences import (
    common_scale,
    differences,
    is_difference,
    may_be_large,
    times_of_extremum,
    unclamped,
)
from monocomp.lowering.expressions import (
    chain,
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
from monocomp.lowering.selects import (
    factors_outside_frames,
    is_negative,
    settle,
    times,
    unsigned,
)
from monocomp.terms import Number, Term
from monocomp.terms.algebra import LEAST_INT, is_selection
from monocomp.terms.domain import Assumptions, domain, is_settled_where_negative
from monocomp.terms.masks import EXTREMA
from monocomp.terms.monomials import factors
from monocomp.terms.transfer import MASKED, Dom
from monocomp.tile import Expr, apply, number


class Values(Scopes):
    """Builds expressions for terms without folds, such as the combine of a monoid is."""

    def fold(self, t: Term) -> Expr:
        """Return the value of a fold."""
        raise InternalError(f"no loop for {t!r}")

    def field(self, t: Term) -> Expr:
        """Return the value of a field of an aggregate."""
        self.refuse(t.args[0])

    def entry(self, t: Term) -> Expr:
        """Return the value of an entry of `top` or `argtop`."""
        raise InternalError(f"no loop for {t!r}")

    def prepare(self, terms: Iterable[Term]) -> None:
        """Emit the loops that the terms need in the current scope."""

    def definition(self, t: Term) -> str | None:
        """Return the program's name for a term, if it has one."""
        return None

    def inside(self, t: Term) -> frozenset[int]:
        """Return the dimensions along which a read leaves its tensor for no values of its
        indices."""
        return frozenset()

    def refuse(self, t: Term) -> NoReturn:
        """Raise the error for a fold that no kernel is generated for."""
        raise InternalError(f"no kernel is generated for {t!r}")

    # Assumptions on the elements that the kernel reads.
    assumed = Assumptions(MASKED, in_kernels=True)

    def domain(self, t: Term) -> Dom:
        """Return the domain of a term where the open loops look at it."""
        return domain(t, self.assumed, self.known())

    def known(self) -> frozenset[Term]:
        """Return the conditions that hold in the open loops."""
        return frozenset(c for scope in self.scopes for c in scope.known())

    def value(self, t: Term, guard: Term | None = None, role: str | None = None) -> Expr:
        """Return the value of a term, with a name where it is first known. Where the guard fails
        nobody looks, and what it reads may not be there. What the program has no name for is
        called by its role."""
        if t in self.locals:
            return self.locals[t]
        known = self.lookup(t)
        if known is not None:
            return known
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
                return Expr("coordinate", (), t.name, self.tile_axes(t), "int")
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
            value = self._leaf(expanded) or self._build(expanded, guard)  # of a number it is one
            if t.op in ("sigmoid", "softplus") and self._is_settled(t.args[0]):
                value = where_equal(self.value(t.args[0]), -math.inf, 0.0, value)
            return value
        if is_selection(t):
            return self.entry(t)
        if t.op == "field":
            return self.field(t)
        if t.op in ("fold_at", "ref"):
            self.refuse(t)
        return apply(t.op, *(self.value(a) for a in t.args))

    def _is_settled(self, x: Term) -> bool:
        """True if x may be -inf, and a number stands for that where it is taken away."""
        return any(self.domain(a).masked and is_settled_where_negative(a) for a in T.addends(x))

    def _load(self, t: Term, guard: Term | None) -> Expr:
        subscripts = [self.value(a) for a in t.args]
        for n, a, _ in T.computed(t.args, t.attr.extents):
            if a.op == "index":  # of another extent: what may lie outside is computed
                subscripts[n] = apply("add", subscripts[n], number(0, "int"))
        axes = frozenset().union(*(s.axes for s in subscripts))
        load = Expr("load", tuple(subscripts), T.name_of(t), axes, t.kind, inside=self.inside(t))
        if guard is None or not T.is_computed(t):
            return load
        condition = self.value(guard)
        args, axes = (*subscripts, condition), axes | condition.axes
        return replace(load, args=args, axes=axes, guarded=True)

    def _sum(self, t: Term) -> Expr:
        """Return a sum, which is -inf where an addend is, whatever the others are."""
        addends, masked = self._settled(t.args)
        return self._where_unmasked(masked, self._signed_sum(addends))

    def summand(self, t: Term) -> Expr:
        """Return the value of a sum's element, with a number for what is unspecified, where
        others may be -inf: so is the sum then."""
        value, values = self.value(t), self.domain(t)
        if not (values.masked and values.unspecified):
            return value
        is_number = apply("compare", value, number(math.inf), attr="<")
        return apply("where", is_number, value, number(0.0))

    def _where_unmasked(self, masked: Iterable[Term], total: Expr) -> Expr:
        """Return a sum, and -inf where an addend is."""
        for a in masked:
            total = where_equal(self.value(a), -math.inf, -math.inf, total)
        return total

    def _settled(self, addends: Sequence[Term]) -> tuple[list[Term], list[Term]]:
        """Return the addends of a sum, with numbers where maxima of nothing are subtracted; and
        those that may be -inf beside one that may still be unspecified."""
        domains = {a: self.domain(a) for a in addends}
        unspecified = [a for a in addends if domains[a].unspecified]
        if self._is_outside_loops(addends) and any(map(_is_aggregate, addends)):
            unspecified += [a for a in addends if _reads_beside(a)]
        masked = [a for a in addends if domains[a].masked and any(u is not a for u in unspecified)]
        return [settle(a, self.domain) for a in addends], masked

    def _is_outside_loops(self, parts: Iterable[Term]) -> bool:
        """True if a value of these is computed once for what is stored."""
        return self.depth_of(frozenset().union(*(p.free for p in parts))) == 0

    def _signed_sum(self, addends: Iterable[Term], factor: float = 1.0) -> Expr:
        """Return the sum of factor * a, what is known outside summed there first, but for
        differences."""
        pairs, rest = differences(list(addends))
        total: Expr | None = None
        groups = self.by_depth(rest)
        for n, group in enumerate(groups, 1):
            for a in sorted(group, key=lambda a: (is_negative(a), may_be_large(a))):
                copies, a_ = times_of_extremum(unsigned(a))
                value = self.value(a_) if factor == 1 else self._masked_product(factor, a_)
                for _ in range(copies):
                    total = plus(total, value, is_negative(a))
            assert total is not None
            if (pairs or n < len(groups)) and total.op != "neg":
                total = self._hoisted(group, total)
        for x, largest in pairs:
            number_, m = T.split_coefficient(largest)
            assert m is not None
            difference = apply("sub", self.value(x), self.value(m))
            times = -float(number_) * factor
            if abs(times) != 1:
                difference = apply("mul", number(times), difference)
            total = plus(total, difference, times == -1)
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
        under = [f for f in inverse if f.attr.denominator == 1]  # a root is multiplied with
        over = [f for f in group if f not in inverse]
        over += [f for f in inverse if f not in under]
        over.sort(key=_steps_after_sums, reverse=True)
        # A maximum comes last, as its elements do, which are multiplied with what is known before
        # them: so their products round alike.
        extrema = [f for f in over if f.op == "fold" and f.attr.monoid in EXTREMA]
        for f in over:
            if f not in extrema:
                total = self._times(total, f)
        for f in under:
            total = self._quotient(total or number(1.0), f)
        for f in extrema:
            total = self._times(total, f)
        assert total is not None
        return total

    def _times(self, total: Expr | None, f: Term) -> Expr:
        value = self.value(f)
        return value if total is None else apply("mul", total, value)

    def _quotient(self, over: Expr, inverse: Term) -> Expr:
        """Return a number times an inverse: 0 where the divisor is."""
        divisor = self.value(T.power_of(inverse.args[0], -inverse.attr))
        total = divide(over, divisor)
        is_zero = self.domain(inverse.args[0]).zero
        return where_equal(divisor, 0.0, 0.0, total) if is_zero else total

    def _selected_product(self, factor: float, t: Term) -> Expr:
        """Return a product that is 0 where a factor is, whatever the others are."""
        coefficient, rest = T.split_coefficient(t)
        if rest is None or t.kind != "float":
            return self._product(factor, t)
        parts = [*factors(rest)]
        settled = settle(times(coefficient, parts), self.domain)
        total = self._product(factor, settled)
        for zero in dict.fromkeys(map(tuple, self._zeros(parts, coefficient))):
            total = where_equal(self.value(times(1, zero)), 0.0, 0.0, total)
        return total

    def _zeros(self, parts: Sequence[Term], number: Number) -> Iterator[Sequence[Term]]:
        """Yield groups of factors to test for 0: where a group's product is 0 the whole product is,
        though another factor, or the number before them, is -inf or unspecified."""
        domains = {f: self.domain(f) for f in parts}
        unbounded = [f for f in parts if not domains[f].is_real]
        may_be_zero = [f for f in parts if domains[f].zero]
        count = len(unbounded) + math.isinf(number)  # of what 0 may have to win against
        bounded = [T.base_and_power(f)[0] for f in may_be_zero if f not in unbounded]
        if count > 0 and bounded:
            yield bounded
        if count > 1:
            yield from ([T.base_and_power(f)[0]] for f in may_be_zero if f in unbounded)
        yield from ([f] for f in factors_outside_frames(parts, self.known()))
        yield from ([f] for f in self._sums_over_nothing(parts))

    def _sums_over_nothing(self, parts: Sequence[Term]) -> Iterator[Term]:
        """Yield the sums that may be over nothing beside what is read: a filter guarded the factors
        that have left them, which may be no numbers. A quotient by a sum over the same elements is
        selected anyway."""
        divisors = [p for p in parts if p.op == "pow" and self.domain(p.args[0]).zero]
        selected = {T.domain_of(s) for s in T.subterms(*divisors) if s.op == "fold"}
        for f in parts:
            fold = f.args[0] if f.op == "field" else f
            if fold.op != "fold" or T.has_element(fold) or T.domain_of(fold) in selected:
                continue
            if any(_reads_elsewhere(p, fold) for p in parts if p is not f):
                yield f

    def _masked_product(self, factor: float, t: Term) -> Expr:
        """factor * t; a factor [condition] selects, so that 0 times NaN does not occur."""
        parts = factors(t)
        brackets = [f for f in parts if T.is_bracket(f)]
        rest = [f for f in parts if f not in brackets]
        if not brackets or not rest:
            return self._selected_product(factor, times(1, parts))
        condition = T.conjunction(*(f.args[0] for f in brackets))
        guarded = times(1, [guarded_by(f, condition) for f in rest])
        product = self.locals.get(guarded) or self.lookup(guarded)
        if product is not None and factor == 1:
            value = product
        elif guarded.op == "mul":
            value = self._selected_product(factor, guarded)
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
            return self._inverse_root(base)
        if power < 0 and power.denominator == 1:
            return self._quotient(number(1.0), t)
        if power.denominator == 1:
            half = self.value(base if power < 4 else T.inert("pow", base, attr=power // 2))
            total = apply("mul", half, half)
            return total if power % 2 == 0 else apply("mul", total, self.value(base))
        if power.denominator == 2 and power < 0:  # 0 where there is no root
            inverse = T.power_of(base, Fraction(-1, 2))
            return self.value(T.inert("pow", inverse, attr=-2 * power))
        if power.denominator == 2 and power > 0:
            root = self.value(T.power_of(base, Fraction(1, 2)))
            return apply("mul", self.value(T.power_of(base, power - Fraction(1, 2))), root)
        value = apply("log2", self.value(base))
        return apply("exp2", apply("mul", number(float(power)), value))

    def _inverse_root(self, base: Term) -> Expr:
        """1 / sqrt(base), and 0 where that is no number, so that 0 times it is 0."""
        value = self.value(base)
        inverse = apply("rsqrt", value)
        values = self.domain(base)
        if values.is_positive:
            return inverse
        if values.lo >= 0:
            return where_equal(value, 0.0, 0.0, inverse)
        return apply("where", apply("compare", number(0.0), value, attr="<"), inverse, number(0.0))

    def _exponential(self, t: Term) -> Expr:
        """exp(x) = exp2(x log2(e)); log2(e) joins the factors that are known outside.

        Factors that all addends have are multiplied with their sum: that is exact where the addends
        nearly cancel, however large they are, and 0 where they do. What is given was rounded.
        """
        exponent = t.args[0]
        addends = list(exponent.args if exponent.op == "add" else (exponent,))
        log2_e = math.log2(math.e)
        has_given = any(unclamped(a).op == "stored" for a in addends)
        scale, rest = (None, addends) if has_given else common_scale(addends)
        rest, masked = self._settled(rest)
        if scale is None and is_difference(rest):
            scale = T.ONE
        if scale is None:
            return apply("exp2", self._where_unmasked(masked, self._signed_sum(rest, log2_e)))
        total = self._where_unmasked(masked, self._signed_sum(rest))
        value = self._hoisted([scale], self._product(log2_e, scale))
        total = apply("mul", value, total)
        if self.domain(scale).zero and not all(self.domain(a).is_real for a in rest):
            total = where_equal(value, 0.0, 0.0, total)
        return apply("exp2", total)


def _is_aggregate(t: Term) -> bool:
    return t.op in ("fold", "field")


def _reads_elsewhere(factor: Term, fold: Term) -> bool:
    """True if a factor is computed of what is read, but for aggregates over what the fold is over,
    and exponentials with a largest exponent of it, which are 0 where it has no element."""
    if factor.op == "exp":
        folds = (s for s in T.subterms(factor) if s.op == "fold" and s.attr.monoid == "max")
        return all(T.domain_of(s) != T.domain_of(fold) for s in folds)
    return _reads_beside(factor, lambda s: s.op == "fold" and T.domain_of(s) == T.domain_of(fold))


def _reads_beside(t: Term, left_out: Callable[[Term], bool] = _is_aggregate) -> bool:
    """True if a term is computed of elements that are read outside of some of its parts."""
    is_read = t.op == "read" and t.kind == "float"
    return is_read or (not left_out(t) and any(_reads_beside(a, left_out) for a in t.args))


def _stored(exact: Number, kind: Kind) -> float:
    """Return a number as a kernel has it: the nearest float, or the int modulo 2 ** 64."""
    if kind == "bool":
        return bool(exact)
    if kind == "int":
        return (int(exact) - LEAST_INT) % 2**64 + LEAST_INT
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_LEAVES = ("local", "number", "param", "extent", "coordinate")


@lru_cache(maxsize=4096)
def _steps_after_sums(t: Term) -> int:
    """Return how many operations follow a fold in a term. Of factors the longest chain comes first:
    it is under way while the others wait for their sums."""
    longest = max(map(_steps_after_sums, t.args), default=0)
    return longest + 1 if longest or t.op == "fold" else 0
