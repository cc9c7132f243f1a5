"""Programs that add large finite numbers to logits, as masks, beside the same in eager torch.

Such a mask over all of a row leaves the weights that the rounded logits have, and gradients of
these. So results and gradients are as near to those in float64 as eager torch's are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import torch
from torch import Tensor

import monocomp as mc
from monocomp.kernel import Kernel
from monocomp.language.checker import check as parsed
from tests.backends.running import scale_of

HEADS, GROUPS = 4, 2
# Of float32, bfloat16 and float16 the least finite numbers, and two that users write.
MASKS = {
    "1e4": -1e4,
    "1e9": -1e9,
    "float32": torch.finfo(torch.float32).min,
    "bfloat16": torch.finfo(torch.bfloat16).min,
    "float16": torch.finfo(torch.float16).min,
}
# Errors are root mean squares, over as many draws as give this many numbers: the largest of four is
# a matter of chance.
SAMPLE = 16
# An error may be larger than eager torch's by the order of sums, and the rounding of results, in
# units of the largest; and by chance: the root mean squares of two samples of n numbers differ by
# a part of 1 / sqrt(n), of which two are allowed.
RATIO = 1.05
FLOOR = {torch.float32: 1e-5, torch.bfloat16: 2**-8, torch.float16: 2**-10}


@dataclass(frozen=True)
class Case:
    """A program, and what it computes.

    Attributes:
        text: the program.
        eager: the same, of inputs by name.
        save: what its gradients are asked to read.
    """

    text: str
    eager: Callable[[Mapping[str, Tensor]], Tensor]
    save: tuple[str, ...] | None = None

    @property
    def inputs(self) -> list[str]:
        """Their names."""
        return list(parsed(self.text).inputs)

    @property
    def wrt(self) -> list[str]:
        """The inputs that get gradients."""
        return [n for n in self.inputs if n not in ("M", "N")]

    def kernel(self, backend: str) -> Kernel:
        """The program, compiled."""
        save = None if self.save is None else list(self.save)
        return mc.compile(self.text, backend=backend, save=save)


def _logits(x: Mapping[str, Tensor]) -> Tensor:
    keys = x["K"].repeat_interleave(len(x["Q"]) // len(x["K"]), 0)
    return x["Q"] @ keys.mT * x["Q"].shape[-1] ** -0.5


def _products(x: Mapping[str, Tensor]) -> Tensor:
    return x["Q"][:, :, None] * x["K"][:, None]


def _weighed(x: Mapping[str, Tensor], logits: Tensor) -> Tensor:
    values = x["V"].repeat_interleave(len(logits) // len(x["V"]), 0)
    return logits.softmax(-1).to(values.dtype) @ values


def _distance(x: Mapping[str, Tensor]) -> Tensor:
    """k - q."""
    i = torch.arange(x["V"].shape[-2], device=x["V"].device)
    return i[None] - i[:, None]


def _masked(x: Mapping[str, Tensor]) -> Tensor:
    return _weighed(x, _logits(x) + x["M"])


def _within(x: Mapping[str, Tensor], condition: Tensor) -> Tensor:
    return _weighed(x, (_logits(x) + x["M"]).masked_fill(~condition, -math.inf))


def _scaled(x: Mapping[str, Tensor]) -> Tensor:
    logits = x["Q"] @ x["K"].mT + x["M"]
    return _weighed(x, logits * x["Q"].shape[-1] ** -0.5)


def _with_sinks(x: Mapping[str, Tensor]) -> Tensor:
    logits = _logits(x) + x["M"]
    sinks = x["A"][:, None, None].expand(*logits.shape[:2], 1).to(logits.dtype)
    weights = torch.cat([logits, sinks], -1).softmax(-1)[..., :-1]
    return weights.to(x["V"].dtype) @ x["V"]


def _with_slopes(x: Mapping[str, Tensor]) -> Tensor:
    return _weighed(x, _logits(x) + x["A"][:, None, None] * _distance(x) + x["M"])


def _chosen(value: float) -> Callable[[Mapping[str, Tensor]], Tensor]:
    def eager(x: Mapping[str, Tensor]) -> Tensor:
        distance = _distance(x)
        rows = torch.arange(len(distance), device=distance.device)[:, None]
        is_kept = (distance <= 0) & (rows > 2)
        return _weighed(x, _logits(x).masked_fill(~is_kept, value))

    return eager


_INPUTS = "input Q[h,q,d], K[h,k,d], V[h,k,e], M[q,k]"
_S = "\nS[h,q,k] = Q[h,q,d] * K[h,k,d] / sqrt(|d|)\n"
_OF = " * V[h,k,e]\nreturn O"
_PLAIN = _INPUTS + _S + "O[h,q,e] = softmax[k](S[h,q,k] + M[q,k])" + _OF
CASES = {
    "plain": Case(_PLAIN, _masked),
    "logits that are read": Case(
        "input X[h,q,k], V[h,k,e], M[q,k]\nO[h,q,e] = softmax[k](X[h,q,k] + M[q,k])" + _OF,
        lambda x: _weighed(x, x["X"] + x["M"]),
    ),
    "scaled with the mask": Case(
        _INPUTS + "\nO[h,q,e] = softmax[k]((Q[h,q,d] * K[h,k,d] + M[q,k]) / sqrt(|d|))" + _OF,
        _scaled,
    ),
    "causal": Case(
        _INPUTS + _S + "O[h,q,e] = softmax[k if k <= q](S[h,q,k] + M[q,k])" + _OF,
        lambda x: _within(x, _distance(x) <= 0),
    ),
    "grouped heads": Case(
        "input Q[h,q,d], K[g,k,d], V[g,k,e], M[q,k]\n"
        "S[h,q,k] = Q[h,q,d] * K[h // (|h| // |g|), k, d] / sqrt(|d|)\n"
        "O[h,q,e] = softmax[k](S[h,q,k] + M[q,k]) * V[h // (|h| // |g|), k, e]\nreturn O",
        _masked,
    ),
    "learned sinks": Case(
        "input Q[h,q,d], K[h,k,d], V[h,k,e], M[q,k], A[h]"
        + _S
        + "T[h,q,k] = S[h,q,k] + M[q,k]\nZ[h,q] = exp(A[h]) + sum[k](exp(T[h,q,k]))\n"
        "O[h,q,e] = exp(T[h,q,k]) * V[h,k,e] / Z[h,q]\nreturn O",
        _with_sinks,
    ),
    "slopes": Case(
        "input Q[h,q,d], K[h,k,d], V[h,k,e], M[q,k], A[h]"
        + _S
        + "O[h,q,e] = softmax[k](S[h,q,k] + A[h] * (k - q) + M[q,k])"
        + _OF,
        _with_slopes,
    ),
    "logarithms of gates": Case(
        "input X[h,q,k], V[h,k,e], M[q,k]\n"
        "O[h,q,e] = log(sum[k](softmax[k](X[h,q,k] + M[q,k]) * sigmoid(V[h,k,e])))\nreturn O",
        lambda x: _weighed(x | {"V": x["V"].sigmoid()}, x["X"] + x["M"]).log(),
    ),
    "saved logits": Case(_PLAIN, _masked, ("O", "S", "L")),
    "saved softcap": Case(
        _INPUTS + _S + "T[h,q,k] = 2 * tanh(S[h,q,k] / 2) + M[q,k]\n"
        "O[h,q,e] = softmax[k](T[h,q,k])" + _OF,
        lambda x: _weighed(x, 2 * torch.tanh(_logits(x) / 2) + x["M"]),
        ("T",),
    ),
    "sigmoids": Case(
        _INPUTS + _S + "O[h,q,e] = softmax[k](sigmoid(S[h,q,k]) + M[q,k])" + _OF,
        lambda x: _weighed(x, _logits(x).sigmoid() + x["M"]),
    ),
    "weights of keys": Case(
        _INPUTS + ", A[h,k]" + _S + "T[h,q,k] = S[h,q,k] + log(sigmoid(A[h,k]))\n"
        "O[h,q,e] = softmax[k](T[h,q,k] + M[q,k])" + _OF,
        lambda x: _weighed(x, _logits(x) + x["A"].sigmoid().log()[:, None] + x["M"]),
    ),
    "exponentials": Case(
        _INPUTS + _S + "O[h,q,e] = softmax[k](exp(S[h,q,k] / 2) + M[q,k])" + _OF,
        lambda x: _weighed(x, torch.exp(_logits(x) / 2) + x["M"]),
    ),
    "softplus": Case(
        _INPUTS + _S + "O[h,q,e] = softmax[k](log(1 + exp(S[h,q,k])) + M[q,k])" + _OF,
        lambda x: _weighed(x, torch.nn.functional.softplus(_logits(x)) + x["M"]),
    ),
    "logarithms of sums": Case(
        _INPUTS + "\nO[h,q,e] = softmax[k](logsumexp[d](Q[h,q,d] * K[h,k,d]) + M[q,k])" + _OF,
        lambda x: _weighed(x, _products(x).logsumexp(-1) + x["M"]),
    ),
    "gates of logits": Case(
        _INPUTS + _S + "O[h,q,e] = softmax[k](S[h,q,k] / (1 + exp(-S[h,q,k])) + M[q,k])" + _OF,
        lambda x: _weighed(x, torch.nn.functional.silu(_logits(x)) + x["M"]),
    ),
    "weighted features": Case(
        _INPUTS + "\nW[h,q,k,d] = softmax[d](Q[h,q,d] * K[h,k,d])\n"
        "O[h,q,e] = softmax[k](W[h,q,k,d] * K[h,k,d] + M[q,k])" + _OF,
        lambda x: _weighed(x, (_products(x).softmax(-1) * x["K"][:, None]).sum(-1) + x["M"]),
    ),
    "nothing saved": Case(_PLAIN, _masked, ()),
    "logarithms by a name": Case(
        _INPUTS + _S + "T[h,q,k] = S[h,q,k] + M[q,k]\nL[h,q] = logsumexp[k](T[h,q,k])\n"
        "O[h,q,e] = exp(T[h,q,k] - L[h,q])" + _OF,
        _masked,
        ("O", "L"),
    ),
}
CONSTANTS = {
    str(value): Case(
        "input Q[h,q,d], K[h,k,d], V[h,k,e]"
        + _S
        + f"O[h,q,e] = softmax[k](where(k <= q and q > 2, S[h,q,k], {value}))"
        + _OF,
        _chosen(value),
    )
    for value in (-1e4, -1e9, MASKS["bfloat16"])
}


def inputs(
    case: Case, size: int, d: int, dtype: torch.dtype, device: str, draw: int = 0
) -> dict[str, Tensor]:
    """Random inputs by name, but for masks."""
    generator = torch.Generator().manual_seed(size + d + 1000 * draw)
    groups = GROUPS if "K[g" in case.text else HEADS
    shapes = {
        "Q": (HEADS, size, d),
        "K": (groups, size, d),
        "V": (groups, size, d),
        "X": (HEADS, size, size),
        "A": (HEADS, size) if "A[h,k]" in case.text else (HEADS,),
    }
    drawn = {n: torch.randn(s, generator=generator).to(device, dtype) for n, s in shapes.items()}
    return {n: x for n, x in drawn.items() if n in case.inputs}


def masks(size: int, value: float, dtype: torch.dtype, device: str) -> dict[str, Tensor]:
    """Over whole rows, parts of some, and a key of all."""
    rows = torch.zeros(size, size)
    rows[::3] = value
    rows[1, :2] = value
    rows[4, 3:] = value
    rows[:, 5] = value
    return {"M": rows.to(device, dtype)}


def _with_gradients(
    f: Callable[[Mapping[str, Tensor]], Tensor], given: Mapping[str, Tensor], wrt: Sequence[str]
) -> list[Tensor]:
    x = {n: t.detach().clone().requires_grad_(n in wrt) for n, t in given.items()}
    result = f(x)
    cotangent = torch.cos(torch.arange(result.numel(), device=result.device))
    cotangent = cotangent.reshape(result.shape).to(result.dtype)
    return [result.detach(), *torch.autograd.grad(result, [x[n] for n in wrt], cotangent)]


def _mean_square(x: Tensor, wanted: Tensor) -> float:
    """Return that of a difference: 0 for equal infinities and NaN, inf for those of one alone."""
    x, wanted = x.double(), wanted.double()
    is_same = (x == wanted) | (x.isnan() & wanted.isnan())
    difference = torch.where(is_same, 0.0, x - wanted)
    return float(difference.square().nan_to_num(math.inf).mean()) if x.numel() else 0.0


def check(
    case: Case,
    kernel: Kernel,
    draw: Callable[[int], Mapping[str, Tensor]],
    dtype: torch.dtype,
    added: Mapping[str, Tensor] = {},
) -> None:
    """A kernel's results and gradients are as near to those in float64 as eager torch's, of the
    inputs as they are or in float32, by which logits are rounded otherwise."""
    names = ("O", *case.wrt)
    counts = dict.fromkeys(names, 0)
    squares: dict[str, list[list[float]]] = {n: [] for n in names}
    scales = dict.fromkeys(names, 0.0)
    fewest = min(draw(0)[n].numel() for n in case.wrt)
    for n in range(-(-SAMPLE // fewest)):
        given = {n: x for n, x in {**draw(n), **added}.items() if n in case.inputs}
        exact = _with_gradients(case.eager, {n: x.double() for n, x in given.items()}, case.wrt)
        every = [
            _with_gradients(lambda x: kernel(**x), given, case.wrt),
            _with_gradients(case.eager, given, case.wrt),
            _with_gradients(case.eager, {n: x.float() for n, x in given.items()}, case.wrt),
        ]
        for name, x, *found in zip(names, exact, *every, strict=True):
            squares[name].append([_mean_square(f, x) for f in found])
            scales[name] = max(scales[name], scale_of(x))
            counts[name] += x.numel()
    for name, of_draws in squares.items():
        means = [sum(of_one) / len(of_one) for of_one in zip(*of_draws, strict=True)]
        error, *eager = map(math.sqrt, means)
        chance = 2 / math.sqrt(max(1, counts[name]))
        allowed = (RATIO + chance) * max(eager) + FLOOR[dtype] * scales[name]
        assert error <= allowed, f"{name}: error {error:.2e}, eager torch {max(eager):.2e}"


def check_masks(
    case: Case,
    kernel: Kernel,
    size: int,
    d: int,
    dtypes: Sequence[torch.dtype],
    device: str = "cpu",
    values: Sequence[str] = tuple(MASKS),
) -> None:
    """For all masks, in the dtype of the other inputs and in float32, as far as it holds them."""
    for dtype, name in product(dtypes, values):
        for of_mask in dict.fromkeys((dtype, torch.float32)):
            if abs(MASKS[name]) <= torch.finfo(of_mask).max:
                added = masks(size, MASKS[name], of_mask, device)
                drawn = partial(inputs, case, size, d, dtype, device)
                check(case, kernel, drawn, dtype, added)
