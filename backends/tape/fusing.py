"""Steps that torch does as one operation with those that they read.

c * (A B)  =  baddbmm of A and B with the factor c, a number
X + A B  =  baddbmm of X, A and B, in the memory of X
sum over i of sums over j  =  sum over i and j
c * (x * y)  =  x * (c * y)  where y has fewer elements, and c is a number
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from monocomp.backends.tape.recorder import Step, Value

_WITH_SUM: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.bmm: torch.baddbmm,
    torch.mm: torch.addmm,
}


def fused(steps: Sequence[Step], results: Sequence[Value]) -> list[Step]:
    """Return steps for the same results; some of them nothing reads any more."""
    for of in (_Fusing.joined, _Fusing.scaled, _Fusing.added, _Fusing.shrunk, _Fusing.summed):
        fusing = _Fusing(steps, results)
        for s in steps:
            fusing.add(of(fusing, s) or s)
        steps = fusing.steps
    return [*steps]


class _Fusing:
    """Steps that are fused with those before them.

    Args:
        before: the steps as they were.
        results: what is returned.

    Attributes:
        steps: those that have been added.
        made_by: the same by what they make.
        readers: how often a value is read.
        written: the memory that steps write to, in place.
    """

    def __init__(self, before: Sequence[Step], results: Sequence[Value]) -> None:
        self.steps: list[Step] = []
        self.made_by: dict[Value, Step] = {}
        self.readers = Counter(v for s in before for v in s.operands)
        self.readers.update(results)
        views = (s.result for s in before if s.result.root is not s.result)
        self.written = {v.root for v in views if v.made_by is None}

    def add(self, s: Step) -> Value:
        """Add a step."""
        self.steps.append(s)
        self.made_by[s.result] = s
        return s.result

    def joined(self, s: Step) -> Step | None:
        """Return a linear function of a sum for the sum of two of them, or of one and one that is
        a term of the other operand."""
        if s.run not in (torch.add, torch.sub) or s.arguments:
            return None
        x, y = s.operands
        linear = self._joined(s.run, x, y)
        if linear is not None:
            return replace(linear, result=s.result)
        terms = self.made_by.get(x)
        if terms is None or terms.run is not torch.add or self.readers[x] != 1:
            return None
        for v, other in (terms.operands, terms.operands[::-1]):
            linear = self._joined(s.run, v, y)
            if linear is not None and other.shape == v.shape:
                self.readers[linear.result] = 1
                return replace(s, run=torch.add, operands=(other, self.add(linear)))
        return None

    def _joined(self, run: Callable[..., Any], x: Value, y: Value) -> Step | None:
        """Return what computes the sum, or the difference, of two values at once, if they differ in
        one operand in which they are linear."""
        first, second = self.made_by.get(x), self.made_by.get(y)
        if first is None or second is None or not self.readers[x] == self.readers[y] == 1:
            return None
        key, other = (v.made_by and v.made_by[0] for v in (x, y))
        if key != other or self._is_written(first, second):
            return None
        if len(first.operands) != len(second.operands):  # as one of them has been fused
            return None
        pairs = enumerate(zip(first.operands, second.operands, strict=True))
        apart = [(n, v, w) for n, (v, w) in pairs if v is not w]
        if len(apart) != 1:
            return None
        ((n, a, b),) = apart
        if (a.shape, a.strides) != (b.shape, b.strides) or not _is_linear(first, n):
            return None
        total = Value(a.shape, a.dtype, is_owned=True)
        total.strides = a.strides if a.is_dense else None
        self.add(Step(run, (a, b), total, True, 2))
        return first.again([total if v is a else v for v in first.operands])

    def scaled(self, s: Step) -> Step | None:
        """Return a product with a factor for a multiple of one."""
        if s.run is not torch.mul:
            return None
        number, x = sorted(s.operands, key=lambda v: v.number is None)
        factor, product = number.number, self._product(x)
        if factor is None or product is None or s.result.shape != x.shape:
            return None
        run = partial(_WITH_SUM[product.run], beta=0, alpha=factor)
        operands = number, *product.operands
        return replace(product, run=run, operands=operands, result=s.result)

    def added(self, s: Step) -> Step | None:
        """Return a product that is added to something for a sum with one."""
        if s.run not in (torch.add, torch.sub) or s.arguments:
            return None
        for x, y in (s.operands, s.operands[::-1]):
            product = self._product(y)
            is_alike = x.shape == y.shape and x.strides == y.strides
            if product is not None and is_alike and x not in product.operands:
                sign = 1 if s.run is torch.add else -1
                run = partial(_WITH_SUM[product.run], alpha=sign)
                return replace(s, run=run, operands=(x, *product.operands), in_place=1)
            if s.run is torch.sub:
                return None
        return None

    def shrunk(self, s: Step) -> Step | None:
        """Return a product with a multiple of its smaller factor for a multiple of a product."""
        if s.run is not torch.mul:
            return None
        number, x = sorted(s.operands, key=lambda v: v.number is None)
        product = self._alone(x, torch.mul)
        if number.number is None or product is None or self._is_written(product):
            return None
        y, large = sorted(product.operands, key=lambda v: math.prod(v.shape))
        if math.prod(y.shape) == math.prod(large.shape) or large.shape != s.result.shape:
            return None
        multiple = Value(y.shape, y.dtype, is_owned=True)
        multiple.strides = y.strides if y.is_dense else None
        self.add(Step(torch.mul, (number, y), multiple, True, 2))
        return replace(s, operands=(large, multiple))

    def summed(self, s: Step) -> Step | None:
        """Return a sum along several dimensions for a sum of sums."""
        inner = self._alone(s.operands[0], torch.sum) if s.run is torch.sum else None
        if inner is None or self._is_written(inner):
            return None
        (first, *how), (second, *other) = s.arguments, inner.arguments
        dims = tuple(
            {d: None for x in (first, second) for d in (x if isinstance(x, tuple) else (x,))}
        )
        return replace(s, operands=inner.operands, arguments=(dims, *how)) if how == other else None

    def _alone(self, v: Value, run: Callable[..., Any]) -> Step | None:
        """Return the step that makes a value, if it is one of a function and has one reader."""
        s = self.made_by.get(v)
        return s if s is not None and s.run is run and self.readers[v] == 1 else None

    def _product(self, v: Value) -> Step | None:
        """Return the product of matrices that a value is, if only one step reads it and its
        factors stay as they are."""
        s = self.made_by.get(v)
        if s is None or s.run not in _WITH_SUM or self.readers[v] != 1:
            return None
        return None if self._is_written(s) else s

    def _is_written(self, *steps: Step) -> bool:
        """True if something writes to what steps read, so that they must not be later ones."""
        return any(v.root in self.written for s in steps for v in s.operands)


def _is_linear(s: Step, operand: int) -> bool:
    """True if a step is linear in one of its operands."""
    match s.result.made_by:
        case ["product", _]:
            return True
        case [["scattered", "sum", *_], _]:
            return operand == 1
        case ["where", [_, _, other]]:
            return operand == 1 and other.number == 0 and s.result.dtype.is_floating_point
    return False
