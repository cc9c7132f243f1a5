"""Terms and programs as text of the language: parsing what is printed gives the same term.

But what a comparison asks that a constructor made, `-inf < log(u)` of 1 / exp(log(u)) say, is asked
exactly in a program (`operators`). That is another term of the same value.

Bound indices get readable names again, taken from their extents. Quotients, roots and
differences are printed as such, although terms know only powers and coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

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
        extents_of: gives those of the dimensions of what is read. A plain subscript says that an
            index has that of the dimension; `X[j + 0]` reads X at an index of another extent.
        mark: puts marks around the text of a part, as it stands in its place.
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
        """The same names, to which others can be added."""
        inner = Names(self.taken, self.abbreviate)
        inner.names, inner.bound, inner.read = dict(self.names), self.bound, self.read
        inner.extents_of, inner.mark = self.extents_of, self.mark
        return inner

    def plain(self, t: Term) -> list[bool]:
        """Of the subscripts of what is read, which are indices of the dimension's extent?"""
        if self.extents_of is None:
            return [a.op == "index" for a in t.args]
        pairs = zip(t.args, self.extents_of(t), strict=True)
        return [a.op == "index" and a.attr[1] == dim for a, dim in pairs]

    def abbreviation(self, t: Term) -> str | None:
        """The name that a term is known by, with its subscripts, if there is one."""
        return None if self.abbreviate is None else self.abbreviate(t, self)

    def of(self, name: str) -> str:
        """The printed name of a free index."""
        return self.names.get(name, name.replace("$", "i").replace("%", "i").replace("~", "i"))

    def of_all(self, indices: tuple[Term, ...]) -> list[str]:
        """The printed names of free indices; an opened one has its extent's."""
        plain = [i.attr[0][0].isalpha() or i.attr[0][0] == "_" for i in indices]
        return [
            i.attr[0] if p else i.attr[1].lstrip(".") for i, p in zip(indices, plain, strict=True)
        ]

    def bind(self, t: Term, opened: tuple[Term, ...]) -> Names:
        """The names inside a fold: the extent's own name unless the fold uses it already.

        An outer index that does not occur inside may be shadowed, so that most names are
        those of the program, which are known to have an extent.
        """
        inner = self.inside()
        used = {self.of(name) for name in t.free} | self.taken
        for bound in opened:
            base = bound.attr[1].lstrip(".")
            name, number = base, 0
            while name in used:
                number += 1
                name = f"{base}_{number}"
            used.add(name)
            inner.names[bound.attr[0]] = name
            self.bound[name] = bound.attr[1]
        return inner


def show(t: Term, names: Names | None = None) -> str:
    """The term as text of the language."""
    names = names or Names()
    # Opened indices that are free here print by the name of their extent, too.
    unnamed = (n for n in sorted(t.free) if not n[0].isalpha() and n[0] != "_")
    loose = tuple(_leaf(t, n) for n in unnamed if n not in names.names)
    return _show(t, names.bind(t, loose) if loose else names, 0)


def _leaf(t: Term, name: str) -> Term:
    """The index of this name, which is free in t."""
    while t.op != "index":
        t = next(a for a in t.args if name in a.free)
    return t


def number_text(value: Fraction | float, kind: str) -> str:
    """An exact literal: an int, a decimal, a quotient where no decimal is exact, or inf."""
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


def _paren(text: str, level: int, context: int) -> str:
    return f"({text})" if level < context else text


def _show(t: Term, names: Names, context: int, as_float: bool = False) -> str:
    """Print t for a position that binds with strength `context`. `as_float` says that the
    position makes a float of an int anyway, so that a cast needs no words."""
    text = names.abbreviation(t)
    if text is None:
        text = _show_whole(t, names, context, as_float)
    return text if names.mark is None else names.mark(t, text)


