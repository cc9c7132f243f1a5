"""One tile program as the source of one Triton kernel.

Rows and grid indices become program instances, the stream a loop over blocks. A loop that
begins at the same element for all rows is cut in two parts: the blocks inside for every row, and
those that stick out at the end. The body is written once; in the first part all masks are
constant and the compiler drops them. A loop that begins where its rows say would have a third
part, and more to start and to end than to do; it asks at each block whether to mask it. What no
row of a block admits is left out: intervals of rows with gaps between them are streamed run by
run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from monocomp import counter_rng
from monocomp.backends.triton.descriptors import Block, described_loads, has_plain_part
from monocomp.backends.triton.identifiers import Identifiers
from monocomp.backends.triton.layout import fit
from monocomp.backends.triton.operands import Operands, has_float
from monocomp.backends.triton.schedule import has_order
from monocomp.errors import InternalError, UnsupportedError
from monocomp.tile import (
    Assign,
    Axis,
    Combine,
    Expr,
    Fold,
    Let,
    Loop,
    Mask,
    Segment,
    Selection,
    Statement,
    Store,
    TileProgram,
    expressions,
    subexpressions,
    walk,
)

_ATOM, _UNARY, _MUL, _ADD, _BIT_AND, _BIT_OR, _COMPARE = 9, 8, 7, 6, 5, 4, 3
_INFIX = {
    "add": ("+", _ADD),
    "sub": ("-", _ADD),
    "mul": ("*", _MUL),
    "div": ("/", _MUL),
    "and": ("&", _BIT_AND),
    "or": ("|", _BIT_OR),
}
_BROADCASTING = ("compare", "where", "neg", "not", "cast", "masked")
# Integer operations whose range follows from those of their operands.
_MONOTONE = ("coordinate", "local", "add", "sub", "neg", "maximum", "minimum", "mul")
_TYPES = {"float": "tl.float32", "int": "tl.int64", "bool": "tl.int1"}
_LARGEST = "1e38"  # what scale * x - scale * y takes in float32: more counts as infinite
_SMALL_INT = 1 << 6  # a factor that takes no index past 32 bits
_CALLS = {
    "exp2": "tl.exp2",
    "log": "tl.log",
    "log2": "tl.log2",
    "sqrt": "tl.sqrt",
    "rsqrt": "tl.rsqrt",
    "abs": "tl.abs",
    "sin": "tl.sin",
    "cos": "tl.cos",
    "erf": "tl.erf",
    "floor": "tl.floor",
}
# Functions that Triton lacks on every target, written out where they are used.
HELPERS = {
    "in_turns": '''@triton.jit
def in_turns(pid, blocks, places, abreast):
    """The number of a block, counted place by place, that an instance works on: so many places
    abreast take turns, a block each, and then the next ones."""
    if abreast > 1:
        count = tl.minimum(abreast, places)
        first = pid // (blocks * count) * count
        turn = pid - first * blocks
        count = tl.minimum(count, places - first)
        pid = ((first + turn % count) * blocks + turn // count).to(tl.int32)
    return pid''',
    "tanh": '''@triton.jit
def tanh(x, FAST: tl.constexpr):
    """tanh to float32 accuracy: a series near 0, else from exp2. FAST: the GPU's own, to the
    11 bits that results of 16-bit inputs have at most."""
    if FAST:
        y = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1
        )
    else:
        a = tl.abs(x)
        t = tl.exp2(-2.8853900817779268 * a)
        x2 = x * x
        series = x * (1 + x2 * (-0.33333334 + x2 * (0.13333334 - 0.053968254 * x2)))
        large = (1 - t) / (1 + t)
        y = tl.where(a < 0.2, series, tl.where(x < 0, -large, large))
    return y''',
    "floordiv": '''@triton.jit
def floordiv(a, b):
    """a // b of integers rounded down, and 0 for b = 0; Triton rounds towards 0."""
    divisor = tl.where(b == 0, 1, b)
    q = a // divisor
    q = tl.where((a % divisor != 0) & ((a < 0) != (b < 0)), q - 1, q)
    return tl.where(b == 0, 0, q)''',
    "mod": '''@triton.jit
def mod(a, b):
    """a % b of integers with the sign of b, and 0 for b = 0; Triton's has a's sign."""
    r = a % tl.where(b == 0, 1, b)
    r = tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
    return tl.where(b == 0, 0, r)''',
    "float_floordiv": '''@triton.jit
def float_floordiv(a, b):
    """a // b of floats; a quotient that was rounded past an integer is set right."""
    q = tl.floor(a / b)
    r = a - q * b
    q = tl.where((r != 0) & ((r < 0) != (b < 0)), q - 1, q)
    return tl.where(tl.abs(r) >= tl.abs(b), q + 1, q)''',
    "float_mod": '''@triton.jit
def float_mod(a, b):
    """a % b of floats with the sign of b."""
    r = a - tl.floor(a / b) * b
    r = tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
    return tl.where(tl.abs(r) >= tl.abs(b), r - b, r)''',
    "larger": '''@triton.jit
def larger(a, b):
    """The combine of a maximum, for tl.reduce; tl.max may lose a NaN."""
    return tl.maximum(a, b, tl.PropagateNan.ALL)''',
    "smaller": '''@triton.jit
def smaller(a, b):
    """The combine of a minimum, for tl.reduce; tl.min may lose a NaN."""
    return tl.minimum(a, b, tl.PropagateNan.ALL)''',
    "multiply": '''@triton.jit
def multiply(a, b):
    """The combine of a product, for tl.reduce."""
    return a * b''',
    "merge_largest": '''@triton.jit
def merge_largest(
    values, places, ranks, count, x, at, k: tl.constexpr, r: tl.constexpr
):
    """The `count` largest of a list and of a tile: values at places along axis r, in order,
    and x along axis k. Of equal values the first places win, and NaN is the largest."""
    last = tl.max(tl.where(ranks == count - 1, values, -float("inf")), r)
    last = tl.expand_dims(last, k)
    # Most tiles of a long stream hold nothing that enters the list.
    if tl.max(tl.where((x > last) | (x != x), 1, 0)) > 0:
        old_values, old_places = values, places
        values = tl.full(values.shape, -float("inf"), tl.float32)
        places = tl.full(places.shape, -1, tl.int64)
        for rank in range(count):
            best = larger(tl.reduce(x, k, larger), tl.reduce(old_values, r, larger))
            new, old = tl.expand_dims(best, k), tl.expand_dims(best, r)
            hits = tl.where((x == new) | (x != x), at, 9223372036854775807)
            old_hits = (old_values == old) | (old_values != old_values)
            old_hits = tl.where(old_hits, old_places, 9223372036854775807)
            place = tl.minimum(tl.min(hits, k), tl.min(old_hits, r))
            new_place, old_place = tl.expand_dims(place, k), tl.expand_dims(place, r)
            is_here = (ranks == rank) & (old != -float("inf"))
            values = tl.where(is_here, old, values)
            places = tl.where(is_here, old_place, places)
            x = tl.where(at == new_place, -float("inf"), x)
            old_values = tl.where(old_places == old_place, -float("inf"), old_values)
    return values, places''',
    "rounding_error": '''@triton.jit
def rounding_error(x, dtype: tl.constexpr):
    """What x loses in a dtype, in that dtype; 0 where it overflows there."""
    lost = x - x.to(dtype).to(tl.float32)
    return tl.where(tl.abs(lost) < float("inf"), lost, 0.0).to(dtype)''',
    "dot_in_parts": '''@triton.jit
def dot_in_parts(a, b, acc, dtype: tl.constexpr, PRECISION: tl.constexpr):
    """a @ b + acc. A tile of more bits than dtype has is taken as a sum of two that have it."""
    a_high, b_high = a.to(dtype), b.to(dtype)
    product = tl.dot(a_high, b_high, acc, input_precision=PRECISION)
    if a.dtype != dtype:
        a_low = rounding_error(a, dtype)
        product += tl.dot(a_low, b_high, input_precision=PRECISION)
    if b.dtype != dtype:
        b_low = rounding_error(b, dtype)
        product += tl.dot(a_high, b_low, input_precision=PRECISION)
    return product''',
    "next_bits": f'''@triton.jit
