"""Schedules that were measured: remembered between runs, and shipped as JSON.

What a search finds holds for one device, one version of Triton, one program, its dtypes, and
sizes like these. It is remembered in the cache, and can be written to a file and read again
elsewhere: `save` and `load`, or the environment variable MONOCOMP_SCHEDULES, which names a file.
Whatever is read is checked: an entry that is damaged counts as absent, and a schedule can only
choose how a kernel runs, never what it computes.
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from monocomp.backends.schedules.schedule import Schedule
from monocomp.declarations.record import record
from monocomp.errors import UsageError
from monocomp.machine.cache import JsonStore
from monocomp.machine.plain_files import open_plain, require_writable, write

Rivals: TypeAlias = tuple[tuple[Schedule, float], ...]  # the best in each language, milliseconds
Refused: TypeAlias = tuple[int, str]  # a kernel's number; a schedule that was not timed, and why

_FORMAT = 1
_MOST_BYTES = 1 << 26
_STORE = JsonStore("schedules")
_LOCK = threading.Lock()
_given: dict[Situation, Entry] = {}  # what was loaded from files, or measured in this process
_read: set[str] = set()  # the files that MONOCOMP_SCHEDULES has named


@dataclass(frozen=True, order=True)
class Situation:
    """The situation that a schedule was measured in.

    Attributes:
        device: the GPU's name.
        triton: the version of Triton.
        program: a digest of the kernels.
        precision: of products of float32, "ieee" or "tf32".
        dtypes: of the inputs.
        sizes: the extents, each rounded up to a power of two.

    Pairs are in the order of their names.
    """

    device: str
    triton: str
    program: str
    precision: str
    dtypes: tuple[tuple[str, str], ...]
    sizes: tuple[tuple[str, int], ...]

    @property
    def key(self) -> str:
        """Return the situation as text."""
        return json.dumps(self.to_json(), sort_keys=True)

    def to_json(self) -> dict[str, Any]:
        """Return the situation as plain data."""
        return {**asdict(self), "dtypes": dict(self.dtypes), "sizes": dict(self.sizes)}


@record()
class Entry:
    """A situation, the schedules of its kernels, and what a call took with them.

    Attributes:
        raced: are they the best of a race alone, which a search would go beyond?
        rivals: of kernels, by number, the best schedule in each language and what a call takes with
            it, where there are several.
        refused: the candidates that were not timed.
    """

    situation: Situation
    schedules: tuple[Schedule, ...]
    milliseconds: float
    raced: bool = False
    rivals: Mapping[int, Rivals] = field(default_factory=dict)
    refused: tuple[Refused, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the entry as plain data."""
        schedules = [s.to_json() for s in self.schedules]
        return {
            **self.situation.to_json(),
            "schedules": schedules,
            "milliseconds": self.milliseconds,
            "raced": self.raced,
            "rivals": {
                str(n): [[s.to_json(), time] for s, time in each] for n, each in self.rivals.items()
            },
            "refused": [*map(list, self.refused)],
        }

    @staticmethod
    def from_json(data: Any) -> Entry:
        """Make an entry of plain data; raises ValueError, TypeError, KeyError or AttributeError if
        it is no entry."""
        texts = [data[n] for n in ("device", "triton", "program", "precision")]
        dtypes, sizes = data["dtypes"].items(), data["sizes"].items()
        if not all(type(x) is str for x in (*texts, *(d for _, d in dtypes))):
            raise TypeError("names are text")
        if not all(type(n) is int and n > 0 for _, n in sizes):
            raise TypeError("sizes are whole numbers")
        device, triton, program, precision = texts
        situation = Situation(
            device, triton, program, precision, tuple(sorted(dtypes)), tuple(sorted(sizes))
        )
        schedules = tuple(Schedule.from_json(s) for s in data["schedules"])
        milliseconds, raced = float(data["milliseconds"]), data.get("raced", False) is True
        rivals = {
            int(n): tuple((Schedule.from_json(s), float(time)) for s, time in each)
            for n, each in data.get("rivals", {}).items()
        }
        refused = tuple((int(n), str(text)) for n, text in data.get("refused", ()))
        return Entry(situation, schedules, milliseconds, raced, rivals, refused)


