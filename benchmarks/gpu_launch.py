"""What a call costs on the CPU, beyond launching its kernels.

Microseconds a call at tiny shapes, over many calls without waiting for the GPU, beside the same
launches of the same kernels with the same arguments through Triton alone, and beside
scaled_dot_product_attention. At most 25 beyond the launch are wanted.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import monocomp as mc
from benchmarks import gpu
from benchmarks.gpu import DTYPE, Setting
from benchmarks.gpu import unavailable as unavailable
from benchmarks.gpu_decode import PAGED
from benchmarks.report import Report, table

WANTED_US, TOLERATED = 25.0, 2e-2
CALLS = 100  # in a row: few enough for the queue of launches

Launch = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """A program and tiny inputs; `peer` is scaled_dot_product_attention on the same."""

    name: str
    program: str
    shapes: Mapping[str, tuple[int, ...]]
    params: dict[str, Any] = field(default_factory=dict)
    integers: tuple[str, ...] = ()
    peer: dict[str, Any] | None = None

    @property
    def words(self) -> tuple[str]:
        """What `--only` is compared with."""
        return (self.name,)

    def inputs(self, device: str) -> dict[str, Tensor]:
        """Random floats, and integers that are ones."""
        return {
            n: torch.ones(shape, device=device, dtype=torch.int32)
            if n in self.integers
            else torch.randn(shape, device=device, dtype=DTYPE)
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
)


@contextmanager
def recorded() -> Iterator[list[tuple[object, Launch]]]:
    """The kernels that Triton launches, each with a launch of the same with the same arguments."""
    from triton.runtime import JITFunction
    from triton.runtime.interpreter import InterpretedFunction

    launches: list[tuple[object, Launch]] = []

    def recording(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            again = partial(original, self, *args, grid=grid, warmup=False, **kwargs)
            launches.append((self, again))
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)

        return run

    kinds = (JITFunction, InterpretedFunction)
    before = [kind.run for kind in kinds]
    with (
        patch.object(kinds[0], "run", recording(before[0])),
        patch.object(kinds[1], "run", recording(before[1])),
    ):
        yield launches


def bare_launches(case: Case, tensors: list[Tensor]) -> list[Launch]:
    """The launches of one call; where calls do not go through Triton's own path, those with
    which a fresh kernel first compiled, the last of each function."""
    kernel = gpu.kernel(case.program)
    with recorded() as launches:
        kernel(*tensors, **case.params)
    if launches:
        return [launch for _, launch in launches]
    fresh = mc.compile(gpu.text(case.program), backend=kernel.backend, name=kernel.program.name)
    with recorded() as launches:
        fresh(*tensors, **case.params)
    return list({id(function): launch for function, launch in launches}.values())


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
    launches: int = 0
    error: float = math.nan
    taken: dict[str, list[float]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        """NaN if it was not timed."""
        found = self.taken.get(name)
        return statistics.median(found) if found else math.nan

    @property
    def beyond(self) -> float:
        """Microseconds of a call beyond its launches."""
        return self.median("call") - self.median("launch")

    @property
    def right(self) -> bool:
        """Did it run, and well enough?"""
        return self.error <= TOLERATED


def run_case(case: Case, setting: Setting) -> Result:
    """Check, then time."""
    result = Result(case.name)
    inputs = case.inputs(setting.device)
    tensors, kernel = list(inputs.values()), gpu.kernel(case.program)
    there = {n: x.cpu() for n, x in inputs.items()}
    wide = {n: x.double() if x.is_floating_point() else x for n, x in there.items()}
    exact = mc.evaluate(gpu.text(case.program), wide, **case.params)
    found = kernel(*tensors, **case.params)
    first = found[0] if isinstance(found, tuple) else found
    right = exact[0] if isinstance(exact, tuple) else exact
    result.error = gpu.relative_error(first.cpu(), torch.as_tensor(right))
    launches = bare_launches(case, tensors)
    result.launches = len(launches)
    calls: dict[str, Launch] = {"call": lambda: kernel(*tensors, **case.params)}
    if launches:
        calls["launch"] = lambda: [launch() for launch in launches]
    if case.peer is not None:
        q, k, v = tensors
        calls["SDPA"] = lambda: scaled_dot_product_attention(q, k, v, **(case.peer or {}))
    result.taken = microseconds(calls, setting.rounds, setting.device)
    return result


def tables(setting: Setting) -> Report:
    """The table."""
    run = gpu.Run(setting)
    results = run.each(setting.select(CASES), lambda case: run_case(case, setting))
    header = ["", "call", "launch alone", "beyond", "kernels", "SDPA", "error"]
    rows = []
    for r in results:
        times = gpu.numbers((r.median("call"), r.median("launch"), r.beyond), (".1f",) * 3)
        sdpa, error = gpu.number(r.median("SDPA"), ".1f"), gpu.number(r.error, ".1e")
        rows.append([r.name, *times, r.launches, sdpa, error])
    beyond = [r.beyond for r in results if not math.isnan(r.beyond)]
    lines = [
        f"CPU microseconds a call at tiny shapes, bf16, medians of {setting.rounds} rounds of "
        f"{CALLS} calls.",
        *run.notes(),
        *(f"No launch was seen of {r.name}." for r in results if not r.launches),
        "",
        table(header, rows),
        "",
        f"At most {gpu.number(max(beyond, default=math.nan), '.1f')} beyond the launch; "
        f"{WANTED_US:.0f} are wanted.",
    ]
    data = {
        **run.to_json(),
        "microseconds": {r.name: {**vars(r), "beyond": r.beyond} for r in results},
    }
    return Report(
        "gpu_launch", "\n".join(lines), data, not run.failed and all(r.right for r in results)
    )


def measure(quick: bool = False) -> Report:
    """The table, of everything."""
    return tables(Setting(quick))


def main() -> int:
    """Print the table."""
    return gpu.main(__doc__, tables)


if __name__ == "__main__":
    sys.exit(main())
