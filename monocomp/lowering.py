"""Lowering: equations in lifted normal form become tile programs.

Every value is computed in the outermost scope in which the indices that it varies with
are at hand, so what the stream does not touch leaves the loop. Folds at the same depth
over the same domain share one loop, and folds in SE with the same exponents share its
frame (see `rewrites.pullback`). Exponentials are taken to base 2, with the constants that
stand in front of the exponent folded into one factor outside the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from monocomp import terms as T
from monocomp.algebra import SE, SE_PAIR, frame, is_mantissa, settled
from monocomp.domain import split
from monocomp.errors import InternalError, UnsupportedError
from monocomp.printer import show
from monocomp.program import Equation, Equations
from monocomp.rewrites.normal_form import normal_form
from monocomp.rewrites.pullback import Pass, passes
from monocomp.syntax import Kind
from monocomp.terms import Term
from monocomp.tile import (
    Assign,
    Axis,
    Expr,
    Let,
    Loop,
    OutputTensor,
    Role,
    State,
    Statement,
    Store,
    Tensor,
    TileProgram,
    apply,
    expressions,
    local,
    number,
    roots,
    walk,
)

WHOLE_LIMIT = 256  # the longest axis that is held entirely
_UNITS = {"sum": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}
# A frame is a maximum, or minus a minimum.
_EXTREMA = {"max": T.NEG_INF, "min": T.INF}
_LARGEST_INT = 2**63 - 1
_JOIN = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "mul"}


def lower(program: Equations, sizes: Mapping[str, int] | None = None) -> tuple[TileProgram, ...]:
    """The kernels of a program in lifted normal form, one for each set of output rows.

    Args:
        program: equations without definitions left to inline.
        sizes: extents that are known; an axis longer than `WHOLE_LIMIT` is not held whole.
    """
    kernels = []
    for number_, group in enumerate(_groups(program)):
        suffix = "" if number_ == 0 else f"_{number_ + 1}"
        kernels.append(_Lowering(program, group, sizes or {}, suffix).run())
    return tuple(kernels)


def _groups(program: Equations) -> list[list[Equation]]:
    """Outputs that share a fold, under the same row indices, go in one kernel."""
    groups: list[tuple[set[Term], list[Equation]]] = []
    for equation in program.outputs:
        folds = {t for t in T.subterms(equation.body) if t.op == "fold"}
        for shared, members in groups:
            if folds & shared or {i.attr for i in members[0].indices} == {
                i.attr for i in equation.indices
            }:
                shared |= folds
                members.append(equation)
                break
        else:
            groups.append((folds, [equation]))
    return [members for _, members in groups]


@dataclass
class _Scope:
    """A loop's body, or the kernel's."""

    axis: str | None
    depth: int
    body: list[Statement] = field(default_factory=list)
    memo: dict[Term, Expr] = field(default_factory=dict)
    guard: Expr | None = None  # what must hold for an element to be read at all


class _Lowering:
    def __init__(
        self, program: Equations, group: list[Equation], sizes: Mapping[str, int], suffix: str
    ) -> None:
        self.program = program
        self.group = group
        self.sizes = sizes
        self.suffix = suffix
        self.axes: dict[str, Axis] = {}
        self.scopes: list[_Scope] = [_Scope(None, 0)]
        self.names: set[str] = set()
        self.locals: dict[Term, Expr] = {}
        self.exponents: dict[Term, Term] = {}

    def run(self) -> TileProgram:
        self._choose_roles()
        late = self.axis_names("stream")
        here = [e for e in self.group if not any(i.attr[0] in late for i in e.indices)]
        self._prepare([e.body for e in self.group])
        for equation in here:
            self._store(equation)
        for name in late:
            self._store_in_loop(name, [e for e in self.group if e not in here])
        body = self.scopes[0].body
        _inline_single_uses(body)
        return self._program(body)

    def axis_names(self, *wanted: Role) -> list[str]:
        """Axes by role."""
        return [a.name for a in self.axes.values() if a.role in wanted]

    # --- roles ------------------------------------------------------------------------

    def _choose_roles(self) -> None:
        """Give every index of the outputs a role, by where it occurs.

        An index that some aggregate lacks and another has is a column of values: held
        whole. One that every aggregate lacks is streamed once more to write the result.
        Of the others, one that a large operand of a loop lacks is a row: its block shares
        what is read.
        """
        indices = dict.fromkeys(i for e in self.group for i in e.indices)
        folds = list(_outer_folds(e.body for e in self.group))
        rows = _rows([i.attr[0] for i in indices], folds)
        for i in indices:
            name = i.attr[0]
            having = [f for f in folds if name in f.free]
            role: Role = "row" if name in rows else "grid"
            if folds and not having:
                role = "stream"
            elif len(having) < len(folds) and self._fits(i.attr[1]):
                role = "whole"
            self.axes[name] = Axis(name, i.attr[1], role)
        streams = self.axis_names("stream")
        for extra in streams[1:]:  # one axis is streamed, the others are cut into blocks
            self.axes[extra] = Axis(extra, self.axes[extra].extent, "row")
        if not folds and self.axes:
            last = list(self.axes)[-1]
            self.axes[last] = Axis(last, self.axes[last].extent, "row")

    def _fits(self, extent: str) -> bool:
        return self.sizes.get(extent, 0) <= WHOLE_LIMIT

    def _new_axis(self, extent: str, role: Role, avoid: Iterable[str]) -> str:
        """An axis for a bound index: the same one for equal extents and roles."""
        base = extent.lstrip(".")
        taken = set(avoid) | {s.axis for s in self.scopes if s.axis}
        name, n = base, 0
        while name in taken or (
            name in self.axes
            and (
                self.axes[name].role != role
                or self.axes[name].extent != extent
                or name in self._output_indices
            )
        ):
            n += 1
            name = f"{base}_{n}"
        self.axes[name] = Axis(name, extent, role)
        return name

    @property
    def _output_indices(self) -> set[str]:
        return {i.attr[0] for e in self.group for i in e.indices}

    # --- scopes -----------------------------------------------------------------------

    def _home(self, free: frozenset[str]) -> _Scope:
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

    def _let(self, scope: _Scope, base: str, value: Expr) -> Expr:
        name = self._fresh(base)
        scope.body.append(Let(name, value))
        return local(name, value.axes, value.kind)

    # --- loops ------------------------------------------------------------------------

    def _prepare(self, terms: list[Term]) -> None:
        """Emit the loops of this scope that the terms need, shallow ones first."""
        for group in passes(terms, self._is_streamed):
            self._loop(group)

    def _is_streamed(self, t: Term) -> bool:
        """Is this fold a loop of the current scope, not yet emitted?

        In the kernel's scope folds are streamed, but for axes that are held whole; inside
        a loop they are whole tiles, but for long axes and for bodies that are no products
        of two factors.
        """
        if t.op != "fold" or self._lookup(t) is not None:
            return False
        if any(n.startswith("$") for n in t.free):  # inside a fold that is not open yet
            return False
        if len(t.attr.indices) != 1:
            self._refuse(t)
        scope = self.scopes[-1]
        if scope.axis is None:
            return True
        if self._home(t.free) is not scope:
            return False
        if t.attr.monoid != "sum":
            return True
        return not self._fits(t.attr.extents[0]) or not self._is_contraction(t)

    def _is_contraction(self, t: Term) -> bool:
        """Is the body a product of at most two groups of factors with different axes, and
        no larger than a tile of two axes?"""
        (bound,), (_, body) = T.open_fold(t)
        sides = _sides(_factors(body), bound.attr[0], self._tile_axes)
        return len(sides) == 2 or (len(sides) == 1 and len(self._tile_axes(sides[0])) <= 1)

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

    def _refuse(self, t: Term) -> None:
        raise UnsupportedError(
            f"no kernel is generated for {t.attr.name}",
            notes=[f"in {show(t, self.program.names())}"],
            help="mc.evaluate runs the whole language",
        )

    def _loop(self, group: Pass) -> None:
        first = group.folds[0]
        parent = self.scopes[-1]
        avoid = frozenset().union(*(f.free for f in group.folds))
        serial = parent.axis is not None and self._fits(group.extent)
        serial |= any(_is_user_fold(f) for f in group.folds)  # in order, one at a time
        name = self._new_axis(group.extent, "serial" if serial else "stream", avoid)
        axis = self.axes[name]
        opened = {f: T.open_as(f, (name,)) for f in group.folds}
        bound = opened[first][0][0]
        condition = opened[first][1][0]
        domain = split(bound, condition)
        self._prepare([*domain.lower, *domain.upper])
        lower = tuple(self._value(t) for t in domain.lower)
        upper = tuple(self._value(t) for t in domain.upper)
        scope = _Scope(name, len(self.scopes))
        self.scopes.append(scope)
        scope.guard = self._column_guard(domain.mask, name)
        self._prepare([p for _, parts in opened.values() for p in parts])
        mask = self._value(domain.mask) if domain.mask is not T.TRUE else None
        folds = tuple(show(_visible(f), self.program.reader_names()) for f in group.folds)
        loop = Loop(axis, lower, upper, [], scope.body, mask, folds)
        plain = [f for f in opened if not _is_user_fold(f) and f.attr.monoid is not SE_PAIR]
        frames = {f: opened[f][1] for f in plain}
        mantissas = {f: parts for f, (_, parts) in opened.items() if f.attr.monoid is SE_PAIR}
        results: dict[Term, Expr] = {}
        updates: list[Assign] = []
        joined: dict[Term, tuple[Term, Term, Term]] = {}
        for f, parts in frames.items():
            state, new = self._fold_tile(loop, f, parts[1])
            results[f] = state
            updates.append(Assign(state.attr, new))
            if f.attr.monoid in _EXTREMA and mantissas:
                joined[f] = self._frame_symbols(loop, f, parts[1], state, updates)
        for f, (_, parts) in opened.items():
            if _is_user_fold(f):
                results |= self._user_fold(loop, f, parts[1:], updates)
        for f, parts in mantissas.items():
            state = self._mantissa(loop, f, parts, bound, joined, updates)
            results[T.field(f, "v")] = state
        frame_states = {results[f].attr for f in joined}
        scope.body += sorted(updates, key=lambda u: u.name in frame_states)  # frames last
        self.scopes.pop()
        parent.body.append(loop)
        for f, state in results.items():
            parent.memo[f] = state

    def _column_guard(self, mask: Term, axis: str) -> Expr | None:
        """The part of a mask that no row takes part in: what it rules out is not read, so
        that whatever stands there cannot reach a sum as 0 times itself."""
        parts = [c for c in T.conjuncts(mask) if self._tile_axes(c) <= {axis}]
        return self._value(T.conjunction(*parts)) if parts else None

    def _user_fold(
        self, loop: Loop, f: Term, elements: Sequence[Term], updates: list[Assign]
    ) -> dict[Term, Expr]:
        """A user's monoid: combine the state with the next element, in the index's order."""
        monoid = f.attr.monoid
        axes = self._tile_axes(f)
        scope = self.scopes[-1]
        states = []
        symbols: dict[Term, Term] = {}
        for name, unit, element in zip(monoid.fields, monoid.unit, elements, strict=True):
            start = T.split_coefficient(unit)
            if start[1] is not None:
                self._refuse(f)
            state = self._state(loop, name, axes, "float", float(start[0]))
            states.append(state)
            symbols[T.param(name, "float")] = self._symbol(name, state)
            value = self._let(scope, name + "_next", self._value(element))
            symbols[T.param(name + "'", "float")] = self._symbol(name, value)
        results = {}
        for name, state, combined in zip(monoid.fields, states, monoid.combine, strict=True):
            for old, new in symbols.items():
                combined = T.replace(combined, old, new)
            value = self._let(scope, name + "_new", self._value(combined))
            if loop.lower or loop.upper or loop.mask is not None:
                membership = Expr("member", (), loop.axis.name, self._loop_axes(loop), "bool")
                value = apply("where", membership, value, state)
            updates.append(Assign(state.attr, value))
            results[T.field(f, name)] = state
        return results

    def _loop_axes(self, loop: Loop) -> frozenset[str]:
        """The axes along which membership in the loop's domain varies."""
        bounds = (*loop.lower, *loop.upper, *((loop.mask,) if loop.mask is not None else ()))
        axes: frozenset[str] = frozenset().union(*(b.axes for b in bounds))
        return axes if loop.axis.role == "serial" else axes | {loop.axis.name}

    def _fold_tile(self, loop: Loop, f: Term, body: Term) -> tuple[Expr, Expr]:
        """A plain fold: the state, and its value after this tile."""
        monoid = f.attr.monoid
        if monoid not in _UNITS:
            self._refuse(f)
        axis = loop.axis
        tile_axes = self._tile_axes(f)
        kind = f.kind
        unit = _UNITS[monoid]
        if kind == "int" and math.isinf(unit):
            unit = _LARGEST_INT if unit > 0 else -_LARGEST_INT - 1
        state = self._state(loop, _STATE_NAMES.get(monoid, monoid), tile_axes, kind, unit)
        if monoid == "sum":
            return state, self._sum_tile(loop, body, state)
        value = self._masked(loop, self._value(body), unit)
        if monoid in _EXTREMA:
            self.exponents[body] = self._symbol("masked", value)
        folded = _reduce(monoid, axis, value)
        return state, apply(_JOIN[monoid], state, folded, kind=kind)

    def _state(self, loop: Loop, base: str, axes: frozenset[str], kind: Kind, unit: float) -> Expr:
        name = self._fresh(base)
        loop.state.append(State(name, axes, kind, unit))
        return local(name, axes, kind)

    def _masked(self, loop: Loop, value: Expr, unit: float) -> Expr:
        if loop.axis.role == "serial" and not (loop.lower or loop.upper or loop.mask):
            return value
        axes = value.axes | self._loop_axes(loop)
        masked = Expr("masked", (value,), (loop.axis.name, unit), axes, value.kind)
        base = f"{value.attr}_in" if value.op == "local" else "x"
        return self._let(self.scopes[-1], base, masked)

    def _sum_tile(self, loop: Loop, body: Term, state: Expr, vanishing: bool = False) -> Expr:
        """state + the sum of body over the loop's tile, as a product of tiles if it is one.

        `vanishing` says that a factor is already 0 outside the domain.
        """
        axis = loop.axis
        factors = list(_factors(body))
        sides = _sides(factors, axis.name, self._tile_axes)
        if axis.role == "serial":
            value = self._value(body)
            return apply("add", state, value if vanishing else self._masked(loop, value, 0.0))
        if len(sides) != 2:
            value = self._value(body)
            if not vanishing:
                value = self._masked(loop, value, 0.0)
            return apply("add", state, _reduce("sum", axis, value), kind=state.kind)
        left, right = (self._value(s) for s in sides)
        if not vanishing and not (
            loop.mask is None
            and not loop.lower
            and not loop.upper
            and left.op == right.op == "local"
            and self._is_load(left)
            and self._is_load(right)
        ):
            left = self._masked(loop, left, 0.0)
        if not vanishing and not self._is_load(right):
            right = self._masked(loop, right, 0.0)
        return _contract(axis, left, right, state)

    def _padded(self, value: Expr, axis: str) -> Expr:
        """A computed operand is not 0 where its axis is padded; a loaded one is."""
        if self._is_load(value) or axis not in value.axes:
            return value
        masked = Expr("masked", (value,), (axis, 0.0), value.axes, value.kind)
        return self._let(self.scopes[-1], "x", masked)

    def _is_load(self, e: Expr) -> bool:
        return any(
            isinstance(s, Let) and s.name == e.attr and s.value.op == "load"
            for scope in self.scopes
            for s in scope.body
        )

    def _symbol(self, base: str, value: Expr) -> Term:
        """A term that stands for a value, to write formulas of the algebra with."""
        t = T.param(f"#{base}{len(self.locals)}", "float")
        self.locals[t] = value
        return t

    def _frame_symbols(
        self, loop: Loop, f: Term, body: Term, state: Expr, updates: list[Assign]
    ) -> tuple[Term, Term, Term]:
        """(old frame, new frame to subtract, masked exponent) as terms."""
        scope = self.scopes[-1]
        new = self._let(scope, state.attr + "_new", updates[-1].value)
        updates[-1] = Assign(state.attr, new)
        new_symbol = self._symbol("frame", new)
        shift = self._value(settled(new_symbol, _EXTREMA[f.attr.monoid]))
        return self._symbol("old", state), self._symbol("shift", shift), self.exponents[body]

    def _mantissa(
        self,
        loop: Loop,
        f: Term,
        parts: tuple[Term, ...],
        bound: Term,
        joined: Mapping[Term, tuple[Term, Term, Term]],
        updates: list[Assign],
    ) -> Expr:
        """v <- move(m, m') v + sum_k embed(m', value, exponent), with m' the joined frame."""
        condition, value, exponent = parts
        whole = normalise(frame(bound, condition, exponent))
        old, new, masked = whole, whole, exponent
        for fold_, (old_symbol, shift, masked_body) in joined.items():
            (_,), (_, body) = T.open_as(fold_, (loop.axis.name,))
            old = T.replace(old, fold_, old_symbol)
            new = T.replace(new, fold_, shift)
            masked = T.replace(masked, body, masked_body)
        if old is whole:  # the frame is known from an earlier pass, and moves no more
            masked = self._symbol("x", self._masked(loop, self._value(exponent), -math.inf))
        base = "acc" if value is not T.ONE else "l_i"
        state = self._state(loop, base, self._tile_axes(T.field(f, "v")), "float", 0.0)
        scaled = state if old is whole else apply("mul", state, self._value(SE.move(old, new)))
        body = SE.embed(new, value, masked)
        safe = all(fac.op in ("read", "exp") for fac in _factors(body))
        updates.append(Assign(state.attr, self._sum_tile(loop, body, scaled, vanishing=safe)))
        return state

    # --- outputs ----------------------------------------------------------------------

    def _store(self, equation: Equation) -> None:
        value = self._value(equation.body)
        self.scopes[-1].body.append(Store(equation.name, value))

    def _store_in_loop(self, name: str, equations: list[Equation]) -> None:
        scope = _Scope(name, 1)
        self.scopes.append(scope)
        self._prepare([e.body for e in equations])
        for e in equations:
            self._store(e)
        self.scopes.pop()
        self.scopes[0].body.append(Loop(self.axes[name], (), (), [], scope.body))

    def _program(self, body: list[Statement]) -> TileProgram:
        source = self.program.source
        used = list(expressions(body))
        loads = {e.attr for e in used if e.op == "load"}
        params = {e.attr for e in used if e.op == "param"}
        outputs = tuple(
            OutputTensor(
                e.name,
                tuple(i.attr[0] for i in e.indices),
                e.body.kind,
                next(o.dtype for o in source.outputs if o.name == e.name),
            )
            for e in self.group
        )
        mentioned = {a for e in used for a in e.axes} | {a for o in outputs for a in o.axes}
        mentioned |= {s.axis.name for s in walk(body) if isinstance(s, Loop)}
        mentioned |= {e.attr for e in used if e.op == "coordinate"}
        return TileProgram(
            name=(source.name or "kernel") + self.suffix,
            axes={n: a for n, a in self.axes.items() if n in mentioned},
            inputs={
                n: Tensor(n, i.dims, i.kind) for n, i in sorted(source.inputs.items()) if n in loads
            },
            params={n: p.kind for n, p in source.params.items() if n in params},
            outputs=outputs,
            body=body,
        )

    # --- values -----------------------------------------------------------------------

    def _lookup(self, t: Term) -> Expr | None:
        for scope in reversed(self.scopes):
            found = scope.memo.get(t)
            if found is not None:
                return found
        return None

    def _value(self, t: Term, guard: Term | None = None) -> Expr:
        if t in self.locals:
            return self.locals[t]
        found = self._lookup(t)
        if found is not None:
            return found
        leaf = self._leaf(t)
        if leaf is not None:
            return leaf
        value = self._build(t, guard)
        if value.op in ("local", "number", "param", "extent", "coordinate"):
            return value
        home = self._home_of(value, t)
        named = self._let(home, _base_name(value, _TERM_NAMES.get(t.op, "t")), value)
        if guard is None or not value.guarded:
            home.memo[t] = named
        return named

    def _home_of(self, value: Expr, t: Term) -> _Scope:
        """The innermost scope on which the value depends, also through named values."""
        depth = max((self._depth_of(e) for e in _leaves(value)), default=0)
        return self.scopes[max(depth, self.scopes.index(self._home(t.free)))]

    def _depth_of(self, e: Expr) -> int:
        """The depth at which a local is defined; a loop's own state counts as inside."""
        if e.op != "local":
            return 0
        for depth in range(len(self.scopes) - 1, -1, -1):
            if any(isinstance(s, Let) and s.name == e.attr for s in self.scopes[depth].body):
                return depth
            for s in self.scopes[depth].body:
                if isinstance(s, Loop) and any(st.name == e.attr for st in s.state):
                    return depth
        return len(self.scopes) - 1  # a state of the loop that is being built

    def _leaf(self, t: Term) -> Expr | None:
        match t.op:
            case "const":
                value = t.attr if t.kind == "bool" else float(t.attr)
                return number(int(t.attr) if t.kind == "int" else value, t.kind)
            case "param":
                return Expr("param", (), t.attr, frozenset(), t.kind)
            case "extent":
                return Expr("extent", (), t.attr, frozenset(), "int")
            case "index":
                return Expr("coordinate", (), t.attr[0], self._tile_axes(t), "int")
        return None

    def _build(self, t: Term, guard: Term | None) -> Expr:
        match t.op:
            case "read":
                return self._load(t, guard)
            case "add":
                return self._sum(t)
            case "mul":
                return self._product(1.0, t)
            case "pow":
                return self._power(t)
            case "exp":
                return self._exponential(t)
            case "power":
                base, exponent = map(self._value, t.args)
                return apply("exp2", apply("mul", exponent, apply("log2", base)))
            case "cast":
                return apply("cast", self._value(t.args[0]), kind=t.kind)
            case "fold":
                return self._contraction(t)
            case "field" if t.args[0].op == "fold":
                self._prepare([t])
                found = self._lookup(t)
                if found is not None:
                    return found
            case "where":
                condition, a, b = t.args
                return apply(
                    "where",
                    self._value(condition),
                    self._value(a, condition),
                    self._value(b, T.negate(condition)),
                    kind=t.kind,
                )
            case "compare" | "floordiv" | "mod" | "and" | "or" | "not":
                operands = [self._value(a) for a in t.args]
                if t.op == "compare":
                    return apply("compare", *operands, kind="bool", attr=t.attr)
                if t.op in ("floordiv", "mod") and all(map(T.is_nonnegative, t.args)):
                    return apply(t.op, *operands, kind=t.kind, attr="nonnegative")
                return _chain(t.op, operands, t.kind)
        expansion = _EXPANSIONS.get(t.op)
        if expansion is not None:
            return self._build(expansion(*t.args), guard)
        if t.op in ("fold_at", "field", "ref"):
            self._refuse(t if t.op == "fold_at" else t.args[0])
        return apply(t.op, *(self._value(a) for a in t.args), kind=t.kind)

    def _load(self, t: Term, guard: Term | None) -> Expr:
        subscripts = tuple(self._value(a) for a in t.args)
        axes = frozenset().union(*(s.axes for s in subscripts))
        plain = all(a.op in ("index", "const") for a in t.args)
        condition = None if guard is None or plain else self._value(guard)
        ruled = self._home(t.free).guard
        if condition is None:
            condition = ruled
        elif ruled is not None:
            condition = apply("and", condition, ruled, kind="bool")
        if condition is None:
            return Expr("load", subscripts, t.attr, axes, t.kind)
        return Expr(
            "load", (*subscripts, condition), t.attr, axes | condition.axes, t.kind, guarded=True
        )

    def _by_depth(self, parts: Iterable[Term]) -> list[list[Term]]:
        """Terms grouped by the scope in which they are known, outermost first."""
        groups: dict[int, list[Term]] = {}
        for p in parts:
            depth = self.scopes.index(self._home(p.free))
            for s in self._symbols(p):
                depth = max(depth, self._depth_of(self.locals[s]))
            groups.setdefault(depth, []).append(p)
        return [groups[d] for d in sorted(groups)]

    def _sum(self, t: Term) -> Expr:
        return self._signed_sum(t.args, t.kind, self._value)

    def _signed_sum(
        self, addends: Iterable[Term], kind: Kind, value: Callable[[Term], Expr]
    ) -> Expr:
        """The sum of value(a), what is known outside summed there first."""
        total: Expr | None = None
        groups = self._by_depth(addends)
        for place, group in enumerate(groups):
            for a in sorted(group, key=_is_negative):
                positive = T.neg(a) if _is_negative(a) else a
                total = _plus(total, value(positive), _is_negative(a), kind)
            assert total is not None
            if place < len(groups) - 1 and total.op != "neg":
                total = self._hoisted(group, total)
        assert total is not None
        return total

    def _hoisted(self, group: list[Term], value: Expr) -> Expr:
        """Name a partial result in the scope where it is known."""
        if value.op in ("local", "number", "param", "extent", "coordinate"):
            return value
        homes = [self._home_of(value, t) for t in group]
        home = max(homes, key=lambda scope: scope.depth)
        for s in home.body:
            if isinstance(s, Let) and _same(s.value, value):
                return local(s.name, value.axes, value.kind)
        return self._let(home, "scale", value)

    def _product(self, factor: float, t: Term) -> Expr:
        """factor * t, the factors that are known outside multiplied there first."""
        coefficient, rest = T.split_coefficient(t)
        factor *= float(coefficient)
        kind = t.kind
        factors = _factors(rest) if rest is not None else ()
        negative = factor < 0
        factor = abs(factor)
        total: Expr | None = None
        if factor != 1 or not factors:
            total = number(factor if kind == "float" else int(factor), kind)
        groups = self._by_depth(factors)
        for place, group in enumerate(groups):
            total = self._multiply(total, group, kind)
            if place < len(groups) - 1:
                total = self._hoisted(group, total)
        assert total is not None
        return apply("neg", total, kind=kind) if negative else total

    def _multiply(self, total: Expr | None, group: list[Term], kind: Kind) -> Expr:
        over = [f for f in group if not (f.op == "pow" and f.attr < 0)]
        under = [f for f in group if f.op == "pow" and f.attr < 0 and f.attr.denominator == 1]
        over += [f for f in group if f.op == "pow" and f.attr < 0 and f.attr.denominator != 1]
        for f in over:
            value = self._value(f)
            total = value if total is None else apply("mul", total, value, kind=kind)
        for f in under:
            divisor = self._value(T.power_of(f.args[0], -f.attr))
            total = self._divide(total or number(1.0), divisor, f.args[0])
        assert total is not None
        return total

    def _divide(self, over: Expr, divisor: Expr, base: Term) -> Expr:
        """over / divisor; a quotient of aggregates over nothing is 0.

        An aggregate that is a sum of positive elements is 0 only over nothing. For others
        the numerator must be 0 as well.
        """
        quotient = apply("div", over, divisor)
        if not base.folded:
            return quotient
        empty = apply("compare", divisor, number(0.0), kind="bool", attr="==")
        if not _is_zero_only_if_empty(base):
            none = apply("compare", over, number(0.0), kind="bool", attr="==")
            empty = apply("and", empty, none, kind="bool")
        return apply("where", empty, number(0.0), quotient)

    def _power(self, t: Term) -> Expr:
        base, power = t.args[0], t.attr
        if power == Fraction(1, 2):
            return apply("sqrt", self._value(base))
        if power == Fraction(-1, 2):
            return apply("rsqrt", self._value(base))
        if power.denominator == 1 and power < 0:
            divisor = self._value(T.power_of(base, -power))
            return self._divide(number(1.0), divisor, base)
        if power.denominator == 1 and power <= 8:
            value = self._value(base)
            total = value
            for _ in range(int(power) - 1):
                total = apply("mul", total, value, kind=t.kind)
            return total
        value = apply("log2", self._value(base))
        return apply("exp2", apply("mul", number(float(power)), value))

    def _exponential(self, t: Term) -> Expr:
        """exp(x) = exp2(x log2(e)); log2(e) joins the factors that are known outside."""
        exponent = t.args[0]
        addends = [_settle(a) for a in (exponent.args if exponent.op == "add" else (exponent,))]
        log2_e = math.log2(math.e)
        return apply("exp2", self._signed_sum(addends, "float", lambda a: self._product(log2_e, a)))

    def _contraction(self, t: Term) -> Expr:
        """A fold that is no loop: a product of tiles, or a reduction of one."""
        self._prepare([t])
        found = self._lookup(t)
        if found is not None:
            return found
        extent = t.attr.extents[0]
        name = self._new_axis(extent, "whole", t.free)
        _, (condition, body) = T.open_as(t, (name,))
        axis = self.axes[name]
        if condition is not T.TRUE:
            body = T.mul(T.bracket(condition), body)
        sides = _sides(_factors(body), name, self._tile_axes)
        if len(sides) == 2:
            left, right = (self._padded(self._value(s), name) for s in sides)
            return _contract(axis, left, right)
        value = self._value(body)
        inside = Expr("masked", (value,), (name, 0.0), value.axes | {name}, value.kind)
        return _reduce("sum", axis, inside)


