"""Tile programs to test with: those of the library, of all examples, and of random programs."""

from __future__ import annotations

from functools import cache

import monocomp as mc
from monocomp import library
from monocomp.errors import UnsupportedError
from monocomp.tile import TileProgram
from monocomp.tile.split_padding import divisible, split_padding
from tests.backends.programs import EXAMPLES
from tests.backends.storing import PROGRAMS
from tests.backends.test_domains import FILTERS, program

TEXTS = {n: library.load(n) for n in library.names()}
TEXTS |= {n: example.text for n, example in EXAMPLES.items()}
TEXTS |= PROGRAMS
TEXTS |= {f"filter: {n}": program(n) for n in FILTERS}


@cache
def kernels(text: str) -> tuple[TileProgram, ...]:
    """The kernels of a program, none if it is one of those without."""
    try:
        return mc.compile(text).tile_programs()
    except UnsupportedError:
        return ()


def after_passes(text: str) -> list[tuple[TileProgram, ...]]:
    """The kernels of a program after each pass."""
    lowered = kernels(text)
    return [lowered, tuple(split_padding(p, divisible(p)) for p in lowered)]
