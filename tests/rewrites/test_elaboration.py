"""The definitions of the derived reductions; and that the compiler knows monoids and exponentials,
and not what they are used for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from monocomp.reference.oracle import evaluate
from monocomp.rewrites.elaboration import elaboration
from monocomp.rewriting.driver import Rewriter
from tests.rewrites.rules import (
    apply_only,
    check_variant,
    equations,
    inputs_of,
    rule_of,
    rule_tests,
    same_bodies,
    values,
)

NEAR_MISSES = {
    "expand_prefix": ["P[k] = softmax[k](X[k])", "index r < 2\nA[r] = top[k -> r](X[k])"],
    "nest_indices": [
        "A[i] = max[k](X[i,k])",
        "A[i] = mean[j, k](X[i,j,k])",  # the inner means would weigh alike
        "A[i] = any[j, k](X[i,j,k] < 0)",
    ],
}


test_example, test_near_miss, _ = rule_tests(elaboration.rules, NEAR_MISSES, {})


def test_several_indices_of_a_monoid_of_tuples() -> None:
    """The results of the rows are elements themselves."""
    monoid = "monoid A(a, u) = unit (1, 0), combine (a * a', a' * u + u')\n"
    check_variant(
        rule_of(elaboration, "nest_indices"),
        monoid + "O[i] = A[j, k](X[i,j,k], Y[i,j,k]).u",
        monoid + "O[i] = A[j](A[k](X[i,j,k], Y[i,j,k]).a, A[k](X[i,j,k], Y[i,j,k]).u).u",
    )


@pytest.mark.parametrize(
    ("condition", "of_rows", "of_elements"),
    [
        ("0 < j and k <= j", "if 0 < j", "if k <= j"),
        ("k < j and 0 < Y[j - 1]", "if j <= |j| and 0 < j and 0.0 < Y[j - 1]", "if k < j"),
    ],
)
def test_filters_of_rows(condition: str, of_rows: str, of_elements: str) -> None:
    """Conditions on rows are asked of rows, also where only the filter of their elements keeps
    a read inside its tensor."""
    text = f"input X[i,j,k], Y[j]\nA[i] = max[j, k if {condition}](X[i,j,k])"
    rewriter = apply_only(rule_of(elaboration, "nest_indices"), text)
    (line,) = rewriter.program.lines()
    assert line == f"A[i] = max[j {of_rows}](max[k {of_elements}](X[i,j,k]))"
    inputs = inputs_of(rewriter.start)
    expected = evaluate(rewriter.start.origin.text, inputs)
    np.testing.assert_array_equal(values(rewriter.program, inputs), expected)


def test_folds_of_user_monoids_nest() -> None:
    """Every field of a row goes into the fold of the rows."""
    start = "monoid M(v, m) = unit (0, 1), combine (v * m' + v', m * m')\n"
    before = "A[i] = M[j, k if k <= j](X[i,j,k], Y[j]).v"
    row = "M[k if k <= j](X[i,j,k], Y[j])"
    rule = rule_of(elaboration, "nest_indices")
    check_variant(rule, start + before, f"{start}A[i] = M[j]({row}.v, {row}.m).v")


def test_masked_places_are_not_there() -> None:
    """Outside its filter a softmax is 0 whatever stands there, and nothing is read."""
    rewriter = apply_only(
        rule_of(elaboration, "expand_softmax"),
        "P[i,k] = softmax[k if 0 < k](X[i,k - 1] / Y[i,k])",
    )
    (line,) = rewriter.program.lines()
    assert line == (
        "P[i,k] = exp(X[i, k - 1] / Y[i,k]) * (0 < k) / sum[k if 0 < k](exp(X[i, k - 1] / Y[i,k]))"
    )
    inputs = inputs_of(rewriter.start)
    inputs["Y"][:, 0] = 0.0
    result = values(rewriter.program, inputs)
    np.testing.assert_allclose(result, evaluate(rewriter.start.origin.text, inputs), rtol=1e-12)
    assert not result[:, 0].any() and np.isfinite(result).all()


def test_a_definition_read_at_a_computed_place() -> None:
    """The language has no softmax at a computed position, so it is written out at once."""
    text = "P[i,k] = softmax[k](X[i,k])\nC[k] = sum[..k](Y[k])\nO[i,k] = P[i,k // 2] + C[k // 2]"
    rewriter = Rewriter(equations(text))
    rewriter.inline_definitions()
    inputs = inputs_of(rewriter.start)
    for step in rewriter.steps:
        assert same_bodies(step.program, equations(step.program.text()))
        expected = evaluate(rewriter.start.origin.text, inputs)
        np.testing.assert_allclose(values(step.program, inputs), expected, rtol=1e-12)


# --- what the compiler knows -------------------------------------------------------------


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
