"""Terms and programs as text of the language: parsing what is printed gives the same term.

An exception are comparisons that a constructor made, such as `-inf < log(u)` of 1 / exp(log(u)): a
program compares exactly (`operators`), so that parsing gives another term of the same value.

Bound indices get readable names again, taken from their extents. Quotients, roots and
differences are printed as such, although terms know only powers and coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import chain, repeat
from typing import TypeAlias

from monocomp.terms.binders import open_fold
from monocomp.terms.facts import is_nonnegative
from monocomp.terms.leaves import FALSE, TRUE, const, name_of
from monocomp.terms.nodes import Binder, Number, Term, UserMonoid, inert
from monocomp.terms.parts import base_and_power, split_coefficient
from monocomp.terms.ring import neg, power_of, sub

_OR, _AND, _NOT, _COMPARE, _ADD, _MUL, _UNARY, _POW, _ATOM = range(1, 10)


Abbreviate = Callable[[Term, "Names"], "str | None"]


class Names:
    """Readable names for bound and opened indices, and the names already taken.

    Attributes:
        bound: the names that bound indices were given, with their extents.
        read: the names that were printed as plain subscripts of inputs, which give the extents.
        extents_of: returns the extents of the dimensions of a tensor. A plain subscript gives an
            index the extent of the dimension; `X[j + 0]` reads X at an index of another extent.
        mark: puts marks around the text of a part in its place.
    """

    extents_of: Callable[[Term], Sequence[str]] | None = None
    mark: Callable[[Term, str], str] | None = None

    def __init__(self, taken: Iterable[str] = (), abbreviate: Abbreviate | None = None) -> None:
        self.names: dict[str, str] = {}
        self.taken = frozenset(taken)
        self.abbreviate = abbreviate
        self.bound: dict[str, str] = {}
        self.read: set[str] = set()

    def inside(self) -> Names:
        """Return a copy, to which names can be added."""
        inner = Names(self.taken, self.abbreviate)
        inner.names, inner.bound, inner.read = dict(self.names), self.bound, self.read
        inner.extents_of, inner.mark = self.extents_of, self.mark
        return inner

    def plain(self, t: Term) -> list[bool]:
        """Return for each subscript of a read if it is an index with the dimension's extent."""
        if self.extents_of is None:
            return [a.op == "index" for a in t.args]
        pairs = zip(t.args, self.extents_of(t), strict=True)
        return [a.op == "index" and a.extent == dim for a, dim in pairs]

    def abbreviation(self, t: Term) -> str | None:
        """Return the name of the definition that a term equals, with subscripts, or None."""
        return None if self.abbreviate is None else self.abbreviate(t, self)

    def of(self, name: str) -> str:
        """Return the printed name of a free index."""
        return self.names.get(name, name.replace("$", "i").replace("%", "i").replace("~", "i"))

    def of_all(self, indices: tuple[Term, ...]) -> list[str]:
        """Return the printed names of free indices; an opened one has its extent's."""
        return [i.name if _is_named(i.name) else i.extent.lstrip(".") for i in indices]

    def bind(self, t: Term, opened: tuple[Term, ...]) -> Names:
        """Return the names inside a fold: an index is called as its extent, if the fold does not
        use that name already.

        An outer index that does not occur inside may be shadowed, so that most names are
        the program's own, whose extents are known.
        """
        inner = self.inside()
        used = {self.of(name) for name in t.free} | self.taken
        for bound in opened:
            base = bound.extent.lstrip(".")
            name, number = base, 0
            while name in used:
                number += 1
                name = f"{base}_{number}"
            used.add(name)
            inner.names[bound.name] = name
            self.bound[name] = bound.extent
        return inner


def show(t: Term, names: Names | None = None) -> str:
    """Print a term as text of the language."""
    names = names or Names()
    # Opened indices that are free here also print by the name of their extent.
    unnamed = (n for n in sorted(t.free) if not _is_named(n))
    loose = tuple(_leaf(t, n) for n in unnamed if n not in names.names)
    return _show(t, names.bind(t, loose) if loose else names, 0)


def _is_named(index: str) -> bool:
    """True if an index has a name of the language, not one that opening a fold gave it."""
    return index[0].isalpha() or index[0] == "_"


def _leaf(t: Term, name: str) -> Term:
    """Return the index of this name, which is free in t."""
    while t.op != "index":
        t = next(a for a in t.args if name in a.free)
    return t


