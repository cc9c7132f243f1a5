"""The torch backend on the CPU: every library program beside the same in eager torch, and in
torch's scaled_dot_product_attention where that has a form for it, and a GPT.

Forward, and forward with the gradients of all floats, at a small and a medium size, each pair timed
in turn in one process; what is compared is the least time of each. With one thread, as unless told,
it is the processor's time, which other work on the machine hardly changes. Names choose programs:

    python -m benchmarks.cpu causal alibi --threads 2
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.report import (
    Report,
    alternating,
    listed,
    load,
    options,
    processor,
    table,
    today,
    versions,
    write_json,
)

if TYPE_CHECKING:
    import torch

    from tests.backends.library_cases import Case

SIZES = {"small": (64, 16), "medium": (256, 64)}  # length, head size
HEADS = 4
GPT = "a step of the GPT"
Times = dict[str, dict[str, float]]  # of each contender, by what is timed
OURS, EAGER, SDPA = "monocomp", "eager torch", "torch SDPA"


def unavailable() -> str | None:
    """Why this cannot be measured here."""
    return None


def inputs_at(case: Case, size: str) -> dict[str, torch.Tensor]:
    """The inputs of a program."""
    length, head = SIZES[size]
    extents = case.sizes(length, length, head, head)
    if "h" in extents and "h" not in case.extents:
        extents["h"] = HEADS
    return case.inputs(extents)


def pair(case: Case, size: str, differentiated: bool) -> dict[str, Callable[[], Any]]:
    """A program and the same in eager torch, on the same inputs."""
    import torch

    import monocomp as mc

    inputs = inputs_at(case, size)
    floats = [t for t in inputs.values() if t.dtype == torch.float32]
    kernel = mc.compile(case.text, backend="torch")

    def ours(tensors: Mapping[str, torch.Tensor]) -> Any:
        return kernel(**tensors, **case.params)

    def run(compute: Callable[[Mapping[str, torch.Tensor]], Any]) -> Any:
        if not differentiated:
            with torch.no_grad():
                return compute(inputs)
        made = compute(inputs)
        every = made if isinstance(made, tuple) else (made,)
        results = [x for x in every if x.is_floating_point()]
        cotangents = [x.detach() for x in results]
        return torch.autograd.grad(results, floats, cotangents, allow_unused=True)

    for t in floats:
        t.requires_grad_(differentiated)
    computations = {OURS: lambda: run(ours), EAGER: lambda: run(case.in_eager_torch)}
    fused = sdpa(case)
    if fused is not None:
        computations[SDPA] = lambda: run(fused)
    return computations


def sdpa(case: Case) -> Callable[[Mapping[str, torch.Tensor]], Any] | None:
    """Return a program as scaled_dot_product_attention with a mask, if it has such a form."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    def relative(x: Mapping[str, torch.Tensor]) -> torch.Tensor:
        q, k = (torch.arange(x[n].shape[-2]) for n in "QK")
        return q[:, None] - k

    def window(x: Mapping[str, torch.Tensor]) -> torch.Tensor:
        distance = relative(x)
        return torch.logical_and(distance >= 0, distance < case.params["window"])

    def slopes(x: Mapping[str, torch.Tensor]) -> torch.Tensor:
        distance = relative(x)
        return torch.where(distance < 0, -torch.inf, -x["slope"][:, None, None] * distance)

    every = "attention", "naive_attention", "safe_attention", "lazy_attention"
    options: dict[str, Callable[[Mapping[str, torch.Tensor]], dict[str, Any]]] = {
        **dict.fromkeys(every, lambda x: {}),
        "causal": lambda x: {"is_causal": True},
        "gqa": lambda x: {"enable_gqa": True},
        "sliding_window": lambda x: {"attn_mask": window(x)},
        "alibi": lambda x: {"attn_mask": slopes(x)},
    }
    chosen = options.get(case.name)
    if chosen is None:
        return None
    return lambda x: scaled_dot_product_attention(x["Q"], x["K"], x["V"], **chosen(x))


