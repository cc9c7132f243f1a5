"""Runs emitted files: writes them to the cache, imports them, and chooses schedules.

What runs is the very text that `Kernel.source` shows. The first call on a kind of device
and a class of sizes measures a few schedules, checks that each gives the same result, and
remembers the best; later runs look it up. `MONOCOMP_TUNE=0` takes the first candidate.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton

from monocomp.backends.triton.emit import Module
from monocomp.backends.triton.replay import Plan, Recorder
from monocomp.backends.triton.schedule import Schedule, candidates, element_bytes
from monocomp.cache import JsonStore, cache_folder
from monocomp.errors import InternalError, UnsupportedError
from monocomp.nominal import power_of_two
from monocomp.program import Equations
from monocomp.tile import TileProgram

Emit = Callable[[Sequence[Schedule]], Module]
_ROUNDS = 5
_BURST_MS = 2.0
_LOCK = threading.Lock()
_LOADED: dict[str, ModuleType] = {}


def interpreted() -> bool:
    """Does Triton run in its interpreter, on the CPU?"""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def load(source: str) -> ModuleType:
    """Import an emitted file. Triton reads a kernel's source from a file, so it needs one."""
    digest = hashlib.blake2b(source.encode(), digest_size=16).hexdigest()
    name = f"monocomp_emitted_{digest}_{int(interpreted())}"
    with _LOCK:
        found = _LOADED.get(name)
        if found is None:
            path = _written(source, digest)
            loader = _Loader(name, str(path), source)
            spec = importlib.util.spec_from_file_location(name, path, loader=loader)
            if spec is None or spec.loader is None:
                raise InternalError(f"cannot import {path}")
            found = importlib.util.module_from_spec(spec)
            sys.modules[name] = found
            spec.loader.exec_module(found)
            _LOADED[name] = found
    return found


