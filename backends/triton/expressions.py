"""Expressions of a tile program as expressions of Triton: tiles with named axes become tensors
whose dimensions are in one order, and matrix products calls of the matrix units.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property

from monocomp import counter_rng
from monocomp.backends.triton.operands import has_float, unconverted
from monocomp.backends.triton.periods import Periods
from monocomp.backends.triton.syntax import (
    ADD,
    ATOM,
    BIT_AND,
    BIT_OR,
    COMPARE,
    MUL,
    SMALL_INT,
    TYPES,
    UNARY,
    literal,
)
from monocomp.tile import Expr, expressions

# Operations that take no more than their operands: signs between them, and calls.
_SPELLINGS = {
    "add": ("+", ADD),
    "sub": ("-", ADD),
    "mul": ("*", MUL),
    "div": ("/", MUL),
    "and": ("&", BIT_AND),
    "or": ("|", BIT_OR),
    **{
        name: (f"tl.{name}", ATOM)
        for name in ("exp2", "log", "log2", "sqrt", "rsqrt", "abs", "sin", "cos", "erf", "floor")
    },
    "where": ("tl.where", ATOM),
}
_INFIX = {name for name, (_, level) in _SPELLINGS.items() if level < ATOM}
_BROADCASTING = ("compare", "where", "neg", "not", "cast", "masked")
_LARGEST = "1e38"  # what scale * x - scale * y takes in float32: more counts as infinite
_SMALL_FACTOR = 1 << 6  # it takes no index past 32 bits
_COMBINE = {"prod": "multiply", "max": "larger", "min": "smaller"}


class Expressions(Periods):
    """Writes expressions."""

    def _text(self, e: Expr, want: tuple[str, ...] | None = None, context: int = 0) -> str:
        """An expression for a tile of the wanted axes, in a place of the given priority."""
        have = self._layout(e)
        want = have if want is None else want
        if have == want or not have:
            text, level = self._bare(e, want if have else ())
            return f"({text})" if level < context else text
        if e.op in _INFIX or e.op in _BROADCASTING:
            text, level = self._bare(e, want)
            return f"({text})" if level < context else text
        text, level = self._bare(e, have)
        return self._spread(f"({text})" if level < ATOM else text, have, want)

    def _value(self, e: Expr, want: tuple[str, ...], context: int) -> str:
        """A float operand in float32: loaded tiles have the tensor's own type."""
        text = self._text(e, want, context)
        if e.op == "local" and self._is_load(e) and e.kind == "float":
            return self._spread(
                f"{self._text(e, self._layout(e), ATOM)}.to(tl.float32)", self._layout(e), want
            )
        if e.op == "local" and self._is_load(e) and e.kind == "bool":
            return f"({text} != 0)"
        return text

    def _whole_tile(self, e: Expr, layout: tuple[str, ...]) -> str:
        """A value with all axes of a layout, in the type of its kind."""
        have, kind, shape = self._order(e.axes), TYPES[e.kind], f"[{self._shape(layout)}]"
        text = f"{self._value(e, have, ATOM)}.to({kind})"
        if not have:
            plain = literal(e.attr, e.kind) if e.op == "number" else self._value(e, (), 0)
            return f"tl.full({shape}, {plain}, {kind})"
        if have != layout:
            return f"tl.broadcast_to({self._spread(text, have, layout)}, {shape})"
        return text

    def _wide(self, e: Expr, want: tuple[str, ...], context: int) -> str:
        """An operand of integer arithmetic that may leave 32 bits, or those of its tensor."""
        if e.op == "number" or e.kind != "int":
            return self._value(e, want, context)
        if not self._order(e.axes):  # may be a plain number
            return f"tl.cast({self._value(e, want, 0)}, tl.int64)"
        have = self._layout(e)
        return self._spread(f"{self._value(e, have, ATOM)}.to(tl.int64)", have, want)

    def _bare(self, e: Expr, want: tuple[str, ...]) -> tuple[str, int]:
        match e.op:
            case "number":
                text = literal(e.attr, e.kind)
                if e.kind == "int" and not -(1 << 31) <= e.attr < 1 << 31:
                    return f"tl.full([], {text}, tl.int64)", ATOM
                return text, UNARY if text.startswith("-") else ATOM
            case "param":
                return self._param(e.attr), ATOM
            case "extent":
                return self._size(e.attr), ATOM
            case "coordinate":
                return self._axis(e.attr), ATOM
            case "local" if self._is_moved(self._meaning(e)):
                return f"{self._local(e.attr)} + {self._moved(self._meaning(e))}", ADD
            case "local":
                return self._local(e.attr), ATOM
            case "contract":
                return self._product(e), ATOM
            case "reduce":
                return self._reduce(e), ATOM
            case "masked":
                return self._masked(e, want), ATOM
            case "cast":
                return self._cast(e, want)
            case "neg":
                return f"-{self._value(e.args[0], want, UNARY)}", UNARY
            case "not":
                return f"{self._value(e.args[0], want, COMPARE + 1)} == 0", COMPARE
            case "compare" if self._multiplies and _is_infinite(e):
                return f"{self._value(e.args[1], want, COMPARE + 1)} > {_LARGEST}", COMPARE
            case "compare":
                a, b = (self._value(x, want, COMPARE + 1) for x in e.args)
                return f"{a} {e.attr} {b}", COMPARE
            case "floordiv" | "mod":
                return self._division(e, want)
            case "sign" if e.kind == "int":
                a = self._value(e.args[0], want, COMPARE + 1)
                return f"tl.where({a} > 0, 1, tl.where({a} < 0, -1, 0))", ATOM
            case "sign":  # of NaN, NaN
                a = self._value(e.args[0], want, MUL + 1)
                return f"tl.where({a} > 0, 1.0, tl.where({a} < 0, -1.0, 0.0 * {a}))", ATOM
            case "maximum" | "minimum":
                return self._larger_or_smaller(e, want), ATOM
            case "stop":
                return self._value(e.args[0], want, ATOM), ATOM
            case "uniform":
                return self._uniform(e, want), ATOM
            case "tanh":
                self.helpers["tanh"] = None
                return f"tanh({self._value(e.args[0], want, 0)}, {self.fast})", ATOM
        if e.op in _INFIX:
            return self._infix(e, want)
        if e.op == "exp2" and self._is_fused(e.args[0]):
            scale, difference = e.args[0].args
            x, y = (self._value(a, want, MUL) for a in difference.args)
            factor = self._value(scale, want, MUL)
            return f"tl.exp2({factor} * {x} - {factor} * {y})", ATOM
        parts = ", ".join(self._value(a, want, 0) for a in e.args)
        function, level = _SPELLINGS[e.op]
        return f"{function}({parts})", level

    @abstractmethod
    def _masked(self, e: Expr, want: tuple[str, ...]) -> str:
        """A value where its axis is in the domain, and a unit elsewhere."""

    def _larger_or_smaller(self, e: Expr, want: tuple[str, ...]) -> str:
        """Where a NaN counts it is kept; the frame of a sum need not, the sum has it too."""
        if e.kind == "float" and e.attr != "frame":
            parts = ", ".join(self._value(a, want, 0) for a in e.args)
            return f"tl.{e.op}({parts}, tl.PropagateNan.ALL)"
        a, b = e.args
        second = self._reduce(b, "frame") if b.op == "reduce" else self._value(b, want, 0)
        return f"tl.{e.op}({self._value(a, want, 0)}, {second})"

    def _is_fused(self, e: Expr) -> bool:
        """Is this scale * (x - y) for a tile x and a row y, in a kernel that multiplies
        matrices? There scale * x - scale * y pays: one fused operation an element."""
        if e.op != "mul" or e.args[1].op != "sub" or self._order(e.args[0].axes):
            return False
        x, y = (self._order(a.axes) for a in e.args[1].args)
        return len(y) < len(x) and self._multiplies

    @cached_property
    def _multiplies(self) -> bool:
        """Does the kernel use the matrix units?"""
        return any(
            e.op == "contract" and self.operands.is_product(e)
            for e in expressions(self.program.body)
        )

    def _infix(self, e: Expr, want: tuple[str, ...]) -> tuple[str, int]:
        sign, level = _SPELLINGS[e.op]
        scalars = [a for a in e.args if not (self._order(a.axes) or _compares_numbers(a))]
        if e.op in ("and", "or") and want and scalars:
            # Triton's interpreter takes a truth value that it makes a tile of for a float.
            (other,) = (a for a in e.args if a is not scalars[0])
            scalar, tile = self._value(scalars[0], (), 0), self._value(other, want, 0)
            chosen = f"{tile}, False" if e.op == "and" else f"True, {tile}"
            return f"tl.where({scalar}, {chosen})", ATOM
        operand = self._wide if self._is_wide(e) else self._value
        a = operand(e.args[0], want, level)
        b = operand(e.args[1], want, level + (e.op in ("sub", "div", "and", "or")))
        if e.op in ("add", "mul"):
            b = operand(e.args[1], want, level + (e.args[1].op not in ("add", "mul")))
        return f"{a} {sign} {b}", level

    def _is_wide(self, e: Expr) -> bool:
        """Can integer arithmetic leave 32 bits, or the few of a small tensor's type?"""
        if e.kind != "int":
            return False
        numbers = [abs(a.attr) for a in e.args if a.op == "number"]
        if any(n >= SMALL_INT for n in numbers) or any(self._is_load(a) for a in e.args):
            return True
        return e.op == "mul" and not any(n <= _SMALL_FACTOR for n in numbers)

    def _cast(self, e: Expr, want: tuple[str, ...]) -> tuple[str, int]:
        kind = "tl.float32" if e.kind == "float" else "tl.int32"
        if not self._order(e.args[0].axes):  # may be a plain number
            return f"tl.cast({self._value(e.args[0], want, 0)}, {kind})", ATOM
        return f"{self._value(e.args[0], want, ATOM)}.to({kind})", ATOM

    def _division(self, e: Expr, want: tuple[str, ...]) -> tuple[str, int]:
        if self._is_moved(e):
            return f"{self._place(e)} + {self._moved(e)}", ADD
        if self._is_in_period(e):
            return self._place(e), MUL
        if e.attr == "nonnegative" and e.kind == "int" and _is_never_zero(e.args[1]):
            a = self._value(e.args[0], want, MUL)
            b = self._value(e.args[1], want, MUL + 1)
            return f"{a} {'//' if e.op == 'floordiv' else '%'} {b}", MUL
        helper = e.op if e.kind == "int" else f"float_{e.op}"
        self.helpers[helper] = None
        operand = self._wide if any(map(self._is_load, e.args)) else self._value
        a, b = (operand(x, want, 0) for x in e.args)
        is_place = e.op == "mod" and e.args[1].op == "extent" and self._order(e.axes)
        return f"{helper}({a}, {b}){'.to(INDEX)' if is_place else ''}", ATOM

    def _uniform(self, e: Expr, want: tuple[str, ...]) -> str:
        self.helpers["next_bits"] = None
        text = f"tl.full([], {counter_rng.START}, tl.uint32)"
        for a in e.args:
            value = self._value(a, want, 0)
            if not self._order(a.axes):
                value = f"tl.cast({value}, tl.int32)"
            text = f"next_bits({text}, {value})"
        bits = counter_rng.MANTISSA_BITS
        return f"(({text} >> {32 - bits}).to(tl.float32) * {2.0**-bits!r})"

    def _reduce(self, e: Expr, purpose: str = "") -> str:
        monoid, axis = e.attr
        operand = e.args[0]
        layout = self._layout(operand)
        text = self._value(operand, layout, 0)
        place = layout.index(axis)
        combine = _COMBINE.get(monoid)
        if combine is None or (combine != "multiply" and (e.kind != "float" or purpose)):
            return f"tl.{monoid}({text}, {place})"
        self.helpers[combine] = None
        return f"tl.reduce({text}, {place}, {combine})"

    def _product(self, e: Expr) -> str:
        """A product of two tiles on the matrix units, or by broadcasting where it is none."""
        if not self.operands.is_product(e):
            layout = self._order(e.args[0].axes | e.args[1].axes)
            operand = self._wide if not has_float(e) else self._value
            a, b = (operand(x, layout, MUL) for x in e.args[:2])
            total = f"tl.sum({a} * {b}, {layout.index(e.attr)})"
            if len(e.args) > 2:
                return f"({self._text(e.args[2], None, ADD)} + {total})"
            return total
        left, right = pair = self._operands(e)
        first, second = self._order(e.axes)
        a = self._side(left, (first, e.attr), right)
        b = self._side(right, (e.attr, second), left)
        if all(map(self._is_input, pair)) and not any(map(self._is_narrow, pair)):
            names = (self.lets[left.attr].attr, self.lets[right.attr].attr)
            if names not in self.shared:
                self.shared.append(names)
        if any(self._is_in_parts(*p) for p in (pair, pair[::-1])):
            self.helpers |= {"rounding_error": None, "dot_in_parts": None}
            acc = self._text(e.args[2]) if len(e.args) > 2 else "None"
            dtype = self._dtype_of_product(left, right) or self._dtype_of_product(right, left)
            return f"dot_in_parts({a}, {b}, {acc}, {dtype}, PRECISION)"
        initial = f", {self._text(e.args[2])}" if len(e.args) > 2 else ""
        return f"tl.dot({a}, {b}{initial}, input_precision=PRECISION)"

    def _side(self, e: Expr, want: tuple[str, ...], other: Expr) -> str:
        if self._is_in_parts(e, other):
            return self._text(e, want)
        text = self._text(unconverted(e), want, ATOM)
        dtype = self._dtype_of_product(e, other)
        return f"{text}.to({dtype})" if dtype else text

    def _is_in_parts(self, e: Expr, other: Expr) -> bool:
        """Is an operand multiplied in two parts? In float32 one is all there is."""
        return self.operands.is_in_parts(e) and self._dtype_of_product(e, other) is not None

    def _dtype_of_product(self, e: Expr, other: Expr) -> str | None:
        """What an operand is converted to. A tile of an input is multiplied as it is, and what
        kernels compute, also what they have stored, in the dtype of the tile that it meets. But
        nothing is rounded to 8 bits: an input of 8 bits is converted instead, except beside
        another one."""
        if self._is_input(e) and (not self._is_narrow(e) or self._is_narrow(other)):
            return None
        if self._is_input(other) and not self._is_narrow(other):
            return f"{self._local(other.attr)}.dtype"
        tensor = next((self.lets[n].attr for n in self.lets if self._loads_float(n)), None)
        if tensor is not None:
            return f"{self._pointer(tensor)}.dtype.element_ty"
        return "tl.bfloat16" if self.narrow else None

    def _loads_float(self, name: str) -> bool:
        e = self.lets[name]
        is_float = e.kind == "float" and e.attr not in self.narrow
        return self._is_read(e) and is_float and len(self._order(e.axes)) == 2

    def _is_input(self, e: Expr) -> bool:
        """Is this a tile of an input?"""
        return self._is_load(e) and self._is_read(self.lets[e.attr])

    def _is_narrow(self, e: Expr) -> bool:
        """Is this a tile of an input of 8 bits?"""
        return self._is_input(e) and self.lets[e.attr].attr in self.narrow

    def _is_read(self, e: Expr) -> bool:
        return e.op == "load" and not self.program.inputs[e.attr].is_stored


def _is_infinite(e: Expr) -> bool:
    """inf == abs(x)?"""
    a, b = e.args
    return e.attr == "==" and a.op == "number" and math.isinf(a.attr) and b.op == "abs"


def _compares_numbers(e: Expr) -> bool:
    return e.op == "compare" and all(a.op == "number" for a in e.args)


def _is_never_zero(e: Expr) -> bool:
    """Is a divisor a positive number, or made of extents? Nothing is computed for an extent 0."""
    if e.op == "number":
        return bool(e.attr > 0)
    return e.op == "extent" or (bool(e.args) and all(map(_is_never_zero, e.args)))
