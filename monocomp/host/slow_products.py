"""Notes on products that run slowly by the dtypes of a call: the partners of an operand of more
bits are converted, and matrix units multiply 16 bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from monocomp.blocks.choices.operands import Operands
from monocomp.declarations.dtypes import itemsize, promoted
from monocomp.display.notes import Note
from monocomp.planning.plan import Plan
from monocomp.terms.equations import Equations

# What an H100 or H200 does at best (NVIDIA's data sheets, dense), in TFLOP/s.
_PEAK, _PEAK_TF32, _PEAK_FLOAT32 = 989, 494, 67


def slow_products(
    written: Equations, plan: Plan, dtypes: Mapping[str, str], tf32: bool
) -> Iterator[Note]:
    """Yield a note if products run in more than 16 bits for some of their operands alone.

    Args:
        written: the program as a user has written it, whose inputs are named.
        plan: its kernels, or those of a program that is derived of it.
        dtypes: of its inputs.
        tf32: may float32 products use the tf32 units?
    """
    if len({dtypes[n] for n in plan.program.declared.deciding if n in dtypes}) < 2:
        return
    slices = {} if plan.program.slices is None else plan.program.slices.read
    loaded = [n for k in plan.kernels for n in sorted(Operands(k).multiplied)]
    tensors = dict.fromkeys(slices[n][0] if n in slices else n for n in loaded)
    of = {n: dtypes[n] for n in tensors if n in dtypes and n in written.declared.inputs}
    wide = [n for n in written.declared.inputs if n in of and itemsize(of[n]) > 2]
    narrow = [n for n in written.declared.inputs if n in of and itemsize(of[n]) == 2]
    if not wide or not narrow:
        return
    dtype, less = promoted(of[n] for n in wide), promoted(of[n] for n in narrow)
    speed = ""
    if dtype == "float32":
        peak = _PEAK_TF32 if tf32 else _PEAK_FLOAT32
        speed = f": at most {peak} TFLOP/s on an H100 or H200, where {_PEAK} are possible"
    is_one = len(wide) == 1
    yield Note(
        f"{', '.join(wide)} {'is' if is_one else 'are'} {dtype} beside {', '.join(narrow)} in "
        f"{less}, and products with {'it' if is_one else 'them'} run in {dtype}{speed}",
        tuple(s for n in wide for s in written.origin.span(n)),
        f"give {', '.join(f'{n}.to(torch.{less})' for n in wide)}",
    )
