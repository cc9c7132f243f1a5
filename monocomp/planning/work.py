"""Work: an estimate of what the kernels of a program compute and move, before any is built.

A kernel computes a value in the outermost loop in which its indices are at hand. So a value
is computed once more for every block of each loop around that place whose index it lacks,
and of each index of the outputs that its kernel is cut along. Counted are scalar operations
and bytes read and written; filters count as if they admitted everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from monocomp import terms as T
from monocomp.equations import Equation, Equations
from monocomp.planning.roles import choose_roles, fits_whole, kernel_groups, prefix_of, scan_of
from monocomp.terms import Term

ROW_BLOCK, LOOP_BLOCK = 128, 64  # what one load or one value serves, with the usual schedules
INPUT_BYTES, STORED_BYTES = 2, 4
OPERATIONS_PER_BYTE = 8  # what a GPU computes in the time that a byte takes
_LEAVES = ("const", "param", "extent", "index")


@dataclass(frozen=True)
class Place:
    """Where a fold is computed, and how often.

    Attributes:
        loops: the indices of the outputs and of the loops around it, outermost first.
        times: how often it is computed.
        repeats: how often for the same values of its indices.
        repeated_by: the index, of those, that it lacks and that repeats it most, if any does.
    """

    loops: tuple[Term, ...]
    times: int
    repeats: int
    repeated_by: Term | None


@dataclass
class Work:
    """What one kernel does.

    Attributes:
        equations: what it computes.
        grid: the indices of which each program instance has one value.
        operations, bytes: the estimates.
        folds: every fold (or field of one), with the places where it is computed.
    """

    equations: Sequence[Equation]
    grid: frozenset[Term]
    operations: int = 0
    bytes: int = 0
    folds: dict[Term, list[Place]] = field(default_factory=dict)

    @property
    def cost(self) -> int:
        """One number to compare programs by."""
        return self.operations + OPERATIONS_PER_BYTE * self.bytes


def work(program: Equations, sizes: Mapping[str, int]) -> list[Work]:
    """The work of each kernel; `sizes` has a number for every extent."""
    return [_Counter(group, sizes).run() for group in kernel_groups(program, sizes)]


def elements(indices: Iterable[Term], sizes: Mapping[str, int]) -> int:
    """The number of combinations of values that indices take."""
    return math.prod(sizes[i.attr[1]] for i in indices)


class _Counter:
    def __init__(self, group: Sequence[Equation], sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.scan = scan_of(group)
        self.indices = tuple(dict.fromkeys(i for e in group for i in e.indices))
        axes = choose_roles(group, lambda extent: fits_whole(extent, sizes))
        lengths = {"grid": 1, "row": ROW_BLOCK}  # other axes are not cut between programs
        self.blocks = {
            i: lengths.get(axes[i.attr[0]].role, max(1, sizes[i.attr[1]])) for i in self.indices
        }
        grid = frozenset(i for i in self.indices if axes[i.attr[0]].role == "grid")
        self.work = Work(group, grid)
        self.seen: set[tuple[Term, tuple[Term, ...]]] = set()

    def run(self) -> Work:
        for e in self.work.equations:
            self._visit(e.body, self.indices)
            self.work.bytes += elements(e.indices, self.sizes) * STORED_BYTES
        return self.work

    def _visit(self, t: Term, loops: tuple[Term, ...]) -> None:
        loops = self._home(t, loops)
        if t.op in _LEAVES or (t, loops) in self.seen:
            return
        self.seen.add((t, loops))
        place = self._place(t, loops)
        fold = t.args[0] if t.op == "field" else t
        if fold.op in ("fold", "fold_at"):
            self.work.folds.setdefault(t, []).append(place)
            # Folds over one extent at one place share a loop, so their indices share a name.
            names = [f"${len(loops)}.{e}" for e in fold.attr.extents]
            is_scan = self.scan is not None and prefix_of(fold) is self.scan
            if self.scan is not None and is_scan:  # an element for each place
                names = [self.scan.attr[0]]
            opened, parts = T.open_as(fold, names)
            opened = () if is_scan else opened
            self.work.operations += (
                place.times * elements(opened, self.sizes) * (len(fold.args) - 1)
            )
            for part in parts:
                self._visit(part, (*loops, *opened))
            if fold.op == "fold_at":
                self._visit(fold.args[0], loops)
            return
        if t.op in ("read", "stored"):
            width = INPUT_BYTES if t.op == "read" else STORED_BYTES
            self.work.bytes += place.times * width
        else:
            self.work.operations += place.times * max(1, len(t.args) - 1)
        for a in t.args:
            self._visit(a, loops)

    def _home(self, t: Term, loops: tuple[Term, ...]) -> tuple[Term, ...]:
        """The loops around the place where t is computed."""
        last = max((n for n, i in enumerate(loops) if i.attr[0] in t.free), default=-1)
        return loops[: max(last + 1, len(self.indices))]

    def _place(self, t: Term, loops: tuple[Term, ...]) -> Place:
        lacking = {
            i: math.ceil(self.sizes[i.attr[1]] / self.blocks.get(i, LOOP_BLOCK))
            for i in loops
            if i.attr[0] not in t.free
        }
        repeats = math.prod(lacking.values())
        times = repeats * elements((i for i in loops if i.attr[0] in t.free), self.sizes)
        most = max(lacking, key=lambda i: lacking[i], default=None)
        return Place(loops, times, repeats, most if repeats > 1 else None)
