"""`divide`: the rows of a program instance are divided among warpgroups, each with a copy of what
computes. They share blocks of streams, and wait for nothing of each other.
"""

from __future__ import annotations

from dataclasses import replace

from monocomp import blocks as B
from monocomp.blocks.names import option
from monocomp.blocks.operations import infix, name
from monocomp.errors import UnsupportedError

WARPGROUP = 4  # warps
GROUPS = option("GROUPS")  # how many warpgroups compute
GROUP = name("GROUP", B.INT)  # the number of one of them


def divide(program: B.BlockProgram) -> B.BlockProgram:
    """Give each warpgroup its rows.

    Raises:
        UnsupportedError: something is summed over rows.
    """
    rows = {a.name: program.lengths[a.name] for a in program.axes.values() if a.role == "row"}
    for s in B.walk(program.body):
        for e in B.roots(s):
            for x in B.subexpressions(e):
                if _summed(x) in rows:
                    raise UnsupportedError(f"it folds over {_summed(x)}, whose rows are divided")
    lengths = {a: name(f"ROWS_{a.upper()}", B.INT) for a in rows}
    shares = tuple(
        B.Assign((lengths[a],), infix("//", whole, GROUPS), program.axes[a], is_static=True)
        for a, whole in rows.items()
    )
    divided = _Division(lengths).body(program.body)
    groups = B.Argument("groups", "", 0, GROUPS, True)
    return replace(
        program,
        arguments=(*program.arguments, groups),
        body=(*shares, *divided),
        divided=lengths,
    )


def _summed(e: B.Expr) -> str | None:
    """Return the axis that an expression folds over."""
    if e.op not in ("reduce", "scan", "dot"):
        return None
    dim: int = 1 if e.op == "dot" else e.attr.dim
    return e.args[0].layout[dim]


class _Division:
    def __init__(self, lengths: dict[str, B.Expr]) -> None:
        self.lengths = lengths

    def body(self, body: B.Body) -> B.Body:
        """Return statements about the rows of one warpgroup."""
        return tuple(map(self._statement, body))

    def _statement(self, s: B.Statement) -> B.Statement:
        match s:
            case B.Assign():
                return replace(s, value=self._expr(s.value))
            case B.Load(access=B.Pointers() as access):
                return replace(s, access=self._pointers(access))
            case B.Store():
                return replace(s, access=self._pointers(s.access), value=self._expr(s.value))
            case B.Issue():
                return replace(s, product=self._expr(s.product))
            case B.If() | B.While():
                s = replace(s, test=self._expr(s.test))
        return B.inside(s, self.body)

    def _pointers(self, access: B.Pointers) -> B.Pointers:
        mask = None if access.mask is None else self._expr(access.mask)
        offsets = tuple(map(self._expr, access.offsets))
        return replace(access, offsets=offsets, mask=mask)

    def _expr(self, e: B.Expr) -> B.Expr:
        if e.op == "arange" and e.layout[0] in self.lengths:
            return infix("+", e, infix("*", GROUP, self.lengths[str(e.layout[0])]))
        return replace(e, args=tuple(map(self._expr, e.args)))
