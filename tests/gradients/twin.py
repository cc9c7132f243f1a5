"""A twin of the oracle on torch's scalars, for torch's own gradients of a program.

It evaluates the checked syntax tree element by element: the branch of `where` that is not taken and
what a filter excludes are not computed at all, so that no gradient escapes a guard. A number is a
Python int or bool, a scalar tensor of float64, or one of two Python floats that stand for no
element: 0.0, a sum of nothing, and -inf, its logarithm. These absorb what they meet, as the
oracle's masked elements do, and have no gradient.

Of equal elements `max` follows the first; of two equal operands `maximum` takes half of each.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from monocomp.declarations import binding, counter_rng
from monocomp.language import syntax as S
from monocomp.language.checker import check
from monocomp.reference.declared_extents import declared_extent

Array = np.ndarray[Any, np.dtype[Any]]
Number = Any  # an int, a bool, a scalar tensor, or an absent float
Env = Mapping[str, Any]

_ABSENT = (0.0, -math.inf)
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_COMPARE |= {"==": operator.eq, "!=": operator.ne}
_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **{n: getattr(torch, n) for n in ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf")},
    **{n: getattr(torch, n) for n in ("exp2", "log2", "sin", "cos", "abs", "floor", "sign")},
    **{n: getattr(F, n) for n in ("relu", "silu", "gelu", "elu")},
    "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "stop": lambda x: x.detach(),
    "int": lambda x: int(x.detach()),
}
_OF_INTS: dict[str, Callable[[int], int]] = {
    **{"abs": abs, "floor": int, "stop": int, "relu": lambda n: max(n, 0)},
    "sign": lambda n: (n > 0) - (n < 0),
}


def gradients(
    text: str,
    inputs: Mapping[str, Array],
    cotangents: Mapping[str, Array],
    wrt: Sequence[str],
    params: Mapping[str, float] | None = None,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The outputs of a program, and the gradients of sum(cotangent * output) by torch."""
    twin = Twin(text, inputs, params or {})
    outputs = {o.name: twin.tensor(o.name) for o in twin.program.outputs}
    loss = torch.zeros((), dtype=torch.float64, requires_grad=True)
    for name, cotangent in cotangents.items():
        for value, c in zip(outputs[name].flat, cotangent.flat, strict=True):
            if isinstance(value, torch.Tensor):
                loss = loss + value * float(c)
    leaves = [twin.leaves[n] for n in wrt]
    flat = [x for leaf in leaves for x in leaf.flat]
    found = iter(torch.autograd.grad(loss, flat, allow_unused=True) if flat else ())
    slopes = {}
    for name, leaf in zip(wrt, leaves, strict=True):
        values = [0.0 if g is None else float(g) for g in itertools.islice(found, leaf.size)]
        slopes[name] = np.array(values).reshape(leaf.shape)
    values = {
        n: [float(x.detach()) if isinstance(x, torch.Tensor) else x for x in v.flat]
        for n, v in outputs.items()
    }
    return {n: np.array(v).reshape(outputs[n].shape) for n, v in values.items()}, slopes


def _wide(x: Number) -> torch.Tensor:
    if isinstance(x, torch.Tensor):
        return x
    return torch.tensor(float(x), dtype=torch.float64)


def _plain(x: Number) -> float:
    return float(x.item() if isinstance(x, torch.Tensor) else x)


def _is_absent(x: Number, value: float) -> bool:
    return isinstance(x, float) and x == value


def _is_float(x: Number) -> bool:
    return isinstance(x, (float, torch.Tensor))


