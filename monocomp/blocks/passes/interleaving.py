"""`interleave`: the columns of a sum of products come in an order that suits bytes.

Of a product of few rows a thread has one column in 8, and takes neighbours along the sum. So a
right operand of bytes, of which memory has the columns side by side, would be read byte by byte.
But a sum has its columns in any order, as long as all that it meets in its loop has none:

    sum[:, c] <- sum[:, c] * x + left @ right[:, c]    for c = 0, 1, ..., or c = order(0), ...

In the order taken here four columns of a thread are neighbours in memory, a word. After the loop
the columns are put back. Device functions see which tiles are of bytes, and leave others alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from monocomp import blocks as B
from monocomp.blocks.operations import helper
from monocomp.tile.operations import is_elementwise


def interleave(program: B.BlockProgram) -> B.BlockProgram:
    """Reorder the columns of sums of products whose right operands may be bytes."""
    return replace(program, body=_interleaved(program.body))


def _interleaved(body: B.Body) -> B.Body:
    statements: list[B.Statement] = []
    for s in body:
        empty = [t for x in statements if _is_empty(x) for t in B.targets(x)]
        tensors = {t: x for t in empty if isinstance(s, B.For) and (x := _tensor(s, t))}
        s = s if tensors else B.inside(s, _interleaved)
        for sums in tensors:
            s = B.inside(s, partial(_reordered, sums=sums))
        statements += [s, *(_in_order(s, sums, x) for sums, x in tensors.items())]
    return tuple(statements)


def _is_empty(s: B.Statement) -> bool:
    """True if a statement begins a sum along rows and columns."""
    return isinstance(s, B.Assign) and s.value.op in ("full", "zeros") and len(s.value.layout) == 2


def _in_order(s: B.Statement, sums: B.Expr, tensor: B.Expr) -> B.Statement:
    """Return what puts columns back after a loop."""
    value = helper("in_order", sums, tensor, layout=sums.layout, dtype=sums.dtype)
    return B.Assign((sums,), value, s.origin)


def _reordered(body: B.Body, sums: B.Expr) -> B.Body:
    """Return the statements with the columns of what is added to a sum in another order."""
    statements: list[B.Statement] = []
    for s in body:
        s = B.inside(s, partial(_reordered, sums=sums))
        if isinstance(s, B.Assign) and s.targets[0].attr == sums.attr:
            left, right, initial = s.value.args
            x = _source(right)
            mixed = helper("interleaved", x, sums, layout=x.layout, dtype=x.dtype)
            args = (left, B.renamed(right, {x.attr: mixed}), initial)
            s = replace(s, value=replace(s.value, args=args))
        statements.append(s)
    return tuple(statements)


def _tensor(loop: B.Statement, sums: B.Expr) -> B.Expr | None:
    """Return the tensor, maybe of bytes, whose tiles are multiplied for a sum; None if there are
    several, or if it is no such sum."""
    using = [
        s
        for s in B.walk((loop,))
        if sums.attr in {t.attr for t in B.targets(s)}.union(*(e.read_names for e in B.roots(s)))
    ]
    if not using or not all(_adds(s, sums.attr) for s in using):
        return None
    names = {_source(s.value.args[1]).dtype.name for s in using if isinstance(s, B.Assign)}
    (name, *others) = names
    return None if others else B.Expr("name", (), name, (), B.Dtype(name, "pointer"))


def _adds(s: B.Statement, sums: str) -> bool:
    """True if a statement adds a product with a tile that may be of bytes to a sum, and all else
    that the sum meets has no columns."""
    match s:
        case B.Assign(targets=(_,), value=B.Expr(op="dot", args=(left, right, initial))):
            read = left.read_names | right.read_names
            return sums not in read and _may_be_bytes(right) and _has_columns_of(initial, sums)
    return False


def _may_be_bytes(right: B.Expr) -> bool:
    """True for what is loaded and converted: integers, and floats of 8 bits, by way of float16."""
    x = _source(right)
    is_narrow = any(e.op == "to" and e.dtype == B.FLOAT16 for e in B.subexpressions(right))
    return x.op == "name" and x.dtype.of == "tensor" and (x.dtype.kind == "int" or is_narrow)


def _source(e: B.Expr) -> B.Expr:
    """Return what is converted."""
    return _source(e.args[0]) if e.op == "to" else e


def _has_columns_of(e: B.Expr, sums: str) -> bool:
    """True if a value is made from a sum, element by element, and from what has no columns."""
    if sums not in e.read_names:
        return e.layout[1:] in ((), (None,))
    is_own = e.op == "name" or is_elementwise(e.op)
    return is_own and all(_has_columns_of(a, sums) for a in e.args)
