"""Names, and facts about definitions, that the equations of one function share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from monocomp import terms as T
from monocomp.errors import InternalError
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations


class Scope:
    """The names of a function and what is known before its equations are written.

    Attributes:
        reached: the equations that the outputs need.
        sizes: the names of extents, in the order in which they can be computed.
        helpers: the names of the functions of `helpers` that are used.
        monoids: for each user monoid the names of its combine function and unit.
        monoid_lines: the definitions of those.
        guards: is there a condition that may leave a read outside its tensor undone?
        contracts: are sums of products `torch.einsum`, which does not store the product?
    """

    def __init__(
        self, equations: Equations, identifiers: Mapping[str, str], *, contracts: bool = False
    ) -> None:
        self.contracts = contracts
        self.equations = equations
        self.program = equations.declared
        self.identifiers = identifiers
        self.taken = set(identifiers.values())
        if clash := self.taken & {"reference", "given", "dtype"}:
            raise InternalError(f"an identifier is reserved: {', '.join(sorted(clash))}")
        self.uses_device = False
        self.counts: dict[str, int] = {}
        self.made: dict[str, str] = {}  # indices that the program does not name
        self.sizes: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self.monoids: dict[str, tuple[str, str]] = {}
        self.monoid_lines: list[str] = []
        reached = reachable(equations)
        self.reached = [e for e in equations.equations if e.name in reached]
        self.facts = Facts(self.reached)
        # Positions are clamped where a guard may leave a read outside its tensor undone.
        self.outputs = {o.name for o in self.program.outputs}
        self.guards = any(
            t.op in ("compare", "not", "where")
            or (t.op in ("read", "ref", "stored") and t.kind == "bool")
            for t in T.subterms(*(e.body for e in self.reached))
        )

    def fresh(self, wanted: str) -> str:
        """Return a name that nothing else in the function has."""
        name, number = wanted, 1
        while name in self.taken:
            number += 1
            name = f"{wanted}_{number}"
        self.taken.add(name)
        return name

    def numbered(self, wanted: str) -> str:
        """Return a name with the next number."""
        self.counts[wanted] = self.counts.get(wanted, 0) + 1
        name = f"{wanted}_{self.counts[wanted]}"
        if name in self.taken:
            return self.numbered(wanted)
        self.taken.add(name)
        return name

    @property
    def device(self) -> str:
        """Return the name of the inputs' device."""
        if not self.uses_device:
            self.uses_device = True
            self._device = self.fresh("device")
        return self._device

    def index_names(self, extent: str) -> Iterator[str]:
        """Yield names for an index of an extent: the program's own, then made-up ones."""
        for name, root in self.program.extent_of.items():
            if root == extent and name in self.identifiers and not name.startswith("."):
                yield name
        number = 0
        while True:
            number += 1
            name = f"@{extent}{number}"
            if name not in self.made:
                self.made[name] = self.numbered(self.identifiers.get(extent, "index"))
            yield name

    def index(self, name: str) -> str:
        """Return the identifier of an index."""
        return self.made.get(name) or self.identifiers[name]

    def helper(self, name: str) -> str:
        """Return the name of a function of `helpers`, which will be printed."""
        if name not in self.helpers:
            self.helpers[name] = self.fresh(name)
        return self.helpers[name]

    def size(self, extent: str) -> str:
        """Return the name of an extent."""
        if extent not in self.sizes:
            if extent in self.program.bounds:
                for t in T.subterms(self.program.bounds[extent]):
                    if t.op == "extent":
                        self.size(t.attr)
            known = self.identifiers.get(extent, extent.lstrip("."))
            self.sizes[extent] = self.fresh(f"size_{known}")
        return self.sizes[extent]


@dataclass
class Facts:
    """Facts that decide between operators and helpers: where the rules for empty sets apply."""

    equations: Iterable[Equation]
    aggregates: set[str] = field(default_factory=set)
    unbounded: set[str] = field(default_factory=set)
    fields: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for e in self.equations:
            if self.is_aggregate(e.body):
                self.aggregates.add(e.name)
            if self.is_unbounded(e.body):
                self.unbounded.add(e.name)

    def is_aggregate(self, t: Term) -> bool:
        """True if the value comes from a fold."""
        return any(
            s.op in ("fold", "fold_at")
            or (s.op == "ref" and s.attr in self.aggregates)
            or (s.op == "stored" and self.is_aggregate(s.attr.body))
            or (s.op == "param" and s.attr in self.fields)
            for s in T.subterms(t)
        )

    def is_unbounded(self, t: Term) -> bool:
        """True if the value may be infinite although the inputs are not."""
        match t.op:
            case "const":
                return isinstance(t.attr, float)
            case "param":
                return self.fields.get(t.attr, False)
            case "ref":
                return t.attr in self.unbounded
            case "stored":
                return self.is_unbounded(t.attr.body)
            case "log":
                return t.args[0].op != "const"
            case "pow":
                return (t.attr < 0 and self.is_aggregate(t)) or self.is_unbounded(t.args[0])
            case "mul":  # where a divisor is 0 the dividend is too, as a rule
                return any(self.is_unbounded(f) for f in t.args if f.op != "pow" or f.attr > 0)
            case "add" | "where" | "maximum" | "minimum" | "abs" | "stop" | "relu":
                return any(map(self.is_unbounded, t.args))
            case "fold" | "fold_at":
                kinds = ("max", "min", "logsumexp", "log_softmax", "top")
                return t.attr.monoid in kinds or any(map(self.is_unbounded, T.children(t)))
            case "field":
                return any(self.is_unbounded(u) for u in t.args[0].attr.monoid.unit)
        return False


def reachable(equations: Equations) -> set[str]:
    """Return the definitions that the outputs need."""
    reached: set[str] = set()
    waiting = [o.name for o in equations.declared.outputs]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            body = equations.by_name[name].body
            waiting += [t.attr for t in T.subterms(body) if t.op == "ref"]
    return reached