class Twin:
    """The values of a program's equations, element by element, each computed once."""

    def __init__(self, text: str, inputs: Mapping[str, Array], params: Mapping[str, float]) -> None:
        self.program = program = check(text)
        shapes = {n: np.shape(a) for n, a in inputs.items()}
        size = functools.partial(declared_extent, program.extent_of)
        bound = binding.bind(program, program.origin, shapes, params, size)
        self.extents, self.params = bound.extents, bound.params
        self.leaves = {n: self._leaf(n, np.asarray(inputs[n])) for n in program.inputs}
        self.memo: dict[Any, Number] = {}
        self.named: dict[int, frozenset[str]] = {}

    def _leaf(self, name: str, array: Array) -> Array:
        found = np.empty(array.shape, object)
        for at in np.ndindex(array.shape):
            value = array[at].item()
            if self.program.inputs[name].kind == "float":
                value = torch.tensor(float(value), dtype=torch.float64, requires_grad=True)
            elif self.program.inputs[name].kind == "bool":
                value = bool(value)
            found[at] = value
        return found

    def tensor(self, name: str) -> Array:
        """All elements of an equation."""
        shape = tuple(self.extents[i] for i in self.program.definitions[name].indices)
        found = np.empty(shape, object)
        for at in np.ndindex(shape):
            found[at] = self._element(name, at)
        return found

    def _element(self, name: str, at: tuple[int, ...]) -> Number:
        if name in self.leaves:
            value = self.leaves[name][at]
            return -math.inf if _is_float(value) and value == -math.inf else value
        definition = self.program.definitions[name]
        if (name, at) not in self.memo:
            env = dict(zip(definition.indices, at, strict=True))
            value = self.value(definition.body, env)
            kind = self.program.kinds[name]
            self.memo[name, at] = value if _is_float(value) or kind != "float" else _wide(value)
        return self.memo[name, at]

    def _names(self, expr: S.Expr) -> frozenset[str]:
        if id(expr) not in self.named:
            names: set[str] = set()
            for node in S.walk(expr):
                names |= {node.name} if isinstance(node, S.Name) else set()
                names |= {*node.indices, node.target} if isinstance(node, S.Reduce) else set()
            self.named[id(expr)] = frozenset(names)
        return self.named[id(expr)]

    def value(self, expr: S.Expr, env: Env) -> Number:
        """The value of an expression for numbers of its indices."""
        if not isinstance(expr, (S.Reduce, S.Field, S.Call)) or any("'" in n for n in env):
            return self._value(expr, env)
        here = sorted((n, env[n]) for n in self._names(expr) & env.keys())
        key = (id(expr), tuple(here))
        if key not in self.memo:
            self.memo[key] = self._value(expr, env)
        return self.memo[key]

    def _value(self, expr: S.Expr, env: Env) -> Number:
        match expr:
            case S.Number():
                return expr.value if isinstance(expr.value, int) else _wide(expr.value)
            case S.Extent():
                return self.extents[expr.index]
            case S.Name() if expr.name in env:
                return env[expr.name]
            case S.Name() if expr.name in self.params:
                value = self.params[expr.name]
                return int(value) if self.program.params[expr.name].kind == "int" else _wide(value)
            case S.Name():
                return self._element(expr.name, ())
            case S.Read():
                at = tuple(int(self.value(s, env)) for s in expr.subscripts)
                assert min(at) >= 0, f"read of {expr.name} at {at}"
                return self._element(expr.name, at)
            case S.Unary(op="not"):
                return not self.condition(expr.operand, env)
            case S.Unary():
                if isinstance(expr.operand, S.Number) and expr.operand.value == math.inf:
                    return -math.inf
                return _negated(self.value(expr.operand, env))
            case S.Binary():
                return self._binary(expr, env)
            case S.Compare():
                values = [self.value(x, env) for x in expr.operands]
                pairs = zip(expr.ops, values, values[1:], strict=False)
                return all(bool(_COMPARE[op](a, b)) for op, a, b in pairs)
            case S.Logic():
                connect = all if expr.op == "and" else any
                return connect(self.condition(x, env) for x in expr.operands)
            case S.Call():
                return self._call(expr, env)
            case S.Reduce() if expr.op in self.program.monoids:
                return self._monoid(expr, env)[0]
            case S.Reduce():
                return self._reduce(expr, env)
            case S.Field(operand=S.Reduce() as fold):
                fields = self.program.monoids[fold.op].fields
                return self._monoid(fold, env)[fields.index(expr.name)]
        raise AssertionError(f"no rule for {expr}")

    def condition(self, expr: S.Expr, env: Env) -> bool:
        return bool(self.value(expr, env) != 0)

    def _binary(self, expr: S.Binary, env: Env) -> Number:
        x = self.value(expr.left, env)
        if _is_absent(x, 0.0) and expr.op in "*/":
            return 0.0
        if _is_absent(x, -math.inf) and expr.op in "+-":
            return -math.inf
        y = self.value(expr.right, env)
        literal = isinstance(expr.right, S.Number) and isinstance(expr.right.value, int)
        return _operate(expr.op, x, y, literal)

    def _call(self, expr: S.Call, env: Env) -> Number:
        if expr.function == "where":
            taken = expr.args[1 if self.condition(expr.args[0], env) else 2]
            return self.value(taken, env)
        values = [self.value(a, env) for a in expr.args]
        if expr.function == "uniform":
            return _wide(counter_rng.uniform(*map(int, values)))
        if expr.function in ("maximum", "minimum"):
            return _extreme(expr.function, *values)
        x = values[0]
        if not _is_float(x) and expr.function in _OF_INTS:
            return _OF_INTS[expr.function](int(x))
        if _is_absent(x, -math.inf) and expr.function in ("exp", "exp2"):
            return 0.0
        if _is_absent(x, 0.0) and expr.function in ("log", "log2"):
            return -math.inf
        if _is_absent(x, 0.0) and expr.function in ("sqrt", "stop"):
            return 0.0
        return _FUNCTIONS[expr.function](_wide(x))

    def _positions(self, node: S.Reduce, env: Env) -> Iterator[tuple[tuple[int, ...], Env]]:
        """The elements that a fold admits, in order; of a prefix those up to its own."""
        for at in itertools.product(*(range(self.extents[i]) for i in node.indices)):
            if node.prefix and at > tuple(env[i] for i in node.indices):
                return
            inside = {**env, **dict(zip(node.indices, at, strict=True))}
            if node.condition is None or self.condition(node.condition, inside):
                yield at, inside

    def _reduce(self, node: S.Reduce, env: Env) -> Number:
        elements = {at: self.value(node.args[0], e) for at, e in self._positions(node, env)}
        values = list(elements.values())
        if node.op in ("any", "all"):
            return (any if node.op == "any" else all)(bool(v != 0) for v in values)
        if node.op in ("softmax", "log_softmax"):
            own = elements.get(tuple(env[i] for i in node.indices), -math.inf)
            if _is_absent(own, -math.inf):
                return 0.0 if node.op == "softmax" else -math.inf
            difference = _wide(own) - _logsumexp(values)
            return difference.exp() if node.op == "softmax" else difference
        if node.op in ("top", "argtop"):
            ranked = sorted(
                ((_plain(v), at, v) for at, v in elements.items() if not _is_absent(v, -math.inf)),
                key=lambda entry: (-entry[0], entry[1]),
            )
            rank = env[str(node.target)]
            if rank >= len(ranked):
                return -math.inf if node.op == "top" else -1
            return ranked[rank][2] if node.op == "top" else ranked[rank][1][0]
        if node.op in ("argmax", "argmin"):
            sign = -1 if node.op == "argmax" else 1
            first = min(((sign * _plain(v), at) for at, v in elements.items()), default=(0, (0,)))
            return first[1][0]
        # A sum of nothing may be one of ints: 0.0 is what it has to be in quotients.
        is_float = not values or any(map(_is_float, values))
        return _FOLDS[node.op](values, is_float)

    def _monoid(self, node: S.Reduce, env: Env) -> list[Number]:
        monoid = self.program.monoids[node.op]
        state = [self.value(unit, {}) for unit in monoid.unit]
        state = [x if _is_float(x) else _wide(x) for x in state]
        for _, inside in self._positions(node, env):
            fields = dict(zip(monoid.fields, state, strict=True))
            for name, arg in zip(monoid.fields, node.args, strict=True):
                x = self.value(arg, inside)
                fields[f"{name}'"] = x if _is_float(x) else _wide(x)
            state = [self.value(c, fields) for c in monoid.combine]
            state = [x if _is_float(x) else _wide(x) for x in state]
        return state


