"""The examples run."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import training


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", training.VARIANTS)
def test_training(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A few steps of a small model: the losses are those of eager torch."""
    file = tmp_path / "losses.svg"
    assert training.main(["--small", "--steps", "2", "--only", name, "--plot", str(file)]) == 0
    assert "apart by 0.0000" in capsys.readouterr().out
    assert ElementTree.parse(file).getroot().tag.endswith("svg")
