"""`leave_out`: loops whose results nobody asks for in some blocks of rows.

    state acc[q,k] = 0.0
    for c in 0 .. |c|:
      acc <- contract[c](Q_tile, K_tile, acc)
    store P[q,k] = where(k <= q, exp(acc), 0.0)

What the loop comes to is chosen where k <= q alone. So a block of rows of which none has that needs
no loop. Asked is whether the least k is at most the largest q: comparisons of positions tell that
of a block by its ends, and other conditions are not asked.
"""

from __future__ import annotations

from collections.abc import Iterator

from monocomp.blocks.choices.moving import signs
from monocomp.tile import Expr, Let, Loop, Statement, Store, TileProgram, leaves, names, roots
from monocomp.tile.printer import show

Tests = frozenset[str]  # as text, of which all hold
_NONE: Tests = frozenset()


def needed(program: TileProgram) -> dict[Loop, tuple[Expr, ...]]:
    """Return the comparisons of rows all of which hold wherever what a loop comes to is needed, for
    loops that have any.

    Args:
        program: the kernel.
    """
    readers = _Readers(program)
    for s in reversed(program.body):
        readers.visit(s)
        readers.later.update(names([s]))
    return {s: tuple(readers.tests[t] for t in sorted(found)) for s, found in readers.loops.items()}


class _Readers:
    """Looks at what reads each name, the last statements first.

    Attributes:
        wanted: the tests that hold wherever a name is read.
        loops: those of loops.
        tests: by their texts.
        later: what the statements after the one that is looked at give names to.
    """

    def __init__(self, program: TileProgram) -> None:
        self.program, self.rows = program, {*program.axis_names("row")}
        self.wanted: dict[str, Tests] = {}
        self.loops: dict[Loop, Tests] = {}
        self.tests: dict[str, Expr] = {}
        self.later: set[str] = set()

    def visit(self, s: Statement, outer: Tests = _NONE) -> None:
        """A statement: what it reads is read where its results are."""
        tests = outer
        if isinstance(s, Let):
            tests = self.wanted.get(s.name, outer)
        elif isinstance(s, Loop):
            read = [self.wanted[x.name] for x in s.state if x.name in self.wanted]
            tests = frozenset.intersection(*read) if read and not _stores(s) else outer
            tests = frozenset(t for t in tests if self._is_known(self.tests[t]))
            if tests:
                self.loops[s] = tests
            for inner in s.body:
                self.visit(inner, tests)
        for e in roots(s):
            self._read(e, tests)

    def _is_known(self, e: Expr) -> bool:
        return self.later.isdisjoint(x.attr for x in leaves(e))

    def _read(self, e: Expr, tests: Tests) -> None:
        if e.op == "local":
            self.wanted[e.attr] = self.wanted.get(e.attr, tests) & tests
        elif e.op == "where":
            test, chosen, other = e.args
            self._read(test, tests)
            self._read(chosen, tests.union(self._of_rows(test)))
            self._read(other, tests)
        else:
            for a in e.args:
                self._read(a, tests)

    def _of_rows(self, e: Expr) -> Iterator[str]:
        """Yield the comparisons of rows' positions that a condition is all of, or some of them."""
        e = self.program.meaning(e)
        if e.op == "and":
            for a in e.args:
                yield from self._of_rows(a)
        elif self._is_of_rows(e):
            self.tests[show(e)] = e
            yield show(e)

    def _is_of_rows(self, e: Expr) -> bool:
        is_comparison = e.op == "compare" and e.attr != "!=" and bool(e.axes)
        return is_comparison and all(
            a.kind == "int" and a.axes <= self.rows and signs(a, self.program) is not None
            for a in e.args
        )


def _stores(loop: Loop) -> bool:
    return any(isinstance(s, Store) or (isinstance(s, Loop) and _stores(s)) for s in loop.body)
