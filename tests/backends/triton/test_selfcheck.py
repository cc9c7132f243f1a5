"""The self-check of emitted files: the reference agrees with the oracle and fits its lines,
and the script says whether a host function is right."""

from __future__ import annotations

import importlib.util
import keyword
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from monocomp import library
from monocomp.backends.eager import reference_lines
from monocomp.backends.triton.selfcheck import RESERVED, main_lines
from monocomp.checking import random_inputs
from monocomp.checking import sizes as fitting
from monocomp.declarations.records import free_extents
from monocomp.errors import FilterError, InternalError, LimitError, UnknownIndexError
from monocomp.language.checker import check
from monocomp.reference import oracle
from monocomp.terms.equations import Equations
from monocomp.translation.translator import translate
from tests import program_generator
from tests.backends.programs import EXAMPLES

_NUMBERS = count()
FUZZ = int(os.environ.get("MONOCOMP_FUZZ", "60"))

PROGRAMS = {
    "given": """
        input L[q] = logsumexp[k if k < q](S[q,k]), Z[q] = exp(L[q]) + sum[k](S[q,k] ** 2)
        O[q,e] = sum[k if k < q](exp(S[q,k] - L[q]) / Z[q] * V[k,e])
        """,
    "extents": """
        param a_parameter: int = 3, another_parameter: int = 4
        index t < minimum(maximum(a_parameter, |i|), 4) + maximum(2 * another_parameter - 7, 0) +
            minimum(a_parameter * another_parameter, 2)
        O[i,t] = A[i] + t
        """,
    "never": """
        M[i] = mean[k if k < k](X[i,k])
        S[i] = sum[k if k != k](i) + prod[k](max[..k if k < k](X[i,k]))
        L[i] = logsumexp[k if k > k](X[i,k])
        """,
}
LIBRARY = {f"library {name}": library.load(name) for name in library.names()}
WRITTEN = {n: e.text for n, e in EXAMPLES.items() if not e.params}
ALL = PROGRAMS | LIBRARY | WRITTEN
# Programs that a plain evaluation gives otherwise: 0 / 0 and 0 * -inf are NaN; an integer may be
# float32.
OTHERWISE = (
    *("an infinite number before a count of nothing", "prefixes with a filter"),
    *("division by zero", "extreme arguments"),
)


