"""The folder of small files: where it is, and that it keeps what it is given."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from monocomp.errors import LimitError
from monocomp.machine.cache import JsonStore, cache_folder
from monocomp.machine.locking import BUILDING


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert cache_folder() == Path("/a")
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", "")
    assert cache_folder() == Path("/b/monocomp")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path("/c/.cache/monocomp")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path("/c/.cache/monocomp")


def test_a_store_keeps_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(tmp_path / "cache"))
    store = JsonStore("tuning")
    assert store.get("a key / with .. anything\n") is None
    store.put("a key / with .. anything\n", {"block": [64, 128], "ms": 0.25, "note": "ü"})
    assert store.get("a key / with .. anything\n") == {
        "block": [64, 128],
        "ms": 0.25,
        "note": "ü",
    }
    store.put("a key / with .. anything\n", {"block": []})
    assert store.get("a key / with .. anything\n") == {"block": []}
    assert store.get("another") is None
    assert JsonStore("other").get("a key / with .. anything\n") is None


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"[" * 100_000, None])
def test_damaged_entries_are_not_believed(
    damage: Callable[[bytes], bytes] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A letter that is flipped changes the digest."""
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(tmp_path / "cache"))
    store = JsonStore("proofs")
    store.put("key", {"law": "associative"})
    (entry,) = (tmp_path / "cache" / "proofs").iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole) if damage else whole.replace(b"associative", b"bssociative"))
    assert store.get("key") is None
    store.put("key", {"law": "associative"})
    assert entry.read_bytes() == whole


def test_entries_that_others_own_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(tmp_path / "cache"))
    store = JsonStore("proofs")
    store.put("key", {"law": "associative"})
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert store.get("key") is None
    with pytest.warns(RuntimeWarning, match="others may write here"):
        store.put("key", {"law": "associative"})


# --- what holds while a kernel is built, and after it ------------------------------------


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
