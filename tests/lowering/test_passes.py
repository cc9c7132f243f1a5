"""What one pass computes beside its sums: prefixes and suffixes along the index of its loop, which
the loop carries; folds of results along an axis that a kernel holds whole; and sums about centres
that their own loop computes, or that earlier loops have left."""

from __future__ import annotations

import pytest
import torch

import monocomp as mc
from monocomp.language.checker import check
from monocomp.tile import Fold, Loop, walk
from monocomp.tile.parser import parse
from monocomp.translation.translator import translate
from tests.backends.running import make_inputs
from tests.backends.tolerances import agree
from tests.marks import slow_unless

SUM = "C[q,k] = sum[..k](softplus(S[q,k]))\n"
PROGRAMS = {
    "sum": SUM + "O[q,e] = sum[k](exp(S[q,k] - C[q,k]) * V[k,e])",
    "causal": SUM + "O[q,e] = softmax[k if k <= q](S[q,k] - C[q,k]) * V[k,e]",
    "window": SUM + "O[q,e] = softmax[k if k <= q and q - k < 21](S[q,k] - C[q,k]) * V[k,e]",
    "maximum": "C[q,k] = max[..k](S[q,k])\nO[q,e] = sum[k](exp(S[q,k] - C[q,k]) * V[k,e])",
    "of a product": "S[q,k] = A[q,d] * B[k,d]\n" + SUM + "O[q,e] = sum[k](exp(-C[q,k]) * V[k,e])",
    "of a prefix": SUM + "D[q,k] = sum[..k](C[q,k])\nO[q,e] = sum[k](exp(-D[q,k]) * V[k,e])",
    "filtered": "C[q,k] = sum[..k if S[q,k] > 0](S[q,k])\nO[q] = sum[k](exp(-C[q,k]))",
    "after a position": SUM + "O[q,e] = sum[k if k >= q](exp(-C[q,k]) * V[k,e])",
    "in short sums": "C[q,i,k] = sum[..k](S[q,k] * W[i])\nO[q] = sum[i](max[k](C[q,i,k]))",
}
LATER = "index j < |k|\nC[q,k] = sum[j if k <= j](softplus(S[q,j]))\n"
AFFINE = """
    monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')
    index t < |k|
    U[q,t] = Affine[k if AT](sigmoid(S[q,k]), S[q,k] ** 2).u
    O[q,e] = sum[t](U[q,t] * V[t,e] ** 2)
"""
PROGRAMS |= {
    "strict": LATER.replace("k <= j", "j < k") + "O[q,e] = sum[k](exp(S[q,k] - C[q,k]) * V[k,e])",
    "suffix": LATER + "O[q,e] = sum[k](exp(S[q,k] - C[q,k]) * V[k,e])",
    "strict suffix": LATER.replace("k <= j", "k < j") + "O[q,e] = sum[k](exp(-C[q,k]) * V[k,e])",
    "suffix in a window": LATER
    + "O[q,e] = sum[k if k <= q and q - k < 21](exp(S[q,k] - C[q,k]) * V[k,e])",
    "largest of the later": LATER.replace("sum", "max").replace("k <= j", "k < j")
    + "O[q,e] = sum[k](exp(C[q,k]) * V[k,e] ** 2)",
    "stick-breaking": """
        index j < |k|
        S[q,k] = A[q,d] * B[k,d]
        C[q,k] = sum[j if k < j and j < q](softplus(S[q,j]))
        O[q,e] = sum[k if k < q](sigmoid(S[q,k]) * exp(-C[q,k]) * V[k,e])
    """,
    "in order": AFFINE.replace("AT", "t <= k"),
    "in order, strict": AFFINE.replace("AT", "k < t"),
    "in order, strict suffix": AFFINE.replace("AT", "t < k"),
    "returned": LATER + "return C",
    "returned, strict": LATER.replace("k <= j", "j < k") + "return C",
}
# Folds of results along e, which a kernel holds.
ATTENTION = "A[q,e] = softmax[k if k <= q + 2](Q[q,d] * K[k,d]) * V[k,e]\n"
HELD = {
    "rms": ATTENTION + "O[q,e] = A[q,e] / sqrt(mean[e](A[q,e] ** 2) + 1e-6)",
    "layer norm": ATTENTION + "O[q,e] = (A[q,e] - mean[e](A[q,e])) / sqrt(var[e](A[q,e]) + 1e-6)",
    "softmax": ATTENTION + "O[q,e] = softmax[e if e != 1](A[q,e])",
    "largest": ATTENTION + "O[q,e] = A[q,e] / (1 + max[e](abs(A[q,e])))",
    "odd": ATTENTION + "O[q,e] = A[q,e] - sum[e if e % 2 == 1](A[q,e] ** 3)",
    "empty rows": ATTENTION.replace("q + 2", "q - 2")
    + "O[q,e] = A[q,e] / sqrt(mean[e](A[q,e] ** 2) + 1e-6)",
    "of a norm": ATTENTION
    + "N[q] = sum[e](A[q,e] ** 2)\nO[q,e] = A[q,e] / (1 + sum[e](abs(A[q,e]) * N[q]))",
}
CARRIED = [name for name in PROGRAMS if name != "in short sums"]
# A centre of several aggregates, some of which hold others: of a loop before, they are known as
# they are.
CENTRES = {
    "a mean": "O = var[k](X[k] + sum[k](cos(X[k] - sum[k](X[k])) * X[k]))",
    "a maximum": "O = var[k](X[k] - max[k](X[k] - mean[k](X[k])))",
    "a quotient": "O = mean[k](X[k] * (X[k] - mean[k](X[k] / (1 + sum[k](X[k] ** 2)))) ** 2)",
    # a list of the largest, which no sum is about
    "a list": "index r < 2\nO = max[r](top[k -> r](X[k])) * sum[k](exp(X[k] - mean[k](X[k])))",
}
PROGRAMS |= HELD | CENTRES


