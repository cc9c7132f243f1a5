"""Segments: a sum of what reads an element, over one segment of a sorted list.

The gradient of a table adds up at each row what has read it:

    dW[v,d] = sum[i if v == N[i]](dO[i,d])

Each v asks every i. Sorted by N, those that read a row are beside one another, in their order:

    order[r] = argtop[i -> r](-1 - N[i])
    first[v] = sum[i if N[i] < v](1)
    last[v]  = sum[i if N[i] <= v](1)
    dW[v,d]  = sum[r if first[v] <= r and r < last[v]](dO[order[r],d])

so a loop runs over each i once, for all v together. What takes sums of its own is stored for each i
before. Every call sorts anew (`host.program.Sort`);
the sort is stable, and sums are added up in the same order each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from monocomp import terms as T
from monocomp.costs.counting import elements
from monocomp.costs.roles import outer_folds
from monocomp.declarations.record import record
from monocomp.extents.nominal import planned_sizes
from monocomp.planning.naming import Change
from monocomp.planning.nested_sums import Nest, nested, nests
from monocomp.planning.search import Draft
from monocomp.proving.rule_laws import laws
from monocomp.rewriting.driver import Step
from monocomp.rewriting.rules import stated
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations, Sorted

laws("""
    segments: in a sorted list the position of an element is the number of smaller ones, a, and of
            those of its n equals that come before it, m: it is from the number of elements smaller
            than v on, up to the number of those that are not larger, if the element is v, and else
            not
        it is v: a <= a + m and a + m < a + n = 1 for 0 <= m and m < n and finite a, m, n
        it is smaller: b <= a + m = 0 for a + n <= b and m < n and finite a, b, m, n
        it is larger: a + m < b = 0 for b <= a and 0 <= m and finite a, b, m
