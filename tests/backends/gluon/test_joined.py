"""Kernels that add up the sums of others: warpgroups meet at products that sum over their rows."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

import numpy as np
import pytest

import monocomp as mc
from monocomp import library
from monocomp.blocks import BlockProgram
from monocomp.planning.plan import Plan
from monocomp.tile import TileProgram
from tests.backends.gluon import emulator
from tests.backends.gluon.machine import Fault
from tests.backends.gluon.test_dialect import in_gluon
from tests.backends.running import kernels_run

ROWS = 8  # of a warpgroup
PARAMS = {"window": 70, "sink": 4}


@cache
def joined(name: str) -> tuple[mc.Kernel, Plan]:
    """The gradient of a program in kernels of which one adds up the sum of another."""
    kernel = mc.compile(mc.grad(library.load(name)), name=name)
    return kernel, kernel.planner.plan(adds=True)


@cache
def emitted(name: str) -> tuple[int, BlockProgram, list[CodeType]]:
    """The kernel that adds up a sum: its number, block program and functions."""
    _, plan = joined(name)
    ((n, program),) = ((n, k) for n, k in enumerate(plan.kernels) if k.products)
    blocks = in_gluon(program)
    return n, blocks, [emulator.compiled(f) for f in emulator.functions(blocks)]


@dataclass(frozen=True)
class Run:
    """Queries and keys, columns, blocks of queries, warpgroups, stages, instances and a seed."""

    q: int
    k: int
    d: int
    block: int
    groups: int
    stages: int
    instances: int
    seed: int | None


RUNS = (
    Run(70, 20, 128, 64, 2, 2, 1, None),
    Run(150, 14, 128, 64, 2, 2, 2, 1),
    Run(150, 21, 8, 128, 2, 3, 1, 2),
    Run(64, 40, 24, 64, 1, 2, 2, 3),
    Run(300, 4, 16, 128, 2, 1, 1, 4),
    Run(140, 33, 64, 128, 2, 2, 3, 5),
)


def tensors(name: str, run: Run) -> Iterator[tuple[TileProgram, dict[str, Any], dict[str, int]]]:
    """The kernels with all tensors, each after it has run."""
    kernel, plan = joined(name)
    random = np.random.default_rng(0)
    sizes = {"b": 1, "h": 4, "g": 2, "q": run.q, "k": run.k, "d": run.d, "e": run.d}
    declared = kernel.declared
    extents = {declared.extent_of.get(e, e): n for e, n in sizes.items()}
    arrays = {
        n: random.standard_normal([extents[x] for x in i.dims]) for n, i in declared.inputs.items()
    }
    for program, *_ in kernels_run(plan.kernels, arrays, extents, PARAMS):
        yield program, arrays, extents


def check(
    program: TileProgram,
    arrays: Mapping[str, Any],
    extents: Mapping[str, int],
    blocks: BlockProgram,
    codes: list[CodeType],
    run: Run,
) -> None:
    """Run what is emitted of a kernel, beside what it is to compute."""
    results = {
        o.name: np.full_like(arrays[o.name], 0 if program.is_added_to(o.name) else np.nan)
        for o in program.outputs
    }
    lengths = {"k": ROWS * run.groups, "q": run.block, "d": run.d, "e": run.d}
    given = {n: arrays[n] for n in program.inputs}
    how = {"groups": run.groups, "stages": run.stages, "instances": run.instances}
    call = given, results, extents, PARAMS, lengths
    emulator.run(blocks, codes, *call, **how, seed=run.seed)
    for n, array in results.items():
        np.testing.assert_allclose(array, arrays[n], 1e-6, 1e-6, err_msg=n)


@pytest.mark.parametrize("run", RUNS, ids=str)
@pytest.mark.parametrize("name", ["attention", "causal", "sliding_window", "sink_window", "gqa"])
def test_meaning(name: str, run: Run) -> None:
    """They mean what their tile programs mean, whatever the order of events."""
    number, blocks, codes = emitted(name)
    program, arrays, extents = list(tensors(name, run))[number]
    check(program, arrays, extents, blocks, codes, run)


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
    number, blocks, _ = emitted("causal")
    codes = []
    for f in map(copy.deepcopy, emulator.functions(blocks)):
        is_meant = isinstance(f, ast.FunctionDef) and f.name == function
        codes.append(emulator.compiled(_Leave(text).visit(f) if is_meant else f))
    run = RUNS[1]
    program, arrays, extents = list(tensors("causal", run))[number]
    with pytest.raises(Fault):
        check(program, arrays, extents, blocks, codes, run)
