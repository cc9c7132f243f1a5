"""Calls that repeat an earlier one: they launch what the ordinary way would, and nothing else.

A driver without a GPU takes the launches of kernels that Triton compiles for one; what a
repeated call passes is compared with what the first call of another kernel object passes.
"""

from __future__ import annotations

import gc
import sys
import weakref
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from types import FrameType
from typing import Any, TypeAlias
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

import monocomp as mc
from monocomp import library
from monocomp.backends.schedules import table
from monocomp.backends.schedules.legal import Legal
from monocomp.backends.schedules.schedule import Schedule
from monocomp.errors import InputError, ShapeError, UnsupportedDtypeError
from tests.backends.interpreted import call
from tests.backends.running import cut_for_long_extents, exact, largest_error, small_schedules
from tests.backends.triton.driver import Driver
from tests.threads import faults_of

WINDOW = library.load("sliding_window")
PLACED = """
param position: int = 0
S[q,k] = Q[q,d] * K[k,d]
O[q,e] = softmax[k if k <= q + position](S[q,k]) * V[k,e]
"""
SCALED = "param scale: float = 2.0, n: int = 3\nindex i < n\nO[i,j] = X[j] * scale + i"
MIXED = "O[i,k] = sum[j](X[i,j] * Y[j,k])"


@cache
def _the_driver() -> Driver:
    """One for all tests: what has been compiled keeps its launcher."""
    return Driver()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A machine with a GPU, as far as Triton and the backend can see."""
    triton = pytest.importorskip("triton")
    from monocomp.backends.triton import launch

    driver = _the_driver()
    driver.launches.clear()
    monkeypatch.setattr(launch, "interpreted", lambda: True)
    monkeypatch.setattr(triton.runtime.driver, "_active", driver)
    return driver


def tensors(
    q: int = 16, k: int = 16, dtype: torch.dtype = torch.bfloat16, head: int = 16
) -> dict[str, Tensor]:
    """Queries, keys and values."""
    shapes = {"Q": (1, 2, q, head), "K": (1, 2, k, head), "V": (1, 2, k, head)}
    return {n: torch.randn(shape).to(dtype) for n, shape in shapes.items()}


def launched(driver: Driver, kernel: mc.Kernel, /, **values: Any) -> Any:
    """The one launch of a call, with tensors by name, and by layout where they are new."""
    driver.launches.clear()
    result = kernel(**values)
    ((form, grid, passed),) = driver.launches
    names = {id(v): n for n, v in values.items()} | {id(result): "result"}
    positions = {v.data_ptr(): n for n, v in values.items() if isinstance(v, Tensor)}
    for n, value in enumerate(passed):
        if isinstance(value, TensorDescriptor):
            where = positions.get(value.base.data_ptr())
            passed[n] = where, *(v for k, v in vars(value).items() if k != "base")
        elif isinstance(value, Tensor):
            where = positions.get(value.data_ptr(), names.get(id(value)))
            passed[n] = where, value.shape, value.stride(), value.dtype, value.device
    return form, grid, passed


def repeated(driver: Driver, kernel: mc.Kernel, /, **values: Any) -> Any:
    """The launch of a call that has a plan."""
    from monocomp.backends.triton.launch import TritonRunner

    with patch.object(TritonRunner, "__call__", side_effect=AssertionError("no plan")):
        return launched(driver, kernel, **values)


def is_repeated(driver: Driver, kernel: mc.Kernel, /, **values: Any) -> bool:
    """Would this call repeat an earlier one?"""
    try:
        repeated(driver, kernel, **values)
    except AssertionError:
        return False
    return True


def shifted(t: Tensor) -> Tensor:
    """The same elements, not aligned to 16 bytes."""
    return torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape)


def transposed(t: Tensor) -> Tensor:
    """The same elements, other strides."""
    return t.transpose(-1, -2).contiguous().transpose(-1, -2)


Values: TypeAlias = dict[str, Any]
# A program, a call, changes of it that are repeated, and others that are not.
CALLS: dict[str, tuple[str, Values, list[Values], list[Values]]] = {
    "layouts": (
        WINDOW,
        tensors(),
        [tensors(), dict.fromkeys("QK", tensors()["Q"]), {"window": 1024}],
        [
            {"Q": torch.randn(1, 2, 40, 16).bfloat16()},
            {n: t.repeat(2, 1, 1, 1) for n, t in tensors().items()},
            {n: t.half() for n, t in tensors().items()},
            {"V": tensors()["V"].half()},
            {"K": transposed(tensors()["K"])},
            {"K": tensors()["K"][:, :1].expand(1, 2, 16, 16)},
            {"V": shifted(tensors()["V"])},
        ],
    ),
    "a parameter of a filter": (
        WINDOW,
        tensors() | {"window": 7},
        [{"window": 9}],
        [{"window": 1}, {"window": 32}, {"window": (1 << 31) + 1}],
    ),
    "a parameter that only kernels read": (  # as long as Triton compiles the same for it
        PLACED,
        {n: t[0, 0] for n, t in tensors().items()} | {"position": 7},
        [{"position": n} for n in (9, -2, 1 << 20 | 1)],
        [
            {"position": n}
            for n in (0, 1, 32, 1 << 24 | 1, 1 << 31, -(1 << 31), torch.tensor(7), 7.0)
        ],
    ),
    "a parameter of an extent": (  # and a float, which may be any
        SCALED,
        {"X": torch.randn(16), "n": 3, "scale": 1.0},
        [{"scale": 0.5}],
        [{"n": 5}],
    ),
    "an integer for a float": (SCALED, {"X": torch.randn(16), "scale": 4}, [{}], [{"scale": 6}]),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(driver: Driver, name: str) -> None:
    """Calls of another look are planned anew; each launches what a new kernel would."""
    text, first, same, others = CALLS[name]
    kernel = mc.compile(text, backend="triton")
    launched(driver, kernel, **first)
    for change in others:
        assert not is_repeated(driver, kernel, **first | change), change
    for values in (first, *(first | change for change in (*same, *others)), first):
        wanted = launched(driver, mc.compile(text, backend="triton"), **values)
        assert launched(driver, kernel, **values) == wanted
        if isinstance(values.get("position", 0), int):  # others are looked at in each call
            assert repeated(driver, kernel, **values) == wanted
    for change in same:
        assert is_repeated(driver, kernel, **first | change), change


@pytest.fixture
def with_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules have descriptors wherever kernels can."""
    original = table.first

    def first(legal: Legal) -> Schedule:
        return replace(original(legal), descriptors=legal.has_descriptors)

    monkeypatch.setattr(table, "first", first)


