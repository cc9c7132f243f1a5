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
from functools import partial, reduce

from monocomp.display.formulas import (
    MUL,
    Formula,
    call,
    chain,
    fold,
    group,
    infix,
    name,
    number,
    prefix,
    text,
)
from monocomp.terms.binders import open_fold
from monocomp.terms.facts import is_nonnegative
from monocomp.terms.leaves import FALSE, TRUE, const, name_of
from monocomp.terms.nodes import Binder, Number, Term, UserMonoid, inert
from monocomp.terms.parts import base_and_power, split_coefficient
from monocomp.terms.ring import neg, power_of, sub

Abbreviate = Callable[[Term, "Names"], "Formula | None"]
Mark = Callable[[Term, Formula], Formula]


class Names:
    """Readable names for bound and opened indices, and the names already taken.

    Attributes:
        bound: the names that bound indices were given, with their extents.
        read: the names that were printed as plain subscripts of inputs, which give the extents.
        extents_of: returns the extents of the dimensions of a tensor. A plain subscript gives an
            index the extent of the dimension; `X[j + 0]` reads X at an index of another extent.
        mark: puts marks around a part in its place.
    """

    extents_of: Callable[[Term], Sequence[str]] | None = None
    mark: Mark | None = None

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

    def abbreviation(self, t: Term) -> Formula | None:
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
    return text(formula(t, names))


def formula(t: Term, names: Names | None = None) -> Formula:
    """Return a term as a formula of the language."""
    names = names or Names()
    # Opened indices that are free here also print by the name of their extent.
    unnamed = (n for n in sorted(t.free) if not _is_named(n))
    loose = tuple(_leaf(t, n) for n in unnamed if n not in names.names)
    return _formula(t, names.bind(t, loose) if loose else names)


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
_INFIX = {"or": "or", "and": "and", "floordiv": "//", "mod": "%"}


def _formula(t: Term, names: Names, as_float: bool = False, is_operand: bool = False) -> Formula:
    """Return the formula of t.

    Args:
        t: the term.
        names: the names of indices.
        as_float: true if the place makes a float of an int anyway, so that a cast needs no words.
        is_operand: true if the place is that of an operand of an infix operator.
    """
    shown = names.abbreviation(t)
    kinds = (t.args[0].kind, t.kind) if t.op == "cast" else None
    if shown is None and as_float and kinds not in (None, ("bool", "int")):
        shown = _formula(t.args[0], names, False, is_operand)
        if t.args[0].kind == "bool" and is_operand:
            shown = group(shown)
    elif shown is None:
        shown = _form(t, names, as_float)
    return shown if names.mark is None else names.mark(t, shown)


def _formulas(parts: Iterable[Term], names: Names, as_float: bool = False) -> list[Formula]:
    """Return operands."""
    return [_formula(p, names, as_float) for p in parts]


def _form(t: Term, names: Names, as_float: bool) -> Formula:
    """Return the formula of t without an abbreviation."""
    match t.op:
        case "const" if t.kind == "bool":
            return chain("==", number("0"), number("0" if t.attr else "1"))
        case "const":
            kind = "int" if as_float and t.kind == "float" else t.kind
            return number(number_text(t.attr, kind))
        case "index":
            return name(names.of(t.name))
        case "extent":
            return Formula("extent", attr=t.attr.lstrip("."))
        case "param":
            return name(t.attr)
        case "read" | "ref" | "stored":
            return _read(t, names)
        case "cast":
            (inner,) = t.args
            shown = _formula(inner, names)
            one = number("1.0" if t.kind == "float" else "1")
            return infix("*", one, group(shown) if inner.kind == "bool" else shown)
        case "add":
            return _sum(t, names)
        case "mul":
            return _product(t, names)
        case "pow":
            return _power(t, names)
        case "power":
            return infix("**", *_formulas(t.args, names))
        case "compare":
            return chain(t.attr, *_formulas(_sides(*t.args), names))
        case "not":
            return prefix("not", _formula(t.args[0], names))
        case "and" | "or" | "floordiv" | "mod":
            return reduce(partial(infix, _INFIX[t.op]), _formulas(t.args, names))
        case "fold" | "fold_at":
            return _fold(t, names)
        case "field":
            return Formula("field", (_formula(t.args[0], names),), t.attr)
        case "where":
            c, a, b = t.args
            is_evident = a.kind == "float" and not (a.op == b.op == "cast")
            values = (_formula(x, names, is_evident and x.op == "cast") for x in (a, b))
            return call("where", _formula(c, names), *values)
    return call(t.op, *_formulas(t.args, names, t.op not in _OF_BOTH_KINDS))


