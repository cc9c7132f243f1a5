"""Values of the forward, read wherever a backward pass would compute them.

    Z[q] = sum[k](exp(S[q,k]))            L[q] = log(Z[q]) is saved: Z[q] is exp(L[q])
    O[q,e] = A[q,e] / Z[q]                is returned: A[q,e] is O[q,e] * Z[q]
    S[q,k] = c * X[q,k]                   is saved: X[q,k] is S[q,k] / c
    H[q] = log(Z[q]) - A[q] / Z[q]        is returned: A[q] / Z[q] is log(Z[q]) - H[q]

A value tells one part of it, the others being undone. What is saved may be a sum with a mask beside
which no digit of X is left, so that of sums only what is returned tells an aggregate. The ring does
the rest: exp(S) / Z is exp(S - L). Where Z is 0 so is exp(S), whatever exp(-L) is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from monocomp import terms as T
from monocomp.costs.closing import close
from monocomp.declarations.vocabulary import Kind
from monocomp.rewrites.single_folds import reads_computed
from monocomp.terms import Term
from monocomp.terms.abbreviation import Abbreviation
from monocomp.terms.domain import ELEMENTS_ARE_THERE, domain
from monocomp.terms.equations import Equation
from monocomp.terms.monomials import addends, exponent_of, factors
from monocomp.terms.shares import exponents

Substitution = dict[str, Term]  # what stands for the indices of an equation
Position = Callable[[Term], Substitution | None]  # the element that a term is part of, if any
Conditions = frozenset[Term]


@dataclass(frozen=True)
class _Fact:
    """A part of a value.

    Attributes:
        name: of the equation.
        position: finds the element of which a term is that part.
        op, others: the value is the sum or the product ("add", "mul") of the part and others.
        value: what they are together.
        alone: what the part is; None where the others cannot be undone.
        conditions: where that is so.
        is_exact: True if the value is as it was computed, so that it may be compared.
    """

    name: str
    position: Position
    op: str
    others: tuple[Term, ...]
    value: Term
    alone: Term | None
    conditions: Conditions
    is_exact: bool


class Reading:
    """Rewrites terms to read values wherever they compute them.

    Args:
        named: what reads definitions by name, at subscripts.
        name: gives a weight a name, which it has from then on.
    """

    def __init__(
        self,
        named: Mapping[str, Callable[[Sequence[Term]], Term]] = {},
        name: Callable[[Term], Term] = lambda weight: weight,
    ) -> None:
        self.named, self.name = named, name
        self.facts: dict[Term | None, list[_Fact]] = defaultdict(list)
        self.logarithms: list[tuple[Term, Term]] = []  # sums of exponentials, as they are read
        self.there: dict[str, tuple[tuple[Term, ...], Conditions]] = {}
        self.memo: dict[tuple[Term, Conditions, bool], Term] = {}

    def know(self, e: Equation, value: Term, is_exact: bool = True, of: Term | None = None) -> bool:
        """Read an equation's elements, as `value`, for what they tell.

        Args:
            e: the equation.
            value: what reads the element at the equation's indices.
            is_exact: True unless the value is rounded.
            of: a sum of which the equation is the logarithm, in another form.
        """
        body, conditions = unmasked(e.body) if is_exact else (e.body, ())
        if of is None and body.op == "log" and is_exponential_sum(body.args[0]):
            of = body.args[0]
        if of is not None:
            body, value = of, T.exp(value)
            self.logarithms.append((of, value))
        count = sum(map(len, self.facts.values()))
        self._solve(e, body, value, frozenset(conditions), is_exact)
        if sum(map(len, self.facts.values())) == count:
            return False
        self.memo.clear()
        return True

    def __call__(self, t: Term, condition: Term = T.TRUE) -> Term:
        """Return the term, looked at where a condition holds, with values for what it computes."""
        if not self.facts and not self.named:
            return t
        return self._rewritten(t, frozenset(T.conjuncts(condition)), t.kind == "bool")

    def name_weights(self) -> None:
        """Read the elements exp(s) of sums as P * exp(L), with names for P = exp(s - L)."""
        for total, value in self.logarithms:
            for where, element in _elements(total):
                if element.free >= value.free:
                    shift = self(element.args[0], T.conjunction(*where))
                    weight = self.name(T.mul(T.exp(shift), T.power_of(value, -1)))
                    self._tell_there(weight, [value])
                    of = Equation("", T.free_indices(weight), element)
                    read = T.mul(weight, value)
                    self._learn(of, element, "", (), read, read, frozenset(where), True)
        self.memo.clear()

    def of(self, names: Collection[str]) -> Reading:
        """Return a reading of some of the values alone."""
        some = Reading(self.named)
        for closed, facts in self.facts.items():
            some.facts[closed] = [f for f in facts if f.name in names]
        return some

    # --- what values tell ---------------------------------------------------------------------

    def _solve(self, e: Equation, t: Term, value: Term, where: Conditions, is_exact: bool) -> None:
        """Learn what an equation's elements tell of a term that is `value`."""
        if t.op not in ("add", "mul"):
            if is_exact or is_aggregate(t):
                self._learn(e, t, "", (), value, value, where, is_exact)
            return
        part = self._unknown(t, e, is_exact)
        if part is None:
            return
        others = tuple(p for p in t.args if p is not part)
        if t.op == "add" and not is_exact:
            less = self(T.add(*others), T.conjunction(*where))
            if not T.is_unmasked_if_read(less):  # -inf - -inf is not 0
                return
            alone = T.sub(value, less)
        elif t.op == "mul" and all(self._is_invertible(f, part) for f in others):
            inverse = [self(T.power_of(f, -1), T.conjunction(*where)) for f in others]
            alone = T.mul(value, *inverse)
            divisors = zip(others, inverse, strict=True)
            self._tell_there(value, [d for f, d in divisors if T.base_and_power(f)[1] < 0])
        elif is_exact:
            self._learn(e, part, t.op, others, value, None, where, is_exact)
            return
        else:
            return
        if is_exact or is_aggregate(part):
            self._learn(e, part, t.op, others, value, alone, where, is_exact)
        if part.op in ("add", "mul"):
            self._solve(e, part, alone, where, is_exact)
        if part.op == "add" and is_exact:  # as others stand beside each of its parts, too
            distributed = T.add(*(T.mul(a, *others) for a in part.args))
            self._solve(e, distributed, value, where, is_exact)

    def _learn(
        self,
        e: Equation,
        part: Term,
        op: str,
        others: tuple[Term, ...],
        value: Term,
        alone: Term | None,
        where: Conditions,
        is_exact: bool,
    ) -> None:
        place = position_of(part, e.indices)
        if place is not None:
            closed, position = place
            known = self.facts[closed] if closed is not None else ()
            if not any(f.alone is not None and f.conditions <= where for f in known):
                fact = _Fact(e.name, position, op, others, value, alone, where, is_exact)
                self.facts[closed].append(fact)

    def _unknown(self, t: Term, e: Equation, is_exact: bool) -> Term | None:
        """Return the part of a sum or product that it tells: one that tells which element it is,
        and the only one with aggregates that are not known, where values are rounded."""
        names = {i.name for i in e.indices}
        if t.op == "mul" and any(map(is_aggregate, t.args)):
            parts = [p for p in t.args if is_aggregate(p)]
        else:
            parts = [p for p in t.args if not self._is_known(p)]
        if is_exact:
            parts = [p for p in t.args if p.folded and p.free >= names]
            parts.sort(key=lambda p: not is_aggregate(p) if t.op == "mul" else self._is_known(p))
        return parts[0] if len(parts) == 1 or (parts and is_exact) else None

    def _is_invertible(self, f: Term, part: Term) -> bool:
        """True if a product with a part tells it; what is over 0 is 0, or unspecified."""
        base, power = T.base_and_power(f)
        if base.op == "const":
            return base is not T.ZERO
        values = domain(base, ELEMENTS_ARE_THERE, frozenset(_filter(part)))
        is_positive = values.lo > 0 if power > 0 else values.is_positive
        return is_positive or (power < 0 and self._is_known(f))

    def _is_known(self, t: Term) -> bool:
        """True if each aggregate in a term is told."""
        if is_aggregate(t):
            return any(self._found(t, None, False))
        return all(map(self._is_known, T.children(t)))

    def _tell_there(self, value: Term, divisors: Iterable[Term]) -> None:
        """Note that what is read is 0 where one of its divisors is."""
        if value.op in ("ref", *T.READS) and all(i.op == "index" for i in value.args):
            conditions = (c for d in divisors for c in T.conjuncts(T.is_there(d)))
            self.there[T.name_of(value)] = value.args, frozenset(conditions) - {T.TRUE}

    # --- reading ------------------------------------------------------------------------------

    def _rewritten(self, t: Term, known: Conditions, is_exact: bool) -> Term:
        key = t, known, is_exact
        rewritten = self.memo.get(key)
        if rewritten is None:
            rewritten = self.memo[key] = self._rewrite(t, known, is_exact)
        return rewritten

    def _rewrite(self, t: Term, known: Conditions, is_exact: bool) -> Term:
        if t.op == "ref" and t.attr in self.named:
            return self.named[t.attr](t.args)
        if not t.args:
            return t
        is_exact = is_exact or t.kind == "bool"
        t = self._with_wholes(t, known, is_exact)
        for fact, substitution in self._found(t, known, is_exact):
            if fact.alone is not None:
                return T.substitute(fact.alone, substitution)
        weight = self._weight_in(t, known)
        if weight is not None:
            quotient = T.mul(t, T.power_of(weight, -1))
            return T.mul(*(self._rewritten(f, known, is_exact) for f in (weight, quotient)))
        visit = partial(self._rewritten, is_exact=is_exact)
        match t.op:
            case "mul":
                brackets = [f for f in t.args if T.is_bracket(f)]
                conditions = known.union(*(T.conjuncts(f.args[0]) for f in brackets))
                parts = [visit(f, known if f in brackets else conditions) for f in t.args]
                return self._product(t.kind, parts)
            case "where":
                condition, value, other = t.args
                conditions = known.union(T.conjuncts(condition))
                elsewhere = known.union(T.conjuncts(T.negate(condition)))
                return T.where(
                    visit(condition, known), visit(value, conditions), visit(other, elsewhere)
                )
            case "fold":
                opened, (condition, *bodies) = T.open_fold(t)
                conditions = known.union(T.conjuncts(condition))
                new = visit(condition, known), *(visit(b, conditions) for b in bodies)
                if t.attr.monoid == "sum":
                    return _hoisted(opened, *new)
                return t if new == (condition, *bodies) else T.refold(t, *new, opened=opened)
        return _factored(T.map_children(t, lambda a: visit(a, known)))

    def _weight_in(self, t: Term, known: Conditions) -> Term | None:
        """Return an element of a known sum that an exponential is a multiple of."""
        parts = frozenset(addends(t.args[0])) if t.op == "exp" else frozenset()
        for total, _ in self.logarithms if parts else ():
            for exponent in exponents(total, t, known):
                if parts > frozenset(addends(exponent)):
                    return T.exp(exponent)
        return None

    def _product(self, kind: Kind, parts: Sequence[Term]) -> Term:
        """Return a product that does not ask for conditions without which a factor is 0."""
        conditions = frozenset().union(*map(self._needed, parts))
        return _with_exponentials(_where(T.mul(T.const(1, kind), *parts), conditions))

    def _needed(self, t: Term) -> Conditions:
        """Return the conditions without which a term is 0."""
        if t.op in ("ref", *T.READS) and T.name_of(t) in self.there:
            indices, conditions = self.there[T.name_of(t)]
            substitution = {i.name: a for i, a in zip(indices, t.args, strict=True)}
            return frozenset(T.substitute(c, substitution) for c in conditions)
        if t.op == "fold" and t.attr.monoid == "sum":
            opened, (_, body) = T.open_fold(t)
            bound = {i.name for i in opened}
            return frozenset(c for c in self._needed(body) if c.free.isdisjoint(bound))
        if t.op == "add":
            return frozenset.intersection(*map(self._needed, t.args))
        if t.op == "mul":
            return frozenset().union(*map(self._needed, t.args))
        return self._needed(t.args[0]) if t.op == "pow" and t.attr > 0 else frozenset()

    def _with_wholes(self, t: Term, known: Conditions, is_exact: bool) -> Term:
        """Return a sum or a product with what is read for those of its parts that are a value."""
        if t.op not in ("add", "mul"):
            return t
        combine = T.add if t.op == "add" else T.mul
        for part in t.args:
            for sign in (1, -1) if t.op == "add" else (1,):
                times = T.const(sign, "float")
                for fact, substitution in self._found(T.mul(times, part), known, is_exact):
                    others = [T.mul(times, T.substitute(p, substitution)) for p in fact.others]
                    left = _without(t, part, others) if fact.op == t.op else None
                    if left is not None:
                        value = T.mul(times, T.substitute(fact.value, substitution))
                        conditions = self._needed(value) if t.op == "mul" else frozenset()
                        if not all(_is_finite(f, conditions) for f in left):  # beside 0
                            value = T.mul(value, T.bracket(T.conjunction(*conditions)))
                        combined = combine(value, *left)
                        return self._with_wholes(combined, known, is_exact)
        return t

    def _found(
        self, part: Term, known: Conditions | None, is_exact: bool
    ) -> Iterator[tuple[_Fact, Substitution]]:
        """Yield the values of which a term is a part, and for which subscripts; whatever holds,
        where that is not known."""
        if part.kind != "float" or not (part.folded or part.op == "exp"):
            return
        for fact in (*self.facts.get(close(part)[0], ()), *self.facts.get(None, ())):
            if is_exact and not fact.is_exact:
                continue
            substitution = fact.position(part)
            if substitution is not None and (
                known is None
                or all(T.substitute(c, substitution) in known for c in fact.conditions)
            ):
                yield fact, substitution


