"""The plan of a call: what is left of a host program once all but its tensors is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel that runs, with its arguments but for those that are a call's own.

    `given` are the tensors and parameters among them, by their position; `made` what a function
    makes of a tensor.
    """

    run: Callable[..., object]
    args: list[Any]
    options: dict[str, Any]
    given: tuple[tuple[int, str], ...]
    made: tuple[tuple[int, str, Callable[[Any], Any]], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Conversions, allocations, slices of tensors, launches, and results: which tensors, in which
    shapes where these are not their own. No tensor outlives its call.

    `memo` is for those who want to remember more about calls that repeat it.
    """

    device: Any
    converted: tuple[tuple[str, Any], ...]
    allocations: tuple[tuple[str, dict[str, Any]], ...]
    slices: tuple[tuple[str, str, tuple[slice, ...]], ...]
    launches: tuple[Launched, ...]
    results: tuple[tuple[str, tuple[int, ...] | None], ...]
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, values: Mapping[str, Any], empty: Callable[..., Any]) -> tuple[Any, ...]:
        """The results.

        Args:
            values: inputs and parameters by name.
            empty: allocates a tensor of a `size`, with a `dtype` on a `device`: by name, as torch
                takes longer to find out what they are by position.
        """
        known = dict(values)
        for name, dtype in self.converted:
            known[name] = known[name].to(dtype)
        for name, options in self.allocations:
            known[name] = empty(**options)
        for name, tensor, here in self.slices:
            known[name] = known[tensor][here]
        for launch in self.launches:
            args = launch.args.copy()
            for position, name in launch.given:
                args[position] = known[name]
            for position, name, make in launch.made:
                args[position] = make(known[name])
            launch.run(*args, **launch.options)
        return tuple(
            [known[n] if shape is None else known[n].reshape(shape) for n, shape in self.results]
        )
