"""Plain files: read without waiting, written whole or not at all.

A file is written beside its place under another name and then moved there in one step, so
that an error leaves what was there before and nothing else, and a reader never sees a part.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import BinaryIO

from monocomp.errors import UsageError


def open_plain(path: str | os.PathLike[str], folder: int | None = None) -> BinaryIO:
    """Open a plain file to read it.

    Args:
        path: its path.
        folder: a descriptor of the folder that it is in; then links are not followed.

    Raises:
        OSError: there is none, or something else stands in its place.
    """
    # A pipe or device in the file's place must not block: O_NONBLOCK, then look.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    if folder is not None:
        flags |= os.O_NOFOLLOW
    handle = os.open(path, flags, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no plain file")
    return os.fdopen(handle, "rb")


def replace(
    path: str,
    data: bytes,
    mode: int,
    folder: int | None = None,
    old: os.stat_result | None = None,
) -> None:
    """Put a file in its place.

    Args:
        path: where; a link there is replaced, not followed.
        data: what it is to hold.
        mode: its permissions, less what the umask takes.
        folder: a descriptor of the folder that a relative path starts from.
        old: the file that it replaces, whose owner and permissions it takes over.
    """
    beside = os.path.join(os.path.dirname(path), f".monocomp-{os.urandom(8).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(beside, flags, mode, dir_fd=folder), "wb") as file:
            if old is not None:
                _take_over(file.fileno(), old)
            file.write(data)
        os.replace(beside, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise


def _take_over(handle: int, old: os.stat_result) -> None:
    with suppress(OSError):  # not everybody may give files away, and not every disk has owners
        os.fchown(handle, old.st_uid, old.st_gid)
    with suppress(OSError):
        os.fchmod(handle, stat.S_IMODE(old.st_mode) & 0o777)


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file where the user wants it, or raise a `UsageError` and leave what was there.

    As with `cp`, a link is followed, and what a pipe or device is given is written to it.
    """
    try:
        old = _writable(path)
        if old is None or stat.S_ISREG(old.st_mode):
            replace(os.path.realpath(path), data, 0o666, old=old)
        else:
            with open(path, "wb") as file:
                file.write(data)
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from None


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise the `UsageError` of a later `write` now, as far as it can be foreseen."""
    try:
        folder = os.path.dirname(os.path.realpath(path))
        if _writable(path) is None and not os.access(folder, os.W_OK | os.X_OK):
            number = errno.EACCES if os.path.isdir(folder) else errno.ENOENT
            raise OSError(number, os.strerror(number))
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from None


def _writable(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return the status of a file that is to be written or replaced; None if there is none, or only
    a link to nothing."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        if not os.path.basename(path):
            raise IsADirectoryError(errno.EISDIR, "it names no file") from None
        return None
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory")
    if stat.S_ISREG(old.st_mode) and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "it is write-protected")
    return old


def _cannot_write(path: str | os.PathLike[str], error: OSError | ValueError) -> UsageError:
    folder = os.path.dirname(os.path.realpath(path)) if isinstance(error, OSError) else ""
    is_missing = isinstance(error, FileNotFoundError) and not os.path.isdir(folder)
    return UsageError(
        f"cannot write '{os.fspath(path)}': {getattr(error, 'strerror', None) or error}",
        help=f"make the directory first: mkdir -p {folder}" if is_missing else None,
    )
