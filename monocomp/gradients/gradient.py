"""A gradient as programs, with how they were derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from monocomp.gradients.intermediates import Named
from monocomp.gradients.trace import Choice, Trace
from monocomp.terms.equations import Equation, Equations

if TYPE_CHECKING:
    from monocomp.gradients.derivation import GradientDerivation


@dataclass(frozen=True)
class GradientPrograms:
    """A derived gradient: the program, what it saves, and the program of its gradients.

    Attributes:
        program: what is differentiated, as it is written.
        forward: the program, which also returns the values that it saves.
        equations: the program that computes it.
        saved: what it reads of the program's values, by the name of the input that it is, and what
            it is in terms of the program's inputs.
        cotangents: by output of the program, the input that is the derivative of the loss with
            respect to it.
        gradients: by input of the program, the output that is its gradient.
        choices: what becomes of each value that may be saved, and why.
        trace: what was done.
        named: what is differentiated by name.
        frames: the maxima that are saved beside logarithms, by the names of these.
    """

    program: Equations
    forward: Equations
    equations: Equations
    saved: Mapping[str, Equation]
    cotangents: Mapping[str, str]
    gradients: Mapping[str, str]
    choices: tuple[Choice, ...]
    trace: Trace = field(repr=False, compare=False)
    named: Named = field(default_factory=Named)
    frames: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def derivation(self) -> GradientDerivation:
        """Return how it follows from the program, step by step, with its certificate."""
        from monocomp.gradients.derivation import GradientDerivation

        return GradientDerivation.made(self)

    @property
    def kept(self) -> frozenset[str] | None:
        """Return its definitions that are stored where it is computed; None where none has to
        be."""
        return self.equations.kept

    def __str__(self) -> str:
        return self.text().rstrip()

    def text(self) -> str:
        """Return the gradient as a program, which `compile`, `grad` and `evaluate` take."""
        return self.equations.text()
