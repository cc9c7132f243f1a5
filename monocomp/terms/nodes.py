"""Nodes of terms, and the table in which structurally equal terms are one."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from monocomp.declarations.vocabulary import Kind

Number: TypeAlias = Fraction | float  # the only floats are inf and -inf
# Where a factor or addend stands when terms are printed and summed: numbers first.
_RANK = {
    "const": 0,
    "param": 1,
    "symbol": 1,
    "extent": 1,
    "index": 2,
    "cast": 3,
    "read": 4,
    "ref": 4,
    "stored": 4,
}


class Term:
    """A node. Build one with the constructors of this package, never directly; `printer` shows it.

    Attributes:
        op: the operation.
        args: the operands.
        attr: the payload that is not a term (a name, a number, a binder).
        kind: "int", "float" or "bool".
        free: names of the indices that occur free.
        folded: extents of the folds inside; a term with `e in folded` holds a result over e.
        height: the largest bound index number inside.
        names: the names of the definitions that it reads.
        weight: the number of nodes, with shared ones counted each time.
        depth: how many folds stand in one another.
        key: sorts terms by structure, the same in every run.
    """

    __slots__ = (
        "__weakref__",
        "args",
        "attr",
        "depth",
        "folded",
        "free",
        "height",
        "key",
        "kind",
        "names",
        "op",
        "weight",
    )

    op: str
    args: tuple[Term, ...]
    attr: Any
    kind: Kind
    free: frozenset[str]
    folded: frozenset[str]
    height: int
    names: frozenset[str]
    weight: int
    depth: int
    key: tuple[int, str, str]

    @property
    def name(self) -> str:
        """Return the name of an index, or of a symbol."""
        name: str = self.attr[0]
        return name

    @property
    def extent(self) -> str:
        """Return the extent of an index."""
        extent: str = self.attr[1]
        return extent

    def __reduce__(self) -> Any:
        return intern, (self.op, self.args, self.attr, self.kind)


@dataclass(frozen=True, slots=True)
class Binder:
    """The binder of a fold: its monoid (or reduction), indices and their extents.

    `monoid` is the name of a built-in or a `UserMonoid`; `target` is the extent of the
    new index of `top` and `argtop`.
    """

    monoid: str | UserMonoid
    indices: tuple[str, ...]
    extents: tuple[str, ...]
    target: str | None = None

    @property
    def name(self) -> str:
        """Return the reduction's name in the language. It decides nothing: users choose theirs."""
        return self.monoid if isinstance(self.monoid, str) else self.monoid.name

    @property
    def is_scaled(self) -> bool:
        """True if this is a sum of numbers with their exponents split off (`algebra`)."""
        return self.monoid in SCALED


_MONOIDS: WeakValueDictionary[tuple[Any, ...], UserMonoid] = WeakValueDictionary()
SCALED: set[UserMonoid] = set()  # the one monoid of that kind, once it is made


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class UserMonoid:
    """A monoid on tuples: the unit, and `combine` over the parameters x and x'.

    Interned like terms: equal means identical.
    """

    name: str
    fields: tuple[str, ...]
    unit: tuple[Term, ...]
    combine: tuple[Term, ...]

    def __new__(cls, *parts: Any, **named: Any) -> UserMonoid:
        return _MONOIDS.setdefault((*parts, *named.values()), object.__new__(cls))

    def __reduce__(self) -> Any:
        return UserMonoid, (self.name, self.fields, self.unit, self.combine)

    def unit_of(self, name: str) -> Term:
        """Return the unit of a field."""
        return self.unit[self.fields.index(name)]


class Tensor(NamedTuple):
    """An input that is read, with the extents of its dimensions."""

    name: str
    extents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """`name[indices] = body`; the indices are index terms, free in the body.

    An input may be `given` with its definition: no kernel computes it.
    """

    name: str
    indices: tuple[Term, ...]
    body: Term
    given: bool = False

    @property
    def extents(self) -> tuple[str, ...]:
        """Return the extents of the dimensions."""
        return tuple([i.extent for i in self.indices])


_NOTHING: frozenset[str] = frozenset()
_TABLE: WeakValueDictionary[tuple[Any, ...], Term] = WeakValueDictionary()
_ADDING = threading.Lock()


def intern(op: str, args: tuple[Term, ...], attr: Any, kind: Kind) -> Term:
    """Return the one term with these parts, for constructors: they bring it to canonical form."""
    identity = (op, attr, kind, *map(id, args))
    known = _TABLE.get(identity)
    if known is not None:
        return known
    term = object.__new__(Term)
    term.op, term.args, term.attr, term.kind = op, args, attr, kind
    term.free = _union([a.free for a in args])
    term.folded = _union([a.folded for a in args])
    term.names = _union([a.names for a in args])
    term.height = max([a.height for a in args], default=0)
    term.weight = 1 + sum([a.weight for a in args])
    term.depth = max([a.depth for a in args], default=0)
    name = ""
    if op == "index":
        term.free = frozenset((attr[0],))
        name = attr[0]
    elif op == "read":
        name = attr.name
    elif op == "symbol":
        name = attr[0]
    elif op in ("ref", "param"):
        name = attr
        if op == "ref":
            term.names |= {attr}
    elif op == "stored":
        name = attr.name
        if not attr.given:  # no kernel folds for an input
            term.folded |= attr.body.folded
    elif op in ("fold", "fold_at"):
        bound = frozenset(attr.indices)
        at = args[0].free if op == "fold_at" else frozenset()
        term.free = (term.free - bound) | at
        term.folded |= frozenset(attr.extents)
        term.height += len(attr.indices)
        term.depth += 1
    identity_text = repr((op, _attr_key(attr), kind, [a.key[2] for a in args]))
    digest = hashlib.blake2b(identity_text.encode(), digest_size=12).hexdigest()
    term.key = (_RANK.get(op, 5), name, digest)
    with _ADDING:  # another thread may have made it meanwhile
        return _TABLE.setdefault(identity, term)


def _union(sets: list[frozenset[str]]) -> frozenset[str]:
    """Return the union of sets. One of them usually holds the others: that object is shared."""
    union = _NOTHING
    for names in sets:
        if not names <= union:
            union = names if union <= names else union | names
    return union


def _attr_key(attr: Any) -> Any:
    """Return the part of a payload that takes part in the structural order."""
    if isinstance(attr, Binder):
        monoid: Any = attr.monoid
        if isinstance(monoid, UserMonoid):
            monoid = (monoid.name, *(t.key[2] for t in (*monoid.unit, *monoid.combine)))
        return (monoid, attr.indices, attr.extents, attr.target)
    if isinstance(attr, Equation):
        return (attr.name, attr.body.key)
    if isinstance(attr, Tensor):
        return attr.name
    return attr


def inert(op: str, *args: Term, attr: Any = None) -> Term:
    """Return a float operation as it stands, not in canonical form: for printing, and for stating
    the laws that the constructors apply. It has the value of the canonical term."""
    return intern(op, args, attr, "float")
