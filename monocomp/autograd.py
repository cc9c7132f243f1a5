"""Calls that autograd records: the program that also returns what it saves, and its gradients.

The backward pass is a call of a kernel like any other, so it can be differentiated in turn. What is
derived depends on which inputs need a gradient, and on which results have got one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.autograd import forward_ad

from monocomp import terms as T
from monocomp.declarations import Output
from monocomp.gradients.derived import gradient
from monocomp.gradients.reverse import LEAVES
from monocomp.vocabulary import DTYPES

if TYPE_CHECKING:
    from monocomp.calls import Calls

Names: TypeAlias = tuple[str, ...]
Values: TypeAlias = Mapping[str, Any]  # of inputs and parameters
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class Forward:
    """A program for calls in which some inputs need gradients.

    Args:
        calls: of the program.
        wrt: the inputs and parameters that need gradients.

    Attributes:
        calls: compute its results, and then what the backward pass reads of its values.
        results: the names of the results that it has as it is written.
        outputs: the names of all.
        constant: the places of those that have no gradient.
        kept: the names of what a backward pass may read.
        others: those of the other inputs, of which it may ask for the size.
        backwards: what computes gradients, by which and of what.
    """

    def __init__(self, calls: Calls, wrt: Names) -> None:
        program = calls.planner.equations
        found = gradient(program, wrt)
        self.program = found.forward
        self.calls = calls.of(self.program)
        self.results = tuple(o.name for o in program.declared.outputs)
        self.outputs = tuple(o.name for o in self.program.declared.outputs)
        kinds = [e.body.kind for e in self.program.outputs]
        self.constant = tuple(n for n, kind in enumerate(kinds) if kind != "float")
        more = [e for e in found.saved.values() if e.name not in self.results]
        # Second derivatives go through what is saved.
        self.kept = _leaves([*found.equations.given, *found.equations.equations, *more])
        self.others = tuple(n for n in program.declared.inputs if n not in self.kept)
        self.pushed: dict[Names, tuple[Calls, dict[str, str], dict[str, str]]] = {}
        self.backwards: dict[tuple[object, ...], Backward] = {}
        self._layouts: dict[Names, tuple[tuple[int, ...], Names]] = {}

    def layout(self, names: Names) -> tuple[tuple[int, ...], Names]:
        """Which of the tensors of a call with these names, and of its results, are kept: their
        places and names."""
        found = self._layouts.get(names)
        if found is None:
            every = (*names, *self.outputs)
            kept = tuple(n for n in self.kept if n in every)
            found = self._layouts[names] = tuple(map(every.index, kept)), kept
        return found

    def backward(self, wrt: Mapping[str, torch.dtype], outputs: Names) -> Backward:
        """What computes gradients.

        Args:
            wrt: of which inputs and parameters, in which dtypes.
            outputs: which results have gradients themselves.
        """
        key = (*wrt.items(), *outputs)
        found = self.backwards.get(key)
        if found is None:
            found = self.backwards.setdefault(key, Backward.of(self, wrt, outputs))
        return found

    def tangents(self, given: Values, values: Values) -> dict[str, torch.Tensor]:
        """Tangents of results by name: the derivative of gradients, which are linear in those of
        results, with respect to these.

        Args:
            given: tangents of inputs and parameters, by name.
            values: inputs, parameters and results, by name.
        """
        wrt = tuple(given)
        outputs = tuple(o for n, o in enumerate(self.outputs) if n not in self.constant)
        found = self.pushed.get(wrt)
        if found is None:
            pulled = gradient(self.program, wrt, outputs, plans=False)
            names = tuple(pulled.cotangents[o] for o in outputs)
            results = tuple(pulled.gradients[n] for n in wrt)
            pushed = gradient(pulled.equations, names, results, plans=False)
            calls = self.calls.of(pushed.equations)
            tangents = {n: pushed.cotangents[pulled.gradients[n]] for n in wrt}
            found = self.pushed[wrt] = calls, tangents, dict(zip(outputs, names, strict=True))
        calls, tangents, cotangents = found
        known = dict(values)
        known.update((tangents[n], t) for n, t in given.items())
        names = (*calls.declared.inputs, *calls.declared.params)
        # They do not matter, but for their sizes.
        known.update((n, torch.zeros_like(values[o])) for o, n in cotangents.items() if n in names)
        found_tangents = calls.differentiable({n: known[n] for n in names if n in known})
        return dict(zip(outputs, found_tangents, strict=True))


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
    def of(cls, forward: Forward, wrt: Mapping[str, torch.dtype], outputs: Names) -> Backward:
        """That of a program, for results that have gradients, in the dtypes of inputs."""
        found = gradient(forward.program, tuple(wrt), outputs, plans=False)
        dtypes = {n: str(dtype).removeprefix("torch.") for n, dtype in wrt.items()}
        results = tuple(
            Output(found.gradients[n], dtype if dtype in DTYPES else None)
            for n, dtype in dtypes.items()
        )
        declared = replace(found.equations.declared, outputs=results)
        calls = forward.calls.of(replace(found.equations, declared=declared))
        again = replace(
            found.forward.declared,
            outputs=tuple(
                o
                for o in found.forward.declared.outputs
                if o.name in found.saved and o.name not in forward.outputs
            ),
        )
        recompute = None
        if again.outputs:
            recompute = forward.calls.of(replace(found.forward, declared=again))
        names = (*declared.inputs, *declared.params)
        return cls(calls, names, tuple(wrt), found.cotangents, recompute)

    def __call__(self, cotangents: Values, values: Values) -> dict[str, torch.Tensor]:
        """Gradients by name.

        Args:
            cotangents: of results, by name.
            values: inputs, parameters and results, by name.
        """
        known = dict(values)
        if self.recompute is not None:
            outputs = (o.name for o in self.recompute.declared.outputs)
            declared = self.recompute.declared
            names = (n for n in (*declared.inputs, *declared.params) if n in values)
            results = self.recompute.differentiable({n: values[n] for n in names})
            known.update(zip(outputs, results, strict=True))
        for name, given in cotangents.items():
            known[self.cotangents[name]] = given
        results = self.calls.differentiable({n: known[n] for n in self.names if n in known})
        return dict(zip(self.wrt, results, strict=True))


def _leaves(equations: Iterable[T.Equation]) -> Names:
    """The inputs and parameters that equations read."""
    read = [s for s in T.subterms(*(e.body for e in equations)) if s.op in LEAVES]
    return tuple(dict.fromkeys(s.attr.name if s.op == "stored" else s.attr for s in read))


def is_traced(values: Values) -> bool:
    """Is a call not to be run, or not on these tensors themselves?"""
    if torch._C._len_torch_dispatch_stack():
        return True
    for value in values.values():
        if type(value) not in _PLAIN and isinstance(value, torch.Tensor):
            return True
    return False


def is_transformed() -> bool:
    """May tensors stand for others, or carry tangents?"""
    is_pushed = forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled()
    return is_pushed or torch._C._are_functorch_transforms_active()


def wanted(kinds: Mapping[str, str], values: Values) -> Names | None:
    """The floats among the values of a call of which a gradient may be asked for; None where the
    call need not be recorded.

    Args:
        kinds: of inputs and parameters, by name.
        values: theirs.
    """
    transformed = is_transformed()
    if not transformed and not torch.is_grad_enabled():
        return None
    found = []
    for name, value in values.items():
        is_float = kinds[name] == "float" and isinstance(value, torch.Tensor)
        # What an outer transform asks for cannot be seen.
        if is_float and (transformed or value.requires_grad):
            found.append(name)
    return tuple(found) if found or transformed else None


def function() -> type[torch.autograd.Function]:
    """What records calls here."""
    return Transformed if is_transformed() else Call


def recorded(
    forward: Forward,
    tensors: Values,
    others: Values,
    function: type[torch.autograd.Function],
) -> tuple[torch.Tensor, ...]:
    """The results of a call, with their gradients.

    Args:
        forward: what is called.
        tensors: inputs, and parameters that need a gradient.
        others: the other parameters.
        function: what tells autograd.
    """
    results: tuple[torch.Tensor, ...] = function.apply(  # type: ignore[no-untyped-call]
        forward, tuple(tensors), others, *tensors.values()
    )
    return results[: len(forward.results)]


class Call(torch.autograd.Function):
    """A call that autograd records."""

    @staticmethod
    def forward(
        ctx: Any,
        forward: Forward,
        names: Names,
        others: Values,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        results = forward.calls.call({**others, **dict(zip(names, tensors, strict=True))})
        ctx.recorded = Recorded(ctx, forward, names, others, tensors, results)
        return results

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        return None, None, None, *ctx.recorded.gradients(ctx, ctx.needs_input_grad[3:], cotangents)


class Transformed(torch.autograd.Function):
    """The same for the transforms of torch.func, and forward mode."""

    generate_vmap_rule = False

    @staticmethod
    def forward(
        forward: Forward, names: Names, others: Values, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return forward.calls.differentiable({**dict(zip(names, tensors, strict=True)), **others})

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        forward, names, others, *tensors = inputs
        ctx.recorded = Recorded(ctx, forward, names, others, tensors, output)
        ctx.save_for_forward(*tensors, *output)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        return None, None, None, *ctx.recorded.gradients(ctx, ctx.needs_input_grad[3:], cotangents)

    @staticmethod
    def jvp(ctx: Any, *tangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        recorded: Recorded = ctx.recorded
        return recorded.tangents(ctx, tangents[3:])

    @staticmethod
    def vmap(
        info: Any,
        dims: tuple[Any, ...],
        forward: Forward,
        names: Names,
        others: Values,
        *tensors: Any,
    ) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
        found = []
        for n in range(info.batch_size):
            pairs = zip(tensors, dims[3:], strict=True)
            of_one = (t if dim is None else t.select(dim, n) for t, dim in pairs)
            results = Transformed.apply(forward, names, others, *of_one)  # type: ignore[no-untyped-call]
            found.append(results)
        return tuple(torch.stack(each) for each in zip(*found, strict=True)), (0,) * len(found[0])


class Recorded:
    """A call until its gradients are asked for; its tensors are in autograd's care.

    Args:
        ctx: what autograd gives to functions.
        forward: what was called.
        names, tensors: with which tensors.
        others: with which parameters that are none.
        results: of the call.
    """

    def __init__(
        self,
        ctx: Any,
        forward: Forward,
        names: Names,
        others: Values,
        tensors: Sequence[torch.Tensor],
        results: tuple[torch.Tensor, ...],
    ) -> None:
        self.forward, self.names, self.others = forward, names, others
        self.dtypes = [t.dtype for t in tensors]
        places, self.kept = forward.layout(names)
        every = (*tensors, *results)
        self.sized: Sequence[tuple[str, torch.Size, torch.dtype]] = ()
        if forward.others:
            given = dict(zip(names, tensors, strict=True))
            self.sized = [(n, given[n].shape, given[n].dtype) for n in forward.others]
        ctx.set_materialize_grads(False)
        if forward.constant:
            ctx.mark_non_differentiable(*[results[n] for n in forward.constant])
        ctx.save_for_backward(*[every[n] for n in places])

    def gradients(
        self, ctx: Any, needed: Sequence[bool], cotangents: Sequence[torch.Tensor | None]
    ) -> list[torch.Tensor | None]:
        """The gradients of the tensors of the call, as far as they are needed."""
        names, forward = self.names, self.forward
        wrt = {
            n: d for n, d, is_needed in zip(names, self.dtypes, needed, strict=True) if is_needed
        }
        given = {n: c for n, c in zip(forward.outputs, cotangents, strict=True) if c is not None}
        if not wrt or not given:
            return [None] * len(names)
        values = dict(self.others)
        values.update(zip(self.kept, ctx.saved_tensors, strict=True))
        for name, shape, dtype in self.sized:
            of_any = next(iter(given.values()))
            values[name] = of_any.new_zeros((), dtype=dtype).expand(shape)
        found = forward.backward(wrt, tuple(given))(given, values)
        return [found.get(n) for n in names]

    def tangents(
        self, ctx: Any, tangents: Sequence[torch.Tensor | None]
    ) -> tuple[torch.Tensor | None, ...]:
        """The tangents of the results of the call."""
        pairs = zip(self.names, tangents, strict=True)
        given = {n: t for n, t in pairs if t is not None}
        names = (*self.names, *self.forward.outputs)
        values = dict(zip(names, ctx.saved_tensors, strict=True))
        found = self.forward.tangents(given, {**self.others, **values})
        return tuple(found.get(o) for o in self.forward.outputs)
