"""Random inputs for a program: sizes that fit together, and elements that make sense.

Floats are standard normal, conditions are fair coins. Integers that subscript a tensor are
valid places in it, integers that an index is compared with are lengths (0 to the extent), other
integers lie in 0 to 7. Where side conditions matter are *special points*, which take the place
of most elements if they are asked for: zeros of both signs, ones, ties, large and small
numbers, whole rows of one number, lengths of 0, conditions that fail for a row; and infinities
and NaN. Extents that are not given become small distinct primes, so that no two dimensions can
be mistaken for one another; what the program says of them is respected: declared extents, and
subscripts that must stay inside their tensor, found by interval arithmetic over the subscripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, Literal, TypeAlias

import numpy as np

from monocomp.errors import UsageError, nearest
from monocomp.language.syntax import (
    Binary,
    Call,
    Compare,
    Expr,
    Extent,
    Input,
    Name,
    Number,
    Program,
    Read,
    Reduce,
    Unary,
    children,
)

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Range: TypeAlias = tuple[int, int]
Env: TypeAlias = Mapping[str, tuple[Expr, "Env"]]

# Where elements are drawn: in general position, or mostly at points that are finite, or at any.
Points: TypeAlias = Literal["general", "finite", "any"]
_FINITE = (0.0, -0.0, 0.0, 1.0, 1.0, -1.0, 0.5, 2.0, 8.0, -8.0, 2.0**-20)
_INFINITE = (np.inf, -np.inf, -np.inf, np.nan)

PRIMES = (2, 3, 5, 7, 11, 13, 17)
_SEARCHED = range(2, 13)  # extents tried where primes do not fit together
_ANY_INT: Range = (0, 7)


def free_extents(program: Program) -> tuple[str, ...]:
    """The indices, one for each set that shares an extent, whose sizes the inputs decide."""
    dims = [dim for at in program.inputs.values() for dim in at.dims]
    found = dict.fromkeys(program.extent_of[dim] for dim in dims)
    return tuple(name for name in found if name not in program.bounds and name[0] != ".")


def by_representative(program: Program, given: Mapping[str, int]) -> dict[str, int]:
    """Given extents by what represents them; an unknown name or two sizes is an error."""
    table = program.extent_of
    first: dict[str, str] = {}
    for name, size in given.items():
        root = table.get(name, table.get(f".{name}"))
        if root is None:
            names = [index.lstrip(".") for index in table]
            near = nearest(name, names)
            raise UsageError(
                f"the program has no index '{name}'",
                notes=(f"indices: {', '.join(names) or 'none'}",),
                help=f"did you mean '{near}'?" if near else None,
            )
        other = first.setdefault(root, name)
        if given[other] != size:
            raise UsageError(
                f"indices '{other}' and '{name}' have one extent, and get two: "
                f"{given[other]} and {size}",
                help=f"leave out {name}={size} or {other}={given[other]}",
            )
    return {root: given[name] for root, name in first.items()}


def complete_extents(
    program: Program, given: Mapping[str, int], params: Mapping[str, Any] | None = None
) -> dict[str, int]:
    """The extent of every index: as given, as declared, or else small.

    Args:
        program: a checked program.
        given: extents by the name of an index.
        params: parameters that are not at their defaults.
    """
    return _Sizes(program, given, params or {}).extents


def fits(program: Program, extents: Mapping[str, int], params: Mapping[str, Any]) -> bool:
    """Do all computed subscripts stay inside their tensors at these sizes, filters or not?"""
    sizes = _Sizes(program, extents, params)
    return all(map(sizes.is_inside, sizes.subscripts))


def random_inputs(
    program: Program,
    extents: Mapping[str, int],
    *,
    dtype: str = "float32",
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    points: Points = "general",
) -> dict[str, Array]:
    """An array for each input of a program.

    Args:
        program: a checked program.
        extents: sizes by the name of an index; what is missing is made up.
        dtype: of the floats. NumPy has no bfloat16: those are float32 arrays of bfloat16
            numbers.
        seed: equal seeds give equal inputs.
        params: parameters that are not at their defaults, for sizes that depend on them.
        points: where most elements are.
    """
    sizes = _Sizes(program, extents, params or {})
    arrays = {}
    for number, at in enumerate(program.inputs.values()):
        generator = np.random.default_rng([seed, number])
        shape = tuple(sizes.extents[dim] for dim in at.dims)
        values = sizes.values(at.name)
        arrays[at.name] = _elements(at, shape, values, dtype, generator)
        if points != "general":
            special = np.random.default_rng([seed, number, 1])
            _specialise(arrays[at.name], values, points, special)
    return arrays


def _specialise(
    array: Array, values: Range, points: Points, generator: np.random.Generator
) -> None:
    """Put special points into an array: two of three elements, and a row now and then."""
    candidates: tuple[Any, ...] = (False,)
    if array.dtype.kind == "i":
        candidates = values[0], max(values)
    elif array.dtype.kind == "f":
        candidates = _FINITE if points == "finite" else (*_FINITE, *_INFINITE)
    if array.dtype.kind != "b":
        share = 2 / 3 if array.dtype.kind == "f" else 1 / 3
        chosen = generator.random(array.shape) < share
        array[chosen] = generator.choice(candidates, array.shape)[chosen]
    if array.ndim and array.size and generator.random() < 0.5:
        axis = generator.integers(array.ndim)
        row = [slice(None)] * array.ndim
        row[axis] = slice(place := generator.integers(array.shape[axis]), place + 1)
        array[tuple(row)] = generator.choice(candidates)


def _elements(
    at: Input, shape: tuple[int, ...], values: Range, dtype: str, generator: np.random.Generator
) -> Array:
    if at.kind == "bool":
        return np.asarray(generator.random(shape) < 0.5)
    if at.kind == "int":
        low, high = values
        return np.asarray(generator.integers(low, max(low, high), shape, endpoint=True))
    if dtype == "bfloat16":
        return to_bfloat16(np.asarray(generator.standard_normal(shape, dtype=np.float32)))
    precise = np.float64 if dtype == "float64" else np.float32
    return np.asarray(generator.standard_normal(shape, dtype=precise)).astype(dtype)


def to_bfloat16(array: Array) -> Array:
    """Finite float32 numbers rounded to the nearest that bfloat16 has, ties to even."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32).reshape(array.shape)


