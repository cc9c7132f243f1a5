"""Claims proved on symbols or refuted by numbers, in limited time.

A claim (`identities`) is evaluated on symbols, case by case, and proved by sympy's expansion
(`case_analysis`). Where no proof is found, numbers may refute it (`Sample`). A law that is
neither is not proved, and what rests on it is refused as if it failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from monocomp.declarations.record import record
from monocomp.display.formulas import Formula
from monocomp.proving.arithmetic import Algebra, UnsupportedTermError
from monocomp.proving.case_analysis import (
    ContradictionError,
    OutOfTimeError,
    Path,
    Sample,
    clock,
    holds_in_all_cases,
)
from monocomp.proving.identities import Claim, show_values

TIME_LIMIT = 10.0  # seconds for one law
FACTS = ("commutative",)  # worth knowing, and no obligation
_SAMPLES = 300  # of a claim for which there is no proof

_T = TypeVar("_T")

# Laws, each with its subject, and the forms in which it may hold, the strongest first. All laws of
# the first plan that succeeds are to be proved.
Plan: TypeAlias = Sequence[tuple[str, Sequence[Claim]]]


@record()
class Law:
    """A law and the outcome of its proof.

    Attributes:
        name: the monoid and the law, "Affine: associative".
        statement: what it says; `.` is the combine.
        holds: proved, refuted, or None when neither succeeded in time.
        counterexample: where it fails, with the values of both sides.
        seconds: spent on finding out.
    """

    name: str
    statement: Formula
    holds: bool | None
    counterexample: str | None
    seconds: float

    @property
    def short(self) -> str:
        """Return the law without the monoid."""
        return self.name.rpartition(": ")[2]

    def to_json(self) -> dict[str, Any]:
        """Return the law with its statement as a tree."""
        return {**vars(self), "statement": self.statement.to_json()}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Law:
        """Return the law that was stored."""
        return cls(**{**stored, "statement": Formula.from_json(stored["statement"])})

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

    def is_equal(path: Path) -> bool:
        part = claim.parts[path.choose(len(claim.parts))]
        number = path.choose(len(part.left))
        return path.same(*part.sides(path, number, part.evaluator(path)))

    try:
        return holds_in_all_cases(is_equal, tick)
    except (UnsupportedTermError, RecursionError):
        return False


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
        value = part.evaluator(sample)
        pairs = [part.sides(sample, n, value) for n in range(len(part.left))]
        if all(sample.same(*pair) for pair in pairs):
            return None
        operands = {name: list(map(value, terms)) for name, terms in part.operands.items()}
    except (ContradictionError, UnsupportedTermError, RecursionError):
        return None
    sides = list(zip(*pairs, strict=True))
    # Sides that differ late are shown with more digits.
    texts = [[show_values(side, digits) for side in sides] for digits in (6, 12, 24)]
    shown = next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
    equations = [f"{side} = {x}" for side, x in zip(part.shown, shown, strict=False)]
    elements = ", ".join(f"{name} = {show_values(x)}" for name, x in operands.items())
    return " and ".join(equations) + (f", for {elements}" if elements else "")


class Prover:
    """Proves plans. Every law has its time, however often and in whatever form it is tried."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.spent: dict[str, float] = {}

    def first_plan(self, plans: Iterable[Plan]) -> tuple[Law, ...]:
        """Return the laws of the first plan whose obligations are all proved, else of the first."""
        first: tuple[Law, ...] | None = None
        for plan in plans:
            laws = list[Law]()
            for subject, forms in plan:
                laws.append(self._law(subject, forms, search=first is None))
                if first is not None and not is_proved(laws):
                    break
            if is_proved(laws):
                return tuple(laws)
            first = first or tuple(laws)
        return first or ()

    def _law(self, subject: str, forms: Sequence[Claim], search: bool) -> Law:
        """Return the law in the first form that is proved; else what is known of the strongest."""
        strongest = forms[0]
        name = f"{subject}: {strongest.name}"
        for claim in forms:
            if self._timed(name, partial(_prove, claim)):
                return Law(name, claim.statement, True, None, self.spent[name])
        counterexample = self._timed(name, partial(_refute, strongest)) if search else None
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
