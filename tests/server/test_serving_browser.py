"""The page of `monocomp serve` in a browser: typing, errors, links, keys."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from monocomp import library
from monocomp.server import Server
from tests.browser import CHROMIUM, WITHOUT, Browser

pytestmark = pytest.mark.skipif(not CHROMIUM, reason=WITHOUT)
TEXT = "document.querySelector('main').innerText"
STATE = "document.querySelector('.mc-state').value"
ERROR = "document.querySelector('.mc-error').innerText"
AT = "Number(document.querySelector('main > .mc').dataset.at)"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Server(0) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.address
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.close()


def wait_for(browser: Browser, condition: str) -> None:
    end = time.monotonic() + 60
    while not browser.value(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.05)


def change(browser: Browser, name: str, value: object) -> None:
    """What a person types into a field, or chooses."""
    field = f"document.querySelector('form').elements.{name}"
    prop = "checked" if isinstance(value, bool) else "value"
    browser.value(
        f"{field}.{prop} = {json.dumps(value)};"
        f"{field}.dispatchEvent(new Event('input', {{bubbles: true}}))"
    )


def test_typing(browser: Browser, address: str) -> None:
    browser.open(address, width=1280)
    wait_for(browser, f"{STATE}.includes(' steps')")
    assert browser.value("document.querySelector('textarea').value") == library.load("causal")
    assert browser.value("document.documentElement.scrollWidth") == 1280
    assert browser.value(AT) == 2  # the first that decides
    browser.press("ArrowRight")
    assert browser.value(AT) == 3

    change(browser, "program", "O[i] = sum[k](X[i,k] * W[k]) / sqr(2)")
    wait_for(browser, f"{ERROR}.includes('did you mean sqrt')")
    assert "^^^" in browser.value(ERROR)
    assert "softmax" in browser.value(TEXT)  # what was compiled last stays, dimmed
    browser.click(".mc-error")
    selected = "(e => e.value.slice(e.selectionStart, e.selectionEnd))"
    assert browser.value(f"{selected}(document.querySelector('textarea'))") == "sqr"
    browser.press("Home")
    assert browser.value(AT) == 3  # the key is the editor's

    change(browser, "program", "O[i] = sum[k](X[i,k] * W[k]) / sqrt(2)  # <b>ü</b> & 😀")
    wait_for(browser, f"!{TEXT}.includes('softmax')")
    assert browser.value(ERROR) == "" and "store O[i]" in browser.value(TEXT)
    change(browser, "gradient", True)
    wait_for(browser, f"{TEXT}.includes('The gradient')")
    assert browser.complaints == []
    origins = {urlsplit(url)[:2] for url in browser.requests}
    assert origins == {urlsplit(address)[:2]}

    link = browser.value("location.href")
    query = parse_qs(urlsplit(link).query)
    assert query["gradient"] == ["true"] and query["program"][0].endswith("# <b>ü</b> & 😀")
    browser.open(link, width=390, height=844)
    wait_for(browser, f"{TEXT}.includes('The gradient')")
    assert browser.value("document.querySelector('textarea').value") == query["program"][0]
    assert browser.value("document.documentElement.scrollWidth") == 390
    assert browser.complaints == []


def test_a_start_from_the_library(browser: Browser, address: str) -> None:
    browser.open(f"{address}?program=O%5Bi%5D+%3D+A%5Bi%5D")
    wait_for(browser, f"{STATE}.includes(' step')")
    change(browser, "library", "sliding_window")
    wait_for(browser, f"{TEXT}.includes('window')")
    assert browser.value("document.querySelector('textarea').value").startswith("# Sliding")
    change(browser, "backend", "torch")
    wait_for(browser, f"!{TEXT}.includes('tl.dot')")
    assert "contract[k]" in browser.value(TEXT) and browser.complaints == []
