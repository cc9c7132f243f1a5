"""Gradients as `mc.grad` returns them: programs, which also give a file to paste."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

from monocomp.declarations.assignments import as_names
from monocomp.errors import MonocompError, keeps_traceback
from monocomp.gradients.derived import gradient
from monocomp.gradients.gradient import GradientPrograms
from monocomp.source import gradient_source
from monocomp.translation.programs import read_equations

if TYPE_CHECKING:
    from monocomp.gradients.derivation import GradientDerivation
    from monocomp.language.parser import HasText
    from monocomp.translation.declared_monoids import Monoid


@dataclass(frozen=True)
class Gradient(GradientPrograms):
    """A derived gradient, which gives the source of its kernels."""

    @classmethod
    def of(cls, programs: GradientPrograms) -> Gradient:
        """Return the gradient of these programs."""
        return cls(**{f.name: getattr(programs, f.name) for f in fields(programs)})

    @cached_property
    def derivation(self) -> GradientDerivation:
        """Return how it follows from the program, step by step, with its certificate."""
        from monocomp.gradients.derivation import GradientDerivation

        return GradientDerivation.made(self)

    def source(
        self,
        *,
        target: str | None = None,
        dtype: str | Mapping[str, str] = "bf16",
        extents: Mapping[str, int] | None = None,
        tf32: bool = False,
        minimal: bool = False,
    ) -> str:
        """Return a file in Triton, to paste: the program as a function that autograd records,
        with the kernels of both; arguments as for `Kernel.source`."""
        return gradient_source(self, extents or {}, dtype, target, tf32=tf32, minimal=minimal)


def grad(
    text_or_path: str | os.PathLike[str] | HasText,
    wrt: str | Sequence[str] | None = None,
    *,
    outputs: str | Sequence[str] | None = None,
    save: str | Sequence[str] | None = None,
    extents: Mapping[str, int] | None = None,
    name: str | None = None,
    monoids: Iterable[Monoid] = (),
) -> Gradient:
    """Return the gradient of a program, as a program: `mc.compile(mc.grad(text))` computes it.

    It reads the program's inputs, the derivative of the loss with respect to each output `O` as
    `dO`, and what `forward`, the program itself, saves for it. It returns `dQ` for each input `Q`.

    Args:
        text_or_path: the program's text, or the path of a file that holds it, or a gradient.
        wrt: the inputs and params of kind float to differentiate with respect to; all inputs of
            that kind, unless given.
        outputs: those that have a derivative; all of kind float, unless given.
        save: what is read of the program's values, by name, outputs and definitions among them;
            what costs least (`choices`), unless given.
        extents: sizes that are known, by index, for that choice.
        name, monoids: as for `compile`.

    Raises:
        MonocompError: what is wrong with the program, with its position.
        UnsupportedError: it holds an aggregate for which no derivative is known.
    """
    try:
        program = read_equations(text_or_path, name, monoids)
        wrt, outputs, save = map(as_names, (wrt, outputs, save))
        return Gradient.of(gradient(program, wrt, outputs, save, extents))
    except MonocompError as error:
        if keeps_traceback(error):
            raise
        raise error.with_traceback(None) from None
