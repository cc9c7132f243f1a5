"""One thread at a time derives, lowers, emits and compiles.

Terms are shared between threads, and CPython 3.11 may fail to parse in two of them at once. Terms
are walked by functions that call themselves: what is nested deeper than these can go is refused.
Meanwhile the collector of cycles rests: what is built is made of many small objects that stay, and
to look through all that a process holds takes longer than to build a kernel.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

from monocomp.errors import LimitError

_T = TypeVar("_T")


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


class built(Generic[_T]):
    """A property that is built once, by the thread that builds (decorator).

    `cached_property` has a lock of its own before Python 3.12, which one thread may hold while it
    waits for `BUILDING`, and another one wait for while it builds.
    """

    def __init__(self, build: Callable[[Any], _T]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    def __set_name__(self, _: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, own: None, _: type) -> built[_T]: ...

    @overload
    def __get__(self, own: object, _: type) -> _T: ...

    def __get__(self, own: object, _: type) -> Any:
        if own is None:
            return self
        with BUILDING:
            known = vars(own)  # which is looked at first, once this is there
            if self.name not in known:
                known[self.name] = self.build(own)
            return known[self.name]
