"""Definitions that are saved by name: gradients are the same, and what is stored is not computed
again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp import terms as T
from monocomp.checking.random_inputs import random_inputs
from monocomp.errors import UsageError
from monocomp.gradients.gradient import GradientPrograms
from monocomp.gradients.stored_values import definitions_of
from monocomp.language.checker import check
from monocomp.translation.translator import translate
from tests.agreement import check_gradients, check_slopes
from tests.gradients.test_derived import LOGARITHM

ATTENTION = """
input Q[q,d], K[k,d], V[k,e]
S[q,k] = Q[q,d] * K[k,d] / sqrt(|d|)
P[q,k] = softmax[k if k <= q](S[q,k])
O[q,e] = P[q,k] * V[k,e]
return O
"""
# Rows of which all is masked, and logits of -inf.
MASKED = """
input Q[q,d], K[k,d], V[k,e], M[q,k], N[q]: int
S[q,k] = where(k < N[q], Q[q,d] * K[k,d] + M[q,k], -inf)
O[q,e] = softmax[k](S[q,k]) * V[k,e]
return O
"""
BIASED = """
S[q,k] = Q[q,d] * K[k,d] + M[q,k]
O[q,e] = softmax[k](S[q,k]) * V[k,e]
return O
"""
ALL = {
    "logits": (ATTENTION, ["O", "S", "L"]),
    "logits, not what they sum up to": (ATTENTION, ["S"]),
    "weights": (ATTENTION, ["O", "P", "L"]),
    "masked": (MASKED, ["O", "S", "L"]),
    "biased": (BIASED, ["O", "S", "L"]),
    "of two products": (library.load("mla"), ["O", "S", "L"]),
    "capped": (library.load("softcap"), ["O", "S", "L"]),
    "gathered": (library.load("paged_attention"), ["O", "S", "L"]),
    "a vocabulary's": (library.load("cross_entropy"), ["S", "L", "M"]),
    "of two models": (library.load("kl_divergence"), ["D", "S", "T", "L", "L_2"]),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ALL)
def test_gradients_are_the_same(name: str) -> None:
    text, save = ALL[name]
    found = mc.grad(text, save=save)
    check_slopes(text, save=save, elementwise=False)
    names = definitions_of(found.program).keys() & set(save)
    assert names and names <= found.saved.keys()
    assert {o.name for o in found.forward.declared.outputs} >= names
    assert all(c.ok for c in found.derivation.check())


def _sums(found: GradientPrograms) -> set[str]:
    """The indices that the equations of a gradient sum over."""
    terms = T.subterms(*(e.body for e in found.equations.equations))
    folds = [t for t in terms if t.op == "fold"]
    return {e for t in folds for e in t.attr.extents}


def test_what_is_saved_is_not_computed_again() -> None:
    """Attention's logits are sums over d, and nothing else is."""
    assert "d" not in _sums(mc.grad(ATTENTION, save=["O", "S", "L"]))
    assert "d" in _sums(mc.grad(ATTENTION, save=["O", "L"]))
    assert "d" not in _sums(mc.grad(ATTENTION, save=["O", "P", "L"]))


def test_what_is_not_read_is_not_saved() -> None:
    found = mc.grad("S[q,k] = Q[q,d] * K[k,d]\nO[q] = sum[k](S[q,k])\nreturn O", save=["S"])
    assert not found.saved and found.forward.declared.outputs == found.program.declared.outputs
    (choice,) = (c for c in found.choices if c.name == "S")
    assert str(choice).endswith(": computed anew, as the gradients do not read it")


ROUNDED = """
input Q[q,d], K[k,d], V[k,e]
S[q,k] = Q[q,d] * K[k,d]
O[q,e] = softmax[k](S[q,k]) * V[k,e]
return O, S{0}
"""


def test_logits_are_read_in_the_dtype_of_sums() -> None:
    """Logits that the program returns are rounded, unless it says otherwise."""
    assert "S" not in mc.grad(ROUNDED.format("")).saved
    with pytest.raises(UsageError, match="as it was summed: return S: accumulated"):
        mc.grad(ROUNDED.format(""), save=["S"])
    for how in (": float32", ": accumulated"):
        found = mc.grad(ROUNDED.format(how))
        assert "S" in found.saved and "exp(S[q,k] - L[q])" in str(found)


