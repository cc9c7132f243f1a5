"""Classes of records: dataclasses that cost nothing until they are used, and little then.

The standard decorator compiles up to six methods a class, which took half of the time of all
imports, and makes a frozen record three times as slowly as another. Here the methods of a class
are compiled when one of them is first asked for. That frozen records stay as they are is what mypy
checks, for which this is the standard decorator; records do not check it as they are made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

_NAMES = ("init", "repr", "eq", "hash", "match_args", "dataclass_fields", "dataclass_params")
_METHODS = frozenset(f"__{name}__" for name in _NAMES)
# What the methods are made from, beside the fields.
_BODY = ("__module__", "__qualname__", "__orig_bases__", "__post_init__")
_OPTIONAL = {"init": {"__init__"}, "repr": {"__repr__"}, "eq": {"__eq__", "__hash__"}}
_MAKING = RLock()


class _Pending:
    """Stands for a method of a class until it is made."""

    def __init__(self, name: str, make: Callable[[], None]) -> None:
        self.name, self.make = name, make

    def __get__(self, record: object, cls: type) -> Any:
        self.make()
        return getattr(cls if record is None else record, self.name)


def _make(cls: type, pending: set[str], decorate: Callable[[type], type]) -> None:
    """Give a class its pending methods, unless another thread has done so."""
    with _MAKING:
        if not pending:
            return
        parts = {*cls.__annotations__, *_METHODS - pending, *_BODY}
        body = {name: value for name, value in vars(cls).items() if name in parts}
        body |= {"__annotations__": cls.__annotations__, "__doc__": cls.__name__}
        like = decorate(type(cls)(cls.__name__, cls.__bases__, body))
        described = [n for n, value in vars(cls).items() if isinstance(value, dataclasses.Field)]
        for name in described:  # the default itself, where there is one
            delattr(cls, name)
        defaults = vars(like).keys() & set(described)
        for name in {*defaults, *pending}:
            setattr(cls, name, vars(like)[name])
        pending.clear()


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, **options: Any) -> Any:
        """Make a class of records (decorator); arguments as those of `dataclasses.dataclass`."""
        if cls is None:
            return partial(dataclass, frozen=frozen, **options)
        own = {name for name in _METHODS if vars(cls).get(name) is not None}
        is_hashed = frozen and options.get("eq", True) and "__hash__" not in own
        decorate = dataclasses.dataclass(unsafe_hash=is_hashed, **options)
        if options.get("slots"):  # they take another class
            return decorate(cls)
        left_out = (names for option, names in _OPTIONAL.items() if not options.get(option, True))
        pending = set(_METHODS.difference(own, *left_out))
        make = partial(_make, cls, pending, decorate)
        for name in pending:
            setattr(cls, name, _Pending(name, make))
        return cls
