"""Every program of the library on one GPU, bf16: its time over its own floor.

The floor is the larger of two times: operations over 809 TFLOP/s, and bytes over 4.2 TB/s, both
as measured on an H200. Operations are those of the matrix products that the program needs, two
for each product of numbers, times the part of the pairs that its mask admits; they are written
down here for each program, so that they do not depend on how it was compiled. Bytes are those of
the inputs and the outputs, each counted once. Element-wise work is not counted, so a program
that has much of it (laplace_attention, sparsemax) stays far from its floor. Programs that read a
cache decode: one query a request, of a gigabyte of keys and values.

Each program is first checked at a small size: its error against float64 eager torch, for all
outputs, relative to that of eager torch in bf16, and at its full size in poisoned memory: every
element must be written and finite, and bitwise the same twice. Eager torch is timed beside it,
where it has the operations, and memory for what they give.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.peers import DTYPE, OURS
from benchmarks.report import Report, table
from monocomp.checking.sizes import complete_extents
from tests.backends.library_cases import CASES, Inputs, gentle_slopes

TERAFLOPS, TERABYTES = 809.0, 4.2
EAGER = "eager"
ON_THE_CPU = ("dropout",)  # eager torch has its random numbers from NumPy
CHECKED = {"q": 200, "k": 200, "d": 64, "e": 64}  # not multiples of a block
SMALL = {"q": 24, "k": 24, "d": 16, "e": 16}
REHEARSED, REHEARSED_BATCH = 48, 2  # the longest index, and the batch
TOLERATED = 2.0  # an error over that of eager torch in bf16

Sizes: TypeAlias = Mapping[str, int]
# b, h, q, k, d, e of attention; its heads and lengths follow from the index names
ATTENTION = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 128, "e": 128}
SHORT = {"b": 2, "h": 16, "q": 2048, "k": 2048, "d": 64, "e": 64}
MATRIX = {"i": 16384, "k": 8192}
DECODED = {"h": 32, "g": 8, "q": 1, "d": 128, "e": 128}
WINDOW = 4096  # of the rolling cache
E4M3 = torch.float8_e4m3fn


def _causal(sizes: Sizes) -> float:
    return (sizes["k"] + 1) / (2 * sizes["k"])


def _windowed(width: int) -> Callable[[Sizes], float]:
    def area(sizes: Sizes) -> float:
        n = sizes["k"]
        w = min(width, n)
        return (w * n - w * (w - 1) / 2) / n**2

    return area


def _prefix(sizes: Sizes) -> float:
    n, p = sizes["k"], sizes["k"] // 4
    return (n * (n + 1) / 2 + p * (p - 1) / 2) / n**2


def _packed(sizes: Sizes) -> float:
    return _causal({"k": DOCUMENT}) * DOCUMENT / sizes["k"]


DOCUMENT = 1024


def _documents(made: Inputs) -> None:
    start = made["start"]
    positions = torch.arange(start.shape[1], device=start.device).expand_as(start)
    first = positions // DOCUMENT * DOCUMENT
    made["start"], made["end"] = first.int(), (first + DOCUMENT).int()


def _prefixes(made: Inputs) -> None:
    made["prefix"] = torch.full_like(made["prefix"], made["K"].shape[2] // 4)


def _lengths(made: Inputs) -> None:
    made["length"] = torch.full_like(made["length"], made["K"].shape[2])


def _wrapped(made: Inputs) -> None:
    """More tokens than a ring has slots."""
    made["length"] = torch.full_like(made["length"], made["K"].shape[2] * 5 // 2)


def _integers(made: Inputs) -> None:
    """Scales that give keys and values a deviation of about 1."""
    _lengths(made)
    for name in ("K", "V"):
        made[name] = torch.randint_like(made[name], -127, 128, dtype=torch.int8)
        made[f"S{name}"] = torch.full_like(made[f"S{name}"], 1 / 73)


def _pages(made: Inputs) -> None:
    """All pages in any order, each in use once."""
    table, (count, size) = made["table"], made["K"].shape[:2]
    positions = torch.randperm(table.numel(), device=table.device) % count
    made["table"] = positions.view_as(table).int()
    made["length"] = torch.full_like(made["length"], table.shape[1] * size)


def _pages_of_e4m3(made: Inputs) -> None:
    _pages(made)
    for name in ("sk", "sv"):
        made[name] = torch.ones_like(made[name])


@dataclass(frozen=True)
class Full:
    """A program's full size.

    Attributes:
        sizes: by index.
        area: the part of all pairs that a mask admits.
        products: the indices of each matrix product.
        sensible: makes inputs that are not just random.
        params: that are not at their defaults.
        stored: dtypes of inputs that are not in bf16.
        checked: sizes at which errors are taken, beside or instead of the usual ones.
    """

    sizes: Sizes = field(default_factory=lambda: ATTENTION)
    area: Callable[[Sizes], float] = lambda sizes: 1.0
    sensible: Callable[[Inputs], None] | None = None
    products: tuple[str, ...] = ("bhqkd", "bhqke")
    params: Mapping[str, Any] = field(default_factory=dict)
    stored: Mapping[str, torch.dtype] = field(default_factory=dict)
    checked: Sizes = field(default_factory=dict)

    def in_storage(self, made: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Inputs in the dtypes in which they are stored."""
        return {name: x.to(self.stored.get(name, x.dtype)) for name, x in made.items()}

    def operations(self, sizes: Sizes) -> float:
        """Of all products; two for each product of numbers."""
        each = (math.prod(sizes[index] for index in product) for product in self.products)
        return 2.0 * sum(each) * self.area(sizes)


