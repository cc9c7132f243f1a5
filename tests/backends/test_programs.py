"""Programs of every part of the language on every backend, against the oracle."""

from __future__ import annotations

import math

import pytest
import torch

from monocomp.declarations import counter_rng
from tests.backends.programs import EXAMPLES, HARMLESS_NAMES, with_names
from tests.backends.running import BACKENDS, exact, make_inputs, run
from tests.backends.tolerances import Bound, agree
from tests.marks import slow_unless


@pytest.mark.one_in(11)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, backend: str) -> None:
    """The results are the oracle's, and integers exactly."""
    example = EXAMPLES[name]
    for inputs in example.drawn():
        agree(backend, example.text, inputs, example.tolerance, **example.params)


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_numbers_are_equal_everywhere(backend: str) -> None:
    """The same bits on every backend, and in blocks of any length."""
    text = "param seed: int = 7\nO[i,j] = uniform(seed, i, j) + 0 * X[i,j]"
    inputs = make_inputs(text, {"i": 37, "j": 19})
    (wanted,) = exact(text, inputs, seed=-(2**40))
    for block in (16, 32):
        (found,) = run(backend, text, inputs, block=block, seed=-(2**40))
        assert torch.equal(found.double(), wanted)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "condition", ["u < x", "x <= u", "u <= x", "x < u", "not x <= u", "u == x"]
)
def test_random_numbers_are_compared_exactly(condition: str, backend: str) -> None:
    """Also with one that is drawn, with the next numbers, and with what is not in [0, 1)."""
    condition = condition.replace("u", "uniform(5, i, j)")
    text = f"param x: float\nO[i,j] = where({condition}, 1, 2) + 0 * X[i,j]"
    drawn = counter_rng.uniform(5, 1, 2)
    limits = [drawn, drawn - 2.0**-25, drawn + 2.0**-25, 1e-40, 0.0, 1.0, 2.0, -1.0]
    inputs = make_inputs(text, {"i": 5, "j": 19})
    for x in (*limits, -math.inf):
        (found,) = run(backend, text, inputs, x=x)
        assert torch.equal(found.double(), exact(text, inputs, x=x)[0]), x


def test_random_numbers_are_as_precise_as_others() -> None:
    """In a kernel of float64, what is computed of them is in float64."""
    text = "O[i] = log(uniform(3, i)) + X[i]"
    inputs = make_inputs(text, {"i": 37}, torch.float64)
    (found,) = run("torch", text, inputs)
    Bound(0.0, 1e-14).check(found, exact(text, inputs)[0])


# --- names --------------------------------------------------------------------------------


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    "start", slow_unless(lambda start: start % 16 == 0, range(0, len(HARMLESS_NAMES), 8))
)
def test_names_of_all_kinds(start: int) -> None:
    """Names that Python, torch, Triton or the emitted file use work in every role: tensor,
    index, streamed index, output, definition, parameter and function."""
    for shift in range(8):
        text, index, stream = with_names(start + shift)
        sizes = {index: 18, stream: 21, "inner_": 5, "column_": 6}
        agree("triton", text, make_inputs(text, sizes))
