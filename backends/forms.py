"""The forms of a kernel: its schedules, in one language or in several. The first language takes
every kernel and every layout; the others take what they can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from monocomp.backends.dialects import DIALECTS
from monocomp.backends.schedules.legal import Legal
from monocomp.backends.schedules.remembered import Refused, Rivals
from monocomp.backends.schedules.schedule import Schedule
from monocomp.declarations.record import record
from monocomp.errors import UnsupportedError


@record()
class Forms:
    """The forms of one kernel at given sizes.

    Attributes:
        legal: the schedules that it may have in each language.
    """

    legal: tuple[Legal, ...]

    def first(self) -> Schedule:
        """Return the schedule to take where nothing is measured: in the first language."""
        return DIALECTS[self.legal[0].language]().table.first(self.legal[0])

    def candidates(self, count: int) -> list[Schedule]:
        """Return schedules that are worth measuring: at most so many in each language."""
        first, *others = self.legal
        more = (s for legal in others for s in _admitted(legal, count))
        return [*_candidates(first, count), *more]

    def usual(self, chosen: Schedule, rivals: Rivals) -> Schedule:
        """Return the schedule to take for layouts that the first language alone takes: the one that
        is chosen for others, the best that was measured, or the first."""
        language = self.legal[0].language
        schedules = (s for s in (chosen, *(s for s, _ in rivals)) if s.language == language)
        return next(schedules, None) or self.first()

    @property
    def is_rivalled(self) -> bool:
        """True if the kernel has a form in another language than the first."""
        return any(_admitted(legal, 1) for legal in self.legal[1:])

    @property
    def may_add(self) -> bool:
        """True if the kernel has a form in a language whose kernels may add to memory."""
        adding = (legal for legal in self.legal if DIALECTS[legal.language]().adds)
        return any(_admitted(legal, 1) for legal in adding)

    def admits(self, schedule: Schedule) -> bool:
        """True if this could be a schedule of the kernel."""
        try:
            return any(legal.admits(schedule) for legal in self.legal)
        except UnsupportedError:  # the kernel has no form in its language
            return False


def spoken(schedules: Iterable[Schedule]) -> str:
    """Return the languages of kernels."""
    return " and ".join(sorted({s.language for s in schedules}))


def said(
    names: Sequence[str], rivals: Mapping[int, Rivals], refused: Sequence[Refused] = ()
) -> str:
    """Say what a call takes with each kernel in each language, where there are several, and which
    schedules were not timed."""
    each = [
        (n, " and ".join(f"{time:.3g} ms in {s.language}" for s, time in of_kernel))
        for n, of_kernel in rivals.items()
    ]
    both = sorted([*each, *refused], key=itemgetter(0))
    return "; ".join(f"{names[n]}: {text}" if len(names) > 1 else text for n, text in both)


def _candidates(legal: Legal, count: int) -> list[Schedule]:
    return DIALECTS[legal.language]().table.candidates(legal, count)


def _admitted(legal: Legal, count: int) -> list[Schedule]:
    """Return the candidates in a language; none where the kernel has no form in it."""
    try:
        return [s for s in _candidates(legal, count) if legal.admits(s)]
    except UnsupportedError:
        return []
