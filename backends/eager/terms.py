"""Terms as torch expressions: everything but folds.

A value is a tensor with an axis for each index of its equation, of length 1 where it does
not depend on the index, so that operands broadcast.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from fractions import Fraction

from monocomp import terms as T
from monocomp.backends.eager.code import TYPES, Code, number_text, split_number
from monocomp.backends.eager.scope import Scope
from monocomp.backends.line_breaks import fit
from monocomp.declarations.vocabulary import Kind
from monocomp.errors import UnsupportedError
from monocomp.terms import Term
from monocomp.terms.equations import Equation

_FUNCTIONS = {
    **{
        name: f"torch.{name}"
        for name in ["exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "abs", "sign", "floor"]
    },
    **{name: f"torch.nn.functional.{name}" for name in ["silu", "gelu", "elu"]},
    "relu": "torch.relu",
    "maximum": "torch.maximum",
    "minimum": "torch.minimum",
}


class Terms(ABC):
    """Writes the terms of one equation, and the statements that they need first."""

    def __init__(self, scope: Scope, equation: Equation | None) -> None:
        self.scope, self.equation = scope, equation
        self.facts = scope.facts
        self.axes: dict[str, Term] = {}  # indices by name, in the order of their axes
        self.done: dict[Term, Code] = {}
        self.folded: dict[object, list[Code]] = {}  # what has several parts
        self.fields: dict[str, str] = {}  # of a user monoid
        self.indent = 1
        self.statements: list[str] = []
        self.clamps = scope.guards or (equation is not None and equation.name not in scope.outputs)
        self.shared = shared_terms(equation.body) if equation else frozenset()

    # Statements and expressions

    def axis(self, i: Term) -> int:
        """Return the number of an index's axis."""
        self.axes.setdefault(i.name, i)
        return list(self.axes).index(i.name)

    def assign(self, wanted: str, code: Code) -> Code:
        """Give a value a name of its own."""
        name = self.scope.numbered(wanted)
        self.statements += fit(f"{name} = ", code.text, "", self.indent)
        return Code(name, number=code.number)

    def infix(self, operator: str, *parts: Code) -> Code:
        """Return an operator between any number of operands, the first two first."""
        text = f" {operator} ".join(f"({p.text})" for p in parts)
        return Code(text, all(p.number for p in parts))

    def call(self, function: str, *args: Code | str) -> Code:
        """Return a call; strings among the arguments stand as they are."""
        texts = (a if isinstance(a, str) else a.text for a in args)
        return Code(f"{function}({', '.join(texts)})")

    def method(self, on: Code, name: str, *args: str) -> Code:
        """Return a method's call on a tensor."""
        return self.call(f"({on.text}).{name}", *args)

    def tensor(self, code: Code, kind: Kind) -> Code:
        """Return a number as a tensor."""
        if not code.number:
            return code
        dtype = "dtype" if kind == "float" else TYPES[kind]
        return self.call("torch.tensor", code, f"dtype={dtype}", f"device={self.scope.device}")

    # Terms

    @abstractmethod
    def fold(self, t: Term) -> Code:
        """Return the name of a fold's result, once it is computed."""

    def code(self, t: Term) -> Code:
        """Return the expression for a term."""
        written = self.done.get(t)
        if written is None:
            written = self._code(t)
            if t in self.shared and len(written.text) > 16 and not written.number:
                written = self.assign("term", written)
            self.done[t] = written
        return written

    def codes(self, terms: Iterable[Term]) -> list[Code]:
        return [self.code(t) for t in terms]

    def tensors(self, terms: Iterable[Term]) -> list[Code]:
        return [self.tensor(self.code(t), t.kind) for t in terms]

    def _code(self, t: Term) -> Code:
        match t.op:
            case "const":
                return self._const(t)
            case "index":
                self.axis(t)
                return Code(self.scope.index(t.name))
            case "extent":
                return Code(self.scope.size(t.attr), number=True)
            case "param" if t.attr in self.fields:
                return Code(self.fields[t.attr])
            case "param":
                return Code(self.scope.identifiers[t.attr], number=True)
            case "read" | "ref" | "stored":
                return self._read(t)
            case "add":
                return self._add(t)
            case "mul":
                return self._mul(t)
            case "pow":
                return self._mul(t) if t.attr < 0 else self._pow(t.args[0], t.attr)
            case "power":
                base, exponent = t.args
                return self.infix("**", self._operand(base), self.code(exponent))
            case "cast":
                operand = self.code(t.args[0])
                return operand if operand.number else self.method(operand, "to", TYPES[t.kind])
            case "compare":
                return self.infix(t.attr, *self.codes(t.args))
            case "and":
                return self.infix("&", *self.tensors(t.args))
            case "or":
                return self.infix("|", *self.tensors(t.args))
            case "not":
                (x,) = self.tensors(t.args)
                return Code(f"~({x.text})")
            case "where":
                return self._where(*t.args)
            case "floordiv" | "mod":
                return self._integer_division(t)
            case "maximum" | "minimum" if t.kind == "int" and self._are_numbers(t.args):
                made = self.call(t.op[:3], *self.codes(t.args))
                return Code(made.text, number=True)
            case "stop":
                return self.code(t.args[0])
            case "int":
                (x,) = self.tensors(t.args)
                return self.call(self.scope.helper("whole"), x)
            case "softplus":
                return self._softplus(*self.tensors(t.args))
            case "uniform":
                return self.call(self.scope.helper("uniform"), *self.tensors(t.args))
            case "log" if t.args[0].op == "const" and 0 < t.args[0].attr < math.inf:
                return Code(repr(math.log(t.args[0].attr)), number=True)
            case "fold" | "fold_at" | "field":
                return self.fold(t)
        if t.op in _FUNCTIONS:
            return self.call(_FUNCTIONS[t.op], *self.tensors(t.args))
        raise UnsupportedError(f"'{t.op}' is not part of the self-check")

    def _are_numbers(self, terms: Iterable[Term]) -> bool:
        return all(code.number for code in self.codes(terms))

    def _const(self, t: Term) -> Code:
        if t.kind == "bool":
            return Code(str(t.attr), number=True)
        return Code(number_text(t.attr), number=True)

    def _read(self, t: Term) -> Code:
        name = self.scope.identifiers[T.name_of(t)]
        if not t.args:
            return Code(name)
        subscripts = [
            self._subscript(s, extent) for s, extent in zip(t.args, self._extents(t), strict=True)
        ]
        return Code(f"{name}[{', '.join(c.text for c in subscripts)}]")

    def _extents(self, t: Term) -> Sequence[str]:
        """Return the extents of a tensor's dimensions."""
        return (self.scope.equations.by_name[t.attr] if t.op == "ref" else t.attr).extents

    def _subscript(self, s: Term, extent: str) -> Code:
        plain = s.op == "index" and s.extent == extent
        if plain or (s.op == "const" and s.attr == 0) or not self.clamps:
            return self.code(s)
        code = self.tensor(self.code(s), "int")
        return self.method(code, "clamp", "0", f"{self.scope.size(extent)} - 1")

    def _softplus(self, x: Code) -> Code:
        """Return log(exp(x) + exp(0)), which does not overflow."""
        x = x if x.text.isidentifier() else self.assign("term", x)
        return self.call("torch.logaddexp", x, f"torch.zeros_like({x.text})")

    def _where(self, condition: Term, a: Term, b: Term) -> Code:
        left, right = self.code(a), self.code(b)
        if left.number and right.number:
            left = self.tensor(left, a.kind)
        return self.choose(self.tensor(self.code(condition), "bool"), left, right)

    def choose(self, condition: Code, a: Code, b: Code) -> Code:
        return self.call("torch.where", condition, a, b)

    def _integer_division(self, t: Term) -> Code:
        a, b = self.codes(t.args)
        if b.number or t.kind == "float":
            operator = "//" if t.op == "floordiv" else "%"
            return self.infix(operator, a, b)
        name = "floor_divide" if t.op == "floordiv" else "modulo"
        return self.call(self.scope.helper(name), a, b)

    # The ring

    def _add(self, t: Term) -> Code:
        """Return a sum: numbers last, and a first addend without a sign where there is one."""
        parts = [(*T.split_coefficient(part), part) for part in t.args]
        parts.sort(key=lambda p: (p[1] is None, p[0] < 0))
        signed: list[tuple[bool, Term]] = []
        for number, _, part in parts:
            negative = number < 0 and bool(signed)
            signed.append((negative, T.neg(part) if negative else part))
        addends = [part for _, _, part in parts]
        pinned = any(map(self.facts.is_aggregate, addends)) and any(
            map(self.facts.is_unbounded, addends)
        )
        result: Code | None = None
        for negative, part in signed:
            code = self.code(part)
            if result is None:
                result = code
            elif pinned and not (code.number or result.number):
                code = self._negative(code) if negative else code
                result = self.call(self.scope.helper("total"), result, code)
            else:
                result = self.infix("-" if negative else "+", result, code)
        assert result is not None
        return result

    def _negative(self, code: Code) -> Code:
        return Code(f"-({code.text})", code.number)

    def _mul(self, t: Term) -> Code:
        """Return a product, and conditions that choose between it and 0."""
        conditions = [f.args[0] for f in _factors(t) if T.is_bracket(f)]
        result = self._quotient(t)
        if conditions:
            if result.number:
                result = self.tensor(result, t.kind)
            admitted = self.infix("&", *self.tensors(conditions))
            result = self.choose(admitted, result, Code("0" if t.kind == "int" else "0.0"))
        return result

    def _quotient(self, t: Term) -> Code:
        """Write a product's number, factors and divisors, without its conditions."""
        scale, divisor = split_number(T.split_coefficient(t)[0])
        below = [f for f in _factors(t) if f.op == "pow" and f.attr < 0]
        above = [f for f in _factors(t) if f not in below and not T.is_bracket(f)]
        codes = self.codes(above)
        pinned = len(codes) > 1 and any(map(self.facts.is_unbounded, above))
        result = self._product(codes, pinned)
        if scale == -1 and result is not None:
            result = self._negative(result)
        elif scale != 1 or result is None:
            factor = Code(number_text(scale), number=True)
            result = factor if result is None else self.infix("*", factor, result)
        if divisor != 1:
            result = self.infix("/", result, Code(number_text(divisor), number=True))
        for f in below:
            under = self._pow(f.args[0], -f.attr)
            pinned = self.facts.is_aggregate(f) or T.is_bracket(f.args[0])
            if result.number and under.number:
                under = self._operand(f.args[0], under)
            if pinned and not (result.number or under.number):
                result = self.call(self.scope.helper("ratio"), result, under)
            else:
                result = self.infix("/", result, under)
        return result

    def _product(self, codes: list[Code], pinned: bool) -> Code | None:
        if not codes or not pinned:
            return self.infix("*", *codes) if codes else None
        result = codes[0]
        for code in codes[1:]:
            if code.number or result.number:
                result = self.infix("*", result, code)
            else:
                result = self.call(self.scope.helper("product"), result, code)
        return result

    def _pow(self, base: Term, exponent: Fraction) -> Code:
        if exponent == 1:
            return self.code(base)
        code = self._operand(base)
        if exponent == Fraction(1, 2) and not code.number:
            return self.call("torch.sqrt", code)
        return self.infix("**", code, Code(number_text(exponent), number=True))

    def _operand(self, t: Term, code: Code | None = None) -> Code:
        """Return a divisor or the base of a power, as a tensor where Python's numbers would not do:
        with these x / 0 is an error, and sqrt(-1) is complex."""
        code = code or self.code(t)
        is_known = T.is_positive(t) and not any(s.op == "param" for s in T.subterms(t))
        return code if is_known or t.kind == "int" else self.tensor(code, "float")


def _factors(t: Term) -> tuple[Term, ...]:
    """Return the factors of a product, but for its number."""
    rest = T.split_coefficient(t)[1]
    if rest is None:
        return ()
    return rest.args if rest.op == "mul" else (rest,)


def shared_terms(*bodies: Term) -> frozenset[Term]:
    """Return the subterms that stand in more than one position."""
    seen: set[Term] = set()
    twice: set[Term] = set()
    for t in T.subterms(*bodies):
        for child in T.children(t):
            (twice if child in seen else seen).add(child)
    return frozenset(t for t in twice if t.op not in ("read", "ref", "stored", "index"))
