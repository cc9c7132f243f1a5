"""The compiler knows monoids and exponentials, and not what they are used for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path.relative_to(ROOT)
    for pattern in (
        "rewrites/*.py",
        "backends/**/*.py",
        "monocomp/lowering/*.py",
        "monocomp/tile/*.py",
        "monocomp/terms/*.py",
        "monocomp/extents/*.py",
        "monocomp/rewriting/*.py",
        "monocomp/derivation/*.py",
        "monocomp/costs/*.py",
        "monocomp/planning/*.py",
    )
    for path in ROOT.glob(pattern)
)
APPLICATIONS = re.compile(r"attention|attend|quer(y|ies)|flash|\bqkv\b|causal", re.I)
# The reductions of the language have names, in the file that defines them away, in the
# terms that hold them, and where an emitted self-check evaluates the language itself.
DEFINED = {
    Path("rewrites/elaboration.py"),
    Path("monocomp/terms/__init__.py"),
    Path("monocomp/terms/domain.py"),
    Path("monocomp/terms/folds.py"),
    Path("monocomp/terms/printer.py"),
    Path("monocomp/costs/reading.py"),  # it reads programs that have them
    Path("monocomp/rewriting/driver.py"),  # it names their operands for readers
    Path("backends/tape/softmax.py"),  # torch has an operation of that name
    Path("backends/eager/statements.py"),
    Path("backends/eager/scope.py"),
}


def words(source: str) -> Iterator[str]:
    """Identifiers and strings; comments and docstrings are for people."""
    tree = ast.parse(source)
    by_descriptor = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, by_descriptor) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in docstrings:
                yield node.value
            continue
        for name in ("id", "attr", "name", "arg"):
            if isinstance(word := getattr(node, name, None), str):
                yield word


def found(pattern: re.Pattern[str], paths: Iterable[Path]) -> list[str]:
    """Return words of files that match, with their file."""
    words_of = ((path, words((ROOT / path).read_text(encoding="utf-8"))) for path in paths)
    return [f"{path}: {word}" for path, of in words_of for word in of if pattern.search(word)]


def test_no_application_is_known() -> None:
    assert not found(APPLICATIONS, FILES)


def test_softmax_is_a_definition() -> None:
    assert not found(re.compile("softmax"), (p for p in FILES if p not in DEFINED))


def test_words_are_found() -> None:
    source = 'def f(query):\n    """attention"""\n    # flash\n    return g.flash("soft" + query)'
    assert set(words(source)) == {"f", "query", "g", "flash", "soft"}
    assert len(FILES) > 20