STATISTICS = """
input Q[q,d], K[k,d], V[k,e]
S[q,k] = Q[q,d] * K[k,d]
lse[q] = logsumexp[k if k <= q](S[q,k])
m[q]   = max[k if k <= q](S[q,k])
P[q,k] = softmax[k if k <= q](S[q,k])
O[q,e] = P[q,k] * V[k,e]
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("returned", ["O", "O, lse", "O, lse: accumulated", "lse, m, O"])
@pytest.mark.parametrize("save", [["lse"], ["O", "S", "lse"]])
def test_values_are_saved_by_the_names_of_the_program(returned: str, save: list[str]) -> None:
    """A logarithm that is returned in another dtype is stored beside it, in that of sums."""
    text = f"{STATISTICS}return {returned}"
    found = mc.grad(text, outputs=["O"], save=save)
    is_rounded = "lse" in returned and "accumulated" not in returned
    assert set(found.saved) == {"L" if is_rounded and name == "lse" else name for name in save}
    check_slopes(text, save=save, elementwise=False)


def test_what_cannot_be_saved_says_why() -> None:
    with pytest.raises(UsageError) as caught:
        mc.grad(f"{STATISTICS}return O", save=["O", "Q"])
    assert str(caught.value) == (
        "'Q' is an input, which gradients read as it is given\n"
        "  help: leave 'Q' out of what is saved"
    )
    with pytest.raises(UsageError, match=r"there is no value 'Lse' to save\n(.*\n)*.*'lse'"):
        mc.grad(f"{STATISTICS}return O", save=["Lse"])
    unread = mc.grad(f"{STATISTICS}return O", save=["O", "m"])
    (choice,) = (c for c in unread.choices if c.name == "m")
    assert not choice.is_saved and choice.reason == "as the gradients do not read it"
    assert "m" not in unread.saved


@pytest.mark.parametrize("text", [ROUNDED.format(""), LOGARITHM.format("")])
def test_gradients_beside_rounded_logits(text: str) -> None:
    """Large logits, or their logarithm, in bf16 are off by so much that weights would be twice as
    large, or half."""
    torch.manual_seed(0)
    shapes = {"Q": (64, 32), "K": (64, 32), "V": (64, 16)}
    inputs = {n: torch.randn(shape).bfloat16() for n, shape in shapes.items()}
    inputs["Q"][:, 0] = inputs["K"][:, 0] = 16  # in all logits: 256, which changes no weight
    given = [x.clone().requires_grad_() for x in inputs.values()]
    result, _ = mc.compile(text)(*given)
    cotangent = torch.randn_like(result)
    found = torch.autograd.grad(result, given, cotangent)
    wide = [x.double().requires_grad_() for x in inputs.values()]
    weights = torch.softmax(wide[0] @ wide[1].T, dim=-1)
    exact = torch.autograd.grad(weights @ wide[2], wide, cotangent.double())
    for x, y in zip(found, exact, strict=True):
        assert (x.double() - y).norm() <= 0.02 * y.norm()


# --- calls ------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("save", [["P", "L", "O"], ["S", "L", "O"], ["S"], []])
def test_calls(save: list[str]) -> None:
    """They keep what was asked for, and gradients have gradients."""
    kernel = mc.compile(ATTENTION, save=save)
    outputs = {*kernel.calls.forward(("Q", "K", "V")).outputs}
    assert outputs <= {"O", "L", *save} and {"S", "P"} & set(save) <= outputs
    generator = torch.Generator().manual_seed(0)
    query, *fixed = torch.randn(3, 3, 2, dtype=torch.float64, generator=generator)
    assert torch.autograd.gradgradcheck(
        lambda q: kernel(q, *fixed), query.requires_grad_(), fast_mode=True
    )


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", library.names())
def test_calls_compute_nothing_again(name: str) -> None:
    """A backward pass reads values that its call keeps, so that all of it is repeated."""
    calls = mc.compile(library.load(name)).calls
    floats = [n for n, i in calls.declared.inputs.items() if i.kind == "float"]
    forward = calls.forward(tuple(floats))
    results = (o for n, o in enumerate(forward.results) if n not in forward.constant)
    assert forward.backward(dict.fromkeys(floats, ""), tuple(results)).recompute is None


def test_copies_save_the_same() -> None:
    kernel = mc.compile(ATTENTION, save=["S", "L"])
    make, args = kernel.__reduce__()
    assert make(*args).save == ("S", "L")
    assert make(*args).calls.key == kernel.calls.key != mc.compile(ATTENTION).calls.key


ADDED = """S[i,k] = Q[i,d] * K[k,d] + M[i,k]
P[i,k] = softmax[k](S[i,k])
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("save", [[], ["S"], ["P"], ["S", "P"], ["S", "L"]])
@pytest.mark.parametrize(
    "use",
    [
        "O[i] = sum[k](P[i,k] * (1 - tanh(S[i,k]) ** 2)) + sum[k](exp(S[i,k]) * R[i,k])",
        "O[i] = -sum[k](P[i,k] * log(P[i,k]))",
        "O[i] = sum[k](P[i,k] * tanh(S[i,k]))",
        "O[i] = logsumexp[k](S[i,k]) - sum[k](P[i,k] * S[i,k])",
    ],
)
def test_masks_in_logits_that_are_saved(use: str, save: list[str]) -> None:
    """Rows of which a mask of -inf leaves some elements, or none, have the gradients that they have
    where nothing is asked for."""
    masks = np.zeros((3, 4))
    masks[0], masks[1, :2] = -np.inf, -np.inf
    random = np.random.default_rng(0)
    given = {"Q": random.normal(size=(3, 2)), "K": random.normal(size=(4, 2)), "M": masks}
    if "R[" in use:
        given["R"] = random.normal(size=(3, 4))
    check_slopes(f"{ADDED}{use}\nreturn O", given, save=save)


