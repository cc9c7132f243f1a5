"""Values that calls compute for their backward passes besides what these are derived to read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.backends import torch as backend
from monocomp.backends.tape import choices, sharing, softmax, weights
from monocomp.machine.cpu import CPU
from tests.backends import eager
from tests.backends.library_cases import CASES
from tests.backends.tape.test_tape import tapes_made

CAUSAL = "input Q[q,d], K[k,d], V[k,e]\nO[q,e] = softmax[k if k <= q](Q[q,d] * K[k,d]) * V[k,e]"


def kept_elements(call: Callable[[], Any]) -> int:
    """How many elements autograd keeps for a call."""
    sizes = []

    def pack(t: Tensor) -> Tensor:
        sizes.append(t.numel())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        call()
    return sum(sizes)


def causal(n: int = 24) -> tuple[mc.Kernel, list[Tensor], list[Tensor]]:
    """A kernel, its inputs, and their gradients of the sum of its results."""
    tensors = [torch.randn(n, 8, generator=torch.Generator().manual_seed(s)) for s in range(3)]
    tensors = [t.requires_grad_() for t in tensors]
    wanted = torch.autograd.grad(in_eager_torch(*tensors).sum(), tensors)
    return mc.compile(CAUSAL, backend="torch"), tensors, list(wanted)


def in_eager_torch(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """The results of the kernel."""
    hidden = torch.ones(len(Q), len(K)).tril() == 0
    return (Q @ K.mT).masked_fill(hidden, -torch.inf).softmax(-1) @ V


def repeat(kernel: mc.Kernel, tensors: Sequence[Tensor], times: int = 3) -> list[Tensor]:
    """The gradients of the last of some calls."""
    for _ in range(times):
        found = torch.autograd.grad(kernel(*tensors).sum(), tensors)
    return list(found)


@contextmanager
def tapes_shared() -> Iterator[list[Any]]:
    """Yield what `shared` makes."""
    made: list[Any] = []

    def shared(*args: Any) -> Any:
        made.append(sharing.shared(*args))
        return made[-1]

    with patch.object(backend, "shared", shared):
        yield made


def compared(
    text: str, eager: Callable[..., Tensor], inputs: Mapping[str, Tensor], atol: float = 1e-4
) -> tuple[Any, Any]:
    """Compare calls, and the gradients of squares of their results, with eager torch; return the
    tapes of a call that shares values with its backward pass, and of that."""
    floats = [t.requires_grad_() for t in inputs.values() if t.is_floating_point()]
    wanted = eager(**inputs)
    gradients = torch.autograd.grad(wanted.square().sum(), floats)
    kernel = mc.compile(text, backend="torch")
    with tapes_shared() as tapes:
        for _ in range(4):
            result = kernel(**inputs)
            torch.testing.assert_close(result, wanted)
            before = result.detach().clone()
            found = torch.autograd.grad(result.square().sum(), floats)
            torch.testing.assert_close(found, gradients, rtol=1e-4, atol=atol)
            assert torch.equal(result, before)
    ((forward, backward, _),) = tapes
    return forward, backward


def names_of(tape: Any) -> list[Any]:
    """The names of values that a tape computes."""
    return [s.result.key for s in tape.steps if s.result.key is not None]


def products_of(tape: Any) -> int:
    """How many products of matrices a tape computes."""
    return sum(getattr(s.run, "func", s.run) in (torch.bmm, torch.baddbmm) for s in tape.steps)


NAMES = "dropout", "gqa", "document", "talking_heads", "kl_divergence", "softpick", "fp8_attention"


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_the_first_call(name: str) -> None:
    """That has shared nothing; and the pass may be repeated."""
    case = CASES[name]
    inputs = case.inputs(case.sizes(19, 23, 8, 6, 2))
    floats = [t.requires_grad_() for t in inputs.values() if t.is_floating_point()]
    kernel, every, passes = mc.compile(case.text, backend="torch"), [], []
    with patch.object(backend, "sharing", wraps=backend.sharing) as shared:
        for _ in range(4):
            out = kernel(**inputs, **case.params)
            out = out[0] if isinstance(out, tuple) else out
            cotangent = torch.linspace(-1, 1, out.numel()).reshape(out.shape)
            again = [
                torch.autograd.grad(out, floats, cotangent, retain_graph=True) for _ in range(2)
            ]
            every.append([out.detach(), *again[0]])
            passes.append(again)
    assert shared.call_count == 1
    for made in every[1:]:
        torch.testing.assert_close(made, every[0])
    for first, second in passes:
        assert all(map(torch.equal, first, second))


def test_what_is_shared_is_computed_once() -> None:
    """The logits; and where it has too many elements it is computed again, and not kept."""
    kernel, tensors, wanted = causal()
    before = kept_elements(lambda: kernel(*tensors))
    torch.testing.assert_close(repeat(kernel, tensors), wanted)
    more = kept_elements(lambda: kernel(*tensors)) - before
    assert 24 * 24 <= more <= 2 * 24 * 24
    with patch.object(sharing, "CPU", replace(CPU, shared=24 * 24 - 1)):
        kernel, *_ = causal()
        torch.testing.assert_close(repeat(kernel, tensors), wanted)
        assert kept_elements(lambda: kernel(*tensors)) == before


def softpick_tape() -> Any:
    """The tape of the gradients of `softpick`, which are compared with eager torch's."""
    case = CASES["softpick"]
    return compared(case.text, eager.softpick, case.inputs(case.sizes(24, 24, 8, 8)), 1e-5)[1]


