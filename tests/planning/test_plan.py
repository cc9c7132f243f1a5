"""Plans: what they hold, that they are made once for sizes that decide alike, and what they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import monocomp as mc
from monocomp import library
from monocomp.declarations.records import by_representative
from monocomp.errors import InternalError
from monocomp.language.checker import check
from monocomp.planning.plan import Plan, Planner
from monocomp.translation.translator import translate
from tests.backends.storing import PROGRAMS

ATTENTION = library.load("attention")
DECODING = {"b": 1, "h": 2, "q": 1, "k": 8192, "d": 64, "e": 64}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", library.names())
@pytest.mark.parametrize("processors", [1, 132])
def test_library_plans_are_verified(name: str, processors: int) -> None:
    """Also where streams are split; every index of an output has a role with a reason."""
    found = mc.compile(library.load(name)).plan(processors=processors)
    found.verify()
    for kernel in found.planned:
        mentioned = {d for o in kernel.tiles.outputs for d in o.dims}
        assert mentioned == {c.axis.extent for c in kernel.roles}
        assert all(c.why for c in kernel.roles)


def test_one_way_to_kernels() -> None:
    """The plan of equations is that of a compiled program."""
    kernel = mc.compile(ATTENTION)
    sizes = by_representative(kernel.declared, DECODING)
    (one,), (other,) = Planner(kernel.equations).plan(sizes).kernels, kernel.plan(DECODING).kernels
    assert str(one) == str(other) == str(kernel.tile_programs(DECODING)[0])
    assert Planner(translate(check(ATTENTION))).plan().derivation.steps


def test_sizes_that_decide_alike_share_a_plan() -> None:
    kernel = mc.compile(ATTENTION)
    assert kernel.plan({"q": 1000}) is kernel.plan({"q": 1024})
    assert kernel.plan({"q": 1000}) is not kernel.plan({"q": 1025})
    assert kernel.plan({"q": 1000}).kernels[0] is kernel.plan({"q": 1025}).kernels[0]


def test_the_derivation_is_the_one_for_the_sizes() -> None:
    kernel = mc.compile(ATTENTION)
    few, many = (kernel.plan({**DECODING, "q": n}, 132).derivation for n in (1, 100_000))
    assert "split_stream" in [s.rule for s in few]
    assert "split_stream" not in [s.rule for s in many]
    (split,) = (s for s in few if s.rule == "split_stream")
    assert split.reason == "as there would be 2 program instances for 132 processors"


def test_few_columns_of_an_aggregate_are_held_in_a_sum_over_them() -> None:
    """At these sizes a row is computed anew where another kernel would store it."""
    text = "H[q,e] = softmax[k if k <= q](S[q,k]) * V[k,e]\n"
    text += "O[j,e] = softmax[q](R[j,q]) * (H[q,e] / sum[e](H[q,e] ** 2))"
    inputs = {"R": np.array([[0.0, 1.0]]), "S": np.array([[1.0], [2.0]]), "V": np.ones((1, 2))}
    found = mc.compile(text, backend="numpy")(**inputs)
    np.testing.assert_allclose(found, mc.evaluate(text, inputs))


def test_choices_have_reasons_and_costs() -> None:
    found = mc.compile(PROGRAMS["column sums"].text).plan()
    stored = [s for s in found.decisions if s.rule == "store_value"]
    assert stored[0].reason == "which is needed in the loop over q for every k"
    cost = stored[-1].cost
    assert cost is not None and 0 < cost.after < cost.before / 2
    text = str(found)
    assert f"store_value in C: L[h,q], {stored[0].reason}" in text
    assert "\n  q  row     a large operand lacks it: a block of rows shares what is read\n" in text


def broken(found: Plan) -> list[tuple[Plan, str]]:
    return [
        (replace(found, planned=found.planned[::-1]), "kernel_C reads"),
        (replace(found, planned=found.planned[:1]), "no kernel computes C"),
        (replace(found, decisions=found.decisions[:1]), "do not end"),
        (replace(found, decisions=found.decisions[1:]), "does not begin"),
    ]


def test_what_the_verifier_finds() -> None:
    found = mc.compile(PROGRAMS["column sums"].text).plan()
    for wrong, message in broken(found):
        with pytest.raises(InternalError, match=message):
            wrong.verify()


LOGITS = "Q[b,h,q,d] * K[b,h,k,d]"
LACKING = {  # what some fold does without: a head, or a batch and a head
    "decays of heads": "O[b,h,q,e] = sum[k if k <= q]("
    f"{LOGITS} * exp(g[h] * (q - k)) * V[b,h,k,e])",
    "a gain": "D[b,h,q,d] = Q[b,h,q,d] - mean[d](Q[b,h,q,d])\n"
    "M[b,h,q,d] = D[b,h,q,d] / sqrt(mean[d](D[b,h,q,d] ** 2) + 0.001) * G[d]\n"
    "O[b,h,q,e] = softmax[k](M[b,h,q,d] * K[b,h,k,d]) * V[b,h,k,e]",
    "documents": "input starts[j]: int\nD[k] = sum[j](where(starts[j] <= k, 1, 0))\n"
    f"O[b,h,q,e] = softmax[k if D[k] == D[q]]({LOGITS}) * V[b,h,k,e]",
}


@pytest.mark.parametrize("name", LACKING)
def test_batches_and_heads_stay_on_the_grid(name: str) -> None:
    """Holding them would not fit."""
    kernel = mc.compile(LACKING[name])
    sizes = {"b": 2, "h": 16, "q": 4096, "k": 4096, "d": 128, "e": 128, "j": 8}
    known = {n: s for n, s in sizes.items() if n in kernel.declared.extent_of}
    for planned in kernel.plan(known).planned:
        roles = {c.axis.extent: c.axis.role for c in planned.roles}
        assert {roles.get(n, "grid") for n in "bh"} == {"grid"}


@pytest.mark.parametrize(("heads", "length", "d"), [(4, 256, 8), (4, 2048, 64), (16, 2048, 64)])
def test_products_with_all_heads_share_no_loop(heads: int, length: int, d: int) -> None:
    """The result lacks what the logarithms have, a head of the softmax: a kernel for both holds all
    heads, of which each product has its own, however few they are."""
    text = library.load("talking_heads")
    weights = "L[b,h,q] = logsumexp[k](S[b,g,q,k] * WL[g,h])\nreturn O, L"
    kernel = mc.compile(f"{text}\n{weights}")
    sizes = {"b": 2, "g": heads, "h": heads, "i": heads, "q": length, "k": length, "d": d, "e": d}
    plan = kernel.plan(by_representative(kernel.declared, sizes))
    products = [e for k in plan.kernels for e in k.expressions if e.op == "contract"]
    assert products and all(len(e.axes) == 2 for e in products)


def test_gradients_of_two_biases_multiply_tiles() -> None:
    """A slope's gradient lacks the batch and the rows of the queries', however few those are: one
    loop for both would hold them all, and no product in it were one of two matrices."""
    gradient = mc.grad("""
        input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], i[b,q]: int, j[b,k]: int, pair[x,y], slope[h]
        S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] + pair[i[b,q], j[b,k]] + slope[h] * (k - q)
        O[b,h,q,e] = softmax[k](S[b,h,q,k]) * V[b,h,k,e]
        return O
    """)
    sizes = {"b": 2, "h": 2, "q": 11, "k": 11, "d": 16, "e": 16, "x": 5, "y": 5}
    kernel = mc.compile(gradient)
    products = [e for k in kernel.plan(sizes).kernels for e in k.expressions if e.op == "contract"]
    assert products and all(len(e.axes) <= 2 for e in products)
    assert kernel.source(target="cuda:90", extents=sizes)


def test_products_of_few_columns_share_a_loop() -> None:
    """What columns set apart runs over one loop, where its products are of two matrices."""
    text = """input Q[b,q,d], K[b,k,d], V[b,k,e], W[h]
S[b,q,k] = Q[b,q,d] * K[b,k,d]
O[b,q,e] = sum[k](relu(S[b,q,k]) * V[b,k,e])
M[b,q,h] = max[k](S[b,q,k] * W[h])
return O, M"""
    kernel = mc.compile(text)
    sizes = {"b": 2, "q": 2048, "k": 2048, "d": 64, "e": 64, "h": 8}
    assert len(kernel.plan(by_representative(kernel.declared, sizes)).kernels) == 1


def test_sizes_that_nobody_gave_are_names() -> None:
    kernel = mc.compile(library.load("causal"))
    assert "\n  for any b, h, q, d, k, e\n" in str(kernel.plan())
    assert "\n  for q = 64, any b, h, d, k, e\n" in str(kernel.plan({"q": 64}))
    shown = (*kernel.stages.values(), str(kernel.derivation), mc.explorer.page(kernel))
    assert not [text for text in shown if "= 16384" in text]
