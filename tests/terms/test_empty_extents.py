"""Extents of 0: folds over them admit nothing."""

from __future__ import annotations

import pytest
import torch

import monocomp as mc
from monocomp import terms as T
from monocomp.language.checker import check
from monocomp.terms import Term
from monocomp.translation.translator import translate

HEAD = """\
monoid M(v, m) = unit (0, 1), combine (v * m' + v', m * m')
input X[i], S[i,k], R[i,j]
"""


def body(text: str, sizes: dict[str, int] | None = None) -> Term:
    """Return the right-hand side of a program of one line, for known sizes."""
    (equation,) = translate(check(text), sizes).equations
    return equation.body


@pytest.mark.parametrize(
    ("whole", "left"),
    [
        ("X[i] * prod[k](S[i,k])", "X[i]"),
        ("minimum(X[i], min[k](S[i,k]))", "minimum(X[i], inf)"),
        (
            "X[i] + max[j](R[i,j] + sum[k](S[i,k]))",
            "X[i] + max[j](R[i,j] + sum[k if k < k](S[i,k]))",
        ),
        ("X[i] * M[j, k](S[i,k], R[i,j]).m", "X[i] * M[j, k if k < k](S[i,k], R[i,j]).m"),
        ("X[i] + |k|", "X[i]"),
    ],
)
def test_folds_admit_nothing(whole: str, left: str) -> None:
    wanted = body(f"{HEAD}A[i] = {left}")
    assert body(f"{HEAD}index k < 0\nA[i] = {whole}") is wanted
    assert body(f"{HEAD}A[i] = {whole}", {"k": 0}) is wanted
    assert body(f"{HEAD}A[i] = {whole}", {"k": 1}) is not wanted


def test_equations_without_a_text_admit_nothing() -> None:
    """The equations of a gradient come from no text: their folds are emptied as they stand."""
    gradient = mc.grad("A[i] = logsumexp[k](S[i,k])").equations.at({"k": 0})
    folds = [t for e in gradient.equations for t in T.subterms(e.body) if t.op == "fold"]
    assert all(t.args[0] is T.FALSE for t in folds if "k" in t.attr.extents)


def test_a_declared_extent_of_0_compiles() -> None:
    kernel = mc.compile(HEAD + "index k < 0\nA[i] = X[i] + sum[k](S[i,k]) + sum[j](R[i,j])")
    x, s, r = torch.ones(3), torch.ones(3, 0), torch.ones(3, 2)
    assert kernel(X=x, S=s, R=r).tolist() == [3.0] * 3
