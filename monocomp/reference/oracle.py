"""The meaning of a program: the naive evaluation, index by index, with wide-range numbers.

Every test compares with this module, so it shares no code with the rewrites or the backends
and does nothing clever. An expression is evaluated for all values of its free indices at
once, as an array with one axis for each (`named_arrays`); a reduction evaluates its body over
the bound indices too and folds them with the plain formula (`naive_folds`). Floats have a
float64 mantissa or better and the range of exp(1e4) (`wide`).

Where ordinary arithmetic would leave the meaning open, it is pinned as follows.

*Empty sets.* An aggregate over nothing is its unit, and mean, var and softmax are 0; the
list is in `naive_folds`. A quotient of aggregates over the same empty set is 0, in sums, in
products and in their logarithms; a logit of -inf is as good as no element. The few rules that
make the naive, safe and lazy forms of softmax agree there are in `naive_arithmetic`. An extent
that is 0 is an empty sum[k](1), and so is what equals the unit of a user's monoid.

*Masks.* What a filter excludes is the unit, whatever stands there, NaN included. Where its
filter is false, an element of softmax (0) or log_softmax (-inf) is *masked*; so are an empty
position of `top` and the literal -inf. A masked 0 absorbs what it is multiplied with, a masked
-inf what is added to it. So a filter, `where(c, x, -inf)` and an added mask of -inf are one
thing, and what meets a masked element is as good as filtered.

*Reads.* A read never happens where a filter is false, on the branch of `where` not taken,
right of an `and` that is already false or an `or` that is already true, and in what a masked
element absorbs. A definition is an equation: an element of it that nobody uses may be out of
range. Any other read outside its tensor is an `IndexRangeError`; negative positions do not
wrap round.

*Numbers.* Integers are int64 and wrap round; `//` and `%` round down as in Python, and give 0
for an integer divided by 0. `a ** n` is an integer if a is one and n a literal without point.
`/` gives a float. var is the population variance, gelu the exact one with erf, elu has
alpha = 1, sign(0) = 0, stop(x) = x; maximum, minimum, max and min of a NaN are NaN. A user
monoid folds floats from its unit, left to right, several indices in row-major order, and
skips what its filter excludes. `uniform` is defined in `counter_rng`.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from monocomp.declarations import binding, counter_rng
from monocomp.declarations.records import Input
from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS, SELECTIONS
from monocomp.errors import (
    InputError,
    InternalError,
)
from monocomp.language import checker
from monocomp.language import syntax as S
from monocomp.language.parser import HasText, text_of
from monocomp.reference import naive_arithmetic as arithmetic
from monocomp.reference import named_arrays as N
from monocomp.reference.aggregates import Fold, aggregate, fold_monoid, select, softmax
from monocomp.reference.declared_extents import declared_extent
from monocomp.reference.reads import Fault, Tensor, gather, widened
from monocomp.reference.scopes import Scope
from monocomp.reference.wide import Array, Wide, default, to_numpy

_CHUNK = 1 << 22  # elements that a reduction holds at once, where its free indices allow
_RECURSION = 20_000
_INT64 = range(-(1 << 63), 1 << 63)


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
        dtype the program asks for.

    >>> evaluate("O[i] = sum[..i](A[i])", {"A": [1.0, 2.0, 4.0]})
    array([1., 3., 7.])
    """
    return evaluate_in(default(), program, inputs, params)


