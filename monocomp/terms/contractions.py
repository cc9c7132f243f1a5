"""Contractions, and the inputs that they multiply: these decide the dtypes of products and results.

    sum[k](P[q,k] * M[q,k] * g[k] * V[k,e])

A contraction is a sum over an index of a product of at least two factors that vary with it. An
input is an operand of it if it is a factor, by itself or under functions of single elements. A
scale is no operand: an input beside another one that has all of its indices and more (g beside V).
Neither is an input that scales, element by element, what an aggregate computes (M beside the
weights P, if there is a V), nor what aggregates are computed from (a bias of the logits of P).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from monocomp.declarations.records import Declarations
from monocomp.terms.binders import open_fold
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.nodes import Term
from monocomp.terms.walking import element, subterms

_COMPUTED, _POSITION = "*", ""  # no names of inputs


class _Read(NamedTuple):
    """An element of an input, the result of an aggregate, or a position.

    `indices` are all that it varies with, `subscripts` those of an input.
    """

    name: str
    indices: frozenset[str]
    subscripts: tuple[Term, ...] = ()

    @property
    def is_input(self) -> bool:
        return self.name not in (_COMPUTED, _POSITION)

    def is_scale_of(self, other: _Read) -> bool:
        """True if another input has all indices of this one, and more."""
        if not other.is_input or not self.indices < other.indices:
            return False
        plain = {i for s in other.subscripts for i in _own_indices(s)}
        return all(s in other.subscripts or s.free <= plain for s in self.subscripts)

    def is_mask_of(self, other: _Read) -> bool:
        """True if this one multiplies what an aggregate computes element by element."""
        return other.name == _COMPUTED and self.indices <= other.indices


class _Factors(NamedTuple):
    """The elements that a term is computed from, and the pairs of them that it multiplies."""

    reads: frozenset[_Read] = frozenset()
    pairs: frozenset[tuple[_Read, _Read]] = frozenset()


def with_dtypes(program: Equations) -> Equations:
    """Return the program with the inputs that decide the dtypes of products and of its results.

    A result has the dtype to which those of some inputs that it is computed from are promoted:
    the floats that contractions multiply, or all floats where there are none.
    """
    finder = _Finder(program)
    like = {e.name: finder.deciding(e) for e in program.outputs}
    names = {n for inputs in like.values() for n in inputs}
    declared = replace(
        program.declared,
        deciding=tuple(n for n in finder.floats if n in names),
        side=tuple(n for n in finder.floats if n not in names),
    )
    return _with(program, declared, like)


def with_dtypes_of(program: Equations, declared: Declarations[Term]) -> Equations:
    """Return the program with the inputs that decide dtypes in another form of it."""
    own = replace(program.declared, deciding=declared.deciding, side=declared.side)
    return _with(program, own, {o.name: o.like for o in declared.outputs})


def with_gradients_dtypes(
    backward: Equations, forward: Equations, gradients: Mapping[str, str]
) -> Equations:
    """Return a program of gradients, each of which has the dtype of its input.

    Products have that of the forward's: what decides nothing there decides nothing here, nor does
    a value that is saved as it is added up. Where no product has others, all others decide.

    Args:
        backward: the program of the gradients.
        forward: the program whose gradients they are, with what it saves.
        gradients: their names, by input or parameter.
    """
    declared = with_dtypes(backward).declared
    floats = _Finder(backward).floats
    silent = {o.name for o in forward.declared.outputs if o.dtype == "accumulated"}
    silent.update(forward.declared.side)
    deciding = [n for n in declared.deciding if n not in silent]
    own = replace(
        declared,
        deciding=tuple(deciding or [n for n in floats if n not in silent]),
        side=tuple(n for n in forward.declared.side if n in declared.inputs),
    )
    like = {g: (n,) if n in declared.inputs else () for n, g in gradients.items()}
    return _with(backward, own, like)


def _with(
    program: Equations, declared: Declarations[Term], like: Mapping[str, tuple[str, ...]]
) -> Equations:
    outputs = tuple(replace(o, like=like[o.name]) for o in declared.outputs)
    return replace(program, declared=replace(declared, outputs=outputs))


class _Finder:
    def __init__(self, program: Equations) -> None:
        self.program = program
        inputs, computed = program.declared.inputs.values(), {e.name for e in program.given}
        self.floats = [i.name for i in inputs if i.kind == "float" and i.name not in computed]
        self._factors: dict[Term, _Factors] = {}

    def deciding(self, output: Equation) -> tuple[str, ...]:
        """Return the inputs that decide the dtype of an output."""
        terms = list(subterms(*(e.body for e in self._needed(output))))
        multiplied = {n for t in terms if t.op == "fold" for n in self._operands(t)}
        read = {t.attr.name for t in terms if t.op == "read"}
        operands = [n for n in self.floats if n in multiplied]
        return tuple(operands or [n for n in self.floats if n in read])

    def _needed(self, output: Equation) -> list[Equation]:
        """Return the definitions that an output is computed from, those of given inputs among
        them, and itself."""
        needed: dict[str, Equation] = {}
        waiting = [output]
        while waiting:
            e = waiting.pop()
            if e.name not in needed:
                needed[e.name] = e
                waiting += [self.program.by_name[n] for n in e.body.names]
                waiting += [t.attr for t in subterms(e.body) if t.op == "stored"]
        return list(needed.values())

    def _operands(self, fold: Term) -> set[str]:
        """Return the inputs that a sum multiplies, if it is a contraction."""
        if fold.attr.monoid not in ("sum", "mean"):
            return set()
        bound, (_, body) = open_fold(fold)
        summed = {i.name for i in bound}
        partners: dict[_Read, list[_Read]] = {}
        for read, partner in self.factors(body).pairs:
            partners.setdefault(read, []).append(partner)
        operands: set[str] = set()
        masks: set[str] = set()
        for read, beside in partners.items():
            if not read.is_input or not any(summed & read.indices & r.indices for r in beside):
                continue
            if not any(map(read.is_scale_of, beside)):
                is_mask = any(map(read.is_mask_of, beside))
                (masks if is_mask else operands).add(read.name)
        return operands or masks

    def factors(self, t: Term) -> _Factors:
        """Return the elements that a term multiplies, those of definitions among them."""
        factors = self._factors.get(t)
        if factors is None:
            factors = self._factors[t] = self._factors_of(t)
        return factors

    def _factors_of(self, t: Term) -> _Factors:
        match t.op:
            case "const" | "extent" | "param":
                return _Factors()
            case "index":
                return _one(_Read(_POSITION, t.free))
            case "read":
                return _one(_Read(t.attr.name, t.free, t.args))
            case "ref":
                return self.factors(element(self.program.by_name[t.attr], t.args))
            case "mul":
                return _multiply(map(self.factors, t.args))
            case "cast" if t.args[0].kind != "bool":
                return self.factors(t.args[0])
            case "pow" if t.attr.denominator == 1 and t.attr > 1:
                return _multiply([self.factors(t.args[0])] * 2)
            case "exp" if t.args[0].op == "add":  # a product of exponentials
                return _multiply(self._function([a]) for a in t.args[0].args)
            case "add" | "where":
                addends = [self.factors(a) for a in (t.args if t.op == "add" else t.args[1:])]
                reads = frozenset().union(*(a.reads for a in addends))
                return _Factors(reads, frozenset().union(*(a.pairs for a in addends)))
            case "fold" | "fold_at" | "stored":
                return _one(_Read(_COMPUTED, t.free))
        return self._function([a for a in t.args if a.kind != "bool"])

    def _function(self, args: Sequence[Term]) -> _Factors:
        """Return a function of single elements as a factor: it is computed if one of them is."""
        reads = frozenset(r for a in args for r in self.factors(a).reads)
        if any(r.name == _COMPUTED for r in reads):
            return _one(_Read(_COMPUTED, frozenset().union(*(r.indices for r in reads))))
        return _Factors(frozenset(r for r in reads if not any(map(r.is_scale_of, reads))))


def _one(read: _Read) -> _Factors:
    return _Factors(frozenset({read}))


def _multiply(factors: Iterable[_Factors]) -> _Factors:
    reads: frozenset[_Read] = frozenset()
    pairs: set[tuple[_Read, _Read]] = set()
    for f in factors:
        pairs |= f.pairs | {*product(reads, f.reads)} | {*product(f.reads, reads)}
        reads |= f.reads
    return _Factors(reads, frozenset(pairs))


def _own_indices(subscript: Term) -> Iterator[str]:
    """Yield the indices that a subscript has for itself: none of q - k, both of table[b,k]."""
    if subscript.op in ("read", "ref"):
        for s in subscript.args:
            yield from _own_indices(s)
    elif len(subscript.free) == 1:
        yield from subscript.free
