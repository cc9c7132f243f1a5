"""The table of schedules, and what is legal: first choices, candidates, refusals, and room."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any
from unittest.mock import patch

import pytest
import torch
from triton.runtime.errors import OutOfResources, PTXASError

import monocomp as mc
from monocomp import library
from monocomp.backends.schedules import table
from monocomp.backends.schedules.features import NAMES, features
from monocomp.backends.schedules.legal import Legal, Shape
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.triton.launch import TritonRunner, interpreted
from monocomp.declarations.records import by_representative
from monocomp.errors import UnsupportedError
from monocomp.extents.nominal import packed_extents
from monocomp.machine.gpus import Gpu, gpu
from tests.backends.compiling import TARGETS, compile_for, launches_of, without_elements
from tests.marks import slow_unless

PROCESSORS = 132


def spaces(
    name: str, q: int, k: int, head: int, element_bytes: int = 2, target: str = "cuda:90"
) -> list[Legal]:
    """The schedules that a program's kernels may have."""
    sizes = {"b": 4, "h": 16, "q": q, "k": k, "d": head, "e": head}
    return spaces_at(name, sizes, element_bytes, target)


def spaces_at(
    name: str, sizes: Mapping[str, int], element_bytes: int = 2, target: str = "cuda:90"
) -> list[Legal]:
    """The same at any sizes."""
    kernel = mc.compile(library.load(name))
    extents = by_representative(kernel.declared, sizes)
    program = kernel.plan(extents, PROCESSORS).program
    found = packed_extents(program, extents)
    return [
        Legal(p, found, element_bytes, target, PROCESSORS)
        for p in kernel.tile_programs(extents, PROCESSORS)
    ]


def test_the_table_is_data() -> None:
    """Each row has the best of its kernel first, and no name; each source says where it is from."""
    data = json.loads(files("monocomp.backends.schedules").joinpath("table.json").read_text())
    assert tuple(data["features"]) == NAMES
    measured, *others = data["sources"]
    assert measured["source"].startswith("measured on NVIDIA H200 and H100 80GB HBM3, triton 3.6.0")
    known = ("not measured", "see benchmarks/RESULTS.md", "timed in turns")
    assert others and all(any(k in source["source"] for k in known) for source in others)
    for source in data["sources"]:
        assert source.keys() == {"source", "processors", "rows"}
        for row in source["rows"]:
            assert row.keys() == {"features", "times"}
            times = [*row["times"].values()]
            assert times == sorted(times) and times[0] == 1
            assert all(str(Shape.parse(text)) == text for text in row["times"])


def test_near_rows_vote() -> None:
    """What many near rows know outweighs what one does; what is illegal is left out."""
    (causal,) = spaces("causal", 4096, 4096, 128)
    good, bad, vast = "64/64 4w 3s", "128/64 8w 3s", "256/256 4w 5s"
    here = features(causal).numbers()
    one = table.Row(here, PROCESSORS, ((vast, 1.0), (bad, 1.2), (good, 1.21)))
    others = [table.Row(here, PROCESSORS, ((vast, 1.0), (good, 1.01), (bad, 1.5)))] * 3
    assert causal.schedule(Shape.parse(vast)) is None
    for rows, wanted in (([one], bad), ([one, *others], good)):
        found = [str(causal.shape(s)) for s in table.ranked(causal, rows)]
        assert found[0] == wanted and vast not in found


def test_idle_processors_count() -> None:
    """Blocks that were best where there are many are shorter where these would leave most idle."""
    (many,), (few,) = spaces("causal", 65536, 4096, 64), spaces("causal", 4096, 4096, 64)
    few = replace(few, sizes={**few.sizes, "b": 1, "h": 1})
    times = (("128/64 4w 3s", 1.0), ("64/64 4w 3s", 1.05))
    rows = [table.Row(features(many).numbers(), PROCESSORS, times)]
    assert many.shape(next(table.ranked(many, rows))).rows == (128,)
    assert few.shape(next(table.ranked(few, rows))).rows == (64,)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "element_bytes", "target"),
    slow_unless(
        lambda name, element_bytes, target: element_bytes == 2 or target == "cuda:90",
        ["causal", "softmax_top8", "linear_attention", "pair_bias"],
        [2, 4],
        TARGETS,
    ),
)
def test_candidates(name: str, element_bytes: int, target: str) -> None:
    """Different ones, at most as many as wanted, the first in front, and none that can't run."""
    kernel = mc.compile(library.load(name))
    for program in kernel.tile_programs({}):
        legal = Legal(program, {}, element_bytes, target)
        few, many = table.candidates(legal), table.candidates(legal, 60)
        assert len(few) <= 12 < len(many) <= 60 and len(set(many)) == len(many)
        assert few[0] == many[0] == table.first(legal)
        assert all(legal.admits(s) for s in many)
        assert all(legal.resources_of(s).shared(s) <= legal.gpu.shared for s in many)


