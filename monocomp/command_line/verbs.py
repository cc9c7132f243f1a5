"""The verbs of the command line, each from its parsed options to an exit status.

Modules that cost time to import (torch, numpy, the compiler) are imported by the verb that
needs them.
"""

from __future__ import annotations

import io
import keyword
import math
import os
import re
import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from monocomp import library
from monocomp.command_line import files, streams
from monocomp.errors import (
    DeviceError,
    UnsupportedDtypeError,
    UnsupportedError,
    UsageError,
    did_you_mean,
    shorten,
)
from monocomp.plain_files import require_writable, write
from monocomp.stages import Stages

if TYPE_CHECKING:
    from monocomp.declarations import Declarations
    from monocomp.equations import Equations
    from monocomp.gradients.derived import Gradient
    from monocomp.kernel import Kernel
    from monocomp.notes import Notes

OK, FAILED = 0, 1
STANDARD_OUTPUT = (None, "-", "/dev/stdout")  # a file there is written on, not replaced

_DTYPES = {
    **dict.fromkeys(("bf16", "bfloat16"), "bfloat16"),
    **dict.fromkeys(("fp16", "f16", "half", "float16"), "float16"),
    **dict.fromkeys(("fp32", "f32", "float", "float32"), "float32"),
    **dict.fromkeys(("fp64", "f64", "double", "float64"), "float64"),
}
_DTYPES_OF_ONE = {
    **_DTYPES,
    **dict.fromkeys(("e4m3", "float8_e4m3fn"), "float8_e4m3fn"),
    **dict.fromkeys(("e5m2", "float8_e5m2"), "float8_e5m2"),
}

T = TypeVar("T")


# Words to values


def pairs(
    words: Iterable[str], form: str, convert: Callable[[str], T], wanted: str
) -> dict[str, T]:
    """`name=value` words as a dictionary."""
    found: dict[str, T] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"\.?\w+", name, re.ASCII):
            raise UsageError(
                f"'{shorten(word)}' is not of the form {form}",
                help="PROGRAM comes before the options that take several words",
            )
        if name in found:
            raise UsageError(f"'{name}' is given twice")
        try:
            found[name] = convert(value)
        except ValueError:
            raise UsageError(f"'{name}' must be {wanted}, not '{shorten(value)}'") from None
    return found


def _extents(options: Namespace) -> dict[str, int]:
    sizes = pairs(options.extent, "INDEX=SIZE", int, "a whole number")
    for name, size in sizes.items():
        if not 0 <= size < 2**63:
            raise UsageError(f"the extent of '{name}' must lie in 0 to 2**63 - 1")
    return sizes


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if math.isinf(number) and "inf" not in text.lower():
        raise ValueError(text)  # such as 1e400
    return number


def _params(options: Namespace) -> dict[str, int | float]:
    return pairs(options.param, "NAME=VALUE", _number, "a number")


def _refuse_unknown_params(declared: Declarations[Any], params: Mapping[str, Any]) -> None:
    for name in params:
        if name not in declared.params:
            raise UsageError(
                f"the program has no parameter '{name}'",
                notes=(f"parameters: {', '.join(declared.params) or 'none'}",),
                help=did_you_mean(name, declared.params),
            )


def _dtypes(options: Namespace) -> tuple[str | None, dict[str, str]]:
    """From `bf16,K=e4m3,V=e4m3` the dtype of all inputs and those of single ones."""
    words = [] if options.dtype is None else options.dtype.split(",")
    of_all = [w for w in words if "=" not in w]
    if len(of_all) > 1:
        raise UsageError(f"'{shorten(of_all[0])}' and '{shorten(of_all[1])}' for all inputs")
    of_one = pairs([w for w in words if "=" in w], "NAME=TYPE", str, "a dtype")
    named = {name: _dtype(given, _DTYPES_OF_ONE) for name, given in of_one.items()}
    return _dtype(of_all[0], _DTYPES) if of_all else None, named


def _by_input(
    declared: Declarations[Any], dtype: str | None, named: Mapping[str, str]
) -> dict[str, str | None]:
    """The dtype of each input; None: as it comes."""
    for name in named.keys() - declared.inputs.keys():
        raise UsageError(
            f"the program has no input '{name}'",
            notes=(f"inputs: {', '.join(declared.inputs)}",),
        )
    return {name: named.get(name, dtype) for name in declared.inputs}


def _dtype(given: str, known: Mapping[str, str]) -> str:
    if given in known:
        return known[given]
    raise UnsupportedDtypeError(
        f"'{shorten(given)}' is no dtype for inputs",
        notes=("accepted: bf16, fp16, fp32, fp64, and NAME=e4m3 or NAME=e5m2 for one input",),
        help=did_you_mean(given, known),
    )


def _name(options: Namespace) -> str | None:
    given: str | None = options.name
    if given is None:
        return None
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", given) or keyword.iskeyword(given):
        raise UsageError(
            f"'{shorten(given)}' cannot be a kernel's name",
            help="letters, digits and _, at most 64, and no digit first",
        )
    return given


