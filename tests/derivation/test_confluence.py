"""Many ways to write one formula, and one normal form: one term, one kernel.

The naive, the safe and the lazy softmax, by their logarithms, scaled before or after, with
their steps named or not, masked in any way: all reach the identical term, and kernels that
are equal byte for byte. Each is written for all keys and for a filter.
"""

from __future__ import annotations

import pytest

from monocomp.derivation.rule_sets import derive
from monocomp.language.checker import check
from monocomp.terms.equations import Equations
from monocomp.translation.translator import translate

S = "S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)\n"
LOGIT = "sum[d](Q[b,h,q,d] * K[b,h,k,d]) / sqrt(|d|)"
M = "M[b,h,q] = max[k{if}](S[b,h,q,k])\n"
E = "E[b,h,q,k] = exp(S[b,h,q,k] - M[b,h,q])\n"
O = "O[b,h,q,e] = "  # noqa: E741 - as everywhere

# {if} is a filter or nothing.
FORMS = {
    "one line": f"{O}softmax[k{{if}}](Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)) * V[b,h,k,e]",
    "sum filtered": f"{S}{O}sum[k{{if}}](softmax[k{{if}}](S[b,h,q,k]) * V[b,h,k,e])",
    "naive": f"{S}{O}sum[k{{if}}](exp(S[b,h,q,k]) * V[b,h,k,e]) / sum[k{{if}}](exp(S[b,h,q,k]))",
    "naive, total named": f"{S}Z[b,h,q] = sum[k{{if}}](exp(S[b,h,q,k]))\n"
    f"{O}sum[k{{if}}](exp(S[b,h,q,k]) * V[b,h,k,e]) / Z[b,h,q]",
    "safe": f"{S}{M}{E}{O}sum[k{{if}}](E[b,h,q,k] / sum[k{{if}}](E[b,h,q,k]) * V[b,h,k,e])",
    "lazy": f"{S}{M}{E}{O}sum[k{{if}}](E[b,h,q,k] * V[b,h,k,e]) / sum[k{{if}}](E[b,h,q,k])",
    "lse": f"{S}L[b,h,q] = log(sum[k{{if}}](exp(S[b,h,q,k])))\n"
    f"{O}sum[k{{if}}](exp(S[b,h,q,k] - L[b,h,q]) * V[b,h,k,e])",
    "logsumexp": f"{S}L[b,h,q] = logsumexp[k{{if}}](S[b,h,q,k])\n"
    f"{O}sum[k{{if}}](exp(S[b,h,q,k] - L[b,h,q]) * V[b,h,k,e])",
    "lse, safe": f"{S}{M}{E}L[b,h,q] = M[b,h,q] + log(sum[k{{if}}](E[b,h,q,k]))\n"
    f"{O}sum[k{{if}}](exp(S[b,h,q,k] - L[b,h,q]) * V[b,h,k,e])",
    "log_softmax": f"{S}{O}sum[k](exp(log_softmax[k{{if}}](S[b,h,q,k])) * V[b,h,k,e])",
    "base 2": f"{S}{O}sum[k{{if}}](exp2(S[b,h,q,k] / log(2)) * V[b,h,k,e])"
    " / sum[k{if}](exp2(S[b,h,q,k] * log2(exp(1))))",
    "quotient turned": f"{S}{O}1 / sum[k{{if}}](exp(S[b,h,q,k]))"
    " * sum[k{if}](V[b,h,k,e] * exp(S[b,h,q,k]))",
    "both scaled": "A[b,h,q,d] = Q[b,h,q,d] / |d| ** 0.25\nB[b,h,k,d] = K[b,h,k,d] / |d| ** 0.25\n"
    f"{O}softmax[k{{if}}](A[b,h,q,d] * B[b,h,k,d]) * V[b,h,k,e]",
    "scaled after": "R[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d]\n"
    f"{O}softmax[k{{if}}](R[b,h,q,k] * rsqrt(|d|)) * V[b,h,k,e]",
    "maximum scaled": "R[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d]\n"
    "N[b,h,q] = max[k{if}](R[b,h,q,k]) / sqrt(|d|)\n"
    "E[b,h,q,k] = exp(R[b,h,q,k] / sqrt(|d|) - N[b,h,q])\n"
    f"{O}sum[k{{if}}](E[b,h,q,k] * V[b,h,k,e]) / sum[k{{if}}](E[b,h,q,k])",
    "shifted by row": f"{S}{O}softmax[k{{if}}](S[b,h,q,k] + |d| * q) * V[b,h,k,e]",
    "negated": "R[b,h,q,k] = -Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)\n"
    f"{O}softmax[k{{if}}](-R[b,h,q,k]) * V[b,h,k,e]",
}
T = "T[b,h,q,k] = where({c}, S[b,h,q,k], -inf)\n"
# {c} is the condition, {not} its opposite.
MASKED = {
    "where": f"{S}{O}softmax[k](where({{c}}, S[b,h,q,k], -inf)) * V[b,h,k,e]",
    "where turned": f"{S}{O}softmax[k](where({{not}}, -inf, S[b,h,q,k])) * V[b,h,k,e]",
    "mask": f"{S}{O}softmax[k](S[b,h,q,k] + where({{c}}, 0, -inf)) * V[b,h,k,e]",
    "naive": f"{S}{T}{O}sum[k](exp(T[b,h,q,k]) * V[b,h,k,e]) / sum[k](exp(T[b,h,q,k]))",
    "naive, bracket": f"{S}E[b,h,q,k] = ({{c}}) * exp(S[b,h,q,k])\n"
    f"{O}sum[k](E[b,h,q,k] * V[b,h,k,e]) / sum[k](E[b,h,q,k])",
    "weights zero": f"{S}P[b,h,q,k] = where({{c}}, softmax[k{{if}}](S[b,h,q,k]), 0)\n"
    f"{O}P[b,h,q,k] * V[b,h,k,e]",
    "safe": f"{S}{T}M[b,h,q] = max[k](T[b,h,q,k])\nE[b,h,q,k] = exp(T[b,h,q,k] - M[b,h,q])\n"
    f"{O}sum[k](E[b,h,q,k] / sum[k](E[b,h,q,k]) * V[b,h,k,e])",
    "lse": f"{S}{T}L[b,h,q] = logsumexp[k](T[b,h,q,k])\n"
    f"{O}sum[k](exp(T[b,h,q,k] - L[b,h,q]) * V[b,h,k,e])",
    "log_softmax": f"{S}{O}sum[k](exp(log_softmax[k](S[b,h,q,k]"
    " + where({c}, 0, -inf))) * V[b,h,k,e])",
}
DOMAINS = {
    "full": ("", ""),
    "causal": ("k <= q", "k > q"),
    "window": ("k <= q and q - k < 3", "k > q or q - k >= 3"),
}
CASES = [
    (domain, name, text)
    for domain, (condition, _) in DOMAINS.items()
    for name, text in [*FORMS.items(), *((f"masked: {n}", t) for n, t in MASKED.items())]
    if condition or not name.startswith("masked")
]


