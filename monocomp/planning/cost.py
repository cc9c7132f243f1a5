"""What a program costs as it is written: at any step of its derivation, before any kernel.

The reading is the plain one. A definition is a name and costs nothing; what stands in a
fold is computed anew for each of its elements. Folds over the top of an output are loops.
Results of earlier loops are kept, so a fold that needs none shares one loop with the others
of its domain, and one that needs them comes a loop later: the number of *passes* over an
index is the length of the longest chain of folds that need one another, by loop nests. An
output that keeps an index over which a result in it was folded is written in one more pass.
softmax and logsumexp are read as everyone computes them, with the maximum subtracted.

    passes   loop nests over each index
    reads    loop nests that read each input
    flops    every operation, once for every value of the indices that it varies with, in
             every loop that needs it; filters are not counted
    bytes    each input once for every loop that reads it, and each output once, at two
             bytes an element
    state    numbers that the loops carry, for each row of the output

`Kernel.report` counts the same in the kernels themselves. Passes and bytes are the same
there once a program is in normal form; operations differ in what a target adds, such as
the guard of an infinite maximum. Costs are polynomials in the extents, found when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from monocomp import terms as T
from monocomp.algebra import SE_PAIR, is_selection
from monocomp.equations import Equation, Equations, stored_in
from monocomp.errors import UsageError
from monocomp.planning.report import ELEMENT_BYTES, STORED_BYTES
from monocomp.planning.roles import choose_roles, kernel_groups
from monocomp.planning.sizes import nominal_sizes
from monocomp.rewrites.pullback import Pass, passes
from monocomp.sharing import kept
from monocomp.terms import Term

if TYPE_CHECKING:
    import sympy


@dataclass(frozen=True)
class Formula:
    """A polynomial in extents, with whole coefficients.

    Attributes:
        terms: a coefficient for each monomial, which is the sorted names of its extents.
    """

    terms: tuple[tuple[tuple[str, ...], int], ...] = ()

    @classmethod
    def product(cls, extents: Iterable[str], number: int = 1) -> Formula:
        """number * |i| * |j| * ..."""
        return cls(((tuple(sorted(extents)), number),)) if number else cls()

    def __add__(self, other: Formula) -> Formula:
        found = dict(self.terms)
        for monomial, number in other.terms:
            found[monomial] = found.get(monomial, 0) + number
        return Formula(tuple(sorted((m, n) for m, n in found.items() if n)))

    def __mul__(self, number: int) -> Formula:
        return Formula(tuple((m, n * number) for m, n in self.terms))

    def at(self, sizes: Mapping[str, int]) -> int:
        """The value for given extents."""
        return sum(number * prod(sizes[e] for e in monomial) for monomial, number in self.terms)

    @property
    def extents(self) -> frozenset[str]:
        """The extents in it."""
        return frozenset(e for monomial, _ in self.terms for e in monomial)

    def __str__(self) -> str:
        parts = []
        for monomial, number in sorted(self.terms, key=lambda t: (-len(t[0]), t[0])):
            factors = [e.lstrip(".") for e in monomial]
            shown = [*([str(number)] if number != 1 or not factors else []), *factors]
            parts.append("*".join(shown))
        return " + ".join(parts) or "0"

    def sympy(self) -> sympy.Expr:
        """The formula for sympy, extents as positive integers."""
        import sympy

        def symbol(extent: str) -> Any:
            return sympy.Symbol(extent.lstrip("."), positive=True, integer=True)

        parts = [sympy.Mul(n, *map(symbol, monomial)) for monomial, n in self.terms]
        return sympy.Add(*parts)


@dataclass(frozen=True)
class Cost:
    """What a program costs; see the module.

    Attributes:
        passes: loop nests over each index.
        reads: loop nests that read each input.
        flops, bytes, state: formulas in the extents.
    """

    passes: Mapping[str, int]
    reads: Mapping[str, int]
    flops: Formula
    bytes: Formula
    state: Formula

    def at(self, extents: Mapping[str, int], program: Equations) -> dict[str, Any]:
        """With numbers.

        Args:
            extents: sizes by the name of an index; all that the formulas speak of.
            program: what the cost is of.

        Raises:
            UsageError: an extent is unknown, or one is missing.
        """
        from monocomp.random_inputs import by_representative

        sizes = by_representative(program.declared, extents)
        formulas = {n: getattr(self, n) for n in ("flops", "bytes", "state")}
        needed = sorted(e for f in formulas.values() for e in f.extents if e not in sizes)
        if needed:
            names = ", ".join(dict.fromkeys(e.lstrip(".") for e in needed))
            raise UsageError(f"the extent of {names} is missing")
        numbers = {n: f.at(sizes) for n, f in formulas.items()}
        return {"passes": dict(self.passes), "reads": dict(self.reads), **numbers}

    def to_json(self) -> dict[str, Any]:
        """With formulas as text."""
        texts = {n: str(getattr(self, n)) for n in ("flops", "bytes", "state")}
        return {"passes": dict(self.passes), "reads": dict(self.reads), **texts}

    @property
    def shown_passes(self) -> str:
        """The passes in words: "1 pass over k, 2 over q"."""
        if not self.passes:
            return "no pass"
        counts = [f"{n} over {index}" for index, n in self.passes.items()]
        first = next(iter(self.passes.values()))
        noun = "pass" if first == 1 else "passes"
        return ", ".join(counts).replace(" over", f" {noun} over", 1)

    def __str__(self) -> str:
        return "\n".join(f"{label:8}{text}" for label, text in self.rows())

    def rows(self) -> list[tuple[str, str]]:
        """Label and text, for tables."""
        often = [f"{name} {n}x" for name, n in self.reads.items()]
        return [
            ("passes", self.shown_passes),
            ("reads", ", ".join(often) or "nothing"),
            ("bytes", str(self.bytes)),
            ("flops", str(self.flops)),
            ("state", str(self.state)),
        ]


def cost(program: Equations) -> Cost:
    """The cost of a program as it is written."""
    dims = {name: program.declared.extents(name) for name in program.declared.inputs}
    outputs = tuple(o.name for o in program.declared.outputs)
    found = _EMPTY
    for group in kernels(program):
        counted = _cost_of_kernel(tuple(group), tuple(dims.items()), outputs)
        found = _together(found, counted)
    return found


def kernels(program: Equations) -> list[list[Equation]]:
    """What is computed together, in the order in which it runs, as it is computed."""
    equations = tuple(replace(e, body=_as_computed(e.body)) for e in inlined(program))
    return kernel_groups(replace(program, equations=equations), nominal_sizes(program.declared))


_EMPTY = Cost({}, {}, Formula(), Formula(), Formula())


def _together(a: Cost, b: Cost) -> Cost:
    def joined(x: Mapping[str, int], y: Mapping[str, int]) -> dict[str, int]:
        return {n: x.get(n, 0) + y.get(n, 0) for n in {**x, **y}}

    return Cost(
        joined(a.passes, b.passes),
        joined(a.reads, b.reads),
        a.flops + b.flops,
        a.bytes + b.bytes,
        a.state + b.state,
    )


# The reading


def inlined(program: Equations) -> tuple[Equation, ...]:
    """The outputs with what their definitions stand for, and what kernels store for them."""
    known: dict[str, Equation] = {}
    memo: dict[Term, Term] = {}
    stay = kept(program) if program.kept is None else program.kept

    def visit(t: Term) -> Term:
        found = memo.get(t)
        if found is None:
            found = T.map_children(t, visit)
            if found.op == "ref" and found.attr in stay:
                found = T.stored(known[found.attr], found.args)
            elif found.op == "ref" and found.attr in known:
                at = known[found.attr]
                names = (i.attr[0] for i in at.indices)
                found = T.substitute(at.body, dict(zip(names, found.args, strict=True)))
            memo[t] = found
        return found

    for e in program.equations:
        known[e.name] = replace(e, body=visit(e.body))
    outputs = [known[o.name] for o in program.declared.outputs]
    needed: set[str] = set()
    waiting = list(outputs)
    while waiting:
        # By name: what is stored may have come to read something stored itself since.
        names = {read.name for read in stored_in(waiting.pop().body)}
        waiting += (known[name] for name in names - needed)
        needed |= names
    stored = [known[e.name] for e in program.equations if e.name in needed]
    return (*stored, *(e for e in outputs if e.name not in needed))


@lru_cache(maxsize=4096)
def _as_computed(t: Term) -> Term:
    """Derived reductions by the folds that compute them, folds over several indices nested."""
    t = T.map_children(t, _as_computed)
    if t.op not in ("fold", "fold_at") or is_selection(t):
        return t
    opened, (condition, *bodies) = T.open_fold(t)
    reading = _READINGS.get(t.attr.name)
    if reading is not None:
        return reading(t, opened, condition, bodies[0])
    if t.op == "fold_at":
        return _as_computed(T.by_definition(t))
    if len(opened) > 1 and t.attr.monoid in ("sum", "max", "min", "prod"):
        for i in reversed(opened[1:]):
            bodies = [T.fold(t.attr.monoid, (i,), condition, *bodies)]
            condition = T.TRUE
        return T.fold(t.attr.monoid, opened[:1], condition, *bodies)
    return t


def _weights(opened: tuple[Term, ...], condition: Term, x: Term) -> tuple[Term, Term]:
    """(maximum, sum of the exponentials of the differences from it)"""
    m = _as_computed(T.fold("max", opened, condition, x))
    return m, _as_computed(T.fold("sum", opened, condition, T.exp(T.sub(x, m))))


def _softmax(t: Term, opened: tuple[Term, ...], condition: Term, x: Term) -> Term:
    m, total = _weights(opened, condition, x)
    here = {opened[0].attr[0]: t.args[0]}
    admitted, logit = T.substitute(condition, here), T.substitute(x, here)
    if t.attr.monoid == "log_softmax":
        return T.where(admitted, T.sub(T.sub(logit, m), T.log(total)), T.NEG_INF)
    return T.divide(T.mul(T.bracket(admitted), T.exp(T.sub(logit, m))), total)


def _logsumexp(t: Term, opened: tuple[Term, ...], condition: Term, x: Term) -> Term:
    m, total = _weights(opened, condition, x)
    return T.add(m, T.log(total))


def _mean(t: Term, opened: tuple[Term, ...], condition: Term, x: Term) -> Term:
    total = _as_computed(T.fold("sum", opened, condition, x))
    if condition is T.TRUE:
        return T.divide(total, T.mul(T.const(1), *(T.extent_of(i.attr[1]) for i in opened)))
    return T.divide(total, _as_computed(T.fold("sum", opened, condition, T.const(1))))


def _var(t: Term, opened: tuple[Term, ...], condition: Term, x: Term) -> Term:
    centre = _mean(t, opened, condition, x)
    return _mean(t, opened, condition, T.power_of(T.sub(x, centre), 2))


_READINGS: dict[str, Callable[[Term, tuple[Term, ...], Term, Term], Term]] = {
    "softmax": _softmax,
    "log_softmax": _softmax,
    "logsumexp": _logsumexp,
    "mean": _mean,
    "var": _var,
}


# Counting


@lru_cache(maxsize=256)
def _cost_of_kernel(
    group: tuple[Equation, ...],
    dims: tuple[tuple[str, tuple[str, ...]], ...],
    outputs: tuple[str, ...],
) -> Cost:
    return _Counter(group, dict(dims), outputs).cost()


class _Counter:
    """Counts what one kernel does.

    Every subterm has a scope, which is the loop whose index it varies with or else the rows
    of the output, and is computed once there for each value of its indices.
    """

    def __init__(
        self,
        group: tuple[Equation, ...],
        dims: Mapping[str, tuple[str, ...]],
        outputs: Iterable[str],
    ) -> None:
        self.group = group
        self.dims = dims
        self.outputs = frozenset(outputs)
        self.roles = choose_roles(group, lambda extent: True)
        self.extent_of = {i.attr[0]: i.attr[1] for e in group for i in e.indices}
        self.seen: dict[str, set[Term]] = {}  # what each scope computes
        self.flops = Formula()

    def cost(self) -> Cost:
        """The cost of all loops and outputs."""
        bodies = [e.body for e in self.group]
        loops = passes(bodies, is_at_the_top)
        streams = [a.name for a in self.roles.values() if a.role == "stream"]
        moved = Formula()
        for e in self.group:
            late = [n for n in streams if n in (i.attr[0] for i in e.indices)]
            self._visit(e.body, "", (late or [""])[0], 0)
            moved += self._stored(e)
        state = Formula()
        for number, at in enumerate(loops):
            state += self._loop(at, f"loop {number}")
        counts: dict[str, int] = {}
        for extent in (*(p.extent for p in loops), *(self.extent_of[n] for n in streams)):
            name = extent.lstrip(".")
            counts[name] = counts.get(name, 0) + 1
        reads: dict[str, int] = {}
        for terms in self.seen.values():
            for t in terms:
                if t.op == "read":
                    pairs = zip(self.dims[t.attr], t.args, strict=True)
                    dims = (dim for dim, place in pairs if place.op != "const")
                    moved += Formula.product(dims, ELEMENT_BYTES)
                elif t.op == "stored":
                    moved += self._stored(t.attr)
            whole = (t for t in terms if t.op == "read" and all(a.op != "const" for a in t.args))
            for tensor in {t.attr for t in whole}:
                reads[tensor] = reads.get(tensor, 0) + 1
        in_order = {n: reads[n] for n in self.dims if n in reads}
        return Cost(counts, in_order, self.flops, moved, state)

    def _stored(self, equation: Equation) -> Formula:
        """The bytes of an output, or of what another kernel reads."""
        wide = equation.name not in self.outputs and equation.body.kind == "float"
        extents = (i.attr[1] for i in equation.indices)
        return Formula.product(extents, STORED_BYTES if wide else ELEMENT_BYTES)

    def _loop(self, at: Pass, scope: str) -> Formula:
        """Count the elements of a loop; its state is returned."""
        index = f"~0{at.extent}"
        self.extent_of[index] = at.extent
        state = Formula()
        frames = set()
        for fold in at.folds:
            names = [index, *(f"~0{n}{e}" for n, e in enumerate(fold.attr.extents[1:]))]
            self.extent_of |= dict(zip(names, fold.attr.extents, strict=True))
            _, (condition, *elements) = T.open_as(fold, names)
            for part in (condition, *elements):
                self._visit(part, scope, index, 1)
            self._add(fold, _combine(fold, elements), names)
            if fold.attr.monoid is SE_PAIR and elements[1] not in frames:
                frames.add(elements[1])
                self._add(elements[1], _FRAME, [])
            state += Formula.product(self._carried(fold), len(_fields(fold)))
        return state

    def _carried(self, fold: Term) -> Iterator[str]:
        """Extents of the axes of a fold's state."""
        if fold.attr.target is not None:
            yield fold.attr.target
        for name in sorted(fold.free):
            if name in self.roles and self.roles[name].role == "whole":
                yield self.roles[name].extent

    def _visit(self, t: Term, scope: str, index: str, depth: int) -> None:
        """Count t and what it needs, in the loop over `index` or outside of it."""
        home = scope if index and index in t.free else ""
        if home == "" and index and depth == 0:
            home = f"late {index}" if index in t.free else ""
        seen = self.seen.setdefault(home, set())
        if t in seen:
            return
        seen.add(t)
        if is_selection(t):
            self._visit(t.args[0], scope, index, depth)
        if is_at_the_top(t):
            return  # a loop of its own
        if t.op == "fold" or is_selection(t):
            names = [f"~{depth}{n}{e}" for n, e in enumerate(t.attr.extents)]
            self.extent_of |= dict(zip(names, t.attr.extents, strict=True))
            _, parts = T.open_as(t, names)
            self._add(t, _combine(t, parts[1:]), names)
            for part in parts:
                self._visit(part, scope, index, depth + 1)
            return
        self._add(t, _operations(t), [])
        for a in t.args:
            self._visit(a, scope, index, depth)

    def _add(self, t: Term, operations: int, bound: list[str]) -> None:
        extents = [self.extent_of[n] for n in (*t.free, *bound)]
        if extents:  # a number is computed once
            self.flops += Formula.product(extents, operations)


