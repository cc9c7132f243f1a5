"""Choose the values that the forward saves; the backward pass computes the others anew.

A value is saved where to store it once and to read it again costs less than to compute it, by the
one cost model (`costs.cost`). It may have no more elements than the largest tensor that a call
gives or gets, so that nothing that fusion removed comes back. Logarithms are saved then; any other
value has to be worth it within both programs, which are planned with it and without, as kernels may
compute it anyway. One that is not small beside all tensors has to save more than a little time:
calls keep what they get and some numbers a row, unless that would be slow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from monocomp import terms as T
from monocomp.costs.closing import close
from monocomp.costs.cost import BYTE_TIME, STORED_BYTES
from monocomp.costs.counting import elements, tensor_sizes
from monocomp.costs.holding import WORTHWHILE, estimate
from monocomp.declarations.records import Output
from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS
from monocomp.derivation import rule_sets
from monocomp.display.formulas import Formula
from monocomp.errors import LimitError, UnsupportedError, UsageError, did_you_mean
from monocomp.extents.nominal import nominal_sizes
from monocomp.extents.prefixes import prefix_of
from monocomp.gradients.gradient import Choice, GradientPrograms
from monocomp.gradients.saving import Saved, as_logsumexp, is_logarithm
from monocomp.gradients.stored_values import definitions_of
from monocomp.planning.arranging import arrange
from monocomp.planning.search import TOLERABLE, Budget
from monocomp.rewriting.driver import OF_LOGITS
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations

_SMALL = 16  # times as much have a call's tensors together
_WORTH_MEMORY = 0.85  # what is left of the time; more than that is not worth a large value
_PLANNED = 300  # terms of programs that are planned to be weighed, which takes long for more


def choose(
    program: Equations,
    outputs: Sequence[Equation],
    values: Sequence[Saved],
    sizes: Mapping[str, int],
    asked: Iterable[str] | None,
    definitions: Mapping[str, Equation],
) -> list[Choice]:
    """Return a choice for each output, and then for each value that may be saved.

    Args:
        program: in normal form.
        outputs: those that may be read again.
        values: by their final names.
        sizes: extents that are known, by representative.
        asked: what to save, by name; None where cost decides.
        definitions: others that could be saved, by name.

    Raises:
        UsageError: a name is that of no output and no value, or of an input.
    """
    equations = [*outputs, *(v.equation for v in values)]
    shown = {e.name: program.shown(e.body) for e in equations}
    if asked is not None:
        own = _own_names(program, values)
        wanted = [own.get(name, name) if name not in shown else name for name in asked]
        for name in wanted:
            if name not in shown:
                more = {n: program.shown(e.body) for n, e in definitions.items()}
                raise _not_saved(program, name, shown | more)
        return [
            Choice(
                e.name,
                shown[e.name],
                e.name in wanted,
                "as asked for",
                is_logarithm=is_logarithm(e.body),
            )
            for e in equations
        ]
    known = _sizes(program, sizes)
    running = "as both passes have to weigh by the same number"
    reasons = {e.name: running if e.name in definitions else "as it is returned" for e in outputs}
    return [
        *(Choice(name, shown[name], True, reason) for name, reason in reasons.items()),
        *(_by_cost(program, v.equation, known) for v in values),
    ]


def _not_saved(program: Equations, name: str, could: Mapping[str, Formula]) -> UsageError:
    """Say why a value cannot be saved, and which can."""
    if name in program.declared.inputs:
        return UsageError(
            f"'{name}' is an input, which gradients read as it is given",
            help=f"leave '{name}' out of what is saved",
        )
    is_rounded = any(e.name == name and e.body.kind == "float" for e in program.outputs)
    exact = f"what weights are made of is read as it was summed: return {name}: accumulated"
    values = (f"{n} = {value}" for n, value in could.items())
    return UsageError(
        f"there is no value '{name}' to save",
        notes=("what can be saved:", *values) if could else ("nothing can be saved",),
        help=exact if is_rounded else did_you_mean(name, [*could]),
    )


def running_exponents(program: Equations, known: Mapping[str, int]) -> list[str]:
    """Return the small definitions in exponents that are prefixes, which the backward pass reads.

    A running sum rounds by the order in which it is added up, and by more the longer it is. Weights
    exp(L[t] - L[s]) of which the forward pass has others than the backward pass do not cancel in
    the gradient of L as they do in the reals.
    """
    sizes = _sizes(program, known)
    prefixes = {n: e for n, e in definitions_of(program).items() if _is_running(e)}
    reads = {
        n for e in program.equations for t in T.subterms(e.body) if _is_power(t) for n in t.names
    }
    while more := {n for name in reads for n in program.by_name[name].body.names} - reads:
        reads |= more
    return [
        name
        for name, e in prefixes.items()
        if name in reads and _is_small(program, e.indices, sizes)
    ]


def _is_running(e: Equation) -> bool:
    """True if an equation computes a prefix along one of its indices."""
    return any(
        t.attr.name not in KEEPING_REDUCTIONS and t.attr.target is None
        if t.op == "fold_at"
        else prefix_of(t) in e.indices
        for t in T.subterms(e.body)
    )


def _is_power(t: Term) -> bool:
    """True if the operands of a term are exponents."""
    return t.op == "exp" or (t.op in ("fold", "fold_at") and t.attr.monoid in OF_LOGITS)


def _own_names(program: Equations, values: Sequence[Saved]) -> dict[str, str]:
    """Return the names of values that the program returns by names of its own, in another dtype."""
    by_text = {close(v.equation.body)[0]: v.equation.name for v in values}
    returned = {e.name: close(as_logsumexp(e.body))[0] for e in program.outputs}
    return {name: by_text[text] for name, text in returned.items() if text in by_text}


def weighed(
    gradient: GradientPrograms,
    derive: Callable[[list[str]], GradientPrograms],
    times: Times,
) -> GradientPrograms:
    """Return the gradients with the choice of values to save with which both programs cost least.

    Args:
        gradient: with all that are worth it by themselves.
        derive: gives those with others.
        times: what both programs take.
    """
    kept = {c.name: c for c in gradient.choices}
    groups: dict[tuple[T.Term, ...], list[str]] = {}
    for c in gradient.choices:
        if c.is_open:
            groups.setdefault(gradient.saved[c.name].indices, []).append(c.name)
    known = _sizes(gradient.program, times.sizes)
    best = gradient
    for indices in sorted(groups, key=len, reverse=True):
        names = groups[indices]
        without = derive([n for n, c in kept.items() if c.is_saved and n not in names])
        more, less = times.of(best), times.of(without)
        is_small = _is_small(gradient.program, indices, known)
        is_worth_it = more < less * (1 / TOLERABLE if is_small else _WORTH_MEMORY)
        shown = " and ".join(names) if len(names) > 1 else "it"
        reason = f"forward and backward cost {more:.3g} with {shown} and {less:.3g} without"
        for name in names:
            kept[name] = replace(kept[name], is_saved=is_worth_it, reason=reason, is_open=False)
        best = best if is_worth_it else without
    return replace(best, choices=tuple(kept.values()))


def large_values(gradient: GradientPrograms, sizes: Mapping[str, int]) -> list[str]:
    """Return the values that are saved and are not small, but for logarithms, with their maxima,
    and outputs."""
    known = _sizes(gradient.program, sizes)
    return [
        name
        for name, e in gradient.saved.items()
        if name not in gradient.program.by_name
        and not is_logarithm(e.body)
        and name not in gradient.frames.values()
        and not _is_small(gradient.program, e.indices, known)
    ]


class Times:
    """The times of gradients, as estimated: programs that several of them have in common are
    planned once.

    Attributes:
        sizes: extents that are known, by representative.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self._planned: list[tuple[Equations, float]] = []

    def of(self, gradient: GradientPrograms) -> float:
        """Estimate the time of both programs; infinity if they are too long or cannot be
        planned."""
        programs = gradient.forward, gradient.equations
        if sum(1 for p in programs for _ in T.subterms(*(e.body for e in p.equations))) > _PLANNED:
            return math.inf
        return sum(map(self._of_program, programs))

    def is_far_cheaper(self, one: GradientPrograms, other: GradientPrograms) -> bool:
        """True if the first takes far less time than the other, so that it may store more."""
        return self.of(one) < self.of(other) * WORTHWHILE

    def _of_program(self, program: Equations) -> float:
        for planned, time in self._planned:
            if planned == program and planned.kept == program.kept:
                return time
        known = _sizes(program, self.sizes)
        try:
            time = arrange(rule_sets.derive(program.at(known)).program, known, Budget()).time
        except (LimitError, UnsupportedError):
            time = math.inf
        self._planned.append((program, time))
        return time


