"""Claims proved on symbols or refuted by numbers, in limited time.

A claim (`claims`) is evaluated on symbols, case by case, and proved by sympy's expansion
(`case_analysis`), or evaluated on numbers and refuted (`sampling`). A law that is neither is
not proved, and what rests on it is refused as if it failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, TypeVar

from monocomp.proving.case_analysis import OutOfTimeError, Path, UnprovedError, clock, for_all_cases
from monocomp.proving.claims import Claim, Operands, shown_values
from monocomp.proving.extended_reals import ContradictionError, UnsupportedTermError
from monocomp.proving.sampling import Sample

TIME_LIMIT = 10.0  # seconds for one law
FACTS = ("commutative",)  # worth knowing, and no obligation
_LONG = 3000  # samples after a proof was tried

_T = TypeVar("_T")

# A law: its subject, and the forms in which it may hold, the strongest first.
Forms: TypeAlias = tuple[str, Sequence[Claim]]
# What to prove: all laws of the first plan that succeeds.
Plan: TypeAlias = Sequence[Forms]


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


def is_proved(laws: Iterable[Law]) -> bool:
    """Do all obligations hold?"""
    return missing(laws) is None


def missing(laws: Iterable[Law]) -> Law | None:
    """The first obligation that is not proved."""
    return next((law for law in laws if not law.holds and not law.is_fact), None)


def is_commutative(laws: Iterable[Law]) -> bool:
    """Is it proved that the order of elements does not matter?"""
    return any(law.holds for law in laws if law.short == "commutative")


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


def survives(claim: Claim, count: int) -> bool:
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


class Prover:
    """Proves plans. Every law has its time, however often and in whatever form it is tried."""

    def __init__(self, limit: float, samples: int) -> None:
        self.limit = limit
        self.samples = samples  # of the refutation that comes before a proof
        self.spent: dict[str, float] = {}

    def first_plan(self, plans: Iterable[Plan]) -> tuple[Law, ...]:
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

    def _law(self, forms: Forms, search: bool) -> Law:
        """The law in the first form that is proved; else what is known of the strongest."""
        subject, claims = forms
        strongest, *weaker = claims
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
        start = time.thread_time()
        try:
            return run(clock(self.limit - self.spent.get(name, 0.0)))
        except OutOfTimeError:
            return None
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.thread_time() - start
