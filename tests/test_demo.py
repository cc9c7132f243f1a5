"""The demonstration shows all that it says, on a small problem."""

from __future__ import annotations

import re

import pytest

from monocomp import demo


def test_demo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    sizes = {"b": 1, "h": 2, "q = k": 300, "d = e": 16}
    monkeypatch.setattr(demo, "ON_CPU", demo.Run("cpu", "float32", sizes, 3))
    assert demo.main() == 0
    out, err = capsys.readouterr()
    assert err == ""
    titles = re.findall(r"^(\w.*)\n-+$", out, re.MULTILINE)
    assert [title.split()[0] for title in titles] == ["A", "Derivation", "Its", "A"]
    assert demo.PROGRAM in out
    assert "lift_weighted_sum: sum_k exp(s_k) v_k = " in out
    assert "    @triton.jit\n    def causal_kernel(" in out and "tl.dot(" in out
    assert "b = 1, h = 2, q = k = 300, d = e = 16, float32" in out
    for name in ("monocomp", "torch, eager"):
        error, milliseconds = re.search(
            rf"^    {name} +(\S+) +(\S+) ms$", out, re.MULTILINE
        ).groups()
        assert 0 <= float(error) < 1e-5 and float(milliseconds) > 0
    assert all(len(line) <= 104 for line in out.splitlines())


def test_device_function() -> None:
    source = """import x

@triton.jit
def helper(
    a,
):
    m = tl.full(2)

@triton.jit
def f_kernel(
    a,
):
    b = a
    m = tl.full(1)
    c


x = 1
"""
    assert demo.device_function(source) == [
        "@triton.jit",
        "def f_kernel(",
        "    ...",
        "):",
        "    ...",
        "    m = tl.full(1)",
        "    c",
    ]
