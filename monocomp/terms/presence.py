"""What stands for an element where it is 0, as a condition: then 0 / 0 is no number.

An aggregate over nothing is 0, too, and 0 over it is 0 (`monocomp/reference/semantics.md`). What
compares a quotient has to know which of these a 0 is. That is asked of terms as they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from monocomp.declarations.vocabulary import FUNCTIONS, KEEPING_REDUCTIONS
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

_AGGREGATES = ("sum", "mean", "var", "max", "min")


def no_number_over(a: Term, b: Term) -> Term:
    """Where a / b is no number if both are 0: one of them stands for an element, and a is not
    masked."""
    weights = Product(list(factors([a])))
    is_there_with = is_element(a, b) or any(weights.vanishes_with(f, b) for f in weights.factors)
    parts = [b] if is_there_with else [b, a]

    def found() -> Term:
        if _stands_there(b) is TRUE:
            return _is_looked_at(a)
        there = disjunction(*map(_stands_there, filter(_may_be_zero, parts)))
        return conjunction(there, _is_looked_at(a))

    return losing_nothing(found)


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
            return _of_choice(t, _stands_there)
        case "exactly":
            return _stands_there(as_it_stands(t))
        case "power":
            return _stands_there(t.args[0])
        case "pow" | "cast" if t.args[0].kind != "bool":
            return _stands_there(t.args[0])
    is_function = t.op in FUNCTIONS and t.op != "int" and len(t.args) == 1
    return _stands_there(t.args[0]) if is_function else TRUE


@lru_cache(maxsize=65536)
def _is_looked_at(t: Term) -> Term:
    """The condition that t is not masked where it is 0: masked is what a filter or the literal -inf
    leaves nothing of."""
    match t.op:
        case "fold" if t.attr.monoid in ("sum", "mean", "var"):
            opened, (condition, body) = open_fold(t)
            there = _is_looked_at(body)
            is_said = there is TRUE and has_element(t)
            return TRUE if is_said else fold("any", opened, condition, there)
        case "fold_at" if t.attr.monoid in ("sum", "mean", "var"):
            (bound,), (condition, body) = open_fold(t)
            there = conjunction(condition, _is_looked_at(body))
            return compare("<", const(0), fold_at("sum", t.args[0], bound, there, const(1)))
        case "fold_at" if t.attr.monoid in KEEPING_REDUCTIONS:
            (bound,), (condition, x) = open_fold(t)
            there = conjunction(condition, _is_admitted(x))
            return rename(there, {bound.attr[0]: t.args[0]}, {})
        case "exp":
            return _is_admitted(t.args[0])
        case "mul":
            return conjunction(*map(_is_looked_at, t.args))
        case "add":
            return disjunction(*map(_is_looked_at, t.args))
        case "where":
            return _of_choice(t, _is_looked_at)
        case "exactly":
            return _is_looked_at(as_it_stands(t))
        case "pow" if t.attr > 0:
            return _is_looked_at(t.args[0])
        case "abs" | "power":
            return _is_looked_at(t.args[0])
        case "cast" if t.args[0].kind != "bool":
            return _is_looked_at(t.args[0])
    return TRUE


def _is_admitted(x: Term) -> Term:
    """The condition that an exponent is not the literal -inf."""
    match x.op:
        case "const":
            return const(x is not NEG_INF)
        case "add":
            return conjunction(*map(_is_admitted, x.args))
        case "where":
            return _of_choice(x, _is_admitted)
        case "log":
            return _is_looked_at(x.args[0])
    return TRUE


def _of_choice(t: Term, says: Callable[[Term], Term]) -> Term:
    """What is said of the side that is taken."""
    condition, a, b = t.args
    sides = (condition, a), (negate(condition), b)
    if says(a) is TRUE and says(b) is TRUE:
        return TRUE
    return disjunction(*(conjunction(c, says(x)) for c, x in sides))
