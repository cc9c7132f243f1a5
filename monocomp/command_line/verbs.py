"""The verbs of the command line, each from its parsed options to an exit status.

Modules that cost time to import (torch, numpy, the compiler) are imported by the verb that
needs them.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from argparse import Namespace
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from monocomp.command_line import files, streams, words
from monocomp.errors import DeviceError, UnsupportedError, UsageError
from monocomp.machine.plain_files import require_writable, write
from monocomp.stages import Stages

if TYPE_CHECKING:
    from monocomp.display.notes import Notes
    from monocomp.gradients.derived import Gradient
    from monocomp.kernel import Kernel
    from monocomp.terms.equations import Equations

OK, FAILED = 0, 1
_USUAL = {"grid": 2, "row": 1024, "stream": 1024}  # sizes where none are given, by role
STANDARD_OUTPUT = (None, "-", "/dev/stdout")  # a file there is written on, not replaced


def _equations(options: Namespace, name: str | None = None) -> Equations:
    from monocomp.language.checker import check as checked
    from monocomp.translation.translator import translate

    source = files.read_program(options.program)
    return translate(checked(source.text, name or source.name))


def _compile(options: Namespace, **more: Any) -> Kernel:
    return _kernel(_equations(options), **more)


def _kernel(equations: Equations, **more: Any) -> Kernel:
    from monocomp.kernel import Kernel

    return Kernel(equations, **more)


def _gradient(options: Namespace, equations: Equations, outputs: Iterable[str] = ()) -> Gradient:
    from monocomp.gradients.derived import gradient

    extents = words.extents(options)
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


def emit(options: Namespace) -> int:
    """`monocomp emit`: the source and nothing else."""
    name, extents = words.kernel_name(options), words.extents(options)
    dtype, named = words.dtypes(options)
    _require_output(options.output, options.program)
    equations = _equations(options, name)
    if named and dtype is not None:
        floats = [n for n, i in equations.declared.inputs.items() if i.kind == "float"]
        named = {**dict.fromkeys(floats, dtype), **named}
    if options.form != "source":
        if options.gradient:
            raise UsageError(
                "--form is of a program, and --gradient of two", help="take one of them"
            )
        _refuse_of_gradients(options)
        made = _machine_code(_kernel(equations), options, named or dtype or "bf16")
        _deliver(options.output, made)
        return OK
    if options.json:
        raise UsageError("--json goes with --form", help="source is text; add --form ptx, say")
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


def _machine_code(kernel: Kernel, options: Namespace, dtype: str | Mapping[str, str]) -> str:
    """The kernels as Triton compiles them for a target, and what they take of it."""
    from monocomp.declarations.records import by_representative
    from monocomp.source import machine_code

    if options.minimal:
        raise UsageError("--minimal is of source, and --form of what is made of it")
    target = options.target or "cuda:90"
    known = by_representative(kernel.declared, words.extents(options))
    found, sizes = machine_code(
        options.backend, kernel.planner, known, dtype, target, options.form, tf32=options.tf32
    )
    if options.json:
        kernels = [{**asdict(k.usage), "name": k.name, "warps": k.warps} for k in found]
        texts = {k.name: k.text for k in found}
        about = {"target": target, "form": options.form, "extents": sizes}
        return json.dumps({**about, "kernels": kernels, "text": texts}, indent=2)
    at = ", ".join(f"{name.lstrip('.')} = {size}" for name, size in sizes.items())
    return f"// {options.form} for {target}, {at}\n" + "\n".join(map(str, found))


def grad(options: Namespace) -> int:
    """`monocomp grad`: the gradient as a program, or the program that saves what it reads."""
    found = _gradient(options, _equations(options), options.outputs)
    _deliver(options.output, found.forward.text() if options.forward else f"{found}\n")
    return OK


def explain(options: Namespace) -> int:
    """`monocomp explain`."""
    import monocomp

    extents = words.extents(options)
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
    from monocomp.command_line.findings import report
    from monocomp.command_line.verification import verify
    from monocomp.display.notes import Notes
    from monocomp.kernel import Kernel

    extents, params = words.extents(options), words.params(options)
    program = _equations(options)
    words.refuse_unknown_params(program.declared, params)
    fine = report(verify(program, extents, params, options.seed), as_json=options.json)
    notes = Notes(program.origin.notes, program.origin.text)
    if fine:
        with suppress(UnsupportedError):  # no kernel computes it, as was said
            notes = Kernel(program).notes(extents)
    if not options.json:
        _say_notes(options, notes)
    return OK if fine else FAILED


def doctor(options: Namespace) -> int:
    """`monocomp doctor`: a line for each finding as it comes."""
    from monocomp.command_line.doctor import examine
    from monocomp.command_line.findings import report

    return OK if report(examine(), as_json=options.json) else FAILED


def demo(options: Namespace) -> int:
    """`monocomp demo`: a program, its derivation, its kernel, and a run."""
    from monocomp.command_line.demo import main

    return main()


def completion(options: Namespace) -> int:
    """`monocomp completion`: the script for a shell."""
    from monocomp.command_line.completion import script

    _say(script(options.parser, options.shell))
    return OK


def bench(options: Namespace) -> int:
    """`monocomp bench`: the kernel and its peers, each with its time."""
    import torch

    from monocomp.command_line import bench as measuring
    from monocomp.command_line.progress import Progress

    extents, params = words.extents(options), words.params(options)
    of_all, named = words.dtypes(options)
    dtype = of_all or ("bfloat16" if torch.cuda.is_available() else "float32")
    kernel = _compile(options)
    words.refuse_unknown_params(kernel.declared, params)
    dtypes = words.by_input(kernel.declared, dtype, named)
    extents = _with_usual(kernel, extents)
    arrays = _random(kernel, extents, params, dtype, options.seed)
    tensors = files.tensors(arrays, dtypes, "auto")
    with Progress() as progress:
        found = measuring.bench(kernel, tensors, params, options.rounds, options.seconds, progress)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    if options.json:
        about = {"device": device, "dtype": dtype, "extents": extents}
        streams.say_json({**about, "contenders": [t.described() for t in found]})
        return OK
    sizes = ", ".join(f"{name} = {size}" for name, size in extents.items())
    _say(f"{device}, {dtype}, {sizes}; medians of {found[0].rounds} rounds, in turn")
    _say(measuring.table(found))
    return OK


def run(options: Namespace) -> int:
    """`monocomp run`: one line for each output."""
    import torch

    extents, params = words.extents(options), words.params(options)
    dtype, named = words.dtypes(options)
    paths = words.pairs(options.input, "NAME=FILE", str, "a file")
    if options.random and paths:
        raise UsageError("--random makes every input, so it does not go with --input")
    if extents and not options.random:
        raise UsageError("--extent goes with --random; files have their sizes")
    _require_output(options.output, options.program, *paths.values())
    kernel = _compile(options, backend=options.backend)
    declared = kernel.declared
    words.refuse_unknown_params(declared, params)
    if options.random:
        arrays = _random(kernel, extents, params, dtype, options.seed)
    else:
        arrays = {name: files.read_array(path) for name, path in paths.items()}
    dtypes = words.by_input(declared, dtype, named)
    results = kernel(**files.tensors(arrays, dtypes, options.backend), **params)
    values = results if isinstance(results, tuple) else (results,)
    outputs: dict[str, Any] = {
        at.name: torch.as_tensor(value) for at, value in zip(declared.outputs, values, strict=True)
    }
    if options.output is not None:
        _save(options.output, outputs)
    if options.json:
        streams.say_json([_described(name, value) for name, value in outputs.items()])
    else:
        _say("\n".join(_summary(name, value) for name, value in outputs.items()))
    return OK


def tune(options: Namespace) -> int:
    """`monocomp tune`: what was chosen, and what a call takes with it."""
    import torch

    from monocomp.backends.schedules import remembered
    from monocomp.command_line.progress import Progress

    extents, params = words.extents(options), words.params(options)
    of_all, named = words.dtypes(options)
    dtype = of_all or "bfloat16"
    kernel = _compile(options, backend="triton", tf32=options.tf32)
    words.refuse_unknown_params(kernel.declared, params)
    dtypes = words.by_input(kernel.declared, dtype, named)
    if not torch.cuda.is_available():
        raise DeviceError(
            "schedules are measured on a GPU, and there is none here",
            help="run it where there is one; -o FILE writes what other machines can use",
        )
    if options.output is not None:
        remembered.require_file(options.output)
    arrays = _random(kernel, extents, params, dtype, options.seed)
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
        remembered.add(options.output, [found.entry])
    _say(str(found))
    return OK if found.is_checked else FAILED


def _random(
    kernel: Kernel,
    extents: Mapping[str, int],
    params: Mapping[str, Any],
    dtype: str | None,
    seed: int,
) -> dict[str, Any]:
    from monocomp.checking.random_inputs import random_inputs

    equations = kernel.equations
    usual = _with_usual(kernel, extents)
    if missing := [name for name in usual if name not in extents]:
        raise UsageError(
            f"the extent of {', '.join(missing)} is missing",
            help="say --extent " + " ".join(f"{name}={size}" for name, size in usual.items()),
        )
    try:
        return random_inputs(equations, extents, dtype=dtype or "float32", seed=seed, params=params)
    except (MemoryError, ValueError) as error:  # more elements than there are addresses
        raise UsageError(f"inputs of these sizes cannot be made: {error}") from None


def _with_usual(kernel: Kernel, extents: Mapping[str, int]) -> dict[str, int]:
    """The extents that are given, and sizes of some use for the others that are needed."""
    from monocomp.declarations.records import by_representative, free_extents

    declared = kernel.equations.declared
    given = by_representative(declared, extents)
    missing = [name for name in free_extents(declared) if name not in given]
    if not missing:
        return dict(extents)
    axes = [a for k in kernel.tile_programs() for a in k.axes.values()]
    roles = {a.extent: a.role for a in reversed(axes)}
    return {**extents, **{name: _USUAL.get(roles.get(name, ""), 64) for name in missing}}


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


def _described(name: str, value: Any) -> dict[str, Any]:
    """An output in numbers; none where it is empty."""
    wide = value.detach().double()
    some = value.numel() > 0
    return {
        "name": name,
        "shape": list(value.shape),
        "dtype": str(value.dtype).removeprefix("torch."),
        "mean": wide.mean().item() if some else None,
        "max_abs": wide.abs().max().item() if some else None,
    }


def _summary(name: str, value: Any) -> str:
    of = _described(name, value)
    line = f"{name}  {'x'.join(map(str, of['shape'])) or 'scalar'}  {of['dtype']}"
    if of["mean"] is None:
        return f"{line}  empty"
    return f"{line}  mean {of['mean']:.6g}  max abs {of['max_abs']:.6g}"
