"""Every operation of the table: typed, printed, parsed, and the same on every backend."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from monocomp.declarations.vocabulary import Kind
from monocomp.errors import InternalError
from monocomp.tile import Expr, apply, local
from monocomp.tile.operations import OPERATIONS, Operation, result_kind
from monocomp.tile.parser import parse
from monocomp.tile.printer import show
from tests.tile.running import BACKENDS

FLOATS = np.array([-2.5, -1.0, -0.25, 0.0, 0.25, 1.0, 2.0, 3.5, 7.0, 12.5, np.inf, -np.inf])
INTS = np.array([-7, -3, -2, -1, 0, 1, 2, 3, 5, 8, 11, 13])
VALUES = {"float": FLOATS.astype(np.float32), "int": INTS, "bool": INTS % 3 == 0}
KINDS: tuple[Kind, ...] = ("float", "int", "bool")
FINITE = ("floordiv", "mod")  # of what is infinite backends have their own opinions
ROWS = [o for o in OPERATIONS.values() if o.array or o.name in ("compare", "cast")]


def calls(row: Operation) -> list[Expr]:
    """Every well-typed call of an operation on locals x, y, z."""
    found = []
    count = row.most or row.least
    for kinds in product(KINDS, repeat=count):
        for attr in row.attr[0] if row.attr else (None,):
            args = [local(n, frozenset("i"), k) for n, k in zip("xyz", kinds, strict=False)]
            if result_kind(row, attr, kinds) is not None:
                found.append(apply(row.name, *args, attr=attr))
    return found


CALLS = {f"{show(e)} of {', '.join(a.kind for a in e.args)}": e for r in ROWS for e in calls(r)}


def kernel(e: Expr) -> str:
    """A kernel that does it once."""
    tensors = [f"{a.attr.upper()}: {a.kind}[i]" for a in e.args]
    lines = [f"kernel f({', '.join(tensors)}) -> O: {e.kind}[i]", "  row i"]
    lines += [f"  {a.attr}[i] = {a.attr.upper()}[i]" for a in e.args]
    return "\n".join([*lines, f"  o[i] = {show(e)}", "  store O[i] = o"])


def operands(e: Expr) -> dict[str, torch.Tensor]:
    """Values of all kinds of numbers that the operation takes."""
    found = {}
    for n, a in enumerate(e.args):
        values = np.roll(VALUES[a.kind], 5 * n)
        if a.kind == "float" and (e.op in FINITE or e.attr in ("frame", "int")):
            values = np.where(np.isfinite(values), values, np.float32(1.5))
        if e.attr == "nonnegative":
            values = np.abs(values)
        if e.op in FINITE and n == 1:
            values = np.where(values == 0, values.dtype.type(3), values)
        found[a.attr.upper()] = torch.as_tensor(values)
    return found


@pytest.mark.parametrize("name", CALLS)
def test_every_operation(name: str) -> None:
    e = CALLS[name]
    text = kernel(e)
    assert str(parse(text)) == text
    found = {b: run(text, operands(e), {}, 4)["O"].numpy() for b, run in BACKENDS.items()}
    for backend in ("torch", "triton"):
        np.testing.assert_allclose(
            found[backend], found["numpy"], rtol=2e-6, atol=1e-7, err_msg=backend
        )


@pytest.mark.parametrize("name", [o.name for o in ROWS])
def test_what_does_not_fit(name: str) -> None:
    """Operands of other kinds, or too few, are refused as an expression is built."""
    row = OPERATIONS[name]
    count = row.most or row.least
    attr = row.attr[0][-1] if row.attr else None
    refused = 0
    for kinds in product(KINDS, repeat=count):
        if result_kind(row, attr, kinds) is None:
            with pytest.raises(InternalError, match=f"{name} of "):
                apply(name, *(local("x", frozenset(), k) for k in kinds), attr=attr)
            refused += 1
    assert refused or name == "cast"
    with pytest.raises(InternalError, match=f"{name} of "):
        apply(name, *[local("x", frozenset(), "float")] * (row.least - 1), attr=attr)


def test_no_operation() -> None:
    with pytest.raises(InternalError, match="there is no cbrt of float"):
        apply("cbrt", local("x", frozenset(), "float"))


def test_nothing_is_reduced_along_an_axis_that_operands_lack() -> None:
    with pytest.raises(InternalError, match="reduce along k, which no operand has"):
        apply("reduce", local("x", frozenset("i"), "float"), attr=("sum", "k"))


def test_what_operations_cost() -> None:
    """What does something has a unit, and what does nothing has none."""
    for row in OPERATIONS.values():
        assert (row.unit is None) == (row.each == 0)
    free = {"number", "param", "extent", "coordinate", "local", "load", "masked", "cast", "stop"}
    assert {row.name for row in OPERATIONS.values() if row.unit is None} == free
