"""Streams in parts: the parts cover the stream, results stay, and rows are packed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import torch
import z3
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.kernel import Kernel
from monocomp.lowering.bracketing import ALIGNMENT
from monocomp.program import Equations
from monocomp.rewriting import Step
from tests.backends import interpreted
from tests.backends.library_cases import CASES
from tests.backends.running import exact, make_inputs, run, short_parts
from tests.backends.tolerances import ALONE, Bound

PROCESSORS = 64
LENGTH = 77  # three parts of two blocks, the last one short
NAMES = [n for n, c in CASES.items() if not c.same_kernel_as]
# Programs that stay whole, and why.
ALONG = "an output along the stream"
WHOLE: Mapping[str, str] = {
    "softmax": ALONG,
    "sparsemax": ALONG,
    "softmax_top8": "a list of the largest",
    "linear_attention": "a stream that is inside of another loop too",
    "two_simplicial": "a stream that is inside of another loop",
}

NAN = float("nan")


def split(text: str, sizes: Mapping[str, int]) -> tuple[Equations, list[Step]]:
    """A program cut for so many processors, and the steps to it."""
    kernel = compiled(text)
    with short_parts():
        extents = {kernel.program.extent_of[n]: size for n, size in sizes.items()}
        return kernel._cut(extents)


@cache
def compiled(text: str) -> Kernel:
    return mc.compile(text, processors=PROCESSORS, backend="torch")


def rules(text: str, **sizes: int) -> list[str]:
    """The rules that split a program."""
    return [s.rule for s in split(text, sizes)[1]]


def check_backends(text: str, inputs: Mapping[str, Tensor], *backends: str, **params: Any) -> None:
    """Are the results in parts those of the oracle?"""
    wanted = exact(text, inputs, **params)
    for backend in backends or ("numpy", "torch", "triton"):
        found = run(backend, text, inputs, processors=PROCESSORS, **params)
        for f, w in zip(found, wanted, strict=True):
            (ALONE["numpy"] if backend == "numpy" else Bound(0.0, 1e-5)).check(f, w)


# --- parts ----------------------------------------------------------------------------------


def test_parts_are_a_disjoint_cover() -> None:
    """For any length and number of parts each element is in exactly one part."""
    length, parts, k, s = z3.Ints("length parts k s")
    whole = ALIGNMENT * parts
    part = ALIGNMENT * ((length + whole - 1) / whole)
    given = [length >= 0, parts >= 1, k >= 0, k < length]
    inside = z3.And(s >= 0, s < parts, s * part <= k, k < (s + 1) * part)
    solver = z3.Solver()
    solver.add(*given, part >= 1, parts * part < length)
    assert solver.check() == z3.unsat  # long enough
    one = z3.Solver()
    quotient = z3.Int("quotient")  # k // part is the part, and the only one
    one.add(*given, part >= 1, quotient * part <= k, k < (quotient + 1) * part)
    one.add(inside, s != quotient)
    assert one.check() == z3.unsat


def sizes_of(name: str) -> dict[str, int]:
    """Few rows and a long stream."""
    sizes = CASES[name].sizes(3, LENGTH, 8, 8)
    longer = {"k": LENGTH, "n": LENGTH // 5 + 1}
    if name == "column_sums":  # it streams queries
        longer = {"q": LENGTH, "k": 3}
    if name == "dilated":  # it streams places of a window
        longer = {}
    return {n: longer.get(n, size) for n, size in sizes.items()}


@pytest.mark.parametrize("name", NAMES)
def test_results_stay(name: str) -> None:
    """Each program either stays whole for a reason, or gives what it gives as it is."""
    case, sizes = CASES[name], sizes_of(name)
    assert ("split_stream" in rules(case.text, **sizes)) == (name not in WHOLE)
    if name not in WHOLE:
        inputs = case.inputs(sizes, shift=20.0)
        check_backends(case.text, inputs, **case.params)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in WHOLE])
def test_what_is_derived_is_a_program(name: str) -> None:
    """Its text parses, and the oracle gives the same for it, in as many parts as one likes."""
    case, sizes = CASES[name], sizes_of(name)
    program, _ = split(case.text, sizes)
    inputs = case.inputs(sizes, torch.float64)
    wanted = exact(case.text, inputs, **case.params)
    for parts in (1, 3, 64):
        counts = dict.fromkeys(program.parts.values(), parts)
        found = exact(program.text(), inputs, **case.params, **counts)
        for f, w in zip(found, wanted, strict=True):
            ALONE["numpy"].check(f, w)


# Filters leave some parts without an element; row by row, all but the first.
ABOUT_CENTRES = {
    "entropy": """
input Q[i,d], K[k,d], n[i]: int
P[i,k] = softmax[k if k < n[i]](Q[i,d] * K[k,d])
H[i]   = -sum[k](P[i,k] * log(P[i,k]))
return H
""",
    "variance": """
