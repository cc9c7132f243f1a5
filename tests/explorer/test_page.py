"""Pages about derivations and kernels: what stands there, with no browser and no script."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import monocomp as mc
from monocomp import explorer
from monocomp.derivation.derivation import Derivation
from monocomp.derivation.rule_sets import RULES
from monocomp.display.formulas import Formula, infix, words
from monocomp.display.formulas import chain as chained
from monocomp.explorer.colours import coloured
from monocomp.explorer.fitting import Names, fit
from monocomp.explorer.html import phrase
from monocomp.explorer.linking import linked
from monocomp.explorer.marking import pairs
from monocomp.explorer.mathml import letters, math, typeset
from monocomp.language.printing import equation as parse
from monocomp.language.printing import statement
from monocomp.proving.monoid_laws import Carrier
from monocomp.proving.proofs import certify
from monocomp.proving.prover import Law
from monocomp.proving.rule_laws import RULE_LAWS
from monocomp.rewriting.equations import Equation
from monocomp.rewriting.rules import STATED, Rule
from monocomp.terms.algebra import SE_PAIR
from tests.pages import Page, Sanitised, plain
from tests.program_generator import programs

LIBRARY = Path(mc.library.__file__).parent
PROGRAMS = ("causal", "hedgehog_attention", "rms_norm", "softmax_top8", "sparsemax", "int8_cache")
BAD = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def causal() -> mc.Kernel:
    return mc.compile(LIBRARY / "causal.mc")


@pytest.fixture(scope="module")
def longest() -> mc.Kernel:
    return mc.compile(LIBRARY / "hedgehog_attention.mc")


# Formulas


@pytest.mark.parametrize("name", PROGRAMS)
def test_letters_of_formulas_are_their_text(name: str) -> None:
    """Where a viewer removes MathML, text of the language is left."""
    derivation = mc.compile(LIBRARY / f"{name}.mc").derivation
    formulas = {f for s in derivation for f in s.program.readable()}
    assert formulas
    for f in formulas:
        assert plain(letters(math(f))) == plain(str(f))


@pytest.mark.parametrize("rule", [*RULES.values(), *STATED.values()], ids=lambda rule: rule.name)
def test_letters_of_laws_are_their_text(rule: Rule) -> None:
    """An equation is typeset, and what is only a sentence stands as it is written."""
    law = rule.statement
    assert str(law) == rule.law and plain(letters(phrase(law))) == plain(rule.law)
    assert isinstance(rule, Equation) <= ("<math" in phrase(law, width=999))


@pytest.mark.parametrize("name", sorted(RULE_LAWS))
def test_letters_of_what_is_proved_are_its_text(name: str) -> None:
    for claim in RULE_LAWS[name].claims():
        said = phrase(claim.statement, width=999)
        assert plain(letters(said)) == plain(str(claim.statement)) and "<math" in said


def test_brackets_of_laws_stay() -> None:
    """An order of operations may be what a law is about."""
    law = parse("(x + y) + z = x + (y + z)")
    assert str(law) == "(x + y) + z = x + (y + z)"
    assert plain(letters(math(law))) == "(x+y)+z=x+(y+z)"
    assert "(" not in re.sub("<mi hidden>.</mi>", "", math(parse("(a + b) / c")))
    forms = next(forms for forms in Carrier(SE_PAIR).laws if forms[0].name == "associative")
    assert str(forms[0].statement) == "(x . y) . z = x . (y . z)"


def test_laws_are_formulas_between_words() -> None:
    law = statement("`max[k](a * x) = a * max[k](x)` for `a > 0`, and no other")
    assert [p.op for p in law.args] == ["chain", "words", "chain", "words"]
    assert str(law) == "max[k](a * x) = a * max[k](x) for a > 0, and no other"
    assert statement("a fold is a = b").args == (words("a fold is a = b"),)


@pytest.mark.parametrize("text", ["a +", "sum[k](", "fold over k", "x y", "]", "a = = b", "|d"])
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(mc.MonocompError):
        statement(f"a law: `{text}`")


def test_formulas_are_data() -> None:
    """Laws are remembered with their statements."""
    for name in ("SE", "top", "distributivity"):
        for law in certify(name):
            assert Law.from_json(json.loads(json.dumps(law.to_json()))) == law
            assert pickle.loads(pickle.dumps(law.statement)) is law.statement


def test_typeset() -> None:
    markup = math(parse("O[q] = sum[k if k <= q](V[k] / 2) * exp(S[q,k]) / sqrt(|d|)"))
    for tag in ("munder", "mfrac", "msup", "msqrt", "msub"):
        assert f"<{tag}>" in markup
    assert "≤" in markup and "∑" in markup and "mfrac" not in math(parse("exp(a) ** 2"))
    assert parse("a * (b + c)") is parse("a*(b+c)") is not parse("a * b + c")
    assert "(" in letters(math(parse("a * (b + c)"))) and "(" not in letters(math(parse("a * b")))


def shown(text: str) -> str:
    """What is seen of a formula, in a row."""
    return plain(letters(re.sub("<mi hidden>.*?</mi>", "", math(parse(text)))))


def test_what_a_fold_takes_in_is_clear() -> None:
    """Its brackets are left out where nothing follows."""
    assert shown("O = sum[k](A[k])") == "O=sumkAk"
    assert shown("O = B * sum[k](A[k])") == "O=BsumkAk"
    for text in ("sum[k](A[k]) * B", "sum[k](A[k]) ** 2", "sum[k](A[k]) + B", "sum[k](A[k] + 1)"):
        assert "(" in shown(text)
    assert shown("max[k](A[k]) / sum[k](A[k])") == "maxkAksumkAk"


def test_parts_of_a_wide_formula_get_names() -> None:
    parts = " + ".join(f"exp(A[q,{i}] - B[q,{i}] * maximum(X[{i}], Y[{i}]))" for i in "klmn")
    f, names = parse(f"O[q] = {parts}"), Names()
    assert typeset(f).width > 40
    fitted = fit(f, 40, names)
    assert typeset(fitted).width <= 40 and names.parts
    rows = dict(names.rows(40))
    assert all(typeset(row).width <= 40 for row in rows.values())

    def written_out(f: Formula) -> Formula:
        if f.op == "chip":
            return written_out(rows[f.attr])
        return Formula(f.op, tuple(map(written_out, f.args)), f.attr)

    assert written_out(fitted) is f


def test_a_marked_part_keeps_its_place() -> None:
    part = Formula("mark", (parse("B[q] + C[q]"),), "was")
    f = chained("=", parse("O[q]"), infix("*", parse("A[q]"), part))
    assert str(f) == "O[q] = A[q] * (B[q] + C[q])"
    assert plain(letters(math(f))) == "O[q]=A[q]*(B[q]+C[q])"
    assert '<mrow class="mc-was">' in math(f)


def marked(kind: str, f: Formula) -> list[str]:
    """Parts of a formula with a mark."""
    return [str(part.args[0]) for part in f.walk() if part.op == "mark" and part.attr == kind]


def test_steps_mark_what_they_change(causal: mc.Kernel) -> None:
    lift = next(s for s in causal.derivation if s.rule == "lift")
    (pair,) = pairs(lift)
    assert marked("was", pair.before) == [lift.before]
    assert marked("now", pair.after) == [lift.after]
    assert str(pair.before) == lift.start.lines(lift.start.reader_names())[0]


# Code


@pytest.mark.parametrize("name", ["causal", "talking_heads", "sparsemax"])
def test_colours_change_no_text(name: str) -> None:
    stages = mc.compile(LIBRARY / f"{name}.mc").stages
    for stage in ("tile", "blocks", "source"):
        lines = stages[stage].split("\n")
        rows = coloured(lines)
        assert [unescape(re.sub("<[^>]*>", "", row)) for row in rows] == lines
        assert sum("<" in row for row in rows) > len(rows) / 3
        Page("\n".join(rows))  # tags are balanced


# Derivations


def test_everything_is_there_without_a_script(causal: mc.Kernel, longest: mc.Kernel) -> None:
    for kernel in (causal, longest):
        page = Page(explorer.page(kernel))
        assert page.seen.count("script") == 1
        derivation = kernel.derivation
        steps = [v for tag, n, v in page.attributes if (tag, n) == ("details", "class")]
        assert sum("mc-step" in (v or "") for v in steps) == len(derivation)
        for step in derivation:
            assert step.rule in page.texts and plain(step.reason) in page.text
        for refusal in derivation.refusals:
            assert plain(str(refusal)) in page.text
        for line in (*kernel.stages["tile"].split("\n"), *kernel.stages["blocks"].split("\n")):
            assert plain(line) in page.text
        for law in kernel.certificate.laws:
            assert law.short in page.texts
    text = Page(explorer.page(causal)).text
    for step in causal.derivation:
        assert plain(step.before.split("; ")[0]) in text and plain(step.law) in text


def test_pages_ask_for_nothing(longest: mc.Kernel) -> None:
    html = explorer.page(longest)
    assert "http:" not in html and "https:" not in html and "@import" not in html
    page = Page(html)
    sources = [value for _, name, value in page.attributes if name in ("src", "href")]
    assert not sources and page.seen.count("svg") == 1  # it has no filter, so no tiles
    assert not {name for _, name, _ in page.attributes if name == "id" or name.startswith("on")}
    widths = [v for _, name, v in page.attributes if name == "style" and "width" in (v or "")]
    assert widths and all(re.fullmatch(r"width: [\d.]+%", v or "") for v in widths)


def test_pages_are_small(longest: mc.Kernel) -> None:
    assert len(longest.derivation) >= 16  # few of the library are longer, and none has longer terms
    assert len(explorer.page(longest).encode()) < 2_000_000
    assert len(longest.derivation._repr_html_().encode()) < 700_000


def test_pages_tell_no_times(causal: mc.Kernel) -> None:
    """They're stored in notebooks, and compared."""
    for x in (causal, causal.derivation):
        assert not re.search(r"\d s\b", " ".join(Page(x._repr_html_()).texts))


