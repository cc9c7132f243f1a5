"""Tiles that the copy engine loads: which can be, who chooses it, and that nothing else changes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.backends.schedules import table
from monocomp.backends.schedules.legal import Legal
from monocomp.backends.triton.launch import interpreted, load
from monocomp.blocks.choices.choose import choose
from monocomp.blocks.choices.descriptors import descriptor_loads
from monocomp.blocks.choices.layouts import Layouts
from monocomp.blocks.masking.phases import Bounds
from monocomp.tile import Loop
from monocomp.tile.parser import parse
from tests.backends import interpreted as interpreter
from tests.backends.compiling import (
    SHARED_LIMIT,
    Launch,
    compile_for,
    instructions,
    launches_of,
    recorded,
    without_elements,
)
from tests.backends.library_cases import CASES
from tests.backends.running import file_for_any_size, largest_error, make_inputs
from tests.backends.test_domains import calls, program
from tests.backends.tolerances import ALONE, Bound, near
from tests.gpu.comparing import all_in_nan
from tests.marks import slow_unless

SIZES = {"b": 2, "h": 4, "g": 2, "q": 1000, "k": 1000, "d": 128, "e": 128}


def space(name: str, target: str = "cuda:90", element_bytes: int = 2, **sizes: int) -> Legal:
    """The space of a program's only kernel."""
    kernel = mc.compile(library.load(name))
    known = {e: (SIZES | sizes)[e] for e in kernel.declared.extent_of.values()}
    (program,) = kernel.tile_programs(known)
    return Legal(program, known, element_bytes, target)


# --- what can be loaded so ----------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "paged_attention",  # pages lie anywhere
        "logsumexp",  # no product
        "tree",  # a mask that is read leaves keys out
    ],
)
def test_nothing(name: str) -> None:
    programs = mc.compile(library.load(name)).tile_programs({})
    assert not any(descriptor_loads(p) for p in programs)


def test_a_diagonal_is_no_block() -> None:
    """X[k,k] has one axis and two dimensions."""
    text = "O[q,e] = softmax[k](Q[q,k] + X[k,k]) * V[k,e]"
    (program,) = mc.compile(text).tile_programs({})
    assert {b.tensor for b in descriptor_loads(program).values()} == {"V"}


# --- the choice ---------------------------------------------------------------------------


def test_where_they_pay() -> None:
    """By what was measured at d = 128; not in full precision, nor where there is no copy engine."""
    for name in ("attention", "causal"):
        assert table.first(space(name)).descriptors
        for other in (space(name, element_bytes=4), space(name, target="cuda:80")):
            assert not other.has_descriptors and not table.first(other).descriptors


def test_a_search_tries_both() -> None:
    for head in (64, 128):
        first, *others = table.candidates(space("attention", d=head, e=head))
        assert replace(first, descriptors=not first.descriptors) in others
    for target in ("cuda:80", "hip:gfx942"):
        assert not any(s.descriptors for s in table.candidates(space("attention", target=target)))


def test_what_is_admitted() -> None:
    good = table.first(space("attention"))
    assert space("attention").admits(good)
    assert not space("attention", target="cuda:80").admits(good)
    other = table.first(space("tree"))
    assert not space("tree").admits(replace(other, descriptors=True))


VOCABULARIES = {
    "cross_entropy": {"t": 8192, "v": 131072, "d": 4096},
    "softmax_top8": {"t": 8192, "v": 32768, "d": 2048, "r": 8},
    "kl_divergence": {"t": 4096, "v": 32768, "c": 2048, "d": 1024},
}


def of_vocabulary(name: str, target: str = "cuda:90", processors: int = 132) -> str:
    """The source of a loss over a vocabulary, whose contraction is too long to hold."""
    kernel = mc.compile(library.load(name), name="kernel", processors=processors)
    return kernel.source(target=target, extents=VOCABULARIES[name])


