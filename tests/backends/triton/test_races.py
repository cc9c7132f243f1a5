"""First calls on a GPU: when they race, what is remembered, and what runs; with a GPU that is told
how long schedules take."""

from __future__ import annotations

import fcntl
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from triton import runtime
from triton.compiler import CompiledKernel
from triton.runtime._async_compile import active_mode

import monocomp as mc
from monocomp import library
from monocomp.backends.gluon.dialect import GLUON
from monocomp.backends.schedules import remembered
from monocomp.backends.schedules.measure import GpuBench, alone
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.schedules.search import RACE, SEARCH, Choice, DoesNotFit, Outputs
from monocomp.backends.triton import launch
from monocomp.backends.triton.dialect import TRITON, Dialect
from monocomp.backends.triton.emit import Part, emit
from monocomp.backends.triton.launch import TritonRunner
from monocomp.backends.triton.rivals import fastest, manner, plans
from monocomp.errors import UnsupportedError
from monocomp.machine.cache import cache_folder
from tests.backends.triton.driver import Driver

EXTENTS = {"b": 1, "h": 1, "q": 64, "k": 64, "d": 16, "e": 16}
INPUTS = {n: torch.zeros(1, 1, 64, 16) for n in "QKV"}


class Bench:
    """Takes a millisecond with one schedule, and two with any other."""

    fastest: Schedule
    unfit: bool
    timed: list[Choice]

    def __init__(self, call: Any, inputs: Sequence[torch.Tensor]) -> None:
        pass

    def compile(self, choices: Sequence[Choice]) -> None:
        pass

    def outputs(self, choice: Choice) -> Outputs:
        if self.unfit:
            raise DoesNotFit("out of memory")
        return ("right",)

    def timer(self, choice: Choice) -> Callable[[], float]:
        self.timed.append(choice)
        return lambda: 1.0 if choice == (self.fastest,) else 2.0

    def agree(self, found: Outputs, expected: Outputs) -> bool:
        return found == expected


def runner(*dialects: Dialect) -> TritonRunner:
    """Return a runner of causal attention, in Triton unless other languages are given."""
    kernel = mc.compile(library.load("causal"))
    program, kernels = kernel.plan({}).program, kernel.tile_programs({})
    how = {"dialects": dialects} if dialects else {}
    return TritonRunner(program, kernels, lambda _: None, "ieee", **how)  # type: ignore[arg-type, return-value]


def options() -> list[Schedule]:
    """The candidates of a search, the first in front."""
    (forms,) = runner().forms(INPUTS, EXTENTS)
    return forms.candidates(SEARCH.candidates)


