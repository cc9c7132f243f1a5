"""Walks over terms: operands with binders opened, every subterm, replacement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from monocomp.terms.binders import free_indices, open_fold
from monocomp.terms.constructors import Results, rebuild
from monocomp.terms.folds import refold, substitute
from monocomp.terms.leaves import index, stored
from monocomp.terms.logic import equal_ints
from monocomp.terms.nodes import Equation, Term


def map_children(t: Term, f: Callable[[Term], Term]) -> Term:
    """Apply f to the operands; below a binder to the opened parts."""
    if not t.args:
        return t
    if t.op not in ("fold", "fold_at"):
        return rebuild(t, tuple(map(f, t.args)))
    opened, parts = open_fold(t)
    position = f(t.args[0]) if t.op == "fold_at" else None
    new = tuple(map(f, parts))
    if new == parts and position in (None, t.args[0]):
        return t
    return refold(t, *new, opened=opened, position=position)


def children(t: Term) -> tuple[Term, ...]:
    """Return the operands; below a binder the opened parts."""
    if t.op == "fold":
        return open_fold(t)[1]
    if t.op == "fold_at":
        return (t.args[0], *open_fold(t)[1])
    return t.args


def subterms(*roots: Term) -> tuple[Term, ...]:
    """Return every subterm once, operands before the terms that hold them."""
    return _subterms(roots)


@lru_cache(maxsize=8192)
def _subterms(roots: tuple[Term, ...]) -> tuple[Term, ...]:
    if len(roots) > 1:
        return tuple(dict.fromkeys(s for t in roots for s in _subterms((t,))))
    visited: dict[Term, None] = {}
    for t in roots:
        _visit(t, visited)
    return tuple(visited)


def _visit(t: Term, visited: dict[Term, None]) -> None:
    for a in children(t):
        if a not in visited:
            if a.args:
                _visit(a, visited)
            else:
                visited[a] = None
    visited[t] = None


@lru_cache(maxsize=1024)
def _all_subterms(t: Term) -> frozenset[Term]:
    return frozenset(subterms(t))


def holds(t: Term, part: Term) -> bool:
    """True if `part` is a subterm of t. The subterms of t are kept for further calls."""
    return part in _all_subterms(t)


def holds_fold(t: Term) -> bool:
    """True if t holds a fold, other than those that other kernels compute."""
    return bool(t.folded) and any(s.op == "fold" for s in subterms(t))


def transform(f: Callable[[Term], Term | None]) -> Callable[[Term], Term]:
    """Return the function that replaces the outermost subterms for which f returns a term, below
    binders in opened form. It keeps its results."""

    def change(t: Term, results: Results) -> Term:
        new = f(t)
        return map_children(t, results.__getitem__) if new is None else new

    return Results(change).__getitem__


def replacing(old: Term, new: Term) -> Callable[[Term], Term]:
    """Return the function that replaces every occurrence of a subterm."""
    return transform(lambda t: new if t is old else None)


def replace(t: Term, old: Term, new: Term) -> Term:
    """Replace every occurrence of a subterm, below binders in opened form."""
    return replacing(old, new)(t)


def with_equal(t: Term, condition: Term, indices: Collection[Term]) -> Term:
    """Return a term with some indices in place of what a condition equates with them."""
    for old, new in equal_ints(condition):
        t = replace(t, old, new) if new in indices else t
    return t


def mapping_refs(names: Iterable[str], f: Callable[[Term], Term]) -> Callable[[Term], Term]:
    """Return the function that applies f to the elements of definitions with these names, in their
    subscripts first."""
    mapped = frozenset(names)

    def change(t: Term, results: Results) -> Term:
        if t.names.isdisjoint(mapped):
            return t
        new = map_children(t, results.__getitem__)
        return f(new) if new.op == "ref" and new.attr in mapped else new

    return Results(change).__getitem__


def mapping_stored(instead: Mapping[Equation, Equation]) -> Callable[[Term], Term]:
    """Return the function that reads the elements of other equations, which say the same."""

    def change(t: Term, results: Results) -> Term:
        new = map_children(t, results.__getitem__)
        is_changed = new.op == "stored" and new.attr in instead
        return stored(instead[new.attr], new.args) if is_changed else new

    return Results(change).__getitem__


def element(e: Equation, subscripts: Sequence[Term]) -> Term:
    """Return the right-hand side of an equation at subscripts."""
    names = (i.name for i in e.indices)
    return substitute(e.body, dict(zip(names, subscripts, strict=True)))


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
