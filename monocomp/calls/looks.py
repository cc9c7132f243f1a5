"""The look of tensors, tested at once, as code that torch has compiled tests its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from monocomp.host.texts import Written, defined

ALIGNMENT = 16  # bytes; Triton compiles for pointers and integers that this divides
PLAIN = (torch.Tensor, torch.nn.Parameter)
_GUARDS: Any = torch._C._dynamo.guards


def if_alike(
    tensors: Sequence[Any], run: Written, more: int = 0, mode: object = None
) -> Written | None:
    """Return a function that runs another one where its first arguments look like some tensors, and
    returns None elsewhere.

    Tensors look alike in type, dtype, device, sizes, strides, alignment, whether they require a
    gradient, and in what watches or changes operations in their thread: modes, transforms,
    autocast, and tangents, for which it is always another look.

    Args:
        tensors: what the first arguments look like, None for one that is not given. There is no
            function for tensors that have to be looked at one by one, as those that are not
            aligned.
        run: takes these arguments, and those that follow.
        more: how many that are.
        mode: equals the last argument, which `run` does not take.
    """
    looked_at = {f"x{n}": t for n, t in enumerate(tensors) if t is not None}
    given = looked_at.values()
    if not given or any(type(t) not in PLAIN or t.data_ptr() % ALIGNMENT for t in given):
        return None
    sizes = {"dynamic_dims_sizes": None, "dynamic_dims_strides": None}
    check = _GUARDS.TensorGuards(*given, **sizes).check
    names = [f"x{n}" for n in range(len(tensors) + more)]
    tests = [f"{x} is None" for x in names[: len(tensors)] if x not in looked_at]
    tests += ["modes._current_level < 0", f"check({', '.join(looked_at)})"]
    pointers = " | ".join(f"{x}.data_ptr()" for x in looked_at)
    every = names
    if mode is not None:
        every, tests = [*names, "mode"], ["mode == own", *tests]
    text = (
        f"def run({', '.join(every)}):\n"
        f" if {' and '.join(tests)} and not ({pointers}) % {ALIGNMENT}:\n"
        f"  return other({', '.join(names)})\n"
    )
    return defined(text, {"modes": forward_ad, "check": check, "other": run, "own": mode})
