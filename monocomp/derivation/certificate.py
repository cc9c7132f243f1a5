"""The certificate of a compilation: every law that it rests on, proved, and where it is used.

A derivation is a chain of equations. Each holds because of laws: of the rules of rewriting and of
planning (`proving.rule_laws`), of the arithmetic that the constructors of terms do, and of the
monoids whose folds are cut into tiles. Those were proved before they were used, once, and are
remembered by what they say; `fresh=True` proves them again. Beside the laws stand the facts
that a rule needed at its place, such as that a factor is positive. They are asked again: each is
one of `monocomp.terms.facts`, or is seen in the form of the term, of which the rule makes the same.
Names, and words of the language that rules replace by what they mean, have no law to prove.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from monocomp import terms as T
from monocomp.derivation.rule_sets import RULES
from monocomp.display.rendering import Rendered
from monocomp.proving.proofs import certificate, certify_rule_law
from monocomp.proving.prover import Law, is_proved
from monocomp.proving.rule_laws import EVERYWHERE, FOLDED, RULE_LAWS
from monocomp.rewrites.centred import centred, move_centre
from monocomp.rewriting.driver import NAMING_LAW, Step, result_of
from monocomp.rewriting.equations import Equation
from monocomp.rewriting.rules import STATED, Rule
from monocomp.terms.asking import FACTS
from monocomp.terms.equations import Equations
from monocomp.terms.printer import show


@dataclass(frozen=True)
class Use:
    """The steps, by number, in which a rule used something."""

    rule: str
    steps: tuple[int, ...]

    def __str__(self) -> str:
        noun = "step" if len(self.steps) == 1 else "steps"
        return f"{self.rule} ({noun} {', '.join(map(str, self.steps))})"


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Condition:
    """A fact that a rule needed, and that was found to hold.

    Attributes:
        step: the number of the step.
        rule: its rule.
        needs: what the rule says that it needs.
        fact: what holds, as text.
        by: the fact of `monocomp.terms.facts` that was found, or "form"; "" if it does not hold.
    """

    step: int
    rule: str
    needs: str
    fact: str
    by: str


@dataclass(frozen=True, repr=False)
class Certificate(Rendered):
    """What a compilation rests on; see the module.

    Attributes:
        title: what is certified.
        theories: the laws, with their proofs.
        conditions: the facts that rules needed.
        definitions: rules that say what a word of the language, or a name, means.
        fresh: was everything proved anew?
    """

    title: str
    theories: tuple[Theory, ...]
    conditions: tuple[Condition, ...]
    definitions: tuple[Use, ...]
    fresh: bool

    @property
    def laws(self) -> tuple[Law, ...]:
        """All laws."""
        return tuple(law for theory in self.theories for law in theory.laws)

    @property
    def holds(self) -> bool:
        """Are all laws proved, but for facts that need not hold, and do the conditions hold?"""
        return is_proved(self.laws) and all(c.by for c in self.conditions)

    @property
    def summary(self) -> str:
        """In one line."""
        needed = [law for law in self.laws if law.holds or not law.is_fact]
        missing = sum(not law.holds for law in needed)
        found = "all proved" if not missing else f"{missing} not proved"
        when = "anew" if self.fresh else "before, and remembered"
        seconds = sum(law.seconds for law in needed)
        return f"{self.title}: {len(needed)} laws, {found} {when} ({seconds:.2f} s)"

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
        """Everything, as JSON."""
        return json.dumps(self.as_data(), indent=2)

    def as_data(self) -> dict[str, Any]:
        """Everything, as lists and dictionaries."""
        return {
            "holds": self.holds,
            "fresh": self.fresh,
            "theories": [
                {
                    "name": theory.name,
                    "about": theory.about,
                    "used": [{"rule": u.rule, "steps": list(u.steps)} for u in theory.uses],
                    "laws": [asdict(law) for law in theory.laws],
                }
                for theory in self.theories
            ],
            "conditions": [asdict(c) for c in self.conditions],
            "definitions": [{"rule": u.rule, "steps": list(u.steps)} for u in self.definitions],
        }


def _shown(law: Law) -> str:
    if law.holds:
        return law.statement
    if law.is_fact:
        return "does not hold, and need not"
    if law.counterexample is not None:
        return f"does not hold: {law.counterexample}"
    return f"not proved: {law.statement}"


def certify(start: Equations, made: Sequence[Step], fresh: bool = False) -> Certificate:
    """The certificate of a derivation.

    Args:
        start: the program before the first step.
        made: the steps, for a kernel with those that make its loops.
        fresh: prove all laws anew, instead of remembering.
    """
    steps = list(enumerate(made, 1))
    result = result_of(start, made)
    laws: dict[str, list[Law]] = {}
    used: dict[str, list[tuple[int, str]]] = {}
    defined: list[tuple[int, str]] = []
    for number, step in steps:
        claims = _claims(step)
        for claim in claims:
            used.setdefault(claim, []).append((number, step.rule))
            if claim not in laws:
                laws[claim] = list(certify_rule_law(claim, fresh))
        if not claims and (_rule(step) is not None or step.law == NAMING_LAW):
            defined.append((number, step.rule))
    if any(step.rule in RULES for _, step in steps):
        laws[EVERYWHERE] = list(certify_rule_law(EVERYWHERE, fresh))
    laws.pop(FOLDED, None)
    loops = used.pop(FOLDED, [])
    if any(map(centred, T.subterms(*(e.body for e in result.equations)))):
        for claim in move_centre.claims:
            laws[claim] = list(certify_rule_law(claim, fresh))
            used.setdefault(claim, []).extend(loops)
    known = set(laws)
    for law in certificate(result, fresh):
        name = law.name.rpartition(": ")[0]
        if name not in known and law not in laws.setdefault(name, []):
            laws[name].append(law)
        used.setdefault(name, []).extend(at for at in loops if at not in used[name])
    theories = tuple(
        Theory(name, _about(name), tuple(found), tuple(_uses(used.get(name, []))))
        for name, found in laws.items()
    )
    outputs = ", ".join(o.name for o in start.declared.outputs)
    conditions = tuple(c for number, step in steps for c in _conditions(number, step))
    return Certificate(
        f"Certificate of {outputs}", theories, conditions, tuple(_uses(defined)), fresh
    )


def _about(name: str) -> str:
    if name in RULE_LAWS:
        return RULE_LAWS[name].about
    return "partial folds may be merged in any bracketing"


def _uses(found: Iterable[tuple[int, str]]) -> Iterator[Use]:
    by_rule: dict[str, dict[int, None]] = {}
    for number, rule in found:
        by_rule.setdefault(rule, {})[number] = None
    for rule, steps in by_rule.items():
        yield Use(rule, tuple(steps))


def _rule(step: Step) -> Rule | None:
    return RULES.get(step.rule) or STATED.get(step.rule)


def _claims(step: Step) -> tuple[str, ...]:
    rule = _rule(step)
    return () if rule is None else rule.claims


def _conditions(number: int, step: Step) -> Iterator[Condition]:
    """The facts on which a step's rule relied: the rule is asked again, and they are noted."""
    rule = _rule(step)
    needs = "" if rule is None else " ".join(rule.section("Needs").split())
    if not needs:
        return
    with T.facts_asked() as asked:
        holds = step.check is not None and step.check()
    if not holds:
        yield Condition(number, step.rule, needs, f"does not hold: {needs}", "")
        return
    names = step.start.reader_names()
    if isinstance(rule, Equation) and step.redex is not None:
        for need, t in rule.discharged(step.redex):
            said = (
                f"{need}: {show(t, names)} {FACTS[need.fact].words}" if need.fact in FACTS else ""
            )
            text = said or f"{need}: {show(t, names)} does not vary with it"
            yield Condition(number, step.rule, str(need), text, need.fact)
        return
    noted = [
        (fact, t)
        for fact, t in asked
        if t.op != "const" and not (fact == "has_element" and t.args[0] is T.TRUE)
        if not any((stronger, t) in asked for stronger in FACTS[fact].follows_from)
    ]
    parts = {t for _, about in noted for t in T.subterms(about) if t is not about}
    found: dict[str, str] = {}
    for fact, t in noted:
        if t not in parts:
            found.setdefault(f"{show(t, names)} {FACTS[fact].words}", fact)
    for text, fact in (found or {f"by its form: {needs}": "form"}).items():
        yield Condition(number, step.rule, needs, text, fact)