def test_where_they_pay_in_inner_loops() -> None:
    """By what was measured: not where a row's largest elements are sorted between the products."""
    for name in VOCABULARIES:
        config = load(of_vocabulary(name)).CONFIG
        assert config["DESCRIPTORS"] == (name != "softmax_top8"), name


def test_a_search_tries_pointers_in_inner_loops() -> None:
    kernel = mc.compile(library.load("cross_entropy"))
    program = kernel.tile_programs(VOCABULARIES["cross_entropy"], 132)[0]
    legal = Legal(program, VOCABULARIES["cross_entropy"], 2, "cuda:90", 132)
    found = table.candidates(legal)
    assert found[0].descriptors and replace(found[0], descriptors=False) in found


# --- emitted ------------------------------------------------------------------------------


def _run(
    text: str, name: str, inputs: Mapping[str, torch.Tensor], by_descriptor: bool
) -> tuple[torch.Tensor, int]:
    """The result, and how many tensors were described."""
    module = load(text)
    (config,) = (dict(v) for k, v in vars(module).items() if k.startswith("CONFIG"))
    kernel = mc.compile(library.load(name))
    made: list[Any] = []
    original = module.TensorDescriptor

    def count(*args: Any) -> Any:
        made.append(args)
        return original(*args)

    module.TensorDescriptor = count  # type: ignore[attr-defined]
    try:
        config |= {"BLOCK_Q": 16, "BLOCK_K": 16, "DESCRIPTORS": by_descriptor}
        ordered = (inputs[n] for n in kernel.declared.inputs)
        found = module.kernel(*ordered, configs=(config,), empty=_nan)
    finally:
        module.TensorDescriptor = original  # type: ignore[attr-defined]
    return found, len(made)


