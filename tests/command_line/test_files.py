"""Files of the command line: where a program comes from, what is written and what never is."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

import numpy as np
import pytest

import monocomp
from monocomp import library
from monocomp.command_line import files
from monocomp.errors import UsageError
from monocomp.machine.plain_files import write

PRODUCT = "O[i,j] = A[i,k] * B[k,j]"


def test_program_from_anywhere(tmp_path, standard_input) -> None:
    path = tmp_path / "my product-2.mc"
    path.write_bytes(b"\xef\xbb\xbf# of matrices\r\n" + PRODUCT.encode() + b"\r\n")
    text = f"# of matrices\n{PRODUCT}\n"
    standard_input(path.read_bytes())
    assert files.read_program(str(path)) == files.Source(text, "my_product_2")
    assert files.read_program("-") == files.Source(text, None)
    assert files.read_program(PRODUCT) == files.Source(PRODUCT, None)
    assert files.read_program("causal") == files.Source(library.load("causal"), "causal")


def test_a_file_comes_before_the_library(tmp_path, monkeypatch) -> None:
    (tmp_path / "causal").write_text(PRODUCT)
    (tmp_path / "softmax").mkdir()
    monkeypatch.chdir(tmp_path)
    assert files.read_program("causal").text == PRODUCT
    assert files.read_program("softmax").text == library.load("softmax")


def test_bytes_that_are_no_text(call, tmp_path) -> None:
    path = tmp_path / "bad.mc"
    path.write_bytes(b"O[i] = A[i]\n\xff\xfe")
    result = call("explain", path)
    assert (result.status, result.out) == (2, "")
    assert "is not text: byte 12 (line 2) is no UTF-8" in result.err


def test_program_from_a_pipe(tmp_path) -> None:
    """Read a pipe, as a shell makes one: `monocomp emit <(...)`."""
    reader, writer = os.pipe()
    os.write(writer, PRODUCT.encode())
    os.close(writer)
    assert files.read_program(f"/dev/fd/{reader}") == files.Source(PRODUCT, None)
    os.close(reader)


def test_endless_input() -> None:
    """Reading stops at the limit."""
    with open("/dev/zero", "rb") as endless, pytest.raises(monocomp.errors.LimitError):
        files._text(endless, "standard input")


@pytest.mark.parametrize("step", ["replace", "open"])
def test_a_failure_leaves_what_was_there(call, tmp_path, monkeypatch, step: str) -> None:
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "kernel.py"
    path.write_text("old")
    call("emit", "attention")  # its proofs are remembered
    with monkeypatch.context() as patch:
        patch.setattr(os, step, full)
        result = call("emit", "attention", "-o", path)
    assert (result.status, result.out) == (2, "")
    assert result.err == f"UsageError: cannot write '{path}': No space left on device\n"
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["kernel.py"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("folder", "it is a directory"),
        ("missing/", "it names no file"),
        ("file/", "Not a directory"),
        ("file/below", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("broken", "No such file or directory\n  help: make the directory first: mkdir -p {}/no"),
        ("no/k.py", "No such file or directory\n  help: make the directory first: mkdir -p {}/no"),
        ("x" * 300, "File name too long"),
    ],
)
def test_places_that_cannot_be_written(call, tmp_path, name: str, problem: str) -> None:
    """One error, before any work, and everything stays as it was."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "broken").symlink_to("no/where")
    before = {path: path.lstat() for path in tmp_path.iterdir()}
    wanted = f"UsageError: cannot write '{tmp_path}/{name}': {problem.format(tmp_path)}\n"
    for words in (["emit", "attention"], ["run", "attention", "--random"]):
        result = call(*words, "-o", f"{tmp_path}/{name}")
        assert result == (2, "", wanted)
    with pytest.raises(UsageError) as caught:
        write(f"{tmp_path}/{name}", b"new")
    assert f"{caught.value.described()}\n" == wanted
    assert {path: path.lstat() for path in tmp_path.iterdir()} == before


def test_what_is_read_is_not_replaced(call, tmp_path) -> None:
    path, link = tmp_path / "product.mc", tmp_path / "link"
    path.write_text(PRODUCT)
    link.symlink_to(path)
    array = tmp_path / "a.npy"
    np.save(array, np.zeros((2, 2)))
    for words in (
        ("emit", path, "-o", link),
        ("run", path, "--input", f"A={array}", "-o", array),
        ("run", path, "-o", path),
    ):
        result = call(*words)
        assert (result.status, result.out) == (2, "")
        assert "' is read, so the output cannot replace it\n" in result.err
    assert path.read_text() == PRODUCT and np.load(array).shape == (2, 2)


def test_run_files(call, tmp_path) -> None:
    a, b = np.float32([[1, 2], [3, 4], [5, 6]]), np.float32([[1, 0, -1], [2, 2, 2]])
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", np.asfortranarray(b))
    out = tmp_path / "out.npz"
    inputs = ["--input", f"A={tmp_path}/a.npy", f"B={tmp_path}/b.npy"]
    text = f"{PRODUCT}\nparam c: float = 1.0\nallow_pickle[i] = c * A[i,k]"
    result = call("run", text, *inputs, "--param", "c=10", "-o", out)
    assert (result.status, result.err) == (0, "")
    named = [line.split()[0] for line in result.out.splitlines()[::2]]
    assert named == ["O", "allow_pickle"] and "  O[0,:] = 5, 4, 3\n" in result.out
    with np.load(out) as saved:
        np.testing.assert_allclose(saved["O"], a @ b)
        np.testing.assert_allclose(saved["allow_pickle"], 10 * a.sum(1))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["A"], "no file is given for B"),
        (["A", "B", "C"], "'C'"),
        (["A", "b"], "did you mean 'B'?"),
        (["A", "B=cube"], "dimensions"),
        (["A", "B=strings"], "has dtype"),
        (["A", "B=complex"], "dtype complex64"),
        (["A", "B=objects"], "is no .npy file with one array"),
        (["A", "B=text"], "is no .npy file with one array"),
        (["A", "B=archive"], "it holds several arrays"),
        (["A", "B=empty"], "is no .npy file with one array"),
    ],
)
def test_run_bad_inputs(call, tmp_path, inputs: Sequence[str], message: str) -> None:
    square = np.zeros((2, 2), np.float32)
    np.save(tmp_path / "square", square)
    np.save(tmp_path / "cube", np.zeros((2, 2, 2), np.float32))
    np.save(tmp_path / "complex", square.astype(np.complex64))
    np.save(tmp_path / "strings", np.array([["a", "b"], ["c", "d"]]))
    np.save(tmp_path / "objects", np.array([[None, {}]]), allow_pickle=True)
    (tmp_path / "text.npy").write_text("1 2 3")
    (tmp_path / "empty.npy").touch()
    with open(tmp_path / "archive.npy", "wb") as file:
        np.savez(file, A=square)
    words = []
    for word in inputs:
        name, _, stem = word.partition("=")
        words.append(f"{name}={tmp_path}/{stem or 'square'}.npy")
    out = tmp_path / "out.npz"
    result = call("run", PRODUCT, "--input", *words, "-o", out)
    assert (result.status, result.out) == (2, "")
    assert message in result.err and "Traceback" not in result.err
    assert not out.exists()
