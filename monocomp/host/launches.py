"""Statements of host programs about kernels: schedules, launches, loops over slices, results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from monocomp.blocks import SMALL_INT
from monocomp.declarations.record import record
from monocomp.errors import UnsupportedError
from monocomp.host.arguments import (
    DESCRIPTORS,
    PROGRAMS,
    Adding,
    Argument,
    Descriptor,
    ExtentName,
    Flag,
    Node,
    Number,
    ParamName,
    Pointer,
    Statement,
    TensorName,
    shown,
)
from monocomp.host.evaluation import Evaluation
from monocomp.host.plan import Launched
from monocomp.host.writer import Writer


def _not_described(name: str, tensor: Any) -> UnsupportedError:
    return UnsupportedError(
        f"this backend loads {name} by descriptors, and none fits it",
        notes=[
            f"its shape is {tuple(tensor.shape)}, its strides {tensor.stride()}, and its "
            f"dtype {str(tensor.dtype).removeprefix('torch.')}",
            "descriptors take elements of 16 bits without gaps in the last dimension, "
            "other strides that 16 bytes divide, no size of 0, and offsets below 2**31",
        ],
        help=f"give {name}.to(torch.bfloat16).contiguous(), or compile with backend='triton'",
    )


@record()
class Choose(Statement):
    """A kernel's schedule, up to its launch; `host` are those of its choices that are the host's
    alone."""

    kernel: int
    host: tuple[str, ...]

    text = "schedule of kernel {kernel}"

    def run(self, call: Evaluation) -> None:
        call.config = dict(call.configs[self.kernel])
        call.is_described = bool(call.config.pop(DESCRIPTORS, False))
        call.config.pop(PROGRAMS, None)

    def write(self, out: Writer) -> None:
        out.put(f"config = configs[{self.kernel}]{'.copy()' if self.host else ''}")
        if PROGRAMS in self.host:
            out.put(f'config.pop("{PROGRAMS}")')


@record()
class Fast(Statement):
    """A flag: true if functions need only be as accurate as results of 16 bits, on a tensor's
    device."""

    tensor: TensorName

    text = "fast = results of 16 bits, {tensor} on CUDA"

    def run(self, call: Evaluation) -> None:
        call.is_fast = call.scheduled.is_fast(call.tensors[self.tensor], call.dtype)

    def write(self, out: Writer) -> None:
        out.put(f"fast = {out.tensor(self.tensor)}.is_cuda and torch.version.hip is None")
        out.put("fast = fast and dtype.itemsize == 2")


@record()
class Wide(Statement):
    """The type of indices: wider than 32 bits if offsets, or sums with parameters, may not fit."""

    tensors: tuple[TensorName, ...]
    params: tuple[ParamName, ...]

    text = "index = int that holds offsets of {tensors}; params {params}"

    def run(self, call: Evaluation) -> None:
        params = [call.params[n] for n in self.params]
        call.is_wide = call.scheduled.is_wide([call.tensors[n] for n in self.tensors], params)

    def write(self, out: Writer) -> None:
        tensors = out.tuple(map(out.tensor, self.tensors))
        out.put(f"wide = any(span(t) >= 2**31 for t in {tensors})")
        if self.params:
            params = out.tuple(map(out.param, self.params))
            out.put(f"wide = wide or any(abs(n) >= {SMALL_INT} for n in {params})")


@record()
class Programs(Statement):
    """The number of program instances."""

    value: Number

    text = "programs = {value}"

    def run(self, call: Evaluation) -> None:
        call.programs = self.value.of(call)

    def write(self, out: Writer) -> None:
        out.fit("programs = ", self.value.source(out))


@record()
class Describe(Statement):
    """Descriptors: of all these, for blocks in shared memory, or where the schedule wants them and
    tensors' layouts can have them."""

    descriptors: tuple[Descriptor, ...]
    is_required: bool = False

    text = "describe {descriptors}"

    @property
    def function(self) -> str:
        """Return the function of files that makes one."""
        return "shared_descriptor" if self.is_required else "descriptor"

    def _function(self, d: Descriptor) -> str:
        """Return the function of the host that makes a descriptor."""
        return "adding_descriptor" if isinstance(d, Adding) else self.function

    def run(self, call: Evaluation) -> None:
        for d in self.descriptors:
            make, tensor = None, call.tensors[d.tensor]
            if (call.is_described or self.is_required) and not call.is_wide:
                block = [1 if n is None else n.of(call) for n in d.lengths]
                make = call.scheduled.describe(self._function(d), tensor, block)
            if self.is_required and make is None:
                raise _not_described(d.tensor, tensor)
            call.descriptors[d.parameter] = make

    def write(self, out: Writer) -> None:
        names = [d.source(out) for d in self.descriptors]
        if not self.is_required:
            out.put(f"{' = '.join(names)} = None")
            out.put(f'if config.pop("{DESCRIPTORS}") and not wide:')
        for d, name in zip(self.descriptors, names, strict=True):
            text = f"{self._function(d)}({out.tensor(d.tensor)}, [{d.block(out)}])"
            out.fit(f"{name} = ", text, indent=1 if self.is_required else 2)
        if self.is_required:
            out.put(f"if wide or any(x is None for x in {out.tuple(names)}):")
            what = "descriptors cannot load blocks of a tensor: its dtype or layout is another"
            out.fit("raise ", f'ValueError("{what}")', indent=2)


