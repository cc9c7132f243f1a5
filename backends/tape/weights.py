"""Exponentials that are quotients of others that have been computed.

    exp2(x - log2 s)  =  exp2(x) / s    where s is a sum of exp2(x)

A call computes exponentials relative to a maximum and divides by their sum; its backward pass
computes each weight from the logarithm of both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import torch

from monocomp.backends.tape.choices import is_maximum
from monocomp.backends.tape.recorder import Recorder, Shape, Value

Atom: TypeAlias = tuple[Value, Shape]  # and the shape with which it is broadcast
Linear: TypeAlias = dict[Atom, float]
_TOLERANCE = 1e-6  # of factors that are products of numbers, in another order


class Quotients:
    """Find the exponentials of a call among those of a later one.

    Args:
        values: what the call has computed.
        same: the values whose elements results have, by these.
    """

    def __init__(self, values: Iterable[Value], same: Mapping[Value, Value]) -> None:
        self.same = same
        powers = [v for v in values if v.made_by is not None and v.made_by[0] == "exp2"]
        self._exponents = [(v, self._linear(v.made_by[1][0])) for v in powers if v.made_by]

    def of(self, recorder: Recorder, exponent: Value) -> Value | None:
        """Record an exponential as a quotient; None if it is none."""
        if math.prod(exponent.shape) == 0:
            return None
        terms = self._linear(exponent)
        for power, others in self._exponents:
            if power.shape != exponent.shape or power.dtype != exponent.dtype:
                continue
            left = [(a, c) for a, c in _difference(terms, others).items() if c]
            total = _antilogarithm(*left[0]) if len(left) == 1 else None
            if total is not None and _is_sum(total, power):
                return _quotient(recorder, power, total)
        return None

    def _linear(self, v: Value) -> Linear:
        """Return a value as a sum of others with factors."""
        terms: Linear = {}
        self._add(terms, v, v.shape, 1.0)
        return terms

    def _add(self, terms: Linear, v: Value, shape: Shape, factor: float) -> None:
        v = self.same.get(v, v)
        name, operands = v.made_by or (None, ())
        a, b = (*operands, None, None)[:2]
        if a is not None and b is not None and name in ("add", "sub"):
            if all(x.shape == v.shape or shape == v.shape for x in (a, b)):
                for x, sign in ((a, 1.0), (b, -1.0 if name == "sub" else 1.0)):
                    self._add(terms, x, shape if x.shape == v.shape else x.shape, factor * sign)
                return
        elif a is not None and b is not None and name == "mul":
            for x, number in ((a, b.number), (b, a.number)):
                if number is not None and x.shape == v.shape:
                    self._add(terms, x, shape, factor * number)
                    return
        elif a is not None and isinstance(name, tuple):
            a = self.same.get(a, a)
            is_in_order = name[0] == "view" and name[1] == tuple(range(len(a.shape)))
            # A guard changes those of nothing, whose exponentials are 0.
            if is_in_order or (name[0] == "replace" and (is_maximum(a) or _is_logarithm(a))):
                self._add(terms, a, shape, factor)
                return
        terms[v, shape] = terms.get((v, shape), 0.0) + factor


def _difference(one: Linear, other: Linear) -> Linear:
    """Subtract sums; terms that both have leave 0."""
    found: Linear = {}
    for atom in {**one, **other}:
        a, b = one.get(atom, 0.0), other.get(atom, 0.0)
        found[atom] = 0.0 if math.isclose(a, b, rel_tol=_TOLERANCE) else a - b
    return found


def _antilogarithm(atom: Atom, factor: float) -> Value | None:
    """Return the sum whose logarithm to the base 2 a term subtracts; None if it is no such term."""
    v, shape = atom
    if v.made_by is None or not _is_logarithm(v) or v.shape != shape:
        return None
    is_to_base = math.isclose(factor, -1 / math.log(2), rel_tol=_TOLERANCE)
    return v.made_by[1][0] if is_to_base else None


def _is_logarithm(v: Value) -> bool:
    return v.made_by is not None and v.made_by[0] == "log"


def _is_sum(total: Value, power: Value) -> bool:
    name, operands = total.made_by or (None, ())
    return isinstance(name, tuple) and name[0] == "sum" and operands == (power,)


def _quotient(recorder: Recorder, power: Value, total: Value) -> Value:
    """Record a quotient, 0 where nothing is added up."""
    shape, dtype = total.shape, total.dtype
    one = recorder.step("reciprocal", torch.reciprocal, [total], shape, dtype, takes_out=True)
    numbers = math.nan, 0.0, 0.0
    key = "replace", numbers[1:]
    scale = recorder.step(
        key, torch.nan_to_num, [one], shape, dtype, takes_out=True, arguments=numbers
    )
    return recorder.step("mul", torch.mul, [power, scale], power.shape, dtype, takes_out=True)
