"""Names, axes, and lines of one kernel: what everything that writes parts of it needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from monocomp.backends.triton.descriptors import Block, described_loads
from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS
from monocomp.backends.triton.identifiers import LAUNCH, Identifiers
from monocomp.backends.triton.layout import fit
from monocomp.backends.triton.operands import Operands, unconverted
from monocomp.errors import InternalError
from monocomp.tile import Expr, Let, Loop, Statement, TileProgram, expressions, walk


class KernelWriter(ABC):
    """Writes the lines of one kernel, in names that the program cannot choose."""

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
        reserved = {*LAUNCH, *DEVICE_FUNCTIONS, kernel_name, *self.function_names.values()}
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
        self.single: set[str] = set()  # axes of which just a block's first element counts
        self.flipped = self._flipped_loads()
        self.described = described_loads(program)
        self.descriptors: list[Block] = []
        # By axis: which blocks end only with their tensors, as a test; empty for all of them.
        self.covered: dict[str, str] = {}
        self.bases: dict[str, str] = {}
        self.known: set[str] = set()
        self.loops: list[Loop] = []
        self.unmasked: dict[str, str] = {}  # by axis: the part of a loop without masks, as a test
        self.edges: dict[str, str] = {}  # by axis: is a block to be masked?
        self.runs: set[str] = set()  # axes that are streamed run by run
        self.aligned: set[str] = set()  # axes whose places in the first block have a name
        # By axis: blocks begin at multiples of this number; if it is 0, of their own length.
        self.divisors: dict[str, int] = {}
        # By axis: where a block that slides would begin, and where elements end.
        self.sliding: dict[str, tuple[str, str]] = {}
        self.admitted: dict[str, str] = {}
        self.kept: dict[tuple[str, tuple[str, ...]], str] = {}
        self.fast = "FAST"  # may functions be as accurate as 16-bit results?

    def _name(self, purpose: str, name: str, wanted: str | None = None) -> str:
        return self.names.of(purpose, name, wanted)

    def _axis(self, axis: str) -> str:
        if axis in self.single:
            return self._name("first", axis)
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
        """Names for the dimensions of a tensor: their extents, or the axes of an output."""
        if tensor in self.program.inputs:
            return self.program.inputs[tensor].dims
        return self._dims_of_outputs[tensor]

    @cached_property
    def _dims_of_outputs(self) -> dict[str, tuple[str, ...]]:
        found = {}
        for o in self.program.outputs:
            places = zip(o.dims, self.program.stores(o.name)[0].places, strict=True)
            found[o.name] = tuple(p.attr if p.op == "coordinate" else dim for dim, p in places)
        return found

    def _dim(self, tensor: str, dim: int) -> str:
        dims = self._dims(tensor)
        name = dims[dim].lstrip(".")
        return name if dims.count(dims[dim]) == 1 else f"{name}{dim}"

    def _order(self, axes: Iterable[str]) -> tuple[str, ...]:
        axes = (a for a in axes if a not in self.single)
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
                _, b = map(unconverted, self._operands(e))
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

    def _put(self, line: str = "") -> None:
        self.lines.append("    " * self.indent + line if line else "")

    def _assign(self, target: str, text: str) -> None:
        """`target = text`, broken over lines as a formatter would."""
        self._fit(f"{target} = ", text, "")

    def _fit(self, before: str, text: str, after: str) -> None:
        self.lines += fit(before, text, after, self.indent)

    def _inside(self, axis: str) -> str:
        return self._name("inside", axis, f"in_{axis}")

    def _streams(self, axis: str) -> bool:
        return self.program.axes[axis].role == "stream"

    def _meaning(self, e: Expr) -> Expr:
        """What a name stands for."""
        return self.lets.get(e.attr, e) if e.op == "local" else e

    def _bound(self, axis: str, purpose: str) -> str:
        return self._name(purpose, axis, f"{purpose}_{axis}")

    def _set(self, axis: str, purpose: str, text: str) -> str:
        """Name a bound, but for literals and sizes."""
        if text.isidentifier() or text.isdigit():
            return text
        name = self._name(purpose, axis, f"{purpose}_{axis}")
        self._assign(name, text)
        return name

    def _shape(self, layout: tuple[str, ...]) -> str:
        return ", ".join(self._block(a) for a in layout)

    def _all_inside(self, layout: tuple[str, ...]) -> list[str]:
        """Masks of a tile's elements that are outside of a block; of blocks that slide none is."""
        axes = (a for a in layout if a not in self.sliding)
        return [self._spread(self._inside(a), (a,), layout) for a in axes]

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

    def _is_load(self, e: Expr) -> bool:
        return e.op == "local" and e.attr in self.lets and self.lets[e.attr].op == "load"

    @abstractmethod
    def _body(self, body: list[Statement]) -> None:
        """Write statements, those of loops and combines too."""
