"""Readings of an index that could be summed in two ways, with their sums written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from monocomp.language import syntax as S
from monocomp.language.free_indices import FreeIndices, is_linear


def summed(node: S.Expr, names: Sequence[str]) -> S.Expr:
    """Return the implied sum of an expression."""
    indices = tuple(S.Label(name, node.span) for name in names)
    return S.Reduce("sum", indices, None, (node,), implied=True, span=node.span)


class Readings:
    """Writes out the sums that an index has in the terms of an expression."""

    def __init__(self, indices: FreeIndices) -> None:
        self.indices = indices

    def inside(self, node: S.Expr, index: str) -> S.Expr:
        """Return the node with sums inside of each child that has the index.

        exp(A[q,d] + B[q])      exp(sum[d](A[q,d]) + B[q])
        A[q,d] > 0              sum[d](A[q,d]) > 0
        """
        parts = list(S.children(node))
        for number in self.indices.holders(node, index):
            part = parts[number]
            if isinstance(node, S.Field) and isinstance(part, S.Reduce):
                parts[number] = self.inside(part, index)
            elif _is_truth(node, number):
                parts[number] = self.in_condition(part, index)
            else:
                parts[number] = self.in_number(part, index)
        return S.with_children(node, parts)

    def in_number(self, node: S.Expr, index: str) -> S.Expr:
        """Return a number with sums in its terms, or one around it where that is the same."""
        if not self.is_one_term(node, index):
            return self.inside(node, index)
        if isinstance(node, S.Reduce) and node.implied:
            return replace(node, indices=(*node.indices, S.Label(index, node.span)))
        return summed(node, [index])

    def in_condition(self, node: S.Expr, index: str) -> S.Expr:
        """Return a condition with sums in the numbers that it compares; truth values have none."""
        if self.indices.is_defined(node):
            return self.in_condition(self.indices.expanded(node), index)
        if isinstance(node, S.Compare) or _is_truth(node, 0):
            return self.inside(node, index)
        any_of = (S.Label(index, node.span),)
        return S.Reduce("any", any_of, None, (node,), span=node.span)

    def is_one_term(self, node: S.Expr, index: str) -> bool:
        """True if a sum around a number is the same as sums in its terms."""
        holders = self.indices.holders(node, index)
        parts = [S.children(node)[number] for number in holders]
        match node:
            case S.Compare() | S.Logic() | S.Unary(op="not"):
                return False
            case S.Binary(op="+" | "-"):
                return len(parts) == 2 and all(self.is_one_term(part, index) for part in parts)
            case S.Call(function="where") if parts and 0 not in holders:
                return len(parts) == 2 and all(self.is_one_term(part, index) for part in parts)
        if len(parts) == 1 and is_linear(node, holders[0]):
            return self.is_one_term(parts[0], index)
        return True

    def is_summable(self, condition: S.Expr, index: str) -> bool:
        """True if sums over the index could stand in a condition: it compares numbers that are
        read with the index, and has it nowhere else."""
        if self.indices.is_defined(condition):
            return self.is_summable(self.indices.expanded(condition), index)
        if index in self.indices.own(condition):
            return False
        parts = [S.children(condition)[n] for n in self.indices.holders(condition, index)]
        check = self.reads if isinstance(condition, S.Compare) else self.is_summable
        return bool(parts) and all(check(part, index) for part in parts)

    def reads(self, node: S.Expr, index: str) -> bool:
        """True if a tensor is read with the index."""
        if self.indices.is_defined(node):
            return self.reads(self.indices.expanded(node), index)
        if isinstance(node, S.Read) and index in self.indices.own(node):
            return True
        parts = S.children(node)
        return any(self.reads(parts[n], index) for n in self.indices.holders(node, index))


def _is_truth(node: S.Expr, number: int) -> bool:
    """True if this child of a node is a condition."""
    match node:
        case S.Call(function="where"):
            return number == 0
        case S.Reduce():
            return node.op in ("any", "all") or (node.condition is not None and number == 0)
        case S.Unary():
            return node.op == "not"
    return isinstance(node, S.Logic)
