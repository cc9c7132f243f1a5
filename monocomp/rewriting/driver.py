"""The driver of the rules, and the steps that it records.

The driver applies the first rule that matches at the innermost place, everywhere that the
term occurs, and records the step with the whole program before and after; so each step can
be printed, checked against the oracle, and a derivation can be stopped anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.display.formulas import Formula, words
from monocomp.display.paragraphs import heading, row
from monocomp.display.rendering import Rendered
from monocomp.errors import InternalError
from monocomp.rewriting.rules import STATED, Choice, Rule, RuleSet
from monocomp.rewriting.sharing import kept, require_few
from monocomp.terms import Term
from monocomp.terms.abbreviation import Abbreviation
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.printer import formula, left_side

STEP_LIMIT = 10_000
WEIGHT_LIMIT = (
    1_000_000  # terms of an equation as it is written out, from which on they are counted
)
SIZE_LIMIT = 1500  # each counted once
NAMING_LAW = words("a name equals what it is defined to be")
OF_LOGITS = ("softmax", "log_softmax", "logsumexp")


@record()
class Saving:
    """The estimated cost of a program before a choice and after it, in element-wise operations of
    one kind (`costs.cost`)."""

    before: float
    after: float

    def __str__(self) -> str:
        return f"costs {self.after:.3g} where it was {self.before:.3g}"


@dataclass(frozen=True, repr=False)
class Step(Rendered):
    """One rewrite: which rule, where, and the program before and after.

    Attributes:
        rule: the rule's name.
        statement: the law that it rests on.
        place: the definitions in which the term occurred.
        left, right: what was replaced and by what, or what makes them when they are read.
        start: the whole program before the step.
        program: the whole program after the step.
        redex, contractum: the term that was rewritten, and what it became, where the step is
            that of a rule.
        reason: why it was taken, where there was a choice; it ends the text `after`.
        cost: what the choice makes of the work, where it was weighed.
        check: asks again whether what a step of planning needs holds.
    """

    rule: str
    statement: Formula
    place: tuple[str, ...]
    left: Formula | Callable[[], Formula]
    right: Formula | Callable[[], Formula]
    start: Equations
    program: Equations
    redex: Term | None = None
    contractum: Term | None = None
    reason: str = ""
    cost: Saving | None = None
    check: Callable[[], bool] | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls,
        rule: str,
        place: Iterable[str],
        left: Formula | Callable[[], Formula],
        right: Formula | Callable[[], Formula],
        start: Equations,
        program: Equations,
        check: Callable[[], bool] | None = None,
        reason: str = "",
    ) -> Step:
        """Return a step of planning or differentiation; its law is that of the rule
        (`rules.STATED`)."""
        law, ends = STATED[rule].statement, (left, right)
        return cls(rule, law, tuple(place), *ends, start, program, reason=reason, check=check)

    def __str__(self) -> str:
        return self.shown()

    def shown(self, number: str = "") -> str:
        """Rule, law, before and after, in lines; the first begins with a number."""
        rows = (("law", self.law), ("before", self.before), ("after", self.after))
        lines = (row(label, text) for label, text in rows if text)
        return "\n".join([*heading(f"{number}{self._named}"), *lines])

    def __repr__(self) -> str:
        return f"<Step {self._named}; print it to see it>"

    @property
    def _named(self) -> str:
        return ", in ".join(filter(None, (self.rule, ", ".join(self.place))))

    @property
    def law(self) -> str:
        """Return the law as text."""
        return str(self.statement)

    @cached_property
    def ends(self) -> tuple[Formula, Formula]:
        """Return what was replaced, and by what."""
        left, right = (f if isinstance(f, Formula) else f() for f in (self.left, self.right))
        return left, right

    @property
    def before(self) -> str:
        """Return what was replaced, as text."""
        return str(self.ends[0])

    @property
    def after(self) -> str:
        """Return by what it was replaced, as text, and why."""
        return ", ".join(filter(None, (str(self.ends[1]), self.reason)))

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """Return the names of the equations that differ before and after: none if only loops do."""
        before, after = self.start.by_name, self.program.by_name
        return tuple(n for n in dict.fromkeys([*before, *after]) if before.get(n) != after.get(n))


def result_of(start: Equations, steps: Sequence[Step]) -> Equations:
    """Return the program after the last of some steps."""
    return steps[-1].program if steps else start


class Rewriter:
    """Applies rule sets to a program and records every step."""

    def __init__(self, program: Equations, steps: Iterable[Step] = ()) -> None:
        self.start = program
        self.steps = list(steps)
        self.program = result_of(program, self.steps)
        self.finished = False  # has every rule been applied that should be?
        self.depends_on_sizes = False  # would other extents have led elsewhere?
        self._idle: dict[Rule, Equations] = {}  # the program that a choice leaves as it is

    def first(self, count: int) -> Rewriter:
        """Return a rewriter that has stopped after so many steps."""
        rewriter = Rewriter(self.start, self.steps[:count])
        rewriter.finished = self.finished and len(self.steps) < count
        rewriter.depends_on_sizes = self.depends_on_sizes
        return rewriter

    def take(self, step: Step) -> None:
        """Take a step."""
        if len(self.steps) >= STEP_LIMIT:
            raise InternalError(f"the rewrites did not end within {STEP_LIMIT} steps")
        for e in step.program.equations:
            if e.name in step.place:
                require_few(e, step.program, WEIGHT_LIMIT, SIZE_LIMIT)
        self.program = step.program
        self.steps.append(step)

    def name(
        self,
        rule: str,
        place: Iterable[str],
        before: Formula | Callable[[], Formula],
        after: Formula | Callable[[], Formula],
        program: Equations,
    ) -> None:
        """Take a step that names something, or puts what it stands for in its place."""
        ends = before, after
        self.take(Step(rule, NAMING_LAW, tuple(place), *ends, self.program, program))

    def _shown(self, t: Term) -> Callable[[], Formula]:
        """Return a function that writes a term: few are read, and they take long."""
        return partial(self.program.shown, t)

    def inline_definitions(self) -> None:
        """Replace names by what they stand for, so that rules see through them, but for those of
        which there would be too many copies."""
        if not any(e.body.names for e in (*self.program.given, *self.program.equations)):
            return
        stay = kept(self.program) if self.program.kept is None else self.program.kept
        self.program = replace(self.program, kept=stay)
        names = [e.name for e in self.program.equations if e.name not in stay]
        for name in names:
            readers = (*self.program.given, *self.program.equations)
            if any(name in e.body.names for e in readers):
                self._inline(self.program.by_name[name])

    def _inline(self, equation: Equation) -> None:
        # Equations come in order, and earlier ones are inlined already.
        users = [e.name for e in self.program.equations if equation.name in e.body.names]
        program = self.program.map_refs([equation.name], lambda t: T.element(equation, t.args))
        returned = {o.name for o in program.declared.outputs}
        known = program.known
        if equation.body.args and equation.body.op not in ("read", "stored", "cast"):
            known = (Abbreviation(equation.name, equation.indices, equation.body), *known)
        kept = tuple(e for e in program.equations if e.name != equation.name or e.name in returned)
        self.name(
            "inline_definition",
            users,
            left_side(equation.name, (i.name for i in equation.indices)),
            self._shown(equation.body),
            replace(program, equations=kept, known=known),
        )

    def normalise_given(self, normalise: Callable[[Term], Term]) -> None:
        """Bring what inputs are given with to the form of what is computed, so that rules
        recognise it. It stays what it is, and nothing computes it."""
        for name in [e.name for e in self.program.given]:
            given = next(e for e in self.program.given if e.name == name)
            new = replace(given, body=normalise(given.body))
            if new != given:
                program = self.program.with_given(new)
                users = self.program.changed(program)
                parts = self._shown(given.body), self._shown(new.body)
                self.name("normalise_given", users, *parts, program)

    def name_logits(self) -> None:
        """Give what a derived reduction is taken of a name, if the program gives it none.

        It will stand in several sums, and a reader wants to recognise it. Only the steps'
        text uses the name; the program stays as it is.
        """
        taken = {*self.program.declared.names, *self.program.by_name, *self.shown_names()}
        free_names = (c for c in "STUVWXYZ" if c not in taken)
        for equation in self.program.equations:
            for t in T.subterms(equation.body):
                if t.op in ("fold", "fold_at") and t.attr.monoid in OF_LOGITS:
                    self._name_operand(equation, T.open_fold(t)[1][1], free_names)

    def shown_names(self) -> Iterator[str]:
        """Yield the names of inlined definitions that readers still see; others' forms are gone."""
        terms = list(T.subterms(*(e.body for e in self.program.equations)))
        for a in self.program.known:
            if any(a.subscripts(t) is not None for t in terms):
                yield a.name

    def _name_operand(self, equation: Equation, operand: Term, free_names: Iterator[str]) -> None:
        names = self.program.reader_names()
        if not operand.folded or names.abbreviation(operand) is not None:
            return
        name = next(free_names, None)
        if name is None:
            return
        rows = [i for i in equation.indices if i.name in operand.free]
        others = [i for i in T.free_indices(operand) if i not in rows]
        known = (Abbreviation(name, (*rows, *others), operand), *self.program.known)
        program = replace(self.program, known=known)
        left = self._shown(operand)
        right = formula(operand, program.reader_names())
        self.name("name_operand", [equation.name], left, right, program)

    def exhaust(self, rules: RuleSet) -> None:
        """Apply the rules, innermost place first, until none matches."""
        normal = set[Term]()  # terms that the rules leave
        steps_before = {self._bodies: len(self.steps)}  # of each form of the program
        while self._apply(rules, normal, None):
            first = steps_before.setdefault(self._bodies, len(self.steps))
            if first < len(self.steps):
                names = ", ".join(sorted({step.rule for step in self.steps[first:]}))
                raise InternalError(f"these rules undo one another for ever: {names}")

    @property
    def _bodies(self) -> tuple[Term, ...]:
        return tuple(e.body for e in self.program.equations)

    def apply(self, rules: RuleSet, place: str | None = None) -> bool:
        """Take one step: at the innermost place where a rule matches, if there is one.

        Args:
            rules: what may be applied.
            place: the definition in which it must match; any, unless given.
        """
        return self._apply(rules, set(), place)

    def _apply(self, rules: RuleSet, normal: set[Term], place: str | None) -> bool:
        rewrite = self._find(rules, normal, place) or self._choose(rules, place)
        if rewrite is None:
            return False
        rule, choice = rewrite
        places = self.program.changed(choice.program)
        terms = choice.before, choice.after
        ends = self._shown(choice.before), self._shown(choice.after)
        self.take(
            Step(rule.name, rule.statement, places, *ends, self.program, choice.program, *terms)
        )
        return True

    def _choose(self, rules: RuleSet, place: str | None) -> tuple[Rule, Choice] | None:
        for rule in rules.choices:
            if self._idle.get(rule) is self.program:
                continue
            choice = rule.apply(self.program)
            if choice is None:
                self._idle[rule] = self.program
                continue
            rule.require_proved()
            if place is None or place in self.program.changed(choice.program):
                return rule, choice
        return None

    def _find(
        self, rules: RuleSet, normal: set[Term], place: str | None
    ) -> tuple[Rule, Choice] | None:
        for equation in self.program.equations:
            if place not in (None, equation.name):
                continue
            for t in T.subterms(equation.body):
                if not t.args or t in normal:
                    continue
                match = rules.first(t)
                if match is not None:
                    choice = Choice.replacing(t, match[1], self.program)
                    if self.program.changed(choice.program):
                        return match[0], choice
                    # Under exp, say, the canonical form may undo the rule.
                normal.add(t)
        return None
