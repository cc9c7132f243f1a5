"""Values of the forward that a backward pass reads instead of computing them anew.

    sum_k exp(S[q,k])              is exp(L[q]), with L saved: a weight over it is exp(S - L)
    sum_k exp(S[q,k]) * V[k,e]     is O[q,e] * exp(L[q]), where O = that over the sum above

A sum of exponentials is saved as its logarithm, as it may be too large for a float, and beside that
its largest exponent where the logarithm alone loses digits (`digits`). A sum of what they weigh may
be as large: it is saved over the sum of weights that divides it. Where the program returns a
product, a factor is read as this product over the other factors. An aggregate without exponentials
is saved as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from monocomp import terms as T
from monocomp.costs.closing import close
from monocomp.gradients.digits import largest_exponent, loses_digits
from monocomp.gradients.late_reading import (
    Element,
    LateReading,
    element_of,
    is_aggregate,
    is_invertible,
    outer_aggregates,
)
from monocomp.gradients.quotients import Quotient, quotient, unguarded
from monocomp.gradients.reverse import Fresh
from monocomp.rewrites.single_folds import reads_computed
from monocomp.terms import Term
from monocomp.terms.domain import ELEMENTS_ARE_THERE, domain
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.monomials import addends, exponent_of, factors
from monocomp.terms.shares import canonical_addends, exponents

Value = Callable[[Sequence[Term]], Term | None]  # at subscripts, if there is one there


@dataclass(frozen=True)
class Saved:
    """A value that the forward stores.

    Attributes:
        equation: what it is, by the name under which it is stored.
        of: the term that it stands for: itself, what it is the logarithm of, or what it is over a
            sum of weights.
        frame: the largest exponent, where that is saved apart from the logarithm.
    """

    equation: Equation
    of: Term
    frame: Equation | None = None


def candidates(program: Equations, fresh: Fresh) -> list[Saved]:
    """The values that may be saved, as far as they are no outputs: aggregates, and what the program
    divides by."""
    known = {close(e.body)[0] for e in program.outputs}
    terms = list(T.subterms(*(e.body for e in program.equations)))
    divisors = dict(_divided(terms)) | dict(_weighed(terms))
    # They have to be recognised in sums of them.
    exponents_of_weights = {*T.subterms(*(t.args[0] for t in terms if t.op == "exp"))}
    found: dict[Term, Saved] = {}
    for t in terms:
        t = t.args[0] if t.op == "pow" and t.attr < 0 else t
        is_log = t.kind == "float" and is_exponential_sum(t)
        if not is_log and not is_aggregate(t):
            continue
        whole = t if is_log or not has_exponential(t) else divisors.get(t)
        if whole is None or t in exponents_of_weights:
            continue
        closed, closed_whole = close(t)[0], close(whole)[0]
        if closed in found or closed in known or closed_whole in known:
            continue
        opened = _names_for(whole, fresh)
        t, whole = T.substitute(t, opened), T.substitute(whole, opened)
        value = as_logsumexp(T.log(t)) if is_log else whole
        indices = T.free_indices(whole)
        frame = Equation("m", indices, largest_exponent(t)) if is_log and loses_digits(t) else None
        found[closed] = Saved(Equation("L" if is_log else "M", indices, value), t, frame)
    return list(found.values())


def aggregates_in_exponents(program: Equations) -> tuple[list[Term], list[Term]]:
    """All of them, and those that are in no other."""
    terms = T.subterms(*(e.body for e in program.equations))
    exponents = [t.args[0] for t in terms if t.op == "exp"]
    outer = dict.fromkeys(a for t in exponents for a in outer_aggregates(t))
    return list(filter(is_aggregate, T.subterms(*exponents))), list(outer)


def _divided(terms: Iterable[Term]) -> Iterator[tuple[Term, Term]]:
    """Aggregates of what exponentials weigh, and the same over the sum of weights that divides
    them."""
    for t in terms:
        if t.op == "mul":
            totals = [f for f in t.args if f.op == "pow" and f.attr < 0]
            totals = [f for f in totals if is_exponential_sum(f.args[0])]
            if len(totals) == 1 and totals[0].attr == -1:
                for a in filter(is_aggregate, t.args):
                    yield a, T.mul(a, totals[0])


def _weighed(terms: Sequence[Term]) -> Iterator[tuple[Term, Term]]:
    """Aggregates of what exponentials weigh, and the same over the sum of these weights, where that
    is a sum of the program."""
    totals = {t for t in terms if t.op == "fold" and is_exponential_sum(t)}
    for t in terms:
        if t.op == "fold" and t.attr.monoid == "sum" and t.kind == "float":
            opened, (condition, body) = T.open_fold(t)
            weights = T.mul(T.ONE, *(f for f in factors(body) if f.op == "exp"))
            total = T.fold("sum", opened, condition, weights)
            if total is not t and total in totals:
                yield t, T.mul(t, T.power_of(total, -1))


def has_exponential(t: Term) -> bool:
    """True if a term holds an exponential."""
    return any(s.op == "exp" for s in T.subterms(t))


def _names_for(t: Term, fresh: Fresh) -> dict[str, Term]:
    """Names of the program for the indices that are free in a term because folds around it are
    open."""
    opened = [i for i in T.free_indices(t) if not i.attr[0].isidentifier()]
    taken = {i.attr[0] for i in T.free_indices(t)}
    names = fresh([i.attr[1] for i in opened], taken)
    return {i.attr[0]: T.index(n, i.attr[1]) for i, n in zip(opened, names, strict=True)}


def is_logarithm(t: Term) -> bool:
    """True if a term is a logarithm: a `log` or a `logsumexp`."""
    return t.op == "log" or (t.op == "fold" and t.attr.monoid == "logsumexp")


def is_given(t: Term) -> bool:
    """True if the definition of a saved value has to be known: of a logarithm, for what it bounds,
    and of an aggregate that may be over nothing, as 0 divided by that is 0."""
    return is_logarithm(t) or (is_aggregate(t) and T.may_be_empty(t))


def as_logsumexp(t: Term) -> Term:
    """log(sum(exp(x))) by its name."""
    if t.op != "log" or t.args[0].op != "fold" or t.args[0].attr.monoid != "sum":
        return t
    opened, (condition, body) = T.open_fold(t.args[0])
    return T.fold("logsumexp", opened, condition, body.args[0]) if body.op == "exp" else t


def is_exponential_sum(t: Term) -> bool:
    """True if a term adds up exponentials, and is positive where its sums have elements."""
    is_positive = domain(t, ELEMENTS_ARE_THERE).is_positive
    return is_positive and any(map(_sums_exponentials, addends(t)))


def _sums_exponentials(t: Term) -> bool:
    if t.op != "fold" or t.attr.monoid != "sum":
        return False
    return exponent_of(t.args[1]) is not T.ZERO or _sums_exponentials(t.args[1])


class Reading:
    """Rewrites terms to read saved values wherever they compute them.

    Args:
        program: the one that reads.
        outputs: equations in normal form whose values are returned, and may be read.
        saved: other values.
        read: what reads an equation's element.
        named: outputs that others read by name.
        late: reads what has to be recognised before that.
    """

    def __init__(
        self,
        program: Equations,
        outputs: Iterable[Equation],
        saved: Iterable[Saved],
        read: Callable[[Equation, Sequence[Term]], Term],
        named: Iterable[str] = (),
        late: LateReading | None = None,
    ) -> None:
        self.read = read
        self.late = late or LateReading(read)
        self.named = {name: program.by_name[name] for name in named}
        self.values: dict[Term, Value] = {}
        self.logarithms: dict[Term, Value] = {}
        self.there: dict[Term, Sequence[Term]] = {}  # what holds where a share is one of something
        self.quotients: dict[str, Quotient] = {}
        self.memo: dict[tuple[Term, frozenset[Term]], Term] = {}
        waiting = [e for e in outputs if not self._know_output(e)]
        for s in saved:
            if s.frame is not None:
                less = T.neg(self.read(s.frame, s.frame.indices))
                self._know(self.logarithms, s.of, s.equation, less=less)
            elif is_logarithm(s.equation.body):
                self._know(self.logarithms, s.of, s.equation)
            else:
                self._know_output(s.equation)
        self.unknown = [e for e in waiting if not self._know_output(e)]
        self.memo.clear()  # more is known now

    def _know(
        self, table: dict[Term, Value], t: Term, e: Equation, *factors: Term, less: Term = T.ZERO
    ) -> bool:
        """A term is an equation's value, less another, times factors; does it tell which?"""
        closed, _ = close(t)
        element = element_of(t, e)
        if closed not in table and element is not None:
            table[closed] = partial(
                _at, element, T.mul(T.sub(self.read(e, e.indices), less), *factors)
            )
        return element is not None

    def _know_output(self, e: Equation) -> bool:
        """Read it wherever what tells it is computed, if anything does."""
        if e.body.op == "log" and is_exponential_sum(e.body.args[0]):
            return self._know(self.logarithms, e.body.args[0], e)
        known = [a for a in addends(e.body) if self._is_known(a)]
        found = [a for a in addends(e.body) if a not in known]
        if len(found) != 1:
            return False
        aggregates = [f for f in factors(found[0]) if is_aggregate(f)]
        others = [f for f in factors(found[0]) if f not in aggregates]
        if len(aggregates) == 1 and all(self._is_invertible(f, aggregates[0]) for f in others):
            if self._holds(others, aggregates[0]):  # it would be told by itself
                return False
            if not T.is_unmasked_if_read(T.add(T.ZERO, *known)):  # -inf - -inf is not 0
                return False
            inverse = [self._rewritten(T.power_of(f, -1), frozenset()) for f in others]
            less = self._rewritten(T.add(T.ZERO, *known), frozenset())
            if less is T.ZERO:
                powers = map(T.base_and_power, inverse)
                self.quotients[e.name] = quotient(e, (b for b, power in powers if power > 0))
            return self._know(self.values, aggregates[0], e, *inverse, less=less)
        return False

    def _is_invertible(self, f: Term, aggregate: Term) -> bool:
        """True if a product with an aggregate tells it; what is over 0 is 0, or unspecified."""
        if is_invertible(f, _filter(aggregate)):
            return True
        return T.base_and_power(f)[1] < 0 and self._is_known(f)

    def _holds(self, terms: Iterable[Term], aggregate: Term) -> bool:
        """True if terms hold an aggregate, at any subscripts."""
        closed = close(aggregate)[0]
        return any(close(s)[0] is closed for s in T.subterms(*terms) if is_aggregate(s))

    def _is_known(self, t: Term) -> bool:
        """True if each aggregate in a term is saved, or is a sum of weights."""
        if is_aggregate(t):
            return is_exponential_sum(t) or self._found(self.values, t) is not None
        return all(map(self._is_known, T.children(t)))

    def __call__(self, t: Term, condition: Term = T.TRUE) -> Term:
        """The term, which is looked at where a condition holds, with saved values for what it
        computes."""
        t = unguarded(self._rewritten(t, frozenset(T.conjuncts(condition))), self.quotients)
        return self.late(T.transform(self._exponential)(t), condition)

    def condition(self, t: Term) -> Term:
        """A condition, with what is saved of sums that it asks for."""
        return self.late(T.transform(self._exponential)(t))

    def _rewritten(self, t: Term, known: frozenset[Term]) -> Term:
        found = self.memo.get((t, known))
        if found is None:
            found = self.memo[t, known] = self._rewrite(t, known)
        return found

    def _rewrite(self, t: Term, known: frozenset[Term]) -> Term:
        if t.kind == "bool":  # what is compared may be rounded otherwise
            return t
        if t.op == "ref" and t.attr in self.named:
            return self.read(self.named[t.attr], t.args)
        if self._logarithm(t) is not None:  # it has to be recognised in products
            return t
        if is_aggregate(t) and (value := self._found(self.values, t)) is not None:
            return value
        if t.op == "fold" and t.attr.monoid == "sum":
            opened, (condition, body) = T.open_fold(t)
            condition = self._rewritten(condition, known)
            body = self._rewritten(body, known | {*T.conjuncts(condition)})
            return self._beside_shares(_hoisted(opened, condition, body))
        t = T.map_children(t, lambda a: self._rewritten(a, known))
        return self._beside_shares(self._weighed(self._weights_beside(self._factored(t)), known))

    def _found(self, table: Mapping[Term, Value], t: Term) -> Term | None:
        if not table:
            return None
        closed, subscripts = close(t)
        return table[closed](subscripts) if closed in table else None

    def _logarithm(self, t: Term) -> Term | None:
        is_known = t.kind == "float" and t.op in ("fold", "add") and is_exponential_sum(t)
        return self._found(self.logarithms, t) if is_known else None

    def _weighed(self, t: Term, known: frozenset[Term]) -> Term:
        """exp(s) / Z is exp(s - log(Z)), which is at most 1 where exp(s) is an element of Z. Where
        Z is empty, so is that element."""
        if t.op == "add":
            return T.add(*(self._weighed(a, known) for a in t.args))
        for base in dict.fromkeys(_divisors(t)):
            value = self._logarithm(base)
            if value is None:
                continue
            cleared = _cleared(t, base, T.conjuncts(T.is_there(base)))
            share = None if cleared is None else _share(cleared, base, value, known)
            if share is not None:
                self.there.update((f, T.conjuncts(T.is_there(base))) for f in _exponentials(share))
                return self._weighed(share, known)
        return t

    def _factored(self, t: Term) -> Term:
        """Factor out what all addends of a sum have in common, and a divisor of them all that is
        not known by its logarithm."""
        if t.op != "add" or t.kind != "float":
            return t
        parts = [factors(a) for a in t.args]
        shared = [f for f in parts[0] if f.op != "const" and all(f in p for p in parts)]
        if shared:
            left = (T.mul(T.ONE, *(f for f in p if f not in shared)) for p in parts)
            return T.mul(*shared, self._factored(T.add(*left)))
        for base in self._unknown(t.args[0]):
            cleared = [_cleared(a, base, T.conjuncts(T.is_there(base))) for a in t.args]
            if None not in cleared:
                total = T.add(*(a for a in cleared if a is not None))
                return T.mul(T.power_of(base, -1), self._factored(total))
        return t

    def _weights_beside(self, t: Term) -> Term:
        """A product in which weights are beside what is over a sum of them: w * (a / Z + b) is
        w * a / Z + w * b. Without weights, 0 over a sum of nothing is no number."""
        weights = [*_exponentials(t)]
        for f in factors(t) if weights else ():
            if f.op == "add" and any(map(self._is_over_weights, f.args)):
                others = [g for g in factors(t) if g is not f and g not in weights]
                return T.mul(T.add(*(T.mul(a, *weights) for a in f.args)), *others)
        return t

    def _is_over_weights(self, t: Term) -> bool:
        """True if t is over a sum of weights, and not known to be 0 where that is of nothing."""
        return any(not _vanishes_with(t, base) for base in self._unknown(t))

    def _unknown(self, t: Term) -> Iterator[Term]:
        """The sums of weights that divide a product, or addends of it, and have no logarithm."""
        return (b for b in _divisors(t) if is_exponential_sum(b) and self._logarithm(b) is None)

    def _beside_shares(self, t: Term) -> Term:
        """A product without conditions that a sum has an element, beside a share of it."""
        there = [c for f in _exponentials(t) for c in self.there.get(f, ())]
        return T.mul(*(_where(f, there) for f in factors(t))) if there else t

    def _exponential(self, t: Term) -> Term | None:
        """Return a power of a sum that is known by its logarithm."""
        base, power = T.base_and_power(t)
        value = self._logarithm(base)
        if value is None:
            return None
        if power > 0:
            return T.power_of(T.exp(value), power)
        # What is over a sum of nothing is a share of nothing.
        is_there = T.compare("<", T.const(-math.inf, "float"), value)
        return T.mul(T.bracket(is_there), T.exp(T.mul(T.const(power, "float"), value)))


