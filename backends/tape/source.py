"""Steps as one Python function: a line for each, whose local variables are the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from monocomp.backends.tape.recorder import Step, Value


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

    def hold(thing: object) -> str:
        name = f"k{len(held)}"
        held[name] = thing
        return name

    def name_of(v: Value) -> str:
        if v not in names:
            names[v] = hold(v.known)
        return names[v]

    lines = [f"def run({', '.join(f'x{n}' for n in range(len(inputs)))}):"]
    for n, s in enumerate(steps):
        given = [*map(name_of, s.operands), *map(hold, s.arguments)]
        if n in into:
            given.append(f"out={name_of(into[n])}")
        names[s.result] = f"v{n}"
        lines.append(f" v{n} = {hold(s.run)}({', '.join(given)})")
        lines += [f" del {names[v]}" for v in unread.get(n, ())]
    lines.append(f" return ({''.join(f'{name_of(v)}, ' for v in results)})")
    exec("\n".join(lines), held)
    run: Callable[..., tuple[Any, ...]] = held.pop("run")
    return run
