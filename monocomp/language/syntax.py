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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from fractions import Fraction
from itertools import islice
from operator import is_
from typing import Any, Literal, TypeAlias

from monocomp.declarations.record import record
from monocomp.declarations.records import Declarations, Origin
from monocomp.declarations.vocabulary import Kind
from monocomp.errors import Span

NameKind: TypeAlias = Literal["index", "param", "scalar", "formal", "unresolved"]


class Label(str):
    """A name that knows where it stands, for places where the grammar wants a name."""

    span: Span

    def __new__(cls, name: str, span: Span) -> Label:
        label = super().__new__(cls, name)
        label.span = span
        return label

    def __getnewargs__(self) -> tuple[str, Span]:  # type: ignore[override]
        return str(self), self.span  # for pickle and copy


@record()
class Node:
    """A part of a program, and where it stands, which takes no part in comparisons."""

    span: Span = field(compare=False, repr=False, kw_only=True)


@record()
class Number(Node):
    """A literal: exact, an int when written without point or exponent, or `inf`."""

    value: int | Fraction | float  # the only float is math.inf


@record()
class Name(Node):
    """A bare name: an index, a parameter, a scalar tensor or definition, a function's formal."""

    name: str
    kind: NameKind = "unresolved"


@record()
class Read(Node):
    """`name[subscripts]`: an element of an input or of an earlier definition."""

    name: str
    subscripts: tuple[Expr, ...]


@record()
class Extent(Node):
    """`|index|`."""

    index: str


@record()
class Unary(Node):
    """`-x` or `not x`."""

    op: Literal["-", "not"]
    operand: Expr


@record()
class Binary(Node):
    """`left op right` with op one of + - * / // % **."""

    op: Literal["+", "-", "*", "/", "//", "%", "**"]
    left: Expr
    right: Expr


@record()
class Compare(Node):
    """A chain `a < b <= c`; ops has one entry fewer than operands."""

    ops: tuple[Literal["<", "<=", ">", ">=", "==", "!="], ...]
    operands: tuple[Expr, ...]


@record()
class Logic(Node):
    """`a and b and ...` or `a or b or ...`."""

    op: Literal["and", "or"]
    operands: tuple[Expr, ...]


@record()
class Call(Node):
    """`function(args)`: a built-in function or one made by `def`."""

    function: str
    args: tuple[Expr, ...]


@record()
class Reduce(Node):
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


@record()
class Field(Node):
    """`aggregate.name`: one field of a user monoid's result, or `aggregate.name[i,j]`, an entry
    of it."""

    operand: Expr
    name: Label
    subscripts: tuple[Expr, ...] = ()


Expr: TypeAlias = (
    Number | Name | Read | Extent | Unary | Binary | Compare | Logic | Call | Reduce | Field
)


# The fields that hold the expressions directly inside one, in order of the text.
_PARTS: dict[type[Expr], tuple[str, ...]] = {
    Read: ("subscripts",),
    Unary: ("operand",),
    Binary: ("left", "right"),
    Compare: ("operands",),
    Logic: ("operands",),
    Call: ("args",),
    Reduce: ("condition", "args"),
    Field: ("operand", "subscripts"),
}


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions directly inside one, in order of the text."""
    names = _PARTS.get(type(expr))
    if names is None:
        return ()
    parts: list[Expr] = []
    for name in names:
        part = getattr(expr, name)
        parts += part if isinstance(part, tuple) else () if part is None else (part,)
    return tuple(parts)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield every node of an expression, in order of the text."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def with_children(expr: Expr, parts: Iterable[Expr]) -> Expr:
    """Replace the children of a node, in the order of `children`."""
    new = tuple(parts)
    if all(map(is_, new, children(expr))):
        return expr
    left = iter(new)
    fields = {name: getattr(expr, name) for name in _PARTS[type(expr)]}
    changed: dict[str, Any] = {
        name: tuple(islice(left, len(old))) if isinstance(old, tuple) else next(left)
        for name, old in fields.items()
        if old is not None
    }
    return replace(expr, **changed)


# Statements. The parser makes them, and the checker resolves the expressions in them.


@record()
class Definition(Node):
    """`name[indices] = body`; a scalar has no indices.

    After `input` the values are `given`: the body says what they are, and nothing computes it.
    """

    name: Label
    indices: tuple[Label, ...]
    body: Expr
    given: bool = False


@record()
class Function(Node):
    """`def name(formals) = body`. A formal stands for the argument expression (by name)."""

    name: Label
    formals: tuple[Label, ...]
    body: Expr


@record()
class Monoid(Node):
    """`monoid name(fields) = unit (...), combine (...)`.

    In `combine` the name `x` is the left operand's field and `x'` the right one's. A field with
    indices, `A[r,s]`, has an entry for each of their values; a part of `unit` and `combine` says
    what the entry is, and an operand of an aggregate, too.

    Attributes:
        indices: those of each field.
        extents: how many values each index has that stands in the declaration, once that is known.
    """

    name: Label
    fields: tuple[Label, ...]
    unit: tuple[Expr, ...]
    combine: tuple[Expr, ...]
    indices: tuple[tuple[Label, ...], ...] = ()
    extents: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def forms(self) -> tuple[str, ...]:
        """Return the fields as they are written, with their indices."""
        return tuple(
            f"{name}[{','.join(indices)}]" if indices else str(name)
            for name, indices in zip(self.fields, self.indices, strict=True)
        )


@record()
class Bound(Node):
    """One entry of an `index` line: `name < extent`."""

    name: Label
    extent: Expr


@record()
class Param(Node):
    """A scalar parameter, passed by keyword. Without a default it is required."""

    name: Label
    kind: Literal["int", "float"]
    default: int | float | None


@record()
class Output(Node):
    """One entry of a `return` line, or a definition that nothing reads: a result, and the dtype
    asked for, if any."""

    name: Label
    dtype: Label | None


@record()
class DeclaredInput(Node):
    """One entry of an `input` line; a scalar has no dims."""

    name: Label
    dims: tuple[Label, ...]
    kind: Kind | None


Statement: TypeAlias = Definition | Function | Monoid | Bound | Param | Output | DeclaredInput


# What checking adds.


@record()
class Program(Declarations[Expr]):
    """A checked program.

    inputs are in the order of their declarations, an undeclared one where it is first read; params
    are in order of first appearance, definitions in order of the text, those of
    inputs that are given with one among them; two indices have the same extent exactly when they
    have the same representative. `kinds` gives the type of each definition.
    """

    origin: Origin = field(default=Origin(), compare=False)
    monoids: dict[str, Monoid] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)


def occurrences(e: Expr, scope: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each variable where it stands, with the indices that bind it there."""
    if isinstance(e, Name) and e.name not in scope:
        yield e.name, scope
    if isinstance(e, Reduce):
        scope = (*dict.fromkeys((*scope, *map(str, e.indices))),)
    for part in children(e):
        yield from occurrences(part, scope)
