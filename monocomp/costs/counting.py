"""The costs of equations: at any step of a derivation, and of kernels before they are built.

A program *as it is written* is read plainly (`cost`). A definition is a name and costs nothing;
what stands in a fold is computed anew for each of its elements. Folds over the top of an output
are loops. Results of earlier loops are kept, so a fold that needs none shares one loop with the
others of its domain, and one that needs them comes a loop later: the number of *passes* over an
index is the length of the longest chain of folds that need one another, by loop nests. An
output that keeps an index over which a result in it was folded is written in one more pass.
softmax and logsumexp are read as everyone computes them, with the maximum subtracted.
Every operation counts once for every value of the indices that it varies with, in every loop that
needs it; each input once for every loop that reads it. Filters are not counted.

A kernel *for given sizes* does more (`estimate_of`). It computes a value in the outermost loop in
which its indices are at hand. So a value is computed, and what it reads is read, once more for
every block of each loop around that position whose index it lacks, and of each index of the outputs
that its kernel is cut along.

`Kernel.report` counts in the kernels themselves. Passes and bytes are those of `cost`
there once a program is in normal form; operations differ in what a target adds, such as
the guard of an infinite maximum.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial

from monocomp import terms as T
from monocomp.costs.cost import (
    ELEMENT_BYTES,
    ELEMENTWISE,
    NO_OPERATION,
    NOTHING,
    STORED_BYTES,
    Amount,
    Cost,
    Extents,
    Operations,
    amounts,
    product,
)
from monocomp.costs.fitting import Columns
from monocomp.costs.operands import Operand, computed_operands
from monocomp.costs.operations import (
    FREE,
    MULTIPLY_ADD,
    WEIGHT,
    fields,
    operations_of,
    operations_to_join,
)
from monocomp.costs.reading import kernels
from monocomp.costs.roles import choose_roles, fits_whole, scan_along
from monocomp.declarations.record import record
from monocomp.extents.nominal import LOOP_BLOCK, ROW_BLOCK
from monocomp.extents.prefixes import Start, Walk, elements_of, prefix_of, start_of, walk_along
from monocomp.lowering.nests import held_by
from monocomp.rewrites.products import apart, largest_sides
from monocomp.rewrites.pullback import passes
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR, carrier, is_selection
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.monomials import factors
from monocomp.tile import Axis


def cost(program: Equations) -> Cost:
    """Return the cost of a program as it is written."""
    inputs = tuple(program.declared.inputs)
    outputs = (*(o.name for o in program.declared.outputs), *program.operands)
    counted = (_cost_of_kernel(tuple(group), inputs, outputs) for group in kernels(program))
    return sum(counted, NOTHING)


@lru_cache(maxsize=256)
def _cost_of_kernel(
    group: tuple[Equation, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> Cost:

    def fits(extent: str) -> bool:
        return True

    roles = choose_roles(group, fits)
    return _Counter(group, roles, inputs, outputs, amounts({}), lambda *_: 1, fits).cost()


@record()
class Place:
    """The place where a fold is computed, and how often.

    Attributes:
        loops: the indices of the outputs and of the loops around it, outermost first.
        times: how often it is computed.
        repeats: how often for the same values of its indices.
        repeated_by: the index, of those, that it lacks and that repeats it most, if any does.
    """

    loops: tuple[Term, ...]
    times: int
    repeats: int
    repeated_by: Term | None


@record()
class Estimate:
    """The work of one kernel at given sizes.

    Attributes:
        equations: what it computes.
        grid: the indices of which each program instance has one value.
        cost: in numbers.
        folds: every fold (or field of one), with the positions where it is computed.
        operands: the same for every computed operand of a product of matrices.
    """

    equations: Sequence[Equation]
    grid: frozenset[Term]
    cost: Cost
    folds: Mapping[Term, Sequence[Place]]
    operands: Mapping[Operand, Sequence[Place]]


def estimate_of(
    group: Sequence[Equation],
    roles: Mapping[str, Axis],
    sizes: Mapping[str, int],
    inputs: tuple[str, ...],
    outputs: frozenset[str],
    added: frozenset[str],
) -> Estimate:
    """Estimate the work of one kernel.

    Args:
        group: what it computes.
        roles: of the indices of its outputs.
        sizes: a number for every extent.
        inputs: the names of the program's inputs, in order.
        outputs: the names of what a call returns, or of what has no more bytes than inputs.
        added: the names of equations whose results are added up.
    """
    fits = partial(fits_whole, sizes=sizes)
    lengths = {"grid": 1, "row": ROW_BLOCK}  # other axes are not cut between programs

    def blocks(i: Term, is_inner: bool) -> int:
        size = sizes[i.extent]
        axis = roles.get(i.name)
        if axis is None:  # a short loop inside of another one takes one element at a time
            length = 1 if is_inner and fits(i.extent) else LOOP_BLOCK
        else:
            length = lengths.get(axis.role, max(1, size))
        return math.ceil(size / length)

    def counted() -> tuple[_Counter, Cost]:
        counter = _Counter(group, roles, inputs, outputs, sizes.__getitem__, blocks, fits)
        counter.added = added
        return counter, counter.cost()

    counter, cost = counted()
    if (rows := counter.columns.rows_that_fit(cost.state)) < lengths["row"]:
        lengths["row"] = rows
        counter, cost = counted()
    indices = dict.fromkeys(i for e in group for i in e.indices)
    grid = frozenset(i for i in indices if roles[i.name].role == "grid")
    return Estimate(group, grid, cost, counter.folds, counter.operands)


def elements(indices: Iterable[Term], sizes: Mapping[str, int]) -> int:
    """Return the number of combinations of values that indices take."""
    return math.prod(sizes[i.extent] for i in indices)


def tensor_sizes(program: Equations, sizes: Mapping[str, int]) -> list[int]:
    """Return the numbers of elements of the inputs and outputs."""
    declared = program.declared
    shapes = [[sizes[e] for e in declared.extents(name)] for name in declared.inputs]
    shapes += [[sizes[i.extent] for i in e.indices] for e in program.outputs]
    return list(map(math.prod, shapes))


class _Counter:
    """Counts what one kernel does.

    Every subterm has a home, which is the path of indices around it to the last with which it
    varies, and is computed there once, for each value of its indices and for each block of those
    that it lacks. What is at home in different loops is computed in each.

    Args:
        group: what the kernel computes.
        roles: of the indices of its outputs.
        inputs: their names, in the program's order.
        outputs: the names of what a call returns, or what has as many bytes.
        extent: the amount that an extent is.
        blocks: how many blocks an index has that repeat what lacks it, if it is that of a loop
            inside of another one, or not.
        fits: can an axis of this extent be held entirely?
    """

    def __init__(
        self,
        group: Sequence[Equation],
        roles: Mapping[str, Axis],
        inputs: tuple[str, ...],
        outputs: Iterable[str],
        extent: Extents,
        blocks: Callable[[Term, bool], int],
        fits: Callable[[str], bool],
    ) -> None:
        self.group, self.roles, self.inputs = group, roles, inputs
        self.outputs = frozenset(outputs)
        self.extent, self.blocks, self.fits = extent, blocks, fits
        indices = dict.fromkeys(i for e in group for i in e.indices)
        self.held = held_by(group, roles)
        self.scan = scan_along(group)
        late = {n for n, axis in roles.items() if axis.role == "stream"}
        self.base = tuple(i for i in indices if i.name not in late)
        self.late = tuple(i for i in indices if i.name in late)
        self.role_of = {name: axis.role for name, axis in roles.items()}
        self.grid = frozenset(name for name, role in self.role_of.items() if role == "grid")
        self.seen: set[tuple[Term, tuple[Term, ...], str]] = set()
        self.depth = dict.fromkeys(indices, len(indices) - 1)  # how many are around an index
        self.walks: dict[Term, Walk] = {}  # the loops over indices that are open
        self.determined: dict[Term, Term] = {}  # indices, by those of loops that filters equate
        self.tiles, self.inner = set[Term](), set[Term]()  # indices: held entirely, of inner loops
        self.weighed: set[tuple[Term, Term, tuple[Term, ...], str]] = set()
        self.loaded: set[tuple[Term, tuple[Term, ...], str]] = set()  # tiles, below indices
        self.operations = NO_OPERATION
        self.moved: Amount = 0
        self.reads: dict[str, set[str]] = {}
        self.folds: dict[Term, list[Place]] = {}
        self.operands: dict[Operand, list[Place]] = {}
        self.columns = Columns()
        self.added: frozenset[str] = frozenset()  # equations whose results are added up

    def cost(self) -> Cost:
        """Return the cost of all loops and outputs."""
        loops = passes([e.body for e in self.group], is_at_the_top, self.held)
        self.loops = {f: f"loop {n}" for n, at in enumerate(loops) for f in at.folds}
        for e in self.group:
            late = [i for i in self.late if i in e.indices]
            self._visit(e.body, (*self.base, *late), "late" if late else "")
            self.moved += self._stored(e)
        state: Amount = 0
        for fold in (f for at in loops for f in at.folds):
            self._loop(fold)
            state += product(map(self.extent, self._carried(fold))) * len(fields(fold))
        extents = (*(p.extent for p in loops), *(i.extent for i in self.late))
        counts = dict(Counter(e.lstrip(".") for e in extents))
        reads = {n: len(self.reads[n]) for n in self.inputs if n in self.reads}
        return Cost(counts, reads, self.operations, self.moved, state)

    def _stored(self, equation: Equation) -> Amount:
        """Return the bytes of an output, or of what another kernel reads."""
        wide = equation.name not in self.outputs and equation.body.kind == "float"
        elements = product(self.extent(i.extent) for i in equation.indices)
        width = STORED_BYTES if wide else ELEMENT_BYTES
        return elements * width * (2 if equation.name in self.added else 1)  # read, and written

    def _carried(self, fold: Term) -> Iterator[str]:
        """Yield the extents of the axes of a fold's state."""
        if fold.attr.target is not None:
            yield fold.attr.target
        for name in sorted(fold.free):
            if name in self.roles and self.roles[name].role == "whole":
                yield self.roles[name].extent

    # --- terms ------------------------------------------------------------------------

    def _visit(self, t: Term, path: tuple[Term, ...], scope: str) -> None:
        """Count t and what it needs, below a path of indices, in a loop or outside of all."""
        path = self._home(t, path)
        if not any(map(self._is_looped, path)):
            scope = ""
        key = (t, path, scope)
        if key in self.seen:
            return
        self.seen.add(key)
        fold = t.args[0] if t.op == "field" else t
        if fold.op in ("fold", "fold_at"):
            self._fold(t, fold, path, scope)
            return
        if t.op in T.READS:
            self._read(t, path, scope)
        elif t.op not in FREE:
            self._count(operations_of(t), t.free, path)
        for a in t.args:
            self._visit(a, path, scope)

    def _fold(self, t: Term, fold: Term, path: tuple[Term, ...], scope: str) -> None:
        self.folds.setdefault(t, []).append(self._position(t, path))
        if is_selection(fold):
            self._visit(fold.args[0], path, scope)
        if is_at_the_top(fold) and fold not in self.held:
            self._loop(carrier(fold))
        else:
            self._elements(fold, path, scope)

    def _loop(self, fold: Term) -> None:
        """Count a fold over the top of an output, once."""
        scope = self.loops.pop(fold, None)
        if scope is not None:
            self._elements(fold, self.base, scope)

    def _elements(self, fold: Term, path: tuple[Term, ...], scope: str) -> None:
        """Count what a fold does with its elements, in a loop or inside of one."""
        opened: tuple[Term, ...]
        scan = self._carrier(fold)
        if fold in self.held:
            opened, (condition, *parts) = T.open_as(fold, (self.held[fold],))
        elif scan is not None:  # an element for each position
            opened, (condition, *parts) = (scan,), elements_of(fold, scan)
            self._before(fold, scan, path, scope)
        else:
            # Folds over one extent at one position share a loop, so their indices share a name.
            depth = 1 + max((self.depth[i] for i in path), default=-1)
            names = [f"${depth}.{n or ''}{e}" for n, e in enumerate(fold.attr.extents)]
            opened, (condition, *parts) = T.open_as(fold, names)
            self.depth |= dict.fromkeys(opened, depth)
            self.walks |= {i: walk_along(i, condition, (condition, *parts)) for i in opened}
            is_tile = fold.attr.monoid == "sum" and len(parts[0].free - self.grid) <= 2
            if any(map(self._is_looped, path)) and not is_tile:
                self.inner.update(opened)
        inner = (*path, *(i for i in opened if i not in path))
        self._determine(condition, inner, opened)
        own = {*opened, *(i for i in inner if i.name in fold.free)}
        times = self._times(inner, own)
        self._visit(condition, inner, scope)
        for part in self._products(fold, parts, opened):
            sides = self._sides(fold, part, opened)
            if sides is None:
                self.operations += operations_to_join(fold, part) * times
            else:
                self.operations += MULTIPLY_ADD * times
                if path != self.base:
                    self.tiles.update(i for i in opened if self.fits(i.extent))
                for side in sides:
                    self._multiplied(side, inner)
                    for f in filter(T.is_read, side):
                        self._hold(f, self._home(f, inner), opened[0])
                part[:1] = factors(part[0])
            for element in part:
                self._visit(element, inner, scope)
        if fold.attr.monoid == "sum" and fold.kind == "float" and len(opened) == 1:
            for operand in computed_operands(opened[0], condition, parts[0]).values():
                position = self._position(operand.value, self._home(operand.value, inner))
                self.operands.setdefault(operand, []).append(position)
        if fold.attr.monoid is SE_PAIR:
            self._weigh(condition, parts[-1], inner, scope)

    def _determine(self, condition: Term, path: tuple[Term, ...], opened: Iterable[Term]) -> None:
        """Note the indices that a filter equates with what is computed of a fold's own: the
        instances that have one value each share its elements out, as the bounds of loops say."""
        for value, i in T.equal_ints(condition):
            own = [x for x in opened if x.name in value.free]
            is_read = any(t.op in T.READS for t in T.subterms(value))
            if own and i in path and i.name in self.grid and not is_read:
                self.determined[own[0]] = i

    def _times(self, path: Iterable[Term], own: Collection[Term]) -> Amount:
        """Return how often something is computed that varies with some indices of a path."""
        path = self._independent(path)
        repeats = self._repeats(i for i in path if i not in own)
        return product(self.extent(i.extent) for i in path if i in own) * repeats

    def _carrier(self, fold: Term) -> Term | None:
        """Return the index along which a loop around a prefix carries it, if one does."""
        if self.scan is not None and self.scan.reaches(fold):
            return self.scan.bound
        index = prefix_of(fold)
        return None if index is None or self._start(fold, index) is None else index

    def _start(self, fold: Term, index: Term) -> Start | None:
        """Return what a prefix starts with in the loop around it, if that carries it."""
        loop = self.walks.get(index)
        return None if loop is None else start_of(fold, loop, self.role_of)

    def _before(self, fold: Term, index: Term, path: tuple[Term, ...], scope: str) -> None:
        """Count what a prefix comes to where the loop that carries it begins."""
        start = self._start(fold, index)
        if start is not None and start.earlier is not None:
            self._visit(start.earlier, path[: path.index(index)], scope)

    def _weigh(self, condition: Term, exponent: Term, path: tuple[Term, ...], scope: str) -> None:
        """Count the weights of elements in SE, once for all values that have them: they vary with
        the exponent, and with its maximum."""
        if (condition, exponent, path, scope) not in self.weighed:
            self.weighed.add((condition, exponent, path, scope))
            self._count(WEIGHT, condition.free | exponent.free, path)

    def _products(
        self, fold: Term, elements: Sequence[Term], opened: Sequence[Term]
    ) -> Iterator[list[Term]]:
        """Yield the elements, in addends that are products of matrices where a sum is one of
        such."""
        if fold.attr.monoid != "sum" or fold.kind != "float" or len(opened) != 1:
            yield list(elements)
            return
        name = opened[0].name
        yield from ([p] for p in apart(elements[0], name, lambda f: f.free - self.grid))

    def _sides(
        self, fold: Term, elements: Sequence[Term], opened: Sequence[Term]
    ) -> list[list[Term]] | None:
        """Return the factors of both sides, if a fold is a product of two matrices, not of
        several at once, but for a loop that goes over them one by one; an exponent is one."""
        if fold.attr.monoid not in ("sum", SE_PAIR) or len(opened) != 1 or fold.kind != "float":
            return None
        parts = [f for f in (*factors(elements[0]), *elements[1:]) if f.op != "const"]
        sides = largest_sides([f.free - self.grid for f in parts], opened[0].name)
        if sides is None or not sides[0].isdisjoint(sides[1] & self.roles.keys()):
            return None
        first = sides[0] | {opened[0].name}
        left = [f for f in parts if f.free - self.grid <= first]
        return [left, [f for f in parts if f not in left]]

    def _multiplied(self, side: Sequence[Term], path: tuple[Term, ...]) -> None:
        """Count the multiplications that make one tile of the factors of a side."""
        varying = frozenset().union(*(f.free for f in side))
        self._count(ELEMENTWISE * (len(side) - 1), varying, path)

    def _read(self, t: Term, path: tuple[Term, ...], scope: str) -> None:
        name, axes = T.name_of(t), {i.name: self._axis(i) for i in path}
        key = T.substitute(t, axes), tuple(dict.fromkeys(axes.values())), scope
        if key in self.loaded:
            return
        self.loaded.add(key)
        is_input = t.op == "read" or t.attr.given
        pairs = zip(t.attr.extents, t.args, strict=True)
        size = product(self.extent(dim) for dim, position in pairs if position.op != "const")
        wide = not is_input and name not in self.outputs and t.kind == "float"
        width = STORED_BYTES if wide else ELEMENT_BYTES
        lacking = (i for i in self._independent(path) if i.name not in t.free)
        self.moved += size * width * self._repeats(lacking)
        if is_input and all(a.op != "const" for a in t.args):
            self.reads.setdefault(name, set()).add(scope)

    def _axis(self, i: Term) -> Term:
        """Return the index whose axis of tiles an index of a fold has: that of an output that is
        held entirely, so that a tile is loaded once for products along it and for its columns."""
        if i not in self.inner and i not in self.tiles:
            return i
        like = (j for j in self.base if j.extent == i.extent)
        return next((j for j in like if self.role_of[j.name] == "whole"), i)

    def _hold(self, t: Term, path: tuple[Term, ...], summed: Term) -> None:
        """Note how many columns the matrix has that an operand is for rows, or for the elements of
        a loop: of the index that is summed over, or of one that is held entirely."""
        own = [i for i in path if i.name in t.free]
        roles = {i: self.role_of.get(i.name) for i in own}
        tiles = [i for i in own if roles[i] == "whole" or (i is summed and i in self.tiles)]
        is_streamed = any(map(self._is_looped, own))
        if len(tiles) == 1 and (is_streamed or "row" in roles.values()):
            length = self.extent(tiles[0].extent)
            kind = self.columns.streamed if is_streamed else self.columns.held
            kind |= {T.unnamed(t): length} if isinstance(length, int) else {}

    def _count(self, operations: Operations, free: frozenset[str], path: tuple[Term, ...]) -> None:
        """Add operations on what varies with these indices, for each time that it is computed; a
        number is computed once."""
        if free:
            self.operations += operations * self._times(path, {i for i in path if i.name in free})

    # --- positions -----------------------------------------------------------------------

    def _home(self, t: Term, path: tuple[Term, ...]) -> tuple[Term, ...]:
        """Return the path to the position where t is computed: the kernel's indices, loops up to
        the last with whose index it varies, and indices of tiles that are held entirely."""
        looped = (n for n, i in enumerate(path) if i.name in t.free and self._is_looped(i))
        end = max(max(looped, default=-1) + 1, len(self.base))
        return (*path[:end], *(i for i in path[end:] if i.name in t.free))

    def _is_looped(self, i: Term) -> bool:
        return i not in self.base and i not in self.tiles

    def _independent(self, path: Iterable[Term]) -> list[Term]:
        """Return the indices of a path that no other one determines."""
        path = list(path)
        determined = {self.determined.get(i) for i in path}
        return [i for i in path if i not in determined]

    def _repeats(self, lacking: Iterable[Term]) -> int:
        return math.prod(self.blocks(i, i in self.inner) for i in lacking)

    def _position(self, t: Term, path: tuple[Term, ...]) -> Place:
        independent = self._independent(path)
        lacking = {i: self.blocks(i, i in self.inner) for i in independent if i.name not in t.free}
        repeats = math.prod(lacking.values())
        times = product(self.extent(i.extent) for i in independent if i.name in t.free) * repeats
        most = max(lacking, key=lambda i: lacking[i], default=None)
        number = times if isinstance(times, int) else 0
        return Place(path, number, repeats, most if repeats > 1 else None)


def is_at_the_top(t: Term) -> bool:
    """True if a term is a fold in which no index of an outer one is free."""
    folds = t.op == "fold" or is_selection(t)
    return folds and all(n[0].isalpha() or n[0] == "_" for n in t.free)
