"""`monocomp check`: prove the laws again, then compare everything with the oracle.

Three kinds of evidence that share little: the laws are proved for all values, every step of
the derivation is evaluated by the oracle on random inputs and must not change the result,
and every backend that runs on this machine must agree with the oracle. Sizes are small
distinct primes; for the backends, each index in turn is also made longer than a tile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from textwrap import indent
from typing import Any, TypeAlias

from monocomp.checking.sizes import complete_extents, fits
from monocomp.checking.steps import STEP_LIMIT, Case, check_steps
from monocomp.command_line.files import tensors
from monocomp.command_line.findings import Finding
from monocomp.declarations.records import by_representative, free_extents
from monocomp.derivation.derivation import Derivation
from monocomp.derivation.rule_sets import derive
from monocomp.errors import (
    IndexRangeError,
    MonocompError,
    UnsupportedError,
)
from monocomp.terms.equations import Equations

Values: TypeAlias = Mapping[str, Any]

# A dtype that each backend accumulates in, and the error that rounding in it may make:
# exponents of some hundreds are ordinary here, and lose as many digits.
BACKENDS = {"numpy": ("float64", 1e-10), "torch": ("float64", 1e-10), "triton": ("float32", 1e-4)}
_MARGIN = " " * 8  # of a message below its line
_LONG = 132  # longer than a tile, and no multiple of 16


def verify(
    program: Equations, extents: Mapping[str, int], params: Values, seed: int
) -> Iterator[Finding]:
    """Check a program in every way there is.

    Args:
        program: as it is written.
        extents: sizes by the name of an index; the others are small.
        params: parameters; the others get small values where their defaults are large.
        seed: of the random inputs.
    """
    case = Case.of(program, extents, params, seed)
    case.expected("float64")  # sizes that do not fit show here, before any line is printed
    derivation = Derivation.of(derive(program))
    yield from _proofs(derivation)
    yield from _steps(derivation, case)
    yield from _backends(program, [*case.everywhere(), *_longer(case, extents)])


def _longer(case: Case, sizes: Mapping[str, int]) -> list[Case]:
    """Return the case with one index at a time longer than a tile, where the program admits it."""
    params = case.params
    fixed = by_representative(case.equations.declared, sizes)
    guarded = not fits(case.equations, case.extents, params)  # then only a run can tell
    cases = []
    for name in free_extents(case.equations.declared):
        if name not in fixed:
            extents = complete_extents(case.equations, {**sizes, name: _LONG}, params)
            if guarded or fits(case.equations, extents, params):
                cases.append(replace(case, extents=extents))
    return cases


# The three kinds of evidence


def _proofs(derivation: Derivation) -> Iterator[Finding]:
    section = "proofs: the laws that the rewrites, tiling and merging rest on, proved anew"
    certificate = derivation.certify(fresh=True)
    width = max((len(law.name) for law in certificate.laws), default=0)
    for law in certificate.laws:
        what = f"{law.name:{width}}"
        if law.holds:
            yield Finding(section, True, what, str(law.statement))
        elif law.is_fact:
            yield Finding(section, None, what, "does not hold, and need not")
        elif law.counterexample is not None:
            yield Finding(section, False, what, f"counterexample: {law.counterexample}")
        else:
            yield Finding(section, False, what, f"not proved: {law.statement}")
    if not certificate.laws:
        yield Finding(section, True, "nothing is folded")
    for c in certificate.conditions:
        section = "side conditions: facts that rules needed, and found"
        yield Finding(section, bool(c.by), f"{c.step:3}. {c.rule}", str(c.fact))


def _steps(derivation: Derivation, case: Case) -> Iterator[Finding]:
    section = f"derivation: each step evaluated by the oracle, {case}"
    width = max((len(step.rule) for step in derivation), default=0)
    for checked in check_steps(derivation.start, derivation.steps, case):
        what = f"{checked.number:3}. {checked.rule:{width}}"
        detail = _shown(checked.error, STEP_LIMIT)
        if checked.problem is not None:
            detail = "\n" + indent(str(checked.problem), _MARGIN)
        yield Finding(section, checked.ok, what, detail)
    if not len(derivation):
        yield Finding(section, True, "no step: the program is in normal form")


def _backends(program: Equations, cases: list[Case]) -> Iterator[Finding]:
    section = "backends: each against the oracle"
    return (check_backend(section, program, backend, cases) for backend in BACKENDS)


def check_backend(section: str, program: Equations, backend: str, cases: list[Case]) -> Finding:
    """Compare a backend with the oracle, if it can run here."""
    dtype, limit = BACKENDS[backend]
    what = f"{backend:6}  {dtype}"
    reason = _unavailable(backend)
    if reason is not None:
        return Finding(section, None, what, reason)
    try:
        error, where = _worst(program, backend, dtype, cases)
    except UnsupportedError as problem:
        return Finding(section, None, what, problem.message)
    except MonocompError as problem:
        return Finding(section, False, what, "\n" + indent(str(problem), _MARGIN))
    return Finding(section, error <= limit, what, f"{_shown(error, limit)}, {where}")


def _worst(program: Equations, backend: str, dtype: str, cases: list[Case]) -> tuple[float, str]:
    """Return the largest error of a backend over all cases, and at which."""
    import torch

    from monocomp.kernel import Kernel

    kernel = Kernel(program, backend=backend)
    errors = {}
    for case in cases:
        inputs = case.inputs(dtype)
        try:
            expected = case.outputs(inputs)
        except IndexRangeError:
            continue  # the program does not admit these sizes
        results = kernel(**tensors(inputs, {}, backend), **case.params)
        values = results if isinstance(results, tuple) else (results,)
        arrays = [torch.as_tensor(value).detach().cpu() for value in values]
        eps = max((torch.finfo(t.dtype).eps for t in arrays if t.is_floating_point()), default=0.0)
        outputs = tuple((t.double() if t.is_floating_point() else t).numpy() for t in arrays)
        # Less the rounding to the dtype that the program asks for.
        errors[str(case)] = max(0.0, case.error(outputs, expected) - eps)
    where = max(errors, key=errors.__getitem__)
    return errors[where], f"worst of {len(errors)} at {where}"


def _unavailable(backend: str) -> str | None:
    """Return the reason why a backend cannot run here, or None."""
    import torch

    if backend != "triton" or torch.cuda.is_available():
        return None
    if os.environ.get("TRITON_INTERPRET") == "1":
        return None
    return "no GPU here; with TRITON_INTERPRET=1 it runs in Triton's interpreter"


def _shown(error: float, limit: float) -> str:
    return f"error {error:.1e}, limit {limit:.0e}"
