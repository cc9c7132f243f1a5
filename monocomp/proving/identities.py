"""Identities between terms, which run on symbols and on numbers alike, and claims made of them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TypeAlias

from monocomp import terms as T
from monocomp.proving import reading
from monocomp.proving.arithmetic import Arithmetic, Memo, Operands, Value, is_finite
from monocomp.terms import Term
from monocomp.terms.printer import number_text, show

Terms: TypeAlias = tuple[Term, ...]
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Identity:
    """`left = right` for all real values of the parameters for which `given` holds.

    Attributes:
        left, right: the fields of both sides.
        given: a condition on the parameters.
        infinities: what a parameter may be beside a real number, by its name.
        texts: both sides, with operands in braces; without a right one, the identity says that the
            left side has a property.
        operands: what the texts name.
    """

    left: Terms
    right: Terms
    given: Term
    infinities: dict[str, float]
    texts: tuple[str, str]
    operands: dict[str, Terms]

    @classmethod
    def of(
        cls, left: Term, right: Term, given: Term = T.TRUE, texts: Sequence[str] = ()
    ) -> Identity:
        """Return the identity of two terms whose parameters are real."""
        params: dict[str, Terms] = {
            t.attr: (t,) for t in T.subterms(left, right, given) if t.op == "param"
        }
        left_text, right_text = (
            _WORD.sub(lambda at: f"{{{at[0]}}}" if at[0] in params else at[0], text)
            for text in texts or (show(left), show(right))
        )
        return cls((left,), (right,), given, {}, (left_text, right_text), params)

    def assumed(self, case: Arithmetic) -> tuple[Operands, Memo]:
        """Return operands of a case for which the condition holds, and what is known of them."""
        operands, memo = _Operands(self, case), dict[Term, Value]()
        case.assume(case.evaluate(self.given, operands, memo))
        return operands, memo

    def sides(self, case: Arithmetic, field: int, known: tuple[Operands, Memo]) -> Sequence[Value]:
        """Return the values of a field on both sides."""
        return [case.evaluate(side[field], *known) for side in (self.left, self.right)]

    @property
    def statement(self) -> str:
        """The identity as a line of text."""
        condition = "" if self.given is T.TRUE else f", for {show(self.given)}"
        return " = ".join(map(without_braces, self.texts)) + condition

    @cached_property
    def conditions(self) -> Set[str]:
        """The parameters that are conditions."""
        terms = T.subterms(*self.left, *self.right, self.given)
        return {t.attr for t in terms if t.op == "param" and t.kind == "bool"}

    @cached_property
    def nonnegative(self) -> Set[str]:
        """The parameters of which the condition says so."""
        signs = (t for t in T.conjuncts(self.given) if t.op == "compare" and t.args[0] is T.ZERO)
        return {t.args[1].attr for t in signs if t.args[1].op == "param" and "<" in t.attr}


class _Operands(dict[str, Value]):
    """The operands of a case, each chosen when it is asked for: a proof splits cases only over
    operands that matter."""

    def __init__(self, identity: Identity, case: Arithmetic) -> None:
        super().__init__()
        self._identity, self._case = identity, case

    def __missing__(self, name: str) -> Value:
        of = self._identity
        if name in of.conditions:
            self[name] = bool(self._case.choose(2))
        elif name in of.infinities and self._case.choose(2):
            self[name] = of.infinities[name]
        else:
            self[name] = self._case.real(name, name in of.nonnegative)
        return self[name]


@dataclass(frozen=True)
class Claim:
    """A law: identities that hold together.

    Attributes:
        name: of the law.
        statement: the law as a line of text.
        parts: the identities.
    """

    name: str
    statement: str
    parts: tuple[Identity, ...]


def claim_of(name: str, text: str) -> Claim:
    """Return the claim that a law holds, from its text."""
    return Claim(name, text.replace(" for ", ", for "), (identity(text),))


def identity(text: str) -> Identity:
    """Read `left = right`, or that `for` a condition; `and finite a`, which real numbers are, says
    where the law stands beside infinite ones."""
    equation, _, given = text.partition(" for ")
    condition = given.partition("finite ")[0].removesuffix(" and ")
    texts = equation.split(" = ")
    left, right, *assumed = map(reading.expression, filter(None, [*texts, condition]))
    names = (n for e in (left, right, *assumed) for n in reading.conditions(e))
    reader = reading.Reader(frozenset(names))
    sides = reader.term(left), reader.term(right)
    if {t.kind for t in sides} == {"bool", "float"}:
        sides = reader.number(left), reader.number(right)
    return Identity.of(*sides, T.conjunction(*map(reader.term, assumed)), texts)


def without_braces(text: str) -> str:
    """Return the text of a side with its operands by name."""
    return text.replace("{", "").replace("}", "")


def shown_values(values: Sequence[Value], digits: int = 6) -> str:
    """Return a tuple of numbers as text; one of a single field as its number."""
    texts = [shown_value(x, digits) for x in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def shown_value(x: Value, digits: int = 6) -> str:
    """Return a number as text."""
    if isinstance(x, bool):
        return "true" if x else "false"
    if not is_finite(x):
        return "undefined" if math.isnan(x) else number_text(x, "float")
    exact = str(x).replace("/", " / ")
    if x.is_Rational and len(exact) <= 2 * digits:
        return exact
    return format(Decimal(str(x.evalf(digits))).normalize(), "g")
