"""Schedules that are remembered: what is taken from a file or the cache, and what is not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import monocomp as mc
from monocomp.backends.schedules import remembered as schedules
from monocomp.backends.schedules.remembered import Entry, Situation
from monocomp.backends.schedules.schedule import LARGEST_GROUP, Schedule
from monocomp.errors import UsageError

FAST = Schedule((("q", 64), ("k", 32)), 4, 2)
PLACE = Situation(
    device="NVIDIA H200",
    triton="3.6.0",
    program="0" * 32,
    precision="ieee",
    dtypes=(("K", "bfloat16"), ("Q", "bfloat16")),
    sizes=(("k", 4096), ("q", 4096)),
)
ENTRY = Entry(PLACE, (FAST,), 1.5)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a process that knows nothing."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(folder))
    monkeypatch.delenv("MONOCOMP_SCHEDULES", raising=False)
    forget(monkeypatch)
    return folder


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know what a new process knows."""
    monkeypatch.setattr(schedules, "_given", {})
    monkeypatch.setattr(schedules, "_read", set())


def recalled(place: Situation, *, raced: bool = True) -> tuple[Schedule, ...] | None:
    """Return the schedules that are remembered of a situation."""
    entry = schedules.recall(place, raced=raced)
    return entry and entry.schedules


# --- the cache ------------------------------------------------------------------------------


def test_schedules_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process and in others, for this situation only."""
    schedules.remember(ENTRY)
    assert recalled(PLACE) == (FAST,)
    forget(monkeypatch)
    assert recalled(PLACE) == (FAST,)
    for other in (
        replace(PLACE, device="NVIDIA A100"),
        replace(PLACE, triton="3.7.1"),
        replace(PLACE, program="1" * 32),
        replace(PLACE, precision="tf32"),
        replace(PLACE, dtypes=(("K", "float16"), ("Q", "float16"))),
        replace(PLACE, sizes=(("k", 8192), ("q", 4096))),
    ):
        assert recalled(other) is None


def damages(data: bytes) -> Iterator[bytes]:
    """Ways in which a file may go wrong."""
    yield b""
    yield data[: len(data) // 2]
    yield data + b"x"
    yield b"null"
    yield b"[" * 100_000
    yield json.dumps({"content": {}, "digest": ""}).encode()
    for position in range(0, len(data), 7):
        yield data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def test_damaged_entries_count_as_absent(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut off, overwritten, or with any bit turned."""
    schedules.remember(ENTRY)
    forget(monkeypatch)
    (path,) = (cache / "schedules").glob("*.json")
    data = path.read_bytes()
    for damaged in damages(data):
        path.write_bytes(damaged)
        assert recalled(PLACE) is None
        assert schedules.save(cache / "all.json") == 0
    path.write_bytes(data)
    assert recalled(PLACE) == (FAST,)
    path.rename(path.with_name("0" * 32 + ".json"))  # in another entry's place
    assert recalled(PLACE) is None
    assert schedules.save(cache / "all.json") == 0


# --- files ----------------------------------------------------------------------------------


