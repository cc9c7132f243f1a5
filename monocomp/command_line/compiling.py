"""Compile the program that a command line names, or its gradient."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from monocomp.command_line import files, words

if TYPE_CHECKING:
    from monocomp.differentiation import Gradient
    from monocomp.kernel import Kernel
    from monocomp.terms.equations import Equations


def equations(options: Namespace, name: str | None = None) -> Equations:
    """Return the equations of PROGRAM as they are written, under a name of their own if it is
    given."""
    from monocomp.language.checker import check
    from monocomp.translation.translator import translate

    source = files.read_program(options.program)
    return translate(check(source.text, name or source.name))


def kernel(program: Equations, **more: Any) -> Kernel:
    """Derive the kernel of a program; options as for `monocomp.compile`."""
    from monocomp.kernel import Kernel

    return Kernel(program, **more)


def gradient(options: Namespace, program: Equations, outputs: Iterable[str] = ()) -> Gradient:
    """Derive the gradient that --wrt, --save and --extent ask for."""
    from monocomp.differentiation import Gradient
    from monocomp.gradients.derived import gradient

    how = options.wrt or None, list(outputs) or None, options.save, words.extents(options)
    return Gradient.of(gradient(program, *how))
