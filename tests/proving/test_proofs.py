"""The laws of monoids: what is proved, and what is refused and with which numbers."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from monocomp import terms as T
from monocomp.errors import MonoidLawError
from monocomp.language import checker
from monocomp.proving import monoid_laws, proofs, prover
from monocomp.proving.arithmetic import Algebra
from monocomp.proving.case_analysis import (
    ContradictionError,
    OutOfTimeError,
    Sample,
    clock,
    holds_in_all_cases,
)
from monocomp.proving.identities import Claim
from monocomp.proving.prover import Law
from monocomp.reference import oracle
from monocomp.terms import Term, UserMonoid
from monocomp.terms.algebra import SE_PAIR, settled
from monocomp.terms.equations import Equations
from monocomp.terms.printer import show
from monocomp.translation.translator import translate
from tests.marks import slow_unless

pytestmark = pytest.mark.usefixtures("cache")


def program(declaration: str, *elements: str) -> Equations:
    """A program that folds a monoid once, over inputs or the elements given."""
    found = re.match(r"monoid (\w+)\(([^)]*)\)", declaration)
    assert found
    fields = [field.strip() for field in found[2].split(",")]
    operands = elements or [f"in_{n}[k]" for n in range(len(fields))]
    use = f"O = {found[1]}[k]({', '.join(operands)})" + f".{fields[0]}" * (len(fields) > 1)
    return translate(checker.check(f"{declaration}\n{use}"))


def monoid(declaration: str) -> UserMonoid:
    """The monoid that a line declares."""
    (equation,) = program(declaration).equations
    folded = equation.body.args[0] if equation.body.op == "field" else equation.body
    found = folded.attr.monoid
    assert isinstance(found, UserMonoid)
    return found


def by_name(found: tuple[Law, ...]) -> dict[str, Law]:
    return {law.short: law for law in found}


# --- what is proved

TOP = "maximum(m, m')"
PROVED = {
    "affine": "monoid M(a, u) = unit (1, 0), combine (a * a', a' * u + u')",
    "matrix": "monoid M(a, b, c, d) = unit (1, 0, 0, 1), "
    "combine (a * a' + b * c', a * b' + b * d', c * a' + d * c', c * b' + d * d')",
    "complex": "monoid M(re, im) = unit (1, 0), combine (re * re' - im * im', re * im' + im * re')",
    "logsumexp pair": "monoid M(m, s) = unit (-inf, 0), "
    f"combine ({TOP}, where({TOP} == -inf, 0, s * exp(m - {TOP}) + s' * exp(m' - {TOP})))",
    "logaddexp": "monoid M(l) = unit (-inf), combine (log(exp(l) + exp(l')))",
    "safe logaddexp": "monoid M(l) = unit (-inf), combine (where(l == -inf, l', where(l' == -inf, "
    "l, maximum(l, l') + log(exp(l - maximum(l, l')) + exp(l' - maximum(l, l'))))))",
    "tropical": "monoid M(a, b) = unit (0, -inf), combine (a + a', maximum(b + a', b'))",
    "tropical matrix": "monoid M(a, b, c, d) = unit (0, -inf, -inf, 0), "
    "combine (maximum(a + a', b + c'), maximum(a + b', b + d'), "
    "maximum(c + a', d + c'), maximum(c + b', d + d'))",
    "independent maxima": f"monoid M({', '.join(f'm{n}' for n in range(8))}) = "
    f"unit ({', '.join(['-inf'] * 8)}), "
    f"combine ({', '.join(f'''maximum(m{n}, m{n}')''' for n in range(8))})",
    "circle": "monoid M(x) = unit (0), combine (x + x' + x * x')",
    "minimum": "monoid M(x) = unit (inf), combine (minimum(x, x'))",
    "two frames": "monoid M(v, m, w, n) = unit (0, -inf, 0, -inf), combine ("
    f"where({TOP} == -inf, 0, v * exp(m - {TOP}) + v' * exp(m' - {TOP})), {TOP}, "
    "where(maximum(n, n') == -inf, 0, "
    "w * exp(n - maximum(n, n')) + w' * exp(n' - maximum(n, n'))), maximum(n, n'))",
    "last": "monoid M(x, at) = unit (0, -inf), combine ("
    "where(at' != -inf, x', where(at != -inf, x, 0)), maximum(at, at'))",
}
NO_ORDER_IS_LIKE_ANOTHER = ("affine", "matrix", "tropical", "tropical matrix", "last")
CHAN = (
    "monoid Chan(n, mu, m2) = unit (0, 0, 0), combine (n + n', "
    "where(n + n' == 0, 0, (n * mu + n' * mu') / (n + n')), "
    "m2 + m2' + where(n + n' == 0, 0, (mu - mu') ** 2 * n * n' / (n + n')))"
)


REDUCTIONS = [*monoid_laws.BUILT_IN, "top", *monoid_laws.RESTS_ON]
SAME = ("logsumexp", "log_softmax")  # they rest on what softmax rests on


@pytest.mark.parametrize("name", slow_unless(lambda name: name not in SAME, REDUCTIONS))
def test_reductions_are_proved(name: str) -> None:
    found = proofs.certify(name, fresh=True)
    assert prover.is_proved(found)
    assert all(law.holds for law in found)  # all of them are commutative, too
    assert {"associative", "left unit", "closed"} <= set(by_name(found))


def test_se_is_proved() -> None:
    found = proofs.certify("SE", fresh=True)
    assert [law.name for law in found if not law.holds] == []
    expected = ["closed", "associative", "left unit", "right unit", "commutative", "tile"]
    assert [law.short for law in found] == expected
    statements = {law.short: str(law.statement) for law in found}
    excuse = "unless m = -inf: then unit . x and x are equal in all products"
    assert statements["left unit"] == f"unit . x = x, {excuse}"


def test_se_is_not_proved_by_default() -> None:
    """Moved the other way, and without `settled`, where -inf - -inf appears as soon as two empty
    parts are merged."""
    top = T.function("maximum", T.param("m", "float"), T.param("m'", "float"))
    value, frame = SE_PAIR.combine
    backwards = T.replace(value, settled(top), T.neg(settled(top)))
    found = by_name(proofs.prove_monoid(replace(SE_PAIR, combine=(backwards, frame))))
    assert found["associative"].holds is False
    tile = monoid_laws.tile(monoid_laws.Carrier(replace(SE_PAIR, combine=(backwards, frame))))
    assert not prover.survives(tile)
    raw = T.replace(value, settled(top), top)
    found = by_name(proofs.prove_monoid(replace(SE_PAIR, combine=(raw, frame))))
    assert found["closed"].holds is False
    assert "undefined" in str(found["closed"].counterexample)


@pytest.mark.parametrize("name", PROVED)
def test_monoids_are_proved(name: str) -> None:
    laws = proofs.prove_monoid(monoid(PROVED[name]))
    assert prover.is_proved(laws)
    assert prover.is_commutative(laws) == (name not in NO_ORDER_IS_LIKE_ANOTHER)


def test_other_names_of_the_unit() -> None:
    """(s, -inf) stands for nothing, and may be changed by the unit; (s, 1) may not."""
    found = by_name(proofs.prove_monoid(monoid(PROVED["two frames"])))
    assert str(found["left unit"].statement).startswith(
        "unit . x = x, unless m = -inf or n = -inf:"
    )
    affine = by_name(proofs.prove_monoid(monoid(PROVED["affine"])))
    assert str(affine["left unit"].statement) == "unit . x = x"
    # The field `n` is at its unit's value for some elements, yet |x| differs for others.
    size = monoid("monoid M(n, x) = unit (0, 0), combine (n + n', abs(x) + abs(x'))")
    assert by_name(proofs.prove_monoid(size))["left unit"].holds is False
    # Here every element that the unit changes has n = 0, but it is not interchangeable.
    last = monoid("monoid M(n, x) = unit (0, 0), combine (n + n', where(n' != 0, x', x))")
    assert by_name(proofs.prove_monoid(last))["left unit"].holds is False


# --- carriers of numbers >= 0


def test_chan_is_proved_for_counts() -> None:
    equations = program(CHAN, "1", "x[k]", "0")
    found = by_name(proofs.certificate(equations))
    assert prover.is_proved(found.values())
    assert str(found["associative"].statement) == "(x . y) . z = x . (y . z), for n >= 0"
    assert str(found["closed"].statement) == "x . y is finite, with n >= 0, for n >= 0"
    assert "unless n = 0" in str(found["left unit"].statement)
    assert proofs.require_program(equations) == tuple(found.values())


def test_every_fold_counts() -> None:
    """One fold whose elements are visibly >= 0 does not excuse another."""
    text = f"{CHAN}\nV = Chan[k](1, x[k], 0).m2\nW = Chan[k](w[k], x[k], 0).m2"
    with pytest.raises(MonoidLawError):
        proofs.require_program(translate(checker.check(text)))


def test_a_restriction_must_be_kept_by_combine() -> None:
    shrinking = monoid("monoid M(x) = unit (0), combine (x + x' - 1)")
    assert not prover.is_proved(proofs.prove_monoid(shrinking, ["x"]))
    norm = monoid("monoid M(x) = unit (0), combine (sqrt(x ** 2 + x' ** 2))")
    assert not prover.is_proved(proofs.prove_monoid(norm))
    found = proofs.prove_monoid(norm, ["x"])
    assert prover.is_proved(found)
    assert all(str(law.statement).endswith(", for x >= 0") for law in found)


# --- what is refused, and the numbers of the counterexamples


# Fields, unit and combine; the first law that fails; its sides, and the x, y, z where they differ.
REFUSED = {
    "subtraction": ("x", "0", "x - x'", "associative", "-1, 1, 1, 1, 1"),
    "average": ("x", "0", "(x + x') / 2", "associative", "7 / 4, 3 / 2, 1, 2, 2"),
    "subtraction in one field": (
        *("x, y", "0, 0", "x - x', y + y'", "associative"),
        "(-1, 3), (1, 3), (1, 1), (1, 1), (1, 1)",
    ),
    "wrong unit": ("x", "0", "maximum(x, x')", "left unit", "0, -1, -1"),
    "right unit only": ("x", "0", "x", "left unit", "0, 1, 1"),
    "left unit only": ("x", "0", "x'", "right unit", "0, 1, 1"),
    "nothing": ("x", "0", "0 * x * x'", "left unit", "0, 1, 1"),
    "quadratic": ("x", "0", "x + x' + x ** 2 * x'", "associative", "13, 7, 1, 1, 1"),
    "almost a sum": (
        *("x", "0", "x + x' + 1e-9 * x ** 2 * x'", "associative"),
        "3.000000005, 3.000000003, 1, 1, 1",
    ),
    "affine with sides exchanged": (
        *("a, u", "1, 0", "a * a', a * u + u'", "associative"),
        "(4, 22), (4, 8), (2, 2), (2, 1), (1, 2)",
    ),
    "velocities": ("x", "0", "(x + x') / (1 + x * x')", "closed", "undefined, 1, -1"),
    "rounding": ("x", "0", "floor(x) + x'", "right unit", "0, 1 / 2, 1 / 2"),
    "sizes": ("x", "0", "abs(x) + abs(x')", "left unit", "1, -1, -1"),
}


def refused(name: str) -> UserMonoid:
    fields, unit, combine, *_ = REFUSED[name]
    return monoid(f"monoid M({fields}) = unit ({unit}), combine ({combine})")


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_show_true_numbers(name: str) -> None:
    m, (*_, law, shown) = refused(name), REFUSED[name]
    failed = [f for f in proofs.prove_monoid(m) if not f.holds and not f.is_fact]
    assert (failed[0].short, failed[0].holds) == (law, False)
    values = re.findall(r" = (\(.*?\)|.+?)(?=, | and |$)", str(failed[0].counterexample))
    assert ", ".join(values) == shown
    with pytest.raises(MonoidLawError):
        proofs.require(m)


def test_the_message_names_a_unit_that_would_do() -> None:
    with pytest.raises(
        MonoidLawError, match="has a unit that is not neutral on the left"
    ) as caught:
        proofs.require(refused("wrong unit"))
    assert caught.value.help == "unit (-inf) is neutral"


def test_the_message_when_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "TIME_LIMIT", 1.0)
    start = time.monotonic()
    with pytest.raises(
        MonoidLawError, match="'M' is not known to have its law 'associative'"
    ) as caught:
        proofs.require(monoid(tropical_matrix(3)))
    assert "neither proved nor refuted within 1 s" in caught.value.notes
    assert time.monotonic() - start < 5 * 1.0 + 10


def test_unguarded_minus_infinity_is_refused() -> None:
    total = f"s * exp(m - {TOP}) + s' * exp(m' - {TOP})"
    declaration = f"monoid M(m, s) = unit (-inf, 0), combine ({TOP}, {total})"
    law = by_name(proofs.prove_monoid(monoid(declaration)))["closed"]
    assert law.holds is False
    assert re.fullmatch(
        r"x \. y = \(-inf, undefined\), for x = \(-inf, \S+\), y = \(-inf, \S+\)",
        str(law.counterexample),
    )


# --- limits


def tropical_matrix(n: int) -> str:
    """Paths of greatest weight: a monoid, with more cases than time allows for n = 3."""
    names = [f"a{i}{j}" for i in range(n) for j in range(n)]

    def entry(i: int, j: int) -> str:
        text = f"a{i}0 + a0{j}'"
        for k in range(1, n):
            text = f"maximum({text}, a{i}{k} + a{k}{j}')"
        return text

    unit = ", ".join("0" if i == j else "-inf" for i in range(n) for j in range(n))
    combine = ", ".join(entry(i, j) for i in range(n) for j in range(n))
    return f"monoid M({', '.join(names)}) = unit ({unit}), combine ({combine})"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "combine",
    [
        "x * 2 ** 100000000 + x'",
        "where(exp(exp(exp(100))) > 5, x + x', x)",
        "where(floor(exp(exp(exp(100)))) > 5, x + x', x)",
        "x + x' + ((x ** 60 + 1) ** 60 + 1) ** 60 - ((x ** 60 + 1) ** 60 + 1) ** 60 * x' / x'",
        "x + x' + (x + 1) ** 64 * (x' + 1) ** 64 - (x + 1) ** 64 * (x' + 1) ** 64",
    ],
)
def test_large_numbers_do_not_hang(combine: str) -> None:
    start = time.monotonic()
    proofs.prove_monoid(monoid(f"monoid M(x) = unit (0), combine ({combine})"), limit=1.0)
    assert time.monotonic() - start < 10


def test_a_unit_that_cannot_be_computed_proves_nothing() -> None:
    m = monoid("monoid M(x) = unit (exp(exp(exp(100)))), combine (x + x')")
    assert not prover.is_proved(proofs.prove_monoid(m, limit=1.0))
    undefined = monoid("monoid M(x) = unit (log(0 - 1)), combine (x + x')")
    assert by_name(proofs.prove_monoid(undefined))["left unit"].holds is False


# --- soundness: proofs and counterexamples never meet


def random_term(rng: random.Random, names: list[str], depth: int) -> Term:
    def part() -> Term:
        return random_term(rng, names, depth - 1)

    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.8:
            return T.param(rng.choice(names), "float")
        return T.const(rng.choice([0, 1, 2, -1]), "float")
    relation = rng.choice(["<", "<=", "==", "!="])
    made: dict[str, Callable[[], Term]] = {
        "add": lambda: T.add(part(), part()),
        "sub": lambda: T.sub(part(), part()),
        "mul": lambda: T.mul(part(), part()),
        "maximum": lambda: T.function("maximum", part(), part()),
        "minimum": lambda: T.function("minimum", part(), part()),
        "where": lambda: T.where(T.compare(relation, part(), part()), part(), part()),
        "bracket": lambda: T.mul(T.bracket(T.compare(relation, part(), part())), part()),
        "divide": lambda: T.divide(part(), part()),
        "square": lambda: T.power_of(part(), 2),
    }
    unary = ("abs", "exp", "log", "relu", "sqrt", "sign", "floor", "sigmoid", "tanh")
    choice = rng.choice([*made, *unary])
    return T.function(choice, part()) if choice in unary else made[choice]()


def claims_about(rng: random.Random) -> Iterator[Claim]:
    fields = ["a", "b"][: rng.choice([1, 1, 2])]
    names = fields + [f + "'" for f in fields]
    unit = tuple(T.const(rng.choice([0, 1, -math.inf, math.inf]), "float") for _ in fields)
    combine = tuple(random_term(rng, names, rng.choice([1, 2, 2, 3])) for _ in fields)
    m = UserMonoid("M", tuple(fields), unit, combine)
    for carrier in monoid_laws.carriers(m, frozenset(fields[:1])):
        for forms in carrier.laws:
            yield from forms[:2]


def test_what_is_proved_is_not_refuted() -> None:
    proved = refuted = 0
    for seed in range(12):
        for claim in claims_about(random.Random(seed)):
            try:
                holds = prover._prove(claim, clock(0.5))
            except OutOfTimeError:
                continue
            found = prover._refute(claim, clock(60))
            assert not (holds and found), f"seed {seed}: {claim.statement}: {found}"
            proved += holds
            refuted += found is not None
    assert min(proved, refuted) > 10


def test_a_claim_about_nothing_is_not_proved() -> None:
    def impossible(path: object) -> bool:
        raise ContradictionError

    assert not holds_in_all_cases(impossible, lambda: None)


# --- the arithmetic


# The value of each expression; the term language joins exp(-inf) * exp(inf) to exp(-inf).
CONVENTIONS = {
    0: "exp(-inf); 1 / exp(inf); exp(-inf) * exp(inf); relu(0 - 3); sigmoid(log(0)); "
    "softplus(log(0)); erf(0)",
    1: "(0 - 7) % 2",
    2: "maximum(-inf, 2)",
    3: "where(0 < 1, 3, 1 / 0)",
    8: "2 ** 3",
    -1: "sign(log(0)); tanh(log(0)); elu(log(0))",
    -3: "floor(0 - 5 / 2)",
    -4: "(0 - 7) // 2",
    Fraction(3, 2): "sqrt(9 / 4)",
    math.inf: "abs(log(0))",
    -math.inf: "log(0)",
    math.nan: "log(0 - 1); 1 / exp(-inf); minimum(log(0 - 1), 2); sqrt(0 - 4)",
}


@pytest.mark.parametrize(
    ("text", "expected"), [(t, x) for x, texts in CONVENTIONS.items() for t in texts.split("; ")]
)
def test_conventions(text: str, expected: float) -> None:
    (unit,) = monoid(f"monoid M(x) = unit ({text}), combine (x + x')").unit
    value = Sample(0, Algebra()).evaluator(dict[Term, Any]().__getitem__)(unit)
    assert value == expected or (math.isnan(expected) and math.isnan(value))


def test_the_prover_and_the_oracle_read_terms_alike() -> None:
    compared = 0
    for seed in range(150):
        rng = random.Random(seed)
        term = random_term(rng, ["a", "b"], 3)
        given = {"a": Fraction(rng.choice([1, 2, 3]), 2), "b": Fraction(rng.choice([-1, 2, 5]), 3)}
        with suppress(ContradictionError):
            sample = Sample(0, Algebra())
            known = {T.param(n, "float"): sample.number(x) for n, x in given.items()}
            value = sample.evaluator(known.__getitem__)(term)
            numbers = {name: float(x) for name, x in given.items()}
            text = f"param a: float, b: float\nO = {show(term)} + 0.0"
            (wanted,) = oracle.specified(text, {}, numbers)
            if not isinstance(value, float) and np.isfinite(wanted):
                assert float(wanted) == pytest.approx(float(value), 1e-9, 1e-9)
                compared += 1
    assert compared > 75


def test_names_do_not_reach_sympy() -> None:
    """Fields that sympy's parser would read as constants and functions are just fields."""
    pi = monoid("monoid pi(E, I) = unit (1, 0), combine (E * E', E' * I + I')")
    found = by_name(proofs.prove_monoid(pi))
    assert prover.is_proved(found.values())
    assert found["commutative"].holds is False
