"""The order of the rewrites: from a program's text to sums in SE, one pass each.

Order between rule sets lives here and nowhere else. A derivation may be stopped anywhere,
and made with other rules or in another order. What the kernels need in any case is little:
names replaced by what they stand for, and derived reductions elaborated (`complete`). All
other rules are optional. Without them a program may need more passes, and without lifting
its exponentials overflow where they would in the formula as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from monocomp.costs.fold_elements import elements_of_folds
from monocomp.errors import require_known
from monocomp.rewrites.centring import anchoring, centring
from monocomp.rewrites.elaboration import elaboration
from monocomp.rewrites.equalities import equalities
from monocomp.rewrites.exchange import candidates, exchange_by
from monocomp.rewrites.normal_form import normal_form, normalise, ring
from monocomp.rewrites.products import products
from monocomp.rewrites.scaled import lift_exponents, lifting
from monocomp.rewrites.selection import selection
from monocomp.rewriting.driver import Rewriter
from monocomp.rewriting.rules import Rule, RuleSet
from monocomp.terms.equations import Equations

# What these bring is brought to normal form again, with what stands around it.
split_normal_form = RuleSet("products", products.purpose, [*normal_form.rules, *products.rules])
exchange = exchange_by(split_normal_form, elements_of_folds)
exchanged_rules = [*split_normal_form.rules, *exchange.rules]
exchanged_normal_form = RuleSet("exchange", exchange.purpose, exchanged_rules)
RULE_SETS = (
    elaboration,
    ring,
    normal_form,
    selection,
    split_normal_form,
    exchanged_normal_form,
    lifting,
    centring,
)
OTHERS = (equalities, anchoring)  # of kernels that are planned, of what is differentiated
RULES = {rule.name: rule for rule_set in (*RULE_SETS, *OTHERS) for rule in rule_set.rules}


def derive(
    program: Equations, step_limit: int | None = None, rules: Sequence[str] | None = None
) -> Rewriter:
    """Rewrite a program to its lifted normal form.

    Where the order of sums can be chosen, it is the cheapest for `program.sizes`.

    Args:
        program: a program in index terms.
        step_limit: give only so many steps.
        rules: the names of the rules to use, in the order in which a rule set tries them; all
            in the usual order, unless given. The order of the sets stays: together they
            would undo one another's work.
    """
    rewriter = Rewriter(program)
    finish(rewriter, rules)
    return rewriter if step_limit is None else rewriter.first(step_limit)


def finish(rewriter: Rewriter, rules: Sequence[str] | None = None) -> None:
    """Go on from wherever a rewriter has come to, with every rule set in its turn."""
    rewriter.inline_definitions()
    rewriter.normalise_given(lambda t: normalise(normalise(t, elaboration)))
    rewriter.name_logits()
    wanted = None if rules is None else chosen(rules).rules
    for rule_set in RULE_SETS:
        used = rule_set
        if wanted is not None:
            used = replace(rule_set, rules=[r for r in wanted if r in rule_set.rules])
        if rule_set is split_normal_form:  # of what is given, too, parts are recognised
            rewriter.normalise_given(partial(normalise, rules=used))
        if rule_set is lifting:
            rewriter.normalise_given(lift_exponents)
        if rule_set is exchanged_normal_form:
            rewriter.depends_on_sizes |= bool(candidates(rewriter.program))
        rewriter.exhaust(used)
    rewriter.finished = True


def complete(rewriter: Rewriter) -> None:
    """Take the steps without which no kernel is generated."""
    rewriter.inline_definitions()
    rewriter.exhaust(elaboration)


def chosen(names: Sequence[str]) -> RuleSet:
    """Return rules by name, as a set."""
    return RuleSet("chosen", "what was asked for", [rule(name) for name in names])


def rule(name: str) -> Rule:
    """Return a rule by name."""
    require_known(name, RULES, f"there is no rule {name!r}", "rules")
    return RULES[name]
