"""How a derivation shows itself: text, HTML, JSON and an outline."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import monocomp as mc
from monocomp import library
from monocomp.derivation.derivation import Derivation
from monocomp.derivation.rule_sets import derive
from monocomp.kernel import Kernel
from monocomp.language.checker import check
from monocomp.translation.translator import translate


def derivation_of(text: str) -> Derivation:
    return Derivation.of(derive(translate(check(text))))


@pytest.fixture(scope="module")
def causal() -> Derivation:
    return derivation_of(library.load("causal"))


def test_a_finished_derivation_compiles_to_the_same_kernel() -> None:
    """What was lifted is not taken apart again."""
    kernel = mc.compile("O[q,e] = softmax[k if k <= q](S[q,k]) * V[k,e]")
    again = mc.compile(kernel.derivation)
    assert again.source() == kernel.source()
    assert [s.rule for s in again.derivation] == [s.rule for s in kernel.derivation]


def test_every_beginning_can_be_read() -> None:
    """Also where what is stored reads what has been stored after it."""
    sinkhorn = """
        P[i,j] = softmax[j](S[i,j])
        R[i,j] = P[i,j] / sum[i](P[i,j])
        T[i,j] = R[i,j] / sum[j](R[i,j])
        """
    derivation = mc.compile(sinkhorn).derivation
    assert [s.rule for s in derivation].count("store_value") > 1
    for count in range(len(derivation) + 1):
        assert "Cost" in str(derivation.first(count)) or count == 0


def test_json(causal: Derivation) -> None:
    whole = json.loads(causal.to_json())
    parts = ["start", "steps", "result", "cost_before", "cost_after", "refusals", "certificate"]
    assert list(whole) == parts
    assert [step["number"] for step in whole["steps"]] == list(range(1, len(causal) + 1))
    assert whole["steps"][0] == {
        "number": 1,
        "rule": causal[0].rule,
        "law": causal[0].law,
        "place": list(causal[0].place),
        "changed": list(causal[0].changed),
        "before": causal[0].before,
        "after": causal[0].after,
        "program": causal[0].program.text(),
        "cost_before": causal.costs[0].to_json(),
        "cost_after": causal.first(1).costs[1].to_json(),
    }
    assert whole["cost_before"] == whole["steps"][0]["cost_before"]
    assert whole["cost_before"]["passes"] == {"k": 3}
    assert whole["cost_after"] == whole["steps"][-1]["cost_after"]
    assert whole["refusals"] == [] and whole["certificate"]["holds"]
    for step in whole["steps"]:
        check(step["program"])
    assert whole["result"] == whole["steps"][-1]["program"]


@pytest.mark.parametrize(
    "text",
    [
        # What is asked about a sum of infinite inputs may have either answer.
        "C[q,k] = sum[..k](softmax[k](A[q,k]))\nO[q] = sum[k if C[q,k] <= 0.9](V[k])",
        # An entry of a list at a rank that is no index is written in words of the language.
        "index r < 3\nL[q,r] = top[k -> r](A[q,k])\nO[q,r] = L[q,2] * where(r > 0, L[q,r - 1], 0)",
        # A condition beside what is infinite without it is that of a weight.
        "input n[q]: int\nP[q,k] = softmax[k if k < n[q]](S[q,k])\n"
        "O[q] = sum[k](P[q,k] * log(P[q,k]))",
    ],
)
def test_right_steps_pass_the_check(text: str) -> None:
    assert derivation_of(text).check(seed=18).ok


# --- derivations and emitted sources as they are read -----------------------------------


def kernel(name: str) -> Kernel:
    return mc.compile(library.load(name), name=name)


def test_derivation(golden: Callable[[str, str], None]) -> None:
    golden("causal.derivation.txt", f"{kernel('causal').derivation}\n")


def test_minimal_source(golden: Callable[[str, str], None]) -> None:
    head = {"d": 128, "e": 128}
    source = kernel("attention").source(target="cuda:90", dtype="bf16", extents=head, minimal=True)
    golden("attention.minimal.py", source)
