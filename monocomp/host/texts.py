"""Functions that are written as text where they run at every call: each takes as many arguments as
it is given, as one of any number of arguments takes longer to call than most of what is done here.

A text holds no word of a program: each name in it is a letter and a number, or its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any, TypeAlias

Written: TypeAlias = Callable[..., Any]


def defined(text: str, known: Mapping[str, Any]) -> Written:
    """Return the function `run` that a text defines.

    Args:
        known: what the text reads, by name.
    """
    names = dict(known)
    exec(_code(text), names)
    run: Written = names.pop("run")
    return run


@lru_cache
def _code(text: str) -> CodeType:
    return compile(text, "<monocomp>", "exec")


def listed(names: Sequence[str]) -> str:
    """Return names as a tuple."""
    return f"({''.join(f'{name}, ' for name in names)})"


def arranged(
    run: Written,
    count: int,
    arguments: Sequence[int],
    results: Sequence[int],
    known: Sequence[Any] = (),
) -> Written:
    """Return a function in which another one takes its arguments, and returns its results, in
    another order.

    Args:
        run: the other one.
        count: of the function's arguments.
        arguments: the positions of the other one's arguments among the function's, and then what
            is known; None for -1.
        results: the positions of the function's results among the other one's; None for -1.
        known: the same in every call.
    """
    names = [f"x{n}" for n in range(count)]
    every = [*names, *(f"k{n}" for n in range(len(known))), "None"]
    text = (
        f"def run({', '.join(names)}):\n"
        f" r = other({', '.join(every[n] for n in arguments)})\n"
        f" return {listed(['None' if n < 0 else f'r[{n}]' for n in results])}\n"
    )
    return defined(text, {"other": run, **{f"k{n}": v for n, v in enumerate(known)}})
