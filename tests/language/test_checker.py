"""What checking establishes: implied sums, names, types, extents, inputs and outputs."""

from __future__ import annotations

import pytest

from monocomp.errors import (
    AmbiguousSumError,
    MonocompError,
    RecursiveDefinitionError,
    ShapeError,
    UnknownIndexError,
)
from monocomp.language.checker import check
from monocomp.language.syntax import Reduce, children

ATTENTION = "O[b,h,q,e] = softmax[k](Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)) * V[b,h,k,e]"


def implied(text: str, name: str = "O") -> list[tuple[str, str]]:
    """The implied sums of a definition: their indices and the text that they cover."""
    program = check(text)
    found, stack = [], [program.definitions[name].body]
    while stack:
        node = stack.pop()
        if isinstance(node, Reduce) and node.implied:
            covered = text[node.span.start : node.span.stop]
            found.append((" ".join(node.indices), covered))
        stack.extend(reversed(children(node)))
    return found


@pytest.mark.parametrize(
    ("text", "sums"),
    [
        (
            ATTENTION,
            [
                ("k", ATTENTION.partition(" = ")[2]),
                ("d", "Q[b,h,q,d] * K[b,h,k,d]"),
            ],
        ),
        ("O[q,k] = Q[q,d] * K[k,d] + B[q,k]", [("d", "Q[q,d] * K[k,d]")]),
        ("O[q] = A[q,k]", [("k", "A[q,k]")]),
        ("O[q] = 2 * A[q,k] / 3 - B[q]", [("k", "A[q,k]")]),
        ("O = A[i,j] * B[i,j]", [("i j", "A[i,j] * B[i,j]")]),
        ("O = A[i,j] * B[j]", [("j", "A[i,j] * B[j]"), ("i", "A[i,j]")]),
        ("O[i] = exp(A[i,k] * B[k])", [("k", "A[i,k] * B[k]")]),
        ("O[i] = sum[k](A[i,k] * W[k,d])", [("d", "W[k,d]")]),
        ("O[i] = max[k](A[i,k] * W[k,d] * U[d])", [("d", "A[i,k] * W[k,d] * U[d]")]),
        ("O[q] = softmax[k](A[q,k])", [("k", "softmax[k](A[q,k])")]),
        ("O[q] = sum[..k](A[q,k]) * B[k]", [("k", "sum[..k](A[q,k]) * B[k]")]),
        ("O[q,k] = sum[..k](A[q,k])", []),
        ("O[q] = where(k < q, A[q,k], 0)", [("k", "where(k < q, A[q,k], 0)")]),
        ("O[q] = where(q > 3, A[q,k], 0)", [("k", "A[q,k]")]),
        ("O[i] = A[B[i,k]]", [("k", "A[B[i,k]]")]),
        ("O[i] = A[i,k] / |k|", [("k", "A[i,k]")]),
        ("O[i] = A[i] * sum[d](B[d]) + C[i,d]", [("d", "C[i,d]")]),
        ("O[i] = A[i] / sum[i](A[i])", []),
        ("O[h] = A[h] * (h // 2)", []),
        ("O[i] = mean[k](A[i,k,d])", [("d", "A[i,k,d]")]),
        ("O[i] = sum[k if k < 9 and W[k] * U[k,j] * Z[j] > 0](A[i,k])",
         [("j", "W[k] * U[k,j] * Z[j]")]),
        ("index r < 2\nO[i] = top[k -> r](A[i,k]) * B[r]",
         [("r", "top[k -> r](A[i,k]) * B[r]")]),
        # each term has a sum of its own
        ("O[i] = exp(A[i,d] * B[d]) + exp(C[i,d] * D[d])",
         [("d", "A[i,d] * B[d]"), ("d", "C[i,d] * D[d]")]),
        ("O[i] = A[i,d] * B[d] + C[i,d]", [("d", "A[i,d] * B[d]"), ("d", "C[i,d]")]),
        ("O[i] = A[i,d] * B[d] < C[i,d] * D[d]",
         [("d", "A[i,d] * B[d]"), ("d", "C[i,d] * D[d]")]),
        ("O[i] = (A[i,d] * B[d]) ** 2 / C[i]", [("d", "(A[i,d] * B[d])")]),
        ("O[i] = where(C[i] > 0, A[i,d], B[i,d])", [("d", "A[i,d]"), ("d", "B[i,d]")]),
        ("O[i] = exp(A[i,d]) * B[d] / C[i]", [("d", "exp(A[i,d]) * B[d]")]),
        ("O[i] = A[i,d] / B[d] * C[d]", [("d", "A[i,d] / B[d] * C[d]")]),
        ("O[i] = (A[i,d] + B[i]) * C[d]", [("d", "(A[i,d] + B[i]) * C[d]")]),
        ("O[i] = sum[c](A[i,c] * B[c]) * tanh(A[i,c] * W[c])",
         [("c", "A[i,c] * W[c]")]),
        # functions stand for their text
        ("def rms(x) = x * rsqrt(mean[d](x * x))\nO[b,d] = rms(A[b,d])", []),
        ("def rms(x) = x * rsqrt(mean[d](x * x))\nO[b] = rms(A[b,d])", [("d", "A[b,d]")]),
        ("def norm(x) = sqrt(sum[d](x * x))\nO[b] = norm(A[b,d])", []),
        ("def norm(x) = sqrt(sum[d](x * x))\ndef twice(x) = 2 * norm(x)\nO[b] = twice(A[b,d])",
         []),
        ("def gate(x) = x * W[d]\nO[b] = gate(A[b,d])", [("d", "gate(A[b,d])")]),
        ("def f(x) = tanh(x)\nO[b] = f(A[b,d] * W[d])", [("d", "A[b,d] * W[d]")]),
        ("def f(x) = x + W[d]\nO[b] = f(A[b])", [("d", "W[d]")]),
        ("def f(x) = tanh(x * W[d])\nO[b] = f(A[b,d])", [("d", "x * W[d]")]),
        ("def p(x) = softmax[k](x)\nO[b,k] = p(A[b,k])", []),
    ],
)  # fmt: skip
def test_implied_sums(text: str, sums: list[tuple[str, str]]) -> None:
    assert implied(text) == sums


