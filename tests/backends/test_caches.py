"""Caches of keys and values: in pages, rolling, latent, and in 8 bits with scales.

What a cache holds besides a request's keys, be it NaN or an entry of a table that names no page,
is never read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from tests.backends.interpreted import FLOATS_OF_8_BITS as FP8
from tests.backends.running import BLOCK, DISTINCT, exact, run
from tests.backends.tolerances import ALONE, Bound, agree

NAN = float("nan")
E4M3, E5M2 = FP8


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def only(backend: str, text: str, inputs: Mapping[str, Tensor], **params: float) -> Tensor:
    """The only output."""
    (found,) = run(backend, text, inputs, **params)
    return found


# --- pages --------------------------------------------------------------------------------


def in_pages(
    keys: Tensor, size: int, lengths: Tensor, seed: int = 0, spoilt: float = NAN
) -> tuple[Tensor, Tensor]:
    """Keys [b, g, k, d] in shuffled pages [p, s, g, d], and the table. Pages and slots beyond the
    lengths are spoilt, and entries of the table that are not needed lead nowhere."""
    batch, heads, length, width = keys.shape
    count = -(-length // size)
    pages = torch.full((batch * count + 3, size, heads, width), spoilt, dtype=keys.dtype)
    generator = torch.Generator().manual_seed(seed)
    table = torch.randperm(len(pages), generator=generator)[: batch * count].view(batch, count)
    for b, n in enumerate(lengths.tolist()):
        for k in range(n):
            pages[table[b, k // size], k % size] = keys[b, :, k]
        table[b, -(-n // size) :] = torch.tensor([-1, 10**6])[torch.arange(count) % 2][
            -(-n // size) :
        ]
    return pages, table.to(torch.int32)


def paged_inputs(
    size: int, rows: int, dtype: torch.dtype, given: Sequence[int] = ()
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The same requests twice: in pages, and one after the other."""
    lengths = torch.tensor(given or [max(40, size + 9), rows, size])
    count, most = len(lengths), int(lengths.max())
    plain = {
        "Q": normal(count, 4, rows, 8, dtype=dtype),
        "K": normal(count, 2, most, 8, dtype=dtype, seed=1),
        "V": normal(count, 2, most, 5, dtype=dtype, seed=2),
        "length": lengths,
    }
    paged = dict(plain)
    paged["K"], paged["table"] = in_pages(plain["K"], size, lengths)
    paged["V"], _ = in_pages(plain["V"], size, lengths)
    return paged, plain


@pytest.mark.one_in(7)
@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("size", [5, 8, 16, 24, 48, 64, 128, 256])
def test_pages(size: int, rows: int, backend: str) -> None:
    """Of any size, in decoding and in chunked prefill, as if the keys were contiguous."""
    paged, plain = paged_inputs(size, rows, torch.float32)
    found = only(backend, library.load("paged_attention"), paged)
    contiguous = """
        input Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e], length[b]: int
        G[h]       = h // (|h| // |g|)
        S[b,h,q,k] = Q[b,h,q,d] * K[b,G[h],k,d] / sqrt(|d|)
        O[b,h,q,e] = softmax[k if k <= q + length[b] - |q|](S[b,h,q,k]) * V[b,G[h],k,e]
        """
    assert torch.equal(found, *agree(backend, contiguous, plain))
    lengths = (1, BLOCK - 1, BLOCK, BLOCK + 1, 31, 47, 61, 4 * BLOCK, 97, 113)
    agree(
        backend, library.load("paged_attention"), paged_inputs(size, 1, torch.float32, lengths)[0]
    )


# Where a stream begins, and the number that is known to divide it.
BEGINS = {
    "24": 24,
    "32": 32,
    "16 * start[b]": 16,
    "minimum(48 * start[b], 32)": 16,
    "start[b] + 32": 1,
    "start[b]": 1,
}