def _without(t: Term, part: Term, others: Sequence[Term]) -> list[Term] | None:
    """Return the parts of a sum or product beside one and others; None if one is not a part."""
    left = [p for p in t.args if p is not part]
    if not all(other in left for other in others):
        return None
    return [p for p in left if p not in others]


def position_of(part: Term, indices: Sequence[Term]) -> tuple[Term | None, Position] | None:
    """Return what finds the element of which a term is a part, at any subscripts, beside the part
    as it is closed; where subscripts are computed themselves, only at indices, and None. None if
    the part does not tell which element it is of."""
    closed, subscripts = close(part)
    positions = {i: n for n, i in enumerate(subscripts) if i.op == "index"}
    if set(positions) == set(indices):

        def at(t: Term) -> Substitution | None:
            given = close(t)[1]
            substitution = {i.name: given[n] for i, n in positions.items()}
            # A computed subscript is one of these indices' values, here as there.
            same = (
                T.substitute(s, substitution) is g for s, g in zip(subscripts, given, strict=True)
            )
            return substitution if all(same) else None

        return closed, at
    if not part.free >= {i.name for i in indices}:
        return None
    pattern = Abbreviation("", tuple(indices), part)

    def at_indices(t: Term) -> Substitution | None:
        subscripts = pattern.subscripts(t)
        names = (i.name for i in indices)
        return None if subscripts is None else dict(zip(names, subscripts, strict=True))

    return None, at_indices


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


