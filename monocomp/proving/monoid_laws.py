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
from functools import partial, reduce
from typing import TypeAlias

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.display.formulas import Formula, chain, group, infix, listed, name, number, sentence
from monocomp.proving.identities import Claim, Identity, Terms, where
from monocomp.proving.prover import Plan
from monocomp.proving.reading import compared
from monocomp.terms import Term, UserMonoid
from monocomp.terms.algebra import SE_PAIR, embed, first_position, of_one_field, settled
from monocomp.terms.nodes import intern
from monocomp.terms.printer import formula as term

# An element, "unit", or a pair of products that are combined.
Product: TypeAlias = "str | tuple[Product, Product]"
_MOST_FORMS = 20  # as many excuses of a size, and restrictions, are tried


def formula(p: Product) -> Formula:
    """Return a product as a formula."""
    if isinstance(p, str):
        return name(p)
    left, right = (name(q) if isinstance(q, str) else group(formula(q)) for q in p)
    return infix(".", left, right)


@record()
class Carrier:
    """The tuples of a monoid: of reals, of those >= 0 in some fields, and infinite units."""

    monoid: UserMonoid
    nonnegative: frozenset[str] = frozenset()

    @property
    def units(self) -> dict[str, Term]:
        """Return the unit by its fields."""
        return dict(zip(self.monoid.fields, self.monoid.unit, strict=True))

    def parameter(self, name: str, field: str) -> Term:
        """Return a field of an element."""
        return T.param(f"{name}.{field}", "bool" if self.units[field].kind == "bool" else "float")

    def element(self, name: str) -> Terms:
        """Return an arbitrary element."""
        return tuple(self.parameter(name, f) for f in self.monoid.fields)

    def value(self, p: Product) -> Terms:
        """Return the fields of a product."""
        if isinstance(p, str):
            return self.monoid.unit if p == "unit" else self.element(p)
        left, right = map(self.value, p)
        operands = dict(zip(self.monoid.fields, left, strict=True))
        operands |= {f"{f}'": x for f, x in zip(self.monoid.fields, right, strict=True)}
        memo: dict[Term, Term] = {}
        return tuple(_put_in(t, operands, memo) for t in self.monoid.combine)

    def identity(
        self, shown: tuple[Formula, ...], left: Terms, right: Terms, *needs: Term
    ) -> Identity:
        """Return an identity about the elements that it names."""
        named = {part.attr for side in shown for part in side.walk()}
        operands = {n: self.element(n) for n in "xyz" if n in named}
        units = [(n, f, u) for n in operands for f, u in self.units.items()]
        infinite = {f"{n}.{f}": u.attr for n, f, u in units if is_infinite(u)}
        restricted = (self.parameter(n, f) for n, f, _ in units if f in self.nonnegative)
        signs = (compared("<=", T.ZERO, x) for x in restricted)
        condition = T.conjunction(*signs, *needs)
        return Identity(left, right, shown, condition, infinite, operands)

    def equal(self, left: Product, right: Product, *needs: Term) -> Identity:
        """Return the identity of two products."""
        shown = formula(left), formula(right)
        return self.identity(shown, self.value(left), self.value(right), *needs)

    def claim(self, law: str, identity: Identity) -> Claim:
        """Return the claim that an identity holds."""
        return Claim(law, sentence(chain("=", *identity.shown), *self.condition), (identity,))

    @property
    def condition(self) -> tuple[Formula | str, ...]:
        """Return the end of a sentence that says the restriction."""
        fields = (f for f in self.monoid.fields if f in self.nonnegative)
        return tuple(where(chain(">=", name(f), number("0")) for f in fields))

    @property
    def laws(self) -> Iterator[list[Claim]]:
        """Yield the laws, each with its forms, the strongest first."""
        yield [closed(self)]
        yield [self.claim("associative", self.equal((("x", "y"), "z"), ("x", ("y", "z"))))]
        yield unit_claims(self, on_the_left=True)
        yield unit_claims(self, on_the_left=False)
        yield [self.claim("commutative", self.equal(("x", "y"), ("y", "x")))]
        if self.monoid == SE_PAIR:
            yield [tile(self)]


