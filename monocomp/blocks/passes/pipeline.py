"""`pipeline`: what can run ahead of its use is begun apart from it. A load by a descriptor becomes
a block that is asked for, one that is taken from a ring of stages, and one that is released; a
product is issued where it stood, and waited for where its result is used or its operands change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from monocomp import blocks as B
from monocomp.blocks.names import option
from monocomp.blocks.operations import number
from monocomp.errors import UnsupportedError

STAGES = option("STAGES")


def pipeline(program: B.BlockProgram) -> B.BlockProgram:
    """Let loads and products run ahead.

    Raises:
        UnsupportedError: nothing is loaded by descriptors.
    """
    loads = list(_by_descriptor(program.body, False))
    if not loads:
        raise UnsupportedError("no product here has operands that descriptors can load")
    taken = program.taken
    rings: dict[str, B.Ring] = {}
    repeated = {load.target.attr for load, in_loop in loads if in_loop}
    leaders = dict(_beside(program, program.body))
    for load in {load.target.attr: load for load, _ in loads}.values():
        name = f"{load.tensor}_ring"
        while any(n.startswith(name) for n in taken):
            name += "_2"
        taken.add(name)
        assert isinstance(load.access, B.Descriptor)
        depth = STAGES if load.target.attr in repeated else number(1)
        leader = rings.get(leaders.get(load.target.attr, ""))
        access, beside = load.access, None if leader is None else leader.name
        rings[load.target.attr] = B.Ring(name, access.descriptor, access.block, depth, beside)
    return replace(
        program,
        arguments=(*program.arguments, B.Argument("stages", "", 0, STAGES, True)),
        body=_released(_waited(_begun(program.body, rings))),
        rings=tuple(rings.values()),
    )


def load_of(s: B.Statement) -> B.Load | None:
    """Return the load by a descriptor, also of a statement that chooses it or pointers."""
    match s:
        case B.Load(access=B.Descriptor()) as load:
            return load
        case B.If(body=(B.Load(access=B.Descriptor()) as load,)):
            return load
    return None


def _by_descriptor(body: B.Body, in_loop: bool) -> Iterator[tuple[B.Load, bool]]:
    for s in body:
        load = load_of(s)
        if load is not None:
            yield load, in_loop
            continue
        for inner in B.bodies(s):
            is_loop = isinstance(s, B.For) and isinstance(s.range, B.Blocks)
            yield from _by_descriptor(inner, in_loop or is_loop)


def _beside(program: B.BlockProgram, body: B.Body) -> Iterator[tuple[str, str]]:
    """Yield the tiles that come with others, of loads that stand at one place of the program each,
    between the same loops, and have rows alike."""
    count = Counter(load.target.attr for load, _ in _by_descriptor(program.body, False))
    first: dict[frozenset[str], str] = {}
    for s in body:
        load = load_of(s)
        if load is not None and count[load.target.attr] == 1:
            assert isinstance(load.access, B.Descriptor)
            tile = load.access.block.tile
            rows = frozenset(a for a in tile if program.axes[a].role == "row")
            yield load.target.attr, first.setdefault(rows, load.target.attr)
        elif inner := B.bodies(s):
            for x in inner:
                yield from _beside(program, x)
            first.clear()


def _begun(body: B.Body, rings: dict[str, B.Ring]) -> B.Body:
    """Return blocks asked for where they are taken, and products issued."""
    statements: list[B.Statement] = []
    for s in body:
        load = load_of(s)
        if load is not None:
            assert isinstance(load.access, B.Descriptor)
            ring = rings[load.target.attr]
            statements.append(B.Give(ring, replace(load.access, within=None), load.origin))
            statements.append(B.Take(load.target, ring, load.access.within, load.origin))
            continue
        match s:
            case B.Assign(targets=(target,)) if s.value.op in ("dot", "crossed"):
                statements.append(B.Issue(target, s.value, s.origin))
            case B.For(range=B.Blocks() as blocks):  # what it says of stages has been done
                ahead = replace(blocks, stages=None, fused=None)
                statements.append(replace(s, range=ahead, body=_begun(s.body, rings)))
            case _:
                statements.append(B.inside(s, lambda body: _begun(body, rings)))
    return tuple(statements)


def _waited(body: B.Body) -> B.Body:
    """Return each product waited for before a statement that reads or writes its result, or that
    holds loops or products; and before the end."""
    statements: list[B.Statement] = []
    running: list[B.Issue] = []  # the oldest first

    def wait(met: set[str]) -> None:
        for n, issued in enumerate(running):
            if issued.target.attr in met:
                statements.append(B.Wait(issued.target, len(running) - 1 - n, issued.origin))
        running[:] = [issued for issued in running if issued.target.attr not in met]

    for s in body:
        everything = {issued.target.attr for issued in running}
        met = B.names_of((s,)) | {t.attr for t in B.targets(s)}
        holds = any(isinstance(x, B.For | B.While | B.Issue) for x in B.walk((s,)))
        wait(everything if holds and B.bodies(s) else met)
        statements.append(B.inside(s, _waited))
        if isinstance(s, B.Issue):
            running.append(s)
    wait({issued.target.attr for issued in running})
    return tuple(statements)


def _released(body: B.Body) -> B.Body:
    """Return each block released after its last use: that of a product is its end."""
    takes = [s for s in body if isinstance(s, B.Take)]
    rings = {t.ring.name: t for t in takes if t.ring.beside is None}
    leaders = {t.target.attr: rings[t.ring.beside].target.attr for t in takes if t.ring.beside}
    last: dict[str, int] = {}
    operands: dict[str, set[str]] = {}  # of the products, by result
    for n, s in enumerate(body):
        used = B.names_of((s,)) - {t.target.attr for t in B.walk((s,)) if isinstance(t, B.Take)}
        if isinstance(s, B.Take):
            used.add(s.target.attr)
        if isinstance(s, B.Issue):
            operands[s.target.attr] = used
        if isinstance(s, B.Wait):
            used |= operands[s.target.attr]
        last |= dict.fromkeys((leaders.get(name, name) for name in used), n)
    statements: list[B.Statement] = []
    for n, s in enumerate(body):
        statements.append(B.inside(s, _released))
        ended = (t for t in rings.values() if last.get(t.target.attr) == n)
        statements += [B.Release(t.ring, t.origin) for t in ended]
    return tuple(statements)
