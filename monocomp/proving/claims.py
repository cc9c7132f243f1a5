"""Claims: equations that run on symbols and on numbers alike.

A claim evaluates both sides of a law on operands that it asks for, in whatever arithmetic it
is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from monocomp.proving.extended_reals import Cases, Value
from monocomp.terms.printer import number_text

Values: TypeAlias = Sequence[Value]
Operands: TypeAlias = dict[str, Values]  # of a case, by the name under which they are shown


class Lazy(Sequence[Value]):
    """A tuple whose fields are computed when asked for.

    A proof looks at one field of a law at a time. So it splits cases only over operands
    that this field depends on, and independent fields do not multiply each other's cases.
    """

    def __init__(self, count: int, compute: Callable[[int], Value]) -> None:
        self._count = count
        self._compute = compute
        self._known: dict[int, Value] = {}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, n: Any) -> Any:
        if not 0 <= n < self._count:
            raise IndexError(n)
        if n not in self._known:
            self._known[n] = self._compute(n)
        return self._known[n]


@dataclass(frozen=True)
class Sides:
    """The two sides of a claim in one case.

    The texts show them in the case's operands, {x}; by default they are the claim's own.
    """

    left: Values
    right: Values
    left_text: str | None = None
    right_text: str | None = None


@dataclass(frozen=True)
class Claim:
    """An equation between two evaluations.

    Attributes:
        name: of the law.
        left, right: both sides as text, with operands in braces. Without a right side, the
            claim is that the left one has the property that `condition` names.
        check: evaluates both sides on the operands of one case, and names the operands.
        condition: where it is claimed, as text.
    """

    name: str
    left: str
    right: str
    check: Callable[[Cases, Operands], Sides]
    condition: str = ""

    @property
    def statement(self) -> str:
        """The law as a line of text."""
        left, right = without_braces(self.left), without_braces(self.right)
        return (f"{left} = {right}" if right else left) + self.condition


def without_braces(text: str) -> str:
    """The text of a side with its operands by name."""
    return text.replace("{", "").replace("}", "")


def shown_values(values: Values, digits: int = 6) -> str:
    """A tuple of numbers as text; one of a single field as its number."""
    texts = [shown_value(x, digits) for x in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def shown_value(x: Value, digits: int) -> str:
    """A number as text."""
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, float):
        return "undefined" if math.isnan(x) else number_text(x, "float")
    if not isinstance(x, Fraction):
        return str(x.context.nstr(x, digits))
    exact = str(x).replace("/", " / ")
    if len(exact) <= 2 * digits:
        return exact
    return format(Decimal(x.numerator) / Decimal(x.denominator), f".{digits}g")
