"""Verify host programs: every name means something where it is used, shapes have the ranks that
kernels take, and every parameter of a kernel is given once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from monocomp.errors import InternalError
from monocomp.host import arguments as A
from monocomp.host import program as H
from monocomp.host.launches import Choose, Fast, Launch, Map, Programs, Return, Slices, Wide
from monocomp.host.sizes import CheckShapes, Sizes, Split
from monocomp.host.tensors import Buffer, Free, View

_LEAVES = {
    "size": "size",
    "param": "parameter",
    "setting": "choice of the schedule",
    "length": "length",
}
_NAMES = {
    "TensorName": "tensor",
    "ExtentName": "size",
    "ParamName": "parameter",
    "SettingName": "choice of the schedule",
    "AxisName": "length",
    "FlagName": "flag",
}


def verify(program: H.HostProgram) -> None:
    """Raises InternalError, which shows the program, where it is not one."""
    fault = _fault(program)
    if fault is not None:
        raise InternalError(f"no host program: {fault}", notes=[str(program)])


def _fault(program: H.HostProgram) -> str | None:
    known = {("parameter", n) for n in program.params} | {("tensor", n) for n, _ in program.inputs}
    known.add(("flag", "precision"))
    fault = _fault_in(program, program.body, known, dict(program.inputs))
    if fault is None and (not program.body or not isinstance(program.body[-1], Return)):
        return "its results are not its end"
    return fault


def _fault_in(
    program: H.HostProgram,
    body: Sequence[A.Statement],
    known: set[tuple[str, str]],
    ranks: dict[str, int],
) -> str | None:
    for n, s in enumerate(body):
        match s:
            case Slices():
                for name in (("size", s.part), ("size", s.whole)):
                    if name not in known:
                        return f"{' '.join(name)} is not defined"
                for view in s.views:
                    if ("tensor", view.tensor) not in known:
                        return f"tensor {view.tensor} is not defined in `{view}`"
                    if view.dim >= ranks[view.tensor]:
                        return f"{view.tensor} has no dimension {view.dim}"
                    known.add(("tensor", view.name))
                    ranks[view.name] = ranks[view.tensor]
                if s.start is not None:
                    known.add(("parameter", s.start))
                fault = _fault_in(program, s.body, known, ranks)
                if fault is not None:
                    return fault
                continue
            case Choose(kernel):
                known -= {k for k in known if k[0] == "choice of the schedule"}
                known |= _scheduled(program, kernel)
            case Buffer() | View():
                ranks[s.name] = len(s.shape)
            case Fast():
                known.add(("flag", "fast"))
            case Programs():
                known.add(("flag", "items"))
            case Wide():
                known.add(("flag", "index"))
        given = _scheduled(program, s.kernel) if isinstance(s, Split) else set()
        for name in _uses(s):
            if name not in known | given:
                return f"{' '.join(name)} is not defined in `{str(s).splitlines()[0]}`"
        for field in s.defines:
            value, kind = getattr(s, field), _kind(s, field)
            known |= {(kind, n) for n in (value if isinstance(value, tuple) else (value,))}
        if isinstance(s, Free):
            known -= {("tensor", name) for name in s.tensors}
        match s:
            case Launch():
                fault = _launch_fault(program.kernels[s.kernel], s.arguments, ranks)
            case Map():
                fault = _launch_fault(s.kernel, s.arguments, ranks)
            case _:
                fault = _rank(s, ranks)
        if fault is not None:
            return fault
        if isinstance(s, Return) and n + 1 < len(body):
            return "its results are not its end"
    return None


def _scheduled(program: H.HostProgram, kernel: int) -> set[tuple[str, str]]:
    return {("choice of the schedule", n) for n in program.kernels[kernel].scheduled}


def _kind(node: A.Node, field: str) -> str:
    """Return what a field names, as its type says; "" if it is no name."""
    declared = next(str(f.type) for f in fields(node) if f.name == field)
    return next((kind for name, kind in _NAMES.items() if name in declared), "")


def _uses(node: Any) -> Iterator[tuple[str, str]]:
    """Yield the names that a node needs, by what they name."""
    if isinstance(node, A.Number) and node.op in _LEAVES:
        yield _LEAVES[node.op], node.attr
    for f in fields(node):
        value = getattr(node, f.name)
        for part in value if isinstance(value, tuple) else (value,):
            if is_dataclass(part):
                yield from _uses(part)
            elif f.name not in node.defines and part is not None and _kind(node, f.name):
                yield _kind(node, f.name), part


def _rank(node: Any, ranks: dict[str, int]) -> str | None:
    """Shapes and strides that are not those of their tensors."""
    match node:
        case CheckShapes(tensors):
            wrong = [t.tensor for t in tensors if len(t.shape) != ranks[t.tensor]]
            return f"{wrong[0]} has {ranks[wrong[0]]} dimensions" if wrong else None
        case Sizes() if len(node.extents) != ranks[node.tensor]:
            return f"{node.tensor} has {ranks[node.tensor]} dimensions"
        case A.Stride() if node.dim >= ranks[node.tensor]:
            return f"{node.tensor} has no dimension {node.dim}"
        case A.Descriptor() if len(node.lengths) != ranks[node.tensor]:
            return f"{node.tensor} has {ranks[node.tensor]} dimensions"
    return None


def _launch_fault(
    kernel: A.Signature, arguments: Sequence[A.Argument], ranks: dict[str, int]
) -> str | None:
    given = [a.parameter for a in arguments]
    chosen = [p for p in kernel.parameters if p in kernel.scheduled]
    positions = [a.parameter for a in arguments if a.is_positional]
    if sorted(given + chosen) != sorted(kernel.parameters):
        return f"{kernel.name} lacks arguments"
    if positions != [*kernel.parameters[: len(positions)]]:
        return f"{kernel.name} takes its arguments in another order"
    for name, rank in kernel.ranks:
        if ranks[name] != rank:
            return f"{name} has {ranks[name]} dimensions, and {kernel.name} takes {rank}"
    return next((fault for a in arguments if (fault := _rank(a.value, ranks))), None)
