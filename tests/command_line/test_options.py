"""Options of the command line: each is read, or refused with what it goes with."""

from __future__ import annotations

import webbrowser
from argparse import Namespace
from contextlib import nullcontext
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from monocomp import server
from monocomp.calls.calls import Calls
from monocomp.command_line import files, options
from monocomp.command_line import main as cli
from monocomp.command_line.options import Form, Option
from monocomp.errors import UsageError

torch = pytest.importorskip("torch")

PROGRAM = "param c: float = 2.0, unused: float = 1.0\nO[i] = c * sum[k if k <= i](A[i,k] * B[k])"
SAMPLES = {  # words that give each option a value other than its default
    "json": [],
    "steps": ["1"],
    "no_notes": [],
    "extent": ["i=3", "k=3"],
    "gradient": [],
    "wrt": ["B"],
    "save": ["O"],
    "stage": ["blocks"],
    "origins": [],
    "before": ["peel"],
    "after": ["peel"],
    "html": ["page.html"],
    "picture": ["tiles"],
    "backend": ["torch"],
    "outputs": ["O"],
    "forward": [],
    "output": ["out"],
    "form": ["ttir"],
    "target": ["cuda:90"],
    "dtype": ["fp32"],
    "tf32": [],
    "minimal": [],
    "name": ["mine"],
    "random": [],
    "input": ["A=a.npy", "B=b.npy"],
    "param": ["c=3"],
    "seed": ["1"],
    "rounds": ["1"],
    "seconds": ["1"],
    "candidates": ["1"],
    "verbose": [],
    "port": ["8080"],
    "open": [],
}
FORMS = [(verb, form) for verb, about in cli.VERBS.items() for form in about.forms]


def words_of(option: Option, when: tuple[str, ...] = ()) -> list[str]:
    asked = next((w.split() for w in when if w.split()[0] == option.name), [])
    return asked if len(asked) == 2 else [option.name, *SAMPLES[option.key]]


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_pair_is_read_or_refused(verb: str) -> None:
    """A form takes both options, or the command line is refused with what one of them goes with."""
    parser, forms = cli._parser(), cli.VERBS[verb].forms
    known = {option.key: option for form in forms for option in form.options}
    program = [PROGRAM] if cli.VERBS[verb].takes_program else []
    for one, other in combinations(known.values(), 2):
        argv = [verb, *program, *words_of(one), *words_of(other)]
        given = {k: v for k, v in vars(parser.parse_args(argv)).items() if k in known}
        assert given.keys() == {one.key, other.key}
        try:
            _, values = options.choose(forms, given)
        except UsageError as error:
            assert error.message.startswith("--") and error.help
            continue
        assert values[one.key] == given[one.key] != one.default
        assert values[other.key] == given[other.key] != other.default


class Serving(NamedTuple):
    """A server that is interrupted at once."""

    address: str

    def serve_forever(self) -> None:
        raise KeyboardInterrupt


class Recording(Namespace):
    """Options that remember which of them were read."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            object.__getattribute__(self, "__dict__").setdefault("_read", set()).add(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize(
    ("verb", "form"), FORMS, ids=[f"{v} {' '.join(f.when)}".strip() for v, f in FORMS]
)
def test_every_form_reads_its_options(
    verb: str, form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if verb == "demo":
        return  # no option that could be left unread
    if verb == "serve":  # which ends when it is interrupted
        monkeypatch.setattr(server, "Server", lambda port: nullcontext(Serving(f"port {port}")))
        monkeypatch.setattr(webbrowser, "open", lambda address: None)
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.ones((3, 3), np.float32))
    np.save("b.npy", np.ones(3, np.float32))
    argv = [verb, *([PROGRAM] if cli.VERBS[verb].takes_program else [])]
    for option in form.options:
        argv += words_of(option, form.when)
    if verb == "emit":
        argv[argv.index("torch")] = "triton"
        if "--form" not in form.when:
            argv[argv.index("ttir")] = "source"
    if verb == "tune":  # which needs a GPU
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(files, "tensors", lambda *_: {})
        found = Namespace(entry=None, is_checked=True)
        monkeypatch.setattr(Calls, "tune", lambda *_, **more: found)
    runs: list[Recording] = []

    def run(options: Namespace) -> int:
        runs.append(Recording(**vars(options)))
        return form.run(runs[-1])

    about = cli.VERBS[verb]
    forms = tuple(f._replace(run=run) if f is form else f for f in about.forms)
    monkeypatch.setitem(cli.VERBS, verb, about._replace(forms=forms))
    assert cli.main(argv) == 0
    # What asks for a form needs no reading where it has no value, nor where it has not asked.
    selecting = {w.split()[0] for f in cli.VERBS[verb].forms for w in f.when}
    asking = {
        o.key
        for o in form.options
        if o.name in selecting and (o.default is False or o.name not in form.when)
    }
    assert {o.key for o in form.options} - asking <= runs[0]._read


def test_a_page_of_a_gradient(capsys, tmp_path) -> None:
    path = tmp_path / "page.html"
    assert cli.main(["explain", "causal", "--gradient", "--html", str(path)]) == 0
    assert capsys.readouterr() == ("", "")
    assert "differentiate_" in path.read_text() and "Derivation of dQ, dK, dV" in path.read_text()
