"""Runs programs on each backend with small blocks, and compares with the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
import torch

import monocomp as mc
from monocomp.checking.random_inputs import random_inputs
from monocomp.kernel import Kernel
from monocomp.language.checker import check
from monocomp.language.syntax import Program
from monocomp.reference.oracle import evaluate
from monocomp.tile import TileProgram
from monocomp.translation.translator import translate
from tests.backends import interpreted

Tensors: TypeAlias = Mapping[str, torch.Tensor]
# Name, block length, checked, storing, limit and processors, as `run` takes them.
How: TypeAlias = tuple[str | None, int | None, bool, bool, int | None, int | None]
BACKENDS = ("numpy", "torch", "triton")
# Numpy and torch interpret the same tile programs with one interpreter; the operations in which
# they differ are tried on all programs of `test_programs` and on the library.
DISTINCT = BACKENDS[1:]
BLOCK = 16  # rows and streamed elements in a block: the least that Triton multiplies
GARBAGE = -7777  # what integer outputs hold before a kernel writes them


@cache
def program_of(text: str) -> Program:
    """The checked program."""
    return check(text)


def make_inputs(
    text: str,
    extents: Mapping[str, int],
    dtype: torch.dtype = torch.float32,
    *,
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
) -> dict[str, torch.Tensor]:
    """Random inputs by name; sizes of indices that the program lacks do not count."""
    program, name = program_of(text), str(dtype).removeprefix("torch.")
    known = {i.lstrip(".") for i in program.extent_of}
    used = {i: n for i, n in extents.items() if i in known}
    arrays = random_inputs(translate(program), used, dtype=name, seed=seed, params=params)
    tensors = {n: torch.from_numpy(np.array(a)) for n, a in arrays.items()}
    return {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}


# Blocks of 16 stick out of the longer axes.
SIZES = {"h": 2, "i": 19, "j": 19, "k": 37, "l": 37, "q": 19, "t": 37, "d": 5, "e": 6}


@dataclass(frozen=True)
class Example:
    """A program and the sizes to run it at.

    Attributes:
        text: the program.
        extents: sizes by index, `;` between runs; if there are none, those of `SIZES`.
        params: parameters that are not at their defaults.
        inputs: elements that must not be random, by input.
        tolerance: how much more error than usual is allowed, with a reason in the table.
    """

    text: str
    extents: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1.0

    def drawn(self, dtype: torch.dtype = torch.float32) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the inputs of each run, with those elements that must not be random."""
        given = {n: torch.as_tensor(np.asarray(a)) for n, a in self.inputs.items()}
        for seed, run in enumerate(self.extents.split(";")):
            extents = {i: int(n) for i, n in (part.split("=") for part in run.split())}
            made = make_inputs(self.text, extents or SIZES, dtype, seed=seed, params=self.params)
            yield {n: given.get(n, t).to(t.dtype) for n, t in made.items()}


def exact(text: str, inputs: Tensors, **params: Any) -> tuple[torch.Tensor, ...]:
    """The oracle's results."""
    found = evaluate(program_of(text), inputs, **params)
    results = found if isinstance(found, tuple) else (found,)
    return tuple(torch.from_numpy(np.array(r)) for r in results)


def run(
    backend: str,
    text: str,
    inputs: Tensors,
    *,
    name: str | None = None,
    block: int | None = BLOCK,
    checked: bool = False,
    storing: bool = False,
    limit: int | None = None,
    processors: int | None = None,
    **params: Any,
) -> tuple[torch.Tensor, ...]:
    """The results of a backend, whose outputs held NaN before, in blocks of a given length.

    `storing` cuts the program into kernels as if its extents were long; `limit` is the
    longest axis that is held entirely; for `processors` streams of four blocks are cut into splits.
    """
    how = (name, block, checked, storing, limit, processors)
    if backend == "triton":
        return interpreted.call(_run_triton, text, dict(inputs), how, params)
    with small_blocks(block), poisoned_outputs():
        return _call(backend, text, inputs, how, params)


def _run_triton(
    text: str, inputs: Tensors, how: How, params: Mapping[str, Any]
) -> tuple[torch.Tensor, ...]:
    with small_schedules(how[1]), poisoned_empty():
        return _call("triton", text, inputs, how, params)


