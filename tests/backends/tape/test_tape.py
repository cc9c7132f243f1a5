"""Tapes: what kernels of one block come to, beside the same kernels in tiles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp.backends import torch as backend
from monocomp.backends import torch_operations
from monocomp.backends.tape import reading, recorder, recording, tape
from monocomp.backends.tape.recorder import Recorder
from monocomp.backends.tape.tape import Tape
from monocomp.backends.tape.tile import strided
from monocomp.machine.cpu import CPU
from tests.backends.library_cases import CASES
from tests.backends.programs import EXAMPLES
from tests.backends.running import largest_error, scale_of
from tests.backends.tolerances import agree

CAUSAL = "O[q,e] = softmax[k if k <= q](Q[q,d] * K[k,d]) * V[k,e]"
DIFFERENTIATED = ("causal", "gqa", "alibi", "t5", "varlen", "softmax_top8", "paged_attention")
DIFFERENTIATED += ("shaw_values", "two_simplicial")


@contextmanager
def tapes_made(largest: int | None = None) -> Iterator[list[Any]]:
    """Yield the tapes of `recorded`, None for what has none, for tiles of at most this size."""
    made: list[Any] = []
    original = recording.recorded

    def recorded(*args: Any) -> Any:
        both = original(*args)
        made.append(None if both is None else both[0])
        return both

    limit = CPU.tile if largest is None else largest
    with (
        patch.object(backend, "recorded", recorded),
        patch.object(recording, "CPU", replace(CPU, tile=limit)),
    ):
        yield made


def computed(name: str, differentiated: bool, dtype: torch.dtype) -> list[Tensor]:
    """Results of a library program on inputs of some length, and gradients."""
    case = CASES[name]
    inputs = case.inputs(case.sizes(19, 23, 8, 6, 2), dtype)
    floats = [t for t in inputs.values() if t.dtype == dtype]
    for t in floats:
        t.requires_grad_(differentiated)
    made = mc.compile(case.text, backend="torch")(**inputs, **case.params)
    results = list(made) if isinstance(made, tuple) else [made]
    if not differentiated:
        return results
    used = [r for r in results if r.requires_grad]
    cotangents = [torch.linspace(-1, 1, r.numel()).reshape(r.shape).to(r.dtype) for r in used]
    found = torch.autograd.grad(used, floats, cotangents, allow_unused=True)
    return [*(r.detach() for r in results), *(g for g in found if g is not None)]


def names_of(made: Any) -> list[Any]:
    """What the steps of a tape are, by name."""
    keys = [s.result.key for s in made.steps if s.result.key is not None]
    return [key[0] if isinstance(key, tuple) else key for key in keys]


@pytest.mark.parametrize(
    ("name", "differentiated"),
    [*((n, False) for n in CASES), *((n, True) for n in DIFFERENTIATED)],
)
@pytest.mark.one_in(3)
def test_tapes_compute_what_tiles_do(name: str, differentiated: bool) -> None:
    """Every library program, and the gradients of some."""
    with tapes_made() as made:
        found = computed(name, differentiated, torch.float32)
    assert made and all(t is not None for t in made)
    with tapes_made(largest=16) as others:
        wanted = computed(name, differentiated, torch.float32)
    assert None in others
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == y.dtype
        assert largest_error(x, y) <= 2e-5 * max(1.0, scale_of(y))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    """Programs of every part of the language, in blocks that hold all of an axis."""
    example = EXAMPLES[name]
    for inputs in example.drawn():
        agree("torch", example.text, inputs, example.tolerance, block=None, **example.params)


def test_results_are_tensors_of_their_own() -> None:
    """Not an input, not one another, and no views: all of them may be written to."""
    kernel = mc.compile(
        "input X[i,j]\nA[i,j] = X[i,j]\nB[i,j] = X[i,j]\nC[j,i] = X[i,j] + X[j,i]\nreturn A, B, C",
        backend="torch",
    )
    X = torch.randn(4, 4)
    for _ in range(2):
        results = kernel(X)
        held = {t.data_ptr() for t in (X, *results)}
        assert len(held) == 4
        assert all(r.is_contiguous() and not r._is_view() for r in results)


def test_elements_at_one_place_are_copied() -> None:
    """Leave inputs as they are, though torch gives views of such elements."""
    text = "input S[q,k], T[k]\nO[q] = var[k](maximum(S[q,k], exp(-T[k])))"
    kernel = mc.compile(text, backend="torch")
    S, T = torch.randn(3, 5), torch.rand(5) + 1
    before = T.clone()
    first = kernel(S, T)
    assert torch.equal(T, before)
    assert torch.equal(first, kernel(S, T))
    wanted = torch.maximum(S, torch.exp(-T)).var(1, correction=0)
    torch.testing.assert_close(first, wanted)


def test_large_masks_are_not_kept() -> None:
    """Values larger than `CPU.kept` are computed in each call."""
    Q, K, V = torch.randn(3, 40, 4).unbind()
    wanted = mc.compile(CAUSAL, backend="torch")(Q=Q, K=K, V=V)
    with patch.object(recorder, "CPU", replace(CPU, kept=64)), tapes_made() as made:
        found = mc.compile(CAUSAL, backend="torch")(Q=Q, K=K, V=V)
    assert max(t.numel() for t in made[0].kept) <= 64
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("chosen", ["0", "-inf", "inf", "1"])
@pytest.mark.parametrize("sign", ["<", "<=", "==", "!="])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_choices_are_exact(chosen: str, sign: str, dtype: torch.dtype) -> None:
    """Masks choose as `where` does, whatever the elements are; conditions on NaN are free."""
    special = torch.tensor([0.0, -0.0, 1.0, -2.5, torch.inf, -torch.inf, torch.nan], dtype=dtype)
    X = special[torch.arange(70 * 70).reshape(70, 70) * 3 % 7]
    Y = special[torch.arange(70 * 70).reshape(70, 70) // 7 % 7]
    Z = torch.where(Y.isnan(), 3.0, Y)
    text = (
        "input X[i,j], Y[i,j], Z[i,j]\n"
        f"A[i,j] = where(X[i,j] {sign} Y[i,j], Z[i,j], {chosen})\n"
        f"B[i,j] = where(not (X[i,j] {sign} Y[i,j] and X[i,j] < 1), {chosen}, Z[i,j])\n"
        "return A, B"
    )
    A, B = mc.compile(text, backend="torch")(X, Y, Z)
    compare = {"<": torch.lt, "<=": torch.le, "==": torch.eq, "!=": torch.ne}[sign]
    holds, number = compare(X, Y), torch.tensor(float(chosen), dtype=dtype)
    assert torch.equal(A, torch.where(holds, Z, number))
    is_number = ~(X.isnan() | Y.isnan())
    wanted = torch.where(holds & (X < 1), Z, number)
    assert torch.equal(B[is_number], wanted[is_number])


@pytest.mark.parametrize(("infinity", "chosen"), [("inf", -torch.inf), ("-inf", 0.0)])
def test_infinities_of_chosen_numbers_are_told_apart(infinity: str, chosen: float) -> None:
    """Where only the other infinity is replaced, one stays."""
    text = f"M[i] = where(A[i] < 2, 0, -inf)\nO[i] = where(M[i] == {infinity}, 0, M[i])\nreturn O"
    result = mc.compile(text, backend="torch")(torch.tensor([1.0, 3.0]))
    assert result.tolist() == [0.0, chosen]


def test_choices_of_what_is_0_where_it_is_not_chosen() -> None:
    """Nothing is kept from a branch that a condition makes 0, by the extrema that it settles."""
    x = torch.linspace(-3, 3, 4096).reshape(64, 64)
    x[0, :4] = torch.tensor([-torch.inf, 0.0, -0.0, 1e30])
    with tapes_made() as made:
        result = mc.compile("Y[i,j] = elu(X[i,j])", backend="torch")(x)
    torch.testing.assert_close(result, torch.nn.functional.elu(x), rtol=2e-6, atol=2e-7)
    assert not {"keep", "mask", "where"} & {*names_of(made[0])}
    with tapes_made() as made:
        text = "Y[i,j] = where(X[i,j] > 1, X[i,j], minimum(1, X[i,j]) - 2)"
        result = mc.compile(text, backend="torch")(x)
    torch.testing.assert_close(result, torch.where(x > 1, x, x - 2))
    assert names_of(made[0]).count("keep") == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_largest_of_distinct_elements_are_those_of_torch(dtype: torch.dtype) -> None:
    """No elements are paired with their positions where that changes nothing."""
    kernel = mc.compile(
        "input X[i,k]\nindex r < 6\nA[i,r] = argtop[k -> r](X[i,k])", backend="torch"
    )
    X = torch.randn(5, 9, dtype=dtype)
    error = AssertionError("elements are paired")
    with patch.object(torch_operations, "_keys", side_effect=error):
        for _ in range(2):
            assert torch.equal(kernel(X), X.topk(6).indices)


@pytest.mark.parametrize(
    ("taken", "positions"),
    [
        ("argmax[k](k)", [4, 4]),
        ("argmin[k if k > 1](tanh(k))", [2, 2]),
        ("argmin[k if k > 7](k)", [0, 0]),  # of nothing
        ("argmax[k if k > 7](X[r,k])", [0, 0]),
        ("argmax[k if k == 3](X[r,k])", [3, 3]),
        ("argmax[k if k % 2 == 1](0 * X[r,k])", [1, 1]),  # the first element has no position
        ("argtop[k -> r](sin(k))", [2, 1]),
    ],
)
def test_positions_that_no_call_changes(taken: str, positions: list[int]) -> None:
    """Of elements that are the same in each call, and beside a filter that is."""
    text = f"input X[r,k]\nA[r] = r * |k| + {taken}"
    found = mc.compile(text, backend="torch")(torch.randn(2, 5))
    assert found.tolist() == [positions[0], 5 + positions[1]]


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


_EXPONENTS = 3 * numbers(50, 60)
_EXPONENTS[0], _EXPONENTS[:, 1], _EXPONENTS[3, 4] = -torch.inf, 1000.0, -1000.0
_SELECTED = {
    "A": numbers(5, 2),
    "N": torch.tensor([0, 2, 1, -1, 99]),
    "G": torch.tensor([[True, False], [True, True], [False, True], [True, True], [True, True]]),
}
_SELECTION = "input A[i,k], N[i]: int, G[i,k]: bool\nO[k] = sum[i if k == N[i] and G[i,k]]({})"
VALUES: dict[str, tuple[str, dict[str, Tensor]]] = {
    # -inf is below all numbers, and what overflows above them.
    "conditions on exponentials": (
        "C[i,k] = where(exp(X[i,k]) > 1, 2 * X[i,k], 1)\nS[i,k] = sign(exp(X[i,k]) - 1)\n"
        "M[i] = sum[k if relu(exp(X[i,k]) - 1) != 0](1)\nreturn C, S, M",
        {"X": _EXPONENTS},
    ),
    # log(1 + p) is p where 1 + p is 1, however small p is: (1 + p) - 1 == 0 is not p == 0.
    "zeros that are rounded": (
        "O[i] = softplus(max[k](W[k] * X[i]))",
        {"W": torch.ones(2), "X": torch.tensor([-800.0, -300, -80, -60, -1, 0, 1, 60, 80, 800])},
    ),
    # Kernels that read a table under different conditions read it once, at the same positions.
    "positions whose guards are dropped": (
        "input T[p,d], at[k]: int, n[b]: int\nY[b,d] = sum[k if k < n[b]](T[at[k], d])",
        {
            "T": numbers(5, 3),
            "at": torch.tensor([1, 4, 0, 3, 9, -7]),  # what no row reads may be out of range
            "n": torch.tensor([2, 4, 0]),
        },
    ),
    # A read whose positions are made of the selected one stays inside its tensor.
    "a selected position": (
        _SELECTION.format("exp(A[i,k] - max[l if G[i,l] and l == N[i]](A[i,l]))"),
        _SELECTED,
    ),
    "reads at a selected position": (
        _SELECTION.format("A[i, |k| - 1 - k] * G[i, k // 2]"),
        _SELECTED,
    ),
    # Operations in place write to the second of two operands, where these may be exchanged.
    "equal operands": (
        "input X[i,j], Y[i,j]\nA[i,j] = exp(X[i,j]) * exp(X[i,j])\n"
        "B[i,j] = Y[i,j] - exp(X[i,j] + 1)\nC[i,j] = Y[i,j] * exp(X[i,j] + 2)\nreturn A, B, C",
        {"X": numbers(5, 7), "Y": numbers(7, 5).mT.contiguous()},
    ),
    **{
        f"reads at {index}, strides {X.stride()}": (
            "input X[i,d], W[i,q], N[q]: int\n"
            f"A[q,d] = X[{index}, d]\nB[q] = W[{index}, q]\nreturn A, B",
            {"X": X, "W": X[:, :3], "N": torch.tensor([6, 0, 3])},
        )
        for index in ("2 * q + 1", "5 - q", "q // 2", "N[q]", "N[q] % 4")
        for X in (numbers(5, 9).mT, numbers(11, 5)[2:])
    },
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values(name: str, dtype: torch.dtype) -> None:
    """Two calls give the results of the oracle, and write to no input."""
    text, given = VALUES[name]
    inputs = {n: t.to(dtype) if t.is_floating_point() else t for n, t in given.items()}
    for _ in range(2):
        agree("torch", text, inputs, block=None)


def test_extrema_of_what_a_condition_settles_stay_extrema() -> None:
    """Where a branch that is never taken counts, its elements vary again along their axis."""
    text = """
        param s: int = 2
        input B[k,j], Y[k]
        A = where(s - 1 < s, 0.5, min[j,k](B[k,j] * min[k](-Y[k])))
    """
    B, Y = torch.randn(4, 3, requires_grad=True), torch.randn(4, requires_grad=True)
    mc.compile(text, backend="torch")(B, Y).backward()
    assert torch.equal(B.grad, torch.zeros(4, 3))
    assert torch.equal(Y.grad, torch.zeros(4))


SOFTMAX = {
    "softmax": "P[i,k] = softmax[k](X[i,k])",
    "scaled": "P[i,k] = softmax[k](X[i,k] / 4)",
    "mean": "O[i] = sum[k](softmax[k](X[i,k]) * cos(k))",
    "values": "O[i,e] = softmax[k](X[i,k]) * V[k,e]",
    "filtered": "O[i,e] = softmax[k if k < i](X[i,k]) * V[k,e]",
    "two results": "O[i,e] = softmax[k](X[i,k]) * V[k,e]\nL[i] = logsumexp[k](X[i,k])",
    "by hand": (
        "m[i] = max[k](X[i,k])\np[i,k] = exp(X[i,k] - m[i])\n"
        "O[i,e] = -sum[k](p[i,k] * V[k,e]) / sum[k](p[i,k])"
    ),
}
NO_SOFTMAX = {  # sums over rows, squares, and what has another denominator
    "rows": "O[k] = sum[i](exp(X[i,k] - max[k](X[i,k]))) / sum[k](exp(X[0,k] - max[k](X[0,k])))",
    "squares": (
        "O[i] = sum[k](exp(X[i,k] - max[k](X[i,k])) ** 2) / sum[k](exp(X[i,k] - max[k](X[i,k])))"
    ),
    "sinks": "O[i] = (1 + sum[k](exp(X[i,k]) * V[k,0])) / (1 + sum[k](exp(X[i,k])))",
}


@pytest.mark.parametrize("name", [*SOFTMAX, *NO_SOFTMAX])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_softmax_is_one_operation(name: str, dtype: torch.dtype) -> None:
    """Also where elements, or all of a row, are -inf."""
    text = (SOFTMAX | NO_SOFTMAX)[name]
    X = torch.randn(9, 9, dtype=dtype)
    if name in SOFTMAX:
        X[1], X[2, ::2], X[3, 1:] = -torch.inf, -torch.inf, -torch.inf
        X[4] += 1e4
        X[5] -= 1e9
    values = {"X": X, "V": torch.randn(9, 5, dtype=dtype)} if "V[" in text else {"X": X}
    with tapes_made() as made:
        found = mc.compile(text, backend="torch")(**values)
    if name in SOFTMAX:
        assert "softmax" in names_of(made[-1]) and "exp2" not in names_of(made[-1])
    with tapes_made(largest=4):
        wanted = mc.compile(text, backend="torch")(**values)
    torch.testing.assert_close(found, wanted)


def test_views_that_repeat_elements_are_not_written_to() -> None:
    """A diagonal of one row repeats an element: it has as many elements as what it is a view of."""
    recorder = Recorder(1)
    given = recorder.input(0, (1, 2), torch.float64)
    row = recorder.step(None, torch.neg, [given], (1, 2), torch.float64)
    ops: Any = SimpleNamespace(recorder=recorder)
    for stride in (0, 1):
        diagonal = reading._strided(ops, row, (), ([0], []), (2,), {0: stride}, 0)
        assert diagonal.is_whole == strided(recorder, row, (2,), (stride,)).is_whole == bool(stride)


def test_results_that_are_kept_may_not_be_written_to() -> None:
    """They are not copied; autograd tells of it, as in eager torch."""
    kernel = mc.compile("P[q,k] = softmax[k](X[q,k])", backend="torch")
    X = torch.randn(5, 7, requires_grad=True)
    for _ in range(3):
        P = kernel(X)
        (found,) = torch.autograd.grad(P.square().sum(), X)
    (wanted,) = torch.autograd.grad(X.softmax(-1).square().sum(), X)
    torch.testing.assert_close(found, wanted)
    P = kernel(X)
    P.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        P.sum().backward()


@pytest.mark.parametrize("kept", [4, 3])
def test_what_numbers_decide_is_computed_once_for_them(kept: int) -> None:
    """Calls in turn with the same numbers share it; what is larger than `CPU.kept`, and what is
    returned, each call computes."""
    recorder, seen = Recorder(2), []
    x, n = recorder.input(0, (4,), torch.float32), recorder.inputs[1]

    def first(n: int) -> Tensor:
        seen.append(n)
        return torch.arange(4) < n

    condition = recorder.step("first", first, [n], (4,), torch.bool)
    zero = recorder.constant("zero", torch.zeros(()))
    chosen = recorder.step("where", torch.where, [condition, x, zero], (4,), x.dtype)
    with patch.object(tape, "CPU", replace(CPU, kept=kept)):
        made = Tape(recorder.steps, recorder.inputs, [chosen], [n])
        returning = Tape(recorder.steps, recorder.inputs, [chosen, condition], [n])
    numbers, values = [2, 2, 3, 3, 2], torch.arange(1.0, 5.0)
    for run in (made.run, returning.run):
        for number in numbers:
            assert run(values, number)[0].count_nonzero() == number
    assert seen == [*([2, 3, 2] if kept == 4 else numbers), *numbers]


def test_other_numbers_of_a_call() -> None:
    """Masks, bounds and their gradients are those of the parameters of the call, without another
    tape."""
    text = (
        "param window: int, c: float\n"
        "O[q,e] = softmax[k if q - k < window](c * Q[q,d] * K[k,d]) * V[k,e]"
    )
    kernel = mc.compile(text, backend="torch")
    Q, K, V = (x.requires_grad_() for x in torch.randn(3, 33, 8, dtype=torch.float64).unbind())
    distance = torch.arange(33)[:, None] - torch.arange(33)
    with tapes_made() as made:
        for turn, window in enumerate((2, 2, 2, 9, 9, 2, 30)):
            c = 0.5 + turn // 2
            found = kernel(Q=Q, K=K, V=V, window=window, c=c)
            wanted = (c * Q @ K.mT).where(distance < window, -torch.inf).softmax(-1) @ V
            gradients = (torch.autograd.grad(o.square().sum(), [Q, K, V]) for o in (found, wanted))
            torch.testing.assert_close(found, wanted)
            torch.testing.assert_close(*gradients)
    assert len(made) == 2  # of a call, and of its gradients


def test_a_copy_that_is_written_to_is_no_other_one() -> None:
    """Its elements are those of what is copied, until then."""
    recorder = Recorder(1)
    x = recorder.input(0, (4,), torch.float32)
    written = recorder.step(
        None, torch.Tensor.zero_, [recorder.copy(x)], (4,), x.dtype, is_view=True
    )
    other = recorder.step(("view", (0,), (4,)), torch.clone, [x], (4,), x.dtype)
    negative = recorder.step("neg", torch.neg, [other], (4,), x.dtype)
    zeros, found = Tape(recorder.steps, recorder.inputs, [written, negative]).run(torch.ones(4))
    assert not zeros.any() and torch.equal(found, -torch.ones(4))
