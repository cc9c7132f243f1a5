"""Each expression against the names of its program: what a bare name is, and how heads are used.

Every name is classified, every read has as many subscripts as the tensor has dimensions,
every call and reduction exists and has the right form. Types come later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from monocomp.declarations.vocabulary import (
    ALL_REDUCTIONS,
    FUNCTIONS,
    KEEPING_REDUCTIONS,
    SELECTIONS,
)
from monocomp.errors import (
    ArityError,
    DuplicateNameError,
    ParseError,
    ShapeError,
    Span,
    TypeMismatchError,
    UnknownFunctionError,
    UnknownNameError,
    count_of,
    did_you_mean,
    nearest,
)
from monocomp.language import syntax as S
from monocomp.language.scoping import NOT_LOCAL, Scope, head, primed_elsewhere

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
        """Return the expression with every bare name classified and every head known."""
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
                f"'{name}' has {count_of(len(labels), 'dimension')} and is read without brackets",
                spans=node.span,
                help=f"write {form_of(name, labels)}",
            )
        return "scalar"

    def _dims(self, name: str) -> tuple[S.Label, ...] | None:
        """Return the dimensions of a definition or a declared input."""
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
            primed_elsewhere(name, node.span)
        elif name in scope.reads:
            message = f"'{name}' is a tensor and is read without brackets"
            count = len(scope.reads[name][0].subscripts)
            help = f"write {name}[...] with {count_of(count, 'subscript')}"
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
                f"'{name}' has {count_of(len(labels), 'dimension')} and is read with "
                f"{count_of(count, 'subscript')}",
                spans=(node.span, place.name.span),
                help=f"its form is {form_of(name, labels)}",
            )

    def _check_same_count(self, node: S.Read, first: S.Read) -> None:
        count, before = len(node.subscripts), len(first.subscripts)
        if count != before:
            raise ShapeError(
                f"'{node.name}' is read with {count_of(count, 'subscript')} here and with "
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
            takes = "1 argument or more" if wanted is None else count_of(wanted, "argument")
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
            brackets = "" if near in functions else "[k -> r]" if near in SELECTIONS else "[k]"
            several = (f"x_{n}" for n in range(1, len(node.args) + 1))
            args = ", ".join(several) if len(node.args) > 1 else "x"
            help = f"did you mean {near}{brackets}(x)?" if near else f"add def {name}({args}) = ..."
        raise UnknownFunctionError(message, spans=head(node, name), help=help)

    # Reductions

    def _check_reduce(self, node: S.Reduce) -> None:
        wanted, form = 1, f"{node.op}[k](x)"
        if node.op in self.scope.monoids:
            monoid = self.scope.monoids[node.op]
            wanted, form = len(monoid.fields), f"{node.op}[k]({', '.join(monoid.forms)})"
            self._check_own_indices(node, monoid)
        elif node.op not in ALL_REDUCTIONS:
            self._unknown_reduction(node)
        if len(node.args) != wanted:
            raise ArityError(
                f"'{node.op}' takes {count_of(wanted, 'operand')}, and {_given(len(node.args))}",
                spans=node.span,
                help=f"its form is {form}",
            )
        for number, index in enumerate(node.indices):
            if index in node.indices[:number] or index == node.target:
                message = f"'{index}' stands twice in the brackets of '{node.op}'"
                raise DuplicateNameError(message, spans=head(node, node.op))
        self._check_form(node)

    def _check_own_indices(self, node: S.Reduce, monoid: S.Monoid) -> None:
        """Operands have the indices of their fields, which nothing else binds."""
        own = {index for indices in monoid.indices for index in indices}
        for index in (*node.indices, *(() if node.target is None else (node.target,))):
            if index in own:
                raise DuplicateNameError(
                    f"'{index}' is an index of the entries of '{node.op}', and stands in its "
                    "brackets",
                    spans=index.span,
                    notes=(f"its form is {node.op}[k]({', '.join(monoid.forms)})",),
                    help="fold over an index with another name",
                )

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
        """Check what only some reductions have: one index, a new index, a prefix form."""
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
        monoid = self.scope.monoids[node.op]
        fields, forms = monoid.fields, monoid.forms
        if len(fields) > 1 or any(monoid.indices):
            what = f"{len(fields)} values" if len(fields) > 1 else f"the entries of '{fields[0]}'"
            raise TypeMismatchError(
                f"'{node.op}' gives {what}, and one is needed here",
                spans=node.span,
                notes=(f"its fields: {', '.join(forms)}",),
                help=f"take one of them, such as {node.op}[...](...).{forms[0]}",
            )

    def _check_field(self, node: S.Field) -> None:
        operand, place = node.operand, node.name.span
        if not isinstance(operand, S.Reduce) or operand.op not in self.scope.monoids:
            raise TypeMismatchError(
                f"'.{node.name}' stands after a value that has no fields",
                spans=place,
                help="fields belong to the aggregate of a monoid: Affine[t](a, u).u",
            )
        monoid = self.scope.monoids[operand.op]
        if node.name not in monoid.fields:
            raise UnknownNameError(
                f"monoid '{operand.op}' has no field '{node.name}'",
                spans=place,
                notes=(f"its fields: {', '.join(monoid.forms)}",),
                help=did_you_mean(node.name, monoid.fields),
            )
        self.check_subscripts(monoid, node.name, Span(place.start, node.span.stop), node.subscripts)

    def check_subscripts(
        self, monoid: S.Monoid, name: str, place: Span, subscripts: tuple[S.Expr, ...]
    ) -> None:
        """An entry of a field is named by indices and numbers, one for each of its indices."""
        indices = monoid.indices[monoid.fields.index(name.rstrip("'"))]
        if len(indices) != len(subscripts):
            how = f"with {count_of(len(subscripts), 'subscript')}"
            raise ShapeError(
                f"'{name}' has {count_of(len(indices), 'dimension')} and is read "
                f"{how if subscripts else 'without brackets'}",
                spans=place,
                help=f"its form is {form_of(name, indices)}",
            )
        for index, part in zip(indices, subscripts, strict=True):
            extent = self.scope.extent_in(monoid, index)
            match part:
                case S.Number(value=int(number)) if number < extent:
                    continue
                case S.Name() if self._is_index(part.name):
                    continue
            raise TypeMismatchError(
                f"a subscript of field '{name}' is an index or a number from 0 to {extent - 1}",
                spans=part.span,
                notes=(f"its form is {form_of(name, indices)}",),
                help="for others, define the matrix, M[...] = ..., and read that",
            )

    def _is_index(self, name: str) -> bool:
        return name in self.scope.indices


def _whole_subscript(part: S.Expr) -> S.Expr:
    """A floor is a whole number, and as a subscript an int."""
    is_floor = isinstance(part, S.Call) and part.function == "floor"
    return S.Call("int", (part,), span=part.span) if is_floor else part


def form_of(name: str, labels: tuple[S.Label, ...]) -> str:
    return f"{name}[{','.join(labels)}]" if labels else name


def _given(count: int) -> str:
    return f"{count or 'none'} {'is' if count < 2 else 'are'} given"
