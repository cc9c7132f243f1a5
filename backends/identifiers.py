"""Names for emitted code: from the program's names, and never anything else.

A program's names are data. Each becomes one Python identifier that is unique in the file
and collides with no keyword, builtin or module; anything that is not a plain ASCII
identifier is refused before it can reach the source.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

from monocomp.errors import InternalError

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z", re.ASCII)
_LONGEST = 80

RESERVED = frozenset(
    {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "tl", "triton", "torch"}
)

# What a launch takes for itself: its arguments, the options of Triton's backends, and names in the
# function that Triton makes of a kernel's parameters.
_LAUNCH = """
grid warmup stream device device_type debug instrumentation_mode num_warps num_stages num_ctas
warp_size maxnreg ptx_version ptx_options ir_override enable_fp_fusion enable_reflect_ftz
launch_cooperative_grid launch_pdl supported_fp8_dtypes deprecated_fp8_dot_operand_dtypes
default_dot_input_precision allowed_dot_input_precisions max_num_imprecise_acc_default extern_libs
backend_name sanitize_overflow arch waves_per_eu matrix_instr_nonkdim kpack allow_flush_denorm
schedule_hint clc fpsan_homomorphic_casts llvm_fn_attrs min_shared_mem sched4reg wgp_cu_mode options
params specialization specialize_impl backend dynamic_func JITCallable
"""
LAUNCH = frozenset(_LAUNCH.split())  # no parameter of a kernel may have these names


class Identifiers:
    """Gives each (purpose, name) of one scope an identifier of its own."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._taken: set[str] = {*RESERVED, *taken}

    def of(self, purpose: str, name: str, wanted: str | None = None) -> str:
        """Return the identifier of a name used for a purpose; `wanted` is the preferred
        spelling."""
        identifier = self._given.get((purpose, name))
        if identifier is None:
            base = (wanted if wanted is not None else name).lstrip("_.")[:_LONGEST] or "x"
            if not _PLAIN.match(base):
                base = "x_" + re.sub(r"[^A-Za-z0-9_]", "", base, flags=re.ASCII)
            if not _PLAIN.match(base):
                raise InternalError(f"{name!r} cannot be written as an identifier")
            identifier, n = base, 1
            while identifier in self._taken:
                n += 1
                identifier = f"{base}_{n}"
            self._taken.add(identifier)
            self._given[purpose, name] = identifier
        return identifier