def _negated(x: Number) -> Number:
    if _is_absent(x, 0.0):
        return 0.0
    return _wide(math.inf) if _is_absent(x, -math.inf) else -x


def _operate(op: str, x: Number, y: Number, literal: bool) -> Number:
    if not _is_float(x) and not _is_float(y) and op != "/" and (op != "**" or literal):
        x, y = int(x), int(y)
        if op in ("//", "%"):
            return 0 if y == 0 else x // y if op == "//" else x % y
        return {"+": operator.add, "-": operator.sub, "*": operator.mul, "**": operator.pow}[op](
            x, y
        )
    match op:
        case "+" | "-" if _is_absent(y, 0.0):
            return x if _is_float(x) else _wide(x)
        case "+" if _is_absent(x, 0.0):
            return _wide(y)
        case "+" if _is_absent(y, -math.inf):
            return -math.inf
        case "*" if _is_absent(y, 0.0):
            return 0.0
        case "*" | "/" if _is_absent(x, -math.inf) and y > 0:
            return -math.inf
        case "*" if _is_absent(y, -math.inf) and x > 0:
            return -math.inf
        case "**" if _is_absent(x, 0.0) and y > 0:
            return 0.0
    x = _wide(x)
    if op == "**" and not isinstance(y, torch.Tensor):
        return x ** (int(y) if isinstance(y, int) else float(y))
    y = _wide(y)
    match op:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "/":
            return x / y
        case "//":
            return torch.floor(x / y)
        case "%":
            return x - y * torch.floor(x / y)
    return torch.pow(x, y)