_HALF = T.const(Fraction(1, 2))
_ROOT_HALF = T.power_of(_HALF, Fraction(1, 2))


def _sigmoid(x: Term) -> Term:
    return T.power_of(T.add(T.ONE, T.exp(T.neg(x))), -1)


# Functions that backends need not know, in forms that neither overflow nor cancel.
_EXPANSIONS: dict[str, Callable[..., Term]] = {
    "sigmoid": _sigmoid,
    "relu": lambda x: T.function("maximum", x, T.const(0, x.kind)),
    "silu": lambda x: T.mul(x, _sigmoid(x)),
    "softplus": lambda x: T.add(
        T.function("maximum", x, T.ZERO),
        T.log(T.add(T.ONE, T.exp(T.neg(T.function("abs", x))))),
    ),
    "gelu": lambda x: T.mul(_HALF, x, T.add(T.ONE, T.function("erf", T.mul(x, _ROOT_HALF)))),
    "elu": lambda x: T.where(
        T.compare("<", T.ZERO, x),
        x,
        T.sub(T.exp(T.function("minimum", x, T.ZERO)), T.ONE),
    ),
}
_STATE_NAMES = {"max": "m_i", "min": "m_i", "sum": "acc", "prod": "prod"}
_TERM_NAMES = {"exp": "p", "fold": "s"}


