"""Identities between terms, which run on symbols and on numbers alike, and claims made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from functools import cache
from typing import TypeAlias

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.proving import reading
from monocomp.proving.arithmetic import (
    Arithmetic,
    ContradictionError,
    Evaluator,
    Value,
    is_finite,
)
from monocomp.terms import Term
from monocomp.terms.printer import number_text, show

Terms: TypeAlias = tuple[Term, ...]


@record()
class Identity:
    """`left = right` for all real values of the parameters for which a condition holds.

    Attributes:
        left, right: the fields of both sides.
        texts: both sides; without a right one, the identity says that the left side has a property.
        condition: on the parameters.
        infinities: what a parameter may be beside a real number, by its name.
        operands: tuples of parameters that a counterexample shows, by name.
    """

    left: Terms
    right: Terms
    texts: tuple[str, str]
    condition: Term = T.TRUE
    infinities: Mapping[str, float] = field(default_factory=dict)
    operands: Mapping[str, Terms] = field(default_factory=dict)

    @classmethod
    def of(
        cls, left: Term, right: Term, condition: Term = T.TRUE, texts: Sequence[str] = ()
    ) -> Identity:
        """Return the identity of two terms whose parameters are real."""
        left_text, right_text = texts or (show(left), show(right))
        params = {t.attr: (t,) for t in T.subterms(left, right, condition) if t.op == "param"}
        return cls((left,), (right,), (left_text, right_text), condition, operands=params)

    @property
    def statement(self) -> str:
        """Return the identity as a line of text."""
        conditions = "" if self.condition is T.TRUE else f", for {show(self.condition)}"
        return " = ".join(self.texts) + conditions

    def evaluator(self, case: Arithmetic) -> Evaluator:
        """Return the values of terms in a case, for operands for which the condition holds. Each
        is chosen when it is asked for: a proof splits cases only over operands that matter."""
        signs = (
            t for t in T.conjuncts(self.condition) if t.op == "compare" and t.args[0] is T.ZERO
        )
        nonnegative = {t.args[1] for t in signs if "<" in t.attr}

        @cache
        def operand(t: Term) -> Value:
            if t.kind == "bool":
                return bool(case.choose(2))
            if t.attr in self.infinities and case.choose(2):
                return self.infinities[t.attr]
            return case.real(t.attr, t in nonnegative)

        value = case.evaluator(operand)
        if not value(self.condition):
            raise ContradictionError
        return value

    def sides(self, case: Arithmetic, number: int, value: Evaluator) -> Sequence[Value]:
        """Return the values of a field on both sides."""
        return value(self.left[number]), value(self.right[number])


@record()
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
    """Return the claim `left = right`, or that `for` a condition. `and finite a`, which real
    numbers are, says where the law stands beside infinite ones."""
    equation, _, conditions = text.partition(" for ")
    condition = conditions.partition("finite ")[0].removesuffix(" and ")
    texts = equation.split(" = ")
    left, right, *assumed = map(reading.expression, filter(None, [*texts, condition]))
    names = (n for e in (left, right, *assumed) for n in reading.conditions(e))
    reader = reading.Reader(frozenset(names))
    sides = reader.term(left), reader.term(right)
    if {t.kind for t in sides} == {"bool", "float"}:
        sides = reader.number(left), reader.number(right)
    identity = Identity.of(*sides, T.conjunction(*map(reader.term, assumed)), texts)
    return Claim(name, text.replace(" for ", ", for "), (identity,))


def show_values(values: Sequence[Value], digits: int = 6) -> str:
    """Return a tuple of numbers as text; one of a single field as its number."""
    texts = [_number(x, digits) for x in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _number(x: Value, digits: int) -> str:
    if isinstance(x, bool):
        return "true" if x else "false"
    if not is_finite(x):
        return "undefined" if math.isnan(x) else number_text(x, "float")
    exact = str(x).replace("/", " / ")
    if x.is_Rational and len(exact) <= 2 * digits:
        return exact
    return format(Decimal(str(x.evalf(digits))).normalize(), "g")
