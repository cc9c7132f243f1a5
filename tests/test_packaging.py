"""The package that users install: links, wheel, commands; and what its code may not do."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Mapping, Set
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

from tests import ranges

ROOT = Path(__file__).parent.parent
LINKS = ("rewrites", "backends")  # monocomp/<name> -> ../<name>


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command without what the caller's environment says about Python's paths."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    words = [str(part) for part in command]
    return subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def files_of_the_package() -> set[str]:
    """Paths, as a wheel has them, of the modules and data files in this checkout."""
    found = set()
    for folder, _, names in os.walk(ROOT / "monocomp", followlinks=True):
        for name in names:
            if name.endswith((".py", ".lark", ".mc", ".json", ".css", ".js")) or name == "py.typed":
                found.add((Path(folder) / name).relative_to(ROOT).as_posix())
    return found


# --- the checkout


@pytest.fixture
def git_checkout() -> None:
    top = run("git", "rev-parse", "--show-toplevel")
    if top.returncode != 0 or Path(top.stdout.strip()).resolve() != ROOT.resolve():
        pytest.skip("not a git checkout")


@pytest.mark.usefixtures("git_checkout")
@pytest.mark.parametrize("name", LINKS)
def test_links_are_links(name: str) -> None:
    assert os.readlink(ROOT / "monocomp" / name) == f"../{name}"
    stored = run("git", "ls-files", "--stage", f"monocomp/{name}").stdout
    assert stored.split(" ")[0] == "120000", f"git stores monocomp/{name} as {stored!r}"


@pytest.mark.parametrize("name", LINKS)
def test_top_level_import_is_refused(name: str) -> None:
    """It would load every module, and so every class, a second time."""
    result = run(sys.executable, "-c", f"import {name}")
    assert result.returncode == 1
    message = f"ImportError: import it as monocomp.{name}, not as a top-level package"
    assert result.stderr.splitlines()[-1] == message


def test_requirements_are_pinned() -> None:
    """Each requirement in pyproject.toml has one exact version in constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {re.split(r"[\[><=; ]", requirement)[0] for requirement in wanted} - {"monocomp"}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line.split("==")[0] for line in lines if line and not line.startswith("#")]
    assert names <= set(pins)
    assert len(pins) == len(set(pins))


def test_ranges_are_declared_with_their_ends() -> None:
    """`make ranges` tries both ends of each; README says of which."""
    (major, minor), bounds = ranges.declared()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    python = [c.rpartition(" ")[2] for c in project["classifiers"] if "Python :: 3." in c]
    assert python[0] == f"{major}.{minor}"
    readme = (ROOT / "README.md").read_text()
    assert f"Python {python[0]} to {python[-1]}" in readme
    for name in ("torch", "triton"):
        assert f"{name} {bounds[name]} or newer" in readme
        assert f"{name}=={bounds[name]}.*" in ranges.requirements("least")
    assert set(bounds) == set(ranges.requirements("newest"))


# --- the archive and the wheel


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source archive, built from a copy so that nothing of an earlier build gets in."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("monocomp", *LINKS):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignore)
    target = tmp_path_factory.mktemp("sdist")
    build = f"from setuptools.build_meta import build_sdist; build_sdist({str(target)!r})"
    result = run(sys.executable, "-c", build, cwd=source)
    assert result.returncode == 0, result.stderr
    (built,) = target.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the source archive gives."""
    target = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    result = run(sys.executable, "-m", "pip", "wheel", *options, "-w", target, sdist)
    assert result.returncode == 0, result.stderr
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment that holds the wheel.

    It borrows the requirements of this environment through one line in a .pth file. The
    .pth files of this environment, an editable monocomp among them, are not read there.
    """
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    options = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    pip = (sys.executable, "-m", "pip", "--python", python, "install")
    result = run(*pip, *options, wheel)
    assert result.returncode == 0, result.stderr
    (site,) = folder.glob("lib/python*/site-packages")
    borrowed = dict.fromkeys(sysconfig.get_path(key) for key in ("purelib", "platlib"))
    (site / "borrowed.pth").write_text("".join(f"{path}\n" for path in borrowed))
    return python


def test_wheel_holds_every_file(wheel: Path) -> None:
    expected = files_of_the_package()
    assert {"monocomp/py.typed", "monocomp/library/attention.mc"} <= expected
    assert any(name.endswith(".lark") for name in expected)
    for name in LINKS:
        assert f"monocomp/{name}/__init__.py" in expected
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    metadata = [name for name in names if ".dist-info/" in name]
    assert any(name.endswith("/LICENSE") for name in metadata)
    assert set(names) - set(metadata) == expected


