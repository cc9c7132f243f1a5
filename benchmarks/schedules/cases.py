"""What schedules are measured on: library programs at sizes of every class, and one of them made
ready, on any device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor

import monocomp as mc
from benchmarks.gpu_floor import ATTENTION, E4M3, FULL, MATRIX, SHORT, Full
from benchmarks.variants import VARIANTS
from monocomp.backends.schedules import table
from monocomp.backends.schedules.legal import Legal, element_bytes
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.triton.emit import Module, Part, emit
from monocomp.backends.triton.launch import load
from monocomp.checking.sizes import complete_extents
from monocomp.declarations.dtypes import is_narrow

WIDE = (
    "attention", "causal", "softcap", "alibi", "gqa", "prefix_lm", "dropout", "sigmoid_attention",
    "linear_attention", "differential",
)  # fmt: skip
ODD = ("attention", "causal", "softcap", "alibi", "gqa", "learned_sink", "sliding_window", "varlen")
FEW_ROWS = (
    "attention", "gqa", "varlen", "sigmoid_attention", "softmax_one", "cosine_attention",
    "attention_statistics", "differential", "taylor_attention", "gaussian_attention", "dropout",
    "softpick", "tree",
)  # fmt: skip
# Those of these programs, too, as they are trained.
GRADIENTS = (
    "attention", "causal", "sliding_window", "softcap", "alibi", "gqa", "document", "gqa-causal",
    "relative-bias", "tree", "prefix_lm",
)  # fmt: skip
GRADIENT = "gradient of "
# Programs that neither the library nor the variants have.
OTHERS = {
    "squared_relu": """S[b,h,q,k] = relu(Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)) ** 2
O[b,h,q,e] = S[b,h,q,k] * V[b,h,k,e] / (1 + sum[k](S[b,h,q,k]))""",
    "two_softmaxes": """A[b,h,q,k] = softmax[k](Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|))
B[b,h,q,k] = softmax[k](P[b,h,q,d] * L[b,h,k,d] / sqrt(|d|))
O[b,h,q,e] = A[b,h,q,k] * V[b,h,k,e] + B[b,h,q,k] * W[b,h,k,e]""",
}
# Latent keys and values, as wide as those of mla, whose logits are capped.
OTHERS["capped_latent"] = """S[b,h,q,k] = X[b,h,q,c] * C[b,k,c] + Y[b,h,q,r] * R[b,k,r]
O[b,h,q,c] = softmax[k](30 * tanh(S[b,h,q,k] / (30 * sqrt(|c|)))) * C[b,k,c]"""
# Packed documents whose logits are capped.
OTHERS[
    "capped_documents"
] = """input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], start[b,q]: int, end[b,q]: int
S[b,h,q,k] = 30 * tanh(Q[b,h,q,d] * K[b,h,k,d] / (30 * sqrt(|d|)))
O[b,h,q,e] = softmax[k if start[b,q] <= k < end[b,q] and k <= q](S[b,h,q,k]) * V[b,h,k,e]"""
# Logits and weights that are mixed across heads.
OTHERS["mixed_heads"] = """S[b,g,q,k] = Q[b,g,q,d] * K[b,g,k,d] / sqrt(|d|)
P[b,h,q,k] = relu(S[b,g,q,k] * A[g,h]) ** 2
O[b,i,q,e] = P[b,h,q,k] * B[h,i] * V[b,i,k,e]"""
OTHERS["dots"] = "D[b,h,q] = X[b,h,q,e] * Y[b,h,q,e]"
INPUTS_AS = {"capped_documents": "document"}  # whose inputs have a meaning
# Of rows that are read several times.
ROWS = {
    "softmax": "softmax",
    "sparsemax": "sparsemax",
    "softmax_above_mean": """input X[i,k]
M[i] = sum[k](X[i,k]) / |k|
N[i] = sum[k](relu(X[i,k] - M[i])) / |k|
Y[i,k] = exp(X[i,k] - M[i] - N[i]) / sum[k](exp(X[i,k] - M[i] - N[i]))
return Y""",
    "bisected": """input X[i,k]
A[i] = max[k](X[i,k]) - 1
B[i] = A[i] + where(sum[k](relu(X[i,k] - A[i] - 1 / 2) ** 2) >= 1, 1 / 2, 0)
C[i] = B[i] + where(sum[k](relu(X[i,k] - B[i] - 1 / 4) ** 2) >= 1, 1 / 4, 0)
Y[i,k] = relu(X[i,k] - C[i]) ** 2 / sum[k](relu(X[i,k] - C[i]) ** 2)
return Y""",
    "normalised": """input X[i,k]
