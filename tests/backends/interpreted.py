"""Calls functions in a process of its own, in which Triton interprets kernels on the CPU.

Triton decides when it is imported whether kernels are compiled or interpreted, so one process
cannot do both. The process starts with the first call, and serves one call at a time:

    call(function, *args, **kwargs)
    run_file(path)

`function` must be importable, and what goes in and out is pickled: torch tensors keep their
storage and strides. An exception comes back as itself.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import pickle
import runpy
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import pytest
import torch

Result = TypeVar("Result")
FLOATS_OF_8_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)
ROOT = Path(__file__).parents[2]
_LOCK = threading.Lock()
_PROCESS: list[subprocess.Popen[bytes]] = []


def require_interpreter() -> None:
    """Skip where Triton's interpreter is known to fail."""
    import numpy as np

    triton = pytest.importorskip("triton")
    of_triton, of_numpy = (
        tuple(map(int, module.__version__.split(".")[:2])) for module in (triton, np)
    )
    if of_triton < (3, 7) and of_numpy >= (2, 4):
        pytest.skip("Triton before 3.7 cannot interpret loops with NumPy 2.4 or later")


def environment() -> dict[str, str]:
    """The environment of a process in which Triton interprets."""
    return {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore"}


def call(function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """The function's result in the interpreting process."""
    require_interpreter()
    with _LOCK:
        process = _process()
        assert process.stdin is not None and process.stdout is not None
        try:
            _send(process.stdin, (function, args, kwargs))
            done, result = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError):
            _PROCESS.clear()
            raise RuntimeError(f"the interpreting process died: {process.wait()}") from None
    if not done:
        raise result
    return result  # type: ignore[no-any-return]


def run_file(path: Path) -> tuple[int, str, str]:
    """Run a script as `python path` does, but in the interpreting process, which has imported torch
    and Triton; its exit status, and what it prints on standard output and error."""
    return call(_run_file, str(path))


def _run_file(path: str) -> tuple[int, str, str]:
    out, err, status = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
            print(end.code if isinstance(end.code, str) else "", end="", file=err)
        except Exception:
            traceback.print_exc()
            status = 1
    return status, out.getvalue(), err.getvalue()


def _process() -> subprocess.Popen[bytes]:
    if not _PROCESS:
        command = [sys.executable, "-m", __name__]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment(), cwd=ROOT)
        _PROCESS.append(process)
        atexit.register(_stop, process)
    return _PROCESS[0]


def _stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.wait(10)
    process.stdout.close()


def _send(stream: IO[bytes], message: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates what its own pickling uses
        data = io.BytesIO()
        _Pickler(data).dump(message)
    stream.write(data.getvalue())
    stream.flush()


class _Pickler(pickle.Pickler):
    """Sends tensors of 8-bit floats, which torch cannot pickle, as the bytes they are."""

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in FLOATS_OF_8_BITS:
            return torch.Tensor.view, (value.view(torch.uint8), value.dtype)
        return NotImplemented


def _serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    while True:
        try:
            function, args, kwargs = pickle.load(requests)
        except EOFError:
            return
        try:
            reply = True, function(*args, **kwargs)
        except Exception as fault:
            reply = False, _portable(fault)
        _send(replies, reply)


def _portable(fault: Exception) -> Exception:
    """The exception, if it survives pickling; else its text."""
    try:
        pickle.loads(pickle.dumps(fault))
    except Exception:
        return RuntimeError(f"{type(fault).__name__}: {fault}")
    return fault


if __name__ == "__main__":
    from tests.backends import quick_interpreter

    quick_interpreter.install()
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)  # what kernels print is no reply
        _serve(requests, replies)
