"""The laws of monoids on tuples.

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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce

from monocomp import terms as T
from monocomp.proving.identities import Claim, Identity, Terms, without_braces
from monocomp.terms import Term, UserMonoid
from monocomp.terms.algebra import SE_PAIR, embed, first_position, of_one_field, settled
from monocomp.terms.nodes import intern


@dataclass(frozen=True)
class Carrier:
    """The tuples of a monoid: of reals, of those >= 0 in some fields, and infinite units."""

    monoid: UserMonoid
    nonnegative: frozenset[str] = frozenset()

    def element(self, name: str) -> Terms:
        """Return an arbitrary element."""
        pairs = zip(self.monoid.fields, self.monoid.unit, strict=True)
        return tuple(
            T.param(f"{name}.{f}", "bool" if u.kind == "bool" else "float") for f, u in pairs
        )

    def combine(self, a: Terms, b: Terms) -> Terms:
        """a . b"""
        fields = self.monoid.fields
        operands = dict(zip(fields, a, strict=True))
        operands |= {f"{f}'": x for f, x in zip(fields, b, strict=True)}
        memo: dict[Term, Term] = {}
        return tuple(_put_in(t, operands, memo) for t in self.monoid.combine)

    def identity(self, texts: tuple[str, str], left: Terms, right: Terms, *given: Term) -> Identity:
        """Return an identity about the elements that its texts name."""
        units = dict(zip(self.monoid.fields, self.monoid.unit, strict=True))
        infinite = {f"{n}.{f}": u.attr for n in "xyz" for f, u in units.items() if is_infinite(u)}
        operands = {n: self.element(n) for n in "xyz" if "{" + n + "}" in texts[0]}
        signs = [
            _compared("<=", T.ZERO, x)
            for element in operands.values()
            for f, x in zip(units, element, strict=True)
            if f in self.nonnegative
        ]
        operands["unit"] = self.monoid.unit
        return Identity(left, right, T.conjunction(*signs, *given), infinite, texts, operands)

    def claim(self, name: str, texts: tuple[str, str], left: Terms, right: Terms) -> Claim:
        """Return the claim that an identity holds."""
        statement = " = ".join(map(without_braces, texts))
        return Claim(name, statement + self.condition, (self.identity(texts, left, right),))

    @property
    def condition(self) -> str:
        """The restriction as text."""
        fields = [f for f in self.monoid.fields if f in self.nonnegative]
        return ", for " + " and ".join(f"{f} >= 0" for f in fields) if fields else ""


def is_infinite(t: Term) -> bool:
    """True if a unit is infinite."""
    return t.op == "const" and isinstance(t.attr, float) and math.isinf(t.attr)


def _put_in(t: Term, operands: Mapping[str, Term], memo: dict[Term, Term]) -> Term:
    """Replace parameters, and leave the operations as they are."""
    if t.op == "param":
        return operands[t.attr]
    if t not in memo:
        args = tuple(_put_in(a, operands, memo) for a in t.args)
        memo[t] = intern(t.op, args, t.attr, t.kind)
    return memo[t]


def _compared(op: str, a: Term, b: Term) -> Term:
    return intern("compare", (a, b), op, "bool")


def associative(c: Carrier) -> Claim:
    """All bracketings agree."""
    x, y, z = map(c.element, "xyz")
    left, right = c.combine(c.combine(x, y), z), c.combine(x, c.combine(y, z))
    return c.claim("associative", ("({x} . {y}) . {z}", "{x} . ({y} . {z})"), left, right)


def commutative(c: Carrier) -> Claim:
    """All orders agree."""
    x, y = map(c.element, "xy")
    texts = "{x} . {y}", "{y} . {x}"
    return c.claim("commutative", texts, c.combine(x, y), c.combine(y, x))


def closed(c: Carrier) -> Claim:
    """What is combined again is in the carrier, without which the other laws say little."""

    def kept(field: str, unit: Term, x: Term) -> Term:
        """Equal to x if that is in the carrier: x + 0 * x is undefined unless x is finite."""
        if unit.kind == "bool":
            return x
        sized = T.inert("maximum", x, T.ZERO) if field in c.nonnegative else x
        finite = T.inert("add", sized, T.inert("mul", T.ZERO, x))
        return (
            T.inert("where", _compared("==", x, unit), x, finite) if is_infinite(unit) else finite
        )

    values = c.combine(c.element("x"), c.element("y"))
    right = tuple(map(kept, c.monoid.fields, c.monoid.unit, values))
    signs = "".join(f", with {f} >= 0" for f in sorted(c.nonnegative))
    infinities = ", or infinite as in the unit" if any(map(is_infinite, c.monoid.unit)) else ""
    part = c.identity(("{x} . {y}", ""), values, right)
    return Claim("closed", f"x . y is finite{signs}{infinities}{c.condition}", (part,))


def neutral(c: Carrier, on_the_left: bool, excuses: tuple[str, ...] = ()) -> Claim:
    """The unit changes no element.

    Where a field in `excuses` has its unit's value, it may change the element to one that
    is interchangeable with it.
    """
    x, unit = c.element("x"), c.monoid.unit
    text = "{unit} . {x}" if on_the_left else "{x} . {unit}"
    product = c.combine(unit, x) if on_the_left else c.combine(x, unit)
    positions = [n for n, f in enumerate(c.monoid.fields) if f in excuses]
    differs = [_compared("!=", x[n], unit[n]) for n in positions]
    parts = [c.identity((text, "{x}"), product, x, *differs)]
    for n in positions:
        parts += _interchangeable(c, product, text, _compared("==", x[n], unit[n]))
    plain = without_braces(text)
    statement = f"{plain} = x{c.condition}"
    if excuses:
        values = " or ".join(f"{c.monoid.fields[n]} = {T.show(unit[n])}" for n in positions)
        statement += f", unless {values}: then {plain} and x are equal in all products"
    return Claim("left unit" if on_the_left else "right unit", statement, tuple(parts))


def _interchangeable(c: Carrier, product: Terms, text: str, given: Term) -> Iterator[Identity]:
    """With u = unit . x: u . y = x . y and y . u = y . x; the unit commutes with x, and is
    idempotent, so that units in a product can be moved together and merged."""
    x, y, unit, dot = c.element("x"), c.element("y"), c.monoid.unit, c.combine
    pairs = {
        ("{unit} . {x}", "{x} . {unit}"): (dot(unit, x), dot(x, unit)),
        ("{unit} . {unit}", "{unit}"): (dot(unit, unit), unit),
        (f"({text}) . {{y}}", "{x} . {y}"): (dot(product, y), dot(x, y)),
        (f"{{y}} . ({text})", "{y} . {x}"): (dot(y, product), dot(y, x)),
    }
    for texts, sides in pairs.items():
        yield c.identity(texts, *sides, given)


def unit_claims(c: Carrier, on_the_left: bool) -> Iterator[Claim]:
    """Neutrality, and then its weaker forms, infinite fields first."""
    yield neutral(c, on_the_left)
    infinite = [f for f, u in zip(c.monoid.fields, c.monoid.unit, strict=True) if is_infinite(u)]
    fields = [*infinite, *(f for f in c.monoid.fields if f not in infinite)]
    for size in (1, 2, 3):
        for chosen in itertools.islice(itertools.combinations(fields, size), 20):
            yield neutral(c, on_the_left, chosen)


def restricted(m: UserMonoid, nonnegative: Iterable[str]) -> Iterator[Carrier]:
    """Yield carriers with fewer elements: the weakest restrictions first."""
    pairs = zip(m.fields, m.unit, strict=True)
    possible = [f for f, unit in pairs if f in nonnegative and T.is_nonnegative(unit)]
    sizes = range(1, len(possible) + 1)
    subsets = (s for size in sizes for s in itertools.combinations(possible, size))
    for fields in itertools.islice(subsets, 16):
        yield Carrier(m, frozenset(fields))


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
    pairs = list(map(c.element, "xyz"))
    top = reduce(partial(T.function, "maximum"), (frame for _, frame in pairs))
    at_once = T.add(*(embed(settled(top), *pair) for pair in pairs)), top
    texts = "({x} . {y}) . {z}", "tile of {x}, {y}, {z}"
    return c.claim("tile", texts, reduce(c.combine, pairs), at_once)
