"""Files with a program and its gradients: what a user pastes, in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.launch import interpreted, load
from monocomp.checking.random_inputs import random_inputs
from monocomp.command_line.main import main
from monocomp.errors import MonocompError
from monocomp.language.checker import check
from monocomp.translation.translator import translate
from tests.agreement import slopes
from tests.backends import interpreted as interpreter
from tests.gradients.test_derived import tuple_of

SEVERAL = """
input X[i,k], W[k], n[i]: int
param c: float = 2, m: int
L[i] = logsumexp[k if k < n[i]](c * X[i,k] * W[k])
N[i] = argmax[k](X[i,k])
M[i] = max[k if k < m](X[i,k])
return N, L, M
"""
# A row that is empty has -inf, which has no slope.
FINITE = SEVERAL.replace("k < n[i]", "k <= n[i]")


def _differentiated(
    text: str,
    inputs: Mapping[str, Tensor],
    wrt: tuple[str, ...],
    weights: tuple[Tensor, ...],
    params: Mapping[str, float],
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The results of a pasted file's function, and gradients of their sum with weights."""
    assert interpreted()
    leaves = {n: x.requires_grad_() if n in wrt else x for n, x in inputs.items()}
    results = tuple_of(load(text).pasted(*leaves.values(), **params))
    pairs = [p for p in zip(results, weights, strict=True) if p[0].requires_grad]
    loss = sum((x * w).sum() for x, w in pairs)
    found = torch.autograd.grad(loss, [leaves[n] for n in wrt])
    assert not any(x.requires_grad for x in found)
    return tuple(x.detach() for x in results), found


def check_pasted(
    program: str,
    wrt: tuple[str, ...],
    extents: Mapping[str, int],
    params: Mapping[str, float],
    minimal: bool = False,
) -> None:
    """Results and gradients of the file are the oracle's, and its slopes."""
    found = mc.grad(program, wrt, name="pasted")
    known = {i: n for i, n in extents.items() if i in found.program.declared.extent_of}
    text = found.source(dtype="fp32", extents=known if minimal else None, minimal=minimal)
    drawn = random_inputs(found.program, known, dtype="float32", params=params)
    inputs = {n: torch.as_tensor(x) for n, x in drawn.items()}
    wide = {
        n: x.double().numpy() if x.is_floating_point() else x.numpy() for n, x in inputs.items()
    }
    generator = torch.Generator().manual_seed(0)
    outputs = tuple_of(mc.evaluate(program, wide, **params))
    weights = tuple(torch.randint(-8, 9, x.shape, generator=generator) / 8 for x in outputs)
    given = {o.name: w for o, w in zip(found.program.declared.outputs, weights, strict=True)}
    cotangents = {o: given[o].double().numpy() for o in found.cotangents}
    exact = dict(zip(given, outputs, strict=True))
    wanted = slopes(program, wide, cotangents, wrt, params)
    results, gradients = interpreter.call(_differentiated, text, inputs, wrt, weights, params)
    names = [o.name for o in found.program.declared.outputs]
    for name, x in zip(names, results, strict=True):
        torch.testing.assert_close(x.double(), torch.as_tensor(exact[name]).double())
    for name, x in zip(wrt, gradients, strict=True):
        torch.testing.assert_close(x.double(), torch.as_tensor(wanted[name]), atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("minimal", [False, True])
def test_gradients_of_a_pasted_file(minimal: bool) -> None:
    sizes = {"b": 1, "h": 1, "q": 7, "k": 9, "d": 5, "e": 6}
    check_pasted(library.load("causal"), ("Q", "K", "V"), sizes, {}, minimal)


def test_several_results_and_params() -> None:
    """Those that are no floats have no gradient; params are numbers."""
    check_pasted(FINITE, ("X",), {"i": 5, "k": 11}, {"m": 4})
    text = mc.grad(FINITE, ["X"], name="pasted").source()
    assert "def pasted(X, W, n, *, c=2.0, m):" in text
    assert "ctx.mark_non_differentiable(N)" in text


SHORT = "O[q] = softmax[k](2 * S[q,k]) * V[k]"
LONG = ("causal", "gqa", "learned_sink", "layer_norm", "cross_entropy", "paged_attention")


@pytest.mark.parametrize(
    "program", [SHORT, *(pytest.param(n, marks=pytest.mark.slow) for n in LONG)]
)
def test_self_check(program: str, tmp_path: Path) -> None:
    """It runs without monocomp, and compares with autograd."""
    file = tmp_path / "pasted.py"
    small = ["--extent", "q=3", "k=5"] if program is SHORT else []
    assert main(["emit", program, "--gradient", *small, "-o", str(file)]) == 0
    assert "monocomp" not in file.read_text().split("\n\n", 1)[1]
    done, lines = self_check(file)
    declared = mc.grad(program if "=" in program else library.load(program)).gradients
    assert done == 0 and lines[-1] == "ok", lines
    assert set(declared.values()) <= {line.split(",")[0] for line in lines}


def self_check(file: Path) -> tuple[int, list[str]]:
    status, out, err = interpreter.run_file(file)
    return status, (err + out).splitlines()


@pytest.mark.slow
def test_self_check_can_fail(tmp_path: Path) -> None:
    found = mc.grad("O[i] = sum[k](X[i,k] ** 2 * Y[k])", name="pasted")
    text = found.source(extents={"i": 3, "k": 5})
    file = tmp_path / "wrong.py"
    file.write_text(text.replace("        return dX, dY", "        return 2 * dX, dY"))
    done, lines = self_check(file)
    assert done == 1 and lines[-1] == "the kernel's error is too large"


@pytest.mark.parametrize(
    ("program", "wrt", "dtype", "message"),
    [
        (SEVERAL, ["c"], "bf16", "no gradient with respect to the parameter 'c'"),
        ("input n[i]: int\nO[i] = n[i] * n[i]", None, "bf16", "no output of kind float"),
        ("O[i] = X[i] * Y[i]", None, {"X": "e4m3"}, "no gradients of tensors of float8_e4m3fn"),
    ],
)
def test_mistakes(program: str, wrt: list[str] | None, dtype: object, message: str) -> None:
    with pytest.raises(MonocompError, match=message):
        mc.grad(program, wrt).source(dtype=dtype)  # type: ignore[arg-type]


def test_programs_that_are_differentiated_again() -> None:
    """Gradients are a program, which a file may hold with its own gradients."""
    again = str(mc.grad("O[q] = softmax[k](S[q,k]) * V[k]", ["S"]))
    program = translate(check(again))
    wrt = tuple(n for n, i in program.declared.inputs.items() if i.kind == "float" and n != "L")
    check_pasted(again, wrt, {"q": 5, "k": 9}, {})
