"""What a wrong program is told, and that nothing else escapes; what a traceback shows: the caller's
line, one frame of the package, and the class once."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import monocomp as mc
from monocomp.errors import InternalError, LimitError, MonocompError, ParseError, UsageError
from monocomp.language.checker import check

MAT = (
    "index r < 2, s < 2, t < 2\n"
    "monoid Mat(A[r,s]) = unit (where(r == s, 1, 0)), combine (A[r,t] * A'[t,s])\n"
)
CASES = {
    "a character that means nothing": "O[i] = A[i] $ 2",
    "a bracket that is not closed": "O[i] = sum[k](A[i,k]\nP[i] = A[i,0]",
    "a bracket closed by another": "O[i] = sum[k](A[i,k])]",
    "brackets that cross": "O[i] = exp(A[i)]",
    "a missing operator": "S[i,j] = sum[d](Q[i,d] K[j,d])",
    "a missing operator after a number": "S[i,j] = 2 Q[i,j]",
    "a missing operator between parentheses": "S[i,j] = (Q[i,j]) (Q[i,j] + 1)",
    "a missing operator or comma": "O[i] = maximum(A[i] B[i])",
    "a missing comma": "O[i,j] = A[i j]",
    "a reduction without its parenthesis": "O[i] = sum[k] A[i,k]",
    "a value missing at the end": "O[i] = A[i] +",
    "an operator without its left side": "O[i] = * A[i]",
    "an operator at the start of a line": "O[i] = A[i]\n  + 2",
    "empty brackets": "O[] = A[i]",
    "an unknown statement": "inputs Q[i]",
    "an assignment inside an expression": "O[i] = where(A[i] = 3, 1, 2)",
    "a comparison for a definition": "O[i] == A[i]",
    "no definition": "A[i] * 3",
    "a computed left side": "O[i+1] = A[i]",
    "a choice written with if": "O[i] = A[i] if i < 3 else 2",
    "a slice": "O[i] = A[1:3]",
    "a new dimension": "O[i,j] = x[i] + f(y[None,j])",
    "an index that a sum binds itself": "O[i] = sum[i,j](A[i,j])",
    "a method whose dimension cannot be told": "O[i] = A[i].sum()",
    "elements of a set": "O[q] = sum[k ∈ q](A[q,k])",
    "an extent of an expression": "O[i] = |A[i]|",
    "a parameter without type": "param x = 3\nO[i] = A[i] * x",
    "an unknown type": "param x: complex = 3",
    "a default of another type": "param x: int = 3.5",
    "a malformed index line": "index k = 4",
    "a malformed function": "def f x = 3",
    "a malformed monoid": "monoid M(a) = unit 0",
    "brackets after return": "O[i] = A[i]\nreturn O[i]",
    "a letter outside ASCII": "O[i] = α * A[i]",
    "an operator outside ASCII": "O[i] = A[i] × 2",
    "a word of the language as a name": "O[i] = A[return]",
    "a built-in function as a name": "index exp < 4\nO[exp] = A[exp]",
    "a tensor that no line declares, called like a function": "O[q,d] = X[q,d] * cos[q,d]",
    "an ellipsis": "O[..., q] = A[..., q]",
    "a built-in reduction as a name": "input sum[k]",
    "an output index that the right lacks": "O[i,f] = sum[j](P[i,j] * V[j,e])",
    "two definitions of one name": "O[i] = A[i]\nO[i] = B[i]",
    "an index and a tensor of one name": "O[i] = d[i] * A[i,d]",
    "a name used too early": "O[i] = P[i]\nP[i] = A[i]",
    "an undeclared name": "param scale: float\nO[i] = A[i] * scal",
    "a tensor without brackets": "O[i] = A[i] * B\nP[i] = B[i]",
    "a formal read as a tensor": "def f(x) = x[0]\nO[i] = f(A[i])",
    "a definition that uses itself": "O[i] = O[i] + 1",
    "definitions that use each other": "O[i] = P[i]\nP[i] = O[i]",
    "functions that use each other": "def f(x) = g(x)\ndef g(x) = f(x)\nO[i] = f(A[i])",
    "two numbers of dimensions": "O[i] = A[i] + A[i,j]",
    "more dimensions than declared": "input A[i,j]\nO[i] = A[i]",
    "fewer subscripts than a definition has": "P[i,j] = A[i,j]\nO[i] = P[i]",
    "a filter on another index": "O[q] = sum[k if q < 3](A[q,k])",
    "a filter on no index": "param w: int\nO[q] = sum[k if w < 3](A[q,k])",
    "a misspelt reduction": "O[q,k] = sotfmax[k](A[q,k])",
    "a misspelt function": "O[q] = epx(A[q])",
    "a reduction called as a function": "O[i] = sum(A[i])",
    "a function used as a reduction": "O[i] = exp[k](A[i,k])",
    "too many arguments": "O[q] = exp(A[q], 2)",
    "too few arguments": "O[q] = where(A[q] > 0, 1)",
    "too many operands": "O[q] = sum[k](A[q], 2)",
    "a sum that could be meant two ways": "O[q] = exp(A[q,k])",
    "a sum that a condition and what it guards could share": (
        "O[q] = where(A[q,d]*B[d] > 0, C[q,d]*D[d], 0)"
    ),
    "a float as an index": "O[i] = A[B[i] / 2]",
    "a float as a condition": "O[i] = where(A[i] + 1, 2, 3)",
    "an input used in two ways": "O[i] = A[T[i]] * where(T[i], 1, 2)",
    "a new index without extent": "O[i,r] = top[k -> r](A[i,k])",
    "top without a new index": "O[i] = top[k](A[i,k])",
    "a new index of another reduction": "O[i] = max[k -> r](A[i,k])",
    "a prefix over two indices": "O[i] = sum[..k, j](A[i,k,j])",
    "a prefix of softmax": "O[i] = softmax[..k](A[i,k])",
    "an index twice on the left": "O[i,i] = A[i]",
    "an extent that is data": "index k < A[0]\nO[k] = k",
    "an extent that gives itself": "index p < |p| // 2\nO[p] = A[p]",
    "extents that give each other": "index k < |j|\nindex j < |k|\nO[k,j] = k + j",
    "a monoid with a part missing": "monoid M(a, b) = unit (0, 0), combine (a + a')",
    "a monoid of other names": "monoid M(a) = unit 0, combine a + a' + c",
    "an aggregate without a field": (
        "monoid M(a, b) = unit (0, 0), combine (a + a', b + b')\nO = M[k](A[k], B[k])"
    ),
    "an unknown field": (
        "monoid M(sum_, b) = unit (0, 0), combine (sum_, b)\nO = M[k](A[k], B[k]).summ"
    ),
    "a field of a number": "O[i] = A[i].T",
    "a primed name outside a monoid": "O[i] = a' + A[i]",
    "only declarations": "input A[i]",
    "an empty program": "# nothing",
    "an unknown output": "O[i] = A[i]\nreturn P",
    "an input as output": "O[i] = A[i]\nreturn A",
    "an unknown dtype": "O[i] = A[i]\nreturn O: float31",
    "an output twice": "O[i] = A[i]\nreturn O, O",
    "a huge exponent": "O[i] = 1e999 * A[i]",
    "an integer of more than 64 bits": "O[i] = where(i < 18446744073709551616, A[i], 0)",
    "a default of more than 64 bits": "param n: int = -9223372036854775809\nO[i] = A[i] + n",
    "a control character": "O[i] = A[i]\x07\t+ 2",
    "a dimension as in torch": "O[q,k] = softmax(S[q,k], dim=-1)",
    "a dimension that is summed as in torch": "O[q] = sum(A[q,k], dim=1)",
    "two reads beside each other": "O[q,e] = A[q,k] B[k,e]",
    "a filter behind the sum": "O[i] = sum[j](A[i,j]) where j < i",
    "an index as in LaTeX": "O[i] = sum_j A[i,j]",
    "a string": "O[i] = einsum('ij,j->i', A, x)",
    "an operator turned round": "O[q] = sum[k if k =< q](A[q,k])",
    "a bracket of another kind": "O[q] = sum[k}(A[q,k])",
    "a comma before a filter": "O[q] = softmax[k, if k <= q](S[q,k]) * V[k]",
    "a comma at the end of indices": "O[b,q,] = A[b,q]",
    "a new index behind the filter": "index r < 2\nI[q,r] = argtop[k if k < q -> r](S[q,k])",
    "a module of Python": "O[i] = torch.exp(x[i])",
    "an if behind the sum": "O[i] = sum[j](A[i,j]) if j < i",
    "a given input with a type": "input L[q]: float = sum[k](A[q,k])\nO[q] = L[q]",
    "a given input that is defined again": "input L[q] = sum[k](A[q,k])\nL[q] = 2 * A[q,q]",
    "an index of a given input that its right lacks": "input L[q] = sum[k](A[k])\nO[q] = L[q]",
    "a sum in a given input that could be meant two ways": "input L[q] = exp(A[q,k])\nO[q] = L[q]",
    "a given input as output": "input L[q] = sum[k](A[q,k])\nO[q] = L[q]\nreturn L",
    "a given input used too early": "O[q] = L[q]\ninput L[q] = sum[k](A[q,k])",
    "entries read with the program's indices": MAT + "P[i,j] = Mat[k](X[k,i,j]).A[i,j]",
    "a field that a monoid lacks": MAT + "P[r,s] = Mat[k](X[k,r,s]).B[r,s]",
    "entries read with one index": MAT + "P[r] = Mat[k](X[k,r,s]).A[r]",
    "entries as many as an input has": MAT.replace("r < 2", "r < |n|")
    + "P[n] = Mat[k](X[k,r,s]).A[0,0] * Y[n]",
    "entries without an extent": MAT.replace(", t < 2", "") + "P = Mat[k](X[k,r,s]).A[0,0]",
    "entries of two extents": MAT.replace("t < 2", "t < 3") + "P = Mat[k](X[k,r,s]).A[0,0]",
    "a filter in a combine": MAT.replace("A[r,t] * A'[t,s]", "sum[t if t > 0](A[r,t] * A'[t,s])")
    + "P = 1",
    "a fold over an index of the entries": MAT + "P = Mat[r](X[r,s]).A[0,0]",
    "primed entries outside a monoid": "P[k] = A'[k]",
}


def test_messages(golden: Callable[[str, str], None]) -> None:
    """Whole, as they are printed: what is wrong, the line and a mark, and what to write instead."""
    messages = []
    for name, program in CASES.items():
        with pytest.raises(MonocompError) as caught:
            check(program)
        messages.append(f"# {name}\n{caught.value.described()}\n")
        line = re.fullmatch(r"write (\w+\[[\w,]*\] = .*)", caught.value.help or "")
        head, _, last = program.rpartition("\n")
        if line and "=" in last and caught.value.line == program.count("\n") + 1:
            check(f"{head}\n{line[1].partition(' or ')[0]}")  # what is proposed is a program
    golden("messages.txt", "\n".join(messages))


HUGE = {
    "long": "O[i] = A[i]  # " + "x" * 70_000,
    "a long line": "O[i] = " + " " * 65_000 + "A[i] $",
    "nested": "O[i] = " + "(" * 100_000 + "A[i]" + ")" * 100_000,
    "nested, within the length": "O[i] = " + "(" * 30_000 + "A[i]" + ")" * 30_000,
    "nested reads": "O[i] = " + "A[" * 65 + "i" + "]" * 65,
    "only opened": "[(" * 30_000,
    "many words": "O[i] = " + "A[i] + " * 6_000 + "A[i]",
    "many terms": "O[i] = " + "A[i] + " * 500 + "A[i]",
    "many signs": "O[i] = " + "-" * 3_000 + "A[i]",
    "many negations": "O[i] = where(" + "not " * 3_000 + "M[i], 1, 2)",
    "a tower": "O[i] = " + "A[i] ** " * 500 + "2",
    "a long name": "O[i] = " + "a" * 65 + "[i]",
    "many dimensions": "O = A[" + ",".join(f"i{n}" for n in range(17)) + "]",
    "a long number": "O[i] = A[i] * " + "9" * 41,
    "a number above all floats": "O[i] = A[i] * 9e399",
    "a small exponent": "O[i] = A[i] * 1e-401",
    "an exponent of many digits": "O[i] = A[i] * 1e" + "9" * 5_000,
    "doubling functions": "def f0(x) = x + x\n"
    + "".join(f"def f{n + 1}(x) = f{n}(x) + f{n}(x)\n" for n in range(40))
    + "O[i] = f40(A[i])",
    "a monoid of doubling functions": "def f0(x) = x + x\n"
    + "".join(f"def f{n + 1}(x) = f{n}(x) + f{n}(x)\n" for n in range(40))
    + "monoid M(x) = unit 0, combine f40(x) + x'\nO = M[k](A[k])",
    "deep functions": "def f0(x) = x + 1\n"
    + "".join(f"def f{n + 1}(x) = f{n}(x) + 1\n" for n in range(200))
    + "O[i] = f200(A[i])",
}


@pytest.mark.parametrize("name", HUGE)
def test_a_program_that_is_too_large_is_refused(name: str) -> None:
    started = time.perf_counter()
    with pytest.raises((LimitError, ParseError)) as caught:
        check(HUGE[name])
    assert time.perf_counter() - started < 20  # not after hours
    assert max(map(len, caught.value.described().split("\n"))) < 130


def test_large_programs_within_the_limits_are_fine() -> None:
    assert check("O[i] = " + "A[i] + " * 98 + "A[i]")
    assert check("O[i] = where(" + "M[i] and " * 600 + "M[i], 1, 2)")
    assert check("O[i] = " + "(" * 63 + "A[i]" + ")" * 63)
    assert check("A0 = 1\n" + "".join(f"A{n + 1} = A{n} + 1\n" for n in range(600)))
    assert check("O[i] = A[i] * 1e-400 + 1e300")


@pytest.mark.parametrize("text", [None, 3, b"O[i] = A[i]", ["O[i] = A[i]"]])
def test_a_program_is_a_text(text: object) -> None:
    with pytest.raises(UsageError):
        check(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["Ｏ[i] = A[i]", "O[i] = ℌ[i]", "O[ı] = A[ı]", "O[i] = ſum[k](A[i,k])", "O[i] = A[i]\u0301",
     "O[i] = A[i] * ١", "\u212a[i] = A[i]", "O[i] = ﬁ[i]"],
)  # fmt: skip
def test_names_are_ascii(text: str) -> None:
    with pytest.raises(ParseError, match="names are made of ASCII letters"):
        check(text)


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x85", "\u2028", "\u200b", "\ud800", "\v"])
def test_invisible_characters_do_not_break_a_message(character: str) -> None:
    with pytest.raises(ParseError) as caught:
        check(f"O[i] = A[i] {character} + 2\nP[i] = O[i]")
    message = caught.value.described()
    assert (caught.value.line, caught.value.column) == (1, 13)
    assert all(part.isprintable() for part in message.split("\n"))
    assert len(message.split("\n")) == 3


@pytest.mark.parametrize("name", ["tl", "__class__", "exec", "lambda", "False", "float", "self"])
def test_words_of_python_have_no_power(name: str) -> None:
    assert list(check(f"O[i] = {name}[i]").inputs) == [name]
    assert list(check(f"{name} = A[i]\nO[j] = {name} * B[j]").definitions) == [name, "O"]
    assert check(f"O[{name}] = A[{name}]").extent_of == {name: name}
    with pytest.raises(MonocompError):
        check(f"O[i] = {name}(A[i])")


MARKS = "+ - * / // % ** < <= == != = ( ) [ ] | , : ; . .. -> ' $ α 0 1 2 0.5 1e3"
NAMES = "sum max softmax top argtop mean any exp where uniform maximum stop inf int float bool"
LOCAL = "A B O P i j k q f M a a' u u' x float32"
KEYS = "input param index def monoid unit combine return if and or not"
WORDS = [word for words in (MARKS, NAMES, LOCAL, KEYS) for word in words.split()]

SEEDS = [
    *CASES.values(),
    "input Q[b,h,q,d], M[q,k]: bool\nparam w: int = 4, c: float\nindex r < |k| // 2\n"
    "def cap(x, c) = c * tanh(x / c)\nG[h] = h // 2\n"
    "S[b,h,q,k] = cap(Q[b,h,q,d] * K[b,G[h],k,d] / sqrt(|d|), c)\n"
    "O[b,h,q,e] = softmax[k if k <= q and M[q,k]](S[b,h,q,k]) * V[b,G[h],k,e]\n"
    "T[b,h,q,r] = argtop[k -> r](S[b,h,q,k])\nreturn O, T: int32",
    "monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')\n"
    "H[t,i] = Affine[..t](g[t], x[t,i]).u",
]


def only_our_errors(text: str) -> None:
    try:
        check(text)
    except MonocompError as error:
        assert error.described() == f"{type(error).__name__}: {error}"
        tokens = ("__ANON", "RSQB", "LPAR", "_END", "$END")
        assert not any(name in str(error) and name not in text for name in tokens)


SETTINGS = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(st.lists(st.sampled_from([*WORDS, "\n"]), max_size=40), st.sampled_from(["", " "]))
def test_random_words(words: list[str], between: str) -> None:
    only_our_errors(between.join(words))


@SETTINGS
@given(st.text(max_size=60))
def test_random_text(text: str) -> None:
    only_our_errors(text)


@SETTINGS
@given(st.data())
def test_mutated_programs(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SEEDS))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        stop = min(len(text), start + data.draw(st.integers(0, 3)))
        text = text[:start] + data.draw(st.sampled_from(["", *WORDS, "\n"])) + text[stop:]
    only_our_errors(text)


# --- what a traceback shows --------------------------------------------------------------


def frames_of(error: BaseException) -> list[str]:
    return [Path(f.filename).name for f in traceback.extract_tb(error.__traceback__)]


def test_a_traceback_ends_at_the_call() -> None:
    """One frame of the package, no parser; the class is named once."""
    kernel = mc.compile("O[i,j] = A[i,k] * B[k,j]")
    here = Path(__file__).name
    for run in (
        lambda: mc.compile("O[i] = A[i] B[i]"),
        lambda: mc.grad("O[i] = A[i] B[i]"),
        lambda: kernel(A=torch.ones(2, 3), B=torch.ones(2, 3)),
    ):
        with pytest.raises(MonocompError) as caught:
            run()
        assert len([name for name in frames_of(caught.value) if name != here]) == 1
        shown = "".join(traceback.format_exception(caught.value))
        assert shown.count(type(caught.value).__name__) == 1 and "lark" not in shown


def test_what_led_to_a_fault_of_the_compiler_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise InternalError("lost") from ZeroDivisionError("why")

    monkeypatch.setattr("monocomp.kernel.read_equations", fail)
    with pytest.raises(InternalError) as caught:
        mc.compile("O[i] = A[i]")
    assert "fail" in "".join(traceback.format_exception(caught.value))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    monkeypatch.undo()
    monkeypatch.setenv("MONOCOMP_DEBUG", "1")
    with pytest.raises(ParseError) as refused:
        mc.compile("O[i] = A[i] B[i]")
    assert "parser.py" in frames_of(refused.value)
