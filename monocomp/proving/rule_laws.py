"""The laws that procedures rest on, as identities between terms.

A procedure names them (`Claims:` in its docstring). Its law about a whole fold follows from the
identities by induction over the elements: that `sum(a * x) = a * sum(x)`, from
`a * (x + y) = a * x + a * y` and `0 * a = 0`. Each identity is proved by sympy, case by case, on
symbols for its parameters, once, and is remembered by its text (`proofs`). It is written in the
operations of the language, in which a condition counts as 0 or 1. An equation that is a rule
(`rewriting.equations`) stands here as well, under its own name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent

from monocomp.declarations.record import record
from monocomp.proving.identities import Claim, claim_of


@record()
class RuleLaw:
    """A law that rules may name.

    Attributes:
        name: what rules call it.
        about: how it gives what the rules say, in one line.
        texts: everything that it says; a proof is remembered by this.
        claims: makes the claims that are to be proved.
    """

    name: str
    about: str
    texts: tuple[str, ...]
    claims: Callable[[], list[Claim]]


RULE_LAWS: dict[str, RuleLaw] = {}
EVERYWHERE = "arithmetic"  # what no rule names, as every term rests on it
FOLDED = (
    "the monoids of its folds"  # a claim without laws: a program's folds are checked as a whole
)


def laws(text: str) -> None:
    """Add laws to the registry, with blank lines between them: a name and what it is about, and
    then, further right, identities with names. A line that is further right still continues one."""
    for block in re.split(r"\n\s*\n", dedent(text).strip()):
        joined = re.sub(r"\n {8}\s*", " ", block).splitlines()
        (name, about), *named = (line.strip().split(": ", 1) for line in joined)
        add_law(name, about, dict(named))


def add_law(name: str, about: str, identities: dict[str, str]) -> None:
    """Add a law that is made of identities."""
    RULE_LAWS[name] = RuleLaw(
        name,
        about,
        tuple(identities.values()),
        lambda: [claim_of(part, text) for part, text in identities.items()],
    )


laws(f"""
    {FOLDED}: partial folds may be merged in any bracketing

    distributivity: a factor leaves a sum, by induction over its elements
        product over sum: a * (x + y) = a * x + a * y
        product with the unit: 0 * a = 0
        a sum of equals: a * (n + 1) = a * n + a

    saved logarithms: a weight over a sum is the exponential of its distance from the logarithm
            of that
        share: exp(s) / x = exp(s - log(x)) for 0 < x
        sum: x = exp(log(x)) for 0 < x

    interchange: folds of a commutative monoid are taken in any order, and a fold of a . b is the
            fold of a . the fold of b
        sum: (a + b) + (x + y) = (a + x) + (b + y)
        prod: (a * b) * (x * y) = (a * x) * (b * y)
        max: maximum(maximum(a, b), maximum(x, y)) = maximum(maximum(a, x), maximum(b, y))
        min: minimum(minimum(a, b), minimum(x, y)) = minimum(minimum(a, x), minimum(b, y))

    scaling: a positive factor leaves a maximum or minimum
        maximum: a * maximum(x, y) = maximum(a * x, a * y) for 0 < a
        minimum: a * minimum(x, y) = minimum(a * x, a * y) for 0 < a

    increasing functions: they keep the order of elements, so a choice by order is the same before
            and after
        exponential: exp(x) < exp(y) = x < y
        maximum of exponentials: maximum(exp(x), exp(y)) = exp(maximum(x, y))
        minimum of exponentials: minimum(exp(x), exp(y)) = exp(minimum(x, y))

    brackets: a condition that holds anyway need not be said
        factor: where(c, c * x, u) = where(c, x, u)
        branch: where(c, where(c, x, y), u) = where(c, x, u)
        conjunct: where(c, c and p, u) = where(c, p, u)
        choice: where(c, x, y) = c * x + (not c) * y
        complement: x - c * x = (not c) * x for finite x

    units: an element that is the unit can be left out, and a masked one is the unit
        sum: x + 0 = x
        max: maximum(x, -inf) = x
        min: minimum(x, inf) = x
        bracket: c * x = where(c, x, 0)
        masked factor: a * where(c, x, 0) = where(c, a * x, 0)
        masked addend: a + where(c, x, -inf) = where(c, a + x, -inf)
        logarithm of nothing: log(0) + a = log(0)
        chosen addend: x + c * a = where(c, x + a, x)

    one point: a sum of which one element is admitted is that element, by induction over the others
        first or second: where(a == x, u, 0) + where(a == y, v, 0)
            = where(a == x, u, where(a == y, v, 0)) for x != y

    common factors: what addends share leaves a logarithm, an absolute value or a relu; powers:
            arithmetic
        logarithm: log(exp(a) * x) = a + log(x) for 0 < x
        absolute value: abs(a * x) = a * abs(x) for 0 < a
        relu: relu(a * x) = a * relu(x) for 0 < a

    division with remainder: a number is b times its quotient and a remainder below b, in one way:
            an index is two, and lies in one of the parts that cover a stream
        quotient and remainder: b * (n // b) + n % b = n for 0 < b and finite b, n
        a larger quotient is of a larger number: minimum(b * m + y, b * (m + 1 + n) + x) = b * m + y
            for 0 <= n and 0 <= x and 0 < b and y < b
        parts rounded up cover: minimum((n * m + r + 1) - n, n * m) = (n * m + r + 1) - n
            for r + 1 <= n

    scaled numbers: a pair (v, m) stands for exp(m) v, and adding pairs adds what they stand for
        sum of pairs: exp(maximum(m, n)) * (exp(m - maximum(m, n)) * v + exp(n - maximum(m, n)) * u)
            = exp(m) * v + exp(n) * u
        element: exp(s) * v = exp(m) * (v * exp(s - m)) for finite m
        shift of a frame: (a + s) - (a + m) = s - m for finite a
        sigmoid: exp(minimum(x, 0)) * sigmoid(abs(x)) = sigmoid(x)

    {EVERYWHERE}: what the constructors of terms do: powers, roots, logarithms and exponentials
        inverse: x * x ** -1 = 1 for x != 0
        powers: x ** 2 * x ** 3 = x ** 5
        power of a product: (x * y) ** 2 = x ** 2 * y ** 2
        root of a square: (x ** 2) ** 0.5 = abs(x)
        log of exp: log(exp(x)) = x
        log of a product: log(exp(a) * exp(b)) = a + b
        power in an exponent: exp(2 * log(a)) = a ** 2 for 0 < a
        sum in an exponent: exp(a + b) = exp(a) * exp(b)

    moments: sums of powers about one centre give those about another (Welford, Chan)
        shift: x - s = (x - r) + (r - s) for finite r, s
        square: (x - s) ** 2 = (x - r) ** 2 + 2 * (r - s) * (x - r) + (r - s) ** 2 for finite r, s
        cube: (x - s) ** 3 = (x - r) ** 3 + 3 * (r - s) * (x - r) ** 2 + 3 * (r - s) ** 2 * (x - r)
            + (r - s) ** 3 for finite r, s
        fourth power: (x - s) ** 4 = (x - r) ** 4 + 4 * (r - s) * (x - r) ** 3
            + 6 * (r - s) ** 2 * (x - r) ** 2 + 4 * (r - s) ** 3 * (x - r) + (r - s) ** 4
            for finite r, s
        about the mean: x - x / n * n = 0 for n != 0 and finite x
""")
# A merge compares and nothing else, so it commutes with monotone maps, and two merges agree on all
# inputs if they agree on zeros and ones (the 0-1 principle, Knuth, volume 3, 5.3.4). Of zeros and
# ones the r largest are known by the number of ones among them: a list is a number 0 <= x <= r, and
# x . y = minimum(x + y, r).
laws("""
    top: the r first of a total order, when the r first of parts are merged; by counts of ones
        closed: minimum(x + y, r) = minimum(maximum(x + y, 0), r) for 0 <= x and 0 <= y and 0 <= r
        left unit: minimum(0 + x, r) = x for x <= r
        associative: minimum(minimum(x + y, r) + z, r) = minimum(x + minimum(y + z, r), r)
            for 0 <= x and 0 <= z
        commutative: minimum(x + y, r) = minimum(y + x, r)
""")
