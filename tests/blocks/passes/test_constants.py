"""Constants of block programs: what is known of arguments is computed, and nothing is left that it
leaves without a use. That the programs mean the same, `both_stages` tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.kernel_source import block_program, source_of
from monocomp.blocks import INT32
from monocomp.blocks.names import Constant, Key
from tests.backends import interpreted


def text(known: Mapping[Key, Constant], name: str = "causal") -> str:
    (kernel,) = mc.compile(library.load(name), name=name).plan().kernels
    return "\n".join(source_of(block_program(kernel, known=lambda *_: known)).lines)


FOLDED: dict[str, tuple[dict[Key, Constant], str, str]] = {
    "a stride of 1": ({("stride", "Q", 3): 1}, "+ offs_d[None, :],", "stride_Q_d"),
    "a mask": ({("even", "d", 0): True}, "mask=in_q[:, None], other", "in_d"),
    "no mask": ({("even", x, 0): True for x in "qd"}, " * stride_Q_d)", "in_q"),
    "a flag": ({("even", "d", 0): False}, "in_d = offs_d < size_d\n", "EVEN_D"),
    "a size": ({("size", "d", 0): 64}, "scale = 0.18033688011112042\n", "size_d"),
    "a length": ({("block", "d", 0): 64}, "offs_d = tl.arange(0, 64).to(INDEX)\n", "BLOCK_D"),
    "a dtype": ({("option", "INDEX", 0): INT32}, "offs_d = tl.arange(0, BLOCK_D)\n", "INDEX"),
    "no option": ({("option", "STEP", 0): 1}, "    num_q = tl.cdiv(size_q, BLOCK_Q)\n", "STEP"),
    "the precision": ({("option", "PRECISION", 0): "tf32"}, 'input_precision="tf32"', "PRECISION"),
    "an order": ({("order", "GROUP_SIZE", 0): 1}, "pid = tl.program_id(0)\n", "grouped"),
    "one head": ({("size", "h", 0): 1}, " * stride_Q_b\n", "stride_Q_h"),
    "a descriptor": ({("descriptor", "K", 0): True}, " if masked == 0:\n", "K_desc is not None"),
    "none": ({("descriptor", "K", 0): None}, "            K_tile = tl.load(", "K_desc"),
}


@pytest.mark.parametrize("name", FOLDED)
def test_what_is_known_is_gone(name: str) -> None:
    known, expected, gone = FOLDED[name]
    found = " ".join(text(known).split())
    assert expected.strip() in found and not re.search(rf"\b{gone}\b", found)


def test_given_sizes_are_numbers_of_whole_files(tmp_path: Path) -> None:
    """And the file checks itself at these sizes."""
    source = mc.compile(library.load("causal"), name="causal").source(
        extents={"d": 24, "e": 32}, dtype="fp32"
    )
    kernel = source[source.index("def causal_kernel") : source.index("def causal(")]
    assert not re.search(r"size_[de]|BLOCK_[DE]|EVEN_[DE]|in_e", kernel)
    assert "tl.arange(0, 32)" in kernel and "offs_d < 24" in kernel and "size_q" in kernel
    path = tmp_path / "emitted.py"
    path.write_text(source)
    status, out, err = interpreted.run_file(path)
    assert status == 0 and out.endswith("\nok\n"), err
