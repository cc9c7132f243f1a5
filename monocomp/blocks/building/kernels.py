"""A tile program as a block program: rows and grid indices become program instances, streams loops
over blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from monocomp import blocks as B
from monocomp import tile as P
from monocomp.blocks.building.accesses import held_dims, load, store
from monocomp.blocks.building.combining import fold
from monocomp.blocks.building.context import Context, Stream
from monocomp.blocks.building.expressions import tile, value
from monocomp.blocks.building.periods import is_in_period, position
from monocomp.blocks.choices.choose import Choices
from monocomp.blocks.choices.moving import is_all_or_none
from monocomp.blocks.masking import masks
from monocomp.blocks.masking.bounds import may_admit
from monocomp.blocks.masking.loops import loop
from monocomp.blocks.names import PID, Constant, Key, Scope, option
from monocomp.blocks.operations import (
    arange,
    cast,
    cdiv,
    extreme,
    helper,
    infix,
    is_constant,
    joined,
    name,
    number,
    to,
    whole,
)
from monocomp.blocks.passes.unread import needed, read

_SUMS = ("add", "sub", "neg", "mul")
Known = Callable[[tuple[B.Argument, ...], tuple[B.Block, ...]], Mapping[Key, Constant]]


def build(
    program: P.TileProgram,
    choices: Choices,
    kernel_name: str,
    scope: Callable[[str], Scope],
    functions: Mapping[str, str],
    known: Known,
    write: Callable[[Context], None] | None = None,
) -> B.BlockProgram:
    """Return the block program of a kernel.

    Args:
        program: the kernel.
        choices: what passes have decided for it.
        kernel_name: its identifier.
        scope: gives a kernel or function of a name the identifiers inside it.
        functions: identifiers of the combines, by monoid.
        known: what is known of arguments, by their keys, from the arguments and from what
            descriptors load.
        write: writes what the kernel does, if that is not the program's body.
    """
    c = Context(program, choices, scope, kernel_name, functions)
    grid, held = _grid_axes(program), held_dims(program)
    descriptors = tuple(dict.fromkeys(choices.by_descriptor.values()))
    arguments = tuple(_arguments(c))
    c.learn(arguments, known(arguments, descriptors))
    _steps(c, held)
    added = _added_params(c)
    for param in map(c.names.param, added):  # sums with large ones take 64 bits
        c.assign(param, cast(param, c.names.offset))
    _program_ids(c, grid)
    for axis in program.axes.values():
        if axis.role == "whole":
            with c.of(axis):
                positions = to(arange(axis.name), c.names.offset)
                if axis.after:
                    positions = infix("+", c.names.block(axis.after), positions)
                c.let(c.targets.axis(axis.name), positions)
                _let_inside(c, axis)
    if write is None:
        write_body(c, program.body)
    else:
        write(c)
    body = needed(tuple(c.out))
    precision = c.names.option("PRECISION") if program.products else None
    rows = {a.name: _rows(c, a) for a in grid if a.role == "row"}
    bounds = (x for r in rows.values() for x in (r.stop, r.are_full))
    values = [*c.lengths.values(), *bounds, *([precision] if precision else [])]
    read_names = read(body).union(*(v.read_names for v in values))
    shared = (p.shared for p in choices.products.values() if p.shared is not None)
    return B.BlockProgram(
        kernel_name,
        tuple(a for a in arguments if a.name.attr in read_names),
        program.axes,
        c.lengths,
        body,
        c.functions,
        tuple(grid),
        tuple(dict.fromkeys(shared)),
        held,
        descriptors,
        tuple(added),
        precision=precision,
        rows=rows,
    )


def _rows(c: Context, axis: P.Axis) -> B.Rows:
    start = c.targets.index("start", axis.name)
    return B.Rows(start, c.names.size(axis.extent), c.names.even(axis.name))


def is_grouped(program: P.TileProgram) -> bool:
    """True if instances can be ordered in groups: if there are blocks of rows at each position of a
    grid, or blocks along two axes."""
    rows = program.axis_names("row")
    return bool(rows and program.axis_names("grid")) or len(rows) > 1


# --- arguments --------------------------------------------------------------------------------


def _arguments(c: Context) -> Iterator[B.Argument]:
    """Yield all arguments that a kernel may have."""
    program, names = c.program, c.names
    ranks = {n: len(t.dims) for n, t in program.inputs.items()}
    tensors = [*ranks.items(), *((o.name, len(o.dims)) for o in program.outputs)]
    for t, _ in tensors:
        yield B.Argument("pointer", t, 0, names.pointer(t), False)
    for n in range(max(1, len(c.choices.maps))):
        yield B.Argument("map", c.program.name, n, names.map(n), False)
    for n, b in enumerate(dict.fromkeys(c.choices.by_descriptor.values())):
        yield B.Argument("descriptor", b.tensor, n, names.descriptor(b), False)
    for t, rank in tensors:
        for dim in range(rank):
            yield B.Argument("stride", t, dim, names.stride(t, dim), False)
    constants = _constants(c)
    for extent in program.extents():
        yield B.Argument("size", extent, 0, names.size(extent), extent in constants)
    for param in program.params:
        yield B.Argument("param", param, 0, names.param(param), False)
    blocked = program.axis_names("row", "stream", "whole")
    for a in blocked:
        yield B.Argument("block", a, 0, names.block(a), True)
    for a in blocked:
        yield B.Argument("even", a, 0, names.even(a), True)
    for a in program.axis_names("stream"):
        yield B.Argument("single", a, 0, names.single(a), True)
    yield B.Argument("option", "INDEX", 0, option("INDEX"), True)
    yield B.Argument("option", "PRECISION", 0, option("PRECISION"), True)
    yield B.Argument("option", "FAST", 0, option("FAST"), True)
    yield B.Argument("option", "STEP", 0, option("STEP"), True)
    yield B.Argument("order", "GROUP_SIZE", 0, option("GROUP_SIZE"), False)


def _constants(c: Context) -> set[str]:
    """Return the extents that are constants of the kernel. Of axes that are held entirely they tell
    where tiles end; and of those that the positions of a tile are divided by, such as the size of a
    page, a division takes a shift, or a multiplication."""
    return {a.extent for a in c.program.axes.values() if a.role == "whole"} | {
        e.args[1].attr
        for e in c.program.expressions
        if e.op in ("floordiv", "mod") and e.args[1].op == "extent" and c.order(e.axes)
    }


def _added_params(c: Context) -> list[str]:
    """Return the integer parameters of sums and products, where large ones could leave 32 bits."""
    sums = [e for e in c.program.expressions if e.op in _SUMS and e.kind == "int"]
    parts = c.program.made_of(*sums)
    names = {e.attr for e in parts if e.op == "param" and e.kind == "int"}
    return [param for param in c.program.params if param in names]


def _steps(c: Context, held: Mapping[str, int]) -> None:
    """Say that STEP divides strides: what is held entirely is then loaded several elements
    at a time. By itself Triton only looks whether 16 divides an argument."""
    if held:
        c.say("STEP divides these: loads of several elements need to know.")
    step = c.names.option("STEP")
    for tensor, kept in held.items():
        for dim in (n for n in range(len(c.names.dims(tensor))) if n != kept):
            stride = c.names.stride(tensor, dim)
            if stride.op == "name":
                c.assign(stride, infix("*", infix("//", stride, step), step))


# --- program instances ------------------------------------------------------------------------


def _grid_axes(program: P.TileProgram) -> list[P.Axis]:
    rows = [a for a in program.axes.values() if a.role == "row"]
    return rows[::-1] + [a for a in program.axes.values() if a.role == "grid"][::-1]


def _program_ids(c: Context, grid: Sequence[P.Axis]) -> None:
    if not grid:
        return
    counts = {}
    for axis in grid:
        counts[axis.name] = size = c.names.size(axis.extent)
        if axis.role == "row":
            count = name(c.names.of("count", axis.name, f"num_{axis.name}"), B.INT)
            counts[axis.name] = c.let(count, cdiv(size, c.names.block(axis.name)))
    pid = B.Expr("program_id", (), None, (), B.INT32)
    if is_grouped(c.program):
        inner = sum(a.role == "row" for a in grid) if grid[-1].role == "grid" else 1
        rows, positions = (
            joined("*", [counts[a.name] for a in axes]) for axes in (grid[:inner], grid[inner:])
        )
        order = c.names.option("GROUP_SIZE")
        if not (is_constant(order) and order.attr <= 1):
            pid = helper("grouped", pid, rows, positions, order, layout=(), dtype=B.INT32)
    left = c.assign(PID, pid)  # the number among the instances along the axes that are left
    reversed_rows = _longer_rows(c)
    for axis in grid:
        with c.of(axis):
            last, count = axis is grid[-1], counts[axis.name]
            number_ = left if last else infix("%", left, count)
            if axis.role == "grid":
                c.let(c.targets.axis(axis.name), number_)
            elif axis.name in reversed_rows:  # the longest rows first: they end last
                number_ = infix("-", infix("-", count, number(1)), number_)
            start = c.targets.index("start", axis.name)
            if axis.role == "row":
                start = c.let(start, infix("*", number_, c.names.block(axis.name)))
            left = infix("//", left, count)
            if axis.role == "row":
                _enter_rows(c, axis, start)


def _enter_rows(c: Context, axis: P.Axis, start: B.Expr) -> None:
    """Name the rows of a block, and the last one."""
    end = extreme("minimum", infix("+", start, c.names.block(axis.name)), c.names.size(axis.extent))
    c.let(c.targets.index("last", axis.name), infix("-", end, number(1)))
    c.let(c.targets.axis(axis.name), infix("+", start, to(arange(axis.name), c.names.offset)))
    _let_inside(c, axis)


def _longer_rows(c: Context) -> set[str]:
    """Return the rows that have longer loops the later they are: on whose position an upper bound
    depends, but for those of which only the first have everything. How bounds vary that are read
    is not known."""
    upper = (e for s in c.program.loops for x in s.segments for e in x.upper)
    parts = [*c.program.made_of(*upper, apart=("load",))]
    first = {a for e in parts if is_all_or_none(e, c.program) for a in e.axes}
    positions = {e.attr for e in parts if e.op == "coordinate"} - first
    return positions.intersection(c.program.axis_names("row"))


def _let_inside(c: Context, axis: P.Axis) -> None:
    """Name which elements of a block are inside of an axis's extent."""
    inside = infix("<", c.axis(axis.name), c.names.size(axis.extent))
    c.let(c.targets.inside(axis.name), infix("|", inside, c.names.even(axis.name)))


