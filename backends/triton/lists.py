"""The lists of a map: filled by a kernel, and kept for as long as they hold.

What lists blocks depends on a few tensors, which many calls share: a mask is one for all layers,
and documents are for a forward pass and its backward pass. So what was filled from the same tensors
is taken again, if none has been written to since, as torch counts it. A CUDA graph runs with other
elements than those that it was captured with: it fills its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import ReferenceType, ref

import torch

_MOST = 4  # that a kernel keeps


class _Kept(NamedTuple):
    """Filled lists, and what they were filled from: tensors, their versions, and other arguments,
    on a stream."""

    tensors: tuple[ReferenceType[torch.Tensor], ...]
    versions: tuple[tuple[int, int], ...]
    rest: tuple[Any, ...]
    stream: int
    lists: torch.Tensor

    def fits(self, tensors: tuple[torch.Tensor, ...], rest: tuple[Any, ...], stream: int) -> bool:
        """True if the lists are those of these arguments."""
        pairs = zip(self.tensors, tensors, strict=True)
        are_same = all(kept() is tensor for kept, tensor in pairs)
        return (
            are_same
            and self.versions == versions(tensors)
            and (self.rest, self.stream) == (rest, stream)
        )


def versions(tensors: tuple[torch.Tensor, ...]) -> tuple[tuple[int, int], ...]:
    """Return what changes when a tensor's elements do, or are others."""
    return tuple([(t._version, t.data_ptr()) for t in tensors])


class Lists:
    """Fills lists.

    Args:
        kernel: fills them; it takes them after the tensors.
        shape: of the memory: a row for each instance.
        device: the device.
        tensors: how many the kernel reads.
    """

    def __init__(
        self, kernel: Any, shape: tuple[int, int], device: torch.device, tensors: int
    ) -> None:
        self.kernel, self.shape, self.device, self.count = kernel, shape, device, tensors
        self.kept: tuple[_Kept, ...] = ()

    def __call__(self, *args: Any, **options: Any) -> torch.Tensor:
        """Return the lists for tensors, and the kernel's other arguments."""
        tensors, rest = args[: self.count], args[self.count :]
        stream = 0
        if self.device.type == "cuda":
            if torch.cuda.is_current_stream_capturing():
                return self._filled(tensors, rest, options)
            stream = torch._C._cuda_getCurrentRawStream(self.device.index)
        if any(t.is_inference() for t in tensors):  # these have no versions
            return self._filled(tensors, rest, options)
        for kept in self.kept:
            if kept.fits(tensors, rest, stream):
                return kept.lists
        filled = self._filled(tensors, rest, options)
        new = _Kept(tuple(map(ref, tensors)), versions(tensors), rest, stream, filled)
        living = (k for k in self.kept if all(t() is not None for t in k.tensors))
        self.kept = (new, *living)[:_MOST]
        return filled

    def _filled(
        self, tensors: tuple[torch.Tensor, ...], rest: tuple[Any, ...], options: dict[str, Any]
    ) -> torch.Tensor:
        lists = torch.empty(self.shape, dtype=torch.int32, device=self.device)
        if self.shape[0]:
            self.kernel[(self.shape[0],)](*tensors, lists, *rest, **options)
        return lists
