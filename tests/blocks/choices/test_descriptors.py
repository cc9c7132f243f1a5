"""Tiles that the copy engine loads: which can be, who chooses it, and that nothing else changes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.launch import load
from monocomp.blocks.choices.descriptors import descriptor_loads
from tests.backends import interpreted as interpreter
from tests.backends.library_cases import CASES
from tests.backends.running import file_for_any_size, largest_error, make_inputs
from tests.backends.test_domains import calls, program
from tests.backends.tolerances import ALONE, Bound, near
from tests.gpu.comparing import all_in_nan


def test_a_diagonal_is_no_block() -> None:
    """X[k,k] has one axis and two dimensions."""
    text = "O[q,e] = softmax[k](Q[q,k] + X[k,k]) * V[k,e]"
    (program,) = mc.compile(text).tile_programs({})
    assert {b.tensor for b in descriptor_loads(program).values()} == {"V"}


def described(
    text: str,
    inputs: Mapping[str, torch.Tensor],
    by_descriptor: bool = True,
    blocks: tuple[int, int] = (16, 16),
    **params: int,
) -> tuple[list[torch.Tensor], int]:
    """The results of a kernel, NaN where it writes nothing, and how many tensors it describes."""
    kernel = mc.compile(text, name="kernel")
    module = load(kernel.source(target="cuda:90"))
    made: list[bool] = []
    describe = module.descriptor

    def count(*args: Any) -> Any:
        found = describe(*args)
        made.append(found is not None)
        return found

    def empty(shape: tuple[int, ...], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.full(shape, math.nan, dtype=dtype, device=device)

    module.descriptor = count  # type: ignore[attr-defined]
    lengths = {"BLOCK_Q": blocks[0], "BLOCK_K": blocks[1], "DESCRIPTORS": by_descriptor}
    try:
        config = module.CONFIG | lengths
        ordered = (inputs[n] for n in kernel.declared.inputs)
        found = module.kernel(*ordered, configs=(config,), empty=empty, **params)
    finally:
        module.descriptor = describe  # type: ignore[attr-defined]
    return list(found) if isinstance(found, tuple) else [found], sum(made)


def both(name: str, inputs: Mapping[str, torch.Tensor]) -> int:
    """How many tensors were described, if that changes nothing but how NumPy rounds, which
    multiplies for Triton's interpreter: it depends on how tiles lie in memory."""
    (plain,), none = interpreter.call(described, library.load(name), inputs, False)
    (found,), count = interpreter.call(described, library.load(name), inputs)
    assert none == 0
    assert largest_error(found, plain) < 2e-6
    return count


@pytest.mark.one_in(7)
@pytest.mark.parametrize("length", [1, 15, 16, 17, 37])
@pytest.mark.parametrize("name", ["attention", "causal", "gqa", "prefix_lm"])
def test_lengths(name: str, length: int) -> None:
    """The last block sticks out of the tensor, into NaN."""
    case = CASES[name]
    inputs = case.inputs(case.sizes(19, length, 24, 40), torch.float32)
    assert both(name, inputs) == 2
    both(name, all_in_nan(inputs))


@pytest.mark.one_in(7)
@pytest.mark.parametrize(
    "name",
    [
        *("window", "two-sided window", "sink and window", "documents of rows", "rows apart"),
        *("packed documents", "documents and sink", "all but two", "chunks", "three parts"),
    ],
)
def test_blocks_that_slide(name: str) -> None:
    """Nothing comes twice that two blocks load, and keys that nobody sees hold NaN."""
    (tile_program,) = mc.compile(program(name)).tile_programs({})
    assert {b.tensor for b in descriptor_loads(tile_program).values()} == {"K", "V"}
    for params, inputs, wanted in calls(name, d=8, e=12):
        found, _ = interpreter.call(described, program(name), inputs, **params)
        for got, good in zip(found, wanted, strict=True):
            Bound(0.0, 4 * ALONE["triton"].floor).check(got, good)


