"""The laws that the rewrite rules rest on, as identities between terms.

A rule names them (`Claims:` in its docstring). What a rule says of a whole fold follows
from the identities by induction over the elements: that `sum(a * x) = a * sum(x)`, from
`a * (x + y) = a * x + a * y` and `a * 0 = 0`. Constructors would bring both sides of an
identity to one canonical form, for they apply many of these laws themselves; so the sides
are written with inert operations. Each identity is proved by sympy, case by case, on
symbols for its parameters, once, and is remembered by its content (`proofs.certify`).

A law can also be one of a monoid: a claim "SE" or "sum" means the laws of that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from monocomp import terms as T
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
        identities: what is proved, each with a name of its own.
    """

    name: str
    about: str
    identities: tuple[tuple[str, Identity], ...]

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


def law(name: str, about: str, **identities: Identity) -> RuleLaw:
    """Add a law to the registry; the names of identities are words joined by _."""
    named = tuple((n.replace("_", " "), identity) for n, identity in identities.items())
    RULE_LAWS[name] = RuleLaw(name, about, named)
    return RULE_LAWS[name]


# Inert operations on symbols.


def _symbols(names: str) -> list[Term]:
    return [T.param(n, "float") for n in names.split()]


def _add(*terms: Term) -> Term:
    return T.inert("add", *terms)


def _mul(*terms: Term) -> Term:
    factors = [t for t in terms if t is not T.ONE]
    return T.inert("mul", *factors) if len(factors) > 1 else (*factors, T.ONE)[0]


def _sub(a: Term, b: Term) -> Term:
    return _add(a, _mul(_MINUS, b))


_exp, _log, _cos, _sin, _max, _min, _where = (
    partial(T.inert, op) for op in ("exp", "log", "cos", "sin", "maximum", "minimum", "where")
)
_is, _less = (partial(T.inert, "compare", attr=op) for op in ("==", "<"))


def _power(x: Term, power: Fraction | int) -> Term:
    return x if power == 1 else T.inert("pow", x, attr=Fraction(power))


_a, _b, _x, _y, _u, _v = _symbols("a b x y u v")
_m, _n, _r, _s, _t = _symbols("m n r s t")
_c, _p, _q = (T.param(name, "bool") for name in "cpq")
_not_c = T.negate(_c)
_HALF = Fraction(1, 2)
_MINUS = T.const(-1, "float")
_POSITIVE = T.compare("<", T.ZERO, _a)
_SHARE = _mul(_x, _power(_add(_x, _y), -1))
_NONNEGATIVE = T.conjunction(T.compare("<=", T.ZERO, _x), T.compare("<=", T.ZERO, _y))

