"""How gradients follow from programs: the steps, and the laws that they rest on."""

from __future__ import annotations

from fractions import Fraction

import pytest

import monocomp as mc
from monocomp import library
from monocomp import terms as T
from monocomp.gradients.laws import certified
from monocomp.gradients.partials import _DERIVATIVES
from tests.gradients.test_derived import PROGRAMS

X, Y, C = T.param("x", "float"), T.param("y", "float"), T.param("c", "bool")
OPERATIONS = {
    "add": T.inert("add", X, Y),
    "mul": T.inert("mul", X, Y),
    "power": T.inert("power", X, Y),
    "where": T.inert("where", C, X, Y),
    "maximum": T.inert("maximum", X, Y),
    "minimum": T.inert("minimum", X, Y),
    "mod": T.inert("mod", X, Y),
    **{f"pow {n}": T.inert("pow", X, attr=Fraction(n)) for n in ("2", "-1", "1/2", "-3/2", "7")},
    **{name: T.inert(name, X) for name in _DERIVATIVES},
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_derivatives_are_proved(name: str) -> None:
    """Those of every operation, by sympy."""
    laws = certified([OPERATIONS[name]], fresh=True)
    assert laws and all(law.holds for law in laws), laws


def test_a_wrong_derivative_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_DERIVATIVES, "tanh", lambda x: T.function("tanh", x))
    from monocomp.gradients import laws

    laws._partials.cache_clear()
    found = certified([OPERATIONS["tanh"]], fresh=True)
    laws._partials.cache_clear()
    assert [law.holds for law in found] == [None]


MONOIDS = [
    "Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')",
    "Range(a, b) = unit (-inf, inf), combine (maximum(a, a'), minimum(b, b'))",
    "Merged(n, m) = unit (0, 0), combine (n + n', where(n + n' == 0, 0, (n * m + n' * m') / "
    "(n + n')))",
]


@pytest.mark.parametrize("text", MONOIDS)
def test_derivatives_of_aggregates(text: str) -> None:
    """In a user's monoid from that of `before . element . after`."""
    name, fields = text.split("(")[0], text.partition("(")[2].split(")")[0].split(", ")
    elements = ", ".join(f"abs({f.upper()}[i,k])" for f in fields)
    lines = [f"monoid {text}", f"R[i] = {name}[k if k < i]({elements}).{fields[-1]}"]
    found = mc.grad("\n".join(lines)).derivation.certify(fresh=True)
    assert found.holds
    (theory,) = (t for t in found.theories if t.name == "derivatives")
    assert sum(law.name.startswith(f"derivatives: d({name}: a . x . b)") for law in theory.laws) > 3


@pytest.mark.parametrize(("fold", "combine"), [("sum", "x + y"), ("max", "maximum(x, y)")])
def test_derivatives_of_folds(fold: str, combine: str) -> None:
    found = mc.grad(f"O[i] = {fold}[k](X[i,k] * Y[k])").derivation.certify()
    assert f"d({combine}) / dx" in str(found) and found.holds


def test_a_wrong_derivative_of_an_aggregate_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    from monocomp.gradients import folds

    monkeypatch.setattr(folds._Combined, "derivative", lambda *_: T.ONE)
    derivation = mc.grad(f"monoid {MONOIDS[0]}\nR = Affine[k](X[k], Y[k]).u").derivation
    assert not derivation.certify().holds


@pytest.mark.parametrize("name", PROGRAMS)
def test_certificates(name: str) -> None:
    """Every derivation ends at the gradient, and all of its laws are proved."""
    found = mc.grad(PROGRAMS[name])
    derivation = found.derivation
    assert derivation.result is found.equations
    assert {s.rule for s in derivation} >= {"add_up_reads"}
    certificate = derivation.certify()
    assert certificate.holds
    uses = (*(u for t in certificate.theories for u in t.uses), *certificate.definitions)
    assert {n for use in uses for n in use.steps} == set(range(1, len(derivation) + 1))


def test_normal_form_is_checked() -> None:
    derivation = mc.grad(library.load("attention")).derivation
    checks = derivation.check(extents={"q": 3, "k": 5})
    assert checks and len(checks) == len(derivation.rewrites) < len(derivation)