def test_what_is_admitted() -> None:
    """Schedules of this kernel that can run; others may be remembered by mistake."""
    (space,) = spaces("causal", 4096, 4096, 128)
    good = table.first(space)
    (q, rows), (k, stream) = good.blocks
    assert space.admits(good)
    assert space.admits(replace(good, blocks=((k, stream), (q, rows))))
    assert not space.admits(replace(good, blocks=((q, rows),)))
    assert not space.admits(replace(good, blocks=((q, rows), ("x", stream))))
    assert not space.admits(replace(good, blocks=((q, rows), (k, 8))))  # products sum more
    assert space.schedule(space.shape(good)._replace(streams=(8,))) is None
    assert not space.admits(replace(good, programs=132))
    assert not space.admits(replace(good, blocks=((q, 256), (k, 512)), num_stages=4))
    in_splits = spaces("attention", 1, 65536, 128)[0]
    assert not in_splits.admits(replace(table.first(in_splits), programs=0))


# --- what the GPU can't hold ----------------------------------------------------------------


def tiny(legal: Legal) -> Gpu:
    """A GPU with hardly any shared memory."""
    return replace(gpu(legal.target), shared=4096)


def test_what_no_gpu_could_hold_is_refused() -> None:
    """With the sizes, before anything is compiled."""
    with patch.object(Legal, "gpu", property(tiny)):
        (space,) = spaces("causal", 4096, 2048, 128)
        with pytest.raises(UnsupportedError) as caught:
            table.first(space)
    assert caught.value.described().splitlines()[:4] == [
        "UnsupportedError: the GPU can't hold a tile of kernel 'kernel'",
        "  it computes O[b,h,q,e], and holds all of e, d at once",
        "  extents: b = 4, h = 16, q = 4096, e = 128, k = 2048, d = 128",
        "  its smallest tiles have up to 2048 elements and take 8 KiB of shared memory; a "
        "program instance has 4 KiB",
    ]


def test_little_memory_takes_smaller_tiles() -> None:
    """The first of those that are known to be good need not fit."""
    with patch.object(Legal, "gpu", property(lambda s: replace(gpu(s.target), shared=40 << 10))):
        (space,) = spaces("causal", 4096, 2048, 128)
        first = table.first(space)
        assert space.resources_of(first).shared(first) <= 40 << 10
        assert space.schedule(Shape.parse("64/64 4w 3s")) is None


class Runner(TritonRunner):
    """One whose kernels need more than there is, or crash an assembler, but for some schedules."""

    def __init__(self, fitting: set[int], crashes: bool = False) -> None:
        kernel = mc.compile(library.load("causal"))
        program = kernel.plan({}).program
        super().__init__(program, kernel.tile_programs({}), lambda _: None, "ieee")  # type: ignore[arg-type, return-value]
        self.fitting, self.crashes = fitting, crashes
        self.tried: list[Schedule] = []

    def _call(
        self, inputs: Mapping[str, torch.Tensor], params: Any, choice: Any, *_: Any, **__: Any
    ) -> Any:
        self.tried.append(choice[0])
        if len(self.tried) - 1 not in self.fitting:
            if self.crashes:
                raise PTXASError("`ptxas` failed with error code -11")
            raise OutOfResources(300 << 10, 227 << 10, "shared memory")
        return (inputs["Q"],), None


