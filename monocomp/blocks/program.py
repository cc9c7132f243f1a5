"""The block program: one kernel for one way of running it, as data, read by every GPU dialect.

A value is a tile whose dimensions are in an explicit order: its `layout` names the axis of each,
None where the dimension has length 1, and () is a scalar. Nothing is left to the printer of a
dialect: conversions are operations, loads say how they are made and what they leave out, and
loops which blocks they run over.

    program   = arguments, body, functions, rings, producer
    body      = statements, those of `statements`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TypeAlias

from monocomp.blocks.statements import Block, Body, Ring, Statement, bodies
from monocomp.blocks.traversal import given
from monocomp.blocks.values import Expr, show
from monocomp.declarations.record import record
from monocomp.tile import Axis

Line: TypeAlias = tuple[str, Statement | None]  # of a text; None: what is declared


@record()
class Argument:
    """An argument of a kernel and its purpose: a pointer, that to a map, a descriptor, the stride
    of a dimension, an extent's size, a parameter, an axis's block length, whether that divides the
    extent, an option, the number of items and the counter of those that have been claimed; or, as
    the schedule says, the order, the stages of rings, and how many warpgroups compute."""

    purpose: str
    of: str
    dim: int
    name: Expr
    is_constant: bool

    @property
    def key(self) -> tuple[str, str, int]:
        """Return what identifies the argument to those who pass it."""
        return self.purpose, self.of, self.dim


@record()
class Rows:
    """A block of rows: its first position, where all rows stop, and whether each block is full."""

    start: Expr
    stop: Expr
    are_full: Expr


@record()
class Function:
    """The combine of a monoid."""

    name: str
    doc: str
    operands: tuple[Expr, ...]
    body: Body
    results: tuple[Expr, ...]


@record()
class BlockProgram:
    """One kernel.

    Attributes:
        name: its identifier.
        arguments: in order.
        axes: those of the tile program.
        lengths: the block length of each axis that has blocks, a name or a number.
        rows: those of an instance, by axis.
        body, functions: what it does, and the combines that it calls, by name.
        grid: rows and grid axes, the fastest first.
        shared: pairs of tensors that one matrix product takes together.
        held: the dimension of tensors along which a tile holds them entirely.
        blocks: what descriptors load, in the order of the arguments.
        added: the integer parameters of sums and products.
        rings: what blocks go through that are asked for ahead.
        producer: what a warp of its own runs, which asks for them.
        finder: what another warp runs, which finds out where blocks are and tells the others; if
            there is none, the producer does.
        divided: the rows of one warpgroup along each axis whose rows are divided among several.
        precision: that of products of float32, if there are products.
        maps: the kernels that list the blocks of its loops, by number.
    """

    name: str
    arguments: tuple[Argument, ...]
    axes: Mapping[str, Axis]
    lengths: Mapping[str, Expr]
    body: Body
    functions: Mapping[str, Function] = field(default_factory=dict)
    grid: tuple[Axis, ...] = ()
    shared: tuple[tuple[str, str], ...] = ()
    held: Mapping[str, int] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    added: tuple[str, ...] = ()
    rings: tuple[Ring, ...] = ()
    producer: Body = ()
    finder: Body = ()
    divided: Mapping[str, Expr] = field(default_factory=dict)
    precision: Expr | None = None
    rows: Mapping[str, Rows] = field(default_factory=dict)
    maps: tuple[BlockProgram, ...] = ()

    @property
    def spanning(self) -> frozenset[str]:
        """Return the axes of all rows of an instance, beside those of rows that are divided."""
        return frozenset(a for a, axis in self.axes.items() if axis.name != a)

    @property
    def taken(self) -> set[str]:
        """Return the names that it has."""
        return given(self.body) | {a.name.attr for a in self.arguments}

    def lines(self) -> Iterator[Line]:
        """Yield the lines of its text, each with its statement; first the functions that it
        calls."""
        for m in self.maps:
            yield from m.lines()
        for f in self.functions.values():
            yield f"function {f.name}({', '.join(map(show, f.operands))})", None
            yield from _lines(f.body, "  ")
            yield f"  return {', '.join(map(show, f.results))}", None
        yield f"kernel {self.name}({', '.join(a.name.attr for a in self.arguments)})", None
        if self.finder:
            yield "  finder:", None
            yield from _lines(self.finder, "    ")
        if self.producer:
            yield "  producer:", None
            yield from _lines(self.producer, "    ")
            yield "  consumers:", None
        yield from _lines(self.body, "    " if self.producer else "  ")

    def __str__(self) -> str:
        return "\n".join(text for text, _ in self.lines())


def _lines(body: Body, indent: str) -> Iterator[Line]:
    for s in body:
        yield f"{indent}{s}", s
        for n, inner in enumerate(bodies(s)):
            if n and inner:
                yield f"{indent}else:", s
            yield from _lines(inner, indent + "  ")
