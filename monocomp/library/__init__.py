"""The programs that come with monocomp, found by name.

Each is a file `NAME.mc` beside this module. Its first line says what it computes, the
comment lines after it where that comes from.
"""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable

from monocomp.errors import require_known

_SUFFIX = ".mc"

# What the programs are about, in an order to read them in.
GROUPS = {
    "Attention, and what it is made of": (
        "attention",
        "causal",
        "gqa",
        "softmax",
        "logsumexp",
        "naive_attention",
        "safe_attention",
        "lazy_attention",
    ),
    "Who sees whom: windows, documents, sinks, trees": (
        "sliding_window",
        "sink_window",
        "dilated",
        "document",
        "prefix_lm",
        "tree",
        "varlen",
    ),
    "What the logits are: positions, caps, distances, norms": (
        "alibi",
        "cosine_attention",
        "gaussian_attention",
        "laplace_attention",
        "pair_bias",
        "rms_norm",
        "shaw_values",
        "softcap",
        "t5",
    ),
    "What the weights are: beside softmax, and instead of it": (
        "differential",
        "dropout",
        "learned_sink",
        "sigmoid_attention",
        "softmax_one",
        "softpick",
        "sparsemax",
        "talking_heads",
        "two_simplicial",
    ),
    "In linear time": ("hedgehog_attention", "linear_attention", "taylor_attention"),
    "Caches and floats of 8 bits": (
        "fp8_attention",
        "fp8_cache",
        "int8_cache",
        "merge_states",
        "mla",
        "paged_attention",
        "rolling_cache",
    ),
    "More than the output: statistics and derivatives": (
        "attention_jvp",
        "attention_moments",
        "attention_statistics",
        "column_sums",
    ),
    "Beyond attention: losses, norms, selections": (
        "cross_entropy",
        "kl_divergence",
        "layer_norm",
        "log_softmax_statistics",
        "softmax_top8",
        "variance",
    ),
}


def names() -> tuple[str, ...]:
    """Return the programs' names, in alphabetical order."""
    files = (entry.name for entry in resources.files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX)))


def path(name: str) -> Traversable:
    """Return the file of a program."""
    require_known(name, names(), f"the library has no program '{name}'", "programs")
    return resources.files(__name__).joinpath(name + _SUFFIX)


def load(name: str) -> str:
    """Return the text of a program.

    >>> print(load("logsumexp").splitlines()[-1])
    L[i] = logsumexp[k](X[i,k])
    """
    return path(name).read_text(encoding="utf-8")


def about(name: str) -> str:
    """Say in one line what a program computes."""
    return load(name).partition("\n")[0].lstrip("# ").rstrip(".")
