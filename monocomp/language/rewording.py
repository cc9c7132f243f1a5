"""Write a statement again in this language, as it was meant in torch, einops, NumPy or LaTeX.

`foreign` reads it. Here dimensions become the indices that stand there, methods and modules
become functions, matrix products and strings of einsum become products with indices, and what
chooses elements becomes a filter. A proposal is made only if it is a statement of this language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from monocomp.declarations.vocabulary import FUNCTIONS, KEEPING_REDUCTIONS
from monocomp.language import foreign as F
from monocomp.language.foreign import NotReadable
from monocomp.language.notation import (
    COMPARISONS,
    Attribute,
    Binary,
    Bracketed,
    Choice,
    Extent,
    Filtered,
    Reduced,
    Slice,
    Text,
    Tree,
    Unary,
    Word,
    children,
    show,
    walk,
)

_MODULES = {"torch", "np", "numpy", "math", "F", "nn", "jnp", "jax", "functional", "einops", "tl"}
_DIMENSIONS = ("dim", "axis")
_TRANSPOSED = ("T", "mT", "H", "mH", "t", "transpose")
_PRODUCTS = ("matmul", "mm", "bmm", "dot", "mv")
_FRESH = "kjdmnrstuvw"


def reword(statement: str) -> str | None:
    """Return a definition in this language, or None where it cannot be told what is meant."""
    try:
        text = re.sub(r"^\s*def\s+(\w+)\((.*?)\)\s*:\s*(?:return\s+)?", r"def \1(\2) = ", statement)
        head = re.match(r"def \w+\([\w\s,]*\) = ", text)
        if head:
            body = F.read("f = " + text[head.end() :]).body
            return head[0] + show(_Rewording(()).tree(body))
        found = F.read(re.sub(r"^\s*(let|const|var|return)\s+(?=\S.*=)", "", text))
        return _definition(found)
    except (NotReadable, RecursionError):
        return None


def _definition(found: F.Definition) -> str:
    name, indices = _left(found.left)
    rewording = _Rewording(indices)
    body = rewording.tree(found.body)
    free = (*rewording.indices, *rewording.added)
    return f"{name}[{','.join(free)}] = {show(body)}" if free else f"{name} = {show(body)}"


def _left(tree: Tree) -> tuple[str, tuple[str, ...]]:
    """Return the name and the indices on the left side."""
    if isinstance(tree, Word):
        return tree.text, ()
    if not isinstance(tree, Bracketed) or not isinstance(tree.head, Word):
        raise NotReadable
    if not all(isinstance(item, Word) for item in tree.items):
        raise NotReadable
    return tree.head.text, tuple(item.text for item in tree.items if isinstance(item, Word))


class _Rewording:
    """Rewords the right side of one definition.

    Attributes:
        indices: those on the left.
        added: those that the right side gives to the left, where it has none.
    """

    def __init__(self, indices: Sequence[str]) -> None:
        self.indices = tuple(indices)
        self.added: tuple[str, ...] = ()
        self.seen: set[str] = set()
        self.shapes: dict[str, tuple[str, ...]] = {}

    def tree(self, tree: Tree) -> Tree:
        """Return a body in this language."""
        self.seen = {part.text for part in walk(tree) if isinstance(part, Word)}
        self.shapes = dict(_reads(tree))
        return self._reworded(tree)

    def _reworded(self, tree: Tree) -> Tree:
        match tree:
            case Text() | Slice():
                raise NotReadable
            case Unary():
                return replace(tree, operand=self._reworded(tree.operand))
            case Binary(op="@"):
                return self._product(tree.left, tree.right)
            case Binary():
                left, right = self._reworded(tree.left), self._reworded(tree.right)
                return Binary(tree.op, left, right)
            case Choice():
                parts = (tree.condition, tree.left, tree.right)
                return _call("where", *map(self._reworded, parts))
            case Filtered():
                return self._filtered(tree)
            case Attribute():
                return self._attribute(tree)
            case Bracketed():
                return self._bracketed(tree)
        return tree

    # Attributes: modules, and methods that need no parentheses

    def _attribute(self, tree: Attribute) -> Tree:
        if _is_module(tree.value):
            return Word(tree.name)
        if tree.name in _TRANSPOSED:
            return self._transposed(self._reworded(tree.value))
        raise NotReadable

    def _transposed(self, tree: Tree) -> Tree:
        if isinstance(tree, Bracketed) and len(tree.items) > 1:
            *first, one, other = tree.items
            return replace(tree, items=(*first, other, one))
        raise NotReadable

    # Brackets: reads, reductions, calls

    def _bracketed(self, tree: Bracketed) -> Tree:
        head = tree.head
        if isinstance(head, Attribute):
            if head.name in ("shape", "size"):
                return self._extent(head.value, tree.items)
            if _is_module(head.value):
                return self._bracketed(replace(tree, head=Word(head.name)))
            if head.name in _TRANSPOSED and not tree.is_call:
                return self._transposed(self._reworded(replace(tree, head=head.value)))
            if tree.is_call:
                items = (head.value, *tree.items)
                return self._bracketed(replace(tree, head=Word(head.name), items=items))
            raise NotReadable
        if isinstance(head, Bracketed):
            return self._after_brackets(head, tree)
        if not isinstance(head, Word):
            raise NotReadable
        reduction = F.reduction_of(head.text)
        if reduction is not None:
            if not tree.is_call:
                raise NotReadable  # it has no operand
            return self._reduction(reduction, tree)
        return self._call(head.text, tree) if tree.is_call else self._read(head, tree)

    def _after_brackets(self, head: Bracketed, tree: Bracketed) -> Tree:
        """Reword `A[i][j]`, and `sum[j](x)`, also where its brackets are others."""
        name = head.head.text if isinstance(head.head, Word) else ""
        reduction = F.reduction_of(name)
        if reduction is None and not head.is_call and not tree.is_call:
            return self._bracketed(replace(head, items=(*head.items, *tree.items)))
        if not tree.is_call:
            raise NotReadable
        if reduction is None:  # a monoid
            reduction = Reduced(name, (), ())
        names: list[str] = []
        condition = head.condition
        for item in head.items:
            first = next((p.text for p in walk(item) if isinstance(p, Word)), "")
            if isinstance(item, Binary) and item.op in COMPARISONS:
                condition = F.conjunction(condition, item)
                if not names:
                    names.append(first)
            elif isinstance(item, Word) and not first[:1].isdigit():
                names.append(first)
        dims = [d for d in (_dimension(i) for i in head.items) if d is not None]
        dims += _named_dimensions(head)
        made = replace(
            reduction,
            indices=tuple(names),
            condition=None if condition is None else self._reworded(condition),
            target=head.target,
            is_prefix=head.is_prefix or reduction.is_prefix,
        )
        return self._over(made, tree.items, dims)

    def _read(self, head: Word, tree: Bracketed) -> Tree:
        if any(isinstance(item, Slice) for item in tree.items):
            spare = [i for i in self.indices if i not in set(_names(tree))]
            items: list[Tree] = []
            for item in tree.items:
                if isinstance(item, Slice):
                    item = Word(spare.pop(0) if spare else self._added())
                items.append(item)
            tree = replace(tree, items=tuple(items))
        return replace(tree, head=head, items=tuple(map(self._reworded, tree.items)))

    def _added(self) -> str:
        self.added += (self._fresh(),)
        return self.added[-1]

    def _call(self, name: str, tree: Bracketed) -> Tree:
        if name in ("einsum", "rearrange", "reduce") and any(
            isinstance(i, Text) for i in tree.items
        ):
            return self._by_pattern(name, tree.items)
        if name == "float" and len(tree.items) == 1 and isinstance(tree.items[0], Text):
            number = tree.items[0].text.strip().lower()
            sign, number = number[:1], number.lstrip("+-").replace("infinity", "inf")
            return Unary("-", Word(number)) if sign == "-" else Word(number)
        if name in _PRODUCTS and len(tree.items) == 2:
            return self._product(*tree.items)
        if name in _TRANSPOSED:
            return self._transposed(self._reworded(tree.items[0]))
        if name in ("size", "len") and tree.items:
            return self._extent(tree.items[0], tree.items[1:] or (Word("0"),))
        items = tuple(map(self._reworded, tree.items))
        if name == "where":
            items = (*(Binary("==", Word(n), self._reworded(x)) for n, x in tree.named), *items)
        if name in _MEANINGS:
            count, meaning = _MEANINGS[name]
            if len(items) != count:
                raise NotReadable
            return meaning(*items)
        if name not in FUNCTIONS and all(isinstance(item, Word) for item in items):
            is_read = all(str(item.text).isidentifier() for item in items if isinstance(item, Word))
            return Bracketed(Word(name), not is_read, items)  # A(i,j)
        return Bracketed(Word(name), True, items)

    def _extent(self, tensor: Tree, places: Sequence[Tree]) -> Tree:
        """Reword `x.shape[0]`: the extent of the index that is read there."""
        if isinstance(tensor, Word) and len(places) == 1 and tensor.text in self.shapes:
            place, shape = _dimension(places[0]), self.shapes[tensor.text]
            if place is not None and -len(shape) <= place < len(shape):
                return Extent(shape[place])
        raise NotReadable

    # Reductions

    def _reduction(self, reduction: Reduced, tree: Bracketed) -> Tree:
        """Reword `softmax(x, dim=-1)`."""
        items = list(tree.items)
        if reduction.name in ("max", "min") and len(items) == 2 and not tree.named:
            return _call(reduction.name + "imum", *map(self._reworded, items))
        dims = _named_dimensions(tree)
        if len(items) == 2 and (place := _dimension(items[1])) is not None:
            dims, items = [place], items[:1]
        names = [item.text for item in items[1:] if isinstance(item, Word)]
        if names and len(names) == len(items) - 1:  # softmax(x, k)
            reduction, items = replace(reduction, indices=tuple(names)), items[:1]
        if len(items) != 1:
            raise NotReadable
        return self._over(reduction, items, dims)

    def _over(self, reduction: Reduced, operands: Sequence[Tree], dims: Sequence[int]) -> Tree:
        """Return a reduction over the indices that dimensions name."""
        if not operands:
            raise NotReadable
        (operand, *more) = operands
        if isinstance(operand, Filtered):  # sum(x for k in range(n))
            condition = self._known_bounds(operand)
            indices = reduction.indices or ((operand.index,) if operand.index else ())
            reduction = replace(reduction, indices=indices, condition=condition)
            operand = operand.value
        added = self.added
        operand = self._reworded(operand)
        if not reduction.indices:  # sum(A[i,:])
            reduction = replace(reduction, indices=self.added[len(added) :])
            self.added = added
        keeps = reduction.name in KEEPING_REDUCTIONS or reduction.is_prefix
        if reduction.indices:
            pass
        elif not list(_names(operand)):
            shape = list(self.indices)
            for place in dims or (() if keeps else (-1,)):
                if not keeps:
                    at = place if place >= 0 else len(shape) + 1 + place
                    shape.insert(at, self._fresh())
            chosen = [shape[d] for d in dims or (-1,) if -len(shape) <= d < len(shape)]
            operand = self._with_indices(operand, shape)
            reduction = replace(reduction, indices=tuple(chosen))
        else:
            reduction = replace(reduction, indices=self._chosen(operand, dims, keeps))
        if not reduction.indices:
            raise NotReadable
        return replace(reduction, operands=(operand, *map(self._reworded, more)))

    def _chosen(self, operand: Tree, dims: Sequence[int], keeps: bool) -> tuple[str, ...]:
        """Return the indices of an operand that dimensions name."""
        shape = self._shape(operand)
        if all(-len(shape) <= d < len(shape) for d in dims) and (dims or keeps):
            return tuple(shape[d] for d in dims or (-1,))
        summed = [i for i in shape if i not in self.indices]
        return tuple(summed if not dims else summed[-1:])

    def _shape(self, tree: Tree) -> list[str]:
        """Return the indices of a value; those that two factors share are summed."""
        names = list(_names(tree))
        if isinstance(tree, Bracketed) and not tree.is_call:
            return names
        counts = Counter(names)
        unique = list(counts)
        return [i for i in unique if counts[i] == 1 or i in self.indices] or unique

    def _filtered(self, tree: Filtered) -> Tree:
        """Reword `sum[j](x) where c`: the filter belongs to the reduction that binds its index."""
        value = self._reworded(tree.value)
        condition = self._known_bounds(tree)
        if condition is None:
            return value
        named = [p.text for p in walk(condition) if isinstance(p, Word)]
        if (inner := _with_filter(value, condition, set(named))) is not None:
            return inner
        bound = [i for i in dict.fromkeys(_names(value)) if i in named and i not in self.indices]
        if bound:
            return Reduced("sum", tuple(bound), (value,), condition)
        return _call("where", condition, value, Word("0"))

    def _known_bounds(self, tree: Filtered) -> Tree | None:
        """Return the condition, unless it only names a bound that nothing else does."""
        if tree.condition is None:
            return None
        words = [p.text for p in walk(tree.condition) if isinstance(p, Word)]
        known = {tree.index, *self.indices, *_names(tree.value)}
        if tree.index and any(not w[:1].isdigit() and w not in known for w in words):
            return None
        return self._reworded(tree.condition)

    # Products with indices

    def _product(self, left: Tree, right: Tree) -> Tree:
        """Reword `A @ B`: the last index of A is the last but one of B."""
        left, right = self._reworded_factor(left), self._reworded_factor(right)
        if not list(_names(left)) and not list(_names(right)):
            if len(self.indices) < 2:
                if self.indices or self.added:
                    raise NotReadable
                self.added = ("i", "j")
            *batch, row, column = self.indices or self.added
            inner = self._fresh()
            left = self._with_indices(left, (*batch, row, inner))
            right = self._with_indices(right, (*batch, inner, column))
        elif isinstance(left, Attribute) or isinstance(right, Attribute):
            raise NotReadable  # one side alone has its indices
        return Binary("*", left, right)

    def _reworded_factor(self, tree: Tree) -> Tree:
        """Return a factor; `K.T` waits for its indices."""
        is_bare = isinstance(tree, Attribute) and isinstance(tree.value, Word)
        if is_bare and tree.name in _TRANSPOSED and not _is_module(tree.value):  # type: ignore[union-attr]
            return tree
        return self._reworded(tree)

    def _with_indices(self, tree: Tree, indices: Sequence[str]) -> Tree:
        """Give the tensors of a value these indices."""
        match tree:
            case Word() if tree.text[:1].isalpha() and tree.text != "inf":
                return Bracketed(tree, False, tuple(map(Word, indices)))
            case Attribute():
                *first, one, other = indices
                return self._with_indices(tree.value, (*first, other, one))
            case Binary():
                left = self._with_indices(tree.left, indices)
                return Binary(tree.op, left, self._with_indices(tree.right, indices))
            case Unary():
                return replace(tree, operand=self._with_indices(tree.operand, indices))
            case Bracketed(is_call=True):
                items = tuple(self._with_indices(i, indices) for i in tree.items)
                return replace(tree, items=items)
        return tree

    def _by_pattern(self, name: str, items: Sequence[Tree]) -> Tree:
        """Reword `einsum('ij,j->i', A, x)`, `rearrange(A, 'i j -> j i')`, `reduce(..., 'sum')`."""
        texts = [item.text for item in items if isinstance(item, Text)]
        tensors = [item for item in items if not isinstance(item, Text)]
        sides = [s.split(",") for s in texts[0].split("->")]
        split: Callable[[str], list[str]] = list if name == "einsum" else str.split
        inputs = [split(part.strip()) for part in sides[0]]
        letters = [x for part in inputs for x in part]
        result = split(sides[1][0].strip()) if len(sides) > 1 else sorted(set(letters))
        if len(inputs) != len(tensors) or not all(x.isidentifier() for x in (*letters, *result)):
            raise NotReadable
        if self.indices and len(self.indices) != len(result):
            raise NotReadable
        if not self.indices:
            self.added = tuple(result)
        to = dict(zip(result, self.indices or result, strict=True))
        for letter in dict.fromkeys(letters):
            if letter not in to:
                to[letter] = letter if letter not in self.indices else self._fresh()
        reads = [
            self._with_indices(self._reworded(t), [to[x] for x in part])
            for t, part in zip(tensors, inputs, strict=True)
        ]
        tree = reads[0]
        for other in reads[1:]:
            tree = Binary("*", tree, other)
        if name != "reduce" or len(texts) < 2:
            return tree
        reduction = F.reduction_of(texts[1])
        summed = tuple(to[x] for x in letters if x not in result)
        if reduction is None or not summed:
            raise NotReadable
        return replace(reduction, indices=summed, operands=(tree,))

    def _fresh(self) -> str:
        name = next(x for x in _FRESH if x not in self.seen and x not in self.indices)
        self.seen.add(name)
        return name


def _is_module(tree: Tree) -> bool:
    if isinstance(tree, Attribute):
        return _is_module(tree.value) and tree.name in _MODULES
    return isinstance(tree, Word) and tree.text in _MODULES


def _names(tree: Tree) -> Iterator[str]:
    """Return the indices that reads name, in order; those that reductions bind are left out."""
    bound = set(tree.indices) if isinstance(tree, Reduced) else set()
    bound = set() if isinstance(tree, Reduced) and tree.name in KEEPING_REDUCTIONS else bound
    if isinstance(tree, Bracketed) and not tree.is_call:
        for item in tree.items:
            yield from (p.text for p in walk(item) if isinstance(p, Word) and p.text.isidentifier())
        return
    for part in children(tree):
        yield from (name for name in _names(part) if name not in bound)


def _reads(tree: Tree) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return the tensors that are read, each with the indices of one read."""
    for part in walk(tree):
        if isinstance(part, Bracketed) and not part.is_call and isinstance(part.head, Word):
            names = tuple(i.text for i in part.items if isinstance(i, Word))
            if len(names) == len(part.items):
                yield part.head.text, names


