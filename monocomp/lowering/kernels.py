"""Kernels: the loops and stores of a group of outputs, as one tile program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monocomp.equations import Equation, Equations
from monocomp.lowering.loops import Loops
from monocomp.lowering.scopes import Scope
from monocomp.lowering.single_uses import inline_single_uses
from monocomp.planning.roles import scan_of
from monocomp.tile import (
    WHOLE,
    Axis,
    Loop,
    OutputTensor,
    Statement,
    Store,
    Tensor,
    TileProgram,
    expressions,
    walk,
)


def lower(
    program: Equations,
    group: Sequence[Equation],
    axes: Mapping[str, Axis],
    sizes: Mapping[str, int],
    suffix: str,
) -> TileProgram:
    """One kernel of a program.

    Args:
        program: equations in kernels, their reads guarded (`guards`).
        group: what the kernel computes.
        axes: of the indices of its outputs, with their roles.
        sizes: extents that are known; an axis longer than `WHOLE_LIMIT` is not held whole.
        suffix: of the kernel's name.
    """
    return _Kernel(program, group, axes, sizes, suffix).run()


class _Kernel(Loops):
    """Lowers a group of outputs to one kernel."""

    def __init__(
        self,
        program: Equations,
        group: Sequence[Equation],
        axes: Mapping[str, Axis],
        sizes: Mapping[str, int],
        suffix: str,
    ) -> None:
        super().__init__(program, dict(axes), sizes)
        self.group = group
        self.suffix = suffix
        self.scan = scan_of(group)

    def run(self) -> TileProgram:
        late = self.axis_names("stream")
        here = [e for e in self.group if not any(i.attr[0] in late for i in e.indices)]
        self._prepare([e.body for e in self.group])
        for equation in here:
            self._store(equation)
        for name in late:
            self._store_in_loop(name, [e for e in self.group if e not in here])
        body = self.scopes[0].body
        inline_single_uses(body)
        return self._program(body)

    def _store(self, equation: Equation) -> None:
        value = self._value(equation.body)
        places = tuple(map(self._value, equation.indices))
        self.scopes[-1].body.append(Store(equation.name, places, value))

    def _store_in_loop(self, name: str, equations: list[Equation]) -> None:
        scope = Scope(name, 1)
        self.scopes.append(scope)
        loop = Loop(self.axes[name], WHOLE, [], scope.body)
        updates = self._scans(loop, [e.body for e in equations])
        self._prepare([e.body for e in equations])
        for e in equations:
            self._store(e)
        scope.body += updates
        self.scopes.pop()
        self.scopes[0].body.append(loop)

    def _program(self, body: list[Statement]) -> TileProgram:
        declared = self.program.declared
        used = list(expressions(body))
        loads = {e.attr for e in used if e.op == "load"}
        params = {e.attr for e in used if e.op == "param"}
        dtypes = {self.program.views.get(o.name, o.name): o.dtype for o in declared.outputs}
        outputs = tuple(
            OutputTensor(
                e.name,
                tuple(i.attr[1] for i in e.indices),
                e.body.kind,
                dtypes.get(e.name),
                is_stored=e.name not in dtypes,
            )
            for e in self.group
        )
        tensors = {n: Tensor(n, declared.extents(n), i.kind) for n, i in declared.inputs.items()}
        for e in self.program.computed:
            dims = tuple(i.attr[1] for i in e.indices)
            tensors[e.name] = Tensor(e.name, dims, e.body.kind, is_stored=True)
        mentioned = {a for e in used for a in e.axes}
        mentioned |= {s.axis.name for s in walk(body) if isinstance(s, Loop)}
        mentioned |= {e.attr for e in used if e.op == "coordinate"}
        return TileProgram(
            name=(self.program.origin.name or "kernel") + self.suffix,
            axes={n: a for n, a in self.axes.items() if n in mentioned},
            inputs={n: t for n, t in sorted(tensors.items()) if n in loads},
            params={n: p.kind for n, p in declared.params.items() if n in params},
            outputs=outputs,
            body=body,
            parts=frozenset(
                a.extent for n, a in self.axes.items() if n in mentioned and a.role == "grid"
            )
            & self.program.parts.keys(),
        )