def written(domain: str, text: str) -> str:
    """A form for a domain."""
    condition, opposite = DOMAINS[domain]
    text = text.replace("{if}", f" if {condition}" if condition else "")
    return text.replace("{c}", condition).replace("{not}", opposite)


def derived(domain: str, text: str) -> Equations:
    return derive(translate(check(written(domain, text)))).program


@pytest.fixture(scope="module")
def normal_forms() -> dict[str, Equations]:
    return {domain: derived(domain, FORMS["one line"]) for domain in DOMAINS}


@pytest.mark.parametrize(("domain", "name", "text"), CASES, ids=[f"{d}: {n}" for d, n, _ in CASES])
def test_one_normal_form(
    domain: str, name: str, text: str, normal_forms: dict[str, Equations]
) -> None:
    program = derived(domain, text)
    (expected,), (output,) = normal_forms[domain].outputs, program.outputs
    assert output.indices == expected.indices
    assert output.body is expected.body, f"{output.body!r}\nis not\n{expected.body!r}"


def test_the_normal_form() -> None:
    """No maximum is left: the quotient of two sums in SE, of one exponent."""
    (output,) = derived("causal", FORMS["one line"]).outputs
    mantissa = f"SE[k if k <= q]({{}}, {LOGIT}).v".replace("Q[b,h,q,d] * K", "K").replace(
        "K[b,h,k,d])", "K[b,h,k,d] * Q[b,h,q,d])"
    )
    expected = f"{mantissa.format('V[b,h,k,e]')} / {mantissa.format('1')}"
    assert repr(output.body) == expected


def test_names_do_not_matter() -> None:
    """Of tensors, of indices and of bound indices."""
    text = "O[i,j] = softmax[n{if}](A[i,c] * B[n,c]) * C[n,j]"
    other = text.replace("[n", "[m").replace("n]", "m]").replace("c]", "x]")
    one, two = (str(derived("full", t).outputs[0].body) for t in (text, other))
    assert one.replace("n", "m").replace("c]", "x]") == two


# What must not become one: each pair differs in meaning.
DIFFERENT = [
    ("O[q] = sum[k](softmax[k](S[q,k]) * V[k])", "O[q] = sum[k](softmax[k](2 * S[q,k]) * V[k])"),
    (
        "O[q] = sum[k](softmax[k if k <= q](S[q,k]) * V[k])",
        "O[q] = sum[k](softmax[k if k < q](S[q,k]) * V[k])",
    ),
    (
        "O[q] = sum[k if k < q](softmax[k if k <= q](S[q,k]) * V[k])",
        "O[q] = sum[k](softmax[k if k <= q](S[q,k]) * V[k])",
    ),
    (
        "O[q] = sum[k](exp(S[q,k]) * V[k]) / sum[k](exp(S[q,k]))",
        "O[q] = sum[k](exp(S[q,k]) * V[k]) / (1 + sum[k](exp(S[q,k])))",
    ),
    ("O[q] = max[k](c * S[q,k])\nparam c: float", "O[q] = c * max[k](S[q,k])\nparam c: float"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_programs_stay_different(one: str, other: str) -> None:
    (a,), (b,) = derived("full", one).outputs, derived("full", other).outputs
    assert a.body is not b.body
