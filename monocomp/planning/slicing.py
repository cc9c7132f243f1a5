"""Slicing: a value that is too large to be stored is stored for a slice of an index at a time.

The gradients of a layer with a large vocabulary read the logits of each token for every column of
what they give: computed anew, that costs as much again for each block of columns; stored, they are
the tensor of tokens times vocabulary that fusion removed. Of some tokens at a time they are small:

    for each slice of t:
        S[t,v]   = sum[d](X[t,d] * W[v,d])
        dX[t,d]  = sum[v](f(S[t,v]) * W[v,d])
        dW[v,d] += sum[t](f(S[t,v]) * X[t,d])

What has the index is written slice by slice, and sums over it go on from one slice to the next. To
kernels a slice is an index like any other, and tensors with it are views. Where it is no subscript,
as in v == label[t], it counts from where the slice begins, which is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from monocomp import terms as T
from monocomp.costs.cost import ELEMENT_BYTES
from monocomp.costs.roles import outer_folds
from monocomp.declarations.records import Input, Param
from monocomp.display.formulas import name, words
from monocomp.extents.nominal import ROW_BLOCK
from monocomp.planning.naming import NewNames
from monocomp.rewrites.single_folds import opened_sum
from monocomp.rewriting.driver import Step
from monocomp.rewriting.rules import stated
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations, Slices, in_order, stored_in


class _NotSliced(Exception):
    """A value depends on how long the whole is, or something else than a sum joins slices."""


def lengths_of_slices(
    whole: int, stored: int, limit: int, shortest: int = ROW_BLOCK
) -> Iterator[int]:
    """Yield how long slices of an index may be: powers of two, the longest first. In a slice,
    values that take `stored` bytes in all take no more than a tensor of `limit` elements. An index
    no longer than a block of rows is no sequence, but counts heads, say. Its slices may be as short
    as `shortest`: products have tiles for each head, if nothing else is shared.
    """
    most = limit * ELEMENT_BYTES * whole // max(1, stored)
    length = 1 << max(0, most.bit_length() - 1)
    while length >= (ROW_BLOCK if whole > ROW_BLOCK else shortest):
        if length < whole:
            yield length
        length //= 2


@stated
def slice_index(
    program: Equations, stored: Iterable[str], extent: str, length: int, reason: str
) -> Step | None:
    """Return the step that stores values for a slice of an index at a time; None if that is not
    possible.

    Law:     a sum over an index is the sum over its slices, and each element lies in one
    Claims:  sum, division with remainder
    Needs:   in what a slice computes nothing tells how long the whole is, what joins slices are
             sums, and no slice reads what only all of them come to

    Args:
        program: equations in kernels, those of the values among them.
        stored: their names; each has one index of the extent.
        extent: what is sliced.
        length: of a slice.
        reason: for the step.
    """
    if program.slices is not None:
        return None
    if any(i.extent == extent for n in program.in_lists for i in program.by_name[n].indices):
        return None  # lists are sorted whole
    how = program, frozenset(stored), extent, length
    try:
        after = _in_slices(*how)
    except _NotSliced:
        return None
    inside = after.slices.computed if after.slices else frozenset()
    position = tuple(e.name for e in after.computed if e.name in inside)
    before, shown = name(extent.lstrip(".")), words(f"slices of {length}")
    check = partial(_is_sliced, after, *how)
    return Step.of("slice_index", position, before, shown, program, after, check, reason)


def _in_slices(program: Equations, stored: frozenset[str], extent: str, length: int) -> Equations:
    return _Slicing(program, stored, extent, length).program()


def _is_sliced(after: Equations, *how: Any) -> bool:
    return _in_slices(*how) == after


class _Slicing:
    def __init__(self, program: Equations, stored: frozenset[str], extent: str, length: int):
        self.start, self.extent, self.length = program, extent, length
        self.stored = self._only_of_slices(stored)
        self._named = NewNames(program)
        self.index = self._named.index(f"{extent.lstrip('.')}_slice")
        self.start_of = T.param(self._named(f"{extent.lstrip('.')}_start"), "int")
        self.counts = False  # is it asked where a slice begins?
        self.tensors: dict[str, tuple[str, int]] = {}
        self.inputs: dict[str, Input] = {}
        self.dims = dict([self.index.attr])  # the extents of indices that name dimensions of slices
        self.given: dict[str, Equation] = {}
        self.instead: dict[str, Equation] = {}  # by the name of the whole

    def program(self) -> Equations:
        """Return the program in slices."""
        start, part = self.start, self.index.extent
        equations = [e for e in start.equations if e.name in start.in_lists]
        written: dict[str, tuple[str, int]] = {}
        added: set[str] = set()
        inner: set[str] = set()
        for e in start.computed:
            if not self._is_in_slices(e):
                equations.append(e)
                continue
            dims = [n for n, i in enumerate(e.indices) if i.extent == self.extent]
            if len(dims) == 1:
                own = self._of_slice(e, dims[0])
                inner.add(own.name)
                equations.append(own)
                if e.name not in self.stored:
                    if any(e.name in start.read_by(other) for other in start.computed):
                        raise _NotSliced  # what is returned is read as a whole
                    written[own.name] = e.name, dims[0]
                    equations.append(replace(e, body=T.stored(own, e.indices)))
            elif not dims:
                sums, reader = self._sums(e)
                added |= {s.name for s in sums}
                equations += [*sums, reader]
            else:
                raise _NotSliced
        self._check_order(equations, inner | added)
        declared = start.declared
        bound = T.function("minimum", T.extent_of(self.extent), T.const(self.length))
        start_of = self.start_of.attr
        slices = Slices(
            whole=self.extent,
            part=part,
            start=start_of if self.counts else None,
            length=self.length,
            read=self.tensors,
            written=written,
            added=frozenset(added),
            computed=frozenset(inner | added),
        )
        return replace(
            start,
            declared=replace(
                declared,
                inputs={**declared.inputs, **self.inputs},
                params={
                    **declared.params,
                    **({start_of: Param(start_of, "int", 0)} if self.counts else {}),
                },
                extent_of={**self.dims, **declared.extent_of, part: part},
                bounds={**declared.bounds, part: bound},
            ),
            equations=in_order(equations),
            given=(*start.given, *self.given.values()),
            views={whole: name for name, (whole, _) in written.items()},
            slices=slices,
        )

    def _only_of_slices(self, stored: frozenset[str]) -> frozenset[str]:
        """Return the values, and what else has the index, reads one and is no output."""
        outputs = {o.name for o in self.start.outputs}
        names = set(stored)
        for e in self.start.computed:  # each after what it reads
            has_index = any(i.extent == self.extent for i in e.indices)
            if has_index and e.name not in outputs and self.start.read_by(e) & names:
                names.add(e.name)
        return frozenset(names)

    def _is_in_slices(self, e: Equation) -> bool:
        """True if an equation computes one of the values, or reads one."""
        return e.name in self.stored or any(s.name in self.stored for s in stored_in(e.body))

    def _check_order(self, equations: Sequence[Equation], inside: set[str]) -> None:
        """Require that no slice reads what only all of them come to."""
        late: set[str] = set()
        for e in in_order(equations):
            read = {s.name for s in stored_in(e.body)}
            names = {t.attr.name for t in T.subterms(e.body) if t.op == "read"}
            if e.name not in inside and read & (inside | late):
                late.add(e.name)
            elif late & (read | {self.tensors[n][0] for n in names & self.tensors.keys()}):
                raise _NotSliced

    def _of_slice(self, e: Equation, dim: int) -> Equation:
        """Return an equation for the elements of a slice."""
        indices = list(e.indices)
        body = self._in_slice(T.substitute(e.body, {indices[dim].name: self.index}))
        indices[dim] = self.index
        name = e.name
        if e.name in self.stored:
            indices = list(_first(indices, self.index))  # its rows lie one after the other
        else:
            name = self._named(f"{e.name}_slice")
        own = Equation(name, tuple(indices), body)
        self.instead[e.name] = own
        return own

    def _sums(self, e: Equation) -> tuple[list[Equation], Equation]:
        """Return the sums that the slices add to, and the equation that reads them at the end."""
        sums: list[Equation] = []
        body = e.body
        for f in outer_folds([e]):
            if self.extent not in f.folded:
                continue
            opened = opened_sum(f)
            if opened is None or opened[0].extent != self.extent:
                raise _NotSliced
            bound, *inside = opened
            substitution = {bound.name: self.index}
            parts = (self._in_slice(T.substitute(p, substitution)) for p in inside)
            total = T.fold("sum", (self.index,), *parts)
            own = tuple(i for i in e.indices if i.name in total.free)
            sums.append(Equation(self._named(f"{e.name}_sum"), own, total))
            body = T.replace(body, f, T.stored(sums[-1], own))
        if any(s.name in self.stored for s in stored_in(body)):
            raise _NotSliced
        return sums, replace(e, body=body)

    def _in_slice(self, t: Term) -> Term:
        """Return a term that reads the slice of each tensor that has the sliced index."""

        def read(t: Term) -> Term | None:
            if t is self.index:
                self.counts = True
                return T.add(t, self.start_of)
            if t.op in T.READS and self.index in t.args:
                positions = (a if a is self.index else visit(a) for a in t.args)
                return self._read_slice(T.rebuild(t, tuple(positions)))
            if t.op == "stored" and t.attr.name in self.instead:
                raise _NotSliced  # the whole of what only a slice is there
            return None

        visit = T.transform(read)
        sliced = visit(t)
        if not _is_plain(sliced, self.index, self.extent):
            raise _NotSliced
        return sliced

    def _read_slice(self, t: Term) -> Term:
        dim = t.args.index(self.index)
        if t.op == "stored" and t.attr.name in self.instead:
            return T.stored(self.instead[t.attr.name], _first(t.args, self.index))
        name = T.name_of(t)
        known = {tensor: (own, d) for own, (tensor, d) in self.tensors.items()}
        if name not in known:
            own = self._named(f"{name}_slice")
            self.tensors[own] = name, dim
            self._declare(own, name, dim, t)
            known[name] = own, dim
        own, at = known[name]
        if at != dim:
            raise _NotSliced
        if own in self.given:
            return T.stored(self.given[own], t.args)
        extents = list(t.attr.extents)
        extents[dim] = self.index.extent
        return T.read(T.Tensor(own, tuple(extents)), t.args, t.kind)

    def _declare(self, own: str, name: str, dim: int, t: Term) -> None:
        """A slice is an input like any other; of one that is given with its definition, this holds
        for slices too, where it is as plain."""
        part = self.index.name
        declared = self.start.declared.inputs.get(name)
        if declared is None:
            self.dims.update(i.attr for i in t.attr.indices)
            dims = [i.name for i in t.attr.indices]
        else:
            dims = list(declared.dims)
        dims[dim] = part
        dtype = None if declared is None else declared.dtype
        self.inputs[own] = Input(own, tuple(dims), t.kind, dtype)
        if t.op == "stored" and t.attr.given:
            indices = list(t.attr.indices)
            body = T.substitute(t.attr.body, {indices[dim].name: self.index})
            indices[dim] = self.index
            try:
                body = self._in_slice(body)
            except _NotSliced:
                return
            self.given[own] = Equation(own, tuple(indices), body, given=True)


def _first(terms: Sequence[Term], one: Term) -> tuple[Term, ...]:
    """Return terms with one of them before the others."""
    return (one, *(t for t in terms if t is not one))


def _is_plain(t: Term, index: Term, extent: str) -> bool:
    """True if the term is not the index itself, has it at most once in each read, and does not tell
    how long the whole is."""
    for s in T.subterms(t):
        if s.op == "extent" and s.attr == extent:
            return False
        if s.op in T.READS and s.args.count(index) > 1:
            return False
        if s.op == "fold" and extent in s.attr.extents:
            return False
    return t is not index
