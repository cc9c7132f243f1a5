"""A derivation can be stopped, checked, and made otherwise: the kernel is right all the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import monocomp as mc
from monocomp import library
from monocomp.checking.steps import Case
from monocomp.derivation.derivation import Derivation
from monocomp.derivation.rule_sets import RULES, derive
from monocomp.errors import UsageError
from monocomp.kernel import Kernel
from monocomp.language.checker import check
from monocomp.translation.translator import translate

MORE = {
    "statistics": "S[q,k] = Q[q,d] * K[k,d]\nO[q,e] = softmax[k](S[q,k]) * V[k,e]\n"
    "L[q] = logsumexp[k](S[q,k])",
    "variance": "V[i] = var[k](X[i,k])",
    "argmax": "A[i] = argmax[k](X[i,k])",
    "prefix": "C[i,k] = sum[..k](X[i,k])",
    "masked": "P[i,k] = log_softmax[k if k <= i](X[i,k])",
    "two indices": "O[i] = sum[j, k](X[i,j] * Y[j,k])",
    "sink": "O[i] = sum[k](exp(X[i,k]) * V[k]) / (exp(C[i]) + sum[k](exp(X[i,k])))",
}
PROGRAMS = {**{n: library.load(n) for n in library.names()}, **MORE}


@cache
def expected(name: str) -> tuple[Case, dict[str, Any], tuple[Any, ...]]:
    case = Case.of(translate(check(PROGRAMS[name])), {}, {}, 0)
    inputs = case.inputs("float64")
    return case, inputs, case.outputs(inputs)


def check_kernel(name: str, kernel: Kernel) -> None:
    case, inputs, outputs = expected(name)
    found = kernel(**inputs, **case.params)
    found = found if isinstance(found, tuple) else (found,)
    assert case.error(found, outputs) < 1e-10, [s.rule for s in kernel.derivation]


def stops(steps: int) -> list[int]:
    """Where to stop: at either end, and after each, every second or every third step between."""
    return sorted({0, steps, *range(1, steps, 1 + (steps > 4) + (steps > 8))})


@pytest.mark.one_in(11)
@pytest.mark.parametrize("name", PROGRAMS)
def test_stopped_anywhere(name: str) -> None:
    full = [s.rule for s in derive(translate(check(PROGRAMS[name]))).steps]
    for count in stops(len(full)):
        kernel = mc.compile(PROGRAMS[name], steps=count, backend="numpy")
        assert [s.rule for s in kernel.derivation[:count]] == full[:count]
        check_kernel(name, kernel)


@settings(max_examples=24)
@given(st.sampled_from(sorted(PROGRAMS)), st.integers(0, 2**32), st.booleans())
def test_other_orders_and_fewer_rules(name: str, seed: int, all_of_them: bool) -> None:
    source = random.Random(seed)
    count = len(RULES) if all_of_them else source.randrange(len(RULES))
    rules = source.sample(list(RULES), count)
    kernel = mc.compile(PROGRAMS[name], rules=rules, backend="numpy")
    check_kernel(name, kernel)


def test_finish() -> None:
    """From any step on, what is left to do leads to the same program."""
    full = derive_and("causal")
    for count in range(len(full) + 1):
        again = full.first(count).finish()
        assert again.finished and again.result.text() == full.result.text()
    early = full.first(2).apply("lift")  # before its sum is in normal form
    assert full[2].rule != "lift"
    assert early.finish().result.text() == full.result.text()


def test_apply() -> None:
    text = "M[i] = max[k](A[i] + X[i,k])\nO[i] = max[k](B[i] + X[i,k]) + M[i]\nreturn M, O"
    start = Derivation.of(derive(translate(check(text)), 0))
    assert len(start) == 0
    one = start.apply("hoist_addend")
    assert [(s.rule, s.place) for s in one] == [("hoist_addend", ("M",))]
    two = start.apply("hoist_addend", "O")
    assert [(s.rule, s.place) for s in two] == [("hoist_addend", ("O",))]
    assert two.apply("hoist_addend", "M").result.text() == one.apply("hoist_addend").result.text()
    for rule, position, message in [
        ("hoist_factor", None, "hoist_factor does not apply in M, O"),
        ("hoist_addend", "Z", "there is no definition 'Z' here"),
        ("hoist_addent", None, "did you mean 'hoist_addend'?"),
    ]:
        with pytest.raises(UsageError) as raised:
            start.apply(rule, position)
        assert message in str(raised.value)


def test_bad_rules() -> None:
    with pytest.raises(UsageError, match="there is no rule 'fuse'"):
        mc.compile("O[i] = X[i]", rules=["fuse"])


@cache
def derive_and(name: str) -> Derivation:
    return Derivation.of(derive(translate(check(PROGRAMS[name]))))


def wrong_step(derivation: Derivation, number: int) -> Derivation:
    """The derivation with a result doubled in one step."""
    from monocomp import terms as T

    step = derivation[number - 1]
    program = step.program.map(lambda t: T.mul(T.const(2), t))
    steps: Sequence[Any] = [*derivation.steps]
    return Derivation(
        derivation.start,
        (*steps[: number - 1], replace(step, program=program), *steps[number:]),
    )


def test_a_wrong_step_is_found() -> None:
    derivation = derive_and("variance")
    for number in range(1, len(derivation) + 1):
        checks = wrong_step(derivation, number).check(extents={"i": 2}, seed=3)
        assert not checks and not checks.ok
        assert [step.number for step in checks if not step.ok] == [number]
        assert f"FAIL {number:3}. {derivation[number - 1].rule}: error" in str(checks)
        assert "steps at i=2 k=3: 1 wrong" in repr(checks)
