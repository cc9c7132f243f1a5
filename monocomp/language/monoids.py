"""Declarations of monoids: what may stand in them, and how many entries their fields have.

    index r < 2, s < 2, t < 2
    monoid Mat(A[r,s]) = unit (where(r == s, 1, 0)), combine (A[r,t] * A'[t,s])

A part of `unit` or `combine` says what each entry of its field is. Indices that stand in it and not
in its field are summed, as those of a definition are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from monocomp.errors import (
    ArityError,
    LimitError,
    ReservedNameError,
    ShapeError,
    UnknownNameError,
    count_of,
)
from monocomp.language import syntax as S
from monocomp.language.free_indices import FreeIndices
from monocomp.language.functions import written_out
from monocomp.language.implied_sums import add_implied_sums
from monocomp.language.resolving import Resolver, form_of
from monocomp.language.scoping import MAX_EXPANDED, NOT_LOCAL, Scope

MAX_ENTRIES = 20  # a matrix of 4 by 4 and a vector
_REDUCTIONS = ("sum", "prod", "max", "min")


class MonoidResolver(Resolver):
    """Resolves the parts of one declaration: fields and primed fields are formals."""

    def __init__(self, scope: Scope, monoid: S.Monoid) -> None:
        super().__init__(scope)
        self.monoid = monoid
        fields = map(str, monoid.fields)
        self.indices = dict(zip(fields, monoid.indices, strict=True))

    def resolved(self) -> S.Monoid:
        """Return the declaration with its names resolved, and the extents of its indices."""
        at = self.monoid
        for what, parts in (("unit", at.unit), ("combine", at.combine)):
            if len(parts) != len(at.fields):
                raise ArityError(
                    f"monoid '{at.name}' has {count_of(len(at.fields), 'field')}, and "
                    f"'{what}' has {count_of(len(parts), 'part')}",
                    spans=parts[0].span.to(parts[-1].span),
                    help=f"'{what}' has one part for each field",
                )
        extents = {str(i): self._extent(i) for indices in at.indices for i in indices}
        entries = sum(prod(extents[i] for i in indices) for indices in at.indices)
        if extents and entries > MAX_ENTRIES:
            raise LimitError(
                f"the fields of monoid '{at.name}' have {entries} entries; at most {MAX_ENTRIES}",
                spans=at.name.span,
                notes=("each entry is a number of its own, and a matrix of 4 by 4 has 16",),
            )
        both = frozenset((*at.fields, *(f"{name}'" for name in at.fields)))
        unit = tuple(self._pure(part, NOT_LOCAL) for part in at.unit)
        combine = tuple(self._pure(part, both) for part in at.combine)
        for node in (node for part in (*unit, *combine) for node in S.walk(part)):
            names: tuple[S.Label, ...] = node.indices if isinstance(node, S.Reduce) else ()
            if isinstance(node, S.Name) and node.kind == "index":
                names = (S.Label(node.name, node.span),)
            extents |= {str(name): self._extent(name) for name in names}
        return replace(at, unit=unit, combine=combine, extents=extents)

    def _extent(self, index: S.Label) -> int:
        if index in self.indices:
            raise ReservedNameError(
                f"'{index}' names a field here and cannot be an index too",
                spans=index.span,
                help="rename the field",
            )
        return self.scope.extent_in(self.monoid, index)

    # What may stand in a part

    def _pure(self, expr: S.Expr, fields: frozenset[str]) -> S.Expr:
        """Return an expression of fields, numbers and functions only, resolved."""
        for node in S.walk(expr):
            if self._is_foreign(node, fields):
                forms = (f for form in self.monoid.forms for f in (form, primed(form)))
                raise UnknownNameError(
                    "a monoid is made of its fields, numbers and functions of these only",
                    spans=node.span,
                    notes=(
                        "reductions that may stand here: sum, prod, max and min, without a filter"
                        if isinstance(node, S.Reduce)
                        else f"names that may stand here: {', '.join(forms) if fields else 'none'}",
                    ),
                )
        return self.resolve(expr, fields)

    def _is_foreign(self, node: S.Expr, fields: frozenset[str]) -> bool:
        match node:
            case S.Name():
                return node.name not in fields and not self._is_index(node.name)
            case S.Read():
                return node.name not in fields
            case S.Reduce():
                is_whole = node.condition is None and not node.prefix and node.target is None
                return node.op not in _REDUCTIONS or not is_whole
            case S.Call() if node.function in self.scope.functions:
                return not self._is_pure_function(node.function)
        return _is_impure(node)

    def _is_index(self, name: str) -> bool:
        """True if a name that is no field's is an index. One of unknown extent is refused later."""
        if name in self.monoid.extents or name in self.scope.bounds:
            return True
        is_free = self.scope.claimed(name) is None and not name.endswith("'")
        return is_free and any(self.monoid.indices)

    def _is_pure_function(self, function: str) -> bool:
        todo, seen = [function], {function}
        while todo:
            at = self.scope.functions[todo.pop()]
            for node in S.walk(at.body):
                if isinstance(node, S.Read | S.Reduce) or _is_impure(node):
                    return False
                if isinstance(node, S.Name) and node.name not in at.formals:
                    return False
                if isinstance(node, S.Call) and node.function in self.scope.functions:
                    if node.function not in seen:
                        todo.append(node.function)
                    seen.add(node.function)
        return True

    # Names and reads in it

    def _classify(self, node: S.Name, local: frozenset[str]) -> S.NameKind:
        if node.name not in local:
            return "index"
        self._check_entry(node.name, node, ())
        return "formal"

    def _check_read(self, node: S.Read, local: frozenset[str]) -> None:
        self._check_entry(node.name, node, node.subscripts)

    def _check_entry(self, name: str, node: S.Expr, subscripts: tuple[S.Expr, ...]) -> None:
        self.check_subscripts(self.monoid, name, node.span, subscripts)
        indices = self.indices[name.rstrip("'")]
        for index, part in zip(indices, subscripts, strict=True):
            if not isinstance(part, S.Name):
                continue
            wanted, actual = self._extent(index), self._extent(S.Label(part.name, part.span))
            if actual != wanted:
                raise ShapeError(
                    f"'{name}' has {wanted} entries along '{index}', and '{part.name}' runs "
                    f"over {actual}",
                    spans=part.span,
                    help=f"its form is {form_of(name, indices)}",
                )


