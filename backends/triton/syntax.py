"""How Triton writes what every part of a kernel needs: operators, types, and numbers."""

from __future__ import annotations

import math

# How tightly operators bind.
ATOM, UNARY, MUL, ADD, BIT_AND, BIT_OR, COMPARE = 9, 8, 7, 6, 5, 4, 3
# Numbers and parameters below it take no sum of indices, nor a small multiple, past 32 bits.
SMALL_INT = 1 << 24
TYPES = {"float": "tl.float32", "int": "tl.int64", "bool": "tl.int1"}


def literal(value: float, kind: str) -> str:
    if kind == "bool":
        return "True" if value else "False"
    if kind == "int" and math.isfinite(value):
        return str(int(value))
    if math.isinf(value):
        if kind == "int":
            return "9223372036854775807" if value > 0 else "-9223372036854775808"
        return 'float("inf")' if value > 0 else '-float("inf")'
    return repr(float(value))
