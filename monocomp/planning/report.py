"""Costs of a program's kernels: passes, operations, bytes and carried state.

A kernel computes a value once for each value of the axes along which it varies, and of the
axes around it that are walked one value at a time: those of the grid and of serial loops. An
axis that is cut into blocks (a row, a stream) counts for what varies along it alone. What
does not, such as the moving of a carried sum to a new maximum, is done once a block, however
long the blocks are: that is the schedule's affair, and is counted as one block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from monocomp.costs.cost import (
    ELEMENT_BYTES,
    ELEMENTWISE,
    NO_OPERATION,
    NOTHING,
    STORED_BYTES,
    Amount,
    Cost,
    Operations,
    amounts,
    one_operation,
    product,
)
from monocomp.tile import (
    Expr,
    Fold,
    Loop,
    Selection,
    Statement,
    Tensor,
    TileProgram,
    elements,
    expressions,
    roots,
    subexpressions,
)
from monocomp.tile.operations import OPERATIONS


def report(kernels: Sequence[TileProgram], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the report of `Kernel.report`; `sizes` are extents by representative."""
    total = sum((tile_cost(k, sizes) for k in kernels), NOTHING)
    counts = {n: getattr(total, n) for n in ("flops", "bytes", "state")}
    shown = {n: c if isinstance(c, int) else c.sympy() for n, c in counts.items()}
    return {"passes": dict(total.passes), "kernels": len(kernels), **shown}


def tile_cost(kernel: TileProgram, sizes: Mapping[str, int]) -> Cost:
    """Return the cost of a tile program, in numbers where all extents are known."""
    count = _Counter(kernel, sizes)
    passes: dict[str, int] = {}
    for s in kernel.body:
        if isinstance(s, Loop):
            name = s.axis.extent.lstrip(".")
            passes[name] = passes.get(name, 0) + 1
    one_by_one = frozenset(kernel.axis_names("grid"))
    operations = count.operations(kernel.body, one_by_one)
    return Cost(passes, {}, operations, count.bytes(), count.state())


class _Counter:
    def __init__(self, kernel: TileProgram, sizes: Mapping[str, int]) -> None:
        self.kernel = kernel
        self.extent = amounts(sizes)

    def product(self, axes: Iterable[str]) -> Amount:
        return product(self.extent(self.kernel.axes[a].extent) for a in axes)

    def operations(self, body: list[Statement], around: frozenset[str]) -> Operations:
        """`around` are the axes that are walked one value at a time. Filters are not counted: a
        causal loop counts as a full one."""
        total = NO_OPERATION
        for s in body:
            for e in roots(s):
                total += self._expression(e, around)
            if isinstance(s, Fold):
                total += self._fold(s, around)
            if isinstance(s, Loop):
                inside = around | {s.axis.name} if s.axis.role == "serial" else around
                total += self.operations(s.body, inside)
        return total

    def _fold(self, s: Fold, around: frozenset[str]) -> Operations:
        """Count what joins each element with the state: for a selection, a comparison."""
        times = self.product(around.union({s.axis}, *(e.axes for e in s.elements)))
        if isinstance(s.monoid, Selection):
            return ELEMENTWISE * times
        joins = (*(let.value for let in s.monoid.body), *s.monoid.results)
        inside = (_operation(e) for root in joins for e in subexpressions(root))
        return sum(inside, NO_OPERATION) * times

    def _expression(self, e: Expr, around: frozenset[str]) -> Operations:
        total = sum((self._expression(a, around) for a in e.args), NO_OPERATION)
        return total + _operation(e) * self.product(around | elements(e))

    def bytes(self) -> Amount:
        """Return each input once for every loop that reads it, each output once. Of a dimension
        that is read at a number it is one entry."""
        total: Amount = 0
        for e in expressions(self.kernel.body):
            if e.op == "load":
                tensor = self.kernel.inputs[e.attr]
                pairs = zip(tensor.dims, e.positions, strict=True)
                dims = (self.extent(dim) for dim, at in pairs if at.op != "number")
                total += product(dims) * _width(tensor)
        for o in self.kernel.outputs:
            total += product(map(self.extent, o.dims)) * _width(o)
        return total

    def state(self) -> Amount:
        """Return numbers carried by the streamed loops, for each row."""
        total: Amount = 0
        for s in self.kernel.body:
            if isinstance(s, Loop):
                for field in s.state:
                    total += self.product(
                        a for a in field.axes if self.kernel.axes[a].role == "whole"
                    )
        return total


def _operation(e: Expr) -> Operations:
    """Return the operations for one element."""
    return one_operation(e.op, e.kind) * OPERATIONS[e.op].each


def _width(tensor: Tensor) -> int:
    return STORED_BYTES if tensor.is_wide else ELEMENT_BYTES
