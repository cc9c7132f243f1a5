"""`peel`: in which phases the blocks of a loop run, so that few of them need masks.

    split    from the same element for all rows: the blocks inside for every row, and those that
             stick out at the end. The body is written once; in the first phase all masks are
             constant and the compiler drops them.
    edges    a loop that begins where its rows say would have a third phase, and more to start and
             to end than to do: it asks at each block whether to mask it. So does one whose loads
             run ahead.
    sliding  the same where descriptors load blocks: these begin and end where the elements do,
             and the last one slides back. None does where all begin at multiples of a block's
             length and the extent is one: there a comparison with where its row begins masks.
    ahead    the same where loads run ahead: one loop, as a second would begin them again.
    masked   a mask leaves elements out anywhere, or blocks go from the last to the first, where
             those that stick out come first: all blocks ask.
    listed   the same for blocks that a map lists (`filters`): those that are inside for every row,
             those of which every element is for some row, and others.
    serial   one element at a time.

The domain may have several segments, and within one, intervals of rows with gaps between them are
streamed run by run: what no row admits is not read.

The mask of a block is a tile. Where it compares what is read along the loop with what rows have, a
vector can tell that it admits nothing: it is compared with the largest or the least of the rows.

    start[q] <= k and k < end[q] for a k in first .. last  =>  start[q] <= last and first < end[q]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from math import gcd, prod
from typing import Literal, TypeAlias

from monocomp.blocks import Block
from monocomp.blocks.choices.layouts import Layouts
from monocomp.blocks.choices.moving import is_all_or_none, signs
from monocomp.declarations.record import record
from monocomp.tile import (
    Expr,
    Fold,
    Let,
    Loop,
    Mask,
    Segment,
    Selection,
    expressions,
    leaves,
    multiplies,
    names,
    walk,
)

STEP = 16  # elements, whose bytes are a multiple of what descriptors need
Form: TypeAlias = Literal["split", "edges", "sliding", "ahead", "masked", "listed", "serial"]


@record()
class Phases:
    """The way a loop runs.

    Attributes:
        form: one of the forms above.
        begins_by_row: True if rows say where it begins.
        in_runs: True if it is streamed run by run.
        divisor: a number that divides the positions at which blocks begin; 0: their own length
            does.
        multiples: where a loop runs to the end, numbers and axes of rows: its first position is a
            multiple of the greatest common divisor of these numbers and the lengths of the axes'
            blocks. None otherwise.
        descriptors: the descriptors that load its blocks of matrices.
        fused: the descriptor and the axis of the only loop inside, whose loads may be under way
            while this loop does the rest. With pointers the loop inside would carry their addresses
            along, and nothing would be gained.
        is_short: True if the ends of a block's rows lie within as many elements as there are rows.
        apart: the mask's comparisons between what is read along the loop and what rows have. They
            are tested first, on the extremes of the rows.
        leaves_out: True if loads along the axis follow the mask: they skip what no row admits.
        asks: True if each block tests whether the mask admits anything in it.
        is_tested: True if the kernel tests beforehand whether there is any block. Then its products
            have ended where their results meet those of no block. Otherwise the assembler may wait
            for each product to end before anything goes on, and it does so where elements are
            loaded one by one beside products.
        ends: axes of rows that admit elements up to their own positions, if nothing else bounds
            those of a loop that commutes and whose loads run ahead: its blocks go from the last to
            the first, so that the one that sticks out stands before the others.
        is_repeated: True if other loops stream the same elements. Where one block holds them all,
            its bounds are constants: a compiler then sees blocks instead of loops, and loads one
            for all.
    """

    form: Form
    begins_by_row: bool = False
    in_runs: bool = False
    divisor: int = 1
    multiples: tuple[int | str, ...] | None = None
    descriptors: tuple[Block, ...] = ()
    fused: tuple[Block, str] | None = None
    is_short: bool = False
    apart: tuple[Expr, ...] = ()
    leaves_out: bool = False
    asks: bool = False
    is_tested: bool = False
    is_repeated: bool = False
    ends: tuple[str, ...] = ()


def loads_in_step(
    loops: Iterable[Loop],
    layouts: Layouts,
    by_descriptor: Mapping[str, Block],
    runs_ahead: bool = False,
) -> dict[str, Block]:
    """Return the loads that descriptors can make in these loops. In memory 16 bytes must divide
    where each row of a block begins: where rows go along a stream, so do its blocks have to, as
    far as is known beforehand. Arguments as for `peel`."""
    known = Bounds(layouts)
    others = {loop.axis.name for loop in loops if not known.in_step(loop, runs_ahead)}
    return {n: b for n, b in by_descriptor.items() if b.axes[-1] not in others}


def peel(
    loops: Iterable[Loop],
    layouts: Layouts,
    by_descriptor: Mapping[str, Block],
    runs_ahead: bool = False,
) -> dict[Loop, Phases]:
    """Return the phases of each loop.

    Args:
        loops, layouts: the loops.
        by_descriptor: the loads that descriptors make, by name.
        runs_ahead: True if loads run ahead of products. A second phase would end that, and begin
            it again.
    """
    known, phases_of = Bounds(layouts), {}
    matrices = {name: b for name, b in by_descriptor.items() if len(b.tile) > 1}
    for loop in loops:
        phases = _phases(loop, known, matrices)
        if runs_ahead and phases.in_runs and phases.form == "sliding":
            phases = replace(phases, form="ahead")
        elif runs_ahead and phases.form in ("split", "sliding"):
            phases = replace(phases, form="edges", divisor=0, ends=known.ends(loop))
        phases = _asked(loop, known, phases, _apart(loop, known))
        phases_of[loop] = replace(phases, is_tested=_gathers(loop))
    split = [x for x, p in phases_of.items() if p.form == "split" and x.is_whole]
    whole = [x for x in split if not multiplies(x.body)]
    streams = Counter(loop.axis.extent for loop in whole)
    repeated = {loop for loop in whole if streams[loop.axis.extent] > 1}
    return {loop: replace(p, is_repeated=loop in repeated) for loop, p in phases_of.items()}


def loops_of(loop: Loop) -> tuple[Loop, ...]:
    """Return the loops that one is, one after the other: over segments in which a mask decides,
    and over those in which none is asked."""
    loops = []
    for is_masked, segments in groupby(loop.segments, lambda s: s.masked):
        body = [s for s in loop.body if is_masked or not isinstance(s, Mask)]
        loops.append(replace(loop, segments=tuple(segments), body=body))
    return tuple(loops) if len(loops) > 1 and loop.axis.role == "stream" else (loop,)


def unpeeled(loops: Iterable[Loop], layouts: Layouts) -> dict[Loop, Phases]:
    """Return the phases of loops that are not peeled: each block asks whether it is masked."""
    known = Bounds(layouts)
    phases_of = {}
    for loop in loops:
        begins_by_row = len(loop.segments) > 1 or known.vary(loop.segments[0].lower)
        is_serial = loop.axis.role == "serial"
        phases = Phases("serial" if is_serial else "masked", begins_by_row)
        phases_of[loop] = _asked(loop, known, phases)
    return phases_of


def _phases(loop: Loop, known: Bounds, by_descriptor: Mapping[str, Block]) -> Phases:
    first = loop.segments[0]
    if loop.axis.role == "serial":
        return Phases("serial")
    lets = (s.name for s in walk(loop.body) if isinstance(s, Let))
    described = (by_descriptor[name] for name in lets if name in by_descriptor)
    blocks = tuple(dict.fromkeys(b for b in described if loop.axis.name in b.tile))
    if len(loop.segments) == 1 and (first.masked or loop.is_backwards):
        divisor = known.divisor_of_lower(first)
        return Phases("masked", known.vary(first.lower), divisor=divisor)
    if len(loop.segments) == 1 and not known.vary(first.lower):
        return Phases(
            "split",
            divisor=known.divisor_of_lower(first),
            descriptors=blocks,
            fused=_fused(loop, by_descriptor),
            is_short=known.is_short(first),
        )
    in_runs = any(map(known.may_have_gaps, loop.segments))
    if blocks and not loop.is_backwards:  # blocks slide to the end
        multiples = None if len(loop.segments) > 1 else known.multiples(first)
        return Phases("sliding", True, in_runs, multiples=multiples, descriptors=blocks)
    return Phases("edges", True, in_runs, divisor=0)


def _asked(loop: Loop, known: Bounds, phases: Phases, apart: tuple[Expr, ...] = ()) -> Phases:
    """Ask a mask that is read: that is cheap beside what it saves. One that is computed has members
    everywhere, as a rule. Where nothing is read behind it, few blocks are left to leave out once
    extremes have been asked."""
    mask = _mask(loop)
    if mask is None or phases.form == "serial":
        return phases
    axis, behind = loop.axis.name, expressions(loop.body[loop.body.index(mask) + 1 :])
    leaves_out = any(e.op == "load" and axis in e.axes for e in behind)
    asks = known.is_read(mask.value, axis) and (leaves_out or not apart)
    return replace(phases, apart=apart, leaves_out=leaves_out, asks=asks)


def _apart(loop: Loop, known: Bounds) -> tuple[Expr, ...]:
    """Return the comparisons of a mask that tell of a block of rows by its extremes: of as many
    elements as a block has along the loop, where the mask is a tile."""
    mask = _mask(loop)
    if mask is None or len(known.order(mask.value.axes)) == 1:
        return ()
    changing = {*names(loop.body), *(s.name for s in loop.state)}
    conjuncts = known.conjuncts(mask.value)
    return tuple(e for e in conjuncts if known.is_apart(e, loop.axis.name, changing))


def _mask(loop: Loop) -> Mask | None:
    return next((s for s in loop.body if isinstance(s, Mask)), None)


def _gathers(loop: Loop) -> bool:
    """True if a loop has products, and loads elements that have a position each."""
    positions = (x for e in expressions(loop.body) if e.op == "load" for x in e.positions)
    return multiplies(loop.body) and any(len(x.axes) > 1 for x in positions)


def _joined(parts: Iterable[tuple[int | str, ...] | None]) -> tuple[int | str, ...] | None:
    """Return the numbers and axes of all parts; None if those of one are not known."""
    joined: tuple[int | str, ...] = ()
    for part in parts:
        if part is None:
            return None
        joined += part
    return joined


def _fused(loop: Loop, by_descriptor: Mapping[str, Block]) -> tuple[Block, str] | None:
    """Return the descriptor and the axis of the only loop inside. A selection is a loop itself."""
    inner = [s for s in loop.body if isinstance(s, Loop)]
    selects = any(isinstance(s, Fold) and isinstance(s.monoid, Selection) for s in loop.body)
    loads = [s.name for x in inner for s in x.body if isinstance(s, Let)]
    if len(inner) != 1 or selects or not loads or not by_descriptor.keys() >= {*loads}:
        return None
    return by_descriptor[loads[0]], inner[0].axis.name


class Bounds:
    """The bounds of segments, as far as they are known without their values."""

    def __init__(self, layouts: Layouts) -> None:
        self.order, self.rows = layouts.order, layouts.rows
        self.program, self.meaning = layouts.program, layouts.program.meaning

    def vary(self, bounds: tuple[Expr, ...]) -> bool:
        """True if any of the bounds is not the same for all rows."""
        return any(self.order(e.axes) for e in bounds)

    def is_read(self, e: Expr, axis: str) -> bool:
        """True if a tensor is read along an axis to compute a value."""
        if axis not in e.axes:
            return False
        e = self.meaning(e)
        return e.op == "load" or any(self.is_read(a, axis) for a in e.args)

    def conjuncts(self, e: Expr) -> Iterator[Expr]:
        """Yield the conditions that a condition is all of."""
        e = self.meaning(e)
        if e.op == "and":
            yield from (x for a in e.args for x in self.conjuncts(a))
        else:
            yield e

    def is_apart(self, e: Expr, axis: str, changing: Collection[str]) -> bool:
        """True if this compares, for order or equality, ints that are read along an axis and vary
        along no other with ints that neither vary along it nor depend on what changes."""
        if e.op != "compare" or e.attr == "!=" or any(a.kind != "int" for a in e.args):
            return False
        along, rows = sorted(e.args, key=lambda a: axis not in a.axes)
        if axis in rows.axes or any(x.attr in changing for x in leaves(rows)):
            return False
        return self.order(along.axes) == (axis,) and self.is_read(along, axis)

    def may_have_gaps(self, segment: Segment) -> bool:
        """True if there may be elements between the bounds of a block's rows that no row admits.

        Intervals that all begin, or all end, at the same element have no gaps, nor have those whose
        ends grow by one from row to row, or whose first rows go on to the end.
        """
        varying = self.vary(segment.lower) and self.vary(segment.upper)
        grow = all(map(self._grows_by_one, segment.lower))
        return varying and not (segment.masked or (grow and all(map(self._reaches, segment.upper))))

    def _reaches(self, bound: Expr) -> bool:
        """True if a bound grows by one from row to row, or is the end for the first rows and 0 for
        the others, or is the largest of such bounds."""
        bound = self.meaning(bound)
        if is_all_or_none(bound, self.program):
            row, first = self.meaning(bound.args[0]).args
            return not self.order(first.axes) and self._grows_by_one(row)
        if bound.op == "maximum":
            return all(map(self._reaches, bound.args))
        return self._grows_by_one(bound)

    def _grows_by_one(self, bound: Expr) -> bool:
        """True if this is the same for all rows, or a coordinate plus such a value."""
        directions = signs(bound, self.program)
        return directions is not None and [*directions.values()] in ([], [1])

    def is_short(self, segment: Segment) -> bool:
        """True if the ends of a block's rows lie within as many elements as there are rows."""
        return bool(segment.upper) and all(map(self._steps_by_one, segment.upper))

    def _steps_by_one(self, bound: Expr) -> bool:
        """True if a bound is the same for all rows, or at most one more for the next row."""
        bound = self.meaning(bound)
        if bound.op in ("maximum", "minimum"):
            return all(map(self._steps_by_one, bound.args))
        return self._grows_by_one(bound)

    def ends(self, loop: Loop) -> tuple[str, ...]:
        """Return the axes of rows that admit elements up to their own positions, k <= q, if a loop
        over one interval may take its blocks in any order; none if something else bounds it."""
        first, *others = loop.segments
        ends = list(map(self._end, first.upper))
        if others or first.masked or loop.is_ordered or None in ends:
            return ()
        return tuple(a for a in ends if a is not None)

    def _end(self, bound: Expr) -> str | None:
        """Return the axis of rows whose coordinate, and one, is a bound."""
        bound = self.meaning(bound)
        at, one = bound.args if bound.op == "add" else (None, None)
        is_one = one is not None and one.op == "number" and one.attr == 1
        return at.attr if at and is_one and at.op == "coordinate" and at.attr in self.rows else None

    def in_step(self, loop: Loop, runs_ahead: bool) -> bool:
        """True if the blocks that descriptors load in a loop may begin at multiples of `STEP`."""
        first, *others = loop.segments
        if not others and (first.masked or loop.is_backwards):
            return True  # pointers load what a mask chooses from
        if not others and not self.vary(first.lower):
            return self.divisor_of_lower(first) % STEP == 0
        if runs_ahead and not any(map(self.may_have_gaps, loop.segments)):
            return True  # none slides: they begin at multiples of their own length
        multiples = None if others else self.multiples(first)
        return multiples is not None and all(x % STEP == 0 for x in multiples if isinstance(x, int))

    def multiples(self, segment: Segment) -> tuple[int | str, ...] | None:
        """Return the numbers and axes whose sums and extremes give the first position of a block of
        rows; an axis stands for multiples of its blocks' length. None if the segment has a mask or
        an upper bound, or if the position depends on anything else."""
        if segment.upper or segment.masked:
            return None
        parts = _joined(map(self._multiples, segment.lower))
        return None if parts is None else tuple(sorted({*parts}, key=str))

    def _multiples(self, e: Expr) -> tuple[int | str, ...] | None:
        e = self.meaning(e)
        match e.op:
            case "number":
                return (e.attr,)
            case "coordinate" if e.attr in self.rows:  # a stream's blocks begin anywhere
                return (e.attr,)
            case "add" | "maximum" | "minimum":
                return _joined(map(self._multiples, e.args))
        return None

    def divisor_of_lower(self, segment: Segment) -> int:
        """Return a number that divides the first element at which blocks begin, as far as numbers
        tell. It is 0 for blocks that begin where rows say: at multiples of their own length."""
        if self.vary(segment.lower):
            return 0
        return gcd(*map(self._divisor, segment.lower))

    def _divisor(self, e: Expr) -> int:
        e = self.meaning(e)
        match e.op:
            case "number" if e.kind == "int":
                return abs(int(e.attr))
            case "mul":
                return prod(map(self._divisor, e.args))
            case "add" | "sub" | "maximum" | "minimum":
                return gcd(*map(self._divisor, e.args))
        return 1
