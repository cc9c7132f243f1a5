"""Gradients as programs: what they say, and that they are right by finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import monocomp as mc
from monocomp import terms as T
from monocomp.derivation.rule_sets import derive
from monocomp.errors import UsageError
from monocomp.language.checker import check
from monocomp.terms.algebra import is_mantissa
from monocomp.translation.translator import translate
from tests.agreement import check_slopes

# Written as people write them; each is right at once, or a rule of differentiation is wrong.
PROGRAMS = {
    "two maxima": "M[i] = max[k](X[i,k]) * min[k](X[i,k])",
    "product": "M[i] = prod[k](X[i,k])",
    "prefix": "H[t] = sum[..t](X[t] ** 2) * Y[t]",
    "monoid": "H[i] = Affine[k](A[i,k], U[i,k]).u",
    "recurrence": "H[t] = Affine[..t](A[t], U[t]).u",
    "welford": "H[i] = Welford[k](1, X[i,k], 0).m2",
    "top": "index r < 3\nH[i,r] = top[k -> r](X[i,k])",
    "gather": "input T[i]: int\nO[i] = E[T[i],d] * W[d]",
    "reversed": "index i < |k|\nO[i] = sum[k](W[i - k + |k| - 1] * X[k])",
    "halves": "index i < 6, k < 6\n"
    "O[i] = X[i // 2] * Y[i % 3] + sum[k if k // 2 == i // 2](X[k // 2])",
    "guards": "O[i] = where(X[i] > 0, log(X[i]), 0) + sum[k if Y[k] > 0](sqrt(Y[k]) / X[i])",
    "choices": "O[i] = maximum(X[i], Y[i]) * minimum(X[i], 2 * Y[i]) + abs(X[i]) * relu(Y[i])",
    "functions": "O[i] = tanh(X[i]) + sigmoid(X[i]) * silu(Y[i]) + gelu(X[i]) + softplus(Y[i])"
    " + erf(X[i]) * elu(Y[i]) + sin(X[i]) * cos(Y[i]) + exp2(X[i]) ** 1.5",
    "stop": "O[i] = X[i] * stop(X[i])",
    "diagonal": "index i < 4, j < 4\nO[i] = X[i,i] * sum[j](X[i,j] * X[j,i])",
    "naive": "O[q] = sum[k](exp(S[q,k]) * V[k]) / sum[k](exp(S[q,k]))",
    "weights in a filter": "P[k] = softmax[k](S[k])\nO[q] = sum[k if P[k] > 0.1](V[q,k])",
    "many sums with one maximum": "m = max[i](X[i])\n"
    "O[k] = sum[i](where(A[i,k] < 0, 3, 1) * exp(X[i] - m)) ** 2",
    "entropy": "P[q,k] = softmax[k](S[q,k])\nH[q] = -sum[k](P[q,k] * log(P[q,k]))",
    "exponentials beside weights": "S[q,k] = Q[q,d] * K[k,d]\n"
    "O[q] = softmax[k if k < q](S[q,k]) * V[k] + sum[k](exp(S[q,k]) * W[k])",
    "fields that are saved one by one": "monoid Both(p, q) = unit (0, -inf),"
    " combine (p + p', maximum(q, q'))\nE[k] = Both[k](Y[k], Y[k]).p - Y[k]\n"
    "O[k] = Both[k](Y[k], E[k]).q * Affine[j](tanh(W[j]), j ** 2).u * Y[k]\nreturn O",
    "rows that something multiplies": "input A[i,k], C\nO[i,k] = softmax[k](A[i,k] * C * k)",
    "positions in filters": "input A[i,k], Y[k], T[k]: int, C\n"
    "O[i] = C / (1 + relu(minimum(max[k](A[i,k] * Y[T[k]]), 0.5)))",
    "two outputs": "L[q] = logsumexp[k](S[q,k])\nO[q] = sum[k](S[q,k] ** 2)\nreturn L, O",
}


def tuple_of(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def test_a_gradient_is_a_program() -> None:
    """To compile, to evaluate and to differentiate again."""
    gradient = mc.grad("O = sum[k](X[k] ** 3)")
    inputs = {"X": np.array([1.0, 2.0, -3.0]), "dO": np.array(2.0)}
    wanted = 6 * inputs["X"] ** 2
    np.testing.assert_allclose(mc.evaluate(gradient, inputs), wanted)
    np.testing.assert_allclose(mc.compile(gradient, backend="numpy")(**inputs), wanted)
    assert str(mc.grad(gradient, wrt=["X"])).splitlines()[-2] == "dX_2[k] = 6 * X[k] * dO * ddX[k]"
    for not_a_program in (3, None, b"O = 1"):
        for function in (mc.compile, mc.grad, lambda text: mc.evaluate(text, {})):
            with pytest.raises(UsageError, match="a program is a text, not "):
                function(not_a_program)  # type: ignore[arg-type]


def test_names_are_no_longer_than_a_text_may_have() -> None:
    """The gradient of what has a name of 64 characters is a program, too, and so is its own."""
    q, o = "Q" * 64, "O" * 64
    text = f"{o}[i] = sum[k](softmax[k]({q}[i,d] * K[k,d]) * V[k])"
    for found in (mc.grad(text), mc.grad(mc.grad(text), wrt=[q])):
        assert translate(check(str(found))).text().rstrip() == str(found)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "stop"])
def test_programs(name: str) -> None:
    check_slopes(PROGRAMS[name])


def test_stop() -> None:
    assert str(mc.grad(PROGRAMS["stop"])).splitlines()[-2] == "dX[i] = dO[i] * stop(X[i])"


def test_a_part() -> None:
    found = mc.grad(mc.library.load("attention_statistics"), wrt=["V"], outputs=["O"])
    assert list(found.equations.declared.inputs) == ["Q", "K", "dO", "L_2"]
    assert str(found).endswith("return dV")


LOGARITHM = """
input Q[q,d], K[k,d], V[k,e]
S[q,k] = sum[d](Q[q,d] * K[k,d])
O[q,e] = softmax[k](S[q,k]) * V[k,e]
L[q] = logsumexp[k](S[q,k])
return O, L{0}
"""


def test_a_logarithm_is_read_in_the_dtype_of_sums() -> None:
    """One that the program returns is rounded, unless it says otherwise."""
    rounded, exact = (mc.grad(LOGARITHM.format(how)) for how in ("", ": float32"))
    assert set(rounded.saved) == {"O", "L_2"} and set(exact.saved) == {"O", "L"}
    assert "return O, L, L_2: accumulated" in rounded.forward.text()
    assert "return O, L: float32" in exact.forward.text()


# --- what is saved --------------------------------------------------------------------------


@pytest.mark.slow
def test_large_values_are_saved_where_they_take_long() -> None:
    """What is normalised after attention is as large as the results, which do not tell it, and
    attention to compute again."""
    text = """P[q,k] = softmax[k if k <= q](Q[q,d] * K[k,d])
