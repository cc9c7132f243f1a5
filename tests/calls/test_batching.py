"""A program for a batch of calls computes what the calls do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import monocomp as mc
from monocomp import library
from monocomp.calls.batching import batched
from monocomp.checking.random_inputs import random_inputs
from monocomp.language.checker import check
from monocomp.translation.translator import translate

PROGRAMS = {
    "attention": "input Q[q,d], K[k,d], V[k,e]\nO[q,e] = softmax[k](Q[q,d] * K[k,d]) * V[k,e]",
    "definitions": "input n[i], X[i,k]\nM[i] = max[k](X[i,k])\nO[i] = sum[k](X[i,k] - M[i]) * n[i]",
    "given": "input X[i,k], L[i] = logsumexp[k](X[i,k])\nO[i] = sum[k](exp(X[i,k] - L[i]))",
    "prefix": "H[t] = Affine[..t](A[t], U[t]).u",
    "shared": "input X[i], Y[j]\nO[i] = X[i] ** 2\nZ = sum[j](Y[j])\nreturn O, Z",
}


def results(text: str, inputs: dict[str, Any]) -> tuple[Any, ...]:
    found = mc.evaluate(text, inputs)
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call(name: str) -> None:
    """All inputs are of the batch, or only the first one is."""
    program = translate(check(PROGRAMS[name]))
    calls = [random_inputs(program, {}, dtype="float64", seed=n) for n in range(3)]
    names = [*program.declared.inputs]
    for own in [names, names[:1]] if name != "given" else [names]:
        of_each = [{**calls[0], **{n: c[n] for n in own}} for c in calls]
        inputs = {**calls[0], **{n: np.stack([c[n] for c in calls]) for n in own}}
        many = batched(program, own)
        found = results(many.text(), inputs)
        wanted = zip(*(results(PROGRAMS[name], c) for c in of_each), strict=True)
        assert mc.compile(many.text()).program.name is None
        for one, each, e in zip(found, wanted, many.outputs, strict=True):
            is_batch = len(e.indices) > np.ndim(each[0])
            np.testing.assert_allclose(one, np.stack(each) if is_batch else each[0], rtol=1e-12)


def test_text() -> None:
    """What depends on nothing of a batch is computed once; names that are there are not taken."""
    many = batched(translate(check(PROGRAMS["definitions"])), ["X"])
    assert many.lines() == [
        "M[n_2,i] = max[k](X[n_2,i,k])",
        "O[n_2,i] = n[i] * sum[k](X[n_2,i,k] - M[n_2,i])",
    ]
    of_params = batched(translate(check(library.load("softcap"))), ["cap"])
    assert of_params.text().startswith("input Q[b,h,q,d]\n") and "cap[n]" in of_params.text()
