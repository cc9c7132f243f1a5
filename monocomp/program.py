"""A program as equations between index terms, and the translation of a checked program.

Functions made by `def` are expanded here, by name: a formal stands for the argument's
expression. Definitions stay separate equations until a rewrite inlines them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from monocomp import terms as T
from monocomp.abbreviation import Abbreviation, abbreviator
from monocomp.errors import InternalError
from monocomp.language import syntax
from monocomp.operators import binary, compare, function
from monocomp.printer import Names, definition_line, show, show_monoid
from monocomp.terms import Equation, Term
from monocomp.terms.nodes import SCALED
from monocomp.vocabulary import KEEPING_REDUCTIONS, SELECTIONS

__all__ = ["Equation", "Equations", "translate", "translate_expression"]


@dataclass(frozen=True)
class Equations:
    """A program in index terms: the state that rewrites act on.

    `known` are names for readers: what inlined definitions were called; `sizes` are extents
    that are known, by representative, for choices that depend on them; `parts` are parameters
    that a backend sets to say into how many parts a stream is cut, by the extent of the parts;
    `views` are outputs that only lay out anew what another equation computes, in the same
    order: that one's name, by theirs; `kept` are definitions that are not inlined, once that
    is decided.
    """

    source: syntax.Program
    equations: tuple[Equation, ...]
    known: tuple[Abbreviation, ...] = field(default=(), compare=False)
    sizes: Mapping[str, int] = field(default_factory=dict, compare=False)
    parts: Mapping[str, str] = field(default_factory=dict, compare=False)
    views: Mapping[str, str] = field(default_factory=dict, compare=False)
    kept: frozenset[str] | None = field(default=None, compare=False)

    @cached_property
    def monoids(self) -> tuple[T.UserMonoid, ...]:
        """The monoids, other than the language's own, that the equations fold with."""
        found: dict[str, T.UserMonoid] = {}
        for t in T.subterms(*(e.body for e in self.equations)):
            if t.op in ("fold", "fold_at") and isinstance(t.attr.monoid, T.UserMonoid):
                found[t.attr.name] = t.attr.monoid
        return tuple(found[name] for name in sorted(found))

    @cached_property
    def by_name(self) -> dict[str, Equation]:
        """Equations by the name on the left."""
        return {e.name: e for e in self.equations}

    @property
    def outputs(self) -> tuple[Equation, ...]:
        """The equations that the program returns, in order."""
        return tuple(self.by_name[o.name] for o in self.source.outputs)

    @cached_property
    def computed(self) -> tuple[Equation, ...]:
        """What kernels store for other kernels and the outputs, each after what it reads."""
        outputs = {o.name for o in self.source.outputs}
        others = tuple(e for e in self.equations if e.name not in outputs)
        return in_order(others + self.outputs)

    def results(self, computed: Mapping[str, Any], extents: Mapping[str, int]) -> tuple[Any, ...]:
        """The outputs, as arrays or tensors, of what kernels have computed."""
        found = []
        for e in self.outputs:
            shape = [extents[i.attr[1]] for i in e.indices]
            found.append(computed[self.views.get(e.name, e.name)].reshape(shape))
        return tuple(found)

    def map(self, f: Callable[[Term], Term]) -> Equations:
        """The same equations with f applied to the right-hand sides."""
        return replace(self, equations=tuple(replace(e, body=f(e.body)) for e in self.equations))

    def changed(self, later: Equations) -> tuple[str, ...]:
        """The equations whose right-hand sides a later form of the program does not share."""
        pairs = zip(self.equations, later.equations, strict=True)
        return tuple(old.name for old, new in pairs if old.body is not new.body)

    @cached_property
    def _taken(self) -> frozenset[str]:
        source = self.source
        return frozenset((*source.inputs, *source.params, *self.by_name))

    def names(self) -> Names:
        """The names that printing must not give to bound indices."""
        return Names(self._taken)

    def reader_names(self, whole: Term | None = None) -> Names:
        """Names that print known subterms by their names, all but `whole` itself."""
        names = self.names()
        names.abbreviate = abbreviator(self.known, whole)
        return names

    def readable_lines(self) -> list[str]:
        """Like `lines`, with known names, and what those stand for before them."""
        names = self.reader_names()
        lines = [
            definition_line(e.name, (i.attr[0] for i in e.indices), e.body, names)
            for e in self.equations
        ]
        used = [
            definition_line(a.name, names.of_all(a.indices), a.body, self.reader_names(a.body))
            for a in reversed(self.known)
            if any(f"{a.name}[" in line.split("=", 1)[1] for line in lines)
            and a.name not in self.by_name
        ]
        return used + lines

    def lines(self, names: Names | None = None) -> list[str]:
        """One line an equation, without declarations."""
        names = names or self.names()
        return [
            definition_line(e.name, (i.attr[0] for i in e.indices), e.body, names)
            for e in self.equations
        ]

    def text(self) -> str:
        """A complete program of the language; parsing it gives the same equations."""
        source = self.source
        out = []
        for i in source.inputs.values():
            # The name that comes first in a text stands for the extent, so it is said first.
            labels: list[str] = []
            for d in i.dims:
                name = source.extent_of.get(d, d)
                labels.append(d if name in (*i.dims, *labels) else name)
            dims = ",".join(name.lstrip(".") for name in labels)
            kind = "" if i.kind == "float" else f": {i.kind}"
            out.append(f"input {i.name}[{dims}]{kind}" if i.dims else f"input {i.name}{kind}")
        for p in source.params.values():
            default = "" if p.default is None else f" = {p.default!r}"
            out.append(f"param {p.name}: {p.kind}{default}")
        for name, bound in source.bounds.items():
            out.append(f"index {name.lstrip('.')} < {show(translate_expression(source, bound))}")
        names = self.names()
        lines = self.lines(names)
        indices = dict(i.attr for e in self.equations for i in e.indices) | names.bound
        for name, extent in indices.items():
            if name not in names.read and name != extent.lstrip("."):
                out.append(f"index {name} < |{extent.lstrip('.')}|")
        out += [show_monoid(m) for m in self.monoids]
        out += lines
        results = ", ".join(o.name + (f": {o.dtype}" if o.dtype else "") for o in source.outputs)
        return "\n".join([*out, f"return {results}"]) + "\n"

    def __str__(self) -> str:
        return "\n".join(self.lines())


