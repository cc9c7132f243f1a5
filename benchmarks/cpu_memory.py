"""The torch backend on the CPU: peak memory and time, beside the formula in eager torch.

Peak memory is the growth of a process's resident set while one call runs, or one with its
gradients, taken in a process of its own for each contender, after calls on short inputs have
started the thread pools. The times come from one process, taken in turn.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.report import (
    Report,
    alternating,
    listed,
    load,
    options,
    processor,
    summary,
    table,
    today,
    versions,
    write_json,
)

if TYPE_CHECKING:
    import torch

LENGTH, HEAD = 8192, 64
WARM_LENGTH = 512
LENGTHS = (2048, 4096, 8192, 16384)  # of calls with their gradients
MiB = 1 << 20
TARGET = 64 * MiB
Contender = Callable[["torch.Tensor", "torch.Tensor", "torch.Tensor"], "torch.Tensor"]


def contenders() -> dict[str, Contender]:
    """What is measured, by name."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    import monocomp as mc

    kernel = mc.compile(mc.library.load("attention"), name="attention", backend="torch")

    def eager(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        return torch.softmax(Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5, dim=-1) @ V

    return {"monocomp": kernel, "eager torch": eager, "torch SDPA": scaled_dot_product_attention}


def inputs(length: int) -> list[torch.Tensor]:
    """One head of random queries, keys and values."""
    import torch

    generator = torch.Generator().manual_seed(length)
    return [torch.randn(1, 1, length, HEAD, generator=generator) for _ in range(3)]


def unavailable() -> str | None:
    """Why this cannot be measured here."""
    return None if os.path.exists("/proc/self/status") else "it reads /proc"


# Memory, in a process of its own


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {key}")


def _forget_peak() -> None:
    """Start the peak of the resident set anew, where the kernel lets us."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_of(name: str, length: int, differentiated: bool) -> dict[str, int]:
    """The growth of this process's resident set in one call, its results not counted.

    Args:
        name: the contender.
        length: of queries and keys.
        differentiated: are gradients of all inputs results, too?
    """
    call = contenders()[name]

    def compute(tensors: list[torch.Tensor]) -> Sequence[torch.Tensor]:
        if not differentiated:
            return [call(*tensors)]
        for tensor in tensors:
            tensor.requires_grad_()
        result = call(*tensors)
        result.backward(result.detach())
        return [result, *(t.grad for t in tensors if t.grad is not None)]

    short, long = inputs(WARM_LENGTH), inputs(length)
    for _ in range(3):
        compute(short)
    _forget_peak()
    before = _status("VmRSS")
    output = sum(t.nbytes for t in compute(long))
    return {"extra": _status("VmHWM") - before - output, "output": output}


def peak(name: str, length: int = LENGTH, differentiated: bool = False) -> int:
    """The same, measured in a new process."""
    words = [sys.executable, "-m", "benchmarks.cpu_memory", "--peak-of", name, str(length)]
    words += ["--gradients"] * differentiated
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    return int(json.loads(done.stdout)["extra"])


def with_gradients(lengths: Sequence[int]) -> dict[str, list[int]]:
    """The peaks of calls with their gradients, by contender, for these lengths."""
    return {name: [peak(name, n, differentiated=True) for n in lengths] for name in contenders()}


# The table


def measure(quick: bool = False) -> Report:
    """The table."""
    import torch

    busy = load()
    peaks = {name: peak(name) for name in contenders()}
    lengths = LENGTHS[:2] if quick else LENGTHS
    gradients = with_gradients(lengths)
    tensors = inputs(LENGTH)
    running = {name: _bound(compute, tensors) for name, compute in contenders().items()}
    results = {name: compute() for name, compute in running.items()}
    error = (results["monocomp"] - results["eager torch"]).abs().max().item()
    seconds = alternating(running, 3 if quick else 9)
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    eager = medians["eager torch"]
    targets = {"monocomp": f"<= {TARGET // MiB} MiB, faster than eager"}
    rows = [
        (
            name,
            f"{peaks[name] / MiB:.0f} MiB",
            f"{medians[name] * 1e3:.0f} ms",
            f"{eager / medians[name]:.2f}",
            targets.get(name, ""),
        )
        for name in running
    ]
    where = (
        f"{processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads; "
        f"{listed(versions('torch'))}; {busy}"
    )
    header = ("", "peak over inputs and outputs", "time, median", "eager / time", "target")
    text = (
        f"Attention on the CPU, one head, N = {LENGTH}, d = {HEAD}, float32, {today()},\n"
        f"{where}.\n"
        f"Largest difference from eager torch: {error:.0e}.\n\n" + table(header, rows) + "\n\n"
        "With the gradients of all three, peak over inputs, outputs and gradients:\n\n"
        + table(
            ("", *(f"N = {n}" for n in lengths)),
            [(name, *(f"{p / MiB:.0f} MiB" for p in all_)) for name, all_ in gradients.items()],
        )
    )
    data = {
        "date": today(),
        "machine": where,
        "peak_bytes": peaks,
        "peak_bytes_with_gradients": gradients,
        "seconds": {name: summary(taken) for name, taken in seconds.items()},
        "difference": error,
    }
    return Report("cpu_memory", text, data, error < 1e-5)


def _bound(compute: Contender, tensors: list[torch.Tensor]) -> Callable[[], torch.Tensor]:
    return lambda: compute(*tensors)


def main() -> int:
    """Print the table."""
    parser = options(__doc__)
    parser.add_argument(
        "--peak-of",
        nargs=2,
        metavar=("NAME", "LENGTH"),
        help="one contender's peak, in this process",
    )
    parser.add_argument("--gradients", action="store_true", help="that of a call with gradients")
    chosen = parser.parse_args()
    if chosen.peak_of is not None:
        name, length = chosen.peak_of
        print(json.dumps(peak_of(name, int(length), chosen.gradients)))
        return 0
    report = measure(chosen.quick)
    print(report.text)
    write_json(chosen.json, [report])
    return 0 if report.right else 1


if __name__ == "__main__":
    sys.exit(main())
