"""Roles: which outputs one kernel computes, and how it walks along each of their indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import permutations

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.extents.nominal import COLUMNS, MIN_DOT, ROW_BLOCK, power_of_two, without_elements
from monocomp.extents.prefixes import Walk, as_prefix, walk_along
from monocomp.machine.gpus import HOPPER
from monocomp.rewrites.products import apart, is_product, largest_sides
from monocomp.rewrites.single_folds import is_fold, opened_sum
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR, carrier, is_selection
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.monomials import factors
from monocomp.tile import Axis, Role

LARGEST_TILE = HOPPER.register_file  # elements of what one value of a row may hold
WHOLE_LIMIT = 2 * COLUMNS  # the longest axis that is held entirely


def fits_whole(extent: str, sizes: Mapping[str, int]) -> bool:
    """True if an axis of this extent can be held entirely, or its length is unknown."""
    return sizes.get(extent, 0) <= WHOLE_LIMIT


def kernel_groups(program: Equations, sizes: Mapping[str, int]) -> list[list[Equation]]:
    """List what each kernel computes: equations for the same rows, or over the same loops, without
    the sums that it adds up for others.

    The rows of an equation are the indices that all of its aggregates have. A kernel that
    reads what another one stores runs after it. Where the rows of two groups differ only by
    short indices and a loop has the same domain in both, that loop computes both. Results
    without elements have kernels of their own, as nothing runs along an axis without elements.

    Args:
        program: equations for outputs and for stored values.
        sizes: a number for every extent.
    """
    by_rows: dict[tuple[tuple[int, int, bool], object], list[Equation]] = {}
    levels = _levels(program, sizes)
    phases = _phases(program, levels)
    empty, joined = without_elements(program), {j.name for j in program.joined}
    for equation in program.computed:
        if equation.name in program.views or equation.name in joined:
            continue
        is_empty = any(i.extent in empty for i in equation.indices)
        when = phases[equation.name], levels[equation.name], is_empty
        own = rows_of([equation]), scan_of([equation]), _product_over([equation])
        by_rows.setdefault((when, own), []).append(equation)
    groups: list[tuple[tuple[int, int, bool], list[Equation]]] = []
    for (when, _), group in by_rows.items():
        others = (g for key, g in groups if key == when)
        partner = next((g for g in others if _share_a_loop(g, group, sizes)), None)
        if partner is None:
            groups.append((when, group))
        else:
            partner += group
    return [group for _, group in sorted(groups, key=lambda g: g[0])]


def _product_over(group: Sequence[Equation]) -> object:
    """Return what a plain product of matrices sums over, and None for anything else. Two products
    over different domains share nothing, and each has larger tiles alone."""
    folds = outer_folds(group)
    return T.domain_of(folds[0]) if len(folds) == 1 and is_plain(folds[0]) else None


def _phases(program: Equations, levels: Mapping[str, int]) -> dict[str, int]:
    """Say whether each equation comes before slices (0), in them (1), or after them (2). It comes
    after them, when they have given back what they hold, unless they need it or it runs with
    the first kernels."""
    inside = frozenset() if program.slices is None else program.slices.computed
    needed = set(inside)
    for e in reversed(program.computed):
        needed |= program.read_by(e) if e.name in needed else set()

    def phase(name: str) -> int:
        if not inside or name in inside:
            return int(name in inside)
        return 0 if name in needed or levels[name] == 0 else 2

    return {e.name: phase(e.name) for e in program.computed}


def after_slices(program: Equations, sizes: Mapping[str, int]) -> list[Equation]:
    """Return the equations that are computed after slices."""
    phases = _phases(program, _levels(program, sizes))
    return [e for e in program.computed if phases[e.name] == 2 and e.name not in program.views]


def _levels(program: Equations, sizes: Mapping[str, int]) -> dict[str, int]:
    """Count the kernels that run before that of each equation. An equation waits for a later one
    that goes over the same loop, if that comes before every equation that reads it."""
    computed = program.computed
    read = {e.name: program.read_by(e) for e in computed}
    levels: dict[str, int] = {}
    for e in computed:
        levels[e.name] = max((levels[name] + 1 for name in read[e.name]), default=0)
    for e in computed:
        readers = (levels[o.name] for o in computed if e.name in read[o.name])
        before = min(readers, default=math.inf)
        later = (o for o in computed if levels[e.name] < levels[o.name] < before)
        shared = (levels[o.name] for o in later if _share_a_loop([e], [o], sizes))
        levels[e.name] = min(shared, default=levels[e.name])
    return levels


def rows_of(group: Sequence[Equation]) -> frozenset[Term]:
    """Return the indices of the equations that all of their aggregates have, but not one along
    which they are prefixes."""
    return _rows_of(tuple(group))


@lru_cache(maxsize=4096)
def _rows_of(group: tuple[Equation, ...]) -> frozenset[Term]:
    folds = outer_folds(group)
    indices = {i for e in group for i in e.indices} - {scan_of(group)}
    return frozenset(i for i in indices if all(i.name in f.free for f in folds))


def scan_of(group: Sequence[Equation]) -> Term | None:
    """Return the index of the equations along which their aggregates are prefixes, if there is one.

    One loop along it, from one of its ends, carries them all, and stores its results as it goes.
    """
    folds = outer_folds(group)
    prefixes = [as_prefix(f) for f in folds]
    for t, is_suffix in dict.fromkeys((p.index, p.is_suffix) for p in prefixes if p is not None):
        carried = [p is not None and (p.index, p.is_suffix) == (t, is_suffix) for p in prefixes]
        others = [f for f, is_here in zip(folds, carried, strict=True) if not is_here]
        if all(t in e.indices for e in group) and not any(t.name in f.free for f in others):
            return t
    return None


def scan_along(group: Sequence[Equation]) -> Walk | None:
    """Return the loop along which the aggregates of equations are prefixes, if there is one."""
    scan = scan_of(group)
    return None if scan is None else walk_along(scan, T.TRUE, [e.body for e in group])


def _share_a_loop(a: Sequence[Equation], b: Sequence[Equation], sizes: Mapping[str, int]) -> bool:
    """True if both groups have a loop over one domain, and differ by short columns alone: few
    enough for one value of a row to hold, and such that products are still of two tiles."""
    rows = rows_of(a), rows_of(b)
    loops = [{T.domain_of(f) for f in outer_folds(g)} for g in (a, b)]
    if rows[0].isdisjoint(rows[1]) or loops[0].isdisjoint(loops[1]) or scan_of(a) is not scan_of(b):
        return False
    held = [[i for i in e.indices if i not in rows[0] & rows[1]] for e in (*a, *b)]
    if rows[0] != rows[1] and all(map(is_plain, outer_folds((*a, *b)))):
        # They share what is read alone, and a product needs many rows for each column.
        columns = sum(math.prod(sizes[i.extent] for i in indices) for indices in held)
        if columns * ROW_BLOCK > LARGEST_TILE:
            return False
    return rows[0] == rows[1] or (
        all(fits_whole(i.extent, sizes) for i in rows[0] ^ rows[1])
        and all(fits_together(i, sizes) for i in held)
        and _multiply_tiles((*a, *b), rows[0] & rows[1])
    )


def _multiply_tiles(group: Sequence[Equation], rows: Collection[Term]) -> bool:
    """True if the products of equations that share these rows and a loop are of two tiles.

    An index that both sides of a product have, and of which all values are held, gives its tiles
    more than two axes. No matrix unit takes those, and such a product is written out with an
    element for each pair of elements that meet.
    """
    waiting = [(f, frozenset(i.name for i in rows), True) for f in outer_folds(group)]
    while waiting:
        f, cut, is_loop = waiting.pop()
        opened, parts = T.open_fold(f)
        products = sides_of_products(f)
        if is_loop or not products:
            cut = cut | {i.name for i in opened}
        if not all(a & b <= cut for a, b in products):
            return False
        waiting += [(t, cut, False) for t in outer_folds_of(parts)]
    return True


def sides_of_products(f: Term) -> list[tuple[frozenset[str], frozenset[str]]]:
    """Return the indices of both sides of each product of matrices that a sum is, without its
    own."""
    if (opened := opened_sum(f)) is None:
        return []
    bound, _, element = opened
    addends = apart(element, bound.name)
    pairs = (largest_sides([g.free for g in factors(p)], bound.name) for p in addends)
    return [sides for sides in pairs if sides is not None]


def is_plain(f: Term) -> bool:
    """True if a fold is a product of matrices that are read, or a sum of such products."""
    if (opened := opened_sum(f)) is None:
        return False
    bound, _, element = opened
    if element.op == "fold":
        return is_plain(element)
    return all(
        all(T.is_read(g) or g.op == "const" for g in factors(p)) and is_product(p, bound.name)
        for p in apart(element, bound.name)
    )


def fits_together(indices: Iterable[Term], sizes: Mapping[str, int]) -> bool:
    """True if one value of a row can hold a padded tile of all values of these indices."""
    return math.prod(max(MIN_DOT, power_of_two(sizes[i.extent])) for i in indices) <= LARGEST_TILE


@record()
class RoleChoice:
    """An index of the outputs with its role, and why it has this one."""

    axis: Axis
    why: str


def choose_roles(group: Sequence[Equation], fits: Callable[[str], bool]) -> dict[str, Axis]:
    """Return the roles of `explain_roles` alone."""
    return {name: choice.axis for name, choice in explain_roles(group, fits).items()}


def explain_roles(
    group: Sequence[Equation],
    fits: Callable[[str], bool],
    splits: Collection[str] = (),
    lesser: Collection[Term] = (),
) -> dict[str, RoleChoice]:
    """Give every index of the outputs a role, by where it occurs.

    An index that some aggregate lacks and another has is a column of values: held
    whole, or in blocks if it is long, and what they share is computed for each block. So is
    one that a sum inside of all aggregates lacks, in a factor of its own: in blocks, if not all
    aggregates are products, as their tiles have its blocks beside rows and elements. One
    that every aggregate lacks is streamed once more to write the result, but for the ranks
    of `top`, whose list is held whole. One along which the aggregates are prefixes is
    streamed, and the prefixes are stored as the loop goes.
    Of the others, one that a large operand of a loop lacks is a row: its block shares
    what is read, but for segments of a list, which are disjoint. Different `splits` (extents) of
    a stream share nothing. What `lesser` aggregates lack is no reason to hold it: they are
    computed for each program instance.
    """
    folds = [f for f in outer_folds(group) if f not in lesser]
    of_group = _indices_of(group, folds, splits, lesser)
    indices = {i.name: i for e in group for i in e.indices}
    roles = {name: _role_of(i, of_group, fits) for name, i in indices.items()}
    streams = [n for n, (role, _) in roles.items() if role == "stream"]
    streams.sort(key=lambda name: indices[name] is not of_group.scan)
    for extra in streams[1:]:
        roles[extra] = "row", f"in blocks: {streams[0]} is streamed"
    if not folds and roles:
        roles[list(roles)[-1]] = "row", "nothing is folded: in blocks along the last index"
    rows = iter(_in_order([n for n, (role, _) in roles.items() if role == "row"], group))
    names = [next(rows) if role == "row" else n for n, (role, _) in roles.items()]
    axes = {n: Axis(n, indices[n].extent, roles[n][0]) for n in names}
    return {n: RoleChoice(axis, roles[n][1]) for n, axis in axes.items()}


@record()
class _Indices:
    """The indices of a group of equations, by what their role follows from.

    Attributes:
        folds: the aggregates of the group, but for lesser ones.
        lesser: aggregates that cost little.
        scan: the index along which the aggregates are prefixes.
        splits: extents of splits of a stream.
        columns: names of those that a sum inside of all aggregates lacks.
        segments: names of those that number segments of a list.
        rows: names of those that are worth cutting into blocks.
        ranks: the ranks of `top`.
    """

    folds: Sequence[Term]
    lesser: Collection[Term]
    scan: Term | None
    splits: Collection[str]
    columns: Collection[str]
    segments: Collection[str]
    rows: Collection[str]
    ranks: Collection[Term]


def _indices_of(
    group: Sequence[Equation],
    folds: list[Term],
    splits: Collection[str],
    lesser: Collection[Term],
) -> _Indices:
    """Sort the indices of a group by where they occur in its aggregates."""
    scan = scan_of(group)
    indices = dict.fromkeys(i for e in group for i in e.indices)
    candidates = [i.name for i in indices if i is not scan and i.extent not in splits]
    everywhere = [n for n in candidates if all(n in f.free for f in folds)]
    columns = {n for n in everywhere if folds and all(_is_column(n, f) for f in folds)}
    segments = {n for n in everywhere if folds and all(_is_of_segments(f, n) for f in folds)}
    listed = {n for n in everywhere if folds and all(_is_listed(f, n, splits) for f in folds)}
    plain = [n for n in everywhere if n not in columns | segments | listed]
    rows = _rows(plain, folds) or ({*plain[-1:]} if segments else set())
    segments |= listed
    ranks = {t.args[0] for t in T.subterms(*(e.body for e in group)) if is_selection(t)}
    return _Indices(folds, lesser, scan, splits, columns, segments, rows, ranks)


def _role_of(i: Term, indices: _Indices, fits: Callable[[str], bool]) -> tuple[Role, str]:
    """Return the role of one index, and why it has this one."""
    name, folds = i.name, indices.folds
    having = [f for f in folds if name in f.free]
    if i is indices.scan:
        return "stream", "the aggregates are prefixes along it"
    if i.extent in indices.splits:
        return "grid", "different splits of a stream share nothing"
    if i in indices.ranks and not having:
        return "whole", "ranks of one list"
    if folds and not having:
        return "stream", "every aggregate lacks it: what is known then is written along it"
    if len(having) < len(folds) or name in indices.columns:
        lacking = "a sum in the aggregates" if name in indices.columns else "an aggregate"
        if not fits(i.extent):
            return "row", f"{lacking} lacks it, and serves a block: it is too long to hold"
        if name in indices.columns and not all(map(_is_product, folds)):
            return "row", f"{lacking} lacks it, and serves a block: it is no product"
        return "whole", f"{lacking} lacks it, and serves all of it"
    if name in indices.rows:
        return "row", "a large operand lacks it: a block of rows shares what is read"
    if name in indices.segments:
        return "grid", "segments of a list share nothing"
    if any(name not in f.free for f in indices.lesser):
        return "grid", "what lacks it costs little: each value computes it anew"
    return "grid", "what is computed for one value serves no other"


def _in_order(rows: list[str], group: Sequence[Equation]) -> list[str]:
    """Return the rows, that along which most of what is read after all loops varies alone first: a
    thread holds elements of few rows of a tile, and of many columns, and has a value for each."""
    alone = dict.fromkeys(rows, 0)
    waiting, seen = [e.body for e in group], set[Term]()
    while waiting:
        t = waiting.pop()
        if t in seen or t.op == "fold":
            continue
        seen.add(t)
        waiting += t.args
        varying = t.free & alone.keys()
        if t.op in T.READS and len(varying) == 1:
            alone[next(iter(varying))] += 1
    return sorted(rows, key=lambda n: -alone[n])


def share_few(
    group: Sequence[Equation], roles: Mapping[str, RoleChoice], are_few: Callable[[str], bool]
) -> Mapping[str, RoleChoice]:
    """Return the roles where an instance for each value of all indices would have a few elements:
    those along another index are then a block of rows. Of what folds nothing the last index is in
    blocks already."""
    folds = outer_folds(group)
    grid = [n for n, c in roles.items() if c.axis.role == "grid"]
    passed = [x for f in folds for x in f.attr.extents]
    passed = passed or [i.extent for e in group for i in e.indices[-1:]]
    sums = [t for f in folds for t in _inner_folds(f) if is_fold(t, "sum")]
    if not grid or sums or len(grid) + (not folds) < len(roles) or not all(map(are_few, passed)):
        return roles
    axis = replace(roles[grid[-1]].axis, role="row")
    shared = RoleChoice(axis, "few elements each: a block of rows shares an instance")
    return {n: shared if n == grid[-1] else c for n, c in roles.items()}


def outer_folds(group: Iterable[Equation]) -> list[Term]:
    """Return the folds that are not inside another fold."""
    return list(outer_folds_of(tuple(e.body for e in group)))


@lru_cache(maxsize=4096)
def outer_folds_of(bodies: tuple[Term, ...]) -> tuple[Term, ...]:
    """Return the folds in terms that are not inside another fold."""
    folds: dict[Term, None] = {}
    seen: set[Term] = set()
    stack = list(bodies)
    while stack:
        t = stack.pop()
        if t in seen:
            continue
        seen.add(t)
        if is_selection(t):
            stack.append(t.args[0])
            t = carrier(t)
        if t.op == "fold" or is_selection(t):
            folds[t] = None
            for part in T.open_fold(t)[1]:  # an earlier result of the same rows
                names = {n for n in part.free if n.startswith("$")}
                stack.extend(
                    s
                    for s in T.subterms(part)
                    if (s.op == "fold" or is_selection(s))
                    and not names & s.free
                    and not T.is_open(s)
                )
        else:
            stack.extend(t.args)
    reading = [f for f in folds if any(t.op in T.READS for t in T.subterms(f))]
    return tuple(reading or folds)  # a count is the same for all rows


def _is_column(name: str, f: Term) -> bool:
    """True if the factors of a fold's elements that have the index are read, and the others hold a
    fold of its own for each element."""
    if f.op != "fold" or len(f.attr.indices) != 1:
        return False
    (bound,), (condition, *values) = T.open_fold(f)
    parts = (*(p for v in values for p in factors(v)), condition)
    own = [p for p in parts if name in p.free]
    shared = T.subterms(*(p for p in parts if name not in p.free))
    is_nested = any(t.op == "fold" and bound.name in t.free for t in shared)
    return is_nested and all(map(T.is_read, own))


def _is_of_segments(f: Term, name: str) -> bool:
    """True if a fold goes from the number of elements that are smaller than an index to the number
    of those that are not larger. Each position is in one such segment of a list."""
    counted: dict[str, set[Term]] = {"<": set(), "<=": set()}
    for t in T.subterms(f.args[0]):
        if t.op == "stored" and [i.name for i in t.args[-1:] if i.op == "index"] == [name]:
            total, at = t.attr.body, t.attr.indices[-1]
            if total.op == "fold" and total.attr.monoid == "sum" and total.args[1] is T.const(1):
                _, (c, _) = T.open_fold(total)
                if c.op == "compare" and c.attr in counted and c.args[1] is at:
                    counted[c.attr].add(c.args[0])
    return not counted["<"].isdisjoint(counted["<="])


def _is_listed(f: Term, name: str, splits: Collection[str]) -> bool:
    """True if a fold goes over the splits that each position of an index has for itself."""
    return f.attr.extents[0] in splits and name in f.args[0].free


def _is_product(f: Term) -> bool:
    """True if a fold is a sum, whose elements matrix units can multiply and add up."""
    return f.op == "fold" and f.attr.monoid in ("sum", SE_PAIR)


def _rows(names: list[str], folds: list[Term]) -> set[str]:
    """Return the indices to cut into blocks: those that most of what a loop reads lacks, counted
    by dimensions, and above all a large operand. A plain product of matrices has two, one of
    each side; where a loop holds another sum there is one, unless that is such a product."""
    reads = list(dict.fromkeys(r for f in folds for r in streamed_reads(f)))
    lacking = {n: [len(r.args) for r in reads if n not in r.free] for n in names}
    largest = max((size for sizes in lacking.values() for size in sizes), default=0)
    ranked = sorted(names, key=lambda n: (-sum(lacking[n]), -names.index(n)))
    rows = [n for n in ranked if largest in lacking[n]]
    inner = {f: _inner_folds(f) for f in folds}
    if any(inner.values()) or not rows:
        return _sides(inner, names) or set(rows[:1])
    return set([*rows, *(n for n in ranked if lacking[n] and n not in rows)][:2])


def _inner_folds(f: Term) -> list[Term]:
    return [t for part in T.open_fold(f)[1] for t in T.subterms(part) if t.op == "fold"]


def _sides(inner: Mapping[Term, Sequence[Term]], names: Sequence[str]) -> set[str]:
    """Return one of the names for each side of the first product of two matrices in loops, if
    these do not run along a side of any."""
    chosen: set[str] = set()
    for f, folds in inner.items():
        loop = {i.name for i in T.open_fold(f)[0]}
        for t in folds:
            products = sides_of_products(t)
            if not products:
                continue
            sides = products[0]
            own = [[n for n in names if n in a - b] for a, b in permutations(sides)]
            if not loop.isdisjoint(sides[0] ^ sides[1]) or not all(own):
                return set()
            chosen = chosen or {side[-1] for side in own}
    return chosen


def streamed_reads(f: Term) -> list[Term]:
    """Return the reads inside a fold that vary with its index: those of elements, or where these
    are not read, of the filter."""
    opened, (condition, *bodies) = T.open_fold(f)
    names = {i.name for i in opened}

    def varying(*terms: Term) -> list[Term]:
        return [t for t in T.subterms(*terms) if t.op in T.READS and names & t.free]

    return varying(*bodies) or varying(condition)
