"""Steps that torch does as one operation with those that they read.

c * (A B)  =  baddbmm of A and B with the factor c, a number
X + c * (A B)  =  baddbmm of X, A and B, in the memory of X
x + log(1 / y)  =  x - log y
sum(p * (x - max x - y)) - log sum exp(x - max x)  =  sum(p * (log softmax x - y))  where sum p = 1
A C - x * (B C)  =  (A - x * B) C    where x has one element for each row
sum over i of sums over j  =  sum over i and j
where(c < y, x, 0)  =  where(y == 0, 0, x) for c = 0 <= y  =  threshold of x at y
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from monocomp.backends.tape.choices import keep
from monocomp.backends.tape.reals import (
    is_no_less,
    is_real,
    logits_of,
    name_of,
)
from monocomp.backends.tape.recorder import Step, Value, computed, identity, needed

_WITH_SUM: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.bmm: torch.baddbmm,
    torch.mm: torch.addmm,
}
_OTHER = {torch.add: torch.sub, torch.sub: torch.add}


def fused(steps: Sequence[Step], inputs: Sequence[Value], results: Sequence[Value]) -> list[Step]:
    """Return the steps that lead from inputs to results, as few as they come to."""
    for of in _FUSED:
        before = needed(steps, inputs, results)
        fusing = _Fusing(before, results)
        for s in before:
            fusing.follow(s, of)
        steps = fusing.steps
    return needed(steps, inputs, results)


class _Fusing:
    """Steps that are fused with those before them.

    Args:
        before: the steps as they were.
        results: what is returned.

    Attributes:
        steps: those that have been added.
        made_by: the same by what they make.
        readers: how often a value is read.
        same: what is read in place of values that others equal.
        written: the memory that steps write to, in place.
        kept: the memory of this and of results.
    """

    def __init__(self, before: Sequence[Step], results: Sequence[Value]) -> None:
        self.steps: list[Step] = []
        self.made_by: dict[Value, Step] = {}
        self.readers = Counter(v for s in before for v in s.operands)
        self.readers.update(results)
        views = (s.result for s in before if s.result.root is not s.result)
        self.written = {v.root for v in views if v.key is None}
        self.kept = self.written | {v.root for v in results}
        self.same: dict[Value, Value] = {}
        self._equal: dict[object, Value] = {}
        self._multiples: dict[Value, Step] = {}  # that are added where they are of use

    def follow(self, s: Step, of: Callable[[_Fusing, Step], Step | None]) -> None:
        """Add what a function makes of a step."""
        operands = [self.same.get(v, v) for v in s.operands]
        again = s.again(operands)
        if s.result.root in self.kept:
            again = replace(again, result=s.result)
        self.readers[again.result] = self.readers[s.result]
        made = self.add(of(self, again) or again)
        if made is not s.result:
            self.same[s.result] = made
            self.readers[made] = max(self.readers[made], self.readers[s.result])

    def add(self, s: Step) -> Value:
        """Add a step, unless one makes the same; return what is made."""
        v = s.result
        is_free = v.root not in self.written and not self._is_written(s)
        if v.key is not None and v.operands == s.operands and is_free:
            known = self._equal.setdefault(identity(v.key, v.operands), v)
            if known is not v and v.root not in self.kept:
                self.readers[known] += self.readers[v]
                return known
        self.steps.append(s)
        self.made_by[v] = s
        return v

    def inverted(self, s: Step) -> Step | None:
        """Return a difference for a sum with the logarithm of an inverse, or a sum for one."""
        for x, y in _terms(s):
            logarithm = self._alone(y, torch.log)
            inverse = None if logarithm is None else self.made_by.get(logarithm.operands[0])
            if logarithm is not None and inverse is not None and inverse.run is torch.reciprocal:
                operands = x, self.add(logarithm.again(inverse.operands))
                return replace(s, run=_OTHER[s.run], operands=operands)
        return None

    def unhoisted(self, s: Step) -> Step | None:
        """Return a mean of logarithms of softmax for one of differences from a largest number, and
        a logarithm of the sum of their exponentials, or of its inverse."""
        for x, y in _terms(s):
            logarithm, total = self._alone(y, torch.log), self._alone(x, torch.sum)
            product = None if total is None else self._alone(total.operands[0], torch.mul)
            if logarithm is None or total is None or product is None:
                continue
            for p, v in (product.operands, product.operands[::-1]):
                apart = self._alone(v, torch.sub)
                if apart is None or not _is_weight(p) or not p.shape == v.shape != x.shape:
                    continue
                for n, term in enumerate(apart.operands):
                    is_inverse = (n == 0) == (s.run is torch.add)
                    logits = self._normalised(logarithm.operands[0], p if is_inverse else None)
                    if logits is None or not _is_relative(term, logits):
                        continue
                    if logits.root in self.written:
                        continue
                    run, how = torch._log_softmax, (-1, False)
                    made = computed("log softmax", run, [logits], logits, how, is_elementwise=False)
                    of = self._one(made)
                    weights = self._one(computed("exp", torch.exp, [of], of)) if is_inverse else p
                    terms = [of if m == n else t for m, t in enumerate(apart.operands)]
                    mean = product.again([weights, self._one(apart.again(terms))])
                    return replace(total.again([self._one(mean)]), result=s.result)
        return None

    def _normalised(self, z: Value, weights: Value | None) -> Value | None:
        """Return the real numbers whose sum of exponentials relative to the largest a value is, or
        whose weights it is the largest of, if nothing else reads it, or the weights."""
        made = self._alone(z, torch.sum if weights is None else torch.amax)
        if made is None or made.arguments[0] != len(made.operands[0].shape) - 1:
            return None
        (of,) = made.operands
        if weights is not None:
            is_of_weights = of is weights and name_of(of) == "softmax" and self.readers[of] == 2
            return of.operands[0] if is_of_weights else None
        x, factor = logits_of(of, made.arguments[0]) or (of, 0.0)
        is_alone = self.readers[of] == 1 and _is_one(factor, x)
        return x if is_alone and is_real(x) and x.is_contiguous else None

    def _one(self, s: Step) -> Value:
        """Add a step that one other reads."""
        self.readers[s.result] = 1
        return self.add(s)

    def joined(self, s: Step) -> Step | None:
        """Return a linear function of a sum for the sum, or the difference, of two of them, which
        differ in one operand."""
        if not [*_terms(s)]:
            return None
        first, second = map(self._linear, s.operands)
        if first is None or second is None:
            return None
        key = first.result.key
        if key != second.result.key or self._is_written(first, second):
            return None
        if len(first.operands) != len(second.operands):  # as one of them has been fused
            return None
        if key == "product":
            first, second = _unguarded(first, second), _unguarded(second, first)
        pairs = enumerate(zip(first.operands, second.operands, strict=True))
        apart = [(n, v, w) for n, (v, w) in pairs if v is not w]
        if len(apart) != 1:
            return None
        ((n, a, b),) = apart
        is_linear = key == "product" or (key[:2] == ("scattered", "sum") and n == 1)
        if (a.shape, a.strides) != (b.shape, b.strides) or not is_linear:
            return None
        a, b = (self.add(self._multiples[v]) if v in self._multiples else v for v in (a, b))
        total = self.add(computed(s.run.__name__, s.run, [a, b], a))
        linear = first.again([total if m == n else v for m, v in enumerate(first.operands)])
        return replace(linear, result=s.result) if s.result.root in self.kept else linear

    def _linear(self, v: Value) -> Step | None:
        """Return the only step of which a value is read, without a factor of the rows of a product,
        which multiplies its first factor instead."""
        s = self.made_by.get(v) if self.readers[v] == 1 else None
        if s is None or s.run is not torch.mul:
            return s
        for factor, x in (s.operands, s.operands[::-1]):
            product = self._product(x)
            if product is not None and factor.shape == (*x.shape[:-1], 1):
                rows, *others = product.operands
                multiple = computed("mul", torch.mul, [factor, rows], rows)
                self._multiples[multiple.result] = multiple
                return product.again([multiple.result, *others])
        return s

    def scaled(self, s: Step) -> Step | None:
        """Return a product with a factor for a multiple of one."""
        multiple = self._multiple(s)
        if multiple is None:
            return None
        number, product = multiple
        run = partial(_WITH_SUM[product.run], beta=0, alpha=number.number)
        return replace(product, run=run, operands=(number, *product.operands), result=s.result)

    def added(self, s: Step) -> Step | None:
        """Return a product that is added to something for a sum with one."""
        sign = 1 if s.run is torch.add else -1
        for x, y in _terms(s):
            number, product = self._multiple(self.made_by.get(y)) or (None, self._product(y))
            is_alike = x.shape == y.shape and x.strides == y.strides
            if product is not None and is_alike and x not in product.operands:
                factor = 1 if number is None or number.number is None else number.number
                run = partial(_WITH_SUM[product.run], alpha=sign * factor)
                return replace(s, run=run, operands=(x, *product.operands), in_place=1)
        return None

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

    def chosen(self, s: Step) -> Step | None:
        """Return what keeps elements where others are above a number, for a choice."""
        choice = _choice(s)
        if choice is None:
            return None
        sign, (a, b), x = choice
        for limit, y in ((a, b), (b, a)):
            is_above = sign == "lt" and limit is a
            is_above |= sign == "ne" and limit.number == 0 and is_no_less(y)
            is_above &= limit.number is not None and y.root not in self.written
            is_above &= y.dtype.is_floating_point and y.dtype == s.result.dtype
            if limit.number is not None and is_above:
                return Step(keep, (x, y), s.result, True, 2, (limit.number,))
        return None

    def _alone(self, v: Value, run: Callable[..., Any]) -> Step | None:
        """Return the step that makes a value, if it is one of a function and has one reader."""
        s = self.made_by.get(v)
        return s if s is not None and s.run is run and self.readers[v] == 1 else None

    def _multiple(self, s: Step | None) -> tuple[Value, Step] | None:
        """Return a number and a product of matrices, if nothing else reads this, of which a step is
        the product."""
        if s is None or s.run is not torch.mul or self.readers[s.result] != 1:
            return None
        number, x = sorted(s.operands, key=lambda v: v.number is None)
        product = self._product(x) if x.shape == s.result.shape else None
        return None if number.number is None or product is None else (number, product)

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


_FUSED = (
    _Fusing.inverted,
    _Fusing.unhoisted,
    _Fusing.joined,
    _Fusing.added,
    _Fusing.scaled,
    _Fusing.summed,
    _Fusing.chosen,
)


def _terms(s: Step) -> Iterator[tuple[Value, Value]]:
    """Yield the operands of a sum or a difference, each second one with its sign."""
    if s.run in _OTHER and not s.arguments:
        x, y = s.operands
        yield x, y
        if s.run is torch.add:
            yield y, x


def _choice(s: Step) -> tuple[str, tuple[Value, Value], Value] | None:
    """Return what a choice compares, the sign of it, and what it chooses there; 0 elsewhere."""
    match s.run, [(v.key, v.operands) for v in s.operands], s.operands:
        case run, [_, [["mask", "lt" | "ne" as sign], [a, b]]], [x, _] if run is keep:
            return None if s.arguments else (sign, (a, b), x)
        case torch.where, [["lt", [a, b]], _, _], [_, x, zero] if zero.number == 0:
            return "lt", (a, b), x
        case torch.where, [["eq", [a, b]], _, _], [_, zero, x] if zero.number == 0:
            return "ne", (a, b), x
    return None


def _is_one(factor: float, x: Value) -> bool:
    """True if a factor of a value, which is a product of numbers in its dtype, is 1."""
    return math.isclose(factor, 1, rel_tol=4 * torch.finfo(x.dtype).eps)


def _is_weight(v: Value) -> bool:
    """True if a value is a softmax, computed so or as exponentials of its logarithms."""
    of = name_of(v.operands[0]) if name_of(v) == "exp" else None
    return name_of(v) == "softmax" or of == "log softmax"


def _is_relative(v: Value, x: Value) -> bool:
    """True if a value is the differences of others from the largest of each row."""
    last = "amax", len(x.shape) - 1
    return v.key == "sub" and v.operands[0] is x and v.operands[1].is_made_by(last, x)


def _unguarded(s: Step, other: Step) -> Step:
    """Return a product without the guard of what nothing is multiplied with, where another product
    reads it."""
    first, second = s.operands
    is_guarded = name_of(second) == "read" and second.operands[1] is other.operands[1]
    return s.again([first, second.operands[1]]) if is_guarded else s