@pytest.mark.one_in(7)
@pytest.mark.parametrize("begin", BEGINS)
@pytest.mark.parametrize("size", [5, 16, 48, 64])
def test_multiples_that_pages_are_read_from(size: int, begin: str) -> None:
    """A number that divides what a stream begins with tells whether blocks lie in pages."""
    text = library.load("paged_attention")
    text = text.replace("length[b]: int", "length[b]: int, start[b]: int")
    text = text.replace("softmax[k if k <= q", f"softmax[k if k >= {begin} and k <= q")
    source = mc.compile(text, name="paged").source()
    known = f"(size_s % BLOCK_K == 0) & ({BEGINS[begin]} % BLOCK_K == 0)"
    assert source.count(f"if {known}:") == ("moved_k" in source) == (BEGINS[begin] > 1)
    paged, _ = paged_inputs(size, 1, torch.float32, (33, 31, 79, 97))
    paged["start"] = torch.tensor([1, 0, 3, 2])
    agree("triton", text, paged)


def test_one_element_for_a_block() -> None:
    """Where a filter may leave blocks out, what it leaves out is not read instead."""
    text = """
        input Q[q,d], K[k,d], V[k,e], scale[n]: float
        S[q,k] = Q[q,d] * K[k,d] * scale[k // 32]
        O[q,e] = softmax[k if k <= q + 70](S[q,k]) * V[k,e] * scale[k // 32]
        """
    masked = text.replace("k <= q + 70", "k % 64 < 32")
    one = "scale_ptr + tl.cast(first_k // 32, tl.int64) * stride_scale_n"
    inputs = {"Q": normal(5, 8), "K": normal(100, 8, seed=1), "V": normal(100, 5, seed=2)}
    for program, spoilt, holds in ((text, [3], True), (masked, [1, 3], False)):
        assert (one in mc.compile(program, name="scaled").source()) == holds
        inputs["scale"] = 1 + normal(4, seed=3).abs()
        inputs["scale"][spoilt] = NAN
        (found,) = agree("triton", program, inputs)
        assert found.isfinite().all()


# --- rolling ------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("slots", [16, 21])
def test_rolling_cache(slots: int, rows: int, backend: str) -> None:
    """The last keys, in whichever slot; NaN in slots that are empty or out of the window."""
    lengths = torch.tensor([rows, 11, slots, 53])
    window = slots + 1 - rows - 2  # two slots hold what no query sees any more
    rings = {n: torch.full((4, 2, slots, 8), NAN) for n in "KV"}
    for b, length in enumerate(lengths.tolist()):
        for position in range(max(0, length - rows - window + 1), length):
            for n, seed in (("K", 1), ("V", 2)):
                rings[n][b, :, position % slots] = normal(2, 8, seed=2 * position + seed)
    inputs = {"Q": normal(4, 4, rows, 8, seed=3), **rings, "length": lengths}
    agree(backend, library.load("rolling_cache"), inputs, window=window)


# --- 8 bits -------------------------------------------------------------------------------

# What has a scale of its own, and how the program reads it; a block has 16 keys.
SCALES = {
    "tensor": ((), "sk", "sv"),
    "head": ((2,), "sk[G[h]]", "sv[G[h]]"),
    "key": ((3, 2, 37), "sk[b,G[h],k]", "sv[b,G[h],k]"),
    "block": ((3, 2, 3), "sk[b,G[h], k // 16]", "sv[b,G[h], k // 16]"),
}


def with_scales(of: str, kind: str) -> str:
    """Attention over a cache of kind `float` or `int`, with scales."""
    shape, key, value = SCALES[of]
    dims = {0: "", 1: "[g]", 3: "[b,g,k]" if of == "key" else "[b,g,x]"}[len(shape)]
    scales = f"sk{dims}: float, sv{dims}: float"
    return f"""
        input Q[b,h,q,d], K[b,g,k,d]: {kind}, V[b,g,k,e]: {kind}, {scales}, length[b]: int
        G[h]       = h // (|h| // |g|)
        S[b,h,q,k] = Q[b,h,q,d] * (K[b,G[h],k,d] * {key}) / sqrt(|d|)
        O[b,h,q,e] = softmax[k if k < length[b]](S[b,h,q,k]) * (V[b,G[h],k,e] * {value})
        """


