"""The laws that every bracketing rests on, proved for each monoid before it is used.

A fold may be cut into tiles, blocks and devices when the combine is associative and the
unit neutral; a framed monoid (`algebra`) may fold a tile straight into the joined frame
when moving is an action that agrees with embedding. Each law is a `Claim`: an equation
with operands. It is evaluated on symbols, case by case, and proved by sympy's expansion
(`case_analysis`), or evaluated on numbers and refuted (`extended_reals.Sample`). A law
that is neither is not proved, and its monoid is refused like one that fails.

The carrier of a monoid is made of tuples of real numbers. A field whose unit is infinite
may be that infinity as well. A field may be restricted to numbers >= 0 when every element
that a program folds visibly is (`elements`); this is how counts work, since a merge of
counted means is no monoid where counts cancel.

One tuple can have other names: an SE pair (v, -inf) is 0 for every v. A field that has
its unit's value may thus excuse an element from `unit . x = x`; instead, `unit . x` and x
must then be interchangeable in all products. With associativity this is enough: a product
with a unit in it does not depend on the brackets, nor on how many units there are or where.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import TypeAlias, TypeVar

from monocomp import terms as T
from monocomp.algebra import SE, SE_PAIR, FramedMonoid, settled
from monocomp.cache import JsonStore
from monocomp.case_analysis import (
    OutOfTimeError,
    Path,
    UnprovedError,
    clock,
    for_all_cases,
    to_sympy,
)
from monocomp.errors import InternalError, MonoidLawError, Span
from monocomp.extended_reals import (
    Cases,
    ContradictionError,
    Sample,
    UnsupportedTermError,
    Value,
    is_finite,
)
from monocomp.printer import number_text, show
from monocomp.program import Equations
from monocomp.syntax import Kind
from monocomp.terms import Term, UserMonoid

__all__ = [
    "Law",
    "certificate",
    "certify",
    "is_proved",
    "prove_builtin",
    "prove_framed",
    "prove_monoid",
    "require",
    "require_program",
    "to_sympy",
]

PROVER_VERSION = 1  # part of what results are remembered under; raise it with every change
TIME_LIMIT = 10.0  # seconds for one law

FACTS = ("commutative",)  # worth knowing, and no obligation

_QUICK, _LONG = 60, 3000  # numbers of samples before and after a proof is tried

Values: TypeAlias = tuple[Value, ...]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Law:
    """What is known of a law.

    Attributes:
        name: the monoid and the law, "Affine: associative".
        statement: what it says; `.` is the combine.
        holds: proved, refuted, or None when neither succeeded in time.
        counterexample: where it fails, with the values of both sides.
        seconds: spent on finding out.
    """

    name: str
    statement: str
    holds: bool | None
    counterexample: str | None
    seconds: float

    @property
    def short(self) -> str:
        """The law without the monoid."""
        return self.name.rpartition(": ")[2]

    @property
    def is_fact(self) -> bool:
        """Is it no obligation?"""
        return self.short in FACTS


@dataclass(frozen=True)
class Sides:
    """The two sides of a claim in one case.

    The texts show them in the case's operands, {x}; by default they are the claim's own.
    """

    left: Values
    right: Values
    left_text: str | None = None
    right_text: str | None = None


@dataclass(frozen=True)
class Claim:
    """An equation between two evaluations.

    Attributes:
        name: of the law.
        left, right: both sides as text, with operands in braces; no right side says that the
            left one is in the carrier.
        check: evaluates both sides on the operands of one case, and names the operands.
        condition: where it is claimed, as text.
    """

    name: str
    left: str
    right: str
    check: Callable[[Cases, dict[str, Values]], Sides]
    condition: str = ""

    @property
    def statement(self) -> str:
        """The law as a line of text."""
        left, right = (text.replace("{", "").replace("}", "") for text in (self.left, self.right))
        return (f"{left} = {right}" if right else f"{left} is in the carrier") + self.condition


# --- proving and refuting -------------------------------------------------------------


def _prove(claim: Claim, tick: Callable[[], None]) -> bool:
    """Does the claim hold in every case? False only says that no proof was found."""

    def check(path: Path) -> None:
        sides = claim.check(path, {})
        for a, b in zip(sides.left, sides.right, strict=True):
            if not path.same(a, b):
                raise UnprovedError

    try:
        for_all_cases(check, tick)
    except (UnprovedError, UnsupportedTermError, RecursionError):
        return False
    return True


def _refute(claim: Claim, count: int, tick: Callable[[], None]) -> str | None:
    """The shortest of the first few counterexamples among `count` samples."""
    found: list[str] = []
    for seed in range(count):
        pool = Sample.NICE if seed < count // 3 else Sample.PLAIN
        text = _counterexample(claim, seed, pool, 40, tick)
        # Digits that cancel could make a difference; it would vanish with more of them.
        if text is not None and _counterexample(claim, seed, pool, 100, tick) is not None:
            found.append(text)
            if len(found) == 5:
                break
    return min(found, key=lambda text: (len(text), text), default=None)


def _counterexample(
    claim: Claim, seed: int, pool: Sequence[Fraction], digits: int, tick: Callable[[], None]
) -> str | None:
    sample = Sample(seed, pool, digits, tick)
    operands: dict[str, Values] = {}
    try:
        sides = claim.check(sample, operands)
        if all(map(sample.same, sides.left, sides.right)):
            return None
    except (ContradictionError, UnsupportedTermError, RecursionError):
        return None
    shown = {name: _shown(values) for name, values in operands.items()}
    left, right = sides.left_text or claim.left, sides.right_text or claim.right
    text = f"{_filled(left, shown)} = {_shown(sides.left)}"
    if right:
        text += f", but {_filled(right, shown)} = {_shown(sides.right)}"
    given = [
        f"{name} = {value}" for name, value in shown.items() if "{" + name + "}" not in left + right
    ]
    return f"with {', '.join(given)}: {text}" if given else text


def _filled(text: str, shown: dict[str, str]) -> str:
    for name, value in shown.items():
        negative = value.startswith("-")
        text = text.replace("{" + name + "}", f"({value})" if negative else value)
    return text


def _shown(values: Values) -> str:
    texts = [_number(x) for x in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _number(x: Value) -> str:
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, float):
        return "undefined" if math.isnan(x) else number_text(x, "float")
    if isinstance(x, Fraction):
        return str(x).replace("/", " / ")
    return format(float(x), ".6g")


# A law is a subject and the forms in which the law may hold, strongest first.
_Forms: TypeAlias = tuple[str, Callable[[], Iterable[Claim]]]
# What to prove: all laws of the first plan that succeeds.
_Plan: TypeAlias = list[_Forms]


class _Prover:
    """Proves plans. Every law has its time, however often and in whatever form it is tried."""

    def __init__(self, limit: float, samples: int) -> None:
        self.limit = limit
        self.samples = samples  # of the refutation that comes before a proof
        self.spent: dict[str, float] = {}

    def first_plan(self, plans: Iterable[_Plan]) -> tuple[Law, ...]:
        """The laws of the first plan whose obligations are all proved, else of the first."""
        first: tuple[Law, ...] | None = None
        for plan in plans:
            laws = []
            for forms in plan:
                laws.append(self._law(forms, search=first is None))
                if first is not None and not is_proved(laws):
                    break
            if is_proved(laws):
                return tuple(laws)
            first = first or tuple(laws)
        return first or ()

    def _law(self, forms: _Forms, search: bool) -> Law:
        """The law in the first form that is proved; else what is known of the strongest."""
        subject, claims = forms
        strongest: Claim | None = None
        counterexample = None
        name = ""
        for claim in claims():
            name = f"{subject}: {claim.name}"
            holds, found = self._try(name, claim)
            if holds:
                return Law(name, claim.statement, True, None, self.spent[name])
            if strongest is None:
                strongest, counterexample = claim, found
        if strongest is None:
            raise InternalError("a law has no form")
        if counterexample is None and search:
            counterexample = self._timed(name, lambda tick: _refute(strongest, _LONG, tick))
        holds = None if counterexample is None else False
        return Law(name, strongest.statement, holds, counterexample, self.spent[name])

    def _try(self, name: str, claim: Claim) -> tuple[bool, str | None]:
        def decide(tick: Callable[[], None]) -> tuple[bool, str | None]:
            found = _refute(claim, self.samples, tick)
            return (False, found) if found else (_prove(claim, tick), None)

        return self._timed(name, decide) or (False, None)

    def _timed(self, name: str, run: Callable[[Callable[[], None]], _T]) -> _T | None:
        """Run within what is left of a law's time; None when that is over."""
        start = time.monotonic()
        try:
            return run(clock(self.limit - self.spent.get(name, 0.0)))
        except OutOfTimeError:
            return None
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.monotonic() - start


