"""Extrema: what does not vary with the index of a maximum or minimum leaves it.

Sums come first: a maximum that is subtracted in all exponents cancels where they leave a quotient,
whatever it is of.
"""

from __future__ import annotations

from monocomp import terms as T
from monocomp.rewrites.single_folds import scales_no_weights
from monocomp.rewriting.equations import Guard, equations
from monocomp.rewriting.matching import Bindings
from monocomp.rewriting.rules import RuleSet

extrema = RuleSet("extrema", "factors, addends and conditions that do not vary leave maxima")


def _leaves_whole_frame(found: Bindings) -> bool:
    """True if no number that may be infinite leaves a maximum over nothing, so that the frames of
    several sums over one domain stay alike."""
    return T.is_finite(found.terms["a"]) or T.has_element(found.folds["k"][1])


extrema.add(
    *equations("""
    # What a condition sets to -inf is left out of a maximum.
    filter_masked_extremum: max[k if c](where(d, x, -inf) + y) = max[k if c and d](x + y)

    # A sign turns a maximum round.
    turn_maximum: max[k if c](-x) = -min[k if c](x)
    """)
)
# Over nothing a maximum is -inf, whatever is added, and a minimum is inf.
for one, of_one, leaving in (
    ("max", "", ", worth a is finite or there is an element"),
    ("min", "_of_minimum", ", a finite or k has an element"),
):
    extrema.add(
        *equations(
            f"""
            # An addend that does not vary with the index leaves, as addition is monotone.
            hoist_addend{of_one}: {one}[k if c](a + x) = a + {one}[k if c](x)
                needs a free of k{leaving}

            # A positive factor leaves, and if there is an element one that may be 0.
            hoist_positive_factor{of_one}: {one}[k if c](a * x) = a * {one}[k if c](x)
                needs a free of k, a nonnegative, a positive or k has an element,
                a finite if read or k has an element,
                worth a is finite if there are elements, a scales no weights
            """,
            a_is_finite_or_there_is_an_element=Guard(_leaves_whole_frame, "{1}"),
            a_is_finite_if_there_are_elements=Guard(
                lambda found: T.is_finite_if_there(found.terms["a"])
            ),
            a_scales_no_weights=Guard(scales_no_weights),
        )
    )
