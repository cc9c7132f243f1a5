"""Extrema: what does not vary with the index of a maximum or minimum leaves it.

Sums come first: a maximum that is subtracted in all exponents cancels where they leave a quotient,
whatever it is of.
"""

from __future__ import annotations

from monocomp import terms as T
from monocomp.rewrites.single_folds import scales_no_weights
from monocomp.rewriting.equations import Guard, equations
from monocomp.rewriting.rules import RuleSet

extrema = RuleSet("extrema", "factors, addends and conditions that do not vary leave maxima")

extrema.add(
    *equations("""
    # What a condition sets to -inf is left out of a maximum.
    filter_masked_extremum: max[k if c](where(d, x, -inf) + y) = max[k if c and d](x + y)

    # An addend that does not vary with the index leaves, as addition is monotone; over nothing a
    # maximum is -inf, whatever is added.
    hoist_addend: max[k if c](a + x) = a + max[k if c](x)  needs a free of k

    # A sign turns a maximum round.
    turn_maximum: max[k if c](-x) = -min[k if c](x)
    """)
)
for one, of_one in (("max", ""), ("min", "_of_minimum")):
    extrema.add(
        *equations(
            f"""
            # A positive factor leaves, and if there is an element one that may be 0.
            hoist_positive_factor{of_one}: {one}[k if c](a * x) = a * {one}[k if c](x)
                needs a free of k, a nonnegative, a positive or k has an element,
                a finite if read or k has an element,
                worth a is finite if there are elements, a scales no weights
            """,
            a_is_finite_if_there_are_elements=Guard(
                lambda found: T.is_finite_if_there(found.terms["a"])
            ),
            a_scales_no_weights=Guard(scales_no_weights),
        )
    )
