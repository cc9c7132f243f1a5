"""The command `monocomp`: list, emit, explain, check and run.

Results go to standard output and messages to standard error; the exit status says which it
was (`STATUSES`). Verbs import what they need when they run, so that `emit` stays fast and
loads neither torch nor triton.
"""

from __future__ import annotations

import argparse
import io
import keyword
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import monocomp
from monocomp import files, library
from monocomp.errors import (
    InternalError,
    MonocompError,
    UnsupportedDtypeError,
    UsageError,
    nearest,
)

if TYPE_CHECKING:
    from monocomp.kernel import Kernel
    from monocomp.syntax import Program

OK, FAILED, WRONG, BROKEN, INTERRUPTED, NO_READER = 0, 1, 2, 70, 130, 141

STATUSES = """\
exit status:
  0    fine
  1    a check failed
  2    the program or the call is wrong
  70   a fault of monocomp itself
"""

PROGRAM = """\
PROGRAM is a file, the name of a library program (see `monocomp list`), - for standard input,
or the program itself: 'O[i] = softmax[j](A[i,j]) * B[j]'.
"""

DTYPES = {
    **dict.fromkeys(("bf16", "bfloat16"), "bfloat16"),
    **dict.fromkeys(("fp16", "f16", "half", "float16"), "float16"),
    **dict.fromkeys(("fp32", "f32", "float", "float32"), "float32"),
    **dict.fromkeys(("fp64", "f64", "double", "float64"), "float64"),
}

T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    Args:
        argv: the words after `monocomp`; those of this process unless given.
    """
    try:
        with _utf8(sys.stdout):
            return _run(sys.argv[1:] if argv is None else list(argv))
    except SystemExit as done:  # --help and --version
        return done.code if isinstance(done.code, int) else WRONG
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has left, as `head` does. What is still buffered must not be tried again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    except InternalError as error:
        return _broken(error)
    except MonocompError as error:
        print(error, file=sys.stderr)
        return WRONG
    except Exception as error:
        return _broken(error)


class _utf8:
    """Standard output as UTF-8, whatever the locale, and flushed at the end."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if isinstance(self.stream, io.TextIOWrapper):
            self.stream.reconfigure(encoding="utf-8", errors="backslashreplace")

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None or isinstance(error, SystemExit):
            _saying(self.stream.flush)


def _saying(write: Callable[..., object], *text: str) -> None:
    """Write to standard output; a full disk is the caller's to know, not a fault of ours."""
    try:
        write(*text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"cannot write to standard output: {error.strerror or error}") from None


def _say(text: str) -> None:
    _saying(sys.stdout.write, text if text.endswith("\n") else text + "\n")


def _broken(error: Exception) -> int:
    if os.environ.get("MONOCOMP_DEBUG"):
        traceback.print_exception(error)
    elif isinstance(error, InternalError):
        print(error, file=sys.stderr)
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(frame.filename)}, line {frame.lineno}"
        what = str(error) or type(error).__name__
        print(f"InternalError: {type(error).__name__}: {what}\n  at {place}", file=sys.stderr)
    print(
        "  This is a fault of monocomp, not of the program. Please report it with the program\n"
        "  and the command; MONOCOMP_DEBUG=1 shows where it happened.",
        file=sys.stderr,
    )
    return BROKEN


# The command line


