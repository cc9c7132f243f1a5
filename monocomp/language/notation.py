"""Trees of a statement in any notation, and their text in this language.

`foreign` reads them, and `rewording` makes those of this language of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

# Operators by strength, in the spelling of this language; @ is a matrix product.
COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")
LEVELS = {"or": 1, "and": 2, **dict.fromkeys(COMPARISONS, 4)}
LEVELS |= {"+": 5, "-": 5, **dict.fromkeys(("*", "@", "/", "//", "%"), 6), "**": 8}
NOT, PRODUCT, SIGN = 3, 6, 7


@dataclass(frozen=True)
class Word:
    """A name or number as it is written; `inf` is one of them."""

    text: str


@dataclass(frozen=True)
class Text:
    """A string, without its quotes."""

    text: str


@dataclass(frozen=True)
class Unary:
    """An operator before its operand: - or not."""

    op: str
    operand: Tree


@dataclass(frozen=True)
class Binary:
    """An operator between two operands, in the spelling of this language; @ is a matrix product."""

    op: str
    left: Tree
    right: Tree


@dataclass(frozen=True)
class Choice:
    """`a if c else b`, or `c ? a : b`."""

    condition: Tree
    left: Tree
    right: Tree


@dataclass(frozen=True)
class Filtered:
    """`x where c`, `x if c`, `x for k in range(n)`: a value for some elements only."""

    value: Tree
    condition: Tree | None
    index: str | None = None


@dataclass(frozen=True)
class Attribute:
    """`x.T`, `torch.exp`."""

    value: Tree
    name: str


@dataclass(frozen=True)
class Extent:
    """`|k|`."""

    index: str


@dataclass(frozen=True)
class Slice:
    """`:` among subscripts."""


@dataclass(frozen=True)
class Bracketed:
    """A head with brackets: a read, a reduction without its operand, or a call.

    Attributes:
        is_call: are they parentheses?
        items: what stands between the commas.
        named: keyword arguments, such as `dim=-1`.
        condition: the filter.
        target: the name after `->`.
        is_prefix: do two points mark the index of a prefix?
    """

    head: Tree
    is_call: bool
    items: tuple[Tree, ...]
    named: tuple[tuple[str, Tree], ...] = ()
    condition: Tree | None = None
    target: str | None = None
    is_prefix: bool = False


@dataclass(frozen=True)
class Reduced:
    """A reduction with its operands, as this language writes it."""

    name: str
    indices: tuple[str, ...]
    operands: tuple[Tree, ...]
    condition: Tree | None = None
    target: str | None = None
    is_prefix: bool = False


Tree: TypeAlias = (
    Word
    | Text
    | Unary
    | Binary
    | Choice
    | Filtered
    | Attribute
    | Extent
    | Slice
    | Bracketed
    | Reduced
)


def children(tree: Tree) -> tuple[Tree, ...]:
    """Return the parts of a tree; what heads are called is none of them."""
    match tree:
        case Unary():
            return (tree.operand,)
        case Binary():
            return (tree.left, tree.right)
        case Choice():
            return (tree.condition, tree.left, tree.right)
        case Filtered():
            return (tree.value, *((tree.condition,) if tree.condition else ()))
        case Attribute():
            return (tree.value,)
        case Bracketed():
            more = (tree.condition,) if tree.condition else ()
            head = () if isinstance(tree.head, Word) else (tree.head,)
            return (*head, *tree.items, *more)
        case Reduced():
            return (*tree.operands, *((tree.condition,) if tree.condition else ()))
    return ()


def walk(tree: Tree) -> Iterator[Tree]:
    """Return a tree and all its parts."""
    yield tree
    for part in children(tree):
        yield from walk(part)


def show(tree: Tree, level: int = 0) -> str:
    """Return a tree as text, in parentheses where a stronger operator stands around it."""
    match tree:
        case Word():
            return tree.text
        case Extent():
            return f"|{tree.index}|"
        case Unary(op="not"):
            return _enclosed(f"not {show(tree.operand, NOT)}", level > NOT)
        case Unary():
            return _enclosed(f"-{show(tree.operand, SIGN)}", level > SIGN)
        case Binary():
            own = LEVELS[tree.op]
            is_power, is_comparison = tree.op == "**", tree.op in COMPARISONS
            left = show(tree.left, own + (is_power or is_comparison))
            right = show(tree.right, SIGN if is_power else own + 1)
            return _enclosed(f"{left} {tree.op} {right}", level > own)
        case Bracketed(head=Word(text=name)):
            opened, closed = "()" if tree.is_call else "[]"
            comma = ", " if tree.is_call else ","
            return f"{name}{opened}{comma.join(map(show, tree.items))}{closed}"
        case Reduced():
            inside = (".." if tree.is_prefix else "") + ",".join(tree.indices)
            inside += f" -> {tree.target}" if tree.target else ""
            inside += f" if {show(tree.condition)}" if tree.condition else ""
            return f"{tree.name}[{inside}]({', '.join(map(show, tree.operands))})"
    raise ValueError(f"{type(tree).__name__} has no text in this language")


def _enclosed(text: str, needed: bool) -> str:
    return f"({text})" if needed else text
