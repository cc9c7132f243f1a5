"""Quotients of exponentials, and their relatives: they neither overflow nor become NaN."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.reference.oracle import evaluate

RELATIVES = [
    "(exp(2*A[i])-1)/(exp(2*A[i])+1)",
    "(1-exp(-2*A[i]))/(1+exp(-2*A[i]))",
    "(exp(A[i])-exp(-A[i]))/(exp(A[i])+exp(-A[i]))",
    "exp(A[i])/(1+exp(A[i]))",
    "1/(1+exp(-A[i]))",
    "1-1/(1+exp(A[i]))",
    "exp(-A[i])/(1+exp(-A[i]))**2",
    "exp(A[i])/(1+exp(A[i]))**2",
    "2/(exp(A[i])+exp(-A[i]))",
    "4/(exp(A[i])+exp(-A[i]))**2",
    "1-((exp(2*A[i])-1)/(exp(2*A[i])+1))**2",
    "log(1+exp(A[i]))",
    "log(1+exp(-A[i]))+A[i]",
    "log(exp(A[i])+exp(-A[i]))",
    "A[i]*exp(A[i])/(1+exp(A[i]))",
    "A[i]/(1+exp(-A[i]))",
    "(exp(A[i])-1)/(exp(A[i])+1)",
    "2/(1+exp(-2*A[i]))-1",
    "1-2/(exp(2*A[i])+1)",
    "(exp(4*A[i])-1)/(exp(4*A[i])+2*exp(2*A[i])+1)",
    "(exp(A[i])+1)/(exp(A[i])+3)",
    "(2*exp(A[i])-5)/(3*exp(A[i])+7)",
    "exp(2*A[i])/(exp(2*A[i])+exp(A[i])+1)",
    "(exp(A[i])-exp(B[i]))/(exp(A[i])+exp(B[i]))",
    "exp(A[i])/(exp(A[i])+exp(B[i]))",
    "exp(A[i]-B[i])/(1+exp(A[i]-B[i]))",
    "sqrt(exp(2*A[i])/(1+exp(2*A[i])))",
    "(exp(A[i])-1)**3/(exp(A[i])+1)**3",
    "A[i]*tanh(log(1+exp(A[i])))",
    "0.5*(1+(exp(A[i])-1)/(exp(A[i])+1))",
    "1/(exp(A[i])+2+exp(-A[i]))",
    "log(1+exp(A[i]))-log(1+exp(-A[i]))",
    "log((1+exp(A[i]))/(1+exp(-A[i])))",
    "(exp(A[i])+exp(-A[i]))/(exp(2*A[i])+1)*exp(A[i])",
    "exp(A[i])*(1/(1+exp(A[i])))",
    "1/(1+exp(A[i]))-1/(1+exp(-A[i]))",
    "exp(-A[i]**2)/(exp(-A[i]**2)+1)",
    "1/(1+2**A[i])",
    "(3**A[i]-1)/(3**A[i]+1)",
]
A = [1000, -1000, 1000, -1000, 0, 1, -1, 40, -40, 700, -710, 0.5]
B = [1000, -1000, -1000, 1000, 0, 2, 1, -40, 40, -700, 710, 3]


@pytest.mark.parametrize("text", RELATIVES)
def test_far_from_zero(text: str) -> None:
    text = f"O[i] = {text}"
    inputs = {"A": np.array(A)} | ({"B": np.array(B, float)} if "B[i]" in text else {})
    wanted = evaluate(text, inputs)
    for dtype, relative, absolute in ((torch.float64, 1e-9, 1e-12), (torch.float32, 2e-4, 1e-6)):
        tensors = {n: torch.from_numpy(a).to(dtype) for n, a in inputs.items()}
        found = mc.compile(text, backend="torch")(**tensors).double().numpy()
        np.testing.assert_allclose(found, wanted, relative, absolute)