LAYER = ("tvd",)
LINEAR = ("bhkde", "bhqde")
FULL = {
    "causal": Full(area=_causal),
    "alibi": Full(area=_causal, sensible=gentle_slopes),
    "softcap": Full(area=_causal),
    "learned_sink": Full(area=_causal),
    "column_sums": Full(area=_causal, products=("bhqkd",)),
    "sliding_window": Full(area=_windowed(1024)),
    "sink_window": Full(area=_windowed(1024)),
    "prefix_lm": Full(area=_prefix, sensible=_prefixes),
    "document": Full(area=_packed, sensible=_documents),
    "varlen": Full(sensible=_lengths),
    "gqa": Full({**ATTENTION, "h": 32, "g": 8}),
    "mla": Full(
        {"b": 4, "h": 32, "q": 2048, "k": 2048, "c": 512, "r": 64},
        _causal,
        products=("bhqkc", "bhqkr", "bhqkc"),
    ),
    "cross_entropy": Full({"t": 8192, "v": 32768, "d": 2048}, products=LAYER),
    "softmax_top8": Full({"t": 8192, "v": 32768, "d": 2048}, products=LAYER),
    "kl_divergence": Full({"t": 4096, "v": 32768, "c": 2048, "d": 1024}, products=("tvc", "tvd")),
    "merge_states": Full({**ATTENTION, "s": 8}, products=()),
    "talking_heads": Full(
        {**SHORT, "g": 16, "i": 16}, products=("bgqkd", "bghqk", "bhiqk", "biqke")
    ),
    "pair_bias": Full({**SHORT, "b": 1, "c": 32}, products=("bhqkd", "qkch", "bhqke")),
    "shaw_values": Full({**SHORT, "r": 33}, products=("bhqkd", "bhqrd", "bhqre", "bhqke")),
    "attention_moments": Full(products=("bhqkd", "bhqke", "bhqke")),
    "attention_jvp": Full(SHORT, products=("bhqkd",) * 3 + ("bhqke",) * 3),
    "differential": Full(products=("bhqkd", "bhqkd", "bhqke", "bhqke")),
    "gaussian_attention": Full(SHORT),
    "laplace_attention": Full({**SHORT, "b": 1}, products=("bhqke",)),
    "two_simplicial": Full(
        {**SHORT, "b": 1, "h": 4, "q": 1024, "j": 64, "k": 512}, products=("bhqjkd", "bhqjke")
    ),
    "dilated": Full({**ATTENTION, "b": 1}, products=("bhqjd", "bhqje")),
    "tree": Full({**ATTENTION, "q": 2048, "k": 2048}),
    "paged_attention": Full(
        {**DECODED, "b": 32, "p": 4096, "s": 64, "n": 128},
        sensible=_pages,
        checked={"q": 1, "s": 64, "n": 9, "p": 20},
    ),
    "fp8_cache": Full(
        {**DECODED, "b": 64, "p": 8192, "s": 64, "n": 128},
        sensible=_pages_of_e4m3,
        stored={"K": E4M3, "V": E4M3},
        checked={"q": 1, "s": 64, "n": 9, "p": 20},
    ),
    "int8_cache": Full(
        {**DECODED, "b": 32, "k": 16384}, sensible=_integers, checked={"q": 1, "k": 600}
    ),
    "rolling_cache": Full(
        {**DECODED, "b": 64, "r": WINDOW},
        sensible=_wrapped,
        products=("bhqrd", "bhqre"),
        params={"window": WINDOW},
        checked={"q": 1, "r": 600},
    ),
    "fp8_attention": Full(
        {**ATTENTION, "i": 32, "j": 32},
        stored=dict.fromkeys("QKV", E4M3),
        checked={"i": 2, "j": 2},
    ),
    "linear_attention": Full(products=LINEAR),
    "hedgehog_attention": Full(products=LINEAR + LINEAR),
    **{
        name: Full(MATRIX, products=())
        for name in (
            "softmax",
            "logsumexp",
            "variance",
            "layer_norm",
            "log_softmax_statistics",
            "sparsemax",
        )
    },
}


