"""Bound indices: folds bind them under canonical names, and are opened under free ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from operator import attrgetter

from monocomp.terms.constructors import Results, rebuild
from monocomp.terms.leaves import index
from monocomp.terms.nodes import Binder, Term, UserMonoid, intern


def close(
    monoid: str | UserMonoid,
    opened: tuple[Term, ...],
    parts: tuple[Term, ...],
    target: str | None,
) -> tuple[Binder, tuple[Term, ...]]:
    """Return the binder of a fold over opened indices, and its parts under canonical names."""
    height = max(t.height for t in parts)
    names = {t.name: f"%{height + n + 1}" for n, t in enumerate(opened)}
    extents = tuple(t.extent for t in opened)
    mapping = {t.name: index(names[t.name], t.extent) for t in opened}
    closed = rename_all(parts, mapping)
    return Binder(monoid, tuple(names.values()), extents, target), closed


@lru_cache(maxsize=16384)
def open_fold(t: Term) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Return the bound indices of a fold under free names, and its condition and bodies with them.

    The names depend on the term alone, so that equal folds open to equal parts.
    """
    count = len(t.attr.indices)
    numbers = (n for n in itertools.count(t.height - count + 1) if f"${n}" not in t.free)
    return open_as(t, [f"${n}" for n in islice(numbers, count)])


def is_open(t: Term) -> bool:
    """True if t stands in a fold that `open_fold` has opened, and varies with its index."""
    return any(name.startswith("$") for name in t.free)


def open_as(t: Term, names: Iterable[str]) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Open a fold like `open_fold`, under names of the caller's choice that are not free in t."""
    binder: Binder = t.attr
    opened = tuple(index(n, e) for n, e in zip(names, binder.extents, strict=True))
    mapping = dict(zip(binder.indices, opened, strict=True))
    parts = t.args if t.op == "fold" else t.args[1:]
    return opened, rename_all(parts, mapping)


@lru_cache(maxsize=16384)
def domain_of(t: Term) -> tuple[tuple[str, ...], Term]:
    """Return the extents and the filter of a fold, the same for all folds over one domain."""
    names = tuple(f"@{n}" for n in range(len(t.attr.indices)))
    return t.attr.extents, open_as(t, names)[1][0]


@lru_cache(maxsize=16384)
def free_indices(t: Term) -> tuple[Term, ...]:
    """Return the free indices, sorted by name."""
    if t.op == "index":
        return (t,)
    indices = {i for a in t.args for i in free_indices(a) if i.name in t.free}
    return tuple(sorted(indices, key=lambda i: i.attr))


def rename(t: Term, mapping: Mapping[str, Term]) -> Term:
    """Rename free indices. Never captures: bound names are numbers, given ones are not,
    or are larger than any number inside."""
    return rename_all((t,), mapping)[0]


def rename_all(parts: tuple[Term, ...], mapping: Mapping[str, Term]) -> tuple[Term, ...]:
    """Rename free indices of several terms, such as the parts of a fold."""
    return _rename_all(parts, tuple(mapping.items()))


# Operations whose canonical form depends on names at most by the order of their operands.
_SORTED = ("add", "mul")
_AS_THEY_ARE = ("exp", "log", "read", "stored", "ref", "cast", "where", "fold", "fold_at", "field")


@lru_cache(maxsize=65536)
def _rename_all(parts: tuple[Term, ...], pairs: tuple[tuple[str, Term], ...]) -> tuple[Term, ...]:
    mapping = dict(pairs)
    names = {new.name for new in mapping.values() if new.op == "index"}
    # Different terms stay different: nothing cancels, and no sum or product is made anew.
    is_injective = len(names) == len(mapping) and all(names.isdisjoint(t.free) for t in parts)

    def rename(t: Term, results: Results) -> Term:
        if t.free.isdisjoint(mapping):
            return t
        if t.op == "index":
            return mapping[t.name]
        args = tuple([results[a] for a in t.args])
        if is_injective and t.op in _SORTED:
            return intern(t.op, _in_order(args), t.attr, t.kind)
        if is_injective and t.op in _AS_THEY_ARE:
            return intern(t.op, args, t.attr, t.kind)
        return rebuild(t, args)

    results = Results(rename)
    return tuple([results[t] for t in parts])


def _in_order(args: tuple[Term, ...]) -> tuple[Term, ...]:
    """Sort the operands of a sum or product, whose number stands first or last."""
    first = args[:1] if args[0].op == "const" else ()
    last = args[-1:] if args[-1].op == "const" else ()
    rest = args[len(first) : len(args) - len(last)]
    return (*first, *sorted(rest, key=_key), *last)


_key = attrgetter("key")
