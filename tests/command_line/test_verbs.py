"""Verbs: list, show, explain, run, check, bench, doctor, demo, and emit's forms."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from monocomp import library
from monocomp.checking import steps as checking
from monocomp.command_line import bench
from monocomp.command_line import main as cli
from monocomp.language.checker import check
from monocomp.translation.translator import translate

torch = pytest.importorskip("torch")


def test_list(call) -> None:
    result = call("list")
    assert (result.status, result.err) == (0, "")
    lines = [line for line in result.out.splitlines() if line.startswith("  ")]
    assert sorted(line.split()[0] for line in lines) == list(library.names())
    for group in library.GROUPS:
        assert f"{group}\n  " in result.out
    assert max(map(len, lines)) <= 130
    entries = json.loads(call("list", "--json").out)
    assert {entry["name"] for entry in entries} == {*library.names()}
    assert {entry["group"] for entry in entries} == {*library.GROUPS}


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


@pytest.mark.parametrize("name", ["sliding_window", "gqa", "paged_attention"])
def test_what_is_shown_is_the_program_again(call, name: str) -> None:
    status, out, _ = call("show", name)
    assert status == 0 and out.startswith(library.load(name).rstrip("\n"))
    assert translate(check(out)).text() == translate(check(library.load(name))).text()


def test_show_says_how_it_is_called(call) -> None:
    out = call("show", "sliding_window")[1]
    assert out.endswith(
        "# O = kernel(Q, K, V, window=1024)\n"
        "# with Q[b,h,q,d]: float, K[b,h,k,d]: float, V[b,h,k,e]: float\n"
    )
    shown = json.loads(call("show", "sliding_window", "--json")[1])
    assert shown["params"] == [{"name": "window", "kind": "int", "default": 1024}]
    assert shown["inputs"][0] == {"name": "Q", "dims": ["b", "h", "q", "d"], "kind": "float"}
    assert call("show", "slidingwindow")[0] == 2


def test_every_help_has_examples_that_parse(call) -> None:
    """Each is a command line that the parser takes, and its program is one."""
    parser = cli._parser()
    for name, verb in cli.VERBS.items():
        status, out, _ = call(name, "--help")
        assert status == 0 and verb.examples
        for example in (*verb.examples, *cli.FIRST_STEPS):
            words = shlex.split(re.split(r" >>? ", example)[0])
            parsed, unknown = parser.parse_known_args(words)
            assert not unknown, example
            program = getattr(parsed, "program", None)
            assert program is None or program in {*library.names(), "mine.mc"} or "=" in program
        assert all(f"\n  monocomp {example}\n" in out for example in verb.examples)


def test_check_and_run_as_json(call) -> None:
    status, out, _ = call("check", "O[i] = sum[k](A[i,k])", "--json")
    findings = json.loads(out)
    assert status == 0 and {f["ok"] for f in findings} <= {True, None}
    assert {f["section"].partition(":")[0] for f in findings} >= {"proofs", "backends"}
    out = call("run", "O[i] = A[i]", "--random", "--extent", "i=3", "--json")[1]
    (output,) = json.loads(out)
    assert (output["name"], output["shape"], output["dtype"]) == ("O", [3], "float32")


# --- run and check


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
    assert result.out.startswith("P  3x40  bfloat16  mean ")
    assert np.load(path)["P"].dtype == np.float32


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
    text = "monoid Sub(a) = unit (0), combine (a - a')\nO[i] = Sub[k](A[i,k])"
    result = call("check", text)
    assert (result.status, result.err) == (1, "")
    assert re.search(r"^  FAIL  Sub: associative +counterexample: ", result.out, re.MULTILINE)


# --- what is mistyped or missing is named, with what to say


def test_sizes_that_are_missing_are_proposed(call) -> None:
    status, _, err = call("run", "causal", "--random", "--extent", "b=1")
    assert status == 2 and "the extent of h, q, d, k, e is missing" in err
    proposed = re.search(r"say (--extent .*)", err)[1].split()
    assert proposed[1] == "b=1"
    kernel = translate(check(library.load("causal")))
    assert {p.partition("=")[0] for p in proposed[1:]} == {*kernel.declared.extent_of}


# --- bench


def test_bench(call) -> None:
    sizes = ["--extent", "b=1", "h=1", "q=40", "k=40", "d=8", "e=8", "--rounds", "2"]
    status, out, err = call("bench", "causal", *sizes, "--json")
    assert status == 0 and "first call" in err
    found = {c["name"]: c for c in json.loads(out)["contenders"]}
    assert [*found] == ["monocomp", "as written", "eager torch", "SDPA, causal"]
    assert all(c["ms"] > 0 and c["rounds"] == 2 and not c["problem"] for c in found.values())
    assert all(c["differs"] < 1e-5 for name, c in found.items() if name != "monocomp")
    out = call("bench", "attention", *sizes)[1]
    assert "SDPA" in out and "SDPA, causal" not in out


def test_bench_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch, call) -> None:
    monkeypatch.setattr(bench, "_free_memory", lambda device: 20_000)
    sizes = ["--extent", "b=1", "h=1", "q=40", "k=50", "d=8", "e=8", "--rounds", "1"]
    status, out, _ = call("bench", "attention", *sizes, "--json")
    found = {c["name"]: c for c in json.loads(out)["contenders"]}
    assert status == 0 and "GiB are needed" in found["eager torch"]["problem"]
    monkeypatch.setattr(bench, "_free_memory", lambda device: 30_000)  # 40 * 50 * 4 bytes, thrice
    assert not json.loads(call("bench", "attention", *sizes, "--json")[1])["contenders"][2][
        "problem"
    ]


# --- machine code


def test_emit_machine_code(call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    words = ["emit", "logsumexp", "--target", "cuda:90"]
    status, out, err = call(*words, "--form", "ptx")
    assert (status, err) == (0, "")
    assert re.match(
        r"// ptx for cuda:90, i = 2, k = 4096\n// logsumexp_kernel: \d+ registers a thread, "
        r"0 spilled, \d+ bytes of shared memory, \d warps\n",
        out,
    )
    assert ".target sm_90" in out
    made = json.loads(call(*words, "--form", "ttgir", "--json")[1])
    (kernel,) = made["kernels"]
    assert kernel["registers"] > 0 and "ttg.num-warps" in made["text"]["logsumexp_kernel"]
    assert "tanh.approx" in call("emit", "softcap", "--target", "h100", "--form", "ptx")[1]
    assert call(*words, "--form", "amdgcn")[2] == (
        "UnsupportedError: cuda:90 has no amdgcn\n  help: one of ttir, ttgir, llir, ptx\n"
    )
    assert call(*words, "--json")[0] == call(*words, "--form", "ptx", "--minimal")[0] == 2
    declared = "input X[i,r]\nindex r < |i| - 1\nO[i] = sum[r](X[i,r])"
    assert "i = 64, r = 63\n" in call("emit", declared, "--form", "ttir", "--extent", "i=64")[1]
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert "unset TRITON_INTERPRET" in call(*words, "--form", "ptx")[2]


# --- doctor


def test_doctor(call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    status, out, err = call("doctor")
    assert (status, err) == (0, "") and "FAIL" not in out
    assert f"torch {torch.__version__}" in out and "triton  to machine code for cuda:90" in out
    assert re.search(r"ok    torch   float64  error \S+, limit 1e-10", out)


def test_doctor_finds_a_cache_that_cannot_be_used(
    call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="cannot write to the cache folder"):
        from monocomp.command_line.doctor import _cache

        (found,) = _cache()
    assert found.ok is False and "MONOCOMP_CACHE_DIR can name another" in found.detail


def test_doctor_says_what_is_wrong(call, monkeypatch: pytest.MonkeyPatch) -> None:
    from monocomp.command_line import verification

    monkeypatch.setattr(verification, "BACKENDS", {"torch": ("float64", -1.0)})
    status, out, _ = call("doctor", "--json")
    failed = [f for f in json.loads(out) if f["ok"] is False]
    assert status == 1 and [f["what"].split()[0] for f in failed] == ["torch"]


# --- demo --------------------------------------------------------------------------------


def test_demo(call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands, each with what it prints."""
    *shown, bench = cli.DEMO
    sizes = bench.replace("2048", "40").replace("d=64 e=64", "d=8 e=8")
    monkeypatch.setattr(cli, "DEMO", (*shown, sizes))
    status, out, _ = call("demo")
    assert status == 0
    _, program, steps, source, times = re.split(r"^\$ monocomp .*\n", out, flags=re.MULTILINE)
    assert program.strip().startswith(library.load("sliding_window").strip())
    assert "expand_softmax" in steps
    assert "def sliding_window_kernel(" in source and "tl.dot(" in source
    assert re.search(r"^eager torch +\S+ ms ", times, re.MULTILINE)
