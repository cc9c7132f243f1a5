"""Streams in splits: the splits cover the stream, results stay, and rows are packed."""

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
from monocomp import terms as T
from monocomp.extents.intervals import extremes
from monocomp.extents.nominal import ROW_BLOCK
from monocomp.kernel import Kernel
from monocomp.planning.stretches import Stretch
from monocomp.rewriting.driver import Step
from monocomp.terms.equations import Equations
from tests.backends import interpreted
from tests.backends.library_cases import CASES
from tests.backends.running import exact, file_for_any_size, make_inputs, short_splits
from tests.backends.tolerances import Bound, agree, near
from tests.elements import element
from tests.extents.test_splits import Formulas
from tests.marks import slow_unless

PROCESSORS = 64
LENGTH = 77  # three splits of two blocks, the last one short
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

CAUSAL = ("causal", "sliding_window", "softcap", "alibi", "learned_sink", "document", "sink_window")
CAUSAL += ("mla",)

NAN = float("nan")


def split(text: str, sizes: Mapping[str, int]) -> tuple[Equations, list[Step]]:
    """A program cut for so many processors, and the steps to it."""
    kernel = compiled(text)
    with short_splits():
        extents = {kernel.declared.extent_of[n]: size for n, size in sizes.items()}
        found = kernel.plan(extents)
        return found.program, list(found.decisions)


@cache
def compiled(text: str) -> Kernel:
    return mc.compile(text, processors=PROCESSORS, backend="torch")


def rules(text: str, **sizes: int) -> list[str]:
    """The rules that split a program."""
    return [s.rule for s in split(text, sizes)[1]]


def check_backends(text: str, inputs: Mapping[str, Tensor], *backends: str, **params: Any) -> None:
    """Are the results in splits those of the oracle?"""
    for backend in backends or ("torch", "triton"):
        times = 1 if backend == "numpy" else 5
        agree(backend, text, inputs, times, processors=PROCESSORS, **params)


# --- splits ----------------------------------------------------------------------------------


K, SPLIT, LENGTH_OF_K = T.index("k", "k"), T.index("k_split", "k_split"), T.extent_of("k")
COUNT = T.extent_of("k_split")
START, END = T.param("start", "int"), T.param("end", "int")
STRETCHES = {
    "the axis": Stretch(LENGTH_OF_K),
    "an interval": Stretch(LENGTH_OF_K, (START,), (END,)),
    "the longest of some intervals": Stretch(LENGTH_OF_K, (START,), (END,), is_all=False),
}


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("kind", STRETCHES)
def test_splits_are_a_disjoint_cover(kind: str, count: int) -> None:
    """Each element that a filter may leave is in exactly one split, and splits are short enough,
    for any length of the stream and any interval of it."""
    stretch, formulas = STRETCHES[kind], Formulas()
    k, part, number = z3.Ints("k k_split |k_split|")
    length, start, end = z3.Ints("|k| start end")
    given = [k >= 0, k < length]
    if kind == "an interval":  # the filter holds the elements in it
        given += [start <= k, k < end]
    piece = z3.And(*(formulas.of(c, k) for c in stretch.piece(K, SPLIT, COUNT, ROW_BLOCK)))

    def of_split(formula: Any, split: int) -> Any:
        known = (part, z3.IntVal(split)), (number, z3.IntVal(count))
        return z3.substitute(formula, *known)

    within = [of_split(piece, split) for split in range(count)]
    facts = [of_split(fact, split) for fact in formulas.facts for split in range(count)]
    solver = z3.Solver()
    solver.add(*given, *facts, z3.Not(z3.PbEq([(inside, 1) for inside in within], 1)))
    assert solver.check() == z3.unsat


Q, N = T.index("q", "q"), T.param("n", "int")
BOUNDS = {
    "a position": T.add(Q, T.const(3)),
    "backwards": T.sub(N, T.mul(T.const(2), Q)),
    "the larger": T.function("maximum", T.sub(Q, N), T.mul(T.const(-1), Q)),
    "a block": T.mul(T.const(5), T.floordiv(T.add(Q, N), T.const(3))),
    "free of rows": T.mul(T.const(5), N),
}


@pytest.mark.parametrize("kind", BOUNDS)
def test_extremes_of_a_block(kind: str) -> None:
    """The bound of each row lies between those of its block, which mention no row."""
    first, last = T.param("first", "int"), T.param("last", "int")
    found = extremes(BOUNDS[kind], {"q": (first, last)})
    assert not any(t.free for t in found)
    formulas = Formulas()
    q, a, b = z3.Ints("q first last")
    least, bound, largest = (formulas.of(t, 0) for t in (found[0], BOUNDS[kind], found[1]))
    solver = z3.Solver()
    solver.add(*formulas.facts, a <= q, q <= b, z3.Or(bound < least, bound > largest))
    assert solver.check() == z3.unsat


