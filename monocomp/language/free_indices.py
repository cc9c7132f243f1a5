"""Find the free indices of an expression, and the parts of it that a sum may leave.

Functions made by `def` stand for their text: what their bodies bind is bound in their arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from typing import TypeGuard

from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS
from monocomp.language import syntax as S
from monocomp.language.functions import expanded

Indices = frozenset[str]
_NONE: Indices = frozenset()


class FreeIndices:
    """Finds the free indices of expressions, functions of the program seen through."""

    def __init__(
        self, functions: Mapping[str, S.Function], monoids: Mapping[str, S.Monoid] | None = None
    ) -> None:
        self._cache: dict[int, tuple[S.Expr, Indices]] = {}
        self._body_free: dict[str, Indices] = {}
        # Per function and formal: the indices bound at every, and at some, place of it.
        self._bound_at_all: dict[str, dict[str, Indices]] = {}
        self._bound_at_some: dict[str, dict[str, Indices]] = {}
        self._functions = functions
        self._monoids = monoids or {}
        calls = {
            name: {
                node.function
                for node in S.walk(function.body)
                if isinstance(node, S.Call) and node.function in functions
            }
            for name, function in functions.items()
        }
        for name in TopologicalSorter(calls).static_order():
            self._summarise(functions[name])

    def _summarise(self, function: S.Function) -> None:
        every: dict[str, Indices] = {}
        some: dict[str, Indices] = dict.fromkeys(function.formals, _NONE)
        stack = [(function.body, _NONE, _NONE)]
        while stack:
            node, must, may = stack.pop()
            if isinstance(node, S.Name) and node.kind == "formal":
                every[node.name] = every.get(node.name, must) & must
                some[node.name] |= may
            for number, part in enumerate(S.children(node)):
                bound, maybe = self.bound(node, number), self._maybe_bound(node, number)
                stack.append((part, must | bound, may | maybe))
        self._bound_at_all[function.name] = {**dict.fromkeys(some, _NONE), **every}
        self._bound_at_some[function.name] = some
        self._body_free[function.name] = self.free(function.body)

    def bound(self, node: S.Expr, number: int) -> Indices:
        """Return the indices that a node binds in one of its children."""
        return self._bound(self._bound_at_all, node, number)

    def _maybe_bound(self, node: S.Expr, number: int) -> Indices:
        return self._bound(self._bound_at_some, node, number)

    def _bound(self, table: dict[str, dict[str, Indices]], node: S.Expr, number: int) -> Indices:
        if isinstance(node, S.Reduce):
            operand = number - (node.condition is not None)
            is_monoid = node.op in self._monoids and operand >= 0
            return frozenset(
                (*node.indices, *(self._monoids[node.op].indices[operand] if is_monoid else ()))
            )
        if isinstance(node, S.Call) and node.function in self._functions:
            return table[node.function][self._functions[node.function].formals[number]]
        return _NONE

    def own(self, node: S.Expr) -> Indices:
        """Return the indices that occur at a node itself, so that no child holds them all."""
        match node:
            case S.Name(kind="index"):
                return frozenset((node.name,))
            case S.Read() | S.Field():
                return _NONE.union(*map(self.free, node.subscripts))
            case S.Reduce():
                kept = frozenset(node.indices if keeps_indices(node) else ())
                return kept | frozenset(() if node.target is None else (node.target,))
            case S.Call() if node.function in self._functions:
                here = self._body_free[node.function]
                for number, arg in enumerate(node.args):
                    partly = self._maybe_bound(node, number) - self.bound(node, number)
                    here |= self.free(arg) & partly
                return here
        return _NONE

    def free(self, node: S.Expr) -> Indices:
        """Return the indices that occur in an expression and are not bound inside it."""
        entry = self._cache.get(id(node))
        if entry is None:
            result = self.own(node)
            for number, part in enumerate(S.children(node)):
                result |= self.free(part) - self.bound(node, number)
            entry = self._cache[id(node)] = (node, result)  # the node stays alive with its id
        return entry[1]

    def holders(self, node: S.Expr, index: str) -> list[int]:
        """Return the children in which the index occurs free."""
        return [
            number
            for number, part in enumerate(S.children(node))
            if index in self.free(part) - self.bound(node, number)
        ]

    def is_defined(self, node: S.Expr) -> TypeGuard[S.Call]:
        """True if this is a call of a function made by `def`."""
        return isinstance(node, S.Call) and node.function in self._functions

    def expanded(self, node: S.Call) -> S.Expr:
        """Return the text that a call of a function made by `def` stands for."""
        return expanded(node, self._functions[node.function])


def in_order(body: S.Expr, names: Indices) -> list[str]:
    """Return the free indices in order of their first appearance."""
    order: dict[str, int] = {}
    for node in S.walk(body):
        if isinstance(node, S.Name):
            order.setdefault(node.name, len(order))
    return sorted(names, key=lambda name: (order.get(name, len(order)), name))


def keeps_indices(node: S.Reduce) -> bool:
    """True if the result of an aggregate still has the indices that it runs along."""
    return node.prefix or node.op in KEEPING_REDUCTIONS


def is_product(node: S.Expr) -> TypeGuard[S.Binary]:
    return isinstance(node, S.Binary) and node.op == "*"


def factors(node: S.Expr) -> Iterator[S.Expr]:
    if is_product(node):
        yield from factors(node.left)
        yield from factors(node.right)
    else:
        yield node


def is_linear(node: S.Expr, number: int) -> bool:
    """True if a sum over this child equals the sum of the node."""
    match node:
        case S.Binary():
            return node.op in ("+", "-", "*") or (node.op == "/" and number == 0)
        case S.Unary():
            return node.op == "-"
        case S.Call(function="where"):
            return number > 0
        case S.Call(function="stop"):
            return True
        case S.Reduce():
            is_operand = node.condition is None or number > 0
            return is_operand and node.op in ("sum", "mean")
    return False
