"""Liveness: which values a thread has to hold at once. Each statement reads some, after which those
that nothing else reads may end; a loop's body may follow its own end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from monocomp import blocks as B

# The axes of a value, the bits of an element, and is it an operand, whose rows each warp has whole?
Shape: TypeAlias = tuple[B.Layout, int, bool]
Moment: TypeAlias = frozenset[tuple[Shape, int]]  # how many values of each shape are live

_BITS = {"int1": 1, "bfloat16": 16, "int64": 64}  # others have 32
_Values: TypeAlias = frozenset[B.Expr]  # each once, as its last target


def moments(program: B.BlockProgram) -> set[Moment]:
    """Return the moments of a kernel's body. Operands are overwritten by values that take their
    place; tiles in shared memory, scalars, and the positions in a block, which are computed where
    they are read, take no registers."""
    analysis = _Liveness(program)
    analysis.before(program.body, frozenset())
    return analysis.moments


class _Liveness:
    def __init__(self, program: B.BlockProgram) -> None:
        statements = list(B.walk(program.body))
        self.moments: set[Moment] = set()
        self.values = {t.attr: t for s in statements if _is_held(s) for t in B.targets(s)}
        # Operands in registers stay there until their product has been waited for.
        issues = (s for s in statements if isinstance(s, B.Issue))
        self.operands = {s.target.attr: frozenset(_operands(s.product)) for s in issues}
        self.read = {s: self._named(_parts(s)) for s in statements}
        self.temporaries = {s: list(_temporaries(s)) for s in statements}

    def before(self, body: B.Body, live: _Values) -> _Values:
        """Return the values that are live before statements, from those that are after them."""
        for s in reversed(body):
            live = self._statement(s, live)
        return live

    def _statement(self, s: B.Statement, live: _Values) -> _Values:
        match s:
            case B.For() | B.While():
                while not (head := self.before(s.body, live)) <= live:
                    live |= head
                return live | self.read[s]
            case B.If():
                return self.before(s.body, live) | self.before(s.orelse, live) | self.read[s]
        results = self._named(B.targets(s))
        if isinstance(s, B.Wait):
            live |= results | self.operands[s.target.attr]
            self._record(live)
            return live
        self._record(live | results, self.temporaries[s])
        if isinstance(s, B.Issue):
            live -= self.operands[s.target.attr]
        live = (live - results) | self.read[s]
        self._record(live)
        return live

    def _record(self, live: _Values, temporaries: Iterable[B.Expr] = ()) -> None:
        shapes = Counter(
            (e.layout, self._bits(e.dtype), e.op == "operand") for e in (*live, *temporaries)
        )
        self.moments.add(frozenset(shapes.items()))

    def _named(self, parts: Iterable[B.Expr]) -> _Values:
        names = {e.attr for e in parts if e.op == "name"}
        return frozenset(self.values[n] for n in names & self.values.keys())

    def _bits(self, dtype: B.Dtype) -> int:
        if dtype.of == "value" and dtype.name in self.values:
            return self._bits(self.values[dtype.name].dtype)
        return 16 if dtype.of else _BITS.get(dtype.name, 32)  # of matrices


def _is_held(s: B.Statement) -> bool:
    """True if a statement's result takes registers."""
    layouts = [t.layout for t in B.targets(s)]
    is_vector = isinstance(s, B.Assign) and all(len(x) == 1 for x in layouts)
    is_position = is_vector and any(e.op == "arange" for e in _parts(s))
    return any(layouts) and not is_position and not isinstance(s, B.Take | B.Put)


def _parts(s: B.Statement) -> Iterator[B.Expr]:
    for e in B.roots(s):
        yield from B.subexpressions(e)


def _operands(product: B.Expr) -> Iterator[B.Expr]:
    return (e for e in B.subexpressions(product) if e.op == "operand")


def _temporaries(s: B.Statement) -> Iterator[B.Expr]:
    """Yield values as large as what a statement holds beside operands and result: the pointers to
    what it loads and their offsets, and a factor for each divisor, which is scaled by it."""
    yield from (e.args[1] for e in _parts(s) if e.op == "div")
    if isinstance(s, B.Load) and isinstance(s.access, B.Pointers):
        for e in (s.target, *s.access.offsets):
            yield B.Expr("pointers", (), None, e.layout, B.INT64)
