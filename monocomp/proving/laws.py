"""The laws of monoids on tuples as claims.

A fold may be cut into tiles, blocks and devices when the combine is associative and the
unit neutral.

The carrier of a monoid is made of tuples of real numbers. A field whose unit is infinite
may be that infinity as well. A field may be restricted to numbers >= 0; this is how counts
work, since a merge of counted means is no monoid where counts cancel.

One tuple can have other names: an SE pair (v, -inf) is 0 for every v. A field that has
its unit's value may thus excuse an element from `unit . x = x`; instead, `unit . x` and x
must then be interchangeable in all products. With associativity this is enough: a product
with a unit in it does not depend on the brackets, nor on how many units there are or where.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from typing import Any

from monocomp import terms as T
from monocomp.proving.claims import (
    Claim,
    Lazy,
    Operands,
    Sides,
    Values,
    shown_value,
    without_braces,
)
from monocomp.proving.extended_reals import (
    Cases,
    ContradictionError,
    UnsupportedTermError,
    Value,
    is_finite,
)
from monocomp.proving.rule_laws import identity
from monocomp.proving.sampling import Sample
from monocomp.terms import Term, UserMonoid
from monocomp.terms.algebra import SE_PAIR, embed, first_position, of_one_field, settled

# --- monoids on tuples ----------------------------------------------------------------


@dataclass(frozen=True)
class Carrier:
    """The tuples of a monoid: of reals, of those >= 0 in some fields, and infinite units."""

    monoid: UserMonoid
    unit: Values
    nonnegative: frozenset[str] = frozenset()

    def element(self, cases: Cases, name: str, shown: Operands) -> Values:
        """An arbitrary element."""

        def value(n: int) -> Value:
            unit, field = self.unit[n], self.monoid.fields[n]
            if isinstance(unit, bool):
                return bool(cases.choose(2))
            infinity = unit if isinstance(unit, float) and math.isinf(unit) else None
            return cases.extended(f"{name}.{field}", infinity, field in self.nonnegative)

        shown[name] = Lazy(len(self.unit), value)
        return shown[name]

    def unit_of(self, cases: Cases) -> Values:
        """The unit in the case's arithmetic."""
        return Lazy(len(self.unit), lambda n: cases.evaluate(self.monoid.unit[n], {}))

    def combine(self, cases: Cases, a: Values, b: Values) -> Values:
        """a . b"""
        names = list(enumerate(self.monoid.fields))
        given = _Given({f: (a, n) for n, f in names} | {f + "'": (b, n) for n, f in names})
        memo: dict[Term, Value] = {}
        combine = self.monoid.combine
        return Lazy(len(combine), lambda n: cases.evaluate(combine[n], given, memo))

    @property
    def condition(self) -> str:
        """The restriction as text."""
        fields = [f for f in self.monoid.fields if f in self.nonnegative]
        return ", for " + " and ".join(f"{f} >= 0" for f in fields) if fields else ""


class _Given(dict[str, Any]):
    """The parameters of `combine`, looked up late: x is the left operand's field, x' the right
    one's."""

    def __getitem__(self, name: str) -> Value:
        values, n = super().__getitem__(name)
        return values[n]


def associative(c: Carrier) -> Claim:
    """All bracketings agree."""

    def check(cases: Cases, shown: Operands) -> Sides:
        x, y, z = (c.element(cases, name, shown) for name in "xyz")
        left = c.combine(cases, c.combine(cases, x, y), z)
        return Sides(left, c.combine(cases, x, c.combine(cases, y, z)))

    return Claim("associative", "({x} . {y}) . {z}", "{x} . ({y} . {z})", check, c.condition)


def commutative(c: Carrier) -> Claim:
    """All orders agree."""

    def check(cases: Cases, shown: Operands) -> Sides:
        x, y = (c.element(cases, name, shown) for name in "xy")
        return Sides(c.combine(cases, x, y), c.combine(cases, y, x))

    return Claim("commutative", "{x} . {y}", "{y} . {x}", check, c.condition)