def test_layouts() -> None:
    """Any order of the dimensions will do, if the last one has no gaps."""
    sizes = {"b": 2, "h": 3, "q": 19, "k": 37, "d": 24, "e": 40}
    made = make_inputs(library.load("attention"), sizes)
    swapped = {n: t.transpose(1, 2).contiguous().transpose(1, 2) for n, t in made.items()}
    assert both("attention", swapped) == 2
    gaps = {n: torch.stack([t, t], -1)[..., 0] for n, t in made.items()}
    assert both("attention", gaps) == 0
    shared = made | {"K": made["K"][:1].expand(2, -1, -1, -1)}
    assert both("attention", shared) == 1
    one = {n: t[:, :1] for n, t in make_inputs(library.load("attention"), sizes).items()}
    assert both("attention", one) == 2
    shifted = {
        n: torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape) for n, t in made.items()
    }
    assert both("attention", shifted) == 0
    odd = make_inputs(library.load("attention"), sizes | {"d": 23})
    assert both("attention", odd) == 1


def _in_inner_loops(inputs: Mapping[str, torch.Tensor], by_descriptor: bool) -> torch.Tensor:
    kernel = mc.compile("L[q] = logsumexp[k](sum[d](Q[q,d] * K[k,d]))", processors=1)
    module = load(file_for_any_size(kernel, {"q": 1000, "k": 1000, "d": 4096}))
    blocks = {n: 16 for n in module.CONFIG if n.startswith("BLOCK_")}
    config = module.CONFIG | blocks | {"DESCRIPTORS": by_descriptor}
    result: torch.Tensor = module.kernel(*inputs.values(), configs=(config,))
    return result


@pytest.mark.parametrize("head", [16, 20, 48, 52])
def test_inner_loops(head: int) -> None:
    """Blocks stick out of rows, of the stream, and of the summed axis."""
    q, k = torch.randn(19, head), torch.randn(37, head)
    inputs = {"Q": q, "K": k}
    for by_descriptor in (False, True):
        found = interpreter.call(_in_inner_loops, inputs, by_descriptor)
        assert largest_error(found, torch.logsumexp(q @ k.T, 1)) < 1e-5


BIASED = "O[q,e] = softmax[k{}](Q[q,d] * K[k,d] + w[{}]) * V[k,e]"


@pytest.mark.parametrize(
    ("domain", "length", "blocks", "count"),
    [
        ("", 64, (32, 32), 3),
        ("", 64, (16, 16), 2),  # 64 bytes: the next stage's would begin in between
        ("", 37, (32, 32), 3),  # the last block sticks out
        (" if k <= q", 37, (32, 32), 3),
        (" if k >= q", 64, (32, 32), 3),
        (" if k >= q", 64, (2, 32), 3),
        (" if k >= q", 37, (32, 32), 3),  # but loaded by pointers, as blocks slide
        (" if k >= 32", 70, (32, 32), 3),
        (" if q <= k + 5 and k <= q", 64, (32, 32), 2),
    ],
)
@pytest.mark.parametrize("keys", ["K[k,d]", "K[d,k]"])
def test_loaded_along_a_stream(
    keys: str, domain: str, length: int, blocks: tuple[int, int], count: int
) -> None:
    """The interpreter refuses rows that begin elsewhere than a GPU can load."""
    text = BIASED.format(domain, "k").replace("K[k,d]", keys)
    text = f"input Q[q,d], {keys}, V[k,e], w[k]\n{text}"
    if keys == "K[d,k]":
        # Its rows go along the stream; and Q is described, as d is streamed.
        count += 1 - (length % 4 != 0) - (" + 5" in domain)
    made = make_inputs(text, {"q": length, "k": length, "d": 8, "e": 12})
    found, made_of = interpreter.call(described, text, made, blocks=blocks)
    assert made_of == count
    near("triton", text, made, found, 4)
