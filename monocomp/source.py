"""The source that the backend triton emits for a program."""

from __future__ import annotations

from collections.abc import Mapping

from monocomp.building import BUILDING
from monocomp.dtypes import NARROW, dtypes_of
from monocomp.errors import UsageError
from monocomp.planning.plan import Planner


def triton_source(
    planner: Planner,
    extents: Mapping[str, int],
    dtype: str | Mapping[str, str],
    target: str | None,
    *,
    tf32: bool,
    minimal: bool = False,
) -> str:
    """A self-contained Python file.

    Args:
        planner: of the program.
        extents: sizes that are known, by representative.
        dtype: of all inputs of floats, or of some by name.
        target: what to choose the schedules for: "cuda:90", "hip:gfx942", ...
        tf32: let float32 products use the tf32 units.
        minimal: only kernels for the known sizes, and a short host function.
    """
    from monocomp.backends.triton.emit import emit, emit_minimal
    from monocomp.backends.triton.schedule import processors_of
    from monocomp.backends.triton.space import Space, element_bytes

    _check_target(target)
    dtypes = dtypes_of(planner.equations.declared, dtype)
    widths = {n: 4 if d == "float32" else 2 for n, d in dtypes.items()}
    processors = planner.processors or processors_of(target)
    plan = planner.plan(extents, processors)
    sizes = plan.extents(extents)
    spaces = [Space(k, sizes, element_bytes(k, widths), target, processors) for k in plan.kernels]
    start, schedules = planner.equations, [space.first() for space in spaces]
    precision = "tf32" if tf32 else "ieee"
    with BUILDING:
        if minimal:
            is_cuda = target is not None and target.startswith("cuda")
            return emit_minimal(
                start,
                plan.kernels,
                schedules,
                lowered=plan.program,
                sizes=sizes,
                precision=precision,
                target=target,
                dtypes=dtypes,
                fast=is_cuda and "float32" not in dtypes.values(),
            )
        outline = plan.derivation.outline()
        return emit(
            start,
            plan.kernels,
            schedules,
            lowered=plan.program,
            outline=outline,
            precision=precision,
            target=target,
            narrow={n: d for n, d in dtypes.items() if d in NARROW},
        ).source


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
