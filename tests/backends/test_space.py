"""The space of schedules and the cost model: first picks, what is left out, and refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from triton.runtime.errors import OutOfResources

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.launch import TritonRunner, interpreted
from monocomp.backends.triton.model import Gpu, gpu
from monocomp.backends.triton.schedule import Schedule
from monocomp.backends.triton.space import Space
from monocomp.declarations import by_representative
from monocomp.errors import UnsupportedError
from monocomp.sizes import packed_extents, power_of_two
from tests.backends.compiling import TARGETS, compile_for, launches_of, without_elements
from tests.marks import slow_unless

PROCESSORS = 132


def spaces(
    name: str, q: int, k: int, head: int, element_bytes: int = 2, target: str = "cuda:90"
) -> list[Space]:
    """The spaces of a program's kernels."""
    sizes = {"b": 4, "h": 16, "q": q, "k": k, "d": head, "e": head}
    return spaces_at(name, sizes, element_bytes, target)


def spaces_at(
    name: str, sizes: Mapping[str, int], element_bytes: int = 2, target: str = "cuda:90"
) -> list[Space]:
    """The same at any sizes."""
    kernel = mc.compile(library.load(name))
    extents = by_representative(kernel.declared, sizes)
    program = kernel.plan(extents, PROCESSORS).program
    found = packed_extents(program, extents)
    return [
        Space(p, found, element_bytes, target, PROCESSORS)
        for p in kernel.tile_programs(extents, PROCESSORS)
    ]


def short(schedule: Schedule) -> tuple[int, ...]:
    """Blocks, warps, stages, and programs where there are parts."""
    numbers = [n for _, n in schedule.blocks] + [schedule.num_warps, schedule.num_stages]
    return (*numbers, *([schedule.programs] if schedule.programs else []))


@pytest.mark.parametrize(
    ("name", "q", "k", "head", "wanted"),
    [
        ("attention", 4096, 4096, 128, (64, 64, 4, 3)),
        ("causal", 4096, 4096, 128, (64, 64, 4, 3)),
        ("attention", 16384, 16384, 128, (64, 64, 4, 3)),
        ("causal", 16384, 16384, 128, (64, 64, 4, 3)),
        ("attention", 4096, 4096, 64, (64, 64, 4, 3)),
        ("causal", 16384, 16384, 64, (64, 64, 4, 3)),
        ("attention", 1, 65536, 128, (16, 128, 4, 3, PROCESSORS)),
    ],
)
def test_what_measurements_have_shown(
    name: str, q: int, k: int, head: int, wanted: tuple[int, ...]
) -> None:
    """On an H200 these have won; the model alone comes close."""
    space = spaces(name, q, k, head)[0]
    assert short(space.first()) == wanted
    ranked = space._ranked()
    estimate = space._model.estimate
    assert estimate(space.first()).cycles <= 1.15 * estimate(ranked[0]).cycles


def test_stages_where_tables_tell_places() -> None:
    """An instance alone keeps as many tiles under way as one for contiguous keys does, which
    takes more stages and the same room; where there are several two stages have been best, but
    for few rows and many pages a block."""
    sizes = {"b": 4, "h": 16, "g": 2, "d": 128, "e": 128}
    pages = sizes | {"s": 16, "n": 4096, "p": 9999}

    def gathered(**sizes: int) -> Space:
        return spaces_at("paged_attention", pages | sizes)[0]

    contiguous, alone = spaces_at("gqa", sizes | {"q": 1, "k": 65536})[0], gathered(q=1)
    first, usual = alone.first(), replace(contiguous.first(), descriptors=False)
    assert (first.num_stages, usual.num_stages) == (5, 3)
    assert replace(first, num_stages=3) == usual
    assert alone._model.estimate(first).shared == contiguous._model.estimate(usual).shared
    assert short(gathered(q=4096).first()) == (64, 64, 4, 2)
    assert short(gathered(q=1, g=8, b=64).first()) == (16, 128, 4, 5)
    assert short(gathered(q=1, g=8, b=64, s=64).first()) == (16, 128, 4, 2)
    assert short(gathered(q=1, g=8, b=16).first()) == (16, 128, 4, 5)


@pytest.mark.one_in(2)
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
        space = Space(program, {}, element_bytes, target)
        few, many = space.candidates(), space.candidates(60)
        assert few == many[: len(few)] and len(few) <= 12 < len(many) <= 60
        assert few[0] == space.first() and len(set(many)) == len(many)
        assert all(space.admits(s) for s in many)
        assert all(space._model.estimate(s).shared <= space.gpu.shared for s in many)


def test_candidates_are_no_longer_than_the_sizes() -> None:
    for s in spaces("causal", 20, 20, 64)[0].candidates(60):
        assert max(n for _, n in s.blocks) <= 32


