"""A derivation as a page: everything is there without a script, which only adds the walk.

head      what is derived, in one line, with its costs
rail      the phases and their steps; those that decide stand out
steps     in each the rule, its law, what it changes, what it costs
stages    equations, tile program, block program and source, linked by what they compute
proofs    the monoids, the laws, the facts; and what was refused
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from monocomp.costs.cost import Formula as Polynomial
from monocomp.derivation.certificate import Certificate, Theory
from monocomp.derivation.derivation import Derivation
from monocomp.derivation.refusals import Refusal
from monocomp.display.notes import Notes
from monocomp.errors import count_of
from monocomp.explorer.chain import Bar, Chain, Link, Phase, chain
from monocomp.explorer.fitting import Names
from monocomp.explorer.html import (
    WIDTH,
    block,
    code,
    details,
    formula,
    joined,
    listing,
    opening,
    phrase,
    section,
    span,
    table,
    tag,
    verbatim,
    where,
)
from monocomp.explorer.linking import linked
from monocomp.planning.notes import notes_on, summary
from monocomp.planning.plan import Plan
from monocomp.rewriting.driver import Step
from monocomp.stages import Stages
from monocomp.terms import UserMonoid
from monocomp.terms.printer import Names as TermNames
from monocomp.terms.printer import formula as term

_CARD = WIDTH - 8  # ems of a line in a step
_SHORT = 12  # steps that are all shown at once
_COSTS = {"passes": "passes", "bytes": "bytes", "flops": "operations", "state": "state"}


def derivation_body(derivation: Derivation, stages: str = "", headed: bool = True) -> str:
    """Show a derivation, and what is made of it.

    Args:
        derivation: the derivation.
        stages: markup about the stages that follow.
        headed: does it begin with what is derived?
    """
    links = chain(derivation)
    proved = proofs(links.certificate, derivation.result.monoids)
    return joined(
        [
            tag("div", "derived", _head(links) if headed else "", _rail(links), _steps(links)),
            tag("div", "made", stages, _refused(derivation.refusals), proved),
        ]
    )


# The head


def _head(links: Chain) -> str:
    """Show what is derived, in how many steps and passes, and whether all laws are proved."""
    derivation = links.derivation
    outputs = ", ".join(o.name for o in derivation.result.declared.outputs)
    proved = "all laws proved" if links.certificate.holds else "not all laws are proved"
    said = [count_of(len(derivation), "step"), _passes(links), proved]
    shown = " · ".join(map(escape, said))
    return opening(
        f"Derivation of {outputs}", derivation.start.readable(), tag("p", "facts", shown)
    )


def _passes(shown: Chain) -> str:
    before, after = (c.shown_passes for c in shown.costs)
    start, result = shown.derivation.start, shown.derivation.result
    is_same = before == after or start.declared.outputs != result.declared.outputs
    return after if is_same else f"{before} as written, {after} derived"


def _rail(shown: Chain) -> str:
    """Return the steps as dots, in their phases."""
    if not shown.links:
        return ""
    parts = []
    for phase in shown.phases:
        dots = joined(
            f'<span class="mc-dot{" mc-key" if link.decisive else ""}" '
            f'data-n="{link.number}" title="{link.number} {escape(link.step.rule)}"></span>'
            for link in phase.links
        )
        name = span("name", phase.name.replace("_", " "))
        dots = tag("span", "dots", dots)
        parts.append(tag("span", "part", dots, name, title=phase.purpose) + " ")
    return tag("nav", "rail", *parts)


# The steps


def _steps(shown: Chain) -> str:
    short = len(shown.links) <= _SHORT
    parts = (_phase(phase, short) for phase in shown.phases)
    return tag("section", "steps", *parts)


def _phase(phase: Phase, short: bool) -> str:
    name = tag("b", "phase-name", escape(phase.name.replace("_", " ")))
    summary = f"{name} {span('soft', phase.purpose)} {span('rules', phase.rules)}"
    body = joined(_step(link, short or bool(link.decisive)) for link in phase.links)
    is_open = short or any(link.decisive for link in phase.links)
    return details(summary, body, "mc-phase", is_open)


def _step(link: Link, is_open: bool) -> str:
    """Return a step as a card."""
    made, passes = link.step, link.bars[0]
    place = f" {span('soft', _inside(made))}" if made.place else ""
    badge = f" {span('badge', link.decisive)}" if link.decisive else ""
    count = tag("span", "passes", _blocks(passes), title=passes.text)
    rule = tag("b", "rule", escape(made.rule))
    summary = f"{span('number', str(link.number))} {rule}{place}{badge} {count}"
    parts = []
    if str(made.statement):
        seal = f" {span('seal', link.seal)}" if link.seal else ""
        said = tag("span", "said", phrase(made.statement, _CARD))
        parts.append(tag("div", "law", tag("b", "label", "law"), " ", said, seal))
    parts.append(_change(link))
    if made.reason and made.reason != link.decisive:
        parts.append(_row("why", escape(made.reason)))
    if made.cost is not None:
        parts.append(_row("weighed", escape(str(made.cost))))
    facts = joined(f"<div>{phrase(c.fact, _CARD)}</div>" for c in link.conditions)
    if facts:
        parts.append(_row("since", facts))
    if made.changed:
        parts.append(_bars(link.bars))
    return (
        f'<details class="mc-step{" mc-key" if link.decisive else ""}" data-n="{link.number}"'
        f"{' open' if is_open else ''}><summary>{summary}</summary>"
        f'<div class="mc-card">{joined(parts)}</div></details>'
    )


def step_body(made: Step) -> str:
    """Return a step by itself, beside what its program costs before it."""
    return joined(
        _step(link, is_open=True) for link in chain(Derivation(made.start, (made,))).links
    )


def _inside(made: Step) -> str:
    return "in " + ", ".join(made.place)


def _row(label: str, body: str) -> str:
    return tag("div", "line", tag("b", "label", label), " ", tag("div", "said", body))


def _change(link: Link) -> str:
    """Show the equations before and after; where a step changes none, the texts of the step."""
    names = Names()
    before, after = (end.args if end.op == "list" else (end,) for end in link.step.ends)
    if link.pairs:
        before = tuple(p.before for p in link.pairs if p.before is not None)
        after = tuple(p.after for p in link.pairs if p.after is not None)
    sides = {"before": before, "after": after} if before != after else {"value": before}
    changed = []
    for label, parts in sides.items():
        shown = joined(block(part, names, _CARD) for part in parts)
        changed.append(tag("div", label, _row(label, shown)))
    return joined(changed) + (_row("where", where(names, _CARD)) if names.parts else "")


def _blocks(bar: Bar) -> str:
    count = round(bar.value)
    return f"{'▮' * min(count, 12)} {count}"


def _bars(bars: Sequence[Bar]) -> str:
    """Draw what a program costs beside what the derivation's program costs as it is written."""
    cells = []
    for bar in bars:
        share = bar.share / bar.start if bar.start else 1.0
        said = str(round(bar.value)) if bar.name == "passes" else _percent(share)
        ends = (("fill", bar.share), ("ghost", bar.start))
        track = [tag("span", kind, style=f"width: {100 * at:.1f}%") for kind, at in ends]
        inside = (
            span("label", _COSTS[bar.name]),
            " ",
            span("value", said),
            tag("span", "track", *track),
        )
        cells.append(tag("span", "bar", *inside, title=bar.text) + " ")
    return tag("div", "bars", *cells)


