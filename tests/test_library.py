"""The programs that come with monocomp: found by name, right, and said where from."""

from __future__ import annotations

import numpy as np
import pytest

import monocomp as mc
from monocomp import library
from monocomp.language.checker import check
from monocomp.random_inputs import random_inputs
from monocomp.reference.oracle import evaluate

NAMES = [
    "alibi",
    "attention",
    "causal",
    "gqa",
    "lazy_attention",
    "logsumexp",
    "naive_attention",
    "safe_attention",
    "sliding_window",
    "softcap",
    "softmax",
]


def softmax(X, kept=None):
    weights = np.exp(X - X.max(-1, keepdims=True))
    if kept is not None:
        weights = weights * kept
    return weights / weights.sum(-1, keepdims=True)


def logits(Q, K):
    return np.einsum("bhqd,bhkd->bhqk", Q, K) / np.sqrt(Q.shape[-1])


def attend(S, V, kept=None):
    return np.einsum("bhqk,bhke->bhqe", softmax(S, kept), V)


def positions(Q, K):
    return np.arange(Q.shape[2])[:, None], np.arange(K.shape[2])[None, :]


def attention(Q, K, V):
    return attend(logits(Q, K), V)


def causal(Q, K, V):
    q, k = positions(Q, K)
    return attend(logits(Q, K), V, k <= q)


def gqa(Q, K, V):
    K, V = (np.repeat(x, Q.shape[1] // K.shape[1], axis=1) for x in (K, V))
    return attention(Q, K, V)


def sliding_window(Q, K, V, window):
    q, k = positions(Q, K)
    return attend(logits(Q, K), V, (k <= q) & (q - k < window))


def softcap(Q, K, V, cap):
    q, k = positions(Q, K)
    return attend(cap * np.tanh(logits(Q, K) / cap), V, k <= q)


def alibi(Q, K, V, slope):
    q, k = positions(Q, K)
    return attend(logits(Q, K) - slope[:, None, None] * (q - k), V, k <= q)


def logsumexp(X):
    return np.log(np.exp(X).sum(-1))


FORMULAS = {
    "alibi": alibi,
    "attention": attention,
    "causal": causal,
    "gqa": gqa,
    "lazy_attention": attention,
    "logsumexp": logsumexp,
    "naive_attention": attention,
    "safe_attention": attention,
    "sliding_window": sliding_window,
    "softcap": softcap,
    "softmax": softmax,
}
PARAMS = {"sliding_window": {"window": 3}, "softcap": {"cap": 1.5}}


def test_names() -> None:
    assert list(library.names()) == NAMES
    assert mc.library is library


@pytest.mark.parametrize("name", NAMES)
def test_program_means_what_it_says(name: str) -> None:
    """The oracle's result is that of the formula, written in NumPy."""
    program = check(library.load(name), name)
    params = PARAMS.get(name, {})
    assert set(params) == set(program.params)
    inputs = random_inputs(program, {}, dtype="float64", seed=7)
    expected = FORMULAS[name](**inputs, **params)
    np.testing.assert_allclose(evaluate(program, inputs, **params), expected, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_program_says_what_it_is_and_where_from(name: str) -> None:
    text = library.load(name)
    assert text.endswith("\n") and not text.endswith("\n\n")
    lines = text.splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert lines[0].startswith("# ") and lines[0].endswith(".")
    assert library.about(name) == lines[0][2:-1]
    comment = "\n".join(line for line in lines[1:] if line.startswith("# "))
    assert "19" in comment or "20" in comment, "no year of a paper"


def test_unknown_name() -> None:
    with pytest.raises(mc.errors.UsageError) as caught:
        library.load("casual")
    assert str(caught.value) == (
        "UsageError: the library has no program 'casual'\n"
        f"  programs: {', '.join(NAMES)}\n"
        "  help: did you mean 'causal'?"
    )


@pytest.mark.parametrize("name", ["../library/causal", "causal.mc", "", "__init__"])
def test_names_are_not_paths(name: str) -> None:
    with pytest.raises(mc.errors.UsageError):
        library.load(name)
