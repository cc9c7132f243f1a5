"""What each name of a program means, found before anything else is checked.

There is one namespace. Declarations, left sides, `def` and `monoid` lines claim names;
every other name in brackets is an index, and every other name that is read with brackets
is an input. Only the formals of a `def` and the fields of a monoid are local: they hide
names of the program inside their own body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, NoReturn

from monocomp.errors import (
    ArityError,
    DuplicateNameError,
    FilterError,
    LimitError,
    MonocompError,
    ParseError,
    RecursiveDefinitionError,
    ReservedNameError,
    ShapeError,
    Span,
    TypeMismatchError,
    UnknownFunctionError,
    UnknownNameError,
    line_and_column,
    nearest,
)
from monocomp.parser import (
    BoundStatement,
    DefinitionStatement,
    FunctionStatement,
    InputStatement,
    Label,
    MonoidStatement,
    ParamStatement,
    Statement,
)
from monocomp.syntax import (
    FUNCTIONS,
    KEEPING_REDUCTIONS,
    REDUCTIONS,
    SELECTIONS,
    Call,
    Expr,
    Extent,
    Field,
    Name,
    Number,
    Read,
    Reduce,
    children,
    with_children,
)

MAX_DIMENSIONS = 16
MAX_EXPANDED = 10_000  # nodes of a definition with its functions written out
MAX_EXPANDED_DEPTH = 200
ALL_REDUCTIONS = (*REDUCTIONS, *KEEPING_REDUCTIONS, *SELECTIONS)
_BUILT_IN = {*FUNCTIONS, *ALL_REDUCTIONS}


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node of an expression, in order of the text."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def word_in(text: str, span: Span, word: str) -> Span:
    """Where a word first stands inside a span, for names that carry no span of their own."""
    found = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_'])").search(
        text, span.start, span.stop
    )
    return Span(*found.span()) if found else span


@dataclass
class Scope:
    """The names of a program: who claims each, and where it first appears."""

    text: str
    statements: list[Statement]
    definitions: dict[str, DefinitionStatement] = field(default_factory=dict)
    inputs: dict[str, InputStatement] = field(default_factory=dict)
    params: dict[str, ParamStatement] = field(default_factory=dict)
    functions: dict[str, FunctionStatement] = field(default_factory=dict)
    monoids: dict[str, MonoidStatement] = field(default_factory=dict)
    bounds: dict[str, BoundStatement] = field(default_factory=dict)
    indices: dict[str, Span] = field(default_factory=dict)
    reads: dict[str, list[Read]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for statement in self.statements:
            self._claim(statement)
        for body, local in self._bodies():
            for node in walk(body):
                self._collect(node, local)
        for name, place in self.indices.items():
            if claimed := self._claimed(name):
                self._fail(
                    DuplicateNameError,
                    f"'{name}' is an index and also {claimed[0]}",
                    (place, claimed[1]),
                    help="give one of the two another name",
                )

    def _fail(self, error: type[MonocompError], message: str, spans: Any, **more: Any) -> NoReturn:
        raise error(message, text=self.text, spans=spans, **more)

    # Claims

    def _tables(self) -> tuple[tuple[dict[str, Any], str], ...]:
        return (
            (self.definitions, "a definition"),
            (self.inputs, "an input"),
            (self.params, "a parameter"),
            (self.functions, "a function"),
            (self.monoids, "a monoid"),
        )

    def _claimed(self, name: str) -> tuple[str, Span] | None:
        """What a name is, other than an index, and where it first appears as that."""
        for table, what in self._tables():
            if name in table:
                return what, table[name].name.span
        if name in self.reads:
            read = self.reads[name][0]
            return "an input", Span(read.span.start, read.span.start + len(name))
        return None

    def _claim(self, statement: Statement) -> None:
        tables: dict[type, dict[str, Any]] = {
            DefinitionStatement: self.definitions,
            InputStatement: self.inputs,
            ParamStatement: self.params,
            FunctionStatement: self.functions,
            MonoidStatement: self.monoids,
        }
        if isinstance(statement, BoundStatement):
            self._check_name(statement.name)
            if statement.name.name in self.bounds:
                first = self.bounds[statement.name.name].name.span
                self._twice(statement.name, first, "index")
            self.bounds[statement.name.name] = statement
            self.indices.setdefault(statement.name.name, statement.name.span)
        if (table := tables.get(type(statement))) is None:
            return
        name: Label = statement.name
        self._check_name(name)
        if claimed := self._claimed(name.name):
            self._twice(name, claimed[1], claimed[0].split()[-1])
        table[name.name] = statement
        match statement:
            case DefinitionStatement():
                self._local_names(statement.indices, "the left side")
            case InputStatement():
                for label in statement.dims:
                    self._check_name(label)
                self._check_dimensions(statement.name.name, len(statement.dims), statement.span)
            case FunctionStatement():
                self._local_names(statement.formals, "the function")
            case MonoidStatement():
                self._local_names(statement.fields, "the monoid")
        if isinstance(statement, DefinitionStatement):
            self._check_dimensions(name.name, len(statement.indices), name.span)
        for label in self._labels(statement):
            self.indices.setdefault(label.name, label.span)

    @staticmethod
    def _labels(statement: Statement) -> tuple[Label, ...]:
        match statement:
            case DefinitionStatement():
                return statement.indices
            case InputStatement():
                return statement.dims
        return ()

    def _check_dimensions(self, name: str, count: int, span: Span) -> None:
        if count > MAX_DIMENSIONS:
            self._fail(
                LimitError, f"'{name}' has {count} dimensions; at most {MAX_DIMENSIONS}", span
            )

    def _twice(self, name: Label, first: Span, what: str) -> NoReturn:
        line, _ = line_and_column(self.text, first.start)
        self._fail(
            DuplicateNameError,
            f"'{name.name}' is defined twice",
            (name.span, first),
            notes=(f"the first '{name.name}' is {_article(what)} on line {line}",),
            help="give each its own name",
        )

    def _check_name(self, label: Label) -> None:
        if label.name in _BUILT_IN:
            what = "function" if label.name in FUNCTIONS else "reduction"
            self._fail(
                ReservedNameError,
                f"'{label.name}' is a built-in {what} and cannot be another name",
                label.span,
                help=f"choose another name, such as '{label.name}_'",
            )

    def _local_names(self, labels: tuple[Label, ...], where: str) -> None:
        seen: dict[str, Span] = {}
        for label in labels:
            self._check_name(label)
            if label.name in seen:
                self._fail(
                    DuplicateNameError,
                    f"'{label.name}' stands twice in {where}",
                    (label.span, seen[label.name]),
                )
            seen[label.name] = label.span

    # Indices and inputs

    def _bodies(self) -> Iterator[tuple[Expr, frozenset[str]]]:
        """Every expression of the program outside monoids, with its local names."""
        for statement in self.statements:
            match statement:
                case DefinitionStatement():
                    yield statement.body, frozenset()
                case FunctionStatement():
                    yield statement.body, frozenset(label.name for label in statement.formals)
                case BoundStatement():
                    yield statement.extent, frozenset()

    def _collect(self, node: Expr, local: frozenset[str]) -> None:
        match node:
            case Read():
                if self._claimed(node.name) is None and node.name not in local:
                    self._check_read_name(node)
                self.reads.setdefault(node.name, []).append(node)
                self._check_dimensions(node.name, len(node.subscripts), node.span)
                for part in node.subscripts:
                    if isinstance(part, Name) and not self._is_scalar(part.name, local):
                        self._index(part.name, part.span, local)
            case Extent():
                self._index(node.index, word_in(self.text, node.span, node.index), local)
            case Reduce():
                names = node.indices if node.target is None else (*node.indices, node.target)
                for name in names:
                    self._index(name, word_in(self.text, node.span, name), local)

    def _check_read_name(self, node: Read) -> None:
        place = Span(node.span.start, node.span.start + len(node.name))
        if node.name in FUNCTIONS:
            self._fail(
                UnknownNameError,
                f"'{node.name}' is a function, not a tensor",
                place,
                help=f"its arguments stand in parentheses: {node.name}(x)",
            )
        if node.name in ALL_REDUCTIONS:
            self._fail(
                ParseError,
                f"'{node.name}[...]' lacks its operand",
                node.span,
                help=f"write it in parentheses after the brackets: {node.name}[k](x)",
            )

    def _is_scalar(self, name: str, local: frozenset[str]) -> bool:
        """Whether a bare subscript is something else than an index."""
        return name in local or any(name in table for table, _ in self._tables())

    def _index(self, name: str, place: Span, local: frozenset[str]) -> None:
        self._check_name(Label(name, place))
        if name in local:
            self._fail(
                ReservedNameError,
                f"'{name}' names an argument here and cannot be an index too",
                place,
                help="rename the argument",
            )
        self.indices.setdefault(name, place)

    # Resolution

    def resolve(self, expr: Expr, local: frozenset[str] = frozenset()) -> Expr:
        """The expression with every bare name classified and every head known."""
        match expr:
            case Name():
                return replace(expr, kind=self._classify(expr, local))
            case Read():
                self._check_read(expr, local)
            case Call():
                self._check_call(expr)
            case Reduce():
                self._check_reduce(expr)
            case Field():
                self._check_field(expr)
        parts = children(expr)
        if not parts:
            return expr
        resolved = []
        for part in parts:
            resolved.append(self.resolve(part, local))
            if _is_bare_aggregate(self.monoids, part) and not isinstance(expr, Field):
                self.check_value(part)
        return with_children(expr, tuple(resolved))

    def check_value(self, expr: Expr) -> None:
        """Refuse a user monoid's aggregate of several fields where one number is meant."""
        if _is_bare_aggregate(self.monoids, expr):
            assert isinstance(expr, Reduce)
            fields = [label.name for label in self.monoids[expr.op].fields]
            self._fail(
                TypeMismatchError,
                f"'{expr.op}' gives {len(fields)} values, and one is needed here",
                expr.span,
                notes=(f"its fields: {', '.join(fields)}",),
                help=f"take one with .{fields[0]}",
            )

    def _classify(self, node: Name, local: frozenset[str]) -> Any:
        name = node.name
        if name in local:
            return "formal"
        if name in self.indices:
            return "index"
        if name in self.params:
            return "param"
        labels: tuple[Label, ...] | None = None
        if name in self.definitions:
            labels = self.definitions[name].indices
        elif name in self.inputs:
            labels = self.inputs[name].dims
        if labels is not None:
            if not labels:
                return "scalar"
            form = f"{name}[{','.join(label.name for label in labels)}]"
            self._fail(
                ShapeError,
                f"'{name}' has {_count(len(labels), 'dimension')} and is read without brackets",
                node.span,
                help=f"write {form}",
            )
        self._unknown(node, local)

    def _unknown(self, node: Name, local: frozenset[str]) -> NoReturn:
        name = node.name
        if name in FUNCTIONS or name in self.functions:
            message, help = f"'{name}' is a function without arguments", f"write {name}(x)"
        elif name in ALL_REDUCTIONS or name in self.monoids:
            message, help = f"'{name}' is a reduction without operand", f"write {name}[k](x)"
        elif name.endswith("'"):
            message = f"the primed name {name} means something in 'combine' only"
            help = "remove the prime"
        elif name in self.reads:
            form = f"{name}[{', '.join('i' * len(self.reads[name][0].subscripts))}]"
            message, help = f"'{name}' is a tensor and is read without brackets", f"write {form}"
        else:
            known = [*local, *self.indices, *self.params, *self.inputs]
            known += [key for key, at in self.definitions.items() if not at.indices]
            near = nearest(name, known)
            guess = f"did you mean '{near}'? Otherwise d" if near else "d"
            message = f"'{name}' is no index, parameter or scalar of this program"
            help = f"{guess}eclare it, `param {name}: float`, or give its indices, {name}[...]"
        self._fail(UnknownNameError, message, node.span, help=help)

    def _check_read(self, node: Read, local: frozenset[str]) -> None:
        name, count = node.name, len(node.subscripts)
        place = Span(node.span.start, node.span.start + len(name))
        for table, what in self._tables()[2:]:
            if name in table or name in local:
                what = "an argument" if name in local else what
                self._fail(
                    ShapeError,
                    f"'{name}' is {what} and has no elements to read with brackets",
                    place,
                    help=f"write {name} without brackets" if what != "a function" else None,
                )
        first: Span
        if name in self.definitions:
            labels, first = self.definitions[name].indices, self.definitions[name].name.span
        elif name in self.inputs:
            labels, first = self.inputs[name].dims, self.inputs[name].span
        else:
            earlier = self.reads[name][0]
            if len(earlier.subscripts) != count:
                self._fail(
                    ShapeError,
                    f"'{name}' is read with {count} and with "
                    f"{_count(len(earlier.subscripts), 'subscript')}",
                    (node.span, earlier.span),
                    help="a tensor has one number of dimensions",
                )
            return
        if len(labels) != count:
            form = f"{name}[{','.join(label.name for label in labels)}]" if labels else name
            self._fail(
                ShapeError,
                f"'{name}' has {_count(len(labels), 'dimension')} and is read with "
                f"{_count(count, 'subscript')}",
                (node.span, first),
                help=f"its form is {form}",
            )

    def _check_call(self, node: Call) -> None:
        name, count = node.function, len(node.args)
        place = Span(node.span.start, node.span.start + len(name))
        if name in self.functions:
            formals = [label.name for label in self.functions[name].formals]
            wanted: int | None = len(formals)
            form = f"{name}({', '.join(formals)})"
        elif name in FUNCTIONS:
            wanted = FUNCTIONS[name]
            form = _FORMS.get(name, f"{name}(x)")
        else:
            self._unknown_function(name, place)
        if count != wanted and not (wanted is None and count):
            expected = "at least 1 argument" if wanted is None else _count(wanted, "argument")
            self._fail(
                ArityError,
                f"'{name}' takes {expected}, and {count or 'none'} "
                f"{'is' if count < 2 else 'are'} given",
                node.span,
                help=f"its form is {form}",
            )

    def _unknown_function(self, name: str, place: Span) -> NoReturn:
        known = (*FUNCTIONS, *self.functions)
        if name in ALL_REDUCTIONS or name in self.monoids:
            help = f"it is a reduction and says which index it binds: {name}[k](x)"
            message = f"'{name}' needs an index in brackets"
        elif name in self.definitions or name in self.inputs or name in self.reads:
            message = f"'{name}' is a tensor, not a function"
            help = f"elements are read with brackets, {name}[...]; products are written with *"
        else:
            near = nearest(name, (*known, *ALL_REDUCTIONS, *self.monoids))
            message = f"there is no function '{name}'"
            form = f"{near}(x)" if near in known else f"{near}[k](x)"
            help = f"did you mean {form}?" if near else f"define it: def {name}(x) = ..."
        self._fail(UnknownFunctionError, message, place, help=help)

    def _check_reduce(self, node: Reduce) -> None:
        place = Span(node.span.start, node.span.start + len(node.op))
        if node.op not in ALL_REDUCTIONS and node.op not in self.monoids:
            self._unknown_reduction(node, place)
        wanted = 1
        form = f"{node.op}[k](x)"
        if node.op in self.monoids:
            fields = [label.name for label in self.monoids[node.op].fields]
            wanted, form = len(fields), f"{node.op}[k]({', '.join(fields)})"
        if len(node.args) != wanted:
            self._fail(
                ArityError,
                f"'{node.op}' takes {_count(wanted, 'operand')}, and {len(node.args)} "
                f"{'is' if len(node.args) < 2 else 'are'} given",
                node.span,
                help=f"its form is {form}",
            )
        seen = set()
        for index in node.indices:
            if index in seen:
                self._fail(DuplicateNameError, f"'{index}' is reduced twice by '{node.op}'", place)
            seen.add(index)
        self._check_form(node, place)
        self._check_filter(node)

    def _unknown_reduction(self, node: Reduce, place: Span) -> NoReturn:
        known = (*ALL_REDUCTIONS, *self.monoids)
        near = nearest(node.op, known)
        if node.op in FUNCTIONS or node.op in self.functions:
            message = f"'{node.op}' is a function, not a reduction, and binds no index"
            help = f"write {node.op}(x)"
        elif self._claimed(node.op) is not None:
            message = f"'{node.op}' is a tensor, not a reduction"
            help = f"products are written out: {node.op}[...] * (...)"
        else:
            message = f"there is no reduction '{node.op}'"
            help = f"did you mean '{near}'?" if near else f"known: {', '.join(known)}"
        self._fail(UnknownFunctionError, message, place, help=help)

    def _check_form(self, node: Reduce, place: Span) -> None:
        """What only some reductions have: one index, a new index, a prefix form."""
        selects = node.op in SELECTIONS
        if selects != (node.target is not None):
            message = f"'{node.op}' " + ("lacks its new index" if selects else "makes no new index")
            self._fail(
                ParseError,
                message,
                node.span if selects else place,
                help="top[k -> r](x) keeps the largest along k, on a new index r",
            )
        if node.prefix and (selects or node.op in KEEPING_REDUCTIONS):
            self._fail(
                ParseError,
                f"'{node.op}' has no prefix form",
                place,
                help="exp(x - logsumexp[..k](x)) divides by a running aggregate"
                if node.op in KEEPING_REDUCTIONS
                else "write it over the whole index, with a filter",
            )
        single = node.prefix or selects or node.op in ("argmax", "argmin")
        if single and len(node.indices) > 1:
            what = "a prefix aggregate" if node.prefix else f"'{node.op}'"
            self._fail(
                ArityError, f"{what} goes along one index, and {len(node.indices)} are given", place
            )

    def _check_filter(self, node: Reduce) -> None:
        if node.condition is None:
            return
        names = {part.name for part in walk(node.condition) if isinstance(part, Name)}
        for part in walk(node.condition):
            if isinstance(part, Call) and part.function in self.functions:
                body = self.functions[part.function].body
                names |= {inner.name for inner in walk(body) if isinstance(inner, Name)}
        hidden = names - set(self.indices) - set(self.params)
        if names & set(node.indices) or hidden & self._formals():
            return
        bound = ", ".join(f"'{index}'" for index in node.indices)
        self._fail(
            FilterError,
            f"the filter does not mention {bound}, which '{node.op}' binds",
            node.condition.span,
            help="a condition that is the same for all elements belongs in where(c, x, 0)",
        )

    def _formals(self) -> set[str]:
        return {label.name for at in self.functions.values() for label in at.formals}

    def _check_field(self, node: Field) -> None:
        operand = node.operand
        place = Span(node.span.stop - len(node.name), node.span.stop)
        if not isinstance(operand, Reduce) or operand.op not in self.monoids:
            self._fail(
                TypeMismatchError,
                f"'.{node.name}' stands after a value without fields",
                place,
                help="fields belong to the aggregate of a monoid: Affine[t](a, u).u",
            )
        fields = [label.name for label in self.monoids[operand.op].fields]
        if node.name not in fields:
            near = nearest(node.name, fields)
            self._fail(
                UnknownNameError,
                f"monoid '{operand.op}' has no field '{node.name}'",
                place,
                notes=(f"its fields: {', '.join(fields)}",),
                help=f"did you mean '{near}'?" if near else None,
            )

    # Monoids

    def resolve_monoid(self, statement: MonoidStatement) -> tuple[tuple[Expr, ...], ...]:
        """The unit and the combination, with the fields and primed fields as formals."""
        count = len(statement.fields)
        for what, parts in (("unit", statement.unit), ("combine", statement.combine)):
            if len(parts) != count:
                self._fail(
                    ArityError,
                    f"'{what}' of monoid '{statement.name.name}' has {len(parts)} parts for "
                    f"{_count(count, 'field')}",
                    parts[0].span.to(parts[-1].span),
                )
        fields = {label.name for label in statement.fields}
        both = frozenset(fields | {f"{name}'" for name in fields})
        unit = tuple(self._pure(part, frozenset()) for part in statement.unit)
        return unit, tuple(self._pure(part, both) for part in statement.combine)

    def _pure(self, expr: Expr, fields: frozenset[str]) -> Expr:
        """An expression of fields, numbers and functions only."""
        for node in walk(expr):
            fine = not isinstance(node, Read | Extent | Reduce | Field)
            if isinstance(node, Name):
                fine = node.name in fields
            elif isinstance(node, Call):
                fine = node.function not in ("uniform", "stop") and not (
                    node.function in self.functions and not self._is_pure(node.function)
                )
            if not fine:
                allowed = ", ".join(sorted(fields)) if fields else "no names"
                self._fail(
                    UnknownNameError,
                    "a monoid is made of its fields, numbers and functions only",
                    node.span,
                    notes=(f"fields here: {allowed}",),
                )
        return self.resolve(expr, fields)

    def _is_pure(self, function: str) -> bool:
        todo, seen = [function], {function}
        while todo:
            statement = self.functions[todo.pop()]
            formals = {label.name for label in statement.formals}
            for node in walk(statement.body):
                if isinstance(node, Read | Extent | Reduce | Field):
                    return False
                if isinstance(node, Name) and node.name not in formals:
                    return False
                if isinstance(node, Call):
                    if node.function in ("uniform", "stop"):
                        return False
                    if node.function in self.functions and node.function not in seen:
                        seen.add(node.function)
                        todo.append(node.function)
        return True

    # Order

    def check_order(self) -> None:
        """No definition or function uses itself, and none is used before its line."""
        graph = {name: self._uses(at) for name, at in self.definitions.items()}
        graph |= {name: self._uses(at) for name, at in self.functions.items()}
        try:
            TopologicalSorter({name: set(uses) for name, uses in graph.items()}).prepare()
        except CycleError as error:
            self._recursive([str(name) for name in error.args[1]][::-1], graph)
        place = {name: number for number, name in enumerate(self.definitions)}
        for name in self.definitions:
            for used, span in self.definitions_used(name, graph).items():
                if place[used] > place[name]:
                    line, _ = line_and_column(self.text, self.definitions[used].name.span.start)
                    self._fail(
                        UnknownNameError,
                        f"'{used}' is used before it is defined",
                        (span, self.definitions[used].name.span),
                        notes=(f"it is defined on line {line}",),
                        help=f"move the definition of '{used}' above this line",
                    )

    def _uses(self, statement: DefinitionStatement | FunctionStatement) -> dict[str, Span]:
        """The definitions and functions that a body names, each with its first place."""
        local = set()
        if isinstance(statement, FunctionStatement):
            local = {label.name for label in statement.formals}
        uses: dict[str, Span] = {}
        for node in walk(statement.body):
            match node:
                case Read(name=name) | Name(name=name) if name not in local:
                    known = name in self.definitions
                case Call(function=name):
                    known = name in self.functions
                case _:
                    continue
            if known:
                uses.setdefault(name, node.span)
        return uses

    def definitions_used(
        self, name: str, graph: dict[str, dict[str, Span]] | None = None
    ) -> dict[str, Span]:
        """The definitions that one reads, itself or through the functions it calls."""
        found: dict[str, Span] = {}
        todo, seen = [name], {name}
        while todo:
            at = todo.pop()
            statement = self.definitions.get(at) or self.functions[at]
            uses = self._uses(statement) if graph is None else graph[at]
            for used, span in uses.items():
                if used in self.definitions:
                    found.setdefault(used, span)
                elif used not in seen:
                    seen.add(used)
                    todo.append(used)
        return found

    def _recursive(self, cycle: list[str], graph: dict[str, dict[str, Span]]) -> NoReturn:
        first, second = cycle[0], cycle[1]
        if second not in graph[first]:
            cycle = cycle[::-1]
            first, second = cycle[0], cycle[1]
        path = " -> ".join(cycle)
        what = "function" if first in self.functions else "definition"
        self._fail(
            RecursiveDefinitionError,
            f"{what} '{first}' uses itself",
            graph[first][second],
            notes=() if len(cycle) == 2 else (f"by way of {path}",),
            help="a running aggregate is a prefix, such as sum[..k](x), or a monoid of your own",
        )

    def check_expansion(self) -> None:
        """Functions stand for their text, so what they expand to has a limit."""
        for definition in self.definitions.values():
            stack: list[tuple[Expr, Any, int]] = [(definition.body, {}, 1)]
            count = 0
            while stack:
                node, env, depth = stack.pop()
                count += 1
                if count > MAX_EXPANDED or depth > MAX_EXPANDED_DEPTH:
                    self._fail(
                        LimitError,
                        f"'{definition.name.name}' grows past {MAX_EXPANDED} operations or "
                        f"{MAX_EXPANDED_DEPTH} levels when its functions are written out",
                        definition.name.span,
                        help="name intermediate results as definitions of their own",
                    )
                if isinstance(node, Name) and node.name in env:
                    expr, outer = env[node.name]
                    stack.append((expr, outer, depth))
                elif isinstance(node, Call) and node.function in self.functions:
                    function = self.functions[node.function]
                    inner = {
                        label.name: (arg, env)
                        for label, arg in zip(function.formals, node.args, strict=True)
                    }
                    stack.append((function.body, inner, depth + 1))
                else:
                    stack += [(part, env, depth + 1) for part in children(node)]


_FORMS = {
    "where": "where(condition, a, b)",
    "maximum": "maximum(a, b)",
    "minimum": "minimum(a, b)",
    "uniform": "uniform(seed, i, j, ...)",
}


def _is_bare_aggregate(monoids: dict[str, MonoidStatement], expr: Expr) -> bool:
    return isinstance(expr, Reduce) and expr.op in monoids and len(monoids[expr.op].fields) > 1


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


__all__ = ["ALL_REDUCTIONS", "Number", "Scope", "walk", "word_in"]