# --- monoids on tuples ----------------------------------------------------------------


@dataclass(frozen=True)
class Carrier:
    """The tuples of a monoid: of reals, of those >= 0 in some fields, and infinite units."""

    monoid: UserMonoid
    unit: Values
    nonnegative: frozenset[str] = frozenset()

    def element(self, cases: Cases, name: str, shown: dict[str, Values]) -> Values:
        """An arbitrary element."""
        values = []
        for field, unit in zip(self.monoid.fields, self.unit, strict=True):
            if isinstance(unit, bool):
                values.append(bool(cases.choose(2)))
                continue
            infinity = None if is_finite(unit) else unit
            nonnegative = field in self.nonnegative
            values.append(cases.extended(f"{name}.{field}", infinity, nonnegative))
        shown[name] = tuple(values)
        return shown[name]

    def unit_of(self, cases: Cases) -> Values:
        """The unit in the case's arithmetic."""
        return tuple(cases.evaluate(t, {}) for t in self.monoid.unit)

    def combine(self, cases: Cases, a: Values, b: Values) -> Values:
        """a . b"""
        fields = self.monoid.fields
        given = dict(zip(fields, a, strict=True))
        given |= {f + "'": x for f, x in zip(fields, b, strict=True)}
        return tuple(cases.evaluate(t, given) for t in self.monoid.combine)

    @property
    def condition(self) -> str:
        """The restriction as text."""
        fields = [f for f in self.monoid.fields if f in self.nonnegative]
        return ", for " + " and ".join(f"{f} >= 0" for f in fields) if fields else ""


