"""The library's programs with eager torch beside them, and inputs of every kind for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor

from monocomp import library
from tests.backends import eager
from tests.backends.running import make_inputs, program_of

Inputs: TypeAlias = dict[str, Tensor]
Move: TypeAlias = Callable[[Inputs, float, float], None]


# --- where the logits lie: in place, about N(shift, scale) ----------------------------------


def product(query: str = "Q", key: str = "K", *others: str, scale: float | None = None) -> Move:
    """Logits are products over the last dimension, divided by its root or by `scale`."""

    def move(made: Inputs, shift: float, size: float) -> None:
        root = made[query].shape[-1] ** 0.5
        made[query] *= size * (scale or root) / root
        if shift:
            made[query][..., 0] = scale or root
            made[key][..., 0] = shift
            for other in others:
                made[other][..., 0] = 1

    return move


def all_of(*moves: Move) -> Move:
    """Several kinds of logits."""

    def move(made: Inputs, shift: float, size: float) -> None:
        for each in moves:
            each(made, shift, size)

    return move


def elements(name: str) -> Move:
    """Logits are an input's elements."""

    def move(made: Inputs, shift: float, size: float) -> None:
        made[name] *= size
        made[name] += shift

    return move


def distance(power: int) -> Move:
    """Logits are minus a distance, to a power: never positive."""

    def move(made: Inputs, shift: float, size: float) -> None:
        made["Q"] *= size ** (1 / power)
        made["Q"][..., 0] += shift ** (1 / power) if shift > 0 else -((-shift) ** (1 / power))

    return move


def latent(made: Inputs, shift: float, size: float) -> None:
    """The rotated part moves the logits, as the latent part is also the values."""
    made["QC"] *= size
    made["QR"][..., 0] = 192**0.5
    made["R"][..., 0] = shift


def quantised(made: Inputs, shift: float, size: float) -> None:
    """Integers of 8 bits and scales; what shifts the logits is in the queries."""
    root, scales = made["Q"].shape[-1] ** 0.5, (2.0**-5, 2.0**-4)
    for name in ("K", "V"):
        positions = torch.arange(made[name].shape[-2]) + (name == "K")
        made[f"S{name}"] = torch.tensor(scales)[positions % 2].expand(made[name].shape[:-1])
        generator = torch.Generator().manual_seed(len(positions))
        floats = torch.randn(made[name].shape, generator=generator)
        floats[..., 0] = 1
        made[name] = (floats / made[f"S{name}"][..., None]).round().clamp(-127, 127).to(torch.int8)
    made["Q"] *= size
    if shift:
        made["Q"][..., 0] = shift * root


def unit_scales(made: Inputs, shift: float, size: float) -> None:
    """Scales that leave the logits where they are."""
    for name in {"sk", "sv", "SQ", "SK", "SV"} & made.keys():
        made[name] = torch.full_like(made[name], -1.0 if name.lower() == "sv" else 1.0)


# --- inputs that make sense -----------------------------------------------------------------


def gentle_slopes(made: Inputs) -> None:
    made["slope"] = made["slope"].abs() / 4


def same_relative_keys(made: Inputs) -> None:
    """Relative vectors do not move the logits."""
    made["RK"][..., 0] = 0


def documents_of_five(made: Inputs) -> None:
    """Each batch packs its documents from another position on."""
    batches, length = made["start"].shape
    positions = torch.arange(length) + torch.arange(batches)[:, None]
    first = positions // 5 * 5 - torch.arange(batches)[:, None]
    made["start"], made["end"] = first.clamp(min=0), first + 5


def lengths(most: Callable[[Inputs], int]) -> Callable[[Inputs], None]:
    """Requests of as many tokens as a cache holds, and of fewer."""

    def make(made: Inputs) -> None:
        count = made["length"].numel()
        made["length"] = most(made) - 3 * torch.arange(count)

    return make


def page_positions(made: Inputs) -> int:
    return made["table"].shape[1] * made["K"].shape[1]