@pytest.mark.usefixtures("with_descriptors")
def test_descriptors_are_of_the_tensors_of_a_call(driver: Driver) -> None:
    """Shapes, strides and blocks are those of the first call, and the tensors those of this one."""
    kernel = mc.compile(library.load("causal"), backend="triton")
    first, other = tensors(256, 256, head=128), tensors(256, 256, head=128)
    wanted = launched(driver, kernel, **first)
    assert sum(isinstance(v, tuple) and v[0] in "KV" for v in wanted[2]) == 4  # pointers too
    assert repeated(driver, kernel, **other) == wanted
    assert not is_repeated(driver, kernel, **other | {"V": transposed(other["V"])})
    assert not is_repeated(driver, kernel, **other | {"K": shifted(other["K"])})


@pytest.mark.usefixtures("with_descriptors")
def test_odd_rows_are_copied_in_each_call(driver: Driver) -> None:
    """In rows that begin where sectors do; what is copied is of that call."""
    from monocomp.backends.triton.launch import TritonRunner

    kernel = mc.compile(library.load("causal"), backend="triton")
    first, other = tensors(512, 512, head=20), tensors(512, 512, head=20)
    kernel(**first)
    before = [(form, grid) for form, grid, _ in driver.launches]
    driver.launches.clear()
    with patch.object(TritonRunner, "__call__", side_effect=AssertionError("no plan")):
        kernel(**other)
    assert [(form, grid) for form, grid, _ in driver.launches] == before
    *copying, (_, _, passed) = driver.launches
    assert len(copying) == 2
    for (_, _, copied), name, by_descriptor in zip(copying, "KV", passed[4:6], strict=True):
        assert copied[0] is other[name] and copied[1].stride(-2) == 32
        assert by_descriptor.base is copied[1] and any(copied[1] is v for v in passed)


