"""Changes to how the parts of a kernel synchronise, one at a time: in its block program, and in
what is emitted."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from monocomp import blocks as B

Change: TypeAlias = Callable[[ast.AST], None]
_SYNCHRONISING = {
    *("init", "wait", "arrive", "expect", "async_copy_global_to_shared", "fence_async_shared"),
    *("warpgroup_mma", "warpgroup_mma_wait", "keep_within"),
}
_STATEMENTS = B.Give | B.Take | B.Clear | B.Release | B.Skip | B.Issue | B.Wait | B.Turn
_STATEMENTS |= B.Tell | B.Learn
# To do these twice is to do them once.
_IDEMPOTENT = _SYNCHRONISING - {"arrive", "expect", "async_copy_global_to_shared"}


def of_program(program: B.BlockProgram) -> Iterator[tuple[str, B.BlockProgram]]:
    """Yield block programs without a statement that synchronises, or with one before another."""
    assert program.producer is not None
    for what, body in _of_body(program.body):
        yield f"consumer: {what}", replace(program, body=body)
    for what, body in _of_body(program.producer.body):
        yield f"producer: {what}", replace(program, producer=replace(program.producer, body=body))


def _of_body(body: B.Body) -> Iterator[tuple[str, B.Body]]:
    before = None
    for n, s in enumerate(body):
        for name in ("body", "orelse"):
            for what, inner in _of_body(getattr(s, name, ())):
                yield what, (*body[:n], replace(s, **{name: inner}), *body[n + 1 :])
        if isinstance(s, _STATEMENTS):
            yield f"without {s}", (*body[:n], *body[n + 1 :])
            if before is not None:
                changed = (*body[:before], s, *body[before:n], *body[n + 1 :])
                yield f"{s} before {body[before]}", changed
            before = n


@dataclass(frozen=True)
class Mutant:
    """A function, where in it something is changed, and how."""

    function: ast.stmt
    at: int
    what: str
    change: Change

    def made(self) -> ast.stmt:
        """Return the function with the change."""
        changed = copy.deepcopy(self.function)
        self.change(list(ast.walk(changed))[self.at])
        return changed


def of_function(function: ast.stmt) -> Iterator[Mutant]:
    """Yield mutants: a statement that synchronises is left out, stands twice, or stands before such
    a statement before it; an operand is another."""
    turns = _turns(function)
    for at, node in enumerate(ast.walk(function)):
        for what, change in (*_of_statements(node, turns), *_of_operands(node)):
            yield Mutant(function, at, what, change)


def _turns(function: ast.stmt) -> set[str]:
    """Return the names that say which slot comes next, and in which phase."""
    calls = [x for x in ast.walk(function) if isinstance(x, ast.Call)]
    asked = [a for x in calls if _name(x.func) in ("wait", "index") for a in x.args]
    return set().union(*map(_names, asked))


def _of_statements(node: ast.AST, turns: set[str]) -> Iterator[tuple[str, Change]]:
    for name in ("body", "orelse"):
        body = getattr(node, name, None)
        before = None
        for n, s in enumerate(body if isinstance(body, list) else ()):
            called = _called(s)
            if "index" in called and any(_targets(s) & _names(x) for x in body[n + 1 :]):
                yield f"another slot: {ast.unparse(s)}", _another_slot_of(name, n)
            if not called & _SYNCHRONISING and not _targets(s) & turns:
                continue
            text = ast.unparse(s)
            yield f"without {text}", _without(name, n)
            if not called & _IDEMPOTENT:
                yield f"twice {text}", _moved(name, n, n, 1)
            if before is not None and not _commute(s, body[before]):
                yield f"{text} before {ast.unparse(body[before])}", _moved(name, n, before, 0)
            before = n


def _commute(a: ast.stmt, b: ast.stmt) -> bool:
    """True if two statements are waits, or begin barriers, or one of them reads no turn that the
    other changes."""
    if any(name in _called(a) & _called(b) for name in ("wait", "init")):
        return True
    pairs = ((a, b), (b, a))
    changed = [
        _targets(x).isdisjoint(_names(y)) for x, y in pairs if not _called(x) - {"following"}
    ]
    return bool(changed) and all(changed)


def _targets(s: ast.AST) -> set[str]:
    """Return the names to which a statement gives values that are no constants."""
    match s:
        case ast.Assign(targets=[target], value=value) if not isinstance(value, ast.Constant):
            return _names(target)
        case ast.AugAssign(target=target):
            return _names(target)
    return set()


def _names(node: ast.AST) -> set[str]:
    return {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)


def _called(s: ast.AST) -> set[str]:
    """Return the functions that a statement calls itself."""
    if isinstance(s, ast.If | ast.For | ast.While | ast.FunctionDef):
        return set()
    return {_name(x.func) for x in ast.walk(s) if isinstance(x, ast.Call)}


def _without(name: str, n: int) -> Change:
    def change(node: ast.AST) -> None:
        getattr(node, name)[n] = ast.Pass()

    return change


def _moved(name: str, n: int, to: int, stays: int) -> Change:
    def change(node: ast.AST) -> None:
        body = getattr(node, name)
        body.insert(to, copy.deepcopy(body[n]))
        if not stays:
            del body[n + 1]

    return change


def _of_operands(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if not isinstance(node, ast.Call):
        return
    text = ast.unparse(node)
    name = _name(node.func)
    if name in _SYNCHRONISING - {"init"} and "index" in _called(node):
        yield f"another slot: {text}", _another_slot
    match name:
        case "wait":
            yield f"other parity: {text}", _operand(1, ast.BitXor(), 1)
        case "init" | "arrive":
            yield f"one more: {text}", _operand("count", ast.Add(), 1)
            yield f"one fewer: {text}", _operand("count", ast.Sub(), 1)
        case "expect":
            yield f"fewer bytes: {text}", _operand(1, ast.FloorDiv(), 2)
        case "warpgroup_mma_wait":
            yield f"one more behind: {text}", _operand("num_outstanding", ast.Add(), 1)
        case "allocate_shared_memory":
            yield f"a slot fewer: {text}", _slot_fewer


def _operand(which: int | str, op: ast.operator, by: int) -> Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Call)
        if isinstance(which, int):
            node.args[which] = ast.BinOp(node.args[which], op, ast.Constant(by))
        else:
            (keyword,) = (k for k in node.keywords if k.arg == which)
            keyword.value = ast.BinOp(keyword.value, op, ast.Constant(by))

    return change


def _another_slot(node: ast.AST) -> None:
    """Let the first block or barrier that is named be another one."""
    for x in ast.walk(node):
        if isinstance(x, ast.Call) and _name(x.func) == "index":
            x.args[0] = ast.BinOp(ast.Constant(1), ast.Sub(), x.args[0])
            return


def _another_slot_of(name: str, n: int) -> Change:
    return lambda node: _another_slot(getattr(node, name)[n])


def _slot_fewer(node: ast.AST) -> None:
    assert isinstance(node, ast.Call)
    shape = next(x for x in ast.walk(node.args[1]) if isinstance(x, ast.List))
    shape.elts[0] = ast.BinOp(shape.elts[0], ast.Sub(), ast.Constant(1))
