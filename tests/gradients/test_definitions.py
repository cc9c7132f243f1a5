"""Names of adjoints: they stand in a gradient's text, in its plan and in its kernels."""

from __future__ import annotations

import monocomp as mc
from monocomp import library
from tests.gradients.test_derived import check_gradient_by_differences

SIZES = {"b": 2, "h": 2, "q": 4096, "k": 4096, "d": 64, "e": 64}


def test_names_reach_kernels() -> None:
    """Where delta is stored, and where it is computed."""
    kernels = mc.compile(mc.grad(library.load("causal"))).plan(SIZES).kernels
    texts = [str(k) for k in kernels]
    assert "dS_in[k,q] = inside[k, 0.0](P * (dP - acc))" in texts[0]
    assert "store delta[b, h, q] = acc" in texts[0]
    assert "dS_in[k,q] = inside[q, 0.0](P * (dP - delta_tile))" in texts[1]


def test_a_mask_is_built_once_a_block() -> None:
    """Weights and their adjoints are masked together."""
    source = mc.grad(library.load("causal")).source(target="cuda:90", extents=SIZES)
    keys = source[source.index("_dK_dV_kernel(") :]
    keys = keys[: keys.index("@triton.jit")]
    assert keys.count("keep = ") == 1
    assert (
        "P_in = tl.where(keep, P_in, 0.0)" in keys and "dS_in = tl.where(keep, dS_in, 0.0)" in keys
    )


def test_one_adjoint_of_what_results_have_in_common() -> None:
    """Two results are made of the same logits, whose adjoint is one."""
    text = """S[q,k] = Q[q,d] * K[k,d]
O[q,e] = softmax[k](S[q,k]) * V[k,e]
L[q] = logsumexp[k](S[q,k])
return O, L"""
    found = mc.grad(text)
    assert "dS[q,k] = P[q,k] * (dL[q] + dP[q,k] - delta[q])" in str(found).splitlines()
    check_gradient_by_differences(text, found)


def test_weights_stay_with_what_divides_them() -> None:
    """The adjoint of a sum of exponentials is no float by itself, and has no name."""
    found = mc.grad("O[q] = sum[k](exp(S[q,k]) * V[k]) / sum[k](exp(S[q,k]))", save=[])
    names = {e.name for e in found.equations.equations} - {*found.gradients.values()}
    assert not any("/ sum" in found.equations.shown(found.equations.by_name[n].body) for n in names)
