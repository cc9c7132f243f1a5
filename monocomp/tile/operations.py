"""The operations of kernels, in one table for all that reads them.

An operation is added here: `apply` then knows how it is typed, printers and the parser how it
is written, the interpreter which function of NumPy and torch it is, and the counters what it
costs. `SIGNS` writes some of them between two operands, and has their values for two numbers, which
constructors fold.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from monocomp.declarations.record import record
from monocomp.declarations.vocabulary import Kind

# What a part of an attribute is: a number, something by its name, or one of a few words.
Sort: TypeAlias = Literal["value", "param", "extent", "axis", "local", "tensor"]
Words: TypeAlias = tuple[str | None, ...]
# What does an operation: matrix units, lanes, or the few lanes for special functions.
Unit: TypeAlias = Literal["matrix", "element", "special"]
Typing: TypeAlias = Callable[[Any, tuple[Kind, ...]], Kind | None]

# What a reduction joins its elements by.
JOIN = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
_KIND_OF: dict[type, Kind] = {bool: "bool", int: "int", float: "float"}


@record()
class Operation:
    """A row of the table.

    Attributes:
        name: what `Expr.op` says.
        least, most: how many operands it takes; no `most` means any number.
        attr: what each part of its attribute is.
        kind: the kind of the result, from the attribute and the kinds of the operands; None if
            they do not fit. An operation without this rule has the kind of what it names.
        array: the function that it is on arrays, in NumPy and torch, for element-wise operations.
        device: the function that it is in the languages of GPUs; None if it is made of others.
        unit: what does it; None if it costs no operation.
        each: operations for each element, of the axis that is reduced too.
        reduces: is the last part of the attribute an axis that operands have and the result lacks?
    """

    name: str
    least: int
    most: int | None
    attr: tuple[Sort | Words, ...] = ()
    kind: Typing | None = None
    array: str | None = None
    unit: Unit | None = None
    each: int = 0
    reduces: bool = False
    device: str | None = None

    @property
    def is_elementwise(self) -> bool:
        """True if each element of the result is that of the operands' elements."""
        return self.array is not None or self.name in ("compare", "cast")

    def takes(self, count: int) -> bool:
        """True if this is a number of operands that it has."""
        return self.least <= count and (self.most is None or count <= self.most)

    def parts(self, attr: Any) -> tuple[Any, ...]:
        """Return the parts of an attribute."""
        if isinstance(attr, tuple):
            return attr
        return (attr,) if self.attr or attr is not None else ()

    def reduced(self, attr: Any) -> str | None:
        """Return the axis that operands have and the result lacks."""
        return self.parts(attr)[-1] if self.reduces else None


def _always(kind: Kind) -> Typing:
    return lambda attr, kinds: kind


def _alike(*allowed: Kind, to: Kind | None = None) -> Typing:
    """Return the operands of one kind, one of these, and a result of that kind, or of a given
    one."""

    def kind(attr: Any, kinds: tuple[Kind, ...]) -> Kind | None:
        first = kinds[0]
        is_typed = first in allowed and all(k == first for k in kinds)
        return to or first if is_typed else None

    return kind


def _masked(attr: Any, kinds: tuple[Kind, ...]) -> Kind | None:
    return kinds[0] if _KIND_OF.get(type(attr[1])) == kinds[0] else None


def _where(attr: Any, kinds: tuple[Kind, ...]) -> Kind | None:
    condition, a, b = kinds
    return a if condition == "bool" and a == b else None


_NUMBERS = _alike("int", "float")
_FLOATS = _alike("float")
_BOOLS = _alike("bool")
_TRUTHS = _alike("int", "float", to="bool")


def _element(
    name: str,
    arity: int,
    kind: Typing,
    array: str | None = None,
    mark: str | None = None,
    device: str | None = None,
) -> Operation:
    """Return an operation that may have a mark as its attribute."""
    attr, array = ((None, mark),) if mark else (), array or name
    return Operation(name, arity, arity, attr, kind, array, "element", 1, False, device)


def _special(name: str) -> Operation:
    return Operation(name, 1, 1, (), _FLOATS, name, "special", 1, device=name)