def idempotent(c: Carrier) -> Claim:
    """An element may be folded twice."""

    def check(cases: Cases, shown: Operands) -> Sides:
        x = c.element(cases, "x", shown)
        return Sides(c.combine(cases, x, x), x)

    return Claim("idempotent", "{x} . {x}", "{x}", check, c.condition)


def closed(c: Carrier) -> Claim:
    """What is combined again is in the carrier, without which the other laws say little."""

    def kept(cases: Cases, n: int, x: Value) -> Value:
        unit = c.unit[n]
        if isinstance(unit, bool):
            return x
        if not is_finite(x):
            return x if not is_finite(unit) and x == unit else math.nan
        free = c.monoid.fields[n] not in c.nonnegative
        return x if free or not cases.less(x, cases.number(Fraction(0))) else math.nan

    def check(cases: Cases, shown: Operands) -> Sides:
        x, y = (c.element(cases, name, shown) for name in "xy")
        values = c.combine(cases, x, y)
        return Sides(values, Lazy(len(values), lambda n: kept(cases, n, values[n])))

    kept_too = "".join(f", with {f} >= 0" for f in sorted(c.nonnegative))
    infinities = "" if all(map(is_finite, c.unit)) else ", or infinite as in the unit"
    condition = f" is finite{kept_too}{infinities}{c.condition}"
    return Claim("closed", "{x} . {y}", "", check, condition)


def neutral(c: Carrier, on_the_left: bool, excuses: tuple[str, ...] = ()) -> Claim:
    """The unit changes no element.

    Where a field in `excuses` has its unit's value, it may change the element to one that
    is interchangeable with it.
    """
    positions = [n for n, f in enumerate(c.monoid.fields) if f in excuses]

    def check(cases: Cases, shown: Operands) -> Sides:
        unit, x = c.unit_of(cases), c.element(cases, "x", shown)
        shown["unit"] = unit
        which = cases.choose(1 + len(positions))
        if which == 0:
            for n in positions:
                cases.assume(not cases.equal(x[n], unit[n]))
            return Sides(c.combine(cases, *((unit, x) if on_the_left else (x, unit))), x)
        n = positions[which - 1]
        cases.assume(cases.equal(x[n], unit[n]))
        return _interchangeable(c, cases, on_the_left, x, unit, shown)

    name, left = ("left unit", "{unit} . {x}") if on_the_left else ("right unit", "{x} . {unit}")
    condition = c.condition
    if excuses:
        values = " or ".join(
            f"{c.monoid.fields[n]} = {shown_value(c.unit[n], 6)}" for n in positions
        )
        product = without_braces(left)
        condition += f", unless {values}: then {product} and x are equal in all products"
    return Claim(name, left, "{x}", check, condition)


def _interchangeable(
    c: Carrier, cases: Cases, on_the_left: bool, x: Values, unit: Values, shown: Operands
) -> Sides:
    """With u = unit . x: u . y = x . y and y . u = y . x; the unit commutes with x, and is
    idempotent, so that units in a product can be moved together and merged."""

    def dot(a: Values, b: Values) -> Values:
        return c.combine(cases, a, b)

    one, text = (
        (dot(unit, x), "({unit} . {x})") if on_the_left else (dot(x, unit), "({x} . {unit})")
    )
    match cases.choose(4):
        case 0:
            return Sides(dot(unit, x), dot(x, unit), "{unit} . {x}", "{x} . {unit}")
        case 1:
            return Sides(dot(unit, unit), unit, "{unit} . {unit}", "{unit}")
        case 2:
            y = c.element(cases, "y", shown)
            return Sides(dot(one, y), dot(x, y), text + " . {y}", "{x} . {y}")
    y = c.element(cases, "y", shown)
    return Sides(dot(y, one), dot(y, x), "{y} . " + text, "{y} . {x}")


def unit_claims(c: Carrier, on_the_left: bool) -> Iterator[Claim]:
    """Neutrality, and then its weaker forms, infinite fields first."""
    yield neutral(c, on_the_left)
    infinite = [f for f, u in zip(c.monoid.fields, c.unit, strict=True) if not is_finite(u)]
    fields = [*infinite, *(f for f in c.monoid.fields if f not in infinite)]
    for size in (1, 2, 3):
        for chosen in itertools.islice(itertools.combinations(fields, size), 20):
            yield neutral(c, on_the_left, chosen)


