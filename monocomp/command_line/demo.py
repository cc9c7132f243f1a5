"""`monocomp demo`: a line of mathematics becomes a kernel, and runs here.

The program, its derivation, the kernel that follows from it, and a run on this machine's GPU or
else its CPU, beside what torch offers for the same. The program is a causal window: a case where a
compiler pays, for torch has no kernel of its own for it.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import indent
from typing import TYPE_CHECKING

import monocomp as mc
from monocomp.command_line.progress import Progress
from monocomp.display.paragraphs import wrap_formula

if TYPE_CHECKING:
    import torch

    from monocomp.kernel import Kernel

PROGRAM = """\
input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]
param window: int = 1024

S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
O[b,h,q,e] = softmax[k if k <= q and q - k < window](S[b,h,q,k]) * V[b,h,k,e]"""
_LINES = 64  # of the kernel's body
_NEWLINE, _MARGIN = "\n", "    "
_SECONDS = 60.0  # that the run may take
_CHECKED = 300  # positions of one head that the oracle evaluates


@dataclass(frozen=True)
class Run:
    """A run: on which device, in which dtype, at which sizes, and how often it is timed."""

    device: str
    dtype: str
    sizes: Mapping[str, int]
    window: int
    rounds: int

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        return f"{sizes}, window = {self.window}, {self.dtype}"


ON_GPU = Run("cuda", "bfloat16", {"b": 1, "h": 16, "q = k": 8192, "d = e": 128}, 1024, 20)
ON_CPU = Run("cpu", "float32", {"b": 1, "h": 2, "q = k": 4096, "d = e": 64}, 256, 3)


def main() -> int:
    """Show everything on standard output, each part as soon as it is there."""
    began = time.perf_counter()
    _say("From a line of mathematics to a kernel, in four parts and about half a minute.")
    _title("1. A program: each query sees the keys of a window before it")
    _say(indent(PROGRAM, _MARGIN))

    kernel = mc.compile(PROGRAM, name="sliding_window")
    _title(f"2. {kernel.derivation.title}  (monocomp explain sliding_window)")
    for number, line in enumerate(kernel.derivation.outline(), 1):
        _say(f"{number:6}. {line}")
    _say("\n    which ends in\n")
    for line in kernel.derivation.result.readable_lines():
        _say(indent(wrap_formula(line, "", "    ", 90), _MARGIN))
    loop = next(line for line in kernel.source("torch").splitlines() if "for k in" in line)
    _say(
        "\n    Softmax has become sums that carry their own exponent (SE): one pass over the keys,"
        "\n    and no weight is stored. The filter has become the bounds of the loop, so keys"
        f"\n    outside the window are never read:\n\n      {loop.strip()}"
    )

    sizes = {n: size for names, size in ON_GPU.sizes.items() for n in names.split(" = ")}
    source = kernel.source("triton", dtype="bfloat16", extents=sizes, minimal=True)
    shown = device_function(source)
    lines = f"{len(shown)} of {source.count(_NEWLINE)} lines"
    _title(f"3. Its GPU kernel, {lines}  (monocomp emit sliding_window --minimal)")
    _say(indent("\n".join(shown), _MARGIN))

    _run(kernel)
    _say(
        f"\n    The demonstration took {time.perf_counter() - began:.0f} s. Next:"
        "\n    .venv/bin/monocomp list, README.md, and notebooks/ from the first on."
    )
    return 0


def device_function(source: str) -> list[str]:
    """Return the function that runs on the GPU, from the carried state on; its parameters left
    out."""
    lines = source.splitlines()
    start = lines.index("@triton.jit")  # the kernel's: what it calls stands after it
    head, _, _ = lines[start + 1].partition("(")
    body = next(n for n in range(start, len(lines)) if lines[n].endswith("):"))
    stop = next(
        (n for n in range(body + 1, len(lines)) if lines[n][:1] not in ("", " ", "#")), len(lines)
    )
    state = next((n for n in range(body + 1, stop) if "= tl.full(" in lines[n]), body + 1)
    shown = "\n".join(lines[state:stop]).rstrip().splitlines()
    if len(shown) > _LINES:
        shown = [*shown[:_LINES], "    ..."]
    return [lines[start], f"{head}(", "    ...", "):", "    ...", *shown]


def _say(text: str) -> None:
    print(text, flush=True)


def _title(text: str) -> None:
    _say(f"\n{text}\n{'-' * len(text)}\n")


# The run


def _run(kernel: Kernel) -> None:
    import torch

    from monocomp.command_line import bench

    run = ON_GPU if torch.cuda.is_available() else ON_CPU
    where = torch.cuda.get_device_name() if run.device == "cuda" else _processor()
    _title(f"4. A run on this machine: {where}")
    Q, K, V = _inputs(run)
    distance = (position := torch.arange(Q.shape[-2], device=Q.device))[:, None] - position
    mask = (distance >= 0) & (distance < run.window)
    tensors, params = {"Q": Q, "K": K, "V": V}, {"window": run.window}
    contenders = [
        bench.derived(kernel, tensors, params),
        bench.sdpa("SDPA", "torch's own kernel, with a mask tensor", Q, K, V, attn_mask=mask),
        bench.whole(kernel.equations, tensors, params),
    ]
    _say(f"    {run}\n")
    with Progress() as progress, _one_thread():
        times = bench.race(contenders, Q.device, run.rounds, _SECONDS, progress)
        progress("the oracle", 0, 1)
        expected = _oracle(run.window, Q, K, V)
        error = (contenders[0].compute()[0][0, 0, :_CHECKED].double().cpu() - expected).abs().max()
    _say(indent(bench.table(times), _MARGIN))
    _say(
        f"\n    The derived kernel reads {run.window} of {Q.shape[-2]} keys for a query, and nobody"
        f" wrote it.\n    Its largest error against the oracle is {error.item():.1e}, over"
        f" {_CHECKED} positions of one head.\n    Times are medians of {times[0].rounds} rounds,"
        " in turn."
    )


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """On a CPU that others use too, threads that wait for each other measure the others."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


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


def _oracle(window: int, *tensors: torch.Tensor) -> torch.Tensor:
    """Return the first positions of the first head; a causal program needs no later ones."""
    import torch

    slices = (x[:1, :1, :_CHECKED].double().cpu().numpy() for x in tensors)
    result = mc.evaluate(PROGRAM, dict(zip("QKV", slices, strict=True)), window=window)
    assert not isinstance(result, tuple)
    return torch.from_numpy(result[0, 0])


def _processor() -> str:
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            models = [line.partition(":")[2].strip() for line in file if "model name" in line]
        name = models[0] if models else name
    return f"one thread of {name} (no GPU found)"
