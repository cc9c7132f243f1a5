"""Records: dataclasses that do not change, whose methods are shared.

A frozen dataclass writes and compiles six methods of its own, and assigns its fields through
`object.__setattr__`. The hundred nodes of syntax, kernels and host programs took a quarter of a
start for that. A record compiles `__init__` alone. That nothing assigns to its fields is checked by
mypy, not at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(*, eq: bool = True) -> Callable[[type[_T]], type[_T]]:
    """Make a class a record (decorator).

    Args:
        eq: True if records of equal fields are equal, and have one hash.
    """

    def make(cls: type[_T]) -> type[_T]:
        made: Any = dataclass(eq=False, repr=False)(cls)
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


def _no_values(_: Any) -> tuple[()]:
    return ()


def _repr(own: Any) -> str:
    shown = (f"{f.name}={getattr(own, f.name)!r}" for f in fields(own) if f.repr)
    return f"{type(own).__qualname__}({', '.join(shown)})"
