"""The order of program instances: who chooses it, and that it changes no bit of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch

import monocomp as mc
from monocomp.backends.schedules import table
from monocomp.backends.schedules.legal import Legal
from monocomp.backends.schedules.occupancy import streamed_length
from monocomp.backends.schedules.schedule import LARGEST_GROUP, Schedule
from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS
from tests.backends import interpreted as interpreter
from tests.backends.library_cases import CASES
from tests.backends.running import (
    poisoned_empty,
    short_splits,
    small_schedules,
)
from tests.backends.schedules.test_table import spaces
from tests.marks import slow_unless

ORDERS = (1, 2, 4, 16, LARGEST_GROUP)
ROWS_ALONE = "O[q,e] = softmax[k](Q[q,d] * K[k,d]) * V[k,e]"


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
        torch.testing.assert_close(found, usual, rtol=0, atol=0, equal_nan=True)


# --- who chooses it ---------------------------------------------------------------------------


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


@pytest.mark.parametrize(("name", "are_alike"), [("sliding_window", True), ("causal", False)])
def test_blocks_that_are_alike(name: str, are_alike: bool) -> None:
    """In a window that moves with the rows no block is heavier, which would have to come first."""
    (space,) = spaces(name, 4096, 4096, 128)
    assert (space.orders[0] == 1) == are_alike and len(space.orders) > 1


def test_what_ends_leave_of_a_stream() -> None:
    """Half, or a third if both vary, and parts of blocks at each."""
    lengths = [streamed_length(1200, ends, 64, 128) for ends in (0, 1, 2)]
    assert lengths == [1200, 600 + 64, 400 + 128]
