"""A text as words: names, numbers and marks, each with its place.

The end of a line is a word too, and ends a statement, but for those that `statements` leaves out:
inside brackets, and after a word that cannot end a statement, a line goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from monocomp.errors import Span
from monocomp.vocabulary import KEYWORDS

_WORDS = re.compile(
    r"(?P<nothing>[ \t\r\f\ufeff]+|#[^\n]*)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*'?)"
    r"|(?P<number>(?:[0-9]+(?:\.(?!\.)[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<mark>\*\*|//|<=|>=|==|!=|->|\.\.|[-+*/%<>=()\[\]|,.:;\n])"
    r"|(?P<unknown>.)",
    re.DOTALL,
)
# A line that ends in one of these goes on.
CONTINUING = frozenset(
    [*"+-*/%<>=,", "//", "**", "<=", ">=", "==", "!=", "->", "and", "or", "not", "if"]
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the text; its end is one as well, without letters."""

    text: str
    kind: str
    span: Span

    @property
    def is_operand(self) -> bool:
        """Whether a value or name can start here, and end here unless it is a bracket."""
        return self.text not in KEYWORDS - {"inf"} and self.kind in ("name", "number")

    @property
    def shown(self) -> str:
        """What messages call it."""
        if not self.text:
            return "the end of the program"
        return "the end of the line" if self.text == "\n" else f"'{self.text}'"


def words(text: str) -> list[Word]:
    """All words, and the end of the text."""
    found = [
        Word(match[0], str(match.lastgroup), Span(*match.span()))
        for match in _WORDS.finditer(text)
        if match.lastgroup != "nothing"
    ]
    stop = found[-1].span.stop if found else 0
    return [*found, Word("", "end", Span(stop, stop))]


def statements(found: Iterable[Word]) -> Iterator[Word]:
    """The words without the ends of lines that end no statement."""
    depth, last = 0, ";"
    for word in found:
        is_empty = word.text in (";", "\n") and last in (";", "\n")
        if is_empty or (word.text == "\n" and (depth or last in CONTINUING)):
            continue
        depth += (word.text in ("(", "[")) - (word.text in (")", "]"))
        last = word.text
        yield word
