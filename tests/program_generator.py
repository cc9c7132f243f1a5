"""Random well-typed programs, drawn from the grammar of the language.

    programs()      a strategy of Hypothesis for texts: up to three definitions over inputs of all
                    kinds, with reductions, prefixes, softmax, masks, gathers, monoids, parameters
    program(seed)   such a text, drawn without Hypothesis, the same for the same seed

What is drawn makes sense at random places: roots and logarithms of what is not negative,
divisors away from 0, subscripts inside their tensors, and no float comparison, sign or
floor of anything but elements, as rounding could turn them round. Every index that is bound
is read plainly, so that its extent is known however the program is rewritten. Names are
fixed: `A[i,k] B[k,j] X[i] Y[k] W[j] T[i,k]: int N[i]: int F[k]: bool`, `c: float`, `s: int`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

# Index names by the extent that they have; the second name of a pair meets the first in Y.
CLASSES = {"i": ("i",), "k": ("k", "l"), "j": ("j",)}
TENSORS = {"A": "ik", "B": "kj", "X": "i", "Y": "k", "W": "j"}
PARAMS = {"c": 1.5, "s": 2}
MONOIDS = {
    "Affine": "monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')",
    "Both": "monoid Both(p, q) = unit (0, -inf), combine (p + p', maximum(q, q'))",
}
NUMBERS = ["2", "3", "0.5", "1", "-1.5", "0.25", "1 / 3", "0"]

Choose = Callable[[Sequence[object]], object]  # one of several


def _extent(index: str) -> str:
    return next(key for key, names in CLASSES.items() if index in names)


@dataclass
class _Generator:
    """Draws expressions; `scope` is always the tuple of indices that may be used."""

    choose: Choose
    definitions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    monoids: set[str] = field(default_factory=set)

    def pick(self, *choices: object) -> object:
        return self.choose(choices)

    def call(self, rules: list[str], depth: int, scope: tuple[str, ...]) -> str:
        rule = str(self.choose(rules))
        return str(getattr(self, f"_{rule}")(depth, scope))

    # Floats

    def number(self, depth: int, scope: tuple[str, ...]) -> str:
        """Any float (or int) expression."""
        if depth <= 0:
            return self.call(["read", "read", "literal", "place"], 0, scope)
        rules = ["read", "literal", "plus", "times", "times", "over", "unary", "choice"]
        rules += ["aggregate", "aggregate", "weighted", "weighted", "pair", "extreme", "power"]
        rules += ["prefix", "keep", "monoid", "count", "cascade", "cascade", "scaled"]
        return self.call(rules, depth - 1, scope)

    def _read(self, depth: int, scope: tuple[str, ...]) -> str:
        found = []
        for name, dims in TENSORS.items():
            subscripts = [self.subscript(dim, scope) for dim in dims]
            if all(subscripts):
                found.append(f"{name}[{','.join(subscripts)}]")
        for name, indices in self.definitions.items():
            subscripts = [self.subscript(_extent(i), scope) for i in indices]
            if all(subscripts):
                found.append(f"{name}[{','.join(subscripts)}]" if indices else name)
        return str(self.pick(*found)) if found else self._literal(depth, scope)

    def subscript(self, extent: str, scope: tuple[str, ...]) -> str:
        """A place in a dimension: mostly a plain index, or computed and inside."""
        plain = [i for i in CLASSES[extent] if i in scope]
        if not plain:
            return ""
        index = str(self.pick(*plain))
        if extent == "k" and self.choose(range(10)) == 0:
            gather = ["T[i,k]"] if {"i", "k"} <= set(scope) else []
            return str(
                self.pick(f"{index} // 2", f"|k| - 1 - {index}", f"2 * {index} % |k|", *gather)
            )
        return index

    def _literal(self, depth: int, scope: tuple[str, ...]) -> str:
        return str(self.pick(*NUMBERS, "c", "s", "|k|"))

    def _place(self, depth: int, scope: tuple[str, ...]) -> str:
        return f"({self.integer(1, scope)})"

    def _plus(self, depth: int, scope: tuple[str, ...]) -> str:
        return f"({self.number(depth, scope)} {self.pick('+', '-')} {self.number(depth, scope)})"

    def _times(self, depth: int, scope: tuple[str, ...]) -> str:
        factors = [self.number(depth, scope), self.number(depth, scope)]
        if self.choose(range(5)) == 0:
            factors.append(f"({self.condition(1, scope)})")
        return f"({' * '.join(factors)})"

    def _over(self, depth: int, scope: tuple[str, ...]) -> str:
        return f"({self.number(depth, scope)} / {self.positive(depth, scope)})"

    def _unary(self, depth: int, scope: tuple[str, ...]) -> str:
        name = self.pick("tanh", "sigmoid", "relu", "abs", "sin", "softplus", "-", "stop")
        return f"{name}({self.number(depth, scope)})"

    def _power(self, depth: int, scope: tuple[str, ...]) -> str:
        if self.pick(True, False):
            return f"({self.number(depth, scope)}) ** {self.pick(2, 3)}"
        return (
            f"({self.positive(depth, scope)}) ** {self.pick('0.5', '(-1)', '1.5', '(1 / 3)', 'c')}"
        )

    def _choice(self, depth: int, scope: tuple[str, ...]) -> str:
        condition, b = self.condition(1, scope), self.pick("0", self.number(depth, scope))
        return f"where({condition}, {self.number(depth, scope)}, {b})"

    def _extreme(self, depth: int, scope: tuple[str, ...]) -> str:
        name = self.pick("maximum", "minimum")
        return f"{name}({self.number(depth, scope)}, {self.number(depth, scope)})"

    def positive(self, depth: int, scope: tuple[str, ...]) -> str:
        """Something > 0, away from 0."""
        inner = self.number(depth - 1, scope)
        return str(
            self.pick(
                f"(1 + abs({inner}))",
                f"(0.5 + sigmoid({inner}))",
                f"exp(tanh({inner}))",
                f"(1 + ({inner}) ** 2)",
                f"sqrt(1 + relu({inner}))",
                f"(1 + log(1 + exp(sin({inner}))))",
                "(1 + |k|)",
            )
        )

    # Reductions

    def bind(self, scope: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """An index to bind, shadowing perhaps, and the scope inside."""
        index = str(self.pick("k", "l", "k", "j", "i"))
        return index, tuple(dict.fromkeys((*scope, index)))

    def witness(self, index: str, scope: tuple[str, ...]) -> str:
        """A plain read that varies with an index."""
        rows = "A[i,{}]" if "i" in scope else "Y[{}]"
        return {"k": rows.format(index), "j": "W[j]", "i": "X[i]"}[_extent(index)]

    def all_of(self, indices: tuple[str, ...]) -> list[str]:
        """Something to add or multiply with, in which all of the indices occur."""
        rest = [i for i in indices if i != "i"]
        reads = [self.witness(i, indices) for i in rest or indices]
        if "i" in indices and "j" in rest:
            reads.append("X[i]")
        return [f"{self.pick(*'+-*')} {read}" for read in reads]

    def filtered(self, index: str, scope: tuple[str, ...]) -> str:
        """What stands in the brackets of a reduction."""
        if self.choose(range(3)):
            return index
        return f"{index} if {self.condition(1, scope, index)}"

    def logit(self, depth: int, index: str, scope: tuple[str, ...]) -> str:
        """What may stand under exp: moderate, or -inf."""
        base = f"{self.witness(index, scope)} * {self.pick(1, '0.5', 'tanh(c)', 'sqrt(|k|)')}"
        rest = f"{self.pick(*'+-')} tanh({self.number(depth - 1, scope)})"
        text = str(self.pick(base, f"{base} {rest}", f"{base} {rest}"))
        masked = self.choose(range(6))
        if masked == 0:
            return f"where({self.condition(1, scope, index)}, {text}, -inf)"
        if masked == 1:
            return f"{text} + where({self.condition(1, scope, index)}, 0, -inf)"
        return text

    def _aggregate(self, depth: int, scope: tuple[str, ...]) -> str:
        index, inner = self.bind(scope)
        body = f"{self.witness(index, inner)} {self.pick(*'*+-')} {self.number(depth, inner)}"
        name = str(self.pick("sum", "sum", "sum", "mean", "var", "max", "min"))
        if name in ("max", "min") and self.pick(True, False):
            body = f"{self.pick(2, -1, 'c', 'exp(X[0])', '|k|')} * {self.witness(index, inner)}"
        places = index if name in ("max", "min") else self.filtered(index, inner)
        return f"{name}[{places}]({body})"

    def _pair(self, depth: int, scope: tuple[str, ...]) -> str:
        """Two indices at once, in either order."""
        inner = tuple(dict.fromkeys((*scope, "k", "j")))
        name, places = self.pick("sum", "max", "min"), self.pick("j, k", "k, j")
        if name == "sum" and self.pick(True, False):
            places = f"{places} if {self.condition(1, inner, 'k')}"
        return f"{name}[{places}](B[k,j] {self.pick(*'+*')} {self.number(depth, inner)})"

    def _weighted(self, depth: int, scope: tuple[str, ...]) -> str:
        """Sums of exponentials, and quotients of them."""
        index, inner = self.bind(scope)
        places = self.filtered(index, inner)
        logit, value = self.logit(depth, index, inner), self.number(depth, inner)
        shift = f"max[{places}]({logit})"
        return str(
            self.pick(
                f"sum[{places}](exp({logit}) * {value})",
                f"sum[{places}](softmax[{places}]({logit}) * {value})",
                f"sum[{places}](exp({logit} - {shift}) * {value})"
                f" / sum[{places}](exp({logit} - {shift}))",
                f"sum[{places}](exp({logit}) * {value}) / sum[{places}](exp({logit}))",
                f"tanh(logsumexp[{index}]({self.logit(depth, index, inner)}))"
                if "inf" not in logit
                else f"exp(logsumexp[{places}]({logit}))",
            )
        )

    def _cascade(self, depth: int, scope: tuple[str, ...]) -> str:
        """Aggregates of one index, one inside the other."""
        index, inner = self.bind(scope)
        places = self.filtered(index, inner)
        x, y = self.witness(index, inner), self.number(0, inner)
        result = f"{self.pick('sum', 'max', 'min', 'mean')}[{places}]({x})"
        return str(
            self.pick(
                f"sum[{places}](({x} - {result}) * {y})".replace("inf", "0"),
                f"sum[{index}](({x} - mean[{index}]({x})) ** {self.pick(2, 3, 4)})",
                f"(mean[{places}]({x} ** 2) - mean[{places}]({x}) ** 2)",
                f"sum[{index}](cos({x} - sum[{index}]({x})) * {y})",
                f"sum[{index}]({y} * exp(tanh({x}) - max[{index}](tanh({x}))))",
                f"sum[{index}](relu({x} - max[{index}]({x}) / 2))",
                f"sum[{index}](where({self.condition(0, inner, index)}, "
                f"{x} * sum[{index}]({x}), {y}))",
                f"sum[{index} if {index} == {self.integer(0, scope)}]({x} * {y})",
            )
        )

    def _scaled(self, depth: int, scope: tuple[str, ...]) -> str:
        """Exponentials in quotients, logarithms, maxima and comparisons."""
        index, inner = self.bind(scope)
        places = self.filtered(index, inner)
        logit, x = self.logit(depth, index, inner), self.witness(index, inner)
        a, b = self.positive(depth - 1, scope), self.positive(depth - 1, scope)
        return str(
            self.pick(
                f"(1 - {a} / ({a} + {b}))",
                f"({a} + {b}) / ({b} + {a})",
                f"log(1 + sum[{places}](exp({logit})))",
                f"sum[{places}](exp({logit}) * {x}) / (1 + sum[{places}](exp({logit})))",
                f"sum[{places}](sigmoid({x}) * {x}) / (1 + sum[{places}](sigmoid({x})))",
                f"log(1 + sum[{places}](sigmoid({x})))",
                f"{self.pick('max', 'min')}[{index}](exp({x}))",
                f"sum[{index}](where(exp({x}) < exp(0.5), {x}, exp(tanh({x}))))",
                f"(sum[{index}](softmax[{index}]({x}) * {x}) - max[{index}]({x}))",
            )
        )

    def _keep(self, depth: int, scope: tuple[str, ...]) -> str:
        """A reduction that keeps its index."""
        kept = [i for i in scope if i != "i"]
        if not kept:
            return self._read(depth, scope)
        index = str(self.pick(*kept))
        if self.pick(True, False):
            return f"softmax[{self.filtered(index, scope)}]({self.logit(depth, index, scope)})"
        return f"exp(log_softmax[{index}]({self.logit(depth, index, scope)}))"

    def _prefix(self, depth: int, scope: tuple[str, ...]) -> str:
        kept = [i for i in scope if i != "i"]
        if not kept:
            return self._read(depth, scope)
        index = str(self.pick(*kept))
        name = self.pick("sum", "max", "mean", "logsumexp")
        return f"{name}[..{index}]({self.witness(index, scope)} * {self.number(0, scope)})"

    def _monoid(self, depth: int, scope: tuple[str, ...]) -> str:
        index, inner = self.bind(scope)
        name = str(self.pick(*MONOIDS))
        self.monoids.add(name)
        first, second = self.witness(index, inner), self.number(0, inner)
        if name == "Affine":
            places = self.pick(index, f"{index} if {self.condition(0, inner, index)}")
            return f"Affine[{places}](tanh({first}), {second}).u"
        return f"Both[{index}]({first}, {second}).{self.pick('p', 'q')}"

    # Integers and conditions

    def integer(self, depth: int, scope: tuple[str, ...]) -> str:
        leaves = [*scope, str(self.pick(1, 2, 3)), "s", "|k|"]
        if "i" in scope:
            leaves.append("N[i]")
        if depth <= 0:
            return str(self.pick(*leaves))
        a, b = self.integer(depth - 1, scope), self.integer(depth - 1, scope)
        small = self.pick("2", "3", "|k|", "(s + 1)")
        return str(
            self.pick(
                *(a, f"({a} + {b})", f"({a} - {b})", f"{a} * {b}", f"({a}) // {small}"),
                *(f"({a}) % {small}", f"where({self.condition(0, scope)}, {a}, {b})"),
                *(f"abs({a} - {b})", f"({a}) ** 2"),
            )
        )

    def _count(self, depth: int, scope: tuple[str, ...]) -> str:
        """Integers that are counted or found."""
        index, inner = self.bind(scope)
        witness = self.witness(index, inner)
        return str(
            self.pick(
                f"sum[{index} if {witness} < {self.pick(0, 'c', 1)}](1)",
                f"argmax[{self.filtered(index, inner)}]({witness})",
                f"argmin[{index}]({witness})",
                f"where(any[{index}]({witness} < 0.5), 1, 2)",
                f"where(all[{index}]({witness} < c and {self.condition(0, inner)}), c, 2)",
            )
        )

    def condition(self, depth: int, scope: tuple[str, ...], index: str | None = None) -> str:
        """A condition; one that mentions the index, if one is given."""
        if depth > 0 and self.choose(range(4)) == 0:
            a = self.condition(depth - 1, scope, index)
            b = self.condition(depth - 1, scope)
            return str(self.pick(f"({a} and {b})", f"({a} or {b})", f"not ({a})"))
        sign = self.pick("<", "<=", ">", ">=", "==", "!=")
        a, b = index or self.integer(0, scope), self.integer(0, scope)
        found = [f"{a} {sign} {b}", f"{a} - {b} < s", f"({a} + {b}) % 2 == 0", f"{b} <= {a}"]
        here = index or str(self.pick(*scope, ""))
        if here:
            found.append(f"{self.witness(here, scope)} < {self.pick(0, 'c', '0.5')}")
        if here and _extent(here) == "k":
            found.append(f"F[{here}]")
            if "i" in scope:
                found += [f"{here} < N[i]", f"{here} <= i", f"i - {here} < s"]
        return str(self.pick(*found))


def _program(choose: Choose, depth: int) -> str:
    g = _Generator(choose)
    lines = []
    for name in ("D", "E", "O")[int(str(choose((2, 1, 0)))) :]:
        indices = tuple(i for i in str(choose(("", "i", "k", "i,k", "j,i"))).split(",") if i)
        body = " ".join([g.number(depth, indices), *g.all_of(indices)])
        lines.append(f"{name}[{','.join(indices)}] = {body}" if indices else f"{name} = {body}")
        g.definitions[name] = indices
    if len(lines) > 1 and choose((True, False)):
        lines.append("return O")
    head = ["input A[i,k], B[k,j], X[i], Y[k], W[j], T[i,k]: int, N[i]: int, F[k]: bool"]
    head += ["param c: float = 1.5, s: int = 2"]
    head += [MONOIDS[name] for name in sorted(g.monoids)]
    return "\n".join([*head, *lines])


@st.composite
def programs(draw: Callable[..., object], depth: int = 3) -> str:
    """The text of a program."""
    return _program(lambda choices: draw(st.sampled_from(choices)), depth)


def program(seed: int, depth: int = 3) -> str:
    """The text of a program, the same for the same seed."""
    return _program(random.Random(seed).choice, depth)
