"""What the README shows is what happens: its Python runs, its commands print what it prints.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, text and first line's number."""

    language: str
    text: str
    line: int


def blocks() -> list[Block]:
    found = []
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        found.append(Block(match[1], match[2], README.count("\n", 0, match.start()) + 2))
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
    place = len(first)
    for part in others:
        found = rest.find(part, place)
        assert found >= 0, f"{where}: {part!r} is not in\n{actual}"
        place = found + len(part)
    if not others or others[-1]:
        assert place == len(rest), f"{where}: more was printed\n{actual}"


@dataclass(frozen=True)
class Command:
    """A command of a console block, what the README shows of its output, and its status."""

    words: str
    shown: str
    status: int
    line: int


def commands() -> list[Command]:
    found: list[Command] = []
    for block in blocks():
        if block.language != "console":
            continue
        assert block.text.startswith("$ "), f"line {block.line}: no command"
        line = block.line
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            words, _, shown = part.partition("\n")
            if words == "echo $?":
                last = found.pop()
                found.append(Command(last.words, last.shown, int(shown), last.line))
            else:
                found.append(Command(words, shown, 0, line))
            line += part.count("\n")
    return found


MONOCOMP = [c for c in commands() if c.words.startswith("monocomp ")]


def test_python_blocks_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one namespace, on the CPU. A text block after one is what it prints."""
    import torch

    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    namespace: dict[str, Any] = {"__name__": "readme"}
    printed, where = "", ""
    count = 0
    for block in blocks():
        if block.language == "python":
            assert printed == "", f"{where}: the output is not shown"
            where = f"README.md, line {block.line}"
            out = io.StringIO()
            code = compile("\n" * (block.line - 1) + block.text, "README.md", "exec")
            with contextlib.redirect_stdout(out):
                exec(code, namespace)
            printed = out.getvalue()
            count += 1
        elif block.language == "text":
            assert_shows(block.text, printed, where)
            printed = ""
    assert printed == "" and count >= 4
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", MONOCOMP, ids=lambda c: f"line {c.line}")
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
    assert_shows(command.shown, done.stdout, f"README.md, line {command.line}")
    assert not list(tmp_path.iterdir())


def test_all_commands_are_shown() -> None:
    from monocomp.cli import VERBS

    assert {shlex.split(c.words)[1] for c in MONOCOMP} == set(VERBS)
    for verb in re.findall(r"`monocomp (\w+)", README):
        assert verb in VERBS


def test_make_targets_exist() -> None:
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z]+)`", README))
    named |= {c.words.split()[1] for c in commands() if c.words.startswith("make ")}
    assert {"demo", "test", "gpu", "bench"} <= named
    for target in named:
        assert re.search(rf"^{target}:", rules, re.MULTILINE), f"no target {target}"


def test_links_lead_somewhere() -> None:
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^    .*$|`[^`]*`", "", prose, flags=re.MULTILINE)
    links = re.findall(r"\]\(([^)#]+)\)", prose)
    assert links
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link


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
    named = set(re.findall(r"`((?:MONOCOMP|TRITON)_[A-Z_]+)", README))
    assert {"MONOCOMP_CACHE_DIR", "MONOCOMP_TUNE", "TRITON_INTERPRET"} <= named
    for name in named:
        assert f'"{name}"' in sources, name


def test_errors_that_are_named_exist() -> None:
    import monocomp as mc

    for name in re.findall(r"`(\w+Error)`", README):
        assert issubclass(getattr(mc.errors, name), mc.MonocompError)


def test_benchmark_section_is_marked() -> None:
    """Where tables are pasted."""
    results = (ROOT / "benchmarks/RESULTS.md").read_text(encoding="utf-8")
    begin, end = results.find("<!-- benchmark:begin -->"), results.find("<!-- benchmark:end -->")
    assert 0 < begin < end
    assert "|" in results[begin:end]


def test_abridged_text() -> None:
    """The comparison that the others rest on."""
    assert_shows("a b\nc\n", "ab c\n", "")
    assert_shows("a\n...\nd\n", "a\nb\nc\nd\n", "")
    assert_shows("a ...\nd ...\n", "a b\nc d e\n", "")
    for shown in ("a\n", "b\n...\n", "a\n...\nd\n...\nb\n...\n", "a\n...\nc\n"):
        with pytest.raises(AssertionError):
            assert_shows(shown, "a\nb\nc\nd\n", "")