def normalise(t: Term) -> Term:
    """Bring one term to normal form."""
    memo: dict[Term, Term] = {}

    def visit(s: Term) -> Term:
        found = memo.get(s)
        if found is None:
            found = T.map_children(s, visit)
            step = normal_form.first(found)
            if step is not None:
                found = visit(step[1])
            memo[s] = found
        return found

    return visit(t)


def _is_user_fold(t: Term) -> bool:
    return isinstance(t.attr.monoid, T.UserMonoid) and t.attr.monoid is not SE_PAIR


def _outer_folds(terms: Iterable[Term]) -> list[Term]:
    """Folds that are not inside another fold."""
    found: dict[Term, None] = {}
    stack = list(terms)
    while stack:
        t = stack.pop()
        if t.op == "fold":
            found[t] = None
            for part in T.open_fold(t)[1]:  # an earlier result of the same rows
                names = {n for n in part.free if n.startswith("$")}
                stack.extend(
                    s
                    for s in T.subterms(part)
                    if s.op == "fold"
                    and not names & s.free
                    and not any(n.startswith("$") for n in s.free)
                )
        else:
            stack.extend(t.args)
    return list(found)


def _rows(names: list[str], folds: list[Term]) -> set[str]:
    """The indices to cut into blocks: those that most of what a loop reads lacks, counted
    by dimensions; two for a plain product of matrices, one where a loop holds another sum."""
    reads = list(dict.fromkeys(r for f in folds for r in _streamed_reads(f)))
    largest = max((len(r.args) for r in reads), default=0)
    shared = {
        n: sum(len(r.args) for r in reads if n not in r.free)
        for n in names
        if any(n not in r.free and len(r.args) == largest for r in reads)
    }
    nested = any(
        t.op == "fold" for f in folds for part in T.open_fold(f)[1] for t in T.subterms(part)
    )
    ranked = sorted(shared, key=lambda n: (-shared[n], -names.index(n)))
    return set(ranked[: 1 if nested else 2])