@pytest.mark.parametrize(
    "right",
    ["exp(A[q,k])", "1 / A[q,k]", "A[q,k] ** 2", "max[j](B[j] + A[q,k])", "softmax[j](A[q,k] + j)",
     "where(A[q,k] > 0, 1, 2)", "exp(-A[q,k])", "A[q,k] % 2", "exp(2 * A[0,k] + q)",
     "prod[j](A[k,j])"],
)  # fmt: skip
def test_a_lone_read_under_a_nonlinear_function_is_refused(right: str) -> None:
    with pytest.raises(AmbiguousSumError):
        check(f"O[q] = {right} + 0 * B[q]")


# What could be meant two ways: a part of a line, and it with the sum over d in its terms. The other
# reading has a sum around all of it.
TWO_WAYS = {
    # one place under a nonlinear function
    "exp(A[q,d])": "exp(sum[d](A[q,d]))",
    "(A[q,d] - B[q,d]) ** 2": "sum[d](A[q,d] - B[q,d]) ** 2",
    "exp(-A[q,d])": "exp(sum[d](-A[q,d]))",
    "exp(2 * A[q,d] + C[q])": "exp(sum[d](2 * A[q,d]) + C[q])",
    "exp(c * (A[q,d] + C[q]))": "exp(c * (sum[d](A[q,d]) + C[q]))",
    "exp(A[q,d] * W[d] + B[q,d])": "exp(sum[d](A[q,d] * W[d] + B[q,d]))",
    "exp(where(q < d, A[q,d], 0))": "exp(sum[d](where(q < d, A[q,d], 0)))",
    "exp(where(q < 3, A[q,d], C[q]))": "exp(where(q < 3, sum[d](A[q,d]), C[q]))",
    "exp(sum[k](S[k,d] + U[k]))": "exp(sum[k](sum[d](S[k,d]) + U[k]))",
    "exp(tanh(A[q,d]))": "exp(sum[d](tanh(A[q,d])))",
    "max[k](S[k,d] - U[k])": "max[k](sum[d](S[k,d]) - U[k])",
    "SE[k](U[k], S[k,d]).v": "SE[k](U[k], sum[d](S[k,d])).v",
    # comparisons and what joins them
    "A[q,d] > 0": "sum[d](A[q,d]) > 0",
    "A[q,d] < B[q,d] <= C[q]": "sum[d](A[q,d]) < sum[d](B[q,d]) <= C[q]",
    "A[q,d] > 0 and not B[q,d] > 0": "sum[d](A[q,d]) > 0 and not sum[d](B[q,d]) > 0",
    "where(A[q,d] > C[q] or q > 3, 1, 2)": "where(sum[d](A[q,d]) > C[q] or q > 3, 1, 2)",
    "where(M[q,d], 1, 2)": "where(any[d](M[q,d]), 1, 2)",
    "sum[k if S[k,d] > 0](U[k])": "sum[k if sum[d](S[k,d]) > 0](U[k])",
    # both sides of a quotient, of another operator
    "A[q,d] / B[q,d]": "sum[d](A[q,d]) / sum[d](B[q,d])",
    "(A[q,d] + C[q]) / (1 + W[d])": "(sum[d](A[q,d]) + C[q]) / (1 + sum[d](W[d]))",
    "max[k](S[k,d] * W[d]) / max[k](S[k,d] * X[d])":
        "sum[d](max[k](S[k,d] * W[d])) / sum[d](max[k](S[k,d] * X[d]))",
    "A[q,d] // B[q,d]": "sum[d](A[q,d]) // sum[d](B[q,d])",
    "A[q,d] % W[d]": "sum[d](A[q,d]) % sum[d](W[d])",
    "A[q,d] ** W[d]": "sum[d](A[q,d]) ** sum[d](W[d])",
    # several arguments of one function
    "maximum(A[q,d] * W[d], B[q,d] + C[q])":
        "maximum(sum[d](A[q,d] * W[d]), sum[d](B[q,d]) + C[q])",
    "where(A[q,d] * W[d] > 0, B[q,d] * X[d], 0)":
        "where(sum[d](A[q,d] * W[d]) > 0, sum[d](B[q,d] * X[d]), 0)",
    "where(A[q,d] > W[d], B[q,d], C[q])":
        "where(sum[d](A[q,d]) > sum[d](W[d]), sum[d](B[q,d]), C[q])",
    "where(positive(A[q,d]), B[q,d], 0)": "where(sum[d](A[q,d]) > 0, sum[d](B[q,d]), 0)",
    "where(any[k](S[k,d] > 0), B[q,d], 0)":
        "where(any[k](sum[d](S[k,d]) > 0), sum[d](B[q,d]), 0)",
    "sum[k if S[k,d] > 0](T[k,q,d])": "sum[k if sum[d](S[k,d]) > 0](sum[d](T[k,q,d]))",
    "max[k if S[k,d] > 0](T[k,q,d])": "max[k if sum[d](S[k,d]) > 0](sum[d](T[k,q,d]))",
    "SE[k](S[k,d], T[k,q,d]).v": "SE[k](sum[d](S[k,d]), sum[d](T[k,q,d])).v",
    "gap(A[q,d], B[q,d])": "gap(sum[d](A[q,d]), sum[d](B[q,d]))",
    # a product over the index under a function, times more
    "exp(A[q,d] * W[d]) * X[d]": "exp(A[q,d] * W[d]) * sum[d](X[d])",
    "softmax[k](S[k,d] * W[d]) * U[k] * X[d]":
        "softmax[k](S[k,d] * W[d]) * U[k] * sum[d](X[d])",
    "exp(A[q,d] * W[d]) * exp(B[q,d] * X[d])":
        "exp(sum[d](A[q,d] * W[d])) * exp(sum[d](B[q,d] * X[d]))",
    "where(A[q,d] * W[d] > 0, 1, 2) * X[d]":
        "where(A[q,d] * W[d] > 0, 1, 2) * sum[d](X[d])",
    "T2[I[q,d] * J[d]]": "T2[sum[d](I[q,d] * J[d])]",
}  # fmt: skip
DECLARED = """
index q < 8
input I[q,d]: int, J[d]: int, M[q,d]: bool
param c: float
def gap(x, y) = (x - y) ** 2
def positive(x) = x > 0
Y[q,d] = A[q,d] + B[q,d] + W[d]
"""


