"""Pullback and fusion: which folds are carried by one pass.

Two folds over the same domain are one fold of pairs, so they share a loop. Two folds in
SE whose exponents have the same frame share it: the pullback of SE(V) and SE(W) over the
frame is SE(V + W), with one maximum, one rescaling, all mantissas. A fold that needs
another's result comes a pass later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from monocomp import terms as T
from monocomp.rewrites.centred import Centred, centred
from monocomp.rewrites.frames import largest
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR, carrier

_OF_TILES = ("sum", "max", "min", "prod", SE_PAIR)  # folds that reduce a tile


@dataclass
class Pass:
    """One loop over a domain, and the folds that it carries.

    Attributes:
        extent: the extent of the streamed index.
        level: 0 for folds that need no earlier pass, else one more than what they need.
        folds: the folds, in a fixed order.
    """

    extent: str
    level: int
    folds: list[Term] = field(default_factory=list)


def passes(
    terms: Iterable[Term], is_streamed: Callable[[Term], bool], held: Mapping[Term, str]
) -> list[Pass]:
    """Return the loops that the terms need, earlier ones first.

    Law: fold(f) x fold(g) = fold(f x g) over one domain; SE(V) x_R SE(W) = SE(V + W).
    `is_streamed` tells the folds and selections that are loops of the current scope from all
    other terms. Those that are `held` are of tiles, along an axis by this name.
    """
    levels: dict[Term, int] = {}
    loops_by_domain: dict[tuple[Any, ...], Pass] = {}

    def level_of(t: Term) -> int:
        """Return the number of passes that must end before t is known."""
        if not t.folded:
            return 0
        t = carrier(t)
        known = levels.get(t)
        if known is not None:
            return known
        is_loop = t not in held and is_streamed(t)
        taken = None if t in held else centred(t)
        if taken is None:
            parts = T.open_as(t, (held[t],))[1] if t in held else T.children(t)
            deepest = max(map(level_of, parts), default=0)
        else:
            deepest = level_of_centred(taken)
        if is_loop:
            if t.attr.monoid is SE_PAIR:
                (bound,), (condition, _, exponent) = T.open_fold(t)
                level_of(largest(bound, condition, exponent))
            key = (deepest, *T.domain_of(t))
            loops_by_domain.setdefault(key, Pass(t.attr.extents[0], deepest)).folds.append(t)
            deepest += 1
        levels[t] = deepest
        return deepest

    def level_of_centred(taken: Centred) -> int:
        """A sum about a centre that moves needs no finished result: it comes with its centre."""
        weights = taken.weights
        parts = [weights.condition, weights.weight, *(u.distance for u in taken.every_unit)]
        if weights.exponent is not None and taken.exponent is None:
            parts.append(weights.exponent)
        level = max(map(level_of, parts))
        return max(level, *(level_of(f) - 1 for f in taken.companions()))

    for t in terms:
        level_of(t)
    loops = _joined(list(loops_by_domain.values()))
    for group in loops:
        _carry_centres(group)
        _sort(group)
    return sorted(loops, key=lambda p: (p.level, p.extent, p.folds[0].key))


def _carry_centres(group: Pass) -> None:
    """Add the folds that move sums with their centres, though they be known already."""
    for taken in filter(None, map(centred, list(group.folds))):
        if not taken.results().isdisjoint(group.folds):
            group.folds += taken.companions().difference(group.folds)


def _joined(loops: list[Pass]) -> list[Pass]:
    """Let a loop wait for the next one over its domain, where both compute the same elements, if
    nothing needs its results before."""
    loops = sorted(loops, key=lambda p: -p.level)
    for p in list(loops):
        domain = T.domain_of(p.folds[0])
        alike = [q for q in loops if q.level > p.level and T.domain_of(q.folds[0]) == domain]
        for q in alike[-1:]:
            between = [f for r in loops if p.level < r.level <= q.level for f in r.folds]
            needed = any(T.holds(g, f) for g in between for f in p.folds)
            shared = any(map(_computed, p.folds)) and all(
                any(not _computed(f).isdisjoint(_computed(g)) for g in q.folds) for f in p.folds
            )
            if shared and not needed:
                q.folds += p.folds
                loops.remove(p)
    return loops


def held_folds(terms: Iterable[Term], whole: Iterable[Term]) -> dict[Term, str]:
    """Return the folds of what loops leave along an axis that is held whole, with that axis.

    Such are the squares that norms of a result add up: `sum[i](O[q,i] ** 2)` beside `O[q,e]`, for
    a tile with all e. One that holds another is found after it.
    """
    indices, held = list(whole), dict[Term, str]()
    known = [t for t in T.subterms(*terms) if t.op == "fold" and not T.is_open(t)]
    for t in known:
        is_of_tile = t.attr.monoid in _OF_TILES and len(t.attr.indices) == 1
        for i in indices if is_of_tile else ():
            if i.extent != t.attr.extents[0] or i.name in t.free:
                continue
            _, parts = T.open_as(t, (i.name,))
            inner = [g for g in T.subterms(*parts) if g.op == "fold" and not T.is_open(g)]
            moving = [g for g in inner if i.name in g.free]
            if moving and all(g in known for g in moving):
                held[t] = i.name
                break
    return held


def _computed(f: Term) -> set[Term]:
    """Return the folds that are computed for each element of a fold."""
    _, parts = T.open_as(f, tuple(f"@{n}" for n in range(len(f.attr.indices))))
    return {g for g in T.subterms(*parts) if g.op == "fold" and "@0" in g.free}


def _sort(group: Pass) -> None:
    group.folds.sort(key=lambda f: (f.attr.monoid is SE_PAIR, f.key))
