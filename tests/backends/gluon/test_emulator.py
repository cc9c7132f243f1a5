"""Emitted Gluon kernels mean what their tile programs mean, without a race or a deadlock.

Where kernels add up the sums of others, warpgroups meet at products that sum over their rows.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from types import CodeType
from typing import Any, TypeAlias

import numpy as np
import pytest

import monocomp as mc
from monocomp import blocks as B
from monocomp.backends.gluon.dialect import GLUON
from monocomp.backends.schedules.schedule import held_length
from monocomp.blocks import BlockProgram
from monocomp.errors import UnsupportedError
from monocomp.tile import TileProgram
from tests.backends.gluon import emulator, mutants
from tests.backends.gluon.machine import Fault
from tests.backends.gluon.test_dialect import GRADIENTS, IN_PART, SUPPORTED, in_gluon
from tests.backends.library_cases import CASES
from tests.backends.running import kernels_run

Emitted: TypeAlias = tuple[BlockProgram, list[CodeType]]  # a kernel and its functions
Inputs: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
BLOCK = 8  # rows of a warpgroup, and keys
UNSKEWED = tuple(x for x in GLUON.every_pass if x != "skew")


def lengths(program: TileProgram, extents: Mapping[str, int], block: int) -> dict[str, int]:
    """Block lengths: those of tiles for what is held entirely."""
    return {
        a.name: held_length(program, a.name, extents[a.extent]) if a.role == "whole" else block
        for a in program.axes.values()
    }


@dataclass(frozen=True)
class Run:
    """Queries and keys, warpgroups, stages, instances, the seed of an order; how many keys a window
    has, in programs with one; columns, and how much of a stream is in a block."""

    q: int
    k: int
    groups: int
    stages: int
    instances: int
    seed: int | None
    window: int = 9
    d: tuple[int, int] = (3, 5)
    block: int = BLOCK


# One to three blocks of rows a head; blocks of keys from none to two more than stages.
RUNS = (
    Run(20, 40, 2, 2, 1, None, window=30),
    Run(14, 6, 2, 2, 1, 1),
    Run(40, 45, 3, 3, 2, 2, window=40),
    Run(20, 10, 1, 2, 1, 3),
    Run(20, 26, 2, 1, 2, 4),
    Run(22, 0, 2, 2, 1, None),
    Run(10, 36, 1, 3, 1, 5),
    Run(50, 18, 3, 2, 3, 6),
    Run(6, 12, 2, 2, 1, 9),  # one block, the last keys of which no query admits
)


@dataclass(frozen=True)
class Call:
    """A kernel with tensors, sizes and parameters, and what it makes of them."""

    program: TileProgram
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    extents: Mapping[str, int]
    params: Mapping[str, Any]

    def check(self, blocks: BlockProgram, codes: Sequence[CodeType], run: Run) -> None:
        """Run what is emitted of it."""
        rows = dict.fromkeys(self.program.axis_names("row"), BLOCK * run.groups)
        found = {
            n: np.full_like(x, 0 if self.program.is_added_to(n) else np.nan)
            for n, x in self.outputs.items()
        }
        chosen = lengths(self.program, self.extents, run.block) | rows
        emulator.run(
            *(blocks, codes, self.inputs, found, self.extents, self.params, chosen),
            groups=run.groups,
            stages=run.stages,
            instances=run.instances,
            seed=run.seed,
        )
        for n, array in found.items():
            np.testing.assert_allclose(array, self.outputs[n], 1e-6, 1e-6)


@cache
def kernel_of(name: str, gradient: bool = False) -> mc.Kernel:
    text = CASES[name].text
    return mc.compile(mc.grad(text) if gradient else text, name=name)


@cache
def kernels_of(name: str, gradient: bool, adds: bool) -> tuple[TileProgram, ...]:
    return tuple(kernel_of(name, gradient).planner.plan(adds=adds).kernels)


def calls(
    name: str,
    run: Run,
    gradient: bool = False,
    adds: bool = False,
    others: Inputs = lambda _: {},
) -> Iterator[Call]:
    """The kernels of a program or of its gradient, one after the other; with other inputs than the
    usual ones, which are given."""
    case, kernel = CASES[name], kernel_of(name, gradient)
    given = {**case.params, **{n: run.window for n in case.params if n == "window"}}
    sizes = case.sizes(run.q, run.k, *run.d)
    made = {n: x.numpy() for n, x in case.inputs(sizes).items()}
    made |= others(made)
    random = np.random.default_rng(0)
    inputs = {
        n: made[n] if n in made else random.standard_normal([sizes[d] for d in x.dims])
        for n, x in kernel.declared.inputs.items()
    }
    binding = kernel.calls.bind({n: x.shape for n, x in inputs.items()}, given)
    extents, params = binding.extents, binding.params
    arrays = {n: x.astype(float) if x.dtype.kind == "f" else x for n, x in inputs.items()}
    kernels = kernels_of(name, gradient, adds)
    for program, tensors, outputs in kernels_run(kernels, arrays, extents, params):
        yield Call(program, tensors, outputs, extents, params)


@cache
def emitted(name: str, kernel: int, gradient: bool = False, adds: bool = False) -> Emitted | None:
    """A kernel's block program and functions, if it has a form in Gluon."""
    try:
        blocks = in_gluon(kernels_of(name, gradient, adds)[kernel])
    except UnsupportedError:
        return None
    return compiled(blocks)


