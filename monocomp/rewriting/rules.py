"""Named rules, and the sets in which they are applied together.

A rule is a function from a term to an equal term, or None where it does not apply. Its
docstring is its statement: the law, the side conditions and an example, which a test
parses, rewrites with this rule alone and compares. It is an error if its law is not proved.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.display.formulas import Formula
from monocomp.errors import InternalError
from monocomp.language.printing import statement
from monocomp.proving.proofs import certify, require_proved
from monocomp.proving.prover import Law, missing
from monocomp.terms import Term
from monocomp.terms.equations import Equations


@record()
class Choice:
    """A term, its better form, and the program with it."""

    before: Term
    after: Term
    program: Equations

    @classmethod
    def replacing(cls, before: Term, after: Term, program: Equations) -> Choice:
        """Replace the term everywhere."""
        replace = T.replacing(before, after)
        return cls(before, after, program.map(lambda t: replace(t) if T.holds(t, before) else t))


@record(eq=False)
class Rule:
    """A named rewrite. The docstring of `apply` holds its law and its example."""

    name: str
    apply: Callable[[Any], Any]

    def section(self, title: str) -> str:
        """Return the text after `Title:` in the docstring, or ""."""
        doc = inspect.getdoc(self.apply) or ""
        match = re.search(rf"^{title}:[ \t]*(.*(?:\n[ \t]+.*)*)", doc, re.MULTILINE)
        return re.sub(r"\n[ \t]+", "\n", match[1]).strip() if match else ""

    @property
    def needed(self) -> str:
        """Return what it needs, in words."""
        return " ".join(self.section("Needs").split())

    @cached_property
    def statement(self) -> Formula:
        """Return the law that the rule rests on."""
        return statement(" ".join(self.section("Law").split()))

    @property
    def law(self) -> str:
        """Return the law as text, in one line."""
        return str(self.statement)

    @property
    def claims(self) -> tuple[str, ...]:
        """Return the names of the proved laws (`proving.rule_laws`) that give this law. A
        definition has none: it says what a word of the language means."""
        return tuple(filter(None, map(str.strip, self.section("Claims").split(","))))

    @cached_property
    def unproved(self) -> Law | None:
        """Return the first of these laws that is not proved; the rule must then not be used."""
        return missing(law for name in self.claims for law in certify(name))

    def require_proved(self) -> None:
        """Raise an error unless the laws are proved that give this one."""
        require_proved(self.name, self.unproved)


@record(eq=False)
class ProgramRule(Rule):
    """A rule that looks at the whole program, for it decides which of several equal forms that
    gets. It gives a `Choice`: a term and what replaces it everywhere."""


_Made = TypeVar("_Made", bound=Callable[..., Any])
STATED: dict[str, Rule] = {}  # what planning and differentiation rest on, beside rules


def stated(make: _Made) -> _Made:
    """Take a function for a rule that makes steps of its own, of its name (decorator)."""
    STATED[make.__name__] = Rule(make.__name__, make)
    return make


@dataclass(eq=False)
class RuleSet:
    """Rules that are applied together, in order, until none matches. A term without operands is
    as simple as can be, and no rule is asked about it."""

    name: str
    purpose: str
    rules: list[Rule] = field(default_factory=list)

    @property
    def choices(self) -> list[Rule]:
        """Return the rules for the whole program."""
        return [rule for rule in self.rules if isinstance(rule, ProgramRule)]

    def add(self, *rules: Rule) -> None:
        """Add rules, such as equations (`rewriting.equations`)."""
        self.rules += rules

    def procedure(self, apply: Callable[[Term], Term | None]) -> Callable[[Term], Term | None]:
        """Add a rule that no equation says (decorator)."""
        self.rules.append(Rule(apply.__name__, apply))
        return apply

    def choice(self, apply: Callable[[Equations], Choice | None]) -> Callable[..., Choice | None]:
        """Add a rule for the whole program (decorator)."""
        self.rules.append(ProgramRule(apply.__name__, apply))
        return apply

    def first(self, t: Term) -> tuple[Rule, Term] | None:
        """Return the first rule that changes t, with its result."""
        for rule in self.rules:
            result = None if isinstance(rule, ProgramRule) else _changed(rule, t)
            if result is not None:
                rule.require_proved()
                return rule, result
        return None


@lru_cache(maxsize=1 << 17)
def _changed(rule: Rule, t: Term) -> Term | None:
    """Return what a rule changes a term to. Derivations ask again: of one program for several
    sizes, of its gradients, and in each rule set that has the rule."""
    result = rule.apply(t)
    if result is None or result is t:
        return None
    if result.kind != t.kind:
        raise InternalError(f"{rule.name} turned {t.kind} {t!r} into {result.kind}")
    changed: Term = result
    return changed
