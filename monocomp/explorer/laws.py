"""The formulas in laws, and in what steps say: read from text, to be typeset.

Laws are written for people, in the notation of the language with a word here and there. What the
grammar can't read stays text.

    formula = name | number | formula operator formula | name(..) | name[..] | name[..](..)
            | formula.field | name_index | |extent| | [condition] | (formula)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from monocomp.display.formulas import ADD, AND, COMPARE, LOOSEST, MUL, NOT, OR, POW, UNARY, Formula


class NotAFormulaError(Exception):
    """The text is something else."""


_TOKEN = re.compile(
    r"\s*(\d+(?:\.\d+)?(?:e-?\d+)?|[A-Za-z]\w*'*|\*\*|//|<=|>=|==|!=|\+=|->|<-|\.\.|[^\s])"
)
_INFIX = {
    "or": OR,
    "and": AND,
    **dict.fromkeys(("=", "+=", "==", "!=", "<", "<=", ">", ">="), COMPARE),
    **dict.fromkeys("+-", ADD),
    **dict.fromkeys(("*", "/", "//", "%", "."), MUL),
    "**": POW,
}
_WORDS = ("or", "and", "not", "if")


def tokens(text: str) -> list[str]:
    """Return the words and signs of a text; a point with a space after it is a sign, else of a
    field."""
    found = []
    for match in _TOKEN.finditer(text):
        token = match[1]
        is_field = token == "." and match.end() < len(text) and not text[match.end()].isspace()
        found.append(".field" if is_field else token)
    return found


def parse(text: str, law: bool = False) -> Formula:
    """Return the formula that a text is.

    Args:
        text: of the language.
        law: may factors stand beside one another, and names have indices, as laws have them?

    Raises:
        NotAFormulaError: it is none.
    """
    parser = _Parser(tokens(text), law)
    found = parser.formula(LOOSEST)
    if parser.next is not None:
        raise NotAFormulaError(text)
    return found


class _Parser:
    def __init__(self, words: list[str], law: bool) -> None:
        self.words = words
        self.law = law
        self.at = 0

    @property
    def next(self) -> str | None:
        return self.words[self.at] if self.at < len(self.words) else None

    def take(self, *expected: str) -> str:
        word = self.next
        if word is None or (expected and word not in expected):
            raise NotAFormulaError(word)
        self.at += 1
        return word

    def takes(self, word: str) -> bool:
        if self.next != word:
            return False
        self.at += 1
        return True

    def formula(self, level: int) -> Formula:
        left = self.prefixed()
        while (found := self.next) is not None:
            strength = _INFIX.get(found)
            if strength is None:
                if not (self.law and level <= MUL and self._begins(found)):
                    break
                left = Formula("infix", (left, self.formula(MUL + 1)), "")
            elif strength < level:
                break
            elif strength == COMPARE:
                left = self.chain(left)
            else:
                self.take()
                right = self.formula(strength if found == "**" else strength + 1)
                left = Formula("infix", (left, right), found)
        return left

    def _begins(self, word: str) -> bool:
        return (word[0].isalpha() and word not in _WORDS) or word in ("(", "[", "|")

    def chain(self, left: Formula) -> Formula:
        signs, sides = [], [left]
        while _INFIX.get(self.next or "") == COMPARE:
            signs.append(self.take())
            sides.append(self.formula(ADD))
        return Formula("chain", tuple(sides), " ".join(signs))

    def prefixed(self) -> Formula:
        if self.takes("-"):
            return Formula("prefix", (self.formula(UNARY),), "-")
        if self.takes("not"):
            return Formula("prefix", (self.formula(NOT),), "not")
        return self.postfixed(self.atom())

    def postfixed(self, formula: Formula) -> Formula:
        while self.takes(".field"):
            formula = Formula("field", (formula,), self.take())
        return formula

    def atom(self) -> Formula:
        word = self.take()
        if word[0].isdigit():
            return Formula("number", attr=word)
        if word == "(":
            found = self.items(")")
            # A term's brackets follow from its form, but for those of a comparison that is a
            # number; a law, of an order say, may speak of them.
            follow = len(found) == 1 and not self.law and found[0].op != "chain"
            return found[0] if follow else Formula("group", found)
        if word == "[":
            return Formula("bracket", self.items("]"))
        if word == "{":
            return Formula("braces", self.items("}"))
        if word == "|":
            name = self.take()
            self.take("|")
            return Formula("extent", attr=name)
        if not word[0].isalpha() or word in _WORDS:
            raise NotAFormulaError(word)
        return self.named(word)

    def named(self, word: str) -> Formula:
        """Read what a name begins: itself, a call, an element or a fold."""
        name, _, below = word.partition("_")
        if self.law and 0 < len(below) <= _INDICES:
            return self.indexed(name, Formula("name", attr=below))
        if self.takes("("):
            return Formula("call", self.items(")"), word)
        if not self.takes("["):
            return Formula("name", attr=word)
        head = self.head()
        if self.takes("("):
            return Formula("fold", (head, *self.items(")")), word)
        if head.op != "head" or head.attr:
            raise NotAFormulaError(word)
        return Formula("read", head.args, word)

    def indexed(self, name: str, index: Formula) -> Formula:
        """Read what a name with an index begins in a law: `sum_k(x)`, `sum_k x` or `x_k`."""
        if self.takes("("):
            head = Formula("head", (index,), "_")
            return Formula("fold", (head, *self.items(")")), name)
        has_operand = self.next is not None and self._begins(self.next)
        if name in ("sum", "prod", "max", "min") and has_operand:
            return Formula("each", (index, self.formula(MUL)), name)
        return Formula("at", (index,), name)

    def head(self) -> Formula:
        """Read what stands in brackets: subscripts, or a fold's indices and its filter."""
        prefix = ".." if self.takes("..") else ""
        found = [self.formula(LOOSEST)]
        while self.takes(","):
            found.append(self.formula(LOOSEST))
        if self.takes("->"):
            found.append(Formula("name", attr=self.take()))
            prefix = "->"
        head = Formula("head", tuple(found), prefix)
        if self.takes("if"):
            head = Formula("if", (head, self.formula(LOOSEST)))
        self.take("]")
        return head

    def items(self, end: str) -> tuple[Formula, ...]:
        if self.takes(end):
            return ()
        found = [self.formula(LOOSEST)]
        while self.takes(","):
            found.append(self.formula(LOOSEST))
        self.take(end)
        return tuple(found)