@record()
class Launch(Statement):
    """A kernel runs."""

    kernel: int
    name: str
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        return "\n    ".join([f"launch {self.name}", *map(str, self.arguments)])

    def run(self, call: Evaluation) -> None:
        if call.programs <= 0:
            return
        programs = call.programs
        if any(a.value == Flag("items") for a in self.arguments):
            programs = min(programs, call.scheduled.multiprocessors())
        run = call.target.kernel(self.kernel, programs)
        call.launches.append(_launched(call, run, self.arguments, call.config))

    def write(self, out: Writer) -> None:
        given = [self.name, "programs", *(a.source(out) for a in self.arguments), "**config"]
        out.call("launch", given)


def _launched(
    call: Evaluation,
    run: Callable[..., object],
    arguments: Sequence[Argument],
    config: Mapping[str, int],
) -> Launched:
    """Return how a kernel runs with arguments, and what a schedule chooses."""
    args: list[Any] = []
    tensors: list[str] = []
    varying: list[tuple[int, int, Callable[[Any], Any] | None]] = []
    for a in (a for a in arguments if a.is_positional):
        match a.value:
            case Pointer(tensor) if not args:
                tensors.append(tensor)
                continue
            case Pointer(tensor):
                varying.append((len(args), call.positions[tensor], None))
            case Number("param", attr=name) if name in call.varying:
                varying.append((len(args), call.positions[name], None))
                args.append(None)
                continue
            case Descriptor(parameter, tensor):
                make = call.descriptors[parameter]
                if make is not None:
                    varying.append((len(args), call.positions[tensor], make))
        args.append(a.value.of(call))
    options = {a.parameter: a.value.of(call) for a in arguments if not a.is_positional}
    options.update(config)
    return Launched(run, call.gather(*tensors), args, options, tuple(varying))


@record()
class Map(Statement):
    """A kernel lists the blocks that a filter admits: for each of its program instances so many
    numbers. What it has listed for the same tensors and parameters may stand for that, as long as
    nobody has written to them."""

    name: TensorName
    kernel: str
    programs: Number
    length: Number
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        head = f"{self.name} = {self.kernel}[{self.programs}, {self.length}]"
        return "\n    ".join([head, *map(str, self.arguments)])

    def run(self, call: Evaluation) -> None:
        read = [a.value.tensor for a in self.arguments if isinstance(a.value, Pointer)]
        if not all(call.is_given(n) for n in read):  # kernels may have to write them before
            call.end_stage()
        shape = self.programs.of(call), self.length.of(call)
        run = call.scheduled.lists(self.kernel, shape, len(read))
        call.make(self.name, _launched(call, run, self.arguments, {}))

    def write(self, out: Writer) -> None:
        shape = out.tuple((self.programs.source(out), self.length.source(out)))
        buffer = f"{out.empty}({shape}, dtype=torch.int32, device={out.device})"
        out.fit(f"{self.identifier(out)} = ", buffer)
        out.call("launch", [self.kernel, self.programs.source(out), *self.given(out)])

    def identifier(self, out: Writer) -> str:
        """Return the identifier of the map."""
        return out.name("tensor", self.name, "block_map")

    def given(self, out: Writer) -> list[str]:
        """Return the arguments of the kernel: the map comes after the tensors."""
        tensors = [a for a in self.arguments if isinstance(a.value, Pointer)]
        rest = (a.source(out) for a in self.arguments if a not in tensors)
        return [*(a.source(out) for a in tensors), out.tensor(self.name), *rest]


@record()
class Slice(Node):
    """The elements of a slice of a tensor, along one dimension."""

    name: TensorName
    tensor: TensorName
    dim: int

    text = "{name} = {tensor} along {dim}"


@record()
class Slices(Statement):
    """The statements run for each slice of an extent; `part` is that of the slice, and `start`
    where it begins."""

    part: ExtentName
    whole: ExtentName
    start: ParamName | None
    length: int
    views: tuple[Slice, ...]
    body: tuple[Statement, ...]

    def __str__(self) -> str:
        head = f"for each {self.length} of {shown(self.whole)} as {shown(self.part)}"
        head += f" from {self.start}" if self.start else ""
        inside = [line for s in (*self.views, *self.body) for line in str(s).splitlines()]
        return "\n".join([head, *(f"    {line}" for line in inside)])

    def run(self, call: Evaluation) -> None:
        for start in range(0, call.sizes[self.whole], self.length):
            stop = min(start + self.length, call.sizes[self.whole])
            call.sizes[self.part] = stop - start
            if self.start is not None:
                call.params[self.start] = start
            for view in self.views:
                position = (*[slice(None)] * view.dim, slice(start, stop))
                call.view(view.name, itemgetter(position), view.tensor)
            for s in self.body:
                s.run(call)

    def write(self, out: Writer) -> None:
        start = out.name("start", self.part, f"start_{shown(self.whole)}")
        if self.start is not None:
            start = out.param(self.start)
        size, whole = out.size(self.part), out.size(self.whole)
        out.put(f"for {start} in range(0, {whole}, {self.length}):")
        out.depth += 1
        out.put(f"{size} = min({self.length}, {whole} - {start})")
        for view in self.views:
            part = f"{out.tensor(view.tensor)}.narrow({view.dim}, {start}, {size})"
            out.fit(f"{out.tensor(view.name)} = ", part)
        for s in self.body:
            out.statement(s)
        out.depth -= 1


@record()
class Return(Statement):
    """The results."""

    tensors: tuple[TensorName, ...]

    text = "return {tensors}"

    def run(self, call: Evaluation) -> None:
        call.results = call.gather(*self.tensors)

    def write(self, out: Writer) -> None:
        out.put(f"return {', '.join(map(out.tensor, self.tensors))}")
