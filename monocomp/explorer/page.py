"""A derivation as a page: everything is there without a script, which only adds the walk.

    head      what is derived, in one line, with its costs
    rail      the phases and their steps; those that decide stand out
    steps     in each the rule, its law, what it changes, what it costs
    stages    equations, tile program, block program and source, linked by what they compute
    proofs    the monoids, the laws, the facts; and what was refused
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from monocomp.certificate import Certificate, Theory
from monocomp.derivation import Derivation
from monocomp.explorer.chain import Bar, Chain, Link, Phase, chain
from monocomp.explorer.fitting import Names
from monocomp.explorer.html import (
    block,
    code,
    details,
    formula,
    joined,
    phrase,
    table,
    where,
)
from monocomp.explorer.linking import Linked, LinkedLine, linked
from monocomp.explorer.mathml import HUES
from monocomp.planning.plan import Plan
from monocomp.refusals import Refusal
from monocomp.stages import Stages
from monocomp.terms import UserMonoid
from monocomp.terms.printer import Names as TermNames
from monocomp.terms.printer import show

_SHORT = 12  # steps that are all shown at once
_COSTS = {"passes": "passes", "bytes": "bytes", "flops": "operations", "state": "state"}


def derivation_page(derivation: Derivation, stages: Stages | None = None) -> str:
    """The body of a page about a derivation, and about the stages that follow."""
    found = chain(derivation)
    parts = [_head(found), _rail(found), _steps(found)]
    if stages is not None:
        parts.append(stages_section(stages))
    parts += [_refused(derivation.refusals), proofs(found.certificate, derivation)]
    return joined(parts)


# The head


def _head(found: Chain) -> str:
    derivation = found.derivation
    outputs = ", ".join(o.name for o in derivation.start.declared.outputs)
    count = len(derivation)
    proved = "all laws proved" if found.certificate.holds else "not all laws are proved"
    facts = [f"{count} step{'' if count == 1 else 's'}", _passes(found), proved]
    return (
        f'<header class="mc-head"><div class="mc-kicker">Derivation of {escape(outputs)}</div>'
        f'<div class="mc-start">{joined(map(formula, derivation.start.readable_lines()))}</div>'
        f'<p class="mc-facts">{" · ".join(map(escape, filter(None, facts)))}</p></header>'
    )


def _passes(found: Chain) -> str:
    before, after = (c.shown_passes for c in found.costs)
    return f"{before} as written, {after} derived" if before != after else after


def _rail(found: Chain) -> str:
    """The steps as dots, in their phases."""
    if not found.links:
        return ""
    parts = []
    for phase in found.phases:
        dots = joined(
            f'<span class="mc-dot{" mc-key" if link.decisive else ""}" '
            f'data-n="{link.number}" title="{link.number} {escape(link.step.rule)}"></span>'
            for link in phase.links
        )
        parts.append(
            f'<span class="mc-part" title="{escape(phase.purpose)}">'
            f'<span class="mc-dots">{dots}</span>'
            f'<span class="mc-name">{escape(phase.name.replace("_", " "))}</span></span>'
        )
    return f'<nav class="mc-rail">{joined(parts)}</nav>'


# The steps


def _steps(found: Chain) -> str:
    short = len(found.links) <= _SHORT
    parts = (_phase(phase, found, short) for phase in found.phases)
    return f'<section class="mc-steps">{joined(parts)}</section>'


def _phase(phase: Phase, found: Chain, short: bool) -> str:
    summary = (
        f'<span class="mc-phase-name">{escape(phase.name.replace("_", " "))}</span> '
        f'<span class="mc-soft">{escape(phase.purpose)}</span> '
        f'<span class="mc-rules">{escape(phase.rules)}</span>'
    )
    body = joined(_step(link, found, short or bool(link.decisive)) for link in phase.links)
    is_open = short or any(link.decisive for link in phase.links)
    return details(summary, body, "mc-phase", is_open)


def _step(link: Link, found: Chain, is_open: bool) -> str:
    step = link.step
    place = f' <span class="mc-soft">in {escape(", ".join(step.place))}</span>' if step.place else ""
    badge = f' <span class="mc-badge">{escape(link.decisive)}</span>' if link.decisive else ""
    summary = (
        f'<span class="mc-number">{link.number}</span> '
        f'<span class="mc-rule">{escape(step.rule)}</span>{place}{badge} '
        f'<span class="mc-passes" title="{escape(link.bars[0].text)}">{_blocks(link.bars[0])}</span>'
    )
    parts = []
    if step.law:
        proof = "definition" if step.law.startswith("definition") else "proved"
        seal = proof if link.is_proved else "not proved"
        parts.append(
            f'<div class="mc-law"><span class="mc-label">law</span> '
            f'<span class="mc-said">{phrase(step.law)}</span> '
            f'<span class="mc-seal">{seal}</span></div>'
        )
    parts.append(_change(link))
    if step.reason:
        parts.append(_row("why", escape(step.reason)))
    if step.cost is not None:
        parts.append(_row("weighed", escape(str(step.cost))))
    facts = joined(
        f"<div>{escape(c.fact) if c.by == 'form' else phrase(c.fact)}</div>"
        for c in link.conditions
    )
    if facts:
        parts.append(_row("since", facts))
    parts.append(_bars(link.bars))
    return (
        f'<details class="mc-step{" mc-key" if link.decisive else ""}" data-n="{link.number}"'
        f"{' open' if is_open else ''}><summary>{summary}</summary>"
        f'<div class="mc-card">{joined(parts)}</div></details>'
    )


def _row(label: str, body: str) -> str:
    return (
        f'<div class="mc-line"><span class="mc-label">{label}</span> '
        f'<div class="mc-said">{body}</div></div>'
    )


def _change(link: Link) -> str:
    """The equations before and after; of what changes no equation the texts of the step."""
    step, names = link.step, Names()
    pairs = [(p.before, p.after) for p in link.pairs]
    if not pairs:
        pairs = [(step.before, step.after)]
    before = joined(block(part, names) for old, _ in pairs for part in _parts(old))
    after = joined(block(part, names) for _, new in pairs for part in _parts(new))
    return (
        f'<div class="mc-before">{_row("before", before)}</div>'
        f'<div class="mc-after">{_row("after", after)}</div>'
        + (_row("where", where(names)) if names.parts else "")
    )


def _parts(text: str) -> Iterable[str]:
    """The folds of a loop are several terms in one text."""
    return [part for part in text.split("; ") if part]


def _blocks(bar: Bar) -> str:
    count = round(bar.value)
    return f"{'▮' * min(count, 12)} {count}"


def _bars(bars: Sequence[Bar]) -> str:
    cells = []
    for bar in bars:
        share = bar.share / bar.start if bar.start else 1.0
        said = str(round(bar.value)) if bar.name == "passes" else _percent(share)
        cells.append(
            f'<div class="mc-bar" title="{escape(bar.text)}"><span class="mc-label">'
            f'{_COSTS[bar.name]}</span> <span class="mc-value">{said}</span>'
            f'<div class="mc-track"><div class="mc-fill" style="width: {100 * bar.share:.1f}%">'
            f'</div><div class="mc-ghost" style="width: {100 * bar.start:.1f}%"></div></div></div>'
        )
    return f'<div class="mc-bars">{joined(cells)}</div>'


def _percent(share: float) -> str:
    if share >= 10:
        return f"{share:,.0f} ×"
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else "< 1 %"


# The stages


def stages_section(stages: Stages) -> str:
    """The kernel's stages, linked."""
    found = linked(stages)
    equations = joined(map(formula, found.equations))
    if found.others:
        equations += '<div class="mc-soft mc-also">and on the way</div>'
        equations += joined(map(formula, found.others))
    sides = (
        f'<div class="mc-side"><div class="mc-label">tile program</div>{_listing(found.tile)}</div>'
        f'<div class="mc-side"><div class="mc-label">source, from line {found.first}</div>'
        f"{_listing(found.source, found.first)}</div>"
    )
    body = (
        f'<div class="mc-linked"><div class="mc-equations">{equations}</div>'
        f'<div class="mc-sides">{sides}</div>'
        + details("block program", _listing(found.blocks), "mc-more")
        + "</div>"
    )
    title = "From terms to source"
    hint = '<p class="mc-soft">A colour is what a term and the lines that compute it share.</p>'
    return _section(title, hint + body) + _section("Plan", plan_body(stages.plan))


