"""Index terms: the one language that every stage between the text and the kernels works on.

    term = const | index | extent | param | read | ref | stored | fold | fold_at | field
         | add | mul | pow | cast | compare | and | or | not | where | function

Terms are immutable and interned: structurally equal means identical (`is`), so common
subexpressions are found by construction. Bound indices are numbered from the inside
(`%1` binds nothing deeper), so alpha-equal folds are one object. Every term knows its
kind, its free indices and the extents that it folds, and an ill-typed term cannot be
built. Sums and products are kept in canonical form (flattened, collected, sorted): the
arithmetic of a commutative ring, over which the rewrites work.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, wraps
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from monocomp.errors import InternalError
from monocomp.language.syntax import Kind

Number: TypeAlias = Fraction | float  # the only floats are inf and -inf

# Where a factor or addend stands when terms are printed and summed: numbers first.
_RANK = {
    "const": 0,
    "param": 1,
    "extent": 1,
    "index": 2,
    "cast": 3,
    "read": 4,
    "ref": 4,
    "stored": 4,
}


class Term:
    """A node. Build one with the constructors of this module, never directly.

    Attributes:
        op: what the node is.
        args: the operands.
        attr: the payload that is not a term (a name, a number, a binder).
        kind: "int", "float" or "bool".
        free: names of the indices that occur free.
        folded: extents of the folds inside; a term with `e in folded` holds a result over e.
        height: the largest bound index number inside.
        key: sorts terms by structure, the same in every run.
    """

    __slots__ = (
        "__weakref__",
        "args",
        "attr",
        "folded",
        "free",
        "height",
        "key",
        "kind",
        "op",
    )

    op: str
    args: tuple[Term, ...]
    attr: Any
    kind: Kind
    free: frozenset[str]
    folded: frozenset[str]
    height: int
    key: tuple[int, str, str]

    def __repr__(self) -> str:
        from monocomp.printer import show

        return show(self)

    def __reduce__(self) -> Any:
        raise TypeError("terms are interned and are not pickled; print and parse them instead")


@dataclass(frozen=True, slots=True)
class Binder:
    """What a fold binds: its monoid (or reduction), indices and their extents.

    `monoid` is the name of a built-in or a `UserMonoid`; `target` is the extent of the
    new index of `top` and `argtop`.
    """

    monoid: str | UserMonoid
    indices: tuple[str, ...]
    extents: tuple[str, ...]
    target: str | None = None

    @property
    def name(self) -> str:
        """The reduction's name in the language."""
        return self.monoid if isinstance(self.monoid, str) else self.monoid.name


_MONOIDS: WeakValueDictionary[tuple[Any, ...], UserMonoid] = WeakValueDictionary()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class UserMonoid:
    """A monoid on tuples: the unit, and `combine` over the parameters x and x'.

    Interned like terms: equal means identical.
    """

    name: str
    fields: tuple[str, ...]
    unit: tuple[Term, ...]
    combine: tuple[Term, ...]

    def __new__(cls, *parts: Any, **named: Any) -> UserMonoid:
        return _MONOIDS.setdefault((*parts, *named.values()), object.__new__(cls))


@dataclass(frozen=True, slots=True)
class Equation:
    """`name[indices] = body`; the indices are index terms, free in the body."""

    name: str
    indices: tuple[Term, ...]
    body: Term


_TABLE: WeakValueDictionary[tuple[Any, ...], Term] = WeakValueDictionary()


def _intern(op: str, args: tuple[Term, ...], attr: Any, kind: Kind) -> Term:
    identity = (op, tuple(map(id, args)), attr, kind)
    found = _TABLE.get(identity)
    if found is not None:
        return found
    term = object.__new__(Term)
    term.op, term.args, term.attr, term.kind = op, args, attr, kind
    term.free = frozenset().union(*(a.free for a in args)) if args else frozenset()
    term.folded = frozenset().union(*(a.folded for a in args)) if args else frozenset()
    term.height = max((a.height for a in args), default=0)
    name = ""
    if op == "index":
        term.free = frozenset((attr[0],))
        name = attr[0]
    elif op in ("read", "ref", "param"):
        name = attr
    elif op == "stored":
        name = attr.name
        term.folded |= attr.body.folded
    elif op in ("fold", "fold_at"):
        bound = frozenset(attr.indices)
        at = args[0].free if op == "fold_at" else frozenset()
        term.free = (term.free - bound) | at
        term.folded |= frozenset(attr.extents)
        term.height += len(attr.indices)
    identity_text = repr((op, _attr_key(attr), kind, [a.key[2] for a in args]))
    digest = hashlib.blake2b(identity_text.encode(), digest_size=12).hexdigest()
    term.key = (_RANK.get(op, 5), name, digest)
    _TABLE[identity] = term
    return term


def _attr_key(attr: Any) -> Any:
    """The part of a payload that takes part in the structural order."""
    if isinstance(attr, Binder):
        return (attr.name, attr.indices, attr.extents, attr.target)
    if isinstance(attr, Equation):
        return (attr.name, attr.body.key)
    return attr


# --- leaves ---------------------------------------------------------------------------


def const(value: int | Fraction | float | bool, kind: Kind | None = None) -> Term:
    """A number or truth value. Ints are of kind int unless `kind` says otherwise."""
    if isinstance(value, bool) and kind in (None, "bool"):
        return _intern("const", (), value, "bool")
    if kind is None:
        kind = "int" if isinstance(value, int) else "float"
    if isinstance(value, float):
        number: Number = value if math.isinf(value) else Fraction(value)
    else:
        number = Fraction(value)
    return _intern("const", (), number, kind)


def index(name: str, extent: str) -> Term:
    """An index as a value, and as a subscript."""
    return _intern("index", (), (name, extent), "int")


def extent_of(extent_name: str) -> Term:
    """`|k|`."""
    return _intern("extent", (), extent_name, "int")


def param(name: str, kind: Kind) -> Term:
    """A scalar parameter."""
    return _intern("param", (), name, kind)


