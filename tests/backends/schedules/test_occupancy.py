"""How long instances take together: what short kernels differ by."""

from __future__ import annotations

import pytest

from benchmarks.schedules import judging
from monocomp.backends.schedules.legal import Shape
from monocomp.backends.schedules.occupancy import Cost, Occupancy

PROCESSORS = 132
FEATURES = {
    **{"positions": 11.0, "row": 12.0, "length": 12.0, "held": 7.0, "kept": 8.0, "streamed": 9.0},
    **{"bounded": 0.0, "masked": 0.0, "direct": 1.0, "columns": 0.0},
}


def cost(text: str, **numbers: float) -> Cost:
    """Of a shape, for a kernel like attention with heads of 128, but for some numbers."""
    return Occupancy({**FEATURES, **numbers}, PROCESSORS).cost(Shape.parse(text))


def test_long_streams_take_as_long_as_their_blocks() -> None:
    """Fill is the larger part where a stream has few."""
    long, short = cost("64/64 4w 3s"), cost("64/64 4w 3s", length=7.0)
    assert long.fill < 0.1 * long.blocks and short.fill > short.blocks
    assert long.fill == pytest.approx(short.fill)


def test_instances_hide_what_others_wait_for() -> None:
    """Those with little shared memory, and those with few registers, have others beside them."""
    few, many = cost("64/128 4w 3s", length=7.0), cost("64/32 4w 3s", length=7.0)
    assert few.blocks == many.blocks and few.fill > 1.5 * many.fill
    assert cost("128/64 4w 2s", length=7.0).fill < cost("128/64 8w 2s", length=7.0).fill
    assert cost("64/64 4w 3s", kept=4.0, streamed=4.0).fill < cost("64/64 4w 3s").fill


def test_masked_blocks() -> None:
    """An end that varies leaves half, in whole blocks: wide ones have more that is masked."""
    causal = {"bounded": 1.0, "masked": 1.0, "length": 9.0}
    wide, narrow = cost("64/128 4w 3s", **causal), cost("64/64 4w 3s", **causal)
    assert wide.blocks / narrow.blocks == pytest.approx((256 + 64) / (256 + 32), rel=0.01)
    assert wide.fill > narrow.fill


def test_few_instances_leave_places_empty() -> None:
    """One in the place of two takes longer than half of their time; one more than there are places
    begins a turn of its own; and heavy rows last longer than others."""
    alone = cost("64/64 4w 3s", positions=1.0)
    both = cost("64/64 4w 3s", positions=2.0)
    more = cost("64/64 4w 3s", positions=3.0)
    assert 0.5 * both.blocks < alone.blocks < both.blocks < more.blocks
    uneven = cost("64/64 4w 3s", positions=1.0, bounded=1.0)
    assert uneven.blocks > 0.5 * alone.blocks


def test_kernels_of_which_little_is_known() -> None:
    """Processors without instances count, and splits leave none."""
    assert cost("64/64 4w 3s", direct=0.0) == Cost(1.0, 0.0)
    assert cost("64/64 4w 3s", direct=0.0, positions=0.0, row=6.0).blocks > 5
    assert cost("16/128 4w 3s 2i", positions=0.0, row=0.0) == Cost(1.0, 0.0)


def test_what_is_chosen_carries_over_to_short_lengths() -> None:
    """Heads of 64, 128 and 256, lengths of 128 to 2048, forward and backward, of many instances and
    of few, every fourth of those that have no row in the table."""
    known = judging.kernels()
    seen = {k.row.features for k in known}
    found = judging.judge([k for k in judging.short(known) if k.row.features not in seen][::4])
    losses = [*found.losses.values(), *found.unknown.values()]
    assert len(losses) > 45 and judging.mean(losses) <= 1.03 and max(losses) <= 1.25
