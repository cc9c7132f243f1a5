"""Calls that autograd records: the program that also returns what it saves, and its gradients.

The backward pass is a call of a kernel like any other, so it can be differentiated in turn. What is
derived depends on which inputs need a gradient, and on which results have got one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.autograd import forward_ad

from monocomp import terms as T
from monocomp.calls.batching import batched
from monocomp.declarations.records import Output
from monocomp.declarations.vocabulary import DTYPES
from monocomp.gradients.derived import gradient
from monocomp.gradients.reverse import LEAVES

if TYPE_CHECKING:
    from monocomp.calls.calls import Calls
    from monocomp.host.plan import Plan

Names: TypeAlias = tuple[str, ...]
Values: TypeAlias = Mapping[str, Any]  # of inputs and parameters
_PLAIN = (torch.Tensor, torch.nn.Parameter)
is_grad_enabled = torch.is_grad_enabled
is_cast = torch._C._is_any_autocast_enabled  # may operations get tensors in other dtypes?


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
        self._sites: dict[Names, Site] = {}
        self._batches: dict[Names, Calls] = {}

    def batch(self, own: Names) -> Calls:
        """Calls of the program for a batch, in which each call has its own of some tensors."""
        found = self._batches.get(own)
        if found is None:
            calls = self.calls.of(batched(self.program, own))
            found = self._batches.setdefault(own, calls)
        return found

    def site(self, names: Names) -> Site:
        """Calls with tensors of these names."""
        found = self._sites.get(names)
        if found is None:
            found = self._sites.setdefault(names, Site(self, names))
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


def is_watched() -> bool:
    """May a call on plain tensors, none of which needs a gradient, have to be more than run?"""
    is_traced = torch._C._len_torch_dispatch_stack() > 0 or forward_ad._current_level >= 0
    return is_traced or torch._C._are_functorch_transforms_active()


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
    if not is_transformed():
        return requiring(values) or None if torch.is_grad_enabled() else None
    # What an outer transform asks for cannot be seen.
    floats = ((n, v) for n, v in values.items() if kinds[n] == "float")
    return tuple(n for n, v in floats if isinstance(v, torch.Tensor))


def requiring(values: Values) -> Names:
    """The names of tensors that require a gradient."""
    return tuple([n for n, v in values.items() if isinstance(v, torch.Tensor) and v.requires_grad])


def function() -> type[torch.autograd.Function]:
    """What records calls here."""
    return Transformed if is_transformed() else Call


def recorded(
    forward: Forward,
    tensors: Values,
    others: Values,
    function: type[torch.autograd.Function],
    plan: Plan | None = None,
) -> tuple[torch.Tensor, ...]:
    """The results of a call, with their gradients.

    Args:
        forward: what is called.
        tensors: inputs, and parameters that need a gradient.
        others: the other parameters.
        function: what tells autograd.
        plan: that of the call, if it is known.
    """
    site = forward.site(tuple(tensors))
    results: tuple[torch.Tensor, ...] = function.apply(  # type: ignore[no-untyped-call]
        site, others, plan, *tensors.values()
    )
    return results[: len(forward.results)]


class Call(torch.autograd.Function):
    """A call that autograd records."""

    @staticmethod
    def forward(
        ctx: Any, site: Site, others: Values, plan: Plan | None, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        values = dict(zip(site.names, tensors, strict=True))
        if others:
            values.update(others)
        results = site.forward.calls.call(values, plan)
        ctx.recorded = Recorded(ctx, site, others, tensors, results)
        return results

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        return None, None, None, *ctx.recorded.gradients(ctx, cotangents)


class Transformed(torch.autograd.Function):
    """The same for the transforms of torch.func, and forward mode."""

    generate_vmap_rule = False

    @staticmethod
    def forward(
        site: Site, others: Values, plan: None, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        values = dict(zip(site.names, tensors, strict=True))
        return site.forward.calls.differentiable({**values, **others})

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        site, others, _, *tensors = inputs
        ctx.recorded = Recorded(ctx, site, others, tensors, output)
        ctx.save_for_forward(*tensors, *output)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        return None, None, None, *ctx.recorded.gradients(ctx, cotangents)

    @staticmethod
    def jvp(ctx: Any, *tangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        recorded: Recorded = ctx.recorded
        return recorded.tangents(ctx, tangents[3:])

    @staticmethod
    def vmap(
        info: Any,
        dims: tuple[Any, ...],
        site: Site,
        others: Values,
        plan: None,
        *tensors: torch.Tensor,
    ) -> tuple[tuple[torch.Tensor, ...], tuple[int | None, ...]]:
        given = dict(zip(site.names, tensors, strict=True))
        places = dict(zip(site.names, dims[3:], strict=True))
        own = tuple(n for n, dim in places.items() if dim is not None)
        calls = site.forward.batch(own)
        values = {n: t.movedim(places[n], 0) if n in own else t for n, t in given.items()}
        for name, of in calls.declared.inputs.items():
            if len(of.dims) > values[name].dim():  # it is given with what each call has its own of
                values[name] = values[name].expand(info.batch_size, *values[name].shape)
        outputs = zip(calls.planner.equations.outputs, site.forward.program.outputs, strict=True)
        is_batch = [len(all_calls.indices) > len(one.indices) for all_calls, one in outputs]
        results = calls.differentiable({**values, **others})
        return results, tuple(0 if n else None for n in is_batch)


class Site:
    """Calls with tensors of some names: what they keep, and how gradients come from that.

    Args:
        forward: what is called.
        names: of the tensors.

    Attributes:
        kept: the places of what is kept, among the tensors and the results.
        sized: those of the tensors of which a backward pass may ask for the size.
    """

    def __init__(self, forward: Forward, names: Names) -> None:
        self.forward, self.names = forward, names
        every = (*names, *forward.outputs)
        self._saved = tuple(n for n in forward.kept if n in every)
        self.kept = tuple(map(every.index, self._saved))
        self.sized = tuple(map(every.index, forward.others))
        self._routes: dict[object, Route] = {}

    def route(
        self,
        needed: tuple[bool, ...],
        present: tuple[bool, ...],
        dtypes: tuple[torch.dtype, ...],
    ) -> Route:
        """How gradients are computed.

        Args:
            needed: by tensor, is its gradient?
            present: by result, has it a gradient?
            dtypes: of the tensors.
        """
        key = needed, present, dtypes
        found = self._routes.get(key)
        if found is None:
            wrt = dict(compress(zip(self.names, dtypes, strict=True), needed))
            given = tuple(compress(self.forward.outputs, present))
            if wrt and given:
                found = Route.of(self.forward.backward(wrt, given), self._saved, self)
            else:
                found = Route(None, (), ())
            self._routes[key] = found
        return found


@dataclass(frozen=True)
class Route:
    """How the gradients of a call come from what it has kept.

    Attributes:
        backward: computes them; None where there are none.
        values: its inputs, by their names, and their places in what is kept, and cotangents.
        results: by tensor of the call, the place of its gradient.
    """

    backward: Backward | None
    values: tuple[tuple[str, int], ...]
    results: tuple[int | None, ...]

    @classmethod
    def of(cls, backward: Backward, saved: Names, site: Site) -> Route:
        """That of a backward pass."""
        names = [*saved, *(backward.cotangents.get(o, "") for o in site.forward.outputs)]
        values = tuple((n, place) for place, n in enumerate(names) if n)
        wrt = backward.wrt
        return cls(backward, values, tuple(wrt.index(n) if n in wrt else None for n in site.names))


class Recorded:
    """A call until its gradients are asked for; its tensors are in autograd's care.

    Args:
        ctx: what autograd gives to functions.
        site: what was called.
        others: with which parameters that are no tensors.
        tensors: with which tensors.
        results: of the call.
    """

    __slots__ = ("dtypes", "others", "shapes", "site")

    def __init__(
        self,
        ctx: Any,
        site: Site,
        others: Values,
        tensors: Sequence[torch.Tensor],
        results: tuple[torch.Tensor, ...],
    ) -> None:
        self.site, self.others = site, others
        self.dtypes = tuple([t.dtype for t in tensors])
        self.shapes = [tensors[n].shape for n in site.sized]
        ctx.set_materialize_grads(False)
        if site.forward.constant:
            ctx.mark_non_differentiable(*[results[n] for n in site.forward.constant])
        every = (*tensors, *results)
        ctx.save_for_backward(*[every[n] for n in site.kept])

    def gradients(
        self, ctx: Any, cotangents: Sequence[torch.Tensor | None]
    ) -> Iterable[torch.Tensor | None]:
        """The gradients of the tensors of the call, as far as they are needed."""
        site = self.site
        present = tuple([c is not None for c in cotangents])
        route = site.route(ctx.needs_input_grad[3:], present, self.dtypes)
        if route.backward is None:
            return [None] * len(self.dtypes)
        every = (*ctx.saved_tensors, *cotangents)
        values = {name: every[place] for name, place in route.values}
        if self.others:
            values.update(self.others)
        for place, shape in zip(site.sized, self.shapes, strict=True):
            of_any = next(c for c in cotangents if c is not None)
            like = of_any.new_zeros((), dtype=self.dtypes[place])
            values[site.names[place]] = like.expand(shape)
        found = route.backward(values)
        return [None if place is None else found[place] for place in route.results]

    def tangents(
        self, ctx: Any, tangents: Sequence[torch.Tensor | None]
    ) -> tuple[torch.Tensor | None, ...]:
        """The tangents of the results of the call."""
        forward, names = self.site.forward, self.site.names
        given = {n: t for n, t in zip(names, tangents, strict=True) if t is not None}
        values = dict(zip((*names, *forward.outputs), ctx.saved_tensors, strict=True))
        found = forward.tangents(given, {**self.others, **values})
        return tuple(found.get(o) for o in forward.outputs)
