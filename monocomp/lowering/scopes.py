"""Scopes: the bodies of the kernel and of its open loops, and where a value belongs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from monocomp import terms as T
from monocomp.errors import InternalError
from monocomp.planning.roles import fits_whole
from monocomp.terms import Term
from monocomp.tile import Axis, Expr, Fold, Let, Loop, Role, Statement, local


@dataclass
class Scope:
    """A loop's body, or the kernel's; what is computed in it counts where its condition holds."""

    axis: str | None
    depth: int
    body: list[Statement] = field(default_factory=list)
    memo: dict[Term, Expr] = field(default_factory=dict)
    condition: Term = T.TRUE

    def known(self) -> Iterable[Term]:
        """Parts of the condition that vary in this loop: what does not may be computed outside."""
        return (c for c in T.conjuncts(self.condition) if self.axis in c.free)


class Scopes:
    """The open scopes of a kernel under construction, the innermost last.

    Attributes:
        axes: the axes so far, by name.
        output_indices: names that belong to the outputs; bound indices take others.
        locals: symbols that stand for values in formulas of the algebra.
    """

    def __init__(self, axes: dict[str, Axis], sizes: Mapping[str, int]) -> None:
        self.axes = axes
        self.output_indices = frozenset(axes)
        self.sizes = sizes
        self.scopes: list[Scope] = [Scope(None, 0)]
        self.names: set[str] = set()
        self.locals: dict[Term, Expr] = {}

    def axis_names(self, *wanted: Role) -> list[str]:
        """Axes by role."""
        return [a.name for a in self.axes.values() if a.role in wanted]

    def _fits(self, extent: str) -> bool:
        return fits_whole(extent, self.sizes)

    def _new_axis(self, extent: str, role: Role, avoid: Iterable[str]) -> str:
        """An axis for a bound index: the same one for equal extents and roles.

        What is held whole may be an output's axis too: a tile that is read along both, such
        as latents that are keys and values, is one tile then. But not one with which the
        condition of an open loop varies, which would leave out elements.
        """
        base = extent.lstrip(".")
        taken = set(avoid) | {s.axis for s in self.scopes if s.axis}
        taken = taken.union(*(s.condition.free for s in self.scopes))
        if role == "whole":
            for axis in self.axes.values():
                if (axis.extent, axis.role) == (extent, role) and axis.name not in taken:
                    return axis.name
        name, n = base, 0
        while name in taken or (
            name in self.axes
            and (
                self.axes[name].role != role
                or self.axes[name].extent != extent
                or name in self.output_indices
            )
        ):
            n += 1
            name = f"{base}_{n}"
        self.axes[name] = Axis(name, extent, role)
        return name

    def _home(self, free: frozenset[str]) -> Scope:
        for scope in reversed(self.scopes):
            if scope.axis is None or scope.axis in free:
                return scope
        raise InternalError("no scope")

    def _fresh(self, base: str) -> str:
        name, n = base, 1
        while name in self.names:
            n += 1
            name = f"{base}_{n}"
        self.names.add(name)
        return name

    def _let(self, scope: Scope, base: str, value: Expr) -> Expr:
        name = self._fresh(base)
        scope.body.append(Let(name, value))
        return local(name, value.axes, value.kind)

    def _tile_axes(self, t: Term) -> frozenset[str]:
        """The axes along which a term varies inside a tile; grid values are scalars."""
        grid = set(self.axis_names("grid", "serial"))
        axes = frozenset(n for n in t.free if n not in grid)
        for s in self._symbols(t):
            axes |= self.locals[s].axes
        return axes

    def _symbols(self, t: Term) -> list[Term]:
        """The symbols of `_symbol` that occur in t."""
        if not self.locals:
            return []
        return [s for s in T.subterms(t) if s in self.locals]

    def _symbol(self, base: str, value: Expr) -> Term:
        """A term that stands for a value, to write formulas of the algebra with."""
        t = T.param(f"#{base}{len(self.locals)}", value.kind)
        self.locals[t] = value
        return t

    def _lookup(self, t: Term) -> Expr | None:
        for scope in reversed(self.scopes):
            found = scope.memo.get(t)
            if found is not None:
                return found
        return None

    def _home_of(self, value: Expr, t: Term) -> Scope:
        """The innermost scope on which the value depends, also through named values."""
        depth = max((self._depth_of(e) for e in leaves(value)), default=0)
        return self.scopes[max(depth, self.scopes.index(self._home(t.free)))]

    def _depth_of(self, e: Expr) -> int:
        """The depth at which a local is defined; a loop's own state counts as inside."""
        if e.op != "local":
            return 0
        for depth in range(len(self.scopes) - 1, -1, -1):
            for s in self.scopes[depth].body:
                if (isinstance(s, Let) and s.name == e.attr) or (
                    isinstance(s, Fold) and e.attr in (*s.names, *s.prefixes)
                ):
                    return depth
                if isinstance(s, Loop) and any(st.name == e.attr for st in s.state):
                    return depth
        return len(self.scopes) - 1  # a state of the loop that is being built

    def _by_depth(self, parts: Iterable[Term]) -> list[list[Term]]:
        """Terms grouped by the scope in which they are known, outermost first."""
        groups: dict[int, list[Term]] = {}
        for p in parts:
            depth = self.scopes.index(self._home(p.free))
            for s in self._symbols(p):
                depth = max(depth, self._depth_of(self.locals[s]))
            groups.setdefault(depth, []).append(p)
        return [groups[d] for d in sorted(groups)]


def leaves(e: Expr) -> Iterable[Expr]:
    if e.op == "local":
        yield e
    for a in e.args:
        yield from leaves(a)