input X[i,k], n[i]: int
M[i] = mean[k if k < n[i]](X[i,k])
V[i] = mean[k if k < n[i]]((X[i,k] - M[i]) ** 2)
return M, V
""",
    "spread of values": """
input Q[i,d], K[k,d], V[k,e], n[i]: int
P[i,k] = softmax[k if k < n[i]](Q[i,d] * K[k,d])
M[i,e] = P[i,k] * V[k,e]
D[i,e] = sum[k](P[i,k] * (V[k,e] - M[i,e]) ** 2)
return M, D
""",
}


@pytest.mark.parametrize("length", [LENGTH, 129])
@pytest.mark.parametrize("name", ABOUT_CENTRES)
def test_sums_about_the_centres_of_parts(name: str, length: int) -> None:
    """They are moved to the centre of all, also where a part holds nothing."""
    text = ABOUT_CENTRES[name]
    known = {"i": 3, "k": length, "d": 8, "e": 5}
    sizes = {i: n for i, n in known.items() if i in compiled(text).program.extent_of}
    assert "split_stream" in rules(text, **sizes)
    inputs = dict(make_inputs(text, sizes)) | {"n": torch.tensor([length, 20, 1])}
    check_backends(text, inputs)


# --- when ---------------------------------------------------------------------------------

ATTENTION = library.load("attention")
FEW = {"b": 1, "h": 2, "q": 1, "k": 64, "d": 8, "e": 8}


def test_a_stream_of_two_parts_is_cut() -> None:
    """And a shorter one is not, nor one for many rows, nor for one processor."""
    assert rules(ATTENTION, **FEW) == ["split_stream"]
    assert not rules(ATTENTION, **FEW | {"k": 32})
    assert not rules(ATTENTION, **FEW | {"b": 32})
    assert not rules(ATTENTION, **FEW | {"q": 64 * 128})
    one = mc.compile(ATTENTION, processors=1)
    with short_parts():
        assert not one._cut(FEW)[1]


def test_a_long_contraction_takes_more_rows() -> None:
    """What a product of large matrices leaves idle with its tiles is put to work."""
    text = "L[i] = logsumexp[k](X[i,d] * W[k,d])"
    sizes = {"i": PROCESSORS // 2 * 128, "k": 5000}
    assert rules(text, **sizes, d=4096) == ["split_stream"]
    assert not rules(text, **sizes | {"i": sizes["i"] + 1}, d=4096)
    assert not rules(text, **sizes, d=64)


NOT_CUT = {
    "an output along the stream": "P[i,k] = softmax[k](X[i,k])",
    "a scan": "C[i,k] = sum[j if j <= k](X[i,j]) + X[i,k]",
    "a pass that needs another": "R[i] = sum[k](relu(X[i,k] - sum[k](relu(X[i,k]))))",
    "a list": "T[i,r] = top[k -> r](X[i,k])",
}


@pytest.mark.parametrize("kind", NOT_CUT)
def test_near_misses(kind: str) -> None:
    """Programs that stay whole, beside one that does not."""
    text = NOT_CUT[kind]
    declared = "index r < 4\n" if "top" in text else ""
    assert not rules(declared + text, i=3, k=LENGTH)
    assert rules("S[i] = sum[k](relu(X[i,k]))", i=3, k=LENGTH) == ["split_stream"]


# --- order ----------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["k", "q"])
def test_parts_keep_their_order(first: str) -> None:
    """A fold of maps, which do not commute, and one of matrices."""
    bound = "k" if first == "k" else "k if k >= q"
    texts = (
        f"H[q] = Affine[{bound}](1 + X[q,k], Y[k]).u",
        f"H[q] = Matrix[{bound}](1 + X[q,k], Y[k], -Y[k], 1 - X[q,k]).b",
    )
    for text in texts:
        assert "split_stream" in rules(text, q=3, k=LENGTH)
        made = make_inputs(text, {"q": 3, "k": LENGTH})
        inputs = {n: t / 10 for n, t in made.items()}
        backwards = {n: t.flip(-1) for n, t in inputs.items()}
        assert not torch.allclose(exact(text, backwards)[0], exact(text, inputs)[0], rtol=0.01)
        check_backends(text, inputs)


# --- rows -----------------------------------------------------------------------------------

MQA = "O[b,h,q,e] = softmax[k](Q[b,h,q,d] * K[b,k,d]) * V[b,k,e]"
TWO_GROUPINGS = """
    input Q[b,h,q,d], K[b,g,k,d], V[b,f,k,e]
    S[b,h,q,k] = Q[b,h,q,d] * K[b,h // (|h| // |g|),k,d]
    O[b,h,q,e] = softmax[k](S[b,h,q,k]) * V[b,h // (|h| // |f|),k,e]
    """
HEADS = {"b": 1, "h": 4, "q": 2, "k": LENGTH, "d": 8, "e": 8}
PACKED: Mapping[str, tuple[str, Mapping[str, int], str]] = {
    "gqa": (library.load("gqa"), HEADS | {"g": 2}, "h, q -> h_q"),
    "gqa with one group": (library.load("gqa"), HEADS | {"g": 1}, "h, q -> h_q"),
    "mqa": (MQA, HEADS, "h, q -> h_q"),
    "mla": (
        library.load("mla"),
        {"b": 1, "h": 4, "q": 2, "k": LENGTH, "c": 8, "r": 4},
        "h, q -> h_q",
    ),
    "a window": (
        "param window: int = 20\n" + MQA.replace("[k]", "[k if k - q < window]"),
        HEADS,
        "h, q -> h_q",
    ),
    "a slope": (
        "input slope[h]\n" + MQA.replace("K[b,k,d]", "K[b,k,d] + slope[h]"),
        HEADS,
        "h, q -> h_q",
    ),
    "heads of their own": (ATTENTION, HEADS, ""),
    "two groupings": (TWO_GROUPINGS, HEADS | {"g": 2, "f": 1}, ""),
}


@pytest.mark.parametrize("kind", PACKED)
def test_packed_rows(kind: str) -> None:
    """Rows that one stream serves become one index, before the stream is cut."""
    text, sizes, packing = PACKED[kind]
    program, steps = split(text, sizes)
    found = [f"{s.before} -> {s.after}" for s in steps if s.rule == "pack_rows"]
    assert found == ([packing] if packing else [])
    assert [s.rule for s in steps] == ["pack_rows"] * bool(packing) + ["split_stream"]
    stored = [e for e in program.equations if "k_part" in [i.attr[0] for i in e.indices]]
    assert all(("h_q" in [i.attr[0] for i in e.indices]) == bool(packing) for e in stored)
    check_backends(text, make_inputs(text, sizes))


# --- parts without members --------------------------------------------------------------------

BY_LENGTH = """
    input length[b]: int
    S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d]
    O[b,h,q,e] = softmax[k if k < length[b]](S[b,h,q,k]) * V[b,h,k,e]
    L[b,h,q]   = logsumexp[k if k < length[b]](S[b,h,q,k])
    return O, L
    """


def test_lengths_that_leave_parts_empty() -> None:
    """No keys at all, one, the first part but one, all of it, one more; NaN beyond them."""
    lengths = torch.tensor([0, 1, 31, 32, 33, LENGTH])
    inputs = make_inputs(BY_LENGTH, {"b": 6, "h": 1, "q": 2, "k": LENGTH, "d": 8, "e": 8})
    inputs["length"] = lengths
    assert "split_stream" in rules(BY_LENGTH, b=6, h=1, q=2, k=LENGTH)
    wanted = exact(BY_LENGTH, inputs)
    for n in "KV":
        for tensor, length in zip(inputs[n], lengths.tolist(), strict=True):
            tensor[:, length:] = NAN
    for backend in ("numpy", "torch", "triton"):
        found = run(backend, BY_LENGTH, inputs, processors=PROCESSORS)
        assert (found[0][0] == 0).all() and (found[1][0] == -torch.inf).all()
        for f, w in zip(found, wanted, strict=True):
            Bound(0.0, 1e-5).check(f, w)


FILTERS = ("k if k <= q", "k if q + 40 <= k < q + 50", "k if k < 5 or k > 70", "k if k < q - 5")


@pytest.mark.parametrize("keys", FILTERS)
def test_filters_that_leave_parts_empty(keys: str) -> None:
    """The first part only, the second, all but the second, none."""
    text = f"O[b,q,e] = softmax[{keys}](Q[b,q,d] * K[b,k,d]) * V[b,k,e]"
    sizes = {"b": 2, "q": 3, "k": LENGTH, "d": 8, "e": 8}
    assert "split_stream" in rules(text, **sizes)
    check_backends(text, make_inputs(text, sizes))


def _emitted(lengths: list[int]) -> list[tuple[Tensor, Tensor]]:
    """What one emitted file gives for streams of some lengths, beside attention in torch."""
    from monocomp.backends.triton.launch import load

    with short_parts():
        kernel = mc.compile(ATTENTION, name="attention", processors=PROCESSORS)
        module = load(kernel.source(dtype="fp32", extents=FEW))
    found = []
    for k in lengths:
        inputs = make_inputs(ATTENTION, FEW | {"k": k})
        Q, K, V = (inputs[n] for n in "QKV")
        weights = (Q @ K.mT / Q.shape[-1] ** 0.5).softmax(-1)
        found.append((module.attention(Q, K, V), weights @ V))
    return found


def test_an_emitted_file_takes_any_length() -> None:
    """Also none, for which there are no parts, and less than a part."""
    for found, wanted in interpreted.call(_emitted, [0, 1, 15, 32, 33, LENGTH, 200]):
        Bound(0.0, 1e-5).check(found, wanted.double())
