"""Which folds share a pass."""

from __future__ import annotations

import pytest

from monocomp import terms as T
from monocomp.costs.counting import is_at_the_top
from monocomp.derivation.rule_sets import derive
from monocomp.rewrites.pullback import Pass, join_tiles, passes
from monocomp.terms import Term
from tests.rewrites.rules import equations


def passes_of(text: str, extent: str = "k") -> list[Pass]:
    """The passes over one index that the derived outputs need."""
    program = derive(equations(text)).program

    def is_streamed(t: Term) -> bool:
        return t.op == "fold" and t.attr.extents == (extent,)

    return passes([e.body for e in program.outputs], is_streamed, {})


ATTENTION = "S[q,k] = Q[q,d] * K[k,d]\n"


def test_what_the_weights_of_a_centre_need_is_known_before() -> None:
    """It is not carried again where a sum moves with that centre."""
    weights = "P[q,k] = softmax[k](sin(S[q,k] * max[k](S[q,k])))\nM[q,e] = P[q,k] * V[k,e]\n"
    first, second = passes_of(weights + "O[q,e] = sum[k](R[q,k] * (V[k,e] - M[q,e]) ** 2)")
    (known,) = (f for f in first.folds if f.attr.name == "max")
    assert any(T.holds(f, known) for f in second.folds) and known not in second.folds


@pytest.mark.parametrize("unit", ["B[q,k] - C[q]", "C[q] - B[q,k] - D[q,k]"])
def test_what_moves_a_sum_is_carried_beside_it(unit: str) -> None:
    """Though it be known before, and though the companions be negative multiples of sums."""
    centre = "C[q] = sum[k](relu(B[q,k] - max[l](A[q,l])))\n"
    first, second = passes_of(f"{centre}O[q] = sum[k](relu(A[q,k]) * ({unit}) ** 3)")
    (known,) = (f for f in first.folds if f.attr.name == "sum")
    assert known in second.folds and len(second.folds) == 5


def test_a_selection_is_carried_with_the_folds() -> None:
    """The values and their positions are one list, whichever entry is asked for."""
    program = derive(
        equations(
            "index r < 2\nT[q,r] = top[k -> r](A[q,k])\nI[q,r] = argtop[k -> r](A[q,k])\n"
            "O[q] = logsumexp[k](A[q,k])"
        )
    ).program
    (only,) = passes([e.body for e in program.outputs], is_at_the_top, {})
    assert sorted(f.op for f in only.folds) == ["fold", "fold", "fold_at"]


def test_a_selection_needs_a_result() -> None:
    program = derive(
        equations("index r < 2\nM[q] = sum[k](A[q,k])\nT[q,r] = top[k -> r](relu(A[q,k] - M[q]))")
    ).program
    first, second = passes([e.body for e in program.outputs], is_at_the_top, {})
    assert [first.level, second.level] == [0, 1]
    assert [f.attr.name for f in (*first.folds, *second.folds)] == ["sum", "top"]


@pytest.mark.parametrize(
    ("centre", "levels"),
    [
        ("sum[l](B[q,l]) / |k|", [0, 0, 0, 0, 1, 1, 1]),  # known before the weights
        ("sum[l](W[q,l] * B[q,l]) / sum[l](W[q,l])", [0, 1, 1, 1, 1]),
    ],
)
def test_what_an_earlier_pass_finds_is_no_companion(centre: str, levels: list[int]) -> None:
    """Neither the centre nor what the weights hold."""
    weight = "W[q,k] = relu(A[q,k] - max[l if l < q](A[q,l]))\n"
    found = passes_of(f"{weight}O[q] = sum[k](W[q,k] * (B[q,k] - {centre}) ** 2)")
    assert [p.level for p in found for _ in p.folds] == levels


def test_different_domains_are_different_passes() -> None:
    text = "O[q] = sum[k if k <= q](A[q,k]) * sum[k if k < 3](A[q,k])"
    assert [(p.level, len(p.folds)) for p in passes_of(text)] == [(0, 1), (0, 1)]


def test_what_needs_a_result_comes_later() -> None:
    text = "O[q] = sum[k](relu(A[q,k] - max[l](A[q,l])) * B[k]) + sum[k](B[k])"
    first, second = passes_of(text)
    assert [first.level, second.level] == [0, 1]
    assert [f.attr.name for f in first.folds] == ["max", "sum"] or len(first.folds) == 2
    assert [f.attr.name for f in second.folds] == ["sum"]


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("O[q] = max[k](S[q,k]) * sum[k](relu(S[q,k]) * B[k])", [2]),
        ("O[q] = max[k](S[q,k]) * sum[k if k <= q](relu(S[q,k]) * B[k])", [1]),
        ("O[q] = max[k](S[q,k]) * sum[k](A[q,k] * B[k])", [1]),
        ("O[q] = sum[k](relu(S[q,k] - max[l](S[q,l])) * B[k])", [1]),
        ("O[q] = max[k](relu(S[q,k] - sum[l](relu(S[q,l]) * B[l])))", [1]),
    ],
    ids=["alike", "another filter", "nothing in common", "needs the loop", "needed by the loop"],
)
def test_tiles_join_loops_that_compute_the_same(text: str, counts: list[int]) -> None:
    program = derive(equations(ATTENTION + text)).program
    bodies = [e.body for e in program.outputs]
    loops = passes(bodies, lambda t: t.op == "fold" and t.attr.monoid == "max", {})
    folds = (t for t in T.subterms(*bodies) if t.op == "fold" and t.attr.extents == ("k",))
    join_tiles(loops, (t for t in folds if t.attr.monoid == "sum" and not T.is_open(t)))
    assert [len(p.folds) for p in loops] == counts
