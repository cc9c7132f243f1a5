"""Both ends of every range in pyproject.toml, tried: `make ranges`, `python -m tests.ranges least`.

    least     the oldest Python, and of every requirement the oldest release that is allowed
    newest    the newest Python that is found here, and what `pip install` brings today

Each end gets an environment, `.venv-least` and `.venv-newest`, in which a kernel is interpreted and
compared (`monocomp doctor`) and tests are run. Nothing but Python is needed to begin with.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENDS = ("least", "newest")
# What depends on versions most: emitted files, interpreted and compiled, torch's and transformers'
# own calls, notebooks, and what README says.
TESTS = (
    "tests/test_readme.py",
    "tests/test_notebooks.py",
    "tests/test_hf.py",
    "tests/test_dot_products.py",
    "tests/derivation/test_certificate.py",
    "tests/tile/test_operations.py",
    "tests/language/test_new_words.py",
    "tests/backends/triton/test_steps.py",
    "tests/backends/triton/test_emit.py",
    "tests/tile/test_split_padding.py",
)
_FOLLOWS = 40  # minor versions of Python that are looked for


def declared() -> tuple[tuple[int, int], dict[str, str]]:
    """The oldest Python, and the lower bounds of all that is needed, also for tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = chain(project["dependencies"], extras["test"], extras["hf"])
    found = (re.fullmatch(r"([\w-]+)>=([\d.]+)(;.*)?", text) for text in wanted)
    major, minor = re.fullmatch(r">=(\d+)\.(\d+)", project["requires-python"]).groups()
    return (int(major), int(minor)), {m[1]: m[2] for m in found}


def requirements(end: str) -> list[str]:
    """What pip is asked for."""
    _, bounds = declared()
    return [f"{name}=={least}.*" if end == "least" else name for name, least in bounds.items()]


def python(end: str) -> str:
    """The Python of an end, by its name on the path."""
    (major, least), _ = declared()
    minors = range(least, least + _FOLLOWS)
    names = (f"python{major}.{n}" for n in (minors if end == "least" else reversed(minors)))
    for name in names:
        if shutil.which(name) and not _call(name, "-c", "import ensurepip, venv", quiet=True):
            return name
    raise SystemExit(f"no Python of {major}.{least} or newer is on the path")


def attempt(end: str) -> int:
    """Make the environment of an end, and try everything in it; 0 if all is well."""
    here, made = ROOT / f".venv-{end}", python(end)
    print(f"{end}: {made}, in {here.name}", flush=True)
    inside = str(here / "bin" / "python")
    pip = (inside, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check")
    return (
        _call(made, "-m", "venv", "--clear", str(here))
        or _call(*pip, "--upgrade", "pip")
        or _call(*pip, *requirements(end))
        or _call(inside, "-m", "monocomp", "doctor", TRITON_INTERPRET="1")
        or _call(inside, "-m", "pytest", "-q", "-m", "not gpu and not slow", *TESTS)
    )


def _call(*command: str, quiet: bool = False, **environment: str) -> int:
    output = subprocess.DEVNULL if quiet else None
    around = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        command, cwd=ROOT, env=around, stdout=output, stderr=output, check=False
    ).returncode


def main(ends: list[str]) -> int:
    """Try the ends that are named, or both."""
    found = {end: attempt(end) for end in ends or ENDS}
    for end, status in found.items():
        print(f"{end}: {'failed' if status else 'all is well'}", flush=True)
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
