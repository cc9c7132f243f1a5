"""The source that a backend emits for a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from monocomp.backends.targets import canonical
from monocomp.checking.sizes import complete_extents
from monocomp.declarations.dtypes import NARROW, dtypes_of, itemsize, promoted, result_dtype, widths
from monocomp.declarations.record import record
from monocomp.declarations.records import by_representative, free_extents
from monocomp.errors import UnsupportedDtypeError, UnsupportedError
from monocomp.extents.nominal import SHORT
from monocomp.machine.locking import BUILDING, built
from monocomp.planning.plan import Plan, Planner

if TYPE_CHECKING:
    from monocomp.backends.schedules.legal import Legal
    from monocomp.backends.schedules.schedule import Schedule
    from monocomp.backends.triton.dialect import Dialect
    from monocomp.backends.triton.emit import Module, Part
    from monocomp.backends.triton.known_arguments import Promises
    from monocomp.backends.triton.machine_code import MachineCode
    from monocomp.gradients.gradient import GradientPrograms

# Extents that are not given, by the roles of their axes; others are SHORT.
_NOMINAL = {"grid": 2, "row": 4096, "stream": 4096}


@record(eq=False)
class Emission:
    """A program with what its source is to be emitted for.

    Attributes:
        planner: of the program.
        extents: sizes that are known, by representative.
        dtype: of all inputs of floats, or of some by name.
        asked: what to choose the schedules for: "cuda:90", "hip:gfx942", ...
        backend: the dialect.
        tf32: let float32 products use the tf32 units.
        minimal: only kernels for the known sizes, and a short host function.
    """

    planner: Planner
    extents: Mapping[str, int]
    dtype: str | Mapping[str, str] = "bf16"
    asked: str | None = None
    backend: str = "triton"
    tf32: bool = False
    minimal: bool = False

    @cached_property
    def target(self) -> str | None:
        """Return the name of the target."""
        return canonical(self.asked)

    @cached_property
    def dialect(self) -> Dialect:
        """Return the language of the source."""
        from monocomp.backends.dialects import DIALECTS

        return DIALECTS[self.backend]()

    @cached_property
    def dtypes(self) -> dict[str, str]:
        """Return the dtypes of inputs."""
        return dtypes_of(self.planner.equations.declared, self.dtype)

    @property
    def precision(self) -> str:
        """Return the precision of float32 products."""
        return "tf32" if self.tf32 else "ieee"

    @property
    def _processors(self) -> int:
        """Return how many program instances side by side kernels are planned for."""
        from monocomp.machine.gpus import gpu

        wanted = self.planner.processors or (gpu(self.target).processors if self.target else 1)
        return wanted if self.dialect.merges else 1

    @built
    def plan(self) -> Plan:
        """Return the plan."""
        return self.planner.plan(self.extents, self._processors, narrow=self._narrow)

    @property
    def _narrow(self) -> dict[str, str]:
        """Return the dtypes of inputs of 8 bits."""
        return {n: d for n, d in self.dtypes.items() if d in NARROW}

    @built
    def legal(self) -> tuple[Legal, ...]:
        """Return the schedules that each kernel may have."""
        from monocomp.backends.schedules.legal import element_bytes

        check_target(self.dialect, self.target or self.dialect.target)
        of_inputs = widths(self.planner.equations.declared, self.dtypes)
        sizes = self.plan.extents(self.extents)
        how = self.target, self._processors
        return tuple(
            self.dialect.legal(k, sizes, element_bytes(k, of_inputs), *how)
            for k in self.plan.kernels
        )

    @built
    def schedules(self) -> list[Schedule]:
        """Return the first schedule of each kernel."""
        return list(map(self.dialect.table.first, self.legal))

    @property
    def part(self) -> Part:
        """Return what the program's part of a file is written from."""
        from monocomp.backends.triton.emit import Part

        known = self.dtypes if self.minimal else self._narrow
        plan = self.plan.of_dtypes(known) if self.minimal else self.plan
        return Part(
            self.planner.equations.of_dtypes(known),
            plan.kernels,
            self.schedules,
            plan.program,
            plan.extents(self.extents),
            () if self.minimal else plan.derivation.outline(),
            self._promises if self.minimal else None,
        )

    @property
    def _promises(self) -> Promises:
        from monocomp.backends.triton.known_arguments import Promises

        is_cuda = self.target is not None and self.target.startswith("cuda")
        products = promoted(self.dtypes[n] for n in self.planner.equations.declared.deciding)
        fast = is_cuda and itemsize(products) == 2
        return Promises(self.precision, fast, {n: itemsize(d) for n, d in self.dtypes.items()})

    def module(self) -> Module:
        """Return a self-contained Python file, and what it consists of."""
        from monocomp.backends.triton.emit import emit

        with BUILDING:
            made = emit(self.part, self.precision, self.target)
        for tensor in {
            r.block.tensor for k in made.kernels for r in k.rings if len(r.block.tile) > 1
        }:
            is_widened = self.dtypes.get(tensor) in NARROW and not self._sees(tensor)
            if not is_widened and self.dtypes.get(tensor) not in ("bfloat16", "float16"):
                raise UnsupportedDtypeError(
                    f"backend '{self.backend}' multiplies matrices of 16 bits, and {tensor} is "
                    f"{self.dtypes.get(tensor, 'float32')}",
                    help="take dtype='bf16', or compile with backend='triton'",
                )
        return made

    def _sees(self, tensor: str) -> bool:
        """True if kernels read a tensor in the dtype that it is given in, of 8 bits."""
        read = (k.inputs[tensor].dtype for k in self.plan.kernels if tensor in k.inputs)
        return any(d is not None for d in read)

    def machine_code(self, form: str) -> list[MachineCode]:
        """Return the kernels of the file, compiled for a GPU that need not be there, in one of
        `machine_code.FORMS`."""
        from monocomp.backends.triton.machine_code import machine_code

        declared, target = self.planner.equations.declared, self.target or ""
        return machine_code(self.module(), declared, self.sizes, self.dtypes, target, form)

    @built
    def sizes(self) -> dict[str, int]:
        """Return sizes of the inputs' dimensions: as given, by their roles in the kernels, and
        those that the program declares by the others."""
        program, given = self.planner.equations, self.extents
        free = free_extents(program.declared)
        axes = [a for k in self.planner.plan(given).kernels for a in k.axes.values()]
        nominal = {a.extent: _NOMINAL.get(a.role, SHORT) for a in axes if a.extent in free}
        sizes = complete_extents(program, {**dict.fromkeys(free, SHORT), **nominal, **given})
        return {e: sizes[e] for n in program.declared.inputs for e in program.declared.extents(n)}