@pytest.mark.parametrize("part", TWO_WAYS)
def test_what_could_be_meant_two_ways_is_refused(part: str) -> None:
    """With both readings, and each is a program."""
    readings = f"sum[d]({part})", TWO_WAYS[part]
    _check_readings(part, *readings)


def test_several_sums_that_could_be_meant_two_ways() -> None:
    """The readings of a part have a sum over each of its indices."""
    part = "exp(A[q,d] * Z[q,e])"
    _check_readings(part, f"sum[d, e]({part})", "exp(sum[d, e](A[q,d] * Z[q,e]))")
    part = "maximum(D[q,d,e], Z[q,e])"
    around = f"sum[e, d]({part})"
    _check_readings(part, around, "maximum(sum[e, d](D[q,d,e]), sum[e](Z[q,e]))")


def test_a_function_is_written_out_where_its_text_could_be_meant_two_ways() -> None:
    with pytest.raises(AmbiguousSumError) as caught:
        check("def f(x) = x / W[d]\nO[q] = f(A[q,d])")
    assert caught.value.described().splitlines()[-3:] == [
        "  'd' is not on the left and stands in both sides of a quotient",
        "  f(A[q,d]) stands for A[q,d] / W[d]",
        "  help: write sum[d](A[q,d] / W[d]) or sum[d](A[q,d]) / sum[d](W[d])",
    ]


