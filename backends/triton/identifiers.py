"""Names for emitted code: from the program's names, and never anything else.

A program's names are data. Each becomes one Python identifier that is unique in the file
and collides with no keyword, builtin or module; anything that is not a plain ASCII
identifier is refused before it can reach the source.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

from monocomp.errors import InternalError

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,80}\Z", re.ASCII)

RESERVED = frozenset(
    {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "tl", "triton", "torch"}
)


class Identifiers:
    """Gives each (purpose, name) of one scope an identifier of its own."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._taken: set[str] = {*RESERVED, *taken}

    def of(self, purpose: str, name: str, wanted: str | None = None) -> str:
        """The identifier of a name used for a purpose; `wanted` is the preferred spelling."""
        found = self._given.get((purpose, name))
        if found is None:
            base = (wanted if wanted is not None else name).lstrip("_.") or "x"
            if not _PLAIN.match(base):
                base = "x_" + re.sub(r"[^A-Za-z0-9_]", "", base, flags=re.ASCII)
            if not _PLAIN.match(base):
                raise InternalError(f"{name!r} cannot be written as an identifier")
            found, n = base, 1
            while found in self._taken:
                n += 1
                found = f"{base}_{n}"
            self._taken.add(found)
            self._given[purpose, name] = found
        return found
