"""Runs emitted Gluon kernels in NumPy, in float64: integers are divided towards 0, parts may be
interrupted at each barrier and copy, and a branch on a tile is refused, because the threads of a
part might disagree. `machine` refuses races and deadlocks.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CodeType, SimpleNamespace
from typing import Any

import numpy as np

from monocomp import blocks as B
from monocomp.backends.gluon.device_functions import DEVICE_FUNCTIONS
from monocomp.backends.gluon.dialect import GLUON
from monocomp.backends.triton import interface
from monocomp.backends.triton.emit import called
from monocomp.backends.triton.kernel_source import source_of
from monocomp.host import arguments as A
from tests.backends.gluon.machine import (
    POISON,
    Array,
    Barrier,
    Block,
    Machine,
    require,
)
from tests.backends.gluon.machine import Fault as Fault

# --- values -----------------------------------------------------------------------------------


class Tile(np.ndarray[Any, Any]):
    """An array that no branch depends on."""

    def permute(self, axes: list[int]) -> Any:
        return self.transpose(axes)

    def __bool__(self) -> bool:
        require(not self.ndim, "a branch depends on a tile")
        return bool(self.item())


def tile(x: Any) -> Any:
    """Return an array as a tile, and one of no dimensions as a number."""
    if not isinstance(x, np.ndarray):
        return x
    return x.view(Tile) if x.ndim else x[()]


def converted(x: Any, dtype: type) -> Any:
    if isinstance(x, np.ndarray) or dtype is np.uint32:
        return tile(np.asarray(x).astype(dtype))
    return (
        int(x) if np.dtype(dtype).kind == "i" else np.float64(x)
    )  # whose quotient by 0 is infinite


def divided(a: Any, b: Any) -> Any:
    """Return a / b rounded towards 0."""
    if isinstance(a, int) and isinstance(b, int):
        return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


@dataclass(frozen=True)
class View:
    """All or some of a block in shared memory."""

    machine: Machine
    block: Block
    data: Array

    dtype: Any = np.float64

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def reshape(self, shape: list[int]) -> View:
        return View(self.machine, self.block, self.data.reshape(shape))

    def permute(self, axes: tuple[int, ...]) -> View:
        return View(self.machine, self.block, self.data.transpose(axes))

    def slice(self, start: int, length: int, dim: int = 0) -> View:
        require(start + length <= self.shape[dim], f"{self.block.name} is shorter")
        part = (*[slice(None)] * dim, slice(start, start + length))
        return View(self.machine, self.block, self.data[part])

    def load(self, layout: Any) -> Any:
        self.machine.load(self.block)
        return tile(self.data.copy())

    def store(self, value: Array) -> None:
        self.data[...] = value
        self.machine.store(self.block)


@dataclass(frozen=True)
class Slots:
    """Blocks in shared memory, or barriers."""

    of: list[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.of), *self.of[0].shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    def index(self, n: int) -> Any:
        require(0 <= n < len(self.of), f"there is no block {n}")
        return self.of[n]


@dataclass(frozen=True)
class Pointer:
    """Positions in the memory of a tensor."""

    memory: Array
    offset: Any = 0

    @property
    def dtype(self) -> Any:
        return SimpleNamespace(element_ty=np.float64)

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.memory, self.offset + offset)


@dataclass(frozen=True)
class Tensor:
    """A tensor of which copies take blocks."""

    array: Array
    shape: list[int]
    dtype: Any = np.float64
    layout: Any = None

    @property
    def block_type(self) -> Any:
        return SimpleNamespace(shape=self.shape, nbytes=int(np.prod(self.shape)))

    def block(self, at: list[int]) -> Array:
        """Return the block at a position, with 0 outside of the tensor."""
        index = np.ix_(*(p + np.arange(n) for p, n in zip(at, self.shape, strict=True)))
        sizes = self.array.shape
        inside = functools.reduce(
            np.logical_and, ((i >= 0) & (i < n) for i, n in zip(index, sizes, strict=True))
        )
        found = self.array[tuple(np.clip(i, 0, n - 1) for i, n in zip(index, sizes, strict=True))]
        return np.where(inside, found, 0)


@dataclass(frozen=True)
class Added:
    """A tensor to which copies add parts of products, as threads hold these."""

    array: Array
    shape: list[int]
    dtype: Any = np.float64
    layout: Any = None

    @property
    def block_type(self) -> Any:
        return SimpleNamespace(shape=self.shape)

    def add(self, at: list[int], data: Array) -> None:
        """Add what lies in blocks of 64 rows and 8 columns: of a thread of 128 two columns of rows
        r and r + 8."""
        *_, pieces, lines, _ = self.shape
        x = data.reshape(pieces, lines // 16, 4, 8, 4, 2, 2).transpose(0, 2, 5, 3, 1, 4, 6)
        *grid, row, line, first = map(int, at)
        require(first == 0 and line % 16 == 0, "what is added begins between columns")
        tile = x.reshape(pieces * 64, lines // 2)
        part = self.array[tuple(grid)][row * 64 :, line // 2 :][: pieces * 64, : lines // 2]
        part += tile[: part.shape[0], : part.shape[1]]


def language(machine: Machine) -> dict[str, Any]:
    """Return the names that emitted kernels use, for one machine."""

    def shared(dtype: type, shape: list[int], layout: Any) -> Slots:
        names = [f"block {len(machine.blocks) + n}" for n in range(shape[0])]
        if layout is Barrier:
            return Slots([Barrier(f"a barrier of {name}") for name in names])
        blocks = [Block(name, np.full(shape[1:], POISON, dtype)) for name in names]
        machine.blocks += blocks
        return Slots([View(machine, x, x.data) for x in blocks])

    def load(at: Pointer, mask: Any = True, other: Any = 0) -> Any:
        offset, mask = np.broadcast_arrays(at.offset, mask)
        read = at.memory[np.where(mask, offset, 0)] if mask.any() else other  # it may be empty
        return tile(np.where(mask, read, other))

    def store(at: Pointer, value: Any, mask: Any = True) -> None:
        offset, value, mask = np.broadcast_arrays(at.offset, value, mask)
        at.memory[offset[mask]] = value[mask]

    def atomic_add(at: Pointer, value: int, sem: str) -> int:
        at.memory[at.offset] += value
        return int(at.memory[at.offset]) - value

    def multiply(a: Any, b: Any, total: Any, use_acc: bool = True, is_async: bool = False) -> Any:
        blocks = [x.block for x in (a, b) if isinstance(x, View)]
        operands = (x.data if isinstance(x, View) else x for x in (a, b))
        product = machine.issue(blocks, *operands, total if use_acc else 0)
        return product if is_async else tile(machine.end_products(product, 0))

    def wait_for_product(num_outstanding: int, deps: list[Any]) -> Any:
        return tile(machine.end_products(*deps, num_outstanding))

    turns: dict[tuple[int, int], Barrier] = {}

    def turn(way: str, group: int) -> Any:
        """Two warpgroups come to a barrier, of which one waits."""
        key = machine.part.instance, group
        barrier = turns.setdefault(key, Barrier(f"the turn of {group}", count=2, lacking=2))
        machine.arrive(barrier, 1)
        return (barrier, machine.part.clock[barrier] + 1) if way == "sync" else None

    def begin_copy(tensor: Tensor, at: list[int], barrier: Barrier, place: View) -> None:
        machine.copy(tensor.block(at), barrier, place.block)

    def add_staged(tensor: Added, at: list[int], place: View) -> None:
        tensor.add(at, machine.send(place.block))

    def reduce(x: Any, axis: int, combine: Callable[[Any, Any], Any]) -> Any:
        return tile(functools.reduce(combine, np.moveaxis(x, axis, 0)))

    def of(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **_: tile(function(*args))

    layouts = ("SliceLayout", "BlockedLayout", "NVMMADistributedLayout")
    layouts += ("DotOperandLayout", "SwizzledSharedLayout")
    gl = SimpleNamespace(
        **dict.fromkeys(layouts, lambda *args, **named: None),
        NVMMASharedLayout=SimpleNamespace(get_default_for=lambda shape, dtype: None),
        **{n: of(getattr(np, n)) for n in ("maximum", "minimum", "where", "exp2", "log", "abs")},
        **{n: of(getattr(np, n)) for n in ("max", "min", "sum", "expand_dims", "floor")},
        constexpr=object,
        **dict.fromkeys(("int32", "int64"), np.int64),
        **{"uint32": np.uint32, "float32": np.float64},
        program_id=lambda axis: machine.part.instance,
        num_programs=lambda axis: machine.instances,
        num_warps=lambda: 4,
        static_range=range,
        cdiv=lambda a, b: -(-a // b),
        cast=converted,
        arange=lambda a, b, layout=None: tile(np.arange(a, b)),
        full=lambda shape, x, dtype, layout=None: converted(np.full(shape, x), dtype),
        zeros=lambda shape, dtype, layout=None: tile(np.zeros(shape, dtype)),
        convert_layout=lambda x, layout: x,
        rsqrt=lambda x: 1 / np.sqrt(x),
        reduce=reduce,
        load=load,
        store=store,
        atomic_add=atomic_add,
        inline_asm_elementwise=lambda asm, constraints, args, *_, **named: args[0],
        allocate_shared_memory=shared,
        warp_specialize=lambda parts, warps, registers: machine.begin(parts),
    )
    barriers = {n: getattr(machine, n) for n in ("init", "wait", "arrive", "expect")}
    return {
        "gl": gl,
        "tl": SimpleNamespace(**vars(gl), PropagateNan=SimpleNamespace(ALL=None)),
        "gluon": SimpleNamespace(jit=lambda function: function),
        "triton": SimpleNamespace(
            jit=lambda function: function,
            next_power_of_2=lambda n: 1 << (n - 1).bit_length(),
        ),
        "mbarrier": SimpleNamespace(MBarrierLayout=lambda: Barrier, **barriers),
        "tma": SimpleNamespace(
            async_copy_global_to_shared=begin_copy, store_wait=machine.end_sends
        ),
        "add_staged": add_staged,
        "warpgroup_mma": multiply,
        "warpgroup_mma_wait": wait_for_product,
        "fence_async_shared": machine.fence,
        "turn": turn,
        "divided": divided,
        "remainder": lambda a, b: a - divided(a, b) * b,
        "converted": converted,
    }


# --- kernels ----------------------------------------------------------------------------------


_MEANT = {"turn", "turn_text", "add_staged"}  # what these do is a function of the language


class _ToPython(ast.NodeTransformer):
    """Makes Python mean what Gluon does, and lets other parts go on at barriers and copies."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        names = {ast.FloorDiv: "divided", ast.Mod: "remainder"}
        name = names.get(type(node.op))
        return node if name is None else _call(name, node.left, node.right)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=value, attr="to"):
                return _call("converted", value, *node.args)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        self.generic_visit(node)
        match node.value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="mbarrier" | "tma"), attr=name)) if (
                name != "init"
            ):
                node.value = ast.Yield(node.value)
            case ast.Call(func=ast.Name(id="turn")):
                node.value = ast.Yield(node.value)
            case ast.Call(func=ast.Name(id="add_part")):  # which waits inside
                node.value = ast.YieldFrom(node.value)
        return node


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def functions(program: B.BlockProgram) -> list[ast.stmt]:
    """Return the functions of a kernel as they are emitted."""
    source = source_of(program, GLUON)
    functions = {n: text for n, text in DEVICE_FUNCTIONS.items() if n not in _MEANT}
    helpers = called(functions, source.lines)
    return ast.parse("\n".join((*source.lines, *helpers, *source.functions.values()))).body


