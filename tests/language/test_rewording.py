"""Lines in the notation of torch, einops, NumPy, C and LaTeX: the help shows them as they are
written here, and each of these lines is a program."""

from __future__ import annotations

import random
import re

import pytest

from monocomp.errors import MonocompError
from monocomp.language.checker import check
from monocomp.language.rewording import reword


def error_of(text: str) -> MonocompError:
    with pytest.raises(MonocompError) as caught:
        check(text)
    return caught.value


LINES = {
    "O[q] = sum(A[q,k])": "O[q] = sum[k](A[q,k])",
    "O[q,k] = softmax(S[q,k])": "O[q,k] = softmax[k](S[q,k])",
    "O[q,k] = softmax(S[q,k], k)": "O[q,k] = softmax[k](S[q,k])",
    "O[q,k] = softmax(S[q,k], -1)": "O[q,k] = softmax[k](S[q,k])",
    "O[q,k] = softmax[dim=-1](S[q,k])": "O[q,k] = softmax[k](S[q,k])",
    "O[q,k] = F.softmax(Q @ K.T, dim=-1)": "O[q,k] = softmax[k](Q[q,j] * K[k,j])",
    "O[q] = A[q,k].mean(dim=-1)": "O[q] = mean[k](A[q,k])",
    "O[i] = x.sum(dim=1)": "O[i] = sum[k](x[i,k])",
    "O[q,k] = cumsum(A[q,k], dim=1)": "O[q,k] = sum[..k](A[q,k])",
    "O[i] = max(x[i], 0)": "O[i] = maximum(x[i], 0)",
    "O[i] = max(A[i,j], axis=1)": "O[i] = max[j](A[i,j])",
    "O[i] = A[i,j] where j < i": "O[i] = sum[j if j < i](A[i,j])",
    "O[i] = sum(A[i,j] for j in range(n))": "O[i] = sum[j](A[i,j])",
    "O[i] = sum[j in 0..i](A[i,j])": "O[i] = sum[j if j <= i](A[i,j])",
    "O[i] = sum[j=0..i](A[i,j])": "O[i] = sum[j if j <= i](A[i,j])",
    "O[i] = sum[j <= i](A[i,j])": "O[i] = sum[j if j <= i](A[i,j])",
    "O[i] = sum[j | j <= i](A[i,j])": "O[i] = sum[j if j <= i](A[i,j])",
    "O[i] = sum[j where j <= i](A[i,j])": "O[i] = sum[j if j <= i](A[i,j])",
    "O[i] = sum[j if j <= i, j > 3](A[i,j])": "O[i] = sum[j if j <= i and j > 3](A[i,j])",
    "O[i] = sum[j; j <= i](A[i,j])": "O[i] = sum[j if j <= i](A[i,j])",
    "O[i] = sum[j] A[i,j]": "O[i] = sum[j](A[i,j])",
    "O[i] = sum(j)(A[i,j])": "O[i] = sum[j](A[i,j])",
    "O[i] = sum{j}(A[i,j])": "O[i] = sum[j](A[i,j])",
    "O[i] = \\sum_j A[i,j]": "O[i] = sum[j](A[i,j])",
    "O[i] = \\sum_{j} A[i,j]": "O[i] = sum[j](A[i,j])",
    "O[i] = sum(A[i,:])": "O[i] = sum[k](A[i,k])",
    "O[i,j] = A @ B": "O[i,j] = A[i,k] * B[k,j]",
    "O = A @ B": "O[i,j] = A[i,k] * B[k,j]",
    "O[b,i,j] = torch.bmm(A, B)": "O[b,i,j] = A[b,i,k] * B[b,k,j]",
    "O[i,j] = A[i,k] @ B[k,j]": "O[i,j] = A[i,k] * B[k,j]",
    "O[i,j] = A.T[i,j]": "O[i,j] = A[j,i]",
    "O[i,j] = A[i][j]": "O[i,j] = A[i,j]",
    "O[i] = A[i,:]": "O[i,k] = A[i,k]",
    "O[i] = A[i,0:3]": None,
    "O[b,i] = torch.einsum('bij,bj->bi', A, x)": "O[b,i] = A[b,i,j] * x[b,j]",
    "O[p,r] = einsum('ik,kj->ij', A, B)": "O[p,r] = A[p,k] * B[k,r]",
    "O[i,j] = rearrange(A, 'i j -> j i')": "O[i,j] = A[j,i]",
    "O[i] = reduce(A, 'i j -> i', 'max')": "O[i] = max[j](A[i,j])",
    "O[i] = np.exp(x[i])": "O[i] = exp(x[i])",
    "O[i] = torch.nn.functional.relu(x[i], inplace=True)": "O[i] = relu(x[i])",
    "O[i] = x[i].masked_fill(m[i], 0)": "O[i] = where(m[i], 0, x[i])",
    "O[i] = x[i] / sqrt(x.shape[-1])": "O[i] = x[i] / sqrt(|i|)",
    "O[i] = x[i] if x[i] > 0 else 0": "O[i] = where(x[i] > 0, x[i], 0)",
    "O[i] = m[i] > 0 ? x[i] : y[i]": "O[i] = where(m[i] > 0, x[i], y[i])",
    "O[q] = sum[k if k <= q & k > 3](A[q,k])": "O[q] = sum[k if k <= q and k > 3](A[q,k])",
    "O[q] = sum[k if k <= q && k > 3](A[q,k])": "O[q] = sum[k if k <= q and k > 3](A[q,k])",
    "O[q] = sum[k if k <= q | k > 3](A[q,k])": "O[q] = sum[k if k <= q or k > 3](A[q,k])",
    "O[q] = sum[k if k <= q || k > 3](A[q,k])": "O[q] = sum[k if k <= q or k > 3](A[q,k])",
    "O[q] = sum[k if !(k <= q)](A[q,k])": "O[q] = sum[k if not k <= q](A[q,k])",
    "O[q] = sum[k if ~m[q,k]](A[q,k])": "O[q] = sum[k if not m[q,k]](A[q,k])",
    "O[q] = sum[k if k => q](A[q,k])": "O[q] = sum[k if k >= q](A[q,k])",
    "O[q] = sum[k if k <> q](A[q,k])": "O[q] = sum[k if k != q](A[q,k])",
    "O[i] = x[i]^2": "O[i] = x[i] ** 2",
    "O[i] = (x[i] + 1)^-y[i]": "O[i] = (x[i] + 1) ** -y[i]",
    "O[i] = where(m[i], x[i], float('-inf'))": "O[i] = where(m[i], x[i], -inf)",
    "O[i] = where(m[i], x[i], -math.inf)": "O[i] = where(m[i], x[i], -inf)",
    "O[i] := x[i]": "O[i] = x[i]",
    "O[i] <- x[i]": "O[i] = x[i]",
    "O(i) = x(i)": "O[i] = x[i]",
    "let O[i] = x[i]": "O[i] = x[i]",
    "O[i]: float = x[i]": "O[i] = x[i]",
    "O[i] = exp(x[i]": "O[i] = exp(x[i])",
    "O[i] = x[i": "O[i] = x[i]",
    "O[i] = exp x[i]": "O[i] = exp(x[i])",
    "O[i] = 2x[i]": "O[i] = 2 * x[i]",
    "O[i] = x[i] · y[i]": "O[i] = x[i] * y[i]",
    "O[i] = log1p(x[i])": "O[i] = log(1 + x[i])",
    "O[i] = exp(x[i] +\n    2 y[i])": "O[i] = exp(x[i] + 2 * y[i])",
    "O[i] = x[i] +\n    2 y[i]": "O[i] = x[i] + 2 * y[i]",
    "P[i] = x[i] > 0\nO[i] = x[i] && y[i]  # both": "O[i] = x[i] and y[i]",
    # Matrices without indices take those of the left, or i and j.
    "O = softmax(Q @ K.T / sqrt(d), dim=-1) @ V": (
        "O[i,j] = softmax[k](Q[i,m] * K[k,m] / sqrt(d)) * V[k,j], with param d: float"
    ),
    "O[q,e] = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(K.size(-1)), dim=-1) @ V": (
        "O[q,e] = softmax[k](Q[q,j] * K[k,j] / sqrt(|j|)) * V[k,e]"
    ),
    "O[i,j] = A B": "O[i,j] = A[i,k] * B[k,j]",
    **dict.fromkeys(
        (
            "O[q,e] = softmax(Q K^T / sqrt(d)) V",
            "O[q,e] = \\mathrm{softmax}\\left(\\frac{Q K^\\top}{\\sqrt{d}}\\right) V",
            "O[q,e] = \\text{softmax}(Q K^{T} / \\sqrt{d}) V",
        ),
        "O[q,e] = softmax[k](Q[q,j] * K[k,j] / sqrt(d)) * V[k,e], with param d: float",
    ),
    "O = F.scaled_dot_product_attention(Q, K, V)": (
        "O[i,j] = softmax[k](Q[i,d] * K[k,d] / sqrt(|d|)) * V[k,j]"
    ),
    "O[q,e] = einsum('qk,ke->qe', softmax(einsum('qd,kd->qk', Q, K), dim=-1), V)": (
        "O[q,e] = softmax[k](Q[q,d] * K[k,d]) * V[k,e]"
    ),
    "O[q,e] = S[q,k].softmax(-1) @ V": "O[q,e] = softmax[k](S[q,k]) * V[k,e]",
    "O[b,q,e] = einsum('bqk,bke->bqe', softmax[k](S[b,q,k]), V)": (
        "O[b,q,e] = softmax[k](S[b,q,k]) * V[b,k,e]"
    ),
    "O[i,j] = A[i,k] @ K.T": "O[i,j] = A[i,k] * K[j,k]",
    "O = einsum(Q, K, 'b q d, b k d -> b q k')": "O[b,q,k] = Q[b,q,d] * K[b,k,d]",
    "O[i] = einsum('ij,j', A, x)": "O[i] = A[i,j] * x[j]",
    "P = softmax(S, dim=-1)": "P[k] = softmax[k](S[k])",
    "O[i] = sum(A[i,j] * B[j], dim=1)": "O[i] = sum[j](A[i,j] * B[j])",
    "O[i] = sum(A[i,j,k], dim=(1, 2))": "O[i] = sum[j, k](A[i,j,k])",
    "O[i] = torch.amax(A[i,j], dim=-1)": "O[i] = max[j](A[i,j])",
    "O[i] = A[i,j].max(dim=1).values": "O[i] = max[j](A[i,j])",
    "O[i] = max(A[i,j], dim=1)[0]": "O[i] = max[j](A[i,j])",
    "O[i] = max[x[i], y[i]]": "O[i] = maximum(x[i], y[i])",
    "O[i] = clamp(x[i], min=0)": "O[i] = maximum(x[i], 0)",
    "O[i] = torch.clamp(x[i], 0, max=1)": "O[i] = minimum(maximum(x[i], 0), 1)",
    "O[i] = x[i].to(torch.float32).exp().float()": "O[i] = exp(x[i])",
    "O[q] = x[q] y[q] z[q]": "O[q] = x[q] * y[q] * z[q]",
    "O[q] = (x[q] + 1)(y[q] - 1)": "O[q] = (x[q] + 1) * (y[q] - 1)",
    # LaTeX: subscripts, fractions, bounds that name the whole extent
    "O_{qe} = \\sum_k P_{qk} V_{ke}": "O[q,e] = sum[k](P[q,k] * V[k,e])",
    "O_i = \\sum_{k=1}^{n} A_{ik} x_k": "O[i] = sum[k](A[i,k] * x[k])",
    "O[q] = \\sum_{k=1}^{q} A[q,k]": "O[q] = sum[k if k <= q](A[q,k])",
    "O[i] = sum[j=0..n](A[i,j])": "O[i] = sum[j](A[i,j])",
    "O[q,e] = \\frac{\\sum_k \\exp(S[q,k]) V[k,e]}{\\sum_k \\exp(S[q,k])}": (
        "O[q,e] = sum[k](exp(S[q,k]) * V[k,e]) / sum[k](exp(S[q,k]))"
    ),
    "O_{i} = \\frac{e^{x_i}}{\\sum_j e^{x_j}}": "O[i] = exp(x[i]) / sum[j](exp(x[j]))",
    "P_{qk} = \\mathrm{softmax}_k\\left(\\frac{Q_{qd} K_{kd}}{\\sqrt{d}}\\right)": (
        "P[q,k] = softmax[k](Q[q,d] * K[k,d] / sqrt(|d|))"
    ),
    "L = -\\sum_i y_i \\log p_i": "L = -sum[i](y[i] * log(p[i]))",
    "O[i] = x[i]² + √y[i]": "O[i] = x[i] ** 2 + sqrt(y[i])",
    "y_i = \\max(0, x_i)": "y[i] = maximum(0, x[i])",
    # Modules, triangles, new dimensions, what stands beside a call
    "O[i] = nn.LogSoftmax(dim=-1)(x[i])": "O[i] = log_softmax[i](x[i])",
    "O[i] = nn.ReLU()(x[i])": "O[i] = relu(x[i])",
    "O[i] = relu(x)[i]": "O[i] = relu(x[i])",
    "O[q,k] = softmax(S[q,k] + torch.tril(mask))": (
        "O[q,k] = softmax[k](S[q,k] + where(k <= q, mask[q,k], 0))"
    ),
    "O[i] = torch.where(x[i] > 0, x[i], torch.zeros_like(x[i]))": (
        "O[i] = where(x[i] > 0, x[i], 0)"
    ),
    "O[i] = F.layer_norm(x[i], (64,))": (
        "O[i] = (x[i] - mean[i](x[i])) / sqrt(var[i](x[i]) + 1e-5)"
    ),
    "O[i,j] = torch.outer(x, y)": "O[i,j] = x[i] * y[j]",
    "O[i,j] = x[i,None] * y[None,j]": "O[i,j] = x[i] * y[j]",
    "O[q,k] = S[q,k] / S[q,k].sum(-1)": "O[q,k] = S[q,k] / sum[k](S[q,k])",
    "O[q,e] = softmax_k(Q[q,d] K[k,d]) V[k,e]": "O[q,e] = softmax[k](Q[q,d] * K[k,d]) * V[k,e]",
    "O[q,e] = softmax(S[q,k]) V[k,e]": "O[q,e] = softmax[k](S[q,k]) * V[k,e]",
    "O[i] = sum j (A[i,j])": "O[i] = sum[j](A[i,j])",
    "O[i] = max(A[i,j] over j)": "O[i] = max[j](A[i,j])",
    "O[i] += A[i,j]": "O[i] = sum[j](A[i,j])",
    # Filters in other words
    **dict.fromkeys(
        (
            "O[q] = sum[k](A[q,k]) for k <= q",
            "O[q] = sum[k](A[q,k]) when k <= q",
            "O[q] = sum[k](A[q,k]) such that k <= q",
            "O[q] = sum[k](A[q,k]), k <= q",
            "O[q] = sum[k](A[q,k])[k <= q]",
            "O[q] = sum[k with k <= q](A[q,k])",
            "O[q] = sum[k s.t. k <= q](A[q,k])",
            "O[q] = sum[k: k <= q](A[q,k])",
            "O[q] = sum[k if: k <= q](A[q,k])",
            "O[q] = sum[if k <= q](A[q,k])",
            "O[q] = sum[k if k <== q](A[q,k])",
            "O[q] = sum[k if k \\le q](A[q,k])",
            "O[q] = \\sum_{k \\leq q} A[q,k]",
            "O[q] = \\sum_{k=0}^{q} A[q,k]",
        ),
        "O[q] = sum[k if k <= q](A[q,k])",
    ),
    "O[q] = sum[k](A[q,k], where=k <= q)": "O[q] = sum[k if k <= q](A[q,k])",
    "O[q] = np.sum(A[q,k], axis=1, where=m[q,k])": "O[q] = sum[k if m[q,k]](A[q,k])",
    "O[q] = sum[k if m[q,k] == True](A[q,k])": "O[q] = sum[k if m[q,k]](A[q,k])",
    "O[q] = sum[k if m[q,k] is False](A[q,k])": "O[q] = sum[k if not m[q,k]](A[q,k])",
    "O[q] = sum[k, k <= q and k > 3](A[q,k])": "O[q] = sum[k if k <= q and k > 3](A[q,k])",
    "O[q] = sum[k if k <= q AND k > 3](A[q,k])": "O[q] = sum[k if k <= q and k > 3](A[q,k])",
    "O[q] = sum[k if 0 =< k =< q](A[q,k])": "O[q] = sum[k if 0 <= k and k <= q](A[q,k])",
    "O[q] = sum[3 <= k < q](A[q,k])": "O[q] = sum[k if 3 <= k and k < q](A[q,k])",
    "O[q] = sum[k if k in range(q)](A[q,k])": "O[q] = sum[k if k < q](A[q,k])",
    **dict.fromkeys(
        (
            "O[q] = sum[k if k = q](A[q,k])",
            "O[q] = sum[k if k === q](A[q,k])",
            "O[q] = sum[k if k is q](A[q,k])",
        ),
        "O[q] = sum[k if k == q](A[q,k])",
    ),
    **dict.fromkeys(
        (
            "O[q] = sum[k if k =! q](A[q,k])",
            "O[q] = sum[k if k /= q](A[q,k])",
            "O[q] = sum[k if k ~= q](A[q,k])",
            "O[q] = sum[k if k !== q](A[q,k])",
        ),
        "O[q] = sum[k if k != q](A[q,k])",
    ),
    "O[i] = sum j A[i,j]": "O[i] = sum[j](A[i,j])",
    "O[i] = ∑_j A[i,j]": "O[i] = sum[j](A[i,j])",
    "O[i] = Σ_{j} A[i,j]": "O[i] = sum[j](A[i,j])",
    "O[i] = exp{x[i]}": "O[i] = exp(x[i])",
    **dict.fromkeys(
        (
            "O[b q] = A[b,q]",
            "O[b][q] = A[b,q]",
            "O[,b,q] = A[b,q]",
            "O[b,,q] = A[b,q]",
            "O[b,q], = A[b,q]",
            "O[b,q] = A[b q]",
            "O[b,q] = A[b,q].",
        ),
        "O[b,q] = A[b,q]",
    ),
    # What is meant cannot be told, or is wrong otherwise too.
    "O[i] = sum(A[i,j] for j in range(1, i))": "O[i] = sum[j if 1 <= j and j < i](A[i,j])",
    "O[i] = A[i,k] * B[k,i] // a sum over k": None,
    "O[i] += x[i]": None,
    "O = scaled_dot_product_attention(Q, K, V, is_causal=True)": None,
    "O = tensordot(A, B, dims=1)": None,
    "O[q] = sum[k](A[q,k]) where j < q": None,
    "O[q] = sum[k if k <= q xor k > 3](A[q,k])": None,
    "O[i] = x[i].foo(3)": None,
    "O[q] = max[k](A[q,k]), B[q,k]": None,
    "O[i] = F.gelu(x[i], approximate='tanh')": None,
    "O[i] = sum(A[i,j], dim=1, weights=w)": None,
    "O[i] = sotfplus(x[i])": None,
    "O[q,e] = A sqrt( )": None,
}