def sizes(text: str, length: int = 37) -> dict[str, int]:
    known = {"t": length, "q": 35, "k": length, "j": length, "e": 5, "d": 3, "i": 2, "r": 2}
    return {e: known[e] for e in translate(check(text)).declared.extent_of.values()}


@pytest.mark.parametrize("name", [*CARRIED, *HELD])
def test_one_pass(name: str) -> None:
    """Operations do not grow with the square of the length."""
    k = mc.compile(PROGRAMS[name])
    short, long = (k.report(sizes(PROGRAMS[name], n))["flops"] for n in (1024, 2048))
    assert long / short < 2.1
    (kernel,) = k.plan(sizes(PROGRAMS[name])).kernels
    assert str(parse(str(kernel))) == str(kernel)
    assert name not in HELD or k.report()["passes"] == {"k": 1}


def test_a_split_begins_with_what_precedes_it() -> None:
    """No loop stands in another, and what comes before a split is added up by a loop of its own."""
    k = mc.compile(PROGRAMS["sum"])
    first = k.plan({"q": 1, "k": 65536, "e": 64}, 132).kernels[0]
    loops = [s for s in first.body if isinstance(s, Loop)]
    assert len(loops) == 2
    assert not any(isinstance(s, Loop) for loop in loops for s in walk(loop.body))
    assert loops[1].state[0].start.op == "local"


def test_rows_share_a_stored_prefix() -> None:
    """A prefix that is the same for all rows is not carried by each block of them."""
    k = mc.compile("C[k] = sum[..k](G[k])\nO[q,e] = softmax[k](S[q,k] - C[k]) * V[k,e]")
    second = k.plan({"q": 4096, "k": 4096, "e": 64}).kernels[1]
    assert not any(isinstance(s, Fold) for s in walk(second.body))


def test_what_is_too_long_to_hold_is_no_tile() -> None:
    """Blocks of it are computed by program instances of their own."""
    first = mc.compile(HELD["rms"]).plan({**sizes(HELD["rms"]), "e": 4096}).kernels[0]
    assert "whole e" not in str(first)


@pytest.mark.parametrize(
    "text",
    [
        "C[i,k] = max[..k if X[i,k] > 0](X[i,k]) + argmax[..k](X[i,k])",
        "L[k] = logsumexp[..k](X[k])",
        "H[t,i] = Affine[..t](g[t], x[t,i]).u",
        "A[t] = sum[..t](X[t])\nB[t] = max[..t](A[t] * Y[t])\nreturn B",
    ],
)
def test_prefixes_take_one_loop(text: str) -> None:
    """With no fold over all that comes earlier in its body."""
    (program,) = mc.compile(text).tile_programs()
    (loop,) = [s for s in walk(program.body) if isinstance(s, Loop)]
    assert loop.state
    assert all(s.prefixes for s in walk(program.body) if isinstance(s, Fold))


@pytest.mark.parametrize(
    "text",
    [
        "input X[i,k]\nC[i,k] = sum[k if k <= i](X[i,k]) + Y[k]",  # over another index
        "C[k] = sum[j if j < 2 * k](X[j] * X[k])",  # up to another position
    ],
)
def test_what_is_no_prefix(text: str) -> None:
    every = [s for p in mc.compile(text).tile_programs() for s in walk(p.body)]
    assert not [s for s in every if isinstance(s, Fold)]


# One of each kind of loop: Triton's interpreter takes seconds for some.
INTERPRETED = ("sum", "window", "filtered", "in short sums", "suffix", "strict suffix", *HELD)


@pytest.mark.parametrize(
    ("name", "backend"),
    slow_unless(lambda n, b: b == "torch" or n in INTERPRETED, PROGRAMS, ["torch", "triton"]),
)
def test_results(name: str, backend: str) -> None:
    text = PROGRAMS[name]
    inputs = make_inputs(text, sizes(text, 70))
    for processors in (None, 64):
        agree(backend, text, inputs, 50, processors=processors)


PREFIXES = dict.fromkeys(("causal", "window", "strict", "strict suffix"), "S[q,k], V[k,e]")
RESULTS = dict.fromkeys(("rms", "layer norm", "softmax"), "Q[q,d], K[k,d], V[k,e]")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "inputs"), (PREFIXES | RESULTS).items())
def test_gradients(name: str, inputs: str) -> None:
    kernel = mc.compile(f"input {inputs}\n{PROGRAMS[name]}", backend="torch")
    extents = {"q": 9, "k": 30, "d": 2, "e": 3}
    given = [torch.randn([extents[d] for d in x.dims]) for x in kernel.declared.inputs.values()]
    leaves = [x.double().requires_grad_() for x in given]
    assert torch.autograd.gradcheck(kernel, leaves, fast_mode=True)
