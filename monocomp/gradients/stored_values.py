"""Values of a program that its gradient reads: those that are stored, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

from monocomp import terms as T
from monocomp.declarations.records import Output
from monocomp.gradients.reading import Reading, is_aggregate, is_exponential_sum, unmasked
from monocomp.gradients.saving import (
    Saved,
    aggregates_in_exponents,
    as_logsumexp,
    is_given,
    is_logarithm,
    less_exponent,
    loses_digits,
    outer_aggregates,
)
from monocomp.rewriting.driver import Rewriter
from monocomp.terms import Term
from monocomp.terms.abbreviation import Abbreviation
from monocomp.terms.domain import Assumptions, domain
from monocomp.terms.equations import Equation, Equations, in_order
from monocomp.terms.monomials import addends, factors
from monocomp.terms.transfer import REAL

_WIDE = ("accumulated", "float32", "float64")  # dtypes of sums


class StoredValues:
    """The values that a program returns or saves, of which a gradient reads some.

    Args:
        program: in normal form.
        values: that may be saved, by their final names.
        frames: outputs that are the logarithm of a sum less its largest exponent, with that.

    Attributes:
        outputs: those that may be read.
        saved: what is read, by name.
        frames: the maxima beside logarithms that may be read, by the names of these.
    """

    def __init__(
        self, program: Equations, values: Sequence[Saved], frames: Mapping[str, str]
    ) -> None:
        self.program, self.values = program, values
        self.saved: dict[str, Equation] = {}
        self._given: dict[str, Equation] = {}
        self._named: dict[str, Equation] = {}  # outputs that equations read by name
        self._reading = Reading()
        self._kept: set[str] = set()
        by_name = program.by_name
        self._pairs = {
            name: Saved(by_name[name], a.args[0], by_name[frame])
            for name, frame in frames.items()
            for a in addends(by_name[name].body)
            if is_logarithm(a) and T.sub(a, by_name[frame].body) is by_name[name].body
        }
        self._pairs |= {v.equation.name: v for v in values if v.frame is not None}
        self._inside, added = aggregates_in_exponents(program)
        # A weight is the exponential of what is added up: of that no bit may be lost.
        self._wide = {o.name for o in program.declared.outputs if o.dtype in _WIDE}
        self.outputs = [
            e
            for e in program.outputs
            if e.body.kind == "float"
            and (e.name in self._wide or not (is_logarithm(e.body) or _is_told_in(added, e)))
        ]
        self._logits = {  # or weights
            e.name
            for e in self.outputs
            if e.name in self._wide and (_is_weight(e.body) or _is_told_in(self._inside, e))
        }
        self._frames = {v.frame.name: v.frame for v in self._pairs.values() if v.frame}
        self.frames = {n: v.frame.name for n, v in self._pairs.items() if v.frame}
        self._lossy = {e.name: e for e in self.outputs if e.name not in frames and _is_lossy(e)}

    def reading(
        self, kept: Collection[str], named: Iterable[str], name: Callable[[Term], Term]
    ) -> Reading:
        """Return what reads the values that are kept, where outputs in `named` are read by name
        already. In place of a logarithm that loses digits, its two parts are read."""
        self._named = {name: self.program.by_name[name] for name in named}
        lost = {self._lossy[n].body.args[0] for n in kept if n in self._lossy}
        parts = (v.equation.name for v in self.values if v.frame is not None and v.of in lost)
        kept = {*kept, *parts} - self._lossy.keys()
        outputs = [e for e in self.outputs if e.name in kept and e.name not in self._pairs]
        values = [v for v in self.values if v.equation.name in kept - self._pairs.keys()]
        values += [pair for name, pair in self._pairs.items() if name in kept]
        self._reading = Reading({n: partial(self.read, e) for n, e in self._named.items()}, name)
        waiting = [Saved(e, e.body) for e in outputs] + values
        self._kept = {v.equation.name for v in waiting}
        # Quotients are told by their divisor, elements by the largest sum that holds them, and
        # what is returned need not be saved.
        waiting.sort(key=self._rank)
        while waiting:
            left = [v for v in waiting if not self._know(v)]
            if left == waiting:
                break
            waiting = left
        self._reading.name_weights()
        return self._reading

    def _rank(self, v: Saved) -> tuple[int, int]:
        """Return the position of a value among those that are known one by another."""
        # Less its largest exponent, a logarithm is a sum.
        is_log = v.frame is not None or is_logarithm(v.equation.body)
        if is_log and v.of.op != "mul":
            return 1, -v.of.weight
        if v.equation.name in self._logits and not _is_weight(v.equation.body):
            return 0, 0
        return (3, 0) if _has_divisor(v.equation.body) else (2, 0)

    def _know(self, v: Saved) -> bool:
        """Read a value, if it tells anything."""
        e = v.equation
        is_exact = e.name in self._wide or v in self.values
        if v.frame is not None:
            self._reading.know(v.frame, self.read(v.frame, v.frame.indices))
            total = T.add(self.read(e, e.indices), self.read(v.frame, v.frame.indices))
            return self._reading.know(e, total, of=v.of)
        of = v.of if is_logarithm(e.body) and v in self.values else None
        return self._reading.know(e, self.read(e, e.indices), is_exact, of)

    def read(self, e: Equation, subscripts: Sequence[Term]) -> Term:
        """Return an element, given with its definition where more than its number counts."""
        e = self.saved.get(e.name) or replace(e, body=as_logsumexp(self._body(e)))
        if not self._is_given(e):
            self.saved[e.name] = e
            return T.read(T.Tensor(e.name, e.extents), subscripts, "float")
        given = self._with_definition(e)
        self.saved.setdefault(e.name, e)  # behind what its definition reads
        return T.stored(given, subscripts)

    def _body(self, e: Equation) -> Term:
        """Return what a value is: in two parts, it is the logarithm less the largest exponent."""
        pair = self._pairs.get(e.name)
        if pair is None or pair.frame is None:
            return e.body
        shift = T.ref(pair.frame.name, pair.frame.indices, "float")
        return T.log(less_exponent(pair.of, shift))

    @property
    def given(self) -> dict[str, Equation]:
        """Return the definitions of what is read, as far as it is given with them."""
        given = filter(self._is_given, self.saved.values())
        return {e.name: self._with_definition(e) for e in given}

    def _is_given(self, e: Equation) -> bool:
        is_told = e.name in self._logits or e.name in self._frames
        return is_told or is_given(e.body) or not domain(e.body, self._assumed).is_real

    @cached_property
    def _assumed(self) -> Assumptions:
        """Return what is known of the equations in kernels that read real numbers."""
        known = Assumptions(REAL, in_kernels=True)
        for e in self.program.equations:
            known = replace(known, names=(*known.names, (e.name, domain(e.body, known))))
        return known

    def _with_definition(self, e: Equation) -> Equation:
        """Return a value as it is given: by logits that are read, unless it is of these itself, and
        by what equations read by name."""
        given = self._given.get(e.name)
        if given is None:
            names = self._logits if is_logarithm(e.body) else self._kept
            body = self._reading.of(names - {e.name})(e.body)
            stored = self._frames | self._named
            body = T.mapping_refs(stored, lambda t: self.read(stored[t.attr], t.args))(body)
            given = self._given[e.name] = replace(e, body=body, given=True)
        return given


def _has_divisor(t: Term) -> bool:
    return any(s.op == "pow" and s.attr < 0 and s.folded for s in T.subterms(t))


def _is_lossy(e: Equation) -> bool:
    return (
        e.body.op == "log" and is_exponential_sum(e.body.args[0]) and loses_digits(e.body.args[0])
    )


def _is_weight(t: Term) -> bool:
    """True if a term is an exponential that nothing sums."""
    parts = factors(unmasked(t)[0])
    return any(f.op == "exp" for f in parts) and not any(map(is_aggregate, parts))


def _is_told_in(terms: Iterable[Term], e: Equation) -> bool:
    """True if an output is one of some terms, or is made of an aggregate among them that tells it.

    An output is not told by what stands in its exponents.
    """
    body = unmasked(e.body)[0]
    exponents = {a for t in T.subterms(body) if t.op == "exp" for a in outer_aggregates(t)}
    outer = (t for t in outer_aggregates(body) if t not in exponents)
    told = [Abbreviation(e.name, e.indices, t) for t in (*outer, e.body)]
    return any(a.subscripts(t) is not None for a in told for t in terms)


# --- definitions that are saved ---------------------------------------------------------------


def definitions_of(program: Equations) -> dict[str, Equation]:
    """Return the numbers that a program gives names and does not return, by these names."""
    outputs = {o.name for o in program.declared.outputs}
    floats = (e for e in program.equations if e.body.kind == "float")
    return {e.name: e for e in floats if e.name not in outputs}


def returning(program: Equations, names: Iterable[str]) -> Equations:
    """Return the program that also returns some of its definitions, in the dtype of sums."""
    outputs = (*program.declared.outputs, *(Output(n, "accumulated") for n in names))
    return replace(program, declared=replace(program.declared, outputs=outputs))


def with_narrow(forward: Equations, names: Collection[str]) -> Equations:
    """Return a program that saves some values in the dtype of its results, which products take."""
    declared = forward.declared
    narrow = {n: Output(n, like=declared.deciding) for n in names}
    outputs = tuple(narrow.get(o.name, o) for o in declared.outputs)
    return replace(forward, declared=replace(declared, outputs=outputs))


def name_intermediates(rewriter: Rewriter, names: Iterable[str]) -> None:
    """Let equations read outputs that they compute, which come to definitions that stay.

        Y[q,e]  = sum[k](softmax[k](S[q,k]) * V[k,e])        Y is saved
        O[q,e]  = silu(G[q,e]) * Y[q,e]

        dY[q,e] = silu(G[q,e]) * dO[q,e]                     is stored once
        D[q]    = sum[e](Y[q,e] * dY[q,e])                   and so is what rows of it come to
        dV[k,e] = sum[q](P[q,k] * dY[q,e])

    Inlined, what `O` makes of `Y` would be differentiated within the sums over k, and computed
    again for each block of keys, in loops that have no room for it.
    """
    program = rewriter.program
    for e in [program.by_name[name] for name in names]:
        program = rewriter.program
        reading = Reading()
        reading.know(e, T.ref(e.name, e.indices, "float"), is_exact=False)
        changed = {o.name: o for o in program.equations}
        for other in program.equations:
            body = other.body
            if other.name != e.name:
                body = reading(body)
            if body is not other.body:
                changed[other.name] = Equation(other.name, other.indices, body)
        users = [n for n, o in changed.items() if o is not program.by_name[n]]
        if users:
            after = replace(program, equations=in_order([*changed.values()]))
            shown = partial(program.shown, e.body), partial(program.shown_names, e)
            rewriter.name("name_intermediate", users, *shown, after)
