"""Random programs, drawn from the grammar of the language, and inputs at special points.

    program(seed)            a text that divides by what may be 0, takes logarithms and roots of
                             anything, leaves rows empty, masks with -inf, and is safe or naive
    careful(seed)            one that makes sense at random positions
    programs()               a strategy of Hypothesis for such texts
    inputs(seed, profile)    inputs by name, at sizes of 1 to 5, of the numbers of a profile

Names are fixed, see `HEAD`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
from hypothesis import strategies as st

Scope: TypeAlias = tuple[str, ...]
Rule: TypeAlias = Callable[[int, Scope], str]

EXTENTS = {"i": "i", "k": "k", "l": "k", "j": "j"}  # of indices: l runs where k does
READS = {"A": "ik", "S": "ik", "B": "kj", "X": "i", "Y": "k", "W": "j", "C": ""}
HEAD = (
    "input A[i,k], S[i,k], B[k,j], X[i], Y[k], W[j], C, M[i,k], N[i]: int, T[k]: int,"
    " F[k]: bool, G[i,k]: bool\nparam c: float = 1.5, s: int = 2\n"
)
PARAMS = {"c": 1.5, "s": 2}
MONOIDS = {
    "Affine": "monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')\n",
    "Both": "monoid Both(p, q) = unit (0, -inf), combine (p + p', maximum(q, q'))\n",
}
INDEX = "index r < 2\n"  # of the largest elements
FUNCTIONS = (
    *("tanh({})", "sigmoid({})", "relu({})", "abs({})", "exp({})", "log({})", "sqrt({})", "-({})"),
    *("softplus({})", "silu({})", "exp(-({}))", "log(1 + exp({}))", "sin({})", "sign({})"),
)
POWERS = ("2", "3", "(-1)", "0.5", "(-0.5)", "(-2)", "1.5", "4", "9", "10")
# With {if}: an index and perhaps a filter; {a}: a logit or an element; {b}: a value.
WEIGHTED = (
    "sum[{if}](exp({a}) * {b})",
    "sum[{if}](exp({a}) * {b}) / sum[{if}](exp({a}))",
    "log(sum[{if}](exp({a}) * {b}))",
    "log(sum[{if}](exp({a})))",
    "(sum[{if}](exp({a}) * {b}) + 1) / (sum[{if}](exp({a})) + 1)",
    "sum[{if}](exp({a} - max[{if}]({a})) * {b}) / sum[{if}](exp({a} - max[{if}]({a})))",
    "sum[{if}](exp({a} - max[{if}]({a})) * {b})",
    "max[{if}]({a}) + log(sum[{if}](exp({a} - max[{if}]({a}))))",
)
STATISTICS = (
    "-sum[{x}](softmax[{if}]({a}) * log(softmax[{if}]({a})))",
    "sum[{x}](softmax[{if}]({a}) * log_softmax[{if}]({a}))",
    "sum[{x}](softmax[{if}]({a}) * (log(softmax[{if}]({a})) - log(softmax[{if}]({b}))))",
    "max[{x}](softmax[{if}]({a}))",
    "sum[{x}](softmax[{if}]({a}) ** 2)",
    "logsumexp[{if}]({a}) + max[{if}]({a})",
)
CASCADES = (
    "sum[{if}]({b}) / sum[{if}]({a})",
    "sum[{if}](({a} - {r}[{if}]({a})) * {b})",
    "mean[{if}](({a} - mean[{if}]({a})) ** {n})",
    "(mean[{if}]({a} ** 2) - mean[{if}]({a}) ** 2)",
    "sum[{if}]({b} * exp({a} - {r}[{if}]({a})))",
    "max[{if}]({a} - {r}[{if}]({a}))",
    "sum[{if}]({b} / {r}[{if}]({a}))",
    "sum[{if}]({a} * {r}[{if}]({a}))",
)
# With {r}: an index, its place among the largest, and perhaps a filter; {read}: an element there.
SELECTIONS = (
    "max[r](top[{r}]({a}))",
    "sum[r](exp(top[{r}]({a})) * {b})",
    "sum[r](softmax[r](top[{r}]({a})) * r)",
    "sum[r]((1 + r) * argtop[{r}]({a}))",
    "sum[r if 0 <= argtop[{r}]({a})]({read})",
)
COUNTS = (
    *("argmax[{if}]({a})", "argmin[{if}]({a})", "sum[{if}](1)"),
    *("where(any[{if}]({a} < 0.5), 1, 2)", "where(all[{if}]({a} < 0.5), 1, 2)"),
)


class _Generator:
    """Draws expressions; `scope` is always the tuple of indices that may be used."""

    is_careful: ClassVar[bool] = False
    weighted_forms: ClassVar[tuple[str, ...]] = WEIGHTED
    cascades: ClassVar[tuple[str, ...]] = CASCADES
    counts: ClassVar[tuple[str, ...]] = COUNTS

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.definitions: dict[str, Scope] = {}

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def number(self, depth: int, scope: Scope) -> str:
        if depth <= 0:
            return self.leaf(scope)
        return self.rng.choice(self.rules())(depth - 1, scope)

    def rules(self) -> list[Rule]:
        rules = [self.leaf_of, self.sum, self.sum, self.product, self.product, self.quotient]
        rules += [self.quotient, self.function, self.choice, self.choice, self.extreme, self.power]
        rules += [self.aggregate, self.aggregate, self.aggregate, self.average, self.average]
        rules += [self.weighted, self.weighted, self.statistic, self.cascade, self.cascade]
        rules += [self.prefix, self.keep, self.keep, self.monoid, self.count, self.bracket]
        return [*rules, self.selection]

    def leaf(self, scope: Scope) -> str:
        found = []
        for name, dims in (*READS.items(), *self.definitions.items()):
            positions = [[i for i in scope if EXTENTS[i] == EXTENTS[d]] for d in dims]
            if all(positions):
                subscripts = ",".join(map(self.rng.choice, positions))
                found.append(f"{name}[{subscripts}]" if dims else name)
        if "i" in scope and self.rng.random() < 0.15:
            found.append("N[i]")
        if "k" in scope and self.rng.random() < 0.1:
            found += ["Y[T[k]]", "k", "where(k > 0, Y[k - 1], 0)"]
        if self.rng.random() < 0.12 or not found:
            return self.pick("1", "2", "0.5", "-1", "c", "|k|", "3")
        return self.rng.choice(found)

    def leaf_of(self, depth: int, scope: Scope) -> str:
        return self.leaf(scope)

    def sum(self, depth: int, scope: Scope) -> str:
        return f"({self.number(depth, scope)} {self.pick('+', '-')} {self.number(depth, scope)})"

    def product(self, depth: int, scope: Scope) -> str:
        return f"({self.number(depth, scope)} * {self.number(depth, scope)})"

    def bracket(self, depth: int, scope: Scope) -> str:
        return f"({self.condition(depth, scope)} * {self.number(depth, scope)})"

    def quotient(self, depth: int, scope: Scope) -> str:
        over, under = self.number(depth, scope), self.number(depth, scope)
        if self.rng.random() < 0.5:
            return f"({over} / {under})"
        under = self.pick("abs({})", "exp({})", "({}) ** 2", "relu({})").format(under)
        return f"({over} / ({self.pick('1', '0.5', 'abs(C)')} + {under}))"

    def function(self, depth: int, scope: Scope) -> str:
        return self.pick(*FUNCTIONS).format(self.number(depth, scope))

    def choice(self, depth: int, scope: Scope) -> str:
        other = self.number(depth, scope) if self.rng.random() < 0.6 else "0"
        return f"where({self.condition(depth, scope)}, {self.number(depth, scope)}, {other})"

    def extreme(self, depth: int, scope: Scope) -> str:
        name = self.pick("maximum", "minimum")
        return f"{name}({self.number(depth, scope)}, {self.number(depth, scope)})"

    def power(self, depth: int, scope: Scope) -> str:
        # A number that leaves int64 is rounded: a power of ints is one of floats.
        return f"(1.0 * ({self.number(depth, scope)})) ** {self.pick(*POWERS)}"

    # Reductions

    def bind(self, scope: Scope) -> tuple[str, Scope]:
        index = self.pick("k", "k", "k", "l", "j")
        return index, tuple(dict.fromkeys((*scope, index)))

    def element(self, index: str, scope: Scope) -> str:
        """A plain read that varies with an index."""
        if index == "j":
            return "W[j]"
        return f"{self.pick('S', 'A')}[i,{index}]" if "i" in scope else f"Y[{index}]"

    def filtered(self, depth: int, index: str, scope: Scope) -> str:
        if self.rng.random() < 0.55:
            return index
        return f"{index} if {self.condition(min(depth, 1), scope, index)}"

    def logit(self, depth: int, index: str, scope: Scope) -> str:
        x = self.element(index, scope)
        mask = f"M[i,{index}]" if "i" in scope and index != "j" else "C"
        return self.pick(
            *(x, x, f"{x} + {mask}", f"{x} + {mask}"),
            f"where({self.condition(0, scope, index)}, {x}, -inf)",
            f"{x} + where({self.condition(0, scope, index)}, 0, -inf)",
            f"{x} {self.pick('*', '+', '-')} {self.number(depth - 1, scope)}",
            f"1.0 * {self.number(depth, scope)}",  # ints have no infinity
        )

    def aggregate(self, depth: int, scope: Scope) -> str:
        index, inside = self.bind(scope)
        name = self.pick("sum", "sum", "mean", "var", "max", "max", "min", "prod", "logsumexp")
        body = self.number(depth, inside)
        if self.rng.random() < 0.6:
            body = f"{self.element(index, inside)} {self.pick('+', '-', '*', '*')} {body}"
        return f"{name}[{self.filtered(depth, index, inside)}]({body})"

    def fill(self, template: str, depth: int, scope: Scope, a: str, index: str) -> str:
        found = template.replace("{if}", self.filtered(depth, index, scope)).replace("{x}", index)
        found = found.replace("{r}", self.pick("sum", "max", "min", "mean"))
        found = found.replace("{n}", self.pick("2", "3", "4")).replace("{a}", f"({a})")
        return found.replace("{b}", self.number(depth, scope))

    def average(self, depth: int, scope: Scope) -> str:
        index, inside = self.bind(scope)
        logit = self.logit(depth, index, inside)
        template = "sum[{x}](softmax[{if}]({a}) * {b})"
        return self.fill(template, depth, inside, logit, index)

    def weighted(self, depth: int, scope: Scope) -> str:
        index, inside = self.bind(scope)
        logit = self.logit(depth, index, inside)
        return self.fill(self.pick(*self.weighted_forms), depth, inside, logit, index)

    def statistic(self, depth: int, scope: Scope) -> str:
        index, inside = self.bind(scope)
        logit = self.logit(depth, index, inside)
        template = self.pick(*STATISTICS).replace("{b}", f"({self.logit(depth, index, inside)})")
        return self.fill(template, depth, inside, logit, index)

    def cascade(self, depth: int, scope: Scope) -> str:
        index, inside = self.bind(scope)
        element = self.element(index, inside)
        return self.fill(self.pick(*self.cascades), depth, inside, element, index)

    def prefix(self, depth: int, scope: Scope) -> str:
        kept = [i for i in scope if i != "i"]
        if not kept:
            return self.leaf(scope)
        index = self.rng.choice(kept)
        name = self.pick("sum", "max", "mean", "logsumexp", "min")
        return f"{name}[..{index}]({self.element(index, scope)} * {self.leaf(scope)})"

    def keep(self, depth: int, scope: Scope) -> str:
        kept = [i for i in scope if i != "i"]
        if not kept:
            return self.leaf(scope)
        index = self.rng.choice(kept)
        name = self.pick("softmax", "softmax", "log_softmax")
        logit = self.logit(depth, index, scope)
        return f"{name}[{self.filtered(depth, index, scope)}]({logit})"

    def monoid(self, depth: int, scope: Scope) -> str:
        index, inside = self.bind(scope)
        field = self.pick("Affine u", "Both p", "Both q").split()
        parts = f"{self.element(index, inside)}, {self.leaf(inside)}"
        is_prefix = index in scope and self.rng.random() < 0.5
        places = f"..{index}" if is_prefix else self.filtered(depth, index, inside)
        return f"{field[0]}[{places}]({parts}).{field[1]}"

    def selection(self, depth: int, scope: Scope) -> str:
        """A value made of the two largest elements."""
        index = self.pick("k", "l")
        inside = tuple(dict.fromkeys((*scope, index)))
        x = self.element(index, inside)
        condition = self.filtered(depth, index, inside)[len(index) :]
        places, position = f"{index} -> r{condition}", f"argtop[{index} -> r{condition}]({x})"
        read = self.pick(f"Y[{position}]", f"A[i,{position}]" if "i" in scope else "1")
        found = self.pick(*SELECTIONS).replace("{r}", places).replace("{read}", read)
        return found.replace("{a}", x).replace("{b}", self.leaf(scope))

    def count(self, depth: int, scope: Scope) -> str:
        index, inside = self.bind(scope)
        is_element = self.rng.random() < 0.5 or self.is_careful
        x = self.element(index, inside) if is_element else self.number(depth, inside)
        return self.fill(self.pick(*self.counts), 0, inside, x, index)

    # Conditions

    def condition(self, depth: int, scope: Scope, index: str | None = None) -> str:
        if depth > 0 and self.rng.random() < 0.25:
            one, other = self.condition(depth - 1, scope, index), self.condition(depth - 1, scope)
            return self.pick(f"({one} and {other})", f"({one} or {other})", f"(not {one})")
        sign = self.pick("<", "<=", ">", ">=", "==", "!=")
        if self.rng.random() < 0.15 and not self.is_careful:
            return f"({self.number(depth - 1, scope)} {sign} {self.leaf(scope)})"
        here = index or (self.rng.choice(scope) if scope else "1")
        counts = ["N[i]"] if "i" in scope else []
        positions = [*(i for i in scope if i != here), "0", "1", "2", "s", *counts]
        found = [f"({here} {sign} {self.rng.choice(positions)})"] * 2
        if here in ("k", "l"):
            found.append(f"F[{here}]")
            found.append(f"(T[{here}] {sign} {self.rng.choice(positions)})")
            if "i" in scope:
                found += [f"G[i,{here}]", f"({here} <= i)", f"({here} < N[i])", f"(i - {here} < s)"]
        if here in EXTENTS:
            x = "X[i]" if here == "i" else self.element(here, scope)
            found.append(f"({x} {sign} {self.pick('0', '1', 'C')})")
        return self.rng.choice(found)


POSITIVE = (
    *("(1 + abs({}))", "(0.5 + sigmoid({}))", "exp(tanh({}))", "(1 + ({}) ** 2)", "(1 + |k|)"),
    *("sqrt(1 + relu({}))", "(1 + log(1 + exp(sin({}))))"),
)
INTEGERS = (
    *("{a}", "({a} + {b})", "({a} - {b})", "{a} * {b}", "({a}) // {n}", "({a}) % {n}"),
    *("where({c}, {a}, {b})", "abs({a} - {b})", "({a}) ** 2"),
)


class _Careful(_Generator):
    """Draws roots and logarithms of what is not negative, divisors away from 0, and comparisons of
    elements alone, as rounding could turn others round. Each index that is bound is read plainly,
    so that its extent is known however the program is rewritten."""

    is_careful = True
    weighted_forms = (
        "sum[{if}](exp({a}) * {b})",
        "sum[{if}](exp({a}) * {b}) / sum[{if}](exp({a}))",
        "sum[{if}](exp({a} - max[{if}]({a})) * {b}) / sum[{if}](exp({a} - max[{if}]({a})))",
        "exp(logsumexp[{if}]({a}))",
        "log(1 + sum[{if}](exp({a})))",
        "sum[{if}](exp({a}) * {b}) / (1 + sum[{if}](exp({a})))",
    )
    cascades = (
        "sum[{if}](({a} - {r}[{if}]({a})) * {b})",
        "sum[{x}](({a} - mean[{x}]({a})) ** {n})",
        "(mean[{if}]({a} ** 2) - mean[{if}]({a}) ** 2)",
        "sum[{x}](cos({a} - sum[{x}]({a})) * {b})",
        "sum[{x}]({b} * exp(tanh({a}) - max[{x}](tanh({a}))))",
        "sum[{x}](relu({a} - max[{x}]({a}) / 2))",
        "sum[{if}](sigmoid({a}) * {a}) / (1 + sum[{if}](sigmoid({a})))",
        "{r}[{x}](exp({a}))",
        "sum[{x}](where(exp({a}) < exp(0.5), {a}, exp(tanh({a}))))",
        "(sum[{x}](softmax[{x}]({a}) * {a}) - max[{x}]({a}))",
        "sum[{x} if {x} == s]({a} * {b})",
    )
    counts = tuple(form.replace("sum[{if}]", "sum[{x} if {a} < 0.5]") for form in COUNTS)

    def rules(self) -> list[Rule]:
        rules = [self.leaf_of, self.sum, self.product, self.product, self.quotient, self.function]
        rules += [self.choice, self.extreme, self.power, self.aggregate, self.aggregate, self.pair]
        rules += [self.weighted, self.weighted, self.average, self.cascade, self.cascade]
        return [*rules, self.prefix, self.keep, self.monoid, self.count, self.bracket]

    def leaf(self, scope: Scope) -> str:
        if self.rng.random() < 0.8:
            return super().leaf(scope)
        moved = ("Y[k // 2]", "Y[|k| - 1 - k]", "Y[2 * k % |k|]") if "k" in scope else ()
        return self.pick(f"({self.integer(1, scope)})", *moved)

    def integer(self, depth: int, scope: Scope) -> str:
        if depth <= 0:
            counts = ["N[i]"] if "i" in scope else []
            return self.pick(*scope, *counts, "1", "2", "3", "s", "|k|")
        a, b = self.integer(depth - 1, scope), self.integer(depth - 1, scope)
        n, c = self.pick("2", "3", "|k|", "(s + 1)"), self.condition(0, scope)
        return self.pick(*INTEGERS).format(a=a, b=b, n=n, c=c)

    def positive(self, depth: int, scope: Scope) -> str:
        """Something > 0, away from 0."""
        return self.pick(*POSITIVE).format(self.number(depth - 1, scope))

    def quotient(self, depth: int, scope: Scope) -> str:
        a, b = self.positive(depth, scope), self.positive(depth, scope)
        x = self.number(depth, scope)
        return self.pick(f"({x} / {a})", f"(1 - {a} / ({a} + {b}))", f"({a} + {b}) / ({b} + {a})")

    def function(self, depth: int, scope: Scope) -> str:
        name = self.pick("tanh", "sigmoid", "relu", "abs", "sin", "softplus", "-", "stop")
        return f"{name}({self.number(depth, scope)})"

    def power(self, depth: int, scope: Scope) -> str:
        if self.rng.random() < 0.5:
            return f"({self.number(depth, scope)}) ** {self.pick('2', '3')}"
        return f"{self.positive(depth, scope)} ** {self.pick('0.5', '(-1)', '1.5', '(1 / 3)', 'c')}"

    def logit(self, depth: int, index: str, scope: Scope) -> str:
        """Return an exponent: moderate, or -inf."""
        x, condition = self.element(index, scope), self.condition(1, scope, index)
        moved = f"{x} {self.pick('+', '-')} tanh({self.number(depth - 1, scope)})"
        text = self.pick(moved, moved, x, f"0.5 * {x}", f"{x} * tanh(c)", f"{x} * sqrt(|k|)")
        masked = f"where({condition}, {text}, -inf)", f"{text} + where({condition}, 0, -inf)"
        return self.pick(text, text, text, text, *masked)

    def aggregate(self, depth: int, scope: Scope) -> str:
        index, inside = self.bind(scope)
        x, name = self.element(index, inside), self.pick("sum", "sum", "mean", "var", "max", "min")
        if name in ("max", "min"):
            factor = self.pick("2", "-1", "c", "exp(X[0])", "|k|", f"{self.number(depth, inside)}")
            return f"{name}[{index}]({factor} {self.pick('*', '+')} {x})"
        body = f"{x} {self.pick('*', '+', '-')} {self.number(depth, inside)}"
        return f"{name}[{self.filtered(depth, index, inside)}]({body})"

    def pair(self, depth: int, scope: Scope) -> str:
        """Two indices at once, in either order."""
        inside = tuple(dict.fromkeys((*scope, "k", "j")))
        places, condition = self.pick("j, k", "k, j"), self.condition(1, inside, "k")
        fold = self.pick("sum", f"sum if {condition}", "max", "min").partition(" ")
        body = f"B[k,j] {self.pick('+', '*')} {self.number(depth, inside)}"
        return f"{fold[0]}[{places}{fold[1]}{fold[2]}]({body})"

    def keep(self, depth: int, scope: Scope) -> str:
        found = super().keep(depth, scope)
        return f"exp({found})" if found.startswith("log_") else found


def _text(generator: _Generator) -> str:
    """Return a text of one or two definitions."""
    rng = generator.rng
    lines = []
    for name in ("O",) if rng.random() < 0.7 else ("D", "O"):
        indices = rng.choice([("i",), ("i",), ("i", "k"), ("k",), (), ("i", "j"), ("j",)])
        body = generator.number(3 if generator.is_careful else rng.choice([1, 2, 3]), indices)
        for index in indices:
            if generator.is_careful or not re.search(rf"\b{index}\b", body):
                read = {"i": "X[i]", "k": "Y[k]", "j": "W[j]"}[index]
                body = f"({body} {rng.choice('+-*')} {read})"
        lines.append(f"{name}[{','.join(indices)}] = {body}" if indices else f"{name} = {body}")
        generator.definitions[name] = indices
    if len(lines) > 1 and rng.random() < 0.5:
        lines.append("return O")
    body = "\n".join(lines)
    head = HEAD + (INDEX if " -> r" in body else "")
    used = "".join(declared for name, declared in MONOIDS.items() if f"{name}[" in body)
    return f"{head}{used}{body}"


def program(seed: int) -> str:
    """A text without care, the same for the same seed."""
    return _text(_Generator(random.Random(seed)))


def careful(seed: int) -> str:
    """A text that makes sense at random positions, the same for the same seed."""
    return _text(_Careful(random.Random(seed)))


def programs() -> st.SearchStrategy[str]:
    """Texts that make sense at random positions."""
    return st.randoms(use_true_random=False).map(lambda rng: _text(_Careful(rng)))


_PLAIN = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -2.0, 1.25, -0.75]
PROFILES: dict[str, list[float]] = {
    "finite": _PLAIN,
    "large": [0.0, 1.0, -1.0, 2.0, 30.0, -30.0, 60.0, -60.0, 40.0, 0.5],
    "masked": _PLAIN,  # with masks M of -inf
    "logits of -inf": _PLAIN,
    "nan": [*_PLAIN[:6], -np.inf, np.inf, np.nan],
}


def inputs(
    seed: int,
    profile: str,
    sizes: Mapping[str, int] | None = None,
    logits: Collection[str] = (),
) -> dict[str, np.ndarray]:
    """Return all inputs of `HEAD`, of a few elements unless sizes are given, ints of 32 or 64 bits.

    Logits are the inputs that may be -inf.
    """
    rng = np.random.default_rng(seed)
    size = {"i": rng.integers(1, 4), "k": rng.integers(1, 6), "j": rng.integers(1, 4)}
    size = {**size, **(sizes or {})}
    found: dict[str, Any] = {}
    for name, dims in {**READS, "M": "ik"}.items():
        shape = tuple(int(size[d]) for d in dims)
        values = rng.choice(PROFILES[profile], size=shape)
        is_moved = (rng.random(shape) < 0.4) & (np.abs(values) < 10) & (values != 0)
        values = np.where(is_moved, values + 0.1 * rng.standard_normal(shape), values)
        if name == "M" and profile == "masked":
            values = np.where(rng.random(shape) < 0.45, -np.inf, 0.0)
        if profile == "logits of -inf" and name in "SAM" and name in logits:
            values = np.where(rng.random(shape) < 0.3, -np.inf, values)
        if dims == "ik" and -np.inf in values and rng.random() < 0.5:
            values[rng.integers(0, size["i"])] = -np.inf
        found[name] = np.asarray(values, np.float64)
    int_type: Any = rng.choice([np.int32, np.int64])
    found["N"] = rng.integers(0, size["k"] + 1, size=size["i"], dtype=int_type)
    found["T"] = rng.integers(0, size["k"], size=size["k"], dtype=int_type)
    found["F"] = rng.random(size["k"]) < 0.6
    found["G"] = rng.random((size["i"], size["k"])) < 0.6
    return found
