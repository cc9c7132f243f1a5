"""Emitted sources are kept between runs, and compared before they run."""

from __future__ import annotations

import inspect
import linecache
import os
import py_compile
import resource
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from monocomp.backends.triton import launch
from monocomp.machine.cache import JsonStore

SOURCE = "value = 1\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, and no module that was loaded before."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(folder))
    monkeypatch.setattr(launch, "_LOADED", {})
    modules = set(sys.modules)
    yield folder
    for name in set(sys.modules) - modules:
        if name.startswith("monocomp_emitted_"):
            del sys.modules[name]


def loaded(source: str = SOURCE) -> ModuleType:
    """Import a source as a fresh process would."""
    launch._LOADED.clear()
    return launch.load(source)


def position(module: ModuleType) -> Path:
    """The file that a module came from."""
    assert module.__file__ is not None
    return Path(module.__file__)


# --- sources ------------------------------------------------------------------------------


def test_sources_are_private_files(cache: Path) -> None:
    """In folders that only the user enters, from the first."""
    before = os.umask(0o002)
    try:
        path = position(loaded())
    finally:
        os.umask(before)
    assert path.parent == cache / "sources"
    assert path.read_text() == SOURCE
    assert [p.stat().st_mode & 0o777 for p in (cache, path.parent, path)] == [0o700, 0o700, 0o600]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"value",
        b"value = 2\n",
        b"raise SystemExit('run')\n",
        b"\xff\xfe\x00",
        SOURCE[:-1].encode(),
    ],
)
def test_damaged_sources_are_replaced(cache: Path, damage: bytes) -> None:
    """Whatever stands in a source's place is not run."""
    path = position(loaded())
    path.write_bytes(damage)
    assert loaded().value == 1
    assert path.read_text() == SOURCE


def test_bytecode_beside_a_source(cache: Path) -> None:
    """Is not run, and none is left there."""
    path = position(loaded())
    path.write_text("value = 4\n")
    bytecode = Path(py_compile.compile(str(path), doraise=True) or "")
    stamps = path.stat()
    path.write_text(SOURCE)
    os.utime(path, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    assert loaded().value == 1
    bytecode.unlink()
    assert loaded().value == 1
    assert not bytecode.exists()


@pytest.mark.timeout(30)  # it must not wait for a writer
@pytest.mark.parametrize("kind", ["link", "dangling link", "looping link", "pipe", "socket"])
def test_what_is_no_file_in_a_sources_place(
    cache: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is replaced; what a link points to stays."""
    path, other = position(loaded()), tmp_path / "other.py"
    monkeypatch.chdir(tmp_path)
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("source")  # addresses of sockets are short
        os.rename("source", path)
    else:
        path.symlink_to(path if kind == "looping link" else other)
    if kind == "link":
        other.write_text(SOURCE)
    assert loaded().value == 1
    assert path.is_file() and not path.is_symlink() and path.read_text() == SOURCE
    assert other.exists() == (kind == "link")
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_folder_in_a_sources_place(cache: Path) -> None:
    """Then the source runs from memory."""
    path = position(loaded())
    path.unlink()
    path.mkdir()
    with pytest.warns(RuntimeWarning, match="cannot write to the cache folder .*: Is a directory"):
        module = loaded()
    assert module.value == 1 and not position(module).exists()
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("which", ["", "sources"])
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_folders_that_others_may_write(cache: Path, which: str, mode: int) -> None:
    """Nothing is read from them or written to them."""
    (cache / "sources").mkdir(parents=True)
    (cache / which).chmod(mode)
    with pytest.warns(RuntimeWarning, match="others may write here"):
        module = loaded()
    assert module.value == 1 and not position(module).exists()
    assert not list((cache / "sources").iterdir())


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", ["a file", "below a file", "a pipe", "a loop", "nowhere"])
def test_no_cache_to_be_had(
    kind: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels run all the same, with one warning, and nothing is left anywhere."""
    (tmp_path / "file").write_text("not a folder")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if kind == "nowhere":
        monkeypatch.setattr("monocomp.machine.cache.cache_folder", lambda: None)
        monkeypatch.setattr("monocomp.machine.cache._warned", set())
    else:
        below = {"below a file": "file/cache"}.get(kind, kind.partition(" ")[2])
        monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(tmp_path / below))
    store = JsonStore("schedules")
    with pytest.warns(RuntimeWarning, match="cannot write to the cache folder") as caught:
        assert loaded().value == 1
        store.put("key", {"a": 1})
    assert len(caught) == 1 and store.get("key") is None
    assert sorted(tmp_path.rglob("*")) == before


def test_a_full_disk(cache: Path) -> None:
    """Leaves no file, not even an empty one."""
    with full_disk(), pytest.warns(RuntimeWarning, match="File too large"):
        assert loaded().value == 1
        JsonStore("sources").put("key", {"a": 1})
    assert not list((cache / "sources").iterdir())


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_interruption_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And goes on."""

    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", interrupt)
        loaded()
    assert not list((cache / "sources").iterdir())


def test_what_runs_is_what_is_shown(cache: Path) -> None:
    """Triton compiles what `inspect` shows, which is not read from the file again."""
    source = "def kernel():\n    return 1\n"
    module = loaded(source)
    position(module).write_text("def kernel():\n    return 2\n")
    linecache.checkcache()
    assert inspect.getsource(module.kernel) == source
