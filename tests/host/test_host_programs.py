"""Host programs of the library: they print, and their readers agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp import terms as T
from monocomp.declarations.records import by_representative
from monocomp.errors import InternalError, UnsupportedError
from monocomp.extents.nominal import packed_extents
from monocomp.host.arguments import (
    Number,
    Statement,
    const,
    of_term,
    product,
    setting,
    size,
)
from monocomp.host.building import host_program, of_tile_program
from monocomp.host.evaluation import Evaluation
from monocomp.host.launches import Slices, Wide
from monocomp.host.program import HostProgram
from monocomp.host.sizes import CheckEmpty
from monocomp.host.tensors import Clear, Free, Sort, View, Widen
from monocomp.kernel import Kernel
from tests.backends.library_cases import CASES

pytest.importorskip("triton")

from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from monocomp.backends.forms import Forms
from monocomp.backends.gluon.dialect import GLUON
from monocomp.backends.triton.dialect import TRITON, Dialect
from monocomp.backends.triton.emit import Module, Part, emit
from monocomp.backends.triton.launch import load
from monocomp.backends.triton.replay import PlanTarget

PROCESSORS, LENGTH = 132, 2048
MANY, ONE = (512, 20), (1, 96)  # rows, and the size of a head


@cache
def emitted(
    name: str, rows: int, head: int, dialect: Dialect = TRITON
) -> tuple[Module, tuple[dict[str, int], ...]]:
    """A program for Hopper, with the schedules that come first."""
    kernel = mc.compile(library.load(name), processors=PROCESSORS if dialect.merges else 1)
    sizes = by_representative(kernel.declared, CASES[name].sizes(rows, LENGTH, head, head))
    return emitted_at(kernel, sizes, dialect)


def emitted_at(
    kernel: Kernel, sizes: Mapping[str, int], *dialects: Dialect
) -> tuple[Module, tuple[dict[str, int], ...]]:
    """The same of a kernel, at sizes by the representatives of its extents: of each in the last
    dialect that has a form of it."""
    kernels = kernel.tile_programs(sizes)
    lowered = kernel.planner.plan(sizes).program
    known = packed_extents(lowered, sizes)
    how = known, 2, "cuda:90", PROCESSORS
    forms = (Forms(tuple(d.legal(k, *how) for d in dialects or (TRITON,))) for k in kernels)
    schedules = [each.candidates(1)[-1] for each in forms]
    module = emit(Part(kernel.equations, kernels, schedules, lowered))
    return module, tuple(module.config(n, s) for n, s in enumerate(schedules))


def inputs_of(name: str, rows: int, head: int) -> dict[str, Tensor]:
    """In the order of the program."""
    case = CASES[name]
    made = case.inputs(case.sizes(rows, LENGTH, head, head), torch.bfloat16)
    return {n: made[n] for n in mc.compile(case.text).declared.inputs}


class Recorder:
    """Stands for a kernel: notes its launches."""

    def __init__(self, name: str, launches: list[Any], names: dict[int, str]) -> None:
        self.name, self.launches, self.names = name, launches, names

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*args: Any, **options: Any) -> None:
            self.launches.append((self.name, grid, [*map(self.shown, args)], options))

        return launch

    def shown(self, value: Any) -> Any:
        """Tensors by name, or by layout where they are new."""
        if isinstance(value, TensorDescriptor | GluonDescriptor):
            attributes = {k: v for k, v in vars(value).items() if k != "base"}
            return self.shown(value.base), attributes
        if isinstance(value, Tensor):
            layout = tuple(value.shape), value.stride(), value.dtype
            return self.names.get(id(value)), layout
        return value


def launches(
    module: ModuleType, inputs: dict[str, Tensor], call: Callable[[], Any]
) -> tuple[list[Any], list[Any]]:
    """Return the launches of a call that compute, and the layouts of its results."""
    found: list[Any] = []
    names = {id(t): n for n, t in inputs.items()}
    kernels = {n: f for n, f in vars(module).items() if isinstance(f, JITFunction)}
    for name in kernels:
        setattr(module, name, Recorder(name, found, names))
    try:
        results = call()
    finally:
        vars(module).update(kernels)
    results = results if isinstance(results, tuple) else (results,)
    kernels_run = [launch for launch in found if launch[0] != "clear_elements"]  # torch does that
    return kernels_run, [(tuple(r.shape), r.stride(), r.dtype) for r in results]


def both(
    name: str,
    inputs: dict[str, Tensor],
    rows: int,
    head: int,
    dialect: Dialect = TRITON,
    **changes: int,
) -> tuple[Any, Any]:
    """What the printed function launches, and what the plan does."""
    module, configs = emitted(name, rows, head, dialect)
    configs = tuple(c | {k: v for k, v in changes.items() if k in c} for c in configs)
    case = CASES[name]
    params = mc.compile(case.text).declared.params
    given = {n: p.default for n, p in params.items()} | dict(case.params)
    return both_of(module, configs, inputs, given)


def both_of(
    module: Module,
    configs: tuple[dict[str, int], ...],
    inputs: dict[str, Tensor],
    given: Mapping[str, Any],
) -> tuple[Any, Any]:
    """The same of a file, for parameters."""
    loaded = load(module.source)
    target = PlanTarget(module.program, loaded, torch.device("cpu"), "ieee")

    def printed() -> Any:
        named = {module.params[n]: v for n, v in given.items()}
        return getattr(loaded, module.host)(*inputs.values(), configs=configs, **named)

    def planned() -> Any:
        evaluation = Evaluation(module.program, target, inputs, given, configs, [*given])
        return evaluation.plan()((*inputs.values(), *given.values()))

    properties = SimpleNamespace(multi_processor_count=4)
    with patch("torch.cuda.get_device_properties", return_value=properties):
        return launches(loaded, inputs, printed), launches(loaded, inputs, planned)


CASES_AND_SIZES = [(n, *s) for n in CASES for s in (MANY, ONE)]
SPECIAL = [("attention", 4096, 96), ("mla", *ONE), ("softcap", *MANY), ("variance", *ONE)]
SPECIAL += [("laplace_attention", *MANY), ("tree", 4096, 20)]


@pytest.mark.one_in(9)
@pytest.mark.parametrize(("name", "rows", "head"), [SPECIAL[-1], *CASES_AND_SIZES, SPECIAL[0]])
def test_the_plan_of_a_call_is_what_the_printed_function_does(
    name: str, rows: int, head: int
) -> None:
    """Launch by launch, argument by argument, by pointers and by descriptors."""
    inputs = inputs_of(name, rows, head)
    for by_descriptor in (0, 1):
        printed, planned = both(name, inputs, rows, head, DESCRIPTORS=by_descriptor)
        assert printed[0] and printed == planned


def test_a_plan_knows_the_views_that_kernels_read() -> None:
    """As wide as their offsets are: the gradient of a cache, on a GPU."""
    sizes = {"b": 64, "h": 32, "g": 8, "q": 16, "r": 4096, "d": 128, "e": 128}
    gradient = mc.grad(library.load("rolling_cache"), extents=sizes)
    kernel = mc.compile(gradient, processors=PROCESSORS)
    module, configs = emitted_at(kernel, sizes)
    views = {s.name for s in module.program.body if isinstance(s, View)}
    assert any(views & {*s.tensors} for s in module.program.body if isinstance(s, Wide))
    target = PlanTarget(module.program, load(module.source), torch.device("cpu"), "ieee")
    inputs = {
        n: torch.empty(
            [sizes[d] for d in i.dims],
            dtype=torch.bfloat16 if i.kind == "float" else torch.int64,
            device="meta",
        )
        for n, i in kernel.declared.inputs.items()
    }
    params = {n: p.default for n, p in kernel.declared.params.items()}
    plan = Evaluation(module.program, target, inputs, params, configs).plan()
    assert sum(len(stage.launches) for stage in plan.stages) >= len(module.program.kernels)


@pytest.mark.parametrize("head", [64, 17])
@pytest.mark.parametrize("name", ["causal", "alibi", "attention_statistics"])
def test_they_agree_in_gluon(name: str, head: int) -> None:
    """Where descriptors are given in any case, and odd rows are copied for them."""
    inputs = inputs_of(name, 512, head)
    printed, planned = both(name, inputs, 512, head, GLUON)
    assert printed == planned
    assert ("copy_rows" in {launch[0] for launch in printed[0]}) == (head == 17)


@pytest.mark.parametrize("name", ["learned_sink", "sink_window"])
def test_they_agree_in_two_languages(name: str) -> None:
    """Kernels of a gradient, in Gluon where they have such a form, have descriptors of their own
    each."""
    kernel = mc.compile(mc.grad(library.load(name)), processors=PROCESSORS)
    sizes = by_representative(kernel.declared, CASES[name].sizes(512, 512, 64, 64))
    module, configs = emitted_at(kernel, sizes, TRITON, GLUON)
    inputs = {
        n: torch.zeros([sizes[d] for d in i.dims], dtype=torch.bfloat16)
        for n, i in kernel.declared.inputs.items()
    }
    params = {n: p.default for n, p in kernel.declared.params.items()} | dict(CASES[name].params)
    printed, planned = both_of(module, configs, inputs, params)
    assert printed == planned
    gluon = {launch[0] for launch in printed[0] if "GROUPS" in launch[3]}
    assert 0 < len(gluon) < len(configs)


@pytest.mark.parametrize("change", ["in float32", "expanded"])
def test_they_agree_on_what_descriptors_cannot_load(change: str) -> None:
    """Neither loads it in another way."""
    inputs = inputs_of("causal", 512, 64)
    k = inputs["K"]
    inputs["K"] = k.float() if change == "in float32" else k[:, :1].expand(k.shape)
    if change == "in float32":
        inputs = {n: t.float() for n, t in inputs.items()}
    with pytest.raises(ValueError, match="descriptors cannot load blocks of a tensor"):
        both("causal", inputs, 512, 64, GLUON)
    module, configs = emitted("causal", 512, 64, GLUON)
    target = PlanTarget(module.program, load(module.source), torch.device("cpu"), "ieee")
    with pytest.raises(UnsupportedError, match=r"this backend loads \w by descriptors") as found:
        Evaluation(module.program, target, inputs, {}, configs).plan()
    assert "backend='triton'" in str(found.value)


@pytest.mark.parametrize("change", ["transposed", "of two dtypes", "expanded", "shifted"])
def test_they_agree_for_other_layouts(change: str) -> None:
    """And about what is converted, copied, or described."""
    inputs = inputs_of("causal", *MANY)
    k = inputs["K"]
    inputs["K"] = {
        "transposed": k.transpose(1, 2).contiguous().transpose(1, 2),
        "of two dtypes": k.float(),
        "expanded": k[:, :1].expand(k.shape),
        "shifted": torch.cat([k.new_zeros(1), k.flatten()])[1:].view(k.shape),
    }[change]
    printed, planned = both("causal", inputs, *MANY, DESCRIPTORS=1)
    assert printed == planned


@pytest.mark.parametrize(
    ("name", "rows", "dim"),
    [
        ("laplace_attention", 4096, 2),
        ("laplace_attention", 1, 3),
        ("attention", 4096, 3),
    ],
)
def test_columns_become_rows_where_many_instances_read_them(name: str, rows: int, dim: int) -> None:
    """A loop over d reads one column of Q and K after the other, and rows of V."""
    printed, planned = both(name, inputs_of(name, rows, 64), rows, 64)
    assert printed == planned
    _, _, (q, k, v, *_), _ = printed[0][0]
    strides = [layout[1] for _, layout in (q, k, v)]
    assert [s.index(1) for s in strides] == [dim, dim, 3]


def test_every_statement_occurs() -> None:
    """In the host programs that are compared above, but those about sizes of 0, slices, tables and
    floats of 8 bits, which have tests of their own."""
    found = {type(s) for case in SPECIAL for s in emitted(*case)[0].program.body}
    assert {*Statement.__subclasses__()} - found == {CheckEmpty, Clear, Free, Slices, Sort, Widen}


def of_matrix_product() -> HostProgram:
    kernel = mc.compile("O[i,k] = sum[j](X[i,j] * Y[j,k])")
    lowered = kernel.planner.plan({}).program
    return host_program(lowered, [of_tile_program(k) for k in kernel.tile_programs()])


def test_text(golden: Callable[[str, str], None]) -> None:
    golden("matrix_product.host.txt", str(of_matrix_product()))


def test_numbers() -> None:
    """Brackets stand where they are needed, and terms of sizes become numbers."""
    rows = Number("cdiv", (Number("+", (size("i"), const(1))), setting("BLOCK_I")))
    assert str(product([rows, size("j")])) == "cdiv(i + 1, BLOCK_I) * j"
    assert str(product([])) == "1"
    odd = Number("==", (Number("%", (size("i"), const(2))), const(1)))
    assert str(odd) == "i % 2 == 1"
    half = of_term(T.floordiv(T.add(T.extent_of("i"), T.const(1)), T.const(2)))
    assert str(half) in ("(i + 1) // 2", "(1 + i) // 2")
    with pytest.raises(InternalError, match="an extent cannot be compare"):
        of_term(T.compare("<", T.extent_of("i"), T.const(5)))
