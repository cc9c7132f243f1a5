"""`specialise`: a warp of its own asks for the blocks that descriptors load, and the others use
them: what they wait for is a block, never an address.

Both run the same loops. Of what is computed the producer keeps what says where blocks are, and
the others leave out what only their pointers needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from monocomp.blocks.program import (
    Assign,
    BlockProgram,
    Comment,
    Descriptor,
    For,
    Give,
    If,
    Load,
    Release,
    Ring,
    Statement,
    Take,
    While,
    roots,
    subexpressions,
    targets,
    walk,
)
from monocomp.errors import UnsupportedError

DEPTH = "STAGES"  # the option that tells how many blocks a loop's rings hold


def specialise(program: BlockProgram) -> BlockProgram:
    """Give the loads of descriptors to a producer.

    Raises:
        UnsupportedError: a product's operand is loaded by pointers, or where a block is depends
            on a tile.
    """
    taken = {t.attr for s in walk(program.body) for t in targets(s)}
    taken |= {a.name.attr for a in program.arguments}
    rings: dict[str, Ring] = {}
    for load, in_loop in _described(program.body, False):
        name = f"{load.tensor}_ring"
        while any(n.startswith(name) for n in taken):
            name += "_2"
        taken.add(name)
        access, depth = load.access, DEPTH if in_loop else None
        assert isinstance(access, Descriptor)
        rings[load.target.attr] = Ring(name, access.descriptor, access.block, depth)
    consumer, producer = _needed(_consumer(program.body, rings)), _producer(program.body, rings)
    producer = _needed(producer)
    for s in walk(producer):
        if any(t.layout for t in targets(s)):
            raise UnsupportedError("where a block of a tensor is depends on a tile")
    return replace(program, body=consumer, producer=producer, rings=tuple(rings.values()))


def _load_of(s: Statement) -> Load | None:
    """The load by a descriptor, of a statement that chooses between that and pointers."""
    match s:
        case If(body=(Load(access=Descriptor()) as load,)):
            return load
    return None


def _described(body: tuple[Statement, ...], in_loop: bool) -> Iterable[tuple[Load, bool]]:
    for s in body:
        load = _load_of(s)
        if load is not None:
            yield load, in_loop
        else:
            yield from _described(_bodies(s), in_loop or isinstance(s, For | While))


def _consumer(body: tuple[Statement, ...], rings: dict[str, Ring]) -> tuple[Statement, ...]:
    found: list[Statement] = []
    used: list[Ring] = []
    for s in body:
        load = _load_of(s)
        if load is not None:
            ring = rings[load.target.attr]
            used.append(ring)
            found.append(Take(load.target, ring))
        else:
            found.append(_inside(s, lambda body: _consumer(body, rings)))
    return (*found, *(Release(ring) for ring in used if ring.depth))


def _producer(body: tuple[Statement, ...], rings: dict[str, Ring]) -> tuple[Statement, ...]:
    found: list[Statement] = []
    for s in body:
        load = _load_of(s)
        if load is not None:
            assert isinstance(load.access, Descriptor)
            found.append(Give(rings[load.target.attr], load.access))
        elif isinstance(s, Assign | Load | For | While | If):
            found.append(_inside(s, lambda body: _producer(body, rings)))
    return tuple(found)


def _inside(
    s: Statement, change: Callable[[tuple[Statement, ...]], tuple[Statement, ...]]
) -> Statement:
    """A statement with what it holds changed."""
    match s:
        case For() | While():
            return replace(s, body=change(s.body))
        case If():
            return replace(s, body=change(s.body), orelse=change(s.orelse))
    return s


def _needed(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements with an effect, and those that they need."""
    needed: set[str] = set()
    while True:
        found = _with(body, needed)
        values = (e for s in walk(found) for e in roots(s))
        now = {x.attr for e in values for x in subexpressions(e) if x.op == "name"}
        if now <= needed:
            return found
        needed |= now


def _with(body: tuple[Statement, ...], needed: set[str]) -> tuple[Statement, ...]:
    """The statements with an effect, and those that give names that are needed."""
    found: list[Statement] = []
    for s in body:
        match s:
            case Comment():
                continue
            case Assign() | Load():
                is_kept = any(t.attr in needed for t in targets(s))
            case For() | While() | If():
                s = _inside(s, lambda body: _with(body, needed))
                is_kept = bool(_bodies(s))
            case _:
                is_kept = True
        found += [s] if is_kept else []
    return tuple(found)


def _bodies(s: Statement) -> tuple[Statement, ...]:
    match s:
        case For() | While():
            return s.body
        case If():
            return (*s.body, *s.orelse)
    return ()