def _show_whole(t: Term, names: Names, context: int, as_float: bool) -> str:
    """Print t without an abbreviation."""
    match t.op:
        case "const":
            if t.kind == "bool":
                return "0 == 0" if t.attr else "0 == 1"
            text = number_text(t.attr, "int" if as_float and t.kind == "float" else t.kind)
            level = _UNARY if text.startswith("-") else _MUL if "/" in text else _ATOM
            return _paren(text, level, context)
        case "index":
            return names.of(t.attr[0])
        case "extent":
            return f"|{t.attr.lstrip('.')}|"
        case "param":
            return str(t.attr)
        case "read" | "ref" | "stored":
            name = name_of(t)
            if not t.args:
                return name
            plain = names.plain(t)
            subscripts = [
                _show(a, names, 0) + (" + 0" if a.op == "index" and not is_plain else "")
                for a, is_plain in zip(t.args, plain, strict=True)
            ]
            if t.op == "read" or (t.op == "stored" and t.attr.given):
                named = zip(t.args, plain, strict=True)
                names.read.update(names.of(a.attr[0]) for a, is_plain in named if is_plain)
            return f"{name}[{_separator(subscripts).join(subscripts)}]"
        case "cast":
            inner = t.args[0]
            if inner.kind == "bool":
                text = _show(inner, names, 0)
                if as_float and t.kind == "float":
                    return _paren(text, 0, context)
                return _paren(f"1{'.0' * (t.kind == 'float')} * ({text})", _MUL, context)
            if as_float:
                return _show(inner, names, context)
            return _paren(f"1.0 * {_show(inner, names, _MUL + 1)}", _MUL, context)
        case "add":
            return _paren(_show_sum(t, names), _ADD, context)
        case "mul":
            return _show_product(t, names, context)
        case "pow":
            return _show_power(t, names, context)
        case "power":
            base, exponent = t.args
            text = f"{_show(base, names, _ATOM)} ** {_show(exponent, names, _POW)}"
            return _paren(text, _POW, context)
        case "compare":
            sides = [_show(x, names, _ADD) for x in _sides(*t.args)]
            return _paren(f" {t.attr} ".join(sides), _COMPARE, context)
        case "and" | "or":
            level = _AND if t.op == "and" else _OR
            sides = [_show(x, names, level + 1) for x in t.args]
            return _paren(f" {t.op} ".join(sides), level, context)
        case "not":
            return _paren(f"not {_show(t.args[0], names, _NOT)}", _NOT, context)
        case "floordiv" | "mod":
            sign = "//" if t.op == "floordiv" else "%"
            a, b = t.args
            text = f"{_show(a, names, _MUL)} {sign} {_show(b, names, _MUL + 1)}"
            return _paren(text, _MUL, context)
        case "fold" | "fold_at":
            return _show_fold(t, names)
        case "field":
            return f"{_show(t.args[0], names, _ATOM)}.{t.attr}"
        case "where":
            c, a, b = t.args
            floating = a.kind == "float" and not (a.op == b.op == "cast")
            parts = [_show(c, names, 0), _show(a, names, 0, floating and a.op == "cast")]
            parts.append(_show(b, names, 0, floating and b.op == "cast"))
            return f"where({', '.join(parts)})"
    floating = t.op not in ("maximum", "minimum", "uniform", "abs", "sign", "relu", "stop")
    return f"{t.op}({', '.join(_show(a, names, 0, floating) for a in t.args)})"


def _sides(a: Term, b: Term) -> tuple[Term, Term]:
    """The sides of a comparison as they are written: terms know `q < k + window`, but the
    distance of two indices is seen at once in `q - k < window`."""
    for one, other in ((a, b), (b, a)):
        if one.op == "index" and other.op == "add":
            indices = [t for t in other.args if t.op == "index"]
            rest = [t for t in other.args if t.op not in ("index", "const")]
            if len(indices) == 1 and rest:
                return sub(a, indices[0]), sub(b, indices[0])
    return a, b


def _separator(subscripts: list[str]) -> str:
    """Plain indices stand close together: K[b,h,k,d], but K[b, h // 2, k, d]."""
    return "," if all(s.isidentifier() for s in subscripts) else ", "


