"""A command line, run in this process."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from monocomp.command_line import main as cli


class Result(NamedTuple):
    """Its exit status, and what it wrote."""

    status: int
    out: str
    err: str


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run a command line."""

    def run(*argv: str | Path) -> Result:
        status = cli.main([str(word) for word in argv])
        return Result(status, *capsys.readouterr())

    return run


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Let a command line read some bytes."""

    def give(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give
