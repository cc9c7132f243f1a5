"""Costs of programs as they are written, at every step of a derivation."""

from __future__ import annotations

from typing import Any

import pytest
import sympy

import monocomp as mc
from monocomp import library
from monocomp.costs.cost import ELEMENT_BYTES, Cost, formula
from monocomp.costs.counting import cost
from monocomp.costs.fold_elements import elements_of_folds
from monocomp.costs.holding import estimate
from monocomp.costs.roles import choose_roles
from monocomp.errors import UsageError
from monocomp.extents.nominal import ROW_BLOCK
from monocomp.language.checker import check
from monocomp.tile import Loop
from monocomp.translation.translator import translate
from tests.rewrites.rules import equations

MORE = {
    "two passes": "O[q] = sum[k](relu(A[q,k] - max[l](A[q,l])) * B[k])",
    "two kernels": "O[q] = sum[k](A[q,k])\nP[n,m] = X[n,d] * Y[m,d]",
    "masked output": "P[q,k] = softmax[k if k <= q](S[q,k])",
    "product": "C[n,m] = A[n,d] * B[d,m]",
    "statistics": "S[q,k] = Q[q,d] * K[k,d]\nO[q,e] = softmax[k](S[q,k]) * V[k,e]\n"
    "L[q] = logsumexp[k](S[q,k])",
    "column sums": "P[q,k] = softmax[k](Q[q,d] * K[k,d])\nC[k] = sum[q](P[q,k])",
    "integers": "input N[b]: int\nO[b] = sum[k if k < N[b]](X[b,k])",
}


def cost_of(text: str) -> Cost:
    return cost(translate(check(text)))


def number(formula: Any, sizes: dict[str, int]) -> int:
    """A formula of a report in numbers."""
    return int(formula.subs({s: sizes[s.name] for s in formula.free_symbols}))


# text: passes as it is written, and as it is compiled
PASSES: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    **{library.load(n): ({"k": 3}, {"k": 1}) for n in ("attention", "causal", "safe_attention")},
    library.load("lazy_attention"): ({"k": 2}, {"k": 1}),
    library.load("naive_attention"): ({"k": 1}, {"k": 1}),
    "O[q] = softmax[k](S[q,k]) * V[k]\nL[q] = logsumexp[k](S[q,k])": ({"k": 3}, {"k": 1}),
    "O[q] = softmax[k](S[q,k]) * V[k]\nM[q] = max[k](S[q,k])": ({"k": 3}, {"k": 1}),
    "O[q] = softmax[k](S[q,k]) * V[k] + softmax[k](S[q,k] + B[q]) * W[k]": ({"k": 3}, {"k": 1}),
    "O[q] = softmax[k](S[q,k]) * V[k] + softmax[k](0.5 * S[q,k]) * W[k]": ({"k": 3}, {"k": 1}),
    # The largest of a softmax, their positions, and the softmax take one pass.
    "index r < 8\nP[q,k] = softmax[k if k <= q](S[q,k])\nO[q,e] = P[q,k] * V[k,e]\n"
    "T[q,r] = top[k -> r if k <= q](P[q,k])\nA[q,r] = argtop[k -> r if k <= q](P[q,k])\n"
    "B[q] = argmax[k if k <= q](P[q,k])\nreturn O, T, A, B": ({"k": 4}, {"k": 1}),
    "O[q] = var[k](A[q,k])": ({"k": 1}, {"k": 1}),
    "P[i,k] = softmax[k](X[i,k])": ({"k": 3}, {"k": 2}),
    "L[i] = logsumexp[k](X[i,k])": ({"k": 2}, {"k": 1}),
    "C[n,m] = A[n,d] * B[d,m]": ({"d": 1}, {"d": 1}),
    "O[i] = 2 * X[i]": ({}, {}),
    "M[i] = mean[k](X[i,k])": ({"k": 1}, {"k": 1}),
    "M[i] = mean[j, k](X[i,j,k])": ({"j": 1}, {"j": 1}),
    "A[i] = any[k](0 < X[i,k])": ({"k": 1}, {"k": 1}),
    "O[i] = sum[k](relu(X[i,k] - max[k](X[i,k])))": ({"k": 2}, {"k": 2}),
    "O[i] = sum[k](X[i,k]) + max[k](X[i,k])": ({"k": 1}, {"k": 1}),
    "O[i] = sum[k](X[i,k])\nP[j] = sum[k](Y[j,k])": ({"k": 2}, {"k": 2}),
}


