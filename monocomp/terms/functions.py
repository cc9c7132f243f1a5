"""Functions of the language, logarithms, division of integers, and powers with any exponent."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

from monocomp.declarations.vocabulary import FUNCTIONS
from monocomp.terms.comparisons import where
from monocomp.terms.constructors import CONSTRUCTORS, Constructor, construct
from monocomp.terms.facts import is_nonnegative, is_positive
from monocomp.terms.leaves import NEG_INF, ONE, ZERO, as_int, const, ints
from monocomp.terms.logic import conjunction
from monocomp.terms.nodes import Term, intern
from monocomp.terms.parts import is_bracket, split_coefficient
from monocomp.terms.ring import (
    add,
    as_float,
    divide,
    exp,
    leading_positive,
    mul,
    neg,
    power_of,
    promote,
)


def function(name: str, *args: Term) -> Term:
    """Apply a scalar function of the language, in canonical form."""
    return construct(name, *args)


def _function_of_floats(name: str, *args: Term) -> Term:
    return intern(name, tuple(map(as_float, args)), None, "float")


def _extremum(name: str, *args: Term) -> Term:
    operands, kind = promote(args)
    if operands[0] is operands[1]:
        return operands[0]
    if all(t.op == "exp" for t in operands):  # the exponential is monotone
        return exp(_extremum(name, *(t.args[0] for t in operands)))
    if all(t.op == "const" for t in operands):
        return const((max if name == "maximum" else min)(t.attr for t in operands), kind)
    if name == "maximum" and ZERO in operands and all(map(is_nonnegative, operands)):
        return next(t for t in operands if t is not ZERO)
    operands.sort(key=lambda t: t.key)
    return intern(name, tuple(operands), None, kind)


def _function_of_both_kinds(name: str, operand: Term) -> Term:
    operand = as_int(operand)
    return intern(name, (operand,), None, operand.kind)


def _truncate(x: Term) -> Term:
    """Return int(x), a float without the digits after its point: an int for any x, even NaN."""
    if x.kind != "float":
        return as_int(x)
    if x.op == "cast":
        return as_int(x.args[0])
    if x.op == "const" and isinstance(x.attr, Fraction):
        return const(int(x.attr))
    return intern("int", (x,), None, "int")


def _homogeneous(name: str, operand: Term) -> Term:
    """Apply abs or relu; positive factors leave."""
    if is_nonnegative(operand):
        return operand
    if operand.op == "const":
        return neg(operand) if name == "abs" else const(0, operand.kind)
    scale, operand = _split_scale(operand, even=name == "abs")
    if scale is not None:
        return mul(scale, _homogeneous(name, operand))
    return intern(name, (operand,), None, operand.kind)


def _split_scale(t: Term, even: bool) -> tuple[Term | None, Term]:
    """Split off the factor that leaves a homogeneous function: f(a x) = a f(x) for a >= 0. An even
    function also loses the sign of its operand.

    An exponential leaves a relu only if it is one of a result, an exponent that is split off.
    """
    if even and t.op == "add" and leading_positive(t) is not t:
        return const(1, t.kind), neg(t)
    number, rest = split_coefficient(t)
    if rest is None or isinstance(number, float):
        return None, t
    parts = rest.args if rest.op == "mul" else (rest,)
    outside = [f for f in parts if is_nonnegative(f) and (even or f.op != "exp" or f.folded)]
    if abs(number) == 1 and not outside and (number == 1 or not even):
        return None, t
    sign = 1 if number > 0 or even else -1
    inside = mul(const(sign, t.kind), *(f for f in parts if f not in outside))
    return mul(const(abs(number), t.kind), *outside), inside


def log(x: Term) -> Term:
    """Return the natural logarithm; exponentials leave it."""
    x = as_float(x)
    if x is ONE:
        return ZERO
    if x.op == "exp":
        return x.args[0]
    if x is ZERO:
        return NEG_INF
    if x.op == "const" and 0 < x.attr < 1:
        return neg(log(const(1 / x.attr, "float")))
    if x.op == "mul":
        exponent = [t.args[0] for t in x.args if t.op == "exp"]
        if exponent:
            return add(*exponent, log(mul(*(t for t in x.args if t.op != "exp"))))
        if brackets := [t for t in x.args if is_bracket(t)]:
            condition = conjunction(*(t.args[0] for t in brackets))
            value = log(mul(ONE, *(t for t in x.args if t not in brackets)))
            return where(condition, value, NEG_INF)
        # 0 times infinity is unspecified, as is the sum of their logarithms: a scale may leave.
        leaves = _is_scaled if all(map(is_nonnegative, x.args)) else is_positive
        apart = [t for t in x.args if is_positive(t) or leaves(t)]
        rest = [t for t in x.args if t not in apart]
        if apart and len(x.args) > 1:
            return add(*map(log, apart), log(mul(ONE, *rest)))
    if x.op == "pow" and (x.attr % 2 == 0 or is_nonnegative(x.args[0])):
        return mul(const(x.attr, "float"), log(function("abs", x.args[0])))
    return intern("log", (x,), None, "float")


def _is_scaled(t: Term) -> bool:
    """True if t is one over a product with an exponential, which stays whole."""
    return t.op == "pow" and t.args[0].op == "mul" and any(f.op == "exp" for f in t.args[0].args)


_LOG_2 = log(const(2, "float"))


def floordiv(a: Term, b: Term) -> Term:
    """a // b, rounded towards minus infinity"""
    return _integer_division("floordiv", a, b)


