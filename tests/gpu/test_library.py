"""Every library program on the GPU, all its outputs, in three dtypes.

Lengths stick out of blocks of 128 by one, lack one, or are primes; logits are standard normal,
shifted by -20 and 20, and huge. They share a compiled kernel, as it depends on lengths only by
whether they are multiples of 16 and of a block; other calls are for the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

import pytest
import torch
from torch import Tensor

from tests.backends.library_cases import CASES
from tests.backends.running import scale_of
from tests.backends.tolerances import Bound
from tests.gpu.comparing import (
    BITS16,
    DTYPES,
    ON_GPU,
    REPEATS,
    Inputs,
    Results,
    all_in_nan,
    both,
    check,
    in_nan,
    in_precision,
    run,
)

pytestmark = pytest.mark.gpu

NAMES = tuple(n for n, case in CASES.items() if case.same_kernel_as is None)
THOROUGH = tuple(n for n in NAMES if CASES[n].thorough)
# Sizes that are more like what matrix units are for than those of tests on the CPU.
EXTENTS: Mapping[str, Mapping[str, int]] = {
    "fp8_attention": {"i": 8, "j": 8},
    "fp8_cache": {"p": 40, "s": 16},
    "kl_divergence": {"c": 64, "d": 64},
    "mla": {"c": 128, "r": 64},
    "paged_attention": {"p": 40, "s": 16},
    "talking_heads": {"d": 64},
}
# Lengths, and about which the logits lie: in all dtypes, and in one.
CALLS = ((129, 255, 0.0), (255, 129, -20.0), (131, 251, 20.0))
ALSO = (
    (128, 256, 0.0, BITS16),  # blocks that fit: nothing is masked for the ends of an axis
    *((1, 1000, shift, torch.float16) for shift in (0.0, 20.0)),  # a stream that is cut into splits
)
HUGE = (5e3, 1.2e3)
# A logit of 1e4 is rounded by 5e-4 in float32, which is the relative error of its weight.
HUGE_FLOOR = 2e-3
# Programs in which no query sees a key that comes after the last of them.
BY_PLACE = tuple(n for n in NAMES if re.search(r"(\[k if |and )k <= q\b(?! \+)", CASES[n].text))
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def sizes_of(name: str, q: int, k: int, d: int = 64, e: int = 64, b: int = 2) -> dict[str, int]:
    """Extents for lengths q and k, whatever a program has besides."""
    sizes = CASES[name].sizes(q, k, d, e, b) | EXTENTS.get(name, {})
    own = {"q": q, "k": q if CASES[name].extents.get("k") == "q" else k, "n": k // 16 + 1}
    return {n: own.get(n, size) for n, size in sizes.items()}


@cache
def inputs_at(name: str, q: int, k: int, shift: float = 0.0, scale: float = 1.0) -> Inputs:
    """Random inputs in float32, on the CPU."""
    return CASES[name].inputs(sizes_of(name, q, k), shift=shift, scale=scale)


def results_of(name: str, inputs: Inputs) -> Results:
    """What the kernel gives."""
    return run(CASES[name].text, name, inputs, **CASES[name].params)


def compare(
    name: str,
    made: Inputs,
    dtype: torch.dtype,
    spoil: Callable[[dict[str, Tensor]], None] = lambda _: None,
) -> None:
    """Compare with eager torch, on inputs in NaN. `spoil` changes what must not be read."""
    inputs = in_precision(made, dtype)
    exact, usual = both(lambda **x: CASES[name].in_eager_torch(x), inputs, dtype)
    spoil(inputs)
    check(results_of(name, all_in_nan(inputs)), exact, usual)


def ids(value: object) -> str:
    """A dtype without its module."""
    return str(value).removeprefix("torch.")


@pytest.mark.parametrize(
    ("name", "q", "k", "shift", "dtype"),
    [
        *((name, *call, dtype) for name in NAMES for call in CALLS for dtype in DTYPES),
        *((name, *call) for name in NAMES for call in ALSO),
        *((name, 1, 1, 0.0, torch.float32) for name in THOROUGH),
    ],
    ids=ids,
)
def test_errors(name: str, q: int, k: int, shift: float, dtype: torch.dtype) -> None:
    """No worse than eager torch, wherever the logits lie."""
    if q == 1 and name == "column_sums":  # whose stream is of rows
        q, k = k, q
    compare(name, inputs_at(name, q, k, shift), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("name", NAMES)
def test_the_same_bits(name: str, dtype: torch.dtype) -> None:
    """In 50 runs, with other strides, and with strides of 0."""
    inputs = in_precision(inputs_at(name, 129, 255), dtype)
    near, far = all_in_nan(inputs), all_in_nan(inputs, padding=48)
    first = results_of(name, near)
    for run_ in range(REPEATS):
        again = results_of(name, far if run_ % 2 else near)
        assert all(map(torch.equal, again, first)), run_
    if CASES[name].is_attention:
        expanded = {n: t[:1].expand(t.shape) for n, t in inputs.items()}
        wanted = results_of(name, all_in_nan(expanded))
        assert all(map(torch.equal, results_of(name, expanded), wanted))


@pytest.mark.parametrize("name", NAMES)
def test_huge_logits(name: str) -> None:
    """Logits near 1e4 and -1e4 overflow nothing in float32."""
    plain = CASES[name].in_eager_torch(in_precision(inputs_at(name, 129, 255), torch.float32))
    for sign in (1, -1):
        made = inputs_at(name, 129, 255, sign * HUGE[0], HUGE[1])
        inputs = in_precision(made, torch.float32)
        exact, usual = both(lambda **x: CASES[name].in_eager_torch(x), inputs, torch.float32)
        found = results_of(name, all_in_nan(inputs))
        for f, w, e, p in zip(found, exact, usual, plain, strict=True):
            assert torch.isfinite(f).all()
            # What all but vanishes here, such as the entropy of one weight, has its usual size.
            floor = HUGE_FLOOR * max(scale_of(w), scale_of(p))
            check((f,), (w,), (e,), Bound(2.0, floor))


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("name", [*BY_PLACE, "varlen"])
def test_keys_that_no_row_admits(name: str, dtype: torch.dtype) -> None:
    """May hold NaN: beyond the last query, or a request's length."""

    def spoil(inputs: dict[str, Tensor]) -> None:
        length = inputs.get("length")
        for n in {"K", "V", "C", "R"} & inputs.keys():
            if length is None:
                inputs[n][..., 129:, :] = torch.nan
                continue
            for tensor, first in zip(inputs[n], length.tolist(), strict=True):
                tensor[:, first:] = torch.nan

    compare(name, inputs_at(name, 129, 255), dtype, spoil)