law(
    "distributivity",
    "a factor leaves a sum, by induction over its elements",
    product_over_sum=Identity(_mul(_a, _add(_x, _y)), _add(_mul(_a, _x), _mul(_a, _y))),
    product_with_the_unit=Identity(_mul(T.ZERO, _a), T.ZERO),
    a_sum_of_equals=Identity(_mul(_a, _add(_n, T.ONE)), _add(_mul(_a, _n), _a)),
)
law(
    "exponentials",
    "what is added in an exponent is a factor",
    sum_in_an_exponent=Identity(_exp(_add(_a, _b)), _mul(_exp(_a), _exp(_b))),
    nothing=Identity(_exp(T.NEG_INF), T.ZERO),
)
law(
    "saved logarithms",
    "a weight over a sum is the exponential of its distance from the logarithm of that",
    share=Identity(
        _mul(_exp(_s), _power(_x, -1)), _exp(_sub(_s, _log(_x))), T.compare("<", T.ZERO, _x)
    ),
    sum=Identity(_x, _exp(_log(_x)), T.compare("<", T.ZERO, _x)),
)
law(
    "interchange",
    "folds of a commutative monoid are taken in any order, and a fold of a . b is the "
    "fold of a . the fold of b",
    sum=Identity(_add(_add(_a, _b), _add(_x, _y)), _add(_add(_a, _x), _add(_b, _y))),
    prod=Identity(_mul(_mul(_a, _b), _mul(_x, _y)), _mul(_mul(_a, _x), _mul(_b, _y))),
    max=Identity(_max(_max(_a, _b), _max(_x, _y)), _max(_max(_a, _x), _max(_b, _y))),
    min=Identity(_min(_min(_a, _b), _min(_x, _y)), _min(_min(_a, _x), _min(_b, _y))),
)
law(
    "translation",
    "an addend leaves a maximum or minimum, by induction over its elements",
    maximum_of_equals=Identity(_max(_a, _a), _a),
    minimum_of_equals=Identity(_min(_a, _a), _a),
    maximum=Identity(_add(_a, _max(_x, _y)), _max(_add(_a, _x), _add(_a, _y))),
    minimum=Identity(_add(_a, _min(_x, _y)), _min(_add(_a, _x), _add(_a, _y))),
    maximum_of_nothing=Identity(_add(_a, T.NEG_INF), T.NEG_INF),
    minimum_of_nothing=Identity(_add(_a, T.INF), T.INF),
)
law(
    "scaling",
    "a positive factor leaves a maximum or minimum, and a sign turns it round",
    maximum=Identity(_mul(_a, _max(_x, _y)), _max(_mul(_a, _x), _mul(_a, _y)), _POSITIVE),
    minimum=Identity(_mul(_a, _min(_x, _y)), _min(_mul(_a, _x), _mul(_a, _y)), _POSITIVE),
    sign=Identity(
        _mul(_MINUS, _max(_x, _y)),
        _min(_mul(_MINUS, _x), _mul(_MINUS, _y)),
    ),
    maximum_of_nothing=Identity(_mul(T.NEG_INF, _a), T.NEG_INF, _POSITIVE),
)
law(
    "increasing functions",
    "they keep the order of elements, so a choice by order is the same before and after",
    shift=Identity(_less(_add(_a, _x), _add(_a, _y)), _less(_x, _y), finite=("a",)),
    factor=Identity(_less(_mul(_a, _x), _mul(_a, _y)), _less(_x, _y), _POSITIVE, finite=("a",)),
    exponential=Identity(_less(_exp(_x), _exp(_y)), _less(_x, _y)),
    sign=Identity(_less(_mul(_MINUS, _x), _mul(_MINUS, _y)), _less(_y, _x)),
    maximum_of_exponentials=Identity(_max(_exp(_x), _exp(_y)), _exp(_max(_x, _y))),
    minimum_of_exponentials=Identity(_min(_exp(_x), _exp(_y)), _exp(_min(_x, _y))),
)
law(
    "brackets",
    "a condition that holds anyway need not be said",
    factor=Identity(_where(_c, _mul(T.bracket(_c), _x), _u), _where(_c, _x, _u)),
    branch=Identity(_where(_c, _where(_c, _x, _y), _u), _where(_c, _x, _u)),
    conjunct=Identity(
        _where(_c, T.bracket(T.conjunction(_c, _p)), _u), _where(_c, T.bracket(_p), _u)
    ),
    choice=Identity(_where(_c, _x, _y), _add(_mul(T.bracket(_c), _x), _mul(T.bracket(_not_c), _y))),
    complement=Identity(_sub(_x, _mul(T.bracket(_c), _x)), _mul(T.bracket(_not_c), _x)),
)
law(
    "units",
    "an element that is the unit can be left out, and a masked one is the unit",
    sum=Identity(_add(_x, T.ZERO), _x),
    max=Identity(_max(_x, T.NEG_INF), _x),
    min=Identity(_min(_x, T.INF), _x),
    bracket=Identity(_mul(T.bracket(_c), _x), _where(_c, _x, T.ZERO)),
    masked_factor=Identity(_mul(_a, _where(_c, _x, T.ZERO)), _where(_c, _mul(_a, _x), T.ZERO)),
    masked_addend=Identity(
        _add(_a, _where(_c, _x, T.NEG_INF)), _where(_c, _add(_a, _x), T.NEG_INF)
    ),
)
law(
    "logarithm of nothing",
    "it is -inf, whatever is added",
    sum=Identity(_add(_log(T.ZERO), _a), _log(T.ZERO)),
    bracket=Identity(_add(_x, _mul(T.bracket(_c), _a)), _where(_c, _add(_x, _a), _x)),
)
law(
    "counting",
    "any and all ask whether a count is 0",
    any=Identity(
        T.disjunction(T.compare("<", T.ZERO, _a), T.compare("<", T.ZERO, _b)),
        T.compare("<", T.ZERO, _add(_a, _b)),
        T.conjunction(T.compare("<=", T.ZERO, _a), T.compare("<=", T.ZERO, _b)),
    ),
    all=Identity(T.conjunction(_p, _q), T.inert("not", T.disjunction(T.negate(_p), T.negate(_q)))),
)
law(
    "one point",
    "a sum of which one element is admitted is that element, by induction over the others",
    first_or_second=Identity(
        _add(_where(_is(_a, _x), _u, T.ZERO), _where(_is(_a, _y), _v, T.ZERO)),
        _where(_is(_a, _x), _u, _where(_is(_a, _y), _v, T.ZERO)),
        T.compare("!=", _x, _y),
    ),
)
law(
    "common factors",
    "what addends share leaves a logarithm, an absolute value or a relu; powers: arithmetic",
    logarithm=Identity(_log(_mul(_exp(_a), _x)), _add(_a, _log(_x)), T.compare("<", T.ZERO, _x)),
    absolute_value=Identity(
        T.inert("abs", _mul(_a, _x)), _mul(_a, T.function("abs", _x)), _POSITIVE
    ),
    relu=Identity(T.inert("relu", _mul(_a, _x)), _mul(_a, T.function("relu", _x)), _POSITIVE),
    power=Identity(_power(_mul(_x, _y), 2), _mul(_power(_x, 2), _power(_y, 2))),
)
law(
    "common denominators",
    "fractions are added over one denominator",
    fractions=Identity(
        _add(_mul(_a, _power(_x, -1)), _mul(_b, _power(_x, -1))),
        _mul(_add(_a, _b), _power(_x, -1)),
        T.compare("!=", _x, T.ZERO),
    ),
    fraction_and_term=Identity(
        _add(_a, _mul(_b, _power(_x, -1))),
        _mul(_add(_mul(_a, _x), _b), _power(_x, -1)),
        T.compare("!=", _x, T.ZERO),
    ),
)
law(
    "sigmoids",
    "a sigmoid is a quotient of exponentials, and a scaled number",
    quotient=Identity(_power(_add(T.ONE, _exp(_x)), -1), T.inert("sigmoid", _mul(_MINUS, _x))),
    number_plus_exponential=Identity(
        _add(_a, _mul(_b, _exp(_x))),
        _mul(_a, _add(T.ONE, _exp(_sub(_x, _log(_mul(_a, _power(_b, -1))))))),
        T.conjunction(_POSITIVE, T.compare("<", T.ZERO, _b)),
    ),
    opposite=Identity(
        _mul(_exp(_x), T.inert("sigmoid", _mul(_MINUS, _x))), T.function("sigmoid", _x)
    ),
    scaled=Identity(
        _mul(_exp(_min(_x, T.ZERO)), T.inert("sigmoid", T.function("abs", _x))),
        T.function("sigmoid", _x),
    ),
    softplus=Identity(_log(_add(T.ONE, _exp(_x))), T.function("softplus", _x)),
)
law(
    "binomial theorem",
    "a whole power of a sum is a sum of products of powers",
    **{
        f"power_{n}": Identity(
            _power(_add(_x, _y), n),
            _add(
                *(
                    _mul(
                        T.const(math.comb(n, i), "float"),
                        *(_power(z, k) for z, k in ((_x, n - i), (_y, i)) if k),
                    )
                    for i in range(n + 1)
                )
            ),
        )
        for n in range(2, 9)
    },
)
law(
    "addition theorems",
    "the cosine and the sine of a sum are sums of products",
    cosine=Identity(
        _cos(_add(_a, _b)),
        _add(_mul(_cos(_a), _cos(_b)), _mul(_MINUS, _sin(_a), _sin(_b))),
    ),
    sine=Identity(_sin(_add(_a, _b)), _add(_mul(_sin(_a), _cos(_b)), _mul(_cos(_a), _sin(_b)))),
)
law(
    "shares",
    "one of several numbers that are at least 0 is at most their sum, by induction over the others",
    element=Identity(_max(_x, _add(_x, _y)), _add(_x, _y), _NONNEGATIVE),
    quotient=Identity(_min(_SHARE, T.ONE), _SHARE, T.conjunction(_NONNEGATIVE, _less(T.ZERO, _x))),
)
law(
    "division with remainder",
    "a number is b times its quotient and a remainder below b, in one way: an index is two, and "
    "lies in one of the parts that cover a stream",
    quotient_and_remainder=Identity(
        _add(_mul(_b, T.inert("floordiv", _n, _b)), T.inert("mod", _n, _b)),
        _n,
        T.compare("<", T.ZERO, _b),
        finite=("b", "n"),
    ),
    a_larger_quotient_is_of_a_larger_number=Identity(
        _min(_add(_mul(_b, _m), _y), _add(_mul(_b, _add(_m, T.ONE, _n)), _x)),
        _add(_mul(_b, _m), _y),
        T.conjunction(
            T.compare("<=", T.ZERO, _n),
            T.compare("<=", T.ZERO, _x),
            T.compare("<", T.ZERO, _b),
            T.compare("<", _y, _b),
        ),
    ),
    parts_rounded_up_cover=Identity(
        _min(_sub(_add(_mul(_n, _m), _r, T.ONE), _n), _mul(_n, _m)),
        _sub(_add(_mul(_n, _m), _r, T.ONE), _n),
        T.compare("<=", _add(_r, T.ONE), _n),
    ),
)
law(
    "positions",
    "what a filter admits lies from the first to the last position, by induction over the rest, "
    "and of n positions it admits at most n, and n if it admits each",
    first=Identity(_min(_min(_x, _y), _x), _min(_x, _y)),
    last=Identity(_max(_max(_x, _y), _x), _max(_x, _y)),
    as_many=Identity(
        T.inert("compare", _add(_n, T.ONE), _add(_a, T.bracket(_c)), attr="<="),
        T.conjunction(T.compare("<=", _n, _a), _c),
        T.compare("<=", _a, _n),
        finite=("a", "n"),
    ),
)
law(
    "scaled numbers",
    "a pair (v, m) stands for exp(m) v, and adding pairs adds what they stand for",
    sum_of_pairs=Identity(
        _mul(
            _exp(_max(_m, _n)),
            _add(_mul(_exp(_sub(_m, _max(_m, _n))), _v), _mul(_exp(_sub(_n, _max(_m, _n))), _u)),
        ),
        _add(_mul(_exp(_m), _v), _mul(_exp(_n), _u)),
    ),
    element=Identity(_mul(_exp(_s), _v), _mul(_exp(_m), _mul(_v, _exp(_sub(_s, _m))))),
    shift_of_a_frame=Identity(_sub(_add(_a, _s), _add(_a, _m)), _sub(_s, _m)),
)
law(
    EVERYWHERE,
    "what the constructors of terms do: powers, roots, logarithms and exponentials",
    inverse=Identity(_mul(_x, _power(_x, -1)), T.ONE, T.compare("!=", _x, T.ZERO)),
    powers=Identity(_mul(_power(_x, 2), _power(_x, 3)), _power(_x, 5)),
    power_of_a_product=Identity(_power(_mul(_x, _y), 2), _mul(_power(_x, 2), _power(_y, 2))),
    root_of_a_square=Identity(_power(_power(_x, 2), _HALF), T.function("abs", _x)),
    root_of_a_product=Identity(
        _power(_mul(_a, _a, _x), _HALF),
        _mul(_a, _power(_x, _HALF)),
        T.conjunction(_POSITIVE, T.compare("<=", T.ZERO, _x)),
    ),
    log_of_exp=Identity(_log(_exp(_x)), _x),
    log_of_a_product=Identity(_log(_mul(_exp(_a), _exp(_b))), _add(_a, _b)),
    power_in_an_exponent=Identity(
        _exp(_mul(T.const(2, "float"), _log(_a))), _power(_a, 2), _POSITIVE
    ),
)