def _streamed_reads(f: Term) -> list[Term]:
    """Reads inside a fold that vary with its index."""
    opened, parts = T.open_fold(f)
    names = {i.attr[0] for i in opened}
    return [t for t in T.subterms(*parts[1:]) if t.op == "read" and names & t.free]


def _factors(t: Term) -> tuple[Term, ...]:
    return t.args if t.op == "mul" else (t,)


def _sides(
    factors: Iterable[Term], axis: str, tile_axes: Callable[[Term], frozenset[str]]
) -> list[Term]:
    """Factors multiplied into one or two terms, such that the sum over the axis of their
    product is a product of matrices: each side has an axis that the other lacks."""
    axes = {f: tile_axes(f) for f in factors}
    free = {f: a - {axis} for f, a in axes.items()}
    largest = sorted(set(free.values()), key=lambda a: (-len(a), sorted(a)))
    maximal: list[frozenset[str]] = []
    for a in largest:
        if not any(a <= m for m in maximal):
            maximal.append(a)
    if len(maximal) != 2:
        return [T.mul(*factors)]
    if any(axis not in a for a in axes.values()):
        return [T.mul(*factors)]
    left = [f for f in factors if free[f] <= maximal[0]]
    right = [f for f in factors if not free[f] <= maximal[0]]
    return [T.mul(*left), T.mul(*right)]


