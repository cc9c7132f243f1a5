"""Pages as tests read them: balanced, and their text as it stands."""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser

_VOID = {"meta", "br", "img", "input"}


class Page(HTMLParser):
    """A page or a fragment; it fails where tags aren't balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["script"], ["style"]):
            self.texts.append(data)

    @property
    def text(self) -> str:
        """All text that is left where tags are removed, in plain signs and without spaces."""
        return plain("".join(self.texts))


_SIGNS = {"∑": "sum", "∏": "prod", "e^(": "exp(", "−": "-", "·": "*", "∞": "inf"}
_SIGNS |= {"≤": "<=", "≥": ">=", "≠": "!=", "∘": ".", "→": "->", "\xa0": " "}


def plain(text: str) -> str:
    """A formula's letters as text of the language, without spaces."""
    for sign, word in _SIGNS.items():
        text = text.replace(sign, word)
    return re.sub(r"\s+", "", text.replace("==", "="))


_KEPT = {"details", "summary", "pre", "code", "table", "thead", "tbody", "tr", "th", "td", "b", "i"}
_KEPT |= {"div", "span", "p", "img", "header", "section", "nav"}
_DROPPED = {"script", "style"}  # with what is in them


class Sanitised(HTMLParser):
    """A fragment as a notebook shows it that isn't trusted yet: few tags, and no styles but a few
    (JupyterLab's sanitiser; GitHub's is like it)."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.dropping = 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.dropping += tag in _DROPPED
        if tag in _KEPT:
            kept = [(n, v or "") for n, v in attrs if n in ("class", "open", "alt", "title", "src")]
            words = "".join(f' {n}="{escape(v)}"' for n, v in kept)
            self.parts.append(f"<{tag}{words}>")

    def handle_endtag(self, tag: str) -> None:
        self.dropping -= tag in _DROPPED
        if tag in _KEPT and tag != "img":
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self.dropping:
            self.parts.append(escape(data))

    @property
    def html(self) -> str:
        """What is left."""
        return "".join(self.parts)