def _associative(c: Carrier) -> Claim:
    def check(cases: Cases, shown: dict[str, Values]) -> Sides:
        x, y, z = (c.element(cases, name, shown) for name in "xyz")
        left = c.combine(cases, c.combine(cases, x, y), z)
        return Sides(left, c.combine(cases, x, c.combine(cases, y, z)))

    return Claim("associative", "({x} . {y}) . {z}", "{x} . ({y} . {z})", check, c.condition)


def _commutative(c: Carrier) -> Claim:
    def check(cases: Cases, shown: dict[str, Values]) -> Sides:
        x, y = (c.element(cases, name, shown) for name in "xy")
        return Sides(c.combine(cases, x, y), c.combine(cases, y, x))

    return Claim("commutative", "{x} . {y}", "{y} . {x}", check, c.condition)


def _idempotent(c: Carrier) -> Claim:
    def check(cases: Cases, shown: dict[str, Values]) -> Sides:
        x = c.element(cases, "x", shown)
        return Sides(c.combine(cases, x, x), x)

    return Claim("idempotent", "{x} . {x}", "{x}", check, c.condition)


def _closed(c: Carrier) -> Claim:
    """What is combined again must be in the carrier, or the other laws say nothing of it."""

    def kept(cases: Cases, field: str, unit: Value, x: Value) -> Value:
        if isinstance(unit, bool):
            return x
        if not is_finite(x):
            return x if not is_finite(unit) and x == unit else math.nan
        inside = field not in c.nonnegative or not cases.less(x, cases.number(Fraction(0)))
        return x if inside else math.nan

    def check(cases: Cases, shown: dict[str, Values]) -> Sides:
        x, y = (c.element(cases, name, shown) for name in "xy")
        values = c.combine(cases, x, y)
        fields = zip(c.monoid.fields, c.unit, values, strict=True)
        return Sides(values, tuple(kept(cases, *field) for field in fields))

    return Claim("closed", "{x} . {y}", "", check, c.condition)


def _neutral(c: Carrier, on_the_left: bool) -> Claim:
    def check(cases: Cases, shown: dict[str, Values]) -> Sides:
        unit, x = c.unit_of(cases), c.element(cases, "x", shown)
        shown["unit"] = unit
        return Sides(c.combine(cases, *((unit, x) if on_the_left else (x, unit))), x)

    name, left = ("left unit", "{unit} . {x}") if on_the_left else ("right unit", "{x} . {unit}")
    return Claim(name, left, "{x}", check, c.condition)


def _neutral_up_to_names(c: Carrier, on_the_left: bool, fields: tuple[str, ...]) -> Claim:
    """Neutral where no field in `fields` has its unit's value; interchangeable where one has."""
    places = [c.monoid.fields.index(f) for f in fields]
    strict = _neutral(c, on_the_left)

    def check(cases: Cases, shown: dict[str, Values]) -> Sides:
        unit = c.unit_of(cases)
        which = cases.choose(1 + len(places))
        x = c.element(cases, "x", shown)
        shown["unit"] = unit
        if which == 0:
            for n in places:
                cases.assume(not cases.equal(x[n], unit[n]))
            return Sides(c.combine(cases, *((unit, x) if on_the_left else (x, unit))), x)
        n = places[which - 1]
        cases.assume(cases.equal(x[n], unit[n]))
        return _interchangeable(c, cases, on_the_left, x, unit, shown)

    excused = " or ".join(
        f"{f} = {_number(unit)}"
        for f, unit in zip(c.monoid.fields, c.unit, strict=True)
        if f in fields
    )
    product = strict.left.replace("{", "").replace("}", "")
    condition = f", unless {excused}: then {product} and x are equal in all products"
    return Claim(strict.name, strict.left, "{x}", check, c.condition + condition)


