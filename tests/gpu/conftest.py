"""What GPU tests share: the first schedules, spoilt outputs, and one line of counts at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.backends.running import poisoned_empty
from tests.gpu.comparing import Tally, counted_compilations

_PROPERTY = "gpu"  # of a test's report, which also comes from a worker of pytest-xdist
_TOTAL = Tally()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Eager torch warns when its first product is in a process without a context."""
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"))


@pytest.fixture(autouse=True)
def _first_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right with the first schedule; the search has a test of its own."""
    monkeypatch.setenv("MONOCOMP_TUNE", "0")


@pytest.fixture(autouse=True)
def tally(record_property: Callable[[str, object], None]) -> Iterator[Tally]:
    """What a test has compared; outputs hold NaN before kernels run."""
    found = Tally()
    with counted_compilations(found), poisoned_empty():
        yield found
    record_property(_PROPERTY, found.to_json())


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        for name, value in report.user_properties:
            if name == _PROPERTY:
                _TOTAL.add(Tally.from_json(value))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _TOTAL.programs:
        terminalreporter.write_line(f"gpu: {_TOTAL}")
