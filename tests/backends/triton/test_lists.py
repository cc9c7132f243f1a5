"""Lists of a map are filled anew where they may be others, and only there."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch

from monocomp.backends.triton.lists import Lists


class Filler:
    """Stands for the kernel: counts its launches, each of which fills the lists with its number."""

    def __init__(self) -> None:
        self.launches = 0

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(mask: torch.Tensor, lists: torch.Tensor, *rest: int, **options: int) -> None:
            assert lists.shape == (*grid, 5) and lists.dtype == torch.int32
            self.launches += 1
            lists.fill_(self.launches)

        return launch


@pytest.fixture
def lists() -> Lists:
    return Lists(Filler(), (2, 5), torch.device("cpu"), 1)


def number(lists: Lists, mask: torch.Tensor, *rest: int) -> int:
    """The launch whose lists a call gives."""
    return int(lists(mask, *rest, BLOCK=16)[0, 0])


def test_what_is_the_same_is_filled_once(lists: Lists) -> None:
    one, other = torch.zeros(3), torch.zeros(3)
    assert [number(lists, x) for x in (one, one, other, one, other)] == [1, 1, 2, 1, 2]


def test_what_is_written_to_is_filled_again(lists: Lists) -> None:
    mask = torch.zeros(3)
    found = [number(lists, mask)]
    for write in (mask.zero_, mask[1:].zero_, mask.view(3, 1).zero_, mask.detach().zero_):
        write()
        found += [number(lists, mask), number(lists, mask)]
    mask.data = torch.zeros(3)
    assert [*found, number(lists, mask)] == [1, 2, 2, 3, 3, 4, 4, 5, 5, 6]


def test_other_arguments(lists: Lists) -> None:
    mask = torch.zeros(3)
    assert [number(lists, mask, n) for n in (7, 8, 7)] == [1, 2, 1]


def test_a_tensor_in_the_place_of_another(lists: Lists) -> None:
    """Memory and numbers of objects are used again."""
    found = []
    for _ in range(9):
        mask = torch.zeros(3)
        found.append(number(lists, mask))
        del mask
    assert found == [*range(1, 10)] and len(lists.kept) == 1


def test_few_are_kept(lists: Lists) -> None:
    masks = [torch.zeros(3) for _ in range(9)]
    assert [number(lists, x) for x in masks] == [*range(1, 10)]
    assert len(lists.kept) < 9 and number(lists, masks[0]) == 10


def test_tensors_without_versions(lists: Lists) -> None:
    with torch.inference_mode():
        mask = torch.zeros(3)
    assert [number(lists, mask), number(lists, mask)] == [1, 2]


def test_graphs_and_streams() -> None:
    """A graph fills its own lists, whatever is kept; and on each stream they are filled in the
    order of that stream."""
    lists, mask = Lists(Filler(), (2, 5), torch.device("cuda", 0), 1), torch.zeros(3)
    is_capturing = patch("torch.cuda.is_current_stream_capturing", return_value=True)
    stream = patch("torch._C._cuda_getCurrentRawStream", create=True, return_value=1)
    other = patch("torch._C._cuda_getCurrentRawStream", create=True, return_value=2)
    on_cpu = patch("torch.empty", lambda shape, dtype, device: torch.zeros(shape, dtype=dtype))
    with on_cpu, patch("torch.cuda.is_current_stream_capturing", return_value=False):
        with stream:
            assert [number(lists, mask), number(lists, mask)] == [1, 1]
        with is_capturing, stream:
            assert [number(lists, mask), number(lists, mask)] == [2, 3]
        with other:
            assert [number(lists, mask), number(lists, mask)] == [4, 4]
        with stream:
            assert number(lists, mask) == 1
