"""How often each library program streams each index, and what it carries.

The golden file has, for every program, its passes; then for every kernel its loops, each below
the fields of the state that it carries, with their units; then the certificate, the laws that
are proved for it and the side conditions that were met. Below it stands what is aimed at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest
import sympy

import monocomp as mc
from monocomp import library
from monocomp.derivation.certificate import AGAIN
from monocomp.errors import UnsupportedError
from monocomp.kernel import Kernel
from monocomp.tile import Loop, walk


def compiled(name: str) -> Kernel:
    return mc.compile(library.load(name), name=name)


# --- as it is -----------------------------------------------------------------------------


def loops(printed: str) -> list[str]:
    """The lines of a printed tile program that tell its loops and their states."""
    shown = re.compile(r"kernel |\s+(state|for) ")
    return [line for line in printed.splitlines() if shown.match(line)]


def summary(name: str) -> list[str]:
    """The lines of one program."""
    kernel = compiled(name)
    try:
        programs = kernel.tile_programs()
    except UnsupportedError as refusal:
        return [f"not compiled: {refusal.message}"]
    passes = kernel.report()["passes"]
    lines = ["passes: " + ", ".join(f"{n} over {index}" for index, n in passes.items())]
    for program in programs:
        lines += loops(str(program))
    certificate = kernel.certificate
    assert certificate.holds
    for theory in certificate.theories:
        rules = ", ".join(sorted({use.rule for use in theory.uses})) or "every step"
        lines.append(f"law {theory.name}, for {rules}")
    lines += sorted(
        {
            f"given {condition.fact}, for {condition.rule}"
            for condition in certificate.conditions
            if condition.by not in ("form", AGAIN)
        }
    )
    return lines


def test_passes_and_carriers(golden: Callable[[str, str], None]) -> None:
    parts = [
        "\n".join([name, *(f"  {line}" for line in summary(name))]) for name in library.names()
    ]
    golden("passes.txt", "\n\n".join(parts) + "\n")


# --- as it should be ----------------------------------------------------------------------

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


ROUTERS = {
    "values": "P[t,r] = top[x -> r](softmax[x](S[t,x]))",
    "positions": "I[t,r] = argtop[x -> r](softmax[x](S[t,x]))",
    "both": "P[t,r] = top[x -> r](softmax[x](S[t,x]))\nI[t,r] = argtop[x -> r](softmax[x](S[t,x]))",
    "the largest": "I[t] = argmax[x](softmax[x](S[t,x]))",
}


@pytest.mark.parametrize("name", ROUTERS)
def test_probabilities_are_chosen_in_the_pass_that_sums_them(name: str) -> None:
    kernel = mc.compile(f"index r < 4\n{ROUTERS[name]}" if "r]" in ROUTERS[name] else ROUTERS[name])
    assert kernel.report()["passes"]["x"] == 1


LINEAR = ["hedgehog_attention", "linear_attention", "taylor_attention"]


@pytest.mark.parametrize("name", LINEAR)
def test_linear_time(name: str) -> None:
    """No operation is done for each pair of a query and a key."""
    terms = sympy.expand(compiled(name).report()["flops"]).as_ordered_terms()
    pairs = [t for t in terms if {"q", "k"} <= {str(symbol) for symbol in t.free_symbols}]
    assert not pairs
