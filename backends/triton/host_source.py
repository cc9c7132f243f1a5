"""The host function of an emitted file: sizes and checks, outputs, and a launch for each kernel."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from monocomp import terms as T
from monocomp.backends.triton.identifiers import Identifiers
from monocomp.backends.triton.kernel_source import KernelEmitter, KernelSource
from monocomp.backends.triton.layout import fit
from monocomp.backends.triton.schedule import MIN_DOT
from monocomp.blocks.program import SMALL_INT, Block
from monocomp.equations import Equations
from monocomp.errors import InternalError
from monocomp.nominal import without_elements
from monocomp.tile import Axis, OutputTensor, TileProgram

MANY_BLOCKS = 8  # of rows, whose reading takes longer than a copy, if rows are odd
# Names that the function uses itself.
HOST_NAMES = frozenset(
    ("config", "configs", "fast", "name", "precision", "programs", "shape", "t", "tensor", "wide")
) | {"TensorDescriptor", "empty"}


class HostSource:
    """Writes the function; kernels, sources and emitters belong together, one each."""

    def __init__(
        self,
        start: Equations,
        lowered: Equations,
        kernels: Sequence[TileProgram],
        sources: Sequence[KernelSource],
        emitters: Sequence[KernelEmitter],
        names: Identifiers,
        configs: Sequence[str],
        narrow: Collection[str],
    ) -> None:
        self.narrow = narrow
        self.start, self.program = start, start.declared
        self.lowered = lowered
        self.kernels, self.sources, self.emitters = kernels, sources, emitters
        self.names = names
        self.configs = configs
        self.aligns = any(map(self._aligned, kernels, emitters))
        self.out: list[str] = []

    def tensor(self, name: str) -> str:
        return self.names.of("tensor", name)

    def size(self, extent: str) -> str:
        return self.names.of("host size", extent, f"size_{extent.lstrip('.')}")

    def put(self, text: str, indent: int = 1) -> None:
        self.out.append("    " * indent + text if text else "")

    def lines(self, host: str, precision: str) -> list[str]:
        """The function."""
        tensors = [self.tensor(n) for n in self.program.inputs]
        params = []
        for p in self.program.params.values():
            default = "" if p.default is None else f"={_number(p.default)}"
            params.append(f"{self.names.of('param', p.name)}{default}")
        configs = _tuple(self.configs)
        self.out = [f"def {host}("]
        self.out += [f"    {t}," for t in tensors]
        self.out += ["    *,", *(f"    {p}," for p in params)]
        self.out += [f"    configs={configs},", f'    precision="{precision}",']
        self.out += ["    empty=torch.empty,", "    launch=launch,", "):"]
        self._doc()
        self._sizes()
        self._promote()
        self._outputs()
        for n, kernel in enumerate(self.kernels):
            self._launch(n, kernel)
        for name, packed in self.lowered.views.items():
            sizes = [self.size(i.attr[1]) for i in self.lowered.by_name[name].indices]
            text = f"{self.tensor(packed)}.view({', '.join(sizes)})"
            self.out += fit(f"{self.tensor(name)} = ", text, "", 1)
        results = [self.tensor(o.name) for o in self.program.outputs]
        self.put(f"return {', '.join(results)}")
        return self.out

    def _doc(self) -> None:
        shapes = []
        for i in self.program.inputs.values():
            dims = ", ".join(d.lstrip(".") for d in i.dims)
            shapes.append(f"{i.name} ({dims})")
        outs = [f"{e.name} ({', '.join(i.attr[0] for i in e.indices)})" for e in self.start.outputs]
        text = f"Computes {', '.join(outs)}."
        self.put('"""' + _clean(text))
        self.put("")
        self.put("Args:")
        for s in shapes:
            self.put(_clean(s) + ".", 2)
        self.put("configs: block lengths, warps, stages and order of each kernel.", 2)
        self.put('precision: of float32 products, "ieee" or "tf32".', 2)
        self.put("empty, launch: how tensors are allocated and kernels run.", 2)
        self.put('"""')

    def _sizes(self) -> None:
        known: set[str] = set()
        bounds = self.lowered.declared.bounds
        for i in self.program.inputs.values():
            for dim, extent in enumerate(self.program.extents(i.name)):
                if extent not in known and extent not in bounds:
                    known.add(extent)
                    self.put(f"{self.size(extent)} = {self.tensor(i.name)}.shape[{dim}]")
        for extent in sorted(bounds, key=self.lowered.parts.__contains__):
            if extent in self.lowered.parts:
                self._parts(extent, self.lowered.parts[extent])
            text = self._int(bounds[extent])
            self.out += fit(f"{self.size(extent)} = ", text, "", 1)
        entries = [
            f'("{n}", {self.tensor(n)}, {_tuple(list(map(self.size, self.program.extents(n))))})'
            for n in self.program.inputs
        ]
        if len(entries) == 1:
            self.put(f"for name, tensor, shape in ({entries[0]},):")
        else:
            self.put("for name, tensor, shape in (")
            for entry in entries:
                self.put(f"{entry},", 2)
            self.put("):")
        self.put("if tensor.shape != shape:", 2)
        self.put('raise ValueError(f"{name} has shape {tuple(tensor.shape)}, not {shape}")', 3)
        for extent in sorted(without_elements(self.lowered)):
            size = self.size(extent)
            self.put(f"if {size} != 0:")
            name = extent.lstrip(".")
            message = f"{name} has size {{{size}}}, and this file is for size 0"
            self.put(f'raise ValueError(f"{message}")', 2)

    def _parts(self, extent: str, param: str) -> None:
        """Into how many parts a stream is cut: as many as make the wanted number of program
        instances."""
        number = next(n for n, k in enumerate(self.kernels) if extent in k.parts)
        counts = self._counts(number, but=extent)
        config = f'configs[{number}]["PROGRAMS"]'
        self.out += fit("programs = ", " * ".join(counts) or "1", "", 1)
        name = self.names.of("param", param)
        self.put(f"{name} = max(1, {config} // max(1, programs))")

    def _counts(self, n: int, but: str | None = None) -> list[str]:
        """How many program instances there are along each axis of a kernel's grid."""
        counts = []
        for axis in (a for a in self.sources[n].grid if a.extent != but):
            size, block = self.size(axis.extent), self.emitters[n]._block(axis.name)
            is_row = axis.role == "row"
            text = f'triton.cdiv({size}, configs[{n}]["{block}"])' if is_row else size
            counts.append(text)
        return counts

    def _int(self, t: T.Term) -> str:
        """An integer expression over sizes and parameters, for the host."""
        match t.op:
            case "const":
                return str(int(t.attr))
            case "extent":
                return self.size(t.attr)
            case "param":
                return self.names.of("param", t.attr)
            case "add" | "mul":
                sign = " + " if t.op == "add" else " * "
                return "(" + sign.join(map(self._int, t.args)) + ")"
            case "pow":
                return f"({self._int(t.args[0])} ** {t.attr.numerator})"
            case "floordiv" | "mod":
                a, b = map(self._int, t.args)
                return f"({a} {'//' if t.op == 'floordiv' else '%'} {b})"
            case "maximum" | "minimum":
                return f"{t.op[:3]}({', '.join(map(self._int, t.args))})"
        raise InternalError(f"an extent cannot be {t.op}")

    def _floats(self) -> list[str]:
        """The inputs whose dtypes are promoted to that of the outputs."""
        found = [n for n, i in self.program.inputs.items() if i.kind == "float"]
        return [self.tensor(n) for n in found if n not in self.narrow]

    def _promote(self) -> None:
        floats = self._floats()
        if not floats:
            self.put(f"dtype = torch.{'bfloat16' if self.narrow else 'float32'}")
        else:
            self.put(f"dtype = {floats[0]}.dtype")
            if len(floats) > 1:
                self.put(f"for tensor in {_tuple(floats[1:])}:")
                self.put("dtype = torch.promote_types(dtype, tensor.dtype)", 2)
        if any(("option", "FAST", 0) in s.arguments for s in self.sources):
            first = self.tensor(next(iter(self.program.inputs)))
            self.put(f"fast = {first}.is_cuda and torch.version.hip is None")
            self.put("fast = fast and dtype.itemsize == 2")
        pairs = dict.fromkeys(p for s in self.sources for p in s.shared)
        for a, b in pairs:
            x, y = self.tensor(a), self.tensor(b)
            if x != y:
                self.put(f"if {x}.dtype != {y}.dtype:  # one product takes both")
                self.put(f"{x}, {y} = {x}.to(dtype), {y}.to(dtype)", 2)

    def _outputs(self) -> None:
        first = self.tensor(next(iter(self.program.inputs)))
        for kernel in self.kernels:
            for o in kernel.outputs:
                shape = _tuple([self.size(kernel.axes[a].extent) for a in o.axes])
                text = f"empty({shape}, dtype={_dtype(o)}, device={first}.device)"
                self.out += fit(f"{self.tensor(o.name)} = ", text, "", 1)
        for kernel, source in zip(self.kernels, self.sources, strict=True):
            for axis in source.grid:
                self._refuse_nothing(kernel, axis)

    def _refuse_nothing(self, kernel: TileProgram, axis: Axis) -> None:
        """Along an axis without elements nothing runs: that leaves out outputs that lack it."""
        others = [self.tensor(o.name) for o in kernel.outputs if axis.name not in o.axes]
        if others:
            elements = " + ".join(f"{t}.numel()" for t in others)
            self.out += fit(f"if {self.size(axis.extent)} == 0 < ", elements, ":", 1)
            name = axis.extent.lstrip(".")
            self.put(f'raise ValueError("{name} has size 0, and this file is for larger ones")', 2)

    def _launch(self, n: int, kernel: TileProgram) -> None:
        source, emitter = self.sources[n], self.emitters[n]
        tensors = [self.tensor(x) for x in (*kernel.inputs, *(o.name for o in kernel.outputs))]
        self.put(f"config = configs[{n}]{'.copy()' if kernel.parts or source.blocks else ''}")
        if kernel.parts:
            self.put('config.pop("PROGRAMS")')
        counts = []
        for axis in source.grid:
            size = self.size(axis.extent)
            block = emitter._block(axis.name)
            counts.append(f'triton.cdiv({size}, config["{block}"])' if axis.role == "row" else size)
        self._align(kernel, emitter)
        self.put(f"wide = any(span(t) >= 2**31 for t in {_tuple(tensors)})")
        if source.added:
            added = _tuple([self.names.of("param", name) for name in source.added])
            self.put(f"wide = wide or any(abs(n) >= {SMALL_INT} for n in {added})")
        self.out += fit("programs = ", " * ".join(counts) or "1", "", 1)
        for axis in kernel.axes.values():
            if axis.after is not None:
                both = [self._length(kernel, kernel.axes[a]) for a in (axis.after, axis.name)]
                self.put(f"{', '.join(both)} = two_tiles({self.size(axis.extent)})")
        if source.blocks:
            self._descriptors(kernel, emitter)
        self.put("launch(")
        self.put(f"{source.name},", 2)
        self.put("programs,", 2)
        for purpose, name, dim in source.arguments:
            self._argument(kernel, emitter, purpose, name, dim)
        self.put("**config,", 2)
        self.put(")")

    def _aligned(self, kernel: TileProgram, emitter: KernelEmitter) -> list[str]:
        """The inputs whose rows, held entirely, blocks of other rows read again and again."""
        if not kernel.axis_names("row"):
            return []
        held = (b.tensor for b in emitter.descriptors if kernel.axes[b.tile[-1]].role == "whole")
        return [n for n in dict.fromkeys(held) if n in self.program.inputs]

    def _align(self, kernel: TileProgram, emitter: KernelEmitter) -> None:
        """Copies of these, where enough blocks read them to pay for that."""
        names = [self.tensor(n) for n in self._aligned(kernel, emitter)]
        if not names:
            return
        counts = []
        for a in kernel.axis_names("row"):
            block = f'config["{emitter._block(a)}"]'
            counts.append(f"triton.cdiv({self.size(kernel.axes[a].extent)}, {block})")
        self.out += fit("if ", " * ".join(counts), f" >= {MANY_BLOCKS}:", 1)
        for name in names:
            self.out += fit(f"{name} = ", f"aligned({name}, empty, launch)", "", 2)

    def _descriptors(self, kernel: TileProgram, emitter: KernelEmitter) -> None:
        """What loads the blocks of tensors, where the schedule wants it so."""
        names = [self._described(emitter, block) for block in emitter.descriptors]
        self.put(f"{' = '.join(names)} = None")
        self.put('if config.pop("DESCRIPTORS") and not wide:')
        for name, block in zip(names, emitter.descriptors, strict=True):
            lengths = ", ".join(self._side(kernel, emitter, a) for a in block.axes)
            text = f"descriptor({self.tensor(block.tensor)}, [{lengths}])"
            self.out += fit(f"{name} = ", text, "", 2)

    def _side(self, kernel: TileProgram, emitter: KernelEmitter, axis: str | None) -> str:
        """How long a block is along an axis; 1 along none."""
        if axis is None:
            return "1"
        if kernel.axes[axis].role == "whole":
            return self._length(kernel, kernel.axes[axis])
        return f'config["{emitter._block(axis)}"]'

    def _described(self, emitter: KernelEmitter, block: Block) -> str:
        return self.names.of("descriptor", repr(block), emitter.descriptor(block))

    def _length(self, kernel: TileProgram, axis: Axis) -> str:
        """The length of the tile of an axis that is held entirely."""
        if axis.after or _is_first(kernel, axis):
            return self.names.of("length", axis.name, f"length_{axis.name}")
        return f"max({MIN_DOT}, triton.next_power_of_2({self.size(axis.extent)}))"

    def _is_even(self, kernel: TileProgram, axis: Axis) -> str:
        """Is no element of the tile beyond the end of the axis?"""
        size, length = self.size(axis.extent), self._length(kernel, axis)
        if axis.after:
            return f"{size} == {self._length(kernel, kernel.axes[axis.after])} + {length}"
        return f"{size} {'>=' if _is_first(kernel, axis) else '=='} {length}"

    def _argument(
        self,
        kernel: TileProgram,
        emitter: KernelEmitter,
        purpose: str,
        name: str,
        dim: int,
    ) -> None:
        match purpose:
            case "pointer":
                self.put(f"{self.tensor(name)},", 2)
            case "descriptor":
                self.put(f"{self._described(emitter, emitter.descriptors[dim])},", 2)
            case "stride":
                self.put(f"{self.tensor(name)}.stride({dim}),", 2)
            case "size":
                self.put(f"{self.size(name)},", 2)
            case "param":
                self.put(f"{self.names.of('param', name)},", 2)
            case "block" if kernel.axes[name].role == "whole":
                length = self._length(kernel, kernel.axes[name])
                self.put(f"{emitter._block(name)}={length},", 2)
            case "even":
                axis = kernel.axes[name]
                size = self.size(axis.extent)
                block = f'config["{emitter._block(name)}"]'
                if axis.role == "whole":
                    even = self._is_even(kernel, axis)
                else:
                    even = f"{size} % {block} == 0"
                self.put(f"{emitter._even(name)}={even},", 2)
            case "option" if name == "INDEX":
                self.put("INDEX=tl.int64 if wide else tl.int32,", 2)
            case "option" if name == "STEP":
                pairs = (f"({self.tensor(t)}, {dim})" for t, dim in emitter.held.items())
                self.out += fit("STEP=", f"step({', '.join(pairs)})", ",", 2)
            case "option" if name == "FAST":
                self.put("FAST=fast,", 2)
            case "option":
                self.put("PRECISION=precision,", 2)


def _is_first(kernel: TileProgram, axis: Axis) -> bool:
    """Is this the first of two tiles?"""
    return any(a.after == axis.name for a in kernel.axes.values())


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _dtype(output: OutputTensor) -> str:
    if output.is_stored and output.kind == "float":
        return "torch.float32"
    if output.dtype is not None:
        return f"torch.{output.dtype}"
    return {"float": "dtype", "int": "torch.int64", "bool": "torch.bool"}[output.kind]


def _clean(text: str) -> str:
    return text.replace("\\", "").replace('"', "")


def _number(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    return repr(value)
