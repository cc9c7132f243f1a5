"""A derivation for people: its steps in phases, what each changes and costs, and which decide.

All that the page shows of a derivation is decided here, as data.

    phase      neighbouring steps of one rule set, those of a plan, those of a gradient; names that
               a step gives belong to what follows
    decisive   a pass less, far fewer operations, a new monoid; in a gradient a value that is read
               where it would be computed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from monocomp.costs.cost import Cost, formula
from monocomp.costs.counting import cost
from monocomp.derivation import rule_sets
from monocomp.derivation.certificate import Certificate, Condition
from monocomp.derivation.derivation import Derivation
from monocomp.explorer.marking import Pair, pairs
from monocomp.extents.nominal import LONG, nominal_sizes
from monocomp.rewriting.driver import NAMING_LAW, Step
from monocomp.rewriting.rules import RuleSet
from monocomp.terms.equations import Equations

_MUCH = 4  # times fewer operations
NAMES = "names", "names stand for what they are defined to be"


@dataclass(frozen=True)
class Bar:
    """A cost: its name, the formula, and its share of the largest on the way."""

    name: str
    text: str
    value: float
    share: float
    start: float  # the share that the program has as it is written


@dataclass(frozen=True)
class Link:
    """A step, as it is shown.

    Attributes:
        number: from 1.
        step: the step.
        pairs: the equations that it changes, with marks.
        bars: what the program costs after it.
        decisive: why it decides, "" if it doesn't.
        conditions: the facts that it needed.
        seal: is its law proved, or a definition? "" where what is done is no equation's affair.
    """

    number: int
    step: Step
    pairs: tuple[Pair, ...]
    bars: tuple[Bar, ...]
    decisive: str
    conditions: tuple[Condition, ...]
    seal: str


@dataclass(frozen=True)
class Phase:
    """Neighbouring steps of one purpose."""

    name: str
    purpose: str
    links: tuple[Link, ...]

    @property
    def rules(self) -> str:
        """Return the rules in their order, those that are repeated with their number."""
        counted = [
            (rule, len(list(group)))
            for rule, group in groupby(self.links, key=lambda at: at.step.rule)
        ]
        return ", ".join(f"{rule} × {n}" if n > 1 else rule for rule, n in counted)


@dataclass(frozen=True)
class Chain:
    """A derivation, as it is shown."""

    derivation: Derivation
    certificate: Certificate
    phases: tuple[Phase, ...]
    costs: tuple[Cost, Cost]  # of the program as it is written, and after the last step

    @property
    def links(self) -> tuple[Link, ...]:
        """Return all steps."""
        return tuple(link for phase in self.phases for link in phase.links)


def chain(derivation: Derivation) -> Chain:
    """Collect what is to be shown of a derivation."""
    programs = [derivation.start, *(s.program for s in derivation)]
    costs = [cost(programs[0])]
    for before, after in pairwise(programs):
        costs.append(costs[-1] if after.equations == before.equations else cost(after))
    bars = _bars_of(derivation.start, costs)
    certificate = derivation.certify()
    links = [
        Link(
            n,
            step,
            pairs(step),
            bars[n],
            _decisive(step, costs[: n + 1], [at[2].value for at in bars[: n + 1]])
            or (_chosen(step) if n <= len(derivation) - derivation.planned else ""),
            tuple(c for c in certificate.conditions if c.step == n),
            _seal(n, step, certificate),
        )
        for n, step in enumerate(derivation, 1)
    ]
    return Chain(derivation, certificate, _phases(links, derivation), (costs[0], costs[-1]))


def _seal(number: int, step: Step, certificate: Certificate) -> str:
    used = [t for t in certificate.theories if any(number in use.steps for use in t.uses)]
    if any(not law.holds and not law.is_fact for t in used for law in t.laws):
        return "not proved"
    is_definition = any(number in use.steps for use in certificate.definitions)
    if used:
        return "proved"
    return "definition" if is_definition or step.statement is NAMING_LAW else ""


def _bars_of(program: Equations, costs: Sequence[Cost]) -> list[tuple[Bar, ...]]:
    """Costs, each beside the largest; the first is that of the program as it is written."""
    sizes = nominal_sizes(program.declared, program.sizes)
    rows = []
    for name in ("passes", "bytes", "flops", "state"):
        texts, values = [], []
        for at in costs:
            if name == "passes":
                texts.append(at.shown_passes)
                values.append(float(sum(at.passes.values())))
                continue
            amount = formula(getattr(at, name))
            known = {e: sizes.get(e, LONG) for e in amount.extents}
            texts.append(str(amount))
            values.append(float(amount.at(known)))
        most = max(values) or 1.0
        shares = [v / most for v in values]
        rows.append([Bar(name, *x, shares[0]) for x in zip(texts, values, shares, strict=True)])
    return list(zip(*rows, strict=True))


def _decisive(step: Step, costs: Sequence[Cost], operations: Sequence[float]) -> str:
    """Return the reason why a step decides; the last costs are those after it.

    A step may cost more so that a later one saves: what counts is the least so far.
    """
    *before, after = costs
    least = min(operations[:-1])
    if operations[-1] * _MUCH < least:
        return f"{least / max(operations[-1], 1):.0f} times fewer operations"
    fewest = min(before, key=lambda at: sum(at.passes.values()))
    if sum(after.passes.values()) < sum(fewest.passes.values()):
        return f"{after.shown_passes} where it was {fewest.shown_passes}"
    new = [m.name for m in step.program.monoids if m not in step.start.monoids]
    return f"folds in {', '.join(new)}" if new else ""


def _chosen(step: Step) -> str:
    """Return the reason for a choice, where there was one."""
    return step.reason if step.left != step.right else ""


def _phases(links: Sequence[Link], derivation: Derivation) -> tuple[Phase, ...]:
    """Group steps by rule set. These come in their order; what a later one brings is simplified by
    rules that it shares with earlier ones. The last steps are no rewrites."""
    at = 0
    names: list[tuple[str, str] | None] = []
    last = derivation.last_phases
    for link in links[: len(links) - len(last)]:
        set_of_rules = _set_of(link.step, at)
        if set_of_rules is None:
            names.append(None)  # what gives a name belongs to what follows
        else:
            at, rules = set_of_rules
            names.append((rules.name, rules.purpose))
    names += last
    following = NAMES
    for n, name in reversed(list(enumerate(names))):
        following = names[n] = name or following
    numbered = zip(names, links, strict=True)
    phases = []
    for key, group in groupby(numbered, key=lambda pair: pair[0]):
        phase = key or NAMES
        phases.append(Phase(phase[0], phase[1], tuple(link for _, link in group)))
    return tuple(phases)


def _set_of(step: Step, start: int) -> tuple[int, RuleSet] | None:
    """Return the first rule set with the step's rule, from one on and then from the beginning."""
    rule = rule_sets.RULES.get(step.rule)
    numbered = list(enumerate(rule_sets.RULE_SETS))
    for n, rules in (*numbered[start:], *numbered[:start]):
        if rule in rules.rules:
            return n, rules
    return None
