"""Walks over terms: operands with binders opened, every subterm, replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from monocomp.terms.binders import open_fold
from monocomp.terms.constructors import rebuild
from monocomp.terms.folds import fold_at, refold, substitute
from monocomp.terms.leaves import index, ref, stored
from monocomp.terms.nodes import Equation, Term


def map_children(t: Term, f: Callable[[Term], Term]) -> Term:
    """Apply f to the operands; below a binder to the opened parts."""
    if not t.args:
        return t
    if t.op == "fold":
        opened, parts = open_fold(t)
        new = tuple(map(f, parts))
        return t if new == parts else refold(t, *new, opened=opened)
    if t.op == "fold_at":
        opened, parts = open_fold(t)
        position, new = f(t.args[0]), tuple(map(f, parts))
        if new == parts and position is t.args[0]:
            return t
        return fold_at(t.attr.monoid, position, opened[0], *new, target=t.attr.target)
    return rebuild(t, tuple(map(f, t.args)))


def children(t: Term) -> tuple[Term, ...]:
    """Return the operands; below a binder the opened parts."""
    if t.op == "fold":
        return open_fold(t)[1]
    if t.op == "fold_at":
        return (t.args[0], *open_fold(t)[1])
    return t.args


def subterms(*roots: Term) -> Iterable[Term]:
    """Return every subterm once, operands before the terms that hold them."""
    if len(roots) == 1:
        return _subterms(roots[0])
    return dict.fromkeys(s for t in roots for s in _subterms(t))


@lru_cache(maxsize=4096)
def _subterms(t: Term) -> tuple[Term, ...]:
    found: dict[Term, None] = {}
    _visit(t, found)
    return tuple(found)


def _visit(t: Term, found: dict[Term, None]) -> None:
    for a in children(t):
        if a not in found:
            if a.args:
                _visit(a, found)
            else:
                found[a] = None
    found[t] = None


@lru_cache(maxsize=1024)
def _all_subterms(t: Term) -> frozenset[Term]:
    return frozenset(subterms(t))


def holds(t: Term, part: Term) -> bool:
    """True if `part` is a subterm of t. The subterms of t are kept for further calls."""
    return part in _all_subterms(t)


def holds_fold(t: Term) -> bool:
    """True if t holds a fold, other than those that other kernels compute."""
    return bool(t.folded) and any(s.op == "fold" for s in subterms(t))


def transform(
    t: Term, f: Callable[[Term], Term | None], memo: dict[Term, Term] | None = None
) -> Term:
    """Replace the outermost subterms for which f returns a term, below binders in opened form.

    `memo` keeps results for further calls with the same f.
    """
    known = {} if memo is None else memo

    def visit(t: Term) -> Term:
        new = known.get(t)
        if new is None:
            new = f(t)
            new = known[t] = map_children(t, visit) if new is None else new
        return new

    return visit(t)


def replace(t: Term, old: Term, new: Term, memo: dict[Term, Term] | None = None) -> Term:
    """Replace every occurrence of a subterm, also below binders (in opened form)."""
    return transform(t, lambda a: new if a is old else None, memo)


def map_refs(
    t: Term, names: frozenset[str], f: Callable[[Term], Term], memo: dict[Term, Term]
) -> Term:
    """Apply f to the elements of definitions with these names, in their subscripts first."""

    def visit(a: Term) -> Term | None:
        if a.names.isdisjoint(names):
            return a
        if a.op != "ref" or a.attr not in names:
            return None
        return f(ref(a.attr, (map_refs(s, names, f, memo) for s in a.args), a.kind))

    return transform(t, visit, memo)


def map_stored(t: Term, instead: Mapping[Equation, Equation], memo: dict[Term, Term]) -> Term:
    """Read the elements of other equations instead, which say the same."""

    def visit(a: Term) -> Term | None:
        if a.op != "stored" or a.attr not in instead:
            return None
        return stored(instead[a.attr], (map_stored(s, instead, memo) for s in a.args))

    return transform(t, visit, memo)


def element(e: Equation, subscripts: Sequence[Term]) -> Term:
    """Return the right-hand side of an equation at subscripts."""
    names = (i.attr[0] for i in e.indices)
    return substitute(e.body, dict(zip(names, subscripts, strict=True)))


@lru_cache(maxsize=8192)
def free_indices(t: Term) -> tuple[Term, ...]:
    """Return the free indices, sorted by name."""
    if t.op == "index":
        return (t,)
    found = {i for a in children(t) for i in free_indices(a) if i.attr[0] in t.free}
    return tuple(sorted(found, key=lambda i: i.attr))


@lru_cache(maxsize=16384)
def unnamed(t: Term) -> Term:
    """Rename the free indices of a term by their extents alone: terms of two outputs, or within
    two folds, become the same."""
    mapping: dict[str, Term] = {}
    count: dict[str, int] = {}
    for name, extent in (i.attr for i in free_indices(t)):
        count[extent] = count.get(extent, 0) + 1
        mapping[name] = index(f"@{extent}{count[extent]}", extent)
    return substitute(t, mapping)