def _read(t: Term, names: Names) -> Formula:
    if not t.args:
        return name(name_of(t))
    plain = names.plain(t)
    subscripts = [
        infix("+", f, number("0")) if a.op == "index" and not is_plain else f
        for f, a, is_plain in zip(_formulas(t.args, names), t.args, plain, strict=True)
    ]
    if t.op == "read" or (t.op == "stored" and t.attr.given):
        named = zip(t.args, plain, strict=True)
        names.read.update(names.of(a.name) for a, is_plain in named if is_plain)
    return Formula("read", tuple(subscripts), name_of(t))


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


def _sum(t: Term, names: Names) -> Formula:
    evident = t.kind == "int" or any(map(_evident, t.args))
    # Floats first, and what is added before what is subtracted: x - 1, -x - 1 and 1 - x.
    addends = sorted(t.args, key=lambda a: (not _evident(a), split_coefficient(a)[0] < 0))
    starts = addends[0].op != "const" and split_coefficient(addends[0])[0] > 0
    ends = t.args[-1].op == "const" and (starts or t.args[-1].attr < 0)
    addends.sort(key=lambda a: (a.op == "const") is ends)
    total: Formula | None = None
    for a in addends:
        negative = _has_sign(split_coefficient(a)[0])
        shown = neg(a) if negative else a
        as_float = evident or (total is not None and shown.op != "const")
        piece = _formula(shown, names, as_float, is_operand=True)
        if total is not None:
            total = infix("-" if negative else "+", total, piece)
        else:
            total = prefix("-", piece) if negative else _as_factor(piece)
    assert total is not None
    return total


def _as_factor(f: Formula) -> Formula:
    """Return what stands first in a sum or product, in brackets where it is a sum itself."""
    return group(f) if f.strength < MUL else f


def _product(t: Term, names: Names) -> Formula:
    coefficient, _ = split_coefficient(t)
    powers = [(f, *base_and_power(f)) for f in t.args[t.args[0].op == "const" :]]
    divides = t.kind == "float"
    under = [power_of(base, -power) for _, base, power in powers if divides and power < 0]
    over = [f for f, _, power in powers if not divides or power >= 0]
    over.sort(key=lambda f: not _evident(f))
    negative = _has_sign(coefficient)
    if negative:
        coefficient = -coefficient
    floating = bool(over) and _evident(over[0])
    is_quotient = isinstance(coefficient, Fraction) and "/" in number_text(coefficient, "")
    if isinstance(coefficient, Fraction) and is_quotient and (floating or not over):
        under.append(const(coefficient.denominator, "float"))
        coefficient = Fraction(coefficient.numerator)
    # Where no factor shows that this is a float, a number with a point does.
    evident = t.kind == "int" or floating or (bool(under) and coefficient == 1 and len(over) == 1)
    factors = [_formula(f, names, as_float=True, is_operand=True) for f in over]
    last = ""
    if coefficient != 1 and len(over) + len(under) > 1 and over and _is_sum(over[0]):
        if not evident:
            factors.insert(0, number("1.0"))
        # In front a number or a sign would be multiplied out.
        last = f"{'-' * negative}{number_text(coefficient, 'int')}"
    elif coefficient != 1 or not over or not evident:
        kind = "float" if not evident and (over or not under) else "int"
        first = number(number_text(coefficient, kind))
        factors.insert(0, group(first) if first.op == "prefix" else first)
    product = reduce(partial(infix, "*"), factors)
    for f in under:
        product = infix("/", product, _formula(f, names, as_float=True, is_operand=True))
    if last:
        return _times_number(product, last)
    return _negated(product, is_simple=len(factors) == 1 and not under) if negative else product


def _times_number(f: Formula, digits: str) -> Formula:
    value = number(digits)
    if value.op == "infix":  # a quotient
        return infix("/", infix("*", f, value.args[0]), value.args[1])
    return infix("*", f, value)


