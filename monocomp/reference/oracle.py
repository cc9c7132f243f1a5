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
import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from monocomp.declarations import binding, counter_rng
from monocomp.declarations.records import Input
from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS, SELECTIONS, Kind
from monocomp.errors import InputError, InternalError, UnsupportedDtypeError
from monocomp.language import checker
from monocomp.language import syntax as S
from monocomp.language.parser import HasText, text_of
from monocomp.reference import algebra, folds
from monocomp.reference.algebra import Array
from monocomp.reference.named_arrays import Axes, Reads, Scope, Value, aligned, rows, spread, union

_CHUNK = 1 << 22  # elements of a definition's reductions that are held at once, where that can be
_RECURSION = 20_000
_DTYPES: dict[Kind, type] = {"int": np.int64, "bool": np.bool_, "float": np.float64}
_ENTRY = "'"  # before an index of a monoid's entries, where it could be taken for another one


def evaluate(
    program: str | S.Program | HasText, inputs: Mapping[str, Any], /, **params: int | float
) -> Array | tuple[Array, ...]:
    """Return the outputs of a program by its naive meaning.

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
    outputs: tuple[Array, ...] = tuple(
        (x.array if x.kind == "float" else np.where(np.isnan(x.array), 0, x.array)).astype(
            _DTYPES[x.kind]
        )
        for x in _outputs(program, inputs, params, algebra.widest())
    )
    return outputs[0] if len(outputs) == 1 else outputs


def specified(
    program: str | S.Program | HasText,
    inputs: Mapping[str, Any],
    params: Mapping[str, int | float] | None = None,
    dtype: Any = np.longdouble,
) -> tuple[Array, ...]:
    """Return the outputs as numbers of a dtype in which everything is computed; NaN is
    unspecified."""
    return tuple(x.array for x in _outputs(program, inputs, params or {}, np.dtype(dtype)))


def _outputs(
    program: str | S.Program | HasText,
    inputs: Mapping[str, Any],
    params: Mapping[str, int | float],
    dtype: np.dtype[Any],
) -> list[Value]:
    """Return the outputs; raise the error for the first read outside its tensor on which they
    depend."""
    if not isinstance(program, S.Program):
        program = checker.check(text_of(program, "a program's text or a gradient"))

    def run(limit: int) -> tuple[Reads, list[Value]]:
        reads = Reads(program.origin.text, limit)
        return reads, _Evaluator(program, dtype, inputs, params, reads).outputs()

    with np.errstate(all="ignore"), _deep_recursion():
        reads, outputs = run(sys.maxsize)
        if reads.count and any(np.isnan(x.array).any() for x in outputs):
            plain = [np.isnan(x.array) for x in run(0)[1]]

            def matters(limit: int) -> bool:
                pairs = zip(run(limit)[1], plain, strict=True)
                return any(bool((np.isnan(x.array) & ~known).any()) for x, known in pairs)

            limits = range(1, reads.count + 1)
            first = bisect.bisect_left(limits, True, key=matters)
            if first < reads.count and (error := run(limits[first])[0].error):
                raise error
    return outputs


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Allow nested expressions up to the checker's limit; a node takes a few calls."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def to_numpy(name: str, value: Any) -> Array:
    """Return an input as an array of floats, ints or conditions; torch is not imported for its
    tensors."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.double() if value.is_floating_point() else value).numpy()
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise UnsupportedDtypeError(
            f"input '{name}' has dtype {array.dtype}, which is no number",
            help="give floats, integers or booleans",
        )
    return array


# --- the evaluator ------------------------------------------------------------------------