def evaluate_in(
    wide: Wide,
    program: str | S.Program | HasText,
    inputs: Mapping[str, Any],
    params: Mapping[str, int | float],
) -> Array | tuple[Array, ...]:
    """`evaluate` with a given number format."""
    if not isinstance(program, S.Program):
        program = checker.check(text_of(program, "a program's text or a gradient"))
    with np.errstate(all="ignore"), _deep_recursion():
        outputs = _Evaluator(program, wide, inputs, params).outputs()
    return outputs[0] if len(outputs) == 1 else outputs


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
        wide: Wide,
        inputs: Mapping[str, Any],
        params: Mapping[str, int | float],
    ) -> None:
        self.program = program
        self.wide = wide
        arrays = {name: to_numpy(name, given) for name, given in inputs.items()}
        shapes = {name: a.shape for name, a in arrays.items()}
        size = functools.partial(declared_extent, program.extent_of)
        bound = binding.bind(program, program.origin, shapes, params, size)
        self.extents = bound.extents
        self.params = bound.params
        self.tensors = {name: self._input(at, arrays[name]) for name, at in program.inputs.items()}
        self.faults: list[Fault] = []
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

    def outputs(self) -> tuple[Array, ...]:
        """Evaluate all definitions and give those that the program returns."""
        for definition in self.program.definitions.values():
            defined = self._define(definition)
            if definition.given:
                defined = self._given(self.tensors[definition.name], defined)
            self.tensors[definition.name] = defined
        return tuple(self._output(self.tensors[out.name]) for out in self.program.outputs)

    def _input(self, declared: Input, array: Array) -> Tensor:
        if declared.kind != "float" and array.dtype.kind == "f":
            raise InputError(
                f"input '{declared.name}' holds floats, and the program needs {declared.kind}",
                text=self.program.origin.text,
                spans=self.program.origin.span(declared.name),
                help="convert it, or declare it in the program: "
                f"input {declared.name}[{','.join(declared.dims)}]: float",
            )
        if declared.kind == "bool":
            array = array != 0
        elif declared.kind == "int":
            array = array.astype(np.int64)
        else:
            array = self.wide.lift(array)
        return Tensor(self._axes(declared.dims), array)

    def _axes(self, indices: Iterable[str]) -> N.Axes:
        return tuple(N.Axis(index, 0, self.extents[index]) for index in indices)

    def _define(self, definition: S.Definition) -> Tensor:
        axes = self._axes(definition.indices)
        self.faults = []
        value = self.value(definition.body, Scope(dict(zip(definition.indices, axes, strict=True))))
        if self.program.kinds[definition.name] != "bool":
            value = arithmetic.as_number(value)
        if self.program.kinds[definition.name] == "float":
            value = arithmetic.as_wide(self.wide, value)
        array = np.ascontiguousarray(N.full(value.array, value.axes, axes)).reshape(
            N.shape_of(axes)
        )
        absent = None if value.absent is None else N.full(value.absent, value.axes, axes)
        return Tensor(axes, array, absent, tuple(self.faults))

    @staticmethod
    def _given(given: Tensor, defined: Tensor) -> Tensor:
        """An input, its elements absent where those of its definition are."""
        if defined.absent is None:
            return given
        stays = (given.array == 0) | np.isinf(given.array)
        absent = np.where(stays, defined.absent, np.zeros((), defined.absent.dtype))
        return replace(given, absent=absent)

    def _output(self, tensor: Tensor) -> Array:
        for fault in tensor.faults:
            if fault.happens.any():
                raise fault.explain(N.first_true(fault.happens, fault.axes, {})) from None
        array = tensor.array
        return array.astype(np.float64) if array.dtype == self.wide.dtype else array

    def value(self, expr: S.Expr, scope: Scope) -> N.Value:
        """The value of an expression in a scope: one rule for each kind of node."""
        return self.rules[type(expr)](expr, scope)

    # Leaves

    def _number(self, node: S.Number, scope: Scope) -> N.Value:
        if isinstance(node.value, int) and node.value in _INT64:
            return N.Value((), np.asarray(node.value, np.int64))
        return N.Value((), self.wide.number(node.value))

    def _extent(self, node: S.Extent, scope: Scope) -> N.Value:
        extent = np.asarray(self.extents[node.index], np.int64)
        return N.Value((), extent, arithmetic.empty_where(extent == 0))

    def _name(self, node: S.Name, scope: Scope) -> N.Value:
        if node.name in scope.fields:
            return scope.fields[node.name]
        if node.name in scope.indices:
            axis = scope.indices[node.name]
            return N.Value((axis,), np.arange(axis.start, axis.stop, dtype=np.int64))
        if node.name in self.program.params:
            if self.program.params[node.name].kind == "int":
                return N.Value((), np.asarray(int(self.params[node.name]), np.int64))
            return N.Value((), self.wide.number(float(self.params[node.name])))
        return self._read(S.Read(node.name, (), span=node.span), scope)

    # Reads

    def _read(self, node: S.Read, scope: Scope) -> N.Value:
        if node.name in scope.fields:
            return self._entry(scope.fields[node.name], node.subscripts, scope)
        tensor = self.tensors[node.name]
        axes = self._plain_axes(node, scope)
        if axes is not None and not tensor.faults:
            inside = tuple(slice(axis.start, axis.stop) for axis in axes)
            absent = None if tensor.absent is None else tensor.absent[inside]
            return N.Value(axes, tensor.array[inside], absent)
        positions = [arithmetic.as_number(self.value(part, scope)) for part in node.subscripts]
        is_over_nothing = not all(map(len, scope.indices.values()))
        guard = N.Value((), np.asarray(False)) if is_over_nothing else scope.guard
        found, faults = gather(self.program.origin.text, node, tensor, positions, guard)
        self.faults += faults
        return found

    def _plain_axes(self, node: S.Read, scope: Scope) -> N.Axes | None:
        """The axes of a read like A[i,j], which cannot leave its tensor and moves nothing."""
        axes = []
        for part, extent in zip(node.subscripts, self.tensors[node.name].array.shape, strict=True):
            axis = scope.indices.get(part.name) if isinstance(part, S.Name) else None
            if axis is None or axis.stop > extent or (axis in axes):
                return None
            axes.append(axis)
        return tuple(axes)

    # Operators

    def _unary(self, node: S.Unary, scope: Scope) -> N.Value:
        operand = self.value(node.operand, scope)
        if node.op == "not":
            return N.negation(arithmetic.as_condition(operand))
        negated = arithmetic.negate(operand)
        if isinstance(node.operand, S.Number) and node.operand.value == math.inf:
            return replace(negated, absent=np.asarray(arithmetic.MASKED, np.uint8))
        return negated

    def _binary(self, node: S.Binary, scope: Scope) -> N.Value:
        before = len(self.faults)
        left = self.value(node.left, scope)
        between = len(self.faults)
        by_left = arithmetic.absorbs(node.op, "left", left)
        right = self.value(node.right, scope.unless(by_left))
        by_right = arithmetic.absorbs(node.op, "right", right)
        if by_right is not None:
            needed = scope.unless(by_right).guard
            self.faults[before:between] = [
                replace(f, happens=f.happens & N.somewhere(needed, f.axes))
                for f in self.faults[before:between]
            ]
        literal = isinstance(node.right, S.Number) and isinstance(node.right.value, int)
        keeps_int = literal if node.op == "**" else node.op != "/"
        result = arithmetic.operate(self.wide, node.op, left, right, keeps_int)
        if by_left is not None:
            result = arithmetic.settle(self.wide, node.op, result, by_left, right)
        if by_right is not None:
            result = arithmetic.settle(self.wide, node.op, result, by_right, left)
        return result

    def _compare(self, node: S.Compare, scope: Scope) -> N.Value:
        operands = [self.value(part, scope) for part in node.operands]
        pairs = zip(node.ops, operands, operands[1:], strict=False)
        links = [arithmetic.compare(self.wide, op, a, b) for op, a, b in pairs]
        return functools.reduce(lambda a, b: arithmetic.connect("and", a, b), links)

    def _condition(self, expr: S.Expr, scope: Scope) -> N.Value:
        return arithmetic.as_condition(self.value(expr, scope))

    def _logic(self, node: S.Logic, scope: Scope) -> N.Value:
        """`and` and `or`, left to right; what is decided already guards the rest."""
        result = self._condition(node.operands[0], scope)
        for part in node.operands[1:]:
            undecided = scope.where(result) if node.op == "and" else scope.unless(result)
            result = arithmetic.connect(node.op, result, self._condition(part, undecided))
        return result

    # Functions

    def _call(self, node: S.Call, scope: Scope) -> N.Value:
        if node.function == "where":
            condition = self._condition(node.args[0], scope)
            a = self.value(node.args[1], scope.where(condition))
            b = self.value(node.args[2], scope.unless(condition))
            return arithmetic.choose(self.wide, condition, a, b)
        values = [self.value(arg, scope) for arg in node.args]
        if node.function in ("maximum", "minimum"):
            return arithmetic.larger_or_smaller(self.wide, node.function, values[0], values[1])
        if node.function == "uniform":
            axes, counters = N.aligned(*map(arithmetic.as_number, values))
            return N.Value(axes, self.wide.lift(counter_rng.uniform(*counters)))
        if node.function == "int":
            return arithmetic.whole(self.wide, values[0])
        return arithmetic.apply(self.wide, node.function, values[0])

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
        absent = None if of.absent is None else np.broadcast_to(of.absent, of.array.shape)
        at = tuple(positions)
        return N.Value(axes, of.array[at], None if absent is None else absent[at])

    def _reduce(self, node: S.Reduce, scope: Scope, number: int = 0) -> N.Value:
        """A reduction; of a large one a part of the free indices at a time."""
        bound = self._bound_by(node, scope)
        free = self._axes_of_reduction(node, scope)
        size = math.prod(map(len, (*free, *bound)))
        longest = max(free, key=len, default=None)
        if size <= _CHUNK or longest is None or len(longest) < 2:
            return self._reduce_at_once(node, scope, bound, number)
        return self._in_parts(node, scope, number, longest, -(-size // _CHUNK))

    def _in_parts(
        self, node: S.Reduce, scope: Scope, number: int, axis: N.Axis, count: int
    ) -> N.Value:
        step = max(1, len(axis) // count)
        parts = []
        for start in range(axis.start, axis.stop, step):
            part = N.Axis(axis.index, start, min(start + step, axis.stop))
            before = len(self.faults)
            parts.append((part, self._reduce(node, scope.narrow(axis, part), number)))
            self.faults[before:] = [widened(f, part, axis) for f in self.faults[before:]]
        axes = parts[0][1].axes
        at = axes.index(parts[0][0])
        array = np.concatenate([v.array for _, v in parts], axis=at)
        absent = None
        if any(v.absent is not None for _, v in parts):
            levels = [np.uint8(0) if v.absent is None else v.absent for _, v in parts]
            shapes = [v.array.shape for _, v in parts]
            absent = np.concatenate(list(map(np.broadcast_to, levels, shapes)), axis=at)
        return N.Value((*axes[:at], axis, *axes[at + 1 :]), array, absent)

    def _reduce_at_once(self, node: S.Reduce, scope: Scope, bound: N.Axes, number: int) -> N.Value:
        inner = scope.bind(node.indices, bound)
        condition = None if node.condition is None else self._condition(node.condition, inner)
        own = self._axes_of_entries(node)
        scopes = [inner.bind((axis.index for axis in of), of) for of in own]
        args = [
            self.value(arg, at.where(condition)) for arg, at in zip(node.args, scopes, strict=True)
        ]
        parts = args if condition is None else [*args, condition]
        inside = {*bound, *(axis for of in own for axis in of)}
        free = tuple(a for a in N.union(*(v.axes for v in parts)) if a not in inside)
        fold = Fold(node, scope.indices, free, bound)
        rows = [
            replace(fold, free=(*free, *of)).rows(v.array, v.axes)
            for v, of in zip(args, own, strict=True)
        ]
        if condition is not None:
            fold = replace(fold, admitted=fold.rows(condition.array, condition.axes))
        if node.op in self.program.monoids:
            monoid = self.program.monoids[node.op]
            units = []
            for unit, of in zip(monoid.unit, own, strict=True):
                at = Scope({a.index: a for a in of}, extents=monoid.extents)
                value = arithmetic.as_wide(self.wide, self.value(unit, at))
                units.append(N.full(value.array, value.axes, of))
            combine = functools.partial(self._combine, monoid, own)
            field = fold_monoid(self.wide, units, rows, fold, own, combine)[number]
            return self._aggregate_of_entries(fold, own[number], field)
        if node.op in SELECTIONS:
            return select(self.wide, rows[0], fold)
        absent = None if args[0].absent is None else fold.rows(args[0].absent, args[0].axes)
        if node.op in KEEPING_REDUCTIONS:
            return softmax(self.wide, rows[0], absent, fold)
        return aggregate(self.wide, rows[0], absent, fold)

    def _combine(
        self,
        monoid: S.Monoid,
        own: list[N.Axes],
        state: list[N.Value],
        element: list[N.Value],
        present: Array | None,
        free: N.Axes,
    ) -> list[N.Value]:
        fields: dict[str, N.Value] = {}
        for name, left, right in zip(monoid.fields, state, element, strict=True):
            fields[name], fields[name + "'"] = left, right
        admitted = N.Value(
            free, np.broadcast_to(True if present is None else present, N.shape_of(free))
        )
        combined = []
        for expr, before, of in zip(monoid.combine, state, own, strict=True):
            scope = Scope({a.index: a for a in of}, admitted, fields, monoid.extents)
            after = arithmetic.as_wide(self.wide, self.value(expr, scope))
            chosen = arithmetic.choose(self.wide, admitted, after, before)
            combined.append(_on(chosen, (*free, *of)))
        return combined

    @staticmethod
    def _aggregate_of_entries(fold: Fold, own: N.Axes, field: N.Value) -> N.Value:
        """The aggregate, the axes of its entries last."""
        found = replace(fold, free=(*fold.free, *own)).result(field.array, field.absent)
        return _on(found, (*(a for a in found.axes if a not in own), *own)) if own else found

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

    # Which indices an expression depends on

    def _axes_inside(self, expr: S.Expr, scope: Scope) -> N.Axes:
        return N.union(*(self._axes_of(part, scope) for part in S.children(expr)))

    def _axes_of(self, expr: S.Expr, scope: Scope) -> N.Axes:
        match expr:
            case S.Name() if expr.name in scope.fields:
                return scope.fields[expr.name].axes
            case S.Read() if expr.name in scope.fields:
                axes = scope.fields[expr.name].axes[: -len(expr.subscripts)]
                return N.union(axes, self._axes_inside(expr, scope))
            case S.Name() if expr.name in scope.indices:
                return (scope.indices[expr.name],)
            case S.Reduce():
                free = self._axes_of_reduction(expr, scope)
                kept = expr.indices if expr.prefix or expr.op in KEEPING_REDUCTIONS else ()
                kept += () if expr.target is None else (expr.target,)
                return N.union(free, (scope.indices[name] for name in kept))
        return self._axes_inside(expr, scope)

    def _axes_of_reduction(self, node: S.Reduce, scope: Scope) -> N.Axes:
        """The axes that the parts of a reduction have, and it does not bind."""
        bound, own = self._bound_by(node, scope), self._axes_of_entries(node)
        inner = scope.bind(node.indices, bound)
        parts = [] if node.condition is None else [self._axes_of(node.condition, inner)]
        for arg, of in zip(node.args, own, strict=True):
            parts.append(self._axes_of(arg, inner.bind((axis.index for axis in of), of)))
        return tuple(a for a in N.union(*parts) if a not in bound and a not in N.union(*own))


def _on(value: N.Value, axes: N.Axes) -> N.Value:
    """The value on all of these axes, in their order."""
    absent = None if value.absent is None else N.full(value.absent, value.axes, axes)
    return N.Value(axes, N.full(value.array, value.axes, axes), absent)
