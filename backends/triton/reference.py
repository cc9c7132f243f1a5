"""A program as a plain torch function, for the self-check of an emitted file.

The function is written from the equations as the user gave them, before any rewrite, and
shares nothing with the kernel. In an equation every index, free or bound, has an axis of its
own, along which a tensor holds its values; so reads look as they do in the language
(`Q[b, h, q, d]`), arithmetic broadcasts, and a fold reduces its axes. There is one assignment
for each fold and definition; an expression too long for a line gets one too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from monocomp import terms as T
from monocomp.backends.triton import torch_helpers
from monocomp.errors import InternalError, UnsupportedError
from monocomp.printer import definition_line
from monocomp.program import Equation, Equations, translate_expression
from monocomp.syntax import KEEPING_REDUCTIONS, Kind
from monocomp.terms import Term

WIDTH = 88
RESERVED = frozenset({"reference", "dtype", "device", *torch_helpers.NAMES})

# How tightly Python binds, from the loosest.
_COMPARE, _OR, _AND, _SHIFT, _SUM, _PRODUCT, _UNARY, _POWER, _ATOM = range(9)

_FUNCTIONS = {
    **{name: f"torch.{name}" for name in ["exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "abs", "sign", "floor"]},
    **{name: f"torch.nn.functional.{name}" for name in ["silu", "gelu", "elu"]},
    "relu": "torch.relu",
    "maximum": "torch.maximum",
    "minimum": "torch.minimum",
}
_TYPES = {"float": "dtype", "int": "torch.int64", "bool": "torch.bool"}


@dataclass(frozen=True, slots=True)
class Code:
    """A Python expression.

    Attributes:
        text: the expression.
        level: how tightly its outermost operator binds.
        number: is its value a plain number rather than a tensor?
    """

    text: str
    level: int = _ATOM
    number: bool = False

    def within(self, level: int) -> str:
        """The text, in parentheses where an operator of this level would tear it apart."""
        return self.text if self.level >= level else f"({self.text})"


def reference_lines(equations: Equations, identifiers: Mapping[str, str]) -> list[str]:
    """The source of `reference(<inputs>, *, <params>, dtype=torch.float64)`.

    The function computes all in `dtype` and returns a tuple in the order of the outputs.
    Functions that it needs come before it.

    Args:
        equations: the program, not rewritten.
        identifiers: a Python identifier for each name of the program: inputs, parameters,
            definitions, indices. All differ, and none is in RESERVED.
    """
    return _Reference(equations, identifiers).lines()


def call_lines(head: str, args: Sequence[str], tail: str = ")", indent: int = 4) -> list[str]:
    """`head` with its arguments: on one line, on a line of their own, or a line each."""
    margin, inner = " " * indent, " " * (indent + 4)
    joined = ", ".join(args)
    if len(margin + head + joined + tail) <= WIDTH:
        return [margin + head + joined + tail]
    if len(inner + joined) <= WIDTH:
        return [margin + head, inner + joined, margin + tail]
    return [margin + head, *(f"{inner}{a}," for a in args), margin + tail]


def number_text(value: Fraction | float) -> str:
    """A number as Python writes it."""
    if isinstance(value, float) and math.isinf(value):
        return "torch.inf" if value > 0 else "-torch.inf"
    if value == int(value) and abs(value) < 2**53:
        return str(int(value))
    try:
        return repr(float(value))
    except OverflowError:
        raise UnsupportedError(f"the number {value} is too large for a float64") from None


class _Reference:
    """The whole function: what its equations share."""

    def __init__(self, equations: Equations, identifiers: Mapping[str, str]) -> None:
        self.equations = equations
        self.program = equations.source
        self.identifiers = identifiers
        self.taken = set(identifiers.values())
        if clash := self.taken & {"reference", "dtype"}:
            raise InternalError(f"an identifier is reserved: {', '.join(sorted(clash))}")
        self.given: dict[str, str] = {}
        self.sizes: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self.monoids: dict[str, tuple[str, str]] = {}
        self.monoid_lines: list[str] = []
        reached = _reachable(equations)
        self.reached = [e for e in equations.equations if e.name in reached]
        self.facts = _Facts(self.reached)
        # Positions are clamped where a guard may leave a read outside its tensor undone.
        self.outputs = {o.name for o in self.program.outputs}
        self.guards = any(
            t.op in ("compare", "not", "where") or (t.op in ("read", "ref") and t.kind == "bool")
            for t in T.subterms(*(e.body for e in self.reached))
        )

    def lines(self) -> list[str]:
        blocks = [_Body(self, equation).lines() for equation in self.reached]
        head = [*self._signature(), '    """The program, evaluated as it is written."""']
        head += self._casts()
        head += self._size_lines()
        results = [self.identifiers[o.name] for o in self.program.outputs]
        blocks.append(call_lines("return (", results, ",)" if len(results) == 1 else ")"))
        out = []
        for name, text in self.helpers.items():
            lines = torch_helpers.source(name)
            if text != name:
                lines[0] = lines[0].replace(f"def {name}(", f"def {text}(")
            out += [*lines, "", ""]
        out += head
        for block in (self.monoid_lines, *blocks):
            out += ["", *block] if block else []
        return out

    def _signature(self) -> list[str]:
        args = [self.identifiers[name] for name in self.program.inputs] + ["*"]
        for param in self.program.params.values():
            name = self.identifiers[param.name]
            default = "" if param.default is None else f"={default_text(param.default)}"
            args.append(name + default)
        return call_lines("def reference(", [*args, "dtype=torch.float64"], "):", indent=0)

    def _casts(self) -> list[str]:
        calls = {"float": "to(dtype)", "int": "long()", "bool": "bool()"}
        names = {i.name: self.identifiers[i.name] for i in self.program.inputs.values()}
        out = []
        if "device" in self.given:
            first = next(iter(names.values()), None)
            out.append(f"    {self.device} = " + (f"{first}.device" if first else '"cpu"'))
        for declared in self.program.inputs.values():
            name = names[declared.name]
            out.append(f"    {name} = {name}.{calls[declared.kind]}")
        return out

    # Names

    def fresh(self, wanted: str) -> str:
        """A name that nothing else in the function has."""
        found, number = wanted, 1
        while found in self.taken:
            number += 1
            found = f"{wanted}_{number}"
        self.taken.add(found)
        return found

    def named(self, wanted: str) -> str:
        """A name that is made once."""
        if wanted not in self.given:
            self.given[wanted] = self.fresh(wanted)
        return self.given[wanted]

    @property
    def device(self) -> str:
        return self.named("device")

    def helper(self, name: str) -> str:
        """The name of a function of `torch_helpers`, which will be printed."""
        if name not in self.helpers:
            self.helpers[name] = self.fresh(name)
        return self.helpers[name]

    def size(self, extent: str) -> str:
        """The name of an extent."""
        if extent not in self.sizes:
            if extent in self.program.bounds:
                bound = translate_expression(self.program, self.program.bounds[extent])
                for t in T.subterms(bound):
                    if t.op == "extent":
                        self.size(t.attr)
            known = self.identifiers.get(extent, extent.lstrip("."))
            self.sizes[extent] = self.fresh(f"size_{known}")
        return self.sizes[extent]

    def _size_lines(self) -> list[str]:
        """Assignments of the extents that are used: from shapes, then those declared."""
        left = dict(self.sizes)
        out = []
        for declared in self.program.inputs.values():
            name = self.identifiers[declared.name]
            extents = [self.program.extent_of.get(d, d) for d in declared.dims]
            if len(extents) > 1 and len(set(extents)) == len(extents) and left.keys() >= {*extents}:
                targets = ", ".join(left.pop(e) for e in extents)
                out.append(f"    {targets} = {name}.shape")
                continue
            for axis, extent in enumerate(extents):
                if extent in left:
                    out.append(f"    {left.pop(extent)} = {name}.shape[{axis}]")
        for extent, target in left.items():
            bound = translate_expression(self.program, self.program.bounds[extent])
            code = _Body(self, Equation(extent, (), bound)).code(bound)
            if not code.number:
                raise UnsupportedError(f"the extent of '{extent}' is not a number")
            out.append(f"    {target} = {code.text}")
        return out

    # Monoids

    def monoid(self, monoid: T.UserMonoid) -> tuple[str, str]:
        """The names of a monoid's combine function and unit, which are defined at the top."""
        if monoid.name not in self.monoids:
            names = self.fresh(f"combine_{monoid.name}"), self.fresh(f"unit_{monoid.name}")
            self.monoids[monoid.name] = names
            self.monoid_lines += _Body(self, None).monoid_lines(monoid, *names)
        return self.monoids[monoid.name]