def _call(
    backend: str, text: str, inputs: Tensors, how: How, params: Mapping[str, Any]
) -> tuple[torch.Tensor, ...]:
    *_, storing, limit, processors = how
    kernel = compiled(text, backend, *how)
    with (
        cut_for_long_extents() if storing else nullcontext(),
        whole_limit(limit) if limit is not None else nullcontext(),
        short_splits() if processors else nullcontext(),
    ):
        found = kernel(**{n: inputs[n] for n in kernel.declared.inputs}, **params)
    results = found if isinstance(found, tuple) else (found,)
    return tuple(torch.as_tensor(r) for r in results)


@cache
def compiled(
    text: str,
    backend: str,
    name: str | None,
    block: int | None,
    checked: bool = False,
    storing: bool = False,
    limit: int | None = None,
    processors: int | None = None,
) -> mc.Kernel:
    """A kernel for calls of one kind: it remembers how it is lowered, and its schedules."""
    return mc.compile(text, backend=backend, name=name, checked=checked, processors=processors)


def kernels_run(
    kernels: Iterable[TileProgram],
    arrays: dict[str, Any],
    extents: Mapping[str, int],
    params: Mapping[str, Any],
) -> Iterator[tuple[TileProgram, dict[str, Any], dict[str, Any]]]:
    """Run kernels one after the other in NumPy, each beside its inputs and results; what they
    store joins the arrays."""
    from monocomp.backends import numpy

    for kernel in kernels:
        outputs = {o.name: np.zeros([extents[d] for d in o.dims]) for o in kernel.outputs}
        inputs = {n: arrays[n] for n in kernel.inputs}
        numpy.run(kernel, inputs, outputs, extents, params)
        arrays |= outputs
        yield kernel, inputs, outputs


# --- blocks ---------------------------------------------------------------------------------


@contextmanager
def small_blocks(length: int | None) -> Iterator[None]:
    """Let the backends numpy and torch use blocks of this length, and one grid value."""
    if length is None:
        yield
        return
    from monocomp.backends import numpy, torch

    def blocks(program: TileProgram, *_: object, **__: object) -> dict[str, int]:
        return {a.name: 1 if a.role == "grid" else length for a in program.axes.values()}

    with (
        patch.object(numpy, "default_blocks", blocks),
        patch.object(torch, "default_blocks", blocks),
    ):
        yield


@contextmanager
def small_schedules(length: int | None) -> Iterator[None]:
    """Let the backend triton use blocks of at most this length."""
    if length is None:
        yield
        return
    from monocomp.backends.schedules import table
    from monocomp.backends.schedules.legal import Legal
    from monocomp.backends.schedules.schedule import Schedule

    original = table.first

    def first(legal: Legal) -> Schedule:
        found = original(legal)
        return replace(found, blocks=tuple((a, min(n, length)) for a, n in found.blocks))

    with patch.object(table, "first", first):
        yield


@contextmanager
def whole_limit(length: int) -> Iterator[None]:
    """Let no axis longer than this be held entirely."""
    from monocomp.costs import roles
    from monocomp.planning import plan

    with (
        patch.object(roles, "WHOLE_LIMIT", length),
        patch.object(plan, "WHOLE_LIMIT", length),
    ):
        yield


@contextmanager
def short_splits() -> Iterator[None]:
    """Let splits of a stream be as short as two blocks, and lists be made for eight."""
    from monocomp.planning import lists, splitting, streams

    with (
        patch.object(streams, "SHORTEST_SPLIT", 2 * BLOCK),
        patch.object(splitting, "ROW_BLOCK", BLOCK),
        patch.object(lists, "TURNS", 1),
    ):
        yield


def file_for_any_size(kernel: Kernel, extents: Mapping[str, int], element_bytes: int = 2) -> str:
    """A file whose kernels and schedules are those for some sizes on Hopper, and which takes any
    others."""
    from monocomp.backends.schedules import table
    from monocomp.backends.schedules.legal import Legal
    from monocomp.backends.triton.emit import Part, emit

    plan, processors = kernel.plan(extents), kernel.planner.processors or 1
    legal = (
        Legal(k, plan.extents(extents), element_bytes, "cuda:90", processors) for k in plan.kernels
    )
    schedules = list(map(table.first, legal))
    return emit(Part(kernel.equations, plan.kernels, schedules, plan.program)).source


