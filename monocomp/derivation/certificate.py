"""The certificate of a compilation: every law that it rests on, proved, and where it is used.

A derivation is a chain of equations. Each holds because of laws: of the rules of rewriting and of
planning (`proving.rule_laws`), of the arithmetic that the constructors of terms do, and of the
monoids whose folds are cut into tiles. Those were proved before they were used, once, and are
remembered by what they say; `fresh=True` proves them again. Beside the laws stand the needs that
a rule had at its place, such as that a factor is positive: those of an equation one by one, with
the facts that met them, those of a procedure as it says them, and those of planning asked again.
Names, and words of the language that rules replace by what they mean, have no law to prove.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from monocomp import terms as T
from monocomp.declarations.record import as_data, record
from monocomp.derivation.rule_sets import RULES
from monocomp.display.formulas import Formula, sentence, words
from monocomp.display.rendering import Rendered
from monocomp.proving import proofs
from monocomp.proving.prover import Law, is_proved
from monocomp.proving.rule_laws import EVERYWHERE, FOLDED, RULE_LAWS
from monocomp.rewrites.centred import centred, move_centre
from monocomp.rewriting.driver import NAMING_LAW, Step, result_of
from monocomp.rewriting.equations import Equation
from monocomp.rewriting.rules import STATED, Rule
from monocomp.terms.equations import Equations
from monocomp.terms.printer import formula

AGAIN, PROCEDURE = "again", "procedure"


@record()
class Use:
    """The steps, by number, in which a rule used something."""

    rule: str
    steps: tuple[int, ...]

    def __str__(self) -> str:
        noun = "step" if len(self.steps) == 1 else "steps"
        return f"{self.rule} ({noun} {', '.join(map(str, self.steps))})"


@record()
class Theory:
    """Laws that belong together: of a monoid, or those that a rule names.

    Attributes:
        name: "SE", "distributivity", ...
        about: what they are good for.
        laws: with what is known of each.
        uses: where they are used; none for what is used everywhere.
    """

    name: str
    about: str
    laws: tuple[Law, ...]
    uses: tuple[Use, ...]


@record()
class Condition:
    """A fact that a rule needed, and that was found to hold.

    Attributes:
        step: the number of the step.
        rule: its rule.
        needs: what the rule says that it needs.
        fact: what holds.
        by: the fact of `monocomp.terms` that was found, or "form"; "procedure" where that decides
            it; "again" where it was asked again; "" if it does not hold.
    """

    step: int
    rule: str
    needs: str
    fact: Formula
    by: str


@dataclass(frozen=True, repr=False)
class Certificate(Rendered):
    """The laws, conditions and definitions that a compilation rests on; see the module.

    Attributes:
        title: what is certified.
        theories: the laws, with their proofs.
        conditions: the facts that rules needed.
        definitions: rules that say what a word of the language, or a name, means.
        fresh: True if everything was proved anew.
    """

    title: str
    theories: tuple[Theory, ...]
    conditions: tuple[Condition, ...]
    definitions: tuple[Use, ...]
    fresh: bool

    @property
    def laws(self) -> tuple[Law, ...]:
        """Return all laws."""
        return tuple(law for theory in self.theories for law in theory.laws)

    @property
    def holds(self) -> bool:
        """True if all conditions hold and all laws except facts are proved; facts need not hold."""
        return is_proved(self.laws) and all(c.by for c in self.conditions)

    @property
    def summary(self) -> str:
        """Return the certificate in one line."""
        needed = [law for law in self.laws if law.holds or not law.is_fact]
        missing = sum(not law.holds for law in needed)
        result = "all proved" if not missing else f"{missing} not proved"
        when = "anew" if self.fresh else "before, and remembered"
        seconds = sum(law.seconds for law in needed)
        return f"{self.title}: {len(needed)} laws, {result} {when} ({seconds:.2f} s)"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return f"<Certificate {self.summary}; print it to see them>"

    def _lines(self) -> Iterator[str]:
        yield self.summary
        for theory in self.theories:
            uses = ", ".join(map(str, theory.uses)) or "every step"
            about = f": {theory.about}" if theory.about else ""
            yield f"\n{theory.name}{about}"
            yield f"    used by {uses}"
            width = max(len(law.short) for law in theory.laws)
            for law in theory.laws:
                yield f"    {law.short:{width}}  {_shown(law)}"
        if self.conditions:
            yield "\nSide conditions, found to hold; extents are at least 1"
            width = max(len(c.rule) for c in self.conditions)
            for c in self.conditions:
                yield f"    step {c.step:2}  {c.rule:{width}}  {c.fact}"
        if self.definitions:
            yield f"\nBy definition: {', '.join(map(str, self.definitions))}"

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.as_data(), indent=2)

    def as_data(self) -> dict[str, Any]:
        """Return everything as lists and dictionaries."""
        return {"holds": self.holds, **as_data(self)}


def _shown(law: Law) -> str:
    if law.holds:
        return str(law.statement)
    if law.is_fact:
        return "does not hold, and need not"
    if law.counterexample is not None:
        return f"does not hold: {law.counterexample}"
    return f"not proved: {law.statement}"


def certify(start: Equations, made: Sequence[Step], fresh: bool = False) -> Certificate:
    """Return the certificate of a derivation.

    Args:
        start: the program before the first step.
        made: the steps, for a kernel with those that make its loops.
        fresh: prove all laws anew, instead of remembering.
    """
    result = result_of(start, made)
    steps = list(enumerate(made, 1))
    used: dict[str, list[tuple[int, str]]] = {}
    defined: list[tuple[int, str]] = []
    for number, step in steps:
        rule = _rule(step)
        for claim in () if rule is None else rule.claims:
            used.setdefault(claim, []).append((number, step.rule))
        if step.statement is NAMING_LAW or (rule is not None and not rule.claims):
            defined.append((number, step.rule))
    if any(step.rule in RULES for _, step in steps):
        used.setdefault(EVERYWHERE, [])
    loops = used.pop(FOLDED, [])
    if any(map(centred, T.subterms(*(e.body for e in result.equations)))):
        for claim in move_centre.claims:
            used.setdefault(claim, []).extend(loops)
    laws = {claim: proofs.certify(claim, (), fresh) for claim in used}
    folded: dict[str, dict[Law, None]] = {}
    for law in proofs.certificate(result, fresh):
        folded.setdefault(law.name.rpartition(": ")[0], {})[law] = None
    for name, own in folded.items():
        laws.setdefault(name, tuple(own))
        used[name] = list(dict.fromkeys([*used.get(name, []), *loops]))
    theories = (Theory(n, _about(n), found, _uses(used[n])) for n, found in laws.items())
    conditions = (c for number, step in steps for c in _conditions(number, step))
    title = f"Certificate of {', '.join(o.name for o in start.declared.outputs)}"
    return Certificate(title, tuple(theories), tuple(conditions), _uses(defined), fresh)


def _about(name: str) -> str:
    """Return what laws are good for: those of rules, or of a monoid."""
    return RULE_LAWS[name if name in RULE_LAWS else FOLDED].about


def _uses(numbered: Iterable[tuple[int, str]]) -> tuple[Use, ...]:
    """Return the steps of each rule."""
    steps: dict[str, dict[int, None]] = {}
    for number, rule in numbered:
        steps.setdefault(rule, {})[number] = None
    return tuple(Use(rule, tuple(numbers)) for rule, numbers in steps.items())


def _rule(step: Step) -> Rule | None:
    return RULES.get(step.rule) or STATED.get(step.rule)


def _conditions(number: int, step: Step) -> Iterator[Condition]:
    """Yield what a step's rule needed, of an equation each need by itself."""
    rule = _rule(step)
    needs = "" if rule is None else rule.needed
    if not needs:
        return
    if isinstance(rule, Equation) and step.redex is not None:
        names = step.start.reader_names()
        for need, t in rule.discharged(step.redex):
            fact = sentence(Formula("name", attr=need.name), f" {need.words}: ", formula(t, names))
            yield Condition(number, step.rule, str(need), fact, need.fact)
    elif step.check is None:
        yield Condition(number, step.rule, needs, words(needs), PROCEDURE)
    elif step.check():
        yield Condition(number, step.rule, needs, words(f"asked again: {needs}"), AGAIN)
    else:
        yield Condition(number, step.rule, needs, words(f"does not hold: {needs}"), "")
