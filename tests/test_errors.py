"""What a traceback shows: the caller's line, one frame of the package, and the class once."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
import torch

import monocomp as mc
from monocomp.errors import InternalError, MonocompError, ParseError


def frames_of(error: BaseException) -> list[str]:
    return [Path(f.filename).name for f in traceback.extract_tb(error.__traceback__)]


def test_a_traceback_ends_at_the_call() -> None:
    """One frame of the package, no parser; the class is named once."""
    kernel = mc.compile("O[i,j] = A[i,k] * B[k,j]")
    here = Path(__file__).name
    for run in (
        lambda: mc.compile("O[i] = A[i] B[i]"),
        lambda: mc.grad("O[i] = A[i] B[i]"),
        lambda: kernel(A=torch.ones(2, 3), B=torch.ones(2, 3)),
    ):
        with pytest.raises(MonocompError) as caught:
            run()
        assert len([name for name in frames_of(caught.value) if name != here]) == 1
        shown = "".join(traceback.format_exception(caught.value))
        assert shown.count(type(caught.value).__name__) == 1 and "lark" not in shown


def test_what_led_to_a_fault_of_the_compiler_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise InternalError("lost") from ZeroDivisionError("why")

    monkeypatch.setattr("monocomp.kernel.read_equations", fail)
    with pytest.raises(InternalError) as caught:
        mc.compile("O[i] = A[i]")
    assert "fail" in "".join(traceback.format_exception(caught.value))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    monkeypatch.undo()
    monkeypatch.setenv("MONOCOMP_DEBUG", "1")
    with pytest.raises(ParseError) as refused:
        mc.compile("O[i] = A[i] B[i]")
    assert "parser.py" in frames_of(refused.value)