""")


def in_segments(draft: Draft) -> Iterator[list[Step]]:
    """Yield the steps that sum over segments of sorted lists."""
    for e in draft.program.computed:
        for gathered in islice(_gathered(e), 1):
            step = sum_in_segments(draft.program, e, gathered)
            known = planned_sizes(step.program, draft.sizes)
            new = [a for a in step.program.computed if a.name not in draft.program.by_name]
            if all(elements(a.indices, known) <= draft.largest for a in new):
                yield [step]


@record()
class _Gathered(Nest):
    """A sum of what reads one row.

    Attributes:
        key: the element of a tensor of integers that says which row is read.
        row: that which the sum is for, an index of the result.
    """

    key: Term
    row: Term

    @property
    def positions(self) -> tuple[Term, ...]:
        """Return the indices of what is sorted."""
        return tuple(i for i in self.key.args if i in self.indices)

    @property
    def lists(self) -> tuple[Term, ...]:
        """Return the indices of the key that are not summed: there is a list for each value."""
        return tuple(i for i in self.key.args if i not in self.indices)

    @property
    def is_row(self) -> Term:
        """Return the condition that the row is read."""
        return T.compare("==", self.key, self.row)


def _gathered(e: Equation) -> Iterator[_Gathered]:
    """Yield the sums in an equation of what reads a row that a tensor of integers tells."""
    for nest in nests(e):
        own = nest.total, nest.indices, nest.conditions, nest.element
        for c in nest.conditions:
            for key, row in (c.args, c.args[::-1]) if c.op == "compare" and c.attr == "==" else ():
                candidate = _Gathered(*own, key, row)
                is_listed = key.op == "read" and row in e.indices and row not in key.args
                if is_listed and candidate.positions and _are_indices(key.args):
                    yield candidate


def _are_indices(subscripts: Sequence[Term]) -> bool:
    return all(i.op == "index" for i in subscripts) and len({*subscripts}) == len(subscripts)


@stated
def sum_in_segments(program: Equations, e: Equation, g: _Gathered) -> Step:
    """Return the step that sorts, and sums over a segment.

    Law:     a sum may be taken in any order: in a list that is sorted by N, `N = v` holds from as
             far on as there are positions with `N < v`, and as far as there are with `N <= v`; and
             what is added may be stored, with N for v
    Claims:  interchange, segments, brackets, division with remainder
    Needs:   the filter says that N = v, and N is read at all positions once
    """
    kept = tuple(n for n, i in enumerate(g.key.args) if i in g.lists)
    change = Change(program, *(i.name for i in e.indices))
    lists = (s for s in program.sorted if (s.tensor, s.kept) == (g.key.attr.name, kept))
    known = ([program.by_name[n] for n in s.names] for s in lists)
    listed = next((of for of in known if of[1].indices[-1].extent == g.row.extent), None)
    new, of_lists = list[Equation](), program.sorted
    if listed is None:
        new = listed = _list(change, g)
        of_lists += (Sorted(g.key.attr.name, kept, *(n.name for n in new)),)
    order, first, last = listed
    position = T.index("~r", order.indices[-1].extent)
    positions = _positions(g, T.stored(order, (*g.lists, position)))
    lower, upper = (T.stored(s, (*g.lists, g.row)) for s in (first, last))
    asked = [T.compare("<=", lower, position), T.compare("<", position, upper)]
    if len(g.positions) < len(g.indices) or T.holds_fold(g.element):
        added = _of_positions(change, e, g)
        new = [*new, added]
        columns = added.indices[len(g.key.args) :]
        element = T.stored(added, (*g.lists, *(positions[i.name] for i in g.positions), *columns))
    else:
        asked += [T.substitute(c, positions) for c in g.conditions if c is not g.is_row]
        element = T.substitute(g.element, positions)
    total = summed = T.fold("sum", (position,), T.conjunction(*asked), element)
    if outer_folds([replace(e, body=T.replace(e.body, g.total, total))]) != [total]:
        # Loops for other sums share blocks of rows.
        own = tuple(i for i in e.indices if i.name in total.free)
        new = [*new, Equation(change("F"), own, total)]
        summed = T.stored(new[-1], own)
    after = change.program(new, {e.name: T.replace(e.body, g.total, summed)}, sorted=of_lists)
    old, shown = partial(program.shown, g.total), partial(after.shown, total)
    reason = f"as {g.key.attr.name} says which {g.row.name} is read"
    check = partial(_is_of_rows, e, g)
    return Step.of("sum_in_segments", (e.name,), old, shown, program, after, check, reason)


def _is_of_rows(e: Equation, g: _Gathered) -> bool:
    """True if the sum has these indices, its filter asks for the row, and the key is read at
    indices that are all different."""
    is_sum = any(n.total is g.total and n.indices == g.indices for n in nests(e))
    return is_sum and g.is_row in g.conditions and _are_indices(g.key.args)


def _of_positions(change: Change, e: Equation, g: _Gathered) -> Equation:
    """Return the equation for what each position adds to the row that its key names."""
    substitution = {g.row.name: g.key}
    value = T.substitute(g.element, substitution)
    asked = [T.substitute(c, substitution) for c in g.conditions if c is not g.is_row]
    asked += T.conjuncts(T.in_range(g.key, g.row.extent))
    inner = [i for i in g.indices if i not in g.positions]
    names = {i.name for i in inner}
    value = nested(inner, [c for c in asked if not names.isdisjoint(c.free)], value)
    value = T.where(T.conjunction(*(c for c in asked if names.isdisjoint(c.free))), value, T.ZERO)
    name = change("F")
    named = {i: change.index_like(i) for i in g.positions}
    columns = (i for i in e.indices if i is not g.row and i not in g.lists)
    indices = (*g.lists, *named.values(), *(i for i in columns if i.name in value.free))
    return Equation(name, indices, T.substitute(value, {i.name: n for i, n in named.items()}))


def _positions(g: _Gathered, number: Term) -> dict[str, Term]:
    """Return the indices of the position that has a number, counted row by row."""
    positions: dict[str, Term] = {}
    for n, i in reversed(list(enumerate(g.positions))):
        size = T.extent_of(i.extent)
        positions[i.name] = number if n == 0 else T.modulo(number, size)
        number = T.floordiv(number, size)
    return positions


def _list(change: Change, g: _Gathered) -> list[Equation]:
    """Return the equations for a list of positions and its segments."""
    names = list(map(change, ("order", "first", "last")))
    if len(g.positions) == 1:
        r = T.index(change("r"), g.positions[0].extent)
        change.extents[r.name] = r.extent
    else:
        r = change.bounded("r", T.mul(*(T.extent_of(i.extent) for i in g.positions)))
    position = T.index("@0", r.extent)
    key = T.substitute(g.key, _positions(g, position))
    largest = T.sub(T.const(-1), key)  # where the key is least, and nothing overflows
    bodies = (
        T.fold_at("argtop", r, position, T.TRUE, largest, target=r.extent),
        T.fold("sum", (position,), T.compare("<", key, g.row), T.const(1)),
        T.fold("sum", (position,), T.compare("<=", key, g.row), T.const(1)),
    )
    rows = zip(names, (r, g.row, g.row), bodies, strict=True)
    return [Equation(name, (*g.lists, at), body) for name, at, body in rows]
