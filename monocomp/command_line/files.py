"""Read programs and arrays for the command line, from files, pipes and standard input.

A program's text may come from anywhere, so reading stops at the compiler's limit.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

from monocomp import library
from monocomp.backends.dialects import DIALECTS
from monocomp.declarations.record import record
from monocomp.errors import LimitError, UnsupportedDtypeError, UsageError, did_you_mean, shorten
from monocomp.language.mistakes import MAX_BYTES

if TYPE_CHECKING:
    import numpy as np

_MAX_NAME = 64


@record()
class Source:
    """A program's text and the name that its kernel gets, if it has one."""

    text: str
    name: str | None


# Programs


def read_program(argument: str) -> Source:
    """Return a program from a file, from the library, from standard input (`-`), or as written.

    What is no file and has an `=` is taken for the program itself.
    """
    if argument == "-":
        return Source(_text(sys.stdin.buffer, "standard input"), None)
    if os.path.exists(argument) and not os.path.isdir(argument):
        is_named = os.path.isfile(argument)  # pipes are not, such as /dev/fd/63
        stem = os.path.splitext(os.path.basename(argument))[0]
        with _reading(f"'{argument}'"), open(argument, "rb") as file:
            return Source(_text(file, f"'{argument}'"), _as_name(stem) if is_named else None)
    if argument in library.names():
        return Source(library.load(argument), argument)
    if "=" in argument or "\n" in argument or not argument.strip():
        return Source(argument, None)
    raise _no_program(argument)


def _no_program(argument: str) -> UsageError:
    names = library.names()
    shown = shorten(argument)
    if os.path.isdir(argument):
        return UsageError(f"'{shown}' is a directory", help="name a file in it")
    if re.search(r"[][(){}|*+ ]", argument):
        return UsageError(
            f"'{shown}' is no program: it defines nothing",
            help="a program has a left side, such as O[i] = 2 * A[i]",
        )
    stem = os.path.splitext(os.path.basename(argument))[0]
    return UsageError(
        f"'{shown}' is neither a file nor a program of the library",
        help=did_you_mean(stem, names) or "monocomp list",
    )


def _text(file: IO[Any], what: str) -> str:
    data, part = b"", None
    with _reading(what):
        while part != b"" and len(data) <= MAX_BYTES:
            part = file.read(MAX_BYTES + 1 - len(data))
            if part is None:  # a pipe that does not wait for its writer
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            data += part
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
    """Return a file's name as a name for its kernel."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", stem).strip("_")[:_MAX_NAME]
    return name if re.match(r"[A-Za-z]", name) else None


@contextlib.contextmanager
def _reading(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot read {what}: {error.strerror or error}") from None


# Arrays


def read_array(path: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the array of a .npy file; one that holds Python objects is refused."""
    from zipfile import BadZipFile

    import numpy as np

    with _reading(f"'{path}'"):
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


def tensors(
    arrays: Mapping[str, Any], dtypes: Mapping[str, str | None], backend: str
) -> dict[str, Any]:
    """Return arrays as tensors, on the GPU where there is one and the backend can use it."""
    import torch

    on_gpu = (backend == "auto" or backend in DIALECTS) and torch.cuda.is_available()
    device = "cuda" if on_gpu else "cpu"
    tensors = {}
    for name, array in arrays.items():
        try:
            tensor = torch.from_numpy(array)
        except (TypeError, ValueError):
            raise UnsupportedDtypeError(
                f"input '{name}' has dtype {array.dtype}",
                notes=("accepted: floats of 16, 32 and 64 bits, integers, bool",),
            ) from None
        dtype = dtypes.get(name)
        if dtype is not None and tensor.is_floating_point():
            tensor = tensor.to(getattr(torch, dtype))
        tensors[name] = tensor.to(device)
    return tensors
