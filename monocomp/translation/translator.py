"""The translation of a checked program to equations between index terms.

Definitions stay separate equations until a rewrite inlines them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from monocomp import terms as T
from monocomp.declarations.records import Declarations
from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS, SELECTIONS
from monocomp.errors import InternalError
from monocomp.language import syntax
from monocomp.machine.locking import BUILDING
from monocomp.terms import Term
from monocomp.terms.contractions import with_dtypes
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.masks import with_masks
from monocomp.translation.entries import entries_of, of_numbers


def translate(program: syntax.Program, sizes: Mapping[str, int] | None = None) -> Equations:
    """Return a checked program as equations, for sizes as far as they are known, by representative.

    A fold over an extent that is known to be 0 is one whose filter admits nothing.
    """
    with BUILDING:
        translator = _Translator(program, sizes or {})
        equations = Equations(
            translator.declarations(),
            tuple(translator.equation(d) for d in program.definitions.values() if not d.given),
            program.origin,
            given=tuple(translator.given(d) for d in program.definitions.values() if d.given),
            sizes=translator.sizes,
            as_written=partial(translate, program),
        )
        return with_masks(with_dtypes(equations))


def translate_monoid(monoid: syntax.Monoid) -> T.UserMonoid:
    """Return a monoid of no program."""
    return _Translator(syntax.Program()).monoid(monoid)


_BINARY: dict[str, Callable[[Term, Term], Term]] = {
    "+": lambda a, b: T.construct("add", a, b),
    "-": lambda a, b: T.construct("add", a, T.neg(b)),
    "*": lambda a, b: T.construct("mul", a, b),
    "/": T.divide,
    "//": T.floordiv,
    "%": T.modulo,
    "**": T.general_power,
}


class _Translator:
    """Translates the expressions of a program."""

    def __init__(self, program: syntax.Program, sizes: Mapping[str, int] | None = None) -> None:
        self.program = program
        self.sizes = sizes or {}
        self._given: dict[str, Equation] = {}
        self.monoids: dict[str, T.UserMonoid] = {
            m.name: self.monoid(m) for m in program.monoids.values()
        }

    def index(self, name: str) -> Term:
        return T.index(name, self.program.extent_of[name])

    def _is_empty(self, extent: str) -> bool:
        """True if an extent is known, or declared, to be 0."""
        bound = self.program.bounds.get(extent)
        is_declared = isinstance(bound, syntax.Number) and bound.value == 0
        return is_declared or self.sizes.get(extent) == 0

    def declarations(self) -> Declarations[Term]:
        """Return what the program declares; no known sizes are put into bounds of extents."""
        program = self.program
        plain = _Translator(program) if program.bounds else self
        bounds = {name: plain.expr(e) for name, e in program.bounds.items()}
        given = (program.inputs, program.params, program.outputs, program.extent_of)
        return Declarations(*given, bounds, program.undeclared)

    def equation(self, definition: syntax.Definition) -> Equation:
        body = self.expr(definition.body)
        if self.program.kinds.get(definition.name) == "float":
            body = T.as_float(body)
        return Equation(definition.name, tuple(map(self.index, definition.indices)), body)

    def given(self, definition: syntax.Definition) -> Equation:
        """Return an input with what it is."""
        given = self._given.get(definition.name)
        if given is None:
            given = replace(self.equation(definition), given=True)
            self._given[definition.name] = given
        return given

    def monoid(self, declared: syntax.Monoid) -> T.UserMonoid:
        m = of_numbers(declared)
        unit = tuple(T.as_float(self.expr(e)) for e in m.unit)
        combine = tuple(T.as_float(self.expr(e)) for e in m.combine)
        return T.UserMonoid(m.name, m.fields, unit, combine)

    def expr(self, e: syntax.Expr) -> Term:
        match e:
            case syntax.Number():
                return T.const(e.value)
            case syntax.Name():
                return self._name(e)
            case syntax.Read():
                return self._read(e.name, [self.expr(s) for s in e.subscripts])
            case syntax.Extent():
                extent = self.program.extent_of[e.index]
                return T.const(0) if self._is_empty(extent) else T.extent_of(extent)
            case syntax.Unary() if e.op == "not":
                return T.negate(self._condition(e.operand))
            case syntax.Unary():
                return T.neg(self.expr(e.operand))
            case syntax.Binary():
                return _BINARY[e.op](self.expr(e.left), self.expr(e.right))
            case syntax.Compare():
                operands = [self.expr(x) for x in e.operands]
                pairs = zip(e.ops, operands, operands[1:], strict=False)
                return T.conjunction(*(T.compare(op, a, b) for op, a, b in pairs))
            case syntax.Logic():
                conditions = [self._condition(x) for x in e.operands]
                join = T.conjunction if e.op == "and" else T.disjunction
                return join(*conditions)
            case syntax.Call():
                return self._call(e)
            case syntax.Reduce():
                return self._reduce(e)
            case syntax.Field():
                return self._field(e)
        raise InternalError(f"no translation for {type(e).__name__}")

    def _condition(self, e: syntax.Expr) -> Term:
        term = self.expr(e)
        is_condition = term.kind == "bool"
        return term if is_condition else T.compare("!=", term, T.const(0, term.kind))

    def _name(self, e: syntax.Name) -> Term:
        program = self.program
        match e.kind:
            case "index":
                return self.index(e.name)
            case "param":
                return T.param(e.name, program.params[e.name].kind)
            case "scalar":
                return self._read(e.name, [])
        return T.param(e.name, "float")  # a monoid's field

    def _read(self, name: str, subscripts: Sequence[Term]) -> Term:
        program = self.program
        if name not in program.definitions:
            tensor = T.Tensor(name, program.extents(name))
            return T.read(tensor, subscripts, program.inputs[name].kind)
        if program.definitions[name].given:
            return T.stored(self.given(program.definitions[name]), subscripts)
        return T.ref(name, subscripts, program.kinds[name])

    def _call(self, e: syntax.Call) -> Term:
        parts = [self.expr(a) for a in e.args]
        if e.function == "where":
            parts[0] = self._condition(e.args[0])
        return T.function(e.function, *parts)

    def _reduce(self, e: syntax.Reduce) -> Term:
        condition = T.TRUE if e.condition is None else self._condition(e.condition)
        opened = tuple(self.index(i) for i in e.indices)
        if any(self._is_empty(i.extent) for i in opened):
            condition = T.FALSE  # what simplifies terms supposes that extents are at least 1
        monoid: str | T.UserMonoid = self.monoids.get(e.op, e.op)
        bodies = [self.expr(a) for a in e.args]
        if isinstance(monoid, T.UserMonoid):
            bodies = _by_entries(self.program.monoids[e.op], bodies)
        result: Term
        if e.op in KEEPING_REDUCTIONS and len(opened) > 1:
            return T.softmax(e.op, opened, condition, *bodies)
        if e.prefix or e.op in (*KEEPING_REDUCTIONS, *SELECTIONS):
            position = opened[0] if e.target is None else self.index(e.target)
            target = None if e.target is None else self.program.extent_of[e.target]
            result = T.fold_at(monoid, position, opened[0], condition, *bodies, target=target)
        else:
            result = T.fold(monoid, opened, condition, *bodies)
        if isinstance(monoid, T.UserMonoid) and len(monoid.fields) == 1:
            result = T.field(result, monoid.fields[0])
        return result

    def _field(self, e: syntax.Field) -> Term:
        """Return a field of an aggregate, or an entry of it: which one its subscripts say."""
        folded = self.expr(e.operand)
        if folded.op == "field":
            return folded
        if not e.subscripts or not isinstance(e.operand, syntax.Reduce):
            return T.field(folded, e.name)
        monoid = self.program.monoids[e.operand.op]
        number = monoid.fields.index(e.name)
        entries = {n.position: n.name for n in entries_of(monoid) if n.field == number}
        extents = [monoid.extents[i] for i in monoid.indices[number]]

        def chosen(position: tuple[int, ...], values: Mapping[str, int]) -> Term:
            if len(position) == len(extents):
                return T.field(folded, entries[position])
            subscript = e.subscripts[len(position)]
            if isinstance(subscript, syntax.Number):
                return chosen((*position, int(subscript.value)), values)
            if not isinstance(subscript, syntax.Name):
                raise InternalError("a subscript that the checker should have refused")
            name = subscript.name
            if name in values:
                return chosen((*position, values[name]), values)
            *others, result = (
                chosen((*position, n), {**values, name: n}) for n in range(extents[len(position)])
            )
            for n, entry in reversed(list(enumerate(others))):
                is_here = T.compare("==", self.index(name), T.const(n))
                result = T.where(is_here, entry, result)
            return result

        return chosen((), {})


def _by_entries(monoid: syntax.Monoid, bodies: Sequence[Term]) -> list[Term]:
    """Return the operands of an aggregate, for each entry of their fields."""
    return [
        T.substitute(bodies[e.field], dict(zip(monoid.indices[e.field], values, strict=True)))
        for e in entries_of(monoid)
        for values in [tuple(map(T.const, e.position))]
    ]
