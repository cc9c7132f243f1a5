"""Names of values: the program's own, or else names made from their operands or operations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from monocomp.terms import Term
from monocomp.terms.abbreviation import definition_of
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.walking import subterms
from monocomp.tile import Expr

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z", re.ASCII)
_LONGEST = 24
# What has no operand that it could be named after.
_ROLES = {
    "contract": "s",
    "reduce": "s",
    "exp2": "p",
    "add": "total",
    "sub": "difference",
    "mul": "product",
    "div": "quotient",
    "neg": "negative",
    "where": "chosen",
    "compare": "test",
    "and": "test",
    "or": "test",
    "not": "test",
    "floordiv": "quotient",
    "mod": "remainder",
    "maximum": "larger",
    "minimum": "smaller",
    "uniform": "random",
    "cast": "number",
}


def definition_name(program: Equations, t: Term) -> str | None:
    """Return the name of the output or definition that a term is, for some values of its
    indices."""
    outputs = (e.name for e in program.equations if e.body is t)
    known = definition_of(program.known, t)
    return next(outputs, None if known is None else known.attr)


def accumulator_names(program: Equations, group: Sequence[Equation]) -> dict[Term, str]:
    """Return names for the accumulators of sums in a kernel of several outputs: that of the output
    or definition that a sum is, or else of the one output that has it."""
    readers: dict[Term, list[str]] = {}
    for e in group if len(group) > 1 else ():
        for t in subterms(e.body):
            if t.op == "fold" and t.attr.monoid == "sum":
                readers.setdefault(t, []).append(e.name)
    names = {t: definition_name(program, t) or _only(found) for t, found in readers.items()}
    return {t: f"{n}_acc" for t, n in names.items() if n is not None and _PLAIN.match(n)}


def base_name(
    value: Expr, definition: str | None, role: str | None, named: Mapping[str, Expr]
) -> str:
    """Return a name for a value.

    Args:
        value: what is to be named.
        definition: what the program calls it, if it does.
        role: what it is for, where that is known.
        named: the values that have names.
    """
    if definition is not None and _PLAIN.match(definition):
        return definition
    if value.op == "load":
        return f"{value.attr}_tile"
    if role is not None:
        return role
    if len(value.args) == 1 and (value.op not in _ROLES or value.op == "cast"):
        operand = _converted(value.args[0], named)
        if operand.op in ("local", "param", "extent", "coordinate"):
            of = str(operand.attr).lstrip(".")
            name = f"{of}_number" if value.op == "cast" else f"{value.op}_{of}"
            if len(name) <= _LONGEST and _PLAIN.match(name):
                return name
    return _ROLES.get(value.op, value.op)


def _only(names: Sequence[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def _converted(e: Expr, named: Mapping[str, Expr]) -> Expr:
    """Return what a value was converted from, or the value itself if it is no conversion."""
    meant = named.get(e.attr, e) if e.op == "local" else e
    return _converted(meant.args[0], named) if meant.op == "cast" else e
