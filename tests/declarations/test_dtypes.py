"""Which inputs decide dtypes: side inputs in float32 beside matrices in bfloat16."""

from __future__ import annotations

import pytest
import torch

import monocomp as mc
from monocomp.checking.random_inputs import random_inputs

SIDE = {
    "alibi": ("slope",),
    "cosine_attention": ("scale",),
    "fp8_attention": ("SQ", "SK", "SV"),
    "fp8_cache": ("sk", "sv"),
    "int8_cache": ("SK", "SV"),
    "laplace_attention": ("Q", "K"),  # no product: their differences are summed
    "learned_sink": ("sink",),
    "rms_norm": ("A", "B"),
    "t5": ("bias",),
}
DIFFERENTIABLE = (
    "alibi",
    "cosine_attention",
    "int8_cache",
    "laplace_attention",
    "learned_sink",
    "t5",
)

# What decides the dtype of each output.
RULE = [
    ("O[q,e] = softmax[k](Q[q,d] * K[k,d] + B[q,k]) * V[k,e]", {"O": "QKV"}),
    ("O[q,e] = (softmax[k](Q[q,d] * K[k,d]) * M[q,k]) * V[k,e]", {"O": "QKV"}),
    ("O[q,e] = softmax[k](Q[q,d] * K[k,d]) * g[k] * V[k,e]", {"O": "QKV"}),
    ("O[q,e] = softmax[k](Q[q,d] * K[k,d]) * G[k,e] * V[k,e]", {"O": "QKGV"}),
    ("O[q,e] = sigmoid(G[q,e]) * (softmax[k](Q[q,d] * K[k,d]) * V[k,e])", {"O": "QKV"}),
    ("O[q,e] = softmax[k](B[q,k]) * V[k,e]", {"O": "V"}),
    ("O[q] = softmax[k](Q[q,d] * K[k,d]) * V[k]", {"O": "QKV"}),
    ("O[q,k] = exp(Q[q,d] - m[q]) * exp(K[k,d])", {"O": "QK"}),
    ("O[q,k] = Q[q,d] * (K[k,d] + R[k - q + |k|,d])", {"O": "QKR"}),
    ("O[q,j] = Q[q,d] * K[q - j,d]", {"O": "QK"}),
    ("O[q,k] = sum[d]((Q[q,d] - K[k,d]) ** 2)", {"O": "QK"}),
    (
        "O[t,p] = sum[s if s <= t](C[t,n] * B[s,n] * exp(sum[u if u <= s](a[u])) * X[s,p])",
        {"O": "CBX"},
    ),
    ("O[i] = sum[k](X[i,k] + b[k])", {"O": "Xb"}),
    ("O[i] = max[k](X[i,k]) * s[i]", {"O": "Xs"}),
    (
        "S[q,k] = Q[q,d] * K[k,d] + B[q,k]\nM[q] = max[k](B[q,k])\nreturn S, M",
        {"S": "QK", "M": "B"},
    ),
]


@pytest.mark.parametrize(("program", "like"), RULE)
def test_the_inputs_that_contractions_multiply_decide_dtypes(
    program: str, like: dict[str, str]
) -> None:
    if "q - j" in program:
        program = f"index j < 2\n{program}"
    declared = mc.compile(program).declared
    assert {o.name: {*o.like} for o in declared.outputs} == {n: {*v} for n, v in like.items()}
    assert {*declared.deciding} | {*declared.side} == {*declared.inputs}


@pytest.mark.parametrize("name", mc.library.names())
def test_side_inputs_of_the_library(name: str) -> None:
    declared = mc.compile(mc.library.load(name)).declared
    floats = {n for n, i in declared.inputs.items() if i.kind == "float"}
    assert declared.side == SIDE.get(name, ())
    assert {*declared.deciding} == floats - {*declared.side}