@pytest.mark.parametrize(("rows", "splits"), [(8, 1), (1, 4)])
def test_what_candidates_are_compared_with(rows: int, splits: int) -> None:
    """The torch backend's results in float32, for streams in splits too."""
    kernel = mc.compile(library.load("attention"), processors=splits)
    q, k, v = (torch.randn(1, 1, n, 4, dtype=torch.bfloat16) for n in (rows, 5000, 5000))
    extents = by_representative(
        kernel.declared, {"b": 1, "h": 1, "q": rows, "k": 5000, "d": 4, "e": 4}
    )
    program = kernel.plan(extents).program
    kernels = kernel.tile_programs(extents)
    assert any(p.splits for p in kernels) == (splits > 1)
    runner = TritonRunner(program, kernels, lambda _: None, "ieee")  # type: ignore[arg-type, return-value]
    given = {"Q": q, "K": k, "V": v}
    (found,) = runner._expected(given, {}, packed_extents(program, extents)) or ()
    wanted = mc.compile(library.load("attention"), backend="torch")(q.float(), k.float(), v.float())
    torch.testing.assert_close(found, wanted)
    with patch("monocomp.backends.triton.launch._INTERPRETED_FLOPS", 1000):
        assert runner._expected(given, {}, packed_extents(program, extents)) is None


EXTENTS = {"b": 1, "h": 1, "q": 8, "k": 8, "d": 4, "e": 4}


def called(runner: Runner) -> None:
    """Call it once."""
    inputs = {n: torch.zeros(1, 1, 8, 4) for n in "QKV"}
    runner(inputs, {}, EXTENTS)


@pytest.mark.parametrize("crashes", [False, True])
def test_what_turns_out_not_to_fit_gives_way(crashes: bool) -> None:
    """To the next candidates; the next call begins with the one that did fit."""
    runner = Runner({2, 3}, crashes)
    called(runner)
    assert len(runner.tried) == 3
    called(runner)
    assert runner.tried[3] == runner.tried[2]


def test_what_no_candidate_fits_is_refused() -> None:
    """With the sizes and the reason, and nothing is returned."""
    with pytest.raises(UnsupportedError, match="can't hold a tile") as caught:
        called(Runner(fitting=set()))
    assert "q = 8" in str(caught.value) and "out of resource: shared memory" in str(caught.value)


# --- room ------------------------------------------------------------------------------------


ROOM = [
    ("pair_bias", 64, 1, "64/64 4w 3s"),  # a bias that another kernel has stored, in float32
    ("pair_bias", 128, 1, "64/64 4w 3s"),
    ("linear_attention", 256, 1, "128/64 8w 4s tma"),  # operands that another kernel has stored
    ("rms_norm", 128, 0, "128/64x128 8w 4s"),  # one that is made once, in two limbs
    ("rms_norm", 128, 0, "256/64x128 8w 3s"),
    ("talking_heads", 128, 0, "128/128 8w 4s tma"),  # in a loop over heads
    ("talking_heads", 128, 0, "256/128 8w 3s tma"),
]


@pytest.mark.one_in(7)
@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
@pytest.mark.parametrize(("name", "head", "number", "text"), ROOM)
def test_what_operands_take(name: str, head: int, number: int, text: str) -> None:
    """Loads for operands are copied ahead as they are stored, in the loop that is innermost, and
    operands that no loop loads for are kept; what does not fit is not legal."""
    kernel = mc.compile(library.load(name))
    known = {"b": 2, "h": 16, "g": 16, "i": 16, "q": 4096, "d": head, "k": 4096, "e": head, "c": 32}
    sizes = by_representative(kernel.declared, {e: known[e] for e in kernel.declared.extent_of})
    plan = kernel.plan(sizes, PROCESSORS)
    programs = kernel.tile_programs(sizes, PROCESSORS)
    packed = packed_extents(plan.program, sizes)
    all_legal = [Legal(p, packed, 2, "cuda:90", PROCESSORS) for p in programs]
    schedules = [table.first(legal) for legal in all_legal]
    legal = all_legal[number]
    schedules[number] = schedule = legal.named(Shape.parse(text))
    inputs = without_elements(kernel, sizes)
    launches = launches_of(kernel, programs, schedules, inputs, lowered=plan.program)
    found = compile_for("cuda:90", launches[number]).shared
    assert abs(found - legal.resources.shared(schedule)) <= 600
    assert (legal.schedule(Shape.parse(text)) is None) == (found > legal.gpu.shared)
