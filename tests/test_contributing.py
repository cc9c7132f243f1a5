"""The extensions that CONTRIBUTING.md shows work as it says, each in its one position."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import monocomp as mc
from monocomp.backends.dialects import DIALECTS
from monocomp.backends.triton.kernel_source import block_program, source_of
from monocomp.backends.triton.launch import load
from monocomp.proving.rule_laws import RULE_LAWS
from monocomp.rewrites.normal_form import normal_form
from monocomp.tile.operations import OPERATIONS
from tests.backends import interpreted
from tests.backends.compiling import accepted, first_launches, without_elements
from tests.backends.running import make_inputs
from tests.rewrites.rules import apply_only, check_example, rule_of
from tests.tile.running import by_numpy, by_torch

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


@pytest.fixture(scope="module")
def shown() -> Iterator[dict[str, Any]]:
    """What the examples define, while they are registered."""
    registries: tuple[dict[str, Any], ...] = (OPERATIONS, RULE_LAWS, DIALECTS)
    before, rules = [dict(r) for r in registries], list(normal_form.rules)
    found: dict[str, Any] = {"__name__": "contributing"}
    try:
        for text in EXAMPLES:
            exec(compile(text, str(PAGE), "exec"), found)
        yield found
    finally:
        for registry, old in zip(registries, before, strict=True):
            registry.clear()
            registry.update(old)
        normal_form.rules[:] = rules


def test_in_a_new_process() -> None:
    """As if they stood in their files: nothing else has been imported before."""
    text = "\n".join([*EXAMPLES, "print(kernel.certificate)"])
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "maximum(x, -x) = abs(x)" in done.stdout and "recognise_abs (step 1)" in done.stdout


def test_a_rule(shown: dict[str, Any]) -> None:
    """Its law is proved, its example is what it does, and of near misses it makes nothing."""
    rule = rule_of(normal_form, "recognise_abs")
    assert rule.unproved is None
    check_example(rule)
    for text in ("Y[i] = maximum(X[i], -Z[i])", "Y[i] = minimum(X[i], -X[i])"):
        assert not apply_only(rule, text).steps
    text = "O[i] = sum[k](maximum(X[i,k], -X[i,k]) * V[k])"
    x = make_inputs(text, {"i": 5, "k": 7}, torch.float64)
    expected = (x["X"].abs() * x["V"]).sum(1)
    torch.testing.assert_close(shown["kernel"](**x), expected)


def test_an_operation(shown: dict[str, Any]) -> None:
    """It is typed, printed and parsed, interpreted, and Triton's function of its name."""
    text = str(shown["program"])
    x = {"X": torch.tensor([-1.5, -0.2, 0.0, 0.3, 2.0, 7.1])}
    for run in (by_numpy, by_torch):
        torch.testing.assert_close(run(text, x, {}, 4)["O"].float(), x["X"].ceil())
    assert "tl.ceil(" in "\n".join(source_of(block_program(shown["program"])).lines)


def test_a_pass(shown: dict[str, Any]) -> None:
    """It changes the program, and what is emitted of it computes the same."""
    (kernel,) = shown["roots"].tile_programs({})
    before = block_program(kernel)
    assert str(shown["one_stage"](before)) != str(before)
    X, V = torch.rand(20, 37), torch.arange(37.0)
    found = interpreted.call(result, shown["roots"].source(extents={"i": 20, "k": 37}), X, V)
    torch.testing.assert_close(found, X.sqrt() @ V)


def result(source: str, *inputs: torch.Tensor) -> torch.Tensor:
    """The result of an emitted file, with the square root of Triton's interpreter."""
    found: torch.Tensor = load(source.replace("libdevice.sqrt", "tl.sqrt")).kernel(*inputs)
    return found


def test_a_dialect(shown: dict[str, Any]) -> None:
    """A kernel may be compiled for it, and Triton takes what it prints."""
    kernel: mc.Kernel = shown["roots"]
    sizes = {"i": 64, "k": 128}
    inputs = without_elements(kernel, sizes)
    (launch,) = first_launches(kernel, inputs, sizes, dialects=[DIALECTS["libdevice"]()])
    assert "__nv_sqrtf" in accepted("cuda:90", launch)
