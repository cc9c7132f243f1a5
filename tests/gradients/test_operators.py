"""Every program of the library as an operator of torch: the program, the one that also returns what
it saves, and its backward, by `torch.library.opcheck`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.calls.calls import Calls
from monocomp.calls.operators import Operator, operator
from monocomp.calls.paths import find, operator_name
from monocomp.checking.random_inputs import random_inputs
from monocomp.checking.steps import small_params
from tests.gradients.test_gradcheck import some

CHEAP = ("softmax", "softcap")
COMPILED = ("softcap",)  # ahead of time, for dynamic shapes and a parameter


def operators(name: str) -> Iterator[tuple[Operator, tuple[Any, ...]]]:
    """The three, with arguments that require gradients."""
    kernel = mc.compile(library.load(name), backend="torch", name=name)
    params = small_params(kernel.declared)
    drawn = random_inputs(kernel.equations, {}, dtype="float64", params=params)
    inputs = {n: torch.as_tensor(x) for n, x in drawn.items()}
    floats = tuple(n for n, x in inputs.items() if x.is_floating_point())
    forward = kernel.calls.forward(floats)
    results = dict(zip(forward.outputs, forward.calls.call({**inputs, **params}), strict=True))
    of_floats = [o for o in forward.results if results[o].is_floating_point()]
    backward = forward.backward(dict.fromkeys(floats, "float64"), tuple(of_floats))
    cotangents = {backward.cotangents[o]: torch.ones_like(results[o]) for o in of_floats}
    given = {**inputs, **params, **results, **cotangents}
    for value in given.values():
        if isinstance(value, Tensor) and value.is_floating_point():
            value.requires_grad_()
    for calls in (kernel.calls, forward.calls, backward.calls):
        found = operator(calls, {})
        yield found, tuple(given.get(n) for n in found.names)


@pytest.mark.parametrize("name", some(library.names(), CHEAP))
def test_operators_of_the_library(name: str) -> None:
    """Their schemas, gradients' registration and fake tensors; `test_torch` traces some, too."""
    checks: tuple[str, ...] = ("test_schema", "test_autograd_registration", "test_faketensor")
    checks += ("test_aot_dispatch_dynamic",) if name in COMPILED else ()
    for found, arguments in operators(name):
        torch.library.opcheck(found.overload, arguments, test_utils=checks)


PROJECTED = """Z[q] = sum[k](softmax[k if k <= q](c * Q[q] * K[k]) * V[k]) * W[q]
param c: float = 1.0
return Z"""


def derived_calls(kernel: mc.Kernel, wrt: tuple[str, ...]) -> list[Calls]:
    """All kinds of programs that are derived of one."""
    at = dict.fromkeys(kernel.calls.declared.extent_of, 512)
    forwards = kernel.calls.forward(wrt), kernel.calls.forward_at(wrt, at)
    found = [calls for f in forwards for calls in (f.calls, f.batch(("Q", "W")))]
    found += [f.pushed(("Q",)).calls for f in forwards]
    backward = forwards[1].backward({"Q": "float32", "W": "", "c": "float64"}, ("Z",))
    again = backward.calls.forward(("Q",))
    return [*found, backward.calls, again.calls, again.backward({"Q": ""}, again.outputs).calls]


def test_operators_are_derived_again_from_their_names() -> None:
    """By another process, which runs code that torch has compiled in this one."""
    wrt = ("Q", "K", "V", "W", "c")
    for calls in derived_calls(mc.compile(PROJECTED, backend="torch"), wrt):
        others = {c.key: c for c in [mc.compile(PROJECTED, backend="torch").calls]}
        name = operator_name(calls, ("c",) if "c" in calls.declared.params else ())
        found = find(name, others.get)
        assert found is not None and found[0] is not calls and found[0].key == calls.key
        assert found[1] == (("c",) if "c" in calls.declared.params else ())
        assert name.isidentifier() and find(name[:-1] + "z", others.get) is None


@pytest.mark.parametrize("step", ["f9", "f1s1", "b1o1d1", "f1_b1o1", "f1_r", "v1", "f1_b1o1d99"])
def test_names_of_no_operator(step: str) -> None:
    """Torch asks for all kinds of names, some of kernels that are no more."""
    calls = mc.compile(PROJECTED, backend="torch").calls
    assert find(f"kernel_{calls.key}_{step}_x00000000", {calls.key: calls}.get) is None
    assert not hasattr(torch.ops.monocomp, f"kernel_{'0' * 16}_{step}_x00000000")


CODE = """
import torch, monocomp as mc
given = "input Q[q,d], K[k,d], V[k,e]"
kernel = mc.compile(given + "; O[q,e] = softmax[k](Q[q,d] * K[k,d]) * V[k,e]", backend="torch")
inputs = [torch.ones(4, 2, requires_grad=True) for _ in range(3)]
torch.compile(lambda *t: kernel(*t), fullgraph=True)(*inputs).sum().backward()
print(inputs[2].grad.round().tolist())
"""


@pytest.mark.slow
def test_code_that_torch_has_kept(tmp_path: Path) -> None:
    """The second process compiles nothing, and derives no gradients before it runs them."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        done = subprocess.check_output([sys.executable, "-c", CODE], env=environment, timeout=240)
        assert done.decode() == f"{[[1.0, 1.0]] * 4}\n"
