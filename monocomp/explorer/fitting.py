"""Formulas that fit a line: parts of one that doesn't are named, and said below it.

MathML doesn't break lines. Instead of breaking them, parts that don't change get numbers in
circles, as jaxprs name what is shared; a part has the same number before a step and after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from monocomp.display.formulas import Formula
from monocomp.explorer.mathml import typeset

_NUMBERS = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳"
_LEAST = 5.0  # ems: what is narrower is no easier to read as a number


@dataclass
class Names:
    """The parts that have got names, in the order of these."""

    parts: dict[Formula, str] = field(default_factory=dict)

    def of(self, part: Formula) -> str:
        """Return the name of a part."""
        number = len(self.parts)
        fresh = _NUMBERS[number] if number < len(_NUMBERS) else f"({number + 1})"
        return self.parts.setdefault(part, fresh)

    def rows(self, width: float) -> Iterator[tuple[str, Formula]]:
        """Yield the names with what they stand for, each as wide as a line at most."""
        done = 0
        while done < len(self.parts):
            part, name = list(self.parts.items())[done]
            done += 1
            yield name, fit(part, width - 2, self)


def fit(f: Formula, width: float, names: Names) -> Formula:
    """Return a formula as wide as a line at most, if parts of it can be named."""
    known = {
        part: Formula("chip", attr=name) for part, name in names.parts.items() if part is not f
    }
    f = _replaced(f, known)
    while typeset(f).width > width:
        part = _to_name(f, width)
        if part is None:
            break
        f = _replaced(f, {part: Formula("chip", attr=names.of(part))})
    return f


def _to_name(f: Formula, width: float) -> Formula | None:
    """Return the widest part without a mark that fits a line; else the widest with none; else
    within."""
    widths = [(typeset(p).width, p) for p in _parts(f, f)]
    fitting = [x for x in widths if _LEAST < x[0] <= width and not _is_marked(x[1])]
    unmarked = [x for x in widths if x[0] > _LEAST and not _is_marked(x[1])]
    inside = [x for x in widths if x[0] > _LEAST and x[1].op != "mark"]
    for some in (fitting, unmarked, inside):
        if some:
            return max(some, key=lambda x: x[0])[1]
    return None


def _parts(f: Formula, root: Formula) -> Iterator[Formula]:
    """Yield the parts of a formula that may stand as operands of their own."""
    if f is not root and f.op not in ("head", "if", "chip", "name", "number", "read"):
        is_left_side = root.op == "chain" and f is root.args[0]
        if not is_left_side:
            yield f
    for a in f.args:
        yield from _parts(a, root)


@lru_cache(maxsize=8192)
def _is_marked(f: Formula) -> bool:
    return (f.op == "mark" and f.attr in ("was", "now")) or any(map(_is_marked, f.args))


def _replaced(f: Formula, by: Mapping[Formula, Formula]) -> Formula:
    name = by.get(f)
    if name is not None or not by or not f.args:
        return name or f
    return Formula(f.op, tuple([_replaced(a, by) for a in f.args]), f.attr)
