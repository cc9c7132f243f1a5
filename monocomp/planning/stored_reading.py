"""Reading what a kernel stores, wherever it was computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from monocomp import terms as T
from monocomp.costs.closing import close
from monocomp.costs.operands import Operand, computed_operands, is_number, with_operand
from monocomp.rewrites.single_folds import is_fold, opened_sum
from monocomp.terms import Term
from monocomp.terms.equations import Equation
from monocomp.terms.monomials import factors


class StoredReading:
    """Rewrites terms to read an equation's value wherever they compute it.

    Args:
        equation: what is stored.
        closed: its value, as a function of `@0`, `@1`, ...
        is_operand: is it one side of products of matrices?
        number: what it is multiplied by when it is stored.
        order: which of `@0`, `@1`, ... its indices are; all in order, unless given.
    """

    def __init__(
        self,
        equation: Equation,
        closed: Term,
        is_operand: bool = False,
        number: Term = T.ONE,
        order: Sequence[int] | None = None,
    ) -> None:
        self.equation, self.closed = equation, closed
        self.is_operand, self.number = is_operand, number
        self.order = range(len(equation.indices)) if order is None else order
        self._rewrite = T.transform(self._change)
        self.read: dict[Term, Term] = {}  # by what was computed

    def __call__(self, t: Term) -> Term:
        return self._rewrite(t)

    def _change(self, t: Term) -> Term | None:
        if not self.closed.folded <= t.folded:
            return t
        if not self.is_operand:
            return self._stored(t)
        for operand in _operands(t):
            stored = self._stored(operand.value)
            if stored is not None:
                return with_operand(t, operand._replace(number=self.number), stored)
        return _with_numbers_outside(T.map_children(t, self._rewrite))

    def _stored(self, t: Term) -> Term | None:
        """Return the element of the equation that a term equals, if it equals one."""
        if t.op != self.closed.op or t.kind != self.closed.kind:
            return None
        closed, subscripts = close(t)
        if closed is not self.closed:
            return None
        read = T.stored(self.equation, [subscripts[n] for n in self.order])
        self.read[times(self.number, t)] = read
        return read


def times(number: Term, t: Term) -> Term:
    return t if number is T.ONE else T.mul(number, t)


def _with_numbers_outside(t: Term) -> Term:
    """Return a sum of sums without what these were to be multiplied by, which stands beside it."""
    if is_fold(t, "sum"):
        (bound,), (condition, element) = T.open_fold(t)
        sums = [f for f in factors(element) if is_fold(f, "sum")]
        numbers = [f for f in factors(element) if is_number(f)]
        if numbers and len(sums) + len(numbers) == len(factors(element)):
            return T.mul(*numbers, T.fold("sum", (bound,), condition, T.mul(*sums)))
    return t


def _operands(t: Term) -> Iterable[Operand]:
    opened = opened_sum(t)
    return () if opened is None else computed_operands(*opened).values()
