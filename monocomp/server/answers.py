"""A request compiled and shown: a derivation with its stages, or the error with its place.

A program is text and never a path, and nothing of it is run: kernels are emitted, not called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monocomp.errors import InternalError, MonocompError, UsageError, count_of, require_known

TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942")
DTYPES = ("bf16", "fp16", "fp32")
BACKENDS = ("triton", "gluon", "torch")


@dataclass(frozen=True)
class Request:
    """A request of a page.

    Attributes:
        program: its text.
        target, dtype, backend: what the kernel is for.
        gradient: true if the program's gradient is wanted.
        sizes: such as "q=4096 d=128".
    """

    program: str
    target: str = "cuda:90"
    dtype: str = "bf16"
    backend: str = "triton"
    gradient: bool = False
    sizes: str = ""

    @classmethod
    def read(cls, fields: object) -> Request:
        """Return a request from data of JSON.

        Raises:
            UsageError: it has other fields, or of other types.
        """
        known = cls.__dataclass_fields__
        if not isinstance(fields, Mapping) or "program" not in fields:
            raise UsageError("a request is an object with a program")
        for name, value in fields.items():
            require_known(name, known, f"a request has no {name!r}", "fields")
            if str(type(value).__name__) != known[name].type:
                raise UsageError(f"{name} must be of type {known[name].type}")
        request = cls(**fields)
        for name, values in (("target", TARGETS), ("dtype", DTYPES), ("backend", BACKENDS)):
            value = getattr(request, name)
            require_known(value, values, f"there is no {name} {value!r} here", f"{name}s")
        return request


@dataclass(frozen=True)
class Answer:
    """An answer that the page shows.

    Attributes:
        html: the parts of the explorer's page; "" where there is an error.
        about: how many steps the derivation has, such as "3 steps".
        error: the message, with the line and a caret.
        start, stop: the place of the error in the program, if it has one.
    """

    html: str = ""
    about: str = ""
    error: str = ""
    start: int | None = None
    stop: int | None = None


def answer(request: Request) -> Answer:
    """Compile a program and show what comes of it."""
    try:
        return _shown(request)
    except MonocompError as error:
        place = next(iter(error.spans), None)
        start, stop = (None, None) if place is None else (place.start, place.stop)
        return Answer(error=error.described(), start=start, stop=stop)
    except Exception as error:  # a fault of ours ends no server
        return Answer(error=InternalError(f"{type(error).__name__}: {error}").described())


def _shown(request: Request) -> Answer:
    from monocomp import explorer
    from monocomp.declarations.assignments import read_sizes
    from monocomp.derivation.derivation import Derivation
    from monocomp.differentiation import Gradient
    from monocomp.gradients.derived import gradient
    from monocomp.kernel import Kernel
    from monocomp.language.checker import check
    from monocomp.stages import Stages
    from monocomp.translation.translator import translate

    sizes = read_sizes(request.sizes.replace(",", " ").split())
    program = translate(check(request.program))
    derivation: Derivation | None = None
    if request.gradient:
        programs = Gradient.of(gradient(program, extents=sizes))
        program, derivation = programs.equations, programs.derivation
    kernel = Kernel(program, backend=request.backend)
    stages = Stages(kernel, sizes, request.target, request.dtype)
    derivation = derivation or stages.plan.derivation
    return Answer(explorer.body(derivation, stages), count_of(len(derivation), "step"))