def plans(m: UserMonoid, nonnegative: Iterable[str]) -> Iterator[Plan]:
    """Yield the laws on carriers with fewer and fewer elements."""
    for carrier in carriers(m, frozenset(nonnegative)):
        yield [(m.name, forms) for forms in carrier.laws]


def carriers(m: UserMonoid, nonnegative: frozenset[str]) -> Iterator[Carrier]:
    """Yield carriers, those with the weakest restrictions first."""
    units = Carrier(m).units
    possible = [f for f, u in units.items() if f in nonnegative and T.is_nonnegative(u)]
    for fields in itertools.islice(_subsets(possible, len(possible)), _MOST_FORMS):
        yield Carrier(m, frozenset(fields))


def _subsets(fields: list[str], largest: int) -> Iterator[tuple[str, ...]]:
    for size in range(largest + 1):
        yield from itertools.islice(itertools.combinations(fields, size), _MOST_FORMS)


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


def closed(c: Carrier) -> Claim:
    """Combinations are in the carrier, without which the other laws say little."""

    def kept(field: str, unit: Term, x: Term) -> Term:
        """Equal to x if that is in the carrier: x + 0 * x is undefined unless x is finite."""
        if unit.kind == "bool":
            return x
        sized = T.inert("maximum", x, T.ZERO) if field in c.nonnegative else x
        finite = T.inert("add", sized, T.inert("mul", T.ZERO, x))
        is_unit = compared("==", x, unit)
        return T.inert("where", is_unit, x, finite) if is_infinite(unit) else finite

    values = c.value(("x", "y"))
    right = tuple(kept(*at, x) for at, x in zip(c.units.items(), values, strict=True))
    product = formula(("x", "y"))
    said = " is finite" + "".join(f", with {f} >= 0" for f in sorted(c.nonnegative))
    said += ", or infinite as in the unit" if any(map(is_infinite, c.monoid.unit)) else ""
    statement = sentence(product, said, *c.condition)
    return Claim("closed", statement, (c.identity((product,), values, right),))


def neutral(c: Carrier, on_the_left: bool, excuses: Iterable[str] = ()) -> Claim:
    """Claim that the unit changes no element.

    Where a field in `excuses` has its unit's value, it may change the element to one that is
    interchangeable with it: the unit commutes with such an element, and is idempotent, so that
    units in a product can be moved together and merged.
    """
    product: Product = ("unit", "x") if on_the_left else ("x", "unit")
    excused = {f: (c.parameter("x", f), u) for f, u in c.units.items() if f in excuses}
    parts = [c.equal(product, "x", *(compared("!=", *pair) for pair in excused.values()))]
    interchangeable: list[tuple[Product, Product]] = [
        (("unit", "x"), ("x", "unit")),
        (("unit", "unit"), "unit"),
        ((product, "y"), ("x", "y")),
        (("y", product), ("y", "x")),
    ]
    for pair in excused.values():
        parts += [c.equal(*sides, compared("==", *pair)) for sides in interchangeable]
    shown = formula(product)
    said = [chain("=", shown, name("x")), *c.condition]
    for n, (f, (_, unit)) in enumerate(excused.items()):
        said += [" or " if n else ", unless ", chain("=", name(f), term(unit))]
    if excused:
        said += [": then ", shown, " and x are equal in all products"]
    return Claim("left unit" if on_the_left else "right unit", sentence(*said), tuple(parts))


def unit_claims(c: Carrier, on_the_left: bool) -> list[Claim]:
    """Return neutrality, and then its weaker forms, which excuse infinite fields first."""
    fields = sorted(c.monoid.fields, key=lambda f: not is_infinite(c.units[f]))
    return [neutral(c, on_the_left, excuses) for excuses in _subsets(fields, 3)]


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
    product: Product = (("x", "y"), "z")
    shown = formula(product), sentence("tile of ", listed(map(name, "xyz"), ", "))
    return c.claim("tile", c.identity(shown, c.value(product), at_once))
