"""Why a further pass stays: the need that is not met is named, in the words of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import monocomp as mc
from monocomp import library
from monocomp.checking.steps import Case
from monocomp.costs.counting import _cost_of_kernel
from monocomp.derivation.derivation import Derivation
from monocomp.derivation.rule_sets import RULES, derive
from monocomp.errors import MonoidLawError, UnsupportedError
from monocomp.language.checker import check
from monocomp.proving import proofs
from monocomp.proving.rule_laws import EVERYWHERE
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


# Programs; the loops that they need if only their monoids and the arithmetic are proved; and
# the rules that are refused, each with a law.
LAWLESS = {
    "causal": (
        {"k": 2},
        {
            "filter_bracket": "filter_bracket",
            "hoist_factor": "hoist_factor",
            "lift": "scaled numbers",
        },
    ),
    "layer_norm": (
        {"k": 2},
        {"count_elements": "count_elements", "move_centre": "moments"},
    ),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", LAWLESS)
def test_what_is_not_proved_in_time_is_refused(name: str, no_time: Callable[[], None]) -> None:
    """The law is named, and the program runs without the rule."""
    for known in (*proofs.L.BUILT_IN, "softmax", "log_softmax"):
        proofs.certify(known)
    proofs.certify(EVERYWHERE)
    no_time()
    kernel = mc.compile(library.load(name), backend="numpy")
    assert not any(RULES[s.rule].claims for s in kernel.derivation if s.rule in RULES)
    passes, laws = LAWLESS[name]
    assert kernel.report()["passes"] == passes
    found = {r.rule: r for r in kernel.derivation.refusals if "is not proved" in r.reason}
    assert {n: r.reason.split(": ")[0] for n, r in found.items()} == {
        n: f"the law {law}" for n, law in laws.items()
    }
    shown = " ".join(str(kernel.derivation).split())
    assert all(r.place and f"{r.reason} ({r.rule}, in " in shown for r in found.values())
    case = Case.of(kernel.equations, {}, {}, 0)
    inputs = case.inputs("float64")
    outputs = kernel(**inputs, **case.params)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    assert case.error(outputs, case.outputs(inputs)) < 1e-12


@pytest.mark.parametrize(
    ("known", "law"),
    [
        ([], "'arithmetic' rests on a law that could not be proved\n  law: arithmetic: inverse, "),
        (["arithmetic"], "'SE' rests on a law that could not be proved\n  law: SE: "),
    ],
)
def test_what_no_program_can_do_without(
    known: list[str], law: str, no_time: Callable[[], None]
) -> None:
    for name in known:
        proofs.certify(name)
    no_time()
    with pytest.raises(MonoidLawError) as raised:
        mc.compile(library.load("causal"))
    assert raised.value.described().startswith(f"MonoidLawError: {law}")
    assert "neither proved nor refuted within 0 s" in raised.value.notes


def test_what_no_kernel_can_do_without(no_time: Callable[[], None]) -> None:
    """The law for want of which a fold stays that no kernel computes."""
    for known in proofs.L.BUILT_IN:
        proofs.certify(known)
    proofs.certify(EVERYWHERE)
    no_time()
    with pytest.raises(UnsupportedError) as raised:
        mc.compile("O[i] = sum[j,k](X[i,j,k])").tile_programs()
    assert raised.value.message == "no kernel is generated for sum"
    where, law = raised.value.notes
    assert where == "in sum[j, k](X[i,j,k])"
    assert law.startswith("nest_indices: the law interchange")
