"""The options of each verb of the command line, as data.

A verb has forms: one for each thing that it makes, such as a derivation, a stage or a page. A form
lists the options that it reads. Its function gets these and no others, and an option that a
command line gives to a form without it is refused: nothing is accepted and then ignored.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from monocomp.errors import UsageError, shorten
from monocomp.stages import STAGES

# What `monocomp.backends.triton.machine_code` makes; that module loads torch.
FORMS = ("ttir", "ttgir", "llir", "ptx", "amdgcn")


class Option(NamedTuple):
    """An option, and how it is read: the arguments of `argparse`'s `add_argument`."""

    names: tuple[str, ...]
    how: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return its long name, as messages call it."""
        return self.names[-1]

    @property
    def key(self) -> str:
        """Return its name among parsed options."""
        return self.name.lstrip("-").replace("-", "_")

    @property
    def default(self) -> Any:
        """Return its value where a command line does not give it."""
        return self.how.get("default", False if self.how.get("action") == "store_true" else None)


class Form(NamedTuple):
    """One thing that a verb makes.

    Attributes:
        run: makes it from parsed options, and returns the exit status.
        options: the options that it reads.
        when: the options that ask for it, each alone or with its value: "--stage source".
    """

    run: Callable[[argparse.Namespace], int]
    options: tuple[Option, ...] = ()
    when: tuple[str, ...] = ()


def add(command: argparse.ArgumentParser, forms: Sequence[Form]) -> None:
    """Let a command take the options of its forms. Parsed options are those that are given."""
    for option in {o.key: o for form in forms for o in form.options}.values():
        command.add_argument(*option.names, **{**option.how, "default": argparse.SUPPRESS})


def choose(forms: Sequence[Form], given: Mapping[str, Any]) -> tuple[Form, dict[str, Any]]:
    """Return the form that given options ask for, and the values of all options of it.

    Raises:
        UsageError: the form does not read one of them.
    """
    known = {o.key: o for form in forms for o in form.options}
    asked = {known[key].name for key in given if given[key] != known[key].default}
    asked |= {f"{known[key].name} {value}" for key, value in given.items()}
    form = max(
        (f for f in forms if asked.issuperset(f.when)), key=lambda f: len(" ".join(f.when).split())
    )
    chosen, selecting = _selecting([form]), _selecting(forms)
    for option in (known[key] for key in given):
        if option not in form.options:
            raise _refusal(option, form, [f for f in forms if option in f.options])
        if option.name in asked & selecting - chosen:
            raise _refusal(option, form, [f for f in forms if option.name in _selecting([f])])
    return form, {o.key: given.get(o.key, o.default) for o in form.options}


def _selecting(forms: Sequence[Form]) -> set[str]:
    """Return the names of the options that ask for one of these forms."""
    return {word.split()[0] for form in forms for word in form.when}


def _refusal(option: Option, form: Form, readers: Sequence[Form]) -> UsageError:
    """Return the error for an option that a form does not read."""
    own = set(form.when)
    missing = [[w for w in reader.when if w not in own] for reader in readers]
    fewest = min(map(len, missing))
    wanted = [" ".join(words) for words in missing if len(words) == fewest]
    if own - {w for reader in readers for w in reader.when}:
        return UsageError(
            f"{option.name} does not go with {' '.join(form.when)}", help="leave out one of them"
        )
    *most, last = wanted
    listed = f"{', '.join(most)} or {last}" if most else last
    return UsageError(f"{option.name} goes with {listed}", help=f"add {wanted[0]}")


def _option(*names: str, **how: Any) -> Option:
    return Option(names, how)


def _flag(name: str, about: str) -> Option:
    return _option(name, action="store_true", help=about)


def _named(name: str, form: str, about: str, **how: Any) -> Option:
    return _option(name, metavar=form, help=about, **how)


def _several(name: str, form: str, about: str) -> Option:
    return _named(name, form, about, nargs="+", action="extend", default=[])


# How numbers are read


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"'{shorten(text)}' is no number of seconds")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{shorten(text)}' is no whole number")
    return int(text)


def _port(text: str) -> int:
    number = _count(text)
    if number >= 2**16:
        raise argparse.ArgumentTypeError("a port is a number below 65536")
    return number


def _positive(text: str) -> int:
    number = _count(text)
    if not 0 < number <= 10**6:
        raise argparse.ArgumentTypeError("the number must lie in 1 to 1000000")
    return number


# What several verbs take

_AS_JSON = _flag("--json", "everything, for other tools")
_EXTENT = _several("--extent", "INDEX=SIZE", "the size of an index, such as d=128")
_PARAM = _several("--param", "NAME=VALUE", "a parameter of the program, such as window=128")
_SEED = _named("--seed", "N", "for random inputs (0)", type=_count, default=0)
_TF32 = _flag("--tf32", "products of fp32 in tf32")
_RUN_BY = _named("--backend", "NAME", "what runs it (auto)", default="auto")
_NO_NOTES = _flag("--no-notes", "no remarks on what may surprise in the program")
_TEXT_FILE = _option("-o", "--output", metavar="FILE", help="where to write it (standard output)")
GRADIENT = _flag("--gradient", "of its gradient, or how that follows")
OF_GRADIENTS = (
    _several("--wrt", "NAME", "inputs to differentiate with respect to (all floats)"),
    _named(
        "--save",
        "NAME",
        "what to read of the program's values: outputs, definitions, others (what costs least)",
        nargs="*",
    ),
)

# Of each verb, and of its forms

JSON = (_AS_JSON,)  # of those that take nothing else

_FORM = _option(
    "--form",
    choices=("source", *FORMS),
    default="source",
    help="source, or what Triton makes of it for the target, with registers, spills and shared "
    "memory: needs no GPU",
)
_TARGET = _named("--target", "DEVICE", "such as cuda:90, h100 or hip:gfx942")
_EMIT = (
    _FORM,
    _named("--backend", "NAME", "the language to emit: triton or gluon", default="triton"),
    _TARGET,
    _named("--dtype", "TYPE", "of the inputs: bf16, fp16 or fp32, or bf16,K=e4m3,V=e4m3"),
    _TF32,
    _EXTENT,
    _named("--name", "NAME", "the kernel's name"),
    _TEXT_FILE,
)
EMIT = (*_EMIT, _flag("--minimal", "kernels for these sizes and little else, to paste"))
EMIT_GRADIENT = (*EMIT, _flag("--gradient", "with its gradients, for autograd"), *OF_GRADIENTS)
EMIT_MACHINE_CODE = (*_EMIT, _flag("--json", "with --form: what the kernels take, for other tools"))

GRAD = (
    *OF_GRADIENTS,
    _EXTENT,
    _several("--outputs", "NAME", "outputs that have a derivative (all floats)"),
    _flag("--forward", "print the program with what it saves instead"),
    _TEXT_FILE,
)

_STEPS = _named("--steps", "N", "the first N steps only", type=_count)
_STAGE = _option("--stage", choices=STAGES, help="print this stage, not the steps to it")
EXPLAIN = (_STEPS, _NO_NOTES, _EXTENT)
EXPLAIN_JSON = (_STEPS, _AS_JSON, _EXTENT)
EXPLAIN_GRADIENT = (_STEPS, _EXTENT, GRADIENT, *OF_GRADIENTS)
EXPLAIN_GRADIENT_JSON = (*EXPLAIN_GRADIENT, _AS_JSON)
_ORIGINS = _flag("--origins", "with --stage source: what each statement computes")
_BEFORE = _named("--before", "PASS", "print what a rule, or a pass over blocks, found")
_AFTER = _named("--after", "PASS", "print what it left")
_PAGE = _named("--html", "FILE", "write all of it as a page to walk through, for a browser")
_PICTURE = _named("--picture", "NAME", "draw bracketings or tiles, as SVG")
# What else is to be seen, of a program or of its gradient: what asks for it, and its options.
_BEFORE_THE_BACKEND = ("equations", "plan", "tile")
VIEWS: tuple[tuple[str, tuple[Option, ...]], ...] = (
    *((f"--stage {s}", (_STAGE, _EXTENT, _TARGET)) for s in _BEFORE_THE_BACKEND),
    ("--stage", (_STAGE, _EXTENT, _TARGET, _RUN_BY)),
    ("--stage source", (_STAGE, _EXTENT, _TARGET, _RUN_BY, _ORIGINS)),
    ("--before", (_BEFORE, _EXTENT, _TARGET, _RUN_BY)),
    ("--after", (_AFTER, _EXTENT, _TARGET, _RUN_BY)),
    ("--html", (_PAGE, _EXTENT, _RUN_BY)),
    ("--picture", (_PICTURE, _EXTENT)),
)

_CHECK = (_EXTENT, _PARAM, _SEED)
CHECK = (*_CHECK, _flag("--verbose", "a line for each law, step and backend"), _NO_NOTES)
CHECK_JSON = (*_CHECK, _AS_JSON)
BENCH = (
    _EXTENT,
    _PARAM,
    _named("--dtype", "TYPE", "of float inputs: bf16 (on a GPU), fp32 (elsewhere), ..."),
    _named("--rounds", "N", "how often each is timed (5)", type=_positive, default=5),
    _named("--seconds", "S", "how long it may take (60)", type=_seconds, default=60.0),
    _SEED,
    _AS_JSON,
)
SERVE = (
    _named("--port", "N", "where to listen, or the next that is free (8642)", type=_port),
    _flag("--open", "open it in a browser"),
)
_RUN = (
    _PARAM,
    _named("--dtype", "TYPE", "of float inputs: bf16, ..., fp64, or bf16,K=e4m3,V=e4m3"),
    _RUN_BY,
    _AS_JSON,
    _option("-o", "--output", metavar="FILE", help="a .npz file for the outputs"),
)
RUN = (_several("--input", "NAME=FILE", "an input from a .npy file"), *_RUN)
RUN_RANDOM = (
    _flag("--random", "random inputs, of the sizes that --extent gives"),
    _EXTENT,
    _SEED,
    *_RUN,
)
TUNE = (
    _EXTENT,
    _PARAM,
    _named("--dtype", "TYPE", "of float inputs: bf16, fp16 or fp32 (bf16)"),
    _TF32,
    _named("--seconds", "S", "how long it may take (300)", type=_seconds, default=300.0),
    _named("--candidates", "N", "schedules of each kernel to try (60)", type=_positive, default=60),
    _SEED,
    _option("-o", "--output", metavar="FILE", help="a JSON file to add the result to"),
)