def is_aggregate(t: Term) -> bool:
    """True if a term is a float that a reduction gives: in a user's monoid, one of its fields."""
    is_number = t.op == "fold" and isinstance(t.attr.monoid, str)
    return t.op == "field" or (is_number and t.kind == "float")


def is_exponential_sum(t: Term) -> bool:
    """True if a term adds up exponentials, and is positive where its sums have elements."""
    is_positive = domain(t, ELEMENTS_ARE_THERE).is_positive
    return is_positive and any(map(_sums_exponentials, addends(t)))


def _sums_exponentials(t: Term) -> bool:
    if t.op != "fold" or t.attr.monoid != "sum":
        return False
    return exponent_of(t.args[1]) is not T.ZERO or _sums_exponentials(t.args[1])


def _elements(total: Term) -> Iterator[tuple[tuple[Term, ...], Term]]:
    """Yield the exponentials that are elements of a sum, and the conditions for that."""
    for t in addends(total):
        if t.op == "fold" and t.attr.monoid == "sum":
            _, (condition, body) = T.open_fold(t)
            for where, element in _elements(body):
                yield (*T.conjuncts(condition), *where), element
        else:
            yield from (((), f) for f in factors(t) if f.op == "exp")


def _with_exponentials(t: Term) -> Term:
    """Take exponentials into the sum of exponentials that a product multiplies with them, as each
    may be too large for a float."""
    exponentials = [f for f in factors(t) if f.op == "exp"]
    total = next((f for f in factors(t) if _weighs(f)), None)
    if not exponentials or total is None:
        return t
    opened, (condition, body) = T.open_fold(total)
    total_of_shares = T.fold("sum", opened, condition, T.mul(body, *exponentials))
    others = (f for f in factors(t) if f not in exponentials and f is not total)
    return T.mul(total_of_shares, *others)


