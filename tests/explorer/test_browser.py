"""The explorer in a browser: sizes, keys, links, and nothing asked of the network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path

import pytest

import monocomp as mc
from monocomp import explorer
from monocomp.explorer.html import document
from tests.browser import CHROMIUM, WITHOUT, Browser
from tests.pages import Sanitised

pytestmark = pytest.mark.skipif(not CHROMIUM, reason=WITHOUT)
LIBRARY = Path(mc.library.__file__).parent
CTRL = 2
AT = "Number(document.querySelector('.mc').dataset.at)"
WIDTH = "document.documentElement.scrollWidth"
# Formulas that are wider or higher than the box that they stand in.
OUTSIDE = """[...document.querySelectorAll('.mc math')].filter(m => {
    const r = m.getBoundingClientRect();
    const b = m.closest('.mc-eq, .mc-said, td').getBoundingClientRect();
    return m.checkVisibility() && (r.left < b.left - 1 || r.right > b.right + 1
        || r.top < b.top - 1 || r.bottom > b.bottom + 1);
}).map(m => m.getAttribute('aria-label') || m.textContent)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name in ("causal", "hedgehog_attention", "differential"):
        found[name] = folder / f"{name}.html"
        kernel = mc.compile(LIBRARY / f"{name}.mc")
        found[name].write_text(explorer.page(kernel), encoding="utf-8")
    found["gradient"] = folder / "gradient.html"
    gradient = mc.grad(LIBRARY / "causal.mc")
    found["gradient"].write_text(
        explorer.page(mc.compile(gradient), derivation=gradient.derivation), encoding="utf-8"
    )
    two = "".join(
        mc.compile(LIBRARY / f"{n}.mc").derivation._repr_html_() for n in ("softmax", "gqa")
    )
    found["two"] = folder / "two.html"
    found["two"].write_text(document("two", two), encoding="utf-8")
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["causal", "hedgehog_attention", "gradient", "two"])
def test_a_page_opens(browser: Browser, pages: dict[str, Path], name: str, dark: bool) -> None:
    browser.open(pages[name], dark=dark)
    assert browser.value(WIDTH) <= 1000
    assert browser.complaints == [] and browser.requests == [pages[name].as_uri()]
    rgb = browser.value("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, rgb[4:-1].split(",")))
    assert brightness < 150 if dark else brightness > 600


def test_every_step_fits(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["hedgehog_attention"])
    browser.value("document.querySelector('.mc').focus()")
    browser.press("Home")
    steps = browser.value("document.querySelectorAll('.mc-step').length")
    for number in range(1, steps + 1):
        assert browser.value(AT) == number
        assert browser.value(WIDTH) <= 1000
        assert browser.value(OUTSIDE) == []
        assert browser.value("document.querySelectorAll('.mc-step.mc-here').length") == 1
        browser.press("ArrowRight")
    assert browser.value(AT) == steps


# Formulas that run out of their line and could be smaller; words of first columns that are broken.
CUT = """[...document.querySelectorAll('.mc math')].filter(m => {
    const b = m.closest('.mc-eq, .mc-said');
    const least = b && 0.73 * parseFloat(getComputedStyle(b).fontSize);
    return b && b.scrollWidth > b.clientWidth && parseFloat(getComputedStyle(m).fontSize) > least;
}).map(m => m.getAttribute('aria-label') || m.textContent)"""
BROKEN = """[...document.querySelectorAll('.mc-table :is(th, td):first-child')].filter(e => {
    const words = document.createRange();
    words.selectNodeContents(e);
    const lines = new Set([...words.getClientRects()].map(r => r.bottom));
    return lines.size > e.textContent.trim().split(/\\s+/).length;
}).map(e => e.textContent)"""


@pytest.mark.parametrize("name", ["hedgehog_attention", "gradient"])
def test_every_step_fits_a_phone(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name], width=390)
    browser.press("Home")
    for _ in range(browser.value("document.querySelectorAll('.mc-step').length")):
        assert browser.value(WIDTH) == 390
        assert browser.value(CUT) == []
        browser.press("ArrowRight")
    assert browser.value(BROKEN) == []


def test_keys(browser: Browser, pages: dict[str, Path]) -> None:
    """They work at once; the page begins with the first step that decides."""
    browser.open(pages["causal"])
    steps = browser.value("document.querySelectorAll('.mc-step').length")
    assert browser.value(AT) == 2
    browser.press("ArrowRight")
    assert browser.value(AT) == 3
    browser.press("ArrowRight", modifiers=CTRL)
    assert browser.value(AT) == 3
    browser.press("End")
    assert browser.value(AT) == steps == int(browser.value("document.querySelector('input').value"))
    browser.press("Home")
    seen = []
    for _ in range(3):
        browser.press("d")
        seen.append(browser.value(AT))
    assert seen == [2, 4, 5]
    assert browser.value("document.querySelector('output').value") == f"step 5 of {steps}"
    browser.press("a")
    shown = "[...document.querySelectorAll('.mc-step')].filter(e => e.offsetParent).length"
    assert browser.value(shown) == steps
    browser.press("a")
    assert browser.value(shown) == 1
    browser.value("document.querySelector('.mc input').focus()")
    browser.press("ArrowLeft")
    assert browser.value(AT) == 4  # once, not by the slider and the page