def carrier_of(m: UserMonoid) -> Carrier:
    """All tuples of real numbers, and infinities where the unit has them."""

    def value(t: Term) -> Value:
        try:
            return Sample(0, Sample.NICE).evaluate(t, {})
        except (ContradictionError, UnsupportedTermError):
            return Fraction(0)  # stands for a finite number; no proof about it will succeed

    return Carrier(m, tuple(map(value, m.unit)))


def restricted(c: Carrier, nonnegative: Iterable[str]) -> Iterator[Carrier]:
    """The carrier with fewer elements: the weakest restrictions first."""
    zero = Fraction(0)
    possible = [
        f
        for f, unit in zip(c.monoid.fields, c.unit, strict=True)
        if f in nonnegative and (unit >= zero if is_finite(unit) else unit > 0)
    ]
    sizes = range(1, len(possible) + 1)
    subsets = (s for size in sizes for s in itertools.combinations(possible, size))
    for fields in itertools.islice(subsets, 16):
        yield replace(c, nonnegative=frozenset(fields))


# --- built-in monoids -----------------------------------------------------------------


BUILT_IN: dict[str, UserMonoid] = {
    m.name: m
    for m in (
        *map(of_one_field, ("sum", "prod", "max", "min")),
        *(of_one_field(name, "bool") for name in ("any", "all")),
        *map(first_position, ("argmax", "argmin")),
        SE_PAIR,
    )
}

# What the other reductions are folded with; `elaboration` defines them so.
RESTS_ON: dict[str, tuple[str, ...]] = {
    "mean": ("sum",),
    "var": ("sum",),
    "logsumexp": (SE_PAIR.name, "max", "sum"),
    "softmax": (SE_PAIR.name, "max", "sum"),
    "log_softmax": (SE_PAIR.name, "max", "sum"),
    "argtop": ("top",),
}


def tile(c: Carrier) -> Claim:
    """A tile of pairs in SE is folded at once, each element written in the largest frame."""
    values, frames = ([T.param(f"{n}{x}", "float") for x in "xyz"] for n in "vm")
    top = reduce(partial(T.function, "maximum"), frames)
    at_once = (T.add(*map(partial(embed, settled(top)), values, frames)), top)

    def check(cases: Cases, shown: Operands) -> Sides:
        pairs = [c.element(cases, name, shown) for name in "xyz"]
        given = _Given(
            {
                f"{n}{x}": (p, k)
                for x, p in zip("xyz", pairs, strict=True)
                for k, n in enumerate("vm")
            }
        )
        folded = reduce(partial(c.combine, cases), pairs)
        return Sides(folded, Lazy(2, lambda n: cases.evaluate(at_once[n], given)))

    return Claim("tile", "({x} . {y}) . {z}", "tile of {x}, {y}, {z}", check)


def top_claims() -> list[Claim]:
    """Keeping the r first of a total order, when the parts' r first are merged.

    A merge compares and nothing else, so it commutes with monotone maps, and two merges
    agree on all inputs if they agree on zeros and ones (the 0-1 principle, Knuth, volume
    3, 5.3.4). Of zeros and ones the r largest are known by the number of ones among them:
    a list is a number 0 <= x <= r, and x . y = minimum(x + y, r).
    """

    of_ones = " and ".join(f"0 <= {n} and {n} <= r" for n in "xyz")
    where = ", for 0 <= x, y, z <= r (counts of ones)"
    found = {
        "closed": "minimum(x + y, r) = minimum(maximum(x + y, 0), r)",
        "left unit": "minimum(0 + x, r) = x",
        "associative": "minimum(minimum(x + y, r) + z, r) = minimum(x + minimum(y + z, r), r)",
        "commutative": "minimum(x + y, r) = minimum(y + x, r)",
    }
    claims = [identity(f"{text} for {of_ones}").claim(name) for name, text in found.items()]
    closed, *others = (replace(c, condition=where) for c in claims)
    return [replace(closed, right="", condition=f" is in 0 ... r{where}"), *others]