def read(tensor: str, subscripts: Iterable[Term], kind: Kind) -> Term:
    """An element of an input tensor."""
    return _intern("read", _ints(subscripts), tensor, kind)


def ref(name: str, subscripts: Iterable[Term], kind: Kind) -> Term:
    """An element of a definition of the same program that is not inlined yet."""
    return _intern("ref", _ints(subscripts), name, kind)


def stored(equation: Equation, subscripts: Iterable[Term]) -> Term:
    """An element of what another kernel computes and stores. To rules it is one value, and
    what is known of it is what is known of the equation's body."""
    return _intern("stored", _ints(subscripts), equation, equation.body.kind)


def _ints(terms: Iterable[Term]) -> tuple[Term, ...]:
    out = tuple(as_int(t) for t in terms)
    if any(t.kind != "int" for t in out):
        raise InternalError("a subscript is not an integer: " + ", ".join(map(repr, out)))
    return out


TRUE = const(True)
FALSE = const(False)
ZERO = const(0, "float")
ONE = const(1, "float")
INF = const(math.inf)
NEG_INF = const(-math.inf)
# The table holds terms weakly; these live as long as the module.


# --- kinds ----------------------------------------------------------------------------


def as_float(t: Term) -> Term:
    """The same value as a float. An int expression stays whole behind its cast but for a
    number in front, so that large index values are subtracted exactly before they are
    rounded."""
    if t.kind == "float":
        return t
    if t.op == "const":
        return const(t.attr if t.kind == "int" else int(t.attr), "float")
    if t.op == "cast":  # a truth value as an int
        t = t.args[0]
    if t.op == "fold" and t.attr.monoid == "sum" and t.args[1].op == "const":  # a count
        return _intern("fold", (t.args[0], as_float(t.args[1])), t.attr, "float")
    number, rest = split_coefficient(t)
    if number != 1 and rest is not None:
        return mul(const(number, "float"), as_float(rest))
    return _intern("cast", (t,), "float", "float")


def as_int(t: Term) -> Term:
    """A truth value as 0 or 1; an int as it is."""
    if t.kind != "bool":
        return t
    if t.op == "const":
        return const(int(t.attr))
    return _intern("cast", (t,), "int", "int")


def _promote(terms: Iterable[Term]) -> tuple[list[Term], Kind]:
    terms = [as_int(t) for t in terms]
    if any(t.kind == "float" for t in terms):
        return [as_float(t) for t in terms], "float"
    return terms, "int"


# --- the ring -------------------------------------------------------------------------


def split_coefficient(t: Term) -> tuple[Number, Term | None]:
    """t as (number, rest); rest is None for a number."""
    if t.op == "const":
        return t.attr, None
    if t.op == "mul" and t.args[0].op == "const":
        rest = t.args[1:]
        return t.args[0].attr, rest[0] if len(rest) == 1 else _intern("mul", rest, None, t.kind)
    return Fraction(1), t


def add(*terms: Term) -> Term:
    """The sum, like terms collected."""
    operands, kind = _promote(terms)
    total: Number = Fraction(0)
    coefficients: dict[Term, Number] = {}
    stack = list(reversed(operands))
    while stack:
        t = stack.pop()
        if t.op == "add":
            stack.extend(reversed(t.args))
            continue
        number, rest = split_coefficient(t)
        if rest is None:
            total = total + number
        else:
            coefficients[rest] = coefficients.get(rest, Fraction(0)) + number
    total = total + _join_casts(coefficients)
    if isinstance(total, float):  # inf + x is inf wherever x is finite; -inf masks win
        if math.isnan(total):
            total = -math.inf
        if kind == "float" and not coefficients:
            return const(total)
    parts = [
        rest if number == 1 else mul(const(number, kind), rest)
        for rest, number in coefficients.items()
        if number != 0 and number == number  # inf * x - inf * x has no finite value
    ]
    parts.sort(key=lambda t: t.key)
    if total != 0:
        parts.append(const(total, kind))
    if not parts:
        return const(0, kind)
    return parts[0] if len(parts) == 1 else _intern("add", tuple(parts), None, kind)


def _join_casts(coefficients: dict[Term, Number]) -> Number:
    """Collect the int expressions of a float sum in one, which is exact: q - k of large
    indices must not be rounded before the difference is taken. A number that is left over
    is returned."""
    casts = [
        t
        for t, number in coefficients.items()
        if t.op == "cast" and not is_bracket(t) and t.kind == "float" and _is_whole(number)
    ]
    if len(casts) < 2:
        return Fraction(0)
    joined = add(*(mul(const(int(coefficients.pop(t))), t.args[0]) for t in casts))
    number, rest = split_coefficient(as_float(joined))
    if rest is None:
        return number
    coefficients[rest] = coefficients.get(rest, Fraction(0)) + number
    return Fraction(0)


def _is_whole(number: Number) -> bool:
    return isinstance(number, Fraction) and number.denominator == 1


def neg(t: Term) -> Term:
    """-t."""
    return mul(const(-1), t)


def sub(a: Term, b: Term) -> Term:
    """a - b."""
    return add(a, neg(b))


def _factors(terms: Iterable[Term]) -> Iterable[Term]:
    stack = list(terms)[::-1]
    while stack:
        t = stack.pop()
        if t.op == "mul":
            stack.extend(reversed(t.args))
        else:
            yield t


def base_and_power(t: Term) -> tuple[Term, Fraction]:
    """t = base ** power with a rational power."""
    return (t.args[0], t.attr) if t.op == "pow" else (t, Fraction(1))