def _nan(shape: tuple[int, ...], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.full(shape, math.nan, dtype=dtype, device=device)


def both(name: str, inputs: Mapping[str, torch.Tensor]) -> int:
    """How many tensors were described, if that changes nothing but how NumPy rounds, which
    multiplies for Triton's interpreter: it depends on how tiles lie in memory."""
    text = mc.compile(library.load(name)).source(target="cuda:90")
    plain, none = interpreter.call(_run, text, name, inputs, False)
    found, count = interpreter.call(_run, text, name, inputs, True)
    assert none == 0
    assert largest_error(found, plain) < 2e-6
    return count


@pytest.mark.one_in(7)
@pytest.mark.parametrize("length", [1, 15, 16, 17, 37])
@pytest.mark.parametrize("name", ["attention", "causal", "gqa", "prefix_lm"])
def test_lengths(name: str, length: int) -> None:
    """The last block sticks out of the tensor, into NaN."""
    case = CASES[name]
    inputs = case.inputs(case.sizes(19, length, 24, 40), torch.float32)
    assert both(name, inputs) == 2
    both(name, all_in_nan(inputs))


def _filtered(text: str, inputs: Mapping[str, torch.Tensor], **params: int) -> list[torch.Tensor]:
    """The results with descriptors, in which no load may need a mask that there is not."""
    kernel = mc.compile(text, name="kernel")
    module = load(kernel.source(target="cuda:90"))
    config = module.CONFIG | {"BLOCK_Q": 16, "BLOCK_K": 16, "DESCRIPTORS": True}
    ordered = (inputs[n] for n in kernel.declared.inputs)
    return list(module.kernel(*ordered, configs=(config,), empty=_nan, **params))


def test_blocks_of_loops_that_go_backwards_stay() -> None:
    """Blocks slide to the end of a segment, which such a loop reaches first."""
    source = mc.compile(
        """
        input g[j], Q[i,d], K[j,d], x[i]
        monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')
        P[i,j] = Q[i,d] * K[j,d]
        A[i,j] = Affine[l if l != 20 and j < l](cos(g[l]), x[i]).a
        S[i] = sum[j if j != 20](A[i,j] * P[i,j])
        U[i] = Affine[j if j != 20](cos(g[j]), P[i,j]).u
        return S, U
        """
    ).source("triton", target="cuda:90")
    assert "backwards" in source and "slides" not in source


@pytest.mark.one_in(7)
@pytest.mark.parametrize(
    "name",
    [
        *("window", "two-sided window", "sink and window", "documents of rows", "rows apart"),
        *("packed documents", "documents and sink", "all but two", "chunks", "three parts"),
    ],
)
def test_blocks_that_slide(name: str) -> None:
    """Nothing comes twice that two blocks load, and keys that nobody sees hold NaN."""
    (tile_program,) = mc.compile(program(name)).tile_programs({})
    assert {b.tensor for b in descriptor_loads(tile_program).values()} == {"K", "V"}
    for params, inputs, wanted in calls(name, d=8, e=12):
        found = interpreter.call(_filtered, program(name), inputs, **params)
        for got, good in zip(found, wanted, strict=True):
            Bound(0.0, 4 * ALONE["triton"].floor).check(got, good)


LATER = (
    "input Q[q,d], K[k,d], V[k,e]\nO[q,e] = softmax[k if q + {0} <= k](Q[q,d] * K[k,d]) * V[k,e]"
)


def _later(
    text: str, inputs: Mapping[str, torch.Tensor], blocks: tuple[int, int], by_descriptor: bool
) -> torch.Tensor:
    module = load(mc.compile(text, name="kernel").source(target="cuda:90"))
    lengths = {"BLOCK_Q": blocks[0], "BLOCK_K": blocks[1], "DESCRIPTORS": by_descriptor}
    found: torch.Tensor = module.kernel(
        *inputs.values(), configs=(module.CONFIG | lengths,), empty=_nan
    )
    return found


@pytest.mark.parametrize("by_descriptor", [True, False])
@pytest.mark.parametrize(
    ("blocks", "length", "shift"),
    [
        ((32, 16), 64, 0),
        ((16, 16), 64, 16),
        ((32, 16), 65, 0),  # from here on blocks do not fit, and slide
        ((32, 16), 64, 7),
        ((16, 32), 64, 0),
    ],
)
def test_blocks_that_fit(
    blocks: tuple[int, int], length: int, shift: int, by_descriptor: bool
) -> None:
    """Rows whose keys begin where they do, and run to the end."""
    text = LATER.format(shift)
    made = make_inputs(text, {"q": length, "k": length, "d": 8, "e": 12})
    near("triton", text, made, [interpreter.call(_later, text, made, blocks, by_descriptor)], 4)


OF_PAIRS = """
input Q[q,d], A[k,d], K[j,d], V[j,e]
O[q,e] = sum[k,j if k <= j](exp(sum[d](Q[q,d] * A[k,d])) * sum[d](Q[q,d] * K[j,d]) * V[j,e])
"""


def test_blocks_that_may_not_fit() -> None:
    """Those of a loop that begins where a block of another stream does, which is anywhere."""

    def multiples(text: str, axis: str) -> tuple[int | str, ...] | None:
        (tiles,) = mc.compile(text).tile_programs({})
        loops = (s for s in tiles.statements if isinstance(s, Loop) and s.axis.name == axis)
        (segment,) = next(loops).segments
        return Bounds(Layouts(tiles)).multiples(segment)

    assert multiples(LATER.format(16), "k") == (16, "q")
    assert multiples(OF_PAIRS, "j") is None


def test_layouts() -> None:
    """Any order of the dimensions will do, if the last one has no gaps."""
    sizes = {"b": 2, "h": 3, "q": 19, "k": 37, "d": 24, "e": 40}
    made = make_inputs(library.load("attention"), sizes)
    swapped = {n: t.transpose(1, 2).contiguous().transpose(1, 2) for n, t in made.items()}
    assert both("attention", swapped) == 2
    gaps = {n: torch.stack([t, t], -1)[..., 0] for n, t in made.items()}
    assert both("attention", gaps) == 0
    shared = made | {"K": made["K"][:1].expand(2, -1, -1, -1)}
    assert both("attention", shared) == 1
    one = {n: t[:, :1] for n, t in make_inputs(library.load("attention"), sizes).items()}
    assert both("attention", one) == 2
    shifted = {
        n: torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape) for n, t in made.items()
    }
    assert both("attention", shifted) == 0
    odd = make_inputs(library.load("attention"), sizes | {"d": 23})
    assert both("attention", odd) == 1


