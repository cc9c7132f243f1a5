"""Build the host program that runs the kernels of equations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from monocomp import terms as T
from monocomp.declarations.dtypes import NARROW, promoted
from monocomp.declarations.record import record
from monocomp.extents.nominal import without_elements
from monocomp.host import arguments as A
from monocomp.host import program as H
from monocomp.host.launches import (
    Choose,
    Describe,
    Fast,
    Launch,
    Map,
    Programs,
    Return,
    Slice,
    Slices,
    Wide,
)
from monocomp.host.sizes import (
    Bound,
    CheckEmpty,
    CheckShapes,
    CheckSome,
    Shape,
    Sizes,
    Split,
    SplitPadding,
)
from monocomp.host.tensors import (
    Align,
    Buffer,
    Clear,
    Convert,
    Free,
    Promote,
    Sort,
    Transpose,
    View,
    Widen,
)
from monocomp.terms import equations as E
from monocomp.terms.equations import Equations
from monocomp.tile import FRAGMENTS, OPERAND, Expr, Tensor, TileProgram

MANY_BLOCKS = 8  # of rows, whose reading takes longer than a copy, if they read odd rows or columns


@record()
class Interface:
    """A kernel's interface: how it is called.

    Attributes:
        kernel: what it computes.
        name: its identifier.
        arguments: the values of its parameters in their order, without those that a schedule gives.
        scheduled: the parameters that a schedule gives; None where there is no schedule.
        grid: its program instances, along the fastest axis first.
        shared: pairs of tensors that one product takes together.
        added: the integer parameters of sums and products.
        requires_descriptors: true if there is no other way to load what descriptors load.
        maps: those that list the blocks of its loops.
    """

    kernel: TileProgram
    name: str
    arguments: tuple[A.Argument, ...]
    scheduled: tuple[str, ...] | None = None
    grid: tuple[tuple[str, A.Number], ...] = ()  # by axis
    shared: tuple[tuple[str, str], ...] = ()
    added: tuple[str, ...] = ()
    requires_descriptors: bool = False
    maps: tuple[Map, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        """Return inputs and outputs."""
        return (*self.kernel.inputs, *(o.name for o in self.kernel.outputs))

    @property
    def counters(self) -> tuple[str, ...]:
        """Return the counters, each of a name that no program has."""
        values = (a.value for a in self.arguments)
        return tuple(v.tensor for v in values if isinstance(v, A.Counter))

    @property
    def halves(self) -> set[str]:
        """Return the axes that tiles hold whose lengths are to be computed."""
        values = (a.value for a in self.arguments)
        return {x.attr for x in values if isinstance(x, A.Number) and x.op == "length"}

    def programs(self, axes: Collection[str]) -> A.Number:
        """Return the number of program instances along some axes of the grid."""
        return A.product(count for axis, count in self.grid if axis in axes)

    @property
    def descriptors(self) -> tuple[A.Descriptor, ...]:
        """Return the descriptors among the arguments."""
        return tuple(a.value for a in self.arguments if isinstance(a.value, A.Descriptor))

    @property
    def signature(self) -> A.Signature:
        """Return the signature of the kernel."""
        return A.Signature(self.name, self.scheduled or ())


def of_tile_program(kernel: TileProgram) -> Interface:
    """Return how an interpreter of tile programs is called: with tensors, sizes and parameters."""
    names = (*kernel.inputs, *(o.name for o in kernel.outputs))
    arguments = [A.Argument(n, A.Pointer(n)) for n in names]
    arguments += [A.Argument(f"size {e}", A.size(e)) for e in kernel.extents()]
    arguments += [A.Argument(n, A.param(n)) for n in kernel.params]
    return Interface(kernel, kernel.name, tuple(arguments))


def host_program(
    lowered: Equations, kernels: Sequence[Interface], known: Mapping[str, int] | None = None
) -> H.HostProgram:
    """Return the program that runs the kernels.

    Args:
        lowered: the program that the kernels compute.
        kernels: in the order in which they run.
        known: the sizes for which the kernels are.
    """
    declared, given = lowered.declared, given_inputs(lowered)
    sizes = list(_sizes(lowered, kernels, known or {}))
    read = {s.tensor for s in sizes if isinstance(s, Sizes) and None not in s.extents}
    checked = tuple(Shape(n, declared.extents(n)) for n in given if n not in read)
    late, columns = _late(lowered, kernels), _columns(lowered, kernels)
    body: list[A.Statement] = [
        *sizes,
        *([CheckShapes(checked)] if checked else []),
        *(CheckEmpty(e) for e in sorted(without_elements(lowered))),
        *_dtypes(lowered, kernels),
        *_sorted(lowered),
        *_buffers(lowered, kernels[:late]),
        *(Sort(s.tensor, s.kept, *s.names) for s in lowered.sorted),
        *_launches(lowered, kernels[:late], columns),
    ]
    if late < len(kernels):  # what slices take is given back first
        body += _freed(lowered, kernels[:late], kernels[late:])
        body += _buffers(lowered, kernels[late:])
        body += _launches(lowered, kernels[late:], columns, late)
    body.append(Return(tuple(o.name for o in declared.outputs)))
    start = None if lowered.slices is None else lowered.slices.start
    own = {start, *lowered.splits.values()}
    params = tuple(n for n in declared.params if n not in own)
    return H.HostProgram(tuple(given), params, tuple(k.signature for k in kernels), tuple(body))


def given_inputs(lowered: Equations) -> list[str]:
    """Return the inputs that a call gives: not slices of them."""
    slices = lowered.slices
    return [n for n in lowered.declared.inputs if slices is None or n not in slices.read]


def _sizes(
    lowered: Equations, kernels: Sequence[Interface], sizes: Mapping[str, int]
) -> Iterator[A.Statement]:
    """Sizes that inputs have, then those that are computed from them: of splits, and of what is as
    long, the last."""
    declared = lowered.declared
    bounds = {e: T.const(n) for e, n in sizes.items()} | {
        e: bound for e, bound in declared.bounds.items() if e not in sizes
    }
    known: set[str | None] = {*bounds}
    for name in given_inputs(lowered):
        read: list[str | None] = []
        for extent in declared.extents(name):
            read.append(None if extent in known else extent)
            known.add(extent)
        if any(read):
            yield Sizes(tuple(read), name)
    counts = {T.extent_of(e) for e in lowered.splits}
    late = {e for e, size in bounds.items() if counts & {T.extent_of(e), *T.subterms(size)}}
    for extent in sorted(bounds, key=late.__contains__):
        if extent in lowered.splits:
            number = next(n for n, k in enumerate(kernels) if extent in k.kernel.splits)
            axes = [a.name for a in kernels[number].kernel.axes.values() if a.extent != extent]
            yield Split(lowered.splits[extent], number, kernels[number].programs(axes))
        yield Bound(extent, A.of_term(bounds[extent]))


def _dtypes(lowered: Equations, kernels: Sequence[Interface]) -> Iterator[A.Statement]:
    """Decide the dtype of products, and convert what they multiply with one another to it."""
    declared = lowered.declared
    yield Promote(_wide(lowered, declared.deciding), promoted(_known(lowered, declared.deciding)))
    if any(a.value == A.Flag("fast") for k in kernels for a in k.arguments):
        yield Fast(next(iter(declared.inputs)))
    if wide := _widened(lowered, kernels):
        yield Widen(wide)
    whole = {} if lowered.slices is None else {s: t for s, (t, _) in lowered.slices.read.items()}
    groups: list[dict[str, None]] = []
    for names in ({whole.get(x, x): None for x in pair} for k in kernels for pair in k.shared):
        met = [g for g in groups if g.keys() & names.keys()]
        groups = [g for g in groups if g not in met]
        groups.append({n: None for g in (*met, names) for n in g})
    yield from (Convert(tuple(g)) for g in groups if len(g) > 1)


def _widened(lowered: Equations, kernels: Sequence[Interface]) -> tuple[str, ...]:
    """Return the inputs of 8 bits that compiled kernels take in the dtype of products."""
    inputs = [n for n, i in lowered.declared.inputs.items() if i.dtype in NARROW]
    read = {
        t.name: t.dtype
        for k in kernels
        if k.scheduled is not None
        for t in k.kernel.inputs.values()
    }
    return tuple(n for n in inputs if n in read and read[n] is None)


def _wide(lowered: Equations, names: Iterable[str]) -> tuple[str, ...]:
    """Return the inputs other than floats of 8 bits, which decide no dtype."""
    return tuple(n for n in names if lowered.declared.inputs[n].dtype not in NARROW)


def _known(lowered: Equations, names: Iterable[str]) -> list[str]:
    """Return the dtypes of inputs that are known."""
    return [d for n in names if (d := lowered.declared.inputs[n].dtype) is not None]


def _late(lowered: Equations, kernels: Sequence[Interface]) -> int:
    """Return the first kernel after slices."""
    inside = frozenset() if lowered.slices is None else lowered.slices.computed
    numbers = (n for n, k in enumerate(kernels, 1) if k.kernel.outputs[0].name in inside)
    return max(numbers, default=len(kernels))


def _freed(
    lowered: Equations, kernels: Sequence[Interface], later: Sequence[Interface]
) -> list[A.Statement]:
    """Return the statement that frees what kernels have stored, except results and what later
    kernels use; no statement if nothing is left."""
    kept = {o.name for o in lowered.declared.outputs} | {n for k in later for n in k.tensors}
    kept |= set() if lowered.slices is None else lowered.slices.written.keys()
    stored = (o.name for k in kernels for o in k.kernel.outputs)
    freed = tuple(n for n in stored if n not in kept)
    return [Free(freed)] if freed else []


def _sorted(lowered: Equations) -> Iterator[A.Statement]:
    """Yield the buffers for sorted lists of positions."""
    for e in (lowered.by_name[n] for s in lowered.sorted for n in s.names):
        yield Buffer(e.name, tuple(i.extent for i in e.indices), "int", "int64")


def _buffers(lowered: Equations, kernels: Sequence[Interface]) -> Iterator[A.Statement]:
    """Yield the statements that allocate what kernels write, clear sums, and check empty axes."""
    slices = lowered.slices
    for k in kernels:
        for o in k.kernel.outputs:
            name, dims = o.name, list(o.dims)
            if slices is not None and name in slices.written:
                name, dim = slices.written[name]
                dims[dim] = slices.whole
            dtype, beside = _dtype(lowered, kernels, o)
            yield Buffer(name, tuple(dims), o.kind, dtype, beside, o.dtype == FRAGMENTS)
            if k.kernel.is_added_to(o.name):
                yield Clear(o.name)
    for k in kernels:
        for counter in k.counters:
            yield Buffer(counter, (), "int", "int32")
    for k in kernels:
        whole = [o for o in k.kernel.outputs if not k.kernel.is_added_to(o.name)]
        for extent in (k.kernel.axes[axis].extent for axis, _ in k.grid):
            others = tuple(o.name for o in whole if extent not in o.dims)
            if others:
                yield CheckSome(extent, others)


def _launches(
    lowered: Equations,
    kernels: Sequence[Interface],
    columns: Mapping[str, int],
    first: int = 0,
) -> Iterator[A.Statement]:
    """Yield the launches by number, each with the views of what it writes, as later kernels may
    read them. Kernels for slices run in a loop, which has views of its own."""
    slices = lowered.slices
    inside: list[A.Statement] = []
    for n, k in enumerate(kernels, first):
        launches = _launch(n, k, lowered, columns)
        if slices is not None and k.kernel.outputs[0].name in slices.computed:
            inside += launches
        else:
            if inside and slices is not None:
                yield _in_slices(slices, inside)
                inside = []
            yield from launches
            if slices is None:
                yield from _views(lowered, k)
    if inside and slices is not None:
        yield _in_slices(slices, inside)


def _views(lowered: Equations, k: Interface) -> Iterator[View]:
    """Yield the tensors that lay out anew what a kernel writes."""
    written = {o.name for o in k.kernel.outputs}
    for name, packed in lowered.views.items():
        if packed in written:
            yield View(name, packed, tuple(i.extent for i in lowered.by_name[name].indices))


def _in_slices(slices: E.Slices, body: Sequence[A.Statement]) -> Slices:
    tensors = {**slices.read, **slices.written}
    views = tuple(Slice(name, *of) for name, of in tensors.items())
    return Slices(slices.part, slices.whole, slices.start, slices.length, views, tuple(body))


def _multiplied_with(
    lowered: Equations, kernels: Sequence[Interface], name: str
) -> tuple[str, ...]:
    """Return the inputs with which products of matrices multiply a stored tensor, but for those
    of 8 bits, to which nothing is rounded."""
    declared, slices = lowered.declared.inputs, lowered.slices
    names: dict[str, None] = {}
    for k in kernels:
        for e in k.kernel.products:
            read = [_loaded(k.kernel, a) for a in e.args[:2]]
            if name in read:
                names |= dict.fromkeys(n for n in read if n is not None and n in declared)
    narrow = {n for n in names if declared[n].dtype in NARROW}
    whole = {} if slices is None else slices.read
    return tuple(dict.fromkeys(whole[n][0] if n in whole else n for n in names if n not in narrow))


def _loaded(kernel: TileProgram, e: Expr) -> str | None:
    """Return the tensor that a tile is loaded from, if it is as it is read."""
    e = kernel.meaning(e)
    if e.op == "masked":
        return _loaded(kernel, e.args[0])
    return e.attr if e.op == "load" else None


def _dtype(
    lowered: Equations, kernels: Sequence[Interface], output: Tensor
) -> tuple[str, tuple[str, ...]]:
    """Return the dtype of a buffer, and the tensors beside it."""
    if output.is_wide:
        return "accumulated", ()
    if output.dtype == OPERAND:
        beside = _multiplied_with(lowered, kernels, output.name)
        return OPERAND if beside else "promoted", beside
    if output.dtype is not None or output.kind != "float":
        return output.dtype or {"int": "int64", "bool": "bool"}[output.kind], ()
    declared, views = lowered.declared, lowered.views
    like = {n: o.like for o in declared.outputs for n in (o.name, views.get(o.name, o.name))}
    names = like.get(output.name, ())
    wide = _wide(lowered, names)
    if names and not wide:
        return promoted(_known(lowered, names)), ()
    return "promoted", () if {*wide} == {*_wide(lowered, declared.deciding)} else wide


def _launch(
    number: int, k: Interface, lowered: Equations, columns: Mapping[str, int]
) -> Iterator[A.Statement]:
    if k.scheduled is not None:
        required = k.requires_descriptors
        host = (A.PROGRAMS,) * bool(k.kernel.splits)
        host += (A.DESCRIPTORS,) * (bool(k.descriptors) and not required)
        yield Choose(number, host)
        rows = k.kernel.axis_names("row")
        loading = [d for d in k.descriptors if not isinstance(d, A.Adding)]
        odd = {d.tensor: None for d in loading if required or _is_held(k.kernel, d)}
        results = {lowered.views.get(o.name, o.name) for o in lowered.declared.outputs}
        copied = [n for n in odd if n in lowered.declared.inputs or (required and n not in results)]
        if rows and copied:
            least, widest = (0, 4) if required else (MANY_BLOCKS, 2)
            yield Align(tuple(copied), k.programs(rows), least, widest)
        read = [n for n in columns if n in k.kernel.inputs]
        if rows and read:
            dims = tuple(columns[n] for n in read)
            yield Transpose(tuple(read), dims, k.programs(rows), MANY_BLOCKS)
        yield Wide(k.tensors, k.added)
        yield Programs(k.programs(k.kernel.axes))
        for axis in k.kernel.axes.values():
            if axis.after is not None and axis.name in k.halves:
                yield SplitPadding(axis.extent, axis.after, axis.name)
        yield from k.maps
        if k.descriptors:
            yield Describe(k.descriptors, required)
    yield from map(Clear, k.counters)
    yield Launch(number, k.name, k.arguments)


def _columns(lowered: Equations, kernels: Sequence[Interface]) -> dict[str, int]:
    """Return the inputs of which kernels read nothing but columns, each with the dimension of
    these."""
    read = {
        n: {_column(k.kernel, n) for k in kernels if n in k.tensors} for n in given_inputs(lowered)
    }
    return {
        n: dim for n, dims in read.items() for dim in dims if dim is not None and len(dims) == 1
    }


def _column(kernel: TileProgram, name: str) -> int | None:
    """Return the dimension along which a kernel reads columns of a tensor, if it reads nothing
    else of it: a loop goes over the positions in rows one by one."""
    dims = set[int | None]()
    for e in kernel.expressions:
        if e.op == "load" and e.attr == name:
            at = [kernel.meaning(x) for x in e.positions]
            is_column = len(e.axes) == 1 and all(x.op == "coordinate" for x in at)
            is_column = is_column and kernel.axes[at[-1].attr].role == "serial"
            dims |= {n for n, x in enumerate(at) if x.axes} if is_column else {None}
    return dims.pop() if len(dims) == 1 else None


def _is_held(kernel: TileProgram, descriptor: A.Descriptor) -> bool:
    """True if blocks hold entire rows of the tensor, which many other blocks then read again."""
    last = [a for a in descriptor.axes if a is not None][-1]
    return kernel.axes[last].role == "whole"