def sizes_of(name: str) -> dict[str, int]:
    """Few rows and a long stream; as many rows where these see what is before them."""
    sizes = CASES[name].sizes(3, LENGTH, 8, 8)
    longer = {"k": LENGTH, "n": LENGTH // 5 + 1}
    if name in CAUSAL:
        longer["q"] = LENGTH
    if name == "column_sums":  # it streams queries
        longer = {"q": LENGTH, "k": 3}
    if name == "dilated":  # it streams positions of a window
        longer = {}
    return {n: longer.get(n, size) for n, size in sizes.items()}


@pytest.mark.one_in(11)
@pytest.mark.parametrize("name", slow_unless(lambda name: name in NAMES[::3], NAMES))
def test_results_stay(name: str) -> None:
    """Each program either stays whole for a reason, or gives what it gives as it is."""
    case, sizes = CASES[name], sizes_of(name)
    assert ("split_stream" in rules(case.text, **sizes)) == (name not in WHOLE)
    if name not in WHOLE:
        inputs = case.inputs(sizes, shift=20.0)
        check_backends(case.text, inputs, **case.params)


# Filters leave some splits without an element; row by row, all but the first.
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
    "weights beside others": """
input Q[i,d], K[k,d], B[i,k], n[i]: int
P[i,k] = softmax[k if k < n[i]](Q[i,d] * K[k,d])
L[i]   = log(sum[k](P[i,k] * sigmoid(B[i,k])))
E[i]   = sum[k](P[i,k] * exp(B[i,k]))
return L, E
""",
    "spread of values": """
input Q[i,d], K[k,d], V[k,e], n[i]: int
P[i,k] = softmax[k if k < n[i]](Q[i,d] * K[k,d])
M[i,e] = P[i,k] * V[k,e]
D[i,e] = sum[k](P[i,k] * (V[k,e] - M[i,e]) ** 2)
return M, D
""",
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("length", [LENGTH, 129])
@pytest.mark.parametrize("name", ABOUT_CENTRES)
def test_sums_about_the_centres_of_splits(name: str, length: int) -> None:
    """They are moved to the centre of all, also where a split holds nothing."""
    text = ABOUT_CENTRES[name]
    known = {"i": 3, "k": length, "d": 8, "e": 5}
    sizes = {i: n for i, n in known.items() if i in compiled(text).declared.extent_of}
    assert "split_stream" in rules(text, **sizes)
    inputs = dict(make_inputs(text, sizes)) | {"n": torch.tensor([length, 20, 1])}
    check_backends(text, inputs)


# --- when ---------------------------------------------------------------------------------

ATTENTION = library.load("attention")
FEW = {"b": 1, "h": 2, "q": 1, "k": 64, "d": 8, "e": 8}


def test_a_stream_of_two_splits_is_cut() -> None:
    """And a shorter one is not, nor one for many rows, nor for one processor."""
    assert rules(ATTENTION, **FEW) == ["split_stream"]
    assert not rules(ATTENTION, **FEW | {"k": 32})
    assert not rules(ATTENTION, **FEW | {"b": 32})
    assert not rules(ATTENTION, **FEW | {"q": 64 * 128})
    one = mc.compile(ATTENTION, processors=1)
    with short_splits():
        assert not one.plan(FEW).decisions


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


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", ["k", "q"])
def test_splits_keep_their_order(first: str) -> None:
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
OF_MLA = {"b": 1, "h": 4, "q": 2, "k": LENGTH, "c": 8, "r": 4}
PACKED: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "gqa": (library.load("gqa"), HEADS | {"g": 2}),
    "gqa with one group": (library.load("gqa"), HEADS | {"g": 1}),
    "mqa": (MQA, HEADS),
    "mla": (library.load("mla"), OF_MLA),
    "a window": ("param window: int = 20\n" + MQA.replace("[k]", "[k if k - q < window]"), HEADS),
    "a slope": ("input slope[h]\n" + MQA.replace("K[b,k,d]", "K[b,k,d] + slope[h]"), HEADS),
    "heads of their own": (ATTENTION, HEADS),
    "two groupings": (TWO_GROUPINGS, HEADS | {"g": 2, "f": 1}),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", PACKED)
def test_packed_rows(kind: str) -> None:
    """Rows that one stream serves become one index, before the stream is cut."""
    text, sizes = PACKED[kind]
    packing = ["h, q -> h_q"] if kind not in ("heads of their own", "two groupings") else []
    program, steps = split(text, sizes)
    found = [f"{s.before} -> {s.after}" for s in steps if s.rule == "pack_rows"]
    assert found == packing
    is_cut = kind not in ("mla", "a window")  # which leave too few keys
    assert [s.rule for s in steps] == ["pack_rows"] * bool(packing) + ["split_stream"] * is_cut
    stored = [e for e in program.equations if "k_split" in [i.name for i in e.indices]]
    assert all(("h_q" in [i.name for i in e.indices]) == bool(packing) for e in stored)
    check_backends(text, make_inputs(text, sizes))


def test_rows_that_share_a_quotient_of_a_quotient() -> None:
    """k // 2 // 2 is no subscript k // 2: rows are not packed by what no dimension is."""
    text = """
        input B[k,j]
        H[k] = sum[j](B[k // 2,j])
        O[k] = mean[l](H[k // 2] * cos(l)) + max[l](B[l,0])
        """
    assert "pack_rows" not in rules(text, k=100_000, j=100)


MANY = HEADS | {"b": 40, "g": 2}
WITH_STATE = """
    input Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e]
    G[h]       = h // (|h| // |g|)
    S[b,h,q,k] = Q[b,h,q,d] * K[b,G[h],k,d]
    O[b,h,q,e] = softmax[k](S[b,h,q,k]) * V[b,G[h],k,e]
    L[b,h,q]   = logsumexp[k](S[b,h,q,k])
    return O, L
    """


@pytest.mark.parametrize(
    "kind", slow_unless(lambda k: k == "with state", ["mqa", "with state", "gqa"])
)
def test_rows_that_are_only_packed(kind: str) -> None:
    """Where packed rows fill the device nothing is cut, and one kernel computes the outputs."""
    text = {"gqa": library.load("gqa"), "mqa": MQA, "with state": WITH_STATE}[kind]
    sizes = {n: size for n, size in MANY.items() if n != "g" or kind != "mqa"}
    program, steps = split(text, sizes)
    assert [s.rule for s in steps] == ["pack_rows"]
    assert list(program.views) == [o.name for o in program.outputs]
    assert len(compiled(text).tile_programs(sizes)) == 1
    inputs = make_inputs(text, sizes)
    near("numpy", text, inputs, exact(program.text(), inputs))
    check_backends(text, inputs)


@pytest.mark.parametrize(
    ("name", "narrow", "queries", "count"),
    [
        ("int8_cache", "", 1, 2),
        ("int8_cache", "", 32, 1),  # more rows than a warp multiplies at a time
        ("fp8_cache", "KV", 1, 2),
        ("fp8_cache", "K", 1, 1),
        ("paged_attention", "", 1, 1),
    ],
)
def test_caches_of_bytes(name: str, narrow: str, queries: int, count: int) -> None:
    """Instances of a warp fill a device that is full of larger ones."""
    sizes = {"b": 32, "h": 32, "g": 8, "q": queries, "k": 2048, "n": 32, "s": 64, "p": 4096}
    planner = compiled(library.load(name)).planner
    sizes = {n: size for n, size in sizes.items() if n in planner.equations.declared.extent_of}
    plan = planner.plan(sizes, 132, narrow=dict.fromkeys(narrow, "float8_e4m3fn"))
    assert len(plan.kernels) == count
    reason = "as there would be 256 program instances of a warp for 132 processors"
    assert any(reason in s.after for s in plan.decisions) is (count > 1)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("page", [8, 16, 24, 48, 64])
def test_splits_of_pages(page: int) -> None:
    """Of pages that hold blocks, that blocks hold, and of others; some splits have no keys."""
    text, count = library.load("paged_attention"), -(-113 // page)
    sizes = {"b": 5, "h": 4, "g": 2, "q": 1, "d": 8, "e": 5, "p": 5 * count, "s": page, "n": count}
    assert "split_stream" in rules(text, **sizes)
    inputs = make_inputs(text, sizes)
    inputs["table"] = torch.randperm(5 * count).view(5, count)
    inputs["length"] = torch.tensor([113, 16, 17, 97, 1])
    check_backends(text, inputs, "triton")


@pytest.mark.parametrize(
    "output",
    slow_unless(lambda output: output == "q,b,h,e", ["b,q,h,e", "h,q,b,e", "q,b,h,e"]),
)
def test_rows_in_another_order(output: str) -> None:
    """Packed rows do not lie as these outputs do: they are merged from splits, or from one."""
    text = library.load("gqa").replace("O[b,h,q,e]", f"O[{output}]")
    program, steps = split(text, MANY)
    assert [s.rule for s in steps] == ["pack_rows", "split_stream"] and not program.views
    check_backends(text, make_inputs(text, MANY), "torch")


def test_groups_that_are_not_alike() -> None:
    """5 heads are no 2 groups: those that are left read beyond the keys, which are 0 there."""
    sizes = MANY | {"h": 5}
    program, _ = split(library.load("gqa"), sizes)
    assert not program.views
    assert split(library.load("gqa"), sizes | {"h": 6})[0].views


# --- splits of what a filter leaves --------------------------------------------------------------

DECODING = """
    input length[b]: int, last[b,q]: int
    param window: int = 64, sink: int = 4
    S[b,h,q,k] = Q[b,h,q,d] * K[b,k,d]
    O[b,h,q,e] = softmax[k if {}](S[b,h,q,k]) * V[b,k,e]
    """
LEAVING = {
    "lengths": "k < length[b]",
    "window": "k <= q + |k| - |q| and q + |k| - |q| - k < window",
    "window of lengths": "length[b] - window <= k and k < length[b]",
    "window of rows": "k <= last[b,q] and last[b,q] - k < window",
    "sink and window": "k <= q + |k| - |q| and (q + |k| - |q| - k < window or k < sink)",
    "two far apart": "k < length[b] or k >= |k| - window",
}
FEW_QUERIES = {"b": 4, "h": 2, "q": 2, "k": 170, "d": 8, "e": 8}  # k: six splits of two blocks
LENGTHS = torch.tensor([0, 33, 100, 170])


def decoding(kind: str) -> tuple[str, dict[str, Tensor]]:
    """A program and inputs for it."""
    text = DECODING.format(LEAVING[kind])
    inputs = make_inputs(text, FEW_QUERIES)
    inputs |= {"length": LENGTHS, "last": LENGTHS[:, None] + torch.tensor([-40, -2])}
    return text, {n: inputs[n] for n in compiled(text).declared.inputs}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("kind", "window"), slow_unless(lambda _, window: window == 40, LEAVING, [1, 40, 64, 1000])
)
def test_what_a_filter_leaves_is_cut(kind: str, window: int) -> None:
    """Windows other than the one that the cut was made for give the same as the oracle."""
    text, inputs = decoding(kind)
    assert "split_stream" in rules(text, **FEW_QUERIES)
    given = {"window": window} if "window" in LEAVING[kind] else {}
    check_backends(text, inputs, **given)
    program, _ = split(text, FEW_QUERIES)
    for splits in (1, 3):
        counts = dict.fromkeys(program.splits.values(), splits)
        near("numpy", text, inputs, exact(program.text(), inputs, **given, **counts), **given)


def test_folds_with_filters_of_their_own() -> None:
    """The axis is cut, into the same splits for both."""
    text, inputs = decoding("window of lengths")
    text += "\nL[b,h,q] = logsumexp[k if k < length[b]](S[b,h,q,k])"
    assert rules(text, **FEW_QUERIES).count("split_stream") == 1
    check_backends(text, inputs)


def test_bounds_that_may_divide_by_nothing() -> None:
    """They are in the filter alone: a call without pages computes no number of splits from them."""
    text = DECODING.format("k < 200 // |p|") + "\nX[p] = Y[p]"
    sizes = FEW_QUERIES | {"p": 0}
    assert "split_stream" in rules(text, **sizes)
    inputs = make_inputs(text, FEW_QUERIES | {"p": 2})
    inputs = {n: x[:0] if n == "Y" else x for n, x in inputs.items()}
    program, _ = split(text, sizes)
    assert "200" not in program.text().partition("index k_split < ")[2].partition("\n")[0]
    check_backends(text, {n: inputs[n] for n in compiled(text).declared.inputs})


def _emitted(lengths: list[int]) -> list[tuple[Tensor, Tensor]]:
    """What one emitted file gives for streams of some lengths, beside attention in torch."""
    from monocomp.backends.triton.launch import load

    with short_splits():
        kernel = mc.compile(ATTENTION, name="attention", processors=PROCESSORS)
        module = load(file_for_any_size(kernel, FEW, 4))
    found = []
    for k in lengths:
        inputs = make_inputs(ATTENTION, FEW | {"k": k})
        Q, K, V = (inputs[n] for n in "QKV")
        weights = (Q @ K.mT / Q.shape[-1] ** 0.5).softmax(-1)
        found.append((module.attention(Q, K, V), weights @ V))
    return found


def test_an_emitted_file_takes_any_length() -> None:
    """Also none, for which there are no splits, and less than a split."""
    for found, wanted in interpreted.call(_emitted, [0, 1, 15, 32, 33, LENGTH, 200]):
        Bound(0.0, 1e-5).check(found, wanted.double())


@pytest.mark.parametrize(
    "bound", [element("X", (Q,), "int"), T.mul(Q, N), T.mul(Q, Q), T.floordiv(Q, N)]
)
def test_extremes_that_are_not_known(bound: T.Term) -> None:
    """Of what is read for each row, and of products of what varies, each row has its own."""
    assert extremes(bound, {"q": (T.const(0), N)}) == (bound, bound)
