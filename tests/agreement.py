"""Compares what kernels compute, and their gradients, with the oracle: equal, up to rounding.

The oracle says NaN where the program is unspecified, and anything may come out there. Rounding is
what a plain evaluation in the kernel's dtype loses, and what the last digits of inputs change.
Slopes are differences of the oracle in long numbers, on both sides, along a random direction in
each input; where both sides differ, as at a tie of a maximum, nothing is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import monocomp as mc
from monocomp.checking.random_inputs import random_inputs
from monocomp.declarations.vocabulary import Kind
from monocomp.language import syntax as S
from monocomp.language.checker import check
from monocomp.language.syntax import Program
from monocomp.reference import algebra, folds, oracle
from monocomp.reference.named_arrays import Scope, Value
from monocomp.reference.oracle import specified
from monocomp.translation.translator import translate

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]

# What each backend computes in, and the relative error that rounding makes there in any case.
DTYPES: dict[str, type] = {"torch": np.float64, "triton": np.float32}
RTOL = {np.float64: 1e-9, np.float32: 1e-4}
STEP = 2.0**-16

_Around = Callable[[], AbstractContextManager[None]]


class Mismatch(AssertionError):
    """Another outcome than the oracle's."""


def as_list(outputs: Any) -> list[Array]:
    """One output or several as arrays of float64."""
    several = outputs if isinstance(outputs, tuple) else (outputs,)
    arrays = (x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else x for x in several)
    return [np.asarray(x, np.float64) for x in arrays]


def agrees(wanted: Array, computed: Array, rtol: float = 1e-9, atol: float = 1e-12) -> Array:
    """True where both are equal, or what is wanted is unspecified."""
    return np.isnan(wanted) | np.isclose(computed, wanted, rtol=rtol, atol=atol)


def tensors_of(inputs: Arrays, device: str = "cpu") -> dict[str, torch.Tensor]:
    """Return tensors of the same elements; behind those of floats stands NaN."""
    tensors = {}
    for name, array in inputs.items():
        given = torch.from_numpy(np.array(array)).to(device)
        around = torch.full((given.numel() + 64,), math.nan).to(given)
        is_float = given.is_floating_point()
        tensors[name] = (
            around[: given.numel()].view(given.shape).copy_(given) if is_float else given
        )
    return tensors


def in_dtype(inputs: Arrays, dtype: type) -> dict[str, Array]:
    """Return the same inputs with floats of a dtype."""
    return {n: a.astype(dtype) if a.dtype.kind == "f" else a for n, a in inputs.items()}


def check_outputs(
    program: Program,
    kernel: mc.Kernel,
    inputs: Arrays,
    *,
    note: str,
    device: str = "cpu",
    params: Mapping[str, int | float] | None = None,
) -> None:
    """Compare a kernel's outputs where no last digit decides them, each in the dtype that it has:
    one for which no float is read is of float32."""
    params = params or {}
    inputs = in_dtype(inputs, DTYPES[kernel.backend])
    wanted = [np.asarray(x, np.float64) for x in specified(program, inputs, params)]
    outputs = kernel(**tensors_of(inputs, device), **params)
    several = outputs if isinstance(outputs, tuple) else (outputs,)
    computed = zip(wanted, as_list(outputs), several, strict=True)
    for position, (w, c, output) in enumerate(computed):
        dtype = np.float32 if output.dtype == torch.float32 else DTYPES[kernel.backend]
        right = agrees(w, c)
        if right.all():
            continue
        lost = _lost(w, specified(program, inputs, params, dtype=dtype)[position])
        for seed, moved in enumerate(_moved(inputs, dtype)):
            with _rounded(dtype, seed):
                lost = np.maximum(lost, _lost(w, specified(program, moved, params)[position]))
        with np.errstate(invalid="ignore"):
            scale = np.max(np.abs(w), initial=1, where=np.isfinite(w))
            limit = RTOL[dtype] * np.maximum(np.abs(w), min(scale, 1e3)) + 1e3 * lost
            right |= np.abs(c - w) <= limit
        right |= np.isinf(lost)
        if not right.all():
            right |= np.isnan(_decided(program, inputs, params, dtype)[position])
        if not right.all():
            raise Mismatch(f"{note}\nwanted\n{w}\ncomputed\n{c}")


def _lost(wanted: Array, other: Array) -> Array:
    """Return how far apart two outcomes are; infinity where one is infinite or unspecified."""
    with np.errstate(invalid="ignore"):
        distance = np.abs(np.asarray(other, np.float64) - wanted)
    return np.where(other == wanted, 0, np.where(np.isnan(distance), math.inf, distance))


