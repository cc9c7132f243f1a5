"""Look up the schedules that suited similar kernels: rows of features and measured shapes.

A row holds the features of one kernel and how long each shape took that was measured for it, over
the best of them; no row says which program it is from. The rows nearest to a kernel vote: the
score of a shape is the mean of the logarithms of its times, weighted by nearness (Nadaraya and
Watson's estimator), and more the fewer of them have tried it: where many shapes are compared, one
of which little is known must not win by chance. Votes are for the time of a block, which follows
from the time of a kernel and its occupancy. With the occupancy of this kernel, long or short, they
give its time. The best shape that is legal comes first.

The rows come from `python -m benchmarks.schedules --table`, and so do their measurements. Those for
targets that were not measured are from what registers and shared memory hold, and say so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, cached_property
from heapq import nsmallest
from importlib.resources import files
from itertools import islice
from math import dist, exp, inf, log
from operator import sub
from typing import Any

from monocomp.backends.schedules.features import NAMES, features
from monocomp.backends.schedules.legal import Legal, Shape
from monocomp.backends.schedules.occupancy import Occupancy
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.schedules.search import RACE, SEARCH
from monocomp.declarations.record import record

FORMAT = 1
# What a difference of 1 counts. Lengths are logarithms, and beyond a limit they are all the same.
_WEIGHTS = {
    "rows": 1.07,
    "streams": 7.34,
    "products": 0.66,
    "splits": 0.406,
    "merges": 130.0,
    "serial": 9.63,
    "bytes": 2.24,
    "positions": 0.056,
    "row": 0.59,
    "columns": 0.222,
    "length": 0.32,
    "held": 0.074,
    "whole": 0.332,
    "statistics": 0.285,
    "work": 0.124,
    "gathers": 0.3,
    "limbs": 0.823,
    "masked": 0.329,
    "bounded": 0.241,
    "levels": 0.272,
    "rest": 2.19,
    "has_descriptors": 0.447,
    "split_padding": 2.4,
    "direct": 9.1,
    "lanes": 0.108,
    "kept": 0.00296,
    "streamed": 0.0573,
    "converted": 2.0,
}
_LIMITS = {
    **{"rows": 2, "row": 9, "columns": 8, "length": 16},
    **{"positions": 11, "products": 6, "limbs": 2},
}
_NEAR = 12  # rows vote
# A row at distance d has the weight (nearness + d) ** -sharpness.
_NEARNESS, _SHARPNESS = 0.037, 4.29
_ROUNDING = 1 + 1e-9
_DOUBT, _DOUBTED = 0.0801, 0.368  # the weight, for all votes, of doubt, and the time it adds

# The weight of lengths and positions where the model of occupancy accounts for them.
_KNOWN = 0.1

_APART = 1000.0
_SCALES = tuple(_WEIGHTS[name] for name in NAMES)
_COUNTED = ("positions", "row", "length")
_KNOWN_SCALES = tuple(_WEIGHTS[n] * (_KNOWN if n in _COUNTED else 1.0) for n in NAMES)
_MOST = tuple(_LIMITS.get(name, inf) for name in NAMES)
_PRODUCTS, _DIRECT = NAMES.index("products"), NAMES.index("direct")


@record()
class Row:
    """The measurements of one kernel.

    Attributes:
        features: of the kernel, as `Features.numbers` has them.
        processors: of the GPU.
        times: that of each shape, divided by the best.
        source: where and when it was measured.
    """

    features: tuple[float, ...]
    processors: int
    times: tuple[tuple[str, float], ...]
    source: str = field(default="", compare=False)

    @cached_property
    def point(self) -> tuple[float, ...]:
        """Return the point of the kernel."""
        return point(self.features)

    @cached_property
    def votes(self) -> tuple[tuple[str, float], ...]:
        """Return the logarithm of the time of a block with each shape, over the least of all."""
        occupancy = _occupancy(self.features, self.processors)
        costs = [occupancy.cost(_parsed(text)) for text, _ in self.times]
        unit = max(sum(c) / time for c, (_, time) in zip(costs, self.times, strict=True))
        return tuple(
            (text, log((time * unit - c.fill) / c.blocks))
            for c, (text, time) in zip(costs, self.times, strict=True)
        )


@cache
def shipped() -> tuple[Row, ...]:
    """Return the table that comes with the package."""
    return read(json.loads(files(__package__).joinpath("table.json").read_text()))


def read(table: Mapping[str, Any]) -> tuple[Row, ...]:
    """Return the rows of a table."""
    if table["format"] != FORMAT or tuple(table["features"]) != NAMES:
        raise ValueError("the table is of another version")
    return tuple(
        Row(tuple(row["features"]), each["processors"], tuple(row["times"].items()), each["source"])
        for each in table["sources"]
        for row in each["rows"]
    )


def point(of: Sequence[float]) -> tuple[float, ...]:
    """Return the point of a kernel with these features. Sums of differences are distances; kernels
    that multiply matrices lie far from the others."""
    scales = _KNOWN_SCALES if of[_DIRECT] else _SCALES
    scaled = (w * min(x, most) for w, most, x in zip(scales, _MOST, of, strict=True))
    return (*scaled, _APART * bool(of[_PRODUCTS]))


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the distance between two points: the sum of the differences of coordinates."""
    return float(sum(map(abs, map(sub, a, b))))