def chosen() -> Schedule:
    """Return the schedule that a new runner takes."""
    (schedule,) = runner().schedules(INPUTS, {}, EXTENTS)
    return schedule


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Bench]]:
    """A GPU with an empty cache, on which the third candidate is fastest."""
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("MONOCOMP_TUNE", raising=False)
    monkeypatch.setattr(remembered, "_given", {})
    monkeypatch.setattr(launch, "GpuBench", Bench)
    monkeypatch.setattr(launch, "is_on_gpu", lambda _: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a GPU")
    monkeypatch.setattr(TritonRunner, "_expected", lambda *_: None)
    Bench.fastest, Bench.unfit, Bench.timed = options()[2], False, []
    yield Bench
    torch.use_deterministic_algorithms(False)


def test_a_first_call_takes_the_fastest_of_a_few(bench: type[Bench]) -> None:
    """It measures those that come first; later calls, in other processes too, take the winner."""
    assert chosen() == bench.fastest
    assert [s for (s,) in bench.timed] == options()[: RACE.candidates]
    assert chosen() == bench.fastest and len(bench.timed) == RACE.candidates
    remembered._given.clear()
    assert chosen() == bench.fastest and len(bench.timed) == RACE.candidates


@pytest.mark.parametrize("fastest", ["gluon", "triton"])
def test_each_kernel_has_the_language_that_is_fastest(
    fastest: str, bench: type[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls say what each takes, in other processes too; of a layout that a language cannot take,
    they run the best in the first."""
    monkeypatch.setattr(launch, "target_of", lambda _: "cuda:90")
    monkeypatch.setattr(launch, "multiprocessors", lambda _: 132)
    inputs = {n: t.bfloat16() for n, t in INPUTS.items()}
    (forms,) = runner(TRITON, GLUON).forms(inputs, EXTENTS)
    best = [s for s in forms.candidates(RACE.candidates) if s.language == fastest][1]
    bench.fastest, calls = best, []

    def call(_: TritonRunner, given: Any, params: Any, choice: Choice, *rest: Any) -> Any:
        calls.append(choice)
        if is_odd and choice[0].language == "gluon":
            raise UnsupportedError("no descriptor")
        return (), None

    monkeypatch.setattr(TritonRunner, "_call", call)
    for is_odd in (False, True, False):
        remembered._given.clear()
        ran, *_ = runner(TRITON, GLUON)(inputs, {}, EXTENTS)
        if is_odd and fastest == "gluon":
            assert ran[::2] == ("triton", "as gluon cannot take this layout")
            assert calls[-2:] == [(best,), (forms.first(),)]
        else:
            other = {"gluon": "triton", "triton": "gluon"}[fastest]
            assert ran[::2] == (fastest, f"1 ms in {fastest} and 2 ms in {other}")
            assert calls[-1] == (best,)
    assert len(bench.timed) == len(forms.candidates(RACE.candidates)) + 2  # the best in each


def test_a_search_goes_beyond_a_race(bench: type[Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it has found counts wherever a race's does, and where nothing is measured."""
    bench.fastest = options()[RACE.candidates + 1]
    assert chosen() == options()[0]
    monkeypatch.setenv("MONOCOMP_TUNE", "1")
    assert chosen() == bench.fastest and len(bench.timed) == RACE.candidates + SEARCH.candidates
    for mode in "01 ":
        monkeypatch.setenv("MONOCOMP_TUNE", mode)
        assert chosen() == bench.fastest
    assert len(bench.timed) == RACE.candidates + SEARCH.candidates


@pytest.mark.parametrize("reason", ["deterministic", "MONOCOMP_TUNE=0"])
def test_where_predictions_alone_decide(
    reason: str, bench: type[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is measured, and what a race has found does not count."""
    assert chosen() == bench.fastest
    bench.timed.clear()
    if reason == "deterministic":
        torch.use_deterministic_algorithms(True)
        monkeypatch.setenv("MONOCOMP_TUNE", "1")
    else:
        monkeypatch.setenv("MONOCOMP_TUNE", "0")
    assert chosen() == options()[0] and not bench.timed


def test_while_a_graph_is_captured(bench: type[Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first candidate runs, the next call outside races, and a later graph has its best."""
    one = runner()
    monkeypatch.setattr(launch, "is_capturing", lambda _: True)
    assert one.schedules(INPUTS, {}, EXTENTS) == (options()[0],) and not bench.timed
    monkeypatch.setattr(launch, "is_capturing", lambda _: False)
    assert one.schedules(INPUTS, {}, EXTENTS) == (bench.fastest,)
    monkeypatch.setattr(launch, "is_capturing", lambda _: True)
    assert chosen() == bench.fastest


def test_nothing_races_on_the_cpu(bench: type[Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert chosen() == options()[0] and not bench.timed


def test_too_little_memory_for_a_race(bench: type[Bench]) -> None:
    """The prediction runs, and nothing is remembered."""
    bench.unfit = True
    assert chosen() == options()[0]
    bench.unfit = False
    assert chosen() == bench.fastest


def test_an_interruption_is_the_callers(
    bench: type[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has not asked for a search means the program, and who has means the search."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Bench, "compile", interrupt)
    with pytest.raises(KeyboardInterrupt):
        chosen()
    monkeypatch.setenv("MONOCOMP_TUNE", "1")
    assert chosen() == options()[0]


def test_processes_measure_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """One holds the lock of a GPU; where the cache folder cannot be used, there is none."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    properties = SimpleNamespace(uuid="GPU-1")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)

    def is_held() -> bool:
        with (cache_folder() / "locks" / "GPU-1").open() as file:  # type: ignore[operator]
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    with alone():
        assert is_held()
    assert not is_held()
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", "/dev/null")
    with pytest.warns(RuntimeWarning, match="cannot write"), alone():
        pass


def test_candidates_are_compiled_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As calls want them, but for what Triton refuses; later calls compile as ever."""
    monkeypatch.setattr(launch, "target_of", lambda _: "cuda:90")
    monkeypatch.setattr(launch, "multiprocessors", lambda _: 132)
    monkeypatch.setattr(runtime.driver, "_active", Driver())
    kernel = mc.compile(library.load("causal"))
    program, kernels = kernel.plan({}).program, kernel.tile_programs({})
    one = TritonRunner(
        program,
        kernels,
        lambda schedules: emit(Part(kernel.equations, kernels, schedules, program)),
        "ieee",
    )
    inputs = {n: t.bfloat16() for n, t in INPUTS.items()}
    (forms,) = one.forms(inputs, EXTENTS)
    choices = [(s,) for s in forms.candidates(3)]
    blocks = tuple((axis, 48) for axis, _ in choices[0][0].blocks)  # Triton wants powers of 2
    bench = GpuBench(one.repeated(inputs, {}), list(inputs.values()))
    bench.compile([*choices, (replace(choices[0][0], blocks=blocks),)])
    module = one._loaded(choices[0])[1]
    function = getattr(module, one._loaded(choices[0])[0].program.kernels[0].name)
    compiled = function.device_caches[0][0].values()
    right = [k for k in compiled if isinstance(k, CompiledKernel)]
    assert len({(k.metadata.num_warps, k.metadata.num_stages, k.asm["ptx"]) for k in right}) == 3
    assert active_mode.get() is None


# --- plans that are measured beside each other -----------------------------------------

SPLIT, WHOLE = "with streams in splits", "with whole streams"
ADDS, STORED = "with kernels that add", "with matrices stored"


@pytest.mark.parametrize(
    ("gradient", "heads", "length", "adds", "manners"),
    [
        (False, 32, 2048, True, [WHOLE]),
        (False, 2, 2048, True, [SPLIT, WHOLE]),
        (True, 32, 2048, True, [WHOLE, ADDS]),
        (True, 32, 2048, False, [WHOLE]),
        (True, 2, 2048, True, [SPLIT, WHOLE, ADDS]),
        (True, 512, 256, True, [STORED, WHOLE]),
        (True, 512, 256, False, [STORED, WHOLE]),
    ],
)
def test_plans(gradient: bool, heads: int, length: int, adds: bool, manners: list[str]) -> None:
    """Streams are whole for a language that merges no splits, also where few instances stream, and
    it computes products again that another one stores."""
    text = library.load("attention")
    kernel = mc.compile(mc.grad(text) if gradient else text)
    d = 512 if length == 256 else 128
    extents = {"b": 1, "h": heads, "q": length, "k": length, "d": d, "e": d}
    planned = partial(kernel.planner.plan, extents)
    both = plans(planned, 132, [TRITON, GLUON], adds)
    assert [manner(plan.program, plan.kernels) for plan in both] == manners
    (first,) = plans(planned, 132, [TRITON], adds)
    assert manner(first.program, first.kernels) == manners[0]


@pytest.mark.parametrize(("name", "gains"), [("attention", True), ("learned_sink", False)])
def test_plans_that_gain(name: str, gains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without splits has a form in Gluon, unless it adds up a few numbers only."""
    monkeypatch.setattr(launch, "target_of", lambda _: "cuda:90")
    monkeypatch.setattr(launch, "multiprocessors", lambda _: 132)
    text = library.load(name)
    kernel = mc.compile(text if name == "attention" else mc.grad(text))
    heads = 2 if name == "attention" else 32
    extents = {"b": 1, "h": heads, "q": 2048, "k": 2048, "d": 128, "e": 128}
    both = list(plans(partial(kernel.planner.plan, extents), 132, [TRITON, GLUON], adds=False))
    assert [manner(plan.program, plan.kernels) for plan in both] == [SPLIT, WHOLE]
    first, other = (
        TritonRunner(p.program, p.kernels, lambda _: None, "ieee", None, (TRITON, GLUON))  # type: ignore[arg-type, return-value]
        for p in both
    )
    inputs = {n: torch.zeros(1, dtype=torch.bfloat16) for n in kernel.declared.inputs}
    assert other.gains(first, inputs, {}, extents) == gains


@pytest.mark.parametrize(
    ("times", "gains", "chosen", "why"),
    [
        ((2.0, 1.0), True, 1, f"1 ms {WHOLE}, 2 ms {SPLIT}"),
        ((1.0, 2.0), True, 0, f"1 ms {SPLIT}, 2 ms {WHOLE}"),
        ((2.0, 1.0), False, 0, ""),
        ((math.inf, math.inf), True, 0, ""),
    ],
)
def test_the_fastest_plan(times: Any, gains: bool, chosen: int, why: str) -> None:
    """Measure plans whose kernels have forms that those of the first lack, if calls measure."""
    kernels = [
        SimpleNamespace(splits=splits, outputs=()) for splits in (frozenset("k"), frozenset())
    ]
    program = mc.compile(library.load("attention")).planner.plan({}).program
    runners: Any = [
        SimpleRunner(
            program=program, kernels=[k], milliseconds=lambda *_, t=t: t, gains=lambda *_: gains
        )
        for k, t in zip(kernels, times, strict=True)
    ]
    assert fastest(runners, {}, {}, {}) == (runners[chosen], why)


class SimpleRunner(SimpleNamespace):
    """A runner that is told what it takes, and is itself alone."""

    __hash__ = object.__hash__
