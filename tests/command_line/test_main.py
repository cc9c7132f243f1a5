"""The command line: exit statuses, what goes where, and bad input."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

from monocomp.command_line import files
from monocomp.command_line import main as cli
from monocomp.errors import InternalError

ROOT = Path(__file__).parents[2]
PRODUCT = "O[i,j] = A[i,k] * B[k,j]"


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


# --- bad programs

# --- emit


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
