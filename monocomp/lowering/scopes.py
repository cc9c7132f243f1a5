"""Scopes: the bodies of the kernel and of its open loops, and where a value belongs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from monocomp import terms as T
from monocomp.errors import InternalError
from monocomp.extents.prefixes import Start, Walk, start_of
from monocomp.lowering.expressions import same
from monocomp.terms import Term
from monocomp.terms.nodes import intern
from monocomp.terms.transfer import Dom
from monocomp.tile import Axis, Expr, Let, Origin, Role, Statement, leaves, local


@dataclass
class Scope:
    """A loop's body, or the kernel's; what is computed in it counts where its condition holds."""

    axis: str | None
    depth: int
    folds: Sequence[Term] = ()
    body: list[Statement] = field(default_factory=list)
    memo: dict[Term, Expr] = field(default_factory=dict)
    condition: Term = T.TRUE
    is_backwards: bool = False

    def known(self) -> Iterable[Term]:
        """Return the parts of the condition that vary in this loop: what does not may be computed
        outside."""
        return (c for c in T.conjuncts(self.condition) if self.axis in c.free)


class Scopes:
    """The open scopes of a kernel under construction, the innermost last.

    Attributes:
        axes: the axes so far, by name.
        fits: can an axis of this extent be held entirely? One of unknown length is taken to.
        is_short: is it also likely to be, where its length is unknown?
        output_indices: names that belong to the outputs; bound indices take others.
        locals: symbols that stand for values in formulas of the algebra.
        depths: those of the scopes in which names are defined; a state of a loop that is being
            built has none yet, and belongs to its body.
        named: the values that have names.
        accumulators: the names of accumulators, by the sum that each is of.
        origin: what is being computed.
    """

    def __init__(
        self,
        axes: Mapping[str, Axis],
        fits: Callable[[str], bool],
        is_short: Callable[[str], bool],
    ) -> None:
        self.axes = dict(axes)
        self.output_indices = frozenset(axes)
        self.fits = fits
        self.is_short = is_short
        self.scopes: list[Scope] = [Scope(None, 0)]
        self.names: set[str] = set()
        self.locals: dict[Term, Expr] = {}
        self._held: dict[Term, frozenset[Term]] = {}  # symbols, by the term that they occur in
        self.depths: dict[str, int] = {}
        self.named: dict[str, Expr] = {}
        self.accumulators: Mapping[Term, str] = {}
        self.origin: Origin | None = None

    def axis_names(self, *wanted: Role) -> list[str]:
        """Return axes by role."""
        return [a.name for a in self.axes.values() if a.role in wanted]

    def output_axes(self) -> dict[str, Axis]:
        """Return the axes of the outputs' indices."""
        return {name: self.axes[name] for name in self.output_indices}

    def new_axis(self, extent: str, role: Role, avoid: Iterable[str]) -> str:
        """Return an axis for a bound index: the same one for equal extents and roles.

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

    def home(self, free: frozenset[str]) -> Scope:
        """Return the innermost scope that indices or axes belong to."""
        for scope in reversed(self.scopes):
            if scope.axis is None or scope.axis in free:
                return scope
        raise InternalError("no scope")

    def depth_of(self, free: frozenset[str]) -> int:
        """Return the depth of the innermost scope that indices or axes belong to."""
        return self.home(free).depth

    def fresh(self, base: str) -> str:
        """Return a new name."""
        name, n = base, 1
        while name in self.names:
            n += 1
            name = f"{base}_{n}"
        self.names.add(name)
        return name

    @contextmanager
    def computing(self, t: Term, equation: str | None = None) -> Iterator[None]:
        """Run what is inside as the computation of a term, for an equation or else the current one.
        A term with symbols stands in no equation: it belongs to what the symbols are for."""
        outer = self.origin
        if equation is None and outer is not None:
            equation = outer.equation
        if equation is not None and not self._symbols(t):
            self.origin = Origin(equation, t)
        yield
        self.origin = outer

    def let(self, scope: Scope, base: str, value: Expr) -> Expr:
        """Name a value in a scope."""
        name = self.fresh(base)
        scope.body.append(Let(name, value, self.origin))
        self.depths[name] = scope.depth
        self.named[name] = value
        return local(name, value.axes, value.kind)

    def let_once(self, scope: Scope, base: str, value: Expr) -> Expr:
        """Return a name for a value in a scope, where it may have one."""
        for s in scope.body:
            if isinstance(s, Let) and same(s.value, value):
                return local(s.name, value.axes, value.kind)
        return self.let(scope, base, value)

    def tile_axes(self, t: Term) -> frozenset[str]:
        """Return the axes along which a term varies inside a tile; grid values are scalars."""
        grid = set(self.axis_names("grid", "serial"))
        axes = frozenset(n for n in t.free if n not in grid)
        for s in self._symbols(t):
            axes |= self.locals[s].axes
        return axes

    def _symbols(self, t: Term) -> frozenset[Term]:
        """Return the symbols of `symbol` that occur in t."""
        if not self.locals or not t.args:
            return frozenset((t,) if t in self.locals else ())
        symbols = self._held.get(t)
        if symbols is None:
            symbols = self._held[t] = frozenset().union(*map(self._symbols, t.args))
        return symbols

    def symbol(self, base: str, value: Expr, values: Dom) -> Term:
        """Return a term that stands for a value in formulas of the algebra, with its domain."""
        t = intern("symbol", (), (f"#{base}{len(self.locals)}", values), value.kind)
        self.locals[t] = value
        return t

    def lookup(self, t: Term) -> Expr | None:
        """Return the value of a term where an open scope has it."""
        for scope in reversed(self.scopes):
            value = scope.memo.get(t)
            if value is not None:
                return value
        return None

    def is_load(self, e: Expr) -> bool:
        """True if this is a tile as it is read, or converted: 0 where its axes are padded."""
        value = self.named.get(e.attr, e) if e.op == "local" else e
        return value.op == "load" or (value.op == "cast" and self.is_load(value.args[0]))

    def start_of(self, t: Term, scope: Scope) -> Start | None:
        """Return what a prefix starts with in a loop, if that carries it."""
        assert scope.axis is not None
        index = T.index(scope.axis, self.axes[scope.axis].extent)
        loop = Walk(index, scope.condition, scope.is_backwards)
        return start_of(t, loop, {n: a.role for n, a in self.output_axes().items()})

    def home_of(self, value: Expr, t: Term) -> Scope:
        """Return the innermost scope on which the value depends, also through named values."""
        depths = (self.depths.get(e.attr, self.scopes[-1].depth) for e in leaves(value))
        return self.scopes[max(self.depth_of(t.free), *depths, 0)]

    def by_depth(self, parts: Iterable[Term]) -> list[list[Term]]:
        """Return terms grouped by the scope in which they are known, outermost first."""
        groups: dict[int, list[Term]] = {}
        for p in parts:
            depth = self.depth_of(p.free)
            for s in self._symbols(p):
                value = self.locals[s]
                if value.op == "local":
                    depth = max(depth, self.depths.get(value.attr, self.scopes[-1].depth))
            groups.setdefault(depth, []).append(p)
        return [groups[d] for d in sorted(groups)]
