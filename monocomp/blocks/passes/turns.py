"""`take_turns`: warpgroups take turns at products.

Warpgroups that begin alike stay in step: matrix units wait while all of them compute, and then all
wait for these. So where the last products of a block take what arithmetic makes of its first ones,
a warpgroup issues them, and the first ones of the next block, while it has the turn, and computes
while others have it. FlashAttention-3 does so forward (arXiv:2407.08608, section 3.1).

A warpgroup takes the turn before the blocks of its rows, and passes it on after them. In each block
it passes the turn on and takes it again, in those that it leaves unread as well: all do so equally
often, and none waits for a turn that never comes. While it has the turn it waits for the next
block, which another stage must hold: others release this one when they have had theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from monocomp import blocks as B
from monocomp.blocks.operations import infix, joined, name, number
from monocomp.blocks.passes.division import GROUP
from monocomp.blocks.passes.own_rows import GROUPS
from monocomp.blocks.passes.pipeline import STAGES
from monocomp.machine.gpus import HOPPER
from monocomp.tile.operations import unit_of

TURNS = name("TURNS", B.BOOL)  # do warpgroups take turns?
# Elements that a row multiplies for each of its special functions. Turns gain where they are fewer.
_MOST = HOPPER.alternating * HOPPER.matrix // (2 * HOPPER.special)


def take_turns(program: B.BlockProgram) -> B.BlockProgram:
    """Let warpgroups take turns in a loop whose last products wait for arithmetic."""
    loops = [s for s in B.walk(program.body) if isinstance(s, B.For) and _late(s.body)]
    if len(loops) != 1:
        return program
    (loop,) = loops
    rings = {s.ring for s in B.walk(loop.body) if isinstance(s, B.Take)}
    turns = _Turns({ring.name for ring in rings})
    if any(turns.decides(s) for s in B.walk(program.body)):
        return program
    at = len(program.divided)
    several = (infix(">", x, number(1)) for x in (GROUPS, STAGES))
    test = joined("and", [*several, _takes_long(program, loop)])
    static = B.Assign((TURNS,), test, loop.origin, is_static=True)
    is_last = infix("==", GROUP, infix("-", GROUPS, number(1)))
    begin = B.If(is_last, (B.Turn("pass", TURNS, loop.origin),), (), loop.origin)
    body = (*program.body[:at], static, begin, *turns.body(program.body[at:]))
    return replace(program, body=body)


def _late(body: B.Body) -> int:
    """Return the number of the first product that is issued after others have been waited for, if
    nothing follows but the ends of such products; else 0."""
    waits = [n for n, s in enumerate(body) if isinstance(s, B.Wait)]
    issues = [n for n, s in enumerate(body) if isinstance(s, B.Issue)]
    late = [n for n in issues if waits and n > waits[0]]
    if len(late) in (0, len(issues)):
        return 0
    rest = body[late[0] :]
    return late[0] if all(isinstance(s, B.Issue | B.Wait | B.Release) for s in rest) else 0


class _Turns:
    """Lets warpgroups take turns in a loop, and in those that leave its blocks unread.

    Args:
        rings: the names of those whose blocks the loop takes.
    """

    def __init__(self, rings: set[str]) -> None:
        self.rings = rings

    def decides(self, s: B.Statement) -> bool:
        """True if blocks come to a warpgroup on a condition alone."""
        return isinstance(s, B.If) and self._has_blocks(s.body) != self._has_blocks(s.orelse)

    def body(self, body: B.Body) -> B.Body:
        """Return statements with turns."""
        statements = [self._statement(s) for s in body]
        loops = [n for n, s in enumerate(body) if _is_loop(s) and self._has_blocks((s,))]
        if loops:
            statements.insert(loops[-1] + 1, B.Turn("pass", TURNS, body[loops[-1]].origin))
            statements.insert(loops[0], B.Turn("take", TURNS, body[loops[0]].origin))
        return tuple(statements)

    def _statement(self, s: B.Statement) -> B.Statement:
        if not _is_loop(s):
            return B.inside(s, self.body)
        if not self._has_blocks((s,)):
            return s
        assert isinstance(s, B.For)
        late = _late(s.body) or len(s.body)
        first = next((n for n, x in enumerate(s.body) if isinstance(x, B.Wait)), late)
        others = (
            B.Turn("pass", TURNS, s.origin),
            *s.body[first:late],
            B.Turn("take", TURNS, s.origin),
        )
        return replace(s, body=(*s.body[:first], *others, *s.body[late:]))

    def _has_blocks(self, body: B.Body) -> bool:
        taken = (s for s in B.walk(body) if isinstance(s, B.Take | B.Skip))
        return any(s.ring.name in self.rings for s in taken)


def _is_loop(s: B.Statement) -> bool:
    return isinstance(s, B.For) and isinstance(s.range, B.Blocks)


def _takes_long(program: B.BlockProgram, loop: B.For) -> B.Expr:
    """Return a test that special functions of a block take long beside its products."""
    length = program.lengths
    products = [s.product for s in loop.body if isinstance(s, B.Issue)]
    pairs = [(str(x.layout[1]), str(x.args[0].layout[1])) for x in products]
    elements = joined("+", [infix("*", length[m], length[n]) for m, n in pairs])
    columns = [length[axis] for axis in _columns(loop)]
    if not columns:
        return number(False, "bool")
    return infix("<", elements, infix("*", number(_MOST), joined("+", columns)))


def _columns(loop: B.For) -> Iterator[str]:
    """Yield the columns of each special function of a tile."""
    for s in B.walk(loop.body):
        for x in (x for e in B.roots(s) for x in B.subexpressions(e)):
            if unit_of(x.op) == "special" and len(x.layout) == 2:
                yield str(x.layout[1])
