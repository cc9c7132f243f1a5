"""Kinds of words in Python and in the texts of programs, for their colours.

One tokenizer reads them all: tile programs and block programs are written like Python, with a few
words of their own. It knows no grammar, so no text is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from keyword import kwlist

# Words of tile programs and block programs; followed by a bracket, or after a point, they are none.
_OWN = frozenset(["kernel", "grid", "row", "stream", "whole", "state", "store", "load", "unrolled"])
_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<string>(?<!\w)[rbfRBF]{0,2}(?:\"\"\"(?s:.*?)\"\"\"|'''(?s:.*?)'''
          |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
      | (?P<number>(?<![\w.])(?:0[xX][\da-fA-F]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))
      | (?P<decorator>^[ ]*@[\w.]+)
      | (?P<word>[^\W\d]\w*)""",
    re.VERBOSE | re.MULTILINE,
)
# Tags that stay where styles are removed, as in notebooks that aren't trusted yet, where they can.
_TAGS = {
    "keyword": "b",
    "comment": "i",
    "string": 'span class="mc-text"',
    "number": 'span class="mc-digits"',
    "decorator": 'span class="mc-called"',
    "called": 'span class="mc-called"',
}


def tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each piece; the kind is "" where it has no colour. Joined they are the
    text.

    >>> list(tokens("for k in f(2)"))[:3]
    [('keyword', 'for'), ('', ' '), ('', 'k')]
    """
    end = 0
    for match in _TOKEN.finditer(text):
        if match.start() > end:
            yield "", text[end : match.start()]
        end = match.end()
        kind = str(match.lastgroup)
        if kind == "word":
            is_called = text[end : end + 1] == "("
            is_attribute = text[max(match.start() - 1, 0)] == "."
            is_own = match[0] in _OWN and not is_called and not is_attribute
            is_keyword = is_own or match[0] in kwlist
            kind = "keyword" if is_keyword else "called" if is_called else ""
        yield kind, match[0]
    if end < len(text):
        yield "", text[end:]


def coloured(lines: Iterable[str]) -> list[str]:
    """Return the markup of each line; a string may run over several."""
    rows = [""]
    for kind, piece in tokens("\n".join(lines)):
        for n, part in enumerate(piece.split("\n")):
            if n:
                rows.append("")
            tag = _TAGS.get(kind)
            shown = escape(part)
            rows[-1] += f"<{tag}>{shown}</{tag.split()[0]}>" if tag and part else shown
    return rows