def test_a_first_pick_takes_no_enumeration() -> None:
    """A call that has nothing remembered must not wait."""
    space = spaces("causal", 4096, 4096, 128)[0]
    with patch.object(Space, "_all", side_effect=AssertionError("enumerated")):
        space.first()


def test_what_is_admitted() -> None:
    """Schedules of this kernel that can run; others may be remembered by mistake."""
    (space,) = spaces("causal", 4096, 4096, 128)
    good = space.first()
    (q, rows), (k, stream) = good.blocks
    assert space.admits(good)
    assert space.admits(replace(good, blocks=((k, stream), (q, rows))))
    assert not space.admits(replace(good, blocks=((q, rows),)))
    assert not space.admits(replace(good, blocks=((q, rows), ("x", stream))))
    assert not space.admits(replace(good, programs=132))
    assert not space.admits(replace(good, blocks=((q, 256), (k, 512)), num_stages=4))
    in_parts = spaces("attention", 1, 65536, 128)[0]
    assert not in_parts.admits(replace(in_parts.first(), programs=0))


# --- what the GPU can't hold ----------------------------------------------------------------


def tiny(space: Space) -> Gpu:
    """A GPU with hardly any shared memory."""
    return replace(gpu(space.target), shared=4096)


def test_what_no_gpu_could_hold_is_refused() -> None:
    """With the sizes, before anything is compiled."""
    with patch.object(Space, "gpu", property(tiny)):
        (space,) = spaces("causal", 4096, 2048, 128)
        with pytest.raises(UnsupportedError) as caught:
            space.first()
    assert str(caught.value).splitlines()[:3] == [
        "UnsupportedError: the GPU can't hold a tile of kernel 'kernel'",
        "  extents: b = 4, h = 16, q = 4096, e = 128, k = 2048, d = 128",
        "  its smallest tiles have up to 2048 elements and take 8 KiB of shared memory; a "
        "program instance has 4 KiB",
    ]


def test_little_memory_takes_smaller_tiles() -> None:
    """The first of those that are known to be good need not fit."""
    with patch.object(Space, "gpu", property(lambda s: replace(gpu(s.target), shared=40 << 10))):
        (space,) = spaces("causal", 4096, 2048, 128)
        first = space.first()
    assert space._model.estimate(first).shared <= 40 << 10
    assert not space.admits(first) or short(first) != (64, 64, 4, 3)


class Runner(TritonRunner):
    """One whose kernels need more than a GPU has, but for some schedules."""

    def __init__(self, fitting: set[int]) -> None:
        kernel = mc.compile(library.load("causal"))
        program = kernel.plan({}).program
        super().__init__(program, kernel.tile_programs({}), lambda _: None, "ieee")  # type: ignore[arg-type, return-value]
        self.fitting = fitting
        self.tried: list[Schedule] = []

    def _call(
        self, inputs: Mapping[str, torch.Tensor], params: Any, choice: Any, *_: Any, **__: Any
    ) -> Any:
        self.tried.append(choice[0])
        if len(self.tried) - 1 not in self.fitting:
            raise OutOfResources(300 << 10, 227 << 10, "shared memory")
        return (inputs["Q"],), None


@pytest.mark.parametrize(("rows", "parts"), [(8, 1), (1, 4)])
def test_what_candidates_are_compared_with(rows: int, parts: int) -> None:
    """The torch backend's results in float32, for streams in parts too."""
    kernel = mc.compile(library.load("attention"), processors=parts)
    q, k, v = (torch.randn(1, 1, n, 4, dtype=torch.bfloat16) for n in (rows, 5000, 5000))
    extents = by_representative(
        kernel.declared, {"b": 1, "h": 1, "q": rows, "k": 5000, "d": 4, "e": 4}
    )
    program = kernel.plan(extents).program
    kernels = kernel.tile_programs(extents)
    assert any(p.parts for p in kernels) == (parts > 1)
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


def test_what_turns_out_not_to_fit_gives_way() -> None:
    """To the next candidates; the next call begins with the one that did fit."""
    runner = Runner(fitting={2, 3})
    called(runner)
    assert len(runner.tried) == 3
    called(runner)
    assert runner.tried[3] == runner.tried[2]


def test_what_no_candidate_fits_is_refused() -> None:
    """With the sizes and the reason, and nothing is returned."""
    with pytest.raises(UnsupportedError, match="can't hold a tile") as caught:
        called(Runner(fitting=set()))
    assert "q = 8" in str(caught.value) and "out of resource: shared memory" in str(caught.value)


# --- room for two instances -----------------------------------------------------------------

ADDED = {
    "in rows": ("B[h,q,k]", "B[h,q,k]", ""),
    "gathered": ("B[h,r]", "B[h,q - k + |k| - 1]", "index r < |q| + |k| - 1"),
    "of a row": ("B[h,q]", "B[h,q]", ""),
}


