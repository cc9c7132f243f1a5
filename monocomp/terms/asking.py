"""Facts that rules ask for: each is remembered, and noted while a certificate is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import Any, TypeAlias, TypeVar, TypeVarTuple

from monocomp.declarations.record import record
from monocomp.terms.nodes import Term

Decision: TypeAlias = Callable[[Term], bool]
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_ASKED: list[dict[tuple[str, Term], None]] = []
_FOUND: list[dict[Any, Any]] = []  # what follows from them


@contextmanager
def facts_asked() -> Iterator[dict[tuple[str, Term], None]]:
    """Yield the facts that hold of those that are asked for meanwhile: what a rule relied on."""
    _ASKED.append({})
    _FOUND.append({})
    try:
        yield _ASKED[-1]
    finally:
        _ASKED.pop()
        _FOUND.pop()


@record()
class Fact:
    """A fact that may be known of a term.

    Attributes:
        words: the text that says it of the term.
        follows_from: the names of stronger facts.
    """

    words: str
    follows_from: tuple[str, ...]


FACTS: dict[str, Fact] = {}


def fact(words: str, *follows_from: str) -> Callable[[Decision], Decision]:
    """Return a fact about a term, remembered, and noted where somebody wants to know."""

    def named(decide: Decision) -> Decision:
        name = decide.__name__
        FACTS[name] = Fact(words, follows_from)
        decided = lru_cache(maxsize=65536)(decide)

        @wraps(decide)
        def ask(t: Term) -> bool:
            holds = decided(t)
            if holds and _ASKED:
                _ASKED[-1][name, t] = None
            return holds

        return ask

    return named


def remembered(find: Callable[[*_Ts], _T]) -> Callable[[*_Ts], _T]:
    """Remember what follows from facts (decorator); where somebody wants to know these, it is found
    anew, once."""
    found = lru_cache(maxsize=65536)(find)

    @wraps(find)
    def ask(*args: *_Ts) -> _T:
        if not _ASKED:
            return found(*args)
        here, question = _FOUND[-1], (ask, args)
        if question not in here:
            here[question] = find(*args)
        answer: _T = here[question]
        return answer

    return ask
