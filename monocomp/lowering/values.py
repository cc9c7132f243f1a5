"""Values: terms without loops become expressions, each computed where it is first known."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from fractions import Fraction

from monocomp import terms as T
from monocomp.algebra import is_mantissa, is_selection
from monocomp.language.syntax import Kind
from monocomp.lowering.scopes import Scopes
from monocomp.terms import Term
from monocomp.tile import Expr, Let, apply, local, number

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
                value = t.attr if t.kind == "bool" else float(t.attr)
                return number(int(t.attr) if t.kind == "int" else value, t.kind)
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
                return self._masked_product(t)
            case "pow":
                return self._power(t)
            case "exp":
                return self._exponential(t)
            case "power":
                return self._general_power(*t.args)
            case "cast":
                return apply("cast", self._value(t.args[0]), kind=t.kind)
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
                    kind=t.kind,
                )
            case "compare" | "floordiv" | "mod" | "and" | "or" | "not":
                operands = [self._value(a, g) for a, g in _in_order(t, guard)]
                if t.op == "compare":
                    return apply("compare", *operands, kind="bool", attr=t.attr)
                if t.op in ("floordiv", "mod") and all(map(T.is_nonnegative, t.args)):
                    return apply(t.op, *operands, kind=t.kind, attr="nonnegative")
                return _chain(t.op, operands, t.kind)
        expansion = _EXPANSIONS.get(t.op)
        if expansion is not None:
            expanded = expansion(*t.args)
            leaf = self._leaf(expanded)  # of a number it is a number
            return self._build(expanded, guard) if leaf is None else leaf
        if is_selection(t):
            return self._entry(t)
        if t.op in ("fold_at", "field", "ref"):
            self._refuse(t if t.op == "fold_at" else t.args[0])
        return apply(t.op, *(self._value(a) for a in t.args), kind=t.kind)

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

    def _move(self, addends: list[Term]) -> tuple[Term, Term, Term] | None:
        """(c, x, y) if the addends are c x and -c y.

        Then the difference is taken before it is scaled: that is exact where x and y are
        near one another, and 0 where they are equal, however large they are.
        """
        if len(addends) != 2:
            return None
        (a, left), (b, right) = map(T.split_coefficient, addends)
        if a != -b or left is None or right is None or math.isinf(a):
            return None
        if a < 0:
            a, left, right = b, right, left
        ours, theirs = ((t.args if t.op == "mul" else (t,)) for t in (left, right))
        common = [f for f in ours if f in theirs]
        (x, y) = ([f for f in fs if f not in common] for fs in (ours, theirs))
        if len(x) != 1 or len(y) != 1:
            return None
        return T.mul(T.const(a, "float"), *common), x[0], y[0]

    def _sum(self, t: Term) -> Expr:
        return self._signed_sum(t.args, t.kind, self._value)

    def _signed_sum(
        self, addends: Iterable[Term], kind: Kind, value: Callable[[Term], Expr]
    ) -> Expr:
        """The sum of value(a), what is known outside summed there first."""
        total: Expr | None = None
        groups = self._by_depth(addends)
        for place, group in enumerate(groups):
            for a in sorted(group, key=_is_negative):
                positive = T.neg(a) if _is_negative(a) else a
                total = _plus(total, value(positive), _is_negative(a), kind)
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
        factor *= float(coefficient)
        kind = t.kind
        factors = () if rest is None else rest.args if rest.op == "mul" else (rest,)
        negative = factor < 0
        factor = abs(factor)
        total: Expr | None = None
        if factor != 1 or not factors:
            total = number(factor if kind == "float" else int(factor), kind)
        groups = self._by_depth(factors)
        for place, group in enumerate(groups):
            total = self._multiply(total, group, kind)
            if place < len(groups) - 1:
                total = self._hoisted(group, total)
        assert total is not None
        return apply("neg", total, kind=kind) if negative else total

    def _multiply(self, total: Expr | None, group: list[Term], kind: Kind) -> Expr:
        inverse = [f for f in group if f.op == "pow" and f.attr < 0]
        # A root is multiplied with its inverse, but for one over nothing, where that is infinite.
        under = [f for f in inverse if f.attr.denominator == 1 or T.may_be_empty(f.args[0])]
        over = [f for f in group if f not in inverse]
        over += [f for f in inverse if f not in under]
        for f in over:
            value = self._value(f)
            total = value if total is None else apply("mul", total, value, kind=kind)
        for f in under:
            divisor = self._value(T.power_of(f.args[0], -f.attr))
            total = self._divide(total or number(1.0), divisor, f.args[0])
        assert total is not None
        return total

    def _divide(self, over: Expr, divisor: Expr, base: Term) -> Expr:
        """over / divisor; a quotient of aggregates over nothing is 0.

        An aggregate that is a sum of positive elements is 0 only over nothing. For others
        the numerator must be 0 as well.
        """
        quotient = apply("div", over, divisor)
        if not (base.folded or T.is_bracket(base)) or _is_never_zero(base):
            return quotient
        empty = apply("compare", divisor, number(0.0), kind="bool", attr="==")
        if not _is_zero_only_if_empty(base):
            none = apply("compare", over, number(0.0), kind="bool", attr="==")
            empty = apply("and", empty, none, kind="bool")
        return apply("where", empty, number(0.0), quotient)

    def _masked_product(self, t: Term) -> Expr:
        """A product; a factor [condition] selects, so that 0 times NaN does not occur."""
        brackets = [f for f in t.args if T.is_bracket(f)]
        rest = [f for f in t.args if f not in brackets]
        if not brackets or not rest:
            return self._product(1.0, t)
        condition = T.conjunction(*(f.args[0] for f in brackets))
        value = self._value(T.mul(*(_guarded(f, condition) for f in rest)))
        return apply("where", self._value(condition), value, number(0, t.kind), kind=t.kind)

    def _power(self, t: Term) -> Expr:
        base, power = t.args[0], t.attr
        if power == Fraction(1, 2):
            return apply("sqrt", self._value(base))
        if power == Fraction(-1, 2):
            return apply("rsqrt", self._value(base))
        if power.denominator == 1 and power < 0:
            divisor = self._value(T.power_of(base, -power))
            return self._divide(number(1.0), divisor, base)
        if power.denominator == 1 and power <= 8:
            value = self._value(base)
            total = value
            for _ in range(int(power) - 1):
                total = apply("mul", total, value, kind=t.kind)
            return total
        value = apply("log2", self._value(base))
        return apply("exp2", apply("mul", number(float(power)), value))

    def _general_power(self, base: Term, exponent: Term) -> Expr:
        """base ** exponent by logarithms; a negative base may be taken to whole powers."""
        b, e = self._value(base), self._value(exponent)
        if T.is_positive(base):
            return apply("exp2", apply("mul", e, apply("log2", b)))
        half = apply("floor", apply("mul", number(0.5), e))
        is_odd = apply("compare", apply("mul", number(2.0), half), e, kind="bool", attr="!=")
        is_whole = apply("compare", apply("floor", e), e, kind="bool", attr="==")
        is_below = apply("compare", b, number(0.0), kind="bool", attr="<")
        logarithm = apply("log2", apply("where", is_whole, apply("abs", b), b))
        size = apply("exp2", apply("mul", e, logarithm))
        turned = apply("and", is_below, is_odd, kind="bool")
        power = apply("where", turned, apply("neg", size), size)
        is_zero = apply("compare", e, number(0.0), kind="bool", attr="==")
        return apply("where", is_zero, number(1.0), power)

    def _exponential(self, t: Term) -> Expr:
        """exp(x) = exp2(x log2(e)); log2(e) joins the factors that are known outside."""
        exponent = t.args[0]
        addends = [_settle(a) for a in (exponent.args if exponent.op == "add" else (exponent,))]
        log2_e = math.log2(math.e)
        move = self._move(addends)
        if move is not None:
            factor, old, new = move
            scale = self._hoisted([factor], self._product(log2_e, factor))
            difference = apply("sub", self._value(old), self._value(new))
            return apply("exp2", apply("mul", scale, difference))
        return apply("exp2", self._signed_sum(addends, "float", lambda a: self._product(log2_e, a)))


_HALF = T.const(Fraction(1, 2))
_ROOT_HALF = T.power_of(_HALF, Fraction(1, 2))


def _sigmoid(x: Term) -> Term:
    return T.power_of(T.add(T.ONE, T.exp(T.neg(x))), -1)


# Functions that backends need not know, in forms that neither overflow nor cancel.
_EXPANSIONS: dict[str, Callable[..., Term]] = {
    "sigmoid": _sigmoid,
    "relu": lambda x: T.function("maximum", x, T.const(0, x.kind)),
    "silu": lambda x: T.mul(x, _sigmoid(x)),
    "softplus": lambda x: T.add(
        T.function("maximum", x, T.ZERO),
        T.log(T.add(T.ONE, T.exp(T.neg(T.function("abs", x))))),
    ),
    "gelu": lambda x: T.mul(_HALF, x, T.add(T.ONE, T.function("erf", T.mul(x, _ROOT_HALF)))),
    "elu": lambda x: T.where(
        T.compare("<", T.ZERO, x),
        x,
        T.sub(T.exp(T.function("minimum", x, T.ZERO)), T.ONE),
    ),
}
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


def _chain(op: str, operands: list[Expr], kind: Kind) -> Expr:
    total = operands[0]
    if len(operands) == 1:
        return apply(op, total, kind=kind)
    for o in operands[1:]:
        total = apply(op, total, o, kind=kind)
    return total


def _is_negative(t: Term) -> bool:
    coefficient, _ = T.split_coefficient(t)
    return coefficient < 0 and coefficient != -math.inf


def _is_zero_only_if_empty(t: Term) -> bool:
    """A sum of positive elements, counted or weighted, and sums and products of those."""
    if t.op == "cast":
        return _is_zero_only_if_empty(t.args[0])
    if t.op == "stored":
        return _is_zero_only_if_empty(t.attr.body)
    if is_mantissa(t):
        return T.is_positive(t.args[0].args[1])
    if t.op in ("add", "mul"):
        return all(map(_is_zero_only_if_empty, t.args))
    return T.is_positive(t)


def _is_never_zero(t: Term) -> bool:
    """Is this a positive number and more, also where what is summed is nothing?"""
    has_number = t.op == "add" and any(a.op == "const" and a.attr > 0 for a in t.args)
    return has_number and T.is_nonnegative(t)


def _settle(addend: Term) -> Term:
    """A frame that is subtracted in an exponent is 0 while there is none. So is one that
    is added, which then stands before a sum over nothing."""
    if _is_frame(addend):
        return settle(addend)
    if addend.op in ("fold", "field", "stored"):  # what another frame is made of is settled there
        return addend
    return T.map_children(addend, _settle)


def _is_frame(t: Term) -> bool:
    if t.op == "stored":
        return _is_frame(t.attr.body)
    return t.op == "fold" and t.attr.monoid in EXTREMA


def settle(frame: Term) -> Term:
    """`algebra.settled`; it is 0 for an infinite logit too, which then counts as infinite."""
    return T.where(T.compare("==", T.INF, T.function("abs", frame)), T.ZERO, frame)


def _plus(total: Expr | None, value: Expr, negative: bool, kind: Kind) -> Expr:
    """total + value or total - value."""
    if total is None:
        return apply("neg", value, kind=kind) if negative else value
    if total.op == "neg" and not negative:
        return apply("sub", value, total.args[0], kind=kind)
    return apply("sub" if negative else "add", total, value, kind=kind)


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
