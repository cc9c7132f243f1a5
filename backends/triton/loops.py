"""Loops over streams, block by block.

A loop that begins at the same element for all rows is cut in two parts: the blocks inside for
every row, and those that stick out at the end. The body is written once; in the first part all
masks are constant and the compiler drops them. A loop that begins where its rows say would have
a third part, and more to start and to end than to do; it asks at each block whether to mask it.
What no row of a block admits is left out: intervals of rows with gaps between them are streamed
run by run, and where descriptors can load blocks these begin and end where the elements do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from monocomp.backends.triton.accesses import Accesses
from monocomp.backends.triton.descriptors import Block, is_dense
from monocomp.backends.triton.masks import Masks
from monocomp.tile import Let, Loop, Segment, walk


class Loops(Accesses, Masks):
    """Writes loops."""

    def _loop(self, loop: Loop) -> None:
        for state in loop.state:
            start = self._whole_tile(state.start, self._order(state.axes))
            self._assign(self._local(state.name), start)
        self._hoist_bases(loop)
        self.loops.append(loop)
        if loop.axis.role == "serial":
            self._serial_loop(loop)
        else:
            self._blocked_loop(loop)
        self.loops.pop()

    def _serial_loop(self, loop: Loop) -> None:
        axis = loop.axis.name
        if len(loop.segments) == 1:
            low, high, _, _ = self._bounds(loop, loop.segments[0])
            self._serial_blocks(loop, low, high)
            return
        low, high = self._bound(axis, "low"), self._bound(axis, "high")
        with self._each_segment(loop):
            self._serial_blocks(loop, low, high)

    def _serial_blocks(self, loop: Loop, low: str, high: str) -> None:
        self._fit(f"for {self._axis(loop.axis.name)} in ", f"range({low}, {high})", ":")
        self.indent += 1
        self.kept = {}
        self._body(loop.body)
        self.admitted.pop(loop.axis.name, None)
        self.indent -= 1

    def _blocked_loop(self, loop: Loop) -> None:
        if len(loop.segments) > 1:
            self._segments(loop)
        elif loop.segments[0].masked:
            self._masked_segment(loop, loop.segments[0])
        else:
            self._one_segment(loop, loop.segments[0])
        self.unmasked.pop(loop.axis.name, None)

    def _masked_segment(self, loop: Loop, segment: Segment) -> None:
        """Every block is masked: one loop."""
        axis, block = loop.axis.name, self._block(loop.axis.name)
        low, high, _, _ = self._bounds(loop, segment)
        low = self._set(axis, "low", low)
        high = self._set(axis, "high", high)
        begin, condition = low, f"({self._axis(axis)} < {high})"
        divisor = self._divisor_of_lower(segment)
        if self._vary(segment.lower):
            divisor = 0
            begin = self._set(axis, "begin", f"{low} // {block} * {block}")
            condition = f"({self._axis(axis)} >= {low}) & {condition}"
        elif not segment.bounds:
            condition += f" | {self._even(axis)}"
        self._row_bounds(loop, low, high)
        self._blocks(loop, begin, high, condition, divisor)

    def _one_segment(self, loop: Loop, segment: Segment) -> None:
        axis = loop.axis.name
        low, high, full_low, full_high = self._bounds(loop, segment)
        low, high = self._set(axis, "low", low), self._set(axis, "high", high)
        begins_by_row = self._vary(segment.lower)
        if begins_by_row:
            full_low = self._set(axis, "full_low", full_low)
        full_high = self._set(axis, "full_high", full_high)
        self._row_bounds(loop, low, high)
        if begins_by_row:
            self._in_one_loop(loop, low, high, full_low, full_high)
        else:
            self._in_two_parts(loop, low, high, full_high)

    def _in_two_parts(self, loop: Loop, low: str, high: str, full_high: str) -> None:
        """Blocks up to where the first row ends, and the others."""
        axis, block = loop.axis.name, self._block(loop.axis.name)
        (segment,) = loop.segments
        part = self._name("part", axis, "part")
        text = f"{full_high} // {block} * {block}"
        if segment.lower:
            text = f"{low} + ({full_high} - {low}) // {block} * {block}"
        middle = f"tl.maximum({low}, {text})" if segment.bounds else text
        middle = self._set(axis, "full_end", middle)
        if segment.bounds:
            self._put("# Blocks inside and after the part where no mask is needed.")
        last = "3" if segment.bounds else f"2 if {self._even(axis)} else 3"
        self._put(f"for {part} in tl.static_range(1, {last}):")
        self.indent += 1
        self.unmasked[axis] = f"({part} == 1)"
        begin, end = self._name("begin", axis, "begin"), self._name("end", axis, "end")
        self._assign(begin, f"{low} if {part} == 1 else {middle}")
        self._assign(end, f"{middle} if {part} == 1 else {high}")
        condition = f"({self._axis(axis)} < {high}) | {self.unmasked[axis]}"
        if is_dense(loop):
            self.covered[axis] = f"{part} == 1" if segment.bounds else ""
        depth = self._depth(loop, segment, f"{part} != 1")
        fusion = self._fusion(loop, f"{part} == 1")
        divisor = self._divisor_of_lower(segment)
        self._blocks(loop, begin, end, condition, divisor, depth + fusion)
        self.covered.pop(axis, None)
        self.indent -= 1

    def _depth(self, loop: Loop, segment: Segment, is_last: str) -> str:
        """Do not load the few blocks at the end ahead where descriptors load the others: two
        pipelines would take more shared memory than one."""
        blocks = self._blocks_of(loop)
        if not blocks or not self._is_short(segment):
            return ""
        is_described = f"({self.descriptor(blocks[0])} is not None)"
        return f", num_stages=1 if {is_described} & ({is_last}) else None"

    def _fusion(self, loop: Loop, is_plain: str) -> str:
        """Let a loop and the only one inside it become one, whose loads are under way while the
        outer loop does the rest: with pointers it would carry their addresses along, and gain
        nothing."""
        inner = [s for s in loop.body if isinstance(s, Loop)]
        loads = [s.name for x in inner for s in x.body if isinstance(s, Let)]
        if len(inner) != 1 or not loads or not self.described.keys() >= {*loads}:
            return ""
        name, is_even = self.descriptor(self.described[loads[0]]), self._even(inner[0].axis.name)
        return f", flatten=({name} is not None) & {is_even} & ({is_plain})"

    def _segments(self, loop: Loop) -> None:
        """Several segments; all blocks of a masked one are masked."""
        purposes = ("low", "high", "full_low", "full_high")
        with self._each_segment(loop):
            self._in_one_loop(loop, *(self._bound(loop.axis.name, p) for p in purposes))

    def _in_one_loop(self, loop: Loop, low: str, high: str, full_low: str, full_high: str) -> None:
        """The blocks that stick out of what all rows admit are masked, under a condition."""
        axis, block = loop.axis.name, self._block(loop.axis.name)
        indent = self.indent
        if any(map(self._may_have_gaps, loop.segments)):
            low, high = self._each_run(loop, low, high)
        if self._blocks_of(loop):
            self._in_sliding_blocks(loop, low, high, full_low, full_high)
        else:
            begin = self._set(axis, "outer", f"{low} // {block} * {block}")
            first, offs = self._name("first", axis, f"first_{axis}"), self._axis(axis)
            self.edges[axis] = f"({first} < {full_low}) | ({first} + {block} > {full_high})"
            self._put("# Blocks that are inside for every row need no mask.")
            self._blocks(loop, begin, high, f"({offs} >= {low}) & ({offs} < {high})", 0)
        del self.edges[axis]
        self.runs.discard(axis)
        self.indent = indent

    def _in_sliding_blocks(
        self, loop: Loop, low: str, high: str, full_low: str, full_high: str
    ) -> None:
        """Blocks of elements that rows admit, and of no others: none needs a mask to be loaded.
        The last one slides back to where the elements end. Fewer than a block of them descriptors
        leave to pointers, which load the last element for those that are missing."""
        axis, block = loop.axis.name, self._block(loop.axis.name)
        part, place = self._name("part", axis, "part"), self._name("place", axis, f"place_{axis}")
        start, stop = (self._name(x, axis, f"{x}_{axis}") for x in ("start", "stop"))
        first = self._name("first", axis, f"first_{axis}")
        described = " | ".join(f"({self.descriptor(b)} is not None)" for b in self._blocks_of(loop))
        self._put("# The last block slides back to the end; what it has twice is masked.")
        text = f"tl.where({high} - {low} < {block}, {low}, {high}) if {described} else {high}"
        middle = self._set(axis, "full_end", text)
        self._fit(f"for {part} in ", f"tl.static_range(1, 3 if {described} else 2)", ":")
        self.indent += 1
        self._assign(start, f"{low} if {part} == 1 else {middle}")
        self._assign(stop, f"{middle} if {part} == 1 else {high}")
        self.edges[axis] = f"({place} < {full_low}) | ({place} + {block} > {full_high})"
        self.covered[axis] = f"{part} == 1"
        self.sliding[axis] = (place, high)
        depth = f"num_stages=None if {part} == 1 else 1"
        self._fit(f"for {place} in ", f"tl.range({start}, {stop}, {block}, {depth})", ":")
        self.indent += 1
        self._assign(first, f"tl.maximum(tl.minimum({place}, {high} - {block}), {low})")
        places = f"{first} + tl.arange(0, {block}).to(INDEX)"
        self._assign(self._axis(axis), f"tl.minimum({places}, {high} - 1)")
        self._block_body(loop)
        del self.covered[axis], self.sliding[axis]

    def _blocks_of(self, loop: Loop) -> list[Block]:
        """What descriptors can load of a loop's blocks."""
        lets = (s.name for s in walk(loop.body) if isinstance(s, Let))
        found = (self.described[name] for name in lets if name in self.described)
        return list(dict.fromkeys(b for b in found if loop.axis.name in b.tile))

    def _each_run(self, loop: Loop, low: str, high: str) -> tuple[str, str]:
        """Bounds of one run after the other of elements that rows admit: nothing in between is
        read, for what stands there, be it NaN, would enter a sum as 0 times itself."""
        axis = loop.axis.name
        rows = self._order({a for e in loop.bounds for a in e.axes})
        begin, end = self._name("begin", axis, "begin"), self._name("end", axis, "end")
        reach, following = self._name("reach", axis, "reach"), self._bound(axis, "next")
        from_, to = self._bound(axis, "from"), self._bound(axis, "to")
        inside = " & ".join(self._spread(self._inside(a), (a,), rows) for a in rows)

        def extreme(op: str, tile: str) -> str:
            for _ in rows:
                tile = f"tl.{op}({tile}, 0)"
            return f"tl.cast({tile}, INDEX)"

        self._put("# One run of elements that rows admit after the other.")
        self._assign(to, f"tl.where({inside}, {to}, 0)")
        self._assign(end, f"tl.cast({low}, INDEX)")
        self._put(f"while {end} < {high}:")
        self.indent += 1
        self._assign(following, f"tl.maximum({from_}, {end})")
        chosen = f"tl.where({following} < {to}, {following}, {high})"
        self._assign(begin, extreme("min", chosen))
        self._assign(end, begin)
        reached = extreme("max", f"tl.where({from_} <= {end}, {to}, {end})")
        self._assign(reach, reached)
        self._put(f"while {reach} > {end}:")
        self.indent += 1
        self._assign(end, reach)
        self._assign(reach, reached)
        self.indent -= 1
        self.runs.add(axis)
        self._assign(self._bound(axis, "run_from"), f"tl.maximum({from_}, {begin})")
        self._assign(self._bound(axis, "run_to"), f"tl.minimum({to}, {end})")
        return begin, end

    @contextmanager
    def _each_segment(self, loop: Loop) -> Iterator[None]:
        """What is written inside runs for each segment, with its bounds under common names."""
        axis = loop.axis.name
        segment = self._name("segment", axis, "segment")
        layout = self._order({a for e in loop.bounds for a in e.axes})
        self._put("# The domain is a disjoint union of segments.")
        self._put(f"for {segment} in tl.static_range({len(loop.segments)}):")
        self.indent += 1
        for number, s in enumerate(loop.segments):
            last = number == len(loop.segments) - 1
            test = "else:" if last else f"{'el' if number else ''}if {segment} == {number}:"
            self._put(test)
            self.indent += 1
            low, high, full_low, full_high = self._bounds(loop, s)
            self._assign(self._bound(axis, "low"), low)
            self._assign(self._bound(axis, "high"), high)
            if loop.axis.role != "serial":
                full = (self._bound(axis, "high"),) * 2 if s.masked else (full_low, full_high)
                self._assign(self._bound(axis, "full_low"), full[0])
                self._assign(self._bound(axis, "full_high"), full[1])
            if layout:
                self._assign(self._bound(axis, "from"), self._tile_of(s.lower, "low", loop, layout))
                self._assign(self._bound(axis, "to"), self._tile_of(s.upper, "high", loop, layout))
            self.indent -= 1
        yield
        self.indent -= 1

    def _blocks(
        self, loop: Loop, begin: str, end: str, condition: str, divisor: int, options: str = ""
    ) -> None:
        """One block after the other, in a condition that says which elements count. They begin at
        multiples of a divisor; if that is 0, of their own length."""
        axis, block = loop.axis.name, self._block(loop.axis.name)
        first = self._name("first", axis, f"first_{axis}")
        self.divisors[axis] = divisor
        self._first_places(loop, begin)
        self._fit(f"for {first} in ", f"tl.range({begin}, {end}, {block}{options})", ":")
        self.indent += 1
        self._assign(self._axis(axis), f"{first} + tl.arange(0, {block}).to(INDEX)")
        self._assign(self._inside(axis), condition)
        self._moves(loop, begin)
        self._block_body(loop)
        self.aligned.discard(axis)
        del self.divisors[axis]
        self.indent -= 1

    def _block_body(self, loop: Loop) -> None:
        self.kept = {}
        self.admitted.pop(loop.axis.name, None)
        self._body(loop.body)
