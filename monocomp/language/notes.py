"""Notes on what a text means: found in the checked program, in which implied sums are written out.

V[b,h,j,e] beside P[b,h,q,k]     an index that stands in one factor of a product only
A[i,j] * B[j] + C[j]             a term with a sum of its own
sum[k](softmax[k](x))            weights that are summed alone: 1
sum[j if j <= i](x[j])           a prefix that is summed anew for each i
x // 2 for a float x             rounded down
sqrt(d), d ** -0.5               a root of a position, where that of a size was meant
-inf * (k > q)                   NaN where the condition is false
param c that nothing reads
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from monocomp.display.notes import Note
from monocomp.language import syntax as S
from monocomp.language.free_indices import is_product

KindOf = Callable[[S.Expr], str]


def notes_on(
    text: str,
    definitions: Mapping[str, S.Definition],
    kind_of: KindOf,
) -> Iterator[Note]:
    """Yield notes on what may surprise in definitions whose implied sums are explicit."""
    finder = _Finder(text, definitions, kind_of)
    for definition in definitions.values():
        yield from finder.in_expression(definition.body)


def unused_params(params: Mapping[str, S.Param], used: frozenset[str]) -> Iterator[Note]:
    """Yield the parameters that no definition reads."""
    for name, param in params.items():
        if name not in used:
            yield Note(
                f"parameter '{name}' is used nowhere",
                (param.name.span,),
                "remove it, or write it where it was to stand",
            )


_SIZE = "its size is |{0}|: write sqrt(|{0}|)"


def rooted_index(node: S.Expr) -> S.Name | None:
    """Return the index of which a root is taken."""
    match node:
        case S.Call(function="sqrt" | "rsqrt", args=(S.Name(kind="index") as index,)):
            return index
        case S.Binary(op="**", left=S.Name(kind="index") as index, right=power):
            number = power.operand if isinstance(power, S.Unary) else power
            is_root = isinstance(number, S.Number) and not isinstance(number.value, int)
            return index if is_root else None
    return None


def advice_on_size(node: S.Expr, here: Sequence[str]) -> str | None:
    """Say how to write the size of an index in `here`, if a root of that index is taken."""
    indices = (rooted_index(part) for part in S.walk(node))
    names = [index.name for index in indices if index is not None and index.name in here]
    return _SIZE.format(names[0]) if names else None


class _Finder:
    def __init__(self, text: str, definitions: Mapping[str, S.Definition], kind_of: KindOf) -> None:
        self.text, self.definitions, self.kind_of = text, definitions, kind_of

    def in_expression(
        self, node: S.Expr, is_factor: bool = False, is_term: bool = False
    ) -> Iterator[Note]:
        """Return the notes on an expression and its parts."""
        match node:
            case S.Reduce() if not is_factor:
                yield from self._sum_of_weights(node)
            case S.Binary(op="//") if self.kind_of(node) == "float":
                yield Note(
                    "'//' of floats rounds down",
                    (node.span,),
                    "a quotient is x / y; say floor(x / y) if it is to be rounded",
                )
            case S.Call() | S.Binary(op="**") if index := rooted_index(node):
                yield Note(
                    f"'{index.name}' is a position here, one of 0 to |{index.name}| - 1",
                    (index.span,),
                    _SIZE.format(index.name),
                )
            case S.Binary(op="*" | "/") if not is_factor:
                yield from self._alone(node)
            case S.Binary(op="+" | "-") if not is_term:
                yield from self._own_sums(node)
        if is_product(node):
            yield from self._nothing_times_infinity(node)
        for part in S.children(node):
            op = node.op if isinstance(node, S.Binary) else ""
            yield from self.in_expression(part, op in ("*", "/"), op in ("+", "-"))

    def _nothing_times_infinity(self, product: S.Binary) -> Iterator[Note]:
        for factor, other in ((product.left, product.right), (product.right, product.left)):
            number = factor.operand if isinstance(factor, S.Unary) else factor
            if (
                isinstance(number, S.Number)
                and number.value == inf
                and self.kind_of(other) == "bool"
            ):
                condition, value = (self.text[x.span.start : x.span.stop] for x in (other, factor))
                yield Note(
                    "where the condition is false, inf * 0 is NaN",
                    (product.span,),
                    f"write where({condition.strip('()')}, {value}, 0), or a filter: "
                    "softmax[k if k <= q](...)",
                )

    def _sum_of_weights(self, node: S.Reduce) -> Iterator[Note]:
        body = node.args[0]
        weights = self._weights(body) if node.op == "sum" and node.condition is None else None
        if weights is not None and set(weights) == set(node.indices):
            names = ", ".join(node.indices)
            yield Note(
                f"this softmax is summed over '{names}' by itself, which gives 1",
                (body.span,),
                f"to keep the weights, name '{names}' on the left: P[..., {names}] = ...; "
                "a mean by them multiplies: softmax[k](S[q,k]) * V[k,e]",
            )

    def _alone(self, product: S.Expr) -> Iterator[Note]:
        """Yield the factors of a product that have an index of their own, and so a sum of their
        own."""
        summed = [
            f
            for f in _factors(product)
            if isinstance(f, S.Reduce) and f.implied and not is_product(f.args[0])
        ]
        alone = [f for f in summed if self._weights(f.args[0]) is None]
        if not alone:
            for f in summed:
                yield from self._sum_of_weights(f)
            return
        index, body = alone[-1].indices[-1], alone[-1].args[0]
        quoted = self._quote(body)
        others = [i for f in summed for i in f.indices if i != index]
        help = f"if that is meant, say so: sum[{index}]({quoted})"
        if others:
            help = (
                f"did you mean '{others[0]}' for '{index}'? Otherwise write sum[{index}]({quoted})"
            )
        yield Note(
            f"'{index}' stands in one factor of this product only, which is summed over it alone",
            (body.span,),
            help,
        )

    def _own_sums(self, total: S.Expr) -> Iterator[Note]:
        """Yield the terms of a sum that are no product, and are summed by themselves."""
        terms = list(_terms(total))
        for term in terms:
            if not isinstance(term, S.Reduce) or not term.implied or is_product(term.args[0]):
                continue
            if self._weights(term.args[0]) is not None:  # which has a note of its own
                continue
            index, body = term.indices[-1], term.args[0]
            quoted = self._quote(body)
            help = f"if that is meant, say so: sum[{index}]({quoted})"
            if any(isinstance(t, S.Reduce) and t is not term and index in t.indices for t in terms):
                help += f"; to add it within one sum: sum[{index}]({self._quote(total)})"
            message = f"'{index}' is summed in this term by itself, not over the whole sum"
            yield Note(message, (body.span,), help)

    def _quote(self, node: S.Expr) -> str:
        return " ".join(self.text[node.span.start : node.span.stop].split())

    def _weights(self, node: S.Expr) -> tuple[str, ...] | None:
        """Return the indices over which an expression is a softmax, by the names that it has
        here."""
        if isinstance(node, S.Reduce) and node.op == "softmax" and not node.prefix:
            return tuple(node.indices)
        if isinstance(node, S.Read) and node.name in self.definitions:
            definition = self.definitions[node.name]
            inner = self._weights(definition.body)
            names = dict(zip(definition.indices, node.subscripts, strict=True))
            parts = [names.get(S.Label(i, node.span)) for i in inner or ()]
            if inner and all(isinstance(p, S.Name) and p.kind == "index" for p in parts):
                return tuple(p.name for p in parts if isinstance(p, S.Name))
        return None


def _terms(node: S.Expr) -> Iterator[S.Expr]:
    """Yield the terms of a sum."""
    if isinstance(node, S.Binary) and node.op in ("+", "-"):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _factors(node: S.Expr) -> Iterator[S.Expr]:
    """Yield the factors of a product, and of those that are summed."""
    if isinstance(node, S.Binary) and node.op in ("*", "/"):
        yield from _factors(node.left)
        yield from _factors(node.right)
    elif isinstance(node, S.Reduce) and node.implied and is_product(node.args[0]):
        yield from _factors(node.args[0])
    else:
        yield node


def used_names(bodies: Iterator[tuple[S.Expr, frozenset[str]]]) -> frozenset[str]:
    """Return the names that stand in expressions, except those that are local there."""
    return frozenset(
        node.name
        for body, local in bodies
        for node in S.walk(body)
        if isinstance(node, S.Name) and node.name not in local
    )
