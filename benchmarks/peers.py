"""Those that the benchmarks on one GPU time: our kernels, FlexAttention, SDPA, FlashAttention-3."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

import monocomp as mc
from benchmarks.report import in_one_line
from monocomp.backends.schedules import table
from monocomp.extents.nominal import packed_extents

# As the peers search their own options, first calls search schedules, unless told not to.
os.environ.setdefault("MONOCOMP_TUNE", "1")

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # in rehearsals
DTYPE = torch.float16 if INTERPRETED else torch.bfloat16  # whose products are not interpreted
OURS, FLEX, CUDNN, FLASH, FA3 = "monocomp", "Flex", "cuDNN", "FA2", "FA3"

Call: TypeAlias = Callable[[], Any]  # of a tensor, or several
Prepare: TypeAlias = Callable[[], Call]
Score: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
Mask: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Mods: TypeAlias = tuple[Score | None, Mask | None]


def is_ours(name: str) -> bool:
    """Is this contender one of monocomp's?"""
    return name.startswith(OURS)


@cache
def kernel(program: str, name: str | None = None, save: tuple[str, ...] | None = None) -> mc.Kernel:
    """A program of the library, by its name, or a text, compiled; `save` as for `mc.compile`.

    In a rehearsal with TRITON_INTERPRET=1 it is emitted source that runs.
    """
    backend = "triton" if INTERPRETED else "auto"
    if program in mc.library.names():
        name = program
    return mc.compile(text(program), name=name, backend=backend, save=save)


def text(program: str) -> str:
    """The text of a program of the library, or the text itself."""
    return mc.library.load(program) if program in mc.library.names() else program


def ours(program: str, *inputs: Tensor, **params: Any) -> Prepare:
    """Our kernel; of several outputs the first."""

    def prepare() -> Call:
        compiled = kernel(program)

        def call() -> Tensor:
            result = compiled(*inputs, **params)
            first = result[0] if isinstance(result, tuple) else result
            assert isinstance(first, Tensor)
            return first

        return call

    return prepare


def schedule(program: str, *tensors: Tensor, **params: Any) -> str:
    """What is chosen for these inputs, in words; empty where nothing is to be chosen."""
    return "; ".join(schedules(program, *tensors, **params))


def schedules(program: str, *tensors: Tensor, **params: Any) -> tuple[str, ...]:
    """The same of each kernel that is launched."""
    if tensors[0].device.type != "cuda" and not INTERPRETED:
        return ()
    try:
        return _schedules(kernel(program), tensors, params)
    except Exception as fault:  # only words: no measurement is lost for them
        return (in_one_line(fault),)


def _schedules(
    compiled: mc.Kernel, tensors: Sequence[Tensor], params: Mapping[str, Any]
) -> tuple[str, ...]:
    inputs = dict(zip(compiled.declared.inputs, tensors, strict=True))
    binding = compiled.calls.bind({n: tuple(t.shape) for n, t in inputs.items()}, params)
    runner = compiled.calls.runner(inputs, binding)
    extents = packed_extents(runner.program, binding.extents)
    chosen = runner.schedules(inputs, binding.params, extents)
    return tuple(map(str, chosen))


def in_one_tile(program: str, *tensors: Tensor) -> Prepare:
    """Our kernel with the first schedule that holds every axis as one tile."""

    def prepare() -> Call:
        compiled = kernel(program)
        inputs = dict(zip(compiled.declared.inputs, tensors, strict=True))
        if tensors[0].device.type != "cuda" and not INTERPRETED:
            return ours(program, *tensors)()
        binding = compiled.calls.bind({n: tuple(t.shape) for n, t in inputs.items()}, {})
        runner = compiled.calls.runner(inputs, binding)
        forms = runner.forms(inputs, packed_extents(runner.program, binding.extents))
        legal = (each.legal[0] for each in forms)
        chosen = tuple(next(s for s in table.ranked(x) if not s.split_axes) for x in legal)
        _, plan = runner._call(inputs, binding.params, chosen)
        return lambda: plan((*tensors, *binding.params.values()))[0]

    return prepare


# FlexAttention's: the blocks that it takes by itself, and those that its own search would try,
# those before that have won more often
FLEX_OPTIONS: tuple[dict[str, int], ...] = (
    {},
    {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3},
    {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3},
    {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8, "num_stages": 2},
)


def reset_flex() -> None:
    """Forget what was compiled, so that no limit on the number of compilations is met."""
    torch._dynamo.reset()


def flex(q: Tensor, k: Tensor, v: Tensor, score: Score | None, block_mask: Any, **how: Any) -> Call:
    """FlexAttention, compiled for these shapes; as it stands on the CPU."""
    attend: Any = flex_attention
    if q.device.type == "cuda":
        attend = torch.compile(flex_attention, dynamic=False)
    how = {"score_mod": score, "block_mask": block_mask, **how}
    if q.shape[1] != k.shape[1]:
        how["enable_gqa"] = True
    return lambda: attend(q, k, v, **how)


def sdpa(backend: SDPBackend, q: Tensor, k: Tensor, v: Tensor, **how: Any) -> Prepare:
    """A backend of scaled_dot_product_attention; whichever runs on the CPU."""
    if q.shape[1] != k.shape[1]:
        how["enable_gqa"] = True

    def call() -> Tensor:
        if q.device.type != "cuda":
            return scaled_dot_product_attention(q, k, v, **how)
        with sdpa_kernel([backend]):
            return scaled_dot_product_attention(q, k, v, **how)

    return lambda: call


@cache
def fa3() -> Any:
    """The module that wraps FlashAttention-3's compiled operators, loaded."""
    folder = os.environ.get("FA3_DIR")
    if not folder:
        raise LookupError("FA3_DIR is not set")
    module = importlib.import_module("fa3")
    module.load(folder)
    return module


def rows(x: Tensor) -> Tensor:
    """A copy of (B, H, N, D) as FlashAttention-3 takes it: (B, N, H, D)."""
    return x.transpose(1, 2).contiguous()


def flash3(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, **how: Any) -> Prepare:
    """FlashAttention-3 of tensors (B, N, H, D), or of pages (P, S, H, D) with a `page_table`."""

    def prepare() -> Call:
        module = fa3()

        def call() -> Tensor:
            result: Tensor = module.fwd(q, k, v, causal, **how)[0]
            return result.transpose(1, 2)

        return call

    return prepare
