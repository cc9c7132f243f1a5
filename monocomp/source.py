"""The source that a backend emits for a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from monocomp.building import BUILDING
from monocomp.declarations import by_representative
from monocomp.dtypes import NARROW, dtypes_of, itemsize
from monocomp.errors import UnsupportedDtypeError, UnsupportedError, UsageError
from monocomp.planning.plan import Plan, Planner

if TYPE_CHECKING:
    from monocomp.backends.triton.dialect import Dialect
    from monocomp.backends.triton.emit import Module
    from monocomp.backends.triton.schedule import Schedule
    from monocomp.gradients.derived import Gradient


def minimal_source(
    planner: Planner,
    extents: Mapping[str, int],
    dtype: str | Mapping[str, str],
    target: str | None,
    *,
    tf32: bool,
) -> str:
    """A file in Triton of only kernels for the known sizes, and a short host function; arguments as
    for `module`."""
    from monocomp.backends.triton.dialect import TRITON
    from monocomp.backends.triton.emit import emit_minimal

    plan, dtypes, schedules = scheduled(planner, extents, dtype, target, TRITON)
    plan = plan.of_dtypes(dtypes)
    is_cuda = target is not None and target.startswith("cuda")
    with BUILDING:
        return emit_minimal(
            planner.equations.of_dtypes(dtypes),
            plan.kernels,
            schedules,
            lowered=plan.program,
            sizes=plan.extents(extents),
            precision="tf32" if tf32 else "ieee",
            target=target,
            fast=is_cuda and "float32" not in dtypes.values(),
        )


def module(
    backend: str,
    planner: Planner,
    extents: Mapping[str, int],
    dtype: str | Mapping[str, str],
    target: str | None,
    *,
    tf32: bool = False,
) -> Module:
    """A self-contained Python file, and what it consists of.

    Args:
        backend: the dialect.
        planner: of the program.
        extents: sizes that are known, by representative.
        dtype: of all inputs of floats, or of some by name.
        target: what to choose the schedules for: "cuda:90", "hip:gfx942", ...
        tf32: let float32 products use the tf32 units.
    """
    from monocomp.backends.dialects import DIALECTS
    from monocomp.backends.triton.emit import emit

    dialect = DIALECTS[backend]()
    plan, dtypes, schedules = scheduled(planner, extents, dtype, target, dialect)
    narrow = {n: d for n, d in dtypes.items() if d in NARROW}  # the others may be any
    plan = plan.of_dtypes(narrow)
    with BUILDING:
        made = emit(
            planner.equations.of_dtypes(narrow),
            plan.kernels,
            schedules,
            lowered=plan.program,
            outline=plan.derivation.outline(),
            precision="tf32" if tf32 else "ieee",
            target=target,
            dialect=dialect,
            sizes=plan.extents(extents),
        )
    for tensor in {r.block.tensor for k in made.kernels for r in k.rings}:
        if dtypes.get(tensor) not in ("bfloat16", "float16"):
            raise UnsupportedDtypeError(
                f"backend '{backend}' multiplies matrices of 16 bits, and {tensor} is "
                f"{dtypes.get(tensor, 'float32')}",
                help="take dtype='bf16', or compile with backend='triton'",
            )
    return made


def gradient_source(
    found: Gradient,
    extents: Mapping[str, int],
    dtype: str | Mapping[str, str],
    target: str | None,
    *,
    tf32: bool,
    minimal: bool,
) -> str:
    """A file in Triton with a program and its gradients; arguments as for `module`, extents by
    index."""
    from monocomp.backends.triton.dialect import TRITON
    from monocomp.backends.triton.gradient import Half, emit_gradient
    from monocomp.backends.triton.known_arguments import Promises

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
    wide = {d for d in dtypes.values() if d not in NARROW} or {"bfloat16"}
    of_results = wide.pop() if len(wide) == 1 else "float32"
    every = dict.fromkeys((*found.cotangents, *found.cotangents.values()), of_results)
    every |= {**dict.fromkeys(found.saved, "float32"), **every, **dtypes}
    sizes = by_representative(declared, extents)
    precision = "tf32" if tf32 else "ieee"
    name = found.program.origin.name or "kernel"
    halves = []
    is_cuda = target is not None and target.startswith("cuda")
    for program, kind in ((found.forward, "forward"), (found.equations, "backward")):
        program = replace(program, origin=replace(program.origin, name=f"{name}_{kind}"))
        inputs = {n: every[n] for n, i in program.declared.inputs.items() if i.kind == "float"}
        plan, dtypes, schedules = scheduled(Planner(program), sizes, inputs, target, TRITON)
        narrow = {n: d for n, d in dtypes.items() if minimal or d in NARROW}
        promises = None
        if minimal:
            fast = is_cuda and of_results != "float32"
            promises = Promises(precision, fast, {n: itemsize(d) for n, d in dtypes.items()})
        halves.append(Half(program.of_dtypes(narrow), plan.of_dtypes(narrow), schedules, promises))
    with BUILDING:
        return emit_gradient(
            found, (halves[0], halves[1]), sizes=sizes, precision=precision, target=target
        )


def scheduled(
    planner: Planner,
    extents: Mapping[str, int],
    dtype: str | Mapping[str, str],
    target: str | None,
    dialect: Dialect,
) -> tuple[Plan, dict[str, str], list[Schedule]]:
    """The plan, the dtypes of inputs, and the first schedule of each kernel; see `module`."""
    from monocomp.backends.triton.legal import element_bytes
    from monocomp.backends.triton.schedule import processors_of

    _check_target(target)
    check_target(dialect, target or dialect.target)
    dtypes = dtypes_of(planner.equations.declared, dtype)
    widths = {n: 4 if d == "float32" else 2 for n, d in dtypes.items()}
    processors = (planner.processors or processors_of(target)) if dialect.merges else 1
    plan = planner.plan(extents, processors)
    sizes = plan.extents(extents)
    schedules = []
    for k in plan.kernels:
        width = element_bytes(k, widths)
        schedules.append(dialect.table.first(dialect.legal(k, sizes, width, target, processors)))
    return plan, dtypes, schedules


def check_target(dialect: Dialect, target: str | None) -> None:
    """Raises UnsupportedError if a dialect is for other GPUs than a target."""
    if dialect.target not in (None, target):
        raise UnsupportedError(
            f"backend '{dialect.name}' is for {dialect.target} alone, and this is {target}",
            help="compile with backend='triton'",
        )


def _check_target(target: str | None) -> None:
    """None, or a GPU that schedules can be chosen for."""
    if target is None:
        return
    kind, _, arch = target.partition(":")
    fine = (kind == "cuda" and arch.isdigit() and len(arch) <= 3) or (
        kind == "hip" and arch.startswith("gfx") and arch.isalnum() and len(arch) <= 8
    )
    if not fine:
        raise UsageError(
            f"unknown target {target!r}",
            notes=["targets: cuda:80, cuda:90, cuda:100, hip:gfx942, ..."],
            help="write cuda: and the compute capability without its point",
        )
