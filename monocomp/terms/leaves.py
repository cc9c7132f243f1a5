"""Leaves: numbers, indices, extents, parameters, and elements of tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from monocomp.declarations.vocabulary import Kind
from monocomp.errors import InternalError
from monocomp.terms.constructors import CONSTRUCTORS
from monocomp.terms.nodes import Equation, Number, Tensor, Term, intern

READS = ("read", "stored")  # elements of inputs, and of what a kernel has stored


@lru_cache(maxsize=4096, typed=True)
def const(value: int | Fraction | float | bool, kind: Kind | None = None) -> Term:
    """Return a number or truth value. An int is of kind int unless `kind` is another."""
    if isinstance(value, bool) and kind in (None, "bool"):
        return intern("const", (), value, "bool")
    if kind is None:
        kind = "int" if isinstance(value, int) else "float"
    if isinstance(value, float):
        number: Number = value if math.isinf(value) else Fraction(value)
    else:
        number = Fraction(value)
    return intern("const", (), number, kind)


@lru_cache(maxsize=4096)
def index(name: str, extent: str) -> Term:
    """Return an index, as a value or as a subscript."""
    return intern("index", (), (name, extent), "int")


def extent_of(extent_name: str) -> Term:
    """Return `|k|`."""
    return intern("extent", (), extent_name, "int")


def param(name: str, kind: Kind) -> Term:
    """Return a scalar parameter."""
    return intern("param", (), name, kind)


def read(tensor: Tensor, subscripts: Iterable[Term], kind: Kind) -> Term:
    """Return an element of an input tensor."""
    return intern("read", ints(subscripts), tensor, kind)


def ref(name: str, subscripts: Iterable[Term], kind: Kind) -> Term:
    """Return an element of a definition of the same program that is not inlined yet."""
    return intern("ref", ints(subscripts), name, kind)


def name_of(t: Term) -> str:
    """Return the name of the tensor or definition that is read, or of the parameter."""
    return t.attr.name if t.op in READS else str(t.attr)


def stored(equation: Equation, subscripts: Iterable[Term]) -> Term:
    """Return an element of an equation that another kernel computes and stores, or of an input
    that is given with its definition. Rules treat it as one value, with the facts of the equation's
    body."""
    return intern("stored", ints(subscripts), equation, equation.body.kind)


def computed(subscripts: Iterable[Term], extents: Iterable[str]) -> list[tuple[int, Term, str]]:
    """Return the subscripts that may leave a tensor of these extents, each with its dimension and
    extent: all that are not an index of this extent."""
    pairs = enumerate(zip(subscripts, extents, strict=True))
    return [(n, a, e) for n, (a, e) in pairs if a.op != "index" or a.extent != e]


def is_computed(t: Term) -> bool:
    """True if t is a read that may leave its tensor."""
    return t.op in READS and bool(computed(t.args, t.attr.extents))


def ints(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Convert subscripts to ints; truth values are 0 or 1, and floats an error."""
    out = tuple(as_int(t) for t in terms)
    if any(t.kind != "int" for t in out):
        raise InternalError("a subscript is not an integer: " + ", ".join(map(repr, out)))
    return out


def as_int(t: Term) -> Term:
    """Convert a truth value to 0 or 1; return numbers as they are."""
    if t.kind != "bool":
        return t
    if t.op == "const":
        return const(int(t.attr))
    return intern("cast", (t,), "int", "int")


TRUE = const(True)
FALSE = const(False)
ZERO = const(0, "float")
ONE = const(1, "float")
INF = const(math.inf)
NEG_INF = const(-math.inf)
# The table holds terms weakly; these live as long as the module.

CONSTRUCTORS.update(
    read=lambda args, attr, kind: read(attr, args, kind),
    ref=lambda args, attr, kind: ref(attr, args, kind),
    stored=lambda args, attr, kind: stored(attr, args),
)
