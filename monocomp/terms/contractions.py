"""Contractions, and the inputs that they multiply: these decide the dtypes of products and results.

    sum[k](P[q,k] * M[q,k] * g[k] * V[k,e])

A contraction is a sum over an index of a product of at least two factors that vary with it. An
input is an operand of it if it is a factor, by itself or under functions of single elements. A
scale is no operand: an input beside another one that has all of its indices and more (g beside V).
Neither is an input that scales, element by element, what an aggregate computes (M beside the
weights P, if there is a V), nor what aggregates are computed from (a bias of the logits of P).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from monocomp.declarations.records import Declarations
from monocomp.terms.binders import open_fold
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.folds import substitute
from monocomp.terms.nodes import Term
from monocomp.terms.walking import subterms

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


_Atom: TypeAlias = frozenset[_Read]  # what a function of single elements is computed from
_Product: TypeAlias = tuple[_Atom, ...]
_Factor: TypeAlias = tuple[_Product, ...]  # a sum of products
_Factors: TypeAlias = tuple[_Factor, ...]


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

    def _operands(self, fold: Term) -> list[str]:
        """Return the inputs that a sum multiplies, if it is a contraction."""
        if fold.attr.monoid not in ("sum", "mean"):
            return []
        bound, (_, body) = open_fold(fold)
        operands: dict[str, bool] = {}  # is it a factor by itself, and no mask?
        for read, product, others in _multiplied(self.factors(body), {i.attr[0] for i in bound}):
            if not _is_beside(read.is_scale_of, product, others):
                is_whole = not _is_beside(read.is_mask_of, product, others)
                operands[read.name] = operands.get(read.name, False) or is_whole
        return [n for n in operands if operands[n]] or list(operands)

    def factors(self, t: Term) -> _Factors:
        """Return the factors of a term, those of definitions that it reads among them."""
        known = self._factors.get(t)
        if known is None:
            known = self._factors[t] = self._factors_of(t)
        return known

    def _factors_of(self, t: Term) -> _Factors:
        match t.op:
            case "const" | "extent" | "param":
                return ()
            case "index":
                return _one(_Read(_POSITION, t.free))
            case "read":
                return _one(_Read(t.attr.name, t.free, t.args))
            case "ref":
                return self._of_definition(t)
            case "mul":
                return tuple(f for a in t.args for f in self.factors(a))
            case "cast" if t.args[0].kind != "bool":
                return self.factors(t.args[0])
            case "pow" if t.attr.denominator == 1 and t.attr > 1:
                return self.factors(t.args[0]) * 2
            case "exp" if t.args[0].op == "add":  # a product of exponentials
                return tuple(f for a in t.args[0].args for f in self._under_function([a]))
            case "add" | "where":
                addends = t.args if t.op == "add" else t.args[1:]
                return (tuple(tuple(_twice_at_most(_atoms(self.factors(a)))) for a in addends),)
            case "fold" | "fold_at" | "stored":
                return _one(_Read(_COMPUTED, t.free))
        return self._under_function([a for a in t.args if a.kind != "bool"])

    def _under_function(self, args: Sequence[Term]) -> _Factors:
        """Return a function of single elements as a factor: it is computed if one of them is."""
        reads = frozenset(r for a in args for x in _atoms(self.factors(a)) for r in x)
        if any(r.name == _COMPUTED for r in reads):
            return _one(_Read(_COMPUTED, frozenset().union(*(r.indices for r in reads))))
        return (((reads,),),) if reads else ()

    def _of_definition(self, ref: Term) -> _Factors:
        e = self.program.by_name[ref.attr]
        subscripts = {i.attr[0]: a for i, a in zip(e.indices, ref.args, strict=True)}

        def renamed(read: _Read) -> _Read:
            free = (subscripts[i].free if i in subscripts else {i} for i in read.indices)
            terms = tuple(substitute(s, subscripts) for s in read.subscripts)
            return _Read(read.name, frozenset().union(*free), terms)

        return tuple(
            tuple(tuple(frozenset(map(renamed, x)) for x in product) for product in factor)
            for factor in self.factors(e.body)
        )


def _multiplied(
    factors: _Factors, summed: set[str]
) -> Iterator[tuple[_Read, _Product, Sequence[_Factor]]]:
    """Yield the elements of inputs in a product that vary with an index which is summed, if
    another factor does, with what they are multiplied with: of their addend, and other factors."""
    for number, factor in enumerate(factors):
        others = (*factors[:number], *factors[number + 1 :])
        for product in factor:
            for position, atom in enumerate(product):
                partners = [*_atoms(others), *product[:position], *product[position + 1 :]]
                varying = summed & {i for x in partners for r in x for i in r.indices}
                for read in atom:
                    if read.is_input and read.indices & varying:
                        yield read, product, others


def _is_beside(
    holds: Callable[[_Read], bool], product: _Product, others: Sequence[_Factor]
) -> bool:
    """True if something for which this holds is multiplied with a number in all addends."""

    def is_in(product: Iterable[_Atom]) -> bool:
        return any(holds(r) for atom in product for r in atom)

    return is_in(product) or any(factor and all(map(is_in, factor)) for factor in others)


def _one(read: _Read) -> _Factors:
    return (((frozenset({read}),),),)


def _atoms(factors: Iterable[_Factor]) -> Iterator[_Atom]:
    """Yield what products are made of, and what sums among them add, side by side."""
    return (x for factor in factors for product in factor for x in product)


def _twice_at_most(atoms: Iterable[_Atom]) -> Iterator[_Atom]:
    """Yield each atom up to two times: those of an atom beside itself are all that more would say,
    and sums of products of sums have too many."""
    count: Counter[_Atom] = Counter()
    for x in atoms:
        count[x] += 1
        if count[x] <= 2:
            yield x


def _own_indices(subscript: Term) -> Iterator[str]:
    """Yield the indices that a subscript has for itself: none of q - k, both of table[b,k]."""
    if subscript.op in ("read", "ref"):
        for s in subscript.args:
            yield from _own_indices(s)
    elif len(subscript.free) == 1:
        yield from subscript.free
