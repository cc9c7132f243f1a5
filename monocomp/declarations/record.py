"""Records: dataclasses that do not change, whose methods are shared.

A frozen dataclass writes and compiles six methods of its own, and assigns its fields through
`object.__setattr__`. The hundred nodes of syntax, kernels and host programs took a quarter of a
start for that. A record compiles `__init__` alone. That nothing assigns to its fields is checked by
mypy, not at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from operator import attrgetter, is_
from typing import Any, TypeVar, dataclass_transform

_T = TypeVar("_T")
_WITHOUT_EXPRESSIONS = ("str", "bool", "int", "str | None")  # as fields are annotated
GIVES = {"gives": True}  # of a field that names what a statement gives, and reads nothing


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(*, eq: bool = True) -> Callable[[type[_T]], type[_T]]:
    """Make a class a record (decorator).

    Args:
        eq: True if records of equal fields are equal, and have one hash.
    """

    def make(cls: type[_T]) -> type[_T]:
        made: Any = dataclass(eq=False, repr=False)(cls)
        made.is_record = True
        methods: dict[str, Any] = {"__repr__": _repr}
        if eq:
            compared = [f.name for f in fields(made) if f.compare]
            values = attrgetter(*compared) if compared else _no_values

            def is_equal(one: Any, other: Any) -> Any:
                is_alike = other.__class__ is one.__class__
                return values(one) == values(other) if is_alike else NotImplemented

            methods |= {"__eq__": is_equal, "__hash__": lambda own: hash(values(own))}
        for name in methods.keys() - cls.__dict__.keys():
            setattr(made, name, methods[name])
        return cls

    return make


def as_data(x: Any) -> Any:
    """Return a record as dictionaries, lists, numbers and texts."""
    if is_dataclass(x):
        return {f.name: as_data(getattr(x, f.name)) for f in fields(x)}
    if isinstance(x, tuple):
        return [as_data(part) for part in x]
    return x if x is None or isinstance(x, int | float) else str(x)


def expressions_in(
    x: Any, kind: type[_T], records: tuple[type, ...] = (), *, gives: bool = False
) -> tuple[_T, ...]:
    """List the expressions of a record, in the order of its fields: those of a kind, alone or
    listed, and those of the records in it.

    Args:
        x: a record, which remembers them, or a dataclass that may change.
        kind: the class of expressions, one for each class of records.
        records: the classes of the records in it that have expressions of their own.
        gives: True for the names that it gives, in place of the expressions that it reads.
    """
    cls: Any = type(x)
    remembered = vars(x) if hasattr(cls, "is_record") else {}
    key = "_given" if gives else "_read"
    known: tuple[_T, ...] | None = remembered.get(key)
    if known is None:
        expressions: list[_T] = []

        def add(value: Any) -> None:
            if isinstance(value, kind):
                expressions.append(value)
            elif isinstance(value, (tuple, list)):
                for part in value:
                    add(part)
            elif isinstance(value, records):
                expressions.extend(expressions_in(value, kind, records))

        for name in _fields(cls, gives):
            add(getattr(x, name))
        known = remembered[key] = tuple(expressions)
    return known


def with_expressions(
    x: _T, kind: type, records: tuple[type, ...], change: Callable[..., Any]
) -> _T:
    """Return a record with the expressions changed that it reads; itself where none is."""

    def changed(value: Any) -> Any:
        if isinstance(value, kind):
            return change(value)
        if isinstance(value, (tuple, list)):
            parts = [changed(part) for part in value]
            is_same = all(map(is_, parts, value))
            return value if is_same else type(value)(parts)
        if isinstance(value, records):
            return with_expressions(value, kind, records, change)
        return value

    cls: Any = type(x)
    own = {n: getattr(x, n) for n in _fields(cls, False)}
    instead = {n: new for n, value in own.items() if (new := changed(value)) is not value}
    return replace(x, **instead) if instead else x  # type: ignore[type-var]


@cache
def _fields(cls: Any, gives: bool) -> tuple[str, ...]:
    """Return the names of the fields of a class that give names, or of the others, but for those
    that hold texts and numbers alone."""
    held = (f for f in fields(cls) if f.type not in _WITHOUT_EXPRESSIONS)
    return tuple(f.name for f in held if f.metadata.get("gives", False) == gives)


def _no_values(_: Any) -> tuple[()]:
    return ()


def _repr(own: Any) -> str:
    shown = (f"{f.name}={getattr(own, f.name)!r}" for f in fields(own) if f.repr)
    return f"{type(own).__qualname__}({', '.join(shown)})"