@pytest.mark.skipif(not ON_GPU, reason="the interpreter does not multiply bfloat16")
@pytest.mark.parametrize("dtype", [E4M3, E5M2], ids=ids)
@pytest.mark.parametrize(("name", "small"), [("fp8_cache", "KV"), ("fp8_attention", "QKV")])
def test_floats_of_8_bits(name: str, small: str, dtype: torch.dtype) -> None:
    """As near to float64 as eager torch in 16 bits, which converts them first."""
    inputs = in_precision(inputs_at(name, 129, 255), BITS16)
    inputs |= {n: inputs[n].to(dtype) for n in small}
    exact, usual = both(lambda **x: CASES[name].in_eager_torch(x), inputs, BITS16)
    check(results_of(name, all_in_nan(inputs)), exact, usual)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda t: t.mT.contiguous().mT if t.dim() > 1 else t,
    "offset by one": lambda t: torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape),
    "contiguous": lambda t: t.contiguous(),
}


@pytest.mark.parametrize("name", [n for n in THOROUGH if CASES[n].is_attention])
def test_layouts_with_kernels_of_their_own(name: str) -> None:
    """Bit by bit, where rows are not contiguous, or nothing is aligned."""
    inputs = in_precision(inputs_at(name, 129, 255), BITS16)
    first = results_of(name, {n: in_nan(t) for n, t in inputs.items()})
    for label, layout in LAYOUTS.items():
        found = results_of(name, {n: layout(t) for n, t in inputs.items()})
        assert all(map(torch.equal, found, first)), label