OPERATIONS: dict[str, Operation] = {
    o.name: o
    for o in (
        # Leaves.
        Operation("number", 0, 0, ("value",), lambda attr, kinds: _KIND_OF.get(type(attr))),
        Operation("param", 0, 0, ("param",)),
        Operation("extent", 0, 0, ("extent",), _always("int")),
        Operation("coordinate", 0, 0, ("axis",), _always("int")),
        Operation("local", 0, 0, ("local",)),
        Operation("load", 0, None, ("tensor",)),
        # Along an axis.
        Operation("contract", 2, 3, ("axis",), _NUMBERS, None, "matrix", 2, True),
        Operation("reduce", 1, 1, (tuple(JOIN), "axis"), _NUMBERS, None, "element", 1, True),
        Operation("masked", 1, 1, ("axis", "value"), _masked),
        # Element by element.
        Operation("cast", 1, 1, (("float", "int"),), lambda attr, kinds: attr),
        Operation("stop", 1, 1, (), _NUMBERS, "asarray"),
        _element("add", 2, _NUMBERS),
        _element("sub", 2, _NUMBERS, "subtract"),
        _element("mul", 2, _NUMBERS, "multiply"),
        _element("neg", 1, _NUMBERS, "negative"),
        _element("abs", 1, _NUMBERS, device="abs"),
        _element("sign", 1, _NUMBERS),
        _element("floor", 1, _FLOATS, device="floor"),
        _element("floordiv", 2, _NUMBERS, "floor_divide", "nonnegative"),
        _element("mod", 2, _NUMBERS, "remainder", "nonnegative"),
        _element("maximum", 2, _NUMBERS, None, "frame"),
        _element("minimum", 2, _NUMBERS, None, "frame"),
        Operation("compare", 2, 2, (("<", "<=", "==", "!="),), _TRUTHS, None, "element", 1),
        _element("and", 2, _BOOLS, "logical_and"),
        _element("or", 2, _BOOLS, "logical_or"),
        _element("not", 1, _BOOLS, "logical_not"),
        _element("where", 3, _where),
        Operation("uniform", 1, None, (), _alike("int", to="float"), "uniform", "element", 1),
        Operation("div", 2, 2, (), _FLOATS, "divide", "special", 1),
        *map(_special, ("exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf")),
        Operation("tanh", 1, 1, (), _FLOATS, "tanh", "special", 1),
    )
}
# Element-wise operations of block programs alone, or in a form of their own there.
_SCHEDULED = {
    *("bitand", "bitor", "next_bits", "between", "float_floordiv", "float_mod", "tanh", "weight"),
    *("unknown", "unchained", "ended", "to"),
}


def is_elementwise(op: str) -> bool:
    """True if each element of a block program's value is made from that of the operands."""
    row = OPERATIONS.get(op)
    return op in _SCHEDULED or (row is not None and row.is_elementwise)


def unit_of(op: str) -> Unit | None:
    """Return what does an operation of a block program."""
    return None if op in _SCHEDULED or op not in OPERATIONS else OPERATIONS[op].unit


@record()
class Sign:
    """A way to write an operation between two operands.

    Attributes:
        text: what stands there.
        op, attr: the operation.
        value: the function of two numbers, as GPUs compute it.
        binds: signs that bind alike are done from left to right; None if they are not chained.
        unit: x sign unit = x.
        zero: x sign zero = zero.
        commutes: x sign y = y sign x.
    """

    text: str
    op: str
    value: Callable[[Any, Any], Any]
    binds: int | None = None
    unit: int | bool | None = None
    zero: int | bool | None = None
    commutes: bool = False
    attr: str | None = None

    @property
    def is_truth(self) -> bool:
        """True if the result is a truth value, whatever the operands are."""
        return self.op in ("compare", "and", "or")


def divided(a: int, b: int) -> int:
    """a / b rounded towards 0, as on GPUs."""
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    **{"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne},
    **{">": operator.gt, ">=": operator.ge},
}
SIGNS: dict[str, Sign] = {
    row.text: row
    for row in (
        Sign("+", "add", operator.add, 1, 0, commutes=True),
        Sign("-", "sub", operator.sub, 1, 0),
        Sign("*", "mul", operator.mul, 2, 1, 0, commutes=True),
        Sign("/", "div", operator.truediv, 2),
        Sign("//", "floordiv", divided, 2, 1, attr="nonnegative"),
        Sign("%", "mod", lambda a, b: a - divided(a, b) * b, 2, attr="nonnegative"),
        Sign("&", "bitand", operator.and_, 3, True, False, commutes=True),
        Sign("|", "bitor", operator.or_, 4, False, True, commutes=True),
        Sign("and", "and", lambda a, b: a and b, 5, True, False, commutes=True),
        Sign("or", "or", lambda a, b: a or b, 6, False, True, commutes=True),
        *(Sign(text, "compare", value, attr=text) for text, value in _COMPARED.items()),
    )
}
_SIGN_OF = {(row.op, row.attr): row for row in SIGNS.values()}


def sign_of(op: str, attr: Any) -> Sign | None:
    """Return the sign between the operands of an operation; None if it is written as a call."""
    return _SIGN_OF.get((op, attr))


def result_kind(row: Operation, attr: Any, kinds: tuple[Kind, ...]) -> Kind | None:
    """Return the kind of an operation's result; None if the operands do not fit, or it is not
    the operands that say it."""
    if row.kind is None or not row.takes(len(kinds)):
        return None
    return row.kind(attr, kinds)
