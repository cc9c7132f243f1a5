"""`compile`: from text to a callable kernel.

Compiling checks and derives; kernels are lowered when the first call, or `source`, tells
the sizes. Which backend runs, and why, is in the kernel's repr; nothing is chosen silently.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from monocomp.building import BUILDING
from monocomp.derivation import Derivation
from monocomp.errors import (
    DeviceError,
    InputError,
    UnsupportedDtypeError,
    UnsupportedError,
    UsageError,
    nearest,
)
from monocomp.filters import Filters
from monocomp.language import syntax
from monocomp.language.binding import Binding, bind, signature
from monocomp.language.checker import check
from monocomp.lowering import WHOLE_LIMIT, cut, has_same_elements, lower, packed_extents, split
from monocomp.nominal import nominal_sizes, power_of_two
from monocomp.pipeline import RULE_SETS, complete, derive
from monocomp.program import Equations, translate
from monocomp.proving.proofs import require_program
from monocomp.rewrites.tiling import tiling_steps
from monocomp.rewriting import Step
from monocomp.tile import TileProgram

if TYPE_CHECKING:
    import torch

    from monocomp.backends.triton.launch import TritonRunner
    from monocomp.backends.triton.replay import Plans
    from monocomp.backends.triton.search import Tuning
    from monocomp.certificate import Certificate
    from monocomp.monoids import Monoid

Backend: TypeAlias = Literal["auto", "numpy", "torch", "triton"]
BACKENDS = ("auto", "numpy", "torch", "triton")
DTYPES = {
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
}
_NARROW = ("float8_e4m3fn", "float8_e5m2")
_OF_AN_INPUT = {**DTYPES, **{n: n for n in _NARROW}, "e4m3": _NARROW[0], "e5m2": _NARROW[1]}
_LOADED_BY_TRITON = ("float16", "bfloat16", "float32", *_NARROW)


def compile(
    text_or_path: str | os.PathLike[str],
    *,
    backend: str = "auto",
    checked: bool = False,
    tf32: bool = False,
    name: str | None = None,
    monoids: Iterable[Monoid] = (),
    steps: int | None = None,
    rules: Sequence[str] | None = None,
    processors: int | None = None,
) -> Kernel:
    """Compile a program.

    Args:
        text_or_path: the program's text, or the path of a file that holds it.
        backend: "triton" (CUDA tensors; or CPU tensors with TRITON_INTERPRET=1), "torch"
            (any device), "numpy" (the tile program, interpreted in float64), or "auto":
            triton for CUDA tensors, else torch.
        checked: test every computed subscript at run time (backends torch and numpy).
        tf32: let float32 products use the tf32 units (backend triton).
        name: the kernel's name; a file's stem by default.
        monoids: what `mc.monoid` made, for the program to use by name; a monoid that the
            program declares itself wins.
        steps: stop the derivation after so many steps; only what kernels cannot do without
            is done after that (`pipeline.complete`).
        rules: the names of the rewrite rules to use, in the order in which each rule set
            tries them; all of them in the usual order, unless given (`pipeline.RULES`).
        processors: how many program instances are to run side by side. Where the rows of a
            call are fewer, long streams are cut into parts, and the partial results merged.
            Unless given, it is the number of a GPU's multiprocessors, and 1 elsewhere.

    Raises:
        MonocompError: what is wrong with the program, with its place.
    """
    text, stem = _text(text_or_path)
    program = check(text, name or stem, {m.name: m.statement for m in monoids})
    derived = None  # the kernel's own affair, as it may depend on sizes
    if steps is not None or rules is not None:
        with BUILDING:
            derived = Derivation.of(derive(translate(program), steps, rules))
    return Kernel(
        program,
        backend=backend,
        checked=checked,
        tf32=tf32,
        derivation=derived,
        processors=processors,
    )


def _text(text_or_path: str | os.PathLike[str]) -> tuple[str, str | None]:
    if not isinstance(text_or_path, str):
        return _file(Path(text_or_path))
    if "=" in text_or_path or "\n" in text_or_path or len(text_or_path) > 4096:
        return text_or_path, None
    if text_or_path.endswith(".mc") or os.sep in text_or_path:
        return _file(Path(text_or_path))
    return text_or_path, None


def _file(path: Path) -> tuple[str, str | None]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as fault:
        raise UsageError(
            f"cannot read {str(path)!r}: {fault}",
            help="give a program's text or the path of a file",
        ) from None
    stem = path.stem
    return text, stem if stem.isidentifier() and stem.isascii() else None


class Kernel:
    """A compiled program, callable on tensors.

    Call it with the inputs by position, in the order of their first appearance, or by
    name, and with the parameters by name. It returns one tensor, or a tuple in the order
    of the outputs.
    """

    def __init__(
        self,
        program: syntax.Program,
        *,
        backend: str = "auto",
        checked: bool = False,
        tf32: bool = False,
        derivation: Derivation | None = None,
        processors: int | None = None,
    ) -> None:
        """Derive the kernel, or take it from where a derivation has come to."""
        if backend not in BACKENDS:
            near = nearest(backend, BACKENDS)
            raise UsageError(
                f"unknown backend {backend!r}",
                notes=["backends: " + ", ".join(BACKENDS)],
                help=f"did you mean {near!r}?" if near else None,
            )
        if checked and backend == "triton":
            raise UnsupportedError(
                "backend 'triton' has no checked mode",
                help="check with backend='torch', then run with 'triton'",
            )
        self.program = program
        self.backend = backend
        self.checked = checked
        self.tf32 = tf32
        self.processors = processors
        with BUILDING:
            if derivation is None:
                self._rewriter = derive(translate(program))
            else:
                self._rewriter = derivation.rewriter()
                complete(self._rewriter)
            self.equations: Equations = self._rewriter.start
            require_program(self.equations)
            require_program(self._rewriter.program)
            self._filters = Filters(self.equations)
        self._cuts: dict[tuple[Any, ...], tuple[Equations, list[Step]]] = {}
        self._lowered: dict[tuple[Any, ...], tuple[TileProgram, ...]] = {}
        self._runners: dict[tuple[str, ...], TritonRunner] = {}
        self._plans: Plans | None = None
        self._last: tuple[str, torch.device | None] | None = None

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.program.name or "kernel"

    @cached_property
    def derivation(self) -> Derivation:
        """How the kernel follows from the program, step by step."""
        with BUILDING:
            program, steps = self._cut({})
            steps = [*steps, *tiling_steps(program, self.tile_programs())]
            return Derivation.of(self._rewriter).then(steps)

    @cached_property
    def certificate(self) -> Certificate:
        """What the kernel rests on: laws with their proofs, side conditions, and where."""
        from monocomp.certificate import certify

        with BUILDING:
            return certify(self.derivation)

    def tile_programs(
        self, extents: Mapping[str, int] | None = None, processors: int | None = None
    ) -> tuple[TileProgram, ...]:
        """The kernels as tile programs, in the order in which they run.

        Args:
            extents: sizes that are known, by representative. Others are taken for what
                `nominal_sizes` says where it must be chosen what kernels store.
            processors: as for `compile`; the kernel's own, unless given.
        """
        given = extents or {}
        program, _ = self._cut(given, processors)
        # Beyond that only the side of the limit matters on which a size lies.
        sizes = {e: WHOLE_LIMIT + (n > WHOLE_LIMIT) for e, n in sorted(given.items())}
        key = (program.equations, *sizes.items())
        found = self._lowered.get(key)
        if found is None:
            with BUILDING:
                try:
                    found = self._lowered.setdefault(key, lower(program, sizes))
                except UnsupportedError as error:
                    raise _with_laws(error, program) from None
        return found

    def _cut(
        self, given: Mapping[str, int], processors: int | None = None, divides: bool = True
    ) -> tuple[Equations, list[Step]]:
        """The program in kernels, with what they store for one another, and the steps to it."""
        processors = processors or self.processors or 1
        bucket = {e: power_of_two(n) for e, n in sorted(given.items())}
        key = (processors, divides, *bucket.items())
        found = self._cuts.get(key)
        if found is None:
            sizes = nominal_sizes(self.program, bucket)
            with BUILDING:
                program = self._rewriter.program
                if self._rewriter.depends_on_sizes:
                    program = derive(replace(self.equations, sizes=bucket)).program
                program, steps = cut(program, sizes)
                if processors > 1:
                    program, more = split(program, sizes, processors, divides=divides)
                    steps = [*steps, *more]
                found = self._cuts.setdefault(key, (program, steps))
        if given and not has_same_elements(found[0], given):
            return self._cut(given, processors, divides=False)
        return found

    # --- source -----------------------------------------------------------------------

    def source(
        self,
        backend: str = "triton",
        *,
        target: str | None = None,
        dtype: str | Mapping[str, str] | None = None,
        extents: Mapping[str, int] | None = None,
        tf32: bool | None = None,
    ) -> str:
        """The emitted source.

        Args:
            backend: "triton" for a self-contained Python file; "numpy" and "torch" interpret
                the tile program, whose text they give.
            target: "cuda:80", "cuda:90", "cuda:100", "hip:gfx942", ...: what to choose the
                schedule for.
            dtype: "bf16", "fp16" or "fp32"; or a dtype for each of some inputs by name, which
                may be "e4m3" or "e5m2" as well. Others are "bf16".
            extents: sizes that are known, by index.
            tf32: let float32 products use the tf32 units.
        """
        sizes = self._sizes(extents or {})
        if backend in ("numpy", "torch"):
            return "\n\n".join(map(str, self.tile_programs(sizes))) + "\n"
        if backend != "triton":
            near = nearest(backend, BACKENDS)
            raise UsageError(
                f"unknown backend {backend!r}",
                notes=["backends: numpy, torch, triton"],
                help=f"did you mean {near!r}?" if near else None,
            )
        from monocomp.backends.triton.emit import emit
        from monocomp.backends.triton.schedule import processors_of
        from monocomp.backends.triton.space import Space, element_bytes

        _check_target(target)
        dtypes = self._dtypes(dtype or "bf16")
        widths = {n: 4 if d == "float32" else 2 for n, d in dtypes.items()}
        processors = self.processors or processors_of(target)
        kernels = self.tile_programs(sizes, processors)
        program, steps = self._cut(sizes, processors)
        sizes = packed_extents(program, sizes)
        with BUILDING:
            derivation = Derivation.of(self._rewriter)
            steps = [*steps, *tiling_steps(program, kernels)]
            module = emit(
                self.equations,
                kernels,
                [
                    Space(k, sizes, element_bytes(k, widths), target, processors).first()
                    for k in kernels
                ],
                lowered=program,
                outline=derivation.then(steps).outline(),
                precision="tf32" if (self.tf32 if tf32 is None else tf32) else "ieee",
                target=target,
                narrow={n: d for n, d in dtypes.items() if d in _NARROW},
            )
        return module.source

    def _dtypes(self, dtype: str | Mapping[str, str]) -> dict[str, str]:
        """The dtypes of the float inputs."""
        floats = [n for n, i in self.program.inputs.items() if i.kind == "float"]
        if isinstance(dtype, str):
            return dict.fromkeys(floats, _dtype_name(dtype, DTYPES))
        for name in dtype:
            if name not in floats:
                near = nearest(name, floats)
                raise UsageError(
                    f"the program has no input of floats {name!r}",
                    notes=[f"its inputs of floats: {', '.join(floats) or 'none'}"],
                    help=f"did you mean {near!r}?" if near else None,
                )
        given = {n: _dtype_name(d, _OF_AN_INPUT) for n, d in dtype.items()}
        return {**dict.fromkeys(floats, "bfloat16"), **given}

    def _sizes(self, extents: Mapping[str, int]) -> dict[str, int]:
        """Extents by representative, from extents by any index name."""
        sizes: dict[str, int] = {}
        for name, size in extents.items():
            if name not in self.program.extent_of:
                near = nearest(name, self.program.extent_of)
                known = ", ".join(n for n in self.program.extent_of if not n.startswith("."))
                raise UsageError(
                    f"the program has no index {name!r}",
                    notes=[f"its indices: {known}"],
                    help=f"did you mean {near!r}?" if near else None,
                )
            if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                raise UsageError(f"the extent of {name!r} is {size!r}, not a number of entries")
            sizes[self.program.extent_of[name]] = size
        return sizes

    def report(self, extents: Mapping[str, int] | None = None) -> dict[str, Any]:
        """What the kernels do: passes over each index, number of kernels, and the cost.

        Returns "passes" (index -> how often it is streamed), "kernels", and "flops", "bytes"
        (through device memory, at two bytes an element) and "state" (numbers carried for
        each row of the output): numbers where all extents are known, else sympy formulas.
        """
        from monocomp.report import report

        sizes = self._sizes(extents or {})
        return report(self.tile_programs(sizes), sizes)

    def __repr__(self) -> str:
        reasons = {
            "auto": "triton for CUDA tensors, torch for others",
            "numpy": "numpy, the tile program interpreted in float64",
            "torch": "torch, the tile program interpreted",
            "triton": "triton, emitted source",
        }
        last = ""
        if self._last is not None:
            backend, device = self._last
            last = f"; last ran on {backend}" + (f" ({device})" if device is not None else "")
        outputs = ", ".join(o.name for o in self.program.outputs)
        inputs = ", ".join(self.program.inputs)
        return f"<Kernel {self.name}({inputs}) -> {outputs}; backend {reasons[self.backend]}{last}>"

    # --- running ----------------------------------------------------------------------

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel; see the class."""
        if self._plans is not None:
            values = {**dict(zip(self.program.inputs, args, strict=False)), **kwargs}
            plan = self._plans.find(values) if len(values) == len(args) + len(kwargs) else None
            if plan is not None:
                self._last = "triton", plan.device
                return _unpacked(plan(values))
        inputs, params, binding = self._bound(args, kwargs)
        if self.backend == "numpy":
            results = self._run_numpy(inputs, binding)
        else:
            results = self._run_torch_tensors(inputs, params, binding)
        return _unpacked(results)

    def tune(
        self,
        /,
        *args: Any,
        seconds: float = 20.0,
        candidates: int = 12,
        progress: Callable[[str, int, int], None] = lambda *_: None,
        **kwargs: Any,
    ) -> Tuning:
        """Search schedules for calls with these inputs, and remember the best.

        Candidates are compiled, checked, and timed on the GPU. Calls on the same kind of device,
        with the same dtypes and with sizes that round up to the same powers of two take what
        was found, also in later processes (see `mc.schedules`). An interruption ends the search
        with the best so far.

        Args:
            args, kwargs: inputs and parameters, as for a call.
            seconds: how long the search may take.
            candidates: how many schedules of each kernel to try.
            progress: called with what is being done, a candidate's number, and of how many.

        Raises:
            DeviceError: the inputs are not on a GPU.
            UnsupportedError: no candidate fits the GPU.
        """
        import torch

        if not seconds > 0 or candidates < 1:
            raise UsageError("a search takes more than 0 seconds and at least 1 candidate")
        inputs, _, binding = self._bound(args, kwargs)
        _check_tensors(inputs, torch)
        device = next((t.device for t in inputs.values()), torch.device("cpu"))
        if device.type != "cuda" or self._backend_for(device) != "triton":
            raise DeviceError(
                "schedules are searched for backend 'triton' on a GPU, and this call runs on "
                f"{self._backend_for(device)} ({device})",
                help="move the inputs to the GPU",
            )
        runner = self._runner(inputs, binding)
        extents = packed_extents(runner.program, binding.extents)
        found = runner.tune(
            inputs,
            binding.params,
            extents,
            seconds=seconds,
            candidates=candidates,
            progress=progress,
        )
        self._plans = None  # they launch what was chosen before
        return found

    def _bound(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, object], Binding]:
        """The inputs and parameters of a call by name, checked, and the sizes."""
        inputs, params = signature(self.program, args, kwargs)
        shapes = {n: _shape(n, t) for n, t in inputs.items()}
        binding = bind(self.program, shapes, params)
        _check_params(binding.params)
        if not self._filters.have_admitted(binding.params):
            with BUILDING:
                self._filters.check(binding.params)
        for name, tensor in inputs.items():
            _check_dtype(self.program.inputs[name], tensor)
        return inputs, params, binding

    def _run_numpy(self, inputs: Mapping[str, Any], binding: Binding) -> tuple[Any, ...]:
        import numpy as np

        from monocomp.backends import numpy as backend

        arrays = {n: np.asarray(_host_array(t)) for n, t in inputs.items()}
        dtypes: dict[str, Any] = {"float": np.float64, "int": np.int64, "bool": np.bool_}
        outputs: dict[str, Any] = {}
        extents = self._all_extents(inputs, binding)
        for kernel in self.tile_programs(binding.extents):
            for o in kernel.outputs:
                shape = [extents[kernel.axes[a].extent] for a in o.axes]
                outputs[o.name] = np.zeros(shape, dtypes[o.kind])
            backend.run(
                kernel,
                {**arrays, **outputs},
                outputs,
                extents,
                binding.params,
                checked=self.checked,
            )
        self._last = "numpy", None
        return self._cut(binding.extents)[0].results(outputs, binding.extents)

    def _run_torch_tensors(
        self, inputs: Mapping[str, Any], params: Mapping[str, object], binding: Binding
    ) -> tuple[torch.Tensor, ...]:
        import torch

        _check_tensors(inputs, torch)
        device = next(iter(inputs.values())).device if inputs else torch.device("cpu")
        backend = self._backend_for(device)
        if backend == "triton":
            return self._run_triton(inputs, params, binding)
        from monocomp.backends import torch as torch_backend

        dtype = _promoted(inputs, torch)
        outputs = torch_backend.run_all(
            self.tile_programs(binding.extents),
            inputs,
            self._all_extents(inputs, binding),
            binding.params,
            dtype,
            checked=self.checked,
        )
        self._last = "torch", device
        return self._cut(binding.extents)[0].results(outputs, binding.extents)

    def _all_extents(self, inputs: Mapping[str, Any], binding: Binding) -> dict[str, int]:
        """The extents of a call, also of parts: one for each processor."""
        program, _ = self._cut(binding.extents)
        if not program.parts and not program.views:
            return binding.extents
        counts = dict.fromkeys(program.parts.values(), self.processors)
        shapes = {n: tuple(t.shape) for n, t in inputs.items()}
        return bind(program.source, shapes, {**binding.params, **counts}).extents

    def _backend_for(self, device: torch.device) -> str:
        if self.backend != "auto":
            return self.backend
        has_triton = importlib.util.find_spec("triton") is not None
        return "triton" if device.type == "cuda" and has_triton and not self.checked else "torch"

    def _run_triton(
        self, inputs: Mapping[str, torch.Tensor], params: Mapping[str, object], binding: Binding
    ) -> tuple[torch.Tensor, ...]:
        from monocomp.backends.triton.replay import Plans

        runner = self._runner(inputs, binding)
        if self._plans is None:
            self._plans = Plans(self.program, self._filters.params)
        values = {**inputs, **params}
        varying = self._plans.varying(values)
        extents = packed_extents(runner.program, binding.extents)
        results, plan = runner(inputs, binding.params, extents, varying)
        if plan is not None:
            self._plans.keep(values, plan)
        self._last = "triton", next(iter(inputs.values())).device
        return results

    def _runner(self, inputs: Mapping[str, torch.Tensor], binding: Binding) -> TritonRunner:
        from monocomp.backends.triton.emit import Module, emit
        from monocomp.backends.triton.launch import TritonRunner, interpreted, multiprocessors
        from monocomp.backends.triton.schedule import Schedule

        for name, tensor in inputs.items():
            if tensor.is_floating_point() and str(tensor.dtype)[6:] not in _LOADED_BY_TRITON:
                raise UnsupportedDtypeError(
                    f"backend 'triton' cannot load {name} with dtype {str(tensor.dtype)[6:]}",
                    notes=["supported inputs: " + ", ".join(_LOADED_BY_TRITON)],
                    help=f"convert it, {name}.to(torch.float32), or compile with backend='torch'",
                )
        if not inputs:
            raise UnsupportedError(
                "backend 'triton' needs an input tensor, to know which GPU to run on",
                help="compile with backend='torch'",
            )
        device = next(iter(inputs.values())).device
        if device.type != "cuda" and not interpreted():
            raise DeviceError(
                f"backend 'triton' needs CUDA tensors, and these are on {device}",
                help="move them to the GPU, use backend='torch', or set TRITON_INTERPRET=1",
            )
        processors = self.processors
        if processors is None and device.type == "cuda" and not interpreted():
            processors = multiprocessors(device)
        kernels = self.tile_programs(binding.extents, processors)
        program, _ = self._cut(binding.extents, processors)
        precision = "tf32" if self.tf32 else "ieee"
        narrow = {n: str(t.dtype)[6:] for n, t in inputs.items() if _is_narrow(t)}
        key = (str(len(kernels)), *(str(id(k)) for k in kernels), *map(str, narrow.items()))
        runner = self._runners.get(key)
        if runner is None:
            _check_conversion(device, narrow)
            outline = self.derivation.outline()

            def write(schedules: Sequence[Schedule]) -> Module:
                with BUILDING:
                    return emit(
                        self.equations,
                        kernels,
                        schedules,
                        lowered=program,
                        outline=outline,
                        precision=precision,
                        narrow=narrow,
                    )

            runner = TritonRunner(program, kernels, write, precision, self.processors)
            runner = self._runners.setdefault(key, runner)
        return runner


