"""What is printed is a program of the language, and parsing it gives the same terms.

This holds for a program, and for it after every step of its derivation; each of them has
the program's value. MONOCOMP_FUZZ=5000 tries so many random programs, MONOCOMP_SEED=7
others; each part of them has the seed that stands in its name, and is tried alone by
MONOCOMP_SEED=(that seed) MONOCOMP_FUZZ=250.
"""

from __future__ import annotations

import itertools
import math
import os
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, reject, seed, settings

from monocomp import library
from monocomp import terms as T
from monocomp.checking.random_inputs import Points
from monocomp.checking.steps import Case
from monocomp.costs.counting import cost
from monocomp.derivation.rule_sets import derive
from monocomp.errors import IndexRangeError, LimitError
from monocomp.gradients.derived import gradient
from monocomp.language.checker import check
from monocomp.language.syntax import Program
from monocomp.reference.oracle import evaluate
from monocomp.terms.equations import Equations
from monocomp.terms.printer import number_text, show
from monocomp.translation.translator import translate
from tests.printed import loosely, verify
from tests.program_generator import PARAMS, programs

FUZZ = int(os.environ.get("MONOCOMP_FUZZ", "8"))
SEED = int(os.environ.get("MONOCOMP_SEED", "0"))
PART = 250


def outputs(program: str | Program, inputs: Mapping[str, Any], **params: Any) -> list[Any]:
    found = evaluate(program, inputs, **params)
    return list(found) if isinstance(found, tuple) else [found]


def check_derivation(text: str, params: Mapping[str, Any]) -> None:
    """Print, parse and evaluate a program and all that is derived from it, in general position
    and at special points, finite ones for one program and any for the next."""
    source = check(text)
    start = translate(source)
    rewriter = derive(start)
    case = Case.of(start, {}, params, seed=1)
    where: Points = "finite" if zlib.crc32(text.encode()) % 2 else "any"
    tried = []
    for each in (case, replace(case, points=where)):
        inputs = each.inputs("float64")
        names = [output.name for output in source.outputs]
        try:
            expected = dict(zip(names, outputs(source, inputs, **each.params), strict=True))
        except IndexRangeError:
            assert each is not case
        else:
            tried.append((each, inputs, expected))
    before: Equations | None = None
    for rule, program in [("the start", start), *((s.rule, s.program) for s in rewriter.steps)]:
        changed = what_changed(before, program)
        before = program
        if not changed.equations:
            continue
        printed = check(verify(changed).text())
        for each, inputs, expected in tried:
            found = outputs(printed, inputs, **each.params)
            right = tuple(expected[output.name] for output in printed.outputs)
            error = each.error(tuple(found), right)
            assert error <= 1e-9, f"after {rule}, {each}: {error}"
    check_derived_again(rewriter.program, derive(verify(rewriter.program)).program)


def check_derived_again(program: Equations, again: Equations) -> None:
    """A normal form is one. But rules know of the frames that they divide by and multiply with
    where a maximum of nothing is -inf, and who writes them may mean something else there: then a
    condition says so."""
    for a, b in zip(program.equations, again.equations, strict=True):
        if loosely(a.body) is not loosely(b.body):
            conditions = [e.text().count("-inf < ") for e in (program, again)]
            assert conditions[0] < conditions[1], f"{a.body!r}\nis derived further:\n{b.body!r}"
            assert cost(program).passes == cost(again).passes


def what_changed(before: Equations | None, program: Equations) -> Equations:
    """The equations that a step changed; all of them while some read others."""
    declared = program.declared
    if before is None or any(t.op == "ref" for e in before.equations for t in T.subterms(e.body)):
        return program
    returned = {output.name for output in declared.outputs}
    changed = tuple(
        e
        for e in program.equations
        if e.name in returned and e.body is not before.by_name[e.name].body
    )
    kept = {e.name for e in changed}
    results = tuple(output for output in declared.outputs if output.name in kept)
    return replace(program, equations=changed, declared=replace(declared, outputs=results))


@pytest.mark.one_in(13)
@pytest.mark.parametrize("name", library.names())
def test_library(name: str) -> None:
    check_derivation(library.load(name), {"window": 3} if name == "sliding_window" else {})


