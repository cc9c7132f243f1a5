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
place of `top` and the literal -inf. A masked 0 absorbs what it is multiplied with, a masked
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
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from monocomp import counter_rng
from monocomp.errors import (
    IndexRangeError,
    InputError,
    InternalError,
    MonocompError,
    UnsupportedDtypeError,
)
from monocomp.language import binding, checker
from monocomp.language.syntax import (
    Binary,
    Call,
    Compare,
    Definition,
    Expr,
    Extent,
    Field,
    Input,
    Logic,
    Monoid,
    Name,
    Number,
    Program,
    Read,
    Reduce,
    Unary,
    children,
)
from monocomp.reference import naive_folds
from monocomp.reference.naive_arithmetic import (
    EMPTY,
    MASKED,
    absorbs,
    apply,
    as_condition,
    as_number,
    as_wide,
    choose,
    compare,
    connect,
    empty_where,
    larger_or_smaller,
    negate,
    operate,
    settle,
    still_absent,
)
from monocomp.reference.named_arrays import (
    Axes,
    Axis,
    Value,
    both,
    first_true,
    full,
    negation,
    restrict,
    shape_of,
    somewhere,
    spread,
    union,
)
from monocomp.reference.wide import Array, Wide, default, is_infinite
from monocomp.vocabulary import KEEPING_REDUCTIONS, SELECTIONS

_CHUNK = 1 << 22  # elements that a reduction holds at once, where its free indices allow
_RECURSION = 20_000
_INT64 = range(-(1 << 63), 1 << 63)


def evaluate(
    program: str | Program, inputs: Mapping[str, Any], /, **params: int | float
) -> Array | tuple[Array, ...]:
    """The outputs of a program by its naive meaning.

    Args:
        program: the text, or a checked program.
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
    wide: Wide, program: str | Program, inputs: Mapping[str, Any], params: Mapping[str, int | float]
) -> Array | tuple[Array, ...]:
    """`evaluate` with a given number format."""
    checked = checker.check(program) if isinstance(program, str) else program
    with np.errstate(all="ignore"), _deep_recursion():
        outputs = _Evaluator(checked, wide, inputs, params).outputs()
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


# --- what is evaluated where --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scope:
    """Where an expression is evaluated.

    Attributes:
        indices: the axis of each index that is free or bound here.
        guard: where the value is needed (None: everywhere).
        fields: the operands of the combine of a monoid, by the names of their fields.
    """

    indices: Mapping[str, Axis]
    guard: Value | None = None
    fields: Mapping[str, Value] = field(default_factory=dict)

    def where(self, condition: Value | None) -> Scope:
        """The same, needed only where the condition holds as well."""
        return self if condition is None else replace(self, guard=both(self.guard, condition))

    def unless(self, condition: Value | None) -> Scope:
        """The same, needed only where the condition fails as well."""
        return self if condition is None else self.where(negation(condition))

    def bind(self, indices: Iterable[str], axes: Iterable[Axis]) -> Scope:
        """The same with new axes for some indices."""
        return replace(self, indices={**self.indices, **dict(zip(indices, axes, strict=True))})

    def narrow(self, axis: Axis, part: Axis) -> Scope:
        """The same on a part of an axis."""
        indices = {name: part if a is axis else a for name, a in self.indices.items()}
        guard = None if self.guard is None else restrict(self.guard, axis, part)
        return Scope(indices, guard)


Place: TypeAlias = Mapping[Axis, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """Reads outside their tensor: where they happen, and the error for one such place."""

    axes: Axes
    happens: Array
    explain: Callable[[Place], MonocompError]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or a definition that has been evaluated, over its own axes."""

    axes: Axes
    array: Array
    absent: Array | None = None
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Fold:
    """One reduction on its way: rows of elements, one row for each place on the free axes.

    Attributes:
        node: the reduction.
        scope: where its result is wanted.
        free: the axes that the result depends on.
        bound: the axes that are folded, one for each index of the node.
        admitted: the rows of the filter (None: no filter).
    """

    node: Reduce
    scope: Scope
    free: Axes
    bound: Axes
    admitted: Array | None = None

    def rows(self, array: Array, axes: Axes) -> Array:
        """The free axes, then one axis through the bound ones in row-major order."""
        aligned = spread(array, axes, (*self.free, *self.bound))
        outside = aligned.shape[: len(self.free)]
        inside = np.broadcast_to(aligned, (*outside, *shape_of(self.bound)))
        return inside.reshape((*outside, math.prod(shape_of(self.bound))))

    def result(self, folded: Array, absent: Array | None) -> Value:
        """What was made of the rows: one value each, or one for each prefix."""
        if self.node.prefix:
            return self.kept(folded, absent)
        shape = shape_of(self.free)
        if absent is not None:
            absent = np.broadcast_to(absent, shape)
        return Value(self.free, np.broadcast_to(folded, shape), absent)

    def kept(self, rows: Array, absent: Array | None) -> Value:
        """Rows of results, whose indices become those of the scope."""
        axes = (*self.free, *self.bound)
        long = (*shape_of(self.free), math.prod(shape_of(self.bound)))
        array = np.broadcast_to(rows, long).reshape(shape_of(axes))
        if absent is not None:
            absent = np.broadcast_to(absent, long).reshape(shape_of(axes))
        value = Value(axes, array, absent)
        for index, axis in zip(self.node.indices, self.bound, strict=True):
            value = restrict(value, axis, self.scope.indices[index])
        return value