def modulo(a: Term, b: Term) -> Term:
    """a % b, with the sign of b"""
    return _integer_division("mod", a, b)


def _integer_division(op: str, a: Term, b: Term) -> Term:
    (a, b), kind = promote((a, b))
    if b.op == "const" and b.attr == 1 and kind == "int":
        return a if op == "floordiv" else const(0)
    if op == "floordiv" and a is b and a.op == "extent":
        return const(1)
    if a.op == "const" and b.op == "const" and b.attr != 0 and kind == "int":
        return const(int(a.attr // b.attr if op == "floordiv" else a.attr % b.attr))
    return intern(op, (a, b), None, kind)


def general_power(a: Term, b: Term) -> Term:
    """a ** b, with any exponent

    A power of a positive number is an exponential. Whole exponents stay: their powers are exact.
    """
    if b.op == "const" and isinstance(b.attr, Fraction):
        if b.kind == "int" and (b.attr >= 0 or a.kind == "float"):
            return construct("pow", as_int(a), attr=b.attr, kind=a.kind)
        if b.attr.denominator <= 64 and abs(b.attr.numerator) <= 64:
            return construct("pow", as_float(a), attr=b.attr)
    if a.op == "const" and isinstance(a.attr, Fraction) and 1 != a.attr > 0 and b.kind == "float":
        return exp(mul(b, log(as_float(a))))
    return intern("power", (as_float(a), as_float(b)), None, "float")


def _constructor(make: Callable[..., Term]) -> Constructor:
    return lambda args, attr, kind: make(*args)


CONSTRUCTORS.update({name: _constructor(partial(_function_of_floats, name)) for name in FUNCTIONS})
_CANONICAL: dict[str, Callable[..., Term]] = {
    "abs": lambda x: _homogeneous("abs", as_int(x)),
    "exp": exp,
    "exp2": lambda x: exp(mul(x, _LOG_2)),
    "floordiv": floordiv,
    "int": _truncate,
    "log": log,
    "log2": lambda x: divide(log(x), _LOG_2),
    "maximum": partial(_extremum, "maximum"),
    "minimum": partial(_extremum, "minimum"),
    "mod": modulo,
    "power": general_power,
    "relu": lambda x: _homogeneous("relu", as_float(x)),
    "rsqrt": lambda x: construct("pow", as_float(x), attr=Fraction(-1, 2)),
    "sign": partial(_function_of_both_kinds, "sign"),
    "sqrt": lambda x: power_of(as_float(x), Fraction(1, 2)),
    "stop": partial(_function_of_both_kinds, "stop"),
    "uniform": lambda *args: intern("uniform", ints(args), None, "float"),
    "where": where,
}
CONSTRUCTORS.update({name: _constructor(make) for name, make in _CANONICAL.items()})