PROGRAMS = {
    "least integer": "input N[i]: int\nO[i] = (N[i] == -9223372036854775808) - 2.0 ** 63 * X[i]",
    "paged": "index k < |n| * |s|\ninput table[b,n]: int, len[b]: int, K[p,s,d], V[p,s,e]\n"
    "S[b,q,k] = Q[b,q,d] * K[table[b, k // |s|], k % |s|, d]\n"
    "O[b,q,e] = softmax[k if k < len[b]](S[b,q,k]) * V[table[b, k // |s|], k % |s|, e]\n",
    "prefix maximum": "M[k] = max[..k](X[k])\nO[k] = X[k] - M[k]",
    # The language has no softmax at a computed position: it is written out at once.
    "a definition at a computed position": "P[i,k] = softmax[k](X[i,k])\nC[k] = sum[..k](Y[k])\n"
    "O[i,k] = P[i,k // 2] + C[k // 2]",
    "raw variance": "O[i] = mean[k](X[i,k] ** 2) - mean[k](X[i,k]) ** 2",
    "user fold": "monoid Both(p, q) = unit (0, -inf), combine (p + p', maximum(q, q'))\n"
    "O[i] = Both[k if k <= i](X[i,k], X[i,k] - 1).q / Both[k](X[i,k], 1 / 3).p",
    "one field": "monoid Top(t) = unit (-inf), combine (maximum(t, t'))\nO[i] = Top[k](X[i,k])",
    "argmax": "input L[i]: int\nA[i] = argmax[k](X[i,k])\n"
    "O[i] = sum[k](1 * (k == A[i])) + (A[i] == L[i])",
    "parameters": "param c: float = 0.5, n: int = 3, f: float = 1e-5\n"
    "O[i] = where(i % n == 0, c, -c * f) * X[i]",
    "required parameter": "param c: float\nO[i] = max[k](c * X[i,k])",
    "conditions": "input F[i]: bool\nO[i] = F[i] and X[i] != 0 or i < 2",
    "nested": "O[i] = sum[j](max[k if k <= j](D[i,j,k]) * sum[k](D[i,j,k] * min[l](D[i,j,l])))",
    "integers": "input N[i]: int\nO[i] = N[i] // 3 - -N[i] % 4 * (i + 1) ** 2 - 7\n"
    "R[i] = -(N[i] // 2) + 0.5 * X[i]\n"
    "M[i] = 2 * (N[i] // 3) - 3 * (N[i] % 2) * (i // 2) + 0.5 * (i % 2) / (2 * (N[i] // 2) + 1)",
    "numbers": "O[i] = 1e-30 * X[i] + 1 / 3 - 2.5e7 * X[i] / 7 + 0.1",
    "powers": "O[i] = X[i] ** 2 ** 3 + (X[i] ** 2) ** 0.5 + abs(X[i]) ** (1 / 3) + 2 ** X[i]",
    "sums of integers": "param s: int = 2\n"
    "O = 2 * ((2 + s) * (0.5 + (1 + s)))\nR[i] = 3 * (s - i) / X[i] - (i - s) * (i + s) / 7",
    "empty filter": "O[i] = sum[k if k < k](X[i,k]) + max[k if k != k](X[i,k]) + X[i,0]",
    "filter of outer indices": "O[i] = sum[k](X[i,k] * (i < 2))",
    "one extent of two names": "E[k] = sum[l](Y[l] * |k|) * Y[k]",
    "taken names": "k_1[i] = X[i,k] * Y[k]\n"
    "O[i] = sum[k](X[i,k] * sum[l](X[i,l] * max[j](B[k,j] * k_1[i])))",
    "a divisor over nothing beside others": "O[k] = X[k] - min[k, j]"
    "(B[k,j] * exp(log_softmax[j](W[j] * 0.5 + where(W[j] < -100, 0, -inf))))",
    "a difference in the frame of its divisor": "input N[i]: int\n"
    "O[j,i] = sum[j](exp(where(2 <= j, W[j], -inf)) * (var[j](W[j] - X[i])"
    " * sum[k](exp(A[i,k]) * N[i]) / sum[k](exp(A[i,k]))))"
    " / sum[j](exp(where(2 <= j, W[j], -inf))) + W[j] - X[i]",
    "brackets of results": "input N[i]: int\n"
    "O[i] = sum[l](exp(where(l < N[i], A[i,l] + logsumexp[..l](A[i,l]), -inf))"
    " * sum[k](exp(A[i,k] + where(k < N[i], 0, -inf)))"
    " / sum[k](exp(A[i,k] + where(k < N[i], 0, -inf))))"
    " / sum[l](exp(where(l < N[i], A[i,l] + logsumexp[..l](A[i,l]), -inf)))",
    "brackets of sums with a maximum": "param s: int = 2\ninput B[k,j], Y[k]\n"
    "E[k] = sum[l](Y[l] - sum[l](Y[l]) * |k| % 3) * Y[k]\n"
    "O[k] = k ** 3 * var[l](Y[l] * max[j, k](B[k,j] + E[l])) * (k < s)",
    "a dimension called like an input": "O[i] = A[i,0] + A1[i] * sum[j](B[j])",
    "masked exponents of a square": "param s: int = 2\n"
    "E[j,i] = 1 / (1 + exp(log_softmax[j](where(j < s, 1 + X[i], -inf))) ** 2) + W[j]",
    "an absolute value over nothing": "param s: int = 2\n"
    "E[j,i] = W[j] / (1 + abs(sum[k if k > j + s](exp(A[i,k]) * B[k,j]))"
    " / sum[k if k > j + s](exp(A[i,k])))",
    "roots of sigmoids": "D = (0.5 + sigmoid(sum[j](W[j]))) ** (1 / 3)\n"
    "E[i] = sigmoid(X[i]) ** (1 / 3) + D\nF[i] = 1 / (2 + exp(X[i])) ** (1 / 3)",
    "a root of a sigmoid of a variance": "E[i] = (0.5 + sigmoid(mean[j](W[j] ** 2)"
    " - mean[j](W[j]) ** 2)) ** (1 / 3) - X[i]",
    "an index that no input is read with": "input B[k,j]\n"
    "H[k] = sum[j](B[k // 2,j])\nO[k] = mean[l](H[k // 2] * cos(l)) + max[l](B[l,0])",
    "an extent like another": "input X[x], Y[y]\nindex i < |x|, k < |i|\n"
    "O[i] = sum[k if k <= i](X[i - k]) + Y[0]",
    "output that does not vary": "O[i] = X[i] - X[i]\nB[i] = i < 0 or X[i] < 0 or 0 <= i",
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    params = {"c": -0.7} if name == "required parameter" else {}
    check_derivation(PROGRAMS[name], params)


def check_random_programs(run: int, count: int) -> None:
    """Try so many programs, no two of them equal: Hypothesis repeats some, which are skipped."""
    tried: set[str] = set()

    def try_program(text: str) -> None:
        note(f"MONOCOMP_SEED={run}")
        if text in tried or len(tried) == count:
            return
        try:
            check_derivation(text, PARAMS)
        except LimitError:
            reject()  # a derived program may be longer than a user's is allowed to be
        tried.add(text)

    options = settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    attempts = itertools.count()
    while len(tried) < count:
        seed(f"{run}.{next(attempts)}")(options(given(programs())(try_program)))()


@pytest.mark.parametrize("run", range(SEED, SEED + math.ceil(FUZZ / PART)))
def test_random_programs(run: int) -> None:
    """One part after the other, so that processes can share them; each has its own seed."""
    check_random_programs(run, min(PART, FUZZ - PART * (run - SEED)))


# --- directed -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2", "2"),
        ("-2", "-2"),
        ("2.0", "2.0"),
        ("0.125", "0.125"),
        ("-0.1", "-0.1"),
        ("1 / 3", "1 / 3"),
        ("1e-3", "0.001"),
        ("1e22", f"1{'0' * 22}.0"),
        ("inf", "inf"),
        ("-inf", "-inf"),
    ],
)
def test_numbers(value: str, text: str) -> None:
    (equation,) = translate(check(f"O = {value}")).equations
    assert number_text(equation.body.attr, equation.body.kind) == text


