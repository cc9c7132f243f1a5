"""Partial derivatives of aggregates with respect to their elements.

A maximum hands its adjoint to the first element that is equal to it, also one in a user's monoid:
halves, as the larger of two numbers has them, would depend on how the elements are grouped. An
aggregate in any monoid is what comes before an element, the element, and what comes after it,
combined; so its derivative is that of two combines, whatever the monoid is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from monocomp import terms as T
from monocomp.errors import UnsupportedError
from monocomp.gradients.partials import Partial, partials
from monocomp.terms import Term
from monocomp.terms.algebra import is_selection

Fresh = Callable[[Iterable[str], Iterable[str]], tuple[str, ...]]
Found = Iterator[tuple[tuple[Term, ...], Partial]]


def fold_partials(t: Term, fresh: Fresh) -> Found:
    """Return the bound indices, opened under fresh names, and the partial derivatives with respect
    to the elements of a fold, or of a field of one.

    Raises:
        UnsupportedError: the aggregate has no derivative here.
    """
    if t.op == "field":
        yield from _of_monoid(t, fresh)
    elif is_selection(t):
        yield from _of_selection(t, fresh)
    elif t.op == "fold_at":
        yield (), Partial(T.by_definition(t), T.ONE)
    else:
        opened, (condition, *bodies) = T.open_as(t, fresh(t.attr.extents, t.free))
        match t.attr.monoid:
            case "sum":
                yield opened, Partial(bodies[0], T.ONE, condition)
            case "max" | "min":
                yield opened, _of_extremum(t, opened, condition, bodies[0])
            case "prod":
                yield opened, _of_product(t, opened, condition, bodies[0], fresh)
            case _:
                raise UnsupportedError(f"no gradient of {t.attr.name} is derived")


def _of_extremum(t: Term, opened: tuple[Term, ...], condition: Term, x: Term) -> Partial:
    """Return the first of those that are largest. Its position is compared, not its value, which
    may be rounded otherwise where it is computed again."""
    (bound,) = opened
    position = T.fold(f"arg{t.attr.monoid}", opened, condition, x)
    return Partial(x, T.ONE, T.conjunction(condition, T.compare("==", position, bound)))


def _of_product(
    t: Term, opened: tuple[Term, ...], condition: Term, x: Term, fresh: Fresh
) -> Partial:
    """Return the product of all others."""
    taken = t.free | {i.name for i in opened}
    others, (other_condition, y) = T.open_as(t, fresh(t.attr.extents, taken))
    pairs = zip(others, opened, strict=True)
    is_other = T.disjunction(*(T.compare("!=", j, i) for j, i in pairs))
    return Partial(
        x, T.fold("prod", others, T.conjunction(other_condition, is_other), y), condition
    )


def _of_selection(t: Term, fresh: Fresh) -> Found:
    """An entry of `top` is the element whose position `argtop` tells."""
    (bound,), (condition, x) = T.open_as(t, fresh(t.attr.extents, t.free))
    position = T.fold_at("argtop", t.args[0], bound, condition, x, target=t.attr.target)
    yield (bound,), Partial(x, T.ONE, T.conjunction(condition, T.compare("==", position, bound)))


def _of_monoid(t: Term, fresh: Fresh) -> Found:
    """fold(x) = before . x_k . after, for every k."""
    (folded,) = t.args
    if folded.op == "fold_at":
        yield (), Partial(T.field(T.by_definition(folded), t.attr), T.ONE)
        return
    monoid: T.UserMonoid = folded.attr.monoid
    names = fresh(folded.attr.extents, t.free)
    (bound,), (condition, *element) = T.open_as(folded, names)
    others = fresh(folded.attr.extents, {*t.free, *names})
    (other,), (other_condition, *other_element) = T.open_as(folded, others)

    def part(op: str) -> list[Term]:
        where = T.conjunction(other_condition, T.compare(op, other, bound))
        whole = T.fold(monoid, (other,), where, *other_element)
        return [T.field(whole, f) for f in monoid.fields]

    product = Product(monoid, part("<"), element, part(">"))
    for n, x in enumerate(element):
        yield (bound,), Partial(x, product.derivative(t.attr, monoid.fields[n]), condition)


class Product:
    """before . element . after, and its derivatives with respect to the element."""

    def __init__(self, monoid: T.UserMonoid, *factors: Sequence[Term]) -> None:
        before, element, after = factors
        self.fields = monoid.fields
        self.first = _Combined(monoid, before, element)
        self.second = _Combined(monoid, self.first.values, after)

    def value(self, field: str) -> Term:
        """Return a field of it."""
        return self.second.values[self.fields.index(field)]

    def derivative(self, field: str, of: str) -> Term:
        """Return the derivative of a field with respect to a field of the element."""
        outer, inner = self.second.derivative, self.first.derivative
        return T.add(T.ZERO, *(T.mul(outer(field, f), inner(f, f"{of}'")) for f in self.fields))


class _Combined:
    """combine(left, right), and its derivatives."""

    def __init__(self, monoid: T.UserMonoid, left: Sequence[Term], right: Sequence[Term]) -> None:
        self.monoid = monoid
        names = (*monoid.fields, *(f"{f}'" for f in monoid.fields))
        given = {T.param(n, "float"): v for n, v in zip(names, (*left, *right), strict=True)}
        self._value = T.transform(given.get)
        self.values = [self._value(c) for c in monoid.combine]

    def derivative(self, field: str, name: str) -> Term:
        """Return the derivative of a field of the result with respect to a field of an operand."""
        combine = self.monoid.combine[self.monoid.fields.index(field)]
        return self._value(derivative(combine, T.param(name, "float")))


@lru_cache(maxsize=1024)
def derivative(t: Term, x: Term) -> Term:
    """Return the derivative of a term without aggregates with respect to a leaf."""
    if t is x:
        return T.ONE
    return T.add(
        T.ZERO,
        *(
            T.where(p.condition, T.mul(p.factor, derivative(p.operand, x)), T.ZERO)
            for p in _partials_in_order(t)
        ),
    )


def _partials_in_order(t: Term) -> Iterable[Partial]:
    """Return the partial derivatives of an operation in `combine`: the first of two that are
    equal is the larger, the one of the elements on the left."""
    if t.op not in ("maximum", "minimum"):
        return partials(t)
    op = ">" if t.op == "maximum" else "<"
    left, right = sorted(t.args, key=_is_right)
    wins = T.compare(op, right, left)
    return Partial(left, T.ONE, T.negate(wins)), Partial(right, T.ONE, wins)


def _is_right(t: Term) -> bool:
    """True if a term holds a field of the element on the right."""
    return any(s.op == "param" and s.attr.endswith("'") for s in T.subterms(t))