# Sentences with formulas in them

_KNOWN = ("max", "min", "sum", "inf", "top", "argmax", "argmin", "argtop", "prod")
_INDICES = 3  # letters: with more it's a word of a rule's name
_JOINING = ("for", "where", "with", "if", "is", "in", "and", "or", "not", "because", "as", "else")


def sentence(text: str) -> Iterator[str | Formula]:
    """Yield the words of a law and the formulas between them, in their order."""
    pieces = _pieces(text)
    run = ""
    for n, piece in enumerate(pieces):
        if _is_prose(pieces, n):
            yield from _read(run)
            run = ""
            yield piece
        else:
            run += piece
    yield from _read(run)


def _read(run: str) -> Iterator[str | Formula]:
    bare = run.strip()
    if not bare:
        if run:
            yield run
        return
    before, after = run[: run.index(bare)], run[run.index(bare) + len(bare) :]
    if before:
        yield before
    try:
        yield parse(bare, law=True)
    except NotAFormulaError:
        yield bare
    if after:
        yield after


def _pieces(text: str) -> list[str]:
    """Return words, spaces and signs; what stands in brackets belongs to what is before it."""
    found: list[str] = []
    depth = 0
    for piece in re.findall(r"[A-Za-z]\w*'*|\s+|.", text):
        if depth or piece in "([{":
            depth += (piece in "([{") - (piece in ")]}")
            if depth == 1 and piece in "([{" and not (found and not found[-1].isspace()):
                found.append(piece)
            else:
                found[-1] += piece
        else:
            found.append(piece)
    return found


def _is_prose(pieces: list[str], n: int) -> bool:
    piece = pieces[n]
    if piece in (",", ";", ":"):
        return True
    if piece.isidentifier() and "_" in piece and len(piece.partition("_")[2]) > _INDICES:
        return True
    if not piece.isalpha():
        return False
    if piece == "a" and n + 2 < len(pieces) and pieces[n + 1].isspace():
        return pieces[n + 2] not in _JOINING and _is_prose(pieces, n + 2)
    return len(piece) > 1 and piece.islower() and piece not in _KNOWN
