"""Functions that Gluon lacks, as text: those that Triton lacks too, which kernels in both may call,
and those for blocks in shared memory."""

from __future__ import annotations

from monocomp.backends.triton import device_functions as triton

_KEEP_WITHIN = '''@gluon.jit
def keep_within(block, first, low, high, DIM: gl.constexpr):
    """Let the elements of a block in shared memory, which begins at `first` along a dimension, be 0
    but for low .. high. A fence, as products read them in another way than threads write."""
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [gl.num_warps(), 1], [1, 0])
    ROWS: gl.constexpr = min(4096 // block.shape[1], block.shape[0])
    for n in gl.static_range(block.shape[0] // ROWS):
        piece = block.slice(n * ROWS, ROWS)
        x = piece.load(LAYOUT)
        at = first + gl.arange(0, x.shape[DIM], layout=gl.SliceLayout(1 - DIM, LAYOUT))
        at += n * ROWS if DIM == 0 else 0
        inside = gl.expand_dims((at >= low) & (at < high), 1 - DIM)
        piece.store(gl.where(inside, x, gl.full(x.shape, 0, x.dtype, layout=LAYOUT)))
    fence_async_shared()'''

_FOLLOWING = '''@gluon.jit
def following(slot, phase, depth: gl.constexpr):
    """The slot of a ring after this one, and the phase in which its barriers are then."""
    slot += 1
    if slot == depth:
        slot = 0
        phase ^= 1
    return slot, phase'''

_TELL = '''@gluon.jit
def tell(ring, place, x):
    """Put a number into a ring."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    ring.index(place).store(gl.full([1], x, gl.int32, layout=layout))'''
_TOLD = '''@gluon.jit
def told(ring, place):
    """A number of a ring, which the compiler knows to be the same in a warp."""
    x = ring.index(place).load(gl.BlockedLayout([1], [32], [gl.num_warps()], [0]))
    x = gl.inline_asm_elementwise(
        "shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "=r,r", [x], gl.int32, is_pure=True, pack=1
    )
    return gl.max(x, 0)'''

_TURN_TEXT = '''@triton.constexpr_function
def turn_text(way, group):
    """Say what threads of two warpgroups do at a barrier: those that "sync" wait until all are
    there, those that "arrive" go on. Triton has the first barriers."""
    return f"{{ bar.{way} {8 + group}, 256; mov.b32 $0, $1; }}"'''
_TURN = '''@gluon.jit
def turn(way: gl.constexpr, group: gl.constexpr):
    """Wait for the turn of a warpgroup, or pass it on to that."""
    x = gl.full([128], 0, gl.int32, layout=gl.BlockedLayout([1], [32], [4], [0]))
    TEXT: gl.constexpr = turn_text(way, group)
    gl.inline_asm_elementwise(TEXT, "=r,r", [x], gl.int32, is_pure=False, pack=1)'''

_CROSSED = '''@gluon.jit
def crossed(lefts, first, rights, desc, GROUP: gl.constexpr, GROUPS: gl.constexpr):
    """A warpgroup's part of a product that sums over the rows of all: of its rows, or of its
    columns where it has too few. Left operands are transposed, one after the other from `first`."""
    ROWS: gl.constexpr = desc.block_type.shape[-3] * 64
    COLUMNS: gl.constexpr = desc.block_type.shape[-2] // 2
    SHARES: gl.constexpr = lefts.shape[2] // ROWS
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, COLUMNS, 16])
    part = gl.zeros([ROWS, COLUMNS], gl.float32, layout=LAYOUT)
    for n in gl.static_range(GROUPS):
        left = lefts.index(first + n).slice(GROUP % SHARES * ROWS, ROWS, 1)
        right = rights.index(n).reshape([lefts.shape[1], rights.shape[rights.rank - 1]])
        right = right.slice(GROUP // SHARES * COLUMNS, COLUMNS, 1)
        part = warpgroup_mma(left.permute((1, 0)), right, part, use_acc=n > 0, is_async=True)
    return part'''
_ADD_PART = '''@gluon.jit
def add_part(desc, staged, part, where, row, rows: gl.constexpr, GROUP: gl.constexpr):
    """Add a warpgroup's part of a tile of so many rows to memory, as threads hold it, once what was
    sent before has left its place."""
    ROWS: gl.constexpr = part.shape[0]
    COLUMNS: gl.constexpr = part.shape[1]
    SHARES: gl.constexpr = rows // ROWS
    LINES: gl.constexpr = ROWS * COLUMNS // 32
    x = part.reshape([ROWS // 64, 4, 2, 8, COLUMNS // 8, 4, 2]).permute([0, 4, 1, 3, 5, 2, 6])
    tma.store_wait(0)
    place = staged.index(GROUP)
    place.reshape([LINES, 32]).store(x.reshape([LINES, 32]))
    fence_async_shared()
    row += GROUP % SHARES * ROWS
    add_staged(desc, where + [row // 64, GROUP // SHARES * COLUMNS * 2, 0], place)'''
_ADD_STAGED = '''from triton._C.libtriton import ir
from triton.experimental.gluon.language._core import builtin


@builtin
def add_staged(desc, at, place, _semantic=None):
    """Let the copy engine add what is in shared memory to a tensor, in any order."""
    at = _semantic._convert_to_ir_values(at, require_i64=False)
    add = ir.DESCRIPTOR_REDUCE_KIND.ADD
    _semantic.builder.create_async_tma_reduce(add, desc.handle, at, place.handle)'''


DEVICE_FUNCTIONS = {
    **triton.DEVICE_FUNCTIONS,
    "keep_within": _KEEP_WITHIN,
    "following": _FOLLOWING,
    "tell": _TELL,
    "told": _TOLD,
    "turn": _TURN,
    "turn_text": _TURN_TEXT,
    "crossed": _CROSSED,
    "add_part": _ADD_PART,
    "add_staged": _ADD_STAGED,
}