# --- statements -------------------------------------------------------------------------------


def write_body(c: Context, body: Sequence[P.Statement]) -> None:
    """Write statements."""
    waiting: list[P.Let] = []  # masked together, once one of them is read
    for n, s in enumerate(body):
        read_names = P.names_read([s])
        if not isinstance(s, P.Let) or any(w.name in read_names for w in waiting):
            _mask_at_edges(c, waiting)
        if isinstance(s, P.Let) and _is_masked_at_edges(c, s.value):
            if any(_mask(c, w.value) != _mask(c, s.value) for w in waiting):
                _mask_at_edges(c, waiting)
            waiting.append(s)
            continue
        with c.of(s):
            match s:
                case P.Mask():
                    with c.under(may_admit(c, c.streams[-1])):
                        admitted = value(c, s.value, c.layout(s.value))
                        with c.under(masks.admit(c, c.streams[-1], s, admitted)):
                            write_body(c, body[n + 1 :])
                    return
                case P.Let():
                    _let(c, s)
                case P.Fold():
                    fold(c, s)
                case P.Assign():
                    c.assign(c.local(s.name), tile(c, s.value))
                case P.Store():
                    store(c, s)
                case P.Loop():
                    loop(c, s, lambda c, s: write_body(c, s.body))
    _mask_at_edges(c, waiting)


