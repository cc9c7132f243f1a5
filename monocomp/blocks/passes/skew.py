"""`skew`: the last products of a block stand beside the first ones of the next block.

A body A, B becomes

    A of the first block;  A, B of the block before, for all others;  B of the last block

where B are the products that only add to sums which the loop carries, and stand in A before what
its first products are for. So tensor cores have both at once, and arithmetic waits for them once a
block: modulo scheduling with two stages (Lam, *Software Pipelining*, PLDI 1988), as
FlashAttention-3 does by hand (arXiv:2407.08608, section 3.2).

Of loops whose last products cannot follow behind, as the first ones take the same blocks, those
that wait for none are issued together at least (`advance`).

Whether a block is the first one is known in each of these copies. A block that only such a loop
uses is loaded behind the loop's first one, which may be asked for earlier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from monocomp import blocks as B
from monocomp.blocks.operations import are_same, infix, is_number, name, number
from monocomp.blocks.passes.advance import advance, is_product
from monocomp.blocks.passes.pipeline import load_of
from monocomp.blocks.passes.unread import read


def skew(program: B.BlockProgram) -> B.BlockProgram:
    """Let the last products of loops stand beside the first ones of the next block."""
    return replace(program, body=_Skewer(program).body(program.body))


@dataclass(frozen=True)
class _Late:
    """The products that move to the next block, and the loads of what they alone take."""

    products: tuple[B.Assign, ...]
    loads: Mapping[B.Statement, B.Load]


class _Skewer:
    def __init__(self, program: B.BlockProgram) -> None:
        self.program = program
        self.taken = program.taken
        self.pointers = {a.of: a.name for a in program.arguments if a.purpose == "pointer"}

    def body(self, body: B.Body) -> B.Body:
        """Return statements with their loops skewed."""
        statements: list[B.Statement] = []
        for s in body:
            match s:
                case B.For(range=B.Blocks() as blocks) if (late := _late(s.body)) is not None:
                    statements.append(self._loop(s, blocks, late))
                case B.For() if sum(map(is_product, s.body)) > 1:
                    statements.append(replace(s, body=advance(s.body)))
                case _:
                    statements.append(B.inside(s, self.body))
        return _sunk(statements)

    def _loop(self, loop: B.For, blocks: B.Blocks, late: _Late) -> B.Statement:
        """Return a loop whose late products follow one block behind."""
        early: list[B.Statement] = []
        moved: list[B.Assign | B.Load] = []
        for s in loop.body:
            if s in late.loads:
                moved.append(late.loads[s])
            elif isinstance(s, B.Assign) and s in late.products:
                before, product = self._apart(s, late)
                early += before
                moved.append(product)
            else:
                early.append(s)
        behind = self._behind(loop, early, moved)
        copies = [B.Assign((new,), old, loop.origin) for old, new in behind.values()]
        names = {n: new for n, (_, new) in behind.items()}
        is_first = loop.variable, blocks.start
        begun, again = (_told(early, is_first, x) for x in (True, False))
        at = _first_use(early)
        length = self.program.lengths[blocks.axis]
        others = replace(blocks, start=infix("+", blocks.start, length))
        later = [B.with_roots(s, lambda e: B.renamed(e, names)) for s in moved]
        followed = later if blocks.is_backwards else [_followed(s, blocks.stop) for s in later]
        steady = (*again[:at], *followed, *again[at:], *copies)
        first = B.Assign((loop.variable,), blocks.start, loop.origin)
        rest = replace(loop, range=others, body=steady)
        is_any = infix("<", blocks.start, blocks.stop)
        return B.If(is_any, (first, *begun, *copies, rest, *later), (), loop.origin)

    def _apart(self, s: B.Assign, late: _Late) -> tuple[list[B.Statement], B.Assign]:
        """Return what the product takes under names, and the product of these names."""
        (target,), (left, right, total) = s.targets, s.value.args
        statements: list[B.Statement] = []
        if left.op != "name":
            tensors = {x.target.attr: self.pointers[x.tensor] for x in late.loads.values()}
            left = _with_dtypes(left, tensors)
            operand = name(B.fresh(f"{target.attr}_left", self.taken), left.dtype, left.layout)
            statements.append(B.Assign((operand,), left, s.origin))
            left = operand
        if total.op != "name":
            statements.append(B.Assign((target,), total, s.origin))
        return statements, replace(s, value=replace(s.value, args=(left, right, target)))

    def _behind(
        self, loop: B.For, early: Sequence[B.Statement], moved: Sequence[B.Statement]
    ) -> dict[str, tuple[B.Expr, B.Expr]]:
        """Name the values of the block before that loads read: where blocks are."""
        changed = {t.attr: t for s in early for t in B.targets(s)}
        changed[loop.variable.attr] = loop.variable
        read = {n for s in moved if isinstance(s, B.Load) for n in B.names_of((s,))}
        return {
            n: (changed[n], replace(changed[n], attr=B.fresh(f"{n}_behind", self.taken)))
            for n in sorted(read & changed.keys())
        }


def _late(body: B.Body) -> _Late | None:
    """Find the products that only add to what the loop carries, of others of the same block."""
    products = [s for s in body if isinstance(s, B.Assign) and is_product(s)]
    last = tuple(s for s in products if _only_adds(s, body))
    if not last or len(last) == len(products):
        return None
    made = _made({t.attr for s in products if s not in last for t in s.targets}, body)
    if any(made.isdisjoint(s.value.args[0].read_names) for s in last):
        return None
    tiles = {s.value.args[1].attr for s in last}
    loads = {s: load for s in body if (load := load_of(s)) and load.target.attr in tiles}
    read = B.names_of(tuple(s for s in body if s not in loads and s not in last))
    if any(load.target.attr in read for load in loads.values()):
        return None
    return _Late(last, loads)


def _only_adds(s: B.Assign, body: B.Body) -> bool:
    """True if a product is added to its result of the block before, which nothing else reads."""
    ((target, *_), (*_, total)) = s.targets, s.value.args
    if len(s.value.args) < 3 or target.attr not in total.read_names:
        return False
    others = tuple(x for x in body if x is not s)
    written = {t.attr for x in B.walk(others) for t in B.targets(x)}
    return target.attr not in B.names_of(others) | written


def _made(names: set[str], body: B.Body) -> set[str]:
    """Return the names of what is computed from these."""
    made = set(names)
    for s in B.walk(body):
        if any(not made.isdisjoint(e.read_names) for e in B.roots(s)):
            made |= {t.attr for t in B.targets(s)}
    return made


def _first_use(early: Sequence[B.Statement]) -> int:
    """Return the number of the first statement that reads an early product."""
    products: set[str] = set()
    for n, s in enumerate(early):
        if not products.isdisjoint(B.names_of((s,))):
            return n
        if isinstance(s, B.Assign) and s.value.op == "dot":
            products |= {t.attr for t in s.targets}
    return len(early)


def _told(body: Sequence[B.Statement], test: tuple[B.Expr, B.Expr], holds: bool) -> B.Body:
    """Return statements that know whether two numbers are equal."""

    def told(e: B.Expr) -> B.Expr:
        if (e.op, e.attr) == ("compare", "==") and all(map(are_same, e.args, test)):
            return number(holds, "bool")
        args = tuple(map(told, e.args))
        return (
            e if all(a is b for a, b in zip(args, e.args, strict=True)) else replace(e, args=args)
        )

    return tuple(
        B.inside(B.with_roots(s, told), lambda inner: _told(inner, test, holds)) for s in body
    )


def _sunk(body: Sequence[B.Statement]) -> B.Body:
    """Return statements with each load moved to where its block is used first, if a condition holds
    all uses: what is loaded there before it comes first."""
    kept: list[B.Statement] = []
    sunk: dict[int, list[tuple[B.Statement, str]]] = {}  # by the number of the condition
    for n, s in enumerate(body):
        load = load_of(s)
        readers = [
            m for m in range(n + 1, len(body)) if load and load.target.attr in read((body[m],))
        ]
        if load and len(readers) == 1 and isinstance(body[readers[0]], B.If):
            sunk.setdefault(readers[0], []).append((s, load.target.attr))
            continue
        if isinstance(s, B.If):
            inner = list(s.body)
            for moved, target in sunk.get(n, ()):
                at = next((m for m, x in enumerate(inner) if target in read((x,))), len(inner))
                inner.insert(at, moved)
            s = replace(s, body=tuple(inner))
        kept.append(s)
    return tuple(kept)


def _followed(s: B.Statement, stop: B.Expr) -> B.Statement:
    """Return a load of a block that another one follows: all of it is below where these stop."""
    match s:
        case B.Load(access=B.Descriptor(within=B.Within() as within) as access) if is_number(
            within.low, 0
        ) and any(are_same(within.high, x) for x in _bounds(stop)):
            return replace(s, access=replace(access, within=None))
    return s


def _bounds(e: B.Expr) -> tuple[B.Expr, ...]:
    """Return numbers that are not below a value."""
    return e.args if e.op == "minimum" else (e,)


def _with_dtypes(e: B.Expr, tensors: Mapping[str, B.Expr]) -> B.Expr:
    """Return a value in the dtypes of tensors, where it asks for those of blocks not yet loaded."""
    dtype = e.dtype
    if dtype.of == "value" and dtype.name in tensors:
        dtype = B.Dtype(str(tensors[dtype.name].attr), dtype.kind, "tensor")
    return replace(e, args=tuple(_with_dtypes(a, tensors) for a in e.args), dtype=dtype)