def default_text(value: float) -> str:
    """A parameter's value as Python writes it."""
    if isinstance(value, float) and math.isinf(value):
        return number_text(value)
    return repr(value)


def _reachable(equations: Equations) -> set[str]:
    """The definitions that the outputs need."""
    reached: set[str] = set()
    waiting = [o.name for o in equations.source.outputs]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            body = equations.by_name[name].body
            waiting += [t.attr for t in T.subterms(body) if t.op == "ref"]
    return reached


@dataclass
class _Facts:
    """What decides between an operator and its helper: where the rules for empty sets apply."""

    equations: Iterable[Equation]
    aggregates: set[str] = field(default_factory=set)
    unbounded: set[str] = field(default_factory=set)
    fields: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for e in self.equations:
            if self.is_aggregate(e.body):
                self.aggregates.add(e.name)
            if self.is_unbounded(e.body):
                self.unbounded.add(e.name)

    def is_aggregate(self, t: Term) -> bool:
        """Does the value come from a fold?"""
        return any(
            s.op in ("fold", "fold_at")
            or (s.op == "ref" and s.attr in self.aggregates)
            or (s.op == "param" and s.attr in self.fields)
            for s in T.subterms(t)
        )

    def is_unbounded(self, t: Term) -> bool:
        """May the value be infinite although the inputs are not?"""
        match t.op:
            case "const":
                return isinstance(t.attr, float)
            case "param":
                return self.fields.get(t.attr, False)
            case "ref":
                return t.attr in self.unbounded
            case "log":
                return True
            case "pow":
                return (t.attr < 0 and self.is_aggregate(t)) or self.is_unbounded(t.args[0])
            case "add" | "mul" | "where" | "maximum" | "minimum" | "abs" | "stop" | "relu":
                return any(map(self.is_unbounded, t.args))
            case "fold" | "fold_at":
                kinds = ("max", "min", "logsumexp", "log_softmax", "top")
                return t.attr.name in kinds or any(map(self.is_unbounded, T.children(t)))
            case "field":
                return any(self.is_unbounded(u) for u in t.args[0].attr.monoid.unit)
        return False