@dataclass(frozen=True)
class _Subscript:
    """An expression where a tensor's dimension, with this extent, is subscripted."""

    extent: str
    expr: Expr
    env: Env


class _Sizes:
    """Extents that fit together, by index and representative, and ranges of integer inputs."""

    def __init__(
        self, program: Program, given: Mapping[str, int], params: Mapping[str, Any]
    ) -> None:
        self.program = program
        defaults = {name: at.default for name, at in program.params.items()}
        self.params: dict[str, Any] = {**defaults, **params}
        self.subscripts = list(self._all_subscripts())
        self.compared = dict(self._all_compared())
        self.known = by_representative(program, given)
        fixed = frozenset(self.known)
        for number, name in enumerate(free_extents(program)):
            self.known.setdefault(name, PRIMES[number % len(PRIMES)])
        self._settle()
        self._fit(fixed)
        self.extents = {
            name: self.known[root]
            for index, root in program.extent_of.items()
            for name in (index, root)
        }

    def values(self, name: str) -> Range:
        """The values that an integer input takes."""
        sizes = [
            self.known[at.extent]
            for at in self.subscripts
            if _reads(at.expr) == name and at.extent in self.known
        ]
        if sizes:
            return 0, max(0, min(sizes) - 1)
        if name in self.compared:
            return 0, self.known.get(self.program.extent_of[self.compared[name]], _ANY_INT[1])
        return _ANY_INT

    def _settle(self) -> None:
        """Extents that follow from others: declared ones, and dimensions only computed reads use.

        Each may depend on another, so they are filled in until nothing changes.
        """
        program = self.program
        made_up = [root for root in dict.fromkeys(program.extent_of.values()) if root[0] == "."]
        waiting = [name for name in (*program.bounds, *made_up) if name not in self.known]
        while waiting:
            left = [name for name in waiting if not self._follow(name)]
            if len(left) == len(waiting):  # what nothing decides
                self.known[left.pop(0)] = PRIMES[0]
            waiting = left

    def _follow(self, name: str) -> bool:
        if name in self.program.bounds:
            found = self._range(self.program.bounds[name], {})
            if found is None:
                return False
            self.known[name] = max(0, found[0])
            return True
        uses = [at for at in self.subscripts if at.extent == name]
        if all(_reads(at.expr) is not None for at in uses):
            self.known[name] = PRIMES[-1]  # a gather: any size will do
            return True
        ranges = [self._range(at.expr, at.env) for at in uses if _reads(at.expr) is None]
        tops = [found[1] for found in ranges if found is not None]
        if len(tops) < len(ranges):
            return False
        self.known[name] = max(0, *tops) + 1
        return True

    # Fitting extents of named indices to computed subscripts

    def _fit(self, fixed: frozenset[str]) -> None:
        """Choose other small extents where a computed subscript would leave its tensor."""
        broken = [at for at in self.subscripts if not self.is_inside(at)]
        names = {name for at in broken for name in (at.extent, *self._mentioned(at.expr))}
        movable = [name for name in free_extents(self.program) if name in names - fixed][:3]
        before = dict(self.known)
        for choice in sorted(product(_SEARCHED, repeat=len(movable)), key=_simplicity):
            self.known = {name: before[name] for name in (*free_extents(self.program), *fixed)}
            self.known.update(zip(movable, choice, strict=True))
            self._settle()
            if all(map(self.is_inside, broken)):
                return
        self.known = before  # perhaps a filter guards the read

    def is_inside(self, at: _Subscript) -> bool:
        """Are all values of a subscript places of its tensor, as far as can be told?"""
        found = self._range(at.expr, at.env)
        return found is not None and found[0] >= 0 and found[1] < self.known[at.extent]

    def _mentioned(self, expr: Expr) -> set[str]:
        """Extents that a subscript depends on, definitions seen through."""
        found: set[str] = set()
        for node, _ in self._walk(expr, {}):
            if isinstance(node, Extent):
                found.add(self.program.extent_of[node.index])
            elif isinstance(node, Name) and node.kind == "index":
                found.add(self.program.extent_of[node.name])
            elif isinstance(node, Read) and node.name in self.program.definitions:
                found |= self._mentioned(self.program.definitions[node.name].body)
        return found

    # What the program says

    def _walk(self, expr: Expr, env: Env) -> Iterator[tuple[Expr, Env]]:
        """The parts of an expression, with the bodies of the functions that it calls."""
        yield expr, env
        function = self.program.functions.get(expr.function) if isinstance(expr, Call) else None
        if isinstance(expr, Name) and expr.kind == "formal" and expr.name in env:
            yield from self._walk(*env[expr.name])
        elif isinstance(expr, Call) and function is not None:
            inner = {f: (a, env) for f, a in zip(function.formals, expr.args, strict=True)}
            yield from self._walk(function.body, inner)
        else:
            for part in children(expr):
                yield from self._walk(part, env)

    def _everything(self) -> Iterator[tuple[Expr, Env]]:
        bodies = (at.body for at in self.program.definitions.values())
        return chain.from_iterable(self._walk(body, {}) for body in bodies)

    def _all_subscripts(self) -> Iterator[_Subscript]:
        """Computed subscripts; a plain index is inside its tensor by itself."""
        program = self.program
        for node, env in self._everything():
            if not isinstance(node, Read):
                continue
            dims = (
                program.definitions[node.name].indices
                if node.name in program.definitions
                else program.inputs[node.name].dims
            )
            for dim, expr in zip(dims, node.subscripts, strict=True):
                expr, inner = _behind(expr, env)
                if not (isinstance(expr, Name) and expr.kind == "index"):
                    yield _Subscript(program.extent_of[dim], expr, inner)

    def _all_compared(self) -> Iterator[tuple[str, str]]:
        """Integer inputs that an index is compared with, such as len in k < len[b]."""
        for node, env in self._everything():
            if isinstance(node, Compare):
                sides = [_behind(side, env)[0] for side in node.operands]
                indices = [s.name for s in sides if isinstance(s, Name) and s.kind == "index"]
                for name in filter(None, map(_reads, sides)):
                    if indices and name in self.program.inputs:
                        yield name, indices[0]

    # Interval arithmetic; None where nothing is known

    def _range(self, expr: Expr, env: Env) -> Range | None:
        expr, env = _behind(expr, env)
        match expr:
            case Number():
                return (expr.value, expr.value) if isinstance(expr.value, int) else None
            case Extent():
                size = self.known.get(self.program.extent_of[expr.index])
                return None if size is None else (size, size)
            case Name(kind="index"):
                size = self.known.get(self.program.extent_of[expr.name])
                return None if size is None else (0, max(0, size - 1))
            case Name(kind="param"):
                value = self.params[expr.name]
                return (value, value) if isinstance(value, int) else None
            case Read() | Name():
                return self._range_of_tensor(expr.name)
            case Unary(op="-"):
                return self._corners("-", (0, 0), self._range(expr.operand, env))
            case Binary():
                left, right = self._range(expr.left, env), self._range(expr.right, env)
                return self._corners(expr.op, left, right)
            case Call():
                return self._range_of_call(expr, env)
            case Reduce(op="max" | "min"):
                return self._range(expr.args[0], env)
        return None

    def _range_of_tensor(self, name: str) -> Range | None:
        if name in self.program.definitions:
            return self._range(self.program.definitions[name].body, {})
        at = self.program.inputs.get(name)
        return self.values(name) if at is not None and at.kind == "int" else None

    def _range_of_call(self, expr: Call, env: Env) -> Range | None:
        function = self.program.functions.get(expr.function)
        if function is not None:
            inner = {f: (a, env) for f, a in zip(function.formals, expr.args, strict=True)}
            return self._range(function.body, inner)
        if expr.function not in ("where", "minimum", "maximum"):
            return None
        operands = expr.args[1:] if expr.function == "where" else expr.args
        left, right = (self._range(part, env) for part in operands)
        if left is None or right is None:
            return None
        if expr.function == "where":
            return min(left[0], right[0]), max(left[1], right[1])
        choose = min if expr.function == "minimum" else max
        return choose(left[0], right[0]), choose(left[1], right[1])

    def _corners(self, op: str, left: Range | None, right: Range | None) -> Range | None:
        """The range of a monotone operation, from the ends of its operands."""
        if left is None or right is None:
            return None
        if op == "%":
            return (0, min(left[1], right[1] - 1)) if left[0] >= 0 and right[0] > 0 else None
        if op == "//" and right[0] <= 0 <= right[1]:
            return None
        if op not in _CORNERS:
            return None
        found = [_CORNERS[op](a, b) for a, b in product(left, right)]
        return min(found), max(found)


_CORNERS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
}


def _behind(expr: Expr, env: Env) -> tuple[Expr, Env]:
    """What a formal stands for."""
    while isinstance(expr, Name) and expr.kind == "formal" and expr.name in env:
        expr, env = env[expr.name]
    return expr, env


def _reads(expr: Expr) -> str | None:
    """The tensor of which an expression is a plain element."""
    is_element = isinstance(expr, Read) or (isinstance(expr, Name) and expr.kind == "scalar")
    return expr.name if is_element and isinstance(expr, (Read, Name)) else None


def _simplicity(choice: Iterable[int]) -> tuple[int, int]:
    sizes = list(choice)
    return len(sizes) - len(set(sizes)), sum(sizes)
