"""The schedules of kernels whose rows lie in warpgroups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from monocomp.backends.schedules.legal import Legal
from monocomp.backends.schedules.schedule import Schedule
from monocomp.blocks.choices.descriptors import descriptor_loads
from monocomp.blocks.passes.division import WARPGROUP
from monocomp.errors import UnsupportedError
from monocomp.tile import Assign, Expr, Let, Loop, State, subexpressions

_MOST = {1: 240, 2: 240, 3: 160}  # registers of a thread, by how many warpgroups compute
_WORKING = 24  # for rows, addresses and counters


class LegalOfWarpgroups(Legal):
    """Legal schedules of kernels whose rows are those of one to three warpgroups."""

    def admits(self, schedule: Schedule) -> bool:
        rows = {length for a, length in schedule.blocks if self.program.axes[a].role == "row"}
        return (
            schedule.descriptors
            and rows == {16 * schedule.num_warps}
            and super().admits(schedule)
            and self.registers(schedule) <= _MOST[schedule.num_warps // WARPGROUP]
        )

    def refusal(self, notes: Sequence[str] = ()) -> UnsupportedError:
        usual = super().refusal()
        return UnsupportedError(
            f"a warpgroup can't hold 64 rows of kernel '{self.program.name}'",
            notes=[usual.notes[0], *notes],
            help="compile with backend='triton', or make the axes that are held entirely shorter",
        )

    def registers(self, schedule: Schedule) -> int:
        """Count the registers of a thread: the sums that loops carry, and beside these what
        products give and, in 16 bits, what they take of it; what is drawn, half of what positions
        give, and two elements of vectors along rows. Tiles loaded through pointers lie as results
        of products do, two neighbours in a thread; each pair has a pointer, of two registers."""
        by_descriptor = descriptor_loads(self.program, resident=True)
        halves = 0
        for s in self.program.statements:
            match s:
                case Let(value=value) if value.op == "load":
                    halves += 0 if s.name in by_descriptor else 4 * self._tile(value, schedule)
                case Let(value=value) if value.op == "contract" or _draws(value):
                    halves += 2 * self._tile(value, schedule)
                case Let(value=value):
                    halves += self._along_rows(value, schedule)
                    halves += 0 if _takes_over(value) else self._tile(value, schedule)
                case Loop():
                    halves += sum(2 * self._tile(state, schedule) for state in s.state)
                case Assign(value=value):
                    lefts = (e.args[0] for e in subexpressions(value) if e.op == "contract")
                    halves += sum(self._tile(e, schedule) for e in lefts if e.op != "load")
        return _WORKING + halves // (2 * schedule.num_warps * self.gpu.lanes)

    def _along_rows(self, value: Expr, schedule: Schedule) -> int:
        """Count twice the elements of a vector along rows, of which each thread has two."""
        axes = value.axes & {*self.program.axis_names("row", "stream", "whole")}
        threads = schedule.num_warps * self.gpu.lanes
        return 4 * threads if axes and axes <= {*self.program.axis_names("row")} else 0

    def _tile(self, value: Expr | State, schedule: Schedule) -> int:
        """Count the elements of a tile; those of rows are few."""
        axes = value.axes & {*self.program.axis_names("row", "stream", "whole")}
        return self.resources.elements(axes, schedule) if len(axes) > 1 else 0


def _draws(value: Expr) -> bool:
    """True if a value is drawn, which takes so long that it is done while products run."""
    return any(e.op == "uniform" for e in subexpressions(value))


def _takes_over(value: Expr) -> bool:
    """True if a value may lie where a tile does that it is computed from."""
    return any(e.op == "local" and e.axes == value.axes for e in subexpressions(value))


def first(legal: Legal) -> Schedule:
    """Return the schedule to take.

    Raises:
        UnsupportedError: no warpgroup can hold rows of this kernel.
    """
    return candidates(legal, 1)[0]


def candidates(legal: Legal, count: int = 12) -> list[Schedule]:
    """Return schedules: as long blocks of streams as registers hold, then as many warpgroups."""
    found = list(_all(legal))
    if legal.has_descriptors:  # else no schedule can help, and passes say why
        found = [s for s in found if legal.admits(s)]
    if not found:
        raise legal.refusal()
    return found[:count]


def reasons(legal: Legal) -> str:
    """List the schedules in the order in which they are tried, with the registers of a thread."""
    lines = [
        f"kernel {legal.program.name}",
        "  the first whose rows the warpgroups' registers hold",
    ]
    for schedule in _all(legal):
        assert isinstance(legal, LegalOfWarpgroups)
        needed, most = legal.registers(schedule), _MOST[schedule.num_warps // WARPGROUP]
        lines.append(f"  {schedule}: {needed} registers of {most}")
        if legal.admits(schedule):
            break
    return "\n".join(lines)


def _all(legal: Legal) -> Iterator[Schedule]:
    for length, groups in product((128, 64, 32, 16), (3, 2, 1)):
        blocks = dict.fromkeys(legal.rows, 64 * groups)
        blocks |= dict.fromkeys(legal.program.axis_names("stream"), length)
        order = legal.orders[0]
        yield Schedule(
            tuple(blocks.items()), WARPGROUP * groups, 2, descriptors=True, group_size=order
        )
