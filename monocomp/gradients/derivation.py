"""How a gradient follows from its program, step by step.

The program is brought to normal form by rules. Then each operation hands its adjoint on to its
operands (`reverse`), from results to what is read; values that the forward saves are read; and what
a tensor's reads hand on is added up at its elements. The last step's program is the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from monocomp import terms as T
from monocomp.derivation.certificate import Certificate, Theory, Use
from monocomp.derivation.derivation import Derivation
from monocomp.gradients.laws import certified, law_of
from monocomp.gradients.reverse import LEAVES, handed_on
from monocomp.gradients.saving import SAVING_LAW, is_logarithm
from monocomp.gradients.trace import Trace
from monocomp.rewriting.driver import NAMING_LAW, Step
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.printer import definition_line, show

TRANSPOSING_LAW = "what is read at f(i) gets at j the sum over all i with f(i) = j"
_ANEW_LAW = "a value may be computed again"
_ADJOINT = T.param("adjoint", "float")  # of what stands before
_WORDS = {"add": "sum", "mul": "product", "pow": "power", "where": "choice", "field": "monoid"}


@dataclass(frozen=True, repr=False)
class GradientDerivation(Derivation):
    """The steps from a program to its gradient.

    Attributes:
        visited: the terms that were differentiated.
        kept: how many steps there are to the normal form.
    """

    visited: tuple[Term, ...] = ()
    kept: int = 0

    @classmethod
    def made(cls, start: Equations, gradient: Equations, trace: Trace) -> GradientDerivation:
        """From what was done, for the program as it is written."""
        program = trace.steps[-1].program if trace.steps else start
        steps = [*trace.steps, *_steps(program, trace)]
        if steps:
            steps[-1] = replace(steps[-1], program=gradient)
        terms = tuple(visit.node.term for _, visit in trace.visited)
        return cls(start, tuple(steps), visited=terms, kept=len(trace.steps))

    @property
    def rewrites(self) -> tuple[Step, ...]:
        """The steps to the normal form. What is differentiated after them rests on laws, which
        `certify` proves."""
        return self.steps[: self.kept]

    def certify(self, fresh: bool = False) -> Certificate:
        """The laws and facts that the steps rest on, with their proofs: those of rules, and the
        derivative of each operation."""
        found = super().certify(fresh)
        scalar = [t for t in self.visited if t.op not in ("fold", "fold_at", "field", *LEAVES)]
        used: dict[str, list[int]] = {}
        for number, step in enumerate(self.steps, 1):
            if step.rule.startswith("differentiate"):
                used.setdefault(step.rule, []).append(number)
        theory = Theory(
            "derivatives",
            "reverse mode hands the adjoint of an operation on to its operands, times these",
            tuple(dict.fromkeys(certified((t for t in scalar if t.args), fresh))),
            tuple(Use(rule, tuple(numbers)) for rule, numbers in used.items()),
        )
        theories = (*found.theories, theory) if theory.laws else found.theories
        return replace(found, title=f"Certificate of {self._results}", theories=theories)

    @property
    def _results(self) -> str:
        return ", ".join(o.name for o in self.result.declared.outputs)

    @property
    def title(self) -> str:
        """What is derived, and in how many steps."""
        return f"Derivation of {self._results} in {len(self.steps)} steps"


def _steps(program: Equations, trace: Trace) -> Iterator[Step]:
    names = program.reader_names()

    def step(rule: str, law: str, place: str, left: str, right: str, reason: str = "") -> Step:
        return Step(rule, law, (place,), left, right, program, program, reason=reason)

    for place, (node, every) in trace.visited:
        edges = [e for e in every if _varies(e.operand.term)]
        if edges:
            pairs = ((show(e.operand.term, names), handed_on(e, _ADJOINT)) for e in edges)
            after = ", ".join(f"d({operand}) += {show(x, names)}" for operand, x in pairs)
            shown = program.shown(node.term)
            yield step(f"differentiate_{_word(node.term)}", law_of(node.term), place, shown, after)
    saved = {e.name: e for e in trace.saved}
    for choice in trace.choices:
        if choice.name in saved:
            e = saved[choice.name]
            is_new_log = is_logarithm(e.body) and e.name not in program.by_name
            before, after = choice.text, _left(e)
            if is_new_log:
                before, after = f"exp({before})", f"exp({after})"
            reason = choice.reason
            yield step("read_saved_value", SAVING_LAW, choice.name, before, after, reason)
        elif not choice.is_saved:
            text, reason = choice.text, choice.reason
            yield step("compute_value_anew", _ANEW_LAW, choice.name, text, text, reason)
    for e in trace.named:
        body = program.shown(e.body)
        yield step("name_shared_factor", NAMING_LAW, e.name, body, _left(e))
    for name, e in trace.results:
        line = definition_line(e.name, (i.attr[0] for i in e.indices), e.body, names)
        yield step("add_up_reads", TRANSPOSING_LAW, e.name, name, line)


def _varies(t: Term) -> bool:
    """Is it made of anything that has a gradient?"""
    return any(s.op in LEAVES and s.kind == "float" for s in T.subterms(t))


def _left(e: Equation) -> str:
    return show(T.ref(e.name, e.indices, "float"))


def _word(t: Term) -> str:
    """What an operation is called in the names of rules."""
    if t.op in ("fold", "fold_at"):
        return t.attr.monoid if isinstance(t.attr.monoid, str) else "monoid"
    return _WORDS.get(t.op, t.op)