def _percent(share: float) -> str:
    if share >= 10:
        return f"{share:,.0f} ×"
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else "< 1 %"


def cost_table(derivation: Derivation) -> str:
    """Show what a program costs as it is written and as it is derived, as formulas."""
    rows = []
    for (label, old), (_, new) in zip(*(c.rows() for c in derivation.costs), strict=True):
        rows.append((escape(label), _amount(old), _amount(new)))
    return table(rows, ("", "as written", "derived"), "mc-costs")


def _amount(x: str | Polynomial) -> str:
    return escape(x) if isinstance(x, str) else phrase(x.shown, WIDTH / 2)


# The stages


def stages_section(stages: Stages) -> str:
    """Return the kernel's stages, linked."""
    lines = linked(stages)
    equations = joined(map(formula, lines.equations))
    if lines.others:
        equations += tag("div", "soft mc-also", "and on the way")
        equations += joined(map(formula, lines.others))
    columns = {"tile program": listing(lines.tile)}
    blocks = ""
    if lines.source:
        columns[f"source, from line {lines.first}"] = listing(lines.source, lines.first)
        blocks = details("block program", listing(lines.blocks), "mc-more")
        blocks += details("schedule", verbatim(stages["schedule"]), "mc-more")
    sides = (tag("div", "side", tag("div", "label", n), text) for n, text in columns.items())
    body = tag(
        "div", "linked", tag("div", "equations", equations), tag("div", "sides", *sides), blocks
    )
    title = "From terms to source"
    hint = tag("p", "soft mc-hint", "A colour is what a term and the lines that compute it share.")
    parts = [_notes(notes_on(stages.plan)), section(title, hint + body)]
    return joined([*parts, section("Plan", plan_body(stages.plan))])


