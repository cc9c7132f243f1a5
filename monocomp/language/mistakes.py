# ruff: noqa: RUF001 (characters that look like operators are what this is about)
"""Say what is wrong with a text that is no program, in the words of a reader.

Two parts. A linear scan before the parser finds texts that are too large and brackets that
do not match. `explain` turns the place where the parser stopped into a message: it looks
at the words around the place, recognises the mistakes that people make (a product without
`*`, indices without commas, `=` for `==`), and else lists what could have stood there.
The names that the grammar gives to its tokens never reach a message.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from monocomp.declarations.record import record
from monocomp.declarations.vocabulary import FUNCTIONS, KEYWORDS
from monocomp.errors import LimitError, MonocompError, ParseError, Span, nearest

MAX_BYTES = 64 * 1024
MAX_BRACKETS = 64
_CLOSES = {")": "(", "]": "["}
# The meaning here of signs of other notations.
SPELLINGS = {"=<": "<=", "=>": ">=", "<>": "!=", "&": "and", "&&": "and", "|": "or", "||": "or"}
SPELLINGS |= {"!": "not", "~": "not", "^": "**", "≤": "<=", "≥": ">=", "≠": "!=", "→": "->"}
SPELLINGS |= {"×": "*", "·": "*", "⋅": "*", "∗": "*", "−": "-", "–": "-", "∧": "and", "∨": "or"}
SPELLINGS |= {"÷": "/", "¬": "not", "∞": "inf", "∑": "sum", "Σ": "sum"}

_FORMS = {
    "input": "input Q[b,q,d], mask[q,k]: bool",
    "param": "param window: int = 1024, cap: float",
    "index": "index k < |n| * |s|",
    "def": "def f(x, c) = c * tanh(x / c)",
    "monoid": "monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')",
    "return": "return O, L: float32",
}

_INSTEAD = {
    **SPELLINGS,
    **dict.fromkeys("∑Σ", "sum[k](x)"),
    **dict.fromkeys("′’", "'"),
    "√": "sqrt(x)",
    "²": "** 2",
    "³": "** 3",
}
_ADVICE = {
    "!": "a condition is negated by not; 'is not equal to' is !=",
    "@": "products are written with their indices: A[i,k] * B[k,j]",
    "?": "a choice is where(condition, a, b)",
    "{": "brackets are ( ) and [ ]",
    "}": "brackets are ( ) and [ ]",
    "'": "a primed name, such as a', is one word",
    "\\": "LaTeX is not read: sum[k](A[i,k]); a line inside brackets goes on by itself",
    "∈": "which elements are taken is a condition: sum[k if k <= q](x)",
    "\u00a0": "replace the no-break space by a plain one",
}
# A line that ends in one of these goes on.
CONTINUING = frozenset(
    [*"+-*/%<>=,", "//", "**", "<=", ">=", "==", "!=", "->", "and", "or", "not", "if"]
)


# Before the parser


def check_size(text: str) -> None:
    """Refuse a text that is too long, or whose brackets are too deep or do not match."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise LimitError(f"a program has at most {MAX_BYTES} bytes, and this one has {size}")
    opened: list[re.Match[str]] = []
    for match in re.finditer(r"#[^\n]*|\.{3,}|\bNone\b|[()\[\]]", text):
        mark, place = match[0], Span(*match.span())
        if mark == "None" and opened and opened[-1][0] == "[":
            raise ParseError(
                "'None' makes no dimension: a tensor has the indices that it is read with",
                spans=place,
                help="leave it out: x[i] * y[j] has both indices",
            )
        if mark.startswith("."):
            raise ParseError(
                f"'{mark}' stands for no indices: each dimension has an index of its own",
                spans=place,
                help="name them, O[b,h,q] = A[b,h,q]; a prefix has two points, sum[..k](x)",
            )
        if mark in "([":
            opened.append(match)
            if len(opened) > MAX_BRACKETS:
                raise LimitError(
                    f"brackets are nested more than {MAX_BRACKETS} deep",
                    spans=place,
                    help="split the expression into several definitions",
                )
        elif mark in _CLOSES:
            _check_closing(mark, place, opened.pop() if opened else None)
    if opened:
        mark = opened[-1][0]
        raise ParseError(
            f"'{mark}' is never closed",
            spans=Span(*opened[-1].span()),
            help=f"add '{_closing(mark)}' where its contents end",
        )


