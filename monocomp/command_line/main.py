"""The command `monocomp`, whose verbs are in `VERBS`.

Results go to standard output and messages to standard error; the exit status says which it
was (`STATUSES`). No traceback reaches a user for a fault in a program, nor for one in a call.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import monocomp
from monocomp import library
from monocomp.command_line import explaining, options, programs, streams, verbs
from monocomp.command_line.options import Form
from monocomp.errors import InternalError, MonocompError, UsageError, nearest, shorten, unknown

WRONG, BROKEN, INTERRUPTED, NO_READER = 2, 70, 130, 141
YOUNG = 100_000  # objects after which a process of its own looks for cycles: most make fewer

STATUSES = """\
exit status:
  0    fine
  1    a check failed
  2    the program or the call is wrong
  70   a fault of monocomp itself
"""

ABOUT = "An attention compiler: a line of mathematics in, a derived fused kernel out."
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
    """Return the exit status of what `run` does, with a message instead of a traceback."""
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
        streams.tell(error.described())
        return WRONG
    except Exception as error:
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            streams.tell(UsageError(f"not enough memory: {error}").described())
            return WRONG
        return _broken(error)


def _broken(error: Exception) -> int:
    """A fault of the compiler: say so, and ask for a report."""
    if os.environ.get("MONOCOMP_DEBUG"):
        streams.tell("".join(traceback.format_exception(error)).rstrip())
    elif isinstance(error, InternalError):
        streams.tell(error.described())
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
        wrong = re.fullmatch(
            r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", message
        )
        if wrong is None:
            raise UsageError(message, help=f"{self.prog} --help")
        choices = wrong[3].replace("'", "").split(", ")
        error = unknown(
            wrong[2], choices, f"'{shorten(wrong[2])}' is no value of {wrong[1]}", "accepted"
        )
        error.help = error.help or _taken_elsewhere(wrong[2])
        raise error

    def _print_message(self, message: str, file: object = None) -> None:
        streams.say(message)


def _taken_elsewhere(value: str) -> str | None:
    """Return the command and option that take a value."""
    for name, verb in VERBS.items():
        for option in (o for form in verb.forms for o in form.options):
            if value in option.how.get("choices", ()):
                return f"monocomp {name} PROGRAM {option.name} {value}"
    return None


def _run(argv: list[str]) -> int:
    parser = _parser()
    if not argv:
        streams.tell(parser.format_help().rstrip())
        return WRONG
    if argv[0] == "help":
        argv = [*argv[1:2], "--help"]
    if not argv[0].startswith("-") and argv[0] not in VERBS:
        near = nearest(argv[0], VERBS)
        is_program = argv[0] in library.names() or "=" in argv[0]
        raise UsageError(
            f"there is no command '{shorten(argv[0])}'",
            notes=(f"commands: {', '.join(VERBS)}",),
            help=f"did you mean 'monocomp {near}'?"
            if near
            else f"say what to do with it: monocomp explain {shlex.quote(shorten(argv[0]))}"
            if is_program
            else "monocomp --help",
        )
    parsed, words = parser.parse_known_args(argv)
    given = vars(parsed)
    always = {key: given.pop(key) for key in ("program", "accepted") if key in given}
    if words:
        _refuse(argv[0], words[0], always["accepted"])
    form, values = options.choose(VERBS[argv[0]].forms, given)
    return form.run(argparse.Namespace(**always, **values))


def _refuse(verb: str, word: str, accepted: list[str]) -> NoReturn:
    if not word.startswith("-") and not VERBS[verb].takes_program:
        raise UsageError(
            f"'monocomp {verb}' takes no '{shorten(word)}'",
            help=f"monocomp show {word}" if word in library.names() else f"monocomp {verb} --help",
        )
    if not word.startswith("-"):
        raise UsageError(
            f"unexpected '{shorten(word)}'",
            help="PROGRAM comes once; one with spaces is a single word in quotes",
        )
    option = word.partition("=")[0]
    error = unknown(option, accepted, f"there is no option '{shorten(word)}' here", "options")
    readers = [
        f"'monocomp {name}'"
        for name, about in VERBS.items()
        if any(option in o.names for form in about.forms for o in form.options)
    ]
    error.help = f"it is an option of {' and '.join(readers)}" if readers else error.help
    raise error


def _parser() -> _Parser:
    groups = dict.fromkeys(verb.group for verb in VERBS.values())
    listed = "\n\n".join(
        "\n".join(
            [f"{group}:"]
            + [f"    {name:10} {verb.about}" for name, verb in VERBS.items() if verb.group == group]
        )
        for group in groups
    )
    parser = _Parser(
        prog="monocomp",
        usage="monocomp COMMAND ...",
        description=f"{ABOUT}\n\n{listed}",
        epilog=f"{PROGRAM}\n{_examples(FIRST_STEPS)}\n{STATUSES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"monocomp {monocomp.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    for name, verb in VERBS.items():
        about = f"{_examples(verb.examples)}\n{STATUSES}"
        command = commands.add_parser(
            name,
            prog=f"monocomp {name}",
            description=verb.about[0].upper() + verb.about[1:] + ".",
            epilog=f"{PROGRAM}\n{about}" if verb.takes_program else about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if verb.takes_program:
            command.add_argument("program", metavar="PROGRAM", help="see below")
        options.add(command, verb.forms)
        accepted = [o for a in command._actions for o in a.option_strings if o.startswith("--")]
        command.set_defaults(accepted=accepted)
    return parser


def _examples(lines: Sequence[str]) -> str:
    return "".join(["examples:\n", *(f"  monocomp {line}\n" for line in lines)])


class _Verb(NamedTuple):
    """A verb in words and in examples, and what it makes."""

    group: str
    about: str
    forms: tuple[options.Form, ...]
    examples: Sequence[str]
    takes_program: bool = True


def _demo(given: argparse.Namespace) -> int:
    """`monocomp demo`: what other verbs say of one program, each as it is typed."""
    for command in DEMO:
        streams.say_text(f"$ monocomp {command}\n")
        _run(shlex.split(command))
        streams.say_text("\n")
    return 0


LOOK, MAKE, TRUST = "look", "make and run", "trust"
SIZES = "--extent b=2 h=8 q=1024 k=1024 d=64 e=64"
FIRST_STEPS = (
    "show sliding_window",
    "explain 'O[i] = softmax[k](S[i,k]) * V[k]'",
    f"bench sliding_window {SIZES} --param window=128",
)
DEMO = (
    "show sliding_window",
    "explain sliding_window",
    f"emit sliding_window --minimal {SIZES}",
    "bench sliding_window --extent b=1 h=1 q=2048 k=2048 d=64 e=64 --param window=128 --rounds 3",
)
VERBS = {
    "demo": _Verb(
        LOOK,
        "a program, its derivation, its kernel, and a run on this machine",
        (Form(_demo),),
        ("demo",),
        takes_program=False,
    ),
    "list": _Verb(
        LOOK,
        "the programs of the library",
        (Form(programs.list_programs, options.JSON),),
        ("list", "list --json"),
        takes_program=False,
    ),
    "show": _Verb(
        LOOK,
        "a program's text, and how its kernel is called",
        (Form(programs.show, options.JSON),),
        ("show sliding_window", "show sliding_window > mine.mc", "show gqa --json"),
    ),
    "explain": _Verb(
        LOOK,
        "how the kernel follows, step by step",
        explaining.FORMS,
        (
            "explain attention",
            "explain attention --steps 4",
            "explain causal --stage tile",
            "explain causal --after peel --extent q=4096",
        ),
    ),
    "serve": _Verb(
        LOOK,
        "a page that compiles what you type, on this machine",
        (Form(verbs.serve, options.SERVE),),
        ("serve", "serve --open", "serve --port 9000"),
        takes_program=False,
    ),
    "grad": _Verb(
        LOOK,
        "the gradient of a program, as a program",
        (Form(verbs.grad, options.GRAD),),
        ("grad causal", "grad alibi --wrt slope", "grad causal --forward"),
    ),
    "emit": _Verb(
        MAKE,
        "the source of a program's kernel, or machine code",
        (
            Form(verbs.emit, options.EMIT),
            Form(verbs.emit_gradient, options.EMIT_GRADIENT, ("--gradient",)),
            Form(verbs.emit_machine_code, options.EMIT_MACHINE_CODE, ("--form",)),
        ),
        (
            "emit causal --target cuda:90 --dtype bf16 -o causal.py",
            f"emit causal --minimal {SIZES}",
            "emit causal --gradient -o causal.py",
            "emit causal --form ptx --target cuda:90",
            "emit causal --form ttgir --target hip:gfx942 --extent d=128 e=128",
        ),
    ),
    "run": _Verb(
        MAKE,
        "run on arrays, or on random inputs",
        (
            Form(verbs.run, options.RUN),
            Form(verbs.run_random, options.RUN_RANDOM, ("--random",)),
        ),
        (
            f"run causal --random {SIZES}",
            "run attention --input Q=q.npy K=k.npy V=v.npy -o o.npz",
        ),
    ),
    "bench": _Verb(
        MAKE,
        "time it beside eager torch and what else gives the same",
        (Form(verbs.bench, options.BENCH),),
        ("bench causal", f"bench sliding_window {SIZES} --param window=128 --json"),
    ),
    "tune": _Verb(
        MAKE,
        "search schedules on a GPU, and remember the best",
        (Form(verbs.tune, options.TUNE),),
        (f"tune causal {SIZES}", f"tune causal {SIZES} --seconds 60 -o schedules.json"),
    ),
    "check": _Verb(
        TRUST,
        "proofs, and each step and backend against the oracle",
        (
            Form(verbs.check, options.CHECK),
            Form(verbs.check_as_json, options.CHECK_JSON, ("--json",)),
        ),
        ("check attention", "check mine.mc --extent q=9 --seed 7"),
    ),
    "doctor": _Verb(
        TRUST,
        "versions, GPU, cache, and whether a kernel runs here",
        (Form(verbs.doctor, options.JSON),),
        ("doctor", "doctor --json"),
        takes_program=False,
    ),
}


if __name__ == "__main__":
    sys.exit(main())