def mul(*terms: Term) -> Term:
    """The product, powers of equal bases collected and exponentials joined."""
    operands, kind = _promote(terms)
    number: Number = Fraction(1)
    powers: dict[Term, Fraction] = {}
    exponents: list[Term] = []
    conditions: list[Term] = []
    divisors: list[Term] = []
    for t in _factors(operands):
        if t.op == "const":
            number = number * t.attr
        elif is_bracket(t):
            conditions.append(t.args[0])
        elif t.op == "pow" and is_bracket(t.args[0]):
            divisors.append(t.args[0].args[0])
        elif t.op == "exp":
            exponents.append(t.args[0])
        else:
            base, power = base_and_power(t)
            powers[base] = powers.get(base, Fraction(0)) + power
    _join_absolute_values(powers)
    if number == 0 or number != number:  # 0 * inf is 0: equal wherever the source is finite
        return const(0, kind)
    parts = [power_of(base, power) for base, power in powers.items() if power != 0]
    empty = [base for base in powers if may_be_empty(base)]
    conditions += [is_there(base) for base in empty if powers[base] == 0]
    if conditions or divisors:  # but for what need not be said, as the product is 0 without it
        there = [is_there(base) for base in empty if powers[base] != 0]
        sums = [base for base in empty if powers[base] > 0]
        holds = conjunction(*(c for c in conjuncts(conjunction(*conditions)) if c not in there))
        holds = conjunction(*(c for c in conjuncts(holds) if not _is_said(c, sums)))
        if holds is not TRUE:
            parts.append(as_float(holds) if kind == "float" else as_int(holds))
        known = {*there, *conjuncts(holds)}
        under = conjunction(*(c for c in conjuncts(conjunction(*divisors)) if c not in known))
        under = conjunction(*(c for c in conjuncts(under) if not _is_said(c, sums)))
        if under is not TRUE:
            parts.append(power_of(bracket(under), -1))
    if exponents:
        parts.append(exp(add(*exponents)) if len(exponents) > 1 else _exp(exponents[0]))
    if any(t.op in ("const", "mul") for t in parts) or sum(t.op == "exp" for t in parts) > 1:
        return mul(const(number, kind), *parts)
    if not parts:
        return const(number, kind)
    if len(parts) == 1 and number != 1:  # numbers distribute
        (only,) = parts
        if only.op == "add":
            return add(*(mul(const(number, kind), t) for t in only.args))
        if only.op == "cast" and only.args[0].op == "add" and _is_whole(number):
            return as_float(mul(const(int(number)), only.args[0]))
    parts.sort(key=lambda t: t.key)
    if number != 1:
        parts.insert(0, const(number, kind))
    return parts[0] if len(parts) == 1 else _intern("mul", tuple(parts), None, kind)


def _join_absolute_values(powers: dict[Term, Fraction]) -> None:
    """x ** 2 * abs(x) is abs(x) ** 3, and abs(x) ** 2 is x ** 2."""
    for size in [base for base in powers if base.op == "abs"]:
        (x,) = size.args
        even = powers.get(x, Fraction(0)) // 2 * 2
        power = powers.pop(size) + even
        if power % 2 == 0:
            powers[x] = powers.get(x, Fraction(0)) - even + power
        else:
            powers[size] = power
            if even:
                powers[x] -= even


def may_be_empty(t: Term) -> bool:
    """Is t 0 where a fold has no element, so that t / t is 0 there and not 1?

    A filter leaves rows without elements, and so do weights that are all exp(-inf).
    """
    match t.op:
        case "stored":
            return may_be_empty(t.attr.body)
        case "cast" | "field":
            return may_be_empty(t.args[0])
        case "fold":
            if t.attr.name not in ("sum", "SE"):
                return False
            weighted = any(f.op == "exp" or may_be_empty(f) for f in _factors(t.args[1:2]))
            return t.args[0] is not TRUE or weighted or t.attr.name == "SE"
        case "add":
            return all(map(may_be_empty, t.args))
        case "mul":
            return any(map(may_be_empty, t.args))
        case "pow":
            return t.attr > 0 and may_be_empty(t.args[0])
    return False


def _is_said(condition: Term, sums: Iterable[Term]) -> bool:
    """Is the condition 0 < z for a sum z without which one of the sums is 0, too?"""
    if condition.op != "compare" or condition.args[0] is not const(0, condition.args[1].kind):
        return False
    return any(_vanishes_with(t, condition.args[1]) for t in sums)


def _vanishes_with(t: Term, z: Term) -> bool:
    """Is t 0 wherever z is: a sum over the domain of z or part of it, of multiples of z's
    positive elements?"""
    (t, *v), (z, *w) = ((*x.args, x.attr) if x.op == "field" else (x,) for x in (t, z))
    if not (t.op == z.op == "fold") or v != w or t.attr.extents != z.attr.extents:
        return False
    if t.attr.monoid != z.attr.monoid or t.attr.name not in ("sum", "SE") or v == ["m"]:
        return False
    names = [f"@{n}" for n in range(len(t.attr.indices))]
    _, (within, x, *exponent) = open_as(t, names)
    _, (domain, y, *other) = open_as(z, names)
    if exponent != other or not set(conjuncts(domain)) <= set(conjuncts(within)):
        return False
    return is_positive(y) and _vanishing(y) <= _vanishing(x)


def _vanishing(t: Term) -> set[Term]:
    """What makes a product 0 where it is 0: sums that may be empty, and addends of an exponent
    that are -inf."""
    found = {f for f in _factors([t]) if may_be_empty(f)}
    for f in _factors([t]):
        if f.op == "exp":
            found |= set(f.args[0].args if f.args[0].op == "add" else f.args)
    return found


def is_there(t: Term) -> Term:
    """t != 0, for a t that may be empty: the bracket [t != 0] is what t / t is."""
    return compare("<" if is_positive(t) else "!=", const(0, t.kind), t)


def is_bracket(t: Term) -> bool:
    """[condition]: a truth value as a number."""
    return t.op == "cast" and t.args[0].kind == "bool"


def bracket(condition: Term) -> Term:
    """1 where the condition holds, else 0, as a float."""
    return as_float(condition)


