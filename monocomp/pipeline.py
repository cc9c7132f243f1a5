"""The order of the rewrites: from a program's text to sums in SE, one pass each.

Order between rule sets lives here and nowhere else.
"""

from __future__ import annotations

from monocomp.program import Equations
from monocomp.rewrites.centring import centring
from monocomp.rewrites.elaboration import elaboration
from monocomp.rewrites.exchange import candidates, exchange
from monocomp.rewrites.lifting import lifting
from monocomp.rewrites.normal_form import normal_form
from monocomp.rewrites.products import products
from monocomp.rewrites.selection import selection
from monocomp.rewriting import Rewriter, RuleSet

# Lifting brings new maxima, which are normalised like the user's own.
_of_maxima = ("assume_filter", "filter_masked_extremum", "hoist_addend", "hoist_positive_factor")
lifted_normal_form = RuleSet(
    "lifting",
    lifting.purpose,
    [*(r for r in normal_form.rules if r.name in _of_maxima), *lifting.rules],
)
RULE_SETS = (elaboration, normal_form, selection, exchange, lifted_normal_form, centring, products)


def derive(program: Equations, step_limit: int | None = None) -> Rewriter:
    """Rewrite a program to its lifted normal form; at most `step_limit` steps if given.

    Where the order of sums can be chosen, it is the cheapest for `program.sizes`.
    """
    rewriter = Rewriter(program, step_limit)
    rewriter.inline_definitions()
    rewriter.name_logits()
    for rules in RULE_SETS:
        if rules is exchange:
            rewriter.depends_on_sizes = bool(candidates(rewriter.program))
        rewriter.exhaust(rules)
    return rewriter