def _filter(t: Term) -> Sequence[Term]:
    """The conditions on the elements of a sum."""
    is_sum = t.op == "fold" and t.attr.monoid == "sum"
    return T.conjuncts(T.open_fold(t)[1][0]) if is_sum else ()


def _at(element: Element, value: Term, subscripts: Sequence[Term]) -> Term | None:
    here = element(subscripts)
    return None if here is None else T.substitute(value, here)


def _exponentials(t: Term) -> Iterator[Term]:
    return (f for f in factors(t) if f.op == "exp")


def _share(t: Term, total: Term, logarithm: Term, known: frozenset[Term]) -> Term | None:
    """t / total, if elements of the total are summed in t, or are a factor of it."""
    if t is total:
        return T.bracket(T.is_there(total))
    if t.op == "exp":
        is_share = all(T.neg(a) in addends(t.args[0]) for a in addends(logarithm))
        if is_share or not _is_element(t, total, known):
            return None
        return T.exp(T.sub(t.args[0], logarithm))
    if t.op == "mul":
        for f in sorted(t.args, key=lambda f: f.op != "exp"):
            share = _share(f, total, logarithm, known)
            if share is not None:
                return T.mul(share, *(g for g in t.args if g is not f))
    if t.op == "add":
        shares = [_share(a, total, logarithm, known) for a in t.args]
        return None if None in shares else T.add(*(a for a in shares if a is not None))
    if t.op == "fold" and t.attr.monoid == "sum":
        opened, (condition, body) = T.open_fold(t)
        share = _share(body, total, logarithm, known | {*T.conjuncts(condition)})
        return None if share is None else T.fold("sum", opened, condition, share)
    return None


