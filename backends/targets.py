"""GPUs to emit source for, and the names that people call them by."""

from __future__ import annotations

import re
from itertools import pairwise

from monocomp.errors import UsageError

MEASURED = ("NVIDIA H200", "NVIDIA H100")  # where kernels have run, and are measured

# A product's name, and what Triton calls its kind.
_PRODUCTS = {
    **dict.fromkeys(("a100", "a800"), "cuda:80"),
    **dict.fromkeys(("a10", "a40", "a6000", "rtx3090"), "cuda:86"),
    **dict.fromkeys(("l4", "l40", "l40s", "rtx4090"), "cuda:89"),
    **dict.fromkeys(("h100", "h200", "h800", "h20", "gh200", "hopper"), "cuda:90"),
    **dict.fromkeys(("b100", "b200", "gb200", "blackwell"), "cuda:100"),
    **dict.fromkeys(("rtx5090",), "cuda:120"),
    **dict.fromkeys(("mi200", "mi210", "mi250", "mi250x"), "hip:gfx90a"),
    **dict.fromkeys(("mi300", "mi300a", "mi300x", "mi325", "mi325x"), "hip:gfx942"),
    **dict.fromkeys(("mi350", "mi350x", "mi355", "mi355x"), "hip:gfx950"),
}
_FORMS = (  # and the kinds in other spellings
    (r"(?:cuda:|sm_?)?(\d{1,2})\.(\d)", r"cuda:\1\2"),
    (r"(?:cuda:|sm_?|compute_)(\d{1,3})a?", r"cuda:\1"),
    (r"(?:hip:|rocm:)?(gfx[0-9a-f]{1,5})", r"hip:\1"),
)


def has_run_on(device: str) -> bool:
    """True if kernels have run on a GPU of this name, as torch gives it."""
    return any(name in device for name in MEASURED)


def canonical(target: str | None) -> str | None:
    """Return a target as Triton calls it: "cuda:90" for "h100", "sm_90" or "9.0".

    Raises:
        UsageError: it is no GPU that schedules can be chosen for.
    """
    if target is None:
        return None
    words = re.findall(r"\w+", target.lower())  # "NVIDIA GeForce RTX 4090", "A100-SXM4-80GB"
    for name in (*words, *map("".join, pairwise(words))):
        if name in _PRODUCTS:
            return _PRODUCTS[name]
    word = target.lower().replace(" ", "")
    for form, kind in _FORMS:
        if match := re.fullmatch(form, word, re.ASCII):
            return match.expand(kind)
    raise UsageError(
        f"unknown target {target!r}",
        notes=["targets: cuda:80, cuda:90, cuda:100, hip:gfx942, ..., and h100, mi300x, ..."],
        help="write cuda: and the compute capability without its point",
    )
