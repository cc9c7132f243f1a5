"""Minimal files: what a kernel engineer would paste. Kernels for known sizes and one schedule, the
functions that they call, and a short host function.

They leave out what the launcher of a whole file looks at in each call. Instead the host function
asserts that offsets fit 32 bits, and that last dimensions have no gaps; it converts and copies
nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence

from monocomp.backends.triton.folding import Function
from monocomp.backends.triton.host_source import HostSource, _tuple
from monocomp.backends.triton.identifiers import Identifiers
from monocomp.backends.triton.kernel_source import KernelSource
from monocomp.blocks.program import SMALL_INT
from monocomp.equations import Equations
from monocomp.host import program as H


class MinimalHost(HostSource):
    """Writes the host function.

    Args:
        sizes: those that are known.
        configs: the schedules.
        precision: "ieee" or "tf32".
        fast: may functions be as accurate as results of 16 bits?
        widths: of the elements of inputs, in bytes; what is stored takes 4.
    """

    empty = "torch.empty"

    def __init__(
        self,
        start: Equations,
        host: H.HostProgram,
        names: Identifiers,
        sizes: Mapping[str, int],
        configs: Sequence[Mapping[str, int]],
        precision: str,
        fast: bool,
        widths: Mapping[str, int],
    ) -> None:
        super().__init__(start, host, names, ())
        self.known = sizes
        self.schedules = configs
        self.precision, self.fast, self.widths = precision, fast, widths
        self.kernel = 0
        self.described: set[str] = set()  # parameters of kernels that are descriptors

    def lines(self, host: str, precision: str = "") -> list[str]:
        """The function."""
        declared = self.start.declared
        given = [self.tensor(n) for n in declared.inputs]
        params = self.params()
        self.out = [f"def {host}({', '.join([*given, *['*'][: len(params)], *params])}):"]
        outs = [f"{e.name} ({', '.join(i.attr[0] for i in e.indices)})" for e in self.start.outputs]
        self.put(f'"""Computes {", ".join(outs)}."""')
        for s in self.host.body:
            self._statement(s)
        return self.out

    def size(self, extent: str) -> str:
        return str(self.known[extent]) if extent in self.known else super().size(extent)

    def setting(self, name: str, kernel: int | None = None) -> str:
        return str(self.schedules[self.kernel if kernel is None else kernel][name])

    def _statement(self, s: H.Statement) -> None:
        match s:
            case H.Size() | H.Bound() if s.extent in self.known:
                pass
            case H.Align() | H.Convert() | H.Fast():
                pass
            case H.Choose():
                self.kernel = s.kernel
            case H.CheckShapes():
                for t in s.tensors:
                    shape = _tuple(list(map(self.size, t.shape)))
                    self.put(f"assert {self.tensor(t.tensor)}.shape == {shape}")
                last = [f"{self.tensor(t.tensor)}.stride(-1)" for t in s.tensors if t.shape]
                if last:
                    self.put(f"assert {' == '.join(last)} == 1")
            case H.CheckEmpty():
                self.put(f"assert {self.size(s.extent)} == 0")
            case H.CheckSome():
                self.put(f"assert {self.size(s.extent)} > 0")
            case H.Wide():
                tensors = ", ".join(map(self.tensor, s.tensors))
                self.put(f"assert max(map(span, ({tensors},))) < 2**31")
                for name in map(self.param, s.params):
                    self.put(f"assert abs({name}) < {SMALL_INT}")
            case H.Describe():
                for d in filter(self._is_described, s.descriptors):
                    self.described.add(d.parameter)
                    tensor = self.tensor(d.tensor)
                    block = ", ".join("1" if n is None else self._length(n) for n in d.lengths)
                    layout = f"{tensor}, {tensor}.shape, {tensor}.stride()"
                    text = f"TensorDescriptor({layout}, [{block}])"
                    self.fit(f"{self.descriptor(d)} = ", text)
            case H.Programs():
                self.fit("grid = ", f"({self._count(s.grid)},)")
            case H.Launch():
                self._launch(s)
            case _:
                super()._statement(s)

    def _is_described(self, d: H.Descriptor) -> bool:
        """Does the schedule want a descriptor, and do 16 bytes divide rows of the known size?"""
        last = d.lengths[-1]
        row = 0 if last is None else self.known.get(last.extent, 0)
        wanted = self.schedules[self.kernel].get(H.DESCRIPTORS)
        return bool(wanted) and row > 0 and row * self.widths.get(d.tensor, 4) % 16 == 0

    def _launch(self, s: H.Launch) -> None:
        """With all arguments; `minimal_lines` leaves out what the kernel does not need."""
        arguments = []
        for a in s.arguments:
            name = "" if isinstance(a.value, H.POSITIONAL) else f"{a.parameter}="
            arguments.append(name + self._text(a.value))
        config = self.schedules[s.kernel]
        scheduled = self.host.kernels[s.kernel].scheduled
        arguments += [f"{k}={config[k]}" for k in (*scheduled, "num_warps", "num_stages")]
        self.put(f"{s.name}[grid]({', '.join(arguments)})")

    def _text(self, value: H.Value) -> str:
        match value:
            case H.Stride() if (
                value.dim + 1 == dict(self.host.kernels[self.kernel].ranks)[value.tensor]
            ):
                return "1"
            case H.Descriptor() if value.parameter not in self.described:
                return "None"
            case H.Even() if value.length.extent not in self.known:
                return "False"
            case H.Step():
                return "1"
            case H.Flag("index"):
                return "tl.int32"
            case H.Flag("precision"):
                return f'"{self.precision}"'
            case H.Flag("fast"):
                return str(self.fast)
        return super()._text(value)


def minimal_lines(
    host: MinimalHost, name: str, sources: Sequence[KernelSource], functions: Sequence[str]
) -> list[str]:
    """The functions of the file.

    Args:
        host: writes the host function.
        name: that function's.
        sources: the kernels.
        functions: the texts of functions that they may call.
    """
    calling = Function(host.lines(name))
    calling.fold({})
    kernels = [Function(s.lines) for s in sources]
    for kernel, signature in zip(kernels, host.host.kernels, strict=True):
        _specialise(kernel, calling.call(signature.name), signature, host.described)
    calling.fold({})
    texts = ["\n".join(f.lines()) for f in (*kernels, calling)]
    for function in reversed(functions):  # each after those that it calls
        called = re.search(r"def (\w+)", function)
        if called and any(re.search(rf"\b{called[1]}\b", text) for text in texts):
            texts.insert(0, function)
    return [line for text in texts for line in ("", "", *text.splitlines())]


def _specialise(
    kernel: Function, call: ast.Call, signature: H.Signature, present: Collection[str]
) -> None:
    """A kernel for the constants among its arguments, and its call without these. The lengths
    of blocks that a schedule chooses keep their names."""
    positional = signature.parameters[: len(call.args)]
    given = dict(zip(positional, call.args, strict=True))
    given |= {str(k.arg): k.value for k in call.keywords}
    named = {p for p in signature.scheduled if kernel.is_constant(p)}
    constants = {
        p: given[p]
        for p in signature.parameters
        if p not in named and isinstance(given[p], ast.Constant | ast.Attribute)
    }
    kernel.fold(constants, present)
    kernel.keep_read()
    unread = {*signature.parameters} - kernel.read
    call.args = [given[p] for p in positional if p not in unread]
    call.keywords = [k for k in call.keywords if k.arg not in unread]
