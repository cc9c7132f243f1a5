"""The standard streams: any of them may be closed, full, or have no reader."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import suppress
from typing import TextIO

from monocomp.errors import UsageError
from monocomp.machine.plain_files import require_writable, write

STANDARD_OUTPUT = (None, "-", "/dev/stdout")  # a file there is written on, not replaced


def prepare() -> None:
    """Make standard output UTF-8 whatever the locale, and open the streams that are closed.

    After `>&-` the next file to be opened would get the number of standard output, and what is
    said would land in it. As GNU's tools do, such a stream is opened in the wrong direction:
    its use is an error, as that of a closed one is.
    """
    for name, mode, wrong in (
        ("stdin", "r", os.O_WRONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_RDONLY),
    ):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, wrong)  # the lowest that is free
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def say(text: str = "") -> None:
    """Write all there is to standard output; a full disk is the caller's to know, no fault of
    ours."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard(sys.stdout)
        raise UsageError(f"cannot write to standard output: {error.strerror or error}") from None


def say_text(text: str) -> None:
    """Write lines to standard output; the last one ends."""
    say(text if text.endswith("\n") else text + "\n")


def deliver(path: str | None, text: str) -> None:
    """Write lines to a file, or to standard output."""
    if path in STANDARD_OUTPUT:
        say_text(text)
    else:
        write(path, (text if text.endswith("\n") else text + "\n").encode())


def require_output(path: str | None, *read: str) -> None:
    """Refuse a place for the output that cannot be written, or that is read, before any work."""
    if path is None or path in STANDARD_OUTPUT:
        return
    require_writable(path)
    for other in read:
        if os.path.isfile(path) and os.path.isfile(other) and os.path.samefile(path, other):
            raise UsageError(
                f"'{path}' is read, so the output cannot replace it",
                help="give the output the name of another file",
            )


def say_json(value: object) -> None:
    """Write a value for other tools to read."""
    say(json.dumps(value, indent=2) + "\n")


def tell(text: str) -> None:
    """Write a message to standard error; where that fails, the exit status says enough."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Send what a stream still holds nowhere: Python would try it once more at the end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