def _check_closing(mark: str, place: Span, opened: re.Match[str] | None) -> None:
    if opened is None:
        raise ParseError(
            f"'{mark}' closes nothing",
            spans=place,
            help=f"remove it, or add '{_CLOSES[mark]}' before it",
        )
    if opened[0] != _CLOSES[mark]:
        raise ParseError(
            f"'{mark}' does not close '{opened[0]}'",
            spans=(place, Span(*opened.span())),
            help=f"'{opened[0]}' is closed by '{_closing(opened[0])}'",
        )


def _closing(mark: str) -> str:
    return ")" if mark == "(" else "]"


# Words


@record()
class _Word:
    """A word, number or mark of the text; the end of a line and of the text are words too."""

    text: str
    span: Span

    @property
    def is_name(self) -> bool:
        return self.text[:1].isalpha() or self.text[:1] == "_"

    @property
    def is_operand(self) -> bool:
        """True if a value or name can start here, and end here unless it is a bracket."""
        return self.text not in KEYWORDS - {"inf"} and (self.is_name or self.text[:1].isdigit())

    @property
    def shown(self) -> str:
        if not self.text:
            return "the end of the program"
        return "the end of the line" if self.text == "\n" else f"'{self.text}'"


_WORDS = re.compile(
    r"#[^\n]*|[A-Za-z_][A-Za-z0-9_]*'?|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|\*\*|//|<=|>=|==|!=|->|\.\.|\n|[^\s]"
)


class _Place:
    """The words around the place where the parser stopped."""

    def __init__(self, text: str, offset: int) -> None:
        self.text = text
        words = (match for match in _WORDS.finditer(text) if not match[0].startswith("#"))
        self.words = [_Word(match[0], Span(*match.span())) for match in words]
        self.at = next(
            (n for n, word in enumerate(self.words) if word.span.stop > offset), len(self.words)
        )
        before = [word for word in self.words[: self.at] if word.text != "\n"]
        self.before = before[-1] if before else None
        stop = self.words[-1].span.stop if self.words else 0
        self.word = (
            self.words[self.at] if self.at < len(self.words) else _Word("", Span(stop, stop))
        )
        self.statement, self.opened = self._statement()

    def _statement(self) -> tuple[list[_Word], list[tuple[str, _Word | None]]]:
        """Return the words of this statement so far, and its open brackets with the word before
        each."""
        words: list[_Word] = []
        opened: list[tuple[str, _Word | None]] = []
        for word in self.words[: self.at]:
            goes_on = opened or (words and words[-1].text in CONTINUING)
            if word.text == ";" or (word.text == "\n" and not goes_on):
                words = []
            if word.text in ";\n":
                continue
            if word.text in ("(", "["):
                opened.append((word.text, words[-1] if words else None))
            elif word.text in _CLOSES and opened:
                opened.pop()
            words.append(word)
        return words, opened

    @property
    def keyword(self) -> str:
        """Return the word that the statement starts with."""
        return self.statement[0].text if self.statement else ""

    @property
    def following(self) -> str:
        """Return the word after the place."""
        return self.words[self.at + 1].text if self.at + 1 < len(self.words) else ""


# After the parser has stopped


