"""Formulas as MathML, whose letters alone are the formula as text.

A browser sets MathML without a script or a font of ours. Where a viewer removes its tags, as some
do with a notebook that isn't trusted yet, the letters stay: so what only text needs, brackets and
signs, stands in the markup, hidden. `letters` is what is left then.

The width of what is set is estimated along the way: MathML doesn't break lines, so a formula
that is too wide must be known (`fitting`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape, unescape

from monocomp.display.formulas import ADD, ATOM, LOOSEST, MUL, UNARY, Formula

FOLDS = {"sum": "∑", "prod": "∏"}
_LIMITS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
_SIGNS = {"-": "−", "<=": "≤", ">=": "≥", "!=": "≠", "==": "=", ".": "∘", "*": "·"}
_NAMES = {"inf": "∞"}
HUES = 8  # of the numbers of terms
_SCRIPT = 0.72  # the size of a script
_NARROW = 8.0  # ems of a formula that fits any line: a wider one is set smaller on a phone


@dataclass(frozen=True)
class Set:
    """A piece of a typeset formula: its markup, and its approximate width in ems."""

    markup: str
    width: float


def math(f: Formula, label: str = "") -> str:
    """Return a formula as an element; `label` is what readers of screens say."""
    said = f' aria-label="{escape(label)}"' if label else ""
    shown = typeset(f)
    size = f' style="--ems: {shown.width:.0f}"' if shown.width > _NARROW else ""
    return f'<math displaystyle="true"{said}{size}>{shown.markup}</math>'


def letters(markup: str) -> str:
    """Return the text of markup, without its tags."""
    return unescape(re.sub(r"<[^>]*>", "", markup))


def _hidden(text: str) -> Set:
    """Return hidden markup for what only the text needs, of width 0."""
    return Set("", 0) if not text else Set(f"<mi hidden>{escape(text)}</mi>", 0)


def _sign(text: str, wide: bool = True) -> Set:
    shown = _SIGNS.get(text, text)
    if shown.isalpha():
        return Set(f"<mtext>\xa0{shown}\xa0</mtext>", 0.5 * len(shown) + 0.6)
    return Set(f"<mo>{escape(shown)}</mo>", 1.3 if wide else 0.8)


def _fence(text: str) -> Set:
    if text != "|":
        return Set(f"<mo>{text}</mo>", 0.4)
    return Set('<mo form="prefix">|</mo>', 0.3)


def _dot() -> Set:
    return Set('<mo lspace="0" rspace="0">.</mo>', 0.3)


def _comma() -> Set:
    return Set('<mo separator="true">,</mo>', 0.5)


def _name(name: str) -> Set:
    if name.endswith("'"):
        base, count = _name(name.rstrip("'")), len(name) - len(name.rstrip("'"))
        mark = '<mo lspace="0" rspace="0">\'</mo>'  # fonts differ in how high they set a prime
        return _row(base, *[Set(mark, 0.3)] * count)
    stem, _, number = name.rpartition("_")
    if stem and number.isdigit():
        below = _row(_hidden("_"), _number(number))
        return _scripted(_name(stem), below)
    shown = escape(_NAMES.get(name, name))
    upright = ' mathvariant="normal"' if len(name) == 1 and name in "∞" else ""
    return Set(f"<mi{upright}>{shown}</mi>", 0.53 * len(shown) + 0.1)


def _number(digits: str) -> Set:
    return Set(f"<mn>{escape(digits)}</mn>", 0.53 * len(digits))


def _row(*parts: Set) -> Set:
    shown = [p for p in parts if p.markup]
    inner = "".join(p.markup for p in shown)
    markup = inner if len(shown) == 1 else f"<mrow>{inner}</mrow>"
    return Set(markup, sum(p.width for p in shown))


def _joined(items: Sequence[Set], between: Set) -> list[Set]:
    joined: list[Set] = []
    for n, item in enumerate(items):
        joined += [between, item] if n else [item]
    return joined


@lru_cache(maxsize=8192)
def typeset(f: Formula, level: int = 0, script: bool = False, last: bool = True) -> Set:
    """Return a formula for a place that binds with a strength.

    Args:
        f: the formula.
        level: the strength.
        script: is it small? Nothing is stacked then.
        last: does nothing follow that a fold without brackets would seem to take in?
    """
    if f.op == "mark":
        inner = typeset(f.args[0], level, script, last)
        kind, _, data = f.attr.partition(":")
        if data:  # a term by its number
            markup = f'<mrow class="mc-o{int(data) % HUES}" data-o="{data}">{inner.markup}</mrow>'
        else:
            markup = f'<mrow class="mc-{escape(kind)}">{inner.markup}</mrow>'
        return Set(markup, inner.width)
    if f.strength < level:
        return _row(_fence("("), _set(f, script), _fence(")"))
    return _set(f, script, last)


def _set(f: Formula, script: bool, last: bool = True) -> Set:
    match f.op:
        case "name":
            return _name(f.attr)
        case "number":
            return _number(f.attr)
        case "chip":
            return Set(f'<mi class="mc-chip">{escape(f.attr)}</mi>', 1.2)
        case "prefix":
            return _row(_sign(f.attr, False), typeset(f.args[0], f.strength, script, last))
        case "chain":
            least = LOOSEST if f.attr == "=" else ADD
            parts = [typeset(f.args[0], least, script)]
            for sign, side in zip(f.attr.split(), f.args[1:], strict=True):
                parts += [_sign(sign), typeset(side, least, script)]
            return _row(*parts)
        case "infix":
            return _infix(f, script, last)
        case "read":
            return _read(f)
        case "field":
            return _row(typeset(f.args[0], ATOM, script), _dot(), _name(f.attr))
        case "extent":
            return _row(_fence("|"), _name(f.attr), Set('<mo form="postfix">|</mo>', 0.3))
        case "group":
            return _list(f.args, script)
        case "words":
            return _words(f.attr)
        case "sentence" | "list":
            parts = [typeset(a, 0, script) for a in f.args]
            return _row(*_joined(parts, _words(f.attr)))
        case "call":
            return _call(f, script)
        case "fold":
            return _fold(f, script, last)
    raise AssertionError(f.op)


def _list(items: Sequence[Formula], script: bool) -> Set:
    inner = _joined([typeset(a, 0, script) for a in items], _comma())
    return _row(_fence("("), *inner, _fence(")"))


def _words(text: str) -> Set:
    shown = escape(text.replace(" ", "\xa0"))
    return Set(f"<mtext>{shown}</mtext>" if text else "", 0.5 * len(text))


def _space() -> Set:
    return Set('<mspace width="0.17em"/>', 0.17)


def _upright(name: str) -> Set:
    shown = escape(FOLDS.get(name, name))
    if name in FOLDS:
        return Set(f'<mo largeop="true" movablelimits="false">{shown}</mo>', 1.3)
    return Set(f'<mi mathvariant="normal">{shown}</mi>', 0.53 * len(name) + 0.1)


def _scripted(base: Set, below: Set) -> Set:
    return Set(f"<msub>{base.markup}{below.markup}</msub>", base.width + _SCRIPT * below.width)


def _read(f: Formula) -> Set:
    """Plain indices stand close together; the number of a name comes before them."""
    base, _, number = f.attr.rpartition("_")
    first = [_hidden("_"), _number(number), _space()] if base and number.isdigit() else []
    items = [typeset(a, 0, True) for a in f.args]
    close = all(a.op == "name" and len(a.attr) == 1 for a in f.args)
    inner = _joined(items, _hidden(",") if close else _comma())
    below = _row(*first, _hidden("["), *inner, _hidden("]"))
    return _scripted(_name(base if first else f.attr), below)


def _is_tall(f: Formula) -> bool:
    """True if a formula would be hard to read as a script."""
    if f.op == "fold" or (f.op == "infix" and f.attr == "/"):
        return True
    return (f.op == "call" and f.attr != "exp") or any(map(_is_tall, f.args))


def _infix(f: Formula, script: bool, last: bool) -> Set:
    left, right = f.args
    if f.attr in ("/", "**") and not script:  # what is stacked needs no brackets
        right = _bare(right)
        left = _bare(left) if f.attr == "/" else left
    match f.attr:
        case "/" if not script:
            over, under = typeset(left, 0, script), typeset(right, 0, script)
            top = [_hidden("("), over, _hidden(")")] if left.strength < MUL else [over]
            low = [_hidden("("), under, _hidden(")")] if right.strength <= MUL else [under]
            above, beneath = _row(*top, _hidden(" / ")), _row(*low)
            width = max(over.width, under.width) + 0.3
            return Set(f"<mfrac>{above.markup}{beneath.markup}</mfrac>", width)
        case "**":
            base = typeset(left, ATOM, script, False)
            over = typeset(right, 0, True)
            brackets = right.strength < UNARY or right.op == "infix"
            inner = [_hidden("("), over, _hidden(")")] if brackets else [over]
            above = _row(_hidden(" ** "), *inner)
            return Set(
                f"<msup>{base.markup}{above.markup}</msup>", base.width + _SCRIPT * over.width
            )
        case "*":
            parts = [typeset(left, MUL, script, False), *_times(left, right)]
            return _row(*parts, typeset(right, MUL + 1, script, last))
    level = f.strength
    sides = typeset(left, level, script, False), typeset(right, level + 1, script, last)
    return _row(sides[0], _sign(f.attr), sides[1])


def _bare(f: Formula) -> Formula:
    return f.args[0] if f.op == "group" and len(f.args) == 1 else f


def _times(left: Formula, right: Formula) -> list[Set]:
    """A thin space says that factors are multiplied, a point where they'd be misread."""
    if _begins_with_number(right) or _ends_with_name(left):
        return [_sign("*", False)]
    return [_hidden(" * "), _space()]