def _weighs(t: Term) -> bool:
    """True if a term is a sum of products with an exponential."""
    is_sum = t.op == "fold" and t.attr.monoid == "sum"
    return is_sum and any(f.op == "exp" for f in factors(T.open_fold(t)[1][1]))


def _filter(t: Term) -> Sequence[Term]:
    """Return the conditions on the elements of a sum."""
    is_sum = t.op == "fold" and t.attr.monoid == "sum"
    return T.conjuncts(T.open_fold(t)[1][0]) if is_sum else ()


def _is_finite(f: Term, conditions: Conditions) -> bool:
    """True if a factor is finite where conditions hold."""
    base, power = T.base_and_power(f)
    is_divisor = power < 0 and conditions.issuperset(T.conjuncts(T.is_there(base)))
    return is_divisor or T.is_finite_if_read(f)


def _where(t: Term, conditions: Conditions) -> Term:
    """Return a term where conditions hold; the conditions stay beside what may be infinite
    elsewhere."""
    if t.op == "mul" and conditions:
        brackets = [f for f in t.args if T.is_bracket(f)]
        others = [_where(f, conditions) for f in t.args if f not in brackets]
        if all(_is_finite(f, conditions) for f in others):
            left = (c for f in brackets for c in T.conjuncts(f.args[0]) if c not in conditions)
            brackets = [T.bracket(T.conjunction(*left))]
        return T.mul(T.const(1, t.kind), *brackets, *others)
    if conditions and (t.op in ("add", "pow") or (t.op == "fold" and t.attr.monoid == "sum")):
        return T.map_children(t, lambda a: _where(a, conditions))
    return t


