"""Statements of tile programs.

Statements are few: name a value, fold a tile into a state, loop over an axis with a carried state,
keep what a mask admits, update the state, store or add. A loop's domain is a disjoint
union of segments, run one after the other with one state. A segment's bounds may vary with the
rows; a backend turns them into a block range with an unmasked middle, and applies `masked` values
only where a block sticks out.

    body    = statement*
    statement = Let | Fold | Loop | Mask | Assign | Store
    loop    = axis, segment+, state*, statement*
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from monocomp.declarations.record import expressions_in, record, with_expressions
from monocomp.declarations.vocabulary import Kind
from monocomp.display.formulas import Formula
from monocomp.tile.values import Axis, Expr, Origin


@dataclass(eq=False)
class Let:
    """`name = value`."""

    name: str
    value: Expr
    origin: Origin | None = None


@record(eq=False)
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


@record()
class Selection:
    """Keeps the largest values and their positions, in order along `axis`.

    Of equal values the first positions come first. Values of -inf are never kept: what is
    missing is -inf at position -1.
    """

    axis: str


@dataclass(eq=False)
class Fold:
    """`names = state . x[0] . x[1] ...`: the elements of a tile along an axis, in this order,
    combined with a state. State, elements and names have a part for each field of the
    monoid; a selection's are values and positions. `prefixes`, if any, name tiles along the axis
    that hold the state combined with x[0] ... x[n], for every n.
    """

    names: tuple[str, ...]
    monoid: Combine | Selection
    axis: str
    state: tuple[Expr, ...]
    elements: tuple[Expr, ...]
    prefixes: tuple[str, ...] = ()
    origin: Origin | None = None


@dataclass(eq=False)
class Assign:
    """`state <- value`, at the end of a loop's body."""

    name: str
    value: Expr
    origin: Origin | None = None


@dataclass(eq=False)
class Store:
    """Write a value to an output, whose dimensions are these axes, or add it to what is there.

    Written are the elements in the domains of the loops around it. What a loop adds is 0 outside of
    its domain, and added once for each value of the axes of the grid, and for each block of rows.
    """

    output: str
    axes: tuple[str, ...]
    value: Expr
    mode: Literal["set", "add"] = "set"
    origin: Origin | None = None


@dataclass(eq=False)
class Mask:
    """In a loop's body: from here on just those elements of masked segments are in the
    domain for which the value holds. What no row of a block admits is not read, and a block
    without any member may leave the rest of the body out.
    """

    value: Expr
    origin: Origin | None = None


@record()
class State:
    """A field that a loop carries: a tile of these axes that starts as a value."""

    name: str
    axes: frozenset[str]
    start: Expr

    @property
    def kind(self) -> Kind:
        """Return the kind of the field."""
        return self.start.kind


@record()
class Segment:
    """Positions from max(lower) to min(upper), cut to the axis's extent; of a masked one the
    elements that the loop's `Mask` admits."""

    lower: tuple[Expr, ...] = ()
    upper: tuple[Expr, ...] = ()
    masked: bool = False

    @property
    def bounds(self) -> tuple[Expr, ...]:
        """Return all bounds."""
        return (*self.lower, *self.upper)


WHOLE = (Segment(),)  # the segments of a loop over everything


