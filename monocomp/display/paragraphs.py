"""Formulas and sentences as lines of a terminal."""

from __future__ import annotations

import re
import textwrap

WIDTH = 100
LABEL = 12  # columns before the text of a step's rows
_GLUE = "\0"  # stands for a space where a line must not break


def wrap_formula(text: str, first: str, rest: str) -> str:
    """Return a formula over several lines, broken before operators and not inside brackets."""
    glued, depth = [], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        glued.append(_GLUE if character == " " and depth > 0 else character)
    whole = re.sub(r" ([-+*/%=<>!]{1,2}|and|or|if) ", rf" \1{_GLUE}", "".join(glued))
    lines = textwrap.wrap(
        whole,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return "\n".join(lines).replace(_GLUE, " ")


def row(label: str, text: str) -> str:
    """Return a formula beside what it is."""
    return wrap_formula(text, "    " + label.ljust(LABEL - 4), " " * (LABEL + 4))


def heading(text: str) -> list[str]:
    """Wrap the heading of rows into lines."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=" " * LABEL, break_on_hyphens=False)
