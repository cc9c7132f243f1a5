"""Every mistake a user can make has one class here, and every message one shape.

The shape (after Rust, Elm and einops): what is wrong, with names and numbers; the line
with a caret under the place; what was found; what to write instead. A fault of the
compiler itself is an `InternalError`, never one of the others.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A half-open range of character offsets in a program's text."""

    start: int
    stop: int

    def to(self, other: Span) -> Span:
        """Return the smallest span that covers both."""
        return Span(min(self.start, other.start), max(self.stop, other.stop))


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """1-based line and column of a character offset."""
    offset = min(offset, len(text))
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return line, column


_WIDTH = 100  # columns of program text shown around a caret


def _excerpt(text: str, spans: tuple[Span, ...]) -> list[str]:
    """Return the lines that hold the spans, with carets, clipped to a readable width."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for span in spans:
        line, column = line_and_column(text, span.start)
        rows.setdefault(line, []).append((column, max(1, span.stop - span.start)))
    lines = text.split("\n")
    out: list[str] = []
    for number in sorted(rows):
        shown = lines[number - 1] if number <= len(lines) else ""
        first = min(column for column, _ in rows[number])
        skip = max(0, first - _WIDTH // 2) if len(shown) > _WIDTH else 0
        window = shown[skip : skip + _WIDTH]
        marks = [" "] * (_WIDTH + 1)
        for column, length in rows[number]:
            for place in range(column - 1 - skip, min(column - 1 - skip + length, len(window))):
                marks[place] = "^"
            if 0 <= column - 1 - skip <= _WIDTH:
                marks[column - 1 - skip] = "^"
        printable = "".join(c if c.isprintable() else " " for c in window)
        out += ["    " + printable, "    " + "".join(marks).rstrip()]
    return out


class MonocompError(Exception):
    """Base of every error that monocomp raises on purpose.

    Args:
        message: what is wrong, with the names and numbers.
        text: the program, when the place is in a program.
        spans: the places, the first one named by line and column.
        notes: what was found, one line each.
        help: what to write instead.
    """

    def __init__(
        self,
        message: str,
        *,
        text: str | None = None,
        spans: Span | Iterable[Span] = (),
        notes: Iterable[str] = (),
        help: str | None = None,
    ) -> None:
        self.message = message
        self.text = text
        self.spans = (spans,) if isinstance(spans, Span) else tuple(spans)
        self.notes = tuple(notes)
        self.help = help
        super().__init__(str(self))

    @property
    def line(self) -> int | None:
        """1-based line of the first place, or None."""
        return self._place()[0]

    @property
    def column(self) -> int | None:
        """1-based column of the first place, or None."""
        return self._place()[1]

    def _place(self) -> tuple[int | None, int | None]:
        if self.text is None or not self.spans:
            return None, None
        return line_and_column(self.text, self.spans[0].start)

    def __str__(self) -> str:
        return message(self.message, self.text, self.spans, self.notes, self.help)

    def described(self) -> str:
        """Return the message after the name of its class, as tracebacks show it."""
        return f"{type(self).__name__}: {self}"


class MonocompWarning(UserWarning):
    """A program or call is right, and may not mean or cost what its author thinks."""


def keeps_traceback(error: MonocompError) -> bool:
    """True if the frames between a call and its error are of use: those of a fault of the compiler,
    and of any error under MONOCOMP_DEBUG."""
    return isinstance(error, InternalError) or bool(os.environ.get("MONOCOMP_DEBUG"))


def message(
    head: str,
    text: str | None,
    spans: tuple[Span, ...],
    notes: Iterable[str] = (),
    help: str | None = None,
) -> str:
    """Write a message about places in a text, in the form that all messages have."""
    out = [head]
    if text is not None and spans:
        line, column = line_and_column(text, spans[0].start)
        out[0] += f" (line {line}, column {column})"
        out += _excerpt(text, spans)
    out += ["  " + note for note in notes]
    if help is not None:
        out.append("  help: " + help)
    return "\n".join(out)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to a misspelt one, or None."""
    import difflib

    names = list(known)
    for other in names:
        if other.lower() == name.lower():
            return other
    matches = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the help for an unknown name: the known one that was probably meant, if there is
    one."""
    near = nearest(name, known)
    return f"did you mean '{near}'?" if near else None


def unknown(name: str, known: Iterable[str], message: str, what: str) -> UsageError:
    """Return the error for a name that is none of the known ones, which the message calls
    `what`."""
    known = list(known)
    notes = (f"{what}: {', '.join(known) or 'none'}",)
    return UsageError(message, notes=notes, help=did_you_mean(name, known))


def require_known(name: str, known: Collection[str], message: str, what: str) -> None:
    """Raises that error for a name that is not known."""
    if name not in known:
        raise unknown(name, known, message, what)


@contextmanager
def in_text(text: str) -> Iterator[None]:
    """Errors that are raised meanwhile tell their places in this text."""
    try:
        yield
    except MonocompError as error:
        if error.text is None:
            error.text = text
            error.args = (str(error),)
        raise


def count_of(number: int, noun: str) -> str:
    """Return a number of things."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def quoted(names: Iterable[str]) -> str:
    """Return names in quotes, in a list."""
    return ", ".join(f"'{name}'" for name in names)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its class."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def shorten(text: str) -> str:
    """Shorten a text for a message, to at most 60 characters."""
    return text if len(text) <= 60 else text[:57] + "..."


class ParseError(MonocompError):
    """The text is not a program: a stray character, a missing bracket, operator or comma."""


class LimitError(MonocompError):
    """The program is larger than the compiler accepts (length, nesting, names, terms)."""


class EmptyProgramError(MonocompError):
    """The text holds no definition."""


class OutputError(MonocompError):
    """The program has no output, or `return` names something that is not one."""


class UnknownNameError(MonocompError):
    """A name without brackets is no index, parameter or scalar definition, or comes too early."""


class DuplicateNameError(MonocompError):
    """A name is defined twice."""


class ReservedNameError(MonocompError):
    """A name that cannot be used for a tensor, index, parameter or function."""


class UnknownIndexError(MonocompError):
    """An output index that the right-hand side lacks, or an index without an extent."""


class UnknownFunctionError(MonocompError):
    """A function, reduction or monoid that does not exist."""


class ArityError(MonocompError):
    """A function is called with the wrong number of arguments."""


class RecursiveDefinitionError(MonocompError):
    """A definition or function uses itself."""


class FilterError(MonocompError):
    """A filter does not mention an index that its reduction binds."""


class AmbiguousSumError(MonocompError):
    """An implied sum under a nonlinear function could be meant two ways."""


class TypeMismatchError(MonocompError):
    """A number stands where a condition is needed, or a float where an index is."""


class ShapeError(MonocompError):
    """An index has two sizes, or a tensor the wrong number of dimensions."""


class UnsupportedDtypeError(MonocompError):
    """A tensor's dtype is not one that the backend loads."""


class DeviceError(MonocompError):
    """Tensors lie on different devices, or on one that the backend cannot use."""


class InputError(MonocompError):
    """An input or parameter is missing, unknown or misspelt at a call."""


class IndexRangeError(MonocompError):
    """A computed index leaves its tensor (checked mode)."""


class MonoidLawError(MonocompError):
    """A law that a program rests on, a monoid's above all, does not hold or could not be proved."""


class UnsupportedError(MonocompError):
    """The program is right, and this backend cannot run it."""


class UsageError(MonocompError):
    """A command line or call that asks for something that does not exist."""


class InternalError(MonocompError):
    """A fault of the compiler; please report it with the program."""
