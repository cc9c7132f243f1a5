"""Records of what a program takes and returns: inputs, parameters, extents, outputs.

A checked program and the equations that it is translated to have the same records; its extents are
expressions, theirs are terms. A rule or a lowering adds an input, a parameter, an extent or an
output by adding a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Generic, TypeVar

from monocomp.declarations.record import record
from monocomp.declarations.vocabulary import Kind
from monocomp.display.notes import Note
from monocomp.errors import Span, UsageError, unknown

Size = TypeVar("Size")  # what a declared extent is


@record()
class Input:
    """A tensor that a call gives; a scalar has no dims.

    `dims` names each dimension by an index that has its extent. A dimension that only computed
    subscripts read, and that no declaration names, has a made-up name that starts with a dot. What
    is made for a call or a file knows the `dtype` in which the tensor is stored.
    """

    name: str
    dims: tuple[str, ...]
    kind: Kind
    dtype: str | None = None

    def __str__(self) -> str:
        """Return the input as the program reads it, with `_` where no index names a dimension."""
        dims = ",".join("_" if dim.startswith(".") else dim for dim in self.dims)
        return f"{self.name}[{dims}]" if dims else self.name

    @property
    def declaration(self) -> str:
        """Return its entry in an `input` line."""
        dims = ",".join(dim.lstrip(".") for dim in self.dims)
        kind = "" if self.kind == "float" else f": {self.kind}"
        return f"{self.name}[{dims}]{kind}" if dims else f"{self.name}{kind}"


@record()
class Param:
    """A number that a call gives by keyword. Without a default it is required."""

    name: str
    kind: Kind
    default: int | float | None = None

    def __str__(self) -> str:
        default = "" if self.default is None else f" = {self.default}"
        return f"{self.name}: {self.kind}{default}"


@record()
class Output:
    """An equation whose value is returned, and the dtype asked for, if any. Otherwise it has the
    dtype to which those of the inputs `like` are promoted."""

    name: str
    dtype: str | None = None
    like: tuple[str, ...] = field(default=(), compare=False)


@record()
class Declarations(Generic[Size]):
    """The records of a program, by name and in its order.

    `extent_of` maps every index to its extent, which is called like one of the indices that
    have it; `bounds` are the extents that are declared, over other extents and parameters, each
    after those that it mentions. The others are read off the shapes of inputs. `undeclared`
    are inputs that no `input` line names: where there are several inputs, calls name them.
    `deciding` are the inputs whose dtypes decide those of products (`terms.contractions`), `side`
    the floats that decide none; `masked` are the inputs that may hold -inf (`terms.masks`).
    """

    inputs: Mapping[str, Input] = field(default_factory=dict)
    params: Mapping[str, Param] = field(default_factory=dict)
    outputs: tuple[Output, ...] = ()
    extent_of: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, Size] = field(default_factory=dict)
    undeclared: frozenset[str] = field(default=frozenset(), compare=False)
    deciding: tuple[str, ...] = field(default=(), compare=False)
    side: tuple[str, ...] = field(default=(), compare=False)
    masked: frozenset[str] = frozenset()

    @property
    def has_order(self) -> bool:
        """True if calls may give the inputs by position."""
        return not self.undeclared or len(self.inputs) == 1

    def of_dtypes(self, dtypes: Mapping[str, str]) -> Declarations[Size]:
        """Return the declarations for inputs of dtypes, as far as they are known."""
        inputs = {n: replace(i, dtype=dtypes.get(n)) for n, i in self.inputs.items()}
        return replace(self, inputs=inputs)

    def extents(self, tensor: str) -> tuple[str, ...]:
        """Return the extents of an input's dimensions."""
        return tuple(self.extent_of[dim] for dim in self.inputs[tensor].dims)

    @property
    def names(self) -> frozenset[str]:
        """Return the names that are taken, which no new name may be."""
        return frozenset((*self.inputs, *self.params, *self.extent_of, *self.bounds))


def free_extents(declared: Declarations[Any]) -> tuple[str, ...]:
    """Return the indices, one for each set that shares an extent, whose sizes the inputs decide."""
    extents = dict.fromkeys(e for name in declared.inputs for e in declared.extents(name))
    return tuple(name for name in extents if name not in declared.bounds and name[0] != ".")


def by_representative(declared: Declarations[Any], sizes: Mapping[str, int]) -> dict[str, int]:
    """Given extents by what represents them; an unknown name, two sizes, or what is none is an
    error."""
    table = declared.extent_of
    first: dict[str, str] = {}
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise UsageError(f"the extent of '{name}' is {size!r}, not a number of entries")
        root = table.get(name, table.get(f".{name}"))
        if root is None:
            names = [index.lstrip(".") for index in table]
            raise unknown(name, names, f"the program has no index '{name}'", "indices")
        other = first.setdefault(root, name)
        if sizes[other] != size:
            raise UsageError(
                f"indices '{other}' and '{name}' have one extent, and get two: "
                f"{sizes[other]} and {size}",
                help=f"leave out {name}={size} or {other}={sizes[other]}",
            )
    return {root: sizes[name] for root, name in first.items()}


@record()
class Origin:
    """The source of a program: for headers and the positions in error messages, and for no
    decision.

    Attributes:
        text: the program.
        name: what it is called.
        spans: where its inputs, definitions and monoids stand, and the extents of indices.
        notes: what the text means where that may surprise.
    """

    text: str = ""
    name: str | None = None
    spans: Mapping[str, Span] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    def span(self, name: str) -> tuple[Span, ...]:
        """Return the position of what has this name, if it has one."""
        return (self.spans[name],) if name in self.spans else ()

    def quoted(self, name: str) -> str:
        """Return the text there, in one line."""
        return " ".join(" ".join(self.text[s.start : s.stop].split()) for s in self.span(name))
