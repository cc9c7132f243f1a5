"""Values and steps: which function makes each tensor of a tape of which others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from monocomp.machine.cpu import CPU

Shape: TypeAlias = tuple[int, ...]
COMMUTATIVE = {"add", "mul", "maximum", "minimum", "and", "or", "eq", "ne"}
Forms: TypeAlias = dict[object, tuple["Value", Shape, float]]


def contiguous_strides(shape: Shape) -> Shape:
    """Return the strides of a tensor without gaps, as torch has them."""
    return torch.empty(shape, device="meta").stride()


def strides_of(tensor: torch.Tensor) -> Shape:
    """Return the strides of a tensor: without gaps, those of its shape, whatever it has for
    dimensions of one element."""
    shape = tuple(tensor.shape)
    return contiguous_strides(shape) if tensor.is_contiguous() else tensor.stride()


class Value:
    """A tensor of a tape.

    Attributes:
        shape, dtype: its own.
        known: its elements, if they do not depend on the call.
        is_unit: is it what a loop starts with, the unit of what it carries?
        root: what it is a view of, or itself.
        is_owned: is its memory the tape's own?
        is_dense: True if no two of its elements share memory, and none is left out between them.
        key, operands: those of the step that has made it, if it has a key.
        strides: of its elements in memory, if they are known.
        bounds: between which integers lie, if that is known.
    """

    __slots__ = (
        "bounds",
        "dtype",
        "is_dense",
        "is_owned",
        "is_unit",
        "key",
        "known",
        "operands",
        "root",
        "shape",
        "strides",
    )

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        known: torch.Tensor | None = None,
        root: Value | None = None,
        is_owned: bool = False,
    ) -> None:
        self.shape, self.dtype, self.known = shape, dtype, known
        self.root = self if root is None else root
        self.is_owned = is_owned
        self.is_unit = False
        self.is_dense = True
        self.key: Any = None
        self.operands: tuple[Value, ...] = ()
        self.strides = None if known is None else strides_of(known)
        self.bounds: tuple[int, int] | None = None

    @property
    def is_whole(self) -> bool:
        """True if it is all of some memory of the tape's own, each element once."""
        is_all = self.root.is_owned and math.prod(self.shape) == math.prod(self.root.shape)
        return self.is_owned or (self.is_dense and is_all)

    def is_made_by(self, key: object, *operands: Value) -> bool:
        """True if a step of a key has made it of just these."""
        return (self.key, self.operands) == (key, operands)

    @property
    def is_contiguous(self) -> bool:
        """True if its elements are in their order in memory, or that is not known."""
        return self.strides is None or self.strides == contiguous_strides(self.shape)

    def stand_in(self) -> torch.Tensor:
        """Return a tensor without elements in the same layout."""
        assert self.strides is not None
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="meta")

    @property
    def number(self) -> float | None:
        """Return all its elements, if they are known to be equal, and one is stored for all."""
        return None if self.known is None or self.known.numel() != 1 else self.known.item()


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """A function of values.

    Attributes:
        arguments: what follows the operands, the same in each call.
        takes_out: can it be told where to write?
        in_place: that may be the memory of so many operands, the first ones.
    """

    run: Callable[..., Any]
    operands: tuple[Value, ...]
    result: Value
    takes_out: bool
    in_place: int
    arguments: tuple[Any, ...] = ()

    def again(self, operands: Sequence[Value]) -> Step:
        """Return the step for other operands."""
        old, made = self.result, self.result
        if any(v is not w for v, w in zip(operands, self.operands, strict=True)):
            root = None if old.root is old else operands[0].root
            made = Value(old.shape, old.dtype, root=root, is_owned=old.is_owned)
            made.strides, made.is_dense = old.strides, old.is_dense
            if old.key is not None:
                made.key, made.operands = old.key, tuple(operands)
        return replace(self, operands=tuple(operands), result=made)


def computed(
    key: object,
    run: Callable[..., Any],
    operands: Sequence[Value],
    like: Value,
    arguments: tuple[Any, ...] = (),
    *,
    takes_out: bool = True,
    is_elementwise: bool = True,
) -> Step:
    """Return a step that makes a value with the layout of another one."""
    made = Value(like.shape, like.dtype, is_owned=True)
    made.key, made.operands = key, tuple(operands)
    made.strides = like.strides if like.is_dense else None
    in_place = len(operands) if is_elementwise else 0
    return Step(run, tuple(operands), made, takes_out, in_place, arguments)


