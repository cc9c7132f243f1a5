"""Einstein's rule: an index that is neither on the left nor bound is summed, in each term.

Addends are terms of their own, and so are the sides of a comparison or quotient and the
arguments of a function. In each term in which the index occurs, the sum covers the smallest
product that holds its occurrences; subscripts are not parts that could be summed, so a read is
the smallest part there is. What could be meant two ways is refused, with both readings:

    exp(A[q,k])                     one read under a nonlinear function
    A[i,d] / B[i,d]                 both sides of a quotient
    maximum(A[i,d], B[i,d])         several arguments of one function
    exp(A[i,d] * B[d]) * C[i,d]     a product over the index under a function, times more

Functions made by `def` stand for their text: what their bodies bind is bound in their
arguments, and an index that their bodies have is summed where their text says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import NoReturn

from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS
from monocomp.errors import AmbiguousSumError
from monocomp.language import syntax as S
from monocomp.language.functions import expanded
from monocomp.language.notes import advice_on_size

Indices = frozenset[str]
_NONE: Indices = frozenset()


class FreeIndices:
    """Where indices occur freely, functions of the program seen through."""

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
        """The indices that a node binds in one of its children."""
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
        """The indices that occur at a node itself, so that no child holds them all."""
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
        """The indices that occur in an expression and are not bound inside it."""
        found = self._cache.get(id(node))
        if found is None:
            result = self.own(node)
            for number, part in enumerate(S.children(node)):
                result |= self.free(part) - self.bound(node, number)
            found = self._cache[id(node)] = (node, result)  # the node stays alive with its id
        return found[1]

    def expanded(self, node: S.Call) -> S.Expr:
        """The text that a call of a function made by `def` stands for."""
        return expanded(node, self._functions[node.function])


def keeps_indices(node: S.Reduce) -> bool:
    """Whether the result of an aggregate still has the indices that it runs along."""
    return node.prefix or node.op in KEEPING_REDUCTIONS


def add_implied_sums(
    body: S.Expr, left: Iterable[str], indices: FreeIndices, text: str | None = None
) -> S.Expr:
    """The body of a definition with its implied sums written out."""
    pending = indices.free(body).difference(left)
    order: dict[str, int] = {}
    for node in S.walk(body):
        if isinstance(node, S.Name):
            order.setdefault(node.name, node.span.start)
    ordered = sorted(pending, key=lambda name: (order.get(name, len(text or "")), name))
    return _Placing(indices, text or "").place(body, ordered, None)


class _Placing:
    """Puts each pending index where its sums belong, or says why that is not known."""

    def __init__(self, indices: FreeIndices, text: str) -> None:
        self.indices = indices
        self.text = text

    def place(self, node: S.Expr, pending: Sequence[str], under: S.Expr | None) -> S.Expr:
        """The node with sums over the pending indices, all of which occur in it.

        `under` is the outermost nonlinear part around the node, if any.
        """
        if not pending:
            return node
        parts = list(S.children(node))
        here: list[str] = []
        inside: list[list[str]] = [[] for _ in parts]
        for index in pending:
            holders = self.holders(node, index)
            if index in self.indices.own(node):
                if isinstance(node, S.Call) and not self.is_summed_as_a_whole(node, index, under):
                    return self.place(self.indices.expanded(node), pending, under)
                here.append(index)
            elif len(holders) == 1 or _has_terms(node, holders):
                for number in holders:
                    inside[number].append(index)
            else:
                self.check_one_reading(node, index, holders, under)
                here.append(index)
        for number, part in enumerate(parts):
            around = under or (None if _is_linear(node, number) else node)
            parts[number] = self.place(part, inside[number], around)
        result = S.with_children(node, parts)
        if not here:
            return result
        if under is not None and not _is_product(node):
            self.refuse_under(node, under, here)
        indices = tuple(S.Label(index, node.span) for index in here)
        return S.Reduce("sum", indices, None, (result,), implied=True, span=node.span)

    def holders(self, node: S.Expr, index: str) -> list[int]:
        """The children in which the index occurs free."""
        return [
            number
            for number, part in enumerate(S.children(node))
            if index in self.indices.free(part) - self.indices.bound(node, number)
        ]

    def is_summed_as_a_whole(self, node: S.Call, index: str, under: S.Expr | None) -> bool:
        """Does the text that a call stands for have its sum around all of it?"""
        text = self.indices.expanded(node)
        placed = self.place(text, [index], under)
        return isinstance(placed, S.Reduce) and placed.implied and placed.args[0] == text

    def check_one_reading(
        self, node: S.Expr, index: str, holders: Sequence[int], under: S.Expr | None
    ) -> None:
        """An index that several parts have: the sum must be around the node, and nowhere else."""
        if _is_product(node):
            if any(self.holds_product(f, index, under_function=False) for f in _factors(node)):
                self.refuse_beside(node, index)
        elif not _is_condition(node, holders[0]):
            self.refuse_between(node, index, holders)

    def holds_product(self, node: S.Expr, index: str, under_function: bool) -> bool:
        """Is there a product of parts with the index under a nonlinear function?"""
        holders = self.holders(node, index)
        if under_function and _is_product(node) and len(holders) > 1:
            return True
        return any(
            self.holds_product(
                S.children(node)[number], index, under_function or not _is_linear(node, number)
            )
            for number in holders
        )

    # --- what could be meant two ways -------------------------------------------------

    def quoted(self, node: S.Expr) -> str:
        return self.text[node.span.start : node.span.stop]

    def refuse_under(self, node: S.Expr, under: S.Expr, here: Sequence[str]) -> None:
        """One place under a nonlinear function: the sum could be inside or outside of it."""
        names = ", ".join(here)
        term = next(
            part
            for part in S.children(under)
            if part.span.start <= node.span.start and node.span.stop <= part.span.stop
        )
        before = self.text[under.span.start : term.span.start]
        after = self.text[term.span.stop : under.span.stop]
        is_alone = sum(n.name in here for n in S.walk(under) if isinstance(n, S.Name)) == len(here)
        self.refuse(
            node,
            here,
            "occurs only here, under a nonlinear function"
            if is_alone
            else "stands here under a nonlinear function, in a term of its own",
            _summed(names, self.quoted(under)),
            f"{before}{_summed(names, self.quoted(term))}{after}",
        )

    def refuse_between(self, node: S.Expr, index: str, holders: Sequence[int]) -> None:
        """Several parts of a node: the sum could be around it, or one in each of them."""
        pieces, at = [], node.span.start
        for number in holders:
            part = S.children(node)[number]
            pieces += [self.text[at : part.span.start], _summed(index, self.quoted(part))]
            at = part.span.stop
        inside = "".join((*pieces, self.text[at : node.span.stop]))
        where = "several operands" if isinstance(node, S.Binary) else "several arguments"
        if isinstance(node, S.Binary) and node.op == "/":
            where = "both sides of a quotient"
        around = _summed(index, self.quoted(node))
        self.refuse(node, [index], f"stands in {where}", around, inside)

    def refuse_beside(self, node: S.Expr, index: str) -> None:
        """A factor with a product under a function, beside other factors: those could be summed
        with it or by themselves."""
        parts = list(_factors(node))
        alone = [p for p in parts if not self.is_factor_of_sum(p, index)]
        others = " * ".join(self.quoted(p) for p in parts if p not in alone)
        apart = " * ".join([*map(self.quoted, alone), _summed(index, others)])
        why = "stands in several factors, in one of them in a product under a function"
        self.refuse(node, [index], why, _summed(index, self.quoted(node)), apart)

    def is_factor_of_sum(self, factor: S.Expr, index: str) -> bool:
        """Has the factor the index, and no sum over it of its own?"""
        return index in self.indices.free(factor) and not self.holds_product(factor, index, False)

    def refuse(
        self, node: S.Expr, here: Sequence[str], why: str, outside: str, inside: str
    ) -> NoReturn:
        outside, inside = (" ".join(reading.split()) for reading in (outside, inside))
        readable = len(outside) < 80 and len(inside) < 80 and "#" not in outside
        quoted = ", ".join(f"'{name}'" for name in here)
        raise AmbiguousSumError(
            f"the implied sum over {quoted} could be meant two ways",
            spans=node.span,
            notes=(f"{quoted} is not on the left and {why}",),
            help=advice_on_size(node, here)
            or (
                f"write {outside} or {inside}"
                if readable
                else f"write sum[{', '.join(here)}](...) outright"
            ),
        )


def _summed(names: str, text: str) -> str:
    """The text of a sum; one in brackets of its own gets no others."""
    depth, closes = 0, -1
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            closes = place
            break
    is_enclosed = text.startswith("(") and closes == len(text) - 1
    return f"sum[{names}]{text}" if is_enclosed else f"sum[{names}]({text})"


def _has_terms(node: S.Expr, holders: Sequence[int]) -> bool:
    """Are these parts of a node terms of their own, each with a sum of its own?"""
    match node:
        case S.Binary():
            return node.op in ("+", "-")
        case S.Call(function="where"):
            return 0 not in holders
    return isinstance(node, S.Compare | S.Logic)


def _is_condition(node: S.Expr, number: int) -> bool:
    """Is this the condition of what is linear in its other parts? No sum could be around it
    alone, so one over them all is around the node."""
    match node:
        case S.Call(function="where"):
            return number == 0
        case S.Reduce():
            return node.condition is not None and number == 0 and _is_linear(node, 1)
    return False


def _is_product(node: S.Expr) -> bool:
    return isinstance(node, S.Binary) and node.op == "*"


def _factors(node: S.Expr) -> Iterator[S.Expr]:
    if isinstance(node, S.Binary) and node.op == "*":
        yield from _factors(node.left)
        yield from _factors(node.right)
    else:
        yield node


def _is_linear(node: S.Expr, number: int) -> bool:
    """Whether a sum over this child equals the sum of the node."""
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