@contextmanager
def estimated_anew() -> Iterator[None]:
    """Remember no estimate of a kernel from before, and none afterwards: what they depend on is
    patched meanwhile."""
    from monocomp.costs import holding

    estimate = cache(holding._estimate_chosen.__wrapped__)
    with patch.object(holding, "_estimate_chosen", estimate):
        yield


@contextmanager
def cut_for_long_extents() -> Iterator[None]:
    """Let short extents have many blocks, so that values are stored as for long ones."""
    from monocomp.costs import cost, counting
    from monocomp.planning import search

    with (
        estimated_anew(),
        patch.object(counting, "ROW_BLOCK", 1),
        patch.object(counting, "LOOP_BLOCK", 1),
        patch.object(cost, "LAUNCH_TIME", 0),
        patch.object(search, "WORTHWHILE", 1.0),
        paying("store_value", 1.2),
    ):
        yield


@contextmanager
def paying(rule: str, times: float = 1000) -> Iterator[None]:
    """Let a step of this rule divide the time by so much more than it does."""
    from monocomp.planning.search import Draft

    estimated = Draft.__dict__["time"]
    original = estimated.fget if isinstance(estimated, property) else estimated.func

    def time(draft: Draft) -> float:
        taken: float = original(draft)
        return taken / times ** sum(step.rule == rule for step in draft.steps)

    with patch.object(Draft, "time", property(time)):
        yield


# --- poison -----------------------------------------------------------------------------------


def spoil(tensor: Any) -> Any:
    """Fill a new tensor or array with what no kernel should leave."""
    kind = str(tensor.dtype)
    if "float" in kind:
        tensor[...] = float("nan")
    elif "int" in kind:
        tensor[...] = GARBAGE
    return tensor


@contextmanager
def poisoned_empty() -> Iterator[None]:
    """Let new tensors be spoilt, where these have elements."""
    from monocomp.backends.triton import replay

    def spoiling(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def empty(*args: Any, **kwargs: Any) -> torch.Tensor:
            made = original(*args, **kwargs)
            with torch.no_grad():  # inductor makes leaves
                return made if made.is_meta else spoil(made)  # type: ignore[no-any-return]

        return empty

    of_plans = {device: spoiling(empty) for device, empty in replay.EMPTY.items()}
    with patch.object(torch, "empty", spoiling(torch.empty)), patch.dict(replay.EMPTY, of_plans):
        yield


@contextmanager
def poisoned_outputs() -> Iterator[None]:
    """Spoil the outputs before each kernel of the backends numpy and torch runs."""
    from monocomp.backends import numpy, torch

    def spoiling(original: Callable[..., None]) -> Callable[..., None]:
        def run(program: TileProgram, inputs: Any, outputs: Any, *args: Any, **kwargs: Any) -> None:
            for o in program.outputs:
                spoil(outputs[o.name])
            original(program, inputs, outputs, *args, **kwargs)

        return run

    with (
        patch.object(numpy, "run", spoiling(numpy.run)),
        patch.object(torch, "run", spoiling(torch.run)),
    ):
        yield


# --- comparison -------------------------------------------------------------------------------


def largest_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the largest difference: 0 of equal infinities, and where the oracle is NaN, which
    stands for what is unspecified."""
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    if not wanted.is_floating_point():
        return 0.0 if torch.equal(found.to(wanted.dtype), wanted) else float("inf")
    found, wanted = found.double().cpu(), wanted.double().cpu()
    same = (found == wanted) | wanted.isnan()
    difference = torch.where(same, 0.0, (found - wanted).abs())
    difference = torch.where(difference.isnan(), torch.inf, difference)
    return float(difference.max()) if difference.numel() else 0.0


def scale_of(wanted: torch.Tensor) -> float:
    """The largest finite magnitude."""
    finite = wanted.double().nan_to_num(0.0, 0.0, 0.0).abs()
    return float(finite.max()) if finite.numel() else 0.0
