"""Roles by cost: an index goes to the grid unless holding it pays, within what can be held; and
operands of products that are stored: in the dtype of what they are multiplied with."""

from __future__ import annotations

import numpy as np
import pytest

import monocomp as mc
from monocomp import library
from monocomp.checking.random_inputs import random_inputs
from monocomp.host.building import host_program, of_tile_program
from monocomp.host.tensors import Buffer
from monocomp.language.checker import check
from monocomp.planning.plan import Plan
from monocomp.tile import expressions
from monocomp.translation.translator import translate
from tests.backends import interpreted
from tests.planning.test_slicing import LAYER, TOKENS, VOCABULARY, WIDTH, in_slices, layer

# A sum of a mask lacks heads, queries and columns; beside it stand two products of matrices.
MASKED = "O[b,h,q,e] = sum[k](relu(sum[d](Q[b,h,q,d] * K[b,h,k,d])) * V[b,h,k,e]) / sum[k](M[b,k])"
MEAN = "O[b,i,j] = sum[k](X[b,i,k] * Y[b,k,j]) / sum[k](M[b,k])"
DECAY = (
    "monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')\n"
    "O[q,e] = Affine[k](G[k], sum[d](Q[q,d] * K[k,d]) * V[k,e]).u"
)
SIZES = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 64, "e": 64, "i": 300, "j": 300}


def roles(text: str, **sizes: int) -> dict[str, str]:
    kernels = mc.compile(text).plan(sizes).planned
    return {c.axis.name: c.axis.role for c in kernels[-1].roles}


def test_a_cheap_sum_holds_no_heads() -> None:
    for sizes in ({}, {n: SIZES[n] for n in "bhqkde"}):
        assert roles(MASKED, **sizes) == {"b": "grid", "h": "grid", "q": "row", "e": "whole"}
    (kernel,) = mc.compile(MASKED).plan().planned
    why = {c.axis.name: c.why for c in kernel.roles}
    assert why["h"] == "what lacks it costs little: each value computes it anew"


def test_an_expensive_one_holds_columns() -> None:
    """The weights of attention serve all columns of the values."""
    assert roles(library.load("attention"))["e"] == "whole"
    assert roles(library.load("attention"), q=1)["e"] == "whole"
    small = {"s": 20, "b": 4, "h": 16, "q": 1, "e": 128}  # a launch takes longer than the rest
    assert roles(library.load("merge_states"), **small)["e"] == "whole"


def test_what_cannot_be_held_together_is_cut() -> None:
    assert roles(MEAN, b=4, i=300, j=300, k=4096) == {"b": "grid", "i": "row", "j": "whole"}
    assert roles(MEAN, b=4, i=300, j=64, k=4096) == {"b": "grid", "i": "whole", "j": "whole"}
    assert roles(MEAN)["i"] == "row"


def test_blocks_of_columns_share_what_lacks_them() -> None:
    """A recurrence is no product, and a tile of it has rows, columns and keys: so columns stand in
    blocks, and not all of them in one. The products that they share are computed once a block."""
    plan = mc.compile(DECAY).plan({n: SIZES[n] for n in "qkde"})
    (kernel,), (tiles,) = plan.planned, plan.kernels
    assert {c.axis.name: c.axis.role for c in kernel.roles} == {"q": "row", "e": "row"}
    products = [t for t in expressions(tiles.body) if t.op == "contract"]
    assert [t.axes for t in products] == [{"q", "k"}]


@pytest.mark.parametrize("text", [MASKED, MEAN, DECAY])
def test_results(text: str) -> None:
    small = {"b": 2, "h": 3, "q": 40, "k": 50, "d": 5, "e": 6, "i": 30, "j": 21}
    used = check(text).extent_of
    inputs = random_inputs(translate(check(text)), {n: s for n, s in small.items() if n in used})
    k = mc.compile(text, backend="numpy")
    long = k.plan({n: s for n, s in SIZES.items() if n in used})
    k.planner.plan = lambda *_, **__: long  # type: ignore[method-assign]
    np.testing.assert_allclose(k(**inputs), mc.evaluate(text, inputs), rtol=1e-6, atol=1e-9)


def test_an_output_that_lacks_an_index_keeps_it_off_the_grid() -> None:
    """One loop carries the sums of both outputs, and the second is stored once."""
    text = "input A[i,k], Y[k], C\n"
    text += "D[i] = logsumexp[k](A[i,k] - mean[k](Y[k]))\nO = (sum[k](exp(Y[k] + C) * C) + 1) / "
    text += "(sum[k](exp(Y[k] + C)) + 1)\nreturn D, O"
    rng = np.random.default_rng(0)
    inputs = {"A": rng.standard_normal((2, 3)), "Y": rng.standard_normal(3), "C": np.array(0.5)}
    kernel = mc.compile(text, backend="numpy")
    for found, wanted in zip(kernel(**inputs), mc.evaluate(text, inputs), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-9)
    for tiles in kernel.plan({"i": 2, "k": 3}).kernels:
        on_grid = {a.extent for a in tiles.axes.values() if a.role == "grid"}
        assert all(on_grid <= set(o.dims) for o in tiles.outputs)


# --- operands of products that are stored ------------------------------------------------


def plan_of(text: str, **sizes: int) -> Plan:
    return mc.compile(text).stages.at(**sizes).plan


def test_the_dtype_is_that_of_what_it_is_multiplied_with() -> None:
    with in_slices(of="v"):
        plan = plan_of(LAYER, t=TOKENS, d=WIDTH, v=VOCABULARY)
    (name,) = plan.program.operands
    host = host_program(plan.program, [of_tile_program(k) for k in plan.kernels])
    (buffer,) = (s for s in host.statements() if isinstance(s, Buffer) and s.name == name)
    assert buffer.dtype == "operand" and {*buffer.beside} == {"X", "W"}
    assert f"{name}: stored float[v_slice, t] as operand" in str(plan.kernels[0])


def test_rows_that_most_varies_along_come_first() -> None:
    """Of what a kernel reads after its loop, most is one value a token: it is a value a row of a
    tile, although what is stored has the tokens last."""
    with in_slices(of="v"):
        kernel, *_ = plan_of(LAYER, t=TOKENS, d=WIDTH, v=VOCABULARY).kernels
    assert kernel.axis_names("row") == ["t", "v_slice"]
    assert kernel.outputs[0].dims == ("v_slice", "t")


@pytest.mark.parametrize("dtypes", [{"X": "float16", "W": "float16"}, {"W": "float16"}])
def test_it_is_rounded_once(dtypes: dict[str, str]) -> None:
    assert interpreted.call(layer, TOKENS, "triton", "v", dtypes) < 2e-3


def test_the_closest_elements_come_last() -> None:
    """In splits of whose outer index each element has a product for itself."""
    text = "input F[q,h,k], Z[q,k,c]\ndW[c,h] = sum[k](sum[q](F[q,h,k] * Z[q,k,c]))\n"
    plan = mc.compile(text).planner.plan({"q": 2048, "k": 2048, "h": 16, "c": 32}, 132)
    kernel = plan.kernels[0]
    assert kernel.axis_names("serial") == ["q"] and kernel.axis_names("stream") == ["k"]
    (split,) = kernel.splits
    most = plan.program.declared.bounds[split]
    assert "128" not in str(most) and "256" not in str(most)
