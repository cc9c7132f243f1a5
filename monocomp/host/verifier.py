"""Verify host programs: every name means something where it is used, shapes have the ranks that
kernels take, and every parameter of a kernel is given once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from monocomp.errors import faults_of, require
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
_FLAGS: dict[type[A.Statement], str] = {Fast: "fast", Programs: "items", Wide: "index"}


def verify(program: H.HostProgram) -> None:
    """Raises InternalError, which shows the program, where it is not one."""
    with faults_of(program, "no host program: "):
        _Verifier(program).body(program.body)
        returns = [s for s in program.statements() if isinstance(s, Return)]
        is_end = bool(returns) and returns == [program.body[-1]]
        require(is_end, "its results are not its end")


class _Verifier:
    def __init__(self, program: H.HostProgram) -> None:
        self.program = program
        self.ranks = dict(program.inputs)
        self.known = {("parameter", n) for n in program.params} | {("flag", "precision")}
        self.known |= {("tensor", n) for n in self.ranks}

    def body(self, body: Sequence[A.Statement]) -> None:
        """Check statements, and add the names that they define."""
        for s in body:
            if isinstance(s, Slices):
                self._slices(s)
            else:
                self._statement(s)

    def _slices(self, s: Slices) -> None:
        for name in (("size", s.part), ("size", s.whole)):
            require(name in self.known, f"{' '.join(name)} is not defined")
        for view in s.views:
            is_known = ("tensor", view.tensor) in self.known
            require(is_known, f"tensor {view.tensor} is not defined in `{view}`")
            has_dim = view.dim < self.ranks[view.tensor]
            require(has_dim, f"{view.tensor} has no dimension {view.dim}")
            self.known.add(("tensor", view.name))
            self.ranks[view.name] = self.ranks[view.tensor]
        if s.start is not None:
            self.known.add(("parameter", s.start))
        self.body(s.body)

    def _statement(self, s: A.Statement) -> None:
        if isinstance(s, Choose):
            self.known -= {k for k in self.known if k[0] == "choice of the schedule"}
            self.known |= self._scheduled(s.kernel)
        given = self._scheduled(s.kernel) if isinstance(s, Split) else set()
        for name in _uses(s):
            is_known = name in self.known | given
            require(is_known, f"{' '.join(name)} is not defined in `{str(s).splitlines()[0]}`")
        for field in s.defines:
            value, kind = getattr(s, field), _kind(s, field)
            self.known |= {(kind, n) for n in (value if isinstance(value, tuple) else (value,))}
        match s:
            case Buffer() | View():
                self.ranks[s.name] = len(s.shape)
            case Fast() | Programs() | Wide():
                self.known.add(("flag", _FLAGS[type(s)]))
            case Free():
                self.known -= {("tensor", name) for name in s.tensors}
            case Launch():
                self._launch(self.program.kernels[s.kernel], s.arguments)
            case Map():
                self._launch(s.kernel, s.arguments)
            case CheckShapes():
                for t in s.tensors:
                    self._rank(t.tensor, t.shape)
            case Sizes():
                self._rank(s.tensor, s.extents)

    def _scheduled(self, kernel: int) -> set[tuple[str, str]]:
        return {("choice of the schedule", n) for n in self.program.kernels[kernel].scheduled}

    def _rank(self, tensor: str, dims: Sequence[object]) -> None:
        rank = self.ranks[tensor]
        require(len(dims) == rank, f"{tensor} has {rank} dimensions")

    def _launch(self, kernel: A.Signature, arguments: Sequence[A.Argument]) -> None:
        given = [a.parameter for a in arguments]
        chosen = [p for p in kernel.parameters if p in kernel.scheduled]
        positions = [a.parameter for a in arguments if a.is_positional]
        is_whole = sorted(given + chosen) == sorted(kernel.parameters)
        require(is_whole, f"{kernel.name} lacks arguments")
        is_ordered = positions == [*kernel.parameters[: len(positions)]]
        require(is_ordered, f"{kernel.name} takes its arguments in another order")
        for name, rank in kernel.ranks:
            has = self.ranks[name]
            require(has == rank, f"{name} has {has} dimensions, and {kernel.name} takes {rank}")
        for value in (a.value for a in arguments):
            match value:
                case A.Stride(tensor, dim):
                    require(dim < self.ranks[tensor], f"{tensor} has no dimension {dim}")
                case A.Descriptor():
                    self._rank(value.tensor, value.lengths)


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
