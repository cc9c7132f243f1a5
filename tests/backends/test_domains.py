"""Filters of every kind on every backend: the oracle's results, and nothing read outside."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeAlias
from unittest.mock import patch

import pytest
import torch

import monocomp as mc
from monocomp.backends.interpreter import Interpreter
from monocomp.planning.report import report
from tests.backends.running import BLOCK, DISTINCT, exact, make_inputs, program_of, run
from tests.backends.tolerances import ALONE, Bound, agree
from tests.extents.test_splits import HEAD as RANDOM_HEAD
from tests.extents.test_splits import random_formula

Results: TypeAlias = tuple[torch.Tensor, ...]

HEAD = """
param s: int = 4, w: int = 7, r: int = 2
input n[b]: int, first[b,q]: int, last[b,q]: int
input doc[b,k]: int, own[b,q]: int, anc[q,k]: bool, some[k]: bool
"""
BODY = """
S[b,q,k] = Q[b,q,d] * K[b,k,d]
O[b,q,e] = softmax[k if {0}](S[b,q,k]) * V[b,k,e]
L[b,q] = logsumexp[k if {0}](S[b,q,k])
"""
FILTERS = {
    "causal": "k <= q",
    "window": "k <= q and q - k < w",
    "two-sided window": "abs(q - k) < w",
    "sink and window": "k <= q and (k < s or q - k < w)",
    "prefix": "k < n[b] or k <= q",
    "lengths": "k < n[b]",
    "packed documents": "first[b,q] <= k and k < last[b,q] and k <= q",
    "documents of rows": "first[b,q] <= k and k <= q",
    "rows apart": "5 * q <= k and k < 5 * q + 2",
    "documents and sink": "first[b,q] <= k and k < last[b,q] or k < s",
    "document numbers": "doc[b,k] == own[b,q] and k <= q",
    "tree": "anc[q,k]",
    "prefix and tree": "k < s or anc[q,k]",
    "columns": "some[k] and k <= q",
    "all but one": "k != q",
    "all but two": "k != q and k != w",
    "chunks": "k // 8 == q // 8",
    "every third": "3 * k == q",
    "few": "r * k <= q",
    "even distance": "(q - k) % 2 == 0 and k <= q",
    "even distance or near": "(q - k) % 2 == 0 and k <= q or abs(q - k) < 3",
    "rows alone": "own[b,q] > 1 and k == k",
    "three parts": "k < s or abs(q - k) < 3 or k >= n[b]",
    "nothing": "k < q - 1000",
    "guarded truth value": "k % 2 == 1 and some[k - 1] and k <= q",
    "guarded by its alternative": "k == 0 or k % 3 != 0 and not some[k - 1]",
    "mask before bounds": "k % 3 != 0 and k > 2 and doc[b,k - 1] >= 0",
}
EXTENTS = {"b": 2, "q": 37, "k": 41, "d": 5, "e": 6}
PARAMS: tuple[Mapping[str, int], ...] = (
    {},
    {"w": 0, "s": 0, "r": 0},
    {"w": -5, "s": -3, "r": -2},
    {"w": 20, "s": 18, "r": 3},
    {"w": 100, "s": 1000, "r": 50},
)


def program(name: str) -> str:
    return HEAD + BODY.format(FILTERS[name])


def inputs_for(text: str, seed: int = 0, **sizes: int) -> dict[str, torch.Tensor]:
    """Documents of many lengths, some of them empty, and keys that belong to none."""
    made = make_inputs(text, {**EXTENTS, **sizes}, seed=seed)
    generator = torch.Generator().manual_seed(seed)

    def integers(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=generator, dtype=torch.int32)

    b, q, k = EXTENTS["b"], EXTENTS["q"], EXTENTS["k"]
    start = integers(0, 4, b, q).cumsum(1).int() - 5
    made |= {
        "n": torch.tensor([0, 23], dtype=torch.int32),
        "first": start,
        "last": start + integers(-1, 6, b, q),
        "doc": integers(0, 5, b, k).sort(1).values,
        "own": integers(0, 4, b, q).sort(1).values,
        "anc": integers(0, 9, q, k) == 0,
        "some": integers(0, 3, k) == 0,
    }
    made["anc"][16:32] = False
    made["anc"][:, 16:32] = False
    return {name: made[name] for name in program_of(text).inputs}


def members(name: str, inputs: Mapping[str, torch.Tensor], **params: int) -> torch.Tensor:
    """Which keys each query sees."""
    sizes = "index q < 37, k < 41, b < 2"
    text = f"{HEAD}{sizes}\nM[b,q,k] = {FILTERS[name]} and n[b] == n[b]\nreturn M"
    used = {n: inputs[n] if n in inputs else torch.zeros(2) for n in program_of(text).inputs}
    return exact(text, used, **params)[0].bool().expand(2, 37, 41)


def poisoned(
    name: str, inputs: Mapping[str, torch.Tensor], **params: int
) -> dict[str, torch.Tensor]:
    """NaN in the keys and values that no query of a batch element sees."""
    unseen = ~members(name, inputs, **params).any(1)
    spoilt = dict(inputs)
    for tensor in ("K", "V"):
        spoilt[tensor] = inputs[tensor].clone()
        spoilt[tensor][unseen] = torch.nan
    return spoilt


@cache
def calls(name: str, **sizes: int) -> list[tuple[dict[str, int], dict[str, torch.Tensor], Results]]:
    """Parameters of all signs, inputs in which the keys that nobody sees hold NaN, and what the
    oracle gives; the same for all backends."""
    text = program(name)
    inputs, used = inputs_for(text, **sizes), program_of(text).params
    choices = [{n: v for n, v in params.items() if n in used} for params in PARAMS]
    return [
        (params, poisoned(name, inputs, **params), exact(text, inputs, **params))
        for params in (choices if used else choices[:1])
    ]


@pytest.mark.one_in(13)
@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("name", FILTERS)
def test_filter(name: str, backend: str) -> None:
    """For all parameters; keys that nobody sees hold NaN."""
    bound = Bound(0.0, 4 * ALONE[backend].floor)
    for params, inputs, wanted in calls(name):
        for got, good in zip(run(backend, program(name), inputs, **params), wanted, strict=True):
            bound.check(got, good)


@pytest.mark.parametrize("name", FILTERS)
def test_one_pass(name: str) -> None:
    """A union of intervals is streamed once: one loop carries everything through all."""
    kernels = mc.compile(program(name)).plan().kernels
    assert all(report([k], {})["passes"] == {"k": 1} for k in kernels)
    assert [k for k in kernels if "V" in k.inputs] == [kernels[-1]]


# Bounds that a tensor gives, or that move by several elements a row, leave gaps between rows.
WITH_GAPS = ("packed documents", "documents of rows", "documents and sink", "rows apart")
WITHOUT_GAPS = [name for name in FILTERS if name not in WITH_GAPS]


@pytest.mark.parametrize("name", WITHOUT_GAPS)
def test_blocks_without_a_member_are_not_read(name: str) -> None:
    """Of the keys a block is read where one of its queries sees one of its keys."""
    text = program(name)
    inputs = inputs_for(text)
    seen = members(name, inputs)
    blocks = 0
    original = Interpreter._slice

    def recorded(self: Interpreter, tensor: Any, names: list[str]) -> Any:
        nonlocal blocks
        if names == ["b", "k", "e"]:  # V
            b, q, k = (slice(*self.range[a]) for a in "bqk")
            assert seen[b, q, k].any(), (self.range, name)
            blocks += 1
        return original(self, tensor, names)

    with patch.object(Interpreter, "_slice", recorded):
        run("numpy", text, inputs)
    pieces = seen.unfold(1, BLOCK, BLOCK).unfold(2, BLOCK, BLOCK)
    assert blocks >= int(pieces.flatten(3).any(3).sum()) > 0 or name == "nothing"


@pytest.mark.one_in(11)
@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("seed", range(12))
def test_random_filters(seed: int, backend: str) -> None:
    """and, or, not of comparisons, for parameters of all signs."""
    rng = random.Random(seed)
    text = f"""
        {RANDOM_HEAD}
        O[q,e] = sum[k if {random_formula(rng, 2)}](X[q,k] * V[k,e])
        M[q] = max[k if {random_formula(rng, 3)}](X[q,k])
        """
    program = program_of(text)
    inputs = make_inputs(text, {"q": 35, "k": 38, "e": 5}, seed=seed)
    for name in ("n", "first", "last"):
        if name in inputs:
            inputs[name] = torch.tensor([rng.randrange(-5, 45) for _ in range(35)]).int()
    for _ in range(3):
        params = {name: rng.choice((-20, -1, 0, 1, 2, 3, 7, 30)) for name in program.params}
        agree(backend, text, inputs, **params)


def test_reads_in_an_inner_loop() -> None:
    """What the filter rules out is not read in loops inside the streamed one either."""
    text = """
        S[q,k] = sum[d](Q[q,d] * K[k - 1,d])
        O[q,e] = softmax[k if k % 3 != 0](S[q,k]) * V[k,e]
        """
    agree("numpy", text, make_inputs(text, {"q": 5, "k": 20, "d": 300, "e": 4}), checked=True)


@pytest.mark.parametrize("backend", DISTINCT)
def test_rows_beyond_the_last_see_nothing(backend: str) -> None:
    """A block of rows that is not full reads no key that only a row outside of it would see."""
    text = """
        input first[q]: int
        O[q,e] = softmax[k if first[q] <= k and k <= q](X[q,k]) * V[k,e]
        """
    inputs = make_inputs(text, {"q": BLOCK + 3, "k": BLOCK + 3, "e": 4})
    first = torch.arange(BLOCK + 3, dtype=torch.int32)
    first[BLOCK : BLOCK + 2] = torch.tensor([3, BLOCK + 3])  # the second of them sees nothing
    inputs["first"] = first
    (wanted,) = exact(text, inputs)
    inputs["V"][BLOCK + 1] = torch.nan
    ALONE[backend].check(run(backend, text, inputs)[0], wanted)
