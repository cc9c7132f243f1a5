"""Drop every side condition of every rule, one at a time: some test must fail.

    python -m tests.mutation [RULE SET ...]        prints the mutants that no test notices

A side condition is a guard (`if ...: return None`, or `continue`), an operand of `and` or
`or` in a condition, a filter of a comprehension, or the guard of a `case`. The rule is
compiled anew without it, in this process, and is put in the place of the rule; then come the
rules' own tests, which are quick: examples, near misses and variants, and the programs of
`test_printer`, each derived and derived again. A mutant that runs for too long counts as
noticed, for the rewrites do not end.
"""

from __future__ import annotations

import ast
import copy
import importlib
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType

import pytest

from monocomp.rewriting import RuleSet
from tests import test_printer
from tests.rewrites import rules as shared

NAMES = ("elaboration", "normal_form", "selection", "lifting", "centring")
LIMIT = 20  # seconds of this process for the tests of a mutant
FOLDER = Path(__file__).parents[1] / "rewrites"


@dataclass(frozen=True)
class Mutant:
    """A module's syntax tree without one condition."""

    place: str
    dropped: str
    tree: ast.Module


def mutants(source: str) -> Iterator[Mutant]:
    """All mutants of a module."""
    tree = ast.parse(source)
    for function in (n for n in tree.body if isinstance(n, ast.FunctionDef)):
        for path, change, dropped in _changes(function):
            new = copy.deepcopy(tree)
            twin = next(
                n for n in new.body if isinstance(n, ast.FunctionDef) and n.name == function.name
            )
            change(list(ast.walk(twin))[path])
            yield Mutant(function.name, dropped, ast.fix_missing_locations(new))


def _changes(
    function: ast.FunctionDef,
) -> Iterator[tuple[int, Callable[[ast.AST], None], str]]:
    """(place in the walk, what to do there, what is dropped)."""
    for place, node in enumerate(ast.walk(function)):
        if isinstance(node, ast.If) and len(node.body) == 1 and not node.orelse:
            (only,) = node.body
            nothing = isinstance(only, ast.Return) and (
                only.value is None
                or (isinstance(only.value, ast.Constant) and only.value.value is None)
            )
            if nothing or isinstance(only, ast.Continue):
                yield place, _never, f"if {ast.unparse(node.test)}"
        if isinstance(node, ast.BoolOp):
            for n, value in enumerate(node.values):
                yield place, _without(n), ast.unparse(value)
        if isinstance(node, ast.comprehension):
            for n, value in enumerate(node.ifs):
                yield place, _unfiltered(n), f"... if {ast.unparse(value)}"
        if isinstance(node, ast.match_case) and node.guard is not None:
            yield place, _unguarded, f"case if {ast.unparse(node.guard)}"


def _never(node: ast.AST) -> None:
    assert isinstance(node, ast.If)
    node.test = ast.Constant(False)


def _without(n: int) -> Callable[[ast.AST], None]:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.BoolOp)
        node.values.pop(n)
        if len(node.values) == 1:
            node.values.append(node.values[0])

    return change


def _unfiltered(n: int) -> Callable[[ast.AST], None]:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.comprehension)
        node.ifs.pop(n)

    return change


def _unguarded(node: ast.AST) -> None:
    assert isinstance(node, ast.match_case)
    node.guard = None


def compiled(tree: ast.Module, name: str) -> RuleSet:
    """The rule set of a module's syntax tree."""
    module = ModuleType(f"mutant of {name}")
    exec(compile(tree, name, "exec"), module.__dict__)
    found: RuleSet = module.__dict__[name]
    return found


def install(rules: RuleSet, new: RuleSet) -> None:
    """Let the rules do what those of another set do."""
    for old, other in zip(rules.rules + rules.choices, new.rules + new.choices, strict=True):
        object.__setattr__(old, "apply", other.apply)


def all_rules(name: str) -> RuleSet:
    """A rule set by its module."""
    found: RuleSet = getattr(importlib.import_module(f"monocomp.rewrites.{name}"), name)
    return found


class TooLongError(Exception):
    """The tests of a mutant do not end."""


def _alarm(number: int, frame: FrameType | None) -> None:
    raise TooLongError


def noticed(name: str, rules: RuleSet) -> bool:
    """Does a test of the rules fail?"""
    signal.signal(signal.SIGPROF, _alarm)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        for test in tests_of(name, rules):
            test()
    except (Exception, pytest.fail.Exception):
        return True
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return False


def tests_of(name: str, rules: RuleSet) -> Iterator[Callable[[], None]]:
    """The quick ones first."""
    module = importlib.import_module(f"tests.rewrites.test_{name}")
    for rule, texts in getattr(module, "NEAR_MISSES", {}).items():
        for text in texts:
            yield lambda r=rule, t=text: shared.check_does_not_fire(shared.rule_of(rules, r), t)
    if name == "selection":
        for function, cases in _selection_cases(module):
            for case in cases:
                yield lambda f=function, c=case: f(*c)
    for rule in rules.rules + rules.choices:
        yield lambda r=rule: shared.check_example(r)
    for rule, variants in getattr(module, "VARIANTS", {}).items():
        for before, after in variants:
            yield lambda r=rule, b=before, a=after: module.test_variant(r, b, a)
    if name == "lifting":
        for text in module.JOINED:
            yield lambda t=text: module.test_join_frames_ends_with_bounded_exponents(t)
    for text in test_printer.PROGRAMS.values():
        if "param c: float\n" not in text:
            yield lambda t=text: test_printer.check_derivation(t, {})


def _selection_cases(
    module: ModuleType,
) -> Iterator[tuple[Callable[..., None], list[tuple[str, ...]]]]:
    for function in (module.test_near_miss,):
        first, second = (mark.args[1] for mark in function.pytestmark)
        yield function, [(*pair, element) for pair in first for element in second]


def survivors(name: str) -> tuple[int, list[Mutant]]:
    """(how many mutants a rule set has, those that no test notices)."""
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    rules, original = all_rules(name), compiled(ast.parse(source), name)
    install(rules, original)
    assert not noticed(name, rules), "the rules as they are fail"
    count, left = 0, []
    for mutant in mutants(source):
        count += 1
        install(rules, compiled(mutant.tree, name))
        if not noticed(name, rules):
            left.append(mutant)
            print(f"  {name}.{mutant.place}: {mutant.dropped}", flush=True)
    install(rules, original)
    return count, left


def main(names: list[str]) -> int:
    """Print what is left of each rule set."""
    total = 0
    for name in names or NAMES:
        count, left = survivors(name)
        print(f"{name}: {count} mutants, {count - len(left)} noticed", flush=True)
        total += len(left)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
