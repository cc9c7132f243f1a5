"""Refusals: where a program keeps a further pass, and the dependence that forces it.

A fold that needs the result of another fold over the same extent comes a pass later, unless
a rule takes the two apart. Where none did, the result stands together with the bound index
in something that does not come apart: that is looked up in the finished program, so the
reason does not depend on which rules were tried, and is made of terms.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from monocomp import terms as T
from monocomp.costs.counting import is_at_the_top
from monocomp.costs.reading import kernels
from monocomp.costs.roles import choose_roles
from monocomp.declarations.record import record
from monocomp.derivation.tiling import fuse_folds
from monocomp.display.formulas import Formula, name
from monocomp.rewrites.centred import move_centre
from monocomp.rewrites.pullback import Pass, passes
from monocomp.rewriting.rules import STATED, Rule, RuleSet
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR, frame
from monocomp.terms.equations import Equation, Equations, stored_in
from monocomp.terms.printer import Names, show

_FUSING_LAW = STATED[fuse_folds.__name__].law


@record()
class Refusal:
    """A rewrite that was not made.

    Attributes:
        rule: the rule that would have been needed.
        law: the law that does not reach this place.
        place: the outputs in which it stands.
        term: where the dependence sits, as text of the language.
        reason: why it stays.
        kept: what it costs: "a further pass over k stays"; "" where it costs no pass.
    """

    rule: str
    law: str
    place: tuple[str, ...]
    term: str
    reason: str
    kept: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.kept}" if self.kept else self.reason


def refusals(program: Equations, rule_sets: Iterable[RuleSet] = ()) -> tuple[Refusal, ...]:
    """Return why a program needs the passes that it has.

    Args:
        program: after its derivation.
        rule_sets: rules of which one may be refused as its law is not proved.
    """
    rule_sets = (*rule_sets, RuleSet("moving", "centres move with the loop", [move_centre]))
    laws = {r.name: r.law for at in rule_sets for r in at.rules}  # what a term could have needed
    found: list[Refusal] = []
    for group in kernels(program):
        found += _Finder(program, group, laws).all()
    for at in rule_sets:
        found += unproved(program, at)
    return tuple(dict.fromkeys(found))


def unproved(program: Equations, rules: RuleSet) -> Iterator[Refusal]:
    """Rules that match somewhere and rest on a law that is not proved."""
    for rule in (r for r in rules.rules if r.unproved is not None):
        for equation in program.equations:
            found = (t for t in T.subterms(equation.body) if rule.apply(t) not in (None, t))
            for t in itertools.islice(found, 1):
                yield _lawless(rule, program, (equation.name,), t)
    for rule in (r for r in rules.choices if r.unproved is not None):
        choice = rule.apply(program)
        if choice is not None:
            yield _lawless(rule, program, program.changed(choice.program), choice.before)


def _lawless(rule: Rule, program: Equations, place: tuple[str, ...], t: Term) -> Refusal:
    law = rule.unproved
    assert law is not None
    why = f"the law {law.name}, {law.statement}, is not proved"
    if law.counterexample is not None:
        why = f"the law {law.name} does not hold: {law.counterexample}"
    return Refusal(rule.name, rule.law, place, program.shown(t), why)


_LONG = 60  # characters of a formula in a reason


@record()
class _Reason:
    rule: str
    term: Term
    why: str


class _Finder:
    """Looks up what a kernel's later loops depend on."""

    def __init__(self, program: Equations, group: list[Equation], laws: dict[str, str]) -> None:
        self.program = program
        self.group = group
        self.laws = laws

    def all(self) -> Iterator[Refusal]:
        """One for each dependence of a later loop, and for each output that is written late."""
        bodies = [e.body for e in self.group]
        written = set(T.subterms(*bodies))
        loops = passes(bodies, is_at_the_top, {})
        for at in loops:
            earlier = {f for p in loops if p.level < at.level for f in p.folds}
            frames = {_frame(f) for f in at.folds if f.attr.monoid is SE_PAIR}
            for fold in at.folds:
                if fold in written and fold not in frames:
                    yield from self._fold(fold, earlier)
        yield from self._filters(loops)
        yield from self._stored()
        yield from self._late(loops)

    def _fold(self, fold: Term, earlier: set[Term]) -> Iterator[Refusal]:
        """Results that the elements of a fold need."""
        (bound, *_), parts = T.open_fold(fold)
        needed = [t for t in T.subterms(*parts) if t in earlier]
        # What another needed result is made of is that one's affair.
        inner = {s for t in needed for s in T.subterms(*T.children(t))}
        for result in (t for t in needed if t not in inner):
            reason = self._why(fold, bound.name, parts, result)
            ours, theirs = (f.attr.extents[0].lstrip(".") for f in (fold, result))
            kept = f"a further pass over {ours} stays"
            if ours != theirs:
                kept = f"the pass over {ours} comes after one over {theirs}"
            yield self._refusal(reason, fold, kept)

    def _filters(self, loops: list[Pass]) -> Iterator[Refusal]:
        """Loops that need one another's results no more than they share a domain."""
        for first, second in itertools.pairwise(loops):
            if (first.extent, first.level) != (second.extent, second.level):
                continue
            one, other = (p.folds[-1] for p in (first, second))
            shown = [self._show(_visible(f)) for f in (one, other)]
            why = f"{shown[1]} has another filter than {shown[0]}"
            kept = f"a further pass over {second.extent.lstrip('.')} stays"
            yield self._refusal(_Reason("fuse_folds", _visible(other), why), other, kept)

    def _stored(self) -> Iterator[Refusal]:
        """Yield refusals for what an earlier kernel computes because every element needs it."""
        for e in self.group:
            for read in sorted(stored_in(e.body), key=lambda at: at.name):
                at = self._show(T.stored(read, read.indices))
                why = f"{at} must be known before the first element of {e.name} is"
                kept = "an earlier kernel computes and stores it"
                yield self._refusal(
                    _Reason("order_sums", T.stored(read, read.indices), why), e.body, kept
                )

    def _late(self, loops: list[Pass]) -> Iterator[Refusal]:
        """Outputs that keep an index over which a result in them is folded."""
        for axis in choose_roles(self.group, lambda extent: True).values():
            folds = [f for p in loops if p.extent == axis.extent for f in p.folds]
            if axis.role != "stream" or not folds:
                continue
            for e in self.group:
                inside = [f for f in folds if T.holds(e.body, f)]
                if axis.name in (i.name for i in e.indices) and inside:
                    left = f"{e.name}[{','.join(i.name for i in e.indices)}]"
                    last = self._show(_visible(inside[-1]))
                    why = f"{left} keeps {axis.name}, over which {last} is taken"
                    kept = f"a further pass over {axis.name} stays"
                    yield Refusal("fuse_folds", _FUSING_LAW, (e.name,), last, why, kept)

    def _refusal(self, reason: _Reason, fold: Term, kept: str) -> Refusal:
        place = tuple(e.name for e in self.group if T.holds(e.body, fold))
        law = _FUSING_LAW if reason.rule == "fuse_folds" else self.laws.get(reason.rule, "")
        return Refusal(reason.rule, law, place, self._show(reason.term), reason.why, kept)

    def _show(self, t: Term) -> str:
        """Return the term as text; where that is long, results inside it by their folds alone."""
        names = self.program.reader_names()
        text = show(t, names)
        if len(text) <= _LONG:
            return text
        known = names.abbreviate

        def abbreviate(part: Term, inner: Names) -> Formula | None:
            short = known(part, inner) if known is not None else None
            if short is None and part is not t and is_at_the_top(part):
                index = part.attr.extents[0].lstrip(".")
                short = name(f"{part.attr.name}[{index}](..)")
            return short

        names.abbreviate = abbreviate
        return show(t, names)

    # The reasons

    def _why(self, fold: Term, index: str, parts: tuple[Term, ...], result: Term) -> _Reason:
        """Return why the result does not leave the fold."""
        condition, *elements = parts
        if T.holds(condition, result):
            why = f"the filter {self._show(condition)} depends on {self._show(_visible(result))}"
            return _Reason("filter_bracket", condition, why)
        monoid = fold.attr.monoid
        if isinstance(monoid, T.UserMonoid) and monoid is not SE_PAIR:
            part = next(t for t in elements if T.holds(t, result))
            why = f"{self._show(part)} is an element of {monoid.name}, which no rule takes apart"
            return _Reason("hoist_factor", part, why)
        part = next(t for t in elements if T.holds(t, result))
        is_exponent = monoid is SE_PAIR and part is elements[-1] and part is not elements[0]
        around = "exp" if is_exponent else fold.attr.name if monoid is not SE_PAIR else "sum"
        return self._inside(part, index, result, around)

    def _inside(self, t: Term, index: str, result: Term, around: str) -> _Reason:
        """Descend to what holds both the result and the index, and does not come apart."""
        if t.op == "exp":
            return self._inside(t.args[0], index, result, "exp")
        if t.op == "fold" and t is not result:
            part = next(p for p in T.children(t) if T.holds(p, result))
            return self._inside(part, index, result, t.attr.name)
        both = [a for a in t.args if T.holds(a, result) and index in a.free]
        if t.op in ("add", "mul", "cast", "field") and both:
            return self._inside(both[0], index, result, around)
        return self._stays(t, index, result, around)

    def _stays(self, t: Term, index: str, result: Term, around: str) -> _Reason:
        shown = self._show(t)
        if t.op == "add":
            why = f"{shown} is a sum inside {around}, and no rule takes it apart"
            return _Reason("split_sum", t, why)
        if t.op == "mul":
            factor = T.mul(*(a for a in t.args if T.holds(a, result)))
            if around in ("max", "min"):
                why = (
                    f"the sign of {self._show(factor)} is not known, so it does not leave {around}"
                )
                return _Reason("hoist_positive_factor", t, why)
            if around == "exp":
                why = f"{shown} sits inside exp, where a product with a result does not come apart"
                return _Reason("hoist_factor", t, why)
            why = f"{shown} is a product inside {around}, and no rule takes it apart"
            return _Reason("hoist_factor", t, why)
        rule = "hoist_addend" if around in ("max", "min") else "hoist_factor"
        if t.op == "read":
            why = f"{shown} is read at a position that {self._show(_visible(result))} decides"
            return _Reason(rule, t, why)
        mixed = [a for a in t.args if T.holds(a, result) and index in a.free] or [t]
        what = self._show(mixed[0]) if mixed[0] is not t else self._show(_visible(result))
        why = f"{what} sits inside {_name(t)}, which {_lacks(t)}"
        read = next((r for r in T.subterms(t) if r.op == "read" and T.holds(r, result)), None)
        if read is not None:
            why += f"; {read.attr.name} is read at a result's place"
        return _Reason(rule, t, why)


def _frame(fold: Term) -> Term:
    """Return the maximum that an SE fold carries: what it depends on its sum does, too."""
    (bound,), (condition, _, exponent) = T.open_fold(fold)
    return frame(bound, condition, exponent)


def _visible(fold: Term) -> Term:
    """Return a fold as programs write it."""
    monoid = fold.attr.monoid
    return T.field(fold, monoid.fields[0]) if isinstance(monoid, T.UserMonoid) else fold


# Functions out of which a positive factor comes.
_HOMOGENEOUS = ("abs", "relu", "maximum", "minimum", "where", "pow")


def _name(t: Term) -> str:
    match t.op:
        case "compare" | "and" | "or" | "not":
            return "a comparison"
        case "pow":
            return "sqrt" if abs(t.attr) * 2 == 1 else f"the power {t.attr}"
        case "floordiv" | "mod":
            return "a division of integers"
    return t.op


def _lacks(t: Term) -> str:
    """Return the property that would let a result out."""
    if t.op in _HOMOGENEOUS:
        return "does not distribute over sums"
    return "neither distributes over sums nor is homogeneous"