def gradient_source(
    found: GradientPrograms,
    extents: Mapping[str, int],
    dtype: str | Mapping[str, str],
    target: str | None,
    *,
    tf32: bool,
    minimal: bool,
) -> str:
    """Return a file in Triton with a program and its gradients; arguments as for `Emission`,
    extents by index."""
    from monocomp.backends.triton.gradient import emit_gradient

    declared = found.program.declared
    for name in found.gradients:
        if name in declared.params:
            raise UnsupportedError(
                f"a file has no gradient with respect to the parameter '{name}', which is a number",
                help=f"declare it as an input of the program: input {name}",
            )
    if not found.cotangents:
        raise UnsupportedError("the program has no output of kind float, and so no gradient")
    dtypes = dtypes_of(declared, dtype)
    for name in found.gradients:
        if dtypes[name] in NARROW:
            raise UnsupportedDtypeError(
                f"torch has no gradients of tensors of {dtypes[name]}, and '{name}' is one",
                help="say with wrt which inputs are to have gradients",
            )
    every = dict(dtypes)
    for o, e in zip(found.forward.declared.outputs, found.forward.outputs, strict=True):
        every[o.name] = result_dtype(found.forward.declared, o, e.body.kind, dtypes)
    every |= {gradient: every[name] for name, gradient in found.cotangents.items()}
    sizes = by_representative(declared, extents)
    name = found.program.origin.name or "kernel"
    emissions = []
    for program, kind in ((found.forward, "forward"), (found.equations, "backward")):
        program = replace(program, origin=replace(program.origin, name=f"{name}_{kind}"))
        inputs = {n: every[n] for n, i in program.declared.inputs.items() if i.kind == "float"}
        planner = Planner(program)
        emissions.append(Emission(planner, sizes, inputs, target, tf32=tf32, minimal=minimal))
    forward, backward = emissions
    with BUILDING:
        parts = forward.part, backward.part
        return emit_gradient(found, *parts, precision=forward.precision, target=forward.target)


def check_target(dialect: Dialect, target: str | None) -> None:
    """Raises UnsupportedError if a dialect is for other GPUs than a target."""
    if dialect.target not in (None, target):
        raise UnsupportedError(
            f"backend '{dialect.name}' is for {dialect.target} alone, and this is {target}",
            help="compile with backend='triton'",
        )