class _Body:
    """The lines of one equation, or of a monoid's combine function."""

    def __init__(self, whole: _Reference, equation: Equation | None) -> None:
        self.whole, self.equation = whole, equation
        self.facts = whole.facts
        self.axes: dict[str, Term] = {}  # an index by name, in the order of the axes
        self.made: dict[str, str] = {}  # identifiers of indices that the program does not name
        self.done: dict[Term, Code] = {}
        self.folded: dict[object, list[Code]] = {}
        self.fields: dict[str, str] = {}
        self.indent = 4
        self.statements: list[str] = []
        self.clamps = whole.guards or (equation is not None and equation.name not in whole.outputs)
        self.shared = _shared(equation.body) if equation else frozenset()

    def lines(self) -> list[str]:
        """The equation: a comment that states it, its indices, and the assignments."""
        assert self.equation is not None
        e, whole = self.equation, self.whole
        names = [i.attr[0] for i in e.indices]
        for i in e.indices:
            self.axis(i)
        code = self.code(e.body)
        target = whole.identifiers[e.name]
        sizes = [whole.size(i.attr[1]) for i in e.indices]
        if code.number:
            dims = "(" + ", ".join(sizes) + (",)" if len(sizes) == 1 else ")")
            args = [dims, code.text, f"dtype={_TYPES[e.body.kind]}", f"device={whole.device}"]
            last = call_lines(f"{target} = torch.full(", args)
        else:
            room = WIDTH - len(f"    {target} = {whole.helper('tabulate')}(, {', '.join(sizes)})")
            code = self.short(code, max(room, 24))
            last = call_lines(f"{target} = {whole.helper('tabulate')}(", [code.text, *sizes])
        comment = _comment(definition_line(e.name, names, e.body, whole.equations.names()))
        return [*comment, *self._index_line(), *self.statements, *last]

    def _index_line(self) -> list[str]:
        if not self.axes:
            return []
        names = [self.index_name(name) for name in self.axes]
        target = f"({names[0]},)" if len(names) == 1 else ", ".join(names)
        sizes = [self.whole.size(i.attr[1]) for i in self.axes.values()]
        head = f"{target} = {self.whole.helper('open_indices')}("
        return call_lines(head, [*sizes, f"device={self.whole.device}"])

    def monoid_lines(self, monoid: T.UserMonoid, combine: str, unit: str) -> list[str]:
        """A monoid's combine function and its unit."""
        whole = self.whole
        units = [_Body(whole, None).code(u).text for u in monoid.unit]
        unbounded = any(map(self.facts.is_unbounded, monoid.unit))
        lefts, rights = [], []
        for name in monoid.fields:
            self.fields[name] = whole.fresh(f"left_{name}")
            self.fields[name + "'"] = whole.fresh(f"right_{name}")
            lefts.append(self.fields[name])
            rights.append(self.fields[name + "'"])
        outside = self.facts.fields
        self.facts.fields = dict.fromkeys(self.fields, unbounded)
        self.indent = 8
        results = [self.tensor(self.code(c), "float").text for c in monoid.combine]
        self.facts.fields = outside
        out = call_lines(f"def {combine}(", [*lefts, *rights], "):")
        out += self.statements
        out += call_lines("return (", results, ",)" if len(results) == 1 else ")", 8)
        dims = "(" + ", ".join(units) + (",)" if len(units) == 1 else ")")
        made = [dims, "dtype=dtype", f"device={whole.device}"]
        return [*out, "", *call_lines(f"{unit} = torch.tensor(", made)]

    # Names and statements

    def index_name(self, name: str) -> str:
        return self.made.get(name) or self.whole.identifiers[name]

    def axis(self, i: Term) -> int:
        """The number of an index's axis."""
        self.axes.setdefault(i.attr[0], i)
        return list(self.axes).index(i.attr[0])

    def assign(self, wanted: str, code: Code) -> Code:
        """Give a value a name of its own."""
        name = self.whole.fresh(f"{wanted}_1")
        self.statements.append(f"{' ' * self.indent}{name} = {code.text}")
        return Code(name, number=code.number)

    def short(self, code: Code, room: int) -> Code:
        """The expression, or a name for it where it is longer than there is room for."""
        return self.assign("term", code) if len(code.text) > room else code

    def build(self, make: Callable[..., str], *parts: Code, level: int = _ATOM) -> Code:
        """An expression of several, the longest of which get names until it fits on a line."""
        room = WIDTH - self.indent - len("logsumexp_12 = ")
        codes = list(parts)
        while len(make(*codes)) > room:
            longest = max(range(len(codes)), key=lambda n: len(codes[n].text))
            if codes[longest].text.isidentifier() or len(codes[longest].text) < 12:
                break
            codes[longest] = self.assign("term", codes[longest])
        return Code(make(*codes), level, all(p.number for p in parts))

    def joined(self, operator: str, level: int, parts: Sequence[Code]) -> Code:
        """An associative operator between any number of operands."""
        result = parts[0]
        for part in parts[1:]:
            result = self.build(
                lambda a, b: f"{a.within(level)} {operator} {b.within(level + 1)}",
                result,
                part,
                level=level,
            )
        return result

    def call(self, function: str, *args: Code | str) -> Code:
        """A call; strings among the arguments stand as they are."""
        codes = [a for a in args if isinstance(a, Code)]

        def make(*given: Code) -> str:
            left = iter(given)
            texts = (a if isinstance(a, str) else next(left).text for a in args)
            return f"{function}({', '.join(texts)})"

        return Code(self.build(make, *codes).text)

    def method(self, on: Code, name: str, *args: str) -> Code:
        """A method's call on a tensor."""
        text = f".{name}({', '.join(args)})"
        return Code(self.build(lambda x: x.within(_ATOM) + text, on).text)

    def tensor(self, code: Code, kind: Kind) -> Code:
        """A number as a tensor."""
        if not code.number:
            return code
        dtype = "dtype" if kind == "float" else _TYPES[kind]
        return self.call("torch.tensor", code, f"dtype={dtype}", f"device={self.whole.device}")

    # Terms

    def code(self, t: Term) -> Code:
        """The expression for a term."""
        found = self.done.get(t)
        if found is None:
            found = self._code(t)
            if t in self.shared and len(found.text) > 16 and not found.number:
                found = self.assign("term", found)
            self.done[t] = found
        return found

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
                return Code(self.index_name(t.attr[0]))
            case "extent":
                return Code(self.whole.size(t.attr), number=True)
            case "param" if t.attr in self.fields:
                return Code(self.fields[t.attr])
            case "param":
                return Code(self.whole.identifiers[t.attr], number=True)
            case "read" | "ref":
                return self._read(t)
            case "add":
                return self._add(t)
            case "mul":
                return self._mul(t)
            case "pow":
                return self._mul(t) if t.attr < 0 else self._pow(t.args[0], t.attr)
            case "power":
                return self.build(_power, *self.codes(t.args), level=_POWER)
            case "cast":
                operand = self.code(t.args[0])
                if operand.number:
                    return operand
                return self.method(operand, "to", _TYPES[t.kind])
            case "compare":
                return self.build(
                    lambda a, b: f"{a.within(_OR)} {t.attr} {b.within(_OR)}",
                    *self.codes(t.args),
                    level=_COMPARE,
                )
            case "and":
                return self.joined("&", _AND, self.tensors(t.args))
            case "or":
                return self.joined("|", _OR, self.tensors(t.args))
            case "not":
                (x,) = self.tensors(t.args)
                return self.build(lambda x: "~" + x.within(_UNARY), x, level=_UNARY)
            case "where":
                return self._where(*t.args)
            case "floordiv" | "mod":
                return self._integer_division(t)
            case "stop":
                return self.code(t.args[0])
            case "softplus":
                (x,) = self.tensors(t.args)
                x = self.short(x, 24)
                return self.call("torch.logaddexp", x, f"torch.zeros_like({x.text})")
            case "uniform":
                return self.call(self.whole.helper("uniform"), *self.tensors(t.args))
            case "fold":
                return self._fold(t)
            case "fold_at":
                return self._fold_at(t)
            case "field":
                return self._fields(t.args[0])[t.args[0].attr.monoid.fields.index(t.attr)]
        if t.op in _FUNCTIONS:
            return self.call(_FUNCTIONS[t.op], *self.tensors(t.args))
        raise UnsupportedError(f"'{t.op}' is not part of the self-check")

    def _const(self, t: Term) -> Code:
        if t.kind == "bool":
            return Code(str(t.attr), number=True)
        text = number_text(t.attr)
        return Code(text, _UNARY if text.startswith("-") else _ATOM, number=True)

    def _read(self, t: Term) -> Code:
        name = self.whole.identifiers[t.attr]
        if not t.args:
            return Code(name)
        subscripts = [
            self._subscript(s, extent) for s, extent in zip(t.args, self._extents(t), strict=True)
        ]
        made = self.build(lambda *at: f"{name}[{', '.join(c.text for c in at)}]", *subscripts)
        return Code(made.text)

    def _extents(self, t: Term) -> list[str]:
        """The extents of a tensor's dimensions."""
        if t.op == "ref":
            return [i.attr[1] for i in self.whole.equations.by_name[t.attr].indices]
        program = self.whole.program
        return [program.extent_of.get(d, d) for d in program.inputs[t.attr].dims]

    def _subscript(self, s: Term, extent: str) -> Code:
        plain = s.op == "index" and s.attr[1] == extent
        if plain or (s.op == "const" and s.attr == 0) or not self.clamps:
            return self.code(s)
        code = self.tensor(self.code(s), "int")
        return self.method(code, "clamp", "0", f"{self.whole.size(extent)} - 1")

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
            return self.joined(operator, _PRODUCT, [a, b])
        name = "floor_divide" if t.op == "floordiv" else "modulo"
        return self.call(self.whole.helper(name), a, b)

    # The ring

    def _add(self, t: Term) -> Code:
        """A sum: numbers last, and a first addend without a sign where there is one."""
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
                result = self.call(self.whole.helper("total"), result, code)
            else:
                result = self.build(_minus if negative else _plus, result, code, level=_SUM)
        assert result is not None
        return result

    def _negative(self, code: Code) -> Code:
        return self.build(lambda x: "-" + x.within(_UNARY), code, level=_UNARY)

    def _mul(self, t: Term) -> Code:
        """A product: a number, factors, divisors, and conditions that choose between it and 0."""
        number, rest = T.split_coefficient(t)
        factors: tuple[Term, ...] = ()
        if rest is not None:
            factors = rest.args if rest.op == "mul" else (rest,)
        conditions = [f.args[0] for f in factors if T.is_bracket(f)]
        below = [f for f in factors if f.op == "pow" and f.attr < 0]
        above = [f for f in factors if f not in below and not T.is_bracket(f)]
        result = self._quotient(number, above, below, t.kind)
        if conditions:
            if result.number:
                result = self.tensor(result, t.kind)
            admitted = self.joined("&", _AND, self.tensors(conditions))
            result = self.choose(admitted, result, Code("0" if t.kind == "int" else "0.0"))
        return result

    def _quotient(self, number: T.Number, above: list[Term], below: list[Term], kind: Kind) -> Code:
        scale, divisor = _split_number(number)
        codes = self.codes(above)
        pinned = len(codes) > 1 and any(map(self.facts.is_unbounded, above))
        result = self._product(codes, pinned)
        if scale == -1 and result is not None:
            result = self._negative(result)
        elif scale != 1 or result is None:
            factor = Code(number_text(scale), number=True)
            result = factor if result is None else self.joined("*", _PRODUCT, [factor, result])
        if divisor != 1:
            result = self.joined("/", _PRODUCT, [result, Code(number_text(divisor), number=True)])
        for f in below:
            under = self._pow(f.args[0], -f.attr)
            if self.facts.is_aggregate(f) and not (result.number or under.number):
                result = self.call(self.whole.helper("ratio"), result, under)
            else:
                result = self.joined("/", _PRODUCT, [result, under])
        return result

    def _product(self, codes: list[Code], pinned: bool) -> Code | None:
        if not codes or not pinned:
            return self.joined("*", _PRODUCT, codes) if codes else None
        result = codes[0]
        for code in codes[1:]:
            if code.number or result.number:
                result = self.joined("*", _PRODUCT, [result, code])
            else:
                result = self.call(self.whole.helper("product"), result, code)
        return result

    def _pow(self, base: Term, power: Fraction) -> Code:
        code = self.code(base)
        if power == 1:
            return code
        if power == Fraction(1, 2) and not code.number:
            return self.call("torch.sqrt", code)
        exponent = Code(number_text(power), number=True)
        made = self.build(_power, code, exponent, level=_POWER)
        return Code(made.text, _POWER, code.number)

    # Folds

    def open(self, t: Term, avoid: Iterable[str] = ()) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        """A fold's bound indices under names of the program, its condition and bodies."""
        taken = {*t.free, *avoid}
        names = []
        for extent in t.attr.extents:
            names.append(next(n for n in self._names(extent) if n not in taken))
            taken.add(names[-1])
        opened, parts = T.open_as(t, names)
        for i in opened:
            self.axis(i)
        return opened, parts

    def _names(self, extent: str) -> Iterator[str]:
        """Names for an index of an extent: the program's own, then made-up ones."""
        for name, root in self.whole.program.extent_of.items():
            if root == extent and name in self.whole.identifiers and not name.startswith("."):
                yield name
        number = 0
        while True:
            number += 1
            name = f"@{extent}{number}"
            if name not in self.made:
                known = self.whole.identifiers.get(extent, extent.lstrip("."))
                self.made[name] = self.whole.fresh(f"{known}_{number}")
            yield name

    def admitted(self, condition: Term, opened: tuple[Term, ...], *bodies: Term) -> Code | None:
        """A condition that has all the axes which the bodies lack; None: it always holds."""
        present = condition.free.union(*(b.free for b in bodies))
        missing = [_always(i) for i in opened if i.attr[0] not in present]
        if condition is T.TRUE and not missing:
            return None
        return self.tensor(self.code(T.conjunction(condition, *missing)), "bool")

    def elements(self, condition: Code | None, x: Code, unit: str) -> Code:
        """The elements, the unit in the place of those that are not admitted."""
        return x if condition is None else self.choose(condition, x, Code(unit, number=True))

    def _fold(self, t: Term) -> Code:
        if isinstance(t.attr.monoid, T.UserMonoid):
            return self._fields(t)[0]
        name = t.attr.name
        opened, (condition, *bodies) = self.open(t)
        if len(bodies) != 1:
            raise InternalError(f"{name} of {len(bodies)} elements")
        (body,) = bodies
        x = self.tensor(self.code(body), body.kind)
        admitted = self.admitted(condition, opened, body)
        axes = sorted(map(self.axis, opened))
        dims = str(axes[0]) if len(axes) == 1 else "(" + ", ".join(map(str, axes)) + ")"
        if name in ("mean", "var"):
            if admitted is not None:  # counted over all axes
                condition = T.conjunction(condition, *map(_always, opened))
                admitted = self.assign("admitted", self.code(condition))
            return self._moment(name, x, admitted, dims)
        if name in ("argmax", "argmin"):
            return self._place(name, x, admitted, opened, dims, body.kind)
        x = self.elements(admitted, x, _UNITS[name][body.kind == "int"])
        if name == "prod":
            for axis in axes:
                x = self.method(x, "prod", str(axis), "keepdim=True")
            return self.assign(name, x)
        return self.assign(name, self.method(x, _METHODS.get(name, name), dims, "keepdim=True"))

    def _moment(self, name: str, x: Code, admitted: Code | None, dims: str) -> Code:
        """mean and var: over nothing they are 0."""
        if admitted is None:
            correction = () if name == "mean" else ("correction=0",)
            return self.assign(name, self.method(x, name, dims, *correction, "keepdim=True"))
        counted = self.method(admitted, "sum", dims, "keepdim=True")
        count = self.assign("count", self.method(counted, "clamp", "min=1"))

        def mean(elements: Code) -> Code:
            chosen = self.elements(admitted, elements, "0.0")
            total = self.method(chosen, "sum", dims, "keepdim=True")
            return self.assign("mean", self.joined("/", _PRODUCT, [total, count]))

        center = mean(x)
        if name == "mean":
            return center
        deviation = self.build(_minus, x, center, level=_SUM)
        return mean(self.build(_power, deviation, Code("2"), level=_POWER))

    def _place(
        self,
        name: str,
        x: Code,
        admitted: Code | None,
        opened: tuple[Term, ...],
        dims: str,
        kind: Kind,
    ) -> Code:
        """argmax and argmin: the first place, over several indices in row-major order."""
        extreme = "max" if name == "argmax" else "min"
        x = self.elements(admitted, x, _UNITS[extreme][kind == "int"])
        if len(opened) == 1:
            return self.assign(name, self.method(x, name, dims, "keepdim=True"))
        x = self.assign("elements", x)
        place, count = T.const(0), T.const(1)
        for i in opened:
            place = T.add(T.mul(place, T.extent_of(i.attr[1])), i)
            count = T.mul(count, T.extent_of(i.attr[1]))
        best = self.method(x, "a" + extreme, dims, "keepdim=True")
        found = self.build(lambda a, b: f"{a.text} == {b.text}", x, best, level=_COMPARE)
        places = self.choose(found, self.code(place), self.code(count))
        return self.assign(name, self.method(places, "amin", dims, "keepdim=True"))

    def _fold_at(self, t: Term) -> Code:
        place, name = t.args[0], t.attr.name
        if place.op != "index":
            raise UnsupportedError(f"{name} at a computed place is not part of the self-check")
        if isinstance(t.attr.monoid, T.UserMonoid):
            return self._fields(t)[0]
        if name in ("top", "argtop"):
            return self._top(t)[name == "argtop"]
        if name in KEEPING_REDUCTIONS:
            return self._softmax(t)
        # A prefix: the fold over those up to the place.
        (i,), (condition, *bodies) = self.open(t)
        until = T.conjunction(condition, T.compare("<=", i, place))
        return self.code(T.fold(name, (i,), until, *bodies))

    def open_at(self, t: Term) -> tuple[Term, ...]:
        """The condition and bodies of a fold that keeps its index, at its place."""
        place = t.args[0]
        if any(place.attr[0] in part.free for part in t.args[1:]):
            raise UnsupportedError(f"{t.attr.name} at another index is not part of the self-check")
        self.axis(place)
        return T.open_as(t, [place.attr[0]])[1]

    def _softmax(self, t: Term) -> Code:
        condition, body = self.open_at(t)
        place, name = t.args[0], t.attr.name
        x = self.tensor(self.code(body), "float")
        logits = self.elements(self.admitted(condition, (place,), body), x, "-torch.inf")
        logits = self.assign("logits", logits)
        masked = Code(f"{logits.text} == -torch.inf", _COMPARE)
        result = self.method(logits, name, str(self.axis(place)))
        unit = Code("0.0" if name == "softmax" else "-torch.inf")
        return self.assign(name, self.choose(masked, unit, result))

    def _top(self, t: Term) -> list[Code]:
        place = t.args[0]
        (i,), (condition, body) = self.open(t, avoid=(place.attr[0],))
        key = (condition, body, place)  # top and argtop come from one sort
        if key not in self.folded:
            x = self.tensor(self.code(body), "float")
            x = self.elements(self.admitted(condition, (i,), body), x, "-torch.inf")
            axes = f"{self.axis(i)}", f"{self.axis(place)}"
            made = self.call(self.whole.helper("top"), x, *axes, self.whole.size(place.attr[1]))
            self.folded[key] = self.unpack(["top", "argtop"], made)
        return self.folded[key]

    def unpack(self, wanted: Sequence[str], code: Code) -> list[Code]:
        """Names for the parts of a tuple."""
        names = [self.whole.fresh(f"{w}_1") for w in wanted]
        target = f"({names[0]},)" if len(names) == 1 else ", ".join(names)
        self.statements.append(f"{' ' * self.indent}{target} = {code.text}")
        return [Code(n) for n in names]

    def _fields(self, t: Term) -> list[Code]:
        """A user monoid's aggregate, all its fields."""
        found = self.folded.get(t)
        if found is None:
            self.folded[t] = found = self._fold_left(t)
        return found

    def _fold_left(self, t: Term) -> list[Code]:
        monoid: T.UserMonoid = t.attr.monoid
        combine, unit = self.whole.monoid(monoid)
        if t.op == "fold_at":
            opened: tuple[Term, ...] = (t.args[0],)
            condition, *bodies = self.open_at(t)
        else:
            opened, (condition, *bodies) = self.open(t)
        elements = self.tensors(bodies)
        admitted = self.code(T.conjunction(condition, *map(_always, opened)))
        last = ["prefix=True"] if t.op == "fold_at" else []
        for i in reversed(opened):  # row by row, as combining is associative
            parts = [combine, unit, str(self.axis(i)), admitted, *elements, *last]
            elements = self.unpack(monoid.fields, self.call(self.whole.helper("fold_left"), *parts))
            admitted = self.code(_always(opened[0]))
        return elements