@pytest.mark.parametrize("text", PASSES)
def test_passes(text: str) -> None:
    k = mc.compile(text)
    before, after = PASSES[text]
    assert cost(k.equations).passes == before
    assert cost(k.derivation.result).passes == after
    assert k.report()["passes"] == after


def test_reads() -> None:
    """K for the maximum, the sum and the weighted sum; Q once for all, as it does not vary."""
    assert cost_of(library.load("attention")).reads == {"Q": 1, "K": 3, "V": 1}
    assert cost_of(library.load("softmax")).reads == {"X": 3}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("text", [*map(library.load, library.names()), *MORE.values()])
def test_agrees_with_the_kernels(text: str) -> None:
    """Passes and state are those of the kernels, and bytes where they load nothing twice."""
    k = mc.compile(text)
    found, report = cost(k.derivation.result), k.report()
    assert found.passes == report["passes"]
    plan = k.plan()
    for p in plan.planned:  # for these sizes with other roles than for any
        roles = choose_roles([plan.program.by_name[n] for n in p.names], lambda e: True)
        if {c.axis for c in p.roles} != {*roles.values()}:
            break
    else:
        assert sympy.expand(formula(found.state).sympy() - report["state"]) == 0
    sizes = {e: 64 if e in "de" else 1024 for e in set(k.declared.extent_of.values())}
    kernels = k.tile_programs()
    outer = [s for p in kernels for s in p.body if isinstance(s, Loop)]
    nested = any(isinstance(s, Loop) for loop in outer for s in loop.body)
    if not nested:
        assert sympy.expand(formula(found.bytes).sympy() - report["bytes"]) == 0
    assert formula(found.bytes).at(sizes) <= number(report["bytes"], sizes)


def test_operations() -> None:
    """Counted by hand."""
    assert str(cost_of("C[n,m] = A[n,d] * B[d,m]").flops) == "2*d*m*n"
    assert str(cost_of("O[i,j] = exp(X[i] - Y[j]) * 2").flops) == "3*i*j"
    assert str(cost_of("O[i,j] = exp(X[i]) * exp2(Y[j])").flops) == "2*i*j + j"
    assert str(cost_of("M[i] = max[k](X[i,k])\nS[i] = sum[k](X[i,k])").flops) == "2*i*k"
    assert str(cost_of("O[i] = sum[k](X[i,k] ** 3) / Y[i]").flops) == "3*i*k + i"
    assert str(cost_of("O[i] = X[i]").flops) == "0"


def test_bytes_and_state() -> None:
    found = cost_of("O[i] = sum[k](X[i,k]) + max[k](X[i,k])")
    assert (str(found.bytes), str(found.state)) == ("2*i*k + 2*i", "2")
    found = cost_of("O[q,e] = softmax[k](S[q,k]) * V[k,e]")
    assert str(found.bytes) == "2*e*k + 2*e*q + 6*k*q"
    assert str(found.state) == "e + 2"


def test_formulas_need_their_extents() -> None:
    flops = cost(translate(check("O[i] = sum[k](A[i,k] * B[k])"))).flops
    assert formula(flops).at({"i": 3, "k": 5}) > 0
    with pytest.raises(UsageError, match="the extent of k is missing"):
        formula(flops).at({"i": 3})


