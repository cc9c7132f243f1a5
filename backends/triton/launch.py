"""Run emitted files: write them to the cache, import them, and choose schedules.

What runs is the very text that `Kernel.source` shows. Schedules are what was measured for this
device, program, dtypes and sizes like these. Where nothing was, a first call on a GPU measures: the
best of the few that the table of schedules predicts to be fastest, a race. `MONOCOMP_TUNE=1` makes
it a search, and with `MONOCOMP_TUNE=0` the prediction alone decides; so it does while a CUDA graph
is captured, and where torch is to be deterministic.
"""

from __future__ import annotations

import hashlib
import importlib.util
import linecache
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.machinery import SourceFileLoader
from itertools import chain
from os import PathLike
from types import ModuleType
from typing import Any, TypeAlias

import torch
import triton
from triton.runtime.errors import OutOfResources, PTXASError

from monocomp.backends import torch as interpreter
from monocomp.backends.dialects import DIALECTS
from monocomp.backends.forms import Forms, said, spoken
from monocomp.backends.schedules import remembered
from monocomp.backends.schedules.legal import element_bytes
from monocomp.backends.schedules.measure import Empty, GpuBench
from monocomp.backends.schedules.remembered import Entry
from monocomp.backends.schedules.schedule import Schedule, longest_alike
from monocomp.backends.schedules.search import (
    RACE,
    SEARCH,
    Budget,
    Choice,
    Progress,
    Tuning,
    search,
)
from monocomp.backends.triton import interpreter as interpreter_of_triton
from monocomp.backends.triton.dialect import TRITON, Dialect
from monocomp.backends.triton.emit import Module
from monocomp.backends.triton.replay import PlanTarget, Repeated, started
from monocomp.declarations.dtypes import LOADED_BY_TRITON, dtypes_by_name, widths
from monocomp.errors import (
    DeviceError,
    InternalError,
    UnsupportedDtypeError,
    UnsupportedError,
)
from monocomp.extents.nominal import packed_extents, power_of_two
from monocomp.host.building import host_program, of_tile_program
from monocomp.host.evaluation import Evaluation
from monocomp.host.plan import Plan, Ran
from monocomp.machine.cache import TextStore
from monocomp.machine.locking import BUILDING
from monocomp.planning.report import report
from monocomp.terms.equations import Equations
from monocomp.tile import FRAGMENTS, TileProgram

Emit = Callable[[Sequence[Schedule]], Module]
Tensors: TypeAlias = Mapping[str, torch.Tensor]
Params: TypeAlias = Mapping[str, Any]
Sizes: TypeAlias = Mapping[str, int]
Signature: TypeAlias = tuple[torch.device, tuple[torch.dtype, ...], tuple[tuple[str, int], ...]]
_INTERPRETED_FLOPS = 1 << 40  # the torch backend takes about a second for these
_LOCK = threading.Lock()
MEASURING = threading.Lock()  # measurements would disturb one another
_LOADED: dict[str, ModuleType] = {}
_SOURCES = TextStore("sources")


def interpreted() -> bool:
    """True if Triton runs in its interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def load(source: str) -> ModuleType:
    """Import an emitted file, which is kept in the cache for tracebacks and profilers to show."""
    digest = hashlib.blake2b(source.encode(), digest_size=16).hexdigest()
    name = f"monocomp_emitted_{digest}_{int(interpreted())}"
    with _LOCK:
        module = _LOADED.get(name)
        if module is None:
            path = str(_SOURCES.place(f"{digest}.py", source) or f"{name}.py")
            if interpreted():
                interpreter_of_triton.mend()
            # Triton asks for the source of a kernel: it is given this one, whatever is in the file.
            linecache.cache[path] = len(source), None, source.splitlines(keepends=True), path
            spec = importlib.util.spec_from_loader(name, _Loader(name, path, source))
            if spec is None or spec.loader is None:
                raise InternalError(f"cannot import {path}")
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            _LOADED[name] = module
    return module


class _Loader(SourceFileLoader):
    """Runs a given text as the file's, and no bytecode that lies beside it."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self.source = source

    def path_stats(self, path: str | PathLike[str]) -> Params:
        raise OSError("bytecode is neither read nor written")

    def get_data(self, path: str | PathLike[str]) -> bytes:
        return self.source.encode()


