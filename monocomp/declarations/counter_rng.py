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

from typing import Any

START = 0x243F6A88  # the first 32 bits of the fraction of pi
STEP = 0x9E3779B9  # 2**32 over the golden ratio, odd
FACTOR_1 = 0x85EBCA6B
FACTOR_2 = 0xC2B2AE35
SHIFTS = (16, 13, 16)
MANTISSA_BITS = 24
_WORD = 0xFFFFFFFF
TOP = _WORD >> (32 - MANTISSA_BITS) << (32 - MANTISSA_BITS)  # the bits that a random number is of


def next_bits(h: Any, counter: Any) -> Any:
    """Return the bits with one more counter mixed in.

    Both are Python's integers, or arrays of 64 bits of a library, whose products wrap round.
    """
    h = h ^ (counter * STEP & _WORD)
    h = (h ^ (h >> SHIFTS[0])) * FACTOR_1 & _WORD
    h = (h ^ (h >> SHIFTS[1])) * FACTOR_2 & _WORD
    return h ^ (h >> SHIFTS[2])


def mantissa(*counters: Any) -> Any:
    """Return an integer below 2**24 at the given counters; arrays broadcast."""
    h: Any = START
    for counter in counters:
        h = next_bits(h, counter)
    return h >> (32 - MANTISSA_BITS)


def uniform(*counters: Any) -> Any:
    """Return a multiple of 2**-24 in [0, 1) at the given counters; arrays broadcast.

    >>> uniform(0), uniform(1, 2, 3)
    (0.07630348205566406, 0.32061105966567993)
    """
    return mantissa(*counters) * 2.0**-MANTISSA_BITS
