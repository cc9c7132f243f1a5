"""The type of every expression: int, float or bool.

Two passes. The first goes backward over the definitions and infers, from where an
undeclared input is used, whether it holds subscripts (int), conditions (bool) or values
(float). The second goes forward and checks: conditions are bool, subscripts are int.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NoReturn, TypeAlias

from monocomp.declarations.vocabulary import Kind
from monocomp.errors import Span, TypeMismatchError
from monocomp.language import syntax as S

Use: TypeAlias = Literal["int", "bool", "value"]

_SAME_KIND = ("abs", "sign", "stop", "maximum", "minimum")
_NUMBER_REDUCTIONS = ("sum", "max", "min", "prod", "top")


class Kinds:
    """Types of inputs, parameters, definitions and of expressions over them."""

    def __init__(
        self,
        declared: Mapping[str, Kind],
        params: Mapping[str, S.Param],
        definitions: Mapping[str, S.Definition],
    ) -> None:
        self._params = params
        self._definitions = definitions
        self._uses: dict[str, tuple[Use, Span]] = {}
        self._declared = declared
        self.definitions: dict[str, Kind] = {}
        for definition in reversed(list(definitions.values())):
            use, _ = self._uses.get(definition.name, ("value", definition.span))
            self._infer(definition.body, use)
        for definition in definitions.values():
            self.definitions[definition.name] = self.of(definition.body)

    def input(self, name: str) -> Kind:
        """Return the type of an input: as declared, else as used."""
        if name in self._declared:
            return self._declared[name]
        if name not in self._uses:
            return "float"
        return "int" if self._uses[name][0] == "int" else "bool"

    # Inference, from uses back to inputs

    def _infer(self, node: S.Expr, use: Use) -> None:
        match node:
            case S.Read() | S.Name(kind="scalar"):
                self._note(node.name, use, node.span)
        for number, part in enumerate(S.children(node)):
            self._infer(part, _use_of_child(node, number, use))

    def _note(self, name: str, use: Use, span: Span) -> None:
        if use == "value":
            return
        before, first = self._uses.get(name, (use, span))
        if before != use and name not in self._definitions and name not in self._declared:
            raise TypeMismatchError(
                f"'{name}' is used both as an index and as a condition",
                spans=(span, first),
                help=f"declare its type, input {name}[...]: int, and compare: {name}[...] != 0",
            )
        self._uses[name] = (before, first)

    # Checking, from inputs forward to definitions

    def of(self, node: S.Expr) -> Kind:
        """Return the type of an expression whose definitions are typed already."""
        match node:
            case S.Number():
                return "int" if isinstance(node.value, int) else "float"
            case S.Extent():
                return "int"
            case S.Name(kind="index"):
                return "int"
            case S.Name(kind="param"):
                return self._params[node.name].kind
            case S.Name() | S.Read():
                return self._of_read(node)
            case S.Unary(op="not") | S.Logic():
                for part in S.children(node):
                    self._need_bool(part)
                return "bool"
            case S.Compare():
                for part in node.operands:
                    self.of(part)
                return "bool"
            case S.Unary():
                return _number(self.of(node.operand))
            case S.Binary():
                return self._of_binary(node)
            case S.Call():
                return self._of_call(node)
            case S.Reduce():
                return self._of_reduce(node)
            case S.Field():
                return self.of(node.operand)

    def _of_read(self, node: S.Name | S.Read) -> Kind:
        if isinstance(node, S.Read):
            for part in node.subscripts:
                self._need_int(part, "an index")
        if node.name in self._definitions:
            return self.definitions[node.name]
        return self.input(node.name)

    def _of_binary(self, node: S.Binary) -> Kind:
        left, right = self.of(node.left), self.of(node.right)
        if node.op == "/" or "float" in (left, right):
            return "float"
        if node.op == "**":
            literal = isinstance(node.right, S.Number) and isinstance(node.right.value, int)
            return "int" if literal else "float"
        return "int"

    def _of_call(self, node: S.Call) -> Kind:
        if node.function == "where":
            self._need_bool(node.args[0])
            return _common(*(self.of(part) for part in node.args[1:]))
        if node.function == "uniform":
            for part in node.args:
                self._need_int(part, "a seed or counter")
            return "float"
        kinds = [self.of(part) for part in node.args]
        if node.function == "stop":
            return kinds[0]
        if node.function == "int":
            return "int"
        return _number(_common(*kinds)) if node.function in _SAME_KIND else "float"

    def _of_reduce(self, node: S.Reduce) -> Kind:
        if node.condition is not None:
            self._need_bool(node.condition)
        if node.op in ("any", "all"):
            self._need_bool(node.args[0])
            return "bool"
        kinds = [self.of(part) for part in node.args]
        if node.op in ("argmax", "argmin", "argtop"):
            return "int"
        return _number(kinds[0]) if node.op in _NUMBER_REDUCTIONS else "float"

    def _need_bool(self, node: S.Expr) -> None:
        kind = self.of(node)
        if kind != "bool":
            self._mismatch(
                node, f"{_a(kind)} where a condition is needed", "compare it, such as x != 0"
            )

    def _need_int(self, node: S.Expr, what: str) -> None:
        kind = self.of(node)
        if kind == "float":
            help = (
                "integer division is //, and int(x) the whole part of x; an input of integers is "
                "declared: input T[i]: int"
            )
            self._mismatch(node, f"a float where {what} is needed", help)

    def _mismatch(self, node: S.Expr, message: str, help: str) -> NoReturn:
        raise TypeMismatchError(message, spans=node.span, help=help)


def _use_of_child(node: S.Expr, number: int, use: Use) -> Use:
    """Return what a child is used as, given what its parent is used as."""
    passed: Use = "int" if use == "int" else "value"
    match node:
        case S.Read():
            return "int"
        case S.Unary(op="not") | S.Logic():
            return "bool"
        case S.Unary() | S.Binary(op="+" | "-" | "*" | "//" | "%"):
            return passed
        case S.Binary(op="**") if number == 0:
            return passed
        case S.Call(function="where"):
            return "bool" if number == 0 else use
        case S.Call(function="stop"):
            return use
        case S.Call(function="uniform"):
            return "int"
        case S.Call() if node.function in _SAME_KIND:
            return passed
        case S.Reduce():
            if node.condition is not None and number == 0:
                return "bool"
            if node.op in ("any", "all"):
                return "bool"
            return passed if node.op in _NUMBER_REDUCTIONS else "value"
    return "value"


def _number(kind: Kind) -> Kind:
    """Arithmetic counts a condition as 0 or 1."""
    return "int" if kind == "bool" else kind


def _common(*kinds: Kind) -> Kind:
    if "float" in kinds:
        return "float"
    return "int" if "int" in kinds else "bool"


def _a(kind: Kind) -> str:
    return "an int" if kind == "int" else f"a {kind}"
