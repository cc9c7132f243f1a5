"""Find the indices that share an extent, and what gives it.

Two index names that meet on one dimension have the same extent, which is called like the one that
comes first in the text. An input's dimension gives it, or an `index` line declares it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from monocomp.declarations.records import Input
from monocomp.errors import (
    RecursiveDefinitionError,
    ShapeError,
    Span,
    TypeMismatchError,
    UnknownIndexError,
    nearest,
)
from monocomp.language import syntax as S
from monocomp.language.scoping import Scope


class Extents:
    """A union of the index names that meet on a dimension.

    Args:
        scope: the names of the program.
        bounds: the declared extents.
        reads: every read with its plain subscripts.
        fields: every field of an aggregate that is taken, with the indices of its entries.
    """

    def __init__(
        self,
        scope: Scope,
        bounds: Mapping[str, S.Expr],
        reads: Sequence[tuple[S.Read, tuple[str, ...]]],
        fields: Iterable[tuple[S.Field, tuple[str, ...]]],
    ) -> None:
        self.scope = scope
        self._params = scope.params
        self._bounds = bounds
        self._above: dict[str, str] = {}
        self._order = {name: span.start for name, span in self.scope.indices.items()}
        self.dims: dict[str, tuple[str, ...]] = {
            **{key: at.dims for key, at in self.scope.inputs.items()},
            **{key: at.indices for key, at in self.scope.given.items()},
        }
        # Indices that are a part of another's extent meet none of it: those come first.
        self._parts: dict[tuple[Span, int], str] = {}
        self._equal = {n: b.index for n, b in self._bounds.items() if isinstance(b, S.Extent)}
        bounded = self._bounds.keys() - self._equal.keys()
        for field, indices in fields:
            for part, index in zip(field.subscripts, indices, strict=True):
                if isinstance(part, S.Name) and not self._are_declared_alike(part.name, index):
                    self._union(part.name, index)
        for read, names in reads:
            self._meet(read, tuple("" if name in bounded else name for name in names))
        for read, names in reads:
            self._meet(read, tuple(name if name in bounded else "" for name in names))
        scope = self.scope
        taken = {*self.dims, *scope.definitions, *scope.params, *scope.indices, *scope.functions}
        self.dims = {
            key: tuple(dim or made_up(key, number, taken) for number, dim in enumerate(dims))
            for key, dims in self.dims.items()
        }
        # `index i < |j|` says that the two share an extent.
        self._given = {self.find(dim) for dims in self.dims.values() for dim in dims}
        for name, bound in self._bounds.items():
            self._check_bound(bound, name)
        self._given |= {self.find(name) for name in self._bounds.keys() - self._equal.keys()}
        self._check_cycles()
        for name, other in self._equal.items():
            self._union(name, other)
        self._given = {self.find(name) for name in self._given}
        self._check_given()

    def find(self, name: str) -> str:
        """Return the representative: the name of the set that appears first in the text."""
        while name in self._above:
            name = self._above[name]
        return name

    def _union(self, one: str, other: str) -> None:
        roots = sorted({self.find(one), self.find(other)}, key=lambda key: self._order[key])
        if len(roots) == 2:
            self._above[roots[1]] = roots[0]

    def _are_declared_alike(self, one: str, other: str) -> bool:
        return one in self._bounds and self._bounds[one] == self._bounds.get(other)

    def _meet(self, read: S.Read, names: tuple[str, ...]) -> None:
        """Plain subscripts of one dimension have its extent."""
        if read.name in self.scope.definitions:
            known: tuple[str, ...] = self.scope.definitions[read.name].indices
        else:
            known = self.dims.setdefault(read.name, ("",) * len(read.subscripts))
        dims = list(known)
        for number, name in enumerate(names):
            if name and dims[number] and self._is_part(name, dims[number]):
                self._parts[read.span, number] = dims[number]
                continue
            if name and dims[number]:
                self._union(dims[number], name)
            dims[number] = dims[number] or name
        if read.name not in self.scope.definitions:
            self.dims[read.name] = tuple(dims)

    def _is_part(self, name: str, whole: str) -> bool:
        """True if the extent of an index is computed from another's, as in `index p < |d| // 2`."""
        todo, seen = [name], {name}
        while todo:
            bound = self._bounds.get(todo.pop())
            for part in () if bound is None else S.walk(bound):
                if isinstance(part, S.Extent) and part.index not in seen:
                    if self.find(part.index) == self.find(whole):
                        return name not in self._equal
                    seen.add(part.index)
                    todo.append(part.index)
        return False

    def in_part(self, node: S.Expr) -> S.Expr:
        """Return an expression whose reads of a part of a dimension say that they stay inside of
        it."""
        children = [self.in_part(part) for part in S.children(node)]
        if isinstance(node, S.Read):
            for number, part in enumerate(children):
                whole = self._parts.get((node.span, number))
                if whole is not None and isinstance(part, S.Name):
                    at = part.span
                    inside = S.Compare(("<",), (part, S.Extent(whole, span=at)), span=at)
                    outside = S.Number(-1, span=at)
                    children[number] = S.Call("where", (inside, part, outside), span=at)
        return S.with_children(node, children)

    def _check_given(self) -> None:
        for name, place in self.scope.indices.items():
            if self.find(name) not in self._given:
                near = nearest(name, [key for key in self.scope.indices if key != name])
                raise UnknownIndexError(
                    f"nothing gives the extent of index '{name}'",
                    spans=place,
                    notes=("no input is read with it as a plain subscript",),
                    help=f"declare it: index {name} < ..."
                    + (f", or did you mean '{near}'?" if near else ""),
                )

    def _check_bound(self, node: S.Expr, name: str) -> None:
        """The extent of an index is integer arithmetic on extents and int parameters."""
        for part in S.walk(node):
            match part:
                case S.Number():
                    fine = isinstance(part.value, int)
                case S.Name(kind="param"):
                    fine = self._params[part.name].kind == "int"
                case S.Call():
                    fine = part.function in ("minimum", "maximum")
                case S.Binary():
                    fine = part.op in ("+", "-", "*", "//", "%")
                case S.Extent() | S.Unary(op="-"):
                    fine = True
                case _:
                    fine = False
            if not fine:
                raise TypeMismatchError(
                    f"the extent of index '{name}' must be an integer known at the call",
                    spans=part.span,
                    notes=(
                        "accepted: integers, extents, int parameters, + - * // %, minimum, maximum",
                    ),
                    help=f"write |{part.name}|"
                    if isinstance(part, S.Name) and part.kind == "index"
                    else "a bound that differs from element to element is a filter: "
                    f"sum[{name} if {name} < len[b]](x)",
                )

    def _check_cycles(self) -> None:
        graph: dict[str, set[str]] = {}
        for name, bound in self._bounds.items():
            names = {self.find(part.index) for part in S.walk(bound) if isinstance(part, S.Extent)}
            if name not in self._equal or self.find(name) not in self._given & names:
                graph.setdefault(self.find(name), set()).update(names)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            cycle = [str(name) for name in error.args[1]]
            name = next(key for key in self._bounds if self.find(key) in cycle)
            raise RecursiveDefinitionError(
                f"the extent of index '{name}' is given by itself",
                spans=self.scope.bounds[name].span,
                help="give it a number, a parameter or the extent of another index",
            ) from None

    def bounds(self) -> dict[str, S.Expr]:
        """Return the declared extents, one for each set of indices that share it, each after
        those that it mentions."""
        by_representative: dict[str, tuple[str, S.Expr]] = {}
        for name, bound in self._bounds.items():
            if name in self._equal:
                continue
            other, first = by_representative.setdefault(self.find(name), (name, bound))
            if first != bound:
                raise ShapeError(
                    f"indices '{other}' and '{name}' meet on one dimension and are declared "
                    "with two extents",
                    spans=(self.scope.bounds[name].span, self.scope.bounds[other].span),
                    help="declare one of them",
                )
        graph = {
            key: {self.find(part.index) for part in S.walk(bound) if isinstance(part, S.Extent)}
            & by_representative.keys()
            for key, (_, bound) in by_representative.items()
        }
        return {
            str(key): by_representative[key][1] for key in TopologicalSorter(graph).static_order()
        }

    def table(self, inputs: dict[str, Input]) -> dict[str, str]:
        """Return every index and made-up dimension with its representative."""
        names = [*self.scope.indices, *(dim for at in inputs.values() for dim in at.dims)]
        return {name: self.find(name) for name in names}


def made_up(tensor: str, dimension: int, taken: Collection[str]) -> str:
    """Name a dimension that no index names, as nothing in the program is called.

    One last digit, or what follows it, keeps it unique.
    """
    name = f"{tensor}{dimension:X}"
    while name in taken:
        name += "_"
    return f".{name}"
