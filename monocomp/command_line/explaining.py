"""`monocomp explain`: a derivation, or one of the views of what follows from it.

Each view is of a program's kernel or, with --gradient, of the gradient's.
"""

from __future__ import annotations

from argparse import Namespace

from monocomp.backends.targets import canonical
from monocomp.command_line import compiling, options, streams, words
from monocomp.command_line.options import Form
from monocomp.derivation.derivation import Derivation
from monocomp.display.notes import Notes
from monocomp.stages import Stages


def derivation(options: Namespace) -> int:
    """Say how the kernel follows, and what may surprise in it."""
    extents = words.extents(options)
    kernel = compiling.kernel(compiling.equations(options))
    steps = _first(kernel.plan(extents).derivation, options.steps)
    streams.say_text(f"{kernel.summary(extents)}\n\n{steps}")
    say_notes(options, kernel.notes(extents))
    return 0


def derivation_as_json(options: Namespace) -> int:
    """Write the steps to the kernel as JSON."""
    plan = compiling.kernel(compiling.equations(options)).plan(words.extents(options))
    streams.say_text(_first(plan.derivation, options.steps).to_json())
    return 0


def gradient(options: Namespace) -> int:
    """Say how the gradient follows, and what it rests on."""
    steps = _first(_gradient(options), options.steps)
    streams.say_text(f"{steps}\n\n{steps.certify()}")
    return 0


def gradient_as_json(options: Namespace) -> int:
    """Write the steps to the gradient as JSON."""
    streams.say_text(_first(_gradient(options), options.steps).to_json())
    return 0


def stage(options: Namespace) -> int:
    """Print one stage between the program and its source."""
    stages = _stages(options)
    is_traced = "origins" in options and options.origins
    streams.say_text(stages.traced() if is_traced else stages[options.stage])
    return 0


def before(options: Namespace) -> int:
    """Print what a rule or pass found."""
    streams.say_text(_stages(options).before(options.before))
    return 0


def after(options: Namespace) -> int:
    """Print what a rule or pass left."""
    streams.say_text(_stages(options).after(options.after))
    return 0


def page(options: Namespace) -> int:
    """Write the page for a browser."""
    from monocomp.explorer import page

    streams.require_output(options.html, options.program)
    stages = _stages(options)
    steps = _gradient(options) if "gradient" in options else None
    streams.deliver(options.html, page(stages.kernel, stages, steps))
    return 0


def picture(options: Namespace) -> int:
    """Print a picture as SVG."""
    from monocomp.explorer import picture

    streams.say_text(picture(_stages(options), options.picture))
    return 0


def say_notes(options: Namespace, notes: Notes) -> None:
    """Print notes, unless they are not wanted."""
    if notes and not options.no_notes:
        streams.say_text(f"\n{notes}")


def _gradient(options: Namespace) -> Derivation:
    return compiling.gradient(options, compiling.equations(options)).derivation


def _first(steps: Derivation, count: int | None) -> Derivation:
    return steps if count is None else steps.first(count)


def _stages(options: Namespace) -> Stages:
    """Return the stages of the kernel, or of the gradient's."""
    import monocomp

    how = {"backend": options.backend} if "backend" in options else {}
    program = compiling.equations(options)
    if "gradient" in options:
        kernel = monocomp.compile(compiling.gradient(options, program), **how)
    else:
        kernel = compiling.kernel(program, **how)
    target = canonical(options.target) if "target" in options else None
    return Stages(kernel, words.extents(options), target)


_VIEWS = {
    "--stage": stage,
    "--before": before,
    "--after": after,
    "--html": page,
    "--picture": picture,
}
FORMS = (
    Form(derivation, options.EXPLAIN),
    Form(derivation_as_json, options.EXPLAIN_JSON, ("--json",)),
    Form(gradient, options.EXPLAIN_GRADIENT, ("--gradient",)),
    Form(gradient_as_json, options.EXPLAIN_GRADIENT_JSON, ("--gradient", "--json")),
    *(
        Form(_VIEWS[when.split()[0]], (*read, *more), (when, *condition))
        for when, read in options.VIEWS
        for more, condition in (
            ((), ()),
            ((options.GRADIENT, *options.OF_GRADIENTS), ("--gradient",)),
        )
    ),
)
