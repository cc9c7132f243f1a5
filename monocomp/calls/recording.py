"""Calls that autograd records: what they keep, and how gradients come from that.

A call like an earlier one launches what that launched, and so does its backward pass: which kernels
these are, and with which arguments, is found once for calls that look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, TypeAlias

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
from monocomp.declarations.vocabulary import DTYPES
from monocomp.host.plan import Gather, Repeat, gather

Results: TypeAlias = tuple[torch.Tensor, ...]
Gradients: TypeAlias = tuple[torch.Tensor | None, ...]
Params: TypeAlias = tuple[Any, ...]  # in the program's order
_ALIGNMENT = 16  # bytes, as `replay` looks at it


def recorded(
    forward: Forward, tensors: Values, others: Values, may_be_transformed: bool = False
) -> Results:
    """The results of a call, with their gradients.

    Args:
        forward: what is called.
        tensors: inputs, and parameters that need a gradient.
        others: the other parameters.
        may_be_transformed: also where no transform can be seen.
    """
    function = Transformed.apply if may_be_transformed or is_transformed() else _recorded
    given = tuple([others.get(n) for n in forward.params])
    results: Results = function(Recorded(forward, tensors), given, *tensors.values())
    return results[: len(forward.results)]


class Call(torch.autograd.Function):
    """A call that autograd records, of parameters, None for a tensor or one that is not given, and
    of tensors."""

    @staticmethod
    def forward(ctx: Any, call: Recorded, others: Params, *tensors: torch.Tensor) -> Results:
        if call.replay is not None:
            replay, count = call.replay
            results = replay((*tensors, *others) if others else tensors)
        else:
            results = call.site.forward.calls.call(call.site.named(others, tensors))
            count = call.site.outputs
        call.save(ctx, others, tensors, results, count)
        return results[:count]

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> Gradients:
        call, others = ctx.recorded
        found: Gradients = call.gradients(ctx, others, cotangents)
        return found


# What `Call.apply` comes to where no transform is active, whose tensors it would look for.
_recorded: Callable[..., Results] = super(torch.autograd.Function, Call).apply


class Transformed(torch.autograd.Function):
    """The same for the transforms of torch.func, and forward mode."""

    generate_vmap_rule = False

    @staticmethod
    def forward(call: Recorded, others: Params, *tensors: torch.Tensor) -> Results:
        return call.site.forward.calls.differentiable(call.site.named(others, tensors))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Results) -> None:
        call, others, *tensors = inputs
        call.save(ctx, others, tensors, output, len(output))
        ctx.save_for_forward(*tensors, *output)

    backward = staticmethod(Call.backward)

    @staticmethod
    def jvp(ctx: Any, *tangents: torch.Tensor | None) -> Gradients:
        call, others = ctx.recorded
        forward, names = call.site.forward, call.site.names
        given = {n: t for n, t in zip(names, tangents[2:], strict=True) if t is not None}
        tensors = ctx.saved_tensors
        values = call.site.named(others, tensors[: len(names)])
        values.update(zip(forward.outputs, tensors[len(names) :], strict=True))
        found = forward.tangents(given, values)
        return tuple(found.get(o) for o in forward.outputs)

    @staticmethod
    def vmap(
        info: Any, dims: tuple[Any, ...], call: Recorded, others: Params, *tensors: torch.Tensor
    ) -> tuple[Results, tuple[int | None, ...]]:
        names, forward = call.site.names, call.site.forward
        positions = dict(zip(names, dims[2:], strict=True))
        own = tuple(n for n, dim in positions.items() if dim is not None)
        calls = forward.batch(own)
        values = call.site.named(others, tensors)
        values.update((n, values[n].movedim(positions[n], 0)) for n in own)
        for name, of in calls.declared.inputs.items():
            if len(of.dims) > values[name].dim():  # it is given with what each call has its own of
                values[name] = values[name].expand(info.batch_size, *values[name].shape)
        outputs = zip(calls.planner.equations.outputs, forward.program.outputs, strict=True)
        is_batch = [len(all_calls.indices) > len(one.indices) for all_calls, one in outputs]
        results = calls.differentiable(values)
        return results, tuple(0 if n else None for n in is_batch)


class Site:
    """Calls with tensors of some names: what they keep, and how gradients come from that.

    Args:
        forward: what is called.
        names: of the tensors.

    Attributes:
        inputs, results, outputs: how many tensors there are, results for the caller, and results.
        kept: takes what is kept from the tensors and the results.
        count: how many tensors that are.
        least: of the results those that every call returns, as no other can be computed again.
        sized: the positions of the tensors of which a backward pass may ask for the size.
    """

    def __init__(self, forward: Forward, names: Names) -> None:
        self.forward, self.names = forward, names
        every = (*names, *forward.outputs)
        self.saved = tuple(n for n in forward.kept if n in every)
        self.kept = gather(*map(every.index, self.saved))
        self.inputs, self.count = len(names), len(self.saved)
        self.results, self.outputs = len(forward.results), len(forward.outputs)
        self.least = self.results if {*names} <= {*self.saved} else self.outputs
        self.sized = tuple(map(every.index, forward.others))
        self._routes: dict[object, Route] = {}

    def named(self, others: Params, tensors: Sequence[Any]) -> dict[str, Any]:
        """The values of a call by name."""
        every = zip((*self.names, *self.forward.params), (*tensors, *others), strict=True)
        return {n: v for n, v in every if v is not None}

    def without(self, kept: Sequence[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
        """Leave out of what is kept the results that not every call returns."""
        optional = {*self.forward.outputs[self.least :]}
        pairs = zip(self.saved, kept, strict=True)
        return tuple([None if n in optional else t for n, t in pairs])

    def route(
        self,
        needed: tuple[bool, ...],
        present: tuple[bool, ...],
        dtypes: tuple[torch.dtype, ...],
    ) -> Route | None:
        """How gradients are computed; None where there are none.

        Args:
            needed: by argument, is its gradient?
            present: by result, has it a gradient?
            dtypes: of the tensors.
        """
        key = needed, present, dtypes
        found = self._routes.get(key)
        if found is None:
            known = (str(dtype).removeprefix("torch.") for dtype in dtypes)
            named = ((n, d if d in DTYPES else "") for n, d in zip(self.names, known, strict=True))
            wrt = dict(compress(named, needed[2:]))
            given = tuple(compress(self.forward.outputs, present))
            if not wrt or not given:
                return None
            found = Route.of(self.forward.backward(wrt, given), self.saved, self)
            self._routes[key] = found
        return found


@dataclass(frozen=True)
class Route:
    """How the gradients of a call come from what it has kept.

    Attributes:
        backward: computes them.
        names: those of what is kept, of cotangents (none for one that it does not take), of
            parameters, and of tensors that have the size of what is not kept.
        values: takes its inputs and parameters from these and None.
        gradients: takes the gradients of all arguments from its results and None.
        sources: where each of its inputs and parameters is among the values of the call and then
            its results; -1 for one that is not.
    """

    backward: Backward
    names: Names
    values: Gather
    gradients: Gather
    sources: tuple[int, ...]

    @classmethod
    def of(cls, backward: Backward, saved: Names, site: Site) -> Route:
        """That of a backward pass."""
        forward, wrt = site.forward, backward.wrt
        cotangents = (backward.cotangents.get(o, "") for o in forward.outputs)
        names = (*saved, *cotangents, *forward.params, *(site.names[n] for n in site.sized))
        values = (names.index(n) if n in names else -1 for n in backward.names)
        results = (wrt.index(n) if n in wrt else -1 for n in site.names)
        known = (*site.names, *forward.params, *forward.outputs)
        is_known = {*saved, *forward.params}
        sources = tuple(known.index(n) if n in is_known else -1 for n in backward.names)
        return cls(backward, names, gather(*values), gather(-1, -1, *results), sources)


class Repeated:
    """Repeats a backward pass.

    Args:
        route: its arguments and results.
        repeat: computes it.
        sized: tensors that have the sizes of those that are not kept.
    """

    def __init__(self, route: Route, repeat: Repeat, sized: Results) -> None:
        self.route, self.repeat, self.sized = route, repeat, sized
        self.shared: Repeat | None = None  # the same, of what the call shares with it besides

    def __call__(self, every: Params, more: Results, call: Recorded) -> Gradients:
        """The gradients of all arguments.

        Args:
            every: what the route takes values from.
            more: what the call has computed for it besides.
            call: the call, which shares values from the first repetition on.
        """
        values = self.route.values((*every, *self.sized, None))
        if call.may_share and call.replay is not None:
            from monocomp.backends.torch import sharing

            call.may_share = False
            replay, least = call.replay[0], call.site.least
            both = sharing(replay, self.repeat, self.route.sources, least)
            if both is not None:
                call.replay, self.shared = (both[0], least), both[1]
        if more and self.shared is not None:
            return self.route.gradients((*self.shared((*values, *more)), None))
        return self.route.gradients((*self.repeat(values), None))


class Recorded:
    """What calls that look alike have in common until their gradients are asked for; their tensors
    are in autograd's care.

    Args:
        forward: what is called.
        tensors: with which tensors.
        replay: what computes the results of such a call, if it is known.

    Attributes:
        replay: the same, or what returns as well what it shares with a backward pass; and how many
            results that has.
        may_share: has no backward pass been repeated yet?
    """

    __slots__ = ("_backwards", "device", "dtypes", "may_share", "replay", "shapes", "site")

    def __init__(self, forward: Forward, tensors: Values, replay: Repeat | None = None) -> None:
        names = tuple(tensors)
        site = forward.sites.get(names)
        if site is None:
            site = forward.sites.setdefault(names, Site(forward, names))
        self.site: Site = site
        every = tuple(tensors.values())
        self.dtypes = tuple([t.dtype for t in every])
        self.shapes = [every[n].shape for n in site.sized]
        self.replay = None if replay is None else (replay, site.outputs)
        self.device = every[0].device
        self._backwards: dict[object, Repeated] = {}
        self.may_share = True

    def __call__(self, values: Sequence[Any]) -> Results:
        """The results for inputs, which are the tensors, and parameters, of a call that nothing
        but autograd watches."""
        inputs = self.site.inputs
        results = _recorded(self, values[inputs:], *values[:inputs])
        return results[: self.site.results]

    def save(
        self,
        ctx: Any,
        others: Params,
        tensors: Sequence[torch.Tensor],
        results: Results,
        count: int,
    ) -> None:
        """Leave with autograd what the gradients of a call are computed from: None for results
        beyond a count, which are followed by what is shared."""
        site = self.site
        ctx.recorded = self, others
        ctx.set_materialize_grads(False)
        if site.forward.constant:
            constant = [results[n] for n in site.forward.constant if n < count]
            ctx.mark_non_differentiable(*constant)
        missing = (None,) * (site.outputs - count)
        kept = site.kept((*tensors, *results[:count], *missing))
        ctx.save_for_backward(*kept, *results[count:])

    def gradients(
        self, ctx: Any, others: Params, cotangents: Sequence[torch.Tensor | None]
    ) -> Gradients:
        """The gradients of the arguments of a call, as far as they are needed."""
        needed, saved, site = ctx.needs_input_grad, ctx.saved_tensors, self.site
        kept, more = saved[: site.count], saved[site.count :]
        missing = (None,) * (site.outputs - len(cotangents))
        cotangents = (*cotangents, *missing)
        signature = self._signature(needed, kept, cotangents)
        repeated = self._backwards.get(signature)
        if repeated is None and missing:
            kept, more = self._completed(kept, others), ()
            signature = self._signature(needed, kept, cotangents)
            repeated = self._backwards.get(signature)
        every = (*kept, *cotangents, *others)
        if repeated is not None:
            found = repeated(every, more, self)
            if repeated.shared is not None and not missing:  # those of later calls miss some
                later = site.without(kept)
                self._backwards[self._signature(needed, later, cotangents)] = repeated
            return found
        present = tuple([c is not None for c in cotangents])
        new = site.route(needed, present, self.dtypes)
        if new is None:
            return (None,) * len(needed)
        sized = self._sized(cotangents) if self.shapes else ()
        every += sized
        named = zip(new.names, every, strict=True)
        found = new.backward({n: v for n, v in named if v is not None})
        if signature is not None:
            again = new.backward.repeat(new.values((*every, None)))
            if again is not None:
                self._backwards[signature] = Repeated(new, again, sized)
        return new.gradients((*found, None))

    def _signature(
        self,
        needed: tuple[bool, ...],
        kept: Sequence[torch.Tensor | None],
        cotangents: Sequence[torch.Tensor | None],
    ) -> object:
        """Return what the plan of a backward pass depends on beside that of its call; None where it
        must be looked at closely.

        What is kept has the size, dtype and device that it had, whatever hooks make of it; autograd
        sees to those of cotangents.
        """
        if self.replay is None or is_grad_enabled() or is_watched():
            return None
        try:
            signature: list[Any] = [needed]
            for held in kept:
                if held is None:
                    signature.append(None)
                else:
                    signature += held.stride(), held.data_ptr() % _ALIGNMENT
            for t in cotangents:
                if t is None:
                    signature.append(None)
                # The elements of a negative view are others than memory has.
                elif type(t) not in PLAIN or t.is_neg():
                    return None
                else:
                    signature += t.stride(), t.data_ptr() % _ALIGNMENT
        except RuntimeError:  # a tensor without strides or storage
            return None
        return tuple(signature)

    def _completed(self, kept: Sequence[torch.Tensor | None], others: Params) -> Results:
        """Add to what is kept the results that the call has not returned."""
        site = self.site
        tensors = [kept[site.saved.index(n)] for n in site.names]
        results = site.forward.calls.differentiable(site.named(others, tensors))
        every = zip(kept, site.kept((*tensors, *results)), strict=True)
        return tuple([new if held is None else held for held, new in every])

    def _sized(self, cotangents: Sequence[torch.Tensor | None]) -> Results:
        """Tensors that have the sizes of those that are not kept."""
        like = next((c for c in cotangents if c is not None), None)
        if like is None:
            return ()
        every = zip(self.site.sized, self.shapes, strict=True)
        return tuple([like.new_zeros((), dtype=self.dtypes[n]).expand(s) for n, s in every])
