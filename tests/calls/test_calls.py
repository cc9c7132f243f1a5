"""How kernels are called: every mistake has one clear error, and threads may share a kernel."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from inspect import Parameter
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.launch import load
from monocomp.errors import (
    IndexRangeError,
    InputError,
    MonocompError,
    UnsupportedDtypeError,
)
from tests.backends import interpreted
from tests.backends.interpreted import call
from tests.backends.running import BACKENDS, exact, largest_error, run
from tests.threads import faults_of

CAUSAL = library.load("causal")
WINDOW = library.load("sliding_window")
GATHER = "input n[i]: int\nO[i] = X[n[i]] * 2"


def tensors(q: int = 5, k: int = 6, d: int = 4) -> list[Tensor]:
    """Queries, keys and values."""
    return [torch.randn(2, 3, q, d), torch.randn(2, 3, k, d), torch.randn(2, 3, k, d)]


def message(kernel: mc.Kernel, kind: type[MonocompError], *args: Any, **kwargs: Any) -> str:
    """The error of a call, whose class must be this one, as it prints."""
    with pytest.raises(MonocompError) as caught:
        kernel(*args, **kwargs)
    assert type(caught.value) is kind
    text = caught.value.described()
    assert text.startswith(f"{kind.__name__}: ")
    return text


# --- by position and by name --------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_position_and_name(backend: str) -> None:
    """Inputs either way, parameters by name."""
    kernel = mc.compile(WINDOW, backend=backend)
    q, k, v = tensors()
    wanted = torch.as_tensor(kernel(q, k, v, window=3))
    for found in (
        kernel(Q=q, K=k, V=v, window=3),
        kernel(q, V=v, K=k, window=torch.tensor(3)),
        kernel(q, k, v, window=np.int64(3)),
    ):
        assert torch.equal(torch.as_tensor(found), wanted)
    (exactly,) = exact(WINDOW, {"Q": q, "K": k, "V": v}, window=3)
    assert largest_error(wanted, exactly) < 1e-6


WEIGHTED = "O[q,e] = V[k,e] * softmax[k](Q[q,d] * K[k,d])"


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_positions_need_declarations(backend: str) -> None:
    """Also where calls by name came before; an `input` line decides the order, not the formula."""
    named = mc.compile(WEIGHTED, backend=backend)
    ordered = mc.compile(f"input Q[q,d], K[k,d], V[k,e]\n{WEIGHTED}", backend=backend)
    q, k, v = (torch.randn(5, 5, dtype=torch.float64) for _ in range(3))
    found = torch.as_tensor(named(Q=q, K=k, V=v))
    torch.testing.assert_close(torch.as_tensor(ordered(q, k, v)), found)
    for how in ({}, {"V": v}):
        with pytest.raises(InputError, match="no `input` line declares 'V', 'Q', 'K'"):
            named(*(q, k, v)[: 3 - len(how)], **how)
    with pytest.raises(InputError, match="no `input` line declares 'V', 'Q', 'K'"):
        named.tune(q, k, v)
    kinds = [{p.kind for p in inspect.signature(f).parameters.values()} for f in (named, ordered)]
    assert kinds == [{Parameter.KEYWORD_ONLY}, {Parameter.POSITIONAL_OR_KEYWORD}]


def test_positions_of_traced_calls_and_of_derived_programs() -> None:
    """Calls that Dynamo looks at are refused alike; a gradient's text declares what it reads."""
    named = mc.compile(WEIGHTED)
    q, k, v = (torch.randn(5, 5, dtype=torch.float64) for _ in range(3))
    with pytest.raises(Exception, match="no `input` line declares 'V', 'Q', 'K'"):
        torch.compile(named, backend="eager", fullgraph=True)(q, k, v)
    traced = torch.compile(lambda a, b, c: named(Q=a, K=b, V=c), backend="eager", fullgraph=True)
    torch.testing.assert_close(traced(q, k, v), named(Q=q, K=k, V=v))
    gradient = mc.compile(mc.grad(WEIGHTED, save=[]))
    inputs = dict(zip(gradient.declared.inputs, (v, q, k, torch.randn(5, 5).double()), strict=True))
    for x, y in zip(gradient(*inputs.values()), gradient(**inputs), strict=True):
        assert torch.equal(x, y)


