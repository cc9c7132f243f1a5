"""Mistakes in meaning: each message alone leads to the fix.

A case is a program, what its message says, and the program that the message leads to.
"""

from __future__ import annotations

import pickle
import sys
import warnings

import pytest
import torch

import monocomp as mc
from monocomp import library

_WEIGHTS = "softmax[k](Q[b,h,q,d] * K[b,h,k,d])"
_GATED = """input Q[h,t,d], K[h,t,d], V[h,t,e], A[h,t,d]
M[h,t,d,e] = Affine[..t](A[h,t,d], K[h,t,d] * V[h,t,e]).u
O[h,t,e]   = Q[h,t,d] * M[h,t,d,e]"""
_SELECTED = """S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d]
X[b,q,k]   = where(k < q, relu(S[b,0,q,k]), 0)
O[b,h,q,e] = softmax[k if k <= q](S[b,h,q,k] - sum[..q](X[b,q,k])) * V[b,h,k,e]"""

# What surprises: notes, and refusals of what could be meant two ways.
MEANINGS = {
    "another index than was meant": (
        f"O[b,h,q,e] = {_WEIGHTS} * V[b,h,j,e]",
        "did you mean 'k' for 'j'?",
        f"O[b,h,q,e] = {_WEIGHTS} * V[b,h,k,e]",
    ),
    "an index that nothing else has": (
        "O[i] = A[i] * B[j]",
        "if that is meant, say so: sum[j](B[j])",
        "O[i] = A[i] * sum[j](B[j])",
    ),
    "weights that are summed": (
        "O[q] = softmax[k](S[q,k])",
        "to keep the weights, name 'k' on the left",
        "O[q,k] = softmax[k](S[q,k])",
    ),
    "weights of a definition that are summed": (
        "P[q,k] = softmax[k](S[q,k])\nO[q] = sum[k](P[q,k])",
        "a mean by them multiplies: softmax[k](S[q,k]) * V[k,e]",
        "P[q,k] = softmax[k](S[q,k])\nO[q,e] = sum[k](P[q,k] * V[k,e])",
    ),
    "a prefix that is summed again and again": (
        _GATED,
        "what is returned is stored, in |t| steps: return O, M",
        _GATED + "\nreturn O, M",
    ),
    "weights that are stored": (
        _SELECTED,
        "is stored, |b|*|k|*|q| numbers",
        _SELECTED.replace("sum[..q](X[b,q,k])", "X[b,q,k]"),
    ),
    "a parameter without use": (
        "param scale: float = 2.0\nO[i] = 2 * A[i]",
        "parameter 'scale' is used nowhere",
        "param scale: float = 2.0\nO[i] = scale * A[i]",
    ),
    "a quotient that is rounded": (
        "O[i] = A[i] // 2",
        "a quotient is x / y",
        "O[i] = A[i] / 2",
    ),
    "a position for a size": (
        "O[q,e] = softmax[k](Q[q,d] * K[k,d] * d ** -0.5) * V[k,e]",
        "its size is |d|: write sqrt(|d|)",
        "O[q,e] = softmax[k](Q[q,d] * K[k,d] / sqrt(|d|)) * V[k,e]",
    ),
    "a position for a size that is divided by": (
        "O[q,e] = softmax[k](Q[q,d] * K[k,d] / sqrt(d)) * V[k,e]",
        "write O[q,e] = softmax[k](Q[q,d] * K[k,d] / sqrt(|d|)) * V[k,e]",
        "O[q,e] = softmax[k](Q[q,d] * K[k,d] / sqrt(|d|)) * V[k,e]",
    ),
    "a position for a size beside a sum": (
        "O[q,e] = softmax[k](sum[d](Q[q,d] * K[k,d]) / d ** 0.5) * V[k,e]",
        "its size is |d|: write sqrt(|d|)",
        "O[q,e] = softmax[k](sum[d](Q[q,d] * K[k,d]) / sqrt(|d|)) * V[k,e]",
    ),
    "infinity times a condition": (
        "O[q,e] = softmax[k](S[q,k] + -inf * (k > q)) * V[k,e]",
        "write where(k > q, -inf, 0)",
        "O[q,e] = softmax[k](S[q,k] + where(k > q, -inf, 0)) * V[k,e]",
    ),
}


