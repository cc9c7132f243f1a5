"""Rules that are equations of the language.

    hoist_addend: max[k if c](a + x) = a + max[k if c](x)  needs a free of k

One text is the law that is proved, the pattern, the documentation, the example and the near misses.
Its letters are variables: terms that may vary with every index in scope. A need that follows
`worth` says where the equation is used; the law holds without it. Each side is also a program, in
which variables are read from inputs. So translation, oracle and printer take it as any other, and
`matching` compares the left side, translated, with terms.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS
from monocomp.display.formulas import Formula
from monocomp.errors import InternalError
from monocomp.language import syntax
from monocomp.language.checker import check
from monocomp.language.printing import equation
from monocomp.proving.identities import Claim, Identity
from monocomp.proving.reading import SIZES, Reader, conditions, expression
from monocomp.proving.rule_laws import RULE_LAWS, RuleLaw
from monocomp.rewriting.matching import (
    Bindings,
    Demand,
    Test,
    instance,
    matches,
)
from monocomp.rewriting.rules import Rule
from monocomp.terms import Term
from monocomp.translation.translator import translate


def _everywhere(x: Term) -> Term:
    return T.TRUE


def _from_zero(x: Term) -> Term:
    return T.compare("<=", T.ZERO, x)


def _above_zero(x: Term) -> Term:
    return T.compare("<", T.ZERO, x)


# Needs of a variable in a rule: the fact that decides it of a term, and the same as a
# condition on a real number.
PREDICATES: dict[str, tuple[Callable[[Term], bool], Callable[[Term], Term]]] = {
    "finite if read": (T.is_finite_if_read, _everywhere),
    "finite if there": (T.is_finite_if_there, _everywhere),
    "unmasked if read": (T.is_unmasked_if_read, _everywhere),
    "a weight": (T.is_nonnegative, _from_zero),
    "nonnegative": (T.is_nonnegative, _from_zero),
    "positive": (T.is_positive, _above_zero),
    "positive where it is a number": (T.is_positive_if_specified, _above_zero),
}


@record()
class Need:
    """`a finite`, `a free of k` or `k has an element`."""

    name: str
    words: str

    @property
    def free_of(self) -> str | None:
        """Return the index that a variable must not vary with."""
        return self.words[-1] if self.words.startswith("free of ") else None

    @property
    def fact(self) -> str:
        """Return the name of the fact that decides it, or "form"."""
        if self.free_of is not None:
            return "form"
        return "has_element" if self.is_of_fold else PREDICATES[self.words][0].__name__

    def holds(self, bindings: Bindings) -> bool:
        """Decide whether what was found meets it."""
        t = self.subject(bindings)
        if self.free_of is not None:
            bound, _ = bindings.folds[self.free_of]
            return t.free.isdisjoint(i.name for i in bound)
        return T.has_element(t) if self.is_of_fold else PREDICATES[self.words][0](t)

    @property
    def is_of_fold(self) -> bool:
        """True if it is a need of a fold, not of a variable."""
        return self.words == "has an element"

    def subject(self, bindings: Bindings) -> Term:
        """Return the term of which something is needed."""
        return bindings.folds[self.name][1] if self.is_of_fold else bindings.terms[self.name]

    def __str__(self) -> str:
        return f"{self.name} {self.words}"


@record()
class Guard:
    """A decision where an equation is worth using.

    Attributes:
        holds: decides it of what matches.
        key: a value that is the same for all addends or factors that a variable takes.
    """

    holds: Test
    key: Callable[[Bindings], Hashable] | None = None


_TEXT = re.compile(
    r"(?P<name>\w+): (?P<left>.+?) = (?P<right>.+?)(?: +needs (?P<needs>.+?))?"
    r"(?:,? +worth (?P<worth>.+))?"
)
_VARIABLE = re.compile(r"(?<![\w.|])[a-z](?![\w(\[|])")


@record(eq=False)
class Equation(Rule):
    """A rule that is an equation.

    Attributes:
        left, right: both sides.
        needs: hypotheses of the law, each one of several.
        worth: the guards that say where it is used, by what they say.
        is_definition: says what a word of the language means, so that nothing is to be proved.
    """

    left: str
    right: str
    needs: tuple[tuple[Need, ...], ...]
    worth: Mapping[str, Guard] = field(default_factory=dict)
    is_definition: bool = False

    # Its statement.

    @property
    def law(self) -> str:
        """Return the equation."""
        return f"{self.left} = {self.right}"

    @cached_property
    def statement(self) -> Formula:
        """Return the equation as a formula."""
        return equation(self.law)

    @property
    def claims(self) -> tuple[str, ...]:
        """The equation is what is proved, under its own name."""
        return () if self.is_definition else (self.name,)

    @property
    def needed(self) -> str:
        """Return what it needs, in words."""
        return ", ".join(" or ".join(map(str, choice)) for choice in self.needs)

    # Variables.

    @cached_property
    def _left(self) -> syntax.Expr:
        return expression(self.left)

    @cached_property
    def _sides(self) -> tuple[syntax.Expr, syntax.Expr]:
        return self._left, expression(self.right)

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """Return the indices that the left side keeps; on the right they are the position of an
        element, where no reduction binds them."""
        left = self._left
        if isinstance(left, syntax.Reduce) and left.op in KEEPING_REDUCTIONS:
            return tuple(map(str, left.indices))
        return ()

    @cached_property
    def scopes(self) -> dict[str, tuple[str, ...]]:
        """Return the indices that each variable varies with: those in scope wherever it stands,
        but for those that it must be free of."""
        fixed = {(n.name, n.free_of) for choice in self.needs for n in choice}
        allowed: dict[str, tuple[str, ...]] = {}
        for side in self._sides:
            for name, scope in syntax.occurrences(side, self.kept):
                known = allowed.get(name, scope)
                allowed[name] = tuple(i for i in known if i in scope and (name, i) not in fixed)
        return allowed

    @cached_property
    def conditions(self) -> frozenset[str]:
        """Return the variables that are conditions."""
        return frozenset(name for side in self._sides for name in conditions(side))

    def read(self, variable: str, *more: str) -> str:
        """Return the input that a variable is in a program."""
        return f"{variable.upper()}[{','.join(('i', *self.scopes[variable], *more))}]"

    def program(self, side: str, write: Callable[[str], str]) -> str:
        """Return a side as a program, with the text of each variable."""
        declared = [f"{write(v)}: bool" for v in sorted(self.conditions)]
        head = f"input {', '.join(declared)}\n" if declared else ""
        body = _VARIABLE.sub(lambda at: write(at[0]) if at[0] in self.scopes else at[0], side)
        if "-> r" in side:
            return f"index r < 2\n{head}O[i,r] = {body}"
        if not self.scopes:  # nothing says how many elements there are
            head += "index i < 2, k < 3\n"
        return f"{head}O[{','.join(('i', *self.kept))}] = {body}"

    def term(self, side: str) -> Term:
        """Return a side, with reads for variables."""
        return translate(check(self.program(side, self.read))).equations[0].body

    def claims_of_law(self) -> list[Claim]:
        """Return what is to be proved: the equation over few elements, where it has reductions."""
        parts = itertools.chain.from_iterable(map(syntax.walk, self._sides))
        is_fold = any(isinstance(part, syntax.Reduce) for part in parts)
        is_nonempty = any(all(n.is_of_fold for n in choice) for choice in self.needs)
        sizes = [n for n in SIZES if n or not is_nonempty] if is_fold else [1]
        identities = {n: self.identity(n) for n in sizes}
        return [
            Claim(f"over {SIZES[n]}" if is_fold else "equation", i.statement, (i,))
            for n, i in identities.items()
            if i.left != i.right
        ]

    def identity(self, size: int) -> Identity:
        """Return the equation over so many elements, for the prover."""
        reader = Reader(self.conditions, self.scopes, size)
        left, right = map(reader.number, self._sides)
        params: dict[str, list[Term]] = {name: [] for name in self.scopes}
        for t in T.subterms(left, right):
            if t.op == "param":
                params[t.name].append(t)

        def hypothesis(need: Need) -> Term:
            if need.is_of_fold:
                filters = (v for v in self.conditions if need.name in self.scopes[v])
                return T.disjunction(*(c for v in filters for c in params[v]))
            if need.free_of is not None:
                return T.TRUE
            return T.conjunction(*map(PREDICATES[need.words][1], params[need.name]))

        choices = (T.disjunction(*map(hypothesis, choice)) for choice in self.needs)
        return Identity.of(left, right, T.conjunction(*choices))

    # Use.

    @cached_property
    def _head(self) -> str | None:
        """Return the reduction that the left side is, if it is one."""
        return self._left.op if isinstance(self._left, syntax.Reduce) else None

    @cached_property
    def _pattern(self) -> Term:
        return self.term(self.left)

    @cached_property
    def _template(self) -> Term:
        return self.term(self.right)

    @cached_property
    def _demands(self) -> dict[str, Demand]:
        """Return what is decided of each variable by it alone."""
        variables = {choice: _names(choice) & {*self.scopes} for choice in self.needs}
        stands_at = [name for name, _ in syntax.occurrences(self._left, ())]

        def demand(v: str) -> Demand:
            guards = [guard for words, guard in self.worth.items() if words[:2] == f"{v} "]
            return Demand(
                (
                    *(_any_of(c) for c in self.needs if variables[c] == {v}),
                    *(g.holds for g in guards),
                ),
                next((g.key for g in guards if g.key), None),
                stands_at.count(v) > 1,
                tuple(
                    _any_of(own)
                    for c in self.needs
                    if len(variables[c]) > 1 and (own := tuple(n for n in c if n.name == v))
                ),
            )

        demands = {v: demand(v) for v in self.scopes}
        return {v: d for v, d in demands.items() if d.tests}

    @cached_property
    def _remaining(self) -> list[Test]:
        """Return the needs that relate several variables, which are decided last."""
        decided = [c for c in self.needs if len(_names(c) & {*self.scopes}) != 1]
        guards = [
            g.holds for words, g in self.worth.items() if words.split(" ")[0] not in self.scopes
        ]
        return [*map(_any_of, decided), *guards]

    def _instances(self, t: Term, demands: Mapping[str, Demand]) -> Iterator[Bindings]:
        """Yield the ways in which a term is the left side."""
        is_alike = self._head == (t.attr.monoid if t.op in ("fold", "fold_at") else None)
        return matches(self._pattern, t, demands) if is_alike else iter(())

    def matches(self, t: Term) -> Iterator[Bindings]:
        """Yield the ways in which the left side matches and the needs are met."""
        for bindings in self._instances(t, self._demands):
            if all(test(bindings) for test in self._remaining):
                yield bindings

    def discharged(self, t: Term) -> Iterator[tuple[Need, Term]]:
        """Yield the needs that are met where the rule changes a term, and of what."""
        for bindings in itertools.islice(self.matches(t), 1):
            for choice in self.needs:
                need = next(n for n in choice if n.holds(bindings))
                yield need, need.subject(bindings)

    def lacking(self, t: Term) -> Iterator[tuple[Need, Term]]:
        """Yield the needs for want of which the rule leaves a term as it is, where the left side
        matches and the right one is worth it, and of what."""
        for bindings in self._instances(t, {}):
            is_worth_it = all(guard.holds(bindings) for guard in self.worth.values())
            for choice in self.needs if is_worth_it else ():
                if not _any_of(choice)(bindings):
                    yield choice[0], choice[0].subject(bindings)

    def result(self, bindings: Bindings) -> Term:
        """Return the right side of a match."""
        return bindings.at_positions(instance(self._template, bindings))

    def rewrite(self, t: Term) -> Term | None:
        """Return the right side, where the left one matches, the needs are met, and both sides
        differ: an addend of 0, say, may make them one, whatever a product is written like."""
        for bindings in self.matches(t):
            new = self.result(bindings)
            if new is instance(self._pattern, bindings):
                continue
            if bindings.remainder:
                new = T.construct(t.op, new, *bindings.remainder, kind=t.kind)
            if new.kind != t.kind:
                if t.kind != "float":  # an equation with numbers that are floats says nothing
                    continue
                new = T.as_float(new)
            if new is not t:
                return new
        return None


def _names(choice: tuple[Need, ...]) -> set[str]:
    return {need.name for need in choice}


def _any_of(choice: tuple[Need, ...]) -> Test:
    return lambda found: any(need.holds(found) for need in choice)


def equations(text: str, is_definition: bool = False, **worth: Guard) -> list[Equation]:
    """Return the rules that a text states, with blank lines and comments between them. `worth`
    decides what the text says after that word, with underscores for spaces. Definitions say what
    words of the language mean."""
    return [*_stated(text, is_definition, worth)]


def _stated(text: str, is_definition: bool, worth: Mapping[str, Guard]) -> Iterator[Equation]:
    decided = {name.replace("_", " "): guard for name, guard in worth.items()}
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in block.splitlines()]
        stated = _TEXT.fullmatch(" ".join(line for line in lines if line[:1] != "#"))
        if stated is None:
            raise InternalError(f"no equation with a name: {block}")
        needs = tuple(
            tuple(Need(*need.split(" ", 1)) for need in choice.split(" or "))
            for choice in (stated["needs"] or "").split(", ")
            if choice
        )
        guards = {w: decided[w] for w in (stated["worth"] or "").split(", ") if w}
        sides = stated["left"], stated["right"]
        yield _equation(stated["name"], *sides, needs, guards, is_definition)


def _equation(name: str, *stated: Any) -> Equation:
    """Return an equation, with its law among those that are proved."""

    def apply(t: Term) -> Term | None:
        return made.rewrite(t)

    made = Equation(name, apply, *stated)
    if not made.is_definition:
        x, words = T.param("x", "float"), dict.fromkeys(n.words for c in made.needs for n in c)
        hypotheses = (PREDICATES[w][1](x) for w in words if w in PREDICATES)
        needs = (" or ".join(map(str, choice)) for choice in made.needs)
        texts = made.law, *needs, *map(T.show, hypotheses)
        RULE_LAWS[name] = RuleLaw(name, made.law, texts, made.claims_of_law)
    return made