def power_of(base: Term, power: Fraction | int) -> Term:
    """base ** power for a rational power.

    A product's power is the product of powers where that is true for reals: for whole
    powers, and for the factors that are not negative. A bracket is its own power; under a
    divisor it is 1 or infinite.
    """
    power = Fraction(power)
    if power == 0:
        return const(1, base.kind)
    if power == 1 or (power > 0 and is_bracket(base)):
        return base
    if base.kind != "float" and (power.denominator != 1 or power < 0):
        base = as_float(base)
    if base.op == "const":
        if base.attr == 0:  # 0, or infinite whatever the power
            return base if power > 0 else _intern("pow", (base,), Fraction(-1), base.kind)
        exact = _exact_power(base.attr, power)
        if exact is not None:
            return const(exact, base.kind)
    if is_bracket(base):
        power = Fraction(-1)
    if base.op == "abs" and power % 2 == 0:
        return power_of(base.args[0], power)
    if base.op == "exp":
        return exp(mul(const(power, "float"), base.args[0]))
    if base.op == "pow":
        inner, first = base.args[0], base.attr
        if first % 2 == 0 and (first * power) % 2 != 0:  # (x ** 2) ** (1 / 2) is abs(x)
            inner = function("abs", inner)
        return power_of(inner, first * power)
    if base.op == "mul":
        if power.denominator == 1:
            return mul(*(power_of(t, power) for t in base.args))
        # 0 times a negative number has a root, so beside unknown signs 0 must not leave.
        leaves = is_nonnegative if all(map(is_nonnegative, base.args)) else is_positive
        outside = [power_of(t, power) for t in base.args if leaves(t)]
        rest = [t for t in base.args if not leaves(t)]
        if outside:
            return mul(*outside, power_of(mul(*rest), power)) if rest else mul(*outside)
    if base.op == "add" and power % 2 == 0:
        base = _leading_positive(base)
    return _intern("pow", (base,), power, base.kind)


def _leading_positive(t: Term) -> Term:
    """t or -t, whichever has a positive coefficient before its first addend, by the order
    of addends without their coefficients."""
    parts = [(number, rest) for number, rest in map(split_coefficient, t.args) if rest is not None]
    number, _ = min(parts, key=lambda part: part[1].key)
    return neg(t) if number < 0 else t


def _exact_power(number: Number, power: Fraction) -> Number | None:
    """number ** power where that is a rational number of moderate size."""
    if isinstance(number, float) or abs(power.numerator) > 64 or (number == 0 and power < 0):
        return None
    if power.denominator == 1:
        size = max(number.numerator.bit_length(), number.denominator.bit_length())
        if size > 64 and abs(power) != 1:
            return None
        return number ** int(power)
    if power.denominator == 2 and number > 0:
        roots = math.isqrt(number.numerator), math.isqrt(number.denominator)
        if roots[0] ** 2 == number.numerator and roots[1] ** 2 == number.denominator:
            return _exact_power(Fraction(*roots), Fraction(power.numerator))
    return None


def divide(a: Term, b: Term) -> Term:
    """a / b, as floats."""
    return mul(as_float(a), power_of(as_float(b), -1))


# --- facts ----------------------------------------------------------------------------

_ASKED: list[dict[tuple[str, Term], None]] = []


@contextmanager
def facts_asked() -> Iterator[dict[tuple[str, Term], None]]:
    """What `is_positive` and `is_nonnegative` say yes to meanwhile: what a rule relied on."""
    _ASKED.append({})
    try:
        yield _ASKED[-1]
    finally:
        _ASKED.pop()


def _fact(decide: Callable[[Term], bool]) -> Callable[[Term], bool]:
    """A fact about a term, remembered, and noted where somebody wants to know."""
    decided = lru_cache(maxsize=65536)(decide)

    @wraps(decide)
    def ask(t: Term) -> bool:
        holds = decided(t)
        if holds and _ASKED:
            _ASKED[-1][decide.__name__, t] = None
        return holds

    return ask


@_fact
def is_positive(t: Term) -> bool:
    """Provably > 0. A sum is positive when its elements are and it is not empty; the
    quotient by an empty sum is 0 by definition, so cancelling it stays right."""
    match t.op:
        case "const":
            return t.kind != "bool" and t.attr > 0
        case "exp" | "extent":
            return True
        case "stored":
            return is_positive(t.attr.body)
        case "cast":
            return is_positive(t.args[0])
        case "pow":
            return is_positive(t.args[0])
        case "mul":
            return all(map(is_positive, t.args))
        case "add":
            return all(map(is_nonnegative, t.args)) and any(map(is_positive, t.args))
        case "fold":
            return t.attr.name == "sum" and is_positive(t.args[1])
        case "field":  # the mantissa of such a sum
            (fold_,) = t.args
            return t.attr == "v" and fold_.attr.name == "SE" and is_positive(fold_.args[1])
    return False


@_fact
def is_nonnegative(t: Term) -> bool:
    """Provably >= 0."""
    match t.op:
        case "abs" | "relu" | "sigmoid" | "softplus" | "uniform" | "index":
            return True
        case "stored":
            return is_nonnegative(t.attr.body)
        case "cast":
            return t.args[0].kind == "bool" or is_nonnegative(t.args[0])
        case "pow":
            even = t.attr.denominator == 1 and t.attr.numerator % 2 == 0
            return even or t.attr.denominator == 2 or is_nonnegative(t.args[0])
        case "mul" | "add" | "mod":
            return all(map(is_nonnegative, t.args))
        case "floordiv" | "minimum":
            return all(map(is_nonnegative, t.args))
        case "maximum":
            return any(map(is_nonnegative, t.args))
        case "const":
            return t.kind != "bool" and t.attr >= 0
        case "fold":
            if t.attr.name in ("sum", "prod"):
                return is_nonnegative(t.args[1])
    return is_positive(t)


# --- functions ------------------------------------------------------------------------


