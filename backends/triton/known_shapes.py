"""Shapes of tiles by class of kernel and by target: on Hopper those that have won measurements on
an H200, elsewhere those that registers and shared memory suggest. `whole` is how long a row of
all accumulators is.
"""

from __future__ import annotations

from typing import TypeAlias

from monocomp.backends.triton.schedule import MIN_DOT

Shape: TypeAlias = tuple[int, int, int, int]  # rows, streamed elements, warps, stages


def for_parts(
    row: int, whole: int, element_bytes: int, streamed: int
) -> list[tuple[int, int, int, int, int]]:
    """For few rows, with how many program instances a processor holds: the stream is read
    once, so what counts is that enough of it is under way."""
    if whole <= 128:
        return [
            (row, 128, 4, 3, 1),
            (row, 128, 8, 3, 1),
            (row, 64, 4, 4, 2),
            (row, 64, 4, 2, 5),
            (row, 64, 4, 3, 2),
        ]
    if whole <= 256:
        return [(row, 32, 4, 3, 2), (row, 64, 8, 2, 1), (row, 32, 4, 2, 2), (row, 64, 4, 2, 1)]
    if element_bytes > 2:
        return [(MIN_DOT, 16, 4, 2, 2), (MIN_DOT, 32, 8, 2, 1), (MIN_DOT, 32, 4, 2, 1)]
    shapes = [(row, 32, 8, 2, 1), (row, 64, 8, 1, 1), (MIN_DOT, 32, 4, 2, 1)]
    if streamed < 2 * whole:  # one tile is keys and values
        shapes = [(row, 64, 8, 2, 1), *shapes]
    return shapes


def for_hopper(whole: int, reads_twice: bool, is_shared: bool) -> list[Shape]:
    """Two instances of 64 rows overlap products with what comes between them; over a long
    stream 128 rows make up for that by reading it half as often, where lanes compute addresses
    for what is read. Where one long tile is keys and values, there is room for a larger one."""
    if whole <= 64:
        return [(64, 64, 4, 3), (128, 64, 8, 3), (64, 128, 4, 3), (128, 128, 8, 2)]
    if whole <= 128:
        shapes = [(64, 64, 4, 3), (128, 64, 8, 3), (64, 64, 4, 2), (64, 32, 4, 3)]
        return [shapes[1], shapes[0], *shapes[2:]] if reads_twice else shapes
    if whole <= 256:
        return [(128, 64, 8, 2), (64, 32, 8, 2), (64, 64, 8, 2), (64, 64, 4, 2)]
    if whole <= 512:
        shapes = [(64, 32, 8, 2), (64, 64, 8, 1), (64, 16, 8, 3), (32, 32, 8, 2)]
        return [(64, 64, 8, 2), *shapes] if is_shared else shapes
    return [(32, 16, 8, 2), (32, 32, 8, 1), (16, 16, 8, 1)]


def for_hopper_in_two(whole: int, is_alike: bool) -> list[Shape]:
    """Two tiles leave room for more rows, or for another stage, if for long ones with some
    registers in memory. With short ones more rows pay where a stream is alike for all of them."""
    if whole <= 128:
        shapes = [(64, 64, 4, 3), (128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 2)]
        return [shapes[1], shapes[0], *shapes[2:]] if is_alike else shapes
    if whole <= 256:
        return [(128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 2)]
    return [(128, 32, 8, 2), (64, 64, 8, 2)]


def for_products_in_parts(whole: int, has_few_rows: bool) -> list[Shape]:
    """As on Hopper, for kernels that multiply computed operands in parts: 16 rows a warp, or else
    the parts of a product are added up in different layouts."""
    if whole <= 128:
        large, small = (128, 64, 8, 3), (64, 64, 4, 3)
    else:
        large, small = (128, 32, 8, 2), (64, 32, 4, 2)
    return [*([small, large] if has_few_rows else [large, small]), (64, 16, 4, 2), (32, 16, 4, 1)]


def in_full_precision(whole: int) -> list[Shape]:
    if whole <= 64:
        return [(64, 32, 8, 2), (64, 32, 4, 2), (32, 32, 4, 2), (64, 64, 8, 2)]
    if whole > 256:
        return [(16, 16, 8, 1), (16, 16, 8, 2), (16, 16, 4, 1), (32, 16, 8, 1)]
    first = (16, 16, 8 if whole <= 128 else 4, 2)
    return [first, (32, 16, 4, 2), (32, 32, 8, 1), (64, 32, 4, 2)]


def for_cdna(whole: int, element_bytes: int) -> list[Shape]:
    """64 lanes a warp, 512 registers, 64 KiB shared."""
    if element_bytes > 2:
        if whole > 256:
            return [(16, 16, 4, 1), (16, 16, 8, 1)]
        return [(64, 32, 4, 2), (32, 32, 4, 2)] if whole <= 128 else [(32, 16, 4, 2)]
    if whole > 256:
        return [(16, 32, 4, 1), (32, 32, 4, 1)]
    if whole <= 64:
        return [(128, 64, 4, 2), (64, 64, 4, 2), (128, 32, 4, 2)]
    if whole <= 128:
        return [(128, 32, 4, 2), (128, 64, 4, 2), (64, 64, 4, 2)]
    return [(64, 32, 4, 2), (32, 32, 4, 2)]


def before_hopper(whole: int) -> list[Shape]:
    """Operands in registers, 99 KiB shared or more."""
    if whole <= 64:
        return [(128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3), (128, 32, 4, 3)]
    if whole <= 128:
        return [(128, 32, 8, 3), (128, 64, 8, 3), (64, 32, 4, 3), (64, 64, 4, 3)]
    if whole <= 256:
        return [(32, 32, 4, 2), (64, 32, 8, 2)]
    return [(32, 32, 8, 2), (16, 32, 4, 1)]
