"""Search schedules: candidates are compiled, checked and timed, and the fastest is kept.

Kernels are searched one after the other, the others at their best so far. Every candidate runs
once on outputs that were filled with what no kernel should leave, and its results must agree
with the tile programs as the torch backend interprets them; where that would take too long,
with those of most candidates. What is wrong or does not fit is out. The others are timed in
turns: clocks drift, and whoever ran first would win. The least time of each counts, as what else
the GPU does can only add to it. Time and number are bounded, and an interruption ends the search
with the best so far.

Where candidates are in several languages, each language has a search of its own, and then the best
in each are compared, kernel by kernel: the results of the first language are those that others must
agree with.

A first call on a GPU is a search with a small budget, a race: of a few candidates that no
prediction tells apart, compared with one another.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol, TypeAlias

from monocomp.backends.schedules.remembered import Entry, Refused, Rivals
from monocomp.backends.schedules.schedule import Schedule
from monocomp.declarations.record import record

Choice: TypeAlias = tuple[Schedule, ...]  # one for each kernel
Outputs: TypeAlias = tuple[Any, ...]


@record()
class Budget:
    """The limits of a search.

    Attributes:
        seconds: after so long it ends.
        candidates: of each kernel.
    """

    seconds: float
    candidates: int


SEARCH = Budget(20.0, 12)
# The time of schedules that the table predicts, over the best measured, for programs that it has
# not seen (geometric means of benchmarks.schedules): 1.057 with the first schedule, 1.034, 1.027,
# 1.021 and 1.017 with the best of 2, 3, 4 and 6; on short sequences 1.022, and 1.016, 1.008, 1.005
# and 1.002. The ratio of two times is predicted within 0.21, as the root of the mean square of
# logarithms: most of 4 candidates differ by less, so none of them is left out for its prediction.
RACE = Budget(10.0, 4)

_ROUNDS = 5
_AT_ONCE = 4  # candidates that are compiled
_COMPILING = 0.75  # the share of the time after which nothing more is compiled
_CHANCE = 0.01  # the part of a time by which few short measurements may differ
_TOO_LATE = "no time was left for it"


class DoesNotFit(Exception):
    """A candidate that the GPU can't run, or that does not compile."""


class Bench(Protocol):
    """The operations on a GPU that the search needs."""

    def compile(self, choices: Sequence[Choice]) -> None:
        """Compile these at the same time; `outputs` says which of them do not compile."""

    def outputs(self, choice: Choice) -> Outputs:
        """Return the results, of outputs that were poisoned before; raises DoesNotFit."""

    def timer(self, choice: Choice) -> Callable[[], float]:
        """Measure the milliseconds of a call; raises DoesNotFit."""

    def agree(self, results: Outputs, expected: Outputs) -> bool:
        """True if results are the same up to rounding."""


@dataclass
class Tuning:
    """The result of a search.

    Attributes:
        schedules: the fastest, one for each kernel.
        milliseconds: of a call with these, and `before` of one with the first candidates;
            None where that was not measured.
        measured, wrong, unfit: how many candidates were timed, gave a wrong result, and did not
            compile or fit.
        seconds: what it took.
        is_checked: True if a candidate was found right, so that the schedules can be relied on.
        was_interrupted: True if an interruption ended it.
        refused: the candidates that were not timed, and why, each with the number of its kernel.
        rivals: of kernels, by number, the best schedule in each language and the milliseconds with
            it, where there are several.
        entry: what is remembered.
    """

    schedules: Choice
    milliseconds: float | None = None
    before: float | None = None
    measured: int = 0
    wrong: int = 0
    unfit: int = 0
    seconds: float = 0.0
    is_checked: bool = False
    was_interrupted: bool = False
    refused: list[Refused] = field(default_factory=list)
    rivals: dict[int, Rivals] = field(default_factory=dict)
    entry: Entry | None = None

    def __str__(self) -> str:
        lines = [f"kernel {n + 1}: {s}" for n, s in enumerate(self.schedules)]
        if self.milliseconds is not None:
            gain = f", before {self.before:.4g} ms" if self.before is not None else ""
            lines.append(f"{self.milliseconds:.4g} ms{gain}")
        dropped = f"{self.wrong} wrong, {self.unfit} that did not fit"
        lines.append(f"{self.measured} measured, {dropped}, in {self.seconds:.1f} s")
        if self.was_interrupted:
            lines.append("interrupted: the best so far")
        if not self.is_checked:
            lines.append("no candidate was found right, so nothing is remembered")
        return "\n".join(lines)


