"""Every stage of a kernel can be looked at, and what a pass or a rule has changed in it."""

from __future__ import annotations

import pytest

import monocomp as mc
from monocomp import library
from monocomp.blocks.passes import PASSES
from monocomp.errors import UsageError
from monocomp.stages import STAGES

CAUSAL = mc.compile(library.load("causal"), name="causal")


@pytest.mark.parametrize("name", ["gqa", "cross_entropy", "hedgehog_attention", "variance"])
def test_all_stages_are_texts(name: str) -> None:
    stages = mc.compile(library.load(name), name=name).stages
    assert list(stages) == list(STAGES) and len(stages) == len(STAGES)
    assert all(text.strip() for text in stages.values())
    assert len({*stages.values()}) == len(STAGES)


def test_stages_are_those_for_sizes() -> None:
    long, short = CAUSAL.stages.at(d=1024, e=1024), CAUSAL.stages.at(d=64, e=64)
    for stage in ("plan", "tile", "blocks", "source"):
        assert long[stage] != short[stage]
    assert long.at(d=64, e=64)["tile"] == short["tile"]
    assert "cuda:90" in CAUSAL.stages.at("cuda:90", q=4096)["source"]


def test_a_rule_before_and_after() -> None:
    assert "exp(S[b,h,q,k])" in CAUSAL.stages.before("lift_weighted_sum")
    after = CAUSAL.stages.after("lift_weighted_sum")
    assert "SE[k if k <= q]" in after and "sum[k if" not in after


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_before_and_after(name: str) -> None:
    """In their order: what one leaves the next one finds. Not every one has something to do."""
    stages = CAUSAL.stages
    place = PASSES.index(name)
    if place:
        assert stages.before(name) == stages.after(PASSES[place - 1])
    if name in ("choose_loads", "peel"):
        assert stages.before(name) != stages.after(name)
    if name == PASSES[-1]:
        assert stages.after(name) == stages["blocks"]


@pytest.mark.parametrize(
    ("look", "message"),
    [
        (lambda s: s["block"], "there is no stage 'block'"),
        (lambda s: s.after("peal"), "there is no pass here 'peal'"),
        (lambda s: s.before("centre_moments"), "there is no pass here 'centre_moments'"),
    ],
)
def test_unknown_names(look, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match=message):
        look(CAUSAL.stages)
