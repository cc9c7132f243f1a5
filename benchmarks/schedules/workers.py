"""Processes that do jobs one at a time, and may die or hang without harm to who asked.

Compilers crash, and a kernel's illegal access takes the whole process along. So jobs are done
elsewhere: who submits one gets its result, or learns that the worker failed, died or took too
long; a dead worker is replaced.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

Tell = Callable[[Any], None]
Job = Callable[..., Any]  # of `tell`, which passes on how far it has come, and its arguments
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Done:
    """What has become of a job.

    Attributes:
        key: that it was submitted with.
        result: what it returned, if it did.
        fault: why it did not.
        told: what it told last.
        died: has the worker died, or been ended because it took too long?
        seconds: that it took.
    """

    key: Any
    result: Any = None
    fault: str = ""
    told: Any = None
    died: bool = False
    seconds: float = 0.0


def _serve(pipe: Connection, setup: Job | None, arguments: Sequence[Any]) -> None:
    def tell(news: Any) -> None:
        pipe.send(("told", news))

    if setup is not None:
        setup(*arguments)
    while True:
        try:
            job, given = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            pipe.send(("done", job(tell, *given)))
        except KeyboardInterrupt:
            return
        except Exception as fault:
            first = next(iter(str(fault).strip().splitlines()), "")
            pipe.send(("failed", f"{type(fault).__name__}: {first}"[:300]))


class Worker:
    """A process that does one job at a time.

    Args:
        setup, arguments: called once in each process that does its jobs.
        limit: seconds that a job may take without telling anything.
    """

    def __init__(self, setup: Job | None, arguments: Sequence[Any], limit: float) -> None:
        self.setup = setup
        self.arguments = arguments
        self.limit = limit
        self.key: Any = None
        self._start()

    def _start(self) -> None:
        self.pipe, theirs = _SPAWN.Pipe()
        given = theirs, self.setup, self.arguments
        self.process = _SPAWN.Process(target=_serve, args=given, daemon=True)
        self.process.start()
        theirs.close()

    @property
    def is_free(self) -> bool:
        """Has it no job?"""
        return self.key is None

    def submit(self, key: Any, job: Job, *given: Any) -> None:
        """Do a job; `key` comes back with what has become of it."""
        self.key, self.told = key, None
        self.begun = self.heard = time.monotonic()
        self.pipe.send((job, given))

    def poll(self) -> Done | None:
        """What has become of the job, if something has."""
        try:
            while self.pipe.poll():
                what, content = self.pipe.recv()
                self.heard = time.monotonic()
                if what == "told":
                    self.told = content
                    continue
                return self._done(
                    **{"done": {"result": content}, "failed": {"fault": content}}[what]
                )
        except (EOFError, OSError):
            return self._replaced("died")
        if time.monotonic() - self.heard > self.limit:
            return self._replaced(f"took more than {self.limit:.0f} s")
        return None

    def _replaced(self, fault: str) -> Done:
        self.restart()
        return self._done(fault=fault, died=True)

    def _done(self, **what: Any) -> Done:
        found = Done(self.key, told=self.told, seconds=time.monotonic() - self.begun, **what)
        self.key = None
        return found

    def restart(self) -> None:
        """Go on with a new process."""
        self.stop()
        self._start()

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def finished(workers: Sequence[Worker], seconds: float) -> Iterator[Done]:
    """The jobs that are done, after some time at most if none is."""
    busy = [w for w in workers if not w.is_free]
    wait([w.pipe for w in busy], seconds)
    yield from (done for w in busy if (done := w.poll()) is not None)