def _check_params(params: Mapping[str, int | float]) -> None:
    for name, value in params.items():
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            shown = str(value) if value.bit_length() < 128 else f"of {value.bit_length()} bits"
            raise InputError(
                f"parameter '{name}' is {shown}, and kernels take integers of 64 bits",
                help=f"give {name} a value from -2**63 to 2**63 - 1",
            )


def _with_laws(error: UnsupportedError, program: Equations) -> UnsupportedError:
    """The error with the rules that would have helped, but for a law that is not proved."""
    from monocomp.refusals import unproved

    refused = [f"{r.rule}: {r}" for at in RULE_SETS for r in unproved(program, at)]
    notes = [*error.notes, *dict.fromkeys(refused)]
    return UnsupportedError(error.message, notes=notes, help=error.help)


def _unpacked(results: tuple[Any, ...]) -> Any:
    return results[0] if len(results) == 1 else results


def _shape(name: str, tensor: Any) -> tuple[int, ...]:
    layout = "nested" if getattr(tensor, "is_nested", False) else getattr(tensor, "layout", None)
    if layout is not None and str(layout) != "torch.strided":
        raise InputError(
            f"input {name} has the layout {str(layout).removeprefix('torch.')}",
            help=f"pass a dense tensor, such as {name}.to_dense()",
        )
    shape = getattr(tensor, "shape", None)
    if shape is None:
        raise InputError(
            f"input {name} is a {type(tensor).__name__}, not a tensor",
            help="pass torch tensors, or NumPy arrays with backend='numpy'",
        )
    return tuple(int(n) for n in shape)


