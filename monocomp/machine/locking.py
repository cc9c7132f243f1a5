"""One thread at a time derives, lowers, emits and compiles.

Terms are shared between threads, and CPython 3.11 may fail to parse in two of them at once. Terms
are walked by functions that call themselves: what is nested deeper than these can go is refused.
"""

from __future__ import annotations

import threading
from types import TracebackType

from monocomp.errors import LimitError


class _Building:
    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self.lock.release()
        if kind is RecursionError:
            raise LimitError(
                "the program is nested deeper than the compiler can follow, with its definitions "
                "written out",
                help="return some of the definitions, and read them as inputs of another program",
            ) from None


BUILDING = _Building()
