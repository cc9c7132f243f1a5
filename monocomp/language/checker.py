"""Check a text as a program: every static error is found here, before any call.

The order is that of the dependencies: names (`scoping`), then implied sums
(`implied_sums`), types (`kinds`), `extents` and outputs. What comes out is
`syntax.Program`, where sums are explicit, names are resolved and later stages find the
facts they need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from monocomp.declarations import records
from monocomp.declarations.records import Input, Origin
from monocomp.declarations.vocabulary import DTYPES
from monocomp.display.notes import Note
from monocomp.errors import (
    EmptyProgramError,
    FilterError,
    MonocompError,
    OutputError,
    Span,
    UnknownIndexError,
    UnsupportedDtypeError,
    did_you_mean,
    in_text,
    nearest,
    quoted,
)
from monocomp.language import syntax as S
from monocomp.language.extents import Extents
from monocomp.language.free_indices import FreeIndices, in_order
from monocomp.language.functions import written_out
from monocomp.language.implied_sums import add_implied_sums
from monocomp.language.kinds import Kinds
from monocomp.language.monoids import MonoidResolver, with_sums
from monocomp.language.notes import notes_on, unused_params, used_names
from monocomp.language.parser import parse
from monocomp.language.resolving import Resolver
from monocomp.language.scoping import Scope

_Monoids = Mapping[str, S.Monoid] | None


def check(text: str, name: str | None = None, monoids: _Monoids = None) -> S.Program:
    """Parse and check a program.

    Args:
        text: the program.
        name: where it came from, kept in the result.
        monoids: what the program may use without declaring it, beside the standard monoids.
    """
    try:
        return _checked(text, name, monoids)
    except MonocompError as error:
        from monocomp.language.proposals import help_with

        help_with(text, error, lambda other: _checked(other, None, monoids))
        raise


def _checked(text: str, name: str | None, monoids: _Monoids) -> S.Program:
    with in_text(text):
        statements = parse(text)
        if not statements:
            raise EmptyProgramError(
                "the program is empty", help="a program defines something: O[i] = 2 * A[i]"
            )
        scope = Scope(text, statements, monoids or {})
        return _Checker(scope).program(name)


class _Checker:
    """Builds a program out of a scope, in the order of the dependencies."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.resolver = Resolver(scope)
        self.functions = {
            key: replace(at, body=self.resolver.resolve(at.body, frozenset(at.formals)))
            for key, at in scope.functions.items()
        }
        bodies = {key: self.resolver.resolve(at.body) for key, at in scope.definitions.items()}
        monoids = {key: MonoidResolver(scope, at).resolved() for key, at in scope.monoids.items()}
        self.bounds = {key: self.resolver.resolve(at.extent) for key, at in scope.bounds.items()}
        scope.check_order()
        scope.check_expansion()
        self.free = FreeIndices(self.functions, monoids)
        self.monoids = {
            key: with_sums(at, self.free, self.functions, scope.text) for key, at in monoids.items()
        }
        self.definitions = self._definitions(bodies)

    def program(self, name: str | None) -> S.Program:
        outputs = self._outputs()
        declared = {key: at.kind for key, at in self.scope.inputs.items() if at.kind is not None}
        kinds = Kinds(declared, self.scope.params, self.definitions)
        extents = Extents(self.scope, self.bounds, self.reads(), self.fields())
        definitions = {
            key: replace(at, body=extents.in_part(at.body)) for key, at in self.definitions.items()
        }
        places = self._places_of_inputs()
        known = kinds.definitions
        inputs = {
            key: Input(key, extents.dims[key], known[key] if key in known else kinds.input(key))
            for key in places
        }
        bounds = extents.bounds()
        places |= {key: at.span for key, at in (self.definitions | self.monoids | bounds).items()}
        return S.Program(
            inputs=inputs,
            params=self._paramsin_order(),
            outputs=outputs,
            extent_of=extents.table(inputs),
            bounds=bounds,
            undeclared=frozenset(
                inputs.keys() - self.scope.inputs.keys() - self.scope.given.keys()
            ),
            origin=Origin(self.scope.text, name, places, self._notes(kinds)),
            monoids=self.monoids,
            definitions=definitions,
            kinds=known,
        )

    def _notes(self, kinds: Kinds) -> tuple[Note, ...]:
        used = used_names(self.scope.bodies())
        return (
            *notes_on(self.scope.text, self.definitions, kinds.of),
            *unused_params(self.scope.params, used),
        )

    def _definitions(self, bodies: dict[str, S.Expr]) -> dict[str, S.Definition]:
        free = self.free
        for body in (*bodies.values(), *(at.body for at in self.functions.values())):
            self._check_filters(body, free)
            self._check_operands(body, free)
        definitions = {}
        for key, at in self.scope.definitions.items():
            self._check_left(at, bodies[key], free)
            body = add_implied_sums(bodies[key], at.indices, free, self.scope.text)
            definitions[key] = replace(at, body=written_out(body, self.functions))
        return definitions

    def _check_filters(self, body: S.Expr, free: FreeIndices) -> None:
        """A filter chooses among elements, so it mentions an index that its reduction binds."""
        for node in S.walk(body):
            if not isinstance(node, S.Reduce) or node.condition is None:
                continue
            parts = list(S.walk(node.condition))
            if any(isinstance(part, S.Name) and part.kind == "formal" for part in parts):
                continue  # the argument may mention it
            mentioned = free.free(node.condition)
            if mentioned.isdisjoint(node.indices):
                bound, names = quoted(node.indices), quoted(sorted(mentioned))
                mentions = f"mentions {names} and not" if names else "does not mention"
                raise FilterError(
                    f"the filter {mentions} {bound}, which '{node.op}' binds",
                    spans=node.condition.span,
                    notes=(f"it is the same for all elements along {bound}",),
                    help="a condition of this kind belongs in where(c, x, 0)",
                )

    def _check_operands(self, body: S.Expr, free: FreeIndices) -> None:
        """The operand of a field with indices says what each entry is: it mentions them."""
        for node in S.walk(body):
            monoid = self.scope.monoids.get(node.op) if isinstance(node, S.Reduce) else None
            if monoid is None or not isinstance(node, S.Reduce):
                continue
            for operand, form, indices in zip(node.args, monoid.forms, monoid.indices, strict=True):
                formals = (p for p in S.walk(operand) if isinstance(p, S.Name))
                mentioned = free.free(operand)
                missing = [index for index in indices if index not in mentioned]
                if missing and mentioned and not any(p.kind == "formal" for p in formals):
                    raise UnknownIndexError(
                        f"the operand for '{form}' mentions {quoted(sorted(mentioned))} "
                        f"and not {quoted(missing)}",
                        spans=operand.span,
                        notes=(f"'{node.op}' takes an expression for all entries of a field",),
                        help=f"write it with the indices of the field, such as X[...,"
                        f"{','.join(indices)}]",
                    )

    def _check_left(self, at: S.Definition, body: S.Expr, free: FreeIndices) -> None:
        """An output index must occur on the right, or have a declared extent."""
        indices = free.free(body)
        for label in at.indices:
            if label in indices or label in self.scope.bounds:
                continue
            available = in_order(body, indices)
            near = _likely(label, available, set(at.indices), body)
            binder = _binder(label, body)
            what = "input" if at.given else "output"
            raise UnknownIndexError(
                f"{what} index '{label}' does not occur on the right-hand side",
                spans=label.span,
                notes=(f"available for the {what}: {', '.join(available) or 'none'}",),
                help=f"{binder} binds '{label}' itself: leave it out of its brackets"
                if binder
                else f"did you mean '{near}'?"
                if near
                else f"use '{label}' on the right, or declare it: index {label} < ...",
            )

    # Outputs

    def _outputs(self) -> tuple[records.Output, ...]:
        asked = [at for at in self.scope.statements if isinstance(at, S.Output)]
        computed = {key: at for key, at in self.definitions.items() if not at.given}
        if not computed:
            raise OutputError(
                "the program has no output: it defines nothing",
                spans=self.scope.statements[0].span,
                help="add a definition, such as O[i] = 2 * A[i]",
            )
        if asked:
            return self._asked(asked, computed)
        used = {name for key in self.definitions for name in self.scope.definitions_used(key)}
        return tuple(
            records.Output(str(at.name)) for at in computed.values() if at.name not in used
        )

    def _asked(
        self, asked: list[S.Output], computed: Mapping[str, S.Definition]
    ) -> tuple[records.Output, ...]:
        seen: dict[str, Span] = {}
        for at in asked:
            name = at.name
            if name not in computed:
                is_free = self.scope.claimed(name) is None
                instead = f"define it: {name}" if is_free else f"define a result: {name}_out"
                raise OutputError(
                    f"'{name}' is not a definition and cannot be returned",
                    spans=at.name.span,
                    notes=(f"definitions: {', '.join(computed)}",),
                    help=did_you_mean(name, computed) or f"{instead}[...] = ...",
                )
            if name in seen:
                raise OutputError(
                    f"'{name}' is returned twice",
                    spans=(at.name.span, seen[name]),
                )
            seen[name] = at.name.span
            if at.dtype is not None and at.dtype not in DTYPES:
                raise UnsupportedDtypeError(
                    f"'{at.dtype}' is no dtype",
                    spans=at.dtype.span,
                    notes=(f"accepted: {', '.join(DTYPES)}",),
                    help=did_you_mean(at.dtype, DTYPES),
                )
        return tuple(
            records.Output(str(at.name), None if at.dtype is None else str(at.dtype))
            for at in asked
        )

    # Inputs and parameters

    def reads(self) -> list[tuple[S.Read, tuple[str, ...]]]:
        """Return every read of the program with its plain subscripts, in order of the text."""
        return sorted(self.scope.plain, key=lambda read: read[0].span.start)

    def fields(self) -> Iterator[tuple[S.Field, tuple[str, ...]]]:
        """Yield every field of an aggregate that is taken, with the indices of its entries."""
        for body, _ in self.scope.bodies():
            for node in S.walk(body):
                if isinstance(node, S.Field) and isinstance(node.operand, S.Reduce):
                    monoid = self.monoids[node.operand.op]
                    yield node, monoid.indices[monoid.fields.index(node.name)]

    def _places_of_inputs(self) -> dict[str, Span]:
        """Return the place where each input is declared or else first read, in the order of the
        text."""
        declared = (self.scope.inputs, self.scope.given)
        places = {key: at.span for table in declared for key, at in table.items()}
        for read, _ in self.reads():
            if read.name not in self.scope.definitions:
                places.setdefault(read.name, read.span)
        return {str(key): places[key] for key in sorted(places, key=lambda n: places[n].start)}

    def _paramsin_order(self) -> dict[str, records.Param]:
        places = {key: at.name.span.start for key, at in self.scope.params.items()}
        for body, local in self.scope.bodies():
            for node in S.walk(body):
                if isinstance(node, S.Name) and node.name in places and node.name not in local:
                    places[node.name] = min(places[node.name], node.span.start)
        found = (self.scope.params[key] for key in sorted(places, key=places.__getitem__))
        return {str(at.name): records.Param(str(at.name), at.kind, at.default) for at in found}


def _binder(index: str, body: S.Expr) -> str | None:
    """Return the reduction that binds an index, as far as its brackets, or None."""
    for node in S.walk(body):
        if isinstance(node, S.Reduce) and index in node.indices and not node.implied:
            return f"{node.op}[{', '.join(node.indices)}]"
    return None


def _likely(wrong: str, available: list[str], left: set[str], body: S.Expr) -> str | None:
    """Return the index that was probably meant: one like it, or the only one left over."""
    unused = [name for name in available if name not in left]
    if near := nearest(wrong, unused):
        return near
    once = [
        name
        for name in unused
        if sum(isinstance(node, S.Name) and node.name == name for node in S.walk(body)) == 1
    ]
    for candidates in (unused, once):
        if len(candidates) == 1:
            return candidates[0]
    return None
