"""Frames in base 2: a weight takes one fused operation and an exponential.

    m'    = max(m, max[k](x))               m'    = max(m, max[k](x))
    shift = settled m'                      shift = max(m', least)
    alpha = exp2(s * (m - shift))           a     = where(abs(m') < 2**28 / s, s, power of two)
    p     = exp2(s * (x - shift))      ->   c     = a * shift
    sum  <- sum * alpha + sum[k](p * v)     alpha = exp2(a * m - c)
                                            p     = exp2(fma(a, x, -c))

The product c is rounded, so that all weights of a step are larger by 2**d, d = a * shift - c. No
sum is less exact for it: a * m is rounded as it was in the step before, and alpha moves sums from
one factor to the next. It cancels in quotients of sums; elsewhere they are divided by it after the
loop.

From abs(c) = 2**28 on, where d reaches 8 and weights of 16 bits would overflow soon, a is a power
of two: the product with it is exact, up to the least finite number. There floats are so far apart
that what is less than the largest one has a weight of 2**-16 at most, with either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from monocomp.tile import program as P
from monocomp.tile.printer import show
from monocomp.tile.program import Expr, apply, local, number

_LARGE = 2.0**28
_LEAST = -(2.0 - 2.0**-23) * 2.0**127  # finite number: a maximum of nothing less it is -inf still

# The powers of 2**d that a value grows with: of the step before, and of this one.
Degree = tuple[int, int]
_CONSTANT, _OLD, _NEW, _MOVE = (0, 0), (1, 0), (0, 1), (-1, 1)


def in_base_two(program: P.TileProgram) -> P.TileProgram:
    """Write the frames of loops in base 2, if all that is in them is sums of weights."""
    taken = {*P.names(program.body), *program.axes, *program.params}
    return replace(program, body=_body(program.body, taken))


@dataclass(frozen=True)
class _Frame:
    """A frame that a loop carries.

    Attributes:
        state, new, shift: names of the maximum before and after a step, and settled.
        scale: that of exponents.
        axes: of the maximum.
        weights: the exponentials in it, with their degrees and what they are of.
        sums: the states that are carried in it.
    """

    state: str
    new: str
    shift: str
    scale: Expr
    axes: frozenset[str]
    weights: Mapping[Expr, tuple[Degree, Expr]]
    sums: frozenset[str]


@dataclass(frozen=True)
class _Excess:
    """A factor that sums have after a loop: its inverse, and the statements that name it."""

    sums: frozenset[str]
    inverse: Expr
    lets: tuple[P.Let, ...]


def _body(body: list[P.Statement], taken: set[str]) -> list[P.Statement]:
    out: list[P.Statement] = []
    excesses: list[_Excess] = []
    for s in body:
        for excess in excesses:
            divided = _divided(s, excess)
            if divided is not s and excess.lets[0] not in out:
                out += excess.lets
            s = divided
        if isinstance(s, P.Loop):
            while (frame := next(_frames(s), None)) is not None:
                rewriting = _Rewriting(frame, taken)
                s = rewriting.loop(s)
                out += rewriting.before
                excesses.append(rewriting.excess())
            s = replace(s, body=_body(s.body, taken))
        out.append(s)
    return out


# --- frames -------------------------------------------------------------------------------------


def _frames(loop: P.Loop) -> Iterator[_Frame]:
    """Yield the frames of a loop that can be written in base 2."""
    lets = {s.name: s.value for s in loop.body if isinstance(s, P.Let)}
    next_ = {s.name: s.value for s in loop.body if isinstance(s, P.Assign)}
    for state in loop.state:
        new = next_.get(state.name, state.start)
        value = lets.get(new.attr) if new.op == "local" else None
        if value is None or value.op != "maximum" or not _is_local(value.args[0], state.name):
            continue
        for shift in (n for n, x in lets.items() if _is_settled(x, new.attr)):
            frame = _frame(loop, state, new.attr, shift)
            if frame is not None and _is_number(state.start, -math.inf):
                yield frame


def _frame(loop: P.Loop, state: P.State, new: str, shift: str) -> _Frame | None:
    """Return a frame if all that it is used for is weights of one scale, in sums."""
    inner = {n for s in loop.body for n in P.names([s])}
    weights: dict[Expr, tuple[Degree, Expr]] = {}
    scales: dict[str, Expr] = {}
    for e in P.expressions(loop.body):
        if e.op == "exp2" and (difference := _scaled_difference(e.args[0], shift)):
            scale, x = difference
            weights[e] = (_MOVE if _is_local(x, state.name) else _NEW), x
            scales[show(scale)] = scale
    if len(scales) != 1:
        return None
    (scale,) = scales.values()
    is_fixed = scale.op in ("number", "local") and scale.attr not in inner
    if not is_fixed or (scale.op == "number" and scale.attr <= 0):
        return None
    frame = _Frame(state.name, new, shift, scale, state.axes, weights, frozenset())
    sums = _sums(loop, frame)
    return replace(frame, sums=sums) if sums else None


def _scaled_difference(e: Expr, shift: str) -> tuple[Expr, Expr] | None:
    """(s, x) of s * (x - shift), where x may be 0."""
    if e.op == "neg" and e.args[0].op == "mul" and _is_local(e.args[0].args[1], shift):
        return e.args[0].args[0], number(0.0)
    if e.op == "mul" and e.args[1].op == "sub" and _is_local(e.args[1].args[1], shift):
        return e.args[0], e.args[1].args[0]
    return None


def _is_number(e: Expr, value: float) -> bool:
    return e.op == "number" and e.attr == value


def _is_local(e: Expr, name: str) -> bool:
    return e.op == "local" and e.attr == name


def _is_settled(e: Expr, name: str) -> bool:
    """True of where(inf == abs(name), 0, name)."""
    return e.op == "where" and _is_number(e.args[1], 0) and _is_local(e.args[2], name)


def _sums(loop: P.Loop, frame: _Frame) -> frozenset[str] | None:
    """Return the states that are sums of weights; None if a weight is used for something else."""
    moves = {e for e, (degree, _) in frame.weights.items() if degree == _MOVE}
    made: set[str] = set()  # of these
    for s in loop.body:
        if isinstance(s, P.Let | P.Assign) and any(
            e in moves or (e.op == "local" and e.attr in made) for e in P.subexpressions(s.value)
        ):
            made.add(s.name)
    sums = frozenset(s.name for s in loop.state if s.name in made)
    if not all(_is_number(s.start, 0) for s in loop.state if s.name in sums):
        return None
    try:
        return sums if _are_sums(loop, frame, sums) else None
    except _MixedError:
        return None


def _are_sums(loop: P.Loop, frame: _Frame, sums: frozenset[str]) -> bool:
    """True if sums grow with 2**d as weights do, and all else that a loop computes does not."""
    weights = {e: degree for e, (degree, _) in frame.weights.items()}
    degrees = _Degrees(dict.fromkeys(sums, _OLD), weights)
    for s in loop.body:
        values = P.expressions([s]) if isinstance(s, P.Loop) else P.roots(s)
        found = set(map(degrees.of, values))
        if isinstance(s, P.Let):
            degrees.named[s.name] = found.pop()
        elif not found <= {None, _NEW if isinstance(s, P.Assign) and s.name in sums else _CONSTANT}:
            return False
    exponents = (x for degree, x in frame.weights.values() if degree == _NEW)
    return all(degrees.of(x) in (None, _CONSTANT) for x in exponents)


# --- degrees ------------------------------------------------------------------------------------


class _MixedError(Exception):
    """What has no degree: a function of weights, or a sum of some and of others."""


class _Degrees:
    """Tell how values grow with 2**d; 0 does in every way, which None says.

    Args:
        named: the degrees of values by name; others are constant.
        weights: those of exponentials.
    """

    def __init__(
        self, named: dict[str, Degree | None], weights: Mapping[Expr, Degree] = {}
    ) -> None:
        self.named, self.weights = named, weights

    def of(self, e: Expr) -> Degree | None:
        """Return the degree of a value."""
        if e in self.weights:
            return self.weights[e]
        if e.op == "local":
            return self.named.get(e.attr, _CONSTANT)
        if _is_number(e, 0):
            return None
        found = list(map(self.of, e.args))
        match e.op:
            case "mul" | "contract":
                return _joined([_product(found[0], found[1]), *found[2:]])
            case "div":
                return _product(found[0], found[1], -1)
            case "add" | "sub" | "maximum" | "minimum" | "neg" | "abs" | "stop":
                return _joined(found)
            case "reduce" if e.attr[0] != "prod":
                return found[0]
            case "masked" if e.attr[1] == 0:
                return found[0]
            case "where" if found[0] in (None, _CONSTANT):
                return _joined(found[1:])
            case "compare":
                found = [_joined(found) and _CONSTANT]
        if not {*found} <= {None, _CONSTANT}:
            raise _MixedError
        return _CONSTANT


def _product(a: Degree | None, b: Degree | None, sign: int = 1) -> Degree | None:
    return None if a is None or b is None else (a[0] + sign * b[0], a[1] + sign * b[1])


def _joined(degrees: list[Degree | None]) -> Degree | None:
    found = {*degrees} - {None}
    if len(found) > 1:
        raise _MixedError
    return found.pop() if found else None


# --- rewriting ----------------------------------------------------------------------------------


class _Rewriting:
    """Write the frame of a loop in base 2.

    Args:
        frame: one of the loop's.
        taken: names that are not to be given.

    Attributes:
        before: what the loop needs.
    """

    def __init__(self, frame: _Frame, taken: set[str]) -> None:
        self.frame, self.taken = frame, taken
        self.before: list[P.Let] = []
        self.power, self.limit = self._constants(frame.scale)

    def _constants(self, scale: Expr) -> tuple[Expr, Expr]:
        """Return the power of two that is no more than the scale, and what is large beside it."""
        if scale.op == "number":
            return number(2.0 ** math.floor(math.log2(scale.attr))), number(_LARGE / scale.attr)
        power = apply("exp2", apply("floor", apply("log2", scale)))
        limit = apply("div", number(_LARGE), scale)
        return self.named(self.before, "power", power), self.named(self.before, "limit", limit)

    def named(self, body: list[P.Let], like: str, value: Expr) -> Expr:
        """Name a value, at the end of a body."""
        name, n = like, 1
        while name in self.taken:
            n += 1
            name = f"{like}_{n}"
        self.taken.add(name)
        body.append(P.Let(name, value))
        return local(name, value.axes, value.kind)

    def factor(self, body: list[P.Let], m: Expr, shift: Expr) -> tuple[Expr, Expr]:
        """Return the factor of exponents beside a maximum, and what is added to them."""
        is_small = apply("compare", apply("abs", m), self.limit, attr="<")
        factor = apply("where", is_small, self.frame.scale, self.power)
        factor = self.named(body, "factor", factor)
        less = apply("mul", number(-1.0), shift)  # costs nothing, where 0 - shift would
        return factor, self.named(body, "offset", _rounded(factor, less))

    def loop(self, loop: P.Loop) -> P.Loop:
        """Return the loop with the frame in base 2."""
        frame = self.frame
        lets: list[P.Let] = []
        m, shift = (local(n, frame.axes, "float") for n in (frame.new, frame.shift))
        factor, offset = self.factor(lets, m, shift)

        def weight(e: Expr) -> Expr:
            if e not in frame.weights:
                return _map(e, weight)
            degree, x = frame.weights[e]
            if degree == _MOVE:
                return apply("exp2", apply("add", _rounded(factor, x), offset))
            return apply("exp2", apply("fma", factor, weight(x), offset))

        body: list[P.Statement] = []
        for s in loop.body:
            if isinstance(s, P.Let) and s.name == frame.shift:
                body.append(replace(s, value=_finite(m)))
                body += [replace(let, origin=s.origin) for let in lets]
            else:
                body.append(P.with_roots(s, weight))
        return replace(loop, body=body)

    def excess(self) -> _Excess:
        """Return the factor that sums have after the loop."""
        lets: list[P.Let] = []
        m = local(self.frame.state, self.frame.axes, "float")
        shift = self.named(lets, "shift", _finite(m))
        factor, offset = self.factor(lets, m, shift)
        excess = apply("fma", factor, shift, offset)
        inverse = self.named(lets, "inverse", apply("exp2", apply("neg", excess)))
        return _Excess(self.frame.sums, inverse, tuple(lets))


def _finite(m: Expr) -> Expr:
    """Return a maximum, that of nothing as the least finite number."""
    return apply("maximum", m, number(_LEAST))


def _rounded(a: Expr, b: Expr) -> Expr:
    """Return a product that no later addition takes unrounded."""
    return apply("fma", a, b, number(0.0))


def _map(e: Expr, visit: Callable[[Expr], Expr]) -> Expr:
    """Return an operation on other operands."""
    args = tuple(map(visit, e.args))
    is_same = all(a is b for a, b in zip(args, e.args, strict=True))
    return e if is_same else replace(e, args=args)


def _divided(s: P.Statement, excess: _Excess) -> P.Statement:
    """Divide sums by the factor that they have, where it does not cancel."""
    degrees = _Degrees(dict.fromkeys(excess.sums, _NEW))

    def divide(e: Expr) -> Expr:
        if e.op == "local" and e.attr in excess.sums:
            return apply("mul", e, excess.inverse)
        return _map(e, divide)

    def visit(e: Expr) -> Expr:
        try:
            return e if degrees.of(e) in (None, _CONSTANT) else divide(e)
        except _MixedError:
            return divide(e)

    roots = P.roots(s)
    visited = {e: visit(e) for e in roots}
    changed = any(e is not x for e, x in visited.items())
    result = P.with_roots(s, visited.__getitem__) if changed else s
    if isinstance(result, P.Loop):
        body = [_divided(x, excess) for x in result.body]
        if any(a is not b for a, b in zip(body, result.body, strict=True)):
            result = replace(result, body=body)
    return result