def number_text(value: Fraction | float, kind: str) -> str:
    """Print an exact literal: an int, a decimal, a quotient where no decimal is exact, or inf."""
    if isinstance(value, float):
        return "inf" if value > 0 else "-inf"
    if value.denominator == 1:
        text = _whole_text(value.numerator)
        return text if kind == "int" or set(text) & {"e", "."} else f"{text}.0"
    digits = next((n for n in range(1, 21) if 10**n % value.denominator == 0), 0)
    if digits:
        scaled = value * 10**digits
        sign, body = ("-" if scaled < 0 else ""), str(abs(scaled.numerator)).rjust(digits + 1, "0")
        whole, rest = body[:-digits], body[-digits:].rstrip("0") or "0"
        return f"{sign}{whole}.{rest}"
    return f"{_whole_text(value.numerator)} / {_whole_text(value.denominator)}"


def _whole_text(value: int) -> str:
    """Return the digits of an integer; of many zeros their number; a float of more than 64 bits."""
    text = str(value)
    digits = text.rstrip("0")
    zeros = len(text) - len(digits)
    if len(text) > 40 and zeros > 20:
        return f"{digits}e{zeros}"
    return text if -(2**63) <= value < 2**63 else f"{text}.0"


# Functions and reductions whose operands are floats need no words for a cast there.
_OF_BOTH_KINDS = ("maximum", "minimum", "uniform", "abs", "sign", "relu", "stop")
_OF_FLOATS = ("mean", "var", "logsumexp", "softmax", "log_softmax", "top", "argtop")
_INFIX = {
    "or": ("or", _OR),
    "and": ("and", _AND),
    "floordiv": ("//", _MUL),
    "mod": ("%", _MUL),
}
_Text: TypeAlias = tuple[str, int]  # with the strength of the operator that it was built by


def _show(t: Term, names: Names, context: int = 0, as_float: bool = False) -> str:
    """Print t for a position that binds with strength `context`. `as_float` says that the
    position makes a float of an int anyway, so that a cast needs no words."""
    text = names.abbreviation(t)
    if text is None and as_float and t.op == "cast" and t.args[0].kind != "bool":
        text = _show(t.args[0], names, context)
    elif text is None:
        text, level = _form(t, names, as_float)
        text = f"({text})" if level < context else text
    return text if names.mark is None else names.mark(t, text)


def _show_all(parts: Iterable[Term], names: Names, as_float: bool = False) -> str:
    """Print operands with commas between them."""
    return ", ".join(_show(p, names, 0, as_float) for p in parts)


def _form(t: Term, names: Names, as_float: bool) -> _Text:
    """Print t without an abbreviation."""
    match t.op:
        case "const" if t.kind == "bool":
            return f"0 == {0 if t.attr else 1}", _COMPARE
        case "const":
            text = number_text(t.attr, "int" if as_float and t.kind == "float" else t.kind)
            return text, _UNARY if text.startswith("-") else _MUL if "/" in text else _ATOM
        case "index":
            return names.of(t.name), _ATOM
        case "extent":
            return f"|{t.attr.lstrip('.')}|", _ATOM
        case "param":
            return t.attr, _ATOM
        case "read" | "ref" | "stored":
            return _show_read(t, names), _ATOM
        case "cast":
            return _show_cast(t, names, as_float)
        case "add":
            return _show_sum(t, names), _ADD
        case "mul":
            return _show_product(t, names)
        case "pow":
            return _show_power(t, names)
        case "power":
            base, exponent = t.args
            return f"{_show(base, names, _ATOM)} ** {_show(exponent, names, _POW)}", _POW
        case "compare":
            return f" {t.attr} ".join(_show(x, names, _ADD) for x in _sides(*t.args)), _COMPARE
        case "not":
            return f"not {_show(t.args[0], names, _NOT)}", _NOT
        case "and" | "or" | "floordiv" | "mod":
            sign, level = _INFIX[t.op]
            first = level if t.op in ("floordiv", "mod") else level + 1
            sides = zip(t.args, chain([first], repeat(level + 1)), strict=False)
            return f" {sign} ".join(_show(x, names, n) for x, n in sides), level
        case "fold" | "fold_at":
            return _show_fold(t, names), _ATOM
        case "field":
            return f"{_show(t.args[0], names, _ATOM)}.{t.attr}", _ATOM
        case "where":
            c, a, b = t.args
            is_evident = a.kind == "float" and not (a.op == b.op == "cast")
            values = (_show(x, names, 0, is_evident and x.op == "cast") for x in (a, b))
            return f"where({_show(c, names)}, {', '.join(values)})", _ATOM
    return f"{t.op}({_show_all(t.args, names, t.op not in _OF_BOTH_KINDS)})", _ATOM


