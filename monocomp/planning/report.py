"""What the kernels of a program cost: passes, operations, bytes and carried state.

A kernel computes a value once for each value of the axes along which it varies, and of the
axes around it that are walked one value at a time: those of the grid and of serial loops. An
axis that is cut into blocks (a row, a stream) counts for what varies along it alone. What
does not, such as the moving of a carried sum to a new maximum, is done once a block, however
long the blocks are: that is the schedule's affair, and is counted as one block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from monocomp.tile import (
    Expr,
    Fold,
    Loop,
    OutputTensor,
    Selection,
    Statement,
    Tensor,
    TileProgram,
    roots,
    subexpressions,
    walk,
)

ELEMENT_BYTES, STORED_BYTES = 2, 4
_FREE = ("number", "param", "extent", "coordinate", "local", "load", "masked", "cast")


def report(kernels: Sequence[TileProgram], sizes: Mapping[str, int]) -> dict[str, Any]:
    """The report of `Kernel.report`; `sizes` are extents by representative."""
    count = _Counter(sizes)
    passes: dict[str, int] = {}
    flops: Any = 0
    moved: Any = 0
    state: Any = 0
    for kernel in kernels:
        for s in kernel.body:
            if isinstance(s, Loop):
                name = s.axis.extent.lstrip(".")
                passes[name] = passes.get(name, 0) + 1
        one_by_one = frozenset(kernel.axis_names("grid"))
        flops += count.operations(kernel, kernel.body, one_by_one)
        moved += count.bytes(kernel)
        state += count.state(kernel)
    return {
        "passes": passes,
        "kernels": len(kernels),
        "flops": flops,
        "bytes": moved,
        "state": state,
    }


class _Counter:
    """Counts in numbers where all extents are known, else in sympy symbols."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes

    def extent(self, name: str) -> Any:
        if name in self.sizes:
            return self.sizes[name]
        import sympy

        return sympy.Symbol(name.lstrip("."), positive=True, integer=True)

    def product(self, kernel: TileProgram, axes: Iterable[str]) -> Any:
        total: Any = 1
        for a in axes:
            total *= self.extent(kernel.axes[a].extent)
        return total

    def operations(self, kernel: TileProgram, body: list[Statement], around: frozenset[str]) -> Any:
        """Floating-point operations; `around` are the axes that are walked one value at a time.
        Filters are not counted: a causal loop counts as a full one."""
        total: Any = 0
        for s in body:
            for e in roots(s):
                total += self._expression(kernel, e, around)
            if isinstance(s, Fold):
                total += self._fold(kernel, s, around)
            if isinstance(s, Loop):
                inside = around | {s.axis.name} if s.axis.role == "serial" else around
                total += self.operations(kernel, s.body, inside)
        return total

    def _fold(self, kernel: TileProgram, s: Fold, around: frozenset[str]) -> Any:
        """What joins one element with the state, for each; a selection compares it."""
        axes = around.union({s.axis}, *(e.axes for e in s.elements))
        if isinstance(s.monoid, Selection):
            return self.product(kernel, axes)
        joins = (*(let.value for let in s.monoid.body), *s.monoid.results)
        inside = (e for root in joins for e in subexpressions(root))
        number = sum(e.kind == "float" and e.op not in _FREE for e in inside)
        return number * self.product(kernel, axes)

    def _expression(self, kernel: TileProgram, e: Expr, around: frozenset[str]) -> Any:
        total: Any = 0
        for a in e.args:
            total += self._expression(kernel, a, around)
        if e.kind != "float" or e.op in _FREE:
            return total
        if e.op == "contract":
            axes = around | e.args[0].axes | e.args[1].axes
            return total + 2 * self.product(kernel, axes)
        axes = around | (e.args[0].axes if e.op == "reduce" else e.axes)
        return total + self.product(kernel, axes)

    def bytes(self, kernel: TileProgram) -> Any:
        """Each input once for every loop that reads it, each output once. Of a dimension that is
        read at a number it is one entry."""
        total: Any = 0
        for s in walk(kernel.body):
            for root in roots(s):
                for e in _loads(root):
                    tensor = kernel.inputs[e.attr]
                    pairs = zip(tensor.dims, e.args, strict=False)  # a guard comes last
                    dims = (dim for dim, place in pairs if place.op != "number")
                    total += self._tensor(dims) * _width(tensor)
        for o in kernel.outputs:
            total += self._tensor(kernel.axes[a].extent for a in o.axes) * _width(o)
        return total

    def _tensor(self, dims: Iterable[str]) -> Any:
        total: Any = 1
        for d in dims:
            total *= self.extent(d)
        return total

    def state(self, kernel: TileProgram) -> Any:
        """Numbers carried by the streamed loops, for each row."""
        total: Any = 0
        for s in kernel.body:
            if isinstance(s, Loop):
                for field in s.state:
                    whole = [a for a in field.axes if kernel.axes[a].role == "whole"]
                    total += self.product(kernel, whole)
        return total


def _width(tensor: Tensor | OutputTensor) -> int:
    return STORED_BYTES if tensor.is_stored and tensor.kind == "float" else ELEMENT_BYTES


def _loads(e: Expr) -> Iterable[Expr]:
    if e.op == "load":
        yield e
    for a in e.args:
        yield from _loads(a)
