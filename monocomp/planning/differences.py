"""Differences: sums sorted by a difference of positions are taken for each difference first.

The gradient of a bias that is looked up by the distance of key and row adds up, for each entry n of
the table, the pairs that have looked it up:

    dbias[n] = sum[k](sum[q if n == bucket(k - q)](G[q,k]))

where each G holds sums over channels. These would be computed again for each n, though a pair has
one n alone. But all pairs of one distance have the same:

    D[r]     = sum[q if 0 <= q + r + 1 - |q| and q + r + 1 - |q| < |k|](G[q, q + r + 1 - |q|])
    dbias[n] = sum[r if n == bucket(r + 1 - |q|)](D[r])

and D is a sum along diagonals (`diagonals`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import permutations
from operator import is_

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.planning.naming import Change
from monocomp.planning.nested_sums import Nest, nested, nests
from monocomp.rewriting.driver import Step
from monocomp.rewriting.rules import stated
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations


@record()
class Sorted(Nest):
    """A sum of the elements for which an index is a number that follows from k - q; its conditions
    are the others.

    Attributes:
        n: the index of the result.
        number: what it is.
        q, k: two of the sum's indices.
    """

    n: Term
    number: Term
    q: Term
    k: Term

    def key(self, r: Term) -> Term:
        """Return the k with difference r, of which the least is 1 - |q|."""
        return T.add(self.q, r, T.const(1), T.neg(T.extent_of(self.q.extent)))

    def at(self, t: Term, r: Term) -> Term:
        """Return a term for the pair of q and the k that has difference r."""
        t = T.substitute(t, {self.n.name: self.number})
        return T.substitute(t, {self.k.name: self.key(r)})


def sorted_sums(e: Equation) -> Iterator[Sorted]:
    """Yield the sums that are sorted by a difference and whose elements hold sums."""
    for nest in nests(e):
        total, indices, element = nest.total, nest.indices, nest.element
        for c in nest.conditions if T.holds_fold(element) else ():
            others = tuple(o for o in nest.conditions if o is not c)
            sides = c.args if c.op == "compare" and c.attr == "==" else ()
            for n, number in permutations(sides, 2):
                pair = [i for i in indices if i.name in number.free]
                if n not in e.indices or len(number.free) != 2 or len(pair) != 2:
                    continue
                for q, k in permutations(pair):
                    candidate = Sorted(total, indices, others, element, n, number, q, k)
                    r = T.index("~r", "~r")
                    if candidate.at(number, r).free == {r.name}:
                        yield candidate


@stated
def sum_by_difference(program: Equations, e: Equation, s: Sorted) -> tuple[Step, Equation]:
    """Return the step that stores the sums of equal differences, and these.

    Law:     sums may be taken in any order, and a value stored and read again; for each q and k
             there is one `r = k - q + |q| - 1`, with `0 <= r < |q| + |k| - 1`
    Claims:  interchange, units, brackets
    Needs:   what the result's index is equal to follows from r
    """
    change = Change(program)
    rows, keys = T.extent_of(s.q.extent), T.extent_of(s.k.extent)
    r = change.bounded("r", T.add(rows, keys, T.const(-1)))
    element, *asked = (s.at(t, r) for t in (s.element, *s.conditions))
    asked.append(T.in_range(s.key(r), s.k.extent))
    rest = tuple(i for i in s.indices if i is not s.k)
    own = tuple(i for i in e.indices if i is not s.n and i.name in s.total.free)
    stored = Equation(change("D"), (*own, r), nested(rest, asked, element))
    has_n = T.compare("==", s.n, s.at(s.number, r))
    total = T.fold("sum", (r,), has_n, T.stored(stored, stored.indices))
    difference = T.add(s.k, T.neg(s.q), rows, T.const(-1))
    check = partial(is_, T.substitute(s.key(r), {r.name: difference}), s.k)
    reason = "as what follows from a difference is the same for all that have it"
    how = "sum_by_difference", e, s.total, total, stored
    return change.step(*how, check=check, reason=reason), stored
