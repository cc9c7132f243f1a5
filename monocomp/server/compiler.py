"""A process that compiles, for a page on which somebody types.

One request is compiled at a time. One that waits gives way to a newer one, and one that is being
compiled while a newer one waits has little time left. What takes too long, or ends the process,
costs that process and nothing else.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import threading
import time
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from monocomp.server.answers import Answer, Request, answer

SECONDS, PATIENCE = 60.0, 2.0
_STEP = 0.02  # seconds between looks at what has changed
_YOUNG = 100_000  # objects after which cycles are looked for: most compilations make fewer


class Compiler:
    """Answers requests in a process of its own, the newest first.

    Args:
        seconds: how long a request may take.
        patience: how long it may take while a newer one waits.
    """

    def __init__(self, seconds: float = SECONDS, patience: float = PATIENCE) -> None:
        self.seconds, self.patience = seconds, patience
        self._changed = threading.Condition()
        self._newest = 0
        self._is_busy = False
        self._is_ready = False
        self._start()

    def answer(self, request: Request) -> Answer | None:
        """Return the answer to a request; None if a newer one has taken its place."""
        with self._changed:
            self._newest += 1
            number = self._newest
            self._changed.notify_all()
            while self._is_busy and number == self._newest:
                self._changed.wait()
            if number != self._newest:
                return None
            self._is_busy = True
        try:
            return self._compiled(request, number)
        finally:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()

    def _start(self) -> None:
        """Begin a process, which says once that it is ready."""
        context = multiprocessing.get_context("spawn")  # threads and a fork do not go together
        self.connection, its_end = context.Pipe()
        self.process: BaseProcess = context.Process(target=work, args=(its_end,), daemon=True)
        self.process.start()
        its_end.close()
        self._is_ready = False

    def _compiled(self, request: Request, number: int) -> Answer | None:
        try:
            if not self._is_ready:
                self.connection.recv()
                self._is_ready = True
            if number != self._newest:
                return None
            self.connection.send(request)
            begin = time.monotonic()
            while not self.connection.poll(_STEP):
                took = time.monotonic() - begin
                if took > self.seconds:
                    self._restart()
                    return Answer(error=f"Stopped: this program takes over {self.seconds:g} s.")
                if number != self._newest and took > self.patience:
                    self._restart()
                    return None
            answer: Answer = self.connection.recv()
            return answer
        except (EOFError, OSError):
            self._restart()
            return Answer(error="Stopped: the process that compiles has ended.")

    def _restart(self) -> None:
        self.close()
        self._start()


def work(connection: Connection) -> None:
    """Answer what comes, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's, which ends this
    gc.set_threshold(_YOUNG)
    answer(Request("O[q] = softmax[k](S[q,k]) * V[k]"))  # loads what others need
    connection.send(None)
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        connection.send(answer(request))
