"""`cross`: a product that sums over rows, which warpgroups share, is one of all of them.

Each warpgroup has its own rows of the left operand, and computes its own part of the result:

    left = f(...)                        left = put f(...)
    x = dot(trans(left), right)          ...
    store X += x                         meet at left
    y = dot(..., y)                      x = crossed(left, right)
                                         y = dot(..., y)
                                         send X += x

So they put their rows where all can read them, and go on with other products until all have done
so. What comes of it is added to memory by the copy engine, while the last product runs: that counts
each part once for all rows of the instance. FlashAttention-3 does so by hand (arXiv:2407.08608).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from monocomp import blocks as B
from monocomp.blocks.operations import name
from monocomp.blocks.passes.advance import is_product
from monocomp.errors import UnsupportedError


def cross(program: B.BlockProgram) -> B.BlockProgram:
    """Let products that sum over rows be those of all warpgroups.

    Raises:
        UnsupportedError: what is added to memory is no such product alone.
    """
    rows = {a.name for a in program.axes.values() if a.role == "row"}
    crosser = _Crosser(program, rows)
    body = crosser.body(program.body)
    if crosser.added:
        body = (*body, B.Drain())
    descriptors = (n for n, a in enumerate(program.arguments) if a.purpose == "descriptor")
    at = 1 + max(descriptors, default=-1)
    arguments = (*program.arguments[:at], *crosser.added, *program.arguments[at:])
    return replace(program, body=body, arguments=arguments)


def crossing(body: B.Body) -> Iterator[B.Expr]:
    """Yield the products of all warpgroups."""
    for s in B.walk(body):
        for e in B.roots(s):
            yield from (x for x in B.subexpressions(e) if x.op == "crossed")


class _Crosser:
    def __init__(self, program: B.BlockProgram, rows: set[str]) -> None:
        self.program, self.rows = program, rows
        self.added: list[B.Argument] = []
        self.taken = program.taken

    def body(self, body: B.Body) -> B.Body:
        """Return statements with the products of each loop crossed."""
        products = [s for s in body if isinstance(s, B.Assign) and self._sums_rows(s)]
        for product in products:
            body = self._crossed(body, product)
        return tuple(B.inside(s, self.body) for s in body)

    def _sums_rows(self, s: B.Assign) -> bool:
        return s.value.op == "dot" and s.value.args[0].layout[1] in self.rows

    def _crossed(self, body: B.Body, product: B.Assign) -> B.Body:
        """Return the statements with a product before the last one, and what adds it after that."""
        (target,), (left, right, *more) = product.targets, product.value.args
        uses = [s for s in body if target.attr in B.names_of((s,))]
        match uses:
            case [B.Store(first=(*_, _)) as store] if not more and _is(store.value, target):
                pass
            case _:
                raise UnsupportedError("a product that sums over rows is not only added to memory")
        put = self._put(product, left, store.output)
        block = B.Block(store.output, (*[None] * (len(store.first) - 2), *target.layout))
        send = B.Send(store.output, self._access(store, block), target, store.origin)
        crossed = B.Expr("crossed", (put.target, right), None, target.layout, target.dtype)
        rest = [put if s is product else s for s in body if s is not store]
        rest = _with_masked_rows(rest, put)
        last = max((n for n, s in enumerate(rest) if is_product(s)), default=len(rest) - 1)
        meet = B.Meet(put.target, product.origin)
        late = meet, replace(product, value=crossed), rest[last], send
        return (*rest[:last], *late, *rest[last + 1 :])

    def _put(self, product: B.Assign, left: B.Expr, output: str) -> B.Put:
        """Return what puts own rows of the left operand, which is transposed and maybe converted,
        where all can read them."""
        value = left.args[0] if left.op == "to" else left
        if value.op != "trans":
            raise UnsupportedError("rows that are summed over are those of no tile")
        (tile,) = value.args
        if left.op == "to":
            tile = B.Expr("to", (tile,), None, tile.layout, left.dtype)
        called = name(B.fresh(f"{output}_left", self.taken), tile.dtype, tile.layout)
        return B.Put(called, tile, product.origin)

    def _access(self, store: B.Store, block: B.Block) -> B.Descriptor:
        wanted = B.fresh(f"{store.output}_desc", self.taken)
        descriptor = name(wanted, B.Dtype(store.output, "descriptor"))
        self.added.append(B.Argument("adding", store.output, 0, descriptor, False))
        return B.Descriptor(descriptor, block, store.first)


def _with_masked_rows(body: list[B.Statement], put: B.Put) -> list[B.Statement]:
    """Return statements that take the masked rows that are put, not both these and others: rows
    that are not there have no results."""
    (x,) = (e for e in B.subexpressions(put.value) if e.op == "name")
    for n, s in enumerate(body):
        match s:
            case B.Assign(targets=(target,), value=B.Expr(op="where", args=(_, old, _))) if (
                target.attr == x.attr and old.op == "name"
            ):
                masked = partial(B.renamed, names={old.attr: target})
                return [*body[: n + 1], *(B.with_roots(s, masked) for s in body[n + 1 :])]
    return body


def _is(e: B.Expr, target: B.Expr) -> bool:
    """True if an expression is a name, maybe converted."""
    return _is(e.args[0], target) if e.op == "to" else e.attr == target.attr