def _contract(axis: Axis, left: Expr, right: Expr, initial: Expr | None = None) -> Expr:
    axes = (left.axes | right.axes) - {axis.name}
    args = (left, right) if initial is None else (left, right, initial)
    return Expr("contract", args, axis.name, axes, "float")


def _reduce(monoid: str, axis: Axis, value: Expr) -> Expr:
    if axis.name not in value.axes:
        return value
    return Expr("reduce", (value,), (monoid, axis.name), value.axes - {axis.name}, value.kind)


def _chain(op: str, operands: list[Expr], kind: Kind) -> Expr:
    total = operands[0]
    if len(operands) == 1:
        return apply(op, total, kind=kind)
    for o in operands[1:]:
        total = apply(op, total, o, kind=kind)
    return total


def _is_negative(t: Term) -> bool:
    coefficient, _ = T.split_coefficient(t)
    return coefficient < 0 and coefficient != -math.inf


def _is_zero_only_if_empty(t: Term) -> bool:
    """A sum of positive elements, counted or weighted, and sums and products of those."""
    if t.op == "cast":
        return _is_zero_only_if_empty(t.args[0])
    if is_mantissa(t):
        return T.is_positive(t.args[0].args[1])
    if t.op in ("add", "mul"):
        return all(map(_is_zero_only_if_empty, t.args))
    return T.is_positive(t)


