"""What canonical form forgets, that a part which cancels may have been NaN, and terms without it.

`x - x` is 0 and `x / x` is 1 wherever they are numbers, which is all that a result needs. What
asks whether a value is a number sees the difference: `where(x - x == 0, x, 0)` says of an infinite
x that it is none. So constructors note what they let go, and what is asked about is built
without canonical form where something would be lost: as one operation on its operands, which
no rule looks into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from typing import Any

from monocomp.declarations.vocabulary import Kind
from monocomp.terms.asking import is_asking
from monocomp.terms.constructors import CONSTRUCTORS
from monocomp.terms.facts import is_finite
from monocomp.terms.nodes import Term, inert, intern

_NOTED: list[list[Term]] = []
PLAIN = "plain"  # a division of which 0 / 0 is no number, whatever is divided


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


def remembered(make: Callable[[tuple[Term, ...], bool], Term]) -> Callable[..., Term]:
    """What a constructor makes, remembered: of one program the same sums and products are asked
    for again and again. Made anew where somebody notes what is lost, or which facts are asked."""
    made = lru_cache(maxsize=1 << 16)(make)

    def construct(terms: Iterable[Term], as_written: bool) -> Term:
        if _NOTED or is_asking():
            return make(tuple(terms), as_written)
        return made(tuple(terms), as_written)

    return construct


def losing_nothing(make: Callable[[], Term]) -> Term:
    """What is made, whatever seems to be let go by its parts."""
    with losses() as lost:
        found = make()
        lost.clear()
    return found


def exactly(op: str, *args: Term, attr: Any = None, kind: Kind = "float") -> Term:
    """An operation as IEEE 754 has it, x / x and x - x included: no operand cancels another.
    `div` is one, too: one that is `PLAIN`, or of what may be of nothing. That may have a third
    operand: where 0 / 0 is no number, as neither is an aggregate over nothing."""
    return intern("exactly", args, (op, attr), kind)


def as_it_stands(t: Term) -> Term:
    """The operation of an `exactly` term, not brought to canonical form."""
    op, attr = t.attr
    if op == "div":
        a, b, *_ = t.args
        return inert("mul", a, inert("pow", b, attr=Fraction(-1)))
    return intern(op, t.args, attr, t.kind)


CONSTRUCTORS["exactly"] = lambda args, attr, kind: intern("exactly", args, attr, kind)
