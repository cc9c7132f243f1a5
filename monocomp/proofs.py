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
from typing import Any, TypeAlias

from monocomp import terms as T
from monocomp.algebra import SE, SE_PAIR, FramedMonoid, settled
from monocomp.cache import JsonStore
from monocomp.case_analysis import OutOfTimeError, Path, UnprovedError, clock, for_all_cases
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
from monocomp.terms import Term, UserMonoid

PROVER_VERSION = 1  # part of what results are remembered under; raise it with every change
TIME_LIMIT = 10.0  # seconds for one law

FACTS = ("commutative",)  # worth knowing, and no obligation

_QUICK, _LONG = 60, 3000  # numbers of samples before and after a proof is tried

Values: TypeAlias = tuple[Value, ...]


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
        left, right: both sides as text, with operands in braces.
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
        return f"{left} = {right}{self.condition}"


# --- proving and refuting -------------------------------------------------------------


def to_sympy(term: Term, symbols: dict[str, Any]) -> Any:
    """A term without branches as a sympy expression.

    `symbols` maps the names of parameters to sympy expressions; names that it lacks are
    added, with real symbols of our own naming, so that no name of a program reaches sympy.
    A maximum, comparison or other branch has no such expression (UnsupportedTermError):
    proofs take its cases apart instead.
    """
    from monocomp.case_analysis import Algebra

    algebra = Algebra()
    for t in T.subterms(term):
        if t.op == "param" and t.attr not in symbols:
            symbols[t.attr] = algebra.sympy.Symbol(f"x{len(symbols)}", real=True)
    return _Unbranching(algebra, []).evaluate(term, symbols)


class _Unbranching(Path):
    def choose(self, count: int) -> int:
        raise UnsupportedTermError("a branch")


def _prove(claim: Claim, tick: Callable[[], None]) -> bool:
    """Does the claim hold in every case? False only says that no proof was found."""

    def check(path: Path) -> None:
        sides = claim.check(path, {})
        for a, b in zip(sides.left, sides.right, strict=True):
            if a is not b and not path.same(a, b):
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
    given = [f"{name} = {value}" for name, value in shown.items() if "{" + name + "}" not in left + right]
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


class _Prover:
    """Proves claims about one subject; every law has its time, however often it is tried."""

    def __init__(self, subject: str, limit: float) -> None:
        self.subject = subject
        self.limit = limit
        self.spent: dict[str, float] = {}

    def law(self, claim: Claim, samples: int = 0) -> Law:
        """Prove or refute. With samples, a refutation by so many is tried first."""
        start = time.monotonic()
        tick = clock(self.limit - self.spent.get(claim.name, 0.0))
        holds, counterexample = None, None
        try:
            counterexample = _refute(claim, samples, tick)
            if counterexample is None and _prove(claim, tick):
                holds = True
            elif counterexample is None:
                counterexample = _refute(claim, _LONG, tick)
        except OutOfTimeError:
            pass
        seconds = time.monotonic() - start
        self.spent[claim.name] = seconds = self.spent.get(claim.name, 0.0) + seconds
        holds = False if counterexample is not None else holds
        name = f"{self.subject}: {claim.name}"
        return Law(name, claim.statement, holds, counterexample, seconds)

    def is_refuted(self, claim: Claim) -> bool:
        """Is there a counterexample among a few samples?"""
        return _refute(claim, _QUICK, clock(self.limit)) is not None


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

    return Claim("closed", "{x} . {y}", "numbers", check, c.condition)


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

    one, text = (dot(unit, x), "({unit} . {x})") if on_the_left else (dot(x, unit), "({x} . {unit})")
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


_Alternatives: TypeAlias = list[Callable[[], Iterable[Claim]]]


