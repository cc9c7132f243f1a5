"""Exponentials that are quotients of others that have been computed.

    exp2(x - log2 s)  =  exp2(x) / s    where s is a sum of exp2(x)
    exp2(r) * f(exp2(x), exp2(y))  =  f(exp2(x + r), exp2(y + r))    where f(c x) = c f(x) for c > 0

A call computes exponentials relative to a maximum and divides by their sum; its backward pass
computes each weight from the logarithm of both, or relative to something else, which a factor mends
later. A call's may be 0 where a mask is, and a backward pass may apply the mask later: it reads
them where it applies no less of it to all it makes of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import torch

from monocomp.backends.tape.choices import bound, is_maximum
from monocomp.backends.tape.extrema import largest_in
from monocomp.backends.tape.reals import is_real, name_of
from monocomp.backends.tape.recorder import Recorder, Shape, Step, Value
from monocomp.backends.tape.tile import in_order

Atom: TypeAlias = tuple[Value, Shape]  # and how it is broadcast, as `_spread` has it
Linear: TypeAlias = dict[Atom, float]
Guard: TypeAlias = tuple[Value, float]  # a mask, and what is elsewhere
Exponent: TypeAlias = tuple[Linear, set[Guard]]
_TOLERANCE = 1e-6  # of factors that are products of numbers, in another order


class Quotients:
    """Find the exponentials of a call among those of a later one.

    Args:
        values: what the call has computed.
        same: the values whose elements results have, by these.
    """

    def __init__(self, values: Iterable[Value], same: Mapping[Value, Value]) -> None:
        self.same = same
        powers = [v for v in values if name_of(v) == "exp2"]
        self._exponents = [(v, *self._linear(v.shape, *v.operands)) for v in powers]
        self._masked: dict[Value, tuple[Value, Value, set[Value]]] = {}  # by their exponents

    def of(self, recorder: Recorder, exponent: Value) -> Value | None:
        """Record an exponential as a quotient; None if it is none."""
        if math.prod(exponent.shape) == 0:
            return None
        terms, guards = self._linear(exponent.shape, exponent)
        for power, others, masks in self._exponents:
            is_alike = math.prod(power.shape) == math.prod(exponent.shape)
            if not is_alike or power.shape[-1:] != exponent.shape[-1:]:
                continue
            is_same = power.shape == exponent.shape
            left = [(a, c) for a, c in _difference(terms, others).items() if c]
            total = _antilogarithm(*left[0], power) if len(left) == 1 else None
            is_of_rows = total is not None and total.shape == (*power.shape[:-1], 1)
            if total is not None and power.dtype == exponent.dtype and (is_same or is_of_rows):
                needed = {m for m, number in masks | guards if number == 0}
                needed |= {m for m, _ in masks ^ guards}
                if not needed:
                    return _quotient(recorder, power, total, exponent.shape)
                self._masked[exponent] = power, total, needed
        return None

    def scaled(self, recorder: Recorder, operands: Sequence[Value]) -> Value | None:
        """Return a function of exponentials that another one multiplies, if it has been computed of
        the products."""
        for v, scale in (operands, operands[::-1]):
            if name_of(scale) == "exp2" and _is_broadcast(scale.shape, v.shape):
                made = self._scaled(recorder, v, scale, v.shape)
                if made is not None and made.shape == v.shape:
                    return made
        return None

    def _scaled(self, recorder: Recorder, v: Value, scale: Value, full: Shape) -> Value | None:
        """Return what has been computed of the exponentials that a value is made of, each times
        another one, in a shape that is broadcast to a full one."""
        name, operands = v.key, v.operands
        if name == "exp2":
            exponent = self._linear(full, *v.operands, *scale.operands)
            alike = (p for p, *_ in self._exponents if _is_broadcast(p.shape, full))
            return next((p for p in alike if self._is_power_of(p, exponent, full)), None)
        if v.number == 0:
            return v
        if name not in ("add", "sub", "neg", "abs") and not (
            name in ("maximum", "minimum") and any(o.number == 0 for o in operands)
        ):
            return None
        parts = [self._scaled(recorder, o, scale, full) for o in operands]
        every = [p for p in parts if p is not None]
        return recorder.made(name, every) if len(every) == len(parts) else None

    def _is_power_of(self, power: Value, exponent: Exponent, full: Shape) -> bool:
        """True if a value is an exponential of such an exponent, broadcast to a full shape."""
        terms, masks = self._linear(full, *power.operands)
        return masks == exponent[1] and not any(_difference(terms, exponent[0]).values())

    def where_masked(self, steps: Sequence[Step]) -> list[Step]:
        """Return steps with quotients for exponentials that are read under the masks of others."""
        readers: dict[Value, list[Step]] = {}
        for s in steps:
            for v in dict.fromkeys(s.operands):
                readers.setdefault(v, []).append(s)
        made: list[Step] = []
        for s in steps:
            known = self._masked.get(s.operands[0]) if name_of(s.result) == "exp2" else None
            if known is not None and all(_is_masked(s.result, m, readers) for m in known[2]):
                recorder = Recorder(0)
                quotient = _quotient(recorder, *known[:2], s.result.shape)
                if quotient.strides == s.result.strides:
                    s.result.key, s.result.operands = quotient.key, quotient.operands
                    made += [*recorder.steps[:-1], replace(recorder.steps[-1], result=s.result)]
                    continue
            made.append(s)
        return made

    def _linear(self, full: Shape, *values: Value) -> Exponent:
        """Return the sum of values that are broadcast to a full shape as one of others with factors
        where masks are 1, and these, with what it is elsewhere."""
        terms: Linear = {}
        masks: set[Guard] = set()
        for v in values:
            self._add(terms, masks, v, _spread(v.shape, full), 1.0)
        return terms, masks

    def _add(self, terms: Linear, masks: set[Guard], v: Value, how: Shape, factor: float) -> None:
        v = self.same.get(v, v)
        name, operands = v.key, v.operands
        a, b = (*operands, None, None)[:2]
        kept = kept_where(v)
        if kept is not None and (kept[2] == 0 or factor > 0):
            masks.add(kept[1:])
            self._add(terms, masks, kept[0], how, factor)
            return
        if a is not None and b is not None and name in ("add", "sub"):
            is_all = how == _spread(v.shape, v.shape)
            if is_all or a.shape == b.shape == v.shape:
                for x, sign in ((a, 1.0), (b, -1.0 if name == "sub" else 1.0)):
                    its = how if x.shape == v.shape else _spread(x.shape, v.shape)
                    self._add(terms, masks, x, its, factor * sign)
                return
        elif a is not None and b is not None and name == "mul":
            for x, number in ((a, b.number), (b, a.number)):
                if number is not None and x.shape == v.shape:
                    self._add(terms, masks, x, how, factor * number)
                    return
        elif a is not None and name == "neg":
            self._add(terms, masks, a, how, -factor)
            return
        elif a is not None and isinstance(name, tuple):
            a = self.same.get(a, a)
            # A guard changes those of nothing, whose exponentials are 0.
            if in_order(v) is not None or (name[0] == "replace" and _is_scale(a)):
                self._add(terms, masks, a, how, factor)
                return
        terms[v, how] = terms.get((v, how), 0.0) + factor


def is_any_of(part: Value, whole: Value) -> bool:
    """True if a value has elements of another one, row by row."""
    return part is whole or largest_in(part, whole) is not None


def kept_where(v: Value) -> tuple[Value, Value, float] | None:
    """Return what a value is where a mask is 1, the mask, and the number that it is elsewhere."""
    name, operands = v.key, v.operands
    if name == "keep":
        return operands[0], operands[1], 0.0
    if name == "minimum":
        for x, other in (operands, operands[::-1]):
            kept = kept_where(x)
            if kept is not None and _is_bound(other, kept[1]):
                return kept[0], kept[1], -math.inf
    return None


def _is_bound(v: Value, mask: Value) -> bool:
    """True if a value is -inf where a mask is 0, and infinite elsewhere."""
    if v.known is not None and mask.known is not None:
        return torch.equal(v.known, bound(-math.inf, mask.known))
    return v.is_made_by(("bound", -math.inf), mask)


def _is_broadcast(shape: Shape, full: Shape) -> bool:
    """True if a shape is broadcast to a full one, dimension by dimension."""
    return len(shape) == len(full) and all(a in (1, b) for a, b in zip(shape, full, strict=True))


def _is_masked(v: Value, mask: Value, readers: Mapping[Value, Sequence[Step]]) -> bool:
    """True if all that reads a value keeps it, or its products, where a mask is 1 at most."""
    own = len(mask.shape)
    for s in readers.get(v, ()):
        name = name_of(s.result)
        if in_order(s.result) is v and s.result.shape[-own:] == v.shape[-own:]:
            if not _is_masked(s.result, mask, readers):
                return False
            continue
        if name not in ("keep", "mul") or s.result.shape != v.shape:
            return False
        kept = [k for k in map(kept_where, (s.result, *s.operands)) if k is not None]
        if any(k[2] == 0 and implies(k[1], mask) for k in kept):
            continue
        if name == "keep" or not _is_masked(s.result, mask, readers):
            return False
    return True


def implies(one: Value, other: Value) -> bool:
    """True if a mask is 1 at most where another one is."""
    if one is other:
        return True
    if one.known is not None and other.known is not None:
        return one.shape == other.shape and bool((one.known <= other.known).all())
    name, operands = one.key, one.operands
    return name == "minimum" and any(implies(v, other) for v in operands)


def _difference(one: Linear, other: Linear) -> Linear:
    """Subtract sums; terms that both have leave 0."""
    difference: Linear = {}
    for atom in {**one, **other}:
        a, b = one.get(atom, 0.0), other.get(atom, 0.0)
        difference[atom] = 0.0 if math.isclose(a, b, rel_tol=_TOLERANCE) else a - b
    return difference


def _spread(shape: Shape, full: Shape) -> Shape:
    """Return how elements are broadcast to a shape, whatever dimensions this is cut into: how many
    of its elements in turn differ, and then are equal, and again."""
    lengths, is_equal = [1], False
    for n, size in zip((*(1,) * (len(full) - len(shape)), *shape), full, strict=True):
        if size != 1 and (n == 1) != is_equal:
            lengths, is_equal = [*lengths, 1], not is_equal
        lengths[-1] *= size
    return tuple(lengths)


def _antilogarithm(atom: Atom, factor: float, power: Value) -> Value | None:
    """Return the sum of exponentials whose logarithm to the base 2 a term subtracts; None if it is
    no such term."""
    v, spread = atom
    if name_of(v) != "log":
        return None
    (total,) = v.operands
    is_sum = name_of(total) == "sum" and is_any_of(power, *total.operands)
    is_to_base = math.isclose(factor, -1 / math.log(2), rel_tol=_TOLERANCE)
    return total if is_sum and is_to_base and spread == _spread(v.shape, power.shape) else None


def _is_scale(v: Value) -> bool:
    """True if a value is a maximum, or a logarithm, or a sum of multiples of these."""
    name, operands = v.key, v.operands
    if name in ("add", "mul"):
        return all(x.number is not None or _is_scale(x) for x in operands)
    return is_maximum(v) or name == "log"


def _quotient(recorder: Recorder, power: Value, total: Value, shape: Shape) -> Value:
    """Record a quotient with a shape, 0 where nothing is added up."""
    dtype = total.dtype
    one = recorder.step("reciprocal", torch.reciprocal, [total], total.shape, dtype, takes_out=True)
    numbers, scale = (math.nan, 0.0, 0.0), one
    if not is_real(one):
        key = "replace", numbers[1:]
        scale = recorder.step(
            key, torch.nan_to_num, [one], total.shape, dtype, takes_out=True, arguments=numbers
        )
    if power.shape != shape:  # with rows of the same length, each divided by its sum
        power, scale = (_shaped(recorder, v, (*shape[:-1], v.shape[-1])) for v in (power, scale))
    operands = power, scale
    return recorder.step("mul", torch.mul, operands, shape, power.dtype, takes_out=True)


def _shaped(recorder: Recorder, v: Value, shape: Shape) -> Value:
    """Record a value in another shape."""
    key, run = ("view", tuple(range(len(v.shape))), shape), torch.Tensor.reshape
    return recorder.step(key, run, [v], shape, v.dtype, is_view=True, arguments=(shape,))
