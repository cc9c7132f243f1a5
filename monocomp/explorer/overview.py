"""A kernel at a glance, and a tile program by itself."""

from __future__ import annotations

from html import escape

from monocomp.explorer.html import (
    code,
    details,
    joined,
    listing,
    opening,
    section,
    span,
    tag,
)
from monocomp.explorer.linking import Numbers
from monocomp.explorer.page import cost_table, derivation_body, stages_section
from monocomp.kernel import Kernel
from monocomp.tile import TileProgram


def kernel_body(kernel: Kernel) -> str:
    """Show what a kernel computes, what that costs, how it follows, and its stages."""
    declared = kernel.declared
    inputs = (f"<span>{code(_typed(i.name, i.dims))}</span>" for i in declared.inputs.values())
    outputs = ", ".join(o.name for o in declared.outputs)
    facts = tag("p", "facts mc-inputs", *inputs, f" <span>→ {code(outputs)}</span>")
    derivation = kernel.derivation
    how = derivation_body(derivation, headed=False)
    parts = (
        opening(title(kernel), kernel.equations.readable(), facts),
        cost_table(derivation),
        details(span("title", derivation.title), how, "mc-section"),
        stages_section(kernel.stages),
    )
    return joined(parts)


def title(kernel: Kernel) -> str:
    """Return its title, with its name where it has one."""
    return f"Kernel {kernel.program.name}" if kernel.program.name else "Kernel"


def _typed(name: str, dims: tuple[str, ...]) -> str:
    return f"{name}[{','.join(d.lstrip('.') for d in dims)}]" if dims else name


def tile_body(program: TileProgram) -> str:
    """Return the program, with its axes by their roles, and the terms that its statements
    compute."""
    axes = (
        tag("span", "role", escape(a.name), " ", span("soft", a.role)) + " "
        for a in program.axes.values()
    )
    numbers = Numbers()
    rows = [(text, numbers.of(s)) for text, s in program.lines()]
    terms = joined(f"<div>{code(str(o))}</div>" for o in numbers.origins)
    head = tag("div", "kicker", escape(f"Tile program {program.name}"))
    computed = section("What its statements compute", terms, is_open=False) if terms else ""
    return head + tag("p", "facts", *axes) + listing(rows) + computed