def _is_element(weight: Term, total: Term, known: frozenset[Term]) -> bool:
    """True if exp(s) is an element of a sum, or such an element times another exponential."""
    parts = canonical_addends(weight.args[0])
    return any(canonical_addends(e) <= parts for e in exponents(total, weight, known))


def _divisors(t: Term) -> Iterator[Term]:
    """Yield the divisors of a product, and of the addends of its factors."""
    for f in factors(t):
        base, power = T.base_and_power(f)
        if power < 0:
            yield base
        if f.op == "add":
            for a in f.args:
                yield from _divisors(a)


def _vanishes_with(t: Term, total: Term) -> bool:
    """True if a product is 0 where a sum is over nothing: if a factor is, or all that it sums."""
    return any(
        T.vanishes((f,), T.is_there(total))
        or (
            f.op == "fold"
            and f.attr.monoid == "sum"
            and _vanishes_with(T.open_fold(f)[1][1], total)
        )
        for f in factors(t)
    )


def _cleared(t: Term, base: Term, there: Sequence[Term]) -> Term | None:
    """t * base, for a base that divides all of it, where conditions are known to hold."""
    parts = []
    is_cleared = False
    for f in factors(t):
        f_base, power = T.base_and_power(f)
        if not is_cleared and f_base is base and power < 0:
            is_cleared, f = True, T.power_of(base, power + 1)
        elif not is_cleared and f.op == "add":
            addends = [_cleared(a, base, there) for a in f.args]
            if None not in addends:
                is_cleared, f = True, T.add(*(a for a in addends if a is not None))
        elif T.is_bracket(f):
            left = (c for c in T.conjuncts(f.args[0]) if c not in there)
            f = T.bracket(T.conjunction(*left))
        parts.append(f)
    return T.mul(T.ONE, *parts) if is_cleared else None


def _where(t: Term, there: Sequence[Term]) -> Term:
    """A term where conditions hold; the conditions stay beside what may be infinite elsewhere."""
    if t.op == "mul" and all(T.is_bracket(f) or T.is_finite_if_read(f) for f in t.args):
        brackets = [f for f in t.args if T.is_bracket(f)]
        left = (c for f in brackets for c in T.conjuncts(f.args[0]) if c not in there)
        others = (_where(f, there) for f in t.args if f not in brackets)
        return T.mul(T.bracket(T.conjunction(*left)), *others)
    is_sum = t.op == "fold" and t.attr.monoid == "sum"
    if is_sum or t.op in ("add", "mul", "pow"):
        return T.map_children(t, lambda a: _where(a, there))
    return t


def _hoisted(opened: tuple[Term, ...], condition: Term, body: Term) -> Term:
    """A sum that factors leave which do not vary."""
    names = {i.attr[0] for i in opened}
    fixed = [f for f in factors(body) if names.isdisjoint(f.free)]
    fixed = [f for f in fixed if condition is T.TRUE or not reads_computed(f)]
    rest = T.mul(T.const(1, body.kind), *(f for f in factors(body) if f not in fixed))
    return T.mul(T.fold("sum", opened, condition, rest), *fixed)