def test_weights_that_a_factor_scales_are_those_of_the_call() -> None:
    """The gradient has them relative to another number for each element, and scales them."""
    shared = softpick_tape()
    with patch.object(weights.Quotients, "scaled", return_value=None):
        own = softpick_tape()
    assert names_of(shared).count("exp2") <= names_of(own).count("exp2") - 3


@pytest.mark.parametrize("columns", [24, 64])
def test_statistics_and_their_gradients(columns: int) -> None:
    """A maximum that is returned is kept as a copy, so weights are the call's; choices between
    numbers and 0 are thresholds. Rows of -inf come to what they are without a tape."""
    case = CASES["log_softmax_statistics"]
    X = torch.randn(64, columns, generator=torch.Generator().manual_seed(0)).requires_grad_()
    with torch.no_grad():
        X[1], X[2, 3:], X[3, :2], X[4] = -math.inf, -math.inf, -math.inf, X[5, 0]
    kernels = [mc.compile(case.text, backend="torch", checked=checked) for checked in (True, False)]
    with tapes_shared() as tapes:
        passes = []
        for kernel in (*kernels, *(kernels[1],) * 3):
            M, L, H = kernel(X)
            loss = (M.exp() + 2 * L.exp() + H.square()).sum()
            passes.append((M, L, H, *torch.autograd.grad(loss, X)))
    for made in passes[1:]:
        torch.testing.assert_close(made, passes[0])
    ((forward, backward, _),) = tapes
    runs = [s.run for s in (*forward.steps, *backward.steps)]
    assert runs.count(torch.exp2) == 1
    assert sum(isinstance(r, partial) and r.func is choices.compared for r in runs) <= 1


def test_of_too_many_values_some_are_kept() -> None:
    """Values go that fewest steps make of others."""
    sizes: list[list[int]] = []

    def fitting(*args: Any) -> Any:
        kept = original(*args)
        sizes.append([math.prod(v.shape) for v in kept])
        return kept

    original = sharing._fitting
    with patch.object(sharing, "_fitting", fitting):
        every = softpick_tape()
        with patch.object(sharing, "CPU", replace(CPU, shared=sum(sizes[0]) - 1)):
            some = softpick_tape()
    assert sizes[1] and sum(sizes[1]) < sum(sizes[0])
    assert len(every.steps) < len(some.steps) < len(every.steps) + 4


