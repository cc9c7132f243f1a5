"""An attention compiler: a line of mathematics in, a derived fused kernel out.

    import monocomp as mc
    attention = mc.compile("attention.mc")    # or the program's text
    O = attention(Q, K, V)                    # torch tensors, in the order of the `input` line
    print(attention.derivation)               # how the kernel follows from the mathematics
    print(attention.source("triton"))

Names are looked up when they are first used, so importing this package loads nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monocomp import errors, explorer, hf, library
    from monocomp.backends.schedules import remembered as schedules
    from monocomp.differentiation import grad
    from monocomp.dot_products import sdpa
    from monocomp.errors import MonocompError, MonocompWarning
    from monocomp.kernel import Kernel, compile
    from monocomp.reference.oracle import evaluate
    from monocomp.translation.declared_monoids import Monoid, monoid

__version__ = "0.1.0"
__all__ = [
    "Kernel",
    "MonocompError",
    "MonocompWarning",
    "Monoid",
    "compile",
    "errors",
    "evaluate",
    "explorer",
    "grad",
    "hf",
    "library",
    "monoid",
    "schedules",
    "sdpa",
]

_HOMES = {
    "Kernel": "monocomp.kernel",
    "MonocompError": "monocomp.errors",
    "MonocompWarning": "monocomp.errors",
    "Monoid": "monocomp.translation.declared_monoids",
    "compile": "monocomp.kernel",
    "evaluate": "monocomp.reference.oracle",
    "grad": "monocomp.differentiation",
    "monoid": "monocomp.translation.declared_monoids",
    "sdpa": "monocomp.dot_products",
}
_MODULES = {name: f"monocomp.{name}" for name in ("errors", "explorer", "hf", "library")}
_MODULES["schedules"] = "monocomp.backends.schedules.remembered"


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = import_module(_MODULES[name])
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
