"""The dtypes in which products of matrices take their operands.

A tile of an input is multiplied as it is, and what kernels compute, also what they have stored, in
the dtype of the tile that it meets. But nothing is rounded to 8 bits: an input of 8 bits is
converted instead, except beside another one. What would lose too much (see `operands`) is
multiplied in two limbs.
"""

from __future__ import annotations

from monocomp.blocks.choices.layouts import Layouts
from monocomp.declarations.dtypes import NARROW
from monocomp.declarations.record import record
from monocomp.tile import Expr, TileProgram


@record()
class Target:
    """A dtype to convert to: the elements of a tensor, a loaded tile's, or bfloat16."""

    tensor: str | None = None
    tile: str | None = None


@record()
class Product:
    """The way a product of matrices is done.

    Attributes:
        left, right: the dtypes that the operands are converted to; None if they stay as they are.
        narrow: for left and right, True if that operand has 8 bits before it is converted.
        limbs: the dtype of limbs, if an operand is multiplied in two.
        split: for left and right, True if that operand is multiplied in two limbs.
        shared: the tensors of operands that must have one dtype.
    """

    left: Target | None = None
    right: Target | None = None
    narrow: tuple[bool, bool] = (False, False)
    limbs: Target | None = None
    split: tuple[bool, bool] = (False, False)
    shared: tuple[str, str] | None = None


def choose_dtypes(program: TileProgram, layouts: Layouts) -> dict[Expr, Product]:
    """Choose how each product of matrices is done.

    Args:
        program: the kernel.
        layouts: the order of its dimensions.
    """
    chooser = _Chooser(program, layouts)
    return {e: chooser.product(e) for e in program.products if layouts.operands.is_product(e)}


class _Chooser:
    def __init__(self, program: TileProgram, layouts: Layouts) -> None:
        self.program, self.meaning, self.layouts = program, program.meaning, layouts
        self.narrow = {t.name for t in program.inputs.values() if t.dtype in NARROW}

    def product(self, e: Expr) -> Product:
        left, right = pair = self.layouts.sides(e)
        targets = self._target(left, right), self._target(right, left)
        in_limbs = self.layouts.operands.is_in_limbs
        split = tuple(in_limbs(x) and t is not None for x, t in zip(pair, targets, strict=True))
        shared = None
        if all(map(self._is_input, pair)) and not any(map(self._is_narrow, pair)):
            shared = (self.meaning(left).attr, self.meaning(right).attr)
        limbs = (targets[0] or targets[1]) if any(split) else None
        narrow = self._is_narrow(left), self._is_narrow(right)
        return Product(*targets, narrow, limbs, (split[0], split[1]), shared)

    def _target(self, e: Expr, other: Expr) -> Target | None:
        if self._is_input(e) and (not self._is_narrow(e) or self._is_narrow(other)):
            return None
        if self._is_input(other) and not self._is_narrow(other):
            return Target(tile=other.attr)
        tensors = [e.attr for e in self.program.lets.values() if self._loads_float(e)]
        if tensors:  # a bias, say, is no operand
            is_operand = self.layouts.operands.multiplied.__contains__
            return Target(tensor=next(filter(is_operand, tensors), tensors[0]))
        return Target() if self.narrow else None

    def _loads_float(self, e: Expr) -> bool:
        is_float = e.kind == "float" and e.attr not in self.narrow
        return self._is_input(e) and is_float and len(self.layouts.order(e.axes)) == 2

    def _is_input(self, e: Expr) -> bool:
        """True if this is a tile of an input that no earlier kernel has computed."""
        load = self.meaning(e)
        return load.op == "load" and not self.program.inputs[load.attr].is_stored

    def _is_narrow(self, e: Expr) -> bool:
        """True if this is a tile of an input of 8 bits."""
        return self._is_input(e) and self.meaning(e).attr in self.narrow
