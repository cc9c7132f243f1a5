"""`compile`: from text to a callable kernel.

Compiling checks and derives; kernels are lowered when the first call, or `source`, tells
the sizes. Which backend runs, and why, is in the kernel's repr; nothing is chosen silently.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from monocomp.backends.dialects import DIALECTS
from monocomp.calls.calls import Calls
from monocomp.declarations.assignments import as_names
from monocomp.declarations.dtypes import dtypes_of
from monocomp.declarations.records import Declarations, Input, Origin, by_representative
from monocomp.derivation.derivation import Derivation
from monocomp.display.notes import Notes
from monocomp.display.rendering import Rendered
from monocomp.errors import (
    MonocompError,
    UnsupportedError,
    UsageError,
    keeps_traceback,
    require_known,
)
from monocomp.host.slow_products import slow_products
from monocomp.machine.locking import BUILDING
from monocomp.planning.notes import notes_on, summary
from monocomp.planning.plan import Plan, Planner
from monocomp.source import Emission
from monocomp.stages import Stages
from monocomp.terms import Term
from monocomp.terms.equations import Equations
from monocomp.tile import TileProgram
from monocomp.translation.programs import read_equations

if TYPE_CHECKING:
    import torch

    from monocomp.backends.schedules.search import Tuning
    from monocomp.derivation.certificate import Certificate
    from monocomp.language.parser import HasText
    from monocomp.translation.declared_monoids import Monoid

INTERPRETED = ("numpy", "torch")  # the backends that take tile programs as they are


def compile(
    text_or_path: str | os.PathLike[str] | HasText | Derivation,
    *,
    backend: str = "auto",
    checked: bool = False,
    tf32: bool = False,
    deterministic: bool = False,
    name: str | None = None,
    monoids: Iterable[Monoid] = (),
    steps: int | None = None,
    rules: Sequence[str] | None = None,
    processors: int | None = None,
    save: str | Sequence[str] | None = None,
) -> Kernel:
    """Compile a program.

    Args:
        text_or_path: the program's text, or the path of a file that holds it, or a gradient, or
            a derivation, whose last step is taken as it is.
        backend: "triton" (CUDA tensors; or CPU tensors with TRITON_INTERPRET=1), "gluon" (Hopper,
            products of 16 bits whose operands descriptors can load), "torch" (any device), "numpy"
            (the tile program, interpreted in float64), or "auto": for CUDA tensors triton, or
            gluon where the first call of a kind has measured it to be faster; else torch.
        checked: test every computed subscript at run time (backends torch and numpy).
        tf32: let float32 products use the tf32 units (backend triton).
        deterministic: let results have the same bits each time. Otherwise kernels in Gluon may add
            to memory in any order what others would compute once more, as those of gradients do
            where a first call has measured that to be faster.
        name: the kernel's name; a file's stem by default.
        monoids: what `mc.monoid` made, for the program to use by name; a monoid that the
            program declares itself wins.
        steps: stop the derivation after so many steps; only what kernels cannot do without
            is done after that (`rule_sets.complete`).
        rules: the names of the rewrite rules to use, in the order in which each rule set
            tries them; all of them in the usual order, unless given (`rule_sets.RULES`).
        processors: how many program instances are to run side by side. Where the rows of a
            call are fewer, long streams are cut into splits, and the partial results merged.
            Unless given, it is the number of a GPU's multiprocessors, and 1 elsewhere.
        save: what calls with gradients keep of the program's values, by name (as for `grad`).

    Raises:
        MonocompError: what is wrong with the program, with its position.

    Warns:
        MonocompWarning: of what `Kernel.notes` says of the text.
    """
    try:
        with BUILDING:
            kernel = Kernel(
                **_arguments(text_or_path, name, monoids),
                backend=backend,
                checked=checked,
                tf32=tf32,
                deterministic=deterministic,
                steps=steps,
                rules=rules,
                processors=processors,
                save=as_names(save),
            )
    except MonocompError as error:
        if keeps_traceback(error):
            raise
        raise error.with_traceback(None) from None
    _warn_of_notes(kernel, text_or_path)
    return kernel


def _arguments(
    program: str | os.PathLike[str] | HasText | Derivation,
    name: str | None,
    monoids: Iterable[Monoid],
) -> Mapping[str, Any]:
    """Return the arguments of a kernel that follow from its program."""
    if isinstance(program, Derivation):
        return program.compiled
    return {"equations": read_equations(program, name, monoids)}


def _warn_of_notes(kernel: Kernel, program: str | os.PathLike[str] | HasText | Derivation) -> None:
    """Warn of what notes say of a program that its user wrote, unlike one that was derived."""
    if isinstance(program, str | os.PathLike):
        kernel.calls.announcer.tell(kernel.program.notes, kernel.program.text)


def _compiled(text: str, name: str | None, options: Mapping[str, Any]) -> Kernel:
    return Kernel(read_equations(text, name), **options)


def _signature(declared: Declarations[Any]) -> Signature:
    """Return the signature of a kernel: inputs with their kinds and dimensions, then parameters."""
    how = Parameter.POSITIONAL_OR_KEYWORD if declared.has_order else Parameter.KEYWORD_ONLY
    inputs = [
        Parameter(name, how, annotation=_annotated(at)) for name, at in declared.inputs.items()
    ]
    params = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if at.default is None else at.default,
            annotation=at.kind,
        )
        for name, at in declared.params.items()
    ]
    return Signature([*inputs, *params])


def _annotated(at: Input) -> str:
    dims = ",".join("_" if dim.startswith(".") else dim for dim in at.dims)
    return f"{at.kind}[{dims}]"


class Kernel(Rendered):
    """A compiled program, callable on tensors.

    Call it with inputs and parameters by name. Where `input` lines declare all inputs, or there is
    one alone, inputs may also be given by position, in the order of their declarations. It returns
    one tensor, or a tuple in the order of the outputs.
    """

    def __init__(
        self,
        equations: Equations,
        *,
        backend: str = "auto",
        checked: bool = False,
        tf32: bool = False,
        deterministic: bool = False,
        derivation: Derivation | None = None,
        steps: int | None = None,
        rules: Sequence[str] | None = None,
        processors: int | None = None,
        save: Sequence[str] | None = None,
    ) -> None:
        """Derive the kernel from equations as they are written, or take it from where a derivation
        has come to. Where sizes matter it is derived for them."""
        known = "auto", *INTERPRETED, *DIALECTS
        require_known(backend, known, f"unknown backend {backend!r}", "backends")
        if checked and backend in DIALECTS:
            raise UnsupportedError(
                f"backend '{backend}' has no checked mode",
                help=f"check with backend='torch', then run with '{backend}'",
            )
        self.equations = equations  # as they are written
        self.backend = backend
        self.checked = checked
        self.tf32 = tf32
        self.deterministic = deterministic
        self.processors = processors
        self.planner = Planner(
            equations, derivation, steps=steps, rules=rules, processors=processors
        )
        self.save = None if save is None else tuple(save)
        # Torch takes long to import, and a call to look it up.
        torch = sys.modules.get("torch")
        self._is_traced = torch.compiler.is_dynamo_compiling if torch else _is_traced
        self.calls = Calls(
            self.planner,
            backend,
            checked=checked,
            tf32=tf32,
            deterministic=deterministic,
            save=self.save,
        )
        with suppress(ValueError):  # a name may be a word of Python
            self.__signature__ = _signature(self.declared)

    @property
    def program(self) -> Origin:
        """Return the text that it computes."""
        return self.equations.origin

    @property
    def declared(self) -> Declarations[Term]:
        """Return its inputs, parameters, extents and outputs."""
        return self.equations.declared

    @property
    def name(self) -> str:
        """Return the kernel's name."""
        return self.program.name or "kernel"

    @property
    def derivation(self) -> Derivation:
        """Return the derivation: how the kernel follows from the program, step by step."""
        return self.plan().derivation

    @property
    def certificate(self) -> Certificate:
        """Return what the kernel rests on: laws with their proofs, side conditions, and where they
        are used. For known sizes that may be other laws: `plan(extents).certificate`."""
        return self.plan().certificate

    def plan(self, extents: Mapping[str, int] | None = None, processors: int | None = None) -> Plan:
        """Return the plan: what the kernels compute, the steps that led there, and why.

        Args:
            extents: sizes that are known, by index. Others are taken for what
                `nominal_sizes` says where it must be chosen what kernels store.
            processors: as for `compile`; the kernel's own, unless given.
        """
        return self.planner.plan(by_representative(self.declared, extents or {}), processors)

    def tile_programs(
        self, extents: Mapping[str, int] | None = None, processors: int | None = None
    ) -> tuple[TileProgram, ...]:
        """Return the kernels of the plan, in the order in which they run; extents by
        representative."""
        return self.planner.plan(extents, processors).kernels

    def notes(
        self,
        extents: Mapping[str, int] | None = None,
        dtype: str | Mapping[str, str] | None = None,
    ) -> Notes:
        """Return notes on what may surprise: in the text's meaning, and in what the plan stores.

        Args:
            extents: sizes that are known, by index.
            dtype: of inputs, as for `source`; if it is given, products slow in it are noted.
        """
        plan = self.plan(extents)
        notes = notes_on(plan)
        if dtype is None:
            return notes
        dtypes = dtypes_of(self.declared, dtype)
        return Notes((*notes, *slow_products(self.equations, plan, dtypes, self.tf32)), notes.text)

    def summary(self, extents: Mapping[str, int] | None = None) -> str:
        """Summarise the kernel in one line: passes, how operations grow, what is stored."""
        return summary(self.plan(extents))

    @property
    def stages(self) -> Stages:
        """Return every stage from equations to source, as text: `kernel.stages["tile"]`, for
        sizes `kernel.stages.at(q=4096)["plan"]`, around a pass `kernel.stages.after("peel")`."""
        return Stages(self)

    @property
    def is_interpreted(self) -> bool:
        """True if its backend takes the tile program as it is."""
        return self.backend in INTERPRETED

    @property
    def language(self) -> str:
        """Return the backend whose source runs on a GPU."""
        return self.calls.language

    # --- source -----------------------------------------------------------------------

    def source(
        self,
        backend: str | None = None,
        *,
        target: str | None = None,
        dtype: str | Mapping[str, str] | None = None,
        extents: Mapping[str, int] | None = None,
        tf32: bool | None = None,
        minimal: bool = False,
    ) -> str:
        """Return the emitted source.

        Args:
            backend: "triton" or "gluon" for a self-contained Python file; "numpy" and "torch"
                interpret the tile program, whose text they give. Unless given, "gluon" for a
                kernel of that backend, and "triton" for others.
            target: "cuda:80", "cuda:90", "hip:gfx942", "h100", "sm_90", ...: what to choose the
                schedule for.
            dtype: "bf16", "fp16" or "fp32"; or a dtype for each of some inputs by name, which
                may be "e4m3" or "e5m2" as well. Others are "bf16".
            extents: sizes that are known, by index.
            tf32: let float32 products use the tf32 units.
            minimal: leave out the self-check, and what the launcher looks at in each call: a file
                for these extents, which are constants in it, and for tensors whose last
                dimensions have no gaps (backend "triton").
        """
        sizes = by_representative(self.declared, extents or {})
        backend = self.language if backend is None else backend
        if minimal and backend != "triton":
            raise UsageError("only the source for backend 'triton' has a minimal form")
        known = *INTERPRETED, *DIALECTS
        require_known(backend, known, f"unknown backend {backend!r}", "backends")
        if backend in INTERPRETED:
            for what, value in (("target", target), ("dtype", dtype), ("tf32", tf32)):
                if value is not None:
                    raise UsageError(
                        f"backend '{backend}' interprets the tile program, which has no {what}",
                        help=f"leave out {what}, or take the source for one of "
                        f"{', '.join(DIALECTS)}",
                    )
            return "\n\n".join(map(str, self.tile_programs(sizes))) + "\n"
        tf32 = self.tf32 if tf32 is None else tf32
        how = dtype or "bf16", target, backend, tf32, minimal
        return Emission(self.planner, sizes, *how).module().source

    def report(self, extents: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Return what the kernels do: passes over each index, number of kernels, and the cost.

        The report has "passes" (index -> how often it is streamed), "kernels", "flops", "bytes"
        (through device memory, at two bytes an element) and "state" (numbers carried for each row
        of the output). The last three are numbers if all extents are known, else sympy formulas.
        """
        return self.plan(extents).report(by_representative(self.declared, extents or {}))

    def __repr__(self) -> str:
        reasons = {
            "auto": "triton or gluon for CUDA tensors, torch for others",
            "numpy": "numpy, the tile program interpreted in float64",
            "torch": "torch, the tile program interpreted",
        }
        reason = reasons.get(self.backend, f"{self.backend}, emitted source")
        last = ""
        if self.calls.last is not None:
            backend, device, why = self.calls.last
            last = f"; last ran on {backend}" + (f" ({device})" if device is not None else "")
            last += f", {why}" if why else ""
        outputs = ", ".join(o.name for o in self.declared.outputs)
        inputs = ", ".join(self.declared.inputs)
        return f"<Kernel {self.name}({inputs}) -> {outputs}; backend {reason}{last}>"

    # --- running ----------------------------------------------------------------------

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel; see the class."""
        if self._is_traced() and self.backend != "numpy":
            from monocomp.calls.dynamo import traced

            return traced(self.calls.key, args, kwargs)
        try:
            return self.calls.run(args, kwargs)
        except MonocompError as error:
            if keeps_traceback(error):
                raise
            raise error.with_traceback(None) from None

    def __deepcopy__(self, memo: object) -> Kernel:
        """Return the kernel itself: calls do not change what it computes."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Return its text and options, which compile to the same kernel."""
        options = {
            "backend": self.backend,
            "checked": self.checked,
            "tf32": self.tf32,
            "deterministic": self.deterministic,
            "steps": self.planner.steps,
            "rules": self.planner.rules,
            "processors": self.processors,
            "save": self.save,
        }
        return _compiled, (self.equations.written(), self.program.name, options)

    @property
    def operator(self) -> torch._ops.OpOverload:
        """Return the operator of torch by which programs that have been traced call it,
        registered: before one is loaded that another process has exported."""
        from monocomp.calls.operators import operator

        return operator(self.calls, {}).overload

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
            UsageError: the program uses the name of an argument that is not its own.
        """
        for name in ("seconds", "candidates", "progress"):
            if name in self.declared.params or name in self.declared.inputs:
                raise UsageError(
                    f"the program's '{name}' and the argument '{name}' of tune have one name",
                    help="give the one in the program another name, or use `monocomp tune`",
                )
        return self.calls.tune(
            args, kwargs, seconds=seconds, candidates=candidates, progress=progress
        )


def _is_traced() -> bool:
    """True if Dynamo traces this call."""
    import torch

    return torch.compiler.is_dynamo_compiling()
