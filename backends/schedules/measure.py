"""Candidates on a GPU: run on poisoned outputs, compared, and timed.

Calls are timed in a CUDA graph, which repeats them without the host, as short kernels would
else be as slow as their launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import torch
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError

from monocomp.backends.schedules.search import Choice, DoesNotFit, Outputs
from monocomp.backends.timing import timed

Empty: TypeAlias = Callable[..., torch.Tensor]  # as `torch.empty`
_BURST_MS = 2.0  # how long a measurement takes, about
_MOST_CALLS = 50
_GARBAGE = -12345
_FEW = 1e-2  # of positions, which rounding decides where values are about equal


class Call(Protocol):
    """Calls the kernels with some schedules; `empty` allocates what they write, if it is given."""

    def __call__(self, choice: Choice, empty: Empty | None = None) -> tuple[torch.Tensor, ...]: ...


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
        self.pool = torch.cuda.graph_pool_handle()  # nobody looks at the results of a timed call
        self.tolerance = min(0.25, max(1e-3, 8 * coarsest))

    def outputs(self, choice: Choice) -> Outputs:
        """The results of one call."""
        try:
            found = self.call(choice, empty=poisoned)
            torch.cuda.synchronize()
        except (OutOfResources, CompilationError, PTXASError) as fault:
            raise DoesNotFit(_first_line(fault)) from None
        except RuntimeError as fault:
            if "PassManager" not in str(fault):
                raise
            raise DoesNotFit(_first_line(fault)) from None
        return found

    def timer(self, choice: Choice) -> Callable[[], float]:
        """Measures a call that has run before."""
        calls = max(1, min(_MOST_CALLS, int(_BURST_MS / max(1e-3, self._once(choice)))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, self.pool, capture_error_mode="thread_local"):
            for _ in range(calls):
                self.call(choice)
        graph.replay()
        return lambda: timed(graph.replay) * 1e3 / calls

    def _once(self, choice: Choice) -> float:
        self.call(choice)
        return timed(lambda: self.call(choice)) * 1e3

    def agree(self, found: Outputs, expected: Outputs) -> bool:
        """Are these the same but for rounding?"""
        return all(same(a, b, self.tolerance) for a, b in zip(found, expected, strict=True))


def _first_line(fault: Exception) -> str:
    return next(iter(str(fault).strip().splitlines()), type(fault).__name__)


def poisoned(*size: Any, **how: Any) -> torch.Tensor:
    """A new tensor that holds what no kernel should leave."""
    tensor = torch.empty(*size, **how)
    if tensor.dtype == torch.bool:
        return tensor.fill_(True)
    return tensor.fill_(float("nan") if tensor.is_floating_point() else _GARBAGE)


def same(found: torch.Tensor, expected: torch.Tensor, tolerance: float) -> bool:
    """Do results agree, up to a part of their own size and of the usual size of all?

    Of integers few may differ: they may be positions of values that are equal but for rounding.
    """
    if found.shape != expected.shape:
        return False
    if not found.numel():
        return True
    if not found.is_floating_point():
        return float((found != expected).double().mean()) <= _FEW
    a, b = found.float(), expected.to(found.dtype).float()
    known = b.isfinite()
    if not torch.equal((a == b) | (a.isnan() & b.isnan()) | known, torch.ones_like(known)):
        return False
    a, b = a.where(known, 0.0), b.where(known, 0.0)
    usual = b.square().sum().div(known.sum().clamp(min=1)).sqrt()
    return bool(((a - b).abs() <= tolerance * (b.abs() + usual)).all())
