"""Cutting: which values a kernel of its own computes and stores, for others to read.

Fusion computes a value where it is used, and that may be many times: the normaliser of a
row, say, in a loop over rows that runs for every column. A value may be stored instead and
read again. That is worth a kernel and its traffic where it saves a good part of the work
(see `costs.counting`); where a kernel computes it anyway, a small part will do. What is stored
is no larger than the largest tensor that the program has anyway: nothing that fusion removed
comes back.

Operands of products of matrices are written out, too, where their columns are too wide to compute
them beside: in latent attention's gradient, for some heads at a time (see `planning.slicing`),

    P[b,h,q,k]  = where(k <= q, exp(S[b,h,q,k] - L[b,h,q]), 0)
    G[b,h,q,k]  = where(k <= q, P[b,h,q,k] * D[b,h,q,k], 0)
    dQ[b,h,q,c] = sum[k if k <= q](G[b,h,q,k] * C[b,k,c])
    dC[b,k,c]   = sum[h](sum[q if k <= q](P[b,h,q,k] * dO[b,h,q,c] + G[b,h,q,k] * Q[b,h,q,c]))

One kernel computes both, each product is a plain one, and what a filter leaves out is 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from monocomp import terms as T
from monocomp.costs.closing import close
from monocomp.costs.cost import ELEMENT_BYTES, STORED_BYTES
from monocomp.costs.counting import Estimate, Place, elements
from monocomp.costs.holding import estimate
from monocomp.costs.operands import (
    stored_operands,
)
from monocomp.costs.roles import is_plain, outer_folds, rows_of
from monocomp.declarations.record import record
from monocomp.extents.nominal import ROW_BLOCK
from monocomp.extents.prefixes import prefix_of
from monocomp.planning.naming import Change, NewNames
from monocomp.planning.search import Draft
from monocomp.planning.slicing import lengths_of_slices, slice_index
from monocomp.planning.stored_reading import StoredReading, times
from monocomp.rewrites.single_folds import is_fold
from monocomp.rewriting.driver import Step, result_of
from monocomp.rewriting.rules import stated
from monocomp.rewriting.sharing import reading_stored
from monocomp.terms import Term
from monocomp.terms.algebra import is_mantissa
from monocomp.terms.equations import Equation, Equations, stored_in
from monocomp.terms.monomials import addends, factors


@record()
class _Use:
    """A term where a kernel computes it; `subscripts` are what sets it apart from others, and a
    number what an operand is multiplied by."""

    term: Term
    subscripts: tuple[Term, ...]
    position: Place
    kernel: Estimate
    number: Term = T.ONE


@record()
class _Value:
    """A value that is computed more often than it has elements, or from what each program instance
    reads anew.

    Attributes:
        closed: the term, as a function of `@0`, `@1`, ...
        indices: those.
        is_operand: is it one side of products of matrices, and no sum?
        beside: where a kernel for the same rows computes it and can store it, if one does.
        reader: where it is computed most often, of the positions that are to read it.
        readers: names of the equations that are to read it.
        number: what it is multiplied by when it is stored.
    """

    closed: Term
    indices: tuple[Term, ...]
    is_operand: bool
    beside: _Use | None
    reader: _Use
    readers: frozenset[str]
    number: Term = T.ONE

    @property
    def sets(self) -> Iterator[object]:
        """Yield what values that are stored together have in common: their indices, or the loop
        that computes them."""
        yield self.is_operand, self.indices
        if not self.is_operand:
            yield T.domain_of(self.closed.args[0] if self.closed.op == "field" else self.closed)


def store_values(draft: Draft, matrices: bool = True) -> Iterator[list[Step]]:
    """Yield the steps that store values: those with the same indices, and those of the same loop;
    operands and results of products only where matrices may be stored."""
    values = _repeated_values(draft.kernels, draft.sizes)
    few = (v for v in values if elements(v.indices, draft.sizes) <= draft.largest)
    for together in _sets(v for v in few if matrices or not _is_matrix(v)):
        yield _store(draft.program, together)


def stores_matrices(program: Equations) -> bool:
    """True if operands or results of products are stored."""
    results = {o.name for o in program.declared.outputs}
    stored = (e for e in program.computed if e.name not in results)
    return bool(program.operands) or any(is_plain(e.body) for e in stored)


def _is_matrix(value: _Value) -> bool:
    """True if products would compute the value again."""
    is_repeated = not _reads_anew_for_weights(value.reader)
    return value.is_operand or (is_repeated and is_plain(value.closed))


def _sets(values: Iterable[_Value]) -> Iterable[list[_Value]]:
    sets: dict[object, list[_Value]] = {}
    for v in values:
        for key in v.sets:
            sets.setdefault(key, []).append(v)
    return sets.values()


def store_in_slices(draft: Draft) -> Iterator[list[Step]]:
    """Yield the steps that store values, of which there are too many, for a slice of an index
    at a time; or operands, of which there need not be too many. What these leave are plain
    products, and what they replace may have columns that are too wide."""
    if draft.program.slices is not None:
        return
    before = read_by_all(draft.program)
    program = result_of(draft.program, before)
    sizes, limit = draft.sizes, draft.largest
    for together in _sets(_repeated_values(estimate(program, sizes), sizes)):
        count = sum(elements(v.indices, sizes) for v in together)
        if any(v.indices != together[0].indices for v in together):
            continue
        stored = [*before, *_store(program, together)]
        start = stored[-1].program
        names = {e.name for e in start.equations} - program.by_name.keys()
        if len(names) < len(together):  # what is returned is there as a whole
            continue
        are_operands = together[0].is_operand and _are_for_products(start, names)
        if count <= limit:
            if are_operands:
                yield stored
            continue
        narrow = len(names & stored_operands(start))
        width = STORED_BYTES * (len(names) - narrow) + ELEMENT_BYTES * narrow
        size, shortest = count // len(names) * width, 1 if are_operands else ROW_BLOCK
        for extent in _once(i.extent for i in together[0].indices):
            for length in lengths_of_slices(sizes[extent], size, limit, shortest):
                step = slice_index(start, names, extent, length, _reason(together[0]))
                if step is None:
                    break
                yield [*stored, step]


def _once(extents: Iterable[str]) -> list[str]:
    """List the extents that occur once."""
    counts = Counter(extents)
    return [e for e, n in counts.items() if n == 1]


def _are_for_products(program: Equations, names: Iterable[str]) -> bool:
    """True if only products of matrices read the stored values."""
    readers = [e for e in program.computed if program.read_by(e) & frozenset(names)]
    return all(map(is_plain, outer_folds(readers)))


def read_by_all(program: Equations) -> list[Step]:
    """Return the steps after which values that are stored are read by all that have computed
    them anyway, too, so that what else these have in common is the same term."""
    steps: list[Step] = []
    outputs = {o.name for o in program.outputs}
    start = program
    for name in [e.name for e in program.computed if e.name not in outputs]:
        e = start.by_name[name]
        closed, indices = close(e.body)
        if e.body.op not in ("fold", "field") or indices != e.indices:
            continue
        reading = StoredReading(e, closed)
        changed = {o.name: reading(o.body) for o in start.equations if o.name != e.name}
        readers = tuple(n for n, body in changed.items() if body is not start.by_name[n].body)
        if readers:
            after = Change(start).program((), changed)
            steps.append(store_value(start, after, e, reading.read, readers, "which is stored"))
            start = after
    return steps


def _repeated_values(kernels: Sequence[Estimate], sizes: Mapping[str, int]) -> Iterator[_Value]:
    uses_of: dict[tuple[Term, bool], list[_Use]] = {}
    for kernel in kernels:
        for t, positions in kernel.folds.items():
            closed, subscripts = close(t)
            uses = uses_of.setdefault((closed, False), [])
            uses += (_Use(t, subscripts, p, kernel) for p in positions)
        for (t, number), positions in kernel.operands.items():
            closed, subscripts = close(t)
            uses = uses_of.setdefault((closed, True), [])
            uses += (_Use(t, subscripts, p, kernel, number) for p in positions)
    indices_of = {closed: close(closed)[1] for closed, _ in uses_of}
    repeated = {
        (closed, is_operand)
        for (closed, is_operand), uses in uses_of.items()
        if sum(use.position.times for use in uses) >= 2 * elements(indices_of[closed], sizes)
    }
    # Operands are made from one another, as P and P * D are: what stores one computes the others.
    beside_operands = {indices_of[closed] for closed, is_operand in repeated if is_operand}
    for (closed, is_operand), uses in uses_of.items():
        indices = indices_of[closed]
        is_repeated = (closed, is_operand) in repeated
        is_repeated |= is_operand and indices in beside_operands
        if not is_repeated and not any(map(_reads_anew_for_weights, uses)):
            continue
        beside = next((u for u in uses if _is_for_the_same_rows(u) and _is_alone(u, uses)), None)
        readers = [use for use in uses if beside is None or use.kernel is not beside.kernel]
        if readers:
            most = max(readers, key=lambda use: use.position.times)
            names = frozenset(e.name for use in readers for e in use.kernel.equations)
            # Numbers stand beside a sum, but for those of one of several products in it.
            number = next((use.number for use in uses if use.number is not T.ONE), T.ONE)
            yield _Value(closed, indices, is_operand, beside, most, names, number)


def _reads_anew_for_weights(use: _Use) -> bool:
    """True if every program instance weighs the same elements with weights of its own. So it is
    for a bias per head, from channels of each pair of positions: `sum[c](Z[q,k,c] * W[c,h])`. This
    is no matrix product in an instance for one h, but is one in a kernel of its own."""
    fold = use.term
    if not is_fold(fold, "sum"):
        return False
    (bound,), (_, element) = T.open_fold(fold)
    summed, grid = bound.name, {i.name for i in use.kernel.grid}
    parts = [f.free for f in factors(element) if summed in f.free]
    weights = [free for free in parts if free <= {summed, *grid}]
    varying = frozenset().union(*weights) - {summed}
    return bool(varying) and any(varying.isdisjoint(free) for free in parts)


def _is_for_the_same_rows(use: _Use) -> bool:
    """True if a kernel that reads nothing stored computes the value once, with its indices as
    rows."""
    equations = use.kernel.equations
    return (
        use.position.repeats == 1
        and frozenset(use.subscripts) == rows_of(equations)
        and not any(stored_in(e.body) for e in equations)
    )


def _is_alone(use: _Use, uses: Sequence[_Use]) -> bool:
    """True if the kernel repeats the value nowhere else: it cannot read what it stores itself."""
    return not any(other.kernel is use.kernel and other.position.repeats > 1 for other in uses)


# --- storing ----------------------------------------------------------------------------------


def _store(program: Equations, values: Sequence[_Value]) -> list[Step]:
    steps = []
    for value in values:
        returned = _returned(program, value)
        equation, order = returned or (_equation(program, value), None)
        reading = StoredReading(equation, value.closed, value.is_operand, value.number, order)
        readers = value.readers - {equation.name}
        changed = {e.name: reading(e.body) for e in program.equations if e.name in readers}
        new = [] if returned else [equation]
        known = tuple(a for a in program.known if returned or a.name != equation.name)
        read = (replace(a, body=reading(a.body)) for a in known)  # as those have it that read it
        changed_names = (a for a, b in zip(read, known, strict=True) if a.body is not b.body)
        known += tuple(a for a in changed_names if a.body.op != "stored")
        start = program
        program = Change(start).program(new, changed, known=known)
        position = tuple(e.name for e in program.equations if e.name in readers)
        how = equation, reading.read, position, _reason(value)
        steps.append(store_value(start, program, *how))
    return steps


def _returned(program: Equations, value: _Value) -> tuple[Equation, list[int]] | None:
    """Return an output that is a value, in the dtype in which it would be stored, and the order
    of its indices."""
    exact = [o.name for o in program.declared.outputs if o.dtype == "accumulated"]
    for e in [program.by_name[n] for n in exact]:
        closed, indices = close(e.body)
        if closed is value.closed and set(indices) == set(e.indices):
            return e, [indices.index(i) for i in e.indices]
    return None


def store_kept(program: Equations) -> list[Step]:
    """Store what definitions compute that are not inlined."""
    steps = []
    for name in [e.name for e in program.equations]:
        readers = tuple(e.name for e in program.equations if name in e.body.names)
        if readers:
            start, equation = program, program.by_name[name]
            program = reading_stored(program, equation)
            reason = "of which there would be too many copies"
            steps.append(store_value(start, program, equation, {}, readers, reason))
    return steps


def store_running(program: Equations) -> list[Step]:
    """Store the prefixes that are returned as they are summed, and that other equations compute.

    A running sum rounds by the order in which it is added up. What a call returns of it has to be
    what its weights are made of, as gradients read that.
    """
    steps: list[Step] = []
    for name in [o.name for o in program.declared.outputs if o.dtype == "accumulated"]:
        e = program.by_name[name]
        for t in [f for a in addends(e.body) for f in factors(a) if prefix_of(f) in e.indices]:
            closed, indices = close(t)
            change = Change(program)
            equation = Equation(change("F"), tuple(indices), t)
            reading = StoredReading(equation, closed)
            bodies = {o.name: reading(o.body) for o in program.equations}
            readers = tuple(n for n, body in bodies.items() if body is not program.by_name[n].body)
            if set(readers) - {name}:
                start, program = program, change.program([equation], bodies)
                reason = "which is returned"
                steps.append(store_value(start, program, equation, reading.read, readers, reason))
    return steps


@stated
def store_value(
    start: Equations,
    program: Equations,
    equation: Equation,
    read: Mapping[Term, Term],
    readers: Iterable[str],
    reason: str,
) -> Step:
    """Return the step to a program that stores the value of an equation. Terms that are no names of
    it already come with what reads them.

    Law:    a value may be stored and read again
    Needs:  written out, an element that is read is what was computed
    """
    before = partial(start.shown, equation.body)
    after = partial(program.shown_names, equation)
    check = partial(_are_elements, equation, read)
    return Step.of("store_value", readers, before, after, start, program, check, reason)


def _are_elements(equation: Equation, read: Mapping[Term, Term]) -> bool:
    """True if each term is the element of the equation that is read for it."""
    return all(T.element(equation, r.args) is t for t, r in read.items())


def _equation(program: Equations, value: _Value) -> Equation:
    """Return the value as an equation. It has the name that the program gave it, or a new one."""
    is_filtered = value.is_operand and value.closed.op == "where"
    called = value.closed.args[1] if is_filtered else value.closed
    known = (a.name for a in program.known if close(a.body)[0] is called)
    name = next((n for n in known if n not in program.by_name), None)
    new = NewNames(program)
    name = name or new(_letter(value))
    indices = list(map(new.index_like, value.beside.subscripts if value.beside else value.indices))
    named = {v.name: i for v, i in zip(value.indices, indices, strict=True)}
    return Equation(name, tuple(indices), times(value.number, T.substitute(value.closed, named)))


def _letter(value: _Value) -> str:
    """Return the letter for a value without a known name: an operand, a maximum or minimum, a sum
    in SE, or another fold."""
    t = value.closed
    if value.is_operand:
        return "G"
    if t.op == "fold" and t.attr.monoid in ("max", "min"):
        return "M"
    return "L" if is_mantissa(t) else "F"


def _reason(value: _Value) -> str:
    """Say what would compute a value again and again."""
    position = value.reader.position
    inner = [i for i in position.loops if i.name.startswith("$")]
    loop = f" in the loop over {inner[-1].extent.lstrip('.')}" if inner else ""
    if position.repeated_by is not None:
        return f"which is needed{loop} for every {position.repeated_by.extent.lstrip('.')}"
    if any(s.op != "index" for s in value.reader.subscripts):
        return f"which is read{loop} at computed positions"
    if value.is_operand:
        return "which is an operand of several products"
    if _reads_anew_for_weights(value.reader):
        return "for which each program instance would read the same"
    return "which several kernels need"
