"""`specialise`: a warp of its own asks for the blocks that descriptors load, and the others use
them: what they wait for is a block, never an address.

Both run the same loops. Of what is computed the producer keeps what says where blocks are, and
the others leave out what only their pointers needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from monocomp.blocks import program as B
from monocomp.blocks.unread import bodies, inside, needed
from monocomp.errors import UnsupportedError

DEPTH = "STAGES"  # the option that tells how many blocks a loop's rings hold


def specialise(program: B.BlockProgram) -> B.BlockProgram:
    """Give the loads of descriptors to a producer.

    Raises:
        UnsupportedError: a product's operand is loaded by pointers, or where a block is depends
            on a tile.
    """
    taken = {t.attr for s in B.walk(program.body) for t in B.targets(s)}
    taken |= {a.name.attr for a in program.arguments}
    rings: dict[str, B.Ring] = {}
    for load, in_loop in _described(program.body, False):
        name = f"{load.tensor}_ring"
        while any(n.startswith(name) for n in taken):
            name += "_2"
        taken.add(name)
        access, depth = load.access, DEPTH if in_loop else None
        assert isinstance(access, B.Descriptor)
        rings[load.target.attr] = B.Ring(name, access.descriptor, access.block, depth)
    consumer, producer = needed(_consumer(program.body, rings)), _producer(program.body, rings)
    producer = needed(producer)
    for s in B.walk(producer):
        if any(t.layout for t in B.targets(s)):
            raise UnsupportedError("where a block of a tensor is depends on a tile")
    return replace(program, body=consumer, producer=producer, rings=tuple(rings.values()))


def _load_of(s: B.Statement) -> B.Load | None:
    """The load by a descriptor, of a statement that chooses between that and pointers."""
    match s:
        case B.If(body=(B.Load(access=B.Descriptor()) as load,)):
            return load
    return None


def _described(body: B.Body, in_loop: bool) -> Iterable[tuple[B.Load, bool]]:
    for s in body:
        load = _load_of(s)
        if load is not None:
            yield load, in_loop
        else:
            yield from _described(bodies(s), in_loop or isinstance(s, B.For | B.While))


def _consumer(body: B.Body, rings: dict[str, B.Ring]) -> B.Body:
    found: list[B.Statement] = []
    used: list[B.Release] = []
    for s in body:
        load = _load_of(s)
        if load is not None:
            ring = rings[load.target.attr]
            used.append(B.Release(ring, load.origin))
            found.append(B.Take(load.target, ring, load.origin))
        elif not isinstance(s, B.Comment):
            found.append(inside(s, lambda body: _consumer(body, rings)))
    return (*found, *(s for s in used if s.ring.depth))


def _producer(body: B.Body, rings: dict[str, B.Ring]) -> B.Body:
    found: list[B.Statement] = []
    for s in body:
        load = _load_of(s)
        if load is not None:
            assert isinstance(load.access, B.Descriptor)
            found.append(B.Give(rings[load.target.attr], load.access, load.origin))
        elif isinstance(s, B.Assign | B.Load | B.For | B.While | B.If):
            found.append(inside(s, lambda body: _producer(body, rings)))
    return tuple(found)