def _extreme(name: str, x: Number, y: Number) -> Number:
    larger, smaller = (y, x) if y > x else (x, y)
    if x == y:
        if _is_float(x) and not isinstance(x, float) and not isinstance(y, float):
            return 0.5 * _wide(x) + 0.5 * _wide(y)
        return _wide(x) if _is_float(x) != _is_float(y) else x
    found = larger if name == "maximum" else smaller
    return found if _is_float(x) == _is_float(y) or _is_float(found) else _wide(found)


def _sum(values: Sequence[Number], is_float: bool) -> Number:
    if not is_float:
        return sum(map(int, values))
    there = [v for v in values if not _is_absent(v, 0.0)]
    if any(_is_absent(v, -math.inf) for v in there):
        return -math.inf
    return functools.reduce(operator.add, map(_wide, there)) if there else 0.0


def _prod(values: Sequence[Number], is_float: bool) -> Number:
    return math.prod(values) if not is_float else math.prod(map(_wide, values), start=_wide(1.0))


def _max(values: Sequence[Number], is_float: bool) -> Number:
    there = [v for v in values if not _is_absent(v, -math.inf)]
    return max(there, key=_plain) if there else -math.inf


def _min(values: Sequence[Number], is_float: bool) -> Number:
    return min(values, key=_plain) if values else _wide(math.inf)


def _mean(values: Sequence[Number], is_float: bool) -> Number:
    total = _sum(values, True)
    return 0.0 if _is_absent(total, 0.0) else _operate("/", total, len(values), False)


def _var(values: Sequence[Number], is_float: bool) -> Number:
    mean = _mean(values, True)
    deviations = [_operate("-", v if _is_float(v) else _wide(v), mean, False) for v in values]
    return _mean([_operate("*", d, d, False) for d in deviations], True)


def _logsumexp(values: Sequence[Number], is_float: bool = True) -> Number:
    there = [_wide(v) for v in values if not _is_absent(v, -math.inf)]
    return torch.stack(there).logsumexp(0) if there else -math.inf


_FOLDS: dict[str, Callable[[Sequence[Number], bool], Number]] = {
    "sum": _sum,
    "prod": _prod,
    "max": _max,
    "min": _min,
    "mean": _mean,
    "var": _var,
    "logsumexp": _logsumexp,
}
