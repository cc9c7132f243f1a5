"""Steps say where they changed a program, and what stands around is the same on both sides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from monocomp import library
from monocomp.derivation.rule_sets import derive
from monocomp.language.checker import check
from monocomp.rewriting.changes import _UNORDERED, at, changes, operands
from monocomp.rewriting.driver import Step
from monocomp.terms import Term
from monocomp.translation.translator import translate

MARK = "changed"


def context(t: Term, paths: Iterable[tuple[int, ...]], depth: int = 0) -> Any:
    """A term with marks at the ends of paths."""
    paths = list(paths)
    if () in paths:
        return MARK
    if not paths:
        return t
    parts = [
        context(x, [p[1:] for p in paths if p[0] == n], depth + 1)
        for n, x in enumerate(operands(t, depth))
    ]
    name = (t.attr.monoid, t.attr.extents) if t.op in ("fold", "fold_at") else t.attr
    ordered = sorted(parts, key=repr) if t.op in _UNORDERED else parts
    return t.op, name, t.kind, tuple(ordered)


def has_its_changes(step: Step) -> None:
    before, after = step.start.by_name, step.program.by_name
    for name in before.keys() & after.keys():
        found = [c for c in step.changes if c.name == name]
        old, new = before[name].body, after[name].body
        ours, theirs = [c.path for c in found], [c.new_path for c in found]
        assert None not in ours and None not in theirs
        assert context(old, ours) == context(new, theirs), (step.rule, name)  # type: ignore[arg-type]
        for c in found:
            assert at(old, c.path or ()) is not at(new, c.new_path or ())
    for name in before.keys() ^ after.keys():
        (change,) = (c for c in step.changes if c.name == name)
        assert (change.path is None) == (name not in before)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", library.names())
def test_steps_know_what_they_changed(name: str) -> None:
    steps = derive(translate(check(library.load(name)))).steps
    for step in steps:
        has_its_changes(step)
        assert bool(step.changes) == (step.rule != "name_operand"), step.rule
        assert {c.name for c in step.changes} >= set(step.place) or step.rule == "name_operand"


def test_equations_come_and_go() -> None:
    before, after = (
        translate(check(t)) for t in ("P[i] = A[i]\nO[i] = A[i]", "Q[i] = A[i]\nO[i] = 2 * A[i]")
    )
    found = {c.name: (c.path, c.new_path) for c in changes(before, after)}
    assert found == {"P": ((), None), "O": ((), ()), "Q": (None, ())}
