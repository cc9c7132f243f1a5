"""The command `monocomp`: list, emit, grad, explain, check, run and tune.

Results go to standard output and messages to standard error; the exit status says which it
was (`STATUSES`). No traceback reaches a user for a fault in a program, nor for one in a call.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import monocomp
from monocomp.command_line import streams, verbs
from monocomp.errors import InternalError, MonocompError, UsageError, did_you_mean, nearest, shorten
from monocomp.stages import STAGES

WRONG, BROKEN, INTERRUPTED, NO_READER = 2, 70, 130, 141
YOUNG = 100_000  # objects after which a process of its own looks for cycles: most make fewer

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    Args:
        argv: the words after `monocomp`; those of this process unless given.
    """
    if argv is None:
        gc.set_threshold(YOUNG)
    return guarded(lambda: _run(sys.argv[1:] if argv is None else list(argv)))


def guarded(run: Callable[[], int]) -> int:
    """The exit status of what `run` does, with a message instead of a traceback."""
    streams.prepare()
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: streams.tell(f"warning: {message}")
        return _guarded(run)


def _guarded(run: Callable[[], int]) -> int:
    try:
        try:
            status = run()
        except SystemExit as done:  # --help and --version
            status = done.code if isinstance(done.code, int) else WRONG
        streams.say()
        return status
    except KeyboardInterrupt:
        streams.tell("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader has left, as `head` does
        streams.discard(sys.stdout)
        return NO_READER
    except InternalError as error:
        return _broken(error)
    except MonocompError as error:
        streams.tell(str(error))
        return WRONG
    except Exception as error:
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            streams.tell(str(UsageError(f"not enough memory: {error}")))
            return WRONG
        return _broken(error)


def _broken(error: Exception) -> int:
    """A fault of the compiler: say so, and ask for a report."""
    if os.environ.get("MONOCOMP_DEBUG"):
        streams.tell("".join(traceback.format_exception(error)).rstrip())
    elif isinstance(error, InternalError):
        streams.tell(str(error))
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(frame.filename)}, line {frame.lineno}"
        streams.tell(f"InternalError: {type(error).__name__}: {error}\n  at {place}")
    streams.tell(
        "  This is a fault of monocomp, not of the program.\n"
        "  help: please report it with the program and the command; MONOCOMP_DEBUG=1 shows more"
    )
    return BROKEN


# The command line


