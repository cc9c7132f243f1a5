"""The data types of tile programs.

Each index of the kernel is an axis with a role:

    grid    one program instance per value
    row     cut into blocks, one program instance per block
    stream  looped over in blocks
    serial  looped over one value at a time
    whole   held entirely, as one tile; or as two, then it is two axes, one after the other

A value is a tile with *named* axes, so broadcasting is by name and the order of axes is
the backend's business. Statements are few: name a value, fold a tile into a state, loop over
an axis with a carried state, keep what a mask admits, update the state, store. A loop's domain
is a disjoint union of segments, run one after the other with one state. A segment's bounds may
vary with the rows; a backend turns them into a block range with an unmasked middle, and applies
`masked` values only where a block sticks out. What is left open (block sizes, warps,
stages, order) is the schedule.

    kernel  = axes, inputs, params, outputs, body
    body    = statement*
    statement = Let | Fold | Loop | Mask | Assign | Store
    loop    = axis, segment+, state*, statement*
    expression = number | param | extent | coordinate | local | load
               | contract | reduce | masked | element-wise operation
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from monocomp.errors import InternalError
from monocomp.tile.operations import OPERATIONS, result_kind
from monocomp.vocabulary import Kind

Role: TypeAlias = Literal["grid", "row", "stream", "serial", "whole"]


@dataclass(frozen=True)
class Axis:
    """An index of the kernel: its name, the extent that it ranges over, and its role.

    `after` names the axis of the first tile in that of a second one: both have the extent of the
    index, and the second begins where the tile of the first ends, which is the schedule's choice.
    """

    name: str
    extent: str
    role: Role
    after: str | None = None


@dataclass(frozen=True, eq=False)
class Expr:
    """A value: an operation on values, with the axes along which it varies.

    op and attr are one of
        number(value), param(name), extent(name), coordinate(axis), local(name),
        load(tensor) of the subscripts; a further operand is a guard if `guarded`,
        contract(axis) of left, right [, initial]: the sum over the axis of left * right,
        reduce((monoid, axis)) of a value,
        masked((axis, unit)) of a value: the unit outside the loop's domain,
        compare(sign), and element-wise operations without attr.
    """

    op: str
    args: tuple[Expr, ...]
    attr: Any
    axes: frozenset[str]
    kind: Kind
    guarded: bool = False


@dataclass(eq=False)
class Let:
    """`name = value`."""

    name: str
    value: Expr


@dataclass(frozen=True, eq=False)
class Combine:
    """The combine of a monoid of tuples, element by element.

    Attributes:
        name: the monoid's.
        left, right: names of the operands' fields.
        body: what the results share.
        results: the combined fields; besides `body` they mention left and right only.
        commutes: is the order of the operands known not to matter?
    """

    name: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    body: tuple[Let, ...]
    results: tuple[Expr, ...]
    commutes: bool


@dataclass(frozen=True)
class Selection:
    """Keeps the largest values and their places, in order along `axis`.

    Of equal values the first places come first. Values of -inf are never kept: what is
    missing is -inf at place -1.
    """

    axis: str


@dataclass(eq=False)
class Fold:
    """`names = state . x[0] . x[1] ...`: the elements of a tile along an axis, in this order,
    combined with a state. State, elements and names have a part for each field of the
    monoid; a selection's are values and places. `prefixes`, if any, name tiles along the axis
    that hold the state combined with x[0] ... x[n], for every n.
    """

    names: tuple[str, ...]
    monoid: Combine | Selection
    axis: str
    state: tuple[Expr, ...]
    elements: tuple[Expr, ...]
    prefixes: tuple[str, ...] = ()


@dataclass(eq=False)
class Assign:
    """`state <- value`, at the end of a loop's body."""

    name: str
    value: Expr


@dataclass(eq=False)
class Store:
    """Write a value to an output at the coordinates of the axes, one for each dimension."""

    output: str
    value: Expr
    axes: tuple[str, ...]


@dataclass(eq=False)
class Mask:
    """In a loop's body: from here on just those elements of masked segments are in the
    domain for which the value holds. What no row of a block admits is not read, and a block
    without any member may leave the rest of the body out.
    """

    value: Expr


@dataclass(frozen=True)
class State:
    """A field that a loop carries: a tile that starts as `unit` everywhere."""

    name: str
    axes: frozenset[str]
    kind: Kind
    unit: float


@dataclass(frozen=True)
class Segment:
    """From max(lower) to min(upper), cut to the axis's extent; of a masked one the
    elements that the loop's `Mask` admits."""

    lower: tuple[Expr, ...] = ()
    upper: tuple[Expr, ...] = ()
    masked: bool = False

    @property
    def bounds(self) -> tuple[Expr, ...]:
        """All bounds."""
        return (*self.lower, *self.upper)


