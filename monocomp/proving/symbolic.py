"""Terms as sympy expressions, and sympy's expansion with a memory and limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from monocomp import terms as T
from monocomp.proving.extended_reals import UnsupportedTermError
from monocomp.terms import Term

Expr: TypeAlias = Any  # a sympy expression

_MOST_TERMS = 4000  # of an expanded expression
_MOST_FACTORED, _HIGHEST_FACTORED = 16, 8  # terms and powers of what is worth factoring


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


class Algebra:
    """sympy's expansion with a memory, limits on size, and symbols of our own naming."""

    def __init__(self, tick: Callable[[], None] = lambda: None) -> None:
        import sympy

        self.sympy: Any = sympy
        self.tick = tick
        self._symbols: dict[tuple[str, bool], Expr] = {}
        self._ratios: dict[Expr, tuple[Expr, Expr]] = {}
        self._factors: dict[Expr, tuple[Expr, ...]] = {}
        self._terms: dict[Expr, dict[Expr, Fraction]] = {}

    def symbol(self, name: str, nonnegative: bool = False) -> Expr:
        """The symbol for a name. No name reaches sympy: they are called x0, x1, ..."""
        found = self._symbols.get((name, nonnegative))
        if found is None:
            known = {"nonnegative": True} if nonnegative else {"real": True}
            found = self.sympy.Symbol(f"x{len(self._symbols)}", **known)
            self._symbols[name, nonnegative] = found
        return found

    def number(self, x: Fraction) -> Expr:
        """An exact number."""
        return self.sympy.Rational(x.numerator, x.denominator)

    def bits(self, x: Expr) -> int:
        """The length of a rational number."""
        return int(x.p).bit_length() + int(x.q).bit_length()

    def expand(self, x: Expr) -> Expr:
        """Multiplied out, exponentials of sums split."""
        self.tick()
        if self._size(x, {}) > _MOST_TERMS:
            raise UnsupportedTermError("an expression grows too large")
        return self.sympy.expand(x, trig=x.has(self.sympy.cos, self.sympy.sin))

    def _size(self, x: Expr, memo: dict[Expr, float]) -> float:
        """About how many terms x has when multiplied out."""
        if not x.args:
            return 1
        found = memo.get(x)
        if found is None:
            sizes = [self._size(a, memo) for a in x.args]
            if x.is_Mul:
                found = math.prod(sizes)
            elif x.is_Pow and x.exp.is_Integer:
                found = sizes[0] ** min(abs(int(x.exp)), 64)
            elif x.is_Add:
                found = sum(sizes)
            else:
                found = max(sizes)
            found = memo[x] = min(found, 1e9)
        return found

    def ratio(self, x: Expr) -> tuple[Expr, Expr]:
        """Numerator, multiplied out, and denominator.

        The common denominator comes first: multiplying out fractions of different
        denominators makes a hundred times as many terms.
        """
        found = self._ratios.get(x)
        if found is None:
            self.tick()
            numerator, denominator = x, self.sympy.Integer(1)
            if any(p.exp.is_negative for p in x.atoms(self.sympy.Pow)):
                numerator, denominator = self.sympy.fraction(self.sympy.together(x))
            found = self._ratios[x] = self.expand(numerator), denominator
        return found

    def factors(self, x: Expr) -> tuple[Expr, ...]:
        """Factors whose signs make the sign of x; the base of a square comes twice."""
        found = self._factors.get(x)
        if found is None:
            self.tick()
            product = x
            powers = (p.exp for p in x.atoms(self.sympy.Pow))
            low = all(p.is_Rational and abs(p) <= _HIGHEST_FACTORED for p in powers)
            if x.is_Add and len(x.args) <= _MOST_FACTORED and low:
                product = self.sympy.factor(x)
            factors: list[Expr] = []
            for factor in self.sympy.Mul.make_args(product):
                whole = factor.is_Pow and factor.exp.is_Integer
                factors += [factor.base] * (2 - int(factor.exp) % 2) if whole else [factor]
            found = self._factors[x] = tuple(factors)
        return found

    def terms(self, x: Expr) -> dict[Expr, Fraction]:
        """The monomials of a sum with their coefficients."""
        found = self._terms.get(x)
        if found is None:
            found = {}
            for monomial, c in self.expand(x).as_coefficients_dict().items():
                if c.is_Rational:
                    found[monomial] = Fraction(int(c.p), int(c.q))
                else:
                    found[monomial * c] = Fraction(1)
            self._terms[x] = found
        return dict(found)
