"""A roofline: what a multiprocessor can do by the cost model, and where the program lies under it.

The rates are those by which the compiler weighs choices (`costs.cost`): products on the matrix
unit, element-wise operations, special functions, bytes. They are no measurement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from monocomp.costs.cost import BYTE_TIME, MATRIX_RATE, SPECIAL_TIME, Cost, formula
from monocomp.derivation.derivation import Derivation
from monocomp.explorer.drawing import GOOD, GREY, KEY, WARM, Drawing
from monocomp.extents.nominal import LONG, nominal_sizes
from monocomp.planning.plan import show_sizes

_LEFT, _TOP, _WIDTH, _HEIGHT = 80.0, 76.0, 720.0, 330.0
_X, _Y = (-2.0, 16.0), (-8.0, 6.0)  # powers of two: operations a byte, operations a unit of time


def roofline(derivation: Derivation, extents: Mapping[str, int]) -> str:
    """The program as it's written and as it's derived, for sizes by representative."""
    program = derivation.start
    sizes = {**nominal_sizes(program.declared, program.sizes), **extents}
    d = Drawing(900, 480)
    d.text(_LEFT, 30, "Roofline, by the rates of the cost model", "b")
    named = {e: n for e, n in sizes.items() if not e.startswith(".")}
    taken = show_sizes(named, extents, "usual")
    d.text(_LEFT, 52, f"for {taken}" if len(taken) < 110 else "for the sizes of the plan", "s")
    _axes(d)
    _roof(d, MATRIX_RATE, "matrix unit", KEY)
    _roof(d, 1, "element-wise", WARM)
    _roof(d, 1 / SPECIAL_TIME, "special functions", GREY)
    said = []
    ends = zip(("as written", "derived"), derivation.costs, (WARM, GOOD), strict=True)
    for row, (name, cost, fill) in enumerate(ends):
        x, y = _point(cost, sizes)
        said.append(f"{name} at {x:.3g} operations a byte")
        d.line((_x(x), _y(y)), (_x(x), _TOP + _HEIGHT), stroke=fill, stroke_dasharray="3 4")
        d.dot(_x(x), _y(y), 7, fill)
        at = _TOP + _HEIGHT - 36 + 20 * row
        d.dot(_LEFT + 18, at - 4, 5, fill)
        words = f"{name}: {_number(x)} a byte, {_number(y)} in the time of one"
        d.text(_LEFT + 30, at, words, "b")
    return d.svg("Roofline: " + "; ".join(said))


def _point(cost: Cost, sizes: Mapping[str, int]) -> tuple[float, float]:
    """Operations a byte, and operations in the time that one element-wise operation takes, with
    everything done one after the other."""

    def number(amount: object) -> float:
        found = formula(amount)  # type: ignore[arg-type]
        return float(found.at({e: sizes.get(e, LONG) for e in found.extents}))

    of = cost.operations
    moved = max(number(cost.bytes), 1.0)
    done = max(number(cost.flops), 1.0)
    time = number(of.matrix) / MATRIX_RATE + number(of.elementwise) + number(of.logic)
    time += number(of.special) * SPECIAL_TIME + moved * BYTE_TIME
    return done / moved, done / time


def _x(intensity: float) -> float:
    share = (math.log2(intensity) - _X[0]) / (_X[1] - _X[0])
    return _LEFT + _WIDTH * min(max(share, 0), 1)


def _y(rate: float) -> float:
    share = (math.log2(rate) - _Y[0]) / (_Y[1] - _Y[0])
    return _TOP + _HEIGHT * (1 - min(max(share, 0), 1))


def _axes(d: Drawing) -> None:
    bottom = _TOP + _HEIGHT
    d.line((_LEFT, _TOP), (_LEFT, bottom), (_LEFT + _WIDTH, bottom))
    for power in range(int(_X[0]), int(_X[1]) + 1, 2):
        x = _x(2.0**power)
        d.line((x, bottom), (x, bottom + 5))
        d.text(x, bottom + 20, _power(power), "s", "middle")
    for power in range(int(_Y[0]), int(_Y[1]) + 1, 2):
        y = _y(2.0**power)
        d.line((_LEFT - 5, y), (_LEFT, y))
        d.text(_LEFT - 10, y + 4, _power(power), "s", "end")
    d.text(_LEFT + _WIDTH / 2, bottom + 44, "operations a byte", "s", "middle")
    d.text(_LEFT + 12, _TOP + 12, "↑ operations in the time of one that is element-wise", "s")


def _number(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.2g}"


def _power(n: int) -> str:
    return f"1/{2**-n}" if n < 0 else str(2**n)


def _roof(d: Drawing, rate: float, label: str, stroke: str) -> None:
    """Bytes bound it on the left, the unit on the right."""
    ridge = rate * BYTE_TIME
    start = 2.0 ** _X[0]
    d.line(
        (_x(start), _y(start / BYTE_TIME)),
        (_x(ridge), _y(rate)),
        (_LEFT + _WIDTH, _y(rate)),
        stroke=stroke,
    )
    d.text(_LEFT + _WIDTH, _y(rate) - 7, f"{label}, {rate:g}", "s", "end")
