"""Schedules as text and as plain data; `test_remembered` has data that is no schedule. What
is chosen carries over to short lengths."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from benchmarks.schedules import judging
from monocomp.backends.schedules.schedule import Schedule

PLAIN = Schedule((("q", 64), ("k", 32)), 4, 2)
CHOICES: dict[str, tuple[Any, str]] = {
    "programs": (132, "132 programs"),
    "split_axes": (("e", "d"), "padding of e and d split"),
    "descriptors": (True, "descriptors"),
    "group_size": (16, "groups of 16"),
    "registers": (128, "128 registers"),
    "unchained": (True, "unchained"),
    "language": ("gluon", "in gluon"),
}


def test_every_choice_is_tried() -> None:
    assert [f.name for f in fields(Schedule)][3:] == [*CHOICES]
    assert str(PLAIN) == "64 x 32, 4 warps, 2 stages"


@pytest.mark.parametrize("name", CHOICES)
def test_as_plain_data(name: str) -> None:
    """Schedules that were written before there was a choice are schedules."""
    value, words = CHOICES[name]
    schedule = replace(PLAIN, **{name: value})
    assert str(schedule) == f"{PLAIN}, {words}"
    data = json.loads(json.dumps(schedule.to_json()))
    assert Schedule.from_json(data) == schedule
    if name != "programs":
        del data[name]
        assert Schedule.from_json(data) == PLAIN


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_rows_of_warpgroups(groups: int) -> None:
    """Three have 192, and what was measured of them holds for other processes."""
    schedule = Schedule((("q", 64 * groups), ("k", 128)), 4 * groups, 2, descriptors=True)
    data = json.loads(json.dumps(schedule.to_json()))
    assert Schedule.from_json(data) == schedule
    with pytest.raises(ValueError, match="powers of two"):
        Schedule.from_json(data | {"blocks": {"q": 64 * groups, "k": 96}})


# --- how long instances take together ----------------------------------------------------


def test_what_is_chosen_carries_over_to_short_lengths() -> None:
    """Heads of 64, 128 and 256, lengths of 128 to 2048, forward and backward, of many instances and
    of few, every fourth of those that have no row in the table."""
    known = judging.kernels()
    seen = {k.row.features for k in known}
    found = judging.judge([k for k in judging.short(known) if k.row.features not in seen][::4])
    losses = [*found.losses.values(), *found.unknown.values()]
    assert len(losses) > 45 and judging.mean(losses) <= 1.03 and max(losses) <= 1.25