def next_bits(h, x):
    """Mix one more counter into 32 random bits (the finaliser of MurmurHash3)."""
    h = h ^ (x.to(tl.uint32) * tl.full([], {counter_rng.STEP}, tl.uint32))
    h = h ^ (h >> {counter_rng.SHIFTS[0]})
    h = h * tl.full([], {counter_rng.FACTOR_1}, tl.uint32)
    h = h ^ (h >> {counter_rng.SHIFTS[1]})
    h = h * tl.full([], {counter_rng.FACTOR_2}, tl.uint32)
    return h ^ (h >> {counter_rng.SHIFTS[2]})''',
}


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


class KernelEmitter:
    """Writes one kernel."""

    def __init__(
        self,
        program: TileProgram,
        kernel_name: str,
        functions: Mapping[str, str] | None = None,
        narrow: Collection[str] = (),
    ) -> None:
        self.program = program
        self.narrow = narrow  # inputs of 8 bits
        self.kernel_name = kernel_name
        self.function_names = functions or {}  # of the combines, by monoid
        self.functions: dict[str, str] = {}
        reserved = {*HELPERS, kernel_name, *self.function_names.values()}
        reserved |= {"INDEX", "PRECISION", "FAST", "STEP", "ABREAST", "pid"}
        self.names = Identifiers(reserved)
        self.lines: list[str] = []
        self.indent = 1
        self.helpers: dict[str, None] = {}
        self.shared: list[tuple[str, str]] = []
        order = {"row": 0, "stream": 1, "whole": 2, "grid": 3, "serial": 4}
        ranked = sorted(program.axes.values(), key=lambda a: order[a.role])
        self.rank = {a.name: n for n, a in enumerate(ranked)}
        self.lets = {s.name: s.value for s in walk(program.body) if isinstance(s, Let)}
        self.operands = Operands(program)
        self.flipped = self._flipped_loads()
        self.described = described_loads(program)
        self.descriptors: list[Block] = []
        # By axis: which blocks end only with their tensors, as a test; empty for all of them.
        self.covered: dict[str, str] = {}
        self.bases: dict[str, str] = {}
        self.known: set[str] = set()
        self.loops: list[Loop] = []
        self.unmasked: str | None = None
        self.edges: dict[str, str] = {}  # by axis: is a block to be masked?
        self.runs: set[str] = set()  # axes that are streamed run by run
        self.admitted: dict[str, str] = {}
        self.kept: dict[tuple[str, tuple[str, ...]], str] = {}
        self.fast = "FAST"  # may functions be as accurate as 16-bit results?

    # --- names ------------------------------------------------------------------------

    def _name(self, purpose: str, name: str, wanted: str | None = None) -> str:
        return self.names.of(purpose, name, wanted)

    def _axis(self, axis: str) -> str:
        role = self.program.axes[axis].role
        if role in ("grid", "serial"):
            return self._name("axis", axis)
        return self._name("axis", axis, f"offs_{axis}")

    def _block(self, axis: str) -> str:
        return self._name("block", axis, f"BLOCK_{axis.upper()}")

    def _even(self, axis: str) -> str:
        return self._name("even", axis, f"EVEN_{axis.upper()}")

    def _size(self, extent: str) -> str:
        return self._name("size", extent, f"size_{extent.lstrip('.')}")

    def _param(self, name: str) -> str:
        return self._name("param", name)

    def _local(self, name: str) -> str:
        return self._name("local", name)

    def _pointer(self, tensor: str) -> str:
        return self._name("pointer", tensor, f"{tensor}_ptr")

    def _stride(self, tensor: str, dim: int) -> str:
        return self._name("stride", f"{tensor}/{dim}", f"stride_{tensor}_{self._dim(tensor, dim)}")

    def descriptor(self, block: Block) -> str:
        """The name of what loads such blocks."""
        return self._name("descriptor", repr(block), f"{block.tensor}_desc")

    def _dims(self, tensor: str) -> tuple[str, ...]:
        if tensor in self.program.inputs:
            return self.program.inputs[tensor].dims
        return next(o.axes for o in self.program.outputs if o.name == tensor)

    def _dim(self, tensor: str, dim: int) -> str:
        dims = self._dims(tensor)
        name = dims[dim].lstrip(".")
        return name if dims.count(dims[dim]) == 1 else f"{name}{dim}"

    # --- layout -----------------------------------------------------------------------

    def _order(self, axes: Iterable[str]) -> tuple[str, ...]:
        kept = (a for a in axes if self.program.axes[a].role in ("row", "stream", "whole"))
        return tuple(sorted(kept, key=self.rank.__getitem__))

    def _flipped_loads(self) -> set[str]:
        """Loads that are only used as a product's right operand, with the summed axis
        second in the common order: they are loaded transposed."""
        right: dict[str, int] = {}
        uses: dict[str, int] = {}
        for e in expressions(self.program.body):
            if e.op == "local":
                uses[e.attr] = uses.get(e.attr, 0) + 1
            if e.op == "contract" and self.operands.is_product(e):
                _, b = map(_unconverted, self._operands(e))
                if b.op == "local" and self._order(b.axes)[0] != e.attr:
                    right[b.attr] = right.get(b.attr, 0) + 1
        return {
            name
            for name, count in right.items()
            if uses[name] == count and name in self.lets and self.lets[name].op == "load"
        }

    def _layout(self, e: Expr) -> tuple[str, ...]:
        order = self._order(e.axes)
        return order[::-1] if e.op == "local" and e.attr in self.flipped else order

    def _operands(self, e: Expr) -> tuple[Expr, Expr]:
        """The operands of a product, the one with the result's first axis on the left."""
        a, b = e.args[:2]
        first = self._order(e.axes)[0]
        return (a, b) if first in a.axes else (b, a)

    # --- output -----------------------------------------------------------------------

    def _put(self, line: str = "") -> None:
        self.lines.append("    " * self.indent + line if line else "")

    def _assign(self, target: str, text: str) -> None:
        """`target = text`, broken over lines as a formatter would."""
        self._fit(f"{target} = ", text, "")

    def _fit(self, before: str, text: str, after: str) -> None:
        self.lines += fit(before, text, after, self.indent)

    def emit(self) -> KernelSource:
        """Write the kernel."""
        grid = self._grid_axes()
        self._steps()
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
        names = [n for n in HELPERS if n in self.helpers]
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

    @cached_property
    def held(self) -> dict[str, int]:
        """The dimension of each tensor along which a tile holds it entirely, the last one."""
        found: dict[str, int] = {}
        for e in expressions(self.program.body):
            places = e.args if e.op == "load" else ()
            for dim, place in enumerate(places):
                if place.op == "coordinate" and self.program.axes[place.attr].role == "whole":
                    found[e.attr] = max(dim, found.get(e.attr, 0))
        for o in self.program.outputs:
            for dim, axis in enumerate(o.axes):
                if self.program.axes[axis].role == "whole":
                    found[o.name] = dim
        return {tensor: dim for tensor, dim in found.items() if len(self._dims(tensor)) > 1}

    def _steps(self) -> None:
        """Say that STEP divides strides: what is held entirely is then loaded several elements
        at a time. By itself Triton only looks whether 16 divides an argument."""
        if self.held:
            self._put("# STEP divides these: loads of several elements need to know.")
        for tensor, held in self.held.items():
            rank = len(self._dims(tensor))
            for dim in (n for n in range(rank) if n != held):
                stride = self._stride(tensor, dim)
                self._assign(stride, f"{stride} // STEP * STEP")

    def _arguments(self, grid: list[Axis]) -> list[tuple[str, str, int]]:
        program = self.program
        found: list[tuple[str, str, int]] = []
        tensors = [(n, len(t.dims)) for n, t in program.inputs.items()]
        tensors += [(o.name, len(o.axes)) for o in program.outputs]
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

    # --- program instances --------------------------------------------------------------

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

    def _inside(self, axis: str) -> str:
        return self._name("inside", axis, f"in_{axis}")

    def _membership(self, axis: Axis, condition: str) -> None:
        body = self.program.body
        if any(self._needs_mask(e, axis.name) for e in expressions(body)) or any(
            isinstance(s, Store) and axis.name in s.axes for s in walk(body)
        ):
            self._assign(self._inside(axis.name), f"({condition}) | {self._even(axis.name)}")

    def _needs_mask(self, e: Expr, axis: str) -> bool:
        return (e.op == "load" and axis in e.axes) or (e.op == "masked" and e.attr[0] == axis)

    # --- statements ---------------------------------------------------------------------

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

    def _mask(self, s: Mask, loop: Loop) -> None:
        """Name what a mask admits. A block in which a mask that is read admits nothing is
        left out: reading it is cheap beside what it saves. One that is computed has members
        everywhere, as a rule."""
        axis = loop.axis.name
        text = self._value(s.value, self._layout(s.value), 0)
        if not text.isidentifier():
            name = self._name("admitted", axis, "admitted")
            self._assign(name, text)
            text = name
        self.admitted[axis] = self._spread(text, self._layout(s.value), self._order(s.value.axes))
        self.kept = {}
        if loop.axis.role == "serial":
            return
        self._leave_out(loop, s.value)
        if self._reads_along(s.value, {axis}):
            count = self._name("members", axis, f"any_{axis}")
            self._assign(count, f"tl.max({self._inside(axis)}.to(tl.int32), 0)")
            tests = [f"{segment} == {n}" for segment, n in self._unmasked_segments(loop)]
            self._put(f"if {' or '.join([*tests, f'{count} > 0'])}:")
            self.indent += 1

    def _leave_out(self, loop: Loop, mask: Expr) -> None:
        """Read nothing that no row of the block admits: what stands there, be it NaN, would
        enter a sum as 0 times itself."""
        axis = loop.axis.name
        layout = self._order({axis}.union(*(e.axes for e in (mask, *loop.bounds))))
        inside, seen = self._inside(axis), self._domain_text(loop, layout)
        if len(layout) > 1:
            seen = f"{seen}.to(tl.int32)"
            for place in reversed([n for n, a in enumerate(layout) if a != axis]):
                seen = f"tl.max({seen}, {place})"
            seen = f"({seen} > 0)"
        self._assign(inside, f"{inside} & {seen}")

    def _may_have_gaps(self, segment: Segment) -> bool:
        """Can there be elements between the bounds of a block's rows that no row admits?

        Intervals that all begin, or all end, at the same element have none, nor have those whose
        ends grow by one from row to row.
        """
        varying = self._vary(segment.lower) and self._vary(segment.upper)
        return varying and not (segment.masked or all(map(self._grows_by_one, segment.bounds)))

    def _grows_by_one(self, bound: Expr) -> bool:
        """Is this a coordinate and what is the same for all rows, or only that?"""
        if not self._order(bound.axes):
            return True
        match bound.op:
            case "local" if bound.attr in self.lets:
                return self._grows_by_one(self.lets[bound.attr])
            case "add":
                varying = [a for a in bound.args if self._order(a.axes)]
                return len(varying) == 1 and self._grows_by_one(varying[0])
            case "sub":
                return self._grows_by_one(bound.args[0]) and not self._order(bound.args[1].axes)
        return bound.op == "coordinate"

    def _is_short(self, segment: Segment) -> bool:
        """Do the ends of a block's rows lie within as many elements as there are rows?"""
        return bool(segment.upper) and all(map(self._steps_by_one, segment.upper))

    def _steps_by_one(self, bound: Expr) -> bool:
        """Is a bound the same for all rows, or at most one more for the next row?"""
        if bound.op == "local" and bound.attr in self.lets:
            return self._steps_by_one(self.lets[bound.attr])
        if bound.op in ("maximum", "minimum"):
            return all(map(self._steps_by_one, bound.args))
        return self._grows_by_one(bound)

    def _reads_along(self, e: Expr, axes: set[str]) -> bool:
        """Is a tensor read along one of the axes to compute the value?"""
        if axes.isdisjoint(e.axes):
            return False
        parts = (self.lets[e.attr],) if e.op == "local" and e.attr in self.lets else e.args
        return e.op == "load" or any(self._reads_along(p, axes) for p in parts)

    def _let(self, s: Let) -> None:
        if s.value.op == "load":
            self._load(s)
        elif s.value.op == "masked" and self._is_masked_at_edges(s.value):
            self._mask_at_edges(s)
        else:
            self._assign(self._local(s.name), self._text(s.value))
        self.known.add(s.name)

    def _fold(self, s: Fold) -> None:
        names = ", ".join(map(self._local, s.names))
        state = [self._text(e) for e in s.state]
        if isinstance(s.monoid, Selection):
            self._assign(names, self._merge_largest(s, s.monoid, state))
        elif s.prefixes:
            self._prefixes(s, s.monoid)
        else:
            elements = self._folded_tile(s, s.monoid)
            function = self._combine(s.monoid)
            self._assign(names, f"{function}({', '.join([*state, *elements])})")
        self.known |= {*s.names, *s.prefixes}

    def _prefixes(self, s: Fold, monoid: Combine) -> None:
        """The state combined with all prefixes of a tile; the last one is the next state."""
        outer = self._order(s.state[0].axes)
        layout = self._order(s.state[0].axes | {s.axis})
        scanned = self._scanned(s, monoid, layout)
        state = [self._spread(self._text(e, outer, _ATOM), outer, layout) for e in s.state]
        targets = list(map(self._local, s.prefixes))
        arguments = ", ".join([*state, *scanned])
        self._assign(", ".join(targets), f"{self._combine(monoid)}({arguments})")
        for name, target in zip(s.names, targets, strict=True):
            self._assign(self._local(name), self._last(target, s.axis, layout))

    def _scanned(self, s: Fold, monoid: Combine, layout: tuple[str, ...]) -> list[str]:
        """Names of all prefixes of a tile."""
        tiles = self._whole_tiles(s, layout)
        together = tiles[0] if len(tiles) == 1 else f"({', '.join(tiles)})"
        found = [self._name("scanned", n, f"{n.removesuffix('_new')}_scan") for n in s.names]
        place, function = layout.index(s.axis), self._combine(monoid)
        text = f"tl.associative_scan({together}, {place}, {function})"
        self._assign(", ".join(found), text)
        return found

    def _last(self, tile: str, axis: str, layout: tuple[str, ...]) -> str:
        """The last element of a tile along an axis."""
        block = self._block(axis)
        offsets = self._spread(f"tl.arange(0, {block})", (axis,), layout)
        chosen = f"tl.where({offsets} == {block} - 1, {tile}, 0)"
        return f"tl.sum({chosen}, {layout.index(axis)})"

    def _merge_largest(self, s: Fold, selection: Selection, state: list[str]) -> str:
        rank, axes = selection.axis, s.state[0].axes
        inside = self._order(axes - {rank} | {s.axis})
        listed = self._order(axes)
        x, at = self._whole_tiles(s, inside)
        ranks = self._spread(self._axis(rank), (rank,), listed)
        count = self._size(self.program.axes[rank].extent)
        places = f"{inside.index(s.axis)}, {listed.index(rank)}"
        self.helpers |= {"larger": None, "merge_largest": None}
        return f"merge_largest({', '.join(state)}, {ranks}, {count}, {x}, {at}, {places})"

    def _folded_tile(self, s: Fold, monoid: Combine) -> list[str]:
        """The fields of the elements of a tile, combined in their order."""
        layout = self._order(s.state[0].axes | {s.axis})
        if s.axis not in layout:
            return self._whole_tiles(s, layout)
        if not monoid.commutes:
            return [self._last(x, s.axis, layout) for x in self._scanned(s, monoid, layout)]
        # tl.reduce takes the elements in an order of its own.
        tiles = self._whole_tiles(s, layout)
        together = tiles[0] if len(tiles) == 1 else f"({', '.join(tiles)})"
        found = [self._name("folded", n, f"{n.removesuffix('_new')}_tile") for n in s.names]
        text = f"tl.reduce({together}, {layout.index(s.axis)}, {self._combine(monoid)})"
        self._assign(", ".join(found), text)
        return found

    def _whole_tiles(self, s: Fold, layout: tuple[str, ...]) -> list[str]:
        """Names of the elements' fields, with all axes of a layout."""
        names = []
        for e, folded in zip(s.elements, s.names, strict=True):
            have, kind = self._order(e.axes), _TYPES[e.kind]
            shape = f"[{self._shape(layout)}]"
            text = f"{self._value(e, have, _ATOM)}.to({kind})"
            if not have:
                text = f"tl.full({shape}, {self._value(e, (), 0)}, {kind})"
            elif have != layout:
                text = f"tl.broadcast_to({self._spread(text, have, layout)}, {shape})"
            names.append(self._name("element", folded, f"{folded.removesuffix('_new')}_{s.axis}"))
            self._assign(names[-1], text)
        return names

    def _combine(self, monoid: Combine) -> str:
        """The name of a monoid's combine function."""
        function = self.function_names[monoid.name]
        if function not in self.functions:
            formulas = KernelEmitter(TileProgram(monoid.name, {}, {}, {}, ()), function)
            formulas.fast = "False"
            operands = ", ".join(map(formulas._local, (*monoid.left, *monoid.right)))
            formulas._body(list(monoid.body))
            results = ", ".join(formulas._text(e) for e in monoid.results)
            formulas._fit("return ", results, "")
            head = ["@triton.jit", f"def {function}({operands}):"]
            what = "commutative " if monoid.commutes else ""
            head.append(f'    """The combine of the {what}monoid {monoid.name}."""')
            self.functions[function] = "\n".join([*head, *formulas.lines])
            self.helpers |= formulas.helpers
        return function

    def _load(self, s: Let) -> None:
        """Load a tile: by a descriptor, where there is one and it can, or by pointers."""
        block = self.described.get(s.name)
        streams = [a for a in block.tile if self._streams(a)] if block else []
        if block is None or not all(a in self.covered for a in streams):
            self._load_by_pointers(s)
            return
        if block not in self.descriptors:
            self.descriptors.append(block)
        tests = [self.covered[a] for a in streams if self.covered[a]]
        self._put(f"if {' and '.join([f'{self.descriptor(block)} is not None', *tests])}:")
        self.indent += 1
        self._load_by_descriptor(s, block)
        self.indent -= 1
        self._put("else:")
        self.indent += 1
        self._load_by_pointers(s)
        self.indent -= 1

    def _streams(self, axis: str) -> bool:
        return self.program.axes[axis].role == "stream"

    def _load_by_descriptor(self, s: Let, block: Block) -> None:
        layout = self._order(s.value.axes)
        if s.name in self.flipped:
            layout = layout[::-1]
        places = ", ".join(map(self._first, block.axes, s.value.args))
        tile = f"{self.descriptor(block)}.load([{places}])"
        tile = f"tl.reshape({tile}, [{self._shape(block.tile)}])"
        text = tile if block.tile == layout else f"tl.trans({tile})"
        self._assign(self._local(s.name), text)

    def _first(self, axis: str | None, place: Expr) -> str:
        """The first element of a block along a dimension, or the only one."""
        if axis is None:
            text = self._text(place, ())
            return text if place.op in ("number", "coordinate") else f"tl.cast({text}, tl.int32)"
        known = self.program.axes[axis]
        if known.role == "whole":
            return self._block(known.after) if known.after else "0"
        if known.role == "row":
            return self._name("start", axis, f"start_{axis}")
        return self._name("first", axis, f"first_{axis}")

    def _load_by_pointers(self, s: Let) -> None:
        e = s.value
        layout = self._order(e.axes)
        if s.name in self.flipped:
            layout = layout[::-1]
        pointer = self._address(e, s.name, layout)
        masks = [self._spread(self._inside(a), (a,), layout) for a in layout]
        subscripts = e.args[: len(e.args) - 1] if e.guarded else e.args
        if any(x.op != "coordinate" for x in subscripts):
            masks += self._in_range(e.attr, subscripts, layout)
        if e.guarded:
            masks.append(self._value(e.args[-1], layout, _BIT_AND + 1))
        target = self._local(s.name)
        if not masks:
            self._assign(target, f"tl.load({pointer})")
            return
        other = "0.0" if e.kind == "float" else "0"
        self._assign(target, f"tl.load({pointer}, mask={' & '.join(masks)}, other={other})")

    def _in_range(
        self, tensor: str, subscripts: tuple[Expr, ...], layout: tuple[str, ...]
    ) -> list[str]:
        """A computed subscript that leaves its tensor reads nothing."""
        masks = []
        for dim, s in enumerate(subscripts):
            extent = self.program.inputs[tensor].dims[dim]
            size, value = self._size(extent), self._meaning(s)
            if s.op == "number" and s.attr >= 0:
                masks.append(f"({size} > {s.attr})")
            elif s.op != "coordinate" and not _is_remainder(value, extent):
                text = self._text(s, layout, _COMPARE + 1)
                if value.op not in ("floordiv", "mod") or value.attr != "nonnegative":
                    masks.append(f"({text} >= 0)")
                masks.append(f"({text} < {size})")
        return masks

    def _meaning(self, e: Expr) -> Expr:
        """What a name stands for."""
        return self.lets.get(e.attr, e) if e.op == "local" else e

    def _address(self, e: Expr, key: str, layout: tuple[str, ...]) -> str:
        """The pointers of a load; what is the same for the whole loop is added before it."""
        subscripts = e.args[: len(e.args) - 1] if e.guarded else e.args
        parts = [self.bases.get(key) or self._base(e, subscripts)]
        for dim, s in enumerate(subscripts):
            if self._order(s.axes):
                text = self._text(s, layout, _MUL)
                if s.op != "coordinate":
                    text = f"{self._text(s, layout, _ATOM)}.to(INDEX)"
                parts.append(f"{text} * {self._stride(e.attr, dim)}")
        return " + ".join(parts)

    def _base(self, e: Expr, subscripts: tuple[Expr, ...]) -> str:
        parts = [self._pointer(e.attr)]
        for dim, s in enumerate(subscripts):
            if not self._order(s.axes) and not (s.op == "number" and s.attr == 0):
                stride, place = self._stride(e.attr, dim), self._text(s, ())
                if s.op == "number":
                    parts.append(f"{place} * tl.cast({stride}, tl.int64)")
                else:
                    parts.append(f"tl.cast({place}, tl.int64) * {stride}")
        return " + ".join(parts)

    def _hoist_bases(self, loop: Loop) -> None:
        for s in walk(loop.body):
            if not (isinstance(s, Let) and s.value.op == "load") or s.name in self.bases:
                continue
            e = s.value
            subscripts = e.args[: len(e.args) - 1] if e.guarded else e.args
            scalars = [x for x in subscripts if not self._order(x.axes)]
            inner = {x.attr for y in scalars for x in subexpressions(y) if x.op == "local"}
            serial = {x.attr for y in scalars for x in subexpressions(y) if x.op == "coordinate"}
            serial = {a for a in serial if self.program.axes[a].role == "serial"}
            if inner <= self.known and not serial:
                text = self._base(e, subscripts)
                if " + " in text:
                    name = self._name("base", s.name, f"{e.attr}_base")
                    self._assign(name, text)
                    self.bases[s.name] = name

    def _store(self, s: Store) -> None:
        layout = self._order(s.axes)
        parts = [self._pointer(s.output)]
        for dim, axis in enumerate(s.axes):
            text = self._axis(axis)
            if axis in layout:
                text = self._spread(text, (axis,), layout)
            else:
                text = f"tl.cast({text}, tl.int64)"
            parts.append(f"{text} * {self._stride(s.output, dim)}")
        pointer = " + ".join(parts)
        value = self._text(s.value, layout, _ATOM)
        if self._layout(s.value) != layout and not self._layout(s.value):
            kind = _TYPES[s.value.kind]
            value = f"tl.full([{self._shape(layout)}], {self._text(s.value)}, {kind})"
        if not value.isidentifier():
            tile = self._name("result", s.output, f"{s.output}_tile")
            self._assign(tile, self._text(s.value, layout) if value[0] == "(" else value)
            value = tile
        value += f".to({self._pointer(s.output)}.dtype.element_ty)"
        masks = " & ".join(self._spread(self._inside(a), (a,), layout) for a in layout)
        parts_ = [pointer, value] + ([f"mask={masks}"] if masks else [])
        self._fit("", f"tl.store({', '.join(parts_)})", "")

    # --- loops ------------------------------------------------------------------------

    def _loop(self, loop: Loop) -> None:
        for state in loop.state:
            shape = self._shape(self._order(state.axes))
            kind = _TYPES[state.kind]
            unit = _literal(state.unit, state.kind)
            text = f"tl.full([{shape}], {unit}, {kind})" if shape else f"{unit}"
            if not shape:
                text = f"tl.full([], {unit}, {kind})"
            self._assign(self._local(state.name), text)
        self._hoist_bases(loop)
        self.loops.append(loop)
        if loop.axis.role == "serial":
            self._serial_loop(loop)
        else:
            self._blocked_loop(loop)
        self.loops.pop()

    def _serial_loop(self, loop: Loop) -> None:
        axis = loop.axis.name
        if len(loop.segments) == 1:
            low, high, _, _ = self._bounds(loop, loop.segments[0])
            self._serial_blocks(loop, low, high)
            return
        low, high = self._bound(axis, "low"), self._bound(axis, "high")
        with self._each_segment(loop):
            self._serial_blocks(loop, low, high)

    def _serial_blocks(self, loop: Loop, low: str, high: str) -> None:
        self._fit(f"for {self._axis(loop.axis.name)} in ", f"range({low}, {high})", ":")
        self.indent += 1
        self.kept = {}
        self._body(loop.body)
        self.indent -= 1

    def _blocked_loop(self, loop: Loop) -> None:
        outer = self.unmasked
        if len(loop.segments) > 1:
            self._segments(loop)
        elif loop.segments[0].masked:
            self._masked_segment(loop, loop.segments[0])
        else:
            self._one_segment(loop, loop.segments[0])
        self.unmasked = outer

    def _masked_segment(self, loop: Loop, segment: Segment) -> None:
        """Every block is masked: one loop."""
        axis, block = loop.axis.name, self._block(loop.axis.name)
        low, high, _, _ = self._bounds(loop, segment)
        low = self._set(axis, "low", low)
        high = self._set(axis, "high", high)
        begin, condition = low, f"({self._axis(axis)} < {high})"
        if self._vary(segment.lower):
            begin = self._set(axis, "begin", f"{low} // {block} * {block}")
            condition = f"({self._axis(axis)} >= {low}) & {condition}"
        elif not segment.bounds:
            condition += f" | {self._even(axis)}"
        self.unmasked = None
        self._row_bounds(loop, low, high)
        self._blocks(loop, f"tl.range({begin}, {high}, {block})", condition)

    def _one_segment(self, loop: Loop, segment: Segment) -> None:
        axis = loop.axis.name
        low, high, full_low, full_high = self._bounds(loop, segment)
        low, high = self._set(axis, "low", low), self._set(axis, "high", high)
        begins_by_row = self._vary(segment.lower)
        if begins_by_row:
            full_low = self._set(axis, "full_low", full_low)
        full_high = self._set(axis, "full_high", full_high)
        self._row_bounds(loop, low, high)
        if begins_by_row:
            self._in_one_loop(loop, low, high, full_low, full_high)
        else:
            self._in_two_parts(loop, low, high, full_high)

    def _vary(self, bounds: tuple[Expr, ...]) -> bool:
        """Are bounds not the same for all rows?"""
        return any(self._order(e.axes) for e in bounds)

    def _in_two_parts(self, loop: Loop, low: str, high: str, full_high: str) -> None:
        """Blocks up to where the first row ends, and the others."""
        axis, block = loop.axis.name, self._block(loop.axis.name)
        (segment,) = loop.segments
        part = self._name("part", axis, "part")
        text = f"{full_high} // {block} * {block}"
        if segment.lower:
            text = f"{low} + ({full_high} - {low}) // {block} * {block}"
        middle = f"tl.maximum({low}, {text})" if segment.bounds else text
        middle = self._set(axis, "full_end", middle)
        if segment.bounds:
            self._put("# Blocks inside and after the part where no mask is needed.")
        last = "3" if segment.bounds else f"2 if {self._even(axis)} else 3"
        self._put(f"for {part} in tl.static_range(1, {last}):")
        self.indent += 1
        self.unmasked = f"({part} == 1)"
        begin, end = self._name("begin", axis, "begin"), self._name("end", axis, "end")
        self._assign(begin, f"{low} if {part} == 1 else {middle}")
        self._assign(end, f"{middle} if {part} == 1 else {high}")
        condition = f"({self._axis(axis)} < {high}) | {self.unmasked}"
        if has_plain_part(loop, self.operands.blocked):
            self.covered[axis] = f"{part} == 1" if segment.bounds else ""
        depth = self._depth(loop, segment, f"{part} != 1")
        fusion = self._fusion(loop, f"{part} == 1")
        self._blocks(loop, f"tl.range({begin}, {end}, {block}{depth}{fusion})", condition)
        self.covered.pop(axis, None)
        self.indent -= 1

    def _depth(self, loop: Loop, segment: Segment, is_last: str) -> str:
        """Do not load the few blocks at the end ahead where descriptors load the others: two
        pipelines would take more shared memory than one."""
        lets = (s.name for s in walk(loop.body) if isinstance(s, Let))
        found = [self.described[name] for name in lets if name in self.described]
        blocks = [b for b in found if loop.axis.name in b.tile]
        if not blocks or not self._is_short(segment):
            return ""
        is_described = f"({self.descriptor(blocks[0])} is not None)"
        return f", num_stages=1 if {is_described} & ({is_last}) else None"

    def _fusion(self, loop: Loop, is_plain: str) -> str:
        """Let a loop and the only one inside it become one, whose loads are under way while the
        outer loop does the rest: with pointers it would carry their addresses along, and gain
        nothing."""
        inner = [s for s in loop.body if isinstance(s, Loop)]
        loads = [s.name for x in inner for s in x.body if isinstance(s, Let)]
        if len(inner) != 1 or not loads or not self.described.keys() >= {*loads}:
            return ""
        name, is_even = self.descriptor(self.described[loads[0]]), self._even(inner[0].axis.name)
        return f", flatten=({name} is not None) & {is_even} & ({is_plain})"

    def _segments(self, loop: Loop) -> None:
        """Several segments; all blocks of a masked one are masked."""
        purposes = ("low", "high", "full_low", "full_high")
        with self._each_segment(loop):
            self._in_one_loop(loop, *(self._bound(loop.axis.name, p) for p in purposes))

    def _in_one_loop(self, loop: Loop, low: str, high: str, full_low: str, full_high: str) -> None:
        """The blocks that stick out of what all rows admit are masked, under a condition."""
        axis, block = loop.axis.name, self._block(loop.axis.name)
        indent, self.unmasked = self.indent, None
        if any(map(self._may_have_gaps, loop.segments)):
            low, high = self._each_run(loop, low, high)
        begin = self._set(axis, "outer", f"{low} // {block} * {block}")
        first, offs = self._name("first", axis, f"first_{axis}"), self._axis(axis)
        self.edges[axis] = f"({first} < {full_low}) | ({first} + {block} > {full_high})"
        self._put("# Blocks that are inside for every row need no mask.")
        iterator = f"tl.range({begin}, {high}, {block})"
        self._blocks(loop, iterator, f"({offs} >= {low}) & ({offs} < {high})")
        del self.edges[axis]
        self.runs.discard(axis)
        self.indent = indent

    def _each_run(self, loop: Loop, low: str, high: str) -> tuple[str, str]:
        """Bounds of one run after the other of elements that rows admit: nothing in between is
        read, for what stands there, be it NaN, would enter a sum as 0 times itself."""
        axis = loop.axis.name
        rows = self._order({a for e in loop.bounds for a in e.axes})
        begin, end = self._name("begin", axis, "begin"), self._name("end", axis, "end")
        reach, following = self._name("reach", axis, "reach"), self._bound(axis, "next")
        from_, to = self._bound(axis, "from"), self._bound(axis, "to")
        inside = " & ".join(self._spread(self._inside(a), (a,), rows) for a in rows)

        def extreme(op: str, tile: str) -> str:
            for _ in rows:
                tile = f"tl.{op}({tile}, 0)"
            return f"tl.cast({tile}, INDEX)"

        self._put("# One run of elements that rows admit after the other.")
        self._assign(to, f"tl.where({inside}, {to}, 0)")
        self._assign(end, f"tl.cast({low}, INDEX)")
        self._put(f"while {end} < {high}:")
        self.indent += 1
        self._assign(following, f"tl.maximum({from_}, {end})")
        chosen = f"tl.where({following} < {to}, {following}, {high})"
        self._assign(begin, extreme("min", chosen))
        self._assign(end, begin)
        reached = extreme("max", f"tl.where({from_} <= {end}, {to}, {end})")
        self._assign(reach, reached)
        self._put(f"while {reach} > {end}:")
        self.indent += 1
        self._assign(end, reach)
        self._assign(reach, reached)
        self.indent -= 1
        self.runs.add(axis)
        self._assign(self._bound(axis, "run_from"), f"tl.maximum({from_}, {begin})")
        self._assign(self._bound(axis, "run_to"), f"tl.minimum({to}, {end})")
        return begin, end

    @contextmanager
    def _each_segment(self, loop: Loop) -> Iterator[None]:
        """What is written inside runs for each segment, with its bounds under common names."""
        axis = loop.axis.name
        segment = self._name("segment", axis, "segment")
        layout = self._order({a for e in loop.bounds for a in e.axes})
        self._put("# The domain is a disjoint union of segments.")
        self._put(f"for {segment} in tl.static_range({len(loop.segments)}):")
        self.indent += 1
        for number, s in enumerate(loop.segments):
            last = number == len(loop.segments) - 1
            test = "else:" if last else f"{'el' if number else ''}if {segment} == {number}:"
            self._put(test)
            self.indent += 1
            low, high, full_low, full_high = self._bounds(loop, s)
            self._assign(self._bound(axis, "low"), low)
            self._assign(self._bound(axis, "high"), high)
            if loop.axis.role != "serial":
                full = (self._bound(axis, "high"),) * 2 if s.masked else (full_low, full_high)
                self._assign(self._bound(axis, "full_low"), full[0])
                self._assign(self._bound(axis, "full_high"), full[1])
            if layout:
                self._assign(self._bound(axis, "from"), self._tile_of(s.lower, "low", loop, layout))
                self._assign(self._bound(axis, "to"), self._tile_of(s.upper, "high", loop, layout))
            self.indent -= 1
        yield
        self.indent -= 1

    def _tile_of(
        self, bounds: tuple[Expr, ...], purpose: str, loop: Loop, layout: tuple[str, ...]
    ) -> str:
        """The bound of a segment for each row of the block, within the bounds of the block."""
        varying = [e for e in bounds if self._order(e.axes)]
        scalar = self._bound(loop.axis.name, purpose)
        if not varying:
            return f"tl.full([{self._shape(layout)}], {scalar}, INDEX)"
        text = scalar
        for e in varying:
            bound = self._wide(e, layout, 0) if self._is_load(e) else self._text(e, layout)
            text = f"tl.{'maximum' if purpose == 'low' else 'minimum'}({text}, {bound})"
        if any(map(self._has_64_bits, varying)):
            limit = "minimum" if purpose == "low" else "maximum"
            text = f"tl.{limit}({text}, {self._size(loop.axis.extent) if purpose == 'low' else 0})"
            text = f"tl.cast({text}, INDEX)"
        return text

    def _row_bounds(self, loop: Loop, low: str, high: str) -> None:
        """Name the bounds of a loop's only segment for each row of the block."""
        (segment,) = loop.segments
        axis = loop.axis.name
        layout = self._order({a for e in segment.bounds for a in e.axes})
        if not layout:
            return
        lower = segment.lower if self._vary(segment.lower) else ()
        for purpose, bounds, end, text in (
            ("from", lower, "low", low),
            ("to", segment.upper, "high", high),
        ):
            if bounds:
                if text != self._bound(axis, end):
                    self._assign(self._bound(axis, end), text)
                self._assign(self._bound(axis, purpose), self._tile_of(bounds, end, loop, layout))

    def _bound(self, axis: str, purpose: str) -> str:
        return self._name(purpose, axis, f"{purpose}_{axis}")

    def _set(self, axis: str, purpose: str, text: str) -> str:
        """Name a bound, but for literals and sizes."""
        if text.isidentifier() or text.isdigit():
            return text
        name = self._name(purpose, axis, f"{purpose}_{axis}")
        self._assign(name, text)
        return name

    def _blocks(self, loop: Loop, iterator: str, condition: str) -> None:
        axis = loop.axis.name
        first = self._name("first", axis, f"first_{axis}")
        self._fit(f"for {first} in ", iterator, ":")
        self.indent += 1
        block = self._block(axis)
        self._assign(self._axis(axis), f"{first} + tl.arange(0, {block}).to(INDEX)")
        self._assign(self._inside(axis), condition)
        self.kept = {}
        self.admitted.pop(axis, None)
        self._body(loop.body)
        self.indent -= 1

    def _bounds(self, loop: Loop, segment: Segment) -> tuple[str, str, str, str]:
        """(low, high, full low, full high): the block's rows need [low, high), and
        [full low, full high) is inside for each of them."""
        size = self._size(loop.axis.extent)
        low = full_low = "0"
        high = full_high = size
        for e in segment.lower:
            least, most = self._interval(e)
            low, full_low = f"tl.maximum({low}, {least})", f"tl.maximum({full_low}, {most})"
        for e in segment.upper:
            least, most = self._interval(e)
            high, full_high = f"tl.minimum({high}, {most})", f"tl.minimum({full_high}, {least})"
        if any(map(self._has_64_bits, segment.lower)):
            low, full_low = (f"tl.cast(tl.minimum({x}, {size}), INDEX)" for x in (low, full_low))
        if any(map(self._has_64_bits, segment.upper)):
            high, full_high = (f"tl.cast(tl.maximum({x}, 0), INDEX)" for x in (high, full_high))
        return low, high, full_low, full_high

    def _has_64_bits(self, e: Expr) -> bool:
        """Is an int computed in 64 bits? A loop needs no more than its index has."""
        if e.op == "local" and e.attr in self.lets:
            return self._has_64_bits(self.lets[e.attr])
        wide = e.op == "load" or self._is_wide(e)
        return wide or any(map(self._has_64_bits, e.args))

    def _interval(self, e: Expr) -> tuple[str, str]:
        """The least and the largest value of an int over the block, as scalars."""
        if not self._order(e.axes):
            text = self._text(e, (), _ATOM)
            return text, text
        match e.op:
            case "local" if e.attr in self.lets and self.lets[e.attr].op in _MONOTONE:
                return self._interval(self.lets[e.attr])
            case "coordinate" if self.program.axes[e.attr].role == "row":
                return self._name("start", e.attr), self._name("last", e.attr)
            case "add":
                (a, b), (c, d) = map(self._interval, e.args)
                return f"{a} + {c}", f"{b} + {d}"
            case "sub":
                (a, b), (c, d) = map(self._interval, e.args)
                return f"{a} - {_grouped(d)}", f"{b} - {_grouped(c)}"
            case "neg":
                a, b = self._interval(e.args[0])
                return f"-{_grouped(b)}", f"-{_grouped(a)}"
            case "maximum" | "minimum":
                (a, b), (c, d) = map(self._interval, e.args)
                return f"tl.{e.op}({a}, {c})", f"tl.{e.op}({b}, {d})"
            case "mul" if e.args[0].op == "number":
                a, b = self._interval(e.args[1])
                factor = e.args[0].attr
                low, high = (a, b) if factor >= 0 else (b, a)
                return f"{factor} * {_grouped(low)}", f"{factor} * {_grouped(high)}"
            case "floordiv" if e.args[1].op == "number" and e.args[1].attr > 0:
                low, high = self._interval(e.args[0])
                return self._quotient(e, low), self._quotient(e, high)
        layout = self._order(e.axes)
        text = self._wide(e, layout, 0) if self._is_load(e) else self._text(e, layout)
        inside = " & ".join(self._spread(self._inside(a), (a,), layout) for a in layout)
        least = f"tl.where({inside}, {text}, 2147483647)"
        most = f"tl.where({inside}, {text}, -2147483648)"
        for _ in layout:
            least, most = f"tl.min({least}, 0)", f"tl.max({most}, 0)"
        return least, most

    def _quotient(self, e: Expr, dividend: str) -> str:
        """An integer division of scalars with the divisor of e."""
        divisor = self._text(e.args[1], ())
        if e.attr == "nonnegative":
            return f"{_grouped(dividend)} // {divisor}"
        self.helpers["floordiv"] = None
        return f"floordiv({dividend}, {divisor})"

    # --- expressions ------------------------------------------------------------------

    def _shape(self, layout: tuple[str, ...]) -> str:
        return ", ".join(self._block(a) for a in layout)

    def _spread(self, text: str, have: tuple[str, ...], want: tuple[str, ...]) -> str:
        """Give a tile of some axes the axes of another: offs_q[:, None]."""
        if have == want or not have:
            return text
        missing = [a for a in have if a not in want]
        if missing:
            raise InternalError(f"a tile along {missing} does not fit {want}")
        if tuple(a for a in want if a in have) != have:
            text, have = f"tl.trans({text})", have[::-1]
        if have == want:
            return text
        return f"{text}[{', '.join(':' if a in have else 'None' for a in want)}]"

    def _text(self, e: Expr, want: tuple[str, ...] | None = None, context: int = 0) -> str:
        """An expression for a tile of the wanted axes, in a place of the given priority."""
        have = self._layout(e)
        want = have if want is None else want
        if have == want or not have:
            text, level = self._bare(e, want if have else ())
            return f"({text})" if level < context else text
        if e.op in _INFIX or e.op in _BROADCASTING:
            text, level = self._bare(e, want)
            return f"({text})" if level < context else text
        text, level = self._bare(e, have)
        return self._spread(f"({text})" if level < _ATOM else text, have, want)

    def _value(self, e: Expr, want: tuple[str, ...], context: int) -> str:
        """A float operand in float32: loaded tiles have the tensor's own type."""
        text = self._text(e, want, context)
        if e.op == "local" and self._is_load(e) and e.kind == "float":
            return self._spread(
                f"{self._text(e, self._layout(e), _ATOM)}.to(tl.float32)", self._layout(e), want
            )
        if e.op == "local" and self._is_load(e) and e.kind == "bool":
            return f"({text} != 0)"
        return text

    def _wide(self, e: Expr, want: tuple[str, ...], context: int) -> str:
        """An operand of integer arithmetic that may leave 32 bits, or those of its tensor."""
        if e.op == "number" or e.kind != "int":
            return self._value(e, want, context)
        if not self._order(e.axes):  # may be a plain number
            return f"tl.cast({self._value(e, want, 0)}, tl.int64)"
        have = self._layout(e)
        return self._spread(f"{self._value(e, have, _ATOM)}.to(tl.int64)", have, want)

    def _is_load(self, e: Expr) -> bool:
        return e.op == "local" and e.attr in self.lets and self.lets[e.attr].op == "load"

    def _bare(self, e: Expr, want: tuple[str, ...]) -> tuple[str, int]:
        match e.op:
            case "number":
                text = _literal(e.attr, e.kind)
                if e.kind == "int" and not -(1 << 31) <= e.attr < 1 << 31:
                    return f"tl.full([], {text}, tl.int64)", _ATOM
                return text, _UNARY if text.startswith("-") else _ATOM
            case "param":
                return self._param(e.attr), _ATOM
            case "extent":
                return self._size(e.attr), _ATOM
            case "coordinate":
                return self._axis(e.attr), _ATOM
            case "local":
                return self._local(e.attr), _ATOM
            case "contract":
                return self._product(e), _ATOM
            case "reduce":
                return self._reduce(e), _ATOM
            case "masked":
                return self._masked(e, want), _ATOM
            case "cast":
                return self._cast(e, want)
            case "neg":
                return f"-{self._value(e.args[0], want, _UNARY)}", _UNARY
            case "not":
                return f"{self._value(e.args[0], want, _COMPARE + 1)} == 0", _COMPARE
            case "compare" if self._multiplies and _is_infinite(e):
                return f"{self._value(e.args[1], want, _COMPARE + 1)} > {_LARGEST}", _COMPARE
            case "compare":
                a, b = (self._value(x, want, _COMPARE + 1) for x in e.args)
                return f"{a} {e.attr} {b}", _COMPARE
            case "where":
                parts = ", ".join(self._value(x, want, 0) for x in e.args)
                return f"tl.where({parts})", _ATOM
            case "floordiv" | "mod":
                return self._division(e, want)
            case "sign" if e.kind == "int":
                a = self._value(e.args[0], want, _COMPARE + 1)
                return f"tl.where({a} > 0, 1, tl.where({a} < 0, -1, 0))", _ATOM
            case "sign":  # of NaN, NaN
                a = self._value(e.args[0], want, _COMPARE + 1)
                return f"tl.where({a} > 0, 1.0, tl.where({a} < 0, -1.0, 0.0 * {a}))", _ATOM
            case "maximum" | "minimum":
                return self._larger_or_smaller(e, want), _ATOM
            case "stop":
                return self._value(e.args[0], want, _ATOM), _ATOM
            case "uniform":
                return self._uniform(e, want), _ATOM
            case "tanh":
                self.helpers["tanh"] = None
                return f"tanh({self._value(e.args[0], want, 0)}, {self.fast})", _ATOM
        if e.op in _INFIX:
            return self._infix(e, want)
        if e.op == "exp2" and self._is_fused(e.args[0]):
            scale, difference = e.args[0].args
            x, y = (self._value(a, want, _MUL) for a in difference.args)
            factor = self._value(scale, want, _MUL)
            return f"tl.exp2({factor} * {x} - {factor} * {y})", _ATOM
        if e.op in _CALLS:
            parts = ", ".join(self._value(a, want, 0) for a in e.args)
            return f"{_CALLS[e.op]}({parts})", _ATOM
        raise UnsupportedError(f"backend 'triton' has no operation {e.op}")

    def _larger_or_smaller(self, e: Expr, want: tuple[str, ...]) -> str:
        """Where a NaN counts it is kept; the frame of a sum need not, the sum has it too."""
        if e.kind == "float" and e.attr != "frame":
            parts = ", ".join(self._value(a, want, 0) for a in e.args)
            return f"tl.{e.op}({parts}, tl.PropagateNan.ALL)"
        a, b = e.args
        second = self._reduce(b, "frame") if b.op == "reduce" else self._value(b, want, 0)
        return f"tl.{e.op}({self._value(a, want, 0)}, {second})"

    def _is_fused(self, e: Expr) -> bool:
        """Is this scale * (x - y) for a tile x and a row y, in a kernel that multiplies
        matrices? There scale * x - scale * y pays: one fused operation an element."""
        if e.op != "mul" or e.args[1].op != "sub" or self._order(e.args[0].axes):
            return False
        x, y = (self._order(a.axes) for a in e.args[1].args)
        return len(y) < len(x) and self._multiplies

    @cached_property
    def _multiplies(self) -> bool:
        """Does the kernel use the matrix units?"""
        return any(
            e.op == "contract" and self.operands.is_product(e)
            for e in expressions(self.program.body)
        )

    def _infix(self, e: Expr, want: tuple[str, ...]) -> tuple[str, int]:
        sign, level = _INFIX[e.op]
        if e.op == "and" and want and not self._order(e.args[0].axes):
            # Triton's interpreter takes a truth value that it makes a tile of for a float.
            scalar, tile = self._value(e.args[0], (), 0), self._value(e.args[1], want, 0)
            return f"tl.where({scalar}, {tile}, False)", _ATOM
        if e.op == "div" and e.kind == "int":
            sign = "//"
        operand = self._wide if self._is_wide(e) else self._value
        a = operand(e.args[0], want, level)
        b = operand(e.args[1], want, level + (e.op in ("sub", "div", "and", "or")))
        if e.op in ("add", "mul"):
            b = operand(e.args[1], want, level + (e.args[1].op not in ("add", "mul")))
        return f"{a} {sign} {b}", level

    def _is_wide(self, e: Expr) -> bool:
        """Can integer arithmetic leave 32 bits, or the few of a small tensor's type?"""
        if e.kind != "int":
            return False
        numbers = [abs(a.attr) for a in e.args if a.op == "number"]
        if any(n >= 1 << 31 for n in numbers) or any(self._is_load(a) for a in e.args):
            return True
        return e.op == "mul" and not any(n <= _SMALL_INT for n in numbers)

    def _cast(self, e: Expr, want: tuple[str, ...]) -> tuple[str, int]:
        kind = "tl.float32" if e.kind == "float" else "tl.int32"
        if not self._order(e.args[0].axes):  # may be a plain number
            return f"tl.cast({self._value(e.args[0], want, 0)}, {kind})", _ATOM
        return f"{self._value(e.args[0], want, _ATOM)}.to({kind})", _ATOM

    def _division(self, e: Expr, want: tuple[str, ...]) -> tuple[str, int]:
        if e.attr == "nonnegative" and e.kind == "int" and _is_never_zero(e.args[1]):
            a = self._value(e.args[0], want, _MUL)
            b = self._value(e.args[1], want, _MUL + 1)
            return f"{a} {'//' if e.op == 'floordiv' else '%'} {b}", _MUL
        helper = e.op if e.kind == "int" else f"float_{e.op}"
        self.helpers[helper] = None
        operand = self._wide if any(map(self._is_load, e.args)) else self._value
        a, b = (operand(x, want, 0) for x in e.args)
        is_place = e.op == "mod" and e.args[1].op == "extent" and self._order(e.axes)
        return f"{helper}({a}, {b}){'.to(INDEX)' if is_place else ''}", _ATOM

    def _uniform(self, e: Expr, want: tuple[str, ...]) -> str:
        self.helpers["next_bits"] = None
        text = f"tl.full([], {counter_rng.START}, tl.uint32)"
        for a in e.args:
            value = self._value(a, want, 0)
            if not self._order(a.axes):
                value = f"tl.cast({value}, tl.int32)"
            text = f"next_bits({text}, {value})"
        bits = counter_rng.MANTISSA_BITS
        return f"(({text} >> {32 - bits}).to(tl.float32) * {2.0**-bits!r})"

    def _masked(self, e: Expr, want: tuple[str, ...]) -> str:
        axis, unit = e.attr
        loop = next((x for x in reversed(self.loops) if x.axis.name == axis), None)
        if loop is None:
            condition = self._spread(self._inside(axis), (axis,), want)
        else:
            condition = self._domain_text(loop, want)
        value = self._value(e.args[0], want, 0)
        if e.kind == "int":
            value = f"tl.cast({value}, tl.int64)"
        return self._where(condition, value, e.kind, unit)

    def _domain_text(self, loop: Loop, want: tuple[str, ...]) -> str:
        """The name of the tile that tells which elements are in the loop's domain."""
        axis = loop.axis
        found = self.kept.get((axis.name, want))
        if found is not None:
            return found
        serial = axis.role == "serial"
        offs = self._axis(axis.name)
        if not serial:
            offs = self._spread(offs, (axis.name,), want)
        parts = []
        rows = self._order({a for b in loop.bounds for a in b.axes})
        is_bounded = False  # do the rows' bounds say it all?
        if serial and len(loop.segments) == 1:
            (segment,) = loop.segments
            parts += [f"({offs} >= {self._text(b, want, _ADD)})" for b in segment.lower]
            parts += [f"({offs} < {self._text(b, want, _ADD)})" for b in segment.upper]
        elif rows:
            several = len(loop.segments) > 1
            purposes = ["from"] if several or self._vary(loop.segments[0].lower) else []
            purposes += ["to"] if several or loop.segments[0].upper else []
            is_bounded = "to" in purposes
            for purpose in purposes:
                run = "run_" if axis.name in self.runs else ""
                bound = self._spread(self._bound(axis.name, run + purpose), rows, want)
                parts.append(f"({offs} {'>=' if purpose == 'from' else '<'} {bound})")
        if axis.name in self.admitted:
            parts.append(self._admitted(loop, want))
        inside = None
        if not serial and not is_bounded:
            inside = self._spread(self._inside(axis.name), (axis.name,), want)
        if not parts:
            return inside or "True"
        name = self._name("keep", f"{axis.name} {want}", "keep")
        first = parts.pop(0)
        self._assign(name, f"{inside} & {first}" if inside else first)
        for p in parts:
            self._assign(name, f"{name} & {p}")
        if self.unmasked and not serial:
            self._assign(name, f"{name} | {self.unmasked}")
        if not serial:
            self.kept[axis.name, want] = name
        return name

    def _is_masked_at_edges(self, e: Expr) -> bool:
        """Is a whole tile masked, in a loop that asks at each block whether to?"""
        axis, _ = e.attr
        layout = self._layout(e)
        is_whole = self._order(e.args[0].axes) == layout
        return is_whole and axis in self.edges and (axis, layout) not in self.kept

    def _mask_at_edges(self, s: Let) -> None:
        (axis, unit), name, layout = s.value.attr, self._local(s.name), self._layout(s.value)
        loop = next(x for x in reversed(self.loops) if x.axis.name == axis)
        value = self._value(s.value.args[0], layout, 0)
        self._assign(name, f"tl.cast({value}, tl.int64)" if s.value.kind == "int" else value)
        self._put(f"if {self.edges[axis]}:")
        self.indent += 1
        self._assign(name, self._where(self._domain_text(loop, layout), name, s.value.kind, unit))
        self.kept.pop((axis, layout), None)  # named under the condition only
        self.indent -= 1

    def _where(self, condition: str, value: str, kind: str, unit: float) -> str:
        """The value, or a monoid's unit."""
        other = _literal(unit, kind)
        if kind == "int":  # the unit may need all bits
            return f"tl.where({condition}, {value}, tl.full([], {other}, tl.int64))"
        return f"tl.where({condition}, {value}, {other})"

    def _admitted(self, loop: Loop, want: tuple[str, ...]) -> str:
        """What the mask admits; in segments without a mask all."""
        mask = next(s.value for s in loop.body if isinstance(s, Mask))
        text = self._spread(self.admitted[loop.axis.name], self._order(mask.axes), want)
        tests = [f"({segment} == {n})" for segment, n in self._unmasked_segments(loop)]
        return f"({' | '.join([text, *tests])})" if tests else text

    def _unmasked_segments(self, loop: Loop) -> list[tuple[str, int]]:
        """The name that counts a loop's segments, with the numbers of those without a mask."""
        name = self._name("segment", loop.axis.name, "segment")
        return [(name, n) for n, s in enumerate(loop.segments) if not s.masked]

    def _reduce(self, e: Expr, purpose: str = "") -> str:
        monoid, axis = e.attr
        operand = e.args[0]
        layout = self._layout(operand)
        text = self._value(operand, layout, 0)
        place = layout.index(axis)
        combine = _COMBINE.get(monoid)
        if combine is None or (combine != "multiply" and (e.kind != "float" or purpose)):
            return f"tl.{monoid}({text}, {place})"
        self.helpers[combine] = None
        return f"tl.reduce({text}, {place}, {combine})"

    def _product(self, e: Expr) -> str:
        """A product of two tiles on the matrix units, or by broadcasting where it is none."""
        if not self.operands.is_product(e):
            layout = self._order(e.args[0].axes | e.args[1].axes)
            operand = self._wide if not has_float(e) else self._value
            a, b = (operand(x, layout, _MUL) for x in e.args[:2])
            total = f"tl.sum({a} * {b}, {layout.index(e.attr)})"
            if len(e.args) > 2:
                return f"({self._text(e.args[2], None, _ADD)} + {total})"
            return total
        left, right = pair = self._operands(e)
        first, second = self._order(e.axes)
        a = self._side(left, (first, e.attr), right)
        b = self._side(right, (e.attr, second), left)
        if all(map(self._is_input, pair)) and not any(map(self._is_narrow, pair)):
            names = (self.lets[left.attr].attr, self.lets[right.attr].attr)
            if names not in self.shared:
                self.shared.append(names)
        if any(self._is_in_parts(*p) for p in (pair, pair[::-1])):
            self.helpers |= {"rounding_error": None, "dot_in_parts": None}
            acc = self._text(e.args[2]) if len(e.args) > 2 else "None"
            dtype = self._dtype_of_product(left, right) or self._dtype_of_product(right, left)
            return f"dot_in_parts({a}, {b}, {acc}, {dtype}, PRECISION)"
        initial = f", {self._text(e.args[2])}" if len(e.args) > 2 else ""
        return f"tl.dot({a}, {b}{initial}, input_precision=PRECISION)"

    def _side(self, e: Expr, want: tuple[str, ...], other: Expr) -> str:
        if self._is_in_parts(e, other):
            return self._text(e, want)
        text = self._text(_unconverted(e), want, _ATOM)
        dtype = self._dtype_of_product(e, other)
        return f"{text}.to({dtype})" if dtype else text

    def _is_in_parts(self, e: Expr, other: Expr) -> bool:
        """Is an operand multiplied in two parts? In float32 one is all there is."""
        return self.operands.is_in_parts(e) and self._dtype_of_product(e, other) is not None

    def _dtype_of_product(self, e: Expr, other: Expr) -> str | None:
        """What an operand is converted to. A tile of an input is multiplied as it is, and what
        kernels compute, also what they have stored, in the dtype of the tile that it meets. But
        nothing is rounded to 8 bits: an input of 8 bits is converted instead, except beside
        another one."""
        if self._is_input(e) and (not self._is_narrow(e) or self._is_narrow(other)):
            return None
        if self._is_input(other) and not self._is_narrow(other):
            return f"{self._local(other.attr)}.dtype"
        tensor = next((self.lets[n].attr for n in self.lets if self._loads_float(n)), None)
        if tensor is not None:
            return f"{self._pointer(tensor)}.dtype.element_ty"
        return "tl.bfloat16" if self.narrow else None

    def _loads_float(self, name: str) -> bool:
        e = self.lets[name]
        is_float = e.kind == "float" and e.attr not in self.narrow
        return self._is_read(e) and is_float and len(self._order(e.axes)) == 2

    def _is_input(self, e: Expr) -> bool:
        """Is this a tile of an input?"""
        return self._is_load(e) and self._is_read(self.lets[e.attr])

    def _is_narrow(self, e: Expr) -> bool:
        """Is this a tile of an input of 8 bits?"""
        return self._is_input(e) and self.lets[e.attr].attr in self.narrow

    def _is_read(self, e: Expr) -> bool:
        return e.op == "load" and not self.program.inputs[e.attr].is_stored


def _is_infinite(e: Expr) -> bool:
    """inf == abs(x)?"""
    a, b = e.args
    return e.attr == "==" and a.op == "number" and math.isinf(a.attr) and b.op == "abs"


_COMBINE = {"prod": "multiply", "max": "larger", "min": "smaller"}


def _unconverted(e: Expr) -> Expr:
    """The integers of an operand that is converted for a product: it takes them in its dtype."""
    return e.args[0] if e.op == "cast" and e.args[0].kind == "int" else e


def _is_remainder(e: Expr, extent: str) -> bool:
    """Is this a place below an extent, whatever was divided by it?"""
    divisor = e.args[1] if e.op == "mod" else None
    return divisor is not None and divisor.op == "extent" and divisor.attr == extent


def _is_never_zero(e: Expr) -> bool:
    """Is a divisor a positive number, or made of extents? Nothing is computed for an extent 0."""
    if e.op == "number":
        return bool(e.attr > 0)
    return e.op == "extent" or (bool(e.args) and all(map(_is_never_zero, e.args)))


def _literal(value: float, kind: str) -> str:
    if kind == "bool":
        return "True" if value else "False"
    if kind == "int" and math.isfinite(value):
        return str(int(value))
    if math.isinf(value):
        if kind == "int":
            return "9223372036854775807" if value > 0 else "-9223372036854775808"
        return 'float("inf")' if value > 0 else '-float("inf")'
    return repr(float(value))


def _grouped(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


__all__ = ["HELPERS", "KernelEmitter", "KernelSource"]