def _factored(t: Term) -> Term:
    """Factor out what all addends of a sum have in common: exponentials by their addends."""
    if t.op != "add" or t.kind != "float":
        return t
    parts = [[f for f in factors(a) if f.op != "exp"] for a in t.args]
    common = [f for f in parts[0] if f.op != "const" and all(f in p for p in parts)]
    exponents = [addends(exponent_of(a)) for a in t.args]
    exponent = T.add(T.ZERO, *(x for x in exponents[0] if all(x in e for e in exponents)))
    if not common and exponent is T.ZERO:
        return t
    others = (T.mul(T.ONE, *(f for f in factors(a) if f not in common)) for a in t.args)
    left = (T.mul(a, T.exp(T.neg(exponent))) for a in others)
    return T.mul(*common, T.exp(exponent), _factored(T.add(*left)))


def _hoisted(opened: tuple[Term, ...], condition: Term, body: Term) -> Term:
    """Return a sum that factors leave which do not vary: of exponentials by their addends, but for
    shares."""
    names = {i.name for i in opened}

    def is_fixed(t: Term) -> bool:
        return names.isdisjoint(t.free) and (condition is T.TRUE or not reads_computed(t))

    _, unshared = T.shares(body, T.conjuncts(condition))
    exponent = T.add(T.ZERO, *filter(is_fixed, addends(exponent_of(unshared))))
    fixed = [f for f in factors(body) if f.op != "exp" and is_fixed(f)]
    varying = T.mul(T.const(1, body.kind), *(f for f in factors(body) if f not in fixed))
    element = T.mul(varying, T.exp(T.neg(exponent))) if exponent is not T.ZERO else varying
    return T.mul(T.fold("sum", opened, condition, element), *fixed, T.exp(exponent))
