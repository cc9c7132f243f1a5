"""`monocomp demo`: a line of mathematics becomes a kernel, and runs here.

The program, its derivation, the kernel that follows from it, and a run on this machine's
GPU or else its CPU, beside what torch offers for the same: the error against the oracle, the
time, and the memory that a call takes for itself. The program is a causal window: a case where a
compiler pays, for torch has no kernel of its own for it.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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
_NEWLINE = "\n"
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


@dataclass(frozen=True)
class Contender:
    """A way to compute the output, and what to know about it."""

    name: str
    compute: Callable[[], torch.Tensor]
    about: str


ON_GPU = Run("cuda", "bfloat16", {"b": 1, "h": 16, "q = k": 8192, "d = e": 128}, 1024, 20)
ON_CPU = Run("cpu", "float32", {"b": 1, "h": 2, "q = k": 8192, "d = e": 64}, 256, 3)


def main() -> int:
    """Show everything on standard output, each part as soon as it is there."""
    began = time.perf_counter()
    _say("From a line of mathematics to a kernel, in four parts and about half a minute.")
    _title("1. A program: each query sees the keys of a window before it")
    _say(_indented(PROGRAM))

    kernel = mc.compile(PROGRAM, name="sliding_window")
    _title(f"2. {kernel.derivation.title}  (monocomp explain sliding_window)")
    for number, line in enumerate(kernel.derivation.outline(), 1):
        _say(f"{number:6}. {line}")
    _say("\n    which ends in\n")
    for line in kernel.derivation.result.readable_lines():
        _say(_indented(wrap_formula(line, "", "    ", 90)))
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
    _say(_indented("\n".join(shown)))

    _run(kernel)
    _say(
        f"\n    The demonstration took {time.perf_counter() - began:.0f} s. Next:"
        "\n    .venv/bin/monocomp list, README.md, and notebooks/ from the first on."
    )
    return 0


def device_function(source: str) -> list[str]:
    """The function that runs on the GPU, from the carried state on; its parameters left out."""
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


def _indented(text: str) -> str:
    return "\n".join("    " + line if line else "" for line in text.split("\n"))


# The run


def _run(kernel: Kernel) -> None:
    import torch

    run = ON_GPU if torch.cuda.is_available() else ON_CPU
    where = torch.cuda.get_device_name() if run.device == "cuda" else _processor()
    _title(f"4. A run on this machine: {where}")
    Q, K, V = _inputs(run)
    mask = _mask(Q.shape[-2], run.window, Q.device)
    contenders = (
        Contender(
            "monocomp",
            lambda: torch.as_tensor(kernel(Q, K, V, window=run.window)),
            f"the kernel above, on {'this GPU' if run.device == 'cuda' else 'blocks of tensors'}",
        ),
        Contender(
            "torch, SDPA",
            lambda: torch.nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=mask),
            "torch's own kernel, with a mask tensor",
        ),
        Contender(
            "torch, eager",
            lambda: eager_attention(Q, K, V, mask),
            "as one writes it, all weights stored",
        ),
    )
    _say(f"    {run}\n")
    with Progress() as progress, _one_thread():
        progress("the oracle", 0, 1)
        expected = _oracle(run.window, Q, K, V)
        times = _times([c.compute for c in contenders], run.device, run.rounds, progress)
        results = [_with_memory(c.compute, run.device) for c in contenders]
    _say(f"    {'':14}{'largest error':>14}{'time':>13}{'memory':>13}")
    for contender, seconds, (result, taken) in zip(contenders, times, results, strict=True):
        error = (result[0, 0, :_CHECKED].double().cpu() - expected).abs().max().item()
        said = "-" if taken is None else f"{taken / 2**20:.0f} MiB"
        _say(
            f"    {contender.name:14}{error:14.1e}{seconds * 1e3:10.2f} ms{said:>13}"
            f"   {contender.about}"
        )
    ours, *others = times
    read = f"{run.window} of {Q.shape[-2]} keys for a query"
    _say(
        f"\n    The derived kernel reads {read}. It is {_against(ours, others[0])} than"
        f"\n    SDPA with a mask and {_against(ours, others[1])} than eager torch. Nobody wrote it."
        f"\n\n    Errors are against the oracle, over {_CHECKED} positions of one head. Times"
        f"\n    are the fastest of {run.rounds} runs, in turn. Memory is a call's own, at its peak."
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


def _against(ours: float, theirs: float) -> str:
    return f"{theirs / ours:.1f} x faster" if ours <= theirs else f"{ours / theirs:.1f} x slower"


def _mask(length: int, window: int, device: torch.device) -> torch.Tensor:
    import torch

    position = torch.arange(length, device=device)
    distance = position[:, None] - position
    return (distance >= 0) & (distance < window)


def eager_attention(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Attention with a mask as one writes it in torch."""
    import torch

    S = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    return torch.softmax(S.masked_fill(~mask, float("-inf")), dim=-1) @ V


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
    """The first positions of the first head; a causal program needs no later ones for them."""
    import torch

    slices = (x[:1, :1, :_CHECKED].double().cpu().numpy() for x in tensors)
    result = mc.evaluate(PROGRAM, dict(zip("QKV", slices, strict=True)), window=window)
    assert not isinstance(result, tuple)
    return torch.from_numpy(result[0, 0])


def _times(
    computations: list[Callable[[], object]], device: str, rounds: int, progress: Progress
) -> list[float]:
    """The fewest seconds of each, measured in turn so that a busy machine is fair to all."""
    from monocomp.backends.timing import timed

    for compute in computations:  # compiles, and warms up
        timed(compute, device)
    taken = []
    for number in range(rounds):
        progress("round", number + 1, rounds)
        taken.append([timed(compute, device) for compute in computations])
    return [min(column) for column in zip(*taken, strict=True)]


def _with_memory(
    compute: Callable[[], torch.Tensor], device: str
) -> tuple[torch.Tensor, int | None]:
    """Return what is computed, and the bytes at the call's peak beyond those in use before; None
    where they cannot be counted."""
    import torch

    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = compute()
        torch.cuda.synchronize()
        return result, torch.cuda.max_memory_allocated() - before
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # the peak is counted anew
        before = _resident("VmRSS")
        result = compute()
        return result, max(0, _resident("VmHWM") - before)
    except OSError:  # not Linux, or not allowed
        return compute(), None


def _resident(field: str) -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


def _processor() -> str:
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            models = [line.partition(":")[2].strip() for line in file if "model name" in line]
        name = models[0] if models else name
    return f"one thread of {name} (no GPU found)"
