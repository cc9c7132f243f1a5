"""Faults that a rewrite could make are found; `test_printer` runs it after every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from monocomp import terms as T
from monocomp.errors import InternalError
from monocomp.language.checker import check
from monocomp.terms.equations import Equations
from monocomp.translation.translator import translate
from tests.elements import element
from tests.printed import verify


def with_body(change: Callable[[T.Term], T.Term]) -> Equations:
    program = translate(check("O[i] = sum[k](X[i,k] * Y[k])"))
    return program.map(change)


X = element("X", (T.index("i", "i"), T.index("l", "k")), "float")
FAULTS = {
    "O varies with $1": lambda body: T.open_fold(body)[1][1],
    "O varies with l": lambda body: T.add(body, X),
    "O reads D, which no equation defines": lambda body: T.mul(body, T.ref("D", (), "float")),
    "O reads Z, which is no input": lambda body: T.mul(body, element("Z", (), "float")),
}


@pytest.mark.parametrize("message", FAULTS)
def test_a_fault_is_found(message: str) -> None:
    with pytest.raises(InternalError) as caught:
        verify(with_body(FAULTS[message]))
    assert message in str(caught.value)


def test_a_term_that_prints_as_another_is_found() -> None:
    inert = T.inert("add", T.ZERO, T.ONE)
    with pytest.raises(InternalError, match="is printed as"):
        verify(with_body(lambda body: T.mul(body, inert)))


def test_an_equation_that_is_gone_is_found() -> None:
    program = with_body(lambda body: body)
    with pytest.raises(InternalError, match="no equation is left for O"):
        verify(replace(program, equations=()))
