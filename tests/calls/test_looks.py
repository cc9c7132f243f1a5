"""Calls that look like the last one, and what makes them look different."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import monocomp as mc
from monocomp.calls.looks import if_alike
from monocomp.calls.plans import Plans
from monocomp.calls.recording import Recorded

TEXT = (
    "input X[i,k], V[k,e]\nparam scale: float = 1.0\nO[i,e] = softmax[k](X[i,k] * scale) * V[k,e]"
)


class Seeing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees operations."""

    def __torch_dispatch__(self, function: Any, _: Any, args: Any = (), how: Any = None) -> Any:
        return function(*args, **(how or {}))


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "sizes": lambda t: t[:, 1:].contiguous(),
    "strides": lambda t: t.mT.contiguous().mT,
    "dtype": lambda t: t.double(),
    "alignment": lambda t: torch.zeros(t.numel() + 1)[1:].view(t.shape).copy_(t.detach()),
    "gradient": lambda t: t.detach().clone().requires_grad_(not t.requires_grad),
    "type": lambda t: torch.nn.Parameter(t.detach().clone(), t.requires_grad),
    "negative": lambda t: torch._neg_view(-t),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_looks_different(change: str) -> None:
    """A look has all that a plan depends on."""
    x = torch.randn(4, 8)
    is_alike = if_alike([x], lambda _: True)
    assert is_alike is not None
    assert is_alike(torch.zeros(4, 8)) and not is_alike(CHANGES[change](x))


def test_what_follows_tensors() -> None:
    """Arguments of which any pass, one that is not given, and what tells calls apart."""
    x = torch.randn(4, 8)
    run = if_alike([x, None], lambda *values: values, 1, (True, False))
    assert run is not None
    assert run(x, None, 3, (True, False)) == (x, None, 3)
    assert run(x, x, 3, (True, False)) is None and run(x, None, 3, (True, True)) is None


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of torch itself
def test_what_watches_is_part_of_the_look() -> None:
    """Modes, transforms and autocast, and tensors with tangents."""
    x, seen = torch.randn(4, 8), []
    is_alike = if_alike([x], lambda _: True)
    assert is_alike is not None
    with Seeing():  # type: ignore[no-untyped-call]
        seen.append(bool(is_alike(x)))
    with torch.autocast("cpu"):
        seen.append(bool(is_alike(x)))
    with torch.inference_mode():
        seen.append(bool(is_alike(x)))
    torch.func.vmap(lambda row: seen.append(bool(is_alike(x))) or row)(x)
    torch.func.grad(lambda row: seen.append(bool(is_alike(x))) or row.sum())(x)
    with torch.autograd.forward_ad.dual_level():
        seen.append(bool(is_alike(torch.autograd.forward_ad.make_dual(x, x))))  # type: ignore[no-untyped-call]
    assert seen == [False] * 6 and is_alike(x)
    assert if_alike([], lambda: True) is None


@contextmanager
def nothing_looked_up() -> Iterator[None]:
    """Let the signature of a call, or of a backward pass, be an error."""
    error = AssertionError("looked up")
    with (
        patch.object(Plans, "_signature", side_effect=error),
        patch.object(Recorded, "signature", side_effect=error),
    ):
        yield


@pytest.mark.parametrize("by_name", [False, True])
def test_the_last_call_is_not_looked_up(by_name: bool) -> None:
    """Nor its backward pass, whatever the value of a parameter that only kernels read."""
    kernel = mc.compile(TEXT, backend="torch")

    def both(scale: float) -> list[Tensor]:
        X, V = (torch.randn(4, n, requires_grad=True) for n in (4, 3))
        inputs = {"X": X, "V": V}
        out = kernel(**inputs, scale=scale) if by_name else kernel(X, V, scale=scale)
        wanted = (X * scale).softmax(-1) @ V
        torch.testing.assert_close(out, wanted)
        found = torch.autograd.grad(out.square().sum(), [X, V])
        torch.testing.assert_close(found, torch.autograd.grad(wanted.square().sum(), [X, V]))
        return [*found]

    for _ in range(4):
        both(0.5)
    with nothing_looked_up():
        both(2.0)
        with pytest.raises(AssertionError, match="looked up"):
            both(torch.finfo(torch.float64).max)  # of parameters that are no float32


@pytest.mark.parametrize("needed", ["X", "V"])
def test_other_passes_are_looked_up(needed: str) -> None:
    """One of fewer gradients, or with another cotangent, is not taken for the last."""
    kernel = mc.compile(f"{TEXT}\nM[i] = max[k](X[i,k])\nreturn O, M", backend="torch")
    X, V = (torch.randn(4, n, requires_grad=True) for n in (4, 3))
    wanted = X.softmax(-1) @ V, X.amax(-1)
    of = {"X": X, "V": V}[needed]
    for _ in range(4):
        for weights in ((1.0, 1.0), (1.0, 0.0), (2.0, 0.5)):
            for inputs in ([X, V], [of]):
                gradients = []
                for results in (kernel(X, V), wanted):
                    total = sum(
                        w * r.square().sum() for w, r in zip(weights, results, strict=True) if w
                    )
                    assert isinstance(total, Tensor)
                    gradients.append(torch.autograd.grad(total, inputs, retain_graph=True))
                torch.testing.assert_close(*gradients)


def test_a_pass_that_is_recorded_is_looked_up() -> None:
    """Gradients that are differentiated in turn are no repeated ones, however alike the pass is."""
    kernel, double = mc.compile(TEXT, backend="torch"), torch.float64
    X, V = (torch.randn(4, n, dtype=double, requires_grad=True) for n in (4, 3))
    cotangent = torch.ones(4, 3, dtype=double)
    for create_graph in (False, False, False, False, True):
        of_ours, of_eager = (
            torch.autograd.grad(out, [X, V], cotangent, create_graph=create_graph)
            for out in (kernel(X, V), X.softmax(-1) @ V)
        )
        torch.testing.assert_close(of_ours, of_eager)
    seconds = (torch.autograd.grad(g[0].square().sum(), [X, V]) for g in (of_ours, of_eager))
    torch.testing.assert_close(*seconds)
