"""Measure the schedules of library programs on a GPU, and write what was measured.

python -m benchmarks.schedules FILE                    search, within 8 minutes
python -m benchmarks.schedules FILE --afresh           the same, without what was measured before
python -m benchmarks.schedules FILE --unmeasured       time what comes first for programs left out
python -m benchmarks.schedules FILE --rehearse         on the CPU, with times that are made up
python -m benchmarks.schedules --table [FILE]          write the table of the package
python -m benchmarks.schedules --leave-one-out [FILE]  how well it serves programs not seen
python -m benchmarks.schedules --short [FILE]          and short lengths, of which it has no rows

For each kernel of each program, at some sizes and dtypes, the search starts from a few candidates
and goes on from the best: to its neighbours, and to what kernels like it have done best with.
Candidates are compiled in parallel by processes that need no GPU, and timed one at a time. The
file holds the times of all; it is saved every few seconds, and a later run goes on from it. What
the table is made from, and judged by, is in this folder: `h200.json`.
"""

from __future__ import annotations

import argparse
import collections
import heapq
import itertools
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.schedules.cases import Case, cases, name_of
from benchmarks.schedules.judging import (
    MEASURED,
    compare,
    judge,
    kernels,
    leave_one_out,
    short,
    unmeasured,
    write_table,
)
from benchmarks.schedules.workers import Done, Worker, finished
from monocomp.backends.schedules.table import distance, point

FORMAT = 2
MAKER, AND = "NVIDIA ", " and "  # before the names of GPUs, and between them
SECONDS, FILLING, ENDING = 480.0, 100.0, 12.0
FIRST_CANDIDATES, MOST_CANDIDATES, ROUNDS = 6, 13, 4
GAIN = 0.01  # a round that brings less is the last
COMPILE_LIMIT, MEASURE_LIMIT = 90.0, 90.0
SAVE_SECONDS = 15.0
TOLD = ("digest", "tile", "extents", "element_bytes", "features", "first")  # of a planned kernel
MOST_FAULTS = 40  # compilations that may fail before one succeeds


@dataclass
class Work:
    """The search for one kernel.

    Attributes:
        case, number: where it was seen first.
        programs: all that have it.
        digest: the same for the same kernel at the same sizes.
        tile, extents, element_bytes: the kernel itself, as text, and what it runs on.
        features: that the table tells it apart by.
        first: what is taken for it today.
        times: milliseconds of each shape, None of those that do not work.
        reasons: why they do not.
        compiling, compiled: candidates of this round.
        round: how many have been timed.
        best: the fastest time before this round.
        fills: is this the last round?
        is_ready: has the first been compiled in this run?
    """

    case: Case
    number: int
    programs: list[str]
    digest: str
    tile: str
    extents: dict[str, int]
    element_bytes: int
    features: tuple[float, ...]
    first: str
    times: dict[str, float | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    compiling: set[str] = field(default_factory=set)
    compiled: list[str] = field(default_factory=list)
    round: int = 0
    best: float = math.inf
    fills: bool = False
    is_ready: bool = False

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.case}, kernel {self.number + 1}"

    def fastest(self) -> list[str]:
        """The shapes that work, the fastest first."""
        return sorted((s for s, t in self.times.items() if t is not None), key=self._time)

    def _time(self, shape: str) -> float:
        return self.times[shape] or math.inf

    def to_json(self) -> dict[str, Any]:
        """What is kept."""
        times = {s: t and round(t, 6) for s, t in self.times.items()}
        return {
            "digest": self.digest,
            "tile": self.tile,
            "extents": self.extents,
            "element_bytes": self.element_bytes,
            "programs": self.programs,
            "kernel": self.number + 1,
            "dtype": self.case.dtype,
            "sizes": dict(self.case.sizes),
            "first": self.first,
            "times": dict(sorted(times.items(), key=lambda pair: pair[1] or math.inf)),
        }


def like(work: Work, others: Iterable[Work], count: int) -> list[Work]:
    """The nearest kernels of other programs that something is known of."""
    known = [w for w in others if w.fastest() and not {*w.programs} & {*work.programs}]
    near = [(distance(point(work.features), point(w.features)), n) for n, w in enumerate(known)]
    return [known[n] for d, n in heapq.nsmallest(count, near)]