M[i] = sum[k](X[i,k]) / |k|
Y[i,k] = (X[i,k] - M[i]) / sqrt(sum[k]((X[i,k] - M[i]) ** 2) / |k| + 1 / 100000)
return Y""",
}
CACHES = ("paged_attention", "int8_cache", "rolling_cache", "fp8_cache")


@dataclass(frozen=True)
class Case:
    """A program at some sizes.

    Attributes:
        program: of the library or a variant of attention, by name, or the gradient of one.
        sizes: by index, in the order of the names.
        dtype: of floats, but for those that are stored in 8 bits.
        tier: 0 for what matters most.
    """

    program: str
    sizes: tuple[tuple[str, int], ...]
    dtype: str = "bfloat16"
    tier: int = 0

    def __str__(self) -> str:
        sizes = " ".join(f"{n}={size}" for n, size in self.sizes)
        return f"{self.program} {self.dtype} {sizes}"


def case(program: str, sizes: Mapping[str, int], dtype: str = "bfloat16", tier: int = 0) -> Case:
    """A case, of the sizes that the program has."""
    known = _indices(program)
    return Case(program, tuple(sorted((n, s) for n, s in sizes.items() if n in known)), dtype, tier)


def _text(program: str) -> str:
    """Of the library or a variant of attention, by name, or a gradient of one; or one's own."""
    if program.startswith(GRADIENT):
        return str(mc.grad(_text(program.removeprefix(GRADIENT))))
    variants = {v.name: v.program for v in VARIANTS}
    program = (variants | OTHERS | ROWS).get(program, program)
    return mc.library.load(program) if program in mc.library.names() else program


def _full(program: str) -> Full:
    name = program.removeprefix(GRADIENT)
    return FULL.get(INPUTS_AS.get(name, name), Full())


@cache
def _indices(program: str) -> frozenset[str]:
    return frozenset(mc.compile(_text(program)).declared.extent_of)


def cases() -> list[Case]:
    """Everything to measure, what matters most first."""
    return list(dict.fromkeys(sorted(_cases(), key=lambda c: c.tier)))