def test_everything_is_escaped(causal: mc.Kernel) -> None:
    text = f"# </code></pre>{BAD}\nO[i] = sum[k](X[i,k] * W[k])  # {BAD}"
    kernel = mc.compile(text, name="kernel<b>")
    for html in (explorer.page(kernel), *(x._repr_html_() for x in (kernel, kernel.derivation))):
        page = Page(html)
        assert page.seen.count("script") == 1 and "b" not in set(page.seen) - {"b"}
        assert "alert('" not in html and "<b>" not in re.sub(r"<b>\w+</b>", "", html)
    said = words(BAD)
    first = causal.derivation[0]
    step = replace(first, rule=BAD, statement=said, place=(BAD,), left=said, right=said)
    html = Derivation(causal.derivation.start, (step,))._repr_html_()
    assert Page(html).seen.count("script") == 1 and "alert('" not in html
    assert plain(BAD) in Page(html).text


@pytest.mark.parametrize("name", ["causal", "hedgehog_attention", "differential"])
def test_terms_and_lines_are_linked(name: str) -> None:
    """Every term that a line computes is shown, and so is every one that is marked."""
    kernel = mc.compile(LIBRARY / f"{name}.mc")
    found = linked(kernel.stages)
    parts = [part for f in (*found.equations, *found.others) for part in f.walk()]
    marks = {int(part.attr.removeprefix("o:")) for part in parts if part.op == "mark"}
    assert marks == set(range(len(found.terms)))
    for lines in (found.tile, found.blocks, found.source):
        computed = {n for _, n in lines if n is not None}
        assert computed and computed <= marks
    tile = {n for _, n in found.tile if n is not None}
    assert tile == {n for _, n in found.source if n is not None} | tile
    source = kernel.source().split("\n")
    assert [text for text, _ in found.source] == source[found.first - 1 :][: len(found.source)]


