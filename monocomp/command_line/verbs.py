"""The verbs of the command line, each from its parsed options to an exit status.

Modules that cost time to import (torch, numpy, the compiler) are imported by the verb that
needs them.
"""

from __future__ import annotations

import io
import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from monocomp.backends.targets import canonical
from monocomp.command_line import compiling, files, streams, words
from monocomp.declarations.assignments import read_pairs
from monocomp.errors import DeviceError, UnsupportedError, UsageError
from monocomp.machine.plain_files import write

if TYPE_CHECKING:
    from monocomp.command_line.findings import Finding
    from monocomp.kernel import Kernel
    from monocomp.terms.equations import Equations

OK, FAILED = 0, 1
_USUAL = {"grid": 2, "row": 1024, "stream": 1024}  # sizes where none are given, by role


# The verbs


def emit(options: Namespace) -> int:
    """`monocomp emit`: the source and nothing else."""
    program, dtypes = _to_emit(options)
    kernel, tf32 = compiling.kernel(program), options.tf32 or None
    source = kernel.source(options.backend, **_how(options), tf32=tf32, dtype=dtypes)
    streams.deliver(options.output, source)
    return OK


def emit_gradient(options: Namespace) -> int:
    """`monocomp emit --gradient`: the source of the program and of its gradients."""
    program, dtypes = _to_emit(options)
    if options.backend != "triton":
        raise UsageError("gradients are emitted for backend 'triton'")
    programs = compiling.gradient(options, program)
    source = programs.source(**_how(options), tf32=options.tf32, dtype=dtypes or "bf16")
    streams.deliver(options.output, source)
    return OK


def emit_machine_code(options: Namespace) -> int:
    """`monocomp emit --form`: the kernels as Triton compiles them, and what they take."""
    program, dtypes = _to_emit(options)
    made = _machine_code(compiling.kernel(program), options, dtypes or "bf16")
    streams.deliver(options.output, made)
    return OK


def _to_emit(options: Namespace) -> tuple[Equations, str | dict[str, str] | None]:
    """Return the program under its name, and the dtypes of its inputs as they are given."""
    name, (dtype, named) = words.kernel_name(options), words.dtypes(options)
    streams.require_output(options.output, options.program)
    program = compiling.equations(options, name)
    if named and dtype is not None:
        floats = [n for n, i in program.declared.inputs.items() if i.kind == "float"]
        named = {**dict.fromkeys(floats, dtype), **named}
    return program, named or dtype


def _how(options: Namespace) -> dict[str, Any]:
    extents = words.extents(options) or None
    return {"target": options.target, "extents": extents, "minimal": options.minimal}


def _machine_code(kernel: Kernel, options: Namespace, dtype: str | Mapping[str, str]) -> str:
    """Return the kernels as Triton compiles them for a target, and what they take of it."""
    from monocomp.declarations.records import by_representative
    from monocomp.source import Emission

    target = canonical(options.target) or "cuda:90"
    known = by_representative(kernel.declared, words.extents(options))
    how = dtype, target, options.backend, options.tf32
    emission = Emission(kernel.planner, known, *how)
    made, sizes = emission.machine_code(options.form), emission.sizes
    if options.json:
        kernels = [{**asdict(k.usage), "name": k.name, "warps": k.warps} for k in made]
        texts = {k.name: k.text for k in made}
        about = {"target": target, "form": options.form, "extents": sizes}
        return json.dumps({**about, "kernels": kernels, "text": texts}, indent=2)
    at = ", ".join(f"{name.lstrip('.')} = {size}" for name, size in sizes.items())
    return f"// {options.form} for {target}, {at}\n" + "\n".join(map(str, made))


def grad(options: Namespace) -> int:
    """`monocomp grad`: the gradient as a program, or the program that saves what it reads."""
    programs = compiling.gradient(options, compiling.equations(options), options.outputs)
    streams.deliver(options.output, programs.forward.text() if options.forward else f"{programs}\n")
    return OK