def _show_read(t: Term, names: Names) -> str:
    """Plain indices stand close together: K[b,h,k,d], but K[b, h // 2, k, d]."""
    name = name_of(t)
    if not t.args:
        return name
    plain = names.plain(t)
    subscripts = [
        _show(a, names) + (" + 0" if a.op == "index" and not is_plain else "")
        for a, is_plain in zip(t.args, plain, strict=True)
    ]
    if t.op == "read" or (t.op == "stored" and t.attr.given):
        named = zip(t.args, plain, strict=True)
        names.read.update(names.of(a.name) for a, is_plain in named if is_plain)
    separator = "," if all(map(str.isidentifier, subscripts)) else ", "
    return f"{name}[{separator.join(subscripts)}]"


def _show_cast(t: Term, names: Names, as_float: bool) -> _Text:
    """Print an int as a float, or a truth value as a number."""
    (inner,) = t.args
    number = "1.0" if t.kind == "float" else "1"
    if inner.kind != "bool":
        return f"{number} * {_show(inner, names, _MUL + 1)}", _MUL
    text = _show(inner, names)
    if as_float and t.kind == "float":
        return text, 0
    return f"{number} * ({text})", _MUL


def _sides(a: Term, b: Term) -> tuple[Term, Term]:
    """Return the sides of a comparison as people write them: `q - k < window`, with the distance
    of two indices on one side, for the term `q < k + window`."""
    for one, other in ((a, b), (b, a)):
        if one.op == "index" and other.op == "add":
            indices = [t for t in other.args if t.op == "index"]
            rest = [t for t in other.args if t.op not in ("index", "const")]
            if len(indices) == 1 and rest:
                return sub(a, indices[0]), sub(b, indices[0])
    return a, b


def _evident(t: Term) -> bool:
    """True if the printed text of t shows that it is a float."""
    if t.op in ("const", "cast"):
        return False
    if t.op in ("add", "mul"):
        return any(map(_evident, t.args))
    if t.op == "pow":
        return t.attr < 0 or t.attr.denominator != 1 or _evident(t.args[0])
    return t.kind == "float"


def _show_sum(t: Term, names: Names) -> str:
    evident = t.kind == "int" or any(map(_evident, t.args))
    # Floats first, and what is added before what is subtracted: x - 1, -x - 1 and 1 - x.
    addends = sorted(t.args, key=lambda a: (not _evident(a), split_coefficient(a)[0] < 0))
    starts = addends[0].op != "const" and split_coefficient(addends[0])[0] > 0
    ends = t.args[-1].op == "const" and (starts or t.args[-1].attr < 0)
    addends.sort(key=lambda a: (a.op == "const") is ends)
    text = ""
    for a in addends:
        negative = _has_sign(split_coefficient(a)[0])
        shown = neg(a) if negative else a
        as_float = evident or (bool(text) and shown.op != "const")
        piece = _show(shown, names, _MUL if text or not negative else _UNARY, as_float)
        sign = "-" if negative else "+"
        text = f"{text} {sign} {piece}" if text else f"{sign if negative else ''}{piece}"
    return text


def _show_product(t: Term, names: Names) -> _Text:
    number, _ = split_coefficient(t)
    powers = [(f, *base_and_power(f)) for f in t.args[t.args[0].op == "const" :]]
    divides = t.kind == "float"
    under = [power_of(base, -power) for _, base, power in powers if divides and power < 0]
    over = [f for f, _, power in powers if not divides or power >= 0]
    over.sort(key=lambda f: not _evident(f))
    sign = ""
    if _has_sign(number):
        sign, number = "-", -number
    floating = bool(over) and _evident(over[0])
    is_quotient = isinstance(number, Fraction) and "/" in number_text(number, "")
    if isinstance(number, Fraction) and is_quotient and (floating or not over):
        under.append(const(number.denominator, "float"))
        number = Fraction(number.numerator)
    # Where no factor shows that this is a float, a number with a point does.
    evident = t.kind == "int" or floating or (bool(under) and number == 1 and len(over) == 1)
    first, last = "", ""
    if number != 1 and len(over) + len(under) > 1 and over and _is_sum(over[0]):
        first = "" if evident else "1.0"
        # In front a number or a sign would be multiplied out.
        last, sign = f" * {sign}{number_text(number, 'int')}", ""
    elif number != 1 or not over or not evident:
        first = number_text(number, "float" if not evident and (over or not under) else "int")
    levels = chain([_MUL + 1 if first else _MUL], repeat(_MUL + 1))
    pieces = [_show(f, names, n, True) for f, n in zip(over, levels, strict=False)]
    if first:
        pieces.insert(0, f"({first})" if first.startswith("-") else first)
    text = " * ".join(pieces)
    for f in under:
        text += f" / {_show(f, names, _MUL + 1, True)}"
    text += last
    if not sign or text[0].isdigit():
        return sign + text, _MUL
    simple = len(pieces) == 1 and not under and over[0].op not in ("floordiv", "mod")
    return f"-{text}" if simple else f"-({text})", _UNARY


