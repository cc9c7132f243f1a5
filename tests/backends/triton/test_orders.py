"""The order of program instances: who chooses it, and that it changes no bit of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.backends.schedules import table
from monocomp.backends.schedules.gpus import gpu
from monocomp.backends.schedules.legal import Legal
from monocomp.backends.schedules.schedule import LARGEST_GROUP, Schedule
from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS
from monocomp.backends.triton.emit import emit
from monocomp.backends.triton.launch import interpreted, load
from tests.backends import interpreted as interpreter
from tests.backends.compiling import TARGETS, compile_for, recorded
from tests.backends.library_cases import CASES
from tests.backends.running import (
    make_inputs,
    poisoned_empty,
    short_splits,
    small_schedules,
)
from tests.backends.schedules.test_table import spaces
from tests.marks import slow_unless

ORDERS = (1, 2, 4, 16, LARGEST_GROUP)
GQA_CAUSAL = """
input Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e]
G[h] = h // (|h| // |g|)
O[b,h,q,e] = softmax[k if k <= q](Q[b,h,q,d] * K[b,G[h],k,d]) * V[b,G[h],k,e]
"""
ROWS_ALONE = "O[q,e] = softmax[k](Q[q,d] * K[k,d]) * V[k,e]"
TWO_AXES = "input X[q,d], Y[k,d]\nO[q,k] = X[q,d] * Y[k,d]"


# --- the numbering ----------------------------------------------------------------------------


def grouped(pid: int, blocks: int, positions: int, group_size: int) -> int:
    """The helper of emitted files, as Python."""
    scope: dict[str, Any] = {}
    text = DEVICE_FUNCTIONS["grouped"].removeprefix("@triton.jit\n").replace(".to(tl.int32)", "")
    exec(text.replace("tl.minimum", "min"), scope)
    found = scope["grouped"](pid, blocks, positions, group_size)
    return int(found)


@pytest.mark.parametrize("group_size", ORDERS)
@pytest.mark.parametrize("blocks", [1, 2, 5])
@pytest.mark.parametrize("positions", [1, 3, 4, 21])
def test_every_block_has_its_turn(positions: int, blocks: int, group_size: int) -> None:
    """Once; at each position in ascending order; and those of a group before those of the next."""
    walked = [
        divmod(grouped(n, blocks, positions, group_size), blocks) for n in range(blocks * positions)
    ]
    assert sorted(walked) == [(p, b) for p in range(positions) for b in range(blocks)]
    assert walked == sorted(walked, key=lambda at: (at[0] // group_size, at[1], at[0]))


def test_long_grids() -> None:
    """No number on the way is larger than the grid, whatever the order: none overflows."""
    blocks, positions = np.int32(1 << 16), np.int32((1 << 15) - 1)
    for group_size in ORDERS:
        for pid in (0, 12345, blocks * positions - 1):
            grouped(np.int32(pid), blocks, positions, np.int32(group_size))


# --- results ----------------------------------------------------------------------------------


def _in_orders(
    text: str, inputs: Mapping[str, torch.Tensor], processors: int | None
) -> list[tuple[torch.Tensor, ...]]:
    """The results one position at a time, of pairs, and of all at once, in small blocks; and that
    the orders have arrived."""
    original = table.first
    results = []
    for group_size in (1, 2, LARGEST_GROUP):

        def first(space: Legal, group_size: int = group_size) -> Schedule:
            found = replace(original(space), group_size=group_size)
            return found if space.admits(found) else original(space)

        kernel = mc.compile(text, backend="triton", processors=processors)
        with (
            patch.object(table, "first", first),
            small_schedules(16),
            short_splits(),
            poisoned_empty(),
        ):
            found = kernel(**inputs)
        (runner,) = kernel.calls._runners.values()
        (choice,) = runner._chosen.values()
        assert group_size in {s.group_size for s in choice}
        results.append(found if isinstance(found, tuple) else (found,))
    return results


IN_ORDERS = ["causal", "attention", "prefix_lm", "sliding_window", "document", "gqa", "pair_bias"]


@pytest.mark.parametrize(
    ("name", "processors"),
    [
        *slow_unless(lambda name, _: name == "causal", IN_ORDERS, [None]),
        pytest.param("attention_statistics", None, marks=pytest.mark.slow),
        pytest.param("attention", 8, marks=pytest.mark.slow),
        ("gqa", 8),
    ],
)
def test_same_bits(name: str, processors: int | None) -> None:
    """Whatever the order; with splits of streams, and packed rows, too."""
    case = CASES[name]
    rows = 5 if processors else 20
    inputs = case.inputs(case.sizes(rows, 130 if processors else 20, 16, 16), torch.float32)
    usual, *others = interpreter.call(_in_orders, case.text, inputs, processors)
    for found in others:
        for x, y in zip(found, usual, strict=True):
            torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("empty", ["b", "h", "q"])
def test_empty_axes(empty: str) -> None:
    sizes = {"b": 2, "h": 3, "q": 20, "k": 20, "d": 16, "e": 16, empty: 0}
    inputs = make_inputs(library.load("attention"), sizes)
    for found in interpreter.call(_in_orders, library.load("attention"), inputs, None):
        assert torch.equal(found[0], torch.zeros(sizes["b"], sizes["h"], sizes["q"], 16))


# --- who chooses it ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "length", "head", "wanted"),
    [
        ("attention", 4096, 128, [1, 4]),
        ("causal", 4096, 128, [8, 16, 1]),
        ("causal", 4096, 64, [16, 32, 1]),
        ("causal", 16384, 128, [2, 4, 1]),
        ("causal", 64, 128, [1]),
        ("prefix_lm", 4096, 128, [8, 16, 1]),
        ("document", 4096, 128, [16, 32, 1]),
        ("sink_window", 4096, 128, [4, 8, 1]),
    ],
)
def test_orders(name: str, length: int, head: int, wanted: list[int]) -> None:
    """Where rows bound what they stream, as many heads take turns as share the cache."""
    (space,) = spaces(name, length, length, head)
    assert space.orders == wanted
    first = table.first(space)
    assert first.group_size == wanted[0]
    of_first = [
        s for s in table.candidates(space) if replace(s, group_size=first.group_size) == first
    ]
    assert [s.group_size for s in of_first] == wanted


def test_a_smaller_cache() -> None:
    with patch.object(Legal, "gpu", property(lambda s: replace(gpu(s.target), cached=4 << 20))):
        (space,) = spaces("causal", 4096, 4096, 128)
        assert table.first(space).group_size == 4


def test_heads_that_share_a_stream() -> None:
    """Count what they read once: groups of four are read by four times as many."""
    (program,) = mc.compile(GQA_CAUSAL).tile_programs({})
    sizes = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 128, "e": 128}
    few, many = (Legal(program, {**sizes, "g": g}, 2, "cuda:90", 132) for g in (4, 16))
    assert (table.first(few).group_size, table.first(many).group_size) == (32, 8)


def test_what_is_admitted() -> None:
    """An order needs blocks of rows and positions beside them, or blocks along two axes."""
    (space,) = spaces("causal", 4096, 4096, 128)
    assert all(space.admits(replace(table.first(space), group_size=n)) for n in ORDERS)
    kernel = mc.compile(ROWS_ALONE)
    (program,) = kernel.tile_programs({})
    alone = Legal(program, {}, 2, "cuda:90", 132)
    assert table.first(alone).group_size == 1 and alone.admits(table.first(alone))
    assert not alone.admits(replace(table.first(alone), group_size=2))
    in_splits = spaces("attention", 1, 65536, 128)[0]
    assert in_splits.orders == [1]


# --- emitted ----------------------------------------------------------------------------------


def test_emitted() -> None:
    """A file says its order where there is one to choose."""
    causal = mc.compile(library.load("causal"))
    extents = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 128, "e": 128}
    text = causal.source(target="cuda:90", extents=extents)
    assert '    "GROUP_SIZE": 8,\n' in text
    assert "pid = grouped(tl.program_id(0), num_q, 64, GROUP_SIZE)" in text
    text = causal.source(target="cuda:90")
    assert "pid = grouped(tl.program_id(0), num_q, size_h * size_b, GROUP_SIZE)" in text
    assert "GROUP_SIZE" not in mc.compile(ROWS_ALONE).source(target="cuda:90")
    text = mc.compile(TWO_AXES).source(target="cuda:90")
    assert "pid = grouped(tl.program_id(0), num_k, num_q, GROUP_SIZE)" in text
    assert '    "GROUP_SIZE": 16,\n' in text


@pytest.mark.one_in(3)
@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
@pytest.mark.parametrize(
    ("target", "heads"),
    slow_unless(lambda target, heads: heads == 16 or target == "cuda:90", TARGETS, (1, 16)),
)
def test_compiled(target: str, heads: int) -> None:
    """An order takes nothing of a GPU that a block needs; one head is a constant of a kernel."""
    kernel = mc.compile(library.load("causal"))
    inputs = {n: torch.empty(1, heads, 1024, 64, dtype=torch.bfloat16) for n in "QKV"}
    extents = {"b": 1, "h": heads, "q": 1024, "k": 1024, "d": 64, "e": 64}
    programs = kernel.tile_programs(extents)
    usages = []
    for group_size in (1, 4):
        first = replace(table.first(Legal(programs[0], extents, 2, target)), group_size=group_size)
        module = emit(kernel.equations, programs, [first], target=target)
        configs = (module.config(0, first),)
        assert configs[0]["GROUP_SIZE"] == group_size
        (launch,) = recorded(load(module.source), module.host, inputs, target, configs=configs)
        usages.append(compile_for(target, launch))
    usual, grouped = usages
    assert (grouped.shared, grouped.spilled) == (usual.shared, 0)
    assert grouped.registers <= usual.registers + 8