# --- actions --------------------------------------------------------------------------


@dataclass(frozen=True)
class Action:
    """A basis that is carried in a moving frame, and the matrix that moves it.

    With b(x; r) a column of basis functions of an element x written in the frame r, move(r, s)
    is rho(r, s) = T(s) T(r)^-1, so that

        equivariance   rho(r, s) b(x; r) = b(x; s)
        cocycle        rho(s, t) rho(r, s) = rho(r, t)

    Then sums of b may be merged in any bracketing, each in the frame that is known there.
    """

    basis: Callable[[Term, Term], list[Term]]
    move: Callable[[Term, Term], list[list[Term]]]

    def identities(self) -> dict[str, Identity]:
        """Equivariance and the cocycle, entry by entry."""
        found = {}
        old, new, rho = self.basis(_x, _r), self.basis(_x, _s), self.move(_r, _s)
        for i, row in enumerate(rho):
            found[f"equivariance_{i}"] = Identity(_dot(row, old), new[i])
        then, straight = self.move(_s, _t), self.move(_r, _t)
        size = range(len(rho))
        for i in size:
            for j in size:
                column = [rho[k][j] for k in size]
                found[f"cocycle_{i}{j}"] = Identity(_dot(then[i], column), straight[i][j])
        return {n: at for n, at in found.items() if at.left is not at.right}