AS_WRITTEN = [
    "O[q,k] = Q[q,k] * X[k] / sqrt(|k|)",
    "O[k] = 2 - X[k]",
    "O[k] = X[k] - 2",
    "O[k] = -X[k]",
    "O[k] = 1 / X[k]",
    "O[k] = 2 * X[k] / 3",
    "O[k] = 0.5 * X[k]",
    "O[k] = 3 * X[k] * (X[k] + 1)",
    "O[k] = (X[k] + 1) / X[k] * 3",
    "O[k] = X[k] ** 2",
    "O[k] = 1.0 * k",
    "O[k] = k / X[k]",
    "O[k] = X[k] - k // 2",
    "O[q,k] = X[k] * (q - k)",
    "O[q,k] = X[k] + (q - k)",
    "O[q,k] = X[k] * (k <= q)",
    "O[q,k] = X[k] + exp(k <= q)",
    "O[q,k] = where(k <= q, X[k], -inf)",
    "O[q,k] = exp(X[k]) * (k <= q)",
    "O[q] = X[q] * exp(X[q - 1]) * (0 < q)",
    "O[q] = sum[k if k <= q](Q[q,k])",
    "O[q,k] = exp(Q[q,k]) / sum[k](exp(Q[q,k]))",
    "O[b,k] = K[b, k // 2]",
]
CHANGED = [
    ("O[k] = X[k] * 2", "O[k] = 2 * X[k]"),
    ("O[k] = -2 * X[k] + 1", "O[k] = 1 - 2 * X[k]"),
    ("O[k] = 1.0 / X[k] + k", "O[k] = 1 / X[k] + k"),
    ("O[q,k] = exp(where(k <= q, X[k], -inf))", "O[q,k] = exp(X[k]) * (k <= q)"),
    ("O[q] = sum[l if l <= q](Q[q,l])", "O[q] = sum[k if k <= q](Q[q,k])"),
]


