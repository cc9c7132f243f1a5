"""The language's operators and functions on terms: in canonical form, or as they are written.

Canonical form may forget that something was infinite or no number (`terms.losses`). Where a
program asks, by a comparison, a filter or a choice among elements, operations stay as they are
written if they would forget it, and so do those that make infinite numbers out of finite ones:
what rules say of factors and addends holds for finite ones.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from monocomp import terms as T
from monocomp.terms import Term
from monocomp.terms.monomials import factors

_BINARY: dict[str, Callable[[Term, Term], Term]] = {
    "+": lambda a, b: T.construct("add", a, b),
    "-": lambda a, b: T.construct("add", a, T.neg(b)),
    "*": lambda a, b: T.construct("mul", a, b),
    "/": T.divide,
    "//": T.floordiv,
    "%": T.modulo,
    "**": T.general_power,
}


def binary(op: str, a: Term, b: Term, exact: bool = False) -> Term:
    """a op b."""
    make = _BINARY[op]
    if not exact:
        return make(a, b)
    if op == "**" and T.as_float(b).op == "const" and b.attr < 0:
        return binary("/", T.ONE, make(T.as_float(a), T.neg(b)), exact)
    if op == "/":
        a, b = T.as_float(a), T.as_float(b)
        there = T.no_number_over(a, b)
        if there.op != "const" or (there.attr and T.may_be_empty(b)):
            return T.exactly("div", a, b, there)
    if op == "*":  # 0 * inf, where that is a quotient by 0, is no number where 0 / 0 is none
        (x, y), (z, w) = _as_quotient(a), _as_quotient(b)
        if y is not T.ONE or w is not T.ONE:
            return binary("/", binary("*", x, z, exact), T.mul(y, w), exact)
    with T.losses() as lost:
        found = make(a, b)
    if found.kind != "float" or not (lost or _may_make_infinite(op, a, b)):
        return found
    a, b = T.as_float(a), T.as_float(b)
    match op:
        case "+" | "-":
            return T.exactly("add", a, b if op == "+" else T.neg(b))
        case "*":
            return T.exactly("mul", a, b)
        case "/":
            return T.exactly("div", a, b, attr=T.PLAIN if there.attr else None)
        case "**":
            return T.exactly("power", a, b)
    return found


def _as_quotient(t: Term) -> tuple[Term, Term]:
    """(x, y) with t = x / y, for a y that may be 0."""
    if t.op == "exactly" and t.attr[0] == "div":
        return t.args[0], t.args[1]
    number, rest = T.split_coefficient(t)
    parts = [] if rest is None else list(factors(rest))
    under = [f for f in parts if f.op == "pow" and f.attr < 0 and _may_vanish(f.args[0])]
    over = T.mul(T.const(number, t.kind), *(f for f in parts if f not in under))
    return over, T.mul(T.ONE, *(T.power_of(f.args[0], -f.attr) for f in under))


def _may_make_infinite(op: str, a: Term, b: Term) -> bool:
    match op:
        case "/":
            return _may_be_zero(b)
        case "**":
            is_power = b.op == "const" and isinstance(b.attr, Fraction) and b.attr > 0
            return not is_power and _may_be_zero(a)
    return False


def _may_be_zero(t: Term) -> bool:
    """May t be 0 where there is something: what divides by a sum over nothing has its own law."""
    if any(map(T.is_bracket, factors(t))):
        return True
    is_number = t.op == "const" and t.attr != 0
    return not (is_number or T.is_weight(t) or T.may_be_empty(t))


def _may_vanish(t: Term) -> bool:
    return T.may_be_empty(t) or _may_be_zero(t)


def compare(op: str, a: Term, b: Term) -> Term:
    """a op b. A comparison with what is no number is false, and != is true."""
    with T.losses() as lost:
        found = T.compare(op, a, b)
    if not lost:
        return found
    if op in (">", ">="):
        op, a, b = "<" + op[1:], b, a
    return T.exactly("compare", T.as_float(a), T.as_float(b), attr=op, kind="bool")


def function(name: str, *args: Term, exact: bool = False) -> Term:
    """A function of the language by name."""
    if not exact:
        return T.function(name, *args)
    with T.losses() as lost:
        found = T.function(name, *args)
    is_open = name in ("log", "log2", "rsqrt") and _may_be_zero(T.as_float(args[0]))
    if found.kind != "float" or not (lost or is_open):
        return found
    floats = [T.as_float(a) for a in args]
    match name:
        case "exp2":
            return T.exactly("exp", T.mul(floats[0], T.log(T.const(2, "float"))))
        case "log2":
            return T.divide(T.exactly("log", floats[0]), T.log(T.const(2, "float")))
        case "sqrt" | "rsqrt":
            half = Fraction(1, 2)
            return T.exactly("pow", floats[0], attr=half if name == "sqrt" else -half)
        case "where" | "int":
            return found
    return T.exactly(name, *floats)
