"""Show how far a search has come, in one line on standard error.

In a terminal the line is written over; elsewhere there is a new one every few seconds.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from monocomp.command_line import streams

_WIDTH = 24
_PAUSE = 5.0  # seconds between lines where they can't be written over


class Progress:
    """Reports steps until it is closed.

    Args:
        stream: where to; standard error, unless given.
        clock: the time, in seconds.
    """

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.stream = stream or sys.stderr
        self.clock = clock
        self.begin = clock()
        self.last: float | None = None
        self.overwrites = self.stream.isatty()
        self.width = 0

    def __call__(self, what: str, number: int, count: int) -> None:
        """Say that the step with this number has begun."""
        now = self.clock()
        if not self.overwrites and self.last is not None and now < self.last + _PAUSE:
            return
        self.last = now
        done = _WIDTH * number // max(1, count)
        bar = "#" * done + "." * (_WIDTH - done)
        self._write(f"[{bar}] {what} {number} of {count}, {now - self.begin:.0f} s")

    def tell(self, what: str) -> None:
        """Say what has been done, in a terminal; elsewhere results tell enough."""
        if self.overwrites:
            self._write(f"{what}, {self.clock() - self.begin:.0f} s")

    def clear(self) -> None:
        """Take the line away, for another one."""
        if self.overwrites and self.width:
            self._write("")
            with contextlib.suppress(OSError, ValueError):
                self.stream.write("\r")
                self.stream.flush()

    def _write(self, line: str) -> None:
        try:
            if self.overwrites:
                self.stream.write("\r" + line.ljust(self.width))
            else:
                self.stream.write(line + "\n")
            self.stream.flush()
        except (OSError, ValueError):  # nobody reads it
            streams.discard(self.stream)
        self.width = len(line)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()
