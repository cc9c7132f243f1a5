"""Sums along diagonals, of products of which one position moves along with the result's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from unittest.mock import patch

import pytest
import torch

import monocomp as mc
from benchmarks.variants import RELATIVE_BIAS
from monocomp.planning import diagonals
from monocomp.planning.plan import Plan
from tests.backends.running import BACKENDS, cut_for_long_extents, exact, run
from tests.backends.tolerances import ALONE, Bound

AFTER = RELATIVE_BIAS.replace("q - k + |k| - 1", "k - q + |q| - 1")
CAUSAL = AFTER.replace("index r < |q| + |k| - 1", "index r < |q|").replace(
    "k - q + |q| - 1", "q - k"
)
TEXTS = {
    "bias": RELATIVE_BIAS,
    "bias of the distance after": AFTER,
    "bias of the causal distance": CAUSAL.replace("softmax[k]", "softmax[k if k <= q]"),
}
SIZES = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 128, "e": 128}


def gradient(name: str) -> str:
    return str(mc.grad(TEXTS[name]))


def blocks(plan: Plan) -> list[tuple[str, ...]]:
    return [s.place for s in plan.decisions if s.rule == "sum_along_diagonals"]


@contextmanager
def small_blocks() -> Iterator[None]:
    with ExitStack() as stack:
        for name, value in (("ROWS", 4), ("KEYS", (2,)), ("WORTHWHILE", 1e9)):
            stack.enter_context(patch.object(diagonals, name, value))
        stack.enter_context(patch.object(diagonals, "tensor_sizes", lambda *_: [1 << 20]))
        stack.enter_context(cut_for_long_extents())
        yield


@pytest.mark.parametrize(("rows", "keys"), [(4, 2), (2, 4), (3, 3)])
@pytest.mark.parametrize("offset", [-5, 0, 3])
def test_law(rows: int, keys: int, offset: int) -> None:
    """Each pair of a result and a key is one element of one block's sum, and the other way."""
    results, count = 7, 5
    low = offset // rows * rows
    last = (results - 1 + offset + keys - low - 1) // rows
    found = set()
    for j, x, y, i in product(range(last + 1), range(rows), range(keys), range(-(-count // keys))):
        k, r = keys * i + y, rows * j + x - y + low - offset
        if k < count and 0 <= r < results:
            found.add((r, k))
            position = r + y + offset - low
            assert (position // rows, position % rows, k // keys, k % keys) == (j, x, i, y)
    assert found == {*product(range(results), range(count))}


@pytest.mark.parametrize("name", TEXTS)
def test_gradient_of_a_learned_bias(name: str) -> None:
    plan = mc.compile(gradient(name)).plan(SIZES)
    plan.verify()
    assert blocks(plan) == [("dR",)]
    (step,) = (s for s in plan.decisions if s.rule == "sum_along_diagonals")
    assert step.after == "E[h,j,x,y], as rows and keys of blocks are products of tiles"
    kernels = {k.names: k.tiles for k in plan.planned}
    assert [*kernels] == [("F", "dQ"), ("E",), ("dK", "dV"), ("dR",)]
    assert str(kernels["E",]).count("contract") == 2


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "backend"), [*product(TEXTS, ["numpy"]), *product(["bias"], BACKENDS[1:])]
)
def test_results(name: str, backend: str) -> None:
    text, n = gradient(name), {"b": 2, "h": 1, "q": 6, "k": 9, "d": 3, "e": 2}
    if "causal" in name:
        n["k"] = n["q"]
    n["r"] = n["q"] if "causal" in name else n["q"] + n["k"] - 1
    shapes = {"Q": "bhqd", "K": "bhkd", "V": "bhke", "R": "hr", "dO": "bhqe"}
    torch.manual_seed(0)
    given = {t: torch.randn([n[i] for i in dims]).double() for t, dims in shapes.items()}
    (given["O"],) = exact(TEXTS[name], {t: given[t] for t in ("Q", "K", "V", "R")})
    logits = TEXTS[name][: TEXTS[name].index("O[b,h,q,e] =")]
    domain = "k if k <= q" if "causal" in name else "k"
    logits += f"L[b,h,q] = logsumexp[{domain}](S[b,h,q,k])\nreturn L"
    (given["L"],) = exact(logits.replace(", V[b,h,k,e]", ""), {t: given[t] for t in "QKR"})
    dtype = torch.float32 if backend == "triton" else torch.float64
    inputs = {t: given[t].to(dtype) for t in mc.compile(text).declared.inputs}
    with small_blocks():
        assert ("dR",) in blocks(mc.compile(text).plan(n))  # of the keys and values, too
        found = run(backend, text, inputs, storing=True)
    bound = Bound(0.0, 8 * ALONE[backend].floor)
    for got, wanted in zip(found, exact(text, inputs), strict=True):
        bound.check(got, wanted)


def test_where_it_is_not_worth_it() -> None:
    """Elements without sums are read where they are, and few are not worth a kernel."""
    read = "input G[q,k]\nindex r < |q| + |k| - 1\nD[r] = sum[k if 0 <= k + r + 1 - |k| and"
    read += " k + r + 1 - |k| < |q|](G[k + r + 1 - |k|, k])"
    assert blocks(mc.compile(read).plan({"q": 4096, "k": 4096})) == []
    few = {**SIZES, "b": 1, "h": 1, "q": 64, "k": 64}
    assert blocks(mc.compile(gradient("bias")).plan(few)) == []
