"""Write a statement again in this language, as it was meant in torch, einops, NumPy or LaTeX.

`foreign` reads it. Here dimensions become the indices that stand there, methods and modules
become functions, matrix products and strings of einsum become products with indices, and what
chooses elements becomes a filter. A proposal is made only if it is a statement of this language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

from monocomp.declarations.vocabulary import FUNCTIONS, KEEPING_REDUCTIONS
from monocomp.language import foreign as F
from monocomp.language.foreign import NotReadable
from monocomp.language.meanings import has_meaning, meaning
from monocomp.language.modules import (
    UNSEEN,
    dimension,
    dimensions,
    is_module,
    named_dimensions,
    of_module,
)
from monocomp.language.notation import (
    Attribute,
    Binary,
    Bracketed,
    Choice,
    Extent,
    Filtered,
    Listed,
    Reduced,
    Slice,
    Text,
    Tree,
    Unary,
    Word,
    head_of,
    indices_in,
    names_in,
    reads_in,
    show,
    walk,
)

_TRANSPOSED = ("T", "mT", "H", "mH", "t", "transpose")
_PRODUCTS = ("matmul", "mm", "bmm", "dot", "mv")
_PATTERNED = ("einsum", "rearrange", "reduce")
_CASTS = ("to", "float", "half", "bfloat16", "double", "type_as", "contiguous", "clone", "detach")
_NEW_DIMENSIONS = (Word("None"), Attribute(Word("np"), "newaxis"))
_TRIANGLES = {"tril": "<=", "triu": ">="}
_FRESH = "kjdmnrstuvw"


def reword(statement: str) -> str | None:
    """Return a definition in this language, or None where it cannot be told what is meant."""
    try:
        statement = re.sub(r"^\s*(\w+)\s*=\s*lambda\s([\w\s,]+):", r"def \1(\2):", statement)
        text = re.sub(r"^\s*def\s+(\w+)\((.*?)\)\s*:\s*(?:return\s+)?", r"def \1(\2) = ", statement)
        head = re.match(r"def \w+\([\w\s,]*\) = ", text)
        if head:
            body = F.read("f = " + text[head.end() :]).body
            return head[0] + show(_Rewording(()).tree(body))
        definition = F.read(re.sub(r"^\s*(let|const|var|return)\s+(?=\S.*=)", "", text))
        return _definition(definition)
    except (NotReadable, RecursionError):
        return None


def _definition(definition: F.Definition) -> str:
    name, indices = F.left_side(definition.left)
    rewording = _Rewording(indices)
    body = rewording.tree(definition.body)
    if definition.is_added:
        summed = tuple(i for i in dict.fromkeys(names_in(body)) if i not in indices)
        if not summed:
            raise NotReadable
        body = Reduced("sum", summed, (body,))
    free = (*rewording.indices, *rewording.added)
    return f"{name}[{','.join(free)}] = {show(body)}" if free else f"{name} = {show(body)}"


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
        self.known: set[str] = set()  # the names that are indices
        self.shapes: dict[str, tuple[str, ...]] = {}

    def tree(self, tree: Tree) -> Tree:
        """Return a body in this language."""
        self.seen = {part.text for part in walk(tree) if isinstance(part, Word)}
        self.seen.update(self.indices)
        self.known = indices_in(tree, self.indices)
        self.shapes = dict(reads_in(tree))
        return self._reworded(tree)

    def _expected(self, tree: Tree, indices: Sequence[str]) -> Tree:
        """Return a value of these indices, which its tensors take where they have none."""
        outer, self.indices = self.indices, tuple(indices)
        made = self._reworded(tree)
        self.indices = outer
        return made if list(names_in(made)) else self._with_indices(made, indices)

    def _reworded(self, tree: Tree) -> Tree:
        match tree:
            case Text() | Slice() | Listed():
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
        if is_module(tree.value):
            return Word(tree.name)
        if tree.name in _TRANSPOSED:
            return self._transposed(tree.value)
        if tree.name == "values":  # max(A[i,j], dim=1).values
            return self._reworded(tree.value)
        raise NotReadable

    def _transposed(self, tree: Tree) -> Tree:
        if not list(names_in(tree)) and len(self.indices) > 1:
            *batch, row, column = self.indices
            return self._expected(tree, (*batch, column, row))
        tree = self._reworded(tree)
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
            if is_module(head.value):
                return self._bracketed(replace(tree, head=head.name))
            if head.name in _TRANSPOSED and not tree.is_call:
                return self._transposed(replace(tree, head=head_of(head.value)))
            if tree.is_call:
                items = (head.value, *tree.items)
                return self._bracketed(replace(tree, head=head.name, items=items))
            raise NotReadable
        if isinstance(head, Bracketed):
            return self._after_brackets(head, tree)
        if not isinstance(head, str):
            return self._times(head, tree)
        reduction = F.reduction_of(head)
        if reduction is not None:
            if not tree.is_call and all(isinstance(item, Word) for item in tree.items):
                raise NotReadable  # it has no operand
            return self._reduction(reduction, tree)
        is_call = tree.is_call or head in FUNCTIONS
        return self._call(head, tree) if is_call else self._read(tree)

    def _after_brackets(self, head: Bracketed, tree: Bracketed) -> Tree:
        """Reword `A[i][j]`, and `sum[j](x)`, also where its brackets are others."""
        name = head.head if isinstance(head.head, str) else ""
        reduction = F.reduction_of(name)
        if reduction is None and not head.is_call and not tree.is_call:
            return self._bracketed(replace(head, items=(*head.items, *tree.items)))
        if not tree.is_call and head.is_call and tree.items == (Word("0"),):
            return self._bracketed(head)  # max(A[i,j], dim=1)[0]
        if not tree.is_call and len(tree.items) == 1 and F.is_condition(tree.items[0]):
            return self._filtered(Filtered(head, tree.items[0]))
        if not tree.is_call and head.is_call and all(isinstance(i, Word) for i in tree.items):
            return self._expected(head, [i.text for i in tree.items if isinstance(i, Word)])
        if not tree.is_call:
            raise NotReadable
        if isinstance(head.head, Attribute):  # nn.Softmax(dim=-1)(x)
            items = (*tree.items, *head.items)
            return self._bracketed(Bracketed(of_module(head.head), True, items, head.named))
        made, dims = self._headed(reduction or Reduced(name, (), ()), head)
        return self._over(self._where(made, tree), tree.items, dims + named_dimensions(tree))

    def _headed(self, reduction: Reduced, head: Bracketed) -> tuple[Reduced, list[int]]:
        """Return a reduction, or a monoid, with what its brackets hold, and dimensions in them."""
        ranges = [item for item in head.items if isinstance(item, Filtered)]
        items = [item.value if isinstance(item, Filtered) else item for item in head.items]
        names = [i.text for i in items if isinstance(i, Word) and i.text.isidentifier()]
        conditions = [item for item in items if F.is_condition(item)]
        dims = [d for d in map(dimension, items) if d is not None]
        if len(names) + len(conditions) + len(dims) < len(items):
            raise NotReadable
        bounds = (c for c in map(self._known_bounds, ranges) if c is not None)
        condition = reduce(F.conjunction, (*conditions, *bounds), head.condition)
        if condition is not None and not names:  # sum[k <= q](A[q,k])
            words = [p.text for p in walk(condition) if isinstance(p, Word)]
            names = [w for w in words if w.isidentifier() and w not in self.indices][:1]
        dims += named_dimensions(head)
        made = replace(
            reduction,
            indices=tuple(names),
            condition=None if condition is None else self._reworded(condition),
            target=head.target,
            is_prefix=head.is_prefix or reduction.is_prefix,
        )
        return made, dims

    def _times(self, left: Tree, right: Bracketed) -> Tree:
        """Reword `(a + b)(c + d)`."""
        if not right.is_call or len(right.items) != 1:
            raise NotReadable
        return Binary("*", self._reworded(left), self._reworded(right.items[0]))

    def _read(self, tree: Bracketed) -> Tree:
        tree = replace(tree, items=tuple(i for i in tree.items if i not in _NEW_DIMENSIONS))
        if any(isinstance(item, Filtered) for item in tree.items):
            raise NotReadable
        if any(isinstance(item, Slice) for item in tree.items):
            spare = [i for i in self.indices if i not in set(names_in(tree))]
            items: list[Tree] = []
            for item in tree.items:
                if isinstance(item, Slice):
                    item = Word(spare.pop(0) if spare else self._added())
                items.append(item)
            tree = replace(tree, items=tuple(items))
        return replace(tree, items=tuple(map(self._reworded, tree.items)))

    def _added(self) -> str:
        self.added += (self._fresh(),)
        return self.added[-1]

    def _call(self, name: str, tree: Bracketed) -> Tree:
        if name in _PATTERNED and any(isinstance(i, Text) for i in tree.items):
            return self._by_pattern(name, tree.items)
        if name == "float" and len(tree.items) == 1 and isinstance(tree.items[0], Text):
            number = tree.items[0].text.strip().lower()
            sign, number = number[:1], number.lstrip("+-").replace("infinity", "inf")
            return Unary("-", Word(number)) if sign == "-" else Word(number)
        if name in _CASTS and tree.items:
            return self._reworded(tree.items[0])
        if name in _PRODUCTS and len(tree.items) == 2:
            return self._product(*tree.items)
        if name in _TRANSPOSED and tree.items:
            return self._transposed(tree.items[0])
        if name in _TRIANGLES and len(tree.items) == 1:
            return self._triangle(_TRIANGLES[name], tree.items[0])
        if name in ("size", "len") and tree.items:
            return self._extent(tree.items[0], tree.items[1:] or (Word("0"),))
        if has_meaning(name):
            return self._reworded(meaning(name, tree))
        if name != "where" and any(key not in UNSEEN for key, _ in tree.named):
            raise NotReadable
        items = tuple(map(self._reworded, tree.items))
        match name, items:
            case "sqrt" | "rsqrt", (Word(text=index),) if index in self.known:
                items = (Extent(index),)
        if name == "where":
            items = (*(Binary("==", Word(n), self._reworded(x)) for n, x in tree.named), *items)
        is_read = name not in FUNCTIONS and all(
            isinstance(item, Word) and item.text in self.known for item in items
        )
        return Bracketed(name, not is_read, items)  # A(i,j)

    def _triangle(self, comparison: str, tree: Tree) -> Tree:
        """Reword `tril(A)`: the last index is at most the last but one."""
        made = self._reworded(tree) if list(names_in(tree)) else self._expected(tree, self.indices)
        shape = self._shape(made)
        if len(shape) < 2:
            raise NotReadable
        row, column = map(Word, shape[-2:])
        return _call("where", Binary(comparison, column, row), made, Word("0"))

    def _extent(self, tensor: Tree, places: Sequence[Tree]) -> Tree:
        """Reword `x.shape[0]`: the extent of the index that is read there."""
        if isinstance(tensor, Word) and len(places) == 1 and tensor.text in self.shapes:
            place, shape = dimension(places[0]), self.shapes[tensor.text]
            if place is not None and -len(shape) <= place < len(shape):
                return Extent(shape[place])
        raise NotReadable

    # Reductions

    def _reduction(self, reduction: Reduced, tree: Bracketed) -> Tree:
        """Reword `softmax(x, dim=-1)`."""
        items = list(tree.items)
        if reduction.name in ("max", "min") and len(items) == 2 and not tree.named:
            return _call(reduction.name + "imum", *map(self._reworded, items))
        dims, reduction = named_dimensions(tree), self._where(reduction, tree)
        if len(items) == 2 and (places := dimensions(items[1])):
            dims, items = places, items[:1]
        names = [item.text for item in items[1:] if isinstance(item, Word)]
        if names and len(names) == len(items) - 1:  # softmax(x, k)
            reduction, items = replace(reduction, indices=tuple(names)), items[:1]
        if len(items) != 1:
            raise NotReadable
        return self._over(reduction, items, dims)

    def _where(self, reduction: Reduced, tree: Bracketed) -> Reduced:
        """Filter a reduction by `where=`, as NumPy does."""
        conditions = [self._reworded(value) for key, value in tree.named if key == "where"]
        return replace(reduction, condition=reduce(F.conjunction, conditions, reduction.condition))

    def _over(self, reduction: Reduced, operands: Sequence[Tree], dims: Sequence[int]) -> Tree:
        """Return a reduction over the indices that dimensions name."""
        if not operands:
            raise NotReadable
        (operand, *more) = operands
        if isinstance(operand, Filtered):  # sum(x for k in range(n))
            bounds = self._known_bounds(operand)
            condition = F.conjunction(reduction.condition, bounds)
            indices = reduction.indices or ((operand.index,) if operand.index else ())
            reduction = replace(reduction, indices=indices, condition=condition)
            operand = operand.value
        match operand:
            case Bracketed(head=str(index), is_call=True, items=(inside,)) if index in self.known:
                reduction, operand = replace(reduction, indices=(index,)), inside  # sum j (x)
        keeps = reduction.name in KEEPING_REDUCTIONS or reduction.is_prefix
        if reduction.indices or list(names_in(operand)):
            added = self.added
            operand = self._reworded(operand)
            indices = reduction.indices or self.added[len(added) :]  # sum(A[i,:])
            self.added = self.added if reduction.indices else added
            indices = indices or self._chosen(operand, dims, keeps)
        else:
            shape, indices = self._bare(dims, keeps)
            operand = self._expected(operand, shape)
        if not indices:
            raise NotReadable
        more = [self._reworded(other) for other in more]
        return replace(reduction, indices=indices, operands=(operand, *more))

    def _bare(self, dims: Sequence[int], keeps: bool) -> tuple[list[str], tuple[str, ...]]:
        """Return the indices of an operand that has none, and those that dimensions name."""
        if keeps and not self.indices:
            self._added()
        shape = list(self.indices or self.added)
        for place in dims or (() if keeps else (-1,)):
            if not keeps:
                shape.insert(place if place >= 0 else len(shape) + 1 + place, self._fresh())
        return shape, tuple(shape[d] for d in dims or (-1,) if -len(shape) <= d < len(shape))

    def _chosen(self, operand: Tree, dims: Sequence[int], keeps: bool) -> tuple[str, ...]:
        """Return the indices of an operand that dimensions name."""
        every = list(dict.fromkeys(names_in(operand)))
        for shape in (self._shape(operand), every):
            if shape and all(-len(shape) <= d < len(shape) for d in dims) and (dims or keeps):
                chosen = tuple(shape[d] for d in dims or (-1,))
                if keeps or not set(chosen) & set(self.indices):
                    return chosen
        summed = [i for i in self._shape(operand) if i not in self.indices]
        if dims and not summed and all(-len(every) <= d < len(every) for d in dims):
            return tuple(every[d] for d in dims)  # x[i] / x[i].sum(-1)
        return tuple(summed if not dims else summed[-1:])

    def _shape(self, tree: Tree) -> list[str]:
        """Return the indices of a value; those that two factors share are summed."""
        names = list(names_in(tree))
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
        if (inner := F.with_filter(value, condition, set(named))) is not None:
            return inner
        bound = [i for i in dict.fromkeys(names_in(value)) if i in named and i not in self.indices]
        if bound:
            return Reduced("sum", tuple(bound), (value,), condition)
        return _call("where", condition, value, Word("0"))

    def _known_bounds(self, tree: Filtered) -> Tree | None:
        """Return the condition, unless it only names a bound that nothing else does."""
        if tree.condition is None:
            return None
        words = [p.text for p in walk(tree.condition) if isinstance(p, Word)]
        known = {tree.index, *self.indices, *names_in(tree.value), *self.known}
        if tree.index and any(not w[:1].isdigit() and w not in known for w in words):
            return None
        return self._reworded(tree.condition)

    # Products with indices

    def _product(self, left: Tree, right: Tree) -> Tree:
        """Reword `A @ B`: the last index of A is the last but one of B."""
        is_bare, right_is_bare = (not list(names_in(factor)) for factor in (left, right))
        if not right_is_bare:
            if is_bare:
                raise NotReadable  # its indices cannot be told
            return Binary("*", self._reworded(left), self._reworded(right))
        if is_bare and not self.indices and not self.added:
            self.added = ("i", "j")
            self.seen.update(self.added)
        indices = self.indices or self.added
        if len(indices) < 2:
            raise NotReadable
        *batch, row, column = indices
        if is_bare:
            inner = self._fresh()
            left = self._expected(left, (*batch, row, inner))
        else:
            left = self._reworded(left)
            *_, inner = self._shape(left) or ("",)
            if inner in ("", *indices):
                raise NotReadable
        return Binary("*", left, self._expected(right, (*batch, inner, column)))

    def _with_indices(self, tree: Tree, indices: Sequence[str]) -> Tree:
        """Give the tensors of a value these indices."""
        match tree:
            case Word() if tree.text[:1].isalpha() and tree.text != "inf":
                self.shapes.setdefault(tree.text, tuple(indices))
                return Bracketed(tree.text, False, tuple(map(Word, indices)))
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
        tensors: list[Tree] = [item for item in items if not isinstance(item, Text)]
        sides = [s.split(",") for s in texts[0].split("->")]
        spaced = name != "einsum" or any(" " in part.strip() for part in (*sides[0], *sides[-1]))
        split: Callable[[str], list[str]] = str.split if spaced else list
        inputs = [split(part.strip()) for part in sides[0]]
        letters = [x for part in inputs for x in part]
        once = sorted(x for x, count in Counter(letters).items() if count == 1)
        result = split(sides[1][0].strip()) if len(sides) > 1 else once
        if len(inputs) != len(tensors) or not all(x.isidentifier() for x in (*letters, *result)):
            raise NotReadable
        if self.indices and len(self.indices) != len(result):
            raise NotReadable
        if not self.indices:
            self.added = tuple(result)
        tensors = [self._reworded(t) if list(names_in(t)) else t for t in tensors]
        to = dict(zip(result, self.indices or result, strict=True))
        for tensor, part in zip(tensors, inputs, strict=True):
            to = dict(zip(part, self._shape(tensor), strict=False)) | to
        for letter in dict.fromkeys(letters):
            if letter not in to:
                to[letter] = self._fresh() if letter in self.seen else letter
                self.seen.add(letter)
        reads = [
            self._expected(t, [to[x] for x in part])
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


def _call(name: str, *items: Tree) -> Tree:
    return Bracketed(name, True, items)