def gpt() -> dict[str, Callable[[], Any]]:
    """A step of training, with attention that is derived and in eager torch: two layers of the
    model of `benchmarks.training`, with learned slopes."""
    import torch

    from benchmarks.training import VARIANTS, Model, derived

    variant = VARIANTS["learned slopes"]
    tokens = torch.randint(256, (4, 129), generator=torch.Generator().manual_seed(0))

    def step(attend: Any) -> Callable[[], Any]:
        torch.manual_seed(0)
        model = Model(128, HEADS, 2, attend, variant.start)
        optimiser = torch.optim.AdamW(model.parameters())

        def run() -> None:
            optimiser.zero_grad()
            model(tokens).backward()
            optimiser.step()

        return run

    return {OURS: step(derived(variant)), EAGER: step(variant.eager)}


def times(compute: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The least milliseconds of a call of each contender, over turns of at least a millisecond."""
    import torch

    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    for call in compute.values():
        call()
    once = {name: min(seconds) for name, seconds in alternating(compute, 3, clock).items()}
    count = math.ceil(1e-3 / min(once.values()))

    def repeated(call: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(count):
                call()

        return run

    taken = alternating({name: repeated(call) for name, call in compute.items()}, rounds, clock)
    return {name: min(seconds) / count * 1e3 for name, seconds in taken.items()}


def measured(names: Sequence[str], rounds: int) -> dict[str, Times]:
    """The times of programs, by name and then by what is timed."""
    from tests.backends.library_cases import CASES

    found: dict[str, Times] = {}
    for name in names:
        row = found[name] = {}
        for size in SIZES:
            for is_backward, what in enumerate(("forward", "both passes")):
                computed = pair(CASES[name], size, bool(is_backward))
                row[f"{size}, {what}"] = times(computed, rounds)
        print(f"{name} done", file=sys.stderr, flush=True)
    return found


def measure(quick: bool = False, names: Sequence[str] = ()) -> Report:
    """The table."""
    import torch

    from tests.backends.library_cases import CASES

    busy, rounds = load(), 3 if quick else 15
    found = measured(names or tuple(CASES), rounds)
    found[GPT] = {"medium, both passes": times(gpt(), rounds)}
    columns = [f"{size}, {what}" for size in SIZES for what in ("forward", "both passes")]
    rows = [
        (name, *(_shown(row[c]) if c in row else "" for c in columns))
        for name, row in found.items()
    ]
    ratios = {c: [r[c][OURS] / r[c][EAGER] for r in found.values() if c in r] for c in columns}
    rows.append(
        ("geometric mean", *(f"{statistics.geometric_mean(r):.2f}" for r in ratios.values()))
    )
    where = (
        f"{processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads; "
        f"{listed(versions('torch'))}; {busy}"
    )
    text = (
        f"The library on the CPU, float32, {HEADS} heads, lengths and head sizes "
        f"{', '.join(f'{n} and {d}' for n, d in SIZES.values())}, {today()},\n{where}.\n"
        "Milliseconds of ours / of eager torch, and the ratio: below 1 ours is faster; then those\n"
        "of scaled_dot_product_attention.\n\n" + table(("", *columns), rows)
    )
    data = {"date": today(), "machine": where, "milliseconds": found}
    return Report("cpu", text, data, True)


def _shown(row: Mapping[str, float]) -> str:
    ours, eager = row[OURS], row[EAGER]
    fused = f"; {row[SDPA]:.2f}" if SDPA in row else ""
    return f"{ours:.2f} / {eager:.2f} = {ours / eager:.2f}{fused}"


def main() -> int:
    """Print the table."""
    import torch

    parser = options(__doc__)
    parser.add_argument("names", nargs="*", help="of library programs; all, unless given")
    parser.add_argument("--threads", type=int, default=1, help="that torch uses")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    report = measure(chosen.quick, chosen.names)
    print(report.text)
    write_json(chosen.json, [report])
    return 0


if __name__ == "__main__":
    sys.exit(main())