def _notes(notes: Notes) -> str:
    """Show what may surprise, with lines and carets as in a terminal."""
    return section("What may surprise", verbatim(str(notes))) if notes else ""


def plan_body(plan: Plan) -> str:
    """Return the kernels, with the roles of their indices and why."""
    parts = [f"<p>{escape(summary(plan))}</p>"]
    if plan.sizes:
        parts.append(tag("p", "soft", escape(f"for {plan.shown_sizes}")))
    for step in plan.decisions:
        place = f" {span('soft', _inside(step))}"
        cost = f" {span('soft', str(step.cost))}" if step.cost else ""
        rule = span("rule", step.rule)
        parts.append(tag("div", "line", rule, place, " ", code(step.after), cost))
    for kernel in plan.planned:
        rows = [
            (f"<b>{escape(c.axis.name)}</b>", span("role", c.axis.role), escape(c.why))
            for c in kernel.roles
        ]
        computes = span("soft", f"computes {', '.join(kernel.names)}")
        parts += [tag("div", "kernel", code(kernel.name), " ", computes), table(rows)]
    return joined(parts)


# Proofs and refusals


def _refused(refusals: Sequence[Refusal]) -> str:
    if not refusals:
        return ""
    rows = [(span("rule", r.rule), code(", ".join(r.place)), escape(str(r))) for r in refusals]
    return section("Refused, and why", table(rows))


def proofs(certificate: Certificate, monoids: Sequence[UserMonoid] = ()) -> str:
    """Return the monoids, and all laws that a certificate holds."""
    by_name = {t.name: t for t in certificate.theories}
    first = joined(_monoid(m, by_name.get(m.name)) for m in monoids)
    theories = joined(_theory(t) for t in certificate.theories)
    sections = section(f"Monoid{'s' if len(monoids) > 1 else ''}", first) if first else ""
    count = sum(law.holds or not law.is_fact for law in certificate.laws)
    held = "all proved" if certificate.holds else "not all proved"
    return sections + section(f"{count} laws, {held}", theories, is_open=False)


def _monoid(monoid: UserMonoid, theory: Theory | None) -> str:
    """Return the definition, field by field, and its laws."""
    names = TermNames()
    rows = []
    for field, unit, combine in zip(monoid.fields, monoid.unit, monoid.combine, strict=True):
        rows.append((code(field), formula(term(unit, names)), formula(term(combine, names))))
    fields = ", ".join(monoid.fields)
    head = tag("div", "kernel", code(f"{monoid.name}({fields})"))
    body = head + table(rows, ("field", "unit", "x . y"))
    return body + (_theory(theory, is_open=True) if theory is not None else "")


def _theory(theory: Theory, is_open: bool = False) -> str:
    rows = []
    for law in theory.laws:
        seal = "proved" if law.holds else "need not hold" if law.is_fact else "not proved"
        said = phrase(law.statement)
        if law.counterexample is not None:
            said += f" {code(law.counterexample)}"
        rows.append((escape(law.short), said, span("seal", seal)))
    uses = ", ".join(map(str, theory.uses)) or "every step"
    summary = f"<b>{escape(theory.name)}</b> {span('soft', f'{theory.about} · {uses}')}"
    return details(summary, table(rows), "mc-theory", is_open)
