"""Values that a call computes and its backward pass reads.

A backward pass computes much of what its call has computed once more, as what is kept between them
is little. Where the values that both compute have few elements, they are kept as well: the tape of
the call returns them beside its results, and that of the backward pass takes them beside its own
values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from monocomp.backends.tape.recorder import Recorder, Step, Value, needed
from monocomp.backends.tape.recording import Record, Recording
from monocomp.backends.tape.softmax import normalised
from monocomp.backends.tape.tape import Tape, made_of_numbers
from monocomp.backends.tape.tile import flat, in_order
from monocomp.backends.tape.weights import Quotients
from monocomp.machine.cpu import CPU


def shared(
    first: Recording, second: Recording, sources: Sequence[int], count: int
) -> tuple[Tape, Tape, int] | None:
    """Return the tapes of two calls of which the second takes, after its own values, what the first
    returns after its results, and how much that is; None where there is nothing to share, or too
    much.

    Args:
        sources: for each value of the second call where it is among the values of the first and
            then its results; -1 for one that is not.
        count: of the results that the first returns; of others it returns what the second reads.
    """
    before = first.record()
    values = [*(before.inputs[n] for n in range(len(before.inputs))), *before.results]
    plain = [t.is_plain for t in second.tensors.values()]
    plain += [True] * len(second.params)
    known = {n: values[at] for n, at in enumerate(sources) if at >= 0 and plain[n]}
    recorder, quotients = _later(before, second.count)
    after = second.record(recorder, known)
    returned = before.results[:count]
    given = {*before.recorder.inputs, *returned}
    inputs = [
        known[n] if n in known and known[n] in given else own
        for n, own in enumerate(after.recorder.inputs)
    ]
    every = [*before.recorder.inputs, *after.recorder.inputs], [*returned, *after.results]
    every_step = quotients.where_masked(needed(after.recorder.steps, *every))
    steps, same = normalised(needed(every_step, *every), every[1])
    bases = [*map(flat, before.results)]
    own, inputs, computed, bases, gradients = (
        [same(v) for v in values]
        for values in (before.recorder.inputs, inputs, before.results, bases, after.results)
    )
    results = computed[:count]
    later, numbers = _reading(steps, results), own[len(first.tensors) :]
    made = needed(steps, own, [*computed, *bases])
    of_numbers = made_of_numbers(made, numbers, computed)
    both = _shared(made, results, later, inputs, gradients, of_numbers)
    both = _fitting(both, later, inputs, gradients)
    if not both:
        return None
    copies, kept = Recorder(0), {v.root for v in both if v not in results}
    # Autograd sees whether results are written to that are kept, but not their other views.
    results = [copies.copy(v) if v.root in kept else v for v in results]
    before_tape = Tape([*steps, *copies.steps], own, [*results, *both], numbers)
    numbers = inputs[len(second.tensors) :]
    return before_tape, Tape(later, [*inputs, *both], gradients, numbers), len(both)


def _reading(steps: Sequence[Step], results: Sequence[Value]) -> list[Step]:
    """Return steps that read what results are views of from these."""
    bases = _bases(results)
    views = [
        Step(torch.Tensor.as_strided, (r,), base, False, False, (base.shape, base.strides))
        for base, r in bases.items()
    ]
    return [*views, *(s for s in steps if s.result not in bases)]


def _bases(results: Sequence[Value]) -> dict[Value, Value]:
    """Return the results by what they are views of, where its strides are known."""
    bases = {flat(r): r for r in results}
    return {v: r for v, r in bases.items() if v is not r and v.strides is not None}


def _later(before: Record, count: int) -> tuple[Recorder, Quotients]:
    """Return a recorder of a call that may read what another one has computed, and the quotients of
    that."""
    recorder = Recorder(count, before.recorder)
    steps = needed(recorder.steps, before.recorder.inputs, before.results)
    bases = ((v, in_order(v)) for v in before.results)
    of_results = {v: base for v, base in bases if base is not None}
    quotients = Quotients((s.result for s in steps), of_results)

    def laws(key: object, operands: Sequence[Value]) -> Value | None:
        if key == "mul":
            return quotients.scaled(recorder, operands)
        return quotients.of(recorder, operands[0]) if key == "exp2" else None

    recorder.laws = laws
    return recorder, quotients


def _shared(
    first: Sequence[Step],
    results: Sequence[Value],
    steps: Sequence[Step],
    inputs: Sequence[Value],
    gradients: Sequence[Value],
    of_numbers: set[Value],
) -> list[Value]:
    """Return the values that a call computes and the next one reads: its results, and tensors with
    memory of their own.

    Args:
        first: the steps of the call.
        results: what it returns.
        steps: of the next one, and of the call.
        inputs, gradients: of the next one.
        of_numbers: what each computes for itself, once for its numbers.
    """
    made = (s.result for s in first)
    computed = {v for v in made if v.is_owned and v.root is v and v.is_contiguous}
    computed = (computed - _bases(results).keys() - of_numbers | {*results}) - {*inputs}
    second = needed(steps, inputs, gradients, computed.__contains__)
    read = dict.fromkeys(v for s in second for v in s.operands)
    return [v for v in read if v in computed]


def _fitting(
    values: Sequence[Value],
    steps: Sequence[Step],
    inputs: Sequence[Value],
    gradients: Sequence[Value],
) -> list[Value]:
    """Return those of the values that two calls share that are kept between them: where they are
    too many, those go first that fewest steps make of others."""
    kept = [*values]

    def more_steps(v: Value) -> int:
        others = {*kept} - {v}
        return len(needed(steps, inputs, gradients, others.__contains__))

    while sum(math.prod(v.shape) for v in kept) > CPU.shared:
        kept.remove(min(kept, key=more_steps))
    return kept
