"""`python -m monocomp.demo`: a line of mathematics becomes a kernel, and runs here.

The program, its derivation, the kernel that follows from it, and a run on this machine's
GPU or else its CPU: the error against the oracle beside eager torch's in the same dtype, and
the time beside eager torch's.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import monocomp as mc
from monocomp.cli import guarded
from monocomp.derivation import wrap_formula

if TYPE_CHECKING:
    import torch

    from monocomp.kernel import Kernel

PROGRAM = "O[b,h,q,e] = softmax[k if k <= q](Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)) * V[b,h,k,e]"
_LINES = 60  # of the kernel's body
_NEWLINE = "\n"
_CHECKED = 256  # places of one head that the oracle evaluates


@dataclass(frozen=True)
class Run:
    """What is run: where, in which dtype, at which sizes, and how often it is timed."""

    device: str
    dtype: str
    sizes: Mapping[str, int]
    rounds: int

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        return f"{sizes}, {self.dtype}"


ON_GPU = Run("cuda", "bfloat16", {"b": 1, "h": 16, "q = k": 4096, "d = e": 128}, 20)
ON_CPU = Run("cpu", "float32", {"b": 1, "h": 4, "q = k": 2048, "d = e": 64}, 15)


def main() -> int:
    """Show everything on standard output."""
    began = time.perf_counter()
    _title("A program")
    print(_indented(wrap_formula(PROGRAM, "", "    ", 90)))

    kernel = mc.compile(PROGRAM, name="causal")
    _title(f"{kernel.derivation.title}  (monocomp explain causal)")
    for number, line in enumerate(kernel.derivation.outline(), 1):
        print(f"{number:6}. {line}")
    print("\n    which ends in\n")
    for line in kernel.derivation.result.readable_lines():
        print(_indented(wrap_formula(line, "", "    ", 90)))

    source = kernel.source("triton", dtype="bfloat16")
    shown = device_function(source)
    _title(f"Its kernel, {len(shown)} of {source.count(_NEWLINE)} lines  (monocomp emit causal)")
    print(_indented("\n".join(shown)))

    _run(kernel)
    print(f"\n    The demonstration took {time.perf_counter() - began:.0f} s.")
    return 0


def device_function(source: str) -> list[str]:
    """The function that runs on the GPU, from the carried state on; its parameters left out."""
    lines = source.splitlines()
    heads = (n for n, line in enumerate(lines) if line.startswith("@triton.jit"))
    start = next((n for n in heads if lines[n + 1].endswith("_kernel(")), 0)
    body = next((n for n in range(start, len(lines)) if lines[n].rstrip().endswith("):")), start)
    stop = next(
        (n for n in range(body + 1, len(lines)) if lines[n][:1] not in ("", " ", "#")), len(lines)
    )
    state = next((n for n in range(body + 1, stop) if "= tl.full(" in lines[n]), body + 1)
    shown = "\n".join(lines[state:stop]).rstrip().splitlines()
    if len(shown) > _LINES:
        shown = [*shown[:_LINES], "    ..."]
    return [*lines[start : start + 2], "    ...", lines[body], "    ...", *shown]


def _title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}\n")


def _indented(text: str) -> str:
    return "\n".join("    " + line if line else "" for line in text.split("\n"))


# The run


def _run(kernel: Kernel) -> None:
    import torch

    run = ON_GPU if torch.cuda.is_available() else ON_CPU
    where = torch.cuda.get_device_name() if run.device == "cuda" else _processor()
    _title(f"A run on this machine: {where}")
    Q, K, V = _inputs(run)

    def ours() -> torch.Tensor:
        result: torch.Tensor = kernel(Q, K, V)
        return result

    def eager() -> torch.Tensor:
        return eager_attention(Q, K, V)

    print(f"    {run}\n")
    expected = _oracle(Q, K, V)
    times = _times([ours, eager], run.rounds)
    print(f"    {'':18}{'largest error':>16}{'time':>14}")
    for name, compute, seconds in zip(
        ("monocomp", "torch, eager"), (ours, eager), times, strict=True
    ):
        found = compute()[0, 0, :_CHECKED].double().cpu()
        error = (found - expected).abs().max().item()
        print(f"    {name:18}{error:16.1e}{seconds * 1e3:11.2f} ms")
    print(
        f"\n{textwrap.fill(repr(kernel), 96, initial_indent='    ', subsequent_indent='      ')}\n"
        f"\n    Errors are against the oracle, over the first {_CHECKED} places of one head;\n"
        f"    times are medians of {run.rounds} runs each, taken in turn."
    )


def eager_attention(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Causal attention as one writes it in torch."""
    import torch

    S = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    later = torch.ones(S.shape[-2:], dtype=torch.bool, device=S.device).triu(1)
    return torch.softmax(S.masked_fill(later, float("-inf")), dim=-1) @ V


def _inputs(run: Run) -> list[torch.Tensor]:
    import torch

    generator = torch.Generator(run.device).manual_seed(0)
    return [
        torch.randn(
            *run.sizes.values(),
            dtype=getattr(torch, run.dtype),
            device=run.device,
            generator=generator,
        )
        for _ in range(3)
    ]


def _oracle(*tensors: torch.Tensor) -> torch.Tensor:
    """The first places of the first head; a causal program needs no later ones for them."""
    import torch

    slices = (x[:1, :1, :_CHECKED].double().cpu().numpy() for x in tensors)
    result = mc.evaluate(PROGRAM, dict(zip("QKV", slices, strict=True)))
    assert not isinstance(result, tuple)
    return torch.from_numpy(result[0, 0])


def _times(computations: list[Callable[[], object]], rounds: int) -> list[float]:
    """Median seconds of each, measured in turn so that a busy machine is fair to all."""
    for compute in computations:  # compiles, and warms up
        _seconds(compute)
    taken = [[_seconds(compute) for compute in computations] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*taken, strict=True)]


def _seconds(compute: Callable[[], object]) -> float:
    import torch

    if not torch.cuda.is_available():
        began = time.perf_counter()
        compute()
        return time.perf_counter() - began
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    compute()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop)) / 1e3


def _processor() -> str:
    import torch

    threads = torch.get_num_threads()
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            models = [line.partition(":")[2].strip() for line in file if "model name" in line]
        name = models[0] if models else name
    return f"{name}, {threads} threads (no GPU found)"


if __name__ == "__main__":
    sys.exit(guarded(main))