def _evident(t: Term) -> bool:
    """Does the printed text of t show that it is a float?"""
    if t.op in ("const", "cast"):
        return False
    if t.op in ("add", "mul"):
        return any(map(_evident, t.args))
    if t.op == "pow":
        return t.attr < 0 or t.attr.denominator != 1 or _evident(t.args[0])
    return t.kind == "float"


def _show_sum(t: Term, names: Names) -> str:
    evident = t.kind == "int" or any(map(_evident, t.args))
    # Floats first, and what is added before what is subtracted.
    addends = sorted(t.args, key=lambda a: (not _evident(a), split_coefficient(a)[0] < 0))
    starts = addends[0].op != "const" and split_coefficient(addends[0])[0] > 0
    if t.args[-1].op == "const" and (starts or t.args[-1].attr < 0):  # x - 1 or -x - 1
        addends.sort(key=lambda a: a.op == "const")
    else:  # 1 - x
        addends.sort(key=lambda a: a.op != "const")
    text = ""
    for a in addends:
        number, _ = split_coefficient(a)
        negative = _has_sign(number)
        shown = neg(a) if negative else a
        if shown.op == "const":
            piece = _show(shown, names, _MUL, as_float=evident)
        elif not text and not evident:
            piece = _show(shown, names, _ADD)
        else:
            piece = _show(shown, names, _MUL, as_float=True)
        if text:
            text += f" - {piece}" if negative else f" + {piece}"
        else:
            text = f"-{_show(shown, names, _UNARY, as_float=evident)}" if negative else piece
    return text


def _show_product(t: Term, names: Names, context: int) -> str:
    number, _ = split_coefficient(t)
    over: list[Term] = []
    under: list[Term] = []
    for factor in t.args[t.args[0].op == "const" :]:
        base, power = base_and_power(factor)
        if power < 0 and t.kind == "float":
            under.append(power_of(base, -power))
        else:
            over.append(factor)
    over.sort(key=lambda f: not _evident(f))
    sign = ""
    if _has_sign(number):
        sign, number = "-", -number
    floating = bool(over) and _evident(over[0])
    is_decimal = not isinstance(number, Fraction) or "/" not in number_text(number, "")
    if isinstance(number, Fraction) and not is_decimal and (floating or not over):
        under.append(const(number.denominator, "float"))
        number = Fraction(number.numerator)
    # Where no factor shows that this is a float, a number with a point does.
    evident = t.kind == "int" or floating or (bool(under) and number == 1 and len(over) == 1)
    first, last = "", ""
    if number != 1 and len(over) + len(under) > 1 and over and _is_sum(over[0]):
        first = "" if evident else "1.0"
        # In front a number or a sign would be multiplied out.
        last, sign = f" * {sign}{number_text(number, 'int')}", ""
    elif not evident and (over or not under):
        first = number_text(number, "float")
    elif number != 1 or not over:
        first = number_text(number, "int")
    levels = [_MUL + 1 if first or n > 0 else _MUL for n in range(len(over))]
    pieces = [_show(f, names, level, as_float=True) for f, level in zip(over, levels, strict=True)]
    if first:
        pieces.insert(0, f"({first})" if first.startswith("-") else first)
    text = " * ".join(pieces)
    for f in under:
        text += f" / {_show(f, names, _MUL + 1, as_float=True)}"
    text += last
    if sign and text[0].isdigit():
        return _paren(f"-{text}", _MUL, context)
    if sign:
        simple = len(pieces) == 1 and not under and over[0].op not in ("floordiv", "mod")
        return _paren(f"-{text}" if simple else f"-({text})", _UNARY, context)
    return _paren(text, _MUL, context)


def _has_sign(number: Number) -> bool:
    """True if a number is printed as minus another: not the least integer, which has no other."""
    return number < 0 and number not in (-math.inf, -(2**63))


def _is_sum(t: Term) -> bool:
    return t.op == "add" or (t.op == "cast" and t.args[0].op == "add")


