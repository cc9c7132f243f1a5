"""The options of each verb of the command line."""

from __future__ import annotations

import argparse

from monocomp.command_line.completion import SHELLS
from monocomp.errors import shorten
from monocomp.stages import STAGES

# What `monocomp.backends.triton.machine_code` makes; that module loads torch.
FORMS = ("ttir", "ttgir", "llir", "ptx", "amdgcn")


def as_json(command: argparse.ArgumentParser) -> None:
    """Alone, for verbs that take nothing else."""
    command.add_argument("--json", action="store_true", help="everything, for other tools")


def _several(command: argparse.ArgumentParser, option: str, form: str, about: str) -> None:
    command.add_argument(option, nargs="+", action="extend", default=[], metavar=form, help=about)


def _extent(command: argparse.ArgumentParser) -> None:
    _several(command, "--extent", "INDEX=SIZE", "the size of an index, such as d=128")


def _param(command: argparse.ArgumentParser) -> None:
    _several(command, "--param", "NAME=VALUE", "a parameter of the program, such as window=128")


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


def _seed(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--seed", type=_count, default=0, metavar="N", help="for random inputs (0)"
    )


def emit(command: argparse.ArgumentParser) -> None:
    """Of `monocomp emit`."""
    add = command.add_argument
    add(
        "--form",
        choices=("source", *FORMS),
        default="source",
        help="source, or what Triton makes of it for the target, with registers, spills and shared "
        "memory: needs no GPU",
    )
    add("--backend", default="triton", metavar="NAME", help="the language to emit: triton or gluon")
    add("--target", metavar="DEVICE", help="such as cuda:90 or hip:gfx942")
    add("--dtype", metavar="TYPE", help="of the inputs: bf16, fp16 or fp32, or bf16,K=e4m3,V=e4m3")
    add("--tf32", action="store_true", help="products of fp32 in tf32")
    _extent(command)
    add("--minimal", action="store_true", help="kernels for these sizes and little else, to paste")
    add("--gradient", action="store_true", help="with its gradients, for autograd")
    _of_gradients(command)
    add("--name", metavar="NAME", help="the kernel's name")
    add("--json", action="store_true", help="with --form: what the kernels take, for other tools")
    add("-o", "--output", metavar="FILE", help="where to write it (standard output)")


def _of_gradients(command: argparse.ArgumentParser) -> None:
    _several(command, "--wrt", "NAME", "inputs to differentiate with respect to (all floats)")
    command.add_argument(
        "--save",
        nargs="*",
        metavar="NAME",
        help="what to read of the program's values, outputs among them (what costs least)",
    )


def grad(command: argparse.ArgumentParser) -> None:
    """Of `monocomp grad`."""
    add = command.add_argument
    _of_gradients(command)
    _extent(command)
    _several(command, "--outputs", "NAME", "outputs that have a derivative (all floats)")
    add("--forward", action="store_true", help="print the program with what it saves instead")
    add("-o", "--output", metavar="FILE", help="where to write it (standard output)")


def explain(command: argparse.ArgumentParser) -> None:
    """Of `monocomp explain`."""
    as_json(command)
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


def check(command: argparse.ArgumentParser) -> None:
    """Of `monocomp check`."""
    _no_notes(command)
    _extent(command)
    _param(command)
    _seed(command)
    as_json(command)


def bench(command: argparse.ArgumentParser) -> None:
    """Of `monocomp bench`."""
    add = command.add_argument
    _extent(command)
    _param(command)
    add("--dtype", metavar="TYPE", help="of float inputs: bf16 (on a GPU), fp32 (elsewhere), ...")
    add("--rounds", type=_positive, default=5, metavar="N", help="how often each is timed (5)")
    add("--seconds", type=_seconds, default=60.0, metavar="S", help="how long it may take (60)")
    _seed(command)
    as_json(command)


def completion(command: argparse.ArgumentParser) -> None:
    """Of `monocomp completion`."""
    command.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh, fish")


def run(command: argparse.ArgumentParser) -> None:
    """Of `monocomp run`."""
    add = command.add_argument
    _several(command, "--input", "NAME=FILE", "an input from a .npy file")
    add("--random", action="store_true", help="random inputs, of the sizes that --extent gives")
    _extent(command)
    _param(command)
    add("--dtype", metavar="TYPE", help="of float inputs: bf16, ..., fp64, or bf16,K=e4m3,V=e4m3")
    add("--backend", default="auto", metavar="NAME", help="what runs it (auto)")
    _seed(command)
    as_json(command)
    add("-o", "--output", metavar="FILE", help="a .npz file for the outputs")


def _positive(text: str) -> int:
    number = _count(text)
    if not 0 < number <= 10**6:
        raise argparse.ArgumentTypeError("the number must lie in 1 to 1000000")
    return number


def tune(command: argparse.ArgumentParser) -> None:
    """Of `monocomp tune`."""
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