def fused(text: str, **sizes: int) -> list[str]:
    """The heads of loops that become one with the loop inside them."""
    known = {"q": 1000, "k": 50_000, "d": 4096, **sizes}
    source = mc.compile(text).source(target="cuda:90", extents=known)
    assert load(source)
    heads = re.findall(r"for (\w+) in tl\.range\(([^:]*)\):", source)
    return [name for name, how in heads if "flatten" in how]


LOGITS = "L[q] = logsumexp[k](sum[d](Q[q,d] * K[k,d]))"


def test_loops_that_become_one() -> None:
    """The loop over keys and the one inside it, if descriptors can load all that this reads."""
    assert fused(LOGITS) == ["first_k"]
    assert not fused(LOGITS, d=64)  # held entirely
    assert not fused("L[q] = logsumexp[k](sum[d](Q[q,d] * K[k // 2,d]) + B[k])")
    assert not fused("L[q] = logsumexp[k if k > q](sum[d](Q[q,d] * K[k,d]))")
    two = "L[q] = logsumexp[k](sum[d](Q[q,d] * K[k,d]) - sum[c](R[q,c] * C[k,c]) ** 2)"
    assert not fused(two, c=4096)  # two loops inside it
    largest = "S[q,k] = sum[d](Q[q,d] * K[k,d])\nT[q,r] = top[k -> r](S[q,k])\nindex r < 8"
    assert not fused(largest)  # a selection is a loop


def _logits(inputs: Mapping[str, torch.Tensor], by_descriptor: bool) -> torch.Tensor:
    extents = {"q": 1000, "k": 1000, "d": 4096}
    kernel = mc.compile(LOGITS, processors=1)
    module = load(file_for_any_size(kernel, extents))
    blocks = {n: 16 for n in module.CONFIG if n.startswith("BLOCK_")}
    config = module.CONFIG | blocks | {"DESCRIPTORS": by_descriptor}
    result: torch.Tensor = module.kernel(*inputs.values(), configs=(config,), empty=_nan)
    return result


@pytest.mark.parametrize("head", [16, 20, 48, 52])
def test_inner_loops(head: int) -> None:
    """Blocks stick out of rows, of the stream, and of the summed axis."""
    q, k = torch.randn(19, head), torch.randn(37, head)
    inputs = {"Q": q, "K": k}
    for by_descriptor in (False, True):
        found = interpreter.call(_logits, inputs, by_descriptor)
        assert largest_error(found, torch.logsumexp(q @ k.T, 1)) < 1e-5


# --- compiled -----------------------------------------------------------------------------


def launch(name: str, length: int, head: int = 128, heads: int = 4) -> Launch:
    """The launch of a kernel with its first schedule on Hopper."""
    kernel = mc.compile(library.load(name))
    sizes = SIZES | {"h": heads, "q": length, "k": length, "d": head, "e": head}
    schedule = table.first(space(name, **sizes))
    programs = kernel.tile_programs({e: sizes[e] for e in kernel.declared.extent_of.values()})
    (found,) = launches_of(kernel, programs, [schedule], without_elements(kernel, sizes))
    return found


