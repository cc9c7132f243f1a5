"""A gradient as programs, with what was decided and done to derive it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from monocomp import terms as T
from monocomp.display.formulas import Formula
from monocomp.gradients.reverse import Visit
from monocomp.rewriting.driver import Step
from monocomp.terms import Term
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

    def as_far_as_read(self, saved: Collection[str], program: Equations) -> Choice:
        """Return what is decided where gradients read some values: a value that a program does not
        return anyway is not saved for nothing."""
        returned = {o.name for o in program.declared.outputs}
        if not self.is_saved or self.name in saved or self.name in returned:
            return self
        reason = "as the gradients do not read it"
        return replace(self, is_saved=False, reason=reason, is_open=False)

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


@dataclass(frozen=True)
class Named:
    """The values and definitions that are differentiated by name.

    Attributes:
        values: those that are saved, which are outputs of the program.
        definitions: those of the program that are computed anew and stored.
    """

    values: tuple[str, ...] = ()
    definitions: frozenset[str] = frozenset()


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

    @property
    def free(self) -> frozenset[str]:
        """Return the maxima beside logarithms that any numbers would do for."""
        equations = self.equations.equations
        return frozenset(m for n, m in self.frames.items() if _cancels(n, m, equations))

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


def _cancels(logarithm: str, maximum: str, equations: Iterable[Equation]) -> bool:
    """True if a maximum is read only where it is added to the logarithm that is less by it, and in
    conditions, which have no derivative."""

    def without_pair(t: Term) -> Term | None:
        if t.kind == "bool":
            return T.TRUE
        if t.op != "add" or t.kind != "float":
            return None
        multiples: dict[str, list[object]] = {logarithm: [], maximum: []}
        unpaired = []
        for a in t.args:
            number, read = T.split_coefficient(a)
            name = T.name_of(read) if read is not None and read.op in T.READS else None
            if read is not None and name in multiples:
                multiples[name].append((number, read.args))
            else:
                unpaired.append(without(a))
        return T.add(T.ZERO, *unpaired) if multiples[logarithm] == multiples[maximum] else None

    without = T.transform(without_pair)
    terms = T.subterms(*(without(e.body) for e in equations))
    return not any(t.op in T.READS and T.name_of(t) == maximum for t in terms)
