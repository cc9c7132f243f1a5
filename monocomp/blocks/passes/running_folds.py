"""`hold_folds`: folds of loaded tiles that are read more than once are joined in their loops.

Triton has each thread fold the elements that it loads, and joins the threads' results after the
loop. It assumes that the result is read once, and not in the loop: otherwise it fails, or what is
read is the fold of one thread (3.6 and 3.7; triton-lang/triton, pull requests 11682 and 11842).
Where a loop reads the result, as it does the new maximum of a softmax, Triton may fold again in
another layout for those who read it behind the loop, and join that copy. A fold of which the bits
are read is left in the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from monocomp import blocks as B
from monocomp.blocks.operations import helper
from monocomp.blocks.statements import bodies

_JOINS = ("add", "mul", "maximum", "minimum")
_OPERATORS = (*_JOINS, "sub", "div", "neg", "cast", "to", "expand")
_OF_ELEMENTS = ("cast", "to", "where")


def hold_folds(program: B.BlockProgram) -> B.BlockProgram:
    """Hold the folds of loaded tiles in loops that are read more than once beside."""
    return replace(program, body=_Holder(program).held(program.body, Counter))


@dataclass
class _Holder:
    """Holds folds; `loaded` are the names of tiles as they are loaded."""

    program: B.BlockProgram
    loaded: set[str] = field(default_factory=set)

    @cached_property
    def reads(self) -> Counter[str]:
        """Count the reads of each name."""
        return Counter(_reads_in(self.program.body, 1))

    @cached_property
    def phases(self) -> Counter[str]:
        """Count the reads of each name, those in loops twice, as loops have two phases."""
        return Counter(_reads_in(self.program.body, 2))

    def held(self, body: B.Body, behind: Callable[[], Counter[str]]) -> B.Body:
        """Return the statements of a loop; `behind` counts the reads outside of it."""
        held: list[B.Statement] = []
        for s in body:
            outside = behind
            if isinstance(s, B.For | B.While):
                outside = partial(self._reads_outside, s.body)
            s = B.inside(s, partial(self.held, behind=outside))
            if isinstance(s, B.Load):
                self.loaded.add(s.target.attr)
            elif isinstance(s, B.Assign) and len(s.targets) == 1:
                (target,) = s.targets
                if self._is_read_twice(_state(s.value, self.loaded), target.attr, behind):
                    value = helper("ended", s.value, layout=target.layout, dtype=target.dtype)
                    s = replace(s, value=value)
                if _is_loaded(s.value, self.loaded):
                    self.loaded.add(target.attr)
            held.append(s)
        return tuple(held)

    def _reads_outside(self, body: B.Body) -> Counter[str]:
        return self.phases - Counter(_reads_in(body, 2, 2))

    def _is_read_twice(
        self, state: str | None, target: str, behind: Callable[[], Counter[str]]
    ) -> bool:
        """True if a state is read more than once beside, or behind the loop if it is given a name
        of its own before it becomes the state."""
        if state is None:
            return False
        return self.reads[state] > 2 if state == target else behind()[state] > 1


def _state(e: B.Expr, loaded: Set[str]) -> str | None:
    """Return the state if a value joins one with the fold of a loaded tile along its last axis."""
    if e.op not in _JOINS or e.dtype != B.FLOAT32:
        return None
    folds = [a for a in e.args if a.op == "reduce"]
    states = [a for a in e.args if a.op == "name"]
    if not (folds and states):
        return None
    (tile,), dim = folds[0].args, folds[0].attr.dim
    if not (_is_loaded(tile, loaded) and 0 < dim == len(tile.layout) - 1):
        return None
    return str(states[0].attr)


def _is_loaded(e: B.Expr, loaded: Set[str]) -> bool:
    """True if a tile may be one as it is loaded, where masks hold everywhere."""
    if e.op in _OF_ELEMENTS:
        return any(_is_loaded(a, loaded) for a in e.args)
    return e.op == "name" and e.attr in loaded


def _reads_in(body: B.Body, phases: int, times: int = 1) -> Iterator[str]:
    """Yield each name as often as statements read it, and in loops once in each of the phases."""
    for s in body:
        for e in B.roots(s):
            yield from times * [*_reads(e), *([e.attr] if e.op == "name" else [])]
        within = phases if isinstance(s, B.For | B.While) else times
        for inner in bodies(s):
            yield from _reads_in(inner, phases, within)


def _reads(e: B.Expr) -> Iterator[str]:
    """Yield each name as often as an expression reads it; what is no operator may read it again."""
    for a in e.args:
        if a.op != "name":
            yield from _reads(a)
        else:
            yield from (a.attr,) if e.op in _OPERATORS else (a.attr, a.attr)
