"""The grammar: what a valid text becomes, layout, literals, precedence and places."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from monocomp.language.parser import parse
from monocomp.language.syntax import Definition, Expr, Number


def body(text: str) -> Expr:
    (statement,) = parse(f"O = {text}")
    assert isinstance(statement, Definition)
    return statement.body


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a - b - c", "((a - b) - c)"),
        ("a / b * c // d % e", "((((a / b) * c) // d) % e)"),
        ("-a ** -b ** c", "(-(a ** (-(b ** c))))"),
        ("-a * b", "((-a) * b)"),
        ("(a + b) * c", "((a + b) * c)"),
        ("a < b <= c", "(a < b <= c)"),
        ("a == b != c > d >= e", "(a == b != c > d >= e)"),
        ("not a < b and c or d", "(((not (a < b)) and c) or d)"),
        ("a and b and c", "(a and b and c)"),
        ("not not a", "(not (not a))"),
        ("|h| // |g|", "(|h| // |g|)"),
        ("|h| * |g| - |h|", "((|h| * |g|) - |h|)"),
        ("a + b < c * d", "((a + b) < (c * d))"),
        ("K[b, G[h], k + 1]", "K[b, G[h], (k + 1)]"),
        ("K[table[b, k // |s|], k % |s|]", "K[table[b, (k // |s|)], (k % |s|)]"),
    ],
)
def test_precedence_is_pythons(text: str, tree: str) -> None:
    assert body(text) == body(tree)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("007", 7),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("2.", Fraction(2)),
        ("1e-3", Fraction(1, 1000)),
        ("2.5E2", Fraction(250)),
        ("0.1", Fraction(1, 10)),
        ("inf", math.inf),
    ],
)
def test_literals_are_exact(text: str, value: object) -> None:
    node = body(text)
    assert isinstance(node, Number)
    assert node.value == value
    assert isinstance(node.value, int) == isinstance(value, int)


@pytest.mark.parametrize(
    "text",
    [
        "O[i] = A[i] +\n  B[i]",
        "O[i] =\n\n  # why\n  A[i] + B[i]",
        "O[i] = (A[i]\n  + B[i])",
        "O[\n i\n] = (\nA[i]\n\n# comment (with [ brackets\n + B[i]\n)",
        "O[i] = A[i] + B[i]  # comment, 'quotes' and ünïcode",
        "\n\n# first\nO[i] = A[i] + B[i]\n\n# last",
        "\r\nO[i]\t=\tA[i] +\r\n  B[i]\r\n",
        "\ufeffO[i] = A[i] + B[i];",
        ";;O[i] = A[i] + B[i];\n;",
    ],
)
def test_layout(text: str) -> None:
    (statement,) = parse(text)
    assert isinstance(statement, Definition)
    assert statement.body == body("A[i] + B[i]")


def test_a_logical_operator_at_the_end_of_a_line_continues_it() -> None:
    found = parse("O = sum[k if\n k < 3 and\n not\n m[k]](x[k])\nP = |h| // |g|\nR = |h|\nT = 1")
    assert len(found) == 4


def test_statements_on_one_line() -> None:
    assert len(parse("P[i] = A[i]; O[i] = P[i]")) == 2
