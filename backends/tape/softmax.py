"""Softmax as one operation: exponentials that are divided by their sum are computed so.

    f(p, sum p)  =  f(p / sum p, 1)    where f is the same for all multiples of p
    exp(x - max x) / sum exp(x - max x)  =  softmax x
    sum exp(x - max x)  =  1 / max softmax x
    exp(x[p] - max x) / sum exp(x - max x)  =  softmax(x)[p]    where p are places of the largest

Weighted means are such functions: what divides a product with values by the sum is needless. Steps
of a whole call are looked through, and of its backward pass with it, as kernels divide exponentials
that others have computed. Where something else reads these, they stay, and where what reads their
sum alone makes it more work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from monocomp.backends.tape.extrema import largest_in
from monocomp.backends.tape.reals import is_real, logits_of, name_of
from monocomp.backends.tape.recorder import Step, Value, computed, needed
from monocomp.backends.tape.tile import flat, in_order
from monocomp.backends.tape.weights import implies, kept_where
from monocomp.machine.cpu import CPU

_ROUNDINGS = 4  # of a factor that is a product of numbers


def normalised(
    steps: Sequence[Step], results: Sequence[Value]
) -> tuple[list[Step], Callable[[Value], Value]]:
    """Return steps with softmax where all that reads exponentials divides by their sum, and what
    gives the values that results are then."""
    steps, same = list(steps), dict[Value, Value]()
    for s in steps:
        power = same.get(s.result, s.result)
        logits = _logits(power)
        attempt = None if logits is None else _Normalising(power, *logits)
        wanted = [same.get(v, v) for v in results]
        if attempt is None or not attempt.add(steps, wanted):
            continue
        made = needed(attempt.steps, (), [attempt.same.get(v, v) for v in wanted])
        if _work(made) < _work(steps):
            steps = made
            same = {**attempt.same, **{v: attempt.same.get(w, w) for v, w in same.items()}}
    return [_gradient(s) or s for s in steps], lambda v: same.get(v, v)


def _work(steps: Sequence[Step]) -> int:
    """Return the elements that steps go through, and for each those that take as long as a call."""
    every = ((s.result, *s.operands) for s in steps if s.result.root is s.result)
    return sum(CPU.call + max(math.prod(v.shape) for v in values) for values in every)


def _logits(power: Value) -> tuple[Value, float] | None:
    """Return numbers, and their factor, whose exponentials relative to the largest of each row a
    value has; None if it has none."""
    logits = logits_of(power, len(power.shape) - 1)
    is_in_rows = logits is not None and logits[0].is_contiguous and power.is_contiguous
    return logits if is_in_rows else None


# y * (g - sum(y * g)), row by row, of g and y
of_gradient = torch._softmax_backward_data


def _gradient(s: Step) -> Step | None:
    """Return y * (g - sum(y * g)) as one step, if a step computes that."""
    if name_of(s.result) != "mul":
        return None
    for y, difference in (s.operands, s.operands[::-1]):
        is_alike = y.shape == difference.shape == s.result.shape
        if difference.key == "sub" and is_alike and s.result.is_contiguous:
            g, total = difference.operands
            if g.shape == y.shape and _is_total(total, y, g):
                return replace(
                    s, run=of_gradient, operands=(g, y), arguments=(-1, y.dtype), in_place=0
                )
    return None


def _is_total(total: Value, y: Value, g: Value) -> bool:
    """True if a value is sum(y * g), row by row, or the same by the exchange of sums

    sum[k](y[q,k] * sum[e](a[q,e] * b[e,k]))  =  sum[e](a[q,e] * sum[k](y[q,k] * b[e,k]))
    """
    total = flat(total)
    product = total.operands[0] if name_of(total) == "sum" else total
    if product.key != "mul" or total.key != ("sum", len(product.shape) - 1):
        return False
    if {*product.operands} == {y, g}:
        return True
    g = flat(g)
    for a, mean in (product.operands, product.operands[::-1]):
        mean = flat(mean)
        if a.shape == product.shape and name_of(mean) == name_of(g) == "product":
            (weights, values), (rows, columns) = mean.operands, g.operands
            is_of_rows = flat(weights) is flat(y) and flat(rows) is flat(a)
            is_in_rows = weights.shape[-1] == y.shape[-1] and rows.shape[-1] == a.shape[-1]
            if is_of_rows and is_in_rows and _is_transposed(values, columns):
                return True
    return False


def _is_transposed(one: Value, other: Value) -> bool:
    """True if matrices are transposed ones of each other."""
    order = (*range(len(one.shape) - 2), len(one.shape) - 1, len(one.shape) - 2)
    if len(one.shape) != len(other.shape) or other.shape != tuple(one.shape[d] for d in order):
        return False
    for v, w in ((one, other), (other, one)):
        if v.is_made_by(("view", order, v.shape), w):
            return True
    if one.root is not other.root or one.strides is None or other.strides is None:
        return False
    return other.strides == tuple(one.strides[d] for d in order)


class _Normalising:
    """Steps in which exponentials become softmax.

    Args:
        power: the exponentials, row by row.
        x, factor: what they are the exponentials of, relative to the largest of each row.
    """

    def __init__(self, power: Value, x: Value, factor: float) -> None:
        self.power, self.x, self.factor = power, x, factor
        self.rows = math.prod(power.shape[:-1])
        self.steps: list[Step] = []
        self.same: dict[Value, Value] = {}  # what is computed in place of a value
        self.images: dict[Value, Value] = {}  # linear in the exponentials: the same of softmax
        self.later: dict[Value, Step] = {}  # steps on the sums, until something reads the result
        self.roles: dict[Value, str] = {}  # sum, inverse, empty or not empty, of the sums' values
        self.places: dict[Value, Value] = {}  # of the largest elements, by what gives both
        self.is_divided = self.is_guarded = self.is_other = False

    def add(self, steps: Sequence[Step], results: Sequence[Value]) -> bool:
        """Add steps that lead to the same results; False where these need the exponentials, or
        nothing divides by their sum."""
        if not all(map(self._add, steps)) or not self.is_divided or self.is_other:
            return False
        if any(v in self.images or v in self.later for v in results):
            return False
        if not self.is_guarded and not is_real(self.x):
            at, made = self.steps.index(self.guard), self.guard.result
            before = self.guard.operands[0]
            made.key, made.operands = before.key, before.operands
            self.steps[at - 1 : at + 1] = [replace(self.steps[at - 1], result=made)]
        return True

    def _add(self, s: Step) -> bool:
        """Add what a step becomes; False if there is nothing."""
        if s.result is self.power:
            self._start()
        elif (at := self._places(s)) is not None:
            operands = [self.images[self.power], at]
            made = computed("at", _at, operands, s.result, takes_out=False, is_elementwise=False)
            self.images[s.result] = self._step(made)
        elif any(v in self.images for v in s.operands):
            return self._divide(s) or self._follow(s)
        elif role := self._role(s):
            self.roles[s.result], self.later[s.result] = role, s
        elif not self._drop_guard(s) and not self._drop_mask(s):
            self._again(s, [self._value(v) for v in s.operands])
        return True

    def _places(self, s: Step) -> Value | None:
        """Return which of the exponentials a step computes again, for the largest logits."""
        if s.result.key == ("field", 1):
            self.places[s.operands[0]] = s.result
        is_later = self.power in self.images and s.result.dtype.is_floating_point
        pair = largest_in(s.result, self.power) if is_later else None
        return None if pair is None else self.places.get(pair)

    def _start(self) -> None:
        """Add softmax, and 0 where all of a row is -inf."""
        x, like = self.x, self.power
        if not math.isclose(self.factor, 1, rel_tol=_ROUNDINGS * torch.finfo(x.dtype).eps):
            number = torch.tensor(self.factor, dtype=x.dtype)
            x = self._step(computed("mul", torch.mul, [Value((), x.dtype, number), x], like))
        softmax = computed("softmax", torch._softmax, [x], like, (-1, False), is_elementwise=False)
        self.images[like] = self._replaced(self._step(softmax))  # it has no infinities
        self.guard = self.steps[-1]

    def _replaced(self, v: Value, *numbers: float) -> Value:
        """Add a guard where a row may have no element: 0 in place of NaN, or numbers in place of
        that and of the infinities."""
        if is_real(self.x):
            return v
        return self._step(computed("replace", torch.nan_to_num, [v], v, numbers))

    # --- what reads the exponentials ----------------------------------------------------------

    def _divide(self, s: Step) -> bool:
        """True if a step adds up the exponentials, or divides by their sum."""
        name, first, last = name_of(s.result), s.operands[0], s.operands[-1]
        if s.operands == (self.power,) and s.result.key == ("sum", len(self.power.shape) - 1):
            self.roles[s.result], self.later[s.result] = "sum", s
            return True
        if name == "mul" and first in self.roles:
            first, last = last, first
        role = {"div": "sum", "mul": "inverse"}.get(name)
        shape = first.shape
        is_quotient = role is not None and first in self.images and self.roles.get(last) == role
        if not is_quotient or s.result.shape != shape or last.shape != (*shape[:-1], 1):
            return False
        self.same[s.result] = self.images[first]
        self.is_divided = True
        return True

    def _follow(self, s: Step) -> bool:
        """Add a step whose result is linear in the exponentials, row by row; False if it is not."""
        name, of = name_of(s.result), [v for v in s.operands if v in self.images]
        first, shape = s.operands[0], s.result.shape
        is_like = all(v.shape == shape for v in of)
        if any(v in self.roles for v in s.operands) or not shape:
            return False
        match name:
            case "neg":
                is_linear = True
            case "mul":
                is_linear = is_like and len(of) == 1
            case "div" | "keep":
                is_linear = is_like and of == [first]
            case "add" | "sub":
                is_linear = is_like and len(of) == 2
            case "sum":
                is_linear = s.result.key == ("sum", len(shape) - 1)
            case "view":
                is_linear = in_order(s.result) is not None and math.prod(shape[:-1]) == self.rows
            case "product":
                is_linear = of == [first] and math.prod(shape[:-1]) == self.rows
            case _:
                is_linear = False
        if is_linear:
            self._again(s, [self.images.get(v) or self._value(v) for v in s.operands])
            self.images[s.result] = self.same.pop(s.result)
        return is_linear

    # --- what reads the sums ------------------------------------------------------------------

    def _role(self, s: Step) -> str | None:
        """Return what a step makes of the sums, if it is of use to divide by them."""
        name, roles = name_of(s.result), [self.roles.get(v) for v in s.operands]
        if name == "view":
            return roles[0] if in_order(s.result) is not None else None
        if (name == "reciprocal" and roles == ["sum"]) or (
            name == "div" and roles == [None, "sum"] and s.operands[0].number == 1
        ):
            return "inverse"
        if "sum" in roles and any(v.number == 0 for v in s.operands):
            return {"eq": "empty", ("mask", "ne"): "not empty"}.get(s.result.key)
        if name == "mask" and roles == ["empty"]:
            return None if s.result.key[-1] else "not empty"
        is_guard = name == "replace" and roles == ["inverse"]
        if name == "where" and s.operands[1].number == 0:
            is_guard = roles == ["empty", None, "inverse"]
        self.is_guarded |= is_guard
        return "inverse" if is_guard else None

    def _drop_guard(self, s: Step) -> bool:
        """True if a step makes 0 of what is 0, as it is linear in the softmax of a row without
        elements. Beside that, 0 divided by the sum is no number."""
        name, operands = name_of(s.result), s.operands
        if name == "keep" and self.roles.get(operands[1]) == "not empty":
            x = operands[0]
        elif name == "where" and self.roles.get(operands[0]) == "empty" and operands[1].number == 0:
            x = operands[2]
        else:
            return False
        if self.same.get(x) not in self.images.values() or s.result.shape != x.shape:
            return False
        self.same[s.result] = self.same[x]
        self.is_guarded = True
        return True

    def _drop_mask(self, s: Step) -> bool:
        """True if a step keeps softmax where its logits are not -inf: elsewhere it is 0."""
        if name_of(s.result) != "keep":
            return False
        (weights, mask), kept = s.operands, kept_where(self.x)
        is_softmax = self.same.get(weights) is self.images.get(self.power, weights)
        is_masked = kept is not None and kept[2] == -math.inf and implies(kept[1], mask)
        if not is_softmax or not is_masked or s.result.shape != weights.shape:
            return False
        self.same[s.result] = self.same[weights]
        return True

    def _value(self, v: Value) -> Value:
        """Return what is computed in place of a value that is none of the exponentials."""
        s = self.later.pop(v, None)
        if s is None:
            return self.same.get(v, v)
        if self.roles[v] == "sum" and s.operands == (self.power,):
            self.is_guarded = True
            weights = self.images[self.power]
            axis = len(weights.shape) - 1
            most = computed(("amax", axis), torch.amax, [weights], v, (axis, True), takes_out=False)
            one = computed("reciprocal", torch.reciprocal, [self._step(most)], v)
            self.same[v] = self._replaced(self._step(one), 0.0, 0.0, 0.0)
            return self.same[v]
        return self._again(s, [self._value(v) for v in s.operands])

    def _again(self, s: Step, operands: Sequence[Value]) -> Value:
        """Add a step for other operands."""
        again = s.again(operands)
        if again.result is not s.result:
            before, after = ([v.strides for v in every] for every in (s.operands, operands))
            self.is_other |= before != after
            self.same[s.result] = again.result
        return self._step(again)

    def _step(self, s: Step) -> Value:
        self.steps.append(s)
        return s.result


def _at(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return the elements at places in each row."""
    return x.gather(-1, places)