class Recorder:
    """Notes steps.

    Args:
        count: of the values of a call.
        before: has recorded other steps, which are the first of these.

    Attributes:
        inputs: the values of a call, in their order.
        steps: what has been done.
        laws: gives another value for that of a key and operands, if there is one.
        forms: values by how they are computed, as `forms` has it.
    """

    def __init__(self, count: int, before: Recorder | None = None) -> None:
        self.inputs = [Value((), torch.float32) for _ in range(count)]
        self.steps: list[Step] = [] if before is None else [*before.steps]
        self.laws: Callable[[object, Sequence[Value]], Value | None] | None = None
        self._made: dict[object, Value] = {} if before is None else {**before._made}
        self.forms: Forms = {} if before is None else {**before.forms}

    def input(self, position: int, shape: tuple[int, ...], dtype: torch.dtype) -> Value:
        """Return a tensor that a call gives."""
        value = self.inputs[position]
        value.shape, value.dtype = shape, dtype
        return value

    def constant(self, key: object, tensor: torch.Tensor) -> Value:
        """Return a tensor of known elements, the same for the same key."""
        return self._made.setdefault(key, Value(tuple(tensor.shape), tensor.dtype, tensor))

    def step(
        self,
        key: object,
        run: Callable[..., Any],
        operands: Sequence[Value],
        shape: tuple[int, ...],
        dtype: torch.dtype,
        *,
        is_view: bool = False,
        takes_out: bool = False,
        is_elementwise: bool = True,
        has_layout: bool = True,
        arguments: tuple[Any, ...] = (),
    ) -> Value:
        """Return the value of a function of others, and of arguments that are known, of which
        the key tells it apart. Without one it is computed anew, in each call. One that has no
        layout is no tensor."""
        whole = None if key is None else identity(key, operands)
        made = None if whole is None else self._made.get(whole)
        if made is not None:
            return made
        known = self.laws(key, operands) if self.laws is not None else None
        if known is not None:
            return self._made.setdefault(whole, known)
        is_known = operands and all(v.known is not None for v in operands)
        if whole is not None and is_known and math.prod(shape) <= CPU.tile:
            made = self.alike(Value(shape, dtype, run(*(v.known for v in operands), *arguments)))
            if made.key is not None:
                return self._made.setdefault(whole, made)
        elif is_view:
            made = Value(shape, dtype, root=operands[0].root)
        else:
            made = Value(shape, dtype, is_owned=True)
        if made.known is None and has_layout:
            made.strides = _strides(run, operands, arguments, shape)
        in_place = len(operands) if is_elementwise else 0
        self.steps.append(Step(run, tuple(operands), made, takes_out, in_place, arguments))
        if whole is not None:
            self._made[whole] = made
            made.key, made.operands = key, tuple(operands)
        return made

    def made(self, key: object, operands: Sequence[Value]) -> Value | None:
        """Return the value of a function of others, if it has been recorded."""
        return self._made.get(identity(key, operands))

    def alike(self, value: Value) -> Value:
        """Return a value that is known to have the same elements."""
        assert value.known is not None
        elements = value.known.cpu().flatten().clone(memory_format=torch.contiguous_format)
        bits = elements.view(torch.uint8).numpy().tobytes()
        return self._made.setdefault((value.shape, value.dtype, bits), value)

    def copy(self, value: Value) -> Value:
        """Return the value in memory of its own."""

        def run(t: torch.Tensor) -> torch.Tensor:
            return t.clone(memory_format=torch.contiguous_format)

        made = self.step(None, run, [value], value.shape, value.dtype)
        made.key, made.operands = ("view", tuple(range(len(value.shape))), value.shape), (value,)
        return made


def needed(
    steps: Sequence[Step],
    inputs: Sequence[Value],
    results: Sequence[Value],
    is_shared: Callable[[Value], bool] = lambda v: False,
) -> list[Step]:
    """Return the steps that lead from inputs to results, but for those to what is kept, and to
    what is shared."""
    read = {v for v in results if not is_kept(v)}
    stop = {*inputs}
    kept = []
    for s in reversed(steps):
        if s.result in read and s.result not in stop and not is_shared(s.result):
            kept.append(s)
            read |= {v for v in s.operands if not is_kept(v)}
    return kept[::-1]


def is_kept(v: Value) -> bool:
    """True if a value is the same in all calls, and not too large to be held between them."""
    return v.known is not None and v.known.numel() <= CPU.kept


def identity(key: object, operands: Sequence[Value]) -> tuple[object, ...]:
    """Return what tells a function of values apart."""
    order = sorted(map(id, operands)) if key in COMMUTATIVE else map(id, operands)
    return key, *order


def _strides(
    run: Callable[..., Any], operands: Sequence[Value], arguments: Sequence[Any], shape: Shape
) -> Shape | None:
    """Return the strides of what a function makes, as it does for tensors without elements; None
    where it needs these."""
    if math.prod(shape) == 1:
        return contiguous_strides(shape)
    if any(v.strides is None for v in operands):
        return None
    try:
        made = run(*(v.stand_in() for v in operands), *arguments)
    except RuntimeError:
        return None
    return strides_of(made) if isinstance(made, torch.Tensor) and made.shape == shape else None
