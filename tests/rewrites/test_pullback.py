"""Which folds share a pass."""

from __future__ import annotations

import pytest

from monocomp.derivation.rule_sets import derive
from monocomp.rewrites.pullback import passes
from monocomp.terms import Term
from tests.rewrites.rules import equations

ATTENTION = "S[q,k] = Q[q,d] * K[k,d]\n"
CENTRE = "C[q] = sum[k](relu(B[q,k] - max[l](A[q,l])))\nO[q] = sum[k](relu(A[q,k]) * ({}) ** 3)"
WEIGHT = (
    "W[q,k] = relu(A[q,k] - max[l if l < q](A[q,l]))\nO[q] = sum[k](W[q,k] * (B[q,k] - {}) ** 2)"
)
LARGEST = "index r < 2\nT[q,r] = top[k -> r]({})\n"
# The passes over k that programs need: their levels, and what each finds.
PASSES = {
    # Different domains are different passes, and what needs a result comes later.
    "O[q] = sum[k if k <= q](A[q,k]) * sum[k if k < 3](A[q,k])": ["0 sum", "0 sum"],
    "O[q] = sum[k](relu(A[q,k] - max[l](A[q,l])) * B[k]) + sum[k](B[k])": ["0 max sum", "1 sum"],
    # What the weights of a centre need is known before: no sum that moves with it carries it again.
    f"{ATTENTION}P[q,k] = softmax[k](sin(S[q,k] * max[k](S[q,k])))\nM[q,e] = P[q,k] * V[k,e]\n"
    "O[q,e] = sum[k](R[q,k] * (V[k,e] - M[q,e]) ** 2)": ["0 max sum", "1 SE SE max sum sum sum"],
    # What moves a sum is carried beside it, though it be known before, and of either sign.
    CENTRE.format("B[q,k] - C[q]"): ["0 max sum", "1 sum sum sum sum sum"],
    CENTRE.format("C[q] - B[q,k] - D[q,k]"): ["0 max sum", "1 sum sum sum sum sum"],
    # What an earlier pass finds is no companion: neither the centre nor what the weights hold.
    WEIGHT.format("sum[l](B[q,l]) / |k|"): ["0 sum sum sum", "0 max", "1 sum sum sum"],
    WEIGHT.format("sum[l](W[q,l] * B[q,l]) / sum[l](W[q,l])"): ["0 max", "1 sum sum sum sum"],
    # The values and their positions are one list, carried with the folds.
    f"{LARGEST.format('A[q,k]')}I[q,r] = argtop[k -> r](A[q,k])\nO[q] = logsumexp[k](A[q,k])": [
        "0 SE max top"
    ],
    f"M[q] = sum[k](A[q,k])\n{LARGEST.format('relu(A[q,k] - M[q])')}": ["0 sum", "1 top"],
}


@pytest.mark.parametrize("text", PASSES)
def test_passes(text: str) -> None:
    program = derive(equations(text)).program

    def is_streamed(t: Term) -> bool:
        return t.op in ("fold", "fold_at") and t.attr.extents == ("k",)

    found = passes([e.body for e in program.outputs], is_streamed, {})
    shown = [f"{p.level} {' '.join(sorted(f.attr.name for f in p.folds))}" for p in found]
    assert shown == PASSES[text]
