"""Block programs as Triton: each operation, access and statement has one way to be written."""

from __future__ import annotations

import math
import re

from monocomp import blocks as B
from monocomp.backends.line_breaks import WIDTH, fill, fit, tuple_text
from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS
from monocomp.blocks.operations import bind_alike
from monocomp.errors import InternalError
from monocomp.tile import Let
from monocomp.tile.operations import OPERATIONS, sign_of
from monocomp.tile.printer import show

_LOOSE = ("neg", "select", "given")  # what needs brackets as an operand, as signs do
_CONSTANTS = {repr(math.log2(math.e)): "log2(e)", repr(math.log(2)): "log(2)"}


class Printer:
    """Prints one kernel."""

    language = "tl"

    def __init__(self, program: B.BlockProgram) -> None:
        self.program = program
        self.out: list[str] = []
        self.origins: dict[int, B.Statement] = {}  # by the number of the line

    def kernel(self) -> list[str]:
        """Return the kernel's lines."""
        self.out = ["@triton.jit", *fill(f"def {self.program.name}(", self._arguments(), "):", 0)]
        self._body(self.program.body, 1)
        return self.out

    def _arguments(self) -> list[str]:
        constant = f": {self.language}.constexpr"
        arguments = self.program.arguments
        return [a.name.attr + (constant if a.is_constant else "") for a in arguments]

    def function(self, f: B.Function) -> str:
        """Return the text of a combine function, which kernels of every language may call."""
        self.language, self.origins = Printer.language, {}
        self.out = ["@triton.jit", *fill(f"def {f.name}(", [x.attr for x in f.operands], "):", 0)]
        self.out.append(f'    """{f.doc}"""')
        self._body(f.body, 1)
        results = list(map(self._expr, f.results))
        value = results[0] if len(results) == 1 else tuple_text(results)
        self.out += fit("return ", value, "", 1)
        return "\n".join(self.out)

    # --- statements ---------------------------------------------------------------------------

    def _body(self, body: B.Body, indent: int) -> None:
        for s in body:
            first = len(self.out)
            self._statement(s, indent)
            for line in range(first, len(self.out)):
                self.origins.setdefault(line, s)

    def _statement(self, s: B.Statement, indent: int) -> None:
        match s:
            case B.Assign():
                targets = ", ".join(t.attr for t in s.targets)
                targets += f": {self.language}.constexpr" if s.is_static else ""
                lines = fit(f"{targets} = ", self._expr(s.value), "", indent)
                is_product = s.value.op == "dot" and len(s.value.args) == 2
                self._remark(lines, self._shape(s.value.layout) if is_product else _formula(s))
            case B.Load():
                lines = fit(f"{s.target.attr} = ", self._load(s), "", indent)
                is_tile = isinstance(s.access, B.Pointers) and len(s.target.layout) > 1
                self._remark(lines, self._shape(s.target.layout) if is_tile else "")
            case B.Store():
                function, order = "store", None
                if s.mode == "add":
                    function, order = "atomic_add", '"relaxed"'
                given = self._address(s.access), self._expr(s.value)
                text = self._call(function, *given, mask=self._given(s.access.mask), sem=order)
                self.out += fit("", text, "", indent)
            case B.For():
                before = f"for {s.variable.attr} in "
                self.out += fit(before, self._range(s.range), ":", indent)
                self._body(s.body, indent + 1)
            case B.While():
                self.out += fit("while ", self._expr(s.test), ":", indent)
                self._body(s.body, indent + 1)
            case B.If():
                self._if(s, "if", indent)
            case B.Comment():
                self._put(f"# {s.text}", indent)

    def _remark(self, lines: list[str], comment: str) -> None:
        """Put a statement with a comment behind it, if there is room."""
        last = f"{lines[-1]}  # {comment}"
        self.out += [*lines[:-1], last if comment and len(last) <= WIDTH else lines[-1]]

    def _put(self, line: str, indent: int) -> None:
        self.out.append("    " * indent + line)

    def _if(self, s: B.If, word: str, indent: int) -> None:
        self.out += fit(f"{word} ", self._expr(s.test), ":", indent)
        self._body(s.body, indent + 1)
        if not s.body:
            self._put("pass", indent + 1)
        match s.orelse:
            case (B.If() as other,):
                self._if(other, "elif", indent)
            case (_, *_):
                self._put("else:", indent)
                self._body(s.orelse, indent + 1)

    def _range(self, r: B.Range) -> str:
        match r:
            case B.Static():
                ends = (r.stop,) if r.start is None else (r.start, r.stop)
                return self._call("static_range", *map(self._expr, ends))
            case B.Serial():
                start, stop = self._expr(r.start), self._expr(r.stop)
                if r.together == 1:
                    return call("range", start, stop)
                return self._call("range", start, stop, loop_unroll_factor=str(r.together))
            case B.Blocks():
                bounds = (self._expr(r.start), self._expr(r.stop), self._length(r.axis))
                stages, fused = self._given(r.stages), self._given(r.fused)
                return self._call("range", *bounds, num_stages=stages, flatten=fused)
        raise InternalError(f"{self.program.name}: no instance of Triton's claims items")

    def _address(self, access: B.Pointers) -> str:
        return " + ".join(map(self._operand, (access.base, *access.offsets)))

    def _load(self, s: B.Load) -> str:
        access = s.access
        if isinstance(access, B.Descriptor):
            positions = ", ".join(map(self._expr, access.positions))
            block = call(f"{self._operand(access.descriptor)}.load", f"[{positions}]")
            tile = self._call("reshape", block, self._shape(access.block.tile))
            return tile if access.block.tile == s.target.layout else self._call("trans", tile)
        mask, fill = self._given(access.mask), self._given(access.fill)
        return self._call("load", self._address(access), mask=mask, other=fill)

    # --- expressions --------------------------------------------------------------------------

    def _expr(self, e: B.Expr) -> str:
        """Return an expression, whose text may have more brackets than it needs."""
        sign = sign_of(e.op, e.attr)
        if sign is not None:
            a, b = e.args
            inner = sign_of(a.op, a.attr)
            is_bare = inner is not None and bind_alike(inner, sign)
            left = self._expr(a) if is_bare else self._operand(a)
            return f"{left} {sign.text} {self._operand(b)}"
        args = tuple(map(self._operand, e.args))
        match e.op:
            case "name":
                return str(e.attr)
            case "number":
                return _literal(e.attr)
            case "text":
                return f'"{e.attr}"'
            case "none":
                return "None"
            case "arange":
                return self._tile(e, "0", self._length(e.layout[0]))
            case "full" | "zeros":
                return self._tile(e, self._shape(e.layout), *args, self._dtype(e.dtype))
            case "neg":
                return f"-{args[0]}"
            case "expand":
                dims = ", ".join("None" if a is None else ":" for a in e.layout)
                return f"{args[0]}[{dims}]"
            case "broadcast":
                return self._call("broadcast_to", *args, self._shape(e.layout))
            case "select":
                test, one, other = args
                return f"{one} if {test} else {other}"
            case "cast":
                return self._call("cast", *args, self._dtype(e.dtype))
            case "to":
                return call(f"{args[0]}.to", self._dtype(e.dtype))
            case "given":
                return f"{args[0]} is not None"
            case "reduce" | "scan":
                return self._reduction(e.op, args, e.attr)
            case "maximum" | "minimum":
                nan = [] if e.attr == "frame" else [f"{self.language}.PropagateNan.ALL"]
                return self._call(e.op, *args, *nan)
            case "dot":
                return self._call("dot", *args, input_precision=self._precision())
            case "dot_in_limbs":
                return call(e.op, *args, self._dtype(e.attr), self._precision())
            case "combine":
                return call(e.attr, *args)
            case "program_id":
                return self._call("program_id", "0")
        if e.op in DEVICE_FUNCTIONS:
            return call(e.op, *args)
        row = OPERATIONS.get(e.op)
        return self._call((row and row.device) or e.op, *args)

    def _operand(self, e: B.Expr) -> str:
        """Return an expression as a part of another one, in brackets where that may need them."""
        text = self._expr(e)
        is_loose = e.op in _LOOSE or sign_of(e.op, e.attr) is not None or text[0] == "-"
        return f"({text})" if is_loose else text

    def _given(self, e: B.Expr | None) -> str | None:
        return None if e is None else self._expr(e)

    def _tile(self, e: B.Expr, *args: str) -> str:
        """Return a tile that is made of numbers."""
        return self._call(e.op, *args)

    def _reduction(self, op: str, tiles: tuple[str, ...], r: B.Reduction) -> str:
        together = tiles[0] if len(tiles) == 1 else tuple_text(tiles)
        if r.kind == "built-in":
            return self._call(r.by, together, str(r.dim))
        name = "reduce" if op == "reduce" else "associative_scan"
        reverse = "True" if r.is_backwards else None
        return self._call(name, together, str(r.dim), r.by, reverse=reverse)

    def _call(self, name: str, *args: str, **keywords: str | None) -> str:
        """Return a call of a function of the language."""
        return call(f"{self.language}.{name}", *args, **keywords)

    def _length(self, axis: str | None) -> str:
        return self._expr(self.program.lengths[str(axis)])

    def _precision(self) -> str:
        assert self.program.precision is not None
        return self._expr(self.program.precision)

    def _shape(self, layout: B.Layout) -> str:
        return f"[{', '.join(self._length(a) if a else '1' for a in layout)}]"

    def _dtype(self, dtype: B.Dtype) -> str:
        match dtype.of:
            case "tensor":
                return f"{dtype.name}.dtype.element_ty"
            case "value":
                return f"{dtype.name}.dtype"
        return dtype.name if dtype.name == "INDEX" else f"{self.language}.{dtype.name}"


def call(function: str, *args: str, **keywords: str | None) -> str:
    """Return a call, with the keywords that have a value."""
    named = (f"{name}={value}" for name, value in keywords.items() if value is not None)
    return f"{function}({', '.join((*args, *named))})"


def _formula(s: B.Assign) -> str:
    """Return the formula of what is assigned, if it has constants that need a name."""
    text = show(s.origin.value) if isinstance(s.origin, Let) else ""
    named = re.sub(r"float\((\|\w+\|)\)", r"\1", text)
    for constant, meaning in _CONSTANTS.items():
        named = named.replace(constant, meaning)
    is_named = any(meaning in named for meaning in _CONSTANTS.values())
    return named.encode("ascii", "backslashreplace").decode() if is_named else ""


def _literal(value: float) -> str:
    return f'{"-" if value < 0 else ""}float("inf")' if math.isinf(value) else repr(value)
