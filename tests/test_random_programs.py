"""Random programs beside the oracle; `make fuzz` tries thousands."""

from __future__ import annotations

from contextlib import nullcontext
from unittest.mock import patch

import numpy as np
import pytest

import monocomp as mc
from monocomp import terms as T
from monocomp.declarations.records import free_extents
from monocomp.errors import MonocompError
from monocomp.gradients import partials
from monocomp.language.checker import check
from monocomp.tile.parser import parse
from tests.agreement import Mismatch, check_gradients, check_outputs
from tests.backends import interpreted
from tests.random_programs import program_of, report_of


@pytest.mark.parametrize("seed", [*range(11), 7109860, 7112841, 7201643])
def test_random_programs(seed: int) -> None:
    report = report_of(seed, "torch", "cpu")
    assert report.outcome in ("run", "refused"), report.text


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(12, 20))
def test_random_programs_on_triton(seed: int) -> None:
    report = interpreted.call(report_of, seed, "triton", "cpu")
    assert report.outcome in ("run", "refused"), report.text


def test_positions_that_an_inner_loop_reads_are_known_nowhere_else() -> None:
    report = interpreted.call(report_of, 9850129, "triton", "cpu")
    assert report.outcome == "run", report.text


@pytest.mark.parametrize("seed", [*range(21, 26), 100991, 101494, 101598, 101797])
def test_random_programs_are_written_for_a_gpu(seed: int) -> None:
    """With a GPU's number of processors a plan is another one than in the interpreter."""
    text = program_of(seed)
    try:
        gradients = [mc.grad(text)]
    except MonocompError:
        gradients = []
    for program in (text, *gradients):
        kernel = mc.compile(program, processors=132)
        for size in (1, 5, 37):
            sizes = dict.fromkeys(free_extents(kernel.equations.declared), size)
            for made in kernel.plan(sizes).kernels:
                assert str(parse(str(made))) == str(made)
            kernel.source("triton", target="cuda:90", dtype="fp32", extents=sizes)


def test_other_values_and_other_gradients_are_noticed() -> None:
    inputs = {"X": np.array([1.0, 2.0, -3.0])}
    text = "O[i] = X[i] * {}"
    program = check(text.format("X[i]"))
    for other in ("X[i] * 1.000001", "(X[i] + 0.000001)"):
        kernel = mc.compile(text.format(other), backend="torch")
        with pytest.raises(Mismatch):
            check_outputs(program, kernel, inputs, note="")
        with pytest.raises(Mismatch):
            check_gradients(program, kernel, inputs, note="")
    kernel = mc.compile(text.format("stop(X[i])"), backend="torch")
    check_outputs(program, kernel, inputs, note="")
    with pytest.raises(Mismatch):
        check_gradients(program, kernel, inputs, note="")
    kernel = mc.compile(text.format("X[i]"), backend="torch")
    assert check_gradients(program, kernel, inputs, note="") == 1


def test_a_wrong_rule_of_derivatives_does_not_excuse_itself() -> None:
    text = "O[i] = cos(X[i] + 0.125)"
    with patch.dict(partials._DERIVATIVES, cos=lambda x: T.function("sin", x)):
        kernel = mc.compile(text, backend="torch")
        with pytest.raises(Mismatch):
            check_gradients(check(text), kernel, {"X": np.array([1.0, 2.0])}, note="")


def test_conditions_are_constants_to_slopes() -> None:
    """X is 0 wherever the product is not, but its factor is 1 there."""
    inputs = {"X": np.array([1.0, 0.0, -3.0])}
    text = "O[i] = {} * X[i]"
    program = check(text.format("(X[i] == 0)"))
    kernel = mc.compile(text.format("(X[i] == 0)"), backend="torch")
    assert check_gradients(program, kernel, inputs, note="") == 1
    for other in ("0", "(X[i] >= 0)"):
        kernel = mc.compile(text.format(other), backend="torch")
        with pytest.raises(Mismatch):
            check_gradients(program, kernel, inputs, note="")


@pytest.mark.parametrize("kink", [0.0, 3.0])
@pytest.mark.parametrize("text", ["X[i] * X[i] / X[i]", "maximum(X[i], minimum(0, X[i]))"])
def test_slopes_are_compared_but_at_kinks(text: str, kink: float) -> None:
    """A quotient by 0 has no slope, nor have equal operands of `maximum`, whatever sides say."""
    inputs = {"X": np.array([1.0, kink])}
    right, wrong = (mc.compile(f"O[i] = {t}", backend="torch") for t in (text, f"1.01 * {text}"))
    program = check(f"O[i] = {text}")
    assert check_gradients(program, right, inputs, note="") == bool(kink)
    if kink:
        with pytest.raises(Mismatch):
            check_gradients(program, wrong, inputs, note="")


def test_slopes_are_compared_where_results_have_their_digits() -> None:
    text = "O[i] = 1e30 - X[i]"
    kernel = mc.compile(text, backend="torch")
    assert not check_gradients(check(text), kernel, {"X": np.array([1.0])}, note="")
    program = check("O[i] = 1e9 / 3 + X[i]")
    for factor, is_right in ((1, True), (1.001, False)):
        kernel = mc.compile(f"O[i] = 1e9 / 3 + {factor} * X[i]", backend="torch")
        with nullcontext() if is_right else pytest.raises(Mismatch):
            assert check_gradients(program, kernel, {"X": np.array([1.0])}, note="")


def test_gradients_that_a_dtype_does_not_hold_are_not_compared() -> None:
    report = interpreted.call(report_of, 7250451, "triton", "cpu")
    assert report.outcome == "run", report.text


def test_outputs_are_compared_in_their_own_dtype() -> None:
    """One for which no float is read is of float32, and others are not compared more loosely."""
    text = "input X[i]\nA = 1 / 3\nB[i] = X[i] / 3"
    kernel, inputs = mc.compile(text, backend="torch"), {"X": np.array([1.0, 2.0])}
    check_outputs(check(text), kernel, inputs, note="")
    for other in ("A = 1.001 / 3\nB[i] = X[i] / 3", "A = 1 / 3\nB[i] = 1.00000001 * X[i] / 3"):
        with pytest.raises(Mismatch):
            check_outputs(check(f"input X[i]\n{other}"), kernel, inputs, note="")


def test_variances_are_compared_where_their_mean_has_the_digits() -> None:
    """Beside 1e26 an element has none, though the variance of one element is 0 in any dtype."""
    program = check("input X[k], C\nO = var[k](X[k] + C)")
    text = "input X[k], C\nO = 1.0001 * var[k](X[k] + C) + (|k| == 1) * X[0]"
    other = mc.compile(text, backend="torch")
    for elements, offset in (([1.0, 2.0, 4.0], 1e6), ([1.0], 0.0)):
        inputs = {"X": np.array(elements), "C": np.array(offset)}
        with pytest.raises(Mismatch):
            check_outputs(program, other, inputs, note="")
    check_outputs(program, other, {"X": np.array([1.0]), "C": np.array(1e26)}, note="")
