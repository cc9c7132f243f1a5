"""Write Python expressions and comments as text."""

from __future__ import annotations

import math
from fractions import Fraction

from monocomp.backends.line_breaks import WIDTH
from monocomp.declarations.record import record
from monocomp.terms import Number

TYPES = {"float": "dtype", "int": "torch.int64", "bool": "torch.bool"}


@record()
class Code:
    """A Python expression, whose text may have more parentheses than it needs: they are left out
    where it is laid out.

    Attributes:
        text: the expression.
        number: is its value a plain number rather than a tensor?
    """

    text: str
    number: bool = False


def number_text(value: Number) -> str:
    """Return a number as Python writes it: the nearest float64, which is infinite beyond the
    largest."""
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if math.isinf(nearest):
        return "torch.inf" if nearest > 0 else "-torch.inf"
    exact = Fraction(value)
    if exact.denominator == 1 and abs(exact.numerator) < 2**53:
        return str(exact.numerator)
    return repr(nearest).replace("e+", "e")  # as formatters write it


def default_text(value: float) -> str:
    """Return a parameter's value as Python writes it."""
    if isinstance(value, float) and math.isinf(value):
        return number_text(value)
    return repr(value)


def split_number(number: Number) -> tuple[Fraction | float, Fraction]:
    """Return a number as a factor and a divisor; binary fractions need no divisor."""
    if isinstance(number, float) or number.denominator & (number.denominator - 1) == 0:
        return number, Fraction(1)
    if max(abs(number.numerator), number.denominator) >= 2**1024:  # no float is that large
        return number, Fraction(1)
    return Fraction(number.numerator), Fraction(number.denominator)


def comment_lines(text: str) -> list[str]:
    """Return a comment of one or more lines."""
    out, line = [], "    #"
    for word in text.split(" "):
        if len(line) + len(word) + 1 > WIDTH and line.strip() != "#":
            out.append(line)
            line = "    #  "
        line += " " + word
    return [*out, line]
