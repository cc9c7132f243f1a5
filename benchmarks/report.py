"""What the benchmarks share: a result, a table in Markdown, and the words about a machine."""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import monocomp


@dataclass
class Report:
    """One benchmark's result.

    Attributes:
        name: the benchmark's module.
        text: Markdown, for a terminal or a README.
        data: the same numbers and more, for other tools.
        right: were all results that were checked right?
    """

    name: str
    text: str
    data: dict[str, Any] = field(default_factory=dict)
    right: bool = True


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table whose columns line up; all but the first are flushed right."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(header))]

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * w if n == 0 else "-" * (w - 1) + ":" for n, w in enumerate(widths)]
    return "\n".join([line(cells[0]), line(rule), *map(line, cells[1:])])


def today() -> str:
    """The date of a measurement."""
    return datetime.date.today().isoformat()


def processor() -> str:
    """The CPU's name."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def load() -> str:
    """How busy the machine was when the measurement began: CPU times mean little beside others."""
    return f"load average {os.getloadavg()[0]:.1f}"


def in_one_line(fault: BaseException) -> str:
    """An error's class and the beginning of its text."""
    name, words = type(fault).__name__, str(fault).split()
    return " ".join([f"{name}:", *words] if words[:1] != [f"{name}:"] else words)[:200]


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python, monocomp and of packages that are installed."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"Python": platform.python_version(), "monocomp": monocomp.__version__}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def listed(words: Mapping[str, str]) -> str:
    """`{"torch": "2.13.0"}` as "torch 2.13.0"."""
    return ", ".join(f"{name} {value}" for name, value in words.items())


def alternating(
    computations: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each computation, taken in turn so that a busy machine is fair to all."""
    for compute in computations.values():
        compute()
    taken: dict[str, list[float]] = {name: [] for name in computations}
    names = list(computations)
    for turn in range(rounds):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            began = clock()
            computations[name]()
            taken[name].append(clock() - began)
    return taken


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least this part of the values do not exceed."""
    return sorted(values)[math.ceil(part * len(values)) - 1]


def summary(values: Sequence[float]) -> dict[str, float]:
    """Least, median and greatest."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def write_json(path: str | None, reports: Iterable[Report]) -> None:
    """Write the data of some reports to a file, if one is named."""
    if path is not None:
        data = {r.name: {**r.data, "right": r.right} for r in reports}
        Path(path).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def options(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repetitions")
    parser.add_argument("--json", metavar="FILE", help="also write all numbers to a file")
    return parser
