"""The meaning of a program: the naive evaluation, index by index, in the algebra of `semantics.md`.

Every test compares with this module, so it shares no code with the rewrites or the backends
and does nothing clever. An expression is evaluated for all values of its free indices at
once, as an array with one axis for each (`named_arrays`); a reduction evaluates its body over
the bound indices too and folds them with the plain formula (`folds`). Floats have a
float64 mantissa or better and the range of exp(1e4);
NaN stands for what is unspecified (`algebra`).

*Reads.* An element outside of its tensor is unspecified (`reads`). Where outputs are unspecified
for that reason, and are not for another number in its place, that is an `IndexRangeError`.

*Numbers.* `a ** n` is an int if a is one and n a literal without point; `/` gives a float. var is
the population variance, gelu the exact one with erf, elu has alpha = 1, sign(0) = 0, stop(x) = x. A
user's monoid folds floats from its unit, left to right, several indices in row-major order, and
skips what its filter excludes. `uniform` is defined in `counter_rng`.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from monocomp.declarations import binding, counter_rng
from monocomp.declarations.records import Input
from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS, SELECTIONS, Kind
from monocomp.errors import InputError, InternalError
from monocomp.language import checker
from monocomp.language import syntax as S
from monocomp.language.free_indices import FreeIndices
from monocomp.language.parser import HasText, text_of
from monocomp.reference import algebra, folds
from monocomp.reference import named_arrays as N
from monocomp.reference.algebra import Array
from monocomp.reference.declared_extents import declared_extent
from monocomp.reference.reads import Outside, Tensor
from monocomp.reference.scopes import Scope

_CHUNK = 1 << 22  # elements that a reduction holds at once, where its free indices allow
_RECURSION = 20_000


def evaluate(
    program: str | S.Program | HasText, inputs: Mapping[str, Any], /, **params: int | float
) -> Array | tuple[Array, ...]:
    """The outputs of a program by its naive meaning.

    Args:
        program: the text, a checked program, or a gradient.
        inputs: by name, whatever numpy or torch holds: arrays, tensors, lists, scalars.
        **params: the program's parameters.

    Returns:
        An array, or a tuple in the order of the outputs: float64, int64 or bool, whatever
        dtype the program asks for. What is unspecified is NaN, 0 or false.

    >>> evaluate("O[i] = sum[..i](A[i])", {"A": [1.0, 2.0, 4.0]})
    array([1., 3., 7.])
    """
    outputs = tuple(
        np.where(np.isnan(x), 0, x).astype(_DTYPES[kind]) if kind != "float" else x.astype(float)
        for kind, x in _outputs(program, inputs, params, algebra.widest())
    )
    return outputs[0] if len(outputs) == 1 else outputs


def specified(
    program: str | S.Program | HasText,
    inputs: Mapping[str, Any],
    params: Mapping[str, int | float] | None = None,
    dtype: Any = np.longdouble,
) -> tuple[Array, ...]:
    """The outputs as numbers of a dtype in which everything is computed; NaN is unspecified."""
    return tuple(x for _, x in _outputs(program, inputs, params or {}, np.dtype(dtype)))


_DTYPES: dict[Kind, type] = {"int": np.int64, "bool": np.bool_, "float": np.float64}


def _outputs(
    program: str | S.Program | HasText,
    inputs: Mapping[str, Any],
    params: Mapping[str, int | float],
    dtype: np.dtype[Any],
) -> list[tuple[Kind, Array]]:
    if not isinstance(program, S.Program):
        program = checker.check(text_of(program, "a program's text or a gradient"))

    def evaluated(limit: int | None) -> tuple[Outside, list[tuple[Kind, Array]]]:
        outside = Outside(program.origin.text, limit)
        return outside, _Evaluator(program, dtype, inputs, params, outside).outputs()

    with np.errstate(all="ignore"), _deep_recursion():
        outside, outputs = evaluated(None)
        if outside.count and any(np.isnan(x).any() for _, x in outputs):
            _refuse_reads_outside(evaluated, outside.count)
    return outputs


def _refuse_reads_outside(
    evaluated: Callable[[int], tuple[Outside, list[tuple[Kind, Array]]]], count: int
) -> None:
    """Raise the error for the first read outside its tensor that an output depends on."""
    _, plain = evaluated(0)

    def matters(limit: int) -> bool:
        _, outputs = evaluated(limit)
        pairs = zip(outputs, plain, strict=True)
        return any(bool((np.isnan(x) & ~np.isnan(y)).any()) for (_, x), (_, y) in pairs)

    if matters(count):
        limits = range(1, count + 1)
        outside, _ = evaluated(limits[bisect.bisect_left(limits, True, key=matters)])
        if outside.error is not None:
            raise outside.error from None


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Expressions nest up to a limit that the checker sets, and a node takes a few calls."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


# --- the evaluator ------------------------------------------------------------------------


class _Evaluator:
    """Evaluates the definitions of one program on one set of inputs, in order."""

    def __init__(
        self,
        program: S.Program,
        dtype: np.dtype[Any],
        inputs: Mapping[str, Any],
        params: Mapping[str, int | float],
        outside: Outside,
    ) -> None:
        self.program = program
        self.dtype = dtype
        self.outside = outside
        self.free_indices = FreeIndices({}, program.monoids)
        arrays = {name: algebra.to_numpy(name, given) for name, given in inputs.items()}
        shapes = {name: a.shape for name, a in arrays.items()}
        size = functools.partial(declared_extent, program.extent_of)
        bound = binding.bind(program, program.origin, shapes, params, size)
        self.extents = bound.extents
        self.params = bound.params
        self.tensors = {name: self._input(at, arrays[name]) for name, at in program.inputs.items()}
        self.rules: dict[type, Callable[[Any, Scope], N.Value]] = {
            S.Number: self._number,
            S.Name: self._name,
            S.Read: self._read,
            S.Extent: self._extent,
            S.Unary: self._unary,
            S.Binary: self._binary,
            S.Compare: self._compare,
            S.Logic: self._logic,
            S.Call: self._call,
            S.Reduce: self._reduce,
            S.Field: self._field,
        }

    def outputs(self) -> list[tuple[Kind, Array]]:
        """Evaluate all definitions and give those that the program returns."""
        for definition in self.program.definitions.values():
            if not definition.given:
                self.tensors[definition.name] = self._define(definition)
        outputs = (self.tensors[out.name] for out in self.program.outputs)
        return [(tensor.kind, tensor.array) for tensor in outputs]

    def _input(self, declared: Input, array: Array) -> Tensor:
        if declared.kind != "float" and array.dtype.kind == "f":
            raise InputError(
                f"input '{declared.name}' holds floats, and the program needs {declared.kind}",
                text=self.program.origin.text,
                spans=self.program.origin.span(declared.name),
                help="convert it, or declare it in the program: "
                f"input {declared.name}[{','.join(declared.dims)}]: float",
            )
        array = (array != 0 if declared.kind == "bool" else array).astype(self.dtype)
        array = np.where(array == math.inf, math.nan, array)
        return Tensor(self._axes(declared.dims), array, declared.kind)

    def _axes(self, indices: Iterable[str]) -> N.Axes:
        return tuple(N.Axis(index, 0, self.extents[index]) for index in indices)

    def _define(self, definition: S.Definition) -> Tensor:
        axes = self._axes(definition.indices)
        value = self.value(definition.body, Scope(dict(zip(definition.indices, axes, strict=True))))
        array = np.ascontiguousarray(N.full(value.array, value.axes, axes))
        kind = self.program.kinds[definition.name]
        return Tensor(axes, array.reshape(N.shape_of(axes)), kind)

    def value(self, expr: S.Expr, scope: Scope) -> N.Value:
        """The value of an expression in a scope: one rule for each kind of node."""
        return self.rules[type(expr)](expr, scope)

    # Leaves

    def _scalar(self, number: int | float | Fraction, kind: Kind) -> N.Value:
        over, under = number.as_integer_ratio() if math.isfinite(number) else (number, 1)
        return N.Value((), np.asarray(over, self.dtype) / np.asarray(under, self.dtype), kind)

    def _number(self, node: S.Number, scope: Scope) -> N.Value:
        return self._scalar(node.value, "int" if isinstance(node.value, int) else "float")

    def _extent(self, node: S.Extent, scope: Scope) -> N.Value:
        return self._scalar(self.extents[node.index], "int")

    def _name(self, node: S.Name, scope: Scope) -> N.Value:
        if node.name in scope.fields:
            return scope.fields[node.name]
        if node.name in scope.indices:
            axis = scope.indices[node.name]
            return N.Value((axis,), np.arange(axis.start, axis.stop).astype(self.dtype), "int")
        if node.name in self.program.params:
            is_int = self.program.params[node.name].kind == "int"
            return self._scalar(self.params[node.name], "int" if is_int else "float")
        return self._read(S.Read(node.name, (), span=node.span), scope)

    # Reads

    def _read(self, node: S.Read, scope: Scope) -> N.Value:
        if node.name in scope.fields:
            return self._entry(scope.fields[node.name], node.subscripts, scope)
        tensor = self.tensors[node.name]
        axes = self._plain_axes(node, scope)
        if axes is not None:
            inside = tuple(slice(axis.start, axis.stop) for axis in axes)
            return N.Value(axes, tensor.array[inside], tensor.kind)
        positions = [self.value(part, scope) for part in node.subscripts]
        return self.outside.gather(node, tensor, positions)

    def _plain_axes(self, node: S.Read, scope: Scope) -> N.Axes | None:
        """The axes of a read like A[i,j], which cannot leave its tensor and moves nothing."""
        axes = []
        for part, extent in zip(node.subscripts, self.tensors[node.name].array.shape, strict=True):
            axis = scope.indices.get(part.name) if isinstance(part, S.Name) else None
            if axis is None or axis.stop > extent or (axis in axes):
                return None
            axes.append(axis)
        return tuple(axes)

    # Operators and functions

    def _unary(self, node: S.Unary, scope: Scope) -> N.Value:
        operand = self.value(node.operand, scope)
        if node.op == "not":
            return replace(operand, array=1 - algebra.condition(operand.array), kind="bool")
        return replace(operand, array=algebra.negate(operand.array), kind=_number_kind([operand]))

    def _binary(self, node: S.Binary, scope: Scope) -> N.Value:
        operands = [self.value(node.left, scope), self.value(node.right, scope)]
        literal = isinstance(node.right, S.Number) and isinstance(node.right.value, int)
        keeps_int = literal if node.op == "**" else node.op != "/"
        kind = _number_kind(operands) if keeps_int else "float"
        axes, (x, y) = N.aligned(*operands)
        return N.Value(axes, algebra.operate(node.op, x, y, kind), kind)

    def _compare(self, node: S.Compare, scope: Scope) -> N.Value:
        operands = [self.value(part, scope) for part in node.operands]
        axes, arrays = N.aligned(*operands)
        links = map(algebra.compare, node.ops, arrays, arrays[1:])
        result = functools.reduce(functools.partial(algebra.connect, "and"), links)
        return N.Value(axes, result, "bool")

    def _logic(self, node: S.Logic, scope: Scope) -> N.Value:
        """`and` or `or`, left to right."""
        operands = [self.value(part, scope) for part in node.operands]
        axes, arrays = N.aligned(*operands)
        connect = functools.partial(algebra.connect, node.op)
        return N.Value(axes, functools.reduce(connect, map(algebra.condition, arrays)), "bool")

    def _call(self, node: S.Call, scope: Scope) -> N.Value:
        operands = [self.value(arg, scope) for arg in node.args]
        kind = _number_kind(operands[node.function == "where" :])
        axes, arrays = N.aligned(*operands)
        if node.function == "where":
            is_condition = all(side.kind == "bool" for side in operands[1:])
            return N.Value(axes, algebra.choose(*arrays), "bool" if is_condition else kind)
        if node.function in ("maximum", "minimum"):
            extremum = np.maximum if node.function == "maximum" else np.minimum
            return N.Value(axes, extremum(*arrays), kind)
        if node.function == "uniform":
            counters = (np.where(np.isnan(x), 0, x).astype(np.int64) for x in arrays)
            found = np.asarray(counter_rng.uniform(*counters), self.dtype)
            return N.Value(axes, np.where(np.isnan(sum(arrays)), math.nan, found))
        if node.function == "int":
            kind = "int"
        elif node.function not in ("abs", "sign", "stop"):
            kind = "float"
        return N.Value(axes, algebra.apply(node.function, arrays[0]), kind)

    # Reductions

    def _field(self, node: S.Field, scope: Scope) -> N.Value:
        """One field of a user monoid's aggregate."""
        operand = node.operand
        if not isinstance(operand, S.Reduce) or operand.op not in self.program.monoids:
            raise InternalError(f"'.{node.name}' follows no aggregate of a user's monoid")
        number = self.program.monoids[operand.op].fields.index(node.name)
        return self._entry(self._reduce(operand, scope, number), node.subscripts, scope)

    def _entry(self, of: N.Value, subscripts: tuple[S.Expr, ...], scope: Scope) -> N.Value:
        """An entry of a field, whose last axes are those of its entries."""
        if not subscripts:
            return of
        kept = of.axes[: len(of.axes) - len(subscripts)]
        along = [N.Value((a,), np.arange(len(a))) for a in kept]
        axes, positions = N.aligned(*along, *(self.value(part, scope) for part in subscripts))
        return N.Value(axes, of.array[tuple(p.astype(np.int64) for p in positions)])

    def _reduce(self, node: S.Reduce, scope: Scope, number: int = 0) -> N.Value:
        """A reduction; of a large one a part of the free indices at a time."""
        bound = self._bound_by(node, scope)
        free = self._axes_of_reduction(node, scope)
        size = math.prod(map(len, (*free, *bound)))
        axis = max(free, key=len, default=None)
        if size <= _CHUNK or axis is None or len(axis) < 2:
            return self._reduce_at_once(node, scope, bound, number)
        step = max(1, len(axis) // -(-size // _CHUNK))
        values = []
        for start in range(axis.start, axis.stop, step):
            part = N.Axis(axis.index, start, min(start + step, axis.stop))
            values.append(self._reduce(node, scope.narrow(axis, part), number))
        axes = tuple(axis if a is part else a for a in values[-1].axes)
        whole = np.concatenate([v.array for v in values], axis=axes.index(axis))
        return replace(values[-1], axes=axes, array=whole)

    def _reduce_at_once(self, node: S.Reduce, scope: Scope, bound: N.Axes, number: int) -> N.Value:
        inner = scope.bind(node.indices, bound)
        condition = None if node.condition is None else self.value(node.condition, inner)
        own = self._axes_of_entries(node)
        args = [
            self.value(arg, inner.bind((a.index for a in of), of))
            for arg, of in zip(node.args, own, strict=True)
        ]
        if condition is not None and np.isnan(condition.array).any():
            args = [_where_specified(condition, v) for v in args]
        parts = args if condition is None else [*args, condition]
        inside = {*bound, *itertools.chain.from_iterable(own)}
        free = tuple(a for a in N.union(*(v.axes for v in parts)) if a not in inside)
        rows = [N.rows(v, (*free, *of), bound) for v, of in zip(args, own, strict=True)]
        admitted = np.ones((1,) * (len(free) + 1), bool)
        if condition is not None:
            admitted = N.rows(condition, free, bound) != 0
        within = {a: scope.indices.get(a.index, a) for a in bound}
        if node.op in self.program.monoids:
            monoid = self.program.monoids[node.op]
            states = self._fold_monoid(monoid, own, rows, admitted, free)
            axes = (*free, *own[number])
            if not node.prefix:
                return N.Value(axes, states[-1][number])
            after = [np.broadcast_to(s[number], N.shape_of(axes)) for s in states[1:]]
            long = np.stack(after, -1) if after else np.empty((*N.shape_of(axes), 0), self.dtype)
            found = _kept(long, axes, bound, within, "float")
            last = (*(a for a in found.axes if a not in own[number]), *own[number])
            return N.Value(last, N.full(found.array, found.axes, last))
        (row,) = rows
        row = np.broadcast_to(row, (*N.shape_of(free), row.shape[-1]))
        if node.op in KEEPING_REDUCTIONS:
            shares = getattr(folds, node.op)(row, admitted)
            return _kept(shares, free, bound, within, "float")
        if node.op in SELECTIONS:
            if node.target is None:
                raise InternalError(f"'{node.op}' has no target index")
            rank = scope.indices[node.target]
            chosen = folds.select(row, admitted, rank.stop)[node.op == "argtop"]
            kind: Kind = "int" if node.op == "argtop" else "float"
            return N.Value((*free, rank), chosen[..., rank.start :], kind)
        kind = _kind_of_aggregate(node.op, args[0])
        fold = folds.FOLDS[node.op]
        elements = _number_kind(args)
        if node.prefix:
            return _kept(folds.prefixes(fold, row, admitted, elements), free, bound, within, kind)
        aggregate = fold(row, admitted, elements)
        if kind == "int" and node.op in ("sum", "prod"):
            aggregate = algebra.whole(aggregate)
        return N.Value(free, np.asarray(aggregate), kind)

    def _fold_monoid(
        self,
        monoid: S.Monoid,
        own: list[N.Axes],
        rows: list[Array],
        admitted: Array,
        free: N.Axes,
    ) -> list[list[Array]]:
        """The unit, then the states after each element, left to right: an array for each field."""
        everywhere = [(*free, *of) for of in own]
        state = []
        for unit, of in zip(monoid.unit, own, strict=True):
            value = self.value(unit, Scope({a.index: a for a in of}, extents=monoid.extents))
            entries = N.full(value.array, value.axes, of)
            state.append(np.broadcast_to(entries, N.shape_of((*free, *of))))
        states = [state]
        admitted = np.broadcast_to(admitted, (*N.shape_of(free), rows[0].shape[-1]))
        for step in range(rows[0].shape[-1]):
            fields: dict[str, N.Value] = {}
            for name, axes, left, row in zip(monoid.fields, everywhere, state, rows, strict=True):
                fields[name] = N.Value(axes, left)
                right = np.broadcast_to(row[..., step], N.shape_of(axes))
                fields[name + "'"] = N.Value(axes, right)
            chosen = admitted[..., step].astype(self.dtype)
            combined = []
            for expr, before, axes, of in zip(monoid.combine, state, everywhere, own, strict=True):
                scope = Scope({a.index: a for a in of}, fields, monoid.extents)
                value = self.value(expr, scope)
                after = N.full(value.array, value.axes, axes)
                combined.append(algebra.choose(N.spread(chosen, free, axes), after, before))
            state = combined
            states.append(state)
        return states

    def _axes_of_entries(self, node: S.Reduce) -> list[N.Axes]:
        """The axes of the entries of each operand."""
        monoid = self.program.monoids.get(node.op)
        if monoid is None:
            return [()] * len(node.args)
        own = {i: N.Axis(i, 0, monoid.extents[i]) for of in monoid.indices for i in of}
        return [tuple(own[i] for i in indices) for indices in monoid.indices]

    def _bound_by(self, node: S.Reduce, scope: Scope) -> N.Axes:
        """The axes over which a reduction goes."""
        sizes = {**self.extents, **scope.extents}
        return tuple(N.Axis(index, 0, sizes[index]) for index in node.indices)

    def _axes_of_reduction(self, node: S.Reduce, scope: Scope) -> N.Axes:
        """The axes that the parts of a reduction have, and it does not bind."""
        names: set[str] = set()
        for number, part in enumerate(S.children(node)):
            names |= self.free_indices.free(part) - self.free_indices.bound(node, number)
        axes = [axis for name, axis in scope.indices.items() if name in names]
        for part in S.walk(node):
            if isinstance(part, S.Name | S.Read) and part.name in scope.fields:
                entries = len(part.subscripts) if isinstance(part, S.Read) else 0
                of = scope.fields[part.name].axes
                axes += of[: len(of) - entries]
        return N.union(axes)


def _number_kind(operands: Sequence[N.Value]) -> Kind:
    """Ints beside floats become floats; a condition counts as 0 or 1."""
    return "float" if any(v.kind == "float" for v in operands) else "int"


def _kind_of_aggregate(op: str, operand: N.Value) -> Kind:
    if op in ("any", "all"):
        return "bool"
    if op in ("argmax", "argmin"):
        return "int"
    return "float" if op in ("mean", "var", "logsumexp") else _number_kind([operand])


def _where_specified(condition: N.Value, value: N.Value) -> N.Value:
    """The value, unspecified where the condition is."""
    axes, (asked, array) = N.aligned(condition, value)
    return replace(value, axes=axes, array=np.where(np.isnan(asked), math.nan, array))


def _kept(
    rows: Array, free: N.Axes, bound: N.Axes, within: Mapping[N.Axis, N.Axis], kind: Kind
) -> N.Value:
    """Rows of results, whose axes become those of the scope."""
    axes = (*free, *bound)
    value = N.Value(axes, rows.reshape(N.shape_of(axes)), kind)
    for axis in bound:
        value = N.restrict(value, axis, within[axis])
    return value
