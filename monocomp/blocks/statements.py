"""Statements of block programs, and what they are made of.

statement = Assign | Load | Store | For | While | If | Comment | Give | Take | Release
          | Skip | Clear | Issue | Wait | Turn | Tell | Learn | Put | Meet
          | Send | Drain
access    = Pointers | Descriptor
range     = Static | Serial | Blocks | Claims
expression = an operation of the table of tile programs, or one of block programs alone
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from monocomp import tile
from monocomp.blocks.values import Expr, show, typed
from monocomp.declarations.record import GIVES, record
from monocomp.tile import Axis

# The part of the tile program that a statement comes from: a statement, an axis, or all of it.
Origin: TypeAlias = tile.Statement | Axis | tile.TileProgram


@record(eq=False)
class Assign:
    """`targets = value`; there are several for what has several fields. Is it static, known as the
    kernel is compiled?"""

    targets: tuple[Expr, ...] = field(metadata=GIVES)
    value: Expr
    origin: Origin | None = None
    is_static: bool = False

    def __str__(self) -> str:
        static = ", static" if self.is_static else ""
        return f"{', '.join(map(typed, self.targets))}{static} = {show(self.value)}"


@record()
class Block:
    """A block of a tensor: the tile's axis for each dimension, None where it is one element."""

    tensor: str
    axes: tuple[str | None, ...]

    @property
    def tile(self) -> tuple[str, ...]:
        """Return the axes of the tile, in the tensor's order."""
        return tuple(a for a in self.axes if a is not None)


@record(eq=False)
class Pointers:
    """Elements at base + offsets; where a mask does not hold nothing is read, and `fill` is
    the value."""

    base: Expr
    offsets: tuple[Expr, ...]
    mask: Expr | None = None
    fill: Expr | None = None

    def __str__(self) -> str:
        text = "at " + " + ".join(map(show, (self.base, *self.offsets)))
        text += "" if self.mask is None else f" where {show(self.mask)}"
        return text + ("" if self.fill is None else f" else {show(self.fill)}")


@record(eq=False)
class Within:
    """Bounds of a block that begins at `first` along an axis: elements outside of low .. high are
    0. Where `is_below` holds, which a kernel is compiled for, no block goes beyond high."""

    axis: str
    first: Expr
    low: Expr
    high: Expr
    is_below: Expr | None = None

    def __str__(self) -> str:
        unless = "" if self.is_below is None else f", below if {show(self.is_below)}"
        return f"{self.axis} in {show(self.low)} .. {show(self.high)}{unless}"


@record(eq=False)
class Descriptor:
    """A block whose first element is at these positions, one for each dimension of the tensor; 0
    outside of the tensor, and of what it is to be within."""

    descriptor: Expr
    block: Block
    positions: tuple[Expr, ...]
    within: Within | None = None

    def __str__(self) -> str:
        within = "" if self.within is None else f", {self.within}"
        return f"by {show(self.descriptor)} at [{', '.join(map(show, self.positions))}]{within}"


Access: TypeAlias = Pointers | Descriptor


@record(eq=False)
class Load:
    """`target = ` a tile of a tensor."""

    target: Expr = field(metadata=GIVES)
    tensor: str
    access: Access
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"{typed(self.target)} = load {self.tensor} {self.access}"


@record(eq=False)
class Store:
    """Write a value to an output where a mask holds, or add it to what is there, in any order. It
    is a tile of the pointers, or broadcasts to one; `first` are the positions of the first element
    of a tile that is added as products leave it."""

    output: str
    access: Pointers
    value: Expr
    mode: Literal["set", "add"] = "set"
    origin: Origin | None = None
    first: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        sign = "+=" if self.mode == "add" else "="
        return f"store {self.output} {self.access} {sign} {show(self.value)}"


@record(eq=False)
class Static:
    """start .. stop, unrolled."""

    start: Expr | None
    stop: Expr

    def __str__(self) -> str:
        return f"{'0' if self.start is None else show(self.start)} .. {show(self.stop)}, unrolled"


@record(eq=False)
class Serial:
    """start .. stop, one after the other; the loads of so many are issued together."""

    start: Expr
    stop: Expr
    together: int = 1

    def __str__(self) -> str:
        text = f"{show(self.start)} .. {show(self.stop)}"
        return text if self.together == 1 else f"{text}, {self.together} together"


@record(eq=False)
class Claims:
    """Numbers below stop, each claimed by one instance, that of the kernel first: in their order,
    by a counter in memory. One part claims them and tells the others."""

    stop: Expr
    counter: Expr

    def __str__(self) -> str:
        return f"claims below {show(self.stop)}, counted by {show(self.counter)}"


@record(eq=False)
class Blocks:
    """start .. stop in steps of the length of an axis's blocks; loads run so many stages ahead,
    those of the schedule if it is none. `fused`: may the loop become one with that inside? If it
    `is_backwards` its numbers tell blocks in the opposite order."""

    axis: str
    start: Expr
    stop: Expr
    stages: Expr | None = None
    fused: Expr | None = None
    is_backwards: bool = False

    def __str__(self) -> str:
        text = f"{show(self.start)} .. {show(self.stop)}, a block of {self.axis} at a time"
        text += ", the last first" if self.is_backwards else ""
        text += "" if self.stages is None else f", {show(self.stages)} stages"
        return text + ("" if self.fused is None else f", fused if {show(self.fused)}")