def _claims(c: Carrier) -> _Alternatives:
    """The laws, each with the forms in which it may hold, strongest first."""
    return [
        lambda: [_closed(c)],
        lambda: _unit_claims(c, on_the_left=True),
        lambda: _unit_claims(c, on_the_left=False),
        lambda: [_associative(c)],
        lambda: [_commutative(c)],
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


def _first_that_holds(prover: _Prover, forms: Iterable[Claim], samples: int) -> Law:
    """The law in the first form that is proved; else what is known of the strongest."""
    strongest: Law | None = None
    for claim in forms:
        law = prover.law(claim, samples)
        if law.holds:
            return law
        strongest = strongest or law
    if strongest is None:
        raise InternalError("a law has no form")
    return replace(strongest, seconds=prover.spent[strongest.short])


def _laws(prover: _Prover, c: Carrier, samples: int) -> tuple[Law, ...]:
    return tuple(_first_that_holds(prover, forms(), samples) for forms in _claims(c))


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
    prover = _Prover(m.name, limit)
    everywhere = _carrier(m)
    laws = _laws(prover, everywhere, _QUICK)
    if is_proved(laws):
        return laws
    for carrier in _restricted(everywhere, frozenset(nonnegative)):
        if not any(prover.is_refuted(f) for f in (_closed(carrier), _associative(carrier))):
            restricted = _laws(prover, carrier, _QUICK)
            if is_proved(restricted):
                return restricted
    return laws


# --- built-in monoids -----------------------------------------------------------------


def _param(name: str, kind: T.Kind = "float") -> Term:
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
    "top": ("top",),
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


def prove_builtin(name: str, limit: float = TIME_LIMIT) -> tuple[Law, ...]:
    """The laws of a reduction of the language, or of those that it rests on."""
    if name == "top":
        prover = _Prover("top", limit)
        return tuple(prover.law(claim) for claim in _top_claims())
    if name == SE.name:
        return prove_framed(SE, limit=limit)
    if name in RESTS_ON:
        return tuple(law for part in RESTS_ON[name] for law in prove_builtin(part, limit))
    if name not in BUILT_IN:
        raise InternalError(f"there is no reduction '{name}'")
    return _laws(_Prover(name, limit), _carrier(BUILT_IN[name]), samples=0)


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


def prove_framed(
    f: FramedMonoid, pair: UserMonoid | None = None, limit: float = TIME_LIMIT
) -> tuple[Law, ...]:
    """The laws of a framed monoid; with the same as pairs, that those agree, and their laws."""
    pair = SE_PAIR if pair is None and f is SE else pair
    prover = _Prover(f.name, limit)
    frames = _carrier(BUILT_IN[f.join])
    claims = [_associative(frames), _commutative(frames), _idempotent(frames)]
    joins = [replace(claim, name=f"join {claim.name}") for claim in claims]
    laws = tuple(prover.law(claim) for claim in (*joins, *_framed_claims(f, pair)))
    if pair is not None:
        laws += _laws(_Prover(pair.name, limit), _carrier(pair), samples=0)
    return laws


# --- remembering ----------------------------------------------------------------------

_STORE = JsonStore("proofs")


@cache
def _sympy_version() -> str:
    from importlib.metadata import version

    return version("sympy")


def _key(*parts: object) -> str:
    """What results are remembered under: everything that they depend on."""
    content = repr((PROVER_VERSION, _sympy_version(), parts))
    return hashlib.blake2b(content.encode(), digest_size=32).hexdigest()


def _monoid_key(m: UserMonoid) -> tuple[object, ...]:
    return m.name, m.fields, tuple(t.key[2] for t in (*m.unit, *m.combine))


def _framed_key(f: FramedMonoid) -> tuple[object, ...]:
    a, b, c = _param("a"), _param("b"), _param("c")
    return f.name, f.join, f.move(a, b).key[2], f.embed(a, b, c).key[2]


def _recall(key: str) -> tuple[Law, ...] | None:
    """Remembered laws. An entry holds proved laws, and the names of facts that are not."""
    entry = _STORE.get(key)
    if entry is None or set(entry) != {"proved", "open"}:
        return None
    proved, unproved = entry["proved"], entry["open"]
    if not isinstance(proved, list) or not isinstance(unproved, list) or not proved:
        return None
    laws = [_law(item, True) for item in proved] + [_law(item, None) for item in unproved]
    if any(law is None or (law.holds is None and not law.is_fact) for law in laws):
        return None
    return tuple(law for law in laws if law is not None)


def _law(item: object, holds: bool | None) -> Law | None:
    match item:
        case {"name": str(name), "statement": str(statement), "seconds": float(seconds)}:
            return Law(name, statement, holds, None, seconds)
    return None
