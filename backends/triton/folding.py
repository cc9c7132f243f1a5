"""Functions of an emitted file with some of their arguments as constants: what follows from these
is computed, and what nobody reads any more is left out.

    fold(x | True)  =  True        fold(x & True)  =  x        fold(x * 1)  =  x
    fold(a if True else b)  =  a   fold(f(x, mask=True, other=0))  =  f(x)

It acts on Python's own syntax trees, so that it knows nothing about kernels but that an
assignment has no other effect.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any

from monocomp.backends.triton.layout import WIDTH, fit, parse
from monocomp.errors import InternalError

_NUMBERS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CALLS: dict[str, Callable[..., int]] = {
    "max": max,
    "min": min,
    "tl.maximum": max,
    "tl.minimum": min,
    "tl.cdiv": lambda a, b: -(-a // b),
    "triton.cdiv": lambda a, b: -(-a // b),
    "triton.next_power_of_2": lambda n: 1 << max(0, n - 1).bit_length(),
}


_CAST = ast.Attribute(ast.Name("tl", ast.Load()), "cast", ast.Load())


class Function:
    """A function of a file, to be folded and printed.

    Attributes:
        tree: its syntax tree.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        text = "\n".join(lines)
        module = parse(text)
        assert isinstance(module, ast.Module) and isinstance(module.body[0], ast.FunctionDef)
        self.tree = module.body[0]
        comments: list[str] = []
        self.comments: dict[int, list[str]] = {}  # by the line that they stand above
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip().startswith("#"):
                comments.append(line.strip())
            elif comments:
                self.comments[number], comments = comments, []

    def fold(self, constants: Mapping[str, ast.expr], present: Collection[str] = ()) -> None:
        """Replace names by constants; those that are present are known not to be None."""
        known, before = dict(constants), ""
        while before != (before := ast.dump(self.tree)):
            self.tree.body = _Folding(known, present).block(self.tree.body)
            known |= self._constants()
            self.tree.body = _Unread(self.read).block(self.tree.body)

    def call(self, name: str) -> ast.Call:
        """The launch of a kernel."""
        calls = (n for s in self.tree.body for n in ast.walk(s) if isinstance(n, ast.Call))
        return next(c for c in calls if ast.unparse(c.func).startswith(f"{name}["))

    def is_constant(self, parameter: str) -> bool:
        """Is this a parameter for which the function is compiled?"""
        given = (a for a in self.tree.args.args if a.arg == parameter)
        return any(a.annotation is not None for a in given)

    def keep_read(self) -> None:
        """Leave out the parameters that the body does not read."""
        self.tree.args.args = [a for a in self.tree.args.args if a.arg in self.read]

    @property
    def read(self) -> set[str]:
        """The names that the body reads."""
        nodes = (n for s in self.tree.body for n in ast.walk(s))
        return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}

    def _constants(self) -> dict[str, ast.expr]:
        """Names that are assigned once, and a constant."""
        nodes = [n for s in self.tree.body for n in ast.walk(s)]
        stored = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        count = Counter([*stored, *(a.arg for a in self.tree.args.args)])
        found: dict[str, ast.expr] = {}
        for n in nodes:
            match n:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant() as value):
                    if count[name] == 1:
                        found[name] = value
        return found

    def lines(self) -> list[str]:
        """The text."""
        given, out = self.tree.args, [f"@{ast.unparse(d)}" for d in self.tree.decorator_list]
        params = [ast.unparse(a) for a in given.args]
        params += ["*"] * bool(given.kwonlyargs)
        for a, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
            params.append(a.arg if default is None else f"{a.arg}={ast.unparse(default)}")
        head = f"def {self.tree.name}({', '.join(params)}):"
        if len(head) <= WIDTH:
            out.append(head)
        else:
            out += [f"def {self.tree.name}(", *(f"    {p}," for p in params), "):"]
        return out + self._block(self.tree.body, 1)

    def _block(self, body: Sequence[ast.stmt], indent: int) -> list[str]:
        pad, out = "    " * indent, []
        for s in body:
            out += [pad + c for c in self.comments.get(getattr(s, "lineno", 0), ())]
            match s:
                case ast.Assign(targets=[target], value=value):
                    out += fit(f"{_names(target)} = ", ast.unparse(value), "", indent)
                case ast.Expr(value=ast.Constant(value=str() as text)):
                    out.append(f'{pad}"""{text}"""')
                case ast.Expr(value=value):
                    out += fit("", ast.unparse(value), "", indent)
                case ast.Pass():
                    out.append(f"{pad}pass")
                case ast.Return(value=ast.expr() as value):
                    out.append(f"{pad}return {_names(value)}")
                case ast.Assert(test=test):
                    out.append(f"{pad}assert {ast.unparse(test).replace(' ** ', '**')}")
                case ast.For(target=target, iter=values):
                    out += fit(f"for {_names(target)} in ", ast.unparse(values), ":", indent)
                    out += self._block(s.body, indent + 1)
                case ast.While(test=test):
                    out += [f"{pad}while {ast.unparse(test)}:", *self._block(s.body, indent + 1)]
                case ast.If(test=test):
                    out += [f"{pad}if {ast.unparse(test)}:", *self._block(s.body, indent + 1)]
                    if s.orelse:
                        out += [f"{pad}else:", *self._block(s.orelse, indent + 1)]
                case _:
                    raise InternalError(f"no layout for {ast.dump(s)}")
        return out


def _names(target: ast.expr) -> str:
    return ast.unparse(target).strip("()")


