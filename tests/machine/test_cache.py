"""The folder of small files: where it is, and that it keeps what it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from monocomp.machine.cache import JsonStore, cache_folder


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
