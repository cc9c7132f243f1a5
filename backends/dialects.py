"""The dialects that kernels are emitted in, by name: a new one is added here. They are imported
when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monocomp.backends.triton.dialect import Dialect


def _triton() -> Dialect:
    from monocomp.backends.triton.dialect import TRITON

    return TRITON


def _gluon() -> Dialect:
    from monocomp.backends.gluon.dialect import GLUON

    return GLUON


DIALECTS: dict[str, Callable[[], Dialect]] = {"triton": _triton, "gluon": _gluon}


def made_for(target: str | None) -> list[Dialect]:
    """Return the dialects that are for one kind of GPU alone, and for this one."""
    return [d for make in DIALECTS.values() if target and (d := make()).target == target]
