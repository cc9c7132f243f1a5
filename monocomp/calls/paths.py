"""Paths: how the program of an operator is derived from the one that a kernel was made of.

    causal_5d41402abc4b9a1c               the program itself
    causal_5d41402abc4b9a1c_f7            it and what it saves, for gradients of inputs 0, 1 and 2
    causal_5d41402abc4b9a1c_f7_b7o1d2d2   those, where result 0 has one, in these dtypes

torch keeps code that it has compiled, and other processes run it: its operators are found by their
names alone. So a name says all that derives its program from that of a kernel which is there.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from monocomp.declarations.vocabulary import DTYPES

if TYPE_CHECKING:
    from monocomp.calls.autograd import Backward, Forward
    from monocomp.calls.calls import Calls

Names = tuple[str, ...]
ALL: weakref.WeakSet[Calls] = weakref.WeakSet()  # that are there
_DIGITS = 8  # of the digest of a derived program
_OPERATOR = re.compile(
    r"\w+?_(?P<key>[0-9a-f]{16})(?P<path>(_[fbvtr][0-9osd]*)+)_x(?P<digest>[0-9a-f]{8})(_p(?P<tensors>\d+))?"
)
_CODES = {"": "", **{str(n): dtype for n, dtype in enumerate(DTYPES)}}
_FORWARD = re.compile(r"f(\d+)((?:s\d+)*)")
_BACKWARD = re.compile(r"b(\d+)o(\d+)((?:d\d*)*)")


def of_key(key: str) -> Calls | None:
    """Return calls by what is traced of them, while their kernel is there."""
    return next((c for c in tuple(ALL) if c.key == key), None)


def operator_name(calls: Calls, tensors: Names) -> str:
    """Return the name of the operator that takes these parameters as tensors."""
    name = calls.planner.equations.origin.name or "kernel"
    digest = [f"x{calls.key[:_DIGITS]}"] if calls.path else []
    some = [f"p{_number(calls.declared.params, tensors)}"] if tensors else []
    return "_".join([name, calls.root.key, *calls.path, *digest, *some])


def forward_step(names: Sequence[str], wrt: Names, extents: Mapping[str, int]) -> str:
    """Saving for gradients of some inputs and parameters, at sizes that are powers of two."""
    sizes = (f"s{n.bit_length()}" for n in extents.values())
    return f"f{_number(names, wrt)}{''.join(sizes)}"


def backward_step(
    names: Sequence[str], wrt: Mapping[str, str], results: Sequence[str], given: Names
) -> str:
    """Return the gradients of some inputs and parameters, in these dtypes, where some results have
    one."""
    codes = (f"d{DTYPES.index(d) if d in DTYPES else ''}" for d in wrt.values())
    return f"b{_number(names, wrt)}o{_number(results, given)}{''.join(codes)}"


def batch_step(names: Sequence[str], own: Names) -> str:
    """Return a batch of calls that have their own of some inputs."""
    return f"v{_number(names, own)}"


def tangent_step(names: Sequence[str], wrt: Names) -> str:
    """Return the tangents of results, for those of some inputs."""
    return f"t{_number(names, wrt)}"


RECOMPUTED = "r"  # what a backward pass computes again of the forward's values


def find(name: str, kernel: Callable[[str], Calls | None] = of_key) -> tuple[Calls, Names] | None:
    """Return the calls of an operator, and the parameters that it takes as tensors; None where
    no kernel is there that it can be of, by its key."""
    match = _OPERATOR.fullmatch(name)
    root = None if match is None else kernel(match["key"])
    if match is None or root is None:
        return None
    calls = _derived(root, match["path"][1:].split("_"))
    if calls is None or not calls.key.startswith(match["digest"]):
        return None
    return calls, _names(calls.declared.params, match["tensors"] or "0")


def _derived(root: Calls, path: Sequence[str]) -> Calls | None:
    calls: Calls | None = root
    forward: Forward | None = None
    backward: Backward | None = None
    for step in path:
        if calls is None:
            return None
        if (saving := _FORWARD.fullmatch(step)) is not None:
            sizes = [1 << int(n) - 1 for n in saving[2].split("s")[1:]]
            extents = calls.declared.extent_of if sizes else ()
            if len(sizes) != len(extents):
                return None
            known = dict(zip(extents, sizes, strict=True))
            forward = calls.forward_at(_names(calls.names, saving[1]), known)
            calls = forward.calls
        elif forward is not None and (gradients := _BACKWARD.fullmatch(step)) is not None:
            wrt = _names(forward.calls.names, gradients[1])
            codes = gradients[3].split("d")[1:]
            if len(codes) != len(wrt) or not all(c in _CODES for c in codes):
                return None
            dtypes = {n: _CODES[c] for n, c in zip(wrt, codes, strict=True)}
            backward = forward.backward(dtypes, _names(forward.outputs, gradients[2]))
            calls = backward.calls
        elif step == RECOMPUTED and backward is not None:
            calls = backward.recompute
        elif forward is not None and step[0] == "v":
            calls = forward.batch(_names(forward.calls.names, step[1:]))
        elif forward is not None and step[0] == "t":
            calls = forward.pushed(_names(forward.calls.names, step[1:])).calls
        else:
            return None
    return calls


def _number(names: Iterable[str], some: Iterable[str]) -> int:
    """Return some of the names as a number, a bit each."""
    chosen = set(some)
    return sum(1 << n for n, name in enumerate(names) if name in chosen)


def _names(names: Iterable[str], number: str) -> Names:
    return tuple(name for n, name in enumerate(names) if int(number) >> n & 1)