def _decided(
    program: Program, inputs: Arrays, params: Mapping[str, int | float], dtype: type
) -> list[Array]:
    """Return the oracle's outcomes, NaN where overflow or underflow decides: exponentials that are
    no 0 are less than all numbers, or larger, and products with 0 of what a dtype does not hold, or
    of what is unspecified: that 0 may be rounded, or stand in a product of matrices. So where
    numbers are compared that differ by no more than their last digits, and in variances of numbers
    of which a dtype does not hold the squares: moments are of distances from a mean that moves.
    """
    apply, multiply, compare = algebra.apply, algebra.OPERATORS["*"], algebra.compare
    fold = folds.fold
    largest, digits = np.finfo(dtype).max, 1e3 * np.finfo(dtype).eps

    def applied(name: str, x: Array) -> Array:
        result = apply(name, x)
        is_lost = (result == 0) | (result > largest)
        is_lost &= np.isfinite(x) & (name in ("exp", "exp2"))
        return np.where(is_lost, math.nan, result)

    def multiplied(x: Array, y: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.abs(x) + np.abs(y)
        is_lost = (np.isfinite(size) & (size > largest)) | np.isnan(size)
        is_lost &= (x == 0) | (y == 0)
        return np.where(is_lost, math.nan, multiply(x, y))

    def compared(op: str, x: Array, y: Array) -> Array:
        with np.errstate(invalid="ignore"):
            size = np.maximum(1, np.maximum(np.abs(x), np.abs(y)))
            is_lost = (x != y) & (np.abs(x - y) <= digits * size)
        return np.where(is_lost, math.nan, compare(op, x, y))

    def folded(op: str, x: Array, admitted: Array, kind: Kind = "float") -> Array:
        size = np.max(np.abs(np.where(admitted, x, 0)), axis=-1, initial=0)
        is_lost = (op == "var") & np.isfinite(size) & (size > math.sqrt(largest))
        return np.where(is_lost, math.nan, fold(op, x, admitted, kind))

    operators = patch.dict(algebra.OPERATORS, {"*": multiplied})
    functions = patch.multiple(algebra, apply=applied, compare=compared)
    with functions, operators, patch.object(folds, "fold", folded):
        return [np.asarray(x, np.float64) for x in specified(program, inputs, params)]


@contextmanager
def _rounded(dtype: type, seed: int) -> Iterator[None]:
    """Let the oracle move the last digits, in a dtype, of each result of an operation, and of what
    distances are taken from: the mean in a variance, the logarithm in a log_softmax."""
    original, fold, rng = oracle._Evaluator.value, folds.fold, np.random.default_rng(seed)
    size = float(np.finfo(dtype).eps)

    def value(evaluator: oracle._Evaluator, expr: S.Expr, scope: Scope) -> Value:
        found = original(evaluator, expr, scope)
        if found.kind != "float" or not isinstance(expr, (S.Binary, S.Call, S.Reduce)):
            return found
        moves = 1 + size * rng.standard_normal(found.array.shape)
        return replace(found, array=found.array * moves)

    def folded(op: str, x: Array, admitted: Array, kind: Kind = "float") -> Array:
        found = fold(op, x, admitted, kind)
        is_centre = op in ("mean", "logsumexp")
        return found * (1 + size * rng.standard_normal(found.shape)) if is_centre else found

    with patch.object(oracle._Evaluator, "value", value), patch.object(folds, "fold", folded):
        yield


class _Conditions:
    """The outcomes of comparisons, in their order, which are constants to a slope. A quotient asks
    whether its divisor is 0, `maximum` and `minimum` whether their operands are equal.

    Attributes:
        are_constants: True unless what was equal ceases to be: the slope of (x != 0) * x is 0 at
            0, and that of x, which is the same, 1. So with x * x / x, and with
            maximum(minimum(x, c), x) where x = c: both sides take a half each time.
    """

    def __init__(self) -> None:
        self.outcomes: list[Array] = []
        self.are_constants = True

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep outcomes if there are none, else give comparisons those that are kept."""
        compare, outcomes = algebra.compare, cycle(self.outcomes)
        divide, operate = algebra.OPERATORS["/"], oracle._operate

        def keep(op: str, x: Array, y: Array) -> Array:
            self.outcomes.append(compare(op, x, y))
            return self.outcomes[-1]

        def take(op: str, x: Array, y: Array) -> Array:
            outcome = next(outcomes)
            if op == "!=" and (compare(op, x, y) > outcome).any():
                self.are_constants = False
            return outcome

        asked = take if self.outcomes else keep

        def divided(x: Array, y: Array) -> Array:
            asked("!=", y, np.zeros(()))
            return divide(x, y)

        def operated(node: S.Expr, arrays: Sequence[Array], *kinds: Any) -> Any:
            if isinstance(node, S.Call) and node.function in ("maximum", "minimum"):
                asked("!=", *arrays)
            return operate(node, arrays, *kinds)

        operators = patch.dict(algebra.OPERATORS, {"/": divided})
        functions = patch.object(oracle, "_operate", operated)
        with operators, functions, patch.object(algebra, "compare", asked):
            yield


def _moved(inputs: Arrays, dtype: type) -> Iterator[dict[str, Array]]:
    """Yield inputs whose last digits in a dtype are others."""
    size = 8 * float(np.finfo(dtype).eps)
    rng = np.random.default_rng(0)
    for _ in range(16):
        yield {
            name: a * (1 + size * rng.standard_normal(a.shape)) if a.dtype.kind == "f" else a
            for name, a in inputs.items()
        }


def check_step(
    before: str, after: str, inputs: Arrays, params: Mapping[str, int | float] | None = None
) -> None:
    """Compare two programs by the oracle, where the first is specified."""
    given = {n: a for n, a in inputs.items() if n in check(before).inputs}
    pairs = (specified(text, given, params or {}) for text in (before, after))
    for wanted, computed in zip(*pairs, strict=True):
        if not agrees(wanted, computed, 1e-9, 1e-9).all():
            raise Mismatch(f"{before}\nbecomes\n{after}\nwanted\n{wanted}\ncomputed\n{computed}")


# --- gradients --------------------------------------------------------------------------------


def check_gradients(
    program: Program,
    kernel: mc.Kernel,
    inputs: Arrays,
    *,
    note: str,
    device: str = "cpu",
    params: Mapping[str, int | float] | None = None,
    elementwise: bool = False,
) -> int:
    """Compare slopes by all inputs of kind float, along a random direction in each or by each of
    their elements; return how many could be compared."""
    params = params or {}
    dtype = DTYPES[kernel.backend]
    inputs = in_dtype(inputs, dtype)
    loss = _Loss(program, inputs, params)
    tensors = tensors_of(inputs, device)
    floats = [t.requires_grad_() for t in tensors.values() if t.is_floating_point()]
    outputs = kernel(**tensors, **params)
    several = outputs if isinstance(outputs, tuple) else (outputs,)
    pairs = [(o, w) for o, w in zip(several, loss.weights, strict=True) if o.requires_grad]
    if not floats or not pairs or not loss.is_specified:
        return 0
    torch.autograd.backward([o for o, _ in pairs], [torch.from_numpy(w).to(o) for o, w in pairs])
    compared = 0
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            continue
        (gradient,) = as_list(torch.zeros_like(tensor) if tensor.grad is None else tensor.grad)
        if gradient[~np.isfinite(inputs[name])].any():
            raise Mismatch(f"{note}\na gradient by what is not finite in {name}\n{gradient}")
        for direction in _directions(inputs[name], elementwise):
            compared += _check_slope(loss, inputs, name, gradient, direction, dtype, note)
    return compared


def check_slopes(
    text: str,
    inputs: Arrays | None = None,
    *,
    save: Sequence[str] | None = None,
    params: Mapping[str, int | float] | None = None,
    elementwise: bool = True,
) -> None:
    """Compare the gradients of a program in torch, by every element of its inputs, which are random
    unless they are given; there is something to compare."""
    program, params = check(text), params or {}
    if inputs is None:
        inputs = random_inputs(translate(program), {}, dtype="float64", params=params)
    kernel = mc.compile(text, backend="torch", save=None if save is None else list(save))
    how = {"note": text, "params": params, "elementwise": elementwise}
    assert check_gradients(program, kernel, inputs, **how)


def slopes(
    text: str,
    inputs: Arrays,
    cotangents: Arrays,
    wrt: Iterable[str],
    params: Mapping[str, int | float] | None = None,
) -> dict[str, Array]:
    """Return the gradients of sum(cotangent * output), NaN where both sides differ."""
    loss = _Loss(check(text), inputs, params or {}, cotangents)
    gradients = {}
    for name in wrt:
        gradients[name] = np.full(inputs[name].shape, math.nan)
        for at in np.ndindex(inputs[name].shape):
            slope = loss.slope(inputs, name, _unit(inputs[name].shape, at))
            gradients[name][at] = math.nan if slope is None else slope[0]
    return gradients


def _directions(array: Array, elementwise: bool) -> Iterator[Array]:
    """Yield directions that leave what is not finite as it is."""
    is_finite = np.isfinite(array)
    if elementwise:
        yield from (_unit(array.shape, tuple(at)) for at in np.argwhere(is_finite))
    else:
        yield np.where(is_finite, np.random.default_rng(0).standard_normal(array.shape), 0)


def _unit(shape: tuple[int, ...], at: tuple[int, ...]) -> Array:
    direction = np.zeros(shape)
    direction[at] = 1
    return direction


def _check_slope(
    loss: _Loss,
    inputs: Arrays,
    name: str,
    gradient: Array,
    direction: Array,
    dtype: type,
    note: str,
) -> bool:
    """Compare one slope; True if there is one, and the gradient's text says what it is."""
    slope = loss.slope(inputs, name, direction)
    if slope is None:
        return False
    terms = np.where(direction == 0, 0, gradient * direction)
    scale = float(np.abs(terms).sum()) + abs(slope[0])
    limit = 10 * RTOL[dtype] * max(scale, 1.0) + 10 * slope[1]
    if abs(terms.sum() - slope[0]) <= limit:
        return True
    lost = loss.lost(inputs, name, direction, slope[0], dtype)
    if math.isinf(lost):
        return False
    if not abs(terms.sum() - slope[0]) <= limit + 1e3 * lost:
        raise Mismatch(
            f"{note}\nthe slope along a direction in {name} is {slope[0]:.12g}, and"
            f" {terms.sum():.12g} by the gradient\n{gradient}\nalong\n{direction}"
        )
    return True


class _Loss:
    """A weighted sum of the outputs that are floats, by the oracle."""

    def __init__(
        self,
        program: Program,
        inputs: Arrays,
        params: Mapping[str, int | float],
        cotangents: Arrays | None = None,
    ) -> None:
        self.program, self.params = program, params
        outputs = specified(program, inputs, params)
        self.is_specified = not any(np.isnan(x).any() for x in outputs)
        self.weights = [
            self._weight(o.name, x, cotangents) if program.kinds[o.name] == "float" else 0.0 * x
            for o, x in zip(program.outputs, outputs, strict=True)
        ]

    @staticmethod
    def _weight(name: str, output: Array, cotangents: Arrays | None) -> Array:
        if cotangents is not None:
            return cotangents.get(name, np.zeros(output.shape))
        cosines = np.cos(np.arange(output.size)).reshape(output.shape)
        return np.where(np.isfinite(output), cosines, 0.0)

    def _values(self, inputs: Arrays, conditions: _Conditions, around: _Around) -> list[Array]:
        """Return the outputs where conditions hold as they are kept."""
        with around(), conditions.kept():
            return specified(self.program, inputs, self.params)

    def _between(self, below: Sequence[Array], above: Sequence[Array]) -> Any:
        """Return how far apart weighted sums are; NaN if an output that counts is not finite."""
        with np.errstate(invalid="ignore"):
            triples = zip(below, above, self.weights, strict=True)
            differences = (np.where(w == 0, 0, (y - x) * w) for x, y, w in triples)
            return sum((np.sum(d) for d in differences), np.longdouble(0))

    def slope(
        self, inputs: Arrays, name: str, direction: Array, around: _Around = nullcontext
    ) -> tuple[float, float] | None:
        """Return the slope and its error, or None where it is not the same on both sides, or what
        is equal there ceases to be.

        Conditions are constants: they hold where they hold for the inputs. Each evaluation is in
        a context of its own.
        """
        conditions = _Conditions()
        here = self._values(inputs, conditions, around)

        def differences(step: float) -> tuple[Any, Any]:
            wide = np.asarray(inputs[name], np.longdouble)
            above, below = (
                self._values(
                    {**inputs, name: np.where(direction == 0, wide, wide + s * direction)},
                    conditions,
                    around,
                )
                for s in (step, -step)
            )
            return self._between(below, here) / step, self._between(here, above) / step

        coarse, fine = differences(STEP), differences(STEP / 2)
        if not (conditions.are_constants and np.isfinite([*coarse, *fine]).all()):
            return None
        scale = 1 + abs(fine[0]) + abs(fine[1])
        pairs = zip(here, self.weights, strict=True)
        size = sum(np.sum(np.abs(x[w != 0] * w[w != 0])) for x, w in pairs)
        rounding = np.finfo(np.longdouble).eps * size / STEP
        if max(abs(fine[1] - fine[0]), rounding) > 1e-3 * scale:
            return None
        means = sum(coarse) / 2, sum(fine) / 2
        extrapolated = means[1] + (means[1] - means[0]) / 3
        # Half of what both sides differ by at a tie, and not as a step is long.
        kink = abs(fine[1] - fine[0] - (coarse[1] - coarse[0]) / 2)
        return float(extrapolated), float(abs(means[1] - means[0]) + kink + rounding)

    def lost(self, inputs: Arrays, name: str, direction: Array, slope: float, dtype: type) -> float:
        """Return how much the last digits, in a dtype, of the inputs or of results on the way
        change a slope; infinity where there is none then, or a gradient too large for the dtype."""
        if abs(slope) > np.finfo(dtype).max * np.abs(direction).sum():
            return math.inf
        largest = 0.0
        for seed, moved in enumerate(_moved(inputs, dtype)):
            for other in (
                self.slope(moved, name, direction),
                self.slope(inputs, name, direction, partial(_rounded, dtype, seed)),
            ):
                if other is None:
                    return math.inf
                largest = max(largest, abs(other[0] - slope))
        return largest
