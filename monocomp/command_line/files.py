"""What the command line reads and writes: programs, arrays, and files that are whole or absent.

A program's text may come from anywhere, so reading stops at the compiler's limit. A file is
written beside its place under another name and then moved there in one step, so that an
error leaves what was there before, and a reader never sees half a file.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from monocomp import library
from monocomp.errors import LimitError, UsageError, nearest

if TYPE_CHECKING:
    import numpy as np

MAX_BYTES = 64 * 1024
_MAX_NAME = 64


@dataclass(frozen=True)
class Source:
    """A program's text and the name that its kernel gets, if it has one."""

    text: str
    name: str | None


# Programs


def read_program(argument: str) -> Source:
    """A program from a file, from the library, from standard input (`-`), or as written.

    What is no file and has an `=` is taken for the program itself.
    """
    if argument == "-":
        return Source(_text(sys.stdin.buffer, "standard input"), None)
    if os.path.isfile(argument):
        stem = os.path.splitext(os.path.basename(argument))[0]
        with _reading(argument), open(argument, "rb") as file:
            return Source(_text(file, f"'{argument}'"), _as_name(stem))
    if argument in library.names():
        return Source(library.load(argument), argument)
    if "=" in argument or "\n" in argument or not argument.strip():
        return Source(argument, None)
    raise _no_program(argument)


def _no_program(argument: str) -> UsageError:
    names = library.names()
    shown = argument if len(argument) <= 60 else argument[:57] + "..."
    if os.path.isdir(argument):
        return UsageError(f"'{shown}' is a directory", help="name a file in it")
    if re.search(r"[][(){}|*+ ]", argument):
        return UsageError(
            f"'{shown}' is no program: it defines nothing",
            help="a program has a left side, such as O[i] = 2 * A[i]",
        )
    stem = os.path.splitext(os.path.basename(argument))[0]
    near = nearest(stem, names)
    return UsageError(
        f"'{shown}' is neither a file nor a program of the library",
        notes=(f"library: {', '.join(names)}",),
        help=f"did you mean '{near}'?" if near else None,
    )


def _text(file: BinaryIO, what: str) -> str:
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise LimitError(f"{what} is longer than {MAX_BYTES} bytes, the most a program may have")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{what} is not text: byte {error.start} (line {line}) is no UTF-8",
            help="save the program as UTF-8",
        ) from None
    return text.replace("\r\n", "\n")


def _as_name(stem: str) -> str | None:
    """A file's name as a name for its kernel."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", stem).strip("_")[:_MAX_NAME]
    return name if re.match(r"[A-Za-z]", name) else None


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {error.strerror or error}") from None


# Arrays


def read_array(path: str) -> np.ndarray[Any, np.dtype[Any]]:
    """The array of a .npy file; one that holds Python objects is refused."""
    from zipfile import BadZipFile

    import numpy as np

    with _reading(path):
        try:
            array = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, BadZipFile) as error:
            problem = str(error).partition("\n")[0]
        else:
            if isinstance(array, np.ndarray):
                return array
            array.close()
            problem = "it holds several arrays"
    raise UsageError(
        f"'{path}' is no .npy file with one array: {problem}",
        help="write it with numpy.save(path, array)",
    )


# Writing


def write(path: str, data: str | bytes) -> None:
    """Write a file, or raise a `UsageError` and leave what was there."""
    content = data.encode("utf-8") if isinstance(data, str) else data
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            if os.path.isdir(target):
                raise IsADirectoryError(0, "it is a directory")
            with open(target, "wb") as file:  # a device or a pipe is not replaced
                file.write(content)
        else:
            _replace(target, content)
    except OSError as error:
        folder = os.path.dirname(target)
        raise UsageError(
            f"cannot write '{path}': {error.strerror or error}",
            help=None if os.path.isdir(folder) else f"make the directory first: mkdir -p {folder}",
        ) from None


def _replace(target: str, content: bytes) -> None:
    mode = 0o666  # less what the umask takes
    if os.path.exists(target):
        mode = stat.S_IMODE(os.stat(target).st_mode)
        if not os.access(target, os.W_OK):
            raise PermissionError(0, "it is write-protected")
    beside = os.path.join(os.path.dirname(target), f".monocomp-{secrets.token_hex(8)}.tmp")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
