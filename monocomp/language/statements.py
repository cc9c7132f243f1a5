"""The statements of a program as they are written: names with their places, nothing resolved.

`parser` makes them and `checker` turns them into a `syntax.Program`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from monocomp.errors import Span
from monocomp.language.syntax import Expr


@dataclass(frozen=True, slots=True)
class Label:
    """A name at a place, where the grammar wants a name and not an expression."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class DefinitionStatement:
    """`name[indices] = body`; without brackets a scalar."""

    name: Label
    indices: tuple[Label, ...]
    body: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class InputStatement:
    """One entry of an `input` line; dims is empty for a scalar."""

    name: Label
    dims: tuple[Label, ...]
    kind: Label | None
    span: Span


@dataclass(frozen=True, slots=True)
class ParamStatement:
    """One entry of a `param` line."""

    name: Label
    kind: Label
    default: int | Fraction | float | None
    span: Span


@dataclass(frozen=True, slots=True)
class BoundStatement:
    """`index name < extent`."""

    name: Label
    extent: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class FunctionStatement:
    """`def name(formals) = body`."""

    name: Label
    formals: tuple[Label, ...]
    body: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class MonoidStatement:
    """`monoid name(fields) = unit (...), combine (...)`."""

    name: Label
    fields: tuple[Label, ...]
    unit: tuple[Expr, ...]
    combine: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class OutputStatement:
    """One entry of a `return` line."""

    name: Label
    dtype: Label | None
    span: Span


Statement: TypeAlias = (
    DefinitionStatement
    | InputStatement
    | ParamStatement
    | BoundStatement
    | FunctionStatement
    | MonoidStatement
    | OutputStatement
)
