"""Kernels in Gluon on the GPU, beside eager torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.backends.schedules.search import RACE
from monocomp.backends.triton.launch import TritonRunner
from monocomp.host.plan import Ran
from tests.backends.gluon.test_dialect import SHARED, SUPPORTED
from tests.backends.library_cases import CASES
from tests.backends.running import exact
from tests.backends.tolerances import BESIDE_EAGER

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0),
        reason="needs a Hopper GPU",
    ),
]


@pytest.mark.parametrize("name", [n for n in SUPPORTED if n != "dropout"])
@pytest.mark.parametrize(("q", "k", "d"), [(256, 384, 64), (301, 257, 128), (129, 640, 20)])
def test_library(name: str, q: int, k: int, d: int) -> None:
    """Lengths that blocks divide and others, in bf16; heads whose rows descriptors take, and
    others; twice, of which the second call repeats the first."""
    case = CASES[name]
    kernel = mc.compile(case.text, backend="gluon")
    d = d if (name, 2 * d) in SHARED else min(d, 128)
    sizes = case.sizes(q, k, d, d, 2)
    sizes |= {n: d for n in ("c", "d") if n in sizes}  # also of cases that keep them short
    for seed in (0, 1):
        inputs = case.inputs(sizes, torch.bfloat16, seed=seed)
        on_gpu = {n: t.cuda() for n, t in inputs.items()}
        if seed:
            with patch.object(TritonRunner, "__call__", side_effect=AssertionError("no plan")):
                found = kernel(**on_gpu, **case.params)
        else:
            found = kernel(**on_gpu, **case.params)
        assert kernel.calls.last == Ran("gluon", next(iter(on_gpu.values())).device)
        wanted = exact(case.text, inputs, **case.params)
        eager = [t.cpu() for t in case.in_eager_torch(on_gpu)]
        results = list(found) if isinstance(found, tuple) else [found]
        for result, right, usual in zip(results, wanted, eager, strict=True):
            BESIDE_EAGER[torch.bfloat16].check(result.cpu(), right, usual)


@pytest.mark.parametrize("name", ["causal", "sliding_window", "varlen"])
@pytest.mark.parametrize("d", [64, 128])
def test_rows_that_none_admits(name: str, d: int) -> None:
    """Their elements are in no result, be they NaN, also where a block has them."""
    case = CASES[name]
    inputs = case.inputs(case.sizes(301, 700, d, d, 2), torch.bfloat16)
    wanted = exact(case.text, inputs, **case.params)
    for n, last in enumerate(inputs.get("length", [301] * len(inputs["V"]))):
        inputs["K"][n, :, last:] = inputs["V"][n, :, last:] = float("nan")  # no query is as far
    found = mc.compile(case.text, backend="gluon")(
        **{n: t.cuda() for n, t in inputs.items()}, **case.params
    )
    torch.testing.assert_close(found.cpu().double(), wanted[0].double(), atol=2e-2, rtol=2e-2)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """First calls measure, and have time for it, however many tests run beside."""
    monkeypatch.setenv("MONOCOMP_TUNE", "")
    longer = replace(RACE, seconds=60.0)
    monkeypatch.setattr("monocomp.backends.triton.launch.RACE", longer)


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("heads", [2, 32])
@pytest.mark.parametrize("name", ["attention", "causal", "softmax"])
def test_the_dialect_that_is_fastest(name: str, heads: int) -> None:
    """A first call measures which it is, of those that have a form of the kernel, and where few
    instances stream, whether in splits; it says what it has found, and so do later calls and other
    kernels of the program."""
    case = CASES[name]
    sizes = case.sizes(2048, 2048, 128, 128)
    sizes |= {"h": heads} if "h" in sizes else {}
    inputs = {n: t.cuda() for n, t in case.inputs(sizes, torch.bfloat16).items()}
    kernel = mc.compile(case.text)
    found = [kernel(**inputs), kernel(**inputs)]
    ran = kernel.calls.last
    assert ran is not None and ran.why in repr(kernel)
    rivals = ["in gluon", "in triton"] if heads > 2 else ["with streams in splits", "with whole"]
    assert all(f"ms {x}" in ran.why for x in rivals) == (name != "softmax"), ran.why
    with patch.object(TritonRunner, "_search", side_effect=AssertionError("measured again")):
        other = mc.compile(case.text)
        found.append(other(**inputs))
        assert other.calls.last == ran
        strided = {n: torch.stack([t, t], -1)[..., 0] for n, t in inputs.items()}
        found.append(other(**strided))  # which descriptors cannot take
    usual = mc.compile(case.text, backend="triton")(**inputs)
    for result in found:
        torch.testing.assert_close(result, usual, atol=2e-2, rtol=2e-2)


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("d", [64, 128])
def test_gradients_in_the_dialect_that_is_fastest(d: int) -> None:
    """A first backward pass measures which it is, as a forward one does."""
    case = CASES["causal"]
    made = case.inputs(case.sizes(1024, 1024, d, d, 2) | {"h": 16}, torch.bfloat16)
    inputs = {n: t.cuda() for n, t in made.items()}
    found = []
    for backend in ("auto", "triton"):
        forward = mc.compile(case.text, backend=backend)
        leaves = {n: t.clone().requires_grad_() for n, t in inputs.items()}
        forward(**leaves).square().sum().backward()
        found.append([t.grad for t in leaves.values()])
    for result, usual in zip(*found, strict=True):
        torch.testing.assert_close(result, usual, atol=2e-1, rtol=2e-2)
    kernel = mc.compile(mc.grad(case.text))
    o, rows = mc.compile(case.text, backend="triton")(**inputs), torch.rand(2, 16, 1024).cuda() + 5
    kernel(**inputs, O=o, dO=o, L=rows)
    ran = kernel.calls.last
    rivals = ["in gluon", "in triton", "with whole streams", "with kernels that add"]
    assert ran is not None and all(f"ms {x}" in ran.why for x in rivals), ran


@pytest.mark.parametrize("name", ["learned_sink", "sink_window", "differential"])
def test_each_kernel_in_the_language_that_is_fastest(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one kernel of a gradient has a form in one language alone."""
    monkeypatch.setenv("MONOCOMP_TUNE", "")
    case = CASES[name]
    made = case.inputs(case.sizes(1024, 1024, 64, 64, 2), torch.bfloat16)
    found = []
    for backend in ("auto", "triton"):
        forward = mc.compile(case.text, backend=backend)
        leaves = {n: t.cuda().requires_grad_() for n, t in made.items()}
        forward(**leaves, **case.params).square().sum().backward()
        found.append([t.grad for t in leaves.values()])
    for result, usual in zip(*found, strict=True):
        torch.testing.assert_close(result, usual, atol=2e-1, rtol=2e-2)


def test_dropout() -> None:
    """As in Triton: both draw the same numbers."""
    case = CASES["dropout"]
    inputs = {
        n: t.cuda() for n, t in case.inputs(case.sizes(301, 257, 64, 64, 2), torch.bfloat16).items()
    }
    found, other = (mc.compile(case.text, backend=b)(**inputs) for b in ("gluon", "triton"))
    torch.testing.assert_close(found, other, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("name", ["causal", "gqa", "sliding_window", "attention_statistics"])
def test_the_file_runs_by_itself(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.py"
    path.write_text(mc.compile(library.load(name), name=name, backend="gluon").source())
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("ok\n")
