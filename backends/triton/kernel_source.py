"""One tile program as the source of one Triton kernel.

Rows and grid indices become program instances, the stream a loop over blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from monocomp.backends.triton.descriptors import Block
from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS
from monocomp.backends.triton.folds import Folds
from monocomp.backends.triton.schedule import has_order
from monocomp.backends.triton.stores import Stores
from monocomp.tile import (
    Assign,
    Axis,
    Expr,
    Fold,
    Let,
    Loop,
    Mask,
    Statement,
    Store,
    expressions,
    roots,
    walk,
)

_SUMS = ("add", "sub", "neg", "mul")


@dataclass
class KernelSource:
    """The text of a kernel and what its host function must pass.

    Attributes:
        name: the kernel's identifier.
        lines: the source, with decorator.
        helpers: names of the helper functions that it calls.
        functions: the combine functions that it calls, by name.
        arguments: the arguments in order, as (purpose, name, dimension).
        grid: rows and grid axes, the fastest first.
        shared: pairs of tensors that one matrix product takes together.
        held: the dimension of tensors along which a tile holds them entirely.
        blocks: what descriptors load, in the order of the arguments.
        added: the integer parameters of sums and products.
    """

    name: str
    lines: list[str]
    helpers: list[str]
    functions: dict[str, str]
    arguments: list[tuple[str, str, int]]
    grid: list[Axis]
    shared: list[tuple[str, str]] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    added: list[str] = field(default_factory=list)

    @property
    def parameters(self) -> list[str]:
        """The names of its parameters, which stand a line each between the brackets."""
        head = self.lines[2 : self.lines.index("):")]
        return [line.strip().rstrip(",").partition(":")[0] for line in head]


class KernelEmitter(Stores, Folds):
    """Writes one kernel."""

    def emit(self) -> KernelSource:
        """Write the kernel."""
        grid = self._grid_axes()
        self._steps()
        added = self._added_params()
        for name in map(self._param, added):  # sums with large ones take 64 bits
            self._assign(name, f"tl.cast({name}, INDEX)")
        self._program_ids(grid)
        for axis in self.program.axes.values():
            if axis.role == "whole":
                offs, block = self._axis(axis.name), self._block(axis.name)
                start = f"{self._block(axis.after)} + " if axis.after else ""
                self._assign(offs, f"{start}tl.arange(0, {block}).to(INDEX)")
                self._membership(axis, f"{offs} < {self._size(axis.extent)}")
        self._body(self.program.body)
        used = "\n".join(self.lines)
        arguments = self._arguments(grid)
        constants = {("size", extent) for extent in self._constants()}
        head = ["@triton.jit", f"def {self.kernel_name}("]
        for purpose, name, dim in arguments:
            fixed = purpose in ("block", "even", "option") or (purpose, name) in constants
            head.append(
                f"    {self._argument(purpose, name, dim)}{': tl.constexpr' if fixed else ''},"
            )
        head += ["):"]
        names = [n for n in DEVICE_FUNCTIONS if n in self.helpers]
        return KernelSource(
            self.kernel_name,
            head + used.split("\n"),
            names,
            self.functions,
            arguments,
            grid,
            self.shared,
            self.held,
            self.descriptors,
            added,
        )

    def _argument(self, purpose: str, name: str, dim: int) -> str:
        match purpose:
            case "pointer":
                return self._pointer(name)
            case "descriptor":
                return self.descriptor(self.descriptors[dim])
            case "stride":
                return self._stride(name, dim)
            case "size":
                return self._size(name)
            case "block":
                return self._block(name)
            case "even":
                return self._even(name)
            case "param":
                return self._param(name)
        return name

    def _constants(self) -> set[str]:
        """Extents that are constants of the kernel. Of axes that are held entirely they tell
        where tiles end; and of those that the places of a tile are divided by, such as the size
        of a page, a division takes a shift, or a multiplication."""
        return {a.extent for a in self.program.axes.values() if a.role == "whole"} | {
            e.args[1].attr
            for e in expressions(self.program.body)
            if e.op in ("floordiv", "mod") and e.args[1].op == "extent" and self._order(e.axes)
        }

    def _added_params(self) -> list[str]:
        """The integer parameters of sums and products, where large ones could leave 32 bits."""
        sums = [e for e in expressions(self.program.body) if e.op in _SUMS and e.kind == "int"]
        found = {name for e in sums for name in self._params_in(e)}
        return [name for name in self.program.params if name in found]

    def _params_in(self, e: Expr) -> Iterator[str]:
        meaning = self._meaning(e)
        if e.op == "param" and e.kind == "int":
            yield e.attr
        for part in e.args if meaning is e else (meaning,):
            yield from self._params_in(part)

    def _arguments(self, grid: list[Axis]) -> list[tuple[str, str, int]]:
        program = self.program
        found: list[tuple[str, str, int]] = []
        tensors = [(n, len(t.dims)) for n, t in program.inputs.items()]
        tensors += [(o.name, len(o.dims)) for o in program.outputs]
        found += [("pointer", n, 0) for n, _ in tensors]
        found += [("descriptor", b.tensor, n) for n, b in enumerate(self.descriptors)]
        found += [("stride", n, d) for n, rank in tensors for d in range(rank)]
        found += [("size", e, 0) for e in program.extents()]
        found += [("param", n, 0) for n in program.params]
        blocked = [a for a in program.axes.values() if a.role in ("row", "stream", "whole")]
        found += [("block", a.name, 0) for a in blocked]
        found += [("even", a.name, 0) for a in blocked]
        found += [("option", "INDEX", 0)]
        if any(e.op == "contract" for e in expressions(program.body)):
            found += [("option", "PRECISION", 0)]
        if any(e.op == "tanh" for e in expressions(self.program.body)):
            found += [("option", "FAST", 0)]
        if self.held:
            found += [("option", "STEP", 0)]
        if has_order(program):
            found += [("order", "ABREAST", 0)]
        return found

    def _grid_axes(self) -> list[Axis]:
        rows = [a for a in self.program.axes.values() if a.role == "row"]
        return rows[::-1] + [a for a in self.program.axes.values() if a.role == "grid"][::-1]

    def _program_ids(self, grid: list[Axis]) -> None:
        if not grid:
            return
        reversed_rows = self._bounding_rows(upper_only=True)
        counts, sizes = [], []
        for axis in grid:
            size = self._size(axis.extent)
            if axis.role == "grid":
                sizes.append(size)
                continue
            counts.append(self._name("count", axis.name, f"num_{axis.name}"))
            self._assign(counts[-1], f"tl.cdiv({size}, {self._block(axis.name)})")
        pid = "tl.program_id(0)"
        if has_order(self.program):
            self.helpers["in_turns"] = None
            pid = f"in_turns({pid}, {' * '.join(counts)}, {' * '.join(sizes)}, ABREAST)"
        self._assign("pid", pid)
        for n, axis in enumerate(grid):
            last = n == len(grid) - 1
            if axis.role == "grid":
                size = self._size(axis.extent)
                self._assign(self._axis(axis.name), "pid" if last else f"pid % {size}")
                if not last:
                    self._assign("pid", f"pid // {size}")
                continue
            block = self._block(axis.name)
            count = self._name("count", axis.name, f"num_{axis.name}")
            start = self._name("start", axis.name, f"start_{axis.name}")
            place = "pid" if last else f"pid % {count}"
            if axis.name in reversed_rows:  # the longest rows first: they end last
                place = f"{count} - 1 - {place}"
            place = f"({place})" if " " in place else place
            self._assign(start, f"{place} * {block}")
            if not last:
                self._assign("pid", f"pid // {count}")
            offs = self._axis(axis.name)
            if axis.name in self._bounding_rows():
                end = self._name("last", axis.name, f"last_{axis.name}")
                self._assign(end, f"tl.minimum({start} + {block}, {self._size(axis.extent)}) - 1")
            self._assign(offs, f"{start} + tl.arange(0, {block}).to(INDEX)")
            self._membership(axis, f"{offs} < {self._size(axis.extent)}")

    def _bounding_rows(self, upper_only: bool = False) -> set[str]:
        """Rows on which a loop's bounds depend."""
        found: set[str] = set()
        for s in walk(self.program.body):
            if isinstance(s, Loop):
                bounds = [e for x in s.segments for e in x.upper] if upper_only else s.bounds
                found |= {a for e in bounds for a in e.axes if self.program.axes[a].role == "row"}
        return found

    def _membership(self, axis: Axis, condition: str) -> None:
        body = self.program.body
        if any(self._needs_mask(e, axis.name) for e in expressions(body)) or any(
            isinstance(s, Store) and any(axis.name in e.axes for e in roots(s)) for s in walk(body)
        ):
            self._assign(self._inside(axis.name), f"({condition}) | {self._even(axis.name)}")

    def _needs_mask(self, e: Expr, axis: str) -> bool:
        return (e.op == "load" and axis in e.axes) or (e.op == "masked" and e.attr[0] == axis)

    def _body(self, body: list[Statement]) -> None:
        indent = self.indent
        for s in body:
            match s:
                case Mask():
                    self._mask(s, self.loops[-1])
                case Let():
                    self._let(s)
                case Fold():
                    self._fold(s)
                case Assign():
                    self._assign(self._local(s.name), self._text(s.value))
                case Store():
                    self._store(s)
                case Loop():
                    self._loop(s)
        self.indent = indent

    def _let(self, s: Let) -> None:
        if s.value.op == "load":
            self._load(s)
        elif s.value.op == "masked" and self._is_masked_at_edges(s.value):
            self._mask_at_edges(s)
        elif self._is_in_period(s.value):
            self._assign(self._local(s.name), self._place(s.value))
        else:
            self._assign(self._local(s.name), self._text(s.value))
        self.known.add(s.name)


__all__ = ["KernelEmitter", "KernelSource"]
