"""The programs that come with monocomp: found by name, and right."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.errors import ParseError, UsageError
from monocomp.language.checker import check
from monocomp.reference.oracle import evaluate
from tests.backends.library_cases import CASES

NAMES = sorted(CASES)


def test_names() -> None:
    assert list(library.names()) == NAMES
    assert mc.library is library


@pytest.mark.parametrize("name", NAMES)
def test_program_means_what_it_says(name: str) -> None:
    """The oracle's results are those of eager torch in float64."""
    case = CASES[name]
    program = check(case.text, name)
    inputs = case.inputs(case.sizes(13, 17, 6, 5, 2), torch.float64, seed=7)
    assert list(inputs) == list(program.inputs)
    assert set(case.params) == set(program.params), "the defaults may not matter at this size"
    found = evaluate(program, inputs, **case.params)
    expected = case.in_eager_torch(inputs)
    assert len(program.outputs) == len(expected)
    for f, e in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-11, atol=1e-13)


def test_sparsemax_is_near() -> None:
    """Four bisections find the threshold to a sixteenth, the weights to a tenth or so."""
    X = CASES["sparsemax"].inputs({"i": 40, "k": 19}, torch.float64)["X"]
    ordered, counts = X.sort(-1, descending=True).values, torch.arange(1, 20)
    thresholds = (ordered.cumsum(-1) - 1) / counts
    size = (ordered > thresholds).sum(-1, keepdim=True)
    exact = (X - thresholds.gather(-1, size - 1)).relu()
    found = torch.from_numpy(evaluate(library.load("sparsemax"), {"X": X}))
    assert ((exact > 0) <= (found > 0)).all()
    assert (found - exact).abs().max() < 0.1


@pytest.mark.parametrize("name", ["../library/causal", "causal.mc", "", "__init__"])
def test_names_are_not_paths(name: str) -> None:
    with pytest.raises(mc.errors.UsageError):
        library.load(name)


def test_a_name_is_no_program() -> None:
    with pytest.raises(UsageError) as caught:
        mc.compile("attention")
    assert caught.value.described() == (
        "UsageError: 'attention' is the name of a program of the library, and no program\n"
        '  help: give its text: mc.compile(mc.library.load("attention"))'
    )
    with pytest.raises(UsageError, match=r'did you mean mc.library.load\("attention"\)\?'):
        mc.compile("atention")


def test_a_name_with_an_ending_is_a_file() -> None:
    with pytest.raises(UsageError, match=r"cannot read 'causal.txt'"):
        mc.compile("causal.txt")


def test_a_formula_with_a_quotient_is_no_path() -> None:
    with pytest.raises(ParseError, match="an expression stands alone"):
        mc.compile("softmax[k](Q[q,d] / K[k,d])")
    with pytest.raises(UsageError, match="cannot read 'programs/none': No such file or directory"):
        mc.compile("programs/none")
