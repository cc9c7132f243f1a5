"""Selection: what keeps the order of elements leaves a choice among them, and a comparison."""

from __future__ import annotations

from monocomp.rewriting.equations import equations
from monocomp.rewriting.rules import RuleSet

selection = RuleSet("selection", "increasing functions leave a choice among elements")
selection.add(
    *equations("""
    # The positions of the largest elements are those of their multiples.
    list_positions_by_order: argtop[k -> r if c](a * x) = argtop[k -> r if c](x)
        needs a free of k, a positive

    # A factor that both sides have in common leaves a comparison. So rounding does not tell what
    # is equal.
    compare_by_order: a * x < a * y = x < y  needs a positive
    """)
)
