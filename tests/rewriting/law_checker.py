"""Laws tried by the oracle at special points, over folds of no element to three."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from monocomp.reference.oracle import evaluate
from monocomp.rewriting.equations import PREDICATES, Equation, Need
from tests.rewriting.examples import FORMS

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

POINTS = (-math.inf, math.nan, -2.0, -1.0, 0.0, 0.5, 1.0, 3.0)  # NaN: unspecified
SAMPLES = 3000


@np.errstate(invalid="ignore")
def counterexample(law: Equation, without: Need | None = None) -> str | None:
    """A point at which the left side is specified and the right side is not that, if there is one
    where the needs are met, but for one."""
    both = law.program(law.left, law.read), law.program(law.right, law.read)
    for size in range(4):
        inputs = _inputs(law, size, without, np.random.default_rng(size))
        sides = [np.asarray(_value(law, side, inputs)) for side in both]
        shape = (SAMPLES, *sides[0].shape[1:])
        left, right = (np.broadcast_to(side, shape).reshape(SAMPLES, -1) for side in sides)
        admitted = _admitted(law, inputs, without)
        if left.dtype.kind != "f":  # an int or a condition does not show that it is unspecified
            admitted &= ~_any(inputs, np.isnan)
            chosen = law.program(law.left.replace("arg", ""), law.read)  # the value does
            admitted &= ~_any({"": np.asarray(_value(law, chosen, inputs))}, np.isnan)
        left, right = left.astype(float), right.astype(float)
        close = np.abs(left - right) <= 1e-9 * (1 + np.abs(left))
        equal = np.where(np.isfinite(left), close, left == right)
        wrong = np.flatnonzero(admitted & (~np.isnan(left) & ~equal).any(axis=1))
        if len(wrong):
            at = wrong[0]
            values = ", ".join(f"{n} = {x[at].tolist()}" for n, x in inputs.items())
            return f"{law.law} at {values}: {left[at]} and {right[at]}"
    return None


def _any(inputs: dict[str, Array], holds: Callable[[Array], Array]) -> Array:
    """The samples in which something holds of an input."""
    numbers = (x.astype(float).reshape(SAMPLES, -1) for x in inputs.values())
    return np.logical_or.reduce([holds(x).any(axis=1) for x in numbers])


def _inputs(
    law: Equation, size: int, without: Need | None, random: np.random.Generator
) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, scope in law.scopes.items():
        shape = (SAMPLES, *(size for _ in scope))
        if name in law.conditions:
            found[name.upper()] = random.random(shape) < 0.7
        else:
            found[name.upper()] = random.choice(_points(law, name, without), shape)
    return found


def _points(law: Equation, name: str, without: Need | None) -> list[float]:
    """The points that meet the needs of a variable alone."""
    own = [
        [FORMS[need.words][0] for need in choice]
        for choice in law.needs
        if without not in choice
        and all(need.name == name and need.words in PREDICATES for need in choice)
    ]
    return [x for x in POINTS if all(any(holds(x) for holds in choice) for choice in own)]


def _value(law: Equation, program: str, inputs: dict[str, Array]) -> Any:
    read = {n: x for n, x in inputs.items() if f"{n}[" in program}
    value = evaluate(program, read)
    return value if inputs else np.full(SAMPLES, value[0])


def _admitted(law: Equation, inputs: dict[str, Array], without: Need | None) -> Array:
    """The samples that meet the needs."""
    found = np.ones(SAMPLES, bool)
    for choice in law.needs:
        if without not in choice:
            found &= np.logical_or.reduce([_meets(law, need, inputs) for need in choice])
    return found


def _meets(law: Equation, need: Need, inputs: dict[str, Array]) -> Array:
    if need.free_of is not None:
        return np.ones(SAMPLES, bool)
    if need.words == "has an element":
        (name,) = (v for v in law.conditions if need.name in law.scopes[v])
        return inputs[name.upper()].reshape(SAMPLES, -1).any(axis=1)
    values = inputs[need.name.upper()].reshape(SAMPLES, -1)
    holds = np.frompyfunc(FORMS[need.words][0], 1, 1)
    return np.asarray(holds(values), bool).all(axis=1)
