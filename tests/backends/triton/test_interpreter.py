"""Whole programs in Triton's interpreter, and bfloat16 there by Triton's own operations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import monocomp as mc
from tests.backends import interpreted
from tests.backends.library_cases import CASES
from tests.backends.running import largest_error

EPS = torch.finfo(torch.bfloat16).eps


BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "less")


def _elements(kind: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What Triton computes of two rows of bfloat16."""
    import triton

    from monocomp.backends.triton.interpreter import mend
    from tests.backends import interpreter_kernels

    mend()
    result = torch.full_like(x, torch.nan)
    interpreter_kernels.elements[(1,)](x, y, result, KIND=triton.language.constexpr(kind))
    return result


def _converted(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    from monocomp.backends.triton.interpreter import mend
    from tests.backends import interpreter_kernels

    mend()
    result = torch.zeros(x.shape, dtype=dtype)
    interpreter_kernels.convert[(1,)](x, result, COUNT=x.numel())
    return result


@pytest.mark.parametrize("kind", BINARY)
def test_operations_on_bfloat16_are_rounded_results(kind: str) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2, 64).bfloat16()
    wanted = {"less": torch.lt}.get(kind) or getattr(torch, kind)
    found = interpreted.call(_elements, kind, x, y)
    assert torch.equal(found, wanted(x, y).to(torch.bfloat16))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.int32, torch.bfloat16], ids=str
)
def test_conversions_round_to_nearest(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.cat([torch.randn(60) * 100, torch.tensor([0.0, -0.0, 1.00390625, 3e38])])
    if dtype is torch.int32:
        x = x.clamp(-1e4, 1e4)
    if dtype is torch.float16:
        x = x.clamp(-6e4, 6e4)
    from_narrow = interpreted.call(_converted, x.bfloat16(), dtype)
    assert torch.equal(from_narrow, x.bfloat16().to(dtype))
    to_narrow = interpreted.call(_converted, x.to(dtype), torch.bfloat16)
    assert torch.equal(to_narrow, x.to(dtype).to(torch.bfloat16))
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, 3.4e38])
    if dtype is torch.float32:
        found = interpreted.call(_converted, special, torch.bfloat16)
        assert torch.equal(found.isnan(), special.isnan())
        assert torch.equal(found[:2], special[:2].bfloat16()) and found[3] == torch.inf


def _with_gradients(
    name: str, inputs: Mapping[str, torch.Tensor], backend: str
) -> tuple[list[torch.Tensor], bool]:
    """The results and the gradients of all floats, and whether descriptors load anything."""
    kernel = mc.compile(mc.library.load(name), backend=backend)
    leaves = {n: t.detach().requires_grad_(t.is_floating_point()) for n, t in inputs.items()}
    result = kernel(**leaves)
    result.float().sin().sum().backward()
    gradients = [t.grad for t in leaves.values() if t.grad is not None]
    runners: Any = kernel.calls.forward(tuple(leaves)).calls._runners.values()
    chosen = [s for r in runners for c in getattr(r, "_chosen", {}).values() for s in c]
    return [result.detach(), *gradients], any(s.descriptors for s in chosen)


@pytest.mark.parametrize(("name", "length", "head"), [("causal", 40, 64), ("gqa", 37, 32)])
def test_programs_in_bfloat16_forward_and_backward(name: str, length: int, head: int) -> None:
    """Also where descriptors load it."""
    case = CASES[name]
    inputs = case.inputs(case.sizes(length, length, head, head), torch.bfloat16)
    found, is_described = interpreted.call(_with_gradients, name, inputs, "triton")
    eager, _ = _with_gradients(name, inputs, "torch")
    exact, _ = _with_gradients(name, {n: t.double() for n, t in inputs.items()}, "torch")
    assert is_described or head < 64
    for one, other, right in zip(found, eager, exact, strict=True):
        assert one.dtype is torch.bfloat16
        limit = 2 * largest_error(other, right) + 2 * EPS * float(right.abs().max())
        assert largest_error(one, right) <= limit


def _of_no_keys(name: str, params: dict[str, int]) -> list[torch.Tensor]:
    """The result and gradients where no query admits a key, and these are no numbers."""
    inputs = [
        torch.full((1, 2, 20, 16), x, requires_grad=True) for x in (1.0, torch.nan, torch.nan)
    ]
    result = mc.compile(mc.library.load(name), backend="triton")(*inputs, **params)
    return [result, *torch.autograd.grad(result.sum(), inputs)]


@pytest.mark.parametrize(
    ("name", "params"),
    [("sliding_window", {"window": 0}), ("sink_window", {"window": 0, "sink": 0})],
)
def test_keys_of_empty_windows_are_not_read(name: str, params: dict[str, int]) -> None:
    """Though rows of a block lie between the first one's beginning and the last one's end."""
    for x in interpreted.call(_of_no_keys, name, params):
        assert torch.equal(x, torch.zeros_like(x))


def _gradient(text: str, x: torch.Tensor) -> torch.Tensor:
    (result,) = torch.autograd.grad(mc.compile(text, backend="triton")(x.requires_grad_()), x)
    return result


def test_a_result_that_calls_do_not_keep_is_computed_again() -> None:
    """Beside a logarithm that is kept with its maximum."""
    text = "O = sum[k](softmax[k](Y[k]) * Y[k]) - 2 * max[k](Y[k])"
    assert interpreted.call(_gradient, text, torch.ones(1)) == torch.tensor([-1.0])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("minimal", [False, True])
def test_files_refuse_bfloat16_in_the_interpreter(tmp_path: Path, minimal: bool) -> None:
    sizes = {"b": 1, "h": 1, "q": 16, "k": 16, "d": 16, "e": 16}
    kernel = mc.compile(mc.library.load("causal"), name="attend")
    source = kernel.source(dtype="bf16", extents=sizes if minimal else {}, minimal=minimal)
    path = tmp_path / "pasted.py"
    path.write_text(
        f"{source.partition('def main(')[0]}\n"
        "x = torch.randn(1, 1, 16, 16)\n"
        "attend(x, x, x)\n"
        "attend(x, x, x.bfloat16())\n"
    )
    status, _, err = interpreted.run_file(path)
    assert status == 1 and "attend(x, x, x.bfloat16())" in err
    last = err.splitlines()[-1]
    assert last == "ValueError: Triton interprets the bits of bfloat16: give float32", err


def test_the_self_check_of_a_file_with_products_of_bfloat16_alone_says_so(tmp_path: Path) -> None:
    kernel = mc.compile(mc.library.load("fp8_attention"))
    path = tmp_path / "pasted.py"
    path.write_text(kernel.source(dtype=dict.fromkeys("QKV", "e4m3")))
    message = "the self-check needs a GPU: products are of bfloat16\n"
    assert interpreted.run_file(path) == (2, "", message)
