"""Nominal sizes: given ones win, features are short, the rest is long."""

from __future__ import annotations

import pytest

from monocomp.extents.nominal import LONG, SHORT, nominal_sizes
from monocomp.language.checker import check
from monocomp.translation.translator import translate

ATTENTION = "O[b,h,q,e] = softmax[k](Q[b,h,q,d] * K[b,h,k,d]) * V[b,h,k,e]"


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        (ATTENTION, "de", "bhqk"),
        ("O[i] = sum[k](X[i,k])", "k", "i"),
        ("O[i] = sum[k](X[i,k] * Y[k,i])", "", "ik"),  # each is also a first dimension
        ("s = sum[k](x[k])", "", "k"),  # a vector does not tell
        ("O[i] = sum[c](X[i,c] * g[c])", "c", "i"),
        ("O[i,c] = sum[j](A[i,j] * X[j,c])", "c", "ij"),
    ],
)
def test_features_are_short(text: str, short: str, long: str) -> None:
    sizes = nominal_sizes(translate(check(text)).declared)
    assert sizes == dict.fromkeys(short, SHORT) | dict.fromkeys(long, LONG)


def test_given_sizes_win() -> None:
    sizes = nominal_sizes(translate(check(ATTENTION)).declared, {"d": 512, "h": 8})
    assert (sizes["d"], sizes["h"], sizes["e"], sizes["k"]) == (512, 8, SHORT, LONG)


def test_a_declared_number_is_the_size() -> None:
    sizes = nominal_sizes(translate(check("index r < 2 * 4\nO[i] = sum[r](X[i, 3 * r])")).declared)
    assert sizes["r"] == 8
    text = "input X[n,s,c]\nindex k < |n| * |s|\nO[c] = sum[k](X[k // |s|, k % |s|, c])"
    sizes = nominal_sizes(translate(check(text)).declared)
    assert sizes["k"] == LONG


def test_a_part_of_a_short_extent_is_short() -> None:
    """Rotary halves: |d| // 2 follows |d|, given or not, and is one size of several declared."""
    text = "input Q[q,d]\nindex r < |p| // 2\nindex p < |d| // 2\n"
    declared = translate(check(f"{text}O[q,p,r] = Q[q,p] * Q[q, p + |p|] * Q[q,r]")).declared
    for given, wanted in (({}, (64, 32, 16)), ({"d": 128}, (128, 64, 32)), ({"p": 7}, (64, 7, 3))):
        sizes = nominal_sizes(declared, given)
        assert tuple(sizes[e] for e in "dpr") == wanted
    assert nominal_sizes(declared, {"d": 1})["r"] == 1  # nothing says that there are no elements
    declared = translate(check("input X[i,d]\nindex w < |i| // 2\nO[w] = sum[d](X[w,d])")).declared
    assert nominal_sizes(declared)["w"] == LONG // 2