@pytest.mark.parametrize(
    "condition",
    ["d < q", "d % 2 == 0 or d > q", "M[q,d]", "M[q,d] and d < q", "A[q,d] > 0 and d < q",
     "uniform(1, q, d) < 0.5", "d == J[q]"],
)  # fmt: skip
def test_a_condition_on_positions_has_no_sum_of_its_own(condition: str) -> None:
    """Nor has one on truth values: the sum is around all that it guards."""
    part = f"where({condition}, B[q,d] * W[d], 0)"
    assert implied(f"input M[q,d]: bool, J[q]: int\nO[q] = {part}") == [("d", part)]
    part = f"sum[k if {condition} and k < 9](T[k,d])"
    assert implied(f"input M[q,d]: bool, J[q]: int\nO[q] = {part}") == [("d", part)]


def _check_readings(part: str, around: str, inside: str) -> None:
    text = f"{DECLARED}O[q] = {part}\nE[q] = C[q]"
    with pytest.raises(AmbiguousSumError) as caught:
        check(text)
    assert " ".join(str(caught.value.help).split()) == f"write {around} or {inside}"
    for reading in (around, inside):
        check(text.replace(part, reading))


# Types


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("O[i] = W[T[i],i]", {"T": "int", "W": "float"}),
        ("O[i] = W[T[i] + 1]", {"T": "int"}),
        ("G[i] = T[i] // 2\nO[i] = W[G[i]]", {"T": "int"}),
        ("def page(k) = T[k // 4]\nO[k] = W[page(k)] + X[k]", {"T": "int"}),
        ("def id(x) = x\nO[i] = W[id(T[i])]", {"T": "int"}),
        ("O[i] = W[where(M[i], T[i], 0)]", {"T": "int", "M": "bool"}),
        ("O[i] = sum[k if M[i,k]](A[i,k])", {"M": "bool", "A": "float"}),
        ("O[i] = sum[k if not M[i,k] and k < 3](A[i,k])", {"M": "bool"}),
        ("O[i] = where(M[i] or N[i], 1, 2)", {"M": "bool", "N": "bool"}),
        ("O[i] = any[k](M[i,k])", {"M": "bool"}),
        ("C[i] = M[i]\nO[i] = where(C[i], 1, 2)", {"M": "bool"}),
        ("O[i] = A[i] * uniform(S[i], i)", {"S": "int"}),
        ("O[i] = W[T[i]] * T[i]", {"T": "int"}),
        ("input T[i]: int\nO[i] = T[i] * 0.5", {"T": "int"}),
        ("O[i] = where(A[i] < 3, 1, 2)", {"A": "float"}),
        ("input s: bool\nO[i] = where(s, A[i], 0)", {"s": "bool"}),
    ],
)
def test_types_of_inputs(text: str, kinds: dict[str, str]) -> None:
    program = check(text)
    assert {name: program.inputs[name].kind for name in kinds} == kinds


@pytest.mark.parametrize(
    ("right", "kind"),
    [
        ("i", "int"), ("i // 2 + |i| % 3 - 1", "int"), ("i / 2", "float"), ("i ** 2", "int"),
        ("i ** -1", "float"), ("i ** 0.5", "float"), ("-i", "int"), ("i < 3", "bool"),
        ("not (i < 3)", "bool"), ("(i < 3) + 0", "int"), ("-(i < 3)", "int"),
        ("where(i < 3, i, 0)", "int"), ("where(i < 3, i, 0.5)", "float"),
        ("where(i < 3, i < 2, i < 1)", "bool"), ("maximum(i, 3)", "int"), ("abs(i - 3)", "int"),
        ("stop(i)", "int"), ("exp(i)", "float"), ("uniform(7, i)", "float"), ("i + inf", "float"),
        ("sum[k](A[i,k])", "float"), ("sum[k](k < i) + 0 * T[A0[i,k]]", "float"),
        ("sum[k](where(k < i, 1, 0)) + 0 * argmax[k](A[i,k])", "int"), ("mean[k](k + i)", "float"),
        ("argmin[k](A[i,k])", "int"), ("any[k](A[i,k] > 0)", "bool"), ("floor(i / 2)", "float"),
        ("max[k](k + i)", "int"), ("softmax[i](i)", "float"), ("sum[..i](i)", "int"),
    ],
)  # fmt: skip
def test_types_of_expressions(right: str, kind: str) -> None:
    text = f"O[i] = {right}\nX[i,k] = A[i,k]\nY[i,k] = A0[i,k]"
    assert check(text).kinds["O"] == kind