class _Parser(argparse.ArgumentParser):
    """A parser whose errors look like all others, also where its help cannot be written."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, help=f"{self.prog} --help")

    def _print_message(self, message: str, file: object = None) -> None:
        streams.say(message)


def _run(argv: list[str]) -> int:
    parser = _parser()
    if not argv:
        streams.tell(parser.format_help().rstrip())
        return WRONG
    if not argv[0].startswith("-") and argv[0] not in VERBS:
        near = nearest(argv[0], VERBS)
        raise UsageError(
            f"there is no command '{shorten(argv[0])}'",
            notes=(f"commands: {', '.join(VERBS)}",),
            help=f"did you mean 'monocomp {near}'?" if near else "monocomp --help",
        )
    options, unknown = parser.parse_known_args(argv)
    if unknown:
        _refuse(unknown[0], options.accepted)
    run: Callable[[argparse.Namespace], int] = options.run
    return run(options)


def _refuse(word: str, accepted: list[str]) -> NoReturn:
    if not word.startswith("-"):
        raise UsageError(
            f"unexpected '{shorten(word)}'",
            help="PROGRAM comes once; one with spaces is a single word in quotes",
        )
    raise UsageError(
        f"there is no option '{shorten(word)}' here",
        notes=(f"options: {', '.join(accepted)}",),
        help=did_you_mean(word.partition("=")[0], accepted),
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
    for name, verb in VERBS.items():
        command = commands.add_parser(
            name,
            help=verb.about,
            description=verb.about[0].upper() + verb.about[1:] + ".",
            epilog=STATUSES if verb.options is None else f"{PROGRAM}\n{STATUSES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if verb.options is not None:
            command.add_argument("program", metavar="PROGRAM", help="see below")
            verb.options(command)
        accepted = [o for a in command._actions for o in a.option_strings if o.startswith("--")]
        command.set_defaults(run=verb.run, accepted=accepted)
    return parser


def _several(command: argparse.ArgumentParser, option: str, form: str, about: str) -> None:
    command.add_argument(option, nargs="+", action="extend", default=[], metavar=form, help=about)


def _extent(command: argparse.ArgumentParser) -> None:
    _several(command, "--extent", "INDEX=SIZE", "the size of an index, such as d=128")


def _param(command: argparse.ArgumentParser) -> None:
    _several(command, "--param", "NAME=VALUE", "a parameter of the program, such as window=128")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{shorten(text)}' is no whole number")
    return int(text)


def _seed(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--seed", type=_count, default=0, metavar="N", help="for random inputs (0)"
    )


def _emit_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--backend", default="triton", metavar="NAME", help="the language to emit: triton or gluon")
    add("--target", metavar="DEVICE", help="such as cuda:90 or hip:gfx942")
    add("--dtype", metavar="TYPE", help="of the inputs: bf16, fp16 or fp32, or bf16,K=e4m3,V=e4m3")
    add("--tf32", action="store_true", help="products of fp32 in tf32")
    _extent(command)
    add("--minimal", action="store_true", help="kernels for these sizes and little else, to paste")
    add("--gradient", action="store_true", help="with its gradients, for autograd")
    _of_gradients(command)
    add("--name", metavar="NAME", help="the kernel's name")
    add("-o", "--output", metavar="FILE", help="where to write it (standard output)")


def _of_gradients(command: argparse.ArgumentParser) -> None:
    _several(command, "--wrt", "NAME", "inputs to differentiate with respect to (all floats)")
    command.add_argument(
        "--save",
        nargs="*",
        metavar="NAME",
        help="what to read of the program's values, outputs among them (what costs least)",
    )


def _grad_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    _of_gradients(command)
    _extent(command)
    _several(command, "--outputs", "NAME", "outputs that have a derivative (all floats)")
    add("--forward", action="store_true", help="print the program with what it saves instead")
    add("-o", "--output", metavar="FILE", help="where to write it (standard output)")


def _explain_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="everything, for other tools")
    command.add_argument("--steps", type=_count, metavar="N", help="the first N steps only")
    command.add_argument(
        "--origins", action="store_true", help="with --stage source: what each statement computes"
    )
    command.add_argument("--backend", default="auto", metavar="NAME", help="what runs it (auto)")
    command.add_argument("--gradient", action="store_true", help="how its gradient follows")
    _of_gradients(command)
    looks = command.add_mutually_exclusive_group()
    looks.add_argument(
        "--stage",
        choices=STAGES,
        help="print this stage, not the steps to it",
    )
    looks.add_argument(
        "--before", metavar="PASS", help="print what a rule, or a pass over blocks, found"
    )
    looks.add_argument("--after", metavar="PASS", help="print what it left")
    looks.add_argument(
        "--html", metavar="FILE", help="write all of it as a page to walk through, for a browser"
    )
    looks.add_argument(
        "--picture", metavar="NAME", help="draw bracketings, tiles, roofline or timeline, as SVG"
    )
    _no_notes(command)
    _extent(command)


def _no_notes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--no-notes", action="store_true", help="no remarks on what may surprise in the program"
    )


def _check_options(command: argparse.ArgumentParser) -> None:
    _no_notes(command)
    _extent(command)
    _param(command)
    _seed(command)


def _run_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    _several(command, "--input", "NAME=FILE", "an input from a .npy file")
    add("--random", action="store_true", help="random inputs, of the sizes that --extent gives")
    _extent(command)
    _param(command)
    add("--dtype", metavar="TYPE", help="of float inputs: bf16, ..., fp64, or bf16,K=e4m3,V=e4m3")
    add("--backend", default="auto", metavar="NAME", help="what runs it (auto)")
    _seed(command)
    add("-o", "--output", metavar="FILE", help="a .npz file for the outputs")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"'{shorten(text)}' is no number of seconds")
    return seconds


def _positive(text: str) -> int:
    number = _count(text)
    if not 0 < number <= 10**6:
        raise argparse.ArgumentTypeError("the number must lie in 1 to 1000000")
    return number


def _tune_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    _extent(command)
    _param(command)
    add("--dtype", metavar="TYPE", help="of float inputs: bf16, fp16 or fp32 (bf16)")
    add("--tf32", action="store_true", help="products of fp32 in tf32")
    add("--seconds", type=_seconds, default=300.0, metavar="S", help="how long it may take (300)")
    add(
        "--candidates",
        type=_positive,
        default=60,
        metavar="N",
        help="schedules of each kernel to try (60)",
    )
    _seed(command)
    add("-o", "--output", metavar="FILE", help="a JSON file to add the result to")


class _Verb(NamedTuple):
    """What a verb does, in words, and its options; None: it takes no program."""

    run: Callable[[argparse.Namespace], int]
    about: str
    options: Callable[[argparse.ArgumentParser], None] | None


VERBS = {
    "list": _Verb(verbs.list_programs, "the programs of the library", None),
    "emit": _Verb(verbs.emit, "the source of a program's kernel", _emit_options),
    "grad": _Verb(verbs.grad, "the gradient of a program, as a program", _grad_options),
    "explain": _Verb(verbs.explain, "how the kernel follows, step by step", _explain_options),
    "check": _Verb(
        verbs.check, "proofs, and each step and backend against the oracle", _check_options
    ),
    "run": _Verb(verbs.run, "run on arrays, or on random inputs", _run_options),
    "tune": _Verb(verbs.tune, "search schedules on a GPU, and remember the best", _tune_options),
}


if __name__ == "__main__":
    sys.exit(main())
