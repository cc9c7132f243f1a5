"""What is known of a term's value from its structure alone: its sign."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps

from monocomp.terms.nodes import Term

_ASKED: list[dict[tuple[str, Term], None]] = []


@contextmanager
def facts_asked() -> Iterator[dict[tuple[str, Term], None]]:
    """What `is_positive` and `is_nonnegative` say yes to meanwhile: what a rule relied on."""
    _ASKED.append({})
    try:
        yield _ASKED[-1]
    finally:
        _ASKED.pop()


def _fact(decide: Callable[[Term], bool]) -> Callable[[Term], bool]:
    """A fact about a term, remembered, and noted where somebody wants to know."""
    decided = lru_cache(maxsize=65536)(decide)

    @wraps(decide)
    def ask(t: Term) -> bool:
        holds = decided(t)
        if holds and _ASKED:
            _ASKED[-1][decide.__name__, t] = None
        return holds

    return ask


@_fact
def is_positive(t: Term) -> bool:
    """Provably > 0. A sum is positive when its elements are and it is not empty; the
    quotient by an empty sum is 0 by definition, so cancelling it stays right."""
    match t.op:
        case "const":
            return t.kind != "bool" and t.attr > 0
        case "exp" | "extent":
            return True
        case "stored":
            return is_positive(t.attr.body)
        case "cast":
            return is_positive(t.args[0])
        case "pow":
            return is_positive(t.args[0])
        case "mul":
            return all(map(is_positive, t.args))
        case "add":
            return all(map(is_nonnegative, t.args)) and any(map(is_positive, t.args))
        case "fold":
            return t.attr.name == "sum" and is_positive(t.args[1])
        case "field":  # the mantissa of such a sum
            (fold_,) = t.args
            return t.attr == "v" and fold_.attr.name == "SE" and is_positive(fold_.args[1])
    return False


@_fact
def is_nonnegative(t: Term) -> bool:
    """Provably >= 0."""
    match t.op:
        case "abs" | "relu" | "sigmoid" | "softplus" | "uniform" | "index":
            return True
        case "stored":
            return is_nonnegative(t.attr.body)
        case "cast":
            return t.args[0].kind == "bool" or is_nonnegative(t.args[0])
        case "pow":
            even = t.attr.denominator == 1 and t.attr.numerator % 2 == 0
            return even or t.attr.denominator == 2 or is_nonnegative(t.args[0])
        case "mul" | "add" | "mod":
            return all(map(is_nonnegative, t.args))
        case "floordiv" | "minimum":
            return all(map(is_nonnegative, t.args))
        case "maximum":
            return any(map(is_nonnegative, t.args))
        case "const":
            return t.kind != "bool" and t.attr >= 0
        case "fold":
            if t.attr.name in ("sum", "prod"):
                return is_nonnegative(t.args[1])
    return is_positive(t)
