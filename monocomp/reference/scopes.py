"""Where the oracle evaluates an expression: the axes of its indices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from monocomp.reference import named_arrays as N


@dataclass(frozen=True)
class Scope:
    """Where an expression is evaluated.

    Attributes:
        indices: the axis of each index that is free or bound here.
        fields: the operands of the combine of a monoid, by the names of their fields; the last
            axes of one with indices are those of its entries.
        extents: those of the indices in a monoid's declaration.
    """

    indices: Mapping[str, N.Axis]
    fields: Mapping[str, N.Value] = field(default_factory=dict)
    extents: Mapping[str, int] = field(default_factory=dict)

    def bind(self, indices: Iterable[str], axes: Iterable[N.Axis]) -> Scope:
        """The same with new axes for some indices."""
        return replace(self, indices={**self.indices, **dict(zip(indices, axes, strict=True))})

    def narrow(self, axis: N.Axis, part: N.Axis) -> Scope:
        """The same on a part of an axis."""
        indices = {name: part if a is axis else a for name, a in self.indices.items()}
        fields = {name: N.restrict(v, axis, part) for name, v in self.fields.items()}
        return Scope(indices, fields, self.extents)
