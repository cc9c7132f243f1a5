"""The look of tensors, tested at once, as code that torch has compiled tests its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch.autograd import forward_ad

IsAlike: TypeAlias = Callable[..., bool]
ALIGNMENT = 16  # bytes; Triton compiles for pointers and integers that this divides
PLAIN = (torch.Tensor, torch.nn.Parameter)
_GUARDS: Any = torch._C._dynamo.guards


def look_of(tensors: Sequence[Any]) -> IsAlike | None:
    """Return what tells whether as many tensors look like these: in type, dtype, device, sizes,
    strides, alignment, whether they require a gradient, and in what watches or changes operations
    in their thread: modes, transforms, autocast, and tangents, for which it is always another
    look. None for tensors that have to be looked at one by one, as those that are not aligned."""
    if not tensors or any(type(t) not in PLAIN or t.data_ptr() % ALIGNMENT for t in tensors):
        return None
    sizes = {"dynamic_dims_sizes": None, "dynamic_dims_strides": None}
    check: IsAlike = _GUARDS.TensorGuards(*tensors, **sizes).check

    def is_alike(*tensors: Any) -> bool:
        if forward_ad._current_level >= 0 or not check(*tensors):
            return False
        for t in tensors:  # noqa: SIM110  # all() takes as long as the rest
            if t.data_ptr() % ALIGNMENT:
                return False
        return True

    return is_alike
