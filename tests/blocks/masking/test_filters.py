"""Maps: which blocks of a stream are listed, and that no other block is looked at."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp.backends.triton.kernel_source import block_program
from monocomp.blocks.choices.choose import choose
from tests.backends import interpreted
from tests.backends.running import run

HEAD = "input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], mask[q,k]: bool, n[b]: int, seed: int\n"
TAIL = (
    "\nS[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)"
    "\nO[b,h,q,e] = softmax[k if {}](S[b,h,q,k]) * V[b,h,k,e]"
)
MASKED = "input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], mask[q,k]: bool" + TAIL.format("mask[q,k]")
BLOCK = 16
LISTED = {
    "mask[q,k]": True,
    "mask[q,k] and k <= q": True,
    "mask[q,k] or k < 4": True,
    "abs(q // 8 - k // 8) <= 1 and abs(q % 8 - k % 8) <= 1": True,  # of positions alone
    "own[b,q] == doc[b,k]": True,
    "k <= q": False,  # bounds tell
    "n[b] <= k": False,
    "each[b,h,q,k]": False,  # each position of the grid would have a map of its own
    "Q[b,h,q,0] < K[b,h,k,0]": False,
}
INPUTS = {
    "mask": "mask[q,k]: bool",
    "own": "own[b,q]: int, doc[b,k]: int",
    "each": "each[b,h,q,k]: bool",
    "n[": "n[b]: int",
}


@pytest.mark.parametrize("condition", LISTED)
def test_which_loops_have_maps(condition: str) -> None:
    inputs = ["Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]"]
    inputs += [text for name, text in INPUTS.items() if name in condition]
    (kernel,) = mc.compile(f"input {', '.join(inputs)}{TAIL.format(condition)}").tile_programs({})
    assert bool(choose(kernel).maps) == LISTED[condition]
    assert len(block_program(kernel).maps) == LISTED[condition]


def test_no_map_without_products() -> None:
    """A map would take as long as the loop does."""
    text = "input X[h,k], mask[q,k]: bool\nO[h,q] = max[k if mask[q,k]](X[h,k] + q)"
    (kernel,) = mc.compile(text).tile_programs({})
    assert not choose(kernel).maps


def masked(q: int, k: int) -> dict[str, Tensor]:
    """Blocks with all, some and no keys, keys of blocks that no query sees, and such queries."""
    generator = torch.Generator().manual_seed(q + k)
    mask = torch.rand(q, k, generator=generator) < 0.3
    mask[:BLOCK, : 2 * BLOCK] = True
    mask[BLOCK : 2 * BLOCK, BLOCK : 2 * BLOCK] = False
    mask[BLOCK + 3 : BLOCK + 4] = False
    mask[:BLOCK, 2 * BLOCK :: 3] = False
    sizes = {"Q": (2, 2, q, 8), "K": (2, 2, k, 8), "V": (2, 2, k, 8)}
    made = {n: torch.randn(s, generator=generator) for n, s in sizes.items()}
    return made | {"mask": mask}


def attended(x: dict[str, Tensor]) -> Tensor:
    """The same in torch."""
    scores = x["Q"] @ x["K"].mT / x["Q"].shape[-1] ** 0.5
    weights = scores.masked_fill(~x["mask"], -torch.inf).softmax(-1).nan_to_num(0.0)
    return weights @ x["V"]


SIZES = [(48, 64), (37, 53), (16, 5), (1, 40), (5, 0)]


@pytest.mark.parametrize("size", SIZES)
def test_kernels(size: tuple[int, int]) -> None:
    """With masks that have any strides; NaN in what no query of a block sees stays there."""
    x = masked(*size)
    wanted = attended(x)
    unseen = ~x["mask"].any(0)
    x["K"][:, :, unseen] = x["V"][:, :, unseen] = torch.nan
    for mask in (x["mask"], x["mask"].T.contiguous().T, x["mask"].repeat(1, 2)[:, : size[1]]):
        (found,) = run("triton", MASKED, x | {"mask": mask}, block=BLOCK)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def gradients(x: dict[str, Tensor]) -> list[Tensor]:
    """Return the gradients of a call of emitted kernels, in the interpreter."""
    given = {n: t.requires_grad_() if t.is_floating_point() else t for n, t in x.items()}
    result = mc.compile(MASKED, backend="triton")(**given)
    weights = torch.linspace(-1, 1, result.numel()).reshape(result.shape)
    floats = [t for t in given.values() if t.is_floating_point()]
    return list(torch.autograd.grad((result * weights).sum(), floats))


def test_gradients() -> None:
    """The map of keys as rows has queries in its lists."""
    (program,) = (k for k in mc.compile(mc.grad(MASKED)).tile_programs({}) if "dK" in k.name)
    (made,) = choose(program).maps.values()
    assert made.axis_names("row") == ["k"] and made.axis_names("stream") == ["q"]
    x = masked(150, 100)
    found = interpreted.call(gradients, x)
    floats = [t.requires_grad_() for t in x.values() if t.is_floating_point()]
    result = attended(x)
    weights = torch.linspace(-1, 1, result.numel()).reshape(result.shape)
    wanted = torch.autograd.grad((result * weights).sum(), floats)
    torch.testing.assert_close(found, list(wanted), rtol=1e-4, atol=1e-5)


def called_again(x: dict[str, Tensor]) -> list[Tensor]:
    """Return the results of calls between which the mask is written to, in its place and by
    a view, and is another one; each call is like the first."""
    kernel = mc.compile(MASKED, backend="triton")
    found = [kernel(**x), kernel(**x)]
    x["mask"].logical_not_()
    found.append(kernel(**x))
    x["mask"][3:20].fill_(True)
    found.append(kernel(**x))
    found.append(kernel(**x | {"mask": ~x["mask"]}))
    with torch.inference_mode():
        inner = {n: t.clone() for n, t in x.items()}
        found.append(kernel(**inner))
        inner["mask"].logical_not_()
        found.append(kernel(**inner))
    return found


def test_masks_that_change() -> None:
    x = masked(37, 53)
    found = interpreted.call(called_again, x)
    masks = [x["mask"], x["mask"], ~x["mask"]]
    filled = ~x["mask"]
    filled[3:20] = True
    masks += [filled, ~filled, filled, ~filled]
    for result, mask in zip(found, masks, strict=True):
        torch.testing.assert_close(result, attended(x | {"mask": mask}), rtol=1e-5, atol=1e-5)
