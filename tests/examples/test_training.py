"""The examples run."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from monocomp.examples import training


def test_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A few steps of a small model: the losses are those of eager torch."""
    file = tmp_path / "losses.svg"
    assert training.main(["--small", "--steps", "2", "--plot", str(file)]) == 0
    assert capsys.readouterr().out.count("apart by 0.0000") == len(training.VARIANTS)
    assert ElementTree.parse(file).getroot().tag.endswith("svg")
