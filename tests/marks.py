"""Which cases of a test are slow: `make test` has some of each kind, `make thorough` the rest."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def slow_unless(usual: Callable[..., bool], *values: Iterable[Any]) -> list[Any]:
    """Every combination of values; those that are not usual are marked as slow."""
    combinations = itertools.product(*values)
    return [
        pytest.param(*case, marks=[] if usual(*case) else pytest.mark.slow) for case in combinations
    ]
