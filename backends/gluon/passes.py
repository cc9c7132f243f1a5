"""The passes that lead to block programs in Gluon: what they are like decides which schedules a
kernel may have, before any is printed."""

from __future__ import annotations

from monocomp.backends.triton.dialect import Dialect
from monocomp.blocks.passes.crossing import cross
from monocomp.blocks.passes.division import divide
from monocomp.blocks.passes.persistence import persist
from monocomp.blocks.passes.pipeline import pipeline
from monocomp.blocks.passes.registers import place
from monocomp.blocks.passes.skew import skew
from monocomp.blocks.passes.spanning import span
from monocomp.blocks.passes.specialisation import specialise
from monocomp.blocks.passes.turns import take_turns

UNPRINTED = Dialect(
    "gluon",
    passes={
        "span": span,
        "cross": cross,
        "skew": skew,
        "persist": persist,
        "pipeline": pipeline,
        "specialise": specialise,
        "divide": divide,
        "take_turns": take_turns,
        "place": place,
    },
    resident=True,
    target="cuda:90",
    adds=True,
    merges=False,
)
