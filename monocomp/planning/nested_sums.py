"""Sums in sums, which may be taken in any order.

In a sum of what is only read the longest index comes first, as it is cut into blocks. A product of
matrices for each value of an index is in the loop over that index, so the index comes last along
which elements lie one after the other:

    dW[c,h] = sum[q](sum[k](F[q,h,k] * Z[q,k,c]))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from monocomp import terms as T
from monocomp.costs.roles import fits_whole, outer_folds
from monocomp.declarations.record import record
from monocomp.planning.naming import Change
from monocomp.rewrites.products import apart
from monocomp.rewrites.single_folds import is_fold
from monocomp.rewriting.driver import Step
from monocomp.rewriting.rules import stated
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.monomials import factors


@stated
def order_sums(program: Equations, sizes: Mapping[str, int]) -> Iterator[Step]:
    """Yield steps after which sums of what is read, or summed over axes that are held entirely,
    begin with the longest index, and those of products with the one along which elements are the
    farthest apart.

    Law:     sums may be taken in any order
    Claims:  interchange, units

    Args:
        program: equations in kernels.
        sizes: a number for every extent.
    """
    for name in [e.name for e in program.computed]:
        for nest in nests(program.by_name[name]):
            indices, element = nest.indices, nest.element
            held = [s for s in T.subterms(element) if s.op in ("fold", "fold_at")]
            is_product = len(indices) > 1 and _is_product(indices, element)
            are_short = all(fits_whole(e, sizes) for f in held for e in f.attr.extents)
            if _is_weighed_sum(element) or (held and (is_product or not are_short)):
                continue
            reason = "the longest index first"
            ordered = sorted(indices, key=lambda i: -sizes[i.extent])
            if is_product:
                ordered = sorted(indices, key=lambda i: -_distance(i, element))
                reason = "elements lie one after the other along the last index"
            if ordered[:1] != [*indices[:1]]:
                total = nested(ordered, nest.conditions, element)
                own = program.by_name[name], nest.total, total
                step = Change(program).step("order_sums", *own, reason=reason)
                yield step
                program = step.program


def _is_weighed_sum(element: Term) -> bool:
    """True if an element is one more sum, times what is finite."""
    sums = [f for f in factors(element) if is_fold(f, "sum")]
    others = (f for f in factors(element) if f not in sums)
    return len(sums) == 1 and all(map(T.is_finite_if_read, others))


def _is_product(indices: Sequence[Term], element: Term) -> bool:
    """True if two factors each have an outer index that the other lacks: factors of the element, or
    of the first of several products that it adds."""
    names = {i.name for i in indices}
    first = apart(element, indices[-1].name)[0]
    own = [f.free - names for f in factors(first)]
    return any(a - b and b - a for a in own for b in own)


def _distance(index: Term, element: Term) -> int:
    """Count the dimensions after those that an index subscripts, over all reads."""
    reads = [s for s in T.subterms(element) if s.op in T.READS]
    return sum(len(r.args) - 1 - r.args.index(index) for r in reads if index in r.args)


@record()
class Nest:
    """A sum of sums as one.

    Attributes:
        total: the outer sum.
        indices, conditions, element: of all of them.
    """

    total: Term
    indices: tuple[Term, ...]
    conditions: tuple[Term, ...]
    element: Term


def nests(e: Equation) -> Iterator[Nest]:
    """Yield the folds of an equation as sums of sums; one that is no sum has no indices."""
    for total in outer_folds([e]):
        t, indices, conditions = total, list[Term](), list[Term]()
        while is_fold(t, "sum"):
            (bound,), (condition, t) = T.open_fold(t)
            indices.append(bound)
            conditions += T.conjuncts(condition)
        yield Nest(total, tuple(indices), tuple(conditions), t)


def nested(indices: Sequence[Term], conditions: Sequence[Term], element: Term) -> Term:
    """Return the sums in sums, the innermost over the last index, with each condition as far inside
    as may be."""
    for i in reversed(indices):
        own = [c for c in conditions if i is indices[0] or i.name in c.free]
        conditions = [c for c in conditions if c not in own]
        element = T.fold("sum", (i,), T.conjunction(*own), element)
    return element
