"""Every library program on every backend, against the oracle.

Lengths are 1, one less and one more than a block, a block, and primes; logits are standard
normal, shifted by -20 and 20, and huge. Inputs are views into larger buffers of NaN, so a
read past a tensor's end shows; outputs hold NaN before. Tolerances count in units of what
eager torch loses at the same precision.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from monocomp import library
from monocomp.oracle import evaluate
from tests.backends.running import BACKENDS, BLOCK, exact, largest_error, make_inputs, run, scale_of

ATTENDING = tuple(n for n in library.names() if n not in ("softmax", "logsumexp"))
LENGTHS = ((1, 1), (BLOCK - 1, BLOCK), (BLOCK, BLOCK + 1), (37, 23), (23, 61))
# Rounding of float32 sums over some tens of elements; alibi's exponents are larger.
FLOAT32 = 3e-6


def extents(name: str, q: int, k: int, d: int = 24, e: int = 20) -> dict[str, int]:
    """Sizes for a program of the library."""
    if name in ("softmax", "logsumexp"):
        return {"i": q, "k": k}
    sizes = {"b": 2, "h": 4, "q": q, "k": k, "d": d, "e": e}
    return sizes | ({"g": 2} if name == "gqa" else {})


def params(name: str) -> dict[str, float]:
    """Parameters that matter at small sizes."""
    return {"window": 9} if name == "sliding_window" else {}


def in_nan(tensor: torch.Tensor) -> torch.Tensor:
    """The same values as a strided view, surrounded by NaN."""
    around = torch.full([n + 3 for n in tensor.shape], float("nan"), dtype=tensor.dtype)
    view = around[tuple(slice(1, n + 1) for n in tensor.shape)]
    view.copy_(tensor)
    return view


def agree(
    backend: str, name: str, inputs: Mapping[str, torch.Tensor], tolerance: float = FLOAT32
) -> None:
    """The backend's results are the oracle's, to a tolerance relative to their size."""
    text = library.load(name)
    found = run(backend, text, inputs, name=name, **params(name))
    for got, wanted in zip(found, exact(text, inputs, **params(name)), strict=True):
        assert largest_error(got, wanted) <= tolerance * max(1.0, scale_of(wanted))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", library.names())
def test_lengths(name: str, backend: str) -> None:
    """Blocks that fit, stick out, and hold one element."""
    for seed, (q, k) in enumerate(LENGTHS):
        inputs = make_inputs(library.load(name), extents(name, q, k), seed=seed)
        agree(backend, name, {n: in_nan(t) for n, t in inputs.items()})


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", library.names())
def test_shifted_logits(name: str, backend: str) -> None:
    """A key that is scored 0 by mistake shows when all logits are far from 0."""
    for shift in (-20.0, 20.0, 1e4):
        inputs = make_inputs(library.load(name), extents(name, 19, 37), seed=7)
        if "X" in inputs:
            inputs["X"] = inputs["X"] + shift
        else:  # the first dimension of the dot product adds the shift to every logit
            root = inputs["Q"].shape[-1] ** 0.5
            inputs["Q"][..., 0], inputs["K"][..., 0] = 1.0, shift * root
        # At 1e4 a float32 logit is known to 1e-3.
        agree(backend, name, inputs, FLOAT32 if abs(shift) < 100 else 5e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", library.names())
def test_low_precision_on_torch(name: str, dtype: torch.dtype) -> None:
    """The error is at most that of rounding the result: sums are taken in float32."""
    text = library.load(name)
    inputs = make_inputs(text, extents(name, 33, 47), dtype, seed=3)
    found = run("torch", text, inputs, **params(name))
    for got, wanted in zip(found, exact(text, inputs, **params(name)), strict=True):
        rounding = largest_error(wanted.to(dtype), wanted)
        assert largest_error(got, wanted) <= rounding + 1e-4 * max(1.0, scale_of(wanted))


@pytest.mark.parametrize("name", ["attention", "causal", "softcap"])
def test_half_precision_in_the_interpreter(name: str) -> None:
    """Emitted source with float16 operands is no worse than eager torch in float16."""
    text = library.load(name)
    inputs = make_inputs(text, extents(name, 33, 47), torch.float16, seed=3)
    (found,) = run("triton", text, inputs, name=name)
    (wanted,) = exact(text, inputs)
    logits = (inputs["Q"] @ inputs["K"].transpose(-1, -2)) / inputs["Q"].shape[-1] ** 0.5
    if name == "softcap":
        logits = 30 * torch.tanh(logits / 30)
    if name != "attention":
        rows, columns = torch.arange(33)[:, None], torch.arange(47)
        logits = logits.masked_fill(columns > rows, float("-inf"))
    eager = torch.softmax(logits, -1) @ inputs["V"]
    assert largest_error(found, wanted) <= largest_error(eager, wanted)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["causal", "sliding_window", "alibi", "softcap"])
def test_keys_that_no_row_admits(name: str, backend: str) -> None:
    """NaN there changes nothing."""
    text = library.load(name)
    inputs = make_inputs(text, extents(name, 21, 70), seed=5)
    clean = run(backend, text, inputs, name=name, **params(name))
    for tensor in ("K", "V"):
        inputs[tensor] = inputs[tensor].clone()
        inputs[tensor][:, :, 21:] = float("nan")
    for a, b in zip(run(backend, text, inputs, name=name, **params(name)), clean, strict=True):
        assert torch.equal(a, b)


VARLEN = """
input len[b]: int
O[b,q,e] = softmax[k if k < len[b]](Q[b,q,d] * K[b,k,d]) * V[b,k,e]
L[b,q]   = logsumexp[k if k < len[b]](Q[b,q,d] * K[b,k,d])
return O, L
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_empty_rows(backend: str) -> None:
    """An aggregate over nothing is the unit, whatever stands in the padding."""
    inputs = make_inputs(VARLEN, {"b": 4, "q": 18, "k": 35, "d": 8, "e": 5}, seed=2)
    inputs["len"] = torch.tensor([0, 1, 17, 35])
    for b, length in enumerate(inputs["len"]):
        inputs["K"][b, length:] = float("nan")
        inputs["V"][b, length:] = float("nan")
    found = run(backend, VARLEN, inputs)
    assert (found[0][0] == 0).all() and (found[1][0] == -torch.inf).all()
    for got, wanted in zip(found, exact(VARLEN, inputs), strict=True):
        assert largest_error(got, wanted) <= FLOAT32 * max(1.0, scale_of(wanted))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("empty", ["q", "k", "b"])