def recall(situation: Situation, *, raced: bool = True) -> Entry | None:
    """Return what is remembered of a situation, or None; what is from files comes before what is
    in the cache. What races have found counts only if `raced`."""
    _read_named()
    entry = _given.get(situation)
    if entry is None:
        entries = _valid([_STORE.get(situation.key)])
        entry = next((e for e in entries if e.situation == situation), None)
    return None if entry is None or (entry.raced and not raced) else entry


def remember(entry: Entry) -> None:
    """Remember what was measured, in this process and in the cache."""
    with _LOCK:
        _given[entry.situation] = entry
    _STORE.put(entry.situation.key, entry.to_json())


def load(path: str | os.PathLike[str]) -> int:
    """Use the schedules of a file in this process, from the next kernel on.

    Args:
        path: a file that `save` or `monocomp tune` has written.

    Returns:
        How many schedules it holds; damaged ones do not count.

    Raises:
        UsageError: the file cannot be read, or holds no schedules.
    """
    entries = _entries_of(Path(path))
    with _LOCK:
        _given.update((e.situation, e) for e in entries)
    return len(entries)


def save(path: str | os.PathLike[str]) -> int:
    """Write all schedules that are remembered, here and in the cache, to a file.

    Returns:
        How many there are.

    Raises:
        UsageError: the file cannot be written.
    """
    cached = {e.situation: e for e in _valid(_STORE.values())}
    return _write(Path(path), {**cached, **_given}.values())


def add(path: str | os.PathLike[str], entries: Iterable[Entry]) -> int:
    """Write schedules to a file, beside those that it holds for other situations.

    Returns:
        How many it holds.

    Raises:
        UsageError: the file cannot be written, or is something else.
    """
    held = _entries_of(Path(path)) if os.path.exists(path) else []
    merged = {e.situation: e for e in (*held, *entries)}
    return _write(Path(path), merged.values())


def require_file(path: str | os.PathLike[str]) -> None:
    """Raise before a search what `add` would raise after it."""
    if os.path.exists(path):
        _entries_of(Path(path))
    require_writable(path)


def _read_named() -> None:
    """Read the file that the environment names, once."""
    named = os.environ.get("MONOCOMP_SCHEDULES")
    if not named or named in _read:
        return
    _read.add(named)
    try:
        entries = _entries_of(Path(named))
    except UsageError as fault:  # kernels run without
        warnings.warn(f"MONOCOMP_SCHEDULES: {fault.message}", RuntimeWarning, stacklevel=2)
        return
    with _LOCK:
        for e in entries:
            _given.setdefault(e.situation, e)


def _entries_of(path: Path) -> list[Entry]:
    try:
        with open_plain(path) as file:
            text = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or fault
        raise UsageError(f"cannot read schedules from '{path}': {reason}") from None
    try:
        if len(text) > _MOST_BYTES:
            raise ValueError
        data = json.loads(text)
        if data["format"] != _FORMAT or not isinstance(data["schedules"], list):
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(
            f"'{path}' holds no schedules",
            help="`monocomp tune PROGRAM -o FILE` and `mc.schedules.save` write such files",
        ) from None
    return _valid(data["schedules"])


def _valid(found: Iterable[Any]) -> list[Entry]:
    entries = []
    for data in found:
        try:
            entries.append(Entry.from_json(data))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            continue
    return entries


def _write(path: Path, entries: Iterable[Entry]) -> int:
    data: list[Mapping[str, Any]] = [
        e.to_json() for e in sorted(entries, key=lambda e: e.situation)
    ]
    text = json.dumps({"format": _FORMAT, "schedules": data}, indent=1) + "\n"
    write(path, text.encode())
    return len(data)
