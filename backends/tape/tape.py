"""A tape as functions on registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from monocomp.backends.tape.recorder import Recorder, Step, Value

Registers: TypeAlias = list[Any]
Run: TypeAlias = Callable[[Registers], None]
KEPT = 1 << 18  # elements of what is computed once and kept: what is larger each call computes
FREED = 1 << 14  # elements of what is given back before the call ends


class Tape:
    """The steps that results need, each a function on registers.

    Args:
        recorder: has noted them.
        results: the values that a call returns.
    """

    def __init__(self, recorder: Recorder, results: Sequence[Value]) -> None:
        steps = _needed(recorder.steps, results)
        made = {s.result for s in steps}
        values = [*recorder.inputs, *(v for s in steps for v in (*s.operands, s.result)), *results]
        at = {v: n for n, v in enumerate(dict.fromkeys(values))}
        is_input = dict.fromkeys(recorder.inputs)
        self.count = len(recorder.inputs)
        self.start = [None if v in made or v in is_input else v.known for v in at]
        self.results = [at[v] for v in results]
        last_read = {v: n for n, s in enumerate(steps) for v in (s.result, *s.operands)}
        for v in results:
            last_read[v] = len(steps)
        into = _memory(steps, results)
        for n, v in into.items():
            last_read[v] = max(last_read[v], n)
        dead: dict[int, list[int]] = {}
        for v, n in last_read.items():
            if v in made and math.prod(v.shape) >= FREED:
                dead.setdefault(n, []).append(at[v])
        self.runs: list[Run] = []
        for n, s in enumerate(steps):
            registers, target = [at[v] for v in s.operands], at[into[n]] if n in into else None
            self.runs.append(_run(s.run, registers, at[s.result], target))
            if n in dead:
                self.runs.append(_freeing(dead[n]))

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The results for the values of a call."""
        registers = self.start.copy()
        registers[: self.count] = values
        for run in self.runs:
            run(registers)
        return tuple([registers[n] for n in self.results])


def _needed(steps: Sequence[Step], results: Sequence[Value]) -> list[Step]:
    """The steps that lead to results, but for those to what is kept."""
    needed = {v for v in results if not _is_kept(v)}
    found = []
    for s in reversed(steps):
        if s.result in needed:
            found.append(s)
            needed |= {v for v in s.operands if not _is_kept(v)}
    return found[::-1]


def _is_kept(v: Value) -> bool:
    return v.known is not None and v.known.numel() <= KEPT


def _memory(steps: Sequence[Step], results: Sequence[Value]) -> dict[int, Value]:
    """Return the values whose memory steps write their results into, by the number of the step: an
    operand that nothing else reads, or else what nothing reads any more."""
    last_use = {v.root: n for n, s in enumerate(steps) for v in (s.result, *s.operands)}
    last_use |= dict.fromkeys((v.root for v in results), len(steps))
    fresh = {s.result for s in steps if s.takes_out}
    free: dict[object, list[Value]] = {}
    into: dict[int, Value] = {}
    for n, s in enumerate(steps):
        alike = free.setdefault((s.result.shape, s.result.dtype), [])
        if s.takes_out:
            taken = next((v for v in s.operands if last_use[v.root] == n and _takes(s, v)), None)
            taken = alike.pop() if taken is None and alike else taken
            if taken is not None:
                into[n] = taken
        for v in dict.fromkeys(v.root for v in s.operands):
            if v in fresh and last_use[v] == n and v is not into.get(n):
                free.setdefault((v.shape, v.dtype), []).append(v)
    return into


def _takes(s: Step, v: Value) -> bool:
    """True if a step may write its result into the memory of an operand."""
    is_alike = v.shape == s.result.shape and v.dtype == s.result.dtype
    is_alone = all(o is v or o.root is not v for o in s.operands)
    return s.takes_out and s.is_elementwise and v.is_owned and is_alike and is_alone


def _run(run: Callable[..., Any], operands: list[int], result: int, into: int | None) -> Run:
    """A step on registers; Python takes as long to pass a list of arguments as to add numbers."""

    def none(r: Registers) -> None:
        r[result] = run()

    def one(r: Registers) -> None:
        r[result] = run(r[a])

    def two(r: Registers) -> None:
        r[result] = run(r[a], r[b])

    def more(r: Registers) -> None:
        r[result] = run(*[r[n] for n in operands])

    def one_into(r: Registers) -> None:
        r[result] = run(r[a], out=r[into])  # type: ignore[index]

    def two_into(r: Registers) -> None:
        r[result] = run(r[a], r[b], out=r[into])  # type: ignore[index]

    def more_into(r: Registers) -> None:
        r[result] = run(*[r[n] for n in operands], out=r[into])  # type: ignore[index]

    a, b = (*operands, 0, 0)[:2]
    if into is None:
        return {0: none, 1: one, 2: two}.get(len(operands), more)
    return {1: one_into, 2: two_into}.get(len(operands), more_into)


def _freeing(registers: list[int]) -> Run:
    def free(r: Registers) -> None:
        for n in registers:
            r[n] = None

    return free
