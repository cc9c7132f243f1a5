"""Costs: what is counted of equations, of kernels that are not built yet, and of tile programs.

    passes      loop nests over each index
    reads       loop nests that read each input
    operations  by the unit that does them: products of tiles (a multiplication and an addition
                are two), element-wise ones, special functions, those on positions and conditions
    bytes       to and from device memory
    state       numbers that loops carry, for each row of the output
    launches    kernels

Amounts are numbers where the extents are known, else polynomials in them. `Cost.time` is one number
to compare programs by: all operations as so many element-wise ones of a Hopper GPU. It is not a
schedule's time (`backends/schedules/table.py`), which knows what was measured.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from monocomp.declarations.record import record
from monocomp.display import formulas
from monocomp.errors import UsageError
from monocomp.extents.nominal import power_of_two
from monocomp.machine.gpus import HOPPER
from monocomp.tile.operations import OPERATIONS

if TYPE_CHECKING:
    import sympy

ELEMENT_BYTES, STORED_BYTES = 2, 4  # of what a call gives, and of what kernels store
MATRIX_RATE = HOPPER.matrix // HOPPER.elementwise
SPECIAL_TIME = HOPPER.elementwise // HOPPER.special
BYTE_TIME = round(HOPPER.elementwise_per_second / HOPPER.bandwidth)
# Rounded to the power of two with which the plans were measured.
LAUNCH_TIME = power_of_two(round(HOPPER.elementwise_per_second * HOPPER.launch))


@record()
class Formula:
    """A polynomial in extents, with whole coefficients.

    Attributes:
        terms: a coefficient for each monomial, which is the sorted names of its extents.
    """

    terms: tuple[tuple[tuple[str, ...], int], ...] = ()

    @classmethod
    def product(cls, extents: Iterable[str], number: int = 1) -> Formula:
        """number * |i| * |j| * ..."""
        return cls(((tuple(sorted(extents)), number),)) if number else cls()

    def __add__(self, other: Amount) -> Formula:
        terms = dict(self.terms)
        for monomial, number in formula(other).terms:
            terms[monomial] = terms.get(monomial, 0) + number
        return Formula(tuple(sorted((m, n) for m, n in terms.items() if n)))

    def __mul__(self, other: Amount) -> Formula:
        total = Formula()
        for m, n in self.terms:
            for m2, n2 in formula(other).terms:
                total += Formula.product((*m, *m2), n * n2)
        return total

    __radd__, __rmul__ = __add__, __mul__

    def at(self, sizes: Mapping[str, int]) -> int:
        """Return the value for given extents.

        Raises:
            UsageError: one is missing.
        """
        if missing := sorted(self.extents - sizes.keys()):
            names = ", ".join(e.lstrip(".") for e in missing)
            raise UsageError(f"the extent of {names} is missing")
        return sum(number * prod(sizes[e] for e in monomial) for monomial, number in self.terms)

    @property
    def extents(self) -> frozenset[str]:
        """Return the extents in it."""
        return frozenset(e for monomial, _ in self.terms for e in monomial)

    @property
    def shown(self) -> formulas.Formula:
        """Return the polynomial as a formula for readers."""
        parts = []
        for monomial, number in sorted(self.terms, key=lambda t: (-len(t[0]), t[0])):
            factors = [formulas.name(e.lstrip(".")) for e in monomial]
            if number != 1 or not factors:
                factors.insert(0, formulas.number(str(number)))
            parts.append(reduce(partial(formulas.infix, "*"), factors))
        return reduce(partial(formulas.infix, "+"), parts) if parts else formulas.number("0")

    def __str__(self) -> str:
        return str(self.shown).replace(" * ", "*")

    def sympy(self) -> sympy.Expr:
        """Return the formula for sympy, extents as positive integers."""
        import sympy

        def symbol(extent: str) -> Any:
            return sympy.Symbol(extent.lstrip("."), positive=True, integer=True)

        parts = [sympy.Mul(n, *map(symbol, monomial)) for monomial, n in self.terms]
        return sympy.Add(*parts)


Amount: TypeAlias = int | Formula
Extents: TypeAlias = Callable[[str], Amount]  # the amount that an extent is


def formula(amount: Amount) -> Formula:
    """Return an amount as a formula."""
    return Formula.product((), amount) if isinstance(amount, int) else amount


def amounts(sizes: Mapping[str, int]) -> Extents:
    """Return the extents in numbers where they are known, else as symbols."""
    return lambda extent: sizes[extent] if extent in sizes else Formula.product([extent])


def product(factors: Iterable[Amount]) -> Amount:
    """Return the product of amounts."""
    total: Amount = 1
    for f in factors:
        total = total * f
    return total


@record()
class Operations:
    """Numbers of operations that each unit does; `logic` are those that compute no floats."""

    matrix: Amount = 0
    elementwise: Amount = 0
    special: Amount = 0
    logic: Amount = 0

    def __add__(self, other: Operations) -> Operations:
        return Operations(*map(operator.add, vars(self).values(), vars(other).values()))

    def __mul__(self, times: Amount) -> Operations:
        return Operations(*(amount * times for amount in vars(self).values()))

    @property
    def flops(self) -> Amount:
        """Return the number of operations on floats."""
        return self.matrix + self.elementwise + self.special


NO_OPERATION = Operations()
ELEMENTWISE, SPECIAL_FUNCTION = Operations(elementwise=1), Operations(special=1)
LOGIC = Operations(logic=1)
_BY_UNIT = {"matrix": Operations(matrix=1), "special": SPECIAL_FUNCTION}
_BY_NAME = {o.name: _BY_UNIT.get(o.unit or "", ELEMENTWISE) for o in OPERATIONS.values()}
_BY_NAME |= dict.fromkeys(("exp", "pow"), SPECIAL_FUNCTION)


def one_operation(op: str, kind: str) -> Operations:
    """Return the operations on one element, for an operator of this name and kind of result."""
    return _BY_NAME.get(op, ELEMENTWISE) if kind == "float" else LOGIC


@record()
class Cost:
    """The cost of a program, or of a part of one; see the module."""

    passes: Mapping[str, int]
    reads: Mapping[str, int]
    operations: Operations
    bytes: Amount
    state: Amount
    launches: int = 1

    def __add__(self, other: Cost) -> Cost:
        def joined(x: Mapping[str, int], y: Mapping[str, int]) -> dict[str, int]:
            return {n: x.get(n, 0) + y.get(n, 0) for n in {**x, **y}}

        return Cost(
            joined(self.passes, other.passes),
            joined(self.reads, other.reads),
            self.operations + other.operations,
            self.bytes + other.bytes,
            self.state + other.state,
            self.launches + other.launches,
        )

    @property
    def flops(self) -> Amount:
        """Return operations on floats, whichever unit does them."""
        return self.operations.flops

    @property
    def time(self) -> float:
        """Return all in element-wise operations, for amounts that are numbers."""
        return self.work + self.launches * LAUNCH_TIME

    @property
    def work(self) -> float:
        """Return the time without that of launches."""
        of = self.operations
        time = of.elementwise + of.logic + of.special * SPECIAL_TIME + self.bytes * BYTE_TIME
        assert isinstance(time, int) and isinstance(of.matrix, int)
        return time + of.matrix / MATRIX_RATE

    def to_json(self) -> dict[str, Any]:
        """Return the cost as data, with formulas as text."""
        texts = {n: str(getattr(self, n)) for n in ("flops", "bytes", "state")}
        return {"passes": dict(self.passes), "reads": dict(self.reads), **texts}

    @property
    def shown_passes(self) -> str:
        """Return the passes in words: "1 pass over k, 2 over q"."""
        if not self.passes:
            return "no pass"
        counts = [f"{n} over {index}" for index, n in self.passes.items()]
        first = next(iter(self.passes.values()))
        noun = "pass" if first == 1 else "passes"
        return ", ".join(counts).replace(" over", f" {noun} over", 1)

    def __str__(self) -> str:
        return "\n".join(f"{label:8}{text}" for label, text in self.rows())

    def rows(self) -> list[tuple[str, str | Formula]]:
        """Return labels, and words or amounts, for tables."""
        often = [f"{name} {n}x" for name, n in self.reads.items()]
        return [
            ("passes", self.shown_passes),
            ("reads", ", ".join(often) or "nothing"),
            ("bytes", formula(self.bytes)),
            ("flops", formula(self.flops)),
            ("state", formula(self.state)),
        ]


NOTHING = Cost({}, {}, NO_OPERATION, 0, 0, 0)
