"""The changes of a step: where equations differ, as paths from their roots.

A path tells which operand to take, from the root on; below a fold the operands are its condition
and its bodies, with its bound indices under names of their own. The paths are found by comparing
both terms: whatever stands around a change is the same on both sides, up to the order of sums and
products.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.terms import Term
from monocomp.terms.equations import Equations

_UNORDERED = ("add", "mul", "and", "or", "maximum", "minimum")


@record()
class Change:
    """A place where two equations of a name differ.

    Attributes:
        name: the equation's.
        path: to what was replaced; None if the equation is new.
        new_path: to what replaced it; None if the equation is gone.
    """

    name: str
    path: tuple[int, ...] | None
    new_path: tuple[int, ...] | None

    def to_json(self) -> dict[str, object]:
        """Return the change as plain data."""
        old, new = (None if p is None else list(p) for p in (self.path, self.new_path))
        return {"name": self.name, "path": old, "new_path": new}


def changes(before: Equations, after: Equations) -> tuple[Change, ...]:
    """Return where two programs differ, in the order of their equations."""
    names = dict.fromkeys([*before.by_name, *after.by_name])
    pairs: list[Change] = []
    for name in names:
        old, new = before.by_name.get(name), after.by_name.get(name)
        if old is None or new is None:
            pairs.append(Change(name, None if old is None else (), None if new is None else ()))
        else:
            paths = _differences(old.body, new.body, (), ())
            pairs += [Change(name, path, new_path) for path, new_path in paths]
    return tuple(pairs)


def operands(t: Term, depth: int) -> tuple[Term, ...]:
    """Return the operands of a term that stands at a depth: the steps of paths."""
    if t.op not in ("fold", "fold_at"):
        return t.args
    names = [f"@{depth}.{n}" for n in range(len(t.attr.indices))]
    place = t.args[:1] if t.op == "fold_at" else ()
    return (*place, *T.open_as(t, names)[1])


def at(root: Term, path: tuple[int, ...]) -> Term:
    """Return the term at a path."""
    for depth, n in enumerate(path):
        root = operands(root, depth)[n]
    return root


def find(root: Term, t: Term) -> tuple[int, ...] | None:
    """Return the path to a term, whatever its indices are called; None where it does not stand."""
    wanted, seen = T.unnamed(t), set[Term]()
    waiting: list[tuple[Term, tuple[int, ...]]] = [(root, ())]
    while waiting:
        part, path = waiting.pop()
        if T.unnamed(part) is wanted:
            return path
        if part not in seen:
            seen.add(part)
            waiting += [(x, (*path, n)) for n, x in enumerate(operands(part, len(path)))]
    return None


def _differences(
    old: Term, new: Term, path: tuple[int, ...], new_path: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    if old is new:
        return
    pairs = _pairs(old, new, len(path))
    if pairs is None:
        yield path, new_path
        return
    for m, n in pairs:
        x, y = operands(old, len(path))[m], operands(new, len(path))[n]
        yield from _differences(x, y, (*path, m), (*new_path, n))


def _pairs(old: Term, new: Term, depth: int) -> list[tuple[int, int]] | None:
    """Return the numbers of the operands that differ, if nothing else in the terms does."""
    if old.op != new.op or old.kind != new.kind or not old.args or not _is_same_node(old, new):
        return None
    ours, theirs = operands(old, depth), operands(new, depth)
    if old.op in _UNORDERED:
        left = [n for n, t in enumerate(ours) if t not in theirs]
        right = [n for n, t in enumerate(theirs) if t not in ours]
        # More than one that differ are one change: none knows which belong together.
        return [(left[0], right[0])] if len(left) == len(right) == 1 else None
    if len(ours) != len(theirs):
        return None
    both = zip_longest(ours, theirs)
    return [(n, n) for n, (x, y) in enumerate(both) if x is not y] or None


def _is_same_node(old: Term, new: Term) -> bool:
    if old.op not in ("fold", "fold_at"):
        return bool(old.attr == new.attr)
    x, y = old.attr, new.attr
    return (x.monoid, x.extents, x.target) == (y.monoid, y.extents, y.target)