def said(text: str) -> str:
    """What is said of a program."""
    try:
        return str(mc.compile(text).notes())
    except mc.MonocompError as error:
        return error.described()


@pytest.mark.parametrize("name", MEANINGS)
def test_the_message_leads_to_the_fix(name: str) -> None:
    text, says, fixed = MEANINGS[name]
    found = said(text)
    assert says in found, found
    assert "(line " in found or "is stored" in found, "no place"
    assert not said(fixed)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", library.names())
def test_no_program_of_the_library_surprises(name: str) -> None:
    assert not mc.compile(library.load(name)).notes()


def test_what_is_meant_gives_no_note() -> None:
    for text in (
        "O[i] = A[i] * sum[j](B[j])",
        "O[i] = sum[j](B[i,j])",
        "O[i] = B[i,j]",
        "O[q] = sum[k if k < 3](softmax[k](S[q,k]))",
        "O[q,e] = softmax[k](S[q,k]) * V[k,e]",
        "input n[i]: int\nO[i] = n[i] // 2",
        "O[q,e] = mean[k](A[q,k]) * V[e]",
    ):
        assert not mc.compile(text).notes(), text


def test_summary() -> None:
    kernel = mc.compile(library.load("causal"))
    assert kernel.summary() == (
        "1 pass over k; operations grow as |b|*|h|*|k|*|q|*(|d| + |e|); stores nothing on the way"
    )
    assert (
        mc.compile("O[i] = A[i] * B[j]")
        .summary()
        .startswith("1 pass over j, 1 over i; operations grow as |i| + |j|; ")
    )
    assert "stores L[b,h,q], M[b,h,q] on" in mc.compile(library.load("column_sums")).summary()


# --- as warnings


def line_here() -> int:
    return sys._getframe(1).f_lineno


def test_python_users_are_warned_at_their_line() -> None:
    with pytest.warns(mc.MonocompWarning) as caught:
        mc.compile("O[i] = A[i,j] * B[j] + C[j]")
        line = line_here() - 1
    (warning,) = caught
    assert (warning.filename, warning.lineno) == (__file__, line)
    assert str(warning.message) == (
        "'j' is summed in this term by itself, not over the whole sum (line 1, column 24)\n"
        "    O[i] = A[i,j] * B[j] + C[j]\n"
        "                           ^^^^\n"
        "  help: if that is meant, say so: sum[j](C[j]); to add it within one sum: "
        "sum[j](A[i,j] * B[j] + C[j])"
    )


def test_each_note_is_told_once_a_kernel() -> None:
    text = "O[i] = A[i] * B[j]"
    with pytest.warns(mc.MonocompWarning, match="'j' stands in one factor") as caught:
        kernel = mc.compile(text)
        kernel(A=torch.ones(3), B=torch.ones(2))
        pickle.loads(pickle.dumps(kernel))
        mc.compile(mc.grad(text))
    assert len(caught) == 1
    silent = ["O[i] = A[i,j] * B[j] + sum[j](C[j])", "O[i] = sum[j](A[i,j]) + C[i]"]
    for program in (*silent, library.load("causal")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mc.compile(program)


def test_what_a_plan_repeats_is_told_at_the_first_call() -> None:
    kernel = mc.compile(_GATED)
    assert not kernel.program.notes
    inputs = {name: torch.ones(1, 4, 2) for name in "QKVA"}
    with pytest.warns(mc.MonocompWarning, match="is computed anew for each 't'") as caught:
        for _ in range(2):
            kernel(**inputs)
            line = line_here() - 1
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)]
