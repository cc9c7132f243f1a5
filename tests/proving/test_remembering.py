"""Laws that are remembered: no proof is made twice, and none is taken for another's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from monocomp.machine.cache import JsonStore
from monocomp.proving import proofs, prover
from monocomp.proving.identities import Claim
from tests.proving.test_proofs import PROVED, monoid, refused

pytestmark = pytest.mark.usefixtures("cache")


def run(code: str, **environment: str) -> str:
    """Run code in a fresh interpreter; its output."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


CERTIFY = """
import sys
from monocomp.translation.translator import translate
from monocomp.language import checker
from monocomp.proving import proofs, prover
laws = proofs.certificate(translate(checker.check({text!r})), fresh={fresh})
print(prover.is_proved(laws), "sympy" in sys.modules)
"""


EXAMPLE = f"{PROVED['circle']}\nO = M[k](A[k])"


def test_the_second_time_needs_no_sympy(cache: Path) -> None:
    assert run(CERTIFY.format(text=EXAMPLE, fresh=False)) == "True True\n"
    assert run(CERTIFY.format(text=EXAMPLE, fresh=False)) == "True False\n"


def count_proofs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the laws that are proved anew from here on, as by another process."""
    proofs._IN_MEMORY.clear()
    made: list[str] = []
    prove = prover._prove

    def counting(claim: Claim, tick: Callable[[], None]) -> bool:
        made.append(claim.name)
        return prove(claim, tick)

    monkeypatch.setattr(prover, "_prove", counting)
    return made


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("proofs/*"))


def test_remembered_laws_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    first = proofs.certify("min"), proofs.certify("max"), proofs.certify(monoid(PROVED["affine"]))
    made = count_proofs(monkeypatch)
    again = proofs.certify("min"), proofs.certify("max"), proofs.certify(monoid(PROVED["affine"]))
    assert again == first
    assert made == []
    proofs.certify("max", fresh=True)
    assert len(made) == 5


def test_definitions_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs.certify(monoid(PROVED["affine"]))
    made = count_proofs(monkeypatch)
    other = "monoid M(a, u) = unit (1, 0), combine (a * a', a' * u - u')"
    assert not prover.is_proved(proofs.certify(monoid(other)))
    renamed = PROVED["affine"].replace("u", "v").replace("vnit", "unit")
    assert prover.is_proved(proofs.certify(monoid(renamed)))
    monkeypatch.setattr(proofs, "PROVER_VERSION", proofs.PROVER_VERSION + 1)
    made.clear()
    proofs.certify(monoid(PROVED["affine"]))
    assert made


def test_refusals_are_not_remembered(cache: Path) -> None:
    proofs.certify(refused("subtraction"))
    assert entries(cache) == []


def test_an_entry_of_another_monoid_is_not_believed(cache: Path) -> None:
    proofs.certify(monoid(PROVED["affine"]))
    (entry,) = entries(cache)
    wrong = monoid("monoid M(a, u) = unit (1, 0), combine (a * a', a' * u - u')")
    # Put the file where that of the wrong monoid would stand.
    parts = tuple(t.key[2] for t in (*wrong.unit, *wrong.combine))
    JsonStore("proofs").put(proofs._key((wrong.name, wrong.fields, parts, ())), {})
    (other,) = {*entries(cache)} - {entry}
    other.write_bytes(entry.read_bytes())
    assert not prover.is_proved(proofs.certify(wrong))