class Search:
    """The search for all kernels.

    Args:
        path: of the measurements.
        machine: what is written beside them.
        compilers, timer: the workers.
        only: candidates by a kernel's digest, instead of a search.
    """

    def __init__(
        self,
        path: Path,
        machine: Mapping[str, Any],
        compilers: list[Worker],
        timer: Worker,
        only: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.path = path
        self.machine = machine
        self.compilers = compilers
        self.timer = timer
        self.works: dict[str, Work] = {}
        self.before = _read(path)
        self.jobs: list[tuple[float, int, Any, tuple[Any, ...]]] = []  # for compilers
        self.batches: list[tuple[float, int, Work]] = []  # for the timer
        self.counter = itertools.count()
        self.counts: collections.Counter[str] = collections.Counter()
        self.seconds: dict[str, float] = collections.defaultdict(float)
        self.only = only
        self.is_filling = only is not None

    def run(self, todo: Iterable[Case], seconds: float) -> None:
        """Search until time is over, or there is nothing left to do."""
        from benchmarks.schedules import jobs as jobs

        self.begun = saved = said = time.monotonic()
        for case in todo:
            self._job(case.tier - 0.5, ("plan", case), jobs.plan, case, FIRST_CANDIDATES)
        while True:
            now = time.monotonic() - self.begun
            if now > seconds - ENDING or (self._is_idle() and self.is_filling):
                break
            if not self.is_filling and (now > seconds - FILLING or self._is_idle()):
                self._fill()
            self._hand_out()
            for done in finished([*self.compilers, self.timer], 0.5):
                self._take(done)
            if time.monotonic() - saved > SAVE_SECONDS:
                self.save()
                saved = time.monotonic()
            if time.monotonic() - said > 5:
                said = time.monotonic()
                self._say()
        self.save()
        self._say()

    def forget(self, programs: set[str]) -> None:
        """Leave out what was measured of these programs before."""
        before = self.before.items()
        self.before = {d: k for d, k in before if programs.isdisjoint(k["programs"])}

    def save(self) -> None:
        """Write what is known, all of it or nothing."""
        kept = {w.digest: w.to_json() for w in self.works.values() if w.fastest()}
        kernels = [*{**self.before, **kept}.values()]
        tiles = {name_of(k["tile"]): k["tile"] for k in kernels}
        named = (json.dumps({**k, "tile": name_of(k["tile"])}) for k in kernels)
        texts = (f"{json.dumps(n)}: {json.dumps(t)}" for n, t in tiles.items())
        head = json.dumps({"format": FORMAT, **self.machine})[:-1]
        lists = f'"tiles": {{\n{_lines(texts)}\n}}, "kernels": [\n{_lines(named)}\n]'
        new = self.path.with_suffix(".new")
        new.write_text(f"{head}, {lists}}}\n")
        new.replace(self.path)

    # --- what is to be done ---------------------------------------------------------------

    def _is_idle(self) -> bool:
        free = self.timer.is_free and all(w.is_free for w in self.compilers)
        return free and not self.jobs and not self.batches

    def _job(self, priority: float, key: Any, job: Any, *given: Any) -> None:
        heapq.heappush(self.jobs, (priority, next(self.counter), key, (job, *given)))

    def _hand_out(self) -> None:
        for worker in self.compilers:
            if worker.is_free and self.jobs:
                _, _, key, given = heapq.heappop(self.jobs)
                worker.submit(key, *given)
        if self.timer.is_free and self.batches:
            from benchmarks.schedules import jobs as jobs

            _, _, work = heapq.heappop(self.batches)
            texts = [*work.fastest()[:1], *work.compiled]
            self.timer.submit(
                ("measure", work), jobs.measure, work.case, work.number, list(dict.fromkeys(texts))
            )

    def _take(self, done: Done) -> None:
        kind = done.key[0]
        self.counts[kind] += 1
        self.seconds[kind] += done.seconds
        {
            "plan": self._planned,
            "compile": self._compiled,
            "measure": self._measured,
            "propose": self._proposed,
        }[kind](done)

    def _planned(self, done: Done) -> None:
        case: Case = done.key[1]
        if done.result is None:
            print(f"{case}: not planned, {done.fault}", flush=True)
            return
        for number, kernel in enumerate(done.result):
            known = self.works.get(kernel["digest"])
            if known is not None:
                known.programs = list(dict.fromkeys([*known.programs, case.program]))
                continue
            told = {name: kernel[name] for name in TOLD}
            work = self.works[kernel["digest"]] = Work(case, number, [case.program], **told)
            before = self.before.get(work.digest)
            if before is not None:
                work.times, work.round = dict(before["times"]), 1
                work.programs = list(dict.fromkeys([*before["programs"], case.program]))
            only = self.only
            self._begin(work, kernel["candidates"] if only is None else only.get(work.digest, ()))

    def _begin(self, work: Work, candidates: Iterable[str]) -> None:
        """Compile candidates that are new; if there are none, the search is over."""
        from benchmarks.schedules import jobs as jobs

        new = [c for c in candidates if c not in work.times][:MOST_CANDIDATES]
        if new and not work.is_ready:  # what they are compared with may be from a run before
            new = list(dict.fromkeys([work.first, *work.fastest()[:1], *new]))
            work.is_ready = True
        work.compiling, work.compiled = set(new), []
        priority = -5.0 if work.fills else 2.0 * work.round + work.case.tier
        for text in new:
            key = "compile", work, text
            self._job(priority, key, jobs.compile_kernel, work.case, work.number, text)
        if not new and work.round == 1 and not self.is_filling:
            self._go_on(work)

    def _compiled(self, done: Done) -> None:
        _, work, text = done.key
        if text not in work.compiling:
            return  # of a round that was given up
        work.compiling.discard(text)
        if done.fault:
            work.times[text], work.reasons[text] = None, done.fault
            self.counts["unfit"] += 1
            if self.counts["unfit"] <= MOST_FAULTS:
                print(f"{work.name}: {text} is not compiled, {done.fault}", flush=True)
            if (
                self.counts["unfit"] > MOST_FAULTS
                and self.counts["unfit"] == self.counts["compile"]
            ):
                raise RuntimeError("nothing can be compiled here")
        else:
            work.compiled.append(text)
        if not work.compiling and work.compiled:
            self._time(work)

    def _time(self, work: Work) -> None:
        priority = -5.0 if work.fills else 2.0 * work.round + work.case.tier
        heapq.heappush(self.batches, (priority, next(self.counter), work))

    def _measured(self, done: Done) -> None:
        work: Work = done.key[1]
        if done.result is None:
            print(f"{work.name}: {done.fault} at {done.told}", flush=True)
            self.counts["failed"] += 1
            if self.counts["failed"] > 8 and not self.counts["timed"]:
                raise RuntimeError("nothing can be timed here")
            if not done.died:
                self.timer.restart()
            if done.told not in work.compiled:
                work.compiled = []  # not even the first runs
                return
            work.times[done.told], work.reasons[done.told] = None, done.fault
            work.compiled.remove(done.told)
            if work.compiled:
                self._time(work)
            return
        again = next(iter(work.fastest()), None)  # clocks drift: times are relative to the best's
        then, now = work.times.get(again or ""), done.result.get(again, (None, ""))[0]
        scale = then / now if then and now else 1.0
        for text, (taken, reason) in done.result.items():
            if text == again:
                continue
            work.times[text] = None if taken is None else taken * scale
            if reason:
                work.reasons[text] = reason
                self.counts["wrong"] += 1
                print(f"{work.name}: {text}: {reason}", flush=True)
            else:
                self.counts["timed"] += 1
        work.compiled = [c for c in work.compiled if c not in work.times]
        if work.compiled and not work.compiling:  # while the others were timed
            self._time(work)
        work.round += 1
        fastest = work.fastest()
        if not fastest:
            return
        best = work.times[fastest[0]] or math.inf
        gained, work.best = best < (1 - GAIN) * work.best, best
        if not self.is_filling and work.round < ROUNDS and (gained or work.round == 1):
            self._go_on(work)

    def _go_on(self, work: Work) -> None:
        from benchmarks.schedules import jobs as jobs

        best = next(iter(work.fastest()), None)
        others = [s for w in like(work, self.works.values(), 3) for s in w.fastest()[:2]]
        key, priority = ("propose", work), 2.0 * work.round + work.case.tier - 0.5
        self._job(priority, key, jobs.propose, work.case, work.number, best, others)

    def _proposed(self, done: Done) -> None:
        work: Work = done.key[1]
        if done.result is None:
            print(f"{work.name}: nothing proposed, {done.fault}", flush=True)
        elif work.fills or not self.is_filling:
            self._begin(work, done.result)

    def _fill(self) -> None:
        """Time what the nearest kernels of other programs have done best with."""
        from benchmarks.schedules import jobs as jobs

        self.is_filling = True
        self.jobs = [j for j in self.jobs if j[2][0] == "plan"]
        heapq.heapify(self.jobs)
        for work in self.works.values():
            work.compiling = set()
            if not work.times:
                continue
            work.fills = True
            if work.compiled and not any(b[2] is work for b in self.batches):
                self._time(work)
            others = [s for w in like(work, self.works.values(), 2) for s in w.fastest()[:3]]
            self._job(-6, ("propose", work), jobs.propose, work.case, work.number, None, others)

    def _say(self) -> None:
        seconds, c = time.monotonic() - self.begun, self.counts
        mean = {k: self.seconds[k] / max(1, c[k]) for k in ("plan", "compile", "measure")}
        print(
            f"{seconds:4.0f} s: {len(self.works)} kernels, {c['compile']} compiled "
            f"({mean['compile']:.1f} s each), {c['unfit']} unfit, {c['timed']} timed in "
            f"{c['measure']} batches ({mean['measure']:.1f} s each), {c['wrong']} wrong; to do: "
            f"{len(self.jobs)} jobs, {len(self.batches)} batches" + ", filling" * self.is_filling,
            flush=True,
        )


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """The measurements of a run before, by digest."""
    if not path.exists():
        return {}
    data = json.loads(path.read_text())
    kernels = ({**k, "tile": data["tiles"][k["tile"]]} for k in data["kernels"])
    return {k["digest"]: k for k in kernels}


def _devices(path: Path, name: str) -> str:
    """Return the names of NVIDIA's GPUs whose measurements a file holds, and of this one."""
    before = json.loads(path.read_text())["device"] if path.exists() else MAKER
    names = before.removeprefix(MAKER).split(AND) if before != MAKER else []
    return MAKER + AND.join(dict.fromkeys([*names, name.removeprefix(MAKER)]))


def _lines(parts: Iterable[str]) -> str:
    return ",\n".join(parts)


def main() -> int:
    """Search."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("path", type=Path, nargs="?", default=MEASURED, help="of measurements")
    parser.add_argument("--table", action="store_true", help="write the table")
    parser.add_argument("--leave-one-out", action="store_true", help="judge the table")
    parser.add_argument("--short", action="store_true", help="judge it at short lengths")
    parser.add_argument("--compare", action="store_true", help="with what came first before")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="what it may take")
    parser.add_argument("--jobs", type=int, default=0, help="processes that compile")
    parser.add_argument("--only", nargs="*", default=(), help="programs")
    parser.add_argument("--afresh", action="store_true", help="forget these programs' times")
    parser.add_argument("--unmeasured", action="store_true", help="for what judges the table")
    parser.add_argument("--most", type=int, default=10**6, help="cases")
    parser.add_argument("--rehearse", action="store_true", help="without a GPU")
    chosen = parser.parse_args()
    if chosen.table:
        write_table(chosen.path)
    if chosen.leave_one_out:
        print(leave_one_out(kernels(chosen.path)))
    if chosen.short:
        print(judge(short(kernels(chosen.path))))
    if chosen.compare:
        print(compare(kernels(chosen.path)))
    if chosen.table or chosen.leave_one_out or chosen.short or chosen.compare:
        return 0
    # Before a process is started: they share the cache of what is compiled.
    os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp(prefix="monocomp-schedules-"))
    import torch
    import triton

    from benchmarks.schedules import jobs as jobs

    target, processors, device = "cuda:90", 132, "a rehearsal"
    if not chosen.rehearse:
        found = torch.cuda.get_device_properties(0)
        device, processors = _devices(chosen.path, found.name), found.multi_processor_count
        target = f"cuda:{found.major}{found.minor}"
    machine = {
        "device": device,
        "target": target,
        "processors": processors,
        "date": time.strftime("%Y-%m-%d"),
        "triton": triton.__version__,
        "torch": torch.__version__,
    }
    count = chosen.jobs or max(1, len(os.sched_getaffinity(0)) - 2)
    print(f"{machine}, {count} compilers", flush=True)
    wanted = [c for c in cases() if not chosen.only or c.program in chosen.only]
    compilers = [
        Worker(jobs.set_up, (target, processors, chosen.rehearse, True), COMPILE_LIMIT)
        for _ in range(count)
    ]
    timer = Worker(jobs.set_up, (target, processors, chosen.rehearse, False), MEASURE_LIMIT)
    only = unmeasured(kernels(chosen.path)) if chosen.unmeasured else None
    search = Search(chosen.path, machine, compilers, timer, only)
    if chosen.afresh:
        search.forget({c.program for c in wanted[: chosen.most]})
    try:
        search.run(wanted[: chosen.most], chosen.seconds)
    except KeyboardInterrupt:
        search.save()
    finally:
        for worker in [*compilers, timer]:
            worker.stop()
    print(f"{len(search.works)} kernels in {chosen.path}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
