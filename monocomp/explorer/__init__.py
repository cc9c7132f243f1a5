"""Derivations, kernels and what belongs to them as pages: for notebooks, and as files.

html(x)        a fragment for a notebook's cell: complete without scripts, needs nothing else
markdown(x)    for viewers that keep no markup
page(kernel)   a file of its own, with pictures
picture(kernel, name)   one of `PICTURES` as SVG
"""

from __future__ import annotations

from html import escape

from monocomp.derivation.certificate import Certificate
from monocomp.derivation.derivation import Derivation
from monocomp.errors import MonocompError, UsageError
from monocomp.explorer import html as markup
from monocomp.explorer.overview import kernel_body, tile_body, title
from monocomp.explorer.page import derivation_body, plan_body, proofs, stages_section, step_body
from monocomp.explorer.pictures import PICTURES, picture
from monocomp.gradients.derivation import GradientDerivation
from monocomp.kernel import Kernel, compile
from monocomp.planning.plan import Plan
from monocomp.rewriting.driver import Step
from monocomp.stages import Stages
from monocomp.tile import TileProgram

__all__ = ["PICTURES", "html", "markdown", "page", "picture"]


def html(x: object) -> str:
    """Return a fragment that shows something, for a cell of a notebook."""
    match x:
        case Derivation():
            return markup.fragment(x.title, derivation_body(x, _after(x)), walks=True)
        case Step():
            return markup.fragment(f"Step {x.rule}", step_body(x))
        case Kernel():
            return markup.fragment(title(x), kernel_body(x), walks=True)
        case Certificate():
            return markup.fragment(x.title, proofs(x))
        case Plan():
            return markup.fragment("Plan", plan_body(x))
        case TileProgram():
            return markup.fragment(f"Tile program {x.name}", tile_body(x))
    raise TypeError(f"a {type(x).__name__} has no page")


def markdown(x: object) -> str:
    """Return the same in short, for viewers that keep no markup."""
    if isinstance(x, Kernel):
        return f"{_fenced(x.equations.lines())}\n{_fenced([repr(x)])}"
    if isinstance(x, Derivation):
        steps = [
            f"{n}. `{s.rule}`{f': {_plain(s.law)}' if s.law else ''}" for n, s in enumerate(x, 1)
        ]
        ends = _fenced(x.start.readable_lines()), _fenced(x.result.readable_lines())
        return "\n\n".join([f"**{x.title}**", ends[0], "\n".join(steps), ends[1]])
    return _fenced([str(x)])


def _fenced(lines: list[str]) -> str:
    """Return lines as they stand; no text has so many of these signs on a line."""
    return "\n".join(["~~~~~~~~", *lines, "~~~~~~~~"])


def _plain(text: str) -> str:
    """Return text in which markdown sees no signs of its own."""
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>#|~" else c for c in text)


def page(kernel: Kernel, stages: Stages | None = None, derivation: Derivation | None = None) -> str:
    """Return a file about a kernel: its derivation, its stages, its proofs.

    Args:
        kernel: the kernel.
        stages: for which sizes and target; any, unless given.
        derivation: the steps to show, such as a gradient's; those to the kernel, unless given.
    """
    stages = stages or kernel.stages
    derivation = derivation or stages.plan.derivation
    shown = markup.fragment(derivation.title, body(derivation, stages), walks=True)
    return markup.document(f"{kernel.name}: {derivation.title}", shown, "mc-page")


def body(derivation: Derivation, stages: Stages | None = None) -> str:
    """Return the parts of a page: a derivation, and what follows it.

    Args:
        derivation: of a program, or of its gradient.
        stages: of its kernels, for sizes and a target, to be drawn as well.
    """
    return derivation_body(derivation, _after(derivation, stages))


def _after(derivation: Derivation, stages: Stages | None = None) -> str:
    """Show what follows a derivation: the stages of its kernel, or the rules that match now."""
    is_gradient = isinstance(derivation, GradientDerivation)
    if not derivation.finished and not is_gradient:
        rules = ", ".join(derivation.applicable()) or "none"
        return markup.section("Rules that apply now", markup.code(rules))
    lines = derivation.result.readable()
    result = (
        markup.section("The gradient", markup.joined(map(markup.formula, lines)))
        if is_gradient
        else ""
    )
    try:
        shown = stages_section(stages or compile(derivation).stages)
    except MonocompError as error:  # no kernel computes it: a derivation it is all the same
        return result + markup.section("No kernel", markup.code(error.described()))
    return result + shown + ("" if stages is None else _pictures(stages))


def _pictures(stages: Stages) -> str:
    """Return all pictures; of one that has nothing to show, why."""
    parts = []
    for name, (about, _) in PICTURES.items():
        try:
            shown = markup.inline(picture(stages, name))
        except UsageError as error:
            shown = f'<p class="mc-soft">{escape(error.message)}</p>'
        parts.append(f'<div class="mc-label mc-also">{escape(about)}</div>{shown}')
    return markup.section("Pictures", "".join(parts))
