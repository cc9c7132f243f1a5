"""Einstein's rule: an index that is neither on the left nor bound is summed.

The sum covers the smallest part of the expression that holds all free occurrences of the
index. Subscripts are not parts that could be summed, so a read is the smallest part there
is; under a nonlinear function a read alone could be summed inside or outside, and is
refused. Functions made by `def` stand for their text: what their bodies bind is bound in
their arguments, and a binding that covers only some places of an argument keeps the sum
outside the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter

from monocomp.errors import AmbiguousSumError
from monocomp.language.scoping import walk
from monocomp.language.syntax import (
    KEEPING_REDUCTIONS,
    Binary,
    Call,
    Expr,
    Function,
    Name,
    Read,
    Reduce,
    Unary,
    children,
    with_children,
)

Indices = frozenset[str]
_NONE: Indices = frozenset()


class FreeIndices:
    """Where indices occur freely, functions of the program seen through."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._cache: dict[int, tuple[Expr, Indices]] = {}
        self._body_free: dict[str, Indices] = {}
        # Per function and formal: the indices bound at every, and at some, place of it.
        self._bound_at_all: dict[str, dict[str, Indices]] = {}
        self._bound_at_some: dict[str, dict[str, Indices]] = {}
        self._functions = functions
        calls = {
            name: {
                node.function
                for node in walk(function.body)
                if isinstance(node, Call) and node.function in functions
            }
            for name, function in functions.items()
        }
        for name in TopologicalSorter(calls).static_order():
            self._summarise(functions[name])

    def _summarise(self, function: Function) -> None:
        every: dict[str, Indices] = {}
        some = dict.fromkeys(function.formals, _NONE)
        stack = [(function.body, _NONE, _NONE)]
        while stack:
            node, must, may = stack.pop()
            if isinstance(node, Name) and node.kind == "formal":
                every[node.name] = every.get(node.name, must) & must
                some[node.name] |= may
            for number, part in enumerate(children(node)):
                bound, maybe = self.bound(node, number), self._maybe_bound(node, number)
                stack.append((part, must | bound, may | maybe))
        self._bound_at_all[function.name] = {
            formal: every.get(formal, _NONE) for formal in function.formals
        }
        self._bound_at_some[function.name] = some
        self._body_free[function.name] = self.free(function.body)

    def bound(self, node: Expr, number: int) -> Indices:
        """The indices that a node binds in one of its children."""
        if isinstance(node, Reduce):
            return frozenset(node.indices)
        return self._of_formal(self._bound_at_all, node, number)

    def _maybe_bound(self, node: Expr, number: int) -> Indices:
        if isinstance(node, Reduce):
            return frozenset(node.indices)
        return self._of_formal(self._bound_at_some, node, number)

    def _of_formal(self, table: dict[str, dict[str, Indices]], node: Expr, number: int) -> Indices:
        if isinstance(node, Call) and node.function in self._functions:
            return table[node.function][self._functions[node.function].formals[number]]
        return _NONE

    def own(self, node: Expr) -> Indices:
        """The indices that occur at a node itself, so that no child holds them all."""
        match node:
            case Name(kind="index"):
                return frozenset((node.name,))
            case Read():
                return _NONE.union(*map(self.free, node.subscripts))
            case Reduce():
                kept = frozenset(node.indices if keeps_indices(node) else ())
                return kept | frozenset(() if node.target is None else (node.target,))
            case Call() if node.function in self._functions:
                here = self._body_free[node.function]
                for number, arg in enumerate(node.args):
                    partly = self._maybe_bound(node, number) - self.bound(node, number)
                    here |= self.free(arg) & partly
                return here
        return _NONE

    def free(self, node: Expr) -> Indices:
        """The indices that occur in an expression and are not bound inside it."""
        found = self._cache.get(id(node))
        if found is None:
            result = self.own(node)
            for number, part in enumerate(children(node)):
                result |= self.free(part) - self.bound(node, number)
            found = self._cache[id(node)] = (node, result)  # the node stays alive with its id
        return found[1]


def keeps_indices(node: Reduce) -> bool:
    """Whether the result of an aggregate still has the indices that it runs along."""
    return node.prefix or node.op in KEEPING_REDUCTIONS


def add_implied_sums(
    body: Expr, left: Iterable[str], indices: FreeIndices, text: str | None = None
) -> Expr:
    """The body of a definition with its implied sums written out."""
    pending = indices.free(body).difference(left)
    order: dict[str, int] = {}
    for node in walk(body):
        if isinstance(node, Name):
            order.setdefault(node.name, node.span.start)
    ordered = sorted(pending, key=lambda name: (order.get(name, len(text or "")), name))
    return _place(body, ordered, None, indices, text)


def _place(
    node: Expr, pending: list[str], under: Expr | None, indices: FreeIndices, text: str | None
) -> Expr:
    """Sum each index at this node or, when one child holds all of it, inside that child.

    `under` is the outermost nonlinear part around the node, if any.
    """
    if not pending:
        return node
    parts = list(children(node))
    own = indices.own(node)
    here, inside = [], [[] for _ in parts]  # type: tuple[list[str], list[list[str]]]
    for index in pending:
        holders = [
            number
            for number, part in enumerate(parts)
            if index in indices.free(part) - indices.bound(node, number)
        ]
        if index in own or len(holders) != 1:
            here.append(index)
        else:
            inside[holders[0]].append(index)
    for number, part in enumerate(parts):
        around = under or (None if _is_linear(node, number) else node)
        parts[number] = _place(part, inside[number], around, indices, text)
    result = with_children(node, tuple(parts)) if parts else node
    if not here:
        return result
    if under is not None and isinstance(node, Read | Name):
        _refuse(node, under, here, text or "")
    return Reduce("sum", tuple(here), None, (result,), implied=True, span=node.span)


def _is_linear(node: Expr, number: int) -> bool:
    """Whether a sum over this child equals the sum of the node."""
    match node:
        case Binary():
            return node.op in ("+", "-", "*") or (node.op == "/" and number == 0)
        case Unary():
            return node.op == "-"
        case Call(function="where"):
            return number > 0
        case Call(function="stop"):
            return True
        case Reduce():
            is_operand = node.condition is None or number > 0
            return is_operand and node.op in ("sum", "mean")
    return False


def _refuse(node: Expr, under: Expr, here: list[str], text: str) -> None:
    names = ", ".join(here)
    quoted = ", ".join(f"'{name}'" for name in here)
    inner = text[node.span.start : node.span.stop]
    before = text[under.span.start : node.span.start]
    after = text[node.span.stop : under.span.stop]
    outside = " ".join(f"sum[{names}]({before}{inner}{after})".split())
    inside = " ".join(f"{before}sum[{names}]({inner}){after}".split())
    readable = len(outside) < 80 and "#" not in outside
    raise AmbiguousSumError(
        f"the implied sum over {quoted} could be meant two ways",
        text=text,
        spans=node.span,
        notes=(f"{quoted} is not on the left and occurs only here, under a nonlinear function",),
        help=f"write {outside} or {inside}" if readable else f"write sum[{names}](...) outright",
    )
