"""Programs for calls with gradients: that which also returns what it saves, and its gradients.

The backward pass is a call of a kernel like any other, so it can be differentiated in turn. What is
derived depends on which inputs need a gradient, and on which results have got one. `recording` has
what tells autograd.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch.autograd import forward_ad

from monocomp import terms as T
from monocomp.calls import paths
from monocomp.calls.batching import batched
from monocomp.calls.looks import PLAIN
from monocomp.gradients.derived import gradient
from monocomp.gradients.reverse import LEAVES

if TYPE_CHECKING:
    from monocomp.calls.calls import Calls
    from monocomp.host.plan import Repeat

Names: TypeAlias = tuple[str, ...]
Values: TypeAlias = Mapping[str, Any]  # of inputs and parameters
SYMBOLS = (torch.SymInt, torch.SymFloat)  # sizes, and parameters, that tracing leaves open
is_grad_enabled = torch.is_grad_enabled
is_cast = torch._C._is_any_autocast_enabled  # may operations get tensors in other dtypes?


class Forward:
    """A program for calls in which some inputs need gradients.

    Args:
        calls: of the program.
        wrt: the inputs and parameters that need gradients.
        extents: sizes like those of the calls, by index, where they are known.

    Attributes:
        calls: compute its results, and then what the backward pass reads of its values.
        params: the names of its parameters.
        results: the names of the results that it has as it is written.
        outputs: the names of all.
        constant: the positions of those that have no gradient.
        kept: the names of what a backward pass may read.
        others: those of the other inputs, of which it may ask for the size.
        backwards: what computes gradients, by which and of what.
        sites: what `recording` knows of calls with tensors of some names.
        frames: the names of the maxima that are kept beside logarithms, by those of these.
        free: those of them that have no gradient.
        depends_on_sizes: may other values be saved at other sizes?
        named: what is differentiated by name.
        save: the names of what is kept, if a caller has said which.
    """

    def __init__(self, calls: Calls, wrt: Names, extents: Mapping[str, int]) -> None:
        program = calls.planner.equations
        programs = gradient(program, wrt, save=calls.save, extents=extents)
        self.wrt = wrt
        self.program = programs.forward
        self.calls = calls.of(self.program, paths.forward_step(calls.names, wrt, extents))
        self.params = tuple(program.declared.params)
        self.results = tuple(o.name for o in program.declared.outputs)
        self.outputs = tuple(o.name for o in self.program.declared.outputs)
        self.frames = {n: m for n, m in programs.frames.items() if m not in self.results}
        self.free = programs.free & {*self.frames.values()}
        floats = {e.name for e in self.program.outputs if e.body.kind == "float"}
        floats -= self.free
        self.constant = tuple(n for n, o in enumerate(self.outputs) if o not in floats)
        more = [e for e in programs.saved.values() if e.name not in self.results]
        # Second derivatives go through what is saved.
        self.kept = _leaves([*programs.equations.given, *programs.equations.equations, *more])
        self.others = tuple(n for n in program.declared.inputs if n not in self.kept)
        self._pushed: dict[Names, Pushed] = {}
        self.backwards: dict[tuple[object, ...], Backward] = {}
        self.sites: dict[Names, Any] = {}
        self.named = programs.named
        self.save = None if calls.save is None else tuple(programs.saved)
        self.depends_on_sizes = any(c.depends_on_sizes for c in programs.choices)
        self._batches: dict[Names, Calls] = {}

    def batch(self, own: Names) -> Calls:
        """Return calls of the program for a batch, in which each call has its own of some
        tensors."""
        batch = self._batches.get(own)
        if batch is None:
            step = paths.batch_step(self.calls.names, own)
            calls = self.calls.of(batched(self.program, own), step)
            batch = self._batches.setdefault(own, calls)
        return batch

    def backward(self, wrt: Mapping[str, str], outputs: Names) -> Backward:
        """Return what computes gradients.

        Args:
            wrt: the dtypes of gradients, by input or parameter; "" for the program's own.
            outputs: the results that have gradients themselves.
        """
        key = (*wrt.items(), *outputs)
        backward = self.backwards.get(key)
        if backward is None:
            backward = self.backwards.setdefault(key, Backward.of(self, wrt, outputs))
        return backward

    def tangents(self, given: Values, values: Values) -> dict[str, torch.Tensor]:
        """Return the tangents of results by name: the derivative of gradients, which are linear in
        those of results, with respect to these.

        Args:
            given: tangents of inputs and parameters, by name.
            values: inputs, parameters and results, by name.
        """
        calls, tangents, cotangents = self.pushed(tuple(given))
        known = dict(values)
        known.update((tangents[n], t) for n, t in given.items())
        names = (*calls.declared.inputs, *calls.declared.params)
        # They do not matter, but for their sizes.
        known.update((n, torch.zeros_like(values[o])) for o, n in cotangents.items() if n in names)
        found_tangents = calls.differentiable({n: known[n] for n in names if n in known})
        return dict(zip(cotangents, found_tangents, strict=True))

    def pushed(self, wrt: Names) -> Pushed:
        """Return what computes tangents of results from those of some inputs and parameters."""
        program = self._pushed.get(wrt)
        if program is None:
            outputs = tuple(o for n, o in enumerate(self.outputs) if n not in self.constant)
            pull = partial(gradient, plans=False, frames=self.frames, free=self.free)
            pulled = pull(self.program, wrt, outputs)
            if not pulled.saved.keys() <= {*self.outputs}:
                saved = [n for n in pulled.saved if n in self.outputs]
                pulled = pull(self.program, wrt, outputs, saved)
            names = tuple(pulled.cotangents[o] for o in outputs)
            results = tuple(pulled.gradients[n] for n in wrt)
            # Nobody has computed what the gradients are.
            pushed = gradient(pulled.equations, names, results, [], plans=False)
            calls = self.calls.of(pushed.equations, paths.tangent_step(self.calls.names, wrt))
            tangents = {n: pushed.cotangents[pulled.gradients[n]] for n in wrt}
            program = Pushed(calls, tangents, dict(zip(outputs, names, strict=True)))
            self._pushed[wrt] = program
        return program


class Pushed(NamedTuple):
    """Computes tangents of results.

    Attributes:
        calls: of their program.
        tangents: its inputs that are tangents, by the name of what they are of.
        cotangents: its inputs that are like results, by the name of these.
    """

    calls: Calls
    tangents: Mapping[str, str]
    cotangents: Mapping[str, str]


@dataclass(frozen=True)
class Backward:
    """Computes gradients.

    Attributes:
        calls: of their program.
        names: of its inputs and parameters.
        wrt: those whose gradients it computes.
        cotangents: its inputs that are gradients of results, by the name of the result.
        recompute: what computes values that the forward has not saved, those through which only
            second derivatives go; None where there are none.
    """

    calls: Calls
    names: Names
    wrt: Names
    cotangents: Mapping[str, str]
    recompute: Calls | None

    @classmethod
    def of(cls, forward: Forward, wrt: Mapping[str, str], outputs: Names) -> Backward:
        """Return the backward pass for results that have gradients, in the dtypes of inputs."""
        how = None, False, forward.named, forward.frames, forward.free
        programs = gradient(forward.program, tuple(wrt), outputs, forward.save, *how)
        # With respect to other inputs it may read results that calls do not keep.
        lost = programs.saved.keys() & {*forward.outputs} - {*forward.kept}
        if lost:  # logarithms are asked for, and come with their maxima
            lost |= {*programs.frames.values()}
            save = [n for n in programs.saved if n not in lost]
            programs = gradient(forward.program, tuple(wrt), outputs, save, *how)
        declared = programs.equations.declared
        names = {programs.gradients[n]: dtype for n, dtype in wrt.items()}
        results = (replace(o, dtype=names[o.name] or None) for o in declared.outputs)
        declared = replace(declared, outputs=tuple(results))
        step = paths.backward_step(forward.calls.names, wrt, forward.outputs, outputs)
        calls = forward.calls.of(replace(programs.equations, declared=declared), step)
        again = replace(
            programs.forward.declared,
            outputs=tuple(
                o
                for o in programs.forward.declared.outputs
                if o.name in programs.saved and o.name not in forward.outputs
            ),
        )
        recompute = None
        if again.outputs:
            program = replace(programs.forward, declared=again)
            recompute = forward.calls.of(program, step, paths.RECOMPUTED)
        return cls(calls, calls.names, tuple(wrt), programs.cotangents, recompute)

    def __call__(self, values: Values) -> tuple[torch.Tensor, ...]:
        """Gradients.

        Args:
            values: inputs, parameters and results by name, and the cotangents of results by that
                of its inputs.
        """
        if self.recompute is not None:
            outputs = (o.name for o in self.recompute.declared.outputs)
            declared = self.recompute.declared
            names = (n for n in (*declared.inputs, *declared.params) if n in values)
            results = self.recompute.differentiable({n: values[n] for n in names})
            values = {**values, **dict(zip(outputs, results, strict=True))}
        return self.calls.differentiable({n: values[n] for n in self.names if n in values})

    def repeat(self, values: Sequence[Any]) -> Repeat | None:
        """Return what repeats a call with values in the order of `names`, if anything does."""
        return self.calls.found(values) if self.recompute is None else None


def _leaves(equations: Iterable[T.Equation]) -> Names:
    """Return the inputs and parameters that equations read."""
    read = [s for s in T.subterms(*(e.body for e in equations)) if s.op in LEAVES]
    return tuple(dict.fromkeys(map(T.name_of, read)))


def is_traced(values: Values) -> bool:
    """True if a call is not to be run, or not on these tensors themselves."""
    if torch._C._len_torch_dispatch_stack():
        return True
    for value in values.values():
        if type(value) not in PLAIN and isinstance(value, torch.Tensor):
            return True
    return False


def is_watched() -> bool:
    """True if it may not be enough to run a call on plain tensors and have autograd record it.

    A mode may want to see operators, as tracing does; tensors may stand for others, in transforms;
    forward mode wants tangents. The signature of a call holds all else that it depends on.
    """
    is_traced = torch._C._len_torch_dispatch_stack() > 0 or forward_ad._current_level >= 0
    return is_traced or torch._C._are_functorch_transforms_active()


def is_transformed() -> bool:
    """True if tensors may stand for others, or carry tangents."""
    is_pushed = forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled()
    return is_pushed or torch._C._are_functorch_transforms_active()


def wanted(kinds: Mapping[str, str], values: Values) -> Names | None:
    """Return the floats among the values of a call of which a gradient may be asked for; None where
    the call need not be recorded.

    Args:
        kinds: of inputs and parameters, by name.
        values: theirs.
    """
    if not is_transformed():
        return requiring(values) or None if torch.is_grad_enabled() else None
    # What an outer transform asks for cannot be seen.
    floats = ((n, v) for n, v in values.items() if kinds[n] == "float")
    return tuple(n for n, v in floats if isinstance(v, torch.Tensor))


def requiring(values: Values) -> Names:
    """Return the names of tensors that require a gradient."""
    return tuple([n for n, v in values.items() if isinstance(v, torch.Tensor) and v.requires_grad])