class _Evaluator:
    """Evaluates the definitions of one program on one set of inputs, in order."""

    def __init__(
        self,
        program: S.Program,
        dtype: np.dtype[Any],
        inputs: Mapping[str, Any],
        params: Mapping[str, int | float],
        reads: Reads,
    ) -> None:
        self.program, self.dtype, self.reads = program, dtype, reads
        given, numbers = binding.signature(program, (), {**inputs, **params})
        arrays = {name: to_numpy(name, x) for name, x in given.items()}
        shapes = {name: a.shape for name, a in arrays.items()}
        size = functools.partial(declared_extent, program.extent_of)
        bound = binding.bind(program, program.origin, shapes, numbers, size)
        self.extents, self.params = bound.extents, bound.params
        self.tensors = {name: self._input(at, arrays[name]) for name, at in program.inputs.items()}

    def outputs(self) -> list[Value]:
        """Evaluate all definitions and return those that the program returns."""
        for definition in self.program.definitions.values():
            if not definition.given:
                scope = Scope(self.extents).bind(definition.indices)
                array = self._elements(definition.body, scope, _bound(definition.body))
                kind = self.program.kinds[definition.name]
                self.tensors[definition.name] = Value(definition.indices, array, kind)
        return [self.tensors[out.name] for out in self.program.outputs]

    def _input(self, declared: Input, array: Array) -> Value:
        if declared.kind != "float" and array.dtype.kind == "f":
            raise InputError(
                f"input '{declared.name}' holds floats, and the program needs {declared.kind}",
                text=self.program.origin.text,
                spans=self.program.origin.span(declared.name),
                help="convert it, or declare it in the program: "
                f"input {declared.name}[{','.join(declared.dims)}]: float",
            )
        array = (array != 0 if declared.kind == "bool" else array).astype(self.dtype)
        return Value(declared.dims, np.where(array == math.inf, math.nan, array), declared.kind)

    def _elements(self, body: S.Expr, scope: Scope, bound: Set[str]) -> Array:
        """Return a definition's elements for all positions in scope; of many half at a time."""
        free = [i for i in scope.positions if i not in bound]
        longest = max(free, key=lambda i: len(scope.positions[i]), default="")
        inside = math.prod(self.extents[i] for i in bound)
        many = inside * math.prod(scope.shape(free)) > _CHUNK
        if many and longest and len(scope.positions[longest]) > 1:
            halves = np.array_split(scope.positions[longest], 2)
            scopes = [replace(scope, positions={**scope.positions, longest: h}) for h in halves]
            parts = [self._elements(body, part, bound) for part in scopes]
            return np.concatenate(parts, axis=list(scope.positions).index(longest))
        return self._everywhere(body, scope).copy()

    def _everywhere(self, expr: S.Expr, scope: Scope) -> Array:
        """Return the value for each position in scope."""
        axes = tuple(scope.positions)
        return np.broadcast_to(spread(self.value(expr, scope), axes), scope.shape(axes))

    def value(self, expr: S.Expr, scope: Scope) -> Value:
        """Return the value of an expression in a scope."""
        match expr:
            case S.Number(number):
                return self._scalar(number, "int" if isinstance(number, int) else "float")
            case S.Extent(index):
                return self._scalar(scope.extents[index], "int")
            case S.Name(name) if name in scope.positions and name not in scope.fields:
                return Value((name,), scope.positions[name].astype(self.dtype), "int")
            case S.Name(name) if name in self.program.params and name not in scope.fields:
                is_int = self.program.params[name].kind == "int"
                return self._scalar(self.params[name], "int" if is_int else "float")
            case S.Name(name):
                return self._read(S.Read(name, (), span=expr.span), scope)
            case S.Read():
                return self._read(expr, scope)
            case S.Reduce():
                return self._reduce(expr, scope)
            case S.Field(S.Reduce(op) as operand, name, subscripts) if op in self.program.monoids:
                number = self.program.monoids[op].fields.index(name)
                return self._entry(self._reduce(operand, scope, number), subscripts, scope)
            case S.Field(_, name):
                raise InternalError(f"'.{name}' follows no aggregate of a user's monoid")
        operands = [self.value(part, scope) for part in S.children(expr)]
        axes, arrays = aligned(operands)
        array, kind = _operate(expr, arrays, [v.kind for v in operands])
        return Value(axes, np.asarray(array, self.dtype), kind)

    # Leaves

    def _scalar(self, number: int | float | Fraction, kind: Kind) -> Value:
        over, under = number.as_integer_ratio() if math.isfinite(number) else (number, 1)
        return Value((), np.asarray(over, self.dtype) / np.asarray(under, self.dtype), kind)

    def _read(self, node: S.Read, scope: Scope) -> Value:
        if node.name in scope.fields:
            return self._entry(scope.fields[node.name], node.subscripts, scope)
        tensor = self.tensors[node.name]
        names = [part.name for part in node.subscripts if isinstance(part, S.Name)]
        positions = [scope.positions[name] for name in names if name in scope.positions]
        if len({*names}) == len(positions) == len(node.subscripts) and all(
            at.size == 0 or at[-1] < n for at, n in zip(positions, tensor.array.shape, strict=True)
        ):  # A[i,j] cannot leave its tensor
            return Value(tuple(names), tensor.array[np.ix_(*positions)], tensor.kind)
        subscripts = [self.value(part, scope) for part in node.subscripts]
        return self.reads.gather(node, tensor, subscripts, scope)

    def _entry(self, field: Value, subscripts: tuple[S.Expr, ...], scope: Scope) -> Value:
        """Return an entry of a field, whose last axes are those of its entries."""
        if not subscripts:
            return field
        kept = field.axes[: len(field.axes) - len(subscripts)]
        along = [Value((a,), np.arange(n)) for a, n in zip(kept, field.array.shape, strict=False)]
        axes, positions = aligned([*along, *(self.value(part, scope) for part in subscripts)])
        return Value(axes, field.array[tuple(p.astype(np.int64) for p in positions)])

    # Reductions

    def _reduce(self, node: S.Reduce, scope: Scope, number: int = 0) -> Value:
        """Return a reduction; of a user's monoid the field with this number."""
        monoid = self.program.monoids.get(node.op)
        entries: Sequence[Axes] = [()] if monoid is None else monoid.indices
        inner, bound = scope.bind(node.indices), tuple(node.indices)
        condition = Value((), np.ones((), self.dtype), "bool")
        if node.condition is not None:
            condition = self.value(node.condition, inner)
        args = []
        for arg, own in zip(node.args, entries, strict=True):
            lengths = {} if monoid is None else monoid.extents
            value = self.value(arg, inner.bind(own, lengths))
            axes = tuple(_ENTRY + a if a in own else a for a in value.axes)
            args.append(_where_specified(condition, replace(value, axes=axes)))
        free = union(*(v.axes for v in (*args, condition)))
        free = tuple(a for a in free if a not in bound and a[:1] != _ENTRY)
        admitted = rows(condition, free, bound, inner) != 0
        if monoid is not None:
            return [*self._fold_monoid(node, monoid, args, admitted, free, inner)][number]
        shape, elements = scope.shape(free), _number_kind([v.kind for v in args])
        row = rows(args[0], free, bound, inner)
        row = np.broadcast_to(row, (*shape, row.shape[-1]))
        kept = (*free, *bound), (*shape, *inner.shape(bound))
        if node.op in KEEPING_REDUCTIONS:
            return Value(kept[0], getattr(folds, node.op)(row, admitted).reshape(kept[1]))
        if node.op in SELECTIONS:
            if node.target is None:
                raise InternalError(f"'{node.op}' has no target index")
            ranks = scope.positions[node.target]
            chosen = folds.select(row, admitted, scope.extents[node.target])
            kind: Kind = "int" if node.op == "argtop" else "float"
            return Value((*free, node.target), chosen[node.op == "argtop"][..., ranks], kind)
        kind = _KINDS.get(node.op, elements)
        if node.prefix:
            array = folds.prefixes(node.op, row, admitted, elements).reshape(kept[1])
            return Value(kept[0], array, kind)
        aggregate = np.asarray(folds.fold(node.op, row, admitted, elements))
        is_sum = kind == "int" and node.op in ("sum", "prod")
        return Value(free, algebra.whole(aggregate) if is_sum else aggregate, kind)

    def _fold_monoid(
        self,
        node: S.Reduce,
        monoid: S.Monoid,
        args: Sequence[Value],
        admitted: Array,
        free: Axes,
        scope: Scope,
    ) -> Iterator[Value]:
        """Yield the fields of the state after the last element, or of all states of a prefix."""
        shape, bound = scope.shape(free), tuple(node.indices)
        size, count = math.prod(shape), math.prod(scope.shape(bound))
        extents = {**scope.extents, **monoid.extents}
        whole = Scope(extents, {"": np.arange(size)})  # "" runs through the free axes
        scopes = [whole.bind(own) for own in monoid.indices]
        elements = []
        for arg, own in zip(args, monoid.indices, strict=True):
            row = rows(arg, (*free, *_entries(own)), bound, scope)
            inside = (*(monoid.extents[a] for a in own), count)
            elements.append(np.broadcast_to(row, (*shape, *inside)).reshape(size, *inside))
        admitted = np.broadcast_to(admitted, (*shape, count)).reshape(size, count)

        def evaluate(parts: Sequence[S.Expr], fields: Mapping[str, Value]) -> list[Value]:
            """Return each field over all its entries."""
            pairs = zip(parts, (replace(of, fields=fields) for of in scopes), strict=True)
            return [Value(tuple(of.positions), self._everywhere(part, of)) for part, of in pairs]

        states = [evaluate(monoid.unit, {})]
        for n in range(count):
            before, chosen = states[-1], Value(("",), admitted[:, n].astype(self.dtype))
            fields: dict[str, Value] = dict(zip(monoid.fields, before, strict=True))
            for name, old, of in zip(monoid.fields, before, elements, strict=True):
                fields[name + "'"] = Value(old.axes, of[..., n])
            combined = zip(before, evaluate(monoid.combine, fields), strict=True)
            states.append(
                [
                    Value(old.axes, algebra.choose(spread(chosen, old.axes), new.array, old.array))
                    for old, new in combined
                ]
            )
        for number, own in enumerate(monoid.indices):
            axes, array = free, states[-1][number].array
            if node.prefix:
                axes = (*free, *bound)
                array = np.stack([state[number].array for state in states], axis=1)[:, 1:]
            lengths = array.shape[array.ndim - len(own) :]
            array = array.reshape((*scope.shape(axes), *lengths))
            yield Value((*axes, *_entries(own)), array)


