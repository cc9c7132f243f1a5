"""What a backward pass reads of the forward's values, instead of computing it anew.

    sum_k exp(S[q,k])              is exp(L[q]), with L saved: a weight over it is exp(S - L)
    sum_k exp(S[q,k]) * V[k,e]     is O[q,e] * exp(L[q]), where O = that over the sum above

A sum of exponentials is saved as its logarithm, as it may be too large for a float; of a product
that the program returns, a factor is what it returns over the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from monocomp import terms as T
from monocomp.equations import Equation, Equations
from monocomp.gradients.reverse import Fresh, free_indices
from monocomp.planning.storing import Closing
from monocomp.rewrites.single_folds import reads_computed
from monocomp.terms import Term
from monocomp.terms.monomials import addends, content, exponent_of, factors
from monocomp.terms.shares import exponents

Value = Callable[[Sequence[Term]], Term | None]  # at subscripts, if there is one there


@dataclass(frozen=True)
class Saved:
    """A value that the forward stores.

    Attributes:
        equation: what it is, by the name under which it is stored.
        of: the sum that it is the logarithm of.
    """

    equation: Equation
    of: Term


def candidates(program: Equations, fresh: Fresh) -> list[Saved]:
    """The logarithms of sums of exponentials that may be saved, as far as the sums are no outputs:
    what the program divides by, mostly."""
    close = Closing(program)
    known = {close(e.body)[0] for e in program.outputs}
    found: dict[Term, Saved] = {}
    for t in T.subterms(*(e.body for e in program.equations)):
        t = t.args[0] if t.op == "pow" and t.attr < 0 else t
        if t.kind != "float" or not is_exponential_sum(t):
            continue
        closed, _ = close(t)
        if closed in found or closed in known:
            continue
        t = _with_names(t, fresh)
        value = as_logsumexp(T.log(t))
        if is_logarithm(value):
            found[closed] = Saved(Equation("L", free_indices(t), value), t)
    return list(found.values())


def _with_names(t: Term, fresh: Fresh) -> Term:
    """A term with names of the program for the indices that are free in it because folds around it
    are open."""
    opened = [i for i in free_indices(t) if not i.attr[0].isidentifier()]
    taken = {i.attr[0] for i in free_indices(t)}
    names = fresh([i.attr[1] for i in opened], taken)
    here = {i.attr[0]: T.index(n, i.attr[1]) for i, n in zip(opened, names, strict=True)}
    return T.substitute(t, here)


def is_logarithm(t: Term) -> bool:
    """Is it the logarithm of a sum of exponentials?"""
    return t.op == "log" or (t.op == "fold" and t.attr.monoid == "logsumexp")


def as_logsumexp(t: Term) -> Term:
    """log(sum(exp(x))) by its name."""
    if t.op != "log" or t.args[0].op != "fold" or t.args[0].attr.monoid != "sum":
        return t
    opened, (condition, body) = T.open_fold(t.args[0])
    return T.fold("logsumexp", opened, condition, body.args[0]) if body.op == "exp" else t


def _is_aggregate(t: Term) -> bool:
    return t.op == "field" or (t.op == "fold" and t.kind == "float")


def is_exponential_sum(t: Term) -> bool:
    """Is it a sum of positive numbers, exponentials among them?"""
    return T.is_weight(t) and any(map(_sums_exponentials, addends(t)))


def _sums_exponentials(t: Term) -> bool:
    if t.op != "fold" or t.attr.monoid != "sum":
        return False
    return exponent_of(t.args[1]) is not T.ZERO or _sums_exponentials(t.args[1])


class Reading:
    """Rewrites terms to read saved values wherever they compute them.

    Args:
        program: the one that reads.
        outputs: equations in normal form whose values are returned, and may be read.
        saved: logarithms that are stored.
        read: what reads an equation's element.
    """

    def __init__(
        self,
        program: Equations,
        outputs: Iterable[Equation],
        saved: Iterable[Saved],
        read: Callable[[Equation, Sequence[Term]], Term],
    ) -> None:
        self.close = Closing(program)
        self.read = read
        self.values: dict[Term, Value] = {}
        self.logarithms: dict[Term, Value] = {}
        self.memo: dict[tuple[Term, frozenset[Term]], Term] = {}
        for e in outputs:
            self._know_output(e)
        for s in saved:
            self._know(self.logarithms, s.of, s.equation)

    def _know(self, table: dict[Term, Value], t: Term, e: Equation, *factors: Term) -> None:
        """A term is an equation's value, times factors."""
        closed, subscripts = self.close(t)
        places = {i: n for n, i in enumerate(subscripts) if i.op == "index"}
        if closed in table or set(places) != set(e.indices):
            return
        value = T.mul(self.read(e, e.indices), *factors)

        def at(given: Sequence[Term]) -> Term | None:
            here = {i.attr[0]: given[n] for i, n in places.items()}
            # A computed subscript is one of these indices' values, here as there.
            same = (T.substitute(s, here) is g for s, g in zip(subscripts, given, strict=True))
            return T.substitute(value, here) if all(same) else None

        table[closed] = at

    def _know_output(self, e: Equation) -> None:
        if _is_aggregate(e.body):
            self._know(self.values, e.body, e)
        if e.body.op == "log" and is_exponential_sum(e.body.args[0]):
            self._know(self.logarithms, e.body.args[0], e)
        aggregates = [f for f in factors(e.body) if _is_aggregate(f)]
        others = [f for f in factors(e.body) if f not in aggregates]
        if e.body.op == "mul" and len(aggregates) == 1 and all(map(_is_invertible, others)):
            inverse = (T.power_of(f, -1) for f in others)
            self._know(self.values, aggregates[0], e, *inverse)

    def __call__(self, t: Term, condition: Term = T.TRUE) -> Term:
        """The term, which is looked at where a condition holds, with saved values for what it
        computes."""
        return self._with_logarithms(self._rewritten(t, frozenset(T.conjuncts(condition))), {})

    def condition(self, t: Term) -> Term:
        """A condition, with what is saved of sums that it asks for."""
        return self._with_logarithms(t, {})

    def _rewritten(self, t: Term, known: frozenset[Term]) -> Term:
        found = self.memo.get((t, known))
        if found is None:
            found = self.memo[t, known] = self._rewrite(t, known)
        return found

    def _rewrite(self, t: Term, known: frozenset[Term]) -> Term:
        if t.kind == "bool":  # what is compared may be rounded otherwise
            return t
        if self._logarithm(t) is not None:  # it has to be recognised in products
            return t
        if _is_aggregate(t) and (value := self._found(self.values, t)) is not None:
            return value
        if t.op == "fold" and t.attr.monoid == "sum":
            opened, (condition, body) = T.open_fold(t)
            condition = self._rewritten(condition, known)
            body = self._rewritten(body, known | {*T.conjuncts(condition)})
            return _hoisted(opened, condition, body)
        t = T.map_children(t, lambda a: self._rewritten(a, known))
        return self._weighed(_factored(t), known)

    def _found(self, table: Mapping[Term, Value], t: Term) -> Term | None:
        if not table:
            return None
        closed, subscripts = self.close(t)
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
                return self._weighed(share, known)
        return t

    def _with_logarithms(self, t: Term, memo: dict[Term, Term]) -> Term:
        """What is left of sums that are known by their logarithms."""
        found = memo.get(t)
        if found is None:
            base, power = T.base_and_power(t)
            value = self._logarithm(base)
            if value is None:
                found = T.map_children(t, lambda a: self._with_logarithms(a, memo))
            elif power > 0:
                found = T.power_of(T.exp(value), power)
            else:  # what is over a sum of nothing is a share of nothing
                is_there = T.compare("<", T.const(-math.inf, "float"), value)
                found = T.mul(T.bracket(is_there), T.exp(T.mul(T.const(power, "float"), value)))
            memo[t] = found
        return found