def check(options: Namespace) -> int:
    """`monocomp check`: a line for each family of findings, or with --verbose for each of them."""
    from monocomp.command_line.explaining import say_notes
    from monocomp.command_line.findings import report, report_families
    from monocomp.display.notes import Notes
    from monocomp.kernel import Kernel

    program, findings = _findings(options)
    fine = (report if options.verbose else report_families)(findings)
    notes = Notes(program.origin.notes, program.origin.text)
    if fine:
        with suppress(UnsupportedError):  # no kernel computes it, as was said
            notes = Kernel(program).notes(words.extents(options))
    say_notes(options, notes)
    return OK if fine else FAILED


def check_as_json(options: Namespace) -> int:
    """`monocomp check --json`: the list of all findings."""
    from monocomp.command_line.findings import report_json

    return OK if report_json(_findings(options)[1]) else FAILED


def _findings(options: Namespace) -> tuple[Equations, Iterator[Finding]]:
    from monocomp.command_line.verification import verify

    extents, params = words.extents(options), words.params(options)
    program = compiling.equations(options)
    words.refuse_unknown_params(program.declared, params)
    return program, verify(program, extents, params, options.seed)


def doctor(options: Namespace) -> int:
    """`monocomp doctor`: a line for each finding as it comes."""
    from monocomp.command_line.doctor import examine
    from monocomp.command_line.findings import report, report_json

    return OK if (report_json if options.json else report)(examine()) else FAILED


def serve(options: Namespace) -> int:
    """`monocomp serve`: until Ctrl-C."""
    from monocomp.server import PORT, Server

    port = PORT if options.port is None else options.port
    try:
        server = Server(port)
    except OSError as error:
        raise UsageError(
            f"no port from {port} on is free: {error.strerror or error}", help="--port 0 takes any"
        ) from None
    with server as listening, suppress(KeyboardInterrupt):
        streams.say_text(f"{listening.address}\nCtrl-C ends it.")
        if options.open:
            import webbrowser

            webbrowser.open(listening.address)
        listening.serve_forever()
    return OK


def bench(options: Namespace) -> int:
    """`monocomp bench`: the kernel and its peers, each with its time."""
    import torch

    from monocomp.command_line import bench as measuring
    from monocomp.command_line.progress import Progress

    extents, params = words.extents(options), words.params(options)
    of_all, named = words.dtypes(options)
    dtype = of_all or ("bfloat16" if torch.cuda.is_available() else "float32")
    kernel = compiling.kernel(compiling.equations(options))
    words.refuse_unknown_params(kernel.declared, params)
    dtypes = words.by_input(kernel.declared, dtype, named)
    extents = _with_usual(kernel, extents)
    arrays = _random(kernel, extents, params, dtype, options.seed)
    tensors = files.tensors(arrays, dtypes, "auto")
    with Progress() as progress:
        contenders = list(measuring.contenders(kernel, tensors, params))
        where = next(t.device for t in tensors.values())
        results = measuring.race(contenders, where, options.rounds, options.seconds, progress)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    if options.json:
        about = {"device": device, "dtype": dtype, "extents": extents}
        streams.say_json({**about, "contenders": [t.described() for t in results]})
        return OK
    sizes = ", ".join(f"{name} = {size}" for name, size in extents.items())
    streams.say_text(f"{device}, {dtype}, {sizes}; medians of {results[0].rounds} rounds, in turn")
    streams.say_text(measuring.table(results))
    return OK


def run(options: Namespace) -> int:
    """`monocomp run` on arrays from files."""
    paths = read_pairs(options.input, "NAME=FILE", str, "a file")
    streams.require_output(options.output, options.program, *paths.values())
    kernel, params = _to_run(options)
    arrays = {name: files.read_array(path) for name, path in paths.items()}
    inputs = kernel.declared.inputs
    missing = [name for name in inputs if name not in paths]
    if missing and inputs.keys() >= paths.keys():
        raise UsageError(
            f"no file is given for {', '.join(missing)}",
            help=f"--input {' '.join(f'{n}=FILE.npy' for n in missing)}, or --random",
        )
    return _run(options, kernel, arrays, params)


