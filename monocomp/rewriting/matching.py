"""Patterns: terms whose reads are variables, compared with terms up to the order of addends and
factors.

A variable of which something is needed takes all addends or factors that meet it, and the last one
takes what is left; what stands in the pattern is tried at each place. exp(a + b) is a product.
A whole sum or product may have more parts than the pattern; these stay.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import TypeAlias

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.terms import Term
from monocomp.terms.monomials import addends, factors


def variable(p: Term) -> str:
    """Return the variable that a read stands for in a pattern."""
    name: str = p.attr.name
    return name.lower()


@lru_cache(maxsize=1024)
def _parts(p: Term) -> tuple[Term, ...]:
    """Return condition and bodies of a fold in a pattern, whose index is called as its extent."""
    return T.open_as(p, p.attr.extents)[1]


@record()
class Bindings:
    """The bindings of a match.

    Attributes:
        terms: by variable.
        folds: by the index of the pattern, the indices that are opened and the fold.
        remainder: addends or factors that the pattern has no place for.
    """

    terms: Mapping[str, Term] = field(default_factory=dict)
    folds: Mapping[str, tuple[tuple[Term, ...], Term]] = field(default_factory=dict)
    remainder: tuple[Term, ...] = ()

    def with_term(self, name: str, t: Term) -> Bindings:
        """Return the bindings with one more variable."""
        return Bindings({**self.terms, name: t}, self.folds, self.remainder)

    def at_positions(self, t: Term) -> Term:
        """Return a term at the positions of the folds that keep their index."""
        kept = (f for f in self.folds.values() if f[1].op == "fold_at")
        return T.substitute(t, {i.name: fold.args[0] for (i,), fold in kept})


Test: TypeAlias = Callable[[Bindings], bool]


@record()
class Demand:
    """Need of a variable.

    Attributes:
        tests: what must hold of all that it takes, one by one.
        key: a value that is the same for all that it takes.
        is_repeated: True if the variable stands in several places, which may have only some of it
            in common.
        alone: tests that meet needs which otherwise another variable has to meet.
    """

    tests: tuple[Test, ...] = ()
    key: Callable[[Bindings], Hashable] | None = None
    is_repeated: bool = False
    alone: tuple[Test, ...] = ()

    def is_met(self, name: str, t: Term, bindings: Bindings) -> bool:
        """True if the variable may be, or take, a term."""
        new = bindings.with_term(name, t)
        return all(test(new) for test in self.tests)

    def choices(self, name: str, parts: Iterable[Term], bindings: Bindings) -> Iterator[list[Term]]:
        """Yield those of the parts that the variable may take, as many as can be first."""
        allowed = [x for x in parts if self.is_met(name, x, bindings)]
        groups: dict[Hashable, list[Term]] = {}
        for x in allowed:
            key = None if self.key is None else self.key(bindings.with_term(name, x))
            groups.setdefault(key, []).append(x)
        yield from groups.values()
        for group in groups.values() if self.alone else ():
            meeting = [x for x in group if all(f(bindings.with_term(name, x)) for f in self.alone)]
            if 0 < len(meeting) < len(group):
                yield meeting
        if self.is_repeated and len(allowed) > 1:
            yield from ([x] for x in allowed)


Demands: TypeAlias = Mapping[str, Demand]  # of variables


def matches(p: Term, t: Term, tests: Demands) -> Iterator[Bindings]:
    """Yield all ways in which a term is the pattern; `tests` says what variables need."""
    if p.op in ("add", "mul") and t.op == p.op:
        yield from _match_parts(p, t, Bindings(), tests, whole=True)
    elif p.op == t.op:
        yield from _match(p, t, Bindings(), tests)


def _match(p: Term, t: Term, bindings: Bindings, tests: Demands) -> Iterator[Bindings]:
    match p.op:
        case "read":
            name = variable(p)
            if name in bindings.terms:
                is_met = bindings.terms[name] is t
            else:
                is_alike = (p.kind == "bool") == (t.kind == "bool")
                is_met = is_alike and (name not in tests or tests[name].is_met(name, t, bindings))
            if is_met:
                yield bindings.with_term(name, t)
        case "fold" | "fold_at":
            yield from _match_fold(p, t, bindings, tests)
        case "add" | "mul" | "and":
            yield from _match_parts(p, t, bindings, tests)
        case _ if p.op == t.op and p.attr == t.attr and len(p.args) == len(t.args):
            yield from _match_all(p.args, t.args, bindings, tests)


def _match_all(
    patterns: Sequence[Term], terms: Sequence[Term], bindings: Bindings, tests: Demands
) -> Iterator[Bindings]:
    if not patterns:
        yield bindings
        return
    for new in _match(patterns[0], terms[0], bindings, tests):
        yield from _match_all(patterns[1:], terms[1:], new, tests)


def _match_fold(p: Term, t: Term, bindings: Bindings, tests: Demands) -> Iterator[Bindings]:
    if t.op != p.op or t.attr.monoid != p.attr.monoid:
        return
    if t.attr.monoid in ("max", "min") and t.kind == "int" and not T.has_element(t):
        return  # the largest of no ints is none of the numbers that laws are about
    (index,) = p.attr.extents
    if index not in bindings.folds:
        opened, parts = T.open_fold(t)
        folds = {**bindings.folds, index: (opened, t)}
        bindings = Bindings(bindings.terms, folds, bindings.remainder)
    else:
        opened, fold = bindings.folds[index]
        names = [i.name for i in opened]
        if t.attr.extents != fold.attr.extents or not t.free.isdisjoint(names):
            return
        _, parts = T.open_as(t, names)
    yield from _match_all(_parts(p), parts, bindings, tests)


@lru_cache(maxsize=16384)
def parts_of(op: str, t: Term) -> tuple[Term, ...]:
    """Return addends, conjuncts or factors, of which exp(a + b) is two."""
    match op:
        case "add":
            return addends(t)
        case "and":
            return T.conjuncts(t)
    parts: list[Term] = []
    for f in factors(t):
        if f.op == "const" and f.attr < 0:
            parts += [T.const(-1, f.kind), T.neg(f)]
        elif f.op == "exp" and f.args[0].op == "add":
            parts += (T.inert("exp", a) for a in f.args[0].args)  # also of a logarithm
        else:
            parts.append(f)
    return tuple(f for f in parts if f is not T.const(1, f.kind))


def _joined(op: str, t: Term, parts: Sequence[Term]) -> Term:
    """Join parts of t, addends of one exponent first: beside a mask that is rounded."""
    match op:
        case "add":
            return T.add(*parts) if parts else T.const(0, t.kind)
        case "and":
            return T.conjunction(*parts)
    left = list(parts)
    weights: list[Term] = []
    for f in (f for f in factors(t) if f.op == "exp"):
        own = [p for p in left if p.op == "exp" and p.args[0] in addends(f.args[0])]
        if own:
            weights.append(T.inert("exp", T.add(*(p.args[0] for p in own))))
            left = [p for p in left if p not in own]
    return T.mul(*weights, *left) if parts else T.const(1, t.kind)


def _match_parts(
    p: Term, t: Term, bindings: Bindings, tests: Demands, whole: bool = False
) -> Iterator[Bindings]:
    """Match a sum, product or conjunction. Fixed parts come first, then bound variables, then those
    of which something is needed."""
    ordered = [a for a in p.args if a.op != "read"]
    variables = [a for a in p.args if a.op == "read"]
    if len(variables) > 1:
        variables.sort(key=lambda a: (variable(a) not in bindings.terms, variable(a) not in tests))
    ordered += variables
    yield from _match_ordered(p.op, t, ordered, list(parts_of(p.op, t)), bindings, tests, whole)


def _match_ordered(
    op: str,
    t: Term,
    patterns: Sequence[Term],
    parts: list[Term],
    bindings: Bindings,
    tests: Demands,
    whole: bool,
) -> Iterator[Bindings]:
    if not patterns:
        if not parts:
            yield bindings
        elif whole:
            yield Bindings(bindings.terms, bindings.folds, (_joined(op, t, parts),))
        return
    first, *others = patterns

    def go_on(new: Bindings, left: list[Term]) -> Iterator[Bindings]:
        yield from _match_ordered(op, t, others, left, new, tests, whole)

    if first.op != "read":
        for n, part in enumerate(parts):
            is_alike = part.op == first.op or first.op == "mul"  # of which the others may be 1
            for new in _match(first, part, bindings, tests) if is_alike else ():
                yield from go_on(new, parts[:n] + parts[n + 1 :])
    elif (name := variable(first)) in bindings.terms:
        left = list(parts)
        for part in parts_of(op, bindings.terms[name]):
            if part not in left:
                return
            left.remove(part)
        yield from go_on(bindings, left)
    elif name in tests:
        choices = [*tests[name].choices(name, parts, bindings)]
        is_unit = op == "and" or not parts  # no conjunct need meet it; and no part may be left
        if not choices and is_unit and tests[name].is_met(name, _joined(op, t, []), bindings):
            choices = [[]]
        for taken in choices:
            left = [x for x in parts if x not in taken]
            yield from go_on(bindings.with_term(name, _joined(op, t, taken)), left)
    elif not others:
        yield bindings.with_term(name, _joined(op, t, parts))
    else:
        for n, part in enumerate(parts):
            yield from go_on(bindings.with_term(name, part), parts[:n] + parts[n + 1 :])


def instance(p: Term, bindings: Bindings) -> Term:
    """Return the term that a pattern is with what was found."""
    match p.op:
        case "read":
            return bindings.terms[variable(p)]
        case "fold" | "fold_at":
            opened, fold = bindings.folds[p.attr.extents[0]]
            condition, *bodies = (instance(a, bindings) for a in _parts(p))
            monoid, position = p.attr.monoid, fold.args[0]
            if p.op == "fold":
                return T.fold(monoid, opened, condition, *bodies)
            return T.fold_at(monoid, position, *opened, condition, *bodies, target=fold.attr.target)
        case "extent" if p.attr in bindings.folds:
            opened, _ = bindings.folds[p.attr]
            return T.mul(*(T.extent_of(i.extent) for i in opened))
    return T.rebuild(p, tuple(instance(a, bindings) for a in p.args))
