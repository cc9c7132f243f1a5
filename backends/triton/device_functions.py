"""Functions that Triton lacks on every target, as text: files hold those that they use."""

from __future__ import annotations

from monocomp.declarations import counter_rng

DEVICE_FUNCTIONS = {
    "grouped": '''@triton.jit
def grouped(pid, blocks, positions, group_size):
    """The number of a block, counted position by position, that an instance works on: the positions
    of a group take turns, a block each, and then those of the next."""
    if group_size > 1:
        count = tl.minimum(group_size, positions)
        first = pid // (blocks * count) * count
        turn = pid - first * blocks
        count = tl.minimum(count, positions - first)
        pid = ((first + turn % count) * blocks + turn // count).to(tl.int32)
    return pid''',
    "unknown": '''@triton.jit
def unknown(x):
    """x, of which the compiler knows nothing. Of what a reduction comes to it does not even know
    that: where a loop begins there, it would load what is at the loop's positions one by one."""
    found = tl.program_id(0).to(x.dtype)
    while found != x:
        found = x
    return found''',
    "unchained": '''@triton.jit
def unchained(x):
    """What a product takes that another has made. Triton has warps share the rows alone of the
    first product of such a chain, and they are too few; a branch, even one that is never taken,
    ends the chain."""
    if tl.program_id(0) < 0:
        x = -x
    return x''',
    "ended": '''@triton.jit
def ended(x):
    """A sum in a loop, as soon as it has its value: Triton waits for what is read, if only for its
    bits. The left operands of products may then be overwritten, as a loop does (triton-lang/triton,
    issue 9433), and what is loaded is not added up behind the loop instead (pull request 11682)."""
    return tl.cast(tl.cast(x, tl.int32, bitcast=True), tl.float32, bitcast=True)''',
    "interleaved": '''@triton.jit
def interleaved(x, sums):
    """Put columns of bytes that are multiplied for sums in another order. Where matrix units have
    few rows, a thread takes one column in 8: a word is four of these."""
    if x.dtype.primitive_bitwidth == 8 and sums.shape[0] < 64 and x.shape[1] % 32 == 0:
        words = tl.reshape(x, [x.shape[0], x.shape[1] // 32, 8, 4])
        x = tl.reshape(tl.permute(words, 0, 3, 1, 2), x.shape)
    return x''',
    "in_order": '''@triton.jit
def in_order(sums, x_ptr):
    """Put columns of sums from the order of `interleaved` into that of what is multiplied."""
    if (x_ptr.dtype.element_ty.primitive_bitwidth == 8 and sums.shape[0] < 64
            and sums.shape[1] % 32 == 0):
        words = tl.reshape(sums, [sums.shape[0], 4, sums.shape[1] // 32, 8])
        sums = tl.reshape(tl.permute(words, 0, 2, 3, 1), sums.shape)
    return sums''',
    "between": '''@triton.jit
def between(positions, low, high):
    """low <= positions < high, for the columns of a product. A thread holds the same columns of
    each 8: with the position in its 8 taken from both sides, what is left of the positions is known
    to the compiler and takes no registers."""
    column = positions & 7
    return (positions - column >= low - column) & (positions - column < high - column)''',
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
    "weight": '''@triton.jit
def weight(x, y, scale, power, FAST: tl.constexpr):
    """exp2(scale * (x - y)). FAST: one fused operation an element, where the product with y is
    rounded. Where 2 to the power of its error might overflow, floats are so far apart that only
    equal ones have weights above 2 ** -16: there power, the power of two below the scale, takes
    its place, and the products are exact."""
    if FAST:
        factor = tl.where(tl.abs(y) <= 134217728.0 / power, scale, power)
        w = tl.exp2(factor * x - factor * y)
    else:
        w = tl.exp2(scale * (x - y))
    return w''',
    "floordiv": '''@triton.jit
def floordiv(a, b):
    """a // b of integers rounded down, and 0 for b = 0. Triton rounds towards 0; and it takes
    quotients of neighbours for the same by rules that hold where none is negative, so that
    for a < 0 this divides ~a."""
    divisor = tl.where(b == 0, 1, tl.abs(b))
    sign = tl.where(a < 0, -1, 0)
    q = ((a ^ sign) // divisor) ^ sign
    q = tl.where(b < 0, -q - tl.where(a == q * divisor, 0, 1), q)
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
    values, positions, ranks, count, x, at, k: tl.constexpr, r: tl.constexpr
):
    """The `count` largest of a list and of a tile: values at positions along axis r, in order,
    and x along axis k. Of equal values the first positions win, and NaN is the largest."""
    last = tl.max(tl.where(ranks == count - 1, values, -float("inf")), r)
    last = tl.expand_dims(last, k)
    # Most tiles of a long stream hold nothing that enters the list.
    if tl.max(tl.where((x > last) | (x != x), 1, 0)) > 0:
        old_values, old_positions = values, positions
        values = tl.full(values.shape, -float("inf"), tl.float32)
        positions = tl.full(positions.shape, -1, tl.int64)
        for rank in range(count):
            best = larger(tl.reduce(x, k, larger), tl.reduce(old_values, r, larger))
            new, old = tl.expand_dims(best, k), tl.expand_dims(best, r)
            hits = tl.where((x == new) | (x != x), at, 9223372036854775807)
            old_hits = (old_values == old) | (old_values != old_values)
            old_hits = tl.where(old_hits, old_positions, 9223372036854775807)
            position = tl.minimum(tl.min(hits, k), tl.min(old_hits, r))
            new_position = tl.expand_dims(position, k)
            old_position = tl.expand_dims(position, r)
            is_here = (ranks == rank) & (old != -float("inf"))
            values = tl.where(is_here, old, values)
            positions = tl.where(is_here, old_position, positions)
            x = tl.where(at == new_position, -float("inf"), x)
            is_taken = old_positions == old_position
            old_values = tl.where(is_taken, -float("inf"), old_values)
    return values, positions''',
    "leading_bits": '''@triton.jit
def leading_bits(x, dtype: tl.constexpr):
    """The leading bits of x that a dtype has, in that dtype. The bits that bfloat16 lacks are cut
    off: rounding, and subtracting the result from x, would convert each element there and back."""
    if dtype == tl.bfloat16 and x.dtype == tl.float32:
        x = (x.to(tl.int32, bitcast=True) >> 16).to(tl.int16).to(dtype, bitcast=True)
    else:
        x = x.to(dtype)
    return x''',
    "lost_bits": '''@triton.jit
def lost_bits(x, dtype: tl.constexpr):
    """x less its leading bits, in a dtype; 0 where these overflow."""
    if dtype == tl.bfloat16 and x.dtype == tl.float32:
        leading = (x.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)
    else:
        leading = x.to(dtype).to(tl.float32)
    lost = x - leading
    return tl.where(tl.abs(lost) < float("inf"), lost, 0.0).to(dtype)''',
    "dot_in_limbs": '''@triton.jit
def dot_in_limbs(a, b, acc, dtype: tl.constexpr, PRECISION: tl.constexpr):
    """a @ b + acc. A tile of more bits than dtype has is taken as a sum of two that have it."""
    a_high, b_high = leading_bits(a, dtype), leading_bits(b, dtype)
    product = tl.dot(a_high, b_high, acc, input_precision=PRECISION)
    if a.dtype != dtype:
        product += tl.dot(lost_bits(a, dtype), b_high, input_precision=PRECISION)
    if b.dtype != dtype:
        product += tl.dot(a_high, lost_bits(b, dtype), input_precision=PRECISION)
    return product''',
    "next_bits": f'''@triton.jit
def next_bits(h, x):
    """Mix one more counter into 32 random bits (the finaliser of MurmurHash3)."""
    h = h ^ (tl.cast(x, tl.uint32) * tl.cast({counter_rng.STEP}, tl.uint32))
    h = h ^ (h >> {counter_rng.SHIFTS[0]})
    h = h * tl.cast({counter_rng.FACTOR_1}, tl.uint32)
    h = h ^ (h >> {counter_rng.SHIFTS[1]})
    h = h * tl.cast({counter_rng.FACTOR_2}, tl.uint32)
    return h ^ (h >> {counter_rng.SHIFTS[2]})''',
}