Range: TypeAlias = Static | Serial | Blocks | Claims


@record(eq=False)
class For:
    variable: Expr = field(metadata=GIVES)
    range: Range
    body: Body
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"for {self.variable.attr} in {self.range}:"


@record(eq=False)
class While:
    test: Expr
    body: Body
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"while {show(self.test)}:"


@record(eq=False)
class If:
    test: Expr
    body: Body
    orelse: Body = ()
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"if {show(self.test)}:"


@record()
class Comment:
    text: str
    origin: Origin | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"# {self.text}"


@record()
class Ring:
    """Blocks of a tensor in shared memory, from when they are asked for until they are released:
    as many stages as `depth` says. Those of a ring `beside` another come and go with its blocks,
    which are asked for and taken first, and released for both."""

    name: str
    descriptor: Expr
    block: Block
    depth: Expr
    beside: str | None = None


@record(eq=False)
class Give:
    """Ask for a block, once there is room in a ring."""

    ring: Ring
    access: Descriptor
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"give {self.ring.name} {self.access}"


@record(eq=False)
class Take:
    """`target = ` the next block of a ring, in shared memory, once it is there."""

    target: Expr = field(metadata=GIVES)
    ring: Ring
    within: Within | None = None
    origin: Origin | None = None

    def __str__(self) -> str:
        within = "" if self.within is None else f", {self.within}"
        return f"{typed(self.target)} = take {self.ring.name}{within}"


@record(eq=False)
class Clear:
    """Let what is not within bounds be 0 in the next block of a ring, before it is taken."""

    ring: Ring
    within: Within
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"clear {self.ring.name} but for {self.within}"


@record(eq=False)
class Release:
    """Leave the block that was taken last to others."""

    ring: Ring
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"release {self.ring.name}"


@record(eq=False)
class Skip:
    """Leave the next block of a ring, and those beside it, to others, once they are there."""

    ring: Ring
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"skip {self.ring.name}"


@record(eq=False)
class Issue:
    """Begin `target = ` a product, which runs beside what follows: until it has been waited for
    nothing may read it, nor write what it reads."""

    target: Expr = field(metadata=GIVES)
    product: Expr
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"{typed(self.target)} = issue {show(self.product)}"


@record(eq=False)
class Wait:
    """Wait for a product: so many that were issued after it may still run."""

    target: Expr = field(metadata=GIVES)
    behind: int
    origin: Origin | None = None

    def __str__(self) -> str:
        behind = f", {self.behind} behind it" if self.behind else ""
        return f"wait for {self.target.attr}{behind}"


@record(eq=False)
class Turn:
    """Take the turn among warpgroups, or pass it on to the next one, where a test that a kernel is
    compiled for holds."""

    way: Literal["take", "pass"]
    test: Expr
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"{self.way} the turn if {show(self.test)}"


@record(eq=False)
class Tell:
    """Tell others the item that has been claimed, and numbers that follow from it; and to each
    warpgroup its own of some."""

    values: tuple[Expr, ...]
    origin: Origin | None = None
    own: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        own = "".join(f", to each {show(x)}" for x in self.own)
        return f"tell {', '.join(map(show, self.values))}{own}".strip()


@record(eq=False)
class Learn:
    """`targets = ` the numbers that have been told with an item, and `own` those that have been
    told to one warpgroup."""

    targets: tuple[Expr, ...] = field(metadata=GIVES)
    origin: Origin | None = None
    own: tuple[Expr, ...] = field(default=(), metadata=GIVES)

    def __str__(self) -> str:
        own = "".join(f", own {typed(x)}" for x in self.own)
        return f"learn {', '.join(map(typed, self.targets))}{own}".strip()


@record(eq=False)
class Put:
    """`target = ` a tile in shared memory, of which each warpgroup puts its own rows there. It
    stands there until all have put what follows, and begin with that."""

    target: Expr = field(metadata=GIVES)
    value: Expr
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"{typed(self.target)} = put {show(self.value)}"


@record(eq=False)
class Meet:
    """Wait until all warpgroups have put their rows of a tile."""

    tile: Expr
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"meet at {self.tile.attr}"


@record(eq=False)
class Send:
    """Add a tile, of which each warpgroup has a part, to an output by the copy engine, in any
    order: at these positions, and nothing outside of it."""

    output: str
    access: Descriptor
    value: Expr
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"send {self.output} {self.access} += {show(self.value)}"


@record(eq=False)
class Drain:
    """Wait until what has been sent has left shared memory."""

    origin: Origin | None = None

    def __str__(self) -> str:
        return "drain"


Statement: TypeAlias = (
    Assign
    | Load
    | Store
    | For
    | While
    | If
    | Comment
    | Give
    | Take
    | Clear
    | Release
    | Skip
    | Issue
    | Wait
    | Turn
    | Tell
    | Learn
    | Put
    | Meet
    | Send
    | Drain
)
Body: TypeAlias = tuple[Statement, ...]


def bodies(s: Statement) -> tuple[Body, ...]:
    """Return the bodies that a compound statement holds; none for other statements."""
    match s:
        case For() | While():
            return (s.body,)
        case If():
            return (s.body, s.orelse)
    return ()
