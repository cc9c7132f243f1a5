"""Joining: a kernel adds up what another one would compute, from products that it has anyway.

Gradients of a product of matrices are sums over rows, and over columns, of the same products:

    dQ[q,d] = sum[k if k <= q](K[k,d] * dS[q,k])
    dK[k,d] = sum[q if k <= q](Q[q,d] * dS[q,k])

The kernel whose rows are k goes over all q, and has dS of each block of both. So it may add to dQ
what its rows come to, in memory, in any order:

    F[q,d] += sum[k of its rows if k <= q](K[k,d] * dS[q,k])

dQ is then made of F. That saves dQ's kernel what it would compute anew, and costs traffic between
processors and the cache: each block of rows adds to every F.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import product

from monocomp import terms as T
from monocomp.costs.roles import (
    kernel_groups,
    outer_folds,
    outer_folds_of,
    rows_of,
    sides_of_products,
)
from monocomp.planning.naming import Change
from monocomp.planning.search import Draft
from monocomp.planning.storing import read_by_all
from monocomp.rewrites.single_folds import is_fold
from monocomp.rewriting.driver import Step, result_of
from monocomp.rewriting.rules import stated
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations, Joined


def add_up_sums(draft: Draft) -> Iterator[list[Step]]:
    """Yield the steps that let a kernel add up the sum of another one."""
    program = draft.program
    if program.joined or program.splits or program.slices is not None:
        return  # splits and slices change what loops go over
    read = read_by_all(program)
    for step in join_by_accumulation(result_of(program, read), draft.sizes):
        yield [*read, step]


@stated
def join_by_accumulation(program: Equations, sizes: Mapping[str, int]) -> Iterator[Step]:
    """Yield the steps after which a kernel adds up the sum of another one that has the same
    products, of each block of its rows.

    Law:     the fold over a disjoint union is the product of the folds, in any order
    Claims:  interchange, units
    Needs:   the kernel's loop has the elements of the sum, and no others, and neither needs what
             the other stores

    Args:
        program: equations in kernels.
        sizes: a number for every extent.
    """
    needs: dict[str, set[str]] = {}
    for e in program.computed:
        read = program.read_by(e)
        needs[e.name] = read.union(*(needs[name] for name in read))
    for group in kernel_groups(program, sizes):
        own = {o.name for o in group}
        needed = own.union(*(needs[name] for name in own))
        for e in program.computed:
            if e.name not in needed and own.isdisjoint(needs[e.name]):
                for joined in _joined(e, group):
                    yield _step(program, e, joined)


def _joined(e: Equation, group: list[Equation]) -> Iterator[tuple[Term, Joined]]:
    """Yield the sum of an equation, and how the kernel of others adds it up."""
    folds, known = outer_folds([e]), {i for o in group for i in o.indices}
    if e in group or len(folds) != 1 or not is_fold(folds[0], "sum") or e.body.kind != "float":
        return
    (f,) = folds
    streamed = [i for i in e.indices if i not in known]
    if len(sides_of_products(f)) != 1 or not f.free.issuperset(i.name for i in streamed):
        return
    for rows in (i for i in rows_of(group) if i.extent == f.attr.extents[0] and i not in e.indices):
        (_, parts) = T.open_as(f, (rows.name,))
        others = rows_of(group) - {rows, *e.indices}  # which a filter has to give
        for o in group:
            for names, filters, (same, own) in _loops(o.body, streamed):
                given = (T.with_equal(t, filters, others) for t in (filters, *parts))
                admitted, condition, element = given
                products = _products(element)
                has_same = same is condition and products and products <= _products(own)
                if admitted is T.TRUE and has_same and others <= _positions(element):
                    yield f, Joined("", o.name, names, rows.name)
                    return


def _loops(
    t: Term, indices: Collection[Term]
) -> Iterator[tuple[tuple[str, ...], Term, tuple[Term, ...]]]:
    """Yield the sums over all of these indices, one in the other: their names, what the outer ones
    are filtered by, and condition and element of the last."""
    for g, i in product(outer_folds_of((t,)), indices):
        if is_fold(g, "sum") and g.attr.extents == (i.extent,) and i.name not in g.free:
            (_, (condition, element)) = T.open_as(g, (i.name,))
            if len(indices) == 1:
                yield (i.name,), T.TRUE, (condition, element)
            for names, filters, parts in _loops(element, [x for x in indices if x is not i]):
                yield (i.name, *names), T.conjunction(condition, filters), parts


def _positions(element: Term) -> set[Term]:
    """Return the indices at which inputs are read: beyond them nothing is defined."""
    reads = (t for t in T.subterms(element) if t.op in T.READS)
    return {a for t in reads for a in t.args if a.op == "index"}


def _products(element: Term) -> set[Term]:
    """Return the sums in an element."""
    return {t for t in T.subterms(element) if is_fold(t, "sum")}


def _step(program: Equations, e: Equation, how: tuple[Term, Joined]) -> Step:
    f, joined = how
    change = Change(program)
    summed = Equation(change(f"{e.name}_sum"), e.indices, f)
    return change.step(
        "join_by_accumulation",
        e,
        f,
        T.stored(summed, e.indices),
        summed,
        reason=f"by the kernel of {joined.beside}, which has the same products",
        joined=(*program.joined, replace(joined, name=summed.name)),
    )
