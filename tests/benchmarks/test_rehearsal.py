"""The benchmarks on the GPU, rehearsed: the same code on the CPU, at tiny sizes; and the search
over schedules: cases are made ready, shapes are read as they are shown."""

from __future__ import annotations

import itertools
import json
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.compare import compare
from benchmarks.gpu import Outcome, Run, Setting, UnknownWordError
from benchmarks.guards import CASES as GUARDED
from benchmarks.guards import emitted, without_guards
from benchmarks.peers import OURS
from benchmarks.run import NAMES
from benchmarks.schedules import judging
from benchmarks.schedules.cases import Prepared, case, cases
from monocomp.backends.schedules import table
from monocomp.backends.schedules.features import features
from monocomp.backends.schedules.legal import Shape

ROOT = Path(__file__).parents[2]
FEW = {
    "gpu_forward": ("causal",),
    "gpu_heads": ("causal",),
    "gpu_short": ("causal",),
    "gpu_variants": ("documents",),
    "gpu_gradients": ("alibi", "gqa-causal"),
    "gpu_floor": ("layer_norm", "cross_entropy", "rolling_cache"),
    "gpu_launch": ("prefix_lm", "layer_norm, gradients"),
    "gpu_side_inputs": ("alibi", "laplace_attention"),
}
ON_GPU = tuple(name for name in NAMES if name.startswith("gpu_"))


@pytest.mark.one_in(15)
@pytest.mark.parametrize("name", ON_GPU)
def test_benchmark_is_right_in_a_rehearsal(name: str) -> None:
    words = FEW.get(name, ())
    report = import_module(f"benchmarks.{name}").tables(Setting(True, words, rehearse=True))
    assert report.right, report.text
    assert report.data["failed"] == {} and report.data["skipped"] == []
    assert all(word in report.text for word in words)
    json.dumps(report.data)


@pytest.mark.parametrize("name", ON_GPU)
def test_cases_that_do_not_fit_are_named(name: str) -> None:
    words = FEW.get(name, ())
    setting = Setting(True, words, seconds=0, rehearse=True)
    report = import_module(f"benchmarks.{name}").tables(setting)
    assert len(report.data["skipped"]) >= max(1, len(words))
    assert "Skipped, as 0 s were not enough: " + report.data["skipped"][0] in report.text


@pytest.mark.slow
def test_a_checkout_is_compared_with_itself() -> None:
    (row,) = (
        r for r in compare(ROOT, ROOT, ["forward"], frozenset(), True) if "causal" in r["case"]
    )
    assert row["difference"] == 0 and len(row["milliseconds"]) == 2, row


def test_wrong_result_is_not_right() -> None:
    assert Outcome(1.0, {OURS: 0.5, f"{OURS}, pages": 1.0, "Flex": 9.0}).right
    assert not Outcome(1.0, {OURS: 0.5, f"{OURS}, pages": 1.1}).right
    assert not Outcome(1.0, {"Flex": 0.5}).right
    assert not Outcome(1.0, {OURS: 0.5, f"{OURS}, pages": float("nan")}).right
    assert not Outcome(1.0, {OURS: 0.5}, faults={f"{OURS}, pages": "error"}).right


class Word:
    """A case of one word."""

    def __init__(self, *words: str) -> None:
        self.words = words


def test_words_of_one_kind_are_alternatives() -> None:
    cases = [Word(a, b) for a in ("x", "y", "z") for b in ("1", "2")]
    chosen = Setting(only=("x", "z", "2")).select(cases)
    assert [c.words for c in chosen] == [("x", "2"), ("z", "2")]
    assert Setting().select(cases) == cases
    with pytest.raises(UnknownWordError, match="no case is called w"):
        Setting(only=("w",)).select(cases)


def test_case_that_fails_is_named_and_the_others_run() -> None:
    def measure(case: Word) -> str:
        if case.words == ("bad",):
            raise ValueError("too   bad")
        return case.words[0]

    run = Run(Setting(rehearse=True))
    assert run.each([Word("bad"), Word("b")], measure) == ["b"]
    assert run.failed == {"bad": "ValueError: too bad"}
    assert "Failed: bad (ValueError: too bad)." in run.notes()


def test_peer_that_never_ran_is_left_out_and_one_that_ran_is_not() -> None:
    import torch

    def failing() -> None:
        raise LookupError("not here")

    run = Run(Setting(quick=True, rehearse=True))
    good = {OURS: lambda: lambda: torch.zeros(2), "peer": lambda: lambda: torch.ones(2)}
    first = run.hold({**good, "absent": failing}, lambda x: float(x.sum()), 1.0)
    assert first.errors == {OURS: 0.0, "peer": 2.0} and first.right
    assert run.missing == {"absent": "LookupError: not here"}
    second = run.hold({OURS: failing, "peer": failing}, lambda x: 0.0, 1.0)
    assert second.faults == {OURS: "LookupError: not here", "peer": "LookupError: not here"}
    assert list(run.missing) == ["absent"] and not second.right


def test_guards_can_be_left_out() -> None:
    source = emitted(*GUARDED["entropy, added mask"])
    assert source.count("tl.where(") > 3
    text, count = without_guards(source, in_loops=False)
    kernel = text[text.index("_kernel(") : text.index("def span")]
    assert count > without_guards(source, in_loops=True)[1] > 0
    assert "== 0.0" in source and "== 0.0" not in kernel and "-4096.0" not in kernel, kernel


# --- the search over schedules -----------------------------------------------------------


HEADS = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 128, "e": 128}
SIZES = {"causal": HEADS, "softmax": {"i": 8192, "k": 4096}, "gqa": HEADS | {"g": 4}}


@pytest.mark.slow
def test_programs_of_the_library_are_measured() -> None:
    """Its gradients are derived for that, which takes long."""
    assert SIZES.keys() <= {c.program for c in cases()}


@pytest.mark.parametrize("name", SIZES)
def test_the_first_schedule_is_a_shape(name: str) -> None:
    made = Prepared(case(name, SIZES[name]), "meta", "cuda:90", 132)
    for space, first in zip(made.legal, made.firsts, strict=True):
        shape = space.shape(first)
        assert Shape.parse(str(shape)) == shape
        found = space.schedule(shape)
        assert found is not None and found.blocks == first.blocks
        others = list(itertools.islice(space.neighbours(shape), 5))
        assert others and shape not in others
        assert features(space)


def test_the_table_is_made_from_the_measurements() -> None:
    """Its rows follow from the file alone: the kernels that were measured stand in it."""
    known = judging.kernels()
    assert [k.row for k in known] == [*table.shipped()[: len(known)]]


@pytest.mark.slow  # schedules/test_schedule.py judges choices for kernels that have no rows as well
def test_programs_that_the_table_has_not_seen() -> None:
    """Their first schedules are nearly as fast as the best that was measured for them; also with
    the next that was measured in the place of those that were not."""
    found = judging.leave_one_out(judging.kernels())
    assert judging.mean([*found.losses.values(), *found.unknown.values()]) <= 1.10
    assert max(found.losses.values()) <= judging.MOST
