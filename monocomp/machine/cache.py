"""A folder of small files that remember results between runs.

The folder is `$MONOCOMP_CACHE_DIR`, else `$XDG_CACHE_HOME/monocomp`, else
`~/.cache/monocomp`. What is remembered decides what the compiler believes, so a folder or
file that others own or may write is not read, and an entry that is damaged, or stands in
another entry's place, counts as absent. Remembering is never needed: where the folder
cannot be used, nothing is found in it, and what should be put there is a warning, once.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from monocomp.machine.plain_files import open_plain, replace

_FORMAT = 1  # of the envelope; other formats are ignored
_MOST_BYTES = 1 << 20
_warned: set[Path | None] = set()  # the cache folders that cannot be used


def cache_folder() -> Path | None:
    """Return the folder of everything that is remembered, or None where there is no such place."""
    named = os.environ.get("MONOCOMP_CACHE_DIR")
    if named:
        return Path(named)
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared and os.path.isabs(shared):  # the standard says to ignore relative paths
        return Path(shared) / "monocomp"
    try:
        return Path.home() / ".cache" / "monocomp"
    except RuntimeError:  # nobody's home
        return None


class _Store:
    """Files of one kind, in a folder of their own.

    Args:
        name: the folder's name inside the cache.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def _put(self, file: str, data: bytes) -> Path | None:
        """Write a file, if that is possible, and tell its path."""
        try:
            with self._open_folder(create=True) as (folder, path):
                replace(file, data, 0o600, folder)
                return path / file
        except OSError as error:
            _warn(error)
            return None

    @contextmanager
    def _open_folder(self, create: bool = False) -> Iterator[tuple[int, Path]]:
        """Yield the folder as a descriptor, so that nobody can exchange it after it was checked,
        and its path."""
        root = cache_folder()
        if root is None:
            raise FileNotFoundError("there is no home directory")
        path = root / self.name
        if create:
            root.parent.mkdir(parents=True, exist_ok=True)
            for folder in (root, path):
                with suppress(FileExistsError):
                    os.mkdir(folder, mode=0o700)
        outer = _private_folder(str(root), None)
        try:
            inner = _private_folder(self.name, outer)
        finally:
            os.close(outer)
        try:
            yield inner, path
        finally:
            os.close(inner)


class JsonStore(_Store):
    """Results by key."""

    def get(self, key: str) -> dict[str, Any] | None:
        """Return what was put under this key, or None."""
        try:
            with self._open_folder() as (folder, _):
                text = _read(folder, _file_name(key))
        except OSError:
            return None
        return _open_envelope(key, text)

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Remember a value, if that is possible."""
        value = json.loads(json.dumps(value))  # as it will be read: names are texts
        data = json.dumps({"content": _content(key, value), "digest": _digest(key, value)})
        self._put(_file_name(key), data.encode())

    def values(self) -> Iterator[dict[str, Any]]:
        """Return everything that was put, except what is damaged."""
        texts = {}
        with suppress(OSError), self._open_folder() as (folder, _):
            for name in sorted(os.listdir(folder)):
                with suppress(OSError):
                    texts[name] = _read(folder, name)
        for name, text in texts.items():
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                key = json.loads(text)["content"]["key"]
                value = _open_envelope(key, text) if _file_name(key) == name else None
                if value is not None:
                    yield value


class TextStore(_Store):
    """Texts that others read, by the path of a file."""

    def place(self, name: str, text: str) -> Path | None:
        """Return a file of this name that holds this text, or None where there can be none."""
        data = text.encode()
        with suppress(OSError), self._open_folder() as (folder, path):
            if _read(folder, name) == data:
                return path / name
        return self._put(name, data)


def _warn(error: OSError) -> None:
    root = cache_folder()
    if root in _warned:
        return
    _warned.add(root)
    where = "" if root is None else f" '{root}'"
    warnings.warn(
        f"cannot write to the cache folder{where}: {error.strerror or error}; "
        "MONOCOMP_CACHE_DIR can name another",
        RuntimeWarning,
        stacklevel=2,
    )


def _content(key: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"format": _FORMAT, "key": key, "value": value}


def _digest(key: str, value: dict[str, Any]) -> str:
    text = json.dumps(_content(key, value), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _file_name(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest() + ".json"


def _open_envelope(key: str, text: bytes) -> dict[str, Any] | None:
    """Return the value, if the text is whole, of this format, and was written for this key."""
    try:
        envelope = json.loads(text)
        value = envelope["content"]["value"]
        if not isinstance(value, dict) or envelope["content"] != _content(key, value):
            return None
        return value if envelope["digest"] == _digest(key, value) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _check_private(status: os.stat_result) -> None:
    """Require that nobody else can have written a file."""
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError("others may write here")


def _private_folder(path: str, inside: int | None) -> int:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=inside)
    try:
        _check_private(os.fstat(folder))
    except OSError:
        os.close(folder)
        raise
    return folder


def _read(folder: int, name: str) -> bytes:
    with open_plain(name, folder) as file:
        status = os.fstat(file.fileno())
        _check_private(status)
        if status.st_size > _MOST_BYTES:
            raise OSError("not an entry")
        return file.read()
