"""Read the modules and the dimensions of torch: `nn.Softmax`, `dim=(1, 2)`."""

from __future__ import annotations

from monocomp.declarations.vocabulary import ALL_REDUCTIONS, FUNCTIONS
from monocomp.language.foreign import NotReadable
from monocomp.language.notation import Attribute, Bracketed, Listed, Tree, Unary, Word

_MODULES = {"torch", "np", "numpy", "math", "F", "nn", "jnp", "jax", "functional", "einops", "tl"}
_DIMENSIONS = ("dim", "axis")
UNSEEN = ("keepdim", "keepdims", "inplace", "dtype", "out")  # no formula depends on these


def is_module(tree: Tree) -> bool:
    if isinstance(tree, Attribute):
        return is_module(tree.value) and tree.name in _MODULES
    return isinstance(tree, Word) and tree.text in _MODULES


def of_module(tree: Attribute) -> str:
    """Return the function that a module computes: `nn.LogSoftmax`."""
    for name in (*ALL_REDUCTIONS, *FUNCTIONS):
        if is_module(tree.value) and name.replace("_", "") == tree.name.lower():
            return name
    raise NotReadable


def dimension(tree: Tree) -> int | None:
    """Return a number, such as -1."""
    sign = 1
    if isinstance(tree, Unary) and tree.op == "-":
        sign, tree = -1, tree.operand
    return sign * int(tree.text) if isinstance(tree, Word) and tree.text.isdecimal() else None


def dimensions(tree: Tree) -> list[int]:
    """Return numbers, such as (1, 2)."""
    items = tree.items if isinstance(tree, Listed) else (tree,)
    return [d for d in map(dimension, items) if d is not None]


def named_dimensions(tree: Bracketed) -> list[int]:
    """Return what `dim=` and `axis=` say.

    Raises:
        NotReadable: there is an argument that means something else.
    """
    if any(key not in (*_DIMENSIONS, *UNSEEN, "where") for key, _ in tree.named):
        raise NotReadable
    return [d for key, value in tree.named if key in _DIMENSIONS for d in dimensions(value)]
