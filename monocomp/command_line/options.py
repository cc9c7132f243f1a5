"""The options of each verb of the command line, as data."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

from monocomp.command_line.completion import SHELLS
from monocomp.errors import shorten
from monocomp.stages import STAGES

# What `monocomp.backends.triton.machine_code` makes; that module loads torch.
FORMS = ("ttir", "ttgir", "llir", "ptx", "amdgcn")


class Option(NamedTuple):
    """An option, and how it is read: the arguments of `argparse`'s `add_argument`. Of those that
    are `alone` a command takes one."""

    names: tuple[str, ...]
    how: dict[str, Any]
    alone: bool = False


def add(command: argparse.ArgumentParser, options: tuple[Option, ...]) -> None:
    """Let a command take options."""
    has_group = any(o.alone for o in options)  # which argparse wants no empty one of
    group = command.add_mutually_exclusive_group() if has_group else command
    for names, how, alone in options:
        (group if alone else command).add_argument(*names, **how)


def _option(*names: str, alone: bool = False, **how: Any) -> Option:
    return Option(names, how, alone)


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
_OF_GRADIENTS = (
    _several("--wrt", "NAME", "inputs to differentiate with respect to (all floats)"),
    _named(
        "--save",
        "NAME",
        "what to read of the program's values: outputs, definitions, others (what costs least)",
        nargs="*",
    ),
)

# Of each verb

JSON = (_AS_JSON,)  # of those that take nothing else
EMIT = (
    _option(
        "--form",
        choices=("source", *FORMS),
        default="source",
        help="source, or what Triton makes of it for the target, with registers, spills and shared "
        "memory: needs no GPU",
    ),
    _named("--backend", "NAME", "the language to emit: triton or gluon", default="triton"),
    _named("--target", "DEVICE", "such as cuda:90 or hip:gfx942"),
    _named("--dtype", "TYPE", "of the inputs: bf16, fp16 or fp32, or bf16,K=e4m3,V=e4m3"),
    _TF32,
    _EXTENT,
    _flag("--minimal", "kernels for these sizes and little else, to paste"),
    _flag("--gradient", "with its gradients, for autograd"),
    *_OF_GRADIENTS,
    _named("--name", "NAME", "the kernel's name"),
    _flag("--json", "with --form: what the kernels take, for other tools"),
    _TEXT_FILE,
)
GRAD = (
    *_OF_GRADIENTS,
    _EXTENT,
    _several("--outputs", "NAME", "outputs that have a derivative (all floats)"),
    _flag("--forward", "print the program with what it saves instead"),
    _TEXT_FILE,
)
EXPLAIN = (
    _AS_JSON,
    _named("--steps", "N", "the first N steps only", type=_count),
    _flag("--origins", "with --stage source: what each statement computes"),
    _RUN_BY,
    _flag("--gradient", "how its gradient follows"),
    *_OF_GRADIENTS,
    _option("--stage", choices=STAGES, help="print this stage, not the steps to it", alone=True),
    _named("--before", "PASS", "print what a rule, or a pass over blocks, found", alone=True),
    _named("--after", "PASS", "print what it left", alone=True),
    _named(
        "--html", "FILE", "write all of it as a page to walk through, for a browser", alone=True
    ),
    _named(
        "--picture", "NAME", "draw bracketings, tiles, roofline or timeline, as SVG", alone=True
    ),
    _NO_NOTES,
    _EXTENT,
)
CHECK = (_NO_NOTES, _EXTENT, _PARAM, _SEED, _AS_JSON)
BENCH = (
    _EXTENT,
    _PARAM,
    _named("--dtype", "TYPE", "of float inputs: bf16 (on a GPU), fp32 (elsewhere), ..."),
    _named("--rounds", "N", "how often each is timed (5)", type=_positive, default=5),
    _named("--seconds", "S", "how long it may take (60)", type=_seconds, default=60.0),
    _SEED,
    _AS_JSON,
)
COMPLETION = (_option("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh, fish"),)
RUN = (
    _several("--input", "NAME=FILE", "an input from a .npy file"),
    _flag("--random", "random inputs, of the sizes that --extent gives"),
    _EXTENT,
    _PARAM,
    _named("--dtype", "TYPE", "of float inputs: bf16, ..., fp64, or bf16,K=e4m3,V=e4m3"),
    _RUN_BY,
    _SEED,
    _AS_JSON,
    _option("-o", "--output", metavar="FILE", help="a .npz file for the outputs"),
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