def test_other_passes_after_one_that_shares() -> None:
    """Gradients of fewer inputs, of other cotangents, of gradients, and of an earlier call."""
    kernel, tensors, wanted = causal()
    earlier = kernel(*tensors)
    earlier = kernel(*tensors)
    repeat(kernel, tensors)
    for _ in range(3):
        torch.testing.assert_close(
            torch.autograd.grad(kernel(*tensors).sum(), tensors[:1]), wanted[:1]
        )
        ones = torch.ones(8, 24).mT
        torch.testing.assert_close(torch.autograd.grad(kernel(*tensors), tensors, ones), wanted)
    torch.testing.assert_close(torch.autograd.grad(earlier.sum(), tensors), wanted)
    both = []
    for compute in (in_eager_torch, kernel):
        out = compute(*tensors)
        (first,) = torch.autograd.grad(out.square().sum(), tensors[:1], create_graph=True)
        both.append(torch.autograd.grad(first.sum(), tensors))
    torch.testing.assert_close(*both, rtol=1e-4, atol=1e-4)


def test_hooks_may_lay_out_what_is_kept_anew() -> None:
    """As those do that keep it elsewhere."""
    kernel, tensors, wanted = causal()
    repeat(kernel, tensors)

    def unpack(t: Tensor) -> Tensor:
        return t.mT.contiguous().mT if t.dim() > 1 else t

    for _ in range(3):
        with torch.autograd.graph.saved_tensors_hooks(torch.clone, unpack):
            found = torch.autograd.grad(kernel(*tensors).sum(), tensors)
        torch.testing.assert_close(found, wanted)


def test_inputs_in_another_layout() -> None:
    """They are copied once, for both."""
    kernel, tensors, wanted = causal()
    strided = [t.detach().mT.contiguous().mT.requires_grad_() for t in tensors]
    torch.testing.assert_close(repeat(kernel, strided), wanted)


@pytest.mark.parametrize(
    "text",
    [
        "input X[i,k]\nP[i,k] = softmax[k](X[i,k])",
        "input X[i,k]\nO[i] = sum[k](softmax[k](X[i,k]) * cos(k))",
        "input X[i,k]\nL[i] = logsumexp[k](X[i,k])",
        "input X[i,k], V[k,e]\nO[i,e] = softmax[k if k <= i](X[i,k]) * V[k,e]",
        "input X[i,k], V[k,e], M[i,k]: bool\nO[i,e] = softmax[k if M[i,k]](X[i,k]) * V[k,e]",
    ],
)
def test_weights_are_quotients(text: str) -> None:
    """Also where elements, or all of a row, are -inf or masked: the exponentials of the call are
    shared, and the backward pass applies the mask to all that it makes of them."""
    kernel = mc.compile(text, backend="torch")
    X, V, M = torch.randn(64, 64), torch.randn(64, 5), torch.rand(64, 64) < 0.2
    X[1], X[2, ::2], X[3, 1:], M[7] = -torch.inf, -torch.inf, -torch.inf, False
    X[4] += 1e4
    inputs = {n: x for n, x in (("X", X), ("V", V), ("M", M)) if n in kernel.declared.inputs}
    floats = [t.requires_grad_() for t in inputs.values() if t.is_floating_point()]
    with tapes_shared() as tapes:
        every = []
        for _ in range(4):
            out = kernel(**inputs)
            cotangent = torch.linspace(-1, 1, out.numel()).reshape(out.shape)
            every.append(torch.autograd.grad(out, floats, cotangent))
    for found in every[1:]:
        torch.testing.assert_close(found, every[0])
    ((_, backward, _),) = tapes
    assert "exp2" not in names_of(backward)


