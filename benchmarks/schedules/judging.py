"""The table of schedules, made from measurements, and judged by them.

For every program that is left out, the table made from the others says what comes first for each of
its kernels; that schedule's time is compared with the best that was measured. A launch takes about
five microseconds, and a kernel that takes less counts as one that takes as long.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.schedules.cases import Case, Prepared, case
from monocomp.backends.schedules import table
from monocomp.backends.schedules.features import NAMES, features
from monocomp.backends.schedules.legal import Legal
from monocomp.backends.schedules.search import RACE
from monocomp.tile.parser import parse

FOLDER = Path(__file__).parent
MEASURED, SUGGESTED = FOLDER / "h200.json", FOLDER / "suggested.json"
SHORT = FOLDER / "short.json"  # of which the table has no rows
TABLE = Path(table.__file__).with_name("table.json")
LAUNCH = 0.005  # milliseconds
MOST = 2.5  # times the best that a schedule may take: some kernels of gradients are like no others


@dataclass(frozen=True)
class Kernel:
    """A kernel that was measured.

    Attributes:
        digest: the same for the same kernel at the same sizes.
        programs: that have it.
        name: for messages.
        legal: the schedules that it may have.
        before: what was taken first when it was measured.
        times: milliseconds, of those that work.
        row: of the table.
    """

    digest: str
    programs: frozenset[str]
    name: str
    legal: Legal
    before: str
    times: dict[str, float]
    row: table.Row

    def loss(self, shape: str) -> float | None:
        """The time of a shape over the best; None where it was not measured."""
        if shape not in self.times:
            return None
        return max(self.times[shape], LAUNCH) / max(min(self.times.values()), LAUNCH)


def kernels(path: Path = MEASURED) -> list[Kernel]:
    """What was measured. The file holds the kernels themselves, however they are planned today, so
    what follows from it is always the same."""
    data, found = json.loads(path.read_text()), []
    tiles = {name: parse(text) for name, text in data["tiles"].items()}
    for k in data["kernels"]:
        program, width = tiles[k["tile"]], k["element_bytes"]
        legal = Legal(program, k["extents"], width, data["target"], data["processors"])
        times = {s: t for s, t in k["times"].items() if t is not None}
        row = table.Row(features(legal).numbers(), data["processors"], relative(times))
        which = Case(k["programs"][0], tuple(sorted(k["sizes"].items())), k["dtype"])
        name = f"{which}, kernel {k['kernel']}"
        programs = frozenset(k["programs"])
        found.append(Kernel(k["digest"], programs, name, legal, k["first"], times, row))
    return found


def short(known: Sequence[Kernel], path: Path = SHORT) -> list[Kernel]:
    """Some of these kernels at short lengths, all of whose shapes were measured there."""
    found = []
    for k in json.loads(path.read_text())["kernels"]:
        program, sizes, number = k["program"], k["sizes"], f"kernel {k['kernel']}"
        long = next(
            x
            for x in known
            if program in x.programs and x.name.endswith(number) and _is_alike(x.legal.sizes, sizes)
        )
        legal = replace(long.legal, sizes={**long.legal.sizes, **sizes})
        row = table.Row(features(legal).numbers(), long.row.processors, relative(k["times"]))
        name = f"{case(program, sizes)}, {number}"
        found.append(replace(long, name=name, legal=legal, times=k["times"], row=row))
    return found


def _is_alike(sizes: Mapping[str, int], short: Mapping[str, int]) -> bool:
    """True if two sizes are those of self-attention with the same heads."""
    return sizes["q"] == sizes.get("k") and all(sizes.get(n) == short[n] for n in "de")


def judge(known: Sequence[Kernel]) -> Judgement:
    """Return the times of choices for kernels without rows of their own, over the best."""
    found = Judgement({}, {}, {})
    for k in known:
        found.add(k.name, [k.loss(str(k.legal.shape(s))) for s in table.ranked(k.legal)])
    return found


def relative(times: dict[str, float]) -> tuple[tuple[str, float], ...]:
    """Times over the best, the best first."""
    best = min(times.values())
    return tuple((s, round(times[s] / best, 3)) for s in sorted(times, key=times.__getitem__))


def suggested() -> Iterator[dict[str, Any]]:
    """Sources of rows that no search has measured, with the rows: schedules in order, or times."""
    for source in json.loads(SUGGESTED.read_text()):
        target, rows = source["target"], []
        for k in source["kernels"]:
            which = case(k["program"], k["sizes"], k.get("dtype", "bfloat16"))
            made = Prepared(which, "meta", target, source["processors"])
            times = k.get("times") or {s: 1 + n / 20 for n, s in enumerate(k["shapes"])}
            row = {"features": features(made.legal[0]).numbers(), "times": dict(relative(times))}
            rows.append(row)
        yield {"source": source["source"], "processors": source["processors"], "rows": rows}


def write_table(path: Path = MEASURED) -> None:
    """Write the table that comes with the package."""
    data = json.loads(path.read_text())
    rows = [{"features": k.row.features, "times": dict(k.row.times)} for k in kernels(path)]
    versions = f"triton {data['triton']}, torch {data['torch']}, {data['date']}"
    source = f"measured on {data['device']}, {versions}; see benchmarks/schedules/{path.name}"
    sources = [{"source": source, "processors": data["processors"], "rows": rows}, *suggested()]
    lines = []
    for each in sources:
        inside = ",\n".join(json.dumps(r, separators=(",", ":")) for r in each.pop("rows"))
        lines.append(f'{json.dumps(each)[:-1]}, "rows": [\n{inside}\n]}}')
    head = json.dumps({"format": table.FORMAT, "features": NAMES})[:-1]
    TABLE.write_text(f'{head}, "sources": [\n' + ",\n".join(lines) + "\n]}\n")


@dataclass(frozen=True)
class Judgement:
    """How much longer schedules take than the best measured, by kernel.

    Attributes:
        losses: of first schedules.
        unknown: of those that come next, where the first was not measured.
        raced: of the best of those that come first and were measured, as many as race.
    """

    losses: dict[str, float]
    unknown: dict[str, float]
    raced: dict[str, float]

    def add(self, name: str, losses: Sequence[float | None]) -> None:
        """Add a kernel, by what each of its schedules loses, those that come first in front."""
        measured = [x for x in losses if x is not None]
        if measured:
            into = self.unknown if losses[0] is None else self.losses
            into[name] = measured[0]
            self.raced[name] = min(measured[: RACE.candidates])

    def __str__(self) -> str:
        slow = sorted(((x, name) for name, x in self.losses.items() if x > MOST), reverse=True)
        both = [*self.losses.values(), *self.unknown.values()]
        return "\n".join(
            [
                *(f"{x:6.2f}  {name}" for x, name in slow),
                f"{len(self.losses)} first schedules: geometric mean "
                f"{mean(self.losses.values()):.3f}, worst {max(self.losses.values()):.2f}",
                f"{len(self.unknown)} were not measured; with the next that was in place of each, "
                f"geometric mean {mean(both):.3f}, worst {max(both):.2f}",
                f"the best of {RACE.candidates}: geometric mean {mean(self.raced.values()):.3f}, "
                f"worst {max(self.raced.values()):.2f}",
            ]
        )


def mean(losses: Iterable[float]) -> float:
    """The geometric mean."""
    return exp(fmean(map(log, losses)))


def left_out(known: Sequence[Kernel]) -> Iterator[tuple[str, Kernel, list[str]]]:
    """Each program with its kernels, and the shapes that the others have for them, in order."""
    for program in sorted({p for k in known for p in k.programs}):
        rows = [k.row for k in known if program not in k.programs]
        for k in (k for k in known if program in k.programs):
            yield program, k, [str(k.legal.shape(s)) for s in table.ranked(k.legal, rows)]


def leave_one_out(known: Sequence[Kernel]) -> Judgement:
    """What the table makes of programs that it has not seen."""
    found = Judgement({}, {}, {})
    for program, k, shapes in left_out(known):
        found.add(f"{program}: {k.name}", [k.loss(s) for s in shapes])
    return found


def unmeasured(known: Sequence[Kernel]) -> dict[str, list[str]]:
    """What comes first for kernels of programs left out and was not measured, by digest."""
    found: dict[str, list[str]] = {}
    for _, k, (first, *_) in left_out(known):
        if k.loss(first) is None:
            found.setdefault(k.digest, []).append(first)
    return found


def compare(known: Sequence[Kernel]) -> str:
    """Where the first schedule is slower than what came first when all was measured."""
    lines = []
    for k in known:
        now = str(k.legal.shape(table.first(k.legal)))
        new, old = k.times.get(now), k.times.get(k.before)
        if new is None or old is None:
            lines.append(f"   ?  {k.name}: {now} for {k.before}")
        elif max(new, LAUNCH) > 1.01 * max(old, LAUNCH):
            lines.append(f"{new / old:.2f}  {k.name}: {now} for {k.before}")
    return "\n".join(sorted(lines, reverse=True))
