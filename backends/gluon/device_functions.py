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


DEVICE_FUNCTIONS = {
    **triton.DEVICE_FUNCTIONS,
    "keep_within": _KEEP_WITHIN,
    "following": _FOLLOWING,
    "tell": _TELL,
    "told": _TOLD,
    "turn": _TURN,
    "turn_text": _TURN_TEXT,
}