# --- inputs -------------------------------------------------------------------------------


def _to_numpy(name: str, given: Any) -> Array:
    """An input as a float64, int64 or bool array; torch is not imported for its tensors."""
    if hasattr(given, "detach"):
        given = given.detach().cpu()
        given = (given.double() if given.is_floating_point() else given).numpy()
    array = np.asarray(given)
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    try:
        if array.dtype.kind not in "cOSUmM":
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise UnsupportedDtypeError(
        f"input '{name}' has dtype {array.dtype}, which is no number",
        help="give floats, integers or booleans",
    )


# --- the evaluator ------------------------------------------------------------------------


class _Evaluator:
    """Evaluates the definitions of one program on one set of inputs, in order."""

    def __init__(
        self,
        program: Program,
        wide: Wide,
        inputs: Mapping[str, Any],
        params: Mapping[str, int | float],
    ) -> None:
        self.program = program
        self.wide = wide
        arrays = {name: _to_numpy(name, given) for name, given in inputs.items()}
        bound = binding.bind(program, {name: a.shape for name, a in arrays.items()}, params)
        self.extents = bound.extents
        self.params = bound.params
        self.tensors = {name: self._input(at, arrays[name]) for name, at in program.inputs.items()}
        self.faults: list[Fault] = []
        self.rules: dict[type, Callable[[Any, Scope], Value]] = {
            Number: self._number,
            Name: self._name,
            Read: self._read,
            Extent: self._extent,
            Unary: self._unary,
            Binary: self._binary,
            Compare: self._compare,
            Logic: self._logic,
            Call: self._call,
            Reduce: self._reduce,
            Field: self._field,
        }

    def outputs(self) -> tuple[Array, ...]:
        """Evaluate all definitions and give those that the program returns."""
        for definition in self.program.definitions.values():
            self.tensors[definition.name] = self._define(definition)
        return tuple(self._output(self.tensors[out.name]) for out in self.program.outputs)

    def _input(self, declared: Input, array: Array) -> Tensor:
        if declared.kind != "float" and array.dtype.kind == "f":
            raise InputError(
                f"input '{declared.name}' holds floats, and the program needs {declared.kind}",
                text=self.program.text,
                spans=declared.span,
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

    def _axes(self, indices: Iterable[str]) -> Axes:
        return tuple(Axis(index, 0, self.extents[index]) for index in indices)

    def _define(self, definition: Definition) -> Tensor:
        axes = self._axes(definition.indices)
        self.faults = []
        value = self.value(definition.body, Scope(dict(zip(definition.indices, axes, strict=True))))
        if self.program.kinds[definition.name] != "bool":
            value = as_number(value)
        if self.program.kinds[definition.name] == "float":
            value = as_wide(self.wide, value)
        array = np.ascontiguousarray(full(value.array, value.axes, axes)).reshape(shape_of(axes))
        absent = None if value.absent is None else full(value.absent, value.axes, axes)
        return Tensor(axes, array, absent, tuple(self.faults))

    def _output(self, tensor: Tensor) -> Array:
        for fault in tensor.faults:
            if fault.happens.any():
                raise fault.explain(first_true(fault.happens, fault.axes, {})) from None
        array = tensor.array
        return self.wide.lower(array) if array.dtype == self.wide.dtype else array

    def value(self, expr: Expr, scope: Scope) -> Value:
        """The value of an expression in a scope: one rule for each kind of node."""
        return self.rules[type(expr)](expr, scope)

    # Leaves

    def _number(self, node: Number, scope: Scope) -> Value:
        if isinstance(node.value, int) and node.value in _INT64:
            return Value((), np.asarray(node.value, np.int64))
        return Value((), self.wide.number(node.value))

    def _extent(self, node: Extent, scope: Scope) -> Value:
        extent = np.asarray(self.extents[node.index], np.int64)
        return Value((), extent, empty_where(extent == 0))

    def _name(self, node: Name, scope: Scope) -> Value:
        if node.name in scope.fields:
            return scope.fields[node.name]
        if node.name in scope.indices:
            axis = scope.indices[node.name]
            return Value((axis,), np.arange(axis.start, axis.stop, dtype=np.int64))
        if node.name in self.program.params:
            if self.program.params[node.name].kind == "int":
                return Value((), np.asarray(int(self.params[node.name]), np.int64))
            return Value((), self.wide.number(float(self.params[node.name])))
        return self._read(Read(node.name, (), span=node.span), scope)

    # Reads

    def _read(self, node: Read, scope: Scope) -> Value:
        tensor = self.tensors[node.name]
        axes = self._plain_axes(node, scope)
        if axes is not None and not tensor.faults:
            inside = tuple(slice(axis.start, axis.stop) for axis in axes)
            absent = None if tensor.absent is None else tensor.absent[inside]
            return Value(axes, tensor.array[inside], absent)
        return self._gather(node, tensor, scope)

    def _plain_axes(self, node: Read, scope: Scope) -> Axes | None:
        """The axes of a read like A[i,j], which cannot leave its tensor and moves nothing."""
        axes = []
        for part, extent in zip(node.subscripts, self.tensors[node.name].array.shape, strict=True):
            axis = scope.indices.get(part.name) if isinstance(part, Name) else None
            if axis is None or axis.stop > extent or (axis in axes):
                return None
            axes.append(axis)
        return tuple(axes)

    def _gather(self, node: Read, tensor: Tensor, scope: Scope) -> Value:
        places = [as_number(self.value(part, scope)) for part in node.subscripts]
        axes = union(*(place.axes for place in places))
        at = [spread(place.array, place.axes, axes) for place in places]
        elements = all(map(len, scope.indices.values()))  # over nothing, nothing is read
        needed = np.broadcast_to(elements & somewhere(scope.guard, axes), shape_of(axes))
        inside = needed
        for dimension, position in enumerate(at):
            fits = (position >= 0) & (position < tensor.array.shape[dimension])
            if (needed & ~fits).any():
                explain = self._leaves(node, tensor, dimension, axes, position)
                self.faults.append(Fault(axes, needed & ~fits, explain))
            inside = inside & fits
        for fault in tensor.faults:
            self._inherit(fault, tensor, axes, at, inside)
        absent = None if tensor.absent is None else _take(tensor.absent, at, inside)
        return Value(axes, _take(tensor.array, at, inside), absent)

    def _leaves(
        self, node: Read, tensor: Tensor, dimension: int, axes: Axes, position: Array
    ) -> Callable[[Place], MonocompError]:
        """The error for a read outside its tensor."""

        def explain(place: Place) -> MonocompError:
            extent = tensor.array.shape[dimension]
            index = tensor.axes[dimension].index
            named = f"dimension {dimension}" if index.startswith(".") else f"dimension '{index}'"
            valid = f"0 to {extent - 1}" if extent else "none, as it has no element"
            span = node.subscripts[dimension].span
            return IndexRangeError(
                f"'{node.name}' is read at {_pick(position, axes, place)} along its {named}",
                text=self.program.text,
                spans=span if self.program.text else (),
                notes=(f"valid positions: {valid}", *_where(place)),
                help="guard the read with a filter or where(...)",
            )

        return explain

    def _inherit(
        self, fault: Fault, tensor: Tensor, axes: Axes, at: list[Array], inside: Array
    ) -> None:
        """Reading an element of a definition that could not be evaluated is a fault here."""
        bad = np.broadcast_to(
            somewhere(Value(fault.axes, fault.happens), tensor.axes), shape_of(tensor.axes)
        )
        happens = inside & _take(bad, at, inside)
        if not happens.any():
            return

        def explain(place: Place) -> MonocompError:
            there = [_pick(position, axes, place) for position in at]
            fixed = {a: n for a, n in zip(tensor.axes, there, strict=True) if a in fault.axes}
            return fault.explain(first_true(fault.happens, fault.axes, fixed))

        self.faults.append(Fault(axes, happens, explain))

    # Operators

    def _unary(self, node: Unary, scope: Scope) -> Value:
        operand = self.value(node.operand, scope)
        if node.op == "not":
            return negation(as_condition(operand))
        negated = negate(operand)
        if isinstance(node.operand, Number) and node.operand.value == math.inf:
            return replace(negated, absent=np.asarray(MASKED, np.uint8))
        return negated

    def _binary(self, node: Binary, scope: Scope) -> Value:
        before = len(self.faults)
        left = self.value(node.left, scope)
        between = len(self.faults)
        by_left = absorbs(node.op, "left", left)
        right = self.value(node.right, scope.unless(by_left))
        by_right = absorbs(node.op, "right", right)
        if by_right is not None:
            needed = scope.unless(by_right).guard
            self.faults[before:between] = [
                replace(f, happens=f.happens & somewhere(needed, f.axes))
                for f in self.faults[before:between]
            ]
        literal = isinstance(node.right, Number) and isinstance(node.right.value, int)
        keeps_int = literal if node.op == "**" else node.op != "/"
        result = operate(self.wide, node.op, left, right, keeps_int)
        if by_left is not None:
            result = settle(self.wide, node.op, result, by_left, right)
        if by_right is not None:
            result = settle(self.wide, node.op, result, by_right, left)
        return result

    def _compare(self, node: Compare, scope: Scope) -> Value:
        operands = [self.value(part, scope) for part in node.operands]
        pairs = zip(node.ops, operands, operands[1:], strict=False)
        links = [compare(self.wide, op, a, b) for op, a, b in pairs]
        return functools.reduce(lambda a, b: connect("and", a, b), links)

    def _condition(self, expr: Expr, scope: Scope) -> Value:
        return as_condition(self.value(expr, scope))

    def _logic(self, node: Logic, scope: Scope) -> Value:
        """`and` and `or`, left to right; what is decided already guards the rest."""
        result = self._condition(node.operands[0], scope)
        for part in node.operands[1:]:
            undecided = scope.where(result) if node.op == "and" else scope.unless(result)
            result = connect(node.op, result, self._condition(part, undecided))
        return result

    # Functions

    def _call(self, node: Call, scope: Scope) -> Value:
        if node.function == "where":
            condition = self._condition(node.args[0], scope)
            a = self.value(node.args[1], scope.where(condition))
            b = self.value(node.args[2], scope.unless(condition))
            return choose(self.wide, condition, a, b)
        values = [self.value(arg, scope) for arg in node.args]
        if node.function in ("maximum", "minimum"):
            return larger_or_smaller(self.wide, node.function, values[0], values[1])
        if node.function == "uniform":
            axes = union(*(v.axes for v in values))
            counters = [spread(as_number(v).array, v.axes, axes) for v in values]
            return Value(axes, self.wide.lift(counter_rng.uniform(*counters)))
        return apply(self.wide, node.function, values[0])

    # Reductions

    def _field(self, node: Field, scope: Scope) -> Value:
        """One field of a user monoid's aggregate."""
        operand = node.operand
        if not isinstance(operand, Reduce) or operand.op not in self.program.monoids:
            raise InternalError(f"'.{node.name}' follows no aggregate of a user's monoid")
        names: tuple[str, ...] = self.program.monoids[operand.op].fields
        return self._reduce(operand, scope, names.index(node.name))

    def _reduce(self, node: Reduce, scope: Scope, place: int = 0) -> Value:
        """A reduction; of a large one a part of the free indices at a time."""
        bound = self._axes(node.indices)
        inner = scope.bind(node.indices, bound)
        free = [a for a in self._axes_inside(node, inner) if a not in bound]
        size = math.prod(map(len, (*free, *bound)))
        longest = max(free, key=len, default=None)
        if size <= _CHUNK or longest is None or len(longest) < 2:
            return self._reduce_at_once(node, scope, bound, place)
        return self._in_parts(node, scope, place, longest, -(-size // _CHUNK))

    def _in_parts(self, node: Reduce, scope: Scope, place: int, axis: Axis, count: int) -> Value:
        step = max(1, len(axis) // count)
        parts = []
        for start in range(axis.start, axis.stop, step):
            part = Axis(axis.index, start, min(start + step, axis.stop))
            before = len(self.faults)
            parts.append((part, self._reduce(node, scope.narrow(axis, part), place)))
            self.faults[before:] = [_widen(f, part, axis) for f in self.faults[before:]]
        axes = parts[0][1].axes
        at = axes.index(parts[0][0])
        array = np.concatenate([v.array for _, v in parts], axis=at)
        absent = None
        if any(v.absent is not None for _, v in parts):
            levels = [np.uint8(0) if v.absent is None else v.absent for _, v in parts]
            shapes = [v.array.shape for _, v in parts]
            absent = np.concatenate(list(map(np.broadcast_to, levels, shapes)), axis=at)
        return Value((*axes[:at], axis, *axes[at + 1 :]), array, absent)

    def _reduce_at_once(self, node: Reduce, scope: Scope, bound: Axes, place: int) -> Value:
        inner = scope.bind(node.indices, bound)
        condition = None if node.condition is None else self._condition(node.condition, inner)
        args = [self.value(arg, inner.where(condition)) for arg in node.args]
        parts = args if condition is None else [*args, condition]
        free = tuple(a for a in union(*(v.axes for v in parts)) if a not in bound)
        fold = Fold(node, scope, free, bound)
        rows = [fold.rows(v.array, v.axes) for v in args]
        if condition is not None:
            fold = replace(fold, admitted=fold.rows(condition.array, condition.axes))
        if node.op in self.program.monoids:
            fields = self._fold_monoid(self.program.monoids[node.op], rows, fold)
            return fold.result(fields[place].array, fields[place].absent)
        if node.op in SELECTIONS:
            return self._select(rows[0], fold)
        absent = None if args[0].absent is None else fold.rows(args[0].absent, args[0].axes)
        if node.op in KEEPING_REDUCTIONS:
            return self._softmax(rows[0], absent, fold)
        return self._aggregate(rows[0], absent, fold)

    def _aggregate(self, x: Array, absent: Array | None, fold: Fold) -> Value:
        op, prefix = fold.node.op, fold.node.prefix
        if op in ("mean", "var", "logsumexp"):
            x = self.wide.lift(x)
        elif op not in ("any", "all") and x.dtype == bool:
            x = x.astype(np.int64)
        formula = naive_folds.FOLDS[op]
        if prefix:
            folded = naive_folds.prefixes(formula, self.wide, x, fold.admitted)
        else:
            folded = formula(self.wide, x, fold.admitted)
        may_be_empty = (folded == 0) | is_infinite(folded)
        if op not in naive_folds.ABSENT or not may_be_empty.any():
            return fold.result(folded, None)
        empty = naive_folds.nothing(op, x, absent, fold.admitted, prefix)
        level = (empty & may_be_empty).astype(np.uint8) * np.uint8(EMPTY)
        if op in ("sum", "mean", "var"):
            unmasked = None if absent is None else np.where(absent == MASKED, absent, np.uint8(0))
            excluded = naive_folds.nothing(op, x, unmasked, fold.admitted, prefix)
            level = np.where(excluded & may_be_empty, np.uint8(MASKED), level)
        return fold.result(folded, level if level.any() else None)

    def _softmax(self, x: Array, absent: Array | None, fold: Fold) -> Value:
        """An element is masked where its filter is false or its logit is a masked -inf; then it
        does not look at the others."""
        formula = naive_folds.softmax if fold.node.op == "softmax" else naive_folds.log_softmax
        x = self.wide.lift(x)
        level = np.where(x == -math.inf, np.uint8(EMPTY), np.uint8(0))
        if absent is not None:
            level = np.where((x == -math.inf) & (absent == MASKED), np.uint8(MASKED), level)
        if fold.admitted is not None:
            level = np.where(fold.admitted, level, np.uint8(MASKED))
        unit = self.wide.number(0 if fold.node.op == "softmax" else -math.inf)
        result = np.where(level == MASKED, unit, formula(self.wide, x, fold.admitted))
        return fold.kept(result, level if level.any() else None)

    def _select(self, x: Array, fold: Fold) -> Value:
        if fold.node.target is None:
            raise InternalError(f"'{fold.node.op}' has no target index")
        rank = fold.scope.indices[fold.node.target]
        x = np.broadcast_to(self.wide.lift(x), (*shape_of(fold.free), x.shape[-1]))
        values, places = naive_folds.select(self.wide, x, fold.admitted, rank.stop)
        values, places = values[..., rank.start :], places[..., rank.start :]
        axes = (*fold.free, rank)
        if fold.node.op == "argtop":
            return Value(axes, places)
        return Value(axes, values, np.where(places < 0, np.uint8(MASKED), np.uint8(0)))

    def _fold_monoid(self, monoid: Monoid, rows: list[Array], fold: Fold) -> list[Value]:
        """Fold from the unit, left to right; the fields of the result, or of each prefix."""
        free = fold.free
        shape = shape_of(free)
        units = [as_wide(self.wide, self.value(unit, Scope({}))).array for unit in monoid.unit]
        state = [_whole(unit, np.asarray(True), free) for unit in units]
        states = []
        elements = [self.wide.lift(row) for row in rows]
        for step in range(elements[0].shape[-1]):
            fields = [x[..., step] for x in elements]
            same = functools.reduce(
                np.logical_and, (f == unit for f, unit in zip(fields, units, strict=True))
            )
            element = [_whole(f, np.asarray(same, bool), free) for f in fields]
            present = None if fold.admitted is None else fold.admitted[..., step]
            state = self._combine(monoid, state, element, present, free)
            states.append(state)
        if not fold.node.prefix:
            return state
        if not states:
            return [Value(free, np.empty((*shape, 0), self.wide.dtype)) for _ in state]
        return [
            Value(
                free,
                np.stack([v.array for v in field], axis=-1),
                np.stack([_levels(v) for v in field], axis=-1),
            )
            for field in zip(*states, strict=True)
        ]

    def _combine(
        self,
        monoid: Monoid,
        state: list[Value],
        element: list[Value],
        present: Array | None,
        free: Axes,
    ) -> list[Value]:
        fields: dict[str, Value] = {}
        for name, left, right in zip(monoid.fields, state, element, strict=True):
            fields[name], fields[name + "'"] = left, right
        admitted = Value(
            free, np.broadcast_to(True if present is None else present, shape_of(free))
        )
        combined = []
        for expr, before in zip(monoid.combine, state, strict=True):
            after = as_wide(self.wide, self.value(expr, Scope({}, admitted, fields)))
            chosen = choose(self.wide, admitted, after, before)
            combined.append(replace(chosen, array=np.broadcast_to(chosen.array, shape_of(free))))
        return combined

    # Which indices an expression depends on

    def _axes_inside(self, expr: Expr, scope: Scope) -> Axes:
        return union(*(self._axes_of(part, scope) for part in children(expr)))

    def _axes_of(self, expr: Expr, scope: Scope) -> Axes:
        match expr:
            case Name() if expr.name in scope.fields:
                return scope.fields[expr.name].axes
            case Name() if expr.name in scope.indices:
                return (scope.indices[expr.name],)
            case Reduce():
                bound = self._axes(expr.indices)
                inside = self._axes_inside(expr, scope.bind(expr.indices, bound))
                kept = expr.indices if expr.prefix or expr.op in KEEPING_REDUCTIONS else ()
                kept += () if expr.target is None else (expr.target,)
                free = (axis for axis in inside if axis not in bound)
                return union(free, (scope.indices[name] for name in kept))
        return self._axes_inside(expr, scope)


# --- arrays -------------------------------------------------------------------------------


def _take(array: Array, at: list[Array], inside: Array) -> Array:
    """The elements at computed positions; 0 where a position is not to be read."""
    if array.size == 0:
        return np.zeros(inside.shape, array.dtype)
    found = array[tuple(np.where(inside, position, 0) for position in at)]
    return found if inside.all() else np.where(inside, found, np.zeros((), array.dtype))


def _levels(value: Value) -> Array:
    """Which elements are absent, for every element."""
    return np.broadcast_to(np.uint8(0) if value.absent is None else value.absent, value.array.shape)


def _whole(array: Array, is_unit: Array, axes: Axes) -> Value:
    """A field of a user's monoid on all axes; what equals the unit is empty."""
    absent = still_absent(empty_where(is_unit), array)
    shape = shape_of(axes)
    return Value(
        axes,
        np.broadcast_to(array, shape),
        None if absent is None else np.broadcast_to(absent, shape),
    )


def _pick(array: Array, axes: Axes, place: Place) -> int:
    """An integer array's element at a place; dimensions of length 1 hold for all."""
    offsets = tuple(
        place[axis] - axis.start if length > 1 else 0
        for axis, length in zip(axes, array.shape, strict=True)
    )
    return int(array[offsets])


def _where(place: Place) -> Iterator[str]:
    if place:
        yield "at " + ", ".join(f"{axis.index} = {value}" for axis, value in place.items())


def _widen(fault: Fault, part: Axis, axis: Axis) -> Fault:
    """A fault on a part of an axis as one on the axis."""
    if part not in fault.axes:
        return fault
    at = fault.axes.index(part)
    axes = tuple(axis if a is part else a for a in fault.axes)
    happens = np.zeros(shape_of(axes), bool)
    inside = (slice(None),) * at + (slice(part.start - axis.start, part.stop - axis.start),)
    happens[inside] = fault.happens

    def explain(place: Place) -> MonocompError:
        return fault.explain({part if a is axis else a: n for a, n in place.items()})

    return Fault(axes, happens, explain)
