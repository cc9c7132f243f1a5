"""The operands of a kernel's products of matrices, and what they are made from.

In 16 bits an operand that a kernel has computed would be rounded. Eager torch rounds as well,
but what it rounds is not always the same: a sum of squares about a sample, say, whose errors
later cancel in no difference. So an operand is rounded only where another product has gone into
it, as eager torch rounds between two products: there a kernel's speed is that of its products.
All other computed operands are multiplied in two limbs of 16 bits each, so that next to nothing
is lost.
"""

from __future__ import annotations

import math
from functools import cached_property

from monocomp import tile as P


class Operands:
    """Answers for one kernel."""

    def __init__(self, program: P.TileProgram) -> None:
        self.program = program
        self.inputs = program.inputs
        self.blocked = frozenset(program.axis_names("row", "stream", "whole"))

    def is_product(self, e: P.Expr) -> bool:
        """True if a contraction has two matrices, one of floats at least, as matrix units take."""
        return has_float(e) and all(len(a.axes & self.blocked) == 2 for a in e.args[:2])

    @cached_property
    def multiplied(self) -> frozenset[str]:
        """Return the inputs whose tiles are operands of products as they are."""
        sides = [a for e in self.program.products if self.is_product(e) for a in e.args[:2]]
        return frozenset(e.attr for e in map(self.program.meaning, sides) if e.op == "load")

    def is_in_limbs(self, e: P.Expr) -> bool:
        """True if an operand is multiplied in two limbs."""
        return not self.is_exact(e) and not self.is_from_product(e)

    def is_exact(self, e: P.Expr) -> bool:
        """True if this is made of inputs that are not wide, truth values, 0, 1 and infinity: these
        are at most converted, negated, masked or chosen."""
        match e.op:
            case "local" if e.attr in self.program.lets:
                return self.is_exact(self.program.lets[e.attr])
            case "load":
                return not self.inputs[e.attr].is_wide
            case "cast" if e.args[0].kind == "bool":
                return True
            case "cast" | "masked" | "neg":
                return self.is_exact(e.args[0])
            case "where":
                return all(map(self.is_exact, e.args[1:]))
            case "number":
                return math.isinf(e.attr) or abs(e.attr) in (0, 1)
        return False

    def is_from_product(self, e: P.Expr) -> bool:
        """True if a product of matrices has gone into a tile."""
        parts = self.program.made_of(e, in_loops=True)
        return any(x.op == "contract" and self.is_product(x) for x in parts)


def has_float(e: P.Expr) -> bool:
    """True if a factor of a contraction is a float."""
    return any(a.kind == "float" for a in e.args[:2])


def unconverted(e: P.Expr) -> P.Expr:
    """Return the integers of an operand that is converted for a product: it takes them in its
    dtype."""
    return e.args[0] if e.op == "cast" and e.args[0].kind == "int" else e