def scaled_inputs(of: str, dtype: torch.dtype, of_keys: torch.dtype) -> dict[str, Tensor]:
    """Requests of lengths 37, 5 and 0, whose scales beyond the length are NaN where they can be."""
    shape = SCALES[of][0]
    lengths = torch.tensor([37, 5, 0])
    made = {"Q": normal(3, 4, 5, 16, dtype=dtype)}
    for seed, name in enumerate("KV", 1):
        x = normal(3, 2, 37, 16 if name == "K" else 24, seed=seed)
        if of_keys == torch.int8:
            made[name] = (40 * x).round().clamp(-128, 127).to(torch.int8)
        else:
            made[name] = x.to(of_keys)
    small = 1 / 40 if of_keys == torch.int8 else 1.0
    for seed, name in enumerate(("sk", "sv"), 3):
        made[name] = (small * (0.5 + normal(*shape, seed=seed).abs())).to(dtype)
    if of == "key":
        beyond = (torch.arange(37) >= lengths[:, None, None]).expand(3, 2, 37)
        made |= {n: made[n].masked_fill(beyond, NAN) for n in ("sk", "sv")}
        if of_keys != torch.int8:
            made |= {
                n: made[n].float().masked_fill(beyond[..., None], NAN).to(of_keys) for n in "KV"
            }
    return {**made, "length": lengths}


@pytest.mark.one_in(7)
@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=["fp16", "fp32"])
@pytest.mark.parametrize("of_keys", [torch.int8, *FP8], ids=["int8", "e4m3", "e5m2"])
@pytest.mark.parametrize("of", SCALES)
def test_scales(of: str, of_keys: torch.dtype, dtype: torch.dtype, backend: str) -> None:
    """Results are rounded once: eager torch converts the cache before it multiplies."""
    text = with_scales(of, "int" if of_keys == torch.int8 else "float")
    made = scaled_inputs(of, dtype, of_keys)
    found = only(backend, text, made)
    (wanted,) = exact(text, made)
    assert found.dtype == dtype
    (Bound(0.0, 2**-11) if dtype == torch.float16 else ALONE[backend]).check(found, wanted)
    agree("numpy", text, made)


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_products_of_8_bits(backend: str) -> None:
    """Two tiles of inputs are multiplied as they are, also e4m3 and e5m2: that is exact."""
    text = "L[q] = max[k](Q[q,d] * K[k,d])\nreturn L: float32"
    for of_queries in FP8:
        for of_keys in FP8:
            made = {"Q": normal(20, 16).to(of_queries), "K": normal(37, 16, seed=1).to(of_keys)}
            agree(backend, text, made)


def test_results_have_more_bits() -> None:
    """Floats of 8 bits do not decide the outputs' dtype; alone they give bfloat16."""
    made = {n: normal(5, 16, seed=s).to(E4M3) for s, n in enumerate("QKV")}
    text = "O[q,e] = softmax[k](Q[q,d] * K[k,d]) * V[k,e]"
    assert only("torch", text, made).dtype == torch.bfloat16
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert only("torch", text, {**made, "Q": made["Q"].to(dtype)}).dtype == dtype


def test_nan_of_8_bits_counts() -> None:
    """And so do infinities, which e5m2 has."""
    text = "O[q,e] = softmax[k](Q[q,d] * K[k,d]) * V[k,e]"
    made = {n: normal(3, 16, seed=s).to(E5M2) for s, n in enumerate("KV")} | {"Q": normal(3, 16)}
    made["V"].view(torch.uint8)[0, 0] = 0x7C
    assert (only("torch", text, made)[:, 0] == torch.inf).all()  # the interpreter has 65533
    made["K"].view(torch.uint8)[1, 2] = 0x7F
    assert only("torch", text, made).isnan().all()
