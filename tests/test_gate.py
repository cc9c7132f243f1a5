"""The stored texts of the gate are current, and its command shows what changes."""

from __future__ import annotations

import pytest

from tests import gate
from tests.variants.papers import VARIANTS

STORED = gate.read(gate.FOLDER)
PAPER_LINES = STORED[gate.PAPERS].splitlines(True)
HINT = "if this is meant, run `python -m tests.gate --update` and read the diff"


@pytest.mark.one_in(21)
@pytest.mark.parametrize("name", gate.PROGRAMS)
def test_program(name: str) -> None:
    changes = gate.diff(name, STORED[name], gate.program_text(name))
    if changes:
        pytest.fail(f"{name} has changed; {HINT}\n{changes}", pytrace=False)


@pytest.mark.one_in(13)
@pytest.mark.parametrize("line", PAPER_LINES)
def test_rules_of_papers(line: str) -> None:
    assert gate.paper_line(line.split(": ")[0]) == line, HINT


def test_rules_of_writings() -> None:
    assert gate.writings_text() == STORED[gate.WRITINGS_OF], HINT


def test_every_program_is_stored() -> None:
    assert STORED.keys() == {*gate.PROGRAMS, *gate.LISTS, gate.RULE_COUNTS}
    names = [line.split(": ")[0] for line in PAPER_LINES]
    assert names == [name + suffix for name in VARIANTS for suffix in ("", gate.GRADIENT)]


def test_counts_of_rules() -> None:
    assert gate.complete(STORED) == STORED, HINT


def test_merge() -> None:
    texts = {"s": "a\nb\nc", "l": "a\nB\nc", "d": "a\nB\nc\nd"}
    assert gate.merge(texts) == "    a\ns   b\nld  B\n    c\nd   d\n"


def test_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert gate.main(["column_sums", "--no-sources"]) == 0
    assert "0 of " in capsys.readouterr().out
    texts = {**STORED, "column_sums": STORED["column_sums"].replace("whole", "hole", 1)}
    monkeypatch.setattr(gate, "read", lambda folder: texts)
    assert gate.main(["column_sums", "--no-sources"]) == 1
    shown = capsys.readouterr().out
    assert "1 of " in shown and "--- before/column_sums.txt" in shown
    with pytest.raises(SystemExit, match="no program matches 'colum'"):
        gate.main(["colum"])
