"""Lists of splits: each split of each row stands in one place, the longest first."""

from __future__ import annotations

import random
from functools import cache

import pytest
import torch

from monocomp.kernel import Kernel
from tests.backends.running import BLOCK, exact, make_inputs, run, short_splits
from tests.backends.tolerances import Bound
from tests.planning.test_splitting import PROCESSORS, compiled, rules, split

LONGEST = 170
TEXT = """
    input length[b]: int, begin[b]: int
    S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d]
    O[b,h,q,e] = softmax[k if {0}](S[b,h,q,k]) * V[b,h,k,e]
    L[b,h,q]   = logsumexp[k if {0}](S[b,h,q,k])
    return O, L
    """
KINDS = {
    "lengths": "k < length[b]",
    "of the last queries": "k <= q + length[b] - |q|",
    "intervals": "begin[b] <= k and k < length[b]",
    "and a few at the end": "k < length[b] or k >= |k| - 3",
}
SIZES = {"h": 1, "q": 2, "k": LONGEST, "d": 8, "e": 8}
LENGTHS = {
    "none": [0, 0, 0],
    "0, 1, primes, all": [0, 1, 2, 31, 32, 33, 127, LONGEST],
    "one long": [1, 1, LONGEST, 1, 1, 1],
    "alike": [97] * 5,
    "beyond the ends": [-3, 17, LONGEST + 40],
}


@cache
def lists(kind: str, rows: int) -> str:
    """What the list of a program comes to, as a program."""
    program, steps = split(TEXT.format(KINDS[kind]), SIZES | {"b": rows})
    assert "k_row[k_place]" in str(steps[-1].after)
    head, _, _ = program.text().rpartition("return")
    return head + "return k_first, k_last, k_row"


def inputs(kind: str, lengths: list[int]) -> dict[str, torch.Tensor]:
    """Inputs with some lengths."""
    text = TEXT.format(KINDS[kind])
    found = dict(make_inputs(text, SIZES | {"b": len(lengths)}))
    found["length"] = torch.tensor(lengths)
    if "begin" in found:
        found["begin"] = found["length"] // 3
    return {n: found[n] for n in compiled(text).declared.inputs}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("splits", [1, 2, 7, 64])
@pytest.mark.parametrize("lengths", [*LENGTHS, "random"])
def test_each_split_stands_in_one_place(lengths: str, splits: int) -> None:
    """There are no more than as many as are wanted, and one for each row; none is longer than an
    equal share of all."""
    given = LENGTHS.get(lengths) or random.Random(splits).choices(range(LONGEST), k=9)
    text = lists("lengths", len(given))
    first, last, row = (
        x.long().tolist() for x in exact(text, inputs("lengths", given), k_splits=splits)
    )
    blocks = [-(-min(max(n, 0), LONGEST) // BLOCK) for n in given]
    wanted = min(splits, len(given) * -(-LONGEST // (2 * BLOCK)))
    share = max(1, -(-sum(blocks) // wanted))
    counts = [-(-n // share) for n in blocks]
    lengths_of = [-(-n // max(1, count)) for n, count in zip(blocks, counts, strict=True)]
    order = sorted(range(len(given)), key=lambda b: (-lengths_of[b], b))
    place = 0
    for b in order:
        assert first[b] == place
        place = last[b]
        assert place - first[b] == counts[b]
        assert row[first[b] : place] == [b] * (place - first[b])
    assert place <= len(row) == wanted + len(given)
    assert all(b == 0 for b in row[place:])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_results(kind: str, lengths: str) -> None:
    """As without splits; what is not admitted is never looked at."""
    text, given = TEXT.format(KINDS[kind]), inputs(kind, LENGTHS[lengths])
    assert "split_stream" in rules(text, **SIZES, b=len(LENGTHS[lengths]))
    wanted = exact(text, given)
    if kind == "lengths":
        for n in "KV":
            for tensor, length in zip(given[n], LENGTHS[lengths], strict=True):
                tensor[:, max(length, 0) :] = float("nan")
    for backend in ("torch", "triton"):
        results = [run(backend, text, given, processors=PROCESSORS) for _ in range(2)]
        for x, again, w in zip(*results, wanted, strict=True):
            assert torch.equal(x, again)
            Bound(0.0, 1e-5).check(x, w)


def test_when_there_is_a_list() -> None:
    """Where several rows differ in length by data, with one index of the grid alone, and are long;
    for more instances than leave processors idle, but not for many."""

    def is_listed(text: str, **sizes: int) -> bool:
        program, _ = split(text, SIZES | sizes)
        return "k_row" in program.by_name

    by_length = TEXT.format(KINDS["lengths"])
    assert is_listed(by_length, b=2) and is_listed(by_length, b=PROCESSORS)
    assert not is_listed(by_length, b=1)
    assert not is_listed(by_length, b=2, k=64)
    assert not is_listed(by_length, b=16 * PROCESSORS)
    assert not is_listed(by_length, b=2, q=64)
    assert not is_listed(TEXT.format("k < |k| - b"), b=2)
    assert not is_listed(TEXT.format("k < length[b] + h"), b=2, h=2)


def test_one_plan_for_all_lengths() -> None:
    """Lists are made by the device: what a call launches does not depend on lengths."""
    kernel: Kernel = compiled(TEXT.format(KINDS["lengths"]))
    with short_splits():
        plan = kernel.plan(SIZES | {"b": 3})
    roles = {c.axis.name: c.axis.role for c in plan.planned[-1].roles}
    assert roles["b"] == "grid"  # each row has splits of its own
    assert sum(bool(k.splits) for k in plan.kernels) == 1