def primed(form: str) -> str:
    """Return a field's form as the right operand has it: A'[r,s]."""
    name, bracket, rest = form.partition("[")
    return f"{name}'{bracket}{rest}"


def _is_impure(node: S.Expr) -> bool:
    if isinstance(node, S.Call):
        return node.function in ("uniform", "stop")
    return isinstance(node, S.Extent | S.Field)


def with_sums(
    at: S.Monoid, free: FreeIndices, functions: Mapping[str, S.Function], text: str
) -> S.Monoid:
    """Return a resolved declaration with its implied sums and its functions written out."""

    def parts(values: tuple[S.Expr, ...]) -> tuple[S.Expr, ...]:
        summed = map(lambda e, i: add_implied_sums(e, i, free, text), values, at.indices)
        return tuple(written_out(e, functions) for e in summed)

    made = replace(at, unit=parts(at.unit), combine=parts(at.combine))
    size = sum(
        prod(at.extents[i] for i in indices) * _size(part, at.extents)
        for indices, part in zip(at.indices, made.combine, strict=True)
        if at.extents
    )
    if size > MAX_EXPANDED:
        raise LimitError(
            f"monoid '{at.name}' has more than {MAX_EXPANDED} operations when its sums are "
            "written out",
            spans=at.name.span,
            help="give its indices smaller extents",
        )
    return made


def _size(part: S.Expr, extents: Mapping[str, int]) -> int:
    """Return the number of operations in an expression when its sums are written out."""
    times = prod(extents[i] for i in part.indices) if isinstance(part, S.Reduce) else 1
    return 1 + times * sum(_size(child, extents) for child in S.children(part))
