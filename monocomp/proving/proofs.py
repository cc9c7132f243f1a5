"""The laws that every bracketing rests on, proved for each monoid before it is used.

Each law is a claim (`laws`). It is evaluated on symbols, case by case, and proved by
sympy's expansion (`case_analysis`), or evaluated on numbers and refuted (`sampling`). A
law that is neither is not proved, and its monoid is refused like one that fails.

What rewrite rules rest on (`rule_laws`) is proved in the same way.

What is proved is remembered (`cache`) under a hash of the monoid's definition, so that
later runs need no sympy. A remembered result is used only if it says exactly what would
be claimed now; those of a user's monoid are tried on a few numbers again.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import TypeAlias, TypeVar

from monocomp import terms as T
from monocomp.algebra import SE, SE_PAIR, FramedMonoid, settled
from monocomp.cache import JsonStore
from monocomp.equations import Equations
from monocomp.errors import InternalError, MonoidLawError, Span
from monocomp.proving.case_analysis import OutOfTimeError, Path, UnprovedError, clock, for_all_cases
from monocomp.proving.extended_reals import ContradictionError, UnsupportedTermError
from monocomp.proving.laws import (
    BUILT_IN,
    RESTS_ON,
    Carrier,
    Claim,
    Operands,
    Values,
    associative,
    carrier_of,
    closed,
    commutative,
    framed_claims,
    idempotent,
    neutral,
    restricted,
    shown_values,
    top_claims,
    unit_claims,
)
from monocomp.proving.rule_laws import EVERYWHERE, RULE_LAWS
from monocomp.proving.sampling import Sample
from monocomp.proving.symbolic import to_sympy
from monocomp.terms import Term, UserMonoid

__all__ = [
    "Law",
    "certificate",
    "certify",
    "certify_rule_law",
    "commutes",
    "is_commutative",
    "is_proved",
    "missing",
    "prove_builtin",
    "prove_framed",
    "prove_monoid",
    "require",
    "require_program",
    "to_sympy",
]

PROVER_VERSION = 3  # part of what results are remembered under; raise it with every change
TIME_LIMIT = 10.0  # seconds for one law

FACTS = ("commutative",)  # worth knowing, and no obligation

_QUICK, _LONG = 60, 3000  # numbers of samples before and after a proof is tried

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


# --- proving and refuting -------------------------------------------------------------


def _prove(claim: Claim, tick: Callable[[], None]) -> bool:
    """Does the claim hold in every case? False only says that no proof was found."""

    def check(path: Path) -> None:
        sides = claim.check(path, {})
        field = path.choose(len(sides.left))
        if not path.same(sides.left[field], sides.right[field]):
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


def _survives(claim: Claim, count: int) -> bool:
    """Does no sample contradict the claim? It must answer soon, and False is always safe."""
    try:
        return _refute(claim, count, clock(1.0)) is None
    except OutOfTimeError:
        return False


def _counterexample(
    claim: Claim, seed: int, pool: Sequence[Fraction], digits: int, tick: Callable[[], None]
) -> str | None:
    sample = Sample(seed, pool, digits, tick)
    operands: Operands = {}
    try:
        sides = claim.check(sample, operands)
        left, right = tuple(sides.left), tuple(sides.right)
        if all(map(sample.same, left, right)):
            return None
        shown = {name: shown_values(values) for name, values in operands.items()}
    except (ContradictionError, UnsupportedTermError, RecursionError):
        return None
    left_text, right_text = sides.left_text or claim.left, sides.right_text or claim.right
    # Sides that differ late are shown with more digits.
    texts = [(shown_values(left, n), shown_values(right, n)) for n in (6, 12, digits)]
    one, other = next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
    text = f"{_filled(left_text, shown)} = {one}"
    if right_text in {"{" + name + "}" for name in shown}:
        text += f", not {other}"
    elif right_text:
        text += f", but {_filled(right_text, shown)} = {other}"
    hidden = [name for name in shown if "{" + name + "}" not in left_text + right_text]
    given = ", ".join(f"{name} = {shown[name]}" for name in hidden)
    return f"with {given}: {text}" if given else text


def _filled(text: str, shown: dict[str, str]) -> str:
    for name, value in shown.items():
        bare = value[0] == "(" or not (value[0] == "-" or " " in value)
        text = text.replace("{" + name + "}", value if bare else f"({value})")
    return text


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
        strongest, *weaker = claims()
        name = f"{subject}: {strongest.name}"
        proved, counterexample = self._try(name, strongest)
        if proved:
            return Law(name, strongest.statement, True, None, self.spent[name])
        for claim in weaker:
            if self._try(name, claim)[0]:
                return Law(name, claim.statement, True, None, self.spent[name])
        if counterexample is None and search:
            counterexample = self._timed(name, lambda tick: _refute(strongest, _LONG, tick))
        holds = None if counterexample is None else False
        return Law(name, strongest.statement, holds, counterexample, self.spent[name])

    def _try(self, name: str, claim: Claim) -> tuple[bool, str | None]:
        def decide(tick: Callable[[], None]) -> tuple[bool, str | None]:
            found = _refute(claim, self.samples, tick)
            return found is None and _prove(claim, tick), found

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


def _single(claim: Claim) -> list[Claim]:
    return [claim]


def _plan(c: Carrier) -> _Plan:
    """The laws of a monoid on a carrier."""
    return [
        (c.monoid.name, partial(_single, closed(c))),
        (c.monoid.name, partial(_single, associative(c))),
        (c.monoid.name, partial(unit_claims, c, on_the_left=True)),
        (c.monoid.name, partial(unit_claims, c, on_the_left=False)),
        (c.monoid.name, partial(_single, commutative(c))),
    ]


def _monoid_plans(m: UserMonoid, nonnegative: Iterable[str]) -> Iterator[_Plan]:
    everywhere = carrier_of(m)
    yield _plan(everywhere)
    yield from map(_plan, restricted(everywhere, frozenset(nonnegative)))


def is_proved(laws: Iterable[Law]) -> bool:
    """Do all obligations hold?"""
    return missing(laws) is None


def missing(laws: Iterable[Law]) -> Law | None:
    """The first obligation that is not proved."""
    return next((law for law in laws if not law.holds and not law.is_fact), None)


def is_commutative(laws: Iterable[Law]) -> bool:
    """Is it proved that the order of elements does not matter?"""
    return any(law.holds for law in laws if law.short == "commutative")


def prove_monoid(
    m: UserMonoid, nonnegative: Iterable[str] = (), limit: float = TIME_LIMIT
) -> tuple[Law, ...]:
    """Closed, associative, left unit, right unit; and whether it is commutative.

    Args:
        m: the monoid.
        nonnegative: fields that are >= 0 in every element; used if the laws need it.
        limit: seconds for each law.
    """
    return _Prover(limit, _QUICK).first_plan(_monoid_plans(m, nonnegative))


def _builtin_plan(name: str) -> _Plan:
    if name == "top":
        return [("top", partial(_single, claim)) for claim in top_claims()]
    if name in BUILT_IN:
        return _plan(carrier_of(BUILT_IN[name]))
    raise InternalError(f"there is no monoid '{name}'")


def _builtin_plans(name: str) -> list[_Plan]:
    return [_builtin_plan(name)]


def prove_builtin(name: str, limit: float = TIME_LIMIT) -> tuple[Law, ...]:
    """The laws of a reduction of the language, or of those that it rests on."""
    laws: list[Law] = []
    for part in RESTS_ON.get(name, (name,)):
        if part == SE.name:
            laws += prove_framed(SE, limit=limit)
        else:
            laws += _Prover(limit, 0).first_plan([_builtin_plan(part)])
    return tuple(laws)


def _framed_plan(f: FramedMonoid, pair: UserMonoid | None) -> _Plan:
    frames = carrier_of(BUILT_IN[f.join])
    claims = [associative(frames), commutative(frames), idempotent(frames)]
    joins = [replace(claim, name=f"join {claim.name}") for claim in claims]
    framed = [*joins, *framed_claims(f, pair)]
    plan: _Plan = [(f.name, partial(_single, claim)) for claim in framed]
    return plan if pair is None else plan + _plan(carrier_of(pair))


def prove_framed(
    f: FramedMonoid, pair: UserMonoid | None = None, limit: float = TIME_LIMIT
) -> tuple[Law, ...]:
    """The laws of a framed monoid; with the same as pairs, that those agree, and their laws."""
    return _Prover(limit, 0).first_plan([_framed_plan(f, _pair_of(f, pair))])


def _pair_of(f: FramedMonoid, pair: UserMonoid | None) -> UserMonoid | None:
    return SE_PAIR if pair is None and f is SE else pair


# --- remembering ----------------------------------------------------------------------

_STORE = JsonStore("proofs")
_IN_MEMORY: dict[str, tuple[Law, ...]] = {}  # of this process
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


@cache
def _framed_key(f: FramedMonoid) -> object:
    a, b, c = (T.param(name, "float") for name in "abc")
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
            laws += _certified(key, partial(_builtin_plans, name), fresh)
    return tuple(laws)


def certify_rule_law(name: str, fresh: bool = False) -> tuple[Law, ...]:
    """What a rewrite rule claims: a law of `rule_laws`, or those of a monoid.

    Args:
        name: as in the rule's docstring.
        fresh: prove anew.
    """
    if name == SE.name:
        return certify(SE, fresh=fresh)
    if name in BUILT_IN:
        return certify(name, fresh=fresh)
    if name not in RULE_LAWS:
        raise InternalError(f"there is no law '{name}'")
    law = RULE_LAWS[name]
    plan: _Plan = [(name, partial(_single, claim)) for claim in law.claims()]
    return _certified(_key(("rule", law.key)), lambda: [plan], fresh)


def _certified(
    key: str,
    plans: Callable[[], Iterable[_Plan]],
    fresh: bool,
    samples: int = 0,
    checks: int = 0,
) -> tuple[Law, ...]:
    if not fresh:
        remembered = _IN_MEMORY.get(key)
        if remembered is None:
            remembered = _recalled(_STORE.get(key), plans(), checks)
        if remembered is not None:
            return _keep(key, remembered, checks)
    laws = _Prover(TIME_LIMIT, samples).first_plan(plans())
    if is_proved(laws):
        _STORE.put(key, {"laws": [asdict(law) for law in laws]})
        _keep(key, laws, checks)
    return laws


def _keep(key: str, laws: tuple[Law, ...], checks: int) -> tuple[Law, ...]:
    """Laws that need no further samples stay in memory: every compilation asks for them."""
    if checks == 0:
        _IN_MEMORY[key] = laws
    return laws


def _recalled(
    entry: dict[str, object] | None, plans: Iterable[_Plan], checks: int
) -> tuple[Law, ...] | None:
    """The laws in an entry, if they are those of one of the plans, in number and wording."""
    items = None if entry is None else entry.get("laws")
    if not isinstance(items, list):
        return None
    laws = tuple(law for law in map(_law, items) if law is not None)
    if len(laws) < len(items) or not is_proved(laws):
        return None
    return laws if any(_fits(laws, plan, checks) for plan in plans) else None


def _law(item: object) -> Law | None:
    match item:
        case {
            "name": str(name),
            "statement": str(statement),
            "holds": True | False | None as holds,
            "counterexample": str() | None as counterexample,
            "seconds": float(seconds),
        } if (holds is False) == (counterexample is not None):
            return Law(name, statement, holds, counterexample, seconds)
    return None


def _fits(laws: Sequence[Law], plan: _Plan, checks: int) -> bool:
    """Are these the laws of the plan? Claims that are said to be proved are tried again."""
    if len(laws) != len(plan):
        return False
    for law, (subject, claims) in zip(laws, plan, strict=True):
        claim = next((c for c in claims() if c.statement == law.statement), None)
        if claim is None or law.name != f"{subject}: {claim.name}":
            return False
        if law.holds and not _survives(claim, checks):
            return False
    return True


# --- programs -------------------------------------------------------------------------

_WHY = {
    "closed": "Partial results are combined again, so all combinations must be finite.",
    "left unit": "A fold starts from the unit, and a tile without elements is the unit.",
    "right unit": "A tile without elements is the unit, wherever it stands.",
    "associative": "A fused kernel folds tile by tile and combines the parts, so it needs "
    "(x . y) . z = x . (y . z).",
}
_FAULT = {
    "closed": ("has combinations that are not finite", "closed"),
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
    failed = missing(laws)
    if failed is None:
        return laws
    fault, adjective = _FAULT[failed.short]
    notes = [f"law: {failed.statement}"]
    if failed.counterexample is None:
        message = f"monoid '{monoid.name}' could not be proved {adjective}"
        notes.append(f"neither proved nor refuted within {TIME_LIMIT:.0f} s")
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
            return f"unit ({', '.join(shown_values((u,)) for u in unit)}) is neutral"
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


def _neutral_unit(m: UserMonoid) -> Values | None:
    """A unit that no sample contradicts, of the usual numbers."""
    if len(m.fields) > 3:
        return None
    for unit in itertools.product((T.ZERO, T.ONE, T.NEG_INF, T.INF), repeat=len(m.fields)):
        carrier = carrier_of(replace(m, unit=unit))
        sides = (neutral(carrier, left) for left in (True, False))
        if all(_survives(claim, _QUICK) for claim in sides):
            return carrier.unit
    return None


def _nonnegative(m: UserMonoid, elements: Iterable[Sequence[Term]]) -> tuple[str, ...]:
    """The fields that are visibly >= 0 in every element."""
    columns = list(zip(*elements, strict=True))
    fields = zip(m.fields, columns, strict=False)
    return tuple(f for f, column in fields if all(map(T.is_nonnegative, column)))


def _folded(equations: Equations) -> tuple[list[str], dict[UserMonoid, list[tuple[Term, ...]]]]:
    """The reductions of a program, and the elements that its users' monoids fold."""
    names: dict[str, None] = {}
    elements: dict[UserMonoid, list[tuple[Term, ...]]] = {}
    for t in T.subterms(*(e.body for e in equations.equations)):
        if t.op not in ("fold", "fold_at"):
            continue
        monoid = t.attr.monoid
        if isinstance(monoid, str):
            names[monoid] = None
        elif monoid == SE_PAIR:
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


def commutes(equations: Equations, monoid: UserMonoid) -> bool:
    """Is it proved that the order of elements does not matter, in a program's folds?"""
    elements = _folded(equations)[1].get(monoid, ())
    return is_commutative(certify(monoid, _nonnegative(monoid, elements)))


def require_program(equations: Equations) -> tuple[Law, ...]:
    """The certificate of a program; an error at the first law that is not proved."""
    names, elements = _folded(equations)
    needed = {EVERYWHERE: certify_rule_law(EVERYWHERE)} | {n: certify(n) for n in names}
    for name, laws in needed.items():
        failed = missing(laws)
        if failed is not None:
            raise MonoidLawError(
                f"'{name}' rests on a law that could not be proved",
                notes=[
                    f"law: {failed.name}, {failed.statement}",
                    f"neither proved nor refuted within {TIME_LIMIT:.0f} s",
                ],
            )
    for monoid, folded in elements.items():
        require(
            monoid,
            elements=folded,
            text=equations.origin.text,
            span=next(iter(equations.origin.span(monoid.name)), None),
        )
    return certificate(equations)