def unknown_character(text: str, offset: int) -> MonocompError:
    """Return a character that no word of the language starts with."""
    character = text[offset]
    is_letter = character.isalnum() or unicodedata.category(character)[0] in "LMN"
    if is_letter and character not in _INSTEAD:
        start, stop = offset, offset
        while start > 0 and re.match(r"\w", text[start - 1]):
            start -= 1
        while stop < len(text) and re.match(r"\w", text[stop]):
            stop += 1
        stop = max(stop, offset + 1)
        near = _spelled(text[start:stop])
        return ParseError(
            "names are made of ASCII letters, digits and underscores",
            spans=Span(start, stop),
            notes=(f"found {character!a} ({unicodedata.name(character, 'unnamed')})",),
            help=f"write {near}" if near else None,
        )
    if character in "'\"" and (
        string := re.match(rf"{character}[^\n]*?{character}", text[offset:])
    ):
        place = Span(offset, offset + string.end())
        return ParseError("there are no strings", spans=place, help="names stand without quotes")
    shown = f"'{character}'" if character.isprintable() else ascii(character)
    help = _ADVICE.get(character)
    if character in _INSTEAD:
        help = f"write {_INSTEAD[character]}"
    place = Span(offset, offset + 1)
    return ParseError(f"{shown} has no meaning here", spans=place, help=help)


def _spelled(word: str) -> str | None:
    """Return an ASCII spelling of a short word: Greek letters by name, accents dropped."""
    parts = []
    for character in word[:64]:
        name = unicodedata.name(character, "")
        if name.startswith("GREEK") and " LETTER " in name:
            parts.append(name.rpartition(" ")[2].lower())
        else:
            parts.append(
                unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
            )
    spelled = "".join(parts)
    return spelled if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", spelled) else None


def explain(text: str, offset: int, expected: Mapping[str, str]) -> MonocompError:
    """Return the error for a word that cannot stand where it stands.

    Args:
        text: the program.
        offset: where the parser stopped.
        expected: the tokens that could have stood there, by name, with what to call them.
    """
    place = _Place(text, offset)
    if advice := _unknown_statement(place):
        return ParseError(advice[0], spans=place.statement[0].span, help=advice[1])
    message, help = (
        _misplaced(place, expected)
        or _missing_between(place, expected)
        or _missing_value(place, expected)
        or _general(place, expected)
    )
    return ParseError(message, spans=place.word.span, help=help)


_Advice = tuple[str, str | None]


def _unknown_statement(place: _Place) -> _Advice | None:
    """`let x = 1`: two words where a statement starts."""
    first = place.statement
    if len(first) != 1 or not first[0].is_name or not place.word.is_name:
        return None
    word = first[0].text
    if word in KEYWORDS or place.word.text in KEYWORDS:
        return None
    near = nearest(word, _FORMS)
    known = ", ".join(_FORMS)
    return (
        f"no statement starts with '{word} {place.word.text}'",
        f"did you mean '{near}'? {_FORMS[near]}"
        if near
        else f"a definition reads NAME[...] = ...; other statements start with {known}",
    )


def _missing_between(place: _Place, expected: Mapping[str, str]) -> _Advice | None:
    """Two operands side by side: a product without `*`, or a list without commas."""
    before, word = place.before, place.word
    if before is None or "STAR" not in expected:
        return None
    ends = before.is_operand or before.text in (")", "]", "|")
    if not ends or not (word.is_operand or word.text == "("):
        return None
    if place.opened and place.opened[-1][0] == "[":
        return (
            f"expected ',' between '{before.text}' and '{word.text}'",
            "commas stand between indices: A[i,j]",
        )
    comma = "',', " if _takes_several(place.opened) else ""
    return (
        f"expected {comma}'*' or another operator before '{word.text}'",
        "products are written out: a * b",
    )


def _takes_several(opened: list[tuple[str, _Word | None]]) -> bool:
    """True if the innermost parenthesis belongs to a function of several arguments."""
    function = opened[-1][1] if opened else None
    return function is not None and function.is_operand and FUNCTIONS.get(function.text) != 1


