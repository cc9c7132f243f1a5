"""What only a GPU can show: emitted kernels against float64, with real matrix units.

The error of a kernel must not exceed that of eager torch in the same precision.
"""

from __future__ import annotations

import math

import pytest
import torch

import monocomp as mc
from monocomp import library
from tests.backends.library_cases import CASES

pytestmark = pytest.mark.gpu

ATTENDING = tuple(n for n, case in CASES.items() if case.thorough and case.is_attention)
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
LENGTHS = ((1, 1), (63, 64), (65, 129), (257, 1021))


@pytest.fixture(autouse=True)
def _first_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right with the first schedule; the search has a test of its own."""
    monkeypatch.setenv("MONOCOMP_TUNE", "0")


def inputs(name: str, q: int, k: int, d: int, dtype: torch.dtype, shift: float = 0.0) -> list:
    """Random tensors, each a view into NaN; `shift` is added to every logit."""
    generator = torch.Generator("cuda").manual_seed(q * 1009 + k)
    groups = 2 if name == "gqa" else 4

    def tensor(*shape: int) -> torch.Tensor:
        around = torch.full([n + 2 for n in shape], math.nan, device="cuda", dtype=dtype)
        view = around[tuple(slice(1, n + 1) for n in shape)]
        return view.copy_(torch.randn(shape, generator=generator, device="cuda"))

    made = [tensor(2, 4, q, d), tensor(2, groups, k, d), tensor(2, groups, k, d)]
    if shift:
        made[0][..., 0], made[1][..., 0] = 1.0, shift * math.sqrt(d)
    return [*made, torch.rand(4, device="cuda", dtype=dtype)] if name == "alibi" else made


def eager(name: str, dtype: torch.dtype, q, k, v, slope=None, window: int = 40) -> torch.Tensor:
    """The same in eager torch."""
    q, k, v = (x.to(dtype) for x in (q, k, v))
    if name == "gqa":
        k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    rows = torch.arange(q.shape[2], device="cuda")[:, None]
    columns = torch.arange(k.shape[2], device="cuda")
    if name == "softcap":
        logits = 30 * torch.tanh(logits / 30)
    if slope is not None:
        logits = logits - slope.to(dtype)[:, None, None] * (rows - columns)
    if name in ("causal", "sliding_window", "softcap", "alibi"):
        logits = logits.masked_fill(columns > rows, -math.inf)
    if name == "sliding_window":
        logits = logits.masked_fill(rows - columns >= window, -math.inf)
    weights = torch.softmax(logits, -1)
    return weights.nan_to_num(0.0) @ v  # a row without keys is 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ATTENDING)
def test_error_is_that_of_eager_torch(name: str, dtype: torch.dtype) -> None:
    """At most, over lengths, head sizes and shifted logits."""
    kernel = mc.compile(library.load(name), name=name)
    params = {"window": 40} if name == "sliding_window" else {}
    for (q, k), d, shift in zip(LENGTHS, (64, 40, 128, 64), (0.0, 0.0, -20.0, 20.0), strict=True):
        tensors = inputs(name, q, k, d, dtype, shift)
        found = kernel(*tensors, **params)
        wanted = eager(name, torch.float64, *tensors)
        allowed = (eager(name, dtype, *tensors) - wanted).abs().max()
        floor = 3e-6 if dtype == torch.float32 else 1e-3
        assert torch.isfinite(found).all()
        assert (found - wanted).abs().max() <= allowed + floor, (q, k, d, shift)


@pytest.mark.parametrize("d", [1, 16, 31, 96, 200, 256, 288])
def test_head_sizes(d: int) -> None:
    """Held whole up to 256, streamed beyond."""
    tensors = inputs("causal", 130, 130, d, torch.bfloat16)
    found = mc.compile(library.load("causal"))(*tensors)
    wanted = eager("causal", torch.float64, *tensors)
    allowed = (eager("causal", torch.bfloat16, *tensors) - wanted).abs().max()
    assert (found - wanted).abs().max() <= allowed + 1e-3


def test_the_same_bits_every_time_and_in_every_layout() -> None:
    """50 runs, and permuted and offset views of the same values."""
    kernel = mc.compile(library.load("causal"))
    tensors = [t.contiguous() for t in inputs("causal", 200, 200, 64, torch.bfloat16)]
    first = kernel(*tensors)
    for _ in range(50):
        assert torch.equal(kernel(*tensors), first)
    for layout in (
        lambda t: t.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0),
        lambda t: torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape),
    ):
        assert torch.equal(kernel(*map(layout, tensors)), first)


def test_offsets_beyond_32_bits() -> None:
    """A view whose rows lie 2**31 elements apart, most of which do not exist in memory."""
    kernel = mc.compile(library.load("attention"))
    q, k, v = (t.contiguous() for t in inputs("attention", 64, 40, 64, torch.float16))
    stride = (1 << 31) // 32  # 40 keys span more than 2**31 elements
    storage = torch.full((39 * stride + 64,), math.nan, dtype=torch.float16, device="cuda")
    spread = torch.as_strided(storage, (1, 1, 40, 64), (0, 0, stride, 1))
    spread.copy_(k[:1, :1])
    assert torch.equal(
        kernel(q[:1, :1], spread, v[:1, :1]), kernel(q[:1, :1], k[:1, :1], v[:1, :1])
    )


def test_memory_is_inputs_and_outputs() -> None:
    """Nothing of the size of the weights is ever there."""
    kernel = mc.compile(library.load("causal"))
    q, k, v = (torch.randn(1, 2, 8192, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    kernel(q, k, v)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = kernel(q, k, v)
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_allocated() - before <= result.nbytes + (1 << 20)


def test_huge_logits_and_nan() -> None:
    """Logits of 1e4 overflow nothing, and a NaN stays in its row."""
    kernel = mc.compile(library.load("attention"))
    q, k, v = (t.contiguous() for t in inputs("attention", 70, 90, 64, torch.float32))
    found = kernel(q * 1e3, k * 1e2, v)
    assert torch.isfinite(found).all()
    q[1, 2, 5, 0] = math.nan
    wrong = kernel(q, k, v).isnan().any(-1)
    assert wrong[1, 2, 5] and wrong.sum() == 1


def test_schedules_are_measured_and_remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """The second kernel object finds what the first has measured."""
    monkeypatch.setenv("MONOCOMP_TUNE", "1")
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(tmp_path))
    tensors = inputs("attention", 512, 512, 64, torch.bfloat16)
    mc.compile(library.load("attention"))(*tensors)
    again = mc.compile(library.load("attention"))
    monkeypatch.setattr(
        "monocomp.backends.triton.launch.TritonRunner.tune",
        lambda *_: pytest.fail("measured twice"),
    )
    again(*tensors)
