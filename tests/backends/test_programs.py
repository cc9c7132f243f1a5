"""Programs of every part of the language, on every backend, against the oracle."""

from __future__ import annotations

import pytest

from tests.backends.programs import EXAMPLES, elements
from tests.backends.running import (
    BACKENDS,
    exact,
    largest_error,
    make_inputs,
    program_of,
    run,
    scale_of,
)

# float32 on two backends; sums of some tens of elements, and exponentials of exponents near 10.
TOLERANCE = {"numpy": 1e-9, "torch": 2e-5, "triton": 2e-5}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, backend: str) -> None:
    """The results are the oracle's."""
    example = EXAMPLES[name]
    for seed, extents in enumerate(example.extents):
        known = program_of(example.text).extent_of
        used = {i: n for i, n in extents.items() if i in known}
        made = make_inputs(example.text, used, seed=seed, params=example.params)
        inputs = elements(example, made)
        found = run(backend, example.text, inputs, **example.params)
        for got, wanted in zip(found, exact(example.text, inputs, **example.params), strict=True):
            limit = TOLERANCE[backend] * example.tolerance * max(1.0, scale_of(wanted))
            assert largest_error(got, wanted) <= limit