@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
@pytest.mark.parametrize("name", slow_unless(lambda name: name == "cross_entropy", VOCABULARIES))
def test_compiled_in_inner_loops(name: str) -> None:
    """The copy engine loads where a schedule says so, and what is loaded fits."""
    module = load(of_vocabulary(name))
    kernel, sizes = mc.compile(library.load(name)), VOCABULARIES[name]
    inputs = {
        n: torch.empty(
            [sizes[d] for d in i.dims],
            dtype=torch.int64 if i.kind == "int" else torch.bfloat16,
            device="meta",
        )
        for n, i in kernel.declared.inputs.items()
    }
    made = recorded(module, "kernel", inputs)[0]
    used = compile_for("cuda:90", made)
    # What spills is in the part that is masked, beside pointers.
    assert used.spilled <= (192 if name == "cross_entropy" else 0)
    assert used.shared <= SHARED_LIMIT["cuda:90"]
    copied = any(i.startswith("UTMALDG") for i in instructions(made))
    assert copied == module.CONFIG["DESCRIPTORS"]


@pytest.mark.one_in(3)
@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
@pytest.mark.parametrize(
    ("name", "length"),
    slow_unless(
        lambda *case: case in (("attention", 4096), ("causal", 2000), ("sliding_window", 2000)),
        ["attention", "causal", "sliding_window"],
        [2000, 4096],
    ),
)
def test_compiled(name: str, length: int) -> None:
    """The copy engine loads if it should; nothing spills; a multiprocessor holds eight warps."""
    made = launch(name, length, heads=64)  # there are more than multiprocessors
    used = compile_for("cuda:90", made)
    instances = 8 // made.kwargs["num_warps"]
    assert used.spilled == 0
    assert instances * (used.shared + 1024) <= SHARED_LIMIT["cuda:90"] + 1024
    schedule = table.first(space(name, h=64, q=length, k=length))
    assert any(i.startswith("UTMALDG") for i in instructions(made)) == schedule.descriptors


# --- numbers along a stream ---------------------------------------------------------------

BIASED = "O[q,e] = softmax[k{}](Q[q,d] * K[k,d] + w[{}]) * V[k,e]"


@pytest.mark.parametrize(
    ("domain", "position", "is_described"),
    [
        ("", "k", True),
        (" if k <= q", "k", True),
        (" if k >= q", "k", True),  # where blocks fit
        (" if q <= k + 5 and k <= q", "k", False),  # blocks begin anywhere
        (" if k < 4 or q <= k + 5 and k <= q", "k", False),
        (" if k <= q or m[q,k]", "k", True),  # what a mask chooses from is loaded by pointers
        (" if k >= 5", "k", False),
        (" if k >= 32", "k", True),
        (" if k >= q + 5", "k", False),
        ("", "k + 1", False),
        ("", "2 * k", False),
    ],
)
def test_numbers_along_a_stream(domain: str, position: str, is_described: bool) -> None:
    """They are one row of a block in memory, and 16 bytes must divide where it begins."""
    text = "input Q[q,d], K[k,d], V[k,e], w[k], m[q,k]: bool\n" + BIASED.format(domain, position)
    if "m[" not in domain:
        text = text.replace(", m[q,k]: bool", "")
    (program,) = mc.compile(text).tile_programs({})
    choices = choose(program)
    found = {b.tensor for b in choices.by_descriptor.values()}
    assert found == ({"K", "V", "w"} if is_described else {"K", "V"})
    blocks = [b for p in choices.phases.values() for b in p.descriptors]
    assert {b.tensor for b in blocks} == {"K", "V"}  # by these loops are told apart


def test_rows_begin_with_their_axis() -> None:
    """Of an operand, too, whose rows go along those of the result."""
    (program,) = mc.compile("O[q,e] = softmax[k](Q[d,q] * K[k,d]) * V[k,e]").tile_programs({})
    moved = parse(str(program).replace(" = Q[d, q]", " = Q[d, q + 1]"))
    for tiles, wanted in ((program, {"K", "Q", "V"}), (moved, {"K", "V"})):
        assert {b.tensor for b in descriptor_loads(tiles, resident=True).values()} == wanted


