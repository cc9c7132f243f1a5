"""Host programs for calls that keep promises: what helps other calls is left out.

Nothing is copied, as last dimensions have no gaps and begin where blocks may; nothing is converted,
as operands of one product have one dtype; and what results of 16 bits allow is known.
"""

from __future__ import annotations

from dataclasses import replace

from monocomp.host import program as H
from monocomp.host.arguments import Statement
from monocomp.host.launches import Fast, Slices
from monocomp.host.tensors import Align, Convert, Transpose

_HELP = (Align, Convert, Fast, Transpose)


def promised(program: H.HostProgram) -> H.HostProgram:
    """Return the program without what it does for calls that promise less."""
    return replace(program, body=_kept(program.body))


def _kept(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    return tuple(
        replace(s, body=_kept(s.body)) if isinstance(s, Slices) else s
        for s in body
        if not isinstance(s, _HELP)
    )