Progress: TypeAlias = Callable[[str, int, int], None]


def search(
    options: Sequence[Sequence[Schedule]],
    bench: Bench,
    expected: Callable[[], Outputs | None],
    *,
    seconds: float = SEARCH.seconds,
    progress: Progress = lambda *_: None,
    clock: Callable[[], float] = time.monotonic,
) -> Tuning:
    """Return the fastest of some candidates.

    Args:
        options: the candidates of each kernel; the first are what is taken without a search.
        bench: runs and times them.
        expected: what the results must agree with, or None.
        seconds: after so long the search ends.
        progress: called with what is done, the number of a candidate, and how many there are.
        clock: the time, in seconds.
    """
    begin, how = clock(), (progress, clock)
    languages = dict.fromkeys(s.language for o in options for s in o)
    tracks = [[[s for s in o if s.language == x] or o[:1] for o in options] for x in languages]
    if len(tracks) < 2:
        return _in_one_file(options, bench, expected, (), seconds, *how)
    expected = cache(expected)

    def left() -> float:
        return begin + seconds - clock()

    together = [choice for track in tracks for choice in _first_choices(track)]
    tuning = _in_one_file(tracks[0], bench, expected, together, left() / 2, *how)
    if tuning.was_interrupted or not tuning.is_checked:
        return tuning
    usual, found = tuning.schedules, [tuning]
    rivals = [dict.fromkeys([s]) for s in usual]
    for track in tracks[1:]:
        track = [o if o != options[n][:1] else [usual[n]] for n, o in enumerate(track)]
        found.append(_in_one_file(track, bench, expected, (), left() / 2, *how))
        for n, s in enumerate(found[-1].schedules):
            rivals[n][s] = None
    changed = [
        (*usual[:n], s, *usual[n + 1 :]) for n, each in enumerate(rivals) for s in [*each][1:]
    ]

    def trusted() -> Outputs | None:
        with suppress(DoesNotFit):
            return expected() or bench.outputs(usual)
        return None

    found.append(_in_one_file([*map(list, rivals)], bench, trusted, changed, left(), *how))
    return _together(found, clock() - begin)


def _together(found: Sequence[Tuning], seconds: float) -> Tuning:
    """Return the result of searches of which the last has compared what the others have found."""
    first, *_, last = found
    is_interrupted = any(x.was_interrupted for x in found)
    best = first if is_interrupted or not last.is_checked else last
    return replace(
        best,
        before=first.before,
        measured=sum(x.measured for x in found),
        wrong=sum(x.wrong for x in found),
        unfit=sum(x.unfit for x in found),
        refused=[*dict.fromkeys(refused for x in found for refused in x.refused)],
        seconds=seconds,
        was_interrupted=is_interrupted,
    )


def _in_one_file(
    options: Sequence[Sequence[Schedule]],
    bench: Bench,
    expected: Callable[[], Outputs | None],
    others: Sequence[Choice],
    seconds: float,
    progress: Progress,
    clock: Callable[[], float],
) -> Tuning:
    """Search as `search` does, whatever the candidates' languages are; `others` are compiled with
    the first of them."""
    begin = clock()
    firsts = tuple(o[0] for o in options)
    tuning = Tuning(firsts)
    try:
        wanted = expected()
        if options:
            bench.compile([*(others or _first_choices(options))])
        for number in range(len(options)):
            left = begin + seconds - clock()
            share = left / (len(options) - number)
            _Kernel(number, bench, wanted, tuning, progress, clock).search(options[number], share)
    except KeyboardInterrupt:
        tuning.was_interrupted = True
    if tuning.schedules == firsts:  # clocks drift between the searches of two kernels
        tuning.milliseconds = tuning.before
    tuning.seconds = clock() - begin
    return tuning


def _first_choices(options: Sequence[Sequence[Schedule]]) -> Iterator[Choice]:
    """Yield choices that hold the first candidates of all kernels, to compile at the same time."""
    for n in range(min(_AT_ONCE, max(map(len, options)))):
        yield tuple(candidates[min(n, len(candidates) - 1)] for candidates in options)