def _host_array(tensor: Any) -> Any:
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        return tensor.double().numpy() if tensor.is_floating_point() else tensor.numpy()
    return tensor


_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "bool")
_FLOATS = ("float16", "bfloat16", "float32", "float64", *_NARROW)


def _check_dtype(declared: syntax.Input, tensor: Any) -> None:
    """A dtype that is supported, of the kind that the program needs."""
    name = declared.name
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in (*_INTEGERS, *_FLOATS):
        raise UnsupportedDtypeError(
            f"cannot load {name} with dtype {dtype}",
            notes=["supported inputs: " + ", ".join((*_FLOATS, *_INTEGERS))],
            help=f"convert it first: {name}.to(torch.float32)",
        )
    kind = "float" if dtype in _FLOATS else "bool" if dtype == "bool" else "int"
    if kind != declared.kind:
        to = {"float": "torch.float32", "int": "torch.int64", "bool": "torch.bool"}[declared.kind]
        raise UnsupportedDtypeError(
            f"input {name} has dtype {dtype}, and the program needs {declared.kind}",
            help=f"convert it, {name}.to({to}), or declare it in the program: "
            f"input {name}[{','.join(d.lstrip('.') for d in declared.dims)}]: {kind}",
        )


def _check_conversion(device: torch.device, narrow: Mapping[str, str]) -> None:
    """Before compute capability 8.9 there is no instruction that converts from e4m3."""
    import torch

    if device.type != "cuda" or torch.version.hip is not None or _NARROW[0] not in narrow.values():
        return
    major, minor = torch.cuda.get_device_capability(device)
    if (major, minor) < (8, 9):
        name = next(n for n, d in narrow.items() if d == _NARROW[0])
        raise UnsupportedDtypeError(
            f"cannot load {name} with dtype {_NARROW[0]} on a GPU of compute capability "
            f"{major}.{minor}",
            notes=["it takes 8.9 or more"],
            help=f"convert it, {name}.to(torch.bfloat16), or use torch.{_NARROW[1]}",
        )