WHOLE = (Segment(),)  # the segments of a loop over everything


@dataclass(eq=False)
class Loop:
    """Stream an axis: the segments, which are disjoint and in ascending order.

    `folds` are the folds that it carries, as text.
    """

    axis: Axis
    segments: tuple[Segment, ...]
    state: list[State]
    body: list[Statement]
    folds: tuple[str, ...] = ()

    @property
    def bounds(self) -> tuple[Expr, ...]:
        """The bounds of all segments."""
        return tuple(e for s in self.segments for e in s.bounds)

    @property
    def is_whole(self) -> bool:
        """Is every element of the axis in the domain?"""
        return self.segments == WHOLE


Statement: TypeAlias = Let | Fold | Mask | Assign | Store | Loop


@dataclass(frozen=True)
class Tensor:
    """A tensor argument of the kernel; `dims` names the extent of each dimension.

    `is_stored` says that an earlier kernel has computed it.
    """

    name: str
    dims: tuple[str, ...]
    kind: Kind
    is_stored: bool = False


@dataclass(frozen=True)
class OutputTensor:
    """A result; `axes` are the kernel's axes in the order of its dimensions, the first of two
    that are one index.

    What is stored for other kernels has the precision that sums are accumulated in.
    """

    name: str
    axes: tuple[str, ...]
    kind: Kind
    dtype: str | None
    is_stored: bool = False


@dataclass
class TileProgram:
    """One kernel.

    `parts` are the extents of the parts that its streams are cut into, whose number is part of
    the schedule.
    """

    name: str
    axes: dict[str, Axis]
    inputs: dict[str, Tensor]
    params: dict[str, Kind]
    outputs: tuple[OutputTensor, ...]
    body: list[Statement] = field(default_factory=list)
    parts: frozenset[str] = frozenset()

    def axis_names(self, *roles: Role) -> list[str]:
        """The axes that have one of the roles, in a fixed order."""
        return [a.name for a in self.axes.values() if a.role in roles]

    def extents(self) -> list[str]:
        """The extents that the kernel mentions, in a fixed order."""
        found = dict.fromkeys(a.extent for a in self.axes.values())
        found |= dict.fromkeys(d for t in self.inputs.values() for d in t.dims)
        for e in expressions(self.body):
            if e.op == "extent":
                found[e.attr] = None
        return list(found)

    def __str__(self) -> str:
        from monocomp.tile.printer import show_program  # which reads tile programs

        return show_program(self)


def walk(body: list[Statement]) -> Iterator[Statement]:
    """Every statement, loops before what they hold."""
    for s in body:
        yield s
        if isinstance(s, Loop):
            yield from walk(s.body)


def roots(s: Statement) -> tuple[Expr, ...]:
    """The expressions that a statement evaluates itself."""
    match s:
        case Loop():
            return s.bounds
        case Fold():
            return (*s.state, *s.elements)
    return (s.value,)


def expressions(body: list[Statement]) -> Iterator[Expr]:
    """Every expression in the body, operands before what uses them."""
    for s in walk(body):
        for root in roots(s):
            yield from subexpressions(root)


def subexpressions(e: Expr) -> Iterator[Expr]:
    """e and its operands, operands first."""
    for a in e.args:
        yield from subexpressions(a)
    yield e


def over(e: Expr) -> str | None:
    """The axis that an expression reduces, which its operands have and it lacks."""
    return OPERATIONS[e.op].reduced(e.attr)


def elements(e: Expr) -> frozenset[str]:
    """The axes of the elements for each of which an operation is done."""
    reduced = over(e)
    return e.axes if reduced is None else e.axes | {reduced}


def number(value: float, kind: Kind = "float") -> Expr:
    """A literal."""
    return Expr("number", (), _EXACT[kind](value), frozenset(), kind)


_EXACT: dict[Kind, Callable[[float], float]] = {"float": float, "int": int, "bool": bool}


def local(name: str, axes: frozenset[str], kind: Kind) -> Expr:
    """A named value or a state."""
    return Expr("local", (), name, axes, kind)


def apply(op: str, *args: Expr, attr: Any = None, along: Iterable[str] = ()) -> Expr:
    """An operation on values, broadcast by the names of their axes; `along` are further ones.

    Raises:
        InternalError: the operands do not fit.
    """
    row = OPERATIONS[op]
    kind = result_kind(row, attr, tuple([a.kind for a in args]))
    if kind is None:
        raise InternalError(f"{op} of {', '.join(a.kind for a in args)}")
    axes = frozenset(along).union(*[a.axes for a in args])
    if row.reduces:
        axes -= {row.parts(attr)[-1]}
    return Expr(op, args, attr, axes, kind)
