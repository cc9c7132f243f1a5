"""Calls that torch.compile looks at: Dynamo follows what is here, and nothing else of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from monocomp.calls.operators import Results, operator
from monocomp.calls.paths import of_key
from monocomp.declarations.binding import signature
from monocomp.declarations.given import cast


def traced(key: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Results:
    """Return a call while Dynamo looks at it: that of an operator, with the same arguments."""
    tensors = [n for n, v in kwargs.items() if isinstance(v, torch.Tensor)]
    name = _name(key, len(args), ",".join(kwargs), ",".join(tensors))
    given = {f"{n}_": cast(v) for n, v in kwargs.items()}
    results: Results = getattr(torch.ops.monocomp, name)(*map(cast, args), **given)
    return results


def _name(key: str, args: int, kwargs: str, tensors: str) -> str:
    """Return the name of an operator, which is registered."""
    calls = of_key(key)
    assert calls is not None  # of the kernel that is called
    # The errors of any call.
    names = [n for n in kwargs.split(",") if n]
    signature(calls.declared, [None] * args, dict.fromkeys(names))
    return operator(calls, dict.fromkeys(tensors.split(","), torch.empty(0))).name


torch.compiler.assume_constant_result(_name)  # type: ignore[no-untyped-call]
