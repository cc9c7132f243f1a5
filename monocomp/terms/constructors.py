"""Constructors: a table with the constructor of each operation.

Constructors call one another: products make comparisons, comparisons subtract. Each module here
builds on those before it, and finds the constructors of later modules in this table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from monocomp.declarations.vocabulary import Kind
from monocomp.terms.nodes import Term

# Makes the canonical term of (operands, payload, kind).
Constructor: TypeAlias = Callable[[tuple[Term, ...], Any, Kind], Term]


class Results(dict[Term, Term]):
    """Results of a function of terms, each computed at its first use.

    A function that calls itself takes its results from here. Unlike a cached closure, which refers
    to itself, they are freed with the last reference, not by the collector of cycles.
    """

    def __init__(self, compute: Callable[[Term, Results], Term]) -> None:
        self.compute = compute

    def __missing__(self, t: Term) -> Term:
        result = self[t] = self.compute(t, self)
        return result


CONSTRUCTORS: dict[str, Constructor] = {}


def construct(op: str, *args: Term, attr: Any = None, kind: Kind = "float") -> Term:
    """Make the canonical term of an operation."""
    return CONSTRUCTORS[op](args, attr, kind)


def rebuild(t: Term, args: tuple[Term, ...]) -> Term:
    """Replace the operands of t, through the constructors. A fold keeps its binder, so its
    operands must be written with the same bound names."""
    return t if args == t.args else CONSTRUCTORS[t.op](args, t.attr, t.kind)
