"""Changes to how the parts of a kernel synchronise, one at a time: in its block program, and in
what is emitted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from monocomp import blocks as B

_STATEMENTS = B.Give | B.Take | B.Clear | B.Release | B.Skip | B.Issue | B.Wait | B.Turn
_STATEMENTS |= B.Tell | B.Learn
_SYNCHRONISING = re.compile(
    r"mbarrier\.[a-z]|async_copy|fence_async|warpgroup_mma|  keep_within\(|= following\(|_phase \^="
)
# To do these twice is to do them once.
_IDEMPOTENT = re.compile(r"\.(init|wait)\(|fence_async|warpgroup_mma|keep_within")
_OPERANDS = {
    "another slot": (r"(?<!init\()\b(\w+)\.index\(([^()]*)\)", r"\1.index(1 - (\2))"),
    "other parity": (r"(wait\(.*)\)$", r"\1 ^ 1)"),
    "one more": (r"count=(\w+)", r"count=\1 + 1"),
    "one fewer": (r"count=(\w+)", r"count=\1 - 1"),
    "fewer bytes": (r"nbytes", "nbytes // 2"),
    "one more behind": (r"num_outstanding=", "num_outstanding=1 + "),
    "a slot fewer": (r"(allocate_shared_memory.*?\[)", r"\1-1 + "),
}


def of_program(program: B.BlockProgram) -> Iterator[tuple[str, B.BlockProgram]]:
    """Yield block programs without a statement that synchronises, or with one before another."""
    for what, body in _of_body(program.body):
        yield f"consumer: {what}", replace(program, body=body)
    for what, body in _of_body(program.producer):
        yield f"producer: {what}", replace(program, producer=body)
    for what, body in _of_body(program.finder):
        yield f"finder: {what}", replace(program, finder=body)


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


def of_function(function: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    """Yield functions in which a line that synchronises is left out, stands twice, or has another
    operand."""
    lines = ast.unparse(function).splitlines()
    for n, line in enumerate(lines):
        text = line.strip()
        indent = line[: -len(text)]
        changed = {
            what: re.sub(*of, line, count=1)
            for what, of in _OPERANDS.items()
            if re.search(r"barrier|allocate|warpgroup_mma_wait|= \w+\.index", line)
        }
        if _SYNCHRONISING.search(line):
            changed["without"] = f"{indent}pass"
            if not _IDEMPOTENT.search(line):
                changed["twice"] = f"{line}\n{line}"
        for what, other in changed.items():
            if other != line:
                body = "\n".join([*lines[:n], other, *lines[n + 1 :]])
                yield f"{what} {text}", ast.parse(body).body[0]