def test_steps_have_addresses(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["causal"], fragment="step-4")
    assert browser.value(AT) == 4
    browser.press("ArrowRight")
    assert browser.value("location.hash") == "#step-5"
    link = "document.querySelector('.mc-link')"
    assert browser.value(f"{link}.hash") == "#step-5"
    browser.value("location.hash = 'step-3'")
    assert browser.value(f"new Promise(done => setTimeout(() => done({AT}), 50))") == 3
    for strange in ("step-", "step-99", "step-0", "<b>"):
        browser.open(pages["causal"], fragment=strange)
        assert 1 <= browser.value(AT) <= 10
    browser.open(pages["two"], fragment="step-2")
    assert browser.value(f"{link} === null")
    assert browser.complaints == []


@pytest.mark.parametrize("name", ["causal", "hedgehog_attention", "differential"])
def test_clicks_link_terms_and_lines(browser: Browser, pages: dict[str, Path], name: str) -> None:
    """Each term lights lines of the tile program, and each line its term."""
    browser.open(pages[name])
    found = browser.value("""(() => {
        const terms = [...document.querySelectorAll('mrow[data-o]')];
        const dark = [];
        for (const t of terms) {
            t.dispatchEvent(new MouseEvent('click', {bubbles: true}));
            const lit = [...document.querySelectorAll('.mc-sides .mc-listing .mc-lit')];
            if (!lit.length || lit.some(e => e.dataset.o != t.dataset.o)) dark.push(t.textContent);
            t.dispatchEvent(new MouseEvent('click', {bubbles: true}));
        }
        for (const s of document.querySelectorAll('.mc-listing span[data-o]')) {
            s.click();
            if (!document.querySelector('mrow.mc-lit')) dark.push(s.textContent);
            s.click();
        }
        return [terms.length, dark, document.querySelectorAll('.mc-lit').length];
    })()""")
    assert found[0] > 5 and found[1:] == [[], 0]


def test_two_explorers_do_not_interfere(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["two"])
    at = "[...document.querySelectorAll('.mc')].map(e => Number(e.dataset.at))"
    assert browser.value(at) == [1, 3]  # softmax has no step that decides
    browser.press("ArrowRight")
    assert browser.value(at) == [1, 3]
    browser.value("document.querySelectorAll('.mc')[1].focus()")
    browser.press("ArrowRight")
    assert browser.value(at) == [1, 4]


def test_all_is_there_where_scripts_are_off(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["causal"], scripts=False)
    assert browser.value(WIDTH) <= 1000
    boxes = browser.value(
        "[...document.querySelectorAll('.mc-card')].filter(e => e.offsetHeight > 60).length"
    )
    derivation = mc.compile(LIBRARY / "causal.mc").derivation
    assert boxes == len(derivation)
    assert browser.value("document.querySelectorAll('.mc-bar-top').length") == 0
    text = browser.value("document.body.innerText")
    for step in derivation:
        assert step.rule in text


NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def shown(notebook: Path, trusted: bool) -> str:
    """A notebook as its viewers show it: what is written, and the best of each output."""
    parts = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        parts.append(f"<pre>{escape(''.join(cell['source']))}</pre>")
        for output in cell.get("outputs", ()):
            data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
            if html := data.get("text/html"):
                cleaned = f'<div style="overflow: auto">{Sanitised(html).html}</div>'
                parts.append(f"<div>{html}</div>" if trusted else cleaned)  # as Jupyter shows it
            elif trusted and "image/svg+xml" in data:
                parts.append(data["image/svg+xml"])
            else:
                text = "".join(output.get("text", "")) or data.get("text/plain", "")
                parts.append(f"<pre>{escape(text)}</pre>")
    style = "<style>pre { white-space: pre-wrap; overflow-wrap: anywhere }"
    style += "img { max-width: 100% }</style>"
    return document(notebook.stem, style + "\n".join(parts))


@pytest.mark.one_in(9)
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem[:2])
def test_notebooks(browser: Browser, tmp_path: Path, notebook: Path, trusted: bool) -> None:
    """As they are stored, run here or just cloned: nothing is too wide, and explorers walk."""
    path = tmp_path / "notebook.html"
    path.write_text(shown(notebook, trusted), encoding="utf-8")
    for dark, width in ((False, 390), (False, 1000), (True, 1000)):
        browser.open(path, width=width, dark=dark, scripts=trusted)
        assert browser.value(WIDTH) <= width
        assert browser.complaints == [] and browser.requests == [path.as_uri()]
    walks = browser.value("document.querySelectorAll('.mc-bar-top').length")
    assert walks == (path.read_text(encoding="utf-8").count("<script>") if trusted else 0)
    for n in range(walks):
        root = f"document.querySelectorAll('.mc:has(.mc-bar-top)')[{n}]"
        browser.value(f"{root}.focus()")
        browser.press("End")
        assert browser.value(f"{root}.dataset.at == {root}.querySelectorAll('.mc-step').length")
        assert browser.value(OUTSIDE) == []
