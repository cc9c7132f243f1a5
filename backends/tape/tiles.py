"""The operations of the interpreter on tiles without elements: a recorder notes them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from monocomp.backends.array_operations import Ops
from monocomp.backends.tape import choices, comparisons, extrema, forms
from monocomp.backends.tape.buffers import Buffer, scatter, store
from monocomp.backends.tape.folding import folded
from monocomp.backends.tape.groups import first_of_groups, group_size
from monocomp.backends.tape.guards import implies, unchosen, unguarded
from monocomp.backends.tape.products import contract_table, sum_products
from monocomp.backends.tape.reading import elements_at
from monocomp.backends.tape.reals import exceeds
from monocomp.backends.tape.recorder import Recorder, Shape, Value
from monocomp.backends.tape.selections import reduce_selected
from monocomp.backends.tape.tile import (
    NO_DIM,
    Source,
    Tile,
    common_shape,
    has_its_order,
    in_order,
    is_transposed,
    moved,
    strided,
    swapped,
    viewed_alike,
    viewed_strides,
)
from monocomp.declarations.vocabulary import Kind
from monocomp.machine.cpu import CPU

if TYPE_CHECKING:
    from monocomp.backends.torch_operations import TorchOps


class TapeOps(Ops):
    """The operations of the interpreter for one kernel, on tiles without elements.

    Args:
        recorder: notes them.
        ops: does them.
        axes: of the kernel, in their order.
        order: ranks of axes by name, the same for all kernels.
    """

    def __init__(
        self, recorder: Recorder, ops: TorchOps, axes: Sequence[str], order: Mapping[str, int]
    ) -> None:
        self.recorder, self.ops = recorder, ops
        self.rank: Callable[[int], int] = [order[name] for name in axes].__getitem__
        self.elementwise: Mapping[str, Callable[..., Tile]] = {
            **{name: partial(self._element, name, f) for name, f in ops.elementwise.items()},
            "and": operator.and_,
        }
        self.library: Any = SimpleNamespace(
            where=partial(self._element, "where", torch.where),
            broadcast_to=self.stretched,
            moveaxis=moved,
            swapaxes=swapped,
            concatenate=self.concatenate,
            **{
                n: partial(self._reduced, n, getattr(torch, n))
                for n in ("sum", "prod", "amax", "amin")
            },
        )

    # --- what is known ----------------------------------------------------------------

    def constant(self, key: object, tensor: torch.Tensor, dims: Sequence[int], rank: int) -> Tile:
        value = self.recorder.constant((key, tensor.dtype, tensor.device), tensor)
        shape = [1] * rank
        for d, n in zip(dims, value.shape, strict=True):
            shape[d] = n
        return Tile(self, value, dims, shape)

    def arange(self, start: int, stop: int) -> Tile:
        return self.constant(("arange", start, stop), self.ops.arange(start, stop), (0,), 1)

    def full(self, shape: Shape, value: float | Tile, kind: Kind) -> Tile:
        if isinstance(value, Tile):  # a parameter
            dtype, device = self.ops.dtype_of(kind), self.ops.device
            run = partial(torch.scalar_tensor, dtype=dtype, device=device)
            made = self.recorder.step(("full", kind), run, [value.value], (), dtype)
            return Tile(self, made, (), shape)
        number = self.ops.full((), value, kind)
        key = "number", repr(number.item())
        return self.stretched(self.constant(key, number, (), len(shape)), shape)

    def known(self, x: Tile) -> torch.Tensor | None:
        return x.value.known

    def chosen(self, x: Tile, *conditions: Tile) -> Tile:
        return unguarded(x, *conditions)

    def unit(self, x: Tile) -> Tile:
        known = x.value.known
        if known is None or known.numel() != 1:
            return x
        value = self.recorder.constant(("unit", x.value), known)
        value.is_unit = True
        return Tile(self, value, x.dims, x.shape)

    def bounds(self, x: Tile) -> tuple[int, int]:
        if not math.prod(x.shape):
            return 0, 0
        if x.value.known is None:
            return -(1 << 62), 1 << 62
        return int(x.value.known.min()), int(x.value.known.max())

    def implies(self, one: Tile, other: Tile) -> bool:
        """True if a condition is known to hold wherever another one does."""
        return self.is_all_true(other) or implies(one, other)

    def is_all_true(self, x: Tile) -> bool:
        """True if a condition is known to hold for all elements."""
        known = x.value.known
        return known is not None and x.dtype == torch.bool and bool(known.all())

    # --- element by element -----------------------------------------------------------

    def cast(self, x: Tile, kind: Kind) -> Tile:
        return self.cast_to(x, self.ops.dtype_of(kind))

    def promote(self, x: Tile) -> Tile:
        if x.dtype == torch.bool:
            return x
        return self.cast_to(x, self.ops.dtype_of("float" if x.dtype.is_floating_point else "int"))

    def cast_to(self, x: Tile, dtype: torch.dtype) -> Tile:
        if x.dtype == dtype:
            return x
        value = self._cast(x.value, dtype)
        made = Tile(self, value, x.dims, x.shape)
        return made.made_by("to", lambda x: self.cast_to(x, dtype), x)

    def _cast(self, value: Value, dtype: torch.dtype) -> Value:
        """Return a value in another dtype: of what a view shows, as others may show it too, and
        of an integer what it was read from."""
        base = in_order(value)
        if base is not None:
            return self.viewed(self._cast(base, dtype), range(len(base.shape)), value.shape)
        name, operands = value.key, value.operands
        if name == ("to", torch.int64) and not operands[0].dtype.is_floating_point:
            return self._cast(operands[0], dtype)
        to, shape = torch.Tensor.to, value.shape
        return self.recorder.step(("to", dtype), to, [value], shape, dtype, arguments=(dtype,))

    def _element(self, name: str, function: Callable[..., Any], *operands: Tile) -> Tile:
        """Return an operation, element by element."""
        if name == "where":
            condition, chosen, other = operands
            operands = condition, unguarded(chosen, condition), unchosen(other, condition)
        if name == "sub" and (negative := _negated(operands[1])) is not None:
            return self.elementwise["add"](operands[0], negative)
        if name == "sign":
            operands = (comparisons.of_sign(self, *operands),)
        made = self._computed(name, function, *operands)
        return made.made_by(name, partial(self._element, name, function), *operands)

    def _computed(self, name: str, function: Callable[..., Any], *operands: Tile) -> Tile:
        shape = common_shape(*(x.shape for x in operands))
        tile = folded(name, operands)
        if tile is not None:
            return self.stretched(tile, shape)
        if name == "where" and (chosen := choices.chosen(self, *operands)) is not None:
            return self.stretched(chosen, shape)
        dtype = operands[-1].dtype
        if name == "uniform":
            dtype = self.ops.dtype_of("float")
        is_own = not hasattr(torch, getattr(function, "__name__", "?")) or name == "stop"
        return self.map(name, function, *operands, dtype=dtype, takes_out=not is_own)

    def compared(self, name: str, a: Tile, b: Tile) -> Tile:
        """Return the truth values of a comparison."""
        made = self._compared(name, a, b)
        return made.made_by(name, partial(self.compared, name), a, b)

    def _compared(self, name: str, a: Tile, b: Tile) -> Tile:
        if a.value is b.value and a.dims == b.dims and not a.dtype.is_floating_point:
            is_true = name in ("eq", "le", "ge")
            return self.full(common_shape(a.shape, b.shape), is_true, "bool")
        full = common_shape(a.shape, b.shape)
        if name == "lt" and exceeds(b.value, a.value.number):
            return self.full(full, True, "bool")
        if a.dtype == b.dtype and a.dtype.is_floating_point:
            name, a, b = comparisons.simplest(self, name, a, b)
            dims, (x, y) = self.aligned((a, b))
            shape = common_shape(x.shape, y.shape)
            if math.prod(shape) >= choices.VECTOR:
                holds = choices.mask(self.recorder, name, x, y, shape)
                value = choices.truth(self.recorder, holds)
                return Tile(self, value, dims, full)

        def compute() -> Tile:
            return self.map(name, getattr(torch, name), a, b, dtype=torch.bool)

        is_known = a.value.known is not None and b.value.known is not None
        if a.dtype.is_floating_point or b.dtype.is_floating_point or is_known:
            return self.stretched(compute(), full)
        return forms.compared(self, name, a, b, compute)

    def map(
        self,
        key: object,
        function: Callable[..., Any],
        *operands: Tile,
        dtype: torch.dtype | None = None,
        takes_out: bool = False,
        arguments: tuple[Any, ...] = (),
    ) -> Tile:
        """Return a function of the elements of tiles that are at the same place, and of
        arguments."""
        shape = common_shape(*(x.shape for x in operands))

        def compute() -> Tile:
            dims, values = self.aligned(operands)
            inner = common_shape(*(v.shape for v in values))
            viewed = viewed_alike(values, inner)
            values = values if viewed is None else viewed[1]
            made = self.recorder.step(
                key,
                function,
                values,
                common_shape(*(v.shape for v in values)),
                dtype or operands[-1].dtype,
                takes_out=takes_out,
                arguments=arguments,
            )
            if viewed is not None:
                made = strided(self.recorder, made, inner, viewed[0])
            return Tile(self, made, dims, shape)

        if key == "mul":
            number, parts = forms.factors(operands)
            return forms.equal(self, key, parts, shape, compute, number)
        return forms.equal(self, key, forms.operands(key, operands), shape, compute)

    def aligned(self, operands: Sequence[Tile]) -> tuple[tuple[int, ...], list[Value]]:
        """Return the dimensions of what broadcasting makes of tiles, and values for them such
        that it does: the order is that of the largest, unless it lacks a dimension."""
        largest = max(operands, key=lambda x: math.prod(x.value.shape))
        every = {d for x in operands for d in x.dims if d != NO_DIM}
        dims = largest.dims
        if not every <= set(dims):
            dims = tuple(sorted(every, key=self.rank))
        return dims, [self._arranged(x, dims) for x in operands]

    def _arranged(self, x: Tile, dims: Sequence[int]) -> Value:
        """Return the value with dimensions in this order, and one element in those that it
        lacks."""
        count = len(x.dims)
        meets = zip(x.dims, dims[len(dims) - count :], strict=False)
        if count <= len(dims) and all(d in (e, NO_DIM) for d, e in meets):
            return x.value
        own = [x.dims.index(d) for d in dims if d in x.dims and d != NO_DIM]
        order = (*(n for n, d in enumerate(x.dims) if d == NO_DIM), *own)
        lengths = {d: n for d, n in zip(x.dims, x.value.shape, strict=True) if d != NO_DIM}
        return self.viewed(x.value, order, tuple(lengths.get(d, 1) for d in dims))

    def viewed(self, value: Value, order: Sequence[int], shape: Shape) -> Value:
        """Return the value permuted, and then with dimensions joined, or dropped."""
        order = tuple(order)
        is_in_order = has_its_order(value, order)
        if is_in_order and value.shape == shape:
            return value
        strides = viewed_strides(value, order, shape)
        if strides is not None:
            return strided(self.recorder, value, shape, strides)
        run: Callable[..., torch.Tensor]
        arguments: tuple[Any, ...]
        if is_in_order:
            run, arguments = torch.Tensor.reshape, (shape,)
        elif tuple(value.shape[d] for d in order) == shape:
            run, arguments = torch.Tensor.permute, (order,)
        else:
            run, arguments = _permuted, (order, shape)
        return self.recorder.step(
            ("view", order, shape),
            run,
            [value],
            shape,
            value.dtype,
            is_view=True,
            arguments=arguments,
        )

    # --- dimensions -------------------------------------------------------------------

    def stretched(self, x: Tile, shape: Sequence[int]) -> Tile:
        return x if x.shape == tuple(shape) else x.like(x.dims, shape)

    def whole(self, x: Tile, order: Sequence[int]) -> Value:
        """Return a value that has all elements along some dimensions of a tile, in this order."""
        value = self._arranged(x, tuple(order))
        missing = len(order) - len(value.shape)
        shape = tuple(x.shape[d] for d in order)
        if (1,) * missing + value.shape == shape:
            return self.viewed(value, range(len(value.shape)), shape)
        return self.recorder.step(
            ("expand", shape),
            torch.Tensor.expand,
            [value],
            shape,
            x.dtype,
            is_view=True,
            arguments=(shape,),
        )

    def _varying(self, x: Tile, dim: int) -> Tile:
        """Return the tile with a value that has all elements along a dimension."""
        if dim in x.dims or x.shape[dim] == 1:
            return x
        dims = sorted({dim, *x.dims} - {NO_DIM}, key=self.rank)
        return Tile(self, self.whole(x, dims), dims, x.shape)

    def reshaped(self, x: Tile, shape: Shape) -> Tile:
        """Return the elements in their order, in another shape."""
        every = self.whole(x, range(len(x.shape)))
        value = self.viewed(every, range(len(every.shape)), shape)
        return Tile(self, value, range(len(shape)), shape)

    def part(self, x: Tile, dim: int, part: slice | list[int]) -> Tile:
        """Return the elements at some positions along a dimension."""
        size = x.shape[dim]
        positions = range(size)[part] if isinstance(part, slice) else part
        if isinstance(part, slice) and len(positions) == size:
            return x
        shape = list(x.shape)
        shape[dim] = len(positions)
        if dim not in x.dims:
            return x.like(x.dims, shape)
        at = (slice(None),) * x.dims.index(dim) + (part,)
        lengths = zip(x.dims, x.value.shape, strict=True)
        inner = tuple(shape[d] if d == dim else n for d, n in lengths)
        value = self.recorder.step(
            ("part", repr(at)),
            operator.getitem,
            [x.value],
            inner,
            x.dtype,
            is_view=isinstance(part, slice),
            arguments=(at,),
        )
        return Tile(self, value, x.dims, shape)

    def concatenate(self, tiles: Sequence[Tile], axis: int) -> Tile:
        every = {d for x in tiles for d, n in enumerate(x.shape) if n != 1} | {axis}
        dims = sorted(every, key=self.rank)
        values = [self.whole(x, dims) for x in tiles]
        at = dims.index(axis)
        shape = list(tiles[0].shape)
        shape[axis] = sum(x.shape[axis] for x in tiles)
        inner = tuple(shape[d] for d in dims)
        made = self.recorder.step(
            ("cat", at), lambda *t: torch.cat(t, at), values, inner, tiles[0].dtype
        )
        return Tile(self, made, dims, shape)

    # --- sums -------------------------------------------------------------------------

    def _reduced(
        self, name: str, function: Callable[..., Any], x: Tile, axis: int, keepdims: bool
    ) -> Tile:
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        again = partial(self._reduced, name, function, axis=axis, keepdims=True)
        if x.shape[axis] == 1 or (axis not in x.dims and name in ("amax", "amin")):
            one = x.like([NO_DIM if d == axis else d for d in x.dims], shape)
            return one.made_by(name, again, x, dim=axis)  # of other operands it may be one of many
        selected = reduce_selected(self, name, x, axis)
        if selected is not None:
            return selected if selected.source else selected.made_by(name, again, x, dim=axis)
        product = sum_products(self, x, axis) if name == "sum" else None
        if product is not None:
            return product
        every = self._varying(x, axis)

        def compute() -> Tile:
            value, at = every.value, every.dims.index(axis)
            inner = (*value.shape[:at], 1, *value.shape[at + 1 :])
            run = partial(choices.extremum_of_bits, function) if x.dtype == torch.bool else function
            how = (name, at), run, [value], inner, x.dtype
            made = self.recorder.step(*how, arguments=(at, True))
            return Tile(self, made, [NO_DIM if d == axis else d for d in every.dims], shape)

        parts = [forms.part(every), forms.along(axis, x.shape[axis])]
        tile = forms.equal(self, name, parts, shape, compute)
        return tile.made_by(name, again, x, dim=axis)

    def contract(self, a: Tile, b: Tile, dim: int) -> Tile:
        """sum over dim of a * b, as one batched matrix product whose result is in order."""
        looked_up = contract_table(self, a, b, dim)
        if looked_up is not None:
            return looked_up
        full = common_shape(a.shape, b.shape)
        shape = (*full[:dim], 1, *full[dim + 1 :])
        source = Source("contract", partial(self.contract, dim=dim), (a, b), dim)
        a, b = self._varying(a, dim), self._varying(b, dim)
        number, parts = forms.factors((a, b))
        parts = [*parts, forms.along(dim, full[dim])]
        product = partial(self._product, a, b, dim, full, shape)
        tile = forms.equal(self, "contract", parts, shape, product, number)
        tile.source = source
        return tile

    def _product(self, a: Tile, b: Tile, dim: int, full: Shape, shape: Shape) -> Tile:
        """Record a product of matrices."""
        rank = self.rank
        of_a, of_b = (sorted({*x.dims} - {dim, NO_DIM}, key=rank) for x in (a, b))
        batch = [d for d in of_a if d in of_b]
        left, right = ([d for d in of if d not in batch] for of in (of_a, of_b))
        if left and right and rank(right[0]) < rank(left[0]):
            a, b, left, right = b, a, right, left
        count, m, n = (tuple(full[d] for d in of) for of in (batch, left, right))
        group = group_size(b, batch[-1]) if batch else 1
        if group > 1:
            b = self._varying(first_of_groups(b, batch[-1], group), dim)
        batches, rows, columns = math.prod(count) // group, math.prod(m) * group, math.prod(n)
        length = full[dim]
        x = self._joined(a, (*batch, *left, dim), (batches, rows, length))
        y = self._joined(b, (*batch, dim, *right), (batches, length, columns))
        if 1 < rows < CPU.lanes and is_transposed(x) and is_transposed(y):
            key = "view", tuple(range(len(x.shape))), x.shape  # the elements in their order
            x = self.recorder.step(key, torch.Tensor.contiguous, [x], x.shape, x.dtype)
        product = self.recorder.step(
            "product",
            torch.bmm if batches != 1 else torch.mm,
            [x, y],
            (batches, rows, columns) if batches != 1 else (rows, columns),
            a.dtype,
            takes_out=True,
            is_elementwise=False,
        )
        made = self.viewed(product, range(len(product.shape)), (*count, *m, *n))
        return Tile(self, made, (*batch, *left, *right), shape)

    def _joined(self, x: Tile, dims: Sequence[int], shape: Shape) -> Value:
        """Return the value of a factor in three dimensions, or two if its first has one element."""
        order = [x.dims.index(d) for d in dims if d in x.dims]
        order = [*(n for n, d in enumerate(x.dims) if d == NO_DIM), *order]
        return self.viewed(x.value, order, shape if shape[0] != 1 else shape[1:])

    def largest(self, values: Tile, positions: Tile, dim: int, count: int) -> tuple[Tile, Tile]:
        """Return what `TorchOps.largest` does."""
        return extrema.largest(self, values, positions, dim, count)

    def first_extreme(
        self, name: str, values: Tile, positions: Tile, dim: int
    ) -> tuple[Tile, Tile]:
        """Return the maximum or minimum along a dimension, and the least position that has it."""
        both = extrema.first_extreme(self, name, values, positions, dim)
        value, position = both or super().first_extreme(name, values, positions, dim)
        return value, position

    # --- tensors ----------------------------------------------------------------------

    def gather(self, tensor: Tile, at: Sequence[Tile]) -> Tile:
        """Return the elements of a tensor at computed positions."""
        every = self.whole(tensor, range(len(tensor.shape)))
        parts = [(every, ()), *map(forms.part, at)]
        shape = common_shape(*(x.shape for x in at))
        made = forms.equal(self, "gather", parts, shape, lambda: elements_at(self, tensor, at))
        return made.made_by("gather", lambda *at: self.gather(tensor, at), *at, table=tensor)

    def store(self, output: Buffer, at: tuple[slice, ...], value: Tile) -> None:
        """Write a tile that has the dimensions of an output."""
        store(self, output, at, value)

    def scatter(
        self, output: Buffer, positions: Sequence[Tile], value: Tile, valid: Tile, add: bool
    ) -> None:
        """`TorchOps.scatter`."""
        scatter(self, output, positions, value, valid, add)


def _permuted(t: torch.Tensor, order: Shape, shape: Shape) -> torch.Tensor:
    return t.permute(order).reshape(shape)


def _negated(x: Tile) -> Tile | None:
    """Return what a tile is the negative of, as it was computed: `a - (0 - b)` is `a + b`."""
    if x.source is None or x.source.name not in ("neg", "sub"):
        return None
    *zero, of = x.source.operands
    return of if all(z.value.number == 0 for z in zero) else None
