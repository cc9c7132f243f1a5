"""The page for those who come from FlexAttention: each of its rows is true."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

import monocomp as mc

PAGE = (Path(__file__).parents[2] / "notebooks" / "flexattention.md").read_text(encoding="utf-8")
B, H, N, D = 2, 2, 36, 4
DRAWN = torch.Generator().manual_seed(0)


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=DRAWN, dtype=torch.float64)


def rows(heading: str) -> dict[str, tuple[str, str]]:
    """The rows of a table: what FlexAttention takes, and what monocomp takes."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [re.split(r"(?<!\\)\|", line)[1:4] for line in section.splitlines() if line[:1] == "|"]
    cells = [[c.strip().strip("`").replace("\\|", "|") for c in line] for line in lines]
    return {name: (flex, ours) for name, flex, ours in cells[2:]}


MASKS, SCORES = rows("Masks"), rows("Scores")
INPUTS = {"Q": draw(B, H, N, D), "K": draw(B, H, N, D), "V": draw(B, H, N, D)}
OTHERS = {
    "doc": torch.arange(N) // 10,
    "start": torch.arange(4) * 10,
    "docs": torch.stack([torch.arange(N) // 10, torch.arange(N) // 7]),
    "at": torch.tensor([[0, 9], [3, 9], [9, 36], [12, 20], [20, 36], [0, 36]] + [[5, 30]] * 3),
    "X": torch.randperm(N, generator=DRAWN) % 6,
    "Y": torch.randperm(N, generator=DRAWN) // 6,
    "slope": draw(H),
    "bias": draw(H, 2 * N - 1),
    "QR": draw(B, H, N, 3),
    "KR": draw(B, 1, N, 3),
    "added": draw(B, N, N),
}
PLACES = torch.meshgrid(*map(torch.arange, (B, H, N, N)), indexing="ij")


def meaning(text: str, score: Tensor) -> Tensor:
    """A mask or score at all positions, as FlexAttention asks for it at each."""
    b, h, q, k = PLACES

    def column(n: Tensor) -> Tensor:
        return n // 4 % 3 * 2 + n % 2

    def line(n: Tensor) -> Tensor:
        return n // 12 * 2 + n % 4 // 2

    names = {"b": b, "h": h, "q": q, "k": k, "s": score, "torch": torch}
    found: Tensor = eval(text, {**names, "column": column, "line": line, **OTHERS})  # our own page
    return found


def result(text: str) -> Tensor:
    kernel = mc.compile(text)
    given = {**INPUTS, **OTHERS}
    found: Tensor = kernel(**{n: given[n] for n in kernel.declared.inputs})
    return found


def program(text: str, last: str) -> str:
    *before, here = text.rsplit(";", 1)
    return "\n".join(
        [
            "input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]",
            *(before[0].split(";") if before else ()),
            "S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)",
            last.format(here.strip()),
        ]
    )


SCORE = INPUTS["Q"] @ INPUTS["K"].mT / math.sqrt(D)


@pytest.mark.parametrize("name", MASKS)
def test_mask(name: str) -> None:
    flex, ours = MASKS[name]
    expected = torch.softmax(SCORE.masked_fill(~meaning(flex, SCORE), -math.inf), -1)
    expected = expected.nan_to_num(0.0) @ INPUTS["V"]
    found = result(program(ours, "O[b,h,q,e] = softmax[k if {}](S[b,h,q,k]) * V[b,h,k,e]"))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", SCORES)
def test_score(name: str) -> None:
    flex, ours = SCORES[name]
    expected = torch.softmax(meaning(flex, SCORE), -1) @ INPUTS["V"]
    found = result(program(ours, "O[b,h,q,e] = softmax[k]({}) * V[b,h,k,e]"))
    torch.testing.assert_close(found, expected)


def test_there_are_all() -> None:
    assert len(MASKS) == 15 and len(SCORES) == 7