def _settle(addend: Term) -> Term:
    """A frame that is subtracted in an exponent is 0 while there is none. So is one that
    is added, which then stands before a sum over nothing."""
    for t in T.subterms(addend):
        if t.op == "fold" and t.attr.monoid in _EXTREMA:
            addend = T.replace(addend, t, settled(t, _EXTREMA[t.attr.monoid]))
    return addend


def _visible(f: Term) -> Term:
    """The fold as programs write it: an SE fold by its value."""
    return T.field(f, "v") if f.attr.monoid is SE_PAIR else f


def _plus(total: Expr | None, value: Expr, negative: bool, kind: Kind) -> Expr:
    """total + value or total - value."""
    if total is None:
        return apply("neg", value, kind=kind) if negative else value
    if total.op == "neg" and not negative:
        return apply("sub", value, total.args[0], kind=kind)
    return apply("sub" if negative else "add", total, value, kind=kind)


def _leaves(e: Expr) -> Iterable[Expr]:
    if e.op == "local":
        yield e
    for a in e.args:
        yield from _leaves(a)


def _same(a: Expr, b: Expr) -> bool:
    if a is b:
        return True
    return (
        a.op == b.op
        and a.attr == b.attr
        and a.kind == b.kind
        and len(a.args) == len(b.args)
        and all(map(_same, a.args, b.args))
    )


