"""`hold_folds`: folds of loaded tiles that are read more than once are joined in their loops.

Triton has each thread fold the elements that it loads, and joins the threads' results after the
loop. It assumes that the result is read once, and not in the loop: otherwise it fails, or what is
read is the fold of one thread (3.6 and 3.7; triton-lang/triton, pull requests 11682 and 11842). A
fold of which the bits are read is left in the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import replace
from functools import partial

from monocomp import blocks as B
from monocomp.blocks.operations import helper

_JOINS = ("add", "mul", "maximum", "minimum")
_OPERATORS = (*_JOINS, "sub", "div", "neg", "cast", "to", "expand")
_OF_ELEMENTS = ("cast", "to", "where")


def hold_folds(program: B.BlockProgram) -> B.BlockProgram:
    """Hold the folds of loaded tiles in loops that are read more than once beside."""
    roots = [e for s in B.walk(program.body) for e in B.roots(s)]
    reads = Counter(n for e in roots for n in _reads(e))
    reads.update(e.attr for e in roots if e.op == "name")
    return replace(program, body=_held(program.body, reads, set(), is_in_loop=False))


def _held(body: B.Body, reads: Counter[str], loaded: set[str], is_in_loop: bool) -> B.Body:
    """Return statements in which `loaded` are the names of tiles as they are loaded."""
    held: list[B.Statement] = []
    for s in body:
        within = is_in_loop or isinstance(s, B.For | B.While)
        s = B.inside(s, partial(_held, reads=reads, loaded=loaded, is_in_loop=within))
        if isinstance(s, B.Load):
            loaded.add(s.target.attr)
        elif isinstance(s, B.Assign) and len(s.targets) == 1:
            (target,) = s.targets
            if is_in_loop and _folds(s.value, target, loaded) and reads[target.attr] > 2:
                value = helper("ended", s.value, layout=target.layout, dtype=target.dtype)
                s = replace(s, value=value)
            if _is_loaded(s.value, loaded):
                loaded.add(target.attr)
        held.append(s)
    return tuple(held)


def _folds(e: B.Expr, state: B.Expr, loaded: Set[str]) -> bool:
    """True if a value is a state joined with the fold of a loaded tile along its last axis."""
    if e.op not in _JOINS or state.dtype != B.FLOAT32:
        return False
    folds = [a for a in e.args if a.op == "reduce"]
    states = [a for a in e.args if a.op == "name" and a.attr == state.attr]
    if not (folds and states):
        return False
    (tile,), dim = folds[0].args, folds[0].attr.dim
    return _is_loaded(tile, loaded) and 0 < dim == len(tile.layout) - 1


def _is_loaded(e: B.Expr, loaded: Set[str]) -> bool:
    """True if a tile may be one as it is loaded, where masks hold everywhere."""
    if e.op in _OF_ELEMENTS:
        return any(_is_loaded(a, loaded) for a in e.args)
    return e.op == "name" and e.attr in loaded


def _reads(e: B.Expr) -> Iterator[str]:
    """Yield each name as often as an expression reads it; what is no operator may read it again."""
    for a in e.args:
        if a.op != "name":
            yield from _reads(a)
        else:
            yield from (a.attr,) if e.op in _OPERATORS else (a.attr, a.attr)
