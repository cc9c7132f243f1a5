"""What stands for an element where it is 0, as a condition: then 0 / 0 is no number.

An aggregate over nothing is 0, too, and 0 over it is 0 (`monocomp/reference/semantics.md`). What
compares a quotient has to know which of these a 0 is. That is asked of terms as they are written.
"""

from __future__ import annotations

from functools import lru_cache

from monocomp.terms.binders import open_fold, rename
from monocomp.terms.comparisons import compare, negate
from monocomp.terms.emptiness import Product, is_element
from monocomp.terms.facts import has_element, is_nonnegative, is_positive
from monocomp.terms.folds import by_definition, fold, fold_at
from monocomp.terms.leaves import FALSE, NEG_INF, TRUE, const
from monocomp.terms.logic import conjunction, disjunction
from monocomp.terms.losses import as_it_stands, losing_nothing
from monocomp.terms.nodes import Term
from monocomp.terms.parts import factors
from monocomp.vocabulary import FUNCTIONS, KEEPING_REDUCTIONS

_AGGREGATES = ("sum", "mean", "var", "max", "min")


def no_number_over(a: Term, b: Term) -> Term:
    """Where a / b is no number if both are 0: one of them stands for an element."""
    if losing_nothing(lambda: _stands_there(b)) is TRUE:
        return TRUE
    weights = Product(list(factors([a])))
    is_there_with = is_element(a, b) or any(weights.vanishes_with(f, b) for f in weights.factors)
    parts = [b] if is_there_with else [a, b]
    return losing_nothing(lambda: disjunction(*map(_stands_there, filter(_may_be_zero, parts))))


@lru_cache(maxsize=65536)
def _may_be_zero(t: Term) -> bool:
    """May t be 0 where something is there? Not if it is one of weights only."""
    match t.op:
        case "exp":
            return False
        case "pow":
            return t.attr > 0 and _may_be_zero(t.args[0])
        case "mul":
            return any(map(_may_be_zero, t.args))
        case "add" if all(map(is_nonnegative, t.args)):
            return any(map(_may_be_zero, t.args)) and not is_positive(t)
        case "fold" | "fold_at" if t.attr.monoid in ("sum", "mean", "max", "min"):
            _, (_, body) = open_fold(t)
            if body.op == "fold_at" and body.attr.monoid in KEEPING_REDUCTIONS:
                body = by_definition(body)
            return not is_nonnegative(body) or _may_be_zero(body)
    return not is_positive(t)


@lru_cache(maxsize=65536)
def _stands_there(t: Term) -> Term:
    """The condition that t stands for an element where it is 0. Of a user's monoid nobody knows."""
    match t.op:
        case "exp":
            return compare("<", NEG_INF, t.args[0])
        case "fold" if t.attr.monoid in _AGGREGATES:
            opened, (condition, body) = open_fold(t)
            there = _stands_there(body)
            is_said = there is TRUE and has_element(t)
            return TRUE if is_said else fold("any", opened, condition, there)
        case "fold_at" if t.attr.monoid in _AGGREGATES:
            (bound,), (condition, body) = open_fold(t)
            there = conjunction(condition, _stands_there(body))
            return compare("<", const(0), fold_at("sum", t.args[0], bound, there, const(1)))
        case "fold_at" if t.attr.monoid in KEEPING_REDUCTIONS:
            (bound,), (condition, x) = open_fold(t)
            there = conjunction(condition, compare("<", NEG_INF, x))
            return rename(there, {bound.attr[0]: t.args[0]}, {})
        case "field":
            return FALSE
        case "mul":
            return conjunction(*map(_stands_there, t.args))
        case "add":
            return disjunction(*map(_stands_there, t.args))
        case "where":
            condition, a, b = t.args
            sides = (condition, a), (negate(condition), b)
            return disjunction(*(conjunction(c, _stands_there(x)) for c, x in sides))
        case "exactly":
            return _stands_there(as_it_stands(t))
        case "power":
            return _stands_there(t.args[0])
        case "pow" | "cast" if t.args[0].kind != "bool":
            return _stands_there(t.args[0])
    is_function = t.op in FUNCTIONS and t.op != "int" and len(t.args) == 1
    return _stands_there(t.args[0]) if is_function else TRUE