def _interchangeable(
    c: Carrier, cases: Cases, on_the_left: bool, x: Values, unit: Values, shown: dict[str, Values]
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


def _unit_claims(c: Carrier, on_the_left: bool) -> Iterator[Claim]:
    """Neutrality, and then its weaker forms, infinite fields first."""
    yield _neutral(c, on_the_left)
    infinite = [f for f, u in zip(c.monoid.fields, c.unit, strict=True) if not is_finite(u)]
    fields = [*infinite, *(f for f in c.monoid.fields if f not in infinite)]
    for size in (1, 2, 3):
        for chosen in itertools.islice(itertools.combinations(fields, size), 20):
            yield _neutral_up_to_names(c, on_the_left, chosen)


def _plan(c: Carrier) -> _Plan:
    """The laws of a monoid on a carrier."""
    name = c.monoid.name
    return [
        (name, lambda: [_closed(c)]),
        (name, lambda: _unit_claims(c, on_the_left=True)),
        (name, lambda: _unit_claims(c, on_the_left=False)),
        (name, lambda: [_associative(c)]),
        (name, lambda: [_commutative(c)]),
    ]


def _carrier(m: UserMonoid) -> Carrier:
    sample = Sample(0, Sample.NICE)
    return Carrier(m, tuple(sample.evaluate(t, {}) for t in m.unit))


def _restricted(c: Carrier, nonnegative: Iterable[str]) -> Iterator[Carrier]:
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


def _monoid_plans(m: UserMonoid, nonnegative: Iterable[str]) -> Iterator[_Plan]:
    everywhere = _carrier(m)
    yield _plan(everywhere)
    for carrier in _restricted(everywhere, frozenset(nonnegative)):
        yield _plan(carrier)


def is_proved(laws: Iterable[Law]) -> bool:
    """Do all obligations hold?"""
    return all(law.holds for law in laws if not law.is_fact)


def prove_monoid(
    m: UserMonoid, nonnegative: Iterable[str] = (), limit: float = TIME_LIMIT
) -> tuple[Law, ...]:
    """Closed, left unit, right unit, associative; and whether it is commutative.

    Args:
        m: the monoid.
        nonnegative: fields that are >= 0 in every element; used if the laws need it.
        limit: seconds for each law.
    """
    return _Prover(limit, _QUICK).first_plan(_monoid_plans(m, nonnegative))


# --- built-in monoids -----------------------------------------------------------------


def _param(name: str, kind: Kind = "float") -> Term:
    return T.param(name, kind)


def _monoid(name: str, unit: Term, combine: Callable[[Term, Term], Term]) -> UserMonoid:
    x, y = _param("x", unit.kind), _param("x'", unit.kind)
    return UserMonoid(name, ("x",), (unit,), (combine(x, y),))


def _first_place(name: str, unit: Term) -> UserMonoid:
    """Pairs of a value and its place. Of equal values the first place wins, whatever the
    order of the operands; the place of nothing comes after all others."""
    x, y, i, j = _param("x"), _param("x'"), _param("i"), _param("i'")
    best = T.function("maximum" if name == "argmax" else "minimum", x, y)
    y_is_better = T.compare("<", x, y) if name == "argmax" else T.compare("<", y, x)
    tie = T.where(T.compare("==", x, y), T.function("minimum", i, j), i)
    return UserMonoid(name, ("x", "i"), (unit, T.INF), (best, T.where(y_is_better, j, tie)))


BUILT_IN: dict[str, UserMonoid] = {
    m.name: m
    for m in (
        _monoid("sum", T.ZERO, T.add),
        _monoid("prod", T.ONE, T.mul),
        _monoid("max", T.NEG_INF, lambda x, y: T.function("maximum", x, y)),
        _monoid("min", T.INF, lambda x, y: T.function("minimum", x, y)),
        _monoid("any", T.FALSE, T.disjunction),
        _monoid("all", T.TRUE, T.conjunction),
        _first_place("argmax", T.NEG_INF),
        _first_place("argmin", T.INF),
    )
}

# What the other reductions are folded with; `elaboration` defines them so.
RESTS_ON: dict[str, tuple[str, ...]] = {
    "mean": ("sum",),
    "var": ("sum",),
    "logsumexp": ("SE", "max", "sum"),
    "softmax": ("SE", "max", "sum"),
    "log_softmax": ("SE", "max", "sum"),
    "argtop": ("top",),
}


def _top_claims() -> list[Claim]:
    """Keeping the r first of a total order, when the parts' r first are merged.

    A merge compares and nothing else, so it commutes with monotone maps, and two merges
    agree on all inputs if they agree on zeros and ones (the 0-1 principle, Knuth, volume
    3, 5.3.4). Of zeros and ones the r largest are known by the number of ones among them:
    a list is a number 0 <= x <= r, and x . y = minimum(x + y, r).
    """

    def operands(cases: Cases, names: str, shown: dict[str, Values]) -> list[Value]:
        r = cases.real("r", nonnegative=True)
        values = [cases.real(name, nonnegative=True) for name in names]
        for value in values:
            cases.assume(cases.less(value, r, or_equal=True))
        shown |= {name: (v,) for name, v in zip(("r", *names), (r, *values), strict=True)}
        return [r, *values]

    def merge(cases: Cases, r: Value, a: Value, b: Value) -> Value:
        given = {"a": a, "b": b, "r": r}
        total = T.add(_param("a"), _param("b"))
        return cases.evaluate(T.function("minimum", total, _param("r")), given)

    def closed(cases: Cases, shown: dict[str, Values]) -> Sides:
        r, x, y = operands(cases, "xy", shown)
        merged = merge(cases, r, x, y)
        negative = cases.less(merged, cases.number(Fraction(0)))
        outside = negative or cases.less(r, merged)
        return Sides((merged,), (math.nan if outside else merged,))

    def associative(cases: Cases, shown: dict[str, Values]) -> Sides:
        r, x, y, z = operands(cases, "xyz", shown)
        left = merge(cases, r, merge(cases, r, x, y), z)
        return Sides((left,), (merge(cases, r, x, merge(cases, r, y, z)),))

    def commutative(cases: Cases, shown: dict[str, Values]) -> Sides:
        r, x, y = operands(cases, "xy", shown)
        return Sides((merge(cases, r, x, y),), (merge(cases, r, y, x),))

    def unit(cases: Cases, shown: dict[str, Values]) -> Sides:
        r, x = operands(cases, "x", shown)
        return Sides((merge(cases, r, cases.number(Fraction(0)), x),), (x,))

    where = ", for 0 <= x, y, z <= r (counts of ones)"
    inner = "minimum({x} + {y}, {r})", "minimum({y} + {z}, {r})"
    return [
        Claim("closed", inner[0], "", closed, where),
        Claim("left unit", "minimum(0 + {x}, {r})", "{x}", unit, where),
        Claim(
            "associative",
            f"minimum({inner[0]} + {{z}}, {{r}})",
            f"minimum({{x}} + {inner[1]}, {{r}})",
            associative,
            where,
        ),
        Claim("commutative", inner[0], "minimum({y} + {x}, {r})", commutative, where),
    ]


def _builtin_plan(name: str) -> _Plan:
    if name == "top":
        return [("top", lambda claim=claim: [claim]) for claim in _top_claims()]
    if name in BUILT_IN:
        return _plan(_carrier(BUILT_IN[name]))
    raise InternalError(f"there is no monoid '{name}'")


def prove_builtin(name: str, limit: float = TIME_LIMIT) -> tuple[Law, ...]:
    """The laws of a reduction of the language, or of those that it rests on."""
    laws: list[Law] = []
    for part in RESTS_ON.get(name, (name,)):
        if part == SE.name:
            laws += prove_framed(SE, limit=limit)
        else:
            laws += _Prover(limit, 0).first_plan([_builtin_plan(part)])
    return tuple(laws)


# --- framed monoids -------------------------------------------------------------------


class _Framed:
    """The operations of a framed monoid on the values of a case."""

    def __init__(self, f: FramedMonoid, cases: Cases, shown: dict[str, Values]) -> None:
        self.f, self.cases, self.shown = f, cases, shown
        self.frames = _carrier(BUILT_IN[f.join])

    def real(self, name: str) -> Value:
        """An arbitrary value."""
        x = self.cases.real(name)
        self.shown[name] = (x,)
        return x

    def frame(self, name: str) -> Value:
        """An arbitrary frame or exponent, the join's unit included."""
        (x,) = self.frames.element(self.cases, name, self.shown)
        return x

    def chain(self, *names: str) -> list[Value]:
        """Frames of which each is at least the one before, as a frame only grows."""
        frames = [self.frame(name) for name in names]
        for a, b in itertools.pairwise(frames):
            self.cases.assume(self.cases.equal(self.join(a, b), b))
        return frames

    def join(self, a: Value, b: Value) -> Value:
        """a v b"""
        return self.frames.combine(self.cases, (a,), (b,))[0]

    def move(self, old: Value, new: Value) -> Value:
        """The factor from one frame to another."""
        factor = self.f.move(_param("old"), settled(_param("new")))
        return self.cases.evaluate(factor, {"old": old, "new": new})

    def embed(self, frame: Value, value: Value, exponent: Value) -> Value:
        """An element's contribution in a frame."""
        term = self.f.embed(settled(_param("frame")), _param("value"), _param("exponent"))
        given = {"frame": frame, "value": value, "exponent": exponent}
        return self.cases.evaluate(term, given)

    def dot(self, a: Values, b: Values) -> Values:
        """(r1, a1) . (r2, a2)"""
        r = self.join(a[0], b[0])
        moved = [self.cases.mul(self.move(x[0], r), x[1]) for x in (a, b)]
        return r, self.cases.add(*moved)

    def tile(self, elements: Sequence[Values]) -> Values:
        """Elements (exponent, value) embedded in the join of their exponents."""
        r = elements[0][0]
        for exponent, _ in elements[1:]:
            r = self.join(r, exponent)
        return r, self.cases.add(*(self.embed(r, v, e) for e, v in elements))


def _framed_claims(f: FramedMonoid, pair: UserMonoid | None) -> Iterator[Claim]:
    """The laws of `algebra`. A frame that is the join's unit is subtracted as 0 (settled)."""

    def claim(
        name: str, left: str, right: str, condition: str, check: Callable[[_Framed], Sides]
    ) -> Claim:
        def on_cases(cases: Cases, shown: dict[str, Values]) -> Sides:
            return check(_Framed(f, cases, shown))

        return Claim(name, left, right, on_cases, condition)

    e, r, s, t, v = (_param(x) for x in "erstv")
    move = {(a.attr, b.attr): show(f.move(a, b)) for a in (e, r, s) for b in (r, s, t)}
    embed = {frame.attr: show(f.embed(frame, v, e)) for frame in (r, s)}

    def equivariance(m: _Framed) -> Sides:
        exponent, old, new = m.chain("e", "r", "s")
        value = m.real("v")
        moved = m.cases.mul(m.move(old, new), m.embed(old, value, exponent))
        return Sides((moved,), (m.embed(new, value, exponent),))

    left = f"{move['r', 's']} * ({embed['r']})"
    yield claim("equivariance", left, embed["s"], ", for e <= r <= s", equivariance)

    def cocycle(m: _Framed) -> Sides:
        a, b, c = m.chain("r", "s", "t")
        return Sides((m.cases.mul(m.move(b, c), m.move(a, b)),), (m.move(a, c),))

    left = f"{move['s', 't']} * {move['r', 's']}"
    yield claim("cocycle", left, move["r", "t"], ", for r <= s <= t", cocycle)

    def linear_move(m: _Framed) -> Sides:
        old, new = m.chain("r", "s")
        a, b, add, mul = m.real("a"), m.real("b"), m.cases.add, m.cases.mul
        factor = m.move(old, new)
        return Sides((mul(factor, add(a, b)),), (add(mul(factor, a), mul(factor, b)),))

    factor = move["r", "s"]
    both = f"{factor} * a + {factor} * b"
    yield claim("linear move", f"{factor} * (a + b)", both, ", for r <= s", linear_move)

    def linear_embed(m: _Framed) -> Sides:
        exponent, old = m.chain("e", "r")
        a, b, c = m.real("v"), m.real("w"), m.real("c")
        left = m.embed(old, m.cases.add(m.cases.mul(c, a), b), exponent)
        parts = m.cases.mul(c, m.embed(old, a, exponent)), m.embed(old, b, exponent)
        return Sides((left,), (m.cases.add(*parts),))

    w, c = _param("w"), _param("c")
    left = show(f.embed(r, T.add(T.mul(c, v), w), e))
    right = f"c * ({embed['r']}) + {show(f.embed(r, w, e))}"
    yield claim("linear embed", left, right, ", for e <= r", linear_embed)

    nothing = _shown(_carrier(BUILT_IN[f.join]).unit)

    def empty(m: _Framed) -> Sides:
        (none,), new, a = m.frames.unit_of(m.cases), m.frame("r"), m.real("a")
        zero = m.cases.number(Fraction(0))
        contributions = m.cases.mul(m.move(none, new), a), m.embed(new, a, none)
        return Sides(contributions, (zero, zero))

    left = f"(move from r = {nothing}) * a"
    yield claim("unit", left, "0", f", and an element with e = {nothing} contributes 0", empty)

    def induction(m: _Framed) -> Sides:
        old, exponent, a, value = m.frame("r"), m.frame("e"), m.real("a"), m.real("v")
        one = exponent, m.embed(exponent, value, exponent)
        new = m.join(old, exponent)
        straight = m.cases.add(m.cases.mul(m.move(old, new), a), m.embed(new, value, exponent))
        return Sides(m.dot((old, a), one), (new, straight))

    straight = f"(s, {move['r', 's']} * a + {embed['s']})"
    yield claim("tile step", "(r, a) . (e, v)", straight, ", with s = r . e", induction)

    for size in (2, 3):
        yield claim(f"tile of {size}", "fold", "tile", f" for {size} elements", _tile_check(size))

    if pair is not None:

        def pairs(m: _Framed) -> Sides:
            frames, values = (m.frame("r"), m.frame("s")), (m.real("a"), m.real("b"))
            left, right = zip(values, frames, strict=True)
            combined = Carrier(pair, ()).combine(m.cases, left, right)
            r, a = m.dot((frames[0], values[0]), (frames[1], values[1]))
            return Sides(combined, (a, r))

        yield claim("pair form", f"{pair.name} combine", "framed combine", "", pairs)


def _tile_check(size: int) -> Callable[[_Framed], Sides]:
    def check(m: _Framed) -> Sides:
        exponents = [m.frame(f"e{n}") for n in range(size)]
        values = [m.real(f"v{n}") for n in range(size)]
        elements = list(zip(exponents, values, strict=True))
        folded = m.frames.unit_of(m.cases)[0], m.cases.number(Fraction(0))
        for e, v in elements:
            folded = m.dot(folded, (e, m.embed(e, v, e)))
        return Sides(folded, m.tile(elements))

    return check


def _framed_plan(f: FramedMonoid, pair: UserMonoid | None) -> _Plan:
    frames = _carrier(BUILT_IN[f.join])
    claims = [_associative(frames), _commutative(frames), _idempotent(frames)]
    joins = [replace(claim, name=f"join {claim.name}") for claim in claims]
    framed = [*joins, *_framed_claims(f, pair)]
    plan: _Plan = [(f.name, lambda claim=claim: [claim]) for claim in framed]
    return plan if pair is None else plan + _plan(_carrier(pair))


def prove_framed(
    f: FramedMonoid, pair: UserMonoid | None = None, limit: float = TIME_LIMIT
) -> tuple[Law, ...]:
    """The laws of a framed monoid; with the same as pairs, that those agree, and their laws."""
    return _Prover(limit, 0).first_plan([_framed_plan(f, _pair_of(f, pair))])


def _pair_of(f: FramedMonoid, pair: UserMonoid | None) -> UserMonoid | None:
    return SE_PAIR if pair is None and f is SE else pair


# --- remembering ----------------------------------------------------------------------

_STORE = JsonStore("proofs")
_CHECKS = 20  # samples that every remembered law of a user's monoid must still pass


@cache
def _sympy_version() -> str:
    from importlib.metadata import version

    return version("sympy")


def _key(content: object) -> str:
    """What results are remembered under: everything that they depend on."""
    text = repr((PROVER_VERSION, _sympy_version(), content))
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


def _monoid_key(m: UserMonoid | None) -> object:
    if m is None:
        return None
    return m.name, m.fields, tuple(t.key[2] for t in (*m.unit, *m.combine))


def _framed_key(f: FramedMonoid) -> object:
    a, b, c = _param("a"), _param("b"), _param("c")
    operations = f.move(a, b).key[2], f.embed(a, b, c).key[2], settled(a).key[2]
    return f.name, f.join, operations, _monoid_key(BUILT_IN[f.join])


def certify(
    monoid: str | UserMonoid | FramedMonoid, nonnegative: Iterable[str] = (), fresh: bool = False
) -> tuple[Law, ...]:
    """The laws of a monoid, remembered from an earlier run if they were proved then.

    Args:
        monoid: a user's monoid, a framed one, or the name of a reduction.
        nonnegative: as in `prove_monoid`.
        fresh: prove anew.
    """
    if isinstance(monoid, UserMonoid):
        fields = tuple(sorted(nonnegative))
        key = _key(("monoid", _monoid_key(monoid), fields))
        return _certified(key, lambda: _monoid_plans(monoid, fields), fresh, _QUICK, _CHECKS)
    if isinstance(monoid, FramedMonoid):
        pair = _pair_of(monoid, None)
        key = _key(("framed", _framed_key(monoid), _monoid_key(pair)))
        return _certified(key, lambda: [_framed_plan(monoid, pair)], fresh)
    laws: list[Law] = []
    for name in RESTS_ON.get(monoid, (monoid,)):
        if name == SE.name:
            laws += certify(SE, fresh=fresh)
        else:
            key = _key(("builtin", name, _monoid_key(BUILT_IN.get(name))))
            laws += _certified(key, lambda name=name: [_builtin_plan(name)], fresh)
    return tuple(laws)


def _certified(
    key: str,
    plans: Callable[[], Iterable[_Plan]],
    fresh: bool,
    samples: int = 0,
    checks: int = 0,
) -> tuple[Law, ...]:
    if not fresh:
        remembered = _recalled(_STORE.get(key), plans(), checks)
        if remembered is not None:
            return remembered
    laws = _Prover(TIME_LIMIT, samples).first_plan(plans())
    if is_proved(laws):
        entries = [
            {
                "name": law.name,
                "statement": law.statement,
                "holds": law.holds,
                "counterexample": law.counterexample,
                "seconds": law.seconds,
            }
            for law in laws
        ]
        _STORE.put(key, {"laws": entries})
    return laws


def _recalled(entry: object, plans: Iterable[_Plan], checks: int) -> tuple[Law, ...] | None:
    """The laws in an entry, if they are those of one of the plans, in number and wording."""
    match entry:
        case {"laws": [*items]} if len(entry) == 1:
            laws = [law for law in map(_law, items) if law is not None]
            if len(laws) == len(items) and is_proved(laws):
                fits = any(_fits(laws, plan, checks) for plan in plans)
                return tuple(laws) if fits else None
    return None


def _law(item: object) -> Law | None:
    match item:
        case {
            "name": str(name),
            "statement": str(statement),
            "holds": True | False | None as holds,
            "counterexample": str() | None as counterexample,
            "seconds": float(seconds),
        } if len(item) == 5 and (holds is False) == (counterexample is not None):
            return Law(name, statement, holds, counterexample, seconds)
    return None


def _fits(laws: Sequence[Law], plan: _Plan, checks: int) -> bool:
    """Are these the laws of the plan? Claims that are said to be proved are spot-checked."""
    if len(laws) != len(plan):
        return False
    for law, (subject, claims) in zip(laws, plan, strict=True):
        same = (
            c
            for c in claims()
            if (f"{subject}: {c.name}", c.statement) == (law.name, law.statement)
        )
        claim = next(same, None)
        if claim is None:
            return False
        if law.holds and _refute(claim, checks, clock(TIME_LIMIT)) is not None:
            return False
    return True


# --- programs -------------------------------------------------------------------------

_WHY = {
    "closed": "Partial results are combined again, so every combination must be a tuple of numbers.",
    "left unit": "A fold starts from the unit, and a tile without elements is the unit.",
    "right unit": "A tile without elements is the unit, wherever it stands.",
    "associative": "A fused kernel folds tile by tile and combines the parts, so it needs "
    "(x . y) . z = x . (y . z).",
}
_FAULT = {
    "closed": ("has combinations that are no numbers", "closed"),
    "left unit": ("has a unit that is not neutral on the left", "to have a left unit"),
    "right unit": ("has a unit that is not neutral on the right", "to have a right unit"),
    "associative": ("is not associative", "associative"),
}


def require(
    monoid: UserMonoid,
    *,
    elements: Iterable[Sequence[Term]] = (),
    text: str | None = None,
    span: Span | None = None,
) -> tuple[Law, ...]:
    """The laws of a user's monoid; an error unless they are proved.

    Args:
        monoid: what the user declared.
        elements: the operands of all its folds; what is visibly >= 0 in all of them, such as
            a count, may be used in the proofs.
        text: the program.
        span: where the monoid is declared.
    """
    laws = certify(monoid, _nonnegative(monoid, elements))
    failed = next((law for law in laws if not law.holds and not law.is_fact), None)
    if failed is None:
        return laws
    fault, adjective = _FAULT[failed.short]
    notes = [f"law: {failed.statement}"]
    if failed.counterexample is None:
        message = f"monoid '{monoid.name}' could not be proved {adjective}"
        notes.append(f"not proved within {TIME_LIMIT:.0f} s, and no counterexample was found")
    else:
        message = f"monoid '{monoid.name}' {fault}"
        notes.append(f"counterexample: {failed.counterexample}")
    raise MonoidLawError(
        message,
        text=text,
        spans=() if span is None else span,
        notes=[*notes, _WHY[failed.short]],
        help=_advice(monoid, failed),
    )


def _advice(m: UserMonoid, failed: Law) -> str:
    """What to write instead."""
    if failed.counterexample is None:
        return "write combine with + - *, exp, maximum and where; these the prover decides"
    if failed.short in ("left unit", "right unit"):
        unit = _neutral_unit(m)
        if unit is not None:
            return f"unit ({', '.join(show(t) for t in unit)}) is neutral"
    laws = prove_monoid(m, m.fields, limit=1.0)
    if is_proved(laws):
        fields = laws[0].statement.rpartition(", for ")[2]
        name = fields.split(" ")[0]
        return f"the laws hold for {fields}; make that visible where you fold: abs({name})"
    if "undefined" in failed.counterexample:
        return "guard the place: where(n + n' == 0, 0, a / (n + n')), where(m == -inf, 0, m)"
    if failed.short == "associative":
        return "carry what a later step needs in more fields; for a difference, subtract a sum"
    return "give a unit that leaves every element as it is"


def _neutral_unit(m: UserMonoid) -> tuple[Term, ...] | None:
    """A unit that no sample contradicts, of the usual numbers."""
    if len(m.fields) > 3:
        return None
    for unit in itertools.product((T.ZERO, T.ONE, T.NEG_INF, T.INF), repeat=len(m.fields)):
        carrier = _carrier(replace(m, unit=unit))
        sides = (_neutral(carrier, left) for left in (True, False))
        if not any(_refute(claim, _QUICK, clock(1.0)) for claim in sides):
            return unit
    return None


def _nonnegative(m: UserMonoid, elements: Iterable[Sequence[Term]]) -> tuple[str, ...]:
    """The fields that are visibly >= 0 in every element."""
    columns = list(zip(*elements, strict=True))
    fields = zip(m.fields, columns, strict=False)
    return tuple(f for f, column in fields if all(map(T.is_nonnegative, column)))


def _folded(equations: Equations) -> tuple[list[str], dict[UserMonoid, list[tuple[Term, ...]]]]:
    """The reductions of a program, and the elements that its users' monoids fold."""
    names: dict[str, None] = {}
    elements: dict[UserMonoid, list[tuple[Term, ...]]] = {m: [] for m in equations.monoids}
    for t in T.subterms(*(e.body for e in equations.equations)):
        if t.op not in ("fold", "fold_at"):
            continue
        monoid = t.attr.monoid
        if isinstance(monoid, str):
            names[monoid] = None
        elif monoid is SE_PAIR:
            names[SE.name] = None
        else:
            elements.setdefault(monoid, []).append(T.open_fold(t)[1][1:])
    return sorted(names), elements


def certificate(equations: Equations, fresh: bool = False) -> tuple[Law, ...]:
    """The laws that a program's folds rest on, each once, with what is known of them."""
    names, elements = _folded(equations)
    parts = dict.fromkeys(part for name in names for part in RESTS_ON.get(name, (name,)))
    laws = [law for part in parts for law in certify(part, fresh=fresh)]
    for monoid, folded in elements.items():
        laws += certify(monoid, _nonnegative(monoid, folded), fresh)
    return tuple(laws)


def require_program(equations: Equations) -> tuple[Law, ...]:
    """The certificate of a program; an error at the first monoid that is not proved."""
    for monoid, folded in _folded(equations)[1].items():
        declared = equations.source.monoids.get(monoid.name)
        require(
            monoid,
            elements=folded,
            text=equations.source.text,
            span=None if declared is None else declared.span,
        )
    return certificate(equations)
