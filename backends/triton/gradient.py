"""A file with a program and its gradients: the kernels of both, and what autograd records.

Its host functions are those of the program that saves values and of the gradients. An
`autograd.Function` calls them; the self-check compares with autograd through the plain evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from monocomp.backends.eager import reference_lines
from monocomp.backends.identifiers import Identifiers
from monocomp.backends.line_breaks import fill, tuple_text
from monocomp.backends.triton.emit import (
    Part,
    Written,
    body,
    header,
    identifiers,
    languages,
    quoted,
    text_of,
    write,
)
from monocomp.backends.triton.host_source import HostSource
from monocomp.backends.triton.selfcheck import main_lines

if TYPE_CHECKING:  # a gradient writes its source with this
    from monocomp.gradients.gradient import GradientPrograms


def emit_gradient(
    programs: GradientPrograms, forward: Part, backward: Part, *, precision: str, target: str | None
) -> str:
    """Return the source file of a program and its gradients.

    Args:
        programs: the gradients.
        forward, backward: the program with what it saves, and the gradients.
        precision: "ieee" or "tf32", for products of float32.
        target: what the file was made for, for the header.
    """
    start = programs.program
    first = write(forward)
    second = write(backward, first)
    hosts = [part.start.origin.name or "kernel" for part in (forward, backward)]
    host = Identifiers(second.taken | {*hosts}).of("host", start.origin.name or "kernel")
    head = [*header(start, target), *quoted("Gradients", str(programs))]
    lines, _ = body(head, [first, second], hosts, precision)
    lines += ["", "", *_Function(programs, first, second, hosts).lines(host)]
    if forward.checked is not None:
        known = identifiers(start, first.names)
        lines += ["", "", *reference_lines(start, known)]
        order = list(start.declared.inputs)
        gradients = {n: programs.gradients[n] for n in sorted(programs.gradients, key=order.index)}
        sized, checked = replace(start, sizes=forward.lowered.sizes), forward.checked
        devices = languages(forward, backward)[-1].devices
        lines += ["", "", *main_lines(sized, known, host, devices, checked, gradients)]
    return text_of(lines)


class _Function:
    """Writes what autograd records, and the function that users call.

    Args:
        found: the gradients.
        forward, backward: the written programs.
        hosts: the names of their host functions.
    """

    def __init__(
        self, programs: GradientPrograms, forward: Written, backward: Written, hosts: Sequence[str]
    ) -> None:
        self.found, self.forward, self.backward = programs, forward, backward
        self.hosts = hosts
        self.is_dense = backward.part.promises is not None  # takes tensors without gaps alone
        self.names = Identifiers({*backward.taken, *hosts, "ctx"})
        self.declared = programs.program.declared

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
            *fill(f"def {host}(", [*given, *["*"][: len(params)], *params], "):", 0),
            f'    """Computes {results}; autograd has the gradients of {wrt}."""',
            *fill(f"return {name}.apply(", passed, ")", 1),
        ]

    def _saved(self) -> list[str]:
        """List the inputs that the gradients read, without the cotangents of results."""
        cotangents = self.found.cotangents.values()
        return [n for n in self.found.equations.declared.inputs if n not in cotangents]

    def _forward(self) -> list[str]:
        given, params = self.tensors(tuple(self.declared.inputs)), self.params()
        results = self.tensors([o.name for o in self.declared.outputs])
        every = self.tensors([o.name for o in self.found.forward.declared.outputs])
        call = [*given, *self._keywords(self.forward)]
        constant = [o.name for o in self.declared.outputs if o.name not in self.found.cotangents]
        lines = fill("def forward(", ["ctx", *given, *params], "):", 1)
        lines += fill(f"{', '.join(every)} = {self.hosts[0]}(", call, ")", 2)
        lines += fill("ctx.save_for_backward(", self.tensors(self._saved()), ")", 2)
        if params:
            lines.append(f"        ctx.params = {tuple_text(params)}")
        if constant:
            lines += fill("ctx.mark_non_differentiable(", self.tensors(constant), ")", 2)
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
            is_dense = self.is_dense and n not in names
            call.append(f"{tensor}.contiguous()" if is_dense else tensor)
        call += self._keywords(self.backward)
        results = self.tensors(tuple(gradients.values()))
        every = (gradients.get(n) for n in (*self.declared.inputs, *self.declared.params))
        returned = [self.names.of("tensor", n) if n is not None else "None" for n in every]
        lines = fill("def backward(", ["ctx", *given], "):", 1)
        if names:
            lines.append(f"        {_unpacked(self.tensors(names))} = ctx.saved_tensors")
        if self.params():
            lines.append(f"        {_unpacked(self.params())} = ctx.params")
        lines += fill(f"{', '.join(results)} = {self.hosts[1]}(", call, ")", 2)
        return [*lines, f"        return {', '.join(returned)}"]

    def _keywords(self, of: Written) -> list[str]:
        """Return the parameters as a host function takes them."""
        pairs = zip(self.declared.params, self.params(), strict=True)
        return [f"{of.names.of('param', n)}={p}" for n, p in pairs]


def _unpacked(names: Sequence[str]) -> str:
    """Return the left side of an assignment from a tuple."""
    return tuple_text(names) if len(names) == 1 else ", ".join(names)
