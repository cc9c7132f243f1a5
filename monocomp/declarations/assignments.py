"""Names as callers give them, and words of the form `name=value`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from monocomp.errors import UsageError, shorten

T = TypeVar("T")


def as_names(names: str | Sequence[str] | None) -> Sequence[str] | None:
    """Return names; a single one may be given without a list."""
    return [names] if isinstance(names, str) else names


def read_pairs(
    words: Iterable[str], form: str, convert: Callable[[str], T], wanted: str
) -> dict[str, T]:
    """Return `name=value` words as a dictionary.

    Raises:
        UsageError: a word has another form, a name comes twice, or a value does not convert.
    """
    pairs: dict[str, T] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"\.?\w+", name, re.ASCII):
            raise UsageError(
                f"'{shorten(word)}' is not of the form {form}",
                help="PROGRAM comes before the options that take several words",
            )
        if name in pairs:
            raise UsageError(f"'{name}' is given twice")
        try:
            pairs[name] = convert(value)
        except ValueError:
            raise UsageError(f"'{name}' must be {wanted}, not '{shorten(value)}'") from None
    return pairs


def read_sizes(words: Iterable[str]) -> dict[str, int]:
    """Return `name=size` words as sizes by the name of an index."""
    by_name = read_pairs(words, "INDEX=SIZE", int, "a whole number")
    for name, size in by_name.items():
        if not 0 <= size < 2**63:
            raise UsageError(f"the extent of '{name}' must lie in 0 to 2**63 - 1")
    return by_name