def _show_power(t: Term, names: Names, context: int) -> str:
    base, power = t.args[0], t.attr
    if abs(power) == Fraction(1, 2):
        name = "sqrt" if power > 0 else "rsqrt"
        return f"{name}({_show(base, names, 0, as_float=True)})"
    if power < 0:
        text = f"1 / {_show(power_of(base, -power), names, _MUL + 1, as_float=True)}"
        return _paren(text, _MUL, context)
    if power.denominator % 2 == 0 and not is_nonnegative(base):  # the root of a negative number
        base, power = inert("pow", base, attr=Fraction(1, 2)), 2 * power
    exponent = (
        str(power) if power.denominator == 1 else f"({power.numerator} / {power.denominator})"
    )
    if base.op == "cast":
        return _paren(f"({_show(base, names, 0)}) ** {exponent}", _POW, context)
    return _paren(f"{_show(base, names, _ATOM)} ** {exponent}", _POW, context)


def _show_fold(t: Term, names: Names) -> str:
    binder: Binder = t.attr
    opened, parts = open_fold(t)
    if t.op == "fold_at":
        return _show_kept(t, opened[0], parts, names)
    inner = names.bind(t, opened)
    shown = [inner.of(i.attr[0]) for i in opened]
    head = ", ".join(shown) + _show_filter(parts[0], opened, inner)
    floating = binder.name in ("mean", "var", "logsumexp") or isinstance(binder.monoid, UserMonoid)
    bodies = ", ".join(_show(p, inner, 0, as_float=floating) for p in parts[1:])
    return f"{binder.name}[{head}]({bodies})"


def _show_filter(condition: Term, opened: tuple[Term, ...], inner: Names) -> str:
    """What follows the indices. The language asks that a filter mentions one of them."""
    if condition is TRUE:
        return ""
    first = inner.of(opened[0].attr[0])
    if condition is FALSE:
        return f" if {first} < {first}"
    if any(i.attr[0] in condition.free for i in opened):
        return f" if {_show(condition, inner, 0)}"
    return f" if {_show(condition, inner, _AND)} and {first} == {first}"


def _show_kept(t: Term, bound: Term, parts: tuple[Term, ...], names: Names) -> str:
    """softmax[k](..), sum[..k](..) or top[k -> r](..): the position must be a plain index."""
    binder: Binder = t.attr
    position = t.args[0]
    shown = _show(position, names, 0)
    inner = names.inside()
    if binder.target is not None:
        inner = names.bind(t, (bound,))
        head = f"{inner.of(bound.attr[0])} -> {shown}"
    else:
        inner.names[bound.attr[0]] = shown
        head = shown if binder.name in ("softmax", "log_softmax") else f"..{shown}"
    head += _show_filter(parts[0], (bound,), inner)
    floating = binder.name in ("softmax", "log_softmax", "top", "argtop")
    floating |= isinstance(binder.monoid, UserMonoid)
    bodies = ", ".join(_show(p, inner, 0, as_float=floating) for p in parts[1:])
    return f"{binder.name}[{head}]({bodies})"


def show_monoid(monoid: UserMonoid) -> str:
    """The declaration of a user's monoid."""
    unit = ", ".join(_show(u, Names(), 0) for u in monoid.unit)
    combine = ", ".join(_show(c, Names(), 0) for c in monoid.combine)
    fields = ", ".join(monoid.fields)
    return f"monoid {monoid.name}({fields}) = unit ({unit}), combine ({combine})"


def definition_line(
    name: str, indices: Iterable[str], body: Term, names: Names | None = None
) -> str:
    """`O[i,e] = body`. The language asks that every index on the left occurs on the right."""
    indices, names = list(indices), names or Names()
    text = show(body, names)
    occurring = names.of_all(tuple(_leaf(body, n) for n in body.free))
    for i in indices:
        if i not in occurring:
            text = f"({text}) and {i} == {i}" if body.kind == "bool" else f"{text} + 0 * {i}"
    return f"{name}[{','.join(indices)}] = {text}" if indices else f"{name} = {text}"


# A node cannot know what prints it.
Term.__repr__ = show  # type: ignore[assignment, method-assign]