def test_inputs_by_position_and_by_name_repeat_one_another(driver: Driver) -> None:
    """In any order."""
    kernel, (q, k, v) = mc.compile(WINDOW, backend="triton"), tensors().values()
    wanted = launched(driver, kernel, Q=q, K=k, V=v, window=7)
    assert repeated(driver, kernel, window=7, V=v, Q=q, K=k) == wanted
    with patch("monocomp.calls.calls.bind", side_effect=AssertionError):
        kernel(q, k, V=v, window=7)


def test_errors_are_those_of_a_first_call(driver: Driver) -> None:
    """A plan lets nothing pass that is refused without one."""
    kernel, inputs = mc.compile(WINDOW, backend="triton"), tensors()
    kernel(**inputs)
    driver.launches.clear()
    with pytest.raises(ShapeError, match="index 'k' has two sizes"):
        kernel(**inputs | {"V": inputs["V"][:, :, 1:]})
    with pytest.raises(UnsupportedDtypeError, match="cannot load V with dtype float64"):
        kernel(**inputs | {"V": inputs["V"].double()})
    assert not driver.launches
    with pytest.raises(InputError, match="given twice"):
        kernel(*inputs.values(), V=inputs["V"])
    with pytest.raises(InputError, match="4 inputs are given by position"):
        kernel(*inputs.values(), inputs["V"])
    kernel(**inputs, window=7)
    with pytest.raises(InputError, match="4 inputs are given by position"):
        kernel(*inputs.values(), 7)
    with pytest.raises(InputError, match="'window' must be an integer, not None"):
        kernel(**inputs, window=None)


def test_what_needs_gradients_is_part_of_the_look(driver: Driver) -> None:
    """And what autocast makes of the inputs."""
    kernel, inputs = mc.compile(WINDOW, backend="triton"), tensors()
    kernel(**inputs)
    for names in ("Q", "QK"):
        some = inputs | {n: inputs[n].clone().requires_grad_() for n in names}
        assert not is_repeated(driver, kernel, **some)
        for _ in range(2):
            result = kernel(**some)
            assert [t is None for t in grads(result, some)] == [n not in names for n in "QKV"]
        with torch.no_grad():
            assert is_repeated(driver, kernel, **some) and not kernel(**some).requires_grad
    wide = {n: t.float().requires_grad_() for n, t in inputs.items()}
    with torch.autocast("cpu", torch.bfloat16):
        kernel(**wide)
        assert is_repeated(driver, kernel, **wide)
        assert {t.dtype for t in grads(kernel(**wide), wide)} == {torch.float32}


def grads(result: Tensor, inputs: dict[str, Tensor]) -> list[Tensor | None]:
    """Gradients by a result, of inputs that need one."""
    for t in inputs.values():
        t.grad = None
    result.sum().backward()
    return [t.grad for t in inputs.values()]


def test_repeated_gradients_launch(driver: Driver) -> None:
    """What the gradients of a call before launched, in the same order, and nothing is looked up
    but by their look; second derivatives are calls of their own."""
    from monocomp.calls.autograd import Backward

    kernel, cotangent = mc.compile(WINDOW, backend="triton"), torch.ones(1, 2, 16, 16).bfloat16()
    inputs = {n: t.requires_grad_() for n, t in tensors().items()}

    def launches(**how: Any) -> list[Any]:
        driver.launches.clear()
        torch.autograd.grad(kernel(**inputs, window=7), list(inputs.values()), cotangent, **how)
        return [(form, grid) for form, grid, _ in driver.launches]

    wanted = [launches() for _ in range(2)]
    with patch.object(Backward, "__call__", side_effect=AssertionError("looked up")):
        assert [launches(), launches()] == wanted and wanted[0] == wanted[1]
        with pytest.raises(AssertionError, match="looked up"):
            launches(create_graph=True)


