"""Operations that come to one of their operands, by what is known of these."""

from __future__ import annotations

from collections.abc import Sequence

from monocomp.backends.tape.bounds import bounds
from monocomp.backends.tape.tile import Tile


def folded(name: str, operands: Sequence[Tile]) -> Tile | None:
    """Return the operand that an operation comes to, by what is known of its operands; None if
    it comes to none. A sum of nothing stays one when scaled; a unit combined with another
    operand gives that operand."""
    if name == "stop":
        return operands[0]
    condition = operands[0].value.known
    if name == "where" and condition is not None:
        if condition.all():
            return operands[1]
        if not condition.any():
            return operands[2]
    if len(operands) != 2:
        return None
    for x, other in (operands, operands[::-1]):
        number, is_unit = x.value.number, x.value.is_unit
        if name == "mul" and number == 0 and is_unit:
            return x
        is_nothing = (
            (name == "mul" and number == 1)
            or (name == "add" and number == 0 and is_unit)
            or (name == "sub" and number == 0 and x is operands[1])
            or (name == "maximum" and bounds(x)[1] <= bounds(other)[0])
            or (name == "minimum" and bounds(x)[0] >= bounds(other)[1])
        )
        if is_nothing:
            return other
    return None
