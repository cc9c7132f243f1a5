"""The order of dimensions: tiles have named axes, and block programs an order for each.

All tiles have their axes in one order: rows, streams, then what is held entirely. Only loads that
are nothing but the right operands of products, with the summed axis second in that order, are
loaded the other way round: a product takes the summed axis first there.
"""

from __future__ import annotations

from collections.abc import Iterable

from monocomp.blocks.choices.operands import Operands, unconverted
from monocomp.tile import Expr, TileProgram

_ORDER = {"row": 0, "stream": 1, "whole": 2, "grid": 3, "serial": 4}


class Layouts:
    """Answers for one kernel; `flips`: are such loads turned round?"""

    def __init__(self, program: TileProgram, flips: bool = True) -> None:
        ranked = sorted(program.axes.values(), key=lambda a: _ORDER[a.role])
        self._rank = {a.name: n for n, a in enumerate(ranked)}
        self._blocked = frozenset(program.axis_names("row", "stream", "whole"))
        self.rows = frozenset(program.axis_names("row"))
        self._orders: dict[frozenset[str], tuple[str, ...]] = {}
        self.program = program
        self.operands = Operands(program)
        self.flipped: frozenset[str] = self._flipped(program) if flips else frozenset()

    def order(self, axes: Iterable[str]) -> tuple[str, ...]:
        """Return the dimensions of a tile of these axes."""
        blocked = self._blocked.intersection(axes)
        order = self._orders.get(blocked)
        if order is None:
            order = self._orders[blocked] = tuple(sorted(blocked, key=self._rank.__getitem__))
        return order

    def of(self, e: Expr) -> tuple[str, ...]:
        """Return the dimensions of a value."""
        order = self.order(e.axes)
        return order[::-1] if e.op == "local" and e.attr in self.flipped else order

    def sides(self, e: Expr) -> tuple[Expr, Expr]:
        """Return the operands of a product, the one with the result's first axis on the left."""
        a, b = e.args[:2]
        first = self.order(e.axes)[0]
        return (a, b) if first in a.axes else (b, a)

    def _flipped(self, program: TileProgram) -> frozenset[str]:
        right: dict[str, int] = {}
        uses: dict[str, int] = {}
        for e in program.expressions:
            if e.op == "local":
                uses[e.attr] = uses.get(e.attr, 0) + 1
        for e in program.products:
            if self.operands.is_product(e):
                _, b = map(unconverted, self.sides(e))
                if b.op == "local" and self.order(b.axes)[0] != e.attr:
                    right[b.attr] = right.get(b.attr, 0) + 1
        return frozenset(
            name
            for name, count in right.items()
            if uses[name] == count and name in program.lets and program.lets[name].op == "load"
        )
