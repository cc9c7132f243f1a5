"""Drop every side condition of every rule, one at a time: some test must fail.

    python -m tests.mutation [RULE SET[.FUNCTION] ...]    prints the mutants that no test notices

A side condition is that of an `if`, an operand of `and` or `or` in a condition, a filter of a
comprehension, or the guard of a `case`. Without that of an `if`, what stands under it is always
done, or never where it gives up: `return None` or `continue`. The rule is compiled anew without
the condition, in a child of this process, and is put in the place of the rule; then come the rules'
own tests, the examples of all rules in every guard, and the programs of `test_printer`, derived and
evaluated. A mutant that runs for too long counts as noticed, for the rewrites do not end.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

NAMES = (
    "elaboration",
    "results",
    "hoisting",
    "extrema",
    "quotients",
    "single_folds",
    "selection",
    "exchange",
    "equalities",
    "frames",
    "scaled",
    "centring",
    "products",
    "pullback",
)
TESTED_WITH = dict.fromkeys(
    ("results", "hoisting", "extrema", "quotients", "single_folds"),
    "normal_form",
) | {"frames": "scaled"}
ALL = (  # what is tried with every rule set
    "tests/rewriting/test_equations.py::test_examples_in_guards",
    "tests/terms/test_printer.py::test_program",
)
LIMIT = 20  # seconds that a test may take; without a mutant it takes a fraction of 1
SAME = "without it the rule gives the term that it was given, which is no step"
EQUIVALENT = {  # mutants that no test can notice, and why
    "results.assume_filter: t.args[0] is T.TRUE": "without a filter nothing is known",
    "results.assume_filter: if new == bodies": SAME,
    "exchange.exchange_sums: if sums": "without sums nothing is compared",
    "exchange.join_products: if alike": "without products nothing is compared",
    "quotients._apart_from_rest: if rest": "0 over a divisor is no addend",
    "quotients.factor_number: if all((number == 1 for number, _ in found))": SAME,
    "equalities.pick_point: ... if o is not c": "at the position that it names it is true",
    "equalities._solve: c.op != 'compare'": "nothing else has the attribute ==",
    "frames.condition_of: mantissas": "without mantissas nothing is added",
    "centring._about_means: if T.split_coefficient(total)[1] not in known": (
        "then the power of the mean meets nothing that it cancels with"
    ),
    "centring._about_maxima: if outside": "then no maximum leaves",
    "centring._operand_count: if t not in counts": "what is counted again comes out the same",
    "centring.replacing: if T.holds(t, before)": "what does not hold it is given back",
    "centring._multiple: same is rest": "all addends are looked for afterwards",
}
FOLDER = Path(__file__).parents[1] / "rewrites"


@dataclass(frozen=True)
class Mutant:
    """A module's syntax tree without one condition."""

    function: str
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
    """(position in the walk, what to do there, what is dropped)."""
    for position, node in enumerate(ast.walk(function)):
        if isinstance(node, ast.If | ast.IfExp):
            change = _never if _gives_up(node, function) else _always
            yield position, change, f"if {ast.unparse(node.test)}"
        if isinstance(node, ast.BoolOp):
            for n, value in enumerate(node.values):
                yield position, _without(n), ast.unparse(value)
        if isinstance(node, ast.comprehension):
            for n, value in enumerate(node.ifs):
                yield position, _unfiltered(n), f"... if {ast.unparse(value)}"
        if isinstance(node, ast.match_case) and node.guard is not None:
            yield position, _unguarded, f"case if {ast.unparse(node.guard)}"


def _gives_up(node: ast.If | ast.IfExp, function: ast.FunctionDef) -> bool:
    """Is the answer no, nothing, or what was given, where the condition holds?"""
    match node.body[0] if isinstance(node, ast.If) else node:
        case ast.Continue() | ast.Return(value=None):
            return True
        case ast.Return(value=ast.Constant(value=None | False)):
            return True
        case ast.IfExp(body=ast.Constant(value=None | False)):
            return True
        case ast.Return(value=ast.Name(id=name)):
            return name in {a.arg for a in function.args.args}
    return False


def _never(node: ast.AST) -> None:
    assert isinstance(node, ast.If | ast.IfExp)
    node.test = ast.Constant(False)


def _always(node: ast.AST) -> None:
    assert isinstance(node, ast.If | ast.IfExp)
    node.test = ast.Constant(True)


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
    node.guard = ast.Constant(True)


def install(name: str, tree: ast.Module) -> None:
    """Let the functions of a rule set's module do what those of a syntax tree do."""
    new = ModuleType(f"mutant of {name}")
    sys.modules[new.__name__] = new  # a dataclass looks up its own module
    exec(compile(tree, name, "exec"), new.__dict__)
    old = importlib.import_module(f"monocomp.rewrites.{name}")
    for node in (n for n in tree.body if isinstance(n, ast.FunctionDef)):
        function = inspect.unwrap(getattr(old, node.name))
        function.__code__ = inspect.unwrap(getattr(new, node.name)).__code__


def noticed(name: str, tree: ast.Module | None = None) -> bool:
    """True if a test fails, in a child of this process, in which nothing is remembered."""
    own = f"tests/rewrites/test_{TESTED_WITH.get(name, name)}.py"
    for path in (own, *ALL):
        importlib.import_module(path.partition(".py")[0].replace("/", "."))  # once for all children
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    if tree is not None:
        install(name, tree)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    options = ("-x", "-q", "-Wignore", "--import-mode=append", f"--timeout={LIMIT}")
    os._exit(bool(pytest.main([*options, own, *ALL])))


def survivors(name: str, function: str = "") -> tuple[int, list[str]]:
    """(how many mutants a rule set, or one function of it, has, those that no test notices)."""
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert not noticed(name), "the rules as they are fail"
    count, left = 0, []
    for mutant in (m for m in mutants(source) if function in ("", m.function)):
        count += 1
        if not noticed(name, mutant.tree):
            left.append(f"{name}.{mutant.function}: {mutant.dropped}")
            if left[-1] not in EQUIVALENT:
                print(f"  {left[-1]}", flush=True)
    return count, left


def main(names: list[str]) -> int:
    """Print what is left of each rule set."""
    wrong = 0
    for name in names or NAMES:
        module, _, function = name.partition(".")
        count, left = survivors(module, function)
        known = [mutant for mutant in left if mutant in EQUIVALENT]
        start = f"{name}:" if function else f"{name}."
        stale = {m for m in EQUIVALENT if m.startswith(start)} - set(left)
        for mutant in sorted(stale):
            print(f"  not equivalent, or not there: {mutant}", flush=True)
        print(
            f"{name}: {count} mutants, {count - len(left)} noticed, {len(known)} equivalent",
            flush=True,
        )
        wrong += len(left) - len(known) + len(stale)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
