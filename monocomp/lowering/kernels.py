"""Kernels: the loops and stores of a group of outputs, as one tile program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from monocomp.extents.prefixes import Walk
from monocomp.lowering.bodies import Body
from monocomp.lowering.in_place import accumulate_in_place
from monocomp.lowering.loops import Loops
from monocomp.lowering.naming import accumulator_names
from monocomp.lowering.nests import held_by
from monocomp.lowering.scopes import Scope
from monocomp.terms.equations import Equation, Equations
from monocomp.tile import (
    FRAGMENTS,
    OPERAND,
    WHOLE,
    Axis,
    Loop,
    Statement,
    Store,
    Tensor,
    TileProgram,
    expressions,
    walk,
)
from monocomp.tile.order import order_statements
from monocomp.tile.single_uses import inline_single_uses


def lower(
    program: Equations,
    group: Sequence[Equation],
    axes: Mapping[str, Axis],
    fits: Callable[[str], bool],
    is_short: Callable[[str], bool],
    scan: Walk | None,
    name: str,
    in_memory: bool = False,
) -> TileProgram:
    """Lower one kernel of a program.

    Args:
        program: equations in kernels, their reads guarded (`guards`).
        group: what the kernel computes.
        axes: of the indices of its outputs, with their roles.
        fits: can an axis of this extent be held entirely? One of unknown length is taken to.
        is_short: is it also likely to be, where its length is unknown?
        scan: the loop along which its aggregates are prefixes, if there is one.
        name: of the kernel.
        in_memory: are tiles held in memory, and may have any number of axes?
    """
    return _Kernel(program, axes, fits, is_short, scan, in_memory).lowered(group, name)


class _Kernel(Loops):
    """Lowers a group of outputs to one kernel."""

    def lowered(self, group: Sequence[Equation], name: str) -> TileProgram:
        """Return the kernel."""
        self.held = held_by(group, self.axes)
        names = {e.name for e in group}
        self.joined = [j for j in self.program.joined if j.beside in names]
        self.accumulators = accumulator_names(self.program, group)
        late = self.axis_names("stream")
        outer = [e for e in group if not any(i.name in late for i in e.indices)]
        self._prepare(group)
        for equation in outer:
            self._store(equation)
        for along in late:
            self._store_in_loop(along, [e for e in group if e not in outer])
        body = self.scopes[0].body
        inline_single_uses(body)
        added = (self.program.by_name[j.name] for j in self.joined)
        return self._program([*group, *added], name, order_statements(accumulate_in_place(body)))

    def _prepare(self, equations: Sequence[Equation]) -> None:
        with self.computing(equations[0].body, equations[0].name):
            self.prepare([e.body for e in equations])

    def _store(self, equation: Equation) -> None:
        with self.computing(equation.body, equation.name):
            value = self.value(equation.body)
            axes = tuple(i.name for i in equation.indices)
            slices = self.program.slices
            mode: Literal["set", "add"] = "set"
            if slices is not None and equation.name in slices.added:
                mode = "add"
            store = Store(equation.name, axes, value, mode, self.origin)
        self.scopes[-1].body.append(store)

    def _store_in_loop(self, name: str, equations: list[Equation]) -> None:
        axis, elements = self.axes[name], [e.body for e in equations]
        backwards = self.scan is not None and self.scan.is_backwards
        scope = Scope(name, 1, is_backwards=backwards)
        self.scopes.append(scope)
        with self.computing(equations[0].body, equations[0].name):
            loop = Loop(axis, WHOLE, [], scope.body, (), backwards, self.origin)
            body = Body(self, loop)
            self.add_prefixes(body, elements)
        self._prepare(equations)
        for e in equations:
            self._store(e)
        scope.body += body.updates
        self.scopes.pop()
        self.scopes[0].body.append(loop)

    def _program(self, group: Sequence[Equation], name: str, body: list[Statement]) -> TileProgram:
        declared = self.program.declared
        used = list(expressions(body))
        loads = {e.attr for e in used if e.op == "load"}
        params = {e.attr for e in used if e.op == "param"}
        results = {self.program.views.get(o.name, o.name): o.dtype for o in declared.outputs}
        dtypes = {**results, **dict.fromkeys(self.program.operands, OPERAND)}
        dtypes |= {j.name: FRAGMENTS for j in self.program.joined}
        outputs = tuple(
            Tensor(
                e.name,
                tuple(i.extent for i in e.indices),
                e.body.kind,
                is_stored=e.name not in results,
                dtype=dtypes.get(e.name),
            )
            for e in group
        )
        tensors = {n: Tensor(n, declared.extents(n), i.kind) for n, i in declared.inputs.items()}
        for e in self.program.equations:
            dims = tuple(i.extent for i in e.indices)
            dtype = dtypes.get(e.name) if e.name not in results else None
            is_stored = e.name not in self.program.in_lists
            tensors[e.name] = Tensor(e.name, dims, e.body.kind, is_stored=is_stored, dtype=dtype)
        mentioned = {a for e in used for a in e.axes}
        mentioned |= {s.axis.name for s in walk(body) if isinstance(s, Loop)}
        mentioned |= {a for s in walk(body) if isinstance(s, Store) for a in s.axes}
        mentioned |= {e.attr for e in used if e.op == "coordinate"}
        return TileProgram(
            name=name,
            axes={n: a for n, a in self.axes.items() if n in mentioned},
            inputs={n: t for n, t in tensors.items() if n in loads},
            params={n: p.kind for n, p in declared.params.items() if n in params},
            outputs=outputs,
            body=body,
            splits=frozenset(
                a.extent for n, a in self.axes.items() if n in mentioned and a.role == "grid"
            )
            & self.program.splits.keys(),
        )