Y[q,e] = P[q,k] * V[k,e]
O[q,e] = Y[q,e] * gain[e] / sqrt(sum[e](Y[q,e] ** 2) / |e| + 1 / 1000)
return O"""
    found = mc.grad(text)
    assert set(found.saved) == {"L", "M"}
    assert "sum[k](V" not in str(found)
    check_slopes(text)
    check_slopes(text, save=["L", "O"])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("length", [64, 192, 512])
def test_a_finite_factor_is_not_masked_row_by_row(length: int) -> None:
    """What a learned gain and a norm make of a cotangent lacks the keys, by which a causal mask
    varies: masked, it would be a tile of queries, keys and features, which no GPU holds."""
    found = mc.grad("""P[q,k] = softmax[k if k <= q](Q[q,d] * K[k,d])
Y[q,e] = P[q,k] * V[k,e]
O[q,e] = Y[q,e] * gain[e] / sqrt(sum[e](Y[q,e] ** 2) / |e| + 1 / 1000)
return O""")
    sizes = {"d": 64, "e": length}
    kernels = mc.compile(str(found)).plan(sizes).kernels
    assert max(len(x.axes) for k in kernels for x in k.expressions if x.op == "masked") == 2
    assert found.source(extents=sizes, target="cuda:90")


def test_gates_need_no_frames() -> None:
    """A weight of causal attention is at most 1 wherever it is summed, so a sigmoid beside it stays
    what it is, whatever is saved."""
    text = """P[q,k] = softmax[k if k <= q](Q[q,d] * K[k,d])
