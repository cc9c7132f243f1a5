"""The gradient of a program, as a program: its equations differentiated in reverse.

Equations are differentiated in normal form: there the naive, the safe and the lazy softmax are one
object, and a maximum that cancels is not differentiated at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from monocomp import terms as T
from monocomp.declarations.records import Declarations, Input, Output, by_representative
from monocomp.errors import require_known
from monocomp.gradients.centred_rows import about_means
from monocomp.gradients.choosing import (
    Times,
    choose,
    large_values,
    running_exponents,
    weighed,
)
from monocomp.gradients.definitions import (
    AdjointNames,
    extents_of,
    names_needed,
    with_names,
)
from monocomp.gradients.gradient import GradientPrograms, Named, Trace
from monocomp.gradients.reading import Reading
from monocomp.gradients.reverse import Adjoints, IndexNames, Node, transposed
from monocomp.gradients.saving import candidates, names_for
from monocomp.gradients.stored_values import (
    StoredValues,
    definitions_of,
    name_intermediates,
    returning,
    with_narrow,
)
from monocomp.machine.locking import BUILDING
from monocomp.planning.naming import NewNames
from monocomp.rewrites.centring import anchoring
from monocomp.rewrites.elaboration import elaboration
from monocomp.rewrites.normal_form import normal_form
from monocomp.rewriting.driver import Rewriter
from monocomp.rewriting.sharing import is_small, kept
from monocomp.terms import Term
from monocomp.terms.contractions import with_gradients_dtypes
from monocomp.terms.equations import Equation, Equations, in_order
from monocomp.terms.monomials import is_multiple


def normalising(program: Equations) -> Rewriter:
    """Return the rewrites of the program to one with its definitions inlined, as sums of
    products of exponentials."""
    rewriter = Rewriter(program)
    rewriter.inline_definitions()
    rewriter.name_logits()
    for rules in (elaboration, normal_form, anchoring):
        rewriter.exhaust(rules)
    return rewriter


def gradient(
    program: Equations,
    wrt: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    save: Sequence[str] | None = None,
    extents: Mapping[str, int] | None = None,
    plans: bool = True,
    named: Named | None = None,
    frames: Mapping[str, str] | None = None,
    free: Collection[str] = (),
) -> GradientPrograms:
    """Return the gradient of `sum(cotangent * output)` with respect to inputs.

    Args:
        program: equations as they are written.
        wrt: names of inputs and params of kind float; all that are, unless given.
        outputs: which outputs have a cotangent; all of kind float, unless given.
        save, extents: as for `grad`.
        plans: may values be saved that are worth it only as both programs are planned?
        named: what is differentiated by name; what costs least, unless given.
        frames: the maxima that a gradient saved beside logarithms, by the names of these.
        free: those of them that any numbers would do for: they have no derivative, and the
            logarithm has that of its sum.

    Raises:
        UsageError: there is no such input, output or value, or it is no float.
        UnsupportedError: an aggregate has no derivative.
    """
    sizes = by_representative(program.declared, extents or {})
    definitions = definitions_of(program)
    running = running_exponents(program, sizes) if save is None else []
    returned = running or [n for n in dict.fromkeys(save or ()) if n in definitions]
    if returned and outputs is None:  # definitions have no derivative of their own
        outputs = [e.name for e in program.outputs if e.body.kind == "float"]
    start = returning(program, returned)
    wanted = _wanted(program, wrt)
    what = program, start, wanted, outputs, save, sizes, plans, frames or {}, free
    request = _Request(*what, Times(sizes))
    with BUILDING:
        programs = request.programs(named)
        # Where a row has no element, logarithms tell that weights are 0: they are kept as well.
        logarithms = [c.name for c in programs.choices if c.is_logarithm and not c.is_saved]
        if returned and logarithms and save is not None:
            programs = replace(request, save=[*save, *logarithms]).programs(named)
        return programs


@dataclass(frozen=True)
class _Request:
    """The gradients that are asked for, of which the one that costs least is searched.

    Attributes:
        written: the program.
        start: the program, which also returns definitions that may be saved.
        wrt: names of inputs and params.
        sizes: extents that are known, by representative.
        times: what gradients take.
    """

    written: Equations
    start: Equations
    wrt: Sequence[str]
    outputs: Sequence[str] | None
    save: Sequence[str] | None
    sizes: Mapping[str, int]
    plans: bool
    frames: Mapping[str, str]
    free: Collection[str]
    times: Times

    def programs(self, named: Named | None) -> GradientPrograms:
        """Return the gradient, with large values that it saves by name."""
        if named is not None:
            normal = self.normal(named)
            return self.chosen(self.derived(normal, named, self.save), normal)
        programs = self.with_definitions()
        large = large_values(programs, self.sizes)
        if not large:
            return programs
        forward, choices = with_narrow(programs.forward, large), programs.choices
        again = replace(
            self,
            written=forward,
            start=forward,
            outputs=[*programs.cotangents],
            frames=programs.frames,
            save=[c.name for c in choices if c.is_saved and c.name in forward.by_name],
        ).programs(Named(tuple(large), programs.named.definitions))
        return replace(again, program=self.written, choices=choices)

    def normal(self, by_name: Named) -> Rewriter:
        """Return the program in normal form, with some values and definitions by name."""
        rewriter = normalising(replace(self.start, kept=by_name.definitions or self.start.kept))
        name_intermediates(rewriter, by_name.values)
        return rewriter

    def derived(
        self, normal: Rewriter, by_name: Named, save: Sequence[str] | None
    ) -> GradientPrograms:
        """Return the gradient that saves some values."""
        return _Derivation(replace(self, save=save), normal, by_name).gradient()

    def chosen(self, programs: GradientPrograms, normal: Rewriter) -> GradientPrograms:
        """Return the gradient that saves the values that cost least, where none are asked for:
        `programs` saves all that may be worth it."""
        if self.save is not None or not any(c.is_open for c in programs.choices):
            return programs
        derive = partial(self.derived, normal, programs.named)
        if self.plans:
            return weighed(programs, derive, self.times)
        return derive([c.name for c in programs.choices if c.is_saved and not c.is_open])

    def with_definitions(self) -> GradientPrograms:
        """Return the gradient, with definitions that are stored if that is far cheaper."""
        none, fitting = Named(), kept(self.start, all_that_fit=True)
        normal = self.normal(none)
        programs = self.derived(normal, none, self.save)
        if not is_small(programs.equations):
            normal = self.normal(Named(definitions=fitting))
            programs = self.derived(normal, none, self.save)
        programs = self.chosen(programs, normal)
        definitions = fitting - {o.name for o in self.start.outputs}
        definitions -= normal.program.kept or frozenset()
        if definitions and self.plans:
            by_name = Named(definitions=definitions)
            normal = self.normal(by_name)
            # Then another value may be asked for.
            if self.save is None or {
                c.name for c in self.derived(normal, by_name, []).choices
            }.issuperset(self.save):
                stored = self.chosen(self.derived(normal, by_name, self.save), normal)
                if self.times.is_far_cheaper(stored, programs):
                    return stored
        return programs


def _wanted(program: Equations, wrt: Sequence[str] | None) -> list[str]:
    declared = program.declared
    kinds = {n: i.kind for n, i in declared.inputs.items()}
    kinds |= {n: p.kind for n, p in declared.params.items()}
    floats = [n for n, kind in kinds.items() if kind == "float"]
    if wrt is None:
        return [n for n in declared.inputs if n in floats]
    for name in wrt:
        is_none = f"there is no gradient with respect to '{name}', which is no input of kind float"
        require_known(name, floats, is_none, "inputs of kind float")
    return list(wrt)


class _Derivation:
    """Differentiates the equations of a program, each after those that read it."""

    def __init__(self, request: _Request, normal: Rewriter, by_name: Named) -> None:
        self.request, self.by_name = request, by_name
        self.written, self.frames = request.written, request.frames
        self.saved: dict[str, Equation] = {}
        self.program, self.steps = normal.program, normal.steps
        shown = {*normal.shown_names()}  # names whose terms are gone may be given again
        self.known = tuple(a for a in self.program.known if a.name in shown)
        self.new = NewNames(replace(self.program, known=self.known))
        self.fresh = IndexNames(self.program.declared.extent_of)
        self.weights: list[Equation] = []
        floats = [e.name for e in self.program.outputs if e.body.kind == "float"]
        for name in request.outputs or ():
            is_none = f"the program has no output '{name}' of kind float"
            require_known(name, floats, is_none, "outputs of kind float")
        wanted = floats if request.outputs is None else request.outputs
        self.cotangents = {
            name: self.new(f"d{name}")
            for name in floats
            if name in wanted and name not in request.free
        }

    def gradient(self) -> GradientPrograms:
        wrt = self.request.wrt
        gradients = {name: self.new(f"d{name}") for name in wrt}
        reading = self._reading()
        how = self.weights, self.cotangents.values(), self.new, self._position
        self.names = AdjointNames(self.program, reading, *how)
        self.adjoints = Adjoints(self.fresh, self.names.name)
        read_again: list[tuple[str, Equation]] = []
        waiting = [e for e in reversed(self.program.equations) if e.body.kind == "float"]
        while waiting:
            awaited = frozenset[str]().union(*(e.body.names for e in waiting))
            read_again += self._differentiate([e for e in waiting if e.name not in awaited])
            waiting = [e for e in waiting if e.name in awaited]
        leaves = self.adjoints.leaves
        nodes = [n for n in leaves if n.term.op == "ref" or T.name_of(n.term) in gradients]
        self.adjoints.leaves, rows = self._read(nodes, reading)
        adjoints = [Equation(name, e.indices, self._adjoint(e)) for name, e in read_again]
        of_inputs = [self._of_input(name, gradients[name]) for name in wrt]
        definitions = [*self.weights, *self.names.equations]
        _, used = names_needed([*rows, *adjoints, *of_inputs], {}, {e.name: e for e in definitions})
        definitions, named = with_names([e for e in definitions if e.name in used], self.known)
        equations = [*in_order([*named, *definitions, *rows, *adjoints]), *of_inputs]
        by_name = self.by_name.definitions.union(self.by_name.values)
        multiples = {e.name for e in adjoints if is_multiple(e.body)}  # which are read as well
        stay = by_name.union(
            name for name, e in read_again if e.name in by_name and name not in multiples
        )
        stay = stay.union(e.name for e in rows)
        # Sums of rows of a stored adjoint are needed again for each block of another index.
        stay |= frozenset(e.name for e in self.names.rows if not e.body.names.isdisjoint(stay))
        read, _ = names_needed(equations, self.stored.given, {})
        self.saved = {n: e for n, e in self.stored.saved.items() if n in read}
        frames = {n: m for n, m in self.stored.frames.items() if n in self.saved}
        backward = self._program(equations, gradients)
        backward = replace(backward, kept=stay & backward.by_name.keys() or None)
        return GradientPrograms(
            self.written,
            self._forward(),
            backward,
            self.saved,
            self.cotangents,
            gradients,
            tuple(c.as_far_as_read(self.saved, self.written) for c in self.choices),
            Trace(
                self.request.start,
                tuple(self.steps),
                tuple(self.adjoints.visited),
                tuple(e.name for e in (*named, *definitions)),
            ),
            self.by_name,
            frames,
        )

    def _read(
        self, nodes: Sequence[Node], reading: Reading
    ) -> tuple[dict[Node, list[Term]], list[Equation]]:
        """Return the adjoints of nodes, by what is saved, and sums of rows that they add up."""
        rows: list[Equation] = []

        def named(row: Term) -> Term:
            indices = tuple(sorted(T.free_indices(row), key=self._position))
            rows.append(Equation(self.new("D"), indices, self.names.read(row)))
            return T.ref(rows[-1].name, indices, "float")

        leaves: dict[Node, list[Term]] = {}
        for n in nodes:
            adjoint = T.add(T.ZERO, *self.adjoints.leaves[n])
            t, n = about_means(adjoint, n, self.fresh, named, self.names.written_out)
            where = replace(n, condition=reading(n.condition))
            leaves.setdefault(where, []).append(self.names.read(t, n.condition))
        return leaves, rows

    def _forward(self) -> Equations:
        """Return the program with the values that it saves, in the dtype in which they are
        computed."""
        written = self.written
        returned = {o.name for o in written.declared.outputs}
        outputs = (Output(n, "accumulated") for n in self.saved if n not in returned)
        declared = replace(written.declared, outputs=(*written.declared.outputs, *outputs))
        more = (e for e in self.saved.values() if e.name not in written.by_name)
        return replace(
            written, declared=declared, equations=(*written.equations, *more), as_written=None
        )

    def _position(self, index: Term) -> tuple[int, str]:
        """Return the order of indices: those of results before those that are summed."""
        first = (i.name for e in self.program.outputs for i in e.indices)
        order = [*dict.fromkeys((*first, *self.program.declared.extent_of))]
        name = index.name
        return order.index(name) if name in order else len(order), name

    def _reading(self) -> Reading:
        """Choose which values are saved, and return what reads them."""
        values = []
        for s in candidates(self.program, self.fresh):
            indices = tuple(sorted(s.equation.indices, key=self._position))
            equation = Equation(self._new_output(s.equation.name), indices, s.equation.body)
            frame = s.frame and Equation(self._new_output(s.frame.name), indices, s.frame.body)
            values.append(replace(s, equation=equation, frame=frame))
        self.stored = StoredValues(self.program, values, self.frames)
        definitions = definitions_of(self.written)
        how = self.request.sizes, self.request.save, definitions
        self.choices = choose(self.program, self.stored.outputs, values, *how)
        kept = {c.name for c in self.choices if c.is_saved}
        return self.stored.reading(kept, self.by_name.values, self._weight)

    def _new_output(self, wanted: str) -> str:
        """Return a name for an output of the forward, which no definition as it is written has."""
        name = self.new(wanted)
        return self._new_output(wanted) if name in self.written.by_name else name

    def _weight(self, weight: Term) -> Term:
        """Return the name of a weight."""
        substitution = names_for(weight, self.fresh)
        back = {at.name: T.index(name, at.extent) for name, at in substitution.items()}
        opened = T.substitute(weight, substitution)
        indices = tuple(sorted(T.free_indices(opened), key=self._position))
        self.weights.append(Equation(self.new("P"), indices, opened))
        subscripts = [back.get(i.name, i) for i in indices]
        return T.ref(self.weights[-1].name, subscripts, "float")

    def _differentiate(self, equations: Iterable[Equation]) -> list[tuple[str, Equation]]:
        """Go backwards through equations whose readers are known; the adjoint of one that others
        read is a definition, returned with its name."""
        read_again: list[tuple[str, Equation]] = []
        starts: list[tuple[Equation, Term]] = []
        read = {n.term.attr for n in self.adjoints.leaves if n.term.op == "ref"}
        for e in equations:
            total = self._adjoint(e)
            if total is T.ZERO:
                continue
            if e.name in read:
                name = self.new(f"d{e.name}")
                self.names.adjoints.add(name)
                read_again.append((name, e))
                total = T.ref(name, e.indices, "float")
            elif (frame := self.frames.get(e.name)) and frame in self.request.free:
                e = replace(e, body=T.add(e.body, self.program.by_name[frame].body))
            starts.append((e, total))
        self.adjoints.add(starts)
        return read_again

    def _adjoint(self, e: Equation) -> Term:
        """Return the adjoint of an equation's elements."""
        of_reads = self._transposed(e.name, e.indices)
        if e.name not in self.cotangents:
            return of_reads
        cotangent = T.Tensor(self.cotangents[e.name], e.extents)
        return T.add(of_reads, T.read(cotangent, e.indices, "float"))

    def _transposed(self, name: str, indices: Sequence[Term]) -> Term:
        return T.add(
            T.ZERO,
            *(
                transposed(node, T.add(T.ZERO, *adjoints), indices)
                for node, adjoints in self.adjoints.leaves.items()
                if T.name_of(node.term) == name
            ),
        )

    def _of_input(self, name: str, gradient: str) -> Equation:
        declared = self.program.declared
        if name in declared.params:
            return Equation(gradient, (), self._transposed(name, ()))
        indices = tuple(self._dims(declared.inputs[name]))
        return Equation(gradient, indices, self._transposed(name, indices))

    def _dims(self, declared: Input) -> Iterable[Term]:
        """Return an index of its own for each dimension of an input."""
        used: set[str] = set()
        for dim in declared.dims:
            extent = self.program.declared.extent_of[dim]
            plain = dim.lstrip(".")  # a name that is made up for a dimension starts with a dot
            (name,) = self.fresh((extent,), used) if plain in used else (plain,)
            used.add(name)
            yield T.index(name, extent)

    def _program(self, backward: Sequence[Equation], gradients: Mapping[str, str]) -> Equations:
        """Return a program of what is found, with what it reads."""
        declared = self.program.declared
        own = (e for n, e in self.stored.given.items() if n in self.saved)
        given = {e.name: e for e in (*self.program.given, *own)}
        by_saved = T.mapping_refs(
            self.saved, lambda t: self.stored.read(self.saved[t.attr], t.args)
        )
        backward, forward = (
            [replace(e, body=by_saved(e.body)) for e in equations]
            for equations in (backward, self.program.equations)
        )
        definitions = {e.name: e for e in forward}
        read, defined = names_needed(backward, given, definitions)
        defined -= {e.name for e in backward}
        equations = (*(e for e in forward if e.name in defined), *backward)
        given = {n: e for n, e in given.items() if n in read}
        inputs = dict(declared.inputs)
        for e in (*self.program.outputs, *self.saved.values()):
            if e.name in given:  # its definition stands behind what it reads
                inputs.pop(e.name, None)
            for name in (e.name, self.cotangents.get(e.name, e.name)):
                inputs[name] = Input(name, tuple(i.name for i in e.indices), e.body.kind)
        needed = {n: i for n, i in inputs.items() if n in read or n in self.cotangents.values()}
        extent_of = {**extents_of((*equations, *given.values())), **declared.extent_of}
        for n, i in declared.inputs.items():  # extents are read off inputs, too
            known = {extent_of[d] for at in needed.values() for d in at.dims}
            if not known.issuperset(extent_of[d] for d in i.dims):
                needed[n] = i
        return with_gradients_dtypes(
            replace(
                self.program,
                declared=Declarations(
                    {n: i for n, i in inputs.items() if n in needed},
                    declared.params,
                    tuple(Output(n) for n in gradients.values()),
                    extent_of,
                    declared.bounds,
                    masked=declared.masked & needed.keys(),
                ),
                equations=equations,
                given=tuple(given.values()),
                known=(),
                kept=None,
                as_written=None,
            ),
            self._forward(),
            gradients,
        )