# Extents


def test_names_that_meet_share_an_extent() -> None:
    program = check("O[i] = A[i,d] * B[d] + A[i,e] * C[e]")
    assert program.extent_of["e"] == program.extent_of["d"] == "d"
    through = check("P[i,k] = A[i,k]\nO[i,j] = P[i,j] + B[j]")
    assert through.extent_of["j"] == through.extent_of["k"] == "k"
    declared = check("input A[m,n]\nO[i] = A[i, 0] + A[0, i]")
    assert len({declared.extent_of[name] for name in "imn"}) == 1


def test_a_dimension_that_no_index_names() -> None:
    program = check("O[q,k] = Q[q] * K[k] + R[q - k + |k|]")
    assert program.inputs["R"].dims == (".R0",)
    assert program.extent_of[".R0"] == ".R0"
    assert program.inputs["Q"].dims == ("q",)


def test_declared_extents() -> None:
    program = check("index r < minimum(4, |k|), i < 3\nO[i,r] = top[k -> r](A[k] * i)")
    assert set(program.bounds) == {"r", "i"}
    constant = check("index i < 3\nO[i] = 0.0")
    assert constant.definitions["O"].indices == ("i",)
    same = check("index i < 3, j < 3\nP[i] = A[i]\nO[j] = P[j]")
    assert list(same.bounds) == ["i"]
    with pytest.raises(ShapeError):
        check("index i < 3, j < 4\nP[i] = A[i]\nO[j] = P[j]")


def test_an_index_with_the_extent_of_another_shares_it() -> None:
    program = check("index i < |k|, j < |i|\nO[i,j] = A[k] * i * j")
    assert len({program.extent_of[name] for name in "ijk"}) == 1
    assert not program.bounds
    assert not check("index k < |k|\nO[k] = A[k]").bounds  # the input gives it
    with pytest.raises(RecursiveDefinitionError):
        check("index k < |k|\nO[k] = k")
    with pytest.raises(RecursiveDefinitionError):
        check("index i < |j|, j < |i|\nO[i] = i + j")


def test_an_index_that_only_computed_subscripts_use_needs_a_declaration() -> None:
    with pytest.raises(UnknownIndexError) as caught:
        check("O[i] = A[i + 1]")
    assert "index i < ..." in str(caught.value)
    assert check("index i < 3\nO[i] = A[i + 1]").bounds


# Inputs and outputs


def test_inputs_are_in_the_order_of_their_declarations() -> None:
    """One that is not declared is where it is first read; params are in order of appearance."""
    assert list(check("O[i] = B[i] * A[i] + C[i]").inputs) == ["B", "A", "C"]
    late = check("O[i] = B[i] * A[i] * x\ninput C[i], A[i]\nparam y: int, x: float")
    assert list(late.inputs) == ["B", "C", "A"]
    assert list(late.params) == ["x", "y"]
    masked = check("O[i] = sum[k if M[i,k]](A[i,k])")
    assert list(masked.inputs) == ["M", "A"]


def test_outputs_are_what_nothing_reads() -> None:
    program = check("P[i] = A[i]\nO[i] = P[i]\nL[i] = P[i] + 1")
    assert [output.name for output in program.outputs] == ["O", "L"]
    chosen = check("P[i] = A[i]\nO[i] = P[i]\nL[i] = P[i] + 1\nreturn P")
    assert [output.name for output in chosen.outputs] == ["P"]
    called = check("W = 2 * A[k]\ndef f(x) = x * W\nO[i] = f(B[i])")
    assert [output.name for output in called.outputs] == ["O"]


def test_the_order_of_declarations_and_functions_is_free() -> None:
    program = check("O[i] = f(A[i], c)\ndef f(x, y) = g(x) * y\ndef g(x) = x + 1\nparam c: float")
    written_out = check("O[i] = (A[i] + 1) * c\nparam c: float")
    assert program.definitions == written_out.definitions


def test_a_function_carries_its_reads_to_the_call() -> None:
    with pytest.raises(MonocompError, match="used before it is defined"):
        check("def f(x) = x * W[0]\nO[i] = f(A[i])\nW[i] = A[i]")


def test_local_names_hide_names_of_the_program() -> None:
    program = check("param c: int\ndef f(c, k) = c * k\nO[i] = f(A[i,k] * B[k], c)")
    assert program.params["c"].kind == "int"