@pytest.mark.one_in(3)
@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
@pytest.mark.parametrize(
    ("added", "stages"), [("in rows", 2), ("gathered", 2), ("of a row", 3)], ids=str
)
def test_what_is_added_takes_room(added: str, stages: int) -> None:
    """A tile that is added to the logits takes shared memory too; a stage less makes room for the
    second instance, without which products wait for what comes between them."""
    declared, read, index = ADDED[added]
    kernel = mc.compile(f"""
        input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], {declared}
        {index}
        S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|) + {read}
        O[b,h,q,e] = softmax[k](S[b,h,q,k]) * V[b,h,k,e]
        """)
    sizes = {"b": 1, "h": 4, "q": 1024, "k": 1024, "d": 128, "e": 128, "r": 2047}
    programs = kernel.tile_programs({e: sizes[e] for e in kernel.declared.extent_of.values()})
    space = Space(programs[0], sizes, 2, "cuda:90", PROCESSORS)
    first = space.first()
    assert short(first) == (64, 64, 4, stages)
    assert space._model.room(first) == 2
    inputs = without_elements(kernel, sizes)
    for schedule in (first, replace(first, num_stages=5 - stages)):
        (launch,) = launches_of(kernel, programs, [schedule], inputs)
        estimated = space._model.estimate(schedule).shared
        assert abs(compile_for("cuda:90", launch).shared - estimated) <= 64


@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
@pytest.mark.parametrize("head", [64, 128])
def test_what_is_stored_takes_twice_the_room(head: int) -> None:
    """What one kernel stores for another is float32: a bias that is added to the logits."""
    kernel = mc.compile(library.load("pair_bias"))
    sizes = {"b": 1, "h": 16, "q": 2048, "d": head, "k": 2048, "e": head, "c": 32}
    lowered = kernel.plan(sizes, PROCESSORS).program
    programs = kernel.tile_programs(sizes, PROCESSORS)
    spaces = [Space(p, sizes, 2, "cuda:90", PROCESSORS) for p in programs]
    schedules = [space.first() for space in spaces]
    inputs = without_elements(kernel, sizes)
    _, launch = launches_of(kernel, programs, schedules, inputs, lowered=lowered)
    estimated = spaces[1]._model.estimate(schedules[1]).shared
    assert abs(compile_for("cuda:90", launch).shared - estimated) <= 64
    assert spaces[1]._model.room(schedules[1]) == 2


@pytest.mark.parametrize(("length", "few", "many"), [(3, 1, 1), (8, 1, 1), (20, 4, 1), (900, 4, 1)])
def test_rows_that_share_nothing(length: int, few: int, many: int) -> None:
    """A warp takes each of many, in blocks that are no longer than these; few take more warps."""
    kernel = mc.compile(library.load("merge_states"))
    for rows, longest, warps in ((1, 32, few), (4096, 8, many)):
        sizes = {"s": length, "b": 4, "h": 16, "q": rows, "e": 128}
        (program,) = kernel.tile_programs(sizes)
        first = Space(program, sizes, 2, "cuda:90", PROCESSORS).first()
        block = min(longest, power_of_two(length))
        assert (dict(first.blocks), first.num_warps) == ({"s": block}, warps)


@pytest.mark.parametrize(
    ("length", "block", "warps"), [(7, 8, 1), (2000, 2048, 2), (9999, 4096, 4)]
)
def test_rows_of_numbers(length: int, block: int, warps: int) -> None:
    """32 elements a lane, if there are so many."""
    for name in ("softmax", "variance"):
        sizes = {"i": 5000, "k": length}
        (program,) = mc.compile(library.load(name)).tile_programs(sizes)
        first = Space(program, sizes, 2, "cuda:90", PROCESSORS).first()
        assert ({*dict(first.blocks).values()}, first.num_warps) == ({block}, warps)


@pytest.mark.one_in(3)
@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
@pytest.mark.parametrize(
    ("name", "head"),
    [
        pytest.param("alibi", 256, marks=pytest.mark.slow),
        ("attention_jvp", 128),
        pytest.param("attention_statistics", 256, marks=pytest.mark.slow),
        ("differential", 128),
        ("dropout", 256),
    ],
)
def test_what_registers_hold(name: str, head: int) -> None:
    """Values that are computed where they are used, and new tiles in the place of old ones, take
    no registers: what seems not to fit compiles with few of them in memory."""
    kernel = mc.compile(library.load(name))
    sizes = {"b": 1, "h": 16, "q": 4096, "k": 4096, "d": head, "e": head}
    programs = kernel.tile_programs({e: sizes[e] for e in kernel.declared.extent_of.values()})
    first = Space(programs[0], sizes, 2, "cuda:90", PROCESSORS).first()
    assert short(first) == (128, 64, 8, 2)
    (launch,) = launches_of(kernel, programs, [first], without_elements(kernel, sizes))
    # A guard at the end of dropout, whose rate may be 1, looks at the whole tile once.
    assert compile_for("cuda:90", launch).spilled <= (320 if name == "dropout" else 128)