def test_schedules_are_shipped(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one machine has measured, another uses."""
    schedules.remember(ENTRY)
    path = tmp_path / "schedules.json"
    assert mc.schedules.save(path) == 1
    forget(monkeypatch)
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert recalled(PLACE) is None
    assert mc.schedules.load(path) == 1
    assert recalled(PLACE) == (FAST,)


def test_languages_that_were_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """And candidates that were refused come with the schedules, from the cache as well."""
    gluon = replace(FAST, num_warps=12, language="gluon")
    rivals, refused = {1: ((gluon, 1.5), (FAST, 2.0))}, ((0, f"{gluon}: does not fit"),)
    entry = Entry(PLACE, (FAST, gluon), 1.5, rivals=rivals, refused=refused)
    schedules.remember(entry)
    for _ in range(2):
        assert schedules.recall(PLACE) == entry
        forget(monkeypatch)


def test_races_count_where_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In this process, from the cache and from files; and a search takes their place."""
    schedules.remember(replace(ENTRY, raced=True))
    schedules.save(tmp_path / "file.json")
    for _ in range(2):
        assert recalled(PLACE) == (FAST,)
        assert recalled(PLACE, raced=False) is None
        forget(monkeypatch)
    schedules.load(tmp_path / "file.json")
    assert recalled(PLACE, raced=False) is None
    slow = replace(FAST, num_warps=8)
    schedules.remember(Entry(PLACE, (slow,), 1.4))
    assert recalled(PLACE, raced=False) == recalled(PLACE) == (slow,)


@pytest.mark.parametrize("text", [None, "", "{}", "[]", "[" * 100_000, '{"format": 2}'])
def test_a_file_that_is_none(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error where it is loaded; where the environment names it, a warning, once."""
    path = tmp_path / "schedules.json"
    if text is not None:
        path.write_text(text)
    message = "cannot read schedules from" if text is None else "holds no schedules"
    with pytest.raises(UsageError, match=message):
        schedules.load(path)
    if text is not None:
        with pytest.raises(UsageError, match=message):
            schedules.add(path, [ENTRY])
        assert path.read_text() == text
    monkeypatch.setenv("MONOCOMP_SCHEDULES", str(path))
    with pytest.warns(RuntimeWarning, match=message):
        assert recalled(PLACE) is None
    assert recalled(PLACE) is None


def test_files_grow(tmp_path: Path) -> None:
    """By what is new; what was measured again is replaced."""
    path = tmp_path / "schedules.json"
    assert schedules.add(path, [ENTRY]) == 1
    assert schedules.add(path, [replace(ENTRY, milliseconds=1.0)]) == 1
    assert schedules.add(path, [replace(ENTRY, situation=replace(PLACE, triton="4"))]) == 2
    assert [e["milliseconds"] for e in json.loads(path.read_text())["schedules"]] == [1.0, 1.5]
    assert os.listdir(tmp_path) == ["schedules.json"]
    with pytest.raises(UsageError, match=r"cannot write .*No such file"):
        schedules.add(tmp_path / "nowhere" / "schedules.json", [ENTRY])


GOOD = ENTRY.to_json()
WRONG = [
    None,
    3,
    {},
    {**GOOD, "device": 3},
    {**GOOD, "dtypes": None},
    {**GOOD, "dtypes": {"Q": 16}},
    {**GOOD, "sizes": {"q": "4096"}},
    {**GOOD, "sizes": {"q": 0}},
    {**GOOD, "milliseconds": None},
    {**GOOD, "schedules": None},
    {**GOOD, "schedules": 3},
    {**GOOD, "schedules": [{}]},
    {**GOOD, "schedules": [[1, 2]]},
    *(
        {**GOOD, "schedules": [{**FAST.to_json(), **wrong}]}
        for wrong in (
            {"num_warps": 3},
            {"num_warps": "4"},
            {"num_warps": 4.0},
            {"num_warps": True},
            {"num_stages": 0},
            {"num_stages": 9},
            {"programs": -1},
            {"programs": 1 << 40},
            {"blocks": None},
            {"blocks": {"q": 63, "k": 32}},
            {"blocks": {"q": 0, "k": 32}},
            {"blocks": {"q": 1 << 40, "k": 32}},
            {"descriptors": "yes"},
            {"unchained": "yes"},
            *({"group_size": n} for n in (0, -1, 3, LARGEST_GROUP * 2, 2.0, "2", True, None)),
            *({"registers": n} for n in (-8, 256, 128.0, "128", True, None)),
        )
    ),
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_entries_that_mean_nothing(wrong: object, tmp_path: Path) -> None:
    """Are left out; the others count."""
    path = tmp_path / "schedules.json"
    path.write_text(json.dumps({"format": 1, "schedules": [wrong, GOOD, wrong]}))
    assert schedules.load(path) == 1
    assert recalled(PLACE) == (FAST,)
