"""Fixtures of GPU tests: first schedules, and outputs that hold NaN beforehand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.backends.running import poisoned_empty


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Eager torch warns when its first product is in a process without a context."""
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"))


@pytest.fixture(autouse=True)
def _first_schedule(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Right with the first schedule; the search has a test of its own. Outputs hold NaN before."""
    monkeypatch.setenv("MONOCOMP_TUNE", "0")
    with poisoned_empty():
        yield
