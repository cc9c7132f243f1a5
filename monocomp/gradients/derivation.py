"""The derivation of a gradient from its program, step by step.

The program is brought to normal form by rules. Then each operation hands its adjoint on to its
operands (`reverse`), from results to what is read; values that the forward saves are read; and what
a tensor's reads hand on is added up at its elements. The last step's program is the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from monocomp import terms as T
from monocomp.derivation.certificate import Certificate, Theory, Use, certify
from monocomp.derivation.derivation import Derivation
from monocomp.display.formulas import Formula, call, chain, infix, listed, name
from monocomp.gradients.gradient import Choice, GradientPrograms
from monocomp.gradients.laws import DEFINED, FOLDS, certified, law_of
from monocomp.gradients.reverse import LEAVES, handed_on
from monocomp.gradients.saving import is_logarithm
from monocomp.rewriting.driver import NAMING_LAW, Step, result_of
from monocomp.rewriting.rules import stated
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.printer import definition, formula

_ADJOINT = T.param("adjoint", "float")  # of what stands before
_ADJOINTS = "adjoints", "each operation hands its adjoint on to its operands"
_SAVING = "saved values", "what the forward saves is read, all else is computed anew"
_SUMS = "sums", "what the reads of an input hand on is added up at its elements"
_WORDS = {"add": "sum", "mul": "product", "pow": "power", "where": "choice", "field": "monoid"}


@dataclass(frozen=True, repr=False)
class GradientDerivation(Derivation):
    """The steps from a program to its gradient.

    Attributes:
        visited: the terms that were differentiated.
        kept: how many steps there are to the normal form.
        last_phases: the phase of each step after these.
    """

    visited: tuple[Term, ...] = ()
    kept: int = 0
    last_phases: tuple[tuple[str, str], ...] = ()

    @classmethod
    def made(cls, gradient: GradientPrograms) -> GradientDerivation:
        """Make the derivation from what was done. Definitions that are saved, and what is
        differentiated by name, are results of the program that it starts from."""
        trace = gradient.trace
        program = result_of(trace.start, trace.steps)
        made = [
            (phase, step)
            for phase, make in ((_ADJOINTS, _adjoints), (_SAVING, _choices), (_SUMS, _sums))
            for step in make(program, gradient)
        ]
        steps = [*trace.steps, *(step for _, step in made)]
        if steps:
            steps[-1] = replace(steps[-1], program=gradient.equations)
        return cls(
            trace.start,
            tuple(steps),
            visited=tuple(visit.node.term for _, visit in trace.visited),
            kept=len(trace.steps),
            last_phases=tuple(phase for phase, _ in made),
        )

    @property
    def compiled(self) -> Mapping[str, Any]:
        """Return the gradient, whose kernel has a derivation of its own."""
        return {"equations": self.result}

    @property
    def rewrites(self) -> tuple[Step, ...]:
        """Return the steps to the normal form, which keep what the program gives."""
        return self.steps[: self.kept]

    def certify(self, fresh: bool = False) -> Certificate:
        """Return the laws and facts that the steps rest on, with their proofs: those of rules,
        and the derivative of each operation and aggregate."""
        certificate = certify(self.start, self.steps, fresh)
        made = (t for t in self.visited if t.op not in LEAVES and t.args)
        used: dict[str, list[int]] = {}
        defined: dict[str, list[int]] = {}
        for number, step in enumerate(self.steps, 1):
            if step.rule.startswith("differentiate"):
                is_defined = step.law in map(FOLDS.get, DEFINED)
                (defined if is_defined else used).setdefault(step.rule, []).append(number)
        theory = Theory(
            "derivatives",
            "reverse mode hands the adjoint of an operation on to its operands, times these",
            tuple(dict.fromkeys(certified(made, fresh))),
            _uses(used),
        )
        theories = (*certificate.theories, theory) if theory.laws else certificate.theories
        title, definitions = (
            f"Certificate of {self._results}",
            certificate.definitions + _uses(defined),
        )
        return replace(certificate, title=title, theories=theories, definitions=definitions)

    @property
    def _results(self) -> str:
        return ", ".join(o.name for o in self.result.declared.outputs)

    @property
    def title(self) -> str:
        """Say what is derived, and in how many steps."""
        return f"Derivation of {self._results} in {len(self.steps)} steps"


def _uses(numbers: Mapping[str, Sequence[int]]) -> tuple[Use, ...]:
    return tuple(Use(rule, tuple(n)) for rule, n in numbers.items())


def _adjoints(program: Equations, gradient: GradientPrograms) -> Iterator[Step]:
    """Yield each operation, with what it hands on."""
    names = program.reader_names()
    for position, (node, edges) in gradient.trace.visited:
        if edges:
            pairs = ((e.operand.term, handed_on(e, _ADJOINT)) for e in edges)
            shown = (tuple(formula(x, names) for x in pair) for pair in pairs)
            after = listed(chain("+=", call("d", operand), x) for operand, x in shown)
            rule, law = f"differentiate_{_word(node.term)}", law_of(node.term)
            before = program.shown(node.term)
            yield Step(rule, law, (position,), before, after, program, program)


def _choices(program: Equations, gradient: GradientPrograms) -> Iterator[Step]:
    """Yield the values that may be saved."""
    for choice in gradient.choices:
        e = gradient.saved.get(choice.name)
        if e is not None:
            yield read_saved_value(program, choice, e, gradient.frames.get(e.name))
        elif not choice.is_saved:
            yield compute_value_anew(program, choice)


def _sums(program: Equations, gradient: GradientPrograms) -> Iterator[Step]:
    """Yield the gradients, after what several of them read."""
    known = gradient.equations.by_name
    named = [known[name] for name in gradient.trace.named if name in known]
    results = [known[name] for name in gradient.gradients.values()]
    for e in named:
        readers = [r.name for r in (*named, *results) if e.name in r.body.names]
        reason = f"read by {', '.join(readers)}" if len(readers) > 1 else ""
        ends = program.shown(e.body), _left(e)
        position = (e.name,)
        rule = "name_value"
        yield Step(rule, NAMING_LAW, position, *ends, program, program, reason=reason)
    names = program.reader_names()
    for read, e in zip(gradient.gradients, results, strict=True):
        added = definition(e.name, (i.name for i in e.indices), e.body, names)
        yield add_up_reads(program, e.name, name(read), added)


@stated
def read_saved_value(program: Equations, choice: Choice, e: Equation, frame: str | None) -> Step:
    """Read what the forward saves: for a sum of exponentials its logarithm, or its logarithm and
    the exponent that this was taken relative to.

    Law:     a value may be stored and read again;
             `exp(s) / sum[k](exp(s)) = exp(s - log(sum[k](exp(s))))`
    Claims:  saved logarithms
    """
    before, after = choice.value, _left(e)
    if is_logarithm(e.body) and e.name not in program.by_name:
        if frame is not None:
            after = infix("+", formula(T.ref(frame, e.indices, "float")), after)
        before, after = call("exp", before), call("exp", after)
    ends = before, after
    return Step.of("read_saved_value", [e.name], *ends, program, program, reason=choice.reason)


@stated
def compute_value_anew(program: Equations, choice: Choice) -> Step:
    """Compute again what the forward does not save.

    Law:  a value may be computed again
    """
    ends = choice.value, choice.value
    position = [choice.name]
    return Step.of("compute_value_anew", position, *ends, program, program, reason=choice.reason)


@stated
def add_up_reads(program: Equations, position: str, read: Formula, added: Formula) -> Step:
    """Reading is linear: a sum of products with 1 where an element is the one that is read. What
    reads hand on is added up in the other order.

    Law:     what is read at f(i) gets at j the sum over all i with f(i) = j
    Claims:  one point, interchange, distributivity, units
    """
    return Step.of("add_up_reads", [position], read, added, program, program)


def _left(e: Equation) -> Formula:
    return formula(T.ref(e.name, e.indices, "float"))


def _word(t: Term) -> str:
    """Return the word for an operation in the names of rules."""
    if t.op in ("fold", "fold_at"):
        return t.attr.monoid if isinstance(t.attr.monoid, str) else "monoid"
    return _WORDS.get(t.op, t.op)