@pytest.mark.parametrize("condition", ["", " if k <= q", " if k <= q and q - k < 9"])
@pytest.mark.parametrize("heads", ["", "h,"])
def test_gradients_of_softmax_are_one_operation(heads: str, condition: str) -> None:
    """The mean of the values by the cotangent is that of its products with the values; and softmax
    is 0 where its mask is."""
    text = (
        f"input Q[{heads}q,d], K[{heads}k,d], V[{heads}k,e]\n"
        f"O[{heads}q,e] = softmax[k{condition}](Q[{heads}q,d] * K[{heads}k,d]) * V[{heads}k,e]"
    )
    shape = (2, 48, 8) if heads else (48, 8)
    hidden = torch.zeros(48, 48, dtype=torch.bool)
    if condition:
        hidden = torch.ones(48, 48).tril() == 0
    if "9" in condition:
        hidden |= torch.ones(48, 48).tril(-9) == 1

    def of_softmax(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        return (Q @ K.mT).masked_fill(hidden, -torch.inf).softmax(-1) @ V

    _, backward = compared(text, of_softmax, {n: torch.randn(shape) for n in "QKV"})
    names = names_of(backward)
    assert [s.run for s in backward.steps].count(softmax.of_gradient) == 1
    assert names.count("keep") <= bool(condition) and not any("sum" in n for n in names)


def test_statistics_that_nothing_reads_are_not_computed() -> None:
    """A call that shares softmax keeps no logarithm; who asks for more has it computed again."""
    kernel = mc.compile("input X[i,k]\nP[i,k] = softmax[k](X[i,k])", backend="torch")
    X = torch.randn(5, 7, requires_grad=True)
    cotangent = torch.randn(5, 7)
    (wanted,) = torch.autograd.grad(X.softmax(-1), X, cotangent)
    for _ in range(4):
        torch.testing.assert_close(torch.autograd.grad(kernel(X), X, cotangent), (wanted,))
    assert kept_elements(lambda: kernel(X)) == 2 * 5 * 7
    strided = cotangent.mT.contiguous().mT
    for _ in range(3):
        torch.testing.assert_close(torch.autograd.grad(kernel(X), X, strided), (wanted,))
    (first,) = torch.autograd.grad(kernel(X), X, cotangent, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), X)
    (first,) = torch.autograd.grad(X.softmax(-1), X, cotangent, create_graph=True)
    torch.testing.assert_close(second, torch.autograd.grad(first.square().sum(), X)[0])


def test_guards_of_sums_of_others_stay() -> None:
    """The logarithm of what is no sum of the exponentials may be 0 where these are not."""
    text = (
        "input X[i,k], s[i]\nl[i] = where(log(s[i]) == -inf, 0, log(s[i]))\n"
        "O[i] = sum[k](exp(X[i,k] - l[i]))"
    )
    kernel = mc.compile(text, backend="torch")
    X, s = torch.randn(4, 5, requires_grad=True), torch.tensor([0.0, 0.5, 2.0, 0.0])
    for _ in range(4):
        (found,) = torch.autograd.grad(kernel(X, s).sum(), X)
        torch.testing.assert_close(found, (X - torch.where(s == 0, 1, s).log()[:, None]).exp())


def test_heads_of_a_group_are_rows_of_one_product() -> None:
    """Forward and backward: nothing is repeated, and no product computed twice."""
    inputs = {n: torch.randn(2, h, 24, 8) for n, h in zip("QKV", (6, 2, 2), strict=True)}
    first, second = compared(library.load("gqa"), eager.gqa, inputs)
    for tape, count in ((first, 2), (second, 4)):
        assert products_of(tape) == count and "exp2" not in names_of(tape)
        assert not any(isinstance(n, tuple) and n[0] == "select" for n in names_of(tape))
    assert {s.result.shape for s in first.steps if s.run is torch.bmm} == {(4, 72, 24), (4, 72, 8)}


def test_pages_are_read_alike() -> None:
    """Each kernel guards what it gathers by its own loops: none computes a product twice."""
    case = CASES["fp8_cache"]
    inputs = case.inputs(case.sizes(32, 32, 16, 16))
    _, second = compared(case.text, eager.fp8_cache, inputs)
    assert products_of(second) == 4 and not {torch.exp, torch.exp2} & {s.run for s in second.steps}