def _has_sign(number: Number) -> bool:
    """True if a number is printed as minus another: not the least integer, which has no other."""
    return number < 0 and number not in (-math.inf, -(2**63))


def _is_sum(t: Term) -> bool:
    return t.op == "add" or (t.op == "cast" and t.args[0].op == "add")


def _show_power(t: Term, names: Names) -> _Text:
    base, power = t.args[0], t.attr
    if abs(power) == Fraction(1, 2):
        return f"{'sqrt' if power > 0 else 'rsqrt'}({_show(base, names, 0, True)})", _ATOM
    if power < 0:
        return f"1 / {_show(power_of(base, -power), names, _MUL + 1, True)}", _MUL
    if power.denominator % 2 == 0 and not is_nonnegative(base):  # the root of a negative number
        base, power = inert("pow", base, attr=Fraction(1, 2)), 2 * power
    exponent = str(power) if power.denominator == 1 else f"({str(power).replace('/', ' / ')})"
    return f"{_show(base, names, _ATOM)} ** {exponent}", _POW


def _show_fold(t: Term, names: Names) -> str:
    """Print sum[q, k](..), and softmax[k](..), sum[..k](..) or top[k -> r](..), whose position is
    a plain index."""
    binder: Binder = t.attr
    opened, (condition, *bodies) = open_fold(t)
    if t.op == "fold" or binder.target is not None:
        inner = names.bind(t, opened)
        head = ", ".join(inner.of(i.name) for i in opened)
        if binder.target is not None:
            head += f" -> {_show(t.args[0], names)}"
    else:
        inner = names.inside()
        head = inner.names[opened[0].name] = _show(t.args[0], names)
        head = head if binder.name in ("softmax", "log_softmax") else f"..{head}"
    head += _show_filter(condition, opened, inner)
    as_float = binder.name in _OF_FLOATS or isinstance(binder.monoid, UserMonoid)
    return f"{binder.name}[{head}]({_show_all(bodies, inner, as_float)})"


def _show_filter(condition: Term, opened: tuple[Term, ...], inner: Names) -> str:
    """Print what follows the indices. In the language a filter mentions one of them."""
    if condition is TRUE:
        return ""
    first = inner.of(opened[0].name)
    if condition is FALSE:
        return f" if {first} < {first}"
    if any(i.name in condition.free for i in opened):
        return f" if {_show(condition, inner, 0)}"
    return f" if {_show(condition, inner, _AND)} and {first} == {first}"


def show_monoid(monoid: UserMonoid) -> str:
    """Print the declaration of a user's monoid."""
    unit, combine = (_show_all(parts, Names()) for parts in (monoid.unit, monoid.combine))
    fields = ", ".join(monoid.fields)
    return f"monoid {monoid.name}({fields}) = unit ({unit}), combine ({combine})"


def definition_line(
    name: str, indices: Iterable[str], body: Term, names: Names | None = None
) -> str:
    """Print `O[i,e] = body`. In the language every index on the left occurs on the right."""
    indices, names = list(indices), names or Names()
    text = show(body, names)
    occurring = names.of_all(tuple(_leaf(body, n) for n in body.free))
    for i in indices:
        if i not in occurring:
            text = f"({text}) and {i} == {i}" if body.kind == "bool" else f"{text} + 0 * {i}"
    return f"{name}[{','.join(indices)}] = {text}" if indices else f"{name} = {text}"


# A node cannot know what prints it.
Term.__repr__ = show  # type: ignore[assignment, method-assign]
