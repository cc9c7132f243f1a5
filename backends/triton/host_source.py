"""Host programs as the host functions of emitted files."""

from __future__ import annotations

from collections.abc import Sequence

from monocomp.backends.identifiers import Identifiers
from monocomp.backends.line_breaks import fill, fit, tuple_text
from monocomp.backends.schedules.schedule import MIN_DOT
from monocomp.blocks.program import SMALL_INT
from monocomp.host import arguments as A
from monocomp.host import program as H
from monocomp.terms.equations import Equations

# Names that the function uses itself.
HOST_NAMES = frozenset(
    ("config", "configs", "fast", "name", "precision", "programs", "shape", "t", "tensor", "wide")
) | {"TensorDescriptor", "dtypes", "empty", "grid", "operands"}


class HostSource:
    """Writes the function.

    Args:
        start: the program before any rewrite, for parameters and the docstring.
        host: the host program.
        names: those of the file.
        configs: the names of the schedules, one a kernel.
    """

    empty = "empty"  # what allocates

    def __init__(
        self, start: Equations, host: H.HostProgram, names: Identifiers, configs: Sequence[str]
    ) -> None:
        self.start, self.host = start, host
        self.names = names
        self.configs = configs
        self.out: list[str] = []
        self.depth = 0  # of loops

    def tensor(self, name: str) -> str:
        return self.names.of("tensor", name)

    def size(self, extent: str) -> str:
        """A size, or the number that it is known to be."""
        if extent in self.host.known:
            return str(self.host.known[extent])
        return self.names.of("host size", extent, f"size_{extent.lstrip('.')}")

    def param(self, name: str) -> str:
        return self.names.of("param", name)

    def descriptor(self, d: A.Descriptor) -> str:
        return self.names.of("descriptor", d.key, d.parameter)

    def setting(self, name: str, kernel: int | None = None) -> str:
        """Write a setting of a kernel's schedule; None stands for the kernel to be launched."""
        return f'config["{name}"]' if kernel is None else f'configs[{kernel}]["{name}"]'

    def put(self, text: str, indent: int = 1) -> None:
        self.out.append("    " * (indent + self.depth) + text if text else "")

    def fit(self, before: str, text: str, after: str = "", indent: int = 1) -> None:
        self.out += fit(before, text, after, indent + self.depth)

    def lines(self, host: str, precision: str) -> list[str]:
        """The function."""
        declared = self.start.declared
        keywords = [*self.params(), f"configs={tuple_text(self.configs)}"]
        keywords += [f'precision="{precision}"', "empty=torch.empty", "launch=launch"]
        tensors = map(self.tensor, declared.inputs)
        self.out = fill(f"def {host}(", [*tensors, "*", *keywords], "):", 0)
        self._doc()
        for s in self.host.body:
            self._statement(s)
        return self.out

    def params(self) -> list[str]:
        """The parameters with their defaults."""
        params = []
        for p in self.start.declared.params.values():
            default = "" if p.default is None else f"={_number(p.default)}"
            params.append(f"{self.param(p.name)}{default}")
        return params

    def purpose(self) -> str:
        """The first line of the docstring."""
        outs = [f"{e.name} ({', '.join(i.attr[0] for i in e.indices)})" for e in self.start.outputs]
        return f"Computes {', '.join(outs)}."

    def _doc(self) -> None:
        self.put(f'"""{self.purpose()}')
        self.put("")
        self.put("Args:")
        for i in self.start.declared.inputs.values():
            dims = ", ".join(d.lstrip(".") for d in i.dims)
            self.put(f"{i.name} ({dims}).", 2)
        self.put("configs: block lengths, warps, stages and order of each kernel.", 2)
        self.put('precision: of float32 products, "ieee" or "tf32".', 2)
        self.put("empty, launch: how tensors are allocated and kernels run.", 2)
        self.put('"""')

    def _statement(self, s: H.Statement) -> None:
        match s:
            case H.Bound() if s.extent in self.host.known:
                pass
            case H.Sizes():
                self._sizes(s)
            case H.Bound():
                self.fit(f"{self.size(s.extent)} = ", self.number(s.value))
            case H.Split():
                self.fit("programs = ", self.number(s.others, s.kernel))
                wanted = self.setting(A.PROGRAMS, s.kernel)
                self.put(f"{self.param(s.param)} = max(1, {wanted} // max(1, programs))")
            case H.SplitPadding():
                both = ", ".join(self.number(A.length(axis)) for axis in (s.first, s.second))
                self.put(f"{both} = split_lengths({self.size(s.extent)})")
            case H.CheckShapes():
                self._shapes(s)
            case H.CheckEmpty():
                size, name = self.size(s.extent), s.extent.lstrip(".")
                self.put(f"if {size} != 0:")
                message = f"{name} has size {{{size}}}, and this file is for size 0"
                self.put(f'raise ValueError(f"{message}")', 2)
            case H.CheckSome():
                elements = " + ".join(f"{self.tensor(n)}.numel()" for n in s.buffers)
                self.fit(f"if {self.size(s.extent)} == 0 < ", elements, ":")
                what = f"{s.extent.lstrip('.')} has size 0, and this file is for larger ones"
                self.put(f'raise ValueError("{what}")', 2)
            case H.Promote():
                floats = [self.tensor(n) for n in s.tensors]
                self.fit("dtype = ", _promoted(floats) or f"torch.{s.default}")
                if floats or s.default == "bfloat16":
                    self.fit("dtypes = ", tuple_text([f"{x}.dtype" for x in floats] or ["dtype"]))
                    self.put("if triton.knobs.runtime.interpret and torch.bfloat16 in dtypes:")
                    what = "Triton interprets the bits of bfloat16: give float32"
                    self.put(f'raise ValueError("{what}")', 2)
            case H.Convert():
                names = list(map(self.tensor, s.tensors))
                self.put(f"operands = {tuple_text(names)}")
                self.put("if len({t.dtype for t in operands}) > 1:  # one product takes both")
                self.put(f"{', '.join(names)} = (t.to(dtype) for t in operands)", 2)
            case H.Buffer():
                first = self.tensor(next(iter(self.start.declared.inputs)))
                shape = tuple_text([self.size(e) for e in s.shape])
                dtype = _promoted([self.tensor(n) for n in s.beside]) or _dtype(s.dtype)
                text = f"{self.empty}({shape}, dtype={dtype}, device={first}.device)"
                self.fit(f"{self.tensor(s.name)} = ", text)
            case H.Clear():
                self.put(f"clear({self.tensor(s.tensor)}, launch)")
            case H.Free():
                described = (
                    d
                    for x in self.host.statements()
                    if isinstance(x, H.Describe)
                    for d in x.descriptors
                )
                held = {self.descriptor(d): None for d in described if d.tensor in s.tensors}
                self.fit("del ", ", ".join([*map(self.tensor, s.tensors), *held]))
            case H.Sort():
                tensor, *names = map(self.tensor, (s.tensor, s.order, s.first, s.last))
                kept = tuple_text([*map(str, s.kept)])
                self.fit("", f"sort_positions({', '.join([tensor, *names, kept])})")
            case H.Align():
                if s.least:
                    self.fit("if ", self.number(s.programs), f" >= {s.least}:")
                for name in map(self.tensor, s.tensors):
                    aligned = f"aligned({name}, empty, launch)"
                    self.fit(f"{name} = ", aligned, indent=1 + bool(s.least))
            case H.View():
                sizes = ", ".join(map(self.size, s.shape))
                self.fit(f"{self.tensor(s.name)} = ", f"{self.tensor(s.tensor)}.view({sizes})")
            case H.Choose():
                self.put(f"config = configs[{s.kernel}]{'.copy()' if s.host else ''}")
                if A.PROGRAMS in s.host:
                    self.put(f'config.pop("{A.PROGRAMS}")')
            case H.Fast():
                cuda = f"{self.tensor(s.tensor)}.is_cuda and torch.version.hip is None"
                self.put(f"fast = {cuda}")
                self.put("fast = fast and dtype.itemsize == 2")
            case H.Wide():
                tensors = tuple_text([self.tensor(n) for n in s.tensors])
                self.put(f"wide = any(span(t) >= 2**31 for t in {tensors})")
                if s.params:
                    params = tuple_text([self.param(n) for n in s.params])
                    self.put(f"wide = wide or any(abs(n) >= {SMALL_INT} for n in {params})")
            case H.Programs():
                self.fit("programs = ", self.number(s.value))
            case H.Describe():
                self._describe(s)
            case H.Launch():
                arguments = map(self._argument, s.arguments)
                given = [s.name, "programs", *arguments, "**config"]
                self.out += fill("launch(", given, ")", 1 + self.depth)
            case H.Slices():
                self._slices(s)
            case H.Return():
                self.put(f"return {', '.join(map(self.tensor, s.tensors))}")

    def _sizes(self, s: H.Sizes) -> None:
        shape = f"{self.tensor(s.tensor)}.shape"
        match [(dim, e) for dim, e in enumerate(s.extents) if e is not None]:
            case [(dim, extent)] if len(s.extents) > 1:
                self.put(f"{self.size(extent)} = {shape}[{dim}]")
            case _:
                names = ["_" if e is None else self.size(e) for e in s.extents]
                self.put(f"{tuple_text(names) if len(names) == 1 else ', '.join(names)} = {shape}")

    def _slices(self, s: H.Slices) -> None:
        start = self.names.of("start", s.part, f"start_{s.whole.lstrip('.')}")
        if s.start is not None:
            start = self.param(s.start)
        size, whole = self.size(s.part), self.size(s.whole)
        self.put(f"for {start} in range(0, {whole}, {s.length}):")
        self.depth += 1
        self.put(f"{size} = min({s.length}, {whole} - {start})")
        for view in s.views:
            part = f"{self.tensor(view.tensor)}.narrow({view.dim}, {start}, {size})"
            self.fit(f"{self.tensor(view.name)} = ", part)
        for inner in s.body:
            self._statement(inner)
        self.depth -= 1

    def _shapes(self, s: H.CheckShapes) -> None:
        entries = [
            f'("{t.tensor}", {self.tensor(t.tensor)}, {tuple_text(list(map(self.size, t.shape)))})'
            for t in s.tensors
        ]
        self.fit("for name, tensor, shape in ", tuple_text(entries), ":")
        self.put("if tensor.shape != shape:", 2)
        self.put('raise ValueError(f"{name} has shape {tuple(tensor.shape)}, not {shape}")', 3)

    def _describe(self, s: H.Describe) -> None:
        if not s.is_required:
            self.put(f"{' = '.join(map(self.descriptor, s.descriptors))} = None")
            self.put(f'if config.pop("{A.DESCRIPTORS}") and not wide:')
        for d in s.descriptors:
            text = f"descriptor({self.tensor(d.tensor)}, [{self.block(d)}])"
            self.fit(f"{self.descriptor(d)} = ", text, indent=1 if s.is_required else 2)
        if s.is_required:
            found = tuple_text(list(map(self.descriptor, s.descriptors)))
            self.put(f"if wide or any(x is None for x in {found}):")
            what = "descriptors cannot load blocks of a tensor: its dtype or layout is another"
            self.fit("raise ", f'ValueError("{what}")', indent=2)

    # --- expressions --------------------------------------------------------------------

    def number(self, n: A.Number, kernel: int | None = None) -> str:
        """Write a number, under the schedule of the next kernel or under another one's."""

        def leaf(n: A.Number) -> str:
            match n.op:
                case "size":
                    return self.size(n.attr)
                case "param":
                    return self.param(n.attr)
                case "setting":
                    return self.setting(n.attr, kernel)
                case "length":
                    return self.names.of("length", n.attr, f"length_{n.attr}")
            return str(n.attr)

        return n.written(leaf, _call)

    def block(self, d: A.Descriptor) -> str:
        """The lengths of a descriptor's blocks."""
        return ", ".join("1" if n is None else self.number(n) for n in d.lengths)

    def _argument(self, a: A.Argument) -> str:
        name = "" if a.is_positional else f"{a.parameter}="
        return name + self._text(a.value)

    def _text(self, value: A.Value) -> str:
        """Write an argument of a kernel."""
        match value:
            case A.Pointer():
                return self.tensor(value.tensor)
            case A.Descriptor():
                return self.descriptor(value)
            case A.Stride():
                return f"{self.tensor(value.tensor)}.stride({value.dim})"
            case A.Number():
                return self.number(value)
            case A.Step():
                pairs = (f"({self.tensor(held.tensor)}, {held.dim})" for held in value.held)
                return f"step({', '.join(pairs)})"
            case A.Flag("index"):
                return "tl.int64 if wide else tl.int32"
        return value.name


def _call(called: str, args: Sequence[str]) -> str:
    """Write a function of numbers."""
    match called:
        case "cdiv":
            return f"triton.cdiv({', '.join(args)})"
        case "tile":
            return f"max({MIN_DOT}, triton.next_power_of_2({args[0]}))"
        case "holds":
            return f"0 < {args[1]} <= {args[0]}"
    return f"{called}({', '.join(args)})"


def _promoted(tensors: Sequence[str]) -> str:
    """The dtype to which those of tensors are promoted."""
    found = f"{tensors[0]}.dtype" if tensors else ""
    for x in tensors[1:]:
        found = f"torch.promote_types({found}, {x}.dtype)"
    return found


def _dtype(name: str) -> str:
    return {"promoted": "dtype", "accumulated": "torch.float32"}.get(name, f"torch.{name}")


def _number(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    return repr(value)
