"""How far results are apart."""

from __future__ import annotations

import numpy as np

from monocomp.checking import steps as checking


def test_difference() -> None:
    inf, nan = np.inf, np.nan
    one = np.array([1.0, -inf, nan])
    assert checking.difference(one, one) == 0
    assert checking.difference(one, np.array([4.0, -inf, nan])) == 0.75
    for other in ([nan, -inf, nan], [1.0, inf, nan], [inf, -inf, nan], [1.0, -inf]):
        assert checking.difference(np.array(other), one) == inf
    assert checking.difference(np.array([1.0, -inf, 0.0]), one) == 0  # nothing is promised
    assert checking.difference(np.array([nan, -inf, nan]), one, or_nan=True) == 0
    assert checking.difference(np.array([]), np.array([])) == 0
    assert checking.difference(np.array([True]), np.array([False])) == 1