@dataclass(frozen=True)
class Case:
    """A program of the library."""

    name: str

    @property
    def words(self) -> tuple[str]:
        """What `--only` is compared with."""
        return (self.name,)


@dataclass
class Result:
    """What was found for one program."""

    name: str
    error: float = math.nan
    milliseconds: float = math.nan
    eager_milliseconds: float = math.nan
    operations: float = math.nan
    bytes: float = math.nan
    kernels: int = 0
    schedule: str = ""
    sizes: str = ""

    @property
    def compute_ms(self) -> float:
        """What the operations take at best."""
        return self.operations / TERAFLOPS / 1e9

    @property
    def memory_ms(self) -> float:
        """What moving the bytes takes at best."""
        return self.bytes / TERABYTES / 1e9

    @property
    def over_floor(self) -> float:
        """The time over the floor."""
        return self.milliseconds / max(self.compute_ms, self.memory_ms)

    @property
    def right(self) -> bool:
        """Did it run, and well enough?"""
        return self.error <= TOLERATED

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {**vars(self), "over_floor": self.over_floor}


def _all(results: object) -> tuple[Tensor, ...]:
    found = results if isinstance(results, tuple) else (results,)
    assert all(isinstance(x, Tensor) for x in found)
    return found


def error_at_small_size(name: str, setting: Setting) -> float:
    """The largest error of an output over that of eager torch in bf16."""
    case, full = CASES[name], FULL.get(name, Full())
    lengths = SMALL if setting.rehearse else CHECKED
    if name in ("gaussian_attention", "hedgehog_attention", "attention_moments"):
        lengths = SMALL if setting.rehearse else {**CHECKED, "d": 32, "e": 32}
    inputs = full.in_storage(case.inputs({**case.sizes(**lengths), **full.checked}, DTYPE))
    if name == "tree":  # without a row that is masked entirely
        inputs["ancestor"][:, 0] = True
    wide = {n: t.double() if t.is_floating_point() else t for n, t in inputs.items()}
    exact = case.in_eager_torch(wide)
    try:
        eager = case.in_eager_torch(inputs)
    except NotImplementedError:  # torch has no cdist in bf16: take the exact result, rounded once
        eager = tuple(x.to(DTYPE) if x.is_floating_point() else x for x in exact)
    there = [t.to(setting.device) for t in inputs.values()]
    found = _all(peers.kernel(name)(*there, **case.params))
    worst = 0.0
    for ours, theirs, right in zip(found, eager, exact, strict=True):
        ours = ours.cpu()
        if not right.is_floating_point():  # positions of the largest: ties may differ
            worst = max(worst, 0.0 if (ours == right).double().mean() > 0.9 else math.inf)
            continue
        least = torch.finfo(DTYPE).eps / 4  # eager torch may be right by chance
        worst = max(worst, errors.relative_error(ours, right) / max(_error(theirs, right), least))
    return worst


def _error(found: Tensor, exact: Tensor) -> float:
    """Of eager torch, whose bf16 may not be finite."""
    error = errors.relative_error(found, exact)
    return error if math.isfinite(error) else 1.0


def full_inputs(name: str, setting: Setting) -> dict[str, Tensor]:
    """Inputs at the full size."""
    full, device = FULL.get(name, Full()), setting.device
    equations = peers.kernel(name).equations
    longest = REHEARSED if setting.rehearse else max(full.sizes.values())
    given = {
        n: min(size, longest) for n, size in full.sizes.items() if n in equations.declared.extent_of
    }
    if setting.rehearse and "b" in given:
        given["b"] = min(given["b"], REHEARSED_BATCH)
    extents = complete_extents(equations, given, full.params)
    made: dict[str, Tensor] = {}
    for at in equations.declared.inputs.values():
        shape = [extents[dim] for dim in at.dims]
        if at.kind == "float":
            made[at.name] = torch.randn(shape, device=device, dtype=DTYPE)
        elif at.kind == "int":
            made[at.name] = torch.randint(0, extents.get("v", 1), shape, device=device)
        else:
            made[at.name] = torch.rand(shape, device=device) < 0.1
    if full.sensible is not None:
        full.sensible(made)
    return full.in_storage(made)


