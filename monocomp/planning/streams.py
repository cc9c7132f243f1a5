"""Streams: which of them are cut into splits, and the rows that are packed.

A long stream is cut where too few program instances would fill a device, or where rows differ in
length and are too few to even that out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial

from monocomp import terms as T
from monocomp.costs.cost import ELEMENT_BYTES
from monocomp.costs.roles import choose_roles, fits_whole, scan_of, streamed_reads
from monocomp.declarations.record import record
from monocomp.extents.intervals import evaluated
from monocomp.extents.nominal import MIN_DOT, ROW_BLOCK, SHORT, power_of_two
from monocomp.machine.gpus import HOPPER
from monocomp.planning.lists import MANY_ROWS, uneven_row
from monocomp.planning.packing import FEW_ROWS, Rows, are_in_order, packed_rows
from monocomp.planning.stretches import Stretch, can_be_split, stretch
from monocomp.rewrites.products import largest_sides
from monocomp.rewrites.pullback import passes
from monocomp.rewrites.single_folds import opened_sum
from monocomp.terms import Term
from monocomp.terms.algebra import is_selection
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.monomials import factors
from monocomp.tile import Axis

# Elements of keys and values, of a usual length, that a processor reads while a kernel is launched:
# less is not worth a program instance of its own.
_READ = HOPPER.launch * HOPPER.bandwidth / HOPPER.processors / (2 * SHORT * ELEMENT_BYTES)
SHORTEST_SPLIT = power_of_two(round(_READ))
ROWS = HOPPER.direct_rows  # that a program instance takes, where there are enough


@record()
class Stream:
    """A long stream: whether it is cut, or only the rows that share it are packed.

    Attributes:
        folds: those over the stream.
        rows: to be packed, if that is worth it.
        stretch: the interval of the stream that filters leave.
        is_cut: whether it is cut; if not, the rows fill the device once they are packed.
        is_in_order: do packed rows lie as the outputs do?
        is_weighed: does cost decide, as tiles are made or left? Packed rows alone make tiles of
            products; idle processors are no reason to sum, by element, products of matrices.
        reason: why it is cut, if it is.
        share: the part of the processors that has work if it is not cut.
        is_of_products: is each element a product of matrices for itself?
        shortest: elements of a split; fewer are not worth a program instance.
        uneven: the index of rows that differ in length, if they have splits by their lengths.
    """

    folds: tuple[Term, ...]
    rows: Rows | None
    stretch: Stretch
    is_cut: bool
    is_in_order: bool
    is_weighed: bool
    reason: str
    share: float
    is_of_products: bool
    shortest: int
    uneven: Term | None


def long_stream(
    program: Equations,
    group: Sequence[Equation],
    sizes: Mapping[str, int],
    processors: int,
    divides: bool,
    narrow: Set[str],
) -> Stream | None:
    """Return the stream to cut: the longest one, if there is reason to and it can be."""
    loops = passes([e.body for e in group], partial(_is_loop, names=_names(group)), {})
    if not loops or scan_of(group) is not None:
        return None
    longest = max((p.extent for p in loops), key=sizes.__getitem__)
    folds = [f for p in loops if p.extent == longest for f in p.folds]
    if not can_be_split(folds):
        return None
    shorter = [f for p in loops if p.extent != longest for f in p.folds]
    if any(_holds_loop(f, longest) for f in shorter):
        return None  # it is streamed inside of another loop too
    roles = choose_roles(group, partial(fits_whole, sizes=sizes))
    if any(a.role == "stream" for a in roles.values()):
        return None  # an output along the stream takes all of it
    is_long = any(not fits_whole(e, sizes) for f in folds for e in f.folded - {longest})
    inside = set(T.subterms(*(e.body for e in group)))  # a frame may be in none
    folds = [f for f in folds if f in inside]
    rows = [T.index(a.name, a.extent) for a in roles.values() if a.role == "row"]
    packed = packed_rows(group, folds, sizes)
    inner = min(map(partial(_length_of_products, sizes=sizes), folds), default=0)
    shortest = max(1, SHORTEST_SPLIT // inner) if inner else SHORTEST_SPLIT
    if sizes[longest] < 2 * shortest and (rows or packed is None):
        return None
    varying = rows if packed is None else [*rows, *(i for i, _ in packed.parts)]
    value = partial(evaluated, extents=sizes, params=_defaults(program))
    interval = stretch(folds, {i.name: _block(i, sizes) for i in varying}, value, shortest)
    few = max((sizes[i.extent] for i in rows), default=1) <= FEW_ROWS
    together = packed if few else None
    instances = _instances(roles.values(), together, sizes, ROW_BLOCK if is_long else ROWS)
    length = interval.expected(value)
    uneven = uneven_row(interval, _repeated(roles, sizes), length, shortest) if few else None
    # Conversions take more of a warp than products do. Where rows fill one tile of a product,
    # several warps would share its columns, and wait for each other at each block.
    is_tile = together is not None and _length(together, sizes) <= MIN_DOT
    of_warps = is_tile and _are_converted(program, folds, narrow)
    places = processors * (HOPPER.converting if of_warps else 1)
    most = places // 2 if uneven is None else MANY_ROWS * processors
    is_idle = instances <= most and length >= 2 * shortest
    each = f"program instances{' of a warp' if of_warps else ''}"
    reason = f"as there would be {instances} {each} for {processors} processors"
    is_cut, is_in_order = is_idle, False
    if packed is not None and few:
        is_in_order = divides and are_in_order(group, packed)
        is_cut = is_idle or not (is_in_order or not rows)
    elif not is_idle:
        return None
    return Stream(
        tuple(folds),
        packed,
        interval,
        is_cut,
        is_in_order,
        is_weighed=inner > 0 if is_cut else not rows,
        reason=reason if is_idle else "as its packed rows do not lie as the outputs do",
        share=min(1.0, instances / places) if is_cut else 1.0,
        is_of_products=inner > 0,
        shortest=shortest,
        uneven=uneven,
    )


def _repeated(roles: Mapping[str, Axis], sizes: Mapping[str, int]) -> list[Term]:
    """Return the indices of the grid that have several positions."""
    axes = (a for a in roles.values() if a.role == "grid" and sizes[a.extent] > 1)
    return [T.index(a.name, a.extent) for a in axes]


def _holds_loop(f: Term, extent: str) -> bool:
    """True if the fold is over another extent, and holds a fold over this one."""
    inside = (s for s in T.subterms(f) if s.op in ("fold", "fold_at"))
    return f.attr.extents[0] != extent and any(extent in s.attr.extents for s in inside)


def _length_of_products(f: Term, sizes: Mapping[str, int]) -> int:
    """Return how long the product of matrices is that each element of a sum has for itself; 0 if
    none has. Such a sum goes over one element at a time."""
    (bound,), (_, element, *_) = T.open_fold(f)
    for g in factors(element):
        if (opened := opened_sum(g)) is not None:
            inner, _, body = opened
            parts = [p.free for p in factors(body) if bound.name in p.free]
            sides = largest_sides(parts, inner.name)
            if len(parts) == len(factors(body)) and sides is not None:
                return sizes[inner.extent]
    return 0


def _are_converted(program: Equations, folds: Iterable[Term], narrow: Set[str]) -> bool:
    """True if all that is read for each element of folds is integers, or floats of 8 bits, which
    products take converted."""
    inputs = program.declared.inputs
    converted = narrow | {i.name for i in inputs.values() if i.kind == "int"}
    reads = [r for f in folds for r in streamed_reads(f)]
    largest = max((len(r.args) for r in reads), default=0)
    large = {T.name_of(r) for r in reads if len(r.args) == largest}
    return bool(large) and large <= converted


def _length(packed: Rows, sizes: Mapping[str, int]) -> int:
    """Return how many rows are packed."""
    return math.prod(evaluated(n, extents=sizes) or 1 for _, n in packed.parts)


def _instances(
    axes: Iterable[Axis], packed: Rows | None, sizes: Mapping[str, int], block: int
) -> int:
    """Count the program instances, for blocks of `block` rows."""
    value = partial(evaluated, extents=sizes)
    parts = {} if packed is None else {i.name: value(n) or 1 for i, n in packed.parts}
    count = 1 if packed is None else math.ceil(_length(packed, sizes) / block)
    for a in axes:
        if a.role in ("grid", "row"):
            size = math.ceil(sizes[a.extent] / parts.get(a.name, 1))
            is_row = a.role == "row" and a.name not in parts
            count *= math.ceil(size / block) if is_row else size
    return count


def _defaults(program: Equations) -> dict[str, int]:
    """Return the integer parameters, by what they are where a call does not say."""
    params = program.declared.params.values()
    return {p.name: int(p.default) for p in params if p.kind == "int" and p.default is not None}


def _block(i: Term, sizes: Mapping[str, int]) -> tuple[Term, Term]:
    """Return the first and the last position of a row's block."""
    if sizes[i.extent] <= ROWS:
        return T.const(0), T.sub(T.extent_of(i.extent), T.const(1))
    first = T.mul(T.const(ROWS), T.floordiv(i, T.const(ROWS)))
    return first, T.add(first, T.const(ROWS - 1))


def _names(group: Sequence[Equation]) -> frozenset[str]:
    return frozenset(i.name for e in group for i in e.indices)


def _is_loop(t: Term, names: frozenset[str]) -> bool:
    """True if this is a fold or a selection that varies with indices of outputs alone."""
    return (t.op == "fold" or is_selection(t)) and t.free <= names
