"""The command line: exit statuses, what goes where, bad input, and files whole or absent."""

from __future__ import annotations

import ast
import errno
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import monocomp
from monocomp import library
from monocomp.checking import steps as checking
from monocomp.checking.random_inputs import random_inputs
from monocomp.command_line import files
from monocomp.command_line import main as cli
from monocomp.errors import InternalError, UsageError
from monocomp.language.checker import check
from monocomp.machine.plain_files import write
from monocomp.reference.oracle import evaluate
from monocomp.translation.translator import translate

ROOT = Path(__file__).parents[2]
PRODUCT = "O[i,j] = A[i,k] * B[k,j]"


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch):
    def give(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def process(*argv: str, code: str | None = None, **more) -> subprocess.CompletedProcess[str]:
    """Run a command line, or code, in a process of its own."""
    words = ["-m", "monocomp", *argv] if code is None else ["-c", code]
    more = {"stdout": subprocess.PIPE, **more}
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False, **more
    )


# --- help and words that are wrong


def test_no_words_show_the_help(call) -> None:
    result = call()
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("usage: monocomp")
    for verb in cli.VERBS:
        assert f"\n    {verb} " in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["emit"], "the following arguments are required: PROGRAM"),
        (["emit", "attention", "causal"], "unexpected 'causal'"),
        (["emit", "attention", "--extnt", "d=4"], "there is no option '--extnt' here"),
        (["emit", "attention", "--extent", "d"], "'d' is not of the form INDEX=SIZE"),
        (["emit", "attention", "--extent", "d=x"], "'d' must be a whole number, not 'x'"),
        (["emit", "attention", "--extent", "d=" + "9" * 5000], "'d' must be a whole number"),
        (["emit", "attention", "--extent", "d=-1"], "the extent of 'd' must lie in 0 to 2**63"),
        (["emit", "attention", "--extent", "d=1", "d=2"], "'d' is given twice"),
        (["emit", "attention", "--dtype", "fp8"], "'fp8' is no dtype for inputs"),
        (["emit", "attention", "--name", "a b"], "'a b' cannot be a kernel's name"),
        (["emit", "attention", "--backend", "tritn"], "tritn"),
        (["emit", "attention", "--backend", "gluon", "--target", "cuda:80"], "for cuda:90 alone"),
        (["emit", "softmax", "--backend", "gluon"], "compile with backend='triton'"),
        (["emit", "attention", "--target", "nowhere"], "nowhere"),
        (["explain", "attention", "--steps", "-1"], "'-1' is no whole number"),
        (["run", "attention"], "no file is given for Q, K, V"),
        (["run", "attention", "--random"], "the extent of b, h, q, d, k, e is missing"),
        (["run", "attention", "--random", "--extent", "x=3"], "the program has no index 'x'"),
        (["run", "attention", "--input", "Q=none.npy"], "cannot read 'none.npy': No such file"),
        (["run", "attention", "--param", "cap=3"], "the program has no parameter 'cap'"),
        (["run", "softcap", "--param", "cap=1e400"], "'cap' must be a number, not '1e400'"),
        (["run", "softmax", "--random", "--extent", f"i={2**62}", "k=9"], "cannot be made"),
        (["check", "sliding_window", "--param", "windw=3"], "did you mean 'window'?"),
        (["check", "attention", "--seed", "-3"], "'-3' is no whole number"),
        (["emitt", "attention"], "help: did you mean 'monocomp emit'?"),
        (["emit", "softmax", "--form", "pts"], "help: did you mean 'ptx'?"),
        (["list", "causal"], "'monocomp list' takes no 'causal'\n  help: monocomp show causal"),
        (["show", "nothing_like_it"], "help: monocomp list"),
        (["emit", "causal", "--form", "ptx", "--target", "cuda90"], "write cuda: and the compute"),
        (["emit", "causal", "--form", "ptx", "--target", "cuda:35"], "compiles no kernels for"),
        (["explain", "causal", "--stage", "ptx"], "help: monocomp emit PROGRAM --form ptx"),
        (["emit", "causal", "--form", "tile"], "help: monocomp explain PROGRAM --stage tile"),
        (["emit", "causal", "--stage", "tile"], "help: it is an option of 'monocomp explain'"),
        (["attention"], "help: say what to do with it: monocomp explain attention"),
        (["explain", "casual"], "help: did you mean 'causal'?"),
        (["explain", "examples/casual.mc"], "is neither a file nor a program"),
        (["explain", "softmax[k](A[i,k])"], "is no program: it defines nothing"),
        (["explain", "."], "'.' is a directory"),
        (["explain", "causal", "--stage", "plan", "--steps", "2"], "--steps does not go with"),
        (["explain", "causal", "--origins"], "help: add --stage source"),
        (["emit", "softmax", "--backend", "torch", "--target", "h100"], "interprets the tile"),
        (["tune", "attention", "--seconds", "0"], "'0' is no number of seconds"),
        (["tune", "attention", "--seconds", "nan"], "'nan' is no number of seconds"),
        (["tune", "attention", "--candidates", "0"], "the number must lie in 1 to 1000000"),
    ],
)
def test_wrong_calls(call, tmp_path, monkeypatch, words: Sequence[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*words)
    assert (result.status, result.out) == (2, "")
    assert message in result.err and "Traceback" not in result.err
    assert re.match(r"[A-Z][A-Za-z]+Error: ", result.err)
    assert not list(tmp_path.iterdir())


# --- where a program comes from


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
    """As a shell makes one: `monocomp emit <(...)`."""
    reader, writer = os.pipe()
    os.write(writer, PRODUCT.encode())
    os.close(writer)
    assert files.read_program(f"/dev/fd/{reader}") == files.Source(PRODUCT, None)
    os.close(reader)


def test_endless_input() -> None:
    """Reading stops at the limit."""
    with open("/dev/zero", "rb") as endless, pytest.raises(monocomp.errors.LimitError):
        files._text(endless, "standard input")


# --- bad programs

BAD = {
    "misplaced": ("O[i] = A[i]\nreturn O: float8", "UnsupportedDtypeError", 2, 11),
    "empty": ("", "EmptyProgramError", None, None),
    "nested brackets": ("O[i] = " + "(" * 10**5 + "A[i]" + ")" * 10**5, "LimitError", None, None),
    "unlawful monoid": (
        "monoid Sub(a) = unit (0), combine (a - a')\nO[i] = Sub[k](A[i,k])",
        "MonoidLawError",
        None,
        None,
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_programs(call, tmp_path, standard_input, kind: str) -> None:
    """One error with its place, status 2, nothing on standard output, nothing written."""
    text, error, line, column = BAD[kind]
    old = tmp_path / "old.py"
    old.write_text("old")
    for target in (old, tmp_path / "new.py"):
        standard_input(text.encode())
        began = time.perf_counter()
        result = call("emit", "-", "-o", target)
        assert time.perf_counter() - began < 20  # it does not hang
        assert (result.status, result.out) == (2, "")
        head, *rest = result.err.splitlines()
        assert head.startswith(f"{error}: ")
        if line is not None:
            assert head.endswith(f"(line {line}, column {column})")
            assert rest[1].strip(" ^") == "" and "^" in rest[1]
        assert all(row.startswith("  ") for row in rest)
        assert "Traceback" not in result.err and len(result.err) < 2000
    assert [p.name for p in tmp_path.iterdir()] == ["old.py"] and old.read_text() == "old"


# --- emit


def test_emit_to_a_file(call, tmp_path) -> None:
    path = tmp_path / "kernel.py"
    assert call("emit", "attention", "--name", "mine", "-o", path) == (0, "", "")
    assert path.read_text() == call("emit", "attention", "--name", "mine").out
    assert "\ndef mine(" in path.read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["kernel.py"]


def test_emit_is_light() -> None:
    """A whole process: under 150 MB, and neither torch nor triton (see benchmarks for its time)."""
    code = (
        "import sys\n"
        "from monocomp.command_line.main import main\n"
        "status = main(['emit', 'attention', '-o', '/dev/null'])\n"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(status, sorted({'torch', 'triton'} & set(sys.modules)), int(peak.split()[1]))"
    )
    result = process(code=code)
    assert result.stderr == ""
    status, loaded, kilobytes = re.fullmatch(r"(\d+) (\[.*\]) (\d+)\n", result.stdout).groups()
    assert (status, loaded) == ("0", "[]")
    assert int(kilobytes) < 150_000


# --- writing files


def test_an_old_file_keeps_its_mode_and_links(tmp_path) -> None:
    path, link = tmp_path / "real", tmp_path / "link"
    path.write_text("old and longer")
    path.chmod(0o662)  # more than the umask would leave
    link.symlink_to(path)
    if os.geteuid() == 0:
        os.chown(path, 1234, 5678)
    before = path.stat()
    write(link, b"new")
    after = path.stat()
    assert link.is_symlink() and path.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


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


def test_pipes_and_devices_are_written_not_replaced(tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write(pipe, b"text")
    reader.join(10)
    assert read == ["text"] and pipe.is_fifo()


# --- what is not the program's fault


def test_a_reader_that_leaves() -> None:
    words = [sys.executable, "-m", "monocomp", "emit", "attention"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()
        errors = child.stderr.read()
        assert child.wait() == 141
    assert errors == b""


CLOSED, FULL = "Bad file descriptor", "No space left on device"
NO_INPUT = f"UsageError: cannot read standard input: {CLOSED}\n"
NO_OUTPUT = "UsageError: cannot write to standard output: {}\n".format


@pytest.mark.one_in(9)
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("list >/dev/full", 2, NO_OUTPUT(FULL)),
        ("--version >/dev/full", 2, NO_OUTPUT(FULL)),
        ("list >&-", 2, NO_OUTPUT(CLOSED)),
        ("emit - <&-", 2, NO_INPUT),
        ("emit - <&- >&-", 2, NO_INPUT),
        ("emit - 0>/dev/null", 2, NO_INPUT),
        ("list 2>&-", 0, ""),
        ("emitt 2>/dev/full", 2, ""),
        ("emitt <&- >&- 2>&-", 2, ""),
    ],
)
def test_streams_that_are_closed_or_full(
    words: str, status: int, message: str, unbuffered: str
) -> None:
    """One message at most, where it can be read, and a status that tells. Neither is lost in
    what Python does when it ends."""
    result = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m monocomp {words}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (status, message)
    assert ("attention_jvp" in result.stdout) == (status == 0)


@pytest.mark.filterwarnings("default")
def test_warnings_are_messages(call, monkeypatch) -> None:
    def warn(argument: str) -> files.Source:
        warnings.warn("the cache is elsewhere", RuntimeWarning, stacklevel=2)
        return files.Source("", None)

    monkeypatch.setattr(files, "read_program", warn)
    result = call("emit", "nothing")
    assert result.err.startswith("warning: the cache is elsewhere\nEmptyProgramError: ")


def test_a_locale_without_letters() -> None:
    text = "# na\u00efve\n" + PRODUCT
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    result = process("emit", text, env=environment, encoding="utf-8")
    assert (result.returncode, result.stderr) == (0, "")
    ast.parse(result.stdout)


def raising(error: BaseException):
    def fail(*args):
        raise error

    return fail


def test_control_c(call, monkeypatch) -> None:
    monkeypatch.setattr(files, "read_program", raising(KeyboardInterrupt()))
    assert call("emit", "attention") == (130, "", "interrupted\n")


def test_faults_of_the_compiler(call, monkeypatch) -> None:
    monkeypatch.setattr(files, "read_program", raising(ZeroDivisionError("division by zero")))
    result = call("emit", "attention")
    assert (result.status, result.out) == (70, "")
    assert result.err.startswith(
        "InternalError: ZeroDivisionError: division by zero\n  at test_main"
    )
    assert "report" in result.err and "Traceback" not in result.err

    monkeypatch.setattr(files, "read_program", raising(InternalError("lost")))
    result = call("emit", "attention")
    assert (result.status, result.out) == (70, "")
    assert result.err.startswith("InternalError: lost\n") and "report" in result.err

    monkeypatch.setenv("MONOCOMP_DEBUG", "1")
    assert "Traceback" in call("emit", "attention").err


def test_not_enough_memory(call, monkeypatch) -> None:
    monkeypatch.setattr(files, "read_program", raising(MemoryError("64 TiB")))
    assert call("emit", "attention") == (2, "", "UsageError: not enough memory: 64 TiB\n")


# --- list and explain


def test_list(call) -> None:
    result = call("list")
    assert (result.status, result.err) == (0, "")
    lines = [line for line in result.out.splitlines() if line.startswith("  ")]
    assert sorted(line.split()[0] for line in lines) == list(library.names())
    for group in library.GROUPS:
        assert f"{group}\n  " in result.out
    assert max(map(len, lines)) <= 130


def test_explain_a_backend(call) -> None:
    """The stages of a kernel in another language, and around a pass of its own."""
    words = "explain", "causal", "--backend", "gluon"
    assert "gl.warp_specialize(" in call(*words, "--stage", "source").out
    assert "give K_ring" in call(*words, "--after", "pipeline").out
    assert "producer:" not in call(*words, "--before", "specialise").out
    assert call("explain", "causal", "--after", "pipeline").status == 2


def test_explain_where_lines_come_from(call) -> None:
    result = call("explain", "attention", "--stage", "source", "--origins")
    assert result.status == 0 and "  # O: V[b,h,k,e]\n" in result.out


def test_explain_some_steps(call) -> None:
    result = call("explain", "causal", "--steps", "2", "--json")
    assert (result.status, result.err) == (0, "")
    steps = json.loads(result.out)["steps"]
    assert [step["number"] for step in steps] == [1, 2]
    assert "in 0 steps" in call("explain", "causal", "--steps", "0").out


@pytest.mark.parametrize("verb", ["explain", "check"])
def test_notes(call, verb: str) -> None:
    text = "O[i] = A[i] * B[j]"
    assert "note: 'j' stands in one factor" in call(verb, text).out
    assert "note:" not in call(verb, text, "--no-notes").out


# --- run


def fields(text: str) -> tuple[str, str, str, float, float]:
    """Name, shape, dtype, mean and largest size of an output of `monocomp run`."""
    pattern = r"(\w+)  (\S+)  (\w+)  mean (\S+)  max abs (\S+)\n  .* = .*"
    name, shape, dtype, mean, largest = re.fullmatch(pattern, text.rstrip("\n")).groups()
    return name, shape, dtype, float(mean), float(largest)


ATTENTION_SIZES = ["--extent", "b=1", "h=2", "q=17", "k=33", "d=16", "e=8"]


def test_run_random(call) -> None:
    result = call("run", "attention", "--random", *ATTENTION_SIZES, "--seed", "5")
    assert (result.status, result.err) == (0, "")
    name, shape, dtype, mean, largest = fields(result.out)
    assert (name, shape, dtype) == ("O", "1x2x17x8", "float32")
    program = check(library.load("attention"))
    sizes = {"b": 1, "h": 2, "q": 17, "k": 33, "d": 16, "e": 8}
    expected = evaluate(program, random_inputs(translate(program), sizes, seed=5))
    assert mean == pytest.approx(expected.mean(), rel=1e-4)
    assert largest == pytest.approx(abs(expected).max(), rel=1e-4)
    place, values = result.out.splitlines()[1].split(" = ")
    assert place == "  O[0,0,0,:]" and values.endswith(", ...")
    shown = [float(value) for value in values.removesuffix(", ...").split(", ")]
    assert shown == pytest.approx(expected[0, 0, 0, :6].tolist(), rel=1e-4)


def test_run_shows_values_of_every_kind(call) -> None:
    text = "index n < 2\nN[n] = n\nB[n] = n > 0\nM = 1.5\nE[n] = A[n]"
    words = ["--random", "--extent", "n=2"]
    lines = call("run", text, *words).out.splitlines()
    assert lines[:6] == [
        "N  2  int64  mean 0.5  max abs 1",
        "  N[:] = 0, 1",
        "B  2  bool  mean 0.5  max abs 1",
        "  B[:] = False, True",
        "M  scalar  float32  mean 1.5  max abs 1.5",
        "  M = 1.5",
    ]
    assert call("run", "E[i] = A[i]", "--random", "--extent", "i=0").out == "E  0  float32  empty\n"


def test_run_bfloat16(call, tmp_path) -> None:
    path = tmp_path / "out.npz"
    words = ["--random", "--dtype", "bf16", "--extent", "i=3", "k=40", "-o", path]
    result = call("run", "softmax", *words)
    assert (result.status, result.err) == (0, "")
    assert fields(result.out.strip())[:3] == ("P", "3x40", "bfloat16")
    assert np.load(path)["P"].dtype == np.float32


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


# --- check


def test_check(call) -> None:
    result = call("check", "softmax", "--extent", "i=3", "--seed", "1", "--verbose")
    assert (result.status, result.err) == (0, ""), result.out
    assert result.out.startswith("proofs: ") and "FAIL" not in result.out
    assert re.search(r"^  ok    SE: associative +\(x \. y\) \. z = ", result.out, re.MULTILINE)
    assert re.search(r"^  ok    +1\. expand_softmax ", result.out, re.MULTILINE)
    for backend in ("numpy", "torch"):
        assert re.search(rf"^  ok    {backend}  +float64  error .* i=3 ", result.out, re.MULTILINE)


def test_check_admits_the_rounding_that_a_program_asks_for(call) -> None:
    text = "O[i] = sum[k](A[i,k])\nP[i] = argmax[k](A[i,k])\nreturn O: bfloat16, P"
    result = call("check", text)
    assert (result.status, result.err) == (0, ""), result.out


def test_check_that_fails(call, monkeypatch) -> None:
    monkeypatch.setattr(checking, "STEP_LIMIT", -1.0)
    result = call("check", "O[i] = mean[k](A[i,k])")
    assert (result.status, result.err) == (1, "")
    assert "  FAIL    1. expand_mean" in result.out


def test_check_an_unlawful_monoid(call) -> None:
    result = call("check", BAD["unlawful monoid"][0])
    assert (result.status, result.err) == (1, "")
    assert re.search(r"^  FAIL  Sub: associative +counterexample: ", result.out, re.MULTILINE)


# --- imports


def test_importing_is_light() -> None:
    """Importing the package loads nothing; what it offers is found when asked for."""
    code = (
        "import sys, monocomp\n"
        "heavy = {'torch', 'triton', 'numpy', 'sympy', 'lark'}\n"
        "print(sorted(heavy & set(sys.modules)), monocomp.MonocompError.__name__)\n"
        "print(sorted(heavy & set(sys.modules)), monocomp.library.names()[0])\n"
        "import monocomp.command_line.main\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    result = process(code=code)
    assert (result.stdout, result.stderr) == ("[] MonocompError\n[] alibi\n[]\n", "")


# --- tune


def test_tune_needs_a_gpu(call, monkeypatch) -> None:
    """And says so before it makes any input."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert call("tune", "causal", "--extent", "q=1000000000000") == (
        2,
        "",
        "DeviceError: schedules are measured on a GPU, and there is none here\n"
        "  help: run it where there is one; -o FILE writes what other machines can use\n",
    )


def test_tune(call, monkeypatch, tmp_path) -> None:
    """Random inputs go into a search; what it finds is shown, and written."""
    import torch

    from monocomp.backends.schedules import remembered as schedules
    from monocomp.backends.schedules.schedule import Schedule
    from monocomp.backends.schedules.search import Tuning
    from monocomp.calls.calls import Calls

    place = schedules.Situation("gpu", "3", "0", "ieee", (("A", "float16"),), (("i", 4),))
    chosen = (Schedule((("i", 64), ("j", 32)), 4, 3),)
    entry = schedules.Entry(place, chosen, 0.5)
    seen: dict[str, object] = {}

    def tune(calls: Calls, args: tuple[()], kwargs, *, progress, **given) -> Tuning:
        seen.update(kwargs, **given)
        progress("compiling", 1, 7)
        is_right = given["seconds"] > 1
        return Tuning(chosen, 0.5, 0.75, measured=7, is_checked=is_right, entry=entry)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        files,
        "tensors",
        lambda arrays, dtypes, _: {n: (a.shape, dtypes[n]) for n, a in arrays.items()},
    )
    monkeypatch.setattr(Calls, "tune", tune)
    path = tmp_path / "schedules.json"
    words = ("tune", PRODUCT, "--extent", "i=4", "j=5", "k=6", "--dtype", "fp16", "--candidates")
    result = call(*words, "7", "--seconds", "9", "-o", path)
    assert result.status == 0
    assert result.out.splitlines() == [
        "kernel 1: 64 x 32, 4 warps, 3 stages",
        "0.5 ms, before 0.75 ms",
        "7 measured, 0 wrong, 0 that did not fit, in 0.0 s",
    ]
    assert result.err == "[###.....................] compiling 1 of 7, 0 s\n"
    assert seen == {
        "A": ((4, 6), "float16"),
        "B": ((6, 5), "float16"),
        "seconds": 9.0,
        "candidates": 7,
    }
    (written,) = json.loads(path.read_text())["schedules"]
    assert written == entry.to_json()
    assert call(*words, "7", "--seconds", "1").status == 1


@pytest.mark.parametrize(
    ("name", "message"), [("other.json", "holds no schedules"), ("no/x.json", "cannot write")]
)
def test_a_search_does_not_begin_where_it_cannot_end(
    call, monkeypatch, tmp_path, name: str, message: str
) -> None:
    import torch

    (tmp_path / "other.json").write_text("{}")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    result = call("tune", "attention", "-o", tmp_path / name)
    assert (result.status, result.out) == (2, "") and message in result.err
    assert (tmp_path / "other.json").read_text() == "{}"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_in_a_terminal_is_one_line() -> None:
    from monocomp.command_line.progress import Progress

    stream, now = _Terminal(), iter(range(100))
    with Progress(stream, lambda: float(next(now))) as progress:
        progress("compiling", 12, 12)
        progress("measuring", 6, 12)
    first, second, cleared = stream.getvalue().removeprefix("\r").rstrip("\r").split("\r")
    assert first == "[" + "#" * 24 + "] compiling 12 of 12, 1 s"
    assert second.rstrip() == "[" + "#" * 12 + "." * 12 + "] measuring 6 of 12, 2 s"
    assert not cleared.strip() and len(cleared) >= len(second.rstrip())


def test_a_closed_stream_is_no_file(tmp_path) -> None:
    """The next file that is opened does not take its place, where prints of others would land."""
    code = (
        "import os, sys\n"
        "from monocomp.command_line import main\n"
        "def run():\n"
        "    with open('output', 'w'):\n"
        "        os.system('echo a message; echo a message >&2')\n"
        "    return 0\n"
        "sys.exit(main.guarded(run))\n"
    )
    closed = ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(closed, cwd=tmp_path, env=environment, check=False).returncode == 0
    assert (tmp_path / "output").read_text() == ""


def test_difference() -> None:
    inf, nan = np.inf, np.nan
    one = np.array([1.0, -inf, nan])
    assert checking.difference(one, one) == 0
    assert checking.difference(one, np.array([4.0, -inf, nan])) == 0.75
    for other in ([nan, -inf, nan], [1.0, inf, nan], [inf, -inf, nan], [1.0, -inf]):
        assert checking.difference(np.array(other), one) == inf
    assert checking.difference(np.array([1.0, -inf, 0.0]), one) == 0  # nothing is promised
    assert checking.difference(np.array([nan, -inf, nan]), one, or_nan=True) == 0
    assert checking.difference(np.array([]), np.array([])) == 0
    assert checking.difference(np.array([True]), np.array([False])) == 1