def _is_invertible(f: Term) -> bool:
    """A factor that is 0 only where there is nothing, and the product with it."""
    base, _ = T.base_and_power(f)
    return T.is_weight(base)


def _share(t: Term, total: Term, logarithm: Term, known: frozenset[Term]) -> Term | None:
    """t / total, if elements of the total are summed in t, or are a factor of it."""
    if t is total:
        return T.bracket(T.is_there(total))
    if t.op == "exp":
        is_share = T.neg(logarithm) in addends(t.args[0])
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
    """Is exp(s) an element of a sum, or that times more?"""
    parts = addends(weight.args[0])
    found = exponents(total, weight.free, known)
    return any(all(a in parts for a in addends(e)) for e in found)


def _divisors(t: Term) -> Iterator[Term]:
    """What a product, or the addends of its factors, is divided by."""
    for f in factors(t):
        base, power = T.base_and_power(f)
        if power < 0:
            yield base
        if f.op == "add":
            for a in f.args:
                yield from _divisors(a)


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


def _factored(t: Term) -> Term:
    """What all addends have in common leaves them."""
    if t.op != "add" or t.kind != "float":
        return t
    parts = [factors(a) for a in t.args]
    brackets = [f for f in parts[0] if T.is_bracket(f) and all(f in p for p in parts)]
    if brackets:
        left = (T.mul(T.ONE, *(f for f in p if f not in brackets)) for p in parts)
        return T.mul(*brackets, _factored(T.add(*left)))
    common, rest = content(t, positive=True, leads=False)
    return T.mul(common, rest)


def _hoisted(opened: tuple[Term, ...], condition: Term, body: Term) -> Term:
    """A sum that factors leave which do not vary."""
    names = {i.attr[0] for i in opened}
    fixed = [f for f in factors(body) if names.isdisjoint(f.free)]
    fixed = [f for f in fixed if condition is T.TRUE or not reads_computed(f)]
    rest = T.mul(T.const(1, body.kind), *(f for f in factors(body) if f not in fixed))
    return T.mul(T.fold("sum", opened, condition, rest), *fixed)
