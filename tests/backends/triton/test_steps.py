"""Strides that 16 does not divide: what a kernel is told of them, and that it is true."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.launch import interpreted, load
from monocomp.host.building import MANY_BLOCKS
from tests.backends import interpreted as interpreter
from tests.backends.compiling import Launch, instructions, recorded
from tests.backends.library_cases import CASES
from tests.backends.running import exact, make_inputs, poisoned_empty
from tests.backends.tolerances import BESIDE_EAGER, near
from tests.gpu.comparing import all_in_nan
from tests.marks import slow_unless

ATTENTION = library.load("attention")


def launch_of(*tensors: Tensor) -> Launch:
    """Attention for Hopper, on tensors of these shapes and strides."""
    kernel = mc.compile(ATTENTION)
    batch, head = tensors[0].shape[0], tensors[0].shape[3]
    sizes = {"b": batch, "h": 3, "q": 200, "k": 200, "d": head, "e": 64}
    module = load(kernel.source(target="cuda:90", extents=sizes))
    inputs = dict(zip(kernel.declared.inputs, tensors, strict=True))
    (launch,) = recorded(module, "kernel", inputs)
    return launch


def heads(size: int, length: int = 200) -> Tensor:
    return torch.empty((2, 3, length, size), dtype=torch.bfloat16, device="meta")


@pytest.mark.parametrize(
    ("head", "step"), [(64, 1), (48, 1), (72, 8), (40, 8), (100, 4), (66, 2), (65, 1), (1, 1)]
)
def test_step(head: int, step: int) -> None:
    """16 is known of itself; but for that it is the largest power of two."""
    q, k, v = heads(head), heads(head), heads(64)
    assert launch_of(q, k, v).kwargs["STEP"] == step


def test_step_of_other_layouts() -> None:
    """No element is ever reached by the stride of a dimension of length 1."""
    q, k, v = heads(72), heads(72), heads(64)
    assert launch_of(q[:1].expand(2, -1, -1, -1), k, v).kwargs["STEP"] == 8
    assert launch_of(q.transpose(1, 2).contiguous().transpose(1, 2), k, v).kwargs["STEP"] == 8
    assert launch_of(q, k.mT.contiguous().mT, v).kwargs["STEP"] == 1
    one = torch.empty_strided((1, 3, 200, 72), (1, 14400, 72, 1), dtype=q.dtype, device="meta")
    assert launch_of(one, k[:1], v[:1]).kwargs["STEP"] == 8


@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
@pytest.mark.parametrize("head", slow_unless(lambda head: head in (72, 100), [40, 72, 100, 120]))
def test_several_elements_are_loaded_at_a_time(head: int) -> None:
    found = set(instructions(launch_of(heads(head), heads(head), heads(64))))
    assert not any(i.startswith("LDG") and i.endswith("U16") for i in found)
    assert any(i.startswith(("LDGSTS", "UTMALDG", "LDG.E.64", "LDG.E.128")) for i in found)


def _as_they_are(x: Tensor) -> Tensor:
    return x


def _rows_first(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _columns_first(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT


def _one_for_all(x: Tensor) -> Tensor:
    return x[:, :1].expand_as(x)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("head", "layout"),
    slow_unless(
        lambda head, layout: head in (7, 72) or layout is _rows_first,
        [7, 20, 40, 72],
        [_as_they_are, _rows_first, _columns_first, _one_for_all],
    ),
)
def test_layouts(head: int, layout: Callable[[Tensor], Tensor]) -> None:
    """Results are right for any strides."""
    sizes = {"b": 2, "h": 3, "q": 17, "k": 19, "d": head, "e": 40}
    inputs = {n: layout(t) for n, t in make_inputs(ATTENTION, sizes).items()}
    for given in (inputs, all_in_nan(inputs)):
        near("triton", ATTENTION, inputs, [interpreter.call(_in_interpreter, given)])


def _in_interpreter(inputs: Mapping[str, Tensor]) -> Tensor:
    with poisoned_empty():
        result: Tensor = mc.compile(ATTENTION, backend="triton")(*(inputs[n] for n in "QKV"))
    return result


# --- rows that lanes cannot load in chunks -----------------------------------------

BLOCK = 16


def source(name: str, **sizes: int) -> str:
    return mc.compile(library.load(name), name="kernel").source(target="cuda:90", extents=sizes)


def _aligned(text: str, tensor: Tensor, widest: int = 2) -> tuple[Tensor, bool]:
    """A tensor in aligned rows, and whether it is the same one."""
    module = load(text)

    def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.full(shape, math.nan if dtype.is_floating_point else 99, dtype=dtype)

    found: Tensor = module.aligned(tensor, empty, module.launch, widest)
    return found, found is tensor


def _shifted(t: Tensor, by: int) -> Tensor:
    return torch.cat([t.new_zeros(by), t.flatten()])[by:].view(t.shape)


LEFT: Mapping[str, Tensor] = {
    "sectors": torch.ones(2, 3, 5, 48).half(),
    "half a sector": torch.ones(2, 5, 40).half(),
    "a part of long rows": torch.ones(5, 128).half()[:, :33],
    "wide elements": torch.ones(5, 33),
    "one row": torch.ones(1, 1, 33).half(),
    "nothing": torch.ones(0, 33).half(),
    "repeated": torch.ones(1, 5, 33).half().expand(4, 5, 33),
    "columns": torch.ones(33, 5).half().T,
    "bytes": torch.ones(5, 48, dtype=torch.int8),
    "six dimensions": torch.ones(2, 1, 1, 1, 5, 33).half(),
}
COPIED: Mapping[str, tuple[Tensor, int]] = {  # with the length of its rows
    "odd": (torch.randn(2, 3, 5, 33).half(), 48),
    "a part of odd rows": (torch.randn(5, 33).half()[:, 1:17], 16),
    "shifted": (_shifted(torch.randn(5, 32).half(), 1), 32),
    "swapped": (torch.randn(5, 3, 20).half().transpose(0, 1), 32),
    "bytes": (torch.ones(5, 40, dtype=torch.int8), 64),
    "many, in parts, swapped": (torch.randn(3, 2, 4, 7, 21).half()[..., :19].transpose(0, 3), 32),
    "longer than a block": (torch.randn(2, 3, 1037).half(), 1040),
}


@pytest.mark.parametrize("kind", LEFT)
def test_what_is_left_as_it_is(kind: str) -> None:
    assert _aligned(source("attention"), LEFT[kind])[1]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", COPIED)
def test_what_is_copied(kind: str) -> None:
    tensor, length = COPIED[kind]
    found, _ = interpreter.call(_aligned, source("attention"), tensor)
    assert found.is_contiguous() and found.shape == (*tensor.shape[:-1], length)
    assert torch.equal(found[..., : tensor.shape[-1]], tensor)
    assert not found[..., tensor.shape[-1] :].any()
    assert _aligned(source("attention"), found)[1]


@pytest.mark.parametrize("length", [33, 1037])
def test_wide_elements_are_copied_where_descriptors_load_them(length: int) -> None:
    tensor = torch.randn(2, 3, length)
    found, is_same = interpreter.call(_aligned, source("attention"), tensor, 4)
    assert not is_same and torch.equal(found[..., :length], tensor)
    assert _aligned(source("attention"), tensor.double(), 4)[1]


def _run(text: str, inputs: Mapping[str, Tensor]) -> tuple[Tensor, int]:
    """The result, and how many tensors were copied."""
    module, copies = load(text), 0

    def launch(kernel: Any, programs: int, *args: Any, **options: Any) -> None:
        nonlocal copies
        copies += kernel is module.copy_rows
        module.launch(kernel, programs, *args, **options)

    config: dict[str, Any] = module.CONFIG | {"BLOCK_Q": BLOCK, "BLOCK_K": BLOCK}
    config["DESCRIPTORS"] = True
    return module.kernel(*inputs.values(), configs=(config,), launch=launch), copies


@pytest.mark.one_in(2)
@pytest.mark.parametrize("head", [7, 24, 64])
@pytest.mark.parametrize("name", ["causal", "gqa"])
def test_results(name: str, head: int) -> None:
    """Keys and values have rows of their own lengths; with fewer blocks nothing is copied."""
    text, case = source(name, d=head, e=44), CASES[name]
    for blocks in (MANY_BLOCKS - 1, MANY_BLOCKS):
        inputs = case.inputs(case.sizes(blocks * BLOCK, 37, head, 44), torch.float16)
        padded = all_in_nan(inputs)
        found, copies = interpreter.call(_run, text, padded)
        assert copies == (blocks == MANY_BLOCKS) * (1 + (head % 8 > 0))
        (wanted,), (eager,) = exact(case.text, inputs), case.in_eager_torch(inputs)
        BESIDE_EAGER[torch.float16].check(found, wanted, eager)
