"""Hopper's barriers, copies and products as a machine that refuses races and deadlocks.

The parts of a kernel share blocks in shared memory and barriers; copies and products run beside
them. Each event has a vector clock (Mattern 1989; FastTrack, Flanagan and Freund, PLDI 2009), and
comes after another if its clock counts that one. Of two accesses to a block, one of which writes,
one must come after the other. Phases of barriers are counted:

- an arrival knows all phases before the one that it counts for;
- a wait knows the phase that it is for, and the next phase ends after it.

So in every order of events the same arrivals end a phase, and a wait lets the same events pass. By
induction each part then does the same in all orders: one run decides for all of them. It decides
for its own trips of loops and numbers of items; tests run several.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
Clock: TypeAlias = "Counter[Any]"  # how many events are known, by part, products, block, barrier
POISON = -7777  # what blocks hold before a copy has ended


class Fault(Exception):
    """A race, a deadlock, or what Gluon refuses."""


def require(holds: bool, fault: str) -> None:
    if not holds:
        raise Fault(fault)


@dataclass(eq=False)
class Barrier:
    """Arrivals and bytes that end a phase, and the phases that have ended."""

    name: str
    count: int = 0
    lacking: int = 0
    bytes: int = 0
    phases: int = 0
    arrived: Clock = field(default_factory=Counter)
    ended: Clock = field(default_factory=Counter)
    waits: list[tuple[Part, int]] = field(default_factory=list)  # since the last phase

    def arrive(self, clock: Clock, arrivals: int, more: int) -> None:
        """Count arrivals, and bytes that copies will bring, or have brought if below 0."""
        require(self.count > 0, f"{self.name} has no count")
        require(clock[self] == self.phases, f"an arrival at {self.name} may be in another phase")
        self.arrived |= clock
        self.lacking -= arrivals
        self.bytes += more
        require(self.lacking >= 0, f"too many arrive at {self.name}")
        if self.lacking == self.bytes == 0:
            is_after = all(self.arrived[part] >= at for part, at in self.waits)
            require(is_after, f"a wait for {self.name} may miss its phase")
            self.phases, self.lacking, self.waits = self.phases + 1, self.count, []
            self.arrived[self] = self.phases
            self.ended, self.arrived = self.arrived, Counter()


@dataclass(eq=False)
class Part:
    """A part of an instance, its clock, and the phase of a barrier that it waits for."""

    name: str
    instance: int
    steps: Iterator[Any]
    clock: Clock
    wanted: tuple[Barrier, int] | None = None
    products: list[Product] = field(default_factory=list)
    ended: int = 0  # the products that have
    sends: int = 0

    @property
    def may_go_on(self) -> bool:
        return self.wanted is None or self.wanted[0].phases >= self.wanted[1]

    def release(self) -> Clock:
        """Return what others learn of an event. What follows is another event."""
        clock = self.clock.copy()
        self.clock[self] += 1
        return clock


@dataclass(eq=False)
class Product:
    """A product that runs until its part waits for it. Nothing else can be done with it."""

    operands: tuple[Any, ...]
    value: Array | None = None


@dataclass(frozen=True)
class Access:
    """An access to a block by a part or its products, with what a part has written."""

    part: Part
    agent: Any
    at: int
    written: Array | None = None


@dataclass(eq=False)
class Block:
    """A block in shared memory, the copies into it, and the accesses since the last one.

    Parts may write the same to a block, if each reads after its own write: so several clear the
    elements that none of them admits.
    """

    name: str
    data: Array
    copies: int = 0
    accesses: list[Access] = field(default_factory=list)
    unfenced: set[Part] = field(default_factory=set)  # products do not see what these have written
    owing: set[Part] = field(default_factory=set)  # these are to write what others have, too

    def beside(self, clock: Clock) -> list[Access]:
        """Return the accesses in no order with one that has this clock."""
        return [x for x in self.accesses if clock[x.agent] < x.at]

    def writers(self) -> set[Part]:
        """Return the parts that have written all that is in the block."""
        writes = ((x.part, x.written) for x in self.accesses if x.written is not None)
        return {p for p, x in writes if np.array_equal(x, self.data, equal_nan=True)}


class Machine:
    """Instances of a kernel, of which one part at a time goes on.

    Args:
        seed: of the order; None: parts take turns, and copies end as late as they can.
        instances: how many there are.
    """

    def __init__(self, seed: int | None, instances: int) -> None:
        self.random = None if seed is None else random.Random(seed)
        self.instances = instances
        self.instance = 0  # which begins
        self.is_fenced = True  # no barrier is new
        self.part = Part("kernel", 0, iter(()), Counter())  # which goes on
        self.parts: list[Part] = []
        self.copies: list[Callable[[], None]] = []  # those that have not ended
        self.blocks: list[Block] = []

    def begin(self, parts: Iterable[tuple[Callable[..., Any], tuple[Any, ...]]]) -> None:
        """Begin the parts of an instance."""
        require(self.is_fenced, "no fence follows what barriers begin with")
        for function, args in parts:
            part = Part(function.__name__, self.instance, function(*args), Counter())
            part.clock[part] = 1
            self.parts.append(part)

    def run(self) -> None:
        """Run all parts to their ends."""
        running = [*self.parts]
        while running or self.copies:
            ready = [p for p in running if p.may_go_on]
            if self.copies and (not ready or self._choice(3) == 1):
                self.copies.pop(self._choice(len(self.copies)))()
                continue
            waits = [f"{p.name} for {p.wanted[0].name}" for p in running if p.wanted]
            require(bool(ready), f"parts wait for each other: {', '.join(waits)}")
            self.part = ready[self._choice(len(ready))]
            running.remove(self.part)
            if self._goes_on():
                running.append(self.part)
        known: Clock = Counter()
        for part in self.parts:
            known |= part.clock
        for x in self.blocks:
            require(known[x] == x.copies, f"nobody waits for a copy into {x.name}")
            require(not x.owing, f"{x.name} is read while it is written to")
        for part in self.parts:
            require(part.ended == len(part.products), f"products of {part.name} never end")
            sent = part.clock[part, "sends"] == part.sends
            require(sent, f"{part.name} ends before what it has sent is read")

    def _choice(self, count: int) -> int:
        return self.random.randrange(count) if self.random else 0

    def _goes_on(self) -> bool:
        """Let a part go on until it waits, arrives or copies. Return False if it has ended."""
        part = self.part
        if part.wanted:
            barrier, phase = part.wanted
            require(barrier.phases == phase, f"{part.name} misses a phase of {barrier.name}")
            part.clock |= barrier.ended
            barrier.waits.append((part, part.release()[part]))
        try:
            part.wanted = next(part.steps)
        except StopIteration:
            return False
        return True

    # --- barriers and copies ------------------------------------------------------------------

    def init(self, barrier: Barrier, count: int) -> None:
        barrier.count = barrier.lacking = count
        self.is_fenced = False

    def wait(self, barrier: Barrier, parity: int) -> tuple[Barrier, int]:
        """Return the phase to wait for: the last one that the part knows of, or the next."""
        known = self.part.clock[barrier]
        return barrier, known + ((known - 1) % 2 != parity)

    def arrive(self, barrier: Barrier, count: int) -> None:
        barrier.arrive(self.part.release(), count, 0)

    def expect(self, barrier: Barrier, size: int) -> None:
        barrier.arrive(self.part.release(), 1, size)

    def copy(self, data: Array, barrier: Barrier, block: Block) -> None:
        """Begin a copy into a block, which ends at any time."""
        clock = self.part.release()
        require(clock[block] == block.copies, f"two copies are made into {block.name}")
        is_free = not block.beside(clock) and not block.owing
        require(is_free, f"{block.name} is overwritten while it is used")
        require(not block.unfenced, f"no fence follows a write to {block.name}")
        block.accesses, block.copies = [], block.copies + 1
        clock[block] = block.copies
        block.data[...] = POISON

        def end() -> None:
            block.data[...] = data
            barrier.arrive(clock, 0, -data.size)

        self.copies.append(end)

    def fence(self) -> None:
        self.is_fenced = True
        for block in self.blocks:
            block.unfenced.discard(self.part)

    def send(self, block: Block) -> Array:
        """Begin to read a block, for which its part waits with all that it has sent."""
        part = self.part
        is_ordered = not self._writes_beside(block) or part in block.writers()
        require(is_ordered, f"{block.name} is sent while it is written to")
        require(part not in block.unfenced, f"no fence follows a write to {block.name}")
        part.sends += 1
        block.accesses.append(Access(part, (part, "sends"), part.sends))
        return block.data.copy()

    def end_sends(self, behind: int) -> None:
        """Wait until what a part has sent is read, but for the last ones."""
        self.part.clock[self.part, "sends"] = self.part.sends - behind

    # --- accesses -----------------------------------------------------------------------------

    def load(self, block: Block) -> None:
        """Record that a part reads a block."""
        part = self.part
        if self._writes_beside(block):
            block.owing.add(part)
        block.accesses.append(Access(part, part, part.clock[part]))

    def store(self, block: Block) -> None:
        """Record that a part has written to a block."""
        part = self.part
        self._require_there(block)
        others = {x.part for x in block.beside(part.clock)}
        require(others <= block.writers() - {part}, f"{block.name} is written to while it is used")
        block.accesses.append(Access(part, part, part.clock[part], block.data.copy()))
        block.unfenced.add(part)
        block.owing.discard(part)

    def issue(self, blocks: Iterable[Block], *operands: Any) -> Product:
        """Begin a product, which reads blocks."""
        part = self.part
        product = Product(operands)
        part.products.append(product)
        for block in blocks:
            is_ordered = not self._writes_beside(block) or part in block.writers()
            require(is_ordered, f"{block.name} is read while it is written to")
            require(part not in block.unfenced, f"no fence follows a write to {block.name}")
            block.accesses.append(Access(part, (part, "products"), len(part.products)))
        return product

    def end_products(self, product: Product, behind: int) -> Array:
        """Wait for a part's products but the last ones. Return the value of one of them."""
        part = self.part
        until = max(len(part.products) - behind, part.ended)
        for x in part.products[part.ended : until]:
            a, b, total = (y.value if isinstance(y, Product) else np.asarray(y) for y in x.operands)
            x.value = a @ b + total
        part.ended = part.clock[part, "products"] = until
        require(product.value is not None, "a product is not waited for long enough")
        assert product.value is not None
        return product.value

    def _writes_beside(self, block: Block) -> bool:
        self._require_there(block)
        return any(x.written is not None for x in block.beside(self.part.clock))

    def _require_there(self, block: Block) -> None:
        is_there = self.part.clock[block] == block.copies
        require(is_there, f"{block.name} is used before its copy has ended")