class _Parser(argparse.ArgumentParser):
    """A parser whose errors look like all others."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, help=f"{self.prog} --help")


def _run(argv: list[str]) -> int:
    parser = _parser()
    if not argv:
        parser.print_help(sys.stderr)
        return WRONG
    if not argv[0].startswith("-") and argv[0] not in VERBS:
        near = nearest(argv[0], VERBS)
        raise UsageError(
            f"there is no command '{_shorten(argv[0])}'",
            notes=(f"commands: {', '.join(VERBS)}",),
            help=f"did you mean 'monocomp {near}'?" if near else "monocomp --help",
        )
    options, unknown = parser.parse_known_args(argv)
    if unknown:
        _refuse_unknown(unknown, options)
    verb: Callable[[argparse.Namespace], int] = options.verb
    return verb(options)


def _refuse_unknown(unknown: list[str], options: argparse.Namespace) -> NoReturn:
    first = unknown[0]
    accepted: list[str] = options.accepted
    if not first.startswith("-"):
        raise UsageError(
            f"unexpected '{_shorten(first)}'",
            help="a program with spaces is one word in quotes; PROGRAM comes once",
        )
    near = nearest(first.partition("=")[0], accepted)
    raise UsageError(
        f"there is no option '{_shorten(first)}' here",
        notes=(f"options: {', '.join(accepted)}",),
        help=f"did you mean '{near}'?" if near else None,
    )


def _parser() -> _Parser:
    parser = _Parser(
        prog="monocomp",
        description="An attention compiler: a line of mathematics in, a derived fused kernel out.",
        epilog=f"{PROGRAM}\n{STATUSES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"monocomp {monocomp.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (verb, about, add_options) in VERBS.items():
        command = commands.add_parser(
            name,
            help=about,
            description=about[0].upper() + about[1:] + ".",
            epilog=STATUSES if add_options is _no_options else f"{PROGRAM}\n{STATUSES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add_options(command)
        accepted = [o for a in command._actions for o in a.option_strings if o.startswith("--")]
        command.set_defaults(verb=verb, accepted=accepted)
    return parser


def _no_options(command: argparse.ArgumentParser) -> None:
    pass


def _program_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("program", metavar="PROGRAM", help="a file, a name, - or the program")


def _extent_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--extent",
        nargs="+",
        action="extend",
        default=[],
        metavar="INDEX=SIZE",
        help="the size of an index, such as d=128",
    )


def _param_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--param",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the program, such as window=128",
    )


def _seed_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--seed", type=int, default=0, metavar="N", help="for random inputs (0)")


def _output_option(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("-o", "--output", metavar="FILE", help=what)


def _emit_options(command: argparse.ArgumentParser) -> None:
    _program_option(command)
    command.add_argument(
        "--backend", default="triton", metavar="NAME", help="the language to emit (triton)"
    )
    command.add_argument("--target", metavar="DEVICE", help="such as cuda:90 or hip:gfx942")
    command.add_argument("--dtype", metavar="TYPE", help="of the inputs: bf16, fp16 or fp32")
    command.add_argument("--tf32", action="store_true", help="products of fp32 in tf32")
    _extent_option(command)
    command.add_argument("--name", metavar="NAME", help="the kernel's name")
    _output_option(command, "where to write the source (standard output)")


def _explain_options(command: argparse.ArgumentParser) -> None:
    _program_option(command)
    command.add_argument("--json", action="store_true", help="everything, for other tools")
    command.add_argument("--steps", type=int, metavar="N", help="the first N steps only")


def _check_options(command: argparse.ArgumentParser) -> None:
    _program_option(command)
    _extent_option(command)
    _param_option(command)
    _seed_option(command)


def _run_options(command: argparse.ArgumentParser) -> None:
    _program_option(command)
    command.add_argument(
        "--input",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=FILE",
        help="an input from a .npy file",
    )
    command.add_argument("--random", action="store_true", help="random inputs")
    _extent_option(command)
    _param_option(command)
    command.add_argument("--dtype", metavar="TYPE", help="of float inputs: bf16, fp16, fp32, fp64")
    command.add_argument("--backend", default="auto", metavar="NAME", help="what runs it (auto)")
    _seed_option(command)
    _output_option(command, "a .npz file for the outputs")


# Arguments


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _pairs(
    words: Iterable[str], form: str, convert: Callable[[str], T], wanted: str
) -> dict[str, T]:
    """`name=value` words as a dictionary."""
    found: dict[str, T] = {}
    for word in words:
        name, equals, value = word.partition("=")
        name = name.strip()
        if not equals or not re.fullmatch(r"\.?\w+", name, re.ASCII):
            raise UsageError(
                f"'{_shorten(word)}' is not of the form {form}",
                help="PROGRAM comes before the options that take several words",
            )
        if name in found:
            raise UsageError(f"'{name}' is given twice: {_shorten(word)}")
        try:
            found[name] = convert(value)
        except ValueError:
            raise UsageError(f"'{name}' must be {wanted}, not '{_shorten(value)}'") from None
    return found


def _extents(options: argparse.Namespace) -> dict[str, int]:
    sizes = _pairs(options.extent, "INDEX=SIZE", int, "a whole number")
    for name, size in sizes.items():
        if not 0 <= size < 2**63:
            raise UsageError(f"the extent of '{name}' must lie in 0 to 2**63 - 1, not {size}")
    return sizes


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _params(options: argparse.Namespace) -> dict[str, int | float]:
    return _pairs(options.param, "NAME=VALUE", _number, "a number")


def _dtype(given: str | None) -> str | None:
    if given is None or given in DTYPES:
        return None if given is None else DTYPES[given]
    near = nearest(given, DTYPES)
    raise UnsupportedDtypeError(
        f"'{_shorten(given)}' is no dtype for inputs",
        notes=("accepted: bf16, fp16, fp32, fp64",),
        help=f"did you mean '{near}'?" if near else None,
    )


def _name(given: str | None) -> str | None:
    if given is None:
        return None
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", given) or keyword.iskeyword(given):
        raise UsageError(
            f"'{_shorten(given)}' cannot be a kernel's name",
            help="letters, digits and _, at most 64, and no digit first",
        )
    return given


def _compile(options: argparse.Namespace, **more: Any) -> Kernel:
    from monocomp.kernel import compile

    source = files.read_program(options.program)
    name = _name(getattr(options, "name", None)) or source.name
    return compile(source.text, name=name, **more)


# The verbs


def _list(options: argparse.Namespace) -> int:
    names = library.names()
    width = max(map(len, names))
    _say("".join(f"{name:{width}}  {library.about(name)}\n" for name in names))
    return OK


def _emit(options: argparse.Namespace) -> int:
    dtype, extents = _dtype(options.dtype), _extents(options)
    source = _compile(options).source(
        options.backend,
        target=options.target,
        dtype=dtype,
        extents=extents or None,
        tf32=options.tf32,
    )
    _deliver(options.output, source)
    return OK


def _deliver(path: str | None, text: str) -> None:
    if path is None or path == "-":
        _say(text)
    else:
        files.write(path, text if text.endswith("\n") else text + "\n")


def _explain(options: argparse.Namespace) -> int:
    if options.steps is not None and options.steps < 0:
        raise UsageError(f"--steps must not be negative, and is {options.steps}")
    derivation = _compile(options).derivation
    if options.steps is not None:
        derivation = derivation.first(options.steps)
    _say(derivation.to_json() if options.json else str(derivation))
    return OK


def _check(options: argparse.Namespace) -> int:
    from monocomp.verification import verify

    extents, params = _extents(options), _params(options)
    source = files.read_program(options.program)
    failed = False
    section = ""
    for finding in verify(source.text, source.name, extents, params, options.seed):
        if finding.section != section:
            _say(("\n" if section else "") + finding.section)
            section = finding.section
        _say("  " + str(finding))
        sys.stdout.flush()
        failed |= finding.ok is False
    return FAILED if failed else OK


def _run_program(options: argparse.Namespace) -> int:
    extents, params, dtype = _extents(options), _params(options), _dtype(options.dtype)
    paths = _pairs(options.input, "NAME=FILE", str, "a file")
    if options.random and paths:
        raise UsageError("--random makes every input; it does not go with --input")
    if extents and not options.random:
        raise UsageError("--extent goes with --random; the inputs of --input have their sizes")
    kernel = _compile(options, backend=options.backend)
    if options.random:
        arrays = _random(kernel.program, extents, params, dtype, options.seed)
    else:
        arrays = {name: files.read_array(path) for name, path in paths.items()}
    _refuse_unknown_params(kernel.program, params)
    results = kernel(**_tensors(kernel.program, arrays, dtype, options.backend), **params)
    outputs = [at.name for at in kernel.program.outputs]
    values = results if isinstance(results, tuple) else (results,)
    named = dict(zip(outputs, values, strict=True))
    if options.output is not None:
        _save(options.output, named)
    _say("\n".join(_summary(name, value) for name, value in named.items()))
    return OK


def _refuse_unknown_params(program: Program, params: Mapping[str, Any]) -> None:
    """An input cannot be given as a number."""
    for name in params:
        if name not in program.params:
            near = nearest(name, program.params)
            raise UsageError(
                f"the program has no parameter '{name}'",
                notes=(f"parameters: {', '.join(program.params) or 'none'}",),
                help=f"did you mean '{near}'?" if near else None,
            )


def _random(
    program: Program,
    extents: Mapping[str, int],
    params: Mapping[str, Any],
    dtype: str | None,
    seed: int,
) -> dict[str, Any]:
    from monocomp.random_inputs import free_extents, random_inputs

    table = program.extent_of
    given = {table[name] for name in extents if name in table}
    missing = [name for name in free_extents(program) if name not in given]
    if missing and given >= {table.get(name) for name in extents}:
        raise UsageError(
            f"the extent of {', '.join(missing)} is missing",
            help="--extent " + " ".join(f"{name}=..." for name in missing),
        )
    return random_inputs(program, extents, dtype=dtype or "float32", seed=seed, params=params)


def _tensors(
    program: Program, arrays: Mapping[str, Any], dtype: str | None, backend: str
) -> dict[str, Any]:
    """Arrays as tensors, on the GPU where there is one and the backend can use it."""
    import torch

    on_gpu = backend in ("auto", "triton", "gluon") and torch.cuda.is_available()
    device = "cuda" if on_gpu else "cpu"
    tensors = {}
    for name, array in arrays.items():
        try:
            tensor = torch.from_numpy(array if array.ndim else array.reshape(()))
        except TypeError:
            raise UnsupportedDtypeError(
                f"input '{name}' has dtype {array.dtype}",
                notes=("accepted: floats of 16, 32 and 64 bits, integers, bool",),
            ) from None
        convert = dtype is not None and tensor.is_floating_point()
        tensors[name] = tensor.to(device, getattr(torch, dtype) if convert and dtype else None)
    return tensors


def _save(path: str, named: Mapping[str, Any]) -> None:
    import numpy as np

    buffer = io.BytesIO()
    np.savez(buffer, **{name: _array(value) for name, value in named.items()})
    files.write(path, buffer.getvalue())


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


VERBS: dict[
    str,
    tuple[
        Callable[[argparse.Namespace], int],
        str,
        Callable[[argparse.ArgumentParser], None],
    ],
] = {
    "list": (_list, "the programs of the library", _no_options),
    "emit": (_emit, "the source of a program's kernel", _emit_options),
    "explain": (_explain, "how the kernel follows from the program, step by step", _explain_options),
    "check": (_check, "proofs, and each step and backend against the oracle", _check_options),
    "run": (_run_program, "run a program on arrays or random inputs", _run_options),
}


if __name__ == "__main__":
    sys.exit(main())
