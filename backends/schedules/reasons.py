"""Give reasons for a schedule before any is measured: the rows that voted, and their votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from monocomp.backends.schedules.features import NAMES
from monocomp.backends.schedules.legal import Legal
from monocomp.backends.schedules.table import Candidate, Election, Voter, elect, point

_RUNNERS_UP = 5
_DIFFERENCES = 3  # features shown, those that count most for the distance
_UNITS = "  lengths and counts are logarithms to base 2: see Features"


def reasons(legal: Legal) -> str:
    """Say why a kernel's first schedule is taken.

    Returns:
        The schedule, the processors that it leaves idle, the best shapes, their predicted times,
        and the rows of the table that predicted them: each with its distance, its share of the
        votes, its own best shape, and the features in which it differs most.
    """
    election = elect(legal)
    return "\n".join(
        [
            f"kernel {legal.program.name}",
            *_taken(legal, election),
            "",
            *_ranking(legal, election),
            "",
            *_rows(election),
        ]
    )


def _taken(legal: Legal, election: Election) -> Iterator[str]:
    chosen = next(filter(None, (legal.schedule(c.shape) for c in election.candidates)), None)
    if chosen is None:
        yield "  none of the shapes of near rows fits: the first that does, with shorter blocks"
        return
    yield f"  {chosen}"
    shape = legal.shape(chosen)
    count, processors = election.occupancy.instances(shape), legal.gpu.processors
    idle = max(0.0, processors - count)
    sizes = ", ".join(f"{n.lstrip('.')} = {size}" for n, size in sorted(legal.sizes.items()))
    yield f"  {sizes or 'sizes not known'}; elements of {legal.element_bytes} bytes"
    yield f"  {count:.0f} program instances for {processors} processors: {idle:.0f} idle"


def _ranking(legal: Legal, election: Election) -> list[str]:
    """List the first shapes: their times over the first legal one's, and who has tried them."""
    shown: list[tuple[Candidate, bool]] = []
    legal_ones = 0
    for candidate in election.candidates:
        fits = legal.schedule(candidate.shape) is not None
        shown.append((candidate, fits))
        legal_ones += fits
        if legal_ones > _RUNNERS_UP:
            break
    unit = next((c.time for c, fits in shown if fits), shown[0][0].time)
    lines = [
        (
            str(c.shape),
            f"{c.time / unit:.2f}",
            f"{c.block:.2f}",
            f"{c.share:.0%}",
            "" if fits else "does not fit",
        )
        for c, fits in shown
    ]
    return _table(("shape", "time", "a block's", "tried by", ""), lines)


def _rows(election: Election) -> list[str]:
    lines = [
        (
            f"{v.distance:.2f}",
            f"{v.share:.0%}",
            min(v.row.times, key=lambda each: each[1])[0],
            _differences(election.features, v),
        )
        for v in election.voters
    ]
    sources = dict.fromkeys(v.row.source for v in election.voters if v.row.source)
    header = ("nearest rows", "share", "best shape", "what differs")
    return [*_table(header, lines), _UNITS, *(f"  {source}" for source in sources)]


def _differences(own: Sequence[float], voter: Voter) -> str:
    point_of_kernel, point_of_row = point(own), voter.row.point
    away = {
        n: abs(point_of_kernel[n] - point_of_row[n])
        for n in range(len(NAMES))
        if point_of_kernel[n] != point_of_row[n]
    }
    most = sorted(away, key=lambda n: -away[n])[:_DIFFERENCES]
    return (
        ", ".join(f"{NAMES[n]} {voter.row.features[n]:g}, here {own[n]:g}" for n in most)
        or "nothing"
    )


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    padded = (
        "  " + "  ".join(text.ljust(n) for text, n in zip(line, widths, strict=True))
        for line in (header, *lines)
    )
    return [line.rstrip() for line in padded]