def function(name: str, *args: Term) -> Term:
    """A scalar function of the language by name, brought to the constructors above."""
    simple = _CONSTRUCTORS.get(name)
    if simple is not None:
        return simple(*args)
    if name == "where":
        return where(*args)
    if name in ("maximum", "minimum"):
        operands, kind = _promote(args)
        if operands[0] is operands[1]:
            return operands[0]
        if all(t.op == "exp" for t in operands):  # which is monotone
            return exp(function(name, *(t.args[0] for t in operands)))
        if all(t.op == "const" for t in operands):
            return const((max if name == "maximum" else min)(t.attr for t in operands), kind)
        operands.sort(key=lambda t: t.key)
        return _intern(name, tuple(operands), None, kind)
    if name in ("abs", "sign", "relu", "stop"):
        (operand,) = args
        operand = as_float(operand) if name == "relu" else as_int(operand)
        if name in ("abs", "relu"):
            if is_nonnegative(operand):
                return operand
            if operand.op == "const":
                return neg(operand) if name == "abs" else const(0, operand.kind)
            scale, operand = _scale(operand, even=name == "abs")
            if scale is not None:
                return mul(scale, function(name, operand))
        return _intern(name, (operand,), None, operand.kind)
    if name == "uniform":
        return _intern(name, _ints(args), None, "float")
    return _intern(name, tuple(as_float(t) for t in args), None, "float")


def _scale(t: Term, even: bool) -> tuple[Term | None, Term]:
    """(positive factor, rest): what leaves a homogeneous function, f(a x) = a f(x) for a > 0;
    an even one loses its operand's sign, too."""
    if even and t.op == "add" and _leading_positive(t) is not t:
        return const(1, t.kind), neg(t)
    number, rest = split_coefficient(t)
    if rest is None or isinstance(number, float):
        return None, t
    factors = rest.args if rest.op == "mul" else (rest,)
    outside = [f for f in factors if is_nonnegative(f)]
    if abs(number) == 1 and not outside and (number == 1 or not even):
        return None, t
    sign = 1 if number > 0 or even else -1
    inside = mul(const(sign, t.kind), *(f for f in factors if f not in outside))
    return mul(const(abs(number), t.kind), *outside), inside


def exp(exponent: Term) -> Term:
    """e ** exponent. Results of folds are multiplied out of products in the exponent, so
    that they can cancel; logarithms leave as powers, and -inf as a bracket."""
    return _exp(multiply_out(as_float(exponent)))


def _exp(exponent: Term) -> Term:
    addends = exponent.args if exponent.op == "add" else (exponent,)
    factors: list[Term] = []
    kept: list[Term] = []
    for t in addends:
        number, rest = split_coefficient(t)
        if rest is None and number == -math.inf:
            return ZERO
        if rest is not None and rest.op == "log" and isinstance(number, Fraction):
            factors.append(power_of(rest.args[0], number))
        elif number > 0 and rest is not None and rest.op == "where" and NEG_INF in rest.args[1:]:
            condition, a, b = rest.args
            if a is NEG_INF:
                condition, a, b = negate(condition), b, a
            factors.append(bracket(condition))
            kept.append(mul(const(number, "float"), a))
        else:
            kept.append(t)
    if factors:
        return mul(*factors, exp(add(ZERO, *kept)))
    if exponent is ZERO:
        return ONE
    return _intern("exp", (exponent,), None, "float")


def inert(op: str, *args: Term, attr: Any = None) -> Term:
    """A float operation as it stands, not brought to canonical form: for printing, and for
    stating the laws that the constructors apply. Equal to the canonical term, and not it."""
    return _intern(op, args, attr, "float")


def multiply_out(t: Term) -> Term:
    """Distribute products over sums that hold a fold's result."""
    if t.op == "add":
        return add(*map(multiply_out, t.args))
    if t.op == "mul":
        for place, factor in enumerate(t.args):
            if factor.op == "add" and factor.folded:
                others = t.args[:place] + t.args[place + 1 :]
                return add(*(multiply_out(mul(*others, part)) for part in factor.args))
    return t


def log(x: Term) -> Term:
    """The natural logarithm; exponentials leave it."""
    x = as_float(x)
    if x is ONE:
        return ZERO
    if x.op == "exp":
        return x.args[0]
    if x.op == "mul":
        exponent = [t.args[0] for t in x.args if t.op == "exp"]
        if exponent:
            return add(*exponent, log(mul(*(t for t in x.args if t.op != "exp"))))
        apart = [t for t in x.args if is_positive(t) and not may_be_empty(t)]
        rest = [t for t in x.args if t not in apart]
        if apart and len(x.args) > 1:
            return add(*map(log, apart), log(mul(ONE, *rest)))
    if x.op == "pow" and (x.attr % 2 == 0 or is_nonnegative(x.args[0])):
        return mul(const(x.attr, "float"), log(function("abs", x.args[0])))
    return _intern("log", (x,), None, "float")


_LOG_2 = log(const(2, "float"))


def floordiv(a: Term, b: Term) -> Term:
    """a // b, rounded towards minus infinity."""
    return _integer_division("floordiv", a, b)


def modulo(a: Term, b: Term) -> Term:
    """a % b with the sign of b."""
    return _integer_division("mod", a, b)


