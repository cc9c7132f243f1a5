"""Identities between terms, which run on symbols and on numbers alike, and claims made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from functools import cache
from typing import TypeAlias

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.display.formulas import Formula, chain, sentence, words
from monocomp.language.printing import equation
from monocomp.proving import reading
from monocomp.proving.case_analysis import (
    ContradictionError,
    Evaluator,
    Path,
    Value,
    is_finite,
)
from monocomp.terms import Term
from monocomp.terms.printer import formula, number_text

Terms: TypeAlias = tuple[Term, ...]


@record()
class Identity:
    """`left = right` for all real values of the parameters for which a condition holds.

    Attributes:
        left, right: the fields of both sides.
        shown: both sides, or the left one of an identity that says that it has a property.
        condition: on the parameters.
        infinities: what a parameter may be beside a real number, by its name.
        operands: tuples of parameters that a counterexample shows, by name.
    """

    left: Terms
    right: Terms
    shown: tuple[Formula, ...]
    condition: Term = T.TRUE
    infinities: Mapping[str, float] = field(default_factory=dict)
    operands: Mapping[str, Terms] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        left: Term,
        right: Term,
        condition: Term = T.TRUE,
        shown: tuple[Formula, ...] = (),
    ) -> Identity:
        """Return the identity of two terms whose parameters are real."""
        sides = shown or (formula(left), formula(right))
        params = {t.attr: (t,) for t in T.subterms(left, right, condition) if t.op == "param"}
        return cls((left,), (right,), sides, condition, operands=params)

    @property
    def statement(self) -> Formula:
        """Return the identity, and for which values it holds."""
        needed = () if self.condition is T.TRUE else (formula(self.condition),)
        return sentence(chain("=", *self.shown), *where(needed))

    def evaluator(self, case: Path) -> Evaluator:
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

    def sides(self, case: Path, number: int, value: Evaluator) -> Sequence[Value]:
        """Return the values of a field on both sides."""
        return value(self.left[number]), value(self.right[number])


@record()
class Claim:
    """A law: identities that hold together.

    Attributes:
        name: of the law.
        statement: the law, as it is shown.
        parts: the identities.
    """

    name: str
    statement: Formula
    parts: tuple[Identity, ...]


def where(conditions: Iterable[Formula]) -> Iterator[Formula | str]:
    """Yield the end of a sentence that says for which values it holds."""
    for n, condition in enumerate(conditions):
        yield " and " if n else ", for "
        yield condition


def claim_of(name: str, text: str) -> Claim:
    """Return the claim `left = right`, or that `for` a condition. `and finite a`, which real
    numbers are, says where the law stands beside infinite ones."""
    equal, _, conditions = text.partition(" for ")
    condition, are_finite, finite = conditions.partition("finite ")
    condition = condition.removesuffix(" and ")
    texts = [*equal.split(" = "), *filter(None, [condition])]
    left, right, *assumed = map(reading.expression, texts)
    names = (n for e in (left, right, *assumed) for n in reading.conditions(e))
    reader = reading.Reader(frozenset(names))
    sides = reader.term(left), reader.term(right)
    if {t.kind for t in sides} == {"bool", "float"}:
        sides = reader.number(left), reader.number(right)
    shown = tuple(map(equation, texts))
    identity = Identity.of(*sides, T.conjunction(*map(reader.term, assumed)), shown[:2])
    needed = [*shown[2:], *([words(are_finite + finite)] if finite else [])]
    return Claim(name, sentence(chain("=", *shown[:2]), *where(needed)), (identity,))


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
