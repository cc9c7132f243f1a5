"""Elements of tensors that no program declares."""

from __future__ import annotations

from collections.abc import Sequence

from monocomp import terms as T
from monocomp.declarations.vocabulary import Kind
from monocomp.terms import Term


def element(name: str, subscripts: Sequence[Term], kind: Kind = "float") -> Term:
    """An element of a tensor whose dimensions have the extents of the indices that subscript it."""
    pairs = enumerate(subscripts)
    extents = (a.extent if a.op == "index" else f".{name}{n}" for n, a in pairs)
    return T.read(T.Tensor(name, tuple(extents)), subscripts, kind)