def _dot(row: list[Term], column: list[Term]) -> Term:
    pairs = zip(row, column, strict=True)
    parts = [_mul(a, b) for a, b in pairs if a is not T.ZERO and b is not T.ZERO]
    return _add(*parts) if len(parts) > 1 else (*parts, T.ZERO)[0]


def moments(degree: int) -> Action:
    """Powers of the distance from a centre, up to a degree: moved by the binomial theorem."""

    def power(x: Term, n: int) -> Term:
        return T.ONE if n == 0 else _power(x, n)

    def move(r: Term, s: Term) -> list[list[Term]]:
        return [
            [
                _mul(T.const(math.comb(i, j), "float"), power(_sub(r, s), i - j))
                if j <= i
                else T.ZERO
                for j in range(degree + 1)
            ]
            for i in range(degree + 1)
        ]

    return Action(lambda x, r: [power(_sub(x, r), n) for n in range(degree + 1)], move)


def _entropy_move(r: Term, s: Term) -> list[list[Term]]:
    scale = _exp(_sub(r, s))
    return [[scale, T.ZERO], [_mul(_sub(r, s), scale), scale]]


def _weights(x: Term, r: Term) -> list[Term]:
    weight = _exp(_sub(x, r))
    return [weight, _mul(_sub(x, r), weight)]


law(
    "moments",
    "sums of powers about one centre give those about another (Welford, Chan)",
    **moments(4).identities(),
    about_the_mean=Identity(
        _sub(_x, _mul(_x, _power(_n, -1), _n)), T.ZERO, T.compare("!=", _n, T.ZERO)
    ),
)
law(
    "entropy",
    "sums of exp(x - r) and of (x - r) exp(x - r) move together: exp(-r) [[1, 0], [-r, 1]]",
    **Action(_weights, _entropy_move).identities(),
)
