"""Two derivations side by side: what they share, where they part, and where each arrives."""

from __future__ import annotations

from monocomp.derivation.derivation import Comparison
from monocomp.explorer.chain import Bar, Link, bars_of, chain
from monocomp.explorer.html import details, joined, lines_of, span
from monocomp.explorer.page import bars, head, step
from monocomp.terms.equations import Equations

_HALF = 21.0  # ems of a formula in a column


def comparison_body(found: Comparison) -> str:
    """Return the steps that both take, then those of each in a column."""
    chains = chain(found.left), chain(found.right)
    shared = chains[0].links[: found.shared]
    common = joined(step(link, is_open=False) for link in shared)
    count = f"{len(shared)} step{'' if len(shared) == 1 else 's'} that both take"
    label = span("soft", count)
    columns = []
    weights = bars_of(found.left.start, [*chains[0].all_costs, *chains[1].all_costs])
    ends = weights[len(chains[0].all_costs) - 1], weights[-1]
    names = ("left", "right")
    for name, made, end in zip(names, chains, ends, strict=True):
        columns.append(_column(name, made.links[found.shared :], made.derivation.result, end))
    return (
        head(chains[0], "Two derivations of ", facts=False)
        + (details(label, common, "mc-phase") if shared else "")
        + f'<div class="mc-columns">{joined(columns)}</div>'
    )


def _column(name: str, links: tuple[Link, ...], result: Equations, end: tuple[Bar, ...]) -> str:
    steps = joined(step(link, is_open=False, width=_HALF) for link in links)
    none = "" if links else '<p class="mc-soft">no step more</p>'
    return (
        f'<div class="mc-side"><div class="mc-label">{name}</div>{steps}{none}'
        f'<div class="mc-label mc-also">arrives at</div>'
        f"{joined(lines_of(result.readable_lines(), _HALF))}{bars(end)}</div>"
    )
