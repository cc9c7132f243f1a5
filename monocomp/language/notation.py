"""Trees of a statement in any notation, and their text in this language.

`foreign` reads them, and `rewording` makes those of this language of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from monocomp.declarations.record import expressions_in, record, with_expressions
from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS
from monocomp.display import formulas
from monocomp.display.formulas import ADD, AND, COMPARE, MUL, OR, POW, Formula

# Operators by strength, in the spelling of this language; @ is a matrix product.
COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")
LEVELS = {"or": OR, "and": AND, **dict.fromkeys(COMPARISONS, COMPARE), "+": ADD, "-": ADD}
LEVELS |= {**dict.fromkeys(("*", "@", "/", "//", "%"), MUL), "**": POW}


class Tree:
    """A part of a statement in any notation."""


@record()
class Word(Tree):
    """A name or number as it is written; `inf` is one of them."""

    text: str


@record()
class Text(Tree):
    """A string, without its quotes."""

    text: str


@record()
class Unary(Tree):
    """An operator before its operand: - or not."""

    op: str
    operand: Tree


@record()
class Binary(Tree):
    """An operator between two operands, in the spelling of this language; @ is a matrix product."""

    op: str
    left: Tree
    right: Tree


@record()
class Choice(Tree):
    """`a if c else b`, or `c ? a : b`."""

    condition: Tree
    left: Tree
    right: Tree


@record()
class Filtered(Tree):
    """`x where c`, `x if c`, `x for k in range(n)`: a value for some elements only."""

    value: Tree
    condition: Tree | None
    index: str | None = None


@record()
class Attribute(Tree):
    """`x.T`, `torch.exp`."""

    value: Tree
    name: str


@record()
class Extent(Tree):
    """`|k|`."""

    index: str


@record()
class Slice(Tree):
    """`:` among subscripts."""


@record()
class Listed(Tree):
    """`(1, 2)` or `[1, 2]`, without a head."""

    items: tuple[Tree, ...]


@record()
class Bracketed(Tree):
    """A head with brackets: a read, a reduction without its operand, or a call.

    Attributes:
        head: a name, or what else stands before the brackets.
        is_call: are they parentheses?
        items: what stands between the commas.
        named: keyword arguments, such as `dim=-1`.
        condition: the filter.
        target: the name after `->`.
        is_prefix: do two points mark the index of a prefix?
    """

    head: str | Tree
    is_call: bool
    items: tuple[Tree, ...]
    named: tuple[tuple[str, Tree], ...] = ()
    condition: Tree | None = None
    target: str | None = None
    is_prefix: bool = False


@record()
class Reduced(Tree):
    """A reduction with its operands, as this language writes it."""

    name: str
    indices: tuple[str, ...]
    operands: tuple[Tree, ...]
    condition: Tree | None = None
    target: str | None = None
    is_prefix: bool = False


def head_of(tree: Tree) -> str | Tree:
    """Return a tree as the head of brackets."""
    return tree.text if isinstance(tree, Word) else tree


def children(tree: Tree) -> tuple[Tree, ...]:
    """Return the parts of a tree."""
    return expressions_in(tree, Tree)


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
            item = item.value if isinstance(item, Filtered) else item
            yield from (p.text for p in walk(item) if isinstance(p, Word) and p.text.isidentifier())
        return
    for part in children(tree):
        yield from (name for name in names_in(part) if name not in bound)


def reads_in(tree: Tree) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return the tensors that are read, each with the indices of one read."""
    for part in walk(tree):
        if isinstance(part, Bracketed) and not part.is_call and isinstance(part.head, str):
            names = tuple(i.text for i in part.items if isinstance(i, Word))
            if len(names) == len(part.items):
                yield part.head, names


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
    if isinstance(tree, Word):
        return by.get(tree.text, tree)
    return with_expressions(tree, Tree, (), lambda part: substitute(part, by))


def show(tree: Tree) -> str:
    """Return a tree as text of this language."""
    return str(_formula(tree))


def _formula(tree: Tree) -> Formula:
    match tree:
        case Word():
            return formulas.name(tree.text)
        case Extent():
            return Formula("extent", attr=tree.index)
        case Unary():
            return formulas.prefix(tree.op, _formula(tree.operand))
        case Binary():
            join = formulas.chain if tree.op in COMPARISONS else formulas.infix
            return join(tree.op, _formula(tree.left), _formula(tree.right))
        case Bracketed(head=str(name)):
            return Formula("call" if tree.is_call else "read", _formulas(tree.items), name)
        case Reduced():
            sign = "->" if tree.target else ".." * tree.is_prefix
            names = (*tree.indices, *((tree.target,) if tree.target else ()))
            condition = None if tree.condition is None else _formula(tree.condition)
            indices, operands = map(formulas.name, names), _formulas(tree.operands)
            return formulas.fold(tree.name, indices, operands, condition, sign)
    raise ValueError(f"{type(tree).__name__} has no text in this language")


def _formulas(trees: Sequence[Tree]) -> tuple[Formula, ...]:
    return tuple(map(_formula, trees))
