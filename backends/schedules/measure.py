"""Candidates on a GPU: compiled together, run on poisoned outputs, compared, and timed.

Inputs are read and outputs are new tensors, so measuring changes nothing that a caller has. Calls
are timed back to back, while the GPU was kept busy until all of them had been launched: short
kernels would else be as slow as their launches. Processes that measure on one GPU take turns at it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from contextvars import copy_context
from typing import Any, Protocol, TypeAlias

import torch
from triton import AsyncCompileMode
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError

from monocomp.backends.schedules.search import Choice, DoesNotFit, Outputs
from monocomp.backends.timing import timed
from monocomp.errors import UnsupportedError, first_line
from monocomp.machine.cache import TextStore
from monocomp.machine.locking import BUILDING

Empty: TypeAlias = Callable[..., torch.Tensor]  # as `torch.empty`
_BURST_MS = 2.0  # how long a measurement takes, about
_MOST_CALLS = 50
_BUSY = 4_000_000  # cycles, about two milliseconds, in which these are launched
_GARBAGE = -12345
_FEW = 1e-2  # of positions, which rounding decides where values are about equal
_LOCKS = TextStore("locks")


class Call(Protocol):
    """Call the kernels with some schedules; `empty` allocates what they write, if it is given."""

    def __call__(self, choice: Choice, empty: Empty | None = None) -> tuple[torch.Tensor, ...]: ...

    def compile(self, choice: Choice) -> None:
        """Compile the kernels of such a call, and launch none of them."""


class GpuBench:
    """Runs and times schedules on the current device.

    Args:
        call: calls the kernels.
        inputs: of the call; the coarsest of their dtypes says how much results may differ.
    """

    def __init__(self, call: Call, inputs: Sequence[torch.Tensor]) -> None:
        self.call = call
        floats = [t.dtype for t in inputs if t.is_floating_point()]
        coarsest = max((torch.finfo(dtype).eps for dtype in floats), default=0.0)
        self.tolerance = min(0.25, max(1e-3, 8 * coarsest))

    def compile(self, choices: Sequence[Choice]) -> None:
        """Compile these in threads, one a kernel. Triton needs Python's lock for a tenth of the
        time; what fails is compiled again when it runs, and says why. Nothing else is built
        meanwhile.
        """
        with BUILDING, ThreadPoolExecutor(sum(map(len, choices))) as pool:
            # An interruption would leave the mode in this thread's context.
            copy_context().run(self._compile, choices, pool)

    def _compile(self, choices: Sequence[Choice], pool: ThreadPoolExecutor) -> None:
        with AsyncCompileMode(pool, ignore_errors=True):
            for choice in choices:
                with suppress(torch.OutOfMemoryError, UnsupportedError):  # `outputs` will say so
                    self.call.compile(choice)

    def outputs(self, choice: Choice) -> Outputs:
        """Return the results of one call."""
        with _fitting(), alone():
            results = self.call(choice, empty=poisoned)
            torch.cuda.synchronize()
        return results

    def timer(self, choice: Choice) -> Callable[[], float]:
        """Measure a call that has run before."""
        with _fitting(), alone():
            self.call(choice)
            once = timed(lambda: self.call(choice)) * 1e3
        calls = max(1, min(_MOST_CALLS, int(_BURST_MS / max(1e-3, once))))

        def measure() -> float:
            with alone():
                torch.cuda._sleep(_BUSY)  # type: ignore[no-untyped-call]
                return timed(lambda: self.call(choice), calls=calls) * 1e3

        return measure

    def agree(self, results: Outputs, expected: Outputs) -> bool:
        """True if results are the same up to rounding."""
        with alone():
            return all(same(a, b, self.tolerance) for a, b in zip(results, expected, strict=True))


@contextmanager
def alone() -> Iterator[None]:
    """Keep other processes from measuring on the current GPU, if the cache can hold a lock."""
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    path = _LOCKS.place(str(device.uuid), "")
    with path.open() if path is not None else nullcontext() as file:
        if file is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _fitting() -> Iterator[None]:
    """Raise DoesNotFit for what the GPU can't run, has no memory for, or does not compile, and for
    layouts that a language cannot take."""
    try:
        yield
    except (
        *(OutOfResources, CompilationError, PTXASError, torch.OutOfMemoryError),
        UnsupportedError,
    ) as fault:
        raise DoesNotFit(first_line(fault)) from None
    except RuntimeError as fault:
        if "PassManager" not in str(fault):
            raise
        raise DoesNotFit(first_line(fault)) from None


def poisoned(*size: Any, **how: Any) -> torch.Tensor:
    """Return a new tensor that holds what no kernel should leave."""
    tensor = torch.empty(*size, **how)
    if tensor.dtype == torch.bool:
        return tensor.fill_(True)
    return tensor.fill_(float("nan") if tensor.is_floating_point() else _GARBAGE)


def same(result: torch.Tensor, expected: torch.Tensor, tolerance: float) -> bool:
    """True if results agree within the tolerance, a part of their own and of the usual size.

    A few integers may differ: they may be positions of values that are equal up to rounding.
    """
    if result.shape != expected.shape:
        return False
    if not result.numel():
        return True
    if not result.is_floating_point():
        return float((result != expected).double().mean()) <= _FEW
    a, b = result.float(), expected.to(result.dtype).float()
    known = b.isfinite()
    if not torch.equal((a == b) | (a.isnan() & b.isnan()) | known, torch.ones_like(known)):
        return False
    a, b = a.where(known, 0.0), b.where(known, 0.0)
    usual = b.square().sum().div(known.sum().clamp(min=1)).sqrt()
    return bool(((a - b).abs() <= tolerance * (b.abs() + usual)).all())
