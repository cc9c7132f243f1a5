"""Attention in pieces: partial states, returned by one kernel and merged by another.

A kernel that returns its output O and the log-sum-exp L of its logits returns all that is to be
known of its keys. `merge_states` of the library folds such states, and gives one again. So keys
can come in chunks, be shared by requests, or be kept in pieces, whatever program scores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

import pytest
import torch
from torch import Tensor

from monocomp import library
from tests.backends.running import exact, make_inputs, run
from tests.backends.tolerances import Bound, near

State: TypeAlias = tuple[Tensor, ...]  # O[b,h,q,e] and L[b,h,q]

# Causal attention of queries that come `offset` positions after the keys.
PART = """
param offset: int = 0

S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
O[b,h,q,e] = softmax[k if k <= q + offset](S[b,h,q,k]) * V[b,h,k,e]
L[b,h,q]   = logsumexp[k if k <= q + offset](S[b,h,q,k])
return O, L
"""
MERGE = library.load("merge_states")
BACKENDS = ("torch", "triton")
FAR = 1 << 20  # an offset from where all keys are seen


def tensors(q: int, k: int, b: int = 1, h: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values."""
    made = make_inputs(PART, {"b": b, "h": h, "q": q, "k": k, "d": 8, "e": 5})
    return made["Q"], made["K"], made["V"]


def part(backend: str, Q: Tensor, K: Tensor, V: Tensor, offset: int = FAR) -> State:
    """The state of some queries for some keys."""
    return run(backend, PART, {"Q": Q, "K": K, "V": V}, offset=offset)


def merged(backend: str, states: Iterable[State]) -> State:
    """The state for all keys."""
    outputs, logarithms = zip(*states, strict=True)
    inputs = {"OS": torch.stack(outputs), "LS": torch.stack(logarithms)}
    return run(backend, MERGE, inputs)


def check(backend: str, found: State, Q: Tensor, K: Tensor, V: Tensor, offset: int = FAR) -> None:
    """Is it the state that attention over all keys gives?"""
    near(backend, PART, {"Q": Q, "K": K, "V": V}, found, offset=offset)


def pieces(tensor: Tensor, bounds: Sequence[int]) -> list[Tensor]:
    """A tensor cut along its keys."""
    return [tensor[:, :, a:b] for a, b in pairwise(bounds)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_chunks_of_the_future_change_nothing(backend: str) -> None:
    """All their keys are filtered out, so their states are the unit: not one bit changes."""
    Q, K, V = tensors(20, 40)
    past = part(backend, Q, K[:, :, :20], V[:, :, :20], 0)
    future = part(backend, Q, K[:, :, 20:], V[:, :, 20:], -20)
    assert (future[0] == 0).all() and (future[1] == -torch.inf).all()
    alone, both = merged(backend, [past]), merged(backend, [past, future])
    assert all(map(torch.equal, alone, both))
    check(backend, both, Q, K, V, 0)


UNEVEN = (0, 1, 18, 18, 48, 53)  # the third piece is empty


@pytest.mark.parametrize("backend", BACKENDS)
def test_states_merge_in_any_order_and_grouping(backend: str) -> None:
    """Pieces of any lengths, also none. A merged state is a state like any other, so a piece
    can be added when it comes."""
    Q, K, V = tensors(7, 53)
    a, b, empty, c, d = (
        part(backend, Q, keys, values)
        for keys, values in zip(pieces(K, UNEVEN), pieces(V, UNEVEN), strict=True)
    )
    so_far = merged(backend, [a, b])
    for state in (empty, c, d):
        so_far = merged(backend, [so_far, state])
    check(backend, so_far, Q, K, V)
    halves = [merged(backend, [d, empty]), merged(backend, [c, b, a])]
    check(backend, merged(backend, halves), Q, K, V)
    for found in (empty, merged(backend, [empty, empty])):  # the unit, and no NaN
        assert (found[0] == 0).all() and (found[1] == -torch.inf).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_piece_whose_logits_are_far_larger(backend: str) -> None:
    """States hold logarithms, so weights of exp(128) overflow nothing."""
    Q, K, V = tensors(7, 40)
    Q[..., 0], K[..., 0] = 1.0, 0.0
    K[:, :, 20:, 0] = 128 * Q.shape[-1] ** 0.5
    cut = (0, 20, 40)
    states = [
        part(backend, Q, keys, values)
        for keys, values in zip(pieces(K, cut), pieces(V, cut), strict=True)
    ]
    found, wanted = merged(backend, states), exact(PART, {"Q": Q, "K": K, "V": V}, offset=FAR)
    for f, w in zip(found, wanted, strict=True):
        Bound(0.0, 3e-5).check(f, w)  # a logit of 128 is rounded by 8e-6
