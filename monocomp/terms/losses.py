"""What canonical form forgets: that a part which cancels may have been NaN.

`x - x` is 0 and `x / x` is 1 wherever they are numbers, which is all that a result needs. What
asks whether a value is a number sees the difference: `where(x - x == 0, x, 0)` says of an infinite
x that it is none. So constructors note what they let go, and what is asked about is built anew
without canonical form (`exactly`) where something was lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from monocomp.terms.facts import is_finite
from monocomp.terms.nodes import Term

_NOTED: list[list[Term]] = []


@contextmanager
def losses() -> Iterator[list[Term]]:
    """The terms meanwhile let go that may have been infinite or NaN."""
    _NOTED.append([])
    try:
        yield _NOTED[-1]
    finally:
        lost = _NOTED.pop()
        if _NOTED:
            _NOTED[-1] += lost


def lose(*terms: Term) -> None:
    """Note that these are let go, but for those that are finite anyway."""
    if _NOTED:
        _NOTED[-1] += [t for t in terms if not is_finite(t)]
