"""Every notebook runs from top to bottom, without a name from before, and its outputs are those it
is stored with. `make golden` stores what comes out."""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
manager = pytest.importorskip("jupyter_client.manager")

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def name(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_is_stored_with_outputs_alone(path: Path) -> None:
    """Counted from 1, and nothing that an editor adds."""
    notebook = read(path)
    nbformat.validate(notebook)
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    assert path.stat().st_size < 1_000_000  # viewers give up on large ones
    assert not any(cell.metadata for cell in notebook.cells)
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in codes] == list(range(1, len(codes) + 1))
    assert any(cell.outputs for cell in codes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where notebooks run; they leave it empty."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="module")
def kernel(folder: Path) -> Iterator[Any]:
    """One for all notebooks: what they import takes as long as what they compute."""
    started, client = manager.start_new_kernel(kernel_name="python3", cwd=str(folder))
    client.stop_channels()
    yield started
    started.shutdown_kernel(now=True)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_outputs_are_what_comes_out(path: Path, folder: Path, kernel: Any, updating: bool) -> None:
    """In this Python, from an empty folder, without a GPU."""
    notebook = read(path)
    assert notebook.metadata.kernelspec.name == "python3"
    found = executed(notebook, kernel)
    assert not list(folder.iterdir())
    if updating:
        text = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True)
        path.write_text(text + "\n", encoding="utf-8")
        return
    for stored, cell in zip(notebook.cells, found.cells, strict=True):
        for what in ("execution_count", "outputs"):
            assert stored.get(what) == cell.get(what), f"{path.name}:\n{cell.source}\n(make golden)"


def executed(notebook: Any, kernel: Any) -> Any:
    """The notebook with the outputs that it has now."""
    prepared = copy.deepcopy(notebook)
    first = (
        "%reset -f\n"
        f"import os, sys\nassert sys.executable == {sys.executable!r}, sys.executable\n"
        f"os.environ['CUDA_VISIBLE_DEVICES'] = ''\nsys.path.append({str(ROOT)!r})"
    )
    prepared.cells.insert(0, nbformat.v4.new_code_cell(first))
    client = nbclient.NotebookClient(prepared, km=kernel, timeout=120, coalesce_streams=True)
    try:
        client.execute()
    finally:
        client.kc.stop_channels()
    del prepared.cells[0]
    prepared.metadata = notebook.metadata
    count = 0
    for cell in prepared.cells:
        cell.metadata = nbformat.NotebookNode()  # when it ran
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            for output in cell.outputs:
                assert output.output_type != "error"
                assert output.get("name") != "stderr", output.text
                if "execution_count" in output:
                    output.execution_count = count
    return prepared


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_what_is_named_exists(path: Path) -> None:
    """Links lead to notebooks, and commands are those of monocomp."""
    from monocomp.command_line.main import VERBS

    prose = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    assert {*re.findall(r"`monocomp (\w+)", prose)} <= {*VERBS}
    for link in re.findall(r"\]\(([^)]+)\)", re.sub(r"`[^`]*`", "", prose)):
        assert (path.parent / link).exists(), link