PROGRAMS = [*((n, False) for n in SUPPORTED), *((n, True) for n in GRADIENTS)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "gradient"), PROGRAMS)
def test_known_sizes_and_blocks_in_order(name: str, gradient: bool) -> None:
    """Kernels for the sizes of a call, and those that no block runs ahead in."""
    run = Run(37, 53, 2, 2, 1, None)
    for call in calls(name, run, gradient):
        for passes, sizes in ((None, call.extents), (UNSKEWED, None)):
            call.check(*compiled(in_gluon(call.program, passes, sizes)), run)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "gradient"),
    [
        *PROGRAMS,
        *((n, True) for n in IN_PART),
        *((n, False) for n in sorted({*CASES} - {*SUPPORTED})),
    ],
)
def test_meaning(name: str, gradient: bool) -> None:
    """In every order of events."""
    count = 0
    for run in RUNS:
        for n, call in enumerate(calls(name, run, gradient)):
            if (made := emitted(name, n, gradient)) is not None:
                call.check(*made, run)
                count += 1
    assert count or name not in SUPPORTED


def rows_apart(made: Mapping[str, Any]) -> Mapping[str, Any]:
    """Intervals of which each row has its own, between those of others or gaps; some are empty."""
    random, shape = np.random.default_rng(1), made["start"].shape
    start = np.sort(random.integers(0, 3 * shape[-1] // 2, shape)) * 2 // 3
    return {"start": start, "end": start + random.integers(0, 12, shape)}


def runs_apart(run: Run) -> Iterator[Call]:
    """A kernel that goes through several runs of keys, around which there is NaN."""
    for call in calls("document", run, others=rows_apart):
        q, k = np.arange(run.q)[:, None], np.arange(run.k)
        start, end = (call.inputs[n][..., None] for n in ("start", "end"))
        seen = ((start <= k) & (k < end) & (k <= q)).any(1)
        call.inputs["V"][np.broadcast_to(~seen[:, None], call.inputs["V"].shape[:-1])] = np.nan
        yield call


def test_runs() -> None:
    """A warp finds where runs are, and tells it; nothing between them is multiplied."""
    made = emitted("document", 0)
    assert made is not None
    assert sum(isinstance(s, B.Tell) for s in B.walk(made[0].finder)) == 2
    learning = [s for s in B.walk(made[0].body) if isinstance(s, B.Learn)]
    assert max(len(s.own) for s in learning) == 4  # both ends of what some rows admit, and all
    for run in RUNS:
        for call in runs_apart(run):
            call.check(*made, run)


@pytest.mark.parametrize(
    ("early", "fault"),
    [(False, "parts wait for each other"), (True, "is used before its copy has ended")],
)
def test_releases(early: bool, fault: str) -> None:
    """Blocks that are never released, or released as soon as they are taken, are found."""

    def moved(body: B.Body) -> B.Body:
        releases = [s for s in body if isinstance(s, B.Release)] if early else []
        found: list[B.Statement] = []
        for s in body:
            s = B.inside(s, moved)
            found += [] if isinstance(s, B.Release) else [s]
            found += [r for r in releases if isinstance(s, B.Take) and r.ring == s.ring]
        return tuple(found)

    made = emitted("attention", 0)
    assert made is not None
    changed = compiled(replace(made[0], body=moved(made[0].body)))
    with pytest.raises(Fault, match=fault):
        for run in RUNS:
            for call in calls("attention", run):
                call.check(*changed, run)


# Mutants that mean the same, and why.
_LEFT = "a block that is left unread"
_EARLY = "it waits earlier than it must"
EQUIVALENT = {
    r"(without|twice) item_\w+(, item_\w+)? \+?= ": "no item follows the last one",
    r"without keep_within": "what is left is finite, and has the weight 0",
    r"skip [QV]_ring before skip": f"{_LEFT}, beside another",
    r"take Q_ring before .* = take K_ring": "a warpgroup waits for both",
    r"take V_ring.* before (s\[q,k\].* = issue|release)": _EARLY,
    r"skip \w+ before skip": "blocks that are left unread are left in either order",
    r"wait for acc before release K_ring": "it is released later than it could be",
    r"give (Q|V)_ring.* before give K_ring": "the other rings have room for what comes later",
    r"another slot .*wait\(item_ring_empty": "who has learnt numbers has learnt those before",
    r"another slot .*wait\(item_ring_full": "a finder tells the first item's blocks at once, too",
}
PARTS = 16
_FOUND = (Fault, AssertionError, LookupError, NameError, TypeError, AttributeError, ValueError)


@pytest.mark.one_in(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("sliding_window", ""),
        ("causal", r"keep_within|wait\(V_ring_full|clear"),
        ("document", r"tell|learn|item_ring"),
    ],
)
def test_mutants(part: int, name: str, pattern: str) -> None:
    """A change to how parts synchronise is found."""
    checks = [(run, call) for run in RUNS for call in _with_gaps(name, run)]
    made = emitted(name, 0)
    assert made is not None
    blocks, codes = made
    tried = [
        *((what, partial(compiled, changed)) for what, changed in mutants.of_program(blocks)),
        *(
            (what, partial(replaced, blocks, codes, changed))
            for f in emulator.functions(blocks)
            for what, changed in mutants.of_function(f)
        ),
    ]
    for what, change in [x for x in tried if re.search(pattern, x[0])][part::PARTS]:
        changed = change()
        try:
            for run, call in checks:
                call.check(*changed, run)
        except _FOUND:
            continue
        assert any(re.search(x, what) for x in EQUIVALENT), what


def _with_gaps(name: str, run: Run) -> Iterator[Call]:
    """A kernel beside whose keys there is NaN: what no query admits is in no result."""
    if name == "document":
        yield from runs_apart(run)
        return
    for call in calls(name, run):
        call.inputs["V"][:, :, run.q :] = np.nan
        yield call


@pytest.mark.parametrize(
    ("name", "kernel", "needed", "others"),
    [("causal", 0, 11, 0), ("causal", 1, 11, 2), ("gqa", 1, 9, 0)],
)
def test_turns(name: str, kernel: int, needed: int, others: int) -> None:
    """Each is needed: without it warpgroups wait for each other, or pass a turn on twice. Others
    stand in a loop over blocks after the last one that rows admit, which causal ones all do."""
    checks = [(run, list(calls(name, run, gradient=True))[kernel]) for run in RUNS]
    made = emitted(name, kernel, gradient=True)
    assert made is not None
    tried = [x for x in mutants.of_program(made[0]) if re.search("without .* the turn", x[0])]
    assert len(tried) == needed + others
    assert sum(_is_refused(changed, checks) for _, changed in tried) == needed


def _is_refused(blocks: BlockProgram, checks: Sequence[tuple[Run, Call]]) -> bool:
    made = compiled(blocks)
    try:
        for run, call in checks:
            call.check(*made, run)
    except Fault:
        return True
    return False


def compiled(blocks: BlockProgram) -> Emitted:
    return blocks, list(map(emulator.compiled, emulator.functions(blocks)))


def replaced(blocks: BlockProgram, codes: Sequence[CodeType], function: ast.stmt) -> Emitted:
    return blocks, [*codes, emulator.compiled(function)]


# --- kernels that add up the sums of others -----------------------------------------------


JOINED = (
    Run(70, 20, 2, 2, 1, None, window=70, d=(128, 128), block=64),
    Run(150, 14, 2, 2, 2, 1, window=70, d=(128, 128), block=64),
    Run(150, 21, 2, 3, 1, 2, window=70, d=(8, 8), block=128),
    Run(64, 40, 1, 2, 2, 3, window=70, d=(24, 24), block=64),
    Run(300, 4, 2, 1, 1, 4, window=70, d=(16, 16), block=128),
    Run(140, 33, 2, 2, 3, 5, window=70, d=(64, 64), block=128),
)


def joined(name: str, run: Run) -> tuple[Call, Emitted]:
    """The kernel of a gradient that adds up the sum of another, and what is emitted of it."""
    every = enumerate(calls(name, run, gradient=True, adds=True))
    ((n, call),) = ((n, call) for n, call in every if call.program.products)
    made = emitted(name, n, gradient=True, adds=True)
    assert made is not None
    return call, made


@pytest.mark.parametrize("run", JOINED, ids=str)
@pytest.mark.parametrize("name", ["attention", "causal", "sliding_window", "sink_window", "gqa"])
def test_joined_sums(name: str, run: Run) -> None:
    call, made = joined(name, run)
    call.check(*made, run)


class _Leave(ast.NodeTransformer):
    """Leaves out statements that begin with a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        left = ast.Expr(ast.Yield(ast.Constant(None)))  # others may go on there
        return left if ast.unparse(node).startswith(self.text) else node


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("the_kernel_consumer", "mbarrier.wait(dQ_sum_left_full"),
        ("the_kernel_consumer", "mbarrier.arrive(dQ_sum_left_full"),
        ("the_kernel_consumer", "fence_async_shared"),
        ("the_kernel_consumer", "tma.store_wait"),
        ("add_part", "fence_async_shared"),
        ("add_part", "tma.store_wait"),
    ],
)
def test_faults(function: str, text: str) -> None:
    """Each wait and each fence is needed."""
    call, (blocks, _) = joined("causal", JOINED[1])
    codes = []
    for f in map(copy.deepcopy, emulator.functions(blocks)):
        is_meant = isinstance(f, ast.FunctionDef) and f.name == function
        codes.append(emulator.compiled(_Leave(text).visit(f) if is_meant else f))
    with pytest.raises(Fault):
        call.check(blocks, codes, JOINED[1])
