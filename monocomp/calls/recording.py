"""Calls that autograd records: what they keep, and how gradients come from that.

A call like an earlier one launches what that launched, and so does its backward pass: which kernels
these are, and with which arguments, is found once for calls that look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from monocomp.calls.autograd import (
    PLAIN,
    Backward,
    Forward,
    Names,
    Values,
    is_grad_enabled,
    is_transformed,
    is_watched,
)

if TYPE_CHECKING:
    from monocomp.backends.triton.replay import Plans
    from monocomp.host.plan import Plan

Results: TypeAlias = tuple[torch.Tensor, ...]
Gradients: TypeAlias = tuple[torch.Tensor | None, ...]
_ALIGNMENT = 16  # bytes, as `replay` looks at it


def recorded(
    forward: Forward,
    tensors: Values,
    others: Values,
    function: type[torch.autograd.Function] | None = None,
) -> Results:
    """The results of a call, with their gradients.

    Args:
        forward: what is called.
        tensors: inputs, and parameters that need a gradient.
        others: the other parameters.
        function: what tells autograd, if it is known.
    """
    if function is None:
        function = Transformed if is_transformed() else Call
    results: Results = function.apply(  # type: ignore[no-untyped-call]
        Recorded(forward, tensors), others, *tensors.values()
    )
    return results[: len(forward.results)]


def repeated(forward: Forward, plans: Plans, plan: Plan, values: Values) -> Results:
    """The same for a call that has a plan, and that nothing but autograd watches.

    Args:
        forward: what is called.
        plans: of its calls.
        plan: of this one.
        values: inputs and parameters.
    """
    call: Recorded | None = plan.memo.get("recorded")
    if call is None:
        given = {n: v for n, v in values.items() if n in plans.inputs or n in forward.wrt}
        call = plan.memo["recorded"] = Recorded(forward, given, plans, plan)
    names = call.site.names
    others = {} if len(values) == len(names) else {n: values[n] for n in values if n not in names}
    results = _recorded(call, others, *[values[n] for n in names])
    return results[: len(forward.results)]


class Call(torch.autograd.Function):
    """A call that autograd records."""

    @staticmethod
    def forward(ctx: Any, call: Recorded, others: Values, *tensors: torch.Tensor) -> Results:
        results = call.run(tensors, others)
        call.save(ctx, others, tensors, results)
        return results

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> Gradients:
        call, others = ctx.recorded
        return None, None, *call.gradients(ctx, others, cotangents)


# What `Call.apply` comes to where no transform is active, whose tensors it would look for.
_recorded: Callable[..., Results] = super(torch.autograd.Function, Call).apply


class Transformed(torch.autograd.Function):
    """The same for the transforms of torch.func, and forward mode."""

    generate_vmap_rule = False

    @staticmethod
    def forward(call: Recorded, others: Values, *tensors: torch.Tensor) -> Results:
        values = dict(zip(call.site.names, tensors, strict=True))
        return call.site.forward.calls.differentiable({**values, **others})

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Results) -> None:
        call, others, *tensors = inputs
        call.save(ctx, others, tensors, output)
        ctx.save_for_forward(*tensors, *output)

    backward = staticmethod(Call.backward)

    @staticmethod
    def jvp(ctx: Any, *tangents: torch.Tensor | None) -> Gradients:
        call, others = ctx.recorded
        forward, names = call.site.forward, call.site.names
        given = {n: t for n, t in zip(names, tangents[2:], strict=True) if t is not None}
        values = dict(zip((*names, *forward.outputs), ctx.saved_tensors, strict=True))
        found = forward.tangents(given, {**others, **values})
        return tuple(found.get(o) for o in forward.outputs)

    @staticmethod
    def vmap(
        info: Any, dims: tuple[Any, ...], call: Recorded, others: Values, *tensors: torch.Tensor
    ) -> tuple[Results, tuple[int | None, ...]]:
        names, forward = call.site.names, call.site.forward
        given = dict(zip(names, tensors, strict=True))
        positions = dict(zip(names, dims[2:], strict=True))
        own = tuple(n for n, dim in positions.items() if dim is not None)
        calls = forward.batch(own)
        values = {n: t.movedim(positions[n], 0) if n in own else t for n, t in given.items()}
        for name, of in calls.declared.inputs.items():
            if len(of.dims) > values[name].dim():  # it is given with what each call has its own of
                values[name] = values[name].expand(info.batch_size, *values[name].shape)
        outputs = zip(calls.planner.equations.outputs, forward.program.outputs, strict=True)
        is_batch = [len(all_calls.indices) > len(one.indices) for all_calls, one in outputs]
        results = calls.differentiable({**values, **others})
        return results, tuple(0 if n else None for n in is_batch)


class Site:
    """Calls with tensors of some names: what they keep, and how gradients come from that.

    Args:
        forward: what is called.
        names: of the tensors.

    Attributes:
        kept: the positions of what is kept, among the tensors and the results.
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
        values: its inputs, by their names, and their positions in what is kept, and cotangents.
        results: by tensor of the call, the position of its gradient.
    """

    backward: Backward | None
    values: tuple[tuple[str, int], ...]
    results: tuple[int | None, ...]

    @classmethod
    def of(cls, backward: Backward, saved: Names, site: Site) -> Route:
        """That of a backward pass."""
        names = [*saved, *(backward.cotangents.get(o, "") for o in site.forward.outputs)]
        values = tuple((n, position) for position, n in enumerate(names) if n)
        wrt = backward.wrt
        return cls(backward, values, tuple(wrt.index(n) if n in wrt else None for n in site.names))


class Recorded:
    """What calls that look alike have in common until their gradients are asked for; their tensors
    are in autograd's care.

    Args:
        forward: what is called.
        tensors: with which tensors.
        plans, plan: what repeats such a call, if it is known.
    """

    __slots__ = ("_backwards", "dtypes", "plan", "plans", "shapes", "site")

    def __init__(
        self,
        forward: Forward,
        tensors: Values,
        plans: Plans | None = None,
        plan: Plan | None = None,
    ) -> None:
        names = tuple(tensors)
        site = forward.sites.get(names)
        if site is None:
            site = forward.sites.setdefault(names, Site(forward, names))
        self.site: Site = site
        every = tuple(tensors.values())
        self.dtypes = tuple([t.dtype for t in every])
        self.shapes = [every[n].shape for n in site.sized]
        self.plans, self.plan = plans, plan
        self._backwards: dict[object, tuple[Route, Plans, Plan]] = {}

    def run(self, tensors: Sequence[torch.Tensor], others: Values) -> Results:
        """The results of a call."""
        values: dict[str, Any] = dict(zip(self.site.names, tensors, strict=True))
        if others:
            values.update(others)
        if self.plans is None or self.plan is None:
            return self.site.forward.calls.call(values)
        return self.plans.run(self.plan, values)

    def save(
        self, ctx: Any, others: Values, tensors: Sequence[torch.Tensor], results: Results
    ) -> None:
        """Leave with autograd what the gradients of a call are computed from."""
        site = self.site
        ctx.recorded = self, others
        ctx.set_materialize_grads(False)
        if site.forward.constant:
            ctx.mark_non_differentiable(*[results[n] for n in site.forward.constant])
        every = (*tensors, *results)
        ctx.save_for_backward(*[every[n] for n in site.kept])

    def gradients(
        self, ctx: Any, others: Values, cotangents: Sequence[torch.Tensor | None]
    ) -> Iterable[torch.Tensor | None]:
        """The gradients of the tensors of a call, as far as they are needed."""
        needed = ctx.needs_input_grad[2:]
        kept = ctx.saved_tensors
        every = (*kept, *cotangents)
        signature = None
        if self.plan is not None and not is_grad_enabled() and not is_watched():
            signature = _signature(needed, kept, cotangents)
            known = self._backwards.get(signature)
            if known is not None:
                route, plans, plan = known
                found = plans.run(plan, self._values(route, every, others, cotangents))
                return [None if position is None else found[position] for position in route.results]
        present = tuple([c is not None for c in cotangents])
        route = self.site.route(needed, present, self.dtypes)
        if route.backward is None:
            return [None] * len(self.dtypes)
        values = self._values(route, every, others, cotangents)
        found = route.backward(values)
        if signature is not None:
            repeats = route.backward.repeats(values)
            if repeats is not None:
                self._backwards[signature] = route, *repeats
        return [None if position is None else found[position] for position in route.results]

    def _values(
        self,
        route: Route,
        every: Sequence[torch.Tensor | None],
        others: Values,
        cotangents: Sequence[torch.Tensor | None],
    ) -> dict[str, Any]:
        """The inputs and parameters of a backward pass, by name."""
        values: dict[str, Any] = {name: every[position] for name, position in route.values}
        if others:
            values.update(others)
        if self.shapes:
            of_any = next(c for c in cotangents if c is not None)
            for position, shape in zip(self.site.sized, self.shapes, strict=True):
                like = of_any.new_zeros((), dtype=self.dtypes[position])
                values[self.site.names[position]] = like.expand(shape)
        return values


def _signature(
    needed: tuple[bool, ...],
    kept: Iterable[torch.Tensor],
    cotangents: Iterable[torch.Tensor | None],
) -> object:
    """What the plan of a backward pass depends on beside that of its call; None where it must be
    looked at closely.

    What is kept has the size, dtype and device that it had, whatever hooks make of it; autograd
    sees to those of cotangents.
    """
    signature: list[Any] = [needed]
    try:
        for tensor in kept:
            signature += tensor.stride()
            signature.append(tensor.data_ptr() % _ALIGNMENT)
        for cotangent in cotangents:
            if cotangent is None:
                signature.append(None)
                continue
            # The elements of a negative view are others than memory has.
            if type(cotangent) not in PLAIN or cotangent.is_neg():
                return None
            signature += cotangent.stride()
            signature.append(cotangent.data_ptr() % _ALIGNMENT)
    except RuntimeError:  # a tensor without strides or storage
        return None
    return tuple(signature)
