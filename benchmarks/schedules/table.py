"""Which schedules kernels like one have done best with: rows of features and measured shapes.

A row holds the features of one kernel and the shapes that were measured for it, the fastest
first. A kernel takes the first shape that it can have of the nearest row. Near are kernels with
as many axes of rows and of streams, which multiply or do not, whose streams are in parts or not;
their distance is the sum of the weighted differences of their features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_SAME = ("rows", "streams", "parts")  # what kernels must have in common to share shapes
# What a difference of 1 counts. Lengths are logarithms, and beyond a limit they are all the same.
_WEIGHTS = {
    "bytes": 2.0,
    "held": 1.0,
    "whole": 0.5,
    "row": 0.5,
    "length": 0.1,
    "places": 0.1,
    "streamed": 0.5,
    "products": 0.2,
    "work": 0.5,
    "limbs": 0.7,
    "added": 1.0,
    "masked": 0.5,
    "bounded": 0.3,
    "levels": 2.0,
    "loops": 0.3,
    "rest": 1.0,
    "describes": 1.0,
    "two": 2.0,
}
_LIMITS = {"row": 8.0, "length": 14.0, "places": 12.0, "products": 6.0, "limbs": 2.0, "added": 2.0}


def distance(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
    """How far apart two kernels' features are; infinite if they cannot share shapes."""
    if any(a[n] != b[n] for n in _SAME) or bool(a["products"]) != bool(b["products"]):
        return math.inf
    total = 0.0
    for name, weight in _WEIGHTS.items():
        limit = _LIMITS.get(name, math.inf)
        total += weight * abs(min(a[name], limit) - min(b[name], limit))
    return total