def _equations(options: Namespace, name: str | None = None) -> Equations:
    from monocomp.language.checker import check as checked
    from monocomp.translation import translate

    source = files.read_program(options.program)
    return translate(checked(source.text, name or source.name))


def _compile(options: Namespace, name: str | None = None, **more: Any) -> Kernel:
    return _kernel(_equations(options, name), **more)


def _kernel(equations: Equations, **more: Any) -> Kernel:
    from monocomp.kernel import Kernel

    return Kernel(equations, **more)


def _gradient(options: Namespace, equations: Equations, outputs: Iterable[str] = ()) -> Gradient:
    from monocomp.gradients.derived import gradient

    extents = _extents(options)
    return gradient(equations, options.wrt or None, list(outputs) or None, options.save, extents)


# Output


def _say(text: str) -> None:
    streams.say(text if text.endswith("\n") else text + "\n")


def _deliver(path: str | None, text: str) -> None:
    if path in STANDARD_OUTPUT:
        _say(text)
    else:
        write(path, (text if text.endswith("\n") else text + "\n").encode())


def _require_output(path: str | None, *read: str) -> None:
    """Refuse a place for the output that cannot be written, or that is read, before any work."""
    if path is None or path in STANDARD_OUTPUT:
        return
    require_writable(path)
    for other in read:
        if os.path.isfile(path) and os.path.isfile(other) and os.path.samefile(path, other):
            raise UsageError(
                f"'{path}' is read, so the output cannot replace it",
                help="give -o the name of another file",
            )


# The verbs


def list_programs(options: Namespace) -> int:
    """`monocomp list`."""
    names = library.names()
    width = max(map(len, names))
    _say("\n".join(f"{name:{width}}  {library.about(name)}" for name in names))
    return OK


def emit(options: Namespace) -> int:
    """`monocomp emit`: the source and nothing else."""
    name, extents = _name(options), _extents(options)
    dtype, named = _dtypes(options)
    _require_output(options.output, options.program)
    equations = _equations(options, name)
    if named and dtype is not None:
        floats = [n for n, i in equations.declared.inputs.items() if i.kind == "float"]
        named = {**dict.fromkeys(floats, dtype), **named}
    how = {
        "target": options.target,
        "dtype": named or dtype or "bf16",
        "extents": extents or None,
        "tf32": options.tf32,
        "minimal": options.minimal,
    }
    if options.gradient:
        if options.backend != "triton":
            raise UsageError("gradients are emitted for backend 'triton'")
        source = _gradient(options, equations).source(**how)
    else:
        _refuse_of_gradients(options)
        source = _kernel(equations).source(options.backend, **how)
    _deliver(options.output, source)
    return OK


def grad(options: Namespace) -> int:
    """`monocomp grad`: the gradient as a program, or the program that saves what it reads."""
    found = _gradient(options, _equations(options), options.outputs)
    _deliver(options.output, found.forward.text() if options.forward else f"{found}\n")
    return OK


def explain(options: Namespace) -> int:
    """`monocomp explain`."""
    import monocomp

    extents = _extents(options)
    if options.gradient:
        return _explain_gradient(options)
    _refuse_of_gradients(options)
    kernel = _compile(options, backend=options.backend)
    stages = Stages(kernel, extents)
    if options.html is not None:
        _require_output(options.html, options.program)
    if options.origins and options.stage != "source":
        raise UsageError("--origins goes with --stage source", help="add --stage source")
    looks = (
        (lambda stage: stages.traced() if options.origins else stages[stage], options.stage),
        (stages.before, options.before),
        (stages.after, options.after),
        (lambda _: monocomp.explorer.page(kernel, stages), options.html),
        (lambda name: monocomp.explorer.picture(stages, name), options.picture),
    )
    for look, name in looks:
        if name is not None:
            if options.json or options.steps is not None:
                raise UsageError("--json and --steps are of a derivation, not of one stage")
            _deliver(options.html, look(name))
            return OK
    derivation = kernel.plan(extents).derivation
    if options.steps is not None:
        derivation = derivation.first(options.steps)
    if options.json:
        _say(derivation.to_json())
        return OK
    _say(f"{kernel.summary(extents)}\n\n{derivation}")
    _say_notes(options, kernel.notes(extents))
    return OK


def _say_notes(options: Namespace, notes: Notes) -> None:
    if notes and not options.no_notes:
        _say(f"\n{notes}")


def _explain_gradient(options: Namespace) -> int:
    if options.stage or options.before or options.after or options.origins:
        raise UsageError(
            "a gradient has no stages before it is compiled",
            help="monocomp grad PROGRAM -o grad.mc, then monocomp explain grad.mc",
        )
    derivation = _gradient(options, _equations(options)).derivation
    shown = derivation if options.steps is None else derivation.first(options.steps)
    _say(shown.to_json() if options.json else f"{shown}\n\n{shown.certify()}")
    return OK


def _refuse_of_gradients(options: Namespace) -> None:
    for option in ("wrt", "save"):
        if getattr(options, option):
            raise UsageError(f"--{option} goes with --gradient", help="add --gradient")


