"""One thread at a time derives, lowers, emits and compiles.

Terms are shared between threads, and CPython 3.11 may fail to parse in two of them at once. Terms
are walked by functions that call themselves: what is nested deeper than these can go is refused.
Meanwhile the collector of cycles rests: what is built is made of many small objects that stay, and
to look through all that a process holds takes longer than to build a kernel.
"""

from __future__ import annotations

import gc
import threading
from types import TracebackType

from monocomp.errors import LimitError


class _Building:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.depth = 0  # how often the thread that holds the lock has entered
        self.collects = False  # without it

    def __enter__(self) -> None:
        self.lock.acquire()
        self.depth += 1
        if self.depth == 1:
            self.collects = gc.isenabled()
            gc.disable()

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self.depth -= 1
        if self.depth == 0 and self.collects:
            gc.enable()
        self.lock.release()
        if kind is RecursionError:
            raise LimitError(
                "the program is nested deeper than the compiler can follow, with its definitions "
                "written out",
                help="return some of the definitions, and read them as inputs of another program",
            ) from None


BUILDING = _Building()
