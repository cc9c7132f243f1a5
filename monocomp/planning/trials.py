"""Trials: steps are tried, priced, and kept where they leave little enough of a program's time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from monocomp.rewriting.driver import Step
from monocomp.terms.equations import Equations

Candidate = TypeVar("Candidate")


@dataclass
class Budget:
    """The trials that a program may take, each in the time that it takes to price one.

    Attributes:
        left: how many more.
        is_spent: True if candidates were left out.
    """

    left: int = 100
    is_spent: bool = False

    def within(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Yield candidates while trials are left."""
        for candidate in candidates:
            if not self.left:
                self.is_spent = True
                return
            self.left -= 1
            yield candidate


def keep_cheaper(
    program: Equations,
    candidates: Iterable[Candidate],
    tried: Callable[[Equations, Candidate], Sequence[Step]],
    share: float = 1.0,
) -> tuple[Equations, list[Step]]:
    """Return the program after the steps that are worth it, and those.

    Args:
        program: where the first trial begins; each other begins where the last one that was kept
            has ended.
        candidates: what steps are tried for.
        tried: the steps for one of them, none if there is nothing to try. The last has the cost;
            those without one are needed anyway.
        share: what must be left of the time is less than this.
    """
    kept: list[Step] = []
    for candidate in candidates:
        steps = tried(program, candidate)
        cost = steps[-1].cost if steps else None
        if steps and (cost is None or cost.after < share * cost.before):
            kept += steps
            program = steps[-1].program
    return program, kept
