"""Sums in sums, which may be taken in any order.

The gradient of a slope a head is a sum over queries and keys of what attention's other gradients
are made of:

    dslope[h] = sum[b](sum[k](sum[q if k <= q](G[b,h,q,k] * (k - q))))

A kernel of its own would compute all of G again. But:

    F[b,h,q]  = sum[k if k <= q](G[b,h,q,k] * (k - q))
    dslope[h] = sum[q](sum[b](F[b,h,q]))

A kernel with the rows b, h, q that goes over the same k has what F is made of, and stores it. What
is left to sum is small. In a sum of what is only read the longest index comes first, as it is cut
into blocks. A product of matrices for each value of an index is in the loop over that index, so the
index comes last along which elements lie one after the other:

    dW[c,h] = sum[q](sum[k](F[q,h,k] * Z[q,k,c]))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations

from monocomp import terms as T
from monocomp.costs.counting import elements
from monocomp.costs.roles import fits_whole, outer_folds, rows_of
from monocomp.declarations.record import record
from monocomp.planning.naming import NewNames
from monocomp.planning.search import Draft
from monocomp.rewrites.normal_form import normal_form, normalise
from monocomp.rewrites.products import apart
from monocomp.rewrites.single_folds import is_fold, reads_computed
from monocomp.rewriting.driver import Rewriter, Step
from monocomp.rewriting.rules import stated
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations, in_order
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
        for t in outer_folds([program.by_name[name]]):
            for nest in _nests(t)[:1]:
                held = [s for s in T.subterms(nest.element) if s.op in ("fold", "fold_at")]
                are_short = all(fits_whole(e, sizes) for f in held for e in f.attr.extents)
                if nest.taken_in or (held and (nest.is_product or not are_short)):
                    continue
                ordered = sorted(nest.indices, key=lambda i: -sizes[i.extent])
                reason = "the longest index first"
                if nest.is_product:
                    ordered = sorted(nest.indices, key=lambda i: -nest.distance(i))
                    reason = "elements lie one after the other along the last index"
                if ordered[0] is nest.indices[0]:
                    continue
                total = nest.total(ordered, nest.element)
                step = _step(program, program.by_name[name], t, total, "order_sums")
                yield replace(step, reason=reason)
                program = step.program


@stated
def store_partial_sum(draft: Draft) -> Iterator[list[Step]]:
    """Yield the steps that store what one of several sums comes to, for the others, in normal form:
    all of those for which a kernel has the rows, and a loop.

    Law:     sums may be taken in any order, and a value stored and read again
    Claims:  interchange, distributivity, units
    Needs:   what an inner sum is multiplied with is finite if what it reads is
    """
    program, limit = draft.program, draft.largest
    for reader in program.computed:
        for t in outer_folds([reader]):
            own = [i for i in reader.indices if i.name in t.free]
            for nest in _nests(t):
                for inner in nest.inner_sums():
                    rows = [i for i in nest.indices if i is not inner]
                    value = nest.over(inner)
                    names = _names_beside(draft, normalise(value), own, rows)
                    if names is not None and elements(names, draft.sizes) <= limit:
                        stored = _equation(program, value, names)
                        total = nest.total(rows, T.stored(stored, names), inner)
                        step = _step(program, reader, t, total, "store_partial_sum", stored)
                        check = partial(_is_partial, t, inner, value)
                        reason = "which is computed beside a kernel's loop"
                        yield [replace(step, check=check, reason=reason), *_normal(step, stored)]


def _step(
    start: Equations, reader: Equation, old: Term, new: Term, rule: str, *more: Equation
) -> Step:
    changed = replace(reader, body=T.replace(reader.body, old, new))
    others = [changed if e is reader else e for e in start.equations]
    program = replace(start, equations=in_order([*others, *more]))
    before = partial(start.shown, old)
    after = partial(program.shown, new)
    return Step.of(rule, (reader.name,), before, after, start, program)


def _is_partial(t: Term, inner: Term, value: Term) -> bool:
    return any(n.over(inner) is value for n in _nests(t))


def _normal(step: Step, e: Equation) -> list[Step]:
    """Return the steps to the normal form of an equation that another step has added."""
    rewriter = Rewriter(step.program)
    while rewriter.apply(normal_form, e.name):
        pass
    return rewriter.steps


# --- sums over several indices ----------------------------------------------------------------


@record()
class _Nest:
    """A sum over several indices of elements, where conditions hold; `taken_in` are factors of
    these that an inner sum is multiplied with."""

    indices: tuple[Term, ...]
    conditions: tuple[Term, ...]
    element: Term
    taken_in: tuple[Term, ...]

    @property
    def is_product(self) -> bool:
        """True if two factors each have an outer index that the other lacks: factors of the
        element, or of the first of several products that it adds."""
        names = {i.name for i in self.indices}
        first = apart(self.element, self.indices[-1].name)[0]
        own = [f.free - names for f in factors(first)]
        return any(a - b and b - a for a in own for b in own)

    def distance(self, index: Term) -> int:
        """Count the dimensions after those that an index subscripts, over all reads."""
        reads = [s for s in T.subterms(self.element) if s.op in T.READS]
        return sum(len(r.args) - 1 - r.args.index(index) for r in reads if index in r.args)

    def inner_sums(self) -> Iterator[Term]:
        """Yield the indices over which sums of their own may be computed, also where nobody looks
        at them."""
        for i in self.indices if T.holds_fold(self.element) else ():
            if not self._asked_of_rows(i) or not reads_computed(self.element):
                yield i

    def over(self, inner: Term) -> Term:
        """Return the sum over one index."""
        asked = [c for c in self.conditions if inner.name in c.free]
        return T.fold("sum", (inner,), T.conjunction(*asked), self.element)

    def total(self, rows: Sequence[Term], value: Term, inner: Term | None = None) -> Term:
        """Return the sum over the other indices, in this order, of the value that each has."""
        return nested(rows, self._asked_of_rows(inner), value)

    def _asked_of_rows(self, inner: Term | None) -> list[Term]:
        return [c for c in self.conditions if inner is None or inner.name not in c.free]


def _nests(t: Term) -> list[_Nest]:
    """Return the sums in sums as one, the most of them first. What stands between them are
    numbers."""
    nests: list[_Nest] = []
    indices: tuple[Term, ...] = ()
    conditions: tuple[Term, ...] = ()
    outside: tuple[Term, ...] = ()
    while is_fold(t, "sum") and t.kind == "float":
        (bound,), (condition, body) = T.open_fold(t)
        indices = (*indices, bound)
        conditions = (*conditions, *T.conjuncts(condition))
        if len(indices) > 1:
            nests.append(_Nest(indices, conditions, T.mul(body, *outside), outside))
        sums = [f for f in factors(body) if is_fold(f, "sum")]
        others = tuple(f for f in factors(body) if f not in sums)
        if len(sums) != 1 or not all(map(T.is_finite_if_read, others)):
            break
        outside = (*outside, *others)
        (t,) = sums
    return nests[::-1]


def nest(t: Term) -> tuple[tuple[Term, ...], tuple[Term, ...], Term]:
    """Return the sums of sums as one: its indices, conditions and element."""
    indices: list[Term] = []
    conditions: list[Term] = []
    while is_fold(t, "sum"):
        (bound,), (condition, t) = T.open_fold(t)
        indices.append(bound)
        conditions += T.conjuncts(condition)
    return tuple(indices), tuple(conditions), t


def nested(indices: Sequence[Term], conditions: Sequence[Term], element: Term) -> Term:
    """Return the sums in sums, the innermost over the last index, with each condition as far inside
    as may be."""
    for i in reversed(indices):
        own = [c for c in conditions if i is indices[0] or i.name in c.free]
        conditions = [c for c in conditions if c not in own]
        element = T.fold("sum", (i,), T.conjunction(*own), element)
    return element


# --- names --------------------------------------------------------------------------------------


def _equation(program: Equations, value: Term, names: Mapping[Term, Term]) -> Equation:
    name = NewNames(program)("F")
    return Equation(name, tuple(names.values()), _called(value, names))


def _names_beside(
    draft: Draft, value: Term, own: Sequence[Term], rows: Sequence[Term]
) -> dict[Term, Term] | None:
    """Return the name of each index in a kernel that has them all as rows, and a loop of the
    value, in the kernel's order; None if there is no such kernel. Its other rows are short."""
    for kernel in draft.kernels:
        known = rows_of(kernel.equations)
        order = list(dict.fromkeys(i for e in kernel.equations for i in e.indices))
        loops = {T.domain_of(f) for f in outer_folds(kernel.equations)}
        free = [i for i in order if i in known and i not in own]
        for chosen in permutations(free, len(rows)) if known.issuperset(own) else ():
            names = {i: i for i in own} | dict(zip(rows, chosen, strict=True))
            others = known.difference(names.values())
            is_alike = all(i.extent == name.extent for i, name in names.items())
            if is_alike and all(fits_whole(i.extent, draft.sizes) for i in others):
                folds = outer_folds([Equation("", tuple(names.values()), _called(value, names))])
                if not loops.isdisjoint(map(T.domain_of, folds)):
                    return dict(sorted(names.items(), key=lambda pair: order.index(pair[1])))
    return None


def _called(t: Term, names: Mapping[Term, Term]) -> Term:
    return T.substitute(t, {i.name: name for i, name in names.items()})