@pytest.mark.parametrize("text", LINES)
def test_the_help_shows_the_line(text: str) -> None:
    line, error = LINES[text], error_of(text)
    if line is None:
        assert error.help is None or not re.match(r"write \w+(\[[\w,]*\])? = ", error.help)
        return
    assert error.help == f"write {line}"
    line, _, declared = line.partition(", with ")
    check(f"{declared}\n{line}")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("input A[i,j,]", "input A[i,j]"),
        ("input A(i,j), x(j)", "input A[i,j], x[j]"),
        ("inputs A[i,j], x[j]", "input A[i,j], x[j]"),
        ("input A[i,j]: bfloat16, x[j]: float", "input A[i,j], x[j]: float"),
        ("input A: Tensor[i,j], x: torch.Tensor[j]", "input A[i,j], x[j]"),
        ("input float A[i,j]", "input A[i,j]"),
    ],
)
def test_declarations_of_inputs(wrong: str, right: str) -> None:
    assert error_of(f"{wrong}\nO[i] = A[i,j] * x[j]").help == f"write {right}"


def test_an_extent_is_declared() -> None:
    for wrong in ("index i = 10", "index i in range(10)", "index i: 10"):
        assert error_of(f"{wrong}\nO[i] = exp(i)").help == "write index i < 10"


