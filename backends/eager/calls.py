"""A program in eager torch, as one would write it: whole tensors, a matrix product for each sum of
products. It is what kernels are timed beside, and no part of any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from monocomp.backends.eager import RESERVED, reference_lines
from monocomp.backends.identifiers import Identifiers
from monocomp.backends.triton.launch import load
from monocomp.terms.equations import Equations


def eager(equations: Equations) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Return a function of the inputs by position, the parameters, and the dtype to compute in.

    Raises:
        UnsupportedError: the program has something that torch has no function for.
    """
    declared = equations.declared
    named = Identifiers(RESERVED)
    names = dict.fromkeys((*declared.inputs, *declared.params, *equations.by_name))
    identifiers = {n: named.of("program", n) for n in (*names, *declared.extent_of)}
    lines = reference_lines(equations, identifiers, contracts=True)
    compute = load("\n".join(["import torch", "", "", *lines, ""])).reference

    def call(
        inputs: Mapping[str, torch.Tensor], params: Mapping[str, Any], dtype: torch.dtype
    ) -> tuple[torch.Tensor, ...]:
        named_params = {identifiers[name]: value for name, value in params.items()}
        results: tuple[torch.Tensor, ...] = compute(
            *(inputs[name] for name in declared.inputs), **named_params, dtype=dtype
        )
        return results

    return call