# The kinds of aggregates that differ from the kinds of their elements.
_KINDS: dict[str, Kind] = {
    **{"any": "bool", "all": "bool", "argmax": "int", "argmin": "int"},
    **{"mean": "float", "var": "float", "logsumexp": "float"},
}


def _bound(body: S.Expr) -> Set[str]:
    """Return the indices that reductions bind."""
    return {i for part in S.walk(body) if isinstance(part, S.Reduce) for i in part.indices}


def _entries(indices: Axes) -> Axes:
    """Return the axes of a field's entries."""
    return tuple(_ENTRY + a for a in indices)


def _number_kind(kinds: Sequence[Kind]) -> Kind:
    """Return float if one of some kinds is; conditions count as ints."""
    return "float" if "float" in kinds else "int"


def _where_specified(condition: Value, value: Value) -> Value:
    """Return the value, unspecified where the condition is."""
    if not np.isnan(condition.array).any():
        return value
    axes, (asked, array) = aligned([condition, value])
    return replace(value, axes=axes, array=np.where(np.isnan(asked), math.nan, array))


def _operate(node: S.Expr, arrays: Sequence[Array], kinds: Sequence[Kind]) -> tuple[Array, Kind]:
    """Return the result of an operator or function, and its kind."""
    kind = _number_kind(kinds)
    match node:
        case S.Unary("not"):
            return 1 - algebra.condition(arrays[0]), "bool"
        case S.Unary():
            return algebra.negate(arrays[0]), kind
        case S.Binary(op, _, right):
            is_literal = isinstance(right, S.Number) and isinstance(right.value, int)
            if not (is_literal if op == "**" else op != "/"):
                kind = "float"
            return algebra.operate(op, arrays[0], arrays[1], kind), kind
        case S.Compare(ops):
            links = map(algebra.compare, ops, arrays, arrays[1:])
            return functools.reduce(functools.partial(algebra.connect, "and"), links), "bool"
        case S.Logic(op):
            connect = functools.partial(algebra.connect, op)
            return functools.reduce(connect, map(algebra.condition, arrays)), "bool"
        case S.Call("where"):
            is_condition = all(k == "bool" for k in kinds[1:])
            return algebra.choose(*arrays), "bool" if is_condition else _number_kind(kinds[1:])
        case S.Call("maximum"):
            return np.maximum(*arrays), kind
        case S.Call("minimum"):
            return np.minimum(*arrays), kind
        case S.Call("uniform"):
            counters = [np.where(np.isnan(x), 0, x).astype(np.int64) for x in arrays]
            unspecified = np.isnan(sum(arrays))
            return np.where(unspecified, math.nan, counter_rng.uniform(*counters)), "float"
        case S.Call("int"):
            return algebra.apply("int", arrays[0]), "int"
        case S.Call(name):
            keeps = name in ("abs", "sign", "stop")
            return algebra.apply(name, arrays[0]), kind if keeps else "float"
    raise InternalError(f"the oracle has no rule for {type(node).__name__}")


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    **{"+": operator.add, "-": operator.sub, "*": operator.mul},
    **{"//": operator.floordiv, "%": operator.mod, "maximum": max, "minimum": min},
}


def declared_extent(
    extent_of: Mapping[str, str],
    node: S.Expr,
    extents: Mapping[str, int],
    params: Mapping[str, int | float],
) -> int | None:
    """Return the number that a declared extent is, exactly; None if it divides by zero."""
    match node:
        case S.Number(value):
            return int(value)
        case S.Extent(index):
            return extents[extent_of[index]]
        case S.Name(name):
            return int(params[name])
    total, *others = (declared_extent(extent_of, p, extents, params) for p in S.children(node))
    match node:
        case S.Unary("-"):
            return None if total is None else -total
        case S.Binary(op) | S.Call(op) if op in _ARITHMETIC:
            for x in others:
                if total is None or x is None or (x == 0 and op in ("//", "%")):
                    return None
                total = _ARITHMETIC[op](total, x)
            return total
    raise InternalError("an extent holds an operation that the checker should have refused")
