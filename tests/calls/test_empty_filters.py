"""Parameters that leave nothing of a filter are refused, and those that leave something are not."""

from __future__ import annotations

import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.calls.empty_filters import Filters
from monocomp.errors import InputError
from monocomp.language.checker import check
from monocomp.translation.translator import translate

WINDOW = library.load("sliding_window")
SINKS = library.load("sink_window")
PREFIX = "param n: int\nO[i] = sum[k if k < n](X[i,k])"
RANGE = "param n: int, m: int\nO[i] = sum[k if n <= k < m](X[i,k])"
AROUND = "param n: int\nO[q] = sum[k if abs(q - k) < n](X[q,k])"
PLACE = "param n: int, p: int\nO[q] = sum[k if k <= q + p and q + p - k < n](X[q,k])"
BELOW = "param n: int\nO[q] = sum[k if k < q + n](X[q,k])"
SWITCH = "param n: int\nO[q] = sum[k if k <= q and n > 0](X[q,k])"
PAIRS = "param n: int\nO[i] = sum[k, j if k + j < n](X[i,k] * Y[j])"


def filters(text: str) -> Filters:
    """The filters of a program."""
    return Filters(translate(check(text)))


@pytest.mark.parametrize(
    ("text", "values", "shown"),
    [
        (WINDOW, {"window": 0}, "k <= q and q - k < window"),
        (WINDOW, {"window": -3}, "k <= q and q - k < window"),
        (SINKS, {"window": 0, "sink": 0}, "(q - k < window or k < sink) and k <= q"),
        (PREFIX, {"n": -1}, "k < n"),
        (AROUND, {"n": 0}, "abs(k - q) < n"),
        (PLACE, {"n": 0, "p": 7}, "k - q <= p and p + q - k < n"),
        (PAIRS, {"n": -1}, "j + k < n"),
    ],
)
def test_nothing_passes(text: str, values: dict[str, int], shown: str) -> None:
    """The error has the values and the filter."""
    with pytest.raises(InputError) as caught:
        filters(text).check(values)
    message = caught.value.described()
    assert "nothing passes the filter" in message
    assert shown in message
    assert "give another value of" in message


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (WINDOW, {"window": 1}),
        (SINKS, {"window": 0, "sink": 1}),
        (SINKS, {"window": 1, "sink": 0}),
        (PREFIX, {"n": 0}),
        (RANGE, {"n": 3, "m": 3}),
        (AROUND, {"n": 1}),
        (PLACE, {"n": 1, "p": -7}),
        (BELOW, {"n": -100}),
        (SWITCH, {"n": 0}),
        (PAIRS, {"n": 0}),
    ],
)
def test_something_may_pass(text: str, values: dict[str, int]) -> None:
    """An empty range that is one for all rows, as an axis may be, and a switch included."""
    found = filters(text)
    found.check(values)
    assert found.have_admitted(values)


@pytest.mark.parametrize(
    ("text", "params"),
    [(WINDOW, {"window"}), (PLACE, {"n"}), (BELOW, set()), (SWITCH, set()), (PAIRS, {"n"})],
)
def test_parameters_that_decide(text: str, params: set[str]) -> None:
    """Others may change from call to call, and nothing is checked again."""
    assert set(filters(text).params) == params


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_a_call_is_refused(backend: str) -> None:
    """After calls that were not, too."""
    kernel = mc.compile(WINDOW, backend=backend)
    q = torch.randn(1, 1, 4, 8)
    kernel(q, q, q, window=2)
    for window in (0, 0, -1):
        with pytest.raises(InputError) as caught:
            kernel(q, q, q, window=window)
        assert caught.value.described() == (
            f"InputError: with window = {window} nothing passes the filter "
            "k <= q and q - k < window\n  help: give another value of window"
        )
    kernel(q, q, q, window=2)