class TritonRunner:
    """A program's kernels on one class of devices, dtypes and sizes.

    Args:
        program: what the kernels compute.
        kernels: the tile programs.
        emit: writes the file for given schedules.
        precision: "ieee" or "tf32".
        processors: for how many to cut streams into splits; the device's, unless given.
        dialects: the languages that kernels may be in. The first takes all of them.
    """

    def __init__(
        self,
        program: Equations,
        kernels: Sequence[TileProgram],
        emit: Emit,
        precision: str,
        processors: int | None = None,
        dialects: Sequence[Dialect] = (TRITON,),
    ) -> None:
        self.program = program
        self.kernels = kernels
        self.emit = emit
        self.precision = precision
        self.processors = processors
        self.dialects = dialects
        self._modules: dict[tuple[Any, ...], tuple[Module, ModuleType]] = {}
        axes = [a for k in kernels for a in k.axes.values()]
        self._held = {a.extent for a in axes if a.role == "whole"}
        self._lock = threading.Lock()
        self._chosen: dict[Signature, Choice] = {}
        self._found: dict[Signature, Entry | Tuning] = {}

    def __call__(
        self, inputs: Tensors, params: Params, extents: Sizes, varying: Sequence[str] = ()
    ) -> tuple[Ran, tuple[torch.Tensor, ...], Plan | None]:
        """Return what has run, the outputs, in the program's order, and how to repeat the call.

        A plan holds for other values of the parameters that are named as varying. There is
        none for a call whose schedules are a stopgap.
        """
        tensors, extents = elements(inputs), packed_extents(self.program, extents, params)
        first = next(iter(tensors.values()))
        with torch.cuda.device_of(first):  # type: ignore[no-untyped-call]
            chosen = self.schedules(tensors, params, extents)
            signature = self.signature(tensors, extents)
            found = self._found.get(signature)
            why = said([k.name for k in self.kernels], found.rivals, found.refused) if found else ""
            reasons: list[str] = []
            for choice in chain([chosen], self._others(chosen, tensors, extents)):
                try:
                    results, plan = self._call(tensors, params, choice, varying)
                except (OutOfResources, PTXASError) as fault:  # before the kernel is launched
                    reasons.append(str(fault))
                    continue
                except UnsupportedError:
                    if spoken(choice) == self.dialects[0].name:
                        raise
                    why = f"as {spoken(choice)} cannot take this layout"
                    continue
                if reasons and not is_capturing(first.device):
                    self._chosen[signature] = choice
                ran = Ran(spoken(choice), first.device, why)
                return ran, results, None if is_capturing(first.device) else plan
        raise self.forms(tensors, extents)[0].legal[0].refusal(reasons[:1])

    def _loaded(self, choice: Choice) -> tuple[Module, ModuleType]:
        """Return the file that these schedules run."""
        key = tuple(s.in_source for s in choice)
        loaded = self._modules.get(key)
        if loaded is None:
            module = self.emit(list(map(self._usual, self.kernels, choice)))
            loaded = self._modules[key] = module, load(module.source)
        return loaded

    def _usual(self, kernel: TileProgram, choice: Schedule) -> Schedule:
        """Return the schedule that the file names for a kernel, though each call gives its own:
        that of no sizes, or this call's where a kernel fits only if the lengths of held axes are
        known."""
        dialect = DIALECTS[choice.language]()
        try:
            usual = dialect.table.first(dialect.legal(kernel, {}, 2))
        except UnsupportedError:
            return choice
        return usual.with_source_of(choice)

    def _call(
        self,
        inputs: Tensors,
        params: Params,
        choice: Choice,
        varying: Sequence[str] = (),
        empty: Empty | None = None,
    ) -> tuple[tuple[torch.Tensor, ...], Plan]:
        """Return the results for some schedules, and what repeats the call."""
        plan = self._plan(inputs, params, choice, varying, empty)
        with BUILDING:  # Triton compiles at the first call of a kind
            results = plan((*inputs.values(), *params.values()))
        return results, started(plan)

    def _plan(
        self,
        inputs: Tensors,
        params: Params,
        choice: Choice,
        varying: Sequence[str] = (),
        empty: Empty | None = None,
    ) -> Plan:
        module, loaded = self._loaded(choice)
        configs = [module.config(n, s) for n, s in enumerate(choice)]
        device = next(iter(inputs.values())).device
        target = PlanTarget(module.program, loaded, device, self.precision, empty)
        return Evaluation(module.program, target, inputs, params, configs, varying).plan()

    def repeated(self, inputs: Tensors, params: Params) -> Repeated:
        """Return what repeats a call with other schedules."""
        given, values = (inputs, params), (*inputs.values(), *params.values())
        return Repeated(partial(self._call, *given), partial(self._plan, *given), values)

    # --- schedules --------------------------------------------------------------------

    def schedules(self, inputs: Tensors, params: Params, extents: Sizes) -> Choice:
        """Return the schedules for a call: remembered, measured if calls are to measure, or those
        that come first."""
        signature = self.signature(inputs, extents)
        choice = self._chosen.get(signature)
        if choice is None:
            with self._lock:
                choice = self._chosen.get(signature) or self._choose(inputs, params, extents)
                if not is_capturing(signature[0]):
                    self._chosen[signature] = choice
        return choice

    def _choose(self, inputs: Tensors, params: Params, extents: Sizes) -> Choice:
        budget = budget_of_calls()
        schedules = self._recall(inputs, extents, raced=budget is RACE)
        is_captured = is_capturing(next(iter(inputs.values())).device)
        if schedules is None and budget is not None and is_on_gpu(inputs) and not is_captured:
            tuning = self._search(inputs, params, extents, budget)
            if tuning.was_interrupted and budget is RACE:  # nobody has asked for it
                raise KeyboardInterrupt
            schedules = tuning.schedules
        return schedules or tuple(each.first() for each in self.forms(inputs, extents))

    def tune(
        self,
        inputs: Tensors,
        params: Params,
        extents: Sizes,
        *,
        seconds: float = SEARCH.seconds,
        candidates: int = SEARCH.candidates,
        progress: Progress = lambda *_: None,
    ) -> Tuning:
        """Search schedules for calls like this one, and remember the best.

        Args:
            inputs, params, extents: of the call.
            seconds, candidates: the limits of the search; candidates of each kernel.
            progress: as for `search`.

        Raises:
            UnsupportedError: no candidate fits the GPU.
        """
        extents = packed_extents(self.program, extents, params)
        tuning = self._search(inputs, params, extents, Budget(seconds, candidates), progress)
        if tuning.unfit and not tuning.measured and not tuning.wrong:
            reasons = [reason for _, reason in tuning.refused[:1]]
            raise self.forms(inputs, extents)[0].legal[0].refusal(reasons)
        return tuning

    def _search(
        self,
        inputs: Tensors,
        params: Params,
        extents: Sizes,
        budget: Budget,
        progress: Progress = lambda *_: None,
    ) -> Tuning:
        """Search within a budget, and remember the best. Racing candidates are compared with one
        another alone: the prediction would run otherwise. Each language has as much time."""
        tensors, raced = elements(inputs), budget is RACE
        signature = self.signature(tensors, extents)
        with MEASURING, torch.cuda.device_of(next(iter(tensors.values()))):  # type: ignore[no-untyped-call]
            tuning = search(
                [each.candidates(budget.candidates) for each in self.forms(tensors, extents)],
                GpuBench(self.repeated(tensors, params), list(tensors.values())),
                lambda: None if raced else self._expected(tensors, params, extents),
                seconds=budget.seconds * len(self.dialects),
                progress=progress,
            )
        self._found[signature] = tuning
        if tuning.is_checked and tuning.milliseconds is not None:
            situation, found = self.situation(tensors, extents), tuple(tuning.refused)
            measured = tuning.schedules, tuning.milliseconds, raced, tuning.rivals, found
            tuning.entry = Entry(situation, *measured)
            remembered.remember(tuning.entry)
            self._chosen[signature] = tuning.schedules
        return tuning

    def forms(self, inputs: Tensors, extents: Sizes) -> list[Forms]:
        """Return the schedules that each kernel may have."""
        floats = {n: t for n, t in inputs.items() if t.is_floating_point()}
        sizes = widths(self.program.declared, dtypes_by_name(floats))
        sizes = self.program.with_slices(sizes)
        device = next(iter(inputs.values())).device
        target = target_of(device)
        of_device = 1 if target is None else multiprocessors(device)
        processors = self.processors or of_device
        how = target, processors
        return [
            Forms(tuple(d.legal(k, extents, element_bytes(k, sizes), *how) for d in self.dialects))
            for k in self.kernels
        ]

    def gains(self, first: TritonRunner, inputs: Tensors, params: Params, extents: Sizes) -> bool:
        """True if kernels that another plan lacks have forms in other languages than the first, and
        those that add up the sums of others in one that may."""
        extents, known = packed_extents(self.program, extents, params), {*map(str, first.kernels)}
        pairs = list(zip(self.kernels, self.forms(elements(inputs), extents), strict=True))
        adding = [each for k, each in pairs if any(o.dtype == FRAGMENTS for o in k.outputs)]
        new = (each for k, each in pairs if str(k) not in known)
        return any(each.is_rivalled for each in new) and all(each.may_add for each in adding)

    def milliseconds(self, inputs: Tensors, params: Params, extents: Sizes) -> float:
        """Return what a call takes, as calls measure it: infinity where they do not."""
        tensors, extents = elements(inputs), packed_extents(self.program, extents, params)
        if budget_of_calls() is None:
            return math.inf
        self.schedules(tensors, params, extents)
        entry = remembered.recall(self.situation(tensors, extents))
        return math.inf if entry is None else entry.milliseconds

    def signature(self, inputs: Tensors, extents: Sizes) -> Signature:
        device = next(iter(inputs.values())).device
        return device, tuple(t.dtype for t in inputs.values()), self._buckets(extents)

    def situation(self, inputs: Tensors, extents: Sizes) -> remembered.Situation:
        passes = (name for dialect in self.dialects for name in dialect.passes)
        text = "\n\n".join([*map(str, self.kernels), *passes])
        dtypes = sorted((n, str(t.dtype).removeprefix("torch.")) for n, t in inputs.items())
        return remembered.Situation(
            device=torch.cuda.get_device_name(next(iter(inputs.values())).device),
            triton=triton.__version__,
            program=hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
            precision=self.precision,
            dtypes=tuple(dtypes),
            sizes=self._buckets(extents),
        )

    def _buckets(self, extents: Sizes) -> tuple[tuple[str, int], ...]:
        """Return the sizes that share their schedules, as the longest of these."""
        return tuple(
            sorted(
                (e, longest_alike(n) if e in self._held else power_of_two(max(1, n)))
                for e, n in extents.items()
            )
        )

    def _recall(self, inputs: Tensors, extents: Sizes, *, raced: bool) -> Choice | None:
        """Return what is remembered, also of races if `raced`, if these kernels can have it."""
        if not is_on_gpu(inputs):
            return None
        entry = remembered.recall(self.situation(inputs, extents), raced=raced)
        forms = self.forms(inputs, extents)
        if entry is None or len(entry.schedules) != len(forms):
            return None
        if not all(each.admits(s) for each, s in zip(forms, entry.schedules, strict=True)):
            return None
        self._found[self.signature(inputs, extents)] = entry
        return entry.schedules

    def _others(self, chosen: Choice, inputs: Tensors, extents: Sizes) -> Iterator[Choice]:
        """Yield schedules to take where one turns out to need more than there is: those in the
        first language, which may be what is lacking, and other candidates."""
        forms = self.forms(inputs, extents)
        found = self._found.get(self.signature(inputs, extents))
        rivals = found.rivals if found else {}
        usual = tuple(f.usual(chosen[n], rivals.get(n, ())) for n, f in enumerate(forms))
        yield from [usual] if usual != chosen else []
        options = [each.candidates(12) for each in forms]
        for n in range(max(map(len, options))):
            yield tuple(o[min(n, len(o) - 1)] for o in options)

    def _expected(
        self, inputs: Tensors, params: Params, extents: Sizes
    ) -> tuple[torch.Tensor, ...] | None:
        """Return the results of the torch backend, in float32; None where that would take long."""
        known = {**extents, **dict.fromkeys((e for k in self.kernels for e in k.splits), 1)}
        if report(self.kernels, known)["flops"] > _INTERPRETED_FLOPS:
            return None
        host = host_program(self.program, [of_tile_program(k) for k in self.kernels])
        try:
            return interpreter.run_all(host, self.kernels, inputs, params, 1, results=torch.float32)
        except torch.OutOfMemoryError:
            return None


