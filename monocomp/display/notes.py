"""Notes: what a program means where that may surprise, said without refusing it.

A note has the shape of an error, with line and caret. What the text alone tells is found by
`language/notes.py`, what the plan tells by `planning/notes.py`; `Kernel.notes` has both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from monocomp.errors import Span, message


@dataclass(frozen=True)
class Note:
    """One remark.

    Attributes:
        message: what the program means, or costs.
        spans: the places in the text, the first one named by line and column.
        help: what to write instead, if something else was meant.
    """

    message: str
    spans: tuple[Span, ...] = ()
    help: str | None = None

    def shown(self, text: str) -> str:
        """With the lines of the program that it speaks of."""
        return message(f"note: {self.message}", text, self.spans, (), self.help)


class Notes(tuple[Note, ...]):
    """The notes of a program, which print with its text."""

    text: str

    def __new__(cls, notes: Iterable[Note], text: str) -> Notes:
        """Notes on a text."""
        found = super().__new__(cls, notes)
        found.text = text
        return found

    def __str__(self) -> str:
        return "\n".join(note.shown(self.text) for note in self)

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(str(self))  # type: ignore[attr-defined]
