"""The laws that the rewrite rules rest on, as identities between terms.

A rule names them (`Claims:` in its docstring). What a rule says of a whole fold follows
from the identities by induction over the elements: that `sum(a * x) = a * sum(x)`, from
`a * (x + y) = a * x + a * y` and `a * 0 = 0`. Constructors would bring both sides of an
identity to one canonical form, for they apply many of these laws themselves; so the sides
are written with inert operations. Each identity is proved by sympy, case by case, on
symbols for its parameters, once, and is remembered by its content (`proofs.certify`). Most are
written as text, in the operations of the language; [c] is 1 where c holds, else 0.

A law can also be one of a monoid: a claim "SE" or "sum" means the laws of that.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from monocomp import terms as T
from monocomp.errors import InternalError
from monocomp.proving.claims import Claim, Operands, Sides
from monocomp.proving.extended_reals import Cases
from monocomp.terms import Term
from monocomp.terms.printer import show

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Identity:
    """`left = right` for all real values of the parameters for which `given` holds.

    It is proved for those. Where parameters are infinite a side may be no number; if both are, they
    are equal, but for parameters that have to be `finite` (a test evaluates them at such points).
    """

    left: Term
    right: Term
    given: Term = T.TRUE
    finite: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """The content."""
        return tuple(t.key[2] for t in (self.left, self.right, self.given))

    def claim(self, name: str) -> Claim:
        """The identity for the prover."""
        params = [t for t in T.subterms(self.left, self.right, self.given) if t.op == "param"]
        names = sorted({t.attr for t in params})
        kinds = {t.attr: t.kind for t in params}

        at_least_zero = set(_at_least_zero(self.given))

        def check(cases: Cases, shown: Operands) -> Sides:
            given = {
                n: bool(cases.choose(2))
                if kinds[n] == "bool"
                else cases.real(n, n in at_least_zero)
                for n in names
            }
            shown |= {n: (value,) for n, value in given.items()}
            cases.assume(cases.evaluate(self.given, given))
            return Sides((cases.evaluate(self.left, given),), (cases.evaluate(self.right, given),))

        def braced(t: Term) -> str:
            return _WORD.sub(lambda at: f"{{{at[0]}}}" if at[0] in kinds else at[0], show(t))

        conditions = [] if self.given is T.TRUE else [show(self.given)]
        if self.finite:
            conditions.append(f"finite {', '.join(self.finite)}")
        condition = f", for {' and '.join(conditions)}" if conditions else ""
        return Claim(name, braced(self.left), braced(self.right), check, condition)


def _at_least_zero(given: Term) -> Iterator[str]:
    """The parameters of which a condition says so."""
    for t in T.conjuncts(given):
        if t.op == "compare" and t.attr in ("<", "<=") and t.args[0] is T.ZERO:
            yield from (x.attr for x in t.args[1:] if x.op == "param")


@dataclass(frozen=True)
class RuleLaw:
    """A law that rules may name.

    Attributes:
        name: what rules call it.
        about: how it gives what the rules say, in one line.
        parts: what is proved, each with a name of its own, as text, as an identity, or as what
            makes one.
    """

    name: str
    about: str
    parts: tuple[tuple[str, Identity | str | Callable[[], Identity]], ...]

    @cached_property
    def identities(self) -> tuple[tuple[str, Identity], ...]:
        """What is proved, with its name; read when somebody asks. Sides that are one term, such as
        those of an equation over nothing, are equal without a proof."""
        found = ((n, _identity(part)) for n, part in self.parts)
        return tuple((n, i) for n, i in found if i.left is not i.right)

    @property
    def key(self) -> object:
        """The content, under which the proof is remembered."""
        return self.name, tuple((name, identity.key) for name, identity in self.identities)

    def claims(self) -> Iterable[Claim]:
        """What is to be proved."""
        return [identity.claim(name) for name, identity in self.identities]


RULE_LAWS: dict[str, RuleLaw] = {}
EVERYWHERE = "arithmetic"  # what no rule names, as every term rests on it
FOLDED = "the monoids of its folds"  # a claim, too: a program's folds are checked as a whole


def law(name: str, about: str, **identities: Identity | str) -> RuleLaw:
    """Add a law to the registry; the names of identities are words joined by _, and one that is
    text is read by `identity`."""
    named = tuple((n.replace("_", " "), i) for n, i in identities.items())
    RULE_LAWS[name] = RuleLaw(name, about, named)
    return RULE_LAWS[name]


# --- identities as text ---------------------------------------------------------------


def _identity(part: Identity | str | Callable[[], Identity]) -> Identity:
    match part:
        case Identity():
            return part
        case str():
            return identity(part)
    return part()


def identity(text: str) -> Identity:
    """`left = right`, or that `for` a condition, `and finite` parameters; operations stay as they
    are written."""
    sides, _, given = text.partition(" for ")
    condition, _, finite = given.partition("finite ")
    left, right = map(_term, sides.split(" = "))
    holds = _term(condition.removesuffix(" and "), T.compare) if condition else T.TRUE
    return Identity(left, right, holds, tuple(finite.split(", ")) if finite else ())


_LEAVES = {"inf": T.INF, "true": T.TRUE, "false": T.FALSE}
_INFIX: dict[type, str] = {ast.Add: "add", ast.Sub: "add", ast.Mult: "mul", ast.Div: "mul"}
_INFIX |= {ast.FloorDiv: "floordiv", ast.Mod: "mod"}
_SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!="}


def _compared(op: str, a: Term, b: Term) -> Term:
    return T.inert("compare", a, b, attr=op)


def _term(text: str, compare: Callable[[str, Term, Term], Term] = _compared) -> Term:
    """A term whose parameters are c, p and q for conditions, and others for numbers."""

    def of(e: ast.expr) -> Term:
        match e:
            case ast.Constant(value):
                return T.const(value, "float")
            case ast.Name(name):
                return _LEAVES.get(name) or T.param(name, "bool" if name in "cpq" else "float")
            case ast.List([condition]):
                return T.bracket(of(condition))
            case ast.UnaryOp(ast.Not(), x):
                return T.negate(of(x)) if isinstance(x, ast.Name) else T.inert("not", of(x))
            case ast.UnaryOp(_, x):
                return _negative(of(x))
            case ast.BoolOp(op, values):
                join = T.conjunction if isinstance(op, ast.And) else T.disjunction
                return join(*map(of, values))
            case ast.Compare(left, [sign], [right]):
                return compare(_SIGNS[type(sign)], of(left), of(right))
            case ast.BinOp(x, ast.Pow(), n):
                return T.inert("pow", of(x), attr=of(n).attr)
            case ast.BinOp(left, sign, right):
                return operation(left, sign, of(right))
            case ast.Call(ast.Name(name), args):
                return T.inert(name, *map(of, args))
        raise InternalError(f"no law can say {ast.unparse(e)}")

    def operation(left: ast.expr, sign: ast.operator, y: Term) -> Term:
        op, x = _INFIX[type(sign)], of(left)
        y = _negative(y) if isinstance(sign, ast.Sub) else y
        y = T.inert("pow", y, attr=Fraction(-1)) if isinstance(sign, ast.Div) else y
        if x is T.ONE and isinstance(sign, ast.Div):
            return y
        in_brackets = text[left.end_col_offset :].lstrip()[0] == ")"
        goes_on = x.op == op and op in ("add", "mul") and not in_brackets
        return T.inert(op, *(x.args if goes_on else (x,)), y)

    return of(ast.parse(text, mode="eval").body)


def _negative(t: Term) -> Term:
    if t.op == "const":
        return T.NEG_INF if t is T.INF else T.const(-t.attr, "float")
    return T.inert("mul", T.const(-1, "float"), t)


# --- the laws -------------------------------------------------------------------------

law(
    "distributivity",
    "a factor leaves a sum, by induction over its elements",
    product_over_sum="a * (x + y) = a * x + a * y",
    product_with_the_unit="0 * a = 0",
    a_sum_of_equals="a * (n + 1) = a * n + a",
)
law(
    "saved logarithms",
    "a weight over a sum is the exponential of its distance from the logarithm of that",
    share="exp(s) / x = exp(s - log(x)) for 0 < x",
    sum="x = exp(log(x)) for 0 < x",
)
law(
    "interchange",
    "folds of a commutative monoid are taken in any order, and a fold of a . b is the "
    "fold of a . the fold of b",
    sum="(a + b) + (x + y) = (a + x) + (b + y)",
    prod="(a * b) * (x * y) = (a * x) * (b * y)",
    max="maximum(maximum(a, b), maximum(x, y)) = maximum(maximum(a, x), maximum(b, y))",
    min="minimum(minimum(a, b), minimum(x, y)) = minimum(minimum(a, x), minimum(b, y))",
)
law(
    "scaling",
    "a positive factor leaves a maximum or minimum, and a sign turns it round",
    maximum="a * maximum(x, y) = maximum(a * x, a * y) for 0 < a",
    minimum="a * minimum(x, y) = minimum(a * x, a * y) for 0 < a",
    sign="-maximum(x, y) = minimum(-x, -y)",
    maximum_of_nothing="-inf * a = -inf for 0 < a",
)
law(
    "increasing functions",
    "they keep the order of elements, so a choice by order is the same before and after",
    factor="a * x < a * y = x < y for 0 < a",
    exponential="exp(x) < exp(y) = x < y",
    maximum_of_exponentials="maximum(exp(x), exp(y)) = exp(maximum(x, y))",
    minimum_of_exponentials="minimum(exp(x), exp(y)) = exp(minimum(x, y))",
)
law(
    "brackets",
    "a condition that holds anyway need not be said",
    factor="where(c, [c] * x, u) = where(c, x, u)",
    branch="where(c, where(c, x, y), u) = where(c, x, u)",
    conjunct="where(c, [c and p], u) = where(c, [p], u)",
    choice="where(c, x, y) = [c] * x + [not c] * y",
    complement="x - [c] * x = [not c] * x for finite x",
)
law(
    "units",
    "an element that is the unit can be left out, and a masked one is the unit",
    sum="x + 0 = x",
    max="maximum(x, -inf) = x",
    min="minimum(x, inf) = x",
    bracket="[c] * x = where(c, x, 0)",
    masked_factor="a * where(c, x, 0) = where(c, a * x, 0)",
    masked_addend="a + where(c, x, -inf) = where(c, a + x, -inf)",
)
law(
    "logarithm of nothing",
    "it is -inf, whatever is added",
    sum="log(0) + a = log(0)",
    bracket="x + [c] * a = where(c, x + a, x)",
)
law(
    "one point",
    "a sum of which one element is admitted is that element, by induction over the others",
    first_or_second="where(a == x, u, 0) + where(a == y, v, 0)"
    " = where(a == x, u, where(a == y, v, 0)) for x != y",
)
law(
    "common factors",
    "what addends share leaves a logarithm, an absolute value or a relu; powers: arithmetic",
    logarithm="log(exp(a) * x) = a + log(x) for 0 < x",
    absolute_value="abs(a * x) = a * abs(x) for 0 < a",
    relu="relu(a * x) = a * relu(x) for 0 < a",
    power="(x * y) ** 2 = x ** 2 * y ** 2",
)
law(
    "sigmoids",
    "a sigmoid is a scaled number",
    scaled="exp(minimum(x, 0)) * sigmoid(abs(x)) = sigmoid(x)",
)
law(
    "shares",
    "one of several numbers that are at least 0 is at most their sum, by induction over the others",
    element="maximum(x, x + y) = x + y for 0 <= x and 0 <= y",
    quotient="minimum(x / (x + y), 1) = x / (x + y) for 0 <= x and 0 <= y and 0 < x",
)
law(
    "division with remainder",
    "a number is b times its quotient and a remainder below b, in one way: an index is two, and "
    "lies in one of the parts that cover a stream",
    quotient_and_remainder="b * (n // b) + n % b = n for 0 < b and finite b, n",
    a_larger_quotient_is_of_a_larger_number="minimum(b * m + y, b * (m + 1 + n) + x) = b * m + y"
    " for 0 <= n and 0 <= x and 0 < b and y < b",
    parts_rounded_up_cover="minimum((n * m + r + 1) - n, n * m) = (n * m + r + 1) - n"
    " for r + 1 <= n",
)
law(
    "positions",
    "what a filter admits lies from the first to the last position, by induction over the rest, "
    "and of n positions it admits at most n, and n if it admits each",
    first="minimum(minimum(x, y), x) = minimum(x, y)",
    last="maximum(maximum(x, y), x) = maximum(x, y)",
    as_many="n + 1 <= a + [c] = n <= a and c for a <= n and finite a, n",
)
law(
    "scaled numbers",
    "a pair (v, m) stands for exp(m) v, and adding pairs adds what they stand for",
    sum_of_pairs="exp(maximum(m, n)) * (exp(m - maximum(m, n)) * v + exp(n - maximum(m, n)) * u)"
    " = exp(m) * v + exp(n) * u",
    element="exp(s) * v = exp(m) * (v * exp(s - m)) for finite m",
    shift_of_a_frame="(a + s) - (a + m) = s - m for finite a",
)
law(
    EVERYWHERE,
    "what the constructors of terms do: powers, roots, logarithms and exponentials",
    inverse="x * x ** -1 = 1 for x != 0",
    powers="x ** 2 * x ** 3 = x ** 5",
    power_of_a_product="(x * y) ** 2 = x ** 2 * y ** 2",
    root_of_a_square="(x ** 2) ** 0.5 = abs(x)",
    root_of_a_product="(a * a * x) ** 0.5 = a * x ** 0.5 for 0 < a and 0 <= x",
    log_of_exp="log(exp(x)) = x",
    log_of_a_product="log(exp(a) * exp(b)) = a + b",
    power_in_an_exponent="exp(2 * log(a)) = a ** 2 for 0 < a",
    sum_in_an_exponent="exp(a + b) = exp(a) * exp(b)",
)
law(
    "moments",
    "sums of powers about one centre give those about another (Welford, Chan)",
    shift="x - s = (x - r) + (r - s) for finite r, s",
    square="(x - s) ** 2 = (x - r) ** 2 + 2 * (r - s) * (x - r) + (r - s) ** 2 for finite r, s",
    cube="(x - s) ** 3 = (x - r) ** 3 + 3 * (r - s) * (x - r) ** 2 + 3 * (r - s) ** 2 * (x - r)"
    " + (r - s) ** 3 for finite r, s",
    fourth_power="(x - s) ** 4 = (x - r) ** 4 + 4 * (r - s) * (x - r) ** 3"
    " + 6 * (r - s) ** 2 * (x - r) ** 2 + 4 * (r - s) ** 3 * (x - r) + (r - s) ** 4"
    " for finite r, s",
    about_the_mean="x - x / n * n = 0 for n != 0 and finite x",
)
