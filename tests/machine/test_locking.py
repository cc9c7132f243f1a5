"""Properties that are built by one thread at a time."""

from __future__ import annotations

import threading
import time

from monocomp.machine.locking import BUILDING, built


class Slow:
    """A value that takes until another thread asks for it."""

    count = 0

    def __init__(self) -> None:
        self.begun, self.asked = threading.Event(), threading.Event()

    @built
    def value(self) -> int:
        """Return how often it was built."""
        self.begun.set()
        self.asked.wait(5)
        time.sleep(0.1)  # until the other thread waits
        with BUILDING:
            self.count += 1
            return self.count


def test_a_property_is_built_once_and_waits_for_no_thread_that_waits_for_it() -> None:
    """Neither for one that builds something else when it asks for the property."""
    slow, known = Slow(), list[int]()

    def ask() -> None:
        slow.begun.wait(5)
        slow.asked.set()
        with BUILDING:
            known.append(slow.value)

    def build() -> None:
        known.append(slow.value)

    threads = [threading.Thread(target=f, daemon=True) for f in (ask, build)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert known == [1, 1]
