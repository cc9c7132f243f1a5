"""The page: a program, and beside one another its derivation and its kernels."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files

from monocomp import library
from monocomp.explorer.html import asset
from monocomp.server.answers import BACKENDS, DTYPES, TARGETS, Request


def _options(names: Iterable[str], chosen: str = "") -> str:
    return "".join(
        f'<option{" selected" if name == chosen else ""} value="{escape(name)}">{escape(name)}'
        "</option>"
        for name in names
    )


def _select(name: str, names: Iterable[str]) -> str:
    chosen = str(Request.__dataclass_fields__[name].default)
    return f'<label>{name} <select name="{name}">{_options(names, chosen)}</select></label>'


def _library() -> str:
    groups = (
        f'<optgroup label="{escape(group)}">{_options(names)}</optgroup>'
        for group, names in library.GROUPS.items()
    )
    return (
        '<label>start from <select name="library"><option value="">…</option>'
        f"{''.join(groups)}</select></label>"
    )


def _own(name: str) -> str:
    return files("monocomp.server").joinpath(name).read_text(encoding="utf-8")


PAGE = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="color-scheme" content="light dark">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<title>monocomp</title><link rel="icon" href="data:,">'
    '<link rel="stylesheet" href="/style.css"></head><body class="mc-page mc-serve">'
    '<form class="mc-ask" autocomplete="off"><header><b>monocomp</b>'
    f"{_library()}"
    f"{_select('backend', BACKENDS)}{_select('target', TARGETS)}{_select('dtype', DTYPES)}"
    '<label>sizes <input name="sizes" placeholder="q=4096 d=128" spellcheck="false"></label>'
    '<label><input type="checkbox" name="gradient"> gradient</label>'
    '<button type="button" name="link">copy link</button>'
    '<output class="mc-state" aria-live="polite"></output></header>'
    '<textarea name="program" spellcheck="false" autocapitalize="off" aria-label="program" '
    'wrap="off"></textarea><pre class="mc-error" role="alert" hidden></pre></form>'
    '<main><div class="mc" role="group" aria-label="what comes of it"></div></main>'
    '<script src="/explorer.js"></script><script src="/serve.js"></script></body></html>\n'
)
ASSETS = {
    "/style.css": ("text/css", asset("page.css") + asset("explorer.css") + _own("serve.css")),
    "/explorer.js": ("text/javascript", asset("explorer.js")),
    "/serve.js": ("text/javascript", _own("serve.js")),
}