class _Loader(SourceFileLoader):
    """Runs a given text as the file's, and no bytecode that lies beside it."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self.source = source

    def path_stats(self, path: str | PathLike[str]) -> Mapping[str, Any]:
        raise OSError("bytecode is neither read nor written")

    def get_data(self, path: str | PathLike[str]) -> bytes:
        return self.source.encode()


_TEMPORARY: list[tempfile.TemporaryDirectory[str]] = []


def _written(source: str, digest: str) -> Path:
    """The source as a private file: in the cache, or where that is not to be had, in a
    temporary folder. A file whose text differs is replaced, not trusted."""
    root = cache_folder()
    if root is not None:
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            _require_private(root)
            return _write(root / "sources", source, digest)
        except OSError:
            pass
    if not _TEMPORARY:
        _TEMPORARY.append(tempfile.TemporaryDirectory(prefix="monocomp-"))
    return _write(Path(_TEMPORARY[0].name), source, digest)


def _require_private(folder: Path) -> None:
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(f"{folder} can be written by others")


def _write(folder: Path, source: str, digest: str) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    _require_private(folder)
    path = folder / f"{digest}.py"
    try:
        if path.read_text(encoding="utf-8") == source and path.stat().st_uid == os.getuid():
            return path
    except (OSError, UnicodeDecodeError):
        pass
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".py")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(source)
    os.replace(temporary, path)
    return path


class TritonRunner:
    """A program's kernels on one class of devices, dtypes and sizes.

    Args:
        program: what the kernels compute.
        kernels: the tile programs.
        emit: writes the file for given schedules.
        precision: "ieee" or "tf32".
        processors: for how many to cut streams into parts; the device's, unless given.
    """

    def __init__(
        self,
        program: Equations,
        kernels: Sequence[TileProgram],
        emit: Emit,
        precision: str,
        processors: int | None = None,
    ) -> None:
        self.program = program
        self.kernels = kernels
        self.emit = emit
        self.precision = precision
        self.processors = processors
        self._module: tuple[Module, ModuleType] | None = None
        self._lock = threading.Lock()
        self._chosen: dict[tuple[Any, ...], tuple[Schedule, ...]] = {}
        self.store = JsonStore("schedules")

    def __call__(
        self,
        inputs: Mapping[str, torch.Tensor],
        params: Mapping[str, Any],
        extents: Mapping[str, int],
        varying: Sequence[str] = (),
    ) -> tuple[tuple[torch.Tensor, ...], Plan | None]:
        """The outputs, in the program's order, and how to repeat the call.

        A plan holds for other values of the parameters that are named as varying. There is
        none for a call whose schedules are a stopgap, or that does more than launch kernels.
        """
        module, loaded = self._loaded()
        # Distinct objects, without gradients, that hold what they show.
        tensors = {n: t.detach().resolve_neg() for n, t in inputs.items()}
        first = next(iter(tensors.values()))
        recorder = Recorder(tensors, varying, module.places)
        with torch.cuda.device_of(first):  # type: ignore[no-untyped-call]
            schedules = self.schedules(tensors, params, extents)
            configs = tuple(module.config(n, s) for n, s in enumerate(schedules))
            results = self._call(loaded, module, tensors, params, configs, recorder)
            plan = None if _is_capturing(first.device) else recorder.plan(results)
        return results, plan

    def _loaded(self) -> tuple[Module, ModuleType]:
        if self._module is None:
            module = self.emit([candidates(k, {}, 2)[0] for k in self.kernels])
            self._module = module, load(module.source)
        return self._module

    def _call(
        self,
        loaded: ModuleType,
        module: Module,
        inputs: Mapping[str, torch.Tensor],
        params: Mapping[str, Any],
        configs: tuple[Mapping[str, int], ...],
        recorder: Recorder | None = None,
    ) -> tuple[torch.Tensor, ...]:
        named = {module.params[n]: v for n, v in params.items()}
        host = getattr(loaded, module.host)
        options: dict[str, Any] = {"configs": configs, "precision": self.precision}
        if recorder is not None:
            options |= {"empty": recorder.empty, "launch": recorder.launch}
        result = host(*inputs.values(), **named, **options)
        return result if isinstance(result, tuple) else (result,)

    # --- schedules --------------------------------------------------------------------

    def schedules(
        self,
        inputs: Mapping[str, torch.Tensor],
        params: Mapping[str, Any],
        extents: Mapping[str, int],
    ) -> tuple[Schedule, ...]:
        """The schedules for a call: remembered, or measured now.

        While a CUDA graph is captured nothing can be measured: what is not remembered then
        runs with the first candidates, and a later call measures.
        """
        first = next(iter(inputs.values()))
        sizes = tuple(sorted((e, power_of_two(max(1, n))) for e, n in extents.items()))
        key = (first.device, tuple(t.dtype for t in inputs.values()), sizes)
        found = self._chosen.get(key)
        if found is None:
            with self._lock:  # measurements would disturb one another
                found = self._chosen.get(key)
                if found is None:
                    found = self._choose(inputs, params, extents, sizes)
                    if not _is_capturing(first.device):
                        self._chosen[key] = found
        return found

    def _choose(
        self,
        inputs: Mapping[str, torch.Tensor],
        params: Mapping[str, Any],
        extents: Mapping[str, int],
        sizes: tuple[tuple[str, int], ...],
    ) -> tuple[Schedule, ...]:
        sizes_of = {n: t.element_size() for n, t in inputs.items() if t.is_floating_point()}
        first = next(iter(inputs.values()))
        target = _target(first.device)
        of_device = 1 if target is None else multiprocessors(first.device)
        processors = self.processors or of_device
        choices = [
            candidates(k, extents, element_bytes(k, sizes_of), target, processors)
            for k in self.kernels
        ]
        default = tuple(c[0] for c in choices)
        if first.device.type != "cuda" or interpreted():
            return default
        if os.environ.get("MONOCOMP_TUNE", "1") == "0":
            return default
        name = "/".join(
            (
                self._loaded()[0].source,
                torch.cuda.get_device_name(first.device),
                triton.__version__,
                self.precision,
                repr([(t.dtype, n) for n, t in inputs.items()]),
                repr(sizes),
            )
        )
        remembered = self._recall(name, choices)
        if remembered is not None:
            return remembered
        if _is_capturing(first.device):
            return default
        chosen = self.tune(inputs, params, choices)
        self.store.put(name, {"schedules": [s.to_json() for s in chosen]})
        return chosen

    def _recall(
        self, name: str, choices: Sequence[Sequence[Schedule]]
    ) -> tuple[Schedule, ...] | None:
        entry = self.store.get(name)
        if entry is None:
            return None
        try:
            found = tuple(Schedule.from_json(s) for s in entry["schedules"])
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        known = len(found) == len(choices) and all(
            f in c for f, c in zip(found, choices, strict=True)
        )
        return found if known else None

    def tune(
        self,
        inputs: Mapping[str, torch.Tensor],
        params: Mapping[str, Any],
        choices: Sequence[Sequence[Schedule]],
    ) -> tuple[Schedule, ...]:
        """Measure the candidates of each kernel in turn, the others at their best so far.

        All candidates are timed round-robin: clocks drift, and whoever runs first would win.
        """
        module, loaded = self._loaded()
        best = [c[0] for c in choices]
        for n, options in enumerate(choices):
            runs: dict[Schedule, Callable[[], tuple[torch.Tensor, ...]]] = {}
            reference: tuple[torch.Tensor, ...] | None = None
            failures = []
            for option in options:
                tried = tuple(option if m == n else s for m, s in enumerate(best))
                configs = tuple(module.config(m, s) for m, s in enumerate(tried))

                def run(
                    configs: tuple[Mapping[str, int], ...] = configs,
                ) -> tuple[torch.Tensor, ...]:
                    return self._call(loaded, module, inputs, params, configs)

                try:
                    result = run()
                    torch.cuda.synchronize()
                except triton.runtime.errors.OutOfResources as fault:
                    failures.append(str(fault))
                    continue
                if reference is None:
                    reference = result
                elif not all(map(_agree, result, reference)):
                    continue
                runs[option] = run
            if not runs:
                raise UnsupportedError(
                    "no schedule of this kernel fits the GPU", notes=failures[:1]
                )
            best[n] = _fastest(runs) if len(runs) > 1 else next(iter(runs))
        return tuple(best)


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors a GPU has."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _target(device: torch.device) -> str | None:
    """What to choose schedules for; None where kernels are interpreted."""
    if device.type != "cuda" or interpreted():
        return None
    if torch.version.hip is not None:
        name = torch.cuda.get_device_properties(device).gcnArchName
        return "hip:" + name.partition(":")[0]
    return "cuda:{}{}".format(*torch.cuda.get_device_capability(device))


def _is_capturing(device: torch.device) -> bool:
    """Does the current stream record a CUDA graph?"""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _agree(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Are two schedules' results equal up to the rounding of their dtype?"""
    if not a.is_floating_point():
        return torch.equal(a, b)
    tolerance = 0.05 if a.element_size() == 2 else 1e-3
    return torch.allclose(a.float(), b.float(), rtol=tolerance, atol=tolerance, equal_nan=True)


def _fastest(runs: Mapping[Schedule, Callable[[], object]]) -> Schedule:
    counts = {}
    for schedule, run in runs.items():
        counts[schedule] = max(2, min(50, int(_BURST_MS / max(1e-3, _burst(run, 2)))))
    times: dict[Schedule, list[float]] = {s: [] for s in runs}
    order = list(runs)
    for turn in range(_ROUNDS):
        for s in order[turn % len(order) :] + order[: turn % len(order)]:
            times[s].append(_burst(runs[s], counts[s]))
    return min(order, key=lambda s: statistics.median(times[s]))


def _burst(run: Callable[[], object], count: int) -> float:
    """Milliseconds a call, over a few calls back to back."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    run()
    start.record()
    for _ in range(count):
        run()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop)) / count
