"""Block programs: they mean what their tile programs mean, after every pass, and what is wrong
with one is found."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from numpy.typing import NDArray

import monocomp as mc
from monocomp import library
from monocomp.backends import block_interpreter
from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS
from monocomp.backends.triton.kernel_source import block_program
from monocomp.blocks import (
    BOOL,
    FLOAT32,
    INT,
    Assign,
    BlockProgram,
    Expr,
    For,
    If,
    Load,
    Pointers,
    Statement,
    Store,
)
from monocomp.blocks.choices.choose import PASSES
from monocomp.blocks.operations import function, infix, name, number
from monocomp.blocks.verifier import verify
from monocomp.errors import InternalError, MonocompError
from monocomp.language.checker import check
from monocomp.tile import TileProgram
from tests.backends.both_stages import STAGES, both_stages, lengths
from tests.backends.library_cases import CASES
from tests.backends.programs import EXAMPLES
from tests.backends.running import make_inputs, run
from tests.program_generator import PARAMS, programs
from tests.reference import special_programs


def kernel_of(text: str) -> TileProgram:
    """The only kernel of a program."""
    (program,) = mc.compile(text).tile_programs({})
    return program


# --- they mean what tile programs mean --------------------------------------------------------


@pytest.mark.one_in(30)
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    example = EXAMPLES[name]
    for inputs in example.drawn():
        with both_stages() as seen:
            run("numpy", example.text, inputs, **example.params)
        assert seen


@pytest.mark.one_in(17)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [(37, 53, 20, 16), (16, 32, 5, 24)])
def test_library(name: str, size: tuple[int, int, int, int]) -> None:
    """With sizes that blocks divide, and with others."""
    case = CASES[name]
    inputs = case.inputs(case.sizes(*size))
    with both_stages() as seen:
        run("numpy", case.text, inputs, name=name, **case.params)
    assert seen


# What the generator draws is not always a program: two are, of three.
SPECIAL = (0, 1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 15, 17, 18, 19)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", SPECIAL)
def test_special_programs(seed: int) -> None:
    text = special_programs.program(seed)
    arrays = special_programs.inputs(seed, "finite")
    used = {n: torch.as_tensor(a) for n, a in arrays.items() if n in check(text).inputs}
    with both_stages() as seen:
        run("numpy", text, used)
    assert seen


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs(text: str) -> None:
    known = check(text)
    sizes = {i: n for i, n in {"i": 19, "k": 21, "j": 3}.items() if i in known.extent_of}
    inputs = make_inputs(text, sizes, params=PARAMS)
    params = {n: PARAMS[n] for n in known.params}
    with both_stages(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run("numpy", text, inputs, **params)


# --- passes -----------------------------------------------------------------------------------


def test_each_pass_does_something() -> None:
    """On a cache in pages, a window, a tree and masked products every pass changes a program."""
    changed = set()
    texts = [library.load(n) for n in ("paged_attention", "sliding_window", "attention", "tree")]
    for text in (*texts, "P[q,k] = where(k <= q, exp(sum[c](Q[q,c] * K[k,c])), 0)"):
        kernel = kernel_of(text)
        texts = [str(block_program(kernel, passes)) for passes in STAGES]
        pairs = zip(PASSES, pairwise(texts), strict=True)
        changed |= {passed for passed, (before, after) in pairs if before != after}
    assert changed == {*PASSES}


@pytest.mark.parametrize("program", ["attention", "sliding_window"])
def test_printed(program: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{program}.blocks.txt", f"{block_program(kernel_of(library.load(program)))}\n")


# --- what is wrong is found -------------------------------------------------------------------

ATTENTION = kernel_of("O[q,e] = softmax[k](Q[q,d] * K[k,d]) * V[k,e]")


def changed(s: Statement, change: Callable[[Statement], Statement | None]) -> list[Statement]:
    """A statement after a change to it, or to what it holds; none if it is dropped."""
    match s:
        case For():
            return [replace(s, body=body_of(s.body, change))]
        case If():
            body, other = body_of(s.body, change), body_of(s.orelse, change)
            return [replace(s, body=body, orelse=other)]
    found = change(s)
    return [] if found is None else [found]


def body_of(
    body: tuple[Statement, ...], change: Callable[[Statement], Statement | None]
) -> tuple[Statement, ...]:
    return tuple(x for s in body for x in changed(s, change))


Change = Callable[[Statement], Statement | None]


def with_value(identifier: str, value: Expr | None) -> Change:
    """Give a name another value, or none."""

    def change(s: Statement) -> Statement | None:
        if not isinstance(s, Assign) or identifier not in [t.attr for t in s.targets]:
            return s
        return None if value is None else replace(s, value=value)

    return change


def with_access(tensor: str, **fields: object) -> Change:
    """Access a tensor otherwise."""

    def change(s: Statement) -> Statement | None:
        of = s.tensor if isinstance(s, Load) else s.output if isinstance(s, Store) else ""
        is_meant = of == tensor and isinstance(s.access, Pointers)
        return replace(s, access=replace(s.access, **fields)) if is_meant else s

    return change


def broken(change: Callable[[Statement], Statement | None]) -> BlockProgram:
    program = block_program(ATTENTION)
    verify(program)
    return replace(program, body=body_of(program.body, change))


Q = name("Q_tile", FLOAT32, ("q", "d"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_value("start_q", None), "start_q has no value yet"),
        (with_value("S", Q), "S has other dimensions"),
        (with_value("m_i_new", name("m_i", INT, ("q",))), "m_i is read as (('q',), 'int')"),
        (with_value("m_i", number(0.0, "float")), "m_i has other dimensions"),
        (with_value("m_i_new", name("in_q", BOOL, ("q",))), "m_i_new is of another kind"),
        (with_value("S", Expr("dot", (Q, Q), None, ("q", "d"))), "do not meet in a product"),
        (with_access("O", offsets=(), mask=None), "pointers along () for a tile"),
        (with_access("K", offsets=(), mask=None), "pointers along () for a tile"),
        (with_value("S", function("gamma", number(0.0, "float"))), "there is no operation gamma"),
        (with_value("S", Expr("exp2", (), None, ("q", "k"))), "exp2 of 0 operands"),
        (with_access("K", mask=Q), "a mask has no truth values"),
        (with_access("K", base=number(0)), "what is loaded from is no pointer"),
    ],
)
def test_mistakes(change: Callable[[Statement], Statement | None], message: str) -> None:
    """The verifier says what is wrong, and shows the program."""
    with pytest.raises(InternalError) as found:
        verify(broken(change))
    assert message in str(found.value)
    assert "kernel kernel_kernel(" in str(found.value)


def test_tiles_along_different_axes_do_not_meet() -> None:
    with pytest.raises(InternalError, match="different axes"):
        infix("+", Q, name("s", FLOAT32, ("q", "k")))
    with pytest.raises(InternalError, match="different ranks"):
        infix("+", Q, name("m_i", FLOAT32, ("q",)))


@pytest.mark.parametrize("tensor", ["K", "O"])
def test_leaving_a_tensor(tensor: str) -> None:
    """Without its mask a kernel reads and writes what is none of its own."""
    sizes = {"q": 19, "k": 37, "d": 5, "e": 6}
    arrays = {n: np.ones([sizes[i] for i in t.dims]) for n, t in ATTENTION.inputs.items()}
    outputs = {"O": np.zeros((19, 6))}
    chosen = lengths(ATTENTION, sizes, 16)
    block_interpreter.run(block_program(ATTENTION), arrays, outputs, sizes, {}, chosen)
    np.testing.assert_allclose(outputs["O"], 1)
    program = broken(with_access(tensor, mask=None))
    with pytest.raises(MonocompError, match=f"leaves {tensor}"):
        block_interpreter.run(program, arrays, outputs, sizes, {}, chosen)


# --- scaled exponentials ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logits", "is_weight"),
    [
        ("Q[q,d] * K[k,d]", False),  # as large as what is multiplied
        ("Q[q,d] * K[k,d] + A[q,k]", True),
        ("where(A[q,k] < 0, -1e9, Q[q,d] * K[k,d])", True),
        ("A[q,k]", False),  # exact
        ("where(A[q,k] < 0, Q[q,d] * K[k,d], A[q,k])", False),
    ],
)
def test_sums_with_what_is_loaded_may_be_large(logits: str, is_weight: bool) -> None:
    program = f"S[q,k] = {logits}\nO[q,e] = softmax[k](S[q,k]) * V[k,e]"
    assert (" = weight(" in mc.compile(program).source(target="cuda:90")) == is_weight
    stored = f"{program}\nL[q] = logsumexp[k](S[q,k])\nreturn O, L"  # to all digits
    assert " = weight(" not in mc.compile(stored).source(target="cuda:90")


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("shift", [0.0, -3.7, 1e4, -1e4, 1e8, -1e9, 2.0**27, 2.0**27 + 16, -3e38])
def test_fused_weights(shift: float, dtype: type[np.floating[Any]]) -> None:
    """Weights of results of 16 bits: accurate to the rounding of x, and finite whatever x is."""
    y = np.float32(np.finfo(np.float32).min if shift == -3e38 else shift)
    steps = [y]
    with np.errstate(over="ignore"):
        for _ in range(12):
            steps.append(np.nextafter(steps[-1], np.float32(-np.inf)))
    x = np.array([*steps, y - 1, y - 20, -np.inf], np.float32)
    fused = _weights(x, y, fast=True)
    assert np.isfinite(fused.astype(dtype)).all() and fused[0] > 0 and fused[-1] == 0
    exact = np.exp(x.astype(float) - float(y))
    assert abs(np.log2(fused[0])) <= min(8.0, 2.0**-23 * abs(float(y)))
    np.testing.assert_allclose(fused[1:-1] / fused[0], exact[1:-1], rtol=1e-6, atol=2e-5)
    np.testing.assert_allclose(_weights(x, y, fast=False), exact, rtol=3e-6, atol=1e-20)


def _weights(x: NDArray[np.float32], y: np.float32, fast: bool) -> NDArray[np.float64]:
    """The helper of emitted files in numpy; x of 64 bits, so that products with it are fused."""
    text = DEVICE_FUNCTIONS["weight"].removeprefix("@triton.jit\n").replace(": tl.constexpr", "")
    scope: dict[str, Any] = {"tl": SimpleNamespace(abs=np.abs, where=np.where, exp2=np.exp2)}
    exec(text, scope)
    with np.errstate(over="ignore"):
        scale, power = np.float32(math.log2(math.e)), np.float32(1)
        return np.asarray(scope["weight"](x.astype(float), y, scale, power, fast))