def _section(title: str, body: str, is_open: bool = True) -> str:
    return details(f'<span class="mc-title">{escape(title)}</span>', body, "mc-section", is_open)


def _listing(lines: Sequence[LinkedLine], first: int | None = None) -> str:
    rows = []
    for n, line in enumerate(lines, first or 1):
        data = "" if line.term is None else f' class="mc-o{line.term % HUES}" data-o="{line.term}"'
        number = f'<i class="mc-no">{n:4}  </i>' if first is not None else ""
        rows.append(f"<span{data}>{number}{escape(line.text)}\n</span>")
    return f'<pre class="mc-listing">{joined(rows)}</pre>'


def plan_body(plan: Plan) -> str:
    """The kernels, with the roles of their indices and why."""
    parts = []
    taken = ", ".join(f"{e.lstrip('.')} = {n}" for e, n in plan.sizes.items())
    if taken:
        parts.append(f'<p class="mc-soft">for {escape(taken)}</p>')
    for step in plan.decisions:
        place = f' <span class="mc-soft">in {escape(", ".join(step.place))}</span>'
        cost = f' <span class="mc-soft">{escape(str(step.cost))}</span>' if step.cost else ""
        parts.append(
            f'<div class="mc-line"><span class="mc-rule">{escape(step.rule)}</span>{place} '
            f"{code(step.after)}{cost}</div>"
        )
    for kernel in plan.planned:
        rows = [
            (f"<b>{escape(c.axis.name)}</b>", _role(c.axis.role), escape(c.why))
            for c in kernel.roles
        ]
        parts.append(
            f'<div class="mc-kernel">{code(kernel.tiles.name)} '
            f'<span class="mc-soft">computes {escape(", ".join(kernel.names))}</span></div>'
            + table(rows)
        )
    return joined(parts)


