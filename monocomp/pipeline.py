"""The order of the rewrites: from a program's text to sums in SE, one pass each.

Order between rule sets lives here and nowhere else.
"""

from __future__ import annotations

from monocomp.program import Equations
from monocomp.rewrites.elaboration import elaboration
from monocomp.rewrites.lifting import lifting
from monocomp.rewrites.normal_form import normal_form
from monocomp.rewrites.selection import selection
from monocomp.rewriting import Rewriter, RuleSet

# Lifting brings new maxima, which are normalised like the user's own.
lifted_normal_form = RuleSet("lifting", lifting.purpose, [*normal_form.rules, *lifting.rules])
RULE_SETS = (elaboration, normal_form, selection, lifted_normal_form)


def derive(program: Equations, step_limit: int | None = None) -> Rewriter:
    """Rewrite a program to its lifted normal form; at most `step_limit` steps if given."""
    rewriter = Rewriter(program, step_limit)
    rewriter.inline_definitions()
    rewriter.name_logits()
    for rules in RULE_SETS:
        rewriter.exhaust(rules)
    return rewriter