def run_case(name: str, setting: Setting) -> Result:
    """Check, then time."""
    result, full = Result(name), FULL.get(name, Full())
    result.error = error_at_small_size(name, setting)
    inputs = full_inputs(name, setting)
    kernel, tensors = peers.kernel(name), list(inputs.values())
    table_of = kernel.declared.extent_of
    shapes = {n: tuple(t.shape) for n, t in inputs.items()}
    known = kernel.calls.bind(shapes, full.params).extents
    sizes = {n: known[root] for n, root in table_of.items() if root in known}
    result.sizes = " ".join(f"{n}={size}" for n, size in sizes.items() if n[0] != ".")
    found = _all(kernel(*tensors, **full.params))
    for output in found:
        errors.poison(output)
    again = _all(kernel(*tensors, **full.params))
    for first, second in zip(found, again, strict=True):
        if not bool(torch.isfinite(second).all()):
            raise ArithmeticError("an element is not finite, or was not written")
        if not torch.equal(first, second):
            raise ArithmeticError("two calls give different results")
    result.operations = full.operations(sizes)
    result.bytes = sum(float(t.nbytes) for t in (*tensors, *found))
    chosen = peers.schedules(name, *tensors, **full.params)
    result.kernels = len(chosen) or kernel.report(sizes)["kernels"]
    result.schedule = "; ".join(chosen)
    del found, again
    calls: dict[str, Callable[[], object]] = {OURS: partial(kernel, *tensors, **full.params)}
    eager = partial(replace(CASES[name], params=full.params).in_eager_torch, inputs)
    try:
        if name not in ON_THE_CPU:
            eager()
            calls[EAGER] = eager
    except (torch.OutOfMemoryError, NotImplementedError) as fault:
        gpu.say(f"{name}: no eager torch ({str(fault).partition('.')[0]})")
    taken = gpu.times(calls, setting.rounds, setting.device)
    result.milliseconds = statistics.median(taken[OURS])
    result.eager_milliseconds = statistics.median(taken.get(EAGER, [math.nan]))
    gpu.say(
        f"{name}: {result.over_floor:.2f}x its floor, {result.milliseconds:.3f} ms, "
        f"error {result.error:.2f}; {result.schedule}"
    )
    return result


def tables(setting: Setting) -> Report:
    """The table."""
    run = gpu.Run(setting)
    chosen = setting.select([Case(name) for name in CASES])
    with patch.dict(os.environ, MONOCOMP_TUNE="0"):
        results = run.each(chosen, lambda case: run_case(case.name, setting))
    ran = sorted(results, key=lambda r: r.over_floor)
    header = ["", "ms", "eager, ms", "floor, ms", "by", "x eager", "time / floor"]
    header += ["TFLOP/s", "TB/s", "error", "kernels"]
    rows = []
    for r in ran:
        by = "matrix units" if r.compute_ms > r.memory_ms else "memory"
        floor = max(r.compute_ms, r.memory_ms)
        times = (r.milliseconds, r.eager_milliseconds, floor)
        before = gpu.numbers(times, (".3f", ".3f", ".3f"))
        faster = r.eager_milliseconds / r.milliseconds
        rates = (
            faster,
            r.over_floor,
            r.operations / r.milliseconds / 1e9,
            r.bytes / r.milliseconds / 1e9,
        )
        after = gpu.numbers((*rates, r.error), (".2f", ".2f", ".0f", ".2f", ".2f"))
        rows.append([r.name, *before, by, *after, r.kernels, r.sizes, r.schedule])
    lines = [
        "Every program of the library, bf16, with the schedules of first calls: time over its "
        "floor, the larger of operations over "
        f"{TERAFLOPS:.0f} TFLOP/s and bytes over {TERABYTES} TB/s, "
        f"medians of {setting.rounds} rounds.",
        *run.notes(),
        "Operations are those of the matrix products, over the pairs that a mask admits. The "
        "error is "
        "against float64 eager torch at a small size, relative to that of eager torch in bf16.",
        "",
        table([*header, "sizes", "schedule"], rows),
        "",
        f"{len(ran)} of {len(chosen)} ran; geometric mean "
        f"{gpu.number(gpu.geometric_mean([r.over_floor for r in ran]))}x.",
    ]
    return run.report("gpu_floor", lines, results)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