def test_length_zero(backend: str, empty: str) -> None:
    """No rows, no keys, no batch."""
    sizes = extents("causal", 5, 6) | {empty: 0}
    shapes = {"Q": "bhqd", "K": "bhkd", "V": "bhke"}
    inputs = {n: torch.zeros([sizes[i] for i in dims]) for n, dims in shapes.items()}
    (found,) = run(backend, library.load("causal"), inputs, name="causal")
    assert found.shape == tuple(sizes[i] for i in "bhqe")
    assert (found == 0).all()


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_layouts_give_equal_results(backend: str) -> None:
    """Permuted, sliced, offset and expanded tensors of equal values."""
    inputs = make_inputs(library.load("causal"), extents("causal", 20, 33), seed=9)
    inputs["K"] = inputs["K"][:, :1].expand(-1, 4, -1, -1)
    (plain,) = run(backend, library.load("causal"), {n: t.contiguous() for n, t in inputs.items()})
    layouts = {
        "permuted": lambda t: t.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0),
        "sliced": in_nan,
        "offset": lambda t: torch.cat([torch.zeros(1), t.flatten()])[1:].view(t.shape),
        "as it is": lambda t: t,
    }
    for layout in layouts.values():
        (found,) = run(backend, library.load("causal"), {n: layout(t) for n, t in inputs.items()})
        if backend == "triton":
            assert torch.equal(found, plain)
        else:  # the CPU's matrix products sum in another order for another layout
            assert largest_error(found, plain) <= FLOAT32


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_reaches_its_rows_only(backend: str) -> None:
    """A NaN in an input that counts is not hidden, and spreads no further."""
    inputs = make_inputs(library.load("attention"), extents("attention", 20, 33), seed=4)
    inputs["Q"][1, 2, 7, 3] = float("nan")
    (found,) = run(backend, library.load("attention"), inputs, name="attention")
    wrong = found.isnan().any(-1)
    assert wrong[1, 2, 7] and wrong.sum() == 1


def test_head_sizes() -> None:
    """Any head size up to 256 and beyond, equal or not, in the emitted source."""
    for d, e in ((1, 1), (3, 40), (96, 17), (256, 256), (300, 290)):
        inputs = make_inputs(
            library.load("causal"), extents("causal", 18, 19, d, e) | {"b": 1, "h": 1}
        )
        (found,) = run("triton", library.load("causal"), inputs, name="causal")
        (wanted,) = exact(library.load("causal"), inputs)
        assert largest_error(found, wanted) <= FLOAT32 * max(1.0, scale_of(wanted))


def test_the_oracle_is_right_here() -> None:
    """One program against torch, so that this file does not rest on the oracle alone."""
    inputs = make_inputs(library.load("causal"), extents("causal", 20, 33), torch.float64)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        inputs["Q"], inputs["K"], inputs["V"], is_causal=True
    )
    found = torch.as_tensor(evaluate(library.load("causal"), inputs))
    assert largest_error(found, wanted) < 1e-12
