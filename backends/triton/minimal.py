"""The host function of a minimal file: what a kernel engineer would paste.

It leaves out what the launcher of a whole file looks at in each call. Instead it asserts that
offsets fit 32 bits, and that last dimensions have no gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monocomp.backends.identifiers import Identifiers
from monocomp.backends.line_breaks import fill, tuple_text
from monocomp.backends.triton.host_source import HostSource
from monocomp.blocks import SMALL_INT
from monocomp.host import arguments as A
from monocomp.host import program as H
from monocomp.host.launches import Choose, Describe, Launch, Map, Programs, Wide
from monocomp.host.sizes import CheckEmpty, CheckShapes, CheckSome
from monocomp.host.tensors import Clear
from monocomp.terms.equations import Equations


class MinimalHost(HostSource):
    """Writes the function, for schedules that are known."""

    empty = "torch.empty"

    def __init__(
        self,
        start: Equations,
        host: H.HostProgram,
        names: Identifiers,
        schedules: Sequence[Mapping[str, int]],
    ) -> None:
        super().__init__(start, host, names, ())
        self.schedules = schedules
        self.kernel = 0

    def lines(self, host: str, precision: str = "") -> list[str]:
        """Return the function."""
        declared = self.start.declared
        given = [self.tensor(n) for n in declared.inputs]
        params = self.params()
        self.out = fill(f"def {host}(", [*given, *["*"][: len(params)], *params], "):", 0)
        self.put(f'"""{self.purpose()}"""')
        dense = [self.tensor(n) for n in self.host.inputs if declared.inputs[n].dims]
        if dense:
            self.put(f"assert all(t.stride(-1) == 1 for t in {tuple_text(dense)})")
        for s in self.host.body:
            self.statement(s)
        return self.out

    def setting(self, name: str, kernel: int | None = None) -> str:
        return str(self.schedules[self.kernel if kernel is None else kernel][name])

    def statement(self, s: A.Statement) -> None:
        match s:
            case Choose():
                self.kernel = s.kernel
            case CheckShapes():
                for t in s.tensors:
                    shape = tuple_text(list(map(self.size, t.shape)))
                    self.put(f"assert {self.tensor(t.tensor)}.shape == {shape}")
            case CheckEmpty():
                self.put(f"assert {self.size(s.extent)} == 0")
            case CheckSome():
                self.put(f"assert {self.size(s.extent)} > 0")
            case Wide():
                tensors = tuple_text([self.tensor(n) for n in s.tensors])
                self.put(f"assert max(map(span, {tensors})) < 2**31")
                for name in map(self.param, s.params):
                    self.put(f"assert abs({name}) < {SMALL_INT}")
            case Describe():
                for d in s.descriptors:
                    tensor = self.tensor(d.tensor)
                    layout = f"{tensor}, {tensor}.shape, {tensor}.stride()"
                    text = f"TensorDescriptor({layout}, [{d.block(self)}])"
                    self.fit(f"{d.source(self)} = ", text)
            case Clear():
                self.put(f"{self.tensor(s.tensor)}.zero_()")
            case Programs():
                self.fit("grid = ", f"({s.value.source(self)},)")
            case Map():
                self._map(s)
            case Launch():
                self._launch(s)
            case _:
                super().statement(s)

    def _map(self, s: Map) -> None:
        shape = self.tuple((s.programs.source(self), s.length.source(self)))
        text = f"torch.empty({shape}, dtype=torch.int32, device={self.device})"
        self.fit(f"{s.identifier(self)} = ", text)
        arguments = ", ".join(s.given(self))
        self.fit("", f"{s.kernel}[({s.programs.source(self)},)]({arguments})")

    def _launch(self, s: Launch) -> None:
        arguments = [a.source(self) for a in s.arguments]
        config = self.schedules[s.kernel]
        scheduled = self.host.kernels[s.kernel].scheduled
        options = [k for k in ("num_warps", "num_stages", "maxnreg") if k in config]
        arguments += [f"{k}={config[k]}" for k in (*scheduled, *options)]
        self.fit("", f"{s.name}[grid]({', '.join(arguments)})")
