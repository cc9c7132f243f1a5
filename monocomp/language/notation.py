"""Trees of a statement in any notation, and their text in this language.

`foreign` reads them, and `rewording` makes those of this language of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias, get_args

from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS

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
class Listed:
    """`(1, 2)` or `[1, 2]`, without a head."""

    items: tuple[Tree, ...]


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
    | Listed
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


def names_in(tree: Tree) -> Iterator[str]:
    """Return the indices that reads name, in order; those that reductions bind are left out."""
    bound = set(tree.indices) if isinstance(tree, Reduced) else set()
    bound = set() if isinstance(tree, Reduced) and tree.name in KEEPING_REDUCTIONS else bound
    if isinstance(tree, Bracketed) and not tree.is_call:
        for item in tree.items:
            yield from (p.text for p in walk(item) if isinstance(p, Word) and p.text.isidentifier())
        return
    for part in children(tree):
        yield from (name for name in names_in(part) if name not in bound)


def reads_in(tree: Tree) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return the tensors that are read, each with the indices of one read."""
    for part in walk(tree):
        if isinstance(part, Bracketed) and not part.is_call and isinstance(part.head, Word):
            names = tuple(i.text for i in part.items if isinstance(i, Word))
            if len(names) == len(part.items):
                yield part.head.text, names


def indices_in(tree: Tree, indices: Sequence[str]) -> set[str]:
    """Return the names that are indices: on the left, in brackets, and those beside them in the
    parentheses of a read such as `A(i,j)`."""
    known = {*indices, *names_in(tree)}
    calls = [p for p in walk(tree) if isinstance(p, Bracketed) and p.is_call]
    lists = [{i.text for i in c.items if isinstance(i, Word)} for c in calls]
    for _ in lists:
        known |= {name for words in lists if words & known for name in words}
    return known


def substitute(tree: Tree, by: Mapping[str, Tree]) -> Tree:
    """Return a tree with other trees in place of words."""

    def substituted(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(substituted, value))
        if isinstance(value, Word):
            return by.get(value.text, value)
        if not isinstance(value, get_args(Tree)):
            return value
        parts = {f.name: substituted(getattr(value, f.name)) for f in fields(value)}
        return replace(value, **parts)

    made: Tree = substituted(tree)
    return made


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
