"""The source that the backend triton emits for a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from monocomp.building import BUILDING
from monocomp.dtypes import NARROW, dtypes_of
from monocomp.errors import UsageError
from monocomp.planning.plan import Plan, Planner

if TYPE_CHECKING:
    from monocomp.backends.triton.emit import Module
    from monocomp.backends.triton.schedule import Schedule


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
    if not minimal:
        return triton_module(planner, extents, dtype, target, tf32=tf32).source
    from monocomp.backends.triton.emit import emit_minimal

    plan, dtypes, schedules = _scheduled(planner, extents, dtype, target)
    is_cuda = target is not None and target.startswith("cuda")
    with BUILDING:
        return emit_minimal(
            planner.equations,
            plan.kernels,
            schedules,
            lowered=plan.program,
            sizes=plan.extents(extents),
            precision="tf32" if tf32 else "ieee",
            target=target,
            dtypes=dtypes,
            fast=is_cuda and "float32" not in dtypes.values(),
        )


def triton_module(
    planner: Planner,
    extents: Mapping[str, int],
    dtype: str | Mapping[str, str],
    target: str | None,
    *,
    tf32: bool = False,
) -> Module:
    """The whole file, and what it consists of; arguments as for `triton_source`."""
    from monocomp.backends.triton.emit import emit

    plan, dtypes, schedules = _scheduled(planner, extents, dtype, target)
    with BUILDING:
        return emit(
            planner.equations,
            plan.kernels,
            schedules,
            lowered=plan.program,
            outline=plan.derivation.outline(),
            precision="tf32" if tf32 else "ieee",
            target=target,
            narrow={n: d for n, d in dtypes.items() if d in NARROW},
            sizes=plan.extents(extents),
        )


def _scheduled(
    planner: Planner,
    extents: Mapping[str, int],
    dtype: str | Mapping[str, str],
    target: str | None,
) -> tuple[Plan, dict[str, str], list[Schedule]]:
    """The plan, the dtypes of inputs, and the first schedule of each kernel."""
    from monocomp.backends.triton.schedule import processors_of
    from monocomp.backends.triton.space import Space, element_bytes

    _check_target(target)
    dtypes = dtypes_of(planner.equations.declared, dtype)
    widths = {n: 4 if d == "float32" else 2 for n, d in dtypes.items()}
    processors = planner.processors or processors_of(target)
    plan = planner.plan(extents, processors)
    sizes = plan.extents(extents)
    spaces = (Space(k, sizes, element_bytes(k, widths), target, processors) for k in plan.kernels)
    return plan, dtypes, [space.first() for space in spaces]


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
