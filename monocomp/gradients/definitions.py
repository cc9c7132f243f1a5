"""Names for what several gradients share, as a person would give them.

    dQ[q,d] = sum[k](P[q,k] * (T[q,k] - D[q]) * K[k,d])        G[q,k] = P[q,k] * (T[q,k] - D[q])
    dK[k,d] = sum[q](P[q,k] * (T[q,k] - D[q]) * Q[q,d])        dQ[q,d] = sum[k](G[q,k] * K[k,d]) ...

Only the text gets shorter by them: rewrites see through definitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from monocomp import terms as T
from monocomp.gradients.reverse import LEAVES
from monocomp.terms import Term
from monocomp.terms.abbreviation import Abbreviation
from monocomp.terms.equations import Equation
from monocomp.terms.monomials import addends, factors

_LONG = 1000  # terms of a program whose repeated parts get names
_PLAIN = ("const", "read", "ref", "stored", "param", "extent", "index", "cast")


def with_definitions(
    terms: Sequence[Term], fresh: Callable[[str], str], order: Callable[[Term], Any]
) -> tuple[list[Term], list[Equation]]:
    """Return the terms with names for the products that they share, and what these stand for;
    `order` is that of the names of indices."""
    found = list(terms)
    definitions: list[Equation] = []
    while (shared := _shared([*found, *(e.body for e in definitions)])) is not None:
        product = T.mul(T.ONE, *shared)
        indices = tuple(sorted(T.free_indices(product), key=order))
        letter = "P" if product.op == "exp" else "G"
        equation = Equation(fresh(letter), indices, product)
        name = T.ref(equation.name, indices, "float")
        found = [_naming(t, shared, name) for t in found]
        definitions = [
            Equation(e.name, e.indices, _naming(e.body, shared, name)) for e in definitions
        ]
        definitions.insert(0, equation)
    return found, definitions


def with_names(
    equations: Sequence[Equation], known: Iterable[Abbreviation]
) -> tuple[list[Equation], list[Equation]]:
    """Return the equations with the names that the program has for parts of them, and the
    definitions of these that they need."""
    found = list(equations)
    needed: list[Equation] = []
    for a in known:
        positions = (a.subscripts(t) for t in T.subterms(*(e.body for e in found)) if a.body.folded)
        named = (p for p in positions if p is not None and all(map(_has_name, p)))
        if (indices := next(named, None)) is not None:
            here = {i.name: at for i, at in zip(a.indices, indices, strict=True)}
            named_in = _abbreviating(a)
            found = [replace(e, body=named_in(e.body)) for e in found]
            needed.insert(0, Equation(a.name, tuple(indices), T.substitute(a.body, here)))
    return found, needed


def with_parts(
    equations: Sequence[Equation], fresh: Callable[[str], str], order: Callable[[Term], Any]
) -> list[Equation]:
    """Return the equations of a long program with names for the aggregates and choices that are
    written more than once, or other terms, each before the first equation that reads it."""
    found = list(equations)
    sizes = _sizes(found)
    if sum(sizes[e.body] for e in found) <= _LONG:
        return found
    while (part := _repeated(found)) is not None:
        indices = tuple(sorted(T.free_indices(part), key=order))
        equation = Equation(fresh("T"), indices, part)
        name = T.ref(equation.name, indices, part.kind)
        bodies = list(map(T.replacing(part, name), (e.body for e in found)))
        first = next(n for n, e in enumerate(found) if bodies[n] is not e.body)
        found = [replace(e, body=b) for e, b in zip(found, bodies, strict=True)]
        found.insert(first, equation)
    return found


def _sizes(equations: Iterable[Equation]) -> dict[Term, int]:
    """Return the number of terms that each term is, as it is written; operands come first."""
    found: dict[Term, int] = {}
    for t in T.subterms(*(e.body for e in equations)):
        found[t] = 1 + sum(found[a] for a in T.children(t))
    return found


def _repeated(equations: Sequence[Equation]) -> Term | None:
    """Return the largest aggregate or choice with an aggregate that stands in two positions, or
    in a long program the largest term."""
    sizes = _sizes(equations)
    times = Counter(e.body for e in equations)
    for t in reversed(sizes):
        for a in T.children(t):
            times[a] += times[t]
    parts = [t for t in sizes if times[t] > 1 and _is_part(t)]
    large = [t for t in parts if t.folded and t.op in ("fold", "field", "where")]
    if not large and sum(sizes[e.body] for e in equations) > _LONG:
        large = parts
    return max(large, key=lambda t: sizes[t], default=None)


def _is_part(t: Term) -> bool:
    """True if a term is a number that may get a name. An aggregate in a user's monoid is none, but
    its fields are."""
    is_number = t.kind == "float" and t.op not in _PLAIN
    has_fields = t.op in ("fold", "fold_at") and not isinstance(t.attr.monoid, str)
    return is_number and not has_fields and all(map(str.isidentifier, t.free))


def _has_name(i: Term) -> bool:
    return i.op == "index" and str(i.name).isidentifier()


def _abbreviating(a: Abbreviation) -> Callable[[Term], Term]:
    """Return the function that puts the name of an abbreviation for the terms that it equals."""

    def name(part: Term) -> Term | None:
        subscripts = a.subscripts(part)
        return None if subscripts is None else T.ref(a.name, subscripts, part.kind)

    return T.transform(name)


def _shared(terms: Sequence[Term]) -> frozenset[Term] | None:
    """Return the most factors that two of the addends of terms have in common, beyond what is
    plain."""
    products = [factors(a) for t in dict.fromkeys(terms) for a in addends(t)]
    every = sorted({f for p in products for f in p}, key=lambda f: f.key, reverse=True)
    bits = {f: 1 << n for n, f in enumerate(every)}  # products are numbers, as there may be many
    computed = sum(bits[f] for f in every if f.op not in _PLAIN)
    best = 0
    for one, other in combinations([sum({bits[f] for f in p}) for p in products], 2):
        common = one & other
        if common & computed and _outranks(common, best, computed):
            best = common
    found = frozenset(f for f in every if bits[f] & best)
    named = frozenset(f for f in found if not _is_column(f, found))
    return named if _is_worth_a_name(named) else None


def _is_column(f: Term, product: frozenset[Term]) -> bool:
    """True if a factor is plain and has an index that no computed factor has."""
    return f.op in _PLAIN and not f.free <= frozenset().union(
        *(g.free for g in product if g.op not in _PLAIN)
    )


def _outranks(a: int, b: int, computed: int) -> bool:
    """True if product `a` has more computed factors than `b`, or as many and is later in the order
    of words whose letters are factors. The highest bit is the first letter of the alphabet."""
    more = (a & computed).bit_count() - (b & computed).bit_count()
    if more or a == b:
        return more > 0
    first = 1 << (a ^ b).bit_length() - 1
    return a & (first - 1) > 0 if b & first else b & (first - 1) == 0


def _is_worth_a_name(product: frozenset[Term]) -> bool:
    return any(f.op not in _PLAIN and f.folded for f in product)


def _naming(t: Term, product: frozenset[Term], name: Term) -> Term:
    """Return a term with a name for the product of factors in the addends that have them all.

    Their product need not have them as its factors: a number is multiplied into a sum.
    """
    parts = []
    for a in addends(t):
        if product.issubset(factors(a)):
            a = T.mul(name, *(f for f in factors(a) if f not in product))
        parts.append(a)
    return T.add(T.ZERO, *parts)


def names_needed(
    found: Iterable[Equation], given: Mapping[str, Equation], defined: Mapping[str, Equation]
) -> tuple[set[str], set[str]]:
    """Return the names of the inputs and of the definitions that equations need."""
    read: set[str] = set()
    names: set[str] = set()
    waiting = list(found)
    while waiting:
        for t in T.subterms(waiting.pop().body):
            if t.op in LEAVES and (name := T.name_of(t)) not in read | names:
                known = given if t.op == "stored" else defined if t.op == "ref" else {}
                (names if t.op == "ref" else read).add(name)
                waiting += [known[name]] if name in known else []
    return read, names


def extents_of(equations: Iterable[Equation]) -> dict[str, str]:
    """Return the extents of the indices that equations name."""
    bodies = (s for e in equations for s in T.subterms(e.body) if s.op == "index")
    own = (i for e in equations for i in e.indices)
    return {i.name: i.extent for i in (*own, *bodies) if i.name.isidentifier()}