def _inputs(name: str, side: torch.dtype) -> dict[str, torch.Tensor]:
    kernel = mc.compile(mc.library.load(name))
    arrays = random_inputs(kernel.equations, {}, dtype="float32", seed=0, params={})
    inputs = {n: torch.as_tensor(a) for n, a in arrays.items()}
    for n in kernel.declared.deciding:
        inputs[n] = inputs[n].to(torch.bfloat16)
    for n in kernel.declared.side:
        inputs[n] = inputs[n].to(torch.bfloat16).to(side)
    return inputs


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", SIDE)
@pytest.mark.parametrize("side", [torch.float32, torch.float64])
def test_results_have_the_dtype_of_matrices_and_gradients_their_own(
    name: str, side: torch.dtype
) -> None:
    kernel = mc.compile(mc.library.load(name), backend="torch")
    inputs, usual = _inputs(name, side), _inputs(name, torch.bfloat16)
    wrt = [n for n, t in inputs.items() if t.is_floating_point()]
    results = []
    for given in (inputs, usual):
        leaves = {
            n: t.requires_grad_(n in wrt and name in DIFFERENTIABLE) for n, t in given.items()
        }
        result = kernel(**leaves)
        assert result.dtype is torch.bfloat16
        assert kernel.operator(*leaves.values()).dtype is torch.bfloat16
        results.append(result.detach())
        if name in DIFFERENTIABLE:
            result.float().sum().backward()
            assert {n: leaves[n].grad.dtype for n in wrt} == {n: leaves[n].dtype for n in wrt}
    # The same numbers in another dtype: nothing is computed otherwise.
    assert torch.equal(*results)


def test_an_output_without_contraction_has_its_own_inputs_dtype() -> None:
    merge = mc.compile(mc.library.load("merge_states"), backend="torch")
    parts = torch.randn(3, 1, 2, 5, 8, dtype=torch.bfloat16)
    merged, logarithm = merge(OS=parts, LS=torch.randn(3, 1, 2, 5))
    assert (merged.dtype, logarithm.dtype) == (torch.bfloat16, torch.float32)


def test_gradients_as_a_program_have_the_dtypes_of_inputs() -> None:
    gradient = mc.compile(mc.grad(mc.library.load("alibi")), backend="torch")
    shapes = {"b": 1, "h": 2, "q": 5, "k": 5, "d": 4, "e": 4}
    inputs = {
        n: torch.randn([shapes[d] for d in i.dims], dtype=torch.bfloat16)
        for n, i in gradient.declared.inputs.items()
    }
    inputs |= {"slope": inputs["slope"].float(), "L": inputs["L"].float()}
    names = [o.name for o in gradient.declared.outputs]
    dtypes = dict(zip(names, (t.dtype for t in gradient(**inputs)), strict=True))
    narrow = dict.fromkeys(("dQ", "dK", "dV"), torch.bfloat16)
    assert dtypes == {**narrow, "dslope": torch.float32}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["alibi", "int8_cache", "merge_states", "t5"])
def test_files_are_the_same_with_side_inputs_in_float32(name: str) -> None:
    program = mc.library.load(name)
    kernel = mc.compile(program)
    side = kernel.declared.side or ("LS",)
    usual = {n: "bf16" for n, i in kernel.declared.inputs.items() if i.kind == "float"}
    sizes = {"q": 4096, "k": 4096, "d": 128, "e": 128}
    sizes = {n: size for n, size in sizes.items() if n in kernel.declared.extent_of}
    for derived in (kernel, mc.grad(program, extents=sizes)):
        texts = [
            derived.source(target="cuda:90", dtype=dtypes, extents=sizes, minimal=True)
            for dtypes in (usual, {**usual, **dict.fromkeys(side, "fp32")})
        ]
        assert texts[0] == texts[1]


def test_a_given_input_has_the_dtype_of_its_definition() -> None:
    """It decides nothing by itself: what it is computed from does."""
    text = "input Y[k]\ninput D = sum[k](Y[k] * max[k](Y[k]))\nO = log(D)"
    y = torch.rand(4, dtype=torch.float64)
    assert mc.compile(text)(Y=y, D=(y * y.max()).sum()).dtype is torch.float64