def _integer_division(op: str, a: Term, b: Term) -> Term:
    (a, b), kind = _promote((a, b))
    if b.op == "const" and b.attr == 1 and kind == "int":
        return a if op == "floordiv" else const(0)
    if op == "floordiv" and a is b and a.op == "extent":
        return const(1)
    if a.op == "const" and b.op == "const" and b.attr != 0 and kind == "int":
        return const(int(a.attr // b.attr if op == "floordiv" else a.attr % b.attr))
    return _intern(op, (a, b), None, kind)


def general_power(a: Term, b: Term) -> Term:
    """a ** b with any exponent."""
    if b.op == "const" and isinstance(b.attr, Fraction):
        if b.kind == "int" and (b.attr >= 0 or a.kind == "float"):
            return power_of(as_int(a), b.attr)
        if b.attr.denominator <= 64 and abs(b.attr.numerator) <= 64:
            return power_of(as_float(a), b.attr)
    return _intern("power", (as_float(a), as_float(b)), None, "float")


_CONSTRUCTORS: dict[str, Callable[..., Term]] = {
    "exp": exp,
    "log": log,
    "exp2": lambda x: exp(mul(x, _LOG_2)),
    "log2": lambda x: divide(log(x), _LOG_2),
    "sqrt": lambda x: power_of(as_float(x), Fraction(1, 2)),
    "rsqrt": lambda x: power_of(as_float(x), Fraction(-1, 2)),
}


# --- conditions -----------------------------------------------------------------------


def compare(op: str, a: Term, b: Term) -> Term:
    """a op b; > and >= are turned round. Ints are compared in one form, as `_compare_ints` says."""
    if op in (">", ">="):
        return compare("<" if op == ">" else "<=", b, a)
    if a.kind == b.kind == "bool":
        a, b = as_int(a), as_int(b)
    (a, b), kind = _promote((a, b))
    if kind == "int":
        return _compare_ints(op, a, b)
    if op in ("==", "!=") and b.key < a.key:
        a, b = b, a
    if a.op == "const" and b.op == "const":
        table = {"<": a.attr < b.attr, "<=": a.attr <= b.attr, "==": a.attr == b.attr}
        return const(table.get(op, a.attr != b.attr))
    if a.op == b.op == "exp":  # which is monotone
        return compare(op, a.args[0], b.args[0])
    if a is ZERO and b.op == "mul" and any(t.op == "exp" for t in b.args):
        b = mul(*(t for t in b.args if t.op != "exp"))  # a positive factor keeps the sign
    elif b is ZERO and a.op == "mul" and any(t.op == "exp" for t in a.args):
        a = mul(*(t for t in a.args if t.op != "exp"))
    return _intern("compare", (a, b), op, "bool")


def _compare_ints(op: str, a: Term, b: Term) -> Term:
    """One term for `q - k >= 0`, `k <= q`, `not (k > q)`, `k < q + 1` and `2 * k <= 2 * q + 1`.

    What is subtracted on one side is added on the other, common factors leave, and a
    number that is left over stands where it is positive, with `<` in front of it.
    """
    addends, rest = split_addends(sub(b, a))  # 0 op addends + rest
    rest -= op == "<"
    divisor = math.gcd(*(int(number) for number, _ in addends))
    if not addends:
        return const({"==": rest == 0, "!=": rest != 0}.get(op, rest >= 0))
    if op in ("==", "!=") and rest % divisor != 0:
        return const(op == "!=")
    rest //= divisor  # rounded down: of whole numbers that is the same bound
    left, right = (
        [_times(abs(int(n)) // divisor, t) for n, t in addends if (n > 0) == side]
        for side in (False, True)
    )
    if op in ("<", "<="):
        if not left and rest >= 0 and all(map(is_nonnegative, right)):
            return TRUE
        if not right and rest < 0 and all(map(is_nonnegative, left)):
            return FALSE
        op, rest = ("<=", 0) if rest == 0 else ("<", rest + 1)
    left.append(const(max(0, -rest)))
    right.append(const(max(0, rest)))
    sides = add(*left), add(*right)
    if op in ("==", "!=") and sides[1].key < sides[0].key:
        sides = sides[::-1]
    return _intern("compare", sides, op, "bool")


def _times(number: int, t: Term) -> Term:
    return t if number == 1 else mul(const(number), t)


def split_addends(t: Term) -> tuple[list[tuple[Fraction, Term]], int]:
    """The int t as a sum of (coefficient, term) and a number."""
    addends, rest = [], 0
    for part in t.args if t.op == "add" else (t,):
        number, base = split_coefficient(part)
        assert isinstance(number, Fraction)  # no int is infinite
        if base is None:
            rest = int(number)
        else:
            addends.append((number, base))
    return addends, rest


def conjunction(*terms: Term) -> Term:
    """and"""
    return _logic("and", TRUE, FALSE, terms)


def disjunction(*terms: Term) -> Term:
    """or"""
    return _logic("or", FALSE, TRUE, terms)


def _logic(op: str, unit: Term, zero: Term, terms: Iterable[Term]) -> Term:
    parts: dict[Term, None] = {}
    for t in terms:
        for part in t.args if t.op == op else (t,):
            parts[part] = None
    if zero in parts:
        return zero
    parts.pop(unit, None)
    # What is decided from left to right may guard a read further right.
    ordered = sorted(parts, key=lambda t: (_depth_of_reads(t), t.key))
    if not ordered:
        return unit
    return ordered[0] if len(ordered) == 1 else _intern(op, tuple(ordered), None, "bool")


@lru_cache(maxsize=16384)
def _depth_of_reads(t: Term) -> int:
    """How many computed subscripts stand one inside the other; they may leave their tensor."""
    inside = max(map(_depth_of_reads, t.args), default=0)
    computed = t.op == "read" and any(a.op not in ("index", "const") for a in t.args)
    return inside + 1 if computed else inside


def negate(t: Term) -> Term:
    """not t; comparisons of integers turn round."""
    if t.op == "const":
        return const(not t.attr)
    if t.op == "not":
        return t.args[0]
    if t.op == "compare" and all(map(_is_never_nan, t.args)):
        a, b = t.args
        flipped = {
            "<": ("<=", b, a),
            "<=": ("<", b, a),
            "==": ("!=", a, b),
            "!=": ("==", a, b),
        }
        return compare(*flipped[t.attr])
    if t.op in ("and", "or"):
        dual = disjunction if t.op == "and" else conjunction
        return dual(*map(negate, t.args))
    return _intern("not", (t,), None, "bool")


def _is_never_nan(t: Term) -> bool:
    """Integers, numbers and random numbers are ordered; what is read may be NaN."""
    return (
        t.kind == "int"
        or t.op in ("const", "param", "uniform")
        or (t.op in ("cast", "add", "mul") and all(map(_is_never_nan, t.args)))
    )


def conjuncts(t: Term) -> tuple[Term, ...]:
    """The parts of a condition that must all hold."""
    if t is TRUE:
        return ()
    return t.args if t.op == "and" else (t,)


def where(condition: Term, a: Term, b: Term) -> Term:
    """a where the condition holds, else b."""
    if a.kind == b.kind == "bool":
        return disjunction(conjunction(condition, a), conjunction(negate(condition), b))
    (a, b), kind = _promote((a, b))
    if condition.op == "const":
        return a if condition.attr else b
    if a is b:
        return a
    if b.op == "const" and b.attr == 0 and a.op == "const" and a.attr == 1:
        return as_float(condition) if kind == "float" else as_int(condition)
    return _intern("where", (condition, a, b), None, kind)


# --- folds ----------------------------------------------------------------------------

INT_REDUCTIONS = ("argmax", "argmin", "argtop")
BOOL_REDUCTIONS = ("any", "all")


def _fold_kind(name: str, bodies: tuple[Term, ...]) -> Kind:
    if name in INT_REDUCTIONS:
        return "int"
    if name in BOOL_REDUCTIONS:
        return "bool"
    if name in ("sum", "max", "min", "prod"):
        return bodies[0].kind
    return "float"


def fold(
    monoid: str | UserMonoid,
    opened: tuple[Term, ...],
    condition: Term,
    *bodies: Term,
    target: str | None = None,
) -> Term:
    """Fold the bodies over the opened indices where the condition holds.

    `opened` are index terms that occur free in the condition and bodies; the fold binds
    them under canonical names.
    """
    if not isinstance(monoid, str) or monoid not in BOOL_REDUCTIONS:
        bodies = tuple(as_int(t) for t in bodies)
    if monoid in ("mean", "var", "logsumexp", "softmax", "log_softmax", "top"):
        bodies = tuple(as_float(t) for t in bodies)
    if not isinstance(monoid, str):
        bodies = tuple(as_float(t) for t in bodies)
    if isinstance(monoid, str) and (condition is FALSE or bodies[0].op == "const"):
        unit = _unit(monoid, _fold_kind(monoid, bodies))
        if unit is not None and (condition is FALSE or bodies[0] is unit):
            return unit
    binder, args = _close(monoid, opened, (condition, *bodies), target)
    return _intern("fold", args, binder, _fold_kind(binder.name, args[1:]))


def _unit(monoid: str, kind: Kind) -> Term | None:
    """What an aggregate over nothing is."""
    if monoid in ("max", "min"):
        return None if kind == "int" else NEG_INF if monoid == "max" else INF
    if monoid in BOOL_REDUCTIONS:
        return const(monoid == "all")
    if monoid == "logsumexp":
        return NEG_INF
    return const(1 if monoid == "prod" else 0, kind)


def fold_at(
    monoid: str | UserMonoid,
    place: Term,
    opened: Term,
    condition: Term,
    *bodies: Term,
    target: str | None = None,
) -> Term:
    """An aggregate that keeps its index, taken at `place`: a softmax's element there, the
    prefix up to there, or the entry of `top` of that rank.

    The language has no word for such an aggregate at a computed place, nor at one that the
    bodies depend on: these are written by their definitions.
    """
    if monoid in ("softmax", "log_softmax", "top", "argtop"):
        bodies = tuple(as_float(t) for t in bodies)
    binder, args = _close(monoid, (opened,), (condition, *bodies), target)
    t = _intern("fold_at", (place, *args), binder, _fold_kind(binder.name, args[1:]))
    if target is None and (place.op != "index" or any(place.attr[0] in a.free for a in args)):
        return by_definition(t)
    return t


def by_definition(t: Term) -> Term:
    """A softmax, log_softmax or prefix in terms of the aggregate that it is defined with."""
    place = t.args[0]
    (bound,), (condition, *bodies) = open_fold(t)
    monoid, here = t.attr.monoid, {bound.attr[0]: place}
    if monoid not in ("softmax", "log_softmax"):
        earlier = conjunction(condition, compare("<=", bound, place))
        return fold(monoid, (bound,), earlier, *bodies)
    return substitute(softmax(monoid, (bound,), condition, bodies[0]), here)


def softmax(monoid: str, opened: tuple[Term, ...], condition: Term, x: Term) -> Term:
    """A softmax or log_softmax over the opened indices, at their own place."""
    x = as_float(x)
    if monoid == "log_softmax":
        return where(condition, sub(x, fold("logsumexp", opened, condition, x)), NEG_INF)
    return divide(mul(bracket(condition), exp(x)), fold("sum", opened, condition, exp(x)))


def _close(
    monoid: str | UserMonoid,
    opened: tuple[Term, ...],
    parts: tuple[Term, ...],
    target: str | None,
) -> tuple[Binder, tuple[Term, ...]]:
    height = max(t.height for t in parts)
    names = {t.attr[0]: f"%{height + n + 1}" for n, t in enumerate(opened)}
    extents = tuple(t.attr[1] for t in opened)
    mapping = {t.attr[0]: index(names[t.attr[0]], t.attr[1]) for t in opened}
    closed = tuple(_rename(t, mapping, {}) for t in parts)
    return Binder(monoid, tuple(names.values()), extents, target), closed


@lru_cache(maxsize=16384)
def open_fold(t: Term) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """The bound indices of a fold under free names, and its condition and bodies with them.

    The names depend on the term alone, so that equal folds open to equal parts.
    """
    binder: Binder = t.attr
    parts = t.args if t.op == "fold" else t.args[1:]
    opened = []
    number = t.height - len(binder.indices)
    for extent_name in binder.extents:
        number += 1
        while f"${number}" in t.free:
            number += 1
        opened.append(index(f"${number}", extent_name))
    mapping = dict(zip(binder.indices, opened, strict=True))
    memo: dict[Term, Term] = {}
    return tuple(opened), tuple(_rename(p, mapping, memo) for p in parts)


def is_open(t: Term) -> bool:
    """Does t stand inside of a fold that `open_fold` has opened, and vary with its index?"""
    return any(name.startswith("$") for name in t.free)


def open_as(t: Term, names: Iterable[str]) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Like `open_fold`, under names of the caller's choice that are not free in t."""
    binder: Binder = t.attr
    opened = tuple(index(n, e) for n, e in zip(names, binder.extents, strict=True))
    mapping = dict(zip(binder.indices, opened, strict=True))
    memo: dict[Term, Term] = {}
    parts = t.args if t.op == "fold" else t.args[1:]
    return opened, tuple(_rename(p, mapping, memo) for p in parts)


@lru_cache(maxsize=16384)
def domain_of(t: Term) -> tuple[tuple[str, ...], Term]:
    """The extents and the filter of a fold, the same for all folds over one domain."""
    names = tuple(f"@{n}" for n in range(len(t.attr.indices)))
    return t.attr.extents, open_as(t, names)[1][0]


def _rename(t: Term, mapping: Mapping[str, Term], memo: dict[Term, Term]) -> Term:
    """Rename free indices. Never captures: bound names are numbers, given ones are not,
    or are larger than any number inside."""
    if t.free.isdisjoint(mapping):
        return t
    found = memo.get(t)
    if found is None:
        if t.op == "index":
            found = mapping[t.attr[0]]
        else:
            found = rebuild(t, tuple(_rename(a, mapping, memo) for a in t.args))
        memo[t] = found
    return found


def rebuild(t: Term, args: tuple[Term, ...]) -> Term:
    """t with other operands, through the constructors. A fold keeps its binder, so its
    operands must be written with the same bound names."""
    if args == t.args:
        return t
    match t.op:
        case "add":
            return add(*args)
        case "mul":
            return mul(*args)
        case "pow":
            return power_of(args[0], t.attr)
        case "cast":
            return as_float(args[0]) if t.kind == "float" else as_int(args[0])
        case "compare":
            return compare(t.attr, *args)
        case "and":
            return conjunction(*args)
        case "or":
            return disjunction(*args)
        case "not":
            return negate(args[0])
        case "floordiv" | "mod":
            return _integer_division(t.op, *args)
        case "power":
            return general_power(*args)
        case "read":
            return read(t.attr, args, t.kind)
        case "ref":
            return ref(t.attr, args, t.kind)
        case "stored":
            return stored(t.attr, args)
        case "fold" | "fold_at" | "field":
            return _intern(t.op, args, t.attr, t.kind)
    return function(t.op, *args)


def field(t: Term, name: str) -> Term:
    """One field of a user monoid's aggregate."""
    return _intern("field", (t,), name, "float")


def refold(t: Term, condition: Term, *bodies: Term, opened: tuple[Term, ...]) -> Term:
    """The fold t with other opened parts."""
    return fold(t.attr.monoid, opened, condition, *bodies, target=t.attr.target)


# --- walking --------------------------------------------------------------------------


def map_children(t: Term, f: Callable[[Term], Term]) -> Term:
    """Apply f to the operands; below a binder to the opened parts."""
    if not t.args:
        return t
    if t.op == "fold":
        opened, parts = open_fold(t)
        new = tuple(map(f, parts))
        return t if new == parts else refold(t, *new, opened=opened)
    if t.op == "fold_at":
        opened, parts = open_fold(t)
        place, new = f(t.args[0]), tuple(map(f, parts))
        if new == parts and place is t.args[0]:
            return t
        return fold_at(t.attr.monoid, place, opened[0], *new, target=t.attr.target)
    return rebuild(t, tuple(map(f, t.args)))


def children(t: Term) -> tuple[Term, ...]:
    """The operands; below a binder the opened parts."""
    if t.op == "fold":
        return open_fold(t)[1]
    if t.op == "fold_at":
        return (t.args[0], *open_fold(t)[1])
    return t.args


def subterms(*roots: Term) -> Iterable[Term]:
    """Every subterm once, operands before the terms that hold them."""
    seen: set[Term] = set()
    stack: list[tuple[Term, bool]] = [(t, False) for t in reversed(roots)]
    while stack:
        t, done = stack.pop()
        if done:
            yield t
        elif t not in seen:
            seen.add(t)
            stack.append((t, True))
            stack.extend((a, False) for a in reversed(children(t)))


def substitute(t: Term, mapping: Mapping[str, Term]) -> Term:
    """Replace free indices by integer terms, without capture."""
    return _substitute(t, mapping, {})


_FRESH = iter(range(1, 1 << 62))


def _substitute(t: Term, mapping: Mapping[str, Term], memo: dict[Term, Term]) -> Term:
    if t.free.isdisjoint(mapping):
        return t
    found = memo.get(t)
    if found is not None:
        return found
    if t.op == "index":
        found = mapping[t.attr[0]]
    elif t.op in ("fold", "fold_at"):
        # The given terms may hold any name: open under one that nothing else has.
        binder: Binder = t.attr
        opened = tuple(index(f"~{next(_FRESH)}", e) for e in binder.extents)
        inner = dict(zip(binder.indices, opened, strict=True))
        parts = t.args if t.op == "fold" else t.args[1:]
        new = tuple(_substitute(_rename(p, inner, {}), mapping, memo) for p in parts)
        if t.op == "fold":
            found = fold(binder.monoid, opened, *new, target=binder.target)
        else:
            place = _substitute(t.args[0], mapping, memo)
            found = fold_at(binder.monoid, place, opened[0], *new, target=binder.target)
    else:
        found = rebuild(t, tuple(_substitute(a, mapping, memo) for a in t.args))
    memo[t] = found
    return found


def replace(t: Term, old: Term, new: Term, memo: dict[Term, Term] | None = None) -> Term:
    """Replace every occurrence of a subterm, also below binders (in opened form)."""
    memo = {} if memo is None else memo
    found = memo.get(t)
    if found is None:
        found = new if t is old else map_children(t, lambda a: replace(a, old, new, memo))
        memo[t] = found
    return found
