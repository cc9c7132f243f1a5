"""A record of what was done to derive a gradient, for whoever asks how it follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from monocomp.display.formulas import Formula
from monocomp.gradients.reverse import Visit
from monocomp.rewriting.driver import Step
from monocomp.terms.equations import Equation, Equations


@dataclass(frozen=True)
class Choice:
    """A value that may be saved, and what is decided of it.

    Attributes:
        name: under which it is, or would be, saved.
        value: what it is.
        is_saved: True if it is stored, and not computed anew.
        reason: why.
        is_open: True if it is to be weighed within the programs.
        depends_on_sizes: True if other sizes may decide otherwise.
        is_logarithm: True if it is the logarithm of a sum of weights.
    """

    name: str
    value: Formula
    is_saved: bool
    reason: str
    is_open: bool = False
    depends_on_sizes: bool = False
    is_logarithm: bool = False

    def __str__(self) -> str:
        kept = "saved" if self.is_saved else "computed anew"
        return f"{self.name} = {self.value}: {kept}, {self.reason}"


@dataclass(frozen=True)
class Trace:
    """A record of what was done to derive a gradient.

    Attributes:
        start: the program, which may also return values that it saves.
        steps: those to its normal form.
        visited: by equation, what was differentiated, in order.
        named: the names of definitions that it was given.
    """

    start: Equations
    steps: tuple[Step, ...]
    visited: tuple[tuple[str, Visit], ...]
    named: tuple[str, ...]


class Derived(Protocol):
    """A gradient, as far as its derivation reads it."""

    @property
    def trace(self) -> Trace: ...
    @property
    def equations(self) -> Equations: ...
    @property
    def saved(self) -> Mapping[str, Equation]: ...
    @property
    def gradients(self) -> Mapping[str, str]: ...
    @property
    def choices(self) -> tuple[Choice, ...]: ...
    @property
    def frames(self) -> Mapping[str, str]: ...