def is_at_the_top(t: Term) -> bool:
    """Is this a fold in which no index of an outer one is free?"""
    folds = t.op == "fold" or is_selection(t)
    return folds and all(n[0].isalpha() or n[0] == "_" for n in t.free)


def _fields(fold: Term) -> tuple[str, ...]:
    """The numbers that a fold carries; the exponent of SE is a fold of its own."""
    monoid = fold.attr.monoid
    if is_selection(fold) or monoid in ("argmax", "argmin"):
        return ("value", "place")
    return monoid.fields if isinstance(monoid, T.UserMonoid) and monoid is not SE_PAIR else ("",)


_FRAME = 2  # exp(s - m) for each element; exp(m - m') is once a block
_NO_OPERATION = ("const", "index", "param", "extent", "read", "ref", "cast", "field")


def _combine(fold: Term, elements: Iterable[Term]) -> int:
    """Operations to join one element."""
    monoid = fold.attr.monoid
    if monoid is SE_PAIR:  # weigh the value, add; the sum is moved once a block
        return 1 + (next(iter(elements)) is not T.ONE)
    if isinstance(monoid, T.UserMonoid):
        return sum(_operations(t) for t in T.subterms(*monoid.combine))
    return 1 if fold.kind == "float" else 0


def _operations(t: Term) -> int:
    """Floating-point operations that t does with its operands' values."""
    if t.kind != "float" or t.op in _NO_OPERATION:
        return 0
    if t.op in ("add", "mul"):
        factors = [a for a in t.args if not (a.op == "const" and a.attr == -1)]
        return len(factors) - 1
    if t.op == "pow":
        size = abs(t.attr)
        return int(size) - 1 if size.denominator == 1 and size <= 8 else 1
    return 1
