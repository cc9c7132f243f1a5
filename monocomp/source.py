"""The source that a backend emits for a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from monocomp.backends.targets import canonical
from monocomp.checking.sizes import complete_extents
from monocomp.declarations.dtypes import NARROW, dtypes_of, itemsize, promoted, result_dtype, widths
from monocomp.declarations.records import by_representative, free_extents
from monocomp.errors import UnsupportedDtypeError, UnsupportedError
from monocomp.extents.nominal import SHORT
from monocomp.machine.locking import BUILDING
from monocomp.planning.plan import Plan, Planner

if TYPE_CHECKING:
    from monocomp.backends.schedules.legal import Legal
    from monocomp.backends.schedules.schedule import Schedule
    from monocomp.backends.triton.dialect import Dialect
    from monocomp.backends.triton.emit import Module, Part
    from monocomp.backends.triton.machine_code import MachineCode
    from monocomp.gradients.gradient import GradientPrograms

# Extents that are not given, by the roles of their axes; others are SHORT.
_NOMINAL = {"grid": 2, "row": 4096, "stream": 4096}


def module(
    backend: str,
    planner: Planner,
    extents: Mapping[str, int],
    dtype: str | Mapping[str, str],
    target: str | None,
    *,
    tf32: bool = False,
    minimal: bool = False,
) -> Module:
    """Return a self-contained Python file, and what it consists of.

    Args:
        backend: the dialect.
        planner: of the program.
        extents: sizes that are known, by representative.
        dtype: of all inputs of floats, or of some by name.
        target: what to choose the schedules for: "cuda:90", "hip:gfx942", ...
        tf32: let float32 products use the tf32 units.
        minimal: only kernels for the known sizes, and a short host function.
    """
    from monocomp.backends.dialects import DIALECTS
    from monocomp.backends.triton.emit import emit_part

    target = canonical(target)
    precision = "tf32" if tf32 else "ieee"
    dtypes = dtypes_of(planner.equations.declared, dtype)
    with BUILDING:
        part = _part(planner, extents, dtypes, target, DIALECTS[backend](), precision, minimal)
        made = emit_part(part, precision, target)
    for tensor in {r.block.tensor for k in made.kernels for r in k.rings}:
        if dtypes.get(tensor) not in ("bfloat16", "float16"):
            raise UnsupportedDtypeError(
                f"backend '{backend}' multiplies matrices of 16 bits, and {tensor} is "
                f"{dtypes.get(tensor, 'float32')}",
                help="take dtype='bf16', or compile with backend='triton'",
            )
    return made


def machine_code(
    backend: str,
    planner: Planner,
    extents: Mapping[str, int],
    dtype: str | Mapping[str, str],
    target: str,
    form: str,
    *,
    tf32: bool = False,
) -> tuple[list[MachineCode], dict[str, int]]:
    """Return the kernels of a file, compiled for a GPU that need not be there, and the sizes
    that they are compiled for; arguments as for `module`, `form` one of `machine_code.FORMS`."""
    from monocomp.backends.triton.machine_code import machine_code

    target = canonical(target) or target
    made = module(backend, planner, extents, dtype, target, tf32=tf32)
    sizes = _nominal_sizes(planner, extents)
    declared = planner.equations.declared
    dtypes = dtypes_of(declared, dtype)
    return machine_code(made, declared, sizes, dtypes, target, form), sizes


def _nominal_sizes(planner: Planner, extents: Mapping[str, int]) -> dict[str, int]:
    """Return sizes of the inputs' dimensions: as given, by their roles in the kernels, and those
    that the program declares by the others."""
    program = planner.equations
    free = free_extents(program.declared)
    axes = [a for k in planner.plan(extents).kernels for a in k.axes.values() if a.extent in free]
    nominal = {a.extent: _NOMINAL.get(a.role, SHORT) for a in axes}
    sizes = complete_extents(program, {**dict.fromkeys(free, SHORT), **nominal, **extents})
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
    """Return a file in Triton with a program and its gradients; arguments as for `module`,
    extents by index."""
    from monocomp.backends.triton.dialect import TRITON
    from monocomp.backends.triton.gradient import emit_gradient

    target = canonical(target)
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
    precision = "tf32" if tf32 else "ieee"
    name = found.program.origin.name or "kernel"
    parts = []
    with BUILDING:
        for program, kind in ((found.forward, "forward"), (found.equations, "backward")):
            program = replace(program, origin=replace(program.origin, name=f"{name}_{kind}"))
            inputs = {n: every[n] for n, i in program.declared.inputs.items() if i.kind == "float"}
            parts.append(_part(Planner(program), sizes, inputs, target, TRITON, precision, minimal))
        return emit_gradient(found, *parts, precision=precision, target=target)


def _part(
    planner: Planner,
    extents: Mapping[str, int],
    dtypes: Mapping[str, str],
    target: str | None,
    dialect: Dialect,
    precision: str,
    minimal: bool,
) -> Part:
    """Return what a program's part of a file is written from."""
    from monocomp.backends.triton.emit import Part
    from monocomp.backends.triton.known_arguments import Promises

    plan, dtypes, schedules = scheduled(planner, extents, dtypes, target, dialect)
    known = {n: d for n, d in dtypes.items() if minimal or d in NARROW}  # the others may be any
    plan = plan.of_dtypes(known)
    promises = None
    if minimal:
        is_cuda = target is not None and target.startswith("cuda")
        products = promoted(dtypes[n] for n in planner.equations.declared.deciding)
        fast = is_cuda and itemsize(products) == 2
        promises = Promises(precision, fast, {n: itemsize(d) for n, d in dtypes.items()})
    return Part(
        planner.equations.of_dtypes(known),
        plan.kernels,
        schedules,
        plan.program,
        plan.extents(extents),
        () if minimal else plan.derivation.outline(),
        dialect,
        promises,
    )


