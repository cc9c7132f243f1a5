"""What holds while a kernel is built, and after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from monocomp.errors import LimitError
from monocomp.machine.locking import BUILDING


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    was = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was else gc.disable)()


def test_the_collector_rests_until_the_outermost_is_done() -> None:
    with BUILDING:
        with BUILDING:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_goes_on_after_an_error() -> None:
    with pytest.raises(LimitError, match="nested deeper"), BUILDING:
        raise RecursionError
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    with BUILDING:
        pass
    assert not gc.isenabled()
