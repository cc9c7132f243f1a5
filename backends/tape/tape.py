"""A tape: the steps that results need, and whose memory each of them writes to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from monocomp.backends.tape.fusing import fused
from monocomp.backends.tape.recorder import Step, Value, is_kept
from monocomp.backends.tape.source import function_of
from monocomp.host.plan import Gather, gather
from monocomp.machine.cpu import CPU

Results: TypeAlias = Callable[..., tuple[Any, ...]]


class Tape:
    """The steps that results need.

    Args:
        steps: those that have been recorded.
        inputs: the values of a call.
        results: the values that a call returns.
        numbers: the values of a call that are numbers.

    Attributes:
        steps: those that results need.
        kept: what they read that is the same in all calls.
        largest: the elements of the largest value that is computed.
        run: returns the results for the values of a call.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        inputs: Sequence[Value],
        results: Sequence[Value],
        numbers: Sequence[Value] = (),
    ) -> None:
        self.steps = steps = fused(steps, inputs, results)
        of_numbers = made_of_numbers(steps, numbers, results)
        first = [s for s in steps if s.result in of_numbers]
        steps = [s for s in steps if s.result not in of_numbers]
        held = [*dict.fromkeys(v for s in steps for v in s.operands if v in of_numbers)]
        computed = (s.result for s in self.steps if s.result.root is s.result)
        self.largest = max((math.prod(v.shape) for v in computed), default=0)
        made = {s.result for s in steps}
        last_read = {v: n for n, s in enumerate(steps) for v in (s.result, *s.operands)}
        for v in results:
            last_read[v] = len(steps)
        given = [*inputs, *held]
        into = _memory(steps, given, results)
        for n, v in into.items():
            last_read[v] = max(last_read[v], n)
        dead: dict[int, list[Value]] = {}
        for v, n in last_read.items():
            if v in made and math.prod(v.shape) >= CPU.freed:
                dead.setdefault(n, []).append(v)
        read = dict.fromkeys(v for s in self.steps for v in s.operands if v not in made)
        self.kept = [v.known for v in read if v.known is not None]
        self.run = function_of(given, steps, results, into, dead)
        if held:
            make = function_of(inputs, first, held, {}, {})
            self.run = remembering(make, self.run, gather(*map(inputs.index, numbers)))


def made_of_numbers(
    steps: Sequence[Step], numbers: Sequence[Value], results: Sequence[Value]
) -> set[Value]:
    """Return the values that are the same in all calls with the same numbers, and not too large to
    be held between them, but for those in the memory of results."""
    values, returned = {*numbers}, {v.root for v in results}
    for s in steps:
        v, operands = s.result, s.operands
        is_same = all(x in values or is_kept(x) for x in operands) and not values.isdisjoint(
            operands
        )
        is_free = v.key is not None and v.root not in returned
        if is_same and is_free and math.prod(v.shape) <= CPU.kept:
            values.add(v)
    return values.difference(numbers)


def remembering(make: Results, run: Results, numbers: Gather) -> Results:
    """Return a function of the values of a call that computes what depends on numbers alone once
    for calls in turn that have the same.

    Args:
        make: computes that of the values of a call.
        run: computes the results of these and that.
        numbers: takes the numbers from the values.
    """
    last: tuple[tuple[Any, ...], tuple[Any, ...]] | None = None

    def remembered(*values: Any) -> tuple[Any, ...]:
        nonlocal last
        own, known = numbers(values), last
        if known is None or own != known[0]:
            known = last = own, make(*values)
        return run(*values, *known[1])

    return remembered


def _memory(
    steps: Sequence[Step], inputs: Sequence[Value], results: Sequence[Value]
) -> dict[int, Value]:
    """Return the values whose memory steps write their results into, by the number of the step: an
    operand that nothing else reads, or else what nothing reads any more."""
    last_use = {v.root: n for n, s in enumerate(steps) for v in (s.result, *s.operands)}
    last_use |= dict.fromkeys((v.root for v in results), len(steps))
    fresh = {s.result for s in steps if s.takes_out}
    foreign = {v.root for v in inputs}
    free: dict[object, list[Value]] = {}
    into: dict[int, Value] = {}
    for n, s in enumerate(steps):
        alike = free.setdefault(_layout(s.result), [])
        if s.takes_out:
            own = (v for v in s.operands if v.root not in foreign and last_use[v.root] == n)
            taken = next((v for v in own if _takes(s, v)), None)
            taken = alike.pop() if taken is None and alike else taken
            if taken is not None:
                into[n] = taken
        for v in dict.fromkeys(v.root for v in s.operands):
            is_taken = n in into and v is into[n].root
            if v in fresh and last_use[v] == n and not is_taken:
                free.setdefault(_layout(v), []).append(v)
    return into


def _layout(v: Value) -> object:
    return v.shape, v.dtype, v.strides


def _takes(s: Step, v: Value) -> bool:
    """True if a step may write its result into the memory of an operand."""
    is_alike = _layout(v) == _layout(s.result)
    first, others = s.operands[: s.in_place], s.operands[s.in_place :]
    is_alone = all(o is v or o.root is not v.root for o in first) and v in first
    is_alone &= all(o.root is not v.root for o in others)
    return s.takes_out and v.is_whole and is_alike and is_alone