def test_functions_of_python() -> None:
    for text in ("f = lambda x: x * 2", "def f(x): return x * 2", "def f(x):\n    return x * 2"):
        assert error_of(f"{text}\nO[i] = f(x[i])").help == "write def f(x) = x * 2"


def test_a_parameter_keeps_its_default() -> None:
    assert error_of("param w = 3\nO[i] = w * x[i]").help == "write param w: int = 3"
    assert error_of("param w = 3.5\nO[i] = w * x[i]").help == "write param w: float = 3.5"


def test_a_result_has_no_brackets() -> None:
    assert error_of("O[q] = x[q]\nL[q] = O[q]\nreturn O[q], L[q]").help == "write return O, L"
    assert error_of("O[q] = x[q]\nreturn O,").help == "write return O"


def test_the_place_is_that_of_the_mistake() -> None:
    """Of a program with two mistakes the first is shown, with its own line."""
    error = error_of("P[i] = 2x[i]\nO[i] = y[i]^2")
    assert (error.line, error.help) == (1, "write P[i] = 2 * x[i]")


def test_any_text_is_answered() -> None:
    """Lines that are broken in any way are read or not; and what is proposed is a program."""
    words = [re.findall(r"\w+|\*\*|->|\S|\s", line) for line in LINES]
    pool = [word for line in words for word in line]
    draw = random.Random(0)
    for _ in range(1500):
        line = list(draw.choice(words))
        for _ in range(draw.randint(1, 4)):
            line[draw.randrange(len(line))] = draw.choice(pool)
        reword("".join(line))
    for text in ("(" * 500, "O = " + "-" * 390 + "x", "O = " + "(" * 60 + "x[i]" + ")" * 60):
        reword(text)