def binary_tree(made: Inputs) -> None:
    """Token n is a child of token (n - 1) // 2; keys beyond the queries are seen by none."""
    ancestor = torch.zeros_like(made["ancestor"])
    for token in range(min(ancestor.shape)):
        if token:
            ancestor[token] = ancestor[(token - 1) // 2]
        ancestor[token, token] = True
    made["ancestor"] = ancestor


_DOTS = product()


@dataclass(frozen=True)
class Case:
    """A library program.

    Attributes:
        name: its name, in the library and of its formula in `eager`.
        extents: sizes of indices that `sizes` leaves open or has otherwise: a number, or the
            index whose size it is.
        params: parameters that make a difference at small sizes.
        move: moves the logits.
        sensible: makes inputs that are not just random.
        same_kernel_as: a program with the same normal form, so that it needs fewer tests.
        thorough: is it run at all lengths, in all dtypes and layouts?
        block: how many rows have one scale, with indices i and j for those of queries and keys.
    """

    name: str
    extents: Mapping[str, int | str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    move: Move = _DOTS
    sensible: Callable[[Inputs], None] | None = None
    same_kernel_as: str | None = None
    thorough: bool = False
    block: int | None = None

    @property
    def text(self) -> str:
        """The program."""
        return library.load(self.name)

    @property
    def is_attention(self) -> bool:
        """Does it take queries, keys and values?"""
        return {"Q", "K", "V"} <= program_of(self.text).inputs.keys()

    def sizes(self, q: int, k: int, d: int = 16, e: int = 16, b: int = 1) -> dict[str, int]:
        """Extents for lengths q and k; a matrix has q rows and k columns."""
        usual = {"b": b, "h": 2, "q": q, "k": k, "d": d, "e": e, "r": k}
        usual |= {"i": q, "t": q, "v": k, "c": e, "s": k}
        for name, size in self.extents.items():
            usual[name] = usual[size] if isinstance(size, str) else size
        if self.block:  # scales of blocks of rows
            usual |= {"i": -(-q // self.block), "j": -(-k // self.block)}
        program = program_of(self.text)
        given = program.extent_of.keys() - program.bounds.keys()
        return {n: size for n, size in usual.items() if n in given}

    def inputs(
        self,
        sizes: Mapping[str, int],
        dtype: torch.dtype = torch.float32,
        *,
        shift: float = 0.0,
        scale: float = 1.0,
        seed: int = 0,
    ) -> Inputs:
        """Random inputs whose logits are about N(shift, scale)."""
        made = make_inputs(self.text, sizes, torch.float32, seed=seed, params=self.params)
        self.move(made, shift, scale)
        if self.sensible:
            self.sensible(made)
        return {n: t.to(dtype) if t.is_floating_point() else t for n, t in made.items()}

    def in_eager_torch(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """The results of eager torch in the inputs' dtype."""
        found = getattr(eager, self.same_kernel_as or self.name)(**inputs, **self.params)
        return found if isinstance(found, tuple) else (found,)


_X = elements("X")
_WINDOW = {"window": 9}
CASES = {
    case.name: case
    for case in (
        Case("attention", thorough=True),
        Case("causal", thorough=True),
        Case("gqa", {"h": 4, "g": 2}, thorough=True),
        Case("sliding_window", params=_WINDOW, thorough=True),
        Case("softcap", params={"cap": 5.0}, thorough=True),
        Case("alibi", sensible=gentle_slopes, thorough=True),
        Case("softmax", move=_X, thorough=True),
        Case("logsumexp", move=_X, thorough=True),
        Case("naive_attention", same_kernel_as="attention", thorough=True),
        Case("safe_attention", same_kernel_as="attention", thorough=True),
        Case("lazy_attention", same_kernel_as="attention", thorough=True),
        Case("t5", move=product(scale=1.0)),
        Case("attention_statistics"),
        Case("attention_jvp"),
        Case("attention_moments"),
        Case("cross_entropy", move=product("X", "W", scale=1.0), params={"z": 0.01}),
        Case("softmax_top8", move=product("X", "W", scale=1.0)),
        Case(
            "kl_divergence",
            {"c": 8, "d": 5},
            move=all_of(product("X", "A", scale=1.0), product("Y", "B", scale=1.0)),
        ),
        Case("merge_states", move=elements("LS")),
        Case("variance", move=_X),
        Case("layer_norm", params={"eps": 0.1}, move=_X),
        Case("log_softmax_statistics", move=_X),
        Case("learned_sink"),
        Case("softmax_one"),
        Case(
            "differential",
            params={"lam": 0.3},
            move=all_of(product("Q1", "K1"), product("Q2", "K2")),
        ),
        Case("dropout", params={"rate": 0.5, "seed": 3}),
        Case("sigmoid_attention"),
        Case("softpick"),
        Case("talking_heads", {"g": 2, "h": 3, "i": 1, "q": 5, "k": 18, "d": 3}),
        Case("sparsemax", move=_X),
        Case("column_sums"),
        Case("cosine_attention", move=elements("scale")),
        Case("pair_bias", {"c": 3}),
        Case("shaw_values", {"r": 7}, {"clip": 3}, sensible=same_relative_keys),
        Case("mla", {"c": 20, "r": 5}, move=latent),
        Case("gaussian_attention", move=distance(2)),
        Case("laplace_attention", params={"scale": 2.0}, move=distance(1)),
        Case("two_simplicial", {"j": 7}, move=product("Q", "K1", "K2")),
        Case("rms_norm", params={"eps": 0.1}, move=elements("A")),
        Case("linear_attention"),
        Case("taylor_attention"),
        Case("hedgehog_attention"),
        Case("prefix_lm"),
        Case("document", sensible=documents_of_five),
        Case("varlen"),
        Case("sink_window", params={"sink": 3, "window": 9}),
        Case("dilated", {"k": "q"}, {"window": 5, "rate": 3}),
        Case("tree", sensible=binary_tree),
        Case(
            "paged_attention",
            {"h": 4, "g": 2, "p": 11, "s": 5, "n": 8},
            sensible=lengths(page_positions),
        ),
        Case(
            "rolling_cache",
            {"h": 4, "g": 2},
            _WINDOW,
            sensible=lengths(lambda made: 100),
        ),
        Case(
            "int8_cache",
            {"h": 4, "g": 2},
            move=quantised,
            sensible=lengths(lambda made: made["K"].shape[2]),
        ),
        Case(
            "fp8_cache",
            {"h": 4, "g": 2, "p": 11, "s": 5, "n": 8},
            move=all_of(product(), unit_scales),
            sensible=lengths(page_positions),
        ),
        Case("fp8_attention", block=128, move=all_of(product(), unit_scales)),
    )
}
