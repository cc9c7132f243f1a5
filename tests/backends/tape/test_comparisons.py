"""Comparisons of floats come to those of less."""

from __future__ import annotations

import pytest
import torch

import monocomp as mc
from monocomp.backends.tape import comparisons
from monocomp.backends.tape.recorder import Recorder
from monocomp.backends.tape.tile import Tile
from tests.backends.library_cases import CASES
from tests.backends.tape.test_forms import given, operations
from tests.backends.tape.test_tape import names_of, tapes_made


def test_what_comparisons_come_to() -> None:
    recorder = Recorder(3)
    ops = operations(recorder, "ij")
    x, y, z = (
        Tile(ops, given(recorder, n, (3, 4), torch.float32), (0, 1), (3, 4)) for n in range(3)
    )
    zero, two, eight = (ops.full((1, 1), number, "float") for number in (0.0, 2.0, 8.0))
    f = ops.elementwise
    less = ops.compared("lt", x, y).value

    def of(name: str, a: Tile, b: Tile) -> object:
        return ops.compared(name, a, b).value

    assert of("lt", f["exp2"](x), f["exp2"](y)) is less
    assert of("lt", zero, f["mul"](two, f["sub"](y, x))) is less
    assert of("lt", f["sub"](x, z), f["sub"](y, z)) is less
    assert of("lt", f["neg"](y), f["neg"](x)) is less
    assert of("ne", zero, f["maximum"](f["sub"](f["exp2"](y), f["exp2"](x)), zero)) is less
    _, one, number = comparisons.simplest(ops, "lt", f["sub"](f["exp2"](x), eight), zero)
    assert one.value is x.value and number.value.number == 3
    assert comparisons.of_sign(ops, f["sub"](f["exp2"](x), f["exp2"](zero))).value is x.value
    # z may be -inf where it is added, and a negative number turns a comparison round.
    assert of("lt", f["add"](x, z), f["add"](y, z)) is not less
    assert of("lt", zero, f["mul"](ops.full((1, 1), -2.0, "float"), f["sub"](y, x))) is not less
    assert of("lt", zero, f["maximum"](f["sub"](y, x), zero)) is not less


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_conditions_on_exponentials(dtype: torch.dtype) -> None:
    """-inf is below all numbers, and what overflows above them."""
    X = torch.randn(50, 60, dtype=dtype) * 3
    X[0], X[:, 1], X[3, 4] = -torch.inf, 1000.0, -1000.0
    text = (
        "C[i,k] = where(exp(X[i,k]) > 1, 2 * X[i,k], 1)\nS[i,k] = sign(exp(X[i,k]) - 1)\n"
        "M[i] = sum[k if relu(exp(X[i,k]) - 1) != 0](1)\nreturn C, S, M"
    )
    with tapes_made() as made:
        found = mc.compile(text, backend="torch")(X=X)
    positive = X > 0
    wanted = torch.where(positive, 2 * X, 1), X.sign(), positive.sum(1)
    for x, y in zip(found, wanted, strict=True):
        torch.testing.assert_close(x, y.to(x.dtype))
    assert "exp2" not in names_of(made[-1])


def test_kernels_of_a_gradient_share_a_condition() -> None:
    """Kernels of softpick state it of exponentials of other frames."""
    case = CASES["softpick"]
    inputs = case.inputs(case.sizes(64, 64, 16, 16))
    floats = [t.requires_grad_() for t in inputs.values()]
    kernel = mc.compile(case.text, backend="torch")
    with tapes_made() as made:
        for _ in range(3):
            torch.autograd.grad(kernel(**inputs).sum(), floats)
    keys = [s.result.made_by[0] for s in made[-1].steps if s.result.made_by is not None]
    assert keys.count(("mask", "lt")) == 1
