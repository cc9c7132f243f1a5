"""Read a statement as torch, einops, NumPy, C or LaTeX users write it.

The reader takes more than any of these languages: whatever brackets, commas, keyword arguments,
attributes, slices, strings, conditions and operators it meets become one tree. It says nothing
about names, and `rewording` makes a statement of this language of the tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from monocomp.declarations.vocabulary import ALL_REDUCTIONS, FUNCTIONS
from monocomp.display.formulas import MUL, NOT, UNARY
from monocomp.language.mistakes import SPELLINGS
from monocomp.language.notation import (
    COMPARISONS,
    LEVELS,
    Attribute,
    Binary,
    Bracketed,
    Choice,
    Extent,
    Filtered,
    Listed,
    Reduced,
    Slice,
    Text,
    Tree,
    Unary,
    Word,
    head_of,
    names_in,
    walk,
)


class NotReadable(Exception):
    """The text is no statement that the reader knows."""


_TOKENS = re.compile(
    r"\s+|#.*|(?P<text>'[^'\n]*'|\"[^\"\n]*\")"
    r"|(?P<number>(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>\\?[^\W\d]\w*)"
    r"|(?P<mark>\*\*|//|[=!]==|[<>]==|[/~]=|=!|<=|>=|==|!=|->|\.\.|:=|=<|=>|<>|<-|\+=|&&|\|\||\S)"
)
_OPEN, _CLOSE = "([{", ")]}"
# Operators of other languages, beside the signs of `SPELLINGS`.
_OPERATORS = {
    **{"===": "==", "!==": "!=", "=!": "!=", "/=": "!=", "~=": "!=", "<==": "<=", ">==": ">="},
    **{"is": "==", "AND": "and", "OR": "or", "NOT": "not"},
    **{"\\le": "<=", "\\leq": "<=", "\\ge": ">=", "\\geq": ">=", "\\ne": "!=", "\\neq": "!="},
    **{"\\cdot": "*", "\\times": "*", "\\land": "and", "\\lor": "or", "\\lnot": "not"},
}
_FILTERING = ("if", "where", "when", "with")
_WORDS = {*_FILTERING, "else", "for", "over", "in", "and", "or", "not", "is", "AND", "OR", "NOT"}
_SPELLED_OUT = (
    (r"\bsuch\s+that\b|\bs\.\s?t\.", "where"),
    ("[∑Σ]", "sum"),
    ("∈", " in "),
    ("²", "**2"),
    ("³", "**3"),
    ("√", r"\\sqrt "),
    (r"_\{\s*(\w+)\s*=\s*1\s*\}\s*\^", r"_{\1=0}^"),  # positions begin with 0
    (r"_\{\s*(\w+)\s*=\s*(\w+)\s*\}\s*\^\s*\{?\s*(\w+)\s*\}?", r"[\1=\2..\3]"),
)
# LaTeX's marks without a meaning; then its spellings.
_LATEX = (
    (r"\\(left|right|displaystyle|quad|[,;:! ])", " "),
    (r"\\(?:mathrm|mathbf|mathit|mathcal|text|operatorname)\s*\{\s*(\w+)\s*\}", r"\1"),
    (r"\\infty\b", "inf"),
    (r"\^\s*(?:\\top\b|\{\s*(?:T|\\top|\\intercal)\s*\})", "^T"),
    (r"\be\s*\^\s*\{", r"exp{"),
)
_LATEX_INDICES = re.compile(r"(?<![\\\w])([A-Za-z]+)_(?:\{([\w\s,]+)\}|([A-Za-z0-9]))(?!\w)")
MAX_WORDS = 400
ASSIGNING = ("=", ":=", "<-", "==", "+=")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKENS.finditer(text):
        if match.lastgroup is not None:
            word = match[match.lastgroup]
            if word in _OPERATORS:
                yield _Token("mark", _OPERATORS[word])
            elif word[:1] == "\\" and word != "\\frac" and not is_head(word[1:].rstrip("_")):
                raise NotReadable
            else:
                yield _Token(match.lastgroup, word.removeprefix("\\"))


@dataclass(frozen=True)
class Definition:
    """A left side, and what it is defined as, or what `+=` adds to it."""

    left: Tree
    body: Tree
    is_added: bool = False


def read(text: str) -> Definition:
    """Return the definition that a text holds.

    Raises:
        NotReadable: there is none.
    """
    for pattern, word in _SPELLED_OUT:
        text = re.sub(pattern, word, text)
    tokens = list(_tokens(_without_latex(text)))
    if len(tokens) > MAX_WORDS:
        raise NotReadable
    reader = _Reader(tokens, "\n" in text.strip())
    left = reader.postfix()
    reader.skip(",")
    if reader.word == ":" and reader.peek(2) == "=":  # an annotation
        reader.number += 2
    if reader.word not in ASSIGNING:
        raise NotReadable
    is_added = reader.next() == "+="
    body = reader.expression()
    reader.skip(*_CLOSE, ";", ",", ".")
    if reader.word and reader.peek(-1) == ",":  # max[k](A[q,k]), k <= q
        condition = reader.binary(1)
        if not is_condition(condition):
            raise NotReadable
        body = Filtered(body, condition)
    if reader.word:
        raise NotReadable
    return Definition(left, body, is_added)


def _without_latex(text: str) -> str:
    """Return a text with the subscripts of LaTeX in brackets, where it is in LaTeX."""
    if not re.search(r"\\|_\{", text):
        return text
    for pattern, word in _LATEX:
        text = re.sub(pattern, word, text)
    return _LATEX_INDICES.sub(_with_brackets, text)


def _with_brackets(match: re.Match[str]) -> str:
    """Return `A[i,k]` for `A_{ik}`; `sum_j` names what a reduction binds."""
    name, several, one = match.groups()
    if is_head(name):
        return match[0]
    names = re.split(r"[\s,]+", several.strip()) if several else [one]
    letters = names[0] if len(names) == 1 and names[0].isalpha() else names
    return f"{name}[{','.join(letters)}]"


class _Reader:
    """Reads expressions by precedence.

    Args:
        tokens: the words.
        goes_on: True if they are of several lines, where = may begin the next definition.
    """

    def __init__(self, tokens: list[_Token], goes_on: bool) -> None:
        self.tokens = tokens
        self.goes_on = goes_on
        self.number = 0
        self.opened = ""  # the brackets that are open, the innermost last

    @property
    def word(self) -> str:
        return self.peek(0)

    @property
    def kind(self) -> str:
        return self.tokens[self.number].kind if self.number < len(self.tokens) else ""

    def peek(self, ahead: int) -> str:
        at = self.number + ahead
        return self.tokens[at].text if at < len(self.tokens) else ""

    def next(self) -> str:
        word = self.word
        self.number += 1
        return word

    def accept(self, *words: str) -> bool:
        if self.word in words and self.kind != "text" and self.word:
            self.number += 1
            return True
        return False

    def skip(self, *words: str) -> None:
        while self.accept(*words):
            pass

    def expression(self) -> Tree:
        """Read a choice, a filtered value, or less."""
        tree = self.binary(1)
        while True:
            if self.accept("?"):
                left = self.expression()
                if not self.accept(":"):
                    raise NotReadable
                tree = Choice(tree, left, self.expression())
            elif self.word == "for" and self.peek(2) in ("in", "="):
                self.number += 1
                index, condition = self.range()
                tree = Filtered(tree, condition, index)
            elif self.accept("over"):
                tree = Filtered(tree, None, self.next())
            elif self.accept(*_FILTERING, "for"):
                condition = self.condition()
                if self.accept("else"):
                    tree = Choice(condition, tree, self.expression())
                else:
                    tree = Filtered(tree, condition)
            else:
                return tree

    def condition(self) -> Tree:
        """Read a condition: `k <= q`, or `k in range(q)`."""
        self.accept(":")
        in_range = self.kind == "name" and self.peek(1) == "in"
        return self.range()[1] if in_range else self.binary(1)

    def range(self) -> tuple[str, Tree]:
        """Read `k in range(n)`, `k in a..b`, `k = a..b`: the index and its bounds."""
        index = self.next()
        if not self.accept("in", "="):
            raise NotReadable
        bounds = self.binary(1)
        if self.accept("..", ":"):
            return index, _between(bounds, Binary("<=", Word(index), self.binary(1)))
        is_range = isinstance(bounds, Bracketed) and bounds.head == "range"
        if is_range and isinstance(bounds, Bracketed) and len(bounds.items) in (1, 2):
            upper = Binary("<", Word(index), bounds.items[-1])
            return index, _between(bounds.items[0], upper) if len(bounds.items) > 1 else upper
        raise NotReadable

    def binary(self, level: int) -> Tree:
        if level == NOT + 1 and SPELLINGS.get(self.word, self.word) == "not":
            self.number += 1
            return Unary("not", self.binary(level))
        tree = self.unary()
        while True:
            op = SPELLINGS.get(self.word, self.word) if self.kind != "text" else ""
            op = "==" if op == "=" and self.opened and not self.goes_on else op
            own = LEVELS.get(op)
            if own is not None and own >= level:
                self.number += 1
                right = self.unary() if op == "**" else self.binary(own + 1)
                tree = _joined(op, tree, right)
            elif self.opened[-1:] == "[" and isinstance(tree, Word) and self.kind == "name":
                return tree  # O[b q]
            elif self.starts_operand() and level <= MUL:
                tree = self.beside(tree)
            else:
                return tree

    def starts_operand(self) -> bool:
        """True if a value starts here, right after another one."""
        is_word = self.kind in ("name", "number") and self.word not in _WORDS
        return is_word or self.word == "("

    def beside(self, tree: Tree) -> Tree:
        """Read an operand that follows another without an operator: `A B`, `sum[j] x`, `exp x`."""
        takes_operand = _takes_operand(tree)
        is_reduction = isinstance(tree, Word) and reduction_of(tree.text) is not None
        if is_reduction and re.match(r"[^\W\d]", self.peek(1)) and not is_head(self.word):
            tree = Bracketed(head_of(tree), False, (Word(self.next()),))  # sum j A[i,j]
        right = self.operand(MUL if takes_operand else UNARY)
        if not takes_operand and _is_matrix(tree) and _is_matrix(right):
            return Binary("@", tree, right)  # Q K^T
        if isinstance(tree, Word) and isinstance(right, Word) and not tree.text[:1].isdigit():
            raise NotReadable  # prose
        return (
            Bracketed(head_of(tree), True, (right,)) if takes_operand else Binary("*", tree, right)
        )

    def operand(self, level: int) -> Tree:
        """Read an operand, which may be a head with its own: the last of `y log p`."""
        tree = self.binary(level)
        while self.starts_operand() and _takes_operand(tree):
            tree = self.beside(tree)
        return tree

    def unary(self) -> Tree:
        op = SPELLINGS.get(self.word, self.word)
        if op in ("-", "not", "+") and self.kind != "text":
            self.number += 1
            operand = self.operand(UNARY if op != "not" else NOT + 1)
            return operand if op == "+" else Unary(op, operand)
        tree = self.postfix()
        if SPELLINGS.get(self.word, self.word) == "**":
            self.number += 1
            power = self.unary()
            is_transposed = power == Word("T")  # K^T
            return Attribute(tree, "T") if is_transposed else Binary("**", tree, power)
        return tree

    def postfix(self) -> Tree:
        tree = self.atom()
        while True:
            if self.word in _OPEN and self.word:
                tree = self.bracketed(head_of(tree))
            elif self.word == "." and re.match(r"[^\W\d]", self.peek(1)):
                self.number += 1
                tree = Attribute(tree, self.next())
            elif self.word == "_" or (self.word == "'" and self.kind == "mark"):
                raise NotReadable
            else:
                return tree

    def atom(self) -> Tree:
        kind, word = self.kind, self.word
        if word == "frac" and self.peek(1) == "{":
            self.number += 1
            return Binary("/", self.atom(), self.atom())
        if word == "|" and self.peek(2) == "|":
            self.number += 3
            return Extent(self.tokens[self.number - 2].text)
        if kind == "text":
            self.number += 1
            return Text(word[1:-1])
        if word in _OPEN and word:
            items = self.bracketed("").items
            if not items:
                raise NotReadable
            return items[0] if len(items) == 1 and self.peek(-2) != "," else Listed(items)
        if kind == "number" or (kind == "name" and word not in _WORDS - {"where"}):
            self.number += 1
            return Word(word)
        if self.accept("∞"):
            return Word(SPELLINGS[word])
        raise NotReadable

    def bracketed(self, head: str | Tree) -> Bracketed:
        """Read the brackets after a head; any bracket closes any other, and the end does."""
        if isinstance(head, str):
            head = head.rstrip("_") or head  # \sum_{j}
        is_call = self.word == "(" or (self.word == "{" and head in FUNCTIONS)
        result = Bracketed(head, is_call, ())
        self.opened += self.next()
        self.skip(",", ";")
        while self.word and not self.accept(*_CLOSE):
            result = self.item(result)
            self.skip(",", ";")
        self.opened = self.opened[:-1]
        return result

    def item(self, bracketed: Bracketed) -> Bracketed:
        """Read one thing between commas."""
        if self.accept("->"):
            return replace(bracketed, target=self.next())
        if self.accept(".."):
            return replace(self.item(bracketed), is_prefix=True)
        if self.accept(":"):
            return replace(bracketed, items=(*bracketed.items, Slice()))
        if self.word in (*_FILTERING, "|", "for") and not bracketed.is_call:
            self.number += 1
            return replace(bracketed, condition=conjunction(bracketed.condition, self.condition()))
        if self.kind == "name" and (self.peek(1) == "in" or self.peek(1) == "="):
            if self.peek(1) == "=" and (bracketed.is_call or self.peek(0) in ("dim", "axis")):
                name, _ = self.next(), self.next()
                return replace(bracketed, named=(*bracketed.named, (name, self.binary(1))))
            index, condition = self.range()
            item = Filtered(Word(index), condition, index)
            return replace(bracketed, items=(*bracketed.items, item))
        tree = self.expression() if bracketed.is_call else self.binary(1)
        if self.word == ":":
            condition = self.condition()
            if bracketed.is_call or not is_condition(condition):  # a slice with bounds
                raise NotReadable
            bracketed = replace(bracketed, condition=conjunction(bracketed.condition, condition))
        split = isinstance(tree, Binary) and tree.op == "or" and isinstance(tree.left, Word)
        if split and isinstance(tree, Binary) and not bracketed.is_call:  # [k | k <= q]
            bracketed = replace(bracketed, condition=conjunction(bracketed.condition, tree.right))
            tree = tree.left
        return replace(bracketed, items=(*bracketed.items, tree))


def left_side(tree: Tree) -> tuple[str, tuple[str, ...]]:
    """Return the name and the indices on the left side."""
    if isinstance(tree, Word):
        return tree.text, ()
    if isinstance(tree, Bracketed) and isinstance(tree.head, Bracketed):  # O[b][q]
        tree = replace(tree.head, items=(*tree.head.items, *tree.items))
    if not isinstance(tree, Bracketed) or not isinstance(tree.head, str):
        raise NotReadable
    if not all(isinstance(item, Word) for item in tree.items):
        raise NotReadable
    return tree.head, tuple(item.text for item in tree.items if isinstance(item, Word))


def is_condition(tree: Tree) -> bool:
    """True if a tree is a comparison, or made of some."""
    return isinstance(tree, Binary) and (tree.op in COMPARISONS or tree.op in ("and", "or"))


def _joined(op: str, left: Tree, right: Tree) -> Tree:
    """Return an operation; `a < b < c` is two comparisons."""
    is_chain = op in COMPARISONS and isinstance(left, Binary) and left.op in COMPARISONS
    if op == "==" and right in (Word("True"), Word("False")):
        return left if right == Word("True") else Unary("not", left)
    if not is_chain or not isinstance(left, Binary):
        return Binary(op, left, right)
    return Binary("and", left, Binary(op, left.right, right))


def _between(low: Tree, upper: Binary) -> Tree:
    """Return an upper bound with a lower one beside it, unless that is 0."""
    return upper if low == Word("0") else Binary("and", Binary("<=", low, upper.left), upper)


def conjunction(left: Tree | None, right: Tree | None) -> Tree | None:
    """Return both conditions, where there are two."""
    if left is None or right is None:
        return left or right
    return Binary("and", left, right)


def with_filter(tree: Tree, condition: Tree, names: set[str]) -> Tree | None:
    """Return a value whose outermost reduction over one of these names is filtered."""
    if isinstance(tree, Reduced) and names & set(tree.indices):
        return replace(tree, condition=conjunction(tree.condition, condition))
    if isinstance(tree, Binary):
        if (left := with_filter(tree.left, condition, names)) is not None:
            return replace(tree, left=left)
        if (right := with_filter(tree.right, condition, names)) is not None:
            return replace(tree, right=right)
    return None


_RUNNING = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}
_RUNNING |= {"logcumsumexp": "logsumexp"}
_NAMES = {"amax": "max", "amin": "min"}


def reduction_of(name: str) -> Reduced | None:
    """Return the reduction that a name stands for: `softmax`, `cumsum`, `sum_j`."""
    if name in _RUNNING:
        return Reduced(_RUNNING[name], (), (), is_prefix=True)
    name = _NAMES.get(name, name)
    head, _, index = name.partition("_")
    if name in ALL_REDUCTIONS or not index or head not in ALL_REDUCTIONS:
        return Reduced(name, (), ()) if name in ALL_REDUCTIONS else None
    return Reduced(head, (index,), ())


def is_head(name: str) -> bool:
    """True if a name is that of a function or reduction."""
    return name in FUNCTIONS or reduction_of(name) is not None


def _is_matrix(tree: Tree) -> bool:
    """True if a value is made of matrices without indices: capitals name them."""
    words = (part.text for part in walk(tree) if isinstance(part, Word))
    return not list(names_in(tree)) and any(word[:1].isupper() for word in words)


def _takes_operand(tree: Tree) -> bool:
    """True if a head without its operand is a reduction or a function."""
    if isinstance(tree, Bracketed):
        reduction = reduction_of(tree.head) if isinstance(tree.head, str) else None
        names = all(isinstance(item, Word) for item in tree.items)  # sum(j), and no softmax(x[k])
        return reduction is not None and not (tree.is_call and (reduction.indices or not names))
    return isinstance(tree, Word) and is_head(tree.text)
