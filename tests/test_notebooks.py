"""Every notebook runs from top to bottom in a fresh kernel, and is stored without outputs."""

from __future__ import annotations

import copy
import re
import sys
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def name(path: Path) -> str:
    return path.stem


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS
    numbers = [path.name[:2] for path in NOTEBOOKS]
    assert numbers == [f"{n:02}" for n in range(1, len(NOTEBOOKS) + 1)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_outputs_are_stripped(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    for cell in notebook.cells:
        assert not cell.metadata
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    """In this Python, from an empty folder, without a GPU."""
    notebook = read(path)
    assert notebook.metadata.kernelspec.name == "python3"
    prepared = copy.deepcopy(notebook)
    first = (
        f"import os, sys\nassert sys.executable == {sys.executable!r}, sys.executable\n"
        f"os.environ['CUDA_VISIBLE_DEVICES'] = ''\nsys.path.append({str(ROOT)!r})"
    )
    prepared.cells.insert(0, nbformat.v4.new_code_cell(first))
    client = nbclient.NotebookClient(
        prepared,
        kernel_name="python3",
        timeout=120,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    for cell in prepared.cells:
        for output in cell.get("outputs", ()):
            assert output.output_type != "error"
            assert output.get("name") != "stderr", output.text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_claims_are_asserted(path: Path) -> None:
    """Most cells that compute something check it."""
    cells = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
    assert sum("assert " in source for source in cells) >= len(cells) / 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_commands_and_programs_exist(path: Path) -> None:
    """Names in the prose that could rot: commands of monocomp."""
    from monocomp.cli import VERBS

    prose = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    for verb in re.findall(r"`monocomp (\w+)", prose):
        assert verb in VERBS