@lru_cache(maxsize=4096)
def stored_in(t: Term) -> frozenset[Equation]:
    """The equations whose stored values a term reads."""
    return frozenset(s.attr for s in T.subterms(t) if s.op == "stored")


def in_order(equations: Sequence[Equation]) -> tuple[Equation, ...]:
    """The equations, each after those that it reads."""
    by_name = {e.name: e for e in equations}
    ordered: dict[str, Equation] = {}

    def put(e: Equation) -> None:
        if e.name in ordered:
            return
        for read in sorted(stored_in(e.body), key=lambda r: r.name):
            put(by_name[read.name])
        ordered[e.name] = e

    for e in equations:
        put(e)
    return tuple(ordered.values())


def translate(program: syntax.Program, sizes: Mapping[str, int] | None = None) -> Equations:
    """A checked program as equations, for sizes as far as they are known, by representative.

    A fold over an extent that is known to be 0 is one whose filter admits nothing.
    """
    translator = _Translator(program, sizes or {})
    equations = []
    for definition in program.definitions.values():
        indices = tuple(translator.index(i) for i in definition.indices)
        equations.append(Equation(definition.name, indices, translator.definition(definition)))
    return Equations(program, tuple(equations), sizes=translator.sizes)


def translate_expression(program: syntax.Program, expr: syntax.Expr) -> Term:
    """One expression of a checked program."""
    return _Translator(program).expr(expr, {})


