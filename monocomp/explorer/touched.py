"""Find the tiles that a filter touches: in full, in part, or not at all, over rows and stream.

The filter is a program, evaluated at every pair of positions: the picture is exact for its sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from monocomp import terms as T
from monocomp.declarations.records import Declarations, Output, Param
from monocomp.errors import UsageError
from monocomp.explorer.drawing import GREY, KEY, Drawing
from monocomp.planning.plan import Plan
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.printer import show

_TILES = 16
_LENGTH, _MOST = 1024, 4096  # positions a side: so many unless given, and at most


@dataclass(frozen=True)
class Filter:
    """A condition over a row and a stream; both are indices, the row's None if none is in it."""

    row: Term | None
    stream: Term
    condition: Term


def filters(plan: Plan) -> list[Filter]:
    """Return the distinct filters of what kernels stream."""
    by_condition: dict[Term, Filter] = {}
    for kernel in plan.planned:
        roles = {c.axis.extent: c.axis.role for c in kernel.roles}
        rows = {c.axis.name for c in kernel.roles if c.axis.role == "row"}
        for name in kernel.names:
            e = plan.program.by_name[name]
            for t in T.subterms(e.body):
                if t.op != "fold" or len(t.attr.indices) != 1:
                    continue
                (stream,), (condition, *_) = T.open_fold(t)
                if condition is T.TRUE or roles.get(stream.extent) == "whole":
                    continue
                inside = [i for i in e.indices if i.name in condition.free]
                if not condition.free <= {stream.name, *(i.name for i in inside)}:
                    continue  # it varies with an index of a fold around this one
                row = next((i for i in inside if i.name in rows), None)
                by_condition.setdefault(
                    condition, Filter(row or next(iter(inside), None), stream, condition)
                )
    return list(by_condition.values())


def tiles(plan: Plan, extents: Mapping[str, int]) -> str:
    """Return the first filter's tiles, for sizes by representative where they're given."""
    conditions = filters(plan)
    if not conditions:
        raise UsageError(
            "no filter cuts what this program streams: every tile is full",
            help="a filter is written in brackets: sum[k if k <= q](..)",
        )
    at = conditions[0]
    sizes = _sizes(plan, at, extents)
    indices = [i for i in (at.row, at.stream) if i is not None]
    lengths = [sizes[i.extent] for i in indices]
    for i, length in zip(indices, lengths, strict=True):
        if not 1 <= length <= _MOST:
            name = i.extent.lstrip(".")
            raise UsageError(f"the extent of '{name}' must lie in 1 to {_MOST} for this picture")
    block = -(-max(lengths) // _TILES)
    counts = _counts(plan, at, sizes, block)
    return _drawn(plan, at, counts, block, lengths)


def _sizes(plan: Plan, at: Filter, extents: Mapping[str, int]) -> dict[str, int]:
    """Choose sizes that are long enough for the numbers of the filter to be seen."""
    declared = plan.program.declared
    used = {t.attr for t in T.subterms(at.condition) if t.op == "param"}
    defaults = [declared.params[n].default for n in sorted(used) if n in declared.params]
    longest = max([_LENGTH // 4, *(int(v) for v in defaults if isinstance(v, int))])
    return {e: min(4 * longest, _MOST) for e in declared.extent_of.values()} | dict(extents)


def _counts(plan: Plan, at: Filter, sizes: Mapping[str, int], block: int) -> Any:
    """Compute the share of pairs kept in each tile: (tiles of rows, tiles of the stream)."""
    import torch

    from monocomp.backends.eager.calls import eager

    params = {n: p.default for n, p in _params(plan, at.condition).items()}
    (counts,) = eager(_program(plan, at, sizes))({}, params, torch.float64)
    kept = np.atleast_2d(counts.numpy())
    rows, columns = (range(0, length, block) for length in kept.shape)
    cells = [[kept[r : r + block, c : c + block].mean() for c in columns] for r in rows]
    return np.array(cells)


def _program(plan: Plan, at: Filter, sizes: Mapping[str, int]) -> Equations:
    """Return the program of the filter, which is 1 where it holds."""
    indices = tuple(i for i in (at.row, at.stream) if i is not None)
    body = T.where(at.condition, T.const(1), T.const(0))
    declared = Declarations(
        params=_params(plan, at.condition),
        outputs=(Output("kept"),),
        extent_of={e: e for e in sizes} | {i.name: i.extent for i in indices},
        bounds={e: T.const(size) for e, size in sizes.items()},
    )
    return Equations(declared, (Equation("kept", indices, body),))


def _params(plan: Plan, condition: Term) -> dict[str, Param]:
    """Return the parameters of a filter that is made of these, indices and extents alone."""
    declared, params = plan.program.declared.params, {}
    for t in T.subterms(condition):
        if t.op in ("read", "stored", "ref", "fold", "field"):
            name = show(t, plan.program.reader_names())
            raise UsageError(f"which tiles the filter touches depends on data: it reads {name}")
        if t.op == "param":
            params[t.attr] = declared.get(t.attr, Param(t.attr, t.kind))
            if params[t.attr].default is None:
                raise UsageError(f"the filter needs a number for '{t.attr}', and it has no default")
    return params


def _drawn(plan: Plan, at: Filter, counts: Any, block: int, lengths: list[int]) -> str:
    names = plan.program.reader_names()
    stream = at.stream.extent.lstrip(".")
    names.names[at.stream.name] = stream
    condition = show(at.condition, names)
    row = "" if at.row is None else at.row.name
    side = 400 / _TILES
    height, width = counts.shape[0] * side, counts.shape[1] * side
    d = Drawing(720, max(height, 160) + 110)
    full, empty = (int((counts == share).sum()) for share in (1, 0))
    part = counts.size - full - empty
    d.text(60, 28, f"{stream} if {condition}", "m b")
    shown = " × ".join(str(n) for n in lengths)
    d.text(60, 50, f"{shown} positions in tiles of {block}", "s")
    for (r, c), share in np.ndenumerate(counts):
        x, y = 60 + c * side, 74 + r * side
        if share == 0:
            d.box(x + 1, y + 1, side - 2, side - 2, GREY, rx=2, fill_opacity=0.14)
        elif share == 1:
            d.box(x + 1, y + 1, side - 2, side - 2, KEY, rx=2, fill_opacity=0.9)
        else:
            d.box(x + 1, y + 1, side - 2, side - 2, KEY, rx=2, fill_opacity=0.22, stroke=KEY)
            d.line((x + 4, y + side - 4), (x + side - 4, y + 4), stroke=KEY)
    d.text(60 + width / 2, 74 + height + 22, f"{stream} →", "s", "middle")
    d.text(48, 74 + height / 2, row, "s", "end")
    x = 60 + width + 36
    for n, (label, count, opacity) in enumerate(
        (
            ("full: no mask", full, 0.9),
            ("in part: masked", part, 0.22),
            ("empty: skipped", empty, 0.14),
        )
    ):
        y = 84 + 30 * n
        d.box(x, y, 16, 16, GREY if "empty" in label else KEY, rx=2, fill_opacity=opacity)
        d.text(x + 26, y + 13, f"{count}  {label}")
    kept = float(counts.mean())
    d.text(x, 196, f"{100 * kept:.3g} % of all pairs", "s")
    d.text(x, 216, f"in {100 * (full + part) / counts.size:.3g} % of the tiles", "s")
    return d.svg(f"Tiles of {condition}: {full} full, {part} in part, {empty} empty")
