"""Strides that 16 does not divide: what a kernel is told of them, and that it is true."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.launch import interpreted, load
from tests.backends import interpreted as interpreter
from tests.backends.compiling import Launch, instructions, recorded
from tests.backends.running import make_inputs, poisoned_empty
from tests.backends.tolerances import near
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
