"""The search for schedules, without a GPU: a bench that is told times, results and faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from monocomp.backends.schedules.measure import same
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.schedules.search import Choice, DoesNotFit, Outputs, search

A, B, C, D = (Schedule((("q", n),), 4, 2) for n in (16, 32, 64, 128))
RIGHT: Outputs = ("right",)


class Bench:
    """Times by schedule, in ms; what gives other results, does not fit or is interrupted."""

    def __init__(
        self,
        times: Mapping[Schedule, float],
        wrong: Mapping[Schedule, Outputs] | None = None,
        unfit: tuple[Schedule, ...] = (),
        interrupted_after: int = 1000,
        compiling: float = 1.0,
    ) -> None:
        self.times = times
        self.wrong = wrong or {}
        self.unfit = unfit
        self.left = interrupted_after
        self.compiling = compiling
        self.now = 0.0
        self.calls: list[tuple[str, Choice]] = []
        self.together: list[list[Choice]] = []  # compiled

    def clock(self) -> float:
        return self.now

    def _step(self, what: str, choice: Choice, seconds: float) -> None:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.now += seconds
        self.calls.append((what, choice))

    def compile(self, choices: Sequence[Choice]) -> None:
        self.together.append([*choices])

    def outputs(self, choice: Choice) -> Outputs:
        self._step("compile", choice, self.compiling)
        for s in choice:
            if s in self.unfit:
                raise DoesNotFit(f"{s} needs more")
        return next((self.wrong[s] for s in choice if s in self.wrong), RIGHT)

    def timer(self, choice: Choice) -> Callable[[], float]:
        def measure() -> float:
            self._step("time", choice, 0.01)
            return sum(self.times[s] for s in choice)

        return measure

    def agree(self, found: Outputs, expected: Outputs) -> bool:
        return found == expected

    def search(self, *options: list[Schedule], expected: Outputs | None = RIGHT, **more: Any):
        return search(list(options), self, lambda: expected, clock=self.clock, **more)


TIMES = {A: 4.0, B: 3.0, C: 1.0, D: 2.0}
E, F = (replace(x, language="gluon") for x in (A, B))


@pytest.mark.parametrize(
    ("changes", "chosen"),
    [
        ({}, (F, B, F)),
        ({"wrong": {F: ("other",)}}, (E, B, E)),
        ({"wrong": {E: ("other",), F: ("other",)}}, (B, B, B)),
        ({"unfit": (E, F)}, (B, B, B)),
        ({"unfit": (E,)}, (B, B, B)),  # as the first stand for others while these are tried
    ],
)
def test_languages(changes: dict[str, Any], chosen: Choice) -> None:
    """Each kernel has the language that is fastest, if that gives what the first one does. Each
    language has files of its own, and few mix them."""
    bench = Bench(TIMES | {E: 2.5, F: 2.0}, **changes)
    found = bench.search([A, B, E, F], [A, B], [A, B, E, F], expected=None)
    assert found.schedules == chosen and found.before == 12 and found.is_checked
    assert bool(found.refused) == bool(changes)
    if not changes:
        assert found.milliseconds == 7 and found.rivals.keys() == {0, 2}
        assert found.rivals[2] == ((F, 7.0), (B, 8.0))
        mixed = {tuple(s.language for s in choice) for _, choice in bench.calls}
        assert mixed == {
            ("triton",) * 3,
            ("gluon", "triton", "gluon"),
            ("gluon", "triton", "triton"),
        }


def test_the_fastest_wins() -> None:
    found = Bench(TIMES).search([A, B, C, D])
    assert found.schedules == (C,)
    assert (found.milliseconds, found.before, found.measured) == (1.0, 4.0, 4)
    assert found.is_checked and not found.was_interrupted
    assert "1 ms, before 4 ms" in str(found)


def test_candidates_of_all_kernels_are_compiled_at_once() -> None:
    """But no more of each than four."""
    bench = Bench(TIMES)
    bench.search([A, B, C], [D])
    assert bench.together == [[(A, D), (B, D), (C, D)]]
    bench = Bench(TIMES)
    bench.search([A, B, C, D, A], [B, C])
    assert bench.together == [[(A, B), (B, C), (C, C), (D, C)], [(A, B)]]


def test_what_disturbs_a_measurement_does_not_count() -> None:
    """Another process on the GPU can only add to the times of calls."""

    class Shared(Bench):
        def timer(self, choice: Choice) -> Callable[[], float]:
            measure, others = super().timer(choice), iter([5.0, 5.0, 0.0, 5.0, 5.0])
            return lambda: measure() + (next(others) if choice == (C,) else 0.9)

    assert Shared(TIMES | {B: 1.3, D: 1.5}).search([B, C, D]).schedules == (C,)


def test_what_may_be_chance_does_not_win() -> None:
    """The first stays, unless another is clearly faster."""
    times = {A: 1.0, B: 0.995, C: 2.0}
    assert Bench(times).search([A, B, C]).schedules == (A,)
    assert Bench(times | {C: 0.98}).search([A, B, C]).schedules == (C,)
    assert Bench(times).search([C, A, B]).schedules == (B,)


@pytest.mark.parametrize("expected", [RIGHT, None])
def test_what_is_wrong_never_wins(expected: Outputs | None) -> None:
    """However fast, and also where only candidates can be compared with one another."""
    bench = Bench(TIMES, wrong={C: ("wrong",)})
    found = bench.search([A, B, C, D], expected=expected)
    assert (found.schedules, found.wrong) == ((D,), 1)
    assert ("time", (C,)) not in bench.calls
    assert found.refused == [(0, f"{C}: gives other results")]


def test_the_first_may_be_wrong() -> None:
    """Then another wins, and what it is compared with is no longer measured."""
    found = Bench(TIMES, wrong={A: ("wrong",)}).search([A, B, C])
    assert (found.schedules, found.before) == ((C,), None)


def test_nothing_is_right() -> None:
    """Then nothing is found that can be relied on."""
    found = Bench(TIMES, wrong=dict.fromkeys((A, B), ("wrong",))).search([A, B])
    assert found.schedules == (A,) and not found.is_checked and found.wrong == 2
    assert "nothing is remembered" in str(found)


def test_one_that_nobody_agrees_with() -> None:
    """Is not taken for right because it is alone; the first is what runs anyway."""
    assert not Bench(TIMES, unfit=(A,)).search([A, B], expected=None).is_checked
    assert Bench(TIMES, unfit=(B,)).search([A, B], expected=None).is_checked


def test_what_does_not_fit_is_left_out() -> None:
    found = Bench(TIMES, unfit=(A, C)).search([A, B, C, D])
    assert (found.schedules, found.unfit) == ((D,), 2)
    assert found.refused == [(0, f"{A}: {A} needs more"), (0, f"{C}: {C} needs more")]


def test_what_no_longer_fits_when_it_is_timed() -> None:
    """Memory may be short then: it is left out, and the others are timed."""

    class Full(Bench):
        def timer(self, choice: Choice) -> Callable[[], float]:
            if choice == (C,):
                raise DoesNotFit("out of memory")
            return super().timer(choice)

    found = Full(TIMES).search([A, B, C, D])
    assert (found.schedules, found.unfit, found.refused) == ((D,), 1, [(0, f"{C}: out of memory")])


def test_time_is_bounded() -> None:
    """What takes long to compile leaves candidates out, and what was compiled is measured."""
    bench = Bench(TIMES, compiling=6.0)
    found = bench.search([A, B, C, D], seconds=20.0)
    assert bench.now <= 20.0
    assert found.schedules == (C,) and found.measured == 3
    assert found.refused == [(0, f"{D}: no time was left for it")]


def test_time_is_left_for_every_kernel() -> None:
    """A kernel cannot use up what the others need."""
    many = [Schedule((("k", 16),), 4, n) for n in range(1, 9)]
    slow = dict.fromkeys(many, 9.0)
    found = Bench({**TIMES, **slow}).search([A, C, *many], [D, B, *many], seconds=10.0)
    assert found.schedules == (C, D)
    assert found.seconds <= 10.0 and found.measured < 20


def test_what_stays_takes_what_it_took() -> None:
    """Clocks drift: what is measured later may seem slower than the same before."""

    class Slowing(Bench):
        def timer(self, choice: Choice) -> Callable[[], float]:
            measure = super().timer(choice)
            return lambda: measure() + self.now

    found = Slowing(TIMES).search([C, A], [D, A])
    assert found.schedules == (C, D) and found.measured == 4
    assert found.milliseconds == found.before


@pytest.mark.parametrize("steps", range(25))
def test_an_interruption_keeps_the_best(steps: int) -> None:
    """Of what was measured; without any measurement, what comes first."""
    times = {A: 1.4, B: 1.3, C: 1.0, D: 1.2}
    bench = Bench(times, interrupted_after=steps)
    found = bench.search([A, B, C, D])
    timed = [choice[0] for what, choice in bench.calls if what == "time"]
    assert found.schedules == (min(timed, key=times.__getitem__, default=A),)
    assert found.was_interrupted == (steps < 4 + 4 * 5)
    assert found.is_checked == bool(timed)


# --- comparing results ----------------------------------------------------------------------


def test_results_agree_up_to_rounding() -> None:
    """Relative to the size of what is compared, which may be small."""
    exact = torch.randn(1000) * 1e-3
    assert same(exact.bfloat16(), exact, 0.06)
    assert not same(torch.zeros(1000), exact, 0.06)
    assert not same(exact * 1.3, exact, 0.06)
    one = exact.clone()
    one[7] += 1e-3
    assert not same(one, exact, 0.06)
    assert not same(exact[:10], exact, 0.06)


@pytest.mark.parametrize("special", [torch.nan, torch.inf, -torch.inf])
def test_results_that_are_no_numbers(special: float) -> None:
    exact = torch.randn(100)
    other = exact.clone()
    other[3] = special
    assert same(other, other.clone(), 0.06)
    assert not same(other, exact, 0.06) and not same(exact, other, 0.06)


def test_places_may_differ_where_values_are_about_equal() -> None:
    exact = torch.arange(1000)
    few, many = exact.clone(), exact.clone()
    few[:5], many[:50] = 0, 0
    assert same(few, exact, 0.06) and not same(many, exact, 0.06)
    assert same(torch.empty(0), torch.empty(0), 0.06)