def _role(role: str) -> str:
    return f'<span class="mc-role">{escape(role)}</span>'


# Proofs and refusals


def _refused(refusals: Sequence[Refusal]) -> str:
    if not refusals:
        return ""
    rows = [
        (
            f'<span class="mc-rule">{escape(r.rule)}</span>',
            code(", ".join(r.place)),
            escape(str(r)),
        )
        for r in refusals
    ]
    return _section("Refused, and why", table(rows))


def proofs(certificate: Certificate, derivation: Derivation | None = None) -> str:
    """The monoids and all laws."""
    monoids = derivation.result.monoids if derivation is not None else ()
    by_name = {t.name: t for t in certificate.theories}
    first = joined(_monoid(m, by_name.get(m.name)) for m in monoids)
    theories = joined(_theory(t) for t in certificate.theories)
    found = _section(f"Monoid{'s' if len(monoids) > 1 else ''}", first) if first else ""
    return found + _section(certificate.summary, theories, is_open=False)


def _monoid(monoid: UserMonoid, theory: Theory | None) -> str:
    """The definition, field by field, and its laws."""
    names = TermNames()
    rows = []
    for field, unit, combine in zip(monoid.fields, monoid.unit, monoid.combine, strict=True):
        rows.append((code(field), formula(show(unit, names)), formula(show(combine, names))))
    fields = ", ".join(monoid.fields)
    head = f'<div class="mc-kernel">{code(f"{monoid.name}({fields})")}</div>'
    body = head + table(rows, ("field", "unit", "x . y"))
    return body + (_theory(theory, is_open=True) if theory is not None else "")


def _theory(theory: Theory, is_open: bool = False) -> str:
    rows = []
    for law in theory.laws:
        seal = "proved" if law.holds else "need not hold" if law.is_fact else "not proved"
        said = phrase(law.statement)
        if law.counterexample is not None:
            said += f" {code(law.counterexample)}"
        rows.append((escape(law.short), said, f'<span class="mc-seal">{seal}</span>'))
    uses = ", ".join(map(str, theory.uses)) or "every step"
    summary = (
        f"<b>{escape(theory.name)}</b> "
        f'<span class="mc-soft">{escape(theory.about)} · {escape(uses)}</span>'
    )
    return details(summary, table(rows), "mc-theory", is_open)