def translate_monoid(monoid: syntax.Monoid) -> T.UserMonoid:
    """A monoid of no program."""
    nothing: dict[str, Any] = {}
    tables = dict.fromkeys(
        ("inputs", "params", "functions", "monoids", "definitions", "extent_of", "bounds", "kinds"),
        nothing,
    )
    program = syntax.Program(text="", name=None, outputs=(), **tables)
    return _Translator(program).monoid(monoid)


Formals = Mapping[str, "tuple[syntax.Expr, Formals]"]
_CHOICES = ("argmax", "argmin", *SELECTIONS, "any", "all")


class _Translator:
    """Translates expressions, their parts that are asked about (`operators`) exactly."""

    def __init__(self, program: syntax.Program, sizes: Mapping[str, int] | None = None) -> None:
        self.program = program
        self.sizes = sizes or {}
        self._exact = False
        self._definitions: dict[tuple[str, bool], Term] = {}
        self._written_out: dict[Term, Term] = {}
        self.monoids = {m.name: self.monoid(m) for m in program.monoids.values()}

    def index(self, name: str) -> Term:
        return T.index(name, self.program.extent_of[name])

    def monoid(self, m: syntax.Monoid) -> T.UserMonoid:
        unit = tuple(T.as_float(self.expr(e, {})) for e in m.unit)
        combine = tuple(T.as_float(self._as_declared(e)) for e in m.combine)
        return T.UserMonoid(m.name, m.fields, unit, combine)

    def _as_declared(self, e: syntax.Expr) -> Term:
        with T.losses() as lost:
            found = self.expr(e, {})
        return self._exactly(lambda: self.expr(e, {})) if lost else found

    def _exactly(self, make: Callable[[], Term], exact: bool = True) -> Term:
        before, self._exact = self._exact, exact
        try:
            return make()
        finally:
            self._exact = before

    def definition(self, definition: syntax.Definition) -> Term:
        """The right-hand side of a definition."""
        key = definition.name, self._exact
        if key not in self._definitions:
            body = self.expr(definition.body, {})
            is_float = self.program.kinds.get(definition.name) == "float"
            self._definitions[key] = T.as_float(body) if is_float else body
        return self._definitions[key]

    def asked(self, e: syntax.Expr, formals: Formals) -> Term:
        """An expression of which it is asked whether it is a number. The names in it stay, if
        what they stand for is the same term in other places."""
        if self._exact:
            return self.expr(e, formals)
        found = self.expr(e, formals)
        exact = self._exactly(lambda: self.expr(e, formals))
        return found if self._inlined(found) is exact else exact

    def _inlined(self, t: Term) -> Term:
        memo = self._written_out

        def visit(t: Term) -> Term:
            if not t.names:
                return t
            if t not in memo:
                new = T.map_children(t, visit)
                if new.op == "ref":
                    body = self.definition(self.program.definitions[new.attr])
                    new = self._called(new.attr, visit(body), new.args)
                memo[t] = new
            return memo[t]

        return self._exactly(lambda: visit(t), exact=False)

    def _called(self, name: str, body: Term, subscripts: Sequence[Term]) -> Term:
        names = self.program.definitions[name].indices
        return T.substitute(body, dict(zip(names, subscripts, strict=True)))

    def expr(self, e: syntax.Expr, formals: Formals) -> Term:
        match e:
            case syntax.Number():
                return T.const(e.value)
            case syntax.Name():
                return self._name(e, formals)
            case syntax.Read():
                return self._read(e.name, [self.expr(s, formals) for s in e.subscripts])
            case syntax.Extent():
                extent = self.program.extent_of[e.index]
                return T.extent_of(extent) if self.sizes.get(extent, 1) else T.const(0)
            case syntax.Unary() if e.op == "not":
                return T.negate(_bool(self.asked(e.operand, formals)))
            case syntax.Unary():
                return T.neg(self.expr(e.operand, formals))
            case syntax.Binary():
                sides = self.expr(e.left, formals), self.expr(e.right, formals)
                return binary(e.op, *sides, exact=self._exact)
            case syntax.Compare():
                operands = [self.asked(x, formals) for x in e.operands]
                pairs = zip(e.ops, operands, operands[1:], strict=False)
                return T.conjunction(*(compare(op, a, b) for op, a, b in pairs))
            case syntax.Logic():
                conditions = [self._condition(x, formals) for x in e.operands]
                join = T.conjunction if e.op == "and" else T.disjunction
                return join(*conditions)
            case syntax.Call():
                return self._call(e, formals)
            case syntax.Reduce():
                return self._reduce(e, formals)
            case syntax.Field():
                folded = self.expr(e.operand, formals)
                return folded if folded.op == "field" else T.field(folded, e.name)
        raise InternalError(f"no translation for {type(e).__name__}")

    def _condition(self, e: syntax.Expr, formals: Formals) -> Term:
        return _bool(self.asked(e, formals))

    def _name(self, e: syntax.Name, formals: Formals) -> Term:
        program = self.program
        match e.kind:
            case "index":
                return self.index(e.name)
            case "param":
                return T.param(e.name, program.params[e.name].kind)
            case "formal" if e.name in formals:
                argument, outer = formals[e.name]
                return self.expr(argument, outer)
            case "scalar":
                return self._read(e.name, [])
        return T.param(e.name, "float")  # a monoid's field

    def _read(self, name: str, subscripts: Sequence[Term]) -> Term:
        program = self.program
        if name not in program.definitions:
            return T.read(name, subscripts, program.inputs[name].kind)
        if self._exact:
            return self._called(name, self.definition(program.definitions[name]), subscripts)
        return T.ref(name, subscripts, program.kinds[name])

    def _call(self, e: syntax.Call, formals: Formals) -> Term:
        called = self.program.functions.get(e.function)
        if called is not None:
            arguments = {
                formal: (argument, formals)
                for formal, argument in zip(called.formals, e.args, strict=True)
            }
            return self.expr(called.body, arguments)
        if e.function == "where":
            condition, *branches = e.args
            parts = [self._condition(condition, formals)]
            parts += [self.expr(a, formals) for a in branches]
        else:
            parts = [self.expr(a, formals) for a in e.args]
        return function(e.function, *parts, exact=self._exact)

    def _reduce(self, e: syntax.Reduce, formals: Formals) -> Term:
        condition = T.TRUE if e.condition is None else self._condition(e.condition, formals)
        opened = tuple(self.index(i) for i in e.indices)
        if any(self.sizes.get(i.attr[1]) == 0 for i in opened):
            condition = T.FALSE  # what simplifies terms supposes that extents are at least 1
        monoid: str | T.UserMonoid = self.monoids.get(e.op, e.op)
        asks = monoid in _CHOICES or (isinstance(monoid, T.UserMonoid) and _asks(monoid))
        bodies = [(self.asked if asks else self.expr)(a, formals) for a in e.args]
        result: Term
        if e.op in KEEPING_REDUCTIONS and len(opened) > 1:
            return T.softmax(e.op, opened, condition, *bodies)
        if e.prefix or e.op in (*KEEPING_REDUCTIONS, *SELECTIONS):
            place = opened[0] if e.target is None else self.index(e.target)
            target = None if e.target is None else self.program.extent_of[e.target]
            result = T.fold_at(monoid, place, opened[0], condition, *bodies, target=target)
        else:
            result = T.fold(monoid, opened, condition, *bodies)
        if isinstance(monoid, T.UserMonoid) and len(monoid.fields) == 1:
            result = T.field(result, monoid.fields[0])
        return result


def _bool(t: Term) -> Term:
    return t if t.kind == "bool" else compare("!=", t, T.const(0, t.kind))


def _asks(monoid: T.UserMonoid) -> bool:
    """Does the combine of a monoid compare its operands? That of SE asks whether there is a frame,
    and keeps what is no number."""
    return monoid not in SCALED and any(t.kind == "bool" for t in T.subterms(*monoid.combine))