def _begins_with_number(f: Formula) -> bool:
    if f.op in ("infix", "mark", "chain") and f.attr != "/":
        return _begins_with_number(f.args[0])
    return f.op == "number"


def _ends_with_name(f: Formula) -> bool:
    """A name before a bracket would be read as a function."""
    if f.op in ("infix", "mark", "prefix") and f.attr != "/":
        return _ends_with_name(f.args[-1])
    return f.op == "name" and len(f.attr) > 1


def _call(f: Formula, script: bool) -> Set:
    if f.attr == "sqrt" and len(f.args) == 1 and not script:
        inner = typeset(f.args[0], 0, script)
        row = _row(_hidden("sqrt("), inner, _hidden(")"))
        return Set(f"<msqrt>{row.markup}</msqrt>", inner.width + 0.9)
    if f.attr == "exp" and len(f.args) == 1 and not script and not _is_tall(f.args[0]):
        over = typeset(f.args[0], 0, True)
        above = _row(_hidden("^("), over, _hidden(")"))
        return Set(f"<msup><mi>e</mi>{above.markup}</msup>", 0.5 + _SCRIPT * over.width)
    name = _upright(f.attr) if len(f.attr) > 1 else _name(f.attr)
    return _row(name, _list(f.args, script))


def _over(name: str, below: Set, script: bool) -> Set:
    base = _upright(name)
    if name not in _LIMITS or script:
        return _scripted(base, below)
    width = max(base.width, _SCRIPT * below.width)
    return Set(f"<munder>{base.markup}{below.markup}</munder>", width)


def _fold(f: Formula, script: bool, last: bool) -> Set:
    head, *operands = f.args
    below = _row(_hidden("["), _head(head), _hidden("]"))
    name = _over(f.attr, below, script)
    is_clear = last and len(operands) == 1 and operands[0].strength >= MUL
    if f.attr in _LIMITS and is_clear:
        inner = typeset(operands[0], 0, script)
        return _row(name, _hidden("("), _space(), inner, _hidden(")"))
    return _row(name, _list(operands, script))


def _head(head: Formula) -> Set:
    if head.op == "if":
        inner, condition = head.args
        return _row(_head(inner), _sign("if"), typeset(condition, 0, True))
    items = [typeset(a, 0, True) for a in head.args]
    if head.attr == "->":
        return _row(items[0], Set("<mo>→</mo>", 1), items[1])
    first = [Set("<mo>..</mo>", 0.5)] if head.attr == ".." else []
    return _row(*first, *_joined(items, _comma()))
