"""Several dialects of one program: which of them runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from monocomp.backends.schedules import remembered
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.schedules.search import DoesNotFit
from monocomp.backends.triton import rivals
from monocomp.backends.triton.rivals import Rivals
from monocomp.errors import UnsupportedError

INPUTS = {"A": torch.ones(3)}
CHOICE = (Schedule((), 4, 2),)


@dataclass
class Runner:
    """Stands for kernels in a dialect: what they take, what they give, and whether there are any,
    for calls and for this call."""

    name: str
    milliseconds: float
    result: float = 1.0
    has_form: bool = True
    takes_layout: bool = True
    fits: bool = True
    measured: int = 0

    program: Any = None

    @property
    def dialect(self) -> Any:
        return SimpleNamespace(name=self.name)

    def situation(self, inputs: Any, extents: Any) -> remembered.Situation:
        return remembered.Situation("GPU", "3", "digest", "ieee", (), (("n", 3),))

    def schedules(self, *_: Any) -> tuple[Schedule, ...]:
        if not self.has_form:
            raise UnsupportedError("no form")
        if not remembered.recall(self.situation(0, 0)):
            remembered.remember(self.situation(0, 0), CHOICE, self.milliseconds, raced=True)
        return CHOICE

    def __call__(self, *_: Any) -> tuple[Any, Any]:
        if not (self.has_form and self.takes_layout):
            raise UnsupportedError("no such layout")
        return (torch.full((3,), self.result),), self.name


class Bench:
    """Measures what stands for kernels."""

    def __init__(self, call: Any, inputs: Any) -> None:
        self.runner: Runner = call

    def outputs(self, choice: Any) -> Any:
        if not self.runner.fits:
            raise DoesNotFit
        return self.runner()[0]

    def agree(self, found: Any, expected: Any) -> bool:
        return torch.equal(found[0], expected[0])

    def timer(self, choice: Any) -> Callable[[], float]:
        self.runner.measured += 1
        return lambda: self.runner.milliseconds


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure as on a GPU, with nothing remembered."""
    monkeypatch.delenv("MONOCOMP_TUNE", raising=False)
    monkeypatch.setattr(rivals, "is_on_gpu", lambda _: True)
    monkeypatch.setattr(rivals, "packed_extents", lambda _, extents, __: extents)
    monkeypatch.setattr(rivals, "Repeated", lambda runner, *_: runner)
    monkeypatch.setattr(rivals, "GpuBench", Bench)
    monkeypatch.setattr(remembered, "_given", {})
    monkeypatch.setattr(remembered, "_STORE", SimpleNamespace(get=lambda _: None, put=lambda *_: 0))


def ran(*runners: Runner) -> tuple[str, str]:
    """Run a call; return what has run, and why."""
    found, (result,), plan = Rivals(runners).run(INPUTS, {}, {"n": 3}, ())  # type: ignore[arg-type]
    assert plan == found.backend and result.shape == (3,)
    return found.backend, found.why


@pytest.mark.parametrize(
    ("other", "backend", "why"),
    [
        ({}, "other", "1 ms in other and 2 ms in usual"),
        ({"milliseconds": 3.0}, "usual", "2 ms in usual and 3 ms in other"),
        ({"result": 7.0}, "usual", "2 ms in usual"),
        ({"has_form": False}, "usual", "2 ms in usual"),
    ],
)
def test_the_fastest(other: Mapping[str, Any], backend: str, why: str) -> None:
    """Only dialects that have a form of the kernels and give the same take part. Times are measured
    once."""
    first, second = Runner("usual", 2.0), Runner("other", **{"milliseconds": 1.0, **other})
    for _ in range(2):
        assert ran(first, second) == (backend, why)
    assert first.measured == 1 >= second.measured


def test_a_layout_that_one_takes() -> None:
    """Calls with it run there, whichever is faster for others."""
    first, second = Runner("usual", 2.0), Runner("other", 1.0)
    assert ran(first, second)[0] == "other"
    second.takes_layout = False
    assert ran(first, second) == ("usual", "as other cannot take this layout")
    first.takes_layout = False
    with pytest.raises(UnsupportedError, match="no such layout"):
        ran(first, second)


def test_no_memory_for_measurements() -> None:
    """The call itself needs less; the next of the kind measures."""
    first, second = Runner("usual", 2.0, fits=False), Runner("other", 1.0, fits=False)
    assert ran(first, second) == ("usual", "")
    first.fits = second.fits = True
    assert ran(first, second)[0] == "other"


def test_where_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first runs; what was measured before holds."""
    first, second = Runner("usual", 2.0), Runner("other", 1.0)
    assert ran(first) == ("usual", "") and first.measured == 0
    monkeypatch.setenv("MONOCOMP_TUNE", "0")
    assert ran(first, second) == ("usual", "") and first.measured == 0
    monkeypatch.delenv("MONOCOMP_TUNE")
    monkeypatch.setattr(rivals, "is_capturing", lambda _: True)
    assert ran(first, second) == ("usual", "") and first.measured == 0
    remembered.keep(
        remembered.Entry(first.situation(0, 0), CHOICE, 2.0, dialects=(("other", 1.0),))
    )
    monkeypatch.setenv("MONOCOMP_TUNE", "0")
    assert ran(first, second)[0] == "other" and second.measured == 0
