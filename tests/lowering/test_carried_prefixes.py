"""Prefixes and suffixes along the index of a loop: the loop carries them, in one pass."""

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
CARRIED = [name for name in PROGRAMS if name != "in short sums"]


def sizes(text: str, length: int = 37) -> dict[str, int]:
    known = {"t": length, "q": 35, "k": length, "j": length, "e": 5, "d": 3, "i": 2}
    return {e: known[e] for e in translate(check(text)).declared.extent_of.values()}


@pytest.mark.parametrize("name", CARRIED)
def test_one_pass(name: str) -> None:
    """Operations do not grow with the square of the length."""
    k = mc.compile(PROGRAMS[name])
    short, long = (k.report(sizes(PROGRAMS[name], n))["flops"] for n in (1024, 2048))
    assert long / short < 2.1
    (kernel,) = k.plan(sizes(PROGRAMS[name])).kernels
    assert str(parse(str(kernel))) == str(kernel)


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


# One of each kind of loop: Triton's interpreter takes seconds for some.
INTERPRETED = ("sum", "window", "filtered", "in short sums", "suffix", "strict suffix")


@pytest.mark.parametrize(
    ("name", "backend"),
    slow_unless(lambda n, b: b == "torch" or n in INTERPRETED, PROGRAMS, ["torch", "triton"]),
)
def test_results(name: str, backend: str) -> None:
    text = PROGRAMS[name]
    inputs = make_inputs(text, sizes(text, 70))
    for processors in (None, 64):
        agree(backend, text, inputs, 50, processors=processors)


@pytest.mark.parametrize("name", ["causal", "window", "strict", "strict suffix"])
def test_gradients(name: str) -> None:
    text = PROGRAMS[name]
    kernel = mc.compile(text, backend="torch")
    x = {"S": torch.randn(9, 30).double(), "V": torch.randn(30, 2).double()}
    for value in x.values():
        value.requires_grad_()
    given = x["S"], x["V"]
    assert torch.autograd.gradcheck(lambda S, V: kernel(S=S, V=V), given, fast_mode=True)