def test_wheel_imports_from_itself(clean_python: Path, tmp_path: Path) -> None:
    program = """
import importlib, pkgutil, sys
import monocomp
for module in pkgutil.walk_packages(monocomp.__path__, "monocomp."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for name, module in sorted(sys.modules.items()):
    if name.split(".")[0] == "monocomp":
        print(module.__file__)
"""
    result = run(clean_python, "-c", program, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    home = clean_python.parent.parent
    positions = [Path(line) for line in result.stdout.splitlines()]
    assert positions and all(position.is_relative_to(home) for position in positions)


def test_commands_run_from_the_wheel(clean_python: Path, tmp_path: Path) -> None:
    monocomp = clean_python.parent / "monocomp"
    listed = run(monocomp, "list", cwd=tmp_path)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "attention" in listed.stdout

    emitted = run(monocomp, "emit", "attention", cwd=tmp_path)
    assert emitted.returncode == 0, emitted.stderr
    assert emitted.stdout.startswith(('"""', "#"))
    ast.parse(emitted.stdout)
    assert not list(tmp_path.iterdir())


# --- what the code may not do

# Positions that were read and found safe, as "module:name" with the reason.
AUDITED = {
    "monocomp.host.texts:exec": "names are a letter and a number, or its own",
}

UNSAFE_CALLS = {"eval", "exec", "__import__"}  # as bare names
UNSAFE_NAMES = {"sympify", "parse_expr", "lambdify"}  # of any module
UNSAFE_OF_OS = {"system", "popen"}
UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
UNSAFE_KEYWORDS = {"shell", "allow_pickle"}  # unless False


def unsafe_uses(tree: ast.AST) -> set[str]:
    """Names in a module that run text as code, or read data that can do so."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if name in UNSAFE_CALLS | UNSAFE_NAMES:
                found.add(name)
            case ast.Attribute(attr=name) if name in UNSAFE_NAMES:
                found.add(name)
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in UNSAFE_OF_OS:
                found.add(name)
            case ast.alias(name=name):
                parts = set(name.split("."))
                found |= parts & (UNSAFE_MODULES | UNSAFE_NAMES)
            case ast.ImportFrom(module=str(module)):
                found |= set(module.split(".")) & UNSAFE_MODULES
            case ast.keyword(arg=str(name), value=value) if name in UNSAFE_KEYWORDS:
                if not (isinstance(value, ast.Constant) and value.value is False):
                    found.add(name)
    return found


def test_no_text_is_run_as_code() -> None:
    found = {
        f"{name}:{use}"
        for name, text in sources_of_modules().items()
        for use in unsafe_uses(parsed(text))
    }
    assert found == set(AUDITED), "read each new position, then list it in AUDITED with its reason"


# Two that know one another: what is printed and its printer; a kernel and its stages;
# calls and what differentiates, records or names them; gradients, their choices and files.
MUTUAL = {
    ("monocomp.stages", "monocomp.kernel"),
    ("monocomp.calls.autograd", "monocomp.calls.calls"),
    ("monocomp.calls.operators", "monocomp.calls.calls"),
    ("monocomp.calls.paths", "monocomp.calls.calls"),
    ("monocomp.calls.paths", "monocomp.calls.autograd"),
}


@cache
def sources_of_modules() -> dict[str, str]:
    """The text of every module, but for the package's own, whose names are looked up late."""
    files = (Path(name) for name in files_of_the_package() if name.endswith(".py"))
    texts = {f.with_suffix(""): (ROOT / f).read_text(encoding="utf-8") for f in files}
    found = {".".join(p.parts).removesuffix(".__init__"): text for p, text in texts.items()}
    return {name: text for name, text in found.items() if name != "monocomp"}


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def imported(name: str, text: str, modules: Mapping[str, str]) -> Iterator[str]:
    """Modules that a module imports, also late or for its types, and the packages around them."""
    for target in named_in_imports(text):
        parts = target.split(".")
        around = {".".join(parts[: n + 1]) for n in range(len(parts))}
        yield from (m for m in around if m in modules and not f"{name}.".startswith(f"{m}."))


@cache
def named_in_imports(text: str) -> list[str]:
    """What stands in the import statements of a module."""
    found = []
    for node in ast.walk(parsed(text)):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                found += [*(f"{module}.{n.name}" for n in names), module]
            case ast.Import(names=names):
                found += [n.name for n in names]
    return found


def imports(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """What every module imports."""
    return {name: set(imported(name, text, modules)) for name, text in modules.items()}


def cycle(graph: Mapping[str, set[str]], mutual: Set[tuple[str, str]] = MUTUAL) -> list[str]:
    """Modules that import one another in a circle, or none."""
    rest = {name: {m for m in found if (name, m) not in mutual} for name, found in graph.items()}
    try:
        TopologicalSorter(rest).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_modules_import_in_one_direction() -> None:
    """No module needs one that needs it, wherever the imports stand."""
    graph = imports(sources_of_modules())
    assert not cycle(graph)
    for pair in MUTUAL:
        assert cycle(graph, MUTUAL - {pair}), f"remove {pair} from MUTUAL"


# The rooms of the house, each built on those before it. The oracle, in `reference`, shares no code
# with what turns checked programs into kernels.
ROOMS = (
    *("library", "machine", "display", "declarations", "language", "reference", "terms", "extents"),
    *("proving", "translation", "rewriting", "rewrites", "checking"),
    *("tile", "lowering", "costs", "derivation", "planning", "gradients", "blocks", "host"),
    *("backends", "calls", "explorer", "server", "command_line"),
)


def room(module: str) -> str:
    """The folder of a module, or the module where it has none."""
    return module.split(".")[1]


def pointing_upward(modules: Mapping[str, str]) -> set[tuple[str, str]]:
    """The modules that import from a later room than one that needs them, wherever the imports
    stand: those in rooms, and those without a room that they use in turn."""
    positions = {name: position for position, name in enumerate(ROOMS)}
    graph = imports(modules)
    found = set()
    for start in (name for name in modules if room(name) in positions):
        waiting, seen = [start], {start}
        while waiting:
            name = waiting.pop()
            for other in (m for m in graph[name] - seen if (name, m) not in MUTUAL):
                if positions.get(room(other), -1) > positions[room(start)]:
                    found.add((name, room(other)))
                elif room(other) not in positions:
                    seen.add(other)
                    waiting.append(other)
    return found


def test_rooms_build_on_those_before_them() -> None:
    modules = sources_of_modules()
    folders = {room(name) for name in modules if name.count(".") > 1}
    assert folders <= {*ROOMS}, "say where in ROOMS the new folder stands"
    assert not pointing_upward(modules)


def test_syntax_ends_where_it_is_translated() -> None:
    """Later stages have equations, and look back at no syntax; laws and rules are lines of it."""
    modules = sources_of_modules()
    users = {n for n, t in modules.items() if "monocomp.language.syntax" in imported(n, t, modules)}
    others = {name for name in users if room(name) not in ("language", "reference")}
    stage = ("translator", "declared_monoids", "entries")
    translating = {f"monocomp.translation.{module}" for module in stage}
    assert others == {*translating, "monocomp.proving.reading", "monocomp.rewriting.equations"}


def test_what_points_upward_is_seen() -> None:
    modules = {
        "m.terms.ring": "def f():\n    from m.lowering import loops",
        "m.lowering.loops": "from m.terms import ring",
        "m.lowering": "",
        "m.terms.nodes": "import m.helper",
        "m.helper": "import m.other",
        "m.other": "import m.tile",
        "m.tile": "import m.helper",
    }
    assert pointing_upward(modules) == {("m.terms.ring", "lowering"), ("m.other", "tile")}


def test_modules_are_finished_in_one_sitting() -> None:
    tests = {str(path): path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    modules = sources_of_modules() | tests
    lengths = {name: text.count("\n") for name, text in modules.items()}
    assert not {n for n, length in lengths.items() if length > 500}, "split it along its ideas"


def test_docstrings_begin_with_a_verb() -> None:
    """Or an equation, or a noun: none begins in the middle of a sentence."""
    words = {"What", "That", "Those", "Of", "As", "Is", "Are", "Does", "May", "Has"}
    words |= {"Where", "When", "Which", "Whether", "Why", "Who", "How", "Would", "Could"}
    words |= {"From", "With", "For", "Its"}
    found = set()
    for name, text in sources_of_modules().items():
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                docstring = ast.get_docstring(node)
                if docstring and docstring.split()[0].rstrip(",.:") in words:
                    found.add(f"{name}: {docstring.splitlines()[0]}")
    assert not found
