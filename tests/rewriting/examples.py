"""Examples of rules, and near misses of equations, which lack one of the needs.

Programs meet the needs of an equation, and what makes it worth it, by the form of what is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from monocomp.rewriting.equations import PREDICATES, Equation, Need
from monocomp.rewriting.rules import Rule

# Numbers of which a need holds, where NaN is what is unspecified; a term of which it holds, with
# {0} for what is read, or {1} for an index; and one of which it does not.
FORMS: dict[str, tuple[Callable[[float], bool], str, str]] = {
    "finite if read": (lambda x: x > -math.inf, "{0}", "log(abs({0}) - 3)"),
    "finite if there": (lambda x: x > -math.inf, "{0}", "log(abs({0}))"),
    "unmasked if read": (lambda x: x != -math.inf, "{0}", "log(abs({0}))"),
    "a weight": (lambda x: x >= 0, "exp({0})", "{0}"),
    "nonnegative": (lambda x: not x < 0, "{0} ** 2", "{0}"),
    "positive": (lambda x: not x <= 0, "(1 + {0} ** 2)", "{0}"),
    "positive where it is a number": (lambda x: not x <= 0, "(1 / abs({0}))", "{0}"),
}
WORTH = {
    "a is guarded": "Z[N[{1}]]",
    "a is mixed with results": "max[k](S[i,k])",
    "a is of one result": "max[k](S[i,k])",
    "a is of one weight": "exp({0})",
    "a is a number": "3",
    "b is a number": "3",
}


def example(rule: Rule, without: Need | None = None) -> tuple[str, str]:
    """Return a program before and after, for a near miss one that meets all needs but one."""
    if not isinstance(rule, Equation):
        return rule.section("before"), rule.section("after")
    dropped = next((choice for choice in rule.needs if without in choice), ())
    needs = [_first(choice, dropped) for choice in rule.needs if choice != dropped]
    more = [without.free_of] if without is not None and without.free_of else []

    def write(variable: str) -> str:
        others = more if without is not None and without.name == variable else []
        index = ("i", *rule.scopes[variable], *others)[-1]
        text = rule.read(variable, *others)
        for words in rule.worth:
            if words[:2] == f"{variable} ":
                text = WORTH.get(words, "{0}").format(text, index)
        for need in dropped:
            if need.name == variable and need.words in PREDICATES:
                text = FORMS[need.words][2].format(text)
        said = [n.words for n in needs if n.name == variable and n.words in PREDICATES]
        for words in said:
            if words != "nonnegative" or "positive" not in said:
                text = FORMS[words][1].format(text, index)
        return text

    sides = [rule.left, rule.right]
    for need in needs:
        if need.is_of_fold:
            sides = [re.sub(rf"\[{need.name} if \w+\]", f"[{need.name}]", s) for s in sides]
    left, right = (rule.program(side, write) for side in sides)
    return left, right


def _first(choice: tuple[Need, ...], dropped: tuple[Need, ...]) -> Need:
    """Return the need of a choice that an example meets, if it can none of those that are
    dropped, nor one that implies them."""
    names = {need.name for need in dropped}
    allowed = [need for need in choice if need not in dropped]
    return next((n for n in allowed if n.name not in names), allowed[0])
