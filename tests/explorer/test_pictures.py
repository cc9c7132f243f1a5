"""Pictures of a program: what they say, and that they're drawings."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import monocomp as mc
from monocomp.explorer import PICTURES, picture
from monocomp.explorer.touched import filters

LIBRARY = Path(mc.library.__file__).parent


def drawn(name: str, program: str, **extents: int) -> tuple[str, list[str]]:
    """The title of a picture, and its words."""
    text = str(LIBRARY / f"{program}.mc") if program.isidentifier() else program
    root = ElementTree.fromstring(picture(mc.compile(text).stages.at(**extents), name))
    words = [e.text or "" for e in root.iter() if e.tag.endswith("}text")]
    (title,) = [e.text or "" for e in root.iter() if e.tag.endswith("}title")]
    assert float(root.attrib["width"]) <= 960
    return title, words


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_escape(name: str) -> None:
    text = "# <script>\nO[q,e] = softmax[k if k < q](S[q,k]) * V[k,e]"
    svg = picture(mc.compile(text).stages, name)
    assert "<script" not in svg and svg.count("http") == 1  # the name of SVG itself
    ElementTree.fromstring(svg)


def test_tiles_of_a_causal_filter() -> None:
    title, words = drawn("tiles", "causal")
    assert title == "Tiles of k <= q: 120 full, 16 in part, 120 empty"
    assert "1024 × 1024 positions in tiles of 64" in words and "53.1 % of the tiles" in words[-1]
    title, words = drawn("tiles", "causal", q=1, k=1)
    assert title == "Tiles of k <= q: 1 full, 0 in part, 0 empty"


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("k <= q and q < k + 70", lambda q, k: (k <= q) & (q < k + 70)),
        ("(q - k) % 3 == 0", lambda q, k: (q - k) % 3 == 0),
        ("k // 32 == q // 32 or k < 5", lambda q, k: (k // 32 == q // 32) | (k < 5)),
        ("not k == q", lambda q, k: k != q),
        ("abs(q - k) < |k| // 4", lambda q, k: abs(q - k) < 160 // 4),
    ],
)
def test_tiles_are_counted_exactly(condition: str, kept: object) -> None:
    text = f"O[q,e] = softmax[k if {condition}](S[q,k]) * V[k,e]"
    title, _ = drawn("tiles", text, q=160, k=160)
    at = np.arange(160)
    pairs = np.broadcast_to(kept(at[:, None], at[None, :]), (160, 160))  # type: ignore[operator]
    shares = pairs.reshape(16, 10, 16, 10).mean(axis=(1, 3))
    counts = [(shares == 1).sum(), ((shares > 0) & (shares < 1)).sum(), (shares == 0).sum()]
    assert re.findall(r"(\d+) (?:full|in part|empty)", title) == [str(n) for n in counts]


def test_what_tiles_cannot_show_is_said() -> None:
    with pytest.raises(mc.MonocompError, match="every tile is full"):
        drawn("tiles", "attention")
    with pytest.raises(mc.MonocompError, match="depends on data: it reads prefix"):
        drawn("tiles", "prefix_lm")
    with pytest.raises(mc.MonocompError, match="must lie in 1 to"):
        drawn("tiles", "causal", q=10**6)
    for program in ((LIBRARY / "attention.mc").read_text(), "O = sum[k](X[k] * sum[..k](Y[k]))"):
        assert not filters(mc.compile(program).plan())  # the second's is up to a fold's index


def test_bracketings() -> None:
    title, words = drawn("bracketings", "causal")
    assert title.startswith("Four bracketings of SE[k if k <= q](")
    assert "eight blocks of k, four bracketings, one value: SE is associative (proved)" in words
    assert "each device begins with its own: SE commutes (proved)" in words


def test_a_ring_needs_a_monoid_that_commutes() -> None:
    text = """
        monoid Affine(a, b) = unit (1, 0), combine (a * a', a' * b + b')
        O[q] = Affine[k](A[q,k], B[q,k]).b
        """
    _, words = drawn("bracketings", text)
    assert "not here: Affine isn't known to commute" in words
    assert "eight blocks of k, four bracketings, one value: Affine is associative (proved)" in words
