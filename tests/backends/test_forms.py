"""The forms of a kernel: schedules in one language or several."""

from __future__ import annotations

import pytest

import monocomp as mc
from monocomp import library
from monocomp.backends.forms import Forms, said, spoken
from monocomp.backends.gluon.dialect import GLUON
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.triton.dialect import TRITON

SIZES = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 128, "e": 128}


def forms(name: str, element_bytes: int = 2) -> Forms:
    """Return the forms of the only kernel of a program, on Hopper."""
    (kernel,) = mc.compile(library.load(name)).tile_programs({})
    how = kernel, SIZES, element_bytes, "cuda:90", 132
    return Forms((TRITON.legal(*how), GLUON.legal(*how)))


def test_candidates_in_every_language() -> None:
    """So many in each; the first language is first."""
    found = forms("causal")
    candidates = found.candidates(4)
    assert candidates[0] == found.first() and all(map(found.admits, candidates))
    languages = [s.language for s in candidates]
    assert languages == ["triton"] * 4 + ["gluon"] * (len(languages) - 4)
    assert spoken(candidates) == "gluon and triton"


@pytest.mark.parametrize(
    ("name", "element_bytes"), [("softmax", 2), ("paged_attention", 2), ("causal", 4)]
)
def test_no_form_in_another_language(name: str, element_bytes: int) -> None:
    """The first takes the kernel by itself."""
    found = forms(name, element_bytes)
    assert spoken(found.candidates(4)) == "triton"
    usual, other = found.first(), forms("causal").candidates(4)[-1]
    assert found.admits(usual) and not found.admits(other)


def test_layouts_that_the_first_language_takes_alone() -> None:
    """Take the schedule that is chosen, measured, or first in the first language."""
    found = forms("causal")
    usual, other, *_, gluon = found.candidates(4)
    assert found.usual(other, ()) == other and found.usual(gluon, ()) == usual
    assert found.usual(gluon, ((gluon, 1.0), (other, 2.0))) == other


def test_times_are_said() -> None:
    """Name each kernel, where there are several."""
    triton, gluon = Schedule((), 4, 2), Schedule((), 4, 2, language="gluon")
    times = {1: ((gluon, 1.0), (triton, 2.0))}
    assert said(["dQ", "dK"], times) == "dK: 1 ms in gluon and 2 ms in triton"
    assert (
        said(["O"], {0: times[1]}) == "1 ms in gluon and 2 ms in triton" and said(["O"], {}) == ""
    )
    refused = [(0, "64 x 64: does not fit"), (1, "64 x 16: gives other results")]
    assert said(["O"], {}, refused[:1]) == "64 x 64: does not fit"
    assert said(["dQ", "dK"], times, refused) == (
        "dQ: 64 x 64: does not fit; dK: 1 ms in gluon and 2 ms in triton; "
        "dK: 64 x 16: gives other results"
    )