def clean(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def translated(text: str) -> Equations:
    return translate(check(clean(text)))


def plain(equations: Equations) -> dict[str, str]:
    """Identifiers that are the names themselves, or where they cannot be, others."""
    declared = equations.declared
    names = declared.names | equations.by_name.keys()
    names = {name for name in names if not name.startswith(".")}
    reserved = {*keyword.kwlist, *RESERVED, "torch", "attention"}
    return {name: f"{name}_x" if name in reserved else name for name in sorted(names)}


def module(lines: list[str], folder: Path) -> Any:
    path = folder / f"emitted_{next(_NUMBERS)}.py"
    path.write_text("\n".join(["import torch", "", "", *lines]) + "\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def agrees(made: Any, equations: Equations, inputs: dict[str, Any], **params: Any) -> None:
    """The reference gives what the oracle gives."""
    identifiers = plain(equations)
    wanted = oracle.evaluate(equations.origin.text, inputs, **params)
    tensors = [torch.as_tensor(inputs[name]) for name in equations.declared.inputs]
    named = {identifiers[n]: v for n, v in params.items()}
    if equations.given:
        names = {e.name for e in equations.given}
        pairs = zip(equations.declared.inputs, tensors, strict=True)
        others = (torch.zeros_like(t) if n in names else t for n, t in pairs)
        for e, x in zip(equations.given, made.given(*others, **named), strict=True):
            np.testing.assert_allclose(x.numpy(), inputs[e.name], rtol=1e-12, atol=1e-12)
    found = made.reference(*tensors, **named)
    assert isinstance(found, tuple)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape
        y = np.where(np.isnan(y), x.numpy(), y)  # unspecified
        np.testing.assert_allclose(x.numpy(), y, rtol=1e-12, atol=1e-12)
        assert x.numpy().dtype == y.dtype


def inputs_of(equations: Equations, seed: int = 0, **given: int) -> dict[str, Any]:
    made = random_inputs.random_inputs(equations, given, dtype="float64", seed=seed)
    return {name: array.copy() for name, array in made.items()}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [n for n in ALL if n not in OTHERWISE])
def test_reference_agrees_with_the_oracle(name: str, tmp_path: Path) -> None:
    equations = translated(ALL[name])
    made = module(reference_lines(equations, plain(equations)), tmp_path)
    if name in WRITTEN:  # positions may be out of range but for those of the example
        for drawn in EXAMPLES[name].drawn(torch.float64):
            agrees(made, equations, {n: x.numpy() for n, x in drawn.items()})
        return
    for seed in range(3):
        agrees(made, equations, inputs_of(equations, seed))
    sizes = dict.fromkeys(free_extents(equations.declared), 4)
    if fitting.fits(equations, sizes, {}):
        agrees(made, equations, inputs_of(equations, **sizes))


def test_random_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two readings that share no code: torch's, and the oracle's, in parts and at once."""
    tried = 0
    for seed in range(FUZZ):
        monkeypatch.setattr(oracle, "_CHUNK", (1, 1 << 22)[seed % 2])
        with suppress(UnknownIndexError, FilterError, LimitError):
            equations = translated(program_generator.program(seed))
            made = module(reference_lines(equations, plain(equations)), tmp_path)
            agrees(made, equations, inputs_of(equations, seed))
            tried += 1
    assert tried > FUZZ / 2


def test_params_are_passed_by_keyword(tmp_path: Path) -> None:
    equations = translated("param n: int, x: float = 0.5\nO[i] = A[i] * n + x")
    lines = reference_lines(equations, plain(equations))
    assert "def reference(A, *, n, x=0.5, dtype=torch.float64):" in lines
    agrees(module(lines, tmp_path), equations, {"A": np.arange(3.0)}, n=4, x=2.0)


def test_reserved_names_are_refused() -> None:
    equations = translated("O[i] = A[i]")
    with pytest.raises(InternalError):
        reference_lines(equations, {"O": "reference", "A": "A", "i": "i"})
    with pytest.raises(InternalError):
        main_lines(equations, plain(equations), "main")


# --- the script -------------------------------------------------------------------------


def in_this_process(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An emitted file without its kernel, imported; with an interpreter, `main` needs no GPU."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    equations = translated(text)
    lines = [*reference_lines(equations, plain(equations)), "", ""]
    return module([*lines, *main_lines(equations, plain(equations), "attention")], folder)


def test_script_needs_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = in_this_process(LIBRARY["library causal"], tmp_path, monkeypatch)
    monkeypatch.delenv("TRITON_INTERPRET")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert made.main(made.reference) == 2
    said = capsys.readouterr()
    assert said == ("", "the self-check needs a GPU, or TRITON_INTERPRET=1\n")


@pytest.mark.parametrize(
    "change",
    [lambda x: x * 1.001, lambda x: x.nan_to_num(0.0) / 0, lambda x: x[..., :-1]],
    ids=["scaled", "infinite", "too short"],
)
def test_script_refuses_a_wrong_kernel(
    change: Callable[[torch.Tensor], torch.Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = in_this_process(LIBRARY["library causal"], tmp_path, monkeypatch)
    made.attention = lambda *inputs: change(made.reference(*inputs)[0].float())
    assert made.main(made.attention) == 1
    out, err = capsys.readouterr()
    assert not err and out.endswith("\nthe kernel's error is too large\n")


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", ALL)
def test_script_makes_inputs_that_fit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every program's own definition passes, also with several outputs and declared extents."""
    made = in_this_process(ALL[name], tmp_path, monkeypatch)
    made.reference = cache(made.reference)  # which the script evaluates again, to compare with
    several = len(translated(ALL[name]).outputs) > 1
    made.attention = lambda *inputs, **params: (
        made.reference(*inputs, **params) if several else made.reference(*inputs, **params)[0]
    )
    assert made.main(made.attention) == 0
