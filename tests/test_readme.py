"""What the README and the pages show is what happens: their Python runs, their commands print what
they print.

A block of output may be abridged with `...`, alone on a line or at its end. The pieces between
must come in that order; blanks and line breaks are not compared.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from monocomp.backends.targets import MEASURED

pytest.importorskip("torch")
from tests.marks import slow_unless

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in (
        "README.md",
        "monocomp/language/reference.md",
        "monocomp/command_line/reference.md",
        "monocomp/reference/derivations.md",
        "monocomp/reference/limits.md",
        "monocomp/reference/semantics.md",
    )
}
ALL = "\n".join(PAGES.values())


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, text and first line's number."""

    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    found, text = [], PAGES[page]
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        found.append(Block(match[1], match[2], text.count("\n", 0, match.start()) + 2))
    return found


def pieces(shown: str) -> list[str]:
    """The parts of an abridged text, without blanks."""
    parts = re.split(r"\.\.\.$", shown, flags=re.MULTILINE)
    return [re.sub(r"\s", "", part) for part in parts]


def assert_shows(shown: str, actual: str, where: str) -> None:
    """The shown text is the actual one, but for what is left out."""
    rest = re.sub(r"\s", "", actual)
    first, *others = pieces(shown)
    assert rest.startswith(first), f"{where}: {first!r} is not at the start of\n{actual}"
    position = len(first)
    for part in others:
        found = rest.find(part, position)
        assert found >= 0, f"{where}: {part!r} is not in\n{actual}"
        position = found + len(part)
    if not others or others[-1]:
        assert position == len(rest), f"{where}: more was printed\n{actual}"


@dataclass(frozen=True)
class Command:
    """A command of a console block, what the page shows of its output, and its status."""

    words: str
    shown: str
    status: int
    page: str
    line: int


def commands(page: str) -> list[Command]:
    found: list[Command] = []
    for block in blocks(page):
        if block.language != "console":
            continue
        assert block.text.startswith("$ "), f"line {block.line}: no command"
        line = block.line
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            words, _, shown = part.partition("\n")
            if words == "echo $?":
                last = found.pop()
                found.append(Command(last.words, last.shown, int(shown), page, last.line))
            else:
                found.append(Command(words, shown, 0, page, line))
            line += part.count("\n")
    return found


COMMANDS = [c for page in PAGES for c in commands(page)]
MONOCOMP = [c for c in COMMANDS if c.words.startswith("monocomp ")]
# Several seconds each, and tested elsewhere.
SLOW = ("bench ", "check ", "doctor", "emit causal --form", "run sliding_window", "tune ")


@contextlib.contextmanager
def _not_compiled() -> Iterator[None]:
    """`torch.compile(f)` is f, whatever that says; torch's own calls, with options, are theirs."""
    import torch

    real = torch.compile

    def patched(f: Any, **options: Any) -> Any:
        return real(f, **options) if options else f

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(torch, "compile", patched)
        yield


