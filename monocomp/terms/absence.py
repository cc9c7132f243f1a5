"""Absence: what is 0 or -inf because a sum or a maximum is, written as equations of terms.

A sum of numbers that are at least 0 is 0 only if all its elements are, and a maximum is -inf only
if all of them are; exp(x) is 0 only where x is -inf. So `z == 0` says `x == 0` of each element x of
z, at whatever position of its index. An equation that cannot hold is FALSE: there is no element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from monocomp.declarations.record import record
from monocomp.terms.binders import rename
from monocomp.terms.constructors import construct
from monocomp.terms.leaves import FALSE, NEG_INF, ZERO
from monocomp.terms.logic import conjuncts
from monocomp.terms.nodes import Number, Term, intern
from monocomp.terms.parts import split_coefficient
from monocomp.terms.transfer import Dom


def is_equation(condition: Term) -> bool:
    """True if a condition says that a term is 0 or -inf."""
    if condition.op != "compare" or condition.attr != "==":
        return False
    value = condition.args[1]
    return value is NEG_INF or (value.op == "const" and value.attr == 0 and value.kind != "bool")


@record()
class Place:
    """A place where elements are looked for.

    Attributes:
        domain: the domains of terms.
        indices: the indices at which elements may stand.
        known: conditions that hold.
        fold: the fold whose indices these are, if they are bound.
    """

    domain: Callable[[Term], Dom]
    indices: Sequence[Term]
    known: frozenset[Term]
    fold: Term | None = None

    def equations(self, t: Term, value: Term) -> Iterator[Term]:
        """Yield equations that hold where t is 0 or -inf: of t, and of what it is made of."""
        is_missing = value is NEG_INF
        if not self._may_be(t, is_missing):
            yield FALSE
            return
        equation = intern("compare", (t, value), "==", "bool")
        yield equation
        if t.op in ("fold", "field"):
            yield from self.equations_of_elements(equation)
        for part in self._parts(t, is_missing):
            of_part = NEG_INF if t.op == "exp" else ZERO if t.op == "log" else value
            yield from self.equations(part, of_part)

    def equations_of_elements(self, equation: Term) -> Iterator[Term]:
        """Yield the equations of the elements of an aggregate that is 0 or -inf."""
        t, value = equation.args
        aggregate = t.args[0] if t.op == "field" else t
        if aggregate.op != "fold" or (self.fold and aggregate.height > self.fold.height):
            return
        binder = aggregate.attr
        is_mantissa = binder.is_scaled and t.op == "field" and t.attr == "v"
        is_largest = binder.monoid == "max" or (binder.is_scaled and not is_mantissa)
        if not (is_largest if value is NEG_INF else is_mantissa or binder.monoid == "sum"):
            return
        condition, body = aggregate.args[0], aggregate.args[-1 if is_largest else 1]
        if is_mantissa:
            body = construct("mul", body, construct("exp", aggregate.args[2]))
        if not is_largest and self.domain(body).lo < 0:
            return
        for position in self._positions(binder.extents):
            substitution = dict(zip(binder.indices, position, strict=True))
            if self.known.issuperset(conjuncts(rename(condition, substitution))):
                yield from self.equations(rename(body, substitution), value)

    def _positions(self, extents: Sequence[str]) -> Sequence[Sequence[Term]]:
        """Return indices for those of an aggregate."""
        if len(extents) == 1:
            return [(i,) for i in self.indices if i.extent == extents[0]]
        is_alike = self.fold is not None and self.fold.attr.extents == extents
        return [self.indices] if is_alike else []

    def _may_be(self, t: Term, is_missing: bool) -> bool:
        values = self.domain(t)
        return values.masked if is_missing else values.zero

    def _parts(self, t: Term, is_missing: bool) -> Sequence[Term]:
        """Return the operands that are 0 or -inf where t is."""
        match t.op:
            case "exp" if not is_missing:
                return t.args
            case "log" if is_missing:
                return t.args
            case "pow" if t.attr > 0 and not is_missing:
                return t.args
            case "maximum" | "add" if not is_missing:
                return t.args if all(self.domain(a).lo >= 0 for a in t.args) else ()
            case "maximum":
                return t.args
            case "add" | "mul":
                parts = [p for p in t.args if self._may_be(p, is_missing)]
                is_signed = is_missing and t.op == "mul"
                others = [p for p in t.args if p not in parts] if is_signed else []
                is_one = len(parts) == 1 and all(self.domain(p).is_positive for p in others)
                return parts if is_one else ()
        return ()


def follows(t: Term, equation: Term, domain: Callable[[Term], Dom]) -> bool:
    """True if t is 0, or -inf, because an equation says so of t, or some factors or addends."""
    part, value = equation.args
    if part is t:
        return True
    if part.op != t.op or not (t.op == "mul" or (t.op == "add" and value is NEG_INF)):
        return False
    numbers, parts = _coefficients(t), _coefficients(part)
    if not parts.keys() <= numbers.keys():
        return False
    if t.op == "mul":
        others = numbers.keys() - parts.keys()
        return value is not NEG_INF or all(domain(f).is_positive for f in others)
    scales = {numbers[x] / n for x, n in parts.items()}
    return len(scales) == 1 and min(scales) > 0


def _coefficients(t: Term) -> dict[Term, Number]:
    """Return the addends of a sum with the numbers before them, or the factors of a product."""
    if t.op == "mul":
        return {f: Fraction(1) for f in t.args}
    return {x: number for number, x in map(split_coefficient, t.args) if x is not None}
