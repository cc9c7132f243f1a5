"""Calls: names of inputs and parameters, and the extents that shapes and declarations give."""

from __future__ import annotations

import inspect
import math
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from monocomp.declarations import binding
from monocomp.declarations.binding import Binding, signature
from monocomp.errors import InputError, MonocompError, ShapeError
from monocomp.extents.intervals import evaluated
from monocomp.language.checker import check
from monocomp.language.syntax import Program
from monocomp.reference.oracle import declared_extent
from monocomp.translation.translator import translate

SCORES = check("S[i,j] = sum[d](Q[i,d] * K[j,d])")
PAGED = check(
    """
input C[p,s,g,d], table[b,n]: int, len[b]: int, Q[b,g,q,d]
param w: int, c: float = 2
index k < |n| * |s| + w // 2
S[b,g,q,k] = c * Q[b,g,q,d] * C[table[b, k // |s|], k % |s|, g, d]
L[b,g,q] = logsumexp[k if k < len[b]](S[b,g,q,k])
"""
)
PAGED_SHAPES = {"C": (10, 16, 2, 8), "table": (3, 5), "len": (3,), "Q": (3, 2, 7, 8)}


def bind(program: Program, shapes: Any, params: Any) -> Binding:
    """What a program gives, as a text and as equations; or what is wrong with a call."""
    declared, of_text = translate(program).declared, partial(declared_extent, program.extent_of)
    given = program.origin, shapes, params
    try:
        found = binding.bind(program, *given, of_text)
    except MonocompError as fault:
        with pytest.raises(type(fault)) as caught:
            binding.bind(declared, *given, evaluated)
        assert str(caught.value) == str(fault)
        raise
    assert repr(binding.bind(declared, *given, evaluated)) == repr(found)
    return found


def text_of(error: pytest.ExceptionInfo[Exception]) -> str:
    return error.value.described()


def test_extents_come_from_shapes_and_declarations() -> None:
    assert bind(SCORES, {"Q": (3, 8), "K": (5, 8)}, {}).extents == {"i": 3, "j": 5, "d": 8}
    bound = bind(PAGED, PAGED_SHAPES, {"w": 5})
    assert bound.extents == {
        "p": 10, "s": 16, "g": 2, "d": 8, "b": 3, "n": 5, "k": 82, "q": 7,
    }  # fmt: skip
    assert bound.params == {"w": 5, "c": 2.0}


def test_every_index_and_made_up_dimension_has_an_extent() -> None:
    program = check("P[i,k] = A[i,k]\nO[i,j] = P[i,j] * R[i - j + |j|]")
    assert bind(program, {"A": (2, 3), "R": (9,)}, {}).extents == {
        "i": 2, "k": 3, "j": 3, ".R0": 9,
    }  # fmt: skip


def test_declarations_may_mention_each_other_in_any_order() -> None:
    program = check("index m < |n| + 1, n < minimum(|i|, 4) % 3\nO[i,m,n] = A[i] + m + n")
    assert bind(program, {"A": (9,)}, {}).extents == {"m": 2, "n": 1, "i": 9}


def test_two_sizes_of_indices_that_meet() -> None:
    program = check("P[i,k] = A[i,k]\nO[i,j] = P[i,j] + B[j]")
    with pytest.raises(ShapeError) as caught:
        bind(program, {"A": (2, 3), "B": (4,)}, {})
    assert text_of(caught) == inspect.cleandoc(
        """
        ShapeError: indices 'k' and 'j' meet and have two sizes (line 1, column 10)
            P[i,k] = A[i,k]
                     ^^^^^^
            O[i,j] = P[i,j] + B[j]
                              ^^^^
          k = 3 from A, shape (i=2, k=3)
          j = 4 from B, shape (j=4)
          help: use another index name in B if these axes are not meant to meet
        """
    )


def test_a_declaration_and_a_shape_must_agree() -> None:
    program = check("index k < 4\nO[i] = sum[k](A[i,k])")
    assert bind(program, {"A": (2, 4)}, {}).extents["k"] == 4
    with pytest.raises(ShapeError) as caught:
        bind(program, {"A": (2, 3)}, {})
    assert "k = 3 from A, shape (i=2, k=3)" in text_of(caught)
    assert "k = 4 from its declaration, index k < 4" in text_of(caught)


def test_a_diagonal_needs_a_square() -> None:
    program = check("O[i] = A[i,i]")
    with pytest.raises(ShapeError, match="A is read with one index on two dimensions"):
        bind(program, {"A": (2, 3)}, {})


@pytest.mark.parametrize(
    ("w", "message"),
    [
        (-1000, "the extent of index 'k' is negative: -420"),
        (10**30, "the extent of index 'k' is too large"),
        (10**5000, "the extent of index 'k' is too large: an integer of 16609 bits"),
        (-(10**5000), "the extent of index 'k' is negative: an integer of 16609 bits"),
    ],
    ids=["negative", "large", "long", "long and negative"],
)
def test_impossible_extents(w: int, message: str) -> None:
    with pytest.raises(ShapeError, match=message) as caught:
        bind(PAGED, PAGED_SHAPES, {"w": w})
    assert (caught.value.line, caught.value.column) == (4, 11)


def test_an_extent_that_divides_by_zero() -> None:
    program = check("index k < |i| // |j|\nO[k] = k * A[i] * B[j]")
    with pytest.raises(ShapeError, match="divides by zero"):
        bind(program, {"A": (3,), "B": (0,)}, {})


@pytest.mark.parametrize(
    "w", [4, 4.0, np.int32(4), np.float64(4), np.array(4), Fraction(8, 2), Decimal(4)]
)
def test_an_int_parameter_takes_integers(w: object) -> None:
    value = bind(PAGED, PAGED_SHAPES, {"w": w}).params["w"]
    assert value == 4 and type(value) is int


