"""A folder of small JSON files that remember results between runs.

The folder is `$MONOCOMP_CACHE_DIR`, else `$XDG_CACHE_HOME/monocomp`, else
`~/.cache/monocomp`. What is remembered decides what the compiler believes, so a folder or
file that others own or may write is not read, and an entry that is damaged, or stands in
another entry's place, counts as absent. Remembering is never needed: where the folder
cannot be used, `get` finds nothing and `put` does nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_FORMAT = 1  # of the envelope; other formats are ignored
_MOST_BYTES = 1 << 20


def cache_folder() -> Path | None:
    """Where everything is remembered, or None where there is no such place."""
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


class JsonStore:
    """Results of one kind, in a folder of their own.

    Args:
        name: the folder's name inside the cache.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def get(self, key: str) -> dict[str, Any] | None:
        """What was put under this key, or None."""
        try:
            with self._open_folder() as folder:
                text = _read(folder, _file_name(key))
        except OSError:
            return None
        return _open_envelope(key, text)

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Remember a value, if that is possible."""
        data = json.dumps({"content": _content(key, value), "digest": _digest(key, value)})
        with suppress(OSError), self._open_folder(create=True) as folder:
            _write(folder, _file_name(key), data.encode())

    def values(self) -> Iterator[dict[str, Any]]:
        """Everything that was put, but for what is damaged."""
        texts = {}
        with suppress(OSError), self._open_folder() as folder:
            for name in sorted(os.listdir(folder)):
                with suppress(OSError):
                    texts[name] = _read(folder, name)
        for name, text in texts.items():
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                key = json.loads(text)["content"]["key"]
                value = _open_envelope(key, text) if _file_name(key) == name else None
                if value is not None:
                    yield value

    @contextmanager
    def _open_folder(self, create: bool = False) -> Iterator[int]:
        """The folder as a descriptor, so that nobody can exchange it after it was checked."""
        root = cache_folder()
        if root is None:
            raise FileNotFoundError("no cache folder")
        if create:
            root.parent.mkdir(parents=True, exist_ok=True)
            for path in (root, root / self.name):
                with suppress(FileExistsError):
                    os.mkdir(path, mode=0o700)
        outer = _private_folder(str(root), None)
        try:
            inner = _private_folder(self.name, outer)
        finally:
            os.close(outer)
        try:
            yield inner
        finally:
            os.close(inner)


def _content(key: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"format": _FORMAT, "key": key, "value": value}


def _digest(key: str, value: dict[str, Any]) -> str:
    text = json.dumps(_content(key, value), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _file_name(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest() + ".json"


def _open_envelope(key: str, text: bytes) -> dict[str, Any] | None:
    """The value, if the text is whole, of this format, and was written for this key."""
    try:
        envelope = json.loads(text)
        value = envelope["content"]["value"]
        if not isinstance(value, dict) or envelope["content"] != _content(key, value):
            return None
        return value if envelope["digest"] == _digest(key, value) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _check_private(status: os.stat_result) -> None:
    """Nobody else can have written it."""
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
    # A pipe or device in the file's place must not block: O_NONBLOCK, then look.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(name, flags, dir_fd=folder), "rb") as file:
        status = os.fstat(file.fileno())
        _check_private(status)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            raise OSError("not an entry")
        return file.read()


def _write(folder: int, name: str, data: bytes) -> None:
    """Write a file at once: a reader sees the old entry or the new one, never a part."""
    temporary = f".{name}.{os.getpid()}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