def _let(c: Context, s: P.Let) -> None:
    if s.value.op == "load":
        load(c, s)
    else:
        built = position(c, s.value) if is_in_period(c, s.value) else tile(c, s.value)
        c.let(c.local(s.name, built), built)
    c.known.add(s.name)


def _is_masked_at_edges(c: Context, e: P.Expr) -> bool:
    """True if a whole tile is masked, in a loop that tests at each block whether to mask it."""
    if e.op != "masked":
        return False
    stream, layout = _mask(c, e)
    is_whole = c.order(e.args[0].axes) == layout
    return (
        is_whole and stream is not None and stream.edge is not None and (layout not in stream.kept)
    )


def _mask(c: Context, e: P.Expr) -> tuple[Stream | None, tuple[str, ...]]:
    return c.stream(e.attr[0]), c.layout(e)


def _mask_at_edges(c: Context, lets: list[P.Let]) -> None:
    """Mask tiles by one mask, which is built once for all of them."""
    targets = []
    for s in lets:
        with c.of(s):
            stream, layout = _mask(c, s.value)
            operand = masks.with_unit_bits(c, s.value, value(c, s.value.args[0], layout))
            masked = whole(operand, layout)
            targets.append(c.assign(c.local(s.name, masked), masked))
            c.known.add(s.name)
    if lets:
        assert stream is not None and stream.edge is not None
        with c.block() as inner:
            keep = masks.domain(c, stream, layout)
            for s, target in zip(lets, targets, strict=True):
                c.assign(target, masks.chosen(c, s.value, keep, target))
            stream.kept.pop(layout, None)  # named under the condition only
        c.put(B.If(stream.edge, tuple(inner)))
        lets.clear()
