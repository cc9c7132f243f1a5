"""The demonstration shows all that it says, on a small problem."""

from __future__ import annotations

import re

import pytest

from monocomp.command_line import demo


def test_demo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    sizes = {"b": 1, "h": 2, "q = k": 320, "d = e": 16}
    monkeypatch.setattr(demo, "ON_CPU", demo.Run("cpu", "float32", sizes, 20, 3))
    threads = torch.get_num_threads()
    assert demo.main() == 0 and torch.get_num_threads() == threads
    out, err = capsys.readouterr()
    assert "first call 1 of 3" in err
    titles = re.findall(r"^(\d\. \w.*)\n-+$", out, re.MULTILINE)
    assert [title.split()[1] for title in titles] == ["A", "Derivation", "Its", "A"]
    assert demo._indented(demo.PROGRAM) in out
    assert "lift: sum_k exp(s_k) v_k = " in out
    assert "for k in max(0, (q + 1) - window) .. min(|k|, q + 1):" in out
    assert "    @triton.jit\n    def sliding_window_kernel(" in out and "tl.dot(" in out
    assert "b = 1, h = 2, q = k = 320, d = e = 16, window = 20, float32" in out
    for name in ("monocomp", "SDPA", "eager torch"):
        milliseconds, differs = re.search(
            rf"^    {name} +(\S+) ms +\S+ +(\d\S*)? ", out, re.MULTILINE
        ).groups()
        assert float(milliseconds) > 0 and float(differs or 0) < 1e-5
    (error,) = re.findall(r"largest error against the oracle is (\S+),", out)
    assert 0 <= float(error) < 1e-5
    assert "The derived kernel reads 20 of 320 keys for a query, and nobody wrote it." in out
    assert all(len(line) <= 104 for line in out.splitlines())
