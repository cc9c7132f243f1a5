"""Block programs as Triton: each operation, access and statement has one way to be written."""

from __future__ import annotations

import ast
import math

from monocomp.backends.line_breaks import flat, lines
from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS, NEEDED
from monocomp.blocks import program as B

_BINARY: dict[str, ast.operator] = {
    "+": ast.Add(),
    "-": ast.Sub(),
    "*": ast.Mult(),
    "/": ast.Div(),
    "//": ast.FloorDiv(),
    "%": ast.Mod(),
    ">>": ast.RShift(),
    "&": ast.BitAnd(),
    "|": ast.BitOr(),
}
_COMPARE: dict[str, ast.cmpop] = {
    "==": ast.Eq(),
    "!=": ast.NotEq(),
    "<": ast.Lt(),
    "<=": ast.LtE(),
    ">": ast.Gt(),
    ">=": ast.GtE(),
}
_NONE = ast.Constant(None)


class Printer:
    """Prints one kernel; `helpers` are the functions that it calls and Triton lacks."""

    language = "tl"

    def __init__(self, program: B.BlockProgram) -> None:
        self.program = program
        self.out: list[str] = []
        self.origins: dict[int, B.Statement] = {}  # by the number of the line
        self._called: set[str] = set()

    @property
    def helpers(self) -> list[str]:
        """In the order of files."""
        needed = {n for h in self._called for n in NEEDED.get(h, ())}
        return [n for n in DEVICE_FUNCTIONS if n in self._called | needed]

    def kernel(self) -> list[str]:
        """The kernel's lines."""
        self.out = ["@triton.jit", f"def {self.program.name}(", *self._arguments(), "):"]
        self._body(self.program.body, 1)
        return self.out

    def _arguments(self) -> list[str]:
        constant = f": {self.language}.constexpr"
        arguments = self.program.arguments
        return [f"    {a.name.attr}{constant if a.is_constant else ''}," for a in arguments]

    def function(self, f: B.Function) -> str:
        """The text of a combine function."""
        self.origins = {}
        self.out = ["@triton.jit", f"def {f.name}({', '.join(x.attr for x in f.operands)}):"]
        self.out.append(f'    """{f.doc}"""')
        self._body(f.body, 1)
        results = list(map(self._expr, f.results))
        value = results[0] if len(results) == 1 else ast.Tuple(results, ast.Load())
        self.out += lines("return ", value, "", 1)
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
                self.out += lines(f"{targets} = ", self._expr(s.value), "", indent)
            case B.Load():
                self.out += lines(f"{s.target.attr} = ", self._load(s), "", indent)
            case B.Store():
                access = s.access
                function = "atomic_add" if s.mode == "add" else "store"
                call = self._of_language(function, self._address(access), self._expr(s.value))
                if access.mask is not None:
                    call.keywords.append(ast.keyword("mask", self._expr(access.mask)))
                if s.mode == "add":  # in any order
                    call.keywords.append(ast.keyword("sem", ast.Constant("relaxed")))
                self.out += lines("", call, "", indent)
            case B.For():
                before = f"for {s.variable.attr} in "
                self.out += lines(before, self._range(s.range), ":", indent)
                self._body(s.body, indent + 1)
            case B.While():
                self._put(f"while {flat(self._expr(s.test))}:", indent)
                self._body(s.body, indent + 1)
            case B.If():
                self._if(s, "if", indent)
            case B.Comment():
                self._put(f"# {s.text}", indent)

    def _put(self, line: str, indent: int) -> None:
        self.out.append("    " * indent + line)

    def _if(self, s: B.If, word: str, indent: int) -> None:
        self._put(f"{word} {flat(self._expr(s.test))}:", indent)
        self._body(s.body, indent + 1)
        if not s.body:
            self._put("pass", indent + 1)
        match s.orelse:
            case (B.If() as other,):
                self._if(other, "elif", indent)
            case (_, *_):
                self._put("else:", indent)
                self._body(s.orelse, indent + 1)

    def _range(self, r: B.Static | B.Serial | B.Blocks) -> ast.expr:
        match r:
            case B.Static():
                bounds = (r.stop,) if r.start is None else (r.start, r.stop)
                return self._of_language("static_range", *map(self._expr, bounds))
            case B.Serial():
                return _call(ast.Name("range"), self._expr(r.start), self._expr(r.stop))
        start, stop = self._expr(r.start), self._expr(r.stop)
        call = self._of_language("range", start, stop, self._length(r.axis))
        for keyword, value in (("num_stages", r.stages), ("flatten", r.fused)):
            if value is not None:
                call.keywords.append(ast.keyword(keyword, self._expr(value)))
        return call

    def _address(self, access: B.Pointers) -> ast.expr:
        found = self._expr(access.base)
        for x in access.offsets:
            found = ast.BinOp(found, _BINARY["+"], self._expr(x))
        return found

    def _load(self, s: B.Load) -> ast.expr:
        access = s.access
        if isinstance(access, B.Descriptor):
            load = ast.Attribute(self._expr(access.descriptor), "load", ast.Load())
            block = _call(load, ast.List([self._expr(x) for x in access.positions], ast.Load()))
            tile = self._of_language("reshape", block, self._shape(access.block.tile))
            return (
                tile if access.block.tile == s.target.layout else self._of_language("trans", tile)
            )
        call = self._of_language("load", self._address(access))
        for keyword, value in (("mask", access.mask), ("other", access.fill)):
            if value is not None:
                call.keywords.append(ast.keyword(keyword, self._expr(value)))
        return call

    # --- expressions --------------------------------------------------------------------------

    def _expr(self, e: B.Expr) -> ast.expr:
        if e.op in _BINARY:
            a, b = map(self._expr, e.args)
            return ast.BinOp(a, _BINARY[e.op], b)
        if e.op in B.COMPARISONS:
            a, b = map(self._expr, e.args)
            return ast.Compare(a, [_COMPARE[e.op]], [b])
        match e.op:
            case "name":
                return ast.Name(e.attr)
            case "number":
                return _literal(e.attr)
            case "text":
                return ast.Constant(e.attr)
            case "none":
                return _NONE
            case "arange":
                return self._of_language("arange", ast.Constant(0), self._length(e.layout[0]))
            case "full":
                value = self._expr(e.args[0])
                return self._of_language("full", self._shape(e.layout), value, self._dtype(e.dtype))
            case "zeros":
                return self._of_language("zeros", self._shape(e.layout), self._dtype(e.dtype))
            case "and" | "or":
                sign = ast.And() if e.op == "and" else ast.Or()
                return ast.BoolOp(sign, [self._expr(x) for x in _flattened(e)])
            case "neg":
                return ast.UnaryOp(ast.USub(), self._expr(e.args[0]))
            case "expand":
                positions: list[ast.expr] = [_NONE if a is None else ast.Slice() for a in e.layout]
                return ast.Subscript(self._expr(e.args[0]), ast.Tuple(positions), ast.Load())
            case "broadcast":
                return self._of_language(
                    "broadcast_to", self._expr(e.args[0]), self._shape(e.layout)
                )
            case "select":
                test, a, b = map(self._expr, e.args)
                return ast.IfExp(test, a, b)
            case "cast":
                return self._of_language("cast", self._expr(e.args[0]), self._dtype(e.dtype))
            case "to":
                method = ast.Attribute(self._expr(e.args[0]), "to", ast.Load())
                return _call(method, self._dtype(e.dtype))
            case "given":
                return ast.Compare(self._expr(e.args[0]), [ast.IsNot()], [_NONE])
            case "reduce" | "scan":
                return self._reduction(e.op, e, e.attr)
            case "maximum" | "minimum":
                nan = [_of(self.language, "PropagateNan", "ALL")] if e.attr else []
                return self._of_language(e.op, *map(self._expr, e.args), *nan)
            case "dot":
                call = self._of_language("dot", *map(self._expr, e.args))
                call.keywords.append(ast.keyword("input_precision", self._precision()))
                return call
            case "dot_in_limbs":
                operands = (*map(self._expr, e.args), self._dtype(e.attr), self._precision())
                return _call(self._helper("dot_in_limbs"), *operands)
            case "helper":
                return _call(self._helper(e.attr), *map(self._expr, e.args))
            case "combine":
                return _call(ast.Name(e.attr), *map(self._expr, e.args))
            case "program_id":
                return self._of_language("program_id", ast.Constant(0))
            case "function":
                return self._of_language(e.attr, *map(self._expr, e.args))
        return self._of_language(e.op, *map(self._expr, e.args))

    def _reduction(self, op: str, e: B.Expr, r: B.Reduction) -> ast.expr:
        tiles = list(map(self._expr, e.args))
        together = tiles[0] if len(tiles) == 1 else ast.Tuple(tiles, ast.Load())
        if r.kind == "built-in":
            return self._of_language(r.by, together, ast.Constant(r.dim))
        by = self._helper(r.by) if r.kind == "helper" else ast.Name(r.by)
        name = "reduce" if op == "reduce" else "associative_scan"
        return self._of_language(name, together, ast.Constant(r.dim), by)

    def _of_language(self, name: str, *args: ast.expr) -> ast.Call:
        return _call(_of(self.language, name), *args)

    def _helper(self, name: str) -> ast.expr:
        self._called.add(name)
        return ast.Name(name)

    def _length(self, axis: str | None) -> ast.expr:
        return self._expr(self.program.lengths[str(axis)])

    def _precision(self) -> ast.expr:
        assert self.program.precision is not None
        return self._expr(self.program.precision)

    def _shape(self, layout: B.Layout) -> ast.expr:
        return ast.List([self._length(a) if a else ast.Constant(1) for a in layout])

    def _dtype(self, dtype: B.Dtype) -> ast.expr:
        match dtype.of:
            case "tensor":
                return _of(dtype.name, "dtype", "element_ty")
            case "value":
                return _of(dtype.name, "dtype")
        return ast.Name(dtype.name) if dtype.name == "INDEX" else _of(self.language, dtype.name)


def _flattened(e: B.Expr) -> list[B.Expr]:
    """The operands of an operator and of those to its left that are the same."""
    a, b = e.args
    return [*(_flattened(a) if a.op == e.op else [a]), b]


def _of(name: str, *attributes: str) -> ast.expr:
    found: ast.expr = ast.Name(name)
    for a in attributes:
        found = ast.Attribute(found, a, ast.Load())
    return found


def _call(function: ast.expr, *args: ast.expr) -> ast.Call:
    return ast.Call(function, list(args), [])


def _literal(value: float) -> ast.expr:
    if isinstance(value, bool):
        return ast.Constant(value)
    if math.copysign(1, value) < 0:
        return ast.UnaryOp(ast.USub(), _literal(-value))
    if math.isinf(value):
        return _call(ast.Name("float"), ast.Constant("inf"))
    return ast.Constant(value)
