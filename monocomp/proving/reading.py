"""Laws read from text: expressions of the language as terms that stay as they are written.

The constructors of terms would bring both sides of a law to one canonical form, for they apply many
of these laws themselves; so terms are built with inert operations. A condition counts as 0 or 1. A
reduction is written out over few elements: over no element it is its unit, over one and two it
shows what it does with elements and with its filter; more elements repeat that.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from fractions import Fraction
from functools import cache, partial, reduce

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.declarations.vocabulary import Kind
from monocomp.errors import MonoidLawError
from monocomp.language import syntax
from monocomp.language.parser import parse
from monocomp.terms import Term
from monocomp.terms.nodes import intern

SIZES = {0: "nothing", 1: "one element", 2: "two elements"}
# For each reduction: the function that joins elements, and its value over nothing.
_FOLDS = {
    "sum": ("add", T.ZERO),
    "prod": ("mul", T.ONE),
    "max": ("maximum", T.NEG_INF),
    "min": ("minimum", T.INF),
}
_FIRST = {"argmax": 0, "argmin": 0, "argtop": -1, "top": -1}  # the position of no element
_MINUS_ONE = T.const(-1, "float")
_OPERATORS = {"+": "add", "-": "add", "*": "mul", "/": "mul", "//": "floordiv", "%": "mod"}

# Functions that others make up, of x and y; 0 * x is undefined unless x is finite.
_MEANINGS = {
    "stop": "x",
    "sign": "where(x < 0, -1, where(0 < x, 1, 0 * x))",
    "abs": "where(x < 0, -x, x)",
    "sqrt": "x ** 0.5",
    "rsqrt": "x ** -0.5",
    "exp2": "exp(x * log(2))",
    "log2": "log(x) / log(2)",
    "tanh": "where(x == -inf, -1, (1 - exp(-2 * x)) / (1 + exp(-2 * x)))",
    "sigmoid": "1 / (1 + exp(-x))",
    "silu": "x / (1 + exp(-x))",
    "gelu": "0.5 * x * (1 + erf(x * 2 ** -0.5))",
    "softplus": "log(1 + exp(x))",
    "elu": "where(0 < x, x, exp(x) - 1)",
    "relu": "maximum(x, 0)",
    "minimum": "-maximum(-x, -y)",
    "int": "where(x < 0, -floor(-x), floor(x)) + 0 * x",
    "floordiv": "floor(x / y)",
    "mod": "x - y * floor(x / y)",
    "power": "exp(y * log(x))",
}


@cache
def meaning(function: str) -> Term | None:
    """Return what a function says of x and y, if others make it up."""
    text = _MEANINGS.get(function)
    return None if text is None else Reader().number(expression(text))


def expression(text: str) -> syntax.Expr:
    """Return the tree of an expression of the language."""
    (statement,) = parse(f"O = {text}")
    assert isinstance(statement, syntax.Definition)
    return statement.body


def conditions(e: syntax.Expr) -> Iterator[str]:
    """Yield the variables that stand where a condition is wanted."""
    for part in syntax.walk(e):
        match part:
            case syntax.Reduce(condition=syntax.Name(name)):
                yield name
            case syntax.Logic(operands=operands):
                yield from (o.name for o in operands if isinstance(o, syntax.Name))
            case syntax.Unary(op="not", operand=syntax.Name(name)):
                yield name
            case syntax.Call(function="where", args=(syntax.Name(name), *_)):
                yield name


@record()
class Reader:
    """Reads expressions as terms.

    Attributes:
        conditions: the variables that are conditions; the others are numbers.
        scopes: the indices with which a variable varies.
        size: the number of elements of every reduction.
    """

    conditions: frozenset[str] = frozenset()
    scopes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    size: int = 1

    def number(self, e: syntax.Expr, at: Mapping[str, int] | None = None) -> Term:
        """Read a number, or a condition as 0 or 1."""
        t = self.term(e, at)
        return T.bracket(t) if t.kind == "bool" else t

    def term(self, e: syntax.Expr, at: Mapping[str, int] | None = None) -> Term:
        """Read an expression, with the position of each index in scope."""
        positions = at or {}
        number, term = partial(self.number, at=positions), partial(self.term, at=positions)
        match e:
            case syntax.Number(value):
                return T.const(value, "float")
            case syntax.Extent():
                return T.const(self.size, "float")
            case syntax.Name(name) if name in positions:
                return T.const(positions[name], "float")
            case syntax.Name(name):
                indices = (str(positions[i]) for i in self.scopes.get(name, ()))
                kind: Kind = "bool" if name in self.conditions else "float"
                return T.param(name + "".join(indices), kind)
            case syntax.Unary("-", operand):
                return _negative(number(operand))
            case syntax.Unary("not", operand):
                return intern("not", (term(operand),), None, "bool")
            case syntax.Binary(op, left, right):
                return _operation(op, number(left), number(right))
            case syntax.Compare(ops, operands):
                sides = list(map(number, operands))
                return T.conjunction(*map(compared, ops, sides, sides[1:]))
            case syntax.Logic(op, operands):
                join = T.conjunction if op == "and" else T.disjunction
                return join(*map(term, operands))
            case syntax.Call("where", (condition, *branches)):
                return T.inert("where", term(condition), *map(number, branches))
            case syntax.Call("maximum" | "minimum" as name, args):
                return reduce(partial(T.inert, name), map(number, args))
            case syntax.Call(name, args):
                return T.inert(name, *map(number, args))
            case syntax.Reduce(op, prefix=False) if op in _FOLDS:
                function, unit = _FOLDS[op]
                elements = [
                    x if c is None else T.inert("where", c, x, unit)
                    for _, c, x in self._elements(e, positions)
                ]
                return reduce(partial(T.inert, function), elements) if elements else unit
            case syntax.Reduce(op, prefix=False) if op in _FIRST:
                return self._choice(e, positions)
        word = e.op if isinstance(e, syntax.Reduce) else type(e).__name__.lower()
        raise MonoidLawError(
            f"no law about '{word}' can be proved",
            help="write it with arithmetic, and sum, prod, max or min over what a filter admits",
        )

    def _elements(
        self, e: syntax.Reduce, positions: Mapping[str, int]
    ) -> Iterator[tuple[int, Term | None, Term]]:
        """Yield the last position, filter and value of each element of a reduction."""
        for at in itertools.product(range(self.size), repeat=len(e.indices)):
            inner = {**positions, **dict(zip(map(str, e.indices), at, strict=True))}
            condition = None if e.condition is None else self.term(e.condition, inner)
            yield at[-1], condition, self.number(e.args[0], inner)

    def _choice(self, e: syntax.Reduce, positions: Mapping[str, int]) -> Term:
        """Read the first position that is chosen or listed, or the element there."""
        is_least = e.op == "argmin"
        best, position = (T.INF if is_least else T.NEG_INF), T.const(_FIRST[e.op], "float")
        for n, condition, x in self._elements(e, positions):
            better = compared("<", *((x, best) if is_least else (best, x)))
            if condition is not None:
                better = T.conjunction(condition, better)
            position = T.inert("where", better, T.const(n, "float"), position)
            best = T.inert("where", better, x, best)
        return best if e.op == "top" else position


def _negative(t: Term) -> Term:
    return T.const(-t.attr, "float") if t.op == "const" else T.inert("mul", _MINUS_ONE, t)


def _operation(op: str, x: Term, y: Term) -> Term:
    if op == "**":
        is_number = y.op == "const" and math.isfinite(y.attr)
        return _power(x, y.attr) if is_number else T.inert("power", x, y)
    if op == "-":
        y = _negative(y)
    if op == "/":
        y = _power(y, Fraction(-1))
        if x is T.ONE:
            return y
    name = _OPERATORS[op]
    args = [*(x.args if x.op == name and name in ("add", "mul") else (x,)), y]
    if name == "mul":  # numbers come first, as terms are printed
        args.sort(key=lambda a: a.op != "const")
    return T.inert(name, *args)


def _power(x: Term, n: Fraction) -> Term:
    return T.inert("pow", x, attr=n)


def compared(op: str, x: Term, y: Term) -> Term:
    """Return a comparison as it is written."""
    if op in (">", ">="):
        op, x, y = op.replace(">", "<"), y, x
    return intern("compare", (x, y), op, "bool")
