"""Nests: which loops run over blocks, and which over one value at a time.

A tile has two long axes at most: three would take all registers of a program instance and
more. A product of matrices keeps to that by itself. Elsewhere the innermost loop goes one
value at a time, or, where it would carry tiles of three axes then, the loop around it does. So
does a loop that adds up what is no product along rows and an axis that is held entirely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monocomp import terms as T
from monocomp.extents.domain import split
from monocomp.extents.prefixes import start_of, walk_along
from monocomp.lowering.scopes import Scopes
from monocomp.rewrites.products import apart, largest_sides
from monocomp.rewrites.pullback import Pass, held_folds
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR, is_selection
from monocomp.terms.equations import Equation
from monocomp.terms.monomials import factors
from monocomp.tile import Axis, Role

_MOST_AXES = 2


def loop_role(at: Scopes, group: Pass) -> Role:
    """Blocks, or one value at a time."""
    if any(map(is_selection, group.folds)):
        return "stream"
    if any(s.axis is not None and at.axes[s.axis].role == "stream" for s in at.scopes):
        one_by_one = at.is_short(group.extent) or any(_is_wide(at, f) for f in group.folds)
    else:
        one_by_one = any(_carries_too_much(at, f) or _adds_too_much(at, f) for f in group.folds)
    return "serial" if one_by_one else "stream"


def sides_of(at: Scopes, body: Term, axis: str) -> list[Term]:
    """Return the factors of a body, multiplied into one or two terms, such that the sum over the
    axis of their product is a product of matrices: each side has an axis that the other lacks.
    What fits both belongs to the one that is known further outside, or else to one that is
    computed in any case: a tile that is only read is multiplied as it is."""
    axes = {f: at.tile_axes(f) for f in factors(body)}
    sides = largest_sides(list(axes.values()), axis)
    if sides is None:
        return [body]

    def rank(side: frozenset[str]) -> tuple[int, bool]:
        """The lower it is, the less it costs to multiply a side by something more."""
        own = [f for f, a in axes.items() if a - {axis} == side]
        return at.depth_of(side), len(own) == 1 and T.is_read(own[0])

    first, second = sorted(sides, key=lambda a: (-len(a), sorted(a)))
    cheap = second if rank(second) < rank(first) else first
    taken = [f for f, a in axes.items() if a - {axis} <= cheap]
    rest = [f for f in axes if f not in taken]
    both = [T.mul(*taken), T.mul(*rest)]
    return both if cheap is first else both[::-1]


def _carries_too_much(at: Scopes, f: Term) -> bool:
    """True if blocks of this loop would make a long loop inside it carry tiles of three axes, or
    make tiles of three axes in each of its steps, or a product of matrices for each of its values
    at once."""
    (bound, *_), parts = T.open_fold(f)
    name = bound.name
    inner = [g for g in T.subterms(*parts) if g.op == "fold" and name in g.free]
    loop, axes = walk_along(bound, parts[0], parts), at.output_axes()
    roles = {name: axis.role for name, axis in axes.items()}
    inner = [g for g in inner if start_of(g, loop, roles) is None]
    wide = [g for g in inner if len(_axes_of_state(at, g)) > _MOST_AXES]
    is_carried = any(not at.fits(g.attr.extents[0]) and _is_wide(at, g) for g in wide)
    return is_carried or any(_is_batched(at, g, name) for g in wide)


def _adds_too_much(at: Scopes, f: Term) -> bool:
    """True if blocks of this loop would be tiles of three axes, of rows and of one that is held
    entirely, that are computed and added up, and are no product of matrices. One value at a time is
    as much work on tiles of two axes, but reads columns one by one, and masks none together."""
    (bound, *_), (condition, element, *_) = T.open_fold(f)
    if f.attr.monoid not in ("sum", SE_PAIR) or split(bound, condition).mask is not T.TRUE:
        return False
    reads = [t for t in T.subterms(element) if t.op in T.READS and bound.name in t.free]
    if any(_is_read_in_blocks(at, t, bound.name) for t in reads):
        return False
    addends = apart(element, bound.name, at.tile_axes)
    tiles = [at.tile_axes(side) for a in addends for side in sides_of(at, a, bound.name)]
    held = [{at.axes[n].role for n in t & at.axes.keys()} for t in tiles if bound.name in t]
    return any({"row", "whole"} <= roles for roles in held)


def _is_read_in_blocks(at: Scopes, t: Term, name: str) -> bool:
    """True if elements are read better for several values of an index at once: it is the position
    in rows of a tile, or the tile that is read has three axes itself."""
    count = len(at.tile_axes(t))
    return count > _MOST_AXES or (count > 1 and name in t.args[-1].free)


def _is_batched(at: Scopes, f: Term, name: str) -> bool:
    """True if this is a product of matrices that both vary with the index of a loop around it."""
    (bound, *others), (_, element, *_) = T.open_fold(f)
    is_sum = f.attr.monoid == "sum" and f.kind == "float" and not others
    sides = sides_of(at, element, bound.name)
    return is_sum and len(sides) == 2 and all(name in s.free for s in sides)


def _axes_of_state(at: Scopes, f: Term) -> frozenset[str]:
    opened, parts = T.open_fold(f)
    axes: frozenset[str] = frozenset().union(*map(at.tile_axes, parts[1:]))
    return axes - {i.name for i in opened}


def _is_wide(at: Scopes, f: Term) -> bool:
    """True if a block of the fold's index would take part in a tile of three long axes."""
    opened, parts = T.open_fold(f)
    tiles: Sequence[Term] = parts[1:]
    if f.attr.monoid == "sum":
        tiles = sides_of(at, parts[1], opened[0].name)
    return any(len(_long_axes(at, t)) > _MOST_AXES for t in tiles)


def _long_axes(at: Scopes, t: Term) -> frozenset[str]:
    """Return the axes of a term's tile that are cut into blocks, those of loops not yet built
    included."""
    known = at.axes
    return frozenset(
        n for n in at.tile_axes(t) if n not in known or known[n].role in ("row", "stream")
    )


def held_by(group: Sequence[Equation], axes: Mapping[str, Axis]) -> dict[Term, str]:
    """Return the folds of what loops leave along an axis that is held whole, with that axis."""
    indices = dict.fromkeys(i for e in group for i in e.indices)
    whole = [i for i in indices if axes[i.name].role == "whole"]
    return held_folds([e.body for e in group], whole)
