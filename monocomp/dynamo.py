"""Calls that torch.compile looks at: Dynamo follows what is here, and nothing else of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from monocomp.arguments import cast
from monocomp.binding import signature
from monocomp.calls import of_key
from monocomp.operators import Results, operator


def traced(key: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Results:
    """A call while Dynamo looks at it: that of an operator, with the same arguments."""
    tensors = [n for n, v in kwargs.items() if isinstance(v, torch.Tensor)]
    name = _name(key, len(args), ",".join(kwargs), ",".join(tensors))
    given = {f"{n}_": cast(v) for n, v in kwargs.items()}
    found: Results = getattr(torch.ops.monocomp, name)(*map(cast, args), **given)
    return found


def _name(key: str, args: int, kwargs: str, tensors: str) -> str:
    """The name of an operator, which is registered."""
    calls = of_key(key)
    # The errors of any call.
    names = [n for n in kwargs.split(",") if n]
    signature(calls.declared, [None] * args, dict.fromkeys(names))
    return operator(calls, dict.fromkeys(tensors.split(","), torch.empty(0))).name


def traced_form(backend: str, given: Mapping[str, Any], *form: Any) -> torch.Tensor:
    """A call of softmax attention (`dot_products`), by the fields of its form."""
    found = traced(_key_of_form(backend, *form), (), given)
    assert isinstance(found, torch.Tensor)
    return found


def _key_of_form(backend: str, *form: Any) -> str:
    """The key of a form's kernel, which is compiled."""
    from monocomp.dot_products import Form

    key: str = Form(*form).kernel(backend).calls.key
    return key


for constant in (_name, _key_of_form):
    torch.compiler.assume_constant_result(constant)  # type: ignore[no-untyped-call]