def test_a_launch_is_seen_by_hooks_alone(driver: Driver) -> None:
    """It is the same where there are none, and Triton's own way of launching is not taken."""
    from triton import knobs
    from triton.compiler import CompiledKernel

    kernel, inputs = mc.compile(WINDOW, backend="triton"), tensors()
    kernel(**inputs)
    assert kernel.calls.plans is not None
    values = (*inputs.values(), None)
    repeat: Any = kernel.calls.plans.find(values)
    seen: list[Any] = []

    def launched_on(stream: int | None) -> Any:
        driver.launches.clear()
        repeat.plan((*inputs.values(), 1024), stream=stream)
        ((form, grid, passed),) = driver.launches
        return form, grid, [type(p) if isinstance(p, Tensor) else p for p in passed]

    wanted = launched_on(None)
    described = patch.object(CompiledKernel, "launch_metadata", side_effect=seen.append)
    with described as metadata:
        assert launched_on(0) == wanted and not metadata.called
    knobs.runtime.launch_enter_hook.add(seen.append)
    try:
        with patch.object(CompiledKernel, "launch_metadata", return_value=None) as metadata:
            assert launched_on(0) == wanted and metadata.called
    finally:
        knobs.runtime.launch_enter_hook.remove(seen.append)


def test_what_is_converted_is_of_that_call(driver: Driver) -> None:
    """One product takes both; the one that is narrower is copied, each time."""
    kernel = mc.compile(MIXED, backend="triton")
    first, other = ({"X": torch.randn(16, 16).half(), "Y": torch.randn(16, 16)} for _ in "12")
    kernel(**first)
    assert is_repeated(driver, kernel, **other)
    driver.launches.clear()
    kernel(**other)
    ((_, _, (x, y, *_)),) = driver.launches
    assert torch.equal(x, other["X"].float()) and y is other["Y"]
    assert not is_repeated(driver, kernel, X=other["X"], Y=other["Y"].half())


