"""The search over schedules: cases are made ready, shapes are read as they are shown."""

from __future__ import annotations

import itertools

import pytest

from benchmarks.schedules import judging
from benchmarks.schedules.cases import Prepared, case, cases
from monocomp.backends.schedules import table
from monocomp.backends.schedules.features import features
from monocomp.backends.schedules.legal import Shape

HEADS = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 128, "e": 128}
SIZES = {"causal": HEADS, "softmax": {"i": 8192, "k": 4096}, "gqa": HEADS | {"g": 4}}


@pytest.mark.slow
def test_programs_of_the_library_are_measured() -> None:
    """Its gradients are derived for that, which takes long."""
    assert SIZES.keys() <= {c.program for c in cases()}


@pytest.mark.parametrize("name", SIZES)
def test_the_first_schedule_is_a_shape(name: str) -> None:
    made = Prepared(case(name, SIZES[name]), "meta", "cuda:90", 132)
    for space, first in zip(made.legal, made.firsts, strict=True):
        shape = space.shape(first)
        assert Shape.parse(str(shape)) == shape
        found = space.schedule(shape)
        assert found is not None and found.blocks == first.blocks
        others = list(itertools.islice(space.neighbours(shape), 5))
        assert others and shape not in others
        assert features(space)


def test_the_table_is_made_from_the_measurements() -> None:
    """Its rows follow from the file alone: the kernels that were measured stand in it."""
    known = judging.kernels()
    assert [k.row for k in known] == [*table.shipped()[: len(known)]]


@pytest.mark.slow  # schedules/test_schedule.py judges choices for kernels that have no rows as well
def test_programs_that_the_table_has_not_seen() -> None:
    """Their first schedules are nearly as fast as the best that was measured for them; also with
    the next that was measured in the place of those that were not."""
    found = judging.leave_one_out(judging.kernels())
    assert judging.mean([*found.losses.values(), *found.unknown.values()]) <= 1.10
    assert max(found.losses.values()) <= judging.MOST