def test_a_tile_is_loaded_once() -> None:
    """Keys are multiplied along d for the logits, and weighted for columns along d."""
    sizes = {"q": 1024, "k": 1024, "d": 64, "e": 64}

    def estimated(values: str) -> Cost:
        program = mc.compile(f"S[q,k] = Q[q,d] * K[k,d]\nO[q,e] = exp(S[q,k]) * {values}[k,e]")
        (kernel,) = estimate(program.plan(sizes).program, sizes)
        return kernel.cost

    of_values, of_keys = estimated("V"), estimated("K")
    assert of_keys.operations == of_values.operations
    assert of_values.bytes - of_keys.bytes == 1024 // ROW_BLOCK * 1024 * 64 * ELEMENT_BYTES


def test_every_step_has_costs() -> None:
    k = mc.compile(library.load("sliding_window"))
    sizes = {"b": 1, "h": 8, "q": 4096, "k": 4096, "d": 64, "e": 64}
    first, last = k.derivation.costs
    costs = [k.derivation.first(n).costs for n in range(len(k.derivation) + 1)]
    assert costs[0][1] == k.derivation.costs[0] and costs[-1] == k.derivation.costs
    assert all(before == costs[0][0] for before, _ in costs) and costs[0][1] != costs[-1][1]
    assert first.passes == {"k": 3} and last.passes == {"k": 1}
    moved, before = (formula(c.bytes).at(sizes) for c in (last, first))
    assert moved == k.report(sizes)["bytes"] < before
    assert formula(last.flops).at(sizes) < formula(first.flops).at(sizes)


# --- what a report counts, against formulas written by hand ------------------------------


# A filter's bounds are not counted: in `causal` all pairs are, not the half that is admitted.
BY_HAND = {
    # Two products of matrices, and of the weights the maximum, the difference from it, its scale,
    # exp2, and the sum.
    **dict.fromkeys(("attention", "causal"), "b*h*q*k * (2*d + 2*e + 5)"),
    # e^-s (3), its multiple and 1 (2), and the quotient.
    "sigmoid_attention": "b*h*q*k * (2*d + 2*e + 6)",
    # The logits are a sum of two products, scaled once; the values are the latent keys.
    "mla": "b*h*q*k * (2*c + 2*r + 1 + 5 + 2*c)",
    # Maxima and sums of the mixed logits; then, for each head of the values, all weights anew (6
    # each), which take the logits of all heads.
    "talking_heads": "b*q*k * (h * (g * (2*d + 2) + 5) + i * (h * (g * (2*d + 2) + 6) + 2*e))",
    # Logits, softmax, and the mean of the logits under it: a difference, a product, a sum.
    "cross_entropy": "t*v * (2*d + 5 + 3)",
}


@pytest.mark.parametrize("name", BY_HAND)
def test_operations_for_each_pair(name: str) -> None:
    flops = sympy.expand(mc.compile(library.load(name)).report()["flops"])
    pair = {"q", "k"} if name != "cross_entropy" else {"t", "v"}
    counted = [t for t in flops.as_ordered_terms() if pair <= {s.name for s in t.free_symbols}]
    names = {s.name: s for s in flops.free_symbols}
    assert sympy.expand(sympy.Add(*counted) - sympy.parse_expr(BY_HAND[name], names)) == 0


def test_what_is_done_once_a_block_is_done_once() -> None:
    """The running maximum and the moving of the sum to it: by rows, not by elements."""
    flops = mc.compile("L[i] = logsumexp[k](X[i,k])").report()["flops"]
    assert number(flops, {"i": 3, "k": 1000}) == 5 * 3000 + number(flops, {"i": 3, "k": 0})
    assert number(flops, {"i": 1, "k": 0}) < 15


# --- the elements that folds join --------------------------------------------------------


SIZES = "index i < 2\nindex j < 3\nindex k < 5\n"


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("A[i] = sum[k](X[i,k])", 2 * 5),
        ("A[i] = sum[k](X[i,k]) + sum[j](Y[j] * sum[k](X[i,k]))", 2 * 5 + 2 * 3),
    ],
)
def test_elements(text: str, elements: int) -> None:
    """Each fold counts once for all values of its indices."""
    assert elements_of_folds(equations(SIZES + text)) == elements