@pytest.mark.parametrize(("text", "printed"), [*((t, t) for t in AS_WRITTEN), *CHANGED])
def test_readable(text: str, printed: str) -> None:
    """Quotients, roots and differences come out as people write them."""
    program = translate(check(f"input Q[q,k], X[k], K[b,g]\n{text}"))
    assert program.lines() == [printed]


def test_a_filter_mentions_its_index() -> None:
    text = "O[i] = sum[k](X[i,k] * (i < 2))"
    rewriter = derive(translate(check(text)))
    assert str(rewriter.program) == "O[i] = sum[k if i < 2 and k == k](X[i,k])"


def test_every_index_of_an_output_occurs() -> None:
    program = translate(check("O[i] = tanh(i) - tanh(i)\nB[i] = X[i] < 0 or i == i"))
    assert program.lines() == ["O[i] = 0.0 + 0 * i", "B[i] = (0 == 0) and i == i"]


def test_opened_indices_print_by_their_extent() -> None:
    (equation,) = translate(check("O[i] = sum[k](X[i,k] * max[l](X[i,l]))")).equations
    _, (_, body) = T.open_fold(equation.body)
    assert show(body) == "X[i,k] * max[k](X[i,k])"


@pytest.mark.parametrize(
    "text",
    [
        "input X[i]\nindex j < |i| // 2\nO[j] = X[j + 0] * X[|j| + j]",
        "input X[i,c], W[j,c]\nindex r < 2\nO[i,j] = sum[r](X[i, r + 0]) * sum[c](W[j,c])",
        "input X[i]\nO[i] = X[0 + i]",
    ],
)
def test_an_index_of_another_extent_is_no_plain_subscript(text: str) -> None:
    """`X[r]` would say that X has as many columns as there are r."""
    program = translate(check(text))
    for equations in (program, gradient(program).equations):
        again = translate(check(equations.text()))
        assert again.declared.bounds == equations.declared.bounds
        assert [e.body for e in again.equations] == [e.body for e in equations.equations]
        assert again.text() == equations.text()
    assert ("+ 0" in program.text()) == ("0 + i" not in text)
