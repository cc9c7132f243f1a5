"""Threads that do numbered work side by side."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable


def faults_of(work: Callable[[int], object], count: int = 8) -> list[str]:
    """Return the faults of threads that begin together, and give way to one another often."""
    faults: list[str] = []
    start, interval = threading.Barrier(count), sys.getswitchinterval()

    def begin(number: int) -> None:
        start.wait()
        try:
            work(number)
        except Exception as fault:
            faults.append(repr(fault))

    threads = [threading.Thread(target=begin, args=(n,)) for n in range(count)]
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    return faults