def _check_tensors(inputs: Mapping[str, Any], torch: Any) -> None:
    """Torch tensors on one device, and no gradient that would be lost."""
    devices: dict[str, str] = {}
    for name, tensor in inputs.items():
        if not isinstance(tensor, torch.Tensor):
            raise InputError(
                f"input {name} is a {type(tensor).__name__}, not a torch tensor",
                help=f"convert it, torch.as_tensor({name}), or compile with backend='numpy'",
            )
        devices[name] = str(tensor.device)
        if tensor.requires_grad and torch.is_grad_enabled():
            raise UnsupportedError(
                f"input {name} requires a gradient, and no gradient is derived yet",
                help=f"call under torch.no_grad(), or pass {name}.detach()",
            )
    if len(set(devices.values())) > 1:
        listed = ", ".join(f"{n} on {d}" for n, d in devices.items())
        raise DeviceError(
            "the inputs are on different devices",
            notes=[listed],
            help="move them to one device with .to(device)",
        )
    if "meta" in devices.values():
        raise DeviceError(
            "the inputs are on device meta, where tensors have no elements",
            help="move them to a GPU or to the CPU",
        )


def _promoted(inputs: Mapping[str, torch.Tensor], torch: Any) -> torch.dtype:
    """The dtype of outputs. Floats of 8 bits have no say: the results of a program need more.
    If there are no others it is bfloat16, which has all their values."""
    floats = [t for t in inputs.values() if t.is_floating_point()]
    found = None
    for tensor in floats:
        if not _is_narrow(tensor):
            found = tensor.dtype if found is None else torch.promote_types(found, tensor.dtype)
    if found is None:
        found = torch.bfloat16 if floats else torch.float32
    return found


def _is_narrow(tensor: Any) -> bool:
    """Is this a tensor of floats of 8 bits?"""
    return str(tensor.dtype).removeprefix("torch.") in _NARROW


def _dtype_name(name: str, known: Mapping[str, str]) -> str:
    if name not in known:
        near = nearest(name, known)
        raise UnsupportedDtypeError(
            f"backend 'triton' has no dtype {name!r}",
            notes=["supported: bf16, fp16, fp32, and e4m3, e5m2 for inputs by name"],
            help=f"did you mean {near!r}?" if near else None,
        )
    return known[name]


def _check_target(target: str | None) -> None:
    if target is None:
        return
    kind, _, arch = target.partition(":")
    fine = (kind == "cuda" and arch.isdigit() and len(arch) <= 3) or (
        kind == "hip" and arch.startswith("gfx") and arch.isalnum() and len(arch) <= 8
    )
    if not fine:
        raise UsageError(
            f"unknown target {target!r}",
            notes=["targets: cuda:80, cuda:90, cuda:100, hip:gfx942, ..."],
            help="write cuda: and the compute capability without its point",
        )
