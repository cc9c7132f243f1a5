"""Every library program on every backend, against the oracle.

Lengths are 1, one less and one more than a block, a block, and primes; logits are standard
normal, shifted by -20 and 20, and huge. Blocks are short, so that there are several; outputs
hold NaN before a kernel runs. The emitted source runs in Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeAlias

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from tests.backends.library_cases import CASES, Case
from tests.backends.running import (
    BACKENDS,
    BLOCK,
    DISTINCT,
    exact,
    largest_error,
    run,
    scale_of,
)
from tests.backends.tolerances import ALONE, BESIDE_EAGER, Bound, agree
from tests.marks import slow_unless

NAMES = tuple(n for n, case in CASES.items() if case.thorough)
OF_THEIR_OWN = tuple(n for n in NAMES if CASES[n].same_kernel_as is None)
# Programs that are known to give another program's kernel need no interpreter of their own.
RUNS = [(n, b) for n in NAMES for b in BACKENDS if b != "triton" or n in OF_THEIR_OWN]
# (q, k, d, e): lengths and head sizes; a matrix is q by k.
SIZES = {
    "single": (1, 1, 1, 1),
    "one row": (1, 37, 5, 24),
    "one key": (37, 1, 16, 3),
    "short of a block": (BLOCK - 1, BLOCK + 1, 16, 16),
    "a block": (BLOCK, BLOCK, 5, 16),
    "past a block": (BLOCK + 1, BLOCK - 1, 24, 5),
    "primes": (37, 53, 20, 16),
    "few keys": (53, 7, 3, 31),
}
NAN = float("nan")


def test_every_program_has_a_case() -> None:
    """A new library program is tested from the start."""
    assert set(CASES) == set(library.names())


@pytest.mark.parametrize("name", [n for n in NAMES if n not in OF_THEIR_OWN])
def test_programs_with_one_kernel(name: str) -> None:
    """What lets the tests below run it once."""
    other = CASES[name].same_kernel_as
    assert other is not None
    ours, theirs = (
        str(mc.compile(CASES[n].text, name="x").tile_programs()[0]) for n in (name, other)
    )
    assert ours == theirs


def run_case(backend: str, case: Case, inputs: Mapping[str, Tensor]) -> Tensor:
    """The only output."""
    (found,) = run(backend, case.text, inputs, name=case.name, **case.params)
    return found


Results: TypeAlias = tuple[Tensor, ...]


@cache
def wanted_at(name: str, size: str) -> tuple[Results, Results]:
    """What the oracle and eager torch give; the same for all backends."""
    case, inputs = CASES[name], inputs_at(name, size)
    return exact(case.text, inputs, **case.params), case.in_eager_torch(inputs)


def inputs_at(name: str, size: str) -> dict[str, Tensor]:
    """Random inputs for a row of `SIZES`."""
    case, (q, k, d, e) = CASES[name], SIZES[size]
    return case.inputs(case.sizes(q, k, d, e, 2 if size == "short of a block" else 1))


# --- values -------------------------------------------------------------------------------


@pytest.mark.one_in(9)
@pytest.mark.parametrize(("name", "backend"), RUNS)
@pytest.mark.parametrize("size", SIZES)
def test_lengths(name: str, size: str, backend: str) -> None:
    """Blocks that fit, stick out, and hold one element."""
    found = run_case(backend, CASES[name], inputs_at(name, size))
    (wanted,), (eager,) = wanted_at(name, size)
    if backend == "numpy":
        ALONE["numpy"].check(found, wanted)
    else:
        BESIDE_EAGER[torch.float32].check(found, wanted, eager)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", OF_THEIR_OWN)
def test_large_blocks(name: str) -> None:
    """The blocks that a call really takes, in the backends that need no interpreter."""
    inputs = CASES[name].inputs(CASES[name].sizes(130, 900, 40, 24))
    (wanted,) = exact(CASES[name].text, inputs, **CASES[name].params)
    for backend in ("numpy", "torch"):
        (found,) = run(backend, CASES[name].text, inputs, block=None, **CASES[name].params)
        ALONE["torch"].check(found, wanted)


@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize(("d", "e"), [(1, 1), (3, 40), (96, 17), (256, 256), (300, 290)])
def test_head_sizes(d: int, e: int, backend: str) -> None:
    """Any head size, equal or not: held whole up to 256, streamed beyond."""
    inputs = CASES["causal"].inputs({**CASES["causal"].sizes(18, 19, d, e), "h": 1})
    agree(backend, CASES["causal"].text, inputs)


# --- all programs, all outputs ------------------------------------------------------------------

DIFFERENT = tuple(n for n in CASES if CASES[n].same_kernel_as is None)
# About which logits lie, and how far. Huge ones are at most about 1e4 apart: a weight that is
# smaller than exp(-1e4) of the largest is 0 to the oracle, and its logarithm is not finite.
FAR_LOGITS = {
    "plain": (0.0, 1.0),
    "shifted down": (-20.0, 1.0),
    "shifted up": (20.0, 1.0),
    "huge": (5e3, 1.2e3),
    "huge and negative": (-5e3, 1.2e3),
}
# A logit of 1e4 is rounded by 5e-4 in float32, which is the relative error of its weight: of
# several weights of one size, and where logits are computed or stored twice, it does not cancel.
FAR = Bound(4.0, 2e-3)


@cache
def far_inputs(name: str, kind: str, dtype: torch.dtype) -> dict[str, Tensor]:
    """Random inputs for a row of `FAR_LOGITS`, of lengths that are no multiples of a block."""
    shift, scale = FAR_LOGITS[kind]
    return CASES[name].inputs(CASES[name].sizes(19, 37, 6, 5), dtype, shift=shift, scale=scale)


@cache
def far_wanted(name: str, kind: str, dtype: torch.dtype) -> Results:
    """Results of the oracle, which are the same for all backends."""
    return exact(CASES[name].text, far_inputs(name, kind, dtype), **CASES[name].params)


def relative_error(found: Results, name: str, kind: str, dtype: torch.dtype) -> float:
    """The largest error of an output, in units of its largest element.

    A result that all but vanishes among huge logits, such as the entropy where there is one
    weight, is measured by its usual size.
    """
    errors = list(map(largest_error, found, far_wanted(name, kind, dtype)))
    sizes = list(map(scale_of, far_wanted(name, kind, dtype)))
    if kind.startswith("huge"):
        sizes = list(map(max, sizes, map(scale_of, far_wanted(name, "plain", dtype))))
    return max(e / size if e else 0.0 for e, size in zip(errors, sizes, strict=True))


# Huge logits say how exponents are formed, which is the same for all backends: programs of
# each way to form them are run on every one.
HUGE_EVERYWHERE = (
    "causal",
    "softmax",
    "logsumexp",
    "log_softmax_statistics",
    "attention_statistics",
    "cross_entropy",
    "softmax_one",
    "learned_sink",
    "sigmoid_attention",
    "variance",
)


def is_usual(name: str, kind: str, backend: str, _: torch.dtype) -> bool:
    """True for a case of the usual tests."""
    return not kind.startswith("huge") or backend == "torch" or name in HUGE_EVERYWHERE


OTHER_DTYPES = (
    *(("torch", dtype) for dtype in (torch.float64, torch.bfloat16, torch.float16)),
    *(("triton", dtype) for dtype in (torch.bfloat16, torch.float16)),
)


@pytest.mark.one_in(17)
@pytest.mark.parametrize(
    ("name", "kind", "backend", "dtype"),
    [
        *slow_unless(is_usual, DIFFERENT, FAR_LOGITS, DISTINCT, [torch.float32]),
        *(
            (name, kind, *how)
            for name in OF_THEIR_OWN
            for kind in FAR_LOGITS
            for how in OTHER_DTYPES
        ),
    ],
    ids=lambda at: str(at).removeprefix("torch."),
)
def test_all_outputs(name: str, kind: str, backend: str, dtype: torch.dtype) -> None:
    """In no dtype worse than eager torch, wherever the logits lie; no overflow at 1e4."""
    case, inputs, which = CASES[name], far_inputs(name, kind, dtype), (name, kind, dtype)
    assert all(torch.isfinite(w).all() for w in far_wanted(*which)), "inputs make no sense"
    results = run(backend, case.text, inputs, name=name, **case.params)
    assert {r.dtype for r in results if r.is_floating_point()} <= {dtype}
    found = relative_error(results, *which)
    eager = relative_error(case.in_eager_torch(inputs), *which)
    assert eager < 0.1 or dtype.itemsize == 2  # where it may overflow
    is_far = dtype == torch.float32 and kind.startswith("huge")
    bound = FAR if is_far else BESIDE_EAGER[dtype]
    allowed = bound.ratio * eager + bound.floor
    assert found <= allowed, f"error {found:.2e}, eager torch {eager:.2e}, allowed {allowed:.2e}"
    assert all(torch.isfinite(r).all() for r in results)


# --- nothing to aggregate -----------------------------------------------------------------


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "backend"), [r for r in RUNS if CASES[r[0]].is_attention])
@pytest.mark.parametrize("empty", ["q", "k", "b", "e"])
def test_length_zero(name: str, empty: str, backend: str) -> None:
    """No rows, no keys, no batch, no columns."""
    sizes = CASES[name].sizes(5, 6) | {empty: 0}
    inputs = CASES[name].inputs(sizes)
    found = run_case(backend, CASES[name], inputs)
    assert found.shape == tuple(sizes[i] for i in "bhqe")
    assert (found == 0).all()


# --- what must not be read, or not matter -------------------------------------------------


def in_nan(tensor: Tensor) -> Tensor:
    """The same values as a strided view, surrounded by NaN."""
    around = torch.full([n + 3 for n in tensor.shape], NAN, dtype=tensor.dtype)
    view = around[tuple(slice(1, n + 1) for n in tensor.shape)]
    return view.copy_(tensor)


def offset_by_one(tensor: Tensor) -> Tensor:
    """The same values, aligned to nothing."""
    return torch.cat([torch.full((1,), NAN), tensor.flatten()])[1:].view(tensor.shape)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "padded": in_nan,
    "transposed": lambda t: t.mT.contiguous().mT if t.dim() > 1 else t,
    "reversed": lambda t: (
        t.permute(*range(t.dim())[::-1]).contiguous().permute(*range(t.dim())[::-1])
    ),
    "every other": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "every third": lambda t: t.repeat_interleave(3, 0)[::3],
    "offset": offset_by_one,
}


@pytest.mark.one_in(9)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OF_THEIR_OWN)
def test_layouts_give_equal_results(name: str, backend: str) -> None:
    """Bit by bit: strides, offsets and what lies between the elements do not matter."""
    inputs = CASES[name].inputs(CASES[name].sizes(17, 33, 5, 7, 2))
    plain = run_case(backend, CASES[name], inputs)
    for layout in LAYOUTS.values():
        found = run_case(backend, CASES[name], {n: layout(t) for n, t in inputs.items()})
        assert torch.equal(found, plain)


@pytest.mark.parametrize("backend", BACKENDS)
def test_expanded_inputs(backend: str) -> None:
    """A stride of 0, in every input and dimension."""
    inputs = CASES["causal"].inputs(CASES["causal"].sizes(17, 33, 5, 7, 2))
    for dim in range(4):
        expanded = {n: t.narrow(dim, 0, 1).expand(t.shape) for n, t in inputs.items()}
        plain = {n: t.clone(memory_format=torch.contiguous_format) for n, t in expanded.items()}
        found = run_case(backend, CASES["causal"], expanded)
        assert torch.equal(found, run_case(backend, CASES["causal"], plain))


# --- what is unspecified stays where it is --------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("name", OF_THEIR_OWN)
def test_nan_in_a_row_stays_there(name: str, backend: str) -> None:
    """Other rows are what they were."""
    inputs = CASES[name].inputs(CASES[name].sizes(37, 33))
    clean = run_case(backend, CASES[name], inputs)
    tensor = inputs["Q" if CASES[name].is_attention else "X"]
    tensor.select(tensor.dim() - 2, 20)[..., 3] = NAN
    found = run_case(backend, CASES[name], inputs)
    rows = (slice(None),) * (found.dim() - (2 if found.dim() > 1 else 1))
    others = torch.arange(37) != 20
    assert torch.equal(found[(*rows, others)], clean[(*rows, others)])


@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize(("tensor", "row"), [("K", 20), ("V", BLOCK)])
def test_nan_reaches_no_row_that_does_not_admit_it(tensor: str, row: int, backend: str) -> None:
    """Nor another column of values. A product of tiles has 0 * NaN in other rows of its block."""
    inputs = CASES["causal"].inputs(CASES["causal"].sizes(37, 37))
    clean = run_case(backend, CASES["causal"], inputs)
    inputs[tensor][..., 20, 1] = NAN
    found = run_case(backend, CASES["causal"], inputs)
    assert torch.equal(found[:, :, :row], clean[:, :, :row])
    if tensor == "V":
        columns = torch.arange(found.shape[-1]) != 1
        assert torch.equal(found[..., columns], clean[..., columns])
