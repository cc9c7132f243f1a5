"""Pages as tests read them: balanced, and their text as it stands."""

from __future__ import annotations

import re
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
