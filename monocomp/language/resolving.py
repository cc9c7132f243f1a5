"""Each expression against the names of its program: what a bare name is, and how heads are used.

Every name is classified, every read has as many subscripts as the tensor has dimensions,
every call and reduction exists and has the right form. Types come later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from monocomp.declarations.vocabulary import FUNCTIONS, KEEPING_REDUCTIONS, SELECTIONS
from monocomp.errors import (
    ArityError,
    DuplicateNameError,
    ParseError,
    ShapeError,
    Span,
    TypeMismatchError,
    UnknownFunctionError,
    UnknownNameError,
    did_you_mean,
    nearest,
)
from monocomp.language import syntax as S
from monocomp.language.mistakes import ALL_REDUCTIONS
from monocomp.language.scoping import NOT_LOCAL, Scope, head

_FORMS = {
    "where": "where(condition, a, b)",
    "maximum": "maximum(a, b)",
    "minimum": "minimum(a, b)",
    "uniform": "uniform(seed, i, j, ...)",
}


class Resolver:
    """Resolves expressions in the scope of one program."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def resolve(
        self, expr: S.Expr, local: frozenset[str] = NOT_LOCAL, under_field: bool = False
    ) -> S.Expr:
        """The expression with every bare name classified and every head known."""
        match expr:
            case S.Name():
                return replace(expr, kind=self._classify(expr, local))
            case S.Read():
                self._check_read(expr, local)
            case S.Call():
                self._check_call(expr)
            case S.Reduce():
                self._check_reduce(expr)
                self._check_fields_taken(expr, under_field)
            case S.Field():
                self._check_field(expr)
        inner = isinstance(expr, S.Field)
        parts = [self.resolve(p, local, inner) for p in S.children(expr)]
        if isinstance(expr, S.Read):
            parts = [_whole_subscript(p) for p in parts]
        return S.with_children(expr, parts)

    # Bare names

    def _classify(self, node: S.Name, local: frozenset[str]) -> S.NameKind:
        name, scope = node.name, self.scope
        if name in local:
            return "formal"
        if name in scope.indices:
            return "index"
        if name in scope.params:
            return "param"
        labels = self._dims(name)
        if labels is None:
            self._unknown_name(node, local)
        if labels:
            raise ShapeError(
                f"'{name}' has {_count(len(labels), 'dimension')} and is read without brackets",
                spans=node.span,
                help=f"write {_form(name, labels)}",
            )
        return "scalar"

    def _dims(self, name: str) -> tuple[S.Label, ...] | None:
        """The dimensions of a definition or a declared input."""
        if name in self.scope.definitions:
            return self.scope.definitions[name].indices
        if name in self.scope.inputs:
            return self.scope.inputs[name].dims
        return None

    def _unknown_name(self, node: S.Name, local: frozenset[str]) -> NoReturn:
        name, scope = node.name, self.scope
        if name in FUNCTIONS or name in scope.functions:
            message, help = f"'{name}' is a function without arguments", f"write {name}(x)"
        elif name in ALL_REDUCTIONS or name in scope.monoids:
            message, help = f"'{name}' is a reduction without operand", f"write {name}[k](x)"
        elif name.endswith("'"):
            message = f"the primed name {name} means something in 'combine' only"
            help = "remove the prime"
        elif name in scope.reads:
            message = f"'{name}' is a tensor and is read without brackets"
            count = len(scope.reads[name][0].subscripts)
            help = f"write {name}[...] with {_count(count, 'subscript')}"
        else:
            message = f"'{name}' is no index, parameter or scalar of this program"
            near = nearest(name, self._bare_names(local))
            help = f"declare it, param {name}: float, or give its indices, {name}[...]"
            help = f"did you mean '{near}'? Otherwise {help}" if near else help
        raise UnknownNameError(message, spans=node.span, help=help)

    def _bare_names(self, local: frozenset[str]) -> list[str]:
        scope = self.scope
        scalars = [name for name in scope.definitions if not scope.definitions[name].indices]
        scalars += [name for name in scope.inputs if not scope.inputs[name].dims]
        return [*sorted(local), *scope.indices, *scope.params, *scalars]

    # Reads

    def _check_read(self, node: S.Read, local: frozenset[str]) -> None:
        name, count = node.name, len(node.subscripts)
        claimed = ("an argument", node.span) if name in local else self.scope.claimed(name)
        what = claimed[0] if claimed else "an input"
        if what not in ("an input", "a definition"):
            raise ShapeError(
                f"'{name}' is {what} and has no elements to read with brackets",
                spans=head(node, name),
                help=f"write {name}(x)"
                if what == "a function"
                else f"write {name}[k](x)"
                if what == "a monoid"
                else f"write {name} without brackets",
            )
        labels = self._dims(name)
        if labels is None:
            self._check_same_count(node, self.scope.reads[name][0])
        elif len(labels) != count:
            place = self.scope.definitions.get(name) or self.scope.inputs[name]
            raise ShapeError(
                f"'{name}' has {_count(len(labels), 'dimension')} and is read with "
                f"{_count(count, 'subscript')}",
                spans=(node.span, place.name.span),
                help=f"its form is {_form(name, labels)}",
            )

    def _check_same_count(self, node: S.Read, first: S.Read) -> None:
        count, before = len(node.subscripts), len(first.subscripts)
        if count != before:
            raise ShapeError(
                f"'{node.name}' is read with {_count(count, 'subscript')} here and with "
                f"{before} before",
                spans=(node.span, first.span),
                help="a tensor has one number of dimensions; `input` declares which",
            )

    # Calls

    def _check_call(self, node: S.Call) -> None:
        name, count = node.function, len(node.args)
        wanted: int | None
        if name in self.scope.functions:
            labels = self.scope.functions[name].formals
            wanted = len(labels)
            form = f"{name}({', '.join(labels)})"
        elif name in FUNCTIONS:
            wanted, form = FUNCTIONS[name], _FORMS.get(name, f"{name}(x)")
        else:
            self._unknown_function(node)
        if count != wanted and not (wanted is None and count):
            takes = "1 argument or more" if wanted is None else _count(wanted, "argument")
            raise ArityError(
                f"'{name}' takes {takes}, and {_given(count)}",
                spans=node.span,
                help=f"its form is {form}",
            )

    def _unknown_function(self, node: S.Call) -> NoReturn:
        name, scope = node.function, self.scope
        claimed = scope.claimed(name)
        if name in ALL_REDUCTIONS or name in scope.monoids:
            message = f"'{name}' is a reduction and needs an index in brackets"
            help = f"say which index it binds: {name}[k](x)"
        elif claimed is not None or name in scope.indices:
            message = f"'{name}' is {claimed[0] if claimed else 'an index'}, not a function"
            help = f"products are written out, {name} * (...); elements are read with brackets"
        else:
            message = f"there is no function '{name}'"
            functions = (*FUNCTIONS, *scope.functions)
            near = nearest(name, (*functions, *ALL_REDUCTIONS, *scope.monoids))
            brackets = "" if near in functions else "[k]"
            help = f"did you mean {near}{brackets}(x)?" if near else f"add def {name}(x) = ..."
        raise UnknownFunctionError(message, spans=head(node, name), help=help)

    # Reductions

    def _check_reduce(self, node: S.Reduce) -> None:
        wanted, form = 1, f"{node.op}[k](x)"
        if node.op in self.scope.monoids:
            fields = self.scope.monoids[node.op].fields
            wanted, form = len(fields), f"{node.op}[k]({', '.join(fields)})"
        elif node.op not in ALL_REDUCTIONS:
            self._unknown_reduction(node)
        if len(node.args) != wanted:
            raise ArityError(
                f"'{node.op}' takes {_count(wanted, 'operand')}, and {_given(len(node.args))}",
                spans=node.span,
                help=f"its form is {form}",
            )
        for number, index in enumerate(node.indices):
            if index in node.indices[:number] or index == node.target:
                message = f"'{index}' stands twice in the brackets of '{node.op}'"
                raise DuplicateNameError(message, spans=head(node, node.op))
        self._check_form(node)

    def _unknown_reduction(self, node: S.Reduce) -> NoReturn:
        name, scope = node.op, self.scope
        known = (*ALL_REDUCTIONS, *scope.monoids)
        claimed = scope.claimed(name)
        if name in FUNCTIONS or name in scope.functions:
            message = f"'{name}' is a function, not a reduction, and binds no index"
            help = f"write {name}(x)"
        elif claimed is not None:
            message = f"'{name}' is {claimed[0]}, not a reduction"
            help = f"products are written out: {name}[...] * (...)"
        else:
            message = f"there is no reduction '{name}'"
            near = did_you_mean(name, (*known, *scope.all_given()))
            help = near or f"known: {', '.join(known)}"
        raise UnknownFunctionError(message, spans=head(node, name), help=help)

    def _check_form(self, node: S.Reduce) -> None:
        """What only some reductions have: one index, a new index, a prefix form."""
        place, selects = head(node, node.op), node.op in SELECTIONS
        if selects != (node.target is not None):
            raise ParseError(
                f"'{node.op}' lacks its new index"
                if selects
                else f"'{node.op}' makes no new index; only top and argtop do",
                spans=place,
                help=f"write {node.op}[k -> r](x), with index r < ..."
                if selects
                else f"write {node.op}[{', '.join(node.indices)}](x)",
            )
        if node.prefix and (selects or node.op in KEEPING_REDUCTIONS):
            raise ParseError(
                f"'{node.op}' has no prefix form",
                spans=place,
                help="use it over the whole index, with a filter"
                if selects
                else "divide by a running aggregate: exp(x - logsumexp[..k](x))",
            )
        single = node.prefix or selects or node.op in ("argmax", "argmin")
        if single and len(node.indices) > 1:
            what = "a prefix aggregate" if node.prefix else f"'{node.op}'"
            message = f"{what} goes along 1 index, and {len(node.indices)} are given"
            raise ArityError(message, spans=place, help="join them into one index first")

    # Monoids

    def _check_fields_taken(self, node: S.Reduce, under_field: bool) -> None:
        if under_field or node.op not in self.scope.monoids:
            return
        fields = self.scope.monoids[node.op].fields
        if len(fields) > 1:
            raise TypeMismatchError(
                f"'{node.op}' gives {len(fields)} values, and one is needed here",
                spans=node.span,
                notes=(f"its fields: {', '.join(fields)}",),
                help=f"take one of them, such as {node.op}[...](...).{fields[0]}",
            )

    def _check_field(self, node: S.Field) -> None:
        operand = node.operand
        place = Span(node.span.stop - len(node.name), node.span.stop)
        if not isinstance(operand, S.Reduce) or operand.op not in self.scope.monoids:
            raise TypeMismatchError(
                f"'.{node.name}' stands after a value that has no fields",
                spans=place,
                help="fields belong to the aggregate of a monoid: Affine[t](a, u).u",
            )
        fields = self.scope.monoids[operand.op].fields
        if node.name not in fields:
            raise UnknownNameError(
                f"monoid '{operand.op}' has no field '{node.name}'",
                spans=place,
                notes=(f"its fields: {', '.join(fields)}",),
                help=did_you_mean(node.name, fields),
            )

    def monoid(self, at: S.Monoid) -> S.Monoid:
        """The declaration with its expressions resolved, fields and primed fields as formals."""
        for what, parts in (("unit", at.unit), ("combine", at.combine)):
            if len(parts) != len(at.fields):
                raise ArityError(
                    f"monoid '{at.name}' has {_count(len(at.fields), 'field')}, and "
                    f"'{what}' has {_count(len(parts), 'part')}",
                    spans=parts[0].span.to(parts[-1].span),
                    help=f"'{what}' has one part for each field",
                )
        both = frozenset((*at.fields, *(f"{name}'" for name in at.fields)))
        unit = tuple(self._pure(part, NOT_LOCAL) for part in at.unit)
        combine = tuple(self._pure(part, both) for part in at.combine)
        return replace(at, unit=unit, combine=combine)

    def _pure(self, expr: S.Expr, fields: frozenset[str]) -> S.Expr:
        """An expression of fields, numbers and functions only, resolved."""
        for node in S.walk(expr):
            impure = self._is_impure(node, fields)
            if isinstance(node, S.Call) and node.function in self.scope.functions:
                impure = not self._is_pure_function(node.function)
            if impure:
                names = ", ".join(sorted(fields)) or "none"
                raise UnknownNameError(
                    "a monoid is made of its fields, numbers and functions of these only",
                    spans=node.span,
                    notes=(f"names that may stand here: {names}",),
                )
        return self.resolve(expr, fields)

    @staticmethod
    def _is_impure(node: S.Expr, names: frozenset[str]) -> bool:
        match node:
            case S.Name():
                return node.name not in names
            case S.Read() | S.Extent() | S.Reduce() | S.Field():
                return True
            case S.Call():
                return node.function in ("uniform", "stop")
        return False

    def _is_pure_function(self, function: str) -> bool:
        todo, seen = [function], {function}
        while todo:
            at = self.scope.functions[todo.pop()]
            for node in S.walk(at.body):
                if self._is_impure(node, frozenset(at.formals)):
                    return False
                if isinstance(node, S.Call) and node.function in self.scope.functions:
                    if node.function not in seen:
                        todo.append(node.function)
                    seen.add(node.function)
        return True


def _whole_subscript(part: S.Expr) -> S.Expr:
    """A floor is a whole number, and as a subscript an int."""
    is_floor = isinstance(part, S.Call) and part.function == "floor"
    return S.Call("int", (part,), span=part.span) if is_floor else part


def _form(name: str, labels: tuple[S.Label, ...]) -> str:
    return f"{name}[{','.join(labels)}]" if labels else name


def _given(count: int) -> str:
    return f"{count or 'none'} {'is' if count < 2 else 'are'} given"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