@pytest.mark.parametrize(
    "text",
    [
        "input B[k,j]\nO[i] = sum[k](softmax[k if F[k]](A[i,k]) * sum[l](A[i,l] - A[i,k]))",
        "input B[k,j]\nO[i,k] = sum[l](A[i,l] * max[k](A[i,k] * A[i,l])) * mean[..k](A[i,k])",
    ],
)
def test_definitions_of_what_is_read_read_large_values(text: str) -> None:
    """A sum over keys that is stored for each of them, and an output that is made of it."""
    inputs = random_inputs(translate(check(text)), {"i": 2, "k": 5, "j": 1}, dtype="float64")
    kernel = mc.compile(text, backend="torch")
    assert check_gradients(check(text), kernel, inputs, note="") == 2


def test_quotients_tell_what_is_divided() -> None:
    """A sum is read as what it is over another, of any sign. Where a row has no key both are 0, and
    nothing asks for that."""
    text = """A[q,k] = 1 + Q[q,d] * K[k,d] + (Q[q,d] * K[k,d]) ** 2 / 2
O[q,e] = sum[k if k < q](A[q,k] * V[k,e]) / sum[k if k < q](A[q,k])"""
    found = mc.grad(text)
    assert {*found.saved} == {"O", "M_3"}
    assert "sum[e](O[q,e] * dO[q,e])" in str(found) and "0.0" not in str(found)
    check_slopes(text)


def test_one_name_needs_no_list() -> None:
    text = "input Query[q,d], K[k,d], V[k,e]\nOut[q,e] = softmax[k](Query[q,d] * K[k,d]) * V[k,e]"
    one = mc.grad(text, "Query", outputs="Out", save="Out")
    assert str(one) == str(mc.grad(text, ["Query"], outputs=["Out"], save=["Out"]))
    assert mc.compile(text, save="Out").save == ("Out",)


def test_no_definition_has_the_name_of_a_saved_value() -> None:
    """A maximum called L leaves the normal form; the forward still defines it."""
    text = (
        "input Q[q,d], K[k,d], V[k,e]\nS[q,k] = Q[q,d] * K[k,d]\nL[q] = max[k](S[q,k])\n"
        "E[q,k] = exp(S[q,k] - L[q])\nO[q,e] = sum[k](E[q,k] * V[k,e]) / sum[k](E[q,k])"
    )
    found = mc.grad(text)
    assert list(found.saved) == ["L_2", "O"]
    assert found.saved.keys() <= {o.name for o in found.forward.declared.outputs}
