"""What a call costs on the CPU, beyond launching its kernels.

Microseconds a call at tiny shapes, over many calls without waiting for the GPU, beside launches
of the same compiled kernels with the same arguments, the same launches through Triton's own
interface, and scaled_dot_product_attention. At most 25 beyond the launch are wanted; and of a call
with its gradients 40 beyond an autograd function that just allocates and makes the same launches,
as these take longer in the thread in which autograd makes them.
"""

from __future__ import annotations

import inspect
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.autograd import grad
from torch.nn.functional import scaled_dot_product_attention

import monocomp as mc
from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.gpu_decode import PAGED
from benchmarks.peers import DTYPE
from benchmarks.report import Report, table

WANTED_US, WANTED_WITH_GRADIENTS_US, TOLERATED = 25.0, 40.0, 2e-2
CALLS = 100  # in a row: few enough for the queue of launches

Launch = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """A program and tiny inputs; `peer` is scaled_dot_product_attention on the same, and
    `differentiated` calls are followed by their gradients."""

    name: str
    program: str
    shapes: Mapping[str, tuple[int, ...]]
    params: dict[str, Any] = field(default_factory=dict)
    integers: tuple[str, ...] = ()
    peer: dict[str, Any] | None = None
    differentiated: bool = False

    @property
    def wanted(self) -> float:
        """The microseconds beyond the launches that there may be."""
        return WANTED_WITH_GRADIENTS_US if self.differentiated else WANTED_US

    @property
    def words(self) -> tuple[str]:
        """What `--only` is compared with."""
        return (self.name,)

    def inputs(self, device: str) -> dict[str, Tensor]:
        """Random floats, and integers that are ones."""
        return {
            n: torch.ones(shape, device=device, dtype=torch.int32)
            if n in self.integers
            else torch.randn(shape, device=device, dtype=DTYPE, requires_grad=self.differentiated)
            for n, shape in self.shapes.items()
        }


_Q = (1, 4, 16, 64)
_QKV = {"Q": _Q, "K": _Q, "V": _Q}
_CACHE = (1, 2, 64, 64)
_POOL = (8, 16, 2, 64)
CASES = (
    Case("attention", "attention", _QKV, peer={}),
    Case("causal", "causal", _QKV, peer={"is_causal": True}),
    Case("sliding_window", "sliding_window", _QKV, {"window": 8}),
    Case("prefix_lm", "prefix_lm", {**_QKV, "prefix": (1,)}, integers=("prefix",)),
    Case(
        "gqa-decode",
        "gqa",
        {"Q": (1, 4, 1, 64), "K": _CACHE, "V": _CACHE},
        peer={"enable_gqa": True},
    ),
    Case(
        "paged-decode",
        PAGED,
        {"Q": (1, 4, 1, 64), "K": _POOL, "V": _POOL, "table": (1, 4), "length": (1,)},
        integers=("table", "length"),
    ),
    Case("layer_norm", "layer_norm", {"X": (16, 64)}),
    Case("causal, gradients", "causal", _QKV, peer={"is_causal": True}, differentiated=True),
    Case("layer_norm, gradients", "layer_norm", {"X": (16, 64)}, differentiated=True),
)


def bare(forward: Sequence[Launch], backward: Sequence[Launch]) -> Callable[..., Tensor]:
    """What autograd itself costs: a function that allocates a result, and gradients, and launches
    these kernels."""

    class Bare(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *tensors: Tensor) -> Tensor:
            ctx.save_for_backward(*tensors)
            result = torch.empty_like(tensors[0])
            for launch in forward:
                launch()
            return result

        @staticmethod
        def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, ...]:
            found = tuple(map(torch.empty_like, ctx.saved_tensors))
            for launch in backward:
                launch()
            return found

    apply: Callable[..., Tensor] = Bare.apply
    return apply


def followed(call: Launch, tensors: list[Tensor], differentiated: bool) -> Launch:
    """A call, and its gradients where they are asked for."""
    if not differentiated:
        return call
    cotangent = torch.ones_like(first_of(call()))
    return lambda: grad(first_of(call()), tensors, cotangent)


def first_of(found: Any) -> Tensor:
    """The first result of a call."""
    result: Tensor = found[0] if isinstance(found, tuple) else found
    return result


@dataclass(frozen=True)
class Launches:
    """A kernel's launch, with the arguments of a call: of the compiled kernel, which is the least
    that a launch can cost, and through Triton, which looks at all arguments again."""

    compiled: Launch
    through_triton: Launch