def test_nothing_is_kept_while_a_graph_is_captured(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its schedules are a stopgap."""
    from monocomp.backends.triton import launch

    kernel, inputs = mc.compile(WINDOW, backend="triton"), tensors()
    with monkeypatch.context() as context:
        context.setattr(launch, "is_capturing", lambda _: True)
        kernel(**inputs)
        assert not is_repeated(driver, kernel, **inputs)
    kernel(**inputs)
    assert is_repeated(driver, kernel, **inputs)


def test_plans_hold_no_tensors(driver: Driver) -> None:
    """Neither inputs nor results outlive their call."""
    kernel, inputs = mc.compile(WINDOW, backend="triton"), tensors()
    results = [kernel(**inputs), kernel(**inputs)]
    assert results[0].data_ptr() != results[1].data_ptr()
    alive = [weakref.ref(t) for t in (*inputs.values(), *results)]
    driver.launches.clear()
    del inputs, results
    gc.collect()
    assert not any(a() is not None for a in alive)


def test_plans_are_limited(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes."""
    from monocomp.calls import plans

    monkeypatch.setattr(plans, "_PLANS", 2)
    kernel = mc.compile("O[i] = X[i] * 2", backend="triton")
    inputs = [torch.randn(n) for n in (17, 18, 19)]
    for x in inputs:
        kernel(x)
    assert [is_repeated(driver, kernel, X=x) for x in inputs] == [False, True, True]


def test_a_plan_runs_on_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is the current one; its look has it, too."""
    from monocomp.backends.triton.replay import Replay
    from monocomp.calls.plans import Plans
    from monocomp.host.plan import Launched, Plan, Stage, gather

    entered: list[Any] = []
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda n: 70 + n, raising=False)
    monkeypatch.setattr(torch.cuda, "device", lambda d: entered.append(d) or nullcontext())
    launch = Launched(lambda **how: entered.append(how["stream"]), gather(), [], None)
    stages = (Stage((), (launch,)),)
    for index in (0, 1):
        assert Replay(Plan(torch.device("cuda", index), stages, gather()), "triton")(()) == ()
    assert entered == [70, torch.device("cuda", 1), 71]
    plans = Plans(mc.compile("O[i] = X[i] * 2").equations.declared)
    replay = Replay(Plan(torch.device("cpu"), (), gather()), "triton")
    plans.keep([torch.empty(3)], replay)
    assert plans.find([torch.zeros(3)]) is replay
    assert plans.find([torch.empty(3, device="meta")]) is None


def test_threads_repeat_their_own_calls(driver: Driver) -> None:
    """Each launch has the sizes and the parameter of the call whose tensors it has."""
    kernel = mc.compile(WINDOW, backend="triton")

    def work(number: int) -> None:
        for turn in range(40):
            inputs = tensors(q=16 + 8 * (number % 2), k=8 * (2 + number % 3))
            result = kernel(**inputs, window=100 * number + 2 * turn + 3)
            assert result.shape == inputs["Q"].shape

    assert not faults_of(work)
    assert len(driver.launches) == 8 * 40
    found = set()
    for (signature, *_), _, passed in driver.launches:
        kinds = [n for n, kind in signature.items() if kind != "constexpr"]
        named = dict(zip(kinds, passed, strict=True))
        number, turn = divmod(named["window"], 100)
        found.add((number, turn))
        assert named["Q_ptr"].shape[2] == named["size_q"] == 16 + 8 * (number % 2)
        assert named["K_ptr"].shape[2] == named["size_k"] == 8 * (2 + number % 3)
    assert len(found) == 8 * 40


def _twice(text: str, inputs: dict[str, Tensor], storing: bool, params: dict[str, Any]) -> Any:
    """The results of a call and of its repetition with other elements."""
    from monocomp.backends.triton.launch import TritonRunner

    kernel = mc.compile(text, backend="triton")
    changed = {n: t.flip(0) if t.is_floating_point() else t for n, t in inputs.items()}
    with small_schedules(16), cut_for_long_extents() if storing else nullcontext():
        kernel(**inputs, **params)
        with patch.object(TritonRunner, "__call__", side_effect=AssertionError("no plan")):
            return changed, kernel(**changed, **params)


@pytest.mark.parametrize(
    ("name", "storing", "params"),
    [("causal", False, {}), ("sliding_window", False, {"window": 5}), ("gqa", True, {})],
)
def test_a_repeated_call_computes(name: str, storing: bool, params: dict[str, Any]) -> None:
    """With what several kernels store for one another, too."""
    inputs = {n: t.float() for n, t in tensors(q=20, k=24).items()}
    text = library.load(name) if name != "gqa" else library.load("naive_attention")
    changed, found = call(_twice, text, inputs, storing, params)
    assert largest_error(found, exact(text, changed, **params)[0]) < 1e-5


@pytest.mark.parametrize("gradients", [False, True])
def test_a_repeated_call_is_short(driver: Driver, gradients: bool) -> None:
    """Few functions are called beside the launches; benchmarks/gpu_launch.py has the time."""
    kernel, inputs = mc.compile(library.load("attention"), backend="triton"), tensors().values()
    called: list[str] = []

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals.get("__name__", "monocomp").startswith("monocomp"):
            called.append(frame.f_code.co_name)

    cotangent = torch.ones(1, 2, 16, 16).bfloat16()
    for x in inputs:
        x.requires_grad_(gradients)
    for turn in range(5):
        sys.setprofile(record if turn == 4 else None)
        try:
            result = kernel(*inputs)
            if gradients:
                torch.autograd.grad(result, list(inputs), cotangent)
        finally:
            sys.setprofile(None)
    beside = [name for name in called if name != "make"]  # of descriptors, as a schedule has them
    assert len(beside) <= (22 if gradients else 10), called
