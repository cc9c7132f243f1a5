"""The plan of a call: what is left of a host program once all but its tensors is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

from monocomp.declarations.record import record

Gather: TypeAlias = Callable[[Sequence[Any]], tuple[Any, ...]]


class Ran(NamedTuple):
    """The backend of a call, the device that it ran on, and why it was this backend."""

    backend: str
    device: Any
    why: str = ""


class Repeat(Protocol):
    """Repeat a call; what it `ran` on says itself."""

    ran: Ran

    @property
    def run(self) -> Callable[..., tuple[Any, ...]]:
        """Return what computes the first results, or all of them, of inputs and parameters one by
        one, for calls that nothing watches or casts."""

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results for inputs and parameters, in their order."""


def gather(*positions: int) -> Gather:
    """Return a function that takes the elements at positions, even one or none, as a tuple."""
    match positions:
        case ():
            return lambda values: ()
        case (position,):
            return lambda values: (values[position],)
    return itemgetter(*positions)


@record()
class Launched:
    """A kernel that runs, with its arguments: tensors, and what follows them.

    `varying` are those of a call among what follows: their position, that of a value, and what is
    made of it, if it is not the value itself. Where there are no `options`, they are the call's.
    """

    run: Callable[..., object]
    tensors: Gather
    args: list[Any]
    options: dict[str, Any] | None
    varying: tuple[tuple[int, int, Callable[[Any], Any] | None], ...] = ()

    def __call__(self, known: Sequence[Any], options: dict[str, Any]) -> object:
        """Run it on the values of a call."""
        args = self.args
        if self.varying:
            args = args.copy()
            for n, position, change in self.varying:
                args[n] = known[position] if change is None else change(known[position])
        own = options if self.options is None else self.options
        return self.run(*self.tensors(known), *args, **own)


# Takes the value at a position, or none.
Made: TypeAlias = tuple[Callable[..., Any], int | None]


@record()
class Stage:
    """A stage of a call: what is made, by functions or what launches return, what is then launched,
    and which values are then freed."""

    made: tuple[Made | Launched, ...]
    launches: tuple[Launched, ...]
    freed: tuple[int, ...] = ()


@record()
class Plan:
    """A call's plan: its stages, and which values are its results. No tensor outlives its call
    but the lists of a map.

    Values go by their position: the inputs and parameters, and then what is made, each of the value
    at a position (a conversion, a slice) or of none (an allocation).
    """

    device: Any
    stages: tuple[Stage, ...]
    results: Gather

    def __call__(self, values: Sequence[Any], **options: Any) -> tuple[Any, ...]:
        """Return the results.

        Args:
            values: inputs, then parameters, each in their order.
            options: how kernels are launched that have none of their own.
        """
        known = [*values]
        for stage in self.stages:
            for made in stage.made:
                if isinstance(made, Launched):
                    known.append(made(known, options))
                    continue
                make, position = made
                known.append(make() if position is None else make(known[position]))
            for launch in stage.launches:
                launch(known, options)
            for position in stage.freed:
                known[position] = None
        return self.results(known)
