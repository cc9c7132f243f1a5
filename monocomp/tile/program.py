"""Tile programs: kernels as statements on tiles, without a schedule.

What is left open (block sizes, warps, stages, order) is the schedule.

    kernel  = axes, inputs, params, outputs, body
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

from monocomp.declarations.vocabulary import Kind
from monocomp.display.rendering import Rendered
from monocomp.tile.printer import Line, body_lines, show_axis, show_tensor
from monocomp.tile.statements import (
    Assign,
    Fold,
    Let,
    Loop,
    Statement,
    Store,
    Tensor,
    expressions,
    roots,
    walk,
)
from monocomp.tile.values import Axis, Expr, Role


@dataclass
class TileProgram(Rendered):
    """One kernel.

    `splits` are the extents of the splits that its streams are cut into, whose number is part of
    the schedule.
    """

    name: str
    axes: dict[str, Axis]
    inputs: dict[str, Tensor]
    params: dict[str, Kind]
    outputs: tuple[Tensor, ...]
    body: list[Statement] = field(default_factory=list)
    splits: frozenset[str] = frozenset()

    def of_dtypes(self, dtypes: Mapping[str, str]) -> TileProgram:
        """Return the program for inputs of dtypes, as far as they are known."""
        inputs = {n: replace(t, dtype=dtypes.get(n, t.dtype)) for n, t in self.inputs.items()}
        return replace(self, inputs=inputs)

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """Return every statement, loops before what they hold."""
        return tuple(walk(self.body))

    @cached_property
    def expressions(self) -> tuple[Expr, ...]:
        """Return every expression, operands before what uses them."""
        return tuple(expressions(self.body))

    @cached_property
    def lets(self) -> dict[str, Expr]:
        """Return the values that have names, by name."""
        return {s.name: s.value for s in self.statements if isinstance(s, Let)}

    def meaning(self, e: Expr) -> Expr:
        """Return the value that a name stands for; a state, or any other expression, as it is."""
        is_named = e.op == "local" and e.attr in self.lets
        return self.meaning(self.lets[e.attr]) if is_named else e

    @cached_property
    def sources(self) -> dict[str, list[Expr]]:
        """Return what each name is given by: a value, a fold's operands, all updates of a state."""
        sources: dict[str, list[Expr]] = {}
        for s in self.statements:
            if isinstance(s, Let | Assign | Fold):
                for name in (*s.names, *s.prefixes) if isinstance(s, Fold) else (s.name,):
                    sources.setdefault(name, []).extend(roots(s))
        return sources

    def made_of(
        self, *values: Expr, apart: Collection[str] = (), in_loops: bool = False
    ) -> Iterator[Expr]:
        """Yield values and all that they are computed from, through names.

        Args:
            values: where to begin.
            apart: operations whose operands are left out.
            in_loops: True to go on from the states of loops, and the results of folds.
        """
        waiting, seen = [*values], set[str]()
        while waiting:
            e = waiting.pop()
            yield e
            waiting += () if e.op in apart else e.args
            if e.op == "local" and e.attr not in seen and (in_loops or e.attr in self.lets):
                seen.add(e.attr)
                waiting += self.sources.get(e.attr, ())

    @cached_property
    def tiles(self) -> tuple[frozenset[str], ...]:
        """Return the axes of tiles, of those alone that no other tile has all of."""
        axes = dict.fromkeys(e.axes for e in self.expressions)
        return tuple(t for t in axes if not any(t < other for other in axes))

    @cached_property
    def loops(self) -> list[Loop]:
        """Return the loops, outer ones before what they hold."""
        return [s for s in self.statements if isinstance(s, Loop)]

    @cached_property
    def products(self) -> list[Expr]:
        """Return the products of tiles that are summed along an axis."""
        return [e for e in self.expressions if e.op == "contract"]

    @cached_property
    def stream_loops(self) -> list[Loop]:
        """Return the loops over streams."""
        return [s for s in self.loops if s.axis.role == "stream"]

    @cached_property
    def load_levels(self) -> int:
        """Return the length of the longest chain of loads that wait for each other in a block: two
        where a table says where the elements of a tile are, such as that of a cache's pages."""
        levels: dict[str, int] = {}

        def level(e: Expr) -> int:
            if e.op == "local":
                return levels.get(e.attr, 0)
            is_streamed = any(self.axes[a].role == "stream" for a in e.axes)
            return max(map(level, e.args), default=0) + (e.op == "load" and is_streamed)

        for s in self.statements:
            if isinstance(s, Let):
                levels[s.name] = level(s.value)
        return max([1, *levels.values()])

    def axis_names(self, *roles: Role) -> list[str]:
        """Return the axes that have one of the roles, in a fixed order."""
        return [a.name for a in self.axes.values() if a.role in roles]

    def stores(self, output: str) -> list[Store]:
        """Return the stores to an output."""
        return [s for s in walk(self.body) if isinstance(s, Store) and s.output == output]

    def is_added_to(self, output: str) -> bool:
        """True if stores add to an output, which then starts as 0."""
        return any(s.mode == "add" for s in self.stores(output))

    def extents(self) -> list[str]:
        """Return the extents that the kernel mentions, in a fixed order."""
        extents = dict.fromkeys(a.extent for a in self.axes.values())
        extents |= dict.fromkeys(d for t in self.inputs.values() for d in t.dims)
        extents |= dict.fromkeys(d for o in self.outputs for d in o.dims)
        for e in self.expressions:
            if e.op == "extent":
                extents[e.attr] = None
        return list(extents)

    def lines(self) -> Iterator[Line]:
        """Yield the lines of its text, each with its statement."""
        params = (f"{name}: {kind}" for name, kind in self.params.items())
        inputs = ", ".join((*map(show_tensor, self.inputs.values()), *params))
        yield f"kernel {self.name}({inputs}) -> {', '.join(map(show_tensor, self.outputs))}", None
        for role, axes in groupby(self.axes.values(), lambda a: a.role):
            yield f"  {role} {', '.join(map(show_axis, axes))}", None
        if self.splits:
            yield f"  splits {', '.join(sorted(self.splits))}", None
        yield from body_lines(self.body, self.axes)

    def __str__(self) -> str:
        return "\n".join(text for text, _ in self.lines())
