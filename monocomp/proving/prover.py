"""Claims proved on symbols or refuted by numbers, in limited time.

A claim (`identities`) is evaluated on symbols, case by case, and proved by sympy's expansion
(`case_analysis`). Where no proof is found, numbers may refute it (`sampling`). A law that is
neither is not proved, and what rests on it is refused as if it failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from monocomp.proving.arithmetic import ContradictionError
from monocomp.proving.case_analysis import OutOfTimeError, Path, UnprovedError, clock, for_all_cases
from monocomp.proving.identities import Claim, shown_values
from monocomp.proving.sampling import Sample
from monocomp.proving.symbolic import Algebra, UnsupportedTermError

TIME_LIMIT = 10.0  # seconds for one law
FACTS = ("commutative",)  # worth knowing, and no obligation
_SAMPLES = 300  # of a claim for which there is no proof

_T = TypeVar("_T")

# Laws, each with its subject, and the forms in which it may hold, the strongest first. What is to
# be proved is all laws of the first plan that succeeds.
Plan: TypeAlias = Sequence[tuple[str, Sequence[Claim]]]


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
        """True if it is no obligation."""
        return self.short in FACTS


def is_proved(laws: Iterable[Law]) -> bool:
    """True if all obligations hold."""
    return missing(laws) is None


def missing(laws: Iterable[Law]) -> Law | None:
    """Return the first obligation that is not proved."""
    return next((law for law in laws if not law.holds and not law.is_fact), None)


def is_commutative(laws: Iterable[Law]) -> bool:
    """True if the order of elements is proved not to matter."""
    return any(law.holds for law in laws if law.short == "commutative")


def _prove(claim: Claim, tick: Callable[[], None]) -> bool:
    """True if the claim holds in every case. False only says that no proof was found."""

    def check(path: Path) -> None:
        part = claim.parts[path.choose(len(claim.parts))]
        field = path.choose(len(part.left))
        if not path.same(*part.sides(path, field, part.assumed(path))):
            raise UnprovedError

    try:
        for_all_cases(check, tick)
    except (UnprovedError, UnsupportedTermError, RecursionError):
        return False
    return True


def _refute(claim: Claim, tick: Callable[[], None]) -> str | None:
    """Return a counterexample among numbers at random, the simplest first."""
    algebra = Algebra(tick)
    texts = (_counterexample(claim, Sample(seed, algebra)) for seed in range(_SAMPLES))
    return next(filter(None, texts), None)


def survives(claim: Claim) -> bool:
    """True if no sample contradicts the claim. It must answer soon, and False is always safe."""
    try:
        return _refute(claim, clock(1.0)) is None
    except OutOfTimeError:
        return False


def _counterexample(claim: Claim, sample: Sample) -> str | None:
    part = claim.parts[sample.choose(len(claim.parts))]
    try:
        known = part.assumed(sample)
        pairs = [part.sides(sample, n, known) for n in range(len(part.left))]
        if all(sample.same(*pair) for pair in pairs):
            return None
        named = {
            name: shown_values([sample.evaluate(t, *known) for t in terms])
            for name, terms in part.operands.items()
        }
    except (ContradictionError, UnsupportedTermError, RecursionError):
        return None
    left, right = zip(*pairs, strict=True)
    left_text, right_text = part.texts
    # Sides that differ late are shown with more digits.
    texts = [(shown_values(left, n), shown_values(right, n)) for n in (6, 12, 24)]
    one, other = next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
    text = f"{_filled(left_text, named)} = {one}"
    if right_text in {"{" + name + "}" for name in named}:
        text += f", not {other}"
    elif right_text:
        text += f", but {_filled(right_text, named)} = {other}"
    hidden = [n for n in named if n != "unit" and "{" + n + "}" not in left_text + right_text]
    given = ", ".join(f"{name} = {named[name]}" for name in hidden)
    return f"with {given}: {text}" if given else text


def _filled(text: str, shown: dict[str, str]) -> str:
    for name, value in shown.items():
        bare = value[0] == "(" or not (value[0] == "-" or " " in value)
        text = text.replace("{" + name + "}", value if bare else f"({value})")
    return text


class Prover:
    """Proves plans. Every law has its time, however often and in whatever form it is tried."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.spent: dict[str, float] = {}

    def first_plan(self, plans: Iterable[Plan]) -> tuple[Law, ...]:
        """Return the laws of the first plan whose obligations are all proved, else of the first."""
        first: tuple[Law, ...] | None = None
        for plan in plans:
            laws = []
            for subject, claims in plan:
                laws.append(self._law(subject, claims, search=first is None))
                if first is not None and not is_proved(laws):
                    break
            if is_proved(laws):
                return tuple(laws)
            first = first or tuple(laws)
        return first or ()

    def _law(self, subject: str, claims: Sequence[Claim], search: bool) -> Law:
        """Return the law in the first form that is proved; else what is known of the strongest."""
        strongest = claims[0]
        name = f"{subject}: {strongest.name}"
        for claim in claims:
            if self._timed(name, partial(_prove, claim)):
                return Law(name, claim.statement, True, None, self.spent[name])
        counterexample = None
        if search:
            counterexample = self._timed(name, partial(_refute, strongest))
        holds = None if counterexample is None else False
        return Law(name, strongest.statement, holds, counterexample, self.spent[name])

    def _timed(self, name: str, run: Callable[[Callable[[], None]], _T]) -> _T | None:
        """Run within what is left of a law's time; None when that is over."""
        start = time.thread_time()
        try:
            return run(clock(self.limit - self.spent.get(name, 0.0)))
        except OutOfTimeError:
            return None
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.thread_time() - start