def test_repr_says_what_runs() -> None:
    """And what ran last."""
    kernel = mc.compile(CAUSAL, name="causal")
    assert "triton or gluon for CUDA tensors, torch for others" in repr(kernel)
    kernel(*tensors())
    assert "last ran on torch (cpu)" in repr(kernel)


# --- inputs and parameters ----------------------------------------------------------------


def test_dtypes_of_triton() -> None:
    """float64 is for the other backends."""
    with pytest.raises(
        UnsupportedDtypeError, match=r"cannot load Q with dtype float64(.|\n)*torch"
    ):
        call(_run_float64)


def _run_float64() -> None:
    mc.compile(CAUSAL, backend="triton")(*(t.double() for t in tensors()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_floats_past_those_of_the_backend(backend: str) -> None:
    """Kernels in float32 would take them for infinity, also in calls that look like others."""
    text = "param c: float\nO[i] = minimum(c, X[i])"
    inputs = {"X": torch.randn(5)}
    if backend == "triton":
        interpreted.call(_repeated, text, inputs)
        return
    kernel = mc.compile(text, backend=backend)
    for c in (3.4e38, -3.4e38, float("inf"), 1e-300):
        wanted = inputs["X"].clamp(max=c)
        assert torch.allclose(torch.as_tensor(kernel(**inputs, c=c)).float(), wanted)
    if backend == "numpy":
        assert kernel(**inputs, c=-1e300).tolist() == [-1e300] * 5
        return
    text = message(kernel, InputError, **inputs, c=-1e300)
    assert "parameter 'c' is -1e+300, and backend 'torch' computes in float32" in text
    assert "math.inf" in text and "float64" in text
    found = kernel(X=inputs["X"].double(), c=-1e300)
    assert found.tolist() == [-1e300] * 5


def _repeated(text: str, inputs: dict[str, Tensor]) -> None:
    kernel = mc.compile(text, backend="triton")
    for _ in range(3):
        assert torch.equal(kernel(**inputs, c=0.25), inputs["X"].clamp(max=0.25))
        assert "is 1e+39, and backend 'triton'" in message(kernel, InputError, **inputs, c=1e39)


def test_numbers_past_float32_in_a_program() -> None:
    """Are infinity there, as in any arithmetic of 32 bits."""
    x = torch.randn(5)
    for backend in ("torch", "numpy"):
        found = mc.compile("O[i] = minimum(1e39, maximum(-1e39, X[i]))", backend=backend)(x)
        assert torch.allclose(torch.as_tensor(found).float(), x)


def _conjugates() -> tuple[Tensor, Tensor]:
    x = torch.complex(torch.randn(9), torch.randn(9))
    return mc.compile("O[i] = X[i] * 2", backend="triton")(x.conj().imag), -2 * x.imag


def test_a_sign_that_memory_does_not_have() -> None:
    """The imaginary part of a conjugate is the negative of what is stored."""
    assert torch.equal(*interpreted.call(_conjugates))


# --- outputs without elements -------------------------------------------------------------

WITHOUT_ELEMENTS = {
    "a loop": "H[k] = softmax[k](Z[k])\nO[k,j] = H[k] - W[j]",
    "no loop": "H[k] = 2 * Z[k]\nO[j] = 3 * W[j]",
    "one loop for both": "H[j] = sum[k](Z[k] * A[k,j])\nO = logsumexp[k](Z[k])",
    "blocks of columns": "H[i] = sum[k](A[k,i])\nO[i,j] = sum[k](A[k,i] * B[k,j])",
    "prefixes": "H[k] = sum[..k](Z[k])\nO[k,j] = H[k] * W[j]",
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", WITHOUT_ELEMENTS)
def test_outputs_without_elements(kind: str, backend: str) -> None:
    """They do not keep the others from being computed, whichever size was called first."""
    text = f"{WITHOUT_ELEMENTS[kind]}\nreturn H, O"
    used = mc.compile(text).declared.inputs
    for j in (3, 0):
        tensors = {
            "Z": torch.randn(5),
            "W": torch.randn(j),
            "A": torch.randn(5, 4 if "A[k,i]" in text else j),
            "B": torch.randn(5, j),
        }
        inputs = {n: tensors[n] for n in used}
        for found, wanted in zip(run(backend, text, inputs), exact(text, inputs), strict=True):
            assert largest_error(found, wanted) < 1e-5


def test_an_emitted_file_refuses_outputs_without_elements() -> None:
    """Where nothing runs for them, and another output is computed along with them."""
    kernel = mc.compile(f"{WITHOUT_ELEMENTS['a loop']}\nreturn H, O")
    host = load(kernel.source("triton")).kernel
    with pytest.raises(ValueError, match="j has size 0, and this file is for larger ones"):
        host(torch.ones(5, device="meta"), torch.ones(0, device="meta"))


# --- reads outside of tensors -------------------------------------------------------------

OUTSIDE = {
    "a gather": (GATHER, {"n": torch.tensor([0, 5, 1]), "X": torch.ones(3)}, "X is read at 5"),
    "a negative position": (GATHER, {"n": torch.tensor([0, -1]), "X": torch.ones(3)}, "at -1"),
    "an affine position": (
        "input X[j]\nindex i < |j|\nO[i] = X[i - 1]",
        {"X": torch.ones(7)},
        "X is read at -1 in dimension 0, which has 7 entries",
    ),
    "a number": ("O[i] = X[i,5]", {"X": torch.ones(3, 4)}, "X is read at 5 in dimension 1"),
    "a key": (
        "input n[k]: int\nO[q,e] = softmax[k](S[q,k]) * V[n[k],e]",
        {"n": torch.tensor([0, 9]), "S": torch.ones(3, 2), "V": torch.ones(4, 2)},
        "V is read at 9",
    ),
    "a sum that is needed": (
        "input X[j,d]\nindex i < |j|\n"
        "O[i] = where(i >= 2, sum[d](X[i - 2,d]), 0) + max[d](X[i - 2,d])",
        {"X": torch.ones(7, 3)},
        "X is read at -2",
    ),
    "a page": (
        "input table[b,p]: int, K[n,s,e]\nindex k < |p| * |s|\n"
        "O[b,e] = sum[k](K[table[b, k // |s|], k % |s|, e])",
        {"table": torch.tensor([[0, 1], [9, 0]]), "K": torch.ones(3, 2, 4)},
        "K is read at 9 in dimension 0, which has 3 entries",
    ),
}


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("kind", OUTSIDE)
def test_checked_mode_names_the_read(kind: str, backend: str) -> None:
    """The tensor, the position and the dimension."""
    text, inputs, expected = OUTSIDE[kind]
    with pytest.raises(IndexRangeError, match=re.escape(expected)):
        run(backend, text, inputs, checked=True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", OUTSIDE)
def test_unchecked_reads_do_no_harm(kind: str, backend: str) -> None:
    """They give 0 and never touch what lies beside the tensor."""
    text, inputs, _ = OUTSIDE[kind]
    inside = {n: _surrounded(t) if t.is_floating_point() else t for n, t in inputs.items()}
    for found in run(backend, text, inside):
        assert torch.isfinite(found).all()


def _surrounded(tensor: Tensor) -> Tensor:
    storage = torch.full((tensor.numel() + 64,), float("nan"))
    view = storage[32 : 32 + tensor.numel()].view(tensor.shape)
    return view.copy_(tensor)


GUARDED = {
    "a filter": "O[i] = sum[k if k <= i](X[i - k] * W[k])",
    "where": "O[i] = where(i >= 2, 2 * X[i - 2] + 1, 0)",
    "where in where": "O[i] = where(i >= 1, where(i >= 2, X[i - 2], 0) + X[i - 1], 0)",
    "and": "O[i] = where(i >= 2 and X[i - 2] > 0, 1, 0)",
    "or": "O[i] = where(i < 2 or X[i - 2] > 0, 1, 0)",
    "an inner filter": "O[i] = sum[k](W[k] * sum[d if d <= i](X[i - d] * U[k,d]))",
    "a bracket": "O[i] = sum[k](where(k <= i, X[i - k], 0) * W[k])",
    "a sum": "O[i] = where(i >= 2, sum[d](U[i - 2,d] * U[i,d]), 0)",
    "a bracket that leaves a sum": "O[i] = sum[d](where(i >= 2, U[i - 2,d], 0) * U[i,d])",
    "a maximum": "O[i] = where(i >= 2, max[d](U[i - 2,d] * U[i,d]), 0)",
    "a scaled sum": "O[i] = where(i >= 2, logsumexp[d](U[i - 2,d]), 0)",
    "else": "O[i] = where(i < 2, 0, sum[d](U[i - 2,d]))",
    "two": "O[i] = where(i >= 2, sum[d](U[i - 2,d]), 0) + where(i >= 3, max[d](U[i - 2,d]), 0)",
    "in an exponent": "O[i] = softmax[k](where(k >= 2, max[d](U[k - 2,d] * U[i,d]), 0)) * W[k]",
    "a label": "O[i] = sum[k if k == i - 2](sum[d](U[k,d] * U[i,d]))",
    "a truth value": "O[i] = where(i >= 2, any[d](U[i - 2,d] > 0), 0)",
}


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("kind", GUARDED)
def test_guarded_reads_pass_the_check(kind: str, backend: str) -> None:
    """A read that a false condition guards never happens."""
    text = f"input X[x]\nindex i < |x|\n{GUARDED[kind]}"
    shapes = {"X": (7,), "W": (7,), "U": (7, 5)}
    needed = mc.compile(text).declared.inputs
    inputs = {n: torch.randn(shape) for n, shape in shapes.items() if n in needed}
    (found,) = run(backend, text, inputs, checked=True)
    assert largest_error(found, exact(text, inputs)[0]) < 1e-5


@pytest.mark.parametrize(
    ("backend", "checked"), [*((b, False) for b in BACKENDS), ("numpy", True), ("torch", True)]
)
@pytest.mark.parametrize("read", ["W[0]", "W[E[k]]", "where(B[E[k]], 1, 2)", "V[E[k],0]"])
def test_guarded_reads_of_nothing(read: str, backend: str, checked: bool) -> None:
    """A tensor without elements has no position at all."""
    text = f"input B[j]: bool, E[k]: int\nO[k] = where(Y[k] > 5, {read}, Y[k]) + sum[j](W[j])"
    inputs = {
        "B": torch.zeros(0, dtype=torch.bool),
        "E": torch.tensor([0, 3, -1]),
        "Y": torch.tensor([1.0, 2.0, 3.0]),
        "W": torch.zeros(0),
        "V": torch.zeros(0, 2),
    }
    inputs = {n: inputs[n] for n in mc.compile(text).declared.inputs}
    (found,) = run(backend, text, inputs, checked=checked)
    assert torch.equal(found.float(), inputs["Y"])


def test_a_read_of_nothing_fails_the_check() -> None:
    with pytest.raises(IndexRangeError, match="W is read at 0 in dimension 0, which has 0 entries"):
        run("torch", "O[k] = Y[k] + W[0]", {"Y": torch.ones(2), "W": torch.ones(0)}, checked=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_label_outside_of_the_vocabulary(backend: str) -> None:
    """It has no logit, and no row of weights is read for it."""
    text = """
        input label[t]: int
        S[t,v] = X[t,d] * W[v,d]
        loss[t] = logsumexp[v](S[t,v]) - sum[v if v == label[t]](S[t,v])
        """
    label = torch.tensor([-100, 0, 6, 7, 10**6])
    inputs = {"label": label, "X": torch.randn(5, 3), "W": torch.randn(7, 3)}
    (found,) = run(backend, text, inputs, checked=backend != "triton")
    assert largest_error(found, exact(text, inputs)[0]) < 1e-2


# --- threads ------------------------------------------------------------------------------


def _in_threads(backend: str, name: str) -> list[str]:
    """What eight threads think of one kernel that nobody has called, and of new ones."""
    text, inputs = library.load(name), dict(zip("QKV", tensors(), strict=True))
    (wanted,), shared = exact(text, inputs), mc.compile(text, backend=backend)
    sources = set()

    def work(number: int) -> None:
        kernel = shared if number % 2 else mc.compile(text, backend=backend)
        assert largest_error(torch.as_tensor(kernel(**inputs)), wanted) <= 1e-5
        sources.add(kernel.source())

    return faults_of(work) + [f"{len(sources)} sources"] * (len(sources) != 1)


def test_threads_share_what_derives() -> None:
    """And a kernel, its first call included, in a fresh process, where nothing is remembered."""
    code = "from tests.calls.test_calls import _in_threads as run\n"
    code += "print(run('torch', 'causal') + run('numpy', 'softcap'))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.stdout.strip() == "[]", result.stdout + result.stderr