class _Kernel:
    """The search for the schedule of one kernel, the others as they are."""

    def __init__(
        self,
        number: int,
        bench: Bench,
        expected: Outputs | None,
        tuning: Tuning,
        progress: Progress,
        clock: Callable[[], float],
    ) -> None:
        self.number = number
        self.bench = bench
        self.expected = expected
        self.tuning = tuning
        self.progress = progress
        self.clock = clock
        self.times: dict[Schedule, list[float]] = {}

    def search(self, options: Sequence[Schedule], seconds: float) -> None:
        """Put the best into the tuning, also when interrupted."""
        begin = self.clock()
        right = self._right(options, begin + _COMPILING * seconds)
        try:
            self._time(right, begin + seconds)
        finally:
            self._conclude(options[0])

    def _choice(self, schedule: Schedule) -> Choice:
        chosen = list(self.tuning.schedules)
        chosen[self.number] = schedule
        return tuple(chosen)

    def _right(self, options: Sequence[Schedule], until: float) -> list[Schedule]:
        """Return the candidates that compile and give the right results."""
        groups: list[tuple[Outputs, list[Schedule]]] = []
        if self.expected is not None:
            groups.append((self.expected, []))
        tried: list[Schedule] = []
        for n, option in enumerate(options):
            if tried and self.clock() > until:
                self._refuse(options[n:], _TOO_LATE)
                break
            self.progress("compiling", n + 1, len(options))
            if n and n % _AT_ONCE == 0:
                self.bench.compile([self._choice(o) for o in options[n : n + _AT_ONCE]])
            try:
                results = self.bench.outputs(self._choice(option))
            except DoesNotFit as reason:
                self._leave_out(option, reason)
                continue
            tried.append(option)
            group = next((g for g in groups if self.bench.agree(results, g[0])), None)
            if group is not None:
                group[1].append(option)
            elif self.expected is None:
                groups.append((results, [option]))
        right = max((g[1] for g in groups), key=len, default=[])
        if self.expected is None and len(right) == 1 and right[0] != options[0]:
            right = []  # nobody agrees with it
        self.tuning.wrong += len(tried) - len(right)
        self._refuse([s for s in tried if s not in right], "gives other results")
        return right

    def _leave_out(self, schedule: Schedule, reason: DoesNotFit) -> None:
        self.tuning.unfit += 1
        self._refuse([schedule], str(reason))

    def _refuse(self, schedules: Sequence[Schedule], reason: str) -> None:
        self.tuning.refused += [(self.number, f"{s}: {reason}") for s in schedules]

    def _time(self, right: Sequence[Schedule], until: float) -> None:
        timers: dict[Schedule, Callable[[], float]] = {}
        for n, schedule in enumerate(right):
            if timers and self.clock() > until:
                self._refuse(right[n:], _TOO_LATE)
                return
            self.progress("measuring", n + 1, len(right))
            try:
                timers[schedule] = self.bench.timer(self._choice(schedule))
            except DoesNotFit as reason:
                self._leave_out(schedule, reason)
                continue
            self.times[schedule] = [timers[schedule]()]
        for turn in range(1, _ROUNDS if len(timers) > 1 else 1):
            for s in _rotated([*timers], turn):
                if self.clock() > until:
                    return
                self.times[s].append(timers[s]())

    def _conclude(self, first: Schedule) -> None:
        if not self.times:
            return
        least = {s: min(t) for s, t in self.times.items()}
        fastest: dict[str, Schedule] = {}
        for schedule in sorted(least, key=least.__getitem__):
            fastest.setdefault(schedule.language, schedule)
        if len(fastest) > 1:
            self.tuning.rivals[self.number] = tuple((s, least[s]) for s in fastest.values())
        best = min(least, key=least.__getitem__)
        # The first of all has won longer measurements: it stays if it may be as fast.
        if least.get(first, math.inf) * (1 - _CHANCE) <= least[best]:
            best = first
        self.tuning.schedules = self._choice(best)
        self.tuning.milliseconds = least[best]
        if self.tuning.before is None:
            self.tuning.before = least.get(first)
        self.tuning.measured += len(least)
        self.tuning.is_checked = True


def _rotated(order: Sequence[Schedule], turn: int) -> list[Schedule]:
    start = turn % len(order)
    return [*order[start:], *order[:start]]
