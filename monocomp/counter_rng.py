"""`uniform(seed, i, j, ...)`: a random number that is a pure function of its arguments.

A counter-based generator has no state: dropout can be recomputed in a backward pass, tile by
tile and in any order, because the number at (i, j) depends on nothing but seed, i and j. The
definition below uses 32-bit unsigned integers only, so that numpy, torch and a GPU kernel
give the same bits. All arithmetic is modulo 2**32:

    h = START
    for x in (seed, i, j, ...):                     # the arguments, in order
        h = mix(h ^ (x * STEP))
    uniform = (h >> 8) * 2**-24                     # in [0, 1), exact in float32

    mix(h): h ^= h >> 16;  h *= FACTOR_1;  h ^= h >> 13;  h *= FACTOR_2;  h ^= h >> 16

`mix` is the finalizer of MurmurHash3 (Austin Appleby, public domain), a bijection in which
every input bit changes each output bit with a probability near one half. Arguments are taken
modulo 2**32, negative ones in two's complement. START is not 0, as mix(0) is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

START = 0x243F6A88  # the first 32 bits of the fraction of pi
STEP = 0x9E3779B9  # 2**32 over the golden ratio, odd
FACTOR_1 = 0x85EBCA6B
FACTOR_2 = 0xC2B2AE35
SHIFTS = (16, 13, 16)
MANTISSA_BITS = 24


def _mix(h: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    import numpy as np

    h = (h ^ (h >> np.uint32(SHIFTS[0]))) * np.uint32(FACTOR_1)
    h = (h ^ (h >> np.uint32(SHIFTS[1]))) * np.uint32(FACTOR_2)
    return h ^ (h >> np.uint32(SHIFTS[2]))


def bits(seed: npt.ArrayLike, *counters: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """The 32 random bits at the given counters; arguments broadcast.

    >>> [hex(int(bits(0))), hex(int(bits(1, 2, 3)))]
    ['0x1388a0fb', '0x52139148']
    """
    import numpy as np

    h = np.array(START, np.uint32)
    for argument in (seed, *counters):
        h = next_bits(h, argument)
    return h


def next_bits(h: npt.NDArray[np.uint32], counter: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """The bits with one more counter mixed in."""
    import numpy as np

    with np.errstate(over="ignore"):  # wrapping round is meant
        x = (np.asarray(counter, np.int64) & 0xFFFFFFFF).astype(np.uint32)
        return _mix(h ^ (x * np.uint32(STEP)))


def uniform(seed: npt.ArrayLike, *counters: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """A multiple of 2**-24 in [0, 1) at the given counters; arguments broadcast."""
    import numpy as np

    top = bits(seed, *counters) >> np.uint32(32 - MANTISSA_BITS)
    return np.asarray(top * 2.0**-MANTISSA_BITS, np.float64)