def check(options: Namespace) -> int:
    """`monocomp check`: a line for each finding as it comes."""
    from monocomp.command_line.verification import verify
    from monocomp.kernel import Kernel
    from monocomp.notes import Notes

    extents, params = _extents(options), _params(options)
    program = _equations(options)
    _refuse_unknown_params(program.declared, params)
    section, failed = "", False
    for finding in verify(program, extents, params, options.seed):
        if finding.section != section:
            _say(("\n" if section else "") + finding.section)
            section = finding.section
        _say(f"  {finding}")
        failed |= finding.ok is False
    notes = Notes(program.origin.notes, program.origin.text)
    if not failed:
        with suppress(UnsupportedError):  # no kernel computes it, as was said
            notes = Kernel(program).notes(extents)
    _say_notes(options, notes)
    return FAILED if failed else OK


def run(options: Namespace) -> int:
    """`monocomp run`: one line for each output."""
    import torch

    extents, params = _extents(options), _params(options)
    dtype, named = _dtypes(options)
    paths = pairs(options.input, "NAME=FILE", str, "a file")
    if options.random and paths:
        raise UsageError("--random makes every input, so it does not go with --input")
    if extents and not options.random:
        raise UsageError("--extent goes with --random; files have their sizes")
    _require_output(options.output, options.program, *paths.values())
    kernel = _compile(options, backend=options.backend)
    declared = kernel.declared
    _refuse_unknown_params(declared, params)
    if options.random:
        arrays = _random(kernel.equations, extents, params, dtype, options.seed)
    else:
        arrays = {name: files.read_array(path) for name, path in paths.items()}
    dtypes = _by_input(declared, dtype, named)
    results = kernel(**files.tensors(arrays, dtypes, options.backend), **params)
    values = results if isinstance(results, tuple) else (results,)
    outputs: dict[str, Any] = {
        at.name: torch.as_tensor(value) for at, value in zip(declared.outputs, values, strict=True)
    }
    if options.output is not None:
        _save(options.output, outputs)
    _say("\n".join(_summary(name, value) for name, value in outputs.items()))
    return OK


def tune(options: Namespace) -> int:
    """`monocomp tune`: what was chosen, and what a call takes with it."""
    import torch

    from monocomp import schedules
    from monocomp.command_line.progress import Progress

    extents, params = _extents(options), _params(options)
    of_all, named = _dtypes(options)
    dtype = of_all or "bfloat16"
    kernel = _compile(options, backend="triton", tf32=options.tf32)
    _refuse_unknown_params(kernel.declared, params)
    dtypes = _by_input(kernel.declared, dtype, named)
    if not torch.cuda.is_available():
        raise DeviceError(
            "schedules are measured on a GPU, and there is none here",
            help="run it where there is one; -o FILE writes what other machines can use",
        )
    if options.output is not None:
        schedules.require_file(options.output)
    arrays = _random(kernel.equations, extents, params, dtype, options.seed)
    tensors = files.tensors(arrays, dtypes, "triton")
    with Progress() as progress:
        found = kernel.calls.tune(
            (),
            {**tensors, **params},
            seconds=options.seconds,
            candidates=options.candidates,
            progress=progress,
        )
    if options.output is not None and found.entry is not None:
        schedules.add(options.output, [found.entry])
    _say(str(found))
    return OK if found.is_checked else FAILED


def _random(
    equations: Equations,
    extents: Mapping[str, int],
    params: Mapping[str, Any],
    dtype: str | None,
    seed: int,
) -> dict[str, Any]:
    from monocomp.checking.random_inputs import random_inputs
    from monocomp.declarations import by_representative, free_extents

    given = by_representative(equations.declared, extents)
    missing = [name for name in free_extents(equations.declared) if name not in given]
    if missing:
        raise UsageError(
            f"the extent of {', '.join(missing)} is missing",
            help="--extent " + " ".join(f"{name}=..." for name in missing),
        )
    try:
        return random_inputs(equations, extents, dtype=dtype or "float32", seed=seed, params=params)
    except (MemoryError, ValueError) as error:  # more elements than there are addresses
        raise UsageError(f"inputs of these sizes cannot be made: {error}") from None


def _save(path: str, named: Mapping[str, Any]) -> None:
    """A .npz file, as `numpy.savez` writes it, but with any names."""
    import numpy as np

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, value in named.items():
            member = io.BytesIO()
            np.save(member, _array(value), allow_pickle=False)
            archive.writestr(f"{name}.npy", member.getvalue())
    write(path, buffer.getvalue())


def _array(value: Any) -> Any:
    """A tensor as an array; bfloat16, which NumPy lacks, as float32."""
    value = value.detach().cpu()
    return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()


def _summary(name: str, value: Any) -> str:
    shape = "x".join(map(str, value.shape)) or "scalar"
    line = f"{name}  {shape}  {str(value.dtype).removeprefix('torch.')}"
    if value.numel() == 0:
        return f"{line}  empty"
    wide = value.detach().double()
    return f"{line}  mean {wide.mean().item():.6g}  max abs {wide.abs().max().item():.6g}"
