"""`monocomp doctor`: check that what monocomp needs is here, and that a kernel runs and is right.
Each line says what was found and, where something is missing, what to do.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import monocomp
from monocomp.backends.targets import MEASURED, has_run_on
from monocomp.command_line.findings import Finding
from monocomp.errors import first_line

NEEDED = ("torch", "triton", "numpy", "sympy", "lark")
VARIABLES = (
    "MONOCOMP_CACHE_DIR",
    "MONOCOMP_SCHEDULES",
    "MONOCOMP_TUNE",
    "MONOCOMP_DEBUG",
    "TRITON_INTERPRET",
    "TRITON_CACHE_DIR",
    "CUDA_VISIBLE_DEVICES",
)
PROGRAM = "causal"
_SIZES = {"b": 1, "h": 2, "q": 130, "k": 130, "d": 32, "e": 32}


def examine() -> Iterator[Finding]:
    """Yield every finding, as it comes."""
    yield from _versions()
    yield from _machine()
    yield from _cache()
    yield from _kernels()


def _versions() -> Iterator[Finding]:
    section = "versions"
    yield Finding(section, True, f"monocomp {monocomp.__version__}", str(Path(__file__).parents[1]))
    running = sys.version_info[:2]
    yield Finding(
        section,
        running >= (3, 11),
        f"python {platform.python_version()}",
        sys.executable if running >= (3, 11) else "3.11 or later is needed",
    )
    for name in NEEDED:
        try:
            import_module(name)
            yield Finding(section, True, f"{name} {version(name)}")
        except PackageNotFoundError:
            yield Finding(section, True, name, "of unknown version")
        except ImportError as error:
            yield Finding(section, False, name, f"cannot be loaded: {error}; pip install {name}")


def _machine() -> Iterator[Finding]:
    section = "machine"
    yield Finding(section, True, platform.platform(), f"{os.cpu_count()} processors")
    with suppress(ImportError):
        import torch

        if torch.cuda.is_available():
            free, total = (n / 2**30 for n in torch.cuda.mem_get_info())
            major, minor = torch.cuda.get_device_capability()
            name = torch.cuda.get_device_name()
            detail = f"{free:.0f} of {total:.0f} GiB free"
            if not has_run_on(name):
                detail += f"; kernels are tested on {' and '.join(MEASURED)}, not on this GPU"
            yield Finding(section, True, f"{name}, cuda:{major}{minor}", detail)
        else:
            why = (
                "torch was built without CUDA" if torch.version.cuda is None else "torch sees none"
            )
            yield Finding(
                section,
                None,
                "no GPU",
                f"{why}; kernels run on the CPU, by backend torch, and source is emitted",
            )
    for name in VARIABLES:
        if name in os.environ:
            yield Finding(section, True, f"{name}={os.environ[name]}")


def _cache() -> Iterator[Finding]:
    """Proofs, schedules and sources are remembered there; without it all works, and slower."""
    from monocomp.machine.cache import JsonStore, cache_folder

    section = "cache"
    folder = cache_folder()
    if folder is None:
        yield Finding(section, False, "no folder", "MONOCOMP_CACHE_DIR can name one")
        return
    store = JsonStore("doctor")
    store.put("asked", {"answer": monocomp.__version__})
    if store.get("asked") == {"answer": monocomp.__version__}:
        files = [f for f in folder.rglob("*") if f.is_file()]
        size = sum(f.stat().st_size for f in files) / 2**20
        yield Finding(section, True, str(folder), f"{len(files)} files, {size:.1f} MiB")
    else:
        advice = "what is written there is not read back: is it yours, and can others write to it?"
        yield Finding(section, False, str(folder), f"{advice} MONOCOMP_CACHE_DIR can name another")


def _kernels() -> Iterator[Finding]:
    """Check a small kernel on what there is here, and compiled for a GPU that need not be."""
    section = f"a kernel: {PROGRAM}, {', '.join(f'{n} = {s}' for n, s in _SIZES.items())}"
    try:
        import torch  # noqa: F401  # what follows needs it
    except ImportError:
        yield Finding(section, False, "torch is missing")
        return
    from monocomp.checking.steps import Case
    from monocomp.command_line.verification import BACKENDS, check_backend

    kernel = monocomp.compile(monocomp.library.load(PROGRAM), name=PROGRAM)
    case = Case.of(kernel.equations, _SIZES, {}, seed=0)
    for backend in BACKENDS:
        try:
            yield check_backend(section, kernel.equations, backend, [case])
        except Exception as error:  # whatever is wrong with this machine
            yield Finding(section, False, backend, _described(error))
    yield from _machine_code(section, kernel)


def _machine_code(section: str, kernel: monocomp.Kernel) -> Iterator[Finding]:
    from monocomp.source import Emission

    if os.environ.get("TRITON_INTERPRET") == "1":
        return
    what = "triton  to machine code for cuda:90"
    try:
        (made,) = Emission(kernel.planner, _SIZES, "bf16", "cuda:90").machine_code("ptx")
    except Exception as error:
        yield Finding(section, False, what, _described(error))
    else:
        yield Finding(section, True, what, f"{made.usage.registers} registers a thread")


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"