def _misplaced(place: _Place, expected: Mapping[str, str]) -> _Advice | None:
    """Return a word that means something elsewhere, or in another language."""
    word, is_value = place.word.text, "NUMBER" in expected
    inside = place.opened[-1][0] if place.opened else ""
    before = place.before.text if place.before else ""
    if (mark := word + place.following) in ("=<", "=>") or (mark := before + word) in ("+=", "<>"):
        return f"'{mark}' is no operator", None
    called = place.opened[-1][1] if place.opened else None
    if word == "=" and inside == "(" and called is not None and called.text != "where":
        help = "an argument of a function has no default" if place.keyword == "def" else None
        return f"'{before}=' names an argument, and arguments have no names", help
    if word == "(" and len(place.statement) > 1 and place.statement[-2].text == ".":
        return f"'.{before}(...)' has no meaning: there are no methods", (
            "functions are exp(x), reductions sum[k](x), matrix products A[i,k] * B[k,j]"
        )
    if word == "where":
        return "'where' is a function of three values, and no filter", (
            "a filter stands in brackets, sum[k if k < 3](x); a choice is where(condition, a, b)"
        )
    if word == "=" and (place.opened or place.keyword not in _FORMS):
        return "'=' stands inside an expression", "equality is ==; one definition per statement"
    if word == "if" and inside != "[":
        return "'if' belongs in the brackets of a reduction", "a choice is where(condition, a, b)"
    if word == ":" and place.following == "=":
        return "':=' has no meaning here", "a definition is NAME[...] = ..."
    if word == ":" and inside == "[":
        return "':' has no meaning in brackets; there are no slices", (
            "choose elements with a filter, sum[k if k < 3](x), or a subscript, A[k + 1]"
        )
    if word in ("->", "..") and not is_value:
        return f"{place.word.shown} cannot stand here", (
            "a new index stands before the filter, top[k -> r if k < 3](x)"
            if word == "->"
            else "a prefix is marked before its index, sum[..k](x)"
        )
    if word == "+" and is_value and place.statement:
        return "a plus sign in front of a value means nothing", "remove it"
    if word in ("[", "(", ".") and "VBAR" in expected:
        return "'|...|' takes the name of an index", "|k| is its extent; abs(x) the absolute value"
    if word in ("[", "(") and place.keyword == "return":
        return "'return' names definitions without brackets", f"write {_FORMS['return']}"
    return None


def _missing_value(place: _Place, expected: Mapping[str, str]) -> _Advice | None:
    """Return an operator or bracket where a value should stand."""
    if "NUMBER" not in expected:
        return None
    before, word = place.before, place.word.text
    if before is not None and before.text in ("(", "[") and word in _CLOSES:
        help = "an index or a value stands in them"
        if before.text == "[" and place.keyword not in _FORMS:
            help = "a scalar has no brackets; a reduction names its index: sum[k](x)"
        return "the brackets are empty", help
    if before is None or not place.statement:
        help = "a definition reads NAME[...] = ..."
        if before is not None and word in CONTINUING:
            help = f"a line goes on when it ends in an operator: move '{word}' up"
        return f"a statement cannot start with {place.word.shown}", help
    if word in KEYWORDS:
        return f"'{word}' is a word of the language and no value", None
    return f"expected a value after '{before.text}', before {place.word.shown}", None


def _general(place: _Place, expected: Mapping[str, str]) -> _Advice:
    """Say what could have stood at a place."""
    form = _FORMS.get(place.keyword)
    help = f"the form is {form}" if form else None
    if place.keyword not in _FORMS and place.opened:
        help = f"'{place.opened[-1][0]}' is still open"
    names = list(expected.values())
    if "STAR" in expected:
        marks = {*"+-*/%.([", "//", "**", "and", "or"}
        names = [name for name in names if name.strip("'") not in marks]
        names = [name for name in names if name != "a comparison"] + ["an operator"]
    ordered = sorted(dict.fromkeys(names), key=lambda name: (not name.startswith("'"), name))
    if not ordered or len(ordered) > 6:
        return f"{place.word.shown} cannot stand here", help
    *most, last = ordered
    listed = f"{', '.join(most)} or {last}" if most else last
    return f"expected {listed} before {place.word.shown}", help
