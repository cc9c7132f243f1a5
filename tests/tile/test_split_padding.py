"""Axes held as two tiles: what the pass makes of tile programs, and who chooses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.backends.schedules import table
from monocomp.backends.schedules.legal import Legal
from monocomp.backends.schedules.schedule import Schedule, shortest
from monocomp.errors import InternalError
from monocomp.extents.nominal import one_tile, split_lengths
from monocomp.kernel import Kernel
from monocomp.tile import TileProgram
from monocomp.tile.split_padding import divisible, split_padding
from tests.backends import interpreted as interpreter
from tests.backends.library_cases import CASES
from tests.backends.programs import EXAMPLES
from tests.backends.running import exact, file_for_any_size, make_inputs, poisoned_empty
from tests.backends.tolerances import BESIDE_EAGER, agree, near
from tests.gpu.comparing import all_in_nan

# Lengths that one tile fits, that two fit, that neither does, and that three would.
HEADS = (1, 17, 24, 40, 72, 80, 96, 112, 160, 192, 320)
ATTENTION = library.load("attention")


# --- lengths ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "lengths", "one"),
    [
        (1, (16, 16), 16),
        (32, (16, 16), 32),
        (40, (32, 16), 64),
        (96, (64, 32), 128),
        (112, (64, 64), 128),
        (129, (128, 16), 256),
        (320, (256, 64), 512),
    ],
)
def test_lengths(size: int, lengths: tuple[int, int], one: int) -> None:
    """Powers of two that hold the axis, the second as short as the matrix units allow."""
    assert (split_lengths(size), one_tile(size)) == (lengths, one)
    assert shortest(size) == min(one, sum(lengths))


def test_lengths_hold_the_axis() -> None:
    for size in range(1, 1025):
        first, second = split_lengths(size)
        assert first >= second >= 16 and first + second >= size
        assert size <= shortest(size) <= max(16, 2 * size - 1)


# --- the pass -----------------------------------------------------------------------------


def test_printed(golden: Callable[[str, str], None]) -> None:
    """Attention: a chain of two products, and two accumulators."""
    (program,) = mc.compile(ATTENTION, name="attention").tile_programs()
    golden("attention.split_padding.txt", f"{split_padding(program, ['e', 'd'])}\n")


@contextmanager
def everything_split() -> Iterator[None]:
    """Let backends split every axis that can be."""
    original = Kernel.tile_programs

    def divided(self: Kernel, *args: Any) -> tuple[TileProgram, ...]:
        return tuple(split_padding(p, divisible(p)) for p in original(self, *args))

    with patch.object(Kernel, "tile_programs", divided):
        yield


@pytest.mark.one_in(7)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    """All parts of the language, interpreted in float64; a second tile may be empty."""
    example = EXAMPLES[name]
    for inputs in example.drawn():
        with everything_split():
            agree("numpy", example.text, inputs, example.tolerance, **example.params)


def test_what_must_be_one_tile() -> None:
    """The ranks of `top` are one list."""
    (program,) = mc.compile(library.load("softmax_top8")).tile_programs()
    assert "r" in program.axis_names("whole") and "r" not in divisible(program)
    with pytest.raises(InternalError, match="cannot hold r as two tiles"):
        split_padding(program, ["r"])
    with pytest.raises(InternalError, match="cannot hold b as two tiles"):
        split_padding(program, ["b"])


# --- the choice ---------------------------------------------------------------------------


def space(head: int, value: int, element_bytes: int = 2, target: str = "cuda:90") -> Legal:
    """The space of attention with heads of these sizes."""
    kernel = mc.compile(ATTENTION)
    sizes = {"b": 2, "h": 4, "q": 1000, "k": 1000, "d": head, "e": value}
    (program,) = kernel.tile_programs(sizes)
    return Legal(program, sizes, element_bytes, target)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("head", HEADS)
def test_where_padding_is_less(head: int) -> None:
    """The first schedule follows from the sizes; a search tries one tile too."""
    found = space(head, head)
    pays = shortest(head) < one_tile(head)
    assert table.first(found).split_axes == (("e", "d") if pays else ())
    candidates = table.candidates(found)
    held = {(), ("e", "d")} if pays else {()}
    if head == 320:  # one tile takes more registers than there are
        held = {("e", "d")}
    assert {s.split_axes for s in candidates} == held
    assert all(map(found.admits, candidates)) and len(candidates) == 12


# --- emitted ------------------------------------------------------------------------------


def _split_where_it_fits(legal: Legal) -> Iterator[Schedule]:
    """As the table has them, but axes that are padded less as two tiles are held so."""
    for schedule in _RANKED(legal):
        split_axes = replace(schedule, split_axes=legal.split_axes)
        yield split_axes if legal.holds(split_axes) else schedule


_RANKED = table.ranked


def _in_interpreter(inputs: Mapping[str, torch.Tensor], text: str) -> tuple[torch.Tensor, Any]:
    kernel = mc.compile(text, backend="triton")
    with poisoned_empty(), patch.object(table, "ranked", _split_where_it_fits):
        found = kernel(**inputs)
    (runner,) = kernel.calls._runners.values()
    return found, [axes for choice in runner._modules for axes, *_ in choice]


@pytest.mark.one_in(7)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", ["attention", "causal", "gqa", "cosine_attention"])
def test_head_sizes(name: str, head: int) -> None:
    """Between NaN, which no tile may read; d and dv in tiles of their own."""
    case = CASES[name]
    inputs = case.inputs(case.sizes(37, 19, head, 96 if head == 1 else head), torch.float32)
    found, held = interpreter.call(_in_interpreter, all_in_nan(inputs), case.text)
    assert bool(held[0]) == (head == 1 or shortest(head) < one_tile(head))
    (wanted,), (eager,) = exact(case.text, inputs), case.in_eager_torch(inputs)
    BESIDE_EAGER[torch.float32].check(found, wanted, eager)


def test_one_file_for_all_sizes() -> None:
    """One whose schedule has two tiles is right for any length."""
    text = file_for_any_size(mc.compile(ATTENTION, name="kernel"), {"d": 96, "e": 96})
    assert "# Split padding: e, d.\n" in text
    for head in (1, 16, 64, 96, 100):
        inputs = make_inputs(ATTENTION, {"b": 1, "h": 1, "q": 17, "k": 33, "d": head, "e": head})
        (found,) = interpreter.call(_run_file, text, all_in_nan(inputs))
        near("triton", ATTENTION, inputs, [found])


def _run_file(text: str, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    from monocomp.backends.triton.launch import load

    return (load(text).kernel(*(inputs[n] for n in "QKV")),)