def _cases() -> Iterator[Case]:
    for name in mc.library.names():
        full = FULL.get(name, Full()).sizes
        yield case(name, full)
        is_attention = full.get("q", 1) > 1 and "e" in full
        if is_attention:
            head = 64 if full["d" if "d" in full else "c"] != 64 else 128
            other = {**full, "b": 2, "q": 2048, "d": head, "e": head}
            if "k" in full and name != "two_simplicial":
                other["k"] = 2048
            yield case(name, other, tier=1)
            if not any(d == E4M3 for d in FULL.get(name, Full()).stored.values()):
                small = {"b": 1, "h": 8, "q": 1024, "d": 64, "e": 64}
                small |= {n: 1024 for n in ("k",) if n in full and name != "two_simplicial"}
                small |= {n: 8 for n in ("g", "i") if n in full}
                yield case(name, {**full, **small}, "float32", tier=2)
        elif full == MATRIX:
            yield case(name, {"i": 256, "k": 65536}, tier=1)
            yield case(name, {"i": 65536, "k": 512}, tier=1)
            yield case(name, {"i": 8192, "k": 2048}, "float32", tier=2)
        elif "t" in full:
            yield case(name, {**full, "t": 1024, "v": 16384, "d": 1024}, tier=1)
            yield case(name, {"t": 1024, "v": 16384, "c": 512, "d": 512}, "float32", tier=2)
    for name in WIDE:
        yield case(name, {**FULL.get(name, Full()).sizes, "b": 2, "d": 256, "e": 256}, tier=1)
    for name in ODD:
        sizes = FULL.get(name, Full()).sizes
        yield case(name, {**sizes, "d": 96, "e": 96}, tier=1)
        yield case(name, {**sizes, "b": 1, "h": 8, "q": 1024, "k": 1024}, tier=2)
    for name in FEW_ROWS:
        sizes = {**ATTENTION, "h": 16, "g": 4}
        yield case(name, {**sizes, "q": 1, "b": 2, "k": 32768}, tier=1)
        yield case(name, {**sizes, "q": 1, "b": 64, "d": 64, "e": 64, "k": 4096}, tier=2)
        yield case(name, {**sizes, "q": 16, "b": 16, "k": 8192}, tier=2)
    for name in CACHES:
        sizes = FULL[name].sizes
        yield case(name, {**sizes, "b": 2, "n": 512, "k": 32768, "p": 1024}, tier=1)
        yield case(name, {**sizes, "d": 64, "e": 64}, tier=2)
    yield case("paged_attention", {**FULL["paged_attention"].sizes, "s": 16, "n": 512}, tier=1)
    chunk = {**FULL["paged_attention"].sizes, "q": 512, "b": 8}
    yield case("paged_attention", chunk, tier=1)
    yield case("gqa", {**ATTENTION, **SHORT, "h": 32, "g": 8, "q": 32, "k": 4096}, tier=2)
    for name in GRADIENTS:
        for head, heads in ((128, 16), (64, 32)):
            sizes = {"b": 4, "h": heads, "q": 4096, "k": 4096, "d": head, "e": head}
            sizes |= {"h": 32, "g": 8} if name.startswith("gqa") else {}
            sizes |= {"r": 8191}
            yield case(GRADIENT + name, sizes)
            long = {"b": 1, "q": 16384, "k": 16384, "r": 32767}
            yield case(GRADIENT + name, {**sizes, **long}, tier=1)
    for name in mc.library.names():
        if name not in GRADIENTS and _has_gradient(name):
            yield case(GRADIENT + name, FULL.get(name, Full()).sizes)
    latent = {"b": 2, "h": 24, "q": 4096, "k": 4096, "c": 512, "r": 64}
    yield case(GRADIENT + "capped_latent", latent, tier=1)
    yield case(GRADIENT + "capped_latent", FULL["mla"].sizes, tier=1)
    for head in (64, 128):
        sizes = {"b": 2, "g": 16, "h": 16, "i": 16, "q": 2048, "k": 2048, "d": head, "e": head}
        yield case("mixed_heads", sizes, tier=1)
    for length in (64, 128, 256, 512, 1024):
        for dtype in ("bfloat16", "float32"):
            yield case("dots", {"b": 4, "h": 32, "q": 2048, "e": length}, dtype, tier=1)
    for head, heads in ((128, 16), (64, 32)):
        sizes = {"b": 4, "h": heads, "q": 4096, "k": 4096, "d": head, "e": head}
        yield case(GRADIENT + "capped_documents", sizes, tier=1)
        long = {"b": 1, "q": 16384, "k": 16384}
        yield case(GRADIENT + "capped_documents", {**sizes, **long}, tier=1)
    for name in ("attention", "causal", "sliding_window"):
        sizes = {"b": 2, "h": 16, "q": 4096, "k": 4096, "d": 256, "e": 256}
        yield case(name, sizes, tier=1)
        yield case(GRADIENT + name, sizes, tier=1)
        yield case(name, {**sizes, "b": 4, "h": 32, "d": 64, "e": 64}, tier=1)
        if name != "sliding_window":
            long = {"b": 1, "h": 8, "q": 16384, "k": 16384}
            yield case(GRADIENT + name, {**sizes, **long}, tier=1)
    for name in ROWS:
        for length, rows in {8192: 16384, 5120: 16384, 2048: 32768, 512: 65536, 65536: 64}.items():
            yield case(name, {"i": rows, "k": length}, tier=1)
    for name in ("squared_relu", "two_softmaxes"):
        for head, dtype in ((128, "bfloat16"), (64, "bfloat16"), (64, "float32")):
            sizes = {"b": 2, "h": 16, "q": 2048, "k": 2048, "d": head, "e": head}
            sizes |= {"b": 1, "h": 8, "q": 1024, "k": 1024} if dtype == "float32" else {}
            yield case(name, sizes, dtype, tier=1)
        yield case(name, {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 128, "e": 128})
    for head, heads in ((128, 16), (64, 32)):
        sizes = {"b": 4, "h": heads, "q": 4096, "k": 4096, "d": head, "e": head, "r": 8191}
        yield case("relative-bias", sizes)


def _has_gradient(name: str) -> bool:
    """True if a program of the library has an output and an input of floats that torch
    differentiates."""
    program = mc.compile(mc.library.load(name)).equations
    is_stored = bool(FULL.get(name, Full()).stored)
    is_float = any(i.kind == "float" for i in program.declared.inputs.values())
    return is_float and not is_stored and any(e.body.kind == "float" for e in program.outputs)