@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(b.language == "python" for b in blocks(p))]
)
def test_python_blocks_run_in_order(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one namespace, on the CPU. A text block after one is what it prints."""
    import torch

    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    module = ModuleType("readme")  # which torch imports to trace a function of it
    monkeypatch.setitem(sys.modules, "readme", module)
    namespace = vars(module)
    printed, where = "", ""
    for block in blocks(page):
        if block.language in ("python", "py"):
            assert printed == "", f"{where}: the output is not shown"
            where = f"{page}, line {block.line}"
            out = io.StringIO()
            code = compile("\n" * (block.line - 1) + block.text, page, "exec")
            with contextlib.ExitStack() as during:
                during.enter_context(contextlib.redirect_stdout(out))
                if block.language == "py":  # others' code
                    during.enter_context(_not_compiled())
                exec(code, namespace)
            printed = out.getvalue()
        elif block.language == "text":
            assert_shows(block.text, printed, where)
            printed = ""
    assert printed == ""
    assert not list(tmp_path.iterdir())
    if "flex" in namespace:
        assert torch.allclose(namespace["O"], namespace["flex"], atol=1e-5)


def test_readme_is_short() -> None:
    assert len(README.encode()) <= 12 << 10
    assert {"python", "py", "console"} <= {b.language for b in blocks("README.md")}


def test_numbers_are_of_the_results() -> None:
    """Those of a row stand in one row of the benchmarks, with the ratio that is said."""
    results = (ROOT / "benchmarks/RESULTS.md").read_text(encoding="utf-8")
    section = README.partition("## Numbers")[2].partition("\n## ")[0]
    rows = [[c.strip() for c in r.strip("|").split("|")] for r in section.splitlines() if "|" in r]
    measured = [[c.strip() for c in r.strip("|").split("|")] for r in results.splitlines()]
    numbers = [row for row in rows if row[1].isdecimal()]
    assert len(numbers) >= 10
    for what, ours, flex, cudnn, fa3, ratio in numbers:
        needed = {ours, flex, cudnn, fa3, ratio} - {""}
        assert any(needed <= {*row} for row in measured), what


@pytest.mark.parametrize(
    "command",
    slow_unless(
        lambda c: c.page == "README.md" or not c.words.removeprefix("monocomp ").startswith(SLOW),
        MONOCOMP,
    ),
    ids=lambda c: f"{c.page}, line {c.line}",
)
def test_command(command: Command, tmp_path: Path) -> None:
    words = shlex.split(command.words)
    assert words[0] == "monocomp"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == command.status, done.stdout
    assert_shows(command.shown, done.stdout, f"{command.page}, line {command.line}")
    assert not list(tmp_path.iterdir())


def test_all_commands_are_shown() -> None:
    from monocomp.command_line.main import VERBS

    shown = {shlex.split(c.words)[1] for c in MONOCOMP}
    # These have tests of their own: one takes its time, and one does not end.
    assert shown == set(VERBS) - {"demo", "serve"}
    for verb in re.findall(r"`monocomp (\w+)", ALL):
        assert verb in VERBS


def test_make_targets_exist() -> None:
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z]+)`", ALL))
    named |= {c.words.split()[1] for c in COMMANDS if c.words.startswith("make ")}
    assert {"demo", "test", "gpu", "bench"} <= named
    for target in named:
        assert re.search(rf"^{target}:", rules, re.MULTILINE), f"no target {target}"


@pytest.mark.parametrize("page", [*PAGES])
def test_links_lead_somewhere(page: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", PAGES[page], flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^    .*$|`[^`]*`", "", prose, flags=re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = project["urls"]["Repository"]
    raw = own.replace("https://github.com", "https://raw.githubusercontent.com") + "/main/"
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        path = link.removeprefix(raw)
        path = re.sub(rf"^{re.escape(own)}/(blob|tree)/main/", "", path)
        if page == "README.md":  # which the page of the package shows
            assert link.startswith("https://"), link
        if path != link:
            assert (ROOT / path).exists(), link
        else:
            assert link.startswith("https://") or (ROOT / page).parent.joinpath(link).exists(), link
    assert page == "README.md" or page in README


def test_gpus_are_those_that_were_measured() -> None:
    """Every page names the same ones, as `monocomp doctor` does, and results are of them alone."""
    results = (ROOT / "benchmarks/RESULTS.md").read_text(encoding="utf-8")
    assert set(re.findall(r"NVIDIA [A-Z][A-Z0-9]+", results)) == set(MEASURED)
    shown = "NVIDIA " + " and ".join(name.removeprefix("NVIDIA ") for name in MEASURED)
    for page in ("README.md", "monocomp/reference/limits.md"):
        assert shown in PAGES[page], page


def test_versions_are_the_tested_ones() -> None:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    torch, triton = (re.search(rf"^{n}==(.*)$", pins, re.MULTILINE) for n in ("torch", "triton"))
    assert torch and triton
    assert f"torch {torch[1]} and triton {triton[1]}" in " ".join(README.split())


def test_environment_variables_exist() -> None:
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("monocomp", "backends")
        for path in (ROOT / folder).rglob("*.py")
    )
    named = set(re.findall(r"`((?:MONOCOMP|TRITON)_[A-Z_]+)", ALL))
    assert {"MONOCOMP_CACHE_DIR", "MONOCOMP_TUNE", "TRITON_INTERPRET"} <= named
    for name in named:
        assert f'"{name}"' in sources, name


def test_errors_that_are_named_exist() -> None:
    import monocomp as mc

    for name in re.findall(r"`(\w+Error)`", ALL):
        assert issubclass(getattr(mc.errors, name), mc.MonocompError)


def test_abridged_text() -> None:
    """The comparison that the others rest on."""
    assert_shows("a b\nc\n", "ab c\n", "")
    assert_shows("a\n...\nd\n", "a\nb\nc\nd\n", "")
    assert_shows("a ...\nd ...\n", "a b\nc d e\n", "")
    for shown in ("a\n", "b\n...\n", "a\n...\nd\n...\nb\n...\n", "a\n...\nc\n"):
        with pytest.raises(AssertionError):
            assert_shows(shown, "a\nb\nc\nd\n", "")