def run_random(options: Namespace) -> int:
    """`monocomp run --random`."""
    extents, (dtype, _) = words.extents(options), words.dtypes(options)
    streams.require_output(options.output, options.program)
    kernel, params = _to_run(options)
    return _run(options, kernel, _random(kernel, extents, params, dtype, options.seed), params)


def _to_run(options: Namespace) -> tuple[Kernel, dict[str, int | float]]:
    params = words.params(options)
    kernel = compiling.kernel(compiling.equations(options), backend=options.backend)
    words.refuse_unknown_params(kernel.declared, params)
    return kernel, params


def _run(
    options: Namespace, kernel: Kernel, arrays: Mapping[str, Any], params: Mapping[str, Any]
) -> int:
    """Call a kernel, and say shape, dtype and some values of each output."""
    import torch

    dtypes = words.by_input(kernel.declared, *words.dtypes(options))
    results = kernel(**files.tensors(arrays, dtypes, options.backend), **params)
    values = results if isinstance(results, tuple) else (results,)
    outputs: dict[str, Any] = {
        at.name: torch.as_tensor(value)
        for at, value in zip(kernel.declared.outputs, values, strict=True)
    }
    if options.output is not None:
        _save(options.output, outputs)
    if options.json:
        streams.say_json([_described(name, value) for name, value in outputs.items()])
    else:
        streams.say_text("\n".join(_summary(name, value) for name, value in outputs.items()))
    return OK


def tune(options: Namespace) -> int:
    """`monocomp tune`: what was chosen, and what a call takes with it."""
    import torch

    from monocomp.backends.schedules import remembered
    from monocomp.command_line.progress import Progress

    extents, params = words.extents(options), words.params(options)
    of_all, named = words.dtypes(options)
    dtype = of_all or "bfloat16"
    kernel = compiling.kernel(compiling.equations(options), backend="triton", tf32=options.tf32)
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
        tuning = kernel.calls.tune(
            (),
            {**tensors, **params},
            seconds=options.seconds,
            candidates=options.candidates,
            progress=progress,
        )
    if options.output is not None and tuning.entry is not None:
        remembered.add(options.output, [tuning.entry])
    streams.say_text(str(tuning))
    return OK if tuning.is_checked else FAILED


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
    """Return the extents that are given, and sizes of some use for the others that are needed."""
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
    """Write a .npz file, as `numpy.savez` does, but with any names."""
    import zipfile

    import numpy as np

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, value in named.items():
            member = io.BytesIO()
            np.save(member, _array(value), allow_pickle=False)
            archive.writestr(f"{name}.npy", member.getvalue())
    write(path, buffer.getvalue())


def _array(value: Any) -> Any:
    """Return a tensor as an array; bfloat16, which NumPy lacks, as float32."""
    value = value.detach().cpu()
    return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()


_FEW = 6  # values of an output that are shown


def _described(name: str, value: Any) -> dict[str, Any]:
    """Return an output in numbers; none where it is empty."""
    wide = value.detach().double()
    some = value.numel() > 0
    return {
        "name": name,
        "shape": list(value.shape),
        "dtype": str(value.dtype).removeprefix("torch."),
        "mean": wide.mean().item() if some else None,
        "max_abs": wide.abs().max().item() if some else None,
        "first": value.detach().flatten()[:_FEW].tolist(),
    }


def _summary(name: str, value: Any) -> str:
    """Return two lines: an output in short, and the begin of its first row."""
    of = _described(name, value)
    line = f"{name}  {'x'.join(map(str, of['shape'])) or 'scalar'}  {of['dtype']}"
    if not value.numel():
        return f"{line}  empty"
    row = of["first"][: value.shape[-1] if value.dim() else 1]
    shown = ", ".join(f"{x:.6g}" if isinstance(x, float) else str(x) for x in row)
    rest = ", ..." if len(row) < (value.shape[-1] if value.dim() else 1) else ""
    place = f"[{','.join([*'0' * (value.dim() - 1), ':'])}]" if value.dim() else ""
    line += f"  mean {of['mean']:.6g}  max abs {of['max_abs']:.6g}"
    return f"{line}\n  {name}{place} = {shown}{rest}"
