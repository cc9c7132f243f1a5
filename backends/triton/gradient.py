"""A file with a program and its gradients: the kernels of both, and what autograd records.

Its host functions are those of the program that saves values and of the gradients. An
`autograd.Function` calls them; the self-check compares with autograd through the plain evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from monocomp.backends.eager import reference_lines
from monocomp.backends.eager.code import call_lines
from monocomp.backends.triton.dialect import TRITON
from monocomp.backends.triton.emit import (
    Written,
    derivation,
    derived_for,
    header,
    host_functions,
    identifiers,
    imports,
    kernels_of,
    minimal_functions,
    quoted,
    text_of,
    write,
)
from monocomp.backends.triton.host_source import HostSource
from monocomp.backends.triton.identifiers import Identifiers
from monocomp.backends.triton.known_arguments import Promises
from monocomp.backends.triton.layout import tuple_text
from monocomp.backends.triton.minimal import MinimalHost
from monocomp.backends.triton.schedule import Schedule
from monocomp.backends.triton.selfcheck import main_lines, sizes_for
from monocomp.equations import Equations
from monocomp.gradients.derived import Gradient
from monocomp.planning.plan import Plan
from monocomp.sizes import packed_extents


@dataclass(frozen=True)
class Half:
    """One of the two programs of a file, with what it is written from.

    Attributes:
        start: the program before any rewrite, called as its host function is to be.
        plan: its kernels.
        schedules: one for each kernel.
        promises: what a minimal file takes for granted; None for a whole one.
    """

    start: Equations
    plan: Plan
    schedules: Sequence[Schedule]
    promises: Promises | None

    def written(self, sizes: Mapping[str, int], before: Written | None) -> Written:
        known = packed_extents(self.plan.program, self.plan.extents(sizes))
        plan, start = self.plan, self.start
        return write(
            start,
            plan.kernels,
            self.schedules,
            plan.program,
            TRITON,
            known,
            self.promises,
            before,
        )


def emit_gradient(
    found: Gradient,
    halves: tuple[Half, Half],
    *,
    sizes: Mapping[str, int],
    precision: str,
    target: str | None,
) -> str:
    """The source file of a program and its gradients.

    Args:
        found: the gradients.
        halves: the program with what it saves, and the gradients.
        sizes: extents that are known; the file is for these alone.
        precision: "ieee" or "tf32", for products of float32.
        target: what the file was made for, for the header.
    """
    start = found.program
    forward = halves[0].written(sizes, None)
    backward = halves[1].written(sizes, forward)
    written = forward, backward
    is_minimal = halves[0].promises is not None
    hosts = [h.start.origin.name or "kernel" for h in halves]
    names = forward.names
    host = Identifiers(backward.taken | {*hosts}).of("host", start.origin.name or "kernel")
    function = _Function(found, forward, backward, hosts, is_minimal)
    here = replace(start, sizes=halves[0].plan.program.sizes)
    checked = None if is_minimal else sizes_for(here, packed_extents(start, sizes))
    lines = [*header(start, target), *quoted("Gradients", str(found))]
    if is_minimal:
        lines += [*imports(*written), *kernels_of(*written)[1:], *minimal_functions(*written)]
        for half, part, name in zip(halves, written, hosts, strict=True):
            writer = MinimalHost(half.start, part.program, part.names, part.configs)
            lines += ["", "", *writer.lines(name)]
    else:
        for half, of in zip(halves, ("", " of the gradients"), strict=True):
            lines += derivation(half.plan.derivation.outline(), of)
        schedules = [s for half in halves for s in half.schedules]
        lines += [*derived_for(schedules, checked is not None), *imports(*written)]
        lines += [line for part in written for line in part.settings_lines()]
        lines += [*kernels_of(*written), *host_functions(*written)]
        for half, part, name in zip(halves, written, hosts, strict=True):
            whole = HostSource(half.start, part.program, part.names, part.settings)
            lines += ["", "", *whole.lines(name, precision)]
    lines += ["", "", *function.lines(host)]
    if checked is not None:
        known = identifiers(start, names)
        lines += ["", "", *reference_lines(start, known)]
        order = list(start.declared.inputs)
        gradients = {n: found.gradients[n] for n in sorted(found.gradients, key=order.index)}
        lines += ["", "", *main_lines(here, known, host, TRITON.devices, checked, gradients)]
    return text_of(lines)


class _Function:
    """Writes what autograd records, and the function that users call.

    Args:
        found: the gradients.
        forward, backward: the written programs.
        hosts: the names of their host functions.
        is_minimal: do these take tensors without gaps alone?
    """

    def __init__(
        self,
        found: Gradient,
        forward: Written,
        backward: Written,
        hosts: Sequence[str],
        is_minimal: bool,
    ) -> None:
        self.found, self.forward, self.backward = found, forward, backward
        self.hosts, self.is_minimal = hosts, is_minimal
        self.names = Identifiers({*backward.taken, *hosts, "ctx"})
        self.declared = found.program.declared

    def tensors(self, names: Sequence[str]) -> list[str]:
        return [self.names.of("tensor", n) for n in names]

    def params(self) -> list[str]:
        return [self.names.of("param", n) for n in self.declared.params]

    def lines(self, host: str) -> list[str]:
        """Both, where users call what has the name `host`."""
        title = "".join(word.capitalize() for word in host.split("_"))
        name = self.forward.names.of("class", title)
        results = ", ".join(o.name for o in self.declared.outputs)
        wrt = ", ".join(self.found.gradients)
        given = [self.forward.names.of("tensor", n) for n in self.declared.inputs]
        writer = HostSource(self.found.program, self.forward.program, self.forward.names, ())
        params = writer.params()
        passed = [*given, *(self.forward.names.of("param", n) for n in self.declared.params)]
        return [
            f"class {name}(torch.autograd.Function):",
            f'    """{results}, with gradients of {wrt}."""',
            "",
            "    @staticmethod",
            *self._forward(),
            "",
            "    @staticmethod",
            "    @torch.autograd.function.once_differentiable",
            *self._backward(),
            "",
            "",
            *call_lines(f"def {host}(", [*given, *["*"][: len(params)], *params], "):", 0),
            f'    """Computes {results}; autograd has the gradients of {wrt}."""',
            *call_lines(f"return {name}.apply(", passed),
        ]

    def _saved(self) -> list[str]:
        """What the gradients read, but for those of results."""
        cotangents = self.found.cotangents.values()
        return [n for n in self.found.equations.declared.inputs if n not in cotangents]

    def _forward(self) -> list[str]:
        given, params = self.tensors(tuple(self.declared.inputs)), self.params()
        results = self.tensors([o.name for o in self.declared.outputs])
        every = self.tensors([o.name for o in self.found.forward.declared.outputs])
        call = [*given, *self._keywords(self.forward)]
        constant = [o.name for o in self.declared.outputs if o.name not in self.found.cotangents]
        lines = call_lines("def forward(", ["ctx", *given, *params], "):")
        lines += call_lines(f"{', '.join(every)} = {self.hosts[0]}(", call, indent=8)
        lines += call_lines("ctx.save_for_backward(", self.tensors(self._saved()), indent=8)
        if params:
            lines.append(f"        ctx.params = {tuple_text(params)}")
        if constant:
            lines += call_lines("ctx.mark_non_differentiable(", self.tensors(constant), indent=8)
        return [*lines, f"        return {', '.join(results)}"]

    def _backward(self) -> list[str]:
        names, gradients = self._saved(), self.found.gradients
        given = [
            self.names.of("tensor", self.found.cotangents.get(o.name, f"d{o.name}"))
            for o in self.declared.outputs
        ]
        call = []
        for n in self.found.equations.declared.inputs:
            tensor = self.names.of("tensor", n)
            is_dense = self.is_minimal and n not in names
            call.append(f"{tensor}.contiguous()" if is_dense else tensor)
        call += self._keywords(self.backward)
        found = self.tensors(tuple(gradients.values()))
        every = (gradients.get(n) for n in (*self.declared.inputs, *self.declared.params))
        returned = [self.names.of("tensor", n) if n is not None else "None" for n in every]
        lines = call_lines("def backward(", ["ctx", *given], "):")
        if names:
            lines.append(f"        {_unpacked(self.tensors(names))} = ctx.saved_tensors")
        if self.params():
            lines.append(f"        {_unpacked(self.params())} = ctx.params")
        lines += call_lines(f"{', '.join(found)} = {self.hosts[1]}(", call, indent=8)
        return [*lines, f"        return {', '.join(returned)}"]

    def _keywords(self, of: Written) -> list[str]:
        """The parameters as a host function takes them."""
        pairs = zip(self.declared.params, self.params(), strict=True)
        return [f"{of.names.of('param', n)}={p}" for n, p in pairs]


def _unpacked(names: Sequence[str]) -> str:
    """The left side of an assignment from a tuple."""
    return tuple_text(names) if len(names) == 1 else ", ".join(names)
