"""Why a further pass stays: the need that is not met is named, in the words of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import monocomp as mc
from monocomp import library
from monocomp.costs.counting import _cost_of_kernel
from monocomp.derivation.derivation import Derivation
from monocomp.derivation.rule_sets import RULES, derive
from monocomp.errors import MonoidLawError
from monocomp.language.checker import check
from monocomp.proving import proofs
from monocomp.rewrites.centred import move_centre
from monocomp.translation.translator import translate


def refused(text: str) -> list[str]:
    derivation = Derivation.of(derive(translate(check(text))))
    assert derivation.finished
    assert all(r.law == RULES[r.rule].law for r in derivation.refusals if r.rule in RULES)
    return list(map(str, derivation.refusals))


STAYS = ": a further pass over k stays"
# The near misses of one pass, each with its reason.
REASONS: dict[str, list[str]] = {
    "M[i] = max[k](X[i,k])\nO[i] = sum[k](relu(X[i,k] - M[i]))": [
        "hoist_factor needs relu(X[i,k] - M[i]) free of k" + STAYS
    ],
    "M[i] = sum[k](X[i,k])\nO[i] = sum[k](exp(M[i] * X[i,k]))": [
        "hoist_factor needs exp(X[i,k] * M[i]) free of k" + STAYS
    ],
    "M[i] = sum[k](X[i,k])\nO[i] = max[k](M[i] * X[i,k])": [
        "hoist_positive_factor needs M[i] nonnegative" + STAYS
    ],
    "input J[i,k]: int\nM[i] = max[k](J[i,k])\nO[i] = sum[k](Y[i, (k + M[i]) % |k|])": [
        "hoist_factor needs Y[i, (k + M[i]) % |k|] free of k" + STAYS
    ],
    "M[i] = sum[k](X[i,k])\nO[i] = sum[k](sum[j](tanh(X[i,k] * M[i] + Y[j])))": [
        "hoist_factor needs sum[k](tanh(Y[j] + X[i,k] * M[i])) free of j: "
        "the pass over j comes after one over k"
    ],
    "M[i] = max[k](X[i,k])\nO[i] = sum[k if X[i,k] < M[i]](Y[k])": [
        "X[i,k] < M[i] depends on M[i]" + STAYS
    ],
    "P[i,k] = softmax[k](X[i,k])": [
        "P[i,k] keeps k, over which SE[k](1, X[i,k]).v is taken" + STAYS
    ],
    "M[i] = max[k](X[i,k])\nT[i] = sum[k](relu(X[i,k] - M[i]))\n"
    "O[i] = sum[k](relu(X[i,k] - T[i]))": [
        "hoist_factor needs relu(X[i,k] - M[i]) free of k" + STAYS,
        "hoist_factor needs relu(X[i,k] - T[i]) free of k" + STAYS,
    ],
    "M = sum[j](Y[j])\nO[i] = sum[k](relu(X[i,k] - M))": [
        "hoist_factor needs relu(X[i,k] - M) free of k: the pass over k comes after one over j"
    ],
    "monoid A(a, u) = unit (1, 0), combine (a * a', a' * u + u')\nM[i] = sum[k](X[i,k])\n"
    "O[i] = A[k](X[i,k], M[i] + Y[k]).u": ["Y[k] + M[i] depends on M[i]" + STAYS],
    "O[i] = sum[k if k < 3](X[i,k]) / sum[k](X[i,k])": [
        "sum[k if k < 3](X[i,k]) has another filter than sum[k](X[i,k])" + STAYS
    ],
}


def test_long_formulas_are_cut_short() -> None:
    """What stands in a result is not said again."""
    reasons = refused(library.load("sparsemax"))
    assert "X[i,k] - max[k](..) - where(1.0 <= sum[k](..), 0.5, 0.0) + 0.75)" in reasons[1]


@pytest.mark.parametrize("text", REASONS)
def test_reasons(text: str) -> None:
    assert refused(text) == REASONS[text]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", library.names())
def test_further_passes_and_kernels_are_explained(name: str) -> None:
    """And nothing is refused where each index is passed over once."""
    kernel = mc.compile(library.load(name))
    report = kernel.report()
    found = kernel.derivation.refusals
    if sum(report["passes"].values()) > len(report["passes"]) or report["kernels"] > 1:
        assert found
    else:
        assert all("comes after one over" in r.kept for r in found)


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """A function after which no proof ends in time; what was proved until then is known."""

    def forget() -> None:
        _cost_of_kernel.cache_clear()
        for rule in (*RULES.values(), move_centre):
            rule.__dict__.pop("unproved", None)

    def stop() -> None:
        monkeypatch.setattr(proofs, "TIME_LIMIT", 0.0)
        forget()

    monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(proofs, "_IN_MEMORY", {})
    yield stop
    forget()


@pytest.mark.parametrize(
    ("name", "known", "law"),
    [
        ("causal", [], "'filter_bracket' rests on a law that could not be proved\n  law: "),
        ("O = sum[k](X[k])", [], "'arithmetic' rests on a law that could not be proved\n  law: "),
        ("O = sum[k](X[k])", ["arithmetic"], "'sum' rests on a law that could not be proved\n"),
    ],
)
def test_what_is_not_proved_in_time_is_an_error(
    name: str, known: list[str], law: str, no_time: Callable[[], None]
) -> None:
    for of in known:
        proofs.certify(of)
    no_time()
    with pytest.raises(MonoidLawError) as raised:
        mc.compile(library.load(name) if name in library.names() else name).plan()
    assert raised.value.described().startswith(f"MonoidLawError: {law}")
    assert "neither proved nor refuted within 0 s" in raised.value.notes