def first(legal: Legal) -> Schedule:
    """Return the schedule to take where nothing is measured.

    Raises:
        UnsupportedError: the GPU can't hold the smallest tiles of this kernel.
    """
    schedule = next(ranked(legal), None)
    if schedule is None:
        raise legal.refusal()
    return schedule


def candidates(legal: Legal, count: int = SEARCH.candidates) -> list[Schedule]:
    """Return at most so many schedules that are worth measuring: those that a race compares, the
    first with other loads, tiles and orders, half of the best that are left, and what is a step
    from the first."""
    best = ranked(legal)
    schedules = dict.fromkeys(islice(best, RACE.candidates))
    if not schedules:
        raise legal.refusal()
    chosen = next(iter(schedules))
    shape = legal.shape(chosen)
    others = (
        legal.schedule(shape._replace(descriptors=not shape.descriptors)),
        legal.schedule(shape._replace(split_axes=not shape.split_axes)),
        *(replace(chosen, group_size=n) for n in legal.orders[1:]),
    )
    schedules |= dict.fromkeys(filter(None, others))
    schedules |= dict.fromkeys(islice(best, max(0, count - len(schedules)) // 2))
    schedules |= dict.fromkeys(filter(None, map(legal.schedule, legal.neighbours(shape))))
    if len(schedules) < count:
        schedules |= dict.fromkeys(best)
    return list(schedules)[:count]


def ranked(legal: Legal, rows: Sequence[Row] | None = None) -> Iterator[Schedule]:
    """Yield the legal ones of the schedules that the nearest rows have, the best first; in the
    end those with shorter and shorter blocks, which may be all that this GPU can hold."""
    shapes = [each.shape for each in elect(legal, rows).candidates]
    yield from filter(None, map(legal.schedule, shapes))
    yield from filter(None, map(legal.schedule, legal.smaller(shapes[0])))


@record()
class Voter:
    """A row that votes, its distance, and its share of all weights."""

    row: Row
    distance: float
    share: float


@record()
class Candidate:
    """A shape that voters have tried.

    Attributes:
        shape: for this kernel; it may be illegal.
        share: of the weights of all voters, that of those that have tried it.
        block: the time of a block with it, as they vote, over that with a good schedule.
        time: of the kernel, in the time of such a block.
    """

    shape: Shape
    share: float
    block: float
    time: float


@record()
class Election:
    """The votes of the rows nearest to a kernel; rows and candidates come best first."""

    features: tuple[float, ...]
    occupancy: Occupancy
    voters: tuple[Voter, ...]
    candidates: tuple[Candidate, ...]


def elect(legal: Legal, rows: Sequence[Row] | None = None) -> Election:
    """Let the nearest rows vote, of the table that is shipped or of another."""
    rows = shipped() if rows is None else rows
    own = features(legal).numbers()
    far = _nearest(point(own), rows)
    weights = {n: (_NEARNESS + away) ** -_SHARPNESS for n, away in far.items()}
    total = sum(weights.values())
    voters = tuple(Voter(rows[n], far[n], weight / total) for n, weight in weights.items())
    scores: dict[Shape, float] = {}
    shares: dict[Shape, float] = {}
    alike = cache(lambda text: legal.alike(_parsed(text)))  # rows have many shapes in common
    for voter in voters:
        for shape, vote in _votes(voter.row, alike).items():
            scores[shape] = scores.get(shape, 0.0) + voter.share * vote
            shares[shape] = shares.get(shape, 0.0) + voter.share
    occupancy = _occupancy(own, legal.gpu.processors)

    def candidate(shape: Shape) -> Candidate:
        # An average with doubt would improve what few rows have tried and found slow: it adds.
        doubt = _DOUBTED * _DOUBT / (shares[shape] + _DOUBT)
        block, cost = exp(scores[shape] / shares[shape] + doubt), occupancy.cost(shape)
        return Candidate(shape, shares[shape], block, cost.blocks * block + cost.fill)

    candidates = sorted(map(candidate, scores), key=lambda each: each.time)
    return Election(own, occupancy, voters, tuple(candidates))


def _nearest(here: Sequence[float], rows: Sequence[Row]) -> dict[int, float]:
    """Return the numbers of the rows that vote, the nearest first, and their distances. A sum of
    differences is no less than their root of squares, which is soon known."""
    least = [dist(here, row.point) for row in rows]
    some = nsmallest(_NEAR, range(len(rows)), key=least.__getitem__)
    limit = max(distance(here, rows[n].point) for n in some) * _ROUNDING
    far = {
        n: distance(here, rows[n].point) for n, at_least in enumerate(least) if at_least <= limit
    }
    return {n: far[n] for n in nsmallest(_NEAR, far, key=far.__getitem__)}


def _votes(row: Row, alike: Callable[[str], Shape]) -> dict[Shape, float]:
    """Return a row's votes for what a kernel can have in place of the row's shapes, as `alike`
    says."""
    votes: dict[Shape, float] = {}
    for text, vote in row.votes:
        shape = alike(text)
        votes[shape] = min(vote, votes.get(shape, inf))
    return votes


def _occupancy(of: Sequence[float], processors: int) -> Occupancy:
    return Occupancy(dict(zip(NAMES, of, strict=True)), processors)


@cache
def _parsed(text: str) -> Shape:
    return Shape.parse(text)