def _dimension(tree: Tree) -> int | None:
    """Return a number, such as -1."""
    sign = 1
    if isinstance(tree, Unary) and tree.op == "-":
        sign, tree = -1, tree.operand
    return sign * int(tree.text) if isinstance(tree, Word) and tree.text.isdecimal() else None


def _named_dimensions(tree: Bracketed) -> list[int]:
    values = [value for key, value in tree.named if key in _DIMENSIONS]
    return [d for d in map(_dimension, values) if d is not None]


def _with_filter(tree: Tree, condition: Tree, names: set[str]) -> Tree | None:
    """Return a value whose outermost reduction over one of these names is filtered."""
    if isinstance(tree, Reduced) and names & set(tree.indices):
        return replace(tree, condition=F.conjunction(tree.condition, condition))
    if isinstance(tree, Binary):
        if (left := _with_filter(tree.left, condition, names)) is not None:
            return replace(tree, left=left)
        if (right := _with_filter(tree.right, condition, names)) is not None:
            return replace(tree, right=right)
    return None


def _call(name: str, *items: Tree) -> Tree:
    return Bracketed(Word(name), True, items)


_MEANINGS: dict[str, tuple[int, Callable[..., Tree]]] = {  # functions that are formulas here
    "masked_fill": (3, lambda x, mask, value: _call("where", mask, value, x)),
    "pow": (2, lambda x, y: Binary("**", x, y)),
    "square": (1, lambda x: Binary("**", x, Word("2"))),
    "reciprocal": (1, lambda x: Binary("/", Word("1"), x)),
    "log1p": (1, lambda x: _call("log", Binary("+", Word("1"), x))),
    "expm1": (1, lambda x: Binary("-", _call("exp", x), Word("1"))),
}
