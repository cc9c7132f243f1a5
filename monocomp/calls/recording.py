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
    Backward,
    Forward,
    Names,
    Values,
    is_cast,
    is_grad_enabled,
    is_transformed,
    is_watched,
)
from monocomp.calls.looks import ALIGNMENT, PLAIN, if_alike
from monocomp.declarations.vocabulary import DTYPES
from monocomp.host.plan import Gather, Repeat, gather
from monocomp.host.texts import Written, arranged, defined, listed

Results: TypeAlias = tuple[torch.Tensor, ...]
Gradients: TypeAlias = tuple[torch.Tensor | None, ...]
Tensors: TypeAlias = Sequence[torch.Tensor | None]
Params: TypeAlias = tuple[Any, ...]  # in the program's order


def recorded(
    forward: Forward, tensors: Values, others: Values, may_be_transformed: bool = False
) -> Results:
    """Return the results of a call, with their gradients.

    Args:
        forward: what is called.
        tensors: inputs, and parameters that need a gradient.
        others: the other parameters.
        may_be_transformed: also where no transform can be seen.
    """
    given = (*tensors.values(), *[others.get(n) for n in forward.params])
    call = Recorded(forward, tensors)
    if not (may_be_transformed or is_transformed()):
        return call(given)
    function: Callable[..., Results] = Transformed.apply
    return function(call, *given)[: len(forward.results)]


def _applied(forward: Written, backward: Written) -> Written:
    """Return a function as autograd records it, whose gradients another one computes."""
    functions = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    call: Any = type("Call", (torch.autograd.Function,), functions)
    # The node's own `apply` comes to this, as there is no `vjp`.
    call._backward_cls.apply = backward
    # Torch's own `apply` looks through tensors for transforms, of which none is active.
    applied: Written = super(torch.autograd.Function, call).apply
    return applied