def _negated(f: Formula, is_simple: bool) -> Formula:
    """Return minus a product: a number in front takes the sign, and so does a single factor."""
    if f.op == "infix" and f.attr in ("*", "/"):
        first = f
        while first.op == "infix" and first.attr in ("*", "/"):
            first = first.args[0]
        if is_simple or first.op == "number":
            return infix(f.attr, _negated(f.args[0], is_simple), f.args[1])
    return prefix("-", f)


def _has_sign(number: Number) -> bool:
    """True if a number is printed as minus another: not the least integer, which has no other."""
    return number < 0 and number not in (-math.inf, -(2**63))


def _is_sum(t: Term) -> bool:
    return t.op == "add" or (t.op == "cast" and t.args[0].op == "add")


def _power(t: Term, names: Names) -> Formula:
    base, power = t.args[0], t.attr
    if abs(power) == Fraction(1, 2):
        return call("sqrt" if power > 0 else "rsqrt", _formula(base, names, as_float=True))
    if power < 0:
        under = _formula(power_of(base, -power), names, as_float=True, is_operand=True)
        return infix("/", number("1"), under)
    if power.denominator % 2 == 0 and not is_nonnegative(base):  # the root of a negative number
        base, power = inert("pow", base, attr=Fraction(1, 2)), 2 * power
    return infix("**", _formula(base, names), number(str(power).replace("/", " / ")))


def _fold(t: Term, names: Names) -> Formula:
    """Return sum[q, k](..), and softmax[k](..), sum[..k](..) or top[k -> r](..), whose position is
    a plain index."""
    binder: Binder = t.attr
    opened, (condition, *bodies) = open_fold(t)
    if t.op == "fold" or binder.target is not None:
        inner = names.bind(t, opened)
        indices = [name(inner.of(i.name)) for i in opened]
        if binder.target is not None:
            indices.append(_formula(t.args[0], names))
        sign = "" if binder.target is None else "->"
    else:
        inner = names.inside()
        indices = [_formula(t.args[0], names)]
        inner.names[opened[0].name] = text(indices[0])
        sign = "" if binder.name in ("softmax", "log_softmax") else ".."
    as_float = binder.name in _OF_FLOATS or isinstance(binder.monoid, UserMonoid)
    operands = _formulas(bodies, inner, as_float)
    return fold(binder.name, indices, operands, _filter(condition, opened, inner), sign)


def _filter(condition: Term, opened: tuple[Term, ...], inner: Names) -> Formula | None:
    """Return the filter of a fold. In the language it mentions one of the indices."""
    if condition is TRUE:
        return None
    first = name(inner.of(opened[0].name))
    if condition is FALSE:
        return chain("<", first, first)
    shown = _formula(condition, inner)
    if all(i.name not in condition.free for i in opened):
        shown = infix("and", shown, chain("==", first, first))
    return shown


def show_monoid(monoid: UserMonoid) -> str:
    """Print the declaration of a user's monoid."""
    unit, combine = (
        ", ".join(map(text, _formulas(parts, Names()))) for parts in (monoid.unit, monoid.combine)
    )
    fields = ", ".join(monoid.fields)
    return f"monoid {monoid.name}({fields}) = unit ({unit}), combine ({combine})"


def definition(
    left: str, indices: Iterable[str], body: Term, names: Names | None = None
) -> Formula:
    """Return `O[i,e] = body`. In the language every index on the left occurs on the right."""
    indices, names = list(indices), names or Names()
    shown = formula(body, names)
    occurring = names.of_all(tuple(_leaf(body, n) for n in body.free))
    for i in map(name, (i for i in indices if i not in occurring)):
        if body.kind == "bool":
            shown = infix("and", group(shown), chain("==", i, i))
        else:
            shown = infix("+", shown, infix("*", number("0"), i))
    return chain("=", left_side(left, indices), shown)


def left_side(left: str, indices: Iterable[str]) -> Formula:
    """Return `O[i,e]`, or `O`."""
    subscripts = tuple(map(name, indices))
    return Formula("read", subscripts, left) if subscripts else name(left)


def definition_line(
    left: str, indices: Iterable[str], body: Term, names: Names | None = None
) -> str:
    """Print the same."""
    return text(definition(left, indices, body, names))


# A node cannot know what prints it.
Term.__repr__ = show  # type: ignore[assignment, method-assign]