_METHODS = {"max": "amax", "min": "amin"}
_LEAST, _LARGEST = "torch.iinfo(torch.int64).min", "torch.iinfo(torch.int64).max"
# The unit of each fold over floats (or conditions), and over ints.
_UNITS = {
    "sum": ("0.0", "0"),
    "prod": ("1.0", "1"),
    "max": ("-torch.inf", _LEAST),
    "min": ("torch.inf", _LARGEST),
    "any": ("False", "False"),
    "all": ("True", "True"),
    "logsumexp": ("-torch.inf", "-torch.inf"),
}


def _always(i: Term) -> Term:
    """A condition that always holds and has the index's axis."""
    return T.compare("<=", T.const(0), i)


def _plus(a: Code, b: Code) -> str:
    return f"{a.within(_SUM)} + {b.within(_SUM)}"


def _minus(a: Code, b: Code) -> str:
    return f"{a.within(_SUM)} - {b.within(_PRODUCT)}"


def _power(a: Code, b: Code) -> str:
    base, exponent = a.within(_ATOM), b.within(_UNARY)
    return (
        f"{base}**{exponent}"
        if _is_simple(base) and _is_simple(exponent)
        else (f"{base} ** {exponent}")
    )


def _is_simple(text: str) -> bool:
    """Does a formatter set ** without spaces beside this operand?"""
    text = text.removeprefix("-")
    return text.replace(".", "").replace("_", "").isalnum() or text.isidentifier()


def _split_number(number: T.Number) -> tuple[Fraction | float, Fraction]:
    """A number as a factor and a divisor; binary fractions need no divisor."""
    if isinstance(number, float) or number.denominator & (number.denominator - 1) == 0:
        return number, Fraction(1)
    return Fraction(number.numerator), Fraction(number.denominator)


def _shared(body: Term) -> frozenset[Term]:
    """Subterms that stand in more than one place."""
    seen: set[Term] = set()
    twice: set[Term] = set()
    for t in T.subterms(body):
        for child in T.children(t):
            (twice if child in seen else seen).add(child)
    return frozenset(t for t in twice if t.op not in ("read", "ref", "index"))


def _comment(text: str) -> list[str]:
    """A comment of one or more lines."""
    out, line = [], "    #"
    for word in text.split(" "):
        if len(line) + len(word) + 1 > WIDTH and line.strip() != "#":
            out.append(line)
            line = "    #  "
        line += " " + word
    return [*out, line]
