"""Steps as one Python function: a line for each, whose local variables are the values.

The text that is run holds no word of a program: each name in it is a letter and a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from monocomp.backends.tape.recorder import COMMUTATIVE, Step, Value
from monocomp.host.texts import defined

# Nothing that is computed here has a gradient, and no view is told apart from its tensor: no
# operation looks for either.
NotRecorded = torch._C._AutoDispatchBelowADInplaceOrView


def out_of(run: Callable[..., Any]) -> str:
    """Return the name that a function of torch has for the tensor that it writes to."""
    overloads = getattr(torch.ops.aten, getattr(run, "__name__", ""), None)
    written = getattr(overloads, "out", None)
    names = (a.name for a in written._schema.arguments if a.is_out) if written else iter(())
    return next(names, "out")


def in_place_of(run: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the method that writes what a function of torch computes into its first operand, which
    takes less time than to name it as `out`; None if there is none."""
    name = getattr(run, "__name__", "")
    return getattr(torch.Tensor, f"{name}_", None) if getattr(torch, name, None) is run else None


def is_commutative(s: Step) -> bool:
    """True if a step may take its operands in any order."""
    return getattr(s.run, "__name__", "") in {*COMMUTATIVE, "logical_and", "logical_or"}


def function_of(
    inputs: Sequence[Value],
    steps: Sequence[Step],
    results: Sequence[Value],
    into: Mapping[int, Value],
    unread: Mapping[int, Sequence[Value]],
) -> Callable[..., tuple[Any, ...]]:
    """Return steps as a function of the values of a call.

    Args:
        results: the values that it returns.
        into: the values into whose memory steps write, by the number of the step.
        unread: the values that nothing reads after a step, by its number.
    """
    names = {v: f"x{n}" for n, v in enumerate(inputs)}
    held: dict[str, Any] = {}  # what does not depend on the call, by name

    def hold(value: object) -> str:
        name = f"k{len(held)}"
        held[name] = value
        return name

    def name_of(v: Value) -> str:
        if v not in names:
            names[v] = hold(v.known)
        return names[v]

    lines = [f"def run({', '.join(f'x{n}' for n in range(len(inputs)))}):"]
    if any(s.result.root is not s.result for s in steps):  # it takes as long as one or two steps
        lines.append(f" with {hold(NotRecorded)}():")
    else:
        lines.append(" if True:")
    for n, s in enumerate(steps):
        operands, out = s.operands, into.get(n)
        if out is not None and operands[-1] is out and is_commutative(s):
            operands = operands[::-1]
        in_place = in_place_of(s.run) if out is not None and operands[0] is out else None
        given = [*map(name_of, operands), *map(hold, s.arguments)]
        if out is not None and in_place is None:
            given.append(f"{out_of(s.run)}={name_of(out)}")
        names[s.result] = f"v{n}"
        lines.append(f"  v{n} = {hold(in_place or s.run)}({', '.join(given)})")
        lines += [f"  del {names[v]}" for v in unread.get(n, ())]
    lines.append(f"  return ({''.join(f'{name_of(v)}, ' for v in results)})")
    return defined("\n".join(lines), held)
