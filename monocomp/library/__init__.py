"""The programs that come with monocomp, found by name.

Each is a file `NAME.mc` beside this module. Its first line says what it computes, the
comment lines after it where that comes from.
"""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable

from monocomp.errors import UsageError, did_you_mean

_SUFFIX = ".mc"


def names() -> tuple[str, ...]:
    """The programs' names, in alphabetical order."""
    files = (entry.name for entry in resources.files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX)))


def path(name: str) -> Traversable:
    """The file of a program."""
    known = names()
    if name not in known:
        raise UsageError(
            f"the library has no program '{name}'",
            notes=(f"programs: {', '.join(known)}",),
            help=did_you_mean(name, known),
        )
    return resources.files(__name__).joinpath(name + _SUFFIX)


def load(name: str) -> str:
    """The text of a program.

    >>> print(load("logsumexp").splitlines()[-1])
    L[i] = logsumexp[k](X[i,k])
    """
    return path(name).read_text(encoding="utf-8")


def about(name: str) -> str:
    """What a program computes, in one line."""
    return load(name).partition("\n")[0].lstrip("# ").rstrip(".")