@pytest.mark.parametrize("heads", [4, 5, 6])
def test_heads_that_are_no_groups(heads: int) -> None:
    """Where all share one, or some are left over, and where a table says which."""
    text = """
        input Q[h,q,d], K[g,k,d], V[g,k,e], N[h]: int
        O[h,q,e] = softmax[k](Q[h,q,d] * K[N[h],k,d]) * V[h // 3,k,e]
        """

    def in_groups(Q: Tensor, K: Tensor, V: Tensor, N: Tensor) -> Tensor:
        return (Q @ K[N].mT).softmax(-1) @ V[torch.arange(heads) // 3]

    inputs = {"Q": torch.randn(heads, 7, 4), "K": torch.randn(2, 9, 4), "V": torch.randn(2, 9, 4)}
    compared(text, in_groups, inputs | {"N": torch.tensor([1, 0, 0, 1, 1, 0])[:heads]})


TOP = "top[v -> r](S[t,v])"
PLACES = (
    "input X[t,d], W[v,d]\nindex r < 3\nS[t,v] = X[t,d] * W[v,d]\nA[t,r] = argtop[v -> r](S[t,v])\n"
)


def of_the_largest(X: Tensor, W: Tensor) -> tuple[Tensor, ...]:
    """The gradients of the weights of the largest logits, and of these."""
    text = f"{PLACES}P[t,r] = exp({TOP} - logsumexp[v](S[t,v]))\nT[t,r] = {TOP}\nreturn A, P, T"
    kernel, tensors = mc.compile(text, backend="torch"), [X.requires_grad_(), W.requires_grad_()]
    for _ in range(3):
        places, *results = kernel(X, W)
        assert ((places >= 0) & (places < len(W))).all()
        gradients = torch.autograd.grad(results, tensors, [r.detach() for r in results])
    return gradients


def test_weights_of_the_largest_are_read_of_softmax() -> None:
    """Each exponential is computed once, and the gradient of logits, which is added up once, is a
    factor of two products."""
    X, W = torch.randn(6, 4), torch.randn(9, 4)
    with tapes_shared() as made:
        found = of_the_largest(X, W)
    weights = (X @ W.mT).softmax(1)
    largest, places = (X @ W.mT).topk(3)
    results = [weights.gather(1, places), largest]
    wanted = torch.autograd.grad(results, [X, W], [r.detach() for r in results])
    torch.testing.assert_close(found, wanted)
    steps = [s for tape in made[0][:2] for s in tape.steps]
    names = [name for tape in made[0][:2] for name in names_of(tape)]
    assert [names.count(n) for n in ("softmax", "at", "exp2")] == [1, 1, 0]
    assert sum(n[0] == "scattered" for n in names if isinstance(n, tuple)) == 1
    assert sum(s.run is torch.mm for s in steps) == 3


@pytest.mark.parametrize("number", [-math.inf, math.inf, math.nan])
def test_places_of_the_largest_are_in_range(number: float) -> None:
    """Whatever is given; what other rows come to stays what it is."""
    X, W = torch.randn(6, 4), torch.rand(9, 4) + 0.1
    wanted, _ = of_the_largest(X.clone(), W.clone())
    X[2] = number
    found, _ = of_the_largest(X, W)
    torch.testing.assert_close(found[3:], wanted[3:])


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_means_of_logarithms_are_of_softmax(scale: float) -> None:
    """A divergence of two of them; large logits lose nothing."""
    kernel = mc.compile(library.load("kl_divergence"), backend="torch")
    X, A, Y, B = (torch.randn(n, d) for n, d in ((5, 3), (9, 3), (5, 2), (9, 2)))
    with tapes_made() as made:
        found = kernel(scale * X, A, Y, B).double()
    pairs = (scale * X, A), (Y, B)
    P, R = ((x.double() @ a.double().T).log_softmax(-1) for x, a in pairs)
    torch.testing.assert_close(found, (P.exp() * (P - R)).sum(-1), rtol=1e-4, atol=1e-4)
    runs = [s.run for s in made[0].steps]
    assert runs.count(torch._log_softmax) == 2 and torch.log not in runs