@contextmanager
def recorded() -> Iterator[dict[int, Launches]]:
    """The launches that Triton makes, the last of each function."""
    from triton.compiler import CompiledKernel
    from triton.runtime import JITFunction
    from triton.runtime.interpreter import InterpretedFunction

    found: dict[int, Launches] = {}

    def recording(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            result = original(self, *args, grid=grid, warmup=warmup, **kwargs)
            again = partial(original, self, *args, grid=grid, warmup=False, **kwargs)
            compiled: Launch = again
            if isinstance(result, CompiledKernel):
                names = list(inspect.signature(self.fn).parameters)[len(args) :]
                whole = (*grid, 1, 1)[:3]
                compiled = partial(result[whole], *args, *(kwargs[n] for n in names))
            found[id(self)] = Launches(compiled, again)
            return result

        return run

    jit, interpreted = JITFunction.run, InterpretedFunction.run
    with (
        patch.object(JITFunction, "run", recording(jit)),
        patch.object(InterpretedFunction, "run", recording(interpreted)),
    ):
        yield found


def launches_of(case: Case, tensors: list[Tensor]) -> tuple[list[Launches], list[Launches]]:
    """The launches of a call, and those of its gradients; a kernel of its own makes them, as others
    may repeat themselves without Triton's noticing."""
    kernel = peers.kernel(case.program)
    fresh = mc.compile(peers.text(case.program), backend=kernel.backend, name=kernel.program.name)
    with recorded() as found:
        result = first_of(fresh(*tensors, **case.params))
        count = len(found)
        if case.differentiated:
            grad(result, tensors, torch.ones_like(result))
    every = list(found.values())
    return every[:count], every[count:]


def microseconds(calls: dict[str, Launch], rounds: int, device: str) -> dict[str, list[float]]:
    """CPU time a call of each, in turn; the GPU is waited for in between."""
    count = CALLS if device == "cuda" else 2
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            began = time.perf_counter()
            for _ in range(count):
                call()
            spent = time.perf_counter() - began
            if device == "cuda":
                torch.cuda.synchronize()
            if turn:  # the first one warms up
                taken[name].append(spent / count * 1e6)
    return taken


@dataclass
class Result:
    """What was found for one case: microseconds in every round."""

    name: str
    wanted: float
    launches: int = 0
    error: float = math.nan
    taken: dict[str, list[float]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        """NaN if it was not timed."""
        found = self.taken.get(name)
        return statistics.median(found) if found else math.nan

    @property
    def beyond(self) -> float:
        """Microseconds of a call beyond its launches, and beyond what autograd costs."""
        return self.median("call") - self.median(
            "autograd" if "autograd" in self.taken else "launch"
        )

    @property
    def right(self) -> bool:
        """Did it run, and well enough?"""
        return self.error <= TOLERATED

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {**vars(self), "beyond": self.beyond}


def run_case(case: Case, setting: Setting) -> Result:
    """Check, then time."""
    result = Result(case.name, case.wanted)
    inputs = case.inputs(setting.device)
    tensors, kernel = list(inputs.values()), peers.kernel(case.program)
    there = {n: x.detach().cpu() for n, x in inputs.items()}
    wide = {n: x.double() if x.is_floating_point() else x for n, x in there.items()}
    exact = mc.evaluate(peers.text(case.program), wide, **case.params)
    found = first_of(kernel(*tensors, **case.params)).detach().cpu()
    result.error = errors.relative_error(found, torch.as_tensor(first_of(exact)))
    forward, backward = launches_of(case, tensors)
    launches = [*forward, *backward]
    result.launches = len(launches)
    calls: dict[str, Launch] = {"call": lambda: kernel(*tensors, **case.params)}
    if case.differentiated:
        function = bare([x.compiled for x in forward], [x.compiled for x in backward])
        calls["autograd"] = lambda: function(*tensors)
    if launches:
        calls["launch"] = lambda: [each.compiled() for each in launches]
        calls["Triton"] = lambda: [each.through_triton() for each in launches]
    if case.peer is not None:
        q, k, v = tensors
        calls["SDPA"] = lambda: scaled_dot_product_attention(q, k, v, **(case.peer or {}))
    for name in ("call", "autograd", "SDPA"):
        if name in calls:
            calls[name] = followed(calls[name], tensors, case.differentiated)
    result.taken = microseconds(calls, setting.rounds, setting.device)
    return result


def tables(setting: Setting) -> Report:
    """The table."""
    run = gpu.Run(setting)
    results = run.each(setting.select(CASES), lambda case: run_case(case, setting))
    header = ["", "call", "launch alone", "with autograd", "beyond", "through Triton", "SDPA"]
    header += ["kernels", "error"]
    rows = []
    for r in results:
        ours = r.median("call"), r.median("launch"), r.median("autograd"), r.beyond
        times = gpu.numbers((*ours, r.median("Triton"), r.median("SDPA")), (".1f",) * 6)
        rows.append([r.name, *times, r.launches, gpu.number(r.error, ".1e")])
    late = [r.name for r in results if r.beyond > r.wanted]
    lines = [
        f"CPU microseconds a call at tiny shapes, bf16, medians of {setting.rounds} rounds of "
        f"{CALLS} calls.",
        *run.notes(),
        *(f"No launch was seen of {r.name}." for r in results if not r.launches),
        "",
        table(header, rows),
        "",
        f"At most {WANTED_US:.0f} beyond the launch are wanted, {WANTED_WITH_GRADIENTS_US:.0f} "
        f"with gradients beyond the launches with autograd. {', '.join(late) or 'None'}: more.",
    ]
    return run.report("gpu_launch", lines, results)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
