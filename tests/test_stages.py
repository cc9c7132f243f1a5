"""Every stage of a kernel can be looked at, and what a pass or a rule has changed in it. What a
stage holds is data: rebuilt from its text, or from its pickled parts, it is the same."""

from __future__ import annotations

import pickle
from typing import TypeVar

import pytest

import monocomp as mc
from monocomp import blocks as B
from monocomp import library
from monocomp.backends.dialects import DIALECTS
from monocomp.backends.triton.kernel_source import block_program, source_of
from monocomp.blocks.choices.choose import PASSES
from monocomp.errors import MonocompError, UnsupportedError, UsageError
from monocomp.planning.plan import Plan, Planner
from monocomp.source import Emission
from monocomp.stages import STAGES
from monocomp.tile import Loop, Store, walk
from monocomp.tile.parser import parse

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


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_before_and_after(name: str) -> None:
    """In their order: what one leaves the next one finds. Not every one has something to do."""
    stages = CAUSAL.stages
    position = PASSES.index(name)
    if position:
        assert stages.before(name) == stages.after(PASSES[position - 1])
    if name == "peel":
        assert stages.before(name) != stages.after(name)
    if name == PASSES[-1]:
        assert stages.after(name) == stages["blocks"]


@pytest.mark.one_in(7)
@pytest.mark.parametrize("name", library.names())
def test_every_statement_has_an_origin(name: str) -> None:
    """Tile statements have terms of the plan's equations, statements of block programs have tile
    statements, or else an axis or the kernel, and lines of kernels have those."""
    kernel = mc.compile(library.load(name), name=name)
    plan = kernel.plan()
    names = {e.name for e in plan.program.equations}
    for program in plan.kernels:
        statements = list(walk(program.body))
        assert all(s.origin is not None and s.origin.equation in names for s in statements)
        blocks = block_program(program)
        everywhere = [*blocks.body, *(s for f in blocks.functions.values() for s in f.body)]
        baked = block_program(program, known=lambda *_: {("option", "STEP", 0): 1})
        known = {id(x) for x in (*statements, *program.axes.values(), program)}
        assert all(id(s.origin) in known for s in B.walk((*everywhere, *baked.body)))
        traced = {id(s.origin) for s in B.walk(blocks.body)}
        assert all(id(s) in traced for s in statements if isinstance(s, Loop | Store))
    lines = kernel.stages.lines
    kernels = [n for n, line in enumerate(lines) if line.text.startswith(("@", "def "))]
    for n, line in enumerate(lines):
        if line.block is not None:
            assert line.text.startswith("    ") and line.tile is not None
            start = max(m for m in kernels if m <= n)
            assert lines[start - 1].text == "@triton.jit" and "_kernel" in lines[start].text


def test_lines_of_gluon_know_their_terms() -> None:
    """Asking for a block, taking it, and the product are each a part of the same statements, in
    whichever function they stand."""
    kernel = mc.compile(library.load("attention"), backend="gluon")
    lines = [line for line in kernel.stages.lines if line.block is not None]
    assert all(line.tile is not None for line in lines)
    (sent,) = {
        line.origin for line in lines if line.text.strip().startswith("mbarrier.wait(K_ring_e")
    }
    (taken,) = {line.origin for line in lines if line.text.strip().startswith("K_tile = K_ring.")}
    (released,) = {line.origin for line in lines if "mbarrier.arrive(K_ring_e" in line.text}
    assert sent is taken is released and str(sent) == "O: K[b,h,k,d]"
    of = {type(line.block): str(line.origin) for line in lines if line.text.strip()[:2] == "s "}
    assert of == dict.fromkeys((B.Issue, B.Wait), "O: sum[d](K[b,h,k,d] * Q[b,h,q,d])")


@pytest.mark.parametrize(
    ("look", "message"),
    [
        (lambda s: s["block"], "there is no stage 'block'"),
        (lambda s: s.after("peal"), "there is no pass 'peal' here"),
        (lambda s: s.before("no_such_rule"), "there is no pass 'no_such_rule' here"),
    ],
)
def test_unknown_names(look, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match=message):
        look(CAUSAL.stages)


def test_no_equation_is_said_by_its_own_name() -> None:
    """A definition that is returned and read is a name for readers of the others alone."""
    kernel = mc.compile("T[i] = max[k](X[i,k])\nO[i] = sum[k](exp(X[i,k] - T[i]))\nreturn T, O")
    lines = kernel.stages["equations"].split("\n")
    assert "T[i] = max[k](X[i,k])" in lines and "T[i] = T[i]" not in lines


def test_every_stage_is_of_the_same_kernels() -> None:
    """A target's processors decide how many kernels there are."""
    stages = mc.compile("O[i] = sum[k](X[i,k] * W[k])").stages.at("cuda:90", i=4, k=2**16)
    names = [k.name for k in stages.plan.kernels]
    assert len(names) == len(stages.blocks) == len(stages.emission.schedules) > 1
    assert all(f"kernel {name}(" in stages["tile"] for name in names)
    assert all(f"def {b.name}(" in stages["source"] for b in stages.blocks)


# --- what a stage holds is data ----------------------------------------------------------


V = TypeVar("V")


def rebuilt(value: V) -> V:
    found: V = pickle.loads(pickle.dumps(value))
    assert found is not value
    return found


def check_plan(plan: Plan) -> None:
    """Each step begins where the one before ended, and kernels are what their texts say."""
    steps = [*plan.rewrites.steps, *plan.decisions]
    starts = [*(s.start for s in steps[1:]), plan.program]
    for step, start in zip(steps, starts, strict=bool(steps)):
        assert step.program.equations == start.equations
    for kernel in plan.kernels:
        assert str(parse(str(kernel))) == str(kernel)


@pytest.mark.one_in(17)
@pytest.mark.parametrize("name", library.names())
def test_plans_of_gradients_are_verified(name: str) -> None:
    try:
        found = mc.grad(library.load(name))
    except MonocompError:  # which has none
        return
    for program in (found.forward, found.equations):
        try:
            plan = Planner(program).plan(processors=132)
        except UnsupportedError:
            continue
        check_plan(plan)


@pytest.mark.one_in(17)
@pytest.mark.parametrize("language", DIALECTS)
@pytest.mark.parametrize("name", library.names())
def test_stages_are_rebuilt(name: str, language: str) -> None:
    kernel = mc.compile(library.load(name), name=name)
    plan = kernel.plan()
    assert rebuilt(kernel.equations) == kernel.equations
    again = rebuilt(plan)
    assert str(again) == str(plan) and str(again.derivation) == str(plan.derivation)
    assert again.program == plan.program  # whose terms are the very same
    check_plan(again)
    try:
        made = Emission(kernel.planner, {}, backend=language).module()
    except UnsupportedError:
        return
    for one, other in zip(made.kernels, rebuilt(made).kernels, strict=True):
        assert str(other) == str(one)
        dialect = DIALECTS[language]()
        assert source_of(other, dialect).lines == source_of(one, dialect).lines
    assert rebuilt(made.program) == made.program
