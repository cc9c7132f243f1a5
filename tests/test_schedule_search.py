"""The search over schedules: cases are made ready, shapes are read as they are shown."""

from __future__ import annotations

import itertools
import json

import pytest

from benchmarks.schedules import judging
from benchmarks.schedules.cases import Prepared, cases
from monocomp.backends.schedules import table
from monocomp.backends.schedules.features import features
from monocomp.backends.schedules.legal import Shape


@pytest.mark.parametrize("name", ["causal", "softmax", "gqa"])
def test_the_first_schedule_is_a_shape(name: str) -> None:
    case = next(c for c in cases() if c.program == name)
    made = Prepared(case, "meta", "cuda:90", 132)
    for space, first in zip(made.legal, made.firsts, strict=True):
        shape = space.shape(first)
        assert Shape.parse(str(shape)) == shape
        found = space.schedule(shape)
        assert found is not None and found.blocks == first.blocks
        others = list(itertools.islice(space.neighbours(shape), 5))
        assert others and shape not in others
        assert features(space)


def test_the_table_is_made_from_the_measurements() -> None:
    data = json.loads(judging.MEASURED.read_text())
    times = [{s: t for s, t in k["times"].items() if t is not None} for k in data["kernels"]]
    measured = table.shipped()[: len(times)]
    assert [row.times for row in measured] == [judging.relative(t) for t in times]


@pytest.mark.slow
def test_programs_that_the_table_has_not_seen() -> None:
    """Their first schedules are nearly as fast as the best that was measured for them."""
    known = judging.kernels()
    assert [k.row for k in known] == [*table.shipped()[: len(known)]]
    found = judging.leave_one_out(known)
    assert judging.mean(found.losses.values()) < 1.05
    assert sum(x > 1.5 for x in found.losses.values()) <= 2 and max(found.losses.values()) < 1.6
    assert len(found.unknown) <= 36
