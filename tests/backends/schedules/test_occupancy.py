"""How long instances take together: what short kernels differ by."""

from __future__ import annotations

from benchmarks.schedules import judging


def test_what_is_chosen_carries_over_to_short_lengths() -> None:
    """Heads of 64, 128 and 256, lengths of 128 to 2048, forward and backward, of many instances and
    of few, every fourth of those that have no row in the table."""
    known = judging.kernels()
    seen = {k.row.features for k in known}
    found = judging.judge([k for k in judging.short(known) if k.row.features not in seen][::4])
    losses = [*found.losses.values(), *found.unknown.values()]
    assert len(losses) > 45 and judging.mean(losses) <= 1.03 and max(losses) <= 1.25
