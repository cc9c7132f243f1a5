"""What must hold of a host program: every name means something where it is used, shapes have the
ranks that kernels take, and every parameter of a kernel is given once."""

from __future__ import annotations

from monocomp import terms as T
from monocomp.errors import InternalError
from monocomp.host.program import (
    POSITIONAL,
    Align,
    Bound,
    Buffer,
    CheckEmpty,
    CheckShapes,
    CheckSome,
    Choose,
    Convert,
    Count,
    Describe,
    Descriptor,
    Even,
    Extent,
    Fast,
    Flag,
    HostProgram,
    Launch,
    Length,
    Param,
    Pointer,
    Programs,
    Promote,
    Return,
    Size,
    Split,
    Statement,
    Step,
    Stride,
    TwoTiles,
    Value,
    View,
    Wide,
)


def verify(program: HostProgram) -> None:
    """Raises InternalError, which shows the program, where it is not one."""
    checking = _Verifier(program)
    for s in program.body:
        checking.check(s)
    if not program.body or not isinstance(program.body[-1], Return):
        checking.fail("it does not end with its results")


class _Verifier:
    def __init__(self, program: HostProgram) -> None:
        self.program = program
        self.tensors: dict[str, int] = dict(program.inputs)  # ranks
        self.params = {*program.params}
        self.sizes: set[str] = set()
        self.lengths: set[str] = set()
        self.descriptors: set[str] = set()
        self.flags = {"precision"}
        self.config: set[str] | None = None  # the parameters that the schedule gives
        self.has_programs = self.has_dtype = self.is_done = False

    def fail(self, what: str) -> None:
        raise InternalError(f"no host program: {what}", notes=[str(self.program)])

    def need(self, condition: bool, what: str) -> None:
        if not condition:
            self.fail(what)

    def tensor(self, name: str, rank: int | None = None) -> None:
        known = self.tensors.get(name)
        self.need(known is not None, f"the tensor {name} is not defined")
        self.need(rank in (None, known), f"{name} has {known} dimensions, not {rank}")

    def size(self, *names: str) -> None:
        for name in names:
            self.need(name in self.sizes, f"the size of {name} is not defined")

    def grid(self, grid: tuple[Count, ...], parameters: set[str] | None) -> None:
        for count in grid:
            self.size(count.extent)
            if count.block is not None:
                self.need(count.block in (parameters or ()), f"no schedule gives {count.block}")

    def new(self, name: str, rank: int) -> None:
        self.need(name not in self.tensors, f"{name} is defined twice")
        self.tensors[name] = rank

    def check(self, s: Statement) -> None:
        self.need(not self.is_done, "something follows its results")
        match s:
            case Size():
                self.tensor(s.tensor)
                self.need(s.dim < self.tensors[s.tensor], f"{s.tensor} has no dimension {s.dim}")
                self.sizes.add(s.extent)
            case Bound():
                for t in T.subterms(s.value):
                    if t.op == "extent":
                        self.size(t.attr)
                    self.need(t.op != "param" or t.attr in self.params, f"{t.attr} is not defined")
                self.sizes.add(s.extent)
            case Split():
                self.grid(s.grid, {*self.program.kernels[s.kernel].scheduled})
                self.params.add(s.param)
            case TwoTiles():
                self.size(s.extent)
                self.lengths |= {s.first, s.second}
            case CheckShapes():
                for name, extents in s.tensors:
                    self.tensor(name, len(extents))
                    self.size(*extents)
            case CheckEmpty():
                self.size(s.extent)
            case CheckSome():
                self.size(s.extent)
                for name in s.buffers:
                    self.tensor(name)
            case Promote():
                for name in s.tensors:
                    self.tensor(name)
                self.has_dtype = True
            case Convert():
                self.need(self.has_dtype, "a conversion to no dtype")
                self.tensor(s.left)
                self.tensor(s.right)
            case Buffer():
                self.need(self.has_dtype, f"{s.name} has no dtype")
                self.size(*s.shape)
                self.new(s.name, len(s.shape))
            case Align():
                self.grid(s.rows, self.config)
                for name in s.tensors:
                    self.tensor(name)
            case View():
                self.tensor(s.tensor)
                self.size(*s.shape)
                self.new(s.name, len(s.shape))
            case Choose():
                self.config = {*self.program.kernels[s.kernel].scheduled}
                self.flags.discard("index")
                self.descriptors, self.has_programs = set(), False
            case Fast():
                self.tensor(s.tensor)
                self.flags.add("fast")
            case Wide():
                for name in s.tensors:
                    self.tensor(name)
                self.need({*s.params} <= self.params, f"{s.params} are not all defined")
                self.flags.add("index")
            case Programs():
                self.grid(s.grid, self.config)
                self.has_programs = True
            case Describe():
                for d in s.descriptors:
                    self.tensor(d.tensor, len(d.lengths))
                    for length in d.lengths:
                        if length is not None:
                            self.length(length)
                    self.descriptors.add(d.parameter)
            case Launch():
                self.launch(s)
            case Return():
                for name in s.tensors:
                    self.tensor(name)
                self.is_done = True

    def launch(self, s: Launch) -> None:
        kernel = self.program.kernels[s.kernel]
        self.need(s.name == kernel.name, f"{s.name} is not kernel {s.kernel}")
        self.need(self.has_programs or not kernel.scheduled, f"{s.name} has no program instances")
        given = [a.parameter for a in s.arguments]
        chosen = [p for p in kernel.parameters if p in kernel.scheduled]
        self.need(sorted(given + chosen) == sorted(kernel.parameters), f"{s.name} lacks arguments")
        places = [n for n, a in enumerate(s.arguments) if isinstance(a.value, POSITIONAL)]
        is_first = [*kernel.parameters[: len(places)]] == [given[n] for n in places]
        self.need(is_first, f"{s.name} takes its arguments in another order")
        ranks = dict(kernel.ranks)
        for a in s.arguments:
            self.value(a.value, ranks)

    def length(self, length: Length) -> None:
        self.size(length.extent)
        if length.tile == "block":
            self.need(length.parameter in (self.config or ()), f"no length {length}")
        elif length.tile != "one":
            self.need(length.axis in self.lengths, f"no length of {length.axis}")

    def value(self, value: Value, ranks: dict[str, int]) -> None:
        match value:
            case Pointer():
                self.tensor(value.tensor, ranks.get(value.tensor))
            case Descriptor():
                self.need(value.parameter in self.descriptors, f"no {value.parameter}")
            case Stride():
                self.tensor(value.tensor, ranks.get(value.tensor))
                self.need(value.dim < self.tensors[value.tensor], f"no dimension {value.dim}")
            case Extent():
                self.size(value.name)
            case Param():
                self.need(value.name in self.params, f"{value.name} is not defined")
            case Length():
                self.length(value)
            case Even():
                self.length(value.length)
            case Step():
                for name, dim in value.held:
                    self.tensor(name)
                    self.need(dim < self.tensors[name], f"{name} has no dimension {dim}")
            case Flag():
                self.need(value.name in self.flags, f"the flag {value.name} is not defined")