def compiled(function: ast.stmt) -> CodeType:
    """Return a function of Gluon as one of Python."""
    module = ast.Module([_ToPython().visit(copy.deepcopy(function))], [])
    return compile(ast.fix_missing_locations(module), "<Gluon>", "exec")


def _sent(program: B.BlockProgram, output: str) -> list[str]:
    sends = (s for s in B.walk(program.body) if isinstance(s, B.Send))
    (axes,) = (s.access.block.tile for s in sends if s.output == output)
    return [*axes]


def run(
    program: B.BlockProgram,
    codes: Iterable[CodeType],
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    extents: Mapping[str, int],
    params: Mapping[str, Any],
    lengths: Mapping[str, int],
    *,
    groups: int,
    stages: int,
    instances: int,
    seed: int | None = None,
) -> None:
    """Run the functions of a kernel; `outputs` are filled in place.

    Args:
        program: the kernel.
        codes: its functions.
        inputs, outputs: tensors by name.
        extents, params: sizes and parameter values.
        lengths: block lengths by axis.
        groups, stages: how many warpgroups compute, and how many blocks rings hold.
        instances: the most that run beside each other.
        seed: of the order of events; in turns, if there is none.

    Raises:
        Fault: another order of events might give another result, or never end.
    """
    constants = {axis: A.const(length) for axis, length in lengths.items()}
    call: Any = SimpleNamespace(sizes=extents, params=params)
    items = A.product(interface.count(axis, constants) for axis in program.grid).of(call)
    machine = Machine(seed, min(items, instances))
    names = language(machine)
    for code in codes:
        exec(code, names)
    tensors = {n: np.ascontiguousarray(x) for n, x in {**inputs, **outputs}.items()}
    counter = Pointer(np.zeros(1, np.int64))
    given = {"groups": groups, "stages": stages, "counter": counter, "items": items}
    own = {a: n // groups if a in program.divided else n for a, n in lengths.items()}

    def value(a: B.Argument) -> Any:
        match a.purpose:
            case "pointer":
                return Pointer(tensors[a.of].reshape(-1))
            case "descriptor":
                (block,) = {r.block for r in program.rings if r.descriptor.attr == a.name.attr}
                shape = [1 if axis is None else own[axis] for axis in block.axes]
                return Tensor(tensors[a.of], shape)
            case "adding":
                rows, columns = (own[x] for x in _sent(program, a.of)[-2:])
                shares = min(groups, rows // 64)
                part = rows // shares // 64, columns // (groups // shares) * 2, 32
                return Added(tensors[a.of], [*[1] * (tensors[a.of].ndim - 2), *part])
            case "groups" | "stages" | "counter" | "items":
                return given[a.purpose]
            case "stride":
                return tensors[a.of].strides[a.dim] // tensors[a.of].itemsize
            case "order":
                return 1
            case "option":
                return {"INDEX": np.int64, "STEP": 1, "FAST": False}.get(a.of)
        number = interface.value_of(program, a, constants)
        assert isinstance(number, A.Number)
        return number.of(call)

    with np.errstate(all="ignore"):
        args = list(map(value, program.arguments))
        for instance in range(machine.instances):
            machine.instance = instance
            names[program.name](*args)
        machine.run()
    for name, output in outputs.items():
        output[...] = tensors[name].reshape(output.shape)
