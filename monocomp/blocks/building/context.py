"""Hold what is known of a kernel while its block program is built, statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from monocomp import tile as P
from monocomp.blocks import (
    Argument,
    Assign,
    Blocks,
    Comment,
    Expr,
    For,
    Function,
    If,
    Layout,
    Origin,
    Statement,
    Static,
)
from monocomp.blocks.choices.choose import Choices
from monocomp.blocks.masking.phases import Phases
from monocomp.blocks.names import Constant, Key, Names, Scope
from monocomp.blocks.operations import are_same, is_constant, is_number, name, number, whole


@dataclass
class Stream:
    """A loop that is being written, in the phase that is being written.

    Attributes:
        loop, phases: the loop.
        unmasked: the phase whose blocks are inside for every row, as a test.
        seen: the phases of whose blocks every element is inside for some row, as a test.
        edge: is a block to be masked? None: all are.
        in_run: is this inside a run?
        covered: the phase whose blocks end only with their tensors, as a test; True for all.
        begin: where the first block begins; None if that is not known.
        range: where the elements that rows admit begin and end; None if that is not known.
        in_step: do its blocks begin at multiples of 16 elements, as a test; True if all do.
        sliding: where a block that slides would begin, and where elements end.
        fits: does no block slide, as a test; None if some may.
        is_aligned: have the positions of the first block a name?
        bounds: of a serial loop's only segment, each with the sign that compares elements with it.
        extremes: comparisons of what is read along the loop with extremes of rows, as sign, what is
            read, and extreme.
        admitted: what the mask admits.
        kept: the names of tiles that tell which elements are in the domain, by layout.
    """

    loop: P.Loop
    phases: Phases
    unmasked: Expr | None = None
    seen: Expr | None = None
    edge: Expr | None = None
    in_run: bool = False
    covered: Expr | bool = False
    begin: Expr | None = None
    range: tuple[Expr, Expr] | None = None
    in_step: Expr | bool = False
    sliding: tuple[Expr, Expr] | None = None
    fits: Expr | None = None
    is_aligned: bool = False
    bounds: list[tuple[str, Expr]] = field(default_factory=list)
    extremes: list[tuple[str, P.Expr, Expr]] = field(default_factory=list)
    admitted: Expr | None = None
    kept: dict[Layout, Expr] = field(default_factory=dict)


class Context:
    """The kernel, what has been decided, and what has been written so far."""

    def __init__(
        self,
        program: P.TileProgram,
        choices: Choices,
        scope: Callable[[str], Scope],
        kernel_name: str,
        functions: Mapping[str, str],
    ) -> None:
        self.program, self.choices = program, choices
        self.layouts, self.lets, self.meaning = choices.layouts, program.lets, program.meaning
        self.scope = scope
        self.names = Names(program, scope(kernel_name))
        self.targets = self.names.unread()  # to give values to
        self.function_names = functions  # of the combines, by monoid
        self.functions: dict[str, Function] = {}
        self.out: list[Statement] = []
        self.origin: Origin = program
        self.streams: list[Stream] = []
        self.changing: set[str] = set()  # names whose values may change
        self.locals: dict[str, Expr] = {}  # named so far
        self.known: set[str] = set()  # the locals that are no states
        self.bases: dict[str, Expr] = {}  # pointers that have a name here, by text
        self.cut: dict[tuple[str, str], Expr] = {}  # bounds of 64 bits within an axis, by text
        self.single: set[str] = set()  # axes of which just a block's first element counts
        blocked = program.axis_names("row", "stream", "whole")
        self.lengths = {a: self.names.block(a) for a in blocked}
        self.fast = self.names.option("FAST")  # may functions be as accurate as 16-bit results?

    def learn(self, arguments: Iterable[Argument], known: Mapping[Key, Constant]) -> None:
        """Note what is known of arguments."""
        self.names.learn(arguments, known)
        self.targets = self.names.unread()
        self.lengths = {a: self.names.block(a) for a in self.lengths}
        self.fast = self.names.option("FAST")

    # --- statements ---------------------------------------------------------------------------

    def put(self, s: Statement) -> None:
        """Write a statement; of one under a known test, what it holds."""
        if isinstance(s, If) and is_constant(s.test):
            self.out += s.body if s.test.attr else s.orelse
            return
        self.out.append(s if s.origin else replace(s, origin=self.origin))

    @contextmanager
    def of(self, origin: Origin) -> Iterator[None]:
        """Run what is inside with this as the origin of the statements that are put."""
        outer, self.origin = self.origin, origin
        yield
        self.origin = outer

    def say(self, text: str) -> None:
        self.put(Comment(text))

    def assign(self, target: Expr, value: Expr) -> Expr:
        """Give a name a value, which may change."""
        self.changing.add(target.attr)
        self._give(target, value)
        return target

    def let(self, target: Expr, value: Expr, is_static: bool = False) -> Expr:
        """Name a value, and return what is read for the name: a constant, the length of a block, or
        the name that a tile has already, as long as that does not change."""
        self._give(target, value, is_static)
        is_copy = value.op == "name" and value.layout == target.layout != ()
        is_length = any(are_same(value, x) for x in self.lengths.values())
        if not (is_constant(value) or is_copy or is_length):
            return target
        self.names.values[target.attr] = value
        return value

    def _give(self, target: Expr, value: Expr, is_static: bool = False) -> None:
        values = self.names.values
        stale = [n for n, x in values.items() if x.op == "name" and x.attr == target.attr]
        for identifier in (target.attr, *stale):
            values.pop(identifier, None)
        self.put(Assign((target,), whole(value, target.layout), self.origin, is_static))

    @contextmanager
    def block(self) -> Iterator[list[Statement]]:
        """Run what is inside with a list of its own for the statements that are put. It may run
        several times, or not at all: names that stand for others that change are read as such, and
        after it all those that it has given, of which none is known any more."""
        outer, self.out, bases, known = self.out, [], dict(self.bases), set(self.known)
        values = self.names.values
        for identifier in [n for n, x in values.items() if x.attr in self.changing]:
            del values[identifier]
        before = dict(values)
        try:
            yield self.out
        finally:
            self.out, self.bases, self.known = outer, bases, known
            for identifier in [n for n, x in values.items() if before.get(n) is not x]:
                del values[identifier]

    @contextmanager
    def under(self, test: Expr | None) -> Iterator[None]:
        """Run what is inside and put its statements under a test; as they are if there is none."""
        if test is None or is_number(test, True):
            yield
            return
        with self.block() as inner:
            yield
        self.put(If(test, tuple(inner)))

    @contextmanager
    def loop(self, variable: Expr, over: Static | Blocks) -> Iterator[Expr]:
        """Run what is inside, which writes the body of a loop, with what its variable stands for.
        Of a loop that runs once there is only the body."""
        if self._runs_once(over):
            yield self.let(variable, over.start or number(0))
            return
        with self.block() as inner:
            yield variable
        self.put(For(variable, over, tuple(inner)))

    def _runs_once(self, over: Static | Blocks) -> bool:
        start, stop = over.start or number(0), over.stop
        if isinstance(over, Blocks):
            return is_number(start, 0) and are_same(stop, self.names.block(over.axis))
        return is_constant(start) and is_number(stop, start.attr + 1)

    def local(self, name_: str, like: Expr | None = None) -> Expr:
        """Return a named value of the program; `like` it when it gets its value."""
        if like is not None:
            identifier = self.names.of("local", name_)
            self.locals[name_] = name(identifier, like.dtype, like.layout)
            return self.locals[name_]
        return self.names.read(self.locals[name_])

    def set_bound(self, purpose: str, axis: str, x: Expr) -> Expr:
        """Name a bound, but for literals and names."""
        if x.op == "name" or (x.op == "number" and x.attr >= 0):
            return x
        return self.let(self.targets.index(purpose, axis), x)

    # --- axes ---------------------------------------------------------------------------------

    def order(self, axes: Iterable[str]) -> tuple[str, ...]:
        """Return the dimensions that a tile of these axes has in the current scope."""
        return self.layouts.order(frozenset(axes) - self.single)

    def layout(self, e: P.Expr) -> tuple[str, ...]:
        """Return the dimensions that a value has in the current scope."""
        return tuple(a for a in self.layouts.of(e) if a not in self.single)

    def axis(self, axis: str) -> Expr:
        """Return the coordinates of an axis, or the first one if that alone counts."""
        return self.first(axis) if axis in self.single else self.names.axis(axis)

    def first(self, axis: str) -> Expr:
        """Return the position at which a block begins."""
        return self.names.index("first", axis)

    def stream(self, axis: str) -> Stream | None:
        """Return the loop over an axis that this is in."""
        return next((s for s in reversed(self.streams) if s.loop.axis.name == axis), None)

    def is_load(self, e: P.Expr) -> bool:
        return self.meaning(e).op == "load"

    def is_state(self, e: P.Expr) -> bool:
        """True if this is what a loop carries, or a fold comes to."""
        return e.op == "local" and e.attr not in self.lets

    def all_inside(self, layout: tuple[str, ...]) -> list[tuple[str, Expr]]:
        """Return the elements of a tile that are inside, along each axis; of blocks that slide all
        are."""
        tests = []
        for a in layout:
            stream = self.stream(a)
            if stream is None or stream.sliding is None:
                tests.append((a, self.names.inside(a)))
        return tests
