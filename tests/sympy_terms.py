"""Terms as sympy expressions: another reading of them, with which the prover's is compared."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from monocomp import terms as T
from monocomp.terms import Term

Expr = Any  # a sympy expression


def to_sympy(term: Term, symbols: dict[Term, Expr]) -> Expr:
    """A scalar term as a sympy expression, branches as Max, Min, Abs and Piecewise.

    `symbols` maps parameters, indices, extents, reads and folds to symbols. Those that it
    lacks are added as real symbols x0, x1, ...: no name of a program reaches sympy.
    """
    import sympy

    table: dict[str, Any] = {
        "add": sympy.Add,
        "mul": sympy.Mul,
        "and": sympy.And,
        "or": sympy.Or,
        "not": sympy.Not,
        "maximum": sympy.Max,
        "minimum": sympy.Min,
        "abs": sympy.Abs,
        "power": sympy.Pow,
        "mod": lambda a, b: a - b * sympy.floor(a / b),
        "floordiv": lambda a, b: sympy.floor(a / b),
        "where": lambda c, a, b: sympy.Piecewise((a, c), (b, True)),
        "relu": lambda x: sympy.Max(x, 0),
        "sigmoid": lambda x: 1 / (1 + sympy.exp(-x)),
        "silu": lambda x: x / (1 + sympy.exp(-x)),
        "gelu": lambda x: x * (1 + sympy.erf(x / sympy.sqrt(2))) / 2,
        "softplus": lambda x: sympy.log(1 + sympy.exp(x)),
        "elu": lambda x: sympy.Piecewise((x, x > 0), (sympy.exp(x) - 1, True)),
        "stop": lambda x: x,
    }
    same = ("exp", "log", "sin", "cos", "tanh", "erf", "sign", "floor")
    table |= {name: getattr(sympy, name) for name in same}
    relations = {"<": sympy.Lt, "<=": sympy.Le, "==": sympy.Eq, "!=": sympy.Ne}
    memo: dict[Term, Expr] = {}

    def rational(x: Fraction) -> Expr:
        return sympy.Rational(x.numerator, x.denominator)

    def value(t: Term) -> Expr:
        if t not in memo:
            memo[t] = compute(t)
        return memo[t]

    def compute(t: Term) -> Expr:
        match t.op:
            case "const" if isinstance(t.attr, bool):
                return sympy.true if t.attr else sympy.false
            case "const" if isinstance(t.attr, float):
                return sympy.oo if t.attr > 0 else -sympy.oo
            case "const":
                return rational(t.attr)
            case "mul" if any(map(T.is_bracket, t.args)):  # [c] * x is where(c, x, 0)
                conditions = [value(a.args[0]) for a in t.args if T.is_bracket(a)]
                rest = [value(a) for a in t.args if not T.is_bracket(a)]
                return sympy.Piecewise((sympy.Mul(*rest), sympy.And(*conditions)), (0, True))
            case "pow":
                return value(t.args[0]) ** rational(t.attr)
            case "compare":
                return relations[t.attr](*map(value, t.args))
            case "cast":
                x = value(t.args[0])
                return sympy.Piecewise((1, x), (0, True)) if T.is_bracket(t) else x
        if t.op in table:
            return table[t.op](*map(value, t.args))
        if t not in symbols:
            symbols[t] = sympy.Symbol(f"x{len(symbols)}", real=True)
        return symbols[t]

    return value(term)