def test_only_floats_beside_products() -> None:
    """Integers and what no product is beside are loaded by pointers."""
    ints = "input Q[q,d], K[k,d], V[k,e], w[k]: int\n" + BIASED.format("", "k")
    for text, wanted in ((ints, {"K", "V"}), ("O[q] = sum[k](x[q,k] * w[k])", set[str]())):
        (program,) = mc.compile(text).tile_programs({})
        assert {b.tensor for b in choose(program).by_descriptor.values()} == wanted


@pytest.mark.parametrize(
    ("domain", "length", "blocks", "count"),
    [
        ("", 64, (32, 32), 3),
        ("", 64, (16, 16), 2),  # 64 bytes: the next stage's would begin in between
        ("", 37, (32, 32), 3),  # the last block sticks out
        (" if k <= q", 37, (32, 32), 3),
        (" if k >= q", 64, (32, 32), 3),
        (" if k >= q", 64, (2, 32), 3),
        (" if k >= q", 37, (32, 32), 3),  # but loaded by pointers, as blocks slide
        (" if k >= 32", 70, (32, 32), 3),
        (" if q <= k + 5 and k <= q", 64, (32, 32), 2),
    ],
)
@pytest.mark.parametrize("keys", ["K[k,d]", "K[d,k]"])
def test_loaded_along_a_stream(
    keys: str, domain: str, length: int, blocks: tuple[int, int], count: int
) -> None:
    """The interpreter refuses rows that begin elsewhere than a GPU can load."""
    text = BIASED.format(domain, "k").replace("K[k,d]", keys)
    text = f"input Q[q,d], {keys}, V[k,e], w[k]\n{text}"
    if keys == "K[d,k]":
        # Its rows go along the stream; and Q is described, as d is streamed.
        count += 1 - (length % 4 != 0) - (" + 5" in domain)
    made = make_inputs(text, {"q": length, "k": length, "d": 8, "e": 12})
    found, described = interpreter.call(_counted, text, made, blocks)
    assert described == count
    near("triton", text, made, [found], 4)


def _counted(
    text: str, inputs: Mapping[str, torch.Tensor], blocks: tuple[int, int]
) -> tuple[torch.Tensor, int]:
    """The result, and how many tensors have been described."""
    module = load(mc.compile(text, name="kernel").source(target="cuda:90"))
    made = []
    describe = module.descriptor

    def count(*args: Any) -> Any:
        found = describe(*args)
        made.append(found is not None)
        return found

    module.descriptor = count  # type: ignore[attr-defined]
    lengths = {"BLOCK_Q": blocks[0], "BLOCK_K": blocks[1], "DESCRIPTORS": True}
    try:
        config = module.CONFIG | lengths
        found = module.kernel(*inputs.values(), configs=(config,), empty=_nan)
    finally:
        module.descriptor = describe  # type: ignore[attr-defined]
    return found, sum(made)


@pytest.mark.one_in(3)
@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
@pytest.mark.parametrize(("name", "head"), [("causal", 128), ("attention", 128), ("causal", 64)])
def test_gradients_overlap(name: str, head: int) -> None:
    """Products of keys' gradients run on while the next block is asked for, in blocks with a mask,
    too: the assembler, where it lacks registers for that, waits for each instruction."""
    kernel = mc.compile(str(mc.grad(library.load(name))), name="kernel")
    sizes = {"b": 1, "h": 64, "q": 4096, "k": 4096, "d": head, "e": head}
    inputs = without_elements(kernel, sizes)
    inputs["L"] = inputs["L"].float()
    module = load(kernel.source(target="cuda:90", extents=sizes, dtype={"L": "fp32"}))
    made = recorded(module, "kernel", inputs)[1]
    names = instructions(made)
    products = sum(x.startswith("HGMMA") for x in names)
    waits = sum(x.startswith("WARPGROUP.DEPBAR") for x in names)
    assert products >= 24 and waits < products / 3
    assert not any(x.startswith("LDGSTS") for x in names)
