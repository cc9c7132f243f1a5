"""Axes of kernels, and expressions: values that are tiles with named axes.

Each index of the kernel is an axis with a role:

    grid    one program instance per value
    row     cut into blocks, one program instance per block
    stream  looped over in blocks
    serial  looped over one value at a time
    whole   held entirely, as one tile; or as two, then it is two axes, one after the other

As axes have names, broadcasting is by name, and the order of axes is the backend's business.

    expression = an operation of the table, of expressions
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, TypeAlias

from monocomp.declarations.record import record
from monocomp.declarations.vocabulary import Kind
from monocomp.errors import InternalError
from monocomp.terms import Term
from monocomp.terms.printer import show
from monocomp.tile.operations import OPERATIONS, result_kind

Role: TypeAlias = Literal["grid", "row", "stream", "serial", "whole"]


@record()
class Axis:
    """An index of the kernel: its name, the extent that it ranges over, and its role.

    `after` names the axis of the first tile in that of a second one: both have the extent of the
    index, and the second begins where the tile of the first ends, which is the schedule's choice.
    """

    name: str
    extent: str
    role: Role
    after: str | None = None

    @property
    def tile(self) -> frozenset[str]:
        """Return the axes of its coordinates: of some axes a program has one value at a time."""
        return frozenset() if self.role in ("grid", "serial") else frozenset({self.name})


@record(eq=False)
class Expr:
    """A value: an operation on values, with the axes along which it varies.

    `op` is a row of `operations.OPERATIONS`, which says what `attr` is. A load has a guard as its
    last operand if it is `guarded`: what is not admitted is not read, and 0. What leaves its tensor
    along a dimension is not read either: along those that are `inside` nothing does, whatever the
    coordinates are. A contraction may have a third operand, which the sum over the axis of left *
    right is added to. `masked` is the value inside of the domain of its axis, and a unit elsewhere.
    """

    op: str
    args: tuple[Expr, ...]
    attr: Any
    axes: frozenset[str]
    kind: Kind
    guarded: bool = False
    inside: frozenset[int] = frozenset()

    @property
    def positions(self) -> tuple[Expr, ...]:
        """Return the operands of a load but its guard."""
        return self.args[:-1] if self.guarded else self.args

    @property
    def guard(self) -> Expr | None:
        """Return the condition that admits the elements of a load; None if it is not guarded."""
        return self.args[-1] if self.guarded else None

    @cached_property
    def below(self) -> tuple[Expr, ...]:
        """Return its operands and theirs, operands first."""
        return tuple([x for a in self.args for x in (*a.below, a)])


@record()
class Origin:
    """The term of an equation that a statement computes, or helps to compute. A program's text does
    not show it."""

    equation: str
    term: Term

    def __str__(self) -> str:
        return f"{self.equation}: {show(self.term)}"


def subexpressions(e: Expr) -> tuple[Expr, ...]:
    """e and its operands, operands first."""
    return (*e.below, e)


def leaves(e: Expr) -> Iterator[Expr]:
    """Return the named values that an expression reads."""
    return (x for x in subexpressions(e) if x.op == "local")


def over(e: Expr) -> str | None:
    """Return the axis that an expression reduces, which its operands have and it lacks."""
    return OPERATIONS[e.op].reduced(e.attr)


def elements(e: Expr) -> frozenset[str]:
    """Return the axes of the elements for each of which an operation is done."""
    reduced = over(e)
    return e.axes if reduced is None else e.axes | {reduced}


def number(value: float, kind: Kind = "float") -> Expr:
    """Return a literal."""
    return Expr("number", (), _EXACT[kind](value), frozenset(), kind)


_EXACT: dict[Kind, Callable[[float], float]] = {"float": float, "int": int, "bool": bool}


def coordinate(axis: Axis) -> Expr:
    """Return the coordinates of an axis."""
    return Expr("coordinate", (), axis.name, axis.tile, "int")


def local(name: str, axes: frozenset[str], kind: Kind) -> Expr:
    """Return a named value or a state."""
    return Expr("local", (), name, axes, kind)


def apply(op: str, *args: Expr, attr: Any = None, along: Iterable[str] = ()) -> Expr:
    """Return an operation on values, broadcast by the names of their axes; `along` are further
    ones.

    Raises:
        InternalError: there is no such operation, or the operands do not fit.
    """
    row = OPERATIONS.get(op)
    kind = None if row is None else result_kind(row, attr, tuple([a.kind for a in args]))
    if row is None or kind is None:
        raise InternalError(f"there is no {op} of {', '.join(a.kind for a in args)}")
    axes = frozenset(along).union(*[a.axes for a in args])
    reduced = row.reduced(attr)
    if reduced is not None and reduced not in axes:
        raise InternalError(f"{op} along {reduced}, which no operand has")
    return Expr(op, args, attr, axes - {reduced}, kind)
