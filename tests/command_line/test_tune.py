"""`monocomp tune` without a GPU: what a search is given, and what is shown and written of it."""

from __future__ import annotations

import io
import json

import pytest

from monocomp.command_line import files

PRODUCT = "O[i,j] = A[i,k] * B[k,j]"


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
