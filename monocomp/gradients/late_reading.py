"""Logits that are stored are read last.

    S[q,k] = sum[d](Q[q,d] * K[k,d])                is stored, beside L[q] = logsumexp[k](S[q,k])
    exp(sum[d](Q[q,d] * K[k,d]) - L[q])             is a share of the sum, and is then read as
    exp(S[q,k] - L[q])

What stands in exponents has to be recognised in sums of them (`saving`), by what it is made of. It
is read once that is done, in the definitions of logarithms, too: by these it is known that shares
are at most 1. So are values that are made of what is read, as the weights themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from monocomp import terms as T
from monocomp.costs.closing import close
from monocomp.terms import Term
from monocomp.terms.abbreviation import Abbreviation
from monocomp.terms.domain import ELEMENTS_ARE_THERE, domain
from monocomp.terms.equations import Equation

Here = dict[str, Term]  # what stands for the indices of an equation
Element = Callable[[Sequence[Term]], Here | None]  # for subscripts, where there is one


@dataclass(frozen=True)
class _Whole:
    """A stored value, of which a part was found.

    Attributes:
        equation: what it is.
        op: of what parts are: an addition's, a multiplication's, or "" of a value that is one.
        others: the parts beside the one that was found.
        conditions: where the value is these parts.
        position: which element it is, for a term that may be that part of one.
    """

    equation: Equation
    op: str
    others: tuple[Term, ...]
    conditions: tuple[Term, ...]
    position: Callable[[Term], Here | None]


class LateReading:
    """Rewrites terms to read values wherever they compute them.

    Args:
        read: what reads an equation's element.
    """

    def __init__(self, read: Callable[[Equation, Sequence[Term]], Term]) -> None:
        self.read = read
        self.wholes: list[_Whole] = []
        self.memo: dict[tuple[Term, frozenset[Term]], Term] = {}

    def know(self, e: Equation, value: Term, conditions: tuple[Term, ...]) -> bool:
        """Read an equation's elements for what they are where conditions hold, if that tells which
        they are."""
        count = len(self.wholes)
        for form in dict.fromkeys((value, _written_out(value))):
            parts = parts_of(form)
            part = _telling(parts, e)
            if part is not None:
                others = tuple(p for p in parts if p is not part)
                op = form.op if others else ""
                self.wholes.append(_Whole(e, op, others, conditions, self._position(part, e)))
        self.memo.clear()
        return len(self.wholes) > count

    def _position(self, part: Term, e: Equation) -> Callable[[Term], Here | None]:
        """Finds elements by a part of them, at any subscripts; where those of the part are computed
        themselves, only at indices."""
        closed = close(part)[0]
        element = element_of(part, e)
        pattern = Abbreviation(e.name, e.indices, part)

        def position(t: Term) -> Here | None:
            if element is None:
                found = pattern.subscripts(t)
                names = (i.attr[0] for i in e.indices)
                return None if found is None else dict(zip(names, found, strict=True))
            form, subscripts = close(t)
            return element(subscripts) if form is closed else None

        return position

    def knows(self, e: Equation) -> bool:
        """True if a value is read where its definition stands."""
        return any(whole.equation.name == e.name for whole in self.wholes)

    def __call__(self, t: Term, condition: Term = T.TRUE) -> Term:
        """The term, which is looked at where a condition holds, with what is read for what it
        computes."""
        return self._rewritten(t, frozenset(T.conjuncts(condition))) if self.wholes else t

    def _rewritten(self, t: Term, known: frozenset[Term]) -> Term:
        found = self.memo.get((t, known))
        if found is None:
            found = self.memo[t, known] = self._rewrite(t, known)
        return found

    def _rewrite(self, t: Term, known: frozenset[Term]) -> Term:
        if not t.args:
            return t
        if t.op in ("add", "mul"):
            t = self._with_wholes(t, known)
        for whole, here in self._found(t, known):
            if whole.op == "" or (is_aggregate(t) and whole.op == "mul" and _are_invertible(whole)):
                inverse = (T.power_of(T.substitute(f, here), -1) for f in whole.others)
                return T.mul(self._read(whole, here), *inverse)
        match t.op:
            case "mul":
                brackets = [f for f in t.args if T.is_bracket(f)]
                there = known.union(*(T.conjuncts(f.args[0]) for f in brackets))
                factors = (self._rewritten(f, known if f in brackets else there) for f in t.args)
                return T.mul(T.const(1, t.kind), *factors)
            case "where":
                condition, value, other = t.args
                there = known.union(T.conjuncts(condition))
                elsewhere = known.union(T.conjuncts(T.negate(condition)))
                value, other = self._rewritten(value, there), self._rewritten(other, elsewhere)
                return T.where(self._rewritten(condition, known), value, other)
            case "fold":
                opened, (condition, *parts) = T.open_fold(t)
                there = known.union(T.conjuncts(condition))
                new = (
                    self._rewritten(condition, known),
                    *(self._rewritten(p, there) for p in parts),
                )
                return t if new == (condition, *parts) else T.refold(t, *new, opened=opened)
        return T.map_children(t, lambda a: self._rewritten(a, known))

    def _with_wholes(self, t: Term, known: frozenset[Term]) -> Term:
        """A sum or a product with what is read for those of its parts that are a value."""
        for part in t.args:
            for sign in (1, -1) if t.op == "add" else (1,):
                times = T.const(sign, "float")
                for whole, here in self._found(part if sign > 0 else T.neg(part), known):
                    others = [T.mul(times, T.substitute(p, here)) for p in whole.others]
                    left = [p for p in t.args if p is not part and p not in others]
                    is_there = whole.op == t.op and all(p in t.args for p in others)
                    if is_there:
                        combine = T.add if t.op == "add" else T.mul
                        found = combine(T.mul(times, self._read(whole, here)), *left)
                        return self._with_wholes(found, known) if found.op == t.op else found
        return t

    def _found(self, part: Term, known: Collection[Term]) -> Iterator[tuple[_Whole, Here]]:
        """The values of which a term is a part, and for which subscripts."""
        if part.kind != "float" or not part.folded:
            return
        for whole in self.wholes:
            here = whole.position(part)
            if here is not None:
                conditions = (T.substitute(c, here) for c in whole.conditions)
                if all(c in known for c in conditions):
                    yield whole, here

    def _read(self, whole: _Whole, here: Here) -> Term:
        return self.read(whole.equation, [here[i.attr[0]] for i in whole.equation.indices])


def unmasked(t: Term) -> tuple[Term, tuple[Term, ...]]:
    """Return what a value is where no mask makes it -inf or 0, and the conditions for that."""
    if t.op == "where" and t.args[2] is T.NEG_INF:
        value, more = unmasked(t.args[1])
        return value, (*T.conjuncts(t.args[0]), *more)
    if T.is_bracket(t):
        return T.ONE, T.conjuncts(t.args[0])
    if t.op in ("add", "mul", "exp"):
        parts = [unmasked(a) for a in t.args]
        conditions = (c for _, more in parts for c in more)
        return T.rebuild(t, tuple(value for value, _ in parts)), tuple(dict.fromkeys(conditions))
    return t, ()


def outer_aggregates(t: Term) -> Iterator[Term]:
    """The aggregates of a term that are in no other."""
    parts = [t]
    while parts:
        part = parts.pop()
        if is_aggregate(part):
            yield part
        elif part.folded:
            parts += part.args


def parts_of(t: Term) -> tuple[Term, ...]:
    """The addends of a sum, the factors of a product, or else the term."""
    return t.args if t.op in ("add", "mul") else (t,)


def _written_out(t: Term) -> Term:
    """A product with a sum as a sum of products, as rules leave exponents."""
    sums = [f for f in t.args if f.op == "add"] if t.op == "mul" else []
    if len(sums) != 1:
        return t
    others = [f for f in t.args if f is not sums[0]]
    return T.add(*(T.mul(a, *others) for a in sums[0].args))


def _telling(parts: Sequence[Term], e: Equation) -> Term | None:
    """A part that tells which element it is of: an aggregate, or what is made of it."""
    names = {i.attr[0] for i in e.indices}
    return next((p for p in parts if p.folded and p.free >= names), None)


def element_of(t: Term, e: Equation) -> Element | None:
    """Which element of an equation goes with a term's subscripts, as it is closed; None if these do
    not tell it."""
    _, subscripts = close(t)
    positions = {i: n for n, i in enumerate(subscripts) if i.op == "index"}
    if set(positions) != set(e.indices):
        return None

    def at(given: Sequence[Term]) -> Here | None:
        here = {i.attr[0]: given[n] for i, n in positions.items()}
        # A computed subscript is one of these indices' values, here as there.
        same = (T.substitute(s, here) is g for s, g in zip(subscripts, given, strict=True))
        return here if all(same) else None

    return at


def is_aggregate(t: Term) -> bool:
    """True if a term is a float that a reduction gives."""
    return t.op == "field" or (t.op == "fold" and t.kind == "float")


def _are_invertible(whole: _Whole) -> bool:
    return all(map(is_invertible, whole.others))


def is_invertible(f: Term, conditions: Iterable[Term] = ()) -> bool:
    """True if a factor is 0 only where there is nothing, and the product with it: elements for
    which conditions hold. What a product is divided by is bounded from below, or it may underflow,
    and the product with it."""
    base, power = T.base_and_power(f)
    if base.op == "const":
        return base is not T.ZERO
    values = domain(base, ELEMENTS_ARE_THERE, frozenset(conditions))
    return values.lo > 0 if power > 0 else values.is_positive