class Transformed(torch.autograd.Function):
    """A call for the transforms of torch.func, and forward mode: of tensors, and then of
    parameters, None for a tensor or one that is not given."""

    generate_vmap_rule = False

    @staticmethod
    def forward(call: Recorded, *values: Any) -> Results:
        return call.site.forward.calls.differentiable(call.site.named(values))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Results) -> None:
        call, *values = inputs
        ctx.recorded = call.first, (*values[call.site.inputs :],)
        call.first.save(ctx, output, *values)
        ctx.save_for_forward(*values[: call.site.inputs], *output)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> Gradients:
        way, others = ctx.recorded
        needed, saved = ctx.needs_input_grad[1:], ctx.saved_tensors
        return None, *way.gradients(needed, saved, cotangents, others)

    @staticmethod
    def jvp(ctx: Any, *tangents: torch.Tensor | None) -> Gradients:
        way, others = ctx.recorded
        site = way.call.site
        forward, names = site.forward, site.names
        given = {n: t for n, t in zip(names, tangents[1:], strict=False) if t is not None}
        tensors = ctx.saved_tensors
        values = site.named((*tensors[: len(names)], *others))
        values.update(zip(forward.outputs, tensors[len(names) :], strict=True))
        of_outputs = forward.tangents(given, values)
        return tuple(of_outputs.get(o) for o in forward.outputs)

    @staticmethod
    def vmap(
        info: Any, dims: tuple[Any, ...], call: Recorded, *given: Any
    ) -> tuple[Results, tuple[int | None, ...]]:
        names, forward = call.site.names, call.site.forward
        positions = dict(zip(names, dims[1:], strict=False))
        own = tuple(n for n, dim in positions.items() if dim is not None)
        calls = forward.batch(own)
        values = call.site.named(given)
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

    def named(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the values of a call by name: tensors, then parameters."""
        every = zip((*self.names, *self.forward.params), values, strict=True)
        return {n: v for n, v in every if v is not None}

    def call(self, *values: Any) -> Results:
        """Return the results of a call that nothing repeats yet, of tensors and parameters."""
        results: Results = self.forward.calls.call(self.named(values))
        return results

    def route(
        self,
        needed: tuple[bool, ...],
        present: tuple[bool, ...],
        dtypes: tuple[torch.dtype, ...],
    ) -> Route | None:
        """Return how gradients are computed; None where there are none.

        Args:
            needed: for each argument, whether its gradient is needed.
            present: for each result, whether it has a gradient.
            dtypes: of the tensors.
        """
        key = needed, present, dtypes
        route = self._routes.get(key)
        if route is None:
            known = (str(dtype).removeprefix("torch.") for dtype in dtypes)
            named = ((n, d if d in DTYPES else "") for n, d in zip(self.names, known, strict=True))
            wrt = dict(compress(named, needed))
            given = tuple(compress(self.forward.outputs, present))
            if not wrt or not given:
                return None
            route = Route.of(self.forward.backward(wrt, given), self.saved, self)
            self._routes[key] = route
        return route


@dataclass(frozen=True)
class Route:
    """A way to compute the gradients of a call from what it has kept.

    Attributes:
        backward: computes them.
        names: those of what is kept, of cotangents (none for one that it does not take), of
            parameters, and of tensors that have the size of what is not kept.
        values: takes its inputs and parameters from these and None.
        results: where the gradients of all arguments are among its results; -1 for None.
        sources: where each of its inputs and parameters is among the values of the call and then
            its results; -1 for one that is not.
    """

    backward: Backward
    names: Names
    values: Gather
    results: tuple[int, ...]
    sources: tuple[int, ...]

    @classmethod
    def of(cls, backward: Backward, saved: Names, site: Site) -> Route:
        """Return the route of a backward pass."""
        forward, wrt = site.forward, backward.wrt
        cotangents = (backward.cotangents.get(o, "") for o in forward.outputs)
        names = (*saved, *cotangents, *forward.params, *(site.names[n] for n in site.sized))
        values = (names.index(n) if n in names else -1 for n in backward.names)
        results = (wrt.index(n) if n in wrt else -1 for n in site.names)
        known = (*site.names, *forward.params, *forward.outputs)
        is_known = {*saved, *forward.params}
        sources = tuple(known.index(n) if n in is_known else -1 for n in backward.names)
        gradients = (*results, *(-1 for _ in forward.params))
        return cls(backward, names, gather(*values), gradients, sources)

    def gradients(self, results: Results) -> Gradients:
        """Return the gradients of all arguments."""
        return tuple([None if n < 0 else results[n] for n in self.results])


class Repeated:
    """Repeats a backward pass.

    Args:
        way: how its call is computed.
        route: its arguments and results.
        repeat: computes it, of what is shared besides.
        sized: tensors that have the sizes of those that are not kept.
    """

    def __init__(self, way: Way, route: Route, repeat: Repeat, sized: Results) -> None:
        self.route, self.repeat, self.sized = route, repeat, sized
        self.arguments = way.positions(route)
        self._take = gather(*self.arguments)

    def __call__(self, saved: Tensors, cotangents: Tensors, others: Params) -> Gradients:
        """Return the gradients of all arguments of a call."""
        values = self._take((*saved, *cotangents, *others, *self.sized, None))
        return self.route.gradients(self.repeat(values))

    def latest(
        self, needed: tuple[bool, ...], saved: Tensors, cotangents: Tensors, others: Params
    ) -> Written:
        """Return what computes the gradients of passes that look like this one, which nothing
        watches, and returns None for others."""
        tensors, more = (*saved, *cotangents), len(others)
        how = len(tensors) + more, self.arguments, self.route.results, self.sized
        run = arranged(self.repeat.run, *how)
        return if_alike(tensors, run, more, (needed, False)) or _nothing


def _nothing(*_: object) -> None:
    """Repeat no backward pass."""


class Way:
    """A way to compute the results of calls that look alike, and to keep what gradients need.

    Args:
        call: what these calls have in common.
        run: computes the results, and what a backward pass shares, of inputs and parameters.
        count: of the results that it computes, the first ones.
        shared: how many values are shared.

    Attributes:
        save: leaves with autograd what gradients are computed from, of a node, results, tensors
            and parameters.
        apply: computes the results of tensors and parameters, and has autograd record them.
        backwards: what repeats backward passes, by what they look like.
        latest: computes the gradients of passes that look like the last of these, of what is saved,
            cotangents, parameters, and what else tells passes apart; None of others.
    """

    def __init__(
        self, call: Recorded, run: Callable[..., Results], count: int, shared: int = 0
    ) -> None:
        self.call, self.run, self.count, self.shared = call, run, count, shared
        site = call.site
        first = site.inputs + len(site.forward.params)
        end = first + count
        tensors = (*range(site.inputs), *range(first, end), *(-1,) * (site.outputs - count))
        every = site.kept(tensors)
        held = [n for n in every if n >= 0]
        self._held = tuple(held.index(n) if n >= 0 else -1 for n in every)
        self.save, self.apply = self._written((*held, *range(end, end + shared)))
        self.backwards: dict[object, Repeated] = {}
        self.latest: Written = _nothing

    def _written(self, saved: Sequence[int]) -> tuple[Written, Written]:
        """Return what sets what methods set that are named for it, and what autograd records.

        Args:
            saved: where what is saved is among tensors, parameters and results.
        """
        site = self.call.site
        values = [f"x{n}" for n in range(site.inputs + len(site.forward.params))]
        every = [*values, *(f"r[{n}]" for n in range(self.count + self.shared))]
        constant = [f"r[{n}]" for n in site.forward.constant if n < self.count]
        body = [
            "c.materialize_grads = False",
            f"c.non_differentiable = {listed(constant)}" if constant else "",
            f"c.to_save = {listed([every[n] for n in saved])}",
        ]
        results = [f"r[{n}]" for n in range(self.count)]
        cotangents = [f"x{n}" for n in range(self.count)]
        given = [*(f"s[{n}]" for n in range(len(saved))), *cotangents]
        given += [f"c.others[{n}]" for n in range(len(values) - site.inputs)]
        forward = [
            f"def run({', '.join(['c', *values])}):",
            f"r = compute({', '.join(values)})",
            f"c.others = {listed(values[site.inputs :])}",
            *body,
            f"return {listed(results)}",
        ]
        backward = [
            f"def run({', '.join(['c', *cotangents])}):",
            "s = c.saved_tensors",
            "n = c.needs_input_grad",
            f"r = way.latest({', '.join([*given, '(n, is_grad_enabled())'])})",
            f"return way.gradients(n, s, {listed(cotangents)}, c.others) if r is None else r",
        ]
        save = [f"def run({', '.join(['c', 'r', *values])}):", *body]
        known = {"way": self, "compute": self.run, "is_grad_enabled": is_grad_enabled}
        first, *both = (defined("\n ".join(t), known) for t in (save, forward, backward))
        return first, _applied(*both)

    def positions(self, route: Route) -> tuple[int, ...]:
        """Return where the values of a backward pass are among what is saved, cotangents,
        parameters, and tensors that have sizes; the last ones are those that are shared."""
        site, held = self.call.site, self._held
        first = len(held) - held.count(-1)
        end = first + self.shared
        cotangents = [end + n if n < self.count else -1 for n in range(site.outputs)]
        end += self.count
        more = range(end, end + len(route.names) - site.count - site.outputs)
        every = (*held, *cotangents, *more, -1)
        return (*route.values(every), *range(first, first + self.shared))

    def gradients(
        self, needed: tuple[bool, ...], saved: Tensors, cotangents: Tensors, others: Params
    ) -> Gradients:
        """Return the gradients of the arguments of a call, as far as they are needed."""
        call, site = self.call, self.call.site
        kept: Tensors = [saved[n] if n >= 0 else None for n in self._held]
        signature = call.signature(needed, kept, cotangents)
        repeated = self.backwards.get(signature)
        shared = saved[len(saved) - self.shared :]
        if repeated is not None and all(t is not None and t.is_contiguous() for t in shared):
            if not is_cast():
                self.latest = repeated.latest(needed, saved, cotangents, others)
            gradients = repeated(saved, cotangents, others)
            call.share(needed, kept, cotangents, repeated)
            return gradients
        if self is call.first:
            return self._computed(signature, needed, kept, cotangents, others)
        if -1 in self._held:
            kept = call.completed(kept, others)
        missing = (None,) * (site.outputs - self.count)
        return call.first.gradients(needed, kept, (*cotangents, *missing), others)

    def _computed(
        self,
        signature: object,
        needed: tuple[bool, ...],
        kept: Tensors,
        cotangents: Tensors,
        others: Params,
    ) -> Gradients:
        """Return the gradients of a pass that nothing repeats yet."""
        call = self.call
        present = tuple([c is not None for c in cotangents])
        route = call.site.route(needed, present, call.dtypes)
        if route is None:
            return (None,) * len(needed)
        sized = call.sized(cotangents)
        every = (*kept, *cotangents, *others, *sized)
        named = zip(route.names, every, strict=True)
        gradients = route.backward({n: v for n, v in named if v is not None})
        if signature is not None:
            again = route.backward.repeat(route.values((*every, None)))
            if again is not None:
                self.backwards[signature] = Repeated(self, route, again, sized)
        return route.gradients(gradients)


class Recorded:
    """A record that calls that look alike share until their gradients are asked for. Autograd
    keeps their tensors.

    Args:
        forward: what is called.
        tensors: with which tensors.
        replay: what computes the results of such a call, if it is known.

    Attributes:
        first: computes and keeps what calls are derived to keep.
        way: the same, or computes what a backward pass shares besides.
    """

    __slots__ = ("_replay", "dtypes", "first", "ran", "shapes", "site", "way")

    def __init__(self, forward: Forward, tensors: Values, replay: Repeat | None = None) -> None:
        names = tuple(tensors)
        site = forward.sites.get(names)
        if site is None:
            site = forward.sites.setdefault(names, Site(forward, names))
        self.site: Site = site
        every = tuple(tensors.values())
        self.dtypes = tuple([t.dtype for t in every])
        self.shapes = [every[n].shape for n in site.sized]
        self.ran = forward.calls.last if replay is None else replay.ran
        self._replay = replay
        run = site.call if replay is None else replay.run
        self.first = self.way = Way(self, run, site.outputs)

    def __call__(self, values: Sequence[Any]) -> Results:
        """Return the results for inputs, which are the tensors, and parameters, of a call that
        nothing but autograd watches."""
        if is_cast():
            device = values[0].device.type
            with torch.autocast(device, enabled=False):
                return self(values)
        return self.run(*values)[: self.site.results]

    @property
    def run(self) -> Callable[..., Results]:
        """Return what computes the results, and what else calls return for autograd, of inputs and
        parameters one by one, where nothing is cast."""
        count = self.site.inputs + len(self.site.forward.params)
        values = ", ".join(f"x{n}" for n in range(count))
        return defined(f"def run({values}):\n return call.way.apply({values})", {"call": self})

    def share(
        self, needed: tuple[bool, ...], kept: Tensors, cotangents: Tensors, repeated: Repeated
    ) -> None:
        """Let later calls share values with their backward passes, once one has been repeated that
        takes cotangents of no results but those that these calls return."""
        site, route = self.site, repeated.route
        if self._replay is None or any(c is not None for c in cotangents[site.least :]):
            return
        from monocomp.backends.torch import sharing

        replay, self._replay = self._replay, None
        both = sharing(replay, repeated.repeat, route.sources, site.least)
        if both is None:
            return
        run, shared, count = both
        way = Way(self, run.run, site.least, count)
        optional = {*site.forward.outputs[site.least :]}
        pairs = zip(site.saved, kept, strict=True)
        later = [None if n in optional else t for n, t in pairs]
        signature = self.signature(needed, later, cotangents[: site.least])
        way.backwards[signature] = Repeated(way, route, shared, repeated.sized)
        self.way = way

    def signature(self, needed: tuple[bool, ...], kept: Tensors, cotangents: Tensors) -> object:
        """Return what the plan of a backward pass depends on beside that of its call; None where it
        must be looked at closely.

        What is kept has the size, dtype and device that it had, whatever hooks make of it; autograd
        sees to those of cotangents.
        """
        if self.first.run == self.site.call or is_grad_enabled() or is_watched():
            return None
        try:
            signature: list[Any] = [needed]
            for held in kept:
                if held is None:
                    signature.append(None)
                else:
                    signature += held.stride(), held.data_ptr() % ALIGNMENT
            for t in cotangents:
                if t is None:
                    signature.append(None)
                # The elements of a negative view are others than memory has.
                elif type(t) not in PLAIN or t.is_neg():
                    return None
                else:
                    signature += t.stride(), t.data_ptr() % ALIGNMENT
        except RuntimeError:  # a tensor without strides or storage
            return None
        return tuple(signature)

    def completed(self, kept: Tensors, others: Params) -> Results:
        """Add to what is kept the results that the call has not returned."""
        site = self.site
        tensors = [kept[site.saved.index(n)] for n in site.names]
        results = site.forward.calls.differentiable(site.named((*tensors, *others)))
        every = zip(kept, site.kept((*tensors, *results)), strict=True)
        return tuple([new if held is None else held for held, new in every])

    def sized(self, cotangents: Tensors) -> Results:
        """Return the tensors that have the sizes of those that are not kept."""
        like = next((c for c in cotangents if c is not None), None)
        if like is None:
            return ()
        every = zip(self.site.sized, self.shapes, strict=True)
        return tuple([like.new_zeros((), dtype=self.dtypes[n]).expand(s) for n, s in every])
