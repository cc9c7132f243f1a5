"""The extensions that CONTRIBUTING.md shows work as it says, each in its one position."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.backends.dialects import DIALECTS
from monocomp.backends.triton.kernel_source import block_program, source_of
from monocomp.proving.rule_laws import RULE_LAWS
from monocomp.rewrites.normal_form import normal_form
from monocomp.tile.operations import OPERATIONS
from tests.backends.compiling import accepted, first_launches, without_elements
from tests.backends.running import make_inputs
from tests.rewrites.rules import apply_only, check_example, rule_of
from tests.tile.running import by_blocks, by_numpy, by_torch

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
    for run in (by_numpy, by_torch, by_blocks):
        torch.testing.assert_close(run(text, x, {}, 4)["O"].float(), x["X"].ceil())
    assert "tl.ceil(" in "\n".join(source_of(block_program(shown["program"])).lines)


def test_a_pass(shown: dict[str, Any]) -> None:
    """Interpreted on both sides, a program means the same."""
    from monocomp.backends import block_interpreter
    from tests.backends.both_stages import lengths

    (kernel,) = shown["roots"].tile_programs({})
    before = block_program(kernel)
    after = shown["one_stage"](before)
    assert str(after) != str(before)
    sizes = {"i": 20, "k": 37}
    inputs = {"X": np.random.default_rng(0).random((20, 37)), "V": np.arange(37.0)}
    found = []
    for program in (before, after):
        outputs = {"O": np.full(20, np.nan)}
        block_interpreter.run(program, inputs, outputs, sizes, {}, lengths(kernel, sizes, 16))
        found.append(outputs["O"])
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], np.sqrt(inputs["X"]) @ inputs["V"])


def test_a_dialect(shown: dict[str, Any]) -> None:
    """A kernel may be compiled for it, and Triton takes what it prints."""
    kernel: mc.Kernel = shown["roots"]
    sizes = {"i": 64, "k": 128}
    inputs = without_elements(kernel, sizes)
    (launch,) = first_launches(kernel, inputs, sizes, dialect=DIALECTS["libdevice"]())
    assert "__nv_sqrtf" in accepted("cuda:90", launch)
