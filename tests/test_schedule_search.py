"""The search over schedules: cases are made ready, shapes are read as they are shown."""

from __future__ import annotations

import itertools

import pytest

from benchmarks.schedules.cases import Prepared, cases
from monocomp.backends.triton.features import features
from monocomp.backends.triton.legal import Shape


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