O[q,e] = silu(G[q,e]) * (P[q,k] * V[k,e])"""
    for save in (["L"], ["L", "M"]):
        found = mc.grad(text, save=save)
        assert [*found.saved] == save
        terms = T.subterms(*(e.body for e in derive(found.equations).program.equations))
        assert not any(is_mantissa(t) for t in terms)
        check_slopes(text, save=save)


def test_saved_depends_on_sizes() -> None:
    """A sum over what is short costs less to compute again than to store."""
    text = "O[i] = logsumexp[k](X[i,k]) ** 2"
    assert set(mc.grad(text).saved) == {"m", "L"}
    assert not mc.grad(text, extents={"k": 1, "i": 4096}).saved


def test_definitions_that_are_differentiated_by_name() -> None:
    """Keys that are normalised, with a gain: their derivatives are sums over queries of their own,
    and what is made of these is computed once a key."""
    text = """A[q,d] = Q[q,d] * g[d] / sqrt(sum[d](Q[q,d] ** 2) / |d| + 1 / 1000)
B[k,d] = K[k,d] * f[d] / sqrt(sum[d](K[k,d] ** 2) / |d| + 1 / 1000)
O[q,e] = softmax[k if k <= q](A[q,d] * B[k,d]) * V[k,e]"""
    found = mc.grad(text)
    assert found.named.definitions == {"A", "B"} and found.kept == {"A", "B", "dA", "dB"}
    assert {"A", "B"} <= mc.compile(found).planner.plan().program.by_name.keys()
    check_slopes(text)


@pytest.mark.parametrize(("gate", "is_guarded"), [("silu(G[q,e])", False), ("log(G[q,e])", True)])
def test_intermediates_over_nothing(gate: str, is_guarded: bool) -> None:
    """The first row has no key. What is infinite there, perhaps, is not asked for; the steps that
    are printed are those that were taken."""
    text = f"""P[q,k] = softmax[k if k < q](Q[q,d] * K[k,d])
O[q,e] = {gate} * (P[q,k] * V[k,e])"""
    found = mc.grad(text, save=["L", "M"])
    assert found.named.values == ("M",)
    (line,) = [line for line in str(found).splitlines() if line.startswith("dM[")]
    assert ("-inf < L[q]" in line) == is_guarded
    assert all(c.ok for c in found.derivation.check())
    if not is_guarded:
        check_slopes(text, save=["L", "M"])


def test_one_adjoint_of_what_results_have_in_common() -> None:
    """Two results are made of the same logits, whose adjoint is one."""
    text = """S[q,k] = Q[q,d] * K[k,d]
O[q,e] = softmax[k](S[q,k]) * V[k,e]
L[q] = logsumexp[k](S[q,k])
return O, L"""
    found = mc.grad(text)
    assert "dS[q,k] = P[q,k] * (dL[q] + dP[q,k] - delta[q])" in str(found).splitlines()
    check_slopes(text)


def test_weights_stay_with_what_divides_them() -> None:
    """The adjoint of a sum of exponentials is no float by itself, and has no name."""
    found = mc.grad("O[q] = sum[k](exp(S[q,k]) * V[k]) / sum[k](exp(S[q,k]))", save=[])
    names = {e.name for e in found.equations.equations} - {*found.gradients.values()}
    assert not any("/ sum" in found.equations.shown(found.equations.by_name[n].body) for n in names)