def processors_for(planner: Planner, dialect: Dialect, target: str | None) -> int:
    """Return how many program instances side by side kernels for a target are planned for."""
    from monocomp.backends.schedules.schedule import processors_of

    return (planner.processors or processors_of(canonical(target))) if dialect.merges else 1


def legal_schedules(
    planner: Planner,
    extents: Mapping[str, int],
    dtype: str | Mapping[str, str],
    target: str | None,
    dialect: Dialect,
) -> tuple[Plan, dict[str, str], list[Legal]]:
    """Return the plan, the dtypes of inputs, and the schedules that each kernel may have; see
    `module`."""
    from monocomp.backends.schedules.legal import element_bytes

    target = canonical(target)
    check_target(dialect, target or dialect.target)
    dtypes = dtypes_of(planner.equations.declared, dtype)
    of_inputs = widths(planner.equations.declared, dtypes)
    processors = processors_for(planner, dialect, target)
    plan = planner.plan(extents, processors)
    sizes = plan.extents(extents)
    legal = [
        dialect.legal(k, sizes, element_bytes(k, of_inputs), target, processors)
        for k in plan.kernels
    ]
    return plan, dtypes, legal


def scheduled(
    planner: Planner,
    extents: Mapping[str, int],
    dtype: str | Mapping[str, str],
    target: str | None,
    dialect: Dialect,
) -> tuple[Plan, dict[str, str], list[Schedule]]:
    """Return the plan, the dtypes of inputs, and the first schedule of each kernel; see
    `module`."""
    plan, dtypes, legal = legal_schedules(planner, extents, dtype, target, dialect)
    return plan, dtypes, list(map(dialect.table.first, legal))


def check_target(dialect: Dialect, target: str | None) -> None:
    """Raises UnsupportedError if a dialect is for other GPUs than a target."""
    if dialect.target not in (None, target):
        raise UnsupportedError(
            f"backend '{dialect.name}' is for {dialect.target} alone, and this is {target}",
            help="compile with backend='triton'",
        )
