"""The syntax of a program: statements, the trees of their expressions, and what checking adds.

The grammar of the tree:

    Expr = Number | Name | Read | Extent | Unary | Binary | Compare | Logic
         | Call | Reduce | Field

Nodes are immutable and carry the span of text that they came from; spans take no part
in comparisons. After checking (`checker.check`) implied sums are explicit `Reduce`
nodes with `implied=True`, calls of functions made by `def` are written out, every `Name`
says what it is, and `Program` holds the facts that later stages need. Both the oracle and
the compiler start from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from monocomp.declarations import Declarations, Origin
from monocomp.errors import Span
from monocomp.vocabulary import Kind

NameKind: TypeAlias = Literal["index", "param", "scalar", "formal", "unresolved"]


def _span() -> Span:
    return field(compare=False, repr=False, kw_only=True)  # type: ignore[no-any-return]


class Label(str):
    """A name that knows where it stands, for places where the grammar wants a name."""

    span: Span

    def __new__(cls, name: str, span: Span) -> Label:
        label = super().__new__(cls, name)
        label.span = span
        return label

    def __getnewargs__(self) -> tuple[str, Span]:  # type: ignore[override]
        return str(self), self.span  # for pickle and copy


@dataclass(frozen=True, slots=True)
class Number:
    """A literal: exact, an int when written without point or exponent, or `inf`."""

    value: int | Fraction | float  # the only float is math.inf
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Name:
    """A bare name: an index, a parameter, a scalar tensor or definition, a function's formal."""

    name: str
    kind: NameKind = "unresolved"
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Read:
    """`name[subscripts]`: an element of an input or of an earlier definition."""

    name: str
    subscripts: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Extent:
    """`|index|`."""

    index: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x` or `not x`."""

    op: Literal["-", "not"]
    operand: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Binary:
    """`left op right` with op one of + - * / // % **."""

    op: Literal["+", "-", "*", "/", "//", "%", "**"]
    left: Expr
    right: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Compare:
    """A chain `a < b <= c`; ops has one entry fewer than operands."""

    ops: tuple[Literal["<", "<=", ">", ">=", "==", "!="], ...]
    operands: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Logic:
    """`a and b and ...` or `a or b or ...`."""

    op: Literal["and", "or"]
    operands: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    """`function(args)`: a built-in function or one made by `def`."""

    function: str
    args: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Reduce:
    """`op[indices if condition](args)`.

    op is a built-in reduction or a user's monoid. `prefix` marks `op[..k]`, which keeps
    its index. `target` is r in `top[k -> r]`. A user's monoid takes one argument per
    field; all others take one.
    """

    op: str
    indices: tuple[Label, ...]
    condition: Expr | None
    args: tuple[Expr, ...]
    prefix: bool = False
    target: Label | None = None
    implied: bool = field(default=False, compare=False)
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Field:
    """`aggregate.name`: one field of a user monoid's result."""

    operand: Expr
    name: str
    span: Span = _span()


Expr: TypeAlias = (
    Number | Name | Read | Extent | Unary | Binary | Compare | Logic | Call | Reduce | Field
)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside one, in order of the text."""
    match expr:
        case Read():
            return expr.subscripts
        case Unary() | Field():
            return (expr.operand,)
        case Binary():
            return (expr.left, expr.right)
        case Compare() | Logic():
            return expr.operands
        case Call():
            return expr.args
        case Reduce():
            return expr.args if expr.condition is None else (expr.condition, *expr.args)
    return ()


def with_children(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """The same node over other children, given in the order of `children`."""
    match expr:
        case Read():
            return replace(expr, subscripts=parts)
        case Unary() | Field():
            return replace(expr, operand=parts[0])
        case Binary():
            return replace(expr, left=parts[0], right=parts[1])
        case Compare() | Logic():
            return replace(expr, operands=parts)
        case Call() | Reduce(condition=None):
            return replace(expr, args=parts)
        case Reduce():
            return replace(expr, condition=parts[0], args=parts[1:])
    return expr


# Statements. The parser makes them, and the checker resolves the expressions in them.


@dataclass(frozen=True, slots=True)
class Definition:
    """`name[indices] = body`; a scalar has no indices."""

    name: Label
    indices: tuple[Label, ...]
    body: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Function:
    """`def name(formals) = body`. A formal stands for the argument expression (by name)."""

    name: Label
    formals: tuple[Label, ...]
    body: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Monoid:
    """`monoid name(fields) = unit (...), combine (...)`.

    In `combine` the name `x` is the left operand's field and `x'` the right one's.
    """

    name: Label
    fields: tuple[Label, ...]
    unit: tuple[Expr, ...]
    combine: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Bound:
    """One entry of an `index` line: `name < extent`."""

    name: Label
    extent: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Param:
    """A scalar parameter, passed by keyword. Without a default it is required."""

    name: Label
    kind: Literal["int", "float"]
    default: int | float | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Output:
    """One entry of a `return` line, or a definition that nothing reads: a result, and the dtype
    asked for, if any."""

    name: Label
    dtype: Label | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class DeclaredInput:
    """One entry of an `input` line; a scalar has no dims."""

    name: Label
    dims: tuple[Label, ...]
    kind: Kind | None
    span: Span = _span()


Statement: TypeAlias = Definition | Function | Monoid | Bound | Param | Output | DeclaredInput


# What checking adds.


@dataclass(frozen=True)
class Program(Declarations[Expr]):
    """A checked program.

    inputs and params are in order of first appearance, definitions in order of the text; two
    indices have the same extent exactly when they have the same representative. `kinds` gives the
    type of each definition.
    """

    origin: Origin = field(default=Origin(), compare=False)
    monoids: dict[str, Monoid] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