@dataclass(eq=False)
class Loop:
    """Stream an axis: the segments, which are disjoint and in the order of the loop.

    `folds` are the folds that it carries, as shown. A loop that `is_backwards` goes from the last
    element of the last segment, which is listed first, to the first element; so do folds along its
    axis. What assignments alone carry are sums and extremes, which commute.
    """

    axis: Axis
    segments: tuple[Segment, ...]
    state: list[State]
    body: list[Statement]
    folds: tuple[Formula, ...] = ()
    is_backwards: bool = False
    origin: Origin | None = None

    @property
    def bounds(self) -> tuple[Expr, ...]:
        """Return the bounds of all segments."""
        return tuple(e for s in self.segments for e in s.bounds)

    @property
    def domain(self) -> frozenset[str]:
        """Return the axes along which it varies whether an element is in the loop's domain."""
        masks = (s.value for s in self.body if isinstance(s, Mask))
        return self.axis.tile.union(*(e.axes for e in (*self.bounds, *masks)))

    @property
    def is_ordered(self) -> bool:
        """True if it matters which elements come first."""
        folds = [s for s in walk(self.body) if isinstance(s, Fold)]
        commute = (isinstance(s.monoid, Combine) and s.monoid.commutes for s in folds)
        return self.is_backwards or not all(commute) or any(s.prefixes for s in folds)

    @property
    def is_exact(self) -> bool:
        """True if the loop is entered for elements of the domain alone, one at a time, by an
        instance for one value of each index of the grid."""
        is_masked = any(isinstance(s, Mask) for s in self.body)
        return self.axis.role == "serial" and not self.domain and not is_masked

    @property
    def is_whole(self) -> bool:
        """True if every element of the axis is in the domain."""
        return self.segments == WHOLE


Statement: TypeAlias = Let | Fold | Mask | Assign | Store | Loop
_S = TypeVar("_S", bound=Statement)
_PARTS = (Segment, State)  # of loops, with expressions of their own
# The dtype of what is stored for products of matrices alone: that of what they multiply it with.
OPERAND = "operand"
# The dtype of sums that products add to: float32, and blocks of 64 rows and columns lie one after
# the other, as threads hold results (`blocks.building.accesses`).
FRAGMENTS = "fragments"


@record()
class Tensor:
    """A tensor that a kernel reads or computes; `dims` names the extent of each dimension.

    `is_stored` says that an earlier kernel has computed it, or that it is for later ones; `dtype`
    is that of an input, or of an output, where it is known, OPERAND or FRAGMENTS. What is stored
    has the precision that sums are accumulated in, unless only products of matrices read it. A
    result that stores add to starts as 0.
    """

    name: str
    dims: tuple[str, ...]
    kind: Kind
    is_stored: bool = False
    dtype: str | None = None

    @property
    def is_wide(self) -> bool:
        """True if it has the precision that sums are accumulated in."""
        return self.is_stored and self.kind == "float" and self.dtype != OPERAND


def walk(body: Iterable[Statement]) -> Iterator[Statement]:
    """Yield every statement, loops before what they hold."""
    for s in body:
        yield s
        if isinstance(s, Loop):
            yield from walk(s.body)


def roots(s: Statement) -> tuple[Expr, ...]:
    """Return the expressions that a statement evaluates itself."""
    return expressions_in(s, Expr, _PARTS)


def with_roots(s: _S, visit: Callable[[Expr], Expr]) -> _S:
    """Return the statement with other expressions, each from the one in its place."""
    return with_expressions(s, Expr, _PARTS, visit)


def expressions(body: Iterable[Statement]) -> Iterator[Expr]:
    """Yield every expression in the body, operands before what uses them."""
    for s in walk(body):
        for root in roots(s):
            yield from root.below
            yield root


def names_read(body: Iterable[Statement]) -> set[str]:
    """Return the names of the values and states that statements read."""
    return {e.attr for e in expressions(body) if e.op == "local"}


def multiplies(body: Iterable[Statement]) -> bool:
    """True if statements sum products of tiles."""
    return any(e.op == "contract" for e in expressions(body))


def given(s: Statement) -> dict[str, frozenset[str]]:
    """Return the names that a statement gives itself, to values and states, with their axes."""
    match s:
        case Let():
            return {s.name: s.value.axes}
        case Fold():
            axes = frozenset().union(*(e.axes for e in (*s.state, *s.elements))) - {s.axis}
            return dict.fromkeys(s.names, axes) | dict.fromkeys(s.prefixes, axes | {s.axis})
        case Loop():
            return {field.name: field.axes for field in s.state}
    return {}


def names(body: Iterable[Statement]) -> Iterator[str]:
    """Yield the names that statements give, in their order: those of values and states."""
    return (name for s in walk(body) for name in given(s))
