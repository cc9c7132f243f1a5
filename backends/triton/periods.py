"""Places of a stream's elements in periods, such as the pages of a cache: k // s and k % s.

Of a block of B elements that begins at k, where B and s are known as the kernel is compiled,

    if s divides B, then all blocks have the same places, those of the first block, and
    if B divides s and k, then the block lies in one period, and its elements' places are those
        of the first block but for a number, k % s - first % s.

So before the loop as much is computed as can be, and in it numbers instead of tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import gcd, prod

from monocomp.backends.triton.descriptors import is_dense
from monocomp.backends.triton.schedule import MIN_DOT
from monocomp.backends.triton.writer import KernelWriter
from monocomp.tile import Expr, Loop, Segment, expressions


class Periods(KernelWriter):
    """Knows what the blocks of a loop have in common."""

    def _is_periodic(self, e: Expr) -> bool:
        """Is this the number or the place of a stream's element in periods of constant length?"""
        if e.op not in ("floordiv", "mod") or e.attr != "nonnegative":
            return False
        coordinate, period = e.args
        if coordinate.op != "coordinate" or not self._streams(coordinate.attr):
            return False
        return period.op == "extent" or (period.op == "number" and period.attr > 0)

    def _is_in_period(self, e: Expr) -> bool:
        """Is this the place of a stream's element in a period of constant length?"""
        return e.op == "mod" and self._is_periodic(e)

    def _is_moved(self, e: Expr) -> bool:
        """Is this such a place, which two summands give: a tile and how far it has moved?"""
        return self._is_in_period(e) and bool(self._holds_blocks(e))

    def _holds_blocks(self, e: Expr) -> str:
        """When does each block lie in one period? Empty if that is not known."""
        axis, period = e.args[0].attr, e.args[1]
        divisor = self.divisors.get(axis, 1)
        if divisor == 1 or (period.op == "number" and period.attr < MIN_DOT):
            return ""
        block = self._block(axis)
        test = f"{self._length(period)} % {block} == 0"
        return f"({test}) & ({divisor} % {block} == 0)" if divisor else test

    def _in_all_blocks(self, e: Expr) -> str:
        """When are the places in all blocks those in the first, but for a number?"""
        test = f"{self._block(e.args[0].attr)} % {self._length(e.args[1])} == 0"
        held = self._holds_blocks(e)
        return f"({test}) | ({held})" if held else test

    def _place(self, e: Expr) -> str:
        """The places of a block's elements in a period, but for how far the block has moved."""
        axis = e.args[0].attr
        offs = self._axis(axis)
        if axis in self.aligned:
            offs = f"({self._in_first_block(axis)} if {self._in_all_blocks(e)} else {offs})"
        return f"{offs} % {self._length(e.args[1])}"

    def _length(self, period: Expr) -> str:
        return self._size(period.attr) if period.op == "extent" else str(period.attr)

    def _moved(self, e: Expr) -> str:
        """The name of how far a block has moved in a period, since the first block."""
        axis = e.args[0].attr
        return self._name("moved", f"{axis} {self._length(e.args[1])}", f"moved_{axis}")

    def _in_first_block(self, axis: str) -> str:
        """The name of the places of a loop's first block."""
        return self._name("first block", axis, f"first_offs_{axis}")

    def _first_places(self, loop: Loop, begin: str) -> None:
        """Name the places of a loop's first block, if they are in a period."""
        axis = loop.axis.name
        if self._in_periods(loop):
            places = f"tl.arange(0, {self._block(axis)}).to(INDEX)"
            self._assign(self._in_first_block(axis), f"{begin} + {places}")
            self.aligned.add(axis)

    def _moves(self, loop: Loop, begin: str) -> None:
        """Name how far a block has moved in each period."""
        first = self._name("first", loop.axis.name)
        for e in filter(self._is_moved, self._in_periods(loop)):
            length, held = self._length(e.args[1]), self._holds_blocks(e)
            moved = f"{first} % {length} - {begin} % {length}"
            self._assign(self._moved(e), f"{moved} if {held} else 0")

    def _in_periods(self, loop: Loop) -> list[Expr]:
        """The places in periods that a loop computes of its elements, one for each period."""
        found = filter(self._is_in_period, expressions(loop.body))
        here = [e for e in found if e.args[0].attr == loop.axis.name]
        return list({self._length(e.args[1]): e for e in here}.values())

    def _held_by_blocks(self, load: Expr) -> tuple[str, str] | None:
        """The axis of a load that reads one element for a whole block, and when it does: if no
        subscript tells more than the period. The element is needed: the domain has all elements
        between its bounds, and so one of each block."""
        dense = {loop.axis.name for loop in self.loops if is_dense(loop)}
        layout = self._order(load.axes)
        if load.guarded or len(layout) != 1 or layout[0] not in dense:
            return None
        places = [x for x in map(self._meaning, load.args) if self._order(x.axes)]
        if not all(x.op == "floordiv" and self._is_periodic(x) for x in places):
            return None
        tests = dict.fromkeys(map(self._holds_blocks, places))
        return (layout[0], " and ".join(tests)) if all(tests) else None

    @contextmanager
    def _at_first_element(self, axis: str) -> Iterator[None]:
        """What is written inside is of the first element of a block."""
        self.single.add(axis)
        yield
        self.single.remove(axis)

    def _divisor_of_lower(self, segment: Segment) -> int:
        """What divides the first element of a segment; 0 is divided by everything."""
        return gcd(*map(self._divisor, segment.lower))

    def _divisor(self, e: Expr) -> int:
        """What divides an int, as far as its numbers tell."""
        match e.op:
            case "number" if e.kind == "int":
                return abs(int(e.attr))
            case "local" if e.attr in self.lets:
                return self._divisor(self.lets[e.attr])
            case "mul":
                return prod(map(self._divisor, e.args))
            case "add" | "sub" | "maximum" | "minimum":
                return gcd(*map(self._divisor, e.args))
        return 1
