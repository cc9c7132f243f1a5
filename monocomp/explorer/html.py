"""Make the pieces of every page: formulas, sentences, code, tables, escaped everywhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from monocomp.display.formulas import Formula
from monocomp.explorer.colours import coloured
from monocomp.explorer.drawing import XMLNS
from monocomp.explorer.fitting import Names, fit
from monocomp.explorer.mathml import HUES, math, typeset

WIDTH = 46.0  # ems of a formula that fits a line of a page 1000 pixels wide


def tag(name: str, kind: str, *inside: str, **more: str) -> str:
    """Return an element of a kind, around markup."""
    attributes = "".join(f' {n}="{escape(value)}"' for n, value in more.items())
    return f'<{name} class="mc-{kind}"{attributes}>{joined(inside)}</{name}>'


def code(text: str) -> str:
    """Return text as it stands, in a line."""
    return tag("code", "code", escape(text))


def span(kind: str, text: str) -> str:
    """Return words of a kind."""
    return tag("span", kind, escape(text))


def opening(kicker: str, lines: Iterable[Formula], below: str) -> str:
    """Return the beginning of a page: what it is about, formulas, and what stands below them."""
    start = tag("div", "start", *map(formula, lines))
    return tag("header", "head", tag("div", "kicker", escape(kicker)), start, below)


def formula(f: Formula) -> str:
    """Return a formula typeset, with its parts named where it is too wide."""
    names = Names()
    return block(f, names, WIDTH) + where(names, WIDTH)


def block(f: Formula, names: Names, width: float) -> str:
    """Return the same, or what a step says in words; what gets a name is left to `where`."""
    parts, label = (f.args if f.op == "sentence" else (f,)), ""
    if f.op == "given":
        parts, label = f.args, '<b class="mc-label">given</b> '
    shown = (code(str(p)) if p.op == "words" else math(fit(p, width, names), str(f)) for p in parts)
    return f'<div class="mc-eq">{label}{joined(shown)}</div>'


def where(names: Names, width: float) -> str:
    """Show what the names of parts stand for."""
    rows = [
        f'<div class="mc-eq mc-where">{math(Formula("chain", (_chip(name), part), "="))}</div>'
        for name, part in names.rows(width)
    ]
    return "".join(rows)


def _chip(name: str) -> Formula:
    return Formula("chip", attr=name)


def phrase(f: Formula, width: float = WIDTH - 6) -> str:
    """Return a sentence with its formulas typeset if all of them are narrow, else as code."""
    parts = f.args if f.op == "sentence" else (f,)
    if any(p.op != "words" and typeset(p).width > width for p in parts):
        return code(str(f))
    return "".join(escape(p.attr) if p.op == "words" else math(p) for p in parts)


def details(summary: str, body: str, classes: str = "", is_open: bool = False) -> str:
    """Make something to unfold; both arguments are markup."""
    name = f' class="{classes}"' if classes else ""
    return (
        f"<details{name}{' open' if is_open else ''}><summary>{summary}</summary>{body}</details>"
    )


def section(title: str, body: str, is_open: bool = True) -> str:
    """Return a part of a page, with its title."""
    return details(span("title", title), body, "mc-section", is_open)


def listing(lines: Iterable[tuple[str, int | None]], first: int | None = None) -> str:
    """Return lines of code, each with the number of the term that it computes, if it's known.

    Args:
        lines: text and number.
        first: the number of the first line, where they are to be numbered.
    """
    texts, terms = zip(*lines, strict=True)
    rows = []
    for n, (text, term) in enumerate(zip(coloured(texts), terms, strict=True), first or 1):
        data = "" if term is None else f' class="mc-o{term % HUES}" data-o="{term}"'
        number = f'<i class="mc-no">{n:4}  </i>' if first is not None else ""
        rows.append(f"<span{data}>{number}{text}\n</span>")
    return f'<pre class="mc-listing">{joined(rows)}</pre>'


def verbatim(text: str) -> str:
    """Return text in lines, as a terminal shows it."""
    return f'<pre class="mc-listing mc-verbatim">{escape(text)}</pre>'


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = (), classes: str = "") -> str:
    """Return a table of markup."""
    first = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    top = f"<thead><tr>{first}</tr></thead>" if head else ""
    return f'<table class="mc-table {classes}">{top}<tbody>{body}</tbody></table>'


def picture(svg: str, said: str) -> str:
    """Return a drawing as an image: viewers that remove drawings keep images, and say what's on
    them."""
    data = b64encode(svg.encode()).decode()
    source = f"data:image/svg+xml;base64,{data}"
    return f'<img class="mc-picture" style="max-width:100%" alt="{escape(said)}" src="{source}">'


def inline(svg: str) -> str:
    """Return a drawing as a part of a page, in the page's colours."""
    return f'<div class="mc-drawing">{svg.replace(XMLNS, "", 1)}</div>'


def asset(name: str) -> str:
    return files("monocomp.explorer").joinpath(name).read_text(encoding="utf-8")


def fragment(title: str, body: str, walks: bool = False) -> str:
    """Return a piece of a page that needs nothing beside itself.

    Args:
        title: what it is, for those who can't see it.
        body: markup.
        walks: does the script belong to it?
    """
    script = f"<script>{asset('explorer.js')}</script>" if walks else ""
    return (
        f'<div class="mc" role="group" aria-label="{escape(title)}" '
        f'data-lm-suppress-shortcuts="true"><style>{asset("explorer.css")}</style>'
        f"{body}{script}</div>"
    )


def document(title: str, body: str, kind: str = "") -> str:
    """Return a file of its own around a fragment; one of kind "mc-page" is about that alone."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>"
        f'<style>{asset("page.css")}</style></head><body class="{kind}">{body}</body></html>\n'
    )


def joined(parts: Iterable[str]) -> str:
    """Return markup one after the other."""
    return "".join(parts)