def _sizes(program: Equations, known: Mapping[str, int]) -> dict[str, int]:
    given = {e: n for e, n in known.items() if e in program.declared.extent_of.values()}
    return {e: max(n, 1) for e, n in nominal_sizes(program.declared, given).items()}


def _by_cost(program: Equations, value: Equation, sizes: Mapping[str, int]) -> Choice:
    """Return the choice of a value by its own cost; any but a logarithm is weighed again within the
    programs."""
    shown, may_be_weighed = program.shown(value.body), not is_logarithm(value.body)
    size, tensors = elements(value.indices, sizes), tensor_sizes(program, sizes)
    if size > max(tensors):
        reason = f"as it is large: {size:.3g} elements, more than {max(tensors):.3g}"
        return Choice(value.name, shown, False, reason, False, may_be_weighed)
    keeping = 2 * size * STORED_BYTES * BYTE_TIME
    alone = replace(
        program,
        equations=(*(e for e in program.equations if e.name in value.body.names), value),
        declared=replace(program.declared, outputs=(Output(value.name),)),
    )
    computing = sum(k.cost.work for k in estimate(alone, sizes))
    reason = f"by cost: {keeping:.3g} to store and read it, {computing:.3g} to compute it"
    is_saved = computing > keeping
    is_open = is_saved and may_be_weighed
    return Choice(value.name, shown, is_saved, reason, is_open, may_be_weighed)


def _is_small(program: Equations, indices: Sequence[Term], sizes: Mapping[str, int]) -> bool:
    """True if a value has few elements compared to a call's inputs and outputs together."""
    return elements(indices, sizes) <= sum(tensor_sizes(program, sizes)) // _SMALL
