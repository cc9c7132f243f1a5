"""The host program: what happens around kernels, as data.

    program   = inputs, params, kernels, statement*
    statement = sizes:    Sizes | Bound | Split | SplitPadding
              | checks:   CheckShapes | CheckEmpty | CheckSome
              | tensors:  Promote | Convert | Buffer | Clear | Free | Sort
              |           Align | Transpose | View
              | launches: Choose | Fast | Wide | Programs | Map | Describe | Launch | Slices
              | Return

Statements run in their order. Sizes go by the name of their extent, tensors by their own name, and
what a schedule chooses by the name of the kernel's parameter. `building.host_program` makes host
programs, `evaluation.Evaluation` turns one into the plan of a call; the backend triton prints it as
the host function of an emitted file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from monocomp.declarations.record import record
from monocomp.host.arguments import Signature, Statement
from monocomp.host.launches import Slices
from monocomp.host.sizes import Bound


@record()
class HostProgram:
    """The statements of a call of a program, from its inputs to its results."""

    inputs: tuple[str, ...]
    params: tuple[str, ...]
    kernels: tuple[Signature, ...]
    body: tuple[Statement, ...]

    def statements(self) -> Iterator[Statement]:
        """Yield all statements, those of slices among them."""
        for s in self.body:
            yield s
            if isinstance(s, Slices):
                yield from s.body

    @cached_property
    def known(self) -> dict[str, int]:
        """Return the sizes that are numbers."""
        bounds = (s for s in self.body if isinstance(s, Bound) and s.value.op == "const")
        return {s.extent: s.value.attr for s in bounds}

    def __str__(self) -> str:
        """Return a line a statement, and one an argument."""
        given = ", ".join((*self.inputs, *self.params))
        lines = [line for s in self.body for line in str(s).splitlines()]
        return "\n".join([f"host({given})", *(f"    {line}" for line in lines)]) + "\n"
