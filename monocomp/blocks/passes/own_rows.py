"""Own numbers of a warpgroup, of those that all rows of an instance come to: who has all rows tells
each warpgroup what its own rows come to as well. Where rows of two sequences are in one instance,
a warpgroup then leaves the blocks of a sequence of which it has no row, and masks few others.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from monocomp import blocks as B
from monocomp.blocks.names import option
from monocomp.blocks.operations import arange, infix, name, number, where
from monocomp.blocks.passes.spanning import is_come_to
from monocomp.blocks.passes.unread import needed
from monocomp.declarations.record import record
from monocomp.terms.transfer import LARGEST_EXTENT

GROUPS = option("GROUPS")  # how many warpgroups compute
TOLD = name("n", B.INT)  # the number of the one that is told
_UNITS = {"min": LARGEST_EXTENT, "max": -LARGEST_EXTENT}


@record()
class OwnRows:
    """The numbers that rows come to, which are told.

    Attributes:
        values: what all rows come to, by name.
        names: what the rows of one warpgroup come to, by the same names.
    """

    values: Mapping[str, B.Expr]
    names: Mapping[str, B.Expr]

    def learnt(self, s: B.Learn) -> B.Learn:
        """Return a statement that learns what own rows come to as well."""
        own = (self.names[t.attr] for t in s.targets if t.attr in self.names)
        return replace(s, own=(*s.own, *own))

    def settled(self, program: B.BlockProgram) -> B.BlockProgram:
        """Return a program in which those who find numbers tell what others read, and no more."""
        kept = B.names_of((*program.body, *(program.producer if program.finder else ())))
        parts = program.body, program.producer, program.finder
        body, producer, finder = (self._settled(part, kept, program) for part in parts)
        return replace(program, body=body, producer=needed(producer), finder=needed(finder))

    def _settled(self, body: B.Body, kept: Set[str], program: B.BlockProgram) -> B.Body:
        def is_read(x: B.Expr) -> bool:
            return x.attr in kept or x.attr not in self.values

        statements: list[B.Statement] = []
        for s in body:
            match s:
                case B.Learn():
                    own = tuple(t for t in s.own if t.attr in kept)
                    s = replace(s, targets=tuple(filter(is_read, s.targets)), own=own)
                case B.Tell():
                    names = (x.attr for x in s.values if x.attr in self.names)
                    values = [self.values[n] for n in names if self.names[n].attr in kept]
                    groups = {x.args[0].layout: _groups(x, program, s.origin) for x in values}
                    statements += groups.values()
                    own = tuple(_of_group(x, groups[x.args[0].layout]) for x in values)
                    s = replace(s, values=tuple(filter(is_read, s.values)), own=own)
                case _:
                    s = B.inside(s, lambda body: self._settled(body, kept, program))
            statements.append(s)
        return tuple(statements)


def own_rows(program: B.BlockProgram, divided: Set[str]) -> OwnRows:
    """Return the numbers that all rows of an instance come to, where rows are divided."""
    spanning = {a for a in program.spanning if program.axes[a].name in divided}
    telling = list(B.walk(program.finder or program.producer))
    whiles = B.given(s for s in telling if isinstance(s, B.While))
    learnt = {
        t.attr for s in B.walk(program.body) if isinstance(s, B.Learn) for t in B.targets(s)
    } - whiles
    values, names, taken = {}, {}, program.taken
    for s in telling:
        match s:
            case B.Assign(targets=(target,), value=value) if target.attr in learnt:
                if is_come_to(value) and spanning.issuperset(value.args[0].args[0].layout):
                    values[target.attr] = value.args[0]
                    own = B.fresh(f"{target.attr}_own", taken)
                    names[target.attr] = replace(target, attr=own)
    return OwnRows(values, names)


def _groups(e: B.Expr, program: B.BlockProgram, origin: B.Origin | None) -> B.Assign:
    """Name the warpgroup of each row that a number comes of."""
    (axis,) = map(str, e.args[0].layout)
    rows = infix("//", program.lengths[program.axes[axis].name], GROUPS)
    groups = name(B.fresh(f"group_{axis}", program.taken), B.INT32, (axis,))
    return B.Assign((groups,), infix("//", arange(axis), rows), origin)


def _of_group(e: B.Expr, groups: B.Assign) -> B.Expr:
    """Return what the rows of a warpgroup come to."""
    is_own = infix("==", groups.targets[0], TOLD)
    return replace(e, args=(where(is_own, e.args[0], number(_UNITS[e.attr.by])),))
