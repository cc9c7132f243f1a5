"""What tells kernels apart where schedules are chosen: numbers, none of them a program's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import log2, prod
from typing import Any

from benchmarks.schedules.legal import Legal
from monocomp.backends.triton.schedule import SECTOR, held_length
from monocomp.sizes import power_of_two
from monocomp.tile import Expr, Loop, Statement, expressions, roots, subexpressions, walk

_SPECIAL = ("exp2", "log2", "log", "tanh", "rsqrt", "sqrt", "sin", "cos", "erf", "div")
_FREE = ("number", "param", "extent", "coordinate", "local", "load", "contract", "cast", "masked")
_SPECIAL_WORK = 8  # element-wise operations that one of the special functions counts for


@dataclass(frozen=True)
class Features:
    """Numbers of a kernel at given sizes; lengths and counts are logarithms to base 2.

    Attributes:
        rows, streams: how many axes of rows and of streams there are: shapes have a length of each.
        products: of matrices, in all loops.
        parts: are streams cut into parts?
        bytes: of the elements of matrices.
        places: of the grid.
        row: how many rows there are at a place.
        length: of the longest stream.
        held: the padded length of a row of all accumulators.
        whole: the longest padded axis that is held entirely.
        streamed: elements of tensors that a stream brings for each of its places.
        work: element-wise operations on tiles of rows and streams, for each of their elements.
        limbs: products of operands in two bf16 limbs.
        added: tiles of rows and a stream that are loaded.
        masked: does a loop mask some of its elements?
        bounded: do the bounds of a loop vary with the rows?
        levels: of loads that wait for one another.
        loops: over streams.
        rest: do rows of a stream leave sectors of the cache unfilled?
        describes: can descriptors load tiles?
        two: can axes be padded less in two tiles?
    """

    rows: int
    streams: int
    products: int
    parts: bool
    bytes: int
    places: float
    row: float
    length: float
    held: float
    whole: float
    streamed: float
    work: float
    limbs: int
    added: int
    masked: bool
    bounded: bool
    levels: int
    loops: int
    rest: bool
    describes: bool
    two: bool

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {k: round(v, 2) if type(v) is float else v for k, v in asdict(self).items()}


def features(space: Legal) -> Features:
    """The features of a kernel."""
    program, model, sizes = space.program, space.model, space.sizes
    loops = [s for s in walk(program.body) if isinstance(s, Loop) and s.axis.role == "stream"]
    rows, streams = {*space.rows}, {*space.streams}
    tiles = [e for e in _values(program.body) if e.axes & rows and e.axes & streams]
    if not rows or not streams:
        tiles = [e for e in _values(program.body) if e.axes & model.blocked]
    held = {a.name: a for a in program.axes.values() if a.role == "whole"}
    lengths = {n: held_length(program, n, model.size(n)) for n in held}
    loads = [e for e in expressions(program.body) if e.op == "load"]
    streamed = {(e.attr, e.axes): prod(lengths[a] for a in e.axes & held.keys()) for e in loads}
    brought = [n for (_, axes), n in streamed.items() if axes & streams and axes & held.keys()]
    places = prod(model.size(a) for a in program.axis_names("grid"))
    matrices = [e for e in loads if e.axes & streams and e.axes & held.keys()]
    last = [held[a].extent for e in matrices for a in e.axes & held.keys()]
    return Features(
        rows=len(rows),
        streams=len(streams),
        products=len({id(e) for e in model.products}),
        parts=bool(program.parts),
        bytes=space.element_bytes,
        places=log2(max(1, places)),
        row=log2(max(1, prod(power_of_two(model.size(a)) for a in rows))),
        length=log2(max([1, *(model.size(loop.axis.name) for loop in loops)])),
        held=log2(max([1, *(_carried(loop, lengths) for loop in loops)])),
        whole=log2(max([1, *lengths.values()])),
        streamed=log2(max(1, sum(brought))),
        work=log2(1 + sum(map(_operations, tiles))),
        limbs=sum(any(a in model.in_parts for a in e.args[:2]) for e in model.products),
        added=sum(bool(e.axes & rows and e.axes & streams) for e in loads),
        masked=any(s.masked for loop in loops for s in loop.segments),
        bounded=any(e.axes & model.blocked for loop in loops for e in loop.bounds),
        levels=model.levels,
        loops=len(loops),
        rest=any(sizes.get(e, SECTOR) % SECTOR for e in last),
        describes=space.describes,
        two=bool(space.in_two),
    )


def _values(body: list[Statement]) -> Iterator[Expr]:
    for s in walk(body):
        for root in roots(s):
            yield from subexpressions(root)


def _operations(e: Expr) -> int:
    if e.op in _FREE:
        return 0
    return _SPECIAL_WORK if e.op in _SPECIAL else 1


def _carried(loop: Loop, lengths: Mapping[str, int]) -> int:
    """The length of a row of all tiles that a loop carries, also of those in loops inside."""
    inside = sum(_carried(s, lengths) for s in loop.body if isinstance(s, Loop))
    tiles = (s.axes & lengths.keys() for s in loop.state)
    return inside + sum(prod(lengths[a] for a in axes) for axes in tiles if axes)