def name_of(text: str) -> str:
    """A short name for a text."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class Prepared:
    """A case made ready: its inputs and kernels.

    Args:
        case: which.
        device: where its tensors lie; on "meta" they hold nothing.
        target: what schedules are for.
        processors: of the GPU.
    """

    def __init__(self, case: Case, device: str, target: str, processors: int) -> None:
        kernel = mc.compile(_text(case.program))
        full = _full(case.program)
        self.full, self.device, self.equations = full, device, kernel.equations
        self.inputs = _inputs(kernel, full, case, device)
        shapes = {n: tuple(t.shape) for n, t in self.inputs.items()}
        binding = kernel.calls.bind(shapes, full.params)
        self.params, extents = binding.params, binding.extents
        narrow = {n: str(t.dtype)[6:] for n, t in self.inputs.items() if is_narrow(t)}
        plan = kernel.planner.plan(extents, processors, narrow=narrow)
        self.kernels, self.plan = plan.kernels, plan
        self.sizes = plan.extents(extents)
        floats = {n: t for n, t in self.inputs.items() if t.is_floating_point()}
        widths = {n: t.element_size() for n, t in floats.items()}
        widths = plan.program.with_slices(widths)
        self.narrow = narrow
        how = [(k, self.sizes, element_bytes(k, widths), target, processors) for k in self.kernels]
        self.legal = [Legal(*h) for h in how]
        self._modules: dict[tuple[Any, ...], Module] = {}

    @cached_property
    def firsts(self) -> tuple[Schedule, ...]:
        """What calls take where nothing is measured."""
        return tuple(map(table.first, self.legal))

    def digest(self, number: int) -> str:
        """The same for kernels that are the same at the same sizes."""
        kernel = self.kernels[number]
        sizes = sorted((e, self.sizes.get(e)) for e in kernel.extents())
        return name_of(f"{kernel}\n{sizes}\n{self.legal[number].element_bytes}")

    def choice(self, number: int, schedule: Schedule) -> tuple[Schedule, ...]:
        """This schedule for one kernel, the others as they come first."""
        return (*self.firsts[:number], schedule, *self.firsts[number + 1 :])

    def module(self, choice: tuple[Schedule, ...]) -> Module:
        """The file that runs these schedules."""
        key = tuple(s.in_source for s in choice)
        found = self._modules.get(key)
        if found is None:
            pairs = zip(self.firsts, choice, strict=True)
            held = [first.with_source_of(s) for first, s in pairs]
            start = self.equations.of_dtypes(self.narrow)
            found = self._modules[key] = emit(Part(start, self.kernels, held, self.plan.program))
        return found

    def call(
        self,
        choice: tuple[Schedule, ...],
        launch: Callable[..., None],
        empty: Callable[..., Tensor] = torch.empty,
    ) -> tuple[Tensor, ...]:
        """The results of the host function, which launches by calling `launch`."""
        module = self.module(choice)
        named = {module.params[n]: v for n, v in self.params.items()}
        configs = tuple(module.config(n, s) for n, s in enumerate(choice))
        host = getattr(load(module.source), module.host)
        found = host(*self.inputs.values(), **named, configs=configs, launch=launch, empty=empty)
        return found if isinstance(found, tuple) else (found,)

    def timed(self, number: int, module: Module) -> set[str]:
        """The kernels whose time a schedule counts by, by name: its own, and those that merge the
        splits of its streams."""
        names = [k.name for k in module.program.kernels]
        splits = self.kernels[number].splits
        later = range(number + 1, len(names))
        merging = [m for m in later if splits & {*self.kernels[m].extents()}]
        return {names[m] for m in (number, *merging)}


def _inputs(kernel: mc.Kernel, full: Full, case: Case, device: str) -> dict[str, Tensor]:
    dtype = getattr(torch, case.dtype)
    extents = complete_extents(kernel.equations, dict(case.sizes), full.params)
    made: dict[str, Any] = {}
    given = {e.name for e in kernel.equations.given}  # saved as they are computed
    for at in kernel.declared.inputs.values():
        shape = [extents[dim] for dim in at.dims]
        if at.kind == "float":
            kept = torch.float32 if at.name in given else dtype
            made[at.name] = torch.randn(shape, device=device, dtype=kept)
        elif at.kind == "int":
            made[at.name] = torch.randint(0, extents.get("v", 1), shape, device=device)
        else:
            made[at.name] = torch.rand(shape, device=device) < 0.1
    if full.sensible is not None:
        full.sensible(made)
    return full.in_storage(made)
