"""Notes: what a program means where that may surprise, said without refusing it.

A note has the shape of an error, with line and caret. What the text alone tells is found by
`language/notes.py`, what the plan tells by `planning/notes.py`; `Kernel.notes` has both. Python
users get them as warnings, from an `Announcer`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from monocomp.errors import MonocompWarning, Span, message

_PACKAGE = str(Path(__file__).parent.parent)


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
        """Print the note with the lines of the program that it speaks of."""
        return f"note: {self.warning(text)}"

    def warning(self, text: str) -> str:
        """Print the note as the text of a warning."""
        return message(self.message, text, self.spans, (), self.help)


class Notes(tuple[Note, ...]):
    """The notes of a program, which print with its text."""

    text: str

    def __new__(cls, notes: Iterable[Note], text: str) -> Notes:
        """Notes on a text."""
        made = super().__new__(cls, notes)
        made.text = text
        return made

    def __str__(self) -> str:
        return "\n".join(note.shown(self.text) for note in self)

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(str(self))  # type: ignore[attr-defined]


class Announcer:
    """Tells Python users the notes on one kernel as warnings, each note once."""

    def __init__(self) -> None:
        self._told: set[Note] = set()

    def tell(self, notes: Iterable[Note], text: str) -> None:
        """Warn of notes that have not been told, at the line outside of this package that led here.

        Args:
            notes: what the program means or costs, also what only a call can know.
            text: the program.
        """
        for note in notes:
            if note not in self._told:
                self._told.add(note)
                warnings.warn(note.warning(text), MonocompWarning, stacklevel=_level_of_user())


def _level_of_user() -> int:
    """Return the `stacklevel` for the caller of this function's caller."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
