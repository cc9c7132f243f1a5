"""What all tests share: the golden files, Hypothesis profiles, and caches that vanish."""

from __future__ import annotations

import atexit
import difflib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

GOLDEN = Path(__file__).parent / "golden"


def _private_caches() -> None:
    """Send every cache to a folder of this run, so that no run reads or leaves anything.

    Workers of pytest-xdist inherit the folder of the process that started them, which is
    also the one that removes it.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    folder = tempfile.mkdtemp(prefix="monocomp-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for variable in (
        "MONOCOMP_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "IPYTHONDIR",
        "JUPYTER_CONFIG_DIR",
        "JUPYTER_DATA_DIR",
        "JUPYTER_RUNTIME_DIR",
    ):
        os.environ[variable] = os.path.join(folder, variable.lower())


def _share_cores() -> None:
    """Give each worker of pytest-xdist its part of the cores, subprocesses included."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        threads = max(1, (os.cpu_count() or 1) // workers)
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))


_private_caches()
_share_cores()
# Triton 3.9 warns that 3.10 will not fuse multiplications and additions unless asked to.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="run the tests that use golden files, and write those files instead of comparing",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seen: Counter[str] = Counter()
    for item in items:
        for marker in item.iter_markers("one_in"):
            test = item.nodeid.split("[")[0]
            if seen[test] % marker.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[test] += 1
    if config.getoption("--update-golden"):
        others = [item for item in items if "golden" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
            pytest.skip("torch sees no GPU")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with `tests/golden/<name>`, or write it there with --update-golden."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        if not path.exists():
            pytest.fail(f"no golden file {name}: run `make golden` and read it", pytrace=False)
        expected = path.read_bytes().decode()
        if text != expected:
            before, after = expected.splitlines(), text.splitlines()
            lines = list(difflib.unified_diff(before, after, f"golden/{name}", "now", lineterm=""))
            diff = "\n".join(lines or ["(only line ends differ)"])
            hint = "if this is meant, run `make golden` and read the diff"
            pytest.fail(f"{name} has changed; {hint}\n{diff}", pytrace=False)

    return check
