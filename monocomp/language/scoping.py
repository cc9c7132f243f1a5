"""Scopes: which statement claims each name of a program, which names are indices, what uses what.

There is one namespace, but that a tensor may be called like a built-in function, as `cos[q,d]` and
`cos(x)` are read apart. Declarations, left sides, `def` and `monoid` lines claim names;
every other name in brackets is an index, and every other name that is read with brackets
is an input. Only the formals of a `def` and the fields of a monoid are local: they hide
names of the program inside their own body.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, NoReturn

from monocomp.declarations.vocabulary import ALL_REDUCTIONS, FUNCTIONS
from monocomp.errors import (
    DuplicateNameError,
    LimitError,
    ParseError,
    RecursiveDefinitionError,
    ReservedNameError,
    ShapeError,
    Span,
    TypeMismatchError,
    UnknownIndexError,
    UnknownNameError,
    line_and_column,
)
from monocomp.language import syntax as S
from monocomp.language.prelude import standard_monoids

MAX_DIMENSIONS = 16
MAX_EXTENT = 16  # of an index in a monoid
MAX_EXPANDED = 10_000  # nodes of a definition with its functions written out
MAX_EXPANDED_DEPTH = 128
BUILT_IN = frozenset((*FUNCTIONS, *ALL_REDUCTIONS))
NOT_LOCAL: frozenset[str] = frozenset()


def head(node: S.Expr, name: str) -> Span:
    """Return the place of the name that a node starts with."""
    return Span(node.span.start, node.span.start + len(name))


def primed_elsewhere(name: str, place: Span) -> NoReturn:
    """A primed name is a field of the right operand of `combine`, and nothing elsewhere."""
    message = f"the primed name {name} means something in 'combine' only"
    raise UnknownNameError(message, spans=place, help="remove the prime")


@dataclass
class Scope:
    """The names of a program: who claims each, and where it first appears.

    `plain` holds every read with the names of its plain subscripts, "" for a computed one.
    """

    text: str
    statements: list[S.Statement]
    ready: Mapping[str, S.Monoid] = field(default_factory=dict)
    definitions: dict[str, S.Definition] = field(default_factory=dict)
    inputs: dict[str, S.DeclaredInput] = field(default_factory=dict)
    params: dict[str, S.Param] = field(default_factory=dict)
    functions: dict[str, S.Function] = field(default_factory=dict)
    monoids: dict[str, S.Monoid] = field(default_factory=dict)
    bounds: dict[str, S.Bound] = field(default_factory=dict)
    indices: dict[str, Span] = field(default_factory=dict)
    reads: dict[str, list[S.Read]] = field(default_factory=dict)
    plain: list[tuple[S.Read, tuple[str, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for statement in self.statements:
            self._claim(statement)
        for body, local in self.bodies():
            for node in S.walk(body):
                self._collect(node, local)
        for name, place in self.indices.items():
            if claimed := self.claimed(name):
                raise DuplicateNameError(
                    f"'{name}' is an index and also {claimed[0]}",
                    spans=(place, claimed[1]),
                    help="give one of the two another name",
                )

    def claimed(self, name: str) -> tuple[str, Span] | None:
        """Return what a name is, other than an index, and where that first appears, or None."""
        tables: tuple[tuple[dict[str, Any], str], ...] = (
            (self.definitions, "a definition"),
            (self.inputs, "an input"),
            (self.params, "a parameter"),
            (self.functions, "a function"),
            (self.monoids, "a monoid"),
        )
        for table, what in tables:
            if name in table:
                return "an input" if name in self.given else what, table[name].name.span
        if name in self.reads:
            return "an input", head(self.reads[name][0], name)
        return None

    @property
    def given(self) -> dict[str, S.Definition]:
        """Return the definitions of inputs that are given with one."""
        return {name: at for name, at in self.definitions.items() if at.given}

    # Claims

    def _claim(self, statement: S.Statement) -> None:
        match statement:
            case S.Definition():
                self._enter(self.definitions, statement)
                self._distinct(statement.indices, "on the left side")
                self._dimensions(statement.name, statement.indices)
            case S.DeclaredInput():
                self._enter(self.inputs, statement)
                self._dimensions(statement.name, statement.dims)
            case S.Param():
                self._enter(self.params, statement)
            case S.Function():
                self._enter(self.functions, statement)
                self._distinct(statement.formals, "among the arguments")
            case S.Monoid():
                self._enter(self.monoids, statement)
                self._distinct(statement.fields, "among the fields")
                self._indices_of_fields(statement)
            case S.Bound():
                label = statement.name
                if label in self.bounds:
                    self._twice(label, self.bounds[label].name.span, "an index")
                self.bounds[label] = statement
                self._index(label, NOT_LOCAL)

    def _enter(self, table: dict[str, Any], statement: Any) -> None:
        label: S.Label = statement.name
        is_tensor = isinstance(statement, S.Definition | S.DeclaredInput)
        if not (is_tensor and label in FUNCTIONS):  # cos[q,d] is read, and cos(x) is called
            self._not_built_in(label)
        if claimed := self.claimed(label):
            self._twice(label, claimed[1], claimed[0])
        table[label] = statement

    def _dimensions(self, name: S.Label, labels: tuple[S.Label, ...]) -> None:
        self._check_count(name, len(labels), name.span)
        for label in labels:
            self._index(label, NOT_LOCAL)

    def _indices_of_fields(self, monoid: S.Monoid) -> None:
        for name, indices in zip(monoid.fields, monoid.indices, strict=True):
            self._distinct(indices, f"in the brackets of '{name}'")
            self._dimensions(name, indices)

    def _check_count(self, name: str, count: int, span: Span) -> None:
        if count > MAX_DIMENSIONS:
            message = f"'{name}' has {count} dimensions; at most {MAX_DIMENSIONS}"
            raise LimitError(message, spans=span)

    def _twice(self, label: S.Label, first: Span, what: str) -> NoReturn:
        line, _ = line_and_column(self.text, first.start)
        raise DuplicateNameError(
            f"'{label}' is defined twice",
            spans=(label.span, first),
            notes=(f"the first '{label}' is {what}, on line {line}",),
            help="give each its own name",
        )

    def _not_built_in(self, label: S.Label) -> None:
        if label in BUILT_IN:
            what = "function" if label in FUNCTIONS else "reduction"
            raise ReservedNameError(
                f"'{label}' is a built-in {what} and cannot name anything else",
                spans=label.span,
                help=f"choose another name, such as '{label}_'",
            )

    def _distinct(self, labels: tuple[S.Label, ...], where: str) -> None:
        seen: dict[str, Span] = {}
        for label in labels:
            self._not_built_in(label)
            if label in seen:
                message = f"'{label}' stands twice {where}"
                raise DuplicateNameError(message, spans=(label.span, seen[label]))
            seen[label] = label.span

    # Indices and inputs

    def bodies(self) -> Iterator[tuple[S.Expr, frozenset[str]]]:
        """Yield every expression of the program outside monoids, with its local names."""
        for statement in self.statements:
            match statement:
                case S.Definition():
                    yield statement.body, NOT_LOCAL
                case S.Function():
                    yield statement.body, frozenset(statement.formals)
                case S.Bound():
                    yield statement.extent, NOT_LOCAL

    def _collect(self, node: S.Expr, local: frozenset[str]) -> None:
        match node:
            case S.Read():
                self._check_head(node)
                self._check_count(node.name, len(node.subscripts), node.span)
                if node.name not in local:
                    self.reads.setdefault(node.name, []).append(node)
                self._collect_subscripts(node, local)
            case S.Extent():
                self._index(S.Label(node.index, node.span), local)
            case S.Reduce():
                if node.op not in ALL_REDUCTIONS and self.claimed(node.op) is None:
                    self._take(node)
                names = node.indices if node.target is None else (*node.indices, node.target)
                for name in names:
                    self._index(name, local)
            case S.Field():
                for part in node.subscripts:
                    if isinstance(part, S.Name) and not self._is_known(part.name, local):
                        self._index(S.Label(part.name, part.span), local)

    def _take(self, node: S.Reduce) -> None:
        """Take a monoid that is given, as if it were declared where it is first used."""
        statement = self.all_given().get(node.op)
        if statement is None:
            return
        span = head(node, node.op)
        indices = tuple(tuple(S.Label(i, span) for i in of) for of in statement.indices)
        name = S.Label(node.op, span)
        self.monoids[node.op] = taken = replace(statement, name=name, indices=indices, span=span)
        self._indices_of_fields(taken)
        for label in dict.fromkeys(i for of in indices for i in of):
            extent = S.Number(taken.extents[label], span=span)
            declared = self.bounds.setdefault(label, S.Bound(label, extent, span=span))
            if declared.extent != extent:
                raise ShapeError(
                    f"index '{label}' of monoid '{name}' has extent {extent.value}, "
                    "and here another is declared",
                    spans=(span, declared.span),
                    help=f"write index {label} < {extent.value}, or give the other index "
                    "another name",
                )

    def all_given(self) -> Mapping[str, S.Monoid]:
        """Return the monoids that need no declaration."""
        return {**standard_monoids(), **self.ready}

    def extent_in(self, monoid: S.Monoid, index: S.Label) -> int:
        """Return the number of values of an index of a declaration, which must be known."""
        if index in monoid.extents:  # it is given, and has its own
            return monoid.extents[index]
        of = f"the extent of index '{index}' of monoid '{monoid.name}'"
        bound = self.bounds.get(index)
        if bound is None:
            raise UnknownIndexError(
                f"nothing gives {of}",
                spans=index.span,
                help=f"declare it, a number: index {index} < 2",
            )
        extent, seen = bound.extent, set[str]()
        while isinstance(extent, S.Extent) and extent.index in self.bounds.keys() - seen:
            seen.add(extent.index)
            extent = self.bounds[extent.index].extent
        number = extent.value if isinstance(extent, S.Number) else None
        if isinstance(number, int) and 0 < number <= MAX_EXTENT:
            return number
        raise TypeMismatchError(
            f"{of} is no number from 1 to {MAX_EXTENT}",
            spans=(index.span, bound.extent.span),
            notes=("each entry of a field is a number of its own",),
            help=f"write index {index} < 2",
        )

    def _collect_subscripts(self, node: S.Read, local: frozenset[str]) -> None:
        names = []
        for part in node.subscripts:
            is_index = isinstance(part, S.Name) and not self._is_known(part.name, local)
            names.append(part.name if isinstance(part, S.Name) and is_index else "")
            if names[-1]:
                self._index(S.Label(names[-1], part.span), local)
        self.plain.append((node, tuple(names)))

    def _check_head(self, node: S.Read) -> None:
        if node.name.endswith("'"):
            primed_elsewhere(node.name, head(node, node.name))
        if node.name in FUNCTIONS and self.claimed(node.name) is None:
            letters = zip(node.subscripts, "ijklmnopqrstuvwx", strict=False)
            dims = (p.name if isinstance(p, S.Name) else letter for p, letter in letters)
            form = f"{node.name}[{','.join(dims)}]"
            raise UnknownNameError(
                f"'{node.name}' is a function, and no tensor is declared by this name",
                spans=head(node, node.name),
                help=f"a call has parentheses, {node.name}(x); a tensor is declared: input {form}",
            )
        if node.name in ALL_REDUCTIONS:
            raise ParseError(
                f"'{node.name}[...]' lacks its operand",
                spans=node.span,
                help=f"write it in parentheses after the brackets: {node.name}[k](x)",
            )

    def _is_known(self, name: str, local: frozenset[str]) -> bool:
        """True if a bare subscript is something else than an index."""
        if name.endswith("'") or name in BUILT_IN or name in local:
            return True
        return name not in self.reads and self.claimed(name) is not None

    def _index(self, label: S.Label, local: frozenset[str]) -> None:
        self._not_built_in(label)
        if label in local:
            raise ReservedNameError(
                f"'{label}' names an argument here and cannot be an index too",
                spans=label.span,
                help="rename the argument",
            )
        self.indices.setdefault(label, label.span)

    # What uses what

    @cached_property
    def uses(self) -> dict[str, dict[str, Span]]:
        """Return the names that each definition and function uses, with the first place."""
        return {
            statement.name: self._used_in(statement)
            for statement in self.statements
            if isinstance(statement, S.Definition | S.Function)
        }

    def _used_in(self, statement: S.Definition | S.Function) -> dict[str, Span]:
        local = set()
        if isinstance(statement, S.Function):
            local = set(statement.formals)
        uses: dict[str, Span] = {}
        for node in S.walk(statement.body):
            match node:
                case S.Read(name=name) | S.Name(name=name) if name not in local:
                    known = name in self.definitions
                case S.Call(function=name):
                    known = name in self.functions
                case _:
                    continue
            if known:
                uses.setdefault(name, node.span)
        return uses

    def definitions_used(self, name: str) -> dict[str, Span]:
        """Return the definitions that one reads, itself or through the functions it calls."""
        spans: dict[str, Span] = {}
        todo, seen = [name], {name}
        while todo:
            for used, span in self.uses[todo.pop()].items():
                if used in self.definitions:
                    spans.setdefault(used, span)
                elif used not in seen:
                    seen.add(used)
                    todo.append(used)
        return spans

    def check_order(self) -> None:
        """Refuse definitions and functions that use themselves, and definitions that come too
        late."""
        try:
            TopologicalSorter(self.uses).prepare()
        except CycleError as error:
            self._recursive([str(name) for name in error.args[1]])
        place = {name: number for number, name in enumerate(self.definitions)}
        for name in self.definitions:
            for used, span in self.definitions_used(name).items():
                if place[used] > place[name]:
                    label = self.definitions[used].name
                    line, _ = line_and_column(self.text, label.span.start)
                    raise UnknownNameError(
                        f"'{used}' is used before it is defined",
                        spans=(span, label.span),
                        notes=(f"it is defined on line {line}",),
                        help=f"move the definition of '{used}' above this line",
                    )

    def _recursive(self, cycle: list[str]) -> NoReturn:
        cycle = cycle[::-1]  # graphlib lists predecessors first
        first, second = cycle[:2]
        what = "function" if first in self.functions else "definition"
        raise RecursiveDefinitionError(
            f"{what} '{first}' uses itself",
            spans=self.uses[first][second],
            notes=() if len(cycle) == 2 else (f"by way of {' -> '.join(cycle)}",),
            help="a running aggregate is a prefix, such as sum[..k](x), or a monoid of your own",
        )

    def check_expansion(self) -> None:
        """Functions stand for their text, so what a definition or monoid grows to has a limit."""
        bodies = {at.name: (at.body,) for at in self.definitions.values()}
        monoids = {at.name: at.unit + at.combine for at in self.monoids.values()}
        for name, parts in (bodies | monoids).items():
            stack: list[tuple[S.Expr, Any, int]] = [(part, {}, 1) for part in parts]
            count = 0
            while stack:
                node, env, depth = stack.pop()
                count += 1
                if count > MAX_EXPANDED or depth > MAX_EXPANDED_DEPTH:
                    raise LimitError(
                        f"'{name}' grows past {MAX_EXPANDED} operations or "
                        f"{MAX_EXPANDED_DEPTH} levels when its functions are written out",
                        spans=name.span,
                        help="name intermediate results as definitions of their own"
                        if name in self.definitions
                        else "use smaller functions",
                    )
                stack += [(part, inner, depth + 1) for part, inner in self._below(node, env)]

    def _below(self, node: S.Expr, env: Any) -> Iterator[tuple[S.Expr, Any]]:
        """Yield the children of a node where formals and calls are replaced by what they stand
        for."""
        if isinstance(node, S.Name) and node.name in env:
            yield env[node.name]
        elif isinstance(node, S.Call) and node.function in self.functions:
            function = self.functions[node.function]
            pairs = zip(function.formals, node.args, strict=True)
            inner = {formal: (arg, env) for formal, arg in pairs}
            yield function.body, inner
        else:
            yield from ((part, env) for part in S.children(node))
