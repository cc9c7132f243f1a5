"""A derivation for readers: the steps from a program to its kernel, as text, HTML and JSON.

The rewriter records what it does; this module only shows it. A derivation prints in a
terminal, renders itself in Jupyter, and gives a short outline for the header of an emitted
file. Each step holds the whole program after it, as text of the language, so whoever doubts
one can evaluate it.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import overload

from monocomp.program import Equations
from monocomp.rewriting import Rewriter, Step

WIDTH = 100
_OPEN = 12  # derivations of at most so many steps are unfolded in HTML


@dataclass(frozen=True, repr=False)
class Derivation:
    """The steps from a program to its normal form, a sequence of `Step`.

    Attributes:
        start: the program before the first step.
        steps: what was done, in order.
    """

    start: Equations
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, rewriter: Rewriter) -> Derivation:
        """What a rewriter has recorded so far."""
        return cls(rewriter.start, tuple(rewriter.steps))

    def then(self, steps: Iterable[Step]) -> Derivation:
        """The same derivation with more steps at its end."""
        return Derivation(self.start, (*self.steps, *steps))

    def first(self, count: int) -> Derivation:
        """The first steps only."""
        return Derivation(self.start, self.steps[:count])

    @property
    def result(self) -> Equations:
        """The program after the last step."""
        return self.steps[-1].program if self.steps else self.start

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    @overload
    def __getitem__(self, number: int) -> Step: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Step, ...]: ...
    def __getitem__(self, number: int | slice) -> Step | tuple[Step, ...]:
        return self.steps[number]

    @property
    def title(self) -> str:
        """What is derived, and in how many steps."""
        outputs = ", ".join(output.name for output in self.start.source.outputs)
        count = len(self.steps)
        return f"Derivation of {outputs} in {count} step{'' if count == 1 else 's'}"

    def __str__(self) -> str:
        parts = [self.title, _program_text(self.start)]
        parts += [_step_text(number, step) for number, step in enumerate(self.steps, 1)]
        if self.steps:
            parts += ["Result", _program_text(self.result)]
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return f"<{self.title}; print it to see them>"

    def outline(self) -> list[str]:
        """One line for each step, rule and law; a rule that is applied repeatedly is counted."""
        lines = []
        for (rule, law), group in groupby(self.steps, key=lambda step: (step.rule, step.law)):
            count = len(list(group))
            times = f" ({count} times)" if count > 1 else ""
            lines.append(f"{rule}{times}: {law}" if law else f"{rule}{times}")
        return lines

    def to_json(self) -> str:
        """Everything, as JSON; programs are texts of the language."""
        steps = [
            {
                "number": number,
                "rule": step.rule,
                "law": step.law,
                "place": list(step.place),
                "before": step.before,
                "after": step.after,
                "program": step.program.text(),
            }
            for number, step in enumerate(self.steps, 1)
        ]
        whole = {"start": self.start.text(), "steps": steps, "result": self.result.text()}
        return json.dumps(whole, indent=2)

    def _repr_html_(self) -> str:
        unfolded = len(self.steps) <= _OPEN
        parts = [f"<p><b>{escape(self.title)}</b></p>", _program_html(self.start)]
        parts += [_step_html(number, step, unfolded) for number, step in enumerate(self.steps, 1)]
        if self.steps:
            parts += ["<p><b>Result</b></p>", _program_html(self.result)]
        return f'<div style="text-align: left; max-width: 75em">{"".join(parts)}</div>'


# Text

_LABEL = 12  # columns before the text of a step's rows
_GLUE = "\0"  # stands for a space where a line must not break


def wrap_formula(text: str, first: str, rest: str, width: int = WIDTH) -> str:
    """A formula over several lines, broken before operators and not inside brackets."""
    glued, depth = [], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        glued.append(_GLUE if character == " " and depth > 0 else character)
    whole = re.sub(r" ([-+*/%=<>!]{1,2}|and|or|if) ", rf" \1{_GLUE}", "".join(glued))
    lines = textwrap.wrap(
        whole,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return "\n".join(lines).replace(_GLUE, " ")


def _program_text(program: Equations) -> str:
    return "\n".join(wrap_formula(line, "    ", "        ") for line in program.readable_lines())


def _step_text(number: int, step: Step) -> str:
    head = f"{number:2}. {step.rule}"
    if step.place:
        head += ", in " + ", ".join(step.place)
    lines = textwrap.wrap(head, WIDTH, subsequent_indent=" " * _LABEL, break_on_hyphens=False)
    for label, text in (("law", step.law), ("before", step.before), ("after", step.after)):
        if text:
            first = "    " + label.ljust(_LABEL - 4)
            lines.append(wrap_formula(text, first, " " * (_LABEL + 4)))
    return "\n".join(lines)


# HTML: colours and fonts are inherited, so that it reads on light and on dark pages

_CODE = "white-space: pre-wrap; overflow-wrap: anywhere; background: none; color: inherit"
_CELL = "text-align: left; vertical-align: top; padding: 0.1em 1em 0.1em 0"
_BOX = "margin: 0.3em 0; padding: 0.2em 0.6em; border-left: 3px solid rgba(128, 128, 128, 0.5)"


def _code(text: str) -> str:
    return f'<code style="{_CODE}">{escape(text)}</code>'


def _program_html(program: Equations) -> str:
    return f'<div style="{_BOX}">{"<br>".join(map(_code, program.readable_lines()))}</div>'


def _step_html(number: int, step: Step, unfolded: bool) -> str:
    place = f" in {_code(', '.join(step.place))}" if step.place else ""
    law = f": {escape(step.law)}" if step.law else ""
    rows = "".join(
        f'<tr><th style="{_CELL}">{label}</th><td style="{_CELL}">{_code(text)}</td></tr>'
        for label, text in (("before", step.before), ("after", step.after))
    )
    return (
        f'<details style="{_BOX}"{" open" if unfolded else ""}>'
        f"<summary>{number}. <b>{escape(step.rule)}</b>{place}{law}</summary>"
        f'<table style="background: none; color: inherit">{rows}</table></details>'
    )