@pytest.mark.parametrize(
    "w", [4.5, True, np.bool_(True), "4", None, math.nan, math.inf, 1j, np.array([4])]
)
def test_an_int_parameter_refuses_the_rest(w: object) -> None:
    with pytest.raises(InputError, match="parameter 'w' must be an integer, not "):
        bind(PAGED, PAGED_SHAPES, {"w": w})


class Unspeakable:
    """Neither a number nor anything that can be shown."""

    def __float__(self) -> float:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError


INFINITE = [math.inf, -math.inf, Decimal("inf"), np.float32(np.inf)]
NUMBERS = [3, 3.5, -0.0, 1e300, 5e-324, 2**1023, Fraction(1, 3), Decimal("0.1"), np.float16(0.5)]


NONE = [math.nan, Decimal("nan"), np.float64(np.nan)]


@pytest.mark.parametrize("c", [*NUMBERS, *INFINITE, *NONE, np.array(2.5), np.int8(3)], ids=repr)
def test_a_float_parameter_takes_numbers(c: Any) -> None:
    value = bind(PAGED, PAGED_SHAPES, {"w": 1, "c": c}).params["c"]
    assert repr(value) == repr(float(c)) and type(value) is float


@pytest.mark.parametrize(
    ("c", "shown"),
    [
        (10**400, "an integer of 1329 bits"),
        (-(10**5000), "an integer of 16610 bits"),
        (Fraction(10**5000, 3), "a Fraction"),
        (Decimal("1e400"), r"Decimal\('1E\+400'\)"),
        (np.longdouble("1e400"), r"np.longdouble\('1e\+400'\)"),
    ],
    ids=["integer", "long integer", "fraction", "decimal", "long double"],
)
def test_no_finite_number_is_infinity(c: Any, shown: str) -> None:
    message = f"parameter 'c' is {shown}, and floats end at 1.8e308\n  help: .*math.inf"
    with pytest.raises(InputError, match=message):
        bind(PAGED, PAGED_SHAPES, {"w": 1, "c": c})
    with pytest.raises(ShapeError if isinstance(c, int) else InputError):
        bind(PAGED, PAGED_SHAPES, {"w": c})


@pytest.mark.parametrize(
    "c",
    [
        *(True, np.True_, np.array(False), "2", b"2", None, 1j, [2.0], Unspeakable()),
        *(np.complex64(2), np.array(2j), np.array([2.0]), np.array("2"), np.timedelta64(3, "s")),
    ],
    ids=lambda c: type(c).__name__,
)
def test_a_float_parameter_refuses_the_rest(c: object) -> None:
    with pytest.raises(InputError, match="parameter 'c' must be a number, not "):
        bind(PAGED, PAGED_SHAPES, {"w": 1, "c": c})


UNDECLARED = {
    "none": (
        "O[q,e] = V[k,e] * softmax[k](Q[q,d] * K[k,d])",
        "InputError: inputs are given by position, and no `input` line declares 'V', 'Q', 'K'\n"
        "  an order of inputs is that of their declarations\n"
        "  help: pass V=..., Q=..., K=..., or declare them in the order of the call: "
        "input V[k,e], Q[q,d], K[k,d]",
    ),
    "some": (
        "input n[q]: int, Q[q,d]\n"
        "O[q,e] = softmax[k if k < n[q] and M[k]](Q[q,d] * K[k,d]) * V[k,e]",
        "InputError: inputs are given by position, and no `input` line declares 'M', 'K', 'V'\n"
        "  an order of inputs is that of their declarations\n"
        "  help: pass n=..., Q=..., M=..., K=..., V=..., or declare them in the order of the call: "
        "input M[k]: bool, K[k,d], V[k,e]",
    ),
    "computed subscripts": (
        "index i < |j|\nO[i] = X[2 * i, i // 2] + sum[j](Y[j])",
        "InputError: inputs are given by position, and no `input` line declares 'X', 'Y'\n"
        "  an order of inputs is that of their declarations\n"
        "  help: pass X=..., Y=..., or declare them in the order of the call: "
        "input X[X0,X1], Y[j]",
    ),
}


@pytest.mark.parametrize("name", UNDECLARED)
def test_the_order_of_a_call_is_that_of_declarations(name: str) -> None:
    """Where one is missing, the message says how inputs are named, and a line to paste."""
    text, message = UNDECLARED[name]
    declared = check(text)
    for given in ([1], range(len(declared.inputs)), range(9)):
        with pytest.raises(InputError) as caught:
            signature(declared, given, {})
        assert caught.value.described() == message
    names = dict.fromkeys(declared.inputs, 0)
    assert signature(declared, [], names) == (names, {})
    declared = check(f"{message.partition('call: ')[2]}\n{text}")
    assert signature(declared, range(len(names)), {})[0].keys() == names.keys()


def test_an_input_may_be_declared_after_it_is_read() -> None:
    """The order is that of declarations all the same; one input needs none."""
    text = "O[q] = K[k] * Q[q,k] * s\ninput Q[q,k], s, K[k]"
    assert list(signature(check(text), [1, 2, 3], {})[0]) == ["Q", "s", "K"]
    text = "input L[q] = logsumexp[k](S[q,k])\nO[q,k] = exp(S[q,k] - L[q])\ninput S[q,k]"
    assert signature(check(text), [1, 2], {})[0] == {"L": 1, "S": 2}
    assert signature(check("O[i] = X[i] + X[i] ** 2"), [1], {})[0] == {"X": 1}
