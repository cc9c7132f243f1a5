"""Diagonals: sums of products of which one position moves along with the result's, taken in blocks.

The gradient of a bias that is learned for each distance is summed along diagonals:

    dR[r] = sum[k if 0 <= k + r + c and k + r + c < |q|](G[k + r + c, k])

where each G holds sums over channels. For a block of r these are no products of tiles, as the rows
that a key meets are others for each r. But the keys y of a block and the rows x of one meet all
along a diagonal of blocks, and are products of tiles there:

    E[j,x,y] = sum[i if ...](G[B * i + X * j + x + low, B * i + y])
    dR[r]    = sum[y]( E[(r + y + c - low) // X, (r + y + c - low) % X, y] )

With k = B * i + y and r + c = X * j + x - y + low these are the same pairs of row and key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from monocomp import terms as T
from monocomp.costs.counting import elements, tensor_sizes
from monocomp.declarations.record import record
from monocomp.extents.domain import split
from monocomp.extents.intervals import extremes
from monocomp.extents.nominal import LOOP_BLOCK, ROW_BLOCK, planned_sizes
from monocomp.planning.differences import sorted_sums, sum_by_difference
from monocomp.planning.naming import Change
from monocomp.planning.nested_sums import Nest, nested, nests
from monocomp.planning.search import Draft
from monocomp.rewriting.driver import Step
from monocomp.rewriting.rules import stated
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations

ROWS, KEYS = ROW_BLOCK, (ROW_BLOCK, LOOP_BLOCK)  # as many keys as leave little enough to store
MOST = 4  # times what is stored: no more than all inputs and outputs together


def along_diagonals(draft: Draft) -> Iterator[list[Step]]:
    """Yield the steps that take sums along diagonals in blocks."""
    limit = sum(tensor_sizes(draft.program, draft.sizes)) // MOST
    for e in draft.program.computed:
        summed, program, steps = e, draft.program, []
        by_difference = next(sorted_sums(e), None)
        if by_difference is not None:
            step, summed = sum_by_difference(program, e, by_difference)
            program, steps = step.program, [step]
        for diagonal in islice(_diagonals(summed), 1):
            for keys in KEYS:
                step, stored = sum_along_diagonals(program, summed, diagonal, keys)
                known = planned_sizes(step.program, draft.sizes)
                if elements(stored.indices, known) <= limit:
                    yield [*steps, step]
                    break


@record()
class _Diagonal(Nest):
    """A sum of elements that have a position k + sign * r + offset; k is its last index.

    Attributes:
        r: an index of the result.
        sign, offset: 1 or -1, and what no index is in.
    """

    r: Term
    sign: int
    offset: Term

    @property
    def moving(self) -> Term:
        """Return the distance of a row from its key."""
        return T.add(T.mul(T.const(self.sign), self.r), self.offset)


def _diagonals(e: Equation) -> Iterator[_Diagonal]:
    """Yield the sums along diagonals in an equation whose elements hold sums."""
    for nest in nests(e):
        indices, element = nest.indices, nest.element
        if not indices or not T.holds_fold(element):
            continue
        subscripts = {a for s in T.subterms(element) if s.op in T.READS for a in s.args}
        for u in sorted(subscripts, key=lambda a: a.key):
            for k in (i for i in indices if i.name in u.free):
                for r in (i for i in e.indices if i.name in u.free):
                    offsets = [T.add(u, T.neg(k), T.mul(T.const(-s), r)) for s in (1, -1)]
                    for sign, offset in zip((1, -1), offsets, strict=True):
                        if not offset.free and _is_known_to_the_host(offset):
                            others = tuple(i for i in indices if i is not k)
                            own = (*others, k), nest.conditions, element
                            yield _Diagonal(nest.total, *own, r, sign, offset)


def _is_known_to_the_host(t: Term) -> bool:
    return all(s.op in ("const", "extent", "param", "add", "mul") for s in T.subterms(t))


def _is_within(d: _Diagonal, bounds: Mapping[str, Term]) -> bool:
    """True if the conditions are known to hold only for values of r that the result has."""
    extent = d.r.extent
    size = bounds.get(extent, T.extent_of(extent))
    last = {i.name: T.sub(T.extent_of(i.extent), T.const(1)) for i in d.indices}
    ranges = {name: (T.const(0), end) for name, end in last.items()}
    return all(
        any(T.compare("<=", T.const(0), extremes(t, ranges)[0]) is T.TRUE for t in i.lower)
        and any(T.compare("<=", extremes(t, ranges)[1], size) is T.TRUE for t in i.upper)
        for i in split(d.r, T.conjunction(*d.conditions)).intervals
    )


def _are(terms: Sequence[Term], others: Sequence[Term], values: Mapping[str, Term]) -> bool:
    """True if the terms, with these values for indices, are the others."""
    return all(T.substitute(t, values) is o for t, o in zip(terms, others, strict=True))


@stated
def sum_along_diagonals(
    program: Equations, e: Equation, d: _Diagonal, block: int
) -> tuple[Step, Equation]:
    """Return the step that stores the sums of a block, of so many keys, and these.

    Law:     sums may be taken in any order, and a value stored and read again; `k = Y * i + y` and
             `k + r + c - low = X * j + x` are each so for one i and j, with `0 <= y < Y` and
             `0 <= x < X`
    Claims:  interchange, units, division with remainder
    Needs:   at these i, j, x and y the element is that of k and r
    """
    change = Change(program)
    rows, keys, one = T.const(ROWS), T.const(block), T.const(1)
    k = d.indices[-1]
    count, most = T.extent_of(k.extent), T.sub(T.extent_of(d.r.extent), one)
    ends = d.offset, T.add(d.offset, T.mul(T.const(d.sign), most))
    least, largest = ends if d.sign > 0 else ends[::-1]
    low = T.mul(rows, T.floordiv(least, rows))
    reach = T.add(largest, keys, T.neg(low), T.const(-1))
    i = change.bounded("i", T.floordiv(T.add(count, keys, T.const(-1)), keys))
    j = change.bounded("j", T.add(T.floordiv(reach, rows), one))
    x, y = change.bounded("x", rows), change.bounded("y", keys)

    key = T.add(T.mul(keys, i), y)
    distance = T.add(T.mul(rows, j), x, T.neg(y), low)
    r = T.mul(T.const(d.sign), T.sub(distance, d.offset))
    values = {k.name: key, d.r.name: r}
    element, *asked = (T.substitute(t, values) for t in (d.element, *d.conditions))
    asked.append(T.compare("<", key, count))
    if not _is_within(d, program.declared.bounds):
        asked += [T.compare("<=", T.const(0), r), T.compare("<=", r, most)]
    total = nested((*d.indices[:-1], i), asked, element)
    others = tuple(o for o in e.indices if o is not d.r and o.name in d.total.free)
    stored = Equation(change("E"), (*others, j, x, y), total)

    position = T.add(d.moving, y, T.neg(low))
    at = T.stored(stored, (*others, T.floordiv(position, rows), T.modulo(position, rows), y))
    summed = T.fold("sum", (y,), T.TRUE, at)
    y_there = {y.name: T.sub(k, T.mul(keys, i))}
    x_there = T.sub(T.substitute(position, y_there), T.mul(rows, j))
    check = partial(_are, (key, r), (k, d.r), {**y_there, x.name: x_there})
    reason = "as rows and keys of blocks are products of tiles"
    how = "sum_along_diagonals", e, d.total, summed, stored
    return change.step(*how, check=check, reason=reason), stored
