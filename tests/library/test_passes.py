"""How often each library program streams each index: what is aimed at.

What each kernel's loops carry stands in `tests/golden/gate`.
"""

from __future__ import annotations

from collections import Counter

import pytest
import sympy

import monocomp as mc
from monocomp import library
from monocomp.kernel import Kernel
from monocomp.tile import Loop, walk


def compiled(name: str) -> Kernel:
    return mc.compile(library.load(name), name=name)


# How often the indices are streamed that a program aggregates over. One pass over the keys is
# the rule, all outputs together; these are the exceptions.
PASSES = {
    "cross_entropy": {"v": 1},
    "dilated": {"j": 1},
    "kl_divergence": {"v": 1},
    "merge_states": {"s": 1},
    "softmax_top8": {"v": 1},
    "rolling_cache": {"r": 1},
    "two_simplicial": {"j": 1, "k": 1},
    # An output keeps the index that is aggregated over: a second pass writes it.
    "softmax": {"k": 2},
    # Each row's softmax needs all of its keys before any column can be summed.
    "column_sums": {"k": 1, "q": 1},
    # The maximum, four bisections, each from the result of the one before, the sum, the output.
    "sparsemax": {"k": 7},
    # One, or two where the heads' mixed sums are more than can be carried.
    "talking_heads": {"k": 2},
    # Sums over the keys with and without values: together they are more than a row can hold.
    "taylor_attention": {"k": 2},
}


@pytest.mark.parametrize("name", library.names())
def test_as_few_passes_as_can_be(name: str) -> None:
    """Loops over an index, also those inside others."""
    wanted = PASSES.get(name, {"k": 1})
    every = [s for p in compiled(name).tile_programs() for s in walk(p.body)]
    found = Counter(s.axis.extent for s in every if isinstance(s, Loop))
    assert {index: found[index] for index in wanted} == wanted


LINEAR = ["hedgehog_attention", "linear_attention", "taylor_attention"]


@pytest.mark.parametrize("name", LINEAR)
def test_linear_time(name: str) -> None:
    """No operation is done for each pair of a query and a key."""
    terms = sympy.expand(compiled(name).report()["flops"]).as_ordered_terms()
    pairs = [t for t in terms if {"q", "k"} <= {str(symbol) for symbol in t.free_symbols}]
    assert not pairs