def elements(inputs: Tensors) -> dict[str, torch.Tensor]:
    """Return inputs without gradients, with the elements that memory has."""
    return {n: t.detach().resolve_neg() for n, t in inputs.items()}


def budget_of_calls() -> Budget | None:
    """Say what a call is to measure where nothing is remembered."""
    mode = os.environ.get("MONOCOMP_TUNE")
    if mode == "0" or torch.are_deterministic_algorithms_enabled():
        return None
    return SEARCH if mode == "1" else RACE


def is_on_gpu(inputs: Tensors) -> bool:
    return next(iter(inputs.values())).device.type == "cuda" and not interpreted()


def device_of(dialect: Dialect, inputs: Tensors) -> torch.device:
    """Return the device of inputs that kernels can run on.

    Raises:
        MonocompError: they cannot, or there are no inputs.
    """
    backend = f"backend '{dialect.name}'"
    for name, tensor in inputs.items():
        if tensor.is_floating_point() and str(tensor.dtype)[6:] not in LOADED_BY_TRITON:
            raise UnsupportedDtypeError(
                f"{backend} cannot load {name} with dtype {str(tensor.dtype)[6:]}",
                notes=["supported inputs: " + ", ".join(LOADED_BY_TRITON)],
                help=f"convert it, {name}.to(torch.float32), or compile with backend='torch'",
            )
    if not inputs:
        raise UnsupportedError(
            f"{backend} needs an input tensor, to know which GPU to run on",
            help="compile with backend='torch'",
        )
    device = next(iter(inputs.values())).device
    can_be_interpreted = dialect.target is None
    if device.type != "cuda" and not (can_be_interpreted and interpreted()):
        others = "use backend='torch', or set TRITON_INTERPRET=1"
        raise DeviceError(
            f"{backend} needs CUDA tensors, and these are on {device}",
            help="move them to the GPU, "
            + (others if can_be_interpreted else "or use backend='torch'"),
        )
    return device


def multiprocessors(device: torch.device) -> int:
    """Return the number of multiprocessors of a GPU."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def target_of(device: torch.device) -> str | None:
    """Return the target to choose schedules for; None without a GPU or in Triton's interpreter."""
    if device.type != "cuda" or interpreted():
        return None
    if torch.version.hip is not None:
        name = torch.cuda.get_device_properties(device).gcnArchName
        return "hip:" + name.partition(":")[0]
    return "cuda:{}{}".format(*torch.cuda.get_device_capability(device))


def is_capturing(device: torch.device) -> bool:
    """True if the current stream records a CUDA graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