def test_what_notebooks_show(causal: mc.Kernel) -> None:
    plan = causal.plan()
    shown = (causal, causal.derivation, causal.certificate, plan, plan.kernels[0])
    for x in (*shown, causal.derivation[1]):
        bundle = x._repr_mimebundle_()
        assert set(bundle) == {"text/plain", "text/markdown", "text/html"}
        page = Page(bundle["text/html"])
        assert page.seen[0] == "div" and "style" in page.seen
        assert bundle["text/plain"] == str(x) and bundle["text/markdown"]
        colours = re.sub(r"(?s)<style>.*?</style>|<script>.*?</script>", "", bundle["text/html"])
        assert "color:" not in colours
    assert "4. `hoist_factor`" in causal.derivation._repr_mimebundle_()["text/markdown"]


def test_what_may_surprise_is_said() -> None:
    kernel = mc.compile("O[i] = A[i] * B[j]")
    for html in (explorer.page(kernel), kernel._repr_html_(), kernel.derivation._repr_html_()):
        text = Page(html).text
        assert plain(str(kernel.notes())) in text and plain(kernel.summary()) in text
    assert "What may surprise" not in explorer.page(mc.compile("O[i] = A[i] * sum[j](B[j])"))


def test_branches(causal: mc.Kernel) -> None:
    derivation = causal.derivation
    start = derivation.first(4)
    assert start.undo(2).steps == derivation.first(2).steps and len(start.undo(9)) == 0
    assert "lift" in start.applicable()
    assert "expand_softmax" not in start.applicable()
    for rule in start.applicable():
        assert len(start.apply(rule)) == 5
    branch = start.apply("lift")
    assert start.finish().first(5).result.equations == branch.result.equations


def test_an_unfinished_derivation_has_a_page(causal: mc.Kernel) -> None:
    for count in range(len(causal.derivation) - causal.derivation.planned):
        begun = causal.derivation.first(count)
        texts = Page(begun._repr_html_()).texts
        assert "Rules that apply now" in texts and ", ".join(begun.applicable()) in texts


# The command line


def test_a_notebook_that_is_not_trusted_shows_plain_text(causal: mc.Kernel) -> None:
    """Its viewer removes scripts, styles, MathML and drawings, and keeps their letters."""
    left = Sanitised(causal.derivation._repr_html_()).html
    page = Page(left)
    assert {"math", "svg", "script", "style", "mrow"}.isdisjoint(page.seen)
    rows = [
        plain(row) for row in re.split(r"</?(?:div|details|summary|td|p)[^>]*>", unescape(left))
    ]
    rows = [re.sub(r"<[^>]*>", "", row) for row in rows]
    for step in causal.derivation:
        assert any(f"{step.rule}in{','.join(step.place)}" in row for row in rows)
        for pair in pairs(step):
            assert plain(str(pair.before)) in rows and plain(str(pair.after)) in rows
        assert any(row.startswith("law" + plain(step.law)) for row in rows)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_pages_of_any_program(text: str) -> None:
    """Every formula is typeset with its own letters, and the page is whole."""
    kernel = mc.compile(text)
    page = Page(explorer.page(kernel))
    assert page.seen.count("script") == 1
    for f in kernel.derivation.result.readable():
        assert plain(letters(math(f))) == plain(str(f))