class _Blocks(ast.NodeTransformer):
    """Keeps blocks from becoming empty: a statement without any goes with them."""

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in body:
            found = self.visit(s)
            out += found if isinstance(found, list) else [found] if found is not None else []
        return out

    def visit_If(self, s: ast.If) -> Any:
        s.test = self.visit(s.test)
        s.body, s.orelse = self.block(s.body), self.block(s.orelse)
        if isinstance(s.test, ast.Constant):
            return s.body if s.test.value else s.orelse
        if s.orelse and not s.body:
            s.body = [ast.Pass()]
        return s if s.body else None

    def visit_While(self, s: ast.While) -> ast.While:
        s.test, s.body = self.visit(s.test), self.block(s.body)
        return s

    def visit_For(self, s: ast.For) -> ast.For | None:
        s.iter, s.body = self.visit(s.iter), self.block(s.body)
        return s if s.body else None


class _Unread(_Blocks):
    """Leaves assignments out whose names nobody reads."""

    def __init__(self, read: Collection[str]) -> None:
        self.read = read

    def visit_Assign(self, s: ast.Assign) -> ast.Assign | None:
        names = {n.id for t in s.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        return None if names.isdisjoint(self.read) else s


class _Folding(_Blocks):
    """Computes what is known."""

    def __init__(self, known: Mapping[str, ast.expr], present: Collection[str]) -> None:
        self.known = known
        self.present = present

    def visit_Name(self, e: ast.Name) -> ast.expr:
        is_known = isinstance(e.ctx, ast.Load) and e.id in self.known
        return deepcopy(self.known[e.id]) if is_known else e

    def visit_Assign(self, s: ast.Assign) -> ast.Assign | None:
        s.value = self.visit(s.value)
        match s.targets, s.value:
            case [ast.Name(id=name)], ast.Name(id=same) if name == same:
                return None
            case [ast.Name(id=name)], _ if name in self.known:
                return None
        return s

    def visit_BinOp(self, e: ast.BinOp) -> ast.expr:
        self.generic_visit(e)
        a, b = e.left, e.right
        match e.op:
            case ast.BitOr() if _is(a, True) or _is(b, False):
                return a
            case ast.BitOr() if _is(b, True) or _is(a, False):
                return b
            case ast.BitAnd() if _is(a, False) or _is(b, True):
                return a
            case ast.BitAnd() if _is(b, False) or _is(a, True):
                return b
            case ast.Mult() if _is(a, 0) or _is(b, 1):
                return a
            case ast.Mult() if _is(b, 0) or _is(a, 1):
                return b
            case ast.Add() if _is(b, 0):
                return a
            case ast.Add() if _is(a, 0):
                return b
            case ast.Sub() | ast.FloorDiv() if _is(b, int(isinstance(e.op, ast.FloorDiv))):
                return a
            case ast.Mod() if _is(b, 1):
                return ast.Constant(0)
        return _computed(_NUMBERS.get(type(e.op)), a, b) or e

    def visit_Compare(self, e: ast.Compare) -> ast.expr:
        self.generic_visit(e)
        if len(e.ops) > 1:
            return e
        a, b = e.left, e.comparators[0]
        if isinstance(e.ops[0], ast.IsNot) and _is(b, None):
            if isinstance(a, ast.Constant):
                return ast.Constant(a.value is not None)
            is_present = isinstance(a, ast.Name) and a.id in self.present
            return ast.Constant(True) if is_present else e
        return _computed(_NUMBERS.get(type(e.ops[0])), a, b) or e

    def visit_BoolOp(self, e: ast.BoolOp) -> ast.expr:
        self.generic_visit(e)
        unit = isinstance(e.op, ast.And)
        if any(_is(x, not unit) for x in e.values):
            return ast.Constant(not unit)
        e.values = [x for x in e.values if not _is(x, unit)] or [ast.Constant(unit)]
        return e if len(e.values) > 1 else e.values[0]

    def visit_IfExp(self, e: ast.IfExp) -> ast.expr:
        self.generic_visit(e)
        if isinstance(e.test, ast.Constant):
            return e.body if e.test.value else e.orelse
        return e

    def visit_Subscript(self, e: ast.Subscript) -> ast.expr:
        self.generic_visit(e)
        return e.value if isinstance(e.value, ast.Constant) else e

    def visit_Call(self, e: ast.Call) -> ast.expr:
        self.generic_visit(e)
        if any(k.arg == "mask" and _is(k.value, True) for k in e.keywords):
            e.keywords = [k for k in e.keywords if k.arg not in ("mask", "other")]
        e.keywords = [k for k in e.keywords if not (k.arg == "num_stages" and _is(k.value, None))]
        match e:
            case ast.Call(func=ast.Attribute(value=ast.Call() as made, attr="to")):
                if ast.unparse(e.args[0]) == "tl.int32" and ast.unparse(made.func) == "tl.arange":
                    return made
            case ast.Call(func=ast.Attribute(value=ast.Constant() as number, attr="to")):
                e = ast.Call(_CAST, [number, *e.args], [])
        name = ast.unparse(e.func)
        if name == "in_turns" and _is(e.args[-1], 1):  # one place at a time: they are in turn
            return e.args[0]
        if name == "tl.cast" and _is(e.args[0], 0):
            return e.args[0]
        return _computed(_CALLS.get(name), *e.args) or e


def _is(e: ast.expr, value: object) -> bool:
    return isinstance(e, ast.Constant) and type(e.value) is type(value) and e.value == value


def _computed(f: Callable[..., Any] | None, *args: ast.expr) -> ast.Constant | None:
    """The constant that a function of integers gives, if its arguments are known."""
    values = [a.value for a in args if isinstance(a, ast.Constant)]
    if f is None or len(values) < len(args) or any(type(v) is not int for v in values):
        return None
    return ast.Constant(f(*values))
