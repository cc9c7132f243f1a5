"""The definitions of the derived reductions; and that the compiler knows monoids and exponentials,
and not what they are used for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from monocomp.rewrites.elaboration import elaboration
from tests.rewrites.rules import rule_tests

NEAR_MISSES = {
    "expand_prefix": ["P[k] = softmax[k](X[k])", "index r < 2\nA[r] = top[k -> r](X[k])"],
    "nest_indices": [
        "A[i] = max[k](X[i,k])",
        "A[i] = mean[j, k](X[i,j,k])",  # the inner means would weigh alike
        "A[i] = any[j, k](X[i,j,k] < 0)",
    ],
}


VARIANTS = {
    "nest_indices": [
        # every field of a row goes into the fold of the rows
        "A[i] = Affine[j, k](X[i,j,k], Y[j]).u"
        " => A[i] = Affine[j](Affine[k](X[i,j,k], Y[j]).a, Affine[k](X[i,j,k], Y[j]).u).u",
        # conditions on rows are asked of rows, also where only the filter of their elements keeps
        # a read inside its tensor
        "A[i] = max[j, k if 0 < j and k <= j](X[i,j,k])"
        " => A[i] = max[j if 0 < j](max[k if k <= j](X[i,j,k]))",
        "A[i] = max[j, k if k < j and 0 < Y[j - 1]](X[i,j,k])"
        " => A[i] = max[j if j <= |j| and 0 < j and 0 < Y[j - 1]](max[k if k < j](X[i,j,k]))",
        # and what nobody looks at need not be there
        "A[i] = max[j, k if k < j and (j == 0 or 0 < Y[j - 1])](X[i,j,k])"
        " => A[i] = max[j if (j == 0 or j <= |j| and 0 < j) and (j == 0 or 0 < Y[j - 1])]"
        "(max[k if k < j](X[i,j,k]))",
    ],
}
test_example, test_near_miss, test_variant = rule_tests(
    elaboration.rules, NEAR_MISSES, VARIANTS, start="input X[i,j,k], Y[j]\n"
)


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
    Path("backends/tape/fusing.py"),
    Path("backends/tape/reals.py"),
    Path("backends/eager/statements.py"),
    Path("backends/eager/scope.py"),
}


@cache
def words(path: Path) -> list[str]:
    """Return identifiers and strings of a file; comments and docstrings are for people."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = []
    by_descriptor = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, by_descriptor) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [node.value] * (id(node) not in docstrings)
            continue
        for name in ("id", "attr", "name", "arg"):
            if isinstance(word := getattr(node, name, None), str):
                found.append(word)
    return found


def matching(pattern: re.Pattern[str], paths: Iterable[Path]) -> list[str]:
    """Return words of files that match, with their file."""
    return [f"{path}: {word}" for path in paths for word in words(path) if pattern.search(word)]


def test_no_application_is_known() -> None:
    assert len(FILES) > 20 and not matching(APPLICATIONS, FILES)


def test_softmax_is_a_definition() -> None:
    assert not matching(re.compile("softmax"), (p for p in FILES if p not in DEFINED))
