"""Steps of a derivation against the oracle, on random inputs.

Every step holds a whole program. It is printed, read again and evaluated by the oracle, and
must give what the user's program gives. Sizes are small distinct primes. Inputs are drawn three
times: in general position, at special points that are finite, and at any special points. Nothing is
promised where the user's program is unspecified (`monocomp/reference/semantics.md`); of inputs that
are no numbers a NaN is right as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from monocomp.checking.random_inputs import Points, random_inputs
from monocomp.checking.sizes import complete_extents
from monocomp.declarations.records import Declarations, free_extents
from monocomp.errors import IndexRangeError, MonocompError
from monocomp.rewriting.driver import Step
from monocomp.terms.equations import Equations

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_WHERE = {"general": "", "finite": ", at 0, 1 and ties", "any": ", at infinities and NaN"}
STEP_LIMIT = 1e-10  # relative to the largest result: steps reorder sums of float64


@dataclass(frozen=True)
class Case:
    """Sizes and parameters at which a program is run, and where its inputs are drawn."""

    equations: Equations  # as they are written
    text: str  # the same for the oracle
    extents: dict[str, int]
    params: dict[str, Any]
    seed: int
    points: Points = "general"

    @classmethod
    def of(
        cls,
        equations: Equations,
        extents: Mapping[str, int],
        params: Mapping[str, Any],
        seed: int,
        text: str | None = None,
    ) -> Case:
        """Return a case of small sizes, except those given; of the text that the equations come
        from, unless another is given."""
        params = {**small_params(equations.declared), **params}
        extents = complete_extents(equations, extents, params)
        return cls(equations, text or equations.origin.text, extents, params, seed)

    def __str__(self) -> str:
        sizes = [f"{name}={self.extents[name]}" for name in free_extents(self.equations.declared)]
        sizes += [f"{name}={value}" for name, value in self.params.items()]
        return " ".join(sizes) + _WHERE[self.points]

    def inputs(self, dtype: str) -> dict[str, Array]:
        """Return random inputs."""
        at, params, points = self.extents, self.params, self.points
        return random_inputs(
            self.equations, at, dtype=dtype, seed=self.seed, params=params, points=points
        )

    def everywhere(self) -> tuple[Case, ...]:
        """Return this case and those at special points."""
        return self, replace(self, points="finite"), replace(self, points="any")

    def error(self, outputs: tuple[Array, ...], expected: tuple[Array, ...]) -> float:
        """Return the largest `difference` of several outputs."""
        if len(outputs) != len(expected):
            return np.inf
        pairs = zip(outputs, expected, strict=True)
        return max(difference(a, b, self.points == "any") for a, b in pairs)

    def outputs(self, inputs: Mapping[str, Array], text: str | None = None) -> tuple[Array, ...]:
        """Return the outputs by the oracle, of this program or of another form of it, NaN where
        they are unspecified."""
        from monocomp.reference.oracle import specified

        outputs = specified(text or self.text, inputs, self.params)
        with np.errstate(over="ignore"):
            return tuple(x.astype(np.float64) for x in outputs)

    def expected(self, dtype: str) -> tuple[Array, ...]:
        """Return the outputs on this case's inputs."""
        return self.outputs(self.inputs(dtype))


def small_params(declared: Declarations[Any]) -> dict[str, int | float]:
    """Return values at which parameters matter at small sizes: a window of 1024 would exclude
    nothing."""
    return {
        at.name: (3 if at.kind == "int" else 0.5)
        for at in declared.params.values()
        if at.default is None or (at.kind == "int" and at.default > 8)
    }


def difference(value: Array, expected: Array, or_nan: bool = False) -> float:
    """Return the largest difference over the largest expected size (at least 1); inf where they
    differ in shape or in what is infinite.

    Nothing is promised where NaN is expected; with `or_nan`, NaN is right everywhere.
    """
    if value.shape != expected.shape:
        return np.inf
    a, b = value.astype(np.float64), expected.astype(np.float64)
    promised = ~np.isnan(b) & ~(np.isnan(a) & or_nan)
    plain = promised & np.isfinite(b)
    if not np.isfinite(a[plain]).all() or not (a == b)[promised & ~plain].all():
        return np.inf
    errors, sizes = np.abs(a[plain] - b[plain]), np.abs(b[plain])
    return float(errors.max(initial=0.0) / sizes.max(initial=1.0))


@dataclass(frozen=True)
class StepCheck:
    """The outcome for one step.

    Attributes:
        number: of the step, from 1.
        rule: its rule.
        error: the difference to what the user's program gives; inf if it cannot be evaluated.
        problem: why it cannot be evaluated, or None.
    """

    number: int
    rule: str
    error: float
    problem: MonocompError | None = None

    @property
    def ok(self) -> bool:
        """True if the program after the step is equal to the one before it."""
        return self.error <= STEP_LIMIT

    def __str__(self) -> str:
        outcome = f"error {self.error:.1e}" if self.problem is None else str(self.problem)
        return f"{'ok  ' if self.ok else 'FAIL'} {self.number:3}. {self.rule}: {outcome}"


@dataclass(frozen=True)
class Checks:
    """The outcomes for all steps; true if all are right."""

    case: Case
    steps: tuple[StepCheck, ...]

    @property
    def ok(self) -> bool:
        """True if all steps are right."""
        return all(step.ok for step in self.steps)

    def __bool__(self) -> bool:
        return self.ok

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[StepCheck]:
        return iter(self.steps)

    def __str__(self) -> str:
        wrong = sum(not step.ok for step in self.steps)
        worst = max((step.error for step in self.steps), default=0.0)
        head = f"{len(self)} steps at {self.case}: {f'{wrong} wrong' if wrong else 'all right'}"
        return "\n".join([f"{head}, largest error {worst:.1e}", *map(str, self.steps)])

    def __repr__(self) -> str:
        return f"<Checks: {str(self).partition(chr(10))[0]}>"


def check_steps(start: Equations, steps: Iterable[Step], case: Case) -> Iterator[StepCheck]:
    """Evaluate the program after every step of a derivation, one by one."""
    cases = []
    for each in case.everywhere():
        try:
            inputs = each.inputs("float64")
            cases.append((each, inputs, each.outputs(inputs)))
        except IndexRangeError:
            if each is case:
                raise
    errors = {start.text(): 0.0}  # steps that only name something change no text
    for number, step in enumerate(steps, 1):
        text = step.program.text()
        try:
            if text not in errors:
                errors[text] = max(at.error(at.outputs(x, text), y) for at, x, y in cases)
        except MonocompError as problem:
            yield StepCheck(number, step.rule, np.inf, problem)
        else:
            yield StepCheck(number, step.rule, errors[text])
