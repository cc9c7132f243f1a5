"""`with_constants`: a block program for arguments that are known. What follows from them is
computed, and masks, flags, branches and arguments that nobody needs any more are left out.

    x | True = True     x & True = x     x * 1 = x     x // n * n = x, where n divides x
    where(True, x, y) = x     load(p, mask=True) = load(p)
    for n in 1 .. 2, unrolled: body  =  body for n = 1

A number may stand where a tile of equal elements stood: nothing but numbers changes dimensions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

from monocomp.blocks import program as B
from monocomp.blocks.operations import broadcast, broadcast_layout, cast, full, none, number
from monocomp.blocks.passes.unread import names_in, needed, read

Key: TypeAlias = tuple[str, str, int]  # of an argument
# A number, a flag, a dtype, the precision of products; None for no descriptor, True for one.
Constant: TypeAlias = int | bool | str | B.Dtype | None

_INTS: dict[str, Callable[[int, int], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,  # of numbers that are not negative, as on GPUs
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "cdiv": lambda a, b: -(-a // b),
    "maximum": max,
    "minimum": min,
}
_FLOATS: dict[str, Callable[..., float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "log2": math.log2,
    "log": math.log,
}
_UNITS = {"+": 0, "-": 0, "*": 1, "//": 1, "|": False, "or": False, "&": True, "and": True}
_COMMUTATIVE = ("+", "*", "|", "or", "&", "and")
_ZEROS = {"*": 0, "|": True, "or": True, "&": False, "and": False}
_EXTREMES = ("max", "min", "larger", "smaller")
_EXACT = 1 << 24  # ints below it are floats of 32 bits


def with_constants(p: B.BlockProgram, known: Mapping[Key, Constant]) -> B.BlockProgram:
    """The program for known arguments, by their keys, without these and those that it does not
    need. A descriptor that is given stays an argument. It comes before the passes of dialects."""
    folding = _Folding(p, known)
    body = needed(_Folding(p, known).body(p.body))
    lengths = {axis: folding.expr(length) for axis, length in p.lengths.items()}
    precision = p.precision and folding.expr(p.precision)
    expressions = [*lengths.values(), *([precision] if precision else [])]
    names = read(body).union(*map(names_in, expressions))
    return replace(
        p,
        arguments=tuple(a for a in p.arguments if a.name.attr in names),
        body=body,
        lengths=lengths,
        precision=precision,
    )


def _is(e: B.Expr, value: Any) -> bool:
    return e.op == "number" and type(e.attr) is type(value) and e.attr == value


def _is_constant(e: B.Expr) -> bool:
    """True if this is an int or a truth value, which may stand for a tile."""
    return e.op == "number" and not isinstance(e.attr, float)


def _constant(value: Any) -> B.Expr:
    return number(value, "bool" if isinstance(value, bool) else "int")


class _Folding:
    """Folds statements in their order; `values` are those of names that are known here."""

    def __init__(self, p: B.BlockProgram, known: Mapping[Key, Constant]) -> None:
        self.index, self.lengths = B.INDEX, p.lengths
        self.values: dict[str, B.Expr] = {}
        self.present: set[str] = set()  # descriptors that are given
        for a in p.arguments:
            match known.get(a.key, ...):
                case B.Dtype() as dtype:
                    self.index = dtype
                case str() as text:
                    self.values[a.name.attr] = B.Expr("text", (), text)
                case None:
                    self.values[a.name.attr] = none()
                case True if a.purpose == "descriptor":
                    self.present.add(a.name.attr)
                case bool() | int() as value:
                    self.values[a.name.attr] = _constant(value)
        # Lengths of blocks, and sizes that they divide.
        self.divided: set[tuple[str, int]] = set()
        for name, axis in p.axes.items():
            length, size = p.lengths.get(name), known.get(("size", axis.extent, 0))
            if length is not None and size and known.get(("even", name, 0)):
                self.divided.add((str(length.attr), int(size)))  # type: ignore[arg-type]

    # --- statements ---------------------------------------------------------------------------

    def body(self, body: B.Body) -> B.Body:
        """Statements, for what is known when they begin."""
        return tuple(found for s in body for found in self._statement(s))

    def _statement(self, s: B.Statement) -> B.Body:
        match s:
            case B.Assign(targets=(target,)):
                return self._assign(s, target, self.expr(s.value))
            case B.Assign():
                s = replace(s, value=self.expr(s.value))
            case B.Load():
                s = replace(s, access=self._access(s.access), target=self._target(s.target))
            case B.Store():
                s = replace(s, access=self._access(s.access), value=self.expr(s.value))
            case B.For():
                return self._for(s)
            case B.While():
                self._forget(s.body)
                s = replace(s, test=self.expr(s.test), body=self.body(s.body))
                self._forget(s.body)
            case B.If():
                return self._if(s)
        self._forget((s,))
        return (s,)

    def _assign(self, s: B.Assign, target: B.Expr, value: B.Expr) -> B.Body:
        self._rename(target)
        # A tile that was more than another one's copy is now read under the other one's name.
        is_copy = value.op == "name" != s.value.op and value.attr != target.attr
        is_copy = is_copy and value.layout == target.layout != ()
        is_length = any(_are_same(value, length) for length in self.lengths.values())
        if _is_constant(value) or is_copy or is_length:
            self.values[target.attr] = value
        spread = _spread(value, target.layout)
        return (replace(s, targets=(self._target(target),), value=spread),)

    def _for(self, s: B.For) -> B.Body:
        bounds = self._range(s.range)
        if isinstance(bounds, B.Static) and _is_constant(bounds.stop):
            start = bounds.start or number(0)
            if _is_constant(start) and bounds.stop.attr - start.attr == 1:
                self.values[s.variable.attr] = start
                return self.body(s.body)
        if isinstance(bounds, B.Blocks) and self._is_block(bounds):
            self.values[s.variable.attr] = bounds.start
            return self.body(s.body)
        self._forget((s,))
        found = replace(s, range=bounds, body=self.body(s.body))
        self._forget((s,))
        return (found,)

    def _is_block(self, bounds: B.Blocks) -> bool:
        """True if there is only one block, the first."""
        return _is(bounds.start, 0) and _are_same(bounds.stop, self.lengths[bounds.axis])

    def _if(self, s: B.If) -> B.Body:
        test = self.expr(s.test)
        if _is_constant(test):
            return self.body(s.body if test.attr else s.orelse)
        before = dict(self.values)
        body = self.body(s.body)
        after, self.values = self.values, before
        orelse = self.body(s.orelse)
        pairs = ((n, x, after[n]) for n, x in self.values.items() if n in after)
        self.values = {n: x for n, x, y in pairs if x is y or _is(x, y.attr)}
        return (replace(s, test=test, body=body, orelse=orelse),)

    def _forget(self, body: B.Body) -> None:
        """Forget the values of the names that statements give."""
        for s in B.walk(body):
            for target in B.targets(s):
                self._rename(target)

    def _rename(self, target: B.Expr) -> None:
        """A name has another value."""
        stale = (n for n, x in self.values.items() if x.op == "name" and x.attr == target.attr)
        for name in (target.attr, *list(stale)):
            self.values.pop(name, None)

    def _target(self, e: B.Expr) -> B.Expr:
        return replace(e, dtype=self._dtype(e.dtype))

    def _range(self, r: B.Static | B.Serial | B.Blocks) -> B.Static | B.Serial | B.Blocks:
        if isinstance(r, B.Static):
            return B.Static(r.start and self.expr(r.start), self.expr(r.stop))
        r = replace(r, start=self.expr(r.start), stop=self.expr(r.stop))
        if isinstance(r, B.Serial):
            return r
        stages, fused = (x and self.expr(x) for x in (r.stages, r.fused))
        stages = None if stages and stages.op == "none" else stages
        return replace(r, stages=stages, fused=None if fused and _is(fused, False) else fused)

    def _access(self, access: Any) -> Any:
        if isinstance(access, B.Descriptor):
            positions = tuple(map(self.expr, access.positions))
            return replace(access, descriptor=self.expr(access.descriptor), positions=positions)
        offsets = tuple(map(self.expr, access.offsets))
        fewer = tuple(x for x in offsets if not _is(x, 0))
        if broadcast_layout(*(x.layout for x in fewer)) == broadcast_layout(
            *(x.layout for x in access.offsets)
        ):
            offsets = fewer
        mask = access.mask and self.expr(access.mask)
        mask = mask.args[0] if mask is not None and mask.op == "broadcast" else mask
        mask = None if mask is None or _is(mask, True) else mask
        fill = access.fill and mask and self.expr(access.fill)
        return replace(access, base=self.expr(access.base), offsets=offsets, mask=mask, fill=fill)

    # --- expressions --------------------------------------------------------------------------

    def expr(self, e: B.Expr) -> B.Expr:
        """A value: of the same dimensions, or a number that stands for all elements."""
        if e.op == "name" and e.attr in self.values:
            return self.values[e.attr]
        args = tuple(map(self.expr, e.args))
        attr = self._dtype(e.attr) if isinstance(e.attr, B.Dtype) else e.attr
        made = replace(e, args=args, attr=attr, dtype=self._dtype(e.dtype))
        found = self._folded(made)
        if found is made:
            return _fitted(e, made)
        return found if _is_constant(found) else _spread(found, e.layout)

    def _dtype(self, dtype: B.Dtype) -> B.Dtype:
        return self.index if dtype == B.INDEX else dtype

    def _folded(self, e: B.Expr) -> B.Expr:
        args = e.args
        if args and all(a.op == "number" for a in args):
            found = _computed(e)
            if found is not None:
                return found
        match e.op, args:
            case "*", (B.Expr(op="//", args=(x, n)), m) if _are_same(n, m):
                return x if x.op == "number" and (n.attr, x.attr) in self.divided else e
            case "%", (_, n) if _is(n, 1):
                return number(0)
            case sign, (a, b) if sign in _UNITS:
                unit, zero = _UNITS[sign], _ZEROS.get(sign, ...)
                if _is(b, unit) or _is(a, zero):
                    return a
                if sign in _COMMUTATIVE and (_is(a, unit) or _is(b, zero)):
                    return b
            case (("select" | "where"), (test, a, b)):
                if _is_constant(test):
                    return a if test.attr else b
                return test if _is(a, True) and _is(b, False) else e
            case (("expand" | "trans" | "broadcast"), (a,)) if _is_constant(a):
                return a
            case "reduce", (a,) if e.attr.by in _EXTREMES and _is_constant(a):
                return a
            case "to", (a,) if _is_constant(a):
                return cast(a, e.dtype)
            case "to", (a,) if a.op == "arange" and e.dtype == a.dtype:
                return a
            case "given", (a,) if a.op == "none" or a.attr in self.present:
                return number(a.op != "none", "bool")
            case "helper", (pid, _, _, size) if e.attr == "grouped" and _is_one(size):
                return pid
        return e


def _is_one(e: B.Expr) -> bool:
    return _is_constant(e) and e.attr <= 1


def _are_same(a: B.Expr, b: B.Expr) -> bool:
    return a.op == b.op == "name" and a.attr == b.attr


def _computed(e: B.Expr) -> B.Expr | None:
    """An operation on numbers, if it is among those that are computed here."""
    values = [a.attr for a in e.args]
    if all(type(v) is int for v in values) and e.op in _INTS:
        a, b = values
        if e.op in ("//", "%", "cdiv") and (a < 0 or b <= 0):
            return None
        return _constant(_INTS[e.op](a, b))
    match e.op, values:
        case (("cast" | "to"), (int() as value,)) if e.dtype.kind == "int":
            return number(value) if value in (0, 1) else None
        case (("cast" | "to"), (int() as value,)) if e.dtype == B.FLOAT32 and abs(value) < _EXACT:
            return number(float(value), "float")
    called = e.attr if e.op == "function" else e.op
    if e.dtype.kind == "float" and called in _FLOATS:
        with suppress(ArithmeticError, ValueError):
            found = _FLOATS[called](*values)
            return number(found, "float") if math.isfinite(found) else None
    return None


def _spread(e: B.Expr, layout: B.Layout) -> B.Expr:
    """A value with the dimensions that it had before it was folded."""
    if e.layout == layout:
        return e
    if e.op == "number":
        return full(e, layout, B.OF_KIND[e.dtype.kind])  # type: ignore[index]
    return broadcast(e, layout)


def _fitted(before: B.Expr, e: B.Expr) -> B.Expr:
    """An operation with its dimensions: numbers stay numbers if other operands have them."""
    if e.op in B.ELEMENTWISE and broadcast_layout(*(a.layout for a in e.args)) == e.layout:
        return e
    pairs = zip(e.args, before.args, strict=True)
    return replace(e, args=tuple(_spread(a, x.layout) for a, x in pairs))
