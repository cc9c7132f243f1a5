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

CONSTRUCTORS: dict[str, Constructor] = {}


def construct(op: str, *args: Term, attr: Any = None, kind: Kind = "float") -> Term:
    """Make the canonical term of an operation."""
    return CONSTRUCTORS[op](args, attr, kind)


def rebuild(t: Term, args: tuple[Term, ...]) -> Term:
    """Replace the operands of t, through the constructors. A fold keeps its binder, so its
    operands must be written with the same bound names."""
    return t if args == t.args else CONSTRUCTORS[t.op](args, t.attr, t.kind)
