"""The operations of tile programs, in one table that everything that has to know them reads.

An operation is added here: the verifier then knows how it is typed, the printer and the parser
how it is written, the interpreter which function of NumPy and torch it is, and the counters what
it costs. A backend that emits source has a table of its own, by the same names.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from monocomp.declarations.vocabulary import Kind

# What a part of an attribute is: a number, something by its name, or one of a few words.
Sort: TypeAlias = Literal["value", "param", "extent", "axis", "local", "tensor"]
Words: TypeAlias = tuple[str | None, ...]
# What does an operation: matrix units, lanes, or the few lanes for special functions.
Unit: TypeAlias = Literal["matrix", "element", "special"]
Typing: TypeAlias = Callable[[Any, tuple[Kind, ...]], Kind | None]

SIGNS = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne}
# What a reduction joins its elements by.
JOIN = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
_KIND_OF: dict[type, Kind] = {bool: "bool", int: "int", float: "float"}


@dataclass(frozen=True)
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
        sign: its text between two operands, if it has one and is marked where it may be.
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
    sign: str | None = None

    def parts(self, attr: Any) -> tuple[Any, ...]:
        """The parts of an attribute."""
        if isinstance(attr, tuple):
            return attr
        return (attr,) if self.attr or attr is not None else ()

    def reduced(self, attr: Any) -> str | None:
        """The axis that operands have and the result lacks."""
        return self.parts(attr)[-1] if self.reduces else None


def _always(kind: Kind) -> Typing:
    return lambda attr, kinds: kind


def _alike(*allowed: Kind, to: Kind | None = None) -> Typing:
    """Operands of one kind, one of these, and a result of that kind, or of a given one."""

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
    sign: str | None = None,
) -> Operation:
    """An operation that may have a mark as its attribute."""
    attr, array = ((None, mark),) if mark else (), array or name
    return Operation(name, arity, arity, attr, kind, array, "element", 1, False, device, sign)


def _special(name: str) -> Operation:
    return Operation(name, 1, 1, (), _FLOATS, name, "special", 1, device=name)


OPERATIONS: dict[str, Operation] = {
    o.name: o
    for o in (
        # What is there without an operation.
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
        _element("add", 2, _NUMBERS, sign="+"),
        _element("sub", 2, _NUMBERS, "subtract", sign="-"),
        _element("mul", 2, _NUMBERS, "multiply", sign="*"),
        _element("neg", 1, _NUMBERS, "negative"),
        _element("abs", 1, _NUMBERS, device="abs"),
        _element("sign", 1, _NUMBERS),
        _element("floor", 1, _FLOATS, device="floor"),
        _element("floordiv", 2, _NUMBERS, "floor_divide", "nonnegative", sign="//"),
        _element("mod", 2, _NUMBERS, "remainder", "nonnegative", sign="%"),
        _element("maximum", 2, _NUMBERS, None, "frame"),
        _element("minimum", 2, _NUMBERS, None, "frame"),
        Operation("compare", 2, 2, (tuple(SIGNS),), _TRUTHS, None, "element", 1),
        _element("and", 2, _BOOLS, "logical_and", sign="and"),
        _element("or", 2, _BOOLS, "logical_or", sign="or"),
        _element("not", 1, _BOOLS, "logical_not"),
        _element("where", 3, _where),
        Operation("uniform", 1, None, (), _alike("int", to="float"), "uniform", "element", 1),
        Operation("div", 2, 2, (), _FLOATS, "divide", "special", 1, sign="/"),
        *map(_special, ("exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf")),
        Operation("tanh", 1, 1, (), _FLOATS, "tanh", "special", 1),
    )
}
INFIX = {o.name: o.sign for o in OPERATIONS.values() if o.sign}
MARKED = {n: OPERATIONS[n].attr[0][1] for n in INFIX if OPERATIONS[n].attr}  # with this mark


def result_kind(row: Operation, attr: Any, kinds: tuple[Kind, ...]) -> Kind | None:
    """The kind of an operation's result; None if the operands do not fit, or it is not the
    operands that say it."""
    if row.kind is None or len(kinds) < row.least or (row.most and len(kinds) > row.most):
        return None
    return row.kind(attr, kinds)
