"""Products of matrices, with their operands converted as has been chosen."""

from __future__ import annotations

from monocomp import tile as P
from monocomp.blocks import BFLOAT16, FLOAT16, FLOAT32, Dtype, Expr
from monocomp.blocks.building.context import Context
from monocomp.blocks.choices.operands import unconverted
from monocomp.blocks.choices.product_dtypes import Product, Target
from monocomp.blocks.operations import none, to


def sides(c: Context, e: P.Expr, product: Product) -> list[tuple[P.Expr, tuple[str, str]]]:
    """Return the operands with their dimensions: those that are converted here, unconverted."""
    left, right = c.layouts.sides(e)
    first, second = c.order(e.axes)
    pairs = ((left, (first, e.attr)), (right, (e.attr, second)))
    zipped = zip(pairs, product.split, strict=True)
    return [(x if split else unconverted(x), want) for (x, want), split in zipped]


def side(c: Context, product: Product, number: int, x: Expr) -> Expr:
    """Return an operand in the dtype that it is multiplied in. Floats of 8 bits become float16 on
    the way, which is exact: GPUs convert them to that alone, and Triton what follows one by one."""
    target = (product.left, product.right)[number]
    if target is None or product.split[number]:
        return x
    return to(to(x, FLOAT16) if product.narrow[number] else x, _dtype(c, target))


def dot(c: Context, product: Product, left: Expr, right: Expr, initial: Expr | None) -> Expr:
    """left @ right + initial."""
    layout = (left.layout[0], right.layout[1])
    if product.limbs is not None:
        args = (left, right, none() if initial is None else initial)
        return Expr("dot_in_limbs", args, _dtype(c, product.limbs), layout, FLOAT32)
    more = () if initial is None else (initial,)
    return Expr("dot", (left, right, *more), None, layout, FLOAT32)


def _dtype(c: Context, target: Target) -> Dtype:
    if target.tile is not None:
        return Dtype(c.local(target.tile).attr, "float", "value")
    if target.tensor is not None:
        return c.names.element(target.tensor)
    return BFLOAT16
