"""A timeline of a block program's loop: loads, products and other work, some blocks long.

Statements run in their order on three units: the copy engine, the matrix unit, and all else. How
long each takes follows from the rates of the cost model; loads run ahead by the stages of the
schedule, and a product that is issued runs beside what follows until it's waited for. It's a model
that shows what may overlap, no measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from monocomp.blocks import program as B
from monocomp.costs.cost import BYTE_TIME, ELEMENT_BYTES, MATRIX_RATE, SPECIAL, SPECIAL_TIME
from monocomp.errors import UsageError
from monocomp.explorer.drawing import GREY, KEY, WARM, Drawing

_BLOCKS = 4
_LANES = ("loads", "products", "other")


@dataclass(frozen=True)
class Event:
    """Work on a unit, from a time to a time, for a block of the stream."""

    lane: int
    start: float
    end: float
    label: str
    block: int


@dataclass
class _Run:
    """The state of the model."""

    lengths: Mapping[str, int]
    stages: int
    now: float = 0.0
    free: list[float] = field(default_factory=lambda: [0.0, 0.0])  # copy engine, matrix unit
    ready: dict[str, float] = field(default_factory=dict)
    freed: list[float] = field(default_factory=list)  # when blocks of the stream were done
    events: list[Event] = field(default_factory=list)


def timeline(programs: Iterable[B.BlockProgram], lengths: Mapping[str, int], stages: int) -> str:
    """The longest loop of a kernel.

    Args:
        programs: the kernels.
        lengths: of blocks, by axis; whole axes with their size.
        stages: how many blocks of the stream are in flight.
    """
    best: _Run | None = None
    chosen = None
    for program in programs:
        for loop in _loops(program.body):
            run = _Run(lengths, max(stages, 1))
            for block in range(_BLOCKS):
                _body(loop.body, run, block)
                run.freed.append(run.now)
            if best is None or run.now > best.now:
                best, chosen = run, (program, loop)
    if best is None or chosen is None:
        raise UsageError("no kernel of this program loops over blocks")
    return _drawn(*chosen, best)


def _loops(body: B.Body) -> Iterator[B.For]:
    """Loops over blocks without a loop inside."""
    found = (s for s in B.walk(body) if isinstance(s, B.For) and isinstance(s.range, B.Blocks))
    yield from (s for s in found if not any(isinstance(i, B.For) for i in B.walk(s.body)))


def _size(layout: B.Layout, run: _Run) -> float:
    return float(prod(run.lengths.get(a, 64) for a in layout if a is not None))


def _body(body: B.Body, run: _Run, block: int) -> None:
    for s in body:
        match s:
            case B.Load() | B.Take():
                _load(s.target, run, block)
            case B.Issue():
                _product(s.target, s.product, run, block, waits=False)
            case B.Wait():
                run.now = max(run.now, run.ready.get(s.target.attr, 0.0))
            case B.Assign():
                _assign(s, run, block)
            case B.If():  # both load the same: by descriptor, or by pointers
                _body(s.body, run, block)
            case B.For() | B.While():
                _body(s.body, run, block)


def _load(target: B.Expr, run: _Run, block: int) -> None:
    before = block - run.stages
    room = run.freed[before] if before >= 0 else 0.0
    start = max(run.free[0], room)
    took = _size(target.layout, run) * ELEMENT_BYTES * BYTE_TIME
    run.free[0] = run.ready[target.attr] = start + took
    run.events.append(Event(0, start, start + took, _plain(target), block))


def _plain(target: B.Expr) -> str:
    return str(target.attr).removesuffix("_tile")


def _product(target: B.Expr, e: B.Expr, run: _Run, block: int, *, waits: bool) -> None:
    for dot in (x for x in B.subexpressions(e) if x.op in ("dot", "dot_in_limbs")):
        left, right = dot.args[:2]
        axes = {a for x in (left, right) for a in x.layout if a is not None}
        took = 2 * _size(tuple(axes), run) / MATRIX_RATE
        start = max([run.now, run.free[1], *(run.ready.get(n, 0.0) for n in _read(dot))])
        run.free[1] = run.ready[target.attr] = start + took
        run.events.append(Event(1, start, start + took, _plain(target), block))
        if waits:
            run.now = start + took


def _read(e: B.Expr) -> list[str]:
    return [str(x.attr) for x in B.subexpressions(e) if x.op == "name"]


def _assign(s: B.Assign, run: _Run, block: int) -> None:
    if any(x.op in ("dot", "dot_in_limbs") for x in B.subexpressions(s.value)):
        _product(s.targets[0], s.value, run, block, waits=True)
        return
    work = sum(_work(x, run) for x in B.subexpressions(s.value))
    if work < 1 or not any(t.layout for t in s.targets):
        return
    start = max([run.now, *(run.ready.get(n, 0.0) for n in _read(s.value))])
    run.now = start + work
    for t in s.targets:
        run.ready[t.attr] = run.now
    label = _plain(s.targets[0])
    run.events.append(Event(2, start, run.now, label, block))


def _work(e: B.Expr, run: _Run) -> float:
    """In the time of one element-wise operation of a multiprocessor."""
    if e.op in ("reduce", "scan"):
        return _size(e.args[0].layout, run) if e.args else 0.0
    if e.op == "function" and e.attr.removesuffix("2") in SPECIAL | {"exp", "log"}:
        return _size(e.layout, run) * SPECIAL_TIME
    is_floating = e.dtype.kind == "float" or e.op == "where"
    return _size(e.layout, run) if is_floating and e.op in B.ELEMENTWISE and e.layout else 0.0


def _drawn(program: B.BlockProgram, loop: B.For, run: _Run) -> str:
    end = max(e.end for e in run.events)
    left, width = 90.0, 780.0
    d = Drawing(900, 262)
    index = loop.range.axis if isinstance(loop.range, B.Blocks) else ""
    d.text(left, 30, f"{program.name}: {_BLOCKS} blocks of {index}", "b")
    lengths = ", ".join(f"{a} {n}" for a, n in run.lengths.items())
    d.text(
        left,
        52,
        f"tiles of {lengths}; {run.stages} stages; by the cost model, bytes from device memory",
        "s",
    )
    for lane, name in enumerate(_LANES):
        y = 76 + 48.0 * lane
        d.text(left - 14, y + 24, name, "s", "end")
        d.line((left, y + 38), (left + width, y + 38), stroke_opacity=0.35)
    fills = (WARM, KEY, GREY)
    for e in run.events:
        y = 76 + 48.0 * e.lane
        x, wide = left + width * e.start / end, width * (e.end - e.start) / end
        d.box(
            x + 0.5,
            y + 4,
            max(wide - 1, 0.8),
            32,
            fills[e.lane],
            rx=3,
            fill_opacity=1 - 0.08 * e.block,
        )
        if wide > 8.2 * len(e.label) + 6:
            d.text(x + wide / 2, y + 25, e.label, "i", "middle")
    for block, at in enumerate(run.freed):
        x = left + width * at / end
        d.line((x, 72), (x, 218), stroke_dasharray="2 4")
        d.text(x - 6, 240, f"block {block}", "s", "end")
    busy = sum(e.end - e.start for e in run.events if e.lane == 1) / end
    d.text(left + width, 30, f"products busy {100 * busy:.0f} % of the time", "s", "end")
    return d.svg(f"Timeline of {program.name}: products busy {100 * busy:.0f} % of the time")
