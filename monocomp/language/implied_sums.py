"""Einstein's rule: an index that is neither on the left nor bound is summed, in each term.

Addends are terms of their own, and so are the sides of a comparison or quotient and the
arguments of a function. In each term in which the index occurs, the sum covers the smallest
product that holds its occurrences; subscripts are not parts that could be summed, so a read is
the smallest part there is. What could be meant two ways is refused, with both readings:

    exp(A[q,k])                     one read under a nonlinear function
    A[i,d] / B[i,d]                 both sides of a quotient
    maximum(A[i,d], B[i,d])         several arguments of one function
    where(A[i,d] > 0, B[i,d], 0)    a number that a condition compares, and what it guards
    exp(A[i,d] * B[d]) * C[i,d]     a product over the index under a function, times more
    T[A[i,d] * B[d]]                a product over the index in a subscript

A condition on positions, such as `k <= q`, or on truth values has no sum of its own: one over all
of `where(k <= q, A[q,k], 0)` is meant. Functions made by `def` stand for their text: what their
bodies bind is bound in their arguments, and an index that their bodies have is summed where their
text says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import NoReturn

from monocomp.errors import AmbiguousSumError, quoted
from monocomp.language import syntax as S
from monocomp.language.free_indices import FreeIndices, factors, in_order, is_linear, is_product
from monocomp.language.notes import advice_on_size
from monocomp.language.printing import show
from monocomp.language.readings import Readings, summed


def add_implied_sums(
    body: S.Expr, left: Iterable[str], indices: FreeIndices, text: str | None = None
) -> S.Expr:
    """Return the body of a definition with its implied sums written out."""
    pending = in_order(body, indices.free(body).difference(left))
    return _Placing(indices, text or "", pending).place(body, pending, None)


class _Placing:
    """Puts each pending index where its sums belong, or says why that is not known."""

    def __init__(self, indices: FreeIndices, text: str, pending: Sequence[str]) -> None:
        self.indices = indices
        self.text = text
        self.pending = pending
        self.readings = Readings(indices)
        self.calls: list[S.Call] = []  # of functions made by `def`, which are written out
        self.fields: dict[int, S.Field] = {}  # by aggregate: alone it is no number

    def place(self, node: S.Expr, pending: Sequence[str], under: S.Expr | None) -> S.Expr:
        """Return the node with sums over the pending indices, all of which occur in it.

        `under` is the outermost nonlinear part around the node, if any.
        """
        if not pending:
            return node
        if isinstance(node, S.Field):
            self.fields[id(node.operand)] = node
        parts = list(S.children(node))
        here: list[str] = []
        inside: list[list[str]] = [[] for _ in parts]
        for index in pending:
            holders = self.indices.holders(node, index)
            if index in self.indices.own(node):
                if isinstance(node, S.Call) and not self.is_summed_as_a_whole(node, index, under):
                    return self.place_in_call(node, pending, under)
                self.check_subscripts(node, index)
                here.append(index)
            elif len(holders) == 1 or _has_terms(node, holders):
                for number in holders:
                    inside[number].append(index)
            else:
                self.check_one_reading(node, index, holders)
                here.append(index)
        for number, part in enumerate(parts):
            around = under or (None if is_linear(node, number) else node)
            parts[number] = self.place(part, inside[number], around)
        result = S.with_children(node, parts)
        if not here:
            return result
        if under is not None and not is_product(node):
            self.refuse_under(node, under, here)
        return summed(result, here)

    def place_in_call(self, node: S.Call, pending: Sequence[str], under: S.Expr | None) -> S.Expr:
        """Return the text that a call stands for, with its sums."""
        self.calls.append(node)
        placed = self.place(self.indices.expanded(node), pending, under)
        self.calls.pop()
        return placed

    def is_summed_as_a_whole(self, node: S.Call, index: str, under: S.Expr | None) -> bool:
        """True if the text that a call stands for has its sum around all of it."""
        placed = self.place_in_call(node, [index], under)
        is_sum = isinstance(placed, S.Reduce) and placed.implied
        return is_sum and S.children(placed)[0] == self.indices.expanded(node)

    def check_one_reading(self, node: S.Expr, index: str, holders: Sequence[int]) -> None:
        """An index that several parts have: the sum must be around the node, and nowhere else."""
        if is_product(node):
            if any(self.holds_product(f, index, under_function=False) for f in factors(node)):
                self.refuse_beside(node, index)
        elif not _is_condition(node, holders[0]) or self.readings.is_summable(
            S.children(node)[0], index
        ):
            self.refuse_between(node, index)

    def check_subscripts(self, node: S.Expr, index: str) -> None:
        """A product in a subscript could have a sum of its own."""
        parts = node.subscripts if isinstance(node, S.Read | S.Field) else ()
        if any(self.holds_product(part, index, under_function=True) for part in parts):
            why = "stands in a product in a subscript"
            self.refuse(node, [index], why, node, self.readings.inside)

    def holds_product(self, node: S.Expr, index: str, under_function: bool) -> bool:
        """True if there is a product of parts with the index under a nonlinear function."""
        holders = self.indices.holders(node, index)
        if under_function and is_product(node) and len(holders) > 1:
            return True
        return any(
            self.holds_product(
                S.children(node)[number], index, under_function or not is_linear(node, number)
            )
            for number in holders
        )

    # --- what could be meant two ways -------------------------------------------------

    def refuse_under(self, node: S.Expr, under: S.Expr, here: Sequence[str]) -> None:
        """One place under a nonlinear function: the sum could be inside or outside of it."""
        is_alone = sum(n.name in here for n in S.walk(under) if isinstance(n, S.Name)) == len(here)
        why = (
            "occurs only here, under a nonlinear function"
            if is_alone
            else "stands here under a nonlinear function, in a term of its own"
        )
        self.refuse(node, here, why, under, self.readings.inside)

    def refuse_between(self, node: S.Expr, index: str) -> None:
        """Several parts of a node: the sum could be around it, or one in each of them."""
        where = "several operands" if isinstance(node, S.Binary) else "several arguments"
        if isinstance(node, S.Binary) and node.op == "/":
            where = "both sides of a quotient"
        whole = self.fields.get(id(node), node)
        self.refuse(node, [index], f"stands in {where}", whole, self.readings.inside)

    def refuse_beside(self, node: S.Expr, index: str) -> None:
        """A factor with a product under a function, beside other factors: those could be summed
        with it or by themselves."""
        why = "stands in several factors, in one of them in a product under a function"
        self.refuse(node, [index], why, node, self.apart)

    def apart(self, product: S.Expr, index: str) -> S.Expr:
        """Return a product in which factors that hold a product under a function have a sum of
        their own, and those that are left have one."""
        parts = list(factors(product))
        alone = [p for p in parts if not self.is_factor_of_sum(p, index)]
        others = [p for p in parts if p not in alone]
        if others:
            return _product([*alone, summed(_product(others), [index])])
        holders = (index in self.indices.free(p) for p in parts)
        pairs = zip(parts, holders, strict=True)
        return _product([self.place(p, [index], None) if has else p for p, has in pairs])

    def is_factor_of_sum(self, factor: S.Expr, index: str) -> bool:
        """True if the factor has the index, and no sum over it of its own."""
        return index in self.indices.free(factor) and not self.holds_product(factor, index, False)

    def is_ambiguous(self, node: S.Expr, index: str) -> bool:
        """True if the sum over one index alone could be meant two ways."""
        try:
            _Placing(self.indices, self.text, [index]).place(node, [index], None)
        except AmbiguousSumError:
            return True
        return False

    def refuse(
        self,
        node: S.Expr,
        here: Sequence[str],
        why: str,
        whole: S.Expr,
        inside: Callable[[S.Expr, str], S.Expr],
    ) -> NoReturn:
        """Raise the error, with a sum around `whole` and one inside of it, as `inside` says."""
        more = [i for i in self.pending if i not in here and i in self.indices.free(whole)]
        names = [*here, *(i for i in more if self.is_ambiguous(whole, i))]
        around = show(summed(whole, names), self.text)
        within = show(reduce(inside, names, whole), self.text)
        between = " or " if len(around + within) < 160 else "\n        or "
        stands_for = (
            f"{show(call, self.text)} stands for {show(self.indices.expanded(call), self.text)}"
            for call in self.calls
        )
        each = quoted(here) if len(here) == 1 else f"each of {quoted(here)}"
        raise AmbiguousSumError(
            f"the implied sum over {quoted(here)} could be meant two ways",
            spans=node.span,
            notes=(f"{each} is not on the left and {why}", *stands_for),
            help=advice_on_size(whole, here) or f"write {around}{between}{within}",
        )


def _has_terms(node: S.Expr, holders: Sequence[int]) -> bool:
    """True if these parts of a node are terms of their own, each with a sum of its own."""
    match node:
        case S.Binary():
            return node.op in ("+", "-")
        case S.Call(function="where"):
            return 0 not in holders
    return isinstance(node, S.Compare | S.Logic)


def _is_condition(node: S.Expr, number: int) -> bool:
    """True if this is the condition of what is linear in its other parts."""
    match node:
        case S.Call(function="where"):
            return number == 0
        case S.Reduce():
            return node.condition is not None and number == 0 and is_linear(node, 1)
    return False


def _product(parts: Sequence[S.Expr]) -> S.Expr:
    return reduce(lambda x, y: S.Binary("*", x, y, span=x.span.to(y.span)), parts)
