"""Functions of torch that are formulas in this language, each as a line in torch's own notation."""

from __future__ import annotations

from functools import cache

from monocomp.language import foreign
from monocomp.language.foreign import NotReadable
from monocomp.language.modules import UNSEEN
from monocomp.language.notation import Bracketed, Tree, Word, substitute

_LINES = (
    "masked_fill(x, mask, value) = where(mask, value, x)",
    "pow(x, exponent) = x ** exponent",
    "square(x) = x ** 2",
    "reciprocal(x) = 1 / x",
    "ln(x) = log(x)",
    "log1p(x) = log(1 + x)",
    "expm1(x) = exp(x) - 1",
    "zeros_like(x) = 0",
    "ones_like(x) = 1",
    "full_like(x, value) = value",
    "outer(x, y) = einsum('i,j->ij', x, y)",
    "layer_norm(x, normalized_shape) = (x - mean(x, dim=-1)) / sqrt(var(x, dim=-1) + 1e-5)",
    "clamp(x, min) = maximum(x, min)",
    "clamp(x, max) = minimum(x, max)",
    "clamp(x, min, max) = minimum(maximum(x, min), max)",
    "scaled_dot_product_attention(query, key, value) = "
    "softmax(query @ key.T / sqrt(key.shape[-1]), dim=-1) @ value",
)


@cache
def _meanings() -> dict[str, list[tuple[tuple[str, ...], Tree]]]:
    """Return the names of the arguments of each form of a function, and what it is."""
    meanings: dict[str, list[tuple[tuple[str, ...], Tree]]] = {}
    for line in _LINES:
        definition = foreign.read(line)
        left = definition.left
        assert isinstance(left, Bracketed) and isinstance(left.head, str)
        names = tuple(item.text for item in left.items if isinstance(item, Word))
        meanings.setdefault(left.head, []).append((names, definition.body))
    return meanings


def has_meaning(name: str) -> bool:
    """True if a function is a formula."""
    return name in _meanings()


def meaning(name: str, call: Bracketed) -> Tree:
    """Return the formula that a call stands for.

    Raises:
        NotReadable: it has other arguments.
    """
    named = {key: value for key, value in call.named if key not in UNSEEN}
    count = len(call.items)
    for names, body in _meanings()[name]:
        if len(names) >= count and set(names[count:]) == set(named):
            return substitute(body, dict(zip(names, call.items, strict=False)) | named)
    raise NotReadable