def _base_name(value: Expr, default: str) -> str:
    if value.op == "load":
        return f"{value.attr}_tile"
    return default


# --- single uses -----------------------------------------------------------------------

_KEPT = ("load", "contract", "masked")
_MAX_NESTING = 4


def _inline_single_uses(body: list[Statement]) -> None:
    """Write a value that is used once where it is used, if that is in the same body."""
    uses: dict[str, int] = {}
    for s in walk(body):  # a mask is evaluated at each masked value
        if isinstance(s, Loop) and s.mask is not None:
            uses |= {e.attr: 2 for e in _leaves(s.mask)}
    for e in expressions(body):
        if e.op == "local":
            uses[e.attr] = uses.get(e.attr, 0) + 1
    _inline(body, uses)


def _inline(body: list[Statement], uses: Mapping[str, int]) -> None:
    pending: dict[str, Expr] = {}
    out: list[Statement] = []
    states = {s.name for s in body if isinstance(s, Assign)}
    for s in body:
        if isinstance(s, Loop):
            held = {e.attr for b in (s.body,) for e in expressions(b) if e.op == "local"}
            for name in [n for n in pending if n in held]:
                out.append(Let(name, pending.pop(name)))
            s.lower = tuple(_fill(e, pending) for e in s.lower)
            s.upper = tuple(_fill(e, pending) for e in s.upper)
            _inline(s.body, uses)
            out.append(s)
            continue
        if isinstance(s, Assign):  # what reads another state must be known before it changes
            for name, value in list(pending.items()):
                if any(e.attr in states and e.attr != s.name for e in _leaves(value)):
                    out.append(Let(name, pending.pop(name)))
        value = _fill(s.value, pending)
        if (
            isinstance(s, Let)
            and uses.get(s.name, 0) == 1
            and value.op not in _KEPT
            and not (value.op == "cast" and len(value.axes) > 1)
            and _nesting(value) < _MAX_NESTING
        ):
            pending[s.name] = value
        else:
            s.value = value
            out.append(s)
    for name, value in pending.items():
        out.append(Let(name, value))
    body[:] = out


def _fill(e: Expr, pending: dict[str, Expr]) -> Expr:
    if e.op == "local":
        return pending.pop(e.attr, e)
    if not e.args or not pending:
        return e
    args = tuple(_fill(a, pending) for a in e.args)
    if all(a is b for a, b in zip(args, e.args, strict=True)):
        return e
    return Expr(e.op, args, e.attr, e.axes, e.kind, e.guarded)


def _nesting(e: Expr) -> int:
    return 1 + max((_nesting(a) for a in e.args), default=0)


__all__ = ["WHOLE_LIMIT", "lower", "normalise", "roots"]
