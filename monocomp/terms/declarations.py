"""What equations are given and give: inputs, parameters, extents, outputs.

Records of their own, so that nothing after `translation` looks back at syntax: a rule or a
lowering may add an input, a parameter, an extent or an output by adding a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from monocomp.errors import Span, UsageError, did_you_mean
from monocomp.terms.nodes import Term
from monocomp.terms.walking import subterms
from monocomp.vocabulary import Kind


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that a call gives.

    `dims` names each dimension by an index that has its extent. A dimension that only computed
    subscripts read, and that no declaration names, has a made-up name that starts with a dot.
    """

    name: str
    dims: tuple[str, ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Param:
    """A number that a call gives by keyword. Without a default it is required."""

    name: str
    kind: Kind
    default: int | float | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """An equation whose value is returned, and the dtype asked for, if any."""

    name: str
    dtype: str | None = None


@dataclass(frozen=True)
class Declarations:
    """The records of a program, by name and in its order.

    `extent_of` maps every index to its extent, which is called like one of the indices that
    have it; `bounds` are the extents that are declared, as terms over other extents and
    parameters. The others are read off the shapes of inputs.
    """

    inputs: Mapping[str, Input]
    params: Mapping[str, Param]
    outputs: tuple[Output, ...]
    extent_of: Mapping[str, str]
    bounds: Mapping[str, Term]

    def extents(self, tensor: str) -> tuple[str, ...]:
        """The extents of an input's dimensions."""
        return tuple(self.extent_of[dim] for dim in self.inputs[tensor].dims)

    @property
    def params_of_extents(self) -> frozenset[str]:
        """The parameters that declared extents depend on."""
        terms = subterms(*self.bounds.values())
        return frozenset(t.attr for t in terms if t.op == "param")

    @property
    def names(self) -> frozenset[str]:
        """What a new name must not be."""
        return frozenset((*self.inputs, *self.params, *self.extent_of, *self.bounds))


def free_extents(declared: Declarations) -> tuple[str, ...]:
    """The indices, one for each set that shares an extent, whose sizes the inputs decide."""
    found = dict.fromkeys(e for name in declared.inputs for e in declared.extents(name))
    return tuple(name for name in found if name not in declared.bounds and name[0] != ".")


def by_representative(declared: Declarations, given: Mapping[str, int]) -> dict[str, int]:
    """Given extents by what represents them; an unknown name or two sizes is an error."""
    table = declared.extent_of
    first: dict[str, str] = {}
    for name, size in given.items():
        root = table.get(name, table.get(f".{name}"))
        if root is None:
            names = [index.lstrip(".") for index in table]
            raise UsageError(
                f"the program has no index '{name}'",
                notes=(f"indices: {', '.join(names) or 'none'}",),
                help=did_you_mean(name, names),
            )
        other = first.setdefault(root, name)
        if given[other] != size:
            raise UsageError(
                f"indices '{other}' and '{name}' have one extent, and get two: "
                f"{given[other]} and {size}",
                help=f"leave out {name}={size} or {other}={given[other]}",
            )
    return {root: given[name] for root, name in first.items()}


@dataclass(frozen=True)
class Origin:
    """Where equations come from: for headers and the places in error messages, and for no
    decision."""

    text: str
    name: str | None = None
    spans: Mapping[str, Span] = field(default_factory=dict)

    def span(self, name: str) -> tuple[Span, ...]:
        """The place of a definition or monoid, if it has one."""
        return (self.spans[name],) if name in self.spans else ()
